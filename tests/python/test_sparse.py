"""Sparse rows, against SciPy's matrices: files, arrays, sources, batches, operators, ports, and what is refused."""

from __future__ import annotations

import pickle
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from drawn_support import examples
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse as sp

import leat

DTYPES = ("uint8", "int16", "int32", "float32", "float64", "bool")


def drawn_matrix(rows: int, columns: int, dtype: str, seed: int) -> Any:
    """With rows of no value, of all columns, and some between."""
    r = np.random.default_rng(seed)
    dense = r.integers(1, 100, (rows, columns)) * (r.random((rows, columns)) < r.choice([0, 0.1, 0.6, 1], (rows, 1)))
    return sp.csr_matrix(dense.astype(dtype))


def write(path: Path, matrix: Any) -> leat.Dataset:
    fields = {"X": leat.sparse(matrix.dtype, matrix.shape[1]), "y": "int64"}
    with leat.Writer(path, fields, overwrite=True) as w:
        for i in range(matrix.shape[0]):
            w.add(X=matrix[i], y=i)
    return leat.open(path)


def dense(matrix: Any) -> np.ndarray[Any, Any]:
    return np.asarray(matrix.toarray())


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("framework", ["numpy", "torch"])
def test_batches_are_rows_of_the_matrix(tmp_path: Path, dtype: str, framework: Any) -> None:
    matrix = drawn_matrix(50, 33, dtype, 1)
    ds = write(tmp_path / "d.leat", matrix)
    assert ds.schema["X"] == leat.sparse(dtype, 33) and repr(ds.schema["X"]) == f"sparse('{dtype}', 33)"
    assert ds.column("X.length").tolist() == np.diff(matrix.indptr).tolist()
    for i in range(50):
        row = ds[i]["X"]
        assert (row.to_dense() == dense(matrix[i])).all() and row.values.dtype == dtype and row.columns.dtype == "int32"
    loader = leat.Loader(ds, 16, shuffle=True, framework=framework)
    for batch in loader:
        made, ids = batch["X"], np.asarray(batch.ids)
        assert list(batch) == ["X", "y"] and made.shape == (len(ids), 33)
        assert np.asarray(batch["y"]).tolist() == ids.tolist()
        assert (np.asarray(made.to_dense()) == dense(matrix)[ids]).all()
        assert (dense(made.to_scipy()) == dense(matrix)[ids]).all()
        tensor = made.to_torch()
        assert tensor.layout == torch.sparse_csr and (tensor.to_dense().numpy() == dense(matrix)[ids]).all()
        assert tensor.values().data_ptr() == torch.as_tensor(made.values).data_ptr()
        rows = made.unbind()
        assert [len(r) for r in rows] == [1] * len(ids)
        assert np.concatenate([np.asarray(r.to_dense()) for r in rows]).tolist() == np.asarray(made.to_dense()).tolist()
        parts = batch.split(5)
        assert (np.concatenate([np.asarray(p["X"].to_dense()) for p in parts]) == dense(matrix)[ids]).all()
        again = pickle.loads(pickle.dumps(batch))["X"]
        assert (np.asarray(again.to_dense()) == dense(matrix)[ids]).all() and again.n == 33
    assert np.asarray(loader.batch_at(0, 1)["X"].to_dense()).shape == (16, 33)


@examples(25)
@given(st.integers(0, 40), st.integers(1, 60), st.sampled_from(DTYPES), st.integers(0, 99))
def test_a_file_arrays_and_a_source_have_the_same_rows(
    tmp_path_factory: Any, rows: int, columns: int, dtype: str, seed: int
) -> None:
    matrix = drawn_matrix(rows, columns, dtype, seed)

    class Source:
        fields = {"X": leat.sparse(dtype, columns), "y": "int64"}  # noqa: RUF012

        def __len__(self) -> int:
            return rows

        def read(self, positions: Any) -> Any:
            return {"X": [matrix[int(p)] for p in positions], "y": positions}

    written = write(tmp_path_factory.mktemp("sparse") / "d.leat", matrix)
    arrays = leat.from_arrays(X=matrix, y=np.arange(rows))
    for ds in (written, arrays, leat.from_source(Source())):
        batches = list(leat.Loader(ds, 7, framework="numpy")) if rows else []
        found = [b["X"].to_dense() for b in batches]
        assert (np.concatenate(found) == dense(matrix)).all() if rows else not found
    assert written.fingerprint == arrays.fingerprint


def test_operators_on_sparse_and_on_dense_rows(tmp_path: Path) -> None:
    for dtype in ("uint16", "float32", "float64"):
        matrix = drawn_matrix(30, 20, dtype, 3)
        ds = leat.concat([write(tmp_path / f"{dtype}.leat", matrix), leat.open(tmp_path / f"{dtype}.leat")[:5]])
        assert len(ds) == 35
        chain = [leat.ops.NormalizeTotal(1e3), leat.ops.Log1p()]
        sums = dense(matrix).astype(np.float64).sum(1)
        wanted = np.log1p(dense(matrix) * (1e3 / np.where(sums == 0, 1, sums))[:, None])
        tight = 1e-12 if dtype == "float64" else 1e-6
        for batch in leat.Loader(ds, 8, outputs={"X": chain, "all": leat.Out("X", [*chain, leat.ops.Densify()])},
                                 framework="numpy"):  # fmt: skip
            assert batch["X"].values.dtype == (dtype if dtype == "float64" else "float32")
            assert (batch["all"] == batch["X"].to_dense()).all()
            assert np.allclose(batch["all"], wanted[batch.ids % 30], rtol=tight, atol=0)
        applied = leat.apply({"X": [*chain, leat.ops.Densify()]}, {"X": dense(matrix)})["X"]
        assert np.allclose(applied, wanted, rtol=tight, atol=0)
    lent = leat.apply({"X": [leat.ops.Densify()]}, {"X": matrix})["X"]
    assert (lent == dense(matrix)).all()


def test_batches_by_size_take_the_numbers_of_values(tmp_path: Path) -> None:
    ds = write(tmp_path / "d.leat", drawn_matrix(60, 40, "float32", 4))
    for batch in leat.Loader(ds, batch_tokens=200, tokens_field="X", shuffle=True, framework="numpy"):
        assert batch["X"].lengths.max(initial=1) * batch.size <= 200
    for batch in leat.Loader(ds, batch_cost=100, cost="X.length", framework="numpy"):
        assert len(batch["X"].values) <= 100


