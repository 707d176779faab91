"""Gathers rows of float32 by random ids: leat.device.rows beside torch, in turns.

    python bench/device_rows.py [--device cpu|cuda] [--mib 512] [--out-mib 128] [--rounds 15] [--threads 2] [--cpu]
                                [--json]

On the processor the peers are `x[ids]`, `torch.index_select` and NumPy's `take`; on a card, `index_select` into pinned
memory and a copy that does not block. Ids are in the host's memory, but those of "leat, ids there". Each table is
larger than the caches. A figure is the median of the rounds, GB/s of rows that arrived; a ratio is the median of those
of the rounds, in brackets the quarters around it. OMP_WAIT_POLICY is PASSIVE: threads of OpenMP that spin would take
the cores of whoever comes next.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import time
from collections.abc import Callable

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import numpy as np
import torch

import leat

SIZES = (64, 128, 256, 512, 1000, 1024, 4096)  # bytes of a row
THERE = "leat, ids there"


def ways_of(x: torch.Tensor, rows: leat.device.Rows, n: int) -> dict[str, Callable[[torch.Tensor], object]]:
    if rows.device == "cpu":
        array = x.numpy()
        return {
            "leat": lambda ids: rows[ids],
            "x[ids]": lambda ids: x[ids],
            "index_select": lambda ids: torch.index_select(x, 0, ids),
            "np.take": lambda ids: np.take(array, ids.numpy(), 0),
        }
    pinned = torch.empty(n, x.shape[1], pin_memory=True)

    def copied(ids: torch.Tensor) -> None:
        torch.index_select(x, 0, ids, out=pinned)
        pinned.to(rows.device, non_blocking=True)

    return {"leat": lambda ids: rows[ids], "pinned copy": copied, THERE: lambda ids: rows[ids]}


def link_gb_s(device: str, n_bytes: int) -> float:
    """The bus, as a copy of pinned memory uses it: the median of 11."""
    host = torch.empty(n_bytes, dtype=torch.uint8, pin_memory=True)
    there = host.to(device)
    taken = []
    for _ in range(11):
        torch.cuda.synchronize()
        began = time.perf_counter()
        there.copy_(host, non_blocking=True)
        torch.cuda.synchronize()
        taken.append(time.perf_counter() - began)
    return host.nbytes / statistics.median(taken) / 1e9


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--mib", type=int, default=512)
    parser.add_argument("--out-mib", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--threads", type=int, default=leat._leat.cpu_count())
    parser.add_argument("--cpu", action="store_true", help="CPU time in the place of time")
    parser.add_argument("--json", action="store_true", help="a JSON object for each size of rows")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    clock = time.process_time if given.cpu else time.perf_counter
    card = torch.cuda.get_device_name() if given.device != "cpu" else f"{given.threads} threads"
    print(f"{platform.platform()}, {card}, torch {torch.__version__}, NumPy {np.__version__}")
    if given.device != "cpu":
        link = link_gb_s(given.device, given.out_mib << 20)  # a copy of as many bytes as a call gathers
        print(
            json.dumps({"link_gb_s": link}) if given.json else f"a copy of pinned memory: {link:.2f} GB/s", flush=True
        )
    for size in SIZES:
        x = torch.ones((given.mib << 20) // size, size // 4)
        n = (given.out_mib << 20) // size
        with leat.device.rows(x, device=given.device, num_threads=given.threads) as rows:
            ways = ways_of(x, rows, n)
            taken: dict[str, list[float]] = {name: [] for name in ways}
            for turn in range(given.rounds + 1):
                names = list(ways)
                for name in names[turn % len(names) :] + names[: turn % len(names)]:
                    ids = torch.randint(len(x), (n,))
                    if name == THERE:
                        ids = ids.to(given.device)
                        torch.cuda.synchronize()
                    began = clock()
                    ways[name](ids)
                    if given.device != "cpu":
                        torch.cuda.synchronize()
                    if turn:  # the first one warms up
                        taken[name].append(clock() - began)
        speeds = {name: n * size / statistics.median(seconds) / 1e9 for name, seconds in taken.items()}
        ratios = {
            name: statistics.quantiles((t / o for t, o in zip(seconds, taken["leat"], strict=True)), n=4)
            for name, seconds in taken.items()
            if name != "leat"
        }
        if given.json:
            print(json.dumps({"bytes": size, "gb_s": speeds, "leat_over": ratios}), flush=True)
            continue
        line = [f"{size:5} B"]
        for name, speed in speeds.items():
            line.append(f"{name} {speed:.2f}")
            if name in ratios:
                low, middle, high = ratios[name]
                line[-1] += f" (leat {middle:.2f}x, {low:.2f} to {high:.2f})"
        print("  ".join(line), flush=True)


if __name__ == "__main__":
    main()
