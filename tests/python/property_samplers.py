"""Samplers of the property test: every place that draws can come from, every time at which they can be made."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch.utils.data import (
    BatchSampler,
    RandomSampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)
from torch.utils.data.distributed import DistributedSampler

#: where draws come from: the global generators, or one that the sampler has
GLOBAL = ("random", "numpy", "torch")
OWN = ("own Random", "own Generator", "own RandomState", "own torch.Generator")
#: generators that no loader can find: one of a module, one that only a function has
HIDDEN = ("of the module", "of a closure")

_of_module = np.random.default_rng(5)


def _hidden(seed: int) -> Callable[[int], int]:
    rng = np.random.default_rng(seed)
    return lambda n: int(rng.integers(n))


class Draw:
    """A sampler's draws: `rng` is its own generator, or None."""

    def __init__(self, source: str, seed: int) -> None:
        self.source = source
        self.rng: Any = None
        if source == "own Random":
            self.rng = random.Random(seed)
        elif source == "own Generator":
            self.rng = np.random.default_rng(seed)
        elif source == "own RandomState":
            self.rng = np.random.RandomState(seed)
        elif source == "own torch.Generator":
            self.rng = torch.Generator().manual_seed(seed)
        elif source == "of a closure":
            self.rng = _hidden(seed)

    def below(self, n: int) -> int:
        """A number from 0 to n - 1."""
        match self.source:
            case "random":
                return random.randrange(n)
            case "numpy":
                return int(np.random.randint(n))
            case "torch" | "own torch.Generator":
                return int(torch.randint(n, (), generator=self.rng))
            case "own Random":
                return int(self.rng.randrange(n))
            case "own Generator":
                return int(self.rng.integers(n))
            case "own RandomState":
                return int(self.rng.randint(n))
            case "of the module":
                return int(_of_module.integers(n))
        return int(self.rng(n))

    def order(self, n: int) -> list[int]:
        """A random order of the numbers from 0 to n - 1."""
        found = list(range(n))
        for i in range(n - 1, 0, -1):
            j = self.below(i + 1)
            found[i], found[j] = found[j], found[i]
        return found


class Foreign:
    """A sampler that is not PyTorch's. `length`: what it says; None: nothing."""

    def __init__(self, n: int, source: str, seed: int, length: int | None, inside: bool) -> None:
        self.n, self.length = n, length
        draw = Draw(source, seed)
        self.source = source
        if inside:
            self.draw = draw
        else:  # the generator is an attribute of the sampler itself
            self.rng = draw.rng

    def __len__(self) -> int:
        if self.length is None:
            raise TypeError(f"{type(self).__name__} has no len()")
        return self.length

    def drawing(self) -> Draw:
        if hasattr(self, "draw"):
            return self.draw
        made = Draw.__new__(Draw)
        made.source, made.rng = self.source, self.rng
        return made


class AtOnce(Foreign):
    """Draws in ``__iter__``."""

    def __iter__(self) -> Iterator[int]:
        return iter(self.drawing().order(self.n))


class AtFirst(Foreign):
    """A generator function: draws when the first position is asked for."""

    def __iter__(self) -> Iterator[int]:
        yield from self.drawing().order(self.n)


class EachTime(Foreign):
    """Draws each position when it is asked for."""

    def __iter__(self) -> Iterator[int]:
        for _ in range(self.n):
            yield self.drawing().below(self.n)


class Buffered(Foreign):
    """Positions from a buffer of five, one at random each time."""

    def __iter__(self) -> Iterator[int]:
        buffer: list[int] = []
        for i in range(self.n):
            buffer.append(i)
            if len(buffer) == 5:
                yield buffer.pop(self.drawing().below(5))
        yield from (buffer[i] for i in self.drawing().order(len(buffer)))


