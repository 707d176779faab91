"""Formats that their own libraries read: Lance (pylance) and ArrayRecord (array_record). leat asks them for many rows
in a call."""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..errors import FormatError, InvalidError
from . import made
from . import schema as _schema
from .arrow import Chunk, check_stamp, filled_version, needed, of_chunks, stamp
from .dataset import Dataset, concat
from .paths import ends_so

FORMATS = ("lance", "array_record")
_ROWS = 4096  # of Lance, that are read together


def format_of(path: str) -> str:
    """``"lance"``, ``"array_record"``, or nothing."""
    path = path.rstrip("/")
    if path.endswith(".lance") and os.path.isdir(path):
        return "lance"
    return "array_record" if ends_so(path, (".array_record", ".arrayrecord")) and os.path.isfile(path) else ""


def open_libraries(paths: Sequence[str], format: str, fields: Any, fill: Any) -> Dataset:  # noqa: A002
    if format == "lance":
        return open_lance(paths, fields, fill)
    if fill is not None:
        raise ValueError("fill is for columns with missing values, and records have none")
    parts = [made.from_source(Records(path, fields)) for path in paths]
    return parts[0] if len(parts) == 1 else concat(parts)


def open_lance(paths: Sequence[str], fields: Any, fill: Any) -> Dataset:
    chunks: list[Chunk] = []
    schema: Any = None
    for path in paths:
        try:
            found = needed("lance", "reading Lance", "pylance").dataset(path)
            rows, version, own = found.count_rows(), int(found.version), found.schema
        except (OSError, ValueError) as e:
            raise FormatError(f"{path} is no data set of Lance that can be read: {e}") from e
        if schema is not None and not own.equals(schema):
            raise FormatError(f"{path} has other columns than {paths[0]}: {own} and {schema}")
        schema = own
        for first in range(0, rows, _ROWS):
            n = min(_ROWS, rows - first)
            name = f"{os.path.basename(path)} version {version} of {rows}, {first}"
            chunks.append(Chunk(n, path, f"rows {first} to {first + n - 1}", _LanceRead(path, version, first, n), name))
    return of_chunks(chunks, schema, fields, fill, filled_version(chunks, fill))


@functools.lru_cache(maxsize=16)
def _lance(path: str, version: int) -> Any:
    return needed("lance", "reading Lance", "pylance").dataset(path, version=version)


class _LanceRead:
    """Reads rows of a version, which Lance never changes."""

    def __init__(self, path: str, version: int, first: int, rows: int) -> None:
        self.path, self.version, self.first, self.rows = path, version, first, rows

    def __call__(self, columns: list[str]) -> Any:
        return _lance(self.path, self.version).to_table(columns=columns, offset=self.first, limit=self.rows)


class Records:
    """The records of a file of ArrayRecord, as the field ``record``, which may be said to be something."""

    def __init__(self, path: str, fields: Any = None) -> None:
        said = _schema.wanted(fields)
        if said is not None and list(said) != ["record"]:
            raise _schema.no_field(path, next((n for n in said if n != "record"), "record"), ["record"])
        kind = _schema.as_field("bytes") if said is None or said["record"] is None else said["record"]
        if kind.kind in ("array", "sparse"):
            raise InvalidError(f"fields says of 'record' that it is {kind}, and records are bytes")
        self.fields: Mapping[str, Any] = {"record": kind}
        self._path, self._stamp = path, stamp(path)
        self._reader: Any = None
        try:
            reader = self._opened()
            self._count = int(reader.num_records())
        except (OSError, ValueError, RuntimeError) as e:
            raise FormatError(f"{path} is no file of ArrayRecord that can be read: {e}") from e
        if not reader.ok():
            raise FormatError(f"{path} is no file of ArrayRecord, or it is cut or damaged: copy it again")
        self.version = f"{os.path.basename(path)} {self._stamp}"

    def __len__(self) -> int:
        return self._count

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_reader": None}

    def _opened(self) -> Any:
        if self._reader is None:
            module = needed("array_record.python.array_record_module", "reading ArrayRecord")
            self._reader = module.ArrayRecordReader(self._path)
        return self._reader

    def read_fields(
        self, positions: np.ndarray[Any, Any], names: Sequence[str], may_lack: bool = False
    ) -> dict[str, Any]:
        return self.read(positions)

    def read(self, positions: np.ndarray[Any, Any]) -> dict[str, Any]:
        check_stamp(self._path, self._stamp)
        found: list[Any] = list(self._opened().read(positions.tolist()))
        kind = self.fields["record"].kind
        if kind == "str":
            found = [str(one, "utf-8") for one in found]
        elif kind == "json":
            import json

            found = [json.loads(one) for one in found]
        return {"record": found}
