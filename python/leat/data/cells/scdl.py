"""SCDL, the directories of BioNeMo's single-cell data loader, header version 0.1, read in place.

    header.sch      which arrays there are, their types and lengths; numbers in network order
    data.npy        values; row_ptr.npy: the first value of each row; col_ptr.npy: columns. Raw arrays, without a header
    var_features/   a table of genes for each block of rows with the same genes, and where these blocks end
    obs_features/   likewise columns about cells

Column numbers count within a row's block of genes. Only the header says the types of the arrays. Labels may be pickled
there, and are not read.
"""

from __future__ import annotations

import os
import struct
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import CorruptError, FormatError, UnsupportedError
from . import stored
from .anndata import Column, Part, texts
from .stored import Array, Rows, Stored, Texts, field_name

MAGIC, NETWORK, MEMMAP = b"SCDL", 1, 1
#: Numbers of types in a header.
TYPES = {1: "u1", 2: "u2", 3: "u4", 4: "u8", 5: "f2", 6: "f4", 7: "f8"}
FILES = {"DATA": "data.npy", "ROWPTR": "row_ptr.npy", "COLPTR": "col_ptr.npy"}
_HEADER = 64 << 20  # bytes that no header has


@dataclass
class _Header:
    """A reader of the bytes of header.sch."""

    path: str
    raw: bytes
    at: int = 0

    def take(self, form: str) -> Any:
        size = struct.calcsize("!" + form)
        if self.at + size > len(self.raw):
            raise CorruptError(f"{self.path} ends at byte {len(self.raw)}, in the middle of a description")
        (value,) = struct.unpack_from("!" + form, self.raw, self.at)
        self.at += size
        return value

    def text(self) -> str:
        n = self.take("I")
        if n > len(self.raw) - self.at:
            raise CorruptError(f"{self.path}, byte {self.at}: a text of {n} bytes leads beyond the header")
        self.at += n
        return self.raw[self.at - n : self.at].decode(errors="replace")


def arrays_of(path: str, raw: bytes) -> dict[str, tuple[int, np.dtype[Any]]]:
    """Length and type of each array that a header names."""
    head = _Header(path, raw)
    if raw[:4] != MAGIC:
        raise FormatError(f"{path} is no header of SCDL: it does not begin with SCDL")
    head.at = 4
    version = tuple(head.take("B") for _ in range(3))
    if version[:2] != (0, 1) or head.take("B") != NETWORK or head.take("I") != MEMMAP:
        raise UnsupportedError(f"{path} is a header of SCDL of version {'.'.join(map(str, version))}, not 0.1")
    found: dict[str, tuple[int, np.dtype[Any]]] = {}
    for _ in range(head.take("I")):  # a number that is too large leads to the end of the header
        name, length, code = head.text(), head.take("Q"), head.take("I")
        if head.take("B"):
            for _ in range(head.take("I")):
                head.take("I")
        if code not in TYPES:
            raise UnsupportedError(f"{path}: the array {name} has the type {code}, which is no type of numbers")
        if name in found:
            raise CorruptError(f"{path} describes the array {name} twice")
        found[name] = length, np.dtype(TYPES[code])
    return found


def _array(folder: str, name: str, length: int, dtype: np.dtype[Any]) -> Stored:
    path = os.path.join(folder, FILES[name])
    try:
        sizes, times = stored.facts_of([path])
    except FileNotFoundError as e:
        raise CorruptError(f"{folder} has no {FILES[name]}, which its header describes") from e
    if int(sizes[0]) != length * dtype.itemsize:
        raise CorruptError(
            f"{path} has {int(sizes[0])} bytes, and its header says {length} values of {dtype.itemsize}: it was cut, "
            "or rewritten as another type without its header"
        )
    return Stored(name, dtype, (length,), (path,), sizes=sizes, times=times)


def _tables(folder: str, kind: str) -> tuple[list[int], list[Any]]:
    """Where the blocks of a feature index end, and the table of each, pyarrow's."""
    base = os.path.join(folder, f"{kind}_features")
    if not os.path.isdir(base):
        return [], []
    pa, pq = stored.package("pyarrow", base), stored.package("pyarrow.parquet", base)
    ends, tables = _ends(os.path.join(base, "cumulative_sum_index.npy")), []
    for i in range(len(ends)):
        # numbers have as many digits as the last one
        name = f"dataframe_{i:0{len(str(len(ends)))}d}.parquet"
        path = next(
            (p for p in (os.path.join(base, name), os.path.join(base, f"dataframe_{i}.parquet")) if os.path.exists(p)),
            None,
        )
        if path is None:
            raise CorruptError(f"{base} has no {name}: it says that there are {len(ends)} blocks")
        try:
            table = pq.read_table(path)
            table.validate(full=True)  # texts too
            tables.append(table)
        except (pa.ArrowException, ValueError, OSError) as e:
            raise CorruptError(f"{path} is damaged: {e}") from e
    return ends, tables


