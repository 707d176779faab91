"""Tables of Arrow, and Parquet files, as data sets.

Data in memory are used in place: each batch of a table is a data set of arrays, and they are joined. Parquet is read
row group by row group when samples are read, and stays decoded in the cache of the process.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ..errors import ChangedError, FileError, FormatError, InvalidError, UnsupportedError
from . import arrow_c, arrow_values, made
from . import schema as _schema
from .arrow_values import Each
from .dataset import Dataset, concat
from .features import Features, of_dataset, of_metadata, refuse_format
from .ragged import Ragged
from .schema import Field, held
from .sparse import Sparse, packed, row_of

_INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
_MOST, _LONGEST = 1024, 63  # fields of a schema, and bytes of the name of one
_NONE, _BEGUN = 1, 2  # marks of values, as enum leat_chunk_mark


class Columns:
    """The columns that become fields, and which ones. `features`: the column types of `datasets`. `folder`: the one of
    relative paths, which is the present one when the data set is opened. `source`: its name in errors."""

    def __init__(
        self,
        kind: arrow_c.Type,
        fields: Sequence[str] | Mapping[str, Any] | None = None,
        fill: Mapping[str, Any] | None = None,
        features: Features | None = None,
        folder: str | None = None,
        source: str = "the table",
    ) -> None:
        self.source = source
        self.folder = _present_folder() if folder is None else folder
        self.paths: dict[str, tuple[int, ...]] = {}
        self.stored: dict[str, Field] = {}
        self.nullable: dict[str, bool] = {}
        self.structs_of_files: set[str] = set()
        leaves: dict[str, arrow_c.Type] = {}
        for name, path, leaf in arrow_values.members(kind):
            if name in self.paths:
                raise InvalidError(f"two columns would become the field {name!r}: rename one of them")
            self.paths[name], leaves[name] = path, leaf
            self.nullable[name] = arrow_values.is_nullable(kind, path)
            self.stored[name] = arrow_values.field_of(leaf)
            if leaf.dictionary is None and arrow_values.is_file(leaf):
                self.structs_of_files.add(name)
        self.as_json: set[str] = set()
        self.as_files: set[str] = set()
        wanted = (
            dict(fields) if isinstance(fields, Mapping) else dict.fromkeys(self.stored if fields is None else fields)
        )
        self.fields: dict[str, Field] = {}
        known = Features() if features is None else features
        for name, one in ((str(n), k) for n, k in wanted.items()):
            if isinstance(one, Field) and one.kind == "sparse":
                self.fields[name] = self._sparse(name, one)
                continue
            if name in leaves:
                arrow_c.refuse(leaves[name])
            photo = one is None and name in known.images and self._can_be_files(name)
            if photo:
                known.refuse_mode(name, wanted)
            self.fields[name] = self._as(name, "image" if photo else one)
        for name in fill or {}:
            if name in self.fields and self.fields[name].kind == "sparse":
                raise InvalidError(f"fill has {name!r}: nothing stands for missing sparse rows")
            if name not in self.paths:
                raise KeyError(f"there is no column {name!r}: there are {', '.join(self.paths)}")
        self.fill = {
            n: arrow_values.checked_fill(n, self.fields.get(n, self.stored[n]), v) for n, v in (fill or {}).items()
        }
        self.lacking = [
            n
            for n, f in self.fields.items()
            if self.nullable[n] and n not in self.fill and not arrow_values.has_null(f)
        ]
        if odd := [n for n in self.fields if len(n) > _LONGEST] or list(self.fields)[_MOST:]:
            raise InvalidError(
                f"{source} has {len(self.fields)} columns, and a data set at most {_MOST} fields with names of at most "
                f"{_LONGEST} bytes, such as not {odd[0]!r:.80}: fields=[...] takes some of them"
            )
        self.classes = known.classes(self.fields)

    def has_files(self, name: str) -> bool:
        """Whether values of a field may be files that a column has by their paths."""
        return name in self.as_files or name in self.structs_of_files

    def _can_be_files(self, name: str) -> bool:
        return name in self.stored and self.stored[name].kind in ("bytes", "str")

    def _sparse(self, name: str, field: Field) -> Field:
        """Sparse rows, of a struct of two lists."""
        listed = {part: self.stored.get(f"{name}.{part}") for part in ("values", "columns")}
        dtypes = {part: one.dtype for part, one in listed.items() if one is not None and one.shape == (None,)}
        if len(dtypes) < 2 or dtypes["columns"] not in _INTEGERS:
            raise InvalidError(
                f"{field} is of a column that is a struct of lists, values and columns: {name!r} is none"
            )
        if dtypes["values"] != ("uint8" if field.dtype == "bool" else field.dtype):
            raise InvalidError(f"column {name!r} has values of {dtypes['values']}, which cannot be {field}")
        self.paths[name] = self.paths[f"{name}.values"][:-1]
        self.nullable[name] = False
        return field

    def _as(self, name: str, wanted: Any) -> Field:
        """A field as it is wanted: bytes may be photos, text JSON, or paths of photos."""
        if name not in self.paths:
            raise _schema.no_field(self.source, name, self.paths)
        found = self.stored[name]
        if wanted is None or (field := _schema.as_field(wanted)) == found:
            return found
        if found.kind == "bytes" and field.kind != "array" and field.kind != "json":
            return field
        if (found.kind, field.kind) in (("str", "json"), ("str", "bytes")):
            return field
        if found.kind == "str" and field.kind in _schema.ENCODED:
            self.as_files.add(name)
            return field
        if field.kind == "json":
            self.as_json.add(name)
            return field
        if found.kind == "array" == field.kind and (found.dtype, found.shape) == (field.dtype, field.shape):
            return field
        raise InvalidError(f"column {name!r} is {found}, which cannot be {field}")

    def values(self, batch: arrow_c.Column, name: str) -> tuple[Any, Any]:
        """The values of a field, and which are missing."""
        if self.fields[name].kind == "sparse":
            return self._sparse_values(batch, name), None
        column = arrow_values.at_path(batch, self.paths[name])
        return arrow_values.values_of(column, name in self.as_json, name in self.as_files, self.folder)

    def _sparse_values(self, batch: arrow_c.Column, name: str) -> Sparse:
        field, lists = self.fields[name], []
        for part in ("values", "columns"):
            found, nulls = arrow_values.values_of(arrow_values.at_path(batch, self.paths[f"{name}.{part}"]))
            if nulls is not None:
                raise InvalidError(
                    f"row {int(np.flatnonzero(nulls)[0])} of column {name!r} is missing: a row without values has "
                    "empty lists"
                )
            assert isinstance(found, Ragged)
            lists.append(found)
        values, columns = lists
        if not np.array_equal(values.lengths, columns.lengths):
            row = int(np.flatnonzero(values.lengths != columns.lengths)[0])
            raise InvalidError(
                f"row {row} of column {name!r} has {values.lengths[row]} values and {columns.lengths[row]} columns"
            )
        (first, last), (begin, end) = ((int(one.offsets[0]), int(one.offsets[-1])) for one in lists)
        offsets = np.asarray(values.offsets, np.int64) - first
        kept = values.values[first:last].view(held(field.dtype))
        return Sparse(kept, columns.values[begin:end], offsets, field.shape[0] or 0)

    def of(self, batch: arrow_c.Column, name: str, first: int) -> Any:
        try:
            values, nulls = self.values(batch, name)
        except arrow_values.Lacking as e:
            raise InvalidError(f"row {first + int(np.argmax(e.rows))}: {arrow_values.lacks(name)}") from None
        return arrow_values.filled(name, self.fields[name], values, nulls, self.fill, first)


def _present_folder() -> str:
    try:
        return os.getcwd()
    except FileNotFoundError:  # it was removed
        return ""


def from_arrow(
    obj: Any,
    *,
    fields: Sequence[str] | Mapping[str, Any] | None = None,
    fill: Mapping[str, Any] | None = None,
    version: str | None = None,
) -> Dataset:
    """A data set of a table of Arrow: of pyarrow, polars, DuckDB, `datasets`, or any object that exports Arrow's C
    stream.

    Numbers, strings, binaries and lists of numbers stay where they are; bool, dictionaries and views of strings are
    copied once. Structs become fields with dotted names (``meta.domain``), other nested values kind ``"json"``,
    decimals text, dates and times the integers that Arrow has. No package is needed for this.

    Args:
        obj: has ``__arrow_c_stream__``: a pyarrow ``Table``, ``RecordBatch`` or ``RecordBatchReader``, a polars
            ``DataFrame`` ...; a ``pyarrow.dataset.Dataset``, which is read row group by row group with its samples; or
            a ``datasets.Dataset``, in place, with its selection.
        fields: names of the columns to take; or a dict of names to what they are (None: as found), such as
            ``{"photo": "image", "label": None}``. Characters of a name that are not ``A-Za-z0-9_.-`` become ``_``. A
            struct of two lists, ``values`` and ``columns``, may be ``leat.sparse(dtype, n)``.
        fill: for a column with missing values the substitute for them: ``{"year": -1, "title": ""}``. Those of floats
            become NaN, those of JSON null; all others without a `fill` are an error.
        version: a text that names the content, for the fingerprint. Without it all values are read once, except of
            ``datasets``, whose own fingerprint is taken.

    Raises:
        TypeError: `obj` is no table.
        ValueError: missing values, or a type that leat lacks; the text names the column.

    >>> import pyarrow as pa
    >>> table = pa.table({"text": ["to be", "or not"], "tokens": [[1, 2, 3], [4]]})
    >>> leat.from_arrow(table)[0]
    {'text': 'to be', 'tokens': array([1, 2, 3])}
    """
    if any(c.__module__.partition(".")[0] == "datasets" for c in type(obj).__mro__):
        return _of_hugging_face(obj, fields, fill, version)
    if hasattr(obj, "get_fragments") and hasattr(obj, "schema"):
        return of_chunks(_fragments(obj), obj.schema, fields, fill, version)
    if not hasattr(obj, "__arrow_c_stream__"):
        raise TypeError(f"from_arrow takes an object with __arrow_c_stream__, and {type(obj).__name__} has none")
    return _of_table(obj, fields, fill, version, None)


def _of_table(obj: Any, fields: Any, fill: Any, version: str | None, features: Features | None) -> Dataset:
    kind, batches = arrow_c.read(obj)
    known = of_metadata(kind.metadata) if features is None else features
    columns = Columns(kind, _schema.wanted(fields), fill, known)
    if not columns.fields:
        raise InvalidError("the table has no columns")
    parts, first = [], 0
    for batch in batches:
        if batch.length:
            parts.append(_of_batch(columns, batch, first, None if version is None else f"{version}:{first}"))
            first += batch.length
    return concat(parts) if len(parts) > 1 else parts[0] if parts else _empty(columns)


def _of_batch(columns: Columns, batch: arrow_c.Column, first: int, version: str | None) -> Dataset:
    values = {name: columns.of(batch, name, first) for name in columns.fields}
    if not any(isinstance(v, Each) for v in values.values()):
        return made.of_arrays(columns.fields, values, version, columns.classes)
    parts = {
        name: made.from_source(_One(name, columns.fields[name], v, version, columns.classes, first))
        if isinstance(v, Each)
        else made.of_arrays({name: columns.fields[name]}, {name: v}, version, columns.classes)
        for name, v in values.items()
    }
    return made.zipped(parts, True) if len(parts) > 1 else next(iter(parts.values()))


def _empty(columns: Columns) -> Dataset:
    arrays: dict[str, Any] = {}
    for name, found in columns.fields.items():
        inner = [n or 1 for n in found.shape if n is not None]
        values = np.empty((0, *inner), held(found.dtype))
        if found.kind == "sparse":
            arrays[name] = Sparse(values[:0, ...].reshape(0), np.empty(0, np.int32), np.zeros(1, np.int64), inner[0])
            continue
        varies = found.kind != "array" or found.shape[:1] == (None,)
        arrays[name] = Ragged(values, np.zeros(1, np.int64)) if varies else values
    return made.of_arrays(columns.fields, arrays, None, columns.classes)


class _One:
    """A column whose values are made one by one. `first`: the row of the table that its first one is."""

    def __init__(
        self, name: str, field: Field, values: Each, version: str | None, classes: Sequence[str], first: int
    ) -> None:
        self.fields: Mapping[str, Any] = {name: field}
        self.classes_of_label = list(classes)
        self._values, self._first = values, first
        self.version = version if version is not None else self._hash()

    def __len__(self) -> int:
        return len(self._values)

    def _hash(self) -> str:
        whole = hashlib.sha256()
        for i in range(len(self)):
            whole.update(repr(self._values.identity(i)).encode("utf-8", "surrogateescape") + b"\0")
        return whole.hexdigest()

    def read(self, positions: np.ndarray[Any, Any]) -> dict[str, Any]:
        (name,) = self.fields
        return {name: _made(self._values, positions.tolist(), name, lambda i: f"row {self._first + i}")}


def _made(values: Any, rows: Iterable[int], name: str, where: Callable[[int], str]) -> list[Any]:
    """Values that are made one by one; if one is a file that cannot be read, the error says `where`."""
    row = 0
    try:
        return [values[row := i] for i in rows]
    except OSError as e:
        raise FileError(f"{where(row)}: column {name!r} names a file that cannot be read: {e}") from e
    except UnsupportedError as e:
        raise UnsupportedError(f"{where(row)}: of column {name!r} {e}") from e


def _of_hugging_face(obj: Any, fields: Any, fill: Any, version: str | None) -> Dataset:
    if not hasattr(obj, "data") or not hasattr(obj, "_indices"):
        raise TypeError(
            f"from_arrow takes a datasets.Dataset, and this is a {type(obj).__name__}: choose a split, or for a stream "
            "save it first"
        )
    refuse_format(obj, fields)
    table = getattr(obj.data, "table", obj.data)
    if version is None and (own := getattr(obj, "_fingerprint", None)):
        version = f"datasets {own}"
    found = _of_table(table, fields, fill, version, of_dataset(obj))
    if obj._indices is None:
        return found
    return found.select(np.asarray(obj._indices.column(0).to_numpy()))


# ---- row groups ------------------------------------------------------------------------------------------------------


class Chunk:
    """Rows that are read together: their number, of which file and part of it (``"row group 2"``), and how."""

    def __init__(self, rows: int, path: str, part: str, read: Any, version: str) -> None:
        self.rows, self.path, self.part, self.read, self.version = rows, path, part, read, version

    @property
    def where(self) -> str:
        """The name in errors."""
        return f"{self.path} {self.part}"


class Chunks:
    """A source over chunks. Decoded columns stay in the process's cache, as bytes: JSON as its text, sparse rows as
    they are stored. The paths of values that are files stay there."""

    def __init__(
        self, chunks: Sequence[Chunk], columns: Columns, names: Mapping[str, str], version: str | None
    ) -> None:
        self._chunks = list(chunks)
        self._columns = columns
        self._top = dict(names)  # the column of the file that a field lies in
        self.fields: Mapping[str, Any] = columns.fields
        self.classes_of_label = columns.classes
        self.lacking_fields = columns.lacking
        self.version = version or hashlib.sha256("\n".join(c.version for c in self._chunks).encode()).hexdigest()
        self.chunk_rows = [c.rows for c in self._chunks]
        self._ends = np.cumsum([c.rows for c in self._chunks], dtype=np.int64)

    def __len__(self) -> int:
        return int(self._ends[-1]) if len(self._ends) else 0

    def place(self, position: int) -> tuple[Chunk, int]:
        """The chunk that a row stands in, and the row in it."""
        chunk = self._chunks[number := int(np.searchsorted(self._ends, position, "right"))]
        return chunk, position - int(self._ends[number]) + chunk.rows

    def read(self, positions: np.ndarray[Any, Any]) -> dict[str, Any]:
        return self.read_fields(positions, list(self.fields))

    def read_fields(
        self, positions: np.ndarray[Any, Any], names: Sequence[str], may_lack: bool = False
    ) -> dict[str, Any]:
        """Decodes the chunks of these rows, and keeps none. `may_lack`: None stands for a value that is missing, which
        else is an error."""
        where = np.searchsorted(self._ends, positions, "right")
        numbers = np.unique(where).tolist()
        order = [np.flatnonzero(where == number) for number in numbers]
        out: dict[str, list[Any]] = {name: [] for name in names}
        for number, at in zip(numbers, order, strict=True):
            rows = positions[at] - (int(self._ends[number]) - self._chunks[number].rows)
            found = self._decoded(number, names)
            for name in names:
                out[name].append(self._taken(self._chunks[number], name, *found[name], rows, may_lack))
        return {name: _scattered(parts, order) for name, parts in out.items()}

    def slices(self, names: Sequence[str], n: int) -> Iterator[dict[str, Any]]:
        """All rows, at most n at a time, None for values that are missing or not whole; each chunk is decoded once."""
        for number, chunk in ((i, c) for i, c in enumerate(self._chunks) if c.rows):
            decoded = self._decoded(number, names)
            found = {name: (values, None if marks is None else marks != 0) for name, (values, marks) in decoded.items()}
            for begin in range(0, chunk.rows, n):
                rows = np.arange(begin, min(begin + n, chunk.rows))
                yield {name: self._taken(chunk, name, *found[name], rows, True) for name in names}

    def _taken(
        self, chunk: Chunk, name: str, values: Any, nulls: Any, rows: np.ndarray[Any, Any], may_lack: bool
    ) -> Any:
        """The values of some rows of a chunk: an array of those of fixed size, if none is missing, else a list."""
        missing = None if nulls is None else nulls[rows]
        if missing is None or not missing.any():
            return self._there(chunk, name, values, rows)
        wrong = np.flatnonzero(missing == _BEGUN if may_lack else missing)
        if len(wrong):
            raise self._missing(chunk, int(rows[wrong[0]]), name, missing[wrong[0]] == _BEGUN)
        there = iter(self._there(chunk, name, values, rows[missing == 0]))
        return [None if none else next(there) for none in missing.tolist()]

    def _there(self, chunk: Chunk, name: str, values: Any, rows: np.ndarray[Any, Any]) -> Any:
        if isinstance(values, np.ndarray):
            return values[rows]
        if not isinstance(values, Ragged):
            return _made(values, rows.tolist(), name, lambda i: f"{chunk.where}, row {i}")
        kind, raw = self.fields[name].kind, values.values
        ends = zip(values.offsets[rows].tolist(), values.offsets[rows + 1].tolist(), strict=True)
        if kind == "array":
            return [raw[begin:end] for begin, end in ends]
        raw = memoryview(raw)
        if kind == "str":
            return [str(raw[begin:end], "utf-8") for begin, end in ends]
        found = [raw[begin:end] for begin, end in ends]
        return [json.loads(bytes(one)) for one in found] if kind == "json" else found

    def read_chunk(self, number: int, names: Sequence[str]) -> dict[str, Any]:
        """The values of whole columns, and a mark for each, or None."""
        return {name: self._as_bytes(name, *one) for name, one in self._decoded(number, names).items()}

    def _as_bytes(self, name: str, values: Any, nulls: Any) -> tuple[Any, Any]:
        field = self.fields[name]
        if isinstance(values, np.ndarray) or (isinstance(values, Ragged) and field.kind != "json"):
            return values, nulls
        step = _schema.step_of(field) if field.kind == "sparse" else 1
        marks = np.zeros(len(values), np.uint8) if nulls is None else nulls.astype(np.uint8)
        rows: list[bytes] = []
        for i, mark in enumerate(marks.tolist()):
            try:
                made, begun = (b"", False) if mark else self._row(name, field, values, i)
            except Exception as e:  # `finish` raises it for this sample
                made, begun = f"{type(e).__name__}: {e}".encode("utf-8", "replace"), True
            if begun:
                marks[i] = _BEGUN
            rows.append(made + b" " * (-len(made) % step))
        offsets = np.zeros(len(rows) + 1, np.int64)
        np.cumsum([len(row) // step for row in rows], out=offsets[1:])
        return Ragged(np.frombuffer(b"".join(rows), np.uint8), offsets), marks if marks.any() else None

    def _row(self, name: str, field: Field, values: Any, i: int) -> tuple[bytes, bool]:
        """A value as it is stored, or the path of the file that it is, and True."""
        if isinstance(values, arrow_values.Files):
            return values.begun(i)
        if isinstance(values, arrow_values.Filled) and isinstance(values.values, arrow_values.Files):
            return (values.one, False) if values.missing[i] else values.values.begun(i)
        if isinstance(values, _Joined):
            return self._row(name, field, *values.place(i))
        one = values[i]
        if field.kind == "sparse":
            one = packed(*row_of(name, one, field.shape[0] or 0)).tobytes()
        elif isinstance(values, Ragged):
            one = bytes(one)
            json.loads(one)
        elif field.kind == "json":
            one = json.dumps(one, ensure_ascii=False, allow_nan=False).encode()
        return one.encode() if isinstance(one, str) else one, False

    def faults(self) -> Iterator[tuple[int, int, str]]:
        """What is wrong with row groups that cannot be decoded, and with values that cannot be made: the first and the
        last sample, and a text."""
        first = 0
        for number, chunk in enumerate(self._chunks):
            try:
                found = self.read_chunk(number, list(self.fields))
            except (FormatError, InvalidError, UnsupportedError) as e:
                yield first, first + chunk.rows - 1, str(e)
                found = {}
            for name, (values, marks) in found.items():
                for row in [] if marks is None else np.flatnonzero(np.asarray(marks) == _BEGUN).tolist():
                    begin, end = (int(values.offsets[k]) for k in (row, row + 1))
                    try:
                        self.finish(name, first + row, values.values[begin:end].tobytes())
                    except (FormatError, FileError, UnsupportedError) as e:
                        yield first + row, first + row, str(e)
            first += chunk.rows

    def finish(self, name: str, position: int, begun: bytes | None) -> Any:
        """The value of a file, by what :meth:`read_chunk` has of it, or the error of a row that has none."""
        chunk, row = self.place(position)
        kind = self.fields[name].kind
        if begun is None or kind == "array" or (kind == "str" and not _is_text(begun)):
            raise self._missing(chunk, row, name, begun is not None)
        if not self._columns.has_files(name):
            raise FormatError(f"{chunk.where}, row {row}: column {name!r}: {begun.decode('utf-8', 'replace').rstrip()}")
        files = arrow_values.Files([begun], None, None, self._columns.folder)
        return _made(files, [0], name, lambda _: f"{chunk.where}, row {row}")[0]

    def _missing(self, chunk: Chunk, row: int, name: str, there: bool) -> InvalidError:
        """The error of a value that is missing, or is `there` and not whole: a list, or a text."""
        if there and self.fields[name].kind == "array":
            told = arrow_values.lacks(name)
        elif there:
            told = f"column {name!r} has a text that is not UTF-8"
        else:
            told = f"column {name!r} has no value, and a field has one: fill={{{name!r}: ...}} says what stands for it"
        return InvalidError(f"{chunk.where}, row {row}: {told}")

    def _decoded(self, number: int, names: Sequence[str]) -> dict[str, tuple[Any, Any]]:
        """The values of columns, and which are missing."""
        chunk = self._chunks[number]
        try:
            table = chunk.read(list(dict.fromkeys(self._top[n] for n in names)))
        except ChangedError:
            raise
        except Exception as e:
            raise FormatError(f"{chunk.where}: {e}") from e
        table = table.combine_chunks()
        kind, batches = arrow_c.read(table)
        wanted = {n: self.fields[n] for n in names}
        fill = {n: v for n, v in self._columns.fill.items() if n in names}
        columns = Columns(kind, wanted, fill, folder=self._columns.folder)
        parts = list(batches)
        if sum(p.length for p in parts) != chunk.rows:
            raise FormatError(f"{chunk.where}: {sum(p.length for p in parts)} rows, and its index says {chunk.rows}")
        decoded: dict[str, tuple[Any, Any]] = {}
        for name in names:
            try:
                pieces = [self._prepared(columns, part, name) for part in parts]
            except InvalidError as e:
                raise InvalidError(f"{chunk.where}: {e}") from None
            decoded[name] = pieces[0] if len(pieces) == 1 else _join(pieces)
        return decoded

    def _prepared(self, columns: Columns, part: arrow_c.Column, name: str) -> tuple[Any, Any]:
        found, holes = columns.fields[name], None
        try:
            values, nulls = columns.values(part, name)
        except arrow_values.Lacking as e:
            if found.kind == "sparse":
                raise
            values, nulls, holes = e.values, e.nulls, e.rows
        if nulls is not None and (name in columns.fill or arrow_values.has_null(found)):
            values, nulls = arrow_values.filled(name, found, values, nulls, columns.fill, 0), None
        if found.kind == "str" and isinstance(values, Ragged):
            holes = _not_text(values, nulls)
        if holes is not None:
            nulls = np.where(holes, _BEGUN, 0 if nulls is None else nulls)
        return values, nulls


def _is_text(raw: Any) -> bool:
    try:
        str(raw, "utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _not_text(values: Ragged, nulls: Any) -> Any:
    """Which texts that are there are not UTF-8; None: none of them."""
    offsets = np.asarray(values.offsets)
    whole = values.values[int(offsets[0]) : int(offsets[-1])]
    cuts = offsets[(offsets > offsets[0]) & (offsets < offsets[-1])]
    if not len(whole) or whole.max() < 0x80 or (_is_text(whole) and not (values.values[cuts] & 0xC0 == 0x80).any()):
        return None
    there = range(len(values)) if nulls is None else np.flatnonzero(~nulls).tolist()
    wrong = np.zeros(len(values), bool)
    wrong[[i for i in there if not _is_text(memoryview(values[i]))]] = True
    return wrong if wrong.any() else None


def _join(pieces: list[tuple[Any, Any]]) -> tuple[Any, Any]:
    """Values of several batches of one chunk, whose strings are longer than a batch can have."""
    parts = [part for part, _ in pieces]
    values: Any = _Joined(parts)
    if all(isinstance(p, np.ndarray) for p in parts):
        values = np.concatenate(parts)
    elif all(isinstance(p, Ragged) for p in parts):
        lengths = np.concatenate([[0], *(np.asarray(p.lengths) for p in parts)])
        texts = [p.values[int(p.offsets[0]) : int(p.offsets[-1])] for p in parts]
        values = Ragged(np.concatenate(texts), np.cumsum(lengths, dtype=np.int64))
    if all(nulls is None for _, nulls in pieces):
        return values, None
    return values, np.concatenate([np.zeros(len(p), bool) if n is None else n for p, n in pieces])


class _Joined(Each):
    def __init__(self, parts: Sequence[Any]) -> None:
        self.parts, self.ends = parts, np.cumsum([len(p) for p in parts])

    def __len__(self) -> int:
        return int(self.ends[-1])

    def place(self, i: int) -> tuple[Any, int]:
        """The part that a row stands in, and the row in it."""
        part = int(np.searchsorted(self.ends, i, "right"))
        return self.parts[part], i - int(self.ends[part]) + len(self.parts[part])

    def __getitem__(self, i: int) -> Any:
        part, row = self.place(i)
        return part[row]


def _scattered(parts: list[Any], order: list[np.ndarray[Any, Any]]) -> Any:
    """Values of several chunks in the order of the request; `order`: the places of each chunk's."""
    if len(parts) == 1:
        return parts[0]
    count, arrays = sum(map(len, order)), all(isinstance(p, np.ndarray) for p in parts)
    out: Any = np.empty((count, *parts[0].shape[1:]), parts[0].dtype) if arrays and parts else [None] * count
    for at, part in zip(order, parts, strict=True):
        if arrays:
            out[at] = part
            continue
        for k, value in zip(at.tolist(), part, strict=True):
            out[k] = value
    return out


