"""ADO and DoReMi by themselves: beside slow references in NumPy and SciPy, and on simulated trainings."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import leat
from leat import _leat
from leat.mixtures.algorithm import algorithm_of
from leat.mixtures.curve import Curve

optimize = pytest.importorskip("scipy.optimize")
signal = pytest.importorskip("scipy.signal")

LAWS = {"code": (1.0, 40.0, 0.6), "books": (2.6, 12.0, 0.35), "web": (3.0, 5.0, 0.2)}  # eps, beta, alpha


def loss_of(name: str, n: float) -> float:
    eps, beta, alpha = LAWS[name]
    return eps + beta * n**-alpha


def slope_of(name: str, n: float) -> float:
    _, beta, alpha = LAWS[name]
    return alpha * beta * n ** (-alpha - 1)


def slow_fit(n: np.ndarray, loss: np.ndarray) -> tuple[float, float, float]:
    """The published fit by SciPy's L-BFGS-B from a grid of starts, within the bounds: (alpha, ln beta, ln eps)."""
    x, y, delta = np.log(n), np.log(loss), 1e-3

    def objective(p: np.ndarray) -> tuple[float, np.ndarray]:
        alpha, a, e = p
        u = a - alpha * x
        found = np.logaddexp(u, e)
        r, share = found - y, np.exp(u - found)
        psi = np.clip(r, -delta, delta)
        gradient = np.array([np.sum(-psi * share * x), np.sum(psi * share), np.sum(psi * (1 - share))])
        return 1e3 * float(np.sum(psi * (r - psi / 2))), 1e3 * gradient

    best: Any = None
    for alpha, a in ((0.2, 1.0), (0.45, 4.0), (0.7, 4.0)):
        found = optimize.minimize(
            objective,
            [alpha, a, 0.0],
            jac=True,
            method="L-BFGS-B",
            bounds=[(0, 0.8), (-30, 6.5), (-30, 30)],
            options={"maxiter": 200, "ftol": 1e-11, "gtol": 1e-8},
        )
        best = found if best is None or found.fun < best.fun else best
    alpha, a, e = best.x
    return float(alpha), float(a), float(e)


def noisy(name: str, steps: int, seed: int, noise: float = 0.03) -> tuple[np.ndarray, np.ndarray]:
    n = 32.0 * np.arange(1, steps + 1)
    return n, np.array([loss_of(name, x) for x in n]) * (1 + noise * np.random.default_rng(seed).standard_normal(steps))


@pytest.mark.parametrize("name", list(LAWS))
def test_the_slope_is_that_of_a_slow_reference_in_scipy(name: str) -> None:
    n, raw = noisy(name, 2000, 1)
    loss = signal.savgol_filter(raw, 101, 3)[500::10]
    alpha, a, _ = slow_fit(n[500::10], loss)
    slow = alpha * np.exp(a) * n[-1] ** (-alpha - 1)
    law = _leat.power_law_fit(n[500::10].copy(), loss.copy(), (1e-3, 0.8, 6.5, -30.0), None)
    assert _leat.power_law_at(*law[:3], n[-1])[1] == pytest.approx(slow, rel=0.1)


@pytest.mark.parametrize("counts, losses", [(4, 3), (3, 4)])
def test_a_curve_has_a_loss_for_each_number_of_samples(counts: int, losses: int) -> None:
    with pytest.raises(ValueError, match="a loss for each number of samples"):
        _leat.power_law_fit(np.arange(1.0, 1.0 + counts), np.ones(losses), (1e-3, 0.8, 6.5, -30.0), None)


@pytest.mark.parametrize(("count", "every"), [(7, 1), (100, 3), (101, 10), (102, 10), (999, 10), (1000, 7)])
def test_a_curve_that_grows_is_smoothed_as_scipy_smooths_the_whole(count: int, every: int) -> None:
    n, raw = noisy("books", count, 2)
    curve = Curve(101, 3, every, 10_000)
    for x, loss in zip(n, raw):
        curve.add(int(x), float(loss))
    window = min(101, count - 1 + count % 2)
    numbers, smooth = curve.points()
    assert numbers.tolist() == n[::every].tolist()
    assert smooth == pytest.approx(signal.savgol_filter(raw, window, 3)[::every], rel=3e-6)


def test_the_curves_of_a_long_training_take_some_bytes_a_point() -> None:
    n, raw = noisy("code", 20_000, 3)
    curve = Curve(101, 3, 10, 500)
    for x, loss in zip(n, raw):
        curve.add(int(x), float(loss))
    state = json.loads(json.dumps(curve.state_dict()))
    assert len(json.dumps(state)) < 4500
    again = Curve(101, 3, 10, 500)
    again.load_state_dict(state)
    assert again.points()[0].tolist() == curve.points()[0].tolist()
    assert again.points()[1].tolist() == curve.points()[1].tolist()


