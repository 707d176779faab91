"""leat's engine inside Hugging Face Accelerate, and so inside Hugging Face Trainer.

``accelerator.prepare(loader)`` reads the arguments of a loader, gives them to a ``torch.utils.data.DataLoader`` of its
own, and adds sharding, devices and the end of the epoch. All of this stays Accelerate's; only the loader inside becomes
leat's again. That needs no call: while Accelerate is imported, the timeout that is read from a
``leat.DataLoader`` carries a reference to the loader, and when Accelerate passes it on, :class:`Inside` is made in
place of PyTorch's loader. The same holds for ``skip_first_batches``, and no argument of leat's is lost.

Accelerate fetches batches before it hands out those before them, so a state counts what was handed out, at any time.
``save_state`` writes one file of a loader's state for all ranks, each rank the same one. Draws of samplers differ from
rank to rank, so leat writes a file for each rank, as Accelerate does of their random generators.

:class:`TrainerMixin` does the same for the loaders that a Trainer makes.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import inspect
import io
import json
import os
import sys
import warnings
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch.utils.data
from torch.utils.data import BatchSampler

from .errors import StateError
from .files import whole
from .loading.loader import Loader
from .torch.dataloader import DataLoader
from .torch.state import VERSION, checked

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
    module: Any = sys.modules["accelerate.data_loader"]
    adapter: Any = getattr(module, "DataLoaderAdapter", None)
    known = {"dataset", "use_stateful_dataloader", "batch_sampler", "kwargs"}
    if (
        not known <= inspect.signature(getattr(adapter, "__init__", None) or object).parameters.keys()
        or not hasattr(adapter, "_update_state_dict")
        or not hasattr(getattr(module, "DataLoaderDispatcher", None), "_fetch_batches")
    ):
        warnings.warn(
            "leat does not know how this version of Accelerate makes loaders: the batches of prepared ones come from "
            "PyTorch's DataLoader. Versions from 1.12 on are known.",
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
    update, fetch = adapter._update_state_dict, module.DataLoaderDispatcher._fetch_batches

    @functools.wraps(update)
    def marked(self: Any) -> None:
        if not isinstance(inside := self.base_dataloader, Inside):
            update(self)
        elif not isinstance(self, module.DataLoaderDispatcher) or self.end_of_dataloader:
            inside.mark()

    @functools.wraps(fetch)
    def fetched(self: Any, iterator: Any) -> Any:
        if isinstance(inside := self.base_dataloader, Inside):
            inside.mark()  # the next round is fetched before this one is handed out
        return fetch(self, iterator)

    adapter._update_state_dict = marked
    module.DataLoaderDispatcher._fetch_batches = fetched
    _save_for_each_rank()

    class Plain(type):
        """isinstance and issubclass ask about PyTorch's class."""

        def __instancecheck__(cls, instance: object) -> bool:
            return isinstance(instance, torch.utils.data.DataLoader)

        def __subclasscheck__(cls, subclass: type) -> bool:
            return issubclass(subclass, torch.utils.data.DataLoader)

    class Made(metaclass=Plain):
        """Accelerate's DataLoader: PyTorch's, or leat's if the arguments are those of a leat.DataLoader."""

        def __new__(cls, dataset: Any, batch_sampler: Any = None, **kwargs: Any) -> Any:
            origin = getattr(kwargs.get("timeout"), "loader", None)
            if origin is None:
                return torch.utils.data.DataLoader(dataset, batch_sampler=batch_sampler, **kwargs)
            return Inside(origin, dataset, batch_sampler, kwargs)

    module.DataLoader = Made  # of a loader that was not prepared: skip_first_batches


