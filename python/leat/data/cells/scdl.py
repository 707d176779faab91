"""SCDL, the directories of BioNeMo's single-cell data loader, header version 0.1: read in place, and written.

    header.sch      which arrays there are, their types and lengths; numbers in network order
    data.npy        values; row_ptr.npy: the first value of each row; col_ptr.npy: columns. Raw arrays, without a header
    var_features/   a table of genes for each block of rows with the same genes, and where these blocks end
    obs_features/   likewise columns about cells

Column numbers count within a row's block of genes. Only the header says the types of the arrays. Labels may be pickled
there, and are not read.
"""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ... import check
from ...errors import CorruptError, FormatError, InvalidError, UnsupportedError
from . import stored
from .anndata import Column, Part, texts
from .stored import Array, Rows, Stored, Texts, field_name

if TYPE_CHECKING:
    from ..dataset import Dataset

_MAGIC, _NETWORK, _MEMMAP = b"SCDL", 1, 1
_TYPES = {1: "u1", 2: "u2", 3: "u4", 4: "u8", 5: "f2", 6: "f4", 7: "f8"}
_TEXT = 8
_FILES = {"DATA": "data.npy", "ROWPTR": "row_ptr.npy", "COLPTR": "col_ptr.npy"}
_WRITTEN = "0.1.3"  # the release of bionemo-scdl whose directories these are


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
    if raw[:4] != _MAGIC:
        raise FormatError(f"{path} is no header of SCDL: it does not begin with SCDL")
    head.at = 4
    version = tuple(head.take("B") for _ in range(3))
    if version[:2] != (0, 1) or head.take("B") != _NETWORK or head.take("I") != _MEMMAP:
        raise UnsupportedError(f"{path} is a header of SCDL of version {'.'.join(map(str, version))}, not 0.1")
    found: dict[str, tuple[int, np.dtype[Any]]] = {}
    for _ in range(head.take("I")):
        name, length, code = head.text(), head.take("Q"), head.take("I")
        if head.take("B"):
            for _ in range(head.take("I")):
                head.take("I")
        if code not in _TYPES:
            raise UnsupportedError(f"{path}: the array {name} has the type {code}, which is no type of numbers")
        found[name] = length, np.dtype(_TYPES[code])
    return found


def _array(folder: str, name: str, length: int, dtype: np.dtype[Any]) -> Stored:
    path = os.path.join(folder, _FILES[name])
    sizes, times = stored.facts_of([path])
    if int(sizes[0]) != length * dtype.itemsize:
        raise CorruptError(
            f"{path} has {int(sizes[0])} bytes, and its header says {length} values of {dtype.itemsize}: it was cut, "
            "or rewritten as another type without its header"
        )
    return Stored(name, dtype, (length,), (path,), sizes=sizes, times=times)


def _tables(folder: str, kind: str) -> tuple[list[int], list[dict[str, Array]]]:
    """Where the blocks of a feature index end, and the columns of each."""
    base = os.path.join(folder, f"{kind}_features")
    if not os.path.isdir(base):
        return [], []
    pq = stored.package("pyarrow.parquet", base)
    ends = np.load(os.path.join(base, "cumulative_sum_index.npy"), allow_pickle=False)[1:]
    tables = []
    for i in range(len(ends)):
        # numbers have as many digits as the last one
        name = f"dataframe_{i:0{len(str(len(ends)))}d}.parquet"
        path = next(
            (p for p in (os.path.join(base, name), os.path.join(base, f"dataframe_{i}.parquet")) if os.path.exists(p)),
            None,
        )
        if path is None:
            raise CorruptError(f"{base} has no {name}: it says that there are {len(ends)} blocks")
        table = pq.read_table(path)
        tables.append({c: np.asarray(table.column(c).to_pylist(), object) for c in table.column_names})
    return [int(e) for e in ends], tables


