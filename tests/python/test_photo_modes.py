"""What Decode makes of transparency, 16 bits, animations and wrong checksums, against Pillow and the pixels stored."""

from __future__ import annotations

import io
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from photo_support import decode, decode_all, noise, save

import leat

Image: Any = pytest.importorskip("PIL.Image")


def webp(frames: list[Any]) -> bytes:
    images = [Image.fromarray(f) for f in frames]
    return save(images[0], "WEBP", save_all=True, append_images=images[1:], lossless=True, exact=True)


@pytest.mark.parametrize("kind", ["PNG", "WEBP"])
def test_transparency_is_dropped_kept_or_blended(kind: str) -> None:
    pixels = noise(13, 17, 4)
    data = save(pixels, kind, **({"lossless": True, "exact": True} if kind == "WEBP" else {}))
    assert np.array_equal(decode(data), pixels[..., :3])
    assert np.array_equal(decode(data, mode="RGBA"), pixels)
    for colour in ((255, 255, 255), (10, 200, 30)):
        under = Image.new("RGBA", (17, 13), (*colour, 255))
        under.alpha_composite(Image.fromarray(pixels))
        options: dict[str, Any] = {} if colour == (255, 255, 255) else {"background": colour}
        for mode, theirs in (("RGB", "RGB"), ("GRAY", "L")):
            ours = decode(data, mode=mode, alpha="blend", **options).astype(int).squeeze()
            assert np.abs(ours - np.asarray(under.convert(theirs))).max() <= 1


def test_transparent_colours_of_palettes_and_grays_count_too() -> None:
    indices = noise(9, 11) % 4
    painted = Image.fromarray(indices)
    painted.putpalette([10, 20, 30, 40, 50, 60, 70, 80, 90, 100, 110, 120])
    for image, options in (
        (painted, {"transparency": bytes([0, 128, 255, 3])}),
        (Image.fromarray(indices), {"transparency": 2}),
        (Image.fromarray(noise(9, 11, 3) % 2), {"transparency": (1, 0, 1)}),
    ):
        data = save(image, "PNG", **options)
        assert np.array_equal(decode(data, mode="RGBA"), np.asarray(Image.open(io.BytesIO(data)).convert("RGBA")))


def test_photos_without_transparency_are_opaque() -> None:
    for kind in ("PNG", "JPEG"):
        data = save(noise(8, 9, 3), kind)
        ours = decode(data, mode="RGBA")
        assert (ours[..., 3] == 255).all() and np.array_equal(ours[..., :3], decode(data))
        assert np.array_equal(decode(data, alpha="blend"), decode(data))


def test_sixteen_bits_are_had_in_full_and_the_upper_eight_otherwise() -> None:
    gray = noise(13, 17, dtype=np.uint16)
    data = save(gray, "PNG")
    for mode, channels in (("GRAY", 1), ("RGB", 3), ("RGBA", 4)):
        ours = decode(data, mode=mode, dtype="uint16")
        assert ours.dtype == np.uint16 and ours.shape == (13, 17, channels)
        assert all(np.array_equal(ours[..., c], gray) for c in range(min(channels, 3)))
    assert (decode(data, mode="RGBA", dtype="uint16")[..., 3] == 65535).all()
    assert np.array_equal(decode(data, mode="GRAY")[..., 0], gray >> 8)


def test_eight_bits_as_sixteen_reach_from_0_to_65535() -> None:
    for kind, options in (("PNG", {}), ("JPEG", {}), ("WEBP", {"lossless": True})):
        data = save(noise(8, 9, 3), kind, **options)
        for mode in ("RGB", "RGBA"):
            assert np.array_equal(decode(data, mode=mode, dtype="uint16"), decode(data, mode=mode).astype("u2") * 257)
    data = save(noise(8, 9), "JPEG")
    assert np.array_equal(decode(data, mode="GRAY", dtype="uint16"), decode(data, mode="GRAY").astype("u2") * 257)


def test_crops_flips_padding_and_values_work_on_sixteen_bits() -> None:
    gray = noise(13, 17, dtype=np.uint16)
    data = save(gray, "PNG")
    ops = leat.ops
    window = decode(data, ops.CenterCrop((6, 5)), mode="GRAY", dtype="uint16")[..., 0]
    assert np.array_equal(window, gray[4:10, 6:11])
    padded = decode(data, ops.CenterCrop((15, 5)), mode="GRAY", dtype="uint16")[..., 0]
    assert np.array_equal(padded, np.pad(gray[:, 6:11], ((1, 1), (0, 0))))
    flipped = decode(data, ops.RandomHorizontalFlip(1), ops.ToDtype("float32"), mode="GRAY", dtype="uint16")[..., 0]
    assert flipped.dtype == np.float32 and np.allclose(flipped, gray[:, ::-1] / 65535, atol=1e-7)


TURNS: dict[int, Any] = {
    2: np.fliplr,
    3: lambda a: np.rot90(a, 2),
    4: np.flipud,
    5: np.transpose,
    6: lambda a: np.rot90(a, -1),
    7: lambda a: np.rot90(a, 2).T,
    8: np.rot90,
}


