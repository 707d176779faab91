"""JPEG XL, against what was encoded: exactly if without loss, closely if with it."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
from jxl_made import encode
from photo_support import decode, decode_all, folder_and_pack, noise

import leat


@pytest.mark.parametrize("container", [False, True])
@pytest.mark.parametrize("channels", [1, 2, 3, 4])
def test_lossless_pixels_come_back(channels: int, container: bool) -> None:
    for size in ((1, 1), (37, 50), (300, 20)):
        pixels = noise(*size, channels)
        data = encode([pixels], container=container)
        colours = np.repeat(pixels[..., :1], 3, 2) if channels < 3 else pixels[..., :3]
        alpha = pixels[..., -1:] if channels in (2, 4) else np.full((*size, 1), 255, np.uint8)
        assert np.array_equal(decode(data), colours)
        assert np.array_equal(decode(data, mode="RGBA"), np.concatenate([colours, alpha], 2))
        assert np.array_equal(decode(data, strict=False), colours)
        assert np.array_equal(decode(data, dtype="uint16"), colours.astype(np.uint16) * 257)
        y, x = (round((n - 1) / 2) for n in size)
        assert np.array_equal(decode(data, leat.ops.CenterCrop((1, 1))), colours[y : y + 1, x : x + 1])
        if channels < 3:
            assert np.array_equal(decode(data, mode="GRAY"), pixels[..., :1])


def test_lossy_pixels_are_close() -> None:
    y, x = np.mgrid[:64, :80]
    pixels = np.stack([np.sin(x / 9) * 90 + 128, np.cos(y / 7) * 90 + 128, x + y], 2).astype(np.uint8)
    assert np.abs(decode(encode([pixels], lossless=False)) - pixels.astype(int)).mean() < 3


def test_lossy_pixels_with_a_profile_are_srgb() -> None:
    cms = pytest.importorskip("PIL.ImageCms")
    image = pytest.importorskip("PIL.Image")
    profile = bytearray(cms.ImageCmsProfile(cms.createProfile("sRGB")).tobytes())
    at = profile.index(b"para") + 12  # the exponent of the curve, 2.4
    profile[at : at + 4] = int(1.7 * 65536).to_bytes(4, "big")
    y, x = np.mgrid[:64, :80]
    pixels = np.stack([np.sin(x / 9) * 90 + 128, np.cos(y / 7) * 90 + 128, x + y], 2).astype(np.uint8)
    theirs = cms.ImageCmsProfile(io.BytesIO(bytes(profile)))
    srgb = cms.profileToProfile(image.fromarray(pixels), theirs, cms.createProfile("sRGB"))
    for mode in ("RGB", "RGBA"):
        ours = decode(encode([pixels], lossless=False, profile=bytes(profile)), mode=mode)
        assert np.abs(ours[..., :3] - np.asarray(srgb).astype(int)).mean() < 4
    # without loss they are as they were stored: profiles are not applied
    assert np.array_equal(decode(encode([pixels], profile=bytes(profile))), pixels)


def test_sixteen_bits() -> None:
    for channels in (1, 3, 4):
        pixels = noise(20, 30, channels, dtype=np.uint16)
        want = pixels[..., :3] if channels > 1 else np.repeat(pixels, 3, 2)
        data = encode([pixels], bits=16)
        assert np.array_equal(decode(data, dtype="uint16"), want)
        assert np.abs(decode(data) - want / 257).max() <= 0.51


@pytest.mark.parametrize("orientation", range(1, 9))
def test_the_orientation_is_undone_on_request(orientation: int, tmp_path: Path) -> None:
    pixels = noise(20, 30, 3)
    data = encode([pixels], orientation=orientation)
    stored = decode(data)
    assert stored.shape == pixels.shape
    turned = np.swapaxes(stored, 0, 1) if orientation > 4 else stored
    turned = turned[:, ::-1] if orientation in (2, 3, 6, 7) else turned
    turned = turned[::-1] if orientation in (3, 4, 7, 8) else turned
    with leat.Writer(tmp_path / "one.leat", {"image": "image"}) as w:
        w.add(image=data)
    chain = [leat.ops.Decode(exif=True), leat.ops.CenterCrop(turned.shape[:2]), leat.ops.ToLayout("NHWC")]
    row = leat.Loader(leat.open(tmp_path / "one.leat"), 1, outputs={"image": chain}, framework="numpy").batch_at(0, 0)
    assert np.array_equal(row["image"][0], turned)
    assert np.array_equal(stored, pixels)


def test_frames_of_an_animation() -> None:
    frames = [noise(20, 30, 3) // (i + 1) for i in range(4)]
    data = encode(frames)
    for i, want in enumerate(frames):
        assert np.array_equal(decode(data, frame=i), want), i
    assert "there is no frame 4" in decode(data, frame=4)
    assert "it has 1 image: there is no frame 1" in decode(encode(frames[:1]), frame=1)
    assert isinstance(decode(data[:-40]), str)  # also what stands behind the first frame is looked at


def test_damage_is_an_error() -> None:
    data = encode([noise(64, 64, 3)])
    assert all(isinstance(w, str) and w.startswith("JPEG XL: ") for w in
               decode_all([data[:n] for n in range(4, len(data) - 1, len(data) // 30)]))  # fmt: skip


def test_folders_and_packing_take_it(tmp_path: Path) -> None:
    folder_and_pack(encode([noise(20, 30, 4)]), "jxl", [30, 20, 4, 11], tmp_path)
