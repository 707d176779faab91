"""JPEGs of rare kinds: CMYK, two components, sampling factors that divide nothing, 12 bits, lossless."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from jpeg_made import lossless, with_dct
from photo_support import decode, decode_all, decode_by_3

import leat

Image: Any = pytest.importorskip("PIL.Image")
ADOBE_YCC, ADOBE_YCCK = 1, 2


def planes(count: int, size: tuple[int, int], most: int) -> list[Any]:
    """Smooth ones, as pictures are, with a little noise."""
    rng = np.random.default_rng(count * most)
    y, x = np.mgrid[: size[0], : size[1]]
    made = [np.sin(x / (3 + i) + i) + np.cos(y / (5 - i) - i) + rng.normal(0, 0.05, size) for i in range(count)]
    return [np.clip((m + 2.2) / 4.4 * most, 0, most).round().astype(np.uint16) for m in made]


def resampled(plane: Any, size: tuple[int, int], factor: tuple[int, int], most: tuple[int, int]) -> Any:
    """Linear between the centres of samples; `factor` and `most` are horizontal, vertical."""
    for axis in (0, 1):
        f, m, n = factor[1 - axis], most[1 - axis], size[axis]
        samples = -(-n * f // m)
        at = np.clip(((np.arange(n) + 0.5) * f / m - 0.5), 0, samples - 1)
        first = np.floor(at).astype(int)
        part = at - first
        part = part[:, None] if axis == 0 else part[None, :]
        after = np.minimum(first + 1, samples - 1)
        plane = np.take(plane, first, axis) * (1 - part) + np.take(plane, after, axis) * part
    return plane


FRACTIONAL = [
    [(3, 1), (2, 1), (1, 1)],
    [(1, 3), (1, 2), (1, 1)],
    [(2, 2), (3, 1), (1, 3)],
    [(4, 1), (3, 1), (1, 1)],
    [(2, 3), (1, 2), (1, 1)],
]


@pytest.mark.parametrize("sampling", FRACTIONAL)
@pytest.mark.parametrize("size", [(1, 1), (23, 37), (50, 16)])
def test_components_of_any_sampling_are_interpolated(sampling: list[tuple[int, int]], size: tuple[int, int]) -> None:
    most = (max(h for h, _ in sampling), max(v for _, v in sampling))
    parts = [p[: -(-size[0] * v // most[1]), : -(-size[1] * h // most[0])]
             for p, (h, v) in zip(planes(3, size, 255), sampling, strict=True)]  # fmt: skip
    data = with_dct(parts, sampling, size)
    want = np.stack([resampled(p, size, f, most) for p, f in zip(parts, sampling, strict=True)], 2)
    ours = decode(data)
    assert ours.shape == want.shape and np.abs(ours - want).max() <= 1.51
    assert np.array_equal(decode(data, strict=False), ours)
    y, x = (round((n - 1) / 2) for n in size)
    assert np.array_equal(decode(data, leat.ops.CenterCrop((1, 1))), ours[y : y + 1, x : x + 1])
    assert "damaged" in decode(data[: len(data) * 3 // 4])


def test_colours_of_any_sampling_are_those_of_common_ones() -> None:
    size, sampling = (40, 48), [(2, 1), (1, 1), (1, 1)]
    for adobe, count in ((ADOBE_YCC, 3), (ADOBE_YCCK, 4), (0, 4)):
        flat = [np.full(size, v, np.uint16) for v in (180, 90, 200, 220)[:count]]
        common = decode(with_dct(flat, (sampling + [(2, 1)])[:count], size, adobe=adobe))
        rare = decode(with_dct(flat, ([(3, 1), (2, 1), (2, 1), (3, 1)])[:count], size, adobe=adobe))
        assert np.array_equal(common, rare), (adobe, count)


def test_cmyk_and_ycck_are_those_of_pillow() -> None:
    pixels = np.stack([p.astype(np.uint8) for p in planes(4, (33, 41), 255)], 2)
    for subsampling in (0, 1, 2):
        out = io.BytesIO()
        Image.fromarray(pixels, "CMYK").save(out, "JPEG", subsampling=subsampling, quality=90)
        data = out.getvalue()
        for mode in ("RGB", "GRAY"):
            theirs = np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))
            if mode == "GRAY":
                theirs = np.asarray(Image.fromarray(theirs).convert("L"))[..., None]
            assert np.array_equal(decode(data, mode=mode), theirs), (subsampling, mode)
    ycck = with_dct(list(np.moveaxis(pixels, 2, 0)), [(2, 2), (1, 1), (1, 1), (2, 2)], (33, 41), adobe=ADOBE_YCCK)
    assert np.array_equal(decode(ycck), np.asarray(Image.open(io.BytesIO(ycck)).convert("RGB")))


def test_of_two_components_the_first_is_the_brightness() -> None:
    first, second = planes(2, (20, 30), 255)
    ours = decode(with_dct([first, second], [(1, 1), (1, 1)], (20, 30)))
    assert np.abs(ours - first[..., None].astype(int)).max() <= 1


# ---- what libjpeg-turbo 3 reads --------------------------------------------------------------


def scaled(v: Any, bits: int, full: int = 255) -> Any:
    most = (1 << bits) - 1
    return (v.astype(np.int64) * full * 2 + most) // (2 * most)


def test_twelve_bits() -> None:
    size = (30, 43)
    gray, *colours = planes(4, size, 4095)
    photos = [with_dct([gray], [(1, 1)], size, 12), with_dct(colours, [(1, 1)] * 3, size, 12)]
    wants = [np.repeat(gray[..., None], 3, 2), np.stack(colours, 2)]
    for narrow, wide, want in zip(decode_by_3(photos), decode_by_3(photos, dtype="uint16"), wants, strict=True):
        assert narrow.dtype == np.uint8 and np.abs(narrow - scaled(want, 12)).max() <= 1
        assert wide.dtype == np.uint16 and np.abs(wide - scaled(want, 12, 65535)).max() <= 33  # two of 4095
        assert np.array_equal(narrow, scaled(np.rint(wide * (4095 / 65535)), 12))
    flat = with_dct([np.full(size, v) for v in (2000, 1500, 3000)], [(2, 2), (1, 1), (1, 1)], size, 12, ADOBE_YCC)
    (ycc,) = decode_by_3([flat], dtype="uint16")
    want = [2000 + 1.402 * 952, 2000 - 0.344136 * -548 - 0.714136 * 952, 2000 + 1.772 * -548]
    assert np.abs(ycc / 65535 * 4095 - want).max() < 2
    assert decode_by_3([photos[0], photos[1][:-900]])[1].startswith("JPEG: ")


def test_lossless() -> None:
    size = (13, 17)
    cases = [(8, 3, 1), (8, 1, 2), (12, 1, 3), (16, 1, 4), (16, 3, 5), (5, 3, 6), (8, 3, 7)]
    pixels = [np.stack(planes(count, size, (1 << bits) - 1), 2) for bits, count, _ in cases]
    photos = [lossless(p, bits, predictor) for p, (bits, _, predictor) in zip(pixels, cases, strict=True)]
    for wide in (False, True):
        found = decode_by_3(photos, dtype="uint16" if wide else "uint8")
        for case, ours, want in zip(cases, found, pixels, strict=True):
            bits = case[0]
            full = scaled(want, bits, 65535) if wide and bits > 8 else scaled(want, bits) * (257 if wide else 1)
            assert np.array_equal(ours, np.broadcast_to(full, (*size, 3))), case


def test_lossless_photos_of_others_are_their_pngs(data_dir: Path) -> None:
    folder = data_dir / "odd-images" / "jpeg-rs-reftest" / "lossless"
    photos = sorted(folder.rglob("*.jpg"))
    if not photos:
        pytest.skip(f"no photos in {folder}")
    found = decode_by_3([p.read_bytes() for p in photos], dtype="uint16")
    for path, ours in zip(photos, found, strict=True):
        data = path.read_bytes()
        bits = data[data.index(b"\xff\xc3") + 4]
        numbers = decode(path.with_suffix(".png").read_bytes(), dtype="uint16")
        assert np.array_equal(ours, scaled(numbers, bits, 65535)), path


def test_a_part_of_a_rare_photo_and_packing(tmp_path: Path) -> None:
    size = (40, 40)
    pixels = np.stack(planes(3, size, 255), 2)
    photos = [lossless(pixels, 8), with_dct(list(np.moveaxis(pixels, 2, 0)), FRACTIONAL[0], size)]
    assert np.array_equal(decode_by_3(photos, strict=False)[0], pixels)
    with leat.Writer(tmp_path / "fast.leat", {"image": "image"}, photos="fast") as w:
        w.add(image=photos[1])
    ds = leat.open(tmp_path / "fast.leat")
    assert ds[0]["image"] == photos[1]
    row = leat.Loader(ds, 1, outputs={"image": leat.ops.Decode()}, framework="numpy").batch_at(0, 0)
    assert np.array_equal(row["image"][0], np.moveaxis(decode(photos[1]), 2, 0))


def test_without_libjpeg_turbo_3_the_error_names_it() -> None:
    (twelve,), (eight,) = planes(1, (8, 8), 4095), planes(1, (4, 4), 255)
    photos = [with_dct([twelve], [(1, 1)], (8, 8), 12), lossless(eight[..., None], 8)]
    for found, want in zip(decode_all(photos), (scaled(twelve, 12), eight), strict=True):
        if isinstance(found, str):
            assert "libjpeg-turbo 3" in found
        else:
            assert np.abs(found - want[..., None].astype(int)).max() <= 1
