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
    with pytest.raises(TypeError, match="a store has no sparse rows"):
        leat.Store(tmp_path / "s", {"X": leat.sparse("float32", 5)})
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
