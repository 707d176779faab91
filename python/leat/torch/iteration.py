"""One iteration over a DataLoader: from the order to batches, and the position that its state holds."""

from __future__ import annotations

import contextlib
import threading
import warnings
import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch

from .. import _leat
from ..closing import finalize
from ..errors import ClosedError, StateError
from ..workers import cores
from ..workers.feed import Delivered, Feed, NotYet, Planned
from ..workers.loop import Job
from ..workers.pool import Pool, threads_wanted
from .adapting import Adapting, world_size
from .in_process import InProcess, is_default
from .likeness import attribute
from .order import Order
from .pinning import Pinning, pin_device, pinned
from .position import Position
from .reading import draws_at_once
from .sharing import pool_for

_WINDOW = 24
_SPAN = "enumerate(DataLoader)#leat.__next__"
_RECORD = getattr(getattr(torch._C, "_profiler", None), "_RecordFunctionFast", None)


class Iteration:
    """One pass over an epoch; with persistent workers, one after another."""

    def __init__(self, loader: Any) -> None:
        self.ended: set[int] = set()  # workers whose streams are at their ends
        self.busy: Counter[int] = Counter()  # batches of each worker in flight
        self.order = Order(loader)
        self.source: Any = None  # of batches: the feed, pinned or not, or the process itself
        self.feed: Feed | None = None
        self.pool: Pool | None = None
        self.adapting: Adapting | None = None
        self.lock = threading.RLock()  # what threads share; a data set may ask for the next batch, too
        self.interrupted = False  # its contents are incomplete
        self.ended_workers: list[Any] = []
        self._device = pin_device(loader)
        self._begin(loader, first=True)
        self._end: Callable[[], Any] = _nothing
        if self.pool is not None:
            self._end = end = finalize(self, _finish, self.source, self.pool)
            end.atexit = False

    # ---- beginning -----------------------------------------------------------------------------------------------

    def _begin(self, original: Any, first: bool) -> None:
        loaded, original._loaded = original._unspent, None
        self.loads = original._loads
        if loaded is not None:
            original._epoch = loaded["epoch"]
        self.epoch = original._epoch
        original._epoch += 1
        self.original = weakref.ref(original)
        self.loader = self.order.loader = loader = original._copy()  # which does not keep this iterator
        self.ended.clear()
        midway = loaded is not None and "yielded" in loaded  # of an epoch
        ends = {} if self.feed is None else self.feed.end_states  # of the streams of the epoch before
        before = original._position
        self.left = before is not None and not before.over and before.yielded > 0
        self.position = position = Position(loader, self.order, self.epoch, loaded if midway else {}, ends)
        skip = frozenset(position.beyond).__contains__
        self.loaded = loaded or {}
        self.resumed = midway and "skipped" not in loaded
        self.before = position.yielded  # batches that were delivered before the state was taken
        try:
            self.order.begin(self.epoch, loaded, first, skip)
        except StateError:  # of a sampler that gives something else: the next iterator says so, too
            original._loaded, original._epoch = loaded, self.epoch
            raise
        if loaded is not None and "workers" in loaded:
            position.set_streams(loaded)
        elif loaded is not None and "dataset" in loaded and not loader.num_workers:
            position.streams = {0: ({"dataset": loaded["dataset"], "begin": True}, 0)}
        continues = loaded is None and not first and self._follows()
        plan = None if continues else self._plan(skip)
        if first:
            assert plan is not None
            self._open(plan)
        elif plan is not None:
            self._restart(plan)
        position.follow(self.source, self.feed, self.pool, self.adapting)
        position.unspent = loaded
        original._position = position

    def _follows(self) -> bool:
        """Whether the batches in flight are the ones that come now."""
        if not (self.loader._chained and self.order.own and self.loader.num_workers > 0):
            return False
        head = self.source.head()
        return head is not None and head.epoch == self.epoch and head.step == 0

    def _plan(self, skip: Callable[[int], bool]) -> Iterator[Planned]:
        loader, position = self.loader, self.position
        if loader._iterable:
            return self.order.streams(position.turns, self.ended, position.loaded_ended, self.busy)
        if loader._chained and self.order.own:
            return self.order.chain(skip, position.step)
        return self.order.batches(skip, position.step)

    def _job(self, collate: Callable[[Any], Any]) -> Job:
        loader = self.loader
        return Job(loader.dataset, collate, loader._iterable, loader.batch_size, loader._auto_collation,
        loader.drop_last, loader.on_error,
                   loader.reseed)  # fmt: skip

    def _resumes(self) -> dict[int, tuple[Any, int]]:
        return {w: (state, -passes) for w, (state, passes) in self.position.streams.items()}

    def _open(self, plan: Iterator[Planned]) -> None:
        loader = self.loader
        job = self._job(loader.collate_fn)
        if loader.num_workers == 0:
            key = (self.order.key_seed, self.epoch, self.position.turns[0] * (loader.batch_size or 1))
            self.source = InProcess(self.original(), job, plan, self._resumes().get(0), self.ended, key, self.left)
            return
        threads = threads_wanted(loader.multiprocessing_context)
        context = loader.multiprocessing_context
        if threads and loader.sample_timeout_s is not None:
            raise ValueError(
                "sample_timeout_s needs processes, and workers are threads here: give multiprocessing_context='fork' "
                "or another"
            )
        n = loader.num_workers
        room = n if not loader._adaptive else max(n, 2 * int(cores.share(world_size()) + 0.5), 4)

        def make() -> Pool:
            return Pool(loader.dataset, n, room, context, loader.worker_init_fn, self.order.base_seed, threads)

        self.pool = pool_for(loader, make, n, context)
        items = getattr(loader.dataset, "__getitems__", None)
        direct = is_default(loader.collate_fn) and loader._auto_collation and not loader._iterable and not items
        # Many workers on small batches need more in flight: eight rows for each (bench/simulate.py).
        window = loader._window_given or max(_WINDOW, 2 * n, -(-8 * n // (loader.batch_size or 1)))
        if loader._iterable:
            window = (loader.prefetch_factor or 2) * n
        options: dict[str, Any] = {
            "window": max(1, window),
            "distance": self._distance(max(1, window)),
            "window_bytes": _leat.memory_allowed() // 4,
            "collate": loader.collate_fn,
            "direct": direct,
            "in_order": loader.in_order,
            "sample_timeout_s": loader.sample_timeout_s,
            "ended": self.ended,
            "busy": self.busy,
        }
        try:
            feed = Feed(self.pool, job, plan, **options)
        except Exception:
            self.pool.let_go()
            if not self.pool.jobs:
                raise
            # the job cannot be sent: workers of its own
            self.pool = make()
            self.pool.hold()
            feed = Feed(self.pool, job, plan, **options)
        if loader._iterable:
            feed.states, feed.starts = self._resumes(), self.position.begun
        self.feed = self.source = feed
        if self._device is not None:
            device = self._device
            self.source = Pinning(feed, lambda value: pinned(value, device))
        if loader._adaptive and not loader._iterable:  # a stream belongs to its worker
            self.adapting = Adapting(self.pool, lambda: feed.stats["wait_s"])
        try:
            with self.pool.lock:
                feed.publish()
                self.pool.start()
        except BaseException:
            _finish(self.source, self.pool)
            raise

    def _distance(self, window: int) -> int:
        """The number of batches ahead that the sampler is read: as far as PyTorch does if it may draw as it goes."""
        reading = self.order.reading
        if reading is None or draws_at_once(reading.source):
            return window
        return int((self.loader.prefetch_factor or 2) * self.loader.num_workers)

    def _restart(self, plan: Iterator[Planned]) -> None:
        before = {} if self.feed is None else self.feed.starts
        self.source.restart(plan)
        if self.loader._iterable and self.pool is not None and self.feed is not None:
            # a worker is at the end of its stream, or at the place where it was left; its successor begins there
            self.position.begun = {**before, **self.feed.left, **self.position.begun}
            self.feed.states, self.feed.starts = self._resumes(), self.position.begun
            for i in range(self.pool.n):
                self.pool.tell(i, "rewind", self.feed.board.offset, self.feed.states.get(i))

    def _reset(self, loader: Any, first_iter: bool = False) -> None:
        self._begin(loader, first=False)

    # ---- batches -------------------------------------------------------------------------------------------------

    def __iter__(self) -> Iteration:
        return self

    def __len__(self) -> int:
        return len(self.loader._index_sampler)

    def __next__(self) -> Any:
        loader = self.loader
        if self.interrupted:
            raise RuntimeError("this iterator was interrupted in the middle of its work: iterate over the loader anew")
        original = self.original()
        if original is not None and original._loads != self.loads and not self.position.over:
            raise ClosedError("a state was loaded after this iterator had begun: iterate over the loader anew")
        try:
            return self._deliver(loader)
        except Exception:
            raise
        except BaseException:  # Ctrl-C: at any instruction, but for waits
            self.interrupted = not self.source.waiting
            raise

    def _deliver(self, loader: Any) -> Any:
        with _span():
            over = self.position.over
            made = None if over else self._next()
            if made is None and not over and self.loaded and self.position.yielded == self.before:
                made = self._nothing_left()
        if made is None:
            self._finish_epoch()
            raise StopIteration
        value = made.value
        if self._device is not None and self.pool is None:
            value = pinned(value, self._device)
        length = loader._IterableDataset_len_called
        if loader._iterable and length is not None and self.position.yielded > length:
            text = (
                f"Length of IterableDataset {loader.dataset} was reported to be {length}(when accessing "
                f"len(dataloader)), but {self.position.yielded} samples have been fetched. "
            )
            if loader.num_workers:
                text += (
                    "For multiprocessing data-loading, this could be caused by not properly configuring the "
                    "IterableDataset replica at each worker. Please see "
                    "https://pytorch.org/docs/stable/data.html#torch.utils.data.IterableDataset for examples."
                )
            warnings.warn(text, stacklevel=3)
        return (value, self._ids(made)) if loader.return_ids else value

    def _nothing_left(self) -> Delivered | None:
        """The first batch of the epoch after that of a state which turns out to have been taken after the last one. An
        epoch of a stream that has none follows from the state, and is nobody's wish.
        """
        original, iterable = self.original(), self.loader._iterable
        if original is not None and original._loaded is not None:  # meanwhile: it is for the next iterator
            return None
        made = self._next_epoch(self.loader if original is None else original) if self.resumed and self.before else None
        if made is None and iterable and "skipped" not in self.loaded:
            warnings.warn(
                f"epoch {self.epoch} has no batch: a state was loaded, and {type(self.loader.dataset).__name__} gives "
                "no samples after it, nor when it is iterated over again",
                stacklevel=4,
            )
        return made

    def _next(self) -> Delivered | None:
        if self.loader._chained and self.order.own and self.loader.num_workers > 0:
            head = self.source.head()
            if head is None or head.epoch != self.epoch:
                return None
        if self.pool is not None:  # which has a lock of its own, and does not hold it while it waits
            return self._take()
        with self.lock:
            return self._take()

    def _take(self) -> Delivered | None:
        try:
            made: Delivered | None = self.source.next(self.loader.timeout or None)
        except NotYet:
            raise RuntimeError(f"DataLoader timed out after {self.loader.timeout} seconds") from None
        except Exception:
            with self.lock:
                if self.source.failed is not None:
                    self.position.count(self.source.failed, None)
                    self.source.failed = None
            raise
        if made is not None:
            with self.lock:
                self.position.count(made.planned, made.state)
                if self.adapting is not None:
                    self.adapting.delivered(made.planned.rows)
        return made

    def _next_epoch(self, original: Any) -> Delivered | None:
        """The first batch of the next epoch."""
        self.position.unspent = None
        self.order.tell_next()
        if self.pool is not None and self.loader.persistent_workers:
            self._begin(original, first=False)
        else:
            self.close()
            self.__init__(original)  # type: ignore[misc]
        return self._next()

    def _ids(self, made: Delivered) -> Any:
        indices = made.planned.indices
        if made.broken:
            other = {row: other for row, _, other, _ in made.broken}
            kept = [row for row in range(len(indices)) if other.get(row, row) is not None]
            indices = [other.get(row, indices[row]) for row in kept]
        whole = isinstance(made.planned.indices, np.ndarray)
        return torch.tensor(indices, dtype=torch.int64) if whole else indices

    def _finish_epoch(self) -> None:
        with self.lock:
            if self.position.over:
                return
            self.position.over = True
            self.position.unspent = None
            if self.pool is None:
                self.source.rest(self.original())
        if not self.loader.persistent_workers:
            self.close()

    def close(self) -> None:
        """Ends the iterator and, unless others use them, its workers."""
        if self.pool is not None:
            self.ended_workers = self.pool.processes or self.ended_workers
        self._end()

    _shutdown_workers = close

    def __getattr__(self, name: str) -> Any:
        return attribute(self, name)

    def __getstate__(self) -> Any:
        # of the class that PyTorch's iterators raise
        raise NotImplementedError(
            "an iterator cannot be pickled: pickle the loader, and its state_dict() for the place"
        )


def _nothing() -> None:
    """The end of an iterator without workers."""


def _span() -> Any:
    """The view of profilers on the making of a batch; it is to cost nothing while none is at work."""
    if _RECORD is None or torch._C._autograd._profiler_enabled():
        return torch.autograd.profiler.record_function(_SPAN)
    return _RECORD(_SPAN)


def _finish(source: Any, pool: Pool | None) -> None:
    with contextlib.suppress(Exception):
        source.close()
    if pool is not None:
        pool.let_go()
