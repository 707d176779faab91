"""Two data sets joined by a key: photos and a table about them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np

from .. import check
from ..errors import InvalidError
from . import column
from .dataset import Dataset, concat, no_dataset
from .made import of_arrays, zipped
from .ragged import Ragged
from .schema import Field, held, says_missing
from .sparse import Sparse
from .writer import _encoder

_SHOWN = 5  # keys that an error names


def join(
    photos: Dataset,
    table: Dataset,
    *,
    on: str | tuple[str, str],
    how: Literal["strict", "left"] = "strict",
    fields: Sequence[str] | None = None,
    prefix: str | None = None,
    fill: Mapping[str, Any] | None = None,
) -> Dataset:
    """A data set with one sample per photo, which has the fields of its row in a table beside its own.

    Order, length and ids are those of `photos` (ids count from 0). Rows of the table without a photo are left out;
    several photos may have one row.

    Args:
        photos, table: any two data sets. Only their keys are read, each once.
        on: the field with the key, texts or integers; ``("name", "file")`` if it has another name in the table.
        how: ``"strict"``: a photo without a row is an error. ``"left"``: it stays; ``NAME.valid`` (bool) beside each
            field of the table says which photos have a value. Where there is none it is 0, NaN among floats, an empty
            text, list or photo, and None in JSON.
        fields: of the table, those to take; None: all that it stores, but the key. A field of which the table says
            which values are missing (``NAME.valid``) comes with that.
        prefix: the table's fields are ``PREFIX.NAME``; needed if `photos` has fields of the same names.
        fill: with ``how="left"``, values in the place of those that are missing, ``{"grade": -1}``; such fields have no
            ``NAME.valid``.

    Raises:
        KeyError: there is no such field.
        TypeError: a key is neither text nor integer, or not the same in both.
        ValueError: a key has no row or several ones, which the error names; both have a field of the same name.

    >>> photos = leat.from_arrays(id=np.array([7, 3, 5]), x=np.zeros((3, 2)))
    >>> table = leat.from_arrays(id=np.array([3, 5, 7, 9]), grade=np.array([30, 50, 70, 90]))
    >>> joined = leat.join(photos, table, on="id")
    >>> joined.column("grade").tolist(), list(joined.schema)
    ([70, 30, 50], ['id', 'x', 'grade'])
    """
    for d in (photos, table):
        if not isinstance(d, Dataset):
            raise no_dataset('join takes two data sets, leat.join(photos, table, on="name")', d)
    left, right = _names_of_key(on)
    for d, name in ((photos, left), (table, right)):
        d._find(name)  # before clashes of other fields are
    check.choice("how", how, {"strict": 0, "left": 1})
    if fill is not None and (how != "left" or not isinstance(fill, Mapping)):
        raise ValueError('fill is a dict of values for photos without a row, which how="left" keeps')
    if prefix is not None and not (isinstance(prefix, str) and prefix):
        raise ValueError(f"prefix is a name for the table, not {prefix!r:.60}")
    taken = _taken(table, right, fields)
    named = {name: f"{prefix}.{name}" if prefix is not None else name for name in taken}
    for name in fill or {}:
        if name not in taken:
            raise KeyError(f"fill names {name!r}, and the fields of the table are {', '.join(taken)}")
    lacking = {name for name in taken if _lacks(table, name)}
    unsure = [n for n in taken if n in lacking or (how == "left" and n not in (fill or {}))]
    _refuse_clashes(photos, [*named.values(), *(f"{named[name]}.valid" for name in unsure)])
    rows = _rows(photos, left, table, right, how)
    valid = {f"{named[n]}.valid": np.append(_known(table, n), n in (fill or {}))[rows] for n in unsure}
    side = zipped({prefix or "table": table}, None, taken)
    if how == "left":
        if made := [name for name, f in side.schema.items() if f.derived]:
            raise ValueError(f'{made[0]!r} of the table is derived: with how="left" only what it stores is taken')
        row = _row_without(side.schema, fill or {}, table.classes)
        side = concat(side, row, tokenizers="any")
        rows = np.where(rows < 0, len(table), rows)
    side = side.select(rows)
    if prefix is not None:
        side = zipped({prefix: side}, False)
    parts = {"photos": photos, "table": side}
    if valid:
        parts["valid"] = of_arrays(None, valid, None)
    return zipped(parts, None)


def _names_of_key(on: Any) -> tuple[str, str]:
    if isinstance(on, str):
        return on, on
    if isinstance(on, tuple) and len(on) == 2 and all(isinstance(name, str) for name in on):
        return on
    raise TypeError(f"on is the name of the field with the key, or one for each data set, not {on!r:.60}")


def _taken(table: Dataset, key: str, fields: Sequence[str] | None) -> list[str]:
    """The fields of the table that are taken, without those that say which values of others are missing: they come
    with these."""
    if fields is None:
        taken = [name for name, f in table.schema.items() if not f.derived and name != key]
    else:
        taken = check.names("fields", fields)
    for name in taken:
        table._find(name)
    taken = [n for n in taken if not (says_missing(n, table.schema) and n.removesuffix(".valid") in taken)]
    if not taken:
        raise ValueError(f"the table has no field but the key {key!r}: there is nothing to join")
    return taken


def _lacks(ds: Dataset, name: str) -> bool:
    """Whether the data set says which values of a field are missing."""
    return f"{name}.valid" in ds.schema and says_missing(f"{name}.valid", ds.schema)


def _known(ds: Dataset, name: str) -> np.ndarray[Any, Any]:
    """Of each sample whether it has a value of a field."""
    return np.asarray(ds.column(f"{name}.valid")).astype(bool) if _lacks(ds, name) else np.ones(len(ds), bool)


def _refuse_clashes(photos: Dataset, new: Sequence[str]) -> None:
    if both := [name for name in new if name in photos.schema]:
        raise InvalidError(
            f"photos and table both have the field {', '.join(map(repr, both[:_SHOWN]))}: choose the table's with "
            f'fields=[...], or give prefix="table", which names them {f"table.{both[0]}"!r}'
        )


def _keys(ds: Dataset, name: str) -> tuple[Any, np.ndarray[Any, Any]]:
    """The keys of all samples: the different ones as a list or an array in ascending order, and the number of each
    sample's among them."""
    field = ds._find(name)[1]
    if field.kind == "str":
        return column.texts(ds, name)
    if field.kind == "array" and not field.shape and np.dtype(held(field.dtype)).kind in "iu":
        return np.unique(ds.column(name), return_inverse=True)
    raise TypeError(f"field {name!r} is {field}: data sets are joined by texts or integers")


