"""Rows that are made from a plan: in another process, byte for byte those of the loader."""

from __future__ import annotations

import json
import os
import pickle
import select
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from process_support import Process

import leat
from leat.loading import making

Made = dict[str, Any]


def values(batch: Any) -> Made:
    """All that a batch has."""
    found = {"ids": batch.ids.tolist(), "keys": batch.row_keys.tolist(), "valid": np.asarray(batch.valid).tolist()}
    for name in batch:
        value = batch[name]
        parts = list(value) if isinstance(value, (list, leat.Ragged)) else [value]
        found[name] = [(np.asarray(part).dtype.str, np.asarray(part).tolist()) for part in parts]
    return found | {"errors": [(e.row, e.reason) for e in batch.errors]}


def make(plans: list[bytes], pipe: Any) -> None:
    try:
        pipe.send([values(leat.make_rows(pickle.loads(plan))) for plan in plans])
    except Exception as e:
        pipe.send(e)


def elsewhere(*plans: Any) -> list[Made]:
    """What another process makes of these plans."""
    other = Process(make, [pickle.dumps(plan) for plan in plans])
    found: list[Made] = other.answer()
    return found


CROP = [
    leat.ops.Decode(),
    leat.ops.RandomResizedCrop(16),
    leat.ops.RandomHorizontalFlip(),
    leat.ops.ToDtype("float32", scale=True),
]


@pytest.fixture
def documents(tmp_path: Path) -> Path:
    with leat.Writer(tmp_path / "documents.leat", {"tokens": leat.field("uint16", (None,)), "label": "int64"}) as w:
        for i in range(60):
            w.add(tokens=np.arange(1 + 7 * i % 40, dtype=np.uint16), label=i % 3)
    return tmp_path / "documents.leat"


def of_lines(tmp_path: Path) -> leat.Dataset:
    (tmp_path / "a.jsonl").write_text("".join(f'{{"x": {i}, "text": "{"a" * (i % 7)}"}}\n' for i in range(50)))
    return leat.open(tmp_path / "a.jsonl")


def of_parquet(tmp_path: Path) -> leat.Dataset:
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    table = pa.table({"x": list(range(50)), "y": [None, *np.arange(49.0)]})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=20)
    return leat.open(tmp_path / "a.parquet", fill={"y": -1.0})


#: name: how a loader is opened over photos, documents and an empty folder
LOADERS: dict[str, Callable[[Path, Path, Path], leat.Loader]] = {
    "photos": lambda p, d, t: leat.Loader(leat.open(p), 4, True, outputs={"image": CROP, "label": []}, seed=3),
    "ranks": lambda p, d, t: leat.Loader(leat.open(p), 3, True, rank=1, world_size=3, outputs={"image": CROP}),
    "as stored": lambda p, d, t: leat.Loader(leat.open(d), global_batch_size=7, shuffle=leat.Blocks(5, window=15)),
    "a view": lambda p, d, t: leat.Loader(leat.open(d).where("label = 1")[3:].select([5, 1, 8, 8, 2]), 2),
    "a part": lambda p, d, t: leat.Loader(leat.open(d).split([0.3, 0.7], seed=4)[1], 5, True),
    "joined": lambda p, d, t: leat.Loader(leat.concat(leat.open(d), leat.open(d)[:20]), 6, True),
    "zipped": lambda p, d, t: leat.Loader(leat.zip(d=leat.open(d)[:24], p=leat.open(p)), 6),
    "lines": lambda p, d, t: leat.Loader(of_lines(t), 6, True),
    "parquet": lambda p, d, t: leat.Loader(of_parquet(t), 6, True),
    "a mixture": lambda p, d, t: leat.Loader(leat.Mix({"a": (leat.open(d), 0.3), "b": (leat.open(d)[:9], 0.7)}), 5),
    "a mixture by value": lambda p, d, t: leat.Loader(leat.Mix.by(leat.open(d), "label", {0: 0.5, ...: 0.5}), 5, True),
    "a schedule": lambda p, d, t: leat.Loader(
        leat.Schedule(
            [
                (0, leat.Mix.by(leat.open(d), "label", {0: 0.5, ...: 0.5})),
                (3, leat.Mix.by(leat.open(d), "label", {0: 0.1, ...: 0.9})),
            ]
        ),
        5,
        True,
    ),
    "packed": lambda p, d, t: leat.Loader(leat.pack_rows(leat.open(d), length=32, how="best_fit"), 3, True),
    "sequences": lambda p, d, t: leat.Loader(leat.pack_rows(leat.open(d), how="ragged"), batch_tokens=64),
    "by length": lambda p, d, t: leat.Loader(leat.open(d), batch_tokens=80, shuffle=True),
    "by cost": lambda p, d, t: leat.Loader(leat.open(d), batch_cost=80, cost="tokens.length", shuffle=True),
    "weighted": lambda p, d, t: leat.Loader(leat.open(d), 5, sampler=leat.Weighted(np.arange(60.0), 20)),
    "a list": lambda p, d, t: leat.Loader(leat.open(d), 5, sampler=[5, 3, 3, 59]),
    "whole batches": lambda p, d, t: leat.Loader(
        leat.open(p), 4, outputs={("image", "label"): [*CROP, leat.ops.MixUp(num_classes=2)]}, seed=5
    ),
    "open sizes": lambda p, d, t: leat.Loader(leat.open(p), 1, outputs={"image": [leat.ops.Decode()]}),
}


