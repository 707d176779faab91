"""Graphs of events (leat.temporal), beside plain lists of events."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_order_reference import draw_below, mix

import leat

N, V, K = 600, 23, 4
rng = np.random.default_rng(7)
SRC, DST = rng.integers(0, V, N), rng.integers(0, V, N)
T = np.sort(rng.integers(0, 250, N))  # some two or three events have the same time
DRAW = 0x74656D706F72616C


def events(**other: Any) -> leat.Dataset:
    return leat.from_arrays(**{"src": SRC, "dst": DST, "t": T, **other})


def recent(ids: Any, node: int, time: Any, k: int = K, t: Any = T) -> tuple[list[int], list[int]]:
    """The newest neighbours of a node strictly before a time, among these events; and the events."""
    found = [int(i) for i in ids if t[i] < time and node in (SRC[i], DST[i])][::-1][:k]
    return [int(DST[i] if SRC[i] == node else SRC[i]) for i in found], found


def check_neighbors(batch: Any, known: Any, before: str = "event") -> None:
    for row, e in enumerate(batch.ids):
        time = T[e] if before == "event" else T[batch.ids[0]]
        sides = [("src", SRC[e], ()), ("dst", DST[e], ())] + [("neg", n, (i,)) for i, n in enumerate(batch["neg"][row])]
        for side, node, at in sides:
            nodes, ids = recent(known, node, time)
            pad = [-1] * (K - len(nodes))
            assert batch[f"{side}.count"][row][at] == len(nodes)
            assert batch[f"{side}.nodes"][row][at].tolist() == nodes + pad
            assert batch[f"{side}.events"][row][at].tolist() == ids + pad
            assert batch[f"{side}.times"][row][at].tolist() == [int(T[i]) for i in ids] + [0] * len(pad)


def check_pending(batch: Any, together: Any) -> None:
    """`together`: the events of the global batch."""
    for row, e in enumerate(batch.ids):
        for side, node in (("src", SRC[e]), ("dst", DST[e])):
            mine = [i for i in together if node in (SRC[i], DST[i])]
            assert batch[f"{side}.pending"][row] == sum(i < e for i in mine)
            assert batch[f"{side}.last"][row] == (mine[-1] == e)


def batches(graph: leat.Dataset, size: int = 50, **options: Any) -> list[Any]:
    return list(leat.Loader(graph, size, framework="numpy", **options))


HOLES = np.flatnonzero(np.random.default_rng(3).random(N) < 0.6)


@pytest.mark.parametrize("ids", [np.arange(N), np.arange(200, 500), HOLES], ids=["all", "slice", "holes"])
@pytest.mark.parametrize("before", ["event", "batch"])
def test_neighbours_are_the_newest_strictly_before_and_ids_are_those_of_the_events(ids: Any, before: Any) -> None:
    graph = leat.temporal(events().select(ids), K, before, negatives=2)
    assert graph.ids.tolist() == ids.tolist()
    for batch in batches(graph, tail="uneven"):
        check_neighbors(batch, ids, before)
        check_pending(batch, batch.ids)


@pytest.mark.parametrize("part", [slice(100, 400), HOLES], ids=["slice", "holes"])
def test_a_view_of_a_graph_knows_the_past_of_all_events_and_its_batches_have_its_own(part: Any) -> None:
    graph = leat.temporal(events(), K)[part]
    for batch in batches(graph):
        check_neighbors(batch, range(N))
        check_pending(batch, batch.ids)


def test_events_of_one_time_do_not_see_each_other() -> None:
    same = leat.from_arrays(src=np.arange(6) % 2, dst=np.full(6, 2), t=np.array([1, 1, 1, 2, 2, 2.5]))
    (batch,) = batches(leat.temporal(same, 9, negatives=0), 6)
    assert batch["dst.count"].tolist() == [0, 0, 0, 3, 3, 5]
    assert batch["dst.events"][5, :5].tolist() == [4, 3, 2, 1, 0]
    assert batch["dst.times"].dtype == np.float64


def test_a_self_loop_is_one_event_of_its_node() -> None:
    loops = leat.from_arrays(src=np.array([5, 5, 5]), dst=np.array([5, 5, 1]), t=np.arange(3))
    (batch,) = batches(leat.temporal(loops, 3), 3)
    assert batch["src.count"].tolist() == [0, 1, 2]
    assert batch["src.nodes"][2].tolist() == [5, 5, -1]
    assert batch["src.pending"].tolist() == [0, 1, 2] and batch["src.last"].tolist() == [False, False, True]


def test_ranks_see_parts_of_one_global_batch() -> None:
    graph = leat.temporal(events(), K)
    whole = leat.Loader(graph, global_batch_size=70, framework="numpy")
    parts = [leat.Loader(graph, global_batch_size=70, framework="numpy", rank=r, world_size=3) for r in range(3)]
    for batch, *shares in zip(whole, *parts, strict=True):
        for name in batch:
            joined = np.concatenate([share[name][share.valid] for share in shares])
            assert joined.tolist() == batch[name].tolist(), name


def test_a_resumed_run_has_the_same_neighbours_negatives_and_pending_counts() -> None:
    graph = leat.temporal(events(), K, how="historical")
    loader = leat.Loader(graph, 50, framework="numpy", seed=3)
    reading = iter(loader)
    for _ in range(4):
        next(reading)
    state = loader.state_dict()
    rest = [{name: batch[name].copy() for name in batch} for batch in reading]
    again = leat.Loader(pickle.loads(pickle.dumps(graph)), 50, framework="numpy", seed=3)
    again.load_state_dict(state)
    for was, batch in zip(rest, again, strict=True):
        for name, values in was.items():
            assert batch[name].tolist() == values.tolist(), name


def test_after_another_batch_size_within_an_epoch_pending_counts_are_of_the_new_batches() -> None:
    loader = leat.Loader(leat.temporal(events(), K), 60, framework="numpy")
    reading = iter(loader)
    for _ in range(2):
        check_pending(batch := next(reading), batch.ids)
    loader.set_batch_size(37)
    sizes = []
    for batch in reading:
        check_pending(batch, batch.ids[batch.valid])
        sizes.append(len(batch.ids))
    assert sizes[0] == 37 and sum(sizes) == N - 120


def test_rows_of_a_step_made_apart_are_those_of_the_step() -> None:
    loader = leat.Loader(leat.temporal(events(), K), 60, framework="numpy")
    step = list(loader)[3]
    again = loader.batch_at(0, 3)
    for name in step:
        assert again[name].tolist() == step[name].tolist(), name


@pytest.mark.parametrize("uses", [2, 1], ids=["twice", "through an operator"])
def test_values_that_are_not_written_straight_into_the_batch_are_the_same(uses: int) -> None:
    chain = [leat.ops.ToDtype("float32")]
    outputs: Any = {f"o{i}": leat.Out("src.pending", [] if uses == 2 else chain) for i in range(uses)}
    outputs |= {"nodes": leat.Out("src.nodes", chain)}
    graph = leat.temporal(events(), K)
    for batch, plain in zip(batches(graph, outputs=outputs), batches(graph), strict=True):
        assert batch["o0"].tolist() == plain["src.pending"].tolist() == batch[f"o{uses - 1}"].tolist()
        assert batch["nodes"].tolist() == plain["src.nodes"].tolist()


def test_functions_of_the_user_get_the_same_values() -> None:
    outputs: Any = {"src.nodes": [leat.ops.Map(lambda n: n * 2)], "dst.pending": [leat.ops.Map(lambda n: n + 1)]}
    graph = leat.temporal(events(), K)
    for batch, plain in zip(batches(graph, outputs=outputs), batches(graph), strict=True):
        assert batch["src.nodes"].tolist() == (plain["src.nodes"] * 2).tolist()
        assert batch["dst.pending"].ravel().tolist() == (plain["dst.pending"] + 1).tolist()


def test_rows_made_elsewhere_are_those_of_the_step(tmp_path: Path) -> None:
    with leat.Writer(tmp_path / "events.leat", {"src": "int64", "dst": "int64", "t": "int64"}) as w:
        w.write_batch({"src": SRC, "dst": DST, "t": T})
    loader = leat.Loader(leat.temporal(leat.open(tmp_path / "events.leat"), K)[100:], 60, framework="numpy")
    step = loader.batch_at(0, 3)
    whole, part = loader.plan_rows(0, 3), loader.plan_rows(0, 3, rows=range(10, 30))
    for name in step:
        assert leat.make_rows(whole)[name].tolist() == step[name].tolist(), name
        assert leat.make_rows(part)[name].tolist() == step[name][10:30].tolist(), name


def test_a_zip_of_a_graph_has_no_batches_of_its_own_and_keeps_the_index() -> None:
    """Its samples are others than the events of the graph, so nothing could say what a batch hides."""
    graph = leat.temporal(events(), K)
    both = leat.zip(g=graph, x=leat.from_arrays(x=np.arange(N)))
    assert both.index.events == N and both[5]["g.src.pending"] == 0
    for other in (both, leat.zip(a=graph[100:120]), leat.zip(a=graph[::-1]), leat.zip(a=graph, b=graph)):
        with pytest.raises(ValueError, match="join and zip their events"):
            leat.Loader(other, 10)


def test_pending_counts_of_a_hub_in_a_view_with_holes_are_those_of_the_view() -> None:
    n = 4000
    star = leat.from_arrays(src=np.zeros(n, int), dst=np.arange(n) % 7 + 1, t=np.arange(n))
    every = leat.temporal(star, K).select(np.arange(0, n, 97))
    for batch in batches(every, 10, tail="uneven"):
        assert batch["src.pending"].tolist() == list(range(len(batch.ids)))
        sides = [[i for i in batch.ids if i % 7 == e % 7] for e in batch.ids]
        assert batch["dst.pending"].tolist() == [s.index(e) for s, e in zip(sides, batch.ids, strict=True)]
        assert batch["dst.last"].tolist() == [bool(s[-1] == e) for s, e in zip(sides, batch.ids, strict=True)]


# ---- negatives ------------------------------------------------------------------------------------


def destinations_before(e: int) -> list[int]:
    """Distinct destinations of an event's source strictly before it, in the order in which they first came."""
    return list(dict.fromkeys(int(DST[i]) for i in range(N) if SRC[i] == SRC[e] and T[i] < T[e]))


