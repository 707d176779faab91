"""How loaders cope with slow samples, in virtual time: leat, torch and MinatoLoader's published rule against a
work-conserving bound.

    python bench/simulate.py [--workloads segmentation ...] [--workers 1 2 4 ...] [--steps 0.1 0.25] [--each]

A discrete-event simulation: workers take tasks, the consumer takes a batch and trains for a step; taking, queues and
memory cost nothing. So it tells what the rule of a loader costs, and nothing else. The workloads are in
bench/workloads.py.

The bound is the least time in which n workers and this consumer can deliver the run's M batches, from a cold start to
the end of the last step. W(b) is the least work that b batches can be made of: of the batches in plan order for a
loader that keeps it, of the shortest b batches' worth of samples for any other. L(b) is the longest sample among those.
Then

    bound = max over b of  max(W(b) / n, L(b)) + (M - b + 1) step

because batch b cannot be taken before its samples are done, and from there on M - b + 1 steps follow, one after the
other. b = 1 is the consumer's bound with the wait for its first batch, b = M that of the workers. No loader can beat
it. A run is many epochs (`--epochs`), so that what the bound cannot know (at the end of a run no work is left for a
worker that is done) hardly counts: at 64 workers up to 0.2% of it. Every figure is bound / time, the least over the
steps unless `--each` is given.

What is simulated:

- `leat`: a worker takes the earliest row that nobody has taken, of all batches of the window, whatever their epoch. The
  window is refilled when the consumer takes a batch. (The engine takes runs of rows that together take 0.2 ms; here
  each row takes longer.) `leat 24` has 24 batches in flight; `leat 8n` as many more as it takes for eight rows per
  worker (see `window`).
- `any order`: `in_order=False`. Rows are taken so too, and fill the batches of their epoch as they are done; no row is
  taken that is a window or more behind the oldest one not done, so none is starved.
- `torch`, `torch any`: the unit is a batch, dealt out in turn to the workers' queues, `prefetch_factor` 2; at the end
  of an epoch nothing is dealt until the consumer begins the next (persistent workers, as they do it).
- `Minato 75`, `Minato 90`: a sample that has taken longer than that percentile is set aside after the transform at hand
  and finished when no fresh one is wanted; batches are made of what is ready, fast ones first. Workers = min(n, max(1,
  workers + D)), D = a(1 - Q/Qmax) + b(C - theta) clipped to [-2, 2], once a second, Q rows ready, C the share of the n
  workers that is busy. The paper prints neither a, b, theta nor Qmax: here 2, 2, 0.7 and the rows of 24 batches.
  `Minato lit.` is the letter of its algorithm, which runs the transform at hand again when it resumes. Its epochs are
  not chained.
"""

from __future__ import annotations

import argparse
import heapq
import itertools
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
from workloads import WORKLOADS, Workload


