"""Which files are of cells, by their names; of folders, by what lies in them."""

from __future__ import annotations

import os

from ..paths import ends_so
from .remote import Remote, is_remote


def kind_of(path: str) -> str:
    """``"h5ad"``, ``"10x"``, ``"scdl"``, ``"zarr"``, ``"hdf5"``, or nothing."""
    if ends_so(path, (".h5ad",)):
        return "h5ad"
    if ends_so(path, (".zarr", ".zarr.zip")):
        return "zarr"
    if os.path.isdir(path):
        return _of_folder(path)
    if ends_so(path, (".h5", ".hdf5", ".he5")):
        return _of_hdf5(path)
    return ""


def _of_folder(path: str) -> str:
    def has(*names: str) -> bool:
        return any(os.path.exists(os.path.join(path, name)) for name in names)

    if has("matrix.mtx", "matrix.mtx.gz"):
        return "10x"
    if has("zarr.json", ".zgroup", ".zarray"):
        return "zarr"
    if has("header.sch") and has("data.npy"):
        return "scdl"
    return ""


def _of_hdf5(path: str) -> str:
    """10x Genomics has matrices of genes by cells, as CSC."""
    try:
        import h5py
    except ImportError:
        return "hdf5"
    try:
        with h5py.File(Remote(path) if is_remote(path) else path, "r") as file:
            groups = [g for g in file.values() if isinstance(g, h5py.Group)]
            if any(all(n in g for n in ("data", "indices", "indptr", "shape", "barcodes")) for g in groups):
                return "10x"
            return "h5ad" if "obs" in file and "var" in file else "hdf5"
    except OSError:
        return "hdf5"
