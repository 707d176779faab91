"""Every odd photo of LEAT_DATA: the pixels of Pillow, or a clear error, or what these tables say, with its reason.

What is expected of a file follows from what Pillow makes of it. The files that differ are named below.
"""

from __future__ import annotations

import ctypes
import functools
import io
import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from photo_support import decode_all

Image: Any = pytest.importorskip("PIL.Image")

SUITE = "jpeg-rs-crashtest/imagetestsuite/"
#: Pillow decodes them although its decoder warns or a checksum is wrong. They are broken, and decoded by strict=False.
DAMAGED = {
    "jpeg-rs-crashtest/dc-predictor-overflow.jpg": "premature end",
    f"{SUITE}1cbb1bb37d62c44f67374cd451643dc4.jpg": "premature end",
    f"{SUITE}28c74d9284d9836017fd519f6932efd8.jpg": "extraneous bytes",
    f"{SUITE}5482a54657765056f1a94116a8dbffe7.jpg": "extraneous bytes",
    f"{SUITE}7997b6b229f25315d33f5c7085e37500.jpg": "premature end",
    f"{SUITE}b55977028a3a574336966b6536640fc9.jpg": "extraneous bytes",
    f"{SUITE}f6b4389c3cf0f5997b2e5a4b905aea8d.jpg": "extraneous bytes",
    "jpeg-rs-crashtest/subtract-with-overflow.jpg": "extraneous bytes",
    "jpeg-rs-reftest/extraneous-data.jpg": "extraneous bytes",
    "jpeg-rs-reftest/mjpeg.jpg": "extraneous bytes",
    "jpeg-rs-reftest/progressive-missing-dc.jpg": "progression",
    "pillow-jpeg/hopper_bad_exif.jpg": "extraneous bytes",
    "pillow-jpeg/jpeg_ff00_header.jpg": "extraneous bytes",
    "pillow-jpeg/photoshop-200dpi-broken.jpg": "extraneous bytes",
    "pillow-jpeg/truncated_app14.jpg": "extraneous bytes",
    "pngsuite/bugfixes/x_interlaced_chck.png": "checksum",
    "pngsuite/pngsuite/xcsn0g01.png": "checksum",
}
#: Of these the rest is missing, and libjpeg-turbo 3, which Pillow has, fills it otherwise than version 2.1.
FILLED = {f"{SUITE}f6b4389c3cf0f5997b2e5a4b905aea8d.jpg"}
#: Pillow refuses them, and leat reads them.
ONLY_LEAT = {
    "pillow-other/apng/chunk_no_fctl.png": "an animation that is not in order, behind a first image that is",
    "pillow-other/bmp/q/pal8oversizepal.bmp": "a palette of 300 colours, of which an index has 256",
    "pillow-other/png_decompression_dos.png": "a large comment, which leat skips",
}
#: Pillow refuses what leat decodes with strict=False: a JPEG that ends too early for Pillow, and not for libjpeg-turbo;
#: a PNG whose wrong checksum Pillow looks at, too.
LENIENT = {
    *(
        f"{SUITE}{name}.jpg"
        for name in (
            "194531363df5b73f59c4c0517422f917",
            "2c9e7a1805f8b47630bbb83d21bf8222",
            "79f5fc6bca756e1f067c6fc83e18b32e",
            "8546907dbe574744d7fea6ca9de1de6b",
            "8a9cc8eeed66aeb423a91c44111d9450",
            "9efd60f04cd971daa83d3131e6d6f389",
            "a7326ba8f3f4559991126474dd30083d",
            "b4103df93880fc5677c2a081e4bfc712",
            "eecb78b937a7c5f04aae2f5b0f5b5acc",
            "fd44dc63fa7bdd12ee34fc602231ef02",
        )
    ),
    "pillow-jpeg/ultrahdr.jpg",
    "pngsuite/bugfixes/cicp_pq.png",
    "pngsuite/bugfixes/issue#430.png",
}
#: 12 bits or lossless: Pillow refuses them, and leat reads them with libjpeg-turbo 3, which the error names without.
NEED_LIBJPEG_3 = {
    "jpeg-rs-reftest/lossless/1/jpeg_lossless_sel1.jpg",
    "jpeg-rs-reftest/lossless/1/jpeg_lossless_sel4.jpg",
    "jpeg-rs-reftest/lossless/1/jpeg_lossless_sel6.jpg",
    "jpeg-rs-reftest/lossless/1/jpeg_lossless_sel7.jpg",
    "jpeg-rs-reftest/lossless/2/MR4.jpg",
    "libjpeg-turbo/monkey12.jpg",
}
#: Formats that libraries decode which are loaded when they are needed: without the library the error names it.
LOADED = {"TIFF": "libtiff.so.6"}
#: What an error says of a file that is no good photo, or of no format that leat reads.
CLEAR = re.compile(
    r"^(JPEG|PNG|WebP|BMP|PNM|GIF|TIFF): .*(the photo is damaged: replace it, or leave it out|convert|shrink)"
    r"|^this looks like .*: convert it to PNG, or leave it out"
    r"|^no .*: its \d+ bytes begin with .*; replace it, or leave it out"
    r"|^the photo is empty"
)


