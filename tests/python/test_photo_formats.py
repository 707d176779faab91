"""Formats beside JPEG, PNG and WebP, against Pillow, which writes them."""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gif_made import gif
from photo_support import decode, decode_all, noise, save

import leat

Image: Any = pytest.importorskip("PIL.Image")
SIZES = [(1, 1), (13, 17), (8, 31), (64, 40)]


def pillow(data: bytes, mode: str = "RGB") -> Any:
    return np.asarray(Image.open(io.BytesIO(data)).convert(mode))


def images(height: int, width: int) -> dict[str, Any]:
    """One of each mode that the formats here can hold."""
    colour = Image.fromarray(noise(height, width, 3))
    return {
        "1": Image.fromarray(noise(height, width)).convert("1"),
        "L": Image.fromarray(noise(height, width)),
        "P": colour.quantize(200),
        "few": colour.quantize(5),
        "RGB": colour,
        "RGBA": Image.fromarray(noise(height, width, 4)),
    }


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(("kind", "modes"), [("BMP", "1 L P few RGB RGBA"), ("PPM", "1 L RGB"), ("GIF", "1 L P few")])
def test_each_mode_has_the_pixels_of_pillow(kind: str, modes: str, size: tuple[int, int]) -> None:
    for mode in modes.split():
        data = save(images(*size)[mode], kind)
        assert np.array_equal(decode(data), pillow(data)), mode
        assert np.array_equal(decode(data, mode="GRAY")[..., 0], pillow(data, "L")), mode
        assert np.array_equal(decode(data, mode="RGBA"), pillow(data, "RGBA")), mode


def test_boxes_are_parts_of_the_whole() -> None:
    for kind in ("BMP", "PPM", "GIF"):
        data = save(images(40, 50)["P" if kind != "PPM" else "RGB"], kind)
        whole = decode(data)
        assert np.array_equal(decode(data, leat.ops.CenterCrop((10, 20))), whole[15:25, 15:35])


@pytest.mark.parametrize("most", [1, 15, 255, 256, 4095, 65535])
@pytest.mark.parametrize(("text", "samples"), [(False, 1), (False, 3), (True, 1), (True, 3)])
def test_pnm_of_any_largest_value(most: int, text: bool, samples: int) -> None:
    pixels = noise(7, 9, samples, dtype=np.uint16).astype(int) % (most + 1)
    kind = (2 if text else 5) + (samples == 3)
    head = f"P{kind}\n# a comment\n9 7 # another\n{most}\n".encode()
    body = " ".join(map(str, pixels.flat)).encode() if text else pixels.astype(">u2" if most > 255 else "u1").tobytes()
    wide = np.rint(pixels * (65535 / most)).astype(np.uint16)
    assert np.abs(decode(head + body, dtype="uint16").astype(int) - np.broadcast_to(wide, (7, 9, 3))).max() <= (
        0 if most > 255 else 257
    )
    narrow = np.floor(pixels * 255.0 / most + 0.5).astype(np.uint8)
    assert np.array_equal(decode(head + body), np.broadcast_to(narrow, (7, 9, 3)))


def test_bitmaps_in_text_need_no_spaces() -> None:
    assert decode(b"P1 3 2 010 1#x\n0 1", mode="GRAY")[..., 0].tolist() == [[255, 0, 255], [0, 255, 0]]


def bmp(width: int, height: int, bits: int, body: bytes, compression: int = 0, masks: bytes = b"") -> bytes:
    head = width.to_bytes(4, "little") + (height % (1 << 32)).to_bytes(4, "little") + b"\1\0" + bytes([bits, 0])
    head += compression.to_bytes(4, "little") + bytes(20)
    palette = bytes(v for i in range(1 << bits) for v in (i, 2 * i % 256, 255 - i, 0)) if bits <= 8 else b""
    start = 14 + 4 + len(head) + len(masks) + len(palette)
    return b"BM" + bytes(8) + start.to_bytes(4, "little") + b"\x28\0\0\0" + head + masks + palette + body


