"""What tests of rows of several samples share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

import leat

Array = np.ndarray[Any, Any]
OPTIONS: dict[str, Any] = {"batch_size": 5, "shuffle": True, "seed": 7, "framework": "numpy"}


def extent(where: Array) -> list[int]:
    """The box of what is not 0."""
    ys, xs = np.nonzero(where)
    return [int(xs.min()), int(ys.min()), int(xs.max()) + 1, int(ys.max()) + 1]


def rows(batches: Iterable[leat.Batch], names: Sequence[str]) -> dict[int, tuple[bytes, ...]]:
    """The bytes of each row, by its sample."""
    return {
        i: tuple(np.ascontiguousarray(b[name][r]).tobytes() for name in names)
        for b in batches
        for r, i in enumerate(b.ids.tolist())
    }


def check_that_nothing_changes_rows(make: Callable[..., leat.Loader], names: Sequence[str], n: int) -> None:
    """Not threads, order or ranks; another seed does."""
    want = rows(make(num_threads=1), names)
    assert len(want) == n
    assert rows(make(num_threads=4), names) == want
    assert rows(make(num_threads=3, in_order=False), names) == want
    parts = [make(batch_size=None, global_batch_size=10, rank=r, world_size=2) for r in range(2)]
    assert rows((b for part in parts for b in part), names) == want
    assert rows(make(seed=8), names) != want


def check_that_batches_come_again(make: Callable[[], leat.Loader], names: Sequence[str]) -> None:
    """By batch_at, and after a resume."""
    first = make()
    for step, batch in enumerate(first):
        assert rows([batch], names) == rows([first.batch_at(0, step)], names)
    it = iter(first)
    for _ in range(3):
        next(it)
    second = make()
    second.load_state_dict(first.state_dict())
    assert rows(second, names) == rows(it, names)