def of_chunks(chunks: list[Chunk], schema: Any, fields: Any, fill: Any, version: str | None) -> Dataset:
    kind = arrow_c.type_of(schema)
    source = chunks[0].path if chunks else "the table"
    columns = Columns(kind, _schema.wanted(fields), fill, of_metadata(kind.metadata), source=source)
    if not columns.fields:
        raise InvalidError("there are no columns")
    names = {name: kind.children[columns.paths[name][0]].name for name in columns.fields}
    return made.from_source(Chunks(chunks, columns, names, version))


class _FragmentRead:
    def __init__(self, fragment: Any, schema: Any) -> None:
        self.fragment, self.schema = fragment, schema

    def __call__(self, columns: list[str]) -> Any:
        return self.fragment.to_table(schema=self.schema, columns=columns)


def _fragments(dataset: Any) -> list[Chunk]:
    chunks = []
    for fragment in dataset.get_fragments():
        parts = fragment.split_by_row_group() if hasattr(fragment, "split_by_row_group") else [fragment]
        for i, part in enumerate(parts):
            rows = sum(g.num_rows for g in part.row_groups) if hasattr(part, "row_groups") else part.count_rows()
            name, read = f"row group {i}", _FragmentRead(part, dataset.schema)
            path = getattr(part, "path", "a table in memory")
            chunks.append(Chunk(rows, path, name, read, f"{path} {name} {rows}"))
    return chunks


