"""Readers that are interrupted while a port makes a batch for them."""

from __future__ import annotations

import signal
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from process_support import PATIENCE

import leat

N, BATCH = 96, 8
HELD = 5  #: the step whose rows are made as long as the gate is shut


class Interrupted(Exception):
    pass


class Gated:
    """Rows of numbers, of which some are read as soon as a gate is open."""

    fields = {"x": leat.field("int64")}

    def __init__(self) -> None:
        self.gate, self.reads = threading.Event(), threading.Event()

    def __len__(self) -> int:
        return N

    def read(self, p: Any) -> Any:
        if ((p >= HELD * BATCH) & (p < (HELD + 1) * BATCH)).any():
            self.reads.set()
            self.gate.wait()
        return {"x": 10 * p}


def interrupt(*_: object) -> None:
    raise Interrupted


@pytest.mark.parametrize("begun", [True, False])
def test_a_batch_that_was_given_up_is_not_taken_for_the_next_one(tmp_path: Path, begun: bool) -> None:
    """`begun`: the port has begun to make it; or it is still at one for another reader."""
    source = Gated()
    loader = leat.Loader(leat.from_source(source), BATCH, framework="numpy", num_threads=1)
    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        with leat.Port(loader, "p", folder=tmp_path) as _, leat.attach("p", folder=tmp_path) as reader:
            other = leat.attach("p", folder=tmp_path)
            busy = threading.Thread(target=lambda: other.batch_at(0, HELD))
            if not begun:
                busy.start()
                assert source.reads.wait(PATIENCE)
            for step in (HELD, HELD, HELD):
                with pytest.raises(Interrupted):
                    signal.setitimer(signal.ITIMER_REAL, 0.3)
                    reader.batch_at(0, step)
            opening = threading.Timer(0.5, source.gate.set)
            opening.start()
            batch = reader.batch_at(0, 7)
            assert batch.ids.tolist() == list(range(7 * BATCH, 8 * BATCH))
            assert (np.asarray(batch["x"]) == 10 * np.arange(7 * BATCH, 8 * BATCH)).all()
            assert reader.batch_at(0, HELD).ids[0] == HELD * BATCH
            del batch
            opening.join()
            if not begun:
                busy.join()
            other.close()
            [consumer] = leat.ports.stat("p", folder=tmp_path)["consumers"]
            assert consumer["held"] == 0 and reader.stats()["reconnects"] == 0
    finally:
        source.gate.set()
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        loader.close()
