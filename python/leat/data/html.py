"""Displays of data sets, batches and loaders in a notebook: tables, and thumbnails with boxes.

A face is one piece of HTML without scripts or links. Pictures are PNGs inside of it; boxes and their names are drawn
over them as SVG. Names, texts and errors may come from anywhere, so all of them are escaped.
"""

from __future__ import annotations

import base64
import colorsys
import html
import struct
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import _leat
from . import schema
from .masks import draw_masks
from .schema import Field

PICTURES = 8  #: of a face
SIDE = 170  #: pixels of a thumbnail's longer side
MASKS = 1 << 28  #: pixels of all masks of a thumbnail, at most
#: the first colours of classes, those of `leat view`
COLOURS = [
    "ff3b30", "1e90ff", "34c759", "ffcc00", "af52de", "00c7be", "ff9500", "ff4fa3", "8bd31f", "5856d6",
    "b5651d", "64d2ff", "d7003a", "0b7a3e", "e6c8ff", "7d8b00", "0040dd", "ffb199", "8e8e93", "7a0060",
]  # fmt: skip

DECODE_MASK = '{"operators": {"d": {"type": "Decode"}}, "outputs": {"x": {"fields": ["x"], "chain": ["d"]}}}'
DECODE = (
    '{"operators": {"d": {"type": "Decode"}, "l": {"type": "ToLayout", "layout": "NHWC"}}, '
    '"outputs": {"x": {"field": "x", "chain": ["d", "l"]}}}'
)


def text(value: object, most: int = 200) -> str:
    """As HTML, cut to `most` characters. Control characters, which could turn the writing around, become dots."""
    shown = "".join(c if c.isprintable() else "\u00b7" for c in str(value)[:most])
    return html.escape(shown) + ("\u2026" if len(str(value)) > most else "")


def counted(n: int, what: str) -> str:
    return f"{n:,} {what}" + ("" if n == 1 else "es" if what.endswith("ch") else "s")


def table(head: Sequence[str], rows: Iterable[Sequence[object]], most: int = 200) -> str:
    cells = "".join(f"<th style='text-align:left'>{text(name)}</th>" for name in head)
    body = "".join(
        "<tr>" + "".join(f"<td style='text-align:left'>{text(v, most)}</td>" for v in row) + "</tr>" for row in rows
    )
    return f"<table><thead><tr>{cells}</tr></thead><tbody>{body}</tbody></table>"


# ---- pictures --------------------------------------------------------------------------------------------------------


def png(pixels: np.ndarray[Any, Any]) -> bytes:
    """uint8 (height, width, 3) as a PNG."""
    height, width, _ = pixels.shape
    rows = np.zeros((height, 1 + 3 * width), np.uint8)
    rows[:, 1:] = pixels.reshape(height, -1)

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    data = zlib.compress(rows.tobytes(), 6)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", data) + chunk(b"IEND", b"")