class _GroupRead:
    """Reads a row group; the file is open only then."""

    def __init__(self, path: str, group: int, stamp: tuple[int, int]) -> None:
        self.path, self.group, self.stamp = path, group, stamp

    def __call__(self, columns: list[str]) -> Any:
        import pyarrow.parquet

        check_stamp(self.path, self.stamp)
        about = _about(self.path, self.stamp)
        how = {"metadata": about, "memory_map": True, "page_checksum_verification": True}
        with pyarrow.parquet.ParquetFile(self.path, **how) as file:
            return file.read_row_group(self.group, columns=columns)


@functools.lru_cache(maxsize=64)
def _about(path: str, found: tuple[int, int]) -> Any:
    """The footer of a file, which need not be parsed for each of its row groups."""
    import pyarrow.parquet

    return pyarrow.parquet.read_metadata(path, memory_map=True)


def stamp(path: str) -> tuple[int, int]:
    found = os.stat(path)
    return found.st_size, found.st_mtime_ns


def check_stamp(path: str, found: tuple[int, int]) -> None:
    """Refuses a file that is another one than when it was opened."""
    try:
        now = stamp(path)
    except FileNotFoundError as e:
        raise ChangedError(f"{path} was removed after it was opened: open it again") from e
    if now != found:
        raise ChangedError(f"{path} was changed after it was opened: open it again")


