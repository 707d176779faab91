"""RandomRotate90 against NumPy's rot90: pixels, targets, draws."""

from __future__ import annotations

import functools
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from photo_support import png
from property_chains import run_image
from targets_made import Sample, from_xyxy, write

import leat

ops = leat.ops
F = np.float32
Array = np.ndarray[Any, Any]
BY = functools.partial(leat.Out, stack="list")


def numbered(height: int, width: int, channels: int, dtype: str) -> Array:
    return np.arange(height * width * channels).reshape(height, width, channels).astype(dtype)


@pytest.mark.parametrize(("height", "width"), [(1, 1), (1, 70), (70, 33), (64, 65), (5, 5)])
@pytest.mark.parametrize("stored", ["HWC", "CHW", "PNG"])
@pytest.mark.parametrize("channels", [1, 3])
def test_pixels_are_those_of_rot90(height: int, width: int, stored: str, channels: int) -> None:
    image = numbered(height, width, channels, "uint8")
    seen: set[int] = set()
    for key in range(20):
        made = run_image(image, [ops.RandomRotate90()], key, stored)
        turns = {k for k in range(4) if np.array_equal(made, np.rot90(image, k))}
        assert turns
        seen |= turns
    assert seen == {0, 1, 2, 3}


@pytest.mark.parametrize("dtype", ["uint16", "float32", "float64"])
@pytest.mark.parametrize("layout", ["HWC", "CHW"])
@pytest.mark.parametrize("channels", [1, 2, 5])
def test_images_of_any_numbers_turn(dtype: str, layout: str, channels: int) -> None:
    image = numbered(9, 9, channels, dtype)
    stored = np.stack([image if layout == "HWC" else image.transpose(2, 0, 1)] * 24)
    ds = leat.from_arrays({"x": leat.field(dtype, stored.shape[1:], layout=layout)}, x=stored)  # type: ignore[arg-type]
    made = leat.Loader(ds, 24, outputs={"x": [ops.RandomRotate90()]}, framework="numpy").batch_at(0, 0)["x"]
    wanted = [np.rot90(image, k).transpose(2, 0, 1) for k in range(4)]
    found = {next(k for k in range(4) if np.array_equal(row, wanted[k])) for row in made}
    assert found == {0, 1, 2, 3}


def test_quarter_turns_are_alike_and_p_is_how_often() -> None:
    image = numbered(3, 4, 1, "uint8")
    turns = {np.ascontiguousarray(np.rot90(image, k)).tobytes(): k for k in range(4)}
    for p in (1.0, 0.4):
        seen = Counter(turns[run_image(image, [ops.RandomRotate90(p)], key, "HWC").tobytes()] for key in range(2000))
        expected = [2000 * (p / 4 + (1 - p) * (k == 0)) for k in range(4)]
        assert sum((seen[k] - n) ** 2 / n for k, n in enumerate(expected)) < 20
    assert ops.RandomRotate90() == ops.RandomRotate90(1.0)


def turned_boxes(boxes: Array, k: int, w: int, h: int) -> Array:
    for _ in range(k):
        x0, y0, x1, y1 = boxes.T
        boxes = np.stack([y0, F(w) - x1, y1, F(w) - x0], 1)
        w, h = h, w
    return boxes


def turned_points(points: Array, k: int, w: int, h: int) -> Array:
    points = points.copy()
    for _ in range(k):
        x, y, seen = points[..., 0].copy(), points[..., 1].copy(), points[..., 2] > 0
        points[..., 0], points[..., 1] = np.where(seen, y, x), np.where(seen, F(w) - 1 - x, y)
        w, h = h, w
    return points


