"""Fields: the named, typed values of a sample."""

from __future__ import annotations

import dataclasses
import struct
from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from .. import _leat, check
from ..errors import InvalidError, MissingNameError

DTYPES = (
    "uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64", "float16", "bfloat16", "float32",
    "float64", "bool",
)  # fmt: skip

# Numbers of enum leat_kind: the library says which kinds there are. Values of BINARY are bytes; of ENCODED, those of a
# codec, such as photos.
KIND_NAMES = dict(enumerate(_leat.kinds(), 1))
KINDS = {name: number for number, name in KIND_NAMES.items() if name != "array"}
ARRAY, STR, JSON = 1, KINDS["str"], KINDS["json"]
BINARY = KINDS.keys() - {"str", "json"}
#: fields with one value per box by their names, as readers of annotations and other libraries name them
OF_A_BOX = frozenset(
    ("label", "labels", "class_labels", "cls", "class_id", "class_ids", "category_id", "category_ids")
    + ("area", "iscrowd", "difficult", "truncated")
)
ENCODED = BINARY - {"bytes"}
# Numbers of enum leat_layout.
LAYOUTS: dict[str | None, int] = {None: 0, "HWC": 1, "CHW": 2}
LAYOUT_NAMES = {number: name for name, number in LAYOUTS.items()}
DERIVED, PIXELS = 1, 4  # LEAT_FIELD_DERIVED, LEAT_FIELD_PIXELS
# Numbers of enum leat_role.
ROLES: dict[str | None, int] = {
    None: 0, "boxes:xyxy": 1, "boxes:xywh": 2, "boxes:cxcywh": 3, "mask": 4, "keypoints": 5, "masks": 6,
    "sparse": 7,
}  # fmt: skip
ROLE_NAMES = {number: name for name, number in ROLES.items()}


def dtype_name(dtype: Any) -> str:
    """The numpy name of a dtype given as a name, a numpy dtype or type, or a torch dtype.

    >>> dtype_name("float32"), dtype_name(bool)
    ('float32', 'bool')
    """
    if isinstance(dtype, str) and dtype in DTYPES:
        return dtype
    if dtype is None:  # numpy would make float64 of it
        raise ValueError(f"a dtype is one of {', '.join(DTYPES)}, not None")
    text = str(dtype)
    if text.startswith("torch."):
        name = text.removeprefix("torch.")
    else:
        try:
            name = np.dtype(dtype).name
        except TypeError:
            name = text
    if name not in DTYPES:
        raise ValueError(f"{dtype!r} is no dtype of leat: one of {', '.join(DTYPES)}")
    return name


@dataclass(frozen=True, repr=False)
class Field:
    """The type of a field. Made by :func:`leat.field`; compared by value.

    Attributes:
        kind: ``"array"`` (scalars too), ``"bytes"``, ``"str"``, ``"json"``, ``"image"`` or ``"sparse"``.
        dtype: of an array and of sparse values, its numpy name (or ``"bfloat16"``); ``"uint8"`` for the other kinds.
        shape: of an array; its first dimension may be None: it varies from sample to sample. ``(n,)`` of sparse rows.
        layout: ``"HWC"`` or ``"CHW"`` of an array of pixels, or None.
        derived: made by leat, such as ``image.width``; outside the fingerprint.
        role: in the image of its sample: ``"boxes:xyxy"`` (or ``xywh``, ``cxcywh``), ``"mask"``, ``"masks"``,
            ``"keypoints"``; or None.
        normalized: of boxes: in units of the image's width and height.
        pairs: of keypoints: the numbers of those that are left and right of each other.
        pixels: of images: some came as pixels, and not as files; no part of the type.
    """

    kind: str
    dtype: str
    shape: tuple[int | None, ...] = ()
    layout: Literal["HWC", "CHW"] | None = None
    derived: bool = False
    role: str | None = None
    normalized: bool = False
    pairs: tuple[tuple[int, int], ...] = ()
    pixels: bool = dataclasses.field(default=False, compare=False)

    def __repr__(self) -> str:
        if self.kind == "sparse" and self.shape:
            return f"sparse({self.dtype!r}, {self.shape[0]})"
        text = repr(self.kind if self.kind != "array" else self.dtype)
        if self.shape:
            text += f", {self.shape}"
        if self.layout:
            text += f", layout={self.layout!r}"
        if self.role is not None:
            kind, _, form = self.role.partition(":")
            inside = repr(form) if form else str(self.shape[1]) if kind == "keypoints" else ""
            inside += f", pairs={list(self.pairs)}" if self.pairs else ""
            return f"{kind}({inside}{', normalized=True' if self.normalized else ''})"
        return f"field({text})" + (" (derived)" if self.derived else "")


