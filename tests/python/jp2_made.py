"""JPEG 2000 for tests: two files as they are, and what Pillow writes, in a container of one's own.

Importing this needs no Pillow; where it does not write JPEG 2000, `save` and `contained` skip the test.
"""

from __future__ import annotations

import base64
import zlib
from typing import Any

import photo_support
import pytest


def unpacked(text: str) -> bytes:
    return zlib.decompress(base64.b85decode(text))


#: 16 x 12 in sYCC whose colours have half the size; and 16 x 12 of signed bytes, 7 x - 50, without a container.
YCC = unpacked(
    "c-muNVBpCLP*C9IYUg5LU=T?wsVvAUFj4@r8KAT-kj?<oVwo8!ML?Pdhy@s!+1WvA82FR(bBY+jOd%lt2vnT>-"
    "~WFggFaYH0IC57Q2EU4jEw9|OhEKM2rSIVz{tYF!1zCgf!)Eu!z18-3WF*GqjOPeVo7R>LQ<uIe?e-"
    "VSAeU#LRo52ab|v=f{~u7p27bK3|wFX%Yb?(-*1c%(va-mskS|oHSb=V`>*^5URP$TTm12r4*cB_{$OeJ;@}mZUTSUL_1I?W?ekj<IQ_OeT<~-"
    ">&Xavxe}0P!`_jM^k+6>w*bn?<I#8q7U^eH^=KT(R3<p2AFi3w{%D>>}AqJkk9d7?`0sxhoS=R"
)
SIGNED = unpacked(
    "c-s5#|38pHlK}(-fS88?0Z{pj?Tn27gTMle42&!+42=I{7}y;gJUjyar!c58Fgh2dCYGe8C?r)X_!p$+c?Gz-"
    "E0m=c6=&w>DH!RQ>KXi>z`zAI$`q(~^6@KHg8uFNaUrQUYQ@ZJN>6jKicgr$p!?~vvY~mz+wcQ5iVbFSe*V7+0C!p`i~"
)


def save(pixels: Any, **options: Any) -> bytes:
    if not pytest.importorskip("PIL.features").check("jpg_2000"):
        pytest.skip("this Pillow does not write JPEG 2000")
    return photo_support.save(pixels, "JPEG2000", **options)


def box(kind: bytes, *body: bytes) -> bytes:
    data = b"".join(body)
    return (len(data) + 8).to_bytes(4, "big") + kind + data


def contained(pixels: Any, space: int | bytes, *more: bytes) -> bytes:
    """A JP2 of a codestream, with boxes of its own; its colours are a number or an ICC profile."""
    height, width, components = pixels.shape
    size = height.to_bytes(4, "big") + width.to_bytes(4, "big")
    head = box(b"ihdr", size, bytes([0, components, 7, 7, 0, 0]))
    colour = box(b"colr", b"\2\0\0", space) if isinstance(space, bytes) else box(b"colr", b"\1\0\0", space.to_bytes(4))
    start = box(b"jP  ", b"\r\n\x87\n") + box(b"ftyp", b"jp2 \0\0\0\0jp2 ")
    stream = save(pixels, no_jp2=True)
    return start + box(b"jp2h", head, colour, *more) + box(b"jp2c", stream)
