"""Rows that are decided within an epoch: `select` and `set_order` from a step on."""

from __future__ import annotations

import io
import itertools
import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from drawn_support import examples
from feedback_support import N, opened, write
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

import leat


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write(tmp_path_factory.mktemp("within") / "numbers.leat")


EPOCHS = 3
SIZE = 6
Decision = tuple[str, Any]  #: "select" or "order" and positions, or "size" and rows


def orders(path: str, chosen: list[int] | None, shuffle: bool) -> list[list[int]]:
    """The rows of each epoch, of all samples or of a selection that was made before the first one."""
    with opened(path, shuffle=shuffle) as loader:
        loader.select(chosen)
        return [[int(i) for batch in loader for i in batch.ids] for _ in range(EPOCHS)]


def reference(path: str, shuffle: bool, decisions: dict[tuple[int, int], Decision], drop: bool) -> list[list[int]]:
    """The batches, by a program that knows of no plan."""
    got: list[list[int]] = []
    plain, held, size = orders(path, None, shuffle), ("select", None), SIZE

    def batch_at(rows: list[int], at: int) -> list[int]:
        batch = rows[at : at + size]
        return [] if drop and len(batch) < size else batch

    for epoch, order in enumerate(plain):
        how, chosen = held
        rows = list(chosen) if how == "order" else orders(path, chosen, shuffle)[epoch]
        at = step = 0
        while batch_at(rows, at):
            if (epoch, step) in decisions:
                how, what = decisions[epoch, step]
                if how == "size":
                    size = what
                elif how == "order":
                    rows, held = rows[:at] + list(what), (how, what)
                elif rest := [i for i in order if i not in rows[:at] and (what is None or i in what)]:
                    rows, held = rows[:at] + rest, (how, what)
            if not (batch := batch_at(rows, at)):
                break
            got.append(batch)
            at += len(batch)
            step += 1
    return got


def decide(loader: leat.Loader, what: Decision, at: tuple[int, int], least: int = 1) -> str:
    """What it says where that batch was the last one, or would be."""
    how, value = what
    try:
        if how == "size":
            loader.set_batch_size(global_batch_size=max(value, least), at=at)
        elif how == "select":
            loader.select(value, at=at)
        else:
            loader.set_order(value, at=at)
    except leat.RangeError as e:
        assert "has no step" in str(e)
        return str(e)
    except ValueError as e:
        assert "nothing is left" in str(e) or "the epoch has no batch" in str(e)
        return str(e)
    return ""


some = st.lists(st.integers(0, N - 1), min_size=12, max_size=N, unique=True)
decided = st.one_of(
    st.tuples(st.just("select"), some),
    st.tuples(st.just("select"), st.none()),
    st.tuples(st.just("order"), st.lists(st.integers(0, N - 1), min_size=12, max_size=40)),
    st.tuples(st.just("size"), st.integers(1, 12)),
)


