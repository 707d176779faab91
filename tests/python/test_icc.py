"""Decode(icc="srgb"): the colours of Pillow's ImageCms.profileToProfile."""

from __future__ import annotations

import ctypes
import io
import struct
import zlib
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from jp2_made import box, contained
from jpeg_made import lossless, segment, with_dct
from jxl_made import encode
from photo_support import decode, decode_all, decode_by_3
from tiff_made import tiff

import leat

Image: Any = pytest.importorskip("PIL.Image")
ImageCms: Any = pytest.importorskip("PIL.ImageCms")
try:
    ctypes.CDLL("liblcms2.so.2")
except OSError:
    pytest.skip("no liblcms2.so.2 on this machine", allow_module_level=True)


def fixed(v: float) -> bytes:
    return struct.pack(">i", round(v * 65536))


def profile(space: bytes, tags: dict[bytes, bytes], pcs: bytes = b"XYZ ", kind: bytes = b"mntr") -> bytes:
    """A profile of version 2 with these tags, and those that each has."""
    text = b"made by hand\0"
    tags = {
        b"desc": b"desc" + bytes(4) + struct.pack(">I", len(text)) + text + bytes(78),
        b"cprt": b"text" + bytes(4) + text,
        b"wtpt": b"XYZ " + bytes(4) + fixed(0.9642) + fixed(1.0) + fixed(0.8249),
        **tags,
    }
    at, table, body = 128 + 4 + 12 * len(tags), b"", b""
    for name, value in tags.items():
        table += name + struct.pack(">II", at + len(body), len(value))
        body += value + bytes(-len(value) % 4)
    head = struct.pack(">I4sI4s4s4s", at + len(body), b"lcms", 0x02400000, kind, space, pcs)
    head += struct.pack(">6H", 2024, 1, 1, 0, 0, 0) + b"acsp" + bytes(28) + fixed(0.9642) + fixed(1.0) + fixed(0.8249)
    return head.ljust(128, b"\0") + struct.pack(">I", len(tags)) + table + body


def gamma(value: float) -> bytes:
    return b"curv" + bytes(4) + struct.pack(">IH", 1, round(value * 256))


def xyz(*v: float) -> bytes:
    return b"XYZ " + bytes(4) + b"".join(map(fixed, v))


def ink_table() -> bytes:
    """Four inks to Lab by a table of two points along each."""
    grid = bytearray()
    for i in range(16):
        c, m, y, k = (i >> s & 1 for s in (3, 2, 1, 0))
        grid += bytes([int(250 * (1 - 0.3 * c) * (1 - 0.4 * m) * (1 - 0.1 * y) * (1 - 0.9 * k))])
        grid += bytes([128 + (70 * m - 40 * c) * (1 - k), 128 + (90 * y - 40 * c) * (1 - k)])
    ramp = bytes(range(256))
    one = [fixed(v) for v in (1, 0, 0, 0, 1, 0, 0, 0, 1)]
    return b"mft1" + bytes(4) + bytes([4, 3, 2, 0]) + b"".join(one) + 4 * ramp + bytes(grid) + 3 * ramp


SRGB = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
WIDE = profile(
    b"RGB ",
    {
        b"rXYZ": xyz(0.6097, 0.3111, 0.0195),
        b"gXYZ": xyz(0.2053, 0.6257, 0.0609),
        b"bXYZ": xyz(0.1492, 0.0632, 0.7446),
        b"rTRC": gamma(1.8),
        b"gTRC": gamma(2.2),
        b"bTRC": gamma(2.5),
    },
)
GRAY = profile(b"GRAY", {b"kTRC": gamma(1.2)})
INKS = profile(b"CMYK", {b"A2B0": ink_table()}, b"Lab ", b"prtr")


