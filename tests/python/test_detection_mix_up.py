"""DetectionMixUp: two samples, one over the other, with the objects of both.

Each sample is a photo of a color of its own, with a box and a label per object. So the share of a row is read off its
pixels.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from gather_support import (
    OPTIONS,
    Array,
    check_that_batches_come_again,
    check_that_nothing_changes_rows,
    extent,
)
from photo_support import png

import leat
from leat import ops

N, SIDE = 40, 32
NAMES = ("image", "boxes", "label", "masks", "points", "number")


def color(i: int) -> Array:
    """Far from that of others in some channel."""
    return np.array([i * 67 % 256, (i * 151 + 40) % 256, 255 - i * 29 % 256])


def boxes_of(i: int) -> Array:
    corners = np.random.default_rng(i).integers(0, 16, (i % 3, 2))
    return np.concatenate([corners, corners + 10], 1).astype(np.float32)


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> leat.Dataset:
    path = tmp_path_factory.mktemp("mix") / "a.leat"
    fields = {
        "image": "image",
        "boxes": leat.boxes("xyxy"),
        "label": leat.field("int64", (None,)),
        "masks": leat.masks(),
        "points": leat.keypoints(1),
        "ids": leat.mask(),
        "number": "int64",
    }
    with leat.Writer(path, fields) as w:
        for i in range(N):
            boxes, masks = boxes_of(i), []
            for x0, y0, x1, y1 in boxes.astype(int):
                masks.append(np.zeros((SIDE, SIDE), np.uint8))
                masks[-1][y0:y1, x0:x1] = 1
            points = np.concatenate([boxes[:, :2], np.full((len(boxes), 1), 2, np.float32)], 1)[:, None]
            image = np.tile(color(i).astype(np.uint8), (SIDE, SIDE, 1))
            labels = i * 10 + np.arange(len(boxes))
            ids = png(image[:, :, 0])
            w.add(image=png(image), boxes=boxes, masks=masks, label=labels, points=points, ids=ids, number=i)
    return leat.open(path)


def loader(photos: leat.Dataset, *more: Any, op: Any = None, **options: Any) -> leat.Loader:
    chain = [ops.Decode(), ops.Resize((SIDE, SIDE)), op or ops.DetectionMixUp(), *more]
    return leat.Loader(photos, outputs={NAMES: chain}, **OPTIONS | options)


def share_of(image: Array, own: int, other: int) -> float:
    """Of the row's own color, by the channel in which both differ most."""
    a, b = color(own).astype(float), color(other).astype(float)
    k = abs(a - b).argmax()
    return float((image[k, 0, 0] - b[k]) / (a - b)[k])


