"""Files of cells on another machine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import leat

pytest.importorskip("h5py")
sp: Any = pytest.importorskip("scipy.sparse")
from cells_support import path, write_h5ad  # noqa: E402
from http_support import Server, passing  # noqa: E402


def test_cells_are_read_over_http(tmp_path: Path) -> None:
    x = sp.random(300, 200, 0.3, "csr", "float32", np.random.default_rng(1))
    file = tmp_path / "a.h5ad"
    write_h5ad(file, x, chunks=(1000,), compression="gzip", shuffle=True)
    with Server({"a.h5ad": file.read_bytes()}, latency_s=0.002) as server:
        ds = leat.open(server.url("a.h5ad"))
        with leat.Loader(ds, 20, shuffle=leat.Blocks(10), num_threads=4, framework="numpy") as loader:
            for batch in loader:
                assert np.array_equal(batch["X"].to_dense(), x[batch.ids].toarray())
        assert server.most > 1  # chunks are on their way together


@passing
def test_a_server_that_fails_now_and_then_is_asked_again(wrong: Any, tmp_path: Path) -> None:
    x = sp.random(100, 50, 0.3, "csr", "float32", np.random.default_rng(1))
    file = tmp_path / "a.h5ad"
    write_h5ad(file, x, chunks=(100,), compression="gzip")

    def behave(number: int, _: str, __: Any, right: Any) -> Any:
        return wrong(right) if number > 12 and number % 3 == 0 else None

    with Server({"a.h5ad": file.read_bytes()}, behave=behave) as server:
        ds = leat.open(server.url("a.h5ad"))
        assert all(np.array_equal(ds[i]["X"].to_dense()[0], x[i].toarray()[0]) for i in range(0, 100, 9))


def test_a_file_that_was_replaced_there_has_another_fingerprint(tmp_path: Path) -> None:
    x = sp.random(40, 30, 0.3, "csr", "float32", np.random.default_rng(1))
    found = []
    with Server({}) as server:
        for factor in (1, 2, 1):
            write_h5ad(tmp_path / "a.h5ad", factor * x)
            server.files["a.h5ad"] = (tmp_path / "a.h5ad").read_bytes()
            found.append(leat.open(server.url("a.h5ad"), fields=["X"]).fingerprint)
    assert found[0] == found[2] != found[1]


def test_what_cannot_be_read_from_there_says_so() -> None:
    files = {"a.h5ad": path("anndata-0.12.19.h5ad").read_bytes()}
    with Server(files) as server:
        with pytest.raises(FileNotFoundError, match="404"):
            leat.open(server.url("b.h5ad"))
        with pytest.raises(leat.UnsupportedError, match="copy it here"):
            leat.open(server.url("a.zarr"))
        with pytest.raises(leat.FormatError, match="neither X nor obs|no file of anndata"):
            server.files["c.h5ad"] = path("plain.h5").read_bytes()
            leat.open(server.url("c.h5ad"))
