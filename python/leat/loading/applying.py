"""Operators on samples in memory: the program of a loader, called by someone else's pipeline."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Literal

import numpy as np

from .. import _leat
from ..data.dataset import Dataset
from ..data.schema import Field, as_field, to_raw
from ..program import Entry, Outputs, compiled_program, described_program, entries, has_functions
from .batch import Batch, RowError
from .lending import columns_of
from .loader import Loader

MOST_OPEN = 8  #: programs that are open, and idle, for the next call
HELD = 1 << 40  #: bytes of results: how many are kept is up to the caller
ROWS = 64  #: of the loader's batches, by which it divides memory


class Applied(dict[str, Any]):
    """The result of :func:`leat.apply`: the values of each output by its name.

    Attributes:
        ids: the position of the sample that each row was made of: int64, shape (rows,).
        errors: :class:`leat.RowError` of each row that ``on_error="skip"`` or ``"substitute"`` touched.
    """

    ids: np.ndarray[Any, Any]
    errors: list[RowError]

    def __init__(self, batch: Batch) -> None:
        super().__init__(batch)
        self.ids, self.errors = batch.ids, batch.errors


class OpenProgram:
    """The program of a loader, over a data set that samples are lent to: one call at a time."""

    def __init__(self, outputs: Outputs, fields: Mapping[str, Field], columns: list[list[Any]], **options: Any) -> None:
        self._dataset = Dataset(_leat.lent(to_raw(fields)), ("lent", None))
        self._lend(columns)  # functions are shown the first sample
        self._loader = Loader(
            self._dataset,
            ROWS,
            outputs=outputs,
            rank=0,
            world_size=1,
            framework="numpy",
            max_held_bytes=HELD,
            **options,
        )
        self._apply = self._loader._asked(self._loader._core.apply, lambda: 0)
        self.owners = outputs  # functions, which the key of this program has by their id()

    def _lend(self, columns: list[list[Any]]) -> None:
        self._dataset._handle.lend(columns, len(columns[0]) if columns else 0)

    def rows(self, columns: list[list[Any]], keys: bytes) -> Applied:
        return Applied(self._loader._batch(self.core(columns, keys)))

    def core(self, columns: list[list[Any]], keys: bytes) -> _leat.Batch:
        """The engine's batch of these samples, of each field a list of buffers, for rows with these keys."""
        self._lend(columns)
        try:
            return self._apply(keys)  # type: ignore[no-any-return]
        finally:
            self._lend([])

    def close(self) -> None:
        self._loader.close()


class _Idle:
    """Programs for the next calls. Threads that call at the same time have one each."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._programs: OrderedDict[int, tuple[Any, OpenProgram]] = OrderedDict()

    def take(self, key: Any) -> OpenProgram | None:
        with self._lock:
            number = next((n for n in reversed(self._programs) if self._programs[n][0] == key), None)
            return None if number is None else self._programs.pop(number)[1]

    def give(self, key: Any, program: OpenProgram) -> None:
        with self._lock:
            self._programs[id(program)] = (key, program)
            over = self._programs.popitem(last=False)[1][1] if len(self._programs) > MOST_OPEN else None
        if over is not None:
            over.close()


_idle = _Idle()


def _forget() -> None:
    """In a forked child: loaders and locks, which other threads may hold, are the parent's."""
    global _idle
    _idle = _Idle()


os.register_at_fork(after_in_child=_forget)


