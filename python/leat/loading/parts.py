"""Sub-batches: rows [begin, end) of a batch, as a batch of their own over the same memory.

A part refers to its batch and makes nothing until it is asked. Its results are views, which keep the memory of their
own output only, as the batch's tensors do.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..data.ragged import Ragged
from ..data.sparse import Sparse
from ..errors import UnsupportedError
from .batch import Batch, RowError


class Part(Batch):
    """Some consecutive rows of a batch, made by :meth:`leat.Batch.split`."""

    __slots__ = ("_begin", "_end", "_whole")

    def __init__(self, whole: Batch, begin: int, end: int) -> None:
        super().__init__(None, whole._form)
        self._whole, self._begin, self._end = whole, begin, end

    def __getitem__(self, name: str) -> Any:
        if name not in self._values:
            self._values[name] = _rows(name, self._whole[name], self._begin, self._end, self._whole.size)
        return self._values[name]

    def _small(self, name: str, make: Any) -> Any:
        key = "." + name
        if key not in self._values:
            self._values[key] = self._own(name)
        return self._values[key]

    def _own(self, name: str) -> Any:
        whole = self._whole
        if name == "size":
            return self._end - self._begin
        if name in ("epoch", "step"):
            return getattr(whole, name)
        if name == "errors":
            last = self._end == whole.size
            return [e for e, at in _places(whole) if self._begin <= at and (last or at < self._end)]
        return getattr(whole, name)[self._begin : self._end]

    def split(self, n: int) -> list[Batch]:
        return [Part(self._whole, self._begin + p._begin, self._begin + p._end) for p in parts_of(self, n)]


def parts_of(batch: Batch, n: int) -> list[Part]:
    """Parts of `n` rows each; the last one has the rest."""
    size = batch.size
    return [Part(batch, begin, min(begin + n, size)) for begin in range(0, size, n)]


def _rows(name: str, value: Any, begin: int, end: int, size: int) -> Any:
    """Rows [begin, end) of an output of `size` rows, without a copy of the values."""
    listed = isinstance(value, (Ragged, Sparse, list))
    if isinstance(value, int) or (not listed and not np.ndim(value)) or len(value) != size:
        raise UnsupportedError(
            f"output {name!r} has no value for each of the {size} rows of its batch, so a part of the rows has none: "
            "take it from the whole batch"
        )
    return value[begin:end]


def _places(batch: Batch) -> list[tuple[RowError, int]]:
    """Each error, and the row of the delivered batch that it is of; for one that was left out, the row behind it."""
    out, found = 0, []
    for error in sorted(batch.errors):
        found.append((error, error.row - out))
        out += error.delivered is None
    return found
