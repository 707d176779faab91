"""Several consumers of one loader: each its own position and batch size over the same rows."""

from __future__ import annotations

import gc
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from drawn_support import examples
from hypothesis import given
from hypothesis import strategies as st

import leat

N = 203


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    target = tmp_path_factory.mktemp("consumers") / "numbers.leat"
    schema = {"x": leat.field("float32", (3,)), "y": leat.field("int64"), "t": leat.field("int32", (None,))}
    with leat.Writer(target, schema) as writer:
        for i in range(N):
            writer.add(x=np.full(3, i, np.float32), y=i, t=np.full(i % 5, i, np.int32))
    return str(target)


DENSE: dict[str, Any] = {"x": [], "y": []}


def opened(path: str, batch_size: int = 8, **options: Any) -> leat.Loader:
    options = {"shuffle": True, "seed": 5, "framework": "numpy", **options}
    return leat.Loader(leat.open(path), batch_size=batch_size, **options)


def order(path: str, epoch: int, **options: Any) -> list[int]:
    with opened(path, N, world_size=1, rank=0, **options) as loader:
        return loader.plan(epoch, 0).tolist()


def ids(batch: leat.Batch) -> list[int]:
    """The ids of a batch whose content is theirs."""
    assert (batch["y"] == batch.ids).all()
    assert (batch["x"][:, 0] == batch.ids).all()
    if "t" in batch:
        assert [len(t) for t in batch["t"]] == [i % 5 for i in batch.ids]
        assert all((t == i).all() for t, i in zip(batch["t"], batch.ids, strict=True))
    return [int(i) for i in batch.ids]


@examples(30)
@given(
    sizes=st.lists(st.integers(1, 60), min_size=1, max_size=3),
    turns=st.lists(st.integers(0, 3), max_size=120),
    ragged=st.booleans(),
    tight=st.booleans(),
)
def test_promise_2_every_consumer_gets_every_row_once_in_order_whoever_goes_first(
    path: str, sizes: list[int], turns: list[int], ragged: bool, tight: bool
) -> None:
    budget = 1 << 20 if ragged else 1 << 19
    with opened(
        path, outputs=None if ragged else DENSE, budget_bytes=budget if tight else None, num_threads=2
    ) as loader:
        readers: list[Any] = [loader, *(loader.consumer(n, start="beginning") for n in sizes)]
        got: list[list[list[int]]] = [[] for _ in readers]
        running = [iter(reader) for reader in readers]
        epochs = [0] * len(readers)

        def step(k: int) -> None:
            batch = next(running[k], None)
            if batch is not None:
                got[k].append(ids(batch))
            elif epochs[k] == 0:
                epochs[k] = 1
                running[k] = iter(readers[k])

        for turn in turns:
            step(turn % len(readers))
        for k in range(len(readers)):
            while epochs[k] == 0 or sum(map(len, got[k])) < 2 * N:
                step(k)
        expected = order(path, 0) + order(path, 1)
        for batches in got:
            assert [i for batch in batches for i in batch] == expected
        for k, n in enumerate(sizes):
            assert {len(b) for b in got[k + 1]} <= {n, N % n or n} or n > N


def test_rows_are_made_once_for_consumers_that_go_together(path: str) -> None:
    with opened(path, outputs=DENSE) as loader:
        probe = loader.consumer(batch_size=16)
        for epoch in range(2):
            steps = 0
            for a, b in zip(loader, probe, strict=False):
                steps += 1
                assert ids(a) and ids(b)
                a["x"][:] = -1  # its own: the other one sees nothing of it
                b["x"][:] = -2
            assert steps == 13
            loader.set_epoch(epoch + 1)
            probe.set_epoch(epoch + 1)
        about = loader.stats()["consumers"]
        assert len(about) == 1
        assert about[0]["batch_size"] == 16
        assert about[0]["remade_rows"] <= 8


def test_a_consumer_that_comes_late_makes_again_what_it_missed(path: str) -> None:
    with opened(path, outputs=DENSE) as loader:
        running = iter(loader)
        first = [i for _ in range(10) for i in ids(next(running))]
        late = loader.consumer(batch_size=7, start="beginning")
        here = loader.consumer(batch_size=7)
        assert [i for b in late for i in ids(b)] == order(path, 0)
        assert [i for b in here for i in ids(b)] == order(path, 0)[80:]
        assert loader.stats()["consumers"][1]["remade_rows"] >= 80
        assert first + [i for b in running for i in ids(b)] == order(path, 0)
        assert late.epoch == 1
        assert [i for b in late for i in ids(b)] == order(path, 1)


