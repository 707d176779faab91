"""Matrices that are stored by columns (CSC), by rows: made once, in bounded memory, and kept beside the file."""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import logging
import os
import secrets
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...errors import CorruptError, FileError
from . import stored
from .kept import place_of
from .stored import Array, Rows, Stored

#: values that are sorted at a time
SLAB = 4 << 20
Slab = tuple[Array, Array, Array]  # rows, columns, values; columns do not fall from slab to slab


def by_rows(path: str, name: str, found: Rows, n_rows: int, index_dir: str | None = None) -> Rows:
    """`found`: as it is stored, with the pointers of its columns."""
    pointers = found.pointers
    assert pointers is not None and found.columns is not None
    if len(pointers) and (np.any(np.diff(pointers) < 0) or pointers[0] < 0):
        at = int(np.flatnonzero(np.diff(pointers) < 0)[0]) if pointers[0] >= 0 else 0
        raise CorruptError(f"{path}, {name}/indptr falls behind pointer {at}")
    total = int(pointers[-1])
    if total > min(found.values.shape[0], found.columns.shape[0]):
        raise CorruptError(f"{path}, {name}/indptr leads to value {total}, and there are {found.values.shape[0]}")

    def slabs() -> Iterator[Slab]:
        for begin in range(0, total, SLAB):
            end = min(begin + SLAB, total)
            columns = np.searchsorted(pointers, np.arange(begin, end), side="right") - 1
            rows, values = (a.read(begin, end - begin) for a in (found.columns, found.values) if a is not None)
            yield rows, columns.astype(np.int32), values

    known = hashlib.blake2b(digest_size=32)
    found.add_to(known)
    for array in (found.values, found.columns):
        known.update(b"" if array.times is None else array.times.tobytes())
    made_of = Source(path, name, known.digest(), total, n_rows, found.n, found.values.dtype)
    return sorted_rows(made_of, slabs, index_dir)


@dataclass(frozen=True)
class Source:
    """What rows are made of.

    Attributes:
        key: 32 bytes that change when it does.
        total: values. dtype: theirs.
    """

    path: str
    name: str
    key: bytes
    total: int
    n_rows: int
    n_columns: int
    dtype: np.dtype[Any]

    @property
    def head(self) -> bytes:
        told = np.array([self.total, self.n_rows, self.n_columns, self.dtype.num], np.int64)
        return _MAGIC + self.key + told.tobytes()

    @property
    def at_values(self) -> int:
        return len(self.head) + _CHECKSUM + 8 * (self.n_rows + 1)

    @property
    def at_columns(self) -> int:
        return (self.at_values + self.total * self.dtype.itemsize + 3) // 4 * 4

    @property
    def size(self) -> int:
        return self.at_columns + 4 * self.total


_MAGIC = b"leat-rows1".ljust(16, b"\0")
_CHECKSUM = 32  # of the head and the pointers
_temporary: list[tuple[int, str]] = []  # process and path


@atexit.register
def _remove() -> None:
    for pid, path in _temporary:
        if pid == os.getpid():
            with contextlib.suppress(OSError):
                os.unlink(path)


def sorted_rows(source: Source, slabs: Callable[[], Iterator[Slab]], index_dir: str | None) -> Rows:
    """Rows of values that come in another order: they are counted, then written where they belong.

    Args:
        slabs: gives all values, each time it is called.
    """
    kept = place_of(source.path, source.name, index_dir)
    pointers = _load(kept, source)
    if pointers is None:
        kept, pointers = _write(kept, source, slabs)
    sizes, times = stored.facts_of([kept])
    where: dict[str, Any] = {"shape": (source.total,), "files": (kept,), "sizes": sizes, "times": times}
    values = Stored(f"{source.name}/data", source.dtype, offset=source.at_values, **where)
    columns = Stored(f"{source.name}/indices", np.dtype(np.int32), offset=source.at_columns, **where)
    return Rows(values, columns, pointers, source.n_columns)