class CountsInIter(Foreign):
    """Counts its epochs in ``__iter__``; its order is one of the count and the seed."""

    def __init__(self, n: int, source: str, seed: int, length: int | None, inside: bool) -> None:
        super().__init__(n, source, seed, length, inside)
        self.seed, self.epoch = seed, 0

    def __iter__(self) -> Iterator[int]:
        self.epoch += 1
        return iter(random.Random(1000 * self.seed + self.epoch).sample(range(self.n), self.n))


class CountsAtEnd(CountsInIter):
    """Counts its epochs when they are over."""

    def __iter__(self) -> Iterator[int]:
        yield from random.Random(1000 * self.seed + self.epoch).sample(range(self.n), self.n)
        self.epoch += 1


class Told(CountsInIter):
    """Its order is one of the epoch that ``set_epoch`` says."""

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __iter__(self) -> Iterator[int]:
        return iter(random.Random(1000 * self.seed + self.epoch).sample(range(self.n), self.n))


class Stateful(CountsInIter):
    """Has a state: the position in its epoch, and the epoch, on which its order depends. No other way shows them."""

    def __init__(self, n: int, source: str, seed: int, length: int | None, inside: bool) -> None:
        self.place = np.zeros(2, np.int64)
        super().__init__(n, source, seed, length, inside)

    @property
    def at(self) -> int:
        return int(self.place[0])

    @at.setter
    def at(self, at: int) -> None:
        self.place[0] = at

    @property
    def epoch(self) -> int:  # type: ignore[override]
        return int(self.place[1])

    @epoch.setter
    def epoch(self, epoch: int) -> None:
        self.place[1] = epoch

    def __iter__(self) -> Iterator[int]:
        order = random.Random(1000 * self.seed + self.epoch).sample(range(self.n), self.n)
        while self.at < self.n:
            self.at += 1
            yield order[self.at - 1]
        self.at = 0
        self.epoch += 1

    def state_dict(self) -> dict[str, Any]:
        return {"at": self.at, "epoch": self.epoch}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.at, self.epoch = state["at"], state["epoch"]


