"""The adapting number of workers, on recorded traces (bench/record_traces.py) and on whatever hypothesis makes up."""

from __future__ import annotations

import math
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random

import pytest
from drawn_support import examples
from hypothesis import given
from hypothesis import strategies as st

from leat.workers import cores
from leat.workers.adapt import PAUSE, Controller, Interval

TRACES = sorted((Path(__file__).resolve().parent / "traces").glob("*.txt"))


@dataclass
class Trace:
    head: dict[str, str]
    seconds: dict[tuple[int, int], Interval]  # (second, workers) -> what was observed

    @classmethod
    def read(cls, path: Path) -> Trace:
        lines = path.read_text().splitlines()
        head = dict(line[2:].split(": ", 1) for line in lines if line.startswith("#"))
        seconds = {}
        for line in lines:
            if not line.startswith("#"):
                second, n, waited, rows, worker, process, idle = map(int, line.split())
                seconds[second, n] = Interval(1.0, waited / 1000, rows, n, worker / 1000, process / 1000, idle / 1000)
        return cls(head, seconds)

    def length(self) -> int:
        return 1 + max(second for second, _ in self.seconds)

    def controller(self, workers: int = 1) -> Controller:
        return Controller(float(self.head["budget"]), int(self.head["max_workers"]), workers)

    def right(self) -> tuple[int, int]:
        low, high = map(int, self.head["right"].split())
        return low, high

    def play(self, controller: Controller, times: int = 1) -> Iterator[int]:
        for i in range(times * self.length()):
            yield controller.observe(self.seconds[i % self.length(), controller.workers])


def taken_back(sizes: list[int]) -> int:
    """Growths that were followed by a shrink."""
    steps = [b - a for a, b in zip(sizes, sizes[1:]) if a != b]
    return sum(a > 0 > b for a, b in zip(steps, steps[1:]))


def allowed(intervals: int) -> float:
    """What leat.adapt promises."""
    return 1 + 2 * math.log2(intervals / PAUSE + 1)


@pytest.fixture(params=TRACES, ids=[p.stem for p in TRACES])
def trace(request: pytest.FixtureRequest) -> Trace:
    return Trace.read(request.param)


def test_there_are_traces_of_every_kind() -> None:
    assert {p.stem for p in TRACES} == {
        "bursts",
        "consumer_bound",
        "cpu_starved",
        "loader_bound",
        "phase_change",
        "storage_bound",
    }


def test_the_right_size_is_reached_and_kept(trace: Trace) -> None:
    low, high = trace.right()
    sizes = list(trace.play(trace.controller()))
    assert all(low <= n <= high for n in sizes[-20:])


def test_a_trace_played_over_and_over_does_not_make_it_oscillate(trace: Trace) -> None:
    sizes = [1, *trace.play(trace.controller(), times=10)]
    assert taken_back(sizes) <= allowed(len(sizes))


def test_the_budget_is_kept_on_every_trace(trace: Trace) -> None:
    controller = trace.controller()
    used = [trace.seconds[0, controller.workers].worker_cpu_s]
    for i, n in enumerate(trace.play(controller, times=3)):
        assert 1 <= n <= controller.max_workers
        used.append(trace.seconds[(i + 1) % trace.length(), n].worker_cpu_s)
    assert max(used) <= controller.budget + 0.5


# ---- machines that hypothesis makes up
# ---------------------------------------------------------------------------------


@dataclass
class Machine:
    """Rows come as fast as the workers, a limit (a storage, a lock) and the consumer allow, with noise."""

    per_worker: float
    demand: float
    limit: float
    cores: float
    cpu: float
    training: float
    noise: Callable[[], float]

    def interval(self, n: int) -> Interval:
        slower = max(1.0, (n * self.cpu + self.training) / self.cores)
        able = min(n * self.per_worker / slower, self.limit)
        rate = min(able, self.demand)
        share = rate / able
        rows = max(0, round(20 * rate * self.noise()))
        waited = max(0.0, 1 - rate / self.demand)
        used, training = n * self.cpu * share / slower, self.training * (1 - waited) / slower
        return Interval(
            20.0, 20 * waited, rows, n, 20 * used, 20 * training, 20 * max(0.0, self.cores - used - training)
        )

    def run(self, controller: Controller, intervals: int) -> list[int]:
        return [controller.observe(self.interval(controller.workers)) for _ in range(intervals)]


