"""A load that fails has changed nothing, and says StateError: every value of every state as every other type."""

from __future__ import annotations

import contextlib
import itertools
import json
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from hostile_support import same, walk

import leat

N = 60
LOADS = 500  #: that fail, before behaviour is compared


def numbers(n: int = N) -> leat.Dataset:
    return leat.from_arrays(x=np.arange(n), s=np.arange(n) % 2, t=np.linspace(0, 1, n, dtype=np.float32))


def mix(n: int = 2, **options: Any) -> leat.Mix:
    ds = numbers()
    parts = {f"d{k}": (ds.select(np.arange(k % 2, N, 2)), 1.0 / n) for k in range(n)}
    return leat.Mix(parts, **options)


def opened(dataset: Any = None, batch_size: int = 4, **options: Any) -> leat.Loader:
    options = {"shuffle": True, "seed": 3, "framework": "numpy"} | options
    if "sampler" in options:
        del options["shuffle"]
    return leat.Loader(numbers() if dataset is None else dataset, batch_size, **options)


class Worst:
    """An algorithm of a user's, which looks at nothing that it loads."""

    def start(self, weights: dict[str, float]) -> None:
        self.opened, self.n = weights, 0

    def report(self, step: int, losses: Any, counts: Any, weights: Any) -> Any:
        self.n += 1
        worst = max(losses, key=losses.get)
        return {name: w / 2 + 0.5 * (name == worst) for name, w in self.opened.items()}

    def state_dict(self) -> dict[str, Any]:
        return {"n": self.n}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.n = 100
        self.n = state["n"] + 0


class Positions:
    """A sampler whose list is new in each epoch, unless it is the same."""

    def __init__(self, n: int = N, same: bool = False) -> None:
        self.n, self.same, self.reads = n, same, 0

    def __iter__(self) -> Iterator[int]:
        self.reads += 1
        return iter(
            np.random.default_rng(0 if self.same else self.reads).permutation(N)[np.arange(self.n) % N].tolist()
        )

    def __len__(self) -> int:
        return self.n


class Hidden(Positions):
    """One that counts in a variable of a function."""

    def __init__(self, n: int = N) -> None:
        super().__init__(n)
        reads = 0

        def count(more: int) -> int:
            nonlocal reads
            reads += more
            return reads

        self.count = count

    def __iter__(self) -> Iterator[int]:
        self.count(1)
        return iter(np.random.default_rng(0).permutation(N)[(np.arange(self.n) + self.count(0)) % N].tolist())

    def many(self) -> int:
        return self.count(0)


def reported(loader: Any, batch: Any) -> None:
    """What a training says to a loader after a batch."""
    if loader._mixture is not None and loader.mixture.algorithm is not None:
        names = loader.mixture.names
        counts = dict(zip(names, np.bincount(batch.domains, minlength=len(names)).tolist(), strict=True))
        loader.report(batch, {name: 1.0 + 0.5 * k for k, name in enumerate(names)}, counts)
    if loader._feedback is not None:
        loader.report(batch, loss=batch["t"] + 1, margin=batch["t"])


def counted(loader: Any, batch: Any) -> None:
    for counter in loader._counters.values():
        counter.add(float(batch["s"].mean()))


def plain(value: Any) -> Any:
    return [np.asarray(row) for row in value] if isinstance(value, leat.Ragged) else value


def run(loader: Any, batches: Any, n: int) -> list[Any]:
    got = []
    for batch in itertools.islice(batches, n):
        got.append((batch.epoch, batch.step, batch.ids.tolist(), {name: plain(batch[name]) for name in batch}))
        if isinstance(loader, leat.Loader):
            reported(loader, batch)
            counted(loader, batch)
    return got


def rows(batches: list[Any]) -> list[Any]:
    """The rows of what `run` gave, in the order of their ids, without the batches they came in."""
    return sorted(
        (epoch, ids[i], *(values[i].item() for values in fields.values()))
        for epoch, _, ids, fields in batches
        for i in range(len(ids))
    )