def smooth(height: int, width: int, channels: int = 3) -> Any:
    y, x = np.mgrid[:height, :width]
    planes = [x * 255 // width, y * 255 // height, (x + y) * 255 // (height + width), (x * y) % 256]
    return np.stack(planes[:channels], 2).astype(np.uint8)


def save(image: Any, kind: str, icc: bytes | None, **options: Any) -> bytes:
    out = io.BytesIO()
    image.save(out, kind, icc_profile=icc, **options)
    return out.getvalue()


def wanted(data: bytes) -> Any:
    image = Image.open(io.BytesIO(data))
    source = ImageCms.ImageCmsProfile(io.BytesIO(image.info["icc_profile"]))
    target = ImageCms.createProfile("sRGB")
    converted = ImageCms.profileToProfile(image, source, target, outputMode="RGB")
    return np.asarray(converted).astype(int)


KINDS: dict[str, dict[str, Any]] = {
    "JPEG": {"quality": 95},
    "PNG": {},
    "WEBP": {"lossless": True},
    "TIFF": {"compression": "tiff_lzw"},
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("icc", [SRGB, WIDE], ids=["srgb", "wide"])
def test_colours_are_those_of_pillow(kind: str, icc: bytes) -> None:
    data = save(Image.fromarray(smooth(30, 40)), kind, icc, **KINDS[kind])
    ours = decode(data, icc="srgb").astype(int)
    assert np.abs(ours - wanted(data)).max() <= 1
    if icc is WIDE:
        assert np.abs(ours - decode(data)).max() > 10
    assert np.abs(decode(data, mode="GRAY", icc="srgb")[..., 0] - (wanted(data) @ [0.299, 0.587, 0.114])).max() <= 1.5
    assert np.array_equal(decode(data, leat.ops.CenterCrop((10, 20)), icc="srgb"), ours[10:20, 10:30])


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "TIFF"])
def test_gray(kind: str) -> None:
    data = save(Image.fromarray(smooth(30, 40, 1)[..., 0]), kind, GRAY, **KINDS[kind])
    want = wanted(data)
    assert np.abs(decode(data, icc="srgb").astype(int) - want).max() <= 1
    assert np.abs(decode(data, mode="GRAY", icc="srgb").astype(int) - want[..., :1]).max() <= 1
    as_colours = save(Image.fromarray(smooth(30, 40, 1)[..., 0]), kind, WIDE, **KINDS[kind])
    same = save(Image.fromarray(decode(as_colours)), "PNG", WIDE)
    assert np.array_equal(decode(as_colours, icc="srgb"), decode(same, icc="srgb"))


@pytest.mark.parametrize("kind", ["JPEG", "TIFF", "tiled TIFF"])
def test_inks(kind: str) -> None:
    pixels = smooth(30, 40, 4)
    if kind == "tiled TIFF":
        data = tiff(pixels, photometric=5, tile=(16, 32), more={34675: (7, list(INKS))})
    else:
        data = save(Image.fromarray(pixels, "CMYK"), kind, INKS, **KINDS[kind])
    assert np.abs(decode(data, icc="srgb").astype(int) - wanted(data)).max() <= 1
    assert np.abs(decode(data, icc="srgb").astype(int) - decode(data)).max() > 10


def test_inks_of_a_progressive_photo() -> None:
    data = save(Image.fromarray(smooth(30, 40, 4), "CMYK"), "JPEG", INKS, progressive=True)
    assert np.abs(decode(data, icc="srgb").astype(int) - wanted(data)).max() <= 1


def with_profile(jpeg: bytes, icc: bytes) -> bytes:
    return jpeg[:2] + segment(0xE2, b"ICC_PROFILE\0\1\1" + icc) + jpeg[2:]