def read(folder: str, wanted: Callable[[str], bool]) -> list[Part]:
    """A part for each block of rows with the same genes."""
    path = os.path.join(folder, "header.sch")
    try:
        arrays = arrays_of(path, Path(path).read_bytes())
    except FileNotFoundError as e:
        raise FormatError(f"{folder} has no header.sch: it is no directory of SCDL of version 0.1") from e
    if lost := [name for name in _FILES if name not in arrays]:
        raise CorruptError(f"{path} describes no array {lost[0]}")
    described = {name: _array(folder, name, *arrays[name]) for name in _FILES}
    pointers = np.fromfile(described["ROWPTR"].files[0], described["ROWPTR"].dtype).astype(np.int64)
    ends, genes = _tables(folder, "var")
    count = len(pointers) - 1
    if count < 0 or not ends or ends[-1] != count or sorted(ends) != ends:
        raise CorruptError(f"{folder} has {max(count, 0)} rows, and its blocks of genes end at {ends}")
    known, about = _tables(folder, "obs")
    parts, begin = [], 0
    for end, var in zip(ends, genes, strict=True):
        part = Part(folder, end - begin)
        names = next((c for c in ("var_feature_id", "feature_id", "index") if c in var), None)
        n = len(next(iter(var.values()), ()))
        part.genes = texts(var[names]) if names else texts(range(n))
        part.var = {field_name(c): values for c, values in var.items() if c != names}
        if wanted("X"):
            part.fields["X"] = Rows(described["DATA"], described["COLPTR"], pointers[begin : end + 1], n)
        part.columns = _columns(about, known, begin, end, folder, wanted)
        parts.append(part)
        begin = end
    return parts


def _columns(
    blocks: list[dict[str, Array]], ends: list[int], begin: int, end: int, folder: str, wanted: Callable[[str], bool]
) -> dict[str, Column]:
    """Of rows `begin` to `end`: the columns that all blocks of obs have."""
    found: dict[str, Column] = {}
    names = [n for n in (blocks[0] if blocks else ()) if all(n in b for b in blocks)]
    if not ends or ends[-1] < end:
        return found
    for name in names:
        values = np.concatenate([b[name] for b in blocks])[begin:end]
        if len(values) != end - begin:
            raise CorruptError(f"{folder}: obs has {len(values)} values of {name} for {end - begin} rows")
        as_field = "name" if name == "obs_feature_id" else f"obs.{field_name(name)}"
        if not wanted(as_field) and as_field != "name":
            continue
        valid = np.array([v is not None for v in values], bool)
        numbers = all(isinstance(v, (bool, int, float)) for v in values[valid])
        filled = np.array([v if v is not None else 0 if numbers else "" for v in values], None if numbers else object)
        column = Column(filled if numbers else Texts.of(texts(filled)))
        column.valid = None if valid.all() else valid
        found[as_field] = column
    return found


# --- writing ----------------------------------------------------------------------------------------------------------
def _smallest(most: int) -> np.dtype[Any]:
    return next(np.dtype(t) for t in ("u1", "u2", "u4", "u8") if most <= np.iinfo(t).max)


