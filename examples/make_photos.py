"""Makes a folder of photo-like JPEGs, a sub-folder per class, for the demo: no download, the same files every time.

A picture is a cloudy background (noise of several octaves), lit from one side, with a few objects whose surface tells
the class; sizes and bytes per pixel are about those of ImageNet. One picture takes some 20 ms.
"""

from __future__ import annotations

import argparse
import math
import os
import signal
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
from PIL import Image

CLASSES = ("bricks", "checks", "dots", "rings", "stripes", "waves")
PER_CLASS = 160


def clouds(rng: np.random.Generator, width: int, height: int, channels: int) -> np.ndarray:
    """Noise whose octaves fall off as in photos, [height, width, channels] in 0..1."""
    total = np.zeros((height, width, channels), np.float32)
    cells, weight = 3, 1.0
    while cells < max(width, height):
        for c in range(channels):
            small = Image.fromarray(rng.random((cells, cells + 1), np.float32))
            total[:, :, c] += weight * np.asarray(small.resize((width, height), Image.Resampling.BICUBIC))
        cells, weight = cells * 3, weight * 0.42
    total -= total.min()
    return total / total.max()


def surface(name: str, u: np.ndarray, v: np.ndarray) -> np.ndarray:
    """The pattern of a class over coordinates in units of its period, in 0..1."""
    if name == "bricks":
        row = np.floor(v)
        return np.minimum(np.abs((u + 0.5 * (row % 2)) % 1 - 0.5) < 0.44, np.abs(v % 1 - 0.5) < 0.4).astype(np.float32)
    if name == "checks":
        return ((np.floor(u) + np.floor(v)) % 2).astype(np.float32)
    if name == "dots":
        return (np.hypot(u % 1 - 0.5, v % 1 - 0.5) < 0.33).astype(np.float32)
    if name == "rings":
        return 0.5 + 0.5 * np.sin(2 * np.pi * np.hypot(u, v))
    if name == "stripes":
        return (u % 1 < 0.5).astype(np.float32)
    return 0.5 + 0.5 * np.sin(2 * np.pi * (u + 0.6 * np.sin(np.pi * v)))


def picture(name: str, index: int) -> Image.Image:
    rng = np.random.default_rng([CLASSES.index(name), index])
    width, height = (500, int(rng.integers(330, 400))) if rng.random() < 0.75 else (int(rng.integers(330, 400)), 500)
    tint = rng.uniform(0.5, 1.0, 3).astype(np.float32), rng.uniform(-0.1, 0.2, 3).astype(np.float32)
    image = clouds(rng, width, height, 3) * tint[0] + tint[1]
    for _ in range(rng.integers(2, 5)):
        cx, cy = rng.integers(0, width), rng.integers(0, height)
        a, b, turn = (float(v) for v in rng.uniform((70, 70, 0), (170, 170, np.pi)))
        reach = int(max(a, b)) + 1  # nothing of the object lies outside this square
        left, top = max(cx - reach, 0), max(cy - reach, 0)
        part = image[top : cy + reach, left : cx + reach]
        y, x = np.ogrid[top : top + part.shape[0], left : left + part.shape[1]]
        x, y = (x - cx).astype(np.float32), (y - cy).astype(np.float32)
        dx, dy = x * math.cos(turn) + y * math.sin(turn), y * math.cos(turn) - x * math.sin(turn)
        inside = np.clip((1 - np.hypot(dx / a, dy / b)) * 12, 0, 1)[:, :, None]
        period = float(rng.uniform(28, 56))
        pattern = surface(name, dx / period, dy / period)[:, :, None]
        light, dark = rng.uniform(0.45, 1.0, 3).astype(np.float32), rng.uniform(0.0, 0.5, 3).astype(np.float32)
        shade = np.clip(0.75 + 0.35 * (dx / a - dy / b), 0.3, 1.2)[:, :, None]
        part += inside * (shade * (dark + (light - dark) * pattern) - part)
    image += 0.035 * rng.standard_normal(image.shape, np.float32)
    return Image.fromarray((np.clip(image, 0, 1) * 255).astype(np.uint8))


def save(job: tuple[str, str, int]) -> None:
    folder, name, index = job
    path = Path(folder) / name / f"{index:04d}.jpg"
    if path.exists():
        return
    part = path.with_suffix(".part")
    picture(name, index).save(part, "JPEG", quality=90, subsampling=0 if index % 4 else 2)
    part.rename(path)


def make(folder: Path, per_class: int = PER_CLASS) -> None:
    """Fills `folder`; goes on where it stopped."""
    jobs = [(str(folder), name, i) for i in range(per_class) for name in CLASSES]
    for name in CLASSES:
        (folder / name).mkdir(parents=True, exist_ok=True)
    todo = [j for j in jobs if not (folder / j[1] / f"{j[2]:04d}.jpg").exists()]
    if not todo:
        return
    from progress import progress

    # Ctrl-C is for this process alone: it drops what is left, and the next run goes on.
    pool = ProcessPoolExecutor(
        len(os.sched_getaffinity(0)), initializer=signal.signal, initargs=(signal.SIGINT, signal.SIG_IGN)
    )
    try:
        for _ in progress(pool.map(save, todo, chunksize=4), total=len(todo), desc="making photos", unit=" photos"):
            pass
    finally:
        pool.shutdown(cancel_futures=True)


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("folder", type=Path)
    arguments.add_argument("--per-class", type=int, default=PER_CLASS, help="photos of each of the six classes")
    options = arguments.parse_args()
    make(options.folder, options.per_class)
    print(f"{len(CLASSES)} classes of {options.per_class} photos in {options.folder}")
