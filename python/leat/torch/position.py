"""The batches that an iteration has delivered, and the state that is made of them. The loader keeps it when the
iterator is gone."""

from __future__ import annotations

from collections import deque
from typing import Any

from ..workers.feed import Planned
from ..workers.loop import ITER
from .order import Order
from .state import VERSION, exact_length


class Position:
    """The position in one epoch.

    Args:
        loader: a copy, as it was when the epoch began.
        loaded: the state of mid-epoch that it begins with, or an empty dict.
        ends: the ends of the streams of the epoch before, by worker.
    """

    def __init__(self, loader: Any, order: Order, epoch: int, loaded: dict[str, Any], ends: dict[int, Any]) -> None:
        self.loader, self.order, self.epoch = loader, order, epoch
        self.unspent: dict[str, Any] | None = None  # the state that it begins with, until a batch is delivered
        self.step: int = loaded.get("step", 0)  # the batches before it are delivered,
        self.beyond: set[int] = set(loaded.get("beyond", ()))  # and these
        self.yielded: int = loaded.get("yielded", 0)
        self.over = False
        # of iterable data sets
        self.streams: dict[int, tuple[Any, int]] = {}  # worker -> its last state, and batches delivered since
        self.turns = [0] * max(1, loader.num_workers)  # batches of each stream that were planned before
        self.begun: dict[int, Any] = dict(ends)  # states at the epoch's start
        self.ends: dict[int, Any] = {}  # states of those that have ended
        self.ended: set[int] = set()  # workers whose ends were delivered
        self.loaded_ended: set[int] = set()
        # before each of the batches delivered last, which a framework may not have handed out
        self.before: deque[tuple[Any, ...]] = deque(maxlen=loader.most_ahead)

    def set_streams(self, loaded: dict[str, Any]) -> None:
        """The places of the streams, as a state has them."""
        self.turns = list(loaded["turn"])
        # of streams that have given nothing of this epoch; states of old have no such mark
        marks = [{} if "yielded" in loaded and turn else {"begin": True} for turn in self.turns]
        self.streams = {int(w): (state and state | marks[w], count) for w, state, count in loaded["streams"]}
        # A stream with a state is read once more: only its end says where its next epoch begins.
        self.loaded_ended = {w for w in loaded["ended"] if self.streams.get(w, (None, 0))[0] is None}

    def follow(self, source: Any, feed: Any, pool: Any, adapting: Any) -> None:
        """Takes the parts that change from the source of batches. It must not keep the source itself."""
        self.counters, self.pool, self.adapting = source.stats, pool, adapting
        self.ends = source.end_states
        if feed is not None:
            self.ended = feed.delivered_ends
        elif source.begun is not None:
            self.begun[0] = source.begun

    def count(self, planned: Planned, state: Any) -> None:
        """Counts a batch as delivered."""
        self.unspent = None
        if self.before.maxlen:
            self.before.append(self._now())
        self.yielded += 1
        if planned.kind == ITER:
            worker = max(planned.owner, 0)
            before = self.streams.get(worker, (None, 0))
            self.streams[worker] = (state, 0) if state is not None else (before[0], before[1] + 1)
            self.turns[worker] = planned.step // len(self.turns) + 1
            self.step += 1
            return
        if planned.step == self.step and not self.beyond:
            self.step += 1
        else:
            self.beyond.add(planned.step)
            while self.step in self.beyond:
                self.beyond.discard(self.step)
                self.step += 1
        if self.order.reading is not None:
            self.order.reading.delivered(self.before[0][0] if self.before else self.step)

    def _now(self) -> tuple[Any, ...]:
        """Step, steps beyond it, batches; streams, their turn, and those that are over."""
        return (self.step, sorted(self.beyond), self.yielded, dict(self.streams), list(self.turns),
                sorted(self.ended | self.loaded_ended))  # fmt: skip

    def _left(self) -> bool:
        """Whether the epoch may have a further batch. It finds out without reading."""
        if self.loader._iterable:
            return True
        steps = exact_length(self.loader)
        reading = self.order.reading
        if reading is not None and reading.over:
            steps = reading.count
        elif reading is not None and reading.draws_at_end:
            return True
        return steps is None or self.yielded < steps

    def state(self, ahead: int = 0) -> dict[str, Any]:
        """The state: plain values, and those of samplers and data sets.

        Args:
            ahead: so many of the batches delivered last are not counted; at most the loader's `most_ahead`.
        """
        over = not ahead and (self.over or not self._left())
        loader = self.loader
        if over:
            found = {"version": VERSION, "epoch": self.epoch + 1, "step": 0, **self.order.state(self.step, True)}
            if loader._iterable and (loader.persistent_workers or not loader.num_workers):
                ends = [[w, state, 0] for w, state in sorted(self.ends.items())]
                found |= {"workers": loader.num_workers, "streams": ends, "turn": [0] * len(self.turns), "ended": []}
            return found
        step, beyond, yielded, streams, turn, ended = self.before[-ahead] if ahead else self._now()
        found = {
            "version": VERSION,
            "epoch": self.epoch,
            "step": step,
            "yielded": yielded,
            "of": loader._facts(),
            **self.order.state(step, False),
        }
        if beyond:
            found["beyond"] = beyond
        if loader._iterable:
            known = {w: (state, 0) for w, state in self.begun.items()} | streams
            found |= {
                "workers": loader.num_workers,
                "streams": [[w, state, count] for w, (state, count) in sorted(known.items())],
                "turn": turn,
                "ended": ended,
            }
        return found

    def stats(self) -> dict[str, Any]:
        """Counters of the iteration, its workers, and their deaths."""
        found: dict[str, Any] = dict(self.counters)
        if self.pool is not None:
            if self.adapting is not None:
                found["adapted"] = self.adapting.controller.reason
            found |= {"workers": self.pool.n, "pids": self.pool.pids, "replaced": list(self.pool.events)}
        return found
