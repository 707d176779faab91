"""Writes SCDL (scdl.py): sparse rows of any data set, a block at a time, with genes and what is known of cells."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import struct
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ...errors import InvalidError
from ...files import writing
from ..column import sparse_batches
from ..dataset import Dataset
from . import stored
from .scdl import FILES, MAGIC, MEMMAP, NETWORK, TYPES
from .stored import Array

if TYPE_CHECKING:
    from ..schema import Field

_CODES = {np.dtype(t): code for code, t in TYPES.items()}
_TEXT = 8
_RELEASE = "0.1.3"  # of bionemo-scdl, whose directories these are
_ROWS = 256  # that are read at a time


def write_scdl(dataset: Dataset, path: str | os.PathLike[str], field: str = "X") -> None:
    """Writes sparse rows as a directory of BioNeMo's SCDL (header version 0.1).

    It is written beside its place, as ``PATH.*.partial``, and renamed at the end; rows are read and written a block at
    a time. ``leat.open(path)`` reads the same rows. SCDL has unsigned integers and floats: signed ones are written as
    unsigned ones of the same size. Genes and columns about them are those of the data set; without genes their numbers.

    Args:
        dataset: with a field of sparse rows. Its other fields that are one number or text become columns of obs,
            ``name`` the names of cells; ``obs.NAME.valid`` says which values are missing, and ``obs.NAME.code`` is left
            out, since the texts are there.
        path: the directory, which does not exist yet.
        field: that of the rows, such as ``"raw.X"``.

    Raises:
        KeyError: there is no such field.
        TypeError: the field has no sparse rows, or SCDL has no type for their values.
        InvalidError: a value is below 0 and a whole number; or two fields would become one column.
        FileExistsError: `path` exists.
        UnsupportedError: pyarrow is not installed.

    >>> rows = leat.Sparse(np.array([1, 5]), np.array([2, 0], np.int32), np.array([0, 1, 2]), 3)
    >>> leat.write_scdl(leat.from_arrays(X=rows, donor=np.array([3, 7])), tmp / "cells.scdl")
    >>> leat.open(tmp / "cells.scdl")[1]["X"].to_dense().tolist()
    [[5, 0, 0]]
    """
    if not isinstance(dataset, Dataset):
        raise TypeError(f"write_scdl takes a data set, not {type(dataset).__name__}")
    dataset._find(field)
    kind = dataset.schema[field]
    if kind.kind != "sparse":
        raise TypeError(f"field {field!r} is {kind}: SCDL has sparse rows")
    dtype = np.dtype(kind.dtype)
    dtype = np.dtype(f"u{dtype.itemsize}") if dtype.kind == "i" else dtype
    if dtype not in _CODES:
        raise TypeError(f"field {field!r} is {kind}: SCDL has no type for its values")
    place = Path(path)
    if place.exists():
        raise FileExistsError(f"{place} exists: write_scdl does not replace it")
    stored.package("pyarrow.parquet", str(place))
    var, obs = _var(dataset, field, kind.shape[0] or 0), _obs(dataset, field)
    partial = place.with_name(f"{place.name}.{secrets.token_hex(6)}.partial")
    with writing(place):
        partial.mkdir(parents=True)
        try:
            arrays = _write_rows(dataset, field, dtype, partial)
            for name, table in (("var", var), ("obs", obs)):
                _write_table(partial / f"{name}_features", place.name, table, len(dataset))
            (partial / "metadata.json").write_text(json.dumps({"num_rows": len(dataset)}))
            (partial / "version.json").write_text(json.dumps(_RELEASE))
            (partial / "header.sch").write_bytes(_header(arrays, len(dataset)))
            partial.rename(place)
        except BaseException:
            shutil.rmtree(partial, ignore_errors=True)
            raise


# --- arrays -----------------------------------------------------------------------------------------------------------
def _smallest(most: int) -> np.dtype[Any]:
    return next(np.dtype(t) for t in ("u1", "u2", "u4", "u8") if most <= np.iinfo(t).max)


def _write_rows(ds: Dataset, field: str, dtype: np.dtype[Any], folder: Path) -> list[tuple[str, int, np.dtype[Any]]]:
    """Writes the three arrays; name, length and type of each."""
    of_columns = _smallest(max((ds.schema[field].shape[0] or 0) - 1, 0))
    pointers = np.zeros(len(ds) + 1, np.uint64)
    row, at = 0, 0
    with open(folder / FILES["DATA"], "wb") as data, open(folder / FILES["COLPTR"], "wb") as columns:
        for rows in sparse_batches(ds, field, _ROWS):
            if rows.values.dtype.kind == "i" and rows.values.size and int(rows.values.min()) < 0:
                wrong = int(np.searchsorted(rows.offsets, int(np.argmax(rows.values < 0)), "right")) - 1
                raise InvalidError(f"sample {row + wrong} has a value below 0, and SCDL has no signed integers")
            data.write(np.ascontiguousarray(rows.values, dtype).data)
            columns.write(np.ascontiguousarray(rows.columns, of_columns).data)
            pointers[row + 1 : row + len(rows) + 1] = rows.offsets[1:] + at
            row, at = row + len(rows), at + int(rows.offsets[-1])
    of_pointers = _smallest(at)
    (folder / FILES["ROWPTR"]).write_bytes(pointers.astype(of_pointers).data)
    return [("DATA", at, dtype), ("ROWPTR", len(pointers), of_pointers), ("COLPTR", at, of_columns)]


# --- tables -----------------------------------------------------------------------------------------------------------
def _var(ds: Dataset, field: str, n: int) -> dict[str, Any]:
    """The names of the genes, and columns about them."""
    cells = ds._known_cells()
    names = getattr(ds, "genes", None)
    about = dict(cells.var) if cells is not None else {}
    if field == "raw.X":
        names, about = None if cells is None or cells.raw_genes is None else cells.raw_genes.tolist(), {}
    if names is None or len(names) != n:
        names, about = [str(i) for i in range(n)], {}
    return _named([("var_feature_id", names), *about.items()])


def _obs(ds: Dataset, field: str) -> dict[str, Any]:
    """The names of the cells, and columns about them, missing values as None."""
    found: list[tuple[str, Any]] = []
    for name, kind in ds.schema.items():
        base = name.rpartition(".")[0]
        if name == field or not _is_column(kind) or (name.endswith((".code", ".valid")) and base in ds.schema):
            continue
        values: Any = ds.column(name)
        if f"{name}.valid" in ds.schema:
            valid = np.asarray(ds.column(f"{name}.valid"), bool)
            values = np.ma.MaskedArray(values, ~valid) if values.dtype.kind != "O" else np.where(valid, values, None)
        found.append(("obs_feature_id" if name == "name" else name.removeprefix("obs."), values))
    if all(name != "obs_feature_id" for name, _ in found):
        found.insert(0, ("obs_feature_id", [str(i) for i in range(len(ds))]))
    return _named(found)


def _is_column(kind: Field) -> bool:
    return kind.kind == "str" or (kind.kind == "array" and kind.shape == ())


def _named(columns: list[tuple[str, Any]]) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for name, values in columns:
        if name in made:
            raise InvalidError(f"two fields would become the column {name!r} of SCDL")
        made[name] = values
    return made


def _of_arrow(pa: Any, values: Any) -> Any:
    """An array of pyarrow: of numbers by their type, else of texts."""
    if isinstance(values, np.ndarray) and values.dtype.kind in "biuf":
        mask = np.ma.getmaskarray(values) if isinstance(values, np.ma.MaskedArray) else None
        plain: Array = np.ma.getdata(values)
        return pa.array(plain.astype(np.float32) if plain.dtype == np.float16 else plain, mask=mask)
    listed = list(values)
    try:
        return pa.array(listed) if any(v is not None for v in listed) else pa.array(listed, pa.string())
    except (ValueError, TypeError, OverflowError):  # of several types
        return pa.array([None if v is None else str(v) for v in listed], pa.string())


def _write_table(base: Path, label: str, columns: dict[str, Any], count: int) -> None:
    """A feature index of one block."""
    pa, pq = stored.package("pyarrow", str(base)), stored.package("pyarrow.parquet", str(base))
    base.mkdir()
    pq.write_table(pa.table({name: _of_arrow(pa, v) for name, v in columns.items()}), base / "dataframe_0.parquet")
    np.save(base / "cumulative_sum_index.npy", np.array([-1, count], np.int64))
    np.save(base / "labels.npy", np.array([label]))
    np.save(base / "version.npy", np.array(_RELEASE))


def _header(arrays: list[tuple[str, int, np.dtype[Any]]], rows: int) -> bytes:
    def text(value: str) -> bytes:
        return struct.pack("!I", len(value)) + value.encode()

    made = MAGIC + struct.pack("!BBBBII", 0, 1, 0, NETWORK, MEMMAP, len(arrays))
    for name, length, dtype in arrays:
        made += text(name) + struct.pack("!QIB", length, _CODES[dtype], 0)
    made += struct.pack("!I", 2)
    for kind in ("var", "obs"):
        names = ("cumulative_sum_index.npy", "labels.npy", "version.npy", "dataframe_0.parquet")
        made += text(f"{kind}_features") + struct.pack("!QII", rows, _TEXT, len(names))
        made += b"".join(text(f"{kind}_features/{name}") for name in names) + b"\0"
    return made
