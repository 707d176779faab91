"""Columns of Arrow as values of fields.

numbers, dates, times    array, in place           list of numbers      (None,), in place
bool                     array, unpacked           fixed_size_list      (n,), in place
Array2D to Array5D of `datasets`, lists of lists   array of that shape, in place
string, binary           str, bytes, in place      struct               a field for each member: `meta.domain`
dictionary               as its values             all else             json; decimals as text
bytes and path           bytes, of the file that the path names where there are none
"""

from __future__ import annotations

import functools
import json
import math
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from .. import _leat, check
from ..errors import InvalidError, UnsupportedError
from .arrow_c import BINARY, LISTS, NUMBERS, TEXT, Column, Type, bits
from .ragged import Ragged
from .schema import Field, field

T = TypeVar("T")
Values = Any  # an array, a Ragged, or Each


class Lacking(InvalidError):
    """Lists of a column lack numbers in them. `values`, `nulls`: as of :func:`values_of`; `rows`: which of them do."""

    def __init__(self, name: str, values: Values, nulls: Any, rows: np.ndarray[Any, Any]) -> None:
        self.values, self.nulls, self.rows = values, nulls, rows
        super().__init__(f"row {int(np.argmax(rows))}: {lacks(name)}")


def lacks(name: str) -> str:
    """The error of a list without some of its numbers."""
    return f"column {name!r} has a list with missing numbers in it: take it as JSON, fields={{{name!r}: 'json'}}"


class Each:
    """Values that are made one by one: those of kind json, and decimals."""

    def __init__(self, column: Column, text: bool) -> None:
        self.column, self.text = column, text

    def __len__(self) -> int:
        return self.column.length

    def __getitem__(self, i: int) -> Any:
        return value(self.column, int(i))

    def identity(self, i: int) -> Any:
        """The stand-in for the value in a fingerprint."""
        return self[i]


class Files(Each):
    """Values that are files, by their paths, if the bytes are missing. A relative path is one in `folder`."""

    def __init__(
        self, paths: Values, content: Values | None, missing: np.ndarray[Any, Any] | None, folder: str
    ) -> None:
        self.paths, self.content, self.missing, self.folder = paths, content, missing, folder

    def __len__(self) -> int:
        return len(self.paths)

    def begun(self, i: int) -> tuple[bytes, bool]:
        """The bytes, or the path as it is stored, and True."""
        there = self.content is not None and not (self.missing is not None and self.missing[i])
        return bytes((self.content if there else self.paths)[i]), not there  # type: ignore[index]

    def path(self, i: int) -> str | None:
        """None: the bytes are there."""
        if self.content is not None and not (self.missing is not None and self.missing[i]):
            return None
        name = os.fsdecode(bytes(self.paths[i]))
        if "://" in name:
            raise UnsupportedError(
                f"the file is at {name}, which is no file of this machine: store the bytes in the table (of "
                "`datasets`: dataset.map with datasets.table.embed_table_storage)"
            )
        return os.path.join(self.folder, name)

    def __getitem__(self, i: int) -> bytes:
        path = self.path(i)
        if path is None:
            assert self.content is not None
            return bytes(self.content[i])
        return _of_file(path, _read)

    def identity(self, i: int) -> Any:
        try:
            path = self.path(i)
            if path is None:
                return self[i]
            found = _of_file(path, os.stat)
        except (OSError, ValueError, UnsupportedError):
            return bytes(self.paths[i])
        return path, found.st_size, found.st_mtime_ns


def _read(path: str) -> bytes:
    with open(path, "rb") as f:
        return f.read()


def _of_file(path: str, take: Callable[[str], T]) -> T:
    """The result of `take` for the file that is meant: of that name, else of the one of its folder that is found as
    photos find their labels (src/format/names.h)."""
    try:
        return take(path)
    except FileNotFoundError as e:
        folder, name = os.path.split(os.fsencode(path))
        try:
            there, forms = _leat.find_name(_names_in(folder, os.stat(folder).st_mtime_ns), name)
        except (OSError, ValueError):
            raise e from None
        if there is None:
            raise FileNotFoundError(e.errno, f"{e.strerror}{forms}", path) from None
        return take(os.fsdecode(os.path.join(folder, there)))


@functools.lru_cache(maxsize=16)
def _names_in(folder: bytes, changed: int) -> object:
    return _leat.names(os.listdir(folder))


