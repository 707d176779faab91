"""What the tests of feedback share: a data set, losses that follow from (id, epoch), and the paper as a program."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import leat

N = 103
Array = np.ndarray[Any, Any]


def write(target: Any) -> str:
    """103 samples: `x` is [i, i, i], `y` is i, `data` has 50 bytes."""
    with leat.Writer(target, {"x": leat.field("float32", (3,)), "y": "int64", "data": "bytes"}) as writer:
        for i in range(N):
            writer.add(x=np.full(3, i, np.float32), y=i, data=bytes([i]) * 50)
    return str(target)


def opened(path: str, batch_size: int = 8, **options: Any) -> leat.Loader:
    options = {"shuffle": True, "seed": 5, "framework": "numpy", "outputs": {"x": [], "y": []}} | options
    return leat.Loader(leat.open(path), batch_size=batch_size, **options)


def loss_of(ids: Any, epoch: int) -> Array:
    """Some loss of samples in an epoch."""
    found: Array = np.random.default_rng([7, epoch]).gamma(2.0, 1.0, N).astype(np.float32)[np.asarray(ids)]
    return found


def train(loader: leat.Loader, until: int) -> list[list[int]]:
    """The ids of each epoch from the loader's next one on, with a report of each batch."""
    got = []
    while loader.epoch < until:
        ids: list[int] = []
        for batch in loader:
            loader.report(batch.ids, loss=loss_of(batch.ids, batch.epoch))
            ids += np.asarray(batch.ids).tolist()
        got.append(ids)
    return got


def plain_order(path: str, **options: Any) -> list[int]:
    with opened(path, **options) as loader:
        return [int(i) for batch in loader for i in batch.ids]


def trace(order: list[int], size: int, delta: float, epochs: int, drop: bool = False) -> list[list[int]]:
    """Hard samples, arXiv 2304.03486, as a program of its own: the ids of each epoch."""
    batches = [order[i : i + size] for i in range(0, len(order), size)]
    if drop:
        batches = [b for b in batches if len(b) == size]
    last = [0.0] * len(batches)
    chosen = list(range(len(batches)))
    ids = []
    for epoch in range(epochs):
        if epoch:
            ranked = sorted(range(len(batches)), key=lambda b: (-last[b], b))
            chosen = sorted(ranked[: max(1, math.floor(delta * len(batches) + 1e-9))])
        ids.append([i for b in chosen for i in batches[b]])
        for b in chosen:
            last[b] = sum(float(v) for v in loss_of(batches[b], epoch)) / len(batches[b])
    return ids
