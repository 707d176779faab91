"""The process group that loaders take their ranks from, and the thread that asks its store, so that no ``next()`` does.

    iterating thread                 the thread                                  the store
    facts of a step   -- queue -->   compare_set: what the first rank put  -->   1/0/0/1/100   of loader 1
                                     a difference, a silent rank           -->   news/1, news/2, ...
    next() looks      <-- a mark     news of all ranks                     <--
                                     places, every few seconds             -->   beat/RANK

One thread serves all loaders of the group. It ends with the last of them, with the group, or with the process. Every
rank asks for a constant number of values, however many ranks there are.
"""

from __future__ import annotations

import contextlib
import json
import logging
import math
import multiprocessing.util
import os
import threading
import time
import weakref
from collections import deque
from collections.abc import Iterator
from datetime import timedelta
from itertools import islice
from queue import Empty, SimpleQueue
from typing import Any, ClassVar, NamedTuple, Protocol

from ..ranks import distributed
from .differences import LOADERS, Difference, differing, sent
from .silence import Silence

log = logging.getLogger("leat")

LOOK_S = 1.0  #: at most, between two looks for news: those of a difference stop all ranks
SETTLE_S = 0.3  #: for what other ranks find, so that an error names the one that differs from all others
BEAT_S = 5.0  #: at most, between two signs of life
SILENT_S = 60.0  #: a rank is silent from then on, if LEAT_SILENT_S does not say otherwise
PATIENCE = timedelta(seconds=5)  #: with the store, of a value that is there
KEPT, KEPT_S = 16, 120.0  #: values of this rank in the store, and seconds: ranks that come later than both find none
CLOSED = 4  #: loaders of which a rank tells where it has left them
PACE = 32  #: comparisons in a second, before every second one is left out, then three of four, ...
HOPS = 16  #: ranks of the ring that are looked at, if all of them are silent
TOLD = 8  #: ranks that tell of one difference: the text of an error has room for them
EXIT_S = 1.0  #: for the last words of a process that ends


class Opened(NamedTuple):
    """A loader was opened."""

    loader: int
    reads: str
    fingerprint: str


class Put(NamedTuple):
    """What a rank has in common with the others at a step of a loader."""

    loader: int
    round: int
    turn: str  #: this epoch's, which may begin several times
    place: tuple[int, int]
    facts: dict[str, str]
    stays: bool  #: in the store: ranks may begin at very different times