def decided(loader: leat.Loader) -> leat.Loader:
    loader.set_batch_size(3, at=(0, 3))
    loader.select(np.arange(0, N, 2), at=(1, 0))
    loader.set_batch_size(5, at=(1, 2))
    return loader


def resized(loader: leat.Loader) -> leat.Loader:
    """So often that the first decisions are folded."""
    for step in range(1, 39):
        loader.set_batch_size(1 + step % 2, at=(0, step))
    return loader


def remixed(loader: leat.Loader, times: int = 4) -> leat.Loader:
    names = loader.mixture.names
    for step in range(times):
        first = 0.2 + 0.1 * (step % 3)
        rest = (1 - first) / (len(names) - 1)
        place = divmod(step, 3)
        loader.set_mixture({name: rest if k else first for k, name in enumerate(names)}, at=(place[0], 1 + place[1]))
    return loader


def reordered(loader: leat.Loader) -> leat.Loader:
    loader.set_order(np.random.default_rng(0).integers(0, N, 50000))
    return loader


def counting(**options: Any) -> dict[str, Any]:
    tree = leat.privacy.TreeCounter(T=100, epsilon=1.0, **options)
    return {"counters": {"a": tree, "b": leat.privacy.TreeCounter(T=100, epsilon=1.0)}}


LOADERS: dict[str, Callable[[Any], leat.Loader]] = {
    "shuffled": lambda tmp: opened(),
    "in sequence, uneven": lambda tmp: opened(shuffle=False, tail="uneven", rank=1, world_size=2),
    "of blocks": lambda tmp: opened(shuffle=leat.Blocks(5), drop_last=True),
    "weighted": lambda tmp: opened(sampler=leat.Weighted(np.arange(N), N)),
    "of a list": lambda tmp: opened(sampler=list(range(N))[::-1]),
    "of a sampler": lambda tmp: opened(sampler=Positions()),
    "of a sampler with a long list": lambda tmp: opened(sampler=Positions(50000, same=True), batch_size=500),
    "of a sampler with a folder": lambda tmp: opened(sampler=Positions(50000), batch_size=500, log_dir=tmp),
    "out of order": lambda tmp: opened(in_order=False),
    "decided": lambda tmp: decided(opened()),
    "decided often": lambda tmp: resized(opened(batch_size=1)),
    "reordered": lambda tmp: reordered(opened(batch_size=500)),
    "reordered, with a folder": lambda tmp: reordered(opened(batch_size=500, log_dir=tmp)),
    "of a mixture": lambda tmp: opened(mix()),
    "of many sources": lambda tmp: remixed(opened(mix(20), batch_size=8)),
    "of a mixture that was decided": lambda tmp: remixed(opened(mix())),
    "of a mixture that was decided often": lambda tmp: remixed(opened(mix(epoch_rows=16)), 60),
    "of a mixture that redistributes": lambda tmp: remixed(opened(mix(exhausted="redistribute")), 2),
    "of a schedule": lambda tmp: opened(leat.Schedule([(0, mix()), (8, mix())])),
    "of ADO": lambda tmp: opened(mix(), mixture=leat.ADO(refit_every=3, skip=0, smooth=(5, 2), keep_every=1)),
    "of DoReMi": lambda tmp: opened(mix(), mixture=leat.DoReMi({"d0": 1.0, "d1": 1.0}, every=2), log_dir=tmp),
    "of an algorithm of one's own": lambda tmp: opened(mix(), mixture=Worst()),
    "with feedback": lambda tmp: opened(feedback=leat.TopFraction(0.5)),
    "with feedback and a folder": lambda tmp: opened(feedback=leat.TopBatches(0.5), log_dir=tmp),
    "with counters": lambda tmp: opened(**counting()),
    "that repeats a log": lambda tmp: opened(mix(), log=remixed(opened(mix())).log),
    "that repeats lists": lambda tmp: opened(log=decided(opened()).log),
    "by length": lambda tmp: opened(ragged(), None, batch_tokens=20, tokens_field="t"),
    "by cost": lambda tmp: opened(ragged(), None, batch_cost=20, cost="t.length"),
    "packed": lambda tmp: opened(leat.pack_rows(ragged(), "t", 16)),
}