class Filled(Each):
    """Values of which some are missing, with `one` in their place."""

    def __init__(self, values: Values, missing: np.ndarray[Any, Any], one: Any) -> None:
        self.values, self.missing, self.one = values, missing, one

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, i: int) -> Any:
        return self.one if self.missing[i] else self.values[i]

    def identity(self, i: int) -> Any:
        return self.one if self.missing[i] else self.values.identity(i)


def valid_name(name: str) -> str:
    """A name of a field made of that of a column.

    >>> valid_name("meta/domain name")
    'meta_domain_name'
    """
    found = re.sub(r"[^A-Za-z0-9_.-]", "_", name)
    return found if re.match("[A-Za-z_]", found) else f"_{found}"


def number(kind: Type) -> str | None:
    """The dtype of a column of numbers."""
    if kind.dictionary is not None:
        return None
    return "bool" if kind.format == "b" else "int64" if kind.format.startswith("ts") else NUMBERS.get(kind.format)


def is_file(kind: Type) -> bool:
    """A struct of bytes and path: the form of photos and sounds in `datasets`. One of them may be of no type."""
    formats = {c.name: c.format for c in kind.children if c.dictionary is None}
    return (
        kind.format == "+s"
        and len(kind.children) == 2
        and formats.keys() == {"bytes", "path"}
        and all(f in (*TEXT, *BINARY, "n") for f in formats.values())
        and set(formats.values()) != {"n"}
    )


def field_of(kind: Type) -> Field:
    """The field that a column that is no struct becomes."""
    if kind.dictionary is not None:
        return field_of(kind.dictionary)
    if is_file(kind):
        return field("bytes")
    dtype = number(kind)
    if dtype is not None:
        return field(dtype)
    if kind.format in TEXT or kind.format.startswith("d:"):
        return field("str")
    if kind.format in BINARY:
        return field("bytes")
    if kind.format.startswith("w:") and int(kind.format[2:]):
        return field("uint8", (int(kind.format[2:]),))
    shape, inner = _array_shape(kind) or _shape(kind)
    dtype = number(inner)
    if shape and dtype is not None and (dtype != "bool") and 0 not in shape:
        tensor = _tensor_shape(kind)
        return field(dtype, tensor if tensor and shape == (math.prod(tensor),) else shape)
    return field("json")


def _tensor_shape(kind: Type) -> tuple[int, ...]:
    """The shape that a column of tensors of one shape has, beside its numbers; () if it has another order of axes."""
    if kind.metadata.get(b"ARROW:extension:name") != b"arrow.fixed_shape_tensor":
        return ()
    about = json.loads(kind.metadata.get(b"ARROW:extension:metadata", b"{}"))
    axes = about.get("permutation")
    return tuple(about.get("shape", ())) if axes in (None, sorted(axes or [])) else ()


def _array_shape(kind: Type) -> tuple[tuple[int | None, ...], Type] | None:
    """For an Array2D to Array5D of `datasets`, lists of lists: as :func:`_shape`. None: it is none."""
    if not re.fullmatch(rb"datasets\..*\.Array[2-5]DExtensionType", kind.metadata.get(b"ARROW:extension:name", b"")):
        return None
    try:
        shape = tuple(json.loads(kind.metadata.get(b"ARROW:extension:metadata", b""))[0])
    except (ValueError, LookupError, TypeError, RecursionError):
        return None
    if not all(
        isinstance(n, int) and 0 < n < 1 << 31 for n in shape[1:] + tuple(n for n in shape[:1] if n is not None)
    ):
        return None
    for _ in shape:
        if kind.format not in LISTS or kind.dictionary is not None:
            return None
        kind = kind.children[0]
    return shape, kind


def _shape(kind: Type) -> tuple[tuple[int | None, ...], Type]:
    """For a list of numbers: the shape of a value, and the type of a number."""
    shape: tuple[int | None, ...] = ()
    if kind.format in LISTS:
        shape, kind = (None,), kind.children[0]
    while kind.format.startswith("+w:"):
        shape, kind = (*shape, int(kind.format[3:])), kind.children[0]
    return shape, kind


def members(kind: Type, prefix: str = "") -> Iterator[tuple[str, tuple[int, ...], Type]]:
    """Name, path and type of each column; those of a struct one by one."""
    for i, child in enumerate(kind.children):
        name = prefix + valid_name(child.name)
        if child.format == "+s" and child.dictionary is None and child.children and not is_file(child):
            for inner, path, leaf in members(child, f"{name}."):
                yield inner, (i, *path), leaf
        else:
            yield name, (i,), child