def open_parquet(paths: Sequence[str], fields: Any = None, fill: Any = None) -> Dataset:
    """One data set of Parquet files of one schema. Only their footers are read."""
    parquet = needed("pyarrow.parquet", "reading Parquet")
    chunks: list[Chunk] = []
    schema: Any = None
    for path in paths:
        try:
            found = stamp(path)
            with parquet.ParquetFile(path, memory_map=True) as file:
                own, about = file.schema_arrow, file.metadata
                groups = [about.row_group(i).num_rows for i in range(about.num_row_groups)]
        except FileNotFoundError:
            raise
        except Exception as e:
            raise FormatError(f"{path} is no Parquet file that can be read: {e}") from e
        schema = joined(paths[0], schema, path, own, fields)
        version = hashlib.sha256(_footer(path)).hexdigest()
        chunks += [
            Chunk(rows, path, f"row group {i}", _GroupRead(path, i, found), f"{version} {i}")
            for i, rows in enumerate(groups)
        ]
    return of_chunks(chunks, schema, fields, fill, filled_version(chunks, fill))


def joined(first: str, schema: Any, path: str, own: Any, fields: Any) -> Any:
    """The schema of some files, with that of one more: the columns that `fields` takes are the same, in any order."""
    if schema is None:
        _warn_of_partition(path, own, fields)
        return own
    mine, others = _chosen(own, fields), _chosen(schema, fields)
    for name in [*others, *(n for n in mine if n not in others)]:
        if mine.get(name) == others.get(name):
            continue
        told = f"{name!r} is {mine.get(name, 'absent')}, not {others.get(name, 'absent')}"
        raise FormatError(
            f"{path} has other columns than {first}: {told}. fields=[...] takes those that all have; "
            "leat.from_arrow(pyarrow.dataset.dataset(paths, schema=schema)) reads each file as that schema, and what a "
            "file lacks as missing"
        )
    before, labels = of_metadata(schema.metadata).labels, of_metadata(own.metadata).labels
    for name in labels.keys() & before.keys():
        if labels[name] != before[name]:
            raise FormatError(
                f"{path} has other names of classes in column {name!r} than {first}, so that equal labels would mean "
                f"different things: {labels[name][:20]} and {before[name][:20]}"
            )
    return own if labels.keys() > before.keys() else schema