def drawn(e: int, key: int, number: int, how: str) -> int:
    """A negative, as docs/events.md says."""
    own = mix(key, DRAW)
    choices = [d for d in destinations_before(e) if d != DST[e]] if how == "historical" else []
    choices = choices or sorted(set(DST.tolist()))
    return choices[draw_below(own, number, len(choices))]


@pytest.mark.parametrize("how", ["random", "historical"])
@pytest.mark.parametrize("key", ["row", "id"])
def test_negatives_are_drawn_as_the_page_on_events_says(how: Any, key: Any) -> None:
    graph = leat.temporal(events(), 0, negatives=3, how=how, key=key)
    for batch in batches(graph, 60, seed=5):
        keys = [mix(DRAW, int(e)) for e in batch.ids] if key == "id" else [int(k) for k in batch.row_keys]
        for row, e in enumerate(batch.ids):
            assert batch["neg"][row].tolist() == [drawn(int(e), keys[row], i, how) for i in range(3)]


def test_negatives_by_row_are_others_in_each_epoch_and_those_by_id_are_not() -> None:
    by_row = leat.Loader(leat.temporal(events()), N, framework="numpy")
    assert next(iter(by_row))["neg"].tolist() != next(iter(by_row))["neg"].tolist()
    by_id = leat.temporal(events(), key="id")
    (one,), (other,) = batches(by_id, N, seed=1), batches(by_id, N, seed=2)
    assert one["neg"].tolist() == other["neg"].tolist() == [by_id[i]["neg"].tolist() for i in range(N)]


