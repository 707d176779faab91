"""Files of Arrow (IPC: ``.arrow``, ``.feather``), in the file and in the stream format, read by record batches."""

from __future__ import annotations

import functools
import hashlib
import os
from collections.abc import Sequence
from typing import Any

from ..errors import FormatError
from .arrow import Chunk, check_stamp, filled_version, joined, needed, of_chunks, stamp
from .dataset import Dataset

_MAGIC = b"ARROW1"
_PIECES, _PIECE = 16, 4096  # of a file, for the fingerprint
_END = 1 << 16


def open_ipc(paths: Sequence[str], fields: Any = None, fill: Any = None) -> Dataset:
    """One data set of files of one schema. Only the footer of the file format is read, and in the stream format the
    header before each batch."""
    needed("pyarrow", "reading files of Arrow")
    chunks: list[Chunk] = []
    schema: Any = None
    for path in paths:
        found = stamp(path)
        try:
            file = _opened(path, found)
            rows, own = file.rows(), file.schema
        except FileNotFoundError:
            raise
        except Exception as e:
            raise FormatError(f"{path} is no file of Arrow that can be read: {e}") from e
        schema = joined(paths[0], schema, path, own, fields)
        version = _version(path, rows, own)
        chunks += [
            Chunk(n, path, f"record batch {i}", _BatchRead(path, i, found), f"{version} {i}")
            for i, n in enumerate(rows)
        ]
    return of_chunks(chunks, schema, fields, fill, filled_version(chunks, fill))


class _BatchRead:
    """Reads a record batch."""

    def __init__(self, path: str, batch: int, found: tuple[int, int]) -> None:
        self.path, self.batch, self.stamp = path, batch, found

    def __call__(self, columns: list[str]) -> Any:
        import pyarrow as pa

        check_stamp(self.path, self.stamp)
        return pa.Table.from_batches([_opened(self.path, self.stamp).batch(self.batch)]).select(columns)


class _File:
    """A mapped file. The batches of a stream, which has no index, are held: they lie in the mapping, unless they are
    compressed."""

    def __init__(self, path: str) -> None:
        import pyarrow as pa

        source = pa.memory_map(path)
        head = source.read(len(_MAGIC))
        if head.startswith(b"FEA1"):
            raise ValueError("it is Feather of version 1: read it and write it again, as version 2 or as Parquet")
        source.seek(0)
        self._reader = pa.ipc.open_file(source) if head == _MAGIC else None
        if self._reader is not None:
            self.schema = self._reader.schema
        else:
            stream = pa.ipc.open_stream(source)
            self.schema, self._batches = stream.schema, list(stream)

    def rows(self) -> list[int]:
        if self._reader is None:
            return [b.num_rows for b in self._batches]
        return [self._reader.get_batch(i).num_rows for i in range(self._reader.num_record_batches)]

    def batch(self, number: int) -> Any:
        return self._batches[number] if self._reader is None else self._reader.get_batch(number)


@functools.lru_cache(maxsize=256)
def _opened(path: str, found: tuple[int, int]) -> _File:
    return _File(path)


def _version(path: str, rows: Sequence[int], schema: Any) -> str:
    """A fingerprint of the schema, the lengths of the batches, and pieces of the file: its values have no checksums."""
    whole = hashlib.sha256(f"{schema.to_string()}\n{list(rows)}".encode())
    with open(path, "rb") as f:
        size = os.fstat(f.fileno()).st_size
        for at in sorted({0, max(0, size - _END), *(size * k // _PIECES for k in range(_PIECES))}):
            f.seek(at)
            whole.update(f.read(_END if at in (0, max(0, size - _END)) else _PIECE))
    return whole.hexdigest()