def test_the_loader_itself_may_lag(path: str) -> None:
    with opened(path, outputs=DENSE, budget_bytes=1 << 19) as loader:
        fast = loader.consumer(batch_size=32)
        slow = iter(loader)
        got = ids(next(slow))
        for epoch in range(2):
            assert [i for b in fast for i in ids(b)] == order(path, epoch)
        got += ids(next(slow))
        fast.close()  # alone again, behind where the window was
        assert got + [i for b in slow for i in ids(b)] == order(path, 0)
        assert [i for b in loader for i in ids(b)] == order(path, 1)


@examples(20)
@given(taken=st.integers(0, 40), before=st.integers(1, 20), after=st.integers(1, 20))
def test_promise_3_a_consumer_resumes_with_any_batch_size(path: str, taken: int, before: int, after: int) -> None:
    with opened(path, outputs=DENSE) as loader:
        consumer = loader.consumer(before, start="beginning")
        running = iter(consumer)
        got = [i for _ in range(taken) if (b := next(running, None)) is not None for i in ids(b)]
        text = json.dumps(consumer.state_dict())
    with opened(path, 31, outputs=DENSE) as loader:
        again = loader.consumer(after)
        again.load_state_dict(json.loads(text))
        rest = [i for b in again for i in ids(b)]
    assert got + rest == order(path, 0) if len(got) < N else rest == order(path, 1)


