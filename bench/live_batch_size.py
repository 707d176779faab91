"""How late batches are after set_batch_size in mid-epoch, on photos.

    python bench/live_batch_size.py PACK [--sizes 64:128 128:64] [--rounds 5] [--cores 1]

A consumer takes batches of a packed file of photos, through the augmentations of ImageNet, and changes the size in the
middle of an epoch, right before it asks for the next batch. For each of the next batches: the time from the end of one
step to the end of the next (waiting and the consumer's own work), divided by that of batches of the same size in a run
that was opened with it. The consumer works so long per photo: 0 (it waits for the loader), or a multiple of what the
loader takes. Time is that of the clock: run it on a quiet machine.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import time

import leat

OUTPUTS = {"image": leat.presets.imagenet_train(224)}


def intervals(
    path: str, first: int, second: int | None, before: int, after: int, per_photo: float, threads: int
) -> list[float]:
    """Seconds per photo of each batch; from number `before` on they have the second size."""
    with leat.Loader(leat.open(path), first, shuffle=True, seed=1, outputs=OUTPUTS, num_threads=threads) as loader:
        found: list[float] = []
        while True:
            batches = iter(loader)
            last = time.perf_counter()
            for n, batch in enumerate(batches):
                until = time.perf_counter() + per_photo * batch.size
                while time.perf_counter() < until:
                    time.sleep(min(0.001, max(0.0, until - time.perf_counter())))
                if n + 1 == before and second is not None:
                    loader.set_batch_size(second)
                now = time.perf_counter()
                found.append((now - last) / batch.size)
                last = now
                if n + 1 == before + after:
                    return found
            found.clear()


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("pack")
    arguments.add_argument("--sizes", nargs="+", default=["16:32", "32:64", "32:16"])
    arguments.add_argument("--rounds", type=int, default=3)
    arguments.add_argument("--cores", type=int, default=len(os.sched_getaffinity(0)))
    given = arguments.parse_args()
    os.sched_setaffinity(0, set(sorted(os.sched_getaffinity(0))[: given.cores]))
    print(f"{platform.machine()}, {given.cores} cores, {len(leat.open(given.pack))} photos, medians of {given.rounds}")
    print(f"{'sizes':>9}  {'consumer':>9}  {'usual':>9}  the batches after the change, as multiples of a usual one")
    for text in given.sizes:
        first, second = map(int, text.split(":"))
        alone = statistics.median(intervals(given.pack, second, None, 3, 4, 0.0, given.cores)[3:])
        for factor in (0.0, 1.2, 2.0, 4.0):
            rows = []
            for _ in range(given.rounds):
                usual = statistics.median(intervals(given.pack, second, None, 3, 4, factor * alone, given.cores)[3:])
                late = intervals(given.pack, first, second, 10, 4, factor * alone, given.cores)[10:]
                rows.append([t / usual for t in late])
            late = [statistics.median(column) for column in zip(*rows, strict=True)]
            print(
                f"{text:>9}  {factor:8.1f}x  {usual * 1e6:6.0f} us  {'  '.join(f'{t:.2f}' for t in late)}", flush=True
            )


if __name__ == "__main__":
    main()
