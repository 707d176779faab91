"""A load that fails has changed nothing: readers, counters, algorithms, controllers, leat.DataLoader, logs."""

from __future__ import annotations

import copy
import itertools
import json
import random
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hostile_support import hostile, paths, same, walk, with_value
from test_failed_loads import LOADERS, LOADS, N, fail, look, mix, moved, numbers, opened, remixed, run, use

import leat
from leat.mixtures.curve import Curve


def again(make: Callable[[], Any], state: Any) -> Callable[[], Any]:
    """One that has loaded a state."""

    def made() -> Any:
        found = make()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found.load_state_dict(copy.deepcopy(state))
        return found

    return made


# ---- further readers -------------------------------------------------------------------------------------------------


def test_hostile_states_of_a_consumer_are_refused_or_harmless(tmp_path: Path) -> None:
    def make(_: Any = None) -> Any:
        return opened().consumer(6)

    state = moved(make, tmp_path).loader.state_dict()
    found = walk(again(make, state), state, lambda c: [c.state_dict(), c.epoch, len(c)], use)
    subject, twin = moved(make, tmp_path), moved(make, tmp_path)
    fail(subject.loader, found.refused)
    assert same(run(None, subject.batches, N), run(None, twin.batches, N))
    with pytest.raises(TypeError, match="state_dict"):
        subject.loader.load_state_dict(5)


@pytest.mark.parametrize("options", [{}, {"samples": np.arange(0, N, 3), "seed": 4}], ids=["port's order", "its own"])
def test_hostile_states_of_what_is_attached_are_refused_or_harmless(options: Any, ports: Path) -> None:
    with leat.Port(opened(), "a"):

        def make(_: Any = None) -> Any:
            found = leat.attach("a", framework="numpy", rank=0, world_size=1, start="beginning", **options)
            found.set_epoch(0)
            return found

        state = moved(make, None, steps=2).loader.state_dict()

        def see(reader: Any) -> Any:
            return [reader.state_dict(), reader.epoch, len(reader), reader.plan(reader.epoch, 0).tolist()]

        found = walk(again(make, state), state, see, use, 3)
        subject = moved(make, None, steps=2)
        planned = [subject.loader.plan(1, step).tolist() for step in range(2, len(subject.loader))]
        fail(subject.loader, found.refused)
        assert [batch.ids.tolist() for batch in subject.batches] == planned
        subject.loader.close()


# ---- counters, controllers, algorithms -------------------------------------------------------------------------------


def tree(**options: Any) -> Any:
    options = {"T": 40, "epsilon": 1.0} | options
    return leat.privacy.TreeCounter(**options)


COUNTERS: dict[str, tuple[Callable[[], Any], Callable[[Any], Any]]] = {
    "tree": (tree, lambda c: (c.add(0.5), c.value)[1]),
    "tree of vectors": (lambda: tree(shape=(3,)), lambda c: (c.add([0.1, 0.2, 0.3]), c.value)[1]),
    "factorised": (lambda: tree(delta=1e-6), lambda c: (c.add(0.5), c.value)[1]),
    "argmax": (
        lambda: leat.privacy.RunningArgmax(T=40, epsilon=1.0, delta=1e-6, classes=3, queries=5),
        lambda c: (c.add([0, 1, 0]), c.left)[1],
    ),
}


@pytest.mark.parametrize("kind", COUNTERS)
def test_hostile_states_of_counters_are_refused_or_harmless(kind: str) -> None:
    make, add = COUNTERS[kind]

    def counted() -> Any:
        counter = make()
        for _ in range(5):
            add(counter)
        return counter

    state = json.loads(json.dumps(counted().state_dict()))
    found = walk(again(make, state), state, lambda c: c.state_dict(), add)
    subject = again(make, state)()
    fail(subject, found.refused)
    twin = again(make, state)()
    assert same([add(subject) for _ in range(9)], [add(twin) for _ in range(9)])
    with pytest.raises(leat.StateError):
        subject.load_state_dict(5)


def test_hostile_states_of_a_controller_are_refused_or_harmless() -> None:
    def make() -> Any:
        return leat.NormTest(eta=0.5, max_batch_size=64)

    found = walk(make, {"steps": 3}, lambda c: (c.state_dict(), c.due, c._parts), lambda c: c.state_dict())
    subject = make()
    subject.observe(np.ones(3))
    fail(subject, found.refused)
    assert (subject.steps, subject._parts) == (0, 1)
    with pytest.raises(leat.StateError):
        subject.load_state_dict(5)


def losses(step: int) -> dict[str, float]:
    return {"a": 1 + 9 * (step + 1) ** -0.5, "b": 2 + (step + 1) ** -0.5}


