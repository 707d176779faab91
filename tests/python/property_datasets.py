"""Data sets of the property test, beside those of the DataLoader tests."""

from __future__ import annotations

import hashlib
import multiprocessing
import random
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import torch
from dataloader_support import (
    KINDS,
    Bulk,
    Draws,
    Failing,
    FailingStream,
    Keyed,
    KindStream,
    Many,
    PerWorker,
    PlainStream,
    StatefulStream,
    Stream,
    StreamOfStatefulIterators,
)
from torch.utils.data import Dataset, IterableDataset, get_worker_info

_STALLED_S = 30  # of a worker that waits for another one

#: Samples that PyTorch's default collation takes, beside those of the collation tests.
MORE_KINDS: dict[str, Callable[[int], Any]] = {
    "torch float8_e4m3fn": lambda i: torch.tensor([i, 1.0]).to(torch.float8_e4m3fn),
    "torch float8_e5m2": lambda i: torch.tensor(float(i)).to(torch.float8_e5m2),
    "torch complex32": lambda i: torch.tensor([i + 1j, 2]).to(torch.complex32),
    "torch int64 of nothing": lambda i: torch.empty(0, dtype=torch.int64),
    "text and number": lambda i: (f"text {i}", i),
    "dict of texts": lambda i: {"text": "a" * i, "label": i % 3},
}
#: Samples that only a collate function of the user's takes.
ODD_KINDS: dict[str, Callable[[int], Any]] = {
    "None": lambda i: None,
    "set": lambda i: {i},
    "two shapes": lambda i: torch.zeros(2 + i % 2),
    "torch sparse": lambda i: torch.eye(2).mul(i).to_sparse(),
    "object array": lambda i: np.array([i, None]),
    "int above 64 bits": lambda i: 2**64 + i,
}


class Of(Dataset):
    """Sample i is one of a kind; with `fails` that one raises."""

    def __init__(self, kind: str, n: int) -> None:
        self.kind, self.n = kind, n

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, i: int) -> Any:
        if not 0 <= i < self.n:
            raise IndexError(f"no sample {i}")
        return (KINDS | MORE_KINDS | ODD_KINDS)[self.kind](i)


class Transform:
    def __init__(self) -> None:
        self.on = True
        self.table = [0] * 4

    def __call__(self, i: int) -> int:
        return i + 100 * self.on + 1000 * self.table[i % 4]


class Nested(Dataset):
    """Sample i goes through a transform, which the training can change."""

    def __init__(self, n: int) -> None:
        self.items, self.transform = list(range(n)), Transform()

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, i: int) -> int:
        return self.transform(self.items[i])

    def change(self, what: int) -> None:
        """Changes something in place, inside the data set."""
        match what % 3:
            case 0:
                self.transform.on = not self.transform.on
            case 1:
                self.transform.table[1] += 1
            case 2:
                self.items[0] += 50


class OwnIterator(IterableDataset):
    """Is its own iterator, and counts its epochs; both are in its state."""

    def __init__(self, n: int) -> None:
        self.n, self.i, self.epoch = n, 0, 0
        self.resumed = False

    def __iter__(self) -> OwnIterator:
        if not self.resumed:
            self.i = 0
        self.resumed = False
        return self

    def __next__(self) -> int:
        if self.i >= self.n:
            self.i = 0
            self.epoch += 1
            raise StopIteration
        self.i += 1
        return 100 * self.epoch + self.i - 1

    def state_dict(self) -> dict[str, int]:
        return {"i": self.i, "epoch": self.epoch}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.i, self.epoch = state["i"], state["epoch"]
        self.resumed = self.i > 0


class WrongLength(Stream):
    """Has more samples than it says."""

    def __len__(self) -> int:
        return self.n - 3


class Stalls(IterableDataset):
    """The first worker gives nothing before the second one has given thirty."""

    def __init__(self) -> None:
        self.given = multiprocessing.get_context("fork").Event()

    def __iter__(self) -> Iterator[int]:
        if get_worker_info().id == 0 and not self.given.wait(_STALLED_S):
            raise TimeoutError("the other worker does not go on")
        for i in range(40):
            if i == 30:
                self.given.set()
            yield i


