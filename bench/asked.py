"""Sources that are asked for the samples of many batches at once: shuffled batches of 16 and 256 rows, one thread.

A source in Python whose call takes 2 ms, as one of a server may, beside one that returns at once; and Parquet of 64 MB
of columns with a cache that holds a quarter of it, beside one that holds all. Prints samples/s, positions a call, and
the rate of batches that would ask alone.

    python bench/asked.py
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import leat

SECONDS = 12.0
ROWS, COLUMNS, GROUP = 400_000, 40, 10_000


class Slow:
    """Values that a call gives after a time of its own."""

    fields = {"x": leat.field("float32", (64,))}

    def __init__(self, call_s: float) -> None:
        self.call_s, self.calls = call_s, 0

    def __len__(self) -> int:
        return 1 << 20

    def read(self, positions: np.ndarray[Any, Any]) -> dict[str, Any]:
        self.calls += 1
        time.sleep(self.call_s)
        return {"x": np.zeros((len(positions), 64), "float32")}


def rate(dataset: leat.Dataset, batch: int) -> tuple[float, int]:
    """Samples a second, and how many there were."""
    with leat.Loader(dataset, batch_size=batch, shuffle=True, num_threads=1, framework="numpy") as loader:
        n, began = 0, time.perf_counter()
        while time.perf_counter() - began < SECONDS:
            for got in loader:
                n += len(got.ids)
                if time.perf_counter() - began >= SECONDS:
                    break
        return n / (time.perf_counter() - began), n


def tables(path: str) -> None:
    """In a process of its own, whose cache LEAT_CACHE_BYTES bounds."""
    dataset = leat.open(path)
    for batch in (16, 256):
        rate(dataset, batch)  # the first reading decodes all, and learns whether it stays
        print(f"{batch} {rate(dataset, batch)[0]:.0f}", flush=True)


def main() -> None:
    for call_s in (0.002, 0.0):
        for batch in (16, 256):
            source = Slow(call_s)
            speed, n = rate(leat.from_source(source), batch)
            alone = f"; alone at most {batch / call_s:,.0f}" if call_s else ""
            print(f"source, {1000 * call_s:.0f} ms a call, batches of {batch}: {speed:,.0f} samples/s, "
                  f"{n / source.calls:.0f} a call{alone}")  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "columns.parquet"
        draw = np.random.default_rng(0)
        columns = {f"c{i}": draw.random(ROWS, dtype="float32") for i in range(COLUMNS)}
        pq.write_table(pa.table(columns), path, row_group_size=GROUP)
        for name, cache in (("a quarter", 16 << 20), ("all", 1 << 30)):
            bounded = {**os.environ, "LEAT_CACHE_BYTES": str(cache)}
            command = [sys.executable, __file__, str(path)]
            out = subprocess.run(command, env=bounded, check=True, capture_output=True, text=True).stdout
            for line in out.splitlines():
                rows, reached = line.split()
                print(f"Parquet, the cache holds {name}, batches of {rows}: {float(reached):,.0f} samples/s")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        tables(sys.argv[1])
    else:
        main()