def test_given_negatives_stand_beside_their_events() -> None:
    given = np.random.default_rng(1).integers(0, V, (N, 5))
    graph = leat.temporal(events(), K, negatives=given)
    for batch in batches(graph, 70):
        assert batch["neg"].tolist() == given[batch.ids].tolist()
        check_neighbors(batch, range(N))
    kept = given.copy()
    given[:] = 7
    assert leat.Loader(graph, N, framework="numpy").batch_at(0, 0)["neg"].tolist() == kept.tolist()
    with pytest.raises(ValueError, match=rf"integers of shape \({N}, m\)"):
        leat.temporal(events(), negatives=given[1:])


# ---- the index ------------------------------------------------------------------------------------


def test_the_index_answers_for_any_node_at_any_time() -> None:
    index = leat.temporal(events()).index
    nodes, times = np.array([3, 3, 22, 10**12, -1]), np.array([0, 10**6, 100, 5, 5])
    found, when, ids, count = index.recent(nodes, times, K)
    for i, (node, time) in enumerate(zip(nodes, times, strict=True)):
        others, which = recent(range(N), node, time)
        assert found[i, : count[i]].tolist() == others and ids[i, : count[i]].tolist() == which
        assert when[i, : count[i]].tolist() == [T[e] for e in which]
    assert (index.events, index.nodes) == (N, V)
    with pytest.raises(TypeError, match="times are int64 here, not float64"):
        index.recent([1], [1.5], 1)
    with pytest.raises(ValueError, match="a time for each node, or one for all"):
        index.recent([1, 2], [1], 1)
    second = index.recent(found[:, :2], 100, 3)
    assert [part.shape for part in second] == [(5, 2, 3), (5, 2, 3), (5, 2, 3), (5, 2)]
    assert second[0][1, 1].tolist() == index.recent([found[1, 1]], [100], 3)[0][0].tolist()
    with pytest.raises(ValueError, match="9223372036854775813 is beyond it"):
        index.recent([1], np.array([(1 << 63) + 5], np.uint64), 1)


