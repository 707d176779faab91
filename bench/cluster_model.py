"""A cluster in virtual time and two schedulers for it, for bench/cluster_sim.py.

A run is a pipeline of operators over source tasks (units), on nodes whose stores count as one, and a consumer that
takes batches. The schedulers' decisions are no copies: `Leat` asks what `leat.ray.Loader` asks of leat.ray.policies,
and `RayData` runs Algorithms 1 and 2 of arXiv 2501.12407 from there.
"""

from __future__ import annotations

import heapq
import random
from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import chain, count, takewhile
from typing import Any

from leat.ray import policies
from leat.ray.policies import LOOK_S, Call, Load, Make, Operator, Partition, Pipeline, Queue, State

MB, GB = 1 << 20, 1 << 30
TASK_S = 1.7e-3  #: CPU seconds of an empty task, all processes of Ray together (measured with Ray 2.60)
ACTOR_S = 1.0  #: until an actor that has its place takes calls


@dataclass(frozen=True)
class Op:
    row_s: float  #: of work, also with the store, at speed 1
    row_bytes: int  #: of its output
    gpu: bool = False


@dataclass(frozen=True)
class Job:
    """`units` source tasks of `rows` rows each, which give `split` objects each. A batch has `batch` units."""

    ops: tuple[Op, ...]
    units: int
    rows: int
    split: int = 1
    batch: int = 1
    takes: str = "order"  #: the consumer: batches in "order"; "batches" that are whole; "any" objects
    step_s: float = 0.0  #: its own time for a batch
    jitter: float = 0.0  #: spread of the logarithm of a task's time

    def bytes_after(self, op: int) -> int:
        """Of one object. Nothing lies before the source."""
        return self.ops[op].row_bytes * self.rows // self.split if op >= 0 else 0

    def output(self, op: int) -> int:
        """Of one task, in bytes."""
        return self.bytes_after(op) * (self.split if op == 0 else 1)

    def task_s(self, op: int) -> float:
        """At speed 1."""
        rows = self.rows if op == 0 else self.rows // self.split
        return rows * self.ops[op].row_s + TASK_S


@dataclass
class Node:
    cpus: int
    gpus: int = 0
    speed: float = 1.0
    dead: bool = False


@dataclass(eq=False)
class Task:
    op: int
    slot: int  #: number in `Sim.free` of what it occupies
    node: int
    unit: int
    part: int
    held_by: int | None  #: node that had its input
    hangs: bool  #: until a node is found dead


