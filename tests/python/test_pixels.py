"""Pixels against Pillow, on photos that are made and on real ones."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import leat

Image: Any = pytest.importorskip("PIL.Image")


def resized(path: Path, size: tuple[int, int]) -> list[Any]:
    outputs = {"image": [leat.ops.Decode(), leat.ops.Resize(size), leat.ops.ToLayout("NHWC")]}
    return [
        row for batch in leat.Loader(leat.open(path), 16, outputs=outputs, framework="numpy") for row in batch["image"]
    ]


def pillow(data: bytes, size: tuple[int, int]) -> Any:
    return np.asarray(Image.open(io.BytesIO(data)).convert("RGB").resize((size[1], size[0]), Image.Resampling.BILINEAR))


def pack(path: Path, data: list[bytes]) -> Path:
    with leat.Writer(path, {"image": "image"}) as w:
        for d in data:
            w.add(image=d)
    return path


def worst(path: Path, data: list[bytes], size: tuple[int, int]) -> int:
    pairs = zip(resized(path, size), data, strict=True)
    return max(int(np.abs(ours.astype(int) - pillow(d, size)).max()) for ours, d in pairs)


@pytest.mark.parametrize("size", [(32, 48), (200, 100), (7, 333)])
def test_decode_and_resize_are_within_1_of_pillow(
    tmp_path: Path, jpeg: Callable[..., bytes], size: tuple[int, int]
) -> None:
    data = [
        jpeg(90 + 7 * i, 120 - 5 * i, i, mode, quality=92, subsampling=s)
        for i, (mode, s) in enumerate([("RGB", 0), ("RGB", 1), ("RGB", 2), ("L", 0)] * 2)
    ]
    assert worst(pack(tmp_path / "a.leat", data), data, size) <= 1


@pytest.mark.parametrize("kind", ["PNG", "WEBP"])
def test_lossless_formats_decode_to_the_pixels_of_pillow(tmp_path: Path, kind: str) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (37, 53, 3), np.uint8)
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, kind, **({"lossless": True} if kind == "WEBP" else {}))
    outputs = {"image": [leat.ops.Decode(), leat.ops.CenterCrop((37, 53)), leat.ops.ToLayout("NHWC")]}
    (batch,) = leat.Loader(
        leat.open(pack(tmp_path / "a.leat", [out.getvalue()])), 1, outputs=outputs, framework="numpy"
    )
    assert np.array_equal(batch["image"][0], pixels)


def test_decode_and_resize_of_real_photos_are_within_1_of_pillow(tmp_path: Path, data_dir: Path) -> None:
    files = sorted(p for p in (data_dir / "imagenet").iterdir() if p.suffix.lower() in (".jpg", ".jpeg"))[::12]
    data = [p.read_bytes() for p in files]
    assert len(data) > 20 and worst(pack(tmp_path / "a.leat", data), data, (224, 224)) <= 1


def test_a_random_resized_crop_is_a_crop_and_a_resize(photos: Path) -> None:
    """A crop of the whole image (scale and ratio pin it) equals a plain resize."""
    ds = leat.open(photos)
    for i in (0, 7, 23):
        data = ds[i]["image"]
        w, h = Image.open(io.BytesIO(data)).size
        crop = leat.ops.RandomResizedCrop((40, 30), scale=(1, 1), ratio=(w / h, w / h))
        outputs = {
            "a": leat.Out("image", [leat.ops.Decode(), crop]),
            "b": leat.Out("image", [leat.ops.Decode(), leat.ops.Resize((40, 30))]),
        }
        (batch,) = leat.Loader(ds[i : i + 1], 1, outputs=outputs, framework="numpy")
        assert np.array_equal(batch["a"], batch["b"])


def test_normalize_counts_pixels_as_0_to_1(photos: Path) -> None:
    mean, std = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
    chain = [leat.ops.Decode(), leat.ops.Resize((20, 20))]
    outputs = {"a": leat.Out("image", chain), "b": leat.Out("image", [*chain, leat.ops.Normalize(mean, std)])}
    (batch,) = leat.Loader(leat.open(photos), 24, outputs=outputs, framework="numpy")
    want = (batch["a"].astype(np.float64) / 255 - np.reshape(mean, (3, 1, 1))) / np.reshape(std, (3, 1, 1))
    assert batch["b"].dtype == np.float32 and np.abs(batch["b"] - want).max() < 1e-5


def test_a_flip_mirrors_and_happens_half_of_the_time(tmp_path: Path) -> None:
    pixels = np.arange(400 * 2 * 3, dtype=np.uint8).reshape(1, 2, -1, 3)[:, :, :4].repeat(400, 0)
    path = tmp_path / "a.leat"
    with leat.Writer(path, {"image": leat.field("uint8", (2, 4, 3), layout="HWC")}) as w:
        w.write_batch({"image": pixels})
    outputs = {"image": [leat.ops.RandomHorizontalFlip(), leat.ops.ToLayout("NHWC")]}
    (batch,) = leat.Loader(leat.open(path), 400, outputs=outputs, framework="numpy")
    flipped = [np.array_equal(row, pixels[0, :, ::-1]) for row in batch["image"]]
    plain = [np.array_equal(row, pixels[0]) for row in batch["image"]]
    assert all(f != p for f, p in zip(flipped, plain, strict=True)) and 140 < sum(flipped) < 260


def test_random_crops_reach_every_place_and_nothing_else(tmp_path: Path) -> None:
    image = np.arange(25, dtype=np.uint8).reshape(1, 5, 5, 1).repeat(300, 0)
    path = tmp_path / "a.leat"
    with leat.Writer(path, {"image": leat.field("uint8", (5, 5, 1), layout="HWC")}) as w:
        w.write_batch({"image": image})
    (batch,) = leat.Loader(leat.open(path), 300, outputs={"image": [leat.ops.RandomCrop(3)]}, framework="numpy")
    corners = {int(row[0, 0, 0]) for row in batch["image"]}
    assert corners == {5 * y + x for y in range(3) for x in range(3)}
    assert all(np.array_equal(row[0] - row[0, 0, 0], image[0, :3, :3, 0]) for row in batch["image"])
