"""Data sets, samplers and functions of the DataLoader tests, in a module of their own so that spawned workers can
import them.
"""

from __future__ import annotations

import array
import collections
import os
import random
import signal
import time
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from dtypes import NUMPY_TYPES, TORCH_TYPES
from torch.utils.data import Dataset, IterableDataset, Sampler, get_worker_info

HUNG_S = 300.0  # no test takes so long unless something hangs, on a machine that is busy with others too
LONG_S = 3.0  # a sample that does nothing takes less, on such a machine


def assert_same(got: Any, expected: Any, where: str = "batch") -> None:
    """Types, dtypes, shapes, keys, order and values are all the same."""
    assert type(got) is type(expected), f"{where} is {type(got)}, not {type(expected)}"
    if isinstance(expected, torch.Tensor):
        assert (got.dtype, got.shape, got.layout, got.device) == (
            expected.dtype,
            expected.shape,
            expected.layout,
            expected.device,
        ), where
        torch.testing.assert_close(got, expected, rtol=0, atol=0, equal_nan=True, msg=lambda m: f"{where}: {m}")
    elif isinstance(expected, np.ndarray):
        assert got.dtype == expected.dtype, where
        np.testing.assert_array_equal(got, expected, err_msg=where)
    elif isinstance(expected, Mapping):
        assert list(got) == list(expected), where
        for key in expected:
            assert_same(got[key], expected[key], f"{where}[{key!r}]")
    elif isinstance(expected, Sequence) and not isinstance(expected, str | bytes | range):
        assert len(got) == len(expected), where
        for i, (a, b) in enumerate(zip(got, expected)):
            assert_same(a, b, f"{where}[{i}]")
    else:
        assert got == expected or (got != got and expected != expected), where


def error_of(kind: type[BaseException] | tuple[type[BaseException], ...], call: Callable[[], Any]) -> str:
    """The text of the error that `call` raises. Its traceback is cut, so that no cycle of frames keeps the loader."""
    try:
        call()
    except kind as e:
        text = str(e)
        each: BaseException | None = e
        while each is not None:
            each.__traceback__, each = None, each.__context__
        return text
    raise AssertionError(f"{kind} was not raised")


def rows(loader: Any) -> list[int]:
    """The numbers that a loader over integers delivers, in their order."""
    return [int(i) for batch in loader for i in batch]


def batches(loader: Any) -> list[list[int]]:
    return [batch.tolist() for batch in loader]


# --- map-style
# ---------------------------------------------------------------------------------------------------------


class Count(Dataset):
    """Sample i is the integer i."""

    def __init__(self, n: int) -> None:
        self.n = n

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, i: int) -> int:
        return i


class Deadly(Count):
    """Sample 5 ends its process."""

    def __getitem__(self, i: int) -> int:
        if i == 5:
            os.kill(os.getpid(), signal.SIGKILL)
        return i


class Hanging(Count):
    """Sample 5 never comes."""

    def __getitem__(self, i: int) -> int:
        if i == 5:
            time.sleep(1000)
        return i


class From(Dataset):
    """Sample i is make(i)."""

    def __init__(self, n: int, make: Callable[[int], Any]) -> None:
        self.n, self.make = n, make

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, i: int) -> Any:
        return self.make(i)


class Many(Dataset):
    """Serves `__getitems__`; `__getitem__` says that it must not be asked."""

    def __len__(self) -> int:
        return 20

    def __getitem__(self, i: int) -> int:
        raise AssertionError("__getitem__ was called although there is __getitems__")

    def __getitems__(self, indices: list[int]) -> list[int]:
        assert type(indices) is list, type(indices)
        return [10 * i for i in indices]


class Bulk(Dataset):
    """Is indexed with lists, as a sampler of lists and batch_size=None ask for."""

    def __len__(self) -> int:
        return 35

    def __getitem__(self, indices: list[int]) -> torch.Tensor:
        assert isinstance(indices, list)
        return torch.as_tensor(indices)


class Lists(Sampler):
    """Lists of at most 4 positions of 35."""

    def __iter__(self) -> Iterator[list[int]]:
        for part in torch.arange(35).split(4):
            yield part.tolist()

    def __len__(self) -> int:
        return 9


