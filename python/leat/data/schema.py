"""Fields: the named, typed values of a sample."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from .. import _leat, check

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
ENCODED = BINARY - {"bytes"}
# Numbers of enum leat_layout.
LAYOUTS: dict[str | None, int] = {None: 0, "HWC": 1, "CHW": 2}
LAYOUT_NAMES = {number: name for name, number in LAYOUTS.items()}
DERIVED = 1
# Numbers of enum leat_role.
ROLES: dict[str | None, int] = {None: 0, "boxes:xyxy": 1, "boxes:xywh": 2, "boxes:cxcywh": 3, "mask": 4, "keypoints": 5}
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
        import numpy as np

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
        kind: ``"array"`` (scalars too), ``"bytes"``, ``"str"``, ``"json"`` or ``"image"``.
        dtype: of an array, its numpy name (or ``"bfloat16"``); ``"uint8"`` for the other kinds.
        shape: of an array; its first dimension may be None: it varies from sample to sample.
        layout: ``"HWC"`` or ``"CHW"`` of an array of pixels, or None.
        derived: made by leat, such as ``image.width``; outside the fingerprint.
        role: in the image of its sample: ``"boxes:xyxy"`` (or ``xywh``, ``cxcywh``), ``"mask"``, ``"keypoints"``; or
            None.
        normalized: of boxes: in units of the image's width and height.
    """

    kind: str
    dtype: str
    shape: tuple[int | None, ...] = ()
    layout: Literal["HWC", "CHW"] | None = None
    derived: bool = False
    role: str | None = None
    normalized: bool = False

    def __repr__(self) -> str:
        text = repr(self.kind if self.kind != "array" else self.dtype)
        if self.shape:
            text += f", {self.shape}"
        if self.layout:
            text += f", layout={self.layout!r}"
        if self.role is not None:
            kind, _, form = self.role.partition(":")
            inside = repr(form) if form else str(self.shape[1]) if kind == "keypoints" else ""
            return f"{kind}({inside}{', normalized=True' if self.normalized else ''})"
        return f"field({text})" + (" (derived)" if self.derived else "")


def field(dtype: Any, shape: Sequence[int | None] = (), *, layout: Literal["HWC", "CHW"] | None = None) -> Field:
    """The type of a field.

    Args:
        dtype: any numpy dtype name, ``"bfloat16"``, or ``"bytes"``, ``"str"``, ``"json"``, ``"image"`` (an encoded
            photo: the bytes of a JPEG, PNG or WebP file).
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
    role = f"boxes:{format}"
    if role not in ROLES:
        raise ValueError(f"format is 'xyxy', 'xywh' or 'cxcywh', not {format!r}")
    return Field("array", "float32", (None, 4), role=role, normalized=bool(normalized))


def mask() -> Field:
    """A field of masks: an encoded PNG, gray or with a palette, of class ids, as large as the image of the sample.

    >>> leat.mask()
    mask()
    """
    return Field("image", "uint8", role="mask")


def keypoints(k: int) -> Field:
    """A field of keypoints, float32 (None, k, 3): k times x, y (pixels) and visibility (0: not labelled) per instance.

    >>> leat.keypoints(17)
    keypoints(17)
    """
    return Field("array", "float32", (None, check.integer("k", k, 1), 3), role="keypoints")


def as_field(value: Any) -> Field:
    """A Field, or what :func:`leat.field` takes as its dtype."""
    return value if isinstance(value, Field) else field(value)


def to_raw(fields: Mapping[str, Field]) -> list[tuple[str, int, str, int, tuple[int, ...], int, bool]]:
    """As the extension module takes them."""
    return [
        (
            name,
            KINDS.get(f.kind, ARRAY),
            f.dtype,
            LAYOUTS[f.layout],
            tuple(-1 if n is None else n for n in f.shape),
            ROLES[f.role],
            f.normalized,
        )
        for name, f in fields.items()
    ]


def from_raw(raw: tuple[str, int, str, int, int, tuple[int, ...], int, bool]) -> tuple[str, Field]:
    """From what the extension module gives."""
    name, kind, dtype, layout, flags, shape, role, normalized = raw
    return name, Field(
        KIND_NAMES[kind],
        dtype,
        tuple(None if n < 0 else n for n in shape) if kind == ARRAY else (),
        LAYOUT_NAMES[layout],  # type: ignore[arg-type]
        bool(flags & DERIVED),
        ROLE_NAMES.get(role),
        normalized,
    )