def is_nullable(kind: Type, path: Sequence[int]) -> bool:
    """Whether values of a column may be missing, or those of a struct around it."""
    for i in path:
        kind = kind.children[i]
        if kind.nullable:
            return True
    return is_file(kind)


def at_path(batch: Column, path: Sequence[int]) -> Column:
    """The column of a batch at a path; a member of a struct that is missing is missing."""
    column = batch
    for i in path:
        child = column.children[i]
        nulls = child.nulls
        rows = slice(column.offset, column.offset + column.length)  # a struct's offset holds for its members too
        own = None if nulls is None else nulls[rows]
        if column.nulls is not None:
            own = column.nulls if own is None else own | column.nulls
        column = Column(
            child.type,
            column.length,
            child.offset + column.offset,
            own if own is not None and own.any() else None,
            child.buffers,
            child.children,
            child.dictionary,
        )
    return column


def _offsets(column: Column, size: int) -> np.ndarray[Any, Any]:
    offsets = column.buffers[0].view(f"int{8 * size}")[column.offset : column.offset + column.length + 1]
    return offsets if len(offsets) else np.zeros(1, f"int{8 * size}")


def _numbers(column: Column, begin: int, end: int) -> np.ndarray[Any, Any]:
    """Rows [begin, end) of a column of numbers, as the list around it counts them."""
    dtype = number(column.type)
    assert dtype is not None
    begin, end = begin + column.offset, end + column.offset
    if dtype == "bool":
        return bits(column.buffers[0], begin, end - begin)
    return column.buffers[0].view(dtype)[begin:end]


def _gather(values: np.ndarray[Any, Any], begins: Any, lengths: Any) -> Ragged:
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    index = np.repeat(np.asarray(begins, np.int64) - offsets[:-1], lengths) + np.arange(offsets[-1])
    return Ragged(values[index], offsets)


def _views(column: Column) -> Ragged:
    """Strings and binaries of the view types: a copy, in their order."""
    raw = column.buffers[0][column.offset * 16 : (column.offset + column.length) * 16].reshape(-1, 16)
    parts = raw.view(np.int32).reshape(-1, 4)
    lengths = parts[:, 0].astype(np.int64)
    starts = np.concatenate([[0], np.cumsum([len(b) for b in column.buffers[1:]])]).astype(np.int64)
    short = lengths <= 12
    begins = np.where(short, np.arange(len(raw)) * 16 + 4, 0)
    long = ~short
    begins[long] = len(raw) * 16 + starts[parts[long, 2]] + parts[long, 3]
    return _gather(np.concatenate([raw.reshape(-1), *column.buffers[1:]]), begins, lengths)


def values_of(
    column: Column, as_json: bool = False, as_files: bool = False, folder: str = ""
) -> tuple[Values, np.ndarray[Any, np.dtype[np.bool_]] | None]:
    """The values of a column as its field has them, and which are missing; those hold any value. `as_files`:
    texts are paths of files, which are the values. `folder`: the one of relative paths."""
    kind, nulls = column.type, column.nulls
    if as_json:
        return Each(column, False), _none_of(column)
    if as_files:
        paths, missing = values_of(column)
        return Files(paths, None, None, folder), _or_empty(paths, missing)
    if column.dictionary is not None:
        return _of_dictionary(column)
    if is_file(kind):
        return _of_files(column, folder)
    found = field_of(kind)
    if found.kind == "json" or kind.format.startswith("d:"):
        return Each(column, found.kind == "str"), nulls if found.kind != "json" else _none_of(column)
    if kind.format in ("vu", "vz"):
        return _views(column), nulls
    if found.kind != "array":
        size = 4 if kind.format in "uz" else 8
        return Ragged(column.buffers[1], _offsets(column, size)), nulls
    if kind.format.startswith("w:"):
        width = int(kind.format[2:])
        return column.buffers[0].reshape(-1, width)[column.offset : column.offset + column.length], nulls
    if not found.shape:
        return _numbers(column, 0, column.length), nulls
    return (_of_lists if _array_shape(kind) else _of_list)(column, found)


def _none_of(column: Column) -> np.ndarray[Any, np.dtype[np.bool_]] | None:
    """The values of a column that are null as JSON."""
    return np.ones(column.length, bool) if column.type.format == "n" and column.length else column.nulls