class StatefulDraws(Stateful):
    """Has a state: the generator as it was before its order was drawn."""

    def __init__(self, n: int, source: str, seed: int, length: int | None, inside: bool) -> None:
        super().__init__(n, source, seed, length, inside)
        self.mine = random.Random(seed)
        self.before: Any = None

    def __iter__(self) -> Iterator[int]:
        if self.before is None or not self.at:
            self.before = self.mine.getstate()
        self.mine.setstate(self.before)
        order = self.mine.sample(range(self.n), self.n)
        while self.at < self.n:
            self.at += 1
            yield order[self.at - 1]
        self.at, self.before = 0, None

    def state_dict(self) -> dict[str, Any]:
        return {"at": self.at, "before": self.before, "mine": self.mine.getstate()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.at, self.before = state["at"], state["before"]
        self.mine.setstate(state["mine"])


class Fails(Foreign):
    """Raises after half of its positions."""

    def __iter__(self) -> Iterator[int]:
        yield from range(self.n // 2)
        raise LookupError("no more positions")


class Around:
    """A sampler around another one, which it has under a name of its own."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def __iter__(self) -> Iterator[int]:
        yield from self.inner

    def __len__(self) -> int:
        return len(self.inner)


class Cut:
    """A batch sampler that is not PyTorch's, over a sampler, which it has as `order` or as `sampler`."""

    def __init__(self, inner: Any, size: int, name: str) -> None:
        self.size, self.name = size, name
        setattr(self, name, inner)

    def __iter__(self) -> Iterator[list[int]]:
        batch: list[int] = []
        for i in getattr(self, self.name):
            batch.append(i)
            if len(batch) == self.size:
                yield batch
                batch = []
        if batch:
            yield batch

    def __len__(self) -> int:
        return -(-len(getattr(self, self.name)) // self.size)


class Episodes(Foreign):
    """A batch sampler that draws batch by batch; each of its batches has `size` of the n positions."""

    def __init__(self, n: int, source: str, seed: int, length: int | None, inside: bool, size: int) -> None:
        super().__init__(n, source, seed, length, inside)
        self.size = size

    def __iter__(self) -> Iterator[list[int]]:
        for _ in range(6):
            yield [self.drawing().below(self.n) for _ in range(self.size)]


class BatchesAtOnce(Episodes):
    """A batch sampler that draws all its batches in ``__iter__``."""

    def __iter__(self) -> Iterator[list[int]]:
        order = self.drawing().order(self.n)
        return iter([order[i : i + self.size] for i in range(0, self.n, self.size)])


class Varying(Episodes):
    """Batches of sizes that vary, some of them empty."""

    def __iter__(self) -> Iterator[list[int]]:
        order = self.drawing().order(self.n)
        for size in (1, 0, 3, 2, 0):
            batch, order = order[:size], order[size:]
            yield batch


class Things:
    """Gives the same things each time: for loaders without batches."""

    def __init__(self, things: list[Any]) -> None:
        self.things = things

    def __iter__(self) -> Iterator[Any]:
        return iter(self.things)

    def __len__(self) -> int:
        return len(self.things)


FOREIGN: dict[str, type[Foreign]] = {
    "at once": AtOnce,
    "at first": AtFirst,
    "each time": EachTime,
    "buffered": Buffered,
    "counts in iter": CountsInIter,
    "counts at end": CountsAtEnd,
    "told": Told,
    "stateful": Stateful,
    "stateful draws": StatefulDraws,
    "fails": Fails,
}
FOREIGN_BATCHES: dict[str, type[Episodes]] = {
    "episodes": Episodes,
    "batches at once": BatchesAtOnce,
    "varying": Varying,
}
#: those that draw from their source
DRAWING = ("at once", "at first", "each time", "buffered", *FOREIGN_BATCHES)
PYTORCHS = ("random", "replacing", "fewer", "more", "subset", "weighted", "distributed", "in order")
PLAIN = ("list", "tuple", "range", "one shot")


def make(spec: tuple[Any, ...], n: int) -> Any:
    """The sampler of a specification: (name, its arguments...)."""
    kind, *rest = spec
    if kind == "around":
        return Around(make(rest[0], n))
    if kind == "cut":
        return Cut(make(rest[0], n), rest[1], rest[2])
    if kind == "batches":
        return BatchSampler(make(rest[0], n), rest[1], rest[2])
    if kind == "list of batches":
        return [[i for i in range(first, min(first + rest[0], n))] for first in range(0, n, rest[0])] + [[]] * rest[1]
    if kind in FOREIGN_BATCHES:
        return FOREIGN_BATCHES[kind](n, *rest)
    if kind in FOREIGN:
        return FOREIGN[kind](n, *rest)
    if kind in PLAIN:
        numbers = range(1, n)
        return {"list": list, "tuple": tuple, "range": lambda x: x, "one shot": iter}[kind](numbers)
    seed = rest[0] if rest else None
    generator = None if seed is None else torch.Generator().manual_seed(seed)
    match kind:
        case "random":
            return RandomSampler(range(n), generator=generator)
        case "replacing":
            return RandomSampler(range(n), replacement=True, num_samples=n + 70, generator=generator)
        case "fewer":
            return RandomSampler(range(n), num_samples=n // 2, generator=generator)
        case "more":
            return RandomSampler(range(n), num_samples=2 * n + 1, generator=generator)
        case "subset":
            return SubsetRandomSampler(range(0, n, 2), generator=generator)
        case "weighted":
            return WeightedRandomSampler([1.0 + i for i in range(n)], n, generator=generator)
        case "distributed":
            return DistributedSampler(range(n), 2, (seed or 0) % 2, seed=seed or 0)
        case "in order":
            return SequentialSampler(range(n))
        case "lists":
            return Things([list(range(i, min(i + 4, 35))) for i in range(0, 35, 4)])
        case "tensors":
            return Things([torch.tensor(i) for i in range(n)])
        case "words":
            return Things(["three", "one", "two"])
    raise AssertionError(kind)
