"""Masks of instances: polygons and runs as pixels, and moved with their image by the chain of a tuple.

The reference draws as the COCO API's published algorithm says, point by point. It is slow and written apart.
"""

from __future__ import annotations

import json
import math
import os
import warnings
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
import torch
from drawn_support import examples
from hypothesis import given
from hypothesis import strategies as st
from photo_support import png

import leat
from leat import ops

DATA = Path(os.environ.get("LEAT_DATA", "/nonexistent"))
Array = np.ndarray[Any, Any]


def drawn(polygon: list[float], h: int, w: int) -> Array:
    """One polygon, by the points of its edges in fifths of a pixel."""
    corners = [(int(5 * x + 0.5), int(5 * y + 0.5)) for x, y in zip(polygon[::2], polygon[1::2], strict=True)]
    points: list[tuple[int, int]] = []
    for (xs, ys), (xe, ye) in zip(corners, corners[1:] + corners[:1], strict=True):
        dx, dy = abs(xe - xs), abs(ye - ys)
        flip = xs > xe if dx >= dy else ys > ye
        (ax, ay), (bx, by) = ((xe, ye), (xs, ys)) if flip else ((xs, ys), (xe, ye))
        steps = range(max(dx, dy) + 1)
        for t in reversed(steps) if flip else steps:
            if dx >= dy:
                points.append((t + ax, int(ay + ((by - ay) / dx if dx else 0.0) * t + 0.5)))
            else:
                points.append((int(ax + (bx - ax) / dy * t + 0.5), t + ay))
    turns = np.zeros(h * w + 1, np.int64)
    for (u0, v0), (u, v) in zip(points, points[1:], strict=False):
        if u == u0:
            continue
        x = ((u if u < u0 else u - 1) + 0.5) / 5 - 0.5
        if math.floor(x) != x or x < 0 or x > w - 1:
            continue
        y = math.ceil(min(max((min(v, v0) + 0.5) / 5 - 0.5, 0), h))
        turns[int(x) * h + y] += 1
    return (np.cumsum(turns[:-1]) % 2).astype(np.uint8).reshape(w, h).T


def reference(instance: Any, h: int, w: int) -> Array:
    if instance is None:
        return np.zeros((h, w), np.uint8)
    if isinstance(instance, dict):
        ones = np.repeat(np.arange(len(instance["counts"])) % 2, instance["counts"])
        return ones.astype(np.uint8).reshape(w, h).T
    if hasattr(instance, "shape"):
        return (np.asarray(instance) != 0).astype(np.uint8)
    return np.maximum.reduce([drawn(p, h, w) for p in instance])