def test_a_port_serves_sparse_rows_with_its_outputs_and_with_others(tmp_path: Path) -> None:
    matrix = drawn_matrix(40, 20, "float32", 5)
    loader = leat.Loader(write(tmp_path / "d.leat", matrix), 8, shuffle=True, framework="numpy")
    with leat.Port(loader, "sparse", folder=tmp_path):
        for outputs, wanted in ((None, dense(matrix)), ({"X": [leat.ops.Log1p()]}, np.log1p(dense(matrix)))):
            reader = leat.attach("sparse", folder=tmp_path, framework="numpy", outputs=outputs, start="beginning")
            batch = next(iter(reader))
            assert np.allclose(batch["X"].to_dense(), wanted[batch.ids])


@pytest.mark.parametrize("framework", ["numpy", "torch"])
@pytest.mark.parametrize("dtype", ["uint8", "float64"])
def test_a_port_of_the_command_line_serves_sparse_rows(tmp_path: Path, dtype: str, framework: Any) -> None:
    matrix = drawn_matrix(40, 20, dtype, 5)
    write(tmp_path / "d.leat", matrix)
    logarithm = np.log1p(dense(matrix).astype("float64" if dtype == "float64" else "float32"))
    for name, asked, wanted in (("stored", None, dense(matrix)), ("logs", {"X": [leat.ops.Log1p()]}, logarithm)):
        leat.ports.serve(tmp_path / "d.leat", name, outputs=asked, batch_size=8, folder=tmp_path)
        try:
            for own in (None, asked):
                with leat.attach(name, folder=tmp_path, framework=framework, outputs=own, start="beginning") as reader:
                    for batch in reader:
                        found = batch["X"]
                        assert isinstance(found, leat.Sparse)
                        assert isinstance(found.values, np.ndarray if framework == "numpy" else torch.Tensor)
                        assert np.allclose(np.asarray(found.to_dense()), wanted[np.asarray(batch.ids)])
        finally:
            leat.ports.stop(name, folder=tmp_path)


def test_a_run_goes_on_on_other_ranks_and_its_rows_are_made_anywhere(tmp_path: Path) -> None:
    ds = write(tmp_path / "d.leat", drawn_matrix(64, 20, "float32", 6))
    whole = leat.Loader(ds, global_batch_size=8, shuffle=True, framework="numpy", rank=0, world_size=1)
    batches = [b["X"].to_dense() for b in whole]
    first = leat.Loader(ds, global_batch_size=8, shuffle=True, framework="numpy", rank=0, world_size=1)
    iterator = iter(first)
    next(iterator)
    for rank in range(2):
        other = leat.Loader(ds, global_batch_size=8, shuffle=True, framework="numpy", rank=rank, world_size=2)
        other.load_state_dict(first.state_dict())
        rows = [b["X"].to_dense() for b in other]
        assert all((r == b[4 * rank : 4 * rank + 4]).all() for r, b in zip(rows, batches[1:], strict=True))
    assert (leat.make_rows(whole.plan_rows(0, 2))["X"].to_dense() == batches[2]).all()


def test_columns_are_sorted_and_wrong_ones_refused(tmp_path: Path) -> None:
    def add(value: Any) -> leat.Sparse:
        with leat.Writer(tmp_path / "d.leat", {"X": leat.sparse("float32", 10)}, overwrite=True) as w:
            w.add(X=value)
        return leat.open(tmp_path / "d.leat")[0]["X"]

    made = add((torch.tensor([1.0, 2.0]), [7, 3]))
    assert made.columns.tolist() == [3, 7] and made.values.tolist() == [2, 1]
    assert add(made).columns.tolist() == [3, 7]
    for value, wrong in (
        (([1.0, 2.0], [3, 3]), "column 3 is there twice"),
        (([1.0], [10]), "column 10 is not of 0 to 9"),
        (([1.0], [-1]), "column -1 is not of 0 to 9"),
        (([1.0], [1, 2]), "has 1 values and 2 columns"),
        (sp.csr_matrix((2, 10)), "takes one row of 10 columns"),
        (sp.csr_matrix((1, 9)), "takes one row of 10 columns"),
    ):
        with pytest.raises(ValueError, match=wrong):
            add(value)
    for value, wrong in ((5, r"a leat.Sparse of one row"), (([1.0], [0.5]), "a list of whole numbers")):
        with pytest.raises(TypeError, match=wrong):
            add(value)
    good = leat.Sparse(np.ones(3), np.array([0, 2, 1]), np.array([0, 2, 3]), 3)
    assert leat.from_arrays(X=good)[1]["X"].columns.tolist() == [1]
    for columns, offsets, wrong in (
        ([2, 0, 1], [0, 2, 3], "column 0 of row 0 stands behind 2"),
        ([0, 3, 1], [0, 2, 3], "column 3, of value 1, is not of 0 to 2"),
        ([0, 2, 1], [0, 2, 1], "offsets that descend"),
        ([0, 2, 1], [0, 2, 4], "offsets up to 4"),
    ):
        with pytest.raises(ValueError, match=wrong):
            leat.from_arrays(X=leat.Sparse(np.ones(3), np.array(columns), np.array(offsets), 3))
    for n, dtype in ((0, "float32"), (1 << 31, "float32"), (5, "bfloat16"), (5, "text")):
        with pytest.raises(ValueError, match=r"n is|dtype"):
            leat.sparse(dtype, n)