ALGORITHMS: dict[str, Callable[[], Any]] = {
    "ADO": lambda: leat.ADO(refit_every=4, skip=0, smooth=(5, 2), keep_every=1),
    "DoReMi": lambda: leat.DoReMi({"a": 1.0, "b": 1.0}, every=3),
}


@pytest.mark.parametrize("kind", ALGORITHMS)
def test_hostile_states_of_algorithms_are_refused_or_harmless(kind: str) -> None:
    def make() -> Any:
        found = ALGORITHMS[kind]()
        found.start({"a": 0.5, "b": 0.5})
        return found

    def go(algorithm: Any, begin: int = 20, n: int = 10) -> Any:
        weights = {"a": 0.5, "b": 0.5}
        return [algorithm.report(i, losses(i), {"a": 4, "b": 4}, weights) for i in range(begin, begin + n)]

    first = make()
    go(first, 0, 20)
    state = json.loads(json.dumps(first.state_dict()))
    found = walk(again(make, state), state, lambda a: (a.state_dict(), a.state()), go)
    subject = again(make, state)()
    fail(subject, found.refused)
    assert same(go(subject), go(again(make, state)()))


def test_hostile_states_of_a_loss_curve_are_refused_or_harmless() -> None:
    def grown(n: int) -> Curve:
        curve = Curve(5, 2, 1, 16)
        for i in range(n):
            curve.add(10 * (i + 1), losses(i)["a"])
        return curve

    def go(curve: Curve) -> Any:
        curve.add(10_000, 1.5)
        return curve.fit(None, -30.0)

    state = grown(12).state_dict()
    found = walk(again(lambda: grown(0), state), state, lambda c: c.state_dict(), go)
    subject = grown(12)
    fail(subject, found.refused)
    assert same(go(subject), go(grown(12)))


# ---- leat.DataLoader -------------------------------------------------------------------------------------------------


class Drawing(torch.utils.data.Sampler[int]):
    """A sampler with an epoch and a generator of its own."""

    def __init__(self) -> None:
        self.epoch, self.draws = 0, random.Random(3)

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __iter__(self) -> Iterator[int]:
        order = list(range(N))
        self.draws.shuffle(order)
        return iter(order[self.epoch % 5 :] + order[: self.epoch % 5])

    def __len__(self) -> int:
        return N


class Stream(torch.utils.data.IterableDataset[int]):
    """A stream without a state."""

    def __iter__(self) -> Iterator[int]:
        return iter(range(N))


class Placed(Stream):
    """... and one with a state, which takes anything."""

    at = 0

    def __iter__(self) -> Iterator[int]:
        while self.at < N:
            self.at += 1
            yield self.at
        self.at = 0

    def state_dict(self) -> dict[str, Any]:
        return {"at": self.at}

    def load_state_dict(self, state: Any) -> None:
        there = isinstance(state, dict) and type(state.get("at")) is int and 0 <= state["at"] < N
        self.at = state["at"] if there else 0


class Pairs:
    """Batches of one's own."""

    def __iter__(self) -> Iterator[list[int]]:
        return iter([[i, N - 1 - i] for i in range(N)])

    def __len__(self) -> int:
        return N


DATA = [(i, i * 0.5) for i in range(N)]
DATALOADERS: dict[str, Callable[[], Any]] = {
    "in sequence": lambda: leat.DataLoader(DATA, 4),
    "shuffled": lambda: leat.DataLoader(DATA, 4, shuffle=True),
    "with a seed": lambda: leat.DataLoader(DATA, 4, shuffle=True, seed=3),
    "with a generator": lambda: leat.DataLoader(DATA, 4, shuffle=True, generator=torch.Generator().manual_seed(3)),
    "with a sampler": lambda: leat.DataLoader(DATA, 4, sampler=Drawing()),
    "with a sampler of a rank": lambda: leat.DataLoader(
        DATA,
        4,
        sampler=torch.utils.data.DistributedSampler(DATA, 2, 1, shuffle=True),  # type: ignore[arg-type]
    ),
    "with batches of one's own": lambda: leat.DataLoader(DATA, batch_sampler=Pairs()),
    "of a stream": lambda: leat.DataLoader(Stream(), 4),
    "of a stream with a state": lambda: leat.DataLoader(Placed(), 4),
}


def tensors(batches: Any, n: int = 1 << 30) -> Any:
    return [[np.asarray(part) for part in (b if isinstance(b, list) else [b])] for b in itertools.islice(batches, n)]


def seen_of(loader: Any) -> Any:
    sampler = getattr(loader.sampler, "__dict__", {})
    own = {name: value for name, value in sampler.items() if isinstance(value, (int, str, float))}
    return json.loads(json.dumps(loader.state_dict())), own, loader._epoch, loader.num_workers


