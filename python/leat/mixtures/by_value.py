"""The samples of a data set by the values that they have in columns, for leat.Mix.by and leat.Mix.inferred."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import _leat, check
from ..data.column import texts
from ..data.dataset import Dataset, no_dataset
from ..data.packing import PackedRows
from .keys import Keys, checked_weights

Codes = np.ndarray[Any, np.dtype[np.int64]]
OTHERS = "others"  #: the name of the source that ``...`` stands for
SHOWN = 8  #: values named in an error


@dataclass
class Column:
    """The values of a column by number, and the number of each sample."""

    name: str
    values: list[Any]  #: the different ones, as users write them
    codes: Codes  #: of each sample: an index into `values`
    classes: Sequence[str] = ()  #: names of numbers, which users may write in their place

    def find(self, key: Any) -> int | None:
        """The number of a value, or None if no sample has it."""
        if isinstance(key, np.generic):
            key = key.item()
        if isinstance(key, str) and self.classes and key in self.classes:
            key = list(self.classes).index(key)
        return self._numbers.get((isinstance(key, bool), key))

    def __post_init__(self) -> None:
        self._numbers = {(isinstance(value, bool), value): i for i, value in enumerate(self.values)}

    def shown(self, i: int) -> str:
        value = self.values[i]
        named = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < len(self.classes)
        return str(self.classes[value]) if named else str(value)


def read_column(ds: Dataset, name: str) -> Column:
    """Reads a column once.

    Raises:
        KeyError: there is none of this name.
        TypeError: its values cannot be told apart by name.
    """
    field = ds._find(name)[1]
    if field.kind == "str":
        return Column(name, *texts(ds, name))
    whole = field.kind == "array" and not field.shape and field.dtype.removeprefix("u").startswith(("int", "bool"))
    if not whole:
        floats = field.kind == "array" and not field.shape
        raise TypeError(
            f"column {name!r} is {field}, which has no values to mix by; integers, truth values and texts have"
            + ("; for ranges of numbers, select parts with ds.where and give them to leat.Mix" if floats else "")
        )
    values, codes = np.unique(ds.column(name), return_inverse=True)
    classes = ds.classes if name == "label" else ()
    return Column(name, values.tolist(), np.asarray(codes, np.int64).reshape(-1), classes)


def _checked(ds: Any, column: Any) -> tuple[str, ...]:
    if not isinstance(ds, Dataset):
        raise no_dataset("leat.Mix.by takes a data set", ds)
    if isinstance(ds, PackedRows):
        raise TypeError(
            "packed rows have tokens of several documents: divide the documents, and pack each part with "
            "leat.Mix.by(documents, ...).map(lambda part: leat.pack_rows(part, ...))"
        )
    ds._part()  # refuses rows of leat.one_of
    columns = (column,) if isinstance(column, str) else tuple(column)
    if not columns or not all(isinstance(name, str) for name in columns):
        raise TypeError(f"column is the name of a field, or a tuple of names, not {column!r:.60}")
    return columns


class _Divider:
    """Walks through nested weights, and collects a part per leaf."""

    def __init__(self, ds: Dataset, normalize: bool) -> None:
        self.ds = ds
        self.normalize = normalize
        self.columns: dict[str, Column] = {}
        self.parts: dict[str, tuple[Codes, float]] = {}
        self.left_out: Counter[str] = Counter()
        self.keys = Keys()

    def column(self, name: str) -> Column:
        if name not in self.columns:
            self.columns[name] = read_column(self.ds, name)
        return self.columns[name]

    def divide(
        self, columns: tuple[str, ...], weights: Any, positions: Codes, path: tuple[str, ...], share: float
    ) -> None:
        """`weights` of the samples at `positions`, by the first of `columns`; `path` are the names above."""
        column, of = self.column(columns[0]), "/".join(path) or "leat.Mix.by"
        if not isinstance(weights, Mapping) or not weights:
            raise TypeError(f"{of}: weights are a dict of numbers by value of {column.name!r}, not {weights!r:.60}")
        codes = column.codes[positions]
        members: dict[Any, list[int]] = {}
        names: dict[Any, str] = {}
        taken: dict[int, Any] = {}
        for key in weights:
            if key is ...:
                names[key] = OTHERS
                continue
            members[key], names[key] = [], ""
            for value in key if isinstance(key, tuple) else (key,):
                i = column.find(value)
                if i is None:
                    raise ValueError(self._no_such(column, value, codes, of))
                if i in taken:
                    raise ValueError(f"{of}: {value!r} of {column.name!r} has two weights")
                taken[i] = key
                members[key].append(i)
            names[key] = "+".join(column.shown(i) for i in members[key])
        counts = np.bincount(codes, minlength=len(column.values))
        rest = [i for i in np.flatnonzero(counts).tolist() if i not in taken]
        if ... in weights:
            members[...] = rest
        else:
            for i in rest:
                self.left_out["/".join((*path, column.shown(i)))] += int(counts[i])
        for key, name in names.items():
            values = [] if key is ... else [column.values[i] for i in members[key]]
            self.keys.take(path, name, values, column.classes)
        for key, w in weights.items():
            if isinstance(w, Mapping):
                raise TypeError(f"{of}: {names[key]!r} has no weight of its own: write {key!r}: (weight, {{...}})")
        plain = {names[key]: (w[0] if isinstance(w, (tuple, list)) and w else w) for key, w in weights.items()}
        if len(plain) < len(weights):
            raise ValueError(f"{of}: two sources of {column.name!r} have the same name")
        shares = checked_weights(plain, of, self.normalize)
        for key, given in weights.items():
            wanted = np.zeros(len(column.values), bool)
            wanted[members[key]] = True
            inside = positions[wanted[codes]]
            deeper, below = self._below(given, columns, names[key])
            here = (*path, names[key])
            if below is None:
                if "/".join(here) in self.parts:
                    raise ValueError(f"two sources are called {'/'.join(here)!r}")
                self.parts["/".join(here)] = (inside, share * shares[names[key]])
            else:
                self.divide(deeper, below, inside, here, share * shares[names[key]])

    @staticmethod
    def _below(given: Any, columns: tuple[str, ...], name: str) -> tuple[tuple[str, ...], Any]:
        """The columns and weights that divide a branch further; None: it is a leaf."""
        if not isinstance(given, (tuple, list)):
            return columns, None
        if len(given) == 2:
            if len(columns) < 2:
                raise ValueError(
                    f"{name!r} is divided further, and there is no column left to do so: name one in the tuple of "
                    "columns, or as (weight, column, {...})"
                )
            return columns[1:], given[1]
        if len(given) == 3 and isinstance(given[1], str):
            return (given[1], *columns[2:]), given[2]
        raise TypeError(f"{name!r} is a weight, (weight, {{...}}) or (weight, column, {{...}}), not {given!r:.60}")

    @staticmethod
    def _no_such(column: Column, value: Any, codes: Codes, of: str) -> str:
        there = [column.shown(i) for i in np.unique(codes).tolist()]
        values = (column.values[i] for i in np.unique(codes).tolist())
        known = {name: value if name == str(value) else name for name, value in zip(there, values)}
        near = _leat.nearest(str(value), there)
        hint = f"; did you mean {known[near]!r}?" if near else ""
        some = ", ".join(there[:SHOWN]) + (", ..." if len(there) > SHOWN else "")
        return f"{of}: no sample has {column.name} = {value!r}: it has {some or 'no values'}{hint}"


def parts_of(
    ds: Dataset, column: str | Sequence[str], weights: Mapping[Any, Any], leave_out: bool, normalize: bool
) -> tuple[dict[str, tuple[Dataset, float]], dict[str, int], Keys]:
    """``{name: (part, share)}``, the number of samples of each value that are in none of them, and the other names of
    the parts."""
    divider = _Divider(ds, normalize)
    divider.divide(_checked(ds, column), weights, np.arange(len(ds)), (), 1.0)
    left_out = dict(divider.left_out.most_common())
    if left_out and not leave_out:
        n, some = sum(left_out.values()), [f"{name} ({count:,})" for name, count in list(left_out.items())[:SHOWN]]
        raise ValueError(
            f"the weights name no source for {n:,} of {len(ds):,} samples: {', '.join(some)}"
            f"{', ...' if len(left_out) > SHOWN else ''}. Name these values, give `...: weight` for all of them, or "
            "say others='leave_out'"
        )
    return {name: (ds.select(at), share) for name, (at, share) in divider.parts.items()}, left_out, divider.keys


def all_parts(ds: Dataset, column: str | Sequence[str]) -> tuple[dict[str, Dataset], Keys]:
    """A part per combination of values that samples have, by rising values, and the other names of the parts."""
    keys = Keys()
    columns = [read_column(ds, name) for name in _checked(ds, column)]
    combined = np.zeros(len(ds), np.int64)
    for c in columns:
        combined = combined * len(c.values) + c.codes
        kinds, combined = np.unique(combined, return_inverse=True)  # stays below the number of samples
        combined = np.asarray(combined, np.int64).reshape(-1)
        check.integer("combinations of values", len(kinds), 0, 1 << 20)
    order = np.argsort(combined, kind="stable")
    cuts = np.flatnonzero(np.diff(combined[order], prepend=-1))
    found: dict[str, Dataset] = {}
    for at in np.split(order, cuts[1:]) if len(ds) else []:
        path = tuple(c.shown(int(c.codes[at[0]])) for c in columns)
        for k, c in enumerate(columns):
            keys.take(path[:k], path[k], [c.values[int(c.codes[at[0]])]], c.classes)
        name = "/".join(path)
        if name in found:
            raise ValueError(f"two combinations of values are called {name!r}")
        found[name] = ds.select(at)
    return found, keys
