"""Data sets of events, by the fields ``src``, ``dst`` and ``t``: parts by time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import _leat, check
from .dataset import Dataset

_PERMUTATION = 4  # of _leat.random_fill
_TIMES = ("int64", "float64", "int32", "uint32", "int16", "uint16", "int8", "uint8")


class TimeSplit(list[Dataset]):
    """The parts that :meth:`leat.Dataset.split_time` gives, a list.

    Attributes:
        borders: of each part the latest time that its events may have, of the dtype of ``t``.
        new_nodes: int64, ascending: the nodes that were kept out of the first part.
        unseen: of each part but the first, the view of its events that touch a node of which the first part has no
            event. Empty if the data set has no ``src`` and ``dst``.
    """

    def __init__(
        self,
        parts: Sequence[Dataset],
        borders: np.ndarray[Any, Any],
        new_nodes: np.ndarray[Any, np.dtype[np.int64]],
        unseen: list[Dataset],
    ) -> None:
        super().__init__(parts)
        self.borders = borders
        self.new_nodes = new_nodes
        self.unseen = unseen

    def __reduce__(self) -> tuple[Any, ...]:
        return TimeSplit, (list(self), self.borders, self.new_nodes, self.unseen)


def times_of(ds: Dataset) -> np.ndarray[Any, Any]:
    """The column ``t``, which rises.

    Raises:
        KeyError: there is none.
        TypeError: it is no int64 or float64, nor integers that are narrower.
        ValueError: times fall, or are NaN.
    """
    field = ds.schema.get("t")
    if field is None:
        raise KeyError(f"events have a field 't', their time: this data set has {', '.join(ds.schema)}")
    if field.kind != "array" or field.shape or field.dtype not in _TIMES:
        raise TypeError(
            f"times are single numbers of int64 or float64, and t is {field}: float32 rounds unix times by a minute"
        )
    times = ds.column("t")
    good = np.append(times[:1] == times[:1], times[1:] >= times[:-1])  # no NaN, and it rises
    if not good.all():
        at = int(np.argmin(good))
        before = f" comes after {times[at - 1]}" if times[at] == times[at] else " is no time"
        raise ValueError(
            f"position {at}: t {times[at]}{before}, and events stand in order of time: sort them, "
            "ds.select(numpy.argsort(ds.column('t'), kind='stable')); a file of events by leat.open(..., sort=True)"
        )
    return times


class _Nodes:
    """The ends of events, as numbers of their distinct nodes, which ascend."""

    def __init__(self, ds: Dataset) -> None:
        for name in ("src", "dst"):
            if name not in ds.schema:
                raise KeyError(
                    f"new_nodes draws nodes, fields 'src' and 'dst': this data set has {', '.join(ds.schema)}"
                )
        both = np.concatenate((ds.column("src"), ds.column("dst")))
        rising = np.sort(both)  # numpy.unique hashes, which takes minutes for millions
        self.distinct = rising[np.append(True, rising[1:] != rising[:-1])]
        self.src, self.dst = np.searchsorted(self.distinct, both).reshape(2, -1)

    def of(self, where: Any) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """Of each node, whether one of these events touches it."""
        found = np.zeros(len(self.distinct), np.bool_)
        found[self.src[where]] = found[self.dst[where]] = True
        return found

    def draw(self, later: slice, share: float, seed: int) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """Of each node, whether it is among the share of all that is drawn of those that `later` events touch, by a
        permutation keyed with `seed`."""
        candidates = np.flatnonzero(self.of(later))
        n = int(share * len(self.distinct))
        if n > len(candidates):
            raise ValueError(f"new_nodes={share} is {n} nodes, and {len(candidates)} occur after the first part")
        order = np.empty(len(candidates), np.int64)
        _leat.random_fill(_PERMUTATION, np.array([seed], np.uint64), 0, len(candidates), False, 0, 0, order)
        drawn = np.zeros(len(self.distinct), np.bool_)
        drawn[candidates[order[:n]]] = True
        return drawn


def split_time(ds: Dataset, shares: Sequence[float], new_nodes: float, seed: int) -> TimeSplit:
    """As :meth:`leat.Dataset.split_time` says."""
    given = np.asarray(shares, np.float64)
    if given.ndim != 1 or not given.size or not (given >= 0).all() or math.fsum(given) > 1 + 1e-9:
        raise ValueError(f"shares is a list of numbers, one per part, which sum to at most 1, not {shares!r:.60}")
    if new_nodes and hasattr(ds, "index"):
        raise ValueError(
            "new_nodes keeps nodes out of the first part, and a part of a graph knows the past of all its events: "
            "split the events, and make the graph of the first part, leat.temporal(parts[0])"
        )
    if not 0 <= new_nodes <= 1:
        raise ValueError(f"new_nodes is a share of the nodes, from 0 to 1, not {new_nodes!r}")
    seed = check.seed(seed)
    times, n = times_of(ds), len(ds)
    if not n:
        raise ValueError("there is no event to split")
    sums = [min(round(math.fsum(given[: i + 1]), 12), 1.0) for i in range(len(given))]
    borders = times[[math.floor(s * (n - 1)) for s in sums]]
    ends = [0, *np.searchsorted(times, borders, "right").tolist()]
    parts = [ds[begin:end] for begin, end in zip(ends, ends[1:], strict=False)]
    new_ones = np.empty(0, np.int64)
    unseen: list[Dataset] = []
    if new_nodes or {"src", "dst"} <= set(ds.schema):
        nodes, first = _Nodes(ds), np.arange(ends[1])
        if new_nodes:
            drawn = nodes.draw(slice(ends[1], ends[-1]), new_nodes, seed)
            first = np.flatnonzero(~(drawn[nodes.src[first]] | drawn[nodes.dst[first]]))
            parts[0] = parts[0].select(first)
            new_ones = nodes.distinct[drawn].astype(np.int64)
        known = nodes.of(first)
        for part, begin, end in zip(parts[1:], ends[1:], ends[2:], strict=False):
            unseen.append(part.select(~(known[nodes.src[begin:end]] & known[nodes.dst[begin:end]])))
    return TimeSplit(parts, borders, new_ones, unseen)
