"""A table of prepared loaders: ways to prepare, kinds of samplers, workers, and ways to iterate.

What a loader gives by one row of the table is the rows of its epochs and the random generators' states after them.
"""

from __future__ import annotations

import itertools
import random
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from accelerate import Accelerator, DataLoaderConfiguration, skip_first_batches
from torch.utils.data import BatchSampler, Dataset, RandomSampler, WeightedRandomSampler

N, SIZE = 11, 4


class Rows(Dataset[torch.Tensor]):
    def __len__(self) -> int:
        return N

    def __getitem__(self, i: int) -> torch.Tensor:
        return torch.tensor(i)


class Sampler:
    """A permutation drawn from NumPy when iteration begins."""

    def __init__(self, n: int = N) -> None:
        self.n = n

    def __len__(self) -> int:
        return self.n

    def __iter__(self) -> Iterator[Any]:
        return iter(np.random.permutation(self.n).tolist())


class Lazy(Sampler):
    """The same, drawn when the first row is asked for."""

    def __iter__(self) -> Iterator[Any]:
        yield from super().__iter__()


class Draws(Sampler):
    """Each row is drawn when it is asked for, from all three generators in turn."""

    def __iter__(self) -> Iterator[Any]:
        for i in range(self.n):
            yield (int(np.random.randint(self.n)), random.randrange(self.n), int(torch.randint(self.n, ())))[i % 3]


class Batches(Sampler):
    """A batch sampler that draws when iteration begins."""

    drop_last = False

    def __init__(self, n: int = N, size: int = SIZE) -> None:
        super().__init__(n)
        self.batch_size = size

    def __len__(self) -> int:
        return -(-self.n // self.batch_size)

    def __iter__(self) -> Iterator[Any]:
        order = list(super().__iter__())
        return iter([order[i : i + self.batch_size] for i in range(0, self.n, self.batch_size)])


class LazyBatches(Batches):
    def __iter__(self) -> Iterator[Any]:
        yield from super().__iter__()


def generator() -> torch.Generator:
    return torch.Generator().manual_seed(5)


LOADERS: dict[str, Callable[[], dict[str, Any]]] = {
    "in order": dict,
    "shuffled": lambda: {"shuffle": True},
    "shuffled by a generator": lambda: {"shuffle": True, "generator": generator()},
    "shuffled, dropping the last": lambda: {"shuffle": True, "drop_last": True},
    "random": lambda: {"sampler": RandomSampler(Rows())},
    "random by a generator": lambda: {"sampler": RandomSampler(Rows(), generator=generator())},
    "with replacement": lambda: {"sampler": RandomSampler(Rows(), replacement=True, num_samples=13)},
    "weighted": lambda: {"sampler": WeightedRandomSampler([1.0] * N, N)},
    "weighted by a generator": lambda: {"sampler": WeightedRandomSampler([1.0] * N, N, generator=generator())},
    "a sampler": lambda: {"sampler": Sampler()},
    "a lazy sampler": lambda: {"sampler": Lazy()},
    "a sampler that draws each row": lambda: {"sampler": Draws()},
    "batches": lambda: {"batch_sampler": Batches()},
    "lazy batches": lambda: {"batch_sampler": LazyBatches()},
    "batches of torch": lambda: {
        "batch_sampler": BatchSampler(RandomSampler(Rows(), generator=generator()), SIZE, False)
    },
}
WAYS: dict[str, dict[str, Any]] = {
    "sharded": {},
    "split": {"split_batches": True},
    "uneven": {"even_batches": False},
    "split unevenly": {"split_batches": True, "even_batches": False},
    "dispatched": {"dispatch_batches": True},
    "dispatched and split": {"dispatch_batches": True, "split_batches": True},
    "seedable": {"use_seedable_sampler": True},
    "seedable by a seed": {"use_seedable_sampler": True, "data_seed": 3},
    "seedable and dispatched": {"use_seedable_sampler": True, "dispatch_batches": True, "data_seed": 3},
}
WORKERS: dict[str, dict[str, Any]] = {
    "no worker": {"num_workers": 0},
    "a worker": {"num_workers": 1},
    "a worker that lives on": {"num_workers": 1, "persistent_workers": True},
    "two workers": {"num_workers": 2},
    "two workers, each of which lives on": {"num_workers": 2, "persistent_workers": True},
}


def rows(loader: Any, last: int | None = None) -> list[list[int]]:
    """The rows of each batch up to that one, after which the loop is left."""
    found = []
    for batch in loader:
        found.append(batch.tolist())
        if len(found) == last:
            break
    return found


LOOPS: dict[str, Callable[[Any], Any]] = {
    "whole": lambda loader: [rows(loader), rows(loader), rows(loader)],
    "left": lambda loader: [rows(loader, 1), rows(loader), rows(loader, 2), rows(loader)],
    "skipped": lambda loader: [rows(skip_first_batches(loader, 1)), rows(loader), rows(loader)],
    "skipped between": lambda loader: [rows(loader), rows(skip_first_batches(loader, 2)), rows(loader)],
    "at epoch 7": lambda loader: [loader.set_epoch(7), rows(loader), rows(loader)],
}


def cases() -> Iterator[tuple[str, str, str, str]]:
    """Each way to prepare with each sampler, without workers and with some; the ways to iterate go round."""
    loops = itertools.cycle(LOOPS)
    for (i, way), (j, loader) in itertools.product(enumerate(WAYS), enumerate(LOADERS)):
        for workers in ("no worker", *([list(WORKERS)[(i + j) % 5]] if (i + j) % 8 == 1 else [])):
            yield way, loader, workers, next(loops)


def compared(way: str, loader: str, workers: str) -> bool:
    """Whether the rows are PyTorch's: without a generator, workers that live on have an order of leat's own."""
    sharded = Accelerator(cpu=True).num_processes > 1 and "dispatched" not in way or "seedable" in way
    return sharded or "lives on" not in workers or loader not in ("shuffled", "shuffled, dropping the last")


def run(make: type, way: str, loader: str, workers: str, loop: str) -> dict[str, Any]:
    rank = Accelerator(cpu=True).process_index
    random.seed(50 + rank)
    np.random.seed(60 + rank)
    torch.manual_seed(70 + rank)
    accelerator = Accelerator(cpu=True, dataloader_config=DataLoaderConfiguration(**WAYS[way]))
    given = LOADERS[loader]()
    sized = {} if "batch_sampler" in given else {"batch_size": SIZE}
    found = LOOPS[loop](accelerator.prepare(make(Rows(), **sized, **given, **WORKERS[workers])))
    states = {"random": str(random.getstate()), "numpy": str(np.random.get_state()), "torch": torch.get_rng_state()}
    if "generator" in given:
        states["generator"] = given["generator"].get_state()
    numbers = {
        name: zlib.crc32(s.encode() if isinstance(s, str) else s.numpy().tobytes()) for name, s in states.items()
    }
    return {"rows": found, "states": numbers}


def table(make: type) -> dict[str, Any]:
    return {", ".join(case): run(make, *case) for case in cases() if compared(*case[:3])}
