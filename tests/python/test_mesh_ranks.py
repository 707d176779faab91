"""Real ranks of torch.distributed (gloo) on a DeviceMesh: peers see the same, groups other rows, decisions agree."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from process_support import run_ranks  # noqa: E402


@pytest.fixture(scope="module")
def told() -> list[dict[str, Any]]:
    return run_ranks("mesh_ranks.py", world=4)


def test_tensor_parallel_peers_see_identical_batches_and_data_parallel_groups_share_each_row_out(
    told: list[dict[str, Any]],
) -> None:
    assert told[0]["each"] == told[1]["each"] and told[2]["each"] == told[3]["each"]
    for epoch in range(2):
        first = [
            row[0] // 16 for rank in (0, 2) for rows in told[rank]["each"][6 * epoch : 6 * epoch + 6] for row in rows
        ]
        assert sorted(first) == list(range(48))


def test_one_reader_sends_its_peers_what_they_would_read(told: list[dict[str, Any]]) -> None:
    for rank in told:
        assert rank["first"] == rank["each"]
        assert rank["first ids"] == rank["each ids"]


def test_each_peer_gathers_rows_itself(told: list[dict[str, Any]]) -> None:
    for rank, found in enumerate(told):
        for batch in found["first rows"]:
            numbers, x = batch[: len(batch) // 2], batch[len(batch) // 2 :]
            assert x == [(100 + rank) * number for number in numbers]


def test_on_each_host_one_of_the_peers_reads(told: list[dict[str, Any]]) -> None:
    for rank, found in enumerate(told):
        assert all(same for same, _ in found["hosts"])
        assert [reads for _, reads in found["hosts"]] == [rank == 0, rank % 2 == 0, True]


def test_peers_stay_together_where_a_batch_could_not_be_sent(told: list[dict[str, Any]]) -> None:
    for rank in told:
        error, step, at = rank["after an error"]
        assert "tp_read='first' sends tensors, texts and JSON only" in error
        assert (step, at) == (2, told[0]["after an error"][2])


def test_decisions_are_the_same_on_all_ranks(told: list[dict[str, Any]]) -> None:
    assert len({tuple(rank["decided"]) for rank in told}) == 1
    assert len(set(told[0]["decided"])) > 1


def test_ranks_that_report_different_losses_are_told_so(told: list[dict[str, Any]]) -> None:
    assert all("different losses" in rank["error"] for rank in told)


def test_ranks_of_which_only_one_decides_are_told_so(told: list[dict[str, Any]]) -> None:
    assert all("differ in the weights that were decided" in rank["alone"] for rank in told)
