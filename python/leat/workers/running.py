"""Functions of a program, in a worker: reading a call's rows, computing them, writing the results.

A call names rows of a batch (``struct leat_worker_call``, worker/worker.h). The inputs of functions lie in the loader's
memory, and results are written there. Only two things are sent back: which rows failed, and results of varying length,
which the engine puts in place when it knows the lengths of all.

The parent's side is calls.py.
"""

from __future__ import annotations

import contextlib
import json
import mmap
import os
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from .. import _leat
from ..data.schema import Field
from ..errors import BrokenSampleError
from ..functions import keyed
from ..functions.mapping import Mapped, Program
from ..functions.steps import (
    BFLOAT16,
    CallStep,
    NativeStep,
    is_dense,
    is_open,
    load_torch,
    row_bytes,
    sides,
    stored_dtype,
)
from . import transport
from .loop import Unit

#: kind of a worker's message: rows that failed, and results of varying length
RESULTS = 17

#: row of the call, (epoch, sample), reason, exception
Broken = tuple[int, tuple[int, int | None], str, Any]

_HEAD = 6  # numbers at the beginning of a payload
_GONE, _UNWANTED = 1, 2  # a row that has ended too many workers; one of a batch that fails
_ENDED = "a function ended 3 workers that computed it: it crashed, or took more memory than there is"


class Region:
    """A loader's memory.

    If addresses are scarce, the engine maps it in steps, and its file grows with them. Windows of it are then mapped as
    they are needed.
    """

    WINDOW = 64 << 20
    KEPT = 4
    HEAD = 1 << 20  # the table of holders lies within

    def __init__(self, descriptor: int, size: int) -> None:
        self.descriptor = os.dup(descriptor)
        self.whole = self._map(0, size) if os.fstat(descriptor).st_size >= size else None
        self.windows: dict[tuple[int, int], memoryview] = {}
        self.head = self._map(0, min(size, self.HEAD)) if self.whole is None else self.whole
        self.row = _leat.region_join(self.head)

    def _map(self, offset: int, size: int) -> memoryview:
        return memoryview(
            mmap.mmap(self.descriptor, size, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE, offset=offset)
        )

    def view(self, offset: int, size: int) -> memoryview:
        """A range of it, to read and write."""
        if self.whole is not None:
            return self.whole[offset : offset + size]
        first, end = offset // self.WINDOW, -(-(offset + size) // self.WINDOW)
        window = self.windows.pop((first, end), None)
        if window is None or len(window) < offset + size - first * self.WINDOW:  # the file may have grown since
            length = min(end * self.WINDOW, os.fstat(self.descriptor).st_size) - first * self.WINDOW
            window = self._map(first * self.WINDOW, length)
        self.windows[first, end] = window  # the last one is the newest
        if len(self.windows) > self.KEPT:
            del self.windows[next(iter(self.windows))]
        return window[offset - first * self.WINDOW :][:size]

    @contextlib.contextmanager
    def holding(self, offsets: list[int]) -> Iterator[None]:
        """Holds the buffers at these offsets: their memory is not used again meanwhile, whatever the parent does. If
        this process is killed, the parent releases them.
        """
        _leat.region_hold(self.row, offsets)
        try:
            yield
        finally:
            _leat.region_drop(self.row, offsets)

    def __del__(self) -> None:
        try:  # noqa: SIM105 (while the interpreter ends, contextlib may be gone already)
            os.close(self.descriptor)
        except (AttributeError, OSError):
            pass


def dense(memory: Any, t: Field, rows: int, strides: Sequence[int] | None) -> np.ndarray[Any, Any]:
    """An array of shape (rows, ...) over rows of a dense type, which lie one after the other."""
    dtype = stored_dtype(t)
    count = rows * row_bytes(t) // dtype.itemsize
    shape = (rows, *sides(t))
    if not count:
        return np.empty(shape, dtype)
    flat = np.frombuffer(memory, dtype, count)
    if strides is None:
        return flat.reshape(shape)
    size = dtype.itemsize
    return np.lib.stride_tricks.as_strided(flat, shape, [row_bytes(t), *[n * size for n in strides]])