def _checksum(source: Source, pointers: Array) -> bytes:
    return hashlib.blake2b(source.head + pointers.tobytes(), digest_size=_CHECKSUM).digest()


def _load(kept: str, source: Source) -> Array | None:
    try:
        with open(kept, "rb") as file:
            head, checksum = file.read(len(source.head)), file.read(_CHECKSUM)
            pointers = np.fromfile(file, np.int64, source.n_rows + 1)
            size = os.fstat(file.fileno()).st_size
    except OSError:
        return None
    good = head == source.head and len(pointers) == source.n_rows + 1 and size == source.size
    return pointers if good and checksum == _checksum(source, pointers) else None


def _room(kept: str, source: Source) -> tuple[int, str, str]:
    """A new file that has room for the rows: its handle, its path, and the path that it gets; that is its own if it is
    for this process only."""
    partial = f"{kept}.{secrets.token_hex(4)}.partial"
    handle = -1
    try:
        os.makedirs(os.path.dirname(kept) or ".", exist_ok=True)
        handle = os.open(partial, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666)
        os.posix_fallocate(handle, 0, source.size)
        return handle, partial, kept
    except OSError as e:
        why = e
        if handle >= 0:
            os.close(handle)
            os.unlink(partial)
    handle, path = tempfile.mkstemp(prefix="leat-rows-")
    _temporary.append((os.getpid(), path))
    try:
        os.posix_fallocate(handle, 0, source.size)
    except OSError as e:
        os.close(handle)
        os.unlink(path)
        raise FileError(
            f"{source.path}, {source.name} is stored by columns: its rows take {source.size} bytes, and neither {kept} "
            f"({why.strerror}) nor {path} ({e.strerror}) has room: name another folder by index_dir="
        ) from e
    logging.getLogger("leat").warning("%s stays unwritten: %s; rows are made anew by each process", kept, why)
    return handle, path, path


def _write(kept: str, source: Source, slabs: Callable[[], Iterator[Slab]]) -> tuple[str, Array]:
    pointers = np.zeros(source.n_rows + 1, np.int64)
    for rows, _, _ in slabs():
        wrong = rows[(rows < 0) | (rows >= source.n_rows)]
        if len(wrong):
            raise CorruptError(
                f"{source.path}, {source.name} has a value of row {int(wrong[0])}, and there are {source.n_rows} rows"
            )
        pointers[1:] += np.bincount(rows, minlength=source.n_rows)
    np.cumsum(pointers, out=pointers)
    handle, partial, kept = _room(kept, source)
    try:
        with os.fdopen(handle, "r+b") as file:
            file.write(source.head + _checksum(source, pointers) + pointers.tobytes())
            file.flush()
            if source.total:
                _fill(file, source, slabs, pointers)
        if kept != partial:
            os.replace(partial, kept)
    except BaseException:
        os.unlink(partial)
        raise
    return kept, pointers


def _fill(file: Any, source: Source, slabs: Callable[[], Iterator[Slab]], pointers: Array) -> None:
    values: Any = np.memmap(file, source.dtype, "r+", source.at_values, (source.total,))
    columns: Any = np.memmap(file, np.int32, "r+", source.at_columns, (source.total,))
    following = pointers[:-1].copy()
    changed = CorruptError(f"{source.path}, {source.name} was changed while it was read: open it again")
    for rows, of_column, given in slabs():
        if len(rows) and (rows.min() < 0 or rows.max() >= source.n_rows):
            raise changed
        order = np.argsort(rows, kind="stable")
        sorted_ = rows[order]
        begins = np.flatnonzero(np.concatenate([[True], sorted_[1:] != sorted_[:-1]]))[: len(sorted_)]
        lengths = np.diff(np.append(begins, len(sorted_)))
        place = following[sorted_] + np.arange(len(sorted_)) - np.repeat(begins, lengths)
        following[sorted_[begins]] += lengths
        if np.any(following > pointers[1:]):
            raise changed
        values[place], columns[place] = given[order], of_column[order]
    if not np.array_equal(following, pointers[1:]):
        raise changed
    values.flush()
    columns.flush()
