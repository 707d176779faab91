"""The files that anndata writes, and what bionemo-scdl makes of some: h5ad, zarr, SCDL."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import numpy as np
from make_contents import (
    BARCODES,
    NEWER,
    UNIQUE,
    close_store,
    counts,
    makes,
    open_store,
    small,
    some,
    whole,
    whole_of_old,
)


def column(values, categories, ordered):
    import pandas as pd

    data, missing = np.ma.getdata(values), np.ma.getmaskarray(values)
    if categories is not None:
        where = {category: i for i, category in enumerate(categories.tolist())}
        codes = [-1 if lost else where[value] for value, lost in zip(data.tolist(), missing)]
        return pd.Categorical.from_codes(codes, categories.tolist(), ordered=ordered)
    if not isinstance(values, np.ma.MaskedArray):
        return data.astype(object) if data.dtype.kind == "U" else data
    if data.dtype.kind == "U":
        texts = [None if lost else value for value, lost in zip(data.tolist(), missing)]
        return pd.array(texts, dtype="string")
    return (pd.arrays.BooleanArray if data.dtype == bool else pd.arrays.IntegerArray)(data.copy(), missing)


def frame(holds, part, names):
    """obs, var or raw/var."""
    import pandas as pd

    out = pd.DataFrame(index=pd.Index(holds[names].astype(object)))
    for key, values in holds.items():
        stem, _, name = key.rpartition("/")
        if stem == part:
            out[name] = column(values, holds.get(key + "/categories"), name == "stage")
    return out


def annotated(holds):
    """An AnnData with these values."""
    import anndata
    import scipy.sparse as sp

    if hasattr(anndata, "settings"):
        anndata.settings.allow_write_nullable_strings = True
    made = anndata.AnnData(
        sp.csr_matrix(holds["X"]), obs=frame(holds, "obs", "obs_names"), var=frame(holds, "var", "var_names")
    )
    if "raw/X" in holds:
        raw_var = frame(holds, "raw/var", "raw/var_names")
        made.raw = anndata.AnnData(sp.csr_matrix(holds["raw/X"]), obs=made.obs[[]], var=raw_var)
        made.obsm["X_pca"] = holds["obsm/X_pca"]
    if "layers/counts" in holds:
        made.layers["counts"] = sp.csr_matrix(holds["layers/counts"])
    if "obsp/distances" in holds:
        made.obsp["distances"] = sp.csr_matrix(holds["obsp/distances"])
    return made


def written(name, venv, holds):
    """As the version writes it of itself: in HDF5's structures of old, not compressed."""
    makes(name, venv, holds)(lambda path: annotated(holds()).write(path))


written("anndata-0.6.22.h5ad", "a06", whole_of_old)
written("anndata-0.7.8.h5ad", "a07", whole_of_old)


def written_small(name, venv, holds, x=None, **storage):
    """In HDF5's newer structures, which take half the space. x: the name of SciPy's class, or none if dense."""

    @makes(name, venv, holds)
    def make(path):
        import h5py
        import scipy.sparse as sp

        try:
            from anndata.io import write_elem  # 0.11 and later
        except ImportError:
            from anndata.experimental import write_elem  # 0.8 to 0.10
        with h5py.File(path, "w", libver=NEWER) as file:
            write_elem(file, "/", annotated(holds()))
            if storage:
                values = holds()["X"]
                write_elem(file, "X", getattr(sp, x)(values) if x else values, dataset_kwargs=storage)


written_small("anndata-0.8.0.h5ad", "a08", some)
written_small("anndata-0.10.9.h5ad", "a10", some)
written_small("anndata-0.12.19.h5ad", "today", whole, "csr_matrix", compression="gzip")
written_small("csc.h5ad", "today", small, "csc_matrix", compression="gzip")
written_small("dense.h5ad", "today", small, None, compression="lzf", chunks=(4, 3))


def written_to_zarr(name, zarr_format, holds, **storage):
    @makes(name, "today", holds)
    def make(path):
        import anndata
        import scipy.sparse as sp
        import zarr

        store = open_store(path)
        group = zarr.open_group(store, mode="w", zarr_format=zarr_format)
        anndata.io.write_elem(group, "/", annotated(holds()))
        if storage:
            anndata.io.write_elem(group, "X", sp.csr_matrix(holds()["X"]), dataset_kwargs=storage)
        if name == "cells-v2.zarr":  # write_zarr does it always
            zarr.consolidate_metadata(store, zarr_format=zarr_format)
        close_store(store, path)


written_to_zarr("cells-v2.zarr", 2, some)
written_to_zarr("cells-v3.zarr", 3, some)
written_to_zarr("cells-v3.zarr.zip", 3, small)
written_to_zarr("cells-v3-sharded.zarr", 3, small, chunks=(5,), shards=(20,))


# --- SCDL ------------------------------------------------------------------------------------------------------------


def scdl_parts():
    """Two files with different genes."""
    first = {"X": counts().astype(np.float32), "obs_names": BARCODES, "var_names": UNIQUE}
    second = {
        "X": counts(40, 20, 12).astype(np.float32),
        "obs_names": np.array([f"cell {i}" for i in range(40)]),
        "var_names": np.array([f"gene {i}" for i in range(20)]),
    }
    return first, second


def scdl_two():
    holds = {f"{i}/{key}": values for i, part in enumerate(scdl_parts()) for key, values in part.items()}
    return {key: values.astype(np.uint32) if key.endswith("X") else values for key, values in holds.items()}


@makes("scdl-one", "scdl", small)
def make_scdl_one(path):
    from bionemo.scdl.io.single_cell_memmap_dataset import SingleCellMemMapDataset

    work = path.with_suffix(".work")
    in_folder(work)  # SCDL stores the path that it is given
    annotated(small()).write_h5ad("one.h5ad")
    SingleCellMemMapDataset(str(path), "one.h5ad", use_X_not_raw=True).save()
    out_of_folder(work)


@makes("scdl-two", "scdl", scdl_two)
def make_scdl_two(path):
    """Counts as u32; more than 255 of them, so that row pointers have two bytes."""
    from bionemo.scdl.io.single_cell_collection import SingleCellCollection

    work = path.with_suffix(".work")
    in_folder(work)
    os.mkdir("files")
    for i, part in enumerate(scdl_parts()):
        annotated(part).write_h5ad(Path("files") / f"{i}.h5ad")
    collection = SingleCellCollection("parts")
    collection.load_h5ad_multi("files", max_workers=1, data_dtype="uint32", use_X_not_raw=True)
    collection.flatten(str(path), destroy_on_copy=True)
    out_of_folder(work)


def in_folder(work):
    shutil.rmtree(str(work), ignore_errors=True)
    work.mkdir()
    os.chdir(str(work))


def out_of_folder(work):
    os.chdir(str(work.parent))
    shutil.rmtree(str(work))
