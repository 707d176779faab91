"""Batches with Python functions on their way through workers: what of them stands on the board, and what came back.

    _advance:   phase complete? -> its results are the batch's -> publish the next one -> ... -> ready
    broken:     the policy: the batch's error; left out, closed up before a function sees the whole batch; or made again of the sample
                that the engine takes for it, the row alone, or all phases where a function has seen the batch

Everything here that changes a batch runs under the pool's lock. mapped.py pulls and delivers.
"""

from __future__ import annotations

import pickle
from collections import deque
from typing import Any

import numpy as np

from .. import _leat
from ..errors import BrokenSampleError
from ..loading.batch import Form
from ..loading.ragged import Ragged
from ..workers import transport
from ..workers.loop import ERROR, FAILED, PHASE, Job
from ..workers.pool import Pool, threads_wanted
from .calls import _pool_for
from .mapping import Program, is_dense, row_bytes
from .mapwork import GONE, RESULTS, Task
from .running import dense

WINDOW = 24
_KILLS = 3
_RUN_NS = 500_000.0  # what a unit of cheap rows should take
_MAX_UNITS = 256


class Work:
    """One batch between the engine and delivery."""

    def __init__(self, core: _leat.Batch, state: str | None, number: int) -> None:
        self.core = core
        self.number = number  #: of the iteration that it belongs to
        self.state = state  #: of the engine, behind this batch
        self.rows = core.rows()
        self.keys: list[int] = np.asarray(core.row_keys()).tolist()
        self.draws = list(self.keys)  #: what functions draw from: of a substitute another key than that of its row
        self.ids: list[int] = np.asarray(core.ids()).tolist()
        self.errors = [(row, planned, None if delivered < 0 else delivered, reason) for row, planned, delivered, reason in core.errors()]
        self.left = np.ones(self.rows, bool)  #: rows that are not left out
        self.where = f"batch {core.step()} of epoch {core.epoch()}"
        self.phase = -1
        self.values: dict[int, Any] = {}  #: per output: what the last phase made: a slot, or {row: value}
        self.first_error: BaseException | None = None
        self.error: BaseException | None = None
        self.ready = self.cancelled = self.raised = False
        self.entry: Entry | None = None
        self.bytes = 0
        self.cores = [core]  #: the engine's batch, and those of samples that stand in
        self.places = [(0, row) for row in range(self.rows)]  #: of each row: which of them, and the row there
        self.attempts: dict[int, int] = {}  #: of rows: how often another sample was tried
        self.redo: list[int] | None = None  #: rows whose sample is another one now, until they are made
        gone = [row for row, _, delivered, _ in self.errors if delivered is None]
        self.planned = np.setdiff1d(np.arange(self.rows + len(gone)), gone)  #: rows of the plan: the engine may have left some out
        self.native: dict[str, Any] | None = None  #: outputs that are delivered as the engine made them, once they are wanted
        self.valid: Any = None


class Entry:
    """A phase of a batch on the board."""

    def __init__(self, work: Work, serial: int, task: Task, n: int) -> None:
        self.work, self.serial, self.task, self.n = work, serial, task, n
        self.payload: _leat.Slot | None = None
        self.arena: _leat.Slot | None = None
        self.slots: dict[int, _leat.Slot] = {}
        self.kept: dict[int, dict[int, Any]] = {}
        self.broken: dict[int, tuple[str, Any]] = {}
        self.units: set[int] = set()
        self.kills: dict[int, int] = {}
        self.fault: Any = None
        self.exact = False
        self.withdrawn = False  #: nobody waits for it any more