@pytest.mark.parametrize("masks", [(0xF800, 0x7E0, 0x1F), (0x7C00, 0x3E0, 0x1F)])
def test_bmp_with_bit_fields_and_top_down(masks: tuple[int, int, int]) -> None:
    values = noise(5, 6, dtype=np.uint16)
    fields = b"".join(m.to_bytes(4, "little") for m in masks)
    data = bmp(6, -5, 16, values.astype("<u2").tobytes(), 3, fields)
    want = np.stack([(values & m) // (m & -m) * 255 // (m // (m & -m)) for m in masks], 2)
    assert np.array_equal(decode(data), want) and np.array_equal(decode(data), pillow(data))
    deep = noise(5, 6, dtype=np.uint32)
    data = bmp(
        6, 5, 32, deep.astype("<u4").tobytes(), 3, b"".join(m.to_bytes(4, "little") for m in (0xFF, 0xFF00, 0xFF0000))
    )
    assert np.array_equal(decode(data), np.stack([deep[::-1] >> s & 255 for s in (0, 8, 16)], 2))


@pytest.mark.parametrize("bits", [4, 8])
def test_bmp_with_rle(bits: int) -> None:
    # 3 x 3 from below: three of 5; a jump of (1, 1), then one; a row in full, literal
    literal = bytes([0x12, 0x30]) if bits == 4 else bytes([1, 2, 3, 0])
    five = 0x55 if bits == 4 else 5
    body = bytes([3, five, 0, 0, 0, 2, 1, 0, 1, five, 0, 0, 0, 3]) + literal + bytes([0, 1])
    data = bmp(3, 3, bits, body, 2 if bits == 4 else 1)
    index = np.array([[1, 2, 3], [0, 5, 0], [5, 5, 5]])
    assert np.array_equal(decode(data), np.stack([255 - index, 2 * index, index], 2).astype(np.uint8))
    assert np.array_equal(decode(data), pillow(data))


@pytest.mark.parametrize("bits", [4, 8])
def test_a_run_of_a_bmp_follows_an_odd_number_of_literal_bytes(bits: int) -> None:
    literal, six = ([0x12, 0x34, 0x50], 0x66) if bits == 4 else ([1, 2, 3, 4, 5], 6)
    data = bmp(7, 1, bits, bytes([0, 5, *literal, 0, 2, six, 0, 1]), 2 if bits == 4 else 1)
    index = np.array([[1, 2, 3, 4, 5, 6, 6]])
    assert np.array_equal(decode(data), np.stack([255 - index, 2 * index, index], 2))
    assert np.array_equal(decode(data), pillow(data))


def test_bmp_with_rle_may_leave_pixels_out() -> None:
    data = bmp(300, 200, 8, bytes([0, 2, 7, 9, 1, 5, 0, 1]), 1)
    want = np.zeros((200, 300), int)
    want[190, 7] = 5
    assert np.array_equal(decode(data), np.stack([255 - want, 2 * want, want], 2))
    assert "the file ends before the photo does" in decode(bmp(30000, 8000, 8, bytes([0, 1]), 1))
    no_colours = bytearray(bmp(2, 1, 8, b"")[:54] + bytes([0, 9, 9, 0, 0]))
    no_colours[10:12] = bytes([55, 0])
    assert decode(bytes(no_colours)).tolist() == [[[0, 0, 0], [0, 0, 0]]]


def frames_of(count: int) -> list[Any]:
    """Each differs from the one before in a part."""
    pixels, made = noise(30, 40) % 16, []
    for i in range(count):
        pixels = pixels.copy()
        pixels[i : i + 9, 2 * i : 2 * i + 11] = noise(9, 11) % 16
        image = Image.fromarray(pixels)
        image.putpalette([v for k in range(16) for v in (16 * k, 255 - 16 * k, 7 * k)])
        made.append(image)
    return made


@pytest.mark.parametrize("disposal", [0, 1, 2, 3])
def test_frames_of_a_gif_are_as_they_are_seen(disposal: int) -> None:
    frames = frames_of(4)
    data = save(frames[0], "GIF", save_all=True, append_images=frames[1:], disposal=disposal)
    theirs = Image.open(io.BytesIO(data))
    for i in range(theirs.n_frames):
        theirs.seek(i)
        want = np.asarray(theirs.convert("RGBA"))
        ours = decode(data, mode="RGBA", frame=i)
        shown = want[..., 3] > 0
        assert np.array_equal(ours[..., 3], want[..., 3]) and np.array_equal(ours[shown], want[shown]), i
    assert "there is no frame 4" in decode(data, frame=4)


@pytest.mark.parametrize("place", [(5, 2), (5, 4), (0, 4), (9, 5), (10, 6)])
def test_a_frame_of_a_gif_that_sticks_out_is_cut(place: tuple[int, int]) -> None:
    data = gif(10, 6, (0, 0, noise(6, 10) % 128), (*place, noise(4, 8) % 128))
    theirs = Image.open(io.BytesIO(data))
    theirs.seek(1)
    want = np.asarray(theirs.convert("RGB"))[:6, :10]  # Pillow's canvas grows with the frame
    assert np.array_equal(decode(data, frame=1), want)


def test_an_interlaced_and_a_transparent_gif() -> None:
    image = frames_of(1)[0]
    for options in ({"interlace": 1}, {"interlace": 0}, {"transparency": 3}):
        for height in (1, 2, 3, 5, 9, 30):
            data = save(image.crop((0, 0, 40, height)), "GIF", **options)
            assert np.array_equal(decode(data, mode="RGBA"), pillow(data, "RGBA")), (options, height)


@pytest.mark.parametrize("kind", ["BMP", "PPM", "GIF"])
def test_what_is_cut_off_is_broken(kind: str) -> None:
    data = save(images(13, 17)["RGB" if kind == "PPM" else "P"], kind)
    ends = len(data) - (2 if kind == "GIF" else 0)  # the end of a GIF may lack
    for words in decode_all([data[: ends * n // 20] for n in range(20)]):
        assert isinstance(words, str)


@pytest.mark.parametrize("kind", ["BMP", "PPM", "GIF"])
def test_they_pack_in_each_form(kind: str, tmp_path: Path) -> None:
    data = save(images(13, 17)["L" if kind == "PPM" else "P"], kind)
    for form in ("original", "fast", "raw"):
        path = tmp_path / f"{form}.leat"
        with leat.Writer(path, {"image": "image"}, photos=form) as w:
            w.add(image=data)
        assert not w.broken and (form != "fast" or "only a JPEG has a fast form" in next(iter(w.as_came)))
        chain = [leat.ops.Decode(), leat.ops.CenterCrop((13, 17)), leat.ops.ToLayout("NHWC")]
        batch = leat.Loader(leat.open(path), 1, outputs={"image": chain}, framework="numpy").batch_at(0, 0)
        assert np.array_equal(batch["image"][0], pillow(data))


def test_a_folder_of_them_opens(tmp_path: Path) -> None:
    for kind, name in (("BMP", "a.bmp"), ("PPM", "b.ppm"), ("GIF", "c.gif"), ("PNG", "d.png")):
        (tmp_path / name).write_bytes(save(images(13, 17)["L"], kind))
    assert len(leat.open(tmp_path)) == 4


@pytest.mark.parametrize(
    ("begin", "what"),
    [
        (b"\0\0\0\x18ftypheic\0\0\0\0mif1heic", "a HEIC"),
        (b"\0\0\0\x18ftypmif1\0\0\0\0mif1heic", "a HEIC"),
        (b"\0\0\0\x18ftyphevc\0\0\0\0msf1hevc", "a HEIC"),
        (b"v/1\1", "an OpenEXR file"),
        (b"qoif", "a QOI"),
        (b"DDS |", "a DDS"),
        (b"II\xbc\1", "a JPEG XR"),
        (b"FUJIFILMCCD-RAW", "the raw photo of a camera"),
    ],
)
def test_an_error_names_the_formats_that_leat_does_not_read(begin: bytes, what: str) -> None:
    assert decode(begin + bytes(100)).startswith(f"this looks like {what}, which leat does not read: convert it to PNG")


@pytest.mark.parametrize(
    ("begin", "what"),
    [
        (b"<!DOCTYPE html>404", "a web page or XML, which leat does not read: replace it,"),
        (b'{"error": 404}', "JSON, which leat does not read: replace it,"),
        (b"\x1f\x8b\x08\0", "a gzip file, which leat does not read: decompress it,"),
        (
            b"version https://git-lfs.github.com/spec/v1\n",
            "a pointer of Git LFS, .*: fetch it by git lfs pull, or leave",
        ),
    ],
)
def test_what_is_no_picture_is_not_to_be_converted(begin: bytes, what: str) -> None:
    assert re.match(f"this looks like {what}", decode(begin + bytes(100)))
