"""Random numbers of a row: :func:`leat.rng`, for augmentations written in Python. Those for the rows of a batch are in
`rows.py`.

A row's numbers are a function of (seed, epoch, row) alone: the same for any number of workers, after a resume, and when
a row is computed again. They come from NumPy's PCG64, seeded by the row's random key; the methods' draws from that
stream are NumPy's, and may change between its versions.
"""

from __future__ import annotations

import hashlib
import threading
from typing import Any, overload

import numpy as np
import numpy.random

from .. import _leat
from .rows import RowGenerator


class _Local(threading.local):
    """The key that :class:`leat.ops.Map` has set in this thread, and the generator that it made last."""

    key: tuple[int, int] | None = None
    made_for: tuple[Any, ...] | None = None
    generator: Any = None


_local = _Local()


@overload
def rng() -> np.random.Generator: ...
@overload
def rng(keys: Any, device: Any = None) -> RowGenerator: ...


def rng(keys: Any = None, device: Any = None) -> Any:
    """Random numbers of rows: of the row that is being made, or of those whose keys are given.

    With `keys`, ``batch.row_keys``, it gives a :class:`leat.RowGenerator` for the model's side: masks and noise of each
    row, the same bits in NumPy and in torch on every device. They are arrays if the keys are one and there is no
    `device`, else tensors, on `device` or where the keys are.

    >>> batch = next(iter(leat.Loader(leat.open(path), batch_size=4, shuffle=True)))
    >>> tuple(leat.rng(batch.row_keys).permutation(196)[:, :147].shape)
    (4, 147)

    Without `keys` it is a ``numpy.random.Generator`` for the row that is being made. It works in a Dataset's
    ``__getitem__`` and a ``collate_fn`` that :class:`leat.DataLoader` runs, and in functions of
    :class:`leat.ops.Map`. Each call within a row gives the same generator, which continues. In ``collate_fn`` and in
    functions of :class:`leat.ops.MapBatch` the row is the first one of the batch, or the last one whose sample was
    read.

    Raises:
        RuntimeError: no row is being made.
        TypeError: `keys` are no uint64.

    >>> class Noisy:
    ...     def __len__(self):
    ...         return 4
    ...     def __getitem__(self, i):
    ...         return i + leat.rng().random()
    >>> a = [x.tolist() for x in leat.DataLoader(Noisy(), batch_size=2, seed=1)]
    >>> a == [x.tolist() for x in leat.DataLoader(Noisy(), batch_size=2, seed=1, num_workers=2)]
    True
    """
    if keys is not None:
        return RowGenerator(keys, device)
    if device is not None:
        raise TypeError("device goes with keys: leat.rng(batch.row_keys, device)")
    if _local.key is not None:
        name: tuple[Any, ...] = _local.key
    else:
        row = _leat.current_row()
        if row is None:
            raise RuntimeError(
                "leat.rng() gives the random numbers of a row, and no row is being made here: call it in a Dataset's "
                "__getitem__ or in collate_fn of a leat.DataLoader, or in a function of leat.ops.Map; elsewhere use "
                "numpy.random.default_rng(seed)"
            )
        name = (*row, _leat.current_turn())
    if _local.made_for != name:
        key = _leat.row_key(name[0], name[1], 0) if _local.key is not None else _leat.row_key(*name[:3])
        _local.generator = np.random.Generator(np.random.PCG64(key))
        _local.made_for = name
    made: np.random.Generator = _local.generator
    return made


def set_key(key: int | None, instance: int = 0) -> None:
    """Sets the seed of :func:`rng` in this thread: the key of a row and an operator's instance. None: the row alone."""
    _local.key = None if key is None else (key, instance)
    _local.made_for = None


def instance(name: str) -> int:
    """An operator's instance as a number of 64 bits."""
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "little")
