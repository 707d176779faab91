"""Chains of operators drawn at random, on images and on images with their targets, run as a whole and one by one.

Every operator has a name, so it draws the same wherever it stands. As a script it prints what chains make, a hash per
line: ``property_chains.py FIRST COUNT``.
"""

from __future__ import annotations

import hashlib
import random
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from photo_support import png

import leat
from leat.functions.steps import NativeStep

ops = leat.ops
TUPLE = ("image", "mask", "boxes", "points", "label")
FIELDS = {
    "image": "image",
    "mask": leat.mask(),
    "boxes": leat.boxes("xyxy"),
    "points": leat.keypoints(1),
    "label": leat.field("int64", (None,)),
    "masks": leat.masks(),
}


# ---- drawing ---------------------------------------------------------------------------------------------------------


@dataclass
class Case:
    """A chain, and a sample for it."""

    number: int
    sample: dict[str, Any]
    chain: list[Any]
    seed: int

    def __str__(self) -> str:
        sizes = ", ".join(f"{name} {np.shape(value)}" for name, value in self.sample.items() if name != "masks")
        return f"case {self.number}: {self.chain!r} on {sizes}"


class Drawing:
    """Draws operators; `targets`: those that a tuple's chain can have."""

    def __init__(self, number: int, targets: bool) -> None:
        self.rnd, self.targets, self.made = random.Random(number), targets, 0

    def size(self, most: int = 40) -> tuple[int, int]:
        return self.rnd.randrange(1, most), self.rnd.randrange(1, most)

    def fill(self) -> Any:
        return self.rnd.choice([0, 7, 255, {"image": (1, 2, 3), "mask": 200}] if self.targets else [0, 7, 255])

    def mode(self) -> str:
        return self.rnd.choice(["nearest", "bilinear", "bicubic"])

    def padding(self) -> str:
        return self.rnd.choice(
            ["constant"] if self.targets else ["constant", "constant", "edge", "reflect", "symmetric"]
        )

    def chain(self, least: int, most: int, depth: int) -> list[Any]:
        return [self.operator(depth) for _ in range(self.rnd.randrange(least, most))]

    def operator(self, depth: int = 0) -> Any:
        self.made += 1
        kinds = [self.geometry, self.geometry, self.warp, self.color, self.color]
        kinds += [self.branch] if depth < 2 else []
        kinds += [self.detection] if self.targets else []
        make = self.rnd.choice(kinds)
        return make(f"n{self.made}", depth)

    def geometry(self, n: str, depth: int) -> Any:
        rnd, size = self.rnd, self.size
        every: list[Callable[[], Any]] = [
            lambda: ops.RandomHorizontalFlip(name=n),
            lambda: ops.RandomVerticalFlip(name=n),
            lambda: ops.RandomRotate90(name=n),
            lambda: ops.Pad([rnd.randrange(9) for _ in range(4)], self.fill(), self.padding(), name=n),
            lambda: ops.RandomCrop(size(), rnd.choice([None, 3]), True, self.fill(), self.padding(), name=n),
            lambda: ops.CenterCrop(size(), name=n),
            lambda: ops.Resize(
                size(50),
                rnd.choice(["bilinear", "nearest", "bicubic", "lanczos", "box", "hamming"]),
                antialias=rnd.random() < 0.8,
                name=n,
            ),
            lambda: ops.Resize(rnd.randrange(1, 40), name=n),
            lambda: ops.RandomResizedCrop(size(), name=n),
            lambda: ops.RandomZoomOut(self.fill(), name=n),
            lambda: ops.RandomShortestSize([10, 20, 30], max_size=rnd.choice([None, 35]), name=n),
            lambda: ops.RandomResize(9, 40, name=n),
            lambda: ops.ScaleJitter((20, 30), (0.3, 1.5), name=n),
            lambda: ops.RandomSizeCrop(5, 30, name=n),
            lambda: ops.Letterbox(size(), fill=self.fill(), name=n),
        ]
        return rnd.choice(every)()

    def warp(self, n: str, depth: int) -> Any:
        fill, rnd = self.fill(), self.rnd
        every: list[Callable[[], Any]] = [
            lambda: ops.RandomRotation(40, self.mode(), expand=rnd.random() < 0.4, fill=fill, name=n),
            lambda: ops.RandomAffine(40, (0.2, 0.2), (0.5, 1.5), 20, self.mode(), fill=fill, name=n),
            lambda: ops.RandomPerspective(0.5, 0.7, self.mode(), fill=fill, name=n),
            lambda: ops.ElasticTransform(
                30.0, rnd.choice([1.0, 3.0]), rnd.choice(["nearest", "bilinear"]), fill=fill, name=n
            ),
        ]
        return rnd.choice(every)()

    def color(self, n: str, depth: int) -> Any:
        rnd = self.rnd
        every: list[Callable[[], Any]] = [
            lambda: ops.ColorJitter(0.5, 0.5, 0.5, 0.2, name=n),
            lambda: ops.RandomPhotometricDistort(name=n),
            lambda: ops.GaussianBlur(rnd.choice([3, 5, (3, 9)]), name=n),
            lambda: ops.GaussianNoise(name=n),
            lambda: ops.RandomErasing(0.7, value=rnd.choice([0, 9, "random"]), name=n),
            lambda: ops.RandomEqualize(name=n),
            lambda: ops.RandomAutocontrast(name=n),
            lambda: ops.RandomPosterize(3, name=n),
            lambda: ops.RandomSolarize(100, name=n),
            lambda: ops.RandomAdjustSharpness(2, name=n),
            lambda: ops.RandomInvert(name=n),
            lambda: ops.RandomGrayscale(0.5, name=n),
        ]
        alone: list[Callable[[], Any]] = [
            lambda: ops.RandomChannelPermutation(name=n),
            lambda: ops.JPEG((20, 90), name=n),
            lambda: rnd.choice([ops.RandAugment, ops.TrivialAugmentWide, ops.AugMix])(name=n),
            lambda: ops.AutoAugment(rnd.choice(["imagenet", "cifar10", "svhn"]), name=n),
        ]
        return rnd.choice(every if self.targets else every + alone)()

    def branch(self, n: str, depth: int) -> Any:
        every: list[Callable[[], Any]] = [
            lambda: ops.RandomApply(self.chain(1, 4, depth + 1), 0.6, name=n),
            lambda: ops.RandomChoice([self.chain(0, 3, depth + 1) for _ in range(self.rnd.randrange(1, 4))], name=n),
            lambda: ops.RandomOrder(self.chain(1, 4, depth + 1), name=n),
        ]
        return self.rnd.choice(every)()

    def detection(self, n: str, depth: int) -> Any:
        if depth or self.rnd.random() < 0.5:
            return ops.RandomIoUCrop(name=n)
        followers = ["label", "points"]
        return self.rnd.choice(
            [
                ops.SanitizeBoundingBoxes(labels_getter=followers, name=n),
                ops.ClampBoundingBoxes(name=n),
            ]
        )


