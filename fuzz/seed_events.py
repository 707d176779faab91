"""Writes the seeds of the target of indexes of events: `python fuzz/seed_events.py fuzz/corpus`."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np

import leat

root = Path(sys.argv[1])

for name, far in {"dense": 1, "sparse": 2**27}.items():
    for how, first in {"random": b"\0", "historical": b"\1"}.items():
        src, dst = np.array([0, 1, 0, 2, 2]) * far, np.array([1, 2, 1, 2, 0]) * far
        with tempfile.TemporaryDirectory() as folder:
            events = leat.from_arrays(src=src, dst=dst, t=np.array([1, 1, 2, 3, 3]))
            leat.temporal(events, how=how, index_dir=folder)  # type: ignore[arg-type]
            (file,) = Path(folder).iterdir()
            (root / "fuzz_event_index").mkdir(exist_ok=True)
            (root / "fuzz_event_index" / f"{name}-{how}").write_bytes(first + file.read_bytes())
