"""Functions in a loader's program, seen from the process that trains.

    engine (threads)                    executor (C)              workers
    plan, read, decode, chains  ------> calls on a board  ------> functions, and native operators behind them
    policy, state, window, delivery <-- which are done            write into the engine's memory

The engine schedules calls as it schedules its own tasks, and the executor puts them on the board
(``_leat.Executor``). A thread here does the part that needs Python: it reads which rows failed in workers, keeps their
exceptions until the engine raises the error of such a row, and replaces dead workers. Mostly it waits.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar

from .. import _leat
from ..closing import finalize
from ..errors import Error
from ..functions.mapping import Program
from . import transport
from .loop import ERROR, FAILED, Job
from .pool import Client, Pool, shared, threads_wanted
from .running import RESULTS

_ENTRIES = 64  # calls on the board; more wait for a place
_MAX_UNITS = 256
_UNIT_NS = 500_000.0  # the aim for a unit of cheap rows
_SLICE_MS = 50
_KEPT = 4096  # exceptions of rows that failed
_SHOWN = 300  # bytes of a reason by which its exception is found again

T = TypeVar("T")


class Calls(Client):
    """A loader with functions, as a client of the workers that run them.

    Args:
        executor: the one that the loader was opened with; `core`: that loader, whose region is a memfd.
        program: the functions, as workers get them.
        workers: how many processes.
    """

    def __init__(
        self, executor: _leat.Executor, core: _leat.Loader, program: Program, workers: int, weight: float
    ) -> None:
        self.executor, self.program, self.n, self.weight = executor, program, workers, weight
        descriptor, self.size = core.region()
        self.descriptor = os.dup(descriptor)  # a worker may be started while the loader is being closed
        self.pool: Pool | None = None
        self.pid = os.getpid()
        self.lock = threading.Lock()
        for segment, unit, text in program.names():
            executor.name(segment, unit, _clean(text))
        self.kept: deque[tuple[int | None, int | None, str, Any]] = deque(
            maxlen=_KEPT
        )  # epoch, sample, reason, exception
        self.closed = False

    # ---- workers -------------------------------------------------------------------------------------------------

    def open(self) -> None:
        """Joins the workers, at first use."""
        with self.lock:
            if self.pool is not None or self.closed or self.pid != os.getpid():
                return
            pool = shared(("functions", self.n), self._workers)
            try:
                self._join(pool)
            except Exception:
                if not pool.jobs:
                    raise
                # The functions cannot be sent: workers of their own inherit them.
                pool = self._workers()
                pool.hold()
                self._join(pool)
            threading.Thread(target=self._attend, args=(pool,), daemon=True, name="leat-calls").start()

    def _workers(self) -> Pool:
        return Pool(None, self.n, self.n, None, None, 0, threads_wanted(None))

    def _join(self, pool: Pool) -> None:
        """Becomes a client of these workers, which are held for it."""
        with pool.lock:
            running = [i for i, handle in enumerate(pool.handles) if handle is not None]
            try:
                pool.join(self, Job(self.program), _ENTRIES, _MAX_UNITS, _UNIT_NS, self.weight)
                self.pool = pool
                for i in running:
                    self.on_start(i)
                pool.start()
            except BaseException:
                if self.pool is not None:
                    self.pool = None
                    pool.leave(self.board.offset, self.board)
                pool.let_go()
                raise
            self.executor.attach(self.board)  # before the death of a worker can be told

    def _attend(self, pool: Pool) -> None:
        failed = False
        while (event := self.executor.wait(pool.received_sum)) != 2:
            try:
                with pool.lock:
                    if pool.stopped:
                        self._fail("the workers were stopped", RuntimeError("the workers were stopped"))
                        self.executor.finish()
                        return
                    # A message is announced before it is sent: it is worth waiting for.
                    pool.look(_SLICE_MS if not event and pool.expects() else 0)
            except Exception as e:  # it waits for rows that other workers still compute
                if not failed:
                    self._fail(str(e), e)
                failed = True
                time.sleep(_SLICE_MS / 1000)

    def _fail(self, reason: str, error: Any) -> None:
        reason = _clean(reason)
        self.kept.append((None, None, _shown(reason), error))
        self.executor.fail(reason)

    # ---- reports of the pool -------------------------------------------------------------------------------------

    def on_start(self, worker: int) -> None:
        """A worker has been started, and is to map the loader's memory."""
        if self.pool is not None:
            self.pool.tell(worker, "region", self.board.offset, self.size, descriptor=self.descriptor)

    def on_message(
        self, worker: int, serial: int, unit: int, kind: int, data: Any, places: Any, fd: int | None
    ) -> None:
        """A worker has sent a message."""
        spent_ns = 0
        try:
            value = transport.decode(data, places, fd, None)
            if kind == FAILED:
                self._fail(value[1][2].splitlines()[0], value[1])
            elif kind == ERROR:
                self._refuse(serial, value[0], (None, None), value[1][2].splitlines()[0], value[1], False)
            elif kind == RESULTS:
                broken, results, values, spent_ns = value
                for row, place, reason, packed in broken:
                    self._refuse(serial, row, place, reason, packed, True)
                self.executor.results(serial, results, values)
        except Exception as e:  # its rows must not pass for good ones
            self._fail(f"what a worker of functions sent cannot be taken: {e}", e)
        finally:
            self.executor.received(serial, unit, spent_ns)

    def _refuse(
        self, serial: int, row: int, place: tuple[int | None, int | None], reason: str, packed: Any, broken: bool
    ) -> None:
        reason = _clean(reason)
        self.kept.append((*place, _shown(reason), packed))
        self.executor.row_failed(serial, row, broken, reason)

    def on_death(self, worker: int, exitcode: int | None) -> None:
        """A worker is dead: its units are queued again."""
        if self.pool is not None:
            self.executor.worker_died(worker)

    # ---- asking --------------------------------------------------------------------------------------------------

    def ask(self, function: Callable[..., T], epoch: Callable[[], int], *args: Any) -> T:
        """Calls a function of the engine's that makes batches of an epoch, and returns its result.

        Raises:
            Exception: that of a user's function, if it is the cause; else that of the engine.
        """
        if self.pid != os.getpid():  # the engine says so
            return function(*args)
        self.open()
        self.executor.ask(True)
        try:
            return function(*args)
        except Error as e:
            error = self._own(e, epoch())
            if error is None:
                raise
        finally:
            self.executor.ask(False)
        try:
            raise error
        finally:
            del error  # its traceback refers to this frame

    def _own(self, e: Error, now: int) -> BaseException | None:
        """The exception of a user's function that caused this error. None: the error itself is raised, if a substitute
        failed too with that exception as its cause.
        """
        text = str(e)
        matches = [
            (sample == e.sample, epoch == now, i)
            for i, (epoch, sample, reason, _) in enumerate(self.kept)
            if reason in text
        ]
        if not matches:
            return None
        found = self.kept[max(matches)[2]][3]
        error = found if isinstance(found, BaseException) else transport.unpack_error(found)
        if e.code == "LEAT_E_DECODE":  # no substitute is left
            e.__cause__ = error
            return None
        if e.sample is not None:
            error.sample, error.file = e.sample, e.file  # type: ignore[attr-defined]
            error.add_note(text)  # the sample's name and file
        return error

    # ---- the end -------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Leaves the workers. The loader is closed."""
        with self.lock:
            if self.closed:
                return
            self.closed = True
            pool = self.pool
        if self.pid != os.getpid():
            return
        self.executor.close()
        if pool is None:
            self.executor.finish()
        else:
            with pool.lock:  # until then workers may die, or be started, for this loader
                self.pool = None
                pool.leave(self.board.offset, _Rest(self.executor, self.board))
                pool.let_go()
        os.close(self.descriptor)

    def about(self, core: dict[str, Any]) -> dict[str, Any]:
        """For the loader's statistics; `core` is the engine's part of them."""
        work_ns, in_flight, rows = self.executor.stats()
        broken = core["broken"]["skipped"] + core["broken"]["substituted"]
        found = {
            "batches": core["batches"],
            "rows": core["samples"],
            "broken": broken,
            "called_rows": rows,
            "calls": in_flight,
            "wait_s": core["consumer_wait_s"],
            "work_s": work_ns / 1e9,
            "memory": core["memory"],
            "window": core["window"],
        }
        pool = self.pool
        return found if pool is None else found | {"workers": pool.n, "pids": pool.pids, "replaced": list(pool.events)}


class _Rest:
    """The memory of a closed loader that workers may still use."""

    def __init__(self, executor: _leat.Executor, board: _leat.Board) -> None:
        self.board = board
        finalize(self, executor.finish)


def _clean(reason: str) -> str:
    return reason.replace("\0", "\\0").encode("utf-8", "replace").decode()


def _shown(reason: str) -> str:
    return reason.encode()[:_SHOWN].decode(errors="ignore")
