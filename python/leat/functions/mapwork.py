"""A phase of a program with Python functions, in a worker: where its values lie, what becomes of them, and what is sent back.

    payload of an entry:   number of flags | flags, one per row: taken out by the parent | pickled Task
    inputs                 rows of the engine's batch, in its shared memory; or of a slot that an earlier phase filled; or objects
    results                rows of a slot; objects, and arrays of varying length, go back as messages, their bytes through an arena

The parent's side is mapped.py.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import _leat
from ..data.schema import Field
from ..errors import BrokenSampleError
from ..workers import transport
from . import keyed
from .mapping import (
    BFLOAT16,
    CallStep,
    Mapped,
    NativeStep,
    Program,
    is_dense,
    load_torch,
    row_bytes,
    sides,
    stored_dtype,
)
from .running import Region, dense

#: kind of a worker's message: what came of a unit
RESULTS = 16

#: of a row that the parent took out, in the flags before the payload
GONE = 1
ENDED = "a function ended 3 workers that computed it: it crashed, or took more memory than there is"


@dataclass
class Task:
    """What the payload of a phase says."""

    phase: int
    keys: list[int]  #: per row of the task, for native operators
    draws: list[int]  #: and for functions
    ids: list[int]
    outputs: list[int]  #: which have something to do
    inputs: dict[int, Any]  #: per output: see `_reader`
    targets: dict[int, int]  #: per dense output: the offset of its slot
    rows: int  #: of the batch in the slots
    places: list[int] | None = None  #: the row of the batch that each row of the task is; None: the same
    where: str = ""
    arena: int = 0
    unit_room: int = 0


class Runner:
    """A program in a worker: readers and targets of the task at hand."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.serial = 0
        self.task: Task
        self.readers: dict[int, Callable[[int], Any]] = {}
        self.targets: dict[int, np.ndarray[Any, Any]] = {}
        self.region: Region
        if program.framework == "torch":
            load_torch()

    def begin(self, board: _leat.Board, serial: int, payload: memoryview) -> None:
        """Takes over a task's payload: flags per row, then the pickle."""
        if serial == self.serial:
            return
        n = int.from_bytes(payload[:8], "little")
        self.flags = payload[8 : 8 + n]
        task = self.task = pickle.loads(payload[8 + n :])
        outputs = self.program.outputs
        self.readers = {o: self._reader(board, outputs[o], task, task.inputs[o]) for o in task.outputs}
        self.targets = {}
        for o, offset in task.targets.items():
            t = outputs[o].type_after(task.phase)
            self.targets[o] = _dense(board, offset, t, task.rows, outputs[o].strides_after(task.phase))
        self.serial = serial

    def _reader(self, board: _leat.Board, output: Mapped, task: Task, where: Any) -> Callable[[int], Any]:
        """A function from the row of a task to its value. Inputs are ("core", [(offset, bytes to the values, rows)], [(which, row)] or None),
        ("slot", offset) or ("values", list)."""
        if where[0] == "values":
            return lambda row: where[1][row]
        t = output.takes if where[0] == "core" else output.type_after(task.phase - 1)
        if where[0] == "slot":
            array = _dense(board, where[1], t, task.rows, output.strides_after(task.phase - 1))
            return lambda row: array[row]
        sources = [self._source(t, output.strides, *place) for place in where[1]]
        if where[2] is None:
            return sources[0]
        return lambda row: sources[where[2][row][0]](where[2][row][1])

    def _source(self, t: Field, strides: tuple[int, ...] | None, offset: int, values: int, rows: int) -> Callable[[int], Any]:
        """Rows of a buffer of the engine's."""
        dtype = stored_dtype(t)
        if is_dense(t):
            each = row_bytes(t)
            shape = sides(t)
            if strides is not None:
                size = dtype.itemsize
                return lambda row: np.lib.stride_tricks.as_strided(
                    np.frombuffer(self.region.view(offset + row * each, each), dtype),
                    shape,
                    [n * size for n in strides],
                )
            count = rows * each // dtype.itemsize
            if not count:
                return lambda row: np.empty(shape, dtype)
            array = np.frombuffer(self.region.view(offset, rows * each), dtype).reshape((rows, *shape))
            return lambda row: array[row]
        offsets = np.frombuffer(self.region.view(offset, (rows + 1) * 8), np.int64)
        if t.kind != "array":
            return lambda row: bytes(self.region.view(offset + values + int(offsets[row]), int(offsets[row + 1] - offsets[row])))
        inner = sides(t)
        step = int(np.prod(inner, dtype=np.int64))

        def ragged(row: int) -> Any:
            first, n = int(offsets[row]), int(offsets[row + 1] - offsets[row])
            if not n * step:
                return np.empty((n, *inner), dtype)
            memory = self.region.view(offset + values + first * step * dtype.itemsize, n * step * dtype.itemsize)
            return np.frombuffer(memory, dtype).reshape((n, *inner))

        return ragged

    # ---- rows ----------------------------------------------------------------------------------------------------------

    def rows(self, board: _leat.Board, first: int, end: int, worker: int) -> tuple[list[tuple[int, str, Any]], dict[int, dict[int, Any]]]:
        """Rows [first, end) of a task: (broken, results that lie in no slot)."""
        task, program = self.task, self.program
        broken: list[tuple[int, str, Any]] = []
        kept: dict[int, dict[int, Any]] = {}
        for row in range(first, end):
            board.at_row(row)
            place = row if task.places is None else task.places[row]
            at = -1
            try:
                if self.flags[row] == GONE:
                    raise BrokenSampleError(ENDED)
                for at in task.outputs:
                    value = self.readers[at](row)
                    for step in program.outputs[at].phases[task.phase]:
                        value = (
                            step.apply(value, task.keys[row], task.ids[row])
                            if isinstance(step, NativeStep)
                            else step.row(value, task.draws[row])
                        )
                    if at in self.targets:
                        self.targets[at][place] = _plain(value)
                    else:
                        kept.setdefault(at, {})[place] = value
            except Exception as e:
                broken.append((row, f"{type(e).__name__}: {e}", transport.pack_error(e, self.where(at, row, worker))))
                for values in kept.values():
                    values.pop(place, None)
                if program.on_error == "raise":
                    break
        return broken, kept

    def whole(self, board: _leat.Board, unit: int, worker: int) -> tuple[list[tuple[int, str, Any]], dict[int, dict[int, Any]]]:
        """The batch of one output."""
        task = self.task
        at = task.outputs[unit]
        board.at_row(unit)
        try:
            if self.flags[unit] == GONE:
                raise BrokenSampleError(ENDED)
            values: Any = [self.readers[at](row) for row in range(task.rows)]
            output = self.program.outputs[at]
            if is_dense(output.type_after(task.phase - 1)):
                values = np.stack(values)
            for step in output.phases[task.phase]:
                assert isinstance(step, CallStep)
                values = step.rows(values, task.draws[0])
        except Exception as e:
            return [(unit, f"{type(e).__name__}: {e}", transport.pack_error(e, self.where(at, None, worker)))], {}
        if at in self.targets:
            self.targets[at][:] = _plain(values)
            return [], {}
        return [], {at: dict(enumerate(values))}

    def where(self, at: int, row: int | None, worker: int) -> str:
        """Where an error came up."""
        what = f" in output {self.program.outputs[at].name!r}" if at >= 0 else ""
        sample = (
            f" for sample {self.task.ids[row]}, row {row if self.task.places is None else self.task.places[row]} of"
            if row is not None
            else " for"
        )
        return f"in leat worker process {worker}{what}{sample} {self.task.where}"