class Sim:
    """One run. `store`: bytes of all nodes; `make`: its scheduler, whose `act` launches tasks after each event."""

    detect_s = 14.6  #: until Ray finds a node dead that was killed, by default

    def __init__(self, job: Job, nodes: list[Node], store: int, make: Callable[[Sim], Any], seed: int = 0):
        self.job, self.nodes, self.store, self.rng = job, nodes, store, random.Random(seed)
        self.now, self.events = 0.0, list[tuple[float, int, Callable[[], None]]]()  #: when, serial number, what is done
        self.serials = count()
        #: nodes with a free CPU, and GPU, as often as they have one; with an idle actor of operator 1, 2, ...
        self.free = [deque[int]() for _ in range(1 + len(job.ops))]
        self.cpus = 0  #: of nodes that are not known to be dead
        self.queues = [list[tuple[int, int, int]]() for _ in job.ops]  #: heaps of objects: unit, part, node that has it
        self.fresh, self.lost = 0, set[int]()  #: units from `fresh` on were never launched; those to repeat
        self.running = dict[Task, None]()
        self.count, self.ended = [0 for _ in job.ops], [0 for _ in job.ops]  #: tasks that run, and that have ended
        self.used = self.peak = 0  #: bytes in stores
        self.ready, self.ready_of = 0, defaultdict[int, int](int)
        self.whole, self.passed = list[tuple[int, int]](), set[int]()  #: heap of (batch, its objects); those taken
        self.first, self.taken, self.busy_until = 0, 0, 0.0  #: the earliest batch not taken; how many are
        self.delivered = list[tuple[float, int]]()  #: (when, units)
        self.repeated = 0  #: source tasks that ran more than once
        for node in range(len(nodes)):
            self.join(node)
        self.policy = make(self)

    def at(self, delay: float, action: Callable[[], None]) -> None:
        heapq.heappush(self.events, (self.now + delay, next(self.serials), action))

    def run(self, limit_s: float = 1e6) -> Sim:
        self.policy.act()
        while self.taken * self.job.batch < self.job.units and self.events and self.now < limit_s:
            self.now, _, action = heapq.heappop(self.events)
            action()
            if not self.events or self.events[0][0] > self.now:
                self.policy.act()
        return self

    def wanted(self) -> Iterator[int]:
        """Units to launch, in order."""
        return chain(sorted(self.lost), range(self.fresh, self.job.units))

    def launch(self, unit: int) -> int:
        """Its source task starts when there is room for it."""
        self.repeated += unit < self.fresh
        self.fresh += unit == self.fresh
        self.lost.discard(unit)
        return unit

    def start(self, op: int, slot: int, unit: int, part: int = 0, held_by: int | None = None) -> None:
        """`held_by`: the node that has the input."""
        node = self.free[slot].popleft()
        hangs = self.nodes[node].dead or (held_by is not None and self.nodes[held_by].dead)
        task = Task(op, slot, node, unit, part, held_by, hangs)
        self.running[task] = None
        self.count[op] += 1
        self.used += self.job.output(op)
        self.peak = max(self.peak, self.used)
        seconds = self.job.task_s(op) / self.nodes[node].speed
        seconds *= self.rng.lognormvariate(0, self.job.jitter) if self.job.jitter else 1.0
        self.at(seconds, lambda: self.end(task))

    def end(self, task: Task) -> None:
        if task.hangs:
            return
        self.leave(task, False)
        for part in (task.part,) if task.op else range(self.job.split):
            if task.op + 1 < len(self.job.ops):
                heapq.heappush(self.queues[task.op + 1], (task.unit, part, task.node))
            else:
                self.give(task.unit // self.job.batch)
        self.consume()

    def leave(self, task: Task, lost: bool) -> None:
        """A task runs no more, and its input is not needed. If it is lost, its unit is made again."""
        del self.running[task]
        self.count[task.op] -= 1
        self.ended[task.op] += not lost
        self.used -= self.job.bytes_after(task.op - 1)
        if not self.nodes[task.node].dead:
            self.free[task.slot].append(task.node)
        if lost:
            self.used -= self.job.output(task.op)
            self.lost.add(task.unit)

    def give(self, batch: int) -> None:
        """The consumer has an object of that batch, or of the one that it fills with any."""
        if self.job.takes == "any":
            batch = self.taken + self.ready // (self.job.batch * self.job.split)
        parts = min(self.job.batch, self.job.units - batch * self.job.batch) * self.job.split
        self.ready += 1
        self.ready_of[batch] += 1
        if self.ready_of[batch] == parts:
            heapq.heappush(self.whole, (batch, parts))

    def consume(self) -> None:
        there = self.whole and (self.job.takes != "order" or self.whole[0][0] == self.first)
        if there and self.now >= self.busy_until:
            batch, parts = heapq.heappop(self.whole)
            self.passed.add(batch)
            while self.first in self.passed:
                self.first += 1
            self.ready -= parts
            self.used -= parts * self.job.bytes_after(len(self.job.ops) - 1)
            self.taken += 1
            self.delivered.append((self.now, parts // self.job.split))
            self.busy_until = self.now + self.job.step_s
            self.at(self.job.step_s, self.consume)

    # Failures, of jobs whose source tasks give one object each.

    def join(self, node: int) -> None:
        self.nodes[node].dead = False
        self.cpus += self.nodes[node].cpus
        self.free[0].extend([node] * self.nodes[node].cpus)
        self.free[1].extend([node] * self.nodes[node].gpus)

    def fail(self, node: int, down_s: float) -> None:
        if not self.nodes[node].dead:
            self.nodes[node].dead = True
            for task in self.running:
                task.hangs |= task.node == node
            self.at(min(self.detect_s, down_s), lambda: self.detected(node))
            self.at(down_s, lambda: self.join(node))

    def detected(self, node: int) -> None:
        self.cpus -= self.nodes[node].cpus
        self.free = [deque(n for n in free if n != node) for free in self.free]
        for task in [task for task in self.running if task.hangs and node in (task.node, task.held_by)]:
            self.leave(task, True)
        for op, queue in enumerate(self.queues):
            self.queues[op] = sorted(each for each in queue if each[2] != node)  # which is a heap
            self.used -= (len(queue) - len(self.queues[op])) * self.job.bytes_after(op - 1)
            self.lost.update(unit for unit, _, held_by in queue if held_by == node)

    def fail_at_random(self, node_mtbf_s: float, down_s: float) -> None:
        def strike() -> None:
            self.fail(self.rng.randrange(len(self.nodes)), down_s)
            self.fail_at_random(node_mtbf_s, down_s)

        self.at(self.rng.expovariate(len(self.nodes) / node_mtbf_s), strike)


class RayData:
    """Algorithms 1 and 2; or, not `adaptive`, no budget and a `fixed` number of tasks for each operator on CPUs."""

    def __init__(self, sim: Sim, adaptive: bool = True, fixed: int = 1 << 30):
        self.sim, self.job, self.adaptive, self.fixed = sim, sim.job, adaptive, fixed
        self.budget = float(sim.store) if self.adaptive else float("inf")
        self.slots = [sum(node.gpus if op.gpu else node.cpus for node in sim.nodes) for op in sim.job.ops]
        self.tick()

    def pipeline(self) -> Pipeline:
        sim, job, last, space = self.sim, self.job, len(self.job.ops) - 1, self.sim.store - self.sim.used
        operators = []
        for number, op in enumerate(job.ops):
            free = len(sim.free[1]) if op.gpu else min(len(sim.free[0]), self.fixed - sim.count[number])
            if number == 0 and space < sum(job.output(each) for each in range(last + 1)):
                free = 0  # the store is full, whatever the budget says; each operator keeps room for a task
            queued = len(sim.queues[number]) if number else len(sim.lost) + job.units - sim.fresh
            buffered = (sim.ready if number == last else len(sim.queues[number + 1])) * job.bytes_after(number)
            now, known = (queued, free, job.output(number), buffered, space), (job.task_s(number), self.slots[number])
            operators.append(Operator(*now, job.bytes_after(number - 1), *known))
        if job.step_s:  # the consumer is the operator that ends the pipeline
            each_s = job.step_s / job.batch / job.split
            operators.append(Operator(0, 0, 0, input_bytes=job.bytes_after(last), task_s=each_s, slots=1))
        return Pipeline(operators, self.budget)

    def tick(self) -> None:
        if self.adaptive:
            self.budget = policies.refilled(self.pipeline(), 1.0, self.sim.store)
            self.sim.at(1.0, self.tick)

    def go(self, op: int) -> None:
        if self.sim.free[self.job.ops[op].gpu]:
            task = heapq.heappop(self.sim.queues[op]) if op else (self.sim.launch(next(self.sim.wanted())),)
            self.sim.start(op, self.job.ops[op].gpu, *task)

    def act(self) -> None:
        sim, launched = self.sim, [0]
        while launched:
            launched, self.budget = policies.launch(self.pipeline())
            for op in launched:
                self.go(op)
        if not sim.running and sim.now >= sim.busy_until:  # full: the last one that can goes on, and spills
            able = [op for op, waits in enumerate([sim.lost or sim.fresh < self.job.units, *sim.queues[1:]]) if waits]
            for op in able[-1:]:
                self.go(op)


class Leat:
    """leat's policies: the source is the program, operators after it are stages with actors. As Ray does it, actors and
    tasks that wait go to the node that has room first, and calls to the actor that is idle first."""

    def __init__(self, sim: Sim):
        self.sim, self.job = sim, sim.job
        sizes = [self.job.bytes_after(op) for op in range(len(self.job.ops))]
        self.growths = [policies.grown(None, into, out) for into, out in zip(sizes, sizes[1:])]  # the truth
        most = self.job.batch * policies.peak_bytes(self.job.output(0), self.growths)
        self.budget = max(0, sim.store - most)
        self.tasks = deque[int]()  # units whose tasks wait for a CPU
        self.given = [0 for _ in sizes]  # calls that wait at actors
        self.asked, self.starting = set[int](), set[int]()  # stages with an actor that has no place yet; that is not up
        self.busy, self.wait_s = [0.0 for _ in sizes], [0.0 for _ in sizes]
        for op in range(1, len(sizes)):
            self.resize(op)

    def actors(self, op: int) -> int:
        return len(self.sim.free[op + 1]) + self.sim.count[op] + (op in self.starting)

    def cpus(self) -> int:
        """Those that actors do not take."""
        return self.sim.cpus - sum(self.actors(op) for op, each in enumerate(self.job.ops) if op and not each.gpu)

    def act(self) -> None:
        sim, batch, split, size = self.sim, self.job.batch, self.job.split, self.job.output(0)
        ends = sim.first + policies.ahead(self.budget, batch * size)
        units = takewhile(lambda unit: unit // batch < ends, sim.wanted())
        wanted = (Partition(unit // batch, unit % batch, size) for unit in units)
        slots = policies.queued(size) * max(1, self.cpus()) - len(self.tasks) - sim.count[0]
        known = [growth if ended else None for growth, ended in zip(self.growths, sim.ended[1:])]
        stages = []
        for op, growth in enumerate(known, 1):
            room = policies.room(self.actors(op), sim.count[op] + self.given[op])
            waits = sorted(sim.queues[op])[self.given[op] :]
            stages.append(Queue(room, [Call(u // batch, u % batch * split + part) for u, part, _ in waits], growth))
        held = (sim.fresh - sim.taken * batch - len(sim.lost)) * policies.peak_bytes(size, known)
        for go in policies.admit(State(self.budget, held, sim.first, wanted, slots, stages)):
            if isinstance(go, Make):
                self.tasks.append(sim.launch(go.partition.batch * batch + go.partition.part))
            else:
                self.given[go.stage + 1] += 1
        self.place()

    def place(self) -> None:
        """What has room starts."""
        sim = self.sim
        for op in [op for op in self.asked if sim.free[self.job.ops[op].gpu]]:
            self.asked.remove(op)
            sim.at(ACTOR_S, partial(self.up, op, sim.free[self.job.ops[op].gpu].popleft()))
        for op, queue in enumerate(sim.queues):
            self.given[op] = min(self.given[op], len(queue))  # some may be lost
            while self.given[op] and sim.free[op + 1]:
                self.given[op] -= 1
                sim.start(op, op + 1, *heapq.heappop(queue))
        while self.tasks and sim.free[0]:
            sim.start(0, 0, self.tasks.popleft())

    def up(self, op: int, node: int) -> None:
        self.starting.remove(op)
        if not self.sim.nodes[node].dead:
            self.sim.free[op + 1].append(node)

    def resize(self, op: int) -> None:
        """An actor more or less, where that is due."""
        sim, gpu, actors, call_s = self.sim, self.job.ops[op].gpu, self.actors(op), self.job.task_s(op)
        wait_s = (len(sim.queues[op]) - self.given[op]) * call_s / max(1, actors)
        self.busy[op] = policies.averaged(self.busy[op], min(actors, sim.count[op] + self.given[op]), LOOK_S)
        self.wait_s[op] = policies.averaged(self.wait_s[op], wait_s, LOOK_S)
        spare = len(sim.free[1]) > 0 if gpu else self.cpus() > 1
        times = self.busy[op], self.wait_s[op], call_s, ACTOR_S
        wanted = policies.actors_wanted(Load(actors, 1, 0, spare, op in self.starting, gpu, *times))
        if wanted > actors:
            self.asked.add(op)
            self.starting.add(op)
        elif wanted < actors and sim.free[op + 1]:
            sim.free[0].append(sim.free[op + 1].pop())
        sim.at(LOOK_S, partial(self.resize, op))