def pipe(n: int) -> Any:
    """A data pipe: PyTorch's own graphs of iterables."""
    from torch.utils.data.datapipes.iter import IterableWrapper

    return IterableWrapper(range(n)).shuffle().sharding_filter()


def make(spec: tuple[Any, ...], n: int) -> Any:
    """The data set of a specification: (name, its arguments...)."""
    kind, *rest = spec
    match kind:
        case "numbers":
            return list(range(n))
        case "kind":
            return Of(rest[0], n)
        case "nested":
            return Nested(n)
        case "fails":
            return Failing(n, {"ValueError": ValueError, "KeyError": KeyError, "StopIteration": StopIteration,
                               "Own": Own}[rest[0]], {rest[1]})  # fmt: skip
        case "draws":
            return Draws(n)
        case "many":
            return Many()
        case "bulk":
            return Bulk()
        case "keyed":
            return Keyed()
        case "stream":
            return Stream(n)
        case "stream of kind":
            return KindStream(rest[0], n)
        case "per worker":
            return PerWorker(rest[0])
        case "plain":
            return PlainStream(rest[0])
        case "stateful":
            return StatefulStream(rest[0])
        case "stateful iterator":
            return StreamOfStatefulIterators(rest[0])
        case "own iterator":
            return OwnIterator(n)
        case "wrong length":
            return WrongLength(n)
        case "failing stream":
            return FailingStream(rest[0])
        case "stalls":
            return Stalls()
        case "pipe":
            return pipe(n)
    raise AssertionError(kind)


class Own(Exception):
    """An exception with two arguments, so that a text alone does not make it."""

    def __init__(self, at: int, why: str = "none") -> None:
        super().__init__(at, why)


def shown(value: Any) -> Any:
    """Types, dtypes, shapes, keys, order and values, as plain values that can be compared, printed and sent."""
    kind = type(value).__name__
    if isinstance(value, torch.Tensor):
        found = value.detach()
        if found.layout != torch.strided:
            return kind, str(found.layout), shown(found.to_dense())
        found = found.resolve_conj().resolve_neg()
        if found.dtype in (torch.int64, torch.float32, torch.float64, torch.bool) and found.numel() < 64:
            return kind, str(found.dtype), tuple(found.shape), repr(found.tolist())
        stored = found.clone(memory_format=torch.contiguous_format).untyped_storage()
        data = torch.empty(0, dtype=torch.uint8).set_(stored).numpy().tobytes()
        return kind, str(found.dtype), tuple(found.shape), hashlib.sha1(data).hexdigest()
    if isinstance(value, np.ndarray | np.generic):
        return kind, str(value.dtype), np.shape(value), repr(value.tolist())
    if isinstance(value, Mapping):
        return kind, [(shown(k), shown(v)) for k, v in value.items()]
    if isinstance(value, tuple | list):
        return kind, [shown(v) for v in value]
    if isinstance(value, set):
        return kind, sorted(map(repr, value))
    return kind, repr(value)


def held(thing: Any) -> Any:
    """What an object holds, its generators included, as plain values."""
    if isinstance(thing, torch.Generator):
        return hash(thing.get_state().numpy().tobytes())
    if isinstance(thing, np.random.Generator):
        return repr(thing.bit_generator.state)
    if isinstance(thing, np.random.RandomState):
        return repr(thing.get_state(legacy=False))
    if isinstance(thing, random.Random):
        return hash(thing.getstate())
    if isinstance(thing, list | tuple):
        return [held(each) for each in thing]
    if hasattr(thing, "__dict__"):
        return {name: held(value) for name, value in vars(thing).items()}
    return shown(thing)


def rows_of(seen: Any) -> Iterator[str]:
    """What a batch, as `shown` tells it, is made of."""
    if isinstance(seen, tuple) and seen and seen[0] == "Tensor":
        yield from str(seen[-1]).strip("[]").split(", ")
    else:
        yield repr(seen)
