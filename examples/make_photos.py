"""Makes a folder of photo-like JPEGs, a sub-folder per class, for the demo: no download, the same files every time.

A picture is a cloudy background (noise of several octaves), lit from one side, with a few objects whose surface tells
the class; sizes and bytes per pixel are about those of ImageNet. One picture takes some 20 ms.
"""

from __future__ import annotations

import sys
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
    y, x = np.mgrid[0:height, 0:width].astype(np.float32)
    image = clouds(rng, width, height, 3) * rng.uniform(0.5, 1.0, 3) + rng.uniform(-0.1, 0.2, 3)
    for _ in range(rng.integers(2, 5)):
        cx, cy = rng.uniform(0, width), rng.uniform(0, height)
        a, b, turn = rng.uniform(70, 170), rng.uniform(70, 170), rng.uniform(0, np.pi)
        dx, dy = (x - cx) * np.cos(turn) + (y - cy) * np.sin(turn), (y - cy) * np.cos(turn) - (x - cx) * np.sin(turn)
        inside = np.clip((1 - np.hypot(dx / a, dy / b)) * 12, 0, 1)[:, :, None]
        period = rng.uniform(28, 56)
        pattern = surface(name, dx / period, dy / period)[:, :, None]
        light, dark = rng.uniform(0.45, 1.0, 3), rng.uniform(0.0, 0.5, 3)
        shade = np.clip(0.75 + 0.35 * (dx / a - dy / b), 0.3, 1.2)[:, :, None]
        image = image * (1 - inside) + inside * shade * (dark + (light - dark) * pattern)
    image += rng.normal(0, 0.035, image.shape)
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
    from tqdm import tqdm

    with ProcessPoolExecutor() as pool:
        for _ in tqdm(pool.map(save, todo, chunksize=8), total=len(todo), desc="making photos", unit=" photos"):
            pass


if __name__ == "__main__":
    make(Path(sys.argv[1]))
