"""Masks of instances: how a value of :func:`leat.masks` is written and read (``docs/format.md``)."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .. import _leat, check

_NONE, _CENTS, _PIXELS, _RUNS = 0, 1, 2, 4


def draw_masks(value: bytes, height: int, width: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """The masks of one sample as pixels: uint8 (n, height, width), 1 inside of an instance and 0 outside.

    Polygons become the pixels that the COCO API makes of them.

    Args:
        value: ``ds[i]["masks"]``, of a field of :func:`leat.masks`.
        height, width: of the image. Runs have a size of their own, which must be this one.

    Raises:
        ValueError: the value is damaged, or of an image of another size (:class:`leat.BrokenSampleError`).

    >>> square = leat.encode_masks([[[0, 0, 2, 0, 2, 2, 0, 2]]])
    >>> leat.draw_masks(square, 2, 4).tolist()
    [[[1, 1, 0, 0], [1, 1, 0, 0]]]
    """
    height, width = check.integer("height", height, 1, 1 << 31), check.integer("width", width, 1, 1 << 31)
    pixels = np.empty((_leat.masks_draw(value, height, width, bytearray()), height, width), np.uint8)
    _leat.masks_draw(value, height, width, pixels)
    return pixels


def encode_masks(instances: Sequence[Any]) -> bytes:
    """The value of a field of :func:`leat.masks` for one sample; :class:`leat.Writer` calls it for lists.

    Args:
        instances: one per instance: a list of polygons, each a list of coordinates ``[x0, y0, x1, y1, ...]`` in pixels;
            a dict of uncompressed runs as in COCO, ``{"size": [height, width], "counts": [...]}``; an array (height,
            width), not 0 inside; or None.

    Raises:
        ValueError: a polygon has fewer than three points or an odd number of coordinates; runs do not fill their size.

    >>> len(leat.encode_masks([None, np.eye(3)]))
    15
    """
    records = [_record(i, one) for i, one in enumerate(instances)]
    return b"".join((b"\x01", _varint(len(records)), *(_varint(len(r)) + r for r in records)))


def count_masks(value: Any) -> int | None:
    """How many masks a value says that it has; None if it is damaged, which decoding finds."""
    n = 0
    for i, byte in enumerate(bytes(value[1:6]) if bytes(value[:1]) == b"\x01" else b""):
        n |= (byte & 127) << 7 * i
        if byte < 128:
            return n
    return None


def _varint(n: int) -> bytes:
    out = bytearray()
    while n > 127:
        out.append(n & 127 | 128)
        n >>= 7
    out.append(n)
    return bytes(out)


def _record(i: int, one: Any) -> bytes:
    if one is None:
        return bytes([_NONE])
    if isinstance(one, Mapping):
        (height, width), counts = one["size"], one["counts"]
        if isinstance(counts, (str, bytes)):
            raise ValueError(f"the runs of instance {i} are compressed: give them as a list of counts")
        return _runs(i, height, width, [int(n) for n in counts])
    if hasattr(one, "shape"):
        pixels = np.asarray(one)
        if pixels.ndim != 2:
            raise ValueError(f"the mask of instance {i} has the shape {pixels.shape}: it is (height, width)")
        if pixels.dtype.kind == "f" and not np.isin(pixels, (0, 1)).all():
            raise ValueError(
                f"the mask of instance {i} has other numbers than 0 and 1: say which pixels it has (mask > 0.5)"
            )
        flat = np.concatenate([[False], pixels.astype(bool).ravel(order="F")])
        turns = np.flatnonzero(np.diff(flat))
        return _runs(i, pixels.shape[0], pixels.shape[1], np.diff([0, *turns, pixels.size]).tolist())
    polygons = [np.asarray(p, np.float64).reshape(-1) for p in one]
    for p in polygons:
        if p.size < 6 or p.size % 2 or not (np.abs(p) < 2**20).all():
            raise ValueError(
                f"a polygon of instance {i} has {p.size} coordinates: it needs x and y of three points or more, each "
                "below 2^20"
            )
    cents = [np.rint(p * 100).astype(np.int64) for p in polygons]
    if all(np.array_equal(c / 100, p) for c, p in zip(cents, polygons, strict=True)):
        last = np.zeros(2, np.int64)
        out = bytearray([_CENTS]) + _varint(len(polygons))
        for c in cents:
            steps = np.diff(np.concatenate([last[None], c.reshape(-1, 2)]), axis=0).ravel()
            last = c[-2:]
            out += _varint(c.size // 2) + b"".join(_varint(int(d << 1 ^ d >> 63)) for d in steps)
        return bytes(out)
    numbers = b"".join(_varint(p.size // 2) + struct.pack(f"<{p.size}d", *p) for p in polygons)
    return bytes([_PIXELS]) + _varint(len(polygons)) + numbers


def _runs(i: int, height: int, width: int, counts: list[int]) -> bytes:
    if min(counts, default=0) < 0 or sum(counts) != height * width:
        raise ValueError(f"the runs of instance {i} have {sum(counts)} pixels, and their size {height} x {width}")
    return bytes([_RUNS]) + b"".join(_varint(n) for n in (height, width, len(counts), *counts))