def _rows(photos: Dataset, left: str, table: Dataset, right: str, how: str) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Of each photo the row of the table that has its key; -1: none has."""
    theirs, numbers = _keys(table, right)
    known = np.flatnonzero(_known(table, right))
    counts = np.bincount(numbers[known], minlength=len(theirs))
    if (counts > 1).any():
        double = [
            f"{_shown(theirs[k])} (rows {', '.join(map(str, known[numbers[known] == k][:3].tolist()))})"
            for k in np.flatnonzero(counts > 1)[:_SHOWN].tolist()
        ]
        raise InvalidError(
            f"{int((counts > 1).sum())} keys stand in several rows of the table, by its field {right!r}: "
            f"{_list(double, int((counts > 1).sum()))}. Select one row for each"
        )
    row_of = np.full(len(theirs), -1, np.int64)
    row_of[numbers[known]] = known
    ours, wanted = _keys(photos, left)
    if isinstance(ours, list) != isinstance(theirs, list):
        raise TypeError(
            f"the key of the photos, {left!r}, is {photos.schema[left]}, and {right!r} of the table is "
            f"{table.schema[right]}: both are texts, or both integers"
        )
    at = _texts_among(ours, theirs) if isinstance(ours, list) else _integers_among(ours, theirs)
    rows: np.ndarray[Any, np.dtype[np.int64]] = np.append(row_of, -1)[at][wanted]  # at -1 is the one behind all rows
    rows[~_known(photos, left)] = -1
    missing = np.flatnonzero(rows < 0)
    if len(missing) and how == "strict":
        named = [f"{_shown(ours[int(wanted[i])])} (sample {i})" for i in missing[:_SHOWN].tolist()]
        raise InvalidError(
            f"{len(missing)} of {len(photos)} photos have no row in the table, by {left!r}: "
            f'{_list(named, len(missing))}. how="left" keeps them, and NAME.valid says which have one'
        )
    return rows


def _texts_among(keys: list[str], among: list[str]) -> np.ndarray[Any, Any]:
    """The place of each key in a list; -1: it is not there."""
    place = {key: k for k, key in enumerate(among)}
    return np.fromiter((place.get(key, -1) for key in keys), np.int64, len(keys))


def _integers_among(keys: np.ndarray[Any, Any], among: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The same in an array that ascends. Beside int64, what only uint64 can hold is nowhere."""
    known = np.ones(len(keys), bool)
    if keys.dtype != among.dtype:
        most = np.iinfo(np.int64).max
        known, among = keys <= most, among[among <= most].astype(np.int64)
        keys = np.where(known, keys, 0).astype(np.int64)
    at = np.searchsorted(among, keys)
    known &= at < len(among)
    known[known] = among[at[known]] == keys[known]
    return np.where(known, at, -1)


def _shown(key: Any) -> str:
    return f"{key!r:.60}" if isinstance(key, str) else str(int(key))


def _list(shown: list[str], n: int) -> str:
    return ", ".join(shown) + (", ..." if n > len(shown) else "")


def _row_without(fields: Mapping[str, Field], fill: Mapping[str, Any], classes: Sequence[str]) -> Dataset:
    """A data set of one sample, for photos without a row."""
    arrays = {name: _value_without(name, f, fill) for name, f in fields.items()}
    return of_arrays(fields, arrays, None, classes)


def _value_without(name: str, field: Field, fill: Mapping[str, Any]) -> Any:
    """One value, as from_arrays takes it."""
    inner = tuple(n or 0 for n in field.shape[1:])
    if field.kind == "sparse":
        empty = np.empty(0, field.dtype), np.empty(0, np.int32), np.zeros(2, np.int64)
        return fill[name] if name in fill else Sparse(*empty, field.shape[0] or 0)
    if name in fill:
        value = fill[name]
    elif field.kind == "array":
        zero = np.nan if "float" in field.dtype else np.zeros((), held(field.dtype)).item()
        value = np.full((*(n or 0 for n in field.shape[:1]), *inner), zero).tolist()
    else:
        value = {"str": "", "json": None}.get(field.kind, [] if field.role == "masks" else b"")
    stored: Any = np.frombuffer(memoryview(_encoder(name, field)(value)).tobytes(), held(field.dtype))
    if field.dtype == "bfloat16":
        import torch

        stored = torch.from_numpy(stored.view(np.int16).copy()).view(torch.bfloat16)
    if field.kind == "array" and None not in field.shape:
        return stored.reshape(1, *field.shape)
    rows = stored.reshape(len(stored) // max(math.prod(inner), 1), *inner)
    return Ragged(rows, np.array([0, len(rows)], np.int64))
