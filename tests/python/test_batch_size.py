"""leat.NormTest and controllers of one's own: batch sizes that are decided from gradients."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from process_support import Process

import leat

torch: Any = pytest.importorskip("torch")


def opened(path: Path, size: int = 8, **options: Any) -> leat.Loader:
    return leat.Loader(leat.open(path), size, shuffle=True, seed=2, **options)


@pytest.mark.parametrize("as_tensor", [True, False])
@pytest.mark.parametrize("rows", [[1] * 12, [4, 4, 4], [5, 3, 7, 1]])
def test_the_variance_is_the_unbiased_one_of_the_weighted_means_of_parts(as_tensor: bool, rows: list[int]) -> None:
    draws = np.random.default_rng(0)
    gradients = [draws.normal(3, 2, 50) for _ in rows]
    mean = np.average(gradients, axis=0, weights=rows)
    variance = sum(n * ((g - mean) ** 2).sum() for n, g in zip(rows, gradients, strict=True)) / (len(rows) - 1)
    with leat.Loader(leat.from_arrays(x=np.zeros(400)), 8) as loader:
        control = leat.NormTest(0.5, 300)
        for n, g in zip(rows, gradients, strict=True):
            parts = [torch.from_numpy(g[:20]).view(4, 5), None, torch.from_numpy(g[20:])] if as_tensor else g
            control.observe(parts, n)
        size = control.step(loader)
        seen = control.seen
        assert seen is not None and (seen.rows, seen.parts, seen.batch_size) == (sum(rows), len(rows), 8)
        assert seen.variance == pytest.approx(variance) and seen.squared_norm == pytest.approx(mean @ mean)
        assert size == max(8, math.ceil(variance / (0.25 * (mean @ mean)))) == loader.global_batch_size


def test_the_estimate_from_parts_has_the_expectation_of_that_from_samples() -> None:
    draws, found = np.random.default_rng(1), []
    with leat.Loader(leat.from_arrays(x=np.zeros(10)), 8) as loader:
        for _ in range(400):
            samples = draws.normal(1, 3, (64, 10))
            control = leat.BatchSize(lambda seen: 8, 8)
            for part in samples.reshape(8, 8, 10):
                control.observe(part.mean(0), 8)
            control.step(loader)
            assert control.seen is not None
            found.append(control.seen.variance)
    assert np.mean(found) == pytest.approx(10 * 9, rel=0.03)


def observe(control: leat.BatchSize, noise: float, size: float = 1.0) -> None:
    for sign in (1, -1):
        control.observe(np.array([size + sign * noise, size]))


def test_the_batch_grows_where_the_gradient_is_noisy_and_never_shrinks(records: Path) -> None:
    with opened(records) as loader:
        control, sizes = leat.NormTest(0.5, 40), []
        for batch, noise in zip(loader, [0.1, 2.0, 0.1, 30.0], strict=False):
            sizes.append(batch.size)
            observe(control, noise)
            sizes.append(control.step(loader))
        # variance 2 noise^2, squared norm 2: noise^2 / eta^2
        assert sizes == [8, 8, 8, 16, 16, 16, 16, 40]


def test_each_epoch_has_each_row_once_whatever_is_decided_and_a_resumed_run_goes_on_alike(records: Path) -> None:
    def run(stop: int | None) -> list[list[int]]:
        loader, draws = opened(records, 3), np.random.default_rng(3)
        control = leat.BatchSize(lambda seen: int(draws.integers(1, 24)), 24)
        got: list[list[int]] = []
        epoch = 0
        while epoch < 3:
            for batch in loader:
                got.append(batch.ids.tolist())
                observe(control, 1.0)
                control.step(loader)
                if len(got) == stop:
                    state = json.loads(json.dumps([loader.state_dict(), control.state_dict()]))
                    loader, control = opened(records, 3), leat.BatchSize(control.rule, 24)
                    loader.load_state_dict(state[0])
                    control.load_state_dict(state[1])
                    assert control.steps == stop
                    break
            else:
                epoch += 1
        return got

    plain = run(None)
    assert run(7) == plain
    n, seen = len(leat.open(records)), [i for ids in plain for i in ids]
    for epoch in range(3):
        assert sorted(seen[epoch * n : (epoch + 1) * n]) == list(range(n))


def test_the_test_is_made_every_so_many_steps_and_others_cost_nothing(records: Path) -> None:
    with opened(records) as loader:
        control, due = leat.NormTest(0.5, 99, every=3), []
        for _ in range(6):
            due.append(control.due)
            if control.due:
                observe(control, 2.0)
            else:
                control.observe(object())  # not looked at
            control.step(loader)
        assert due == [False, False, True, False, False, True]
        assert [e["global_batch"] for e in loader.log] == [8, 16]


def test_a_gradient_of_zero_asks_for_the_largest_batch_and_no_noise_for_none(records: Path) -> None:
    with opened(records) as loader:
        control = leat.NormTest(0.1, 50)
        for _ in range(3):
            control.observe(np.zeros(4))
        assert control.step(loader) == 8
        control.observe(np.array([1.0, 0.0]))
        control.observe(np.array([-1.0, 0.0]))
        assert control.step(loader) == 50


@pytest.mark.parametrize("scale", [1e25, 1e-30])
def test_gradients_of_any_size_that_float32_has_are_compared(records: Path, scale: float) -> None:
    torch = pytest.importorskip("torch")
    sizes = []
    for by in (1.0, scale):
        with opened(records) as loader:
            control = leat.NormTest(0.15, 64)
            next(iter(loader))
            for i in range(4):
                control.observe(torch.tensor([1.0, 2.0 + 3 * i, -3.0]) * by, 2)
            sizes.append(control.step(loader))
    assert sizes[0] == sizes[1] > 8


def test_a_controller_of_one_s_own_may_let_batches_shrink_within_its_bounds(records: Path) -> None:
    with opened(records) as loader:
        control = leat.BatchSize(lambda seen: seen.batch_size / 3, 50, min_batch_size=2)
        sizes = []
        for _ in range(3):
            observe(control, 1.0)
            sizes.append(control.step(loader))
        assert sizes == [3, 2, 2]


def test_what_cannot_be_decided_is_an_error_after_which_the_loader_goes_on_as_before(records: Path) -> None:
    with opened(records) as loader:
        control = leat.NormTest(0.5, 50)
        with pytest.raises(ValueError, match="no gradient was observed"):
            control.step(loader)
        control.observe(np.zeros(3))
        assert control.step(loader) == 8 and control.seen is None  # one part shows no spread
        control.observe(np.ones(3))
        with pytest.raises(ValueError, match="of 4 numbers"):
            control.observe(np.ones(4))
        for bad in (np.nan, np.inf):
            with pytest.raises(ValueError, match="NaN or infinite"):
                control.observe(np.array([1.0, bad, 1.0]))
        with pytest.raises(ValueError, match="backward"):
            control.observe([None, None])
        with pytest.raises(TypeError, match="a gradient is"):
            control.observe(3.0)
        own = leat.BatchSize(lambda seen: math.nan, 50)
        observe(own, 1.0)
        with pytest.raises(ValueError, match="not nan"):
            own.step(loader)
        assert [e["global_batch"] for e in loader.log] == [8] and next(iter(loader)).size == 8
    wide = leat.from_arrays(x=np.zeros((1000, 1000), np.float32))
    with leat.Loader(wide, 8, framework="numpy", budget_bytes=1 << 20) as loader:
        large = leat.BatchSize(lambda seen: 900, 900)
        observe(large, 1.0)
        with pytest.raises(leat.BudgetError):
            large.step(loader)
        assert next(iter(loader)).size == 8


@pytest.mark.parametrize(
    ("arguments", "error"),
    [((0, 9), ValueError), ((-1.0, 9), ValueError), ((math.inf, 9), ValueError), (("x", 9), ValueError),
     ((0.5, 0), ValueError), ((0.5, 2.5), TypeError)],
)  # fmt: skip
def test_arguments_that_make_no_sense_are_refused(arguments: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        leat.NormTest(*arguments)
    with pytest.raises(ValueError):
        leat.NormTest(0.5, 9, min_batch_size=10)
    with pytest.raises(leat.StateError):
        leat.NormTest(0.5, 9).load_state_dict({"steps": -1})


def observes(rank: int, store: str, path: str, pipe: Any) -> None:
    import torch.distributed as dist

    dist.init_process_group("gloo", init_method="file://" + store, rank=rank, world_size=2)
    loader = leat.Loader(leat.open(path), 4, shuffle=True, seed=2)
    control = leat.NormTest(0.5, 40, every=2)
    draws, got, seen = np.random.default_rng(rank), [], []
    for _ in range(2):
        for batch in loader:
            got.append(batch.ids[batch.valid].tolist())
            for part in batch.split(2):
                if control.due:
                    control.observe(torch.from_numpy(1 + (1 + len(got)) * draws.normal(size=6)), part.size)
            size = control.step(loader)
            seen.append((size, control.seen and [control.seen.variance, control.seen.squared_norm, control.seen.parts]))
    pipe.send([got, seen, [e["global_batch"] for e in loader.log]])
    dist.destroy_process_group()


def test_ranks_pool_what_they_observe_and_decide_the_same(records: Path, tmp_path: Path) -> None:
    processes = [Process(observes, rank, str(tmp_path / "store"), str(records)) for rank in range(2)]
    (first, said, log), (other, said_too, log_too) = [process.answer() for process in processes]
    for process in processes:
        assert process.code() == 0
    assert said == said_too and log == log_too and len(log) > 1
    assert all(b >= a and b % 2 == 0 and b <= 40 for a, b in zip(log, log[1:], strict=False))
    assert [s[1][2] for s in said if s[1]][0] == 4  # two parts of each rank
    n = len(leat.open(records))
    rows = [i for mine, theirs in zip(first, other, strict=True) for i in mine + theirs]
    assert sorted(rows[:n]) == sorted(rows[n:]) == list(range(n))
    # what both saw of the second step, as if one process had seen it
    draws = [np.random.default_rng(rank) for rank in range(2)]
    parts = [1 + 3 * d.normal(size=6) for d in draws for _ in range(2)]
    mean = np.mean(parts, axis=0)
    variance = sum(2 * ((p - mean) ** 2).sum() for p in parts) / 3
    assert said[1][1][:2] == pytest.approx([variance, mean @ mean])


@pytest.mark.parametrize("world", [1, 3, 4])
@pytest.mark.parametrize("rows", [4, 7, 12])
def test_a_size_is_said_for_a_rank_or_for_all_as_in_the_constructor(world: int, rows: int) -> None:
    def batches(size: dict[str, int], **changed: int) -> list[list[list[int]]]:
        found = []
        for rank in range(world):
            loader = leat.Loader(
                leat.from_arrays(x=np.arange(60)), shuffle=True, rank=rank, world_size=world, framework="numpy", **size
            )
            if changed:
                loader.set_batch_size(at=(0, 0), **changed)
            found.append([batch.ids[batch.valid].tolist() for batch in loader])
            assert loader.global_batch_size == (changed or size).get("global_batch_size", rows * world)
        return found

    for size in ({"batch_size": rows}, {"global_batch_size": rows}):
        assert batches({"batch_size": 5}, **size) == batches(size)
    assert batches({"batch_size": 5}, n=rows) == batches({"batch_size": rows})


@pytest.mark.parametrize("size", [{}, {"n": 4, "batch_size": 4}, {"batch_size": 4, "global_batch_size": 4}])
def test_a_size_that_is_not_said_once_is_an_error(size: dict[str, int]) -> None:
    loader = leat.Loader(leat.from_arrays(x=np.arange(60)), 5, framework="numpy")
    with pytest.raises(TypeError, match=r"batch_size \(rows per rank\) or global_batch_size \(rows of all ranks\)"):
        loader.set_batch_size(**size)
    assert [batch.size for batch in loader] == [5] * 12
