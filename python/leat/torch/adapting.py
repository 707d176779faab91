"""The number of workers of ``num_workers="auto"``, as the epoch goes: the controller's figures, and its choice."""

from __future__ import annotations

import logging
from collections.abc import Callable

from .. import ranks
from ..workers import adapt, cores, loop
from ..workers.pool import Pool

log = logging.getLogger("leat")
_INTERVAL_S = 0.5


def world_size() -> int:
    return ranks.find(None, None)[1]


def first_workers() -> int:
    """The number of workers with which ``num_workers="auto"`` begins."""
    return max(1, int(cores.budget(world_size())) // 2)


class Adapting:
    """Feeds the controller of the number of workers, and sets the number."""

    def __init__(self, pool: Pool, waited: Callable[[], float]) -> None:
        self.pool, self.waited = pool, waited
        self.meter = cores.Meter(world_size())
        self.controller = adapt.Controller(cores.budget(world_size()), pool.room, pool.n)
        self.rows = 0
        self.at, self.waited_s, self.n = loop.now(), 0.0, pool.n

    def delivered(self, rows: int) -> None:
        """Counts a batch that was delivered, and at times changes the number of workers."""
        self.rows += rows
        elapsed = loop.now() - self.at
        if elapsed < _INTERVAL_S:
            return
        waited = self.waited()
        by_workers, by_process, idle = self.meter.read(self.pool.pids, elapsed)
        steady = self.pool.n if self.pool.n == self.n else 0
        wanted = self.controller.observe(
            adapt.Interval(
                elapsed, min(elapsed, waited - self.waited_s), self.rows, steady, by_workers, by_process, idle
            )
        )
        self.rows, self.at, self.waited_s, self.n = 0, loop.now(), waited, self.pool.n
        if wanted != self.pool.n:
            log.info("workers: %s", self.controller.reason)
            self.pool.resize(wanted)
