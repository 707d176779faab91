"""How much is drawn: little where every change is tested, more in the shard that looks for new finds."""

from __future__ import annotations

import os
from typing import Any

import pytest
from hypothesis import settings

SEED = os.environ.get("LEAT_SEED")
#: parameters of tests that draw by themselves: a seed that is always the same, and that of the shard
SEEDS = [
    pytest.param(1, id="fixed"),
    pytest.param(int(SEED or 2), id="drawn", marks=pytest.mark.shard("draws")),
]


def examples(n: int, **more: Any) -> settings:
    return settings(max_examples=4 * n if SEED else n, **more)
