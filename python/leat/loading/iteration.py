"""One pass of a loader through an epoch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from .. import _leat
from .batch import Batch, Form
from .peers import PeerError

if TYPE_CHECKING:
    from .loader import Loader


class Kept(NamedTuple):
    """A batch that was taken from the engine, and not handed out: a store could not be read."""

    core: _leat.Batch
    before: str  #: the library's state before it was taken


class Iteration:
    """One pass through an epoch. After an exception the position has not moved: calling ``next`` again tries again."""

    __slots__ = (
        *("__weakref__", "_done", "_form", "_loader", "_next", "_number", "_peers", "_steered", "_tells", "_tuples"),
    )

    def __init__(self, loader: Loader, number: int) -> None:
        self._loader = loader  # keeps it open
        self._next = loader._asked(loader._core.next, loader._core.epoch)
        self._form = loader._form
        self._number = number
        self._done = False
        self._tuples = loader._yields == "tuple"
        self._steered = loader._mixture or loader._feedback
        self._peers = loader._peers
        self._tells = self._peers is None or self._peers.reads

    def __iter__(self) -> Iteration:
        return self

    def __next__(self) -> Any:
        batch = None if self._done else self._shared() if self._peers is not None else self._own()
        if batch is None:
            self._done = True
            raise StopIteration
        return self._loader._tuple(batch) if self._tuples else batch

    def _own(self) -> Batch | None:
        form = self._form
        if self._loader._distributed:
            self._loader._agreement.check(raises=self._tells)
        # What stores have is read before the position moves: after an error of theirs the batch comes again.
        ahead = self._loader._look() if form.beside is not None and form.beside.looks else None
        batch = None
        if form.beside is not None and not form.beside.looks:
            core, batch = self._taken(form)
        else:
            core = self._next(self._number)
        if core is None:
            if self._loader._distributed:
                self._loader._agreement.check(at_once=True, raises=self._tells)
            if self._loader._feedback is not None:
                self._loader._feedback.ended()
            return None
        if self._steered is not None:
            self._steered.handed(core)
        if self._loader._ahead is not None:
            batch, self._loader._ahead = self._loader._seen(core), None
        del ahead  # kept until here
        if batch is None:
            if not form.makers:
                form.learn(core)
            batch = form.batch(core)
        if form.beside is not None:
            self._loader._expect(form.beside, batch.epoch, batch.step)
        return batch

    def _taken(self, form: Form) -> tuple[_leat.Batch | None, Batch | None]:
        """The next batch where none can be looked at before it is taken: one of which a store could not be read is kept
        for the next call.
        """
        loader, kept = self._loader, self._loader._kept
        if kept is None or not loader._finalizer.alive:  # one that is closed says so
            before = loader._core.state()
            core = self._next(self._number)
            if core is None:
                return None, None
            kept = loader._kept = Kept(core, before)
        batch = loader._batch(kept.core)
        loader._kept = None
        return kept.core, batch

    def _shared(self) -> Batch | None:
        """The batch that one of the tensor-parallel peers makes for all."""
        peers = self._peers
        assert peers is not None
        if not peers.reads:
            try:
                batch = peers.receive()
            except PeerError as e:
                if e.moved:
                    self._own()
                raise
            mine = self._own()
            return None if mine is None else batch
        batch = None
        try:
            batch = self._own()
            for name in batch or ():
                batch[name]  # type: ignore[index]
        except BaseException as e:
            peers.fail(e, batch is not None)
            raise
        peers.send(batch)
        return batch
