"""A cluster in virtual time, for bench/cluster_sim.py.

A run is a pipeline of operators over source tasks (units), nodes with CPUs and GPUs of some speed, their stores as one,
and a consumer that takes batches: in order, or whatever is ready. Simulated: a CPU or GPU runs one task at a time; a
task's inputs lie in the stores until it ends, its outputs have room from its start; a dead node's tasks hang until Ray
finds it dead, and its objects are made again from their source tasks. The output of the last operator is with the
consumer and is never lost.
"""

from __future__ import annotations

import heapq
import random
from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Protocol

MB, GB = 1 << 20, 1 << 30
TASK_S = 1.7e-3  #: CPU seconds of an empty task, all processes of Ray together (measured with Ray 2.60)


@dataclass(frozen=True)
class Op:
    name: str
    row_s: float  #: of work, at speed 1
    row_bytes: int  #: of its output
    store_s: float = 0.0  #: to read a row's input and write its output
    gpu: bool = False


@dataclass(frozen=True)
class Job:
    """`units` source tasks of `rows` rows each, which give `split` objects each. A batch has `batch` units."""

    ops: tuple[Op, ...]
    units: int
    rows: int
    split: int = 1
    batch: int = 1
    step_s: float = 0.0  #: the consumer's own time for a batch
    jitter: float = 0.0  #: spread of the logarithm of a task's time

    def bytes_after(self, op: int) -> int:
        """Of one object."""
        return self.ops[op].row_bytes * self.rows // self.split

    def output(self, op: int) -> int:
        """Of one task, in bytes."""
        return self.bytes_after(op) * (self.split if op == 0 else 1)

    def task_s(self, op: int) -> float:
        """At speed 1."""
        rows = self.rows if op == 0 else self.rows // self.split
        return rows * (self.ops[op].row_s + self.ops[op].store_s) + TASK_S


@dataclass
class Node:
    cpus: int
    gpus: int = 0
    speed: float = 1.0
    life: int = 0  #: odd: dead


@dataclass
class Task:
    op: int
    unit: int
    part: int
    node: int
    life: int
    hangs_on: int = -1  #: a dead node that has its input


class Policy(Protocol):
    """The scheduler of a run: `act` launches what can be launched, after each event."""

    takes: str  #: what the consumer takes: "order": batches in order; "batches": those that are whole; "any": objects

    def begin(self, sim: Sim) -> None: ...
    def act(self, sim: Sim) -> None: ...
    def ended(self, sim: Sim, task: Task, lost: bool) -> None: ...


