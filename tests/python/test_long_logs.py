"""Loaders of one data set with more decisions than the library keeps: what is folded, and what stays whole."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import leat
from leat.mixtures.decisions import Decisions

N, MANY = 4096, 300


def opened(**more: Any) -> leat.Loader:
    options = {"batch_size": 4, "shuffle": True, "seed": 5, "framework": "numpy", **more}
    return leat.Loader(leat.from_arrays(x=np.arange(N)), **options)


def decided(loader: leat.Loader, many: int = MANY) -> Any:
    """A size for each of so many steps, and the iteration after them."""
    batches = iter(loader)
    for i in range(many):
        loader.set_batch_size(4 + i % 3)
        next(batches)
    return batches


@pytest.fixture(scope="module")
def run() -> leat.Loader:
    loader = opened()
    decided(loader)
    return loader


def test_a_step_before_folded_decisions_is_refused_with_a_word_on_how_to_repeat_it(run: leat.Loader) -> None:
    assert "folded" in run._core.log(0)
    for ask in (run.plan, run.batch_at):
        with pytest.raises(IndexError, match=r"step 3 of epoch 0 lies before decisions that were folded.*log="):
            ask(0, 3)
    with pytest.raises(IndexError, match="folded"):
        run.set_batch_size(8, at=(0, 3))
    with pytest.raises(IndexError, match=r"epoch 0 has no step 9999 "):
        run.plan(0, 9999)


def test_the_log_is_whole_and_repeats_the_run(run: leat.Loader) -> None:
    log = run.log
    assert len(log) == MANY + 1 and "folded" not in [entry["kind"] for entry in log]
    again = opened(log=log)
    assert [len(again.plan(0, step)) for step in range(MANY)] == [4 + i % 3 for i in range(MANY)]
    assert again.batch_at(0, MANY - 1).ids.tolist() == run.batch_at(0, MANY - 1).ids.tolist()


def test_a_loaded_state_brings_its_log_as_long_as_that_is_short(run: leat.Loader) -> None:
    again, state = opened(), json.loads(json.dumps(run.state_dict()))
    again.load_state_dict(state)
    assert again.log == run.log and again.state_dict() == state
    state["decisions"]["older"] = 3
    with pytest.raises(leat.StateError, match="damaged"):
        opened().load_state_dict(state)


def to_come(run: leat.Loader) -> list[dict[str, Any]]:
    """A log of many decisions, in three epochs."""
    return [run.log[0]] + [
        {"kind": "decide", "epoch": i // 1000, "row": i % 1000 * 4, "global_batch": 4 + i % 2} for i in range(1, 3000)
    ]


def test_a_repeated_run_with_many_decisions_to_come_goes_on_from_its_state(run: leat.Loader) -> None:
    log = to_come(run)
    first = opened(log=log)
    batches = iter(first)
    next(batches)
    state = json.loads(json.dumps(first.state_dict()))
    assert len(json.dumps(state)) < 1 << 17
    again = opened(log=log)
    again.load_state_dict(state)
    assert next(iter(again)).ids.tolist() == next(batches).ids.tolist()
    assert again.plan(2, 7).tolist() == first.plan(2, 7).tolist()
    with pytest.raises(leat.StateError, match="log="):
        opened().load_state_dict(state)


def test_a_loader_that_repeats_a_log_computes_the_batch_of_a_state_of_another_that_does(run: leat.Loader) -> None:
    log = to_come(run)
    first = opened(log=log)
    batches = iter(first)
    for _ in range(700):
        next(batches)
    state = json.loads(json.dumps(first.state_dict()))
    assert opened(log=log).batch_at(state).ids.tolist() == next(batches).ids.tolist()
    with pytest.raises(leat.StateError, match="another run"):
        opened(log=[*log[:710], {**log[710], "global_batch": 9}, *log[711:]]).batch_at(state)


def test_states_that_fold_less_again_have_the_hash_of_what_they_fold() -> None:
    opening = {"kind": "open", "epoch": 0, "row": 0, "global_batch": 4}
    folded = {"kind": "folded", "epoch": 0, "row": 200, "steps": 50, "global_batch": 4, "hash": "0" * 16}
    made = [{"kind": "decide", "epoch": 0, "row": 200 + 4 * i, "global_batch": 4 + i % 2} for i in range(1, 151)]

    def resumed() -> Decisions:
        decisions = Decisions([opening], None, False)
        decisions.begin([opening, {**folded, "entries": 50}, *made], [], "abc")
        return decisions

    def told(decisions: Decisions, hidden: int) -> str:
        return decisions.state({"log": [opening, {**folded, "entries": hidden}, *made[hidden - 50 :]]})["folded"]

    toggled = resumed()
    told(toggled, 132)
    assert told(toggled, 100) == told(resumed(), 100)


def test_a_hash_of_folded_decisions_that_is_no_text_is_a_damaged_state(run: leat.Loader) -> None:
    state = json.loads(json.dumps(run.state_dict()))
    state["decisions"]["folded"] = 5
    with opened() as again, pytest.raises(leat.StateError, match="damaged"):
        again.load_state_dict(state)


def test_pipeline_stages_compare_long_logs_as_equal() -> None:
    stages = [opened(mesh={"pp": (stage, 3)}) for stage in range(3)]
    for stage in stages:
        decided(stage)
    assert len({stage._common()["decisions"] for stage in stages}) == 1
    stages[1].set_batch_size(9)
    stages[2].set_batch_size(8)
    assert stages[1]._common()["decisions"] != stages[2]._common()["decisions"]


def test_the_lists_of_a_sampler_are_compared_by_their_hashes() -> None:
    def told(seed: int) -> str:
        draws = np.random.default_rng(seed)
        loader = opened(shuffle=False, sampler=Drawn(draws))
        for _ in range(3):
            next(iter(loader))
        loader.set_batch_size(7)
        assert "positions" not in json.dumps(loader._decisions.entries())
        return loader._common()["decisions"]

    assert told(1) == told(1) != told(2)


class Drawn:
    def __init__(self, draws: np.random.Generator) -> None:
        self.draws = draws

    def __len__(self) -> int:
        return N

    def __iter__(self) -> Any:
        return iter(self.draws.permutation(N).tolist())


@pytest.mark.parametrize("many", [20, MANY])
def test_a_repeated_run_goes_on_from_a_state_of_the_run_that_decided(many: int) -> None:
    run, states, rows = opened(), [], []
    batches = iter(run)
    for i in range(many):
        run.set_batch_size(4 + i % 3)
        rows.append(next(batches).ids.tolist())
        states.append(json.loads(json.dumps(run.state_dict())))
    run.set_batch_size(9, at=(1, 0))
    rows += [batch.ids.tolist() for batch in batches] + [next(iter(run)).ids.tolist()]
    again = opened(log=json.loads(json.dumps(run.log)))
    for i in (many - 1, 0, many // 2, 0):
        again.load_state_dict(states[i])
        assert [batch.ids.tolist() for batch in again] == rows[i + 1 : -1]
        assert next(iter(again)).ids.tolist() == rows[-1]
        assert again.log == run.log
    ranks = [opened(log=run.log, batch_size=2, rank=r, world_size=2) for r in (0, 1)]
    for rank in ranks:
        rank.load_state_dict(states[many // 2])
    parts = zip(*ranks, strict=True)
    assert [np.concatenate([part.ids[part.valid] for part in both]).tolist() for both in parts] == rows[
        many // 2 + 1 : -1
    ]
    fewer, alone = opened(log=run.log[: many // 2]), opened()
    for loader in (fewer, alone):
        loader.load_state_dict(states[many // 2])
    assert [batch.ids.tolist() for batch in fewer] == [batch.ids.tolist() for batch in alone]


def test_a_loader_that_repeats_a_log_refuses_the_state_of_another_run() -> None:
    run, other = opened(), opened()
    for loader, size in ((run, 7), (other, 8)):
        batches = iter(loader)
        for _ in range(3):
            next(batches)
            loader.set_batch_size(size)
    early = opened()
    batches = iter(early)
    for _ in range(5):
        next(batches)
    for state in (other.state_dict(), early.state_dict()):
        again = opened(log=run.log)
        before = again.state_dict()
        with pytest.raises(leat.StateError, match="another run than the one whose log this loader repeats"):
            again.load_state_dict(state)
        assert again.state_dict() == before