def _chosen(schema: Any, fields: Any) -> dict[str, str]:
    """The types of the columns that `fields` takes, as text; those that hold the same text are one."""
    wanted = None if fields is None else [f"{n}." for n in fields]
    found = {}
    for one in schema:
        begin = f"{arrow_values.valid_name(one.name)}."
        if wanted is None or any(n.startswith(begin) for n in wanted):
            kind = str(getattr(one.type, "value_type", one.type) if str(one.type).startswith("dict") else one.type)
            plain = re.sub("^(?:large_)?(string|binary)(?:_view)?$", r"\1", kind)
            found[one.name] = plain if one.nullable else f"{plain} not null"
    return found


def _warn_of_partition(path: str, schema: Any, fields: Any) -> None:
    """Folders such as ``year=2020`` are columns to others; here a file has those that are in it."""
    folders = [part for part in os.path.dirname(path).split("/") if re.fullmatch(r"\w+=.+", part)]
    lost = [part for part in folders if part.partition("=")[0] not in schema.names]
    if lost and fields is None:
        root = path[: path.index(f"/{folders[0]}/") + 1]
        warnings.warn(
            f"{path}: {lost[0]} is a folder, and no column of the file: to have it as one, take "
            f"leat.from_arrow(pyarrow.dataset.dataset({root!r}, partitioning='hive'))",
            stacklevel=5,
        )


