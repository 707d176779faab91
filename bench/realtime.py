"""Slow samples in real time: leat.DataLoader and torch's, 8 workers, on a workload of bench/workloads.py.

    python bench/realtime.py [--workload segmentation] [--scale 0.05] [--epochs 20] [--workers 8] [--step 0.1]

A sample sleeps for its time, scaled down; so does the consumer for its step. Sleeping needs no core: what is measured
is the order of work, not the machine. Once running: epochs are timed from the end of the second to the end of the last.
The bound is what no loader can beat there: the epochs' work divided among all workers, or the consumer's steps,
whichever is longer.
"""

from __future__ import annotations

import argparse
import time
import warnings
from typing import Any

import torch
from workloads import WORKLOADS

import leat


class Sleeper:
    """Samples that take their time."""

    def __init__(self, seconds: list[float]) -> None:
        self.seconds = seconds

    def __len__(self) -> int:
        return len(self.seconds)

    def __getitem__(self, i: int) -> int:
        time.sleep(self.seconds[i])
        return i


def run(loader: Any, epochs: int, step: float) -> float:
    """Seconds from the end of the second epoch to the end of the last."""
    begun = 0.0
    for epoch in range(epochs):
        if epoch == 2:
            begun = time.perf_counter()
        for _ in loader:
            time.sleep(step)
    return time.perf_counter() - begun


def main() -> None:
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("--workload", choices=WORKLOADS, default="segmentation")
    a.add_argument("--scale", type=float, default=0.05)
    a.add_argument("--epochs", type=int, default=20)
    a.add_argument("--workers", type=int, default=8)
    a.add_argument("--step", type=float, default=0.1, help="seconds of a training step, before scaling")
    o = a.parse_args()
    warnings.simplefilter("ignore")
    workload = WORKLOADS[o.workload]
    times = (workload.times(min(workload.epoch, 48 * 24)) * o.scale).tolist()
    batches, step = -(-len(times) // workload.batch), o.step * o.scale
    bound = (o.epochs - 2) * max(sum(times) / o.workers, batches * step)
    print(
        f"{o.workload}: {len(times)} samples an epoch, batch {workload.batch}, {o.workers} workers, {o.epochs} "
        f"epochs, times x {o.scale:g}"
    )
    common = {"batch_size": workload.batch, "shuffle": True, "num_workers": o.workers, "persistent_workers": True}
    contenders = {
        "leat": lambda: leat.DataLoader(Sleeper(times), **common),
        "leat, in_order=False": lambda: leat.DataLoader(Sleeper(times), in_order=False, **common),
        "torch": lambda: torch.utils.data.DataLoader(Sleeper(times), **common),
        "torch, in_order=False": lambda: torch.utils.data.DataLoader(Sleeper(times), in_order=False, **common),
    }
    for name, make in contenders.items():
        spent = run(make(), o.epochs, step)
        print(f"{name:22} {spent:7.2f} s   {bound / spent:6.1%} of the bound", flush=True)


if __name__ == "__main__":
    main()
