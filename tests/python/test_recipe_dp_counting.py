"""recipes/dp_counting.py: what was consumed, counted in public."""

from __future__ import annotations

from pathlib import Path

import pytest
from recipes_support import REAL, recipe, table

pytestmark = pytest.mark.shard("whole")


@pytest.mark.parametrize("real", [True, False])
def test_the_errors_of_the_mechanisms_are_in_the_order_and_size_that_their_analysis_says(
    real: bool, tmp_path: Path
) -> None:
    recipe("dp_counting")  # skipped where a package is missing
    if real and not (REAL / "mnist-idx").is_dir():
        pytest.skip("LEAT_DATA names no folder with mnist-idx")
    lines = table("dp_counting", tmp_path, REAL if real else None)
    rows = {line[:36].strip(): [float(x) for x in line[36:].split("(")[0].split()] for line in lines[1:]}
    said = {line[:36].strip(): float(line.split("(")[-1].rstrip(")")) for line in lines[1:] if line.endswith(")")}
    assert rows["exact, not private"] == [0, 0, 0]
    at_last = {name: row[-1] for name, row in rows.items()}
    assert at_last["factorisation"] < at_last["tree"] < at_last["noise on each sum"] / 10
    for name in ("noise on each sum", "noise on each value", "tree", "factorisation"):
        assert 0.25 * said[name] < at_last[name] < 4 * said[name]