class Runner:
    """A program in a worker, and the call that it computes."""

    def __init__(self, program: Program, region: Region) -> None:
        self.program, self.region = program, region
        self.serial = 0
        if program.framework == "torch":
            load_torch()

    def begin(self, serial: int, payload: memoryview) -> None:
        """Reads the payload of a call, unless it is that of the unit before."""
        if serial == self.serial:
            return
        self.serial = 0  # until all of it is taken over
        n, self.batch_rows, n_areas, self.epoch, self.step, self.segment = np.frombuffer(
            payload, np.uint64, _HEAD
        ).tolist()
        self.areas = np.frombuffer(payload, np.uint64, 2 * n_areas, 8 * _HEAD).reshape(-1, 2).tolist()
        at = 8 * _HEAD + 16 * n_areas
        self.places, self.keys, self.draws = np.frombuffer(payload, np.uint64, 3 * n, at).reshape(3, n).tolist()
        self.ids = np.frombuffer(payload, np.int64, n, at + 24 * n).tolist()
        self.flags = payload[at + 32 * n :]  # the parent may still set one
        phase = self.segment - 1
        self.used: list[int] = []  # offsets of the memory that is read and written
        self.chains = [
            (o, self._reader(o, phase), self._told(o), o.phases[phase], self._target(o, phase), o.results[phase])
            for o in self.program.outputs
            if phase < len(o.phases) and o.phases[phase]
        ]
        self.serial = serial

    def _target(self, output: Mapped, phase: int) -> np.ndarray[Any, Any] | None:
        """The place of results of fixed shape; None: they vary in length."""
        (t, strides), rows = output.after(phase), self.batch_rows
        if not is_dense(t):
            return None
        offset = self.areas[output.results[phase]][0]
        self.used.append(offset)
        memory = self.region.view(offset, max(1, rows * row_bytes(t)))
        return dense(memory, t, rows, strides)

    def _told(self, output: Mapped) -> Callable[[int], bytes | None]:
        """A function from the row of a batch to the draws of its targets."""
        if output.told < 0:
            return lambda row: None
        offset, n = self.areas[output.told][0], output.told_bytes
        self.used.append(offset)
        return lambda row: bytes(self.region.view(offset + row * n, n))

    def _reader(self, output: Mapped, phase: int) -> Callable[[int], Any]:
        """A function from the row of a batch to the input of functions."""
        rows = self.batch_rows
        t, strides, number = output.takes, output.strides, output.input
        before = next((k for k in range(phase - 1, -1, -1) if output.phases[k]), None)
        if before is not None:
            (t, strides), number = output.after(before), output.results[before]
        offset, values = self.areas[number]
        self.used.append(offset)
        if is_dense(t):
            return dense(self.region.view(offset, max(1, rows * row_bytes(t))), t, rows, strides).__getitem__
        offsets = np.frombuffer(self.region.view(offset, (rows + 1) * 8), np.int64).tolist()
        if is_open(t):
            self.used.append(self.areas[output.sizes][0])
            sizes = self.region.view(self.areas[output.sizes][0], rows * 16)
            heights = np.frombuffer(sizes, np.int64).reshape(rows, 2).tolist()
            channels, last = t.shape[2 if t.layout == "HWC" else 0], t.layout == "HWC"
            size = stored_dtype(t).itemsize

            def image(row: int) -> Any:
                shape = (*heights[row], channels) if last else (channels, *heights[row])
                n = (offsets[row + 1] - offsets[row]) * size
                return np.frombuffer(
                    self.region.view(offset + values + offsets[row] * size, n), stored_dtype(t)
                ).reshape(shape)

            return image
        if t.kind != "array":
            return lambda row: bytes(self.region.view(offset + values + offsets[row], offsets[row + 1] - offsets[row]))
        dtype, inner = stored_dtype(t), sides(t)
        step = int(np.prod(inner, dtype=np.int64)) * dtype.itemsize

        def ragged(row: int) -> Any:
            first, n = offsets[row], offsets[row + 1] - offsets[row]
            if not n * step:
                return np.empty((n, *inner), dtype)
            return np.frombuffer(self.region.view(offset + values + first * step, n * step), dtype).reshape((n, *inner))

        return ragged

    def rows(self, board: _leat.Board, first: int, end: int, worker: int) -> tuple[list[Broken], list[Any]]:
        """Computes rows [first, end) of the call. Returns the rows that failed, and the results of varying length as
        (row, output, bytes).
        """
        broken: list[Broken] = []
        kept: list[Any] = []
        for i in range(first, end):
            if self.flags[i] == _UNWANTED:
                continue
            board.at_row(i)
            row, key, draw, sample, name = self.places[i], self.keys[i], self.draws[i], self.ids[i], ""
            try:
                if self.flags[i] == _GONE:
                    raise BrokenSampleError(_ENDED)
                for output, read, told, steps, target, number in self.chains:
                    name, value, moves = output.name, read(row), told(row)
                    for step in steps:
                        if isinstance(step, NativeStep):
                            value = step.apply(value, key, sample, moves)
                        else:
                            value = step.row(value, draw)
                    if target is None:
                        kept.append((i, number, _flat(value.transpose(1, 2, 0) if output.turned else value)))
                    else:
                        target[row] = _plain(value)
            except Exception as e:
                where = f"{self._where(worker, name)} sample {sample}, row {row} of {self._batch}"
                broken.append((i, (self.epoch, sample), f"{type(e).__name__}: {e}", transport.pack_error(e, where)))
                kept = [found for found in kept if found[0] != i]
                if self.program.on_error == "raise":
                    break
        return broken, kept

    def whole(self, board: _leat.Board, unit: int, worker: int) -> tuple[list[Broken], list[Any]]:
        """Computes the batch of one output; returns the same."""
        if self.flags[unit] == _UNWANTED:
            return [], []
        board.at_row(unit)
        output, read, _, steps, target, number = self.chains[unit]
        name = output.name
        try:
            if self.flags[unit] == _GONE:
                raise BrokenSampleError(_ENDED)
            values: Any = [read(row) for row in self.places]
            for step in steps:
                assert isinstance(step, CallStep)
                values = step.rows(np.stack(values) if is_dense(step.takes) else values, self.draws[0])
            if target is None:
                values = [value.transpose(1, 2, 0) for value in values] if output.turned else values
                return [], [(i, number, _flat(value)) for i, value in enumerate(values)]
            target[self.places] = _plain(values)
        except Exception as e:
            where = f"{self._where(worker, name)} {self._batch}"
            return [(unit, (self.epoch, None), f"{type(e).__name__}: {e}", transport.pack_error(e, where))], []
        return [], []

    def _where(self, worker: int, name: str) -> str:
        return f"in leat worker process {worker}" + (f" in output {name!r}" if name else "") + " for"

    @property
    def _batch(self) -> str:
        return f"batch {self.step} of epoch {self.epoch}"