class Keyed(Dataset):
    """Is indexed with words."""

    def __init__(self) -> None:
        self.words = {"zero": 0, "one": 1, "two": 2, "three": 3}

    def __len__(self) -> int:
        return len(self.words)

    def __getitem__(self, key: str) -> int:
        return self.words[key]


class Failing(Dataset):
    """Raises `error(i)` for the positions in `bad`; with None for all."""

    def __init__(self, n: int, error: Callable[[int], BaseException], bad: set[int] | None = None) -> None:
        self.n, self.error, self.bad = n, error, bad

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, i: int) -> int:
        if self.bad is None or i in self.bad:
            raise self.error(i)
        return i


class Draws(Dataset):
    """Sample i holds what Python's, NumPy's and torch's global generators give next."""

    def __init__(self, n: int) -> None:
        self.n = n

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, i: int) -> tuple[float, float, torch.Tensor]:
        return random.random(), np.random.random(), torch.rand((), dtype=torch.float64)


class Meeting:
    """In each process the first `wait` returns once as many as expected wait; so each worker makes a sample."""

    def __init__(self, context: Any, expected: int) -> None:
        self.counter, self.all_here, self.expected = context.Value("i", 0), context.Event(), expected
        self.met: int | None = None

    def wait(self) -> None:
        if self.met != os.getpid():
            with self.counter.get_lock():
                self.counter.value += 1
                if self.counter.value >= self.expected:
                    self.all_here.set()
            assert self.all_here.wait(HUNG_S), "some worker got no sample"
            self.met = os.getpid()


class Workers(Dataset):
    """Sample i says who made it: worker, number of workers, process, seed, torch's seed, torch's threads."""

    def __init__(self, n: int, meeting: Meeting | None = None) -> None:
        self.n, self.meeting, self.base = n, meeting, 0

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, i: int) -> dict[str, int]:
        info = get_worker_info()
        assert info is not None and info.dataset is self
        if self.meeting is not None:
            self.meeting.wait()
        return {
            "row": i,
            "id": info.id,
            "num_workers": info.num_workers,
            "seed": info.seed,
            "torch_seed": torch.initial_seed(),
            "threads": torch.get_num_threads(),
            "pid": os.getpid(),
            "base": self.base,
        }


class Mutable(Dataset):
    """Sample i is `base + i`; what is changed in the parent shows where the workers see it."""

    def __init__(self, n: int) -> None:
        self.n, self.base = n, 0

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, i: int) -> int:
        return self.base + i


class Remembering(Dataset):
    """Sample i is how many samples this copy of the data set has made before."""

    def __init__(self, n: int) -> None:
        self.n, self.made = n, 0

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, i: int) -> int:
        self.made += 1
        return self.made - 1


class Counting(Dataset):
    """Counts, over all processes, how many samples were made."""

    def __init__(self, n: int, counter: Any) -> None:
        self.n, self.counter = n, counter

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, i: int) -> int:
        with self.counter.get_lock():
            self.counter.value += 1
        return i


class Waits(Dataset):
    """Sample `slow` waits for an event; sample `sets` sets it."""

    def __init__(self, n: int, event: Any, slow: int, sets: int | None = None) -> None:
        self.n, self.event, self.slow, self.sets = n, event, slow, sets

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, i: int) -> int:
        if i == self.sets:
            self.event.set()
        if i == self.slow:
            assert self.event.wait(HUNG_S), "waited for nothing"
        return i


# --- iterable
# ----------------------------------------------------------------------------------------------------------


class Stream(IterableDataset):
    """0 to n - 1, in every worker."""

    def __init__(self, n: int) -> None:
        self.n = n

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.n))

    def __len__(self) -> int:
        return self.n


class Endless(IterableDataset):
    """Has no length and no end."""

    def __iter__(self) -> Iterator[int]:
        i = 0
        while True:
            yield i
            i += 1


class PerWorker(IterableDataset):
    """Worker w gives sizes[w] numbers from 100 w on; without workers all of them."""

    def __init__(self, sizes: Sequence[int]) -> None:
        self.sizes = sizes

    def __iter__(self) -> Iterator[int]:
        info = get_worker_info()
        for w in range(len(self.sizes)) if info is None else [info.id]:
            yield from range(100 * w, 100 * w + self.sizes[w])

    def __len__(self) -> int:
        return sum(self.sizes)


