"""leat.ray.Loader with in_order=False: each row once, as on one host, and a late one holds up no other batch."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from process_support import eventually

import leat
import leat.ray

N = 103


@pytest.fixture(scope="module")
def numbers(tmp_path_factory: pytest.TempPathFactory) -> leat.Dataset:
    path = tmp_path_factory.mktemp("unordered") / "n.leat"
    with leat.Writer(path, {"n": "int64", "tokens": leat.field("int32", (None,))}) as w:
        for i in range(N):
            w.add(n=i, tokens=np.arange(i % 7, dtype=np.int32))
    return leat.open(path)


OUTPUTS: dict[str, Any] = {"n": [], "tokens": []}


def opened(kind: Any, ds: leat.Dataset, **options: Any) -> Any:
    given = {"batch_size": 10, "outputs": OUTPUTS, "shuffle": True, "seed": 4, "in_order": False, "framework": "numpy"}
    return kind(ds, **{**given, **options})


def rows(batches: Any) -> dict[int, tuple[Any, ...]]:
    """All that is said of each row, by id."""
    found: dict[int, tuple[Any, ...]] = {}
    for batch in batches:
        for i, row in enumerate(batch.ids.tolist()):
            assert row not in found
            tokens = batch["tokens"]
            told = tokens.values[tokens.offsets[i] : tokens.offsets[i + 1]].tolist()
            found[row] = (int(batch["n"][i]), told, int(batch.row_keys[i]), bool(batch.valid[i]), batch.epoch)
    return found


RANK = {"rank": 1, "world_size": 3}
OPENED: dict[str, dict[str, Any]] = {
    "plain": {},
    "uneven": {"tail": "uneven", **RANK},
    "padded": RANK,
    "dropped": {"drop_last": True},
    "none": {"drop_last": True, "batch_size": N + 1},
}


@pytest.mark.parametrize("options", OPENED.values(), ids=list(OPENED))
def test_each_row_comes_once_and_is_that_of_one_host(
    cluster: Any, numbers: leat.Dataset, options: dict[str, Any]
) -> None:
    with opened(leat.Loader, numbers, **options) as local, opened(leat.ray.Loader, numbers, **options) as far:
        for _ in range(3):
            made, want = list(far), list(local)
            assert [b.step for b in made] == list(range(len(far)))
            assert [len(b.ids) for b in made] == [len(b.ids) for b in want]
            assert rows(made) == rows(want)


def test_an_epoch_that_begins_anew_has_all_its_rows(cluster: Any, numbers: leat.Dataset) -> None:
    with opened(leat.Loader, numbers) as local, opened(leat.ray.Loader, numbers) as far:
        want = rows(local)
        batches = iter(far)
        next(batches), next(batches)
        state = far.state_dict()
        for _ in range(2):
            far.set_epoch(0)
            assert rows(far) == want
            far.load_state_dict(state)
            next(iter(far))
        with pytest.raises(leat.ClosedError, match="a newer iteration"):
            next(batches)


@pytest.mark.parametrize("first", [leat.ray.Loader, leat.Loader])
def test_a_state_goes_on_with_the_rows_that_are_left_here_or_there(
    cluster: Any, numbers: leat.Dataset, tmp_path: Path, first: Any
) -> None:
    """On the cluster one row waits for a file, so that others come before it. Here no function is run: docs/ray.md."""
    gate = tmp_path / "gate"

    def wait(n: Any) -> Any:
        if n == 7:
            eventually(gate.exists)
        return n

    options = {"outputs": {**OUTPUTS, "n": [leat.ops.Map(wait)]}} if first is leat.ray.Loader else {}
    with opened(first, numbers, **options) as loader:
        batches = iter(loader)
        taken = [next(batches) for _ in range(6)]
        state = json.dumps(loader.state_dict())
        gate.touch()
    for second in (leat.Loader, leat.ray.Loader):
        with opened(second, numbers) as loader:
            loader.load_state_dict(json.loads(state))
            rest = list(loader)
        assert [b.step for b in rest] == list(range(6, 11))
        assert sorted(i for b in [*taken, *rest] for i in b.ids.tolist()) == list(range(N))
        with opened(leat.Loader, numbers) as plain:
            want = rows(plain)
        assert {**rows(taken), **rows(rest)} == want


def test_a_late_row_holds_up_its_own_batch_alone(cluster: Any, numbers: leat.Dataset, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    with opened(leat.Loader, numbers, in_order=True) as local:
        late = int(local.plan(0, 1)[3])

    def wait(n: Any) -> Any:
        if n == late:
            eventually(gate.exists)
        return n

    with opened(leat.ray.Loader, numbers, outputs={**OUTPUTS, "n": [leat.ops.Map(wait)]}) as far:
        batches = iter(far)
        before = [next(batches) for _ in range(3)]
        assert late not in [i for b in before for i in b.ids.tolist()]
        gate.touch()
        assert late in [i for b in batches for i in b.ids.tolist()]


def test_stages_see_whole_batches_and_decisions_hold_from_the_next_epoch(cluster: Any, numbers: leat.Dataset) -> None:
    def first_of_call(rows: dict[str, Any]) -> dict[str, Any]:
        return {"first": np.full(len(rows["n"]), rows["n"][0])}

    stages = [leat.ray.Stage(first_of_call, batch_size=4, num_cpus=0)]
    with opened(leat.ray.Loader, numbers, stages=stages) as far, opened(leat.Loader, numbers, in_order=True) as plan:
        for epoch in range(2):
            want = {}
            for step in range((11, 13)[epoch]):
                planned = plan.plan(epoch, step).tolist()
                want |= {row: planned[i // 4 * 4] for i, row in enumerate(planned)}
            got = {i: int(first) for b in far for i, first in zip(b.ids.tolist(), b["first"], strict=True)}
            assert got == want
            if not epoch:
                far.set_batch_size(8)
                plan.set_batch_size(8, at=(1, 0))
        assert len(far) == 13


def test_an_error_is_raised_when_it_is_the_oldest_and_the_others_are_not_lost(
    cluster: Any, numbers: leat.Dataset
) -> None:
    with opened(leat.Loader, numbers, in_order=True) as local:
        bad = int(local.plan(0, 0)[2])

    def breaks(n: Any) -> Any:
        if n == bad:
            raise ValueError("this one is bad")
        return n

    outputs = {**OUTPUTS, "n": [leat.ops.Map(breaks)]}
    with opened(leat.ray.Loader, numbers, outputs=outputs) as far:
        batches, seen = iter(far), set[int]()
        while len(seen) < 90:  # all full batches but the first one, whose error is the oldest from the beginning
            try:
                seen |= set(next(batches).ids.tolist())
            except ValueError as e:
                assert "this one is bad" in str(e)
        assert bad not in seen
    with opened(leat.ray.Loader, numbers, outputs=outputs, on_error="skip") as far:
        made = list(far)
    assert sorted(i for b in made for i in b.ids.tolist()) == [i for i in range(N) if i != bad]
    assert [e.planned for b in made for e in b.errors] == [bad]


def test_what_needs_the_order_says_so(cluster: Any, numbers: leat.Dataset, tmp_path: Path) -> None:
    with opened(leat.ray.Loader, numbers, log_dir=tmp_path) as far:
        next(iter(far))
        with pytest.raises(leat.UnsupportedError, match="batch_at"):
            far.batch_at(0, 0)
        with pytest.raises(leat.UnsupportedError):
            far.peek()
    loose = leat.ray.Stage(lambda rows: rows, deterministic=False)
    with pytest.raises(leat.UnsupportedError, match="in_order"):
        opened(leat.ray.Loader, numbers, log_dir=tmp_path, stages=[loose])
