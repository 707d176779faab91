"""Samples of Python data sets as values of fields: what the fields are, as the first samples say, and the bytes of
photos that are objects of Pillow."""

from __future__ import annotations

import dataclasses
import functools
import io
import re
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..data.schema import Field, as_field, dtype_name, field, sparse
from ..data.sparse import Sparse
from ..errors import BrokenSampleError, InvalidError

_PHOTO = re.compile(
    rb"\xff\xd8\xff|\x89PNG\r\n\x1a\n|GIF8[79]a|RIFF....WEBP|....ftyp(avif|avis)|BM|II\*\0|MM\0\*", re.S
)
_NUMBERS = (bool, int, float, np.generic)


def is_pil(value: Any) -> bool:
    image = sys.modules.get("PIL.Image")
    return image is not None and isinstance(value, image.Image)


def photo_bytes(photo: Any) -> bytes:
    """The bytes of the file that an object of Pillow was opened from, if it still has the pixels of that or is broken;
    else as PNG, which loses nothing.

    Raises:
        BrokenSampleError: the photo is broken, and there is no file to keep.
    """
    data = _file_of(photo)
    try:
        photo.load()
    except Exception as e:
        if data is not None:
            return data
        raise BrokenSampleError(f"a photo cannot be decoded: {type(e).__name__}: {e}") from e
    if data is not None and _is_file_of(photo, data):
        return data
    out = io.BytesIO()
    try:
        photo.save(out, "PNG")
    except (OSError, SystemError) as e:
        raise ValueError(
            f"a photo of mode {photo.mode!r} has no PNG: convert it, such as by .convert('RGB') ({e})"
        ) from e
    return out.getvalue()


def _is_file_of(photo: Any, data: bytes) -> bool:
    """Whether a photo has the pixels of a file, which may have become another one."""
    import PIL.Image

    try:
        with PIL.Image.open(io.BytesIO(data)) as own:
            return bool(own.mode == photo.mode and own.size == photo.size and own.tobytes() == photo.tobytes())
    except Exception:
        return False


def _file_of(photo: Any) -> bytes | None:
    """The bytes of the file behind a photo that leat stores as they are."""
    if getattr(photo, "format", None) not in ("JPEG", "PNG", "WEBP"):
        return None
    file, name = getattr(photo, "fp", None), getattr(photo, "filename", "")
    if isinstance(file, io.BytesIO):
        return file.getvalue()
    if not name:
        return None
    try:
        with open(name, "rb") as f:
            return f.read()
    except OSError:
        return None


class Form:
    """How a sample becomes values by name.

    Args:
        fields: as of :func:`leat.pack`.
    """

    def __init__(self, fields: Any) -> None:
        if fields is not None and not isinstance(fields, Mapping):
            if isinstance(fields, str) or not isinstance(fields, Sequence):
                raise TypeError(f"fields is a list of names, or a dict of names to leat.field, not {fields!r:.60}")
            fields = dict.fromkeys(fields)
        #: what is said of each field, None as it is found; None: all fields, as they are found
        self.said: dict[str, Field | None] | None = (
            None if fields is None else {n: None if f is None else as_field(f) for n, f in _named(fields).items()}
        )
        self._names: tuple[str, ...] = tuple(self.said or ())

    def values(self, sample: Any) -> dict[str, Any]:
        """The values of a sample by the names of fields."""
        found = self._all(sample)
        if self.said is None:
            return found
        if missing := [name for name in self.said if name not in found]:
            raise KeyError(f"it has no {missing[0]!r}: it has {', '.join(map(repr, found)) or 'nothing'}")
        return {name: found[name] for name in self.said}

    def _all(self, sample: Any) -> dict[str, Any]:
        if hasattr(sample, "_asdict"):  # a named tuple
            sample = sample._asdict()
        elif dataclasses.is_dataclass(sample) and not isinstance(sample, type):
            sample = {f.name: getattr(sample, f.name) for f in dataclasses.fields(sample)}
        if isinstance(sample, Mapping):
            return _named(sample)
        parts = tuple(sample) if isinstance(sample, (tuple, list)) else (sample,)
        if not self._names:
            self._names = _usual(parts)
        if len(parts) != len(self._names):
            raise ValueError(
                f"it has {len(parts)} values, for the fields {', '.join(self._names)}: name each, fields=[...]"
            )
        return dict(zip(self._names, parts, strict=True))


def _named(values: Mapping[Any, Any]) -> dict[str, Any]:
    """The same by names that fields may have."""
    named = {_valid(name): value for name, value in values.items()}
    if len(named) < len(values):
        known: dict[str, Any] = {}
        for name in values:
            if known.setdefault(_valid(name), name) is not name:
                raise ValueError(f"{known[_valid(name)]!r} and {name!r} are one name of a field, {_valid(name)!r}")
    return named


@functools.lru_cache(4096)
def _valid(name: Any) -> str:
    text = re.sub(r"[^A-Za-z0-9_.-]", "_", str(name))
    return text if re.match("[A-Za-z_]", text) else f"_{text}"


