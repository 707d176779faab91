"""leat.apply on photos in memory beside a loader of the same photos, and beside a loader opened for each call.

    python bench/apply.py PHOTOS [--photos 64] [--threads 1] [--rounds 15]

The job is decoding, a random-resized crop of 224, a flip and normalising. A round makes a batch of all photos in each
way: by a loader over a packed file (`batch_at`), by leat.apply with the same rows and keys, and by a loader over
leat.from_source that is opened for this batch, as a function of another pipeline would do without leat.apply; its crops
are others. Ways take turns in a drawn order, because a machine may be shared. CPU seconds of the process, the median of
rounds; the ratio is the median of those of each round.
"""

from __future__ import annotations

import argparse
import platform
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import leat
from leat import ops

OUTPUTS = {
    "image": [
        ops.Decode(),
        ops.RandomResizedCrop(224),
        ops.RandomHorizontalFlip(),
        ops.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
    ]
}


class Listed:
    """A source of photos in memory."""

    fields = {"image": "image"}  # noqa: RUF012

    def __init__(self, photos: list[bytes]) -> None:
        self.photos = photos

    def __len__(self) -> int:
        return len(self.photos)

    def read(self, positions: np.ndarray) -> dict[str, list[bytes]]:
        return {"image": [self.photos[i] for i in positions]}


def cpu_s(call: Callable[[], None]) -> float:
    begun = time.process_time()
    call()
    return time.process_time() - begun


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--photos", type=int, default=64)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=15)
    args = parser.parse_args()
    files = [path for path in sorted(args.folder.rglob("*")) if path.suffix.lower() in (".jpg", ".jpeg")][: args.photos]
    photos = [path.read_bytes() for path in files]
    n, options = len(photos), {"outputs": OUTPUTS, "num_threads": args.threads, "framework": "numpy"}
    with tempfile.TemporaryDirectory() as folder:
        with leat.Writer(f"{folder}/photos.leat", {"image": "image"}) as writer:
            for photo in photos:
                writer.add(image=photo)
        loader = leat.Loader(leat.open(f"{folder}/photos.leat"), n, shuffle=True, **options)
        spent: dict[str, list[float]] = {"a loader": [], "leat.apply": [], "a loader for each batch": []}
        drawn = [(loader.plan(epoch, 0), loader.batch_at(epoch, 0).row_keys.copy()) for epoch in range(args.rounds)]
        leat.apply(OUTPUTS, {"image": photos}, num_threads=args.threads)  # each photo is decoded to its end once
        for epoch, (order, keys) in enumerate(drawn):
            given = [photos[i] for i in order]
            ways = {
                "a loader": lambda epoch=epoch: loader.batch_at(epoch, 0),
                "leat.apply": lambda given=given, keys=keys: leat.apply(
                    OUTPUTS, {"image": given}, keys, num_threads=args.threads
                ),
                "a loader for each batch": lambda given=given: next(
                    iter(leat.Loader(leat.from_source(Listed(given)), n, **options, epochs=1))
                ),
            }
            for way in sorted(ways, key=lambda way: hash((way, epoch))):
                spent[way].append(cpu_s(ways[way]))
    machine = platform.processor() or platform.machine()
    print(f"{n} photos of {sum(map(len, photos)) // n} bytes, {args.threads} threads, {machine}")
    for way, times in spent.items():
        ratio = statistics.median(a / b for a, b in zip(spent["a loader"], times, strict=True))
        print(f"{way:26}{1000 * statistics.median(times) / n:8.3f} ms a photo    {ratio:6.3f} of a loader's rate")


if __name__ == "__main__":
    main()
