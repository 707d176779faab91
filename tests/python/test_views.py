"""FiveCrop and TenCrop: several images of one."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import leat
from leat import ops

Array = np.ndarray[Any, Any]
N, H, W = 9, 14, 21


def pixels_of(i: int) -> Array:
    rng = np.random.default_rng(i)
    return rng.integers(0, 256, (int(rng.integers(H, 60)), int(rng.integers(W, 60)), 3), dtype=np.uint8)


def crops(image: Array) -> list[Array]:
    h, w = image.shape[:2]
    top, left = round((h - H) / 2.0), round((w - W) / 2.0)
    places = [(0, 0), (0, w - W), (h - H, 0), (h - H, w - W), (top, left)]
    return [image[y : y + H, x : x + W] for y, x in places]


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> leat.Dataset:
    path = tmp_path_factory.mktemp("views") / "v.leat"
    with leat.Writer(path, {"image": "image", "label": "int64", "boxes": leat.boxes("xyxy")}) as w:
        for i in range(N):
            out = io.BytesIO()
            Image.fromarray(pixels_of(i)).save(out, "PNG")
            w.add(image=out.getvalue(), label=i, boxes=np.array([[0, 0, 5, 5]], np.float32))
    return leat.open(path)


def loader(photos: leat.Dataset, *chain: Any, **more: Any) -> leat.Loader:
    return leat.Loader(photos, 4, outputs={"image": list(chain), "label": []}, framework="numpy", **more)


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_five_crops_are_the_corners_and_the_middle(photos: leat.Dataset, layout: str) -> None:
    for batch in loader(photos, ops.Decode(), ops.FiveCrop((H, W)), ops.ToLayout(layout)):
        assert batch["image"].shape == ((batch.size, 5, 3, H, W) if layout == "NCHW" else (batch.size, 5, H, W, 3))
        for views, i in zip(batch["image"], batch.ids.tolist(), strict=True):
            want = np.stack(crops(pixels_of(i)))
            np.testing.assert_array_equal(views, want.transpose(0, 3, 1, 2) if layout == "NCHW" else want)


@pytest.mark.parametrize("vertical", [False, True])
def test_ten_crops_are_also_those_of_the_mirror_image(photos: leat.Dataset, vertical: bool) -> None:
    for batch in loader(photos, ops.Decode(), ops.TenCrop((H, W), vertical)):
        for views, i in zip(batch["image"], batch.ids.tolist(), strict=True):
            image = pixels_of(i)
            mirrored = image[::-1] if vertical else image[:, ::-1]
            want = np.stack([*crops(image), *crops(mirrored)]).transpose(0, 3, 1, 2)
            np.testing.assert_array_equal(views, want)


def test_operators_behind_work_on_each_and_those_before_on_the_image(photos: leat.Dataset) -> None:
    chain = [
        ops.Decode(),
        ops.RandomHorizontalFlip(1.0),
        ops.FiveCrop((H, W)),
        ops.Grayscale(3),
        ops.ToDtype("float32"),
    ]
    plain = [
        ops.Decode(),
        ops.RandomHorizontalFlip(1.0),
        ops.Grayscale(3),
        ops.FiveCrop((H, W)),
        ops.ToDtype("float32"),
    ]
    for a, b in zip(loader(photos, *chain), loader(photos, *plain, num_threads=1), strict=True):
        assert a["image"].dtype == np.float32 and a["image"].shape == (a.size, 5, 3, H, W)
        np.testing.assert_array_equal(a["image"], b["image"])
        assert a["label"].tolist() == a.ids.tolist()


def test_stored_images(tmp_path: Path) -> None:
    arrays = np.random.default_rng(0).integers(0, 1000, (6, 3, 20, 30)).astype(np.int16)
    with leat.Writer(tmp_path / "a.leat", {"x": leat.field("int16", (3, 20, 30), layout="CHW")}) as w:
        for a in arrays:
            w.add(x=a)
    for batch in leat.Loader(
        leat.open(tmp_path / "a.leat"), 3, outputs={"x": [ops.FiveCrop((H, W))]}, framework="numpy"
    ):
        for views, i in zip(batch["x"], batch.ids.tolist(), strict=True):
            want = np.stack(crops(arrays[i].transpose(1, 2, 0))).transpose(0, 3, 1, 2)
            np.testing.assert_array_equal(views, want)


def test_a_photo_that_is_too_small_is_a_broken_sample(photos: leat.Dataset) -> None:
    with pytest.raises(leat.BrokenSampleError, match="smaller than its crops"):
        list(loader(photos, ops.Decode(), ops.FiveCrop(50)))
    kept = [i for b in loader(photos, ops.Decode(), ops.FiveCrop(30), on_error="skip") for i in b.ids.tolist()]
    assert kept == [i for i in range(N) if min(pixels_of(i).shape[:2]) >= 30]


@pytest.mark.parametrize(
    ("chain", "names", "why"),
    [
        ([ops.Decode(), ops.FiveCrop(8)], ("image", "boxes"), "images alone"),
        ([ops.Decode(), ops.FiveCrop(8), ops.TenCrop(4)], ("image", "label"), "stands behind"),
        ([ops.Decode(), ops.FiveCrop(8), ops.CutMix(num_classes=9)], ("image", "label"), "one image of each row"),
    ],
)
def test_what_does_not_fit_says_why(photos: leat.Dataset, chain: Any, names: Any, why: str) -> None:
    with pytest.raises(TypeError, match=why):
        leat.Loader(photos, 4, outputs={names: chain})