@pytest.mark.parametrize("name", LOADERS)
def test_another_process_makes_the_rows_of_a_plan(name: str, photos: Path, documents: Path, tmp_path: Path) -> None:
    with LOADERS[name](photos, documents, tmp_path) as loader:
        steps = [(0, 0), (0, len(loader) - 1), (2, 0)]
        plans = [loader.plan_rows(*at) for at in steps]
        assert all(len(pickle.dumps(plan)) < 64 << 10 and json.loads(json.dumps(plan)) == plan for plan in plans)
        for at, made in zip(steps, elsewhere(*plans), strict=True):
            assert made == values(loader.batch_at(*at))


def test_parts_of_a_batch_have_its_rows(photos: Path, documents: Path, tmp_path: Path) -> None:
    for name in ("photos", "ranks", "a mixture", "packed", "by length", "open sizes", "weighted"):
        with LOADERS[name](photos, documents, tmp_path) as loader:
            whole = values(loader.batch_at(1, 1))
            n = len(whole["ids"])
            cuts = [0, n // 2, n - 1, n] if n > 2 else [0, n]
            parts = [values(leat.make_rows(loader.plan_rows(1, 1, rows=range(a, b)))) for a, b in zip(cuts, cuts[1:])]
            assert [x for part in parts for x in part["ids"]] == whole["ids"], name
            assert [x for part in parts for x in part["keys"]] == whole["keys"], name
            for field in whole.keys() - {"ids", "keys", "valid", "errors"}:
                if len(whole[field]) == 1:  # one tensor, whose rows are those of the parts
                    found = [row for part in parts for _, rows in part[field] for row in rows]
                    assert found == whole[field][0][1], (name, field)


def test_an_operator_that_sees_batches_as_a_whole_makes_whole_batches(
    photos: Path, documents: Path, tmp_path: Path
) -> None:
    with LOADERS["whole batches"](photos, documents, tmp_path) as loader:
        with pytest.raises(leat.UnsupportedError, match="sees batches as a whole: ask for all 4 rows"):
            leat.make_rows(loader.plan_rows(0, 0, rows=(1, 3)))
        assert len(leat.make_rows(loader.plan_rows(0, 0, rows=slice(None))).ids) == 4


def test_a_function_of_the_program_goes_with_the_plan(photos: Path) -> None:
    chain = [*CROP, leat.ops.Map(lambda x: x * 2)]
    with leat.Loader(leat.open(photos), 4, True, outputs={"image": chain}) as loader:
        assert values(leat.make_rows(pickle.loads(pickle.dumps(loader.plan_rows(0, 1))))) == values(
            loader.batch_at(0, 1)
        )


def test_relative_paths_are_those_of_where_the_loader_was_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    for name in "ab":
        (tmp_path / name).mkdir()
        (tmp_path / name / "x.bin").write_bytes(name.encode() * 4)
        pq.write_table(pa.table({"f": ["x.bin"] * 4, "n": list(range(4))}), tmp_path / name / "t.parquet")
    monkeypatch.chdir(tmp_path / "a")
    with leat.Loader(leat.open("t.parquet", fields={"f": "image", "n": None}), 2) as loader:
        plan = loader.plan_rows(0, 0)
        monkeypatch.chdir(tmp_path / "b")
        assert values(leat.make_rows(plan)) == values(loader.batch_at(0, 0))
        assert bytes(leat.make_rows(plan)["f"][0]) == b"aaaa"


def of_kind(x: Any) -> Any:
    return x * 2 if type(x).__module__ == "torch" else np.asarray(x) + 1000


@pytest.mark.parametrize("framework", ["torch", "numpy"])
@pytest.mark.parametrize("map_of", [leat.ops.Map, leat.ops.MapBatch])
def test_a_function_gets_what_it_gets_in_the_run(framework: Any, map_of: Any, documents: Path) -> None:
    outputs = {"label": [map_of(of_kind)]}
    with leat.Loader(leat.open(documents), 4, outputs=outputs, framework=framework) as loader:
        made = leat.make_rows(loader.plan_rows(0, 1))
        assert values(made) == values(loader.batch_at(0, 1)) and isinstance(made["label"], np.ndarray)


def test_decisions_go_with_the_plan(documents: Path) -> None:
    ds = leat.open(documents)
    mix = leat.Mix({"a": (ds, 0.5), "b": (ds[:20], 0.5)}, exhausted="repeat")
    with leat.Loader(mix, 6, True) as mixed, leat.Loader(ds, 6, True) as selected:
        iter(mixed), iter(selected)
        before = [loader.plan_rows(1, 1) for loader in (mixed, selected)]
        mixed.set_mixture({"a": 0.1, "b": 0.9}, at=(1, 0))
        mixed.set_batch_size(batch_size=9, at=(1, 0))
        selected.select(np.arange(0, 60, 7), at=(1, 1))
        after = [loader.plan_rows(1, 1) for loader in (mixed, selected)]
        wanted = [values(loader.batch_at(1, 1)) for loader in (mixed, selected)]
        assert elsewhere(*before, *after, *before)[2:4] == wanted
        assert [values(leat.make_rows(p))["ids"] for p in after] != [values(leat.make_rows(p))["ids"] for p in before]


class Reversed:
    """A Sampler of PyTorch's kind, with another list each epoch."""

    def __init__(self, n: int) -> None:
        self.n, self.epoch = n, 0

    def __len__(self) -> int:
        return self.n

    def __iter__(self) -> Iterator[int]:
        self.epoch += 1
        return iter([(self.epoch + i * 7) % self.n for i in range(self.n)][::-1])


@pytest.mark.parametrize("n", [60, 20000])
def test_a_samplers_list_goes_with_the_plan_or_lies_in_the_folder_of_the_run(n: int, tmp_path: Path) -> None:
    with leat.Writer(tmp_path / "n.leat", {"x": "int64"}) as w:
        w.write_batch({"x": np.arange(n)})
    with leat.Loader(leat.open(tmp_path / "n.leat"), 6, sampler=Reversed(n), log_dir=tmp_path / "run") as loader:
        for _ in range(2):
            batches = iter(loader)
            next(batches)
            plan = loader.plan_rows(loader.epoch, 3)
            assert len(pickle.dumps(plan)) < 64 << 10
            assert elsewhere(plan) == [values(loader.batch_at(loader.epoch, 3))]


def test_what_is_large_lies_in_the_folder_of_the_run_under_its_hash(tmp_path: Path) -> None:
    with leat.Writer(tmp_path / "n.leat", {"x": "int64"}) as w:
        w.write_batch({"x": np.arange(50000)})
    view = leat.open(tmp_path / "n.leat").select(np.random.default_rng(1).permutation(50000))
    with leat.Loader(view, 8) as bare, pytest.raises(leat.InvalidError, match="open the Loader with log_dir="):
        bare.plan_rows(0, 0)
    with leat.Loader(view, 8, log_dir=tmp_path / "run") as loader:
        plan = loader.plan_rows(0, 7)
        assert len(pickle.dumps(plan)) < 4096
        assert elsewhere(plan) == [values(loader.batch_at(0, 7))]
        (kept,) = (tmp_path / "run").glob("rows-*.bin")
        data = kept.read_bytes()
        kept.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
        with pytest.raises(leat.StateError, match="is damaged: it has another hash"):
            elsewhere(plan)
        kept.unlink()
        with pytest.raises(leat.MissingFileError, match="is missing: the plan of these rows names it"):
            elsewhere(plan)


def test_a_plan_is_of_the_loader_as_it_was_opened(
    documents: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ds = leat.open(documents)
    chain: list[Any] = []
    others: list[Any] = []
    outputs: dict[str, Any] = {"label": chain, "other": leat.Out("label", others)}
    monkeypatch.chdir(tmp_path)
    weights = leat.Weighted(np.arange(60.0), 20)
    with (
        leat.Loader(ds, 4, outputs=outputs, log_dir="run") as loader,
        leat.Loader(ds, 4, sampler=weights) as weighted,
    ):
        chain.append(leat.ops.ToDtype("float32"))
        others.append(leat.ops.ToDtype("float32"))
        outputs["tokens"] = []
        (tmp_path / "elsewhere").mkdir()
        monkeypatch.chdir(tmp_path / "elsewhere")
        plan = loader.plan_rows(0, 1)
        assert values(leat.make_rows(plan)) == values(loader.batch_at(0, 1))
        assert plan["log_dir"] == str(tmp_path / "run")
        weights.weights[:] = 1
        with pytest.raises(leat.ChangedError, match="were changed after its loader was opened"):
            weighted.plan_rows(0, 0)


def test_plans_of_all_steps_between_two_decisions_have_the_same_ones(documents: Path, tmp_path: Path) -> None:
    with leat.Loader(leat.open(documents), 6, True, log_dir=tmp_path / "run") as loader:
        batches = iter(loader)
        plans = [loader.plan_rows(0, 3) for _ in range(3) if next(batches)]
        assert plans[0] == plans[1] == plans[2]
        loader.select(np.arange(0, 60, 3), at=(0, 5))
        assert loader.plan_rows(0, 3) != plans[0]


def test_a_plan_over_many_long_paths_is_small(tmp_path: Path) -> None:
    folder = tmp_path / ("a" * 200)
    folder.mkdir()
    for i in range(300):
        with leat.Writer(folder / f"{i:0200}.leat", {"x": "int64"}) as w:
            w.add(x=i)
    ds = leat.concat(*[leat.open(path) for path in sorted(folder.iterdir())])
    with leat.Loader(ds, 5, True, log_dir=tmp_path / "run") as loader:
        plan = loader.plan_rows(0, 1)
        assert len(json.dumps(plan)) < 64 << 10
        assert elsewhere(plan) == [values(loader.batch_at(0, 1))]


def test_threads_make_rows_of_several_loaders_and_decisions(documents: Path) -> None:
    ds = leat.open(documents)
    loaders = [leat.Loader(ds, 5, True, seed=seed) for seed in range(making.MOST_OPEN + 2)]
    work = [(loader.plan_rows(0, step), loader.plan(0, step).tolist()) for loader in loaders for step in range(3)]
    for loader in loaders:
        loader.select(np.arange(0, 60, 2), at=(0, 1))
    work += [(loader.plan_rows(0, step), loader.plan(0, step).tolist()) for loader in loaders for step in range(3)]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda each: leat.make_rows(each[0]).ids.tolist(), work * 4))
    assert found == [ids for _, ids in work] * 4


