"""leat.privacy: running sums that may be published, their exact noise, and what is refused."""

from __future__ import annotations

import functools
import json
import math
import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import leat
import leat.privacy.noise as privacy_noise
from leat.privacy import Budget, BudgetSpentError, RunningArgmax, TreeCounter
from leat.privacy.counter import GRID_BITS
from leat.privacy.noise import discrete_gaussian, discrete_laplace, zcdp_of

UNIT = 1 << GRID_BITS
STEPS = 8  # of the streams that are compared


@pytest.fixture(autouse=True)
def secrets_of_a_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    draw = random.Random(0)
    for module in ("counter", "ranking"):
        monkeypatch.setattr(f"leat.privacy.{module}.new_secret", lambda: draw.randbytes(32))


@pytest.fixture
def noise_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """How much noise an epsilon and a delta need is computed once for all counters of a test."""
    monkeypatch.setattr("leat.privacy.counter.zcdp_of", functools.cache(zcdp_of))


def source(seed: int) -> Callable[[int], int]:
    return random.Random(seed).randrange


# ---- noise -----------------------------------------------------------------------------------------------------------


def chi_squared(found: Counter[int], weight: Callable[[int], float], reach: int) -> tuple[float, int]:
    """Of integers from -reach to reach, and all beyond as one; with the degrees of freedom."""
    whole = sum(weight(x) for x in range(-40 * reach, 40 * reach + 1))
    n = sum(found.values())
    expected = {x: n * weight(x) / whole for x in range(-reach, reach + 1)}
    beyond = n - sum(found[x] for x in expected), n - sum(expected.values())
    pairs = [(found[x], e) for x, e in expected.items()] + [beyond]
    return sum((a - e) ** 2 / e for a, e in pairs), len(pairs) - 1


def test_noise_over_the_integers_has_the_distributions_that_it_should() -> None:
    draw = source(1)
    laplace = Counter(discrete_laplace(7, 3, draw) for _ in range(20000))
    gaussian = Counter(discrete_gaussian(9, draw) for _ in range(20000))
    for found, weight in (
        (laplace, lambda x: math.exp(-abs(x) * 3 / 7)),
        (gaussian, lambda x: math.exp(-x * x / 18)),
    ):
        sum_of_squares, degrees = chi_squared(found, weight, 9)
        assert sum_of_squares < degrees + 5 * math.sqrt(2 * degrees)


@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 1e-6), (1.0, 1e-5), (4.0, 1e-9)])
def test_the_noise_is_enough_by_the_exact_formula_for_one_gaussian(epsilon: float, delta: float) -> None:
    """By Balle and Wang (ICML 2018), theorem 8. What concentrated privacy gives is not far from it."""
    mu = math.sqrt(2 * zcdp_of(epsilon, delta))  # sensitivity, in deviations

    def phi(x: float) -> float:
        return 0.5 * math.erfc(-x / math.sqrt(2))

    def exact(mu: float) -> float:
        return phi(mu / 2 - epsilon / mu) - math.exp(epsilon) * phi(-mu / 2 - epsilon / mu)

    assert exact(mu) <= delta
    assert exact(1.25 * mu) > delta


# ---- sums ------------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("noise_once")
@pytest.mark.parametrize("delta", [0.0, 1e-5])
@pytest.mark.parametrize("shape", [(), (3,)])
def test_sums_are_right_up_to_noise_of_the_stated_deviation(delta: float, shape: tuple[int, ...]) -> None:
    errors = []
    values = np.random.default_rng(0).random((60, *shape)) / 3
    for seed in range(100):
        counter = TreeCounter(64, 1.0, delta, shape=shape, source=source(seed))
        exact = np.zeros(shape)
        for value in values:
            counter.add(value)
            exact = exact + value
        errors.append((np.asarray(counter.value) - exact) / counter.deviation())
    errors = np.array(errors)
    assert abs(errors.mean()) < 4 / math.sqrt(errors.size)
    assert 0.85 < errors.std() < 1.15


def test_the_factorisation_has_smaller_errors_than_the_tree() -> None:
    counters = [TreeCounter(1000, 1.0, delta) for delta in (0.0, 1e-5)]
    for counter in counters:
        for _ in range(1000):
            counter.add(1)
    assert counters[1].deviation() < counters[0].deviation() / 2