def test_any_matrix_of_scipy_and_any_integers_are_taken(tmp_path: Path) -> None:
    matrix = drawn_matrix(12, 9, "float32", 8)
    unsorted = matrix.copy()
    for i in range(12):
        begin, end = matrix.indptr[i : i + 2]
        unsorted.indices[begin:end] = matrix.indices[begin:end][::-1]
        unsorted.data[begin:end] = matrix.data[begin:end][::-1]
    unsorted.has_sorted_indices = unsorted.has_canonical_format = False
    foreign = matrix.copy()
    foreign.data = foreign.data.astype(">f4")
    large = leat.Sparse(matrix.data, matrix.indices.astype(np.uint64), matrix.indptr.astype(np.uint32), 9)
    shifted = leat.Sparse(np.append(7, matrix.data), np.append(0, matrix.indices), matrix.indptr + 1, 9)
    for given_rows in (matrix.tocsc(), sp.csr_array(matrix), matrix.tocoo(), unsorted, foreign, large, shifted):
        ds = leat.from_arrays(X=given_rows)
        assert (next(iter(leat.Loader(ds, 12, framework="numpy")))["X"].to_dense() == dense(matrix)).all()
        assert (leat.apply({"X": [leat.ops.Densify()]}, {"X": given_rows})["X"] == dense(matrix)).all()
    for given_rows in (matrix, sp.csr_array(matrix), leat.from_arrays(X=matrix)[:].select(range(12))):
        rows = [r["X"] for r in given_rows] if isinstance(given_rows, leat.Dataset) else given_rows
        with leat.Writer(tmp_path / "d.leat", {"X": leat.sparse("float32", 9)}, overwrite=True) as w:
            w.write_batch({"X": rows})
        assert (next(iter(leat.Loader(leat.open(tmp_path / "d.leat"), 12, framework="numpy")))["X"].to_dense()
                == dense(matrix)).all()  # fmt: skip
    with leat.Writer(tmp_path / "d.leat", {"X": leat.sparse("float64", 10)}, overwrite=True) as w:
        w.add(X=leat.Sparse(np.arange(5.0), np.arange(5), np.array([2, 4]), 10))
    assert leat.open(tmp_path / "d.leat")[0]["X"].values.tolist() == [2, 3]
    for wrong, said in (
        (
            leat.Sparse(np.ones(2), np.array([2, 0], np.uint32), np.array([0, 2]), 3),
            "column 0 of row 0 stands behind 2",
        ),
        (leat.Sparse(np.ones(2), np.array([2, 2], np.uint32), np.array([0, 2]), 3), "column 2 is there twice in row 0"),
        (leat.Sparse(np.ones(3), np.arange(3), np.array([0, 3, 1], np.uint64), 3), "offsets that descend"),
        (leat.Sparse(np.ones(2), np.array([0.2, 1.7]), np.array([0, 2]), 3), "columns are a list of whole numbers"),
        (leat.Sparse(np.ones((2, 3)), np.arange(2), np.array([0, 2]), 3), "values are a list of numbers"),
        ([leat.Sparse(np.ones(1), np.arange(1), np.array([0, 1]), 3)], "give leat.sparse"),
    ):
        with pytest.raises((TypeError, ValueError), match=said):
            leat.from_arrays(X=wrong)
    with pytest.raises((TypeError, ValueError), match="uint8"):
        leat.apply({"X": []}, {"X": [([1.5], [0])]}, schema={"X": leat.sparse("uint8", 4)})
    with pytest.raises(ValueError, match="cannot be a sparse"):
        leat.apply({"X": []}, {"X": matrix}, schema={"X": leat.sparse("float64", 9)})


def test_parts_that_are_asked_for_are_lists(tmp_path: Path) -> None:
    matrix = drawn_matrix(9, 5, "float32", 9)
    ds = write(tmp_path / "d.leat", matrix)
    parts = {"v": leat.Out("X", [leat.ops.SparsePart("values")]), "c": leat.Out("X", [leat.ops.SparsePart("columns")])}
    batch = next(iter(leat.Loader(ds, 9, outputs=parts, framework="numpy")))
    assert isinstance(batch["v"], leat.Ragged) and batch["v"].values.tolist() == matrix.data.tolist()
    assert batch["c"].values.tolist() == matrix.indices.tolist() and list(batch) == ["v", "c"]
    alone = next(iter(leat.Loader(ds, 9, outputs={"X": [leat.ops.SparsePart("values")]}, framework="numpy")))
    assert isinstance(alone["X"], leat.Ragged)


