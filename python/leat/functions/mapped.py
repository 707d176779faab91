"""Batches on their way through Python functions: the second stage of a loader whose program has :class:`leat.ops.Map`.

    engine (threads)          this stage                                        consumer
    plan, read, decode  -->   pulled ahead, in order -> phases in workers  -->  delivered, in order
                              (a bounded number)        slots of shared memory

The engine stays what decides: order, ranks, tail, window, errors of what it reads. Its memory is shared (region 1), so that workers
read the rows of its batches where they lie, and write results straight into slots (mapwork.py). Each phase of a batch is
one entry of a board; when it is complete, the next one is published (phases.py). Nothing here has a thread: whoever asks for the next batch
pulls, publishes, takes messages and looks after the workers, as in workers/feed.py.

What the loader says of its position is that of the last batch *delivered*: the engine's state is noted as each batch is pulled.
Where an epoch has been pulled to its end, the next one is begun in the engine, so that workers need not wait for the consumer to ask
for it; what was begun so is given up where the consumer goes elsewhere.
"""

from __future__ import annotations

import json
import logging
import os
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import _leat
from ..errors import ClosedError, ForkedError, HeldError
from ..loading.batch import Batch, Form
from ..loading.ragged import Ragged
from ..workers import transport
from ..workers.loop import now
from ..workers.pool import Pool
from .mapping import Mapped, Program, is_dense, row_bytes, sides, stored_dtype
from .phases import WINDOW, Phases, Work, let_go
from .running import dense

_SLICE_MS = 50
_SHORT_MS = 2  # while further batches may become ready in the engine


