"""Keypoints are where their pixels are, to half a pixel, under every operator that moves pixels.

Each image is black but for one white pixel, and its keypoint is there. What an operator makes of the pixel may be
spread over several ones; where it is, is the middle of its light.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from photo_support import png

import leat
from leat import ops

Array = np.ndarray[Any, Any]
F = np.float32
N = 40

#: operators that move pixels, each with the arguments that are tried
OPERATORS: dict[str, list[Callable[[], Any]]] = {
    "CenterCrop": [lambda: ops.CenterCrop(18), lambda: ops.CenterCrop((60, 11))],
    "ElasticTransform": [lambda: ops.ElasticTransform(50.0, 5.0, fill=0)],
    "Letterbox": [lambda: ops.Letterbox((64, 40), fill=0), lambda: ops.Letterbox((17, 90), fill=0)],
    "Mosaic": [lambda: ops.Mosaic(48, fill=0), lambda: ops.Mosaic(90, 0.0, fill=0)],
    "Pad": [lambda: ops.Pad((3, 0, 5, 7)), lambda: ops.Pad((-4, 6, -3, -2))],
    "RandomAffine": [
        lambda: ops.RandomAffine((180, 180)),
        lambda: ops.RandomAffine((-90, -90), interpolation="bilinear"),
        lambda: ops.RandomAffine(180, (0.3, 0.2), interpolation="bilinear"),
        lambda: ops.RandomAffine(0, None, (0.8, 3.0), interpolation="bilinear"),
        lambda: ops.RandomAffine(20, (0.1, 0.1), (0.8, 1.5), (-15, 15, -15, 15), "bilinear", center=(3, 9)),
    ],
    "RandomCrop": [lambda: ops.RandomCrop(15, 4, True)],
    "RandomHorizontalFlip": [lambda: ops.RandomHorizontalFlip(0.7)],
    "RandomIoUCrop": [lambda: ops.RandomIoUCrop(sampler_options=[0.0])],
    "RandomPerspective": [lambda: ops.RandomPerspective(0.4, 0.9), lambda: ops.RandomPerspective(0.0, 1.0)],
    "RandomResize": [lambda: ops.RandomResize(9, 70)],
    "RandomResizedCrop": [lambda: ops.RandomResizedCrop(33), lambda: ops.RandomResizedCrop((80, 20), (0.3, 1.0))],
    "RandomRotate90": [lambda: ops.RandomRotate90()],
    "RandomRotation": [
        lambda: ops.RandomRotation((180, 180)),
        lambda: ops.RandomRotation((90, 90), expand=True),
        lambda: ops.RandomRotation((-90, -90)),
        lambda: ops.RandomRotation(180, "bilinear"),
        lambda: ops.RandomRotation(180, "bilinear", expand=True),
        lambda: ops.RandomRotation(180, "bilinear", center=(5, 20)),
    ],
    "RandomShortestSize": [lambda: ops.RandomShortestSize([10, 25, 70], max_size=90)],
    "RandomSizeCrop": [lambda: ops.RandomSizeCrop(8, 30)],
    "RandomVerticalFlip": [lambda: ops.RandomVerticalFlip(0.7)],
    "RandomZoomOut": [lambda: ops.RandomZoomOut(0, (1.0, 3.0), 0.9)],
    "Resize": [
        lambda: ops.Resize((20, 60)),
        lambda: ops.Resize((70, 90)),
        lambda: ops.Resize((300, 400), "nearest"),
        lambda: ops.Resize((9, 7)),
        lambda: ops.Resize((100, 64), "nearest"),
        lambda: ops.Resize((64, 64), "bicubic"),
    ],
    "ScaleJitter": [lambda: ops.ScaleJitter((40, 40), (0.4, 3.0))],
}
#: of images alone, or with a test of their own: what is pasted or blended is not moved
OTHERS = {"AugMix", "AutoAugment", "CopyPaste", "DetectionMixUp", "FiveCrop", "RandAugment", "TenCrop"} | {
    "TrivialAugmentWide"
}
#: of a pixel in a corner they show a part, which lies beside its middle
WARPS = {"ElasticTransform", "RandomAffine", "RandomPerspective", "RandomRotation"}


def stored(path: Path, seed: int, light: Callable[[Array, int, int], None], margin: int = 0) -> leat.Dataset:
    """N images with a box that is all of the image, and a point at a pixel; of the first ones it is in a corner."""
    rng = np.random.default_rng(seed)
    fields = {"image": "image", "boxes": leat.boxes("xyxy"), "points": leat.keypoints(1)}
    with leat.Writer(path, fields) as w:
        for i in range(N):
            width, height = (int(n) for n in rng.integers(12 + 2 * margin, 48, 2))
            x, y = int(rng.integers(margin, width - margin)), int(rng.integers(margin, height - margin))
            if i < 4 and not margin:
                x, y = (width - 1) * (i & 1), (height - 1) * (i >> 1)
            pixels = np.zeros((height, width, 3), np.uint8)
            light(pixels, x, y)
            box, point = np.array([[0, 0, width, height]], F), np.array([[[x, y, 2]]], F)
            w.add(image=png(pixels), boxes=box, points=point)
    return leat.open(path)


def one_pixel(pixels: Array, x: int, y: int) -> None:
    pixels[y, x] = 255


def blob(pixels: Array, x: int, y: int) -> None:
    rows, columns = np.mgrid[: pixels.shape[0], : pixels.shape[1]]
    pixels[:] = np.rint(255 * np.exp(-((rows - y) ** 2 + (columns - x) ** 2) / 4.5))[..., None]


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> leat.Dataset:
    return stored(tmp_path_factory.mktemp("points") / "a.leat", 1, one_pixel)


def made(photos: leat.Dataset, chain: list[Any], seed: int) -> list[tuple[Array, Array]]:
    """Of each sample, the light of its pixels and its points (n, 3)."""
    names = ("image", "boxes", "points")
    outputs = {names: leat.Out(names, [ops.Decode(), *chain, ops.ToLayout("NHWC")], stack="list")}
    (batch,) = leat.Loader(photos, N, outputs=outputs, framework="numpy", seed=seed)
    return [(batch["image"][r][..., 0].astype(float), np.array(batch["points"][r])[:, 0]) for r in range(N)]


def light_at(light: Array, x: float, y: float, reach: float) -> tuple[float, float] | None:
    """The middle of the light within `reach` of a place."""
    rows, columns = np.mgrid[: light.shape[0], : light.shape[1]]
    near = light * (abs(columns - x) <= reach) * (abs(rows - y) <= reach)
    if near.sum() == 0:
        return None
    return float((columns * near).sum() / near.sum()), float((rows * near).sum() / near.sum())


def test_every_operator_that_moves_pixels_is_tried() -> None:
    moving = {n for n, kind in vars(ops).items() if isinstance(kind, type) and getattr(kind, "_moves", False) is True}
    assert moving == set(OPERATORS) | OTHERS


@pytest.mark.parametrize("name", sorted(OPERATORS))
def test_a_white_pixel_is_at_its_point(photos: leat.Dataset, name: str) -> None:
    for number, make in enumerate(OPERATORS[name]):
        seen = 0
        for sample, (light, points) in enumerate(made(photos, [make()], seed=number)):
            where = f"{make()!r}, sample {sample}: points {points.tolist()}"
            labelled = points[points[:, 2] > 0]
            if not len(labelled):
                at_edge = light.copy()
                at_edge[3:-3, 3:-3] = 0  # what is left of a pixel whose middle has gone
                assert (light == at_edge).all(), where
            for x, y, _ in labelled:
                others = labelled[(labelled != (x, y, 2)).any(1)]
                if len(others) and abs(others[:, :2] - (x, y)).max(1).min() < 12:
                    continue
                middle = light_at(light, x, y, 1000 if len(points) == 1 else 6)
                assert middle is not None, f"{where}: no light"
                off = max(abs(middle[0] - x), abs(middle[1] - y))
                assert off <= (0.75 if sample < 4 and name in WARPS else 0.5), f"{where}: light at {middle}"
                seen += 1
        assert seen >= N // 6, f"{make()!r}: {seen} seen"


def operator(rnd: random.Random) -> Any:
    """One that makes nothing much smaller, so that light is left."""
    low = rnd.uniform(0.75, 1.3)
    every: list[Callable[[], Any]] = [
        lambda: ops.RandomHorizontalFlip(0.5),
        lambda: ops.RandomVerticalFlip(0.5),
        lambda: ops.RandomRotate90(),
        lambda: ops.Pad([rnd.randrange(-2, 9) for _ in range(4)]),
        lambda: ops.Resize((rnd.randrange(30, 70), rnd.randrange(30, 70))),
        lambda: ops.RandomCrop(30, 2, True),
        lambda: ops.CenterCrop((rnd.randrange(25, 60), rnd.randrange(25, 60))),
        lambda: ops.RandomResizedCrop(rnd.randrange(30, 60), (0.5, 1.0)),
        lambda: ops.Letterbox((rnd.randrange(30, 70), rnd.randrange(30, 70)), fill=0),
        lambda: ops.RandomRotation(rnd.choice([10, 90, 180]), "bilinear", expand=rnd.random() < 0.5),
        lambda: ops.RandomAffine(30, (0.1, 0.1), (low, low + 0.2), 10, "bilinear"),
        lambda: ops.RandomPerspective(0.2, 0.7),
        lambda: ops.ElasticTransform(20.0, 5.0, fill=0),
    ]
    return rnd.choice(every)()


def test_chains_keep_points_and_pixels_together(tmp_path: Path) -> None:
    photos, seen, rnd = stored(tmp_path / "a.leat", 2, blob, margin=7), 0, random.Random(3)
    for number in range(12):
        chain, whole = [operator(rnd) for _ in range(rnd.randrange(2, 5))], [True] * N
        for length in range(1, len(chain) + 1):
            for sample, (light, points) in enumerate(made(photos, chain[:length], seed=number)):
                rim = light.copy()
                rim[1:-1, 1:-1] = 0
                whole[sample] &= not rim.any() and light.max() > 80  # else a part of it is cut off
                if not whole[sample]:
                    continue
                middle = light_at(light, points[0, 0], points[0, 1], 1000)
                assert middle is not None and max(abs(middle - points[0, :2])) <= 0.5, (
                    f"chain {number}, {chain[:length]!r}, sample {sample}: light at {middle}, point at {points[0]}"
                )
                seen += 1
    assert seen > 300


def test_a_mirror_before_a_resize_is_one_behind_it(photos: leat.Dataset) -> None:
    for size in ((20, 60), (90, 11), (64, 64)):
        first = made(photos, [ops.RandomHorizontalFlip(1.0), ops.Resize(size)], 0)
        second = made(photos, [ops.Resize(size), ops.RandomHorizontalFlip(1.0)], 0)
        np.testing.assert_allclose([p for _, p in first], [p for _, p in second], atol=1e-4)
