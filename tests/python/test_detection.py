"""Operators of detectors' recipes: what they draw, where boxes go, and that what is computed at once has the pixels of
one operator after the other.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from photo_support import png
from PIL import Image

import leat
from leat import ops

F = np.float32
Array = np.ndarray[Any, Any]
TUPLE = ("image", "boxes", "label", "mask")


class Sample:
    """One made-up sample: a smooth image, class ids as large, boxes and their labels."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.w, self.h = (int(v) for v in rng.integers(40, 130, 2))
        small = rng.integers(0, 256, (8, 8, 3), dtype=np.uint8)
        self.pixels = np.asarray(Image.fromarray(small).resize((self.w, self.h), Image.Resampling.BICUBIC))
        self.ids = rng.integers(1, 21, (self.h, self.w), dtype=np.uint8)
        n = int(rng.integers(0, 6))
        corners = (rng.uniform(0, 1, (n, 2, 2)) * [self.w, self.h]).astype(F)
        self.boxes = np.concatenate([corners.min(1), corners.max(1)], 1)
        self.label = np.arange(n)


def write(path: Path, samples: list[Sample]) -> leat.Dataset:
    fields = {"image": "image", "mask": leat.mask(), "boxes": leat.boxes(), "label": leat.field("int64", (None,))}
    with leat.Writer(path, fields) as w:
        for s in samples:
            w.add(image=png(s.pixels), mask=png(s.ids), boxes=s.boxes, label=s.label)
    return leat.open(path)


@pytest.fixture(scope="module")
def samples() -> list[Sample]:
    rng = np.random.default_rng(11)
    return [Sample(rng) for _ in range(64)]


@pytest.fixture(scope="module")
def stored(samples: list[Sample], tmp_path_factory: pytest.TempPathFactory) -> leat.Dataset:
    return write(tmp_path_factory.mktemp("detection") / "made.leat", samples)


def rows(ds: leat.Dataset, chain: list[ops.Operator], epochs: int = 1, **options: Any) -> Any:
    """(batch, row, sample, geometry) of some epochs."""
    out = leat.Out(TUPLE, chain, geometry=True)
    loader = leat.Loader(ds, 8, True, outputs={TUPLE: out}, framework="numpy", **{"seed": 5, **options})
    for _ in range(epochs):
        for batch in loader:
            for i, number in enumerate(batch.ids):
                yield batch, i, int(number), batch["image.geometry"][i]


def canvas(pixels: Array, g: Array, fill: Any) -> Image.Image:
    """The part of a padded image that a geometry names."""
    x, y, w, h = (int(v) for v in g[:4])
    image = Image.fromarray(pixels)
    made = Image.new(image.mode, (w, h), fill)
    made.paste(image, (-x, -y))
    return made


def resized(pixels: Array, g: Array, fill: Any, size: tuple[int, int], how: Image.Resampling) -> Array:
    made = canvas(pixels, g, fill)
    made = made.transpose(Image.Transpose.FLIP_LEFT_RIGHT) if g[4] else made
    return np.asarray(made.resize(size, how))


# ---- pixels ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("size", "fill", "flips"),
    [
        ((72, 50), 0, 0.0),
        ((300, 280), (124, 116, 104), 0.5),
        ((72, 50), (124, 116, 104), 1.0),
        ((300, 280), 0, 1.0),
    ],
)
def test_a_resized_canvas_is_what_padding_cropping_mirroring_and_resizing_give(
    samples: list[Sample], stored: leat.Dataset, size: tuple[int, int], fill: Any, flips: float
) -> None:
    h, w = size
    by_kind = {"image": fill, "mask": 255}
    chain = [
        ops.Decode(),
        ops.RandomZoomOut(fill=by_kind, p=0.7),
        ops.RandomApply([ops.RandomIoUCrop()], p=0.8),
        ops.RandomHorizontalFlip(flips),
        ops.Resize(size),
    ]
    padded = 0
    for batch, i, sample, g in rows(stored, chain):
        s = samples[sample]
        fill_of = fill if isinstance(fill, tuple) else (fill,) * 3
        wanted = resized(s.pixels, g, fill_of, (w, h), Image.Resampling.BILINEAR)
        assert abs(batch["image"][i].transpose(1, 2, 0).astype(int) - wanted).max() <= 1
        np.testing.assert_array_equal(batch["mask"][i], resized(s.ids, g, 255, (w, h), Image.Resampling.NEAREST))
        padded += g[0] < 0 or g[1] < 0
    assert padded > 10


