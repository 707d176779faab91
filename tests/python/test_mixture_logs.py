"""Logs of long runs: folded in the state, whole in a file, repeated without what led to their decisions."""

from __future__ import annotations

import base64
import json
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import leat
from leat.mixtures import logs
from leat.mixtures.decisions import Decisions

MANY, BATCH = 100, 8
NAMES = [f"d{k}" for k in range(MANY)]


def opened(**more: Any) -> leat.Loader:
    """A loader whose one epoch has a million steps."""
    ds = leat.from_arrays(x=np.arange(50))
    mix = leat.Mix({name: (ds, 1 / MANY) for name in NAMES}, exhausted="repeat", epoch_rows=BATCH * 1_000_000)
    options = {"batch_size": BATCH, "shuffle": True, "framework": "numpy", "num_threads": 1} | more
    return leat.Loader(mix, **options)


def jump(loader: leat.Loader, step: int) -> dict[str, Any]:
    """Puts a loader at a step of its epoch; the state that does."""
    state = loader.state_dict()
    state["at"] = {"epoch": 0, "row": step * BATCH}
    loader.load_state_dict(json.loads(json.dumps(state)))
    return state


def weights(number: int) -> dict[str, float]:
    drawn = np.random.default_rng(number).dirichlet([2.0] * MANY)
    return dict(zip(NAMES, drawn.tolist(), strict=True))


def long_run(decisions: int, **more: Any) -> leat.Loader:
    loader = opened(**more)
    for i in range(1, decisions + 1):
        if i % 5 == 1 or i == decisions:  # the others are decided ahead
            jump(loader, 1000 * i)
        loader.set_mixture(weights(i), at=(0, 1000 * i))
    return loader


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("run")


@pytest.fixture(scope="module")
def run(folder: Path) -> leat.Loader:
    return long_run(150, log_dir=folder)


def test_the_state_of_a_long_epoch_with_many_decisions_is_small(run: leat.Loader) -> None:
    text = json.dumps(run.state_dict())
    assert len(text) < 65536
    assert "older" not in text  # 150 decisions of 100 domains are not few
    assert len(run.log) == 151 and run.log[1]["kind"] == "decide"


def test_a_run_goes_on_from_its_state_with_the_same_rows_and_decisions(run: leat.Loader) -> None:
    again = opened()
    again.load_state_dict(json.loads(json.dumps(run.state_dict())))
    for step in (150_000, 150_001, 400_000, 999_999):
        assert again.plan(0, step).tolist() == run.plan(0, step).tolist()
    assert again.log[1]["kind"] == "folded" and again.log[1]["entries"] + len(again.log) - 2 == 150
    assert again.mixture.weights == run.mixture.weights
    with pytest.raises(leat.Error, match="before decisions that were folded"):
        again.mixture.weights_at(0, 5)


def test_the_file_of_a_run_has_its_whole_log_also_after_a_resume(run: leat.Loader, folder: Path) -> None:
    again = opened(log_dir=folder)
    again.load_state_dict(run.state_dict())
    assert again.log == run.log
    assert again.mixture.weights_at(0, 70_500) == run.mixture.weights_at(0, 70_500)
    repeated = opened(log=folder / "decisions.jsonl")
    assert repeated.log == run.log


def test_a_log_that_is_longer_than_a_state_is_repeated(run: leat.Loader) -> None:
    again = opened(log=run.log)
    for step in (149_999, 150_000, 700_000):
        assert again.plan(0, step).tolist() == run.plan(0, step).tolist()
    fresh = opened()
    assert again.plan(0, 0).tolist() == fresh.plan(0, 0).tolist()
    assert again.plan(0, 1500).tolist() != fresh.plan(0, 1500).tolist()
    assert again.mixture.weights_at(0, 999) == pytest.approx(dict.fromkeys(NAMES, 1 / MANY))
    assert again.mixture.weights_at(0, 3000) == run.mixture.weights_at(0, 3000)


