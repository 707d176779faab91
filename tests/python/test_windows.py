"""Windows over the records of a data set (leat.windows)."""

from __future__ import annotations

import itertools
import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from http_support import Server

import leat

TAILS = ("short", "cover", "drop")


def reference(n: int, length: int, stride: int, tail: str) -> list[tuple[int, int]]:
    """Begin and count of the windows of a record of n elements, element by element."""
    found: list[tuple[int, int]] = []
    begin = 0
    while begin < n and not (found and sum(found[-1]) >= n):
        found.append((begin, min(length, n - begin)))
        begin += stride
    if tail == "drop":
        return [w for w in found if w[1] == length]
    if tail == "cover" and found and (found[-1][1] < length or sum(found[-1]) < n):
        if found[-1][1] < length:
            found.pop()
        found.append((max(n - length, 0), min(length, n)))
    return found


def values(ragged: list[np.ndarray[Any, Any]]) -> leat.Ragged:
    offsets = np.cumsum([0, *map(len, ragged)])
    return leat.Ragged(np.concatenate([*ragged, np.empty(0, ragged[0].dtype)]), offsets)


def records(dtype: str = "uint8", most: int = 40) -> list[np.ndarray[Any, Any]]:
    return [np.arange(n * 7, n * 8).astype(dtype) for n in range(most + 1)]


def in_arrays(parts: list[np.ndarray[Any, Any]]) -> leat.Dataset:
    names = [f"r{i}".encode() for i in range(len(parts))]
    return leat.from_arrays(
        {"s": leat.field(str(parts[0].dtype), (None,)), "name": "str"},
        s=values(parts),
        name=values([np.frombuffer(n, np.uint8) for n in names]),
    )


def in_leat(path: Path, parts: list[np.ndarray[Any, Any]]) -> leat.Dataset:
    with leat.Writer(path, {"s": leat.field(str(parts[0].dtype), (None,)), "name": "str"}) as w:
        for i, part in enumerate(parts):
            w.add(s=part, name=f"r{i}")
    return leat.open(path)


def in_lines(path: Path, parts: list[np.ndarray[Any, Any]]) -> leat.Dataset:
    path.write_text("".join(json.dumps({"s": p.tolist(), "name": f"r{i}"}) + "\n" for i, p in enumerate(parts)))
    return leat.open(path)


def in_megatron(path: Path, parts: list[np.ndarray[Any, Any]]) -> leat.Dataset:
    ds = leat.from_arrays(tokens=values(parts))
    leat.write_megatron(ds, path / "m")
    return leat.open(path / "m.idx")


def expected(
    parts: list[np.ndarray[Any, Any]], length: int, stride: int, tail: str
) -> list[tuple[int, int, list[int]]]:
    return [
        (i, b, p[b : b + n].tolist()) for i, p in enumerate(parts) for b, n in reference(len(p), length, stride, tail)
    ]


def test_windows_are_those_of_the_rule_for_all_lengths_strides_and_tails() -> None:
    parts = records()
    ds = in_arrays(parts)
    for length, stride, tail in itertools.product((1, 2, 3, 5, 8, 39, 40, 41), (1, 2, 3, 5, 7, 8, 40, 50), TAILS):
        w = leat.windows(ds, "s", length, stride, tail)
        want = expected(parts, length, stride, tail)
        assert len(w) == len(want), (length, stride, tail)
        assert w.column("begin").tolist() == [b for _, b, _ in want]
        batch = next(iter(leat.Loader(w, len(want), outputs={"s": []}))) if want else None
        if batch is not None:
            got = batch["s"].tolist() if tail == "drop" else [v.tolist() for v in batch["s"].unbind()]
            assert got == [v for _, _, v in want], (length, stride, tail)


