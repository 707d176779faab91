"""The batches in flight: published on a board, completed by workers, delivered in order.

A feed has no thread. Asking for the next batch publishes further ones, takes messages, replaces dead workers and looks
for samples that take too long. Workers need none of this to continue with the published batches.

    plan -> read -> publish -> (workers) -> complete -> deliver -> retire
                         \\-> cancel -> retire once nothing of it runs

The plan may call a user's sampler, which may draw random numbers. So it is read at fixed points of the program,
however fast the workers are: `distance` batches when iteration begins, and one more for each batch that is delivered,
before the consumer gets it (as PyTorch does). Publishing may lag behind.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import sys
from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import _leat
from ..errors import BrokenSampleError, ForkedError, HeldError
from . import feeds, transport
from .loop import BATCH, END, ERROR, FAILED, ITER, ODD, REMOVED, ROWS, SAMPLES, TRIES, WHOLE, Job, now
from .pool import Client, Pool, describe_exit

_SLICE_MS = 50
_UNIT_NS = 200_000.0  # the aim for a unit of cheap rows
_KILLS = 3  # LEAT_BOARD_KILLS
_MAX_UNITS = 1024
_CHEAP_NS = 500_000.0  # of a batch
_TEXT_SLACK, _LEAST_TEXT = 1.25, 64  # room for texts over the most that a batch has asked for; bytes of a row


@dataclass(slots=True)
class Planned:
    """A batch to be made."""

    indices: Any  #: int64 array, or any object that goes to the data set (kind WHOLE), or None (kind ITER)
    rows: int
    kind: int
    seed: int
    epoch: int
    step: int
    first_row: int
    owner: int = -1
    given: Any = None  #: the batch as the sampler gave it, for a `__getitems__`, if that is no list of indices

    @property
    def asked(self) -> Any:
        """The requests to the data set."""
        if self.given is not None:
            return self.given
        return self.indices.tolist() if isinstance(self.indices, np.ndarray) else self.indices


@dataclass(slots=True)
class Delivered:
    """A finished batch."""

    planned: Planned
    value: Any
    broken: list[tuple[int, Any, Any, str]]  #: (row, index, index that stands in or None, reason)
    state: Any = None


class _Flight:
    """One batch between publishing and delivery."""

    __slots__ = ("broken", "cancelled", "elsewhere", "end", "error", "gone", "layout", "odd", "payload", "planned",
                 "result", "room", "serial", "slots")  # fmt: skip

    def __init__(self, planned: Planned, serial: int) -> None:
        self.planned = planned
        self.serial = serial
        self.layout = 0
        self.slots: tuple[_leat.Slot, ...] = ()
        self.room: _leat.Slot | None = None
        self.payload: _leat.Slot | None = None
        self.odd: dict[int, Any] = {}
        self.elsewhere: dict[int, list[Any]] = {}  # texts that are not in the slot, by row
        self.broken: list[tuple[int, Any, Any, str]] = []
        self.gone: dict[int, int] = {}  # rows that were removed, and how often
        self.error: tuple[int, Any] | None = None
        self.result: Any = None
        self.end = self.cancelled = False


class NotYet(Exception):
    """No batch was complete in time."""


class Feed(Client):
    """The client of a pool for one loader.

    Args:
        window: batches in flight at most; `window_bytes` bounds them too, but never below three.
        distance: batches that are read from the plan ahead of the consumer; None: as many as the window.
        ended, busy: workers whose streams have ended, and batches in flight of each: kept here, for the plan to see.
        collate: for a list of samples, for batches whose rows do not look alike.
        direct: samples may be written straight to their rows (the default collate).
    """

    def __init__(
        self,
        pool: Pool,
        job: Job,
        plan: Iterator[Planned],
        *,
        window: int,
        window_bytes: int,
        distance: int | None = None,
        collate: Callable[[list[Any]], Any],
        direct: bool,
        in_order: bool = True,
        sample_timeout_s: float | None = None,
        weight: float = 1.0,
        ended: set[int] | None = None,
        busy: Counter[int] | None = None,
    ) -> None:
        self.pool, self.job, self.plan = pool, job, plan
        self.window, self.window_bytes = window, window_bytes
        self.distance = window if distance is None else distance
        self.read: deque[Planned] = deque()  # from the plan, not published yet
        self.begun = False  # reading
        self.collate, self.direct, self.in_order = collate, direct, in_order
        self.sample_timeout_s = sample_timeout_s
        self.flights: dict[int, _Flight] = {}
        self.order: deque[_Flight] = deque()
        self.zombies: list[_Flight] = []
        self.layouts: list[tuple[Any, _leat.Layout]] = []
        self.layout = 0  # the one for new batches
        self.row_bytes = 0  # of arrays
        self.text_bytes = 0.0  # room for the texts of a row
        self.capacity = 0  # of a whole batch
        self.exhausted = False
        self.plan_error: Exception | None = None
        self.waiting = False  # nothing is in progress
        self.failure: Any = None
        self.differing = 0
        self.watching: dict[int, tuple[int, int, int, float]] = {}
        self.looked = self.watched_s = 0.0  # for samples that hang: last, and for how long so far
        self.hung: set[int] = set()  # workers that are being killed for that
        self.produced: dict[int, int] = {}
        self.states: dict[int, Any] = {}
        self.starts: dict[int, Any] = {}  # states that the streams of this epoch begin with
        self.left: dict[int, Any] = {}  # states of streams that were left within the epoch before
        self.ended: set[int] = set() if ended is None else ended
        self.busy: Counter[int] = Counter() if busy is None else busy  # batches read and not delivered, of each worker
        self.delivered_ends: set[int] = set()
        self.end_states: dict[int, Any] = {}  # of data sets whose streams have ended
        self.failed: Planned | None = None
        self.closed = False
        self.stats = {"batches": 0, "wait_s": 0.0, "odd_batches": 0, "broken": 0}
        self.dlpack = _from_dlpack()
        pool.join(self, job, window + 2 * pool.room + 8, _MAX_UNITS, _UNIT_NS, weight)
        feeds.add(self)

    # ---- publishing ----------------------------------------------------------------------------------------------

    def _read(self, n: int) -> None:
        """Reads up to `n` batches of the plan."""
        for _ in range(n):
            if self.exhausted:
                return
            try:
                planned = next(self.plan)
                self.read.append(planned)
                self.busy[planned.owner] += 1
            except StopIteration:
                self.exhausted = True
            except Exception as e:  # of a sampler: raised after the batches before it are delivered
                self.exhausted, self.plan_error = True, e

    def advance(self) -> None:
        """Reads the plan one batch further: the consumer is about to get one."""
        with self.pool.lock, contextlib.suppress(HeldError):  # then the next call says so, not the one with a batch
            self._read(1)
            self.publish()

    def publish(self) -> None:
        """Publishes the batches that were read, as far as the window reaches. The first call begins to read."""
        if not self.begun:
            self.begun = True
            self._read(self.distance)
        # If one batch may hang without holding up others, each worker but one may have one of those.
        enough = self.window // 2 if self.in_order else max(self.window // 2, self.pool.n)
        if len(self.order) > enough and 0 < self.board.ns_per_row() * self.order[0].planned.rows < _CHEAP_NS:
            return  # cheap batches are made in bursts: waking a worker for each would cost more than making it
        while self.read and len(self.order) < self.window and self._may_publish():
            try:
                self._publish(self.read[0])
            except HeldError:
                if not self.order:
                    raise
                return  # the batches in flight suffice until the consumer releases some
            self.read.popleft()

    def _may_publish(self) -> bool:
        if not self.board.next():
            return False  # its entry still belongs to a batch that was cancelled or overtaken
        if not self.order:
            return True
        head = self.order[0].planned
        if self.direct and head.kind == ROWS and not self.layout:
            # The layout is learned from the first samples: until then, only enough to keep the workers busy.
            return sum(f.planned.rows for f in self.order) < self.pool.n
        if len(self.order) < 3:
            return True
        size = self.capacity
        if self.layout and head.kind == ROWS:
            size = self.row_bytes * head.rows + self._room(head.rows)
        return size * (len(self.order) + 1) <= self.window_bytes and size <= _leat.memory_left()

    def _slot(self, size: int) -> _leat.Slot:
        return _leat.Slot(max(1, size))

    def _publish(self, planned: Planned) -> None:
        if planned.kind == ROWS and not self.direct:
            planned.kind = WHOLE
        flight = _Flight(planned, self.board.next())
        payload: Any = b""
        if planned.kind == ROWS:
            payload = planned.indices
        elif planned.kind == WHOLE:
            try:
                payload = pickle.dumps(planned.asked, protocol=5)
            except Exception as e:  # fails this batch, in its place; a worker that takes it at once finds nothing
                flight.error = (0, transport.pack_error(e, "in the process that trains"))
            if self.job.on_error != "raise":
                payload += bytes(16 * planned.rows)  # for the marks of removed rows
        size = payload.nbytes if isinstance(payload, np.ndarray) else len(payload)
        if size:
            flight.payload = self._slot(size)
            _view(flight.payload, size)[:] = np.frombuffer(payload, np.uint8)
        buffers: tuple[_leat.Slot, ...] = ()
        rows = run = max(1, planned.rows)  # an empty batch is work, too
        capacity = 0
        if planned.kind == ROWS:
            run = 0  # as long as is fair
            if self.layout:
                self._cut(flight)
                buffers = flight.slots
        elif self.capacity:
            flight.room = _leat.Slot(self.capacity)
            buffers, capacity = (flight.room,), self.capacity
        self._catch_up()
        self.board.publish(
            flight.serial, rows, run, planned.owner, flight.layout, planned.kind,
            flight.payload.offset if flight.payload else 0,
            size, planned.seed, planned.epoch, planned.first_row, capacity, buffers,
        )  # fmt: skip
        self.flights[flight.serial] = flight
        self.order.append(flight)
        if flight.error is not None:
            self.board.cancel(flight.serial)

    def _backlogged(self) -> bool:
        return bool(self.order) and not self.board.complete(self.order[-1].serial)

    def _catch_up(self) -> None:
        """Gives this feed no claim on shared workers for time in which it asked for nothing."""
        if len(self.pool.clients) < 2 or self._backlogged():
            return
        others = [
            f.board.served_ns()
            for f in self.pool.clients.values()
            if isinstance(f, Feed) and f is not self and f._backlogged()
        ]
        if others and min(others) > self.board.served_ns():
            self.board.start_at(min(others))

    def _room(self, rows: int) -> int:
        """Bytes of room for the texts of a batch. Batches that need more than a share of the window come by
        messages."""
        return min(int(self.text_bytes * rows), self.window_bytes // (2 * self.window))

    def _cut(self, flight: _Flight) -> None:
        rows = flight.planned.rows
        flight.slots = self.layouts[self.layout - 1][1].slots(rows, self._room(rows))
        flight.layout = self.layout

    def _learn(self, sample: Any) -> None:
        """Takes the layout from the first sample."""
        spec = transport.describe(sample)
        if spec is None or transport.buffers_of(spec) > transport.MAX_BUFFERS:
            self.direct = False
            return
        core = _leat.Layout(spec)
        self.layouts.append((spec, core))
        self.layout, self.row_bytes = len(self.layouts), sum(core.row_bytes)
        if core.n_texts:
            slots = core.slots(1, 0)
            core.store(sample, slots, 0, {})
            self.text_bytes = _TEXT_SLACK * max(core.asked(slots), _LEAST_TEXT)
        self.pool.layout(self.board.offset, self.layout, spec)
        for flight in self.order:
            if flight.planned.kind == ROWS and not flight.layout and not flight.odd and flight.error is None:
                self._place(flight)

    def _place(self, flight: _Flight) -> None:
        try:
            self._cut(flight)
        except HeldError as e:
            self._fail(flight, 0, e)
        else:
            self.board.place(flight.serial, self.layout, flight.slots)

    def _fail(self, flight: _Flight, row: int, error: BaseException) -> None:
        """Fails the batch, for a reason in this process."""
        if flight.error is None:
            flight.error = (row, transport.pack_error(error, "in the process that trains"))
        self.board.cancel(flight.serial)

    # ---- messages of workers -------------------------------------------------------------------------------------

    def on_message(
        self, worker: int, serial: int, unit: int, kind: int, data: Any, places: Any, fd: int | None
    ) -> None:
        """A worker has sent a message."""
        if kind == FAILED:
            self.failure = transport.decode(data, places, fd, None)[1]
            return
        flight = self.flights.get(serial)
        if flight is None:
            if fd is not None:
                os.close(fd)
            return
        try:
            value = transport.decode(data, places, fd, flight.room)
            self._take(flight, worker, kind, value)
            if kind == BATCH and (places or flight.planned.kind == WHOLE):
                self._make_room(transport.places_end(places) + len(data))
        except Exception as e:  # the message cannot be decoded here, or there is no memory
            self._fail(flight, 0, e)
            if flight.planned.kind == ITER:
                self.produced[worker] = self.produced.get(worker, 0) + 1
        self.board.received(serial, unit)

    def _make_room(self, size: int) -> None:
        """Gives later batches of the workers' own collation at least so much room."""
        if int(size * 1.25) > self.capacity:
            self.capacity = int(size * 1.25)

    def _take(self, flight: _Flight, worker: int, kind: int, value: Any) -> None:
        if flight.cancelled:
            return  # of an epoch that was left: its streams start again, so it must not count as produced
        if kind == ERROR:
            if flight.error is None or value[0] < flight.error[0]:
                flight.error = value
            self.board.cancel(flight.serial)
        elif kind == SAMPLES:
            found, broken = value
            self._note(flight, broken)
            if found and self.direct and not self.layout and not flight.cancelled:
                self._learn_for(flight, found[0][1])
            for row, sample in found:
                self._store(flight, row, sample)
        elif kind == ODD:
            first, end, odd, elsewhere, broken = value
            self._note(flight, broken)
            for row in range(first, end):
                flight.elsewhere.pop(row, None)  # of a worker that died after its message
            flight.elsewhere.update(elsewhere)
            for row, sample in odd:
                self._store(flight, row, sample)
        elif kind == BATCH:
            flight.result = value
            if flight.planned.kind == ITER:
                self.produced[worker] = self.produced.get(worker, 0) + 1
                if value[2] is not None:
                    self.states[worker] = (value[2], self.produced[worker])
        elif kind == END:
            flight.end = True
            self.ended.add(worker)
            if value is not None:
                self.end_states[worker] = value

    def _learn_for(self, flight: _Flight, sample: Any) -> None:
        self._learn(sample)
        if self.layout and not flight.layout and flight.error is None:
            self._place(flight)

    def _store(self, flight: _Flight, row: int, sample: Any) -> None:
        """Stores a sample that came as an object in its row, if it fits."""
        slots, layout = flight.slots, flight.layout
        if not layout or not self.layouts[layout - 1][1].store(sample, slots, row, flight.elsewhere):
            flight.odd[row] = sample

    def _note(self, flight: _Flight, broken: list[tuple[int, Any, str]]) -> None:
        indices = flight.planned.indices
        for row, other, reason in broken:
            flight.broken.append((row, _plain(indices[row]), other, reason))
        self.stats["broken"] += len(broken)

    # ---- workers that die or hang --------------------------------------------------------------------------------

    def on_death(self, worker: int, exitcode: int | None) -> None:
        """A worker is dead: its units are queued again."""
        hung = worker in self.hung
        self.hung.discard(worker)

        def gone(serial: int, row: int) -> None:
            flight = self.flights.get(serial)
            if flight is not None and not hung:  # of one that hung this is decided
                self._give_up(flight, row, f"ended {_KILLS} workers, the last with {describe_exit(exitcode)}")

        self.board.requeue(worker, gone)

    def _give_up(self, flight: _Flight, row: int, why: str) -> None:
        planned = flight.planned
        if self._take_out(flight, row):
            return
        what = f"row {row} of batch {planned.step} of epoch {planned.epoch}"
        if (
            planned.kind != ITER
            and planned.indices is not None
            and np.ndim(planned.indices) == 1
            and row < len(planned.indices)
        ):
            what += f", the sample at index {_plain(planned.indices[row])!r},"
        flight.error = (row, (None, "", f"{what} {why}"))
        self.board.cancel(flight.serial)
        if planned.kind == ITER:
            self._end_stream(flight)

    def _end_stream(self, flight: _Flight) -> None:
        """Ends a stream that kills workers or hangs, as one that raises: it would meet the same sample again."""
        self.ended.add(flight.planned.owner)
        for later in self.order:
            if later.planned.owner == flight.planned.owner and later.serial > flight.serial:
                later.end = True
                self.board.cancel(later.serial)

    def _take_out(self, flight: _Flight, row: int) -> bool:
        """Marks a row as broken for workers that try the batch again, as `on_error` says. False: impossible."""
        tries = flight.gone.get(row, 0)  # of substitutes that ended workers too
        if (
            self.job.on_error == "raise"
            or flight.payload is None
            or tries > (TRIES if self.job.on_error == "substitute" else 0)
        ):
            return False
        if flight.planned.kind == ROWS:
            _view(flight.payload, flight.planned.rows * 8).view(np.int64)[row] = REMOVED + tries
        elif flight.planned.kind == WHOLE and self.job.auto_collation:
            indices = list(pickle.loads(flight.payload.memory(0, flight.payload.bytes)))
            if row >= len(indices):
                return False
            indices[row] = REMOVED + tries
            data = pickle.dumps(indices, protocol=5)
            if len(data) > flight.payload.bytes:
                return False
            _view(flight.payload, len(data))[:] = np.frombuffer(data, np.uint8)
        else:
            return False
        flight.gone[row] = tries + 1
        return True

    def _look_for_hangs(self) -> None:
        limit = self.sample_timeout_s
        if limit is None:
            return
        time = now()
        self.watched_s += min(time - self.looked, limit / 2)  # else it stood still, and perhaps its workers with it
        self.looked = time
        for i in range(self.pool.room):  # those that are to stop, too
            board, serial, row, units, _ = self.pool.core.worker(i)
            if not serial or board != self.board.offset:
                self.watching.pop(i, None)
                continue
            seen = self.watching.get(i)
            if seen is None or seen[:3] != (serial, row, units):
                self.watching[i] = (serial, row, units, self.watched_s)
            elif self.watched_s - seen[3] > limit:
                del self.watching[i]
                flight = self.flights.get(serial)
                if flight is not None and not flight.cancelled:
                    self._give_up(flight, row, f"took longer than sample_timeout_s = {limit:g}")
                    if flight.error is not None:
                        flight.error = (row, ("timeout", "", flight.error[1][2]))
                self.hung.add(i)
                self.pool.kill(i)

    def resume_of(self, worker: int) -> Any:
        """The place from which a new worker continues with an iterable data set: (state, batches to skip)."""
        if not self.job.iterable:
            return None
        state, at = self.states.get(worker, (self.starts.get(worker), 0))
        return state, self.produced.get(worker, 0) - at

    # ---- delivering ----------------------------------------------------------------------------------------------

    def _ready(self) -> _Flight | None:
        for flight in self.order:
            if flight.planned.epoch != self.order[0].planned.epoch:
                return None  # nothing of the next epoch before the last of this one
            if self.board.complete(flight.serial):
                return flight
            if self.in_order:
                return None
        return None

    def head(self) -> Planned | None:
        """The batch that is delivered next, in order, without reading the plan further. An exception of the sampler
        passes through, each time.
        """
        self.waiting = False
        with self.pool.lock:
            self._publish_some()
            if not self.order and self.plan_error is not None:
                raise self.plan_error
        return self.order[0].planned if self.order else None

    def _publish_some(self) -> None:
        """Publishes at least one batch if there is one."""
        self.pool.check()
        self.publish()
        while not self.order and self.read:  # the board is full of cancelled batches that still run
            self.pool.look(_SLICE_MS)
            self._look_for_hangs()
            self._reap()
            self.publish()

    def next(self, timeout_s: float | None = None, advance: bool = True) -> Delivered | None:
        """The next batch; None when there is none. Ends of iterable data sets are skipped.

        Args:
            advance: read the plan one batch further; else :meth:`advance` does, when the consumer gets the batch.

        Raises:
            NotYet: none was complete in time.
            Exception: that of the data set or of collating; the batch is then over.
        """
        if os.getpid() != self.pool.pid:
            raise ForkedError("this loader belongs to the process that opened it; open another one in the child")
        if self.closed:
            raise RuntimeError("this iterator was closed: iterate over the loader anew")
        begun = looked = now()
        waited = 0.0
        self.waiting = False
        while True:
            with self.pool.lock:
                seen = self.board.seen()
                self._publish_some()
                if not self.order:
                    if self.plan_error is not None:
                        error, self.plan_error = self.plan_error, None
                        raise error
                    return None
                # A message is announced before it is sent: it is worth waiting for.
                announced = self.pool.expects()
                flight = self._ready()
                if flight is None and (announced or self.pool.threads):
                    self.pool.look(_SLICE_MS if announced else 0)
                    flight = self._ready()
                # memory of others is released once workers say that they have left them
                elif announced and self.pool.leaving:
                    self.pool.look()
                if flight is not None:
                    self.stats["wait_s"] += now() - begun
                    self._retire(flight)
                    if advance or flight.end:
                        self.advance()
                    if flight.end:
                        self.delivered_ends.add(flight.planned.owner)
                        continue
                    return self._deliver(flight)
                if self.failure is not None:
                    raise transport.unpack_error(self.failure)
            if timeout_s is not None:
                time = now()
                waited += min(time - looked, timeout_s / 2)  # else this process stood still, and its workers with it
                looked = time
                if waited >= timeout_s:
                    raise NotYet
            if announced:
                continue
            left = 2 if self.pool.stuck else _SLICE_MS
            if timeout_s is not None:
                left = max(1, min(left, int((timeout_s - waited) * 1000)))
            self.waiting = True
            self.board.wait(seen, left)
            self.waiting = False
            if self.board.seen() == seen:  # nothing has come: look for dead workers and for samples that hang
                with self.pool.lock:
                    self.pool.look()
                    self._look_for_hangs()
                    self._reap()

    def _retire(self, flight: _Flight) -> None:
        self.order.remove(flight)
        self.busy[flight.planned.owner] -= 1
        del self.flights[flight.serial]
        self.board.retire(flight.serial)

    def _deliver(self, flight: _Flight) -> Delivered:
        planned = flight.planned
        self.stats["batches"] += 1
        self.failed = planned
        if flight.error is not None:
            packed = flight.error[1]
            if packed[0] == "timeout":
                raise TimeoutError(packed[2])
            if packed[0] is None and not packed[1]:
                raise BrokenSampleError(packed[2])
            raise transport.unpack_error(packed)
        if planned.kind == ROWS:
            made = Delivered(planned, self._rows(flight), sorted(flight.broken, key=lambda b: b[0]))
            self.failed = None
            return made
        if flight.result is None:
            assert flight.room is not None
            try:
                flight.result, size = transport.fetch(flight.room)
            except Exception as e:
                raise transport.unpack_error(transport.pack_error(e, "in the process that trains")) from None
            self._make_room(size)
        self.failed = None
        value, broken = flight.result[:2]
        notes = [(row, _plain(planned.indices[row]), other, reason) for row, other, reason in broken]
        self.stats["broken"] += len(notes)
        state = None
        if planned.kind == ITER:
            state = flight.result[2]
        return Delivered(planned, value, notes, state)

    def _rows(self, flight: _Flight) -> Any:
        rows = flight.planned.rows
        gone = {row for row, _, other, _ in flight.broken if other is None}
        if not flight.odd and not gone:
            core = self.layouts[flight.layout - 1][1]
            self.differing = 0
            if core.n_texts:
                self.text_bytes = max(self.text_bytes, _TEXT_SLACK * core.asked(flight.slots) / rows)
            return core.batch(flight.slots, rows, self.dlpack, flight.elsewhere)
        if len(gone) == rows:
            raise RuntimeError(f"no row of the batch is left; the first error: {flight.broken[0][3]}")
        self.stats["odd_batches"] += 1
        self.differing += bool(flight.odd)
        if self.differing >= 2:
            self.direct = False  # samples differ from batch to batch: workers collate whole batches
        return self.collate([self._sample(flight, row) for row in range(rows) if row not in gone])

    def _sample(self, flight: _Flight, row: int) -> Any:
        if row in flight.odd:
            return flight.odd[row]
        spec, core = self.layouts[flight.layout - 1]
        arrays = transport.arrays_of(spec, flight.slots, flight.planned.rows)
        return transport.rebuild(spec, arrays, row, core.texts(flight.slots, row, flight.elsewhere))

    # ---- the end -------------------------------------------------------------------------------------------------

    def _reap(self) -> None:
        for flight in list(self.zombies):
            if self.board.complete(flight.serial):
                self.zombies.remove(flight)
                self.flights.pop(flight.serial, None)
                self.board.retire(flight.serial)

    def restart(self, plan: Iterator[Planned]) -> None:
        """Cancels the batches in flight, those of streams when they are made, and continues with another plan."""
        if self.job.iterable:
            self._make_the_rest()
        for flight in self.order:
            flight.cancelled = True
            self.board.cancel(flight.serial)
            self.zombies.append(flight)
        self.order.clear()
        self._reap()
        self.read.clear()
        self.busy.clear()
        self.plan, self.plan_error, self.exhausted = plan, None, False
        self.produced.clear()
        self.left = {
            worker: {**state, "begin": True, "left": True}
            for worker, (state, _) in self.states.items()
            if worker not in self.end_states and state is not None and "dataset" in state
        }
        self.states.clear()
        self.ended.clear()
        self.delivered_ends.clear()
        self.end_states = {}
        while len(self.zombies) > self.pool.n:  # one per worker can still be running
            self.pool.look(_SLICE_MS)
            self._reap()
        self._read(self.distance)

    def _make_the_rest(self) -> None:
        """Has workers make the batches read ahead, and drops them, as PyTorch does: a data set that is its own iterator
        goes on behind that.
        """
        while self.read or self.order:
            while self.order and self.board.complete(self.order[0].serial):
                self._retire(self.order[0])
            try:
                while self.read and self._may_publish():
                    self._publish(self.read[0])
                    self.read.popleft()
            except HeldError:
                return
            if self.order:
                self.pool.look(_SLICE_MS)
                self._look_for_hangs()

    def give_back(self) -> bool:
        """Gives up the batches in flight behind the first, but of streams, which go on: they are published again as the
        consumer asks. Whether there were any.
        """
        given = False
        if self.closed or os.getpid() != self.pool.pid:
            return False
        with self.pool.lock:
            while len(self.order) > 1 and self.order[-1].planned.kind != ITER:
                flight = self.order.pop()
                flight.cancelled = given = True
                self.board.cancel(flight.serial)
                self.zombies.append(flight)
                self.read.appendleft(flight.planned)
            self._reap()
        return given

    def close(self) -> None:
        """Leaves the pool, whose workers take nothing more from this feed. Batches go at once, but those that a worker
        is at work on.
        """
        if self.closed or os.getpid() != self.pool.pid:  # in a forked child the board is the parent's
            return
        self.closed = True
        feeds.discard(self)
        with self.pool.lock:
            self.board.close()
            running = [flight for flight in self.flights.values() if not self.board.cancel(flight.serial)]
            self.flights, self.order, self.zombies = {}, deque(), []
            self.pool.leave(self.board.offset, (self.board, running))


def _plain(index: Any) -> Any:
    return index.item() if isinstance(index, np.generic) else index


def _view(slot: _leat.Slot, size: int) -> np.ndarray[Any, Any]:
    memory: Any = slot.memory(0, size)
    return np.frombuffer(memory, np.uint8)


def _from_dlpack() -> Callable[[Any], Any]:
    torch = sys.modules.get("torch")
    if torch is None:  # of whole batches alone, which have none of its tensors
        return np.from_dlpack
    found: Callable[[Any], Any] = getattr(torch._C, "_from_dlpack", None) or torch.utils.dlpack.from_dlpack
    return found
