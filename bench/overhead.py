"""What a DataLoader costs by itself: leat's beside torch's, on data sets that cost next to nothing.

    python bench/overhead.py [--jobs text epochs-0 ...] [--rounds 7]

Each loader of a job lives in a process of its own, pinned to the same cores. They take turns, one short round after the
other, so that a drift of the machine hits both. Shown are medians: batches a second (of jobs named epochs: epochs a
second), the ratio of each pair of neighbouring rounds, and CPU seconds of the main process for a thousand batches.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

import leat

N = 100_000


class Ints:
    """Samples that are their positions."""

    def __init__(self, n: int = N) -> None:
        self.n = n

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, i: int) -> int:
        return i


class Made(Ints):
    """Samples that a function makes of a position."""

    def __init__(self, n: int, make: Callable[[int], Any]) -> None:
        super().__init__(n)
        self.make = make

    def __getitem__(self, i: int) -> Any:
        return self.make(i)


def image(i: int) -> torch.Tensor:
    return torch.full((3, 224, 224), float(i))


def points(i: int) -> tuple[torch.Tensor, int]:
    return torch.full((1 + i % 7, 4), float(i)), i


def pad(samples: list[tuple[torch.Tensor, int]]) -> tuple[torch.Tensor, torch.Tensor]:
    padded = torch.nn.utils.rnn.pad_sequence([x for x, _ in samples], batch_first=True)
    return padded, torch.tensor([y for _, y in samples])


def stack(samples: list[tuple[np.ndarray[Any, Any], int]]) -> dict[str, torch.Tensor]:
    return {
        "x": torch.from_numpy(np.stack([x for x, _ in samples])),
        "y": torch.tensor([y for _, y in samples]),
    }


_TEXTS = [("lorem ipsum dolor sit amet, consectetur ä " * 50)[: 20 + 97 * i % 2000] for i in range(1000)]
_VECTORS = np.arange(64_000, dtype=np.float32).reshape(1000, 64)

#: name -> (data set, arguments of the loader)
JOBS: dict[str, Callable[[], tuple[Any, dict[str, Any]]]] = {
    "text": lambda: (["text"] * N, {"batch_size": 32, "num_workers": 2}),
    "text-long": lambda: (Made(N // 5, lambda i: _TEXTS[i % 1000]), {"batch_size": 32, "num_workers": 2}),
    "text-tuple": lambda: (Made(N, lambda i: (i, _TEXTS[i % 97])), {"batch_size": 32, "num_workers": 2}),
    "text-dict": lambda: (Made(N, lambda i: {"label": i, "text": "word " * (i % 9)}),
                          {"batch_size": 32, "num_workers": 2}),
    "ints-0": lambda: (Ints(), {"batch_size": 256, "shuffle": True}),
    "images-0": lambda: (Made(640, image), {"batch_size": 32}),
    "vectors-0": lambda: (Made(N // 5, lambda i: (_VECTORS[i % 1000], i)), {"batch_size": 32}),
    "text-0": lambda: (["text"] * N, {"batch_size": 32}),
    "epochs-0": lambda: (Ints(64), {"batch_size": 32, "shuffle": True}),
    "epochs-2": lambda: (Ints(64), {"batch_size": 32, "shuffle": True, "num_workers": 2, "persistent_workers": True}),
    "collate-list": lambda: (Ints(), {"batch_size": 32, "num_workers": 2, "collate_fn": list}),
    "collate-stack": lambda: (Made(N // 4, lambda i: (_VECTORS[i % 1000], i)),
                              {"batch_size": 32, "num_workers": 2, "collate_fn": stack}),
    "collate-pad": lambda: (Made(N // 8, points), {"batch_size": 32, "num_workers": 2, "collate_fn": pad}),
    "ints-2": lambda: (Ints(), {"batch_size": 256, "shuffle": True, "num_workers": 2}),
    "images-2": lambda: (Made(1280, image), {"batch_size": 32, "num_workers": 2}),
}  # fmt: skip
LOADERS = {"torch": torch.utils.data.DataLoader, "leat": leat.DataLoader}


def one(job: str, name: str, seconds: float) -> None:
    """Runs a round for each line that comes, and says what it gave."""
    torch.set_num_threads(1)
    dataset, given = JOBS[job]()
    loader = LOADERS[name](dataset, **given)
    for _ in loader:  # to warm up
        pass
    print("ready", flush=True)
    for _ in sys.stdin:
        count, batches, start, cpu = 0, 0, time.perf_counter(), time.process_time()
        while (spent := time.perf_counter() - start) < seconds:
            for _ in loader:
                batches += 1
                count += not job.startswith("epochs")
            count += job.startswith("epochs")
        print(count / spent, 1000 * (time.process_time() - cpu) / batches, flush=True)


def main() -> None:
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("--jobs", nargs="+", choices=JOBS, default=list(JOBS))
    a.add_argument("--rounds", type=int, default=7)
    a.add_argument("--seconds", type=float, default=0.7)
    a.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    o = a.parse_args()
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:2])
    if o.one:
        one(*o.one, o.seconds)
        os._exit(0)
    versions = f"leat {leat.__version__}, torch {torch.__version__}, Python {platform.python_version()}"
    print(f"{versions}, {platform.machine()}")
    for job in o.jobs:
        running = {}
        for name in LOADERS:
            command = [sys.executable, *sys.argv, "--one", job, name]
            running[name] = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for process in running.values():
            process.stdout.readline()  # type: ignore[union-attr]
        found: dict[str, list[tuple[float, float]]] = {name: [] for name in LOADERS}
        for turn in range(o.rounds):
            for name in list(LOADERS)[:: 1 if turn % 2 else -1]:
                process = running[name]
                process.stdin.write("\n")  # type: ignore[union-attr]
                process.stdin.flush()  # type: ignore[union-attr]
                rate, cpu = map(float, process.stdout.readline().split())  # type: ignore[union-attr]
                found[name].append((rate, cpu))
        for process in running.values():
            process.stdin.close()  # type: ignore[union-attr]
            process.wait()
        rates = {name: statistics.median(rate for rate, _ in runs) for name, runs in found.items()}
        cpus = {name: statistics.median(cpu for _, cpu in runs) for name, runs in found.items()}
        ratio = statistics.median(b[0] / a[0] for a, b in zip(found["torch"], found["leat"]))
        shown = "   ".join(f"{name} {rates[name]:9.0f}/s {cpus[name]:7.3f} s CPU" for name in LOADERS)
        print(f"{job:14} {shown}   leat / torch {ratio:5.2f}", flush=True)


if __name__ == "__main__":
    main()