@pytest.mark.parametrize("text", ["gA==", "AA==", "////////////AA==", "not base64", "AQAAAA=="])
def test_a_damaged_curve_is_an_error(text: str) -> None:
    curve = Curve(101, 3, 10, 500)
    state = curve.state_dict()
    with pytest.raises(ValueError):
        curve.load_state_dict({**state, "kept": text})


def test_a_long_curve_keeps_points_over_its_whole_length() -> None:
    n, raw = noisy("code", 5000, 3)
    curve = Curve(101, 3, 10, 64)
    for x, loss in zip(n, raw):
        curve.add(int(x), float(loss))
    numbers, _ = curve.points()
    assert len(numbers) <= 64 + 51
    assert numbers[0] == 32 and numbers[-1] > 32 * 4900
    assert len(set(np.diff(numbers).tolist())) == 1


def simulate(
    algorithm: Any, steps: int, rows: int = 96, loss: Callable[[str, float], float] = loss_of, noise: float = 0.0
) -> list[dict[str, float]]:
    """A training of domains whose losses are known; the decisions."""
    weights = dict.fromkeys(LAWS, 1 / 3)
    algorithm.start(dict(weights))
    seen, decided, rng = dict.fromkeys(LAWS, 0), [], np.random.default_rng(0)
    for step in range(steps):
        counts = {name: round(rows * w) for name, w in weights.items()}
        for name, n in counts.items():
            seen[name] += n
        losses = {name: loss(name, seen[name]) * (1 + noise * rng.standard_normal()) for name, n in counts.items() if n}
        found = algorithm.report(step, losses, counts, weights)
        if found is not None:
            assert sum(found.values()) == pytest.approx(1, abs=1e-9)
            weights = found
            decided.append(found)
    return decided


def test_ado_finds_the_slopes_of_a_simulated_training() -> None:
    ado = leat.ADO(200)
    simulate(ado, 1000, noise=0.01)
    for name, slope in ado.state()["slopes"].items():
        assert slope == pytest.approx(slope_of(name, ado.n[list(LAWS).index(name)]), rel=0.15)


def slow_ado(steps: int, every: int, credit: str) -> list[dict[str, float]]:
    """ADO's formulas as published, in NumPy, on losses whose laws are known."""
    k = len(LAWS)
    mu = np.full(k, 1 / 3)
    h, mean, weights, n = mu.copy(), mu.copy(), mu.copy(), np.zeros(k)
    decided, known = [], False
    for t in range(steps):
        counts = np.array([round(96 * w) for w in weights])
        n += counts
        h = 0.1 * (counts / counts.sum() if credit == "delivered" else weights) + 0.9 * h
        known = known or (t + 1) % every == 0
        if known:
            rho = mu * h**0.5 * np.array([slope_of(name, x) for name, x in zip(LAWS, n)])
            rho = np.maximum(rho / rho.sum(), 0.01)
            rho /= rho.sum()
            pi = 0.1 * rho + 0.9 * mean
            mean = rho / (t + 2) + (1 - 1 / (t + 2)) * mean  # t is from 1 on there
            if (t + 1) % every == 0:
                weights = pi / pi.sum()
                decided.append(dict(zip(LAWS, weights.tolist())))
    return decided


@pytest.mark.parametrize("credit", ["delivered", "asked"])
def test_ados_decisions_are_those_of_its_formulas(credit: Any) -> None:
    decided = simulate(leat.ADO(100, credit=credit), 600)
    assert len(decided) == 6
    for found, wanted in zip(decided, slow_ado(600, 100, credit)):
        assert found == pytest.approx(wanted, rel=0.02)


def test_the_mean_of_what_ado_preferred_counts_the_opening_weights_as_one_step() -> None:
    ado = leat.ADO(20)
    ado.start(dict.fromkeys(LAWS, 1 / 3))
    known = 0
    for step in range(60):
        before = list(ado.mean)
        losses = {name: loss_of(name, 8 * (step + 1)) for name in LAWS}
        ado.report(step, losses, dict.fromkeys(LAWS, 8), dict.fromkeys(LAWS, 1 / 3))
        if any(ado.laws):
            wanted = [(rho + (step + 1) * m) / (step + 2) for rho, m in zip(ado.preference(), before)]
            assert ado.mean == pytest.approx(wanted, rel=1e-12)
            known += 1
    assert known == 41


