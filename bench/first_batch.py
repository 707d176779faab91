"""How long until the first batch: leat.DataLoader and torch's with two workers, by start method.

    python bench/first_batch.py [--rounds 9]

Each round makes a loader, takes one batch, and drops it; the two take turns. Medians, in milliseconds. A fork server is
shared by both, and runs from the first round on.
"""

from __future__ import annotations

import argparse
import statistics
import time
import warnings
from typing import Any

import torch

import leat


class Tensors:
    """Small samples: what is timed is everything else."""

    def __len__(self) -> int:
        return 640

    def __getitem__(self, i: int) -> Any:
        return torch.full((3, 32, 32), float(i)), i


def first(kind: Any, method: str) -> float:
    """Seconds until the first batch is there."""
    begun = time.perf_counter()
    iterator = iter(kind(Tensors(), batch_size=32, num_workers=2, multiprocessing_context=method))
    next(iterator)
    spent = time.perf_counter() - begun
    del iterator  # its workers end before the next one's start
    return spent


def main() -> None:
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("--rounds", type=int, default=9)
    o = a.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    kinds = {"torch": torch.utils.data.DataLoader, "leat": leat.DataLoader}
    for method in ("fork", "forkserver", "spawn"):
        found: dict[str, list[float]] = {name: [] for name in kinds}
        for _ in range(o.rounds):
            for name, kind in kinds.items():
                found[name].append(first(kind, method))
        medians = {name: statistics.median(times) for name, times in found.items()}
        shown = "   ".join(f"{name} {1000 * t:7.1f} ms" for name, t in medians.items())
        print(f"{method:10}  {shown}   torch / leat {medians['torch'] / medians['leat']:.2f}", flush=True)


if __name__ == "__main__":
    main()
