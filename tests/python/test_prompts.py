"""Prompts in groups: the order, what it saves, results in the input's order, and batches by keys and values."""

from __future__ import annotations

import itertools
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from drawn_support import examples
from hypothesis import given
from hypothesis import strategies as st

import leat


def dataset(prompts: list[list[int]], dtype: str = "int32", **more: Any) -> leat.Dataset:
    tokens = leat.Ragged(np.array([t for p in prompts for t in p], dtype), np.cumsum([0, *map(len, prompts)]))
    schema = {"tokens": leat.field(dtype, (None,)), **{name: leat.field("int64") for name in more}}
    return leat.from_arrays(schema, tokens=tokens, **{name: np.array(v, np.int64) for name, v in more.items()})


def shared(a: list[int], b: list[int]) -> int:
    return next((k for k, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


def fewest(prompts: list[list[int]], block: int) -> int | None:
    """Tokens computed by the best of all choices of prefixes; None: there are too many."""
    pairs = itertools.combinations(prompts, 2)
    prefixes = sorted({tuple(a[: shared(a, b) // block * block]) for a, b in pairs} - {()}, key=len)
    if len(prefixes) > 9:
        return None
    costs = []
    for n in range(len(prefixes) + 1):
        for chosen in itertools.combinations(prefixes, n):
            own = [len(p) - max((len(c) for c in chosen if tuple(p[: len(c)]) == c), default=0) for p in prompts]
            costs.append(sum(own) + sum(map(len, chosen)))
    return min(costs)


@st.composite
def drawn_prompts(draw: Any) -> list[list[int]]:
    prompts: list[list[int]] = []
    for _ in range(draw(st.integers(0, 9))):
        before = draw(st.sampled_from(prompts)) if prompts and draw(st.booleans()) else []
        kept = before[: draw(st.integers(0, len(before)))]
        prompts.append(kept + draw(st.lists(st.integers(0, 2), max_size=8)))
    return prompts


@examples(60)
@given(prompts=drawn_prompts(), block=st.integers(1, 3), seed=st.sampled_from([0, 4]), data=st.data())
def test_groups_are_the_best_two_levels_and_results_come_back(
    prompts: list[list[int]], block: int, seed: int, data: Any
) -> None:
    decode = data.draw(st.none() | st.lists(st.integers(0, 5), min_size=len(prompts), max_size=len(prompts)))
    dtype = data.draw(st.sampled_from(["uint8", "int16", "int32", "uint64"]))
    g = leat.group_prompts(dataset(prompts, dtype), "tokens", decode, block, seed)
    order = g.order.tolist()
    assert sorted(order) == list(range(len(prompts)))
    cost, rates, at = 0, [], 0
    for first, count, prefix in g.groups.tolist():
        members = [prompts[i] for i in order[first : first + count]]
        assert first == at
        assert prefix % block == 0
        assert {tuple(p[:prefix]) for p in members} == {tuple(members[0][:prefix])}
        tokens = prefix + sum(len(p) - prefix for p in members)
        cost, at = cost + tokens, at + count
        if decode is not None:
            rates.append(sum(decode[i] for i in order[first : first + count]) / max(tokens, 1))
        if not seed:
            assert members == sorted(members)
    assert rates == sorted(rates, reverse=True)
    every = sum(map(len, prompts))
    assert cost == (fewest(prompts, block) or cost)
    assert g.saving == pytest.approx(1 - cost / every if every else 0)
    least = sum(shared(a, b) // block * block for a, b in itertools.pairwise(sorted(prompts)))
    assert g.optimum == pytest.approx(least / every if every else 0)
    assert [s["tokens"].tolist() for s in g] == [prompts[i] for i in order]
    assert g.restore([s["tokens"].tolist() for s in g]) == prompts


HEADS = [[9] * 30, [8] * 20, [7] * 10]
PROMPTS = [HEADS[i % 3] + [i, i + 1] for i in range(60)]


def test_results_of_any_kind_are_restored_each_once() -> None:
    g = leat.group_prompts(dataset(PROMPTS), "tokens")
    numbers = g.order * 10
    expected = [10 * i for i in range(60)]
    assert g.restore(numbers).tolist() == expected
    assert g.restore(numbers.tolist()) == expected
    assert g.restore({i: int(n) for i, n in enumerate(numbers)}) == expected
    rows = g.restore(leat.Ragged(np.repeat(numbers, 2), np.arange(0, 121, 2)))
    assert [row.tolist() for row in rows] == [[n, n] for n in expected]
    torch = pytest.importorskip("torch")
    assert g.restore(torch.from_numpy(numbers)).tolist() == expected


def test_results_that_are_missing_or_too_many_are_named() -> None:
    g = leat.group_prompts(dataset(PROMPTS), "tokens")
    with pytest.raises(ValueError, match="each of the 60 prompts, in the order of this data set, not 59"):
        g.restore([0] * 59)
    with pytest.raises(ValueError, match=f"no result with the id 7, which is the prompt at position {g.order[7]}"):
        g.restore({i: i for i in range(60) if i != 7})
    with pytest.raises(ValueError, match="a result has the id 60"):
        g.restore({i: i for i in range(61)})


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64"])
def test_negative_tokens_come_last(dtype: str) -> None:
    g = leat.group_prompts(dataset([[-1], [5], [-7], [0]], dtype), "tokens")
    assert g.order.tolist() == [3, 1, 2, 0]


def test_what_is_no_prompt_or_no_count_is_refused() -> None:
    ds = dataset(PROMPTS, n=range(60))
    with pytest.raises(TypeError, match=r"no list of integers that varies.* tokens by leat\.tokenize, or"):
        leat.group_prompts(ds, "n")
    with pytest.raises(KeyError, match='no field "prompt"'):
        leat.group_prompts(ds, "prompt")
    with pytest.raises(ValueError, match="decode has 3 numbers, the data set 60 prompts"):
        leat.group_prompts(ds, "tokens", [1, 2, 3])
    with pytest.raises(ValueError, match="the prompt at position 2 has -1"):
        leat.group_prompts(ds, "tokens", [0, 1, -1] + [0] * 57)
    with pytest.raises(ValueError, match="block is 1 or above"):
        leat.group_prompts(ds, "tokens", block=0)
    with pytest.raises(TypeError, match="takes a data set of prompts, not list"):
        leat.group_prompts(PROMPTS, "tokens")  # type: ignore[arg-type]
    g = leat.group_prompts(ds, "tokens", "n")
    assert len(g.groups) == 3
    with pytest.raises(ValueError, match='a field "group" of their own'):
        leat.group_prompts(g, "tokens")


def test_grouped_prompts_pickle_and_their_fingerprint_says_how_they_were_grouped(tmp_path: Path) -> None:
    with leat.Writer(tmp_path / "p.leat", {"tokens": leat.field("uint16", (None,))}) as writer:
        for prompt in PROMPTS:
            writer.add(tokens=np.array(prompt, np.uint16))
    ds = leat.open(tmp_path / "p.leat")
    made = [leat.group_prompts(ds, "tokens", **more) for more in ({}, {"block": 4}, {"seed": 1}, {"decode": [0] * 60})]
    assert len({g.fingerprint for g in made}) == 4
    for g in made:
        again = pickle.loads(pickle.dumps(g))
        assert again.fingerprint == g.fingerprint
        assert again.order.tolist() == g.order.tolist()
    assert g[5:9].column("group").tolist() == g.column("group")[5:9].tolist()


def test_work_tells_its_progress_and_ends_with_an_error_of_it() -> None:
    told: list[tuple[int, int]] = []
    leat.group_prompts(dataset(PROMPTS), "tokens", progress=lambda done, total: told.append((done, total)))
    assert told
    assert told == sorted(told)
    assert {total for _, total in told} == {120}

    def stop(done: int, total: int) -> None:
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        leat.group_prompts(dataset(PROMPTS), "tokens", progress=stop)


def kept(g: Any, ids: list[int]) -> int:
    """Keys and values of a batch."""
    groups = g.column("group")[ids]
    own = sum(len(g[i]["tokens"]) - g[i]["prefix_length"] for i in ids)
    own += 0 if g.decode is None else int(g.decode[g.order[ids]].sum())
    return int(own + g.groups.prefix[np.unique(groups)].sum())


@examples(25)
@given(data=st.data())
def test_batches_keep_to_their_keys_and_values_and_each_prompt_comes_once(data: Any) -> None:
    prompts = data.draw(drawn_prompts().filter(bool)) + PROMPTS[: data.draw(st.integers(0, 12))]
    decode = data.draw(st.none() | st.just([3] * len(prompts)))
    g = leat.group_prompts(dataset(prompts), "tokens", decode)
    world, most = data.draw(st.sampled_from([1, 2, 3])), data.draw(st.none() | st.integers(1, 5))
    shuffle, size = data.draw(st.booleans()), data.draw(st.integers(10, 90))
    options: dict[str, Any] = {"batch_kv": size, "oversize": "alone", "shuffle": shuffle, "batch_size": most}
    options |= {"world_size": world, "framework": "numpy", "num_threads": 1}
    loaders = [leat.Loader(g, rank=r, **options) for r in range(world)]
    seen: list[int] = []
    for batches in zip(*loaders, strict=True):
        for batch in batches:
            ids = batch.ids.tolist()
            assert ids == list(range(ids[0], ids[0] + len(ids)))
            assert kept(g, ids) <= size or len(ids) == 1
            assert most is None or len(ids) <= most
            assert batch["group"].tolist() == g.column("group")[ids].tolist()
            assert batch["prefix_length"].tolist() == g.groups.prefix[batch["group"]].tolist()
            assert [row.tolist() for row in batch["tokens"]] == [prompts[i] for i in g.order[ids]]
            seen += ids if batch.valid[0] else []
    assert sorted(seen) == list(range(len(prompts)))
    if not shuffle:
        assert seen == sorted(seen)


def test_batches_are_as_full_as_their_order_allows() -> None:
    g = leat.group_prompts(dataset(PROMPTS), "tokens")
    ids = [batch.ids.tolist() for batch in leat.Loader(g, batch_kv=50, framework="numpy")]
    assert all(kept(g, [*now, then[0]]) > 50 for now, then in itertools.pairwise(ids))


def test_a_run_over_prompts_resumes_and_its_rows_are_made_elsewhere(tmp_path: Path) -> None:
    with leat.Writer(tmp_path / "p.leat", {"tokens": leat.field("uint16", (None,))}) as writer:
        for prompt in PROMPTS:
            writer.add(tokens=np.array(prompt, np.uint16))
    g = leat.group_prompts(leat.open(tmp_path / "p.leat"), "tokens", [1] * 60)
    whole = [b.ids.tolist() for b in leat.Loader(g, batch_kv=60, shuffle=True, framework="numpy")]
    first = leat.Loader(g, batch_kv=60, shuffle=True, framework="numpy")
    batches = iter(first)
    got = [next(batches).ids.tolist() for _ in range(3)]
    again = leat.Loader(g, batch_kv=60, shuffle=True, framework="numpy")
    again.load_state_dict(first.state_dict())
    assert got + [b.ids.tolist() for b in again] == whole
    made = leat.make_rows(first.plan_rows(0, 4))
    assert made.ids.tolist() == whole[4]
    assert made["group"].tolist() == g.column("group")[whole[4]].tolist()
    other = leat.Loader(leat.group_prompts(g.prompts, "tokens"), batch_kv=60, shuffle=True, framework="numpy")
    with pytest.raises(leat.StateError):
        other.load_state_dict(first.state_dict())


def test_batches_of_prompts_need_groups_and_room_for_each() -> None:
    g = leat.group_prompts(dataset(PROMPTS), "tokens")
    with pytest.raises(IndexError, match="position 0 has a cost of 12, 10 of it for what it shares, more than the 11"):
        leat.Loader(g, batch_kv=11)
    with pytest.raises(TypeError, match="what leat.group_prompts has made"):
        leat.Loader(g[:9], batch_kv=100)
    with pytest.raises(ValueError, match="batch_kv makes batches by keys and values, and batch_cost"):
        leat.Loader(g, batch_kv=100, batch_cost=3)
    with pytest.raises(ValueError, match="batches of prompts are in order or shuffled"):
        leat.Loader(g, batch_kv=100, sampler=[1, 2])


def test_a_cache_saves_more_of_prompts_in_order() -> None:
    g = leat.group_prompts(dataset(PROMPTS), "tokens")
    small, large = g.simulate(40, block=1), g.simulate(10**6, block=1)
    assert small.as_they_came < 0.1
    assert small.grouped == small.sorted == pytest.approx(g.optimum)
    assert large.as_they_came == pytest.approx(g.optimum)
    assert g.simulate(0).grouped == 0
