"""Numbers from row keys (leat.rng(keys)) against streams of NumPy and torch, on one core.

    [LEAT_ISA=avx2] python bench/generators.py [--rows 64] [--numbers 16384] [--rounds 9]

Into memory that is there, so that no page faults are measured; CPU time of the thread, the best of the rounds, all in
turns. Shown are GB/s, and millions of numbers a second.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from leat import _leat
from leat.functions.rows import INTEGERS, NORMAL, UNIFORM, WORDS


def main() -> None:
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("--rows", type=int, default=64)
    a.add_argument("--numbers", type=int, default=16384, help="of each row")
    a.add_argument("--rounds", type=int, default=9)
    o = a.parse_args()
    torch.set_num_threads(1)
    keys, n = np.arange(o.rows, dtype=np.uint64), o.numbers
    f, d, i = (np.zeros(o.rows * n, dtype) for dtype in ("float32", "float64", "int64"))
    words, tensor = np.zeros(o.rows * n, "uint32"), torch.zeros(o.rows * n)
    stream = np.random.Generator(np.random.Philox(1))

    def fill(kind: int, out: Any, wide: bool = False) -> Callable[[], Any]:
        return lambda: _leat.random_fill(kind, keys, 0, n, wide, 0, 1000, out)

    jobs: dict[str, tuple[Callable[[], Any], Any]] = {
        "words": (fill(WORDS, words), words),
        "uniform float32": (fill(UNIFORM, f), f),
        "  NumPy's Philox": (lambda: stream.random(out=f, dtype="float32"), f),
        "  torch.Tensor.uniform_": (lambda: tensor.uniform_(), f),
        "uniform float64": (fill(UNIFORM, d, True), d),
        "integers": (fill(INTEGERS, i), i),
        "normal float32": (fill(NORMAL, f), f),
        "  NumPy's Philox ": (lambda: stream.standard_normal(out=f, dtype="float32"), f),
        "  torch.Tensor.normal_": (lambda: tensor.normal_(), f),
        "normal float64": (fill(NORMAL, d, True), d),
    }
    best = dict.fromkeys(jobs, float("inf"))
    for _ in range(o.rounds):
        for name, (job, _) in jobs.items():
            began = time.thread_time()
            job()
            best[name] = min(best[name], time.thread_time() - began)
    for name, (_, out) in jobs.items():
        print(f"{name:26}{out.nbytes / best[name] / 1e9:8.2f} GB/s{out.size / best[name] / 1e6:8.0f} M/s")


if __name__ == "__main__":
    main()
