"""loader.report, loader.set_mixture, loader.mixture: decisions enter the log, hold from a step, resume and repeat."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import leat

LAWS = {"code": (1.0, 40.0, 0.6), "books": (2.6, 12.0, 0.35), "web": (3.0, 5.0, 0.2)}  # eps, beta, alpha


def mix(rows: int = 600) -> leat.Mix:
    x = np.arange(rows)
    return leat.Mix(
        {name: (leat.from_arrays(x=x + 1000 * k), 1 / 3) for k, name in enumerate(LAWS)}, exhausted="repeat"
    )


def opened(mixture: Any = None, **more: Any) -> leat.Loader:
    return leat.Loader(mix(), batch_size=12, shuffle=True, seed=3, framework="numpy", mixture=mixture, **more)


def counted(batch: Any) -> dict[str, int]:
    return {name: int((batch["x"] // 1000 == k).sum()) for k, name in enumerate(LAWS)}


class Run:
    """A training whose losses follow the laws of its domains; what was delivered."""

    def __init__(self, loader: leat.Loader, seen: dict[str, int] | None = None, reports: bool = True) -> None:
        self.loader, self.reports = loader, reports
        self.seen = dict.fromkeys(LAWS, 0) if seen is None else dict(seen)
        self.rows: list[list[int]] = []
        self.batches: Any = iter(loader)

    def go(self, steps: int) -> Run:
        for _ in range(steps):
            batch = next(self.batches, None)
            if batch is None:
                self.batches = iter(self.loader)
                batch = next(self.batches)
            self.rows.append(batch["x"].tolist())
            counts = counted(batch)
            losses = {}
            for name, n in counts.items():
                self.seen[name] += n
                if n:
                    eps, beta, alpha = LAWS[name]
                    losses[name] = eps + beta * self.seen[name] ** -alpha
            if self.reports:
                self.loader.report(batch.step, losses, counts)
        return self


def test_weights_that_are_set_hold_from_the_next_batch() -> None:
    loader = opened()
    batches = iter(loader)
    assert counted(next(batches)) == dict.fromkeys(LAWS, 4)
    loader.set_mixture({"code": 1.0, "books": 0.0, "web": 0.0})
    assert counted(next(batches)) == {"code": 12, "books": 0, "web": 0}
    assert loader.mixture.weights == {"code": 1.0, "books": 0.0, "web": 0.0}


def test_weights_may_be_set_for_a_later_step() -> None:
    loader = opened()
    batches = iter(loader)
    next(batches)
    loader.set_mixture({"code": 0.5, "books": 0.5, "web": 0.0}, at=(0, 5))
    found = [counted(next(batches))["web"] for _ in range(9)]
    assert [n > 0 for n in found] == [True] * 4 + [False] * 5
    assert loader.mixture.weights_at(0, 4)["web"] == pytest.approx(1 / 3)
    assert loader.mixture.weights_at(0, 5)["web"] == 0
    assert loader.mixture.weights_at(1, 0)["web"] == 0


@pytest.mark.parametrize(
    ("weights", "says"),
    [
        ({"code": 0.5, "books": 0.5}, "no weight is given for web"),
        ({"code": 0.5, "books": 0.5, "web": 0.5}, "sum to 1.5"),
        ({"code": 1.5, "books": -0.5, "web": 0.0}, "'books' is -0.5"),
        ({"code": math.nan, "books": 0.5, "web": 0.5}, "'code' is nan"),
        ({"code": 0.5, "books": 0.25, "webb": 0.25}, "did you mean 'web'"),
    ],
)
def test_weights_that_are_none_are_refused(weights: dict[str, float], says: str) -> None:
    loader = opened()
    with pytest.raises(ValueError, match=says):
        loader.set_mixture(weights)
    assert len(loader.log) == 1


def test_two_decisions_on_the_same_step_are_both_known_and_the_later_one_holds() -> None:
    loader = opened()
    first, second = {"code": 0.5, "books": 0.5, "web": 0.0}, {"code": 0.25, "books": 0.25, "web": 0.5}
    loader.set_mixture(first, at=(0, 5))
    loader.set_mixture(second, at=(0, 5))
    assert loader.mixture.weights_at(0, 5) == loader.mixture.weights == second
    assert len(loader.log) == 3


def test_the_log_of_a_long_run_keeps_decisions_on_the_same_step() -> None:
    loader = opened()
    for epoch in range(1, 41):
        for _ in range(2):
            weights = np.random.default_rng(len(loader.log)).dirichlet([5, 5, 5]).tolist()
            loader.set_mixture(dict(zip(LAWS, weights, strict=True)), at=(epoch, 0))
    loader.set_epoch(60)
    log = json.loads(loader._core.state())["log"]
    assert log[1]["kind"] == "folded"
    assert len(loader.log) == 81


def test_weights_are_set_for_the_next_epoch_while_rows_are_received_out_of_order() -> None:
    loader = opened(in_order=False)
    loader.set_mixture({"code": 1.0, "books": 0.0, "web": 0.0}, at=(1, 0))
    assert loader.mixture.weights_at(0, 30)["code"] == pytest.approx(1 / 3)
    assert loader.mixture.weights_at(1, 0)["code"] == 1


def test_an_algorithm_is_refused_where_rows_come_out_of_order() -> None:
    with pytest.raises(ValueError, match="in_order=False does not go with mixture="):
        opened(leat.ADO(20), in_order=False)


@pytest.mark.parametrize("decides", [False, True])
def test_ranks_compare_each_report_also_where_nothing_was_decided(decides: bool) -> None:
    weights = {"code": 0.5, "books": 0.25, "web": 0.25}
    loader = opened(lambda step, losses, counts, held: weights if decides else None)
    batch = next(iter(loader))
    told: list[dict[str, str]] = []
    loader.mixture.report(batch, {}, {}, told.append)
    assert [list(facts.values()) for facts in told] == [[repr(weights if decides else None)]]


def test_weights_of_a_batch_that_was_handed_out_are_refused() -> None:
    loader = opened()
    batches = iter(loader)
    for _ in range(4):
        next(batches)
    with pytest.raises(ValueError, match="handed out"):
        loader.set_mixture({"code": 0.5, "books": 0.5, "web": 0.0}, at=(0, 2))


def test_on_several_ranks_the_step_has_to_be_said() -> None:
    loader = opened(rank=0, world_size=2)
    with pytest.raises(ValueError, match="several ranks"):
        loader.set_mixture({"code": 0.5, "books": 0.5, "web": 0.0})
    loader.set_mixture({"code": 0.5, "books": 0.5, "web": 0.0}, at=(0, 3))


def test_a_loader_of_a_data_set_has_no_mixture() -> None:
    ds = leat.from_arrays(x=np.arange(10))
    loader = leat.Loader(ds, batch_size=2, framework="numpy")
    with pytest.raises(ValueError, match="no mixture"):
        loader.set_mixture({"a": 1.0})
    with pytest.raises(ValueError, match=r"decides the weights of a leat\.Mix"):
        leat.Loader(ds, batch_size=2, mixture=leat.ADO())


def test_ado_decides_at_refits_only_and_from_the_step_that_lead_says() -> None:
    loader = opened(leat.ADO(20, lead=3))
    Run(loader).go(70)
    decided = [entry for entry in loader.log if entry["kind"] == "decide"]
    assert [entry["row"] // 12 for entry in decided] == [22, 42, 62]
    assert loader.mixture.state()["weights"]["code"] != pytest.approx(1 / 3, abs=1e-3)


def test_the_weights_that_ado_decides_are_delivered() -> None:
    loader = opened(leat.ADO(20, gamma2=1.0))
    run = Run(loader).go(20)
    weights = loader.mixture.weights
    run.go(3)
    before = len(run.rows)
    run.go(15)
    delivered = np.bincount(np.array(run.rows[before:]).ravel() // 1000, minlength=3) / (15 * 12)
    assert delivered.tolist() == pytest.approx(list(weights.values()), abs=0.02)


def test_the_state_tells_what_ado_knows() -> None:
    loader = opened(leat.ADO(40))
    Run(loader).go(120)
    state = loader.mixture.state()
    assert set(state) == {"weights", "alpha", "beta", "eps", "slopes"}
    assert all(set(value) == set(LAWS) for value in state.values())
    assert all(slope > 0 for slope in state["slopes"].values())


@pytest.mark.parametrize("cut", [3, 20, 23, 47, 100])
@pytest.mark.parametrize("algorithm", ["ado", "doremi"])
def test_a_run_that_is_resumed_delivers_and_decides_the_same(cut: int, algorithm: str) -> None:
    def made() -> Any:
        if algorithm == "ado":
            return leat.ADO(20)
        return leat.DoReMi({name: eps for name, (eps, _, _) in LAWS.items()}, every=20, step_size=0.01)

    whole = Run(opened(made())).go(220)
    first = Run(opened(made())).go(cut)
    state = json.loads(json.dumps(first.loader.state_dict()))
    loader = opened(made())
    loader.load_state_dict(state)
    second = Run(loader, first.seen).go(220 - cut)
    assert first.rows + second.rows == whole.rows
    assert loader.log == whole.loader.log
    assert loader.mixture.weights == whole.loader.mixture.weights


def test_the_log_repeats_the_run_without_its_losses(tmp_path: Path) -> None:
    run = Run(opened(leat.ADO(20))).go(220)
    assert Run(opened(log=run.loader.log), reports=False).go(220).rows == run.rows
    path = tmp_path / "log.json"
    path.write_text(json.dumps(run.loader.log))
    again = opened(log=path)
    assert Run(again, reports=False).go(220).rows == run.rows
    assert again.mixture.weights_at(0, 60) == run.loader.mixture.weights_at(0, 60)


def test_a_log_that_is_repeated_with_other_batches_counts_its_steps() -> None:
    loader = opened()
    weights = {"code": 1.0, "books": 0.0, "web": 0.0}
    loader.set_mixture(weights, at=(0, 4))
    again = leat.Loader(mix(), batch_size=6, shuffle=True, seed=3, framework="numpy", log=loader.log)
    assert again.mixture.weights_at(0, 7)["code"] == pytest.approx(1 / 3)
    assert again.mixture.weights_at(0, 8) == weights
    found = [counted(batch)["code"] for _, batch in zip(range(10), again, strict=False)]
    assert [n == 6 for n in found] == [False] * 8 + [True] * 2


def test_a_log_of_many_decisions_is_repeated_from_its_beginning_after_a_resume_too() -> None:
    run = Run(opened(leat.ADO(2, skip=0, keep_every=1))).go(140)
    loader = opened(leat.ADO(2, skip=0, keep_every=1))
    loader.load_state_dict(json.loads(json.dumps(run.loader.state_dict())))
    second = Run(loader, run.seen).go(20)
    assert loader.log[1]["kind"] != "folded" and len(loader.log) > 60
    assert Run(opened(log=loader.log), reports=False).go(160).rows == run.rows + second.rows


@pytest.mark.parametrize("log", [[], [{"kind": "decide"}], [3], "missing.json"])
def test_what_is_no_log_is_refused(log: Any) -> None:
    with pytest.raises((leat.StateError, FileNotFoundError)):
        opened(log=log)


@pytest.mark.parametrize(
    ("losses", "counts", "error", "says"),
    [
        ({"code": math.nan}, {}, ValueError, "'code' in step 0 of epoch 0 is nan"),
        ({"code": math.inf}, {}, ValueError, "is inf"),
        ({"poems": 1.0}, {}, ValueError, "no source 'poems'"),
        ({"code": "much"}, {}, TypeError, "'code' is a number"),
        ({"code": 1.0}, {"code": -1}, ValueError, "count of 'code'"),
        ({"code": 1.0}, {"code": 1.5}, TypeError, "count of 'code'"),
        ({"code": 1.0}, {"poems": 1}, ValueError, "no source 'poems'"),
        ({"code": 1.0}, {"code": 4, "web": 4}, ValueError, "had 4 of 'web', whose loss is not given"),
        ([1.0], {}, TypeError, "losses are a dict"),
        ({"code": 0.0}, {"code": 4}, ValueError, "losses above 0"),
    ],
)
def test_reports_that_are_none_are_refused_and_change_nothing(
    losses: Any, counts: Any, error: type[Exception], says: str
) -> None:
    loader = opened(leat.ADO(20))
    next(iter(loader))
    before = json.dumps(loader.state_dict())
    with pytest.raises(error, match=says):
        loader.report(0, losses, counts)
    assert json.dumps(loader.state_dict()) == before


def test_a_decision_on_a_late_report_holds_from_the_next_batch_and_ranks_refuse_it() -> None:
    losses, counts = dict.fromkeys(LAWS, 2.0), dict.fromkeys(LAWS, 4)
    weights = {"code": 0.0, "books": 0.0, "web": 1.0}
    loader = opened(lambda step, losses, counts, held: weights)
    batches = iter(loader)
    for _ in range(8):
        next(batches)
    loader.report(2, losses, counts)  # four steps later is step 6
    assert counted(next(batches))["web"] == 12 and loader.mixture.weights_at(0, 7)["web"] < 0.4
    again = opened(log=loader.log)
    assert again.plan(0, 8).tolist() == loader.plan(0, 8).tolist()
    ranks = opened(leat.DoReMi(dict.fromkeys(LAWS, 1.0), every=1), rank=0, world_size=2)
    batches = iter(ranks)
    for _ in range(8):
        next(batches)
    before = json.dumps(ranks.state_dict())
    with pytest.raises(ValueError, match="step 3 of epoch 0 is reported too late: a decision on it holds 4 steps"):
        ranks.report(3, losses, counts)
    assert json.dumps(ranks.state_dict()) == before
    ranks.report(4, losses, counts)


def test_reports_come_in_order_of_steps_that_were_handed_out() -> None:
    loader = opened(leat.ADO(20))
    batches = iter(loader)
    losses, counts = dict.fromkeys(LAWS, 2.0), dict.fromkeys(LAWS, 4)
    with pytest.raises(ValueError, match="not handed out yet: none was"):
        loader.report(0, losses, counts)
    for _ in range(3):
        batch = next(batches)
    with pytest.raises(ValueError, match="the last one was step 2 of epoch 0"):
        loader.report(3, losses, counts)
    loader.report(1, losses, counts)
    for step in (0, 1):
        with pytest.raises(ValueError, match="in order"):
            loader.report(step, losses, counts)
    loader.report(batch, losses, counts)


def test_a_report_without_an_algorithm_is_an_error() -> None:
    loader = opened()
    next(iter(loader))
    with pytest.raises(ValueError, match="no algorithm"):
        loader.report(0, {}, {})


def test_a_function_of_ones_own_decides() -> None:
    def last(step: int, losses: Any, counts: Any, weights: Any) -> Any:
        return {"code": 0.0, "books": 0.0, "web": 1.0} if step == 4 else None

    run = Run(opened(last)).go(15)
    assert [len({x // 1000 for x in rows}) for rows in run.rows] == [3] * 8 + [1] * 7


def test_a_decision_beyond_the_epoch_holds_from_the_next_one() -> None:
    def late(step: int, losses: Any, counts: Any, weights: Any) -> Any:
        return {"code": 0.0, "books": 0.0, "web": 1.0} if step == steps - 2 else None

    steps = len(opened())
    run = Run(opened(late)).go(steps + 2)
    assert run.loader.log[-1]["epoch"] == 1 and run.loader.log[-1]["row"] == 0
    assert {x // 1000 for rows in run.rows[steps:] for x in rows} == {2}


def test_a_state_of_another_algorithm_is_refused() -> None:
    run = Run(opened(leat.ADO(20))).go(5)
    loader = opened(leat.DoReMi(None))
    with pytest.raises(leat.StateError, match="whose mixture ADO decided"):
        loader.load_state_dict(run.loader.state_dict())


def test_a_state_loaded_without_its_algorithm_is_pointed_out() -> None:
    run = Run(opened(leat.ADO(20))).go(30)
    with pytest.warns(UserWarning, match="no algorithm, and keeps the weights"):
        (loader := opened()).load_state_dict(run.loader.state_dict())
    assert loader.mixture.weights == run.loader.mixture.weights
    with pytest.warns(UserWarning, match="no reports for ADO"):
        opened(leat.ADO(20)).load_state_dict(opened().state_dict())


@pytest.mark.parametrize("key", ["n", "credit", "laws", "curves"])
def test_a_damaged_state_of_an_algorithm_is_a_clear_error(key: str) -> None:
    state = Run(opened(leat.ADO(20))).go(30).loader.state_dict()
    state["mixture"]["state"][key] = [None]
    with pytest.raises(leat.StateError, match="damaged"):
        opened(leat.ADO(20)).load_state_dict(state)


def test_ranks_without_rows_in_the_last_step_of_an_epoch_report_it_too() -> None:
    def run(world: int) -> tuple[list[int], set[str]]:
        ranks = [
            opened_uneven(mixture=leat.DoReMi(dict.fromkeys(LAWS, 1.0), every=2), rank=rank, world_size=world)
            for rank in range(world)
        ]
        rows: list[int] = []
        for _ in range(2):
            epochs = [iter(rank) for rank in ranks]
            while given := [batch for batch in (next(epoch, None) for epoch in epochs) if batch is not None]:
                rows += [int(x) for batch in given for x in batch["x"]]
                counts = {name: sum(counted(batch)[name] for batch in given) for name in LAWS}
                losses = {name: 1.0 + k for k, name in enumerate(LAWS) if counts[name]}
                for rank in ranks:
                    rank.report((given[0].epoch, given[0].step), losses, counts)
        states = {json.dumps(rank.state_dict(), sort_keys=True) for rank in ranks}
        for rank in ranks:
            rank.load_state_dict(json.loads(min(states)))
        return rows, states

    def opened_uneven(**more: Any) -> leat.Loader:
        small = leat.Mix({name: (ds[:20], w) for (name, w), ds in zip(mix().weights.items(), mix().datasets)})
        return leat.Loader(small, global_batch_size=6, shuffle=True, framework="numpy", tail="uneven", **more)

    one, _ = run(1)
    for world in (2, 4):
        rows, states = run(world)
        assert rows == one and len(states) == 1
    with pytest.raises(ValueError, match="step 3 of epoch 0 was not handed out yet: none was"):
        opened(leat.DoReMi(dict.fromkeys(LAWS, 1.0))).report((0, 3), {}, {})
    for world, ahead in ((1, 0), (2, 1)):  # no rank had the step
        loader = opened_uneven(mixture=leat.DoReMi(dict.fromkeys(LAWS, 1.0)), rank=0, world_size=world)
        last = [batch.step for batch in loader][-1]
        with pytest.raises(ValueError, match=f"step {last + ahead + 1} of epoch 0 was not handed out yet: the last"):
            loader.report((0, last + ahead + 1), {}, {})
