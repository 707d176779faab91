"""leat's engine inside Hugging Face Accelerate, and so inside Hugging Face Trainer.

``accelerator.prepare(loader)`` reads the arguments of a loader, gives them to a ``torch.utils.data.DataLoader`` of its
own, and adds sharding, devices and the end of the epoch. All of this stays Accelerate's; only the loader inside becomes
leat's again. Nothing has to be called for that: while Accelerate is imported, the timeout that is read from a
``leat.DataLoader`` carries a reference to the loader, and when Accelerate passes it on, :class:`Inside` is made in
place of PyTorch's loader. The same holds for ``skip_first_batches``, and no argument of leat's is lost.

:class:`TrainerMixin` does the same for the loaders that a Trainer makes.
"""

from __future__ import annotations

import functools
import inspect
import sys
import warnings
import weakref
from collections import deque
from typing import Any

import torch.utils.data

from .torch.dataloader import DataLoader
from .torch.generators import set_state, state_of
from .torch.state import DRAWN, POSITION, VERSION

_OWN = ("seed", "reseed", "on_error", "sample_timeout_s", "return_ids")


class Timeout(float):
    """A timeout in seconds with a reference to the loader that it was read from."""

    loader: Any = None
    given: float = 0  # as the user wrote it

    def __repr__(self) -> str:
        return repr(self.given)

    def __reduce__(self) -> Any:
        return type(self.given), (self.given,)


def timeout_of(loader: DataLoader[Any], seconds: float) -> float:
    """The timeout of a loader while Accelerate is imported."""
    install()
    found = Timeout(seconds)
    found.loader, found.given = loader, seconds
    return found


@functools.cache
def install() -> None:
    """Makes Accelerate create leat's loader from the arguments of one; once in a process."""
    module = sys.modules["accelerate.data_loader"]
    adapter: Any = getattr(module, "DataLoaderAdapter", None)
    known = {"dataset", "use_stateful_dataloader", "batch_sampler", "kwargs"}
    if adapter is None or not known <= inspect.signature(adapter.__init__).parameters.keys():
        warnings.warn(
            "leat does not know how this version of Accelerate makes loaders: the batches of prepared ones come from "
            "PyTorch's "
            "DataLoader. Versions from 1.12 on are known.",
            stacklevel=4,
        )
        return
    original = adapter.__init__

    @functools.wraps(original)
    def init(
        self: Any, dataset: Any, use_stateful_dataloader: bool = False, batch_sampler: Any = None, **kwargs: Any
    ) -> None:
        origin = getattr(kwargs.get("timeout"), "loader", None)
        if origin is None:
            original(
                self, dataset, use_stateful_dataloader=use_stateful_dataloader, batch_sampler=batch_sampler, **kwargs
            )
            return
        sizes = {k: kwargs[k] for k in ("batch_size", "sampler", "drop_last") if k in kwargs}
        # with a loader of PyTorch's that is never asked for a batch
        original(self, dataset, batch_sampler=batch_sampler, **sizes)
        _adopt(self, Inside(origin, dataset, batch_sampler, kwargs), use_stateful_dataloader)

    adapter.__init__ = init

    class Plain(type):
        """isinstance and issubclass ask about PyTorch's class."""

        def __instancecheck__(cls, instance: object) -> bool:
            return isinstance(instance, torch.utils.data.DataLoader)

        def __subclasscheck__(cls, subclass: type) -> bool:
            return issubclass(subclass, torch.utils.data.DataLoader)

    class Made(metaclass=Plain):
        """What Accelerate calls DataLoader: PyTorch's, or leat's where the arguments are those of a leat.DataLoader."""

        def __new__(cls, dataset: Any, batch_sampler: Any = None, **kwargs: Any) -> Any:
            origin = getattr(kwargs.get("timeout"), "loader", None)
            if origin is None:
                return torch.utils.data.DataLoader(dataset, batch_sampler=batch_sampler, **kwargs)
            return Inside(origin, dataset, batch_sampler, kwargs)

    module.DataLoader = Made  # type: ignore[attr-defined]  # of a loader that was not prepared: skip_first_batches


