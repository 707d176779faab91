"""Batches on their way through Python functions: the second stage of a loader whose program has :class:`leat.ops.Map`.

    engine (threads)          this stage                                        consumer
    plan, read, decode  -->   pulled ahead, in order -> phases in workers  -->  delivered, in order
                              (a bounded number)        slots of shared memory

The engine stays what decides: order, ranks, tail, window, errors of what it reads. Its memory is shared (region 1), so that workers
read the rows of its batches where they lie, and write results straight into slots (leat/mapwork.py). Each phase of a batch is
one entry of a board; when it is complete, the next one is published. Nothing here has a thread: whoever asks for the next batch
pulls, publishes, takes messages and looks after the workers, as in leat/feed.py.

What the loader says of its position is that of the last batch *delivered*: the engine's state is noted as each batch is pulled.
Where an epoch has been pulled to its end, the next one is begun in the engine, so that workers need not wait for the consumer to ask
for it; what was begun so is given up where the consumer goes elsewhere.
"""

from __future__ import annotations

import json
import logging
import os
import pickle
import threading
import weakref
from collections import deque
from typing import Any

import numpy as np

from . import _leat, transport
from .batch import Batch, Form
from .errors import BrokenSampleError, ClosedError, ForkedError, HeldError
from .mapping import Mapped, Program, is_dense, row_bytes, sides, stored_dtype
from .mapwork import GONE, RESULTS, Task, dense
from .pool import Pool, describe_exit, threads_wanted
from .ragged import Ragged
from .workers import ERROR, FAILED, PHASE, Job, now

_SLICE_MS = 50
_SHORT_MS = 2  # while further batches may become ready in the engine
_WINDOW = 24
_KILLS = 3
_RUN_NS = 500_000.0  # what a unit of cheap rows should take
_MAX_UNITS = 256


class _Work:
    """One batch between the engine and delivery."""

    def __init__(self, core: _leat.Batch, state: str | None, number: int) -> None:
        self.core = core
        self.number = number  #: of the iteration that it belongs to
        self.state = state  #: of the engine, behind this batch
        self.rows = core.rows()
        self.keys: list[int] = np.asarray(core.row_keys()).tolist()
        self.ids: list[int] = np.asarray(core.ids()).tolist()
        self.errors = [(row, planned, None if delivered < 0 else delivered, reason) for row, planned, delivered, reason in core.errors()]
        self.left = np.ones(self.rows, bool)  #: rows that are not left out
        self.where = f"batch {core.step()} of epoch {core.epoch()}"
        self.phase = -1
        self.values: dict[int, Any] = {}  #: per output: what the last phase made: a slot, or {row: value}
        self.first_error: BaseException | None = None
        self.error: BaseException | None = None
        self.ready = self.cancelled = self.raised = False
        self.entry: _Entry | None = None
        self.bytes = 0
        self.cores = [core]  #: the engine's batch, and those of samples that stand in
        self.places = [(0, row) for row in range(self.rows)]  #: of each row: which of them, and the row there
        self.attempts: dict[int, int] = {}  #: of rows: how often another sample was tried
        self.redo: list[int] | None = None  #: rows whose sample is another one now, until they are made
        gone = [row for row, _, delivered, _ in self.errors if delivered is None]
        self.planned = np.setdiff1d(np.arange(self.rows + len(gone)), gone)  #: rows of the plan: the engine may have left some out
        self.native: dict[str, Any] | None = None  #: outputs that are delivered as the engine made them, once they are wanted
        self.valid: Any = None


class _Entry:
    """A phase of a batch on the board."""

    def __init__(self, work: _Work, serial: int, task: Task, n: int) -> None:
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