def ragged() -> leat.Dataset:
    rows = [np.arange(1 + i % 9, dtype=np.int32) for i in range(N)]
    ends = np.cumsum([0] + [len(row) for row in rows])
    return leat.from_arrays({"t": leat.field("int32", (None,))}, t=leat.Ragged(np.concatenate(rows), ends))


class Moved(NamedTuple):
    loader: Any
    batches: Any  #: its iteration, within an epoch
    head: list[Any]  #: the batches of this epoch that came already


def moved(make: Callable[[Any], Any], tmp: Any, epochs: int = 1, steps: int = 5) -> Moved:
    """A loader within an epoch."""
    loader = make(tmp)
    for _ in range(epochs):
        run(loader, iter(loader), 1 << 30)
    batches = iter(loader)
    return Moved(loader, batches, run(loader, batches, steps))


def look(loader: Any) -> Any:
    """All that can be seen of a loader without moving it."""
    seen: list[Any] = [loader.state_dict(), loader.epoch, len(loader)]
    if hasattr(loader, "plan"):
        with contextlib.suppress(leat.RangeError):  # of what was folded
            seen += [loader.plan(loader.epoch, 0).tolist()]
    if isinstance(loader, leat.Loader):
        seen += [loader.log, loader.global_batch_size, loader._resuming]
        seen += [sorted(loader._texts), sorted(loader._lists)]
        if loader._mixture is not None:
            seen += [loader.mixture.state(), loader.mixture.weights]
        if loader._feedback is not None:
            seen += [{name: (t.value, t.count, t.epoch, t.step) for name, t in loader.feedback.items()}]
        seen += [counter.state_dict() for counter in loader._counters.values()]
        seen += [sorted(p.name for p in Path(loader._log_dir).iterdir())] if loader._log_dir else []
    return seen


def use(loader: Any) -> None:
    """A state that was taken leads to no error: the loader has states, a log and batches."""
    json.dumps(loader.state_dict())
    run(loader, iter(loader), 3)
    json.dumps(loader.state_dict())
    if isinstance(loader, leat.Loader):
        assert loader.log
        repr(loader)
        loader.stats()