class OwnIterator(IterableDataset):
    """Is its own iterator, so that it can be used once."""

    def __init__(self, n: int) -> None:
        self.n, self.i = n, 0

    def __iter__(self) -> OwnIterator:
        return self

    def __next__(self) -> int:
        if self.i == self.n:
            raise StopIteration
        self.i += 1
        return self.i - 1


class FailingStream(IterableDataset):
    """Gives `good` numbers, then raises; with good < 0 it raises in `__iter__` itself."""

    def __init__(self, good: int) -> None:
        self.good = good

    def __iter__(self) -> Iterator[int]:
        if self.good < 0:
            raise OSError("no stream here")
        return self._numbers()

    def _numbers(self) -> Iterator[int]:
        yield from range(self.good)
        raise ValueError("the stream broke")


# --- collation
# ---------------------------------------------------------------------------------------------------------


class Point(NamedTuple):
    x: Any
    y: Any


class Pair(NamedTuple):
    point: Point
    name: str
    values: torch.Tensor


class OwnDict(dict):
    """A dict with an attribute, which a copy keeps."""

    note = "a note"


class OwnList(list):
    pass


class Opaque:
    def __init__(self, value: int) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Opaque) and other.value == self.value

    def __hash__(self) -> int:
        return hash(self.value)


def _ordered(i: int) -> collections.OrderedDict[str, Any]:
    return collections.OrderedDict(b=i, a=float(i))


def _default(i: int) -> collections.defaultdict[str, Any]:
    return collections.defaultdict(int, b=i, a=float(i))


def _read_only(i: int) -> np.ndarray:
    made = np.full((2, 3), i, np.float32)
    made.flags.writeable = False
    return made


KINDS: dict[str, Callable[[int], Any]] = {
    "int": lambda i: i,
    "large int": lambda i: 2**62 + i,
    "negative int": lambda i: -i,
    "float": lambda i: i / 3,
    "not a number": lambda i: float("nan") if i % 2 else float("inf"),
    "bool": lambda i: i % 2 == 0,
    "str": lambda i: f"sample {i}",
    "empty str": lambda i: "",
    "bytes": lambda i: bytes([i, 0, i]),
    "int, then float": lambda i: i if i % 2 == 0 else i + 0.5,
    "float, then int": lambda i: i if i % 2 else i + 0.5,
    "bool, then int": lambda i: True if i % 2 == 0 else i,
    "tuple": lambda i: (i, float(i), f"{i}"),
    "tuple of one": lambda i: (i,),
    "empty tuple": lambda i: (),
    "list": lambda i: [i, float(i)],
    "empty list": lambda i: [],
    "list of str": lambda i: ["a", str(i)],
    "named tuple": lambda i: Point(i, torch.full((2,), i)),
    "nested named tuple": lambda i: Pair(Point(i, -i), str(i), torch.full((3,), float(i))),
    "dict": lambda i: {"b": i, "a": torch.full((2, 2), i)},
    "empty dict": lambda i: {},
    "dict in another order": lambda i: {"a": i, "b": -i} if i % 2 else {"b": -i, "a": i},
    "dict with more keys later": lambda i: {"a": i, **({"extra": 1} if i % 2 else {})},
    "dict of integers": lambda i: {0: i, (1, 2): -i},
    "ordered dict": _ordered,
    "default dict": _default,
    "own dict": lambda i: OwnDict(a=i),
    "own list": lambda i: OwnList([i, -i]),
    "user dict": lambda i: collections.UserDict(a=i),
    "user list": lambda i: collections.UserList([i, -i]),
    "deque": lambda i: collections.deque([i, -i]),
    "array": lambda i: array.array("i", [i, -i]),
    "range": lambda i: range(i, i + 3),
    "nested": lambda i: {"a": [(i, {"c": np.full(3, i)}), "x"], "b": Point(str(i), [float(i), torch.tensor(i)])},
    "deeply nested": lambda i: [[[[[[[[i]]]]]]]],
    "tensor without dimensions": lambda i: torch.tensor(float(i)),
    "empty tensor": lambda i: torch.empty(0, 3),
    "transposed tensor": lambda i: torch.arange(6).reshape(2, 3).t() + i,
    "expanded tensor": lambda i: torch.tensor([float(i)]).expand(4),
    "sliced tensor": lambda i: (torch.arange(20) + i)[3::4],
    "large tensor": lambda i: torch.full((300, 1000), float(i)),
    "array without dimensions": lambda i: np.array(i),
    "empty array": lambda i: np.empty((0, 2), np.float32),
    "column-major array": lambda i: np.asfortranarray(np.arange(6).reshape(2, 3) + i),
    "reversed array": lambda i: np.ascontiguousarray((np.arange(6) + i)[::-1]),
    "sliced array": lambda i: (np.arange(20) + i)[3::4],
    "read-only array": _read_only,
    "image and label": lambda i: (torch.full((3, 8, 8), i, dtype=torch.uint8), i % 10),
    "detection": lambda i: {
        "image": np.full((3, 4, 4), i, np.float32),
        "target": {"boxes": torch.full((2, 4), i), "name": f"{i}"},
    },
    **{f"torch {t}": (lambda i, t=t: torch.tensor([i % 2, 1, 0]).to(getattr(torch, t))) for t in TORCH_TYPES},
    **{f"numpy array {t}": (lambda i, t=t: np.array([i % 2, 1, 0]).astype(t)) for t in NUMPY_TYPES},
    **{f"numpy scalar {t}": (lambda i, t=t: np.dtype(t).type(i % 2)) for t in NUMPY_TYPES if t != "uint64"},
    "numpy str": lambda i: np.str_(f"{i}"),
}