@pytest.mark.parametrize("framework", ["numpy", "torch"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_store_keeps_sparse_rows_however_they_are_given(tmp_path: Path, dtype: str, framework: Any) -> None:
    matrix = drawn_matrix(12, 9, dtype, 10)
    rows = leat.from_arrays(X=matrix)
    whole = rows.schema["X"]
    store = leat.Store(tmp_path / "s", {"X": whole, "n": "int64"}, framework=framework)
    assert store.fields["X"] == whole
    tensor = next(iter(leat.Loader(rows, 12, framework="torch")))["X"]
    given_rows = [matrix, matrix.tocoo(), [r["X"] for r in rows], tensor, tensor.to_torch(), tensor._map(np.asarray)]
    for k, given_all in enumerate(given_rows):
        store[range(100 * k, 100 * k + 12)] = {"X": given_all, "n": np.arange(12)}
    store[7000] = {"X": (np.array([3, 1], dtype), [8, 0]), "n": 5}
    store[7001] = {"X": matrix[3], "n": 5}
    store.close()
    with leat.Store(tmp_path / "s", read_only=True, framework=framework) as again:
        assert again.fields == {"X": whole, "n": leat.field("int64")}
        order = np.random.default_rng(1).permutation(12)
        for k in range(len(given_rows)):
            found, present = again.gather(np.append(order + 100 * k, 6999), "X")
            assert present.tolist() == [True] * 12 + [False]
            assert isinstance(found, leat.Sparse) and (found.n, len(found)) == (9, 13)
            assert (np.asarray(found.to_dense())[:12] == dense(matrix)[order]).all() and len(found[12].values) == 0
            assert isinstance(found.values, torch.Tensor if framework == "torch" else np.ndarray)
        assert found.to_torch().shape == (13, 9)
        two = again.gather([7000, 7001])[0]["X"]
        assert two[0].columns.tolist() == [0, 8] and (np.asarray(two[1].to_dense()) == dense(matrix[3])).all()


def test_a_batch_has_the_sparse_rows_of_a_store(tmp_path: Path) -> None:
    matrix = drawn_matrix(50, 20, "float32", 11)
    ds = leat.from_arrays(y=np.arange(50))
    store = leat.Store(tmp_path / "s", {"X": leat.sparse("float32", 20)}, dataset=ds)
    store[range(0, 50, 2)] = matrix[::2]
    store.flush()
    for framework in ("numpy", "torch"):
        for batch in leat.Loader(ds, 8, shuffle=True, framework=framework, stores={"x": store}):
            wanted = dense(matrix)[np.asarray(batch.ids)] * np.asarray(batch["x.present"])[:, None]
            assert isinstance(batch["x"], leat.Sparse) and (np.asarray(batch["x"].to_dense()) == wanted).all()
            assert (np.asarray(batch["x.present"]) == (np.asarray(batch.ids) % 2 == 0)).all()
            assert [len(part["x"]) for part in batch.split(4)] == [4, 4][: -(-len(batch.ids) // 4)] or batch.size < 8


def test_a_store_refuses_rows_that_are_not_its_own(tmp_path: Path) -> None:
    store = leat.Store(tmp_path / "s", {"X": leat.sparse("float32", 5)}, framework="numpy")
    falls = leat.Sparse(np.ones(2, np.float32), np.array([3, 1]), np.array([0, 2]), 5)
    wide, many = sp.csr_matrix((1, 6), dtype=np.float32), sp.csr_matrix((2, 5), dtype=np.float32)
    for value, wrong in (
        (falls, "column 1 of row 0 stands behind 3"),
        (wide, "takes rows of 5 columns, not Sparse"),
        (many, "has 2 rows for 1 ids"),
        ([many], "takes one row of 5 columns"),
        (sp.csr_matrix(np.ones((1, 5))), "takes float32, not float64"),
        (np.ones((1, 5)), "give a leat.Sparse, a matrix of SciPy"),
        ([([1.0], [5])], "column 5 is not of 0 to 4"),
    ):
        with pytest.raises((TypeError, ValueError), match=wrong):
            store[[1]] = value
    store[[]] = many[:0]
    store.flush()
    assert len(store) == 0 and len(store.gather([])[0]) == 0
    for other in (leat.sparse("float32", 6), leat.sparse("int32", 5), leat.field("uint8", (None, 8))):
        with pytest.raises(leat.ProgramError, match="other fields"):
            leat.Store(tmp_path / "s", {"X": other})


def test_a_struct_of_two_lists_of_arrow_is_sparse_rows(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    def struct(values: Any, columns: Any, dtype: str = "float32") -> Any:
        lists = [pa.array(values, pa.list_(pa.type_for_alias(dtype))), pa.array(columns, pa.large_list(pa.int64()))]
        return pa.StructArray.from_arrays(lists, ["values", "columns"])

    matrix = drawn_matrix(40, 9, "float32", 13)
    rows = [matrix[i] for i in range(40)]
    table = pa.table({"X": struct([r.data for r in rows], [r.indices for r in rows]), "y": list(range(40))})
    fields = {"X": leat.sparse("float32", 9), "y": None}
    pq.write_table(table, tmp_path / "t.parquet", row_group_size=15)
    for ds in (
        leat.from_arrow(table, fields=fields),
        leat.from_arrow(pa.concat_tables([table[:7], table[7:]]), fields=fields),
        leat.open(tmp_path / "t.parquet", fields=fields),
    ):
        assert ds.schema["X"] == fields["X"]
        for batch in leat.Loader(ds, 16, shuffle=True, framework="numpy"):
            assert (batch["X"].to_dense() == dense(matrix)[batch["y"]]).all()
    assert len(leat.from_arrow(table[:0], fields=fields)) == 0
    assert list(leat.from_arrow(table).schema) == ["X.values", "X.columns", "y"]
    for column, field, wrong in (
        (table["X"], leat.sparse("int32", 9), "has values of float32"),
        (table["y"], leat.sparse("int64", 9), "a struct of lists, values and columns"),
        (table["X"], leat.sparse("float32", 2), "is not of 0 to 1"),
        (struct([[1], None], [[1], None]), leat.sparse("float32", 2), "row 1 of column 'X' is missing"),
        (struct([[1], [1]], [[1], [0, 1]]), leat.sparse("float32", 2), "row 1 of column 'X' has 1 values and 2"),
        (struct([[1, 2]], [[1, 0]]), leat.sparse("float32", 2), "column 0 of row 0 stands behind 1"),
    ):
        with pytest.raises(ValueError, match=wrong):
            leat.from_arrow(pa.table({"X": column}), fields={"X": field})
    with pytest.raises(ValueError, match="nothing stands for missing sparse rows"):
        leat.from_arrow(table, fields=fields, fill={"X": 0})
    given_rows = [{"values": r.data, "columns": r.indices} for r in rows]
    lent = leat.apply({"X": [leat.ops.Densify()]}, {"X": given_rows}, schema={"X": fields["X"]})["X"]
    assert (lent == dense(matrix)).all()


class Rows:
    """Samples of a data set, and with each the one behind it."""

    def __init__(self, ds: leat.Dataset, tensors: bool = False) -> None:
        self.ds, self.tensors = ds, tensors

    def __len__(self) -> int:
        return len(self.ds) - 1

    def __getitem__(self, i: int) -> Any:
        row, y = self.ds[i]["X"], self.ds[i]["y"]
        return {"X": row._map(torch.as_tensor) if self.tensors else row, "both": (self.ds[i : i + 2][1]["X"], y)}


@pytest.mark.parametrize("num_workers", [0, 2])
@pytest.mark.filterwarnings("ignore:'pin_memory' argument is set", "ignore:This DataLoader will create")
def test_the_default_collation_joins_sparse_rows(tmp_path: Path, num_workers: int) -> None:
    matrix = drawn_matrix(31, 20, "float32", 12)
    ds = write(tmp_path / "d.leat", matrix)
    loader: Any = leat.DataLoader(ds, 8, num_workers=num_workers, pin_memory=True)
    at = 0
    for batch in loader:
        made = batch["X"]
        assert isinstance(made, leat.Sparse) and made.values.dtype == torch.float32
        assert (made.columns.dtype, made.offsets.dtype) == (torch.int32, torch.int64) and int(made.offsets[0]) == 0
        assert (made.to_dense().numpy() == dense(matrix)[at : at + 8]).all()
        assert batch["y"].tolist() == list(range(at, min(at + 8, 31)))
        assert made.to("cpu").to_torch().shape == made.shape
        at += 8
    for tensors in (False, True):
        loader = leat.DataLoader(Rows(ds, tensors), 7, shuffle=True, num_workers=num_workers)
        for batch in loader:
            ids = batch["both"][1].numpy()
            assert (batch["X"].to_dense().numpy() == dense(matrix)[ids]).all()
            assert (batch["both"][0].to_dense().numpy() == dense(matrix)[ids + 1]).all()


def test_sparse_rows_of_other_columns_are_no_batch() -> None:
    from leat.data.sparse import collated

    rows = [leat.from_arrays(X=drawn_matrix(2, n, "float32", 1))[0]["X"] for n in (5, 5, 6)]
    assert len(collated(rows[:2])) == 2
    with pytest.raises(ValueError, match="rows of 5 and of 6 columns"):
        collated(rows)


def test_sparse_rows_are_pinned_part_by_part(monkeypatch: pytest.MonkeyPatch) -> None:
    from torch.utils.data._utils.pin_memory import pin_memory

    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda tensor: tensor + 1)
    rows = leat.Sparse(np.ones(2, np.float32), np.array([0, 2], np.int32), np.array([0, 2]), 5)
    pinned = pin_memory({"X": rows}, "cuda")["X"]
    assert [part.tolist() for part in (pinned.values, pinned.columns, pinned.offsets)] == [[2, 2], [1, 3], [1, 3]]
    assert pinned.n == 5


def test_what_takes_no_sparse_rows_says_so(tmp_path: Path) -> None:
    ds = write(tmp_path / "d.leat", drawn_matrix(9, 5, "float32", 7))
    with pytest.raises(TypeError, match="put Densify before it.*sparse row of float32 with 5 columns"):
        leat.Loader(ds, 2, outputs={"X": [leat.ops.ToDtype("float32")]})
    with pytest.raises(TypeError, match=r"takes no sparse rows: put leat.ops.Densify\(\) before it"):
        leat.Loader(ds, 2, outputs={"X": [leat.ops.Map(len)]})
    with pytest.raises(TypeError, match="varies in size"):
        ds.column("X")
    for outputs in ({("X", "y"): []}, {"X": leat.Out("X", [], stack="list")}, {"X": leat.Out("X", [], geometry=True)}):
        with pytest.raises(TypeError, match=r"chain of its own|neither geometry nor stack"):
            leat.Loader(ds, 2, outputs=outputs)
    with pytest.raises((TypeError, ValueError), match="windows are cut from fields"):
        leat.windows(ds, "X", 4, 4)
    with pytest.raises((TypeError, ValueError), match="number of columns"):
        leat.concat([ds, write(tmp_path / "e.leat", drawn_matrix(9, 6, "float32", 7))])
    with pytest.raises((TypeError, ValueError), match="dtype|shape"):
        leat.concat([ds, write(tmp_path / "f.leat", drawn_matrix(9, 5, "float64", 7))])


def test_a_row_of_a_batch_is_a_view() -> None:
    rows = leat.Sparse(np.arange(5.0), np.array([0, 3, 1, 0, 2], np.int32), np.array([0, 2, 2, 5]), 4)
    assert len(rows) == 3 and [r.values.tolist() for r in rows] == [[0, 1], [], [2, 3, 4]]
    assert rows[-1].columns.tolist() == [1, 0, 2] and np.shares_memory(rows[-1].values, rows.values)
    assert rows[1:].lengths.tolist() == [0, 3] and len(rows[2:1]) == 0
    with pytest.raises(IndexError, match="row 3 is out of range"):
        rows[3]
    with pytest.raises(ValueError, match="has no step"):
        rows[::2]


def test_the_command_shows_the_field(tmp_path: Path) -> None:
    write(tmp_path / "d.leat", drawn_matrix(9, 5, "float32", 7))
    from cli_support import command

    said = subprocess.run([command(), "info", tmp_path / "d.leat"], capture_output=True, text=True, check=True).stdout
    assert "  X  sparse float32, 5 columns\n" in said


# ---- genes by name ---------------------------------------------------------------------------------------------------


def with_genes(matrix: Any, genes: list[str]) -> leat.Dataset:
    ds = leat.from_arrays(X=matrix, other=np.zeros((matrix.shape[0], 3)))
    ds.metadata = {"genes": genes}
    return ds


def ranked(row: Any, tokens: Any, medians: Any, most: int, bos: int | None, eos: int | None) -> list[int]:
    """The order of one cell, as NumPy has it."""
    row, tokens, medians = np.asarray(row, np.float64), np.asarray(tokens), np.asarray(medians, np.float64)
    with np.errstate(all="ignore"):
        norm = row / medians
    counts = np.flatnonzero((row > 0) & (tokens >= 0) & (medians > 0))
    order = counts[np.argsort(-norm[counts], kind="stable")]
    ends = [[] if token is None else [token] for token in (bos, eos)]
    return [*ends[0], *tokens[order][: most - len(ends[0]) - len(ends[1])].tolist(), *ends[1]]


def of_scipy(dtype: str) -> str:
    """SciPy has no sparse float16."""
    return "float32" if dtype == "float16" else dtype


def as_dtype(matrix: Any, dtype: str) -> leat.Sparse:
    return leat.Sparse(matrix.data.astype(dtype), matrix.indices, matrix.indptr, matrix.shape[1])


RANKED = ("uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64", "float16", "float32", "float64")


@pytest.mark.parametrize("dtype", [*RANKED, "bool"])
@pytest.mark.parametrize("ends", [(None, None), (1, 2), (None, 2)])
def test_ranked_tokens_are_those_of_a_stable_sort(tmp_path: Path, dtype: str, ends: tuple[Any, Any]) -> None:
    r = np.random.default_rng(len(dtype))
    genes, rows = 700, 40
    matrix = drawn_matrix(rows, genes, of_scipy(dtype), 11)
    if dtype[0] in "if":
        matrix.data *= r.choice([-1, 1, 1, 1], len(matrix.data)).astype(dtype)
    if dtype[0] == "f":
        matrix.data[::3] *= r.random(len(matrix.data[::3])).astype(np.float16)
        matrix.data[::50] = 0  # stored
        matrix.data[7] = np.inf
        matrix.data = matrix.data.astype(dtype).astype(of_scipy(dtype))
    tokens = np.where(r.random(genes) < 0.1, -1, r.permutation(genes) + 5)
    medians = r.choice([0.5, 1, 1.5, 3, 0, np.nan, -1], genes, p=[0.3, 0.3, 0.2, 0.17, 0.01, 0.01, 0.01])
    with leat.Writer(tmp_path / "d.leat", {"X": leat.sparse(dtype, genes)}) as w:
        w.write_batch({"X": list(as_dtype(matrix, dtype))})
    for most in (4, 60, 2048):
        op = leat.ops.RankTokens(tokens, medians, most, bos=ends[0], eos=ends[1])
        wanted = [ranked(row, tokens, medians, most, *ends) for row in dense(matrix)]
        packed = leat.open(tmp_path / "d.leat")
        for batch in leat.Loader(packed, 16, shuffle=True, outputs={"X": [op]}, framework="numpy"):
            assert isinstance(batch["X"], leat.Ragged) and batch["X"].values.dtype == np.int64
            assert [row.tolist() for row in batch["X"].unbind()] == [wanted[i] for i in batch.ids]
        applied = leat.apply({"X": [op]}, {"X": as_dtype(matrix, dtype)})["X"]
        assert [row.tolist() for row in applied.unbind()] == wanted
        if dtype == "bool":
            continue
        whole = leat.from_arrays(X=dense(matrix).astype(dtype))
        for batch in leat.Loader(whole, 16, outputs={"X": [op]}, framework="numpy"):
            assert [row.tolist() for row in batch["X"].unbind()] == [wanted[i] for i in batch.ids]


@examples(60)
@given(st.integers(1, 3000), st.sampled_from(["few", "close", "spread", "one far"]), st.integers(0, 999))
def test_quotients_of_any_distribution_are_sorted_to_their_last_bit(n: int, kind: str, seed: int) -> None:
    r = np.random.default_rng(seed)
    values = {
        "few": lambda: r.integers(1, 4, n).astype(float),
        "close": lambda: 1 + r.integers(0, 9, n) * 2.0**-52,
        "spread": lambda: np.exp(r.normal(0, 100, n)),
        "one far": lambda: np.where(np.arange(n) == n // 2, r.choice([1e-300, 5e-324, 1e300]), 1 + r.random(n)),
    }[kind]()
    tokens, medians = r.permutation(n), r.choice([1, 1, 0.1, 7], n)
    op = leat.ops.RankTokens(tokens, medians, n + 1, eos=n)
    found = leat.apply({"X": [op]}, {"X": sp.csr_matrix(values[None])})["X"]
    assert found.values.tolist() == ranked(values, tokens, medians, n + 1, None, n)


def test_operators_follow_ranked_tokens_and_go_before_them(tmp_path: Path) -> None:
    matrix = drawn_matrix(30, 50, "float32", 12)
    ds = write(tmp_path / "d.leat", matrix)
    tokens, medians = np.arange(50) + 10, np.linspace(0.5, 2, 50)
    rank = leat.ops.RankTokens(tokens, medians, 20, bos=1, eos=2)
    wanted = [ranked(row, tokens, medians, 20, 1, 2) for row in dense(matrix)]
    chain = [leat.ops.NormalizeTotal(), rank, leat.ops.PadTo(24, fill=7)]
    (batch,) = leat.Loader(ds, 30, outputs={"X": chain}, framework="numpy")
    assert batch["X"].shape == (30, 24)
    assert batch["X"].tolist() == [row + [7] * (24 - len(row)) for row in wanted]
    cut = [rank, leat.ops.PadTo(5, fill=7, cut=True)]
    (batch,) = leat.Loader(ds, 30, outputs={"X": cut}, framework="numpy")
    assert batch["X"].tolist() == [(row + [7] * 5)[:5] for row in wanted]
    with pytest.raises(leat.BrokenSampleError, match="has 20 rows, and PadTo makes 10"):
        list(leat.Loader(ds, 30, outputs={"X": [rank, leat.ops.PadTo(10, fill=7)]}, framework="numpy"))
    slices = leat.Loader(ds, 30, outputs={"X": [rank, leat.ops.RandomSlice(6)]}, framework="numpy")
    for got, row in zip(next(iter(slices))["X"].unbind(), wanted, strict=True):
        assert any(row[i : i + 6] == got.tolist() for i in range(max(len(row) - 5, 1)))
    mask = leat.ops.MaskTokens(3, 100, special_ids=(1, 2), p=0.5, replace=(1, 0))
    for more in ([], [leat.ops.PadTo(20, fill=0)]):
        (batch,) = leat.Loader(ds, 30, outputs={"X": [rank, mask, *more]}, framework="numpy")
        shown, labels = batch["X"], batch["X.labels"]
        if not more:
            assert (shown.offsets == labels.offsets).all() and shown.lengths.tolist() == [len(w) for w in wanted]
            shown, labels = shown.values, labels.values
        hidden = labels >= 0
        assert (shown[hidden] == 3).all() and 0.2 < hidden.mean() < 0.7
        assert np.where(hidden, labels, shown).ravel().tolist() == (
            sum(([*w, *[0] * (20 - len(w))] for w in wanted), []) if more else sum(wanted, [])
        )
    chosen = np.random.default_rng(1).permutation(50)[:30]
    both = [leat.ops.SelectGenes(chosen), leat.ops.RankTokens(tokens[chosen], medians[chosen], 9)]
    (batch,) = leat.Loader(ds, 30, outputs={"X": both}, framework="numpy")
    assert [row.tolist() for row in batch["X"].unbind()] == [
        ranked(row[chosen], tokens[chosen], medians[chosen], 9, None, None) for row in dense(matrix)
    ]
    filled = [leat.ops.Densify(), rank]
    (batch,) = leat.Loader(ds, 30, outputs={"X": filled}, framework="numpy")
    assert [row.tolist() for row in batch["X"].unbind()] == wanted
    lengths = [rank, leat.ops.PadTo(20, fill=0), leat.ops.Map(lambda row: row + 1)]
    (batch,) = leat.Loader(ds, 30, outputs={"X": lengths}, framework="numpy")
    assert batch["X"].tolist() == [[token + 1 for token in row + [0] * (20 - len(row))] for row in wanted]
    with pytest.raises(TypeError, match="A function cannot take output 'X', .*put PadTo before it"):
        leat.Loader(ds, 30, outputs={"X": [rank, leat.ops.Map(lambda row: row)]})
    behind = [leat.ops.Densify(), leat.ops.Map(lambda row: row * 1), rank]
    (batch,) = leat.Loader(ds, 30, outputs={"X": behind}, framework="numpy")
    assert [row.tolist() for row in batch["X"].unbind()] == wanted


def test_lengths_that_only_values_tell_hold_for_ranks_skips_resumes_and_ports(tmp_path: Path) -> None:
    matrix = drawn_matrix(64, 50, "float32", 13)
    ds = write(tmp_path / "d.leat", matrix)
    rank = leat.ops.RankTokens(np.arange(50), np.linspace(0.5, 2, 50), 12, eos=50)
    outputs: Any = {"X": [rank], "few": leat.Out("X", [leat.ops.SelectGenes(range(40, 9, -1))])}
    wanted = [ranked(row, np.arange(50), np.linspace(0.5, 2, 50), 12, None, 50) for row in dense(matrix)]

    def check(batch: Any, ids: Any) -> None:
        assert [row.tolist() for row in batch["X"].unbind()] == [wanted[i] for i in ids]
        assert (batch["few"].to_dense() == dense(matrix)[ids][:, 40:9:-1]).all()

    options: Any = {"global_batch_size": 8, "shuffle": True, "framework": "numpy", "outputs": outputs}
    whole = leat.Loader(ds, rank=0, world_size=1, **options)
    batches = list(whole)
    for batch in batches:
        check(batch, batch.ids)
        for part in batch.split(3):
            check(part, part.ids)
    first = leat.Loader(ds, rank=0, world_size=1, **options)
    next(iter(first))
    for number in range(2):
        other = leat.Loader(ds, rank=number, world_size=2, **options)
        other.load_state_dict(first.state_dict())
        for later, batch in zip(batches[1:], other, strict=True):
            assert batch.ids.tolist() == later.ids[4 * number : 4 * number + 4].tolist()
            check(batch, batch.ids)
    made = leat.make_rows(whole.plan_rows(0, 2))
    check(made, batches[2].ids)
    loose = leat.Loader(ds, 8, outputs=outputs, framework="numpy", in_order=False)
    assert sorted(i for batch in loose for i in (check(batch, batch.ids), batch.ids)[1]) == list(range(64))
    broken = matrix.copy()
    broken.data[broken.indptr[9]] = np.nan
    outputs = {"X": [rank]}
    skipping = leat.Loader(leat.from_arrays(X=broken), 8, outputs=outputs, framework="numpy", on_error="skip")
    for batch in skipping:
        assert [row.tolist() for row in batch["X"].unbind()] == [wanted[i] for i in batch.ids] and 9 not in batch.ids
    column = matrix.indices[matrix.indptr[9]]
    with pytest.raises(leat.BrokenSampleError, match=f"RankTokens in output 'X': the value of column {column} is NaN"):
        list(leat.Loader(leat.from_arrays(X=broken), 8, outputs=outputs, framework="numpy"))
    with leat.Port(whole, "ranked", folder=tmp_path):
        for theirs in (None, {"X": [rank], "few": leat.Out("X", [leat.ops.SelectGenes(range(40, 9, -1))])}):
            reader = leat.attach("ranked", folder=tmp_path, framework="numpy", outputs=theirs, start="beginning")
            batch = next(iter(reader))
            check(batch, batch.ids)
        with pytest.raises(ValueError, match="SelectGenes names genes, and the columns of 'X' have no names here"):
            leat.attach("ranked", folder=tmp_path, outputs={"X": [leat.ops.SelectGenes(["a"])]})


@pytest.mark.parametrize("dtype", [*DTYPES, "float16", "int64"])
def test_selected_genes_are_columns_of_the_matrix(tmp_path: Path, dtype: str) -> None:
    matrix, r = drawn_matrix(40, 200, of_scipy(dtype), 14), np.random.default_rng(2)
    rows = as_dtype(matrix, dtype)
    ds = leat.from_arrays(X=rows)
    for chosen in ([7], [199, 0], r.permutation(200), r.permutation(200)[:70], np.arange(0, 200, 3)):
        op = leat.ops.SelectGenes(chosen)
        outputs: Any = {"X": [op], "all": leat.Out("X", [op, leat.ops.Densify()])}
        for batch in leat.Loader(ds, 16, shuffle=True, outputs=outputs, framework="numpy"):
            wanted = dense(matrix)[batch.ids][:, chosen]
            made = batch["X"]
            assert made.shape == wanted.shape and made.values.dtype == dtype and (made.to_dense() == wanted).all()
            assert all((np.diff(row.columns) > 0).all() for row in made.unbind())
            assert (batch["all"] == wanted).all() and batch["all"].dtype == dtype
        assert (leat.apply({"X": [op]}, {"X": rows})["X"].to_dense() == dense(matrix)[:, chosen]).all()
        if dtype != "bool":
            picked = leat.apply({"X": [op]}, {"X": dense(matrix).astype(dtype)})["X"]
            assert picked.dtype == dtype and (picked == dense(matrix)[:, chosen]).all()
    chain = [leat.ops.SelectGenes(range(100, 0, -1)), leat.ops.NormalizeTotal(10), leat.ops.SelectGenes([5, 99])]
    (batch,) = leat.Loader(ds, 40, outputs={"X": chain}, framework="numpy")
    part = dense(matrix)[:, 100:0:-1].astype(float)
    sums = part.sum(1, keepdims=True)
    assert batch["X"].n == 2 and np.allclose(batch["X"].to_dense(), (part * 10 / np.where(sums, sums, 1))[:, [5, 99]])


def test_genes_may_be_selected_in_some_epochs() -> None:
    matrix = drawn_matrix(40, 30, "float32", 3)
    ds, turned = leat.from_arrays(X=matrix), leat.ops.SelectGenes(range(29, -1, -1)).epochs(1, 2)
    with leat.Loader(ds, 16, shuffle=True, outputs={"X": [turned, leat.ops.Log1p()]}, framework="numpy") as loader:
        for epoch in range(3):
            for batch in loader:
                wanted = np.log1p(dense(matrix)[batch.ids])[:, :: -1 if epoch == 1 else 1]
                assert np.allclose(batch["X"].to_dense(), wanted)


def test_genes_have_names(tmp_path: Path) -> None:
    matrix, names = drawn_matrix(20, 6, "float32", 15), ["a", "b", "c", "d", "e", "f"]
    ds, chosen = with_genes(matrix, names), leat.ops.SelectGenes(["e", "a", "b"])
    vocabulary = {"<cls>": 0, "a": 5, "e": 6, "b": 7, "z": 8}
    medians = {"a": 1.0, "e": 2.0, "b": 0.5, "z": 1.0, "f": 9.0}
    rank = leat.ops.RankTokens(vocabulary, medians, 4, bos=0)
    outputs: Any = {
        "X": [chosen],
        "tokens": leat.Out("X", rank),
        "both": leat.Out("X", [chosen, rank]),
        "all": leat.Out("X", [chosen, leat.ops.Densify()]),
    }
    again = leat.program_from_json(leat.program_to_json(outputs))
    assert again["tokens"].chain == [rank] and again["X"].chain == [chosen]
    assert hash(rank) == hash(again["both"].chain[1])
    numbers: Any = {
        "X": [leat.ops.SelectGenes([4, 0, 1])],
        "tokens": leat.Out("X", [leat.ops.RankTokens([5, 7, -1, -1, 6, -1], [1, 0.5, 0, 0, 2, 9], 4, bos=0)]),
        "both": leat.Out("X", [leat.ops.SelectGenes([4, 0, 1]), leat.ops.RankTokens([6, 5, 7], [2, 1, 0.5], 4, bos=0)]),
        "all": leat.Out("X", [leat.ops.SelectGenes([4, 0, 1]), leat.ops.Densify()]),
    }
    found = [next(iter(leat.Loader(ds, 20, outputs=o, framework="numpy"))) for o in (outputs, again, numbers)]
    for batch in found:
        assert (batch["X"].to_dense() == dense(matrix)[:, [4, 0, 1]]).all()
        assert (batch["all"] == batch["X"].to_dense()).all()
        wanted = [ranked(row, [5, 7, -1, -1, 6, -1], [1, 0.5, 0, 0, 2, 9], 4, 0, None) for row in dense(matrix)]
        assert [row.tolist() for row in batch["tokens"].unbind()] == wanted
        by_place = [ranked(row[[4, 0, 1]], [6, 5, 7], [2, 1, 0.5], 4, 0, None) for row in dense(matrix)]
        assert [row.tolist() for row in batch["both"].unbind()] == by_place
    mixed = leat.Mix({"one": (ds, 0.5), "two": (with_genes(matrix, names), 0.5)})
    assert next(iter(leat.Loader(mixed, 4, outputs={"X": [chosen]}, framework="numpy")))["X"].n == 3
    for wrong, said in (
        (leat.ops.SelectGenes([*"agbhijklm"]), "no gene 'g', 'h', 'i', 'j', 'k' and 2 more"),
        (leat.ops.RankTokens({"x": 1}, {"x": 1}, 4), "no gene of the data set has a token: it has 'a', 'b'"),
        (leat.ops.RankTokens({"a": 1, "c": 2}, {"a": 1}, 4), "there is a token and no median of 'c'"),
        (leat.ops.RankTokens({"a": 1}, [1, 2], 4), "medians has 2 entries, and rows have 6 columns"),
    ):
        with pytest.raises(ValueError, match=said):
            leat.Loader(ds, 2, outputs={"X": [wrong]})
    with pytest.raises(ValueError, match="several columns are of one gene, .*: 'a'; give column numbers"):
        leat.Loader(with_genes(matrix, [*"aabcde"]), 2, outputs={"X": [leat.ops.SelectGenes(["b", "a"])]})
    assert leat.Loader(with_genes(matrix, [*"aabcde"]), 2, outputs={"X": [leat.ops.SelectGenes(["b", "e"])]})
    other = leat.Mix({"one": (ds, 0.5), "two": (with_genes(matrix, names[::-1]), 0.5)})
    with pytest.raises(ValueError, match="the data sets that are mixed have different genes"):
        leat.Loader(other, 2, outputs={"X": [chosen]})
    for unnamed in (leat.from_arrays(X=matrix), with_genes(matrix, names[:5])):
        with pytest.raises(ValueError, match="output 'X': SelectGenes names genes, and the columns of 'X' have"):
            leat.Loader(unnamed, 2, outputs={"X": [chosen]})
    with pytest.raises(ValueError, match="RankTokens names genes, and the columns of 'X' have no names here"):
        leat.apply({"X": [rank]}, {"X": matrix})


def test_wrong_arguments_of_operators_by_gene_are_refused(tmp_path: Path) -> None:
    for make, said in (
        (lambda: leat.ops.SelectGenes([]), "at least one gene"),
        (lambda: leat.ops.SelectGenes(["a", "b", "a"]), "names has 'a' more than once"),
        (lambda: leat.ops.SelectGenes([3, 1, 3]), "names has 3 more than once"),
        (lambda: leat.ops.SelectGenes([-1]), "names is 0 or above"),
        (lambda: leat.ops.SelectGenes("TP53"), "names is a list"),
        (lambda: leat.ops.SelectGenes(["a", 1]), "a list of names, or of column numbers"),
        (lambda: leat.ops.RankTokens([1, 2], [1], 9), "there are 2 tokens and 1 medians"),
        (lambda: leat.ops.RankTokens([1, -2], [1, 1], 9), "tokens is a token of each column"),
        (lambda: leat.ops.RankTokens({"a": -1}, [1], 9), "tokens"),
        (lambda: leat.ops.RankTokens({1: 1}, [1], 9), "a dict by names of genes, and 1 is none"),
        (lambda: leat.ops.RankTokens([1], [np.inf], 9), "medians is a finite number"),
        (lambda: leat.ops.RankTokens([1], ["x"], 9), "medians is a number"),
        (lambda: leat.ops.RankTokens([1], [1], 2, bos=1, eos=2), "room for a gene beside bos and eos, and 2 has not"),
        (lambda: leat.ops.RankTokens([1], [1], 0), "max_length"),
    ):
        with pytest.raises((TypeError, ValueError), match=said):
            make()
    ds = leat.from_arrays(X=drawn_matrix(9, 5, "float32", 7), odd=np.ones((9, 2, 2), np.float32))
    for outputs, said in (
        ({"X": [leat.ops.SelectGenes([5])]}, "SelectGenes in output 'X' takes column 5, and rows have 5"),
        ({"X": [leat.ops.RankTokens([1] * 4, [1] * 4, 9)]}, "has tokens of 4 columns, and rows have 5"),
        ({"odd": [leat.ops.SelectGenes([0])]}, "takes a sparse row, or a dense one of numbers"),
        ({"odd": [leat.ops.RankTokens([1], [1], 9)]}, "takes a sparse row, or a dense one of numbers"),
        ({("X", "odd"): [leat.ops.SelectGenes([0])]}, "give it a chain of its own"),
        ({"X": [leat.ops.SelectGenes([1, 2]).epochs(1)]}, "must not change what it is"),
        (
            {"X": [leat.ops.SelectGenes([1, 2]).epochs(stop=1), leat.ops.SelectGenes([0]).epochs(1)]},
            "must not change what it is",
        ),
        ({"X": [leat.ops.RankTokens([1] * 5, [1] * 5, 9), leat.ops.Densify()]}, "takes a sparse row, or a dense one"),
    ):
        with pytest.raises(TypeError, match=said):
            leat.Loader(ds, 2, outputs=outputs)
    empty = leat.from_arrays(X=sp.csr_matrix((3, 5), dtype=np.float32))
    tokens = leat.ops.RankTokens([1] * 5, [1] * 5, 9)
    (batch,) = leat.Loader(empty, 3, outputs={"X": [tokens]}, framework="numpy")
    assert batch["X"].lengths.tolist() == [0, 0, 0]
    long = leat.ops.RankTokens(range(9), [1] * 9, 9)
    assert repr(long) == "RankTokens(tokens=<9 genes>, medians=<9 genes>, max_length=9, bos=None, eos=None)"
    assert repr(leat.ops.SelectGenes(["a"], name="x")) == "SelectGenes(names=('a',), name='x')"
