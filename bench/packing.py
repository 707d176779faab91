"""Packed rows, masking and best-fit packing: ratios against numpy in the same run.

    python bench/packing.py [--documents 10000000] [--seconds 2] [--threads 1]

- widen: rows of 2048 uint16 -> int64 by one numpy loop over a shuffled memmap in the page cache: the limit.
- packed rows: the same tokens as documents (best_fit and cut), shuffled, through a Loader: ratio to widen.
- MaskTokens and SpanCorruption: a Loader with the operator against the same Loader that copies the tokens as often.
- best fit: CPU seconds for documents of lengths as of web text, and how full the rows are.
- by cost: CPU seconds to open a Loader with batch_cost=, and its batches beside those of a greedy one, which takes the
  samples in a random order and closes a batch where the sum would exceed (BioNeMo's size-aware batching).

Jobs are timed in turns, and the median of ratios of neighbours is printed, as the machine may be shared.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

import leat

SEQ, BATCH = 2048, 16


def rate(epoch: Callable[[], Iterable[int]], seconds: float) -> float:
    """Rows per second of CPU time of this process."""
    done, begin, stop = 0, time.process_time(), time.monotonic() + seconds
    while time.monotonic() < stop:
        for n in epoch():
            done += n
            if time.monotonic() >= stop:
                break
    return done / (time.process_time() - begin)


def ratio(a: Callable[[], Iterable[int]], b: Callable[[], Iterable[int]], seconds: float, rounds: int = 5) -> str:
    """The rate of `a` to that of `b`, measured in turns."""
    for job in (a, b):
        rate(job, seconds / 4)
    pairs = [(rate(a, seconds), rate(b, seconds)) for _ in range(rounds)]
    found = sorted(x / y for x, y in pairs)
    first, second = (statistics.median(p[k] for p in pairs) for k in (0, 1))
    return (
        f"{statistics.median(found):5.2f}  ({found[0]:.2f} to {found[-1]:.2f}; {first:,.0f} and {second:,.0f} rows/s)"
    )


def widen(path: str) -> Callable[[], Iterable[int]]:
    rows = np.memmap(path, np.uint16, "r").reshape(-1, SEQ)
    out = np.empty((BATCH, SEQ), np.int64)

    def epoch() -> Iterable[int]:
        order = np.random.permutation(len(rows))
        for i in range(0, len(order) - BATCH + 1, BATCH):
            for k, j in enumerate(order[i : i + BATCH]):
                out[k] = rows[j]
            yield BATCH

    return epoch


def loaded(ds: leat.Dataset, threads: int, **outputs: Any) -> Callable[[], Iterable[int]]:
    chains = {name.replace("_", "."): chain for name, chain in outputs.items()}
    loader = leat.Loader(
        ds, batch_size=BATCH, shuffle=True, num_threads=threads, framework="numpy", outputs=chains, drop_last=True
    )
    return lambda: (batch["tokens"].shape[0] for batch in loader)


def best_fit(rng: np.random.Generator, documents: int) -> None:
    for name, drawn in (
        ("web text", np.clip(rng.lognormal(6, 1, documents), 1, 20000)),
        ("uniform", rng.integers(1, SEQ + 1, documents)),
        ("hard", rng.integers(SEQ // 5, 2 * SEQ // 3, documents)),
    ):
        each = drawn.astype(np.uint32)
        begin, found = np.empty(len(each) + 2, np.uint32), np.empty(len(each), np.uint32)
        start = time.process_time()
        n = leat._leat.best_fit(each, SEQ, 0, begin, found)
        spent = time.process_time() - start
        full = (each % SEQ).astype(np.int64).sum() / (n * SEQ)
        print(f"best fit, {name:10} {documents:,} documents: {spent:.2f} s, rows {100 * full:.3f}% full")


def greedy(costs: np.ndarray, most: int) -> int:
    """The number of batches."""
    ends, n, at = np.concatenate([[0], np.cumsum(costs)]), 0, 0
    while at < len(costs):
        at = int(np.searchsorted(ends, ends[at] + most, "right")) - 1
        n += 1
    return n


def by_cost(rng: np.random.Generator, samples: int) -> None:
    ds = leat.from_arrays(x=np.zeros(samples, np.uint8))
    tokens = np.clip(rng.lognormal(6, 0.7, samples), 1, 8192).astype(np.int64)
    for name, costs, most in (
        ("tokens", tokens, 65536),
        ("tokens squared", tokens**2, 10**9),
        ("uniform to the most", rng.integers(1, 10**9, samples), 10**9),
        ("bytes", rng.integers(1, 1 << 38, samples), 1 << 40),
    ):
        start = time.process_time()
        loader = leat.Loader(ds, batch_cost=most, cost=costs, shuffle=True, framework="numpy")
        spent, n, other = time.process_time() - start, len(loader), greedy(rng.permutation(costs), most)
        full = 100 * int(costs.sum()) / most
        print(
            f"by cost, {name:20} {samples:,} samples: {spent:.2f} s, {n:,} batches, {full / n:.3f}% full; "
            f"greedy {other:,}, {full / other:.3f}%"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=10_000_000)
    parser.add_argument("--tokens", type=int, default=32 << 20)
    parser.add_argument("--seconds", type=float, default=1)
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    with open("/proc/cpuinfo") as f:
        model = next((line.split(":")[1].strip() for line in f if line.startswith("model name")), "unknown processor")
    print(f"{model}, {os.cpu_count()} cores, leat {leat.__version__}, numpy {np.__version__}")
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        tokens = rng.integers(1, 50000, args.tokens).astype(np.uint16)
        tokens.tofile(f"{folder}/tokens.u16")
        lengths = np.clip(rng.lognormal(6, 1, args.tokens // 300), 1, SEQ).astype(np.int64)
        with leat.Writer(f"{folder}/documents.leat", {"tokens": leat.field("uint16", (None,))}) as w:
            at = 0
            for n in lengths:
                if at + n > len(tokens):
                    break
                w.add(tokens=tokens[at : at + n])
                at += int(n)
        with leat.Writer(f"{folder}/rows.leat", {"tokens": leat.field("uint16", (SEQ,))}) as w:
            w.write_batch({"tokens": tokens[: len(tokens) // SEQ * SEQ].reshape(-1, SEQ)})
        ds, rows = leat.open(f"{folder}/documents.leat"), leat.open(f"{folder}/rows.leat")
        wide = [leat.ops.ToDtype("int64")]
        limit = widen(f"{folder}/tokens.u16")
        print(f"stored rows / widen          {ratio(loaded(rows, args.threads, tokens=wide), limit, args.seconds)}")
        for how in ("cut", "best_fit", "pad"):
            packed = leat.pack_rows(ds, length=SEQ, how=how)
            job = loaded(packed, args.threads, tokens=wide)
            print(f"{how + ' / widen':28} {ratio(job, limit, args.seconds)}")
        copies = loaded(rows, args.threads, tokens=wide, tokens_labels=leat.Out("tokens", wide))
        for op in (leat.ops.MaskTokens(50000, 50001, (0,)), leat.ops.SpanCorruption(65535)):
            job = loaded(rows, args.threads, tokens=[op])
            print(f"{type(op).__name__ + ' / copies':28} {ratio(job, copies, args.seconds)}")
        once = loaded(rows, args.threads, tokens=wide)
        job = loaded(rows, args.threads, tokens=[leat.ops.FillInTheMiddle(50001, 50002, 50003, eos=7)])
        print(f"{'FillInTheMiddle / copy':28} {ratio(job, once, args.seconds)}")
    best_fit(rng, args.documents)
    by_cost(rng, args.documents)


if __name__ == "__main__":
    main()
