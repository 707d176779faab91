"""recipes/hard_samples.py: the mini-batches with the highest losses are trained, and the others are not read."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from recipes_support import REAL, recipe, table

pytest.importorskip("torch")
pytestmark = pytest.mark.shard("whole")


@pytest.mark.parametrize("delta", [0.1, 0.3, 1.0])
def test_the_mini_batches_are_those_of_the_paper_and_only_their_bytes_are_read(tmp_path: Path, delta: float) -> None:
    hard = recipe("hard_samples")
    image, label = hard.digits(1000)
    run = hard.Run(hard.write(tmp_path / "train.leat", image, label), delta, 0)
    read = [0]
    for _ in islice(run.passes(), 5):
        read.append(run.bytes_read)
    last = dict[int, float]()
    for number, chosen in enumerate(run.chosen):
        expected = sorted(sorted(last, key=lambda b: (-last[b], b))[: max(1, int(delta * 20 + 1e-9))])
        assert chosen == (expected if number else list(range(20)))
        last.update(zip(chosen, run.losses[number], strict=True))
    assert len({tuple(chosen) for chosen in run.chosen}) > (2 if delta < 1 else 0)
    each = np.diff(read)
    assert each[0] == 1000 * 784
    assert (each[1:] == max(1, int(delta * 20 + 1e-9)) * 50 * 784).all()


@pytest.mark.parametrize("real", [True, False])
def test_the_table_has_the_plain_training_beside_the_others(real: bool, tmp_path: Path) -> None:
    recipe("hard_samples")  # skipped where a package is missing
    if real and not (REAL / "mnist-idx").is_dir():
        pytest.skip("LEAT_DATA names no folder with mnist-idx")
    lines = table("hard_samples", tmp_path, REAL if real else None)
    rows = {line[:26].strip(): line[26:].split() for line in lines[1:]}
    assert list(rows)[0] == "plain" and len(rows) == 7
    plain, fewer = rows["plain"], rows["delta 0.5, as many passes"]
    assert int(plain[1]) == int(fewer[1]) == 3
    assert float(fewer[2]) == pytest.approx(float(plain[2]) * (1 + 2 * 0.5) / 3, rel=0.02)
    assert float(plain[3]) > 50
