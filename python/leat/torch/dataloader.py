"""``leat.DataLoader``: PyTorch's DataLoader, with the same signature, in leat's engine.

Any map-style or iterable data set, any sampler, any collate function. docs/dataloader.md lists the differences.
"""

from __future__ import annotations

import contextlib
import copy
import inspect
import logging
import sys
import warnings
import weakref
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import numpy as np
import torch
import torch.utils.data
from torch.utils.data import BatchSampler, IterableDataset, IterDataPipe, MapDataPipe, RandomSampler, SequentialSampler
from torch.utils.data._utils import collate as torch_collate
from torch.utils.data._utils import pin_memory as torch_pin

from .. import _leat, check
from ..loading import ranks
from ..workers import adapt, cores, loop
from ..workers.feed import Delivered, Feed, NotYet, Planned
from ..workers.loop import ITER, Job
from ..workers.pool import Pool, shared, threads_wanted
from .order import Order, Shuffled, generators_in, plain, text_of, told_of_epochs
from .pinning import Pinning
from .state import DRAWN, POSITION, VERSION, checked

leat_log = logging.getLogger("leat")
_WINDOW = 24
_PRISTINE = dict(torch_collate.default_collate_fn_map)
_TORCH_ARGUMENTS = frozenset(inspect.signature(torch.utils.data.DataLoader.__init__).parameters)
_T_co = TypeVar("_T_co", covariant=True)


class _Auto(int):
    """An adapting number of workers. Frameworks that make a loader again read it from the first one."""


class _Default(int):
    """A prefetch factor that the user has not given."""


