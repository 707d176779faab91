"""Uncompressed TIFFs of any samples, in strips and tiles, with any tags."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np


def tiff(
    planes: Any,
    *,
    photometric: int = 2,
    bits: int = 8,
    tile: tuple[int, int] | None = None,
    apart: bool = False,
    big: bool = False,
    order: str = "<",
    rows: int | None = None,
    more: dict[int, tuple[int, list[int]]] | None = None,
    pages: int = 1,
) -> bytes:
    """An uncompressed TIFF of samples HWC, of as many pages; page i is the first one plus i."""
    height, width, samples = planes.shape
    word, link = ("Q", 8) if big else ("I", 4)
    out = bytearray((b"II" if order == "<" else b"MM") + struct.pack(order + "H", 43 if big else 42))
    out += struct.pack(order + "HHQ", 8, 0, 0) if big else bytes(4)
    patch = len(out) - link
    for page in range(pages):
        values, parts = planes + page, []
        th, tw = tile or (rows or height, width)
        for plane in [[c] for c in range(samples)] if apart else [list(range(samples))]:
            for y in range(0, height, th):
                for x in range(0, width, tw):
                    part = values[y : y + th, x : x + tw, plane]
                    if tile:
                        part = np.pad(part, ((0, th - part.shape[0]), (0, tw - part.shape[1]), (0, 0)))
                    parts.append(packed(part, bits, order))
        offsets = []
        for part in parts:
            offsets.append(len(out))
            out += part
        tags = {
            256: (4, [width]),
            257: (4, [height]),
            258: (3, [bits] * samples),
            259: (3, [1]),
            262: (3, [photometric]),
            277: (3, [samples]),
            284: (3, [2 if apart else 1]),
            **({322: (4, [tw]), 323: (4, [th])} if tile else {278: (4, [th])}),
            324 if tile else 273: (4, offsets),
            325 if tile else 279: (4, [len(part) for part in parts]),
            **(more or {}),
        }
        entries = []
        for tag, (kind, numbers) in sorted(tags.items()):
            body = struct.pack(order + {3: "H", 4: "I", 7: "B"}[kind] * len(numbers), *numbers)
            if len(body) > link:
                at, body = len(out), body + bytes(len(body) % 2)
                out += body
                body = struct.pack(order + word, at)
            entries.append(struct.pack(order + "HH" + word, tag, kind, len(numbers)) + body.ljust(link, b"\0"))
        out[patch : patch + link] = struct.pack(order + word, len(out))
        out += struct.pack(order + ("Q" if big else "H"), len(entries)) + b"".join(entries)
        patch = len(out)
        out += bytes(link)
    return bytes(out)


def packed(part: Any, bits: int, order: str) -> bytes:
    if bits % 8 == 0:
        return part.astype(part.dtype.newbyteorder(order)).tobytes()  # type: ignore[no-any-return]
    flat = part.reshape(part.shape[0], -1)
    ones = (flat[..., None] >> np.arange(bits - 1, -1, -1) & 1).reshape(flat.shape[0], -1)
    return np.packbits(ones.astype(np.uint8), axis=1).tobytes()
