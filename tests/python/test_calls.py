"""Functions of leat.ops.Map as the engine schedules them: any order, consumers, decisions, one policy, one budget."""

from __future__ import annotations

import errno
import gc
import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import leat
from leat import ops

N = 60
INT = leat.field("int64")


@pytest.fixture(autouse=True)
def ended() -> Iterator[None]:
    """Workers end with the last loader that uses them."""
    yield
    gc.collect()


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> leat.Dataset:
    """60 samples: n = i, and a vector."""
    path = tmp_path_factory.mktemp("calls") / "n.leat"
    with leat.Writer(path, {"n": "int64", "x": leat.field("float32", (5,))}) as w:
        for i in range(N):
            w.add(n=i, x=np.full(5, i, np.float32))
    return leat.open(path)


def opened(data: leat.Dataset, function: Any = None, **more: Any) -> leat.Loader:
    outputs = {"n": [], "ten": leat.Out("n", [ops.Map(function or (lambda n: n * 10), returns=INT)])}
    return leat.Loader(
        data,
        **{"batch_size": 8, "shuffle": True, "seed": 3, "outputs": outputs, "framework": "numpy", "num_threads": 2}
        | more,
    )


def order(data: leat.Dataset, epoch: int, **more: Any) -> list[int]:
    with leat.Loader(data, 8, True, seed=3, framework="numpy", **more) as loader:
        return [i for step in range(len(loader)) for i in loader.plan(epoch, step).tolist()]


def check(batch: leat.Batch) -> list[int]:
    assert (batch["ten"] == 10 * batch.ids).all() and (batch["n"] == batch.ids).all()
    ids: list[int] = batch.ids.tolist()
    return ids


def wait_for(path: Path) -> None:
    while not path.exists():
        time.sleep(0.005)


# ---- out of order --------------------------------------------------------------------------------------------------


def test_a_row_that_takes_long_holds_up_nothing_but_itself(data: leat.Dataset, tmp_path: Path) -> None:
    late = order(data, 0)[3]

    def slow(n: Any) -> Any:
        if int(n) == late:
            wait_for(tmp_path / "go")
        return n * 10

    with opened(data, slow, in_order=False, epochs=1) as loader:
        batches, seen = iter(loader), []
        while len(seen) < 32:
            seen += check(next(batches))
        assert late not in seen
        (tmp_path / "go").touch()
        for batch in batches:
            seen += check(batch)
        assert sorted(seen) == list(range(N))


def test_out_of_order_each_row_comes_once_an_epoch_and_a_state_goes_on(data: leat.Dataset) -> None:
    with opened(data, in_order=False) as loader, opened(data, in_order=False) as other:
        batches, seen = iter(loader), []
        for _ in range(3):
            seen += check(next(batches))
        other.load_state_dict(json.loads(json.dumps(loader.state_dict())))
        for batch in other:
            seen += check(batch)
        assert sorted(seen) == list(range(N))
        assert sorted(i for batch in other for i in check(batch)) == list(range(N))


@pytest.mark.parametrize("in_order", [True, False])
@pytest.mark.parametrize("policy", ["skip", "substitute"])
def test_the_policy_is_the_same_in_any_order(data: leat.Dataset, in_order: bool, policy: Any) -> None:
    def refuse(n: Any) -> Any:
        if int(n) % 7 == 3:
            raise ValueError(f"not {int(n)}")
        return n * 10

    def rows(**more: Any) -> tuple[list[tuple[int, int]], int]:
        with opened(data, refuse, on_error=policy, epochs=1, **more) as loader:
            found, broken = [], 0
            for batch in loader:
                found += list(zip(batch.row_keys.tolist(), check(batch)))
                broken += len(batch.errors)
                assert all("not " in e.reason and e.planned % 7 == 3 for e in batch.errors)
            assert loader.stats()["broken"]["skipped" if policy == "skip" else "substituted"] == broken
            return sorted(found), broken

    assert rows(in_order=in_order, num_threads=3) == rows(num_threads=1)
    assert rows()[1] == len([n for n in range(N) if n % 7 == 3])


@pytest.mark.parametrize("in_order", [True, False])
def test_a_function_that_ends_every_worker_ends_few(data: leat.Dataset, in_order: bool) -> None:
    with opened(data, lambda n: os.kill(os.getpid(), signal.SIGKILL), in_order=in_order, num_threads=2) as loader:
        for _ in range(2):
            with pytest.raises(leat.BrokenSampleError, match="ended 3 workers"):
                next(iter(loader))
        assert len(loader.stats()["python"]["replaced"]) < (40 if in_order else 100)