def test_a_tree_keeps_a_node_for_each_level_alone() -> None:
    counter = TreeCounter(1 << 30, 1.0)
    for _ in range(300):
        counter.add(1)
    assert len(json.dumps(counter.state_dict())) < 1500


@pytest.mark.parametrize("delta", [0.0, 1e-3])
def test_a_counter_goes_on_from_its_state_with_the_same_sums(delta: float) -> None:
    first = TreeCounter(100, 0.5, delta, 2.0, shape=2, source=source(3))
    for i in range(37):
        first.add([i % 2, 1 - i % 2])
    state = json.loads(json.dumps(first.state_dict()))
    second = TreeCounter(100, 0.5, delta, 2.0, shape=2, source=source(4))
    second.load_state_dict(state)
    assert (second.value == first.value).all()
    first._draw = second._draw = source(5)
    first.add([1, 1])
    second._draw = source(5)
    second.add([1, 1])
    assert (second.value == first.value).all()


def test_counters_go_on_with_the_loader_that_they_count_for() -> None:
    data = leat.from_arrays(x=np.arange(96))

    def opened() -> tuple[leat.Loader, TreeCounter, RunningArgmax]:
        seen, ranking = TreeCounter(1000, 1.0), RunningArgmax(1000, 1.0, 2, source=source(1))
        return leat.Loader(data, 8, framework="numpy", counters={"seen": seen, "ranking": ranking}), seen, ranking

    loader, seen, ranking = opened()
    for _, batch in zip(range(5), loader):
        for i in batch.ids:
            seen.add(i % 2)
            ranking.add([i % 2, 1 - i % 2])
    ranking.ask()
    state = json.loads(json.dumps(loader.state_dict()))
    again, seen_again, ranking_again = opened()
    again.load_state_dict(state)
    assert (seen_again.value, seen_again.n, ranking_again.left) == (seen.value, 40, ranking.queries - 1)
    assert next(iter(again)).ids[0] == 40
    for wrong in (
        {**state, "counters": {"seen": state["counters"]["seen"]}},
        {**state, "counters": {**state["counters"], "ranking": {**state["counters"]["ranking"], "left": -1}}},
        {k: v for k, v in state.items() if k != "counters"},
    ):
        other, untouched, _ = opened()
        with pytest.raises(leat.StateError):
            other.load_state_dict(wrong)
        assert (untouched.n, next(iter(other)).ids[0]) == (0, 0)


# ---- privacy ---------------------------------------------------------------------------------------------------------


def least(hits: int, n: int, sign: int) -> float:
    """A bound of a probability that holds but once in 1000 times (Wilson)."""
    z, p = 3.1, hits / n
    return (p + z * z / 2 / n + sign * z * math.sqrt(p * (1 - p) / n + z * z / 4 / n / n)) / (1 + z * z / n)


def published(counter: TreeCounter, first: float) -> list[float]:
    """All sums of a stream whose first value is `first`, and whose others are 0."""
    sums = []
    for i in range(STEPS):
        counter.add(first if i == 0 else 0.0)
        sums.append(counter.value)
    return sums


def epsilon_shown(make: Callable[[int], TreeCounter], delta: float, n: int) -> float:
    """A lower bound of the epsilon of a mechanism: streams that differ in their first value, told apart by what is
    published after values 1, 2, 4 and 8, of which each shows one noisy node of the tree; or, of the factorisation, by
    the direction in which its numbers differ.
    """
    f = np.cumprod([1.0, *((2 * k - 1) / (2 * k) for k in range(1, STEPS))])
    inverse = np.linalg.inv(sum(f[k] * np.eye(STEPS, k=-k) for k in range(STEPS)))
    hits = [0, 0]
    for first in (0, 1):
        for seed in range(n):
            sums = np.array(published(make(2 * seed + first), float(first)))
            if delta:
                hits[first] += float(inverse @ sums @ f) >= float(f @ f)
            else:
                hits[first] += bool((sums[[0, 1, 3, 7]] >= 1).all())
    return math.log(max(least(hits[1], n, -1) - delta, 1e-9) / least(hits[0], n, 1))


