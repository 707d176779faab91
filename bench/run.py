"""Ratios of leat against torch's DataLoader and against plain copying, on this machine, in one run.

    make bench                                    (or: python bench/run.py [--jobs photos raw ...] [--cores 1 2])

Each contender runs a job (bench/jobs.py, bench/augment_jobs.py) in a fresh process pinned to the same cores; contenders
take turns, so that a drift of the machine hits all alike; figures are medians over rounds.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

import augment_jobs
from jobs import JOBS as PLAIN

import leat

JOBS = PLAIN | augment_jobs.JOBS


def one(job: str, name: str, cores: int, seconds: float, clock: Callable[[], float]) -> float:
    """Samples per second of whole epochs after two to warm up, for at least `seconds`."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:cores])
    epoch = JOBS[job][name](cores)
    sum(epoch())
    sum(epoch())
    start, samples = clock(), 0
    while (spent := clock() - start) < seconds:
        samples += sum(epoch())
    return samples / spent


def main() -> None:
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("--jobs", nargs="+", choices=JOBS, default=[job for job in PLAIN if "-" not in job])
    a.add_argument("--cores", type=int, nargs="+", default=[1, 2])
    a.add_argument("--rounds", type=int, default=3)
    a.add_argument("--seconds", type=float, default=3)
    a.add_argument("--cpu", action="store_true", help="count CPU time, but not that of workers: for a busy machine")
    a.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    o = a.parse_args()
    clock = time.process_time if o.cpu else time.perf_counter
    if o.one:
        print(json.dumps(one(o.one[0], o.one[1], int(o.one[2]), o.seconds, clock)), flush=True)
        os._exit(0)
    print(f"leat {leat.__version__}, Python {platform.python_version()}, {os.cpu_count()} cores, {platform.machine()}")
    for job in o.jobs:
        for cores in (c for c in o.cores if c <= len(os.sched_getaffinity(0))):
            speed: dict[str, list[float]] = {name: [] for name in JOBS[job]}
            for turn in range(o.rounds):
                for name in JOBS[job]:
                    print(
                        f"\r{job}, cores {cores}, round {turn + 1} of {o.rounds}: {name}        ",
                        end="",
                        file=sys.stderr,
                        flush=True,
                    )
                    done = subprocess.run(
                        [sys.executable, __file__, "--one", job, name, str(cores), "--seconds", str(o.seconds)]
                        + ["--cpu"] * o.cpu,
                        stdout=subprocess.PIPE,
                        text=True,
                        check=True,
                    )
                    speed[name].append(float(done.stdout.splitlines()[-1]))
            print("\r" + " " * 60 + "\r", end="", file=sys.stderr)
            ours = statistics.median(speed["leat"])
            ratios = "   ".join(
                f"{ours / statistics.median(v):.2f} x {name} ({statistics.median(v):,.0f})"
                for name, v in speed.items()
                if name != "leat"
            )
            print(f"{job:8} cores {cores}  leat {ours:12,.0f} samples/s   {ratios}", flush=True)


if __name__ == "__main__":
    main()
