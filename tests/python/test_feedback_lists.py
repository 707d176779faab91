"""Lists of positions that were decided: in states, in the folder of a run, and in a log that is repeated."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import leat

N = 200_000
LARGE = 60_000  # rows whose list, shuffled, is above what the library's part of a state holds


def opened(n: int = N, batch_size: int = 1000, **options: Any) -> leat.Loader:
    ds = leat.from_arrays(x=np.arange(n, dtype=np.float32))
    return leat.Loader(ds, batch_size, framework="numpy", num_threads=1, **options)


def some(seed: int = 0, k: int = LARGE, n: int = N) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).permutation(n)[:k]


def read(loader: leat.Loader) -> list[int]:
    return [int(i) for batch in loader for i in batch.ids]


def the_file(folder: Path) -> Path:
    (found,) = folder.glob("positions-*.npy")
    return found


# ---- loads that fail -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("change", ["seed", "fingerprint", "row", "log"])
def test_a_state_that_is_refused_leaves_no_list_in_force(change: str) -> None:
    with opened(shuffle=True, seed=1) as loader:
        loader.select(some())
        next(iter(loader))
        state = loader.state_dict()
    if change == "fingerprint":
        state["fingerprint"] = "0" * 32
    if change == "row":
        state["at"]["row"] = 10**9
    if change == "log":
        state["log"].append({"kind": "decide"})
    with opened(shuffle=True, seed=1 + (change == "seed")) as again:
        before = again.log
        with pytest.raises(ValueError, match="state"):
            again.load_state_dict(state)
        assert again.log == json.loads(again._core.log(0)) == before
        assert sorted(read(again)) == list(range(N))


@pytest.mark.parametrize("how", ["changed", "cut", "empty", "of other numbers"])
def test_a_list_that_was_damaged_on_disk_is_named_and_leaves_nothing_in_force(tmp_path: Path, how: str) -> None:
    with opened(log_dir=tmp_path) as loader:
        loader.select(some())
        next(iter(loader))
        state, log = loader.state_dict(), loader.log
    path = the_file(tmp_path)
    data = path.read_bytes()
    if how == "changed":
        path.write_bytes(data[:-8] + b"\1" + data[-7:])
    elif how == "of other numbers":
        np.save(path, np.load(path).astype(np.float64) + 0.5)
    else:
        path.write_bytes(data[: 0 if how == "empty" else 1000])
    with opened(log_dir=tmp_path) as again:
        with pytest.raises(leat.StateError, match=f"{path} is damaged"):
            again.load_state_dict(state)
        assert len(again.log) == len(json.loads(again._core.log(0))) == 1
        assert len(read(again)) == N
    with opened(log_dir=tmp_path, log=log) as repeated:
        with pytest.raises(leat.StateError, match=f"{path} is damaged"):
            iter(repeated)
        assert len(repeated.log) == 1


def test_a_list_that_was_changed_in_a_state_is_damage() -> None:
    with opened() as loader:
        loader.select(some())
        state = loader.state_dict()
    ((name, text),) = state["lists"].items()
    with opened() as other:
        other.select(some(1))
        (changed,) = other.state_dict()["lists"].values()
    for wrong in (changed, text[:100], "!"):
        with opened() as again, pytest.raises(leat.StateError, match="list of positions in the state is damaged"):
            again.load_state_dict({**state, "lists": {name: wrong}})


# ---- without a folder ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("k", [10_000, LARGE])
def test_every_list_that_was_decided_ahead_is_in_the_state(k: int) -> None:
    lists = [some(epoch, k) for epoch in range(1, 5)]
    with opened() as loader:
        for epoch, rows in enumerate(lists, 1):
            loader.set_order(rows, at=(epoch, 0))
        loader.set_order([7], at=(5, 0))
        state = json.dumps(loader.state_dict())
    for _ in range(2):  # the second one loads what a resumed run saved
        with opened() as again:
            again.load_state_dict(json.loads(state))
            state = json.dumps(again.state_dict())
            assert [read(again) for _ in range(6)] == [list(range(N)), *(rows.tolist() for rows in lists), [7]]


@pytest.mark.parametrize("how", ["set_order", "select", "feedback"])
def test_a_list_is_in_the_state_as_it_was_decided_if_its_array_changes(how: str) -> None:
    rows = some()
    policy: dict[str, Any] = {"feedback": lambda table, epoch: rows} if how == "feedback" else {}
    with opened(**policy) as loader:
        if how != "feedback":
            getattr(loader, how)(rows)
        next(iter(loader))
        expected = loader.plan(0, 1).tolist()
        rows[:] = rows[::-1].copy()  # as for the next epoch
        state = json.dumps(loader.state_dict())
    with opened(**policy) as again:
        again.load_state_dict(json.loads(state))
        assert next(iter(again)).ids.tolist() == expected


def test_a_list_behind_more_decisions_than_a_state_has_room_for_is_in_it() -> None:
    with opened() as loader:
        for epoch in range(1, 1200):
            loader.set_order([epoch], at=(epoch, 0))
        loader.set_order(some(), at=(1200, 0))
        state = loader.state_dict()
        assert state["later"]
    with opened() as again:
        again.load_state_dict(json.loads(json.dumps(state)))
        assert again.plan(1199, 0).tolist() == [1199] and again.plan(1200, 0).tolist() == some()[:1000].tolist()


def test_lists_that_the_run_has_passed_are_let_go() -> None:
    with opened() as loader:
        for epoch in range(6):
            loader.set_order(some(epoch), at=(epoch, 0))
            assert read(loader) == some(epoch).tolist()
            assert len(loader._lists) <= 2


def test_a_list_that_no_state_has_room_for_is_said_when_it_is_saved(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leat.feedback.deciding.INSIDE", 300_000)
    with opened() as loader:
        loader.select(some(1, 30_000))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            state = loader.state_dict()
        loader.select(some(2, 150_000), at=(1, 0))
        with pytest.warns(UserWarning, match=r"\(150,000 rows\) are too large for a state.*log_dir=") as said:
            large = loader.state_dict()
        assert said[0].filename == __file__
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # it is said once
            assert loader.state_dict() == large
    with opened() as again:
        with pytest.raises(leat.StateError, match="only the hash of the 150000 rows"):
            again.load_state_dict(large)
        again.load_state_dict(state)
        assert len(read(again)) == 30_000


# ---- logs that are repeated ------------------------------------------------------------------------------------------


def test_a_folder_has_the_lists_of_all_decisions_so_that_the_log_of_a_resumed_run_is_repeated(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("leat.mixtures.deciding.TEXTS", 200)
    options: dict[str, Any] = {"log_dir": tmp_path, "feedback": lambda table, epoch: some(epoch, 30, 100)}
    with opened(100, 10, **options) as loader:
        ids = [read(loader) for _ in range(8)]
        state, log = loader.state_dict(), loader.log
    assert sum("positions" in entry["list"] for entry in log[1:]) < 7
    with opened(100, 10, **options) as resumed:
        resumed.load_state_dict(state)
        ids.append(read(resumed))
        later = resumed.log
    (tmp_path / "log.json").write_text(json.dumps(later))
    for source, epochs in ((log, 8), (later, 9), (tmp_path / "log.json", 9)):
        folder = {} if isinstance(source, Path) else {"log_dir": tmp_path}
        with opened(100, 10, log=source, **folder) as repeated:
            assert [read(repeated) for _ in range(epochs)] == ids[:epochs]


def test_a_run_that_gets_a_folder_as_it_resumes_saves_the_lists_of_its_state(tmp_path: Path) -> None:
    with opened() as loader:
        loader.set_order([3, 1, 2], at=(1, 0))
        loader.set_order(some(), at=(2, 0))
        state = loader.state_dict()
    with opened(log_dir=tmp_path) as again:
        again.load_state_dict(json.loads(json.dumps(state)))
        log = again.log
    assert len(list(tmp_path.glob("positions-*.npy"))) == 2
    for entry in log[1:]:
        entry["list"].pop("positions", None)
    with opened(log_dir=tmp_path, log=log) as repeated:
        assert [read(repeated)[:3] for _ in range(3)] == [[0, 1, 2], [3, 1, 2], some()[:3].tolist()]


def test_a_list_that_was_changed_in_a_log_is_damage() -> None:
    with opened(100, 10) as loader:
        loader.set_order([5, 6, 7])
        log = loader.log
        loader.set_order([5, 6, 8])
        log[1]["list"]["positions"] = loader.log[2]["list"]["positions"]
    with opened(100, 10, log=log) as repeated, pytest.raises(leat.StateError, match="list of epoch 0 in the log"):
        iter(repeated)


Step = tuple[int, int, list[int]]


def step(batch: leat.Batch) -> Step:
    return batch.epoch, batch.step, [int(i) for i in batch.ids]


def test_a_repeated_run_goes_on_from_any_state_of_the_run_or_of_its_own() -> None:
    """Lists at epochs 1, 2 and 4, sizes within epochs 0 and 1 and at the start of epoch 2, all at once at 4."""
    states: list[str] = []  # behind each step, before and after what is decided there
    steps: list[Step] = []
    with opened(100, 10) as loader:
        for epoch in range(6):
            batches = iter(loader)
            for place in range(99):
                states.append(json.dumps(loader.state_dict()))
                if (epoch, place) in ((0, 3), (1, 0), (1, 2), (2, 0), (4, 0)):
                    loader.set_batch_size(7 + epoch + place)
                    states.append(json.dumps(loader.state_dict()))
                if (batch := next(batches, None)) is None:
                    break
                steps.append(step(batch))
            if epoch + 1 in (1, 2, 4):
                loader.set_order(some(epoch, 40, 100), at=(epoch + 1, 0))
                states.append(json.dumps(loader.state_dict()))
        log = loader.log
    with opened(100, 10, log=log) as repeated:
        own = []
        got = []
        for _ in range(6):
            for batch in repeated:
                own.append(json.dumps(repeated.state_dict()))
                got.append(step(batch))
    assert got == steps
    for state in [*states, *own]:
        with opened(100, 10, log=log) as again:
            again.load_state_dict(json.loads(state))
            rest = [step(batch) for _ in range(again.epoch, 6) for batch in again]
            assert rest == steps[len(steps) - len(rest) :] and (rest or again.epoch >= 5), json.loads(state)["at"]
            at = json.loads(state)["at"]
            assert not rest or rest[0][0] in (at["epoch"], at["epoch"] + 1)


def test_a_repeated_run_goes_on_from_states_whose_decisions_are_folded() -> None:
    states, steps = {}, []
    with opened(20, 4) as loader:
        for epoch in range(150):
            batches = iter(loader)
            for place, batch in enumerate(batches):
                steps.append(step(batch))
                if place == 0 and epoch in (40, 140):
                    states[epoch] = loader.state_dict()
                if place == 1:
                    loader.set_batch_size(2 + epoch % 3)
            loader.set_order(some(epoch, 12, 20), at=(epoch + 1, 0))
        log = loader.log
    with opened(20, 4, log=log) as repeated:
        for epoch in range(150):
            for number, _ in enumerate(repeated):
                if number == 2 and epoch in (41, 141):
                    states[epoch] = repeated.state_dict()
    for epoch, state in states.items():
        assert state["log"][1]["kind"] == "folded"
        with opened(20, 4, log=log) as again:
            again.load_state_dict(json.loads(json.dumps(state)))
            rest = [step(batch) for _ in range(epoch, 150) for batch in again]
            assert rest[0][:2] == (epoch, 1 if epoch % 2 == 0 else 3) and rest == steps[len(steps) - len(rest) :]
