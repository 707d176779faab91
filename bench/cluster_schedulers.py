"""The schedulers that bench/cluster_sim.py compares. Their decisions are no copies: `Leat` asks `admit` of
leat.ray.policies what `leat.ray.Loader` asks it, and `RayData` runs Algorithms 1 and 2 of arXiv 2501.12407 from there.
"""

from __future__ import annotations

import heapq
from itertools import islice

from cluster_model import Policy, Sim, Task

from leat.ray import policies
from leat.ray.policies import Call, Load, Make, Operator, Partition, Pipeline, Queue, State

ACTOR_S = 1.0  #: until an actor takes calls
MEAN_S = 5.0  #: of the averages by which actors are counted
LOOK = 16  #: nodes with free slots that a scheduler is shown at once; it is asked again while it launches


class RayData(Policy):
    """Algorithms 1 and 2; or, not `adaptive`, no budget and a fixed number of tasks for each operator on CPUs."""

    def __init__(self, adaptive: bool = True, fixed: int | None = None, in_order: bool = False):
        self.adaptive, self.fixed, self.in_order = adaptive, fixed, in_order

    def begin(self, sim: Sim) -> None:
        self.budget = float(sim.store) if self.adaptive else float("inf")
        self.slots = [sum(node.gpus if op.gpu else node.cpus for node in sim.nodes) for op in sim.job.ops]

    def pipeline(self, sim: Sim) -> Pipeline:
        job, last, space = sim.job, len(sim.job.ops) - 1, sim.store - sim.used
        operators = []
        for number, op in enumerate(job.ops):
            free = len(sim.free[op.gpu])
            if self.fixed and not op.gpu:
                free = min(free, self.fixed - sim.count[number])
            if number == 0 and space < sim.output(0) + sum(sim.output(after) for after in range(1, last + 1)):
                free = 0  # the store is full, whatever the budget says; each operator keeps room for a task
            buffered = sim.ready if number == last else len(sim.queues[number + 1])
            operators.append(
                Operator(
                    len(sim.queues[number]) if number else len(sim.lost) + job.units - sim.fresh,
                    free,
                    sim.output(number),
                    buffered * job.bytes_after(number),
                    space,
                    job.bytes_after(number - 1) if number else 0,
                    job.task_s(number),
                    self.slots[number],
                )
            )
        if job.step_s:  # the consumer is the operator that ends the pipeline
            each_s = job.step_s / job.batch / job.split
            operators.append(Operator(0, 0, 0, input_bytes=job.bytes_after(last), task_s=each_s, slots=1))
        return Pipeline(operators, self.budget)

    def tick(self, sim: Sim) -> None:
        if self.adaptive:
            self.budget = policies.refilled(self.pipeline(sim), self.tick_s, sim.store)

    def go(self, sim: Sim, op: int) -> None:
        gpu = sim.job.ops[op].gpu
        node = next(iter(sim.free[gpu]))
        unit, part = (next(sim.wanted()), 0) if op == 0 else heapq.heappop(sim.queues[op])
        sim.take_slot(gpu, node)
        sim.start(op, unit, part, node)

    def act(self, sim: Sim) -> None:
        while True:
            launched, self.budget = policies.launch(self.pipeline(sim))
            for op in launched:
                if sim.free[sim.job.ops[op].gpu]:
                    self.go(sim, op)
            if not launched:
                break
        if not sim.running and not sim.busy:  # full: the last operator that can goes on all the same, and spills
            able = [op for op in range(1, len(sim.job.ops)) if sim.queues[op]]
            able = able or [0] * bool(sim.lost or sim.fresh < sim.job.units)
            if able and sim.free[sim.job.ops[able[-1]].gpu]:
                self.go(sim, able[-1])

    def ended(self, sim: Sim, task: Task, lost: bool = False) -> None:
        if sim.alive(task):
            sim.give_slot(sim.job.ops[task.op].gpu, task.node)