class Sim:
    """One run. `events` are (time, serial number, action)."""

    def __init__(self, job: Job, nodes: list[Node], store: int, policy: Policy, seed: int = 0, detect_s: float = 14.6):
        """`store`: bytes of all; `detect_s`: until Ray finds a node dead that was killed, by default."""
        self.job, self.nodes, self.store, self.policy = job, nodes, store, policy
        self.rng, self.detect_s = random.Random(seed), detect_s
        self.now, self.serial, self.events = 0.0, 0, list[tuple[float, int, Callable[[], None]]]()
        #: nodes with a free CPU, and GPU, as often as they have one; with an idle actor of operator 1, 2, ... on CPUs
        self.free = [deque[int]() for _ in range(2 + len(job.ops))]
        self.queues = [list[tuple[int, int]]() for _ in job.ops]  #: heaps of (unit, part)
        self.place = dict[tuple[int, int], int]()  #: of objects that wait, the node
        self.fresh, self.lost = 0, list[int]()  #: units from `fresh` on were never launched; a heap of those to repeat
        self.need = dict[int, set[int]]()  #: parts of a unit that its source has still to give
        self.sources = set[int]()  #: units whose source task runs
        self.running = dict[int, Task]()
        self.count = [0] * len(job.ops)  #: running tasks
        self.used = self.peak = 0  #: bytes in stores
        self.ready, self.ready_of = 0, defaultdict[int, int](int)
        self.whole, self.passed = list[int](), set[int]()  #: heaps of batches; those that were taken beyond `first`
        self.first = self.taken = 0  #: the earliest batch that was not taken; how many were
        self.batches = -(-job.units // job.batch)
        self.busy_until = 0.0  #: the consumer with its batch
        self.delivered = list[tuple[float, int]]()  #: (when, units)
        self.repeated = 0  #: source tasks that ran more than once
        for node in range(len(nodes)):
            self.join(node)
        policy.begin(self)

    def at(self, delay: float, action: Callable[[], None]) -> None:
        self.serial += 1
        heapq.heappush(self.events, (self.now + delay, self.serial, action))

    def run(self, limit_s: float = 1e6) -> Sim:
        self.policy.act(self)
        while self.taken < self.batches and self.events and self.now < limit_s:
            self.now, _, action = heapq.heappop(self.events)
            action()
            while self.events and self.events[0][0] == self.now:
                heapq.heappop(self.events)[2]()
            self.policy.act(self)
        return self

    def join(self, node: int) -> None:
        self.nodes[node].life += self.nodes[node].life % 2
        self.free[0].extend([node] * self.nodes[node].cpus)
        self.free[1].extend([node] * self.nodes[node].gpus)

    def wanted(self) -> Iterator[int]:
        """Units to launch, in order."""
        return chain(sorted(self.lost), range(self.fresh, self.job.units))

    def start(self, op: int, unit: int, part: int, node: int) -> None:
        task = Task(op, unit, part, node, self.nodes[node].life)
        self.serial += 1
        serial = self.serial
        self.running[serial] = task
        self.count[op] += 1
        if op == 0:
            if unit == self.fresh:
                self.fresh += 1
                self.need[unit] = set(range(self.job.split))
            else:
                self.repeated += 1
                self.lost.remove(unit)
                heapq.heapify(self.lost)
            self.sources.add(unit)
        else:
            held_by = self.place.pop((unit, part))
            task.hangs_on = held_by if self.nodes[held_by].life % 2 else -1
        self.used += self.job.output(op)
        self.peak = max(self.peak, self.used)
        seconds = self.job.task_s(op) / self.nodes[node].speed
        if self.job.jitter:
            seconds *= self.rng.lognormvariate(0, self.job.jitter)
        if self.alive(task) and task.hangs_on < 0:
            self.at(seconds, lambda: self.end(serial))

    def alive(self, task: Task) -> bool:
        """Whether its node still is the one that it was started on."""
        return task.life % 2 == 0 and self.nodes[task.node].life == task.life

    def end(self, serial: int) -> None:
        task = self.running.get(serial)
        if task is None or not self.alive(task):
            return  # its node has died; `detected` clears up
        self.leave(serial, False)
        given = [task.part]
        if task.op == 0:
            given = sorted(self.need[task.unit])
            self.need[task.unit].clear()
            self.used -= self.job.bytes_after(0) * (self.job.split - len(given))
        for part in given:
            if task.op + 1 < len(self.job.ops):
                heapq.heappush(self.queues[task.op + 1], (task.unit, part))
                self.place[task.unit, part] = task.node
            else:
                batch = task.unit // self.job.batch
                self.ready += 1
                self.ready_of[batch] += 1
                if self.ready_of[batch] == self.parts_of(batch):
                    heapq.heappush(self.whole, batch)
        self.consume()

    def leave(self, serial: int, lost: bool) -> Task:
        """A task runs no more, and its input is not needed."""
        task = self.running.pop(serial)
        self.count[task.op] -= 1
        self.sources.difference_update(() if task.op else (task.unit,))
        self.used -= self.job.bytes_after(task.op - 1) if task.op else 0
        self.policy.ended(self, task, lost)
        return task

    def parts_of(self, batch: int) -> int:
        return min(self.job.batch, self.job.units - batch * self.job.batch) * self.job.split

    def consume(self) -> None:
        if self.now < self.busy_until or self.taken == self.batches:
            return
        if self.policy.takes == "any":
            if self.ready < self.parts_of(self.taken):
                return
            batch = self.taken
        else:
            if not self.whole or (self.policy.takes == "order" and self.whole[0] != self.first):
                return
            batch = heapq.heappop(self.whole)
        parts = self.parts_of(batch)
        self.passed.add(batch)
        while self.first in self.passed:
            self.passed.remove(self.first)
            self.first += 1
        self.ready -= parts
        self.used -= parts * self.job.bytes_after(len(self.job.ops) - 1)
        self.taken += 1
        self.delivered.append((self.now, parts // self.job.split))
        self.busy_until = self.now + self.job.step_s
        self.at(self.job.step_s, self.consume)

    # Failures.

    def lose(self, serial: int) -> None:
        """A task is known to be lost, and has to run again from its source."""
        task = self.leave(serial, True)
        self.used -= self.job.output(task.op)
        self.again(task.unit, task.part if task.op else None)

    def again(self, unit: int, part: int | None = None) -> None:
        if part is not None:
            self.need[unit].add(part)
        if self.need[unit] and unit not in self.sources and unit not in self.lost:
            heapq.heappush(self.lost, unit)

    def fail(self, node: int, down_s: float) -> None:
        if self.nodes[node].life % 2 == 0:
            self.nodes[node].life += 1
            self.at(min(self.detect_s, down_s), lambda: self.detected(node))
            self.at(down_s, lambda: self.join(node))

    def detected(self, node: int) -> None:
        self.free = [deque(n for n in free if n != node) for free in self.free]
        for serial in [s for s, task in self.running.items() if node in (task.node, task.hangs_on)]:
            self.lose(serial)
        away = {key for key, held_by in self.place.items() if held_by == node}
        for op, queue in enumerate(self.queues):
            self.queues[op] = [key for key in queue if key not in away]
            self.used -= (len(queue) - len(self.queues[op])) * self.job.bytes_after(op - 1)
            heapq.heapify(self.queues[op])
        for unit, part in away:
            del self.place[unit, part]
            self.again(unit, part)

    def fail_at_random(self, node_mtbf_s: float, down_s: float) -> None:
        def strike() -> None:
            self.fail(self.rng.randrange(len(self.nodes)), down_s)
            self.at(self.rng.expovariate(len(self.nodes) / node_mtbf_s), strike)

        self.at(self.rng.expovariate(len(self.nodes) / node_mtbf_s), strike)
