"""Files of 10x Genomics: HDF5 of Cell Ranger 2 and 3, and folders of Matrix Market."""

from __future__ import annotations

import gzip
import io

import numpy as np
from make_contents import BARCODES, GENE_IDS, SYMBOLS, counts, makes

MOUSE_IDS = np.array([f"ENSMUSG{n:011d}" for n in (32094, 30677, 56529, 22156)])
MOUSE_SYMBOLS = np.array(["Cd3d", "Ms4a1", "Lyz2", "Nkg7"])
STORAGE = {"chunks": (20,), "maxshape": (None,), "compression": "gzip", "compression_opts": 1, "shuffle": True}
MOUSE_CELLS = [1, 2, 5, 6, 8, 10, 12]  # the cells that are in the matrix of the other genome too


def tenx_v3():
    kinds = np.array(["Gene Expression"] * 7 + ["Antibody Capture"] * 2)
    return {
        "X": counts().astype(np.int32),
        "obs_names": BARCODES,
        "var_names": SYMBOLS,
        "var/gene_ids": GENE_IDS,
        "var/feature_types": kinds,
        "var/genome": np.array(["GRCh38"] * 7 + [""] * 2),
    }


def tenx_v2():
    return {
        "GRCh38/X": counts().astype(np.int32),
        "GRCh38/obs_names": BARCODES,
        "GRCh38/var_names": SYMBOLS,
        "GRCh38/var/gene_ids": GENE_IDS,
        "mm10/X": counts(7, 4, 11)[::-1].astype(np.int32),
        "mm10/obs_names": BARCODES[MOUSE_CELLS],
        "mm10/var_names": MOUSE_SYMBOLS,
        "mm10/var/gene_ids": MOUSE_IDS,
    }


def tenx_matrix(group, cells, holds, **storage):
    """A matrix of genes x cells in columns, as 10x stores it: the rows of cells."""
    import scipy.sparse as sp

    x = sp.csr_matrix(cells)
    group.create_dataset("data", data=x.data.astype(np.int32), **storage)
    group.create_dataset("indices", data=x.indices.astype(np.int64), **storage)
    group.create_dataset("indptr", data=x.indptr.astype(np.int64), **storage)
    group.create_dataset("shape", data=np.array(cells.shape[::-1], np.int32))
    for name, values in holds.items():
        group.create_dataset(name, data=values.astype("S"))


@makes("10x-v3.h5", "today", tenx_v3)
def make_tenx_v3(path):
    import h5py

    holds = tenx_v3()
    with h5py.File(path, "w") as file:
        file.attrs.update({"filetype": "matrix", "version": 2, "chemistry_description": "Single Cell 3' v3"})
        names = {"barcodes": "obs_names", "features/id": "var/gene_ids", "features/name": "var_names"}
        names.update({"features/feature_type": "var/feature_types", "features/genome": "var/genome"})
        parts = {name: holds[of] for name, of in names.items()}
        parts["features/_all_tag_keys"] = np.array(["genome"])
        tenx_matrix(file.create_group("matrix"), holds["X"], parts, **STORAGE)


@makes("10x-v2.h5", "today", tenx_v2)
def make_tenx_v2(path):
    import h5py

    holds = tenx_v2()
    names = {"barcodes": "obs_names", "genes": "var/gene_ids", "gene_names": "var_names"}
    with h5py.File(path, "w") as file:
        for genome in ("GRCh38", "mm10"):
            parts = {name: holds[f"{genome}/{of}"] for name, of in names.items()}
            storage = STORAGE if genome == "GRCh38" else {}
            tenx_matrix(file.create_group(genome), holds[f"{genome}/X"], parts, **storage)


def tenx_folder(name, features, ending, holds, columns):
    @makes(name, "today", holds)
    def make(path):
        import scipy.io
        import scipy.sparse as sp

        values = holds()
        path.mkdir()
        text = io.BytesIO()
        comment = 'metadata_json: {"software_version": "cellranger-7.1.0", "format_version": 2}' if ending else ""
        scipy.io.mmwrite(text, sp.csc_matrix(values["X"].T), comment=comment, field="integer")
        files = {
            "matrix.mtx": text.getvalue(),
            "barcodes.tsv": "".join(f"{b}\n" for b in values["obs_names"]).encode(),
            features: "".join("\t".join(line) + "\n" for line in zip(*(values[of] for of in columns))).encode(),
        }
        for file, data in files.items():
            (path / (file + ending)).write_bytes(gzip.compress(data, mtime=0) if ending else data)


def tenx_v3_of_folder():
    return {key: values for key, values in tenx_v3().items() if key != "var/genome"}


def tenx_v2_of_folder():
    return {key[7:]: values for key, values in tenx_v2().items() if key.startswith("GRCh38/")}


GENE = ("var/gene_ids", "var_names")
tenx_folder("10x-mtx", "features.tsv", ".gz", tenx_v3_of_folder, (*GENE, "var/feature_types"))
tenx_folder("10x-mtx-v2", "genes.tsv", "", tenx_v2_of_folder, GENE)