def test_a_repeated_run_resumes_where_its_log_is_given_again(run: leat.Loader) -> None:
    first = opened(log=run.log)
    jump(first, 40_500)
    state = json.loads(json.dumps(first.state_dict()))
    assert state["later"] and len(json.dumps(state)) < 65536
    again = opened(log=run.log)
    again.load_state_dict(state)
    for step in (40_500, 41_000, 99_999, 150_000):
        assert again.plan(0, step).tolist() == first.plan(0, step).tolist()
    assert again.plan(0, 150_000).tolist() == run.plan(0, 150_000).tolist()
    for other in (opened(), opened(log=long_run(2).log)):
        with pytest.raises(leat.StateError, match="are still to come: open the loader with log="):
            other.load_state_dict(state)


def test_decisions_far_ahead_stay_in_the_state() -> None:
    loader = opened()
    for i in range(1, 121):
        loader.set_mixture(weights(i), at=(0, 1000 * i))
    again = opened()
    again.load_state_dict(json.loads(json.dumps(loader.state_dict())))
    assert again.plan(0, 120_000).tolist() == loader.plan(0, 120_000).tolist()
    assert again.log == loader.log


def test_a_state_that_has_its_decisions_beside_is_a_log(tmp_path: Path) -> None:
    ds = leat.from_arrays(x=np.arange(50))
    mix = leat.Mix({"a": (ds, 0.5), "b": (ds, 0.5)}, exhausted="repeat", epoch_rows=100_000)
    loader = leat.Loader(mix, batch_size=BATCH, framework="numpy")
    for i in range(1, 61):
        jump(loader, i)
        loader.set_mixture({"a": i / 100, "b": 1 - i / 100})
    state = loader.state_dict()
    assert state["log"][1]["kind"] == "folded"
    (tmp_path / "state.json").write_text(json.dumps(state))
    again = leat.Loader(mix, batch_size=BATCH, framework="numpy", log=tmp_path / "state.json")
    assert again.log == loader.log and len(again.log) == 61
    assert again.plan(0, 60).tolist() == loader.plan(0, 60).tolist()