def _ends(path: str) -> list[int]:
    try:
        found = np.load(path, allow_pickle=False)
    except (ValueError, EOFError, OSError, MemoryError, zipfile.BadZipFile) as e:
        raise CorruptError(f"{path} is damaged: {e}") from e
    if not isinstance(found, np.ndarray) or found.ndim != 1 or found.dtype.kind not in "iu":
        raise CorruptError(f"{path} is no list of whole numbers")
    return [int(end) for end in found[1:]]


def read(folder: str, wanted: Callable[[str], bool]) -> list[Part]:
    """A part for each block of rows with the same genes."""
    path = os.path.join(folder, "header.sch")
    try:
        if os.path.getsize(path) > _HEADER:
            raise CorruptError(f"{path} is larger than any header of SCDL")
        arrays = arrays_of(path, Path(path).read_bytes())
    except FileNotFoundError as e:
        raise FormatError(f"{folder} has no header.sch: it is no directory of SCDL of version 0.1") from e
    if lost := [name for name in FILES if name not in arrays]:
        raise CorruptError(f"{path} describes no array {lost[0]}")
    if wrong := [name for name in ("ROWPTR", "COLPTR") if arrays[name][1].kind != "u"]:
        raise CorruptError(f"{path}: the array {wrong[0]} is of {arrays[wrong[0]][1]}, which are no places")
    described = {name: _array(folder, name, *arrays[name]) for name in FILES}
    pointers = np.fromfile(described["ROWPTR"].files[0], described["ROWPTR"].dtype).astype(np.int64)
    ends, genes = _tables(folder, "var")
    count = len(pointers) - 1
    if count < 0 or not ends or ends[-1] != count or sorted(ends) != ends:
        raise CorruptError(f"{folder} has {max(count, 0)} rows, and its blocks of genes end at {ends}")
    known, about = _tables(folder, "obs")
    parts, begin = [], 0
    for end, table in zip(ends, genes, strict=True):
        part = Part(folder, end - begin)
        if not table.num_rows:
            raise CorruptError(f"{folder}: rows {begin} to {end} have no genes")
        var = {c: np.asarray(table.column(c).to_pylist(), object) for c in table.column_names}
        names = next((c for c in ("var_feature_id", "feature_id", "index") if c in var), None)
        part.genes = _texts(var[names] if names else range(table.num_rows), f"{folder}, {names}")
        part.var = {field_name(c): values for c, values in var.items() if c != names}
        if wanted("X"):
            part.fields["X"] = Rows(described["DATA"], described["COLPTR"], pointers[begin : end + 1], table.num_rows)
        part.columns = _columns(about, known, begin, end, folder, wanted)
        parts.append(part)
        begin = end
    return parts


def _columns(
    blocks: list[Any], ends: list[int], begin: int, end: int, folder: str, wanted: Callable[[str], bool]
) -> dict[str, Column]:
    """Of rows `begin` to `end`: the columns that all blocks of obs have."""
    found: dict[str, Column] = {}
    names = [n for n in (blocks[0].column_names if blocks else ()) if all(n in b.column_names for b in blocks)]
    if not ends or ends[-1] < end:
        return found
    for name in names:
        as_field = "name" if name == "obs_feature_id" else f"obs.{field_name(name)}"
        if not any(wanted(f) for f in (as_field, f"{as_field}.valid")) and as_field != "name":
            continue
        chunks = [chunk for b in blocks for chunk in b.column(name).chunks if len(chunk)]
        if not chunks:
            continue
        parts = [values_of(chunk) for chunk in chunks]
        numbers = as_field != "name" and all(p is not None for p in parts)
        values = np.concatenate(
            [p if p is not None and numbers else _objects(c) for p, c in zip(parts, chunks, strict=True)]
        )
        valid = np.concatenate([c.is_valid().to_numpy(zero_copy_only=False) for c in chunks])[begin:end]
        if len(valid) != end - begin:
            raise CorruptError(f"{folder}: obs has {len(valid)} values of {name} for {end - begin} rows")
        values = values[begin:end]
        column = Column(values if numbers else Texts.of(_texts(values, f"{folder}, {name}")))
        column.valid = None if valid.all() or as_field == "name" else valid
        found[as_field] = column
    return found


def _texts(values: Any, what: str) -> Array:
    """Strings of any objects, such as times; of those that are missing empty ones."""
    return texts(["" if v is None else v if isinstance(v, bytes) else str(v) for v in values], what)


def values_of(chunk: Any) -> Array | None:
    """Numbers of a column of pyarrow, 0 where none is; None: they are no numbers."""
    import pyarrow.types as kinds

    kind = chunk.type
    if not (kinds.is_integer(kind) or kinds.is_floating(kind) or kinds.is_boolean(kind)):
        return None
    found: Array = (chunk.fill_null(False if kinds.is_boolean(kind) else 0) if chunk.null_count else chunk).to_numpy(
        zero_copy_only=False
    )
    return found


def _objects(chunk: Any) -> Array:
    made = np.empty(len(chunk), object)
    made[:] = chunk.to_pylist()
    return made
