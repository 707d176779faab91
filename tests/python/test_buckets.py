"""Batches by length: each row once, within the budget, as many on all ranks, and resumable at any batch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from drawn_support import examples
from hypothesis import given
from hypothesis import strategies as st

import leat


def write(path: Path, lengths: list[int]) -> leat.Dataset:
    with leat.Writer(path, {"tokens": leat.field("uint16", (None,)), "n": "int64"}, overwrite=True) as w:
        for i, n in enumerate(lengths):
            w.add(tokens=np.full(n, i % 60000, np.uint16), n=n)
    return leat.open(path)


def told(batch: Any) -> tuple[Any, ...]:
    return batch.ids.tolist(), np.asarray(batch["tokens"].values).tolist(), batch.row_keys.tolist()


@examples(25)
@given(data=st.data())
def test_each_epoch_has_each_row_once_within_the_budget_and_as_many_batches_on_each_rank(
    tmp_path_factory: Any, data: Any
) -> None:
    lengths = data.draw(st.lists(st.integers(0, 60), min_size=1, max_size=150))
    ds = write(tmp_path_factory.mktemp("buckets") / "d.leat", lengths)
    world, budget = data.draw(st.sampled_from([1, 2, 4])), data.draw(st.integers(64, 300))
    widths = data.draw(st.none() | st.sampled_from([[60], [10, 20, 64], [1, 2, 4, 8, 16, 32, 64]]))
    most = data.draw(st.none() | st.integers(1, 20))
    options: dict[str, Any] = dict(shuffle=data.draw(st.booleans()), seed=3, framework="numpy", num_threads=1)
    loaders = [
        leat.Loader(ds, most, batch_tokens=budget, buckets=widths, rank=r, world_size=world, **options)
        for r in range(world)
    ]
    assert len({len(loader) for loader in loaders}) == 1
    for epoch in range(2):
        found: list[int] = []
        for step, batches in enumerate(zip(*loaders, strict=True)):
            for loader, batch in zip(loaders, batches, strict=True):
                sizes = np.asarray(batch["n"])
                assert (np.diff(batch["tokens"].offsets) == sizes).all() and batch.size == len(sizes) > 0
                longest = max(int(sizes.max()), 1)
                if widths:
                    longest = next(w for w in widths if w >= sizes.max())
                    assert all(next(w for w in widths if w >= n) == longest for n in sizes)
                assert longest * batch.size <= budget and (most is None or batch.size <= most)
                assert set(batch.valid) in ({True}, {False})
                assert loader.plan(epoch, step).tolist() == batch.ids.tolist()
                found += batch.ids.tolist() if batch.valid[0] else []
        assert step + 1 == len(loaders[0]) and sorted(found) == list(range(len(lengths)))


@examples(25)
@given(data=st.data())
def test_a_run_goes_on_anywhere_on_any_number_of_ranks(tmp_path_factory: Any, data: Any) -> None:
    lengths = data.draw(st.lists(st.integers(0, 40), min_size=8, max_size=90))
    ds = write(tmp_path_factory.mktemp("buckets") / "d.leat", lengths)

    def open_loaders(world: int) -> list[leat.Loader]:
        options: dict[str, Any] = dict(batch_tokens=80, shuffle=True, seed=5, framework="numpy", num_threads=1)
        return [leat.Loader(ds, rank=r, world_size=world, **options) for r in range(world)]

    whole = [told(b) for b in open_loaders(1)[0]]  # in the order of the epoch
    before, after = data.draw(st.sampled_from([1, 2, 4])), data.draw(st.sampled_from([1, 2, 4]))
    first = open_loaders(before)
    cut = data.draw(st.integers(0, len(first[0]) - 1))
    streams = [iter(loader) for loader in first]
    found = [told(b) for _ in range(cut) for b in [next(s) for s in streams] if b.valid[0]]
    second = open_loaders(after)
    for loader in second:
        loader.load_state_dict(first[0].state_dict())
    found += [told(b) for batches in zip(*second, strict=True) for b in batches if b.valid[0]]
    assert found == whole
    again = second[0].batch_at(1, 0)
    assert told(again) == told(next(iter(second[0])))


def test_an_epoch_is_what_the_documented_order_says(tmp_path: Path) -> None:
    lengths = [5, 1, 8, 3, 8, 2, 7, 4]
    ds = write(tmp_path / "d.leat", lengths)
    batches = [b.ids.tolist() for b in leat.Loader(ds, batch_tokens=16, buckets=[4, 8], framework="numpy")]
    assert batches == [[1, 3, 5, 7], [0, 2], [4, 6]]
    batches = [b.ids.tolist() for b in leat.Loader(ds, 3, buckets=[4, 8], framework="numpy")]
    assert batches == [[1, 3, 5], [7], [0, 2, 4], [6]]
    shuffled = leat.Loader(ds, batch_tokens=16, buckets=[4, 8], framework="numpy", shuffle=True)
    epochs = [[b.ids.tolist() for b in shuffled] for _ in range(6)]
    assert len({repr(e) for e in epochs}) > 3 and all(sorted(map(sorted, e)) for e in epochs)


def test_padding_stays_below_an_eighth_without_stated_buckets(tmp_path: Path) -> None:
    lengths = np.random.default_rng(1).integers(1, 2000, 1500)
    ds = write(tmp_path / "d.leat", lengths.tolist())
    padded = sum(int(b["tokens"].to_padded().size) for b in leat.Loader(ds, batch_tokens=8192, framework="numpy"))
    assert padded < lengths.sum() * 9 / 8


def test_fields_of_several_dimensions_and_text_are_counted_as_they_are_long(tmp_path: Path) -> None:
    fields = {"audio": leat.field("float32", (None, 4)), "text": "str"}
    with leat.Writer(tmp_path / "d.leat", fields) as w:
        for n in (3, 9, 3, 9):
            w.add(audio=np.zeros((n, 4), np.float32), text="x" * (12 - n))
    ds = leat.open(tmp_path / "d.leat")

    def ids(**options: Any) -> list[list[int]]:
        return [b.ids.tolist() for b in leat.Loader(ds, framework="numpy", **options)]

    assert ids(batch_tokens=18) == [[0, 2], [1, 3]]
    assert ids(batch_tokens=9, tokens_field="text") == [[1, 3], [0], [2]]


def test_lengths_may_be_given(tmp_path: Path) -> None:
    ds = write(tmp_path / "d.leat", [3, 90, 0, 40, 7, 60])
    cropped = np.minimum(ds.column("n"), 40)

    def open_loader(**options: Any) -> leat.Loader:
        crop = {"tokens": [leat.ops.RandomSlice(40)], "n": []}
        return leat.Loader(ds, outputs=crop, framework="numpy", seed=2, **options)

    batches = list(open_loader(batch_tokens=120, buckets=[8, 40], cost=cropped))
    assert [b.ids.tolist() for b in batches] == [[0, 2, 4], [1, 3, 5]]  # of 90 and 60 there are 40 left
    assert [b["tokens"].lengths.max() for b in batches] == [7, 40]
    assert [b.ids.tolist() for b in open_loader(buckets=[8, 90], cost="n", batch_size=2)] == [[0, 2], [4], [1, 3], [5]]
    loader = open_loader(batch_tokens=80, cost=cropped, shuffle=True)
    whole = [told(b) for b in open_loader(batch_tokens=80, cost=cropped, shuffle=True)]
    assert told(leat.make_rows(loader.plan_rows(0, 1))) == whole[1]
    iterator = iter(loader)
    next(iterator)
    other = open_loader(batch_tokens=80, cost=cropped, shuffle=True)
    other.load_state_dict(loader.state_dict())
    assert [told(b) for b in other] == whole[1:]
    with pytest.raises(leat.StateError, match="groups"):
        open_loader(batch_tokens=80, cost=np.minimum(cropped, 20), shuffle=True).load_state_dict(loader.state_dict())
    with pytest.raises((ValueError, IndexError), match="position 3 has 40 elements, more than the budget"):
        open_loader(batch_tokens=39, cost=cropped.clip(0, 40) * (np.arange(6) == 3))
    with pytest.raises(ValueError, match="cost has 5 numbers, the data set 6 samples"):
        open_loader(batch_tokens=80, cost=cropped[:5])
    with pytest.raises(ValueError, match="tokens_field the field that has it: give one"):
        open_loader(batch_tokens=80, cost=cropped, tokens_field="tokens")
    with pytest.raises(ValueError, match="about batch_cost="):
        open_loader(batch_size=4, cost=cropped)


def test_of_several_fields_that_vary_in_length_one_has_to_be_named(tmp_path: Path) -> None:
    fields = {name: leat.field("int32", (None,)) for name in ("a", "b")}
    with leat.Writer(tmp_path / "d.leat", fields) as w:
        for n in (3, 9, 3, 9):
            w.add(a=np.zeros(n, np.int32), b=np.zeros(12 - n, np.int32))
    ds = leat.open(tmp_path / "d.leat")
    with pytest.raises(ValueError, match="tokens_field= says whose lengths count: one of a, b"):
        leat.Loader(ds, batch_tokens=9)
    loader = leat.Loader(ds, batch_tokens=9, tokens_field="b", framework="numpy")
    assert [b.ids.tolist() for b in loader] == [[1, 3], [0], [2]]


def test_what_does_not_go_together_is_refused(tmp_path: Path) -> None:
    ds = write(tmp_path / "d.leat", [3, 90, 4])
    with pytest.raises(
        (ValueError, IndexError), match="position 1 has 90 elements, more than the budget of a batch of 64"
    ):
        leat.Loader(ds, batch_tokens=64)
    with pytest.raises((ValueError, IndexError), match="position 1 has 90 elements, more than the last bucket of 32"):
        leat.Loader(ds, batch_tokens=640, buckets=[16, 32])
    with pytest.raises(ValueError, match="bucket of width 128 does not fit the budget of 100 elements"):
        leat.Loader(ds, batch_tokens=100, buckets=[16, 128])
    with pytest.raises(ValueError, match="give batch_tokens or batch_size"):
        leat.Loader(ds, buckets=[16, 128])
    with pytest.raises(ValueError, match="lengths that rise"):
        leat.Loader(ds, 4, buckets=[128, 16])
    with pytest.raises(ValueError, match="not global_batch_size"):
        leat.Loader(ds, global_batch_size=4, batch_tokens=100)
    with pytest.raises(ValueError, match="leave sampler, Blocks and in_order out"):
        leat.Loader(ds, batch_tokens=100, sampler=[0, 1])
    with pytest.raises(TypeError, match="not with a Mix"):
        leat.Loader(leat.Mix({"a": (ds, 1.0)}), batch_tokens=100)
    with pytest.raises(TypeError, match="not with packed rows"):
        leat.Loader(leat.pack_rows(ds, length=4), batch_tokens=100)
    with pytest.raises(TypeError, match="does not vary in length"):
        leat.Loader(ds, batch_tokens=100, tokens_field="n")
    with pytest.raises(ValueError, match="tokens_field says whose lengths count"):
        leat.Loader(ds, 2, tokens_field="tokens")
    loader = leat.Loader(ds, batch_tokens=100)
    with pytest.raises(ValueError, match="each rank has one a step"):
        loader.set_batch_size(2)
    with pytest.raises(ValueError, match="no second consumer"):
        loader.consumer(batch_size=2)
    other = leat.Loader(ds, batch_tokens=200)
    with pytest.raises(leat.StateError):
        other.load_state_dict(loader.state_dict())