def test_a_canvas_that_is_delivered_as_it_is_has_the_image_in_its_place(
    samples: list[Sample], stored: leat.Dataset
) -> None:
    chain = [ops.Decode(), ops.RandomZoomOut(fill=(9, 8, 7), p=1), ops.CenterCrop(150)]
    for batch, i, sample, g in rows(stored, chain):
        wanted = np.asarray(canvas(samples[sample].pixels, g, (9, 8, 7)))
        inside = np.zeros((150, 150), bool)  # CenterCrop's own padding is black, and beside the canvas
        x, y = max(0, -int(g[0])), max(0, -int(g[1]))
        inside[y : y + samples[sample].h, x : x + samples[sample].w] = True
        made = batch["image"][i].transpose(1, 2, 0)
        np.testing.assert_array_equal(made[inside], wanted[inside])


@pytest.mark.parametrize("how", ["bilinear", "nearest"])
def test_mirroring_before_a_resize_keeps_every_pixel(samples: list[Sample], stored: leat.Dataset, how: str) -> None:
    chain = [ops.Decode(), ops.RandomHorizontalFlip(1.0), ops.Resize((31, 37), how)]
    filters = {"bilinear": Image.Resampling.BILINEAR, "nearest": Image.Resampling.NEAREST}
    for batch, i, sample, g in rows(stored, chain):
        wanted = resized(samples[sample].pixels, g, 0, (37, 31), filters[how])
        assert abs(batch["image"][i].transpose(1, 2, 0).astype(int) - wanted).max() <= (1 if how == "bilinear" else 0)