class Kind(Dataset):
    """Samples of one of KINDS."""

    def __init__(self, name: str, n: int = 5) -> None:
        self.name, self.n = name, n

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, i: int) -> Any:
        return (KINDS | LAZY_KINDS)[self.name](i)


class KindStream(IterableDataset):
    def __init__(self, name: str, n: int = 5) -> None:
        self.name, self.n = name, n

    def __iter__(self) -> Iterator[Any]:
        return ((KINDS | LAZY_KINDS)[self.name](i) for i in range(self.n))


# Right here, but wrong or an error in PyTorch's workers: tensors whose memory is not their value.
LAZY_KINDS: dict[str, Callable[[int], Any]] = {
    "conjugated tensor": lambda i: torch.tensor([1 + 2j, i * 1j]).conj(),
    "negated tensor": lambda i: torch.tensor([1 + 2j, i * 1j]).conj().imag,
}

BAD_KINDS: dict[str, Callable[[int], Any]] = {
    "complex": lambda i: complex(i, -i),
    "numpy uint64": lambda i: np.uint64(i),
    "None": lambda i: None,
    "None in a dict": lambda i: {"a": i, "b": None},
    "object": lambda i: Opaque(i),
    "set": lambda i: {i},
    "array of str": lambda i: np.array(["a", "b"]),
    "array of objects": lambda i: np.array([object()]),
    "tensors of two shapes": lambda i: torch.zeros(2 + i % 2),
    "arrays of two shapes": lambda i: np.zeros((2 + i % 2, 3)),
    "tensors of two ranks": lambda i: torch.zeros((2,) if i % 2 else (1, 2)),
    "lists of two lengths": lambda i: [0] * (1 + i % 2),
    "lists of two lengths, the longer first": lambda i: ["x"] * (2 - i % 2),
    "missing key": lambda i: {"a": i} if i % 2 else {"a": i, "b": i},
    "int, then str": lambda i: str(i) if i % 2 else i,
    "int above 64 bits": lambda i: 2**64 + i,
    "nested tensor": lambda i: torch.nested.nested_tensor([torch.zeros(2), torch.zeros(3)]),
    "sparse tensor": lambda i: torch.eye(2).to_sparse(),
    "tuple, then int": lambda i: i if i % 2 else (i,),
    "mapping proxy of None": lambda i: types.MappingProxyType({"a": None}),
}


def as_is(batch: Any) -> Any:
    return batch


def as_opaque(batch: list[int]) -> Opaque:
    assert type(batch) is list
    return Opaque(sum(batch))


def as_text(batch: Any) -> str:
    return repr(batch)


