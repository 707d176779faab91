"""Copies of stores: what they have, and what they leave where they cannot be made."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from process_support import Process

import leat

FIELD = {"x": leat.field("float32", (3,))}


def rows(ids: Any, version: int = 0) -> np.ndarray[Any, Any]:
    return np.array([[i, version, i + version] for i in ids], np.float32).reshape(-1, 3)


def test_a_copy_has_what_was_written_before_it_flushed_or_not(tmp_path: Path) -> None:
    ds = leat.from_arrays(x=np.arange(300))
    with leat.Store(tmp_path / "a.store", FIELD, framework="numpy", dataset=ds) as store:
        store[ds.ids] = rows(ds.ids)
        store.flush()
        store[[4, 7]] = rows([4, 7], 1)
        store.copy(tmp_path / "b.store")
        store[[4]] = rows([4], 2)
    with leat.Store(tmp_path / "b.store", dataset=ds, framework="numpy") as copy:
        assert copy.ids.tolist() == ds.ids.tolist()
        assert copy[[3, 4, 7]].tolist() == [[3, 0, 3], [4, 1, 5], [7, 1, 8]]
        copy[[3]] = rows([3], 9)
    with leat.Store(tmp_path / "a.store", FIELD, framework="numpy") as store:
        assert store[[3, 4]].tolist() == [[3, 0, 3], [4, 2, 6]]


def test_fields_that_vary_and_keys_are_copied(tmp_path: Path) -> None:
    fields = {"v": leat.field("int16", (None,)), "s": leat.sparse("float32", 9)}
    with leat.Store(tmp_path / "a.store", fields, key=("id", "key"), framework="numpy") as store:
        rows_of = leat.Sparse(np.ones(2, "f4"), np.array([3, 8], np.int32), np.array([0, 2]), 9)
        store[[5], [2**64 - 1]] = {"v": [np.arange(40, dtype=np.int16)], "s": rows_of}
        store.copy(tmp_path / "b.store")
    with leat.Store(tmp_path / "b.store", framework="numpy") as copy:
        assert list(copy) == [(5, 2**64 - 1)]
        found = copy[[5], [2**64 - 1]]
        assert found["v"].values.tolist() == list(range(40)) and found["s"].columns.tolist() == [3, 8]


def write_on(path: Path, pipe: Any) -> None:
    """Rewrites all rows until it is told to stop, and tells each version before and after."""
    with leat.Store(path, framework="numpy") as store:
        for version in range(1, 1 << 20):
            store[np.arange(500)] = rows(range(500), version)
            store.flush()
            pipe.send(version)
            if pipe.poll() and pipe.recv():
                return


def test_each_row_is_whole_and_no_older_than_the_call_while_another_process_writes(tmp_path: Path) -> None:
    store = leat.Store(tmp_path / "a.store", FIELD, framework="numpy")
    store[np.arange(500)] = rows(range(500))
    store.flush()
    writer, version = Process(write_on, tmp_path / "a.store"), 0
    for turn in range(8):
        version = max(version, writer.answer())
        store.copy(tmp_path / "b.store", overwrite=turn > 0)
        with leat.Store(tmp_path / "b.store", framework="numpy") as copy:
            found = copy[np.arange(500)]
        assert (found[:, 0] == np.arange(500)).all() and (found[:, 2] == found[:, 0] + found[:, 1]).all()
        assert (found[:, 1] >= version).all()
    writer.pipe.send(True)
    writer.end()
    store.close()


def test_what_is_there_stays_unless_it_is_to_be_replaced(tmp_path: Path) -> None:
    store = leat.Store(tmp_path / "a.store", FIELD, framework="numpy")
    store[[1]] = rows([1])
    (tmp_path / "b.store").write_text("mine")
    with pytest.raises(FileExistsError, match=r"b\.store exists: .*overwrite"):
        store.copy(tmp_path / "b.store")
    assert (tmp_path / "b.store").read_text() == "mine"
    with pytest.raises(ValueError, match="the store itself"):
        store.copy(tmp_path / "a.store", overwrite=True)
    with pytest.raises(leat.FileError, match=r"none/b\.store cannot be written.*No such file"):
        store.copy(tmp_path / "none" / "b.store")
    store.copy(tmp_path / "b.store", overwrite=True)
    assert leat.Store(tmp_path / "b.store", framework="numpy")[[1]].tolist() == [[1, 0, 1]]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.store", "b.store"]
    store.close()
    with pytest.raises(leat.ClosedError):
        store.copy(tmp_path / "c.store")
    with leat.Store(tmp_path / "a.store", read_only=True) as reader, pytest.raises(leat.ClosedError, match="read_only"):
        reader.copy(tmp_path / "c.store")


def test_a_copy_and_a_flush_wait_for_no_rows_that_are_written_meanwhile(tmp_path: Path) -> None:
    done = threading.Event()
    with leat.Store(tmp_path / "a.store", FIELD, framework="numpy") as store:
        store[np.arange(1000)] = rows(np.arange(1000))

        def write() -> None:
            version = 0
            while not done.is_set():
                store[np.arange(1000)] = rows(np.arange(1000), version := version + 1)

        writer = threading.Thread(target=write)
        writer.start()
        try:
            store.flush()
            store.copy(tmp_path / "b.store")
        finally:
            done.set()
            writer.join()
    with leat.Store(tmp_path / "b.store", framework="numpy") as copy:
        assert len(copy.ids) == 1000