def decoded(value: bytes | np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """A stored photo as uint8 (height, width, 3)."""
    if isinstance(value, bytes):
        chain = _leat.Chain(schema.to_raw({"x": Field("image", "uint8")})[0], DECODE, [])
        value = np.asarray(chain.apply(value, 0, 0))
    return np.broadcast_to(value, (*value.shape[:2], 3)) if value.shape[2] == 1 else value


def _class_ids(value: Any) -> np.ndarray[Any, Any]:
    """(height, width), of a mask as stored or as an array."""
    if isinstance(value, bytes):
        chain = _leat.Chain(schema.to_raw({"x": Field("image", "uint8", role="mask")})[0], DECODE_MASK, [])
        value = np.asarray(chain.apply(value, 0, 0))
    return np.asarray(value).reshape(np.shape(value)[-2:])


def tinted(pixels: np.ndarray[Any, Any], covers: np.ndarray[Any, Any], ink: int) -> None:
    """Blends a colour into the pixels that are covered."""
    shade = np.array([int(colour(ink)[i : i + 2], 16) for i in (0, 2, 4)])
    pixels[covers] = (pixels[covers] * 0.55 + shade * 0.45 + 0.5).astype(np.uint8)


@dataclass
class Targets:
    """The things that are drawn on an image."""

    pixels: np.ndarray[Any, Any]  #: with masks blended in
    boxes: np.ndarray[Any, Any] | None = None  #: (n, 4), two corners in pixels
    points: np.ndarray[Any, Any] | None = None  #: (n, k, 3)
    instances: bool = False  #: there are masks of instances: each has a colour of its own

    def add(self, field: Field, value: Any) -> None:
        """A target of the image by its field: as stored, or as an operator made it."""
        height, width = self.pixels.shape[:2]
        kind = (field.role or "").partition(":")[0]
        if kind == "boxes":
            self.boxes = corners(value, field, width, height)
        elif kind == "keypoints":
            self.points = np.nan_to_num(np.asarray(value, np.float64))
        elif kind == "mask":
            ids = _class_ids(value)
            if ids.shape == (height, width):
                self.pixels = self.pixels.copy()
                for number in np.unique(ids[ids > 0]):
                    tinted(self.pixels, ids == number, int(number) - 1)
        elif kind == "masks":
            if isinstance(value, bytes):
                n = _leat.masks_draw(value, height, width, bytearray())
                if n * height * width > MASKS:
                    raise ValueError(f"{n} masks of {width} x {height} pixels are too many to draw")
            masks = draw_masks(value, height, width) if isinstance(value, bytes) else np.asarray(value)
            if masks.ndim == 3 and masks.shape[1:] == (height, width):
                self.pixels, self.instances = self.pixels.copy(), True
                left = np.ones((height, width), bool)  # the smallest is on top
                for i in np.argsort(masks.astype(bool).sum((1, 2)), kind="stable"):
                    tinted(self.pixels, (masks[i] != 0) & left, int(i))
                    left &= masks[i] == 0


def looks_like_image(shape: Sequence[int]) -> bool:
    sides = [shape] if len(shape) == 2 else [shape[1:]] * (shape[0] in (1, 3)) + [shape[:2]] * (shape[-1] in (1, 3))
    return len(shape) in (2, 3) and any(min(s) >= 8 for s in sides)


def pixels_of(values: Any, normalized: tuple[Sequence[float], Sequence[float]] | None = None) -> np.ndarray[Any, Any]:
    """Numbers that are an image, as uint8 (height, width, 3). Floats beyond 0 to 1 are stretched; `normalized`, a mean
    and a standard deviation, is taken back first.
    """
    value: np.ndarray[Any, Any] = np.asarray(values)
    if value.ndim == 2:
        value = value[None]
    if value.shape[0] in (1, 3) and value.shape[-1] not in (1, 3) or value.shape[0] in (1, 3) and value.shape[1] >= 8:
        value = np.moveaxis(value, 0, -1)
    if value.dtype != np.uint8:
        image = np.nan_to_num(value.astype(np.float64))
        if normalized is not None:
            mean, std = (np.asarray(v, np.float64).reshape(-1) for v in normalized)
            image = (image * std + mean) / (255 if mean.max() > 1 else 1)
        low, high = (0.0, 1.0) if image.min() >= -0.05 and image.max() <= 1.05 else (image.min(), image.max())
        value = (np.clip((image - low) / max(high - low, 1e-12), 0, 1) * 255 + 0.5).astype(np.uint8)
    return np.broadcast_to(value, (*value.shape[:2], 3)) if value.shape[2] == 1 else value


def _smaller(pixels: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """At most SIDE pixels a side: each is the mean of a square."""
    k = -(-max(pixels.shape[:2]) // SIDE)
    height, width = max(pixels.shape[0] // k, 1), max(pixels.shape[1] // k, 1)
    if k == 1 or min(pixels.shape[:2]) < k:
        return pixels[:: max(k, 1), :: max(k, 1)]
    cut = pixels[: height * k, : width * k].reshape(height, k, width, k, 3)
    return np.asarray(cut.mean((1, 3)) + 0.5, np.uint8)


def colour(number: int) -> str:
    if 0 <= number < len(COLOURS):
        return COLOURS[number]
    red, green, blue = colorsys.hsv_to_rgb(number * 0.61803398875 % 1, 0.9, 0.95)
    return f"{int(red * 255):02x}{int(green * 255):02x}{int(blue * 255):02x}"


def corners(boxes: np.ndarray[Any, Any], field: Field, width: int, height: int) -> np.ndarray[Any, Any]:
    """(n, 4) in the format of a field as two corners in pixels."""
    boxes = np.nan_to_num(np.asarray(boxes, np.float64).reshape(-1, 4), posinf=0, neginf=0)
    if field.normalized:
        boxes = boxes * (width, height, width, height)
    kind = (field.role or "").partition(":")[2]
    if kind == "xyxy":
        return boxes
    first = boxes[:, :2] - (boxes[:, 2:] / 2 if kind == "cxcywh" else 0)
    return np.concatenate([first, first + boxes[:, 2:]], 1)


def picture(seen: Targets, caption: str, classes: Any = (), names: Sequence[str] = ()) -> str:
    """A thumbnail. `classes` are those of the boxes; `caption` is HTML."""
    height, width = seen.pixels.shape[:2]
    scale = max(height, width) / SIDE
    drawn, written = [], list[str]()
    taken = list[tuple[float, float, float]]()  # left, right and top of the names, in pixels of the thumbnail
    for i, (x0, y0, x1, y1) in enumerate([] if seen.boxes is None else seen.boxes[:100]):
        number = int(classes[i]) if i < len(classes) else None
        ink = colour(i if number is None or seen.instances else number)
        drawn.append(
            f"<rect x='{x0:.1f}' y='{y0:.1f}' width='{max(x1 - x0, 0):.1f}' height='{max(y1 - y0, 0):.1f}' "
            f"fill='none' stroke='#{ink}' stroke-width='{2 * scale:.2f}'/>"
        )
        if number is not None:
            name = names[number] if 0 <= number < len(names) else str(number)
            wide = 5.8 * min(len(name), 30)
            left, top = max(min(x0 / scale + 3, width / scale - wide), 0), min(max(y0, 0), height) / scale
            if all(left >= r or left + wide <= x or abs(top - y) >= 11 for x, r, y in taken):  # hides no other name
                taken.append((left, left + wide, top))
                written.append(
                    f"<text x='{left * scale:.1f}' y='{(top + 11) * scale:.1f}' font-size='{10 * scale:.1f}' "
                    f"font-family='sans-serif' fill='#{ink}' stroke='#000' stroke-width='{2.5 * scale:.2f}' "
                    f"paint-order='stroke'>{text(name, 30)}</text>"
                )
    for i, object_ in enumerate([] if seen.points is None else seen.points[:100]):
        drawn += [
            f"<circle cx='{x:.1f}' cy='{y:.1f}' r='{2.5 * scale:.2f}' fill='#{colour(i + 3)}' stroke='#000' "
            f"stroke-width='{0.8 * scale:.2f}'/>"
            for x, y, visible in object_
            if visible > 0
        ]
    data = base64.b64encode(png(_smaller(seen.pixels))).decode()
    return (
        "<div style='display:inline-block;margin:4px;vertical-align:top;font-size:small'>"
        f"<svg width='{width / scale:.0f}' height='{height / scale:.0f}' viewBox='0 0 {width} {height}'>"
        f"<image href='data:image/png;base64,{data}' width='{width}' height='{height}' preserveAspectRatio='none'/>"
        f"{''.join(drawn + written)}</svg><div style='max-width:{SIDE}px;overflow-wrap:anywhere'>{caption}</div></div>"
    )


def missing(caption: str, why: object) -> str:
    return (
        f"<div style='display:inline-block;margin:4px;vertical-align:top;font-size:small;width:{SIDE}px'>"
        f"<div style='color:#b00020;overflow-wrap:anywhere'>{text(why, 300)}</div><div>{caption}</div></div>"
    )


# ---- data sets -------------------------------------------------------------------------------------------------------


def _is_picture(field: Field) -> bool:
    if field.role is not None or field.derived:
        return False
    sides = tuple(n or 0 for n in field.shape)
    return field.kind == "image" or field.kind == "array" and field.dtype == "uint8" and looks_like_image(sides)


def _is_label(name: str, field: Field) -> bool:
    named = any(word in name for word in ("label", "class", "category"))
    return named and field.kind == "array" and "int" in field.dtype and not field.derived


def _number(value: object) -> int | None:
    return int(value) if isinstance(value, (int, np.integer)) else None


def _sample(sample: Mapping[str, Any], fields: Mapping[str, Field], number: int, names: Sequence[str]) -> str:
    """Its pictures, the first with the targets."""
    caption = f"#{number}"
    labels = [sample[name] for name, f in fields.items() if _is_label(name, f)]
    single = next((n for n in map(_number, labels) if n is not None), None)
    listed = next((value for value in labels if isinstance(value, np.ndarray) and value.ndim == 1), ())
    if single is not None:
        caption += " " + text(names[single] if 0 <= single < len(names) else single, 40)
    elif isinstance(sample.get("name"), str):
        caption += " " + text(sample["name"].rpartition("/")[2], 40)
    shown = []
    for name, field in fields.items():
        if not _is_picture(field):
            continue
        try:
            pixels = decoded(sample[name]) if field.kind == "image" else pixels_of(np.asarray(sample[name]))
        except Exception as e:  # a broken photo: the face says so
            shown.append(missing(caption, e))
            continue
        height, width = pixels.shape[:2]
        seen = Targets(pixels)
        if not shown:  # targets are of the first picture
            for target, kind in fields.items():
                if kind.role is not None and target in sample:
                    try:
                        seen.add(kind, sample[target])
                    except Exception as e:  # a damaged mask: the picture is shown without it
                        caption += f"<br>{text(target, 40)}: {text(e)}"
        fitting = listed if seen.boxes is not None and len(listed) == len(seen.boxes) else ()
        shown.append(picture(seen, f"{caption}<br>{width} \u00d7 {height}", fitting, names))
    return "".join(shown)


def dataset(ds: Any) -> str:
    fields: dict[str, Field] = ds.schema
    count, names = len(ds), list(ds.classes)
    parts = [f"<div><b>leat.Dataset</b>: {counted(count, 'sample')}</div>"]
    parts.append(table(("field", "type"), ((n, f) for n, f in fields.items() if not f.derived)))
    if names:
        more = ", ..." if len(names) > 12 else ""
        parts.append(f"<div>{len(names)} classes: {text(', '.join(names[:12]) + more)}</div>")
    has_pictures = any(map(_is_picture, fields.values()))
    some = range(min(count, PICTURES if has_pictures else 5))
    rows = []
    for position in (count * i // len(some) for i in some):
        try:
            sample, number = ds[position], int(ds.ids[position])
        except Exception as e:
            parts.append(missing(f"at position {position}", e))
            continue
        if has_pictures:
            parts.append(_sample(sample, fields, number, names))
        else:
            rows.append((number, *(_short(sample[n]) for n, f in fields.items() if not f.derived)))
    if rows:
        parts.append(table(("id", *(n for n, f in fields.items() if not f.derived)), rows))
    return "<div>" + "".join(parts) + "</div>"


def _short(value: Any) -> str:
    if isinstance(value, np.ndarray) and value.size > 6:
        return f"{value.dtype} {value.shape}"
    if isinstance(value, bytes):
        return f"{len(value)} bytes"
    return repr(value)[:80]
