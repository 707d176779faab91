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


def _nodes(ds: Dataset) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    for name in ("src", "dst"):
        if name not in ds.schema:
            raise KeyError(f"new_nodes draws nodes, fields 'src' and 'dst': this data set has {', '.join(ds.schema)}")
    return ds.column("src"), ds.column("dst")


def _drawn(candidates: np.ndarray[Any, Any], n: int, seed: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """`n` of them, by a permutation keyed with `seed`, ascending."""
    order = np.empty(len(candidates), np.int64)
    keys = np.array([seed], np.uint64)
    _leat.random_fill(_PERMUTATION, keys, 0, len(candidates), False, 0, 0, order)
    return np.sort(candidates[order[:n]]).astype(np.int64)


def split_time(ds: Dataset, shares: Sequence[float], new_nodes: float, seed: int) -> TimeSplit:
    """As :meth:`leat.Dataset.split_time` says."""
    given = np.asarray(shares, np.float64)
    if given.ndim != 1 or not given.size or not (given >= 0).all() or math.fsum(given) > 1 + 1e-9:
        raise ValueError(f"shares is a list of numbers, one per part, which sum to at most 1, not {shares!r:.60}")
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
    drawn = np.empty(0, np.int64)
    unseen: list[Dataset] = []
    if new_nodes or {"src", "dst"} <= set(ds.schema):
        src, dst = _nodes(ds)
        first = slice(0, ends[1])
        if new_nodes:
            later = slice(ends[1], ends[-1])
            candidates = np.union1d(src[later], dst[later])
            wanted = int(new_nodes * len(np.union1d(src, dst)))
            if wanted > len(candidates):
                raise ValueError(
                    f"new_nodes={new_nodes} is {wanted} nodes, and {len(candidates)} occur after the first part"
                )
            drawn = _drawn(candidates, wanted, seed)
            kept = ~(np.isin(src[first], drawn) | np.isin(dst[first], drawn))
            parts[0] = parts[0].select(kept)
            known = np.union1d(src[first][kept], dst[first][kept])
        else:
            known = np.union1d(src[first], dst[first])
        for part, begin, end in zip(parts[1:], ends[1:], ends[2:], strict=False):
            new = ~(np.isin(src[begin:end], known) & np.isin(dst[begin:end], known))
            unseen.append(part.select(new))
    return TimeSplit(parts, borders, drawn, unseen)
