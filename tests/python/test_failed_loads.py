"""A load that fails has changed nothing, and says StateError: every value of every state as every other type."""

from __future__ import annotations

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


def decided(loader: leat.Loader) -> leat.Loader:
    loader.set_batch_size(3, at=(0, 3))
    loader.select(np.arange(0, N, 2), at=(1, 0))
    loader.set_batch_size(5, at=(1, 2))
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
    "packed": lambda tmp: opened(leat.pack_rows(ragged(), "t", 16)),
}


def ragged() -> leat.Dataset:
    rows = [np.arange(1 + i % 9, dtype=np.int32) for i in range(N)]
    ends = np.cumsum([0] + [len(row) for row in rows])
    return leat.from_arrays({"t": leat.field("int32", (None,))}, t=leat.Ragged(np.concatenate(rows), ends))


class Moved(NamedTuple):
    loader: Any
    batches: Any  #: its iteration, within an epoch


def moved(make: Callable[[Any], Any], tmp: Any, epochs: int = 1, steps: int = 5) -> Moved:
    """A loader within an epoch."""
    loader = make(tmp)
    for _ in range(epochs):
        run(loader, iter(loader), 1 << 30)
    batches = iter(loader)
    run(loader, batches, steps)
    return Moved(loader, batches)


def look(loader: Any) -> Any:
    """All that can be seen of a loader without moving it."""
    seen: list[Any] = [loader.state_dict(), loader.epoch, len(loader)]
    if isinstance(loader, (leat.Loader, leat.attach.__class__)) or hasattr(loader, "plan"):
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


@pytest.mark.parametrize("kind", LOADERS)
def test_hostile_states_of_a_loader_are_refused_or_harmless(kind: str, tmp_path: Path) -> None:
    make = LOADERS[kind]
    state = json.loads(json.dumps(moved(make, tmp_path / "a").loader.state_dict()))

    def resumed() -> Any:
        loader = make(tmp_path / "a")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            loader.load_state_dict(state)
        return loader

    large = "long" in kind or "folder" in kind or "reordered" in kind
    found = walk(resumed, state, look, use, 7 if large else 1)
    assert len(found.refused) > 20
    subject, twin = moved(make, tmp_path / "b"), moved(make, tmp_path / "c")
    fail(subject.loader, found.refused, 50 if large else LOADS)
    for _ in range(2):
        got, expected = (run(each.loader, each.batches, 1 << 30) for each in (subject, twin))
        assert same(got, expected)
        subject, twin = (Moved(each.loader, iter(each.loader)) for each in (subject, twin))


def fail(subject: Any, refused: list[tuple[str, Any]], loads: int = LOADS) -> None:
    for what, one in itertools.islice(itertools.cycle(refused), loads):
        with warnings.catch_warnings(), pytest.raises(leat.StateError):
            warnings.simplefilter("ignore")
            subject.load_state_dict(one)
            pytest.fail(what)