@examples(40)
@given(
    decisions=st.dictionaries(st.tuples(st.integers(0, 2), st.integers(1, 8)), decided, max_size=6),
    shuffle=st.booleans(),
    drop=st.booleans(),
    cuts=st.sets(st.integers(0, 30), max_size=3),
    kept=st.booleans(),
)
def test_the_rest_of_an_epoch_is_that_of_a_slow_reference_wherever_the_run_is_cut(
    path: str,
    decisions: dict[tuple[int, int], Decision],
    shuffle: bool,
    drop: bool,
    cuts: set[int],
    kept: bool,
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        options: dict[str, Any] = {"shuffle": shuffle, "drop_last": drop, "log_dir": folder if kept else None}
        got: list[list[int]] = []
        state: str | None = None
        for cut in [*sorted(cuts), 10**6]:
            with opened(path, SIZE, **options) as loader:
                if state is not None:
                    loader.load_state_dict(json.loads(state))
                while loader.epoch < EPOCHS and len(got) <= cut:
                    for batch in loader:
                        got.append(batch.ids.tolist())
                        if (what := decisions.get((batch.epoch, batch.step + 1))) is not None:
                            decide(loader, what, (batch.epoch, batch.step + 1))
                        if len(got) > cut:
                            break
                state, log, told = json.dumps(loader.state_dict()), loader.log, loader.stats()["plan_hash"]
        assert got == reference(path, shuffle, decisions, drop)
        if cuts and not kept:  # lists of an earlier process do not stand in its log
            return
        with opened(path, SIZE, log=log, **options) as again:
            repeated = [batch.ids.tolist() for _ in range(EPOCHS) for batch in again]
            assert repeated == got
            assert cuts or again.stats()["plan_hash"] == told


def test_what_is_in_flight_beyond_is_planned_again_and_what_was_handed_out_stays(path: str) -> None:
    with opened(path, 4, num_threads=2) as loader:
        order = orders(path, None, True)[0]
        batches = iter(loader)
        first = [next(batches).ids.tolist() for _ in range(3)]
        peeked = loader.peek()
        assert peeked is not None and peeked.ids.tolist() == order[12:16]
        loader.select(sorted(order[:20]) + [order[-1]], at=(0, 3))
        assert len(loader) == 6 and loader.peek().ids.tolist() == order[12:16]  # type: ignore[union-attr]
        rest = [batch.ids.tolist() for batch in batches]
        assert first + rest == [order[i : i + 4] for i in range(0, 20, 4)] + [[order[-1]]]
        assert peeked.ids.tolist() == order[12:16]
        again = loader.batch_at(0, 1)
        assert again.ids.tolist() == first[1]
        assert loader.plan(0, 4).tolist() == order[16:20] and loader.plan(1, 0).shape == (4,)
        assert sorted(i for batch in loader for i in batch.ids.tolist()) == sorted([*order[:20], order[-1]])
        next(iter(loader))
        loader.select(range(N - 1), at=(2, 1))
        with pytest.raises(leat.RangeError):  # its rows were decided within it, and the run has passed it
            loader.plan(0, 4)


def test_a_policy_decides_again_as_the_next_epoch_begins(path: str) -> None:
    for policy, then in ((leat.TopFraction(0.25), N // 4), (lambda table, epoch: None, N)):
        with opened(path, feedback=policy) as loader:
            with pytest.raises(ValueError, match="decides as epochs begin which rows they have"):
                loader.select(range(20))
            with pytest.raises(ValueError, match="decides as epochs begin which rows they have"):
                loader.select(range(20), at=(1, 0))
            n = 0
            for batch in loader:
                n += batch.size
                loader.report(batch, loss=batch.ids.astype(np.float32))
                if batch.step == 4:
                    loader.select(loader.feedback["loss"].top(60), at=(0, 5))
            seen = loader.feedback["loss"].known
            assert 60 <= n < N and n == seen.sum()
            state = json.loads(json.dumps(loader.state_dict()))
            assert sum(batch.size for batch in loader) == then
        with opened(path, feedback=policy) as loader:
            loader.load_state_dict(state)
            assert sum(batch.size for batch in loader) == then


def test_an_epoch_that_a_policy_has_not_decided_yet_is_not_decided_within_it(path: str) -> None:
    policy = leat.Curriculum("y", lambda epoch: 0.5)
    with opened(path, feedback=policy) as loader:
        for epoch in range(2):
            with pytest.raises(ValueError, match="decides as epochs begin which rows they have"):
                loader.select(range(60), at=(epoch, 3))
            assert sum(batch.size for batch in loader) == N // 2
        for batch in loader:
            if batch.step == 1:
                loader.select(None, at=(2, 2))
                break
        state = json.loads(json.dumps(loader.state_dict()))
    with opened(path, feedback=policy) as loader:
        loader.load_state_dict(state)
        loader.select(range(60), at=(2, 4))  # the one that goes on


def test_a_resumed_policy_decides_as_if_the_run_had_not_stopped(path: str) -> None:
    hashes = []
    for cut in (False, True):
        options: dict[str, Any] = {"feedback": lambda table, epoch: range(50) if epoch == 0 else None}
        with opened(path, **options) as loader, opened(path, **options) as again:
            for batch in loader:
                if batch.step == 1:
                    loader.select(None, at=(0, 2))
                    break
            if cut:
                again.load_state_dict(json.loads(json.dumps(loader.state_dict())))
            run = again if cut else loader
            while run.epoch < 2:
                for _ in run:
                    pass
            hashes.append(run.stats()["plan_hash"])
    assert hashes[0] == hashes[1]


def test_what_cannot_be_decided_within_an_epoch_changes_nothing(path: str) -> None:
    with opened(path, 8) as loader:
        expected = orders(path, None, True)
        batches = iter(loader)
        got = [*next(batches).ids.tolist(), *next(batches).ids.tolist()]
        for wrong, error, match in (
            (lambda: loader.select([1, 2], at=(0, 1)), ValueError, "was handed out"),
            (lambda: loader.select([1, 2], at=(0, 13)), leat.RangeError, "has no step 13"),
            (lambda: loader.select([1, 2], at=(1, 13)), leat.RangeError, "has no step 13"),
            (lambda: loader.select(got, at=(0, 2)), ValueError, "nothing is left"),
            (lambda: loader.select([], at=(0, 2)), ValueError, "at least one row"),
            (lambda: loader.select([N], at=(0, 2)), IndexError, str(N)),
        ):
            with pytest.raises(error, match=match):
                wrong()
        assert len(loader.log) == 1
        consumer = loader.consumer(4)
        with pytest.raises(ValueError, match="further consumers"):
            loader.select([1, 2], at=(0, 2))
        del consumer
    with opened(path, 8, in_order=False) as loader:
        next(iter(loader))
        with pytest.raises(ValueError, match="in_order"):
            loader.select([1, 2], at=(0, 5))
    assert expected[0][:16] == got


def test_rows_are_decided_so_often_within_an_epoch_and_the_state_has_all_of_it(path: str) -> None:
    options: dict[str, Any] = {"shuffle": True, "framework": "numpy"}
    data = leat.from_arrays(x=np.arange(1500))
    rng = np.random.default_rng(3)
    with leat.Loader(data, 4, **options) as loader, leat.Loader(data, 4, **options) as again:
        batches = iter(loader)
        for step in range(256):
            next(batches)
            loader.select(np.sort(rng.permutation(1500)[:1450]), at=(0, step + 1))
        with pytest.raises(leat.RangeError, match="256 times"):
            loader.select(range(1500), at=(0, 300))
        state = json.loads(json.dumps(loader.state_dict()))
        again.load_state_dict(state)
        rest = [batch.ids.tolist() for batch in batches]
        assert [batch.ids.tolist() for batch in again] == rest and len(rest) > 100
        loader.select(range(9))
        assert sum(batch.size for batch in loader) == 9
        assert len(json.dumps(loader.state_dict())) < 70_000


def test_substitutes_of_broken_rows_stay_what_they_were(tmp_path: Path) -> None:
    """They are drawn from what an epoch has at that row, which a later decision does not change."""
    file = io.BytesIO()
    Image.fromarray(np.full((8, 8, 3), 7, np.uint8)).save(file, "png")
    with leat.Writer(tmp_path / "photos.leat", {"image": "image", "y": "int64"}) as writer:
        for i in range(40):
            writer.add(image=file.getvalue()[: None if i % 5 else 45], y=i)
    chain = {"image": [leat.ops.Decode(), leat.ops.Resize((8, 8))], "y": []}
    options: dict[str, Any] = {"shuffle": True, "on_error": "substitute", "framework": "numpy", "outputs": chain}
    with leat.Loader(leat.open(tmp_path / "photos.leat"), 4, **options) as loader:
        batches = iter(loader)
        first = [next(batches) for _ in range(4)]
        kept = [batch["y"].tolist() for batch in first]
        assert sum(len(batch.errors) for batch in first)
        loader.select(range(20, 40), at=(0, 4))
        rest = [batch["y"].tolist() for batch in batches]
        assert all(y >= 20 for ys in rest for y in ys)
        assert [loader.batch_at(0, step)["y"].tolist() for step in range(4)] == kept
        assert [loader.batch_at(0, 4 + i)["y"].tolist() for i in range(len(rest))] == rest


def test_several_ranks_say_the_step(path: str) -> None:
    with opened(path, 4, rank=0, world_size=2) as loader, pytest.raises(ValueError, match="several ranks"):
        loader.select(range(50))


@examples(60)
@given(
    decisions=st.dictionaries(st.tuples(st.integers(0, 2), st.integers(1, 8)), decided, max_size=6),
    world=st.integers(2, 6),
    tail=st.sampled_from(["uneven", "pad", "drop"]),
    shuffle=st.booleans(),
    ahead=st.booleans(),
    cut=st.integers(0, 40),
)
def test_ranks_that_decide_the_same_have_the_rows_of_one(
    path: str,
    decisions: dict[tuple[int, int], Decision],
    world: int,
    tail: str,
    shuffle: bool,
    ahead: bool,
    cut: int,
) -> None:
    """Each decides after its batch of the step before; in the last one of an epoch some may have had none."""
    size = 3 * world

    def opened_by(ranks: int) -> list[leat.Loader]:
        options: dict[str, Any] = {"shuffle": shuffle, "tail": tail, "global_batch_size": size, "framework": "numpy"}
        return [leat.Loader(leat.open(path), rank=r, world_size=ranks, **options) for r in range(ranks)]

    def rows(ranks: int) -> list[list[int]]:
        got: list[list[int]] = []
        readers = opened_by(ranks)
        for epoch in range(EPOCHS):
            its = [iter(loader) for loader in readers]
            for step in itertools.count():
                batches = [next(it, None) for it in its]
                if all(batch is None for batch in batches):
                    break
                got.append([int(i) for batch in batches if batch is not None for i in batch.ids[batch.valid]])
                state = json.loads(json.dumps(readers[cut % ranks].state_dict()))
                if ranks > 1 and len(got) == cut and state["at"]["epoch"] == epoch:  # all go on from the state of one
                    readers = opened_by(ranks)
                    for reader in readers:
                        reader.load_state_dict(state)
                    its = [iter(reader) for reader in readers]
                if (what := decisions.get((epoch, step + 1))) is not None:
                    for reader in readers if ahead else ():
                        reader.peek()
                    assert len({decide(reader, what, (epoch, step + 1), world) for reader in readers}) == 1
        return got

    assert rows(world) == rows(1)
