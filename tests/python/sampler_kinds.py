"""Samplers whose lists are new in each epoch, by that from which a list follows."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch


class Made:
    def __init__(self, n: int) -> None:
        self.n, self.epoch = n, 0

    def __len__(self) -> int:
        return self.n


class Epoch(Made):
    def __iter__(self) -> Iterator[int]:
        found = np.random.default_rng(self.epoch).permutation(self.n)
        self.epoch += 1
        return iter(found.tolist())


class Own(Made):
    def __init__(self, n: int) -> None:
        super().__init__(n)
        self.generator = random.Random(4)

    def __iter__(self) -> Iterator[int]:
        found = list(range(self.n))
        self.generator.shuffle(found)
        return iter(found)


class Both(Own):
    def __iter__(self) -> Iterator[int]:
        self.epoch += 1
        return iter(list(super().__iter__())[: self.n - self.epoch % 3])


class Shared(Made):
    """Draws from generators that everyone draws from."""

    def __iter__(self) -> Iterator[int]:
        found = np.random.permutation(self.n)[torch.randperm(self.n).numpy()].tolist()
        return iter(random.sample(found, self.n))


class Stateful(Made):
    """Counts what it has given of an epoch, as those do that are resumed within one."""

    given = 0

    def __iter__(self) -> Iterator[int]:
        for at in np.random.default_rng(self.epoch).permutation(self.n)[self.given :].tolist():
            self.given += 1
            yield at
        self.given, self.epoch = 0, self.epoch + 1

    def state_dict(self) -> dict[str, Any]:
        return {"given": self.given, "epoch": self.epoch}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.given, self.epoch = state["given"], state["epoch"]


class Around(Made):
    """Has another one inside, which has a state."""

    def __init__(self, n: int) -> None:
        super().__init__(n)
        self.inside = Stateful(n)

    def __iter__(self) -> Iterator[int]:
        return reversed(list(self.inside))


def _torchs(n: int) -> Any:
    return torch.utils.data.RandomSampler(range(n), generator=torch.Generator().manual_seed(5))


def _torchs_weighted(n: int) -> Any:
    generator = torch.Generator().manual_seed(6)
    return torch.utils.data.WeightedRandomSampler(np.arange(1.0, n + 1).tolist(), n, generator=generator)


SAMPLERS: dict[str, Callable[[int], Any]] = {
    "an epoch": Epoch,
    "its own generator": Own,
    "its own generator and an epoch": Both,
    "the generators of all": Shared,
    "a state of its own": Stateful,
    "one inside it": Around,
    "torch's, with a generator": _torchs,
    "torch's, weighted": _torchs_weighted,
}
