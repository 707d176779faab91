"""SCDL: what leat writes is read again, and headers of any bytes give a reading or an error that names them."""

from __future__ import annotations

import contextlib
import os
import signal
import struct
import subprocess
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import leat

pytest.importorskip("h5py")
pytest.importorskip("pyarrow")
from cells_support import names, path

SPARSE = [n for n in names(".h5ad", ".h5") if not n.startswith(("array", "plain", "dense"))] + ["10x-mtx", "scdl-one"]
DTYPES = {"uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64", "float16", "float32", "float64"}


def opened(name: str, tmp_path: Path) -> leat.Dataset:
    try:
        return leat.open(path(name), index_dir=tmp_path / "kept")
    except leat.InvalidError:  # of several genomes
        return leat.open(path(name), index_dir=tmp_path / "kept", genome="GRCh38")


def rows_of(dtype: str, seed: int = 1, cells: int = 300, genes: int = 70) -> Any:
    rng = np.random.default_rng(seed)
    lengths = rng.integers(0, 20, cells)
    columns = [np.sort(rng.choice(genes, n, replace=False)) for n in lengths]
    values = rng.integers(0, 128, int(lengths.sum())).astype(dtype)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    return leat.Sparse(values, np.concatenate(columns).astype(np.int32), offsets, genes)


def dense(ds: leat.Dataset, field: str = "X") -> np.ndarray[Any, Any]:
    return np.concatenate([ds[i][field].to_dense() for i in range(len(ds))])


# --- what is written is read again ------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", SPARSE)
def test_cells_of_every_format_are_written_and_read_again(name: str, tmp_path: Path) -> None:
    ds = opened(name, tmp_path)
    if ds.schema["X"].kind != "sparse":
        with pytest.raises(TypeError, match="SCDL has sparse rows"):
            leat.write_scdl(ds, tmp_path / "out")
        return
    leat.write_scdl(ds, tmp_path / "out")
    again = leat.open(tmp_path / "out")
    assert np.array_equal(dense(again), dense(ds)) and again.genes == ds.genes
    assert {k: v.tolist() for k, v in again.var.items()} == {k: v.tolist() for k, v in ds.var.items()}
    columns = [n for n, k in ds.schema.items() if n.startswith("obs.") and not n.endswith(".code") and k.shape == ()]
    assert {n for n in again.schema if n.startswith("obs.")} == set(columns)
    for column in [*columns, "name"]:
        wanted = ds.column(column)
        if f"{column}.valid" in ds.schema:
            valid = ds.column(f"{column}.valid")
            wanted = np.where(valid, wanted, "" if wanted.dtype.kind == "O" else 0)
        np.testing.assert_array_equal(again.column(column), wanted, column)
        assert str(again.schema[column]) == str(ds.schema[column])
    assert sorted(p.name for p in tmp_path.iterdir() if p.name != "kept") == ["out"]


def test_a_directory_of_bionemo_is_written_byte_by_byte(tmp_path: Path) -> None:
    leat.write_scdl(leat.open(path("scdl-one")), tmp_path / "out")
    for name in ("header.sch", "data.npy", "row_ptr.npy", "col_ptr.npy", "metadata.json", "version.json"):
        assert (tmp_path / "out" / name).read_bytes() == (path("scdl-one") / name).read_bytes(), name


@pytest.mark.parametrize("dtype", sorted(DTYPES))
def test_values_of_every_type_are_written(tmp_path: Path, dtype: str) -> None:
    rows = rows_of(dtype)
    leat.write_scdl(leat.from_arrays(X=rows), tmp_path / "out")
    again = leat.open(tmp_path / "out")
    wanted = np.dtype(f"u{np.dtype(dtype).itemsize}") if dtype.startswith("int") else np.dtype(dtype)
    assert again.schema["X"].dtype == wanted.name and again.genes == [str(i) for i in range(70)]
    assert np.array_equal(dense(again), rows.to_dense())
    assert again.column("name").tolist() == [str(i) for i in range(300)]


