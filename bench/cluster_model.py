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
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain

from leat.ray.policies import TASK_S

MB, GB = 1 << 20, 1 << 30
DETECT_S = 14.6  #: until Ray finds a node dead that was killed, by default


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
    known: int = 0  #: the life that the scheduler knows of


@dataclass
class Task:
    op: int
    unit: int
    part: int
    node: int
    life: int
    began: float
    hangs_on: int = -1  #: a dead node that has its input
    again: bool = False  #: a second one, of a late partition


class Policy:
    """The scheduler of a run. `act` launches what can be launched, after each event; the others tell it of events."""

    in_order = False
    tick_s = 1.0

    def begin(self, sim: Sim) -> None: ...

    def act(self, sim: Sim) -> None: ...

    def tick(self, sim: Sim) -> None: ...

    def ended(self, sim: Sim, task: Task, lost: bool = False) -> None: ...

    def delivered(self, sim: Sim, batch: int) -> None: ...

    def gone(self, sim: Sim, node: int) -> None: ...

    def joined(self, sim: Sim, node: int) -> None: ...


class Sim:
    """One run. `events` are (time, serial number, action)."""

    def __init__(
        self, job: Job, nodes: list[Node], store: int, policy: Policy, seed: int = 0, detect_s: float = DETECT_S
    ):
        self.job, self.nodes, self.store, self.policy = job, nodes, store, policy
        self.rng, self.detect_s = random.Random(seed), detect_s
        self.now, self.serial, self.events = 0.0, 0, list[tuple[float, int, Callable[[], None]]]()
        self.free = {
            gpu: {n: c for n, node in enumerate(nodes) if (c := node.gpus if gpu else node.cpus)} for gpu in (0, 1)
        }
        self.queues = [list[tuple[int, int]]() for _ in job.ops]  #: heaps of (unit, part)
        self.place = dict[tuple[int, int], int]()  #: of objects that wait, the node
        self.fresh, self.lost = 0, list[int]()  #: units from `fresh` on were never launched; a heap of those to repeat
        self.need = dict[int, set[int]]()  #: parts of a unit that its source has still to give
        self.sources = defaultdict[int, int](int)  #: source tasks of a unit that run
        self.running = dict[int, Task]()
        self.count = [0] * len(job.ops)  #: running tasks
        self.used = self.peak = 0  #: bytes in stores
        self.ready, self.ready_of = 0, defaultdict[int, int](int)
        self.taken, self.batches = 0, -(-job.units // job.batch)
        self.busy = False
        self.delivered = list[tuple[float, int]]()  #: (when, units)
        self.repeated = 0  #: source tasks that ran more than once
        policy.begin(self)
        self.at(policy.tick_s, self.tick)

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

    def tick(self) -> None:
        self.policy.tick(self)
        self.at(self.policy.tick_s, self.tick)

    # Tasks.

    def wanted(self) -> Iterator[int]:
        """Units to launch, in order."""
        return chain(sorted(self.lost), range(self.fresh, self.job.units))

    def output(self, op: int) -> int:
        return self.job.bytes_after(op) * (self.job.split if op == 0 else 1)

    def start(self, op: int, unit: int, part: int, node: int, again: bool = False) -> Task:
        life = self.nodes[node].life
        task = Task(op, unit, part, node, life, self.now, again=again)
        self.serial += 1
        self.running[self.serial] = task
        self.count[op] += 1
        if op == 0:
            self.repeated += again or unit in self.need
            if not again:
                if unit == self.fresh:
                    self.fresh += 1
                    self.need[unit] = set(range(self.job.split))
                else:
                    self.lost.remove(unit)
                    heapq.heapify(self.lost)
            self.sources[unit] += 1
        else:
            held_by = self.place.pop((unit, part))
            task.hangs_on = held_by if self.nodes[held_by].life % 2 else -1
        self.used += self.output(op)
        self.peak = max(self.peak, self.used)
        seconds = self.job.task_s(op) / self.nodes[node].speed
        if self.job.jitter:
            seconds *= self.rng.lognormvariate(0, self.job.jitter)
        if self.alive(task) and task.hangs_on < 0:
            serial = self.serial
            self.at(seconds, lambda: self.end(serial))
        return task

    def take_slot(self, gpu: bool, node: int) -> None:
        free = self.free[gpu]
        free[node] -= 1
        if not free[node]:
            del free[node]

    def give_slot(self, gpu: bool, node: int) -> None:
        self.free[gpu][node] = self.free[gpu].get(node, 0) + 1

    def alive(self, task: Task) -> bool:
        """Whether its node still is the one that it was started on."""
        return task.life % 2 == 0 and self.nodes[task.node].life == task.life

    def end(self, serial: int) -> None:
        task = self.running.get(serial)
        if task is None or not self.alive(task):
            return  # its node has died; `detected` clears up
        del self.running[serial]
        self.count[task.op] -= 1
        if task.op == 0:
            self.sources[task.unit] -= 1
            parts = self.need.get(task.unit, set())
            self.used -= self.job.bytes_after(0) * (self.job.split - len(parts))
            given = sorted(parts)
            parts.clear()
        else:
            self.used -= self.job.bytes_after(task.op - 1)
            given = [task.part]
        self.policy.ended(self, task)
        for part in given:
            if task.op + 1 < len(self.job.ops):
                heapq.heappush(self.queues[task.op + 1], (task.unit, part))
                self.place[task.unit, part] = task.node
            else:
                self.ready += 1
                self.ready_of[task.unit // self.job.batch] += 1
        self.consume()

    def parts_of(self, batch: int) -> int:
        return min(self.job.batch, self.job.units - batch * self.job.batch) * self.job.split

    def consume(self) -> None:
        if self.busy or self.taken == self.batches:
            return
        parts = self.parts_of(self.taken)
        if (self.ready_of[self.taken] if self.policy.in_order else self.ready) < parts:
            return
        self.ready -= parts
        self.used -= parts * self.job.bytes_after(len(self.job.ops) - 1)
        self.policy.delivered(self, self.taken)
        self.taken += 1
        self.delivered.append((self.now, parts // self.job.split))
        self.busy = True
        self.at(self.job.step_s, self.step)

    def step(self) -> None:
        self.busy = False
        self.consume()

    # Failures.

    def lose(self, serial: int) -> None:
        """A task is known to be lost, and has to run again from its source."""
        task = self.running.pop(serial)
        self.count[task.op] -= 1
        self.used -= self.output(task.op)
        if task.op == 0:
            self.sources[task.unit] -= 1
        else:
            self.used -= self.job.bytes_after(task.op - 1)
            self.need[task.unit].add(task.part)
        self.policy.ended(self, task, lost=True)
        self.again(task.unit)

    def again(self, unit: int) -> None:
        if self.need.get(unit) and not self.sources[unit] and unit not in self.lost:
            heapq.heappush(self.lost, unit)

    def fail(self, node: int, down_s: float) -> None:
        if self.nodes[node].life % 2:
            return
        self.nodes[node].life += 1
        self.at(min(self.detect_s, down_s), lambda: self.detected(node))
        self.at(down_s, lambda: self.join(node))

    def detected(self, node: int) -> None:
        for free in self.free.values():
            free.pop(node, None)
        self.policy.gone(self, node)
        for serial in [s for s, task in self.running.items() if task.node == node or task.hangs_on == node]:
            self.lose(serial)
        away = {key for key, held_by in self.place.items() if held_by == node}
        for op, queue in enumerate(self.queues):
            kept = [key for key in queue if key not in away]
            self.used -= (len(queue) - len(kept)) * self.job.bytes_after(op - 1)
            self.queues[op] = kept
            heapq.heapify(kept)
        for unit, part in away:
            del self.place[unit, part]
            self.need[unit].add(part)
            self.again(unit)

    def join(self, node: int) -> None:
        self.nodes[node].life += 1
        for gpu, slots in enumerate((self.nodes[node].cpus, self.nodes[node].gpus)):
            if slots:
                self.free[gpu][node] = slots
        self.policy.joined(self, node)

    def fail_at_random(self, node_mtbf_s: float, down_s: float) -> None:
        def strike() -> None:
            self.fail(self.rng.randrange(len(self.nodes)), down_s)
            self.at(self.rng.expovariate(len(self.nodes) / node_mtbf_s), strike)

        self.at(self.rng.expovariate(len(self.nodes) / node_mtbf_s), strike)