def _adopt(adapter: Any, inside: Inside, use_stateful_dataloader: bool) -> None:
    """Puts leat's loader inside a loader of Accelerate's."""
    adapter.base_dataloader = inside
    adapter.use_stateful_dataloader = use_stateful_dataloader
    inside.outside = weakref.ref(adapter)
    adapter.dl_state_dict = inside.state_dict()
    if isinstance(adapter, sys.modules["accelerate.data_loader"].DataLoaderDispatcher):
        # The first rank fetches the batches of all ranks, one round ahead: the state is that of before its last round.
        # Only that rank has read anything, and only it writes the file that all share.
        if _world() > 1 and not _first_rank():
            adapter.use_stateful_dataloader = False
        history: deque[dict[str, Any]] = deque(maxlen=_world())

        def adjust() -> None:
            history.append(adapter.dl_state_dict)
            if not adapter.end_of_dataloader and not adapter.split_batches:
                adapter.dl_state_dict = dict(history[0])

        adapter.adjust_state_dict_for_prefetch = adjust


def _world() -> int:
    return int(sys.modules["accelerate"].PartialState().num_processes)


def _first_rank() -> bool:
    return bool(sys.modules["accelerate"].PartialState().is_main_process)


def _unskipped(batch_sampler: Any) -> tuple[Any, int]:
    """The batch sampler inside Accelerate's SkipBatchSampler, and how many batches are skipped."""
    skipping = getattr(sys.modules.get("accelerate.data_loader"), "SkipBatchSampler", ())
    skipped = 0
    while isinstance(batch_sampler, skipping):
        skipped += batch_sampler.skip_batches
        batch_sampler = batch_sampler.batch_sampler
    return batch_sampler, skipped


