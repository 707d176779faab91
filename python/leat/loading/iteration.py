"""The way a loader takes its next batch."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from .. import _leat, check, lightning, ranks, skipping
from ..errors import UnsupportedError
from ..feedback.deciding import Deciding
from ..feedback.lists import save_list
from ..mixtures.logs import lists_elsewhere
from ..stores.beside import Beside
from .agreement import Agreement
from .batch import Batch
from .peers import PeerError, Peers
from .reader import Pass, Reader


class Kept(NamedTuple):
    """A batch that was taken from the engine, and not handed out: a store could not be read."""

    core: _leat.Batch
    before: str  #: the library's state before it was taken


class Taking(Deciding, Reader):
    """The part of a loader that hands out batches: of the engine, with the values of stores, or from a peer."""

    _agreement: Agreement
    _calls: Any
    _is_placed: bool  # whether its rank was stated, by itself or by a mesh
    _kept: Kept | None
    _moved = False  # whether a batch was handed out since opening, or since a state was loaded
    _peers: Peers | None
    _resuming: bool
    _common: Callable[[tuple[int, int] | None], dict[str, str]]  # what all ranks must have in common

    def __iter__(self) -> Iterator[Any]:
        if not self._is_placed:
            ranks.check_still(self.rank, self.world_size)
        self._go_back()
        self._agreement.begin(self._core.next_start()[0])
        if self._sampler is not None:
            self._read_sampler()
        self._decide_epoch()
        iteration = Pass(self, self._core.start())
        self._kept, self._loaded = None, False
        if self._calls is not None:
            self._calls.open()
        if self._form.beside is not None:
            self._expect(self._form.beside, self._core.epoch(), -1)
        return iteration

    def peek(self) -> Any:
        """The batch that ``next`` would give now, without handing it out: the look-ahead of one batch that stale copies
        of a batch, prefetches to a device and stores need. None behind the last batch of an epoch.

        The position, ``state_dict()``, ``epoch`` and the counts of :meth:`stats` stay as they are, and ``next`` then
        gives the same batch: the same object as long as it is kept (a tuple is made anew), the same memory in any case.
        It counts as held (``max_held_bytes``). If a decision in between changes that batch, ``next`` gives the one that
        is planned then, and the peeked one stays valid. A broken sample raises as it would from ``next``.

        Raises:
            ValueError: no epoch has begun: ``iter(loader)`` begins one (:class:`leat.InvalidError`).
            leat.UnsupportedError: with ``in_order=False``, where the next batch is the one that is ready;
                with ``tp_read="first"`` or ``share="job"``.

        >>> loader = leat.Loader(leat.open(path), batch_size=32)
        >>> batches = iter(loader)
        >>> ahead = loader.peek()
        >>> loader.state_dict()["at"], next(batches) is ahead, loader.peek().step
        ({'epoch': 0, 'row': 0}, True, 1)
        """
        if self._peers is not None:
            raise UnsupportedError("peek() is of one process: with tp_read='first' several have one batch")
        return super().peek()

    def _read_sampler(self) -> None:
        """Takes over the PyTorch Sampler's list for the epoch that begins."""
        if self._resuming:  # within an epoch, with the positions that it began with
            self._resuming = False
            return
        positions = self._shared(self._read_once)
        self._unread = None
        self._core.set_positions(positions)
        self._sampled.begins(self._core.next_start()[0])
        self._decisions.take(self._core)
        if self._log_dir is not None and self._reads_sampler:
            for entry in lists_elsewhere(self._plain_state()):
                save_list(self._log_dir, entry["hash"], positions)

    @property
    def _reads_sampler(self) -> bool:
        """Whether it is this process that asks the sampler, whose lists all ranks of torch.distributed have."""
        return not self._distributed or ranks.leads()

    def _shared(self, make: Callable[[], np.ndarray[Any, Any]]) -> np.ndarray[Any, Any]:
        """The result of `make`, which only rank 0 calls where torch.distributed is initialised."""
        if not self._distributed:
            return make()
        if not self._reads_sampler:
            return ranks.broadcast(None)
        try:
            positions = make()
        except BaseException:
            with contextlib.suppress(RuntimeError):
                ranks.broadcast(None)  # tells the others
            raise
        return ranks.broadcast(positions)

    def __len__(self) -> int:
        """Batches of this rank in an epoch.

        Raises:
            RangeError: of a mixture whose epochs end by their sources, the epoch is too far ahead to be known.
        """
        lightning.is_here()
        skipping.install_if_here()
        begins, within = self._core.next_start()
        if self._sampler is None or self.epoch == begins + within - 1:  # its list is known once an epoch has begun
            steps = self._core.steps()
            if not steps and self._mixture is not None:  # raises where the epoch has no rows for any rank
                self._core.mix_counts(self.epoch, 0, np.zeros(len(self._mixture.names), np.uint64))
            return steps
        n = len(self._sampler)
        whole, rest = divmod(n, self._global)
        if not rest or self._tail == "drop":
            return whole
        if self._tail == "pad":
            return whole + 1
        mine = (self.rank + 1) * rest // self.world_size > self.rank * rest // self.world_size
        return whole + mine

    def set_epoch(self, epoch: int) -> None:
        epoch = check.integer("epoch", epoch)
        if hasattr(self._sampler, "set_epoch"):
            self._sampler.set_epoch(epoch)
            self._unread = None
        if self._drops(epoch):
            self._resuming = False
            if self._sampled is not None:
                self._sampled.begins(None)

    def _asked(self, function: Callable[..., Any], epoch: Callable[[], int]) -> Callable[..., Any]:
        """A function of the engine's that makes batches of an epoch, which may need functions of the program."""
        return function if self._calls is None else partial(self._calls.ask, function, epoch)

    # ---- one batch ---------------------------------------------------------------------------------------------------

    def _take(self, number: int) -> Any:
        batch = self._own(number) if self._peers is None else self._of_peers(self._peers, number)
        if batch is None:
            return None
        self._moved = True
        return self._given(batch)

    def _put_back(self) -> None:
        if self._peers is None and not self._distributed and self._kept is None:  # ranks take a step together
            super()._put_back()

    def _own(self, number: int) -> Batch | None:
        form = self._form
        if self._distributed:
            self._agreement.check()
        once = not form.looks and (form.card is not None or form.beside is not None)
        core, batch = self._taken_once(number) if once else self._taken(number)
        if core is None:
            self._agreement.check()
            if self._feedback is not None:
                self._feedback.ended()
            return None
        if (steered := self._mixture or self._feedback) is not None:
            steered.handed(core)
        if batch is None:
            batch = self._batch(core)
        if form.beside is not None:
            self._expect(form.beside, batch.epoch, batch.step)
        if self._distributed:
            self._agreement.left -= 1
            if not self._agreement.left:
                self._agreement.compare(core.epoch(), core.step(), self._common)
        return batch

    def _taken_once(self, number: int) -> tuple[_leat.Batch | None, Batch | None]:
        """The next batch if none can be peeked at: one whose store could not be read is kept for the next call."""
        kept = self._kept
        if kept is None or not self._finalizer.alive:  # one that is closed says so
            before = self._core.state()
            core = self._got(self._next, number)
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

    def _expect(self, beside: Beside, epoch: int, step: int) -> None:
        """Has what stores have for the batches behind a step read ahead."""
        beside.expect(self._core, epoch, step, self.rank * self._global // self.world_size, self._global)