@pytest.mark.usefixtures("noise_once")
@pytest.mark.parametrize(("delta", "n"), [(0.0, 1600), (1e-3, 800)])
def test_neighbouring_streams_cannot_be_told_apart_by_more_than_epsilon(delta: float, n: int) -> None:
    assert 0 < epsilon_shown(lambda seed: TreeCounter(STEPS, 1.0, delta, source=source(seed)), delta, n) < 1.0


def quieter(seed: int) -> TreeCounter:
    """Of a quarter of the noise."""
    counter = TreeCounter(STEPS, 1.0, source=source(seed))
    counter._mechanism._scale /= 4  # type: ignore[union-attr]
    return counter


def bare(seed: int) -> TreeCounter:
    """One level has no noise."""
    counter = TreeCounter(STEPS, 1.0, source=source(seed))
    tree: Any = counter._mechanism
    noise = tree._noise
    tree._noise = lambda level: 0 if level == 2 else noise(level)
    return counter


def quieter_gaussian(seed: int) -> TreeCounter:
    counter = TreeCounter(STEPS, 1.0, 1e-3, source=source(seed))
    counter._mechanism._variance //= 64  # type: ignore[union-attr]
    return counter


@pytest.mark.usefixtures("noise_once")
@pytest.mark.parametrize(
    ("broken", "delta", "n"), [(quieter, 0.0, 1600), (bare, 0.0, 800), (quieter_gaussian, 1e-3, 300)]
)
def test_a_broken_mechanism_is_found_out(broken: Callable[[int], TreeCounter], delta: float, n: int) -> None:
    assert epsilon_shown(broken, delta, n) > 1.0