def _usual(parts: tuple[Any, ...]) -> tuple[str, ...]:
    """Names for values that have none: ``image`` and ``label`` for a photo and its class, else ``item0``, ``item1``."""
    first = parts[0] if parts else None
    photo = is_pil(first) or (isinstance(first, bytes) and _PHOTO.match(first)) or getattr(first, "ndim", 0) == 3
    if photo and len(parts) == 1:
        return ("image",)
    if photo and len(parts) == 2 and isinstance(parts[1], (int, np.integer)) and not isinstance(parts[1], bool):
        return ("image", "label")
    return ("item",) if len(parts) == 1 else tuple(f"item{i}" for i in range(len(parts)))


def fields_of(form: Form, samples: Sequence[tuple[int, Mapping[str, Any]]]) -> dict[str, Field]:
    """The fields of these samples, which are given with their numbers.

    Raises:
        ValueError, TypeError: values of a field are of different kinds, or of none that leat has; the text says how
            `fields` helps.
    """
    number, first = samples[0]
    for n, values in samples:
        if values.keys() != first.keys():
            raise InvalidError(
                f"sample {number} has the fields {', '.join(first)}, and sample {n} {', '.join(values)}: choose those "
                "that all have, fields=[...]"
            )
    said = form.said or {}
    return {name: said.get(name) or _field(name, [(n, values[name]) for n, values in samples]) for name in first}


def _field(name: str, values: Sequence[tuple[int, Any]]) -> Field:
    kinds = [(n, _kind(name, n, v)) for n, v in values]
    known = [(n, k) for n, k in kinds if k is not None]
    if not known:
        raise InvalidError(
            f'field {name!r} is empty in the first samples: say what it is, fields={{{name!r}: leat.field("int64", '
            "(None,)), ...}"
        )
    number, found = known[0]
    for n, kind in known[1:]:
        joined = _joined(found, kind)
        if joined is None:
            raise InvalidError(
                f"field {name!r} is {found} in sample {number} and {kind} in sample {n}: make them alike, say what it "
                f"is (fields={{{name!r}: ...}}), or leave it out"
            )
        found = joined
    if len(known) < len(kinds):  # lists without elements
        found = field(found.dtype, (None, *found.shape[1:])) if found.kind == "array" else found
    return found


def _joined(a: Field, b: Field) -> Field | None:
    if a == b:
        return a
    if {a.kind, b.kind} == {"image", "bytes"}:
        return field("bytes")
    if "json" in (a.kind, b.kind) and {a.kind, b.kind} <= {"json", "array", "str"}:
        return field("json")
    if a.kind != "array" or b.kind != "array" or len(a.shape) != len(b.shape) or a.shape[1:] != b.shape[1:]:
        return None
    dtype = a.dtype if a.dtype == b.dtype else "float64" if {a.dtype, b.dtype} == {"int64", "float64"} else None
    shape = a.shape if a.shape[:1] == b.shape[:1] else (None, *a.shape[1:])
    return None if dtype is None else field(dtype, shape)


def _kind(name: str, number: int, value: Any) -> Field | None:
    """The field of a value; None: an empty list, which may be any."""
    if is_pil(value):
        return field("image")
    if isinstance(value, str):
        return field("str")
    if isinstance(value, (bytes, bytearray, memoryview)):
        return field("image" if _PHOTO.match(bytes(value[:32])) else "bytes")
    if isinstance(value, Mapping):
        return field("json")
    if isinstance(value, (list, tuple)):
        return _of_list(name, number, value)
    if isinstance(value, (bool, int, float)):
        return field({bool: "bool", float: "float64"}.get(type(value), "int64"))
    if isinstance(value, Sparse) and len(value) == 1:
        return sparse(dtype_name(value.values.dtype), value.n)
    if hasattr(value, "tocsr") and value.shape[0] == 1:
        return sparse(str(value.dtype), int(value.shape[-1]))
    if hasattr(value, "dtype") and hasattr(value, "shape"):
        if 0 in value.shape[1:]:
            raise InvalidError(
                f"field {name!r} of sample {number} has the shape {tuple(value.shape)}: only the first dimension may "
                "be 0, leave it out (fields=[...])"
            )
        try:
            dtype = dtype_name(value.dtype)
        except ValueError as e:
            raise InvalidError(f"field {name!r} of sample {number}: {e}") from None
        return field(dtype, tuple(int(n) or None for n in value.shape[:1]) + tuple(map(int, value.shape[1:])))
    told = "None" if value is None else f"a {type(value).__name__}"
    raise TypeError(
        f"field {name!r} of sample {number} is {told}, which leat cannot store: return numbers, arrays, text, bytes or "
        "photos, or leave it out (fields=[...])"
    )


def _of_list(name: str, number: int, value: Sequence[Any]) -> Field | None:
    if not len(value):
        return None
    if all(hasattr(v, "detach") for v in value):
        value = [v.detach().cpu().numpy() for v in value]
    try:
        array = np.asarray(value)
    except (ValueError, OverflowError):
        return field("json")
    if array.dtype.kind not in "biuf":
        return field("json")
    dtype = dtype_name(array.dtype)
    return field(dtype, array.shape) if array.size else None


def plain(value: Any) -> Any:
    """A value of a field of JSON: arrays and tensors in it are lists."""
    if isinstance(value, Mapping):
        return {name: plain(v) for name, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    if hasattr(value, "detach"):
        return value.detach().cpu().tolist()
    return value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value