def _or_empty(paths: Ragged, missing: np.ndarray[Any, Any] | None) -> np.ndarray[Any, np.dtype[np.bool_]] | None:
    """The paths that are missing, or empty, which no path is."""
    none = np.asarray(paths.lengths) == 0 if missing is None else missing | (np.asarray(paths.lengths) == 0)
    return none if none.any() else None


def _of_files(column: Column, folder: str) -> tuple[Values, np.ndarray[Any, np.dtype[np.bool_]] | None]:
    """For a column of bytes and paths, the bytes where they exist, else the files."""
    own = Column(column.type, column.length, column.offset, column.nulls, [], column.children, None)
    member = {t.name: at_path(own, (i,)) for i, t in enumerate(column.type.children)}
    if member["path"].type.format == "n":
        return values_of(member["bytes"])
    content, missing = None, None
    if member["bytes"].type.format != "n":
        content, missing = values_of(member["bytes"])
        if missing is None:
            return content, None
    paths, unnamed = values_of(member["path"])
    none = _or_empty(paths, unnamed)
    if missing is None or none is None:
        return Files(paths, content, missing, folder), none
    none = none & missing
    return Files(paths, content, missing, folder) if (none != missing).any() else content, none if none.any() else None


def _of_list(column: Column, found: Field) -> tuple[Values, Any]:
    """Numbers that are missing are NaN among floats.

    Raises:
        Lacking: of others, some lists have missing numbers in them.
    """
    name, rows, nulls = column.type.name, column.length, column.nulls
    first, begin, end = 0, 0, rows
    offsets = lacking = None
    if found.shape[0] is None:
        offsets = _offsets(column, 4 if column.type.format == "+l" else 8)
        first, begin, end, column = int(offsets[0]), 0, int(offsets[-1]), column.children[0]
        lacking = _lacking(column, first, end, None, 1)
    while column.type.format.startswith("+w:"):
        width = int(column.type.format[3:])
        first, begin, end = ((n + column.offset) * width for n in (first, begin, end))
        column = column.children[0]
        lacking = _lacking(column, first, end, lacking, width)
    flat = _numbers(column, begin, end)
    if lacking is not None and flat.dtype.kind == "f":
        flat = np.array(flat)
        flat[first - begin :][lacking] = np.nan
        lacking = None
    values: Values = flat.reshape(-1, *(n for n in found.shape if n is not None))
    if offsets is not None:
        values = Ragged(values, offsets)
    if lacking is not None:
        offsets = np.arange(rows + 1) if offsets is None else offsets
        sums = np.concatenate([[0], np.cumsum(lacking)])
        holes = np.diff(sums[(offsets - offsets[0]) * math.prod(n or 1 for n in found.shape)]) > 0
        if nulls is not None:
            holes &= ~nulls
        if holes.any():
            raise Lacking(name, values, nulls, holes)
    return values, nulls


def _of_lists(column: Column, found: Field) -> tuple[Values, Any]:
    """As :func:`_of_list`, of lists of lists.

    Raises:
        InvalidError: a list is not as long as the shape says.
    """
    name, nulls, rows = column.type.name, column.nulls, column.length
    first, *inner = found.shape
    each = math.prod(n or 1 for n in inner)
    own = _offsets(column, 4 if column.type.format == "+l" else 8).astype(np.int64)
    begin, end, column = int(own[0]), int(own[-1]), column.children[0]
    offsets = own - own[0]
    there = np.ones(rows, bool) if nulls is None else ~nulls
    wrong = first is not None and bool((np.diff(offsets)[there] != first).any())
    for n in inner:
        lists = Column(column.type, end - begin, column.offset + begin, None, column.buffers, column.children, None)
        ends = _offsets(lists, 4 if column.type.format == "+l" else 8)
        wrong = wrong or bool((np.diff(ends) != n).any())
        begin, end, column = int(ends[0]), int(ends[-1]), column.children[0]
    if wrong:
        raise InvalidError(
            f"column {name!r} has lists that are not as its shape {found.shape} says: take it as JSON, "
            f"fields={{{name!r}: 'json'}}"
        )
    flat, lacking = _numbers(column, begin, end), _lacking(column, begin, end, None, 1)
    holes = np.zeros(rows, bool)
    if lacking is not None and flat.dtype.kind == "f":
        flat = np.where(lacking, flat.dtype.type(np.nan), flat)
    elif lacking is not None:
        holes = there & (np.diff(np.concatenate([[0], np.cumsum(lacking)])[offsets * each]) > 0)
    values: Values = flat.reshape(-1, *inner)
    if first is None:
        values = Ragged(values, offsets)
    elif there.all():
        values = values.reshape(rows, first, *inner)
    else:
        kept = values[np.repeat(there, np.diff(offsets))]
        values = np.zeros((rows, first, *inner), flat.dtype)
        values[there] = kept.reshape(-1, first, *inner)
    if holes.any():
        raise Lacking(name, values, nulls, holes)
    return values, nulls


