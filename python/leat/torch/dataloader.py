"""``leat.DataLoader``: PyTorch's DataLoader, with the same signature, in leat's engine.

Any map-style or iterable data set, any sampler, any collate function. docs/dataloader.md lists the differences.
"""

from __future__ import annotations

import copy
import functools
import inspect
import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch.utils.data
from torch.utils.data import BatchSampler, IterableDataset, IterDataPipe, MapDataPipe, RandomSampler, SequentialSampler
from torch.utils.data.dataloader import _DatasetKind
from typing_extensions import TypeVar  # of which PyTorch needs as much

from .. import check, lightning
from ..data.dataset import Dataset as Samples
from ..errors import StateError
from ..sampling.generators import set_attributes
from ..sampling.known import Watch
from ..workers.loop import kept_generators
from .adapting import first_workers
from .iteration import Iteration
from .order import Order, Shuffled, before_first, told_of_epochs
from .position import Position
from .state import VERSION, checked

_TORCH_ARGUMENTS = frozenset(inspect.signature(torch.utils.data.DataLoader.__init__).parameters)
_T_co = TypeVar("_T_co", covariant=True, default=Any)  # a type checker finds it out from no data set


class _Auto(int):
    """An adapting number of workers. Frameworks that make a loader again read it from the first one."""


class _Default(int):
    """A prefetch factor that the user has not given."""


