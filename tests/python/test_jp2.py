"""JPEG 2000, against Pillow, which writes and reads it by an OpenJPEG of its own."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from jp2_made import SIGNED, YCC, box, contained, save
from photo_support import decode, decode_all, folder_and_pack, noise

import leat

Image: Any = pytest.importorskip("PIL.Image")
if not pytest.importorskip("PIL.features").check("jpg_2000"):
    pytest.skip("this Pillow does not write JPEG 2000", allow_module_level=True)


def pillow(data: bytes, mode: str) -> Any:
    return np.asarray(Image.open(io.BytesIO(data)).convert(mode)).astype(int)


@pytest.mark.parametrize("size", [(1, 1), (37, 50), (70, 40)])
@pytest.mark.parametrize("stored", ["L", "LA", "RGB", "RGBA"])
def test_pixels_are_those_of_pillow(stored: str, size: tuple[int, int]) -> None:
    image = Image.fromarray(noise(*size, 4), "RGBA").convert(stored)
    for options in ({}, {"no_jp2": True}, {"irreversible": True}, {"tile_size": (32, 32)}, {"num_resolutions": 1}):
        data = save(image, **options)
        for mode in ("RGB", "RGBA"):
            assert np.abs(decode(data, mode=mode) - pillow(data, mode)).max() <= 1, (mode, options)
        assert np.abs(decode(data, mode="GRAY")[..., 0] - pillow(data, "L")).max() <= 1
        assert np.array_equal(decode(data, strict=False), decode(data))
    data = save(image)
    y, x = (round((n - 1) / 2) for n in size)
    assert np.array_equal(decode(data, leat.ops.CenterCrop((1, 1))), decode(data)[y : y + 1, x : x + 1])


def test_sixteen_bits() -> None:
    pixels = noise(20, 30, dtype=np.uint16)
    data = save(pixels)
    assert np.array_equal(decode(data, dtype="uint16"), np.repeat(pixels[..., None], 3, 2))
    assert np.array_equal(decode(data)[..., 0], (pixels.astype(int) * 255 * 2 + 65535) // (2 * 65535))
    narrow = noise(9, 9)
    assert np.array_equal(decode(save(narrow), dtype="uint16", mode="GRAY")[..., 0], narrow.astype(np.uint16) * 257)


def test_small_components_in_ycc_and_signed_samples() -> None:
    assert np.abs(decode(YCC) - pillow(YCC, "RGB")).max() <= 1
    y, x = np.mgrid[:12, :16]
    assert np.array_equal(decode(SIGNED, mode="GRAY")[..., 0], (x * 7 - 50) + 128)
    assert np.array_equal(decode(SIGNED), pillow(SIGNED, "RGB"))


def test_a_palette() -> None:
    index, colours = noise(20, 30) % 50, noise(50, 3)
    columns = b"".join(b"\0\0\1" + bytes([c]) for c in range(3))
    palette = box(b"pclr", b"\0\x32\3\7\7\7", colours.tobytes()), box(b"cmap", columns)
    assert np.array_equal(decode(contained(index[..., None], 16, *palette)), colours[index])


def test_cmyk() -> None:
    inks = noise(20, 30, 4)
    data = contained(inks, 12)
    want = (255 - inks[..., :3].astype(int)) * (255 - inks[..., 3:].astype(int)) / 255
    assert np.abs(decode(data) - want).max() <= 0.51
    if Image.open(io.BytesIO(data)).mode == "CMYK":  # from Pillow 11 on
        assert np.abs(decode(data) - pillow(data, "RGB")).max() <= 1


def test_damage_and_bombs_are_errors() -> None:
    data = save(noise(64, 64, 3))
    found = decode_all([data[:n] for n in range(40, len(data) - 1, len(data) // 30)])
    assert all(isinstance(w, str) and w.startswith("JPEG 2000: ") for w in found)
    at = data.index(b"\xff\x4f\xff\x51") + 8
    for width, height in ((60000, 60000), (0, 8), (1 << 31, 1), (16000, 16000)):
        words = decode(data[:at] + width.to_bytes(4, "big") + height.to_bytes(4, "big") + data[at + 8 :])
        assert isinstance(words, str) and words.startswith("JPEG 2000: "), words
    tiles = data[: at + 16] + (1).to_bytes(4, "big") * 2 + data[at + 24 :]  # each of one pixel
    assert "the file ends" in decode(tiles)
    assert "frame 1" in decode(data, frame=1)


def test_folders_and_packing_take_it(tmp_path: Path) -> None:
    folder_and_pack(save(noise(20, 30, 4)), "jp2", [30, 20, 4, 12], tmp_path)
    with leat.Writer(tmp_path / "deep.leat", {"image": "image"}, photos="raw") as w:
        w.add(image=save(noise(20, 30, dtype=np.uint16)))
    assert leat.open(tmp_path / "deep.leat")[0]["image"] == save(noise(20, 30, dtype=np.uint16))
