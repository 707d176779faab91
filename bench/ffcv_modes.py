"""FFCV's own ways to store photos: bytes per photo and training speed on one core, beside `leat bench --photos` on the
same photos.

    python bench/ffcv_modes.py FOLDER --json ffcv-modes.json

It needs FFCV with torch, in an environment of its own (they are no dependency of leat's). The job is that of `leat
bench`: random-resized crop 224, flip, normalise, float32, batches of 64, shuffled, page cache warm. Modes take turns,
the median of the rounds counts; every round goes over whole epochs. Bytes are those that FFCV's table of allocations
says, without what its pages of 8 MB leave empty at their ends.

as-came         the JPEG bytes as they came, which FFCV's writer cannot do by itself: a field of our own does
jpg, jpg-N      encoded again with quality 90, of at most N pixels a side
raw, raw-N      pixels
half, half-N    each photo as JPEG (quality 90) or as pixels, by the toss of a coin
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
BATCH = 64
MODES = ["as-came", "jpg", "jpg-512", "jpg-256", "raw", "half"]


def photo_files(folder: Path) -> list[Path]:
    files = sorted(p for p in folder.rglob("*") if p.suffix.lower() in (".jpeg", ".jpg"))
    if not files:
        raise SystemExit(f"{folder}: no JPEG photos")
    return files


def as_came() -> Any:
    """A field that keeps a file's bytes. FFCV's decoders find the size in the record and JPEG data behind it."""
    import numpy as np
    from ffcv.fields.rgb_image import IMAGE_MODES, RGBImageField
    from PIL import Image

    class AsCame(RGBImageField):  # type: ignore[misc]
        def encode(self, record: Any, path: Path, allocate: Callable[[int], tuple[int, Any]]) -> None:
            stored = np.frombuffer(path.read_bytes(), np.uint8)
            with Image.open(path) as photo:
                record["width"], record["height"] = photo.size
            record["mode"] = IMAGE_MODES["jpg"]
            record["data_ptr"], room = allocate(stored.nbytes)
            room[:] = stored

    return AsCame


class Photos:
    """What FFCV's writer reads: paths where bytes are kept, else pixels."""

    def __init__(self, files: list[Path], pixels: bool) -> None:
        self.files, self.pixels = files, pixels

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, i: int) -> tuple[Any, int]:
        from PIL import Image

        if not self.pixels:
            return self.files[i], i
        with Image.open(self.files[i]) as photo:
            return photo.convert("RGB"), i


def write(mode: str, files: list[Path], target: Path) -> float:
    """Writes the file of a mode. Photos per second, decoding included."""
    import numpy as np
    from ffcv.fields import IntField, RGBImageField
    from ffcv.writer import DatasetWriter

    kind, _, side = mode.partition("-") if mode != "as-came" else (mode, "", "")
    if kind == "as-came":
        field = as_came()()
    else:
        write_mode = {"jpg": "jpg", "raw": "raw", "half": "proportion"}[kind]
        field = RGBImageField(
            write_mode=write_mode, max_resolution=int(side) if side else None, jpeg_quality=90, compress_probability=0.5
        )
    np.random.seed(0)  # for the coin
    begun = time.perf_counter()
    DatasetWriter(str(target), {"image": field, "label": IntField()}, num_workers=1).from_indexed_dataset(
        Photos(files, kind != "as-came")
    )
    return len(files) / (time.perf_counter() - begun)


def in_own_process(mode: str, target: Path) -> float:
    """`write`, by this script with the same arguments: FFCV's writer forks, which hangs where its loader has begun
    threads.
    """
    done = subprocess.run(
        [sys.executable, *sys.argv, "--write", mode, str(target)],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=600,
    )
    return float(done.stdout.splitlines()[-1])


