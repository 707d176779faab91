"""The process group that loaders take their ranks from, and the thread that asks its store, so that no ``next()`` does.

    iterating thread                 the thread                               the store
    facts of a step   -- queue -->   compares them with other ranks'    <-->
                                     meets the ranks of this start      <-->
    next() looks      <-- a mark     hears of differences               <--
                                     leaves signs of life, and looks    <-->
                                     for those of another rank

One thread serves all loaders of the group. It ends with the last of them, once no other rank has yet to meet this one,
with the group, or with the process.
"""

from __future__ import annotations

import contextlib
import logging
import math
import multiprocessing.util
import os
import threading
import time
import weakref
from collections import deque
from queue import Empty, SimpleQueue
from typing import Any, ClassVar, Protocol

from ..ranks import distributed
from .differences import Difference
from .exchange import Exchange, Opened, Put, connected
from .meeting import Meeting

log = logging.getLogger("leat")

LOOK_S = 1.0  #: at most, between two looks for news: those of a difference stop all ranks
SETTLE_S = 0.3  #: for what other ranks find, so that an error names the one that differs from all others
BEAT_S = 5.0  #: at most, between two signs of life
SILENT_S = 60.0  #: a rank is silent from then on, if LEAT_SILENT_S does not say otherwise
CLOSED = 4  #: loaders of which a rank that has closed all tells where it has left them
PACE = 16  #: comparisons in a second, before every second one is left out; behind as many more three of four, ...
MEET_S = 0.1  #: between two looks for ranks of the same start, at first: most come soon
WAITING = 1000  #: tasks that wait for the thread, before values are left out: it may have met no other rank
EXIT_S = 1.0  #: for the last words of a process that ends


class Member(Protocol):
    """A loader of the group."""

    @property
    def at(self) -> tuple[int, int] | None: ...  #: epoch and step that were handed out last

    @property
    def is_open(self) -> bool: ...
    def hear(self, found: list[Difference]) -> None:
        """All differences so far."""