def test_inks_of_rare_jpegs() -> None:
    """Sampling that divides nothing, lossless, 12 bits: each as the same pixels stored in a common way."""
    flat = [np.full((40, 48), v, np.uint16) for v in (180, 90, 200, 220)]
    for adobe in (0, 2):  # CMYK, YCCK
        common, rare = (
            decode(with_profile(with_dct(flat, sampling, (40, 48), adobe=adobe), INKS), icc="srgb")
            for sampling in ([(2, 1), (1, 1), (1, 1), (2, 1)], [(3, 1), (2, 1), (2, 1), (3, 1)])
        )
        assert np.array_equal(common, rare), adobe
    pixels = smooth(30, 40, 4)
    want = decode(save(Image.fromarray(pixels, "CMYK"), "TIFF", INKS), icc="srgb").astype(int)
    inverted = 255 - pixels.astype(np.uint16)  # as JPEG stores them
    deep = list(np.moveaxis(np.rint(inverted * (4095 / 255)).astype(np.uint16), 2, 0))
    photos = [with_profile(p, INKS) for p in (lossless(inverted, 8), with_dct(deep, [(1, 1)] * 4, (30, 40), 12))]
    exact, near = decode_by_3(photos, icc="srgb")
    assert np.array_equal(exact, want)
    assert np.abs(near - want).max() <= 2
    wide = decode_by_3(photos[1:], icc="srgb", dtype="uint16")[0]
    assert np.abs(wide / 257 - want).mean() < 0.5  # Little CMS alone makes up to 6 of it, of white


def test_transparency_is_kept_and_blended_behind() -> None:
    pixels = smooth(30, 40, 4)
    data = save(Image.fromarray(pixels), "PNG", WIDE)
    opaque = wanted(save(Image.fromarray(pixels[..., :3]), "PNG", WIDE))
    ours = decode(data, mode="RGBA", icc="srgb")
    assert np.array_equal(ours[..., 3], pixels[..., 3]) and np.abs(ours[..., :3].astype(int) - opaque).max() <= 1
    blended = decode(data, icc="srgb", alpha="blend", background=(10, 20, 30))
    a = pixels[..., 3:] / 255
    assert np.abs(blended - (opaque * a + np.array([10, 20, 30]) * (1 - a))).max() <= 2


def test_sixteen_bits() -> None:
    pixels = smooth(30, 40).astype(np.uint16) * 257
    rows = b"".join(b"\0" + row.astype(">u2").tobytes() for row in pixels)

    def chunk(name: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))

    head = chunk(b"IHDR", struct.pack(">IIBBBBB", 40, 30, 16, 2, 0, 0, 0))
    icc = chunk(b"iCCP", b"x\0\0" + zlib.compress(WIDE))
    data = b"\x89PNG\r\n\x1a\n" + head + icc + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    ours = decode(data, icc="srgb", dtype="uint16").astype(int)
    want = wanted(save(Image.fromarray(smooth(30, 40)), "PNG", WIDE))
    assert np.abs(ours / 257 - want).max() <= 1.5
    narrow = decode(save(Image.fromarray(smooth(30, 40)), "PNG", WIDE), icc="srgb", dtype="uint16")
    assert np.array_equal(narrow, want * 257) or np.abs(narrow / 257 - want).max() <= 1


def test_the_fast_form_has_the_same_colours_and_pixels_have_lost_them(tmp_path: Path) -> None:
    photos = {
        "rgb": save(Image.fromarray(smooth(30, 40)), "JPEG", WIDE, quality=95),
        "cmyk": save(Image.fromarray(smooth(30, 40, 4), "CMYK"), "JPEG", INKS, quality=95),
    }
    chain = [leat.ops.Decode(icc="srgb"), leat.ops.CenterCrop((30, 40)), leat.ops.ToLayout("NHWC")]
    for form in ("original", "fast", "raw"):
        path = tmp_path / f"{form}.leat"
        with leat.Writer(path, {"image": "image"}, photos=form) as w:
            for data in photos.values():
                w.add(image=data)
        loader = leat.Loader(leat.open(path), 1, outputs={"image": chain}, framework="numpy", shuffle=False)
        for i, data in enumerate(photos.values()):
            want = decode(data, icc="ignore" if form == "raw" else "srgb")
            assert np.array_equal(loader.batch_at(0, i)["image"][0], want), (form, i)


