"""Made-up samples with every kind of target, and a file of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from photo_support import png

import leat

F = np.float32
Array = np.ndarray[Any, Any]


def to_xyxy(boxes: Array, form: str) -> Array:
    b = boxes.astype(F).copy()
    if form == "cxcywh":
        b[:, :2] -= b[:, 2:] / F(2)
    if form != "xyxy":
        b[:, 2:] += b[:, :2]
    return b


def from_xyxy(boxes: Array, form: str) -> Array:
    b = boxes.astype(F).copy()
    if form != "xyxy":
        b[:, 2:] -= b[:, :2]
    if form == "cxcywh":
        b[:, :2] = (b[:, :2] * F(2) + b[:, 2:]) / F(2)
    return b


class Sample:
    """One made-up sample: an image, class ids as large, boxes, one label per box, three keypoints per box."""

    def __init__(self, i: int, rng: np.random.Generator) -> None:
        self.w, self.h = (int(v) for v in rng.integers(24, 90, 2))
        self.pixels = rng.integers(0, 256, (self.h, self.w, 3), dtype=np.uint8)
        self.ids = rng.integers(0, 21, (self.h, self.w), dtype=np.uint8)
        n = int(rng.integers(0, 6))
        corners = (rng.uniform(0, 1, (n, 2, 2)) * [self.w, self.h]).astype(F)
        self.xyxy = np.concatenate([corners.min(1), corners.max(1)], 1)
        self.label = rng.integers(0, 80, n)
        self.points = np.concatenate(
            [rng.uniform(0, 1, (n, 3, 2)) * [self.w - 1, self.h - 1], rng.integers(0, 3, (n, 3, 1))], 2
        ).astype(F)
        self.points[self.points[..., 2] == 0] = 0
        self.number = i


def write(path: Path, samples: Sequence[Sample], form: str = "xyxy", normalized: bool = False, **options: Any) -> None:
    fields = {
        "image": "image",
        "mask": leat.mask(),
        "boxes": leat.boxes(form, normalized),  # type: ignore[arg-type]
        "label": leat.field("int64", (None,)),
        "points": leat.keypoints(3),
        "number": "int32",
    }
    with leat.Writer(path, fields, **options) as w:
        for s in samples:
            boxes = from_xyxy(s.xyxy, form)
            if normalized:
                boxes /= np.array([s.w, s.h] * 2, F)
            w.add(image=png(s.pixels), mask=png(s.ids), boxes=boxes, label=s.label, points=s.points, number=s.number)