def test_values_go_into_the_callers_memory(photos: Path) -> None:
    with leat.Loader(leat.open(photos), 4, outputs={"image": CROP, "label": []}) as loader:
        plan, whole = loader.plan_rows(0, 2), loader.batch_at(0, 2)
        room = np.zeros((8, *whole["image"].shape[1:]), np.float32)
        leat.make_rows(plan, out={"image": room[2:6]})
        assert np.array_equal(room[2:6], whole["image"]) and not room[:2].any() and not room[6:].any()
        for wrong in (room, room[2:6].astype(np.float64)):
            with pytest.raises(leat.InvalidError, match="writable, C-contiguous array of float32 with shape"):
                leat.make_rows(plan, out={"image": wrong})


def test_memory_that_cannot_take_the_values_changes_nothing(documents: Path) -> None:
    with leat.Loader(leat.open(documents), 4, outputs={"label": [], "again": leat.Out("label")}) as loader:
        plan = loader.plan_rows(0, 2)
        room = np.full(4, -1)
        strided, fixed = np.zeros(8, np.int64)[::2], np.zeros(4, np.int64)
        fixed.flags.writeable = False
        for wrong in ([0] * 4, strided, fixed, 3, None):
            with pytest.raises(leat.InvalidError, match="again"):
                leat.make_rows(plan, out={"label": room, "again": wrong})
        with pytest.raises(KeyError):
            leat.make_rows(plan, out={"label": room, "none": room})
        assert room.tolist() == [-1] * 4
        leat.make_rows(plan, out={"label": room})
        assert room.tolist() == loader.batch_at(0, 2)["label"].tolist()


