"""The way a loader takes its next batch."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any, NamedTuple

from .. import _leat
from ..stores.beside import Beside
from .agreement import Agreement
from .batch import Batch, Form
from .delivery import Delivering
from .peers import PeerError, Peers
from .reader import Reader


class Kept(NamedTuple):
    """A batch that was taken from the engine, and not handed out: a store could not be read."""

    core: _leat.Batch
    before: str  #: the library's state before it was taken


class Taking(Delivering, Reader):
    """The part of a loader that hands out batches: of the engine, with the values of stores, or from a peer."""

    _next: Callable[[int], _leat.Batch | None]
    _agreement: Agreement
    _ahead: weakref.ref[Batch] | None  # the peeked batch, if it is kept
    _distributed: bool
    _feedback: Any
    _form: Form
    _kept: Kept | None
    _mixture: Any
    _peers: Peers | None

    def _take(self, number: int) -> Any:
        batch = self._own(number) if self._peers is None else self._of_peers(self._peers, number)
        return self._tuple(batch) if batch is not None and self._yields == "tuple" else batch

    def _own(self, number: int) -> Batch | None:
        form = self._form
        if self._distributed:
            tells = self._peers is None or self._peers.reads
            self._agreement.check(raises=tells)
        # Values of stores are read before the position moves: after an error of theirs the batch comes again.
        ahead = self._look() if form.beside is not None and form.beside.looks else None
        batch = None
        if form.beside is not None and not form.beside.looks:
            core, batch = self._taken(number)
        else:
            core = self._next(number)
        if core is None:
            if self._distributed:
                self._agreement.check(at_once=True, raises=tells)
            if self._feedback is not None:
                self._feedback.ended()
            return None
        if (steered := self._mixture or self._feedback) is not None:
            steered.handed(core)
        if self._ahead is not None:
            batch, self._ahead = self._seen(core), None
        del ahead  # kept until here
        if batch is None:
            batch = self._batch(core)
        if form.beside is not None:
            self._expect(form.beside, batch.epoch, batch.step)
        return batch

    def _taken(self, number: int) -> tuple[_leat.Batch | None, Batch | None]:
        """The next batch if none can be peeked at: one whose store could not be read is kept for the next call."""
        kept = self._kept
        if kept is None or not self._finalizer.alive:  # one that is closed says so
            before = self._core.state()
            core = self._next(number)
            if core is None:
                return None, None
            kept = self._kept = Kept(core, before)
        batch = self._batch(kept.core)
        self._kept = None
        return kept.core, batch

    def _of_peers(self, peers: Peers, number: int) -> Batch | None:
        """The batch that one of the tensor-parallel peers makes for all."""
        if not peers.reads:
            try:
                batch = peers.receive()
            except PeerError as e:
                if e.moved:
                    self._own(number)
                raise
            mine = self._own(number)
            return None if mine is None else batch
        batch = None
        try:
            batch = self._own(number)
            for name in batch or ():
                batch[name]  # type: ignore[index]
        except BaseException as e:
            peers.fail(e, batch is not None)
            raise
        peers.send(batch)
        return batch

    def _look(self) -> Batch | None:
        raise NotImplementedError

    def _seen(self, core: _leat.Batch) -> Batch | None:
        raise NotImplementedError

    def _expect(self, beside: Beside, epoch: int, step: int) -> None:
        raise NotImplementedError
