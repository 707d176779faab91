"""Orders of one's own samples that have as much as possible in common with those of others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import _leat, check

Ids = np.ndarray[Any, np.dtype[np.int64]]


def dependent_order(samples: Any, others: Sequence[Any] = (), *, seed: int = 0) -> Ids:
    """A random order of `samples` that coincides with the orders of `others` as often as it can.

    Jobs that read different samples of one data set, or began at different times, can share common samples only if they
    read them at the same time. This draws an order for a job that comes to others: a tick is one sample of each. At
    each tick it has the sample of one of the others with the highest probability that is possible if it is to be a
    uniformly random permutation by itself, which it is as long as theirs are. If both have the same samples left, they
    read the same; if one has a part of the other's, they share the ratio of what they have left.

    The source is "A Deep Learning Dataloader with Shared Data Preparation" (Xie, Xu et al., NeurIPS 2022), where it is
    called dependent sampling.

    Args:
        samples: ids, each once: integers, or a data set (its ``ids``).
        others: the orders of others: for each the ids of all that it has left of an epoch, in its order, or a pair of
            that and the tick at which it begins, which is 0 otherwise. Several of one job follow each other.
        seed: of the draws: another one than that of the others, or the order is not independent of theirs.

    Returns:
        The ids in their order: int64, shape (len(samples),).

    Raises:
        ValueError: a sample is there twice, or negative.

    >>> first = leat.ports.dependent_order(range(6), seed=1)
    >>> second = leat.ports.dependent_order(range(6), [first], seed=2)  # it begins with it: the same
    >>> first.tolist() == second.tolist()
    True
    >>> late = leat.ports.dependent_order([4, 0, 2], [first[2:]], seed=3)
    >>> sorted(late.tolist())
    [0, 2, 4]
    """
    ids = ids_of("samples", samples)
    runs = [(ids_of("others", order), begin) for order, begin in map(_run, others)]
    out = np.empty_like(ids)
    _leat.dependent_order(ids, runs, check.seed(seed), out)
    return out


def _run(given: Any) -> tuple[Any, int]:
    if isinstance(given, tuple) and len(given) == 2 and np.ndim(given[0]) == 1:
        return given[0], check.integer("begin", given[1], 0)
    return given, 0


def ids_of(name: str, given: Any) -> Ids:
    """Sample ids as they were given: integers, or a data set."""
    given = getattr(given, "ids", given)
    found = np.asarray(list(given) if isinstance(given, (range, set, frozenset)) else given)
    if found.ndim != 1 or (found.size and found.dtype.kind not in "iu"):
        raise TypeError(f"{name} are sample ids, a list of integers, not {given!r:.60}")
    if found.dtype == np.uint64 and found.size and int(found.max()) >> 63:
        raise ValueError(f"{name} are sample ids, and {found.max()} is none")
    return np.ascontiguousarray(found, np.int64)