def test_broken_samples_are_as_the_loader_says(broken: Path) -> None:
    for on_error in ("skip", "substitute"):
        with leat.Loader(leat.open(broken), 5, outputs={"image": CROP, "label": []}, on_error=on_error) as loader:
            (made,) = elsewhere(loader.plan_rows(0, 0))
            assert made == values(loader.batch_at(0, 0)) and len(made["errors"]) == 1
    with leat.Loader(leat.open(broken), 5, outputs={"image": CROP}) as loader:
        with pytest.raises(leat.BrokenSampleError, match="broken.leat"):
            leat.make_rows(loader.plan_rows(0, 0))
        assert len(leat.make_rows(loader.plan_rows(0, 0, rows=(0, 3))).ids) == 3


def test_a_part_of_broken_rows_alone_has_none(broken: Path, tmp_path: Path) -> None:
    outputs: Any = {"image": CROP, "label": [], "as stored": leat.Out("image")}
    with leat.Loader(leat.open(broken), 5, outputs=outputs, on_error="skip") as loader:
        whole = loader.batch_at(0, 0)
        (error,) = whole.errors
        parts = [leat.make_rows(loader.plan_rows(0, 0, rows=(i, i + 1))) for i in range(5)]
        assert [len(part.ids) for part in parts] == [int(i != error.row) for i in range(5)]
        (none,) = (part for part in parts if not len(part.ids))
        assert none["image"].shape == (0, 3, 16, 16) and none["label"].shape == (0,)
        assert [e.reason for e in none.errors] == [error.reason]
        assert [x for part in parts for x in part.ids.tolist()] == whole.ids.tolist()


