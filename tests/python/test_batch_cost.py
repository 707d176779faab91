"""Batches by cost: each sample once, within the budget, as many on all ranks, and resumable at any batch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from drawn_support import examples
from hypothesis import given
from hypothesis import strategies as st
from test_order_reference import mix, permute
from test_pack_whole import P_BINS, P_ORDER, best_fit, first_fit

import leat


def write(path: Path, costs: list[int]) -> leat.Dataset:
    with leat.Writer(path, {"tokens": leat.field("uint16", (None,)), "cost": "int64"}, overwrite=True) as w:
        for i, cost in enumerate(costs):
            w.add(tokens=np.full(min(cost, 50), i, np.uint16), cost=cost)
    return leat.open(path)


def told(batch: Any) -> tuple[Any, ...]:
    return batch.ids.tolist(), np.asarray(batch["tokens"].values).tolist(), batch.row_keys.tolist()


def groups_of(costs: list[int], budget: int, seed: int | None) -> list[list[int]]:
    """docs/order.md, "Batches by cost", without costs of 0 and a number of rows."""
    n = len(costs)
    order = list(range(n)) if seed is None else list(map(permute(n, mix(seed, P_BINS)), range(n)))
    items = sorted((i for i in order if costs[i] <= budget), key=lambda i: -costs[i])
    packings = [pack(items, costs, budget) for pack in (best_fit, first_fit)]
    return [[i] for i in order if costs[i] > budget] + min(packings, key=len)


def batches_of_first_fit(costs: list[int], budget: int, most: int) -> int:
    size: list[int] = []
    room: list[int] = []
    for cost in sorted(costs, reverse=True):
        k = next((k for k in range(len(size)) if room[k] >= cost and size[k] < most), len(size))
        if k == len(size):
            size.append(0)
            room.append(budget)
        room[k] = room[k] - cost if cost <= budget else -1
        size[k] += 1
    return len(size)


drawn_costs = st.lists(st.integers(0, 60) | st.just(0) | st.just(7), min_size=1, max_size=120)


@examples(25)
@given(data=st.data())
def test_each_epoch_has_each_sample_once_within_the_budget_and_as_many_batches_on_each_rank(
    tmp_path_factory: Any, data: Any
) -> None:
    costs = data.draw(drawn_costs)
    ds = write(tmp_path_factory.mktemp("cost") / "d.leat", costs)
    world, budget = data.draw(st.sampled_from([1, 2, 4])), data.draw(st.integers(30, 200))
    most = data.draw(st.none() | st.integers(1, 20))
    options: dict[str, Any] = dict(shuffle=data.draw(st.booleans()), seed=3, framework="numpy", num_threads=1)
    options |= dict(batch_size=most, batch_cost=budget, cost="cost", oversize="alone")
    loaders = [leat.Loader(ds, rank=r, world_size=world, **options) for r in range(world)]
    assert len({len(loader) for loader in loaders}) == 1
    for epoch in range(2):
        found: list[int] = []
        full = 0
        for step, batches in enumerate(zip(*loaders, strict=True)):
            for loader, batch in zip(loaders, batches, strict=True):
                sizes = np.asarray(batch["cost"])
                assert 0 < batch.size == len(sizes) and (sizes.sum() <= budget or batch.size == 1)
                assert most is None or batch.size <= most
                assert set(batch.valid) in ({True}, {False})
                assert loader.plan(epoch, step).tolist() == batch.ids.tolist()
                found += batch.ids.tolist() if batch.valid[0] else []
                full += bool(batch.valid[0])
        assert step + 1 == len(loaders[0]) and sorted(found) == list(range(len(costs)))
        assert full <= batches_of_first_fit(costs, budget, most or len(costs))


@examples(25)
@given(data=st.data())
def test_a_run_goes_on_anywhere_on_any_number_of_ranks(tmp_path_factory: Any, data: Any) -> None:
    ds = write(tmp_path_factory.mktemp("cost") / "d.leat", data.draw(st.lists(st.integers(0, 40), min_size=8)))
    options: dict[str, Any] = dict(batch_cost=80, cost="tokens.length", shuffle=data.draw(st.booleans()))

    def open_loaders(world: int) -> list[leat.Loader]:
        more: dict[str, Any] = dict(world_size=world, seed=5, framework="numpy", num_threads=1)
        return [leat.Loader(ds, rank=r, **options, **more) for r in range(world)]

    whole = [told(b) for b in open_loaders(1)[0]]  # in the order of the epoch
    first, second = (open_loaders(data.draw(st.sampled_from([1, 2, 4]))) for _ in range(2))
    cut = data.draw(st.integers(0, len(first[0]) - 1))
    streams = [iter(loader) for loader in first]
    found = [told(b) for _ in range(cut) for b in [next(s) for s in streams] if b.valid[0]]
    state = first[0].state_dict()
    assert state["at"] == {"epoch": 0, "row": len(first) * cut}  # batches
    for loader in second:
        loader.load_state_dict(state)
    found += [told(b) for batches in zip(*second, strict=True) for b in batches if b.valid[0]]
    assert found == whole
    assert told(second[0].batch_at(1, 0)) == told(next(iter(second[0])))


@examples(25)
@given(st.lists(st.integers(1, 90), min_size=1, max_size=80), st.booleans(), st.integers(0, 2**64 - 1))
def test_an_epoch_is_what_the_documented_order_says(
    tmp_path_factory: Any, costs: list[int], shuffle: bool, seed: int
) -> None:
    ds = write(tmp_path_factory.mktemp("cost") / "d.leat", costs)
    options: dict[str, Any] = dict(batch_cost=70, cost=costs, oversize="alone", shuffle=shuffle, seed=seed)
    loader = leat.Loader(ds, framework="numpy", num_threads=1, **options)
    groups = groups_of(costs, 70, seed if shuffle else None)
    for epoch in range(2):
        order = range(len(groups))
        if shuffle:
            order = list(map(permute(len(groups), mix(mix(mix(seed, P_ORDER), 0), epoch)), order))
        assert [batch.ids.tolist() for batch in loader] == [groups[k] for k in order]


def test_samples_of_cost_0_are_spread_over_the_batches_and_add_none_while_these_may_have_more(tmp_path: Path) -> None:
    ds = write(tmp_path / "d.leat", [0, 5, 0, 5, 0, 9, 0])

    def ids(**options: Any) -> list[list[int]]:
        return [b.ids.tolist() for b in leat.Loader(ds, cost="cost", framework="numpy", **options)]

    assert ids(batch_cost=5, oversize="alone") == [[5], [1, 0, 4], [3, 2, 6]]
    assert ids(batch_cost=9, batch_size=2) == [[5, 0], [1, 2], [3, 4], [6]]
    assert ids(batch_cost=1000) == [[5, 1, 3, 0, 2, 4, 6]]


def test_costs_are_a_column_the_lengths_of_a_field_or_one_number_for_each_sample(tmp_path: Path) -> None:
    import torch

    rng = np.random.default_rng(2)
    fields = {"audio": leat.field("float32", (None, 4)), "text": "str", "n": "int64", "x": "float32"}
    lengths = rng.integers(1, 30, 60)
    with leat.Writer(tmp_path / "d.leat", fields) as w:
        for n in lengths.tolist():
            w.add(audio=np.zeros((n, 4), np.float32), text="x" * n, n=n, x=n)
    ds = leat.open(tmp_path / "d.leat")

    def ids(cost: Any, part: Any = ds) -> list[list[int]]:
        return [b.ids.tolist() for b in leat.Loader(part, batch_cost=64, cost=cost, shuffle=True, framework="numpy")]

    same = ids("n")
    arrays: list[Any] = [lengths, lengths.astype(np.uint8), lengths.astype(np.float16), torch.from_numpy(lengths)]
    for cost in ("x", "audio.length", "text.length", lengths.tolist(), *arrays):
        assert ids(cost) == same
    part = ds.where("n > 10")
    assert ids("n", part) == ids("audio.length", part) == ids(lengths[lengths > 10], part)


def test_costs_of_bytes_or_of_tokens_squared_are_within_a_budget_of_a_billion() -> None:
    costs = np.random.default_rng(3).integers(1, 20_000, 2000).astype(np.int64) ** 2
    ds = leat.from_arrays(x=np.arange(2000))
    loader = leat.Loader(ds, batch_cost=10**9, cost=costs, shuffle=True, framework="numpy")
    sums = [int(costs[batch.ids].sum()) for batch in loader]
    assert max(sums) <= 10**9 and sum(sums) == costs.sum()
    assert sum(sums) > 0.99 * 10**9 * (len(sums) - 1)


def test_an_array_that_changes_later_changes_no_batch_and_no_plan(tmp_path: Path) -> None:
    costs = np.array([3, 4, 5, 6, 7, 8])
    ds = write(tmp_path / "d.leat", costs.tolist())
    loader = leat.Loader(ds, batch_cost=12, cost=costs, framework="numpy", log_dir=tmp_path)
    costs[:] = 12
    assert [b.ids.tolist() for b in loader] == [[5, 1], [4, 2], [3, 0]]
    made = leat.make_rows(loader.plan_rows(0, 1))
    assert made.ids.tolist() == [4, 2] and told(made) == told(loader.batch_at(0, 1))


def test_peers_of_a_mesh_see_the_same_batches(tmp_path: Path) -> None:
    ds = write(tmp_path / "d.leat", [3, 4, 5, 6, 7, 8])
    found = [
        [b.ids.tolist() for b in leat.Loader(ds, batch_cost=12, cost="cost", mesh={"dp": (d, 3), "tp": (t, 2)})]
        for d in range(3)
        for t in range(2)
    ]
    assert found == [[[5, 1]]] * 2 + [[[4, 2]]] * 2 + [[[3, 0]]] * 2


def test_what_does_not_go_together_is_refused(tmp_path: Path) -> None:
    ds = write(tmp_path / "d.leat", [3, 90, 4])

    def refused(error: Any, match: str, dataset: Any = ds, **options: Any) -> None:
        with pytest.raises(error, match=match):
            leat.Loader(dataset, **{"batch_cost": 100, "cost": "cost", **options})

    refused(IndexError, "position 1 has a cost of 90, more than the 64 of a batch", batch_cost=64)
    refused(ValueError, "batch_cost is 1 or above", batch_cost=0)
    refused(ValueError, "batch_cost is 1 or above", batch_cost=-3)
    refused(TypeError, "batch_cost is an integer", batch_cost=1.5)
    refused(ValueError, "oversize is one of 'error', 'alone'", oversize="drop")
    refused(ValueError, "cost= says what a sample does", cost=None)
    refused(ValueError, "give that, too", batch_cost=None)
    refused(ValueError, "give that, too", batch_cost=None, cost=None, batch_size=2, oversize="alone")
    refused(ValueError, "and batch_tokens by length", batch_tokens=100)
    refused(ValueError, "and buckets by length", buckets=[100])
    refused(ValueError, "and tokens_field by length", tokens_field="tokens")
    refused(ValueError, "not global_batch_size", global_batch_size=4)
    refused(KeyError, 'no field "price"', cost="price")
    refused(KeyError, 'no field "price"', cost="price.length")
    refused(TypeError, "does not vary in length", cost="cost.length")
    refused(TypeError, "varies in size", cost="tokens")
    refused(ValueError, "cost has 2 numbers, the data set 3 samples", cost=[1, 2])
    refused(TypeError, r"not int64 of shape \(3, 1\)", cost=np.ones((3, 1), np.int64))
    refused(TypeError, "not bool of shape", cost=[True, False, True])
    refused(TypeError, "not <U1 of shape", cost=["1", "2", "3"])
    for cost, says in ((-1, "-1"), (2**48 + 1, "281474976710657"), (0.5, "0.5"), (np.nan, "nan"), (np.inf, "inf")):
        refused(ValueError, f"position 2 costs {says}.*, and costs are whole numbers from 0 to 2.48", cost=[1, 2, cost])
    refused(TypeError, "not with a Mix", leat.Mix({"a": (ds, 1.0)}))
    refused(TypeError, "not with packed rows", leat.pack_rows(ds, length=4))
    refused(TypeError, "not with packed rows", leat.pack_rows(ds, how="ragged"))
    refused(ValueError, "by cost are in order or shuffled: leave sampler", sampler=[0, 1])
    refused(ValueError, "by cost are in order or shuffled: leave sampler", in_order=False)
    refused(ValueError, "batch_cost=", feedback=leat.TopBatches(0.5))
    loader = leat.Loader(ds, batch_cost=100, cost="cost")
    with pytest.raises(ValueError, match="each rank has one a step"):
        loader.set_batch_size(2)
    with pytest.raises(ValueError, match="no second consumer"):
        loader.consumer(batch_size=2)
    with pytest.raises(leat.UnsupportedError, match="batch_cost"):
        leat.Port(loader, "never", folder=tmp_path)
    others: list[dict[str, Any]] = [{"batch_cost": 150}, {"cost": [90, 3, 4]}, {"batch_size": 1}]
    for other in others:
        with pytest.raises(leat.StateError):
            leat.Loader(ds, **{"batch_cost": 100, "cost": "cost", **other}).load_state_dict(loader.state_dict())


def test_ranks_with_other_costs_differ_in_what_they_compare(tmp_path: Path) -> None:
    ds = write(tmp_path / "d.leat", [3, 5, 4])
    told = [leat.Loader(ds, batch_cost=9, cost=cost).stats()["agreement"] for cost in ("cost", [3, 5, 4], [5, 3, 4])]
    assert told[0] == told[1] != told[2]
