"""Random numbers of the rows of a batch, from their keys: the result of ``leat.rng(batch.row_keys)``."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import _leat, check

WORDS, UNIFORM, NORMAL, INTEGERS, PERMUTATION = range(5)
FLOATS = ("float32", "float64")


class RowGenerator:
    """Random numbers for each row of a batch, from the row's key: the result of :func:`leat.rng` for
    ``batch.row_keys``.

    A row's numbers follow from its key, and from how many draws this generator has made before, and from nothing else:
    not from the batch, the rank or the device. So masks and noise of the model's side are the same after a resume, on
    any number of ranks, and for a teacher and its student. In C, NumPy and torch, on every device, they are the same
    bits. The generator is Philox4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", SC
    2011); docs/order.md says which words of it each number is made of, and include/leat/random.h has it in C.

    Keys are `batch.row_keys`, or any 64-bit integers: with ``batch.ids`` a sample has the same numbers in each epoch.

    Each method gives an array, or a tensor on the generator's device, whose first dimension is the row. Calling one
    again gives other numbers. On the CPU the library fills it, without Python's lock; elsewhere it is made by
    operations of torch. Draw outside of what ``torch.compile`` compiles: joining operations changes last bits.

    >>> keys = next(iter(leat.Loader(leat.open(path), batch_size=4, shuffle=True, seed=1))).row_keys
    >>> a, b = leat.rng(keys), leat.rng(keys)
    >>> bool((a.normal((2, 3)) == b.normal((2, 3))).all()), tuple(a.uniform().shape)
    (True, (4,))
    """

    __slots__ = ("_device", "_keys", "calls")

    def __init__(self, keys: Any, device: Any = None) -> None:
        #: the number of draws made. Set it to draw the same numbers again.
        self.calls = 0
        self._keys, self._device = _keys_of(keys, device)

    def __len__(self) -> int:
        """Number of rows."""
        return len(self._keys)

    def __getitem__(self, rows: Any) -> RowGenerator:
        """A generator of some of the rows (a slice, a mask or a list of numbers), which continues this one."""
        part = RowGenerator.__new__(RowGenerator)
        part.calls, part._device = self.calls, self._device
        part._keys = self._keys[rows]
        if part._keys.ndim != 1:
            raise TypeError("rows of a generator are a slice, a mask or a list of numbers")
        if self._device is None:
            part._keys = np.ascontiguousarray(part._keys)
        return part

    def __repr__(self) -> str:
        where = "NumPy" if self._device is None else self._device
        return f"<leat.RowGenerator of {len(self)} rows, {where}, {self.calls} draws so far>"

    def uniform(self, shape: int | Sequence[int] = (), dtype: Any = "float32") -> Any:
        """Numbers in [0, 1): multiples of 2^-24 (float32) or 2^-53 (float64), of shape (rows, *shape)."""
        return self._floats(UNIFORM, shape, dtype)

    def normal(self, shape: int | Sequence[int] = (), dtype: Any = "float32") -> Any:
        """Numbers of the normal distribution of mean 0 and variance 1, float32 or float64, of shape (rows, *shape).

        They come from the distribution's inverse (Wichura, AS 241, 1988), of 32 bits (float32) or 52 (float64).
        """
        return self._floats(NORMAL, shape, dtype)

    def integers(self, low: int, high: int | None = None, shape: int | Sequence[int] = ()) -> Any:
        """Integers in [low, high), or [0, low) without `high`: int64 of shape (rows, *shape).

        Raises:
            ValueError: there is none, or they are no int64.
        """
        if high is None:
            low, high = 0, low
        low, high = check.integer("low", low, -(2**63), 2**63), check.integer("high", high, -(2**63), 2**63)
        if low >= high:
            raise ValueError(f"no integer is at least {low} and below {high}")
        return self._draw(INTEGERS, _shape_of(shape), "int64", low, high)

    def permutation(self, n: int) -> Any:
        """The numbers 0 to n - 1 in random order, for each row another one: int64 of shape (rows, n)."""
        return self._draw(PERMUTATION, (check.integer("n", n, 0, 2**40),), "int64")

    def words(self, shape: int | Sequence[int] = ()) -> Any:
        """The generator's own words of 32 bits, of shape (rows, *shape): uint32 in NumPy, int64 in torch."""
        return self._draw(WORDS, _shape_of(shape), "uint32" if self._device is None else "int64")

    def _floats(self, kind: int, shape: int | Sequence[int], dtype: Any) -> Any:
        if isinstance(dtype, (int, np.integer)):
            raise TypeError(
                f"a shape is a number or a tuple, such as ({shape}, {dtype}), and behind it comes a dtype: not {dtype}"
            )
        name = str(dtype).removeprefix("torch.") if not isinstance(dtype, type) else np.dtype(dtype).name
        if name not in FLOATS:
            raise ValueError(f"dtype is float32 or float64, not {name}: convert what is drawn")
        return self._draw(kind, _shape_of(shape), name)

    def _draw(self, kind: int, shape: tuple[int, ...], dtype: str, low: int = 0, high: int = 0) -> Any:
        call, self.calls = self.calls, self.calls + 1
        check.integer("calls", call, 0, 2**32)
        n, whole = math.prod(shape), (len(self), *shape)
        if self._device is None:
            made = np.empty(whole, dtype)
            _leat.random_fill(kind, self._keys, call, n, dtype == "float64", low, high, made.reshape(-1))
            return made
        import torch

        if self._device.type == "cpu" and kind != WORDS:
            tensor = torch.empty(whole, dtype=getattr(torch, dtype), device="cpu")
            keys = self._keys.contiguous().numpy()
            _leat.random_fill(kind, keys, call, n, dtype == "float64", low, high, tensor.numpy().reshape(-1))
            return tensor
        return _elsewhere(self._keys, kind, call, n, dtype == "float64", low, high).reshape(whole)


def _elsewhere(keys: Any, kind: int, call: int, n: int, wide: bool, low: int, high: int) -> Any:
    """By operations of torch, on the device of the keys."""
    from . import philox

    if kind == UNIFORM:
        return philox.uniform(keys, call, n, wide)
    if kind == NORMAL:
        return philox.normal(keys, call, n, wide)
    if kind == INTEGERS:
        return philox.integers(keys, call, n, low, high)
    return philox.permutation(keys, call, n) if kind == PERMUTATION else philox.words(keys, call, n)


def _shape_of(shape: int | Sequence[int]) -> tuple[int, ...]:
    sides = (shape,) if isinstance(shape, (int, np.integer)) else tuple(shape)
    return tuple(check.integer("shape", side, 0, 2**40) for side in sides)


def _keys_of(keys: Any, device: Any) -> tuple[Any, Any]:
    """Keys as they are used, and the device (None: NumPy). For int64 the bits; those of torch are kept as int64."""
    dtype = str(getattr(keys, "dtype", type(keys).__name__)).removeprefix("torch.")
    if dtype not in ("uint64", "int64"):
        raise TypeError(f"keys are integers of 64 bits, as batch.row_keys are, not {dtype}")
    if keys.ndim != 1:
        raise ValueError(f"keys have one dimension, the row, not {keys.ndim}")
    if isinstance(keys, np.ndarray) and device is None:
        return np.ascontiguousarray(keys).view(np.uint64), None
    import torch

    held = torch.from_numpy(np.ascontiguousarray(keys).view(np.int64)) if isinstance(keys, np.ndarray) else keys
    if held.dtype == torch.uint64:
        held = held.view(torch.int64)
    if device is not None:
        held = held.to(device)
    return held, held.device