class Group:
    """One process group, in this process."""

    _now: ClassVar[Group | None] = None
    _running: ClassVar[set[Group]] = set()
    _groups: ClassVar[int] = 0  # that there have been: a store may outlive its group

    @classmethod
    def joined(cls) -> Group | None:
        """The one that is initialised now. None: there is none, it is of one rank, or it has no store."""
        dist = distributed()
        world = None if dist is None else dist.group.WORLD
        if world is None:
            return None
        if cls._now is None or cls._now._of() is not world:
            cls._groups += 1
            cls._now = cls(dist, world, cls._groups)
        return None if cls._now._store is None else cls._now

    def __init__(self, dist: Any, world: Any, number: int) -> None:
        self._dist, self._number = dist, number
        self._rank, self._size = dist.get_rank(), dist.get_world_size()  # the thread may begin behind the group's end
        self._store = _store_of(dist)
        self._of = weakref.ref(world, lambda _: self._end())
        self.opened = 0  #: loaders so far
        self._all_open = True  # whether each rank has to open them
        self._limit = silent_after()
        self._beats = min(BEAT_S, self._limit / 12)
        self._process = os.getpid()  # in a forked child the connection is the parent's, and there is no thread
        self._lock = threading.Lock()  # of the thread's beginning and end; nobody asks the store under it
        self._thread: threading.Thread | None = None
        self._ending = False
        self._tasks: SimpleQueue[Opened | Put | None] = SimpleQueue()
        self._members: dict[int, Member] = {}
        self._closed: deque[tuple[int, tuple[int, int] | None]] = deque(maxlen=CLOSED)
        self._meeting: Meeting | None = None
        self._begun = 0.0  # the thread, first
        self._exchange: Exchange | None = None
        self._next_beat = 0.0
        self._settled = 0.0  # when members hear of what was found; 0: they have
        self._second, self._puts = 0.0, 0  # comparisons since then
        self._asking: float | None = None  # since then
        self._lost: str | None = None
        self._complained = False
        multiprocessing.util.Finalize(None, Group.leave, exitpriority=10)  # atexit runs nothing in its processes

    # ---- in the threads that open and iterate loaders ----------------------------------------------------------------

    def add(self, member: Member, reads: str, fingerprint: str, all_open: bool) -> int:
        """Adds a loader that was opened; returns its number."""
        self.opened += 1
        self._all_open &= all_open
        self._members[self.opened] = member
        self.put(Opened(self.opened, reads, fingerprint))
        return self.opened

    def has_time(self, number: int) -> bool:
        """Whether ranks compare at the place of this number. If many come in a second, as of epochs that take a
        millisecond, all ranks keep to the same ones: multiples of powers of two.
        """
        if (now := time.monotonic()) - self._second >= 1:
            self._second, self._puts = now, 0
        has = number % (1 << min(self._puts // PACE, 60)) == 0
        self._puts += has
        return has

    def put(self, task: Opened | Put) -> None:
        """Hands a task to the thread. It returns at once, and raises nothing."""
        if self._process != os.getpid():
            return
        self._complain()
        with self._lock:
            if self._ending or self._lost is not None:
                return
            if isinstance(task, Put) and self._tasks.qsize() >= WAITING:
                return
            self._tasks.put(task)
            if self._thread is None:
                self._running.add(self)
                self._thread = threading.Thread(target=self._run, name="leat ranks", daemon=True)
                self._thread.start()

    def _complain(self) -> None:
        """Says once that ranks no longer compare."""
        asking, said = self._asking, self._lost
        if said is None and asking is not None and (seconds := time.monotonic() - asking) >= self._limit:
            said = f"it has not answered for {seconds:.0f} s"
        if said is not None and not self._complained:
            self._complained = True
            log.warning("ranks no longer compare what they load, in the store of the process group: %s", said)

    def _end(self) -> None:
        self._ending = True
        self._tasks.put(None)

    @classmethod
    def leave(cls) -> None:
        """This process ends: the threads do, while the interpreter may still be entered."""
        running = [(group, group._thread) for group in list(cls._running) if group._process == os.getpid()]
        for group, _ in running:
            group._end()
        for _, thread in running:
            if thread is not None:
                thread.join(EXIT_S)

    # ---- in the thread -----------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            self._asking = time.monotonic()
            if self._exchange is None:
                self._exchange = self._met()
            while self._exchange is not None and not self._has_ended(self._exchange):
                self._turn(self._exchange, self._taken())
            if self._exchange is None:
                self._stop()
        except Exception as e:
            with self._lock:
                self._lost = f"{type(e).__name__}: {str(e).partition(chr(10))[0]:.200}"
                self._stop()

    def _met(self) -> Exchange | None:
        """Meets the ranks that have started with this one. None: it has ended before, and has no last words.

        A rank that leads may open no loader in this start, so that the others wait for it: they say so once.
        """
        prefix, store = f"leat/{self._size}/{self._number}", connected(self._store)
        self._meeting = meeting = Meeting(self._dist.PrefixStore(prefix, store), self._rank, self._size - 1)
        self._begun, due, said, end = time.monotonic(), 0.0, False, math.inf
        while (now := time.monotonic()) < end:
            if now >= due or self._ending:
                due = now + self._pace()
                meeting.look()
            if meeting.start is not None:
                store = self._dist.PrefixStore(f"{prefix}/{meeting.start}", store)
                return Exchange(store, self._rank, self._size, self._limit)
            if self._ending:  # with last words, if it can
                end = min(end, now + EXIT_S / 2)
            if not said and now - self._begun >= self._limit:
                said = True
                log.warning("ranks do not compare what they load: rank %d does not answer the others", meeting.leader)
            self._asking = None
            time.sleep(MEET_S)
            self._asking = time.monotonic()
        return None

    def _pace(self) -> float:
        """Seconds between two looks for ranks of this start: one that comes late, or never, costs little."""
        return min(LOOK_S, max(MEET_S, (time.monotonic() - self._begun) / 10))

    def _has_ended(self, exchange: Exchange) -> bool:
        """Whether there is nothing more to do. Then this thread has left its last words, and another may begin."""
        if self._is_needed():
            return False
        self._beat(exchange)
        with self._lock:
            if self._is_needed():  # a loader was opened in between
                return False
            self._stop()
            return True

    def _is_needed(self) -> bool:
        for number, member in list(self._members.items()):
            if not member.is_open:
                self._closed.append((number, member.at))
                del self._members[number]
        awaited = self._meeting is not None and self._meeting.is_awaited
        return not self._ending and (awaited or bool(self._members) or not self._tasks.empty())

    def _stop(self) -> None:
        self._asking = self._thread = None
        self._running.discard(self)

    def _taken(self) -> Opened | Put | None:
        """The next task; None: nothing came for a while."""
        self._asking = None
        try:
            soon = self._pace() if self._meeting is not None and self._meeting.is_awaited else LOOK_S
            return self._tasks.get(timeout=min(soon, self._beats, SETTLE_S if self._settled else LOOK_S))
        except Empty:
            return None
        finally:
            self._asking = time.monotonic()

    def _turn(self, exchange: Exchange, task: Opened | Put | None) -> None:
        if self._meeting is not None:
            self._meeting.look()
        if task is not None:
            exchange.compare(task)
        now = time.monotonic()
        if now >= self._next_beat:
            self._next_beat = now + self._beats
            self._beat(exchange)
            exchange.look(now, self._all_open)
        elif isinstance(task, Put):
            self._beat(exchange)
        if exchange.read() or (isinstance(task, Opened) and exchange.found):
            self._settled = self._settled or now + SETTLE_S
        if self._settled and now >= self._settled:
            self._settled = 0.0
            for member in list(self._members.values()):
                member.hear(exchange.found)

    def _beat(self, exchange: Exchange) -> None:
        at = {number: member.at for number, member in list(self._members.items())}
        exchange.beat(at or dict(self._closed), self._ending or not at)


def silent_after() -> float:
    """Seconds, from the environment variable LEAT_SILENT_S.

    Raises:
        ValueError: it is no number above 0.
    """
    text = os.environ.get("LEAT_SILENT_S") or str(SILENT_S)
    with contextlib.suppress(ValueError):
        if (seconds := float(text)) > 0 and not math.isnan(seconds):
            return seconds
    raise ValueError(f"the environment variable LEAT_SILENT_S is {text!r}: it should be seconds, above 0")


def _store_of(dist: Any) -> Any:
    """The store of the process group. None: it has none, as with MPI, or it is of one rank, which compares nothing."""
    if dist.get_world_size() < 2:
        return None
    try:
        return dist.distributed_c10d._get_default_store()
    except Exception as e:
        log.info("the process group has no store in which ranks could compare what they load: %s", e)
        return None