def test_rows_that_end_workers_are_left_out_and_all_others_delivered(data: leat.Dataset) -> None:
    def dies(n: Any) -> Any:
        if int(n) in (5, 6, 30):
            os.kill(os.getpid(), signal.SIGKILL)
        return n * 10

    with opened(data, dies, on_error="skip", epochs=1) as loader:
        batches = list(loader)
        assert sorted(i for batch in batches for i in check(batch)) == [i for i in range(N) if i not in (5, 6, 30)]
        assert sorted(e.planned for batch in batches for e in batch.errors) == [5, 6, 30]


def test_what_ends_a_function_is_said_to_be_in_a_worker_of_leat(data: leat.Dataset) -> None:
    def interrupted(n: Any) -> Any:
        raise KeyboardInterrupt

    with opened(data, interrupted) as loader, pytest.raises(RuntimeError, match="KeyboardInterrupt in leat worker"):
        next(iter(loader))


def test_what_cannot_be_taken_from_a_worker_is_an_error_and_no_endless_wait(
    data: leat.Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    def decode(*_: Any) -> Any:
        raise OSError(errno.EMFILE, "too many open files")

    def raises(n: Any) -> Any:
        raise ValueError("no")

    with opened(data, raises, on_error="skip") as loader:
        monkeypatch.setattr("leat.workers.calls.transport.decode", decode)
        with pytest.raises(OSError, match="too many open files"):
            next(iter(loader))


# ---- consumers and decisions ---------------------------------------------------------------------------------------


def test_consumers_get_every_row_in_order_and_functions_run_once_while_they_are_near(
    data: leat.Dataset, tmp_path: Path
) -> None:
    def counted(n: Any) -> Any:
        (tmp_path / f"{int(n)}-{os.getpid()}-{time.monotonic_ns()}").touch()
        return n * 10

    with opened(data, counted, epochs=1) as loader, loader.consumer(batch_size=5) as consumer:
        one, two = iter(loader), iter(consumer)
        mine: list[int] = []
        theirs: list[int] = []
        for batch in one:
            mine += check(batch)
            while len(theirs) + 5 <= len(mine):
                theirs += check(next(two))
        for batch in two:
            theirs += check(batch)
        assert mine == theirs == order(data, 0)
        assert len(list(tmp_path.iterdir())) == N


def test_an_error_of_a_function_reaches_each_consumer(data: leat.Dataset) -> None:
    wrong = order(data, 0)[20]

    def refuse(n: Any) -> Any:
        if int(n) == wrong:
            raise ZeroDivisionError("no")
        return n * 10

    with opened(data, refuse) as loader, loader.consumer(batch_size=10) as consumer:
        for batches, good in ((iter(loader), 2), (iter(consumer), 1)):
            for _ in range(good):
                check(next(batches))
            with pytest.raises(ZeroDivisionError, match=f"sample {wrong}"):
                next(batches)


# ---- results of varying length, and whole batches ------------------------------------------------------------------


def varying(data: leat.Dataset, **more: Any) -> leat.Loader:
    """`list`: n times n % 4; `text`: n in words; `mean`: over the batch."""
    outputs: dict[str, Any] = {
        "list": leat.Out("n", [ops.Map(lambda n: np.full(n % 4, n), returns=leat.field("int64", (None,)))]),
        "text": leat.Out("n", [ops.Map(lambda n: f"{n}!", returns="str")]),
    }
    return leat.Loader(
        data,
        **{"batch_size": 8, "shuffle": True, "seed": 3, "outputs": outputs, "framework": "numpy", "num_threads": 2}
        | more,
    )


def check_varying(batch: leat.Batch) -> list[int]:
    ids: list[int] = batch.ids.tolist()
    assert batch["text"] == [f"{i}!" for i in ids]
    assert [found.tolist() for found in batch["list"].unbind()] == [[i] * (i % 4) for i in ids]
    return ids


@pytest.mark.parametrize("in_order", [True, False])
def test_results_of_varying_length_come_in_any_order(data: leat.Dataset, in_order: bool) -> None:
    with varying(data, in_order=in_order) as loader:
        for epoch in range(2):
            seen = [i for batch in loader for i in check_varying(batch)]
            assert seen == order(data, epoch) if in_order else sorted(seen) == list(range(N))


def test_consumers_get_results_of_varying_length(data: leat.Dataset) -> None:
    with varying(data, epochs=1) as loader, loader.consumer(batch_size=5) as consumer:
        mine = [i for batch in loader for i in check_varying(batch)]
        assert mine == [i for batch in consumer for i in check_varying(batch)] == order(data, 0)


def test_results_of_varying_length_stay_within_the_budget(data: leat.Dataset) -> None:
    long = [ops.Map(lambda n: np.full(1000 + n, n), returns=leat.field("int64", (None,)))]
    with varying(data, batch_size=4, outputs={"n": long}, budget_bytes=1 << 20) as loader:
        for _ in range(3):
            seen = []
            for batch in loader:
                memory = loader.stats()["memory"]
                assert memory["in_use_bytes"] <= memory["budget_bytes"]
                assert [len(found) for found in batch["n"].unbind()] == [1000 + i for i in batch.ids.tolist()]
                seen += batch.ids.tolist()
            assert sorted(seen) == list(range(N))


@pytest.mark.parametrize("in_order", [True, False])
def test_results_that_no_budget_has_room_for_are_an_error_and_no_endless_wait(
    data: leat.Dataset, in_order: bool
) -> None:
    long = [ops.Map(lambda n: np.zeros(20_000 + n, np.uint8), returns=leat.field("uint8", (None,)))]
    with (
        varying(data, batch_size=32, outputs={"n": long}, budget_bytes=1 << 20, in_order=in_order) as loader,
        pytest.raises(leat.BudgetError, match="raise it or make batches smaller"),
    ):
        next(iter(loader))


def test_what_a_batch_function_sees_is_delivered_to_consumers(data: leat.Dataset) -> None:
    chain = [ops.Map(lambda n: n + 1, returns=INT), ops.MapBatch(lambda x: x - x.min(), returns=INT)]
    outputs = {"n": chain}
    with opened(data, outputs=outputs, epochs=1) as loader, loader.consumer(batch_size=12) as consumer:
        mine = [i for batch in loader for i in batch["n"].tolist()]
        assert mine == [i for batch in consumer for i in batch["n"].tolist()]
        ids = order(data, 0)
        parts = [ids[i : i + 8] for i in range(0, N, 8)]
        assert mine == [i - min(part) for part in parts for i in part]
    with pytest.raises(ValueError, match="in_order=False does not go with leat.ops.MapBatch"):
        opened(data, outputs=outputs, in_order=False)


# ---- beginning and ending ------------------------------------------------------------------------------------------


def test_a_loader_closes_while_functions_run(data: leat.Dataset, tmp_path: Path) -> None:
    def slow(n: Any) -> Any:
        (tmp_path / "begun").touch()
        wait_for(tmp_path / "go")
        return n * 10

    with opened(data) as other:
        list(other)
        loader = opened(data, slow)
        iter(loader)
        wait_for(tmp_path / "begun")
        loader.close()
        (tmp_path / "go").touch()
        with pytest.raises(leat.ClosedError):
            next(iter(loader))
        assert [i for batch in other for i in check(batch)] == order(data, 1)


def test_an_epoch_that_is_left_while_functions_run_is_over(data: leat.Dataset, tmp_path: Path) -> None:
    late = order(data, 0)[0]

    def slow(n: Any) -> Any:
        if int(n) == late and not (tmp_path / "begun").exists():
            (tmp_path / "begun").touch()
            wait_for(tmp_path / "go")
        return n * 10

    with opened(data, slow) as loader:
        iter(loader)
        wait_for(tmp_path / "begun")
        batches = iter(loader)
        (tmp_path / "go").touch()
        assert [i for batch in batches for i in check(batch)] == order(data, 1)


def test_a_call_may_have_any_number_of_outputs(data: leat.Dataset) -> None:
    outputs: dict[str, Any] = {f"n{k}": leat.Out("n", [ops.Map(lambda n, k=k: n + k, returns=INT)]) for k in range(150)}
    with leat.Loader(data, 16, outputs=outputs, framework="numpy") as loader:
        for batch in loader:
            assert all((batch[f"n{k}"] == batch.ids + k).all() for k in range(150))
