"""Several files of cells as one data set, matrices by columns, and files that are damaged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import leat

h5py: Any = pytest.importorskip("h5py")
sp: Any = pytest.importorskip("scipy.sparse")
from cells_support import write_h5ad  # noqa: E402


def counts(seed: int, cells: int, genes: int, dtype: str = "float32") -> Any:
    return sp.random(cells, genes, 0.4, "csr", dtype, np.random.default_rng(seed), lambda n: np.arange(1, n + 1))


def names(*numbers: int) -> np.ndarray[Any, Any]:
    return np.array([f"g{i}" for i in numbers])


@pytest.fixture
def two(tmp_path: Path) -> tuple[list[Path], list[Any], list[list[int]]]:
    genes = [[0, 1, 2, 3, 4], [7, 3, 1, 5]]
    matrices = [counts(1, 6, 5), counts(2, 4, 4)]
    paths = [tmp_path / f"{i}.h5ad" for i in range(2)]
    labels = [["B", "T"], ["T", "NK", "B"]]
    for i, (path, x, own) in enumerate(zip(paths, matrices, genes, strict=True)):
        codes = np.arange(x.shape[0]) % len(labels[i])
        write_h5ad(
            path,
            x,
            var_names=names(*own),
            var={"id": np.array([f"E{g}" for g in own])},
            chunks=(3,),
            obs={"type": (codes, labels[i]), "n": np.arange(x.shape[0])},
            compression="gzip",
        )
    return paths, matrices, genes


def by_gene(ds: leat.Dataset) -> list[dict[str, float]]:
    rows = [ds[i]["X"] for i in range(len(ds))]
    dense = [r.to_dense()[0] if isinstance(r, leat.Sparse) else r for r in rows]
    return [{g: v for g, v in zip(ds.genes, d.tolist(), strict=True) if v} for d in dense]


def wanted(matrices: list[Any], genes: list[list[int]], taken: set[int]) -> list[dict[str, float]]:
    return [
        {f"g{g}": v for g, v in zip(own, row.tolist(), strict=True) if v and g in taken}
        for x, own in zip(matrices, genes, strict=True)
        for row in x.toarray()
    ]


def test_genes_that_differ_are_an_error_that_says_how(two: Any) -> None:
    with pytest.raises(leat.InvalidError, match=r"2 genes in common, 3 only in .*g0, g2, g4.*genes='outer'"):
        leat.open(two[0])


@pytest.mark.parametrize(
    ("how", "taken"), [("outer", {0, 1, 2, 3, 4, 5, 7}), ("inner", {1, 3}), (["g5", "g0", "g3"], {0, 3, 5})]
)
def test_files_with_different_genes(two: Any, how: Any, taken: set[int]) -> None:
    paths, matrices, genes = two
    ds = leat.open(paths, genes=how)
    assert by_gene(ds) == wanted(matrices, genes, taken)
    assert len(ds.genes) == len(taken) and (isinstance(how, str) or ds.genes == how)
    assert ds.var["id"].tolist() == [f"E{g[1:]}" for g in ds.genes]
    assert [ds[i]["obs.type"] for i in (0, 1, 6, 7, 8)] == ["B", "T", "T", "NK", "B"]
    assert [ds.categories["obs.type"][ds[i]["obs.type.code"]] for i in range(10)] == [
        ds[i]["obs.type"] for i in range(10)
    ]
    with leat.Loader(ds, 5, shuffle=True, num_threads=2, framework="numpy") as loader:
        got = {int(i): row for b in loader for i, row in zip(b.ids, b["X"].to_dense(), strict=True)}
    assert all(np.array_equal(got[i], ds[i]["X"].to_dense()[0]) for i in range(10))
    assert leat.open(paths, genes=how)[3:8].genes == ds.genes


def test_genes_are_matched_by_a_column(two: Any, tmp_path: Path) -> None:
    paths, matrices, genes = two
    ds = leat.open(paths, genes="inner", gene_key="id")
    assert ds.genes == ["E1", "E3"]
    with pytest.raises(leat.InvalidError, match="no column 'symbol' about its genes of X: it has id"):
        leat.open(paths, genes="inner", gene_key="symbol")
    with pytest.raises(leat.InvalidError, match="no file has the genes 'g99'"):
        leat.open(paths, genes=["g1", "g99"])
    twice = tmp_path / "twice.h5ad"
    write_h5ad(twice, matrices[0], var_names=names(0, 1, 1, 3, 4))
    with pytest.raises(leat.InvalidError, match="gene 'g1' stands twice"):
        leat.open([paths[0], twice], genes="outer")


def test_dense_matrices_take_genes_too(tmp_path: Path) -> None:
    x = [counts(1, 3, 4).toarray(), counts(2, 2, 3).toarray()]
    genes = [[0, 1, 2, 3], [3, 9, 0]]
    for i in range(2):
        write_h5ad(tmp_path / f"{i}.h5ad", x[i], var_names=names(*genes[i]))
    ds = leat.open([tmp_path / "0.h5ad", tmp_path / "1.h5ad"], genes="outer")
    assert by_gene(ds) == wanted([sp.csr_matrix(m) for m in x], genes, {0, 1, 2, 3, 9})


@pytest.mark.parametrize("slab", [5, 1 << 20])
def test_a_matrix_by_columns_is_read_by_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, slab: int) -> None:
    from leat.data.cells import transposed

    monkeypatch.setattr(transposed, "SLAB", slab)
    x = counts(5, 23, 11)
    path = tmp_path / "csc.h5ad"
    write_h5ad(path, x.tocsc(), chunks=(7,), compression="lzf", index_dtype="int64")
    for _ in range(2):  # made, then as it was kept
        ds = leat.open(path, fields=["X"])
        assert np.array_equal(np.concatenate([ds[i]["X"].to_dense() for i in range(23)]), x.toarray())
        monkeypatch.setattr(transposed, "_write", None)
    assert (tmp_path / "csc.h5ad.X.leat-rows").exists()


@pytest.mark.parametrize("types", [("float32", "int64"), ("int8", "int32"), ("float32", "float64"), ("uint16", "int8")])
@pytest.mark.parametrize("dense", [False, True])
def test_values_of_several_types_become_one(tmp_path: Path, types: tuple[str, str], dense: bool) -> None:
    x = [counts(i, 5, 4, t) for i, t in enumerate(types)]
    for i in range(2):
        write_h5ad(tmp_path / f"{i}.h5ad", x[i].toarray() if dense else x[i])
    ds = leat.open([tmp_path / "0.h5ad", tmp_path / "1.h5ad"])
    wanted = {"int64": "float32", "int32": "int32", "float64": "float64", "int8": "int32"}[types[1]]
    assert ds.schema["X"].dtype == wanted
    found = [ds[i]["X"] if dense else ds[i]["X"].to_dense()[0] for i in range(10)]
    assert np.array_equal(np.array(found), np.concatenate([m.toarray() for m in x]).astype(wanted))


# --- damage ---------------------------------------------------------------------------------------------------------
def damaged(path: Path, what: str, at: int, value: Any) -> None:
    with h5py.File(path, "r+") as file:
        file[f"X/{what}"][at] = value


@pytest.mark.parametrize(
    ("what", "at", "value", "text"),
    [
        ("indices", 4, 99, r"X/indices, row \d+, value \d+ \(byte \d+\): column 99 is beyond"),
        ("indices", 4, -1, r"column -1 is beyond"),
        ("indptr", 2, 0, r"pointer 2 is 0, behind \d+"),
        ("indptr", 6, 10**6, r"pointer 6 is 1000000"),
    ],
)
def test_damaged_rows_name_file_cell_and_byte(tmp_path: Path, what: str, at: int, value: int, text: str) -> None:
    path = tmp_path / "a.h5ad"
    write_h5ad(path, counts(1, 6, 5))
    damaged(path, what, at, value)
    with pytest.raises(leat.Error, match=text) as found:
        ds = leat.open(path)
        [ds[i] for i in range(6)]
    assert "a.h5ad" in str(found.value) or what == "indptr"


def test_a_column_twice_in_a_row_breaks_that_cell_alone(tmp_path: Path) -> None:
    path = tmp_path / "a.h5ad"
    write_h5ad(path, sp.csr_matrix(np.arange(1, 25, dtype="f4").reshape(6, 4)))
    damaged(path, "indices", 9, 0)  # cell 2: 0, 0, 2, 3
    ds = leat.open(path)
    with pytest.raises(leat.Error, match="stands twice in the row"):
        ds[2]
    with leat.Loader(ds, 6, on_error="skip", framework="numpy") as loader:
        (batch,) = loader
    assert batch.ids.tolist() == [0, 1, 3, 4, 5]


def test_chunks_that_are_damaged_or_too_long_break_their_cells(tmp_path: Path) -> None:
    path = tmp_path / "a.h5ad"
    x = sp.csr_matrix(np.ones((40, 10), "f4"))
    write_h5ad(path, x, chunks=(100,), compression="gzip", shuffle=True)
    with h5py.File(path) as file:
        place = file["X/data"].id.get_chunk_info(1)
    raw = bytearray(path.read_bytes())
    raw[place.byte_offset + place.size // 2] ^= 255
    path.write_bytes(raw)
    with leat.Loader(leat.open(path), 40, on_error="skip", framework="numpy") as loader:
        (batch,) = loader
    assert batch.ids.tolist() == [*range(10), *range(20, 40)]
    with pytest.raises(leat.Error, match=rf"a\.h5ad, X/data: chunk 1 at byte {place.byte_offset} is damaged"):
        leat.open(path)[15]


def test_a_file_that_is_cut_or_changed_while_it_is_read_says_so(tmp_path: Path) -> None:
    path = tmp_path / "a.h5ad"
    write_h5ad(path, counts(1, 60, 50), chunks=(40,), compression="gzip")
    ds = leat.open(path)
    ds[0]
    raw = path.read_bytes()
    path.write_bytes(raw[: len(raw) // 2])
    with pytest.raises(leat.Error, match="another file|cut|changed"):
        [ds[i] for i in range(60)]
    path.write_bytes(raw)
    with pytest.raises(leat.Error, match="another file|changed"):
        [ds[i] for i in range(60)]
    assert len(leat.open(path)) == 60


def test_filters_that_nobody_has_are_named(tmp_path: Path) -> None:
    path = tmp_path / "a.h5ad"
    write_h5ad(path, counts(1, 6, 5))
    with h5py.File(path, "r+") as file:
        data = file["X/data"][:]
        del file["X/data"]
        file["X"].create_dataset("data", data=data.astype("i4"), chunks=(4,), scaleoffset=4)
    with pytest.raises(leat.UnsupportedError, match=r"X/data is stored with filter 6 \(scale-offset\)"):
        leat.open(path)
    assert leat.open(path, fields=["name"])[0]["name"] == "cell 0"


def test_what_is_no_file_of_cells_says_so(tmp_path: Path) -> None:
    path = tmp_path / "a.h5ad"
    path.write_bytes(b"no HDF5")
    with pytest.raises(leat.FormatError, match="is no file of HDF5"):
        leat.open(path)
    with h5py.File(path, "w") as file:
        file["x"] = np.arange(3)
    with pytest.raises(leat.FormatError, match="neither X nor obs"):
        leat.open(path)
    with pytest.raises(leat.InvalidError, match='no field "Y"'):
        write_h5ad(path, counts(1, 3, 3))
        leat.open(path, fields=["Y"])


# --- what a reviewer broke ------------------------------------------------------------------------------------------
def edited(path: Path, change: Any) -> leat.Dataset:
    with h5py.File(path, "r+") as file:
        change(file)
    return leat.open(path)


def test_other_values_and_genes_have_another_fingerprint(tmp_path: Path) -> None:
    x = counts(3, 9, 7)
    made = []
    for i, change in enumerate(
        [lambda f: None, lambda f: f["X/data"].__setitem__(3, 99), lambda f: f["var/_index"].__setitem__(0, "other")]
    ):
        write_h5ad(tmp_path / f"{i}.h5ad", x)
        made.append(edited(tmp_path / f"{i}.h5ad", change).fingerprint)
    assert len(set(made)) == 3
    (tmp_path / "moved").mkdir()
    (tmp_path / "0.h5ad").rename(tmp_path / "moved" / "a.h5ad")
    assert leat.open(tmp_path / "moved" / "a.h5ad").fingerprint == made[0]


def test_joined_data_sets_know_only_what_holds_for_all(tmp_path: Path) -> None:
    x = counts(3, 4, 3)
    for i, labels in enumerate((["A", "B"], ["X", "Y"])):
        write_h5ad(
            tmp_path / f"{i}.h5ad", x, obs={"t": (np.array([0, 1, 0, 1]), labels), "u": (np.zeros(4, int), ["c"])}
        )
    both = leat.concat(leat.open(tmp_path / "0.h5ad"), leat.open(tmp_path / "1.h5ad"))
    assert both.categories == {"obs.u": ["c"]} and both.genes == ["gene 0", "gene 1", "gene 2"]
    write_h5ad(tmp_path / "1.h5ad", x, var_names=names(2, 1, 0))
    both = leat.concat(leat.open(tmp_path / "0.h5ad", fields=["X"]), leat.open(tmp_path / "1.h5ad", fields=["X"]))
    with pytest.raises(AttributeError, match="knows no names of genes"):
        both.genes  # noqa: B018
    beside = leat.zip(cells=leat.open(tmp_path / "0.h5ad"), more=leat.from_arrays(y=np.arange(4)))
    assert beside.genes == ["gene 0", "gene 1", "gene 2"]


def test_columns_whose_names_would_be_one_stay_apart(tmp_path: Path) -> None:
    path = tmp_path / "a.h5ad"
    obs = {
        "cell type": np.arange(3),
        "cell_type": np.arange(3) + 10,
        "t": (np.zeros(3, int), ["c"]),
        "t.code": np.arange(3),
    }
    write_h5ad(path, counts(1, 3, 2), obs=obs)
    ds = leat.open(path)
    assert (ds[1]["obs.cell_type"], ds[1]["obs.cell_type_2"]) == (1, 11)
    assert (ds[1]["obs.t.code"], ds[1]["obs.t.code_"]) == (0, 1)


def test_a_kept_index_is_not_believed_if_it_was_touched(tmp_path: Path) -> None:
    path, kept = tmp_path / "a.h5ad", tmp_path / "kept"
    write_h5ad(path, counts(1, 30, 20), chunks=(16,), compression="gzip")
    first = leat.open(path, index_dir=kept)
    (index,) = kept.glob("*.leat-index")
    raw = index.read_bytes()
    for bad in (
        raw[:100],
        raw[:-64],
        raw[:60] + bytes(len(raw) - 60),
        b"",
        raw.replace(b"leat-cells3", b"leat-cells2"),
    ):
        index.write_bytes(bad)
        again = leat.open(path, index_dir=kept)
        assert again.fingerprint == first.fingerprint and np.array_equal(
            again[7]["X"].to_dense(), first[7]["X"].to_dense()
        )
    second = leat.open(path, index_dir=kept)
    with index.open("r+b") as file:  # while it is in use
        file.truncate(10)
    assert np.array_equal(second[29]["X"].to_dense(), first[29]["X"].to_dense())
    only = leat.open(path, index_dir=tmp_path / "other", fields=["X"])
    assert set(leat.open(path, index_dir=tmp_path / "other").schema) > set(only.schema)


@pytest.mark.parametrize(
    "change",
    [
        lambda f: f["X"].__delitem__("indptr"),
        lambda f: f["X"].attrs.__setitem__("shape", (3,)),
        lambda f: f["X"].attrs.__setitem__("shape", "text"),
        lambda f: f["obs"].attrs.__setitem__("column-order", 7),
        lambda f: f["obs"].__delitem__("_index"),
        lambda f: f["obs/t"].__delitem__("categories"),
        lambda f: (
            f["obs"].__setitem__("loop", h5py.SoftLink("/obs/loop")) or f["obs"].attrs.__setitem__("_index", "loop")
        ),
    ],
)
def test_layouts_that_are_damaged_name_the_file(tmp_path: Path, change: Any) -> None:
    path = tmp_path / "a.h5ad"
    write_h5ad(path, counts(1, 3, 2), obs={"t": (np.zeros(3, int), ["c"])})
    with pytest.raises(leat.Error, match=r"a\.h5ad"):
        edited(path, change)


def test_tables_of_chunks_that_claim_too_much_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.h5ad"
    write_h5ad(path, counts(1, 3, 2))

    def change(file: Any) -> None:
        del file["X/data"]
        file["X"].create_dataset("data", shape=(30_000_000,), chunks=(1,), dtype="f4")

    with pytest.raises(leat.CorruptError, match="says that it has 30000000 chunks, of which 0 are there"):
        edited(path, change)


def test_genes_in_common_of_many_are_found_quickly(tmp_path: Path) -> None:
    r, paths = np.random.default_rng(0), []
    for i in range(6):
        paths.append(tmp_path / f"{i}.h5ad")
        write_h5ad(paths[-1], sp.csr_matrix((2, 9000), dtype="f4"), var_names=names(*r.permutation(10_000)[:9000]))
    common = leat.open(paths, genes="inner").genes
    assert set(common) == set.intersection(*(set(leat.open(p).genes) for p in paths))
    with pytest.raises(ValueError, match="'outer', 'inner' or a list"):
        leat.open(paths[0], genes="outr")


def test_rows_of_a_matrix_by_columns_follow_the_file(tmp_path: Path) -> None:
    path = tmp_path / "a.h5ad"
    x = counts(5, 23, 11)
    write_h5ad(path, x.tocsc())
    leat.open(path)
    kept = tmp_path / "a.h5ad.X.leat-rows"
    raw = kept.read_bytes()
    kept.write_bytes(raw[:200] + bytes(8) + raw[208:])  # pointers
    assert np.array_equal(leat.open(path)[22]["X"].to_dense()[0], x.toarray()[22])
    write_h5ad(path, (2 * x).tocsc())
    assert np.array_equal(leat.open(path)[22]["X"].to_dense()[0], 2 * x.toarray()[22])


def test_a_field_that_is_not_there_is_told_with_those_that_are(tmp_path: Path) -> None:
    write_h5ad(tmp_path / "a.h5ad", counts(1, 3, 2), obs={"kind": np.arange(3)})
    with pytest.raises(
        leat.InvalidError,
        match='no field "obs.kin", which fields names: did you mean "obs.kind"[?] It has X, obs.kind, name',
    ):
        leat.open(tmp_path / "a.h5ad", fields=["X", "obs.kin"])


@pytest.mark.parametrize("dtype", ["uint16", "uint32", "uint64", "uint8", "int32", "bool"])
def test_counts_of_any_type_become_dense_in_torch(dtype: str) -> None:
    pytest.importorskip("torch")
    x = sp.csr_matrix(np.array([[0, 3], [1, 0]]).astype(dtype))
    with leat.Loader(leat.from_arrays(X=x), 2, framework="torch") as loader:
        (batch,) = loader
    assert np.array_equal(batch["X"].to_dense().numpy(), x.toarray())