class Inside(DataLoader[Any]):
    """The loader inside one of Accelerate's: leat's engine on the batch sampler that Accelerate has made.

    Args:
        origin: the loader that was to be prepared, which has leat's own arguments.
        dataset, batch_sampler, arguments: as Accelerate gives them to PyTorch's loader.
    """

    def __init__(self, origin: Any, dataset: Any, batch_sampler: Any, arguments: dict[str, Any]) -> None:
        self.outside: Any = lambda: None
        self._skip = 0
        self._order_began: str | None = None
        given = {k: v for k, v in arguments.items() if v is not None} | {
            k: getattr(origin, k, v) for k, v in _defaults().items()
        }
        given["timeout"] = getattr(given.get("timeout", 0), "given", given.get("timeout", 0))
        if (
            batch_sampler is None
            or batch_sampler is not origin.batch_sampler
            or not getattr(origin, "_plain_batches", False)
        ):
            super().__init__(dataset, batch_sampler=batch_sampler, **_sized(arguments, given))
            self._whole, self._skip = _unskipped(batch_sampler)
            return
        # Nothing is sharded: the loader is as before, with an order of leat's if it had one.
        super().__init__(dataset, origin.batch_size, sampler=origin.sampler, drop_last=origin.drop_last, **given)
        self.__dict__["batch_sampler"] = self._whole = batch_sampler
        self._shuffle = origin._shuffle

    @property
    def _index_sampler(self) -> Any:
        return self._whole if self._skip else super()._index_sampler

    def __len__(self) -> int:
        return super().__len__() - self._skip

    def __iter__(self) -> Any:
        outside = self.outside()
        loaded = self._loaded
        if loaded is None:
            self._epoch = getattr(outside, "iteration", self._epoch)
            if self._skip:
                self._loaded = {"version": VERSION, "epoch": self._epoch, "step": self._skip, "yielded": self._skip}
        generator = _generator_of(self)
        if generator is not None:
            if loaded is not None and loaded.get("order"):
                set_state(generator, loaded["order"])
            self._order_began = state_of(generator)
        return super().__iter__()

    _state_needs = POSITION

    def state_dict(self) -> dict[str, Any]:
        """The state, which is the same on all ranks: they save it into one file."""
        found = super().state_dict()
        generator = _generator_of(self)
        if generator is not None and "order" not in found:
            found["order"] = self._order_began if found.get("yielded") else state_of(generator)
        if _world() > 1:
            for name in DRAWN:  # drawn by each rank for itself; the order of ranks comes from elsewhere
                found.pop(name, None)
        return found

    def load_state_dict(self, state: dict[str, Any]) -> None:
        if isinstance(state, dict):
            state = {k: v for k, v in state.items() if k != "_iterator_finished"}
        super().load_state_dict(state)
        outside = self.outside()
        if outside is not None:
            outside.iteration = state["epoch"]
            outside.dl_state_dict = dict(state)

    def __getstate__(self) -> dict[str, Any]:
        return {k: v for k, v in super().__getstate__().items() if k != "outside"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.outside = lambda: None


@functools.cache
def _defaults() -> dict[str, Any]:
    parameters = inspect.signature(DataLoader.__init__).parameters
    return {name: parameters[name].default for name in _OWN}


def _sized(arguments: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    """Sets the batch size to None where Accelerate does: its sampler gives whole batches."""
    return {**given, "batch_size": None} if "batch_size" in arguments and arguments["batch_size"] is None else given


def _generator_of(loader: Any) -> torch.Generator | None:
    """The generator of the sampler inside a shard's: Accelerate makes one and keeps it equal on all ranks."""
    batches, _ = _unskipped(loader.batch_sampler)
    while hasattr(batches, "batch_sampler"):
        batches = batches.batch_sampler
    found = getattr(getattr(batches, "sampler", None), "generator", None)
    return found if isinstance(found, torch.Generator) and found is not loader.generator else None


def use_engine(prepared: Any, **options: Any) -> Any:
    """Makes leat create the batches of a loader that Accelerate has prepared from PyTorch's DataLoader.

    Args:
        prepared: what ``accelerator.prepare(loader)`` gave.
        options: arguments of leat.DataLoader that PyTorch's does not have, or that are to differ, as
            ``num_workers="auto"``.

    Returns:
        `prepared`, with another loader inside. A loader that has leat's already, or none, is returned unchanged.
    """
    old = getattr(prepared, "base_dataloader", None)
    if old is None or isinstance(old, DataLoader):
        return prepared
    names = ("num_workers", "collate_fn", "pin_memory", "timeout", "worker_init_fn", "multiprocessing_context",
    "generator", "prefetch_factor",
             "persistent_workers", "pin_memory_device", "in_order")  # fmt: skip
    arguments = {name: getattr(old, name) for name in names if hasattr(old, name)}
    if arguments.get("prefetch_factor") == 2:  # PyTorch's default: leat has a window of its own
        del arguments["prefetch_factor"]
    if isinstance(old.dataset, torch.utils.data.IterableDataset):
        arguments |= {"batch_size": old.batch_size, "drop_last": old.drop_last}
    elif old.batch_sampler is None:
        arguments |= {"batch_size": None, "sampler": old.sampler}
    own = _Options(
        {**_defaults(), **{k: options.pop(k) for k in _OWN if k in options}}, None if old.batch_sampler is None else old
    )
    _adopt(
        prepared,
        Inside(own, old.dataset, None if "batch_size" in arguments else old.batch_sampler, arguments | options),
        prepared.use_stateful_dataloader,
    )
    return prepared


class _Options:
    """Stands for the loader that leat's own options are read from."""

    def __init__(self, own: dict[str, Any], old: Any) -> None:
        self.__dict__.update(own)
        self.batch_sampler = getattr(old, "batch_sampler", None)


class TrainerMixin:
    """Hugging Face Trainer with leat's engine: put it before Trainer, and change nothing else.

    All loaders that the Trainer makes, of training, evaluation and prediction, keep their samplers, collator and
    arguments.

    Attributes:
        loader_options: arguments of leat.DataLoader for these loaders, as ``{"num_workers": "auto", "reseed": True}``.

    Example::

        class Trainer(leat.accelerate.TrainerMixin, transformers.Trainer):
            pass
    """

    loader_options: dict[str, Any] = {}

    def get_train_dataloader(self) -> Any:
        return use_engine(super().get_train_dataloader(), **self.loader_options)  # type: ignore[misc]

    def get_eval_dataloader(self, *args: Any, **kwargs: Any) -> Any:
        return use_engine(super().get_eval_dataloader(*args, **kwargs), **self.loader_options)  # type: ignore[misc]

    def get_test_dataloader(self, *args: Any, **kwargs: Any) -> Any:
        return use_engine(super().get_test_dataloader(*args, **kwargs), **self.loader_options)  # type: ignore[misc]