def test_steps_of_a_state_are_right_where_the_size_of_batches_was_folded() -> None:
    ds = leat.from_arrays(x=np.arange(50))
    mix = leat.Mix({"a": (ds, 0.5), "b": (ds, 0.5)}, exhausted="repeat", epoch_rows=100_000)
    loader = leat.Loader(mix, batch_size=BATCH, framework="numpy")
    loader.set_batch_size(BATCH // 2, at=(0, 1))
    for i in range(2, 62):
        jump(loader, i)
        loader.set_mixture({"a": i / 100, "b": 1 - i / 100})
    state = loader.state_dict()
    assert state["log"][1]["kind"] == "folded" and state["log"][1]["row"] > BATCH
    assert loader.batch_at(state).step == 1 + 2 * (61 - 1)


def test_a_file_of_another_run_is_put_aside(tmp_path: Path) -> None:
    first, second = opened(log_dir=tmp_path), opened(log_dir=tmp_path)
    first.set_mixture(weights(1), at=(0, 5))
    first.set_mixture(weights(2), at=(0, 9))
    second.set_mixture(weights(3), at=(0, 5))
    lines = [json.loads(line) for line in (tmp_path / "decisions.jsonl").read_text().splitlines()]
    assert lines == second.log
    assert len((tmp_path / "decisions.jsonl.old").read_text().splitlines()) == 3


def test_a_run_that_resumes_before_its_last_decisions_replaces_them_in_the_file(tmp_path: Path) -> None:
    first = opened(log_dir=tmp_path)
    first.set_mixture(weights(1), at=(0, 5))
    state = first.state_dict()
    first.set_mixture(weights(2), at=(0, 9))
    second = opened(log_dir=tmp_path)
    second.load_state_dict(state)
    second.set_mixture(weights(3), at=(0, 7))
    lines = [json.loads(line) for line in (tmp_path / "decisions.jsonl").read_text().splitlines()]
    assert lines == second.log and len(lines) == 3


def test_a_last_line_that_was_cut_is_left_out(tmp_path: Path) -> None:
    loader = opened(log_dir=tmp_path)
    loader.set_mixture(weights(1), at=(0, 5))
    whole = loader.log
    file = tmp_path / "decisions.jsonl"
    file.write_text(file.read_text() + '{"kind": "deci')
    assert opened(log=file).log == whole


def test_only_the_first_rank_writes_the_file(tmp_path: Path) -> None:
    ranks = [opened(log_dir=tmp_path / str(r), rank=r, world_size=2, batch_size=BATCH // 2) for r in (0, 1)]
    for rank in ranks:
        rank.set_mixture(weights(1), at=(0, 5))
    assert (tmp_path / "0" / "decisions.jsonl").exists()
    assert not (tmp_path / "1" / "decisions.jsonl").exists()


def test_steps_of_a_state_do_not_count_decisions_that_are_still_to_come() -> None:
    loader = opened()
    loader.set_batch_size(4, at=(0, 10))
    loader.set_batch_size(16, at=(0, 20))
    loader.set_mixture(weights(1), at=(0, 30))
    state = loader.state_dict()
    for row, step in ((0, 0), (40, 5), (80, 10), (100, 15), (120, 20), (280, 30), (296, 31)):
        state["at"] = {"epoch": 0, "row": row}
        batch = loader.batch_at(state)
        assert (batch.step, batch.ids.tolist()) == (step, loader.plan(0, step).tolist())


def test_steps_of_a_state_are_right_behind_folded_decisions(run: leat.Loader) -> None:
    again = opened()
    again.load_state_dict(run.state_dict())
    assert again.batch_at(run.state_dict()).step == 150_000
    assert run.batch_at(again.state_dict()).step == 150_000
    again.set_mixture(weights(1))
    assert again.mixture.weights_at(0, 150_000) == again.mixture.weights


def test_a_state_of_a_run_with_other_decisions_is_refused(run: leat.Loader) -> None:
    other = opened()
    other.set_mixture(weights(7), at=(0, 5))
    with pytest.raises(leat.StateError, match="another run"):
        other.batch_at(run.state_dict())


def test_decisions_of_many_sources_take_half_of_their_text_in_memory() -> None:
    drawn = np.random.default_rng(1).integers(0, 1 << 23, (50, 1024)).tolist()
    made = [{"kind": "decide", "epoch": 0, "row": 8 * i, "shares": shares} for i, shares in enumerate(drawn)]
    tracemalloc.start()
    decisions = Decisions([{"kind": "open", "epoch": 0, "row": 0, "global_batch": 8}, *made], None, False)
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert taken < 0.6 * len(json.dumps(made))
    assert decisions.entries()[1:] == made
    assert decisions.at((0, 7)) == drawn[7] and decisions.last == drawn[-1]


@pytest.mark.parametrize(
    "sources",
    [
        {"n": 10**9, "count": 5, "order": "shuffled", "exhausted": "stop"},
        {"n": -1, "count": 5},
        {"n": 2, "count": base64.b64encode(b"\xff" * 400_000).decode()},
        {"n": 2, "count": base64.b64encode(b"\xff" * 11 + b"\1\2").decode()},
        {"n": 2, "count": base64.b64encode(b"\2\x82").decode()},
        {"n": 2, "count": base64.b64encode(b"\2\2\2").decode()},
        {"n": 2, "count": [1 << 63, 0]},
        {"n": 1, "exhausted": [-1]},
        {"n": 1, "order": [5]},
    ],
)
def test_sources_of_a_state_that_cannot_be_are_an_error_at_once(sources: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        logs.orders_of({"order": {"sources": sources}})
