"""The values that ranks of one start exchange through the store of their process group. One thread of each rank calls
this.

    opened/1             the data of the first loader, of the rank that has opened it first
    1/0/7/1/300          the facts of loader 1 in round 0, epoch 7 as it began for the first time, at step 300: of the
                         rank that came first; the others find them there and compare
    news, news/1, ...    differences and silent ranks: how many there are, and each of them
    beat/2               where rank 2 is, every few seconds

Every rank asks for a constant number of values, however many ranks there are.
"""

from __future__ import annotations

import json
import logging
import time
from collections import deque
from collections.abc import Iterator
from datetime import timedelta
from itertools import islice
from typing import Any, NamedTuple

from .differences import LOADERS, Difference, differing, sent
from .silence import Silence

log = logging.getLogger("leat")

PATIENCE = timedelta(seconds=5)  #: with the store, of a value that is there
KEPT, KEPT_S = 16, 120.0  #: values of this rank in the store, and seconds: ranks that come later than both find none
HOPS = 16  #: ranks of the ring that are looked at, if all of them are silent
TOLD = 8  #: ranks that tell of one difference: the text of an error has room for them


class Opened(NamedTuple):
    """A loader was opened."""

    loader: int
    reads: str
    fingerprint: str


class Put(NamedTuple):
    """The facts that a rank has in common with the others at a step of a loader."""

    loader: int
    round: int
    turn: str  #: this epoch's, which may begin several times
    place: tuple[int, int]
    facts: dict[str, str]
    stays: bool  #: in the store: ranks may begin at very different times


def connected(store: Any) -> Any:
    """Another connection to the same store, if it can have several: on one, a call waits behind another."""
    if hasattr(store, "clone"):
        store = store.clone()
        store.set_timeout(PATIENCE)
    return store


class Exchange:
    """The part of one rank: it puts values into the store, and compares them with those that it finds there.

    Args:
        store: that of the process group, on a connection for this thread (see connected), with a prefix for all keys.
        rank, size: of the process group.
        limit: seconds from which on a rank is silent.
    """

    def __init__(self, store: Any, rank: int, size: int, limit: float) -> None:
        self._store, self._rank, self._size = store, rank, size
        self.found: list[Difference] = []  #: by any rank
        self._silence = Silence(self._rank, limit)
        self._beats, self._read = 0, 0
        self._mine: deque[tuple[float, str]] = deque()  # keys that are deleted one day
        self._counts: dict[int, list[str | None] | None] = {}  # of loaders, by loader, if ranks differed in them last

    # ---- facts -------------------------------------------------------------------------------------------------------

    def compare(self, task: Opened | Put) -> None:
        """Compares, and tells all ranks of a difference."""
        found = self._of_loaders(task) if isinstance(task, Opened) else self._of_facts(task)
        if found is not None:
            self._tell(found._asdict())

    def _of_loaders(self, task: Opened) -> Difference | None:
        mine = {"rank": self._rank, "reads": task.reads, "fingerprint": task.fingerprint}
        there = self._first(f"opened/{task.loader}", mine)
        if there["fingerprint"] == task.fingerprint:
            return None
        return Difference(task.loader, 0, self._rank, there["rank"], None, {"reads": [task.reads, there["reads"]]})

    def _of_facts(self, task: Put) -> Difference | None:
        key = f"{task.loader}/{task.round}/{task.turn}/{task.place[1]}"
        mine: dict[str, Any] = {"rank": self._rank, "facts": sent(task.facts)}
        there = self._first(key, mine)
        if there == mine:
            self._forget(None if task.stays else key)
            return None
        what = differing(mine["facts"], there["facts"])
        # A thread that iterates may be steps ahead of the one that opens loaders: counts have to stay apart.
        before, self._counts[task.loader] = self._counts.get(task.loader), what.get(LOADERS)
        if LOADERS in what and what[LOADERS] != before:
            del what[LOADERS]
        if not what or self._store.add(f"{key}/differ", 1) > TOLD:
            return None
        if LOADERS in what:
            what[LOADERS] = self._described(what[LOADERS])
        return Difference(task.loader, task.round, self._rank, there["rank"], list(task.place), what)

    def _first(self, key: str, mine: dict[str, Any]) -> Any:
        """The value of the rank that came first, which may be this one."""
        return json.loads(self._store.compare_set(key, "", json.dumps(mine)))

    def _forget(self, key: str | None) -> None:
        """Deletes the values of this rank that are old, now that there is one more."""
        now = time.monotonic()
        if key is not None:
            self._mine.append((now, key))
        while len(self._mine) > KEPT and now - self._mine[0][0] > KEPT_S:
            self._store.delete_key(self._mine.popleft()[1])

    def _described(self, counts: list[str | None]) -> list[str | None]:
        """Numbers of loaders, the larger one with the data of the last."""
        last = max(int(count or 0) for count in counts)
        opened = self._there(f"opened/{last}")
        return [f"{n}, the last over {opened['reads']}" if opened and n == str(last) else n for n in counts]

    def _there(self, key: str) -> Any:
        """A value, or None."""
        return json.loads(self._store.get(key)) if self._store.check([key]) else None

    # ---- signs of life -----------------------------------------------------------------------------------------------

    def beat(self, at: dict[int, tuple[int, int] | None], ended: bool) -> None:
        """Leaves a sign of life, with the places in the loaders by their numbers."""
        self._beats += 1
        self._store.set(f"beat/{self._rank}", json.dumps({"n": self._beats, "at": at, "ended": ended}))

    def look(self, now: float, all_open: bool) -> None:
        """Looks at the next rank of the ring, and beyond those that are silent. `all_open`: of Silence."""
        self._silence.take(self._rank, self._there(f"beat/{self._rank}"), now)
        for rank in islice(self._others(), HOPS):
            self._silence.take(rank, self._there(f"beat/{rank}"), now)
            silent, text = self._silence.verdict(rank, now, all_open)
            if text is not None:
                self._tell({"text": text})
            if not silent:
                break

    def _others(self) -> Iterator[int]:
        return ((self._rank + i) % self._size for i in range(1, self._size))

    # ---- news --------------------------------------------------------------------------------------------------------

    def _tell(self, news: dict[str, Any]) -> None:
        """Tells all ranks, this one too: of a difference, or a text that they log."""
        self._store.set(f"news/{self._store.add('news', 1)}", json.dumps(news))

    def read(self) -> bool:
        """Reads the news. Returns whether there are differences among them."""
        count, before = self._store.add("news", 0), len(self.found)
        while self._read < count and (news := self._there(f"news/{self._read + 1}")) is not None:
            self._read += 1
            if "text" in news:
                log.warning("%s", news["text"])
            else:
                self.found.append(Difference(**news))
        return len(self.found) > before
