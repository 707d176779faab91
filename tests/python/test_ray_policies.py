"""leat.ray.policies: what may run next on a cluster, as plain numbers. Ray is not needed."""

from __future__ import annotations

import ast
import random
import sys
from dataclasses import dataclass, field, replace
from functools import partial
from inspect import isfunction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leat.ray import policies
from leat.ray.policies import Call, Load, Make, Operator, Partition, Pipeline, Queue, Run, State

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))
try:
    from cluster_model import Job, Leat, Node, Op, RayData, Sim
    from cluster_sim import OPTIMUM_S, failure, longest_gap, rate, sweep
finally:
    del sys.path[0]

WIDE = State(1 << 40, 0, 0, (), 100)


def made(launches: list[Make | Run]) -> list[Partition]:
    return [go.partition for go in launches if isinstance(go, Make)]


def called(launches: list[Make | Run]) -> list[Run]:
    return [go for go in launches if isinstance(go, Run)]


def row(*sizes: int, first: int = 0, batch: int = 1) -> list[Partition]:
    return [Partition(first + n // batch, n % batch, size) for n, size in enumerate(sizes)]


sizes = st.lists(st.integers(1, 100), min_size=1, max_size=20)


# Admission, one decision.


@given(sizes, st.integers(0, 1500), st.integers(0, 1500), st.integers(0, 5))
def test_the_earliest_batch_is_launched_whatever_is_held(todo: list[int], budget: int, held: int, first: int) -> None:
    state = State(budget, held, first, row(*todo, first=first, batch=3), 1)
    assert made(policies.admit(state)) == [Partition(first, 0, todo[0])]


@given(sizes, st.integers(0, 1500), st.integers(0, 500))
def test_what_is_held_without_the_earliest_batch_is_within_the_budget(todo: list[int], budget: int, held: int) -> None:
    launched = made(policies.admit(State(budget, held, 0, row(*todo, batch=3), 100)))
    assert launched == row(*todo, batch=3)[: len(launched)]  # in order, none left out
    later = [partition.made_bytes for partition in launched if partition.batch]
    assert not later or held + sum(partition.made_bytes for partition in launched) <= budget


@given(sizes, st.integers(0, 1500), st.integers(0, 1500), st.integers(1, 30))
def test_more_budget_launches_the_same_and_more(todo: list[int], budget: int, more: int, slots: int) -> None:
    state = State(budget, 40, 0, row(*todo, batch=3), slots)
    less, most = policies.admit(state), policies.admit(replace(state, budget_bytes=budget + more))
    assert most[: len(less)] == less


def test_a_small_partition_does_not_overtake_one_that_waits_for_room() -> None:
    assert made(policies.admit(State(100, 60, 0, row(50, 10, first=1), 2))) == []


@given(st.integers(-3, 9), st.integers(0, 30))
def test_no_more_is_made_than_there_are_slots(slots: int, n: int) -> None:
    assert made(policies.admit(replace(WIDE, wanted=row(*[1] * n), slots=slots))) == row(*[1] * n)[: max(0, slots)]


def test_wanted_partitions_are_read_no_further_than_they_are_admitted() -> None:
    def endless() -> object:
        yield from row(*[10] * 12)
        raise AssertionError("read on")

    state = State(100, 0, 0, endless(), 50)  # type: ignore[arg-type]
    assert len(made(policies.admit(state))) == 10


def test_calls_go_to_free_actors_by_the_earliest_batch_and_before_partitions() -> None:
    first, second = Queue(2, [Call(3, 1), Call(2, 0), Call(1, 0)], 1.0), Queue(1, [Call(2, 4), Call(1, 2)], 1.0)
    launches = policies.admit(replace(WIDE, wanted=row(1, first=1), first=1, stages=[first, second]))
    assert launches[:3] == [Run(1, Call(1, 2)), Run(0, Call(1, 0)), Run(0, Call(2, 0))]
    assert len(made(launches)) == 1


@pytest.mark.parametrize(("growth", "held"), [(None, 10), (3.0, 101)], ids=["not measured", "over budget"])
def test_a_stage_gets_only_the_earliest_batch_while_its_room_is_not_sure(growth: float | None, held: int) -> None:
    stage = Queue(5, [Call(1, 0), Call(1, 1), Call(2, 0)], growth)
    launches = policies.admit(State(100, held, 1, (), 0, [stage]))
    assert [run.call for run in called(launches)] == [Call(1, 0), Call(1, 1)]


# Admission, whole runs.


@dataclass
class Play:
    """A run on an imagined cluster, driven by draws: anything that runs may end or be lost next."""

    draws: random.Random
    budget: int
    batches: list[list[int]]  # made bytes of the parts
    growths: list[float]  # of the stages, the truth
    loses: float
    first: int = 0
    known: list[float | None] = field(default_factory=list)
    at: dict[tuple[int, int], int] = field(default_factory=dict)  # what waits, and before which stage
    runs: dict[tuple[int, int], int] = field(default_factory=dict)  # what runs: 0 its making, n + 1 the call of stage n
    delivered: list[int] = field(default_factory=list)
    peak: int = 0

    def size(self, key: tuple[int, int], stages: int) -> float:
        size = float(self.batches[key[0]][key[1]])
        for growth in self.growths[:stages]:
            size *= growth
        return size

    def state(self) -> State:
        parts = [(batch, part) for batch, sizes in enumerate(self.batches) for part in range(len(sizes))]
        held = [key for key in parts if (key in self.at or key in self.runs) and key[0] >= self.first]
        wanted = [Partition(*key, self.batches[key[0]][key[1]]) for key in parts if key[0] >= self.first]
        return State(
            self.budget,
            sum(policies.peak_bytes(self.batches[b][p], self.known) for b, p in held),
            self.first,
            [partition for partition in wanted if (partition.batch, partition.part) not in held],
            5,
            [
                Queue(2, [Call(*key) for key, stage in self.at.items() if stage == number], growth)
                for number, growth in enumerate(self.known)
            ],
        )

    def bytes(self) -> float:
        waiting = sum(self.size(key, stage) for key, stage in self.at.items())
        return waiting + sum(
            self.size(key, 0) if step == 0 else self.size(key, step - 1) + self.size(key, step)
            for key, step in self.runs.items()
        )

    def play(self) -> None:
        self.known = [None for _ in self.growths]
        while self.first < len(self.batches):
            for go in policies.admit(self.state()):
                if isinstance(go, Make):
                    self.runs[go.partition.batch, go.partition.part] = 0
                else:
                    key = (go.call.batch, go.call.call)
                    assert self.at.pop(key) == go.stage
                    self.runs[key] = go.stage + 1
            room = sum(policies.peak_bytes(size, self.growths) for size in self.batches[self.first])
            assert self.bytes() <= self.budget + room
            assert self.runs, "the earliest batch waits and nothing runs"
            self.end(self.draws.choice(sorted(self.runs)))

    def end(self, key: tuple[int, int]) -> None:
        step = self.runs.pop(key)
        if self.draws.random() < self.loses:
            return  # all of it is wanted again
        self.at[key] = step
        if step:
            self.known[step - 1] = policies.grown(self.known[step - 1], 100, round(100 * self.growths[step - 1]))
        while self.first < len(self.batches) and all(
            self.at.get((self.first, part)) == len(self.growths) for part in range(len(self.batches[self.first]))
        ):
            for part in range(len(self.batches[self.first])):
                del self.at[self.first, part]
            self.delivered.append(self.first)
            self.first += 1


batch_sizes = st.lists(st.lists(st.integers(1, 100), min_size=1, max_size=5), min_size=1, max_size=15)
true_growths = st.lists(st.sampled_from([0.1, 1.0, 1.5, 4.0]), max_size=2)


@given(st.integers(0, 1 << 30), st.integers(0, 800), batch_sizes, true_growths, st.sampled_from([0.0, 0.1, 0.4]))
def test_runs_end_with_each_batch_once_in_order_and_bytes_within_budget_and_a_batch(
    seed: int, budget: int, batches: list[list[int]], growths: list[float], loses: float
) -> None:
    play = Play(random.Random(seed), budget, batches, growths, loses)
    play.play()
    assert play.delivered == list(range(len(batches)))
    assert not play.at and not play.runs


# The numbers that admission rests on.


def test_a_partition_is_held_before_and_after_each_call() -> None:
    assert policies.peak_bytes(100) == 100
    assert policies.peak_bytes(100, [0.5]) == 150
    assert policies.peak_bytes(100, [2.0, 3.0]) == 200 + 600
    assert policies.peak_bytes(100, [None]) == 200


def test_the_growth_of_a_stage_is_the_largest_that_was_seen() -> None:
    assert policies.grown(policies.grown(policies.grown(None, 10, 20), 10, 50), 10, 1) == 5.0


def test_as_many_batches_are_asked_for_as_the_budget_holds() -> None:
    assert [policies.ahead(budget, 10) for budget in (0, 19, 55, 1 << 30)] == [2, 2, 5, policies.MOST_AHEAD]
    assert policies.ahead(100, 0) == policies.MOST_AHEAD


@given(st.integers(0, 40), st.integers(0, 300), st.integers(0, 4 * policies.PART))
def test_rows_are_cut_into_even_runs_of_the_bytes_of_a_partition(first: int, n: int, row_bytes: int) -> None:
    n += 1
    runs = policies.cut(first, first + n, row_bytes)
    assert [row for a, b in runs for row in range(a, b)] == list(range(first, first + n))
    lengths = [b - a for a, b in runs]
    assert max(lengths) - min(lengths) <= 1
    assert max(lengths) == 1 or max(lengths) * row_bytes <= policies.PART
    assert len(runs) == 1 or n * row_bytes > policies.PART


def test_small_partitions_are_made_together_while_each_that_can_run_has_its_tasks() -> None:
    assert policies.together(policies.TOGETHER // 4, 64, 2) == 4
    assert policies.together(policies.TOGETHER // 4, 12, 2) == 12 // (2 * policies.QUEUED[0])
    assert policies.together(0, 64, 1) == 64 // policies.QUEUED[0]
    assert policies.together(policies.PART, 64, 1) == policies.together(1, 1, 9) == 1


def test_a_task_more_waits_for_each_that_runs_and_more_of_small_ones() -> None:
    assert [policies.queued(size) for size in (policies.PART, policies.SMALL // 5, 0)] == [2, 5, 8]


def test_an_actor_takes_the_next_call_while_one_runs() -> None:
    assert [policies.room(3, calls) for calls in (0, 5, 6, 9)] == [6, 1, 0, 0]


LOAD = Load(
    actors=4, least=1, most=9, spare=True, starting=False, gpu=False, busy=4.0, wait_s=0.5, call_s=0.2, start_s=2.0
)


@given(st.integers(1, 5), st.integers(0, 5), st.data())
def test_actors_stay_within_their_bounds(least: int, more: int, data: st.DataObject) -> None:
    actors, spare = data.draw(st.integers(least, least + more)), data.draw(st.booleans())
    times = {"busy": data.draw(st.floats(0, actors)), "wait_s": data.draw(st.floats(0, 9))}
    wanted = policies.actors_wanted(replace(LOAD, actors=actors, least=least, most=least + more, spare=spare, **times))
    assert least <= wanted <= least + more and wanted <= actors + spare


def test_actors_are_as_many_as_their_queue_needs() -> None:
    assert policies.actors_wanted(LOAD) == 4  # all busy, and the queue is gone before another one is up
    assert policies.actors_wanted(replace(LOAD, wait_s=2.5)) == 5
    assert policies.actors_wanted(replace(LOAD, wait_s=2.5, most=0)) == 5
    assert policies.actors_wanted(replace(LOAD, busy=2.5)) == 3
    assert policies.actors_wanted(replace(LOAD, busy=2.8)) == 4


def test_actors_start_one_at_a_time_where_there_is_room_and_those_on_a_gpu_stay() -> None:
    assert policies.actors_wanted(replace(LOAD, wait_s=2.5, spare=False)) == 4
    assert policies.actors_wanted(replace(LOAD, wait_s=2.5, starting=True)) == 4
    assert policies.actors_wanted(replace(LOAD, busy=0.0, starting=True)) == 4
    assert policies.actors_wanted(replace(LOAD, busy=0.0, gpu=True)) == 4


def test_averages_are_of_the_last_seconds() -> None:
    assert policies.averaged(2.0, 8.0, policies.MEAN_S / 2) == 5.0
    assert policies.averaged(2.0, 8.0, 60.0) == 8.0


# Algorithms 1 and 2 of arXiv 2501.12407.

SOURCE = Operator(queued=9, free=1, output_bytes=100)
FIRST = Operator(1, 1, 200, buffered_bytes=50, input_bytes=100, task_s=12.0, slots=6)
SECOND = Operator(1, 1, 10, buffered_bytes=10, input_bytes=200, task_s=2.0, slots=4)


def test_algorithm_1_launches_a_source_task_within_the_budget_and_the_operator_with_the_least_output() -> None:
    assert policies.launch(Pipeline([SOURCE, FIRST, SECOND], 250.0)) == ([0, 2], 150.0)
    assert policies.launch(Pipeline([SOURCE, FIRST, SECOND], 99.0)) == ([2], 99.0)
    assert policies.launch(Pipeline([SOURCE, FIRST, replace(SECOND, space_bytes=9)], 0.0))[0] == [1]
    assert policies.launch(Pipeline([SOURCE, replace(FIRST, queued=0), replace(SECOND, free=0)], 0.0))[0] == []


def test_algorithm_2_adds_what_the_operators_after_the_source_take_in() -> None:
    pipeline = Pipeline([SOURCE, FIRST, SECOND], 50.0)
    assert policies.seconds_per_partition(pipeline) == 3.0  # 12/6 + 2/4 of 2
    assert policies.refilled(pipeline, 1.5, 1000) == 100.0
    assert policies.refilled(pipeline, 60.0, 1000) == 1000
    assert policies.refilled(Pipeline([SOURCE, replace(FIRST, slots=None)], 50.0), 9.0, 1000) == 50.0


# The simulator, which is worth something only where it is right.


def asked(path: str, *classes: str) -> set[str]:
    """The functions of policies that a file imports, or that classes of it ask for."""
    found = set[str]()
    for node in ast.parse((ROOT / path).read_text()).body:
        if isinstance(node, ast.ImportFrom) and (node.module or "").endswith("policies"):
            found |= {each.name for each in node.names}
        elif isinstance(node, ast.ClassDef) and node.name in classes:
            attributes = [each for each in ast.walk(node) if isinstance(each, ast.Attribute)]
            found |= {each.attr for each in attributes if ast.unparse(each.value) == "policies"}
    return {name for name in found if isfunction(getattr(policies, name, None))}


def test_the_simulator_asks_what_the_loader_asks() -> None:
    loader = asked("python/leat/ray/flow.py") | asked("python/leat/ray/actors.py")
    simulated = asked("bench/cluster_model.py", "Leat") | asked("bench/cluster_sim.py")
    assert loader - simulated == {"together"}  # of small partitions; there are none
    assert simulated <= loader


KINDS: dict[str, tuple[Any, str]] = {
    "Ray Data": (RayData, "any"),
    "fixed": (partial(RayData, adaptive=False, fixed=3), "any"),
    "in order": (RayData, "order"),
    "leat": (Leat, "order"),
    "leat without order": (Leat, "batches"),
}


@pytest.mark.parametrize(("make", "takes"), KINDS.values(), ids=list(KINDS))
@given(seed=st.integers(0, 1 << 30), stages=st.integers(0, 2), mtbf=st.sampled_from([20.0, 200.0]))
def test_all_work_is_delivered_once_whatever_fails(make: Any, takes: str, seed: int, stages: int, mtbf: float) -> None:
    ops = (Op(0.4, 10), Op(0.1, 5), Op(0.1, 5, gpu=True))
    job = Job(ops[:1] + ops[3 - stages :], 60, 4, batch=3, takes=takes, step_s=0.5, jitter=0.2)

    def run() -> Sim:
        nodes = [Node(2, 1), *[Node(1, speed=0.5 if n % 3 else 1.0) for n in range(6)]]
        sim = Sim(job, nodes, 1200, make, seed)
        sim.detect_s = 3.0
        sim.fail_at_random(mtbf, 10.0)
        return sim.run(5000.0)

    sim = run()
    assert sum(units for _, units in sim.delivered) == 60
    assert sim.delivered == run().delivered  # the same by seed
    if isinstance(sim.policy, Leat):
        assert sim.peak <= 1200  # its budget is the store less a batch


def test_the_memory_sweep_has_the_papers_shape() -> None:
    ray, fixed, whole, apart, fused = (
        [run.now for run in sweep(name)]
        for name in ("Ray Data", "not adaptive", "no repartition", "leat, three operators", "leat, one program")
    )
    assert ray[0] > 1.25 * ray[1] and max(ray[1:]) < 1.02 * min(ray[1:])
    assert all(slow > 1.1 * quick for slow, quick in zip(fixed, ray)) and fixed[0] > 1.6 * fixed[1]
    assert whole[2] > 1.5 * whole[3] > 2 * whole[4] * 0.9 and whole[4] > 1.1 * ray[4]
    assert all(slow > quick for slow, quick in zip(apart, ray))  # actors hold CPUs; tasks share them
    assert all(ours < 1.02 * theirs for ours, theirs in zip(fused, ray))
    assert min(*ray, *fixed, *whole, *apart, *fused) > OPTIMUM_S


def test_a_lost_node_costs_its_share() -> None:
    sim = failure(Leat, "order", 9600, 100.0, 300.0)
    before, without, after = rate(sim, 30, 100), rate(sim, 180, 300), rate(sim, 330, 430)
    assert without == pytest.approx(before * 4 / 12, rel=0.05)
    assert after == pytest.approx(before, rel=0.05)
    assert longest_gap(sim) > 14.6  # until Ray finds the node dead
