"""Rows by their numbers: here, and by a card, for which tests/c/device/standin.c stands."""

from __future__ import annotations

import contextlib
import os
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from card_support import OnHost, standin_driver

import leat
from leat.device import card, sources, table

IDS = np.array([[3, 0, 3], [39, 7, 1]])


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with standin_driver(tmp_path_factory.mktemp("standin")), pytest.MonkeyPatch.context() as patch:
        patch.setattr(table, "nvrtc_path", lambda: None)
        yield


@pytest.fixture(params=["cpu", "card"])
def device(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both ways to gather rows, by calls that are the same."""
    if request.param == "card":
        request.getfixturevalue("driver")
        monkeypatch.setattr(table, "card_of", lambda device: OnHost(0))
    else:
        monkeypatch.setattr(table, "card_of", lambda device: None)
    return str(request.param)


def features(dtype: str = "float32") -> Any:
    return (np.arange(40 * 6) % 120).reshape(40, 2, 3).astype(dtype)


@pytest.mark.parametrize("dtype", ["uint8", "int32", "int64", "float16", "float32", "float64", "bool"])
@pytest.mark.parametrize("wide", [True, False])
def test_rows_are_those_of_the_array(device: str, dtype: str, wide: bool) -> None:
    x, ids = features(dtype), IDS if wide else IDS.astype(np.int32)
    for wanted in (None, "float32"):
        with leat.device.rows(x, dtype=wanted) as rows:
            found = np.asarray(rows[ids])
            assert found.dtype == rows.dtype == (wanted or dtype)
            np.testing.assert_array_equal(found, x[ids].astype(found.dtype))
            rows.synchronize()
    assert (len(rows), rows.shape, rows.in_place) == (40, (40, 2, 3), True)


def test_ids_give_rows_of_their_own_shape(device: str) -> None:
    rows = leat.device.rows(features())
    for ids in (np.array(5), np.array([], np.int64), [1, 2], 7, IDS[:, ::2], IDS.T):
        np.testing.assert_array_equal(np.asarray(rows[ids]), features()[np.asarray(ids, np.int64)])


def test_an_id_that_is_no_row_is_named(device: str) -> None:
    rows = leat.device.rows(features())
    with pytest.raises(IndexError, match=r"id 40 \(number 1 of the call\) is not among the 40 rows"):
        rows[np.array([39, 40, -1])]
    with pytest.raises(IndexError, match="id -3 "):
        rows[np.array([-3], np.int32)]


@pytest.mark.parametrize("ids", [np.array([1.0]), np.array([True]), np.array([1], np.uint8), slice(2), "one", None])
def test_ids_of_another_type_are_refused(device: str, ids: Any) -> None:
    with pytest.raises(TypeError, match="ids are int64 or int32, not"):
        leat.device.rows(features())[ids]


def test_ids_of_another_type_are_refused_of_a_tensor_too(device: str) -> None:
    torch = pytest.importorskip("torch")
    for dtype in (torch.bfloat16, torch.bool, torch.uint8):
        with pytest.raises(TypeError, match=f"ids are int64 or int32, not {dtype}"):
            leat.device.rows(features())[torch.ones(1, dtype=dtype)]


def test_ids_on_the_card_that_are_no_rows_are_said_at_the_next_synchronisation(
    driver: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(table, "card_of", lambda device: OnHost(1))
    monkeypatch.setattr(OnHost, "has", lambda self, tensor: True)
    rows = leat.device.rows(features())
    assert repr(rows) == "<leat.device.Rows of shape (40, 2, 3), float32, gathered by cuda:1>"
    found = rows[torch.tensor([1, 44, 2])]
    assert found[1].tolist() == [[0, 0, 0], [0, 0, 0]]
    with pytest.raises(IndexError, match=r"id 44 \(number 1 of its call\) is not among the 40 rows"):
        rows.synchronize()
    rows[torch.tensor([-9])]
    with pytest.raises(IndexError, match="id -9 "):
        rows[torch.tensor([1])]
    with pytest.raises(TypeError, match=r"not torch\.uint8"):
        rows[torch.tensor([1], dtype=torch.uint8)]
    np.testing.assert_array_equal(rows[torch.tensor([1])], features()[[1]])


def test_tensors_give_tensors(device: str) -> None:
    torch = pytest.importorskip("torch")
    x, ids = torch.from_numpy(features()), torch.from_numpy(IDS)
    for dtype in (torch.float32, torch.bfloat16, torch.float16, torch.int64):
        found = leat.device.rows(x.to(dtype))[ids]
        assert found.dtype == dtype and torch.equal(found, x.to(dtype)[ids])
        for wanted in (torch.float32, torch.float16, torch.bfloat16):
            assert torch.equal(leat.device.rows(x.to(dtype), dtype=wanted)[ids], x.to(dtype).to(wanted)[ids])


def test_a_memory_map_goes_through_a_copy_on_a_card_within_the_budget(device: str, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", features())
    x = np.load(tmp_path / "x.npy", mmap_mode="r")
    assert sources.mapped_file(x[3:]) == str(tmp_path / "x.npy")
    assert sources.mapped_file(features()) is None
    rows = leat.device.rows(x, budget_bytes=x.nbytes)
    assert rows.in_place == (device == "cpu")
    np.testing.assert_array_equal(np.asarray(rows[IDS]), features()[IDS])


def test_rows_of_a_memory_map_larger_than_the_budget_are_staged_for_a_card(device: str, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    np.save(tmp_path / "x.npy", features("float64"))
    x = np.load(tmp_path / "x.npy", mmap_mode="r")
    rows = leat.device.rows(x, dtype="float32", budget_bytes=x.nbytes - 1)
    assert rows.staged == (device == "card") and rows.in_place == (device == "cpu")
    for ids in (IDS, torch.from_numpy(IDS), np.arange(1000, dtype=np.int32) % 40, np.zeros((0, 2), np.int64)):
        np.testing.assert_array_equal(np.asarray(rows[ids]), features()[np.asarray(ids)])
    with pytest.raises(IndexError, match=r"id 40 \(number 1 of the call\) is not among the 40 rows"):
        rows[np.array([39, 40, -1])]
    if device == "card":
        with pytest.raises(leat.BudgetError, match="a mapped file.* takes 1536 bytes, of which budget_bytes allows 99"):
            leat.device.rows(x, budget_bytes=99)


@pytest.mark.parametrize("place", [None, "/dev/shm"], ids=["disk", "memory"])
def test_a_file_that_was_cut_is_an_error(tmp_path: Path, place: str | None) -> None:
    with tempfile.TemporaryDirectory(dir=place or tmp_path) as folder:
        path = Path(folder) / "x.npy"
        np.save(path, np.zeros((100_000, 4)))
        x = np.load(path, mmap_mode="r")
        rows, others = leat.device.rows(x, device="cpu"), leat.device.rows(x[:10], device="cpu")
        rows[[99_999]]
        others.close()  # of the same memory, from the same place on
        os.truncate(path, 4096)
        with pytest.raises(OSError, match=r"x\.npy"):
            rows[[99_999]]


def test_ids_that_change_meanwhile_are_rows_or_an_error() -> None:
    rows, ids = leat.device.rows(np.ones((50_000, 16), np.float32), device="cpu"), np.zeros(50_000, np.int64)
    done = threading.Event()

    def changes() -> None:
        while not done.is_set():
            ids[25_000:] = 1 << 40
            ids[25_000:] = 0

    thread = threading.Thread(target=changes)
    thread.start()
    try:
        for _ in range(200):
            with contextlib.suppress(IndexError):
                assert (rows[ids] == 1).all()
    finally:
        done.set()
        thread.join()


def test_a_column_of_a_data_set_is_a_table(device: str, records: Path) -> None:
    ds = leat.open(records)
    rows = leat.device.rows(ds, "x")
    np.testing.assert_array_equal(np.asarray(rows[IDS % len(ds)]), ds.column("x")[IDS % len(ds)])
    with pytest.raises(KeyError, match='no field "y"'):
        leat.device.rows(ds, "y")
    with pytest.raises(TypeError, match="which field"):
        leat.device.rows(ds)


def test_a_store_gives_the_rows_that_it_has_as_it_is_opened(device: str, tmp_path: Path) -> None:
    fields = {"f": leat.field("float16", (6,)), "g": "int64"}
    with leat.Store(tmp_path / "s", fields) as store:
        store[np.arange(40)] = {"f": features().reshape(40, 6), "g": np.arange(40)}
        store.flush()
        rows = leat.device.rows(store, "f", dtype="float32")
        store[[3]] = {"f": np.zeros((1, 6)), "g": [0]}
        store.flush()
        np.testing.assert_array_equal(np.asarray(rows[IDS]), features().reshape(40, 6)[IDS])
        assert leat.device.rows(store, "g")[[5]].tolist() == [5]
        with pytest.raises(leat.BudgetError, match="takes 480 bytes, of which budget_bytes allows 479"):
            leat.device.rows(store, "f", budget_bytes=479)
        with pytest.raises(TypeError, match="which field"):
            leat.device.rows(store)
        store[[42]] = {"f": np.zeros((1, 6)), "g": [0]}
        store.flush()
        with pytest.raises(ValueError, match="no row of id 40"):
            leat.device.rows(store, "f")


@pytest.mark.parametrize("framework", ["numpy", "torch"])
def test_a_loader_gathers_rows_by_the_numbers_of_an_output(framework: str, device: str) -> None:
    if framework == "torch" or device == "card":
        pytest.importorskip("torch")
    near = leat.Ragged(np.arange(60) % 40, np.array([0, 3, 3, *range(10, 60, 3), 60]))
    ds = leat.from_arrays(node=np.arange(20) * 2, near=near)
    rows = leat.device.rows(features())
    stores: Any = {"x": (rows, "node"), "near.x": (rows, "near")}
    if (framework, device) == ("numpy", "card"):
        with pytest.raises(ValueError, match="'x': cuda:0 gathers its rows into tensors, which framework='numpy'"):
            leat.Loader(ds, 8, stores=stores, framework=framework)
        return
    with leat.Loader(ds, 8, shuffle=True, stores=stores, framework=framework, epochs=1) as loader:
        for batch in loader:
            assert list(batch) == ["node", "near", "x", "near.x"]
            np.testing.assert_array_equal(np.asarray(batch["x"]), features()[np.asarray(batch["node"])])
            np.testing.assert_array_equal(
                np.asarray(batch["near.x"].values), features()[np.asarray(batch["near"].values)]
            )
            np.testing.assert_array_equal(np.asarray(batch["near.x"].offsets), np.asarray(batch["near"].offsets))


def test_rows_of_a_loader_are_refused_where_no_output_has_their_numbers() -> None:
    ds, rows = leat.from_arrays(node=np.arange(5), y=np.zeros(5)), leat.device.rows(features(), device="cpu")
    wrong: list[tuple[dict[str, Any], type[Exception], str]] = [
        ({"x": (rows, "nodes")}, ValueError, "no output 'nodes' has the numbers of rows: node, y are there"),
        ({"y": (rows, "node")}, ValueError, "have the same name"),
        ({"x": (features(), "node")}, TypeError, r"leat\.device\.rows"),
        ({"x": rows}, TypeError, "is a leat.Store, not Rows"),
    ]
    for stores, error, text in wrong:
        with pytest.raises(error, match=text):
            leat.Loader(ds, 2, stores=stores)
    with leat.Loader(ds, 2, stores={"x": (rows, "y")}, framework="numpy") as loader:
        batch = loader.batch_at(0, 0)
        with pytest.raises(TypeError, match="ids are int64 or int32, not float64"):
            batch["x"]


@pytest.mark.parametrize(
    "source, error, text",
    [
        (np.zeros((4, 4))[:, ::2], ValueError, "ascontiguousarray"),
        (np.zeros(()), ValueError, "first dimension"),
        (np.zeros(3, "datetime64[s]"), TypeError, "none of leat's"),
        (np.zeros(3, ">f4"), TypeError, "none of leat's"),
        ([1, 2, 3], TypeError, "not of list"),
    ],
)
def test_other_sources_are_refused(source: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        leat.device.rows(source, device="cpu")


def test_rows_that_are_closed_say_so(device: str) -> None:
    rows = leat.device.rows(features())
    rows.close()
    rows.close()
    with pytest.raises(leat.ClosedError):
        rows[[1]]


def test_without_a_card_the_processor_gathers_and_asking_for_one_is_an_error() -> None:
    torch = pytest.importorskip("torch")
    if torch.cuda.is_available():
        pytest.skip("a card is here")
    assert leat.device.rows(features()).device == "cpu"
    with pytest.raises(RuntimeError, match=r"PyTorch \S+ is built without CUDA|nvidia-smi .* say device='cpu'"):
        leat.device.rows(features(), device="cuda")
    with pytest.raises(ValueError, match="'cuda:N', not 'tpu'"):
        leat.device.rows(features(), device="tpu")
    with pytest.raises(TypeError, match="as they are or as float32, float16 or bfloat16, not as int8"):
        leat.device.rows(features(), dtype="int8")


def test_without_pytorch_a_card_is_an_error_that_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(card.sys.modules, "torch", None)
    with pytest.raises(ImportError, match="device='cuda' needs PyTorch: pip install torch, or say device='cpu'"):
        leat.device.rows(features(), device="cuda")
    assert leat.device.rows(features()).device == "cpu"


def test_the_compiler_is_found_among_the_packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("cuda_nvrtc/lib/libnvrtc.so.12", "cuda_nvrtc/lib/libnvrtc.alt.so.12", "cu13/lib/libnvrtc.so.13"):
        file = tmp_path / "nvidia" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(card.sys.modules, "torch", type("torch", (), {"version": type("v", (), {"cuda": "13.0"})}))
    assert card.nvrtc_path() == str(tmp_path / "nvidia/cu13/lib/libnvrtc.so.13")
    monkeypatch.setitem(card.sys.modules, "torch", None)
    assert card.nvrtc_path() == str(tmp_path / "nvidia/cuda_nvrtc/lib/libnvrtc.so.12")
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "libnvrtc.so.11.8.89").touch()
    monkeypatch.setattr(card.sys, "prefix", str(tmp_path))
    assert card.nvrtc_path() == str(tmp_path / "nvidia/cuda_nvrtc/lib/libnvrtc.so.12")
    (tmp_path / "conda-meta").mkdir()
    assert card.nvrtc_path() == str(tmp_path / "lib/libnvrtc.so.11.8.89")