def field(dtype: Any, shape: Sequence[int | None] = (), *, layout: Literal["HWC", "CHW"] | None = None) -> Field:
    """The type of a field.

    Args:
        dtype: any numpy dtype name, ``"bfloat16"``, or ``"bytes"``, ``"str"``, ``"json"``, ``"image"`` (an encoded
            photo: the bytes of a file that docs/photos.md lists).
        shape: of one value; the first dimension may be None: it varies from sample to sample.
        layout: ``"HWC"`` or ``"CHW"`` says that an array of 3 dimensions holds pixels.

    Raises:
        ValueError: the dtype is unknown, or shape and layout do not fit it.

    >>> leat.field("float32", (None, 4))
    field('float32', (None, 4))
    >>> leat.field("uint8", (32, 32, 3), layout="HWC")
    field('uint8', (32, 32, 3), layout='HWC')
    """
    if isinstance(dtype, str) and dtype in KINDS:
        if tuple(shape) or layout is not None:
            raise ValueError(f"a field of {dtype!r} has neither a shape nor a layout")
        return Field(dtype, "uint8")
    try:
        name = dtype_name(dtype)
    except ValueError as e:
        raise ValueError(f"{e}; or {', '.join(map(repr, KINDS))}") from None
    if isinstance(shape, int):
        raise ValueError(f"shape is a tuple: ({shape},)")
    if isinstance(shape, str) or not isinstance(shape, Iterable):
        raise TypeError(f"shape is a tuple of integers, not {shape!r:.60}")
    dims = tuple(None if n is None else check.integer("a dimension", n, 1) for n in shape)
    if any(n is None for n in dims[1:]):
        raise ValueError(f"of the shape {dims} only the first dimension may be None")
    if len(dims) > 8:
        raise ValueError(f"the shape {dims} has more than 8 dimensions")
    if layout not in LAYOUTS:
        raise ValueError(f"layout is 'HWC', 'CHW' or None, not {layout!r}")
    if layout is not None and len(dims) != 3:
        raise ValueError(f"a field with layout {layout!r} has 3 dimensions, not {len(dims)}")
    return Field("array", name, dims, layout)


#: the names of formats of boxes in other libraries
BOX_FORMATS = {
    "pascal_voc": "'xyxy'",
    "coco": "'xywh'",
    "yolo": "'cxcywh' with normalized=True",
    "albumentations": "'xyxy' with normalized=True",
}


def box_format(format: Any) -> str:
    """``"xyxy"``, ``"xywh"`` or ``"cxcywh"``; torchvision's ``BoundingBoxFormat`` and upper case will do."""
    word = str(getattr(format, "value", format)).lower()
    if f"boxes:{word}" not in ROLES:
        more = f": that is {BOX_FORMATS[word]}" if word in BOX_FORMATS else ""
        raise ValueError(f"format is 'xyxy', 'xywh' or 'cxcywh', not {format!r}{more}")
    return word


def boxes(format: Literal["xyxy", "xywh", "cxcywh"] = "xyxy", normalized: bool = False) -> Field:
    """A field of boxes around objects in the image of the sample: float32, any number of rows of four numbers.

    The chain of a tuple of fields moves them with the image (``docs/targets.md``).

    Args:
        format: ``"xyxy"`` (two corners), ``"xywh"`` (upper left corner, width, height) or ``"cxcywh"`` (centre, width,
            height).
        normalized: in units of the image's width and height; else in pixels of the decoded image.

    >>> leat.boxes("xywh")
    boxes('xywh')
    """
    role, normalized = f"boxes:{box_format(format)}", check.flag("normalized", normalized)
    return Field("array", "float32", (None, 4), role=role, normalized=normalized)


def mask() -> Field:
    """A field of masks: an encoded PNG, gray or with a palette, of class ids, as large as the image of the sample.

    >>> leat.mask()
    mask()
    """
    return Field("image", "uint8", role="mask")


def masks() -> Field:
    """A field of masks, one per instance, as polygons or runs: ``Writer`` takes the arguments of
    :func:`leat.encode_masks`.

    Pixels are made of them only on request: by the chain of a tuple with the image and boxes, which gives a ragged
    uint8 tensor of shape (n, height, width), or by :func:`leat.draw_masks`.

    >>> leat.masks()
    masks()
    """
    return Field("bytes", "uint8", role="masks")