def test_a_large_profile_is_put_together() -> None:
    large = profile(b"CMYK", {b"A2B0": ink_table(), b"junk": b"data" + bytes(150_000)}, b"Lab ", b"prtr")
    data = save(Image.fromarray(smooth(30, 40, 4), "CMYK"), "JPEG", large)
    assert np.abs(decode(data, icc="srgb").astype(int) - wanted(data)).max() <= 1
    at = data.index(b"ICC_PROFILE\0\2")
    without = data[:at] + b"ICC_PROFILX" + data[at + 11 :]
    assert "its ICC profile is broken (a part of it is missing)" in decode(without, icc="srgb")


def test_segments_are_walked_through_once_however_many_parts_a_profile_has() -> None:
    """255 parts, the last one first, behind a million segments: one walk for each part took minutes."""
    photo = save(Image.fromarray(smooth(30, 40)), "JPEG", None)
    parts = [WIDE[i : i + 2] for i in range(0, 508, 2)]
    parts.append(WIDE[508:])
    head = b"\xff\xe5\0\2" * 1_000_000
    for i, part in reversed(list(enumerate(parts, 1))):
        head += b"\xff\xe2" + struct.pack(">H", 16 + len(part)) + b"ICC_PROFILE\0" + bytes([i, len(parts)]) + part
    once = save(Image.fromarray(smooth(30, 40)), "JPEG", WIDE)
    assert np.array_equal(decode(photo[:2] + head + photo[2:], icc="srgb"), decode(once, icc="srgb"))


@pytest.mark.parametrize(
    ("icc", "words"),
    [
        (WIDE[:200], "its ICC profile is broken ("),
        (WIDE[:36] + b"none" + WIDE[40:], "its ICC profile is broken ("),
        (WIDE.replace(b"rXYZ", b"nnnn"), "its ICC profile is broken ("),
        (profile(b"HSV ", {}), "it is for no gray, RGB or CMYK"),
        (GRAY, "it is for other colours than the photo has"),
        (INKS, "it is for other colours than the photo has"),
    ],
)
@pytest.mark.parametrize("kind", ["JPEG", "PNG"])
def test_a_broken_profile_is_an_error_or_counted(kind: str, icc: bytes, words: str, tmp_path: Path) -> None:
    data = save(Image.fromarray(smooth(30, 40)), kind, icc)
    strict, lenient = decode_all([data], icc="srgb")[0], decode_all([data], icc="srgb", strict=False)[0]
    assert strict.startswith(f"{kind}: ") and words in strict and 'icc="ignore"' in strict
    assert np.array_equal(lenient, decode(data))
    with leat.Writer(tmp_path / "a.leat", {"image": "image"}) as w:
        w.add(image=data)
    chain = [leat.ops.Decode(icc="srgb", strict=False), leat.ops.Resize((8, 8))]
    loader = leat.Loader(leat.open(tmp_path / "a.leat"), 1, outputs={"image": chain})
    list(loader)
    assert loader.stats()["warnings"]["other"] >= 1


def test_many_profiles_take_turns() -> None:
    photos, pixels = [], Image.fromarray(smooth(30, 40))
    for i in range(7):
        photos.append(save(pixels, "PNG", WIDE.replace(gamma(1.8), gamma(1.5 + i / 10))))
    for ours, data in zip(decode_all(photos + photos[::-1], icc="srgb"), photos + photos[::-1], strict=True):
        assert np.abs(ours.astype(int) - wanted(data)).max() <= 1


def test_photos_without_a_profile_stay_as_they_are() -> None:
    out = io.BytesIO()
    Image.fromarray(smooth(30, 40)).save(out, "PNG")
    assert np.array_equal(decode(out.getvalue(), icc="srgb"), smooth(30, 40))


def converted(pixels: Any, icc: bytes, mode: str | None = None) -> Any:
    """Of an array, what Pillow makes of it with this profile."""
    return wanted(save(Image.fromarray(pixels, mode), "TIFF", icc))


