"""Arrays that lie in files, whole or in chunks, and data sets whose field is rows of one (``leat/stored.h``)."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from ... import _leat
from ...errors import InvalidError, UnsupportedError
from .. import schema as _schema
from ..dataset import Dataset

Array = np.ndarray[Any, Any]
CHUNK = np.dtype([("offset", "<u8"), ("bytes", "<u8"), ("file", "<u4"), ("mask", "<u4")])
MISSING = 2**64 - 1
#: pieces of an array that its fingerprint is made of, and bytes of each
_SAMPLES, _SAMPLE = 16, 4096
_MOST_TEXT = 4 << 30
#: of enum leat_stored_filter_kind
ZLIB, GZIP, ZSTD, LZF, BLOSC, SHUFFLE, FLETCHER32, CRC32C, SWAP, DEFLATE = range(1, 11)


@dataclass(frozen=True)
class Stored:
    """An array in files.

    Attributes:
        name: in errors, such as ``X/data``.
        dtype: of its elements, in the order of bytes of this machine.
        chunks: CHUNK for each chunk of the grid, in the order of C; None: it lies at `offset` of the only file.
        filters: (kind, argument) in the order in which they were applied.
        fill: the bytes of the element that chunks have that were not written.
        files: paths or addresses; `sizes` and `times` (ns) as they were when it was described.
    """

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    files: tuple[str, ...]
    chunk: tuple[int, ...] = ()
    chunks: Array | None = None
    offset: int = 0
    filters: tuple[tuple[int, int], ...] = ()
    fill: bytes = b""
    sizes: Array | None = None
    times: Array | None = None

    @property
    def nbytes(self) -> int:
        return int(np.prod(self.shape, dtype=object)) * self.dtype.itemsize

    def raw(self, keep: list[Any]) -> tuple[Any, ...]:
        """As the extension takes it; `keep` gets what holds its tables."""
        tables = [None if t is None else np.ascontiguousarray(t) for t in (self.chunks, self.sizes, self.times)]
        lengths = (None, len(self.files), len(self.files))
        for table, dtype, n in zip(tables, (CHUNK, np.uint64, np.int64), lengths, strict=True):
            if table is not None and (table.dtype != dtype or table.ndim != 1 or n not in (None, len(table))):
                raise ValueError(f"{self.name} is described by a table of {table.dtype}, shape {table.shape}")
        keep += tables
        at = [0 if t is None else t.__array_interface__["data"][0] for t in tables]
        n_chunks = 0 if tables[0] is None else len(tables[0])
        fill = self.fill.ljust(16, b"\0")[:16]
        chunk = self.chunk if n_chunks else ()
        return (self.name, self.dtype.itemsize, self.shape, chunk, at[0], n_chunks, self.offset, list(self.filters)) + (
            fill,
            list(self.files),
            at[1],
            at[2],
        )

    def read(self, first: int = 0, n: int | None = None) -> Array:
        """Elements, counted in the order of C, as an array of one dimension; without arguments the array."""
        total = int(np.prod(self.shape, dtype=object))
        out = np.empty(total - first if n is None else n, self.dtype)
        keep: list[Any] = []
        _leat.stored_read(self.raw(keep), first, len(out), out)
        return out.reshape(self.shape) if n is None and first == 0 else out

    def add_to(self, known: Any) -> None:
        """Adds to a hash what tells its content from another's: all but the paths and the times. It reads 16 pieces of
        the bytes as they are stored, from the first to the last. Arrays of the same layout that differ elsewhere have
        the same hash."""
        known.update(repr((self.name, self.dtype.str, self.shape, self.chunk, self.offset, self.filters)).encode())
        for table in (self.chunks, self.sizes):
            known.update(b"" if table is None else np.ascontiguousarray(table).tobytes())
        for path, at, n in self._samples():
            known.update(_bytes_of(path, at, n))

    def _samples(self) -> list[tuple[str, int, int]]:
        """Pieces of its bytes: file, place, length."""
        if self.chunks is None:
            n = min(_SAMPLE, self.nbytes)
            parts = np.linspace(0, self.nbytes - n, _SAMPLES).astype(np.int64).tolist()
            return [(self.files[0], self.offset + p, n) for p in dict.fromkeys(parts)]
        there = np.flatnonzero(self.chunks["offset"] != MISSING)
        if not len(there):
            return []
        found = []
        for i in dict.fromkeys(there[np.linspace(0, len(there) - 1, _SAMPLES).astype(np.int64)].tolist()):
            chunk = self.chunks[i]
            n = min(int(chunk["bytes"]), _SAMPLE)
            middle = (int(chunk["bytes"]) - n) // 2
            found.append((self.files[int(chunk["file"])], int(chunk["offset"]) + middle, n))
        return found


@dataclass(frozen=True)
class Rows:
    """Rows of a matrix: dense, if `values` has two dimensions or more; else sparse.

    Attributes:
        columns: of the values of sparse rows, integers.
        pointers: int64: row i has values ``pointers[i]`` to ``pointers[i + 1]``.
        n: columns of the file.
        map: int32, for each column of the file that of the field, or -1; None: they are the same.
        n_made: columns of the field.
        made: the type of the field's values; None: that of the file's.
        layout: of dense rows that are images.
    """

    values: Stored
    columns: Stored | None = None
    pointers: Array | None = None
    n: int = 0
    map: Array | None = None
    n_made: int = 0
    made: np.dtype[Any] | None = None
    layout: Literal["HWC", "CHW"] | None = None

    @property
    def sparse(self) -> bool:
        return self.columns is not None

    def __len__(self) -> int:
        return self.values.shape[0] if self.pointers is None else len(self.pointers) - 1

    @property
    def kind(self) -> _schema.Field:
        n = self.n if self.map is None else self.n_made
        dtype = self.values.dtype if self.made is None else self.made
        if self.sparse:
            return _schema.sparse(dtype, n)
        shape = self.values.shape[1:] if self.map is None else (n,)
        return _schema.field(dtype, shape, layout=self.layout)

    def mapped(self, columns: Array, n: int) -> Rows:
        return replace(self, map=np.ascontiguousarray(columns, np.int32), n_made=n)

    def add_to(self, known: Any) -> None:
        self.values.add_to(known)
        if self.columns is not None:
            self.columns.add_to(known)
        known.update(str(self.made).encode())
        for table in (self.pointers, self.map):
            known.update(b"" if table is None else np.ascontiguousarray(table).tobytes())


@dataclass
class Texts:
    """Texts in one piece: `values` uint8, `offsets` int64."""

    values: Array
    offsets: Array
    count: int = field(init=False)

    def __post_init__(self) -> None:
        self.count = len(self.offsets) - 1

    @classmethod
    def of(cls, texts: Any) -> Texts:
        encoded = [t if isinstance(t, bytes) else str(t).encode() for t in texts]
        offsets = np.zeros(len(encoded) + 1, np.int64)
        np.cumsum([len(t) for t in encoded], out=offsets[1:])
        return cls(np.frombuffer(b"".join(encoded), np.uint8), offsets)

    def strings(self) -> Array:
        """As an array of str objects."""
        raw, at = self.values.tobytes(), self.offsets.tolist()
        made = np.empty(self.count, object)
        made[:] = [raw[a:b].decode(errors="replace") for a, b in zip(at, at[1:], strict=False)]
        return made

    def take(self, codes: Array) -> Texts:
        """The texts of these numbers; below 0: an empty one."""
        raw, at = self.values.tobytes(), self.offsets.tolist()
        texts = [raw[a:b] for a, b in zip(at, at[1:], strict=False)] + [b""]  # -1 is the last one
        offsets = np.zeros(len(codes) + 1, np.int64)
        np.cumsum(np.array([len(t) for t in texts], np.int64)[codes], out=offsets[1:])
        if offsets[-1] > _MOST_TEXT:
            raise InvalidError(
                f"labels of {offsets[-1]} bytes in all: fields= names the numbers, .code, in their place"
            )
        return Texts(np.frombuffer(b"".join(map(texts.__getitem__, codes.tolist())), np.uint8), offsets)


def dataset_of(name: str, rows: Rows, columns_are: bytes = b"") -> Dataset:
    """A data set with one field. `columns_are`: what its columns are, for the fingerprint."""
    known = hashlib.blake2b(columns_are, digest_size=16)
    rows.add_to(known)
    keep: list[Any] = [rows]
    values = rows.values.raw(keep)
    columns = None if rows.columns is None else rows.columns.raw(keep)
    pointers = None if rows.pointers is None else np.ascontiguousarray(rows.pointers, np.int64)
    columns_map = None if rows.map is None else np.ascontiguousarray(rows.map, np.int32)
    if columns_map is not None and columns_map.shape != (rows.n,):
        raise ValueError(f"{name} has {rows.n} columns, and {columns_map.shape} are mapped")
    tables = [pointers, columns_map]
    keep += tables
    at = [0 if t is None else t.__array_interface__["data"][0] for t in tables]
    dtype = "" if rows.columns is None else _schema.dtype_name(rows.columns.dtype)
    schema = _schema.to_raw({name: rows.kind})
    handle = _leat.stored(
        schema,
        len(rows),
        known.hexdigest(),
        values,
        _schema.dtype_name(rows.values.dtype),
        columns,
        dtype,
        at[0],
        at[1],
        rows.n,
        keep,
    )
    return Dataset(handle, ("stored", name, rows))


def _bytes_of(path: str, at: int, n: int) -> bytes:
    from .remote import Remote, is_remote

    if is_remote(path):
        return Remote.opened(path).part(at, n)
    try:
        with open(path, "rb") as file:
            file.seek(at)
            return file.read(n)
    except OSError:  # reading the rows says so
        return b""


def field_name(name: str) -> str:
    """Characters that names of fields do not have become ``_``."""
    return "".join(c if c.isascii() and (c.isalnum() or c in "_.-") else "_" for c in name)


def package(name: str, path: str) -> Any:
    """An optional package."""
    import importlib

    try:
        return importlib.import_module(name)
    except ImportError as e:
        raise UnsupportedError(f"{path} is read with the package {name}, which is not here: pip install {name}") from e


def facts_of(paths: list[str]) -> tuple[Array, Array]:
    """Sizes and times (ns) of files."""
    stats = [os.stat(p) for p in paths]
    return (
        np.array([s.st_size for s in stats], np.uint64),
        np.array([s.st_mtime_ns for s in stats], np.int64),
    )


def native(dtype: np.dtype[Any], what: str) -> np.dtype[Any]:
    """A dtype that leat has, in the order of bytes of this machine."""
    found = dtype.newbyteorder("=")
    if found.kind not in "biuf" or found.itemsize > 8:
        raise InvalidError(f"{what} holds {dtype}, which is no type of numbers that leat has")
    return found
