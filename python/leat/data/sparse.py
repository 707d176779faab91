"""Sparse rows: the values of a matrix that are not zero, and their columns, such as the counts of genes in cells."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from .. import check


class Sparse:
    """Rows of a sparse matrix, as a field of :func:`leat.sparse` gives them.

    Attributes:
        values: those of all rows, one row after the other: an array or tensor of shape ``(total,)``.
        columns: the column of each, int32 of shape ``(total,)``; within a row they rise.
        offsets: int64 of shape ``(rows + 1,)``; row i is ``values[offsets[i]:offsets[i + 1]]``.
        n: the number of columns.

    >>> s = leat.Sparse(np.array([1.0, 5.0]), np.array([2, 0], np.int32), np.array([0, 1, 2]), 3)
    >>> len(s), s.to_dense().tolist(), s[1].columns.tolist()
    (2, [[0.0, 0.0, 1.0], [5.0, 0.0, 0.0]], [0])
    """

    __slots__ = ("columns", "n", "offsets", "values")

    def __init__(self, values: Any, columns: Any, offsets: Any, n: int) -> None:
        self.values, self.columns, self.offsets, self.n = values, columns, offsets, n

    @property
    def lengths(self) -> Any:
        """The number of values of each row: int64, shape (rows,)."""
        return self.offsets[1:] - self.offsets[:-1]

    @property
    def shape(self) -> tuple[int, int]:
        """Of the matrix: (rows, n)."""
        return len(self), self.n

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __repr__(self) -> str:
        return f"Sparse({len(self)} rows of {self.n} columns, {len(self.values)} values of {self.values.dtype})"

    def __getitem__(self, key: Any) -> Sparse:
        """Row `key`, or the rows of a slice, as a Sparse, without a copy of the values."""
        if not isinstance(key, slice):
            try:
                i = operator.index(key)
            except TypeError:
                raise TypeError(
                    f"a Sparse is indexed by the number of a row or by a slice, not by {type(key).__name__}"
                ) from None
            if not -len(self) <= i < len(self):
                raise IndexError(f"row {i} is out of range: there are {len(self)} rows")
            i %= len(self)
            key = slice(i, i + 1)
        begin, end, step = key.indices(len(self))
        if step != 1:
            raise ValueError("a slice of sparse rows has no step: index the rows, or slice .to_dense()")
        end = max(begin, end)
        first, last = int(self.offsets[begin]), int(self.offsets[end])
        offsets = self.offsets[begin : end + 1] - first
        return Sparse(self.values[first:last], self.columns[first:last], offsets, self.n)

    def __iter__(self) -> Iterator[Sparse]:
        return iter(self.unbind())

    def unbind(self) -> list[Sparse]:
        """A list of the rows, each a Sparse of one row, without a copy of the values."""
        return [self[i] for i in range(len(self))]

    def to_dense(self) -> Any:
        """An array or tensor of shape ``(rows, n)``, 0 where there is no value; a copy."""
        if isinstance(self.values, np.ndarray):
            out = np.zeros(self.shape, self.values.dtype)
            out[np.repeat(np.arange(len(self)), self.lengths), self.columns] = self.values
            return out
        import torch

        out = self.values.new_zeros(self.shape)
        signed = {torch.uint16: torch.int16, torch.uint32: torch.int32, torch.uint64: torch.int64}.get(
            out.dtype, out.dtype
        )
        rows = torch.repeat_interleave(torch.arange(len(self), device=self.values.device), self.lengths)
        out.view(signed)[rows, self.columns.long()] = self.values.view(signed)  # PyTorch puts no unsigned values
        return out

    def to_torch(self) -> Any:
        """A sparse tensor of PyTorch, of layout ``torch.sparse_csr`` and shape ``(rows, n)``, over the same values and
        columns; only the offsets become int32, as the columns are."""
        import torch

        made = self._tensors()
        values, columns, offsets = made.values, made.columns, made.offsets
        if len(values) > np.iinfo(np.int32).max:
            raise OverflowError(f"{len(values)} values: offsets of int32 count 2^31 - 1")
        offsets = offsets.to(torch.int32)
        return torch.sparse_csr_tensor(offsets, columns, values, size=self.shape, check_invariants=False)

    def to_scipy(self) -> Any:
        """A ``scipy.sparse.csr_matrix`` of shape ``(rows, n)``, over the same values and columns. SciPy has no
        float16."""
        from scipy.sparse import csr_matrix  # type: ignore[import-untyped]

        values, columns, offsets = (np.asarray(part) for part in (self.values, self.columns, self.offsets))
        return csr_matrix((values, columns, offsets), shape=self.shape)

    def to(self, device: Any, non_blocking: bool = False) -> Sparse:
        """Copies on a device of PyTorch, of values, columns and offsets."""
        return self._tensors()._map(lambda part: part.to(device, non_blocking=non_blocking))

    def pin_memory(self) -> Sparse:
        """Copies in pinned memory, from which :meth:`to` does not wait for the device."""
        return self._tensors()._map(lambda part: part.pin_memory())

    def _tensors(self) -> Sparse:
        import torch

        return self._map(lambda part: torch.from_numpy(part) if isinstance(part, np.ndarray) else part)

    def _map(self, function: Any) -> Sparse:
        return Sparse(function(self.values), function(self.columns), function(self.offsets), self.n)


def collated(batch: list[Sparse], *, collate_fn_map: Any = None) -> Sparse:
    """The rows of all, as one Sparse of tensors: what PyTorch's default collation makes of samples in which they are.

    Raises:
        ValueError: their numbers of columns differ.
    """
    import torch

    if wrong := {rows.n for rows in batch} - {batch[0].n}:
        raise ValueError(f"sparse rows of {batch[0].n} and of {min(wrong)} columns cannot be one batch")
    arrays = all(isinstance(rows.values, np.ndarray) for rows in batch)
    listed = batch if arrays else [rows._tensors() for rows in batch]
    ends = [(int(rows.offsets[0]), int(rows.offsets[-1])) for rows in listed]
    begins = np.cumsum([0, *(end - first for first, end in ends)]).tolist()
    parts = (
        [rows.values[first:end] for rows, (first, end) in zip(listed, ends, strict=True)],
        [rows.columns[first:end] for rows, (first, end) in zip(listed, ends, strict=True)],
        [listed[0].offsets[:1] - ends[0][0]]
        + [rows.offsets[1:] - first + at for rows, (first, _), at in zip(listed, ends, begins[:-1], strict=True)],
    )
    values, columns, offsets = (torch.from_numpy(np.concatenate(part)) if arrays else torch.cat(part) for part in parts)
    return Sparse(values, columns, offsets, batch[0].n)


def as_sparse(name: str, given: Any) -> Sparse | None:
    """Rows that somebody gives as a Sparse, a matrix of SciPy or a CSR tensor of PyTorch, checked; None: it is none.

    Raises:
        TypeError: values, columns or offsets are no lists of numbers, or a list holds Sparse rows.
        ValueError: columns do not rise within a row or are beyond the last, or offsets do not fit.
    """
    if hasattr(given, "tocsr"):
        given = given.reshape(1, -1) if given.ndim == 1 else given
        given = given.tocsr()
        if not given.has_canonical_format:
            given = given.copy()
            given.sort_indices()
        given = Sparse(given.data, given.indices, given.indptr, given.shape[1])
    elif getattr(given, "is_sparse_csr", False) and given.dim() == 2:
        given = Sparse(given.values(), given.col_indices(), given.crow_indices(), given.shape[1])
    if isinstance(given, (list, tuple)) and len(given) and isinstance(given[0], Sparse):
        raise TypeError(f"{name!r} is a list of Sparse rows: give leat.sparse(dtype, n) for it in the schema")
    if not isinstance(given, Sparse):
        return None
    check.unmasked(name, given.values)
    values, columns, offsets = (_array(part) for part in (given.values, given.columns, given.offsets))
    for part, what in ((columns, "columns"), (offsets, "offsets")):
        if part.ndim != 1 or (part.size and part.dtype.kind not in "iu"):
            raise TypeError(f"{name!r}: {what} are a list of whole numbers, not {part.dtype} of shape {part.shape}")
    if values.ndim != 1:
        raise TypeError(f"{name!r}: values are a list of numbers, not of shape {values.shape}")
    columns, offsets = columns.astype(np.int64, copy=False), offsets.astype(np.int64, copy=False)
    if not len(offsets) or (np.diff(offsets) < 0).any() or offsets[0] < 0:
        raise ValueError(f"{name!r} has offsets that descend, or are negative")
    if len(values) != len(columns) or int(offsets[-1]) > len(values):
        raise ValueError(
            f"{name!r} has offsets up to {int(offsets[-1])}, {len(values)} values and {len(columns)} columns"
        )
    if len(columns) and (columns.min() < 0 or columns.max() >= given.n):
        at = int(np.flatnonzero((columns < 0) | (columns >= given.n))[0])
        raise ValueError(f"{name!r}: column {int(columns[at])}, of value {at}, is not of 0 to {given.n - 1}")
    falls = np.flatnonzero(np.diff(columns) <= 0) + 1
    falls = falls[~np.isin(falls, offsets)]
    if len(falls):
        row, at = int(np.searchsorted(offsets, falls[0], "right")) - 1, int(columns[falls[0]])
        if at == columns[falls[0] - 1]:
            raise ValueError(f"{name!r}: column {at} is there twice in row {row}")
        raise ValueError(
            f"{name!r}: column {at} of row {row} stands behind {int(columns[falls[0] - 1])}: columns rise within a row"
        )
    return Sparse(values, columns.astype(np.int32), offsets, given.n)


def _array(part: Any) -> np.ndarray[Any, Any]:
    """In the byte order of this machine."""
    if hasattr(part, "detach"):
        part = part.detach().cpu()
    array = np.ascontiguousarray(part)
    return array.astype(array.dtype.newbyteorder("="), copy=False)


def packed_rows(rows: Sparse) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """All rows as they are stored, uint8 of shape (values, bytes of a value and its column), and their offsets."""
    first, last = int(rows.offsets[0]), int(rows.offsets[-1])
    offsets = rows.offsets - first
    item = rows.values.itemsize
    out = np.empty((last - first) * (item + 4), np.uint8)
    values = rows.values[first:last].view(np.uint8)
    columns = rows.columns[first:last].view(np.uint8)
    for a, b in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True):
        middle = a * (item + 4) + (b - a) * item
        out[a * (item + 4) : middle] = values[a * item : b * item]
        out[middle : b * (item + 4)] = columns[4 * a : 4 * b]
    return out.reshape(-1, item + 4), offsets


def packed(values: np.ndarray[Any, Any], columns: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """A row as it is stored: its values, then their columns, as uint8 of shape (values, bytes of both)."""
    both = values.tobytes() + columns.astype(np.int32, copy=False).tobytes()
    return np.frombuffer(both, np.uint8).reshape(-1, values.itemsize + 4)


def unpacked(stored: np.ndarray[Any, Any], dtype: np.dtype[Any], n: int) -> Sparse:
    """A Sparse of the one row that is stored so."""
    return unpacked_rows(stored, np.array([0, len(stored)], np.int64), dtype, n)


def unpacked_rows(stored: np.ndarray[Any, Any], offsets: np.ndarray[Any, Any], dtype: np.dtype[Any], n: int) -> Sparse:
    """A Sparse of rows that are stored one behind the other, as :func:`packed_rows` makes them; a copy."""
    total, item = len(stored), dtype.itemsize
    data = np.ascontiguousarray(stored).reshape(-1)
    values, columns = np.empty(total, dtype), np.empty(total, np.int32)
    to_values, to_columns = values.view(np.uint8), columns.view(np.uint8)
    for a, b in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True):
        middle = a * (item + 4) + (b - a) * item
        to_values[a * item : b * item] = data[a * (item + 4) : middle]
        to_columns[4 * a : 4 * b] = data[middle : b * (item + 4)]
    return Sparse(values, columns, offsets, n)


def row_of(name: str, value: Any, n: int) -> tuple[Any, np.ndarray[Any, Any]]:
    """The values and columns of one row that somebody gives, its columns rising.

    Raises:
        TypeError: it is none of a Sparse, a SciPy matrix of one row, a pair (values, columns), and a dict of both.
        ValueError: a column is there twice, or beyond `n`, or values and columns differ in number.
    """
    if hasattr(value, "tocsr"):
        value = value.reshape(1, -1) if value.ndim == 1 else value
        value = value.tocsr()
        value = Sparse(value.data, value.indices, value.indptr, value.shape[1])
    if isinstance(value, Mapping) and value.keys() == {"values", "columns"}:  # as of Arrow
        value = value["values"], value["columns"]
    if isinstance(value, Sparse):
        if len(value) != 1 or value.n != n:
            raise ValueError(f"field {name!r} takes one row of {n} columns, not {value!r}")
        first, last = int(value.offsets[0]), int(value.offsets[1])
        value = value.values[first:last], value.columns[first:last]
    if not isinstance(value, tuple) or len(value) != 2:
        raise TypeError(
            f"field {name!r} takes a leat.Sparse of one row, a SciPy matrix of one row, or (values, columns), not "
            f"{type(value).__name__}"
        )
    values, columns = value[0], _array(value[1])
    if columns.ndim != 1 or (columns.size and columns.dtype.kind not in "iu"):
        raise TypeError(f"field {name!r}: columns are a list of whole numbers, not {columns.dtype} {columns.shape}")
    if np.ndim(values) != 1 or len(values) != len(columns):
        given = f"{len(values)} values" if np.ndim(values) == 1 else f"values of shape {np.shape(values)}"
        raise ValueError(f"field {name!r} has {given} and {len(columns)} columns: one for each")
    if columns.size and (columns.min() < 0 or columns.max() >= n):
        wrong = int(columns.min() if columns.min() < 0 else columns.max())
        raise ValueError(f"field {name!r}: column {wrong} is not of 0 to {n - 1}")
    columns = columns.astype(np.int32)
    if not (np.diff(columns) > 0).all():
        order = np.argsort(columns, kind="stable")
        columns, values = columns[order], values[order] if hasattr(values, "dtype") else [values[i] for i in order]
        if not (np.diff(columns) > 0).all():
            twice = int(columns[:-1][np.diff(columns) == 0][0])
            raise ValueError(f"field {name!r}: column {twice} is there twice in a row")
    return values, columns
