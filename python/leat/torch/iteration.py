"""One iteration over a DataLoader: from the order to batches, and the position that its state holds."""

from __future__ import annotations

import contextlib
import copy
import warnings
import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch.utils.data._utils import collate as torch_collate

from .. import _leat
from ..workers import cores
from ..workers.feed import Delivered, Feed, NotYet, Planned
from ..workers.loop import ITER, Job
from ..workers.pool import Pool, threads_wanted
from .adapting import Adapting, world_size
from .in_process import InProcess
from .order import Order, generators_in, plain, text_of, turns_of
from .pinning import Pinning, pin_device, pinned
from .sharing import pool_for
from .state import VERSION

_WINDOW = 24
_PRISTINE = dict(torch_collate.default_collate_fn_map)


class Iteration:
    """One pass over an epoch; with persistent workers, one after another."""

    def __init__(self, loader: Any) -> None:
        self.loader = copy.copy(loader)  # not the loader itself, which may keep this iterator
        self.ended: set[int] = set()  # workers whose streams are at their ends
        self.busy: Counter[int] = Counter()  # batches of each worker in flight
        self.order = Order(loader)
        self.begun: dict[int, Any] = {}  # states of data sets and iterators at the epoch's start
        self.source: Any = None  # of batches: the feed, pinned or not, or the process itself
        self.feed: Feed | None = None
        self.pool: Pool | None = None
        self.adapting: Adapting | None = None
        self.interrupted = False  # its contents are incomplete
        self._device = pin_device(loader)
        self._begin(loader, first=True)
        self._end = weakref.finalize(self, _finish, self.source, self.pool)
        self._end.atexit = False

    # ---- beginning -----------------------------------------------------------------------------------------------

    def _begin(self, original: Any, first: bool) -> None:
        loaded, original._loaded = original._loaded, None
        self.epoch = original._epoch
        original._epoch += 1
        original._parting = None
        self.original = weakref.ref(original)
        self.loader = loader = copy.copy(original)
        self.order.loader = loader
        self.order.sampler_states.clear()
        self.ended.clear()
        self.step = 0  # delivered
        self.beyond: set[int] = set()
        self.over = False
        self.yielded = 0
        self.delivered: dict[int, tuple[Any, int]] = {}
        self.turns = [0] * max(1, loader.num_workers)  # batches of each stream that were planned before
        self.loaded_ended: set[int] = set()
        self.begun = dict(self.feed.end_states) if self.feed is not None else {}
        self.order.begin(self.epoch, loaded, first)
        if loaded is not None and "yielded" in loaded:
            self.step = loaded["step"]
            self.beyond = set(loaded.get("beyond", ()))
            self.order.sampler_state = loaded.get("sampler")
            if self.step and self.order.sampler_state is not None:
                self.order.sampler_states[self.step - 1] = self.order.sampler_state
            self.yielded = loaded["yielded"]
        if loaded is not None and "workers" in loaded:
            self.delivered = {int(w): (state, count) for w, state, count in loaded["streams"]}
            self.turns = turns_of(loaded["turn"], len(self.turns))
            # A stream with a state is read once more: only its end says where its next epoch begins.
            self.loaded_ended = {w for w in loaded["ended"] if self.delivered.get(w, (None, 0))[0] is None}
        self.resumed = loaded is not None and "yielded" in loaded  # in an epoch that had begun
        self.before = self.yielded  # batches that were delivered before the state was taken
        continues = loaded is None and not first and self._follows()
        plan = None if continues else self._plan()
        if first:
            assert plan is not None
            self._open(plan)
        elif plan is not None:
            self._restart(plan)

    def _follows(self) -> bool:
        """Whether the batches in flight are those that come now."""
        if not (self.loader._chained and self.order.own and self.loader.num_workers > 0):
            return False
        head = self.source.head()
        return head is not None and head.epoch == self.epoch and head.step == 0

    def _plan(self) -> Iterator[Planned]:
        loader, skip = self.loader, frozenset(self.beyond).__contains__
        if loader._iterable:
            return self.order.streams(self.turns, self.ended, self.loaded_ended, self.busy)
        if loader._chained and self.order.own:
            return self.order.chain(skip, self.step)
        return self.order.batches(skip, self.step, self.resumed)

    def _job(self, collate: Callable[[Any], Any]) -> Job:
        loader = self.loader
        return Job(loader.dataset, collate, loader._iterable, loader.batch_size, loader._auto_collation,
        loader.drop_last, loader.on_error,
                   loader.reseed)  # fmt: skip

    def _resumes(self) -> dict[int, tuple[Any, int]]:
        return {w: (state, -passes) for w, (state, passes) in self.delivered.items()}

    def _open(self, plan: Iterator[Planned]) -> None:
        loader = self.loader
        job = self._job(loader.collate_fn)
        if loader.num_workers == 0:
            self.source = InProcess(job, plan, self._resumes().get(0), self.ended)
            if self.source.begun is not None:
                self.begun[0] = self.source.begun
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
        default = (
            loader.collate_fn is torch_collate.default_collate and torch_collate.default_collate_fn_map == _PRISTINE
        )
        items = getattr(loader.dataset, "__getitems__", None)
        direct = default and loader._auto_collation and not loader._iterable and not items
        # Many workers on small batches need more in flight: eight rows for each (bench/simulate.py).
        window = loader._window_given or max(_WINDOW, 2 * n, -(-8 * n // (loader.batch_size or 1)))
        if loader._iterable:
            window = (loader.prefetch_factor or 2) * n
        options: dict[str, Any] = {
            "window": max(1, window),
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
            feed.states = self._resumes()
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

    def _restart(self, plan: Iterator[Planned]) -> None:
        self.source.restart(plan)
        if self.loader._iterable and self.pool is not None and self.feed is not None:
            self.feed.states = self._resumes()
            for i in range(self.pool.n):
                self.pool.tell(i, "rewind", self.feed.board.offset, self.feed.resume_of(i))

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
        try:
            return self._deliver(loader)
        except Exception:
            raise
        except BaseException:  # Ctrl-C: at any instruction, but for waits
            self.interrupted = not self.source.waiting
            raise

    def _deliver(self, loader: Any) -> Any:
        with torch.autograd.profiler.record_function("enumerate(DataLoader)#leat.__next__"):
            made = None if self.over else self._next()
            if made is None and loader._iterable and self.yielded == self.before > 0:
                made = self._next_epoch()
        if made is None:
            self._finish_epoch()
            raise StopIteration
        value = made.value
        if self._device is not None and self.pool is None:
            value = pinned(value, self._device)
        length = loader._IterableDataset_len_called
        if loader._iterable and length is not None and self.yielded > length:
            text = (
                f"Length of IterableDataset {loader.dataset} was reported to be {length}(when accessing "
                f"len(dataloader)), but {self.yielded} samples have been fetched. "
            )
            if loader.num_workers:
                text += (
                    "For multiprocessing data-loading, this could be caused by not properly configuring the "
                    "IterableDataset replica at each worker. Please see "
                    "https://pytorch.org/docs/stable/data.html#torch.utils.data.IterableDataset for examples."
                )
            warnings.warn(text, stacklevel=3)
        return (value, self._ids(made)) if loader.return_ids else value

    def _next(self) -> Delivered | None:
        if self.loader._chained and self.order.own and self.loader.num_workers > 0:
            head = self.source.head()
            if head is None or head.epoch != self.epoch:
                return None
        try:
            made: Delivered | None = self.source.next(self.loader.timeout or None)
        except NotYet:
            raise RuntimeError(f"DataLoader timed out after {self.loader.timeout} seconds") from None
        except Exception:
            if self.source.failed is not None:
                self._count(self.source.failed, None)
                self.source.failed = None
            raise
        if made is not None:
            self._count(made.planned, made.state)
            if self.adapting is not None:
                self.adapting.delivered(made.planned.rows)
        return made

    def _next_epoch(self) -> Delivered | None:
        """The first batch of the next epoch: the state was taken after what turned out to be a stream's last."""
        original = self.original()
        original = self.loader if original is None else original
        if original._loaded is not None:  # meanwhile: it is for the next iterator
            return None
        if self.pool is not None and self.loader.persistent_workers:
            self._begin(original, first=False)
        else:
            self.close()
            self.__init__(original)  # type: ignore[misc]
        return self._next()

    def _count(self, planned: Planned, state: Any) -> None:
        """Counts a batch as delivered."""
        self.yielded += 1
        if planned.kind == ITER:
            worker = max(planned.owner, 0)
            before = self.delivered.get(worker, (None, 0))
            self.delivered[worker] = (state, 0) if state is not None else (before[0], before[1] + 1)
            self.turns[worker] = planned.step // len(self.turns) + 1
            self.step += 1
            return
        self.beyond.add(planned.step)
        while self.step in self.beyond:
            self.beyond.discard(self.step)
            self.step += 1
            self.order.sampler_states.pop(self.step - 2, None)  # the state takes the last one

    def _ids(self, made: Delivered) -> Any:
        indices = made.planned.indices
        if made.broken:
            other = {row: other for row, _, other, _ in made.broken}
            kept = [row for row in range(len(indices)) if other.get(row, row) is not None]
            indices = [other.get(row, indices[row]) for row in kept]
        whole = isinstance(made.planned.indices, np.ndarray)
        return torch.tensor(indices, dtype=torch.int64) if whole else indices

    def _finish_epoch(self) -> None:
        if self.over:
            return
        self.over = True
        if not self.loader.persistent_workers:
            self.close()

    def close(self) -> None:
        """Ends the iterator and, unless others use them, its workers."""
        self._end()

    _shutdown_workers = close

    def __del__(self) -> None:
        with contextlib.suppress(Exception):
            original = self.original()
            if original is not None and (original._current is None or original._current() in (None, self)):
                original._parting = (self.state(), self.stats())

    # ---- state ---------------------------------------------------------------------------------------------------

    def _left(self) -> bool:
        """Whether the epoch has a further batch; unknown for an iterable data set."""
        if self.loader._iterable or self.interrupted:
            return True
        try:
            head = self.source.head()
        except Exception:  # raised when it is its turn
            return True
        return head is not None and head.epoch == self.epoch

    def state(self) -> dict[str, Any]:
        found: dict[str, Any]
        if self.over or not self._left():
            found = {"version": VERSION, "epoch": self.epoch + 1, "step": 0, **self._seeds()}
            if self.loader.generator is not None:
                found["generator"] = text_of(self.loader.generator.get_state())
            if inside := generators_in(self.loader):
                found["sampler_generators"] = [text_of(generator.get_state()) for generator in inside]
            if self.loader._iterable and (self.loader.persistent_workers or not self.loader.num_workers):
                ends = (self.feed or self.source).end_states
                streams = [[w, state, 0] for w, state in sorted(ends.items())]
                found |= {"workers": self.loader.num_workers, "streams": streams, "turn": 0, "ended": []}
            return found
        found = {
            "version": VERSION,
            "epoch": self.epoch,
            "step": self.step,
            "yielded": self.yielded,
            "of": self.loader._facts(),
        }
        if self.beyond:
            found["beyond"] = sorted(self.beyond)
        found |= {"generator": text_of(self.order.generator_state), "rng": plain(self.order.rng_state)}
        if self.order.sampler_generators:
            found["sampler_generators"] = [text_of(state) for state in self.order.sampler_generators]
        if self.order.sampler_epoch is not None:
            found["sampler_epoch"] = self.order.sampler_epoch
        found |= self._seeds(always=True)
        if self.order.sampler_states and self.step:
            found["sampler"] = self.order.sampler_states.get(self.step - 1)
        if self.loader._iterable:
            ended = set() if self.feed is None else self.feed.delivered_ends
            known = {w: (state, 0) for w, state in self.begun.items()} | self.delivered
            found |= {
                "workers": self.loader.num_workers,
                "streams": [[w, state, count] for w, (state, count) in sorted(known.items())],
                "turn": list(self.turns),
                "ended": sorted(ended | self.loaded_ended),
            }
        return found

    def _seeds(self, always: bool = False) -> dict[str, Any]:
        """What determines the order of this epoch and, if one order serves all epochs, of later ones."""
        if always or (self.order.own and self.loader._chained and self.order.seed is None):
            return {"base_seed": self.order.base_seed, "sampler_seed": self.order.sampler_seed, "own": self.order.own}
        return {}

    def stats(self) -> dict[str, Any]:
        found: dict[str, Any] = dict(self.source.stats)
        if self.pool is not None:
            if self.adapting is not None:
                found["adapted"] = self.adapting.controller.reason
            found |= {"workers": self.pool.n, "pids": self.pool.pids, "replaced": list(self.pool.events)}
        return found

    def __getstate__(self) -> Any:
        raise NotImplementedError(f"{type(self).__name__} cannot be pickled")


def _finish(source: Any, pool: Pool | None) -> None:
    with contextlib.suppress(Exception):
        source.close()
    if pool is not None:
        pool.let_go()
