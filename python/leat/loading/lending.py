"""Samples in memory, as the library is lent them: a field and a list of values for each name."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..data.made import as_ragged, as_rows, field_of
from ..data.ragged import Ragged
from ..data.schema import Field, dtype_name, field, sparse
from ..data.sparse import as_sparse, packed, packed_rows, row_of
from ..ops import Decode
from ..program import Entry


def columns_of(
    samples: Mapping[str, Any], found: list[Entry], wanted: Mapping[str, Field]
) -> tuple[dict[str, Field], list[list[Any]]]:
    """The fields that a program takes, and the values of each as buffers, which keep the memory that they are in.

    Raises:
        TypeError: a value that is no sample of its field; the text names both.
        ValueError: a field is missing, or has another number of values.
    """
    decoded = {name for entry in found if any(isinstance(op, Decode) for op in entry.chain) for name in entry.fields}
    if unknown := [name for name in wanted if name not in samples]:
        raise ValueError(
            f"schema has {unknown[0]!r}, and the samples have {', '.join(map(repr, samples)) or 'nothing'}"
        )
    taken = dict.fromkeys(name for entry in found for name in entry.fields)
    fields: dict[str, Field] = {}
    columns: list[list[Any]] = []
    for name in taken:
        if name not in samples:
            raise ValueError(
                f"outputs take {name!r}, and the samples have {', '.join(map(repr, samples)) or 'nothing'}"
            )
        encoded = field("image" if name in decoded else "bytes")
        fields[name], values = _column(name, samples[name], wanted.get(name), encoded)
        columns.append(values)
        if len(values) != len(columns[0]):
            first = next(iter(taken))
            raise ValueError(f"{first!r} has {len(columns[0])} values, and {name!r} has {len(values)}")
    return fields, columns


def _column(name: str, given: Any, wanted: Field | None, encoded: Field) -> tuple[Field, list[Any]]:
    rows = as_sparse(name, given) if wanted is None or not isinstance(given, (list, tuple)) else None
    if rows is not None:
        found = sparse(rows.values.dtype, rows.n)
        if wanted is not None and wanted != found:
            raise ValueError(f"{name!r} holds {found}, which cannot be a {wanted}")
        stored, ends = packed_rows(rows)
        return found, [stored[a:b] for a, b in zip(ends[:-1], ends[1:], strict=True)]
    if isinstance(given, Ragged):
        values, offsets, found = as_ragged(name, given, wanted)
        if len(offsets) and (offsets[0] < 0 or (np.diff(offsets) < 0).any()):
            raise ValueError(f"{name!r} has offsets that descend, or are negative")
        return found, [values[a:b] for a, b in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True)]
    if isinstance(given, (str, bytes, bytearray, memoryview, Mapping)) or not hasattr(given, "__len__"):
        raise TypeError(f"{name!r} is a list of values, one of each sample, not {type(given).__name__}")
    if hasattr(given, "__array__"):
        if not hasattr(given, "detach"):
            given = np.asarray(given)
            if given.dtype.kind == "S":
                raise TypeError(
                    f"{name!r} is an array of fixed strings, which lose their last zeros: give a list of bytes"
                )
            if given.dtype.kind in "OU":
                return _column(name, given.tolist(), wanted, encoded)
        array, dtype = as_rows(name, given)
        return field_of(name, array, dtype, wanted), list(array)
    values = list(given)
    first = values[0] if values else b""
    if wanted is None and isinstance(first, (bool, int, float, complex, np.generic)):
        return _column(name, _numbers(name, values), None, encoded)
    if wanted is None:
        wanted = _field_like(name, first, encoded)
    if wanted.kind == "sparse":
        one = field(wanted.dtype, (None,))
        given_rows = (row_of(name, value, wanted.shape[0] or 0) for value in values)
        return wanted, [packed(_array(name, i, v, one), columns) for i, (v, columns) in enumerate(given_rows)]
    if wanted.kind == "array":
        return wanted, [_array(name, i, value, wanted) for i, value in enumerate(values)]
    return wanted, [_bytes(name, i, value, wanted.kind) for i, value in enumerate(values)]


def _field_like(name: str, value: Any, encoded: Field) -> Field:
    if isinstance(value, (bytes, bytearray, memoryview)):
        return encoded
    if isinstance(value, str):
        return field("str")
    array = _as_array(name, 0, value)
    return field(dtype_name(array.dtype), (None, *array.shape[1:]) if array.ndim else ())


def _numbers(name: str, values: list[Any]) -> np.ndarray[Any, Any]:
    """Numbers as one array, of the type that holds them all."""
    try:
        array = np.asarray(values)
    except ValueError:
        array = np.asarray(None)
    if array.ndim != 1 or array.dtype.kind not in "biufc":
        raise TypeError(f"{name!r} has a number first, and then something else")
    return array


def _as_array(name: str, i: int, value: Any) -> np.ndarray[Any, Any]:
    array = np.asarray(value.detach() if hasattr(value, "detach") else value)
    if array.dtype.kind not in "biufc":
        raise TypeError(
            f"{name!r} of sample {i} is {type(value).__name__}: bytes, text, a number or an array is wanted"
        )
    return array


def _array(name: str, i: int, value: Any, wanted: Field) -> np.ndarray[Any, Any]:
    array = _as_array(name, i, value)
    found = dtype_name(array.dtype)
    fits = array.ndim == len(wanted.shape) and all(
        n in (None, m) for n, m in zip(wanted.shape, array.shape, strict=True)
    )
    if found != wanted.dtype and array.ndim == 0 and wanted.dtype != "bfloat16":
        given, array = array, array.astype(wanted.dtype)
        if array != given and wanted.dtype[:3] != "flo":  # a rounded float is one all the same
            raise TypeError(f"{name!r} of sample {i} is {given}, which is no {wanted.dtype}")
    elif found != wanted.dtype or not fits:
        raise TypeError(f"{name!r} of sample {i} is {found} of shape {array.shape}, and the others are {wanted}")
    return np.ascontiguousarray(array)


def _bytes(name: str, i: int, value: Any, kind: str) -> Any:
    if kind in ("str", "json"):
        if isinstance(value, str):
            return value.encode()
        if kind == "json" and not isinstance(value, (bytes, bytearray, memoryview)):
            return json.dumps(value).encode()
    if isinstance(value, bytes):
        return value
    try:
        return memoryview(value).cast("B")  # which the owner cannot resize
    except TypeError:
        raise TypeError(
            f"{name!r} of sample {i} is {type(value).__name__}, and a field of {kind!r} has bytes"
        ) from None
