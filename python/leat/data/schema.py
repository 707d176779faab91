"""Fields: the named, typed values of a sample."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from .. import check

DTYPES = (
    "uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64", "float16", "bfloat16", "float32", "float64", "bool",
)  # fmt: skip

# Numbers of enum leat_kind and enum leat_layout.
ARRAY, BYTES, STR, JSON, IMAGE = 1, 2, 3, 4, 5
KINDS = {"bytes": BYTES, "str": STR, "json": JSON, "image": IMAGE}
KIND_NAMES = {number: name for name, number in KINDS.items()}
LAYOUTS: dict[str | None, int] = {None: 0, "HWC": 1, "CHW": 2}
LAYOUT_NAMES = {number: name for name, number in LAYOUTS.items()}
DERIVED = 1


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
    """

    kind: str
    dtype: str
    shape: tuple[int | None, ...] = ()
    layout: Literal["HWC", "CHW"] | None = None
    derived: bool = False

    def __repr__(self) -> str:
        text = repr(self.kind if self.kind != "array" else self.dtype)
        if self.shape:
            text += f", {self.shape}"
        if self.layout:
            text += f", layout={self.layout!r}"
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


def as_field(value: Any) -> Field:
    """A Field, or what :func:`leat.field` takes as its dtype."""
    return value if isinstance(value, Field) else field(value)


def to_raw(fields: Mapping[str, Field]) -> list[tuple[str, int, str, int, tuple[int, ...]]]:
    """As the extension module takes them."""
    return [
        (name, KINDS.get(f.kind, ARRAY), f.dtype, LAYOUTS[f.layout], tuple(-1 if n is None else n for n in f.shape))
        for name, f in fields.items()
    ]


def from_raw(raw: tuple[str, int, str, int, int, tuple[int, ...]]) -> tuple[str, Field]:
    """From what the extension module gives."""
    name, kind, dtype, layout, flags, shape = raw
    return name, Field(
        KIND_NAMES.get(kind, "array"),
        dtype,
        tuple(None if n < 0 else n for n in shape) if kind == ARRAY else (),
        LAYOUT_NAMES[layout],  # type: ignore[arg-type]
        bool(flags & DERIVED),
    )