def as_ragged(batch: list[torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor, list[str]]:
    """What a model of texts wants: padded values, lengths, names."""
    return (
        torch.nn.utils.rnn.pad_sequence(batch, True),
        torch.tensor([len(x) for x in batch]),
        [f"{len(x)}" for x in batch],
    )


def failing_collate(batch: Any) -> Any:
    raise LookupError("cannot collate this")


# --- functions for workers
# ---------------------------------------------------------------------------------------------


def seed_alike(worker: int) -> None:
    torch.manual_seed(12345)


def failing_init(worker: int) -> None:
    raise LookupError(f"worker {worker} cannot begin")


def mark_dataset(worker: int) -> None:
    """Sets an attribute of the worker's copy of the data set."""
    info = get_worker_info()
    assert info is not None and info.id == worker
    info.dataset.base = 1000


def only_one_cpu(worker: int) -> None:
    os.sched_setaffinity(0, [sorted(os.sched_getaffinity(0))[-1]])


class CountInit:
    """A worker_init_fn that counts its calls per worker, over all processes."""

    def __init__(self, calls: Any) -> None:
        self.calls = calls

    def __call__(self, worker: int) -> None:
        with self.calls.get_lock():
            self.calls[worker] += 1


# --- state
# -------------------------------------------------------------------------------------------------------------


class StatefulStream(IterableDataset):
    """Worker w of the sizes given; its iterator is a generator, its state lies in the data set."""

    def __init__(self, sizes: Sequence[int]) -> None:
        self.sizes, self.i, self.epoch, self.resume = sizes, 0, 0, None

    def __iter__(self) -> Iterator[tuple[int, int]]:
        info = get_worker_info()
        sizes = [sum(self.sizes)] if info is None else self.sizes
        worker = 0 if info is None else info.id
        self.i, self.resume = self.resume or 0, None
        begin = sum(sizes[:worker])
        for k in range(begin + self.i, begin + sizes[worker]):
            self.i += 1
            yield k, self.epoch
        self.i = 0
        self.epoch += 1

    def state_dict(self) -> dict[str, Any]:
        return {"i": self.i, "epoch": self.epoch}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.resume, self.epoch = state["i"], state["epoch"]


class StatefulIterator:
    """An iterator with state; with `draw` its numbers come from torch's global generator, as part of the state."""

    def __init__(self, numbers: Sequence[int], draw: bool) -> None:
        self.numbers, self.draw, self.i = numbers, draw, 0

    def __iter__(self) -> StatefulIterator:
        return self

    def __next__(self) -> int:
        if self.i >= len(self.numbers):
            raise StopIteration
        self.i += 1
        return int(torch.randint(1000, ())) if self.draw else self.numbers[self.i - 1]

    def state_dict(self) -> dict[str, Any]:
        return {"nested": {"i": self.i}, **({"rng": torch.get_rng_state()} if self.draw else {})}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.i = state["nested"]["i"]
        if self.draw:
            torch.set_rng_state(state["rng"])


class StreamOfStatefulIterators(IterableDataset):
    def __init__(self, sizes: Sequence[int], draw: bool = False) -> None:
        self.sizes, self.draw = sizes, draw

    def __iter__(self) -> StatefulIterator:
        info = get_worker_info()
        sizes, worker = ([sum(self.sizes)], 0) if info is None else (self.sizes, info.id)
        begin = sum(sizes[:worker])
        return StatefulIterator(range(begin, begin + sizes[worker]), self.draw)


class PlainStream(IterableDataset):
    """Worker w of the sizes given, without any state."""

    def __init__(self, sizes: Sequence[int]) -> None:
        self.sizes = sizes

    def __iter__(self) -> Iterator[int]:
        info = get_worker_info()
        sizes, worker = ([sum(self.sizes)], 0) if info is None else (self.sizes, info.id)
        begin = sum(sizes[:worker])
        yield from range(begin, begin + sizes[worker])


class StatefulSampler(Sampler):
    """0 to n - 1 from where its state says."""

    def __init__(self, n: int) -> None:
        self.n, self.i, self.resume = n, 0, None

    def __iter__(self) -> Iterator[int]:
        self.i, self.resume = self.resume or 0, None
        for k in range(self.i, self.n):
            self.i += 1
            yield k
        self.i = 0

    def __len__(self) -> int:
        return self.n

    def state_dict(self) -> dict[str, int]:
        return {"i": self.i}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.resume = state["i"]
