"""Decisions: a batch size that changes while training, as a part of the order."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from drawn_support import examples
from hypothesis import given
from hypothesis import strategies as st

import leat

N = 103


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    target = tmp_path_factory.mktemp("decisions") / "numbers.leat"
    with leat.Writer(target, {"x": leat.field("float32", (3,)), "y": leat.field("int64")}) as writer:
        for i in range(N):
            writer.add(x=np.full(3, i, np.float32), y=i)
    return str(target)


def opened(path: str, batch_size: int = 8, **options: Any) -> leat.Loader:
    return leat.Loader(leat.open(path), batch_size=batch_size, shuffle=True, seed=5, framework="numpy", **options)


def order(path: str, epoch: int) -> list[int]:
    """The rows of an epoch, in order."""
    return [int(i) for step in range(-(-N // 8)) for i in opened(path).plan(epoch, step)]


Step = tuple[int, int]


def run(loader: leat.Loader, sizes: dict[Step, int], until: Step = (2, 0)) -> list[tuple[int, int, list[int]]]:
    """Epoch, step and ids of each batch, with a new size before each step of `sizes`."""
    got: list[tuple[int, int, list[int]]] = []
    while loader.epoch < until[0]:
        epoch = loader.epoch if not got or got[-1][0] < loader.epoch else loader.epoch + 1
        if epoch >= until[0]:
            break
        batches = iter(loader)
        while True:
            step = len([1 for e, _, _ in got if e == epoch])
            if (epoch, step) in sizes:
                loader.set_batch_size(sizes[epoch, step])
            batch = next(batches, None)
            if batch is None:
                break
            assert (batch["y"] == batch.ids).all() and (batch["x"][:, 0] == batch.ids).all()
            got.append((batch.epoch, batch.step, batch.ids.tolist()))
    return got


@examples(25)
@given(sizes=st.dictionaries(st.tuples(st.integers(0, 1), st.integers(0, 12)), st.integers(1, 40), max_size=4))
def test_promise_2_each_row_comes_once_whatever_sizes_are_decided(path: str, sizes: dict[Step, int]) -> None:
    with opened(path) as loader:
        got = run(loader, sizes)
    for epoch in range(2):
        assert [i for e, _, ids in got if e == epoch for i in ids] == order(path, epoch)
        assert [step for e, step, _ in got if e == epoch] == list(range(len([1 for e, _, _ in got if e == epoch])))


@examples(25)
@given(
    first=st.integers(1, 30),
    second=st.integers(1, 30),
    before=st.integers(0, 9),
    between=st.integers(0, 9),
    after=st.integers(0, 9),
)
def test_promise_3_a_resumed_run_goes_on_with_the_decisions(
    path: str, first: int, second: int, before: int, between: int, after: int
) -> None:
    def batches(loader: leat.Loader, n: int) -> list[list[int]]:
        found: list[list[int]] = []
        while len(found) < n:
            for batch in loader:
                found.append(batch.ids.tolist())
                if len(found) == n:
                    return found
        return found

    def decided(n: int) -> leat.Loader:
        loader = opened(path)
        running = iter(loader)
        for _ in range(before):
            next(running)
        loader.set_batch_size(first)
        for _ in range(between):
            next(running, None)
        loader.set_batch_size(second)
        for _ in range(n):
            next(running, None)
        return loader

    with decided(after) as loader:
        text = json.dumps(loader.state_dict())
        log = loader.log
    with opened(path) as one, opened(path, 5) as other:
        for again in (one, other):
            again.load_state_dict(json.loads(text))
        assert one.log == log  # opened with other sizes, `other` has a further entry
        expected = batches(one, 12)
    with decided(after) as loader:
        # The same run, uninterrupted: the state is where the iteration stands, so a new one loads it into itself.
        loader.load_state_dict(json.loads(text))
        assert batches(loader, 12) == expected


def test_the_size_holds_from_the_next_batch_on_and_in_later_epochs(path: str) -> None:
    with opened(path) as loader:
        batches = iter(loader)
        assert [len(next(batches).ids) for _ in range(3)] == [8, 8, 8]
        loader.set_batch_size(20)
        assert [len(b.ids) for b in batches] == [20, 20, 20, 19]
        assert [len(b.ids) for b in loader] == [20, 20, 20, 20, 20, 3]
        assert len(loader) == 6
        assert [(e["kind"], e["epoch"], e["row"], e.get("global_batch")) for e in loader.log] == [
            ("open", 0, 0, 8),
            ("decide", 0, 24, 20),
        ]


def test_ranks_agree_on_what_they_decide_for_a_step(path: str) -> None:
    loaders = [opened(path, 4, rank=r, world_size=3) for r in range(3)]
    shares: list[list[list[int]]] = [[], [], []]
    for r, loader in enumerate(loaders):
        for i, batch in enumerate(loader):
            shares[r].append(batch.ids[batch.valid].tolist())
            if i == r:  # each at another moment
                loader.set_batch_size(2, at=(0, 5))
    assert len({loader.stats()["plan_hash"] for loader in loaders}) == 1
    assert [i for step in zip(*shares, strict=True) for ids in step for i in ids] == order(path, 0)
    assert [[len(ids) for ids in share] for share in shares][0][:7] == [4, 4, 4, 4, 4, 2, 2]
    for loader in loaders:
        loader.close()


def test_what_cannot_be_decided_is_an_error_that_says_why(path: str) -> None:
    with opened(path) as loader:
        batches = iter(loader)
        for _ in range(3):
            next(batches)
        with pytest.raises(ValueError, match="handed out"):
            loader.set_batch_size(4, at=(0, 2))
        with pytest.raises(IndexError, match="has no step 99"):
            loader.set_batch_size(4, at=(0, 99))
        with pytest.raises(ValueError):
            loader.set_batch_size(0)
        loader.set_batch_size(4, at=(1, 3))
        with pytest.raises(ValueError, match="before an earlier one"):
            loader.set_batch_size(5)
        assert [len(b.ids) for b in batches][:3] == [8, 8, 8]  # nothing of that has changed the order
        assert [len(b.ids) for b in loader][:5] == [8, 8, 8, 4, 4]
    with opened(path, world_size=2, rank=0) as loader, pytest.raises(ValueError, match="several ranks"):
        loader.set_batch_size(4)
    wide = leat.from_arrays(x=np.zeros((1000, 1000), np.float32))
    for bound in ("budget_bytes", "max_held_bytes"):
        with leat.Loader(wide, 8, framework="numpy", **{bound: 1 << 20}) as loader:
            with pytest.raises(leat.BudgetError, match=bound):
                loader.set_batch_size(900)
            assert [len(b.ids) for b in loader][:3] == [8, 8, 8]
    with opened(path, in_order=False) as loader:
        batches = iter(loader)
        next(batches)
        with pytest.raises(ValueError, match="in_order"):
            loader.set_batch_size(4)
        loader.set_batch_size(4, at=(1, 0))
        list(batches)
        assert sorted(i for b in loader for i in b.ids.tolist()) == list(range(N))


def test_a_budget_that_leat_chose_grows_with_the_batches(path: str) -> None:
    with opened(path, batch_size=1) as loader:
        loader.set_batch_size(N)
        assert [len(b.ids) for b in loader] == [N]


def test_functions_go_on_with_the_new_size(path: str, tmp_path: Path) -> None:
    outputs = {"x": [leat.ops.Map(np.negative, returns=leat.field("float32", (3,)))], "y": []}
    with opened(path, outputs=outputs) as loader:
        got, sizes = [], {2: 20, 4: 3}
        for i, batch in enumerate(loader):
            assert (batch["x"][:, 0] == -batch["y"]).all()
            got.append(batch.ids.tolist())
            if i in sizes:
                loader.set_batch_size(sizes[i])
        assert [len(ids) for ids in got[:7]] == [8, 8, 8, 20, 20, 3, 3]
        assert [i for ids in got for i in ids] == order(path, 0)
        loader.set_batch_size(50)
        assert [len(b.ids) for b in loader] == [50, 50, 3]


@pytest.mark.parametrize("at", ["x", (0,), 5, (0, 1, 2)])
def test_where_a_decision_holds_is_an_epoch_and_a_step(records: Path, at: Any) -> None:
    with pytest.raises(TypeError, match=r"at is \(epoch, step\)"):
        leat.Loader(leat.open(records), 5).set_batch_size(5, at=at)


@pytest.mark.parametrize("what", ["set_batch_size", "select", "set_order"])
def test_an_epoch_that_set_epoch_goes_back_to_is_decided_anew(path: str, what: str) -> None:
    given = 40 if what == "set_batch_size" else np.arange(40)
    with opened(path) as loader, opened(path) as fresh:
        for _ in range(2):
            for _ in loader:
                pass
        loader.set_epoch(0)
        getattr(loader, what)(given)
        getattr(fresh, what)(given)
        state = json.dumps(loader.state_dict())
        expected = [batch.ids.tolist() for batch in fresh]
        assert [batch.ids.tolist() for batch in loader] == expected
    with opened(path) as again:
        again.load_state_dict(json.loads(state))
        assert [batch.ids.tolist() for batch in again] == expected