class Stage:
    """The second stage of one loader.

    Args:
        core: the engine's loader, of region 1.
        program: what workers do.
        native: outputs that come from the engine as they are, by name: their name there.
        names: all outputs, in the order of delivery.
        workers: how many processes.
        report: a file to which rows that functions refused are appended, in the words of the engine's own report.
        epochs: how many will be asked for; None: it is not known. 0: the next epoch is not begun ahead.
    """

    def __init__(
        self, core: _leat.Loader, program: Program, native: dict[str, str], names: list[str], form: Form, workers: int, weight: float,
        epochs: int | None,
        report: str | os.PathLike[str] | None,
    ) -> None:  # fmt: skip
        self.core, self.program, self.native, self.names, self.form = core, program, native, names, form
        self.n, self.weight, self.epochs, self.report = workers, weight, epochs, report
        self.lock = threading.RLock()
        self.queue: deque[_Work] = deque()
        self.zombies: list[_Entry] = []
        self.entries: dict[int, _Entry] = {}
        self.number = -1  #: of the consumer's iteration
        self.pulling = -1  #: of the engine's: another one where the next epoch has been begun
        self.epoch_now = 0
        self.given_up: int | None = None  #: the epoch that is to come, where the engine had begun another one
        self.begun = ""  #: the engine's state where it had begun the next epoch
        self.over = False  #: the consumer knows that its epoch is at its end
        self.ended = self.closed = False  #: ended: `pulling` is at its end
        self.delivered = ""  #: the engine's state behind the batch that was delivered last, where others are in flight
        self.pending: BaseException | None = None  #: of the engine, once those before it are delivered
        self.pool: Pool | None = None
        self.next_serial = 1
        self.ns_per_row: dict[int, float] = {}
        self.room: dict[int, int] = {}  #: per phase: bytes of what a row keeps outside of slots
        self.failure: Any = None
        self.out: list[_leat.Slot] = []  #: of batches that were delivered
        self.held = self.core_bytes = 0
        self.stats = {"batches": 0, "rows": 0, "broken": 0, "wait_s": 0.0, "work_s": 0.0}
        self.broken = {"skipped": 0, "substituted": 0, "raised": 0}
        self.tensor = form.tensor
        self.layouts: dict[int, _leat.Layout] = {}

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
            self.n_entries = 4 * _WINDOW + 2 * pool.room + 8
            self.board = _leat.Board(pool.core, self.n_entries, _MAX_UNITS, self.weight)
            served = [listener.board.served_ns() for listener in pool.listeners.values() if hasattr(listener, "board")]
            if served:
                self.board.start_at(min(served))
            running = [i for i, handle in enumerate(pool.handles) if handle is not None]
            pool.join(self.board.offset, job, self)
            self.pool = pool
            pool.users += 1
            try:
                for i in running:
                    self.on_start(i)
                pool.start()
            except BaseException:
                self.pool = None
                pool.leave(self.board.offset, self.board)
                _let_go(pool)
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

    # ---- beginning and ending --------------------------------------------------------------------------------------

    @property
    def ahead(self) -> bool:
        """Whether the engine is in the epoch after the consumer's."""
        return self.pulling != self.number

    def start(self) -> int:
        """An iteration begins; its number. What is in flight of others belongs to none any more."""
        with self.lock:
            if self.ahead:
                self._drop(self.number)
                self.ended = False
                self.delivered = self.begun
            else:
                self._drop(self.pulling)
                self.pending = None
                self.pulling = self.core.start()
                self.ended = False
            self.number = self.pulling
            self.epoch_now = self.core.epoch()
            self.given_up, self.over = None, False
            return self.number

    def _drop(self, number: int) -> None:
        """Gives up the batches of an iteration."""
        dropped = [work for work in self.queue if work.number == number]
        self.queue = deque(work for work in self.queue if work.number != number)
        self.held = sum(work.bytes for work in self.queue)
        if self.pool is None:
            return
        with self.pool.lock:
            for work in dropped:
                work.cancelled = True
                if work.entry is not None:
                    self.board.cancel(work.entry.serial)
                    self.zombies.append(work.entry)
            self._reap()

    def reset(self) -> None:
        """The engine's position was changed."""
        with self.lock:
            self._drop(self.number)
            self._drop(self.pulling)
            self.number = self.pulling = -1
            self.ended, self.pending, self.given_up, self.over = False, None, None, False

    def set_epoch(self, epoch: int) -> bool:
        """As of the engine: whether a loaded position was dropped."""
        with self.lock:
            if self.ahead:
                if self.core.epoch() == epoch:
                    return False
                self._drop(self.pulling)
                self.pulling, self.ended, self.pending, self.given_up = self.number, True, None, epoch
            elif self.given_up is not None:
                self.given_up = epoch
            return self.core.set_epoch(epoch)

    def epoch(self) -> int:
        """The one that was begun last; before, the one that begins next."""
        with self.lock:
            return self.core.epoch() if self.number < 0 else self.epoch_now

    def _begin_ahead(self) -> None:
        """The engine's epoch has been pulled to its end: the next one, unless nobody will ask for it."""
        if self.ahead or (self.epochs is not None and self.epoch_now + 1 >= self.epochs):
            self.ended = True
        else:
            self.pulling = self.core.start()
            self.begun = self.core.state()

    def _reap(self) -> None:
        for entry in list(self.zombies):
            if self.board.complete(entry.serial, True):
                self.zombies.remove(entry)
                self.entries.pop(entry.serial, None)
                self.board.retire(entry.serial)

    def close(self) -> None:
        """Leaves the workers."""
        self.closed = True
        pool, self.pool = self.pool, None
        if pool is None or pool.pid != os.getpid():
            return
        with pool.lock:
            self.board.close()
            for work in self.queue:
                if work.entry is not None:
                    self.board.cancel(work.entry.serial)
            pool.leave(self.board.offset, (self.board, dict(self.entries)))
            _let_go(pool)

    def state(self) -> str:
        """The engine's, as of the batch that was delivered last."""
        with self.lock:
            if self.given_up is not None and self.over:
                return json.dumps({**json.loads(self.core.state()), "at": {"epoch": self.given_up, "row": 0}})
            if self.over and self.ahead:
                return self.begun
            within = not self.over and (self.queue or self.ahead or self.given_up is not None)
            return self.delivered if within else self.core.state()

    # ---- pulling ---------------------------------------------------------------------------------------------------

    def _may_pull(self) -> bool:
        n = len(self.queue)
        if self.ended or self.pending is not None or n >= _WINDOW:
            return False
        return n < 2 or (self.held + self.held // n <= self.budget and self._may_publish(4 * self.program.n_phases))

    def _may_publish(self, n: int = 1) -> bool:
        """Whether the board has entries for so many: an old one may still stand there."""
        return not self.entries or self.next_serial + n - min(self.entries) < self.n_entries

    budget = max_held = 1 << 62

    def _pull(self, wait: bool) -> bool:
        """Takes a batch of the engine's. Without `wait` only one that is ready; and errors are left for when it is their turn."""
        number = self.pulling
        if not self.queue and not self.ahead:
            self.delivered = self.core.state()
        try:
            found = self.core.next(number) if wait else self.core.poll(number)
        except HeldError:  # perhaps there is room again when others have been delivered
            if wait:
                raise
            return False
        except Exception as e:
            if wait:
                raise
            self.pending = e
            return False
        if found is False:
            return False
        if found is None:
            self._begin_ahead()
            return not self.ended
        assert isinstance(found, _leat.Batch)
        work = _Work(found, self.core.state(), number)
        self._learn(found)
        self.queue.append(work)
        self.held += self._bytes(work)
        return True

    def _learn(self, core: _leat.Batch) -> None:
        if self.form.makers:
            return
        found = {name: self.form._maker(i, name, kind, dtype, ragged) for i, (name, kind, dtype, ragged) in enumerate(core.outputs())}
        self.program.sources.update({name: i for i, (name, *_) in enumerate(core.outputs())})
        self.form.makers = {name: found[self.native[name]] if name in self.native else _ready for name in self.names}
        memory = _memory_of(self.core)
        self.budget = max(1, min(memory["budget_bytes"], memory["max_held_bytes"] // 2))
        self.max_held = memory["max_held_bytes"]

    def _bytes(self, work: _Work) -> int:
        """What a batch takes in flight: the larger of what the engine holds for it and what is made of it."""
        held: int = sum(np.asarray(work.core.memory(i)).nbytes for i in range(len(work.core.outputs())))
        made = sum(row_bytes(o.gives) * work.rows for o in self.program.outputs if is_dense(o.gives))
        work.bytes = max(held, made)
        return work.bytes

    # ---- phases ----------------------------------------------------------------------------------------------------

    def _advance(self, work: _Work) -> None:
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

    def _publish(self, work: _Work) -> None:
        program, phase = self.program, work.phase
        at = program.at(phase)
        whole = bool(phase % 2)
        rows = work.redo
        n = len(at) if whole else work.rows if rows is None else len(rows)
        keys, ids = (work.keys, work.ids) if rows is None else ([work.keys[row] for row in rows], [work.ids[row] for row in rows])
        task = Task(phase, keys, ids, at, {o: self._input(work, o, rows) for o in at}, {}, work.rows, rows, work.where)
        entry = _Entry(work, self.next_serial, task, n)
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

    def _input(self, work: _Work, o: int, rows: list[int] | None) -> Any:
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

    def _finish(self, entry: _Entry) -> None:
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

    def _broken(self, work: _Work, entry: _Entry) -> None:
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

    def _stand_in(self, work: _Work, broken: dict[int, tuple[str, Any]]) -> None:
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

    def _close_gaps(self, work: _Work) -> None:
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
        work.ids = [work.ids[row] for row in rows]
        work.valid = work.valid[rows]
        work.places = [work.places[row] for row in rows]
        work.planned = work.planned[rows]
        work.rows = len(rows)
        work.left = np.ones(work.rows, bool)

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

    def on_death(self, worker: int, exitcode: int | None) -> None:
        """A worker is dead: what it had taken is queued again. Called by the pool."""
        assert self.pool is not None
        board, at, row, _, _ = self.pool.core.worker(worker)
        mine = board == self.board.offset

        def visit(serial: int, unit: int) -> bool:
            entry = self.entries.get(serial)
            if entry is None or entry.work.cancelled:
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
        self.last_exit = describe_exit(exitcode)

    last_exit = ""

    # ---- delivering ------------------------------------------------------------------------------------------------

    def next(self, number: int) -> Batch | None:
        """The next batch of an iteration, None at its end.

        Raises:
            Exception: that of a function, or of the engine. The position has not moved: the next call tries again.
        """
        with self.lock:
            self._here()
            if number != self.number:
                self.core.next(number)  # says that it is over
                raise ClosedError("a newer iteration of this Loader began")
            pool = self._open()
            while not self.queue:
                if self.ended or self.ahead:
                    self._end(pool)
                    return None
                pending, self.pending = self.pending, None
                if pending is not None:
                    raise pending
                self._pull(wait=True)
            work = self.queue[0]
            if work.number != number:
                self._end(pool)
                return None
            if work.raised:  # once more
                again = _Work(work.core, work.state, number)
                again.bytes = work.bytes
                self.queue[0] = work = again
            self._wait(pool, work)
            if work.error is None:
                self._check_held(work)
            batch = self._batch(work)
            self.queue.popleft()
            self.held -= work.bytes
            self.delivered = work.state or ""
            self.stats["batches"] += 1
            self.stats["rows"] += work.rows
            self._book(work)
            return batch

    def _book(self, work: _Work) -> None:
        """Rows that functions refused, once their batch is delivered."""
        engine = {(row, planned, None if other < 0 else other) for row, planned, other, _ in work.core.errors()}
        mine = [error for error in sorted(work.errors) if error[:3] not in engine]
        self.stats["broken"] += len(mine)
        for row, planned, delivered, reason in mine:
            self.broken["skipped" if delivered is None else "substituted"] += 1
            self._line(work, row=row, planned=planned, delivered=delivered, code="LEAT_E_OPERATOR", reason=reason)

    def _line(self, work: _Work, **told: Any) -> None:
        if self.report is None:
            return
        text = json.dumps({"epoch": work.core.epoch(), "step": work.core.step(), **told}) + "\n"
        try:
            with open(self.report, "a") as file:
                file.write(text)
        except OSError as e:  # the report is a by-product: the batch itself says the same
            logging.getLogger("leat").warning("a line of the error report could not be written (%s): %s", e, text)

    def _check_held(self, work: _Work) -> None:
        """Slots count as the engine's buffers do: each output by itself, as long as a tensor refers to it."""
        self.out = [slot for slot in self.out if slot.references > 1]
        held = sum(slot.bytes for slot in self.out)
        more = sum(slot.bytes for slot in work.values.values() if not isinstance(slot, dict))
        if held + more > self.max_held and held:
            per_batch = max(1, sum(is_dense(output.gives) for output in self.program.outputs))
            error = HeldError(
                f"about {-(-len(self.out) // per_batch)} batches are held ({held} bytes), and one more of {more} bytes would pass max_held_bytes = "
                f"{self.max_held}; let go of some, copy what is to be kept, or raise max_held_bytes"
            )
            error.code = "LEAT_E_HELD"
            raise error

    def make(self, core: _leat.Batch) -> Batch:
        """A batch of the engine's, apart from the others."""
        with self.lock:
            self._here()
            pool = self._open()
            self._learn(core)
            work = _Work(core, None, -1)
            self._wait(pool, work)
            return self._batch(work)

    def _here(self) -> None:
        if self.closed:
            raise ClosedError("the Loader is closed: open another one")
        if self.pool is not None and self.pool.pid != os.getpid():
            raise ForkedError("a Loader works only in the process that opened it: open one after the fork; the data set may be shared")

    def _wait(self, pool: Pool, work: _Work) -> None:
        """Until a batch is ready, going on with the others."""
        begun = now()
        try:
            while True:
                self._pull_ready()
                with pool.lock:
                    seen = self.board.seen()
                    # A message is announced before it is sent: it is worth waiting for.
                    announced = pool.expects()
                    if announced or pool.threads:
                        pool.look(_SLICE_MS if announced else 0)
                    self._reap()
                    self._advance(work)
                    for other in self.queue:
                        self._advance(other)
                    if work.ready:
                        return
                    if self.failure is not None:
                        raise transport.unpack_error(self.failure)
                if announced:
                    continue
                self.board.wait(seen, _SHORT_MS if self.queue and self._may_pull() else _SLICE_MS)
                if self.closed:
                    raise ClosedError("the Loader is closed: open another one")
                if self.board.seen() == seen:  # nothing has come: is anybody dead?
                    with pool.lock:
                        pool.look()
        finally:
            self.stats["wait_s"] += now() - begun

    def _pull_ready(self) -> None:
        while (self.queue or self.ahead) and self._may_pull() and self._pull(wait=False):
            pass

    def _end(self, pool: Pool) -> None:
        """The consumer's epoch is over. Workers get what is ready of the one that comes next."""
        self.over = True
        self._pull_ready()
        with pool.lock:
            self._reap()
            for work in self.queue:
                self._advance(work)

    def _deliverable(self, work: _Work) -> None:
        """Takes what is delivered as it is out of the engine's batch."""
        if work.native is None:
            work.native = {name: self.form.makers[name](work.core) for name in self.names if name in self.native}
            work.valid = self.form.small(work.core.valid())

    def _batch(self, work: _Work) -> Batch:
        if work.error is None:
            work.phase = self.program.n_phases
            self._close_gaps(work)
        if work.error is not None:
            work.raised = True
            self.broken["raised"] += 1
            sample = getattr(work.error, "sample", None)
            if sample is not None:
                self._line(work, planned=sample, code="LEAT_E_OPERATOR", file=None, reason=str(work.error))
            raise work.error
        self._deliverable(work)
        values: dict[str, Any] = dict(work.native or {})
        self.out += [slot for slot in work.values.values() if not isinstance(slot, dict)]
        for o, output in enumerate(self.program.outputs):
            values[output.name] = self._value(o, output, work.values[o], work.rows)
        small = self.form.small
        values[".ids"] = small(np.array(work.ids, np.int64))
        values[".row_keys"] = small(np.array(work.keys, np.uint64))
        values[".valid"] = work.valid
        from .batch import RowError

        values[".errors"] = [RowError(*error) for error in sorted(work.errors)]
        values[".epoch"], values[".step"], values[".size"] = work.core.epoch(), work.core.step(), work.rows
        return Batch(None, self.form, values)

    def _value(self, o: int, output: Mapped, made: Any, rows: int) -> Any:
        """What is delivered of an output."""
        t = output.gives
        if not isinstance(made, dict):
            return self._tensor(o, output, made, rows)
        found = [made[row] for row in range(rows)]
        if t.kind in ("str", "json"):
            return found
        if t.kind == "bytes":
            found = [np.frombuffer(value, np.uint8) for value in found]
        elif t.dtype == "bfloat16":
            found = [value.view("u2") for value in found]
        offsets = np.zeros(rows + 1, np.int64)
        np.cumsum([len(value) for value in found], out=offsets[1:])
        dtype = stored_dtype(t)
        values = np.concatenate(found) if found else np.empty((0, *sides(t)), dtype)
        if self.tensor is None:
            return Ragged(values, offsets)
        import torch

        tensor = torch.from_numpy(values)
        return Ragged(tensor.view(torch.bfloat16) if t.dtype == "bfloat16" else tensor, torch.from_numpy(offsets))

    def _tensor(self, o: int, output: Mapped, slot: _leat.Slot, rows: int) -> Any:
        t, strides = output.gives, output.final_strides
        if self.tensor is None:
            if t.dtype == "bfloat16":
                raise TypeError(f"output {output.name!r} is bfloat16, which numpy lacks: open the Loader with framework='torch'")
            return dense(slot.memory(0, slot.bytes), t, rows, strides)
        if o not in self.layouts:
            code = {"u": 1, "i": 0, "f": 2, "b": 6}[stored_dtype(t).kind] if t.dtype != "bfloat16" else 4
            shape = t.shape if strides is None else (t.shape[1], t.shape[2], t.shape[0])
            self.layouts[o] = _leat.Layout(("leaf", transport.TENSOR, code, stored_dtype(t).itemsize * 8, "B", shape, (None, None, None)))
        made = self.layouts[o].batch((slot,), rows, self.tensor, [])
        return made if strides is None else made.permute(0, 3, 1, 2)

    def about(self) -> dict[str, Any]:
        """For the loader's statistics."""
        held = sum(slot.bytes for slot in self.out if slot.references > 1)
        found: dict[str, Any] = {
            **self.stats,
            "memory": {"in_flight_bytes": self.held, "held_bytes": held},
            "window": {"depth": len(self.queue), "ready": sum(w.ready for w in self.queue)},
        }
        if self.pool is not None:
            found |= {"workers": self.pool.n, "pids": self.pool.pids, "replaced": list(self.pool.events)}
        return found


def _ready(core: _leat.Batch) -> Any:
    raise AssertionError("values of functions are there when a batch is made")


def _chosen(value: Any, rows: np.ndarray[Any, Any]) -> Any:
    """Some rows of an output."""
    if isinstance(value, list):
        return [value[row] for row in rows.tolist()]
    if isinstance(value, Ragged):
        return value._of_rows([value[row] for row in rows.tolist()])
    return value[rows]


def _memory_of(core: _leat.Loader) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(core.stats())["memory"]
    return found


# ---- workers in common -----------------------------------------------------------------------------------------------

_shared: dict[tuple[int, int], weakref.ref[Pool]] = {}


def _pool_for(n: int) -> Pool:
    """Workers that all loaders of this process share that want so many."""
    key = (os.getpid(), n)
    found = _shared[key]() if key in _shared else None
    if found is None or found.stopped:
        found = Pool(None, n, n, None, None, 0, threads_wanted(None))
        _shared[key] = weakref.ref(found, lambda _: _shared.pop(key, None))
    return found


def _let_go(pool: Pool) -> None:
    pool.users -= 1
    if pool.users <= 0:
        pool.stop()
