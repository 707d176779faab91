"""examples/anywhere.py: one script under four engines, each stopped once and resumed as another of them, sees the same
global batches as a run of one process that nobody disturbs. test_on_ray_anywhere.py has the fifth."""

from __future__ import annotations

from pathlib import Path

import pytest
from anywhere_support import assert_goes_on_elsewhere
from frameworks_support import needs

pytestmark = pytest.mark.shard("parallel")
needs("deepspeed", "accelerate", level="parallel")


@pytest.mark.parametrize(
    "engines",
    [("alone", "ddp", "deepspeed", "accelerate", "alone"), ("accelerate", "deepspeed", "ddp", "alone", "accelerate")],
    ids=lambda engines: " ".join(engines),
)
def test_a_run_goes_on_under_another_engine_with_the_same_global_batches(
    engines: tuple[str, ...], tmp_path: Path
) -> None:
    assert_goes_on_elsewhere(engines, tmp_path)