def test_avif() -> None:
    for pixels, icc in ((smooth(30, 40), WIDE), (smooth(30, 40), SRGB), (smooth(30, 40, 1)[..., 0], GRAY)):
        data = save(Image.fromarray(pixels), "AVIF", icc, subsampling="4:4:4" if pixels.ndim == 3 else "4:0:0")
        plain = decode(data) if pixels.ndim == 3 else decode(data, mode="GRAY")[..., 0]
        assert np.abs(decode(data, icc="srgb").astype(int) - converted(plain, icc)).max() <= 1
    data = save(Image.fromarray(smooth(30, 40)), "AVIF", GRAY, subsampling="4:4:4")
    assert "its ICC profile is broken (it is for other colours" in decode(data, icc="srgb")
    assert np.array_equal(decode(data, icc="srgb", strict=False), decode(data))


#: What H.273 calls 12 and 9, adapted to D50.
P3 = (0.51512, 0.2412, -0.00105), (0.29198, 0.69225, 0.04189), (0.1571, 0.06657, 0.78407)
BT2020 = (0.67348, 0.27904, -0.00194), (0.16568, 0.67535, 0.02998), (0.12507, 0.04561, 0.79685)
CURVES = {13: SRGB[SRGB.index(b"para") :][:32], 1: SRGB[SRGB.index(b"para") :][:32], 4: gamma(2.2), 8: gamma(1)}


def of_primaries(primaries: Any, curve: bytes) -> bytes:
    tags = {f"{c}XYZ".encode(): xyz(*v) for c, v in zip("rgb", primaries, strict=True)}
    return profile(b"RGB ", {**tags, **{f"{c}TRC".encode(): curve for c in "rgb"}})


@pytest.mark.parametrize("primaries", [12, 9])
@pytest.mark.parametrize("transfer", CURVES)
def test_avif_whose_colours_are_numbers(primaries: int, transfer: int) -> None:
    data = save(Image.fromarray(smooth(30, 40)), "AVIF", None, subsampling="4:4:4")
    at = data.index(b"nclx") + 4
    data = data[:at] + struct.pack(">HH", primaries, transfer) + data[at + 4 :]
    want = converted(decode(data), of_primaries(P3 if primaries == 12 else BT2020, CURVES[transfer]))
    assert np.abs(decode(data, icc="srgb").astype(int) - want).max() <= 2
    assert np.abs(decode(data, icc="srgb").astype(int) - decode(data)).max() > 10


@pytest.mark.parametrize("numbers", [(1, 13), (2, 2), (1, 1), (6, 6), (9, 16), (9, 18), (10, 13), (1, 77)])
def test_avif_in_srgb_or_hdr_stays_as_it_is(numbers: tuple[int, int]) -> None:
    data = save(Image.fromarray(smooth(30, 40)), "AVIF", None, subsampling="4:4:4")
    at = data.index(b"nclx") + 4
    data = data[:at] + struct.pack(">HH", *numbers) + data[at + 4 :]
    assert np.array_equal(decode(data, icc="srgb"), decode(data))


def test_each_page_of_a_tiff_has_a_profile_of_its_own() -> None:
    pages = [
        Image.fromarray(smooth(30, 40)),
        Image.fromarray(smooth(30, 40)),
        Image.fromarray(smooth(30, 40, 1)[..., 0]),
    ]
    pages[1].info["icc_profile"], pages[2].info["icc_profile"] = WIDE, GRAY
    out = io.BytesIO()
    pages[0].save(out, "TIFF", save_all=True, append_images=pages[1:])
    assert np.array_equal(decode(out.getvalue(), icc="srgb"), smooth(30, 40))
    for frame, (pixels, icc) in enumerate(((smooth(30, 40), WIDE), (smooth(30, 40, 1)[..., 0], GRAY)), 1):
        made = decode(out.getvalue(), icc="srgb", frame=frame).astype(int)
        assert np.abs(made - converted(pixels, icc, None)).max() <= 1


