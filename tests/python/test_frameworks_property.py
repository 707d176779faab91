"""leat.DataLoader against PyTorch's in programs that are drawn at random, prepared by Accelerate: `Case.accelerate`."""

from __future__ import annotations

import os

import pytest

pytest.importorskip("torch")
from frameworks_support import needs  # noqa: E402

needs("accelerate")
from property_draws import drawn, first  # noqa: E402
from property_play import look  # noqa: E402


def test_a_program_runs_as_with_pytorchs_loader_in_accelerate() -> None:
    # with LEAT_SEED: the example that a failure has named
    look("accelerate", drawn(200) if os.environ.get("LEAT_SEED") else first(200))
