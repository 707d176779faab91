"""What is misspelt, left out or forgotten about feedback is said."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from feedback_support import N, opened, train, write

import leat


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write(tmp_path_factory.mktemp("feedback") / "numbers.leat")


# ---- the mapping -----------------------------------------------------------------------------------------------------


def test_feedback_is_a_mapping_of_what_was_reported(path: str) -> None:
    with opened(path, feedback=leat.TopFraction(0.5)) as loader:
        feedback = loader.feedback
        assert "loss" not in feedback and list(feedback) == [] and len(feedback) == 0
        assert not feedback["loss"].count.any() and not feedback["margin"].count.any()
        assert list(feedback) == [] and "nothing was reported" in repr(feedback)  # looking has made none
        next(iter(loader))
        loader.report([1, 2], margin=[3.0, 4.0])
        loader.report([1], loss=[0.5])
        assert "loss" in feedback and "other" not in feedback and 3 not in feedback
        assert list(feedback) == ["loss", "margin"] and dict(feedback.items())["margin"].value[2] == 4
        assert "TopFraction(0.5" in repr(feedback) and "loss, margin" in repr(feedback)
        with pytest.raises(KeyError, match="nothing was reported as 'lss': there is 'loss', 'margin'"):
            feedback["lss"]
        assert feedback.get("lss") is None and len({feedback}) == 1
        for wrong in (0, None, ("loss",)):
            with pytest.raises(TypeError, match="a table has the name"):
                feedback[wrong]  # type: ignore[index]
        json.dumps(loader.state_dict())


# ---- names that nothing was reported under ---------------------------------------------------------------------------

POLICIES = {
    "top": lambda metric: leat.TopFraction(0.25, metric=metric),
    "weighted": lambda metric: leat.LossWeighted(metric=metric),
    "curriculum": lambda metric: leat.Curriculum(metric, lambda epoch: 0.25),
}


@pytest.mark.parametrize("name", POLICIES)
def test_before_anything_was_reported_an_epoch_has_all_samples_and_a_later_one_warns(path: str, name: str) -> None:
    with opened(path, feedback=POLICIES[name]("loss")) as loader:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert sorted(i for batch in loader for i in batch.ids) == list(range(N))
        with pytest.warns(UserWarning, match=r"has no loss to select by.*call"):
            assert sorted(i for batch in loader for i in batch.ids) == list(range(N))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            loader.report(np.arange(N), loss=np.arange(N))
            assert [i for batch in loader for i in batch.ids] != list(range(N))


@pytest.mark.parametrize("name", [*POLICIES, "batches", "function"])
def test_a_misspelt_metric_is_an_error_as_soon_as_something_was_reported(path: str, name: str) -> None:
    made = {
        "batches": lambda m: leat.TopBatches(0.3, metric=m),
        "function": lambda m: lambda table, epoch: table[m].top(9),
    }
    with opened(path, feedback={**POLICIES, **made}[name]("lss")) as loader:
        train(loader, 1)
        for _ in range(2):
            with pytest.raises(KeyError, match="nothing was reported as 'lss': there is 'loss'") as raised:
                iter(loader)
            assert any("rows of epoch 1" in note for note in raised.value.__notes__)


def test_a_function_sees_an_empty_table_of_any_name_until_something_is_reported(path: str) -> None:
    seen = []

    def policy(table: Any, epoch: int) -> None:
        seen.append((table.name, int(table.count.sum()), int(table["margin"].count.sum())))

    with opened(path, feedback=policy) as loader:
        for _ in loader:
            loader.report([4, 5], margin=[1.0, 2.0])
        iter(loader)
    assert seen == [("loss", 0, 0), ("loss", 0, 26)]


def test_a_pacing_that_is_no_function_is_refused() -> None:
    with pytest.raises(TypeError, match="pacing is a function of the epoch"):
        leat.Curriculum("loss", 0.3)  # type: ignore[arg-type]


# ---- states of other loaders -----------------------------------------------------------------------------------------


def begun(path: str, policy: Any, **options: Any) -> tuple[dict[str, Any], list[list[int]], list[dict[str, Any]]]:
    """A state of within epoch 1, what is left of that epoch, and the log."""
    with opened(path, feedback=policy, **options) as loader:
        train(loader, 1)
        batches = iter(loader)
        next(batches)
        state = json.loads(json.dumps(loader.state_dict()))
        return state, [batch.ids.tolist() for batch in batches], loader.log


def test_a_state_without_reports_is_loaded_with_a_warning(path: str) -> None:
    with opened(path) as plain:
        next(iter(plain))
        state = plain.state_dict()
    with opened(path, feedback=leat.TopFraction(0.5)) as loader:
        with pytest.warns(UserWarning, match="no reports for TopFraction"):
            loader.load_state_dict(state)
        assert next(iter(loader)).step == 1


def test_a_state_with_reports_is_refused_without_a_policy_unless_they_are_taken_out(path: str) -> None:
    state, rest, _ = begun(path, leat.TopFraction(0.5))
    with opened(path) as plain:
        with pytest.raises(leat.StateError, match=r"reported to TopFraction.*delete state\['feedback'\]"):
            plain.load_state_dict(state)
        assert plain.epoch == 0 and next(iter(plain)).step == 0
        del state["feedback"]
        plain.load_state_dict(state)
        assert [batch.ids.tolist() for batch in plain] == rest
        assert sum(batch.size for batch in plain) == N // 2
        plain.select(None)
        assert sum(batch.size for batch in plain) == N


def test_what_repeats_a_log_takes_a_state_with_reports_also_of_a_run_without_lists(path: str) -> None:
    state, rest, log = begun(path, leat.TopFraction(0.5))
    with opened(path, log=log) as again:
        again.load_state_dict(state)
        assert [batch.ids.tolist() for batch in again] == rest
    with opened(path, feedback=leat.TopFraction(0.5)) as loader:
        next(iter(loader))
        state, log = loader.state_dict(), loader.log
    with opened(path, log=log) as again:
        again.load_state_dict(state)
        assert next(iter(again)).step == 1


def test_a_state_of_another_policy_is_loaded_with_a_warning(path: str, tmp_path: Path) -> None:
    state, rest, _ = begun(path, leat.TopFraction(0.5))
    with opened(path, feedback=leat.LossWeighted(num_samples=24), log_dir=tmp_path) as loader:
        with pytest.warns(UserWarning, match="the policy TopFraction: LossWeighted decides from the next epoch on"):
            loader.load_state_dict(state)
        assert [batch.ids.tolist() for batch in loader] == rest
        assert sum(batch.size for batch in loader) == 24