def test_the_domain_whose_loss_falls_fastest_gains() -> None:
    ado = leat.ADO(100)
    decided = simulate(ado, 100)
    speeds = {name: slope_of(name, n) for name, n in zip(LAWS, ado.n)}
    assert sorted(decided[0], key=decided[0].__getitem__) == sorted(speeds, key=speeds.__getitem__)


def test_no_eps_lies_below_the_floor() -> None:
    ado = leat.ADO(200, eps_floor=1.65)
    simulate(ado, 600, noise=0.01)
    assert min(ado.state()["eps"].values()) >= 1.65 * (1 - 1e-12)
    free = leat.ADO(200)
    simulate(free, 600, noise=0.01)
    assert free.state()["eps"]["code"] == pytest.approx(1.0, rel=0.1)


def test_no_domain_gets_less_than_the_floor_of_its_preference() -> None:
    ado = leat.ADO(50, delta=0.2, gamma2=1.0)
    decided = simulate(ado, 300)
    assert min(decided[-1].values()) >= 0.2 / 1.6


@pytest.mark.parametrize("cut", [1, 149, 200, 333, 599])
def test_an_ado_that_goes_on_from_its_state_decides_the_same(cut: int) -> None:
    def run(cut: int | None) -> list[tuple[int, dict[str, float]]]:
        ado, found = leat.ADO(100, max_points=20), []
        ado.start(dict.fromkeys(LAWS, 1 / 3))
        rng = np.random.default_rng(5)
        for step in range(800):
            losses = {name: loss_of(name, 32 * (step + 1)) * (1 + 0.02 * rng.standard_normal()) for name in LAWS}
            if step == cut:
                state = json.loads(json.dumps(ado.state_dict()))
                ado = leat.ADO(100, max_points=20)
                ado.start(dict.fromkeys(LAWS, 1 / 3))
                ado.load_state_dict(state)
            if (weights := ado.report(step, losses, dict.fromkeys(LAWS, 32), dict.fromkeys(LAWS, 1 / 3))) is not None:
                found.append((step, weights))
        return found

    assert run(cut) == run(None)


def test_ado_without_a_law_decides_nothing_and_waits() -> None:
    ado = leat.ADO(5)
    ado.start({"a": 0.5, "b": 0.5})
    for step in range(5):
        assert ado.report(step, {}, {"a": 4, "b": 4}, {"a": 0.5, "b": 0.5}) is None
    assert np.isnan(ado.state()["slopes"]["a"])


def test_a_domain_that_is_rarely_measured_keeps_its_opening_weight_until_it_has_a_law() -> None:
    ado = leat.ADO(50, gamma2=1.0)
    ado.start({"a": 0.5, "b": 0.3, "c": 0.2})
    weights = None
    for step in range(50):
        losses = {"a": loss_of("code", 8 * (step + 1)), "b": loss_of("books", 8 * (step + 1))}
        weights = ado.report(step, losses, {"a": 8, "b": 8, "c": 0}, {}) or weights
    assert weights is not None and weights["c"] == pytest.approx(0.2)


def test_losses_that_are_not_above_zero_are_refused_by_ado() -> None:
    ado = leat.ADO()
    ado.start({"a": 1.0})
    with pytest.raises(ValueError, match="the loss of 'a' is 0"):
        ado.report(0, {"a": 0.0}, {"a": 1}, {"a": 1.0})


@pytest.mark.parametrize(
    "arguments",
    [
        {"refit_every": 0},
        {"gamma1": 1.5},
        {"gamma2": -0.1},
        {"delta": float("nan")},
        {"eps_floor": 0},
        {"credit": "given"},
        {"samples": "some"},
        {"smooth": (100, 3)},
        {"smooth": (5, 6)},
        {"keep_every": 0},
        {"lead": 0},
        {"alpha_min": 2},
    ],
)
def test_arguments_of_ado_out_of_range_are_errors(arguments: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(arguments))):
        leat.ADO(**arguments)


def test_a_floor_that_leaves_nothing_to_decide_is_an_error() -> None:
    with pytest.raises(ValueError, match="delta=0.01 for each of 100 domains"):
        leat.ADO().start({str(i): 0.01 for i in range(100)})


def slow_doremi(losses: list[dict[str, float]], reference: dict[str, float]) -> tuple[np.ndarray, np.ndarray]:
    w = np.full(len(reference), 1 / len(reference))
    every = []
    for measured in losses:
        excess = np.array([max(measured[name] - reference[name], 0) for name in reference])
        w = w * np.exp(excess)
        w = (1 - 1e-3) * w / w.sum() + 1e-3 / len(w)
        every.append(w)
    return w, np.mean(every, axis=0)


