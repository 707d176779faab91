"""CPU seconds of two builds of leat for the same work, in pairs.

    pip install --no-deps --target OLDER CHECKOUT    # release builds of two checkouts
    python bench/builds.py OLDER NEWER [--jobs photos ...] [--pairs 16]

Each run is a process of its own with one of the folders in PYTHONPATH: it does the work once, which warms up, and then
a fixed number of times, of which user and system time are counted. Pairs go A B, B A, A B and so on. Shown are the
median of newer/older, the interval that has the true median with at least 95% (by the ranks of the ratios, whatever
their distribution), and the median seconds of both.

    photos   JPEGs of 500 x 400: random crop of 224, flip, normalise, float32, batches of 64; one thread
    records  13 float32, 26 int32 and an int64, shuffled, batches of 4,096; one thread
    tokens   documents of uint16 packed to rows of 2,048, shuffled, to int64, batches of 16; one thread
    port     batches of 256 integers through a port to a reader in the same process
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import leat

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tools"))
from gpu import write_photos  # noqa: E402

ONE: dict[str, Any] = {"shuffle": True, "seed": 0, "num_threads": 1, "framework": "numpy"}


def write(folder: Path) -> None:
    """What both builds read."""
    write_photos(folder, 64, 8, "original")
    rng = np.random.default_rng(0)
    numbers = {"dense": leat.field("float32", (13,)), "sparse": leat.field("int32", (26,)), "label": "int64"}
    with leat.Writer(folder / "records.leat", numbers) as w:
        for i in range(200_000):
            w.add(dense=rng.random(13, np.float32), sparse=rng.integers(0, 1000, 26, np.int32), label=i)
    with leat.Writer(folder / "tokens.leat", {"tokens": leat.field("uint16", (None,))}) as w:
        for n in rng.integers(300, 20_000, 2000):
            w.add(tokens=rng.integers(0, 50_000, n, np.uint16))


def photos(folder: Path) -> leat.Loader:
    ops = leat.ops
    chain = [ops.Decode("RGB"), ops.RandomResizedCrop(224), ops.RandomHorizontalFlip()]
    chain.append(ops.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)))
    return leat.Loader(leat.open(folder / "original.leat"), 64, outputs={"image": chain}, **ONE)


def records(folder: Path) -> leat.Loader:
    return leat.Loader(leat.open(folder / "records.leat"), 4096, **ONE)


def tokens(folder: Path) -> leat.Loader:
    rows = leat.pack_rows(leat.open(folder / "tokens.leat"), "tokens", length=2048)
    outputs = {"tokens": [leat.ops.ToDtype("int64")]}
    return leat.Loader(rows, 16, outputs=outputs, **ONE)


def port(folder: Path) -> Any:
    integers = leat.from_arrays(x=np.arange(1 << 20))
    served = leat.Port(leat.Loader(integers, 256, **ONE), "builds", folder=folder / f"ports-{os.getpid()}")
    reader = leat.attach("builds", folder=folder / f"ports-{os.getpid()}", framework="numpy")
    reader.served = served  # it lives as long
    return reader


#: name -> (what makes the source, how often its epoch is run)
JOBS: dict[str, tuple[Callable[[Path], Any], int]] = {
    "photos": (photos, 8),
    "records": (records, 70),
    "tokens": (tokens, 45),
    "port": (port, 18),
}


def one(job: str, folder: Path) -> float:
    make, times = JOBS[job]
    source = make(folder)
    sum(batch.size for batch in source)
    began = time.process_time()
    for _ in range(times):
        sum(batch.size for batch in source)
    return time.process_time() - began


def ranks(n: int) -> tuple[int, int]:
    """Of n sorted values those between which the median is with at least 95%: positions from 0."""
    below, k = 0.0, 0
    while (below := below + math.comb(n, k) / 2**n) <= 0.025:
        k += 1
    return max(k - 1, 0), n - max(k, 1)


def main() -> None:
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("builds", nargs="*", type=Path)
    a.add_argument("--jobs", nargs="+", choices=JOBS, default=list(JOBS))
    a.add_argument("--pairs", type=int, default=16)
    a.add_argument("--one", help=argparse.SUPPRESS)
    o = a.parse_args()
    if o.one:
        print(json.dumps(one(o.one, o.builds[0])), flush=True)
        os._exit(0)
    model = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
    print(f"{model[1] if model else platform.machine()}, Python {platform.python_version()}, NumPy {np.__version__}")
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder))
        for job in o.jobs:
            spent: dict[Path, list[float]] = {build: [] for build in o.builds}
            for pair in range(o.pairs):
                for build in o.builds if pair % 2 == 0 else reversed(o.builds):
                    done = subprocess.run(
                        [sys.executable, __file__, "--one", job, folder],
                        env={**os.environ, "PYTHONPATH": str(build.resolve())},
                        stdout=subprocess.PIPE,
                        text=True,
                        check=True,
                    )
                    spent[build].append(float(done.stdout))
            older, newer = spent.values()
            found = sorted(b / a for a, b in zip(older, newer, strict=True))
            low, high = ranks(len(found))
            print(
                f"{job}: newer/older {statistics.median(found):.3f} ({found[low]:.3f} to {found[high]:.3f}, "
                f"{len(found)} pairs); {statistics.median(older):.2f} and {statistics.median(newer):.2f} s of CPU",
                flush=True,
            )


if __name__ == "__main__":
    main()
