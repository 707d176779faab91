"""Data-parallel trainings of DeepSpeed with leat's batches, its `training_data`, and epochs that are selected."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")

from frameworks_support import needs, run_ranks  # noqa: E402

needs("deepspeed", level="parallel")

N, EPOCHS = 24, 8
Told = list[dict[str, Any]]


@pytest.fixture(scope="module")
def told() -> Told:
    return run_ranks("deepspeed_data.py")


@pytest.mark.parametrize("stage", ["1", "2"])
def test_with_zero_the_ranks_have_each_sample_once_an_epoch_and_learn(told: Told, stage: str) -> None:
    found = [rank["zero"][stage] for rank in told]
    for epoch in range(EPOCHS):
        assert sorted(found[0]["ids"][epoch] + found[1]["ids"][epoch]) == list(range(N))
    assert found[0]["ids"][0] != found[0]["ids"][1]
    assert sum(rank["last"] for rank in found) < sum(rank["first"] for rank in found)
    assert [rank["steps"] for rank in found] == [EPOCHS * N // 8] * 2


@pytest.mark.parametrize("how", ["as pairs", "as dicts"])
def test_a_data_set_as_training_data_comes_in_the_order_of_deepspeeds_sampler(told: Told, how: str) -> None:
    """It never tells its sampler the epoch."""
    first, second = (rank["training_data"][how] for rank in told)
    for epoch in range(2):
        assert sorted(first[epoch] + second[epoch]) == list(range(N))
    assert first[0] == first[1] and second[0] == second[1]


def test_the_engine_of_a_pipeline_takes_a_loader_for_good_in_leats_order(told: Told) -> None:
    for rank in told:
        ids = [i for micro in rank["for_good"] for i in micro]
        assert ids == rank["zero"]["1"]["ids"][0] + rank["zero"]["1"]["ids"][1]


def test_what_the_engine_of_a_pipeline_cannot_take_is_an_error(told: Told) -> None:
    for rank in told:
        assert rank["loader"] == "ValueError: Training data must be a torch Dataset"
        assert rank["dicts"] == "KeyError: 0"
        assert 'by number, a Loader with yields="tuple" gives them' in rank["batches"]


# ---- epochs that are selected ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def selected() -> Told:
    return run_ranks("deepspeed_feedback.py")


def test_a_curriculum_over_a_field_selects_on_both_stages(selected: Told) -> None:
    for rank in selected:
        ids = rank["field"]["ids"]
        assert [sorted(epoch) for epoch in ids] == [list(range(n, 32)) for n in (24, 16, 0)]
        assert rank["field"]["read"] == 8 + 16 + 32
    assert selected[0]["field"] == selected[1]["field"]


def test_a_curriculum_over_losses_selects_by_what_both_stages_are_told(selected: Told) -> None:
    assert selected[0]["loss"] == selected[1]["loss"]
    ids, tables = selected[0]["loss"]["ids"], selected[0]["loss"]["tables"]
    assert sorted(ids[0]) == list(range(32))
    for epoch, share in ((1, 8), (2, 16)):
        easiest = np.argsort(tables[epoch - 1], kind="stable")[:share]
        assert sorted(ids[epoch]) == sorted(easiest.tolist())