def test_a_row_is_a_mixture_of_two_samples_with_the_objects_of_both(photos: leat.Dataset) -> None:
    made = mixed = 0
    for epoch in range(3):
        batch = loader(photos, batch_size=N).batch_at(epoch, 0)
        for r, own in enumerate(batch.ids.tolist()):
            labels, image = batch["label"][r].tolist(), batch["image"][r]
            assert batch["number"][r] == own and (image == image[:, :1, :1]).all()
            others = {v // 10 for v in labels} - {own}
            assert len(others) <= 1 and labels[: own % 3] == [own * 10 + k for k in range(own % 3)]
            made += 1
            if not others:  # it has no objects
                continue
            (other,) = others
            share = share_of(image, own, other)
            assert -0.02 <= share <= 1.02
            assert abs(image[:, 0, 0] - (color(own) * share + color(other) * (1 - share))).max() <= 2
            np.testing.assert_array_equal(batch["boxes"][r], np.concatenate([boxes_of(own), boxes_of(other)]))
            np.testing.assert_array_equal(batch["points"][r][:, 0, :2], batch["boxes"][r][:, :2])
            assert [extent(mask) for mask in batch["masks"][r]] == batch["boxes"][r].tolist()
            mixed += 1
    assert made == 3 * N and mixed > N


@pytest.mark.parametrize("alpha", [0.5, 1.5, 32.0])
def test_the_share_is_of_beta(photos: leat.Dataset, alpha: float) -> None:
    shares = []
    for epoch in range(25):
        batch = loader(photos, op=ops.DetectionMixUp(alpha), batch_size=N).batch_at(epoch, 0)
        for r, own in enumerate(batch.ids.tolist()):
            others = {int(v) // 10 for v in batch["label"][r]} - {own}
            shares += [share_of(batch["image"][r], own, other) for other in others]
    x, at = np.sort(np.array(shares)), np.linspace(0, 1, 20001)[1:-1]
    density = (at * (1 - at)) ** (alpha - 1)
    cdf = np.interp(x, at, np.cumsum(density) / density.sum())
    # Kolmogorov and Smirnov's distance; colors are whole numbers, so that shares are blurred by about 1 in 100
    assert abs(cdf - (np.arange(len(x)) + 0.5) / len(x)).max() < 2 / math.sqrt(len(x)) + 0.02


def test_how_often(photos: leat.Dataset) -> None:
    plain = 0
    for epoch in range(10):
        batch = loader(photos, op=ops.DetectionMixUp(32.0, 0.3), batch_size=N).batch_at(epoch, 0)
        for r, own in enumerate(batch.ids.tolist()):
            plain += (batch["image"][r][:, 0, 0] == color(own)).all()
    assert 0.6 < plain / (10 * N) < 0.8


def test_nothing_else_changes_rows(photos: leat.Dataset) -> None:
    more = [ops.RandomHorizontalFlip(), ops.RandomIoUCrop(0.5), ops.SanitizeBoundingBoxes(), ops.Resize((20, 24))]
    check_that_nothing_changes_rows(lambda **options: loader(photos, *more, **options), NAMES, N)
    check_that_batches_come_again(lambda: loader(photos, *more), NAMES)


def test_an_image_alone_is_mixed_too(photos: leat.Dataset) -> None:
    chain = [ops.Decode(), ops.Letterbox((20, 24)), ops.DetectionMixUp()]
    batch = leat.Loader(photos, outputs={"image": chain}, **OPTIONS).batch_at(0, 0)
    assert batch["image"].shape == (5, 3, 20, 24)
    own = np.array([color(i) for i in batch.ids.tolist()])
    assert (batch["image"][:, :, 10, 12] != own).any(1).all()


@pytest.mark.parametrize(
    ("names", "chain", "why"),
    [
        (NAMES, [ops.Decode(), ops.DetectionMixUp()], "images of one size"),
        (
            ("image", "ids"),
            [ops.Decode(), ops.Resize((9, 9)), ops.DetectionMixUp()],
            "ids of classes cannot be blended",
        ),
        (NAMES, [ops.Decode(), ops.Mosaic(8), ops.DetectionMixUp()], "cannot stand behind Mosaic"),
        (NAMES, [ops.Decode(), ops.RandomIoUCrop(), ops.Resize((9, 9)), ops.DetectionMixUp()], "stands before"),
        (
            NAMES[:3],
            [ops.Decode(), ops.Resize((9, 9)), ops.ToDtype("float32"), ops.MixUp(num_classes=400)],
            "MixUp .* cannot mix boxes, .*; DetectionMixUp mixes samples with boxes",
        ),
    ],
)
def test_what_does_not_fit_says_why(photos: leat.Dataset, names: Any, chain: Any, why: str) -> None:
    with pytest.raises(TypeError, match=why):
        leat.Loader(photos, 4, outputs={names: chain})


def test_arguments() -> None:
    for wrong in (lambda: ops.DetectionMixUp(0), lambda: ops.DetectionMixUp(p=2)):
        with pytest.raises(ValueError):
            wrong()
    op = ops.DetectionMixUp(32, 0.5)
    assert ops.from_json(op.to_json()) == op