def _adopt(adapter: Any, inside: Inside, use_stateful_dataloader: bool) -> None:
    """Puts leat's loader inside a loader of Accelerate's."""
    adapter.base_dataloader = inside
    adapter.use_stateful_dataloader = use_stateful_dataloader
    inside.outside = weakref.ref(adapter)
    adapter.__dict__.pop("dl_state_dict", None)  # the adapter asks for that of the loader inside
    inside.most_ahead = 1
    if isinstance(adapter, sys.modules["accelerate.data_loader"].DataLoaderDispatcher):
        inside.most_ahead = _world()  # a round, one batch of which may be cut for all ranks
        # The first rank reads the data of all ranks, and only it has a state.
        if _world() > 1 and not _first_rank():
            adapter.use_stateful_dataloader = False


def _save_for_each_rank() -> None:
    """Makes Accelerate save and load the states of sharded loaders in a file for each rank."""
    module: Any = importlib.import_module("accelerate.accelerator")
    save, load = module.save_accelerator_state, module.load_accelerator_state

    @functools.wraps(save)
    def saved(*args: Any, **kwargs: Any) -> Any:
        given = inspect.signature(save).bind(*args, **kwargs).arguments
        with _of_ranks(given["dataloaders"]) as loaders:
            _forget(given["output_dir"], given["process_index"], loaders)
            if loaders:
                states = {i: loader.state_dict() for i, loader in loaders.items()}
                made = io.BytesIO()
                torch.save({"world": _world(), "states": states}, made)
                with whole(os.fspath(_file(given["output_dir"], given["process_index"])), folder=True) as file:
                    file.write(made.getbuffer())
            return save(*args, **kwargs)

    @functools.wraps(load)
    def loaded(*args: Any, **kwargs: Any) -> Any:
        given = inspect.signature(load).bind(*args, **kwargs).arguments
        with _of_ranks(given["dataloaders"]) as loaders:
            if loaders:
                states = _read(given["input_dir"], given["process_index"], given.get("load_kwargs"))
                if states and states.keys() != loaders.keys():
                    raise StateError(f"{len(states)} loaders were saved, {len(loaders)} are prepared")
                for i, state in states.items():  # all, before any of them moves
                    checked(loaders[i], state)
                for i, state in states.items():
                    loaders[i].load_state_dict(state)
            return load(*args, **kwargs)

    module.save_accelerator_state, module.load_accelerator_state = saved, loaded


def _file(folder: Any, rank: int | str) -> Path:
    return Path(folder) / f"leat_state_dicts_{rank}.bin"


def _forget(folder: Any, rank: int, loaders: dict[int, Any]) -> None:
    """Removes the files that a former save left in the folder, if it was by other ranks or of another kind."""
    _file(folder, rank).unlink(missing_ok=True)
    if rank:
        return
    for i in loaders:
        (Path(folder) / ("dl_state_dict.bin" if i == 0 else f"dl_state_dict_{i}.bin")).unlink(missing_ok=True)
    for file in Path(folder).glob(_file("", "*").name):
        number = file.stem.rpartition("_")[2]
        if number.isdigit() and int(number) >= _world():
            file.unlink(missing_ok=True)


def _read(folder: Any, rank: int, options: dict[str, Any] | None) -> dict[int, Any]:
    """The states of this rank's loaders, by their numbers; none if no loader's were saved."""
    file = _file(folder, rank)
    if not file.exists():
        if [*Path(folder).glob(_file("", "*").name), *Path(folder).glob("dl_state_dict*.bin")]:
            raise StateError(
                f"{file} is missing: the states of the loaders were saved by fewer ranks, or by another loader"
            )
        return {}
    found = importlib.import_module("accelerate.utils").load(file, **(options or {}))
    if found["world"] != _world():
        raise StateError(
            f"{file} is of {found['world']} ranks, and here are {_world()}: their shares of an epoch differ"
        )
    states: dict[int, Any] = found["states"]
    return states


