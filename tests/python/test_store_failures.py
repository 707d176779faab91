"""What cannot be read from a store, or written to it, loses nothing and is said."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import leat

FIELD = {"x": leat.field("float32", (3,))}


def rows(ids: Any) -> np.ndarray[Any, Any]:
    return np.array([[i, 1, i + 1] for i in ids], np.float32).reshape(-1, 3)


def broken_at(path: Path, dataset: leat.Dataset, sample: int) -> leat.Store:
    """A store that has a row of each sample, one of which is broken."""
    with leat.Store(path, FIELD, framework="numpy", dataset=dataset) as store:
        store[dataset.ids] = rows(dataset.ids)
    data, at = path.read_bytes(), path.read_bytes().index(rows([sample]).tobytes())
    path.write_bytes(data[:at] + b"\x01" + data[at + 1 :])
    return leat.Store(path, FIELD, framework="numpy")


def mended(store: leat.Store, sample: int) -> None:
    store[[sample]] = rows([sample])
    store.flush()


# ---- batches of loaders ----------------------------------------------------------------------------------------------


def test_a_further_consumer_gets_the_batch_again(records: Path, tmp_path: Path) -> None:
    ds = leat.open(records)
    store = broken_at(tmp_path / "a.store", ds, 20)
    loader = leat.Loader(ds, 16, framework="numpy", stores={"t": store}, epochs=1)
    consumer = loader.consumer(8)
    batches, seen = iter(consumer), []
    for _ in range(2):
        seen += next(batches).ids.tolist()
    state = consumer.state_dict()
    for _ in range(2):
        with pytest.raises(leat.CorruptError, match="id 20 is broken"):
            next(batches)
        assert consumer.state_dict() == state
    mended(store, 20)
    ahead = consumer.peek()
    assert ahead.ids.tolist() == list(range(16, 24)) and ahead["t.present"].all()
    for batch in batches:
        assert batch["t.present"].all()
        seen += batch.ids.tolist()
    assert seen == ds.ids.tolist() and next(batches, None) is None


def test_a_batch_out_of_order_comes_again_and_no_state_counts_it(records: Path, tmp_path: Path) -> None:
    ds = leat.open(records)
    store = broken_at(tmp_path / "a.store", ds, 20)
    options: dict[str, Any] = {"framework": "numpy", "stores": {"t": store}, "epochs": 1, "in_order": False}
    loader = leat.Loader(ds, 16, **options)
    batches, seen = iter(loader), []
    with pytest.raises(leat.CorruptError, match="id 20 is broken"):
        while True:
            seen += next(batches).ids.tolist()
    state = loader.state_dict()
    with pytest.raises(leat.CorruptError, match="id 20 is broken"):
        next(batches)
    assert loader.state_dict() == state and 20 not in seen
    mended(store, 20)
    assert sorted(seen + [i for batch in batches for i in batch.ids.tolist()]) == ds.ids.tolist()
    again = leat.Loader(ds, 16, **options)
    again.load_state_dict(state)
    assert sorted(seen + [i for batch in again for i in batch.ids.tolist()]) == ds.ids.tolist()


def test_a_batch_that_is_kept_ends_with_its_epoch_its_state_and_its_loader(records: Path, tmp_path: Path) -> None:
    ds = leat.open(records)
    options: dict[str, Any] = {"framework": "numpy", "in_order": False, "epochs": 3}

    def failed(name: str) -> tuple[leat.Loader, leat.Store]:
        store = broken_at(tmp_path / name, ds, 20)
        loader = leat.Loader(ds, len(ds), stores={"t": store}, **options)
        with pytest.raises(leat.CorruptError):
            next(iter(loader))
        return loader, store

    loader, store = failed("epoch")
    mended(store, 20)
    batch = next(iter(loader))  # of another epoch
    assert batch.epoch == 1 and batch.size == len(ds)
    loader, store = failed("state")
    state = leat.Loader(ds, len(ds), **options).state_dict()
    mended(store, 20)
    loader.load_state_dict(state)
    batch = next(iter(loader))
    assert batch.epoch == 0 and batch["t.present"].all()
    loader, store = failed("closed")
    batches = iter(loader)
    store.close()
    with pytest.raises(leat.ClosedError, match="is closed"):
        next(batches)
    loader.close()
    with pytest.raises(leat.ClosedError):
        next(batches)


@pytest.mark.parametrize("in_order", [True, False])
def test_a_broken_row_that_is_missing_stands_among_the_errors_of_its_batch(
    records: Path, tmp_path: Path, in_order: bool
) -> None:
    ds = leat.open(records)
    store = broken_at(tmp_path / "a.store", ds, 20)
    loader = leat.Loader(ds, 16, framework="numpy", stores={"t": store}, epochs=1, on_error="skip", in_order=in_order)
    batches = {batch.step: batch for batch in loader}
    assert [i for b in batches.values() for i in b.ids[~b["t.present"]].tolist()] == [20]
    (batch,) = [b for b in batches.values() if b.errors]
    (error,) = batch.errors
    assert (error.row, error.planned, error.delivered) == (batch.ids.tolist().index(20), 20, 20)
    assert "store 't'" in error.reason and str(tmp_path / "a.store") in error.reason
    parts = [part.errors for part in batch.split(4)]
    assert [len(e) for e in parts] == [1 if 20 in part.ids else 0 for part in batch.split(4)] and sum(
        map(len, parts)
    ) == 1


def test_rows_that_were_left_out_before_it_are_counted(tmp_path: Path) -> None:
    """Errors name rows of the planned batch, of which broken photos are left out."""
    from PIL import Image

    file = io.BytesIO()
    Image.fromarray(np.full((8, 8, 3), 7, np.uint8)).save(file, "png")
    with leat.Writer(tmp_path / "photos.leat", {"image": "image", "y": "int64"}) as writer:
        for i in range(12):
            writer.add(image=file.getvalue()[: 45 if i in (1, 2, 7) else None], y=i)
    ds = leat.open(tmp_path / "photos.leat")
    store = broken_at(tmp_path / "a.store", ds, 5)
    chain: dict[str, Any] = {"image": [leat.ops.Decode(), leat.ops.Resize((8, 8))], "y": []}
    loader = leat.Loader(ds, 12, framework="numpy", stores={"t": store}, on_error="skip", outputs=chain)
    batch = next(iter(loader))
    assert batch.ids.tolist() == [0, 3, 4, 5, 6, 8, 9, 10, 11]
    assert [(e.row, e.planned, e.delivered) for e in batch.errors] == [
        (1, 1, None),
        (2, 2, None),
        (5, 5, 5),
        (7, 7, None),
    ]
    assert [[e.planned for e in part.errors] for part in batch.split(4)] == [[1, 2, 5], [7], []]


# ---- what is written -------------------------------------------------------------------------------------------------


def test_whole_numbers_of_any_size_are_exact_or_refused(tmp_path: Path) -> None:
    store = leat.Store(tmp_path / "a.store", {"v": leat.field("uint64", (2,))}, framework="numpy")
    store[[0]] = [[1, 2**64 - 1]]
    store[[1]] = [[2**63, 2**63 - 1]]
    with pytest.raises(ValueError, match=r"-1 is none"):
        store[[2]] = [[-1, 2**64 - 1]]
    with pytest.raises(ValueError, match=r"is none"):
        store[[2]] = [[1, 2**64]]
    with pytest.raises(TypeError, match="whole numbers"):
        store[[2]] = [[0.5, 2**64 - 1]]
    store.flush()
    assert store[[0, 1]].tolist() == [[1, 2**64 - 1], [2**63, 2**63 - 1]]


def test_float64_is_rounded_once(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    near = rng.normal(size=2000).astype(np.float16).astype(np.float64)
    half = np.spacing(near.astype(np.float16)).astype(np.float64) / 2
    given = np.concatenate([near + half * (1 + s * 2.0**-30) for s in (-1, 0, 1)] + [rng.normal(size=2000)])
    given = np.concatenate([given, [0.0, -0.0, np.inf, -np.inf, 65519.99, 2.0**-25, 2.0**-25 * (1 + 2.0**-40), 1e-300]])
    n = len(given)
    for framework in ("numpy", "torch"):
        store = leat.Store(tmp_path / f"{framework}.store", {"h": leat.field("float16", (n,))}, framework="numpy")
        store[[0]] = given[None] if framework == "numpy" else torch.from_numpy(given)[None]
        store.flush()
        assert store[[0]][0].tobytes() == given.astype(np.float16).tobytes()
    brain = leat.Store(tmp_path / "b.store", {"b": leat.field("bfloat16", (3,))}, framework="numpy")
    tie = 1 + 2.0**-8  # of bfloat16: to even, which is below it
    brain[[0]] = np.array([[tie, tie * (1 + 2.0**-40), -tie * (1 + 2.0**-40)]])
    brain.flush()
    assert brain[[0]].tolist() == [[1.0, 1 + 2.0**-7, -1 - 2.0**-7]]


@pytest.mark.parametrize(
    ("dtype", "number"), [("float16", 65520.0), ("float16", -1e6), ("bfloat16", 3.4e38), ("float32", 1e39)]
)
@pytest.mark.parametrize("given", ["float32", "float64", "list", "torch"])
def test_a_finite_number_does_not_become_infinite(tmp_path: Path, dtype: str, number: float, given: str) -> None:
    store = leat.Store(tmp_path / "a.store", {"v": leat.field(dtype, (2,))}, framework="numpy")
    store[[4]] = np.array([[np.inf, -np.inf]], np.float32)
    values: Any = [[1.0, 2.0], [number, 3.0]]
    if given == "torch":
        values = pytest.importorskip("torch").tensor(values, dtype=pytest.importorskip("torch").float64)
    elif given != "list":
        if dtype == "float32" and given == "float32":
            return
        values = np.array(values, given)
    with pytest.raises(ValueError, match="field '?v'?.*beyond"):
        store[[7, 8]] = values
        store.flush()
    store.flush()
    found, present = store.gather([4, 7, 8])
    assert present.tolist() == [True, False, False] and found[0].tolist() == [np.inf, -np.inf]


def test_ids_of_no_sample_are_refused_where_the_data_set_is_known(tmp_path: Path) -> None:
    a, b = leat.from_arrays(x=np.arange(10)), leat.from_arrays(x=np.arange(5))
    for name, dataset, ids in (("a", a[2:6], [0, 9]), ("b", leat.concat([a[:7], b]), [0, 6, 14])):
        below = max(ids) + 1
        with leat.Store(tmp_path / name, FIELD, framework="numpy", dataset=dataset) as store:
            store[ids] = rows(ids)
            with pytest.raises(IndexError, match=f"id {below} is none .* below {below}"):
                store[[0, below]] = rows([0, below])
            store.flush()
            assert store.ids.tolist() == ids
    with leat.Store(tmp_path / "a", framework="numpy", dataset=a.fingerprint) as store:
        store[[10]] = rows([10])  # a fingerprint says nothing of ids


def test_a_store_is_looked_into_as_a_dict(tmp_path: Path) -> None:
    store = leat.Store(tmp_path / "a.store", FIELD, framework="numpy")
    store[[7, 3]] = rows([7, 3])
    pairs = leat.Store(tmp_path / "p.store", FIELD, key=("id", "key"), framework="numpy")
    pairs[[7, 7], [1, 2**64 - 1]] = rows([7, 7])
    store.flush()
    pairs.flush()
    assert list(store) == [3, 7] and 7 in store and np.int64(3) in store and 4 not in store
    assert sorted(pairs) == [(7, 1), (7, 2**64 - 1)] and (7, 1) in pairs and (7, 2) not in pairs
    for wrong in ([3, 7], "x", 1.5):
        with pytest.raises(TypeError):
            wrong in store  # noqa: B015
    with pytest.raises(TypeError, match="id and key"):
        7 in pairs  # noqa: B015


def test_a_store_that_is_closed_has_let_go_of_its_file(tmp_path: Path) -> None:
    code = """
        import os, sys, numpy as np, leat
        store = leat.Store(sys.argv[1], {"x": leat.field("float32", (3,))}, framework="numpy")
        store[[1]] = np.ones((1, 3), np.float32)
        store.flush()
        values, _ = store.gather([1])
        store.close()
        held = []
        for fd in os.listdir("/proc/self/fd"):
            try:
                held.append(os.readlink(f"/proc/self/fd/{fd}"))
            except OSError:
                pass
        mapped = open("/proc/self/maps").read()
        print(sys.argv[1] in held, sys.argv[1] in mapped, values.tolist())
    """
    path = os.path.realpath(tmp_path / "a.store")
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), path], capture_output=True, text=True, check=True
    )
    assert done.stdout.split("\n")[0] == "False False [[1.0, 1.0, 1.0]]"