@pytest.mark.parametrize("kind", ["arrays", "leat", "lines", "megatron"])
@pytest.mark.parametrize("tail", TAILS)
def test_every_kind_of_records_gives_the_same_windows(tmp_path: Path, kind: str, tail: str) -> None:
    parts = records("int64" if kind == "lines" else "int32")
    parts = parts[::-1][:-1] if kind == "megatron" else parts[::-1]
    make = {"arrays": in_arrays, "leat": lambda p: in_leat(tmp_path / "a.leat", p)}
    make |= {"lines": lambda p: in_lines(tmp_path / "a.jsonl", p), "megatron": lambda p: in_megatron(tmp_path, p)}
    ds = make[kind](parts)
    name = "tokens" if kind == "megatron" else "s"
    for length, stride in ((5, 3), (4, 9), (40, 1)):
        w = leat.windows(ds, name, length, stride, tail)
        want = expected(parts, length, stride, tail)
        got = [(s["begin"], s[name].tolist()) for s in w]
        assert got == [(b, v) for _, b, v in want]
        if kind != "megatron":
            assert [s["name"] for s in w] == [f"r{i}" for i, _, _ in want]
        ids = []
        for batch in leat.Loader(w, 7, shuffle=True, seed=3):
            rows = batch[name].unbind() if tail != "drop" else batch[name]
            assert [r.tolist() for r in rows] == [want[i][2] for i in batch.ids]
            assert batch["begin"].tolist() == [want[i][1] for i in batch.ids]
            ids += batch.ids.tolist()
        assert sorted(ids) == list(range(len(want)))


def batches(loader: leat.Loader) -> list[tuple[list[int], list[list[int]]]]:
    return [(b.ids.tolist(), [v.tolist() for v in b["s"].unbind()]) for b in loader]


def joined(parts: list[list[tuple[list[int], Any]]]) -> list[int]:
    return [i for step in itertools.zip_longest(*parts, fillvalue=([], [])) for ids, _ in step for i in ids]


@pytest.fixture(scope="module")
def long(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[np.ndarray[Any, Any]]]:
    """Records whose pages have checksums."""
    path = tmp_path_factory.mktemp("windows") / "long.leat"
    rng = np.random.default_rng(7)
    parts = [rng.integers(0, 255, n).astype(np.uint8) for n in (700_001, 0, 30, 400_000)]
    in_leat(path, parts)
    return path, parts


@pytest.mark.parametrize("recheck", ["always", "first", "never"])
def test_windows_of_long_values_have_the_right_bytes(long: Any, recheck: str) -> None:
    path, parts = long
    w = leat.windows(leat.open(path, recheck=recheck), "s", 3001, 2503, "cover")
    want = expected(parts, 3001, 2503, "cover")
    for threads in (1, 3):
        got: dict[int, list[int]] = {}
        for ids, rows in batches(leat.Loader(w, 16, shuffle=True, seed=1, num_threads=threads, framework="numpy")):
            got |= dict(zip(ids, rows, strict=True))
        assert [got[i] for i in range(len(w))] == [v for _, _, v in want]
    assert w[len(w) - 1]["s"].tolist() == want[-1][2]


def test_a_window_is_read_without_the_rest_of_its_record(long: Any) -> None:
    path, _ = long
    w = leat.windows(leat.open(path), "s", 1000, tail="drop")
    with leat.Loader(w, 1, outputs={"s": []}, epochs=1) as loader:
        n = sum(b.size for b in loader)
        assert loader.stats()["fetch"]["bytes"] <= n * 2 * 65536


def test_windows_of_a_file_on_a_server_are_read_there(long: Any) -> None:
    path, parts = long
    with Server({"d.leat": path.read_bytes()}) as server:
        w = leat.windows(leat.open(server.url("d.leat")), "s", 30_001, 25_000)
        got: dict[int, list[int]] = {}
        for ids, rows in batches(leat.Loader(w, 3, shuffle=True, seed=1, framework="numpy")):
            got |= dict(zip(ids, rows, strict=True))
    assert [got[i] for i in range(len(w))] == [v for _, _, v in expected(parts, 30_001, 25_000, "short")]


