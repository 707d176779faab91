"""Matrices of 10x Genomics: HDF5 of versions 2 and 3, and folders of Matrix Market files.

They are matrices of genes by cells, stored by columns: that is by rows of cells.
"""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable
from typing import Any

import numpy as np

from ...errors import CorruptError, FormatError, InvalidError
from .anndata import Column, Part, readable, texts
from .hdf5 import File
from .stored import Array, Rows, Texts, field_name

_V3 = ("id", "name", "feature_type", "genome")


def _like(node: Any, ids: Any) -> bool:
    """Whether a node is an array about each gene."""
    return hasattr(node, "shape") and node.shape == ids.shape


def _part(path: str, rows: Rows | None, barcodes: Array, var: dict[str, Array], ids: str) -> Part:
    part = Part(path, len(barcodes))
    part.genes, part.var = var[ids], var
    part.columns["name"] = Column(Texts.of(barcodes))
    if rows is not None:
        if rows.n != len(part.genes):
            raise CorruptError(f"{path}: the matrix has {rows.n} genes, and {len(part.genes)} are named")
        if len(rows) != part.count:
            raise CorruptError(f"{path}: the matrix has {len(rows)} cells, and there are {part.count} barcodes")
        part.fields["X"] = rows
    return part


def read_h5(file: File, wanted: Callable[[str], bool], genome: str | None) -> Part:
    """Genes go by their ids, which are unique; ``ds.var`` has their names.

    Args:
        genome: of a file of version 2, its group; of version 3 the genes of that genome alone. None: the only one.
    """
    with readable(file.path):
        return _read_h5(file, wanted, genome)


def _read_h5(file: File, wanted: Callable[[str], bool], genome: str | None) -> Part:
    path, root = file.path, file.root
    if "matrix" in root:
        group, genes = root["matrix"], root["matrix"].get("features")
        if genes is None:
            raise FormatError(f"{path}: matrix has no features: this is no file of 10x Genomics")
        names = [k for k in genes if k in _V3 or _like(genes[k], genes["id"])]
        var = {field_name(k): texts(genes[k][:], f"{path}, matrix/features/{k}") for k in names}
        ids = "id"
    else:
        groups = {k: g for k, g in root.items() if hasattr(g, "keys") and "indptr" in g and "barcodes" in g}
        if not groups:
            raise FormatError(f"{path} is no file of 10x Genomics: it has neither matrix nor a group for a genome")
        if genome is None and len(groups) > 1:
            raise InvalidError(f"{path} has the genomes {', '.join(groups)}: genome= names the one to read")
        key = next(iter(groups)) if genome is None else genome
        if key not in groups:
            raise InvalidError(f"{path} has no genome {genome!r}: it has {', '.join(groups)}")
        group = groups[key]
        var = {n: texts(group[k][:], f"{path}, {key}/{k}") for n, k in (("id", "genes"), ("name", "gene_names"))}
        ids = "id"
    rows = None
    if wanted("X"):
        shape = [int(n) for n in group["shape"][:]]
        pointers = np.asarray(group["indptr"][:]).astype(np.int64)
        rows = Rows(file.describe(group["data"]), file.describe(group["indices"]), pointers, shape[0])
    part = _part(path, rows, texts(group["barcodes"][:], f"{path}, barcodes"), var, ids)
    if "matrix" in root and genome is not None:
        return _of_genome(part, var, genome)
    return part


def _of_genome(part: Part, var: dict[str, Array], genome: str) -> Part:
    known = var.get("genome")
    chosen = np.zeros(0, bool) if known is None else known == genome
    if not chosen.any():
        names = sorted(set(() if known is None else known.tolist()))
        raise InvalidError(f"{part.path} has no genes of the genome {genome!r}: it has {', '.join(names)}")
    columns = np.where(chosen, np.cumsum(chosen) - 1, -1)
    part.genes = part.genes[chosen] if part.genes is not None else None
    part.var = {name: values[chosen] for name, values in var.items()}
    part.fields = {name: rows.mapped(columns, int(chosen.sum())) for name, rows in part.fields.items()}
    return part


def _lines(path: str) -> list[str]:
    opened: Any = gzip.open if path.endswith(".gz") else open
    try:
        with opened(path, "rt", encoding="utf-8") as file:
            text = str(file.read()).rstrip("\n")
            return text.split("\n") if text else []
    except UnicodeDecodeError as e:
        raise CorruptError(f"{path} is not UTF-8: it holds the byte 0x{e.object[e.start]:02x}") from e


def _there(folder: str, *names: str) -> str:
    for name in names:
        for end in ("", ".gz"):
            if os.path.exists(found := os.path.join(folder, name + end)):
                return found
    raise FormatError(f"{folder} has no {names[0]}: this is no folder of 10x Genomics")


def read_folder(folder: str, wanted: Callable[[str], bool], genome: str | None, index_dir: str | None) -> Part:
    with readable(folder):
        return _read_folder(folder, wanted, genome, index_dir)


def _read_folder(folder: str, wanted: Callable[[str], bool], genome: str | None, index_dir: str | None) -> Part:
    from .matrix_market import by_cells

    if genome is not None:
        raise InvalidError(f"{folder} names no genomes: leave out genome=")
    barcodes = np.array([line.split("\t")[0] for line in _lines(_there(folder, "barcodes.tsv"))], object)
    table = [line.split("\t") for line in _lines(_there(folder, "features.tsv", "genes.tsv"))]
    widest = max(map(len, table), default=1)
    var: dict[str, Array] = {}
    for i, name in zip(range(widest), ("id", "name", "feature_type"), strict=False):
        var[name] = np.array([row[i] if i < len(row) else "" for row in table], object)
    matrix = _there(folder, "matrix.mtx")
    rows = by_cells(matrix, len(barcodes), len(table), index_dir) if wanted("X") else None
    return _part(folder, rows, barcodes, var, "id")
