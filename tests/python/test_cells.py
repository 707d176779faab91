"""Files of cells that the libraries of their times have written, against what they hold."""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import leat

pytest.importorskip("h5py")
pytest.importorskip("zarr")
from cells_support import expected, names, path
from script_support import python

CELLS = [n for n in names() if n.endswith((".h5ad", ".zarr", ".zarr.zip")) and not n.startswith("array")]


def dense(values: list[Any]) -> np.ndarray[Any, Any]:
    return np.concatenate([v.to_dense() for v in values]) if isinstance(values[0], leat.Sparse) else np.stack(values)


def opened(name: str, tmp_path: Path, **options: Any) -> leat.Dataset:
    return leat.open(path(name), index_dir=tmp_path / "kept", **options)


def same(ds: leat.Dataset, name: str, field: str, wanted: Any) -> None:
    found = [ds[i][field] for i in range(len(ds))]
    if isinstance(found[0], str):
        assert found == [str(w) for w in np.ma.filled(wanted, "")], (name, field)
    else:
        got = dense(found) if not np.isscalar(found[0]) else np.array(found)
        np.testing.assert_array_equal(got.reshape(wanted.shape), np.ma.filled(wanted, 0), err_msg=field)


@pytest.mark.parametrize("name", CELLS)
def test_every_value_of_a_file_of_anndata(name: str, tmp_path: Path) -> None:
    ds = opened(name, tmp_path)
    there = dict(ds.schema)
    for part, wanted in expected(name).items():
        if part == "obs_names":
            same(ds, name, "name", wanted)
        elif part == "var_names":
            assert ds.genes == wanted.tolist()
        elif part.startswith("var/"):
            if part.count("/") == 1:
                assert ds.var[part[4:]].tolist() == wanted.tolist(), part
        elif part.startswith("obs/") and part.endswith("/categories"):
            assert ds.categories[f"obs.{part.split('/')[1]}"] == wanted.tolist()
        elif part.startswith(("raw/var", "obsp/")):
            continue
        else:
            field = part.replace("/", ".")
            if f"{field}.valid" in there:
                same(ds, name, f"{field}.valid", ~np.ma.getmaskarray(wanted))
            same(ds, name, field, wanted)
            if f"{field}.code" in there:
                labels = np.append(np.array(ds.categories[field], object), None)
                codes = [ds[i][f"{field}.code"] for i in range(len(ds))]
                assert labels[codes].tolist() == [
                    None if m else w for m, w in zip(np.ma.getmaskarray(wanted), np.ma.filled(wanted, ""), strict=True)
                ]


@pytest.mark.parametrize("name", CELLS)
def test_a_loader_gives_what_the_data_set_has_and_resumes(name: str, tmp_path: Path) -> None:
    ds = opened(name, tmp_path)
    again = pickle.loads(pickle.dumps(ds))
    assert again.fingerprint == ds.fingerprint
    with leat.Loader(ds, 4, shuffle=True, seed=3, num_threads=2, framework="numpy") as loader:
        batches = [(b.ids.tolist(), b["X"].to_dense() if isinstance(b["X"], leat.Sparse) else b["X"]) for b in loader]
    whole = dense([ds[i]["X"] for i in range(len(ds))])
    for ids, x in batches:
        assert np.array_equal(x, whole[ids])
    assert sorted(i for ids, _ in batches for i in ids) == list(range(len(ds)))
    with leat.Loader(again, 4, shuffle=True, seed=3, num_threads=1, framework="numpy") as loader:
        iterator = iter(loader)
        next(iterator)
        state = loader.state_dict()
    with leat.Loader(again, 4, shuffle=True, seed=3, num_threads=1, framework="numpy") as loader:
        loader.load_state_dict(state)
        assert [b.ids.tolist() for b in loader] == [ids for ids, _ in batches[1:]]


@pytest.mark.parametrize("hash_seed", ["1", "2", "3"])
def test_categories_are_in_the_order_of_the_file_whatever_the_process(hash_seed: str) -> None:
    told = "import sys, leat; print(*leat.open(sys.argv[1]).categories)"
    done = python("-c", told, path("anndata-0.12.19.h5ad"), env={**os.environ, "PYTHONHASHSEED": hash_seed})
    assert done.stdout.split() == ["obs.cell_type", "obs.stage"], done.stderr


def test_what_is_kept_of_a_file_opens_it_without_h5py(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = opened("anndata-0.12.19.h5ad", tmp_path)
    assert len(list((tmp_path / "kept").iterdir())) >= 1
    import h5py

    monkeypatch.setattr(h5py, "File", None)
    second = opened("anndata-0.12.19.h5ad", tmp_path)
    assert second.fingerprint == first.fingerprint and second.genes == first.genes
    assert second.categories == first.categories and set(second.schema) == set(first.schema)
    for i in range(len(first)):
        a, b = first[i], second[i]
        assert all(
            np.array_equal(x.to_dense(), b[k].to_dense())
            if isinstance(x, leat.Sparse)
            else np.array_equal(x, b[k]) or x != x
            for k, x in a.items()
        )
    (kept,) = (tmp_path / "kept").glob("*.leat-index")
    raw = bytearray(kept.read_bytes())
    raw[len(raw) // 2] ^= 1
    kept.write_bytes(raw)
    with pytest.raises(TypeError):  # it is read anew, which needs h5py
        opened("anndata-0.12.19.h5ad", tmp_path)


@pytest.mark.parametrize("name", [n for n in names() if n.startswith("10x")])
def test_every_value_of_10x(name: str, tmp_path: Path) -> None:
    wanted = expected(name)
    genomes = [k[:-2] for k in wanted if k.endswith("/X")]
    if len(genomes) > 1:
        with pytest.raises(leat.InvalidError, match="genome= names the one"):
            opened(name, tmp_path)
    for genome in genomes or [None]:
        ds = opened(name, tmp_path, genome=genome)
        prefix = f"{genome}/" if genome else ""
        same(ds, name, "X", wanted[f"{prefix}X"])
        same(ds, name, "name", wanted.get(f"{prefix}obs_names", wanted.get("obs_names")))


@pytest.mark.parametrize("name", [n for n in names() if n.startswith("scdl")])
def test_every_value_of_scdl(name: str, tmp_path: Path) -> None:
    wanted = expected(name)
    if "0/X" not in wanted:
        ds = opened(name, tmp_path)
        same(ds, name, "X", wanted["X"])
        assert ds.genes == wanted["var_names"].tolist()
        return
    with pytest.raises(leat.InvalidError, match="different genes"):
        opened(name, tmp_path)
    ds = opened(name, tmp_path, genes="outer")
    at = 0
    for i in range(2):
        genes = wanted[f"{i}/var_names"].tolist()
        for row in wanted[f"{i}/X"]:
            found = dict(zip(ds.genes, ds[at]["X"].to_dense()[0].tolist(), strict=True))
            assert {g: v for g, v in found.items() if v} == {
                g: v for g, v in zip(genes, row.tolist(), strict=True) if v
            }
            at += 1
    assert at == len(ds)
