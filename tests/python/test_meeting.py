"""Ranks that start again on a store which others before them have used: each start has values of its own."""

from __future__ import annotations

import re

import pytest

torch = pytest.importorskip("torch")

from process_support import run_ranks  # noqa: E402

from leat.loading.meeting import Meeting  # noqa: E402


def master() -> torch.distributed.TCPStore:
    return torch.distributed.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)


def look(*ranks: Meeting, times: int = 3) -> list[str | None]:
    """The starts that these ranks know once each has looked so many times."""
    for _ in range(times):
        for rank in ranks:
            rank.look()
    return [rank.start for rank in ranks]


def test_the_rank_that_comes_first_leads_and_answers_each_of_the_others() -> None:
    store = master()
    ranks = [Meeting(store, rank, 2) for rank in (1, 0, 2)]
    first, *others = look(*ranks[:2])
    assert first is not None and others == [first] and ranks[1].leader == 1
    assert [rank.is_awaited for rank in ranks[:2]] == [True, False]
    assert look(*ranks) == [first] * 3
    assert not ranks[0].is_awaited


def test_ranks_that_start_again_wait_for_the_rank_that_has_led_and_have_another_start() -> None:
    store = master()
    before = look(*(Meeting(store, rank, 2) for rank in (1, 0, 2)))
    again = [Meeting(store, rank, 2) for rank in (0, 2, 1)]
    assert look(*again[:2], times=10) == [None, None] and again[0].leader == 1
    (now,) = set(look(*again))
    assert now is not None and now not in before


def test_a_restarted_group_is_not_compared_with_what_the_ranks_before_it_have_left() -> None:
    store = master()
    for seed in (4, 14):
        told = run_ranks("restarted_ranks.py", seed, world=3, store=store)
        assert [rank["steps"] for rank in told] == [500] * 3
        for rank in told:
            mine, other = seed + 1, seed
            assert re.search(
                rf"rank 1 differs from rank \d in seed: {mine} is not {other}|"
                rf"ranks? .* differs? from rank 1 in seed: {other} is not {mine}",
                rank["differs"],
            ), rank["differs"]
