"""The cost of ranks that compare what they load: CPU time a step, in the iterating thread and in the one behind it.

    python bench/agreement.py [--ranks 4] [--steps 4000] [--step-ms 10]

Each rank (gloo) reads two loaders in turn, alike but for their rank: one takes it from torch.distributed, so that it is
compared, and one is given it. A step lasts as long as asked. The difference between the two loaders, summed over all
steps, is the cost in the iterating thread; the other thread has a clock of its own.
"""

from __future__ import annotations

import argparse
import os
import platform
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
import torch.multiprocessing as processes

import leat


def opened(**place: int) -> leat.Loader:
    data = leat.from_arrays(x=np.zeros((100_000, 16), np.float32), y=np.arange(100_000))
    return leat.Loader(data, 32, shuffle=True, seed=1, num_threads=1, **place)


def timed(batches: Any) -> tuple[float, float]:
    """Seconds of the processor and of the wall clock that the next batch takes this thread."""
    wall, cpu = time.perf_counter(), time.thread_time()
    next(batches)
    return time.thread_time() - cpu, time.perf_counter() - wall


def epochs(loader: leat.Loader) -> Any:
    while True:
        yield from loader


def measure(rank: int, ranks: int, steps: int, step_s: float, port: int, found: Any) -> None:
    store = dist.TCPStore("127.0.0.1", port, is_master=False)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=ranks)
    readers = [epochs(opened()), epochs(opened(rank=rank, world_size=ranks))]
    for reader in readers:
        next(reader)
    (thread,) = (one for one in threading.enumerate() if one.name == "leat ranks")
    clock = time.pthread_getcpuclockid(thread.ident or 0)
    dist.barrier()
    sums, before, begun = np.zeros((2, 2)), time.clock_gettime(clock), time.perf_counter()
    for step in range(steps):
        for i in (0, 1) if step % 2 else (1, 0):
            sums[i] += timed(readers[i])
        time.sleep(max(begun + (step + 1) * step_s - time.perf_counter(), 0))
    behind = time.clock_gettime(clock) - before
    found.put((*(sums[0] - sums[1]), sums[1, 0], behind, time.perf_counter() - begun))
    dist.barrier()
    dist.destroy_process_group()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--steps", type=int, default=4000)
    parser.add_argument("--step-ms", type=float, default=10.0)
    asked = parser.parse_args()
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    context = processes.get_context("spawn")
    found = context.SimpleQueue()
    given = (asked.ranks, asked.steps, asked.step_ms / 1000, store.port, found)
    processes.spawn(measure, given, nprocs=asked.ranks)
    every = np.array([found.get() for _ in range(asked.ranks)]) / asked.steps * 1e6
    cpuinfo = Path("/proc/cpuinfo")
    names = [line.split(": ")[1] for line in cpuinfo.read_text().splitlines() if line.startswith("model name")]
    print(f"{names[0] if names else platform.processor()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    print(f"leat {leat.__version__}, torch {torch.__version__}, {asked.ranks} ranks, {asked.steps} steps each")
    print("rank   iterating: CPU   wall   (next itself)   thread behind: CPU   both, of a step")
    for rank, (cpu, wall, own, behind, step) in enumerate(every):
        share = 100 * (cpu + behind) / step
        print(f"{rank:4}   {cpu:9.2f} us {wall:9.2f} us {own:9.1f} us {behind:14.2f} us {share:15.3f}%")


if __name__ == "__main__":
    main()
