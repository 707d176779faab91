"""Feedback on several ranks: each reports its own rows, and all select the same."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from feedback_support import N, loss_of, plain_order, trace, write

from leat.feedback.driver import _by_step
from leat.feedback.table import NOTED

pytest.importorskip("torch")

from process_support import run_ranks  # noqa: E402


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write(tmp_path_factory.mktemp("feedback") / "numbers.leat")


@pytest.fixture(scope="module")
def ranks(path: str, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    return run_ranks("feedback_ranks.py", path, Path(tmp_path_factory.mktemp("run")))


def parts(ids: list[int], size: int = 8) -> list[list[int]]:
    """The rows of an epoch by rank."""
    found: list[list[int]] = [[], []]
    for i in range(0, len(ids), size):
        batch = ids[i : i + size]
        for rank in range(2):
            found[rank] += batch[rank * len(batch) // 2 : (rank + 1) * len(batch) // 2]
    return found


def test_the_ranks_together_train_what_one_process_would_select(path: str, ranks: list[dict[str, Any]]) -> None:
    expected = trace(plain_order(path), 8, 0.3, 4)
    for number, rank in enumerate(ranks):
        assert rank["epochs"] == [parts(ids)[number] for ids in expected]
    assert ranks[0]["hash"] == ranks[1]["hash"]


def test_the_ranks_of_a_mesh_exchange_and_what_peers_report_twice_counts_once(
    path: str, ranks: list[dict[str, Any]]
) -> None:
    expected = trace(plain_order(path), 8, 0.3, 4)
    times = Counter(i for epoch in expected for i in epoch)
    for rank in ranks:
        assert rank["of_mesh"] == rank["epochs"]
        assert rank["of_peers"] == expected and rank["counts"] == [times[i] for i in range(N)]


def test_the_tables_of_all_ranks_are_equal(ranks: list[dict[str, Any]]) -> None:
    assert ranks[0]["table"] == ranks[1]["table"]
    assert len([value for value in ranks[0]["table"] if value]) == N


def test_a_run_that_is_cut_within_an_epoch_selects_on_every_rank_what_the_whole_run_does(
    path: str, ranks: list[dict[str, Any]]
) -> None:
    expected = trace(plain_order(path), 8, 0.3, 4)
    for number, rank in enumerate(ranks):
        assert rank["resumed"][0] == parts(expected[1])[number][8:]
        assert rank["resumed"][1:] == [parts(ids)[number] for ids in expected[2:]]


def test_a_state_with_reports_that_wait_fits_the_rank_that_saved_it(ranks: list[dict[str, Any]]) -> None:
    for number, rank in enumerate(ranks):
        assert f"saved by rank {1 - number} of 2 within an epoch" in rank["of_another"]


def test_a_state_fits_all_ranks_once_the_loop_over_an_epoch_has_ended(path: str, ranks: list[dict[str, Any]]) -> None:
    expected = trace(plain_order(path), 8, 0.3, 2)
    for number, rank in enumerate(ranks):
        assert rank["waits"] == [True, False]
        assert rank["after"] == parts(expected[1])[number]


def test_reports_that_wait_and_do_not_fit_into_a_state_are_left_out_of_it_with_a_warning(
    ranks: list[dict[str, Any]],
) -> None:
    for rank in ranks:
        saved, loaded = rank["lost"]
        assert saved.startswith("what this rank has reported since ranks last exchanged (")
        assert saved.endswith("open the Loader with log_dir=, or a resumed run goes on without it")
        assert loaded.startswith("the state has only the hash of the reports of 'loss' that waited")
        assert rank["known"] == N - 5 * 8


def test_reports_are_grouped_by_step_in_their_order() -> None:
    rng = np.random.default_rng(0)
    reports = np.zeros(200, NOTED)
    reports["epoch"], reports["step"] = rng.integers(0, 3, 200), rng.choice([0, 1, 7, 2**32 - 1], 200)
    places = [(int(r["epoch"]), int(r["step"])) for r in reports]
    expected = [[i for i in range(200) if places[i] == place] for place in sorted(set(places))]
    assert [at.tolist() for at in _by_step(reports)] == expected


def test_a_policy_that_decides_otherwise_on_another_rank_is_an_error_on_all(ranks: list[dict[str, Any]]) -> None:
    for rank in ranks:
        assert rank["differs"].startswith("StateError: the ranks differ in what <lambda> decided for epoch 0")


def test_a_policy_that_raises_on_one_rank_ends_the_wait_of_the_others(ranks: list[dict[str, Any]]) -> None:
    assert ranks[0]["fails"].startswith("StateError: the ranks differ in what fails decided for epoch 0")
    assert ranks[1]["fails"] == "KeyError: 'only here'"


def test_the_rest_of_an_epoch_is_decided_alike_on_all_ranks_or_is_an_error(ranks: list[dict[str, Any]]) -> None:
    assert ranks[0]["same"] == ranks[1]["same"]
    assert sorted(ranks[0]["rest"] + ranks[1]["rest"]) == list(range(40))
    for rank in ranks:
        assert rank["rest_resumed"] == rank["rest"]
        assert rank["rest_differs"].startswith("StateError: the ranks differ: rank 1 differs from rank 0 in decisions")


def test_rows_may_be_reported_by_any_rank_and_twice(ranks: list[dict[str, Any]]) -> None:
    for rank in ranks:
        assert rank["count"] == [0, 13, 13, 13]
    assert ranks[0]["count"] == ranks[1]["count"]
    unknown = sorted(set(range(N)) - {1, 2, 3, 40, 41})[:10]
    assert sorted({*ranks[0]["others"], *ranks[1]["others"]}) == unknown
    assert loss_of(0, 0) > 0