def shaken(draw: st.DrawFn) -> Callable[[], float]:
    random = Random(draw(st.integers(0, 1 << 32)))
    size = draw(st.sampled_from((0.0, 0.02, 0.1)))
    return lambda: 1 + size * random.uniform(-1, 1)


@st.composite
def machines(draw: st.DrawFn, limited: bool = False) -> Machine:
    per_worker = draw(st.floats(1, 50))
    cores = draw(st.integers(4, 64))
    needed = draw(st.floats(0.3, 40))
    limit = draw(st.floats(1, 30)) * per_worker if limited else 1e9
    return Machine(
        per_worker, needed * per_worker, limit, cores, draw(st.sampled_from((0.05, 0.5, 1.0))), 1.0, shaken(draw)
    )


@examples(15)
@given(machines())
def test_the_size_that_serves_the_consumer_is_found_and_not_passed_by_much(m: Machine) -> None:
    budget, most = m.cores - 1, 64
    controller = Controller(budget, most)
    n = m.run(controller, 400)[-1]
    needed = math.ceil(m.demand / m.per_worker * 0.95)  # a wait of 5% is let be
    affordable = min(most, math.floor(budget / m.cpu + 0.5))
    assert n >= min(needed, affordable) * 0.95 - 1
    assert n <= min(math.ceil(max(1.0, m.demand / m.per_worker) * 1.12) + 1, affordable)