@functools.cache
def there(library: str) -> bool:
    try:
        ctypes.CDLL(library)
    except OSError:
        return False
    return True


class Verdict:
    """What Pillow and leat make of a file."""

    def __init__(self, data: bytes) -> None:
        self.format, self.mode, self.pixels = None, None, None
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                image = Image.open(io.BytesIO(data))
                self.format, self.mode = image.format, image.mode
                # of 16 bits a conversion would clip what is above 255
                deep = self.mode.startswith("I") and not (self.mode == "I" and self.format == "TIFF")
                self.pixels = np.asarray(image if deep else image.convert("RGB"))
        except Exception as e:  # whatever a decoder of Pillow's raises
            self.words = str(e)

    def equals(self, ours: Any, tolerance: int = 0) -> bool:
        if isinstance(ours, str) or self.pixels is None:
            return False
        theirs = self.pixels
        if theirs.ndim == 2:
            theirs = np.repeat((theirs >> 8).astype(np.uint8)[..., None], 3, 2)
        return ours.shape == theirs.shape and int(np.abs(ours.astype(int) - theirs).max(initial=0)) <= tolerance


@pytest.fixture(name="odd", scope="module")
def odd_fixture(data_dir: Path) -> Iterator[dict[str, bytes]]:
    root = data_dir / "odd-images"
    if not root.is_dir():
        pytest.skip(f"no folder {root}")
    yield {str(p.relative_to(root)): p.read_bytes() for p in sorted(root.rglob("*")) if p.is_file()}


def expected(name: str, pillow: Verdict) -> str:
    if name in DAMAGED:
        return "damaged"
    if pillow.format in LOADED and not there(LOADED[pillow.format]):
        return "no library"
    if pillow.pixels is not None:
        return "same"
    if name in NEED_LIBJPEG_3:
        return "libjpeg-turbo 3"
    return "only leat" if name in ONLY_LEAT else "lenient" if name in LENIENT else "refused"


def found(name: str, pillow: Verdict, strict: Any, lenient: Any) -> str:
    """Which of the classes of `expected` the file is in, or what is wrong."""
    refuses = isinstance(strict, str)
    if refuses and not CLEAR.search(strict):
        return f"an error that is not clear: {strict}"
    if refuses and LOADED.get(pillow.format, "?") in strict:
        return "no library"
    if name in NEED_LIBJPEG_3 and ("libjpeg-turbo 3" in strict if refuses else np.array_equal(strict, lenient)):
        return "libjpeg-turbo 3"
    if pillow.equals(strict) and pillow.equals(lenient):
        return "same"
    if pillow.equals(lenient, 2 if name in FILLED else 0) and refuses and DAMAGED.get(name, "?") in strict:
        return "damaged"
    if pillow.pixels is None and refuses:
        return "refused" if isinstance(lenient, str) else "lenient"
    if pillow.pixels is None and np.array_equal(strict, lenient):
        return "only leat"
    return f"Pillow: {pillow.mode}; strict: {strict!r:.100}; lenient: {lenient!r:.100}"


# It takes some seconds, because each of 600 files is decoded three times: by Pillow, strictly, and leniently.
def test_every_file_is_as_the_tables_say(odd: dict[str, bytes]) -> None:
    assert len(odd) > 600 and not (DAMAGED.keys() | ONLY_LEAT.keys() | LENIENT | NEED_LIBJPEG_3) - odd.keys()
    ours = zip(decode_all(list(odd.values())), decode_all(list(odd.values()), strict=False), strict=True)
    wrong = {}
    for (name, data), (strict, lenient) in zip(odd.items(), ours, strict=True):
        pillow = Verdict(data)
        if (verdict := found(name, pillow, strict, lenient)) != expected(name, pillow):
            wrong[name] = (expected(name, pillow), verdict)
    assert not wrong, "\n".join(f"{k}: expected {e}, found {f}" for k, (e, f) in wrong.items())