def _lacking(column: Column, begin: int, end: int, around: Any, width: int) -> np.ndarray[Any, Any] | None:
    """Which values in [begin, end) of a column are missing; `around`: which of the lists of `width` of them are."""
    own = None if column.nulls is None else column.nulls[begin:end]
    if around is None:
        return own if own is not None and own.any() else None
    each: np.ndarray[Any, Any] = np.repeat(around, width)
    return each if own is None else each | own


def _of_dictionary(column: Column) -> tuple[Values, Any]:
    assert column.dictionary is not None
    dtype = NUMBERS[column.type.format]
    index = column.buffers[0].view(dtype)[column.offset : column.offset + column.length].astype(np.int64)
    if column.nulls is not None:
        index[column.nulls] = 0
    try:
        words, missing = values_of(column.dictionary)
    except Lacking as e:
        raise InvalidError(lacks(column.type.name)) from e
    nulls = column.nulls
    if missing is not None and len(index):
        nulls = missing[index] if nulls is None else nulls | missing[index]
    if isinstance(words, Ragged):
        if not len(words):
            return Ragged(words.values[:0], np.zeros(column.length + 1, np.int64)), nulls
        return _gather(words.values, words.offsets[:-1][index], np.asarray(words.lengths)[index]), nulls
    if isinstance(words, Each):
        raise InvalidError(f"column {column.type.name!r} is a dictionary of {column.dictionary.type.format!r}: cast it")
    return (words[index] if len(words) else np.zeros(column.length, words.dtype)), nulls


def value(column: Column, i: int) -> Any:
    """One value as JSON has it; bytes as text in Latin-1, decimals as text."""
    kind = column.type
    if kind.format == "n" or (column.nulls is not None and column.nulls[i]):
        return None
    if column.dictionary is not None:
        return value(column.dictionary, int(column.buffers[0].view(NUMBERS[kind.format])[column.offset + i]))
    if number(kind) is not None:
        return _json_number(_numbers(column, i, i + 1)[0].item())
    if kind.format in (*TEXT, *BINARY):
        ragged = _views(_row(column, i)) if kind.format[0] == "v" else values_of(_row(column, i))[0]
        raw = bytes(ragged[0])
        return raw.decode() if kind.format in TEXT else raw.decode("latin-1")
    if kind.format == "+s":
        at = column.offset + i
        return {t.name: value(c, at) for t, c in zip(kind.children, column.children, strict=True)}
    if kind.format in (*LISTS, "+m"):
        begin, end = _offsets(_row(column, i), 8 if kind.format == "+L" else 4).tolist()
        items = [value(column.children[0], k) for k in range(begin, end)]
        if kind.format == "+m":
            pairs = [list(one.values()) for one in items]
            texts = all(isinstance(k, str) for k, _ in pairs) and len({k for k, _ in pairs}) == len(pairs)
            return dict(pairs) if texts else pairs
        return items
    if kind.format.startswith("+w:"):
        width = int(kind.format[3:])
        first = (column.offset + i) * width
        return [value(column.children[0], first + k) for k in range(width)]
    if kind.format.startswith("w:"):
        width = int(kind.format[2:])
        return bytes(column.buffers[0][(column.offset + i) * width :][:width]).decode("latin-1")
    assert kind.format.startswith("d:")
    return _decimal(column, i)


def _row(column: Column, i: int) -> Column:
    return Column(column.type, 1, column.offset + i, None, column.buffers, column.children, column.dictionary)


def _json_number(number: Any) -> Any:
    if isinstance(number, float) and (number != number or number in (float("inf"), float("-inf"))):
        return None  # JSON has no such numbers
    return number