class Leat(Policy):
    """`leat.ray.policies.admit`: the source is the program, operators after it are stages with actors."""

    in_order = True
    tick_s = 0.25

    def __init__(self, budget: int | None = None, twice: bool = True):
        self.budget_bytes, self.twice = budget, twice

    def begin(self, sim: Sim) -> None:
        job = sim.job
        self.growth: list[float | None] = [None for _ in job.ops[1:]]
        known = [job.bytes_after(op) / max(job.bytes_after(op - 1), 1) for op in range(1, len(job.ops))]
        most = policies.peak_bytes(sim.output(0), known)  # of a unit
        self.budget = max(0, sim.store - job.batch * most) if self.budget_bytes is None else self.budget_bytes
        self.shares = self.most_held = 0  # times that a unit's bytes are counted
        self.made, self.began, self.at = set[int](), dict[int, float](), dict[int, int]()
        self.made_s = self.latency_s = 0.0  # the longest that a partition took until it was made, until it was ready
        self.late, self.copied, self.suspects = list[int](), set[int](), set[int]()
        self.idle: list[list[int]] = [[] for _ in job.ops]  # actors' nodes
        self.busy, self.wait_s = [0.0 for _ in job.ops], [0.0 for _ in job.ops]  # averages of some seconds
        self.actors = [0 for _ in job.ops]
        self.wishes = set[int]()  # stages that wait for a CPU for one more actor
        for node in range(len(sim.nodes)):
            self.joined(sim, node)

    def joined(self, sim: Sim, node: int) -> None:
        for op in range(1, len(sim.job.ops)):
            if sim.job.ops[op].gpu:
                self.idle[op] += [node] * sim.nodes[node].gpus
                self.actors[op] += sim.nodes[node].gpus

    def gone(self, sim: Sim, node: int) -> None:
        for op in range(1, len(sim.job.ops)):
            self.actors[op] -= self.idle[op].count(node)
            self.actors[op] -= sum(task.op == op and task.node == node for task in sim.running.values())
            self.idle[op] = [other for other in self.idle[op] if other != node]

    def partition(self, sim: Sim, unit: int) -> Partition:
        return Partition(unit // sim.job.batch, unit % sim.job.batch, sim.output(0))

    def call(self, sim: Sim, unit: int, part: int) -> Call:
        return Call(unit // sim.job.batch, unit % sim.job.batch * sim.job.split + part)

    def act(self, sim: Sim) -> None:
        job = sim.job
        for op in [op for op in self.wishes if sim.free[0]]:
            self.grow(sim, op)
        while True:
            slots = {str(n): c for n, c in islice(sim.free[0].items(), LOOK) if n not in self.suspects}
            if not slots and not any(idle and queue for idle, queue in zip(self.idle, sim.queues)):
                return
            stages = [
                Queue(len(self.idle[op]), [self.call(sim, *key) for key in sim.queues[op]], self.growth[op - 1])
                for op in range(1, len(job.ops))
            ]
            ahead = policies.batches_ahead(self.latency_s, job.step_s) if self.latency_s and job.step_s else None
            late = [self.partition(sim, unit) for unit in self.late]
            wanted = (self.partition(sim, unit) for unit in sim.wanted())
            peak = policies.peak_bytes(sim.output(0), self.growth)
            self.most_held = max(self.most_held, self.shares * peak)
            launches = policies.admit(
                State(self.budget, self.shares * peak, sim.taken, wanted, slots, stages, ahead, late, job.batch * peak)
            )
            for go in launches:
                if isinstance(go, Make):
                    self.make(sim, go)
                else:
                    node = self.idle[go.stage + 1].pop()
                    sim.start(go.stage + 1, *heapq.heappop(sim.queues[go.stage + 1]), node)
            if sum(isinstance(go, Make) for go in launches) < sum(slots.values()) or not slots:
                return  # memory or work ended it, not the nodes that it was shown

    def make(self, sim: Sim, go: Make) -> None:
        unit, node = go.partition.batch * sim.job.batch + go.partition.part, int(go.node)
        again = unit in self.late
        if again:
            self.late.remove(unit)
            self.copied.add(unit)
        else:
            self.began[unit], self.at[unit] = sim.now, node
            self.made.discard(unit)
        sim.take_slot(False, node)
        sim.start(0, unit, 0, node, again)
        self.shares += 1

    def ended(self, sim: Sim, task: Task, lost: bool = False) -> None:
        op, unit = task.op, task.unit
        if sim.alive(task):
            if op:
                self.idle[op].append(task.node)
            else:
                sim.give_slot(False, task.node)
        if lost or (op == 0 and unit in self.made):
            self.shares -= 1
            self.copied.discard(unit)
            return
        if op == 0:
            self.made.add(unit)
            self.made_s = max(self.made_s, sim.now - task.began)
        else:
            into, out = sim.job.bytes_after(op - 1), sim.job.bytes_after(op)
            self.growth[op - 1] = policies.grown(self.growth[op - 1], into, out)
        if op + 1 == len(sim.job.ops) and unit not in self.copied:
            self.latency_s = max(self.latency_s, sim.now - self.began[unit])

    def delivered(self, sim: Sim, batch: int) -> None:
        self.shares -= sim.parts_of(batch) // sim.job.split
        self.late = [unit for unit in self.late if unit // sim.job.batch > batch]

    def tick(self, sim: Sim) -> None:
        if self.twice and self.made_s:
            self.late = sorted(
                task.unit
                for task in sim.running.values()
                if task.op == 0
                and policies.is_late(sim.now - task.began, self.made_s)
                and sim.sources[task.unit] == 1
                and task.unit not in self.copied
                and task.unit not in self.made
            )
            self.suspects = {self.at[unit] for unit in [*self.late, *self.copied] if sim.sources[unit]}
        for op in range(1, len(sim.job.ops)):
            if not sim.job.ops[op].gpu:
                self.resize(sim, op)

    def resize(self, sim: Sim, op: int) -> None:
        call_s, idle, actors = sim.job.task_s(op), self.idle[op], self.actors[op]
        most = sum(node.cpus for node in sim.nodes) - 1
        self.busy[op] += (sim.count[op] - self.busy[op]) * self.tick_s / MEAN_S
        self.wait_s[op] += (len(sim.queues[op]) * call_s / max(actors, 1) - self.wait_s[op]) * self.tick_s / MEAN_S
        wanted = policies.actors_wanted(Load(actors, 1, most, self.busy[op], self.wait_s[op], call_s, ACTOR_S))
        if wanted > actors:
            self.wishes.add(op)
        elif wanted < actors and idle:
            node = idle.pop()
            self.actors[op] -= 1
            sim.give_slot(False, node)

    def grow(self, sim: Sim, op: int) -> None:
        self.wishes.discard(op)
        node = next(iter(sim.free[0]))
        sim.take_slot(False, node)
        self.actors[op] += 1
        sim.at(ACTOR_S, lambda: self.idle[op].append(node))