def test_ranks_share_rows_as_the_loader_does(path: str) -> None:
    for tail in ("pad", "uneven", "drop"):
        for rank in range(3):
            with opened(path, 4, outputs=DENSE, rank=rank, world_size=3, tail=tail) as loader:
                consumer = loader.consumer(5)
                mine: list[int] = []
                for batch in loader:
                    mine += ids(batch)
                assert [i for b in consumer for i in ids(b)] == mine
                assert len(consumer) == -(-len(mine) // 5)


def photos(folder: Path) -> leat.Dataset:
    """40 photos, of which every seventh is broken."""
    import io

    from PIL import Image

    data = io.BytesIO()
    Image.new("RGB", (8, 8), (10, 20, 30)).save(data, "JPEG")
    with leat.Writer(folder / "photos.leat", {"image": leat.field("image"), "y": leat.field("int64")}) as writer:
        for i in range(40):
            writer.add(image=b"\xff\xd8 not a photo" if i % 7 == 3 else data.getvalue(), y=i)
    return leat.open(folder / "photos.leat")


def test_broken_samples_are_left_out_for_all(tmp_path: Path) -> None:
    good = [i for i in range(40) if i % 7 != 3]
    options: dict[str, Any] = {
        "outputs": {"image": [leat.ops.Decode(), leat.ops.Resize((8, 8))], "y": []},
        "on_error": "skip",
        "framework": "numpy",
    }
    report = tmp_path / "report.jsonl"
    with leat.Loader(photos(tmp_path), 8, error_report=report, **options) as loader:
        consumer, late = loader.consumer(11), loader.consumer(3)
        pairs = list(zip(loader, consumer, strict=False))
        assert [int(y) for _, b in pairs for y in b["y"]][:30] == good[:30]
        assert [e.row for _, b in pairs for e in b.errors] == [3, 10, 6, 2, 9, 5]
        assert all((b["image"][:, 0, 0, 0] < 60).all() for _, b in pairs)
        del pairs
        assert sum(len(b.errors) for b in late) == 6
        assert loader.stats()["broken"]["skipped"] == 6
        told = [json.loads(line) for line in report.read_text().splitlines()]
        assert [(e["step"], e["row"]) for e in told] == [(i // 8, i % 8) for i in range(40) if i % 7 == 3], (
            "once, where the plan has them"
        )
        sum(1 for _ in late)  # the next epoch, in which it is the only one
        assert loader.stats()["broken"]["skipped"] == 12
        assert [json.loads(line)["epoch"] for line in report.read_text().splitlines()] == [0] * 6 + [1] * 6


@pytest.mark.parametrize("in_order", [True, False])
def test_an_error_that_is_raised_is_reported_once_in_an_epoch(tmp_path: Path, in_order: bool) -> None:
    report = tmp_path / "report.jsonl"
    outputs: dict[str, Any] = {"image": [leat.ops.Decode(), leat.ops.Resize((8, 8))], "y": []}
    with leat.Loader(photos(tmp_path), 2, outputs=outputs, error_report=report, in_order=in_order) as loader:
        readers = [loader, loader.consumer(4), loader.consumer(3)] if in_order else [loader]
        for epoch in range(2):
            for reader in readers:
                for _ in range(2):  # the same epoch, tried again
                    reader.set_epoch(epoch)
                    with pytest.raises(leat.BrokenSampleError) as caught:
                        list(reader)
                    assert not in_order or caught.value.sample == 3
        lines = [json.loads(line) for line in report.read_text().splitlines()]
        if in_order:
            assert [(e["epoch"], e["step"], e["planned"]) for e in lines] == [(0, 1, 3), (1, 1, 3)]
        assert len(lines) == loader.stats()["broken"]["raised"]


def test_the_end_is_clear_whatever_closes_first(path: str) -> None:
    loader = opened(path, outputs=DENSE)
    consumer, other = loader.consumer(8), loader.consumer(8)
    running, batch = iter(consumer), next(iter(other))
    next(running)
    other.close()
    with pytest.raises(leat.ClosedError):
        next(iter(other))
    loader.close()
    with pytest.raises(leat.ClosedError):
        next(running)
    with pytest.raises(leat.ClosedError):
        loader.consumer(8)
    assert ids(batch)  # what is held stays valid
    consumer.close()
    with opened(path) as loader:
        consumer = loader.consumer(8)
        next(iter(consumer))
        del consumer
        gc.collect()
        assert loader.stats()["consumers"] == []


def test_what_cannot_be_is_an_error_that_says_why(path: str, tmp_path: Path) -> None:
    with opened(path, in_order=False) as loader, pytest.raises(ValueError, match="in_order"):
        loader.consumer(8)
    with opened(path) as loader:
        with pytest.raises(ValueError):
            loader.consumer(0)
        with pytest.raises(ValueError, match="start"):
            loader.consumer(8, start="there")  # type: ignore[arg-type]
        consumer = loader.consumer(8)
        for state in ({}, {"consumer": 1}, loader.state_dict()):
            with pytest.raises(ValueError, match="not a state"):
                consumer.load_state_dict(state)
        good = consumer.state_dict()
        with pytest.raises(leat.StateError, match="another order"):
            consumer.load_state_dict({**good, "order": "0" * 16})
        with pytest.raises(leat.StateError, match="rows of an epoch"):
            consumer.load_state_dict({**good, "at": {"epoch": 0, "row": 10**9}})
        with pytest.raises(ValueError, match="not a state"):
            consumer.load_state_dict({**good, "at": {"epoch": 0, "row": -1}})
    sizes = [leat.ops.Decode(), leat.ops.RandomResizedCrop(leat.PerBatch([8, 16]))]
    with (
        leat.Loader(photos(tmp_path), 8, outputs={"image": sizes}) as loader,
        pytest.raises(ValueError, match="several sizes"),
    ):
        loader.consumer(8)
    with (
        opened(path, 1, outputs=DENSE, budget_bytes=1 << 19) as loader,
        pytest.raises(leat.BudgetError, match="window"),
    ):
        loader.consumer(N)


def test_more_rows_than_may_be_held_is_an_error_that_ends_when_batches_are_let_go(path: str) -> None:
    with opened(path, outputs=DENSE, max_held_bytes=1 << 17) as loader:
        running, held = iter(loader.consumer(8)), []
        with pytest.raises(leat.HeldError, match="max_held_bytes"):
            held.extend(running)
        n = sum(len(b.ids) for b in held)
        held.clear()
        gc.collect()
        with loader.consumer(8) as here:
            del here
        assert n


def test_closing_the_last_consumer_doubles_no_batch_that_was_peeked_at() -> None:
    with leat.Loader(leat.from_arrays(x=np.arange(64)), 8, shuffle=False, framework="numpy") as loader:
        consumer = loader.consumer(8, start="beginning")
        batches, others = iter(loader), iter(consumer)
        got = [next(batches), next(batches)]
        next(others)
        loader.peek()
        consumer.close()
        got += batches
        assert np.concatenate([b["x"] for b in got]).tolist() == list(range(64))