def _told(value: Any) -> str:
    """A value in full: as its repr if that is complete."""
    array = value if isinstance(value, (str, bytes, int, float)) or value is None else np.asarray(value)
    if isinstance(array, np.ndarray) and array.dtype.kind in "biuf":
        return f"{array.dtype.str} {array.shape} {array.tobytes().hex()}"
    return repr(value)


def filled_version(chunks: Sequence[Chunk], fill: Mapping[str, Any] | None) -> str | None:
    """Names the content of chunks with the substitute for missing values; None: there is none."""
    if not fill:
        return None
    values = [c.version for c in chunks] + [f"{name} {_told(fill[name])}" for name in sorted(fill, key=str)]
    return hashlib.sha256("\n".join(values).encode("utf-8", "backslashreplace")).hexdigest()


def _footer(path: str) -> bytes:
    """The end of a Parquet file, which has the place and the statistics of each column."""
    with open(path, "rb") as f:
        f.seek(-8, os.SEEK_END)
        size = int.from_bytes(f.read(4), "little")
        f.seek(-min(size + 8, os.stat(path).st_size), os.SEEK_END)
        return f.read()


def needed(name: str, what: str, package: str = "") -> Any:
    """A module of a package, which pip may know by another name."""
    import importlib

    try:
        return importlib.import_module(name)
    except ImportError as e:
        package = package or name.partition(".")[0]
        raise ImportError(f"{what} needs the package {package}: pip install {package} ({e})") from e