def test_jpeg_xl() -> None:
    for pixels, icc in ((smooth(30, 40), WIDE), (smooth(30, 40), SRGB), (smooth(30, 40, 1), GRAY)):
        data = encode([pixels], profile=icc)
        want = converted(pixels if pixels.shape[2] == 3 else pixels[..., 0], icc)
        assert np.abs(decode(data, icc="srgb").astype(int) - want).max() <= 1
    numbers = encode([smooth(30, 40)], primaries=11)
    want = converted(smooth(30, 40), of_primaries(P3, CURVES[13]))
    assert np.abs(decode(numbers, icc="srgb").astype(int) - want).max() <= 2
    for data in (encode([smooth(30, 40)], lossless=False, profile=WIDE), encode([smooth(30, 40)])):
        assert np.array_equal(decode(data, icc="srgb"), decode(data))  # in sRGB as they come


def test_jpeg_2000() -> None:
    for pixels, icc in ((smooth(30, 40), WIDE), (smooth(30, 40, 1), GRAY), (smooth(30, 40, 4), INKS)):
        data = contained(pixels, icc)
        want = converted(pixels.squeeze(), icc, "CMYK" if icc is INKS else None)
        assert np.abs(decode(data, icc="srgb").astype(int) - want).max() <= 1
    inks = Image.fromarray(smooth(30, 40, 4), "CMYK").convert("RGB")
    assert np.abs(decode(contained(smooth(30, 40, 4), INKS)) - np.asarray(inks).astype(int)).max() <= 1
    first = contained(smooth(30, 40), 16, box(b"colr", b"\2\0\0", WIDE))  # those behind the first do not count
    assert np.array_equal(decode(first, icc="srgb"), smooth(30, 40))
    for icc in (WIDE[:200], GRAY, b"x"):
        assert "its ICC profile is broken" in decode(contained(smooth(30, 40), icc), icc="srgb")
    palette = box(b"pclr", b"\1\0\3\7\7\7", bytes(768))  # of three colors for what were four inks
    columns = box(b"cmap", *(struct.pack(">HBB", 0, 1, i) for i in range(3)))
    fewer = contained(smooth(30, 40, 4), INKS, palette, columns)
    assert "its components are not those that its header says" in decode(fewer, icc="srgb")


def test_what_icc_may_be() -> None:
    with pytest.raises(ValueError, match="icc is 'ignore' or 'srgb', not 'p3'"):
        leat.ops.Decode(icc="p3")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("photos", ["original", "fast"])
def test_a_photo_that_is_made_smaller_when_it_is_packed_keeps_its_profile(
    kind: str, photos: Literal["original", "fast"], tmp_path: Path
) -> None:
    large = WIDE + bytes(np.random.default_rng(0).integers(0, 256, 100_000, np.uint8))  # of several segments
    gray = Image.fromarray(smooth(60, 80, 1)[..., 0])
    cases = [(Image.fromarray(smooth(60, 80)), icc) for icc in (WIDE, large, None)]
    cases += [(gray, GRAY)] if kind != "WEBP" else []
    with leat.Writer(tmp_path / "a.leat", {"image": "image"}, max_side=40, photos=photos) as w:
        for pixels, icc in cases:
            w.add(image=save(pixels, kind, icc))
    for (_, icc), sample in zip(cases, leat.open(tmp_path / "a.leat"), strict=True):
        small = Image.open(io.BytesIO(sample["image"]))
        assert small.size == (40, 30) and small.format == "JPEG" and small.info.get("icc_profile") == icc


def test_a_photo_of_inks_has_no_profile_once_it_is_rgb(tmp_path: Path) -> None:
    inks = Image.fromarray(smooth(60, 80, 4), "CMYK")
    with leat.Writer(tmp_path / "a.leat", {"image": "image"}, max_side=40) as w:
        for kind in ("JPEG", "TIFF"):
            w.add(image=save(inks, kind, INKS))
            w.add(image=save(inks, kind, WIDE))
        w.add(image=save(Image.fromarray(smooth(60, 80)), "JPEG", b"no profile"))
    for sample in leat.open(tmp_path / "a.leat"):
        small = Image.open(io.BytesIO(sample["image"]))
        assert small.mode == "RGB" and "icc_profile" not in small.info
