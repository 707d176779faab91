"""Rows that are groups of samples, of which each epoch draws one (leat.one_of)."""

from __future__ import annotations

import itertools
import json
import pickle
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_order_reference import draw_below, draw_unit, mix, permute

import leat

N = 200
CLUSTERS = np.random.default_rng(4).integers(0, 37, N)


@pytest.fixture(scope="module")
def ds(tmp_path_factory: pytest.TempPathFactory) -> leat.Dataset:
    path = tmp_path_factory.mktemp("one_of") / "samples.leat"
    fields = {"x": "int64", "cluster": "int32", "family": "str", "w": "float32", "s": leat.field("uint8", (None,))}
    with leat.Writer(path, fields) as w:
        for i, c in enumerate(CLUSTERS):
            w.add(x=i, cluster=int(c), family=f"PF{c}", w=float(i % 3), s=np.arange(i, dtype=np.uint8))
    return leat.open(path)


def groups_of(values: Any) -> list[list[int]]:
    found: dict[Any, list[int]] = {}
    for i, value in enumerate(values):
        found.setdefault(value, []).append(i)
    return list(found.values())


GROUPS = groups_of(CLUSTERS.tolist())
MEMBER, SUBSTITUTE, ORDER = 2**63 + 6, 2**63 + 2, 2**63 + 1


def drawn(group: list[int], row_key: int, weights: Any = None, i: int = 0) -> int:
    """The member of a row, as docs/order.md says."""
    key = mix(row_key, MEMBER)
    if weights is None:
        return group[draw_below(key, i, len(group))]
    sums = np.cumsum([float(weights[m]) for m in group])
    return group[int(np.searchsorted(sums, draw_unit(key, i) * sums[-1], "right"))]


def epoch(loader: leat.Loader) -> list[int]:
    return [int(i) for batch in loader for i in batch.ids[batch.valid]]


@pytest.mark.parametrize("weights", [None, "w"])
@pytest.mark.parametrize("shuffle", [False, True])
def test_a_row_draws_the_member_that_the_page_on_order_says(ds: leat.Dataset, weights: Any, shuffle: bool) -> None:
    w = np.arange(N) % 3 if weights else None
    groups = [g for g in ([m for m in g if w is None or w[m]] for g in GROUPS) if g]
    rows = leat.one_of(ds, "cluster", weights)
    assert [rows.members(i).tolist() for i in range(len(rows))] == groups
    loader = leat.Loader(rows, 8, shuffle=shuffle, seed=11, epochs=3)
    for e in range(3):
        order = [permute(len(groups), mix(mix(mix(11, ORDER), 0), e))(i) for i in range(len(groups))]
        order = order if shuffle else list(range(len(groups)))
        want = [drawn(groups[g], mix(mix(11, e), row), w) for row, g in enumerate(order)]
        assert epoch(loader) == want


def test_every_group_comes_once_in_an_epoch(ds: leat.Dataset) -> None:
    loader = leat.Loader(leat.one_of(ds, "cluster"), 8, shuffle=leat.Blocks(4), epochs=4)
    epochs = [epoch(loader) for _ in range(4)]
    for ids in epochs:
        assert sorted(CLUSTERS[ids]) == sorted(set(CLUSTERS.tolist()))
    assert len(set(map(tuple, epochs))) == 4


def joined(ranks: list[list[list[int]]]) -> list[int]:
    return [i for step in itertools.zip_longest(*ranks, fillvalue=[]) for ids in step for i in ids]


def chi_square(counts: Any, shares: Any) -> float:
    expected = np.asarray(shares) / np.sum(shares) * np.sum(counts)
    return float((((np.asarray(counts) - expected) ** 2) / expected).sum())


@pytest.mark.parametrize("weights", [None, [1.0, 2.0, 3.0, 4.0, 10.0, 0.5]])
def test_members_are_drawn_in_their_shares(weights: Any) -> None:
    ds = leat.from_arrays(x=np.arange(6 * 500))
    by = np.arange(3000) // 6
    rows = leat.one_of(ds, by, None if weights is None else np.tile(weights, 500))
    loader = leat.Loader(rows, 500, shuffle=True, seed=2, epochs=10)
    counts = Counter(i % 6 for _ in range(10) for i in epoch(loader))
    assert chi_square([counts[i] for i in range(6)], weights or [1] * 6) < 20.5  # 0.1% at 5 degrees of freedom


