"""Batches of a loader on Ray with ``in_order=False``: whichever is there first."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from .. import _leat
from .flow import Flow
from .parts import Assembled

#: rows from the earliest missing one on that a state can mark as received: half of what the engine allows
REACH = 1 << 15

Rows = tuple[int, int, int]  #: of a planned batch: its step, the first row, how many


@dataclass
class Unit:
    """As many rows as a batch has, mostly those of a planned one. It is handed out as it is."""

    key: tuple[int, int]  #: the epoch, and the step that the first row is planned in
    runs: list[Rows]
    given: bool = False

    @property
    def rows(self) -> int:
        return sum(n for _, _, n in self.runs)


class Window:
    """The units that are asked for: those behind the earliest missing one, as many as may be on their way.

    The engine keeps the position: it is told which rows are handed out (`choose`), and says which are left (`left`).

    Args:
        planned: the rows of this rank in a batch, by epoch and step; IndexError where there is none.
        ask: asks the flow for a unit, if it does not know it.
        last_epoch: None: no epoch is the last.
    """

    def __init__(
        self,
        core: _leat.Loader,
        planned: Callable[[int, int], int],
        ask: Callable[[Unit, Any], None],
        last_epoch: int | None,
    ) -> None:
        self._core, self._planned, self._ask, self._last_epoch = core, planned, ask, last_epoch
        self._pass = -1
        self._decisions: Any = None
        self._units: deque[Unit] = deque()
        self._more: Iterator[Unit] = iter(())

    def next(self, flow: Flow, number: int, decisions: Any) -> tuple[Unit, Assembled] | None:
        """The unit to hand out next in pass `number`, and its rows; None at the end of the epoch. `given` ends it."""
        epoch = self._core.epoch()
        if (number, decisions) != (self._pass, self._decisions):
            if decisions != self._decisions or not self._begins(epoch):
                self._units.clear()
                self._more = self._all(epoch)
            self._pass, self._decisions = number, decisions
        self._fill(flow)
        mine = [unit for unit in self._units if unit.key[0] == epoch and not unit.given]
        if len(mine) > 1:  # a shorter one is the last
            most = max(unit.rows for unit in mine)
            mine = [unit for unit in mine if unit.rows == most]
        if not mine:
            return None
        key, made = flow.first_of([unit.key for unit in mine])
        return next(unit for unit in mine if unit.key == key), made

    def given(self, unit: Unit) -> None:
        unit.given = True
        while self._units and self._units[0].given:
            self._units.popleft()

    def _begins(self, epoch: int) -> bool:
        """Whether the units are those of an epoch that begins."""
        first = self._units[0] if self._units else None
        if first is None or first.key != (epoch, 0) or any(unit.given for unit in self._units):
            return False
        return self._core.left(0) == (0, [(0, first.rows)])

    def _fill(self, flow: Flow) -> None:
        rows = self._units[0].rows if self._units else self._planned(self._core.epoch(), 0)
        most = max(1, min(flow.ahead(rows), REACH // max(1, rows)))
        while len(self._units) < most:
            unit = next(self._more, None)
            if unit is None:
                break
            self._units.append(unit)
        flow.keep([unit.key for unit in self._units if not unit.given], self._decisions)
        for unit in self._units:
            if not unit.given and not flow.knows(unit.key, self._decisions):  # a new one, or one that has failed
                self._ask(unit, self._decisions)

    def _all(self, epoch: int) -> Iterator[Unit]:
        """The rows of the running epoch that are left, then those of the next epochs."""
        full, runs, n, step = self._planned(epoch, 0), list[Rows](), 0, 0
        while (found := self._core.left(step)) is not None:
            step, left = found
            for first, rows in left:
                while rows:
                    taken = min(rows, full - n)
                    runs.append((step, first, taken))
                    first, rows, n = first + taken, rows - taken, n + taken
                    if n == full:
                        yield Unit((epoch, runs[0][0]), runs)
                        runs, n = [], 0
            step += 1
        if runs:
            yield Unit((epoch, runs[0][0]), runs)
        for later in itertools.count(epoch + 1):
            if self._last_epoch is not None and later > self._last_epoch:
                return
            for step in itertools.count():
                try:
                    rows = self._planned(later, step)
                except IndexError:
                    break
                if rows:
                    yield Unit((later, step), [(step, 0, rows)])