@examples(15)
@given(machines(limited=True))
def test_workers_beyond_a_limit_that_they_cannot_move_are_taken_back(m: Machine) -> None:
    m.cores, m.demand = 200, 1e6
    controller = Controller(199, 64)
    sizes = m.run(controller, 1000)
    useful = m.limit / m.per_worker
    usual = sorted(sizes[200:])[len(sizes[200:]) // 2]
    assert useful * 0.6 - 1 <= usual <= useful * 1.7 + 1


@examples(15)
@given(machines(limited=True), st.integers(1, 64))
def test_on_a_machine_that_stays_as_it_is_changes_become_rare(m: Machine, workers: int) -> None:
    controller = Controller(m.cores - 1, 64, workers)
    sizes = [workers, *m.run(controller, 2000)]
    assert taken_back(sizes) <= allowed(2000)
    late = sum(a != b for a, b in zip(sizes[1000:], sizes[1001:]))
    assert late <= 8


intervals = st.builds(
    Interval,
    elapsed_s=st.floats(0, 30),
    waited_s=st.floats(0, 30),
    rows=st.integers(0, 10_000),
    workers=st.just(0),
    worker_cpu_s=st.floats(0, 300),
    process_cpu_s=st.floats(0, 300),
    idle_cpu_s=st.floats(0, 300),
)


@examples(15)
@given(st.lists(intervals, min_size=1, max_size=40), st.integers(1, 40), st.integers(1, 64), st.floats(0.1, 64))
def test_whatever_is_observed_growths_that_are_taken_back_are_few(
    shown: list[Interval], each: int, most: int, budget: float
) -> None:
    controller = Controller(budget, most)
    sizes = [1]
    for i in range(1000):
        x = shown[i // each % len(shown)]
        sizes.append(
            controller.observe(
                Interval(
                    x.elapsed_s,
                    min(x.waited_s, x.elapsed_s),
                    x.rows,
                    controller.workers,
                    x.worker_cpu_s,
                    x.process_cpu_s,
                    x.idle_cpu_s,
                )
            )
        )
    assert all(1 <= n <= most for n in sizes)
    assert taken_back(sizes) <= allowed(len(sizes))
    assert controller.changes == sum(a != b for a, b in zip(sizes, sizes[1:]))


# ---- single rules
# ------------------------------------------------------------------------------------------------------


def interval(workers: int, waited: float = 0.9, rows: int = 100, used: float = 1.0, idle: float = 6.0) -> Interval:
    return Interval(1.0, waited, rows, workers, used, 0.1, idle)


def test_nothing_grows_while_no_core_is_idle() -> None:
    controller = Controller(8, 16, 2)
    assert {controller.observe(interval(2, used=2.0, idle=0.0)) for _ in range(200)} == {2}


def test_nothing_grows_while_the_consumer_does_not_wait() -> None:
    controller = Controller(8, 16, 2)
    assert {controller.observe(interval(2, waited=0.02)) for _ in range(200)} == {2}


def test_one_hiccup_of_the_consumer_does_not_add_workers() -> None:
    controller = Controller(8, 16, 2)
    assert {controller.observe(interval(2, waited=1.0 if i == 50 else 0.0)) for i in range(200)} == {2}


def test_intervals_of_workers_that_are_not_all_there_are_not_judged() -> None:
    controller = Controller(8, 16, 2)
    assert {controller.observe(interval(n)) for _ in range(100) for n in (0, 1, 3)} == {2}


def test_intervals_in_which_nobody_asked_for_a_batch_are_not_judged() -> None:
    controller = Controller(8, 16, 2)
    for i in range(100):
        n = controller.observe(interval(2, waited=0.5) if i % 2 else interval(2, waited=0, rows=0))
    assert n == 4 and controller.reason.startswith("the consumer waited 50% of the time")


def test_workers_that_begin_to_compute_are_reduced_to_their_budget() -> None:
    controller = Controller(7, 32)
    for _ in range(300):  # they wait for storage
        controller.observe(
            interval(controller.workers, rows=100 * controller.workers, used=0.1 * controller.workers, idle=4.0)
        )
    assert controller.workers == 32
    for _ in range(10):
        controller.observe(interval(32, rows=100, used=7.9, idle=0.0))
    assert controller.workers == 7
    assert controller.reason == "workers used 7.9 of 7 cores and none was idle: 32 -> 7 workers"


def test_workers_of_many_threads_count_by_the_cores_that_they_use() -> None:
    controller = Controller(7, 32, 4)
    for _ in range(10):
        controller.observe(interval(4, used=12.0, idle=0.0))
    assert controller.workers == 2


def test_a_limit_that_has_moved_ends_a_pause_early() -> None:
    controller = Controller(64, 64)
    for _ in range(600):  # a limit of 400 rows a second: four workers
        controller.observe(interval(controller.workers, rows=min(100 * controller.workers, 400), idle=50.0))
    assert controller.workers == 4
    for _ in range(80):  # slow samples, and no limit
        controller.observe(interval(controller.workers, rows=10 * controller.workers, idle=50.0))
    assert controller.workers >= 8


@pytest.mark.parametrize(
    "wrong", [dict(budget=0, max_workers=1), dict(budget=1, max_workers=0), dict(budget=1, max_workers=2, workers=3)]
)
def test_a_controller_refuses_sizes_that_make_no_sense(wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="it should be"):
        Controller(**wrong)


# ---- cores
# -------------------------------------------------------------------------------------------------------------


def elsewhere(code: str, **environment: str) -> str:
    """What this prints in a process of its own."""
    return subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **environment}, text=True, stdout=subprocess.PIPE, check=True
    ).stdout.strip()


def test_cores_are_counted_by_affinity() -> None:
    code = (
        "import os; os.sched_setaffinity(0, [min(os.sched_getaffinity(0))]); from leat.workers import cores; "
        "print(cores.share(), cores.budget())"
    )
    assert elsewhere(code) == "1.0 1.0"


def test_cores_are_divided_among_the_ranks_of_this_host() -> None:
    code = "from leat.workers import cores; print(cores.share(4))"
    assert float(elsewhere(code, LOCAL_WORLD_SIZE="4")) == cores.share() / 4


@pytest.mark.parametrize(("have", "workers"), [(0.5, 0.5), (1, 1), (2, 2), (2.5, 2), (3, 2), (4, 3), (64, 63)])
def test_the_training_keeps_a_core_where_there_are_more_than_two(
    have: float, workers: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cores, "share", lambda world_size=1: have)
    assert cores.budget() == workers


def test_the_meter_tells_the_workers_time_from_the_process_own() -> None:
    meter = cores.Meter()
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as child:
        try:
            meter.read([child.pid], 0.0)
            worker = process = 0.0
            while worker < 0.1:
                time.sleep(0.02)
                more = meter.read([child.pid], 0.02)
                worker, process = worker + more[0], process + more[1]
        finally:
            child.kill()
    assert process < worker


def test_the_meter_takes_a_worker_that_is_gone_for_idle() -> None:
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    assert cores.Meter().read([child.pid], 1.0)[0] == 0
