"""SanitizeBoundingBoxes: which boxes are left out, and which are not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from photo_support import png
from targets_made import from_xyxy

import leat

ops = leat.ops
F = np.float32
FORMS = [(form, normalized) for form in ("xyxy", "xywh", "cxcywh") for normalized in (False, True)]


def dataset(path: Path, boxes: Any, form: str = "xyxy", normalized: bool = False, copies: int = 1) -> leat.Dataset:
    """Photos of 100 x 100 with these boxes."""
    stored = from_xyxy(np.asarray(boxes, F).reshape(-1, 4), form) / F(100 if normalized else 1)
    fields = {
        "image": "image",
        "boxes": leat.boxes(form, normalized),  # type: ignore[arg-type]
        "label": leat.field("int64", (None,)),
    }
    with leat.Writer(path, fields, check=False) as writer:
        for _ in range(copies):
            writer.add(image=png(np.zeros((100, 100, 3), np.uint8)), boxes=stored, label=np.arange(len(stored)))
    return leat.open(path)


def kept(ds: leat.Dataset, *chain: Any) -> list[int]:
    names = ("image", "boxes", "label")
    corners = [ops.ConvertBoundingBoxFormat("xyxy", normalized=False)]
    outputs = {names: leat.Out(names, [ops.Decode(), *chain, *corners], stack="list")}
    batch = leat.Loader(ds, 1, outputs=outputs, framework="numpy").batch_at(0, 0)
    (height, width), boxes = batch["image"][0].shape[1:], batch["boxes"][0]
    assert len(boxes) == len(batch["label"][0]) and (boxes >= 0).all()
    assert (boxes[:, 2:] <= np.array([width, height]) + 1e-4).all()  # centres and sizes make corners once more
    return [int(v) for v in batch["label"][0]]


@pytest.mark.parametrize(("form", "normalized"), FORMS)
def test_boxes_that_were_cut_off_at_an_edge_stay_whatever_their_format(
    tmp_path: Path, form: str, normalized: bool
) -> None:
    """Corners of boxes that are stored as centres, sizes or shares are rounded, and so lie beyond the edge by bits."""
    corners = np.random.default_rng(0).uniform(10, 60, (2000, 2))
    boxes = np.concatenate([corners, np.full((2000, 2), 100)], 1)
    ds = dataset(tmp_path / "a.leat", boxes, form, normalized)
    crop, sanitize = ops.CenterCrop(80), ops.SanitizeBoundingBoxes()
    for chain in (
        [],
        [crop],
        [crop, ops.RandomHorizontalFlip(1.0), ops.RandomVerticalFlip(1.0)],
        [crop, ops.Resize((637, 533))],
        [ops.Resize((637, 533)), ops.RandomRotate90()],
        [ops.RandomRotation((30, 30), expand=True), ops.RandomCrop(80), ops.ConvertBoundingBoxFormat("cxcywh")],
    ):
        left = kept(ds, *chain, sanitize)
        area = kept(ds, *chain, ops.ClampBoundingBoxes(), sanitize)
        assert left == area and len(left) > 1500


def test_boxes_that_reach_beyond_the_image_are_left_out(tmp_path: Path) -> None:
    boxes = [[0, 0, 100, 100], [-0.01, 5, 20, 20], [5, -0.01, 20, 20], [80, 5, 100.01, 20], [5, 80, 20, 100.01]]
    assert kept(dataset(tmp_path / "a.leat", boxes), ops.SanitizeBoundingBoxes()) == [0]


@pytest.mark.parametrize(("form", "normalized"), FORMS)
@pytest.mark.parametrize("share", [0.0, 0.1, 0.3, 0.9, 1.0])
def test_min_visibility_is_the_share_that_cuts_leave_of_a_box(
    tmp_path: Path, form: str, normalized: bool, share: float
) -> None:
    corners = np.random.default_rng(1).uniform(0, 100, (500, 2, 2))
    boxes = np.concatenate([corners.min(1), corners.max(1)], 1).astype(F)
    ds = dataset(tmp_path / "a.leat", boxes, form, normalized)

    def wanted(left: float, top: float, right: float, bottom: float) -> list[int]:
        cut = boxes.clip([left, top] * 2, [right, bottom] * 2)
        sides = cut[:, 2:] - cut[:, :2]
        seen = sides.prod(1) / (boxes[:, 2:] - boxes[:, :2]).prod(1)
        assert (abs(seen - share) > 1e-4)[(seen > 0) & (seen < 0.9999)].all()  # no rounding decides
        return np.flatnonzero((sides >= 1).all(1) & (sides.prod(1) >= 1) & (seen >= share - 1e-4)).tolist()

    sanitize = ops.SanitizeBoundingBoxes(min_visibility=min(share, 0.9999))
    crop, again = ops.CenterCrop((80, 60)), ops.CenterCrop((50, 40))
    assert kept(ds, crop, sanitize) == wanted(20, 10, 80, 90)
    more = [ops.RandomHorizontalFlip(1.0), ops.RandomRotate90(0.0), ops.ClampBoundingBoxes(), again]
    assert kept(ds, crop, *more, sanitize) == wanted(30, 25, 70, 75)
    first = ops.SanitizeBoundingBoxes()
    assert kept(ds, crop, first, *more, ops.RandomApply([sanitize], 1.0)) == wanted(30, 25, 70, 75)


def test_what_was_left_of_a_box_is_known_behind_a_mosaic_and_a_turn(tmp_path: Path) -> None:
    boxes = np.array([[0, 0, 100, 100], [40, 40, 60, 60]], F)
    ds = dataset(tmp_path / "a.leat", np.tile(boxes, (4, 1)), copies=12)
    names = ("image", "boxes", "label")
    mosaic = [ops.Decode(), ops.Mosaic(64)]
    counts = []
    for share in (0.0, 0.5, 1.0):
        chain = [*mosaic, ops.SanitizeBoundingBoxes(min_visibility=share)]
        batch = leat.Loader(ds, 12, outputs={names: chain}, framework="numpy", seed=4).batch_at(0, 0)
        counts.append(sum(len(b) for b in batch["boxes"]))
        for shown in batch["boxes"]:
            sides = shown[:, 2:] - shown[:, :2]
            whole = np.where(sides.max(1) > 64 * 0.2 + 0.01, 64.0, 64 * 0.2)  # a small one is a fifth as wide
            assert share == 0.0 or (sides.prod(1) / whole**2 >= share - 1e-3).all()
    assert counts[0] > counts[1] > counts[2] > 0

    turn = ops.RandomRotation((45, 45))  # the corners of the largest box leave the image
    assert kept(ds, turn, ops.SanitizeBoundingBoxes(min_visibility=0.6)) == [1, 3, 5, 7]
    assert kept(ds, turn, ops.SanitizeBoundingBoxes(min_visibility=0.4)) == list(range(8))


def test_a_share_is_from_0_to_1() -> None:
    for wrong in (-0.1, 1.1):
        with pytest.raises(ValueError, match="min_visibility is a number from 0 to 1"):
            ops.SanitizeBoundingBoxes(min_visibility=wrong)
    assert ops.from_json({"type": "SanitizeBoundingBoxes"}) == ops.SanitizeBoundingBoxes()