@pytest.mark.parametrize(("form", "normalized"), [("xyxy", False), ("xywh", True), ("cxcywh", False)])
def test_targets_turn_with_their_image(tmp_path: Path, form: str, normalized: bool) -> None:
    rng = np.random.default_rng(11)
    samples = [Sample(i, rng) for i in range(40)]
    write(tmp_path / "a.leat", samples, form, normalized)
    names = ("image", "mask", "boxes", "points")
    outputs = {names: BY(names, [ops.Decode(), ops.RandomRotate90()])}
    seen: Counter[int] = Counter()
    for batch in leat.Loader(leat.open(tmp_path / "a.leat"), 8, outputs=outputs, framework="numpy", seed=2):
        for r, i in enumerate(batch.ids.tolist()):
            s = samples[i]
            image = batch["image"][r].transpose(1, 2, 0)
            (k,) = [k for k in range(4) if np.array_equal(np.rot90(s.pixels, k), image)]
            seen[k] += 1
            np.testing.assert_array_equal(batch["mask"][r], np.rot90(s.ids, k))
            w, h = (s.h, s.w) if k % 2 else (s.w, s.h)
            wanted = from_xyxy(turned_boxes(s.xyxy, k, s.w, s.h), form) / ([w, h, w, h] if normalized else 1)
            np.testing.assert_allclose(batch["boxes"][r], wanted, atol=1e-4)
            np.testing.assert_allclose(batch["points"][r], turned_points(s.points, k, s.w, s.h), atol=1e-4)
    assert set(seen) == {0, 1, 2, 3}


def test_nothing_is_cut_off_or_left_behind_and_left_stays_left(tmp_path: Path) -> None:
    """As of a mirror: a box that reaches beyond the image does so afterwards, and a point in the last column stays."""
    fields = {"image": "image", "boxes": leat.boxes("xyxy"), "points": leat.keypoints(2, pairs=[(0, 1)])}
    box, points = np.array([[-3, 4, 12, 40]], F), np.array([[[31.6, 5, 2], [3, 4, 1]]], F)
    with leat.Writer(tmp_path / "a.leat", fields) as writer:
        for _ in range(24):
            writer.add(image=png(numbered(20, 32, 3, "uint8")), boxes=box, points=points)
    outputs = {tuple(fields): BY(tuple(fields), [ops.Decode(), ops.RandomRotate90()])}
    batch = leat.Loader(leat.open(tmp_path / "a.leat"), 24, outputs=outputs, framework="numpy").batch_at(0, 0)
    made = {(tuple(b[0]), tuple(p.ravel())) for b, p in zip(batch["boxes"], batch["points"], strict=True)}
    wanted = [(turned_boxes(box, k, 32, 20)[0], turned_points(points, k, 32, 20).ravel()) for k in range(4)]
    assert made == {(tuple(b), tuple(p)) for b, p in wanted}


def test_turns_follow_one_another_within_a_branch_and_beside_it() -> None:
    image = numbered(21, 34, 3, "uint8")
    inner, outer = ops.RandomRotate90(name="a"), ops.RandomRotate90(name="b")
    chain = [ops.RandomApply([inner, ops.RandomInvert(1.0)], 1.0), outer]
    seen: set[int] = set()
    for key in range(20):
        by_one = [run_image(image, [op], key, "PNG") for op in (inner, outer)]
        i, o = (next(k for k in range(4) if np.array_equal(m, np.rot90(image, k))) for m in by_one)
        np.testing.assert_array_equal(run_image(image, chain, key, "PNG"), np.rot90(255 - image, i + o))
        seen.add((i + o) % 4)
    assert seen == {0, 1, 2, 3}


def test_the_size_is_open_unless_the_image_is_a_square(tmp_path: Path) -> None:
    for shape in ((8, 8, 3), (8, 9, 3)):
        ds = leat.from_arrays({"x": leat.field("uint8", shape, layout="HWC")}, x=np.zeros((4, *shape), np.uint8))
        made = functools.partial(leat.Loader, ds, 2, outputs={"x": [ops.RandomRotate90()]})
        if shape[0] == shape[1]:
            assert made().batch_at(0, 0)["x"].shape == (2, 3, 8, 8)
        else:
            with pytest.raises(leat.ProgramError, match="CenterCrop or another crop after RandomRotate90"):
                made()
