"""What the files hold: 13 cells x 7 genes (9 in raw), and the list of files and of what makes them."""

from __future__ import annotations

import gzip
import types
import zipfile

import numpy as np

MAKERS = {}  # name of a file: (its environment, function of a path)
EXPECTED = {}  # name of a file: function that gives what it holds, name: array


def makes(name, venv, holds):
    def register(function):
        MAKERS[name] = (venv, function)
        EXPECTED[name] = holds
        return function

    return register


# --- values ----------------------------------------------------------------------------------------------------------

CELLS, GENES, RAW_GENES = 13, 7, 9
KEPT = [8, 0, 1, 3, 4, 6, 7]  # the genes of raw that X has, in its order
CODES = "AAACCTGA AAACGGGT AAAGATGC AACACGTC AACCGCGA ACAGCTAT ACGATACG AGTCTTTG CACAAACC CATGGCGT GACTGCAA GTACGTCC"
BARCODES = np.array([code + "-1" for code in [*CODES.split(), "TTTGTCAA"]])
SYMBOLS = np.array(["CD3D", "MS4A1", "TBCE", "NKG7", "LYZ", "HLA-DRA", "PPBP", "CD8A", "TBCE"])  # two have one name
UNIQUE = np.array([*SYMBOLS[:-1], "TBCE-1"])  # as anndata makes names unique
GENE_IDS = np.array([f"ENSG{n:011d}" for n in (167286, 156738, 285053, 105374, 90382, 204287, 163736, 153563, 116957)])


def counts(cells=CELLS, genes=RAW_GENES, seed=7):
    """Counts of molecules: most are 0, cell 5 has none, gene 3 is found in no cell, and one does not fit 16 bits."""
    draw = np.random.RandomState(seed)
    values = draw.randint(1, 200, (cells, genes)) * (draw.randint(0, 100, (cells, genes)) < 45)
    values[5] = 0
    values[:, 3] = 0
    values[2, 1] = 70000
    return values


def normalized():
    """X: 13 x 7, no whole numbers."""
    return counts()[:, KEPT].astype(np.float32) / np.float32(7)


def table(dtype="<f4", shape=(13, 7)):
    """What arrays without cells hold."""
    return (np.arange(np.prod(shape)).reshape(shape) * 37 % 101 / 4).astype(dtype)


def masked(values, missing):
    return np.ma.MaskedArray(values, np.array(missing, bool))


def obs_columns():
    """By name: values, masked where missing; of categories also which there are."""
    draw = np.random.RandomState(9)
    at = np.arange(CELLS)
    return {
        "note": np.array(["", "µ-fluid", "two words", "日本"] + [f"note {i}" for i in range(4, CELLS)]),
        "cell_type": masked(np.array(["B", "CD4 T", "NK"])[draw.randint(0, 3, CELLS)], at % 5 == 3),
        "cell_type/categories": np.array(["B", "CD4 T", "NK", "Mono"]),  # no cell is a Mono
        "stage": np.array(["G1", "S", "G2M"])[draw.randint(0, 3, CELLS)],
        "stage/categories": np.array(["G1", "S", "G2M"]),  # ordered
        "n_counts": draw.randint(-(2**40), 2**40, CELLS).astype(np.int64),
        "percent_mito": np.where(at == 4, np.nan, draw.randint(0, 1000, CELLS) / 7),
        "score": draw.randint(0, 1000, CELLS).astype(np.float32) / np.float32(3),
        "is_doublet": draw.randint(0, 2, CELLS).astype(bool),
        "n_umis": masked(draw.randint(0, 9000, CELLS).astype(np.int64), at % 4 == 1),
        "passed": masked(draw.randint(0, 2, CELLS).astype(bool), at % 6 == 2),
        "alias": masked(np.array([f"alias {i}" for i in at]), at % 3 == 0),
    }


NULLABLE = ["n_umis", "passed", "alias"]
LATER = ("obsp", "layers")  # layers were there, but each matrix is 9 kB of HDF5


def whole():
    """What a whole h5ad holds; without NULLABLE until these could be written."""
    neighbours = np.zeros((CELLS, CELLS))
    for i in range(CELLS):
        neighbours[i, (i + 1) % CELLS], neighbours[i, (i + 5) % CELLS] = i + 0.5, i / 8 + 0.125
    holds = {
        "X": normalized(),
        "raw/X": counts().astype(np.float32),
        "layers/counts": counts()[:, KEPT].astype(np.int32),
        "obsm/X_pca": np.random.RandomState(8).randint(-5000, 5000, (CELLS, 3)) / 1024,
        "obsp/distances": neighbours,
        "obs_names": BARCODES,
        "var_names": UNIQUE[KEPT],
        "raw/var_names": UNIQUE,
        "var/gene_ids": GENE_IDS[KEPT],
        "var/highly_variable": np.arange(GENES) % 3 == 0,
        "raw/var/gene_ids": GENE_IDS,
    }
    holds.update((f"obs/{name}", values) for name, values in obs_columns().items())
    return holds


def whole_of_old():
    return {name: values for name, values in whole().items() if name[4:] not in NULLABLE and not name.startswith(LATER)}


def some():
    """A few columns."""
    names = ["X", "obs_names", "var_names", "obs/note", "obs/cell_type", "obs/cell_type/categories", "obs/n_umis"]
    return {name: whole()[name] for name in names}


def small():
    return {name: whole()[name] for name in ("X", "obs_names", "var_names")}


# --- what makers share -----------------------------------------------------------------------------------------------

NEWER = ("v110", "v110")  # libver: "latest" of HDF5 2.0 is for no version before it


def open_store(path):
    """A zarr store, a folder or a zip. One thing is done after the other, so that a zip has one order."""
    import zarr

    zarr.config.set({"async.concurrency": 1})
    return zarr.storage.ZipStore(path, mode="w") if path.suffix == ".zip" else zarr.storage.LocalStore(path)


def close_store(store, path):
    """Closes it; the entries of a zip lose their dates."""
    store.close()
    if path.suffix == ".zip":
        with zipfile.ZipFile(path) as old:
            entries = [(zipfile.ZipInfo(info.filename), old.read(info)) for info in old.infolist()]
        with zipfile.ZipFile(path, "w") as new:
            for info, data in entries:
                new.writestr(info, data)


def leave_out_times():
    """gzip stores when it compresses. So does HDF5 for each object, unless it is created with a property against it;
    most versions of h5py have that for some objects, and ask for it themselves for fewer."""
    gzip.time = types.SimpleNamespace(time=lambda: 0)
    from h5py import h5f, h5g, h5p

    new, new_file, new_group = h5p.create, h5f.create, h5g.create

    def properties(kind):
        made = new(kind)
        if hasattr(made, "set_obj_track_times"):
            made.set_obj_track_times(False)
        return made

    def create_file(*arguments, **options):
        return new_file(*arguments, **dict(options, fcpl=options.get("fcpl") or properties(h5p.FILE_CREATE)))

    def create_group(*arguments, **options):
        return new_group(*arguments, **dict(options, gcpl=options.get("gcpl") or properties(h5p.GROUP_CREATE)))

    h5p.create, h5f.create, h5g.create = properties, create_file, create_group
