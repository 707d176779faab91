"""`leat pack`, `leat stats` of files of cells."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import leat

pytest.importorskip("h5py")
pytest.importorskip("zarr")
from cells_support import path, write_h5ad  # noqa: E402
from cli_support import leat as run  # noqa: E402


@pytest.mark.parametrize("name", ["anndata-0.12.19.h5ad", "cells-v3.zarr", "10x-mtx", "scdl-one"])
def test_cells_are_packed_with_their_genes(name: str, tmp_path: Path) -> None:
    src, to = tmp_path / name, tmp_path / "cells.leat"
    (shutil.copytree if path(name).is_dir() else shutil.copy)(path(name), src)  # what is made of it lies beside it
    done = run("pack", src, to)
    assert "13 samples" in done.stdout
    ds, packed = leat.open(src), leat.open(to)
    assert packed.categories == ds.categories
    assert {n: v.tolist() for n, v in packed.var.items()} == {n: v.tolist() for n, v in ds.var.items()}
    told = json.loads(run("info", src, "--json").stdout)
    assert (told["count"], told["fingerprint"]) == (13, ds.fingerprint)
    assert {f["name"]: f["derived"] for f in told["fields"]} == {n: f.derived for n, f in ds.schema.items()}
    assert "every value was read" in run("verify", src).stdout
    assert packed.genes == ds.genes and set(packed.schema) == set(ds.schema)
    for i in range(len(ds)):
        a, b = ds[i], packed[i]
        for field, value in a.items():
            if isinstance(value, leat.Sparse):
                assert np.array_equal(value.to_dense(), b[field].to_dense())
            else:
                np.testing.assert_array_equal(b[field], value)
    again = run("pack", src, to, code=2)
    assert "--overwrite" in again.stderr
    run("pack", src, to, "--overwrite")
    refused = run("pack", src, tmp_path / "other.leat", "--labels", "none", code=2)
    assert "--labels is not about such files" in refused.stderr


def test_stats_of_cells() -> None:
    done = run("stats", path("anndata-0.12.19.h5ad"), "--json")
    assert json.loads(done.stdout)["count"] == 13


def test_stats_say_what_genes_files_share_and_view_draws_cells(tmp_path: Path) -> None:
    scipy = pytest.importorskip("scipy.sparse")
    files = []
    for i, genes in enumerate(["abcd", "dbx"]):
        files.append(tmp_path / f"{i}.h5ad")
        write_h5ad(files[-1], scipy.csr_matrix(np.ones((5, len(genes)), "f4")), var_names=np.array([*genes]))
    done = run("stats", *files)
    assert "genes          5 in any of 2 files, 2 in all: a, b, c, d, x" in done.stdout
    assert json.loads(run("stats", *files, "--json").stdout)["cells"]["in_all"] == 2
    run("view", files[0], "--out", tmp_path / "a.png")
    assert (tmp_path / "a.png").read_bytes()[:4] == b"\x89PNG"
