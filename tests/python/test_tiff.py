"""TIFF by libtiff, against Pillow, which writes the files; what Pillow does not write is made by hand."""

from __future__ import annotations

import ctypes
import functools
import io
import struct
from pathlib import Path
from typing import Any

import numpy as np
import photo_support
import pytest
from photo_support import decode, decode_all, noise
from tiff_made import tiff

import leat

Image: Any = pytest.importorskip("PIL.Image")
try:
    ctypes.CDLL("libtiff.so.6")
except OSError:
    pytest.skip("no libtiff.so.6 on this machine", allow_module_level=True)

SIZES = [(1, 1), (13, 17), (64, 40)]
COMPRESSIONS = ["raw", "tiff_lzw", "tiff_adobe_deflate", "packbits", "lzma", "zstd"]


def smooth(height: int, width: int) -> Any:
    y, x = np.mgrid[:height, :width]
    return np.stack([x * 255 // width, y * 255 // height, (x + y) * 127 // (height + width)], 2).astype(np.uint8)


save = functools.partial(photo_support.save, kind="TIFF")


def pillow(data: bytes, mode: str = "RGB") -> Any:
    return np.asarray(Image.open(io.BytesIO(data)).convert(mode)).astype(int)


def images(height: int, width: int) -> dict[str, Any]:
    colour = Image.fromarray(noise(height, width, 3))
    return {
        "1": Image.fromarray(noise(height, width)).convert("1"),
        "L": Image.fromarray(noise(height, width)),
        "LA": Image.fromarray(noise(height, width, 2), "LA"),
        "P": colour.quantize(200),
        "RGB": colour,
        "RGBA": Image.fromarray(noise(height, width, 4)),
        "CMYK": Image.fromarray(noise(height, width, 4), "CMYK"),
    }


@pytest.mark.parametrize(
    ("compression", "size"), [*((c, SIZES[2]) for c in COMPRESSIONS), *(("tiff_lzw", size) for size in SIZES[:2])]
)
def test_each_mode_has_the_pixels_of_pillow(compression: str, size: tuple[int, int]) -> None:
    for mode, image in images(*size).items():
        data = save(image, compression=compression)
        assert np.abs(decode(data).astype(int) - pillow(data)).max() <= (mode == "CMYK"), mode
        assert np.abs(decode(data, mode="GRAY")[..., 0].astype(int) - pillow(data, "L")).max() <= 1, mode
        assert np.abs(decode(data, mode="RGBA").astype(int) - pillow(data, "RGBA")).max() <= (mode == "CMYK"), mode


@pytest.mark.parametrize("compression", ["tiff_ccitt", "group3", "group4"])
def test_fax(compression: str) -> None:
    for size in SIZES:
        data = save(images(*size)["1"], compression=compression)
        assert np.array_equal(decode(data), pillow(data))


@pytest.mark.parametrize("mode", ["L", "RGB", "YCbCr", "CMYK"])
def test_jpeg_in_strips(mode: str) -> None:
    for size in SIZES:
        data = save(Image.fromarray(smooth(*size)).convert(mode), compression="jpeg", quality=80)
        assert np.abs(decode(data).astype(int) - pillow(data)).max() <= 1


def test_sixteen_bits() -> None:
    deep = noise(13, 17, dtype=np.uint16)
    data = save(deep, compression="tiff_lzw")
    assert np.array_equal(decode(data, mode="GRAY", dtype="uint16")[..., 0], deep)
    assert np.array_equal(decode(data, mode="GRAY")[..., 0], deep >> 8)


@pytest.mark.parametrize("dtype", [np.float32, np.int32])
def test_floats_and_whole_numbers_of_32_bits_are_clipped(dtype: Any) -> None:
    values = np.linspace(-300, 70000, 13 * 17).reshape(13, 17).astype(dtype)
    data = save(values)
    assert np.array_equal(decode(data), pillow(data))
    assert np.array_equal(decode(data, mode="GRAY", dtype="uint16")[..., 0], values.clip(0, 65535).astype(np.uint16))


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("big", [False, True])
@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize("tile", [None, (16, 32)])
def test_strips_and_tiles_together_and_apart(tile: Any, apart: bool, big: bool, order: str) -> None:
    for samples, photometric, dtype in ((1, 1, np.uint8), (3, 2, np.uint8), (3, 2, np.uint16), (4, 5, np.uint8)):
        pixels = noise(45, 50, samples, dtype=dtype)
        options = {"tile": tile} if tile else {"rows": 7}
        bits = 8 * np.dtype(dtype).itemsize
        data = tiff(pixels, photometric=photometric, bits=bits, apart=apart, big=big, order=order, **options)
        if samples < 4:
            want = np.broadcast_to(pixels, (45, 50, 3))
            assert np.array_equal(decode(data, dtype="uint16"), want.astype(np.uint16) * (257 if bits == 8 else 1))
            assert np.array_equal(decode(data), want >> (bits - 8))
        else:
            assert (
                np.abs(decode(data).astype(int) - np.asarray(Image.fromarray(pixels, "CMYK").convert("RGB"))).max() <= 1
            )
        assert np.array_equal(decode(data, leat.ops.CenterCrop((11, 20))), decode(data)[17:28, 15:35])


@pytest.mark.parametrize("bits", [1, 2, 3, 4, 6, 10, 12])
@pytest.mark.parametrize("photometric", [0, 1])
def test_samples_of_any_number_of_bits(bits: int, photometric: int) -> None:
    most = (1 << bits) - 1
    values = noise(9, 13, 1, dtype=np.uint16) & most
    data = tiff(values, photometric=photometric, bits=bits)
    seen = values if photometric else most - values
    want = seen >> (bits - 8) if bits > 8 else np.rint(seen * 255 / most)
    ours = decode(data, mode="GRAY").astype(int)
    assert np.abs(ours - want).max() <= (bits > 8 and not photometric)
    if bits > 8:
        assert np.array_equal(decode(data, mode="GRAY", dtype="uint16"), np.rint(seen * (65535 / most)))


@pytest.mark.parametrize("bits", [8, 16])
def test_transparency_that_colours_are_multiplied_by(bits: int) -> None:
    pixels = noise(20, 30, 4, dtype=np.uint8 if bits == 8 else np.uint16)
    pixels[:5, :, 3] = 0
    pixels[5:9, :, 3] = np.iinfo(pixels.dtype).max
    for kind in (0, 1, 2):
        data = tiff(pixels, bits=bits, more={338: (3, [kind])})
        theirs = pillow(data, "RGBA")
        assert np.abs(decode(data, mode="RGBA").astype(int) - theirs).max() <= 1, kind
        assert np.abs(decode(data).astype(int) - theirs[..., :3]).max() <= 1, kind
    data = tiff(pixels, bits=bits)
    assert np.array_equal(decode(data, mode="RGBA"), pillow(data, "RGBA"))


def test_colours_of_which_there_are_fewer_samples() -> None:
    # YCbCr 4:2:0, 4 x 4: two blocks across, two down, each of four Y, Cb and Cr
    blocks = noise(2, 2, 6)
    head = tiff(np.zeros((4, 4, 3), np.uint8), photometric=6, more={530: (3, [2, 2]), 531: (3, [1])})
    data = (head[:8] + blocks.tobytes() + bytes(24) + head[56:]).replace(
        struct.pack("<HHII", 279, 4, 1, 48), struct.pack("<HHII", 279, 4, 1, 24)
    )
    luma = np.block([[blocks[y, x, :4].reshape(2, 2) for x in range(2)] for y in range(2)]).astype(float)
    cb, cr = (np.kron(blocks[..., c].astype(float) - 128, np.ones((2, 2))) for c in (4, 5))
    want = np.stack([luma + 1.402 * cr, luma - 0.344136 * cb - 0.714136 * cr, luma + 1.772 * cb], 2)
    assert np.abs(decode(data).astype(int) - want.clip(0, 255)).max() <= 1


def test_pages() -> None:
    data = tiff(noise(13, 17, 3) // 2, pages=3)
    for page in range(3):
        assert np.array_equal(decode(data, frame=page), noise(13, 17, 3) // 2 + page)
    assert "there is no frame 3" in decode(data, frame=3)
    loop = bytearray(data)
    loop[-4:] = loop[4:8]  # the last page's next one is the first
    assert np.array_equal(decode(bytes(loop), frame=4), noise(13, 17, 3) // 2 + 1)
    assert "no end" in decode(bytes(loop), frame=70000)


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("big", [False, True])
def test_the_orientation_is_that_of_exif(orientation: int, big: bool) -> None:
    data = tiff(noise(13, 17, 3), big=big, more={274: (3, [orientation])})
    assert np.array_equal(decode(data), noise(13, 17, 3))
    turned = leat.ops.Decode(exif=True)
    with io.BytesIO(data) as file:
        want = np.asarray(Image.open(file))  # Pillow turns TIFFs when it loads them
    size = want.shape[:2]
    assert np.array_equal(_whole(data, turned, size), want)


def _whole(data: bytes, operator: Any, size: tuple[int, int]) -> Any:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        with leat.Writer(Path(folder) / "a.leat", {"image": "image"}) as w:
            w.add(image=data)
        chain = [operator, leat.ops.CenterCrop(size), leat.ops.ToLayout("NHWC")]
        loader = leat.Loader(leat.open(Path(folder) / "a.leat"), 1, outputs={"image": chain}, framework="numpy")
        return loader.batch_at(0, 0)["image"][0].copy()


def test_what_is_cut_off_is_broken() -> None:
    for compression in COMPRESSIONS:
        data = save(noise(13, 17, 3), compression=compression)
        for words in decode_all([data[: len(data) * n // 20] for n in range(1, 20)]):
            assert isinstance(words, str) and words.startswith(("TIFF: ", "no photo")), compression


def test_the_error_has_the_words_of_libtiff() -> None:
    data = bytearray(save(noise(40, 40, 3), compression="tiff_adobe_deflate"))
    at = data.index(b"\x78", 8)
    data[at + 2 : at + 40] = bytes(38)
    words = decode(bytes(data))
    assert words.startswith("TIFF: ZIPDecode: ") and "the photo is damaged" in words


@pytest.mark.parametrize(
    ("tags", "words"),
    [
        ({256: (4, [1 << 30]), 257: (4, [1 << 30])}, "pixels; leat decodes at most"),
        ({256: (4, [60000]), 257: (4, [4000])}, "the file ends before the photo does"),
        ({322: (4, [1 << 28]), 323: (4, [1 << 28])}, "its tiles or strips are of a size that makes no sense"),
        ({259: (3, [6])}, "JPEG of before 1995, compression 6, which leat does not decode"),
        ({259: (3, [34676])}, "compression 34676, which leat does not decode"),
        ({262: (3, [32803])}, "photometric interpretation 32803, which leat does not decode"),
        ({262: (3, [3])}, "its palette is missing or too short"),
        ({277: (3, [1000])}, "samples of a pixel: 1000, which leat does not decode"),
        ({258: (3, [8, 8, 16])}, "samples of different numbers of bits"),
        ({262: (3, [5])}, "fewer samples than its colours need"),
        ({262: (3, [5]), 332: (3, [2])}, "inks other than CMYK"),
        ({339: (3, [3, 3, 3])}, "floating point samples of a number of bits of 8"),
    ],
)
def test_what_leat_does_not_decode_is_said(tags: dict[int, tuple[int, list[int]]], words: str) -> None:
    assert words in decode(tiff(noise(13, 17, 3), more=tags))


def test_lab() -> None:
    try:
        ctypes.CDLL("liblcms2.so.2")
    except OSError:
        pytest.skip("no liblcms2.so.2 on this machine")
    planes = [Image.fromarray(noise(30, 40 + i)[:, :40]) for i in range(3)]
    data = save(Image.merge("LAB", planes), compression="tiff_lzw")
    assert np.abs(decode(data) - pillow(data)).max() <= 1
    assert np.abs(decode(data, mode="GRAY")[..., 0] - pillow(data) @ [0.299, 0.587, 0.114]).max() <= 1.5
    assert np.array_equal(decode(data, icc="srgb"), decode(data))
    apart = tiff(noise(13, 17, 3), photometric=8, apart=True)
    assert np.array_equal(decode(apart), decode(tiff(noise(13, 17, 3), photometric=8)))
    deep = tiff(noise(13, 17, 3, dtype=np.uint16), photometric=8, bits=16)
    assert "CIE L*a*b* with a number of bits of 16, which leat does not decode" in decode(deep)


def test_unknown_tags_are_no_damage() -> None:
    assert np.array_equal(decode(tiff(noise(13, 17, 3), more={65001: (4, [7])})), noise(13, 17, 3))


def test_they_pack_in_each_form(tmp_path: Path) -> None:
    data = save(noise(13, 17, 3), compression="tiff_lzw")
    for form in ("original", "fast", "raw"):
        path = tmp_path / f"{form}.leat"
        with leat.Writer(path, {"image": "image"}, photos=form) as w:
            w.add(image=data)
        assert not w.broken and (form != "fast" or "only a JPEG has a fast form" in next(iter(w.as_came)))
        ds = leat.open(path)
        assert (ds.column("image.kind")[0], ds.column("image.width")[0]) == (9, 17)
        chain = [leat.ops.Decode(), leat.ops.CenterCrop((13, 17)), leat.ops.ToLayout("NHWC")]
        batch = leat.Loader(ds, 1, outputs={"image": chain}, framework="numpy").batch_at(0, 0)
        assert np.array_equal(batch["image"][0], noise(13, 17, 3))


def test_a_folder_of_them_opens(tmp_path: Path) -> None:
    for name in ("a.tif", "b.TIFF"):
        (tmp_path / name).write_bytes(save(noise(13, 17, 3)))
    ds = leat.open(tmp_path)
    chain = [leat.ops.Decode(), leat.ops.Resize((8, 8))]
    assert len(ds) == 2 and leat.Loader(ds, 2, outputs={"image": chain}).batch_at(0, 0)["image"].shape == (2, 3, 8, 8)