def test_nodes_whose_numbers_are_few_of_many_take_no_memory_for_the_others() -> None:
    far = 2**31 - 1
    graph = leat.temporal(leat.from_arrays(src=np.array([far, 7]), dst=np.array([7, far - 9]), t=np.arange(2)), 2)
    assert graph.index.nodes == 3
    (batch,) = batches(graph, 2)
    assert batch["src.nodes"].tolist() == [[-1, -1], [far, -1]]
    assert set(batch["neg"].ravel().tolist()) <= {7, far - 9}


def test_a_kept_index_is_taken_for_the_same_events_and_made_anew_for_others(tmp_path: Path) -> None:
    where = tmp_path / "kept"
    for how in ("historical", "random"):
        first = leat.temporal(events(), K, how=how, index_dir=where)
        kept = {file: file.stat().st_mtime_ns for file in where.iterdir()}
        again = leat.temporal(events(), K, how=how, index_dir=where)
        assert {file: file.stat().st_mtime_ns for file in where.iterdir()} == kept
        for a, b in zip(batches(first), batches(again), strict=True):
            assert all(a[name].tolist() == b[name].tolist() for name in a)
    assert len(kept) == 2
    leat.temporal(events(t=T + 1), K, index_dir=where)
    with pytest.raises(FileExistsError):
        leat.temporal(events(), K, index_dir=next(where.iterdir()))
    assert len(list(where.iterdir())) == 3


