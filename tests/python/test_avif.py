"""AVIF, against Pillow, which writes and reads it by a libavif of its own."""

from __future__ import annotations

import base64
import io
import os
import shutil
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from photo_support import decode, decode_all, folder_and_pack

import leat

Image: Any = pytest.importorskip("PIL.Image")
if not pytest.importorskip("PIL.features").check("avif"):
    pytest.skip("this Pillow does not write AVIF", allow_module_level=True)

#: 8 x 6, of 10 and 12 bits, lossless: `deep` says which samples.
DEEP = {
    10: (
        "c-muNU{FXasVqn=%S>Yc0uY^>nP!-"
        "qnV9D5Xy^zO`jnemlE?r78W|}$MNl?FL1uCZ0}{x|OoAE1SCCnf3l?MqV!6zm{A3Wv1;l5Bh%!n6>2)A8Gc)tj;A*9SoKz+#FR{$P&^bRRA8ch"
        "-W<gN_koL|jNX`e+BALYnsZgsqfS3)41qw1NGC=~&TwGj0iYKwm(792;0VE`xoS##amz+}pG?|xyp#dl)o>`C!^BT}$ER0OeEI{VA+?2!;AqFl"
        "E3y!_d8F?8LjOH^6Ffe@mb9hlf;Gz4kyViJJ-z4+K^80`Dwff)X<qotq*6lC4D6nNi;5pB-"
        ")R5lu%VteUer6}DX298;{?O##Del)EAN9<a6fM5owm<76llfV<(<Q4r=Us8>n)Tvu^c2_o693f~%P6hs+Em|GaQ1<*{MV$i?A}k=oTs1Gw!h!("
        "yKQ1)YNyGp7aYeba*y!l+0QC(`KA6w<fWrx%Ga~|gc!R4cXx($"
    ),
    12: (
        "c-muNV30{GsVqn=%S>Yc0uY^>nP!-qnF!*4%1tdvWPkvTjFg-rD4U@mGr5ET3FKrZ!HnQ5$SlbP3o-(+TxL#wGKk{>;xj@-"
        "8O4C~Mv$4AnR#h&wNgM%Dif5KSY}}8oS%~qwlXWTpr`;yduJ9T=L2bx%;JJnsMQ=m%m%~)1(_9@AOU6`9v&dYlUQcx+~|-"
        "15)w|%&ne1F&Zz*J%*(*g02C6>EXaj<4d^fyMy6&KAaiGKN@9r+0~bdG$KK}-&JG+#ix>qM82)Lj5u4a}eCz+RI|93mue*o6-"
        "u3@#OSS6x{u8<PSX>QOm7a|7%Wbp#{nO!L^y`ZcPMq#7J$h-"
        "Yf#*E=X|v}E$A}77U!QvM@Pkt^vDPu_k!=yZc7IcsMOa(U*&5|uebHg@<LW6U1{aR@%DzjQJn7U{@rP%ppI?xE-"
        "=J=rl$t}~3cK%}YY)ym;k59Tt<k#!PbC9lOvKl$FOpj2$=$eIpbY@BXojx"
    ),
}