class Phases:
    """The client of a pool for one loader.

    Args:
        core: the engine's loader, of region 1.
        program: what workers do.
        native: outputs that come from the engine as they are, by name: their name there.
        names: all outputs, in the order of delivery.
        workers: how many processes.
    """

    def __init__(
        self, core: _leat.Loader, program: Program, native: dict[str, str], names: list[str], form: Form, workers: int, weight: float
    ) -> None:
        self.core, self.program, self.native, self.names, self.form = core, program, native, names, form
        self.n, self.weight = workers, weight
        self.queue: deque[Work] = deque()
        self.zombies: list[Entry] = []
        self.entries: dict[int, Entry] = {}
        self.pool: Pool | None = None
        self.next_serial = 1
        self.ns_per_row: dict[int, float] = {}
        self.room: dict[int, int] = {}  #: per phase: bytes of what a row keeps outside of slots
        self.failure: Any = None
        self.asked = False  #: whether somebody waits for a batch
        self.stats = {"batches": 0, "rows": 0, "broken": 0, "wait_s": 0.0, "work_s": 0.0}

    # ---- workers -------------------------------------------------------------------------------------------------

    def _open(self) -> Pool:
        """Joins the workers, at first use."""
        if self.pool is not None:
            return self.pool
        job = Job(self.program)
        pool = _pool_for(self.n)
        try:
            self._join(pool, job)
        except Exception:
            if not pool.jobs:
                raise
            pool = Pool(None, self.n, self.n, None, None, 0, threads_wanted(None))  # the functions cannot be sent: workers of its own
            self._join(pool, job)
        return pool

    def _join(self, pool: Pool, job: Job) -> None:
        with pool.lock:
            self.n_entries = 4 * WINDOW + 2 * pool.room + 8
            self.board = _leat.Board(pool.core, self.n_entries, _MAX_UNITS, self.weight)
            served = [listener.board.served_ns() for listener in pool.listeners.values() if hasattr(listener, "board")]
            if served:
                self.board.start_at(min(served))
            running = [i for i, handle in enumerate(pool.handles) if handle is not None]
            pool.join(self.board.offset, job, self)
            self.pool = pool
            pool.hold()
            try:
                for i in running:
                    self.on_start(i)
                pool.start()
            except BaseException:
                self.pool = None
                pool.leave(self.board.offset, self.board)
                let_go(pool)
                raise

    def on_start(self, worker: int) -> None:
        """A worker has been started: it maps the engine's memory."""
        assert self.pool is not None or worker >= 0
        descriptor, size = self.core.region()
        pool = self.pool
        if pool is not None:
            pool.tell(worker, "region", self.board.offset, size, descriptor=descriptor)

    def resume_of(self, worker: int) -> Any:
        """Only iterable data sets have a place to go on from."""
        return None

    def _reap(self) -> None:
        for entry in list(self.zombies):
            if self.board.complete(entry.serial, True):
                self.zombies.remove(entry)
                self.entries.pop(entry.serial, None)
                self.board.retire(entry.serial)

    def _may_publish(self, n: int = 1) -> bool:
        """Whether the board has entries for so many: an old one may still stand there."""
        return not self.entries or self.next_serial + n - min(self.entries) < self.n_entries

    budget = max_held = 1 << 62

    # ---- phases ----------------------------------------------------------------------------------------------------

    def _advance(self, work: Work) -> None:
        """Goes on with a batch whose phase is complete, or that has none yet. Under the pool's lock."""
        while not work.ready:
            entry = work.entry
            if entry is not None:
                if not self.board.complete(entry.serial, entry.exact):
                    return
                self._finish(entry)
                work.entry = None
                if work.error is not None:
                    work.ready = True
                    return
            phase = work.phase + 1
            while phase < self.program.n_phases and not self.program.at(phase):
                phase += 1
            if phase >= self.program.n_phases:
                work.ready = True
                return
            if not self._may_publish():
                return
            if phase % 2:
                self._close_gaps(work)
            if work.error is not None or not work.rows:
                work.ready = True
                return
            work.phase = phase
            self._publish(work)

    def _publish(self, work: Work) -> None:
        program, phase = self.program, work.phase
        at = program.at(phase)
        whole = bool(phase % 2)
        rows = work.redo
        n = len(at) if whole else work.rows if rows is None else len(rows)
        of_rows = (work.keys, work.draws, work.ids)
        keys, draws, ids = of_rows if rows is None else ([values[row] for row in rows] for values in of_rows)
        task = Task(phase, keys, draws, ids, at, {o: self._input(work, o, rows) for o in at}, {}, work.rows, rows, work.where)
        entry = Entry(work, self.next_serial, task, n)
        for o in at:
            t = program.outputs[o].type_after(phase)
            if is_dense(t):
                entry.slots[o] = _leat.Slot(max(1, row_bytes(t) * work.rows)) if rows is None else work.values[o]
                task.targets[o] = entry.slots[o].offset
        run = 1 if whole else self._run(phase, n)
        if phase in self.room:
            task.unit_room = (self.room[phase] * run + 4095) // 4096 * 4096
            units = -(-n // run)
            entry.arena = _leat.Slot(task.unit_room * units)
            task.arena = entry.arena.offset
        data = pickle.dumps(task, protocol=5)
        size = 8 + n + len(data)
        entry.payload = _leat.Slot(size)
        memory = np.asarray(entry.payload.memory(0, size))
        memory[:8] = np.frombuffer(n.to_bytes(8, "little"), np.uint8)
        memory[8 : 8 + n] = 0
        memory[8 + n :] = np.frombuffer(data, np.uint8)
        self.board.publish(entry.serial, n, run, -1, 1, PHASE, entry.payload.offset, size, 0, 0, 0, 0, ())
        self.next_serial += 1
        self.entries[entry.serial] = entry
        work.entry = entry

    def _input(self, work: Work, o: int, rows: list[int] | None) -> Any:
        """Where the values of an output lie, as a worker finds them; `rows`: only these, all from the engine."""
        if o not in work.values or rows is not None:
            i = self.program.sources[self.program.outputs[o].source]
            places = work.places if rows is None else [work.places[row] for row in rows]
            plain = rows is None and len(work.cores) == 1 and work.rows == work.core.rows()
            return "core", [(*core.place(i), core.rows()) for core in work.cores], None if plain else places
        made = work.values[o]
        return ("values", [made[row] for row in range(work.rows)]) if isinstance(made, dict) else ("slot", made.offset)

    def _run(self, phase: int, rows: int) -> int:
        """Rows of a unit. At most _MAX_UNITS of them, as the board would have it too: a unit's room goes by its number."""
        least = -(-rows // _MAX_UNITS)
        each = self.ns_per_row.get(phase)
        if not each:
            return max(1, least)
        fair = -(-rows // self.n) if len(self.queue) < self.n else rows
        return max(1, least, min(int(_RUN_NS / each), fair))

    def _finish(self, entry: Entry) -> None:
        """A phase is complete: its results are the batch's."""
        work, phase = entry.work, entry.task.phase
        spent = self.board.spent_ns(entry.serial)
        if spent > 0:
            each = max(spent / entry.n, 20.0)
            before = self.ns_per_row.get(phase)
            self.ns_per_row[phase] = each if before is None else before + 0.25 * (each - before)
            self.stats["work_s"] += spent / 1e9
        self.board.retire(entry.serial)
        del self.entries[entry.serial]
        work.values.update(entry.slots)
        for o in entry.task.outputs:
            if o not in entry.slots and work.redo is None:
                work.values[o] = entry.kept.get(o, {})
            elif o not in entry.slots:
                work.values[o].update(entry.kept.get(o, {}))
        work.redo = None
        if entry.fault is not None:
            work.error = transport.unpack_error(entry.fault)
        elif entry.broken:
            self._broken(work, entry)

    def _broken(self, work: Work, entry: Entry) -> None:
        places = entry.task.places
        broken = entry.broken if places is None else {places[row]: found for row, found in entry.broken.items()}
        row = min(broken)
        reason, packed = broken[row]
        error = transport.unpack_error(packed) if packed is not None else BrokenSampleError(reason)
        if entry.task.phase % 2 or self.program.on_error == "raise":
            if entry.task.phase % 2 == 0:
                error.sample = work.ids[row]  # type: ignore[attr-defined]
            work.error = error
            return
        if self.program.on_error == "substitute":
            self._stand_in(work, broken)
            return
        work.first_error = work.first_error or error
        for row, (reason, _) in sorted(broken.items()):
            work.left[row] = False
            work.errors.append((int(work.planned[row]), work.ids[row], None, reason))

    def _stand_in(self, work: Work, broken: dict[int, tuple[str, Any]]) -> None:
        """Other samples for rows that are broken, chosen as the engine does; what was made of the rows is made again."""
        self._deliverable(work)
        assert work.native is not None
        rows = sorted(broken)
        for row in rows:
            reason, packed = broken[row]
            planned = int(work.planned[row])
            try:
                core, work.attempts[row] = self.core.substitute(work.core.epoch(), work.core.step(), planned, work.attempts.get(row, 0))
            except Exception as e:
                if packed is not None:
                    e.__cause__ = transport.unpack_error(packed)
                work.error = e
                return
            # A function that failed by its own draw must not fail by it again.
            work.draws[row] = _leat.row_key(work.keys[row], work.attempts[row], 1)
            work.places[row] = (len(work.cores), 0)
            work.cores.append(core)
            earlier = next((error for error in work.errors if error[0] == planned), None)
            before = work.ids[row] if earlier is None else earlier[1]
            work.ids[row] = int(np.asarray(core.ids())[0])
            work.errors = [error for error in work.errors if error is not earlier]
            work.errors.append((planned, before, work.ids[row], reason if earlier is None else earlier[3]))
            for name, value in work.native.items():
                value[row] = self.form.makers[name](core)[0]
        if work.phase:  # a function has seen the batch with the sample that is broken
            work.values.clear()
        else:
            work.redo = rows
        work.phase = -1

    def _close_gaps(self, work: Work) -> None:
        """Leaves rows out for good: before a function takes the whole batch, and before it is delivered."""
        if work.left.all():
            return
        rows = np.flatnonzero(work.left)
        if not len(rows):
            work.error = work.first_error
            return
        for o, made in work.values.items():
            if isinstance(made, dict):
                work.values[o] = {i: made[row] for i, row in enumerate(rows.tolist())}
                continue
            output = self.program.outputs[o]
            t, strides = output.type_after(work.phase), output.strides_after(work.phase)
            slot = _leat.Slot(max(1, row_bytes(t) * len(rows)))
            dense(slot.memory(0, slot.bytes), t, len(rows), strides)[:] = dense(made.memory(0, made.bytes), t, work.rows, strides)[rows]
            work.values[o] = slot
        self._deliverable(work)
        assert work.native is not None
        work.native = {name: _chosen(value, rows) for name, value in work.native.items()}
        work.keys = [work.keys[row] for row in rows]
        work.draws = [work.draws[row] for row in rows]
        work.ids = [work.ids[row] for row in rows]
        work.valid = work.valid[rows]
        work.places = [work.places[row] for row in rows]
        work.planned = work.planned[rows]
        work.rows = len(rows)
        work.left = np.ones(work.rows, bool)

    def _deliverable(self, work: Work) -> None:
        """Takes what is delivered as it is out of the engine's batch."""
        if work.native is None:
            work.native = {name: self.form.makers[name](work.core) for name in self.names if name in self.native}
            work.valid = self.form.small(work.core.valid())

    # ---- what workers send -----------------------------------------------------------------------------------------

    def on_message(self, worker: int, serial: int, unit: int, kind: int, data: Any, places: Any, fd: int | None) -> None:
        """A message of a worker: called by the pool, under its lock."""
        if kind == FAILED:
            self.failure = transport.decode(data, places, fd, None)[1]
            return
        entry = self.entries.get(serial)
        shift = unit * entry.task.unit_room if entry is not None else 0
        if fd is None:
            places = [(offset + shift, size) for offset, size in places]
        if fd is None and places and (entry is None or entry.arena is None):
            return  # of a batch that nobody wants any more
        value = transport.decode(data, places, fd, entry.arena if entry is not None else None)
        if entry is None or unit in entry.units:
            return
        entry.units.add(unit)
        self.board.received(serial, unit)
        if kind == ERROR:
            entry.fault = value[1]
        elif kind == RESULTS:
            broken, kept = value
            for row, reason, packed in broken:
                entry.broken[row] = (reason, packed)
            for o, rows in kept.items():
                entry.kept.setdefault(o, {}).update(rows)
            size = sum(size + 64 for _, size in places)
            if size:
                phase = entry.task.phase
                each = -(-size // max(1, max((len(rows) for rows in kept.values()), default=1) if phase % 2 == 0 else 1))
                self.room[phase] = max(self.room.get(phase, 0), each + each // 4)

    def _withdraw(self) -> None:
        """Takes back what is on the board, until somebody asks for a batch again: a loader that was left alone with a function that ends
        workers would go on ending those that other loaders use too."""
        for work in list(self.queue):
            entry, work.entry = work.entry, None
            if entry is not None:
                entry.withdrawn, work.phase = True, entry.task.phase - 1
                self.board.cancel(entry.serial)
                self.zombies.append(entry)

    def on_death(self, worker: int, exitcode: int | None) -> None:
        """A worker is dead: what it had taken is queued again. Called by the pool."""
        assert self.pool is not None
        board, at, row, _, _ = self.pool.core.worker(worker)
        mine = board == self.board.offset
        if mine and not self.asked:
            self._withdraw()

        def visit(serial: int, unit: int) -> bool:
            entry = self.entries.get(serial)
            if entry is None or entry.work.cancelled or entry.withdrawn:
                self.board.received(serial, unit)
                return True
            if unit in entry.units:  # its message had come
                return True
            entry.exact = True
            if mine and serial == at:  # else it had taken the unit, and had not begun
                entry.kills[row] = entry.kills.get(row, 0) + 1
                if entry.kills[row] >= _KILLS:
                    assert entry.payload is not None
                    np.asarray(entry.payload.memory(8, entry.n))[row] = GONE
                    entry.kills[row] = 0
            return False

        self.board.requeue(worker, visit)
        for entry in self.entries.values():
            entry.exact = True


def _chosen(value: Any, rows: np.ndarray[Any, Any]) -> Any:
    """Some rows of an output."""
    if isinstance(value, list):
        return [value[row] for row in rows.tolist()]
    if isinstance(value, Ragged):
        return value._of_rows([value[row] for row in rows.tolist()])
    return value[rows]


def let_go(pool: Pool) -> None:
    pool.let_go()