def _plain(value: Any) -> Any:
    return value.view("u2") if isinstance(value, np.ndarray) and value.dtype == BFLOAT16 else value


def _dense(board: _leat.Board, offset: int, t: Field, rows: int, strides: Sequence[int] | None) -> np.ndarray[Any, Any]:
    """A slot as an array of shape (rows, ...)."""
    return dense(board.view(offset, max(1, rows * row_bytes(t))), t, rows, strides)


def run(worker: Any, client: Any, serial: int, unit: int, first: int, n: int, payload: int, size: int) -> bool:
    """A unit, in a worker. Whether a message was sent."""
    runner: Runner | None = client.state
    if runner is None:
        runner = client.state = Runner(client.job.dataset)
    while client.region is None:
        worker.listen(block=True)
        if worker.stopping:
            return True
    runner.region = client.region
    board = client.board
    runner.begin(board, serial, board.view(payload, size))
    try:
        if runner.task.phase % 2:
            broken, kept = runner.whole(board, unit, worker.start.worker)
        else:
            broken, kept = runner.rows(board, first, first + n, worker.start.worker)
    finally:
        keyed.set_key(None)
    if not broken and not kept:
        return False
    task = runner.task
    room = board.view(task.arena + unit * task.unit_room, task.unit_room) if task.unit_room else None
    worker.send(board, serial, unit, RESULTS, (broken, kept), room)
    return True