@pytest.mark.parametrize("recheck", ["always", "first"])
def test_damage_within_a_window_names_file_sample_and_byte_and_elsewhere_is_none(
    tmp_path: Path, long: Any, recheck: str
) -> None:
    whole, parts = long
    raw = bytearray(whole.read_bytes())
    at = raw.index(parts[0].tobytes()) + 333_333
    raw[at] ^= 1
    path = tmp_path / "d.leat"
    path.write_bytes(raw)
    w = leat.windows(leat.open(path, recheck=recheck), "s", 1000)
    assert w[333 + 70]["s"].tolist() == parts[0][403_000:404_000].tolist()  # another page
    for read in (lambda: w[333], lambda: list(leat.Loader(w.select([333]), 1))):
        with pytest.raises(leat.CorruptError, match="page of the value") as raised:
            read()
        e = raised.value
        assert (e.file, e.sample, e.field) == (str(path), 333, "s")
        assert at - 65536 < e.offset <= at
    page = range((e.offset - at + 333_333) // 1000, (e.offset - at + 333_333 + 65536) // 1000 + 1)
    good = [i for b in leat.Loader(w, 200, on_error="skip") for i in b.ids[b.valid].tolist()]
    assert sorted(set(range(len(w))) - set(good)) == list(page)


def test_damage_of_a_short_record_is_found_by_each_of_its_windows(tmp_path: Path) -> None:
    parts = [np.arange(100, dtype=np.uint8), np.arange(100, 200, dtype=np.uint8)]
    path = tmp_path / "d.leat"
    in_leat(path, parts)
    raw = path.read_bytes()
    at = raw.index(parts[1].tobytes())
    path.write_bytes(raw[: at + 99] + b"!" + raw[at + 100 :])
    w = leat.windows(leat.open(path), "s", 10)
    assert w[9]["s"].tolist() == list(range(90, 100))
    for i in (10, 19):
        with pytest.raises(leat.CorruptError, match=f"sample {i}, .*the 100 bytes at {at}"):
            w[i]
        with pytest.raises(leat.CorruptError, match=f"sample {i}, .*the 100 bytes at {at}"):
            list(leat.Loader(w.select([i]), 1))


def test_views_of_windows_and_windows_of_views() -> None:
    parts = records()
    ds = in_arrays(parts)
    w = leat.windows(ds, "s", 5, 4)
    want = expected(parts, 5, 4, "short")
    assert [s["name"] for s in w.where("begin = 0")] == [f"r{i}" for i in range(1, 41)]
    assert w.where("\"s.length\" < 5 AND name = 'r7'").ids.tolist() == [
        i for i, (r, _, v) in enumerate(want) if r == 7 and len(v) < 5
    ]
    a, b = w.split([0.9, 0.1])
    assert sorted([*a.ids, *b.ids]) == list(range(len(w)))
    assert (a & b).ids.tolist() == [] and len(a | b) == len(w)
    both = leat.concat(w, w)
    assert both[len(w) + 9]["s"].tolist() == w[9]["s"].tolist() and both.ids.tolist() == list(range(2 * len(w)))
    some = leat.windows(ds.where('"s.length" > 30').select([3, 0]), "s", 5, 4)
    assert [s["s"].tolist() for s in some] == [v for r in (34, 31) for i, _, v in want if i == r]
    inner = leat.windows(w, "s", 2)
    assert inner[5]["s"].tolist() == want[3][2][2:4] and inner[5]["begin"] == 2
    assert leat.zip(a=w, b=w)[3]["b.s"].tolist() == want[3][2]
    rows = leat.pack_rows(w, "s", 9)
    assert rows[0]["s"].tolist() == [x for _, _, v in want for x in v][:9]
    batch = next(iter(leat.Loader(rows, 4)))
    assert batch["s"].ravel().tolist() == [x for _, _, v in want for x in v][:36]


@pytest.mark.parametrize("kind", ["leat", "arrays"])
def test_packed_rows_of_windows_have_their_tokens(tmp_path: Path, long: Any, kind: str) -> None:
    path, parts = long
    ds = leat.open(path) if kind == "leat" else in_arrays(parts)
    w = leat.windows(ds, "s", 1001, 900)
    rows = leat.pack_rows(w, "s", 512)
    flat = np.concatenate([v for _, _, v in expected(parts, 1001, 900, "short")])
    got = np.concatenate([b["s"].ravel() for b in leat.Loader(rows, 64, framework="numpy")])
    assert got[: len(flat)].tolist() == flat.tolist()


def test_batches_by_length_take_the_lengths_of_windows(long: Any) -> None:
    path, parts = long
    w = leat.windows(leat.open(path), "s", 3000)
    rows = leat.pack_rows(w, "s", 8000, how="ragged")
    loader = leat.Loader(rows, batch_tokens=8000, framework="numpy", epochs=1)
    assert sum(int(b["cu_seqlens"][-1]) for b in loader) == sum(map(len, parts))
    short = leat.windows(in_arrays(records()), "s", 8)
    by_length = leat.Loader(short, batch_tokens=64, buckets=[2, 4, 8], tokens_field="s", shuffle=True)
    assert sorted(i for b in by_length for i in b.ids[b.valid].tolist()) == list(range(len(short)))


@pytest.mark.parametrize("world", [2, 3])
def test_ranks_share_an_epoch_of_windows_and_a_state_goes_on(long: Any, world: int) -> None:
    path, _ = long
    w = leat.windows(leat.open(path), "s", 3001, 2503)
    options: dict[str, Any] = {"shuffle": True, "seed": 5, "framework": "numpy", "tail": "uneven"}
    alone = batches(leat.Loader(w, 6 * world, epochs=1, **options))
    ranks = [batches(leat.Loader(w, 6, rank=r, world_size=world, epochs=1, **options)) for r in range(world)]
    assert joined(ranks) == [i for ids, _ in alone for i in ids]
    loader = leat.Loader(w, 6 * world, epochs=1, **options)
    reading = iter(loader)
    first = [next(reading) for _ in range(5)]
    state = loader.state_dict()
    other = leat.Loader(leat.windows(leat.open(path), "s", 3001, 2503), 6 * world, epochs=1, **options)
    other.load_state_dict(state)
    assert batches(other) == alone[len(first) :]


def test_windows_pickle_and_rows_of_them_are_made_elsewhere(long: Any) -> None:
    path, _ = long
    w = leat.windows(leat.open(path), "s", 3001, 2503)
    part = pickle.loads(pickle.dumps(w.where("begin > 5000")))
    assert part.fingerprint == w.where("begin > 5000").fingerprint
    assert part[3]["s"].tolist() == w.where("begin > 5000")[3]["s"].tolist()
    loader = leat.Loader(w, 4, shuffle=True, seed=2, framework="numpy")
    made = leat.make_rows(loader.plan_rows(0, 1))
    second = [b for b, _ in zip(loader, range(2), strict=False)][1]
    assert [v.tolist() for v in made["s"].unbind()] == [v.tolist() for v in second["s"].unbind()]


def test_a_fingerprint_says_records_and_rule() -> None:
    ds = in_arrays(records())
    rules = [("s", 5, 4, "short"), ("s", 5, 4, "cover"), ("s", 5, 3, "short"), ("s", 6, 4, "short")]
    prints = [leat.windows(d, *rule).fingerprint for rule in rules for d in (ds, ds[:-1])]
    assert len(set(prints)) == 8
    assert prints == [leat.windows(d, *rule).fingerprint for rule in rules for d in (ds, ds[:-1])]


class Counted:
    fields = {"s": leat.field("uint8", (None,))}

    def __init__(self) -> None:
        self.asked: list[int] = []

    def __len__(self) -> int:
        return 4

    def read(self, positions: Any) -> dict[str, Any]:
        self.asked += [int(p) for p in positions]
        return {"s": [np.arange(100 * i, dtype=np.uint8) for i in positions]}


def test_a_computed_record_is_computed_once_for_windows_that_follow_each_other() -> None:
    source = Counted()
    w = leat.windows(leat.from_source(source), "s", 10)
    source.asked.clear()
    with leat.Loader(w, 15, epochs=1, num_threads=1) as loader:
        assert sum(b.size for b in loader) == 60
    assert len(source.asked) < 20  # of 60 windows


def test_a_billion_windows_take_memory_for_the_records_only() -> None:
    ds = leat.from_arrays(s=leat.Ragged(np.zeros(1_000_000_000, np.uint8), [0, 999_999_990, 1_000_000_000]))
    w = leat.windows(ds, "s", 4, 1)
    assert len(w) == 999_999_987 + 7
    assert w[999_999_988] == {"s": pytest.approx([0] * 4), "begin": 1}


@pytest.mark.parametrize(
    "call,error,text",
    [
        (lambda d: leat.windows(d, "t", 5), KeyError, 'no field "t"'),
        (lambda d: leat.windows(d, "n", 5), TypeError, "varies in length"),
        (lambda d: leat.windows(d, "name", 5), TypeError, "varies in length"),
        (lambda d: leat.windows(d, "begin", 5), ValueError, "of their own"),
        (lambda d: leat.windows(d, "s", 0), ValueError, "length is 1"),
        (lambda d: leat.windows(d, "s", 5, 0), ValueError, "stride is 1"),
        (lambda d: leat.windows(d, "s", 5.0), TypeError, "length is an integer"),
        (lambda d: leat.windows(d, "s", 5, tail="pad"), ValueError, "'short', 'cover', 'drop'"),
        (lambda d: leat.windows([d], "s", 5), TypeError, "takes a data set of records"),
        (lambda d: leat.windows(leat.pack_rows(d, "s", 5), "s", 2), TypeError, "pack"),
    ],
)
def test_what_makes_no_windows_is_refused(call: Any, error: type[Exception], text: str) -> None:
    part = values([np.arange(3)])
    name = values([np.frombuffer(b"a", np.uint8)])
    fields = {"s": leat.field("int64", (None,)), "begin": leat.field("int64", (None,)), "name": "str"}
    with pytest.raises(error, match=text):
        call(leat.from_arrays(fields, s=part, begin=part, n=np.zeros(1), name=name))


@pytest.mark.parametrize("kind", ["arrays", "file", "source"])
def test_windows_of_windows_are_parts_of_these(tmp_path: Path, kind: str) -> None:
    values = [np.arange(20, dtype=np.int16), np.arange(100, 107, dtype=np.int16)]
    if kind == "arrays":
        ds = leat.from_arrays(s=leat.Ragged(np.concatenate(values), np.array([0, 20, 27])))
    elif kind == "source":
        ds = leat.from_source(Listed(values))
    else:
        with leat.Writer(tmp_path / "a.leat", Listed.fields) as w:
            for value in values:
                w.add(s=value)
        ds = leat.open(tmp_path / "a.leat")
    outer = leat.windows(ds, "s", 6, 4)
    inner = leat.windows(outer, "s", 2)
    expected = [x["s"][i : i + 2].tolist() for x in outer for i in range(0, len(x["s"]), 2)]
    assert [sample["s"].tolist() for sample in inner] == expected and len(expected) == 19
    batches = leat.Loader(inner, 4, framework="numpy")
    assert [x.tolist() for batch in batches for x in batch["s"].unbind()][:19] == expected
    zipped = leat.windows(leat.zip(a=outer), "a.s", 2)
    assert [sample["a.s"].tolist() for sample in zipped] == expected


class Listed:
    fields = {"s": leat.field("int16", (None,))}

    def __init__(self, values: list[Any]) -> None:
        self.values = values

    def __len__(self) -> int:
        return len(self.values)

    def read(self, positions: Any) -> dict[str, Any]:
        return {"s": [self.values[i] for i in positions]}