def loader(mode: str, target: Path, photos: int, repeat: int) -> Any:
    import numpy as np
    from ffcv.fields.basics import IntDecoder
    from ffcv.fields.rgb_image import RandomResizedCropRGBImageDecoder
    from ffcv.loader import Loader, OrderOption
    from ffcv.transforms import NormalizeImage, RandomHorizontalFlip, Squeeze, ToTensor, ToTorchImage

    image = [
        RandomResizedCropRGBImageDecoder((224, 224)),
        RandomHorizontalFlip(),
        NormalizeImage(np.array(MEAN) * 255, np.array(STD) * 255, np.float32),
        ToTensor(),
        ToTorchImage(channels_last=True),
    ]
    return Loader(
        str(target),
        batch_size=BATCH,
        num_workers=1,
        order=OrderOption.RANDOM,
        os_cache=True,
        drop_last=False,
        seed=0,
        indices=np.tile(np.arange(photos), repeat),
        custom_fields={"image": as_came()} if mode == "as-came" else {},
        pipelines={"image": image, "label": [IntDecoder(), ToTensor(), Squeeze()]},
    )


def epoch(batches: Any) -> int:
    return sum(int(batch[0].shape[0]) for batch in batches)


def stored_bytes(batches: Any) -> int:
    return int(batches.reader.alloc_table["size"].sum())


def main() -> None:
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("folder", type=Path)
    a.add_argument("--modes", nargs="+", default=MODES, metavar="MODE", help="default: " + " ".join(MODES))
    a.add_argument("--rounds", type=int, default=5)
    a.add_argument("--seconds", type=float, default=1, help="of each mode and round, at least; default: 1")
    a.add_argument("--samples", type=int, help="only so many photos, evenly spread")
    a.add_argument(
        "--repeat",
        type=int,
        default=4,
        help="how often an epoch goes over the photos, so that what is done once an epoch does not decide; default: 4",
    )
    a.add_argument("--json", type=Path, help="where all numbers go")
    a.add_argument("--write", nargs=2, help=argparse.SUPPRESS)
    o = a.parse_args()
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:1])
    files = photo_files(o.folder)
    if o.samples and o.samples < len(files):
        files = [files[i * len(files) // o.samples] for i in range(o.samples)]
    if o.write:
        print(write(o.write[0], files, Path(o.write[1])), flush=True)
        os._exit(0)  # FFCV may hang where the interpreter tidies up
    source = sum(f.stat().st_size for f in files) / len(files)
    results: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="ffcv-modes-") as work:
        loaders = []
        for mode in o.modes:
            print(f"\r{mode}: packing, compiling        ", end="", file=sys.stderr, flush=True)
            target = Path(work) / f"{mode}.beton"
            packed = in_own_process(mode, target)
            batches = loader(mode, target, len(files), o.repeat)
            epoch(batches)
            epoch(batches)  # FFCV compiles once more for its second epoch
            loaders.append(batches)
            per_photo = stored_bytes(batches) / len(files)
            results.append(
                {
                    "mode": mode,
                    "bytes_per_photo": per_photo,
                    "ratio": per_photo / source,
                    "packed_per_second": packed,
                    "runs": [],
                }
            )
        for turn in range(o.rounds):
            for result, batches in zip(results, loaders):
                print(
                    f"\rround {turn + 1} of {o.rounds}: {result['mode']}        ", end="", file=sys.stderr, flush=True
                )
                begun, photos = time.perf_counter(), 0
                while (spent := time.perf_counter() - begun) < o.seconds:
                    photos += epoch(batches)
                result["runs"].append(photos / spent)
    print("\r" + " " * 60 + "\r", end="", file=sys.stderr)
    print(f"FFCV {version('ffcv')}, {len(files)} photos of {source / 1e3:.1f} kB, batches of {BATCH}, one core")
    print(f"{'mode':10}{'bytes/photo':>14}{'x as came':>12}{'photos/s':>12}{'storage':>14}{'packed/s':>12}")
    for r in results:
        r["photos_per_second"] = statistics.median(r["runs"])
        print(
            f"{r['mode']:10}{r['bytes_per_photo'] / 1e3:11.1f} kB{r['ratio']:12.2f}{r['photos_per_second']:12,.0f}"
            f"{r['photos_per_second'] * r['bytes_per_photo'] / 1e6:9.1f} MB/s{r['packed_per_second']:12,.0f}"
        )
    if o.json:
        told = {
            "loader": "FFCV",
            "version": version("ffcv"),
            "samples": len(files),
            "source_bytes_per_photo": source,
            "batch_size": BATCH,
            "forms": results,
        }
        o.json.write_text(json.dumps(told, indent=2) + "\n")
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