def test_cutting_to_the_grid_never_makes_a_value_larger() -> None:
    counter = TreeCounter(4, 1.0, sensitivity=3.0, shape=3)
    counter.add([1.0, -1.0, 1.0])
    sums = counter.state_dict()["sums"][0]
    assert sum(map(abs, sums)) <= UNIT and sums[1] == -(UNIT // 3)


# ---- what is spent and refused ---------------------------------------------------------------------------------------


def test_counters_take_what_they_spend_from_a_budget() -> None:
    budget = Budget(1.0, 1e-5)
    assert TreeCounter(10, 0.5, 1e-5, budget=budget).spent == (0.5, 1e-5)
    RunningArgmax(10, 0.25, 2, budget=budget)
    assert budget.spent == (0.75, 1e-5)
    for ask in (lambda: TreeCounter(10, 0.5, budget=budget), lambda: TreeCounter(10, 0.1, 1e-6, budget=budget)):
        with pytest.raises(BudgetSpentError, match="are left"):
            ask()
    assert budget.spent == (0.75, 1e-5)
    TreeCounter(10, 0.25, budget=budget)


def test_the_largest_sum_is_told_as_often_as_was_agreed() -> None:
    ranking = RunningArgmax(3001, 1.0, 10, queries=3, source=source(0))
    for i in range(3000):
        ranking.add(np.eye(10)[7 if i % 3 else i % 10])
        if i % 1000 == 999:
            assert ranking.ask() == 7
    ranking.add(np.eye(10)[0])
    with pytest.raises(BudgetSpentError, match="all 3 answers were given"):
        ranking.ask()
    with pytest.raises(BudgetSpentError, match="T=3001"):
        ranking.add(np.eye(10)[0])
    assert RunningArgmax(10000, 1.0, 10).queries == round(math.sqrt(10000 / (2 * math.log(10))))


def test_a_single_answer_is_had_once() -> None:
    ranking = RunningArgmax(10, 1.0, 3, queries=1)
    ranking.add([1, 0, 0])
    ranking.ask()
    ranking.add([1, 0, 0])
    with pytest.raises(BudgetSpentError, match="all 1 answers were given"):
        ranking.ask()


@pytest.mark.parametrize("delta", [0.0, 1e-4])
def test_answers_are_those_of_the_exponential_mechanism_with_their_share_of_epsilon(delta: float) -> None:
    draw, n, k = source(2), 20000, 4
    ranking = RunningArgmax(10, 2.0, 3, queries=k, delta=delta, source=draw)
    ranking.add([1, 0, 0])
    ranking.add([0, -1, 0])
    ranking.left = n
    found: Counter[int] = Counter()
    for _ in range(n):
        ranking._asked = -1  # as if there were something new
        found[ranking.ask()] += 1
    each = math.sqrt(8 * zcdp_of(2.0, delta) / k) if delta else 2.0 / k
    weights = [math.exp(each * x / 2) for x in (1, -1, 0)]
    for i, weight in enumerate(weights):
        assert found[i] / n == pytest.approx(weight / sum(weights), abs=4 * 0.5 / math.sqrt(n))


def test_with_a_delta_more_answers_may_be_had_and_each_is_surer() -> None:
    pure, other = RunningArgmax(100_000, 1.0, 10), RunningArgmax(100_000, 1.0, 10, delta=1e-6)
    assert other.queries > pure.queries and other._rate > pure._rate


@pytest.mark.parametrize(
    ("act", "error", "text"),
    [
        (lambda c: c.add(math.nan), ValueError, "a value is not finite"),
        (lambda c: c.add(math.inf), ValueError, "a value is not finite"),
        (lambda c: c.add(1.5), ValueError, "above the sensitivity, 1.0: clip it"),
        (lambda c: c.add([1.0]), ValueError, r"has the shape \(\), not \(1,\)"),
        (lambda c: [c.add(1) for _ in range(3)], BudgetSpentError, "made for T=2 values"),
        (lambda c: c.load_state_dict({}), leat.StateError, "a counter with counter None"),
        (lambda c: c.load_state_dict({**c.state_dict(), "epsilon": 2.0}), leat.StateError, "epsilon 2.0"),
        (lambda c: c.load_state_dict({**c.state_dict(), "n": 3}), leat.StateError, "n of the state is 3, which is"),
        (lambda c: c.load_state_dict({**c.state_dict(), "noisy": [[1.5]]}), leat.StateError, "noisy of the state"),
    ],
)
def test_what_cannot_be_added_or_loaded_is_refused_and_changes_nothing(
    act: Callable[[TreeCounter], Any], error: type[Exception], text: str
) -> None:
    counter = TreeCounter(2, 1.0)
    with pytest.raises(error, match=text):
        act(counter)
    assert counter.n in (0, 2) and counter.value == counter.value


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"T": 0}, "T is 1 or above"),
        ({"epsilon": 0}, "epsilon is above 0"),
        ({"epsilon": math.nan}, "epsilon is above 0"),
        ({"delta": 1.0}, "delta is 0 or above and below 1"),
        ({"sensitivity": -1}, "sensitivity is above 0"),
        ({"shape": (0,)}, "shape is 1 or above"),
    ],
)
def test_arguments_are_checked(options: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        TreeCounter(**{"T": 2, "epsilon": 1.0, **options})


@pytest.mark.parametrize("delta", [0.0, 1e-5])
def test_a_run_that_is_resumed_publishes_what_it_has_published(delta: float) -> None:
    counter = TreeCounter(64, 1.0, delta, shape=2)
    for i in range(20):
        counter.add([i % 2, 0])
    state = json.loads(json.dumps(counter.state_dict()))

    def go_on(other: int) -> list[list[float]]:
        found, again = [], TreeCounter(64, 1.0, delta, shape=2)
        again.load_state_dict(state)
        for i in range(20, 40):
            again.add([i % 2, 0] if i != other else [1 - i % 2, 0])
            found.append(again.value.tolist())
        return found

    once = go_on(-1)
    assert go_on(-1) == once
    changed = go_on(25)
    assert changed[:5] == once[:5]
    noise = np.array(changed)[5:] - np.array(once)[5:]
    assert (np.abs(noise - np.round(noise)) > 1e-6).any()  # other values have other noise


def test_answers_that_were_given_are_given_again_and_are_not_had_twice() -> None:
    ranking = RunningArgmax(100, 0.1, 10, queries=30)
    for i in range(50):
        ranking.add(np.eye(10)[i % 10])
    state = json.loads(json.dumps(ranking.state_dict()))

    def asked(ranking: RunningArgmax) -> list[int]:
        found = []
        for i in range(30):
            found.append(ranking.ask())
            ranking.add(np.eye(10)[i % 10])
        return found

    answers = asked(ranking)
    again = RunningArgmax(100, 0.1, 10, queries=30)
    again.load_state_dict(state)
    assert asked(again) == answers and len(set(answers)) > 1


def test_an_answer_costs_nothing_where_nothing_was_added_since_the_last_one() -> None:
    ranking = RunningArgmax(100, 0.1, 10, queries=3)
    assert ranking.last is None
    ranking.add(np.eye(10)[3])
    answer = ranking.ask()
    assert [ranking.ask() for _ in range(20)] == [answer] * 20
    assert (ranking.last, ranking.left) == (answer, 2)
    again = RunningArgmax(100, 0.1, 10, queries=3)
    state = json.loads(json.dumps(ranking.state_dict()))
    again.load_state_dict(state)
    assert (again.last, again.ask(), again.left) == (answer, answer, 2)
    again.add(np.eye(10)[3])
    again.ask()
    assert again.left == 1
    for wrong in ({"last": 10}, {"asked": 2}, {"asked": None}, {"last": "3"}):
        with pytest.raises(leat.StateError):
            again.load_state_dict({**state, **wrong})
    assert again.left == 1


@pytest.mark.parametrize("wrong", [[3], {"a": 3}, {3: TreeCounter(4, 1.0)}, TreeCounter(4, 1.0), {"a": TreeCounter}])
def test_counters_are_checked_as_a_loader_opens(wrong: Any) -> None:
    with pytest.raises(TypeError, match="counters"):
        leat.Loader(leat.from_arrays(x=np.arange(8)), 4, counters=wrong)


@pytest.mark.parametrize("delta", [0.0, 1e-5])
def test_an_add_that_is_interrupted_has_not_happened(delta: float) -> None:
    counter = TreeCounter(7, 1e6, delta)
    for _ in range(3):
        counter.add(1)
    before, sums, draw = counter.value, counter.state_dict(), privacy_noise.Stream.__call__
    calls = 0

    def interrupted(self: Any, n: int) -> int:
        nonlocal calls
        calls += 1
        if calls == 2:
            raise KeyboardInterrupt
        return draw(self, n)

    with pytest.MonkeyPatch.context() as m:
        m.setattr(privacy_noise.Stream, "__call__", interrupted)
        with pytest.raises(KeyboardInterrupt):
            counter.add(1)
    assert counter.value == before and counter.state_dict() == sums
    for _ in range(4):
        counter.add(1)
    assert counter.value == pytest.approx(7, abs=0.01)


def test_what_cannot_be_is_refused_before_anything_changes() -> None:
    counter = TreeCounter(10, 1.0, 1e-5)
    counter.add(1)
    state = counter.state_dict()
    with pytest.raises(leat.StateError, match="noisy of the state"):
        counter.load_state_dict({**state, "noisy": [[10**400]]})
    with pytest.raises(leat.StateError, match="secret of its noise"):
        counter.load_state_dict({**state, "secret": "00"})
    assert counter.state_dict() == state
    assert TreeCounter(10, 1e-6, 1e-15).deviation(1) > 1e6
    assert TreeCounter(10, 1.0, shape=np.int64(3)).shape == (3,)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="keeps all its values"):
        TreeCounter(1 << 39, 1.0, 1e-5)
    ranking = RunningArgmax(10, 1.0, 3)
    ranking.add([1, 1, 0])  # each sum by 1 at most
    with pytest.raises(ValueError, match="sensitivity"):
        ranking.add([0, 1.5, 0])


def test_counters_are_those_of_their_rank() -> None:
    data = leat.from_arrays(x=np.arange(40))
    loaders = [
        leat.Loader(data, 10, framework="numpy", rank=r, world_size=2, counters={"n": TreeCounter(100, 1.0)})
        for r in range(2)
    ]
    state = loaders[0].state_dict()
    loaders[0].load_state_dict(state)
    with pytest.raises(leat.StateError, match="counters of rank 0 of 2, and this is 1 of 2"):
        loaders[1].load_state_dict(state)
