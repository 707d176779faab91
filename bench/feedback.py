"""Feedback by sample: what a report costs the thread that trains, how fast tables fill, selections, and hard samples.

    python bench/feedback.py [--samples 100000000] [--photos PHOTOS] [--rounds 5]

PHOTOS is what leat.open takes and has an image field. Times are CPU times of the thread, or of the process where its
threads do the work, so that other work on the machine counts little; wall times stand beside them.

    report      4096 losses into a table of --samples, ids at random: of the thread that reports; medians
    background  values a second into that table, ids at random, in reports of 65,536
    top         the tenth with the highest loss of that table, and the memory that takes beside the table and the result
    sort        the same by np.argpartition over a copy of the values, as a script would
    epoch       epochs of hard samples (delta 0.3) against whole ones: photos decoded and cropped; bytes read of those
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import leat
from leat import _leat
from leat.feedback.table import MARK

REPORT = 4096
CHUNK = 65536


def timed(what: Callable[[], Any], clock: Callable[[], float] = time.process_time) -> tuple[float, float]:
    """Seconds by this clock, and by the clock on the wall."""
    cpu, wall = clock(), time.perf_counter()
    what()
    return clock() - cpu, time.perf_counter() - wall


def reports(table: _leat.Table, samples: int, rounds: int) -> None:
    rng = np.random.default_rng(0)
    ids = rng.integers(0, samples, (64, REPORT))
    losses = rng.random((64, REPORT), np.float32)
    times = []
    for i in range(rounds * 64):
        times.append(timed(lambda: table.report(ids[i % 64], losses[i % 64], 0, i), time.thread_time))  # noqa: B023
        time.sleep(0.002)  # a step
    cpu, wall = (1e6 * statistics.median(column) for column in zip(*times, strict=True))
    print(f"report      {REPORT} losses: {cpu:.1f} us of the thread, {wall:.1f} us on the wall (medians)")


def background(table: _leat.Table, samples: int, rounds: int) -> None:
    rng = np.random.default_rng(1)
    ids = rng.integers(0, samples, (64, CHUNK))
    losses = rng.random((64, CHUNK), np.float32)

    def fill() -> None:
        for i in range(256):
            table.report(ids[i % 64], losses[i % 64], 1 + i // 64, i)
        table.wait()

    found = [timed(fill) for _ in range(rounds)]
    cpu, wall = (256 * CHUNK / 1e6 / statistics.median(column) for column in zip(*found, strict=True))
    print(f"background  {wall:.0f} million values a second on the wall, {cpu:.0f} by the CPU time of both threads")


def peak() -> int:
    """The most KiB that were resident."""
    text = Path("/proc/self/status").read_text()
    return int(text.split("VmHWM:")[1].split()[0])


def selections(table: _leat.Table, samples: int, rounds: int) -> None:
    marks = np.frombuffer(memoryview(table), MARK)
    marks["value"] = np.random.default_rng(2).random(samples, np.float32)
    marks["count"] = 1
    out = np.zeros(samples // 10, np.int64)
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    before = peak()
    own = [timed(lambda: _leat.select_extreme(marks, True, False, out)) for _ in range(rounds)]
    grown = (peak() - before) / 1024
    theirs = [timed(lambda: np.argpartition(-marks["value"], len(out))[: len(out)]) for _ in range(rounds)]
    for name, found in (("top", own), ("sort", theirs)):
        cpu, wall = (statistics.median(column) for column in zip(*found, strict=True))
        print(f"{name:12}{len(out):,} of {samples:,}: {cpu:.2f} s of CPU time, {wall:.2f} s on the wall")
    print(f"            memory beside the table: {grown:.1f} MiB, of which the result is {out.nbytes / 2**20:.1f} MiB")
    ratio = statistics.median(b[0] / a[0] for a, b in zip(own, theirs, strict=True))
    print(f"            {ratio:.1f}x as fast as np.argpartition (pairs)")


def epochs(photos: str, rounds: int) -> None:
    ops = leat.ops
    chain = [ops.Decode(), ops.RandomResizedCrop(224), ops.RandomHorizontalFlip()]
    policy = leat.TopBatches(0.3)

    class Alternately:
        """A whole epoch, then one of hard samples, and so on."""

        def decide(self, table: Any, epoch: int, run: Any) -> Any:
            return policy.decide(table, epoch, run) if epoch % 2 else None

    with leat.Loader(
        leat.open(photos), 32, True, drop_last=True, outputs={"image": chain}, framework="numpy", feedback=Alternately()
    ) as loader:
        times: list[list[tuple[float, float]]] = [[], []]
        read: list[list[int]] = [[], []]

        def epoch() -> None:
            for batch in loader:
                loader.report(batch.ids, loss=np.random.default_rng(batch.step).random(len(batch.ids), np.float32))

        for i in range(2 * rounds):
            before = loader.stats()["fetch"]["bytes"]
            times[i % 2].append(timed(epoch))
            read[i % 2].append(loader.stats()["fetch"]["bytes"] - before)
        cpu, wall = (statistics.median(h[k] / w[k] for w, h in zip(*times, strict=True)) for k in (0, 1))
        batches = len(loader.dataset) // 32
        print(
            f"epoch       {int(0.3 * batches)} of {batches} batches: {cpu:.3f} of a whole epoch's CPU time, {wall:.3f} "
            f"on the wall; {sum(read[1]) / sum(read[0]):.3f} of the bytes (medians of pairs)"
        )


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    arguments.add_argument("--samples", type=int, default=100_000_000)
    arguments.add_argument("--photos")
    arguments.add_argument("--rounds", type=int, default=5)
    given = arguments.parse_args()
    print(f"leat {leat.__version__}, {platform.processor() or platform.machine()}, {os.cpu_count()} CPUs")
    table = _leat.Table.open(given.samples, None, None, False)
    np.frombuffer(memoryview(table), MARK)["count"] = 0  # its pages are there
    reports(table, given.samples, given.rounds)
    background(table, given.samples, given.rounds)
    selections(table, given.samples, given.rounds)
    if given.photos:
        epochs(given.photos, given.rounds)


if __name__ == "__main__":
    main()
