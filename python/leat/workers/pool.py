"""Starting, watching, replacing and stopping worker processes.

A pool is a number of workers with one data set, and the boards of the loaders that they serve. It has no thread of its
own: waiting for a batch looks after the pool. A worker that dies is replaced under its number, and its units are queued
again (``feed.py``). Workers end with their parent, however that ends.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import multiprocessing
import multiprocessing.util
import os
import pickle
import select
import signal
import socket
import struct
import sys
import threading
import weakref
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from multiprocessing import reduction
from typing import Any

from .. import _leat
from . import loop
from .loop import HEADER, LEFT, Job, Start, dumps_with, receive

log = logging.getLogger("leat")
_EXIT_PATIENCE_S = 5.0


class Client(ABC):
    """A loader, as the pool knows it: the board that the workers serve. The pool calls it under its lock."""

    board: _leat.Board

    @abstractmethod
    def on_message(
        self, worker: int, serial: int, unit: int, kind: int, data: Any, places: Any, fd: int | None
    ) -> None:
        """A worker has sent a message."""

    @abstractmethod
    def on_death(self, worker: int, exitcode: int | None) -> None:
        """A worker is dead: its units are to be queued again."""

    def on_start(self, worker: int) -> None:  # noqa: B027 - not every client cares
        """A worker has been started, with all jobs of the pool."""

    def resume_of(self, worker: int) -> Any:
        """The place from which a new worker continues with an iterable data set."""
        return None


class _Handle:
    """One worker: its process (or thread), its socket, and the descriptor that says when it has died."""

    __slots__ = ("pidfd", "process", "sock", "unsent")

    def __init__(self, process: Any, sock: socket.socket, pidfd: int | None) -> None:
        self.process, self.sock, self.pidfd = process, sock, pidfd
        self.unsent: deque[tuple[memoryview, int | None]] = deque()  # to the worker, with descriptors of ours

    def forget(self) -> None:
        """Sends nothing more."""
        while self.unsent:
            _, descriptor = self.unsent.popleft()
            if descriptor is not None:
                os.close(descriptor)

    def close(self) -> None:
        self.forget()
        with contextlib.suppress(OSError):
            self.sock.close()
        if self.pidfd is not None:
            with contextlib.suppress(OSError):
                os.close(self.pidfd)
            self.pidfd = None


def _preload() -> None:
    """Makes the fork server, if it does not run yet, load the modules that every worker needs once."""
    from multiprocessing import forkserver

    server = forkserver._forkserver
    if getattr(server, "_forkserver_pid", 0) is None and getattr(server, "_preload_modules", None) == ["__main__"]:
        server.set_forkserver_preload(["__main__", "torch.utils.data", "leat.workers.loop"])


def threads_wanted(context: Any) -> bool:
    """Whether workers are threads: on an interpreter without the GIL, unless processes are requested."""
    free = getattr(sys, "_is_gil_enabled", None)
    return context is None and free is not None and not free()


class Pool:
    """Workers with one data set.

    Args:
        n: the number at the start; `room`: the largest number.
        context: of multiprocessing; None: the default start method.
        threads: workers are threads of this process.
    """

    def __init__(
        self,
        dataset: Any,
        n: int,
        room: int,
        context: Any,
        init: Callable[[int], Any] | None,
        base_seed: int,
        threads: bool,
    ) -> None:
        if isinstance(context, str):
            context = multiprocessing.get_context(context)
        self.dataset, self.context, self.init, self.base_seed, self.threads = (
            dataset,
            context or multiprocessing,
            init,
            base_seed,
            threads,
        )
        self.core = _leat.Pool(room)
        self.core.resize(n)
        self.room = room
        self.n = n
        self.handles: list[_Handle | None] = [None] * room
        self.clients: dict[int, Client] = {}
        self.jobs: dict[int, Job] = {}
        self.layouts: list[tuple[int, int, Any]] = []
        self.pid = os.getpid()
        self.lock = threading.RLock()
        self.events: list[dict[str, Any]] = []
        self.idle_deaths = [0] * room  # in a row, of workers that had not taken a unit since they were started
        self.units_before = [0] * room  # what workers of that number had taken when it was started
        self.received = [0] * room  # messages of each worker
        self.received_sum = 0
        self.stuck: set[int] = set()  # messages that workers have not read yet
        self.poll = select.poll()
        self.by_fd: dict[int, tuple[int, bool]] = {}
        self.stopped = False
        self.broken = False  # interrupted in the middle of a message
        self.superfluous: set[int] = set()  # workers that were stopped because there are too many
        self.users = 0
        self.killed: set[int] = set()  # by us
        # finished boards: workers that may still use them; what to keep until then
        self.leaving: dict[int, tuple[set[int], Any]] = {}
        _live.add(self)

    # ---- starting ------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Starts the missing workers."""
        for i in range(self.n):
            if self.handles[i] is None:
                self._start(i)

    def _start(self, i: int) -> None:
        ours, theirs = socket.socketpair()
        for sock in (ours, theirs):
            with contextlib.suppress(OSError):
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
        # A worker that was not forked maps the memory by its descriptor.
        method = "thread" if self.threads else self.context.get_start_method()
        memory = None if method in ("fork", "thread") else reduction.DupFd  # made below, while the process starts
        if method == "forkserver":
            _preload()
        start = Start(
            worker=i, n_workers=self.n, pool=self.core.offset, sock=theirs, memory=None,
            parent=0 if self.threads else os.getpid(),
            jobs=dict(self.jobs), init=self.init, base_seed=self.base_seed, dataset=self.dataset,
            layouts=list(self.layouts),
            resume={board: client.resume_of(i) for board, client in self.clients.items()},
        )  # fmt: skip
        process: Any
        if self.threads:
            process = threading.Thread(target=loop.main, args=(start,), daemon=True, name=f"leat-worker-{i}")
        elif memory is None:
            process = self.context.Process(
                target=_run_forked, args=(start, [h.sock for h in self.handles if h] + [ours]), daemon=True
            )
        else:
            process = self.context.Process(target=loop.main, args=(_Late(start),), daemon=True)
        self.units_before[i] = self.core.worker(i)[3]
        try:
            process.start()
        except (TypeError, AttributeError, pickle.PicklingError) as e:
            ours.close()
            theirs.close()
            e.add_note(
                "leat: with this start method the data set, collate_fn, worker_init_fn and functions of leat.ops.Map "
                "are pickled for the "
                "workers; with the start method 'fork' they need not be"
            )
            raise
        except BaseException as e:
            ours.close()
            theirs.close()
            if isinstance(e, OSError) and e.errno == errno.EAGAIN:
                e.add_note(
                    "leat: a worker is a process: take fewer workers, or raise the limit of processes (ulimit -u, "
                    "or the container's)"
                )
            raise
        if not self.threads:
            theirs.close()
        handle = _Handle(process, ours, None if self.threads else loop.watched(process.pid, process))
        self.handles[i] = handle
        self.poll.register(ours.fileno(), select.POLLIN)
        self.by_fd[ours.fileno()] = (i, False)
        if handle.pidfd is not None:
            self.poll.register(handle.pidfd, select.POLLIN)
            self.by_fd[handle.pidfd] = (i, True)
        for client in list(self.clients.values()):
            client.on_start(i)

    def _drop(self, i: int) -> Any:
        """Drops a worker and returns its process."""
        handle = self.handles[i]
        assert handle is not None
        for fd in (handle.sock.fileno(), handle.pidfd):
            if fd is not None and fd in self.by_fd:
                self.poll.unregister(fd)
                del self.by_fd[fd]
        handle.close()
        self.stuck.discard(i)
        self.handles[i] = None
        return handle.process

    @property
    def processes(self) -> list[Any]:
        """The workers that run, by number: Process objects, or Threads."""
        return [h.process for h in self.handles if h is not None]

    @property
    def pids(self) -> list[int]:
        """For the workers that run."""
        return [] if self.threads else [process.pid for process in self.processes]

    # ---- loaders -------------------------------------------------------------------------------------------------

    def join(self, client: Client, job: Job, entries: int, units: int, unit_ns: float, weight: float) -> None:
        """Gives a loader a board, which the workers serve from now on. Those that run are sent the job.

        Args:
            entries: batches in flight at most; `units`: of a batch at most; `unit_ns`: what each should take.
        """
        client.board = _leat.Board(self.core, entries, units, unit_ns, weight)
        served = [other.board.served_ns() for other in self.clients.values()]
        if served:
            client.board.start_at(min(served))
        board = client.board.offset
        running = [i for i, h in enumerate(self.handles) if h is not None]
        if running:
            data = dumps_with(job, self.dataset)  # before anything is changed: it may not be possible
            for i in running:
                self.tell(i, "job", board, data, client.resume_of(i))
        self.clients[board] = client
        self.jobs[board] = job

    def leave(self, board: int, memory: Any) -> None:
        """Ends a board. `memory`: the memory that workers may still write to; it is kept until each has left the
        board."""
        if self.clients.pop(board, None) is None:
            return
        self.jobs.pop(board, None)
        self.layouts = [entry for entry in self.layouts if entry[0] != board]
        running = {i for i, handle in enumerate(self.handles) if handle is not None}
        if running:
            self.leaving[board] = (running, memory)
        for i in list(running):
            self.tell(i, "leave", board)

    def _has_left(self, i: int, board: int) -> None:
        running, _ = self.leaving.get(board, (set(), None))
        running.discard(i)
        if not running:
            self.leaving.pop(board, None)

    def layout(self, board: int, number: int, spec: Any) -> None:
        """Sends the workers the layout of a board's rows."""
        self.layouts.append((board, number, spec))
        for i, handle in enumerate(self.handles):
            if handle is not None:
                self.tell(i, "layout", board, number, spec)

    def tell(self, i: int, *what: Any, descriptor: int | None = None) -> None:
        """Sends an order to a worker, and a descriptor with it; one that is dead is noticed elsewhere."""
        handle = self.handles[i]
        data = pickle.dumps(what)
        if handle is not None:
            with self.lock:
                handle.unsent.append((memoryview(struct.pack("<Q", len(data)) + data), None))
                if descriptor is not None:
                    handle.unsent.append((memoryview(b"\0"), os.dup(descriptor)))
                self._send(i)
        self.core.wake()

    def _send(self, i: int) -> None:
        """Sends the messages that a worker has room for: it may itself be waiting for this process to read."""
        handle = self.handles[i]
        if handle is None:
            return
        try:
            while handle.unsent:
                data, descriptor = handle.unsent[0]
                rights = (
                    [] if descriptor is None else [(socket.SOL_SOCKET, socket.SCM_RIGHTS, struct.pack("i", descriptor))]
                )
                n = handle.sock.sendmsg([data], rights, socket.MSG_DONTWAIT)
                handle.unsent.popleft()
                if descriptor is not None:
                    os.close(descriptor)
                if n < len(data):
                    handle.unsent.appendleft((data[n:], None))
        except BlockingIOError:
            pass
        except OSError:
            handle.forget()  # it is dead
        except BaseException:  # Ctrl-C: it is not known how much was sent
            self.broken = True
            raise
        if bool(handle.unsent) != (i in self.stuck):
            self.stuck ^= {i}
            self.poll.modify(handle.sock.fileno(), select.POLLIN | (select.POLLOUT if handle.unsent else 0))

    # ---- watching ------------------------------------------------------------------------------------------------

    def look(self, patience_ms: int = 0) -> None:
        """Takes the messages of workers, and replaces those that have died."""
        with self.lock:
            self.check()
            found = self.poll.poll(patience_ms)
            try:
                self._serve(found)
            except Exception:
                raise
            except BaseException:  # Ctrl-C: a message may have been read in part
                self.broken = True
                raise

    def _serve(self, found: list[tuple[int, int]]) -> None:
        dead = []
        for fd, events in found:
            i, is_pidfd = self.by_fd.get(fd, (-1, False))
            if i < 0:
                continue
            if is_pidfd:
                dead.append(i)
                continue
            if events & select.POLLOUT:
                self._send(i)
            if events & ~select.POLLOUT:
                self._read(i)
        for i in dead:
            self._bury(i)
        if not self.stopped and self.jobs and None in self.handles[: self.n]:
            self.start()  # one that could not be replaced when it died

    def check(self) -> None:
        """Raises a RuntimeError if a message to or from workers was cut off."""
        if self.broken:
            raise RuntimeError(
                "the process was interrupted while it spoke with workers of this loader: what they sent is lost; "
                "iterate anew"
            )

    def _read(self, i: int) -> bool:
        """One message of a worker. False: it has closed its end."""
        handle = self.handles[i]
        if handle is None:
            return False
        fds: list[int] = []
        try:
            mark, fds, _, _ = socket.recv_fds(handle.sock, 1, 1)
            if not mark:
                return False
            board, serial, unit, kind, size, n = HEADER.unpack(receive(handle.sock, HEADER.size))
            data = receive(handle.sock, size)
        except (EOFError, OSError):
            for unused in fds:
                os.close(unused)
            return False
        self._count(i, 1)
        fd = fds[0] if fds else None
        places: Any = []
        if n:
            data, places = pickle.loads(data)
        client = self.clients.get(board)
        if kind == LEFT:
            self._has_left(i, board)
        elif client is not None:
            client.on_message(i, serial, unit, kind, data, places, fd)
        elif fd is not None:
            os.close(fd)
        return True

    def _count(self, i: int, n: int) -> None:
        self.received[i] = (self.received[i] + n) & 0xFFFFFFFF
        self.received_sum = (self.received_sum + n) & 0xFFFFFFFF

    def expects(self) -> bool:
        """Whether a worker has announced a message that has not come yet."""
        return self.core.messages() != self.received_sum

    def _bury(self, i: int) -> None:
        handle = self.handles[i]
        if handle is None:
            return
        handle.sock.setblocking(False)
        while self._read(i):  # the messages that it had sent before it died
            pass
        process = self._drop(i)
        process.join()
        _, serial, row, units, announced = self.core.worker(i)
        self._count(i, announced - self.received[i])  # the one that it could not send any more
        for board in list(self.leaving):
            self._has_left(i, board)
        exitcode = process.exitcode
        asked = i in self.superfluous and exitcode == 0
        self.superfluous.discard(i)
        self.idle_deaths[i] = 0 if asked or units != self.units_before[i] else self.idle_deaths[i] + 1
        if not asked:
            self.events.append({"worker": i, "pid": process.pid, "exitcode": exitcode, "serial": serial, "row": row})
        if self.stopped:
            return
        for client in list(self.clients.values()):
            client.on_death(i, exitcode)
        self.core.forget(i)
        if i >= self.n:
            return  # it was surplus
        if self.idle_deaths[i] >= 3:
            raise RuntimeError(
                f"DataLoader worker (pid(s) {process.pid}) exited unexpectedly: worker {i} ended three times before "
                "it had any work, "
                f"the last time with {describe_exit(exitcode)}"
            )
        if not asked:
            how = (
                "was ended: a sample took longer than sample_timeout_s"
                if process.pid in self.killed
                else f"ended with {describe_exit(exitcode)}"
            )
            self.killed.discard(process.pid)
            log.warning("worker %d (pid %d) %s; it is replaced", i, process.pid, how)
        self._start(i)

    def kill(self, i: int) -> None:
        """Kills a worker that hangs; it is replaced when its end is noticed."""
        handle = self.handles[i]
        if handle is not None and not self.threads:
            self.killed.add(handle.process.pid)
            with contextlib.suppress(OSError):
                os.kill(handle.process.pid, signal.SIGKILL)

    def resize(self, n: int) -> None:
        """Starts or ends workers until there are `n`."""
        with self.lock:
            before, self.n = self.n, max(1, min(n, self.room))
            self.core.resize(self.n)
            for i in range(self.n, before):
                self.superfluous.add(i)
                self.tell(i, "stop")
            self.start()

    def hold(self) -> bool:
        """Counts a loader that uses the workers. False: they have ended."""
        with self.lock:
            if self.stopped:
                return False
            self.users += 1
            return True

    def let_go(self) -> None:
        """One loader less; with the last one the workers end."""
        with self.lock:
            self.users -= 1
            if self.users <= 0:
                self.stop()

    # ---- the end -------------------------------------------------------------------------------------------------

    def stop(self) -> None:
        """Ends the workers, which first finish their current work, within limits."""
        if self.pid != os.getpid():
            return  # in a forked child, where another thread may have had the lock
        with self.lock:
            if self.stopped:
                return
            self.stopped = True
            _live.discard(self)
            live = [i for i, h in enumerate(self.handles) if h is not None]
            deadline = loop.now() + _EXIT_PATIENCE_S
            try:
                for i in live:
                    handle = self.handles[i]
                    assert handle is not None
                    if not self.broken:
                        self.tell(i, "stop")
                    with contextlib.suppress(OSError):
                        handle.sock.shutdown(socket.SHUT_WR)
                for i in live:
                    self._end(i, deadline)
            except BaseException:  # a second Ctrl-C: they end at once
                for i in live:
                    self.kill(i)
                    self._end(i, deadline)
                raise
            self.leaving.clear()
            _leat.share_trim(_leat.memory_allowed() // 16)  # keeps the memory that the next pool writes to at once

    def _end(self, i: int, deadline: float) -> None:
        handle = self.handles[i]
        if handle is None:
            return
        waiting = select.poll()
        waiting.register(handle.sock.fileno(), select.POLLIN)
        if handle.pidfd is not None:
            waiting.register(handle.pidfd, select.POLLIN)
        while loop.now() < deadline:
            found = {fd for fd, _ in waiting.poll(100)}
            if (handle.pidfd in found) if handle.pidfd is not None else not handle.process.is_alive():
                break
            if handle.sock.fileno() in found:
                try:
                    if not handle.sock.recv(1 << 16):  # not wanted any more, but the worker must not wait for us
                        waiting.unregister(handle.sock.fileno())
                except OSError:
                    break
        else:
            self.kill(i)
        process = self._drop(i)
        process.join(_EXIT_PATIENCE_S if self.threads else None)

    def _left(self) -> None:
        try:  # noqa: SIM105 (while the interpreter ends, contextlib may be gone already)
            self.stop()
        except Exception:
            pass

    __del__ = _leat.left()


class _Late:
    """A Start that is pickled while its process starts: only then can descriptors go along."""

    def __init__(self, start: Start) -> None:
        self.start = start

    def __reduce__(self) -> tuple[Any, ...]:
        self.start.memory = reduction.DupFd(_leat.share_descriptor())
        return pickle.loads, (dumps_with(self.start, None, starting=True),)


def _run_forked(start: Start, foreign: list[socket.socket]) -> None:
    """A forked worker has its siblings' sockets and ours: it must not keep them open."""
    for sock in foreign:
        sock.close()
    loop.main(start)


def describe_exit(code: int | None) -> str:
    """An exit code in words."""
    if code is not None and code < 0:
        with contextlib.suppress(ValueError):
            hint = " (out of memory, or ended by someone)" if code == -signal.SIGKILL else ""
            return f"signal {signal.Signals(-code).name}{hint}"
    return f"exit code {code}"


_live: weakref.WeakSet[Pool] = weakref.WeakSet()
_shared: dict[Any, weakref.ref[Pool]] = {}


def shared(key: tuple[Any, ...], make: Callable[[], Pool]) -> Pool:
    """The workers that loaders with this key have in common, held for one more of them. They are made if there are
    none, if they have ended, or if they were interrupted.
    """
    key = (os.getpid(), *key)
    found = _shared[key]() if key in _shared else None
    if found is None or found.broken or not found.hold():
        found = make()
        found.hold()
        _shared[key] = weakref.ref(found, lambda _: _shared.pop(key, None))
    return found


def _stop_all() -> None:
    for pool in list(_live):
        with contextlib.suppress(Exception):
            pool.stop()


# Before multiprocessing's own handler, which would wait for daemonic processes to end by themselves.
import atexit  # noqa: E402

multiprocessing.util.Finalize(None, _stop_all, exitpriority=100)
atexit.register(_stop_all)