@pytest.mark.parametrize(("genes", "size"), [(256, 1), (257, 2), (65536, 2), (65537, 4)])
def test_columns_and_pointers_have_the_smallest_types(tmp_path: Path, genes: int, size: int) -> None:
    rows = leat.Sparse(np.ones(2, "f4"), np.array([0, genes - 1], np.int32), np.array([0, 0, 2]), genes)
    leat.write_scdl(leat.from_arrays(X=rows), tmp_path / "out")
    assert (tmp_path / "out" / "col_ptr.npy").stat().st_size == 2 * size
    assert (tmp_path / "out" / "row_ptr.npy").read_bytes() == b"\0\0\2"
    assert leat.open(tmp_path / "out")[1]["X"].columns.tolist() == [0, genes - 1]


def test_columns_about_cells_keep_types_and_missing_values(tmp_path: Path) -> None:
    donors = leat.Ragged(np.frombuffer("aäb".encode(), np.uint8), np.array([0, 1, 1, 3, 4]))
    ds = leat.from_arrays(
        {"donor": leat.field("str")},
        X=rows_of("float32", cells=4),
        small=np.arange(4, dtype="int16"),
        half=np.arange(4, dtype="float32") / 2,
        flag=np.array([True, False, False, True]),
        donor=donors,
        wide=np.zeros((4, 3)),
    )
    leat.write_scdl(ds, tmp_path / "out")
    again = leat.open(tmp_path / "out")
    assert [str(again.schema[f"obs.{n}"]) for n in ("small", "half", "flag", "donor")] == [
        str(ds.schema[n]) for n in ("small", "half", "flag", "donor")
    ]
    for name in ("small", "half", "flag", "donor"):
        assert again.column(f"obs.{name}").tolist() == ds.column(name).tolist()
    assert "obs.wide" not in again.schema


def test_a_view_writes_its_rows(tmp_path: Path) -> None:
    ds = opened("anndata-0.12.19.h5ad", tmp_path)
    leat.write_scdl(ds[3:9].select([4, 0, 2]), tmp_path / "out")
    again = leat.open(tmp_path / "out")
    assert np.array_equal(dense(again), dense(ds)[[7, 3, 5]]) and again.genes == ds.genes


def test_no_rows_are_written(tmp_path: Path) -> None:
    leat.write_scdl(leat.from_arrays(X=rows_of("float32"))[:0], tmp_path / "out")
    assert (tmp_path / "out" / "data.npy").stat().st_size == 0
    assert len(leat.open(tmp_path / "out")) == 0


# --- what is refused --------------------------------------------------------------------------------------------------
def test_nothing_is_replaced_and_what_cannot_be_said_is_refused(tmp_path: Path) -> None:
    ds = leat.from_arrays(X=rows_of("int32"), y=np.zeros(300))
    (tmp_path / "there").mkdir()
    (tmp_path / "file").write_bytes(b"")
    for name in ("there", "file"):
        with pytest.raises(FileExistsError, match=f"{name} exists"):
            leat.write_scdl(ds, tmp_path / name)
    with pytest.raises(KeyError, match='no field "Z"'):
        leat.write_scdl(ds, tmp_path / "out", "Z")
    with pytest.raises(TypeError, match="SCDL has sparse rows"):
        leat.write_scdl(ds, tmp_path / "out", "y")
    with pytest.raises(TypeError, match="takes a data set"):
        leat.write_scdl(tmp_path, tmp_path / "out")  # type: ignore[arg-type]
    wrong = rows_of("int32")
    wrong.values[700] = -1
    sample = int(np.searchsorted(wrong.offsets, 700, "right")) - 1
    with pytest.raises(leat.InvalidError, match=f"sample {sample} has a value below 0"):
        leat.write_scdl(leat.from_arrays(X=wrong), tmp_path / "out")
    with pytest.raises(leat.InvalidError, match="two fields would become the column 'obs_feature_id'"):
        leat.write_scdl(leat.from_arrays(X=wrong, name=ds.column("y"), obs_feature_id=ds.column("y")), tmp_path / "out")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["file", "there"]