coordinate = st.one_of(
    st.floats(-20, 60, width=32), st.integers(-30, 600).map(lambda n: n / 10), st.integers(-5, 45).map(float)
)
polygon = st.lists(coordinate, min_size=6, max_size=16).map(lambda p: p[: len(p) // 2 * 2])


@examples(100)
@given(st.lists(polygon, min_size=1, max_size=3), st.integers(1, 40), st.integers(1, 40))
def test_polygons_become_the_pixels_that_the_published_algorithm_makes(polygons: Any, h: int, w: int) -> None:
    got = leat.draw_masks(leat.encode_masks([polygons]), h, w)
    assert np.array_equal(got[0], reference(polygons, h, w))


@pytest.mark.parametrize("part", [0, 0.25, 1 / 3])  # of a pixel: two forms in which polygons are kept
def test_each_polygon_of_an_instance_lies_where_it_was_given(part: float) -> None:
    first, second = [part, 1, 5, 1, 5, 5], [9 + part, 8, 15, 8, 15, 15]
    together = leat.draw_masks(leat.encode_masks([[first, second]]), 20, 20)[0]
    alone = [leat.draw_masks(leat.encode_masks([[one]]), 20, 20)[0] for one in (first, second)]
    assert alone[0].any() and alone[1].any() and np.array_equal(together, np.maximum(*alone))


@examples(40)
@given(st.integers(1, 30), st.integers(1, 30), st.randoms(use_true_random=False))
def test_runs_and_arrays_come_back_as_they_were(h: int, w: int, random: Any) -> None:
    pixels = np.array([[random.random() < 0.4 for _ in range(w)] for _ in range(h)], np.uint8)
    assert np.array_equal(leat.draw_masks(leat.encode_masks([pixels, None]), h, w)[0], pixels)


def test_a_value_that_is_damaged_is_an_error_and_no_crash() -> None:
    rng = np.random.default_rng(1)
    good = leat.encode_masks([[[1, 1, 9.25, 1, 9, 7, 0.1, 8]], np.eye(10), [[0.123456789, 0, 7, 9, 3, 3]]])
    errors = 0
    for i in range(4000):
        bad = bytearray(good)
        bad[int(rng.integers(len(bad)))] = int(rng.integers(256))
        try:
            leat.draw_masks(bytes(bad if i % 2 else bad[: int(rng.integers(len(bad)))]), 10, 10)
        except ValueError as e:
            errors += 1
            assert "mask" in str(e)
    assert errors > 1000


def test_runs_of_another_size_say_so() -> None:
    with pytest.raises(ValueError, match="10 x 12 pixels, and its image 12 x 10"):
        leat.draw_masks(leat.encode_masks([np.zeros((12, 10))]), 10, 12)


@pytest.mark.parametrize(
    "instance, message",
    [([[1, 2, 3, 4]], "three points"), ([[1, 2, 3, 4, 5, 6, 7]], "7 coordinates"), ([[1, 2, 3, 4, 5, 1e9]], "2.20"),
     ({"size": [2, 2], "counts": [3]}, "3 pixels"), (np.zeros(4), "shape"),
     (np.full((2, 2), 0.3), "mask > 0.5")],
)  # fmt: skip
def test_what_is_no_mask_is_refused(instance: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        leat.encode_masks([instance])


# ---- in the chain of a tuple ----


FIELDS: dict[str, Any] = {"image": "image", "boxes": leat.boxes("xyxy"), "masks": leat.masks()}


def make(path: Path, samples: int = 5, companion: bool = True) -> list[list[Any]]:
    rng = np.random.default_rng(7)
    made = []
    with leat.Writer(path, FIELDS) as w:
        for _ in range(samples):
            height, width = (int(v) for v in rng.integers(20, 60, 2))
            n = int(rng.integers(0, 5))
            instances: list[Any] = []
            boxes = np.zeros((n, 4), np.float32)
            for k in range(n):
                x, y = np.sort(rng.uniform(0, width, 2)), np.sort(rng.uniform(0, height, 2))
                boxes[k] = x[0], y[0], x[1], y[1]
                corners = [round(float(v), 2) for v in (x[0], y[0], x[1], y[0], x[1], y[1], x[0], y[1])]
                instances.append(rng.integers(0, 2, (height, width)) if k == 2 else None if k == 3 else [corners])
            w.add(image=png(rng.integers(0, 256, (height, width, 3), np.uint8)), boxes=boxes, masks=instances)
            made.append([height, width, instances])
    return made


def batches(path: Path, chain: list[Any], fields: tuple[str, ...] = ("image", "boxes", "masks")) -> Any:
    loader = leat.Loader(leat.open(path), 5, outputs={fields: chain}, framework="numpy")
    return next(iter(loader))


def as_mask(pixels: Array, row: int, path: Path, chain: list[Any], made: list[list[Any]]) -> Array:
    """The same pixels as a field of leat.mask, through the same chain at the same row."""
    other = path.with_suffix(".mask.leat")
    with leat.Writer(other, {"image": "image", "mask": leat.mask()}, overwrite=True) as w:
        for i, sample in enumerate(leat.open(path)):
            ids = pixels if i == row else np.zeros(made[i][:2], np.uint8)
            w.add(image=sample["image"], mask=png(ids))
    return np.asarray(batches(other, chain, ("image", "mask"))["mask"][row])


CHAINS = {
    "resize": lambda: [ops.Decode(), ops.Resize((33, 41))],
    "crop": lambda: [ops.Decode(), ops.RandomResizedCrop(24), ops.RandomHorizontalFlip()],
    "rotate": lambda: [ops.Decode(), ops.RandomRotation(90), ops.Resize((30, 30)), ops.ToDtype("float32")],
}


@pytest.mark.parametrize("name", CHAINS)
def test_masks_move_as_a_mask_of_the_same_pixels_does(tmp_path: Path, name: str) -> None:
    path = tmp_path / "a.leat"
    made = make(path)
    batch = batches(path, CHAINS[name]())
    for row, (masks, boxes) in enumerate(zip(batch["masks"].unbind(), batch["boxes"].unbind(), strict=True)):
        height, width, instances = made[row]
        assert masks.dtype == np.uint8 and masks.shape[0] == len(boxes) == len(instances)
        assert masks.shape[1:] == batch["image"].shape[2:]
        for got, instance in zip(masks, instances, strict=True):
            want = as_mask(reference(instance, height, width), row, path, CHAINS[name](), made)
            assert np.array_equal(got, want)


def test_polygons_that_reach_far_are_drawn_like_near_ones() -> None:
    """An edge costs what it crosses of the image, so this ends."""
    far = float(2**20 - 1)
    triangle = [-far, -far, 300.0, 200.0, -far, far]
    (mask,) = leat.draw_masks(leat.encode_masks([[triangle]]), 400, 600)
    y, x = np.mgrid[:400, :600]
    depth = np.minimum((y - 200) - (x - 300), (200 - y) - (x - 300))  # of its corner, of almost 90 degrees
    assert mask[depth > 3].all() and not mask[depth < -3].any()
    zigzag = [v for k in range(30) for v in (-far, k - far, far, k - far + 0.5)] + [-far, far]
    leat.draw_masks(leat.encode_masks([[zigzag] * 20] * 3), 40, 60)
    assert np.array_equal(leat.draw_masks(leat.encode_masks([[zigzag[:-2]]]), 40, 60), np.zeros((1, 40, 60)))


def test_polygons_that_would_take_minutes_are_refused() -> None:
    square = [0.0, 0.0, 3000.0, 0.0, 3000.0, 2000.0, 0.0, 2000.0]
    with pytest.raises(leat.BrokenSampleError, match="too many polygons in one place"):
        leat.draw_masks(leat.encode_masks([[square] * 5000]), 2000, 3000)
    zigzag = [v for k in range(30000) for v in (-9.0, k / 100, 3000.0, k / 100)]
    with pytest.raises(leat.BrokenSampleError, match="edges of its polygons are too many"):
        leat.draw_masks(leat.encode_masks([[zigzag]]), 2000, 3000)
    sums = bytearray(leat.encode_masks([[[1.0, 1, 2, 1, 2, 2]]]))
    steps = b"\xff\xff\xff\xff\x07" * 2  # of 2^34 hundredths each
    value = bytes(sums[:2]) + bytes([4 + 30, sums[3], 1, 3]) + steps * 3
    with pytest.raises(leat.BrokenSampleError):
        leat.draw_masks(value, 10, 10)


def write_crowds(path: Path, crowds: tuple[int, ...], height: int, width: int) -> None:
    """A sample for each number: a black image with so many instances."""
    with leat.Writer(path, {"image": "image", "boxes": leat.boxes("xyxy"), "masks": leat.masks()}) as w:
        for n in crowds:
            image = png(np.zeros((height, width, 3), np.uint8))
            w.add(image=image, boxes=np.tile(np.float32([1, 1, 5, 5]), (n, 1)), masks=[None] * n)


def test_masks_of_more_than_4_gib_break_their_sample(tmp_path: Path) -> None:
    path = tmp_path / "a.leat"
    write_crowds(path, (2, 30_000, 1), 20, 30)
    outputs = {("image", "boxes", "masks"): [ops.Decode(), ops.Resize((400, 400))]}
    with pytest.raises(leat.BrokenSampleError, match=r"30000 instances, of 400 x 400 pixels.*sample 1"):
        list(leat.Loader(leat.open(path), 1, outputs=outputs, framework="numpy"))
    (left,) = leat.Loader(leat.open(path), 3, outputs=outputs, framework="numpy", on_error="skip")
    assert [masks.shape for masks in left["masks"].unbind()] == [(2, 400, 400), (1, 400, 400)]


@pytest.mark.parametrize("stack", ["list", "pad", None])
def test_masks_of_open_size_of_more_than_4_gib_break_their_sample(
    tmp_path: Path, stack: Literal["list", "pad"] | None
) -> None:
    path = tmp_path / "a.leat"
    write_crowds(path, (2, 40_000, 1), 300, 400)
    names = ("image", "boxes", "masks")
    outputs = {names: leat.Out(names, [ops.Decode()], stack=stack)}
    more: dict[str, Any] = {"framework": "numpy", "budget_bytes": 512 << 20}
    with pytest.raises(
        leat.BrokenSampleError, match=r"40000 instances, of 300 x 400 pixels.*leave 'masks' out"
    ) as error:
        list(leat.Loader(leat.open(path), 1, outputs=outputs, **more))
    assert error.value.sample == 1
    if stack:
        (left,) = leat.Loader(leat.open(path), 3, outputs=outputs, on_error="skip", **more)
        assert len(left["boxes"]) == 2 and [masks[:, 0, 0].shape for masks in left["masks"]] == [(2,), (1,)]


@pytest.mark.parametrize("chain", [[ops.Decode(), ops.Resize((400, 400))], [ops.Decode()]], ids=["one size", "open"])
def test_no_sample_is_left_out_because_its_masks_are_larger_than_the_budget(tmp_path: Path, chain: Any) -> None:
    path = tmp_path / "a.leat"
    write_crowds(path, (2, 900, 1), 400, 400)
    names = ("image", "boxes", "masks")
    outputs = {names: leat.Out(names, chain, stack=None if len(chain) > 1 else "list")}
    more: dict[str, Any] = {"outputs": outputs, "framework": "numpy", "on_error": "skip"}
    with pytest.raises(leat.BudgetError, match="budget_bytes"):
        list(leat.Loader(leat.open(path), 1, **more, budget_bytes=96 << 20))
    rows = [len(batch["masks"][0]) for batch in leat.Loader(leat.open(path), 1, **more, budget_bytes=768 << 20)]
    assert rows == [2, 900, 1]


def test_masks_follow_a_crop_that_is_drawn_by_boxes(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    path, boxes = tmp_path / "a.leat", np.array([[5, 5, 20, 25]], np.float32)
    with leat.Writer(
        path, {"image": "image", "boxes": leat.boxes("xyxy"), "masks": leat.masks(), "mask": leat.mask()}
    ) as w:
        for ids in rng.integers(0, 2, (5, 40, 50), np.uint8):
            w.add(image=png(rng.integers(0, 256, (40, 50, 3), np.uint8)), boxes=boxes, masks=[ids], mask=png(ids))
    chain = [ops.Decode(), ops.RandomIoUCrop(), ops.Resize((30, 30))]
    batch = batches(path, chain, ("image", "boxes", "masks", "mask"))
    assert np.array_equal(np.concatenate(batch["masks"].unbind()), batch["mask"])


def test_masks_are_left_out_with_their_boxes(tmp_path: Path) -> None:
    path = tmp_path / "a.leat"
    make(path)
    crop = [ops.Decode(), ops.RandomResizedCrop(32, scale=(0.1, 0.3))]
    all_of = batches(path, crop)
    kept = batches(path, [*crop, ops.SanitizeBoundingBoxes(min_size=4)])
    dropped = 0
    for row in range(5):
        boxes = all_of["boxes"].unbind()[row]
        keep = (boxes[:, 2] - boxes[:, 0] >= 4) & (boxes[:, 3] - boxes[:, 1] >= 4)
        assert np.array_equal(kept["masks"].unbind()[row], all_of["masks"].unbind()[row][keep])
        dropped += int((~keep).sum())
    assert dropped


def test_masks_are_padded_to_a_number(tmp_path: Path) -> None:
    path = tmp_path / "a.leat"
    make(path)
    chain = [ops.Decode(), ops.Resize((20, 24))]
    ragged, dense = batches(path, chain), batches(path, [*chain, ops.PadTo(6)])
    assert dense["masks"].shape == (5, 6, 20, 24)
    for row, masks in enumerate(ragged["masks"].unbind()):
        assert np.array_equal(dense["masks"][row, : len(masks)], masks) and not dense["masks"][row, len(masks) :].any()


def test_masks_that_are_not_asked_for_are_not_read(tmp_path: Path) -> None:
    path = tmp_path / "a.leat"
    with leat.Writer(path, {"image": "image", "boxes": leat.boxes("xyxy"), "masks": leat.masks()}) as w:
        w.add(image=png(np.zeros((9, 9), np.uint8)), boxes=np.zeros((0, 4), np.float32), masks=b"damaged")
    batch = next(iter(leat.Loader(leat.open(path), 1, outputs={("image", "boxes"): CHAINS["resize"]()})))
    assert batch["image"].shape == (1, 3, 33, 41)
    with pytest.raises(leat.BrokenSampleError, match="masks of instances are damaged"):
        batches(path, CHAINS["resize"]())


def test_masks_of_another_size_or_number_break_their_sample(tmp_path: Path) -> None:
    path = tmp_path / "a.leat"
    image, box = png(np.zeros((9, 9), np.uint8)), np.array([[1, 1, 5, 5]], np.float32)
    with leat.Writer(path, {"image": "image", "boxes": leat.boxes("xyxy"), "masks": leat.masks()}) as w:
        w._instances.boxes = None  # such samples are refused in Python, but not in C
        w.add(image=image, boxes=box, masks=[np.ones((8, 9))])
        w.add(image=image, boxes=box, masks=[np.ones((9, 9))] * 2)
        w.add(image=image, boxes=box, masks=[np.ones((9, 9))])
    ds = leat.open(path)
    outputs = {("image", "boxes", "masks"): CHAINS["resize"]()}
    (batch,) = leat.Loader(ds, 3, outputs=outputs, on_error="skip", framework="numpy")
    assert batch.ids.tolist() == [2] and batch["masks"].values.all()
    reasons = [e.reason for e in batch.errors]
    assert "9 x 8 pixels, and its image 9 x 9" in reasons[0] and "masks of 2 instances" in reasons[1]


def test_masks_need_rows_to_go_with(tmp_path: Path) -> None:
    path = tmp_path / "a.leat"
    make(path)
    with pytest.raises(TypeError, match="need boxes, or another array"):
        batches(path, CHAINS["resize"](), ("image", "masks"))


OPEN = {
    "as stored": lambda: [ops.Decode()],
    "turned": lambda: [ops.Decode(), ops.RandomRotation(40, expand=True)],
    "resized": lambda: [ops.Decode(), ops.RandomShortestSize([20, 35]), ops.SanitizeBoundingBoxes(min_size=3)],
    "one size": lambda: [ops.Decode(), ops.Resize((21, 22))],
}


@pytest.mark.parametrize("framework", ["numpy", "torch"])
@pytest.mark.parametrize("name", OPEN)
def test_masks_of_images_of_open_size_come_as_lists_padded_or_alone(tmp_path: Path, name: str, framework: Any) -> None:
    path, fields, pad = tmp_path / "a.leat", ("image", "boxes", "masks", "one"), [ops.PadTo(6)]
    made = make(path, samples=8)
    with leat.Writer(tmp_path / "b.leat", FIELDS | {"one": leat.mask()}) as w:
        for sample, (h, wide, _) in zip(leat.open(path), made, strict=True):
            masks = leat.draw_masks(sample["masks"], h, wide)
            ids = (masks * np.arange(1, len(masks) + 1, dtype=np.uint8)[:, None, None]).max(0, initial=0)
            w.add(image=sample["image"], boxes=sample["boxes"], masks=list(masks), one=png(ids.astype(np.uint8)))

    def load(chain: Any, size: int, stack: Any) -> list[Any]:
        out = {fields: leat.Out(fields, chain, stack=stack)}
        return list(leat.Loader(leat.open(tmp_path / "b.leat"), size, outputs=out, framework=framework))

    alone = [b for b in load(OPEN[name](), 1, None)]
    listed = [row for b in load(OPEN[name](), 3, "list") for row in zip(*(b[f] for f in fields), strict=True)]
    seen = 0
    for b, (image, boxes, masks, ids) in zip(alone, listed, strict=True):
        assert masks.shape == (len(boxes), *image.shape[1:])
        assert isinstance(b["masks"], leat.Ragged) and np.array_equal(np.asarray(b["masks"][0]), np.asarray(masks))
        if name in ("as stored", "turned", "one size"):  # numbers of the masks that are seen, the last on top
            of = np.asarray(masks) * np.arange(1, len(masks) + 1, dtype=np.uint8)[:, None, None]
            assert np.array_equal(of.max(0, initial=0), np.asarray(ids))
        seen += int(np.asarray(masks).sum())
    assert seen > 100
    rows = iter(listed)
    for b in load(OPEN[name](), 3, "pad"):
        assert b["masks"].values.shape[1:] == tuple(b["image.mask"].shape[1:])
        for k in range(b.size):
            *_, want, _ = next(rows)
            got = np.asarray(b["masks"][k])
            assert np.array_equal(got[:, : want.shape[1], : want.shape[2]], np.asarray(want))
            assert got.sum() == np.asarray(want).sum() and len(got) == len(want)
    rows = iter(listed)
    for b in load(OPEN[name]() + pad, 3, "pad"):
        assert tuple(b["masks"].shape) == (b.size, 6, *b["image.mask"].shape[1:]) and b["boxes"].shape[1] == 6
        for k in range(b.size):
            *_, want, _ = next(rows)
            got = np.asarray(b["masks"][k])
            assert np.array_equal(got[: len(want), : want.shape[1], : want.shape[2]], np.asarray(want))
            assert not got[len(want) :].any()
    for b, (_, _, want, _) in zip(load(OPEN[name]() + pad, 1, None), listed, strict=True):
        assert tuple(b["masks"].shape) == (1, 6, *want.shape[1:])


def test_masks_of_a_mosaic_lie_where_their_objects_do(tmp_path: Path) -> None:
    path, fields = tmp_path / "a.leat", ("image", "boxes", "masks", "label")
    rng = np.random.default_rng(3)
    with leat.Writer(
        path, {"image": "image", "boxes": leat.boxes(), "masks": leat.masks(), "label": leat.field("int64", (None,))}
    ) as w:
        for i in range(12):
            h, wide = (int(v) for v in rng.integers(20, 60, 2))
            pixels, masks, boxes = np.zeros((h, wide, 3), np.uint8), [], []
            for k in range(2):
                x, y = k * wide // 2 + 1, int(rng.integers(1, 8))
                mask = np.zeros((h, wide), np.uint8)
                mask[y : y + 10, x : x + wide // 2 - 2] = 1
                pixels[mask > 0] = 20 + 2 * i + k
                masks.append(mask)
                boxes.append([x, y, x + wide // 2 - 2, y + 10])
            w.add(image=png(pixels), boxes=np.array(boxes, np.float32), masks=masks, label=20 + 2 * i + np.arange(2))
    chain = [ops.Decode(), ops.RandomHorizontalFlip(), ops.Mosaic(24), ops.RandomHorizontalFlip(), ops.Pad(3)]
    kept = 0
    for stack in (None, "list"):
        out = {fields: leat.Out(fields, [*chain, ops.SanitizeBoundingBoxes()], stack=stack)}
        for batch in leat.Loader(leat.open(path), 4, True, outputs=out, framework="numpy", seed=2):
            for image, boxes, masks, label in zip(*(batch[f] for f in fields), strict=True):
                assert len(masks) == len(boxes) == len(label) and masks.shape[1:] == (54, 54) == image.shape[1:]
                for box, mask, value in zip(boxes, masks, label, strict=True):
                    near = abs(image[0].astype(int) - int(value)) <= 1
                    inside = mask > 0
                    if inside.sum() < 40:
                        continue
                    kept += 1
                    inner = inside.copy()  # off the edges, which a resize blends
                    for shift in (-1, 1):
                        inner &= np.roll(inside, shift, 0) & np.roll(inside, shift, 1)
                    assert near[inner].mean() > 0.9
                    ys, xs = np.nonzero(inside)
                    assert abs(np.array([xs.min(), ys.min(), xs.max() + 1, ys.max() + 1]) - box).max() <= 1.01
    assert kept > 50


def test_the_kind_of_the_field_is_stored(tmp_path: Path) -> None:
    path = tmp_path / "a.leat"
    make(path)
    assert leat.open(path).schema["masks"] == leat.masks()


# ---- COCO ----


@pytest.mark.parametrize("name", ["coco-dali", "coco-dali-dummy"])
def test_real_segmentations_are_drawn(name: str) -> None:
    path, photos = DATA / name / "instances_present.json", DATA / name / "images"
    if not path.exists():
        pytest.skip(f"needs {name} in LEAT_DATA")
    coco = json.loads(path.read_text())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ds = leat.open(photos, annotations=path)
    seen = 0
    for sample in ds:
        image = next(i for i in coco["images"] if i["id"] == sample["image_id"])
        of_image = [a for a in coco["annotations"] if a["image_id"] == image["id"]]
        masks = leat.draw_masks(sample["masks"], image["height"], image["width"])
        if len(of_image) != len(masks):
            continue
        for a, got in zip(of_image[:2], masks, strict=False):
            seen += 1
            segmentation = a.get("segmentation") or None
            assert np.array_equal(got, reference(segmentation, image["height"], image["width"]))
    assert seen > 10


def test_an_array_of_masks_is_written_as_their_list_is(tmp_path: Path) -> None:
    made = np.zeros((2, 9, 9), np.uint8)
    made[0, 2:5, 3:7] = made[1, :, 1] = 1
    with leat.Writer(tmp_path / "a.leat", {"boxes": leat.boxes("xyxy"), "masks": leat.masks()}) as w:
        for masks in (made, torch.from_numpy(made), list(made)):
            w.add(boxes=np.zeros((2, 4), np.float32), masks=masks)
        with pytest.raises(ValueError, match="masks"):
            w.add(boxes=np.zeros((1, 4), np.float32), masks=made)
    ds = leat.open(tmp_path / "a.leat")
    for i in range(3):
        assert np.array_equal(leat.draw_masks(ds[i]["masks"], 9, 9), made)
