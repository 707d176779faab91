"""Stores beside the data: what is written comes back, in this process and in others, alone and in batches."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from drawn_support import examples
from hypothesis import given
from hypothesis import strategies as st
from process_support import Process

import leat


def make(path: Path, **options: object) -> leat.Store:
    return leat.Store(path, {"x": leat.field("float32", (3,))}, framework="numpy", **options)  # type: ignore[arg-type]


def rows(ids: list[int], version: int = 0) -> np.ndarray:
    return np.array([[i, version, i + version] for i in ids], np.float32).reshape(-1, 3)


def test_what_was_flushed_is_read_by_other_processes_and_after_reopening(tmp_path: Path) -> None:
    path = tmp_path / "a.store"
    store = make(path)
    store[[3, 1, 200_000]] = rows([3, 1, 200_000])
    store.flush()
    reader = Process(read, path, [1, 2, 3])
    values, present = reader.answer()
    reader.end()
    assert present.tolist() == [True, False, True]
    assert values.tolist() == [[1, 0, 1], [0, 0, 0], [3, 0, 3]]
    assert store.ids.tolist() == [1, 3, 200_000] and len(store) == 3
    store.close()
    with pytest.raises(leat.ClosedError):
        store.gather([1])
    with leat.Store(path, read_only=True, framework="numpy") as again:
        assert again.gather([200_000])[0].tolist() == [[200_000, 0, 200_000]]
        with pytest.raises(leat.ClosedError):
            again[1] = [1, 2, 3]


def read(path: Path, ids: list[int], pipe: Any) -> None:
    pipe.send(leat.Store(path, framework="numpy").gather(ids))
    pipe.recv()


def test_values_may_change_as_soon_as_they_were_given(tmp_path: Path) -> None:
    store = make(tmp_path / "a.store")
    values = rows([0, 1])
    for i in range(50):
        values[:] = i
        store[[2 * i, 2 * i + 1]] = values
    values[:] = -1
    store.flush()
    assert store.gather(range(100))[0][:, 0].tolist() == [i // 2 for i in range(100)]


def test_writing_waits_where_the_queue_has_its_bytes(tmp_path: Path) -> None:
    store = make(tmp_path / "a.store", queue_bytes=100)
    for i in range(40):
        store[[i, i + 1]] = rows([i, i + 1], i)
        assert store._queue._bytes <= 100
    store.flush()
    assert store.gather(range(40))[0][:, 1].tolist() == list(range(40))


def test_a_row_of_python_numbers_and_one_id_do(tmp_path: Path) -> None:
    store = make(tmp_path / "a.store")
    store[4] = [1, 2, 3]
    store[5] = np.float32([4, 5, 6])
    store.flush()
    assert store[[4, 5]].tolist() == [[1, 2, 3], [4, 5, 6]]
    with pytest.raises(KeyError, match="id 6"):
        store[[4, 6]]


def test_pairs_are_found_by_both_numbers(tmp_path: Path) -> None:
    store = make(tmp_path / "a.store", key=("id", "key"))
    keys = np.array([2**64 - 1, 7], np.uint64)
    store[[1, 1], keys] = rows([1, 2])
    store[5, -1] = [9, 9, 9]  # of a negative key the bits
    store.flush()
    values, present = store.gather(([1, 1, 2, 5], np.array([7, 2**64 - 1, 7, 2**64 - 1], np.uint64)))
    assert present.tolist() == [True, True, False, True] and values[:, 0].tolist() == [2, 1, 0, 9]
    with pytest.raises(TypeError, match="id and key"):
        store.gather([1])
    with pytest.raises(leat.ProgramError, match="another key"):
        make(tmp_path / "a.store", key="id")
    with pytest.raises(ValueError, match="key='id'|key=\\('id', 'key'\\)"):
        leat.Store(tmp_path / "a.store", key="id")


def test_formats_round_as_pytorch_does(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    fields = {"h": leat.field("float16", (64,)), "b": leat.field("bfloat16", (64,)), "q": leat.field("int8", (64,))}
    store = leat.Store(tmp_path / "a.store", fields, framework="torch")
    values = torch.randn(100, 64) * torch.logspace(-9, 3.5, 100)[:, None]
    store[range(100)] = dict.fromkeys(fields, values)
    store.flush()
    found, present = store.gather(torch.arange(100))
    assert present.all() and found["h"].equal(values.half()) and found["b"].equal(values.bfloat16())
    assert found["q"].dtype == torch.float32
    scale = values.abs().amax(1, keepdim=True) / 127
    assert ((found["q"] - values).abs() <= scale * 0.50001).all()
    assert store.gather([7], "b")[0].equal(values[7:8].bfloat16())


def test_a_part_of_a_ragged_batch_is_written_as_its_own_rows(tmp_path: Path) -> None:
    whole = leat.Ragged(np.arange(10, dtype=np.int32), np.array([0, 3, 4, 10]))
    store = leat.Store(tmp_path / "a.store", {"t": leat.field("int32", (None,))}, framework="numpy")
    store[[5, 6]] = leat.Ragged(whole.values, whole.offsets[1:])
    store.flush()
    values, present = store.gather([5, 6])
    assert present.all() and [row.tolist() for row in values] == [[3], [4, 5, 6, 7, 8, 9]]


def test_lists_of_any_length_come_back(tmp_path: Path) -> None:
    fields = {"t": leat.field("int32", (None, 2)), "n": "int64"}
    store = leat.Store(tmp_path / "a.store", fields, framework="numpy")
    given = [np.arange(2 * n, dtype=np.int32).reshape(n, 2) for n in (3, 0, 50_000)]
    store[[0, 1, 2]] = {"t": given, "n": np.array([3, 0, 50_000])}
    store[[8, 9]] = {"t": leat.Ragged(np.ones((3, 2), np.int32), np.array([0, 1, 3])), "n": np.array([1, 2])}
    store.flush()
    values, present = store.gather([2, 7, 0, 1, 9])
    assert present.tolist() == [True, False, True, True, True]
    assert values["t"].lengths.tolist() == [50_000, 0, 3, 0, 2] and values["n"].tolist() == [50_000, 0, 3, 0, 2]
    assert (values["t"][0] == given[2]).all() and (values["t"][2] == given[0]).all()


def test_lists_of_int8_come_back_within_half_a_scale(tmp_path: Path) -> None:
    store = leat.Store(tmp_path / "a.store", {"q": leat.field("int8", (None, 2))}, framework="numpy")
    given = [np.random.default_rng(n).normal(size=(n, 2)).astype(np.float32) for n in (3, 0, 50)]
    store[[0, 1, 2]] = given
    store.flush()
    values, present = store.gather([2, 0, 1])
    assert present.all() and values.values.dtype == np.float32 and values.lengths.tolist() == [50, 3, 0]
    for found, wanted in zip(values, (given[2], given[0]), strict=False):
        assert (abs(found - wanted) <= abs(wanted).max() / 127 * 0.50001).all()


def test_what_does_not_fit_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    store = make(tmp_path / "a.store")
    with pytest.raises(IndexError, match="-3"):
        store[[1, -3]] = rows([1, 2])
    with pytest.raises(IndexError, match="-1"):
        store.gather([-1])
    with pytest.raises(ValueError, match=r"\(2, 3\)"):
        store[[1, 2]] = rows([1, 2, 3])
    with pytest.raises(TypeError, match="int64"):
        store[[1]] = np.array([[1, 2, 3]])
    with pytest.raises(TypeError, match="whole numbers"):
        store[[1.5]] = rows([1])
    with pytest.raises(ValueError, match="fields"):
        store[[1]] = {"y": rows([1])}
    with pytest.raises(KeyError, match='"y"'):
        store.gather([1], "y")
    store[[2**43]] = rows([1])
    with pytest.raises(ValueError, match="largest"):
        store.flush()
    store.flush()  # said once
    assert len(store) == 0
    for fields in ({"x": leat.field("float32", (4,))}, {"y": leat.field("float32", (3,))}):
        with pytest.raises(leat.ProgramError, match="other fields"):
            leat.Store(tmp_path / "a.store", fields)
    (tmp_path / "b").write_bytes(b"no store at all" * 2000)
    with pytest.raises(leat.FormatError):
        leat.Store(tmp_path / "b")
    with pytest.raises(FileNotFoundError):
        leat.Store(tmp_path / "c")


def test_a_store_of_another_data_set_is_refused(records: Path, tmp_path: Path) -> None:
    ds = leat.open(records)
    store = make(tmp_path / "a.store", dataset=ds)
    store.close()
    make(tmp_path / "a.store", dataset=ds.select([3, 4])).close()  # ids of a view are those of its data set
    other = leat.from_arrays(x=np.zeros((5, 3), np.float32))
    with pytest.raises(leat.StateError, match="another data set"):
        make(tmp_path / "a.store", dataset=other)
    with pytest.raises(leat.StateError, match="another data set"):
        leat.Loader(other, 2, stores={"t": make(tmp_path / "a.store")})


@examples(15)
@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("write"), st.lists(st.integers(0, 12), min_size=1, max_size=8), st.integers(0, 999)),
            st.tuples(st.just("flush"), st.just([]), st.just(0)),
            st.tuples(st.just("reopen"), st.just([]), st.just(0)),
        ),
        max_size=30,
    ),
    st.booleans(),
)
def test_a_store_is_a_dict_of_rows(steps: list[tuple[str, list[int], int]], keyed: bool) -> None:
    import tempfile

    model: dict[int, int] = {}
    places = [7 + 40_000 * i for i in range(13)]
    keys = np.array([i % 3 for i in range(13)], np.uint64)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.store"
        options = {"key": ("id", "key")} if keyed else {}
        store = make(path, **options)
        for step, chosen, version in steps:
            if step == "write":
                ids = [places[i] for i in chosen]
                store[(ids, keys[chosen]) if keyed else ids] = rows(chosen, version)
                model.update(dict.fromkeys(chosen, version))
            elif step == "flush":
                store.flush()
            else:
                store.close()
                store = make(path, **options)
        store.flush()
        values, present = store.gather(places, keys=keys if keyed else None)
        assert present.tolist() == [i in model for i in range(13)]
        assert (values == [rows([i], model[i])[0] if i in model else [0] * 3 for i in range(13)]).all()
        store.close()


def test_a_forked_child_and_a_pickle_open_the_file_themselves(tmp_path: Path) -> None:
    store = make(tmp_path / "a.store")
    store[[1]] = rows([1])
    store.flush()
    again = pickle.loads(pickle.dumps(store))
    assert again.gather([1])[1].tolist() == [True]
    pid = os.fork()
    if pid == 0:
        try:
            store[[2]] = rows([2])
            store.flush()
            os._exit(0)
        except BaseException:
            os._exit(1)
    assert os.waitpid(pid, 0)[1] == 0
    assert store.gather([1, 2])[1].tolist() == [True, True]


def test_a_broken_row_is_named_and_others_are_read(tmp_path: Path) -> None:
    path = tmp_path / "a.store"
    store = make(path)
    store[[5, 6]] = rows([5, 6])
    store.close()
    data = path.read_bytes()
    at = data.index(rows([6]).tobytes())
    path.write_bytes(data[:at] + b"\x01" + data[at + 1 :])
    store = make(path)
    with pytest.raises(leat.CorruptError, match="id 6 is broken at byte") as e:
        store.gather([5, 6])
    assert e.value.sample == 6 and e.value.file == str(path) and abs((e.value.offset or 0) - at) <= 64
    assert store.gather([5, 6], broken="missing")[1].tolist() == [True, False]
    store[6] = [1, 2, 3]
    store.flush()
    assert store.gather([5, 6])[1].tolist() == [True, True]
    store.close()
    os.truncate(path, len(data) - 100)
    with pytest.raises(leat.CorruptError, match="was cut"):
        make(path)


def in_a_process(code: str, path: Path) -> subprocess.CompletedProcess[str]:
    begin = (
        "import atexit, resource, signal, sys, numpy as np\n"
        "def late():\n    ending(store)\n"
        "atexit.register(late)\n"  # behind what leat registers: it is called after that
        "import leat\n"
        "store = leat.Store(sys.argv[1], {'x': leat.field('float32', (3,))}, framework='numpy')\n"
    )
    return subprocess.run(
        [sys.executable, "-c", begin + code, str(path)], capture_output=True, text=True, timeout=120, check=False
    )


def test_rows_that_are_written_as_the_interpreter_ends_are_written(tmp_path: Path) -> None:
    path = tmp_path / "a.store"
    code = "store[[0]] = np.zeros((1, 3))\ndef ending(s):\n    s[[1, 2]] = np.ones((2, 3))\n    s.flush()\n"
    done = in_a_process(code, path)
    assert done.returncode == 0 and not done.stderr, done.stderr
    assert make(path).gather([0, 1, 2, 3])[1].tolist() == [True, True, True, False]


def test_rows_that_were_lost_as_a_program_ends_are_not_lost_silently(tmp_path: Path) -> None:
    path = tmp_path / "a.store"
    code = (
        "def ending(s):\n    pass\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (3 << 20, resource.RLIM_INFINITY))\n"
        "store[np.arange(1 << 17)] = np.ones((1 << 17, 3))\n"
    )
    done = in_a_process(code, path)
    assert str(path) in done.stderr and "lost rows" in done.stderr


def test_a_thread_that_cannot_be_started_is_an_error_and_no_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = make(tmp_path / "a.store")
    with monkeypatch.context() as m:
        m.setattr(threading.Thread, "start", lambda self: (_ for _ in ()).throw(RuntimeError("can't start")))
        with pytest.raises(RuntimeError, match="can't start"):
            store[[1]] = np.ones((1, 3))
        store.flush()
    store[[1]] = np.ones((1, 3))
    store.flush()
    assert store.gather([1])[1].all()


@pytest.mark.parametrize(
    ("dtype", "given", "error"),
    [
        ("uint8", [[300, 1]], ValueError),
        ("uint8", [[1, -1]], ValueError),
        ("uint8", [[1, 1.9]], TypeError),
        ("int16", [[1 << 15, 0]], ValueError),
        ("bool", [[2, 0]], ValueError),
        ("int64", [[0.0, 1.0]], TypeError),
    ],
)
def test_numbers_that_a_field_cannot_hold_are_refused(
    tmp_path: Path, dtype: str, given: list[list[float]], error: type[Exception]
) -> None:
    store = leat.Store(tmp_path / "a.store", {"v": leat.field(dtype, (2,))}, framework="numpy")
    with pytest.raises(error, match=r"field 'v' is"):
        store[[0]] = given
    store[[0]] = [[1, 0]]
    store.flush()
    assert store[[0]].tolist() == [[1, 0]]


def test_a_batch_has_what_stores_have_for_its_rows(records: Path, tmp_path: Path) -> None:
    ds = leat.open(records)
    one = make(tmp_path / "one.store", dataset=ds)
    two = leat.Store(
        tmp_path / "two.store",
        {"a": "int64", "t": leat.field("int32", (None,))},
        key=("id", "key"),
        framework="numpy",
    )
    stores = {"one": one, "two": two}
    loader = leat.Loader(ds, 16, shuffle=True, seed=3, framework="numpy", stores=stores)
    for batch in loader:
        assert not batch["one.present"].any() and not batch["two.present"].any() and (batch["one"] == 0).all()
        one[batch.ids] = rows(batch.ids)
        lists = [np.full(i % 3, i, np.int32) for i in batch.ids]
        two[batch.ids, batch.row_keys] = {"a": batch.ids * 2, "t": lists}
    one.flush()
    two.flush()
    first = next(iter(leat.Loader(ds, 16, shuffle=True, seed=3, framework="numpy", stores=stores)))
    assert first["two.present"].all() and (first["two.a"] == 2 * first.ids).all()
    assert first["two.t"].lengths.tolist() == (first.ids % 3).tolist()
    second = next(iter(loader))
    assert second["one.present"].all() and (second["one"] == rows(second.ids)).all()
    assert not second["two.present"].any()  # of another epoch the keys are others
    assert list(second) == ["x", "label", "one", "one.present", "two.a", "two.t", "two.present"]
    assert (loader.batch_at(1, 2)["one"][:, 0] == loader.batch_at(1, 2).ids).all()
    with pytest.raises(ValueError, match="same name"):
        leat.Loader(ds, 16, stores={"x": one})
    with pytest.raises(TypeError, match=r"leat\.Store"):
        leat.Loader(ds, 16, stores={"y": 3})  # type: ignore[dict-item]


@pytest.mark.parametrize("peeks", [False, True])
def test_a_broken_row_of_a_store_loses_no_batch(records: Path, tmp_path: Path, peeks: bool) -> None:
    ds = leat.open(records)
    path = tmp_path / "a.store"
    store = make(path, dataset=ds)
    store[ds.ids] = rows(ds.ids)
    store.close()
    data, at = path.read_bytes(), path.read_bytes().index(rows([20]).tobytes())
    path.write_bytes(data[:at] + b"\x01" + data[at + 1 :])
    store = make(path)
    options: dict[str, Any] = {"framework": "numpy", "stores": {"t": store}, "epochs": 1}
    loader = leat.Loader(ds, 16, **options)
    batches, seen = iter(loader), []
    seen += next(batches).ids.tolist()
    for _ in range(2):  # as often as it is asked for
        with pytest.raises(leat.CorruptError, match="id 20 is broken"):
            loader.peek() if peeks else next(batches)
        assert loader.state_dict()["at"] == {"epoch": 0, "row": 16}
    state = loader.state_dict()
    store[20] = rows([20])[0]
    store.flush()
    for batch in batches:
        assert batch["t.present"].all() and (batch["t"] == rows(batch.ids)).all()
        seen += batch.ids.tolist()
    assert seen == ds.ids.tolist()
    again = leat.Loader(ds, 16, **options)
    again.load_state_dict(state)
    assert next(iter(again)).ids.tolist() == ds.ids[16:32].tolist()


def test_tensors_go_into_a_store_whatever_the_default_device_is(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    values = torch.arange(6.0).reshape(2, 3)
    with make(tmp_path / "a.store") as store:
        torch.set_default_device("meta")
        try:
            store[[0, 1]] = values
        finally:
            torch.set_default_device(None)
        store.flush()
        assert store[[0, 1]].tolist() == values.tolist()


def test_batches_of_torch_have_tensors_of_stores(records: Path, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    store = leat.Store(tmp_path / "a.store", {"x": leat.field("bfloat16", (3,))}, framework="torch")
    loader = leat.Loader(leat.open(records), 10, stores={"t": store}, framework="torch")
    for batch in loader:
        store[batch.ids] = batch["x"]
    store.flush()
    batch = next(iter(loader))
    assert batch["t"].equal(batch["x"].bfloat16()) and batch["t.present"].dtype == torch.bool
    assert pickle.loads(pickle.dumps(batch))["t"].equal(batch["t"])
