"""Who runs next on a cluster: pure functions. The loader on Ray asks them, and so does the simulator
(bench/cluster_sim.py).

Plain numbers go in and decisions come out; nothing here knows Ray, a clock or a process. Two families:

- `admit`, `cut`, `ahead`, `together`, `queued`, `room`, `actors_wanted` and what they rest on are leat's own. Whatever
  is launched has room for all that it will become until it is delivered, so nothing that runs waits for memory and
  nothing spills.
- `launch`, `seconds_per_partition` and `refilled` are Algorithms 1 and 2 of the paper that describes Ray Data: "The
  Streaming Batch Model for Efficient and Fault-Tolerant Heterogeneous Execution", arXiv 2501.12407. leat does not
  schedule by them; the simulator shows them beside leat's.

Batches are numbered in the order in which they are delivered, across epochs.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

PART = 16 << 20  #: bytes of a partition, about
TOGETHER = 1 << 20  #: bytes of partitions that one task makes, where they are smaller: a task costs milliseconds
QUEUED = (2, 8)  #: tasks for each that can run: at least the next one waits at its node, and more where they are small
SMALL = 4 << 20  #: bytes of all that wait at a node, about
MOST_AHEAD = 64  #: batches that are asked for at a time
CALLS = 2  #: calls of an actor at a time: one that runs, and the next one, whose rows fly
BUSY = 0.9  #: the share of their time for which actors may be busy where there would be one less
MEAN_S = 5.0  #: of averages by which actors are counted
LOOK_S = 0.25  #: between looks at how many there should be


@dataclass(frozen=True)
class Partition:
    """A run of rows of one global batch that is not made yet, or must be made again."""

    batch: int
    part: int  #: its place in the batch
    made_bytes: int  #: of its rows as they come from the program, which says their sizes


@dataclass(frozen=True)
class Call:
    """Rows of one global batch which lie before a stage, all there."""

    batch: int
    call: int  #: its place in the batch


@dataclass(frozen=True)
class Queue:
    """A stage with what waits for it."""

    free: int  #: calls that its actors take now (`room`)
    calls: Sequence[Call] = ()  #: that wait, in order
    growth: float | None = None  #: largest ratio of bytes out to bytes in so far (`grown`); None before the first call


@dataclass(frozen=True)
class State:
    """All that admission looks at. Bytes are counted by the loader: from launching to delivery, `peak_bytes` of each
    partition by the growths known now, or what was measured of it where that is more."""

    budget_bytes: int
    held_bytes: int
    first: int  #: the earliest batch that is not delivered
    wanted: Iterable[Partition]  #: in order of batch and part; read only as far as they are admitted
    slots: int  #: tasks that may start now
    stages: Sequence[Queue] = ()


@dataclass(frozen=True)
class Make:
    """Launch a task that makes `partition`, and count `peak_bytes` for it."""

    partition: Partition
    peak_bytes: int


@dataclass(frozen=True)
class Run:
    """Give `call` to an actor of the stage of that number."""

    stage: int
    call: Call


def admit(state: State) -> list[Make | Run]:
    """The launches to do now, in order.

    Calls of stages come first, by the earliest batch, as room was kept for them. Then partitions are made in order,
    while the bytes held and its own are at most the budget, or it belongs to the earliest undelivered batch.

    The first one that does not fit ends it: a small one behind it would take the room that it waits for. So what is
    held without the earliest batch is at most the budget, and with it at most the budget and one batch; and that batch
    never waits for memory, so the run goes on whatever the budget is. A stage is not known before its first call: until
    then, and while more is held than the budget because it turned out to give more than it takes, it gets calls of the
    earliest batch only.
    """
    full = state.held_bytes > state.budget_bytes
    runs = list[Run]()
    for number, stage in enumerate(state.stages):
        calls = heapq.nsmallest(stage.free, stage.calls, key=lambda call: (call.batch, call.call))
        waits = full or stage.growth is None
        runs += [Run(number, call) for call in calls if call.batch == state.first or not waits]
    runs.sort(key=lambda run: (run.call.batch, -run.stage))
    return [*runs, *islice(_fitting(state), max(0, state.slots))]


def _fitting(state: State) -> Iterator[Make]:
    """The partitions that there is memory for, in order. The caller takes as many as it has slots for: each that is
    asked for is counted as held."""
    growths, held = [stage.growth for stage in state.stages], state.held_bytes
    for partition in state.wanted:
        needed = peak_bytes(partition.made_bytes, growths)
        if partition.batch != state.first and held + needed > state.budget_bytes:
            return
        held += needed
        yield Make(partition, needed)


def peak_bytes(made_bytes: int, growths: Sequence[float | None] = ()) -> int:
    """The most that a partition holds on its way: at each stage its rows lie there before and after the call. A stage
    that has not been measured counts as one that keeps their size."""
    before, peak = float(made_bytes), float(made_bytes)
    for growth in growths:
        after = before * (1.0 if growth is None else growth)
        peak = max(peak, before + after)
        before = after
    return math.ceil(peak)


def grown(growth: float | None, bytes_in: int, bytes_out: int) -> float:
    """`Queue.growth` after a call: the largest so far. A later call that gives still more than it is counted as it is,
    so what is held may pass the bound by as much as outputs grew since their partitions were admitted."""
    return max(growth or 0.0, bytes_out / max(bytes_in, 1))


def ahead(budget_bytes: int, batch_bytes: int) -> int:
    """How many batches are asked for at a time: those that the budget holds, at least the next one too."""
    return max(2, min(MOST_AHEAD, budget_bytes // max(1, batch_bytes)))


def cut(first: int, end: int, row_bytes: int) -> list[tuple[int, int]]:
    """Rows of a batch in partitions: runs of about equal length and of at most `PART` bytes, or of one row."""
    rows = end - first
    n = -(-rows // max(1, PART // max(1, row_bytes)))
    borders = [first + i * rows // n for i in range(n + 1)]
    return list(zip(borders, borders[1:]))


def together(part_bytes: int, batches: int, tasks: int) -> int:
    """How many partitions a task makes, where so many batches are wanted and so many tasks run at a time: small ones
    are made together, as long as each that can run has its tasks."""
    return max(1, min(TOGETHER // max(1, part_bytes), batches // (QUEUED[0] * tasks)))


def queued(task_bytes: int) -> int:
    """How many tasks are launched for each that can run."""
    return min(max(SMALL // max(1, task_bytes), QUEUED[0]), QUEUED[1])


def room(actors: int, calls: int) -> int:
    """How many calls so many actors take now that have so many already."""
    return max(0, CALLS * actors - calls)


@dataclass(frozen=True)
class Load:
    """How busy the actors of a stage are. `busy` and `wait_s` are averages over the last few seconds (`averaged`)."""

    actors: int
    least: int
    most: int  #: 0: no bound
    spare: bool  #: the cluster has room for one more, which no actor and no task needs
    starting: bool  #: one is still on its way to a node
    gpu: bool  #: they have GPUs
    busy: float  #: of them, those that had a call
    wait_s: float  #: of a call in the queue
    call_s: float  #: of one call
    start_s: float  #: from asking for an actor to its first call


def actors_wanted(load: Load) -> int:
    """The number of actors that a stage should have, between its bounds: one more where its calls wait longer than both
    a call and the start of an actor take (a shorter queue is gone before it could help) and there is room for it, one
    less where the others can do the work of all. Actors hold their CPUs, so an idle one is a maker less; but a model
    that lies on a GPU stays there. They start one at a time."""
    wanted = load.actors
    if load.starting:
        return wanted
    if load.wait_s > max(load.call_s, load.start_s):
        wanted += load.spare
    elif load.busy <= BUSY * (load.actors - 1) and not load.gpu:
        wanted -= 1
    return max(load.least, min(load.most or wanted, wanted))


def averaged(average: float, now: float, passed_s: float) -> float:
    """The average over the last `MEAN_S` seconds or so, `passed_s` after it was taken."""
    return average + (now - average) * min(1.0, passed_s / MEAN_S)


@dataclass(frozen=True)
class Operator:
    """An operator of the streaming batch model. Times and sizes are averages of its tasks so far; `slots` of None says
    that it has not been measured and is left out of Algorithm 2."""

    queued: int  #: partitions in its input queue; of the source, those not read yet
    free: int  #: tasks that its resources let start now
    output_bytes: int  #: of one task
    buffered_bytes: int = 0  #: of its outputs in the next operator's queue
    space_bytes: float = math.inf  #: that its output buffer has left
    input_bytes: int = 0  #: of one task
    task_s: float = 0.0
    slots: float | None = None  #: tasks of it that can run at once


@dataclass(frozen=True)
class Pipeline:
    """Operators in order, the first of which is the source, and the memory budget of Algorithms 1 and 2 in bytes."""

    operators: Sequence[Operator]
    budget_bytes: float


def launch(pipeline: Pipeline) -> tuple[list[int], float]:
    """One turn of Algorithm 1 of arXiv 2501.12407: the operators that each launch a task now, and the budget left.

    A source task is launched where the budget has room for its estimated output, which it is debited. Then, of the
    operators with input, resources and room for their output, the one with the least buffered output launches a task:
    it is the one whose reader is likeliest to run dry. A scheduler calls this until it launches nothing.
    """
    source, *others = pipeline.operators
    budget, launched = pipeline.budget_bytes, list[int]()
    free = [operator.free for operator in pipeline.operators]
    if source.queued and free[0] and budget >= source.output_bytes:
        budget -= source.output_bytes
        launched.append(0)
    ready = [
        (operator.buffered_bytes, number)
        for number, operator in enumerate(others, 1)
        if operator.queued and free[number] and operator.space_bytes >= operator.output_bytes
    ]
    if ready:
        launched.append(min(ready)[1])
    return launched, budget


def seconds_per_partition(pipeline: Pipeline) -> float:
    """The P of Algorithm 2 of arXiv 2501.12407: seconds that the operators after the source take for one of its
    tasks, P = sum over i of (T_i / E_i) a_(i-1) with a_i = a_(i-1) O_i / I_i, where T_i is a task's time, E_i how many
    run at once, I_i and O_i the bytes that go in and come out. a_0 is 1 in the paper, where the first operator's task
    takes what a source task gives; here it is the number of its tasks that this makes."""
    source, *others = pipeline.operators
    seconds, share = 0.0, 1.0
    if others and others[0].input_bytes:
        share = source.output_bytes / others[0].input_bytes
    for operator in others:
        if operator.slots:
            seconds += operator.task_s / operator.slots * share
            share *= operator.output_bytes / max(operator.input_bytes, 1)
    return seconds


def refilled(pipeline: Pipeline, elapsed_s: float, limit_bytes: float) -> float:
    """The budget after `elapsed_s`, by Algorithm 2 of arXiv 2501.12407, which runs once a second: it grows by the
    source's output for each P that has passed, as fast as the operators after it take that in, up to the memory that
    there is. Before anything has been measured it stays."""
    seconds = seconds_per_partition(pipeline)
    gained = pipeline.operators[0].output_bytes * elapsed_s / seconds if seconds else 0.0
    return min(limit_bytes, pipeline.budget_bytes + gained)