@pytest.mark.parametrize("by", ["family", "texts", "numbers", "ragged", "lists", "tensor"])
def test_groups_may_be_said_in_any_form(ds: leat.Dataset, by: str) -> None:
    import torch

    given: Any = {
        "family": "family",
        "texts": [f"c{c}" for c in CLUSTERS],
        "numbers": CLUSTERS.astype(np.uint16),
        "ragged": leat.Ragged(np.concatenate(GROUPS), np.cumsum([0, *map(len, GROUPS)])),
        "lists": GROUPS,
        "tensor": torch.from_numpy(CLUSTERS),
    }[by]
    rows = leat.one_of(ds, given)
    assert [rows.members(i).tolist() for i in range(len(rows))] == GROUPS
    assert epoch(leat.Loader(rows, 8, seed=3)) == epoch(leat.Loader(leat.one_of(ds, "cluster"), 8, seed=3))


def test_lists_may_overlap_leave_samples_out_and_be_empty(ds: leat.Dataset) -> None:
    rows = leat.one_of(ds, [[5, 6], [], [6, -1, 6], np.empty(0, np.int64)])
    assert [rows.members(i).tolist() for i in range(len(rows))] == [[5, 6], [6, N - 1, 6]]
    loader = leat.Loader(rows, 2, epochs=600)
    pairs = Counter(tuple(epoch(loader)) for _ in range(600))
    assert set(pairs) == {(5, 6), (6, 6), (5, N - 1), (6, N - 1)}
    assert 350 < pairs[5, 6] + pairs[6, 6] < 450
    assert len(leat.one_of(ds, [[], []])) == 0 and len(leat.one_of(ds[:0], "cluster")) == 0
    assert epoch(leat.Loader(leat.one_of(ds, [[]]), 2)) == []


@pytest.mark.parametrize("world", [2, 3])
def test_ranks_share_an_epoch_and_a_state_goes_on_on_other_ranks(ds: leat.Dataset, world: int) -> None:
    rows = leat.one_of(ds, "cluster", weights=np.arange(N) + 1.0)
    options: dict[str, Any] = {"shuffle": True, "seed": 7, "tail": "uneven"}
    whole = leat.Loader(rows, global_batch_size=6, epochs=2, **options)
    want = [epoch(whole) for _ in range(2)]
    ranks = [
        leat.Loader(rows, global_batch_size=6, rank=r, world_size=world, epochs=2, **options) for r in range(world)
    ]
    for e in range(2):
        assert joined([[b.ids.tolist() for b in loader] for loader in ranks]) == want[e]
    loader = leat.Loader(rows, global_batch_size=6, **options)
    reading = iter(loader)
    first = [i for _ in range(3) for i in next(reading).ids.tolist()]
    state = json.loads(json.dumps(loader.state_dict()))
    later = [leat.Loader(rows, global_batch_size=6, rank=r, world_size=world, **options) for r in range(world)]
    for one in later:
        one.load_state_dict(state)
    assert first + joined([[b.ids.tolist() for b in one] for one in later]) == want[0]


def test_any_batch_is_computed_again(ds: leat.Dataset) -> None:
    rows = leat.one_of(ds, "cluster")
    loader = leat.Loader(rows, 8, shuffle=True, seed=5)
    want = [b.ids.tolist() for b in loader]
    assert [loader.batch_at(0, k).ids.tolist() for k in range(len(want))] == want
    assert [loader.plan(0, k).tolist() for k in range(len(want))] == want
    made = leat.make_rows(loader.plan_rows(0, 2))
    assert made.ids.tolist() == want[2] and made["x"].tolist() == want[2]
    assert made["cluster"].tolist() == CLUSTERS[want[2]].tolist()


