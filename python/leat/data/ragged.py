"""Rows of different lengths: all values one after the other, and the start of each row."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from typing import Any

import numpy as np

from ..errors import UnsupportedError


class Ragged:
    """Rows of different lengths.

    Attributes:
        values: all rows one after the other: an array or tensor of shape ``(total, ...)``.
        offsets: int64 of shape ``(rows + 1,)``; row i is ``values[offsets[i]:offsets[i + 1]]``.

    >>> r = leat.Ragged(np.arange(5), np.array([0, 2, 2, 5]))
    >>> len(r), r[2].tolist(), r.lengths.tolist()
    (3, [2, 3, 4], [2, 0, 3])
    """

    __slots__ = ("offsets", "values")

    def __init__(self, values: Any, offsets: Any) -> None:
        self.values = values
        self.offsets = offsets

    @property
    def lengths(self) -> Any:
        """Length of each row: int64, shape (rows,)."""
        return self.offsets[1:] - self.offsets[:-1]

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __repr__(self) -> str:
        shape = list(self.values.shape[1:]) or ""
        return f"Ragged({len(self)} rows, {len(self.values)} values of {self.values.dtype}{shape})"

    def __getitem__(self, key: Any) -> Any:
        """Row `key`, or for a slice a Ragged of those rows, both without a copy of the values (a step other than 1
        copies).
        """
        if not isinstance(key, slice):
            try:
                i = operator.index(key)
            except TypeError:
                raise TypeError(
                    f"a Ragged is indexed by the number of a row or by a slice, not by {type(key).__name__}"
                ) from None
            if not -len(self) <= i < len(self):
                raise IndexError(f"row {i} is out of range: there are {len(self)} rows")
            i %= len(self)
            return self.values[int(self.offsets[i]) : int(self.offsets[i + 1])]
        begin, end, step = key.indices(len(self))
        if step == 1:
            end = max(begin, end)
            first = self.offsets[begin]
            return Ragged(self.values[int(first) : int(self.offsets[end])], self.offsets[begin : end + 1] - first)
        return self._of_rows([self[i] for i in range(begin, end, step)])

    def _of_rows(self, rows: list[Any]) -> Ragged:
        ends = np.cumsum([0] + [len(r) for r in rows], dtype=np.int64)
        if isinstance(self.values, np.ndarray):
            return Ragged(np.concatenate([self.values[:0], *rows]), ends)
        import torch

        return Ragged(torch.cat([self.values[:0], *rows]), torch.from_numpy(ends).to(self.offsets.device))

    def __iter__(self) -> Iterator[Any]:
        return iter(self.unbind())

    def unbind(self) -> list[Any]:
        """A list of the rows, without a copy."""
        ends = self.offsets.tolist()
        return [self.values[a:b] for a, b in zip(ends, ends[1:], strict=False)]

    def to_padded(self, padding: Any = 0, length: int | None = None) -> Any:
        """An array or tensor of shape ``(rows, length, ...)``, filled up with `padding`; a copy.

        Args:
            padding: the value after each row's end.
            length: longer rows are cut; None: that of the longest row.

        Raises:
            ValueError: `padding` is no number of the type of the values, such as -1 of uint16.

        >>> leat.Ragged(np.arange(5), np.array([0, 2, 2, 5])).to_padded(-1).tolist()
        [[0, 1, -1], [-1, -1, -1], [2, 3, 4]]
        """
        ends = self.offsets.tolist()
        longest = max((b - a for a, b in zip(ends, ends[1:], strict=False)), default=0) if length is None else length
        shape = (len(self), longest, *self.values.shape[1:])
        dtype, is_array = self.values.dtype, isinstance(self.values, np.ndarray)
        try:
            with np.errstate(invalid="ignore"):
                one = np.full((), padding, dtype) if is_array else self.values.new_full((), padding)
            fits = isinstance(one.item(), float) or one.item() == padding
        except (OverflowError, RuntimeError):
            fits = False
        if not fits:
            raise ValueError(f"padding is a number of {dtype}, not {padding!r}: convert the values before")
        out = np.full(shape, padding, dtype) if is_array else self.values.new_full(shape, padding)
        for i, (a, b) in enumerate(zip(ends, ends[1:], strict=False)):
            n = min(b - a, longest)
            out[i, :n] = self.values[a : a + n]
        return out

    def to_nested(self) -> Any:
        """A nested tensor of PyTorch (layout ``torch.jagged``) over the same values; of PyTorch 2.4 and newer."""
        if isinstance(self.values, np.ndarray):
            raise TypeError("nested tensors are PyTorch's: open the Loader with framework='torch'")
        import torch

        if not hasattr(torch.nested, "nested_tensor_from_jagged"):
            raise UnsupportedError(f"nested tensors over values need PyTorch 2.4, and this is {torch.__version__}")
        return torch.nested.nested_tensor_from_jagged(self.values, self.offsets)

    def _map(self, function: Any) -> Ragged:
        return Ragged(function(self.values), function(self.offsets))
