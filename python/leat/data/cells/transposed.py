"""Matrices that are stored by columns (CSC), by rows: made once, in bounded memory, and kept beside the file."""

from __future__ import annotations

import os
import secrets
import tempfile
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ...errors import CorruptError
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

    dtype = found.values.dtype
    return sorted_rows(path, name, slabs, total, n_rows, found.n, dtype, index_dir)


def sorted_rows(
    path: str,
    name: str,
    slabs: Callable[[], Iterator[Slab]],
    total: int,
    n_rows: int,
    n_columns: int,
    dtype: np.dtype[Any],
    index_dir: str | None,
) -> Rows:
    """Rows of values that come in another order: they are counted, then written where they belong.

    Args:
        slabs: gives all values, each time it is called.
    """
    sizes, times = stored.facts_of([path])
    kept = place_of(path, name, index_dir)
    facts = np.array([int(sizes[0]), int(times[0]), total, n_rows, n_columns, dtype.num], np.int64)
    head = 8 * (len(facts) + n_rows + 1)
    body = head + total * (dtype.itemsize + 4)
    made = _load(kept, facts, n_rows, body)
    if made is None:
        kept, pointers = _write(kept, facts, slabs, total, n_rows, dtype, path, name)
    else:
        pointers = made
    kept_sizes, kept_times = stored.facts_of([kept])
    at_columns = (head + total * dtype.itemsize + 3) // 4 * 4
    values = Stored(f"{name}/data", dtype, (total,), (kept,), offset=head, sizes=kept_sizes, times=kept_times)
    columns = Stored(
        f"{name}/indices", np.dtype(np.int32), (total,), (kept,), offset=at_columns, sizes=kept_sizes, times=kept_times
    )
    return Rows(values, columns, pointers, n_columns)


def _load(kept: str, facts: Array, n_rows: int, body: int) -> Array | None:
    try:
        with open(kept, "rb") as file:
            head = np.fromfile(file, np.int64, len(facts) + n_rows + 1)
            size = os.fstat(file.fileno()).st_size
    except OSError:
        return None
    good = len(head) == len(facts) + n_rows + 1 and np.array_equal(head[: len(facts)], facts)
    return head[len(facts) :] if good and size == (body + 3) // 4 * 4 else None


def _write(
    kept: str,
    facts: Array,
    slabs: Callable[[], Iterator[Slab]],
    total: int,
    n_rows: int,
    dtype: np.dtype[Any],
    path: str,
    name: str,
) -> tuple[str, Array]:
    counts = np.zeros(n_rows, np.int64)
    for rows, _, _ in slabs():
        if len(rows) and (rows.min() < 0 or rows.max() >= n_rows):
            raise CorruptError(f"{path}, {name} has a value of row {int(rows.max())}, and there are {n_rows} rows")
        counts += np.bincount(rows, minlength=n_rows)
    pointers = np.zeros(n_rows + 1, np.int64)
    np.cumsum(counts, out=pointers[1:])
    head = 8 * (len(facts) + n_rows + 1)
    at_columns = (head + total * dtype.itemsize + 3) // 4 * 4
    folder = os.path.dirname(kept)
    try:
        os.makedirs(folder, exist_ok=True)
        partial = f"{kept}.{secrets.token_hex(4)}.partial"
        handle = os.open(partial, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666)
    except OSError:  # for this process only
        handle, partial = tempfile.mkstemp(prefix="leat-rows-")
        kept = partial
    try:
        with os.fdopen(handle, "r+b") as file:
            file.truncate(at_columns + 4 * total)
            file.write(facts.tobytes() + pointers.tobytes())
            file.flush()
            if total:
                values = np.memmap(file, dtype, "r+", head, (total,))
                columns = np.memmap(file, np.int32, "r+", at_columns, (total,))
                following = pointers[:-1].copy()
                for rows, of_column, given in slabs():
                    order = np.argsort(rows, kind="stable")
                    sorted_ = rows[order]
                    begins = np.flatnonzero(np.concatenate([[True], sorted_[1:] != sorted_[:-1]]))
                    lengths = np.diff(np.append(begins, len(sorted_)))
                    place = following[sorted_] + np.arange(len(sorted_)) - np.repeat(begins, lengths)
                    values[place], columns[place] = given[order], of_column[order]
                    following[sorted_[begins]] += lengths
                values.flush()
                columns.flush()
        if kept != partial:
            os.replace(partial, kept)
    except BaseException:
        os.unlink(partial)
        raise
    return kept, pointers