class Stage(Phases):
    """The second stage of one loader.

    Args:
        core ... weight: as of :class:`leat.functions.phases.Phases`.
        report: a file to which rows that functions refused are appended, in the words of the engine's own report.
        epochs: how many will be asked for; None: it is not known. 0: the next epoch is not begun ahead.
    """

    def __init__(
        self, core: _leat.Loader, program: Program, native: dict[str, str], names: list[str], form: Form, workers: int, weight: float,
        epochs: int | None,
        report: str | os.PathLike[str] | None,
    ) -> None:  # fmt: skip
        super().__init__(core, program, native, names, form, workers, weight)
        self.epochs, self.report = epochs, report
        self.lock = threading.RLock()
        self.number = -1  #: of the consumer's iteration
        self.pulling = -1  #: of the engine's: another one where the next epoch has been begun
        self.epoch_now = self.epoch_ahead = 0
        self.finished = False  #: the consumer was told that its epoch is over
        self.given_up: int | None = None  #: the epoch that is to come, where the engine had begun another one
        self.begun = ""  #: the engine's state where it had begun the next epoch
        self.over = False  #: the consumer's epoch has no further batch
        self.ended = self.closed = False  #: ended: `pulling` is at its end
        self.delivered = ""  #: the engine's state behind the batch that was delivered last, where others are in flight
        self.pending: BaseException | None = None  #: of the engine, once those before it are delivered
        self.out: list[_leat.Slot] = []  #: of batches that were delivered
        self.held = 0
        self.broken = {"skipped": 0, "substituted": 0, "raised": 0}
        self.tensor = form.tensor
        self.layouts: dict[int, _leat.Layout] = {}

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
                self.delivered, self.epoch_now = self.begun, self.epoch_ahead
            else:
                self._drop(self.pulling)
                self.pending = None
                self.pulling = self.core.start()
                self.epoch_now = self.core.epoch()
                self.ended = False
            self.number = self.pulling
            self.given_up, self.over, self.finished = None, False, False
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
            self.ended, self.pending, self.given_up, self.over, self.finished = False, None, None, False, False

    def decide(self, decision: Callable[[], None]) -> int | None:
        """A decision that holds from the batch delivered last on: those in flight are made again.

        Returns the number under which the running iteration goes on; None: it is at its end, or there is none.
        """
        with self.lock:
            within = self.number >= 0 and not self.over
            self.core.load_state(self.state())
            self.reset()
            try:
                decision()
            finally:
                number = self.start() if within else None
            return number

    def set_epoch(self, epoch: int) -> bool:
        """As of the engine: whether a loaded position was dropped."""
        with self.lock:
            if self.ahead:
                if self.epoch_ahead == epoch:
                    return False
                self._drop(self.pulling)
                self.pulling, self.ended, self.pending, self.given_up = self.number, True, None, epoch
            elif self.given_up is not None:
                self.given_up = epoch
            return self.core.set_epoch(epoch)

    def epoch(self) -> int:
        """The one that is being iterated, or that begins next."""
        with self.lock:
            if self.number >= 0 and not self.finished:
                return self.epoch_now
            next_one = self.epoch_ahead if self.ahead else self.core.epoch()
            return next_one if self.given_up is None else self.given_up

    def _begin_ahead(self) -> None:
        """The engine's epoch has been pulled to its end: the next one, unless nobody will ask for it."""
        if self.ahead or (self.epochs is not None and self.epoch_now + 1 >= self.epochs):
            self.ended = True
        else:
            self.pulling = self.core.start()
            self.epoch_ahead = self.core.epoch()
            self.begun = self.core.state()

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
            let_go(pool)

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
        if self.ended or self.pending is not None or n >= WINDOW:
            return False
        return n < 2 or (self.held + self.held // n <= self.budget and self._may_publish(4 * self.program.n_phases))

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
        work = Work(found, self.core.state(), number)
        self._learn(found)
        self.queue.append(work)
        self.held += self._bytes(work)
        return True

    def _learn(self, core: _leat.Batch) -> None:
        if self.form.makers:
            return
        found = {name: self.form._maker(i, name, kind, dtype, ragged) for i, (name, kind, dtype, ragged) in enumerate(filter(None, core.outputs()))}
        self.program.sources.update({name: i for i, (name, *_) in enumerate(filter(None, core.outputs()))})
        self.form.makers = {name: found[self.native[name]] if name in self.native else _ready for name in self.names}
        memory = _memory_of(self.core)
        self.budget = max(1, min(memory["budget_bytes"], memory["max_held_bytes"] // 2))
        self.max_held = memory["max_held_bytes"]

    def _bytes(self, work: Work) -> int:
        """What a batch takes in flight: the larger of what the engine holds for it and what is made of it."""
        held: int = sum(np.asarray(work.core.memory(i)).nbytes for i in range(len(work.core.outputs())))
        made = sum(row_bytes(o.gives) * work.rows for o in self.program.outputs if is_dense(o.gives))
        work.bytes = max(held, made)
        return work.bytes

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
                again = Work(work.core, work.state, number)
                again.bytes = work.bytes
                self.queue[0] = work = again
            self._wait(pool, work)
            if work.error is None:
                self._check_held(work)
            batch = self._batch(work)
            self.queue.popleft()
            self.held -= work.bytes
            self.delivered = work.state or ""
            self.over = self._ends_epoch(work)
            self.stats["batches"] += 1
            self.stats["rows"] += work.rows
            self._book(work)
            return batch

    def _ends_epoch(self, work: Work) -> bool:
        """Whether an epoch has no batch behind this one: the engine's state is then at the beginning of the one that comes."""
        state = json.loads(self.delivered)
        at = state["at"]
        return bool(at["epoch"] != work.core.epoch() or (at["row"] == 0 and "received" not in state))

    def _book(self, work: Work) -> None:
        """Rows that functions refused, once their batch is delivered."""
        engine = {(row, planned, None if other < 0 else other) for row, planned, other, _ in work.core.errors()}
        mine = [error for error in sorted(work.errors) if error[:3] not in engine]
        self.stats["broken"] += len(mine)
        for row, planned, delivered, reason in mine:
            self.broken["skipped" if delivered is None else "substituted"] += 1
            self._line(work, row=row, planned=planned, delivered=delivered, code="LEAT_E_OPERATOR", reason=reason)

    def _line(self, work: Work, **told: Any) -> None:
        if self.report is None:
            return
        text = json.dumps({"epoch": work.core.epoch(), "step": work.core.step(), **told}) + "\n"
        try:
            with open(self.report, "a") as file:
                file.write(text)
        except OSError as e:  # the report is a by-product: the batch itself says the same
            logging.getLogger("leat").warning("a line of the error report could not be written (%s): %s", e, text)

    def _check_held(self, work: Work) -> None:
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
            work = Work(core, None, -1)
            self._wait(pool, work)
            return self._batch(work)

    def _here(self) -> None:
        if self.closed:
            raise ClosedError("the Loader is closed: open another one")
        if self.pool is not None and self.pool.pid != os.getpid():
            raise ForkedError("a Loader works only in the process that opened it: open one after the fork; the data set may be shared")

    def _wait(self, pool: Pool, work: Work) -> None:
        """Until a batch is ready, going on with the others."""
        begun = now()
        self.asked = True
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
            self.asked = False
            self.stats["wait_s"] += now() - begun

    def _pull_ready(self) -> None:
        while (self.queue or self.ahead) and self._may_pull() and self._pull(wait=False):
            pass

    def _end(self, pool: Pool) -> None:
        """The consumer's epoch is over. Workers get what is ready of the one that comes next."""
        self.over = self.finished = True
        self._pull_ready()
        with pool.lock:
            self._reap()
            for work in self.queue:
                self._advance(work)

    def _batch(self, work: Work) -> Batch:
        if work.error is None:
            work.phase = self.program.n_phases
            self._close_gaps(work)
        if work.error is not None:
            work.raised = True
            self.broken["raised"] += 1
            # It is not kept: its traceback refers to the loader, which would then live as long as this stage.
            error, work.error, work.first_error = work.error, None, None
            sample = getattr(error, "sample", None)
            if sample is not None:
                self._line(work, planned=sample, code="LEAT_E_OPERATOR", file=None, reason=str(error))
            try:
                raise error
            finally:
                del error
        self._deliverable(work)
        values: dict[str, Any] = dict(work.native or {})
        self.out += [slot for slot in work.values.values() if not isinstance(slot, dict)]
        for o, output in enumerate(self.program.outputs):
            values[output.name] = self._value(o, output, work.values[o], work.rows)
        small = self.form.small
        values[".ids"] = small(np.array(work.ids, np.int64))
        values[".row_keys"] = small(np.array(work.keys, np.uint64))
        values[".valid"] = work.valid
        from ..loading.batch import RowError

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


def _memory_of(core: _leat.Loader) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(core.stats())["memory"]
    return found