def keypoints(k: int, pairs: Iterable[tuple[int, int]] = ()) -> Field:
    """A field of keypoints, float32 (None, k, 3): k times x, y (pixels) and visibility (0: not labelled) per instance.

    Whole numbers are the middles of pixels: (0, 0) is that of the first one. Operators keep a point at its pixel.

    Args:
        k: how many an instance has, the same for all.
        pairs: the numbers, from 0, of those that are left and right of each other, each in one pair at most. Operators
            that mirror the image exchange them, so that a left eye stays one (``docs/targets.md``).

    Raises:
        TypeError: a number is no integer, or `pairs` no list of pairs.
        ValueError: a pair is not of two keypoints that there are, or one of them is in another pair.

    >>> leat.keypoints(17)
    keypoints(17)
    >>> leat.keypoints(3, pairs=[(1, 2)])
    keypoints(3, pairs=[(1, 2)])
    """
    k = check.integer("k", k, 1)
    taken: set[int] = set()
    both: list[tuple[int, int]] = []
    listed: list[Any] | None = (
        list(pairs) if isinstance(pairs, Iterable) and not isinstance(pairs, (str, bytes, Mapping)) else None
    )
    if listed is None:
        raise TypeError(f"pairs is a list of pairs of keypoints, such as [(1, 2), (3, 4)], not {pairs!r:.60}")
    for pair in listed:
        if isinstance(pair, (str, bytes)) or not hasattr(pair, "__len__") or len(pair) != 2:
            hint = ""
            if len(listed) == k and all(hasattr(n, "__index__") for n in listed):  # Ultralytics' flip_idx
                swapped = [(i, int(n)) for i, n in enumerate(listed) if i < n]
                hint = f": of a list that says for each keypoint which one it becomes, pairs={swapped}"
            raise ValueError(f"a pair of keypoints is two of their numbers, not {pair!r:.60}{hint}")
        a, b = (check.integer("a keypoint of a pair", point, 0) for point in pair)
        if max(a, b) >= k:
            raise ValueError(f"the pair {(a, b)} has a keypoint beyond the last one, number {k - 1}")
        if max(a, b) >= 1 << 16:
            raise ValueError(f"the pair {(a, b)} has a keypoint beyond number {(1 << 16) - 1}, the last one of a pair")
        if a == b:
            raise ValueError(f"the pair {(a, b)} is one keypoint: leave out those that stay themselves")
        if {a, b} & taken:
            raise ValueError(f"the pair {(a, b)} has a keypoint that is in a pair already")
        taken |= {a, b}
        both.append((a, b))
    return Field("array", "float32", (None, k, 3), role="keypoints", pairs=tuple(both))


def sparse(dtype: Any, n: int) -> Field:
    """A field of sparse rows: any number of values, each in another of `n` columns. A sample has a
    :class:`leat.Sparse` of one row, a batch one of all its rows.

    Args:
        dtype: of the values.
        n: the number of columns, at most 2^31 - 1.

    Raises:
        ValueError: the dtype is unknown, or bfloat16, or `n` is out of range.

    >>> leat.sparse("float32", 24000)
    sparse('float32', 24000)
    """
    if (name := dtype_name(dtype)) == "bfloat16":
        raise ValueError("sparse values are of a dtype that NumPy has, such as float16 or float32, not bfloat16")
    return Field("sparse", name, (check.integer("n", n, 1, 1 << 31),))


def held(dtype: str) -> np.dtype[Any]:
    """The dtype by which NumPy holds the bytes of values: uint16 for bfloat16, which NumPy lacks."""
    return np.dtype("uint16" if dtype == "bfloat16" else dtype)


def as_field(value: Any) -> Field:
    """A Field, or a dtype argument of :func:`leat.field`."""
    return value if isinstance(value, Field) else field(value)


#: what the argument `fields` of leat.open takes: names, or what each is, None as it is found
Wanted = Sequence[str] | Mapping[str, Any]


def wanted(fields: Wanted | None) -> dict[str, Field | None] | None:
    """The fields that are asked for, each with what it is said to be; None: all.

    >>> wanted({"x": "image", "vec": field("float32", (3,)), "y": None})
    {'x': field('image'), 'vec': field('float32', (3,)), 'y': None}
    """
    if fields is None:
        return None
    names = list(fields) if isinstance(fields, Mapping) else check.names("fields", fields)
    for name in names:
        if names.count(name) > 1:
            raise InvalidError(f'fields names "{name}" twice')
    given: Mapping[str, Any] = fields if isinstance(fields, Mapping) else dict.fromkeys(names)
    if not given:
        raise InvalidError("fields is empty: name some, or leave it out")
    said: dict[str, Field | None] = {}
    for name, kind in given.items():
        check.text("a name in fields", name)
        try:
            said[name] = None if kind is None else as_field(kind)
        except (TypeError, ValueError) as e:
            raise type(e)(f"fields says of {name!r} what no field is: {e}") from None
    return said


def no_field_text(where: str, name: str, there: Iterable[str], what: str = "") -> str:
    """The text of an error of a field that is not there, as src/base/known.c words it: `where` is the file, `what`
    follows the name.
    """
    known = list(there)
    near = _leat.nearest(name, known)
    meant = f': did you mean "{near}"? It has ' if near else ": it has "
    return f'{where} has no field "{name}"{what}{meant}{_cut(", ".join(known)) or "none"}'