def test_what_lies_in_memory_has_no_plan(documents: Path) -> None:
    arrays = leat.from_arrays(x=np.arange(20))
    for made in (arrays, leat.concat(arrays, arrays), arrays[3:]):
        with leat.Loader(made, 5) as loader, pytest.raises(leat.UnsupportedError, match="write it first"):
            loader.plan_rows(0, 0)
    with leat.Loader(leat.open(documents), 5, in_order=False) as loader, pytest.raises(leat.UnsupportedError):
        loader.plan_rows(0, 0)


def test_rows_that_a_batch_does_not_have_are_said(documents: Path) -> None:
    with leat.Loader(leat.open(documents), 7) as loader:
        for rows in ((0, 8), range(5, 5), (3, 2), slice(7, 9)):
            with pytest.raises(IndexError, match="the batch has 7 rows"):
                loader.plan_rows(0, 0, rows=rows)
        with pytest.raises(IndexError):
            loader.plan_rows(0, 9)
        for wrong in (3, "all", (1, 2, 3)):
            with pytest.raises(TypeError, match="rows is a range"):
                loader.plan_rows(0, 0, rows=wrong)
        with pytest.raises(ValueError, match="without gaps"):
            loader.plan_rows(0, 0, rows=range(0, 6, 2))


def test_a_plan_over_other_data_or_that_is_none_is_refused(tmp_path: Path) -> None:
    for n in (20, 21):
        with leat.Writer(tmp_path / "a.leat", {"x": "int64"}, overwrite=True) as w:
            w.write_batch({"x": np.arange(n)})
        if n == 20:
            with leat.Loader(leat.open(tmp_path / "a.leat"), 5) as loader:
                plan = loader.plan_rows(0, 0)
    with pytest.raises(leat.ChangedError):
        elsewhere(plan)
    for damage in ({}, None, {**plan, "leat.rows": 2}, {k: v for k, v in plan.items() if k != "rows"}):
        with pytest.raises(leat.StateError):
            leat.make_rows(damage)  # type: ignore[arg-type]