def write_scdl(ds: Dataset, path: str | os.PathLike[str], *, field: str = "X") -> None:
    """Writes sparse rows as a directory of BioNeMo's SCDL (header version 0.1), with the genes and what else is known.

    Args:
        ds: a data set with a field of sparse rows. Other fields that are numbers or texts of one value become columns
            of obs; ``name`` becomes the name of the cell.
        path: the directory, which is not there yet.
        field: that of the rows.

    Raises:
        FileExistsError: `path` is there. TypeError: `field` has no sparse rows, or their values are bool. ImportError:
            pyarrow is not here (:class:`leat.UnsupportedError`).

    >>> leat.write_scdl(leat.open("pbmc.h5ad"), "pbmc.scdl")  # doctest: +SKIP
    """
    from ..dataset import Dataset

    if not isinstance(ds, Dataset):
        raise TypeError(f"write_scdl takes a data set, not {type(ds).__name__}")
    field = check.name("field", field) if hasattr(check, "name") else field
    if field not in ds.schema or ds.schema[field].kind != "sparse":
        raise TypeError(f"write_scdl takes a field of sparse rows, and {field!r} is none of them")
    kind = ds.schema[field]
    dtype = np.dtype(kind.dtype)
    if dtype.kind == "i":  # SCDL has unsigned integers only
        dtype = np.dtype(f"u{dtype.itemsize}")
    code = next((c for c, t in _TYPES.items() if np.dtype(t) == dtype), None)
    if code is None:
        raise TypeError(f"SCDL has no values of {kind.dtype}")
    pa, pq = stored.package("pyarrow", "SCDL"), stored.package("pyarrow.parquet", "SCDL")
    n, count = int(kind.shape[0] or 0), len(ds)
    folder = Path(path)
    partial = folder.with_name(folder.name + ".partial")
    if folder.exists():
        raise FileExistsError(f"{folder} is there already")
    if partial.exists():
        import shutil

        shutil.rmtree(partial)
    partial.mkdir(parents=True)
    lengths = ds.column(f"{field}.length") if count else np.zeros(0, np.int64)
    pointers = np.zeros(count + 1, np.int64)
    np.cumsum(lengths, out=pointers[1:])
    column_type, pointer_type = _smallest(max(n - 1, 0)), _smallest(int(pointers[-1]))
    with open(partial / "data.npy", "wb") as data, open(partial / "col_ptr.npy", "wb") as columns:
        for i in range(count):
            row = ds[i][field] if len(ds.schema) == 1 else _row(ds, i, field)
            if kind.dtype.startswith("int") and len(row.values) and row.values.min() < 0:
                raise InvalidError(f"sample {i} has a value below 0, and SCDL has no signed integers")
            np.asarray(row.values).astype(dtype).tofile(data)
            np.asarray(row.columns).astype(column_type).tofile(columns)
    pointers.astype(pointer_type).tofile(partial / "row_ptr.npy")
    (partial / "metadata.json").write_text(json.dumps({"num_rows": count}))
    (partial / "version.json").write_text(json.dumps(_WRITTEN))
    try:
        genes = ds.genes
    except AttributeError:
        genes = [str(i) for i in range(n)]
    cells = ds._known_cells()
    var = {"var_feature_id": genes} | ({} if cells is None else {k: list(map(str, v)) for k, v in cells.var.items()})
    obs: dict[str, Any] = {}
    for name, found in ds.schema.items():
        if name != field and (found.kind == "str" or (found.kind == "array" and found.shape == ())):
            obs["obs_feature_id" if name == "name" else name.removeprefix("obs.")] = ds.column(name).tolist()
    obs.setdefault("obs_feature_id", [str(i) for i in range(count)])
    for kind_of, table in (("var", var), ("obs", obs)):
        base = partial / f"{kind_of}_features"
        base.mkdir()
        pq.write_table(pa.table(table), base / "dataframe_0.parquet")
        np.save(base / "cumulative_sum_index.npy", np.array([-1, count], np.int64))
        np.save(base / "labels.npy", np.array([str(folder)]))
        np.save(base / "version.npy", np.array(_WRITTEN))
    codes = {np.dtype(t): c for c, t in _TYPES.items()}
    arrays = [("DATA", int(pointers[-1]), code), ("ROWPTR", count + 1, codes[pointer_type])]
    arrays.append(("COLPTR", int(pointers[-1]), codes[column_type]))
    (partial / "header.sch").write_bytes(_header(arrays, {"var": len(genes), "obs": count}))
    partial.rename(folder)


def _row(ds: Dataset, i: int, field: str) -> Any:
    from .. import schema as _schema
    from .. import sparse

    kind = ds.schema[field]
    return sparse.unpacked(np.asarray(ds.stored(i, field)), _schema.held(kind.dtype), kind.shape[0] or 0)


def _header(arrays: list[tuple[str, int, int]], features: dict[str, int]) -> bytes:
    def text(value: str) -> bytes:
        return struct.pack("!I", len(value.encode())) + value.encode()

    made = _MAGIC + struct.pack("!BBBBII", 0, 1, 0, _NETWORK, _MEMMAP, len(arrays))
    for name, length, code in arrays:
        made += text(name) + struct.pack("!QIB", length, code, 0)
    made += struct.pack("!I", len(features))
    for kind, count in features.items():
        names = ("cumulative_sum_index.npy", "labels.npy", "version.npy", "dataframe_0.parquet")
        made += text(f"{kind}_features") + struct.pack("!QII", count, _TEXT, len(names))
        made += b"".join(text(f"{kind}_features/{name}") for name in names) + b"\0"
    return made