def _decimal(column: Column, i: int) -> str:
    import decimal

    parts = column.type.format[2:].split(",")
    width = int(parts[2]) // 8 if len(parts) > 2 else 16
    raw = bytes(column.buffers[0][(column.offset + i) * width :][:width])
    with decimal.localcontext() as context:
        context.prec = 100
        found = decimal.Decimal(int.from_bytes(raw, "little", signed=True)).scaleb(-int(parts[1]))
    return format(found, "f")


def checked_fill(name: str, found: Field, given: Any) -> Any:
    """The substitute for missing values of a field, as its dtype has it."""
    wrong = InvalidError(f"fill={{{name!r}: {given!r:.60}}} is no value of {name!r}, which is {found}")
    if found.kind in ("str", "json"):
        return _checked_text(found.kind, given, wrong)
    if found.kind != "array":
        if not isinstance(given, (bytes, bytearray, memoryview)):
            raise InvalidError(f"{wrong}: give bytes")
        return bytes(given)
    try:
        plain = np.asarray(given)
        with np.errstate(all="ignore"):
            one = plain.astype(found.dtype) if plain.size else np.empty(plain.shape, found.dtype)
        kept = np.isfinite(one) | ~np.isfinite(plain) if one.dtype.kind == "f" else (one == plain) | (plain != plain)
        same = plain.dtype.kind in "biuf" and bool(np.all(kept))
    except (TypeError, ValueError, OverflowError):
        raise wrong from None
    if plain.dtype.kind == "f" and one.dtype.kind != "f" and not np.isfinite(plain).all():
        raise wrong
    inner = tuple(n or 0 for n in found.shape[found.shape[:1] == (None,) :])
    if found.shape[:1] != (None,):
        fits = plain.ndim == 0 or plain.shape == inner
    else:
        fits = plain.shape == (0,) or (plain.ndim == len(inner) + 1 and plain.shape[1:] == inner)
        one = one.reshape(-1, *inner) if fits else one
    if not (fits and (same or not plain.size)):
        raise wrong
    return one


def _checked_text(kind: str, given: Any, wrong: InvalidError) -> Any:
    """The UTF-8 of a text, or the JSON text of a value."""
    try:
        if kind == "json":
            return json.loads(json.dumps(given, ensure_ascii=False, allow_nan=False).encode())
        text = given if isinstance(given, bytes) else str.encode(given)
        text.decode()
        return text
    except UnicodeEncodeError as e:
        raise InvalidError(f"{wrong}: {check.half_pair(e)}") from None
    except UnicodeDecodeError as e:
        raise InvalidError(f"{wrong}: byte {e.start} is no UTF-8") from None
    except (TypeError, ValueError, RecursionError) as e:
        raise InvalidError(f"{wrong}: {e}" if kind == "json" else str(wrong)) from None


def filled(name: str, found: Field, values: Values, nulls: Any, fill: Mapping[str, Any], first: int) -> Values:
    """The values with `fill`, as checked_fill gives it, in the place of missing ones; without it NaN for floats, null
    for JSON."""
    if nulls is None:
        return values
    at = np.flatnonzero(nulls)
    if name not in fill and has_null(found):
        if isinstance(values, Each) and found.kind == "json":
            return values
        fill = {name: None if found.kind == "json" else np.nan}
    if name not in fill:
        raise InvalidError(
            f"column {name!r} has {len(at)} missing values, the first in row {first + int(at[0])}, and a field has "
            f"none: fill={{{name!r}: ...}} says what stands for them"
        )
    one = fill[name]
    if isinstance(values, Each):
        return Filled(values, nulls, one.decode() if found.kind == "str" else one)
    if isinstance(values, Ragged):
        one = json.dumps(one, ensure_ascii=False).encode() if found.kind == "json" else one
        one = np.frombuffer(one, np.uint8) if isinstance(one, bytes) else one
        lengths = np.asarray(values.lengths, np.int64).copy()
        begins = np.asarray(values.offsets[:-1], np.int64).copy()
        begins[at], lengths[at] = len(values.values), len(one)
        return _gather(np.concatenate([values.values, one]), begins, lengths)
    copy = np.array(values)
    copy[at] = one
    return copy


def has_null(found: Field) -> bool:
    """Whether a missing value of a field is one of its own: NaN of floats, null of JSON."""
    return found.kind == "json" or (found.dtype in ("float16", "float32", "float64") and not found.shape)
