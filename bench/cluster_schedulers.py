"""The schedulers that bench/cluster_sim.py compares. Their decisions are no copies: `Leat` asks what `leat.ray.Loader`
asks of leat.ray.policies, and `RayData` runs Algorithms 1 and 2 of arXiv 2501.12407 from there.
"""

from __future__ import annotations

import heapq
from itertools import takewhile

from cluster_model import Sim, Task

from leat.ray import policies
from leat.ray.policies import Call, Load, Make, Operator, Partition, Pipeline, Queue, State

ACTOR_S = 1.0  #: until an actor takes calls
LOOK_S = 0.25  #: between looks at actors


class RayData:
    """Algorithms 1 and 2; or, not `adaptive`, no budget and a fixed number of tasks for each operator on CPUs."""

    def __init__(self, adaptive: bool = True, fixed: int | None = None, in_order: bool = False):
        self.adaptive, self.fixed, self.takes = adaptive, fixed, "order" if in_order else "any"

    def begin(self, sim: Sim) -> None:
        self.budget = float(sim.store) if self.adaptive else float("inf")
        self.slots = [sum(node.gpus if op.gpu else node.cpus for node in sim.nodes) for op in sim.job.ops]
        self.tick(sim)

    def pipeline(self, sim: Sim) -> Pipeline:
        job, last, space = sim.job, len(sim.job.ops) - 1, sim.store - sim.used
        operators = []
        for number, op in enumerate(job.ops):
            free = len(sim.free[op.gpu])
            if self.fixed and not op.gpu:
                free = min(free, self.fixed - sim.count[number])
            if number == 0 and space < sum(job.output(each) for each in range(last + 1)):
                free = 0  # the store is full, whatever the budget says; each operator keeps room for a task
            queued = len(sim.queues[number]) if number else len(sim.lost) + job.units - sim.fresh
            buffered = (sim.ready if number == last else len(sim.queues[number + 1])) * job.bytes_after(number)
            into, task_s = job.bytes_after(number - 1) if number else 0, job.task_s(number)
            operators.append(
                Operator(queued, free, job.output(number), buffered, space, into, task_s, self.slots[number])
            )
        if job.step_s:  # the consumer is the operator that ends the pipeline
            each_s = job.step_s / job.batch / job.split
            operators.append(Operator(0, 0, 0, input_bytes=job.bytes_after(last), task_s=each_s, slots=1))
        return Pipeline(operators, self.budget)

    def tick(self, sim: Sim) -> None:
        if self.adaptive:
            self.budget = policies.refilled(self.pipeline(sim), 1.0, sim.store)
            sim.at(1.0, lambda: self.tick(sim))

    def go(self, sim: Sim, op: int) -> None:
        free = sim.free[sim.job.ops[op].gpu]
        if free:
            unit, part = (next(sim.wanted()), 0) if op == 0 else heapq.heappop(sim.queues[op])
            sim.start(op, unit, part, free.popleft())

    def act(self, sim: Sim) -> None:
        launched = [0]
        while launched:
            launched, self.budget = policies.launch(self.pipeline(sim))
            for op in launched:
                self.go(sim, op)
        if not sim.running and sim.now >= sim.busy_until:  # full: the last one that can goes on, and spills
            able = [op for op in range(1, len(sim.job.ops)) if sim.queues[op]]
            able = able or [0] * bool(sim.lost or sim.fresh < sim.job.units)
            if able:
                self.go(sim, able[-1])

    def ended(self, sim: Sim, task: Task, lost: bool) -> None:
        if sim.alive(task):
            sim.free[sim.job.ops[task.op].gpu].append(task.node)


class Leat:
    """leat's policies: the source is the program, operators after it are stages with actors."""

    def __init__(self, in_order: bool = True):
        self.takes = "order" if in_order else "batches"

    def begin(self, sim: Sim) -> None:
        job = sim.job
        self.growth: list[float | None] = [None for _ in job.ops[1:]]
        known = [job.bytes_after(op) / max(job.bytes_after(op - 1), 1) for op in range(1, len(job.ops))]
        self.budget = max(0, sim.store - job.batch * policies.peak_bytes(job.output(0), known))
        self.cpus, self.starting = sum(node.cpus for node in sim.nodes), [0 for _ in job.ops]
        self.busy, self.wait_s = [0.0 for _ in job.ops], [0.0 for _ in job.ops]
        self.places = [1 if op.gpu else 1 + number for number, op in enumerate(job.ops)]  # of idle actors in sim.free
        self.places[0], self.most_held = 0, 0
        for op in range(1, len(job.ops)):
            if not job.ops[op].gpu:
                self.resize(sim, op)

    def act(self, sim: Sim) -> None:
        job, batch = sim.job, sim.job.batch
        ends = sim.first + policies.ahead(self.budget, batch * job.output(0))
        units = takewhile(lambda unit: unit // batch < ends, sim.wanted())
        wanted = (Partition(unit // batch, unit % batch, job.output(0)) for unit in units)
        stages = [
            Queue(len(sim.free[place]), [Call(u // batch, u % batch * job.split + part) for u, part in queue], growth)
            for place, queue, growth in zip(self.places[1:], sim.queues[1:], self.growth)
        ]
        launched = sim.fresh - sim.taken * batch - len(sim.lost)  # and not taken
        held = launched * policies.peak_bytes(job.output(0), self.growth)
        self.most_held = max(self.most_held, held)
        for go in policies.admit(State(self.budget, held, sim.first, wanted, len(sim.free[0]), stages)):
            op = 0 if isinstance(go, Make) else go.stage + 1
            node = sim.free[self.places[op]].popleft()
            if isinstance(go, Make):
                sim.start(0, go.partition.batch * batch + go.partition.part, 0, node)
            else:
                sim.start(op, *heapq.heappop(sim.queues[op]), node)

    def resize(self, sim: Sim, op: int) -> None:
        """An actor on CPUs more or less, where that is due."""
        idle, call_s = sim.free[self.places[op]], sim.job.task_s(op)
        actors = len(idle) + sim.count[op] + self.starting[op]
        self.busy[op] = policies.averaged(self.busy[op], sim.count[op], LOOK_S)
        self.wait_s[op] = policies.averaged(self.wait_s[op], len(sim.queues[op]) * call_s / max(actors, 1), LOOK_S)
        load = Load(actors, 1, self.cpus - 1, self.busy[op], self.wait_s[op], call_s, ACTOR_S)
        wanted = actors if self.starting[op] else policies.actors_wanted(load)
        if wanted > actors and sim.free[0]:
            node = sim.free[0].popleft()
            self.starting[op] += 1
            sim.at(ACTOR_S, lambda: self.started(sim, op, node))
        elif wanted < actors and idle:
            sim.free[0].append(idle.pop())
        sim.at(LOOK_S, lambda: self.resize(sim, op))

    def started(self, sim: Sim, op: int, node: int) -> None:
        self.starting[op] -= 1
        sim.free[self.places[op]].append(node)

    def ended(self, sim: Sim, task: Task, lost: bool) -> None:
        op = task.op
        if sim.alive(task):
            sim.free[self.places[op]].append(task.node)
        if op and not lost:
            into, out = sim.job.bytes_after(op - 1), sim.job.bytes_after(op)
            self.growth[op - 1] = policies.grown(self.growth[op - 1], into, out)
