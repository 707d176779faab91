"""What Decode(dct_scaling=True) gains on large photos: RandomResizedCrop(224) with and without it, in turns, on one
thread.

    python bench/dct_scaling.py FOLDER [--epochs 2] [--rounds 5] [--photos fast]

FOLDER holds JPEGs (1800 x 1200 and more, or nothing is gained). They are packed first, so that no epoch reads photos to
their end to check them. Prints the median milliseconds of CPU a photo, and their ratio.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path

import leat


def epochs(dataset: leat.Dataset, scaled: bool, seed: int, n: int) -> float:
    chain = [leat.ops.Decode(dct_scaling=scaled), leat.ops.RandomResizedCrop(224), leat.ops.RandomHorizontalFlip(),
             leat.ops.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])]  # fmt: skip
    with leat.Loader(dataset, 16, shuffle=True, outputs={"image": chain}, num_threads=1, epochs=n, seed=seed) as loader:
        begin, rows = time.process_time(), 0
        for _ in range(n):
            rows += sum(batch.size for batch in loader)
        return (time.process_time() - begin) * 1000 / rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--photos", choices=["original", "fast"], default="original", help="the form that they are packed in"
    )
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as work:
        path = Path(work) / "photos.leat"
        with leat.Writer(path, {"image": "image"}, photos=args.photos) as w:
            for file in sorted(p for p in args.folder.iterdir() if p.suffix.lower() in (".jpg", ".jpeg")):
                w.add(image=file.read_bytes())
        dataset = leat.open(path)
        found: dict[bool, list[float]] = {False: [], True: []}
        for seed in range(args.rounds):
            for key, runs in found.items():
                runs.append(epochs(dataset, key, seed, args.epochs))
    plain, scaled = (statistics.median(found[key]) for key in (False, True))
    print(f"{plain:.2f} ms a photo, {scaled:.2f} ms with dct_scaling: ratio {plain / scaled:.2f}")


if __name__ == "__main__":
    main()
