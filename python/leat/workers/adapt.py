"""The number of worker processes: the controller behind ``num_workers="auto"``.

It has no clock and does no I/O: the loader passes in the events (`Interval`) and gets the number of workers that it
should have. The number grows while the consumer waits and cores are idle, shrinks again if that did not help, and
cannot oscillate.

The rules:

- *Reading.* Intervals at one size are pooled until the figures are certain enough for the decision at hand: the share
  of time waited, and rows a second, with the standard error of a ratio estimate. Intervals that
  a worker's first row may distort are left out.
- *Growth.* A consumer that waits for the share ``w`` of its time would take ``1 / (1 - w)`` times the rows: so many
  times the workers are tried, at most twice as many, and no more than idle cores and the budget can run. This is the
  linear model of DS2 (Kalavri et al., OSDI 2018), which comes to the right size in a few steps because it needs no
  search.
- *Judgement.* A growth is kept if the wait is gone or at least half of the gain foreseen, as a factor, has come. Else
  the model gives the size that reaches the same rate, and the surplus goes. So any limit that more workers
  cannot move (a disk, a lock, other processes) is found, as hill climbing finds it (Hellerstein et al., FeBID 2008: the
  .NET thread pool), but without its perpetual probing.
- *Budget.* If workers use more cores than their budget while none is idle, their number is reduced, even if the
  consumer waits.

Why it cannot oscillate. Oscillating means shrinking and growing again, over and over. After the k-th growth that was
undone, nothing grows for ``PAUSE * 2 ** (k - 1)`` intervals. So in T intervals, at most ``log2(T / PAUSE + 1)`` growths
follow the end of such a pause. A pause ends early only if the rate left its band (the limit has moved: another phase of
training). This must have lasted ``PAUSE * 2 ** i`` intervals the i-th time, so again there are at most
``log2(T / PAUSE + 1)``. Together with the first growth: **at most 1 + 2 log2(T / PAUSE + 1) growths are undone in T
intervals, whatever is observed**, however noisy. Doubling back-off keeps Ethernet stable, too (Metcalfe and Boggs, CACM
1976). Between two of these growths the number only rises.

Idle workers are not removed: they sleep, cost no core, and are there for the next evaluation.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

WAIT = 0.05
"""The share of time that the consumer may wait before something is done."""
PAUSE = 30
"""Intervals without growth after the first growth that was undone."""
READ_MIN, READ_MAX = 4, 60
"""Intervals that are pooled: at least and at most."""
CLEAR = 1.5
"""Standard errors between the estimate and the value that would change the decision."""
SHORT = 0.01
"""Seconds; a shorter interval says nothing."""
BAND = 0.7
"""A rate below this share of what it was, or above its inverse, is another phase."""


@dataclass(frozen=True, slots=True)
class Interval:
    """The events of a stretch of time, half a second or more, during which the consumer iterated.

    Times are in seconds. ``idle_cpu_s`` is the CPU time of all cores of this rank that no process used.
    """

    elapsed_s: float
    waited_s: float
    """How long the consumer waited for batches."""
    rows: int
    """Rows that workers finished."""
    workers: int
    """Workers alive and started, all the time."""
    worker_cpu_s: float
    """CPU time of all workers."""
    process_cpu_s: float
    """CPU time of the training process."""
    idle_cpu_s: float


class _Reading:
    """Intervals at one size, pooled. The error of a ratio of sums is that of the residuals (the ratio estimator)."""

    def __init__(self, intervals: list[Interval] | None = None) -> None:
        self.intervals = intervals or []

    def add(self, x: Interval) -> None:
        self.intervals.append(x)

    def _sum(self, what: str) -> float:
        return math.fsum(getattr(x, what) for x in self.intervals)

    def per_second(self, what: str) -> float:
        return self._sum(what) / self._sum("elapsed_s")

    def error(self, what: str) -> float:
        """The standard error of `per_second`."""
        m, mean = len(self.intervals), self.per_second(what)
        if m < 2:
            return math.inf
        squares = math.fsum((getattr(x, what) - mean * x.elapsed_s) ** 2 for x in self.intervals)
        return math.sqrt(squares * m / (m - 1)) / self._sum("elapsed_s")

    def relative_error(self) -> float:
        """The standard error of the rate, relative to it."""
        rate = self.per_second("rows")
        return self.error("rows") / rate if rate else math.inf

    def begun(self, workers: int) -> bool:
        return len(self.intervals) >= READ_MIN and (self._sum("rows") >= 2 * workers or self.full())

    def full(self) -> bool:
        return len(self.intervals) >= READ_MAX


@dataclass(frozen=True, slots=True)
class _Trial:
    """A growth that is not judged yet."""

    workers: int
    rate: float
    error: float
    gain: float
    """The rate foreseen, in multiples of that before."""


class Controller:
    """Says how many workers there should be.

    Args:
        budget: cores that workers may use (`cores.budget`); the others are the training's.
        max_workers: processes, at most; more than the budget is useful if workers wait for storage.
        workers: to begin with.

    Example:
        >>> from leat.workers.adapt import Controller, Interval
        >>> controller = Controller(budget=7, max_workers=16)
        >>> starved = Interval(1, waited_s=0.9, rows=10, workers=1, worker_cpu_s=1, process_cpu_s=0.1, idle_cpu_s=6.9)
        >>> [controller.observe(starved) for _ in range(5)]
        [1, 1, 1, 1, 2]
        >>> controller.reason
        'the consumer waited 90% of the time and 6.9 cores were idle: 1 -> 2 workers'
    """

    def __init__(self, budget: float, max_workers: int, workers: int = 1) -> None:
        if not budget > 0:
            raise ValueError(f"budget is {budget}: it should be a positive number of cores")
        if not 1 <= workers <= max_workers:
            raise ValueError(f"workers is {workers}: it should be from 1 to max_workers, {max_workers}")
        self.budget, self.max_workers, self.workers = budget, max_workers, workers
        self.changes = 0
        """How often the number changed."""
        self.reason = ""
        """Why it changed the last time."""
        self._reading = _Reading()
        self._settling: tuple[int, int] | None = (0, 0)  # rows and intervals since the change
        self._trial: _Trial | None = None
        self._grown = False  # since the last shrink
        self._taken_back = 0  # growths, ever
        self._early = 0  # pauses that ended early, ever
        self._shrunk_for: int | None = None  # intervals since the last shrink
        self._usual: float | None = None  # the rate after it

    def observe(self, x: Interval) -> int:
        """Takes the events since the last call; returns the number of workers wanted.

        ``x.workers`` is the number that was really at work. If it is not yet the number asked for, or changed during
        the interval (give 0 then), the interval is ignored.
        """
        if self._shrunk_for is not None:
            self._shrunk_for += 1
        nobody_asked = not x.rows and x.waited_s <= 0
        if x.elapsed_s < SHORT or nobody_asked or x.workers != self.workers:
            return self.workers
        if self._settling is not None:  # until each worker has finished about a row
            rows, intervals = self._settling[0] + x.rows, self._settling[1] + 1
            self._settling = (rows, intervals) if rows < self.workers and intervals < READ_MAX else None
            return self.workers
        self._reading.add(x)
        if self._reading.begun(self.workers):
            self._decide(self._reading)
        return self.workers

    # ---- decisions on a reading
    # ---------------------------------------------------------------------------------------

    def _decide(self, r: _Reading) -> None:
        now = _Reading(r.intervals[-READ_MIN:])
        used, idle = now.per_second("worker_cpu_s"), now.per_second("idle_cpu_s")
        everything = used + idle + now.per_second("process_cpu_s")
        if used > self.budget + 0.5 and idle < 0.05 * everything:
            fair = max(1, math.floor(min(self.budget, self.workers * self.budget / used)))
            if fair < self.workers:
                return self._change(fair, f"workers used {used:.1f} of {self.budget:g} cores and none was idle")
        if self._trial:
            return self._judge(r, self._trial)
        wait, error = r.per_second("waited_s"), r.error("waited_s")
        if wait - error > WAIT or (r.full() and wait > WAIT):
            self._grow(r, wait)
        elif wait + error < WAIT or r.full():
            self._reading = _Reading()
        return None

    def _grow(self, r: _Reading, wait: float) -> None:
        n, idle = self.workers, r.per_second("idle_cpu_s")
        wanted = 1 / (1 - wait) if wait < 0.5 else 2
        target = min(math.ceil(n * wanted - 1e-9), self._affordable(r, idle), self.max_workers)
        gain = min(target / n, wanted)
        if target <= n:
            if r.full():
                self._reading = _Reading()
        elif r.relative_error() <= (gain - 1) / 4 or r.full():  # else too rough to tell later whether it helped
            if self._pausing() and not self._moved(r):
                return
            self._trial = _Trial(n, r.per_second("rows"), r.relative_error(), gain)
            self._change(target, f"the consumer waited {wait:.0%} of the time and {idle:.1f} cores were idle")

    def _affordable(self, r: _Reading, idle: float) -> int:
        """The number of workers that the idle cores and the budget can run, rounded: training takes more as more rows
        come."""
        used, training = r.per_second("worker_cpu_s"), r.per_second("process_cpu_s")
        if used <= 0:
            return self.max_workers
        run = self.workers * min(1 + idle / (used + training), self.budget / used)
        return math.floor(min(run, self.max_workers) + 0.5)

    def _pausing(self) -> bool:
        return (
            self._shrunk_for is not None and self._taken_back > 0 and self._shrunk_for < PAUSE << (self._taken_back - 1)
        )

    def _moved(self, r: _Reading) -> bool:
        """In a pause: whether the rate has left its band, so that the former limit may hold no longer."""
        if r.relative_error() > (1 - BAND) / 4 and not r.full():
            return False
        rate, self._reading = r.per_second("rows"), _Reading()
        if self._usual is None:
            self._usual = rate
        inside = BAND * self._usual <= rate <= self._usual / BAND
        if inside or self._shrunk_for is None or self._shrunk_for < PAUSE << self._early:
            return False
        self._early += 1
        return True

    def _judge(self, r: _Reading, trial: _Trial) -> None:
        gain, error = r.per_second("rows") / trial.rate if trial.rate else math.inf, r.relative_error()
        both = min(1.0, math.hypot(error, trial.error))
        unclear = not 0 < gain < math.inf or abs(math.log(gain / math.sqrt(trial.gain))) < CLEAR * both
        if unclear and error > trial.error / 2 and not r.full():
            return  # below that, the error is that of the rate before
        self._trial = None
        if gain >= math.sqrt(trial.gain) or r.per_second("waited_s") <= WAIT:
            return  # kept; the same reading may ask for more
        useful = max(trial.workers, math.ceil(trial.workers * gain * (1 - both) - 0.25))
        if useful < self.workers:
            self._change(useful, f"{self.workers} workers gave {gain:.2f} times the rows of {trial.workers}")

    def _change(self, workers: int, why: str) -> None:
        self.reason = f"{why}: {self.workers} -> {workers} workers"
        if workers > self.workers:
            self._grown, self._shrunk_for = True, None
        else:
            self._taken_back += self._grown
            self._grown, self._shrunk_for, self._trial = False, 0, None
        self._usual = None
        self.workers = workers
        self.changes += 1
        self._reading, self._settling = _Reading(), (0, 0)