def test_writing_that_is_killed_leaves_only_a_partial_directory(tmp_path: Path) -> None:
    code = """
import os, signal, sys
import numpy as np
import leat
from leat.data.cells import scdl_writer
rows = leat.Sparse(np.ones(1000, "f4"), np.zeros(1000, "i4"), np.arange(1001), 3)
scdl_writer._header = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
leat.write_scdl(leat.from_arrays(X=rows), sys.argv[1])
"""
    ended = subprocess.run([sys.executable, "-c", code, tmp_path / "out"], timeout=200)
    assert ended.returncode == -signal.SIGKILL
    (left,) = tmp_path.iterdir()
    assert left.name.startswith("out.") and left.name.endswith(".partial")
    with pytest.raises(leat.Error):
        leat.open(left)
    leat.write_scdl(leat.from_arrays(X=rows_of("float32")), tmp_path / "out")
    assert len(leat.open(tmp_path / "out")) == 300


def test_writing_that_fails_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from leat.data.cells import scdl_writer

    def fails(*_: Any) -> bytes:
        raise KeyboardInterrupt

    monkeypatch.setattr(scdl_writer, "_header", fails)
    with pytest.raises(KeyboardInterrupt):
        leat.write_scdl(leat.from_arrays(X=rows_of("float32")), tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_rows_are_written_in_little_memory(tmp_path: Path) -> None:
    cells, each = 20_000, 200
    columns = np.tile(np.arange(each, dtype=np.int32), cells)
    rows = leat.Sparse(np.ones(len(columns), "f4"), columns, np.arange(cells + 1) * each, 1000)
    ds = leat.from_arrays(X=rows)
    tracemalloc.start()
    try:
        leat.write_scdl(ds, tmp_path / "out")
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    written = sum(p.stat().st_size for p in (tmp_path / "out").rglob("*") if p.is_file())
    assert written > 4 * cells * each and most < written / 2


# --- headers ----------------------------------------------------------------------------------------------------------
HEADERS = {n: (path(n) / "header.sch").read_bytes() for n in ("scdl-one", "scdl-two")}
ERRORS = (leat.FormatError, leat.CorruptError, leat.UnsupportedError)


def read_header(raw: bytes) -> Any:
    from leat.data.cells.scdl import arrays_of

    try:
        return arrays_of("header.sch", raw)
    except ERRORS as e:
        assert "header.sch" in str(e)
        return None


@pytest.mark.parametrize("name", HEADERS)
def test_a_header_that_ends_anywhere_is_an_error_until_its_arrays_are_there(name: str) -> None:
    raw = HEADERS[name]
    whole = read_header(raw)
    end = raw.index(b"var_features") - 8
    assert list(whole) == ["DATA", "ROWPTR", "COLPTR"]
    assert [read_header(raw[:n]) for n in range(end)] == [None] * end
    assert all(read_header(raw[:n]) == whole for n in range(end, len(raw)))


@given(st.data())
def test_a_header_with_other_bytes_is_read_or_is_an_error(data: st.DataObject) -> None:
    raw = bytearray(HEADERS[data.draw(st.sampled_from(sorted(HEADERS)))])
    for at, byte in data.draw(st.lists(st.tuples(st.integers(0, 120), st.integers(0, 255)), min_size=1, max_size=6)):
        raw[at] = byte
    found = read_header(bytes(raw[: data.draw(st.integers(0, len(raw)))]))
    for length, dtype in (found or {}).values():
        assert 0 <= length < 2**64 and dtype.itemsize <= 8


@given(st.binary(max_size=200))
def test_a_header_of_any_bytes_behind_its_beginning_is_read_or_is_an_error(rest: bytes) -> None:
    read_header(HEADERS["scdl-one"][:12] + rest)


def test_counts_that_no_header_has_room_for_end_at_once() -> None:
    raw = HEADERS["scdl-one"]
    assert read_header(raw[:12] + b"\xff" * 4 + raw[16:]) is None
    shape = struct.pack("!I4sQIBI", 4, b"DATA", 1, 6, 1, 2**32 - 1)
    assert read_header(raw[:12] + struct.pack("!I", 1) + shape + bytes(1000)) is None
    assert read_header(raw[:12] + struct.pack("!II", 1, 2**32 - 1) + bytes(1000)) is None


def copy_of(name: str, tmp_path: Path) -> Path:
    import shutil

    to = tmp_path / name
    shutil.copytree(path(name), to)
    return to


@given(at=st.integers(0, 110), byte=st.integers(0, 255))
def test_a_directory_whose_header_was_changed_is_read_or_is_an_error(
    tmp_path_factory: pytest.TempPathFactory, at: int, byte: int
) -> None:
    folder = tmp_path_factory.mktemp("changed") / "cells"
    folder.mkdir()
    for entry in path("scdl-one").iterdir():
        os.symlink(entry, folder / entry.name)
    raw = bytearray(HEADERS["scdl-one"])
    raw[at] = byte
    os.unlink(folder / "header.sch")
    (folder / "header.sch").write_bytes(raw)
    try:
        ds = leat.open(folder)
        [ds[i] for i in range(len(ds))]
    except leat.Error:
        pass


@pytest.mark.parametrize(
    ("file", "content", "text"),
    [
        ("var_features/cumulative_sum_index.npy", b"", "cumulative_sum_index.npy is damaged"),
        ("var_features/cumulative_sum_index.npy", b"\x93NUMPY\1\0", "cumulative_sum_index.npy is damaged"),
        ("obs_features/cumulative_sum_index.npy", b"PK\3\4", "cumulative_sum_index.npy is damaged"),
        ("var_features/dataframe_0.parquet", b"PAR1", "dataframe_0.parquet is damaged"),
        ("obs_features/dataframe_0.parquet", None, "obs_features has no dataframe_0.parquet"),
        ("var_features/cumulative_sum_index.npy", None, "cumulative_sum_index.npy is damaged"),
        ("col_ptr.npy", None, "has no col_ptr.npy, which its header describes"),
        ("data.npy", b"1", "data.npy has 1 bytes, and its header says"),
        ("row_ptr.npy", bytes(14), "13 values|has 13 rows|pointer"),
    ],
)
def test_files_that_are_damaged_are_named(tmp_path: Path, file: str, content: bytes | None, text: str) -> None:
    folder = copy_of("scdl-one", tmp_path)
    (folder / file).unlink() if content is None else (folder / file).write_bytes(content)
    if file == "row_ptr.npy":
        ds = leat.open(folder)  # all rows are empty
        assert not dense(ds).any()
        return
    with pytest.raises(leat.Error, match=text):
        leat.open(folder)


def test_names_of_cells_are_texts_whatever_their_type(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder = copy_of("scdl-one", tmp_path)
    pq.write_table(pa.table({"obs_feature_id": [*range(12), None]}), folder / "obs_features/dataframe_0.parquet")
    assert leat.open(folder).column("name").tolist() == [*map(str, range(12)), ""]


@pytest.mark.parametrize("kind", ["var", "obs"])
def test_a_table_with_other_bytes_is_read_or_is_an_error(tmp_path: Path, kind: str) -> None:
    folder = copy_of("scdl-one", tmp_path)
    table = folder / f"{kind}_features/dataframe_0.parquet"
    raw = table.read_bytes()
    for at in range(0, len(raw), 3):
        changed = bytearray(raw)
        changed[at] ^= 1 << at % 8
        table.write_bytes(raw[:at] if at % 5 == 0 else bytes(changed))
        with contextlib.suppress(leat.Error):
            leat.open(folder)


def test_places_that_are_no_whole_numbers_are_refused(tmp_path: Path) -> None:
    folder = copy_of("scdl-one", tmp_path)
    raw = bytearray(HEADERS["scdl-one"])
    at = raw.index(b"ROWPTR") + 6 + 8
    raw[at : at + 4] = struct.pack("!I", 5)
    (folder / "header.sch").write_bytes(raw)
    (folder / "row_ptr.npy").write_bytes(bytes(28))
    with pytest.raises(leat.CorruptError, match="the array ROWPTR is of float16"):
        leat.open(folder)
