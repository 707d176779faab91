"""JPEGs of kinds that few encoders write: any sampling, any number of bits, lossless. Written from ITU-T T.81."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

ZIGZAG = sorted(range(64), key=lambda i: (i // 8 + i % 8, (i // 8 if (i // 8 + i % 8) % 2 else i % 8)))


class Bits:
    def __init__(self) -> None:
        self.parts: list[str] = []

    def put(self, value: int, count: int) -> None:
        if count:
            self.parts.append(format(value & ((1 << count) - 1), f"0{count}b"))

    def number(self, value: int, code_bits: int, run: int = 0) -> None:
        """A category, under a table of codes of one length, and the bits of the number."""
        category = abs(value).bit_length()
        self.put(run << 4 | category, code_bits)
        if category < 16:
            self.put(value if value >= 0 else value - 1, category)

    def bytes(self) -> bytes:
        text = "".join(self.parts)
        text += "1" * (-len(text) % 8)
        return int("1" + text, 2).to_bytes(len(text) // 8 + 1, "big")[1:].replace(b"\xff", b"\xff\0")


def segment(marker: int, body: bytes) -> bytes:
    return bytes([0xFF, marker]) + (len(body) + 2).to_bytes(2, "big") + body


def table(place: int, code_bits: int, symbols: int) -> bytes:
    """All symbols have codes of the same length, which are the symbols."""
    counts = bytearray(16)
    counts[code_bits - 1] = symbols
    return segment(0xC4, bytes([place]) + bytes(counts) + bytes(range(symbols)))


def head(
    marker: int,
    size: tuple[int, int],
    bits: int,
    sampling: Sequence[tuple[int, int]],
    scan: tuple[int, int],
    adobe: int,
) -> bytes:
    components = b"".join(bytes([i + 1, h << 4 | v, 0]) for i, (h, v) in enumerate(sampling))
    frame = bytes([bits]) + size[0].to_bytes(2, "big") + size[1].to_bytes(2, "big") + bytes([len(sampling)])
    chosen = b"".join(bytes([i + 1, 0]) for i in range(len(sampling)))
    return (
        b"\xff\xd8"
        + segment(0xEE, b"Adobe\0\x64\0\0\0\0" + bytes([adobe]))
        + segment(0xDB, b"\0" + bytes([1] * 64))
        + segment(marker, frame + components)
        + table(0, 5, 17 if marker == 0xC3 else 16)
        + table(0x10, 9, 0xFB)
        + segment(0xDA, bytes([len(sampling)]) + chosen + bytes([*scan, 0]))
    )


def with_dct(
    planes: Sequence[Any], sampling: Sequence[tuple[int, int]], size: tuple[int, int], bits: int = 8, adobe: int = 0
) -> bytes:
    """Each plane is at least as large as its component; all steps of quantisation are 1."""
    most = [max(s[i] for s in sampling) for i in (0, 1)]
    mcus = (-(-size[0] // (8 * most[1])), -(-size[1] // (8 * most[0])))
    k, n = np.mgrid[:8, :8]
    basis = np.cos((2 * n + 1) * k * np.pi / 16) * np.where(k, 0.5, 8**-0.5)
    padded = []
    for plane, (h, v) in zip(planes, sampling, strict=True):
        room = [(0, max(0, mcus[0] * v * 8 - plane.shape[0])), (0, max(0, mcus[1] * h * 8 - plane.shape[1]))]
        padded.append(np.pad(plane.astype(float), room, "edge") - (1 << (bits - 1)))
    out, before = Bits(), [0] * len(planes)
    for my, mx in np.ndindex(*mcus):
        for c, (h, v) in enumerate(sampling):
            for by, bx in np.ndindex(v, h):
                y, x = (my * v + by) * 8, (mx * h + bx) * 8
                block = np.rint(basis @ padded[c][y : y + 8, x : x + 8] @ basis.T).astype(int).ravel()[ZIGZAG].tolist()
                out.number(block[0] - before[c], 5)
                before[c], run = block[0], 0
                for value in block[1:]:
                    if not value:
                        run += 1
                        continue
                    for _ in range(run // 16):
                        out.put(0xF0, 9)
                    out.number(value, 9, run % 16)
                    run = 0
                if run:
                    out.put(0, 9)
    return head(0xC0 if bits == 8 else 0xC1, size, bits, sampling, (0, 63), adobe) + out.bytes() + b"\xff\xd9"


def lossless(pixels: Any, bits: int, predictor: int = 1, adobe: int = 0) -> bytes:
    """`pixels` are (height, width, components)."""
    height, width, components = pixels.shape
    out = Bits()
    rows = pixels.astype(int).tolist()
    for y, x in np.ndindex(height, width):
        for c in range(components):
            a = rows[y][x - 1][c] if x else 0
            b = rows[y - 1][x][c] if y else 0
            ab = rows[y - 1][x - 1][c] if x and y else 0
            if not y:
                guess = a if x else 1 << (bits - 1)
            elif not x:
                guess = b
            else:
                guess = [a, b, ab, a + b - ab, a + ((b - ab) >> 1), b + ((a - ab) >> 1), (a + b) >> 1][predictor - 1]
            difference = (rows[y][x][c] - guess) % 65536
            out.number(difference - 65536 if difference > 32768 else difference, 5)
    return head(0xC3, (height, width), bits, [(1, 1)] * components, (predictor, 0), adobe) + out.bytes() + b"\xff\xd9"
