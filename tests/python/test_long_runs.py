"""Steps that a training repeats for weeks leave nothing behind."""

from __future__ import annotations

import gc
import sys
from collections import Counter
from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import leat
from leat.loading.agreement import Begun


def test_an_epoch_of_a_loader_leaves_no_object(tmp_path: Path) -> None:
    path = tmp_path / "numbers.leat"
    with leat.Writer(path, {"x": leat.field("int64", ())}) as writer:
        writer.write_batch({"x": np.arange(64)})
    with leat.Loader(leat.open(path), batch_size=16, shuffle=True, framework="numpy") as loader:
        counts = []
        for epochs in (300, 300):  # the first ones fill caches of the interpreter
            for _ in range(epochs):
                for _ in loader:
                    pass
            gc.collect()
            counts.append(sys.getallocatedblocks())
    assert counts[1] - counts[0] < 150


@given(st.lists(st.integers(0, 6), max_size=40))
def test_times_that_an_epoch_has_begun_are_counted(epochs: list[int]) -> None:
    begun, expected = Begun(), Counter(epochs)
    for epoch in epochs:
        begun.add(epoch)
    assert [begun.times(epoch) for epoch in range(8)] == [expected[epoch] for epoch in range(8)]