def test_rows_of_a_mixture_draw_members(ds: leat.Dataset) -> None:
    alike = leat.one_of(ds, "cluster")
    mixed = leat.Mix({"a": (alike, 0.5), "b": (ds, 0.5)}, exhausted="stop")
    loader = leat.Loader(mixed, 8, seed=9, tail="uneven", framework="numpy")
    found = [(int(d), int(i), int(k)) for b in loader for d, i, k in zip(b.domains, b.ids, b.row_keys, strict=True)]
    keys = [k % 2**64 for d, _, k in found if d == 0]
    assert [i for d, i, _ in found if d == 0] == [drawn(g, k) for g, k in zip(GROUPS, keys, strict=False)]
    with pytest.raises(ValueError, match="not known before"):
        leat.Loader(leat.Mix({"a": (alike, 0.5), "b": (ds, 0.5)}, unit="tokens", tokens_field="s"), 8)


def test_other_groups_are_other_plans_and_states(ds: leat.Dataset) -> None:
    kinds = [
        leat.one_of(ds, "cluster"),
        leat.one_of(ds, "cluster", np.arange(N) + 1.0),
        leat.one_of(ds, GROUPS[::-1]),
        ds,
    ]
    loaders = [leat.Loader(k, 8, seed=1) for k in kinds]
    assert len({k.fingerprint for k in kinds}) == 4
    assert len({loader.stats()["plan_hash"] for loader in loaders}) == 4
    state = loaders[0].state_dict()
    for other in loaders[1:]:
        with pytest.raises(leat.StateError):
            other.load_state_dict(state)


def test_broken_members_are_substituted_by_those_of_other_groups(ds: leat.Dataset) -> None:
    class Broken:
        fields = {"x": leat.field("int64", ())}

        def __len__(self) -> int:
            return 40

        def read(self, positions: Any) -> dict[str, Any]:
            if any(int(p) % 10 == 3 for p in positions):
                raise ValueError("broken")
            return {"x": np.asarray(positions, np.int64)}

    groups = [list(range(10 * g, 10 * g + 10)) for g in range(4)]
    loader = leat.Loader(leat.one_of(leat.from_source(Broken()), groups), 4, seed=1, on_error="substitute", epochs=30)
    seen = 0
    for e in range(30):
        for row, x in enumerate(next(iter(list(loader)))["x"].tolist()):
            key = mix(mix(1, e), row)
            want = drawn(groups[row], key)
            attempt, other = 0, mix(key, SUBSTITUTE)
            while want % 10 == 3:
                g = draw_below(other, attempt, 3)
                want = drawn(groups[g + (g >= row)], other, i=attempt)
                attempt, seen = attempt + 1, seen + 1
            assert x == want
    assert seen


def test_views_choose_groups(ds: leat.Dataset) -> None:
    rows = leat.one_of(ds, "cluster", np.arange(N) + 1.0)
    some = rows.select([4, -1])
    assert [some.members(i).tolist() for i in range(2)] == [GROUPS[4], GROUPS[-1]]
    assert [len(rows[2:9]), len(rows[::-1][:3])] == [7, 3]
    assert rows[::-1].members(0).tolist() == GROUPS[-1]
    a, b = rows.split([0.8, 0.2], seed=3)
    assert isinstance(a, leat.Dataset) and len(a) + len(b) == len(GROUPS)
    in_a, in_b = ({int(c) for i in range(len(p)) for c in CLUSTERS[p.members(i)]} for p in (a, b))
    assert not in_a & in_b
    assert rows[3]["x"] == GROUPS[3][0] and rows.ids.tolist() == [g[0] for g in GROUPS]
    assert rows.column("cluster").tolist() == [int(CLUSTERS[g[0]]) for g in GROUPS]
    again = pickle.loads(pickle.dumps(some))
    assert again.fingerprint == some.fingerprint and epoch(leat.Loader(again, 2)) == epoch(leat.Loader(some, 2))
    view = leat.one_of(ds.where("x >= 100"), "cluster")
    assert sorted(int(CLUSTERS[i]) for i in epoch(leat.Loader(view, 4))) == sorted(set(CLUSTERS[100:].tolist()))
    assert all(i >= 100 for i in epoch(leat.Loader(view, 4)))