@pytest.mark.parametrize("stride", [11, pytest.param(1, marks=pytest.mark.shard("whole"))], ids=["some", "all"])
@pytest.mark.parametrize("kind", LOADERS)
def test_hostile_states_of_a_loader_are_refused_or_harmless(kind: str, stride: int, tmp_path: Path) -> None:
    make = LOADERS[kind]
    state = json.loads(json.dumps(moved(make, tmp_path / "a").loader.state_dict()))

    def resumed() -> Any:
        loader = make(tmp_path / "a")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            loader.load_state_dict(state)
        return loader

    large = "long" in kind or "folder" in kind or "reordered" in kind
    found = walk(resumed, state, look, use, stride * 3 if large else stride)
    assert len(found.refused) > 5
    subject, twin = moved(make, tmp_path / "b"), moved(make, tmp_path / "c")
    fail(subject.loader, found.refused, LOADS // 10 if large else LOADS)
    for _ in range(2):
        got, expected = (each.head + run(each.loader, each.batches, 100) for each in (subject, twin))
        if kind == "out of order":  # which rows are together follows from when they were ready: each comes once
            got, expected = (rows(batches) for batches in (got, expected))
        assert same(got, expected)
        subject, twin = (Moved(each.loader, iter(each.loader), []) for each in (subject, twin))


def fail(subject: Any, refused: list[tuple[str, Any]], loads: int = LOADS) -> None:
    for what, one in itertools.islice(itertools.cycle(refused), loads):
        with warnings.catch_warnings(), pytest.raises(leat.StateError):
            warnings.simplefilter("ignore")
            subject.load_state_dict(one)
            pytest.fail(what)


def test_a_load_that_fails_leaves_the_batch_that_was_peeked_at() -> None:
    loader = opened()
    batches = iter(loader)
    next(batches)
    ahead, state = loader.peek(), loader.state_dict()
    for wrong in ({**state, "at": 5}, {**state, "log": []}, {**state, "fingerprint": "0" * 32}):
        with pytest.raises(leat.StateError):
            loader.load_state_dict(wrong)
    assert next(batches) is ahead


@pytest.mark.parametrize(
    ("of", "into"),
    [
        ("of a mixture", "of ADO"),
        ("of ADO", "of a mixture"),
        ("shuffled", "with feedback"),
        ("with feedback", "with feedback and a folder"),
    ],
)
def test_a_warning_that_is_an_error_refuses_a_state_before_anything_changes(of: str, into: str, tmp_path: Path) -> None:
    state = moved(LOADERS[of], tmp_path / "a", 0, 3).loader.state_dict()
    subject, twin = moved(LOADERS[into], tmp_path / "b", 0, 2), moved(LOADERS[into], tmp_path / "c", 0, 2)
    before = look(subject.loader)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning):
            subject.loader.load_state_dict(state)
    assert same(look(subject.loader), before)
    assert same(run(subject.loader, subject.batches, N), run(twin.loader, twin.batches, N))


def test_a_list_that_was_read_for_a_state_that_is_refused_is_the_next_epochs() -> None:
    """A sampler may have drawn it, from what no state has."""
    subject, twin = (opened(sampler=Hidden(50000), batch_size=500) for _ in range(2))
    state = moved(LOADERS["of a sampler with a long list"], None).loader.state_dict()
    del state["sampler"]
    for _ in range(3):
        with pytest.raises(leat.StateError):
            subject.load_state_dict({**state, "at": {"epoch": 1, "row": 49_999}})
    assert subject._sampler.many() == 1
    assert same(run(subject, iter(subject), 3), run(twin, iter(twin), 3))


def test_a_state_of_another_mixture_leaves_a_loader_where_it_is() -> None:
    state = moved(lambda tmp: opened(mix()), None).loader.state_dict()
    ds = numbers()
    parts = {name: (ds.select(np.arange(k, N, 2)), 0.5) for k, name in enumerate(("d0", "other"))}
    loader = opened(leat.Mix(parts))
    with pytest.raises(leat.StateError, match="of the domains d0, d1, and this one has, in order, d0, other"):
        loader.load_state_dict(state)
    first = next(iter(loader))
    assert (first.epoch, first.step) == (0, 0)


def test_a_list_that_cannot_be_written_is_warned_of_and_the_loader_goes_on(tmp_path: Path) -> None:
    (tmp_path / "b").write_bytes(b"a file, and no folder")
    small = opened()
    small.set_order([3, 1, 2, 0])
    loader = opened(log_dir=tmp_path / "b")
    with pytest.warns(UserWarning, match=r"positions-[0-9a-f]{16}\.npy cannot be written"):
        loader.load_state_dict(small.state_dict())
    assert next(iter(loader)).ids.tolist() == [3, 1, 2, 0]


@pytest.mark.parametrize("what", [None, 5, "x", [], [1], 0.5])
def test_what_is_no_dict_is_no_state(what: Any) -> None:
    for each in (opened(), opened().consumer(6)):
        with pytest.raises(leat.StateError, match="the dict that state_dict"):
            each.load_state_dict(what)
        with pytest.raises(TypeError):  # as it was called before
            each.load_state_dict(what)