def test_doremis_weights_are_those_of_its_formulas() -> None:
    rng = np.random.default_rng(3)
    reference = {"a": 2.0, "b": 2.5, "c": 1.0}
    losses = [{name: loss + rng.normal(0.1, 0.3) for name, loss in reference.items()} for _ in range(50)]
    doremi = leat.DoReMi(reference, every=50)
    doremi.start(dict.fromkeys(reference, 1 / 3))
    decided = [doremi.report(step, measured, {}, {}) for step, measured in enumerate(losses)]
    current, average = slow_doremi(losses, reference)
    assert decided[:-1] == [None] * 49
    assert list((decided[-1] or {}).values()) == pytest.approx(current.tolist(), rel=1e-9)
    assert list(doremi.state()["average"].values()) == pytest.approx(average.tolist(), rel=1e-9)


def test_doremi_raises_the_domain_with_the_most_excess_loss() -> None:
    reference = {name: loss_of(name, 1e5) for name in LAWS}
    most = max(LAWS, key=lambda name: loss_of(name, 320) - reference[name])
    decided = simulate(leat.DoReMi(reference, every=1, step_size=0.1), 20)
    assert max(decided[-1], key=decided[-1].__getitem__) == most
    assert decided[-1][most] > 1 / 3


def test_a_proxy_run_of_doremi_decides_nothing_and_ends_with_the_average() -> None:
    doremi = leat.DoReMi({name: 2.0 for name in LAWS}, decide="nothing")
    assert simulate(doremi, 30) == []
    assert doremi.average != doremi.weights
    assert sum(doremi.average.values()) == pytest.approx(1)


def test_losses_far_above_the_reference_overflow_nothing() -> None:
    doremi = leat.DoReMi(None, every=1)
    doremi.start({"a": 0.5, "b": 0.5})
    assert doremi.report(0, {"a": 1e6, "b": 2.0}, {}, {}) == pytest.approx({"a": 0.9995, "b": 0.0005})


def test_doremi_leaves_a_domain_without_a_weight_without_one() -> None:
    doremi = leat.DoReMi(None, every=1, smoothing=0.5)
    doremi.start({"a": 0.5, "b": 0.5, "c": 0.0})
    decided = doremi.report(0, {"a": 1.0, "b": 1.0, "c": 1e9}, {}, {})
    assert decided == {"a": 0.5, "b": 0.5, "c": 0.0}
    decided = doremi.report(1, {"a": 2.0, "b": 1.0}, {}, {})
    assert decided is not None and decided["c"] == 0
    assert decided["a"] == pytest.approx(0.5 / (1 + math.exp(-1)) + 0.25)


def test_a_domain_that_is_not_measured_keeps_its_last_excess_in_doremi() -> None:
    doremi = leat.DoReMi({"a": 1.0, "b": 1.0}, every=1, smoothing=0)
    doremi.start({"a": 0.5, "b": 0.5})
    doremi.report(0, {"a": 2.0, "b": 1.0}, {}, {})
    decided = doremi.report(1, {"b": 1.0}, {}, {})
    assert doremi.state()["excess"] == {"a": 1.0, "b": 0.0}
    assert decided is not None and decided["a"] == pytest.approx(1 / (1 + math.exp(-2)))


def test_a_doremi_that_goes_on_from_its_state_decides_the_same() -> None:
    whole, first, second = (leat.DoReMi(None, every=3) for _ in range(3))
    for doremi in (whole, first, second):
        doremi.start({"a": 0.5, "b": 0.5})
    losses = [{"a": 0.1 * i, "b": 0.3} for i in range(12)]
    wanted = [whole.report(i, x, {}, {}) for i, x in enumerate(losses)]
    found = [first.report(i, x, {}, {}) for i, x in enumerate(losses[:7])]
    second.load_state_dict(json.loads(json.dumps(first.state_dict())))
    assert found + [second.report(i, losses[i], {}, {}) for i in range(7, 12)] == wanted


@pytest.mark.parametrize("reference", [{"a": 1.0}, {"a": 1.0, "b": 1.0, "c": 1.0}])
def test_reference_losses_are_those_of_the_domains(reference: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="the reference losses"):
        leat.DoReMi(reference).start({"a": 0.5, "b": 0.5})


def test_a_reference_loss_that_is_no_number_is_an_error() -> None:
    with pytest.raises(ValueError, match="'a' is nan"):
        leat.DoReMi({"a": float("nan")})


def test_what_is_no_algorithm_is_refused_with_what_it_lacks() -> None:
    with pytest.raises(TypeError, match="ADO is a class"):
        algorithm_of(leat.ADO)
    with pytest.raises(TypeError, match="int lacks start, report"):
        algorithm_of(3)