class Member(Protocol):
    """A loader of the group."""

    at: tuple[int, int] | None  #: epoch and step that were handed out last

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
        """The one that is initialised now. None: there is none, or it is of one rank."""
        dist = distributed()
        world = None if dist is None else dist.group.WORLD
        if world is None:
            return None
        if cls._now is None or cls._now._of() is not world:
            cls._groups += 1
            cls._now = cls(dist, world, cls._groups)
        return cls._now if cls._now.size > 1 else None

    def __init__(self, dist: Any, world: Any, number: int) -> None:
        self.rank, self.size = dist.get_rank(), dist.get_world_size()
        self.opened = 0  #: loaders so far
        self.all_open = True  #: whether each rank has to open them
        self._limit = silent_after()
        self._beats = min(BEAT_S, self._limit / 12)
        self._number, self._dist = number, dist
        self._store: Any = None
        self._of = weakref.ref(world, lambda _: self._end())
        self._process = os.getpid()  # in a forked child the connection is the parent's, and there is no thread
        self._lock = threading.Lock()  # of the thread's beginning and end; nobody asks the store under it
        self._thread: threading.Thread | None = None
        self._ending = False
        self._tasks: SimpleQueue[Opened | Put | None] = SimpleQueue()
        self._members: dict[int, Member] = {}
        self._closed: deque[tuple[int, tuple[int, int] | None]] = deque(
            maxlen=CLOSED
        )  # the last ones, and their places
        self._silence = Silence(self.rank, self._limit)
        self._count, self._next_beat, self._read = 0, 0.0, 0
        self._found: list[Difference] = []
        self._mine: deque[tuple[float, str]] = deque()
        self._second, self._puts = 0.0, 0
        self._settled = 0.0  # when members hear of what was found; 0: they have
        self._asking: float | None = None  # since then
        self._lost: str | None = None
        self._complained = False
        multiprocessing.util.Finalize(None, Group.leave, exitpriority=10)  # atexit runs nothing in its processes

    # ---- in the threads that open and iterate loaders ----------------------------------------------------------------

    def add(self, member: Member, reads: str, fingerprint: str, all_open: bool) -> int:
        """Adds a loader that was opened; returns its number."""
        self.opened += 1
        self.all_open &= all_open
        self._members[self.opened] = member
        self.put(Opened(self.opened, reads, fingerprint))
        return self.opened

    def has_time(self, number: int) -> bool:
        """Whether ranks compare at the place of this number. If many come in a second, as of epochs that take a
        millisecond, all ranks keep to the same ones: multiples of powers of two.
        """
        if (now := time.monotonic()) - self._second >= 1:
            self._second, self._puts = now, 0
        self._puts += 1
        return number % (1 << min(self._puts // PACE, 60)) == 0

    def put(self, task: Opened | Put) -> None:
        """Hands a task to the thread. It returns at once, and raises nothing."""
        if self._process != os.getpid():
            return
        self._complain()
        with self._lock:
            if self._ending or self._lost is not None:
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
        """This process ends: the threads do, before the interpreter may not be entered any more."""
        threads = [group._thread for group in cls._running if group._process == os.getpid()]
        for group in list(cls._running):
            group._end()
        for thread in threads:
            if thread is not None:
                thread.join(EXIT_S)

    # ---- in the thread -----------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            self._asking = time.monotonic()
            self._store = self._store or _store_of(self._dist, self._number)
            while True:
                if self._is_needed():
                    self._turn(self._taken())
                    continue
                self._beat()
                with self._lock:
                    if not self._is_needed():
                        self._stop()
                        return
        except Exception as e:
            with self._lock:
                self._lost = f"{type(e).__name__}: {str(e).partition(chr(10))[0]:.200}"
                self._stop()

    def _is_needed(self) -> bool:
        for number, member in list(self._members.items()):
            if not member.is_open:
                self._closed.append((number, member.at))
                del self._members[number]
        return not self._ending and (bool(self._members) or not self._tasks.empty())

    def _stop(self) -> None:
        self._asking = self._thread = None
        self._running.discard(self)

    def _taken(self) -> Opened | Put | None:
        """The next task; None: nothing came for a while."""
        self._asking = None
        try:
            return self._tasks.get(timeout=min(LOOK_S, self._beats, SETTLE_S if self._settled else LOOK_S))
        except Empty:
            return None
        finally:
            self._asking = time.monotonic()

    def _turn(self, task: Opened | Put | None) -> None:
        if isinstance(task, Opened):
            self._compare_loaders(task)
        elif isinstance(task, Put):
            self._compare(task)
        now = time.monotonic()
        if now >= self._next_beat:
            self._next_beat = now + self._beats
            self._beat()
            self._look(now)
        elif isinstance(task, Put):
            self._beat()
        if self._read_news() or (isinstance(task, Opened) and self._found):
            self._settled = self._settled or now + SETTLE_S
        if self._settled and now >= self._settled:
            self._settled = 0.0
            for member in list(self._members.values()):
                member.hear(self._found)

    def _compare_loaders(self, task: Opened) -> None:
        mine = {"rank": self.rank, "reads": task.reads, "fingerprint": task.fingerprint}
        there = self._first(f"opened/{task.loader}", mine)
        if there["fingerprint"] != task.fingerprint:
            reads = {"reads": [task.reads, there["reads"]]}
            self._tell(Difference(task.loader, 0, self.rank, there["rank"], None, reads))

    def _compare(self, task: Put) -> None:
        key = f"{task.loader}/{task.round}/{task.turn}/{task.place[1]}"
        mine = {"rank": self.rank, "facts": sent(task.facts)}
        there = self._first(key, mine)
        if there == mine:
            self._forget(None if task.stays else key)
            return
        what = differing(mine["facts"], there["facts"])
        if what and self._store.add(f"{key}/differ", 1) <= TOLD:
            if LOADERS in what:
                what[LOADERS] = self._described(what[LOADERS])
            self._tell(Difference(task.loader, task.round, self.rank, there["rank"], list(task.place), what))

    def _forget(self, key: str | None) -> None:
        """Deletes the values of this rank that are old, now that there is one more."""
        now = time.monotonic()
        if key is not None:
            self._mine.append((now, key))
        while len(self._mine) > KEPT and now - self._mine[0][0] > KEPT_S:
            self._store.delete_key(self._mine.popleft()[1])

    def _first(self, key: str, mine: Any) -> Any:
        """The value of the rank that came first, which may be this one."""
        return json.loads(self._store.compare_set(key, "", json.dumps(mine)))

    def _described(self, counts: list[str | None]) -> list[str | None]:
        """Numbers of loaders, the larger one with the data of the last."""
        last = max(int(count or 0) for count in counts)
        if not self._store.check([key := f"opened/{last}"]):
            return counts
        reads = json.loads(self._store.get(key))["reads"]
        return [f"{count}, the last over {reads}" if count == str(last) else count for count in counts]

    # ---- signs of life -----------------------------------------------------------------------------------------------

    def _beat(self) -> None:
        self._count += 1
        at = [(number, member.at) for number, member in list(self._members.items())]
        beat = {"n": self._count, "at": dict(at or self._closed), "ended": self._ending or not at}
        self._store.set(f"beat/{self.rank}", json.dumps(beat))

    def _look(self, now: float) -> None:
        """Looks at the next rank of the ring, and beyond those that are silent."""
        for rank in (self.rank, *islice(self._others(), HOPS)):
            key = f"beat/{rank}"
            self._silence.take(rank, json.loads(self._store.get(key)) if self._store.check([key]) else None, now)
            if rank == self.rank:
                continue
            silent, text = self._silence.verdict(rank, now, self.all_open)
            if text is not None:
                self._tell(text)
            if not silent:
                break

    def _others(self) -> Iterator[int]:
        return ((self.rank + i) % self.size for i in range(1, self.size))

    # ---- news --------------------------------------------------------------------------------------------------------

    def _tell(self, news: Difference | str) -> None:
        """Tells all ranks, this one too: of a difference, or what they log."""
        value = {"rank": self.rank, "text": news} if isinstance(news, str) else news._asdict()
        self._store.set(f"news/{self._store.add('news', 1)}", json.dumps(value))

    def _read_news(self) -> bool:
        """Whether there are differences among them."""
        count, before = self._store.add("news", 0), len(self._found)
        while self._read < count and self._store.check([key := f"news/{self._read + 1}"]):
            self._read += 1
            news = json.loads(self._store.get(key))
            if "text" in news:
                log.warning("%s", news["text"])
            else:
                self._found.append(Difference(**news))
        return len(self._found) > before


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


def _store_of(dist: Any, number: int) -> Any:
    """The store of the process group, through a connection of its own: on the group's, a call waits behind another."""
    store = dist.distributed_c10d._get_default_store()
    if hasattr(store, "clone"):
        store = store.clone()
        store.set_timeout(PATIENCE)
    return dist.PrefixStore(f"leat/{number}", store)
