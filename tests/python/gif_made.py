"""A GIF of frames anywhere, which Pillow does not write."""

from __future__ import annotations

from typing import Any

CODE_BITS = 7  # then a code is a byte for as long as fewer than 126 follow one that clears the table
CLEAR, END = 128, 129


def gif(width: int, height: int, *frames: tuple[int, int, Any]) -> bytes:
    """A canvas, and (x, y, indices below 128 of at most 120 columns) of each frame; index i is (2 i, i, 255 - i)."""
    made = b"GIF89a" + _short(width, height) + bytes([0x80 | CODE_BITS - 1, 0, 0])
    made += bytes(v for i in range(128) for v in (2 * i, i, 255 - i))
    for x, y, indices in frames:
        made += b"," + _short(x, y, indices.shape[1], indices.shape[0]) + bytes([0, CODE_BITS])
        for row in indices.tolist():
            made += bytes([len(row) + 1, CLEAR, *row])
        made += bytes([1, END, 0])
    return made + b";"


def _short(*numbers: int) -> bytes:
    return b"".join(n.to_bytes(2, "little") for n in numbers)
