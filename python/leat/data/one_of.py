"""Rows that are groups of samples, of which each epoch draws one."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from .. import _leat
from .column import texts
from .dataset import Dataset, no_dataset, positions_array
from .ragged import Ragged

Positions = np.ndarray[Any, np.dtype[np.int64]]
Weights = np.ndarray[Any, np.dtype[np.float64]]


class OneOf(Dataset):
    """A row per group of samples; made by :func:`leat.one_of`.

    A loader draws the member of a row by the row's random key, so each epoch has other ones. By position there is no
    epoch: ``rows[i]``, ``rows.ids`` and ``rows.column(name)`` are of the first member of each group. Slices, `select`
    and `split` choose groups.
    """

    def __init__(self, samples: Dataset, begins: Positions, members: Positions, weights: Weights | None) -> None:
        super().__init__(samples._part().select(members[begins[:-1]]), (samples, begins, members, weights))
        self.samples = samples
        self._begins, self._members, self._weights = begins, members, weights

    def __repr__(self) -> str:
        return f"<leat.OneOf of {len(self)} groups of {self.samples!r}>"

    def members(self, position: int) -> Positions:
        """The members of a group: positions in `samples`, int64."""
        begin, end = self._begins[range(len(self))[position]], self._begins[range(len(self))[position] + 1]
        return self._members[begin:end]

    @property
    def one_of(self) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any], Weights | None]:
        """Options of the engine: begins, members, weights."""
        return self._begins.view(np.uint64), self._members.view(np.uint64), self._weights

    @cached_property
    def fingerprint(self) -> str:
        """128 bits in hex over the samples' fingerprint, the groups and the weights."""
        found = hashlib.blake2b(self.samples.fingerprint.encode(), digest_size=16)
        for array in (self._begins, self._members, self._weights):
            found.update(b"-" if array is None else b"%d " % len(array) + array.tobytes())
        return found.hexdigest()

    def select(self, positions: Any) -> OneOf:
        chosen = self._positions(positions)
        sizes = np.diff(self._begins)[chosen]
        begins = np.concatenate([[0], np.cumsum(sizes)])
        at = np.repeat(self._begins[chosen] - begins[:-1], sizes) + np.arange(begins[-1])
        return OneOf(self.samples, begins, self._members[at], None if self._weights is None else self._weights[at])

    def __getitem__(self, key: Any) -> Any:
        return self.select(np.arange(len(self))[key]) if isinstance(key, slice) else super().__getitem__(key)

    def split(self, fractions: Sequence[float], seed: int = 0) -> list[Dataset]:
        from .made import from_arrays

        numbers = from_arrays(group=np.zeros(len(self), np.uint8)).split(fractions, seed)
        return [self.select(part.ids) for part in numbers]

    def _part(self) -> _leat.Dataset:
        raise TypeError(
            "rows of leat.one_of are drawn by a loader: they have no queries, windows and packed rows, and join no "
            "others; use the samples (.samples), and group the result"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return (OneOf, self._recipe)


def one_of_of(dataset: Dataset) -> tuple[Any, ...] | None:
    """The groups that the library draws of; None: a row is no group."""
    return dataset.one_of if isinstance(dataset, OneOf) else None


def handle_of(dataset: Dataset) -> _leat.Dataset:
    """The data set that the library reads for a loader."""
    return dataset.samples._handle if isinstance(dataset, OneOf) else dataset._handle


def _by_value(values: np.ndarray[Any, Any]) -> tuple[Positions, Positions]:
    """Groups of samples with one value, in the order of their first members."""
    _, first, codes = np.unique(values, return_index=True, return_inverse=True)
    rank = np.empty(len(first), np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    numbers = rank[codes.reshape(-1)]
    sizes = np.bincount(numbers, minlength=len(first))
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64), np.argsort(numbers, kind="stable")


def _column(ds: Dataset, name: str) -> np.ndarray[Any, Any]:
    _, field = ds._find(name)
    whole = field.kind == "array" and not field.shape and field.dtype.removeprefix("u").startswith(("int", "bool"))
    if not whole and field.kind != "str":
        raise TypeError(f"column {name!r} is {field}: groups are named by integers or texts")
    return texts(ds, name)[1] if field.kind == "str" else ds.column(name)


def _values(ds: Dataset, by: Any) -> np.ndarray[Any, Any]:
    values = np.asarray(by)
    if values.ndim != 1 or len(values) != len(ds):
        raise ValueError(f"by has shape {values.shape}: it has the group of each of the {len(ds)} samples")
    if values.dtype.kind == "O" and all(isinstance(v, str) for v in values):
        values = values.astype(str)
    if values.dtype.kind not in "biuUS" and len(values):
        raise TypeError(f"by is an array of {values.dtype}: groups are named by integers or texts")
    return values


def _is_lists(by: Any) -> bool:
    one = by[0] if isinstance(by, (list, tuple)) and by else None
    return hasattr(one, "__len__") and not isinstance(one, (str, bytes)) and getattr(one, "ndim", 1) == 1


def _lists(ds: Dataset, by: Any) -> tuple[Positions, Positions]:
    if isinstance(by, Ragged):
        begins, values = np.asarray(by.offsets, np.int64), np.array(by.values)
        if len(begins) and (begins[0] != 0 or begins[-1] != len(values)):
            begins, values = begins - begins[0], values[begins[0] : begins[-1]]
    else:
        begins = np.concatenate([[0], np.cumsum([len(one) for one in by])])
        parts = [positions_array(one, len(ds)) for one in by]
        values = np.concatenate(parts) if parts else np.empty(0, np.int64)
    return begins.astype(np.int64), positions_array(values, len(ds))


def _weights_of(ds: Dataset, given: Any) -> Weights:
    weights = np.asarray(ds.column(given) if isinstance(given, str) else given)
    if weights.shape != (len(ds),) or weights.dtype.kind not in "biuf":
        raise ValueError(f"weights are a number for each of the {len(ds)} samples, not {weights.dtype}{weights.shape}")
    weights = weights.astype(np.float64)
    if not np.isfinite(weights).all() or (weights < 0).any():
        raise ValueError("weights are finite, and none is below 0")
    return weights


def one_of(ds: Dataset, by: Any, weights: Any = None) -> OneOf:
    """A row per group of samples, such as the members of a cluster of proteins: each epoch draws one of them.

    A loader over it has as many rows as there are groups. The member of a row is drawn by the row's random key: it
    follows from seed, epoch and row, so it is the same on any number of ranks and after a resume (docs/order.md says
    which). ``batch.ids`` are the ids of members. Rows are shuffled, listed and weighted as those of other data sets,
    and go into a :class:`leat.Mix`. By position, ``rows[i]`` is the group's first member.

    Args:
        ds: the samples, a data set or a view of one.
        by: the name of a column of integers or texts; or an array with the group of each sample, integers or texts; or
            lists of positions in `ds`, one for each group (also as a :class:`leat.Ragged`). A sample in no list is left
            out, one may be in several, and one that is twice in a list counts twice. Groups come in the order of
            their first members, lists in theirs.
        weights: the name of a column of numbers, or an array with a number for each sample: members are drawn in
            proportion to them. None: all alike. A member with weight 0 is left out.

    Returns:
        :class:`OneOf`. A group without a member has no row.

    Raises:
        KeyError: there is no such column.
        TypeError: its values name no groups.
        ValueError: an array has another length than `ds`, or a weight is negative or not finite, or all are 0.
        IndexError: a position is out of range.

    >>> ds = leat.open(path)
    >>> rows = leat.one_of(ds, "label")
    >>> len(rows), rows.members(3)[:3].tolist()
    (10, [3, 13, 23])
    >>> batch = next(iter(leat.Loader(rows, 10)))
    >>> batch["label"].tolist(), len(set(batch.ids.tolist()))
    ([0, 1, 2, 3, 4, 5, 6, 7, 8, 9], 10)
    """
    if not isinstance(ds, Dataset):
        raise no_dataset("one_of takes a data set of samples", ds)
    ds._part()  # refuses rows that are made
    if isinstance(by, str):
        begins, members = _by_value(_column(ds, by))
    elif isinstance(by, Ragged) or _is_lists(by):
        begins, members = _lists(ds, by)
    else:
        begins, members = _by_value(_values(ds, by))
    found = None
    if weights is not None:
        found = _weights_of(ds, weights)[members]
        if len(found) and not found.any():
            raise ValueError("weights are 0 for every member of every group: no row is left")
        kept = np.concatenate([[0], np.cumsum(found > 0)])
        begins, members, found = kept[begins], members[found > 0], found[found > 0]
    begins = np.unique(begins)  # groups without a member begin where the next one does
    return OneOf(ds, np.ascontiguousarray(begins, np.int64), np.ascontiguousarray(members, np.int64), found)