def test_a_list_of_positions_and_weights_of_an_order_are_of_groups(ds: leat.Dataset) -> None:
    rows = leat.one_of(ds, "cluster")
    ids = epoch(leat.Loader(rows, 3, sampler=[3, 3, 30], tail="uneven"))
    assert [int(CLUSTERS[i]) for i in ids] == [int(CLUSTERS[GROUPS[g][0]]) for g in (3, 3, 30)]
    weights = np.zeros(len(rows))
    weights[5] = 1
    ids = epoch(leat.Loader(rows, 10, sampler=leat.Weighted(weights, 40)))
    assert set(ids) <= set(GROUPS[5]) and len(set(ids)) > 1


def test_windows_of_a_member_and_stores_by_id_go_along(ds: leat.Dataset, tmp_path: Path) -> None:
    w = leat.windows(ds, "s", 10)
    rows = leat.one_of(w, np.arange(len(w)) % 9)
    assert sorted(i % 9 for i in epoch(leat.Loader(rows, 3))) == list(range(9))
    store = leat.Store(tmp_path / "s", {"v": leat.field("float32", ())})
    store[np.arange(N)] = np.arange(N, dtype=np.float32)
    store.flush()
    for batch in leat.Loader(leat.one_of(ds, "cluster"), 8, stores={"t": store}, framework="numpy"):
        assert batch["t"].tolist() == batch.ids.tolist()


@pytest.mark.parametrize("kind", ["many", "one"])
def test_many_small_groups_and_one_large_one(kind: str) -> None:
    n = 300_000
    ds = leat.from_arrays(x=np.arange(n))
    rows = leat.one_of(ds, np.arange(n) // 3 if kind == "many" else np.zeros(n, np.int64))
    ids = epoch(leat.Loader(rows, 1000, shuffle=True, seed=1))
    assert sorted(i // 3 for i in ids) == list(range(n // 3)) if kind == "many" else len(ids) == 1


@pytest.mark.parametrize(
    "call,error,text",
    [
        (lambda d: leat.one_of(d, "nothing"), KeyError, 'no field "nothing"'),
        (lambda d: leat.one_of(d, "w"), TypeError, "integers or texts"),
        (lambda d: leat.one_of(d, "s"), TypeError, "integers or texts"),
        (lambda d: leat.one_of(d, [1, 2]), ValueError, "each of the 200 samples"),
        (lambda d: leat.one_of(d, np.zeros(N)), TypeError, "integers or texts"),
        (lambda d: leat.one_of(d, [[1], [N]]), IndexError, "200 is out of range"),
        (lambda d: leat.one_of(d, "cluster", [1.0]), ValueError, "a number for each of the 200"),
        (lambda d: leat.one_of(d, "cluster", -np.ones(N)), ValueError, "none is below 0"),
        (lambda d: leat.one_of(d, "cluster", np.full(N, np.nan)), ValueError, "finite"),
        (lambda d: leat.one_of(d, "cluster", np.zeros(N)), ValueError, "0 for every member"),
        (lambda d: leat.one_of([d], "cluster"), TypeError, "takes a data set of samples"),
        (lambda d: leat.one_of(leat.one_of(d, "cluster"), "cluster"), TypeError, "drawn by a loader"),
        (lambda d: leat.concat(d, leat.one_of(d, "cluster")), TypeError, "drawn by a loader"),
        (lambda d: leat.one_of(d, "cluster").where("x = 1"), TypeError, "drawn by a loader"),
        (lambda d: leat.windows(leat.one_of(d, "cluster"), "s", 4), TypeError, "drawn by a loader"),
        (lambda d: leat.pack_rows(leat.one_of(d, "cluster"), "s"), TypeError, "drawn by a loader"),
        (lambda d: leat.Mix.by(leat.one_of(d, "cluster"), "family", {...: 1}), TypeError, "drawn by a loader"),
        (lambda d: leat.Loader(leat.one_of(d, "cluster"), batch_tokens=99), TypeError, "lengths or costs of rows"),
        (lambda d: leat.Loader(leat.one_of(d, "x"), 8, feedback=leat.TopFraction(0.5)), ValueError, "or of groups"),
    ],
)
def test_what_goes_with_no_groups_is_refused(ds: leat.Dataset, call: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        call(ds)
