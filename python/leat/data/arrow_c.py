"""Tables by the Arrow C data interface: no library is needed, and no buffer is copied.

An object with ``__arrow_c_stream__`` gives a capsule with a stream of record batches. Each batch becomes a tree of
:class:`Column`, whose buffers are NumPy arrays over the producer's memory. They keep the batch alive, which is released
with the last of them. The producer is trusted, as any library of the same process is; offsets are checked when they are
used.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .. import _leat
from ..errors import UnsupportedError

Bytes = np.ndarray[Any, np.dtype[np.uint8]]
#: formats of numbers, and the substitute for a number of a unit (dates, times), as NumPy reads them
NUMBERS = {
    "c": "int8", "C": "uint8", "s": "int16", "S": "uint16", "i": "int32", "I": "uint32", "l": "int64", "L": "uint64",
    "e": "float16", "f": "float32", "g": "float64", "tdD": "int32", "tdm": "int64", "tts": "int32", "ttm": "int32",
    "ttu": "int64", "ttn": "int64", "tDs": "int64", "tDm": "int64", "tDu": "int64", "tDn": "int64", "tiM": "int32",
}  # fmt: skip
TEXT, BINARY, LISTS = ("u", "U", "vu"), ("z", "Z", "vz"), ("+l", "+L")
_OTHERS = {"+v": "a list view", "+r": "run-end encoded", "ti": "an interval", "+u": "a union"}


class Schema(ctypes.Structure):
    pass


class Array(ctypes.Structure):
    pass


_SchemaPointer, _ArrayPointer = ctypes.POINTER(Schema), ctypes.POINTER(Array)
Schema._fields_ = [
    ("format", ctypes.c_char_p),
    ("name", ctypes.c_char_p),
    ("metadata", ctypes.c_void_p),
    ("flags", ctypes.c_int64),
    ("n_children", ctypes.c_int64),
    ("children", ctypes.POINTER(_SchemaPointer)),
    ("dictionary", _SchemaPointer),
    ("release", ctypes.CFUNCTYPE(None, _SchemaPointer)),
    ("private_data", ctypes.c_void_p),
]
Array._fields_ = [
    ("length", ctypes.c_int64),
    ("null_count", ctypes.c_int64),
    ("offset", ctypes.c_int64),
    ("n_buffers", ctypes.c_int64),
    ("n_children", ctypes.c_int64),
    ("buffers", ctypes.POINTER(ctypes.c_void_p)),
    ("children", ctypes.POINTER(_ArrayPointer)),
    ("dictionary", _ArrayPointer),
    ("release", ctypes.CFUNCTYPE(None, _ArrayPointer)),
    ("private_data", ctypes.c_void_p),
]


class Stream(ctypes.Structure):
    pass


_StreamPointer = ctypes.POINTER(Stream)
Stream._fields_ = [
    ("get_schema", ctypes.CFUNCTYPE(ctypes.c_int, _StreamPointer, _SchemaPointer)),
    ("get_next", ctypes.CFUNCTYPE(ctypes.c_int, _StreamPointer, _ArrayPointer)),
    ("get_last_error", ctypes.CFUNCTYPE(ctypes.c_char_p, _StreamPointer)),
    ("release", ctypes.CFUNCTYPE(None, _StreamPointer)),
    ("private_data", ctypes.c_void_p),
]

_capsule_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)


def pointer(capsule: Any, name: bytes, kind: Any) -> Any:
    """The structure of a capsule, which keeps it."""
    return ctypes.cast(_capsule_pointer(capsule, name), ctypes.POINTER(kind)).contents


@dataclass
class Type:
    """The type of a column: its format in the letters of the interface."""

    format: str
    name: str
    children: list[Type] = field(default_factory=list)
    dictionary: Type | None = None
    metadata: dict[bytes, bytes] = field(default_factory=dict)
    nullable: bool = True


@dataclass
class Column:
    """Some rows of a column. `nulls`: which values are missing; None: none of them."""

    type: Type
    length: int
    offset: int
    nulls: np.ndarray[Any, np.dtype[np.bool_]] | None
    buffers: list[Bytes]  # without the one of validity
    children: list[Column]
    dictionary: Column | None


class _Holder:
    """Releases a batch of the producer when nothing refers to it."""

    def __init__(self) -> None:
        self.array = Array()

    def _left(self) -> None:
        if self.array.release:
            self.array.release(ctypes.byref(self.array))

    __del__ = _leat.left()


class _Memory:
    """Memory of a batch as NumPy takes it."""

    def __init__(self, holder: _Holder, address: int, size: int) -> None:
        self._holder = holder
        self.__array_interface__ = {"data": (address, True), "shape": (size,), "typestr": "|u1", "version": 3}


def _type(schema: Any) -> Type:
    dictionary = _type(schema.dictionary.contents) if schema.dictionary else None
    children = [_type(schema.children[i].contents) for i in range(schema.n_children)]
    name = (schema.name or b"").decode("utf-8", "replace")
    kind, metadata = schema.format.decode("utf-8", "replace"), _metadata(schema.metadata)
    return Type(kind, name, children, dictionary, metadata, bool(schema.flags & 2))


def _metadata(address: int | None) -> dict[bytes, bytes]:
    """Pairs of keys and values: their number, and of each text its length before it, as 32-bit integers."""
    at = address or 0

    def number() -> int:
        nonlocal at
        at += 4
        return ctypes.c_int32.from_address(at - 4).value

    def text() -> bytes:
        nonlocal at
        length = number()
        at += length
        return ctypes.string_at(at - length, length)

    return {text(): text() for _ in range(number())} if at else {}


def refuse(kind: Type) -> None:
    """Refuses a column of a type that is not read.

    Raises:
        UnsupportedError: it is one, or has one in it.
    """
    for one in (*kind.children, *([kind.dictionary] if kind.dictionary else [])):
        refuse(one)
    if not _is_read(kind.format):
        said = next((text for begin, text in _OTHERS.items() if kind.format.startswith(begin)), "of another type")
        raise UnsupportedError(
            f"column {kind.name!r} is {said}, Arrow's {kind.format!r}: cast it to strings, numbers or lists of these"
        )


def _is_read(kind: str) -> bool:
    whole = (*NUMBERS, "b", "n", "+s", "+m", *TEXT, *BINARY, *LISTS)
    return kind in whole or kind.startswith(("ts", "w:", "d:", "+w:"))


def _sizes(kind: str, array: Any, holder: _Holder) -> list[int]:
    """Bytes of each buffer behind that of validity."""
    rows = array.length + array.offset
    if kind in NUMBERS or kind.startswith("ts"):
        return [rows * np.dtype(NUMBERS.get(kind, "int64")).itemsize]
    if kind == "b":
        return [(rows + 7) // 8]
    if kind in ("u", "z", "U", "Z"):
        offset = 4 if kind in "uz" else 8
        sizes = [(rows + 1) * offset if rows else 0]
        ends = _buffer(holder, array, 1, sizes[0]).view(f"int{offset * 8}")
        return [*sizes, max(int(ends[-1]), 0) if len(ends) else 0]
    if kind in LISTS:
        return [(rows + 1) * (4 if kind == "+l" else 8) if rows else 0]
    if kind == "+m":
        return [(rows + 1) * 4 if rows else 0]
    if kind.startswith("w:"):
        return [rows * int(kind[2:])]
    if kind.startswith("d:"):
        parts = kind[2:].split(",")
        return [rows * (int(parts[2]) // 8 if len(parts) > 2 else 16)]
    if kind in ("vu", "vz"):
        n = array.n_buffers
        lengths = _buffer(holder, array, n - 1, (n - 3) * 8).view(np.int64)
        return [rows * 16, *lengths.tolist()]
    return []  # of structs, lists of fixed size, and columns that :func:`refuse` has refused


def _buffer(holder: _Holder, array: Any, i: int, size: int) -> Bytes:
    address = array.buffers[i] if i < array.n_buffers else None
    if not address or size <= 0:
        return np.empty(0, np.uint8)
    return np.asarray(_Memory(holder, address, size))


def bits(buffer: Bytes, offset: int, length: int) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Packed bits as bool."""
    first = offset // 8
    part = np.unpackbits(buffer[first : (offset + length + 7) // 8], bitorder="little")
    return part[offset - first * 8 :][:length].view(np.bool_)


def _column(kind: Type, array: Any, holder: _Holder) -> Column:
    sizes = _sizes(kind.format, array, holder)
    plain = kind.format == "n"
    nulls = None
    if array.null_count != 0 and not plain and array.n_buffers:
        valid = _buffer(holder, array, 0, (array.length + array.offset + 7) // 8)
        if len(valid):
            nulls = ~bits(valid, array.offset, array.length)
            nulls = nulls if nulls.any() else None
    return Column(
        kind,
        array.length,
        array.offset,
        nulls,
        [_buffer(holder, array, i + 1, size) for i, size in enumerate(sizes)],
        [_column(t, array.children[i].contents, holder) for i, t in enumerate(kind.children)],
        _column(kind.dictionary, array.dictionary.contents, holder) if kind.dictionary else None,
    )


def type_of(schema: Any) -> Type:
    """The type of the rows of an object with ``__arrow_c_schema__``."""
    capsule = schema.__arrow_c_schema__()  # which releases it
    return _type(pointer(capsule, b"arrow_schema", Schema))


def read(obj: Any) -> tuple[Type, Iterator[Column]]:
    """The type of the rows (a struct), and the batches of an object with ``__arrow_c_stream__``."""
    capsule = obj.__arrow_c_stream__()
    stream = ctypes.cast(_capsule_pointer(capsule, b"arrow_array_stream"), _StreamPointer)
    schema = Schema()
    _check(stream, stream.contents.get_schema(stream, ctypes.byref(schema)))
    try:
        kind = _type(schema)
    finally:
        schema.release(ctypes.byref(schema))
    if kind.format != "+s":
        raise UnsupportedError(f"a stream of tables is needed, with columns by their names, not of {kind.format!r}")

    def batches() -> Iterator[Column]:
        held = capsule  # it owns the stream
        while True:
            holder = _Holder()
            _check(stream, stream.contents.get_next(stream, ctypes.byref(holder.array)))
            if not holder.array.release:
                del held
                return
            yield _column(kind, holder.array, holder)

    return kind, batches()


def _check(stream: Any, code: int) -> None:
    if code:
        text = stream.contents.get_last_error(stream)
        raise OSError(code, (text or b"the Arrow stream failed").decode("utf-8", "replace"))