@pytest.mark.parametrize("at", [0, 20, 100, 1000, -1])
def test_a_damaged_index_is_made_anew(tmp_path: Path, at: int) -> None:
    good = batches(leat.temporal(events(), K, index_dir=tmp_path))
    (file,) = tmp_path.iterdir()
    damaged = bytearray(file.read_bytes())
    damaged[at] ^= 0xFF
    file.write_bytes(bytes(damaged) if at != 1000 else bytes(damaged[:1000]))
    for a, b in zip(batches(leat.temporal(events(), K, index_dir=tmp_path)), good, strict=True):
        assert all(a[name].tolist() == b[name].tolist() for name in a)


def test_fill_names_the_row_of_zeros_of_features_that_are_gathered() -> None:
    features = np.concatenate([np.arange(V, dtype=np.float32)[:, None] + 1, np.zeros((1, 1), np.float32)])
    rows = leat.device.rows(features, device="cpu")
    graph = leat.temporal(events(), K, fill=V)
    for batch in batches(graph, stores={"src.x": (rows, "src.nodes")}):
        assert batch["src.x"].shape == (50, K, 1)
        assert batch["src.x"][..., 0].tolist() == features[batch["src.nodes"], 0].tolist()
    both = leat.temporal(events(), K, fill=(V, N))
    assert both[0]["src.nodes"].tolist() == [V] * K and both[0]["src.events"].tolist() == [N] * K
    with pytest.raises(leat.RangeError, match="store 'src.x', by the numbers in 'src.nodes': id -1"):
        batches(leat.temporal(events(), K), stores={"src.x": (rows, "src.nodes")})[0]["src.x"]


# ---- what is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        {"shuffle": True},
        {"shuffle": leat.Blocks(16)},
        {"in_order": False},
        {"sampler": [1, 2]},
        {"sampler": leat.Weighted(np.ones(N), 10)},
        {"on_error": "substitute"},
        {"feedback": leat.TopFraction(0.5)},
    ],
    ids=lambda o: next(iter(o)),
)
def test_another_order_than_that_of_time_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"graph of events is read in the order of time"):
        leat.Loader(leat.temporal(events()), 10, **options)


def test_views_in_another_order_mixtures_and_chosen_rows_are_refused() -> None:
    graph = leat.temporal(events())
    message = "graph of events is read in the order of time"
    with pytest.raises(ValueError, match=message):
        leat.Loader(graph[::-1], 10)
    with pytest.raises(ValueError, match=message):
        leat.Loader(leat.Mix({"a": (graph, 0.5), "b": (graph, 0.5)}), 10)
    with pytest.raises(ValueError, match=message):
        leat.Loader(leat.concat(graph, graph), 10)
    loader = leat.Loader(graph, 10)
    with pytest.raises(ValueError, match=message):
        loader.set_order([3, 2, 1])
    with pytest.raises(ValueError, match=message):
        loader.select([3, 2, 1])


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"t": np.where(np.arange(N) == 77, -5, T)}, leat.CorruptError, "event 77 is at time -5, before"),
        ({"t": np.where(np.arange(N) == 9, np.nan, T)}, leat.CorruptError, "event 9: its time is nan"),
        ({"t": T.astype(np.float32)}, TypeError, "float32, in which moments up to 128 s"),
        ({"src": np.where(np.arange(N) == 4, -1, SRC)}, leat.CorruptError, "event 4: its src is -1: nodes are numbers"),
        ({"dst": np.where(np.arange(N) == 4, 2**31, DST)}, leat.CorruptError, "event 4: its dst is 2147483648"),
        ({"src": SRC.astype(np.float64)}, TypeError, '"src" is no whole number'),
        ({"t": T.astype(np.uint64) + (1 << 63)}, leat.CorruptError, "event 0: its time is beyond int64"),
    ],
    ids=["falls", "nan", "float32", "negative", "too large", "no number", "uint64"],
)
def test_bad_events_are_named(change: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        leat.temporal(events(**change))


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "uint64"])
def test_numbers_of_any_width_are_the_same_events(dtype: str) -> None:
    t = T % 100 if dtype == "int8" else T
    order = np.argsort(t, kind="stable")
    wide = {"src": SRC[order], "dst": DST[order], "t": t[order]}
    narrow = {name: values.astype(dtype) for name, values in wide.items()}
    found, same = (leat.temporal(leat.from_arrays(**values), K) for values in (narrow, wide))
    for side in ("src.nodes", "src.times", "dst.events", "neg"):
        assert found.column(side).tolist() == same.column(side).tolist()