def image_case(number: int) -> Case:
    draw, rng = Drawing(number, targets=False), np.random.default_rng(number)
    h, w = draw.rnd.randrange(1, 70), draw.rnd.randrange(1, 70)
    if draw.rnd.random() < 0.1:
        h, w = draw.rnd.choice([(1, w), (h, 1), (1, 1)])
    c = draw.rnd.choice([1, 3, 3, 3])
    noise = rng.integers(0, 256, (h, w, c))
    if draw.rnd.random() < 0.5:  # not far from one color
        noise = np.clip(rng.integers(0, 256, (1, 1, c)) + noise // 6 - 20, 0, 255)
    return Case(number, {"image": noise.astype(np.uint8)}, draw.chain(2, 7, 0), number * 1000003)


def tuple_case(number: int) -> Case:
    draw, rng = Drawing(number, targets=True), np.random.default_rng(number)
    h, w, k = draw.rnd.randrange(1, 70), draw.rnd.randrange(1, 70), draw.rnd.randrange(4)
    left, top = rng.uniform(0, w * 0.8, k), rng.uniform(0, h * 0.8, k)
    right, bottom = left + rng.uniform(0.02, 1, k) * (w - left), top + rng.uniform(0.02, 1, k) * (h - top)
    sample = {
        "image": rng.integers(0, 256, (h, w, 3)).astype(np.uint8),
        "mask": rng.integers(0, 21, (h, w)).astype(np.uint8),
        "boxes": np.stack([left, top, right, bottom], 1).astype(np.float32),
        "points": np.stack([rng.uniform(0, w, k), rng.uniform(0, h, k), np.full(k, 2)], 1)[:, None].astype(np.float32),
        "label": np.arange(k),
    }
    return Case(number, sample, draw.chain(2, 7, 0), number)


# ---- running ---------------------------------------------------------------------------------------------------------

IMPOSSIBLE = (leat.ProgramError, leat.BrokenSampleError)  # a chain that cannot be, and a sample that breaks under it


def run_image(image: Any, chain: list[Any], key: int, stored: str) -> Any:
    """One image through a chain of its own: stored "HWC" or "CHW", or as a "PNG"."""
    if stored == "PNG":
        mode = "GRAY" if image.shape[2] == 1 else "RGB"
        takes, value, chain = leat.field("image"), png(image), [ops.Decode(mode=mode), *chain]
    else:
        value = image if stored == "HWC" else np.ascontiguousarray(image.transpose(2, 0, 1))
        takes = leat.field("uint8", value.shape, layout=stored)
    step = NativeStep.make(takes, [*chain, ops.ToLayout("NHWC")], "x", "x")
    made = step.apply(value, key, 0)
    return np.array(made if step.gives.layout != "CHW" else made.transpose(1, 2, 0))


def run_tuple(folder: Path, sample: dict[str, Any], chain: list[Any], seed: int, stack: str | None = "list") -> Any:
    """What a chain makes of a sample with its targets: an array per name."""
    names = tuple(sample)
    path = folder / f"{len(list(folder.iterdir()))}.leat"
    with leat.Writer(path, {name: FIELDS[name] for name in names}, check=False) as writer:
        writer.add(**{name: png(v) if name in ("image", "mask") else v for name, v in sample.items()})
    outputs = {names: leat.Out(names, [ops.Decode(), *chain, ops.ToLayout("NHWC")], stack=stack)}
    with leat.Loader(leat.open(path), 1, outputs=outputs, framework="numpy", seed=seed, num_threads=1) as loader:
        batch = loader.batch_at(0, 0)
    return {name: np.array(batch[name][0]) for name in names}


def one_by_one(values: Any, chain: list[Any], run: Callable[[Any, list[Any]], Any]) -> Any:
    """Each operator alone, on what the one before has made; or the error that it ends in."""
    try:
        for op in chain:
            values = run(values, [op])
    except IMPOSSIBLE as e:
        return e
    return values


# ---- hashes, for each instruction set --------------------------------------------------------------------------------


def hashes(first: int, count: int) -> Iterator[str]:
    """What chains make of images, in few words."""
    for number in range(first, first + count):
        case = image_case(number)
        try:
            made = run_image(case.sample["image"], case.chain, case.seed, ("HWC", "CHW", "PNG")[number % 3])
            yield f"{number} {made.shape} {hashlib.sha256(made.tobytes()).hexdigest()[:16]}"
        except IMPOSSIBLE as e:
            yield f"{number} {type(e).__name__}"


if __name__ == "__main__":
    for line in hashes(int(sys.argv[1]), int(sys.argv[2])):
        print(line)
