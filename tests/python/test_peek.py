"""loader.peek(): the next batch, not handed out."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import leat

torch: Any = pytest.importorskip("torch")


def loader_of(path: Path, size: int = 16, **options: Any) -> leat.Loader:
    return leat.Loader(leat.open(path), size, **{"shuffle": True, "seed": 4, **options})


def delivered(loader: leat.Loader, epochs: int = 1) -> list[tuple[int, int, list[int], list[int]]]:
    return [(b.epoch, b.step, b.ids.tolist(), b.row_keys.tolist()) for _ in range(epochs) for b in loader]


def test_next_gives_the_batch_that_was_peeked_at(records: Path) -> None:
    loader = loader_of(records)
    batches = iter(loader)
    for step in range(3):
        ahead = loader.peek()
        assert ahead.step == step and loader.peek() is ahead
        assert next(batches) is ahead


def test_peeking_moves_neither_state_nor_counts(records: Path) -> None:
    loader = loader_of(records)
    batches = iter(loader)
    for _ in range(7):
        before, stats = loader.state_dict(), loader.stats()
        ahead = loader.peek()
        assert loader.state_dict() == before
        now = loader.stats()
        assert all(now[name] == stats[name] for name in ("samples", "batches", "bytes", "epoch", "row", "step"))
        again = loader_of(records)
        again.load_state_dict(before)
        assert next(iter(again)).ids.tolist() == ahead.ids.tolist()
        next(batches)
    assert loader.stats()["batches"] == 7


def test_behind_the_last_batch_of_an_epoch_there_is_none_and_the_epoch_stays(records: Path) -> None:
    loader = loader_of(records)
    steps = len(loader)
    for step, batch in enumerate(loader):
        assert batch.epoch == loader.epoch == 0
        assert (loader.peek() is None) == (step == steps - 1) and loader.epoch == 0
    assert loader.epoch == 1 and loader.peek() is None
    iter(loader)
    assert (loader.peek().epoch, loader.peek().step) == (1, 0)


def test_before_an_epoch_has_begun_and_after_a_state_was_loaded_peeking_is_an_error(records: Path) -> None:
    loader = loader_of(records)
    with pytest.raises(leat.InvalidError, match="no epoch has begun"):
        loader.peek()
    batches = iter(loader)
    state, first = loader.state_dict(), loader.peek()
    loader.load_state_dict(state)
    with pytest.raises(leat.InvalidError, match="no epoch has begun"):
        loader.peek()
    with pytest.raises(leat.ClosedError):
        next(batches)
    assert next(iter(loader)).ids.tolist() == first.ids.tolist()


def test_a_batch_size_that_is_set_meanwhile_gives_up_what_was_peeked_at(records: Path) -> None:
    loader = loader_of(records)
    batches = iter(loader)
    first, ahead = next(batches), loader.peek()
    kept = ahead["x"].clone()
    loader.set_batch_size(5)
    now = loader.peek()
    assert now is not ahead and now.size == 5 and now.ids.tolist() == ahead.ids[:5].tolist()
    assert torch.equal(ahead["x"], kept) and torch.equal(now["x"], kept[:5])
    seen = first.ids.tolist()
    for batch in batches:
        seen += batch.ids.tolist()
    assert sorted(seen) == list(range(len(loader.dataset)))


def test_a_decision_that_holds_later_leaves_what_was_peeked_at(records: Path) -> None:
    loader = loader_of(records)
    batches = iter(loader)
    ahead = loader.peek()
    loader.set_batch_size(5, at=(0, 1))
    assert loader.peek() is ahead and next(batches) is ahead and next(batches).size == 5


def test_further_consumers_beside_it_get_their_rows_and_look_ahead_too(records: Path) -> None:
    loader = loader_of(records, 12)
    with loader.consumer(5, start="beginning") as other:
        mine, theirs, order = [], [], delivered(loader_of(records, 12))
        batches, others = iter(loader), iter(other)
        ahead = other.peek()
        assert ahead is not None and other.state_dict()["at"]["row"] == 0
        for batch in batches:
            mine += batch.ids.tolist()
            loader.peek()
            for _ in range(2):
                ahead = other.peek()
                if ahead is not None:
                    got = next(others)
                    assert got.ids.tolist() == ahead.ids.tolist() and torch.equal(got["x"], ahead["x"])
                    theirs += got.ids.tolist()
        theirs += [i for batch in others for i in batch.ids.tolist()]
        assert mine == theirs == [i for _, _, ids, _ in order for i in ids]


def test_a_consumer_s_look_ahead_goes_with_a_decision(records: Path) -> None:
    loader = loader_of(records, 12)
    with loader.consumer(9, start="beginning") as other:
        others, batches = iter(other), iter(loader)
        next(batches)
        first = next(others)
        ahead = other.peek()
        loader.set_batch_size(4)
        again = next(others)
        assert again.ids.tolist() == ahead.ids.tolist() and not set(first.ids.tolist()) & set(again.ids.tolist())
        rest = [i for batch in others for i in batch.ids.tolist()]
        assert sorted(first.ids.tolist() + again.ids.tolist() + rest) == list(range(len(loader.dataset)))


def test_a_batch_that_was_peeked_at_is_given_back_with_the_last_who_holds_it(records: Path) -> None:
    loader = loader_of(records)

    def held() -> int:
        return int(loader.stats()["memory"]["held_bytes"])

    batches = iter(loader)
    ahead = loader.peek()
    one = held()
    assert one > 0
    del ahead
    assert held() == one  # it is there for next
    batch = next(batches)
    assert held() == one
    del batch
    assert held() == 0
    kept = loader.peek()["x"]
    loader.set_batch_size(3)
    assert 0 < held() <= one
    del kept
    assert held() == 0
    loader.peek()
    loader.close()


def test_a_broken_sample_raises_from_peek_as_from_next_and_is_reported_once(broken: Path, tmp_path: Path) -> None:
    outputs = {"image": [leat.ops.Decode(), leat.ops.Resize((8, 8))], "label": []}
    loader = leat.Loader(leat.open(broken), 5, outputs=outputs, error_report=tmp_path / "report")
    batches = iter(loader)
    for ask in (loader.peek, lambda: next(batches), loader.peek):
        with pytest.raises(leat.BrokenSampleError, match="sample 3"):
            ask()
    loader.close()
    report = [json.loads(line) for line in (tmp_path / "report").read_text().splitlines()]
    assert [line["planned"] for line in report] == [3]
    loader = leat.Loader(leat.open(broken), 5, outputs=outputs, error_report=tmp_path / "skipped", on_error="skip")
    batches = iter(loader)
    assert loader.peek().size == 4 and loader.peek().errors[0].planned == 3
    loader.set_batch_size(10)
    assert loader.peek().size == 9 and next(batches).errors[0].planned == 3
    report = [json.loads(line) for line in (tmp_path / "skipped").read_text().splitlines()]
    assert [line["planned"] for line in report] == [3] and loader.stats()["broken"]["skipped"] == 1


def test_out_of_order_there_is_no_next_batch_to_look_at(records: Path) -> None:
    loader = loader_of(records, in_order=False)
    iter(loader)
    with pytest.raises(leat.UnsupportedError, match="in_order"):
        loader.peek()


def test_tuples_are_peeked_at_as_iterating_gives_them(records: Path) -> None:
    loader = loader_of(records, yields="tuple")
    batches = iter(loader)
    x, label = loader.peek()
    y, again = next(batches)
    assert x.data_ptr() == y.data_ptr() and torch.equal(label, again)


def test_functions_in_the_program_are_run_for_a_batch_that_is_peeked_at(records: Path) -> None:
    loader = loader_of(records, outputs={"x": [leat.ops.Map(np.negative, returns=leat.field("float32", (3,)))]})
    batches = iter(loader)
    ahead = loader.peek()
    assert next(batches) is ahead and ahead["x"].shape == (16, 3)


def test_each_of_several_ranks_looks_at_its_own_batch(records: Path) -> None:
    whole = delivered(loader_of(records, 8))
    loaders = [loader_of(records, 4, rank=rank, world_size=2) for rank in range(2)]
    iterators = [iter(loader) for loader in loaders]
    ahead = [loader.peek() for loader in loaders]
    assert [i for batch in ahead for i in batch.ids.tolist()] == whole[0][2]
    for loader in loaders:
        loader.set_batch_size(2, at=(0, 1))
    assert [next(batches) for batches in iterators] == ahead
    assert [i for batches in iterators for i in next(batches).ids.tolist()] == whole[1][2][:4]


@pytest.fixture
def port(records: Path, tmp_path: Path) -> Iterator[leat.Port]:
    with leat.Port(loader_of(records, 12), "peeked", folder=tmp_path) as found:
        yield found


def test_what_is_attached_looks_ahead_like_a_loader(port: leat.Port, records: Path, tmp_path: Path) -> None:
    plain = delivered(loader_of(records, 9))
    with leat.attach("peeked", 9, folder=tmp_path, start="beginning") as reader:
        with pytest.raises(leat.InvalidError, match="no epoch has begun"):
            reader.peek()
        batches, found = iter(reader), []
        while True:
            before = reader.state_dict()
            ahead = reader.peek()
            assert reader.state_dict() == before and reader.epoch == 0 and reader.peek() is ahead
            batch = next(batches, None)
            assert batch is ahead
            if batch is None:
                break
            found.append((batch.epoch, batch.step, batch.ids.tolist(), batch.row_keys.tolist()))
        assert found == plain and reader.epoch == 1
        next(iter(reader))
        ahead, state = reader.peek(), reader.state_dict()
        reader.load_state_dict(state)
        assert next(iter(reader)).ids.tolist() == ahead.ids.tolist()


def test_what_a_reader_peeked_at_is_given_up_where_it_loads_a_state(port: leat.Port, tmp_path: Path) -> None:
    with leat.attach("peeked", 9, folder=tmp_path, start="beginning") as reader:
        batches = iter(reader)
        first, state = next(batches), reader.state_dict()
        second = next(batches)
        assert reader.peek().step == 2 and reader.state_dict() != state
        reader.load_state_dict(state)
        assert reader.state_dict() == state
        again = next(iter(reader))
        assert again.ids.tolist() == second.ids.tolist() != first.ids.tolist()