def test_a_missing_field_and_wrong_arguments_are_named() -> None:
    with pytest.raises(KeyError, match='no field "t"'):
        leat.temporal(leat.from_arrays(src=SRC, dst=DST))
    for wrong in ({"neighbors": -1}, {"before": "now"}, {"how": "hard"}, {"key": "seed"}, {"negatives": -1}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            leat.temporal(events(), **wrong)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="a field 'neg', as the graph would"):
        leat.temporal(events(neg=DST))
    with pytest.raises(ValueError, match="a graph of events already"):
        leat.temporal(leat.temporal(events()))
    with pytest.raises(ValueError, match="negatives from -7 to -7: nodes are numbers"):
        leat.temporal(events(), negatives=np.full((N, 1), -7))
    with pytest.raises(ValueError, match=r"leat\.temporal\(parts\[0\]\)"):
        leat.temporal(events()).split_time([0.7, 0.3], new_nodes=0.1)


def test_a_batch_that_memory_can_never_hold_is_an_error_and_no_wait() -> None:
    graph = leat.temporal(events(), neighbors=(1 << 20) - 1)
    with pytest.raises(leat.BudgetError, match="batch_size"):
        leat.Loader(graph, 1 << 16)


def test_a_graph_without_events_is_a_data_set_without_samples() -> None:
    none = leat.from_arrays(src=SRC[:0], dst=DST[:0], t=T[:0])
    graph = leat.temporal(none, how="historical")
    assert len(graph) == 0 and batches(graph) == []
    assert graph.index.recent([1], [1], 2)[3].tolist() == [0]


def test_events_in_another_order_are_numbered_as_they_stand() -> None:
    order = np.random.default_rng(2).permutation(N)
    shuffled = leat.from_arrays(src=SRC[order], dst=DST[order], t=T[order])
    with pytest.raises(leat.CorruptError, match="argsort"):
        leat.temporal(shuffled)
    graph = leat.temporal(shuffled.select(np.argsort(T[order], kind="stable")), K)
    assert graph.ids.tolist() == list(range(N))
    assert graph.column("t").tolist() == T.tolist()
    assert (graph.column("src.events") < np.arange(N)[:, None]).all()


def test_other_readers_than_loaders_see_each_event_by_itself() -> None:
    graph = leat.temporal(events(x=np.arange(N, dtype=np.float32)), K)
    sample = graph[300]
    assert sample["x"] == 300 and sample["src.pending"] == 0 and sample["src.last"] is True
    assert sample["src.nodes"].tolist()[: sample["src.count"]] == recent(range(N), SRC[300], T[300])[0]
    assert len(graph.where("x < 10")) == 10


@pytest.mark.shard("whole")
def test_an_index_that_is_cut_while_it_is_mapped_is_an_error(tmp_path: Path) -> None:
    """Over 64 MiB an index is mapped: it takes two million events."""
    n = 2_000_000
    many = leat.from_arrays(src=np.arange(n) % 1000, dst=np.arange(n) % 777, t=np.arange(n))
    leat.temporal(many, K, index_dir=tmp_path)
    graph = leat.temporal(many, K, index_dir=tmp_path)
    (file,) = tmp_path.iterdir()
    with file.open("r+b") as f:
        f.truncate(4096)
    with pytest.raises(OSError, match=file.name):
        graph.index.recent([5], [n], K)
    with pytest.raises(OSError, match=file.name):
        next(iter(leat.Loader(graph[-100:], 10, framework="numpy")))