class DataLoader(torch.utils.data.DataLoader[_T_co]):
    """A drop-in for ``torch.utils.data.DataLoader``: the same arguments, the same batches.

    Args:
        dataset ... in_order: as of PyTorch's. `num_workers` may be ``"auto"``: their number then adapts.
        seed: of leat's own order, for ``shuffle=True``, and of the rows' random keys. It excludes `generator`. The
            order is that of :class:`leat.Loader` with the same seed: a pure function of (seed, epoch), resumed without
            reading a sampler.
        reseed: seed ``random``, ``numpy`` and ``torch`` for each sample from (seed, epoch, row), so that augmentations
            are the same for any number of workers.
        on_error: of a sample that raises: ``"raise"``, ``"skip"`` (the batch is shorter), ``"substitute"`` (another
            sample).
        sample_timeout_s: a sample that takes longer is broken: its worker is replaced, and `on_error` applies.
        return_ids: yield ``(batch, indices)``.

    Raises:
        ValueError: an argument is not valid, as of PyTorch's.

    >>> squares = [(i, float(i * i)) for i in range(10)]
    >>> loader = leat.DataLoader(squares, batch_size=4, num_workers=2)
    >>> [x.tolist() for x, y in loader]
    [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    """

    def __init__(
        self,
        dataset: Any,
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Any = None,
        batch_sampler: Any = None,
        num_workers: int | str = 0,
        collate_fn: Callable[[list[Any]], Any] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable[[int], Any] | None = None,
        multiprocessing_context: Any = None,
        generator: Any = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
        seed: int | None = None,
        reseed: bool = False,
        on_error: str = "raise",
        sample_timeout_s: float | None = None,
        return_ids: bool = False,
    ) -> None:
        if seed is not None and generator is not None:
            raise ValueError("seed and generator exclude each other: both say the order")
        if on_error not in ("raise", "skip", "substitute"):
            raise ValueError(f"on_error is 'raise', 'skip' or 'substitute', not {on_error!r}")
        if on_error != "raise" and isinstance(dataset, IterableDataset):
            raise ValueError(
                "on_error is for map-style data sets: a stream has no sample to leave out, nor one to put in its place"
            )
        if sample_timeout_s is not None and not sample_timeout_s > 0:
            raise ValueError(f"sample_timeout_s is a number of seconds above 0, not {sample_timeout_s!r}")
        adaptive = num_workers == "auto" or isinstance(num_workers, _Auto)
        if isinstance(num_workers, str) and not adaptive:
            raise ValueError(f"num_workers is a number or 'auto', not {num_workers!r}")
        count: int = _Auto(_first_workers()) if adaptive else num_workers  # type: ignore[assignment]
        if isinstance(prefetch_factor, _Default):
            prefetch_factor = None
        if sample_timeout_s is not None and count == 0:
            raise ValueError("sample_timeout_s needs num_workers > 0: only a worker can be given up")
        self.seed = None if seed is None else check.seed(seed)
        self.reseed, self.on_error = bool(reseed), on_error
        self.sample_timeout_s, self.return_ids = sample_timeout_s, bool(return_ids)
        self._adaptive = adaptive
        self._window_given = None if prefetch_factor is None else prefetch_factor * count
        self._shuffle = bool(shuffle) and sampler is None and batch_sampler is None
        given: dict[str, Any] = {
            "prefetch_factor": prefetch_factor,
            "persistent_workers": persistent_workers,
            "pin_memory_device": pin_memory_device,
            "in_order": in_order,
        }
        super().__init__(
            dataset, batch_size, shuffle, sampler, batch_sampler, count, collate_fn, pin_memory, drop_last, timeout,
            worker_init_fn,
            multiprocessing_context, generator, **{name: value for name,
            value in given.items() if name in _TORCH_ARGUMENTS},
        )  # fmt: skip
        self.in_order = in_order
        if prefetch_factor is None and self.prefetch_factor is not None:
            self.prefetch_factor = _Default(self.prefetch_factor)
        # for frameworks, which read the sampler of a loader to make it again
        if self._shuffle and self.seed is not None:
            self.__dict__["sampler"] = Shuffled(dataset, self.seed)
            if self.batch_size is not None:
                self.__dict__["batch_sampler"] = BatchSampler(self.sampler, self.batch_size, drop_last)
        self._current: Any = None  # a weak reference to the iterator that was made last
        self._epoch = 0  # of the next iterator
        self._loaded: dict[str, Any] | None = None
        # state and statistics of an iterator that is gone
        self._parting: tuple[dict[str, Any], dict[str, Any]] | None = None

    @property
    def timeout(self) -> float:
        """Seconds after which a missing batch is an error; 0: none."""
        found: float = self.__dict__["timeout"]
        if "accelerate.data_loader" in sys.modules:
            from ..accelerate import timeout_of

            return timeout_of(self, found)
        return found

    @timeout.setter
    def timeout(self, seconds: float) -> None:
        self.__dict__["timeout"] = seconds

    # ---- what the order is ---------------------------------------------------------------------------------------

    @property
    def _iterable(self) -> bool:
        return isinstance(self.dataset, IterableDataset)

    @property
    def _plain_batches(self) -> bool:
        """Whether batches are cut from the sampler in the usual way."""
        batches = self.batch_sampler
        return (
            type(batches) is BatchSampler and batches.sampler is self.sampler and batches.batch_size == self.batch_size
        )

    @property
    def _own_order(self) -> bool:
        """Whether the order is leat's: a function of a seed, which needs no sampler."""
        if self._iterable or not self._plain_batches:
            return False
        sampler: Any = self.sampler
        if type(sampler) in (SequentialSampler, Shuffled):
            seeded = type(sampler) is SequentialSampler or sampler.seed == self.seed
            return seeded and sampler.data_source is self.dataset
        return self._unseeded and self._chained

    @property
    def _unseeded(self) -> bool:
        """Whether a drawn seed determines the shuffle: in PyTorch's way, or in leat's if workers persist."""
        return self._shuffle and self._plain_batches and type(self.sampler) is RandomSampler and self.generator is None

    @property
    def _chained(self) -> bool:
        """Whether workers continue with the next epoch before it is asked for."""
        return self.persistent_workers and self.num_workers > 0 and not self._iterable

    def __len__(self) -> int:
        return super().__len__()

    # ---- iterating -----------------------------------------------------------------------------------------------

    def __iter__(self) -> Any:
        if self.persistent_workers and self.num_workers > 0:
            iterator: Any = self._iterator
            self._iterator = None
            # streams continue in new workers
            if iterator is None or iterator.interrupted or (self._loaded is not None and self._iterable):
                iterator = None  # ends before the next one begins
                iterator = self._get_iterator()
            else:
                iterator._reset(self)
            self._iterator = iterator
            return iterator
        return self._get_iterator()

    def _get_iterator(self) -> Any:
        if self.num_workers and not self._adaptive:
            self.check_worker_number_rationality()
        if isinstance(self.dataset, IterDataPipe | MapDataPipe):
            return super()._get_iterator()  # graphs of data pipes are sharded and seeded by PyTorch's own iterators
        if self.timeout and not self.num_workers:
            raise ValueError(
                "timeout needs num_workers > 0: nobody looks at the clock while this process makes the batch"
            )
        made = _Iteration(self)
        self._current = weakref.ref(made)
        return made

    def set_epoch(self, epoch: int) -> None:
        """Sets the epoch that begins next, also in samplers that have ``set_epoch``."""
        self._epoch = check.integer("epoch", epoch)
        told = told_of_epochs(self)
        if told is not None:
            told.set_epoch(epoch)

    # ---- state ---------------------------------------------------------------------------------------------------

    _state_needs: tuple[str, ...] = POSITION + DRAWN

    def state_dict(self) -> dict[str, Any]:
        """The position, in delivered batches: a dict of plain values and of the states of samplers and data sets."""
        current = self._current() if self._current is not None else None
        if self._loaded is not None:
            return dict(self._loaded)
        if current is None:
            return dict(self._parting[0]) if self._parting else {"version": VERSION, "epoch": self._epoch, "step": 0}
        found: dict[str, Any] = current.state()
        return found

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Makes the next iterator continue from a state. The number of workers may differ for map-style data sets.

        Raises:
            StateError: it is no state of a leat.DataLoader, is damaged, or of another kind of data set; in mid-epoch it
                is of another batch size, length, seed or sampler, or of a batch that the epoch does not have.
        """
        self._loaded = loaded = checked(self, state)
        self._epoch = loaded["epoch"]

    def _facts(self) -> dict[str, Any]:
        """The facts that a position in an epoch depends on."""
        order = (
            self.sampler
            if self._plain_batches
            else self.batch_sampler
            if self.batch_sampler is not None
            else self.sampler
        )
        try:
            samples = None if self._iterable else len(self.dataset)  # type: ignore[arg-type]
        except TypeError:
            samples = None
        return {"batch_size": self.batch_size, "samples": samples, "seed": self.seed, "order": type(order).__name__}

    def stats(self) -> dict[str, Any]:
        """Counters of the current iterator: batches, seconds waited, workers and their deaths."""
        current = self._current() if self._current is not None else None
        found: dict[str, Any] = (
            current.stats() if current is not None else dict(self._parting[1]) if self._parting else {}
        )
        return found

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_iterator": None, "_current": None, "_parting": None}


_INTERVAL_S = 0.5


def _world_size() -> int:
    return ranks.find(None, None)[1]


def _first_workers() -> int:
    """The number of workers with which ``num_workers="auto"`` begins."""
    return max(1, int(cores.budget(_world_size())) // 2)


class _Adapting:
    """Feeds the controller of the number of workers, and sets the number."""

    def __init__(self, pool: Pool, waited: Callable[[], float]) -> None:
        self.pool, self.waited = pool, waited
        self.meter = cores.Meter(_world_size())
        self.controller = adapt.Controller(cores.budget(_world_size()), pool.room, pool.n)
        self.rows = 0
        self.at, self.waited_s, self.n = loop.now(), 0.0, pool.n

    def delivered(self, rows: int) -> None:
        """Counts a batch that was delivered, and at times changes the number of workers."""
        self.rows += rows
        elapsed = loop.now() - self.at
        if elapsed < _INTERVAL_S:
            return
        waited = self.waited()
        by_workers, by_process, idle = self.meter.read(self.pool.pids, elapsed)
        steady = self.pool.n if self.pool.n == self.n else 0
        wanted = self.controller.observe(
            adapt.Interval(
                elapsed, min(elapsed, waited - self.waited_s), self.rows, steady, by_workers, by_process, idle
            )
        )
        self.rows, self.at, self.waited_s, self.n = 0, loop.now(), waited, self.pool.n
        if wanted != self.pool.n:
            leat_log.info("workers: %s", self.controller.reason)
            self.pool.resize(wanted)


class _Iteration:
    """One pass over an epoch; with persistent workers, one after another."""

    def __init__(self, loader: DataLoader[Any]) -> None:
        self.loader = copy.copy(loader)  # not the loader itself, which may keep this iterator
        self.ended: set[int] = set()  # workers whose streams are at their ends
        self.order = Order(loader)
        self.begun: dict[int, Any] = {}  # states of data sets and iterators at the epoch's start
        self.source: Any = None  # of batches: the feed, pinned or not, or the process itself
        self.feed: Feed | None = None
        self.pool: Pool | None = None
        self.adapting: _Adapting | None = None
        self.interrupted = False  # its contents are incomplete
        self._device = _pin_device(loader)
        self._begin(loader, first=True)
        self._end = weakref.finalize(self, _finish, self.source, self.pool)
        self._end.atexit = False

    # ---- beginning -----------------------------------------------------------------------------------------------

    def _begin(self, original: DataLoader[Any], first: bool) -> None:
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
        self.turn = 0
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
            self.turn = loaded["turn"]
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
            return self.order.streams(self.turn, self.ended, self.loaded_ended)
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
            self.source = _InProcess(job, plan, self._resumes().get(0), self.ended)
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
        room = n if not loader._adaptive else max(n, 2 * int(cores.share(_world_size()) + 0.5), 4)

        def make() -> Pool:
            return Pool(loader.dataset, n, room, context, loader.worker_init_fn, self.order.base_seed, threads)

        self.pool = _pool_for(loader, make, n, context)
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
            self.source = Pinning(feed, lambda value: _pinned(value, device))
        if loader._adaptive and not loader._iterable:  # a stream belongs to its worker
            self.adapting = _Adapting(self.pool, lambda: feed.stats["wait_s"])
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

    def _reset(self, loader: DataLoader[Any], first_iter: bool = False) -> None:
        self._begin(loader, first=False)

    # ---- batches -------------------------------------------------------------------------------------------------

    def __iter__(self) -> _Iteration:
        return self

    def __len__(self) -> int:
        return len(self.loader)

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

    def _deliver(self, loader: DataLoader[Any]) -> Any:
        with torch.autograd.profiler.record_function("enumerate(DataLoader)#leat.__next__"):
            made = None if self.over else self._next()
            if made is None and loader._iterable and self.yielded == self.before > 0:
                made = self._next_epoch()
        if made is None:
            self._finish_epoch()
            raise StopIteration
        value = made.value
        if self._device is not None and self.pool is None:
            value = _pinned(value, self._device)
        length = loader._IterableDataset_len_called
        if loader._iterable and length is not None and self.yielded > length:
            warnings.warn(
                f"Length of IterableDataset {loader.dataset} was reported to be {length}(when accessing "
                "len(dataloader)), but "
                f"{self.yielded} samples have been fetched. For multiprocessing data-loading, this could be caused by "
                "not properly "
                "configuring the IterableDataset replica at each worker. Please see "
                "https://pytorch.org/docs/stable/data.html#torch.utils.data.IterableDataset for examples.",
                stacklevel=3,
            )
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
            self.turn = planned.step + 1
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
                "turn": self.turn,
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


class _InProcess:
    """Batches made by the process itself: ``num_workers=0``."""

    def __init__(self, job: Job, plan: Iterator[Planned], resume: Any, ended: set[int]) -> None:
        self.job, self.plan = job, plan
        self.worker = _Local(job)
        self.stats = {"batches": 0, "broken": 0}
        self.failed: Planned | None = None
        self.ahead: Planned | None = None
        self.plan_error: Exception | None = None
        self.waiting = False  # nothing is in progress
        self.ended = ended
        self.end_states: dict[int, Any] = {}
        self.stream: Any = None
        self.begun: Any = None  # the state before the first batch
        if job.iterable:
            self.stream = loop.stream(job, None if resume is None else (resume[0], -resume[1]))
            self.begun = loop.stream_state(job, self.stream) if resume is None else None

    def head(self) -> Planned | None:
        """The next batch. An exception of the sampler passes through, each time."""
        if self.plan_error is not None:
            raise self.plan_error
        if self.ahead is None:
            try:
                self.ahead = next(self.plan, None)
            except Exception as e:
                self.plan_error = e
                raise
        return self.ahead

    def next(self, timeout_s: float | None = None) -> Delivered | None:
        self.waiting = False
        try:
            planned, self.ahead = self.head(), None
        finally:
            self.plan_error = None
        if planned is None:
            return None
        try:
            return self._make(planned)
        except StopIteration:
            self.ended.add(0)
            if planned.kind == ITER and (state := loop.end_state(self.job, self.stream)) is not None:
                self.end_states[0] = state
            return None
        except Exception:
            self.failed = planned
            raise
        except BaseException:  # Ctrl-C: the batch is made again
            if planned.kind != ITER:
                self.ahead, self.waiting = planned, True
            raise
        finally:
            _leat.set_current_row()

    def _make(self, planned: Planned) -> Delivered:
        self.stats["batches"] += 1
        if planned.kind == ITER:
            _leat.set_current_row(planned.seed, planned.epoch, planned.first_row)
            value = next(self.stream)
            return Delivered(planned, value, [], loop.stream_state(self.job, self.stream))
        indices = planned.indices.tolist() if isinstance(planned.indices, np.ndarray) else planned.indices
        # the training draws from them too
        with loop.kept_generators() if self.job.reseed else contextlib.nullcontext():
            value, broken = self.worker.whole(self.worker.client, planned, indices)
        self.stats["broken"] += len(broken)
        return Delivered(planned, value, [(row, indices[row], other, reason) for row, other, reason in broken])

    def close(self) -> None:
        """Does nothing: there is nothing to end."""


class _NoBoard:
    def at_row(self, row: int) -> None:
        """Does nothing: a worker reports its position here."""


class _Local(loop.Worker):
    """Makes a batch as a worker does."""

    def __init__(self, job: Job) -> None:
        self.client: Any = loop._Client(_NoBoard(), job)  # type: ignore[arg-type]
        self.index = None

    def where(self, calls: bool = False) -> str:
        return "in the main process"


# ---- pools -----------------------------------------------------------------------------------------------------------


def _pool_for(loader: DataLoader[Any], make: Callable[[], Pool], n: int, context: Any) -> Pool:
    """Workers, with a reference. Loaders of one data set object that need the same ones share persistent workers."""
    if not loader.persistent_workers or loader._adaptive or loader._iterable:
        made = make()
        made.hold()
        return made
    name = context if context is None or isinstance(context, str) else context.get_start_method()
    attributes = _attributes(loader.dataset)

    def fits(pool: Pool) -> bool:
        return not pool.broken and pool.dataset is loader.dataset and _same(pool.attributes, attributes)

    found = shared((id(loader.dataset), id(loader.worker_init_fn), n, name), make, fits)
    found.attributes = attributes
    return found


def _attributes(dataset: Any) -> list[tuple[Any, dict[str, Any]]]:
    """The attributes of a data set and of those inside it. Workers have a copy, which does not follow changes."""
    inside = [dataset]
    for each in inside:  # grows
        for value in getattr(each, "__dict__", {}).values():
            if isinstance(value, torch.utils.data.Dataset) and len(inside) < 16:
                inside.append(value)
    return [(each, dict(getattr(each, "__dict__", {}))) for each in inside]


def _same(before: list[tuple[Any, dict[str, Any]]], now: list[tuple[Any, dict[str, Any]]]) -> bool:
    def equal(a: Any, b: Any) -> bool:
        return a is b or (type(a) is type(b) and isinstance(a, int | float | str) and a == b)

    return len(before) == len(now) and all(
        a is b and x.keys() == y.keys() and all(equal(x[name], y[name]) for name in x)
        for (a, x), (b, y) in zip(before, now)
    )


def _finish(source: Any, pool: Pool | None) -> None:
    with contextlib.suppress(Exception):
        source.close()
    if pool is not None:
        pool.let_go()


def _pinned(value: Any, device: str) -> Any:
    return torch_pin.pin_memory(value, device)  # type: ignore[no-untyped-call]


def _pin_device(loader: DataLoader[Any]) -> str | None:
    if not loader.pin_memory:
        return None
    accelerator = getattr(torch, "accelerator", None)
    if accelerator is None or not accelerator.is_available():
        warnings.warn(
            "'pin_memory' argument is set as true but no accelerator is found, then device pinned memory won't be "
            "used.",
            stacklevel=4,
        )
        return None
    found = accelerator.current_accelerator()
    return None if found is None or found.type == "mps" else str(found.type)
