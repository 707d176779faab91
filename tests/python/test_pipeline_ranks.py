"""Real ranks of torch.distributed (gloo) in a pipeline: none waits for another, and differences are found."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from process_support import run_ranks  # noqa: E402


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    store: Path = tmp_path_factory.mktemp("ranks") / "store"
    return run_ranks("pipeline_ranks.py", store, world=3)


def test_a_stage_that_waits_for_the_first_and_one_that_never_reads_hold_up_nobody(told: list[dict[str, Any]]) -> None:
    for rank in told:
        assert rank["ids"] == told[0]["ids"] and rank["after"] == rank["again 1"] == told[0]["ids"][:3]
    first, second = told[0]["ids"][:3], told[0]["ids"][3:]
    assert sorted(sum(first, [])) == sorted(sum(second, [])) == list(range(24)) and first != second


def test_ranks_that_differ_are_all_told_so(told: list[dict[str, Any]]) -> None:
    for rank in told:
        assert "differs from rank" in rank["error"] and "in seed: " in rank["error"] and "loader 3 at" in rank["error"]


def test_a_group_after_another_and_a_look_at_a_batch_are_no_difference(told: list[dict[str, Any]]) -> None:
    for rank in told:
        assert rank["again 2"] == told[0]["again 2"] != rank["again 1"] and rank["looked"] == told[0]["ids"][:3]


def test_ranks_that_agree_again_go_on(told: list[dict[str, Any]]) -> None:
    for rank in told:
        assert "in decisions: 1 of hash" in rank["apart"]
        assert rank["together"] == told[0]["ids"][:3]


def test_stages_that_are_told_the_losses_of_all_rows_select_the_same_and_none_waits(told: list[dict[str, Any]]) -> None:
    for rank in told:
        assert sorted(rank["selected"][0]) == list(range(16, 24))


def test_stages_that_select_otherwise_are_told_so(told: list[dict[str, Any]]) -> None:
    for rank in told:
        assert "in decisions: " in rank["selected_apart"]