def _plain(value: Any) -> Any:
    return value.view("u2") if isinstance(value, np.ndarray) and value.dtype == BFLOAT16 else value


def _flat(value: Any) -> bytes:
    """The bytes of a result of varying length."""
    if isinstance(value, bytes):
        return value
    if isinstance(value, np.ndarray):
        return value.tobytes()
    return (value if isinstance(value, str) else json.dumps(value)).encode()


def run(worker: Any, client: Any, unit: Unit) -> bool:
    """Computes a unit. Returns whether a message was sent."""
    begun = time.perf_counter_ns()
    while client.region is None:
        worker.listen(block=True)
        if worker.stopping or client.board.offset in worker.left:
            return True
    runner: Runner | None = client.state
    if runner is None:
        runner = client.state = Runner(client.job.dataset, client.region)
    runner.begin(unit.serial, client.board.view(unit.payload, unit.size))
    try:
        with runner.region.holding(runner.used):
            if runner.segment % 2:
                broken, kept = runner.rows(client.board, unit.first, unit.first + unit.n, worker.start.worker)
            else:
                broken, kept = runner.whole(client.board, unit.unit, worker.start.worker)
    finally:
        keyed.set_key(None)
    if not broken and not kept:
        return False
    results = np.array([(i, output, len(value)) for i, output, value in kept], np.uint64).tobytes()
    values = b"".join([value for _, _, value in kept])
    spent = time.perf_counter_ns() - begun
    worker.send(client.board, unit, RESULTS, (broken, results, values, spent))
    return True
