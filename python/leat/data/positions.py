"""Selections that others hand in: positions or masks as Arrow arrays, by the Arrow C data interface.

An object has ``__arrow_c_array__`` (an array) or ``__arrow_c_stream__`` (arrays one after the other); a table of one
column counts as that column. It needs nothing of pyarrow.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from .arrow_c import Array, Schema, Stream, pointer

_INTEGERS = {b"c": "i1", b"C": "u1", b"s": "<i2", b"S": "<u2", b"i": "<i4", b"I": "<u4", b"l": "<i8", b"L": "<u8"}


def _memory(address: int, size: int) -> memoryview:
    return memoryview((ctypes.c_uint8 * size).from_address(address))


def _bits(address: int, begin: int, n: int) -> np.ndarray[Any, Any]:
    """`n` bits from bit `begin` on, as bool."""
    size = (begin + n + 7) // 8
    data = np.frombuffer(_memory(address, size), np.uint8) if size else np.empty(0, np.uint8)
    return np.unpackbits(data, bitorder="little")[begin : begin + n].astype(bool)


def _column(schema: Schema, array: Array, begin: int, n: int) -> np.ndarray[Any, Any]:
    """A copy of `n` values of an array from `begin` on: integers, or bool where NULL is False."""
    text = schema.format
    if text == b"+s":
        if schema.n_children != 1:
            raise TypeError(f"a selection is one column, not a table of {schema.n_children}")
        child = array.children[0].contents
        return _column(schema.children[0].contents, child, begin + array.offset, n)
    begin += array.offset
    valid = None
    if array.null_count != 0 and array.buffers[0]:
        valid = _bits(array.buffers[0], begin, n)
    if text == b"b":
        mask = _bits(array.buffers[1], begin, n) if n else np.empty(0, bool)
        return mask if valid is None else mask & valid
    if text not in _INTEGERS or schema.dictionary:
        raise TypeError(
            f"a selection is positions, integers, or a mask of bool, not an Arrow array of format {text.decode()!r}"
        )
    if valid is not None and not valid.all():
        raise ValueError(f"entry {int(np.argmin(valid))} of the positions is NULL")
    dtype = np.dtype(_INTEGERS[text])
    if not n:
        return np.empty(0, dtype)
    bytes_ = _memory(array.buffers[1] + begin * dtype.itemsize, n * dtype.itemsize)
    return np.frombuffer(bytes_, dtype).copy()


def _of_stream(stream: Stream) -> np.ndarray[Any, Any]:
    def check(code: int) -> None:
        if code:
            said = stream.get_last_error(ctypes.byref(stream))
            raise ValueError(f"the stream of positions failed: {(said or b'').decode(errors='replace') or code}")

    schema = Schema()
    parts: list[np.ndarray[Any, Any]] = []
    check(stream.get_schema(ctypes.byref(stream), ctypes.byref(schema)))
    try:
        while True:
            array = Array()
            check(stream.get_next(ctypes.byref(stream), ctypes.byref(array)))
            if not array.release:
                return np.concatenate(parts) if parts else np.empty(0, np.int64)
            try:
                parts.append(_column(schema, array, 0, array.length))
            finally:
                array.release(ctypes.byref(array))
    finally:
        if schema.release:
            schema.release(ctypes.byref(schema))


def from_arrow(given: Any) -> np.ndarray[Any, Any] | None:
    """Positions or a mask from objects that speak the Arrow C data interface; None for others."""
    if isinstance(given, np.ndarray):
        return None
    if hasattr(given, "__arrow_c_array__"):
        schema, array = given.__arrow_c_array__()
        found = pointer(array, b"arrow_array", Array)
        return _column(pointer(schema, b"arrow_schema", Schema), found, 0, found.length)
    if hasattr(given, "__arrow_c_stream__"):
        try:
            capsule = given.__arrow_c_stream__()
        except ImportError:  # of pandas without pyarrow: NumPy takes it
            return None
        return _of_stream(pointer(capsule, b"arrow_array_stream", Stream))
    return None