def test_a_plan_with_a_damaged_part_is_refused_by_name(documents: Path) -> None:
    with leat.Loader(leat.open(documents), 5, outputs={"label": []}) as loader:
        plan = loader.plan_rows(0, 0)
    wrong: list[tuple[str, Any]] = [
        *[("rows", rows) for rows in ([0, -1], [0], [0, 1 << 64], "01", [0.0, 1], None)],
        *[(name, value) for name in ("epoch", "step") for value in (-1, 1 << 64, "1", True)],
        *[("loader", value) for value in ("", "[]", "{}", 3, {"kept": "../../etc/passwd"}, {"kept": 1}, {})],
        ("loader", plan["loader"].replace('"seed"', '"max_held_bytes"')),
        ("loader", plan["loader"].replace('"open"', '"no maker"')),
        ("loader", plan["loader"].replace('"program"', '"pro"')),
        ("loader", plan["loader"].replace('"seed": 0', '"seed": 1')),
        *[("decisions", value) for value in ("", "[]", "{}", None, {"kept": "0" * 64})],
        ("run", None),
        ("log_dir", 7),
    ]
    for name, value in wrong:
        making._forget()
        with pytest.raises(leat.StateError):
            leat.make_rows({**plan, name: value})
    with pytest.raises(IndexError, match="has 5 rows for this rank, and no 9 from row 0 on"):
        leat.make_rows({**plan, "rows": [0, 9]})
    assert len(leat.make_rows(plan).ids) == 5


def fails_where_it_is_said(x: Any) -> Any:
    if "FAILS" in os.environ:
        raise TypeError("of the function")
    return x


def test_an_error_of_a_function_is_its_own(documents: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    outputs = {"label": [leat.ops.Map(fails_where_it_is_said)]}
    with leat.Loader(leat.open(documents), 4, outputs=outputs) as loader:
        plan = loader.plan_rows(0, 0)
    monkeypatch.setenv("FAILS", "1")
    with pytest.raises(Exception, match="of the function") as where_it_is_opened:
        leat.Loader(leat.open(documents), 4, outputs=outputs)
    with pytest.raises(where_it_is_opened.type, match="of the function"):
        leat.make_rows(plan)


def test_a_plan_opens_a_loader_once_and_a_few_stay_open(documents: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = []
    real = making._open
    monkeypatch.setattr(making, "_open", lambda planned, n: opened.append(planned["run"]) or real(planned, n))
    monkeypatch.setattr(making, "_opened", making._Opened())
    loaders = [leat.Loader(leat.open(documents), 5, True, seed=seed) for seed in range(making.MOST_OPEN + 1)]
    for _ in range(2):
        for loader in loaders[:-1]:
            for step in range(3):
                leat.make_rows(loader.plan_rows(0, step))
    assert len(opened) == making.MOST_OPEN
    leat.make_rows(loaders[-1].plan_rows(0, 0))
    leat.make_rows(loaders[0].plan_rows(0, 0))
    assert len(opened) == making.MOST_OPEN + 2


def test_as_many_rows_are_kept_as_the_caller_likes(tmp_path: Path) -> None:
    with leat.Writer(tmp_path / "large.leat", {"x": leat.field("float32", (1 << 18,))}) as w:
        w.write_batch({"x": np.arange(16, dtype=np.float32)[:, None].repeat(1 << 18, 1)})
    with leat.Loader(leat.open(tmp_path / "large.leat"), 8, max_held_bytes=1 << 25) as loader:
        held = [leat.make_rows(loader.plan_rows(0, step % 2)) for step in range(40)]  # 320 MiB
        assert [int(b["x"][7, 5]) for b in held] == [7, 15] * 20


def test_a_child_that_is_forked_while_rows_are_made_makes_its_own(documents: Path) -> None:
    with leat.Loader(leat.open(documents), 5, True) as loader:
        plan, wanted = loader.plan_rows(0, 1), loader.plan(0, 1).tolist()
    with making._opened.lock:  # as a thread of the parent may hold it
        read, write = os.pipe()
        if not (child := os.fork()):
            os.write(write, repr(leat.make_rows(plan).ids.tolist()).encode())
            os._exit(0)
    os.close(write)
    assert select.select([read], [], [], 60)[0], "the child hangs"
    assert os.read(read, 1000).decode() == repr(wanted)
    os.close(read)
    os.waitpid(child, 0)


def test_the_process_that_plans_need_not_be_at_rest(photos: Path) -> None:
    """No epoch begins where rows are made, and the position of the loader that plans stays."""
    with leat.Loader(leat.open(photos), 4, True, outputs={"image": CROP}) as loader:
        batches = iter(loader)
        first = next(batches)
        before = loader.state_dict()
        made = [leat.make_rows(loader.plan_rows(0, step)) for step in range(3)]
        assert loader.state_dict() == before
        assert values(made[0]) == values(first) and values(made[1]) == values(next(batches))