@contextlib.contextmanager
def _of_ranks(loaders: list[Any]) -> Iterator[dict[int, Any]]:
    """Those of the loaders that are leat's and have a state on each rank, which Accelerate overlooks meanwhile."""
    dispatcher = sys.modules["accelerate.data_loader"].DataLoaderDispatcher
    found = {
        i: each
        for i, each in enumerate(loaders if _world() > 1 else ())
        if isinstance(getattr(each, "base_dataloader", None), Inside)
        and each.use_stateful_dataloader
        and not isinstance(each, dispatcher)
    }
    try:
        for each in found.values():
            each.use_stateful_dataloader = False
        yield found
    finally:
        for each in found.values():
            each.use_stateful_dataloader = True


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


class Later:
    """A batch sampler that begins with the request for its first batch, as inside Accelerate's SkipBatchSampler."""

    def __init__(self, batch_sampler: Any) -> None:
        self.batch_sampler = batch_sampler

    def __iter__(self) -> Iterator[Any]:
        yield from self.batch_sampler

    def __len__(self) -> int:
        return len(self.batch_sampler)

    def __getattr__(self, name: str) -> Any:
        if name == "batch_sampler":  # not there yet: this is being unpickled
            raise AttributeError(name)
        return getattr(self.batch_sampler, name)


