"""Reads the files of a folder with today's packages, and compares every value with expected.json.

    python check.py FOLDER

In the environment "today" of make.py; for scdl-one and scdl-two in "scdl". Files whose packages are missing are named.
"""

from __future__ import annotations

import gzip
import sys
import warnings
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python"))
import cells_support


def dense(matrix):
    return matrix.toarray() if hasattr(matrix, "toarray") else np.asarray(matrix)


def of_column(column):
    """A pandas column as expected.json has it."""
    if isinstance(column.dtype, np.dtype) and column.dtype.kind != "O":
        return column.to_numpy()
    missing = column.isna().to_numpy()
    kind = getattr(column.dtype, "numpy_dtype", np.dtype("U"))
    kind = kind if kind.kind in "bi" else np.dtype("U")
    data = np.array([kind.type() if lost else v for v, lost in zip(column.tolist(), missing)], kind)
    return np.ma.MaskedArray(data, missing) if missing.any() else data


def of_frame(frame, part):
    found = {}
    for name in frame:
        found[f"{part}/{name}"] = of_column(frame[name])
        if hasattr(frame[name], "cat"):
            found[f"{part}/{name}/categories"] = np.array(frame[name].cat.categories, str)
    return found


def of_anndata(a):
    found = {"X": dense(a.X), "obs_names": np.array(a.obs_names, str), "var_names": np.array(a.var_names, str)}
    found.update(of_frame(a.obs, "obs"))
    found.update(of_frame(a.var, "var"))
    for of in ("layers", "obsm", "obsp"):
        found.update((f"{of}/{name}", dense(value)) for name, value in getattr(a, of).items())
    if a.raw is not None:
        found.update({"raw/X": dense(a.raw.X), "raw/var_names": np.array(a.raw.var_names, str)})
        found.update(of_frame(a.raw.var, "raw/var"))
    return found


def of_hdf5(path, names):
    import h5py

    with h5py.File(path) as file:
        found = {name: file[name][()] for name in names}
    return {name: text(values) for name, values in found.items()}


def text(values):
    if isinstance(values, np.ndarray) and values.dtype.kind in "SO":
        return np.array([v.decode() for v in values.ravel()]).reshape(values.shape)
    return np.asarray(values)


def of_zarr(path, names):
    import zarr

    store = zarr.storage.ZipStore(path) if path.suffix == ".zip" else zarr.storage.LocalStore(path, read_only=True)
    root = zarr.open(store, mode="r")
    return {name: root[name][...] if name else root[...] for name in names}


def of_tenx_group(group, prefix=""):
    import scipy.sparse as sp

    genes, cells = group["shape"][...]
    x = sp.csr_matrix((group["data"][...], group["indices"][...], group["indptr"][...]), (cells, genes))
    ours = {"genes": "var/gene_ids", "gene_names": "var_names", "id": "var/gene_ids", "name": "var_names"}
    ours.update({"feature_type": "var/feature_types", "genome": "var/genome", "barcodes": "obs_names"})
    texts = dict(group) | dict(group.get("features", {}))
    found = {ours[name]: text(node[...]) for name, node in texts.items() if name in ours}
    return {prefix + name: values for name, values in {"X": x.toarray(), **found}.items()}


def of_tenx(path):
    import h5py
    import scipy.io

    if path.is_dir():
        files = {file.name.split(".")[0]: file for file in path.iterdir()}
        texts = {name: f.read_bytes() for name, f in files.items()}
        texts = {name: gzip.decompress(t) if t[:2] == b"\x1f\x8b" else t for name, t in texts.items()}
        lines = {name: t.decode().splitlines() for name, t in texts.items()}
        x = scipy.io.mmread(files["matrix"]).toarray().T
        names = ["var/gene_ids", "var_names", "var/feature_types"]
        columns = np.array([line.split("\t") for line in lines.get("features", lines.get("genes"))]).T
        return {"X": x.astype(np.int32), "obs_names": np.array(lines["barcodes"]), **dict(zip(names, columns))}
    with h5py.File(path) as file:
        if "matrix" in file:
            return of_tenx_group(file["matrix"])
        return {key: v for genome, group in file.items() for key, v in of_tenx_group(group, genome + "/").items()}


def of_scdl(path, names):
    """What the package gives: rows, and the names of genes of each block."""
    from bionemo.scdl.io.single_cell_memmap_dataset import SingleCellMemMapDataset

    opened = SingleCellMemMapDataset(str(path))
    expected = cells_support.expected(path.name)
    found, row = dict(expected), 0
    for name in [name for name in names if name.endswith("X")]:
        wanted = expected[name]
        found[name] = np.zeros(wanted.shape, opened.data.dtype)
        for i in range(len(wanted)):
            (values, columns), (genes,), _ = opened.get_row(row, return_var_features=True)
            found[name][i, columns] = values
            found[name.replace("X", "var_names")] = np.array(genes, str)
            row += 1
    assert row == len(opened)
    return found


def differences(name, path):
    wanted = cells_support.expected(name)
    if name.startswith("scdl"):
        found = of_scdl(path, wanted)
    elif name.startswith("10x"):
        found = of_tenx(path)
    elif name.startswith("plain"):
        found = of_hdf5(path, wanted)
    elif name.startswith("array"):
        found = of_zarr(path, wanted)
    else:
        import anndata
        import zarr

        if ".zarr" in name:
            found = of_anndata(anndata.read_zarr(zarr.storage.ZipStore(path) if path.suffix == ".zip" else path))
        else:
            import hdf5plugin  # noqa: F401

            found = of_anndata(anndata.read_h5ad(path))
    yield from (f"{part}: only one has it" for part in sorted(set(wanted) ^ set(found)))
    for part in sorted(set(wanted) & set(found)):
        a, b = wanted[part], found[part]
        same_kind = a.dtype == b.dtype or a.dtype.kind == b.dtype.kind == "U"
        if not same_kind and a.dtype.newbyteorder("=") != b.dtype.newbyteorder("="):
            yield f"{part}: {a.dtype}, {b.dtype}"
        masks = np.ma.getmaskarray(a), np.ma.getmaskarray(b)
        if a.shape != b.shape or not np.array_equal(*masks):
            yield f"{part}: {a.shape}, {b.shape}, or other values are missing"
        elif not np.array_equal(*(np.ma.filled(v, v.dtype.type(0)) for v in (a, b)), equal_nan=a.dtype.kind == "f"):
            yield f"{part}: {a}, {b}"


def main():
    warnings.simplefilter("ignore")
    wrong = 0
    for name in cells_support.names():
        try:
            found = list(differences(name, Path(sys.argv[1]) / name))
        except ImportError as e:
            print(f"{name}: not read, {e}")
            continue
        wrong += len(found)
        print(f"{name}: {'; '.join(found) or 'the same'}")
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