def deep(bits: int) -> Any:
    y, x = np.mgrid[:6, :8]
    v = np.stack([x * 37 + y * 11, x * 5 + y * 91, x * y * 17], 2) % (1 << bits)
    return (v * 65535 + ((1 << bits) - 1) // 2) // ((1 << bits) - 1)


def smooth(mode: str, seed: int = 0) -> Any:
    y, x = np.mgrid[:37, :50]
    parts = [np.sin(x / (5 + c) + seed) * 60 + np.cos(y / (7 - c)) * 60 + 128 for c in range(4)]
    return Image.fromarray(np.stack(parts, 2).astype(np.uint8), "RGBA").convert(mode)


def save(image: Any, **options: Any) -> bytes:
    out = io.BytesIO()
    image.save(out, "AVIF", **options)
    return out.getvalue()


def pillow(data: bytes, mode: str, frame: int = 0) -> Any:
    image = Image.open(io.BytesIO(data))
    image.seek(frame)
    return np.asarray(image.convert(mode)).astype(int)


@pytest.mark.parametrize("subsampling", ["4:4:4", "4:2:2", "4:2:0", "4:0:0"])
@pytest.mark.parametrize("stored", ["RGB", "RGBA", "L"])
def test_pixels_are_those_of_pillow(stored: str, subsampling: str) -> None:
    data = save(smooth(stored), subsampling=subsampling, quality=80)
    for mode in ("RGB", "RGBA"):
        ours = decode(data, mode=mode)
        assert ours.dtype == np.uint8 and np.abs(ours - pillow(data, mode)).max() <= 1, mode
    assert np.abs(decode(data, mode="GRAY")[..., 0] - pillow(data, "L")).max() <= 1
    assert np.array_equal(decode(data, leat.ops.CenterCrop((11, 20))), decode(data)[13:24, 15:35])
    assert np.array_equal(decode(data, strict=False), decode(data))
    over = decode(data, alpha="blend", background=(10, 200, 30)).astype(int)
    rgba = pillow(data, "RGBA")
    want = (rgba[..., :3] * rgba[..., 3:] + np.array([10, 200, 30]) * (255 - rgba[..., 3:]) + 127) // 255
    assert np.abs(over - want).max() <= 2


@pytest.mark.parametrize("bits", [10, 12])
def test_ten_and_twelve_bits(bits: int) -> None:
    data = zlib.decompress(base64.b85decode(DEEP[bits]))
    assert np.array_equal(decode(data, dtype="uint16"), deep(bits))
    assert np.abs(decode(data) - deep(bits) / 257).max() <= 0.51


@pytest.mark.parametrize("orientation", range(1, 9))
def test_rotation_and_mirroring_are_the_orientation_and_exif_adds_nothing(orientation: int, tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = orientation
    data = save(smooth("RGB"), exif=exif)
    theirs = Image.open(io.BytesIO(data))
    turned = pytest.importorskip("PIL.ImageOps").exif_transpose(theirs)
    with leat.Writer(tmp_path / "one.leat", {"image": "image"}) as w:
        w.add(image=data)
    chain = [leat.ops.Decode(exif=True), leat.ops.CenterCrop((turned.height, turned.width)), leat.ops.ToLayout("NHWC")]
    row = leat.Loader(leat.open(tmp_path / "one.leat"), 1, outputs={"image": chain}, framework="numpy").batch_at(0, 0)
    assert np.abs(row["image"][0] - np.asarray(turned).astype(int)).max() <= 1
    assert np.abs(decode(data) - np.asarray(theirs).astype(int)).max() <= 1


def test_frames_of_a_sequence() -> None:
    frames = [smooth("RGB", seed) for seed in range(4)]
    data = save(frames[0], save_all=True, append_images=frames[1:], quality=90)
    for i in range(4):
        assert np.abs(decode(data, frame=i) - pillow(data, "RGB", i)).max() <= 1, i
    assert "there is no frame 4" in decode(data, frame=4)
    assert "it has 1 image: there is no frame 1" in decode(save(frames[0]), frame=1)


def test_damage_and_bombs_are_errors() -> None:
    data = save(smooth("RGB"))
    assert all(isinstance(w, str) and w.startswith(("AVIF: ", "this looks", "no ")) for w in
               decode_all([data[:n] for n in range(40, len(data) - 1, 61)]))  # fmt: skip
    at = data.index(b"ispe") + 8
    for width, height in ((60000, 60000), (0, 8), (1 << 31, 1)):
        words = decode(data[:at] + width.to_bytes(4, "big") + height.to_bytes(4, "big") + data[at + 8 :])
        assert isinstance(words, str) and words.startswith("AVIF: "), words


def test_folders_and_packing_take_it(tmp_path: Path) -> None:
    folder_and_pack(save(smooth("RGBA")), "avif", [50, 37, 4, 10], tmp_path)


# ---- another libavif: Pillow's wheel has one ---------------------------------------------------


# It takes some seconds, because a library is chosen as a process starts, and all tests of this file run in it.
@pytest.mark.skipif("LEAT_TEST_LIBAVIF" in os.environ, reason="this is that process")
def test_all_of_this_by_the_libavif_of_pillow(tmp_path: Path) -> None:
    """Its structs differ between libavif.so.15, which is 0.11, and libavif.so.16, which is 1.0 and newer."""
    libraries = sorted((Path(Image.__file__).parent.parent / "pillow.libs").glob("libavif-*.so.1[56]*"))
    if not libraries:
        pytest.skip("this Pillow has no libavif of its own")
    number = libraries[0].name.split(".so.")[1].split(".")[0]
    for name in ("libavif.so.15", "libavif.so.16"):
        (tmp_path / name).write_text("no library")
    shutil.copy(libraries[0], tmp_path / f"libavif.so.{number}")
    kept = {k: v for k, v in os.environ.items() if k != "LEAT_REQUIRE_TORCH"}  # nothing here needs it
    env = {**kept, "LD_LIBRARY_PATH": str(tmp_path), "LEAT_TEST_LIBAVIF": str(tmp_path / f"libavif.so.{number}")}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", __file__], env=env, timeout=500, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    assert done.returncode == 0 and " failed" not in done.stdout, done.stdout[-3000:]


@pytest.mark.skipif("LEAT_TEST_LIBAVIF" not in os.environ, reason="the machine's libavif is used")
def test_the_library_is_the_one_that_was_given() -> None:
    decode(save(smooth("RGB")))
    assert os.environ["LEAT_TEST_LIBAVIF"] in Path("/proc/self/maps").read_text()