class Inside(DataLoader[Any]):
    """The loader inside one of Accelerate's: leat's engine on the batch sampler that Accelerate has made.

    Args:
        origin: the loader that was to be prepared, which has leat's own arguments.
        dataset, batch_sampler, arguments: as Accelerate gives them to PyTorch's loader.
    """

    def __init__(self, origin: Any, dataset: Any, batch_sampler: Any, arguments: dict[str, Any]) -> None:
        self.outside: Any = lambda: None
        self._skip = 0
        self._marked: tuple[Any, int] = (None, 0)  # a position, and the batches delivered that were handed out
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
            if self._skip and type(self._whole) is not BatchSampler:
                self._whole = Later(self._whole)
            return
        # The loader is not sharded: it is as before, with an order of leat's if it had one.
        super().__init__(dataset, origin.batch_size, sampler=origin.sampler, drop_last=origin.drop_last, **given)
        self.__dict__["batch_sampler"] = self._whole = batch_sampler
        self._shuffle = origin._shuffle

    @property
    def _index_sampler(self) -> Any:
        return self._whole if self._skip else super()._index_sampler

    def __len__(self) -> int:
        return super().__len__() - self._skip

    def __iter__(self) -> Any:
        outside, loaded = self.outside(), self._loaded
        # Accelerate has restored the generators: beginning in the middle of an epoch draws nothing of this process's
        midway = loaded is not None and "yielded" in loaded and "torch" not in loaded.get("reading", {}).get("now", {})
        state = torch.get_rng_state() if midway else None
        if loaded is None:
            self._epoch = getattr(outside, "iteration", self._epoch)
            if self._skip:
                at = {"version": VERSION, "epoch": self._epoch, "step": self._skip, "yielded": self._skip}
                self._loaded = {**at, "skipped": True}
        made = super().__iter__()
        if state is not None:
            torch.set_rng_state(state)
        self.mark()
        return made

    def mark(self) -> None:
        """Notes that all batches delivered so far are handed out before any other."""
        self._marked = (self._position, 0 if self._position is None else self._position.yielded)

    def state_dict(self) -> dict[str, Any]:
        """The state after the batches that were handed out."""
        position = self._position
        if self._loaded is not None or position is None:
            return super().state_dict()
        marked, count = self._marked
        self._ahead = position.yielded - (count if marked is position else 0)
        return super().state_dict()

    @property
    def dl_state_dict(self) -> dict[str, Any]:
        """The result of the adapter's ``state_dict()``."""
        return {**self.state_dict(), "_iterator_finished": getattr(self.outside(), "end_of_dataloader", False)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        if isinstance(state, dict):
            state = {k: v for k, v in state.items() if k != "_iterator_finished"}
        super().load_state_dict(state)
        outside = self.outside()
        if outside is not None:
            outside.iteration = self._epoch

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
    """Sets the batch size to None if Accelerate does: its sampler gives whole batches."""
    return {**given, "batch_size": None} if "batch_size" in arguments and arguments["batch_size"] is None else given


def use_engine(prepared: Any, **options: Any) -> Any:
    """Makes leat create the batches of a loader that Accelerate has prepared from PyTorch's DataLoader.

    Args:
        prepared: the result of ``accelerator.prepare(loader)``.
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


@functools.cache
def _saving() -> Any:
    """The kind of callback that has the state of a Trainer's :class:`leat.Loader` in ``trainer_state.json``."""
    module: Any = importlib.import_module("transformers.trainer_callback")

    class LeatLoader(module.TrainerCallback, module.ExportableState):  # type: ignore[misc]
        loader: Any = None

        def on_train_begin(self, args: Any, state: Any, control: Any, **given: Any) -> None:
            loader = given.get("train_dataloader")
            self.loader = loader if isinstance(loader, Loader) else None
            saved = state.stateful_callbacks.get(type(self).__name__, {}).get("attributes", {}).get("loader")
            resumes = state.global_step > 0  # a new run, or one tried again, has the state as this run left it
            if self.loader is not None and saved and resumes and not args.ignore_data_skip:
                self.loader.load_state_dict(saved)

        def state(self) -> dict[str, Any]:
            found = None
            if self.loader is not None:
                options = self.loader._options
                if options["world_size"] > 1 and (self.loader._counters or not options["in_order"]):
                    raise StateError(
                        "Trainer saves one state for all ranks, and those of loaders with in_order=False or counters= "
                        "differ: save loader.state_dict() of each rank, and let get_train_dataloader() load it"
                    )
                found = self.loader.state_dict()
                try:
                    json.dumps(found)
                except TypeError as e:
                    raise StateError(f"what a sampler says of itself is no JSON, as Trainer saves it: {e}") from None
            return {"args": {}, "attributes": {"loader": found}}

    return LeatLoader


class TrainerMixin:
    """Hugging Face Trainer with leat's engine: put it before Trainer, and change nothing else.

    All loaders that the Trainer makes, of training, evaluation and prediction, keep their samplers, collator and
    arguments. A :class:`leat.Loader` in the place of a data set is the loader, and its state is a part of checkpoints;
    so is that of one which a ``get_train_dataloader`` of the user's gives.

    Attributes:
        loader_options: arguments of leat.DataLoader for these loaders, as ``{"num_workers": "auto", "reseed": True}``.

    Example::

        class Trainer(leat.accelerate.TrainerMixin, transformers.Trainer):
            pass
    """

    loader_options: dict[str, Any] = {}

    callback_handler: Any
    train_dataset: Any
    eval_dataset: Any

    def train(self, *args: Any, **kwargs: Any) -> Any:
        if not any(isinstance(each, _saving()) for each in self.callback_handler.callbacks):
            self.callback_handler.add_callback(_saving())
        return super().train(*args, **kwargs)  # type: ignore[misc]

    def get_train_dataloader(self) -> Any:
        if isinstance(self.train_dataset, Loader):
            return self.train_dataset
        return use_engine(super().get_train_dataloader(), **self.loader_options)  # type: ignore[misc]

    def get_eval_dataloader(self, eval_dataset: Any = None) -> Any:
        given = self.eval_dataset if eval_dataset is None else eval_dataset
        given = self.eval_dataset[given] if isinstance(given, str) else given
        if isinstance(given, Loader):
            return given
        return use_engine(super().get_eval_dataloader(eval_dataset), **self.loader_options)  # type: ignore[misc]

    def get_test_dataloader(self, test_dataset: Any) -> Any:
        if isinstance(test_dataset, Loader):
            return test_dataset
        return use_engine(super().get_test_dataloader(test_dataset), **self.loader_options)  # type: ignore[misc]