@pytest.mark.parametrize("kind", DATALOADERS)
@pytest.mark.parametrize("steps", [5, 1 << 30], ids=["within", "at the end"])
def test_hostile_states_of_a_dataloader_are_refused_or_harmless(kind: str, steps: int) -> None:
    def begun() -> Any:
        torch.manual_seed(1)
        loader = DATALOADERS[kind]()
        loader.set_epoch(2)
        batches = iter(loader)
        tensors(batches, steps)
        return loader, batches

    def works(loader: Any) -> None:
        loader.state_dict()
        try:
            batches = iter(loader)
        except leat.StateError:  # what a sampler gives is seen when it is read
            assert kind not in ("in sequence", "with a seed", "of a stream", "of a stream with a state")
            with pytest.raises(leat.StateError):
                iter(loader)
            return
        assert len(tensors(batches)) > 0
        loader.state_dict()
        tensors(iter(loader), 2)

    state = json.loads(json.dumps(begun()[0].state_dict()))
    found = walk(again(DATALOADERS[kind], state), state, seen_of, works)
    loader, batches = begun()
    fail(loader, found.refused)
    drawn = torch.get_rng_state()
    twin, others = begun()
    assert torch.equal(drawn, torch.get_rng_state())  # no load has drawn
    for _ in range(2):
        torch.manual_seed(2)
        got = tensors(batches)
        torch.manual_seed(2)
        assert same(got, tensors(others))
        torch.manual_seed(3)
        batches = iter(loader)
        torch.manual_seed(3)
        others = iter(twin)
    with pytest.raises(leat.StateError):
        loader.load_state_dict(5)


@pytest.mark.parametrize("kind", DATALOADERS)
def test_a_state_of_a_dataloader_may_hold_no_arrays(kind: str) -> None:
    """A tensor, an array or an object at any path is refused, and nothing has changed; or it is taken as the number
    that it is."""
    torch.manual_seed(1)
    loader = DATALOADERS[kind]()
    tensors(iter(loader), 5)
    state = json.loads(json.dumps(loader.state_dict()))
    odd: list[Any] = [torch.tensor([1, 2]), torch.tensor(-3), np.array([1, 2]), np.array("x"), object(), b"x", {1}]
    found, refused = DATALOADERS[kind](), 0
    before = seen_of(found)
    for path, value in itertools.product(paths(state), odd):
        try:
            found.load_state_dict(with_value(state, path, value))
        except leat.StateError:
            refused += 1
            assert same(seen_of(found), before), (path, value)
            continue
        except Exception as e:
            raise AssertionError(f"{path} = {value!r}: {e!r}") from e
        found = DATALOADERS[kind]()
    assert refused > 5 * len(state)


# ---- what states and logs are given to besides -----------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["shuffled", "decided", "of a mixture that was decided", "out of order"])
def test_a_batch_at_a_hostile_state_is_refused_or_there(kind: str, tmp_path: Path) -> None:
    loader = moved(LOADERS[kind], tmp_path).loader
    state = json.loads(json.dumps(loader.state_dict()))
    before = look(loader)
    for what, one in hostile(state):
        try:
            loader.batch_at(one)
        except (leat.StateError, leat.RangeError):
            continue
        except leat.InvalidError as e:
            assert "known only from the record" in str(e)
        except Exception as e:
            raise AssertionError(f"{what}: {e!r}") from e
    assert same(look(loader), before)


@pytest.mark.parametrize("of", ["decided", "of a mixture that was decided"])
def test_a_hostile_log_is_refused_or_repeated(of: str, tmp_path: Path) -> None:
    dataset = mix() if "mixture" in of else numbers()
    log = json.loads(json.dumps(LOADERS[of](tmp_path).log))
    for what, one in hostile({"log": log}):
        if "log" not in one or not isinstance(one["log"], list):
            continue
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                use(opened(dataset, log=one["log"]))
        except (leat.StateError, leat.RangeError, leat.InvalidError):
            continue
        except Exception as e:
            raise AssertionError(f"{what}: {e!r}") from e


def test_a_mixture_that_is_loaded_by_itself_changes_nothing_when_that_fails() -> None:
    loader = remixed(opened(mix(), mixture=leat.DoReMi({"d0": 1.0, "d1": 1.0}, every=2)))
    run(loader, iter(loader), 4)
    state, before = json.loads(json.dumps(loader.state_dict()["mixture"])), look(loader)
    refused = 0
    for what, one in hostile(state):
        try:
            loader.mixture.load_state_dict(one)
        except leat.StateError:
            refused += 1
            assert same(look(loader), before), what
            continue
        loader.mixture.load_state_dict(state)
        before = look(loader)
    assert refused > 50 and LOADS