def missing_field(where: str, name: str, there: Iterable[str], what: str = "") -> MissingNameError:
    error = MissingNameError(no_field_text(where, name, there, what))
    error.code, error.field = "LEAT_E_NOT_FOUND", name
    return error


def _cut(text: str) -> str:
    return text if len(text) <= 200 else f"{text[:120]}...{text[-77:]}"


def no_field(path: str, name: str, there: Iterable[str] = ()) -> InvalidError:
    """The error of a name in `fields` that a source does not have."""
    return InvalidError(no_field_text(path, name, there, ", which fields names"))


def compare_said(found: Mapping[str, Field], said: Mapping[str, Field | None] | None) -> None:
    """Refuses what is said of fields that are otherwise, of formats whose fields have types of their own."""
    for name, one in (said or {}).items():
        if one is None or name not in found:
            continue
        there = found[name]
        if (there.kind, there.dtype, there.shape) != (one.kind, one.dtype, one.shape):
            raise InvalidError(f"fields says of {name!r} that it is {one}, and it is {there}")


Raw = tuple[str, int, str, int, tuple[int, ...], int, bool, bytes, str, int, int]


def pixels_packed(pixels: np.ndarray[Any, Any], orientation: int = 1) -> bytes:
    """A photo as pixels, (height, width, channels), as files of leat hold it: docs/format.md."""
    height, width, channels = pixels.shape
    return struct.pack("<4sIIBBH", b"\x89RAW", width, height, channels, orientation, 0) + pixels.tobytes()


def step_of(field: Field) -> int:
    """The bytes of a value and its column in a sparse row."""
    return held(field.dtype).itemsize + 4


def to_raw(fields: Mapping[str, Field], derived: bool = False) -> list[Raw]:
    """As the extension module takes them. `derived`: those that are derived stay so."""
    return [_raw(check.text("the name of a field", name), f, derived) for name, f in fields.items()]


def of_copy(fields: Mapping[str, Field]) -> dict[str, Field]:
    """The fields that a copy of a data set is written with: what a writer derives of photos is left out, and neither
    names nor what is missing. As cli/pack.c.

    >>> list(of_copy({"x": field("int64"), "x.valid": Field("array", "bool", derived=True)}))
    ['x', 'x.valid']
    """
    return {n: f for n, f in fields.items() if not f.derived or n == "name" or says_missing(n, fields)}


def says_missing(name: str, fields: Mapping[str, Field]) -> bool:
    """Whether a field says which samples have a value of another one: ``year.valid`` of ``year``."""
    f, of = fields[name], name.removesuffix(".valid")
    return of != name and of in fields and (f.kind, f.dtype, f.shape) == ("array", "bool", ())


def wanted_raw(fields: Mapping[str, Field | None] | None) -> list[Raw]:
    """What is asked for as the extension module takes it: of a field that is as it is found, the kind 0."""
    found = Field("bytes", "uint8")
    return (
        [
            (raw[0], 0, *raw[2:]) if fields[raw[0]] is None else raw
            for raw in to_raw({n: found if f is None else f for n, f in fields.items()})
        ]
        if fields
        else []
    )


def _raw(name: str, f: Field, derived: bool) -> Raw:
    if f.kind == "sparse":
        return (name, ARRAY, "uint8", 0, (-1, step_of(f)), ROLES["sparse"], False, b"", f.dtype, f.shape[0] or 0, 0)
    return (
        name,
        KINDS.get(f.kind, ARRAY),
        f.dtype,
        LAYOUTS[f.layout],
        tuple(-1 if n is None else n for n in f.shape),
        ROLES[f.role],
        f.normalized,
        array("H", [point for pair in f.pairs for point in pair]).tobytes(),
        "uint8",
        0,
        (PIXELS if f.pixels else 0) | (DERIVED if derived and f.derived else 0),
    )


def from_raw(
    raw: tuple[str, int, str, int, int, tuple[int, ...], int, bool, bytes, str, int],
) -> tuple[str, Field]:
    """From the extension module's description."""
    name, kind, dtype, layout, flags, shape, role, normalized, pairs, item, columns = raw
    if columns:
        return name, Field("sparse", item, (columns,), derived=bool(flags & DERIVED))
    points = array("H", pairs)
    return (
        name,
        Field(
            KIND_NAMES[kind],
            dtype,
            tuple(None if n < 0 else n for n in shape) if kind == ARRAY else (),
            LAYOUT_NAMES[layout],  # type: ignore[arg-type]
            bool(flags & DERIVED),
            ROLE_NAMES.get(role),
            normalized,
            tuple(zip(points[::2], points[1::2], strict=True)),
            bool(flags & PIXELS),
        ),
    )