def apply(
    outputs: Outputs,
    samples: Mapping[str, Any],
    keys: Any = None,
    *,
    schema: Mapping[str, Any] | None = None,
    on_error: Literal["raise", "skip", "substitute"] = "raise",
    num_threads: int | Literal["auto"] = "auto",
) -> Applied:
    """Runs a program on samples in memory: for ``map_batches``, a ``collate_fn``, anyone's pipeline.

    The values are byte for byte those of a :class:`leat.Loader` of the same samples whose rows have these keys.
    Operators that see several samples see those of this call: MixUp and CutMix the whole of it, as a batch, and Mosaic
    draws its others from it. The program is compiled at the first call, and kept for the next ones with the same
    `outputs` and the same types of samples; functions count as the same where the operators are the same objects. The
    GIL is released while rows are made, and any number of threads may call. An interrupt waits for functions that run.

    Args:
        outputs: as of :class:`leat.Loader`. Sizes that are drawn per batch do not go: they follow from a loader's
            position.
        samples: ``{field: values}``, of each field as many values as there are samples: a list of ``bytes`` (an encoded
            photo, if its chain has :class:`leat.ops.Decode`), of text, of arrays whose first dimension may vary, or of
            numbers; or an array or tensor whose first dimension counts samples; or a :class:`leat.Ragged`. Fields that
            no output takes are ignored. Values must stay as they are until the call returns.
        keys: the random key of each row, 64 bits: ``batch.row_keys`` of a loader, or any numbers that differ from row
            to row and from epoch to epoch, such as ``(epoch << 40) + position``. ``None``: those that a loader with
            ``seed=0`` has for the first rows of epoch 0, so that each call draws the same.
        schema: for some or all fields the :func:`leat.field`, :func:`leat.boxes` and so on, where the values do not say
            it.
        on_error: a broken sample: ``"raise"``, ``"skip"`` (its row is left out), ``"substitute"`` (another one of
            `samples`, drawn by the row's key, takes its place). ``errors`` and ``ids`` of the result say which.
        num_threads: at most so many threads, this one included. ``"auto"``: the cores of this process.

    Returns:
        a dict of NumPy arrays, the caller's own, shape ``(rows, ...)``; :class:`leat.Ragged` and lists where a loader
        gives such.

    Raises:
        leat.BrokenSampleError: a sample is broken, and `on_error` is "raise"; it names the position and the field.
        leat.ProgramError: a chain does not fit its field.
        leat.UnsupportedError: a size is drawn per batch, or an operator is for some epochs.
        TypeError: a value is not of its field's type. ValueError: there are no samples; fields, or keys, that differ in
            their number.

    >>> rows = leat.apply({"x": [leat.ops.ToDtype("float32")]}, {"x": np.arange(6).reshape(3, 2)})
    >>> rows["x"].dtype, rows["x"].tolist()
    (dtype('float32'), [[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]])
    """
    if not isinstance(samples, Mapping):
        raise TypeError(f"samples is a dict of fields, each with a list of values, not {type(samples).__name__}")
    found = entries(outputs)
    fields, columns = columns_of(samples, found, {name: as_field(f) for name, f in (schema or {}).items()})
    n = len(columns[0])
    if not n:
        raise ValueError("there are no samples: the shapes of outputs are known from the first one")
    row_keys = _keys(keys, n)
    key = (_named(outputs, found, columns), tuple(fields.items()), on_error, num_threads)
    program = _idle.take(key)
    if program is None:
        program = OpenProgram(outputs, fields, columns, on_error=on_error, num_threads=num_threads)
    try:
        rows = program.rows(columns, row_keys)
    except BaseException:
        program.close()
        raise
    _idle.give(key, program)
    return rows


def _named(outputs: Outputs, found: list[Entry], columns: list[list[Any]]) -> tuple[Any, ...]:
    """A program, as it is compared. Functions are themselves, as two may have one name; and what they return is learned
    from the first sample.
    """
    if not has_functions(outputs):
        text, functions = compiled_program(outputs)
        return (text, tuple(functions))
    shapes = tuple(getattr(values[0], "shape", None) for values in columns)
    return (described_program(outputs), tuple(id(op) for entry in found for op in entry.chain), shapes)


def _keys(given: Any, n: int) -> bytes:
    if given is None:
        return _first_keys(n)
    if isinstance(given, (list, tuple)) and all(isinstance(key, (int, np.integer)) for key in given):
        array = np.array([int(key) % (1 << 64) for key in given], np.uint64)
    else:
        array = np.asarray(given)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise TypeError(f"keys are {n} integers of 64 bits, not {array.dtype} of shape {array.shape}")
    if len(array) != n:
        raise ValueError(f"there are {len(array)} keys for {n} samples")
    return array.astype(np.uint64).tobytes()


@lru_cache(maxsize=16)
def _first_keys(n: int) -> bytes:
    return np.array([_leat.row_key(0, 0, row) for row in range(n)], np.uint64).tobytes()
