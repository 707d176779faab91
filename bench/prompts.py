"""Prompts in groups: how fast they are found beside reading every token once, and what memory that takes.

    bench/prompts.py                       30,000 prompts of 1,300 shared and 200 own tokens, 16 to a prefix
    bench/prompts.py --memory 10000000     anonymous memory while so many are grouped whose tokens lie in a file

By CPU time of one thread, medians of five pairs.
"""

import argparse
import statistics
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import leat

DEGREE = 16


def made(n: int, shared: int, own: int, out: np.ndarray) -> None:
    """Prompts in an order in which those of a prefix lie far apart."""
    draw = np.random.default_rng(0)
    prefixes = draw.integers(0, 32000, (n // DEGREE + 1, shared), out.dtype)
    order = draw.permutation(n)
    for begin in range(0, n, 65536):
        some = order[begin : begin + 65536] % len(prefixes)
        out[begin : begin + 65536, :shared] = prefixes[some]
        out[begin : begin + 65536, shared:] = draw.integers(0, 32000, (len(some), own), out.dtype)


def dataset(tokens: np.ndarray) -> leat.Dataset:
    ragged = leat.Ragged(tokens.reshape(-1), np.arange(len(tokens) + 1, dtype=np.int64) * tokens.shape[1])
    return leat.from_arrays({"tokens": leat.field(str(tokens.dtype), (None,))}, tokens=ragged)


def seconds(work: Callable[[], object]) -> float:
    begin = time.process_time()
    work()
    return time.process_time() - begin


def speed(n: int) -> None:
    tokens = np.empty((n, 1500), np.int32)
    made(n, 1300, 200, tokens)
    ds = dataset(tokens)
    pairs = [
        (seconds(lambda: tokens.sum(dtype=np.int64)), seconds(lambda: leat.group_prompts(ds, "tokens")))
        for _ in range(5)
    ]
    read, group = (statistics.median(column) for column in zip(*pairs, strict=True))
    share = statistics.median(a / b for a, b in pairs)
    print(
        f"reading {n / read:,.0f} prompts/s ({tokens.nbytes / read / 1e9:.1f} GB/s), grouping {n / group:,.0f}: "
        f"{share:.2f}"
    )


def anonymous() -> int:
    status = Path("/proc/self/status").read_text()
    return int(status.split("RssAnon:")[1].split()[0]) * 1024


def memory(n: int) -> None:
    with tempfile.NamedTemporaryFile() as file:
        tokens = np.memmap(file.name, np.uint16, "w+", shape=(n, 60))
        made(n, 50, 10, tokens)
        ds, most, ended = dataset(tokens), [0], threading.Event()
        before = anonymous()

        def watch() -> None:
            while not ended.wait(0.01):
                most[0] = max(most[0], anonymous())

        watcher = threading.Thread(target=watch)
        watcher.start()
        held: list[leat.Dataset] = []
        spent = seconds(lambda: held.append(leat.group_prompts(ds, "tokens")))
        grouped, most[0] = most[0], 0
        after = anonymous()
        loader = leat.Loader(held[0], batch_kv=65536, framework="numpy", num_threads=1)
        next(iter(loader))
        ended.set()
        watcher.join()
        print(
            f"{n:,} prompts, {len(held[0].groups):,} groups, {spent:.1f} s of CPU: {(grouped - before) / n:.1f} bytes "
            f"a prompt at most, then {(after - before) / n:.1f}; a Loader opens with {(most[0] - before) / n:.1f}"
        )


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    arguments.add_argument("--prompts", type=int, default=30_000)
    arguments.add_argument("--memory", type=int)
    given = arguments.parse_args()
    if given.memory:
        memory(given.memory)
    else:
        speed(given.prompts)
