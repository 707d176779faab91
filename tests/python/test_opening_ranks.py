"""Where one rank fails to open, the others are told so where they would wait for it, and can begin again."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from frameworks_support import run_ranks  # noqa: E402


@pytest.fixture(scope="module")
def told() -> list[dict[str, Any]]:
    return run_ranks("opening_ranks.py", world=2)


@pytest.mark.parametrize(
    ("what", "says"), [("file", "/no/such/file.leat"), ("option", "tail"), ("state", "not a state of leat")]
)
def test_the_others_are_told_what_failed_on_a_rank(told: list[dict[str, Any]], what: str, says: str) -> None:
    assert says in told[1][what] and "rank 1" not in told[1][what]
    assert "rank 1 failed to open: " in told[0][what] and says in told[0][what]


def test_ranks_that_all_have_opened_after_all_go_on(told: list[dict[str, Any]]) -> None:
    for rank in told:
        assert [rank[what + " again"] for what in ("file", "option", "state")] == ["4", "4", "4"]


def test_what_is_opened_for_a_stated_rank_alone_concerns_nobody_else(told: list[dict[str, Any]]) -> None:
    assert [rank["alone"] for rank in told] == ["12", "12"]