class DataLoader(torch.utils.data.DataLoader[_T_co]):
    """A drop-in for ``torch.utils.data.DataLoader``: the same arguments, the same batches.

    Args:
        dataset ... in_order: as of PyTorch's. `num_workers` may be ``"auto"``: their number then adapts;
            `persistent_workers` ``"shared"``: loaders of one data set object, which must not change, share workers.
        seed: of leat's own order, for ``shuffle=True``, and of the rows' random keys. It excludes `generator`. The
            order is that of :class:`leat.Loader` with the same seed: a pure function of (seed, epoch), resumed without
            reading a sampler.
        reseed: seed ``random``, ``numpy`` and ``torch`` for each sample from (seed, epoch, row), so that augmentations
            are the same for any number of workers.
        on_error: for a sample that raises: ``"raise"``, ``"skip"`` (the batch is shorter), ``"substitute"`` (another
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
        persistent_workers: bool | str = False,
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
        if isinstance(dataset, Samples) and hasattr(dataset, "__getitems__"):
            dataset.__getitems__(())
        adaptive = num_workers == "auto" or isinstance(num_workers, _Auto)
        if isinstance(num_workers, str) and not adaptive:
            raise ValueError(f"num_workers is a number or 'auto', not {num_workers!r}")
        count: Any = _Auto(first_workers()) if adaptive else num_workers
        if isinstance(count, np.integer):
            count = int(count)
        if isinstance(persistent_workers, str) and persistent_workers != "shared":
            raise ValueError(f"persistent_workers is True, False or 'shared', not {persistent_workers!r}")
        if isinstance(prefetch_factor, _Default):
            prefetch_factor = None
        own = {
            "seed": seed is not None,
            "reseed": reseed,
            "on_error": on_error != "raise",
            "sample_timeout_s": sample_timeout_s is not None,
            "return_ids": return_ids,
        }
        if isinstance(dataset, IterDataPipe | MapDataPipe) and any(own.values()):
            asked = ", ".join(name for name, is_asked in own.items() if is_asked)
            raise ValueError(f"data pipes run in PyTorch's own iterators, which have no {asked}")
        if sample_timeout_s is not None and count == 0:
            raise ValueError("sample_timeout_s needs num_workers > 0: only a worker can be given up")
        self.seed = None if seed is None else check.seed(seed)
        self.reseed, self.on_error = check.flag("reseed", reseed), on_error
        self.sample_timeout_s, self.return_ids = sample_timeout_s, check.flag("return_ids", return_ids)
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
        self._epoch = 0  # of the next iterator
        self._loaded: dict[str, Any] | None = None
        self._loads = 0  # states that were loaded: iterators from before do not go on
        self._position: Position | None = None  # of the iterator that was made last
        self._watch = Watch(self)
        self._names = frozenset(self.__dict__)

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

    # ---- the order -----------------------------------------------------------------------------------------------

    @property
    def _iterable(self) -> bool:
        return bool(self._dataset_kind == _DatasetKind.Iterable)

    @functools.cached_property
    def _piped(self) -> bool:
        """Whether PyTorch's own iterators run: graphs of data pipes are sharded and seeded by them."""
        return isinstance(self.dataset, IterDataPipe | MapDataPipe)

    @property
    def _plain_batches(self) -> bool:
        """Whether batches are cut from the sampler in the usual way."""
        batches = self._index_sampler  # which a subclass may have replaced
        return (
            type(batches) is BatchSampler
            and batches.sampler is self.sampler
            and (batches.batch_size, batches.drop_last) == (self.batch_size, self.drop_last)
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
        return self._chained and self._unseeded

    @property
    def _unseeded(self) -> bool:
        """Whether a drawn seed determines the shuffle: in PyTorch's way, or in leat's if workers persist."""
        if self.generator is not None or not self._shuffle or not self._plain_batches:
            return False
        sampler: Any = self.sampler  # which frameworks may have given a generator of its own
        return type(sampler) is RandomSampler and sampler.generator is None

    @property
    def _chained(self) -> bool:
        """Whether workers continue with the next epoch before it begins."""
        return self.persistent_workers and self.num_workers > 0 and not self._iterable

    def __len__(self) -> int:
        if lightning.is_here():
            self.most_ahead = max(self.most_ahead, 1)
        return super().__len__()

    # ---- iterating -----------------------------------------------------------------------------------------------

    def __iter__(self) -> Any:
        if self._piped:
            return super().__iter__()
        if self.persistent_workers and self.num_workers > 0:
            iterator: Any = self._iterator
            self._iterator = None
            unspent = self._unspent
            # streams continue in new workers, and what had no workers begins with new ones
            anew = unspent is not None and (self._iterable or "first" in unspent)
            if iterator is None or iterator.interrupted or anew:
                iterator = None  # ends before the next one begins
                iterator = self._get_iterator()
            else:
                iterator._reset(self)
            self._iterator = iterator
            return iterator
        return self._get_iterator()

    def _get_iterator(self) -> Any:
        if self._piped:
            return super()._get_iterator()
        if self.num_workers and not self._adaptive:
            self.check_worker_number_rationality()
        if self.num_workers and self.prefetch_factor == 0:
            raise AssertionError("prefetch_factor is a number above 0")  # as PyTorch's
        if self.timeout and not self.num_workers:
            raise ValueError(
                "timeout needs num_workers > 0: nobody looks at the clock while this process makes the batch"
            )
        return Iteration(self)

    def set_epoch(self, epoch: int) -> None:
        """Sets the epoch that begins next, also in samplers that have ``set_epoch``."""
        self._epoch = check.integer("epoch", epoch)
        if self._position is not None:
            self._position.unspent = None
        self._tell_epoch(epoch)

    def _tell_epoch(self, epoch: int) -> None:
        told = told_of_epochs(self)
        if told is not None:
            told.set_epoch(epoch)

    # ---- state ---------------------------------------------------------------------------------------------------

    most_ahead = 0  # batches that a framework fetches before it hands them out: at most, and now
    _ahead = 0

    def state_dict(self) -> dict[str, Any]:
        """The position, in delivered batches: a dict of plain values and of the states of samplers and data sets.

        Data pipes have none: for them it is an epoch's start, with a UserWarning.
        """
        if self._piped:
            warnings.warn(
                "data pipes run in PyTorch's own iterators, which have no state: this one means the start of an epoch",
                stacklevel=2,
            )
        if self._loaded is not None:
            return copy.deepcopy(self._loaded)
        if self._position is None:
            return copy.deepcopy({"version": VERSION, "epoch": self._epoch, "step": 0, **before_first(self)})
        ahead = min(self._ahead, len(self._position.before))
        return copy.deepcopy(self._position.state(ahead))  # samplers and data sets may change it when they go on

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Makes the next iterator continue from a state. The number of workers may differ for map-style data sets.

        Raises:
            StateError: it is no state of a leat.DataLoader, is damaged, or of another kind of data set; in mid-epoch it
                is of another batch size, length, seed or sampler, or of a batch that the epoch does not have.
        """
        loaded = checked(self, copy.deepcopy(state))
        if self._piped and (loaded["step"] or loaded.keys() > {"version", "epoch", "step"}):
            raise StateError("data pipes run in PyTorch's own iterators, which continue from no position in an epoch")
        self._epoch, self._loaded = loaded["epoch"], None if self._piped else loaded
        self._loads += 1
        if self._adaptive and "workers" in loaded:
            self.num_workers = _Auto(loaded["workers"])
        if "yielded" not in loaded:
            set_attributes(self, self._watch.changed_since(self), False)  # others were as when the loader was made
            set_attributes(self, loaded.get("reading", {}).get("attributes", {}), True)

    @property
    def _unspent(self) -> dict[str, Any] | None:
        """The state that the next iterator begins with: an iterator that has delivered nothing has not used it up."""
        return self._loaded if self._loaded is not None or self._position is None else self._position.unspent

    def _leave_epoch(self) -> None:
        """Turns the state that was loaded into that of the next epoch, as if a loop had been left there."""
        loaded = self._loaded
        if loaded is None or "yielded" not in loaded:
            return
        order = Order(self)
        position = Position(self._copy(), order, loaded["epoch"], loaded, {})
        if self._iterable:  # streams that were left begin anew
            self._loaded = {"version": VERSION, "epoch": loaded["epoch"] + 1, "step": 0}
        else:
            with kept_generators():
                order.begin(loaded["epoch"], loaded, True, frozenset(position.beyond).__contains__)
                position.over = True
                self._loaded = position.state()
        self._epoch = loaded["epoch"] + 1

    def _facts(self) -> dict[str, Any]:
        """The facts that a position in an epoch depends on."""
        cut = self._plain_batches or self.batch_sampler is None
        order = self.sampler if cut else self.batch_sampler
        try:
            samples = None if self._iterable else len(self.dataset)  # type: ignore[arg-type]
        except TypeError:
            samples = None
        return {"batch_size": self.batch_size, "samples": samples, "seed": self.seed, "order": type(order).__name__}

    def stats(self) -> dict[str, Any]:
        """Counters of the iterator that was made last: batches, seconds waited, workers and their deaths."""
        return {} if self._position is None else self._position.stats()

    def _copy(self) -> DataLoader[Any]:
        """The loader as it is now, without its iterator and without additions of a user's subclass: its ``__del__`` is
        not for copies, and an iterator that it keeps would keep the one before it.
        """
        kind = type(self)
        own: Any = next(each for each in kind.__mro__ if each.__module__.startswith("leat."))
        found: DataLoader[Any] = object.__new__(own)
        held = self.__dict__
        if own is not kind:
            held = {name: held[name] for name in self._names if name in held}
        found.__dict__.update(held, _iterator=None, _position=None, _gathering=None)
        if kind._index_sampler is not own._index_sampler:
            found.__dict__["_batches"] = self._index_sampler
        return found

    @property
    def _index_sampler(self) -> Any:
        return self.__dict__["_batches"] if "_batches" in self.__dict__ else super()._index_sampler

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_iterator": None, "_position": None, "_gathering": None}