@dataclass
class Job:
    """Rows in plan order: seconds of each; `batches` are (begin, end) of rows, in order, none across an epoch's end."""

    times: list[float]
    batch: int
    epoch: int
    step: float
    parts: Callable[[float], list[float]] = lambda seconds: [seconds]

    @classmethod
    def of(cls, workload: Workload, epochs: int, step: float, seed: int = 0) -> Job:
        return cls(
            workload.times(epochs * workload.epoch, seed).tolist(), workload.batch, workload.epoch, step, workload.parts
        )

    def __post_init__(self) -> None:
        self.batches = [
            (row, min(row + self.batch, end))
            for begin in range(0, len(self.times), self.epoch)
            for end in [min(begin + self.epoch, len(self.times))]
            for row in range(begin, end, self.batch)
        ]
        self.per_epoch = -(-self.epoch // self.batch)

    def epoch_of(self, batch: int) -> int:
        return batch // self.per_epoch


def bound(job: Job, workers: int, ordered: bool) -> float:
    """Seconds: see above."""
    times = np.array(job.times if ordered else sorted(job.times))
    ends = np.array([end for _, end in job.batches])
    ready = np.maximum(times.cumsum() / workers, np.maximum.accumulate(times))[ends - 1]
    return float((ready + (len(ends) - np.arange(len(ends))) * job.step).max())


Task = tuple[float, object]
"""Seconds, and what the loader calls it."""


class Loader:
    """The rule of a loader. The simulation calls these; `now` is set before each."""

    now = 0.0
    shared = True
    """One queue for all workers: if one finds nothing to do, none does."""

    def __init__(self, job: Job, workers: int) -> None:
        self.job, self.workers = job, workers

    def asked(self) -> None:
        """The consumer comes for a batch."""

    def take(self) -> list[int] | None:
        """The rows of the batch that the consumer gets now, if there is one."""
        raise NotImplementedError

    def next(self, worker: int) -> Task | None:
        """What this idle worker does now, if anything."""
        raise NotImplementedError

    def done(self, worker: int, what: object) -> None:
        raise NotImplementedError


@dataclass
class Run:
    seconds: float = 0.0
    busy: float = 0.0
    """Seconds of all workers in tasks."""
    waited: float = 0.0
    """Seconds that the consumer waited."""
    delivered: list[list[int]] = field(default_factory=list)
    tasks: list[tuple[float, float]] = field(default_factory=list)
    """When each began and ended."""
    waits: list[tuple[float, float]] = field(default_factory=list)
    """When the consumer waited."""


def simulate(loader: Loader) -> Run:
    """Runs the job to the end of its last step."""
    job, out = loader.job, Run()
    events: list[tuple[float, int, int, object]] = [(0.0, 0, -1, None)]
    order = itertools.count(1)
    idle = list(range(loader.workers))
    waiting: float | None = None
    while events:
        now, _, worker, what = heapq.heappop(events)
        loader.now = now
        if worker >= 0:
            loader.done(worker, what)
            idle.append(worker)
        elif len(out.delivered) == len(job.batches):
            out.seconds = now
            return out
        else:
            waiting = now
            loader.asked()
        if waiting is not None and (rows := loader.take()) is not None:
            out.delivered.append(rows)
            out.waited += now - waiting
            out.waits.append((waiting, now))
            waiting = None
            heapq.heappush(events, (now + job.step, next(order), -1, None))
        still = []
        while idle:
            worker = idle.pop()
            task = loader.next(worker)
            if task:
                out.busy += task[0]
                out.tasks.append((now, now + task[0]))
                heapq.heappush(events, (now + task[0], next(order), worker, task[1]))
            else:
                still.append(worker)
                if loader.shared:
                    break
        idle += still
    raise RuntimeError(f"{type(loader).__name__} stopped after {len(out.delivered)} of {len(job.batches)} batches")


class InOrder(Loader):
    """leat, in_order=True."""

    def __init__(self, job: Job, workers: int, window: int = 24) -> None:
        super().__init__(job, workers)
        self.window, self.taken, self.row = window, 0, 0
        self.left = [end - begin for begin, end in job.batches]
        self.batch_of = [b for b, (begin, end) in enumerate(job.batches) for _ in range(begin, end)]

    def take(self) -> list[int] | None:
        if self.left[self.taken]:
            return None
        self.taken += 1
        return list(range(*self.job.batches[self.taken - 1]))

    def next(self, worker: int) -> Task | None:
        if self.row == len(self.batch_of) or self.batch_of[self.row] >= self.taken + self.window:
            return None
        self.row += 1
        return self.job.times[self.row - 1], self.row - 1

    def done(self, worker: int, what: object) -> None:
        assert isinstance(what, int)
        self.left[self.batch_of[what]] -= 1


class AnyOrder(InOrder):
    """leat, in_order=False."""

    def __init__(self, job: Job, workers: int, window: int = 24) -> None:
        super().__init__(job, workers, window)
        self.finished = bytearray(len(job.times))
        self.oldest = 0
        self.ready: dict[int, deque[int]] = {}

    def take(self) -> list[int] | None:
        begin, end = self.job.batches[self.taken]
        ready = self.ready.get(self.job.epoch_of(self.taken), ())
        if len(ready) < end - begin:
            return None
        assert isinstance(ready, deque)
        self.taken += 1
        return [ready.popleft() for _ in range(begin, end)]

    def next(self, worker: int) -> Task | None:
        if self.row >= self.oldest + self.window * self.job.batch:
            return None
        return super().next(worker)

    def done(self, worker: int, what: object) -> None:
        assert isinstance(what, int)
        self.finished[what] = 1
        while self.oldest < len(self.finished) and self.finished[self.oldest]:
            self.oldest += 1
        self.ready.setdefault(self.job.epoch_of(self.batch_of[what]), deque()).append(what)


class Torch(Loader):
    """torch.utils.data.DataLoader, persistent workers."""

    shared = False

    def __init__(self, job: Job, workers: int, in_order: bool = True, prefetch: int = 2) -> None:
        super().__init__(job, workers)
        self.in_order, self.prefetch = in_order, prefetch
        self.seconds = [sum(job.times[begin:end]) for begin, end in job.batches]
        self.queues: list[deque[int]] = [deque() for _ in range(workers)]
        self.tasks = [0] * workers
        self.owner: dict[int, int] = {}
        self.turn: Iterator[int] = iter(())
        self.sent = self.taken = self.end = 0
        self.ready: dict[int, None] = {}

    def asked(self) -> None:
        if self.taken == self.end:  # the epoch is over: the next one begins
            self.end = min(self.end + self.job.per_epoch, len(self.job.batches))
            self.turn = itertools.cycle(range(self.workers))
            for _ in range(self.prefetch * self.workers):
                self._put()

    def _put(self) -> None:
        if self.sent == self.end:
            return
        worker = next(w for w in self.turn if self.in_order or self.tasks[w] < self.prefetch)
        self.queues[worker].append(self.sent)
        self.owner[self.sent] = worker
        self.tasks[worker] += 1
        self.sent += 1

    def take(self) -> list[int] | None:
        batch = self.taken if self.in_order else next(iter(self.ready), -1)
        if batch not in self.ready:
            return None
        del self.ready[batch]
        self.taken += 1
        self.tasks[self.owner.pop(batch)] -= 1
        self._put()
        return list(range(*self.job.batches[batch]))

    def next(self, worker: int) -> Task | None:
        if not self.queues[worker]:
            return None
        batch = self.queues[worker].popleft()
        return self.seconds[batch], batch

    def done(self, worker: int, what: object) -> None:
        assert isinstance(what, int)
        self.ready[what] = None


class Minato(Loader):
    """MinatoLoader as published: what is unprinted is in the text above."""

    shared = False
    A, B, THETA = 2.0, 2.0, 0.7

    def __init__(
        self, job: Job, workers: int, percentile: float = 75, window: int = 24, repeat: bool = False, adapt: bool = True
    ) -> None:
        super().__init__(job, workers)
        self.timeout = float(np.percentile(job.times, percentile)) * (1 + 1e-9)
        self.room, self.repeat, self.adapt = window * job.batch, repeat, adapt
        self.active, self.running = workers, 0
        self.looked, self.busy_since = 0.0, 0.0
        self.fast: deque[int] = deque()
        self.slow: deque[int] = deque()
        self.aside: deque[tuple[int, float]] = deque()
        self.row = self.taken = self.limit = self.flying = 0

    def asked(self) -> None:
        if self.taken % self.job.per_epoch == 0:
            self.limit = min((self.job.epoch_of(self.taken) + 1) * self.job.epoch, len(self.job.times))

    def take(self) -> list[int] | None:
        begin, end = self.job.batches[self.taken]
        if len(self.fast) + len(self.slow) < end - begin:
            return None
        self.taken += 1
        return [(self.fast or self.slow).popleft() for _ in range(begin, end)]

    def _schedule(self) -> None:
        while self.adapt and self.now >= self.looked + 1:
            self.looked += 1
            filled = (len(self.fast) + len(self.slow)) / self.room
            change = self.A * (1 - filled) + self.B * (self.running / self.workers - self.THETA)
            self.active = min(self.workers, max(1, self.active + round(max(-2.0, min(2.0, change)))))

    def next(self, worker: int) -> Task | None:
        self._schedule()
        if self.running >= self.active:
            return None
        if self.row < self.limit and len(self.fast) + len(self.slow) + self.flying < self.room:
            row, self.row = self.row, self.row + 1
            self.flying += 1
            self.running += 1
            spent, parts = 0.0, self.job.parts(self.job.times[row])
            for i, part in enumerate(parts):
                spent += part
                if spent > self.timeout and i + 1 < len(parts):
                    return spent, (row, sum(parts[i if self.repeat else i + 1 :]))
            return spent, (row, 0.0)
        if self.aside:
            row, rest = self.aside.popleft()
            self.running += 1
            return rest, (row, -1.0)
        return None

    def done(self, worker: int, what: object) -> None:
        assert isinstance(what, tuple)
        row, rest = what
        self.running -= 1
        self.flying -= rest >= 0
        if rest > 0:
            self.aside.append((row, rest))
        else:
            (self.fast if rest == 0 else self.slow).append(row)


def window(workers: int, batch: int) -> int:
    """Batches in flight: 24, and eight rows per worker where that is more.

    A worker on the longest sample holds up the batches behind it; meanwhile the others take longest / mean rows each,
    about 4.4 on three of the workloads. So many rows per worker must be in the window, and some more, because long
    samples come in clusters.
    """
    return max(24, -(-8 * workers // batch))


LOADERS: dict[str, Callable[[Job, int], Loader]] = {
    "leat 24": lambda job, n: InOrder(job, n),
    "leat 8n": lambda job, n: InOrder(job, n, window(n, job.batch)),
    "any order": lambda job, n: AnyOrder(job, n, window(n, job.batch)),
    "torch": lambda job, n: Torch(job, n),
    "torch any": lambda job, n: Torch(job, n, in_order=False),
    "Minato 75": lambda job, n: Minato(job, n, 75),
    "Minato 90": lambda job, n: Minato(job, n, 90),
    "Minato lit.": lambda job, n: Minato(job, n, 75, repeat=True),
}
ORDERED = ("leat 24", "leat 8n", "torch")
EPOCHS = {"detection": 4, "segmentation": 400, "speech-3s": 16, "speech-10s": 16}


def share_of_bound(name: str, job: Job, workers: int) -> float:
    """bound / time: 1 is perfect."""
    return bound(job, workers, name in ORDERED) / simulate(LOADERS[name](job, workers)).seconds


def main() -> None:
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("--workloads", nargs="+", choices=WORKLOADS, default=list(WORKLOADS))
    a.add_argument("--loaders", nargs="+", choices=LOADERS, default=list(LOADERS))
    a.add_argument("--workers", type=int, nargs="+", default=[1, 2, 4, 8, 15, 16, 32, 64])
    a.add_argument("--steps", type=float, nargs="+", default=[0.1, 0.15, 0.2, 0.25], help="seconds of a training step")
    a.add_argument("--each", action="store_true", help="show each step")
    a.add_argument("--epochs", type=int, help=f"default: {EPOCHS}")
    o = a.parse_args()
    for name in o.workloads:
        jobs = [Job.of(WORKLOADS[name], o.epochs or EPOCHS[name], step) for step in o.steps]
        print(f"\n{name}, percent of the bound\nworkers  step  " + "".join(f"{x:>12}" for x in o.loaders), flush=True)
        for workers in o.workers:
            shares = [[100 * share_of_bound(x, job, workers) for x in o.loaders] for job in jobs]
            least = [min(column) for column in zip(*shares)]
            for step, row in [(job.step, row) for job, row in zip(jobs, shares)] if o.each else [("least", least)]:
                print(f"{workers:7} {step:>5}  " + "".join(f"{x:12.1f}" for x in row), flush=True)


if __name__ == "__main__":
    main()
