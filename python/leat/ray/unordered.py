"""Batches of a loader on Ray with ``in_order=False``: whichever is there first."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .. import _leat
from .parts import Assembled

if TYPE_CHECKING:
    from .flow import Flow

#: rows from the earliest missing one on that a state can mark as received: half of what the engine allows
REACH = 1 << 15

Rows = tuple[int, int, int]  #: of a planned batch: its step, the first row, how many


@dataclass
class Unit:
    """As many rows as a batch has, mostly those of a planned one. It is handed out as it is."""

    epoch: int
    runs: list[Rows]
    given: bool = False

    def __post_init__(self) -> None:
        self.key = (self.epoch, *self.runs)
        self.rows = sum(n for _, _, n in self.runs)


class Window:
    """The units that are asked for: those behind the earliest missing one, as many as may be on their way.

    The engine keeps the position: it is told which rows are handed out (`choose`), and says which are left (`left`).

    Args:
        planned: the rows of this rank in a batch, by epoch and step; 0 where there is none.
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
        self._full = 0  # rows of a batch
        self._units: deque[Unit] = deque()
        self._more: Iterator[Unit] = iter(())
        self._behind: Unit | None = None  # the next one of `_more`

    def next(self, flow: Flow, number: int, decisions: Any) -> tuple[Unit, Assembled] | None:
        """The unit to hand out next in pass `number`, and its rows; None where the engine has none: at the end of the
        epoch, or in a pass that is not the last one. `given` ends it."""
        if number < self._pass:
            return None
        epoch = self._core.epoch()
        if (number, decisions) != (self._pass, self._decisions):
            self._pass, self._decisions = number, decisions
            self._full = self._planned(epoch, 0)
            self._units.clear()
            self._more = self._all(epoch)
            self._behind = next(self._more, None)
        self._fill(flow)
        mine = [unit for unit in self._units if unit.epoch == epoch and not unit.given]
        if not mine:
            return None
        most = max(unit.rows for unit in mine)  # a shorter one is the last
        key, made = flow.first_of([unit.key for unit in mine if unit.rows == most])
        return next(unit for unit in mine if unit.key == key), made

    def given(self, unit: Unit) -> None:
        unit.given = True
        while self._units and self._units[0].given:
            self._units.popleft()

    def _fill(self, flow: Flow) -> None:
        """Units are asked for while they are within the budget and the reach of a state."""
        most = flow.ahead(max(1, self._full))
        while self._behind is not None and len(self._units) < most and self._is_near(self._behind):
            self._units.append(self._behind)
            self._behind = next(self._more, None)
        wanted = [unit for unit in self._units if not unit.given]
        flow.keep([unit.key for unit in wanted], self._decisions)
        for unit in wanted:
            if not flow.knows(unit.key, self._decisions):  # a new one, or one that has failed
                self._ask(unit, self._decisions)
        flow.arrange([unit.key for unit in wanted])

    def _is_near(self, unit: Unit) -> bool:
        if not self._units or self._units[0].epoch != unit.epoch:
            return True
        (first, at, _), (last, behind, n) = self._units[0].runs[0], unit.runs[-1]
        return (last - first) * self._full + behind + n - at <= REACH

    def _all(self, epoch: int) -> Iterator[Unit]:
        """The rows of the running epoch that are left, then those of the next epochs."""
        full, runs, n, step = self._full, list[Rows](), 0, 0
        while full and (found := self._core.left(step)) is not None:
            step, left = found
            for first, rows in left:
                while rows:
                    taken = min(rows, full - n)
                    runs.append((step, first, taken))
                    first, rows, n = first + taken, rows - taken, n + taken
                    if n == full:
                        yield Unit(epoch, runs)
                        runs, n = [], 0
            step += 1
        if runs:
            yield Unit(epoch, runs)
        for later in itertools.count(epoch + 1):
            if (self._last_epoch is not None and later > self._last_epoch) or not self._planned(later, 0):
                return
            for step in itertools.count():
                if not (rows := self._planned(later, step)):
                    break
                yield Unit(later, [(step, 0, rows)])
