"""The simulator of loaders, bench/simulate.py: what it says of others is only worth something if it is right."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench"))
try:
    from simulate import LOADERS, ORDERED, AnyOrder, InOrder, Job, Loader, Minato, Torch, bound, simulate
    from workloads import WORKLOADS
finally:
    del sys.path[0]

LOADER = pytest.mark.parametrize("make", LOADERS.values(), ids=list(LOADERS))
PRINTED = {
    "detection": (31, {0: 11, 50: 28, 75: 30, 90: 35, 100: 176}),
    "segmentation": (500, {0: 10, 50: 470, 75: 630, 90: 750, 100: 2230}),
    "speech-3s": (998, {50: 508, 90: 3008}),
    "speech-10s": (2351, {90: 10008}),
}


@st.composite
def jobs(draw: st.DrawFn) -> Job:
    times = draw(st.lists(st.floats(0.001, 10), min_size=1, max_size=60))
    return Job(times, draw(st.integers(1, 7)), draw(st.integers(1, 30)), draw(st.floats(0.001, 3)))


def seg(epochs: int, step: float) -> Job:
    return Job.of(WORKLOADS["segmentation"], epochs, step)


@pytest.mark.parametrize("name", PRINTED)
def test_a_workload_has_the_printed_statistics(name: str) -> None:
    mean, quantiles = PRINTED[name]
    ms = WORKLOADS[name].times(50_000) * 1000
    assert ms.mean() == pytest.approx(mean, rel=1e-3)
    for percent, value in quantiles.items():
        assert np.percentile(ms, percent) == pytest.approx(value, rel=0.01, abs=1)


@pytest.mark.parametrize("name", ["speech-3s", "speech-10s"])
def test_every_fifth_sample_of_speech_is_heavy(name: str) -> None:
    assert (WORKLOADS[name].times(5000) > 1).sum() == 1000


@LOADER
@given(job=jobs(), workers=st.integers(1, 9))
def test_each_row_is_delivered_once_and_in_its_epoch(
    make: Callable[[Job, int], Loader], job: Job, workers: int
) -> None:
    run = simulate(make(job, workers))
    rows = [row for batch in run.delivered for row in batch]
    assert sorted(rows) == list(range(len(job.times)))
    assert all(a // job.epoch <= b // job.epoch for a, b in zip(rows, rows[1:]))
    assert sorted(map(len, run.delivered)) == sorted(end - begin for begin, end in job.batches)


@LOADER
@given(job=jobs(), workers=st.integers(1, 9))
def test_no_loader_beats_the_bound(make: Callable[[Job, int], Loader], job: Job, workers: int) -> None:
    loader = make(job, workers)
    ordered = (
        isinstance(loader, InOrder)
        and not isinstance(loader, AnyOrder)
        or isinstance(loader, Torch)
        and loader.in_order
    )
    assert simulate(loader).seconds >= bound(job, workers, ordered) * (1 - 1e-9)


@LOADER
@given(job=jobs(), workers=st.integers(1, 9))
def test_workers_do_each_rows_work_once(make: Callable[[Job, int], Loader], job: Job, workers: int) -> None:
    loader = make(job, workers)
    busy, work = simulate(loader).busy, sum(job.times)
    assert (
        busy == pytest.approx(work)
        if not isinstance(loader, Minato) or not loader.repeat
        else busy >= work * (1 - 1e-9)
    )


@LOADER
def test_time_is_steps_and_waits(make: Callable[[Job, int], Loader]) -> None:
    job = seg(3, 0.1)
    run = simulate(make(job, 4))
    assert run.seconds == pytest.approx(run.waited + len(job.batches) * job.step)


@given(jobs(), st.integers(1, 9))
def test_what_keeps_the_order_delivers_the_plan(job: Job, workers: int) -> None:
    plan = [list(range(*b)) for b in job.batches]
    assert all(simulate(LOADERS[name](job, workers)).delivered == plan for name in ORDERED)


def test_one_worker_and_one_batch_in_flight_take_turns_with_the_consumer() -> None:
    job = Job([1.0, 2.0, 3.0, 4.0], 2, 4, 10.0)
    assert simulate(InOrder(job, 1, window=1)).seconds == 3 + 10 + 10  # the second batch is made during the first step
    assert simulate(InOrder(Job([1.0, 20.0, 3.0, 4.0], 1, 4, 10.0), 1, window=1)).seconds == 1 + 20 + 10 + 10 + 10


def test_a_slow_row_holds_up_its_batch_and_the_window_behind_it_only() -> None:
    job = Job([8.0, *[1.0] * 20], 1, 21, 0.001)
    wide, narrow = simulate(InOrder(job, 2, window=20)), simulate(InOrder(job, 2, window=2))
    assert wide.seconds == pytest.approx(8 + 12 / 2, rel=0.01)  # eight are made beside the slow one
    assert narrow.seconds == pytest.approx(8 + 19 / 2, abs=0.6)  # one is, and then the window is full


def test_torch_drains_at_the_end_of_an_epoch() -> None:
    short, long = Job([1.0] * 24, 1, 3, 0.001), Job([1.0] * 24, 1, 24, 0.001)
    # three rows on four workers, eight times
    assert simulate(Torch(short, 4)).seconds == pytest.approx(8 * 1.0, rel=0.01)
    assert simulate(Torch(long, 4)).seconds == pytest.approx(6 * 1.0, rel=0.01)
    assert simulate(InOrder(short, 4)).seconds == pytest.approx(6 * 1.0, rel=0.01)


def test_torch_deals_batches_in_turn() -> None:
    job = Job([9.0, 1.0, 1.0, 1.0, 1.0, 1.0], 1, 6, 0.1)  # the third and the fifth go to the worker with the slow one
    assert simulate(Torch(job, 2)).seconds == pytest.approx(11 + 2 * 0.1)


def test_torch_in_any_order_gives_no_more_to_a_worker_that_has_its_share() -> None:
    job = Job([9.0, *[1.0] * 9], 1, 10, 0.1)
    assert simulate(Torch(job, 2, in_order=False)).seconds < simulate(Torch(job, 2)).seconds


def test_any_order_delivers_a_slow_row_after_faster_ones_but_within_the_window() -> None:
    job = Job([50.0, *[1.0] * 99], 1, 100, 0.1)
    rows = [row for batch in simulate(AnyOrder(job, 2, window=10)).delivered for row in batch]
    assert rows.index(0) == 9


def test_minato_sets_a_slow_sample_aside_after_the_transform_at_hand() -> None:
    job = Job([1.0] * 9 + [10.0], 1, 10, 0.01, lambda seconds: [seconds / 5] * 5)
    run = simulate(Minato(job, 1, 75, adapt=False))
    # 2 s are over the timeout of 1 s; the rest of 8 s when nothing fresh is left
    assert run.tasks[-2:] == [(9.0, 11.0), (11.0, 19.0)]
    assert simulate(Minato(job, 1, 75, adapt=False, repeat=True)).busy == 19 + 2


def test_minato_finds_a_slow_last_transform_too_late() -> None:
    job = Job([1.0] * 9 + [10.0], 1, 10, 0.01, lambda seconds: [0.5, seconds - 0.5])
    assert len(simulate(Minato(job, 1, 75, adapt=False)).tasks) == 10


@pytest.mark.parametrize("workers", [1, 4, 8, 15, 16, 64])
def test_leat_is_within_1_percent_of_the_bound_with_eight_rows_per_worker_in_flight(workers: int) -> None:
    job = seg(200, 0.1)
    assert bound(job, workers, True) / simulate(LOADERS["leat 8n"](job, workers)).seconds > 0.99
