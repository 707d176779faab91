"""Megatron's own parallel state and DeepSpeed's own grid on four ranks: a Loader finds their places in them."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("torch")

from frameworks_support import run_ranks  # noqa: E402

pytestmark = pytest.mark.shard("parallel")  # which has DeepSpeed


def check(told: list[dict[str, Any]]) -> None:
    for name in told[0]:
        ours = [rank[name][0] for rank in told]
        assert ours == [rank[name][1] for rank in told], name
        seen: dict[tuple[int, ...], Any] = {}
        for rank, place in zip(told, ours):
            each, first = rank[name][2:]
            assert first is None or first == each
            peers = (place["dp"][0], place["cp"][0])
            assert seen.setdefault(peers, each) == each  # tensor- and pipeline-parallel peers have the same
        assert len({str(rows) for rows in seen.values()}) == len(seen)


def test_the_parallel_state_of_megatron_says_who_shares_what() -> None:
    pytest.importorskip("megatron.core", exc_type=ImportError)
    check(run_ranks("mesh_grids.py", "megatron", world=4))


def test_the_grid_and_the_topology_of_deepspeed_say_who_shares_what() -> None:
    pytest.importorskip("deepspeed", exc_type=ImportError)
    check(run_ranks("mesh_grids.py", "deepspeed", world=4))