@pytest.mark.parametrize("orientation", TURNS)
def test_an_exif_orientation_turns_sixteen_bits_too(orientation: int) -> None:
    gray, exif = noise(6, 6, dtype=np.uint16), Image.Exif()
    exif[0x112] = orientation
    data = save(gray, "PNG", exif=exif)
    for mode in ("GRAY", "RGB"):
        assert np.array_equal(decode(data, mode=mode, dtype="uint16", exif=True)[..., 0], TURNS[orientation](gray))


def test_torch_gets_sixteen_bits(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    gray = noise(8, 8, dtype=np.uint16)
    with leat.Writer(tmp_path / "a.leat", {"image": "image"}) as w:
        w.add(image=save(gray, "PNG"))
    chain = [leat.ops.Decode("GRAY", dtype="uint16"), leat.ops.CenterCrop(8)]
    image = leat.Loader(leat.open(tmp_path / "a.leat"), 1, outputs={"image": chain}).batch_at(0, 0)["image"]
    assert image.dtype == torch.uint16 and np.array_equal(image[0, 0].numpy(), gray)


def test_operators_that_resample_refuse_sixteen_bits() -> None:
    data = save(noise(8, 8, dtype=np.uint16), "PNG")
    with pytest.raises(TypeError, match="Resize.*uint16"):
        decode(data, leat.ops.Resize((4, 4)), dtype="uint16")


def test_frames_of_an_animated_webp() -> None:
    frames = [noise(13, 17, 3), 255 - noise(13, 17, 3), noise(13, 17, 3)[::-1]]
    data = webp(frames)
    assert np.array_equal(decode(data), frames[0])
    for i, frame in enumerate(frames):
        assert np.array_equal(decode(data, frame=i), frame)
        window = decode(data, leat.ops.CenterCrop((3, 5)), frame=i)
        assert np.array_equal(window, frame[5:8, 6:11])
    assert "it has 3 images: there is no frame 3" in decode(data, frame=3)


def test_a_frame_that_a_photo_does_not_have_is_an_error() -> None:
    png, jpeg, still = (save(noise(8, 8, 3), kind) for kind in ("PNG", "JPEG", "WEBP"))
    for data, words in ((png, "first image"), (jpeg, "first image"), (still, "it has 1 image:")):
        assert words in decode(data, frame=1)


def test_an_animated_webp_that_is_cut_off_is_broken() -> None:
    data = webp([noise(13, 17, 3), 255 - noise(13, 17, 3)])
    cut = [data[: len(data) * n // 20] for n in range(1, 20)]
    assert all("WebP" in words or "RIFF" in words for words in decode_all(cut) if isinstance(words, str))
    assert all(isinstance(words, str) for words in decode_all(cut))


def wrong_checksum(data: bytes, chunk: bytes) -> bytes:
    at = data.index(chunk)
    end = at + 4 + int.from_bytes(data[at - 4 : at], "big")
    assert zlib.crc32(data[at:end]) == int.from_bytes(data[end : end + 4], "big")
    return data[:end] + bytes([data[end] ^ 1]) + data[end + 1 :]


@pytest.mark.parametrize("chunk", [b"IDAT", b"tEXt", b"IEND"])
def test_a_lenient_decode_takes_a_png_with_a_wrong_checksum_and_counts_it(chunk: bytes, tmp_path: Path) -> None:
    from PIL import PngImagePlugin

    text = PngImagePlugin.PngInfo()
    text.add_text("a", "b")
    pixels = noise(13, 17, 3)
    data = wrong_checksum(save(pixels, "PNG", pnginfo=text), chunk)
    with leat.Writer(tmp_path / "a.leat", {"image": "image"}) as w:
        w.add(image=data)
    assert [b[0] for b in w.broken] == [0] and "checksum" in w.broken[0][3]
    outputs = {"image": [leat.ops.Decode(strict=False), leat.ops.CenterCrop((13, 17)), leat.ops.ToLayout("NHWC")]}
    loader = leat.Loader(leat.open(tmp_path / "a.leat"), 1, outputs=outputs, framework="numpy")
    assert np.array_equal(loader.batch_at(0, 0)["image"][0], pixels)
    assert loader.stats()["warnings"]["wrong checksum"] >= 1


def test_a_png_whose_header_has_a_wrong_checksum_stays_broken() -> None:
    data = wrong_checksum(save(noise(8, 8, 3), "PNG"), b"IHDR")
    assert "checksum" in decode(data, strict=False)


def test_arguments_that_contradict_each_other_are_refused() -> None:
    Decode = leat.ops.Decode
    for wrong in (
        {"mode": "CMYK"},
        {"dtype": "float32"},
        {"alpha": "keep"},
        {"mode": "RGBA", "alpha": "blend"},
        {"background": (0, 0, 0)},
        {"alpha": "blend", "background": (0, 0, 256)},
        {"alpha": "blend", "background": (0, 0)},
        {"frame": -1},
    ):
        with pytest.raises(ValueError, match=next(iter(wrong)) + "|background"):
            Decode(**wrong)  # type: ignore[arg-type]
    op = Decode("GRAY", alpha="blend", background=(1, 2, 3), frame=2, dtype="uint16")
    assert leat.ops.from_json(op.to_json()) == op
