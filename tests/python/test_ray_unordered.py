"""Which rows a loader on Ray hands out next with in_order=False: the window of its batches over the real engine, with a
cluster that finishes them in any order. Ray is not needed."""

from __future__ import annotations

import json
import random
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import leat
from leat.ray.unordered import REACH, Unit, Window


class Cluster:
    """A flow: batches are there in the order of draws, and an error may be in the place of one."""

    def __init__(self, draws: random.Random, ahead: int, breaks: float) -> None:
        self.draws, self.most, self.breaks = draws, ahead, breaks
        self.asked: dict[Any, Any] = {}
        self.order: list[Any] = []

    def ahead(self, rows: int) -> int:
        return self.most

    def keep(self, keys: list[Any], decisions: Any) -> None:
        self.asked = {key: asked for key, asked in self.asked.items() if key in keys and asked[0] == decisions}

    def knows(self, key: Any, decisions: Any) -> bool:
        return key in self.asked and bool(self.asked[key][0] == decisions)

    def ask(self, unit: Unit, decisions: Any) -> None:
        self.asked[unit.key] = (decisions, list(unit.runs))

    def arrange(self, keys: list[Any]) -> None:
        assert len(keys) == len(self.asked) and set(keys) == set(self.asked)
        assert keys == sorted(keys)  # the earliest is the first
        self.order = keys

    def first_of(self, keys: list[Any]) -> tuple[Any, Any]:
        assert keys == [key for key in self.order if key in keys]
        key = self.draws.choice(keys)
        if self.draws.random() < self.breaks:
            del self.asked[key]
            raise LookupError
        return key, self.asked[key][1]


class Reader:
    """What leat.ray.Loader does with a window."""

    def __init__(self, loader: leat.Loader, cluster: Cluster) -> None:
        self.loader, self.cluster = loader, cluster
        self.window = Window(loader._core, self.planned, cluster.ask, None)
        self.number = 0

    def planned(self, epoch: int, step: int) -> int:
        try:
            return len(self.loader.plan(epoch, step))
        except IndexError:
            return 0

    def start(self) -> None:
        self.number = self.loader._core.start()

    def take(self) -> list[int] | None:
        """The ids of the next batch, as the cluster has made them; None at the end of the epoch."""
        while True:
            try:
                found = self.window.next(self.cluster, self.number, "decided")  # type: ignore[arg-type]
                break
            except LookupError:
                continue
        core = self.loader._core
        if found is None:
            assert core.next(self.number) is None
            return None
        unit, runs = found
        step = core.choose(unit.runs)
        batch = core.next(self.number)
        assert batch is not None and batch.step() == step and batch.epoch() == unit.epoch
        made = [int(self.loader.plan(unit.epoch, s)[first + i]) for s, first, n in runs for i in range(n)]
        assert np.asarray(batch.ids()).tolist() == made
        self.window.given(unit)
        self.cluster.asked.pop(unit.key)
        return made


def opened(n: int, size: int, tail: Any, rank: int, ranks: int) -> leat.Loader:
    ds = leat.from_arrays(x=np.arange(n))
    options = {"global_batch_size": size, "tail": tail, "rank": rank, "world_size": ranks, "seed": 5}
    return leat.Loader(ds, shuffle=True, in_order=False, framework="numpy", outputs={"x": []}, **options)


def scattered(loader: leat.Loader, epoch: int, draws: random.Random) -> tuple[str, list[int]]:
    """A state within an epoch in which any rows were received, as on one host where some are late; and these rows."""
    core, seen = loader._core, list[int]()
    loader.set_epoch(epoch)
    number, full = core.start(), len(loader.plan(epoch, 0)) if core.steps() else 0
    for _ in range(draws.randrange(4) if full else 0):
        rows, step = list[tuple[int, int]](), 0
        while len(rows) < 3 * full and (found := core.left(step)) is not None:
            step, left = found
            rows += [(step, first + i) for first, n in left for i in range(n)]
            step += 1
        if len(rows) < full:
            break
        core.choose([(*row, 1) for row in sorted(draws.sample(rows, full))])
        batch = core.next(number)
        assert batch is not None
        seen += np.asarray(batch.ids()).tolist()
    return json.dumps(loader.state_dict()), seen


shapes = st.tuples(
    st.integers(1, 60), st.integers(3, 12), st.sampled_from(["pad", "drop", "uneven"]), st.integers(1, 3)
)


@given(st.integers(0, 1 << 30), shapes, st.integers(2, 9), st.sampled_from([0.0, 0.2]))
def test_each_row_of_an_epoch_comes_once_whatever_is_done_within(
    seed: int, shape: tuple[int, int, Any, int], ahead: int, breaks: float
) -> None:
    n, size, tail, ranks = shape
    draws = random.Random(seed)
    place = draws.randrange(ranks), ranks
    loader, other = opened(n, size, tail, *place), opened(n, size, tail, *place)
    reader = Reader(loader, Cluster(draws, ahead, breaks))
    reader.start()
    for _ in range(3):
        epoch = loader._core.epoch()
        steps = range(loader._core.steps())
        want = sorted(i for step in steps for i in loader.plan(epoch, step).tolist())
        seen, states = list[int](), [scattered(other, epoch, draws)]
        for _ in range(200):
            if draws.random() < 0.15:
                states.append((json.dumps(loader.state_dict()), seen))
            what = draws.random()
            if what < 0.05:  # the epoch from its start
                loader.set_epoch(epoch)
                seen = []
                reader.start()
            elif what < 0.15 and states:  # from a state, sometimes as a new loader would
                state, had = draws.choice(states)
                if json.loads(state)["at"]["epoch"] > epoch:  # all was received
                    continue
                seen = had
                if draws.random() < 0.5:
                    reader = Reader(loader, reader.cluster)
                loader.load_state_dict(json.loads(state))
                reader.start()
            found = reader.take()
            if found is None:
                break
            seen = seen + found
        assert sorted(seen) == want
        reader.start()


def test_nothing_is_asked_for_beyond_what_a_state_can_say() -> None:
    loader = opened(200_000, 2000, "pad", 0, 1)
    cluster = Cluster(random.Random(0), 64, 0.0)
    reader = Reader(loader, cluster)
    reader.start()
    reader.window.next(cluster, reader.number, "decided")  # type: ignore[arg-type]
    assert len(cluster.asked) == REACH // 2000
    late = cluster.order[0]
    cluster.draws.choice = lambda keys: keys[-1]  # type: ignore[method-assign, assignment]
    for _ in range(15):
        reader.take()
    assert list(cluster.asked) == [late]  # all that is near has come