@pytest.mark.parametrize("scale_up", [False, True])
@pytest.mark.parametrize("center", [False, True])
def test_a_letterbox_is_a_resize_in_a_frame(
    samples: list[Sample], stored: leat.Dataset, scale_up: bool, center: bool
) -> None:
    chain = [ops.Decode(), ops.Letterbox((90, 110), scale_up=scale_up, center=center), ops.RandomHorizontalFlip(0.5)]
    for batch, i, sample, g in rows(stored, [*chain, ops.ClampBoundingBoxes()]):
        s = samples[sample]
        r = min(90 / s.h, 110 / s.w)
        r = r if scale_up else min(r, 1)
        w, h = round(s.w * r), round(s.h * r)
        left, top = ((110 - w) // 2, (90 - h) // 2) if center else (0, 0)
        image, mask = Image.new("RGB", (110, 90), (114,) * 3), Image.new("L", (110, 90), 0)
        image.paste(Image.fromarray(s.pixels).resize((w, h), Image.Resampling.BILINEAR), (left, top))
        mask.paste(Image.fromarray(s.ids).resize((w, h), Image.Resampling.NEAREST), (left, top))
        turn = (lambda a: np.asarray(a)[:, ::-1]) if g[4] else np.asarray
        assert abs(batch["image"][i].transpose(1, 2, 0).astype(int) - turn(image)).max() <= 1
        np.testing.assert_array_equal(batch["mask"][i], turn(mask))
        boxes = s.boxes * np.array([w / s.w, h / s.h] * 2, F) + np.array([left, top] * 2, F)
        if g[4]:
            boxes[:, [0, 2]] = 110 - boxes[:, [2, 0]]
        np.testing.assert_allclose(batch["boxes"][i], boxes, rtol=1e-5, atol=1e-3)


def test_a_letterbox_behind_padding_of_another_value_keeps_both(stored: leat.Dataset, samples: list[Sample]) -> None:
    chain = [ops.Decode(), ops.RandomZoomOut(fill=10, p=1, side_range=(2, 2)), ops.Letterbox((64, 200), fill=200)]
    for batch, i, _, _ in rows(stored, chain):
        made = batch["image"][i]
        assert (made[:, :, 0] == 200).all() and (made[:, :, -1] == 200).all()
        assert (made == 10).all(0).sum() > 64 * 8


# ---- boxes -----------------------------------------------------------------------------------------------------------


def follow(boxes: Array, g: Array) -> tuple[Array, Array]:
    """Boxes of a crop without a resize, cut off at it, those emptied whose middle is left behind; and which stay."""
    x, y, w, h = (F(v) for v in g[:4])
    cx, cy = (boxes[:, 0] + boxes[:, 2]) / 2, (boxes[:, 1] + boxes[:, 3]) / 2
    stays = (x < cx) & (cx < x + w) & (y < cy) & (cy < y + h)
    made = boxes - np.array([x, y, x, y], F)
    made[:, 0::2], made[:, 1::2] = np.clip(made[:, 0::2], 0, w), np.clip(made[:, 1::2], 0, h)
    made[~stays] = 0
    return made, stays


def iou(boxes: Array, crop: Array) -> Array:
    low, high = np.maximum(boxes[:, :2], crop[:2]), np.minimum(boxes[:, 2:], crop[2:])
    common = np.clip(high - low, 0, None).prod(1)
    return common / ((boxes[:, 2:] - boxes[:, :2]).prod(1) + (crop[2:] - crop[:2]).prod() - common)


def test_boxes_go_with_zoom_out_iou_crop_and_resize(samples: list[Sample], stored: leat.Dataset) -> None:
    chain = [
        ops.Decode(),
        ops.RandomZoomOut(p=0.7),
        ops.RandomApply([ops.RandomIoUCrop()]),
        ops.SanitizeBoundingBoxes(),
    ]
    chain += [ops.Resize((64, 64)), ops.SanitizeBoundingBoxes()]
    left_out = 0
    for batch, i, sample, g in rows(stored, chain, epochs=4):
        s = samples[sample]
        made, stays = follow(s.boxes, g)
        cropped = g[0] > 0 or g[1] > 0 or g[0] + g[2] < s.w or g[1] + g[3] < s.h
        if not cropped:
            stays[:] = True
            made = s.boxes - np.array([g[0], g[1]] * 2, F)
        sides = made[:, 2:] - made[:, :2]
        kept = stays & (sides >= 1).all(1) & (sides.prod(1) >= 1)
        made = made[kept] * np.array([64 / g[2], 64 / g[3]] * 2, F)
        sides = made[:, 2:] - made[:, :2]
        again = (sides >= 1).all(1) & (sides.prod(1) >= 1)
        np.testing.assert_allclose(batch["boxes"][i], made[again], rtol=1e-5, atol=1e-4)
        np.testing.assert_array_equal(batch["label"][i], s.label[kept][again])
        left_out += cropped and len(s.label) > len(batch["label"][i])
    assert left_out > 20


def test_the_crop_does_not_depend_on_threads_batches_or_ranks(stored: leat.Dataset) -> None:
    chain = [ops.Decode(), ops.RandomZoomOut(), ops.RandomApply([ops.RandomIoUCrop()]), ops.GaussianBlur(3)]
    chain += [ops.RandomApply([ops.RandomIoUCrop(), ops.GaussianBlur(3)]), ops.Resize((32, 32))]

    def made(**options: Any) -> dict[int, bytes]:
        out = {TUPLE: leat.Out(TUPLE, chain, geometry=True)}
        found = {}
        for batch in leat.Loader(stored, shuffle=True, seed=2, outputs=out, framework="numpy", **options):
            for i, number in enumerate(batch.ids):
                found[int(number)] = batch["image"][i].tobytes() + batch["boxes"][i].tobytes()
        return found

    wanted = made(batch_size=64, num_threads=1)
    assert made(batch_size=7, num_threads=3) == wanted
    assert made(batch_size=8, num_threads=2, in_order=False) == wanted
    parts = [made(batch_size=8, rank=r, world_size=2) for r in range(2)]
    assert parts[0] | parts[1] == wanted


def test_an_iou_crop_needs_boxes_in_its_tuple(stored: leat.Dataset) -> None:
    chain = [ops.Decode(), ops.RandomIoUCrop(), ops.Resize((8, 8))]
    with pytest.raises(TypeError, match="drawn by boxes: give its chain to a tuple"):
        leat.Loader(stored, 2, outputs={"image": chain})
    with pytest.raises(TypeError, match="finds no boxes in the tuple"):
        leat.Loader(stored, 2, outputs={("image", "label"): chain})
    crop = ops.RandomIoUCrop()
    with pytest.raises(TypeError, match="stands there twice"):
        leat.Loader(stored, 2, outputs={("image", "boxes"): [ops.Decode(), crop, crop, ops.Resize((8, 8))]})


def test_a_broken_box_is_blamed_and_not_the_photo(tmp_path: Path, samples: list[Sample]) -> None:
    broken = [Sample(np.random.default_rng(i)) for i in range(3)]
    broken[1].boxes, broken[1].label = np.array([[5, 5, 2, 9]], F), np.array([0])
    ds = write(tmp_path / "broken.leat", broken)
    chain = [ops.Decode(), ops.RandomIoUCrop(), ops.Resize((8, 8))]
    with pytest.raises(leat.BrokenSampleError, match="'boxes'.*inverted|inverted.*") as caught:
        list(leat.Loader(ds, 3, outputs={("image", "boxes"): chain}))
    assert "boxes" in str(caught.value)


def test_boxes_are_delivered_as_shares_of_the_image_or_in_pixels(samples: list[Sample], stored: leat.Dataset) -> None:
    chain = [ops.Decode(), ops.ConvertBoundingBoxFormat("cxcywh", normalized=True), ops.Resize((40, 50))]
    for batch, i, sample, _ in rows(stored, chain):
        b, s = samples[sample].boxes, samples[sample]
        wanted = np.concatenate([(b[:, :2] + b[:, 2:]) / 2, b[:, 2:] - b[:, :2]], 1) / np.array([s.w, s.h] * 2, F)
        np.testing.assert_allclose(batch["boxes"][i], wanted, rtol=1e-5, atol=1e-6)
    back = [*chain, ops.ConvertBoundingBoxFormat("xyxy", normalized=False)]
    for batch, i, sample, _ in rows(stored, back):
        s = samples[sample]
        wanted = s.boxes * np.array([50 / s.w, 40 / s.h] * 2, F)
        np.testing.assert_allclose(batch["boxes"][i], wanted, rtol=1e-4, atol=1e-4)


# ---- distributions ---------------------------------------------------------------------------------------------------


def ks(a: Array, b: Array) -> float:
    """The distance of two samples' distributions in units of what chance gives: above 1.95 in 1 of 1000."""
    every = np.sort(np.concatenate([a, b]))
    low, high = (np.searchsorted(np.sort(v), every, "right") / len(v) for v in (a, b))
    return float(np.abs(low - high).max() * np.sqrt(len(a) * len(b) / (len(a) + len(b))))


LIMIT = 1.95
ONE = np.array([[20, 10, 80, 70], [60, 40, 95, 75], [5, 50, 30, 78]], F)


@pytest.fixture(scope="module")
def same(tmp_path_factory: pytest.TempPathFactory) -> leat.Dataset:
    """One photo of 100 x 80 and its boxes, many times."""
    sample = Sample(np.random.default_rng(1))
    sample.w, sample.h = 100, 80
    sample.pixels, sample.ids = np.zeros((80, 100, 3), np.uint8), np.zeros((80, 100), np.uint8)
    sample.boxes, sample.label = ONE, np.arange(3)
    return write(tmp_path_factory.mktemp("same") / "same.leat", [sample] * 500)


def drawn(ds: leat.Dataset, op: ops.Operator, epochs: int = 8) -> Array:
    """x, y, width and height of what it takes of the photo."""
    return np.array([g[:4] for *_, g in rows(ds, [ops.Decode(), op, ops.Resize((4, 4))], epochs)])


def zoomed(rng: np.random.Generator, low: float = 1.0, high: float = 4.0, p: float = 0.5) -> list[int]:
    if rng.uniform() >= p:
        return [0, 0, 100, 80]
    side = rng.uniform(low, high)
    w, h = int(100 * side), int(80 * side)
    return [-int((w - 100) * rng.uniform()), -int((h - 80) * rng.uniform()), w, h]


def cropped(
    rng: np.random.Generator, options: tuple[float, ...] = (0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 1.0), low: float = 0.3
) -> list[int]:
    """RandomIoUCrop as it is defined."""
    while True:
        option = options[rng.integers(len(options))]
        if option >= 1:
            return [0, 0, 100, 80]
        u = rng.uniform(size=(4, 40))  # 40 tries, of which the first that fits is taken
        w, h = ((side * (low + (1 - low) * v)).astype(int) for side, v in zip((100, 80), u[:2], strict=True))
        x, y = ((room * v).astype(int) for room, v in zip((100 - w, 80 - h), u[2:], strict=True))
        middle = (ONE[:, None, :2] + ONE[:, None, 2:]) / 2
        low_corner, high_corner = np.stack([x, y], 1), np.stack([x + w, y + h], 1)
        stays = ((low_corner < middle) & (middle < high_corner)).all(2)  # box, try
        common = np.clip(np.minimum(ONE[:, None, 2:], high_corner) - np.maximum(ONE[:, None, :2], low_corner), 0, None)
        shared = common.prod(2)
        union = (ONE[:, 2:] - ONE[:, :2]).prod(1)[:, None] + w * h - shared
        fits = (2 * w >= h) & (w <= 2 * h) & stays.any(0)
        fits &= np.where(stays, shared / union, -1).max(0) >= option
        if fits.any():
            i = int(fits.argmax())
            return [int(v) for v in (x[i], y[i], w[i], h[i])]


def distances(made: Array, reference: Callable[..., list[int]], *wrong: Any, **more: Any) -> float:
    rng = np.random.default_rng(17)
    wanted = np.array([reference(rng, *wrong, **more) for _ in range(len(made))])
    return max(ks(made[:, k], wanted[:, k]) for k in range(4))


def test_zoom_out_draws_what_it_says(same: leat.Dataset) -> None:
    made = drawn(same, ops.RandomZoomOut())
    assert distances(made, zoomed) < LIMIT
    assert distances(made, zoomed, high=3.7) > LIMIT
    assert distances(made, zoomed, p=0.55) > LIMIT
    assert distances(drawn(same, ops.RandomZoomOut(side_range=(2, 3), p=0.9)), zoomed, 2, 3, 0.9) < LIMIT


def test_an_iou_crop_draws_what_it_says(same: leat.Dataset) -> None:
    made = drawn(same, ops.RandomIoUCrop())
    assert distances(made, cropped) < LIMIT
    assert distances(made[::4], cropped, low=0.5) > LIMIT
    assert distances(made[::2], cropped, options=(0.0, 0.1, 0.3, 1.0)) > LIMIT
    one = drawn(same, ops.RandomIoUCrop(sampler_options=[0.3]), 4)
    assert distances(one, cropped, options=(0.3,)) < LIMIT
    assert distances(one[::4], cropped, options=(0.7,)) > LIMIT


def test_an_iou_crop_without_boxes_or_with_none_that_fits_leaves_the_image_whole(tmp_path: Path) -> None:
    empty = Sample(np.random.default_rng(1))
    empty.boxes, empty.label = np.zeros((0, 4), F), np.zeros(0, np.int64)
    ds = write(tmp_path / "empty.leat", [empty] * 8)
    made = drawn(ds, ops.RandomIoUCrop(sampler_options=[0.9]), 1)
    assert (made == [0, 0, empty.w, empty.h]).all()


def sides(ds: leat.Dataset, op: ops.Operator, epochs: int = 4) -> Array:
    """Width and height that a photo of 100 x 80 is resized to: one pixel of it is looked at."""
    found = [g[2:4] for *_, g in rows(ds, [ops.Decode(), op, ops.CenterCrop(1)], epochs)]
    return np.round(np.array([100, 80]) / np.array(found)).astype(int)


def test_scale_jitter_draws_what_it_says(same: leat.Dataset) -> None:
    made = sides(same, ops.ScaleJitter((150, 120), (0.5, 1.5)))
    rng = np.random.default_rng(4)

    def reference(low: float = 0.5, high: float = 1.5) -> Array:
        r = min(120 / 80, 150 / 100) * rng.uniform(low, high, len(made))
        return (np.array([[100, 80]]) * r[:, None]).astype(int)

    assert max(ks(made[:, k], reference()[:, k]) for k in (0, 1)) < LIMIT
    assert ks(made[:, 0], reference(0.65)[:, 0]) > LIMIT


def test_the_shortest_size_is_one_of_the_list_and_the_longer_side_is_bounded(same: leat.Dataset) -> None:
    made = sides(same, ops.RandomShortestSize([40, 60, 80], max_size=90))
    found, counts = np.unique(made, axis=0, return_counts=True)
    assert found.tolist() == [[50, 40], [75, 60], [90, 72]]
    n = len(made)

    def misfit(shares: list[float]) -> float:
        return float(sum((c - n * p) ** 2 / (n * p) for c, p in zip(counts, shares, strict=True)))

    assert misfit([1 / 3] * 3) < 13.8  # chi-square of 2 degrees, 1 of 1000
    assert misfit([0.38, 0.31, 0.31]) > 13.8


def test_random_resize_draws_every_size_as_often(same: leat.Dataset) -> None:
    made = sides(same, ops.RandomResize(20, 30))
    found, counts = np.unique(made[:, 1], return_counts=True)
    assert found.tolist() == list(range(20, 30))
    assert ((counts - len(made) / 10) ** 2 / (len(made) / 10)).sum() < 27.9  # of 9 degrees, 1 of 1000
    wrong = len(made) * np.array([1.3, *[1.0] * 8, 0.7]) / 10
    assert ((counts - wrong) ** 2 / wrong).sum() > 27.9
    assert set(made[:, 0]) == {int(s * 100 / 80) for s in range(20, 30)}


# ---- epochs and presets ----------------------------------------------------------------------------------------------


def test_operators_for_some_epochs_come_and_go_with_them_and_a_resumed_run_agrees(stored: leat.Dataset) -> None:
    names = ("image", "boxes", "label")
    end = [ops.Resize((24, 24)), ops.SanitizeBoundingBoxes(), ops.RandomHorizontalFlip()]
    early = [ops.RandomZoomOut(p=1).epochs(stop=2), ops.RandomApply([ops.RandomIoUCrop()]).epochs(1, 2)]

    def opened(*middle: ops.Operator, **options: Any) -> leat.Loader:
        chain = [ops.Decode(), *middle, *end]
        return leat.Loader(stored, 8, True, seed=1, outputs={names: chain}, framework="numpy", **options)

    def digest(batch: Any) -> tuple[bytes, ...]:
        return batch["image"].tobytes(), batch["boxes"].values.tobytes(), batch["label"].values.tobytes()

    loader = opened(*early, num_threads=3)
    made = [[digest(batch) for batch in loader] for _ in range(4)]
    plain = [ops.RandomZoomOut(p=1), ops.RandomApply([ops.RandomIoUCrop()])]
    for epoch, middle in enumerate([plain[:1], plain, [], []]):
        wanted = opened(*middle)
        assert [digest(wanted.batch_at(epoch, step)) for step in range(len(wanted))] == made[epoch]
        assert [digest(loader.batch_at(epoch, step)) for step in range(len(wanted))] == made[epoch]
    first = opened(*early)
    first.set_epoch(1)
    rows = iter(first)
    for _ in range(len(first) - 1):
        next(rows)
    state = first.state_dict()
    again = opened(*early)
    again.load_state_dict(state)
    assert [[digest(batch) for batch in again] for _ in range(2)] == [made[1][-1:], made[2]]
    other = opened(early[0].epochs(stop=3), early[1])
    assert other.stats()["plan_hash"] != loader.stats()["plan_hash"] == again.stats()["plan_hash"]
    unordered = opened(*early, in_order=False)
    for epoch in range(3):
        found = {int(i): batch["image"][k].tobytes() for batch in unordered for k, i in enumerate(batch.ids)}
        ids = [int(i) for step in range(len(loader)) for i in loader.batch_at(epoch, step).ids]
        flat = b"".join(image for image, _, _ in made[epoch])
        assert b"".join(found[i] for i in ids) == flat


def test_epochs_are_kept_in_json_and_refused_in_branches_and_for_functions() -> None:
    op = ops.RandomZoomOut(fill={"mask": 255}).epochs(2, 5)
    assert ops.from_json(op.to_json()) == op and op != ops.RandomZoomOut(fill={"mask": 255})
    assert "epochs=(2, 5)" in repr(op)
    branch = ops.RandomApply([ops.RandomIoUCrop()]).epochs(stop=3)
    assert ops.from_json(branch.to_json()) == branch
    with pytest.raises(ValueError, match="is for some epochs only"):
        ops.RandomApply([op])
    with pytest.raises(TypeError, match="no epochs"):
        ops.Map(len).epochs(stop=1)
    with pytest.raises(ValueError, match="up to a later"):
        op.epochs(4, 4)


def test_dfine_draws_one_size_for_each_step_up_to_its_last_epochs(stored: leat.Dataset) -> None:
    published = [480, 512, 544, 576, 608, 640, 640, 640, 672, 704, 736, 768, 800]
    assert leat.presets.dfine_sizes() == published
    chain = leat.presets.dfine_train(64, sizes=[48, 64, 80], stop_epoch=2)
    names = ("image", "boxes", "label")
    ranks = [
        leat.Loader(stored, 4, True, seed=1, outputs={names: chain}, framework="numpy", rank=r, world_size=2)
        for r in range(2)
    ]
    found = set()
    for epoch in range(4):
        for batch, other in zip(*ranks, strict=True):
            assert batch["image"].shape == other["image"].shape == (4, 3, *batch["image"].shape[2:])
            found.add((epoch < 2, batch["image"].shape[2]))
            boxes = batch["boxes"].values
            assert batch["image"].dtype == np.float32 and batch["image"].min() >= 0 and batch["image"].max() <= 1
            assert (boxes[:, :2] >= 0).all() and (boxes[:, :2] <= 1).all() and (boxes[:, 2:] <= 1).all()
            assert len(boxes) == len(batch["label"].values)
    assert found == {(True, 48), (True, 64), (True, 80), (False, 64)}
    with pytest.raises(ValueError, match="policy is one of"):
        leat.presets.detection_train("yolo")


def test_the_reference_trainings_of_torchvision_run(stored: leat.Dataset) -> None:
    names = ("image", "boxes", "label")
    for policy in ("hflip", "lsj", "multiscale", "ssd", "ssdlite"):
        chain = leat.presets.detection_train(policy)
        for batch in leat.Loader(stored, 1, outputs={names: chain}, framework="numpy"):
            h, w = batch["image"].shape[2:]
            boxes = batch["boxes"][0]
            assert (boxes[:, 2] <= w).all() and (boxes[:, 3] <= h).all() and len(boxes) == len(batch["label"][0])
            if batch.step == 7:
                break


@pytest.mark.parametrize(("start", "stop"), [(0, 1), (1, None)])
def test_a_mosaic_may_come_and_go(stored: leat.Dataset, start: int, stop: int | None) -> None:
    names = ("image", "boxes", "label")
    end = [ops.CenterCrop(60), ops.SanitizeBoundingBoxes()]
    some = [ops.Decode(), ops.Mosaic(60).epochs(start, stop), *end]
    made = leat.Loader(stored, 8, True, seed=4, outputs={names: some}, framework="numpy", num_threads=2)
    for epoch in range(2):
        there = epoch >= start and (stop is None or epoch < stop)
        chain = [ops.Decode(), *([ops.Mosaic(60)] if there else []), *end]
        wanted = leat.Loader(stored, 8, True, seed=4, outputs={names: chain}, framework="numpy")
        for batch in made:
            other = wanted.batch_at(epoch, batch.step)
            np.testing.assert_array_equal(batch["image"], other["image"])
            np.testing.assert_array_equal(batch["boxes"].values, other["boxes"].values)
            np.testing.assert_array_equal(batch["label"].values, other["label"].values)


def test_a_crop_of_random_sides_draws_every_side_as_often(same: leat.Dataset) -> None:
    made = drawn(same, ops.RandomSizeCrop(30, 90), 6)
    rng = np.random.default_rng(3)

    def reference(rng: np.random.Generator, low: int = 30) -> list[int]:
        w, h = int(rng.integers(low, 91)), int(rng.integers(low, 81))
        return [int(rng.integers(0, 101 - w)), int(rng.integers(0, 81 - h)), w, h]

    assert distances(made, reference) < LIMIT
    assert distances(made, reference, low=36) > LIMIT
    assert set(drawn(same, ops.RandomSizeCrop(200, int(rng.integers(200, 300))), 1)[:, 2]) == {100}


def test_the_trainings_of_detr_and_yolo_run(stored: leat.Dataset) -> None:
    names = ("image", "boxes", "label")
    detr = leat.Loader(stored, 1, outputs={names: leat.presets.detr_train()}, framework="numpy")
    for batch in detr:
        assert 384 <= min(batch["image"].shape[2:]) <= 800 and max(batch["image"].shape[2:]) <= 1333
        assert (batch["boxes"].values <= 1).all() and len(batch["boxes"][0]) == len(batch["label"][0])
        if batch.step == 5:
            break
    yolo = leat.Loader(
        stored, 8, outputs={names: leat.presets.yolo_train(64, stop_epoch=1)}, framework="numpy", epochs=2
    )
    for _ in range(2):
        for batch in yolo:
            assert batch["image"].shape == (8, 3, 64, 64) and (batch["boxes"].values <= 1).all()
