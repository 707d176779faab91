"""Files of single cells: those of tests/data/cells with what they hold, and h5ad of any size by h5py alone."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

DATA = Path(__file__).resolve().parent.parent / "data" / "cells"


@cache
def all_expected() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((DATA / "expected.json").read_text(encoding="utf-8"))
    return found


def names(*endings: str) -> list[str]:
    """The files and folders there are, or those with these endings."""
    return [name for name in all_expected()["files"] if not endings or name.endswith(endings)]


def path(name: str) -> Path:
    return DATA / name


def expected(name: str) -> dict[str, np.ndarray]:
    """What a file holds: its matrices, dense (`X`, `raw/X`, `layers/counts`, `obsm/X_pca`), the names (`obs_names`,
    `var_names`, `raw/var_names`) and columns (`obs/NAME`, `var/NAME`; of categories the texts, and
    `obs/NAME/categories`). Where values are missing it is a masked array. `GENOME/X` in 10x of version 2, `0/X` and
    `1/X` for the two parts of scdl-two. Of files of plain arrays: by path, "" if the store is one array."""
    found = all_expected()
    out = {}
    for part, number in found["files"][name].items():
        array = found["arrays"][number]
        values, text = array["values"], array["dtype"] == "str"
        missing = [value is None for value in values]
        filler = "" if text else 0
        values = [filler if lost else value for value, lost in zip(values, missing)]
        data = np.array(values, dtype=None if text else array["dtype"]).reshape(array["shape"])
        out[part] = np.ma.MaskedArray(data, np.reshape(missing, array["shape"])) if any(missing) else data
    return out


def write_h5ad(
    path: Path,
    x: Any,
    *,
    obs: dict[str, Any] | None = None,
    var: dict[str, Any] | None = None,
    layers: dict[str, Any] | None = None,
    obs_names: Any = None,
    var_names: Any = None,
    index_dtype: Any = None,
    indptr_dtype: Any = None,
    libver: str | None = None,
    **storage: Any,
) -> None:
    """An h5ad as anndata has written them since 0.8.

    x, layers: SciPy's CSR or CSC, or a dense array. Columns of obs and var are arrays, masked arrays (nullable), or a
    pair (codes, categories), with -1 for a missing value. storage goes to create_dataset for the arrays of x and of
    layers: chunks (longer than an array, if need be), compression, shuffle, or one of hdf5plugin's.
    """
    import h5py

    def encoded(node: Any, kind: str, version: str, **more: Any) -> Any:
        node.attrs.update({"encoding-type": kind, "encoding-version": version, **more})
        return node

    def array(place: Any, name: str, values: Any, **how: Any) -> None:
        values = np.asarray(values)
        text = values.dtype.kind in "UO"
        if text:
            values = values.astype(h5py.string_dtype())
        chunks = how.get("chunks")
        if isinstance(chunks, tuple) and any(chunk > n for chunk, n in zip(chunks, values.shape)):
            how["maxshape"] = (None,) * values.ndim  # HDF5 allows chunks beyond the end in data sets that can grow only
        encoded(place.create_dataset(name, data=values, **how), "string-array" if text else "array", "0.2.0")

    def matrix(place: Any, name: str, values: Any) -> None:
        if isinstance(values, np.ndarray):
            array(place, name, values, **storage)
            return
        group = encoded(place.create_group(name), f"{values.format}_matrix", "0.1.0", shape=values.shape)
        parts = {"data": None, "indices": index_dtype, "indptr": indptr_dtype}
        for part, dtype in parts.items():
            numbers = getattr(values, part)
            array(group, part, numbers if dtype is None else numbers.astype(dtype), **storage)

    def frame(name: str, index: Any, columns: dict[str, Any]) -> None:
        group = encoded(file.create_group(name), "dataframe", "0.2.0", _index="_index")
        group.attrs.create("column-order", list(columns) or [], dtype=h5py.string_dtype(), shape=(len(columns),))
        array(group, "_index", index)
        for column, values in columns.items():
            if isinstance(values, tuple):
                place = encoded(group.create_group(column), "categorical", "0.2.0", ordered=False)
                array(place, "codes", np.asarray(values[0], "i1" if len(values[1]) < 128 else "i4"))
                array(place, "categories", values[1])
            elif isinstance(values, np.ma.MaskedArray):
                kind = {"b": "boolean", "U": "string-array"}.get(values.dtype.kind, "integer")
                place = encoded(group.create_group(column), f"nullable-{kind}", "0.1.0")
                array(place, "values", values.data)
                array(place, "mask", np.ma.getmaskarray(values))
            else:
                array(group, column, values)

    def counted(stem: str, n: int) -> np.ndarray:
        return np.array([f"{stem} {i}" for i in range(n)])

    with h5py.File(path, "w", libver=libver) as file:
        encoded(file, "anndata", "0.1.0")
        matrix(file, "X", x)
        encoded(file.create_group("layers"), "dict", "0.1.0")
        for name, values in (layers or {}).items():
            matrix(file["layers"], name, values)
        frame("obs", counted("cell", x.shape[0]) if obs_names is None else obs_names, obs or {})
        frame("var", counted("gene", x.shape[1]) if var_names is None else var_names, var or {})
