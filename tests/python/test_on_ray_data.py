"""leat.ray.read, write and from_dataset: data sets of Ray Data, and back."""

from __future__ import annotations

import json
import logging
import os
import pickle
import signal
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from photo_support import png
from process_support import PATIENCE, eventually

import leat
import leat.ray

if not os.environ.get("LEAT_REQUIRE_RAY"):
    pytest.importorskip("ray")

import ray.data  # noqa: E402
from ray.data.block import BlockAccessor  # noqa: E402

from leat.ray import writing  # noqa: E402
from leat.ray.reading import LeatDatasource, columns_of  # noqa: E402

N = 100
pytestmark = pytest.mark.usefixtures("cluster", "in_order")
FIELDS = {
    "number": "float64",
    "flag": "bool",
    "half": "bfloat16",
    "vector": leat.field("int16", (2, 2)),
    "boxes": leat.field("float32", (None, 4)),
    "tokens": leat.field("int32", (None,)),
    "raw": "bytes",
    "text": "str",
    "meta": "json",
    "image": "image",
}


@pytest.fixture(scope="module")
def in_order() -> Iterator[None]:
    """Blocks keep their order, and Ray Data says little."""
    context = ray.data.DataContext.get_current()
    before = context.execution_options.preserve_order, context.enable_progress_bars
    context.execution_options.preserve_order, context.enable_progress_bars = True, False
    logging.getLogger("ray.data").setLevel(logging.CRITICAL)
    yield
    context.execution_options.preserve_order, context.enable_progress_bars = before


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> leat.Dataset:
    """100 samples with a field of every kind."""
    path, rng = tmp_path_factory.mktemp("rows") / "rows.leat", np.random.default_rng(0)
    with leat.Writer(path, FIELDS) as w:
        for i in range(N):
            w.add(
                number=i / 4,
                flag=i % 3 == 0,
                half=float(i),
                vector=[[i, -i], [1, 2]],
                boxes=np.full((i % 4, 4), i, np.float32),
                tokens=np.arange(i % 7, dtype=np.int32),
                raw=bytes(range(i)),
                text="ä" * (i % 11),
                meta={"i": [i, None, "x"]},
                image=png(rng.integers(0, 256, (5 + i % 3, 6, 3)).astype(np.uint8)),
            )
    return leat.open(path)


def plain(value: Any) -> Any:
    """A value as Python has it, wherever it came through."""
    return value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value


def samples(found: Any) -> list[dict[str, Any]]:
    return [{name: plain(value) for name, value in row.items()} for row in found]


# ---- reading ---------------------------------------------------------------------------------------------------------


def test_rows_are_those_of_the_data_set(rows: leat.Dataset) -> None:
    found = samples(leat.ray.read(rows, override_num_blocks=7).take_all())
    wanted = samples(rows[i] for i in range(N))
    for one in wanted:
        one["meta"] = json.dumps(one["meta"])
        for name in list(one):
            if rows.schema[name].derived:
                del one[name]
    assert found == wanted


def test_paths_lists_views_and_joined_data_sets_are_read(rows: leat.Dataset) -> None:
    path = rows.about["shards"][0]["path"]
    numbers = rows.column("number")

    def read(src: Any) -> list[float]:
        return [row["number"] for row in leat.ray.read(src, ["number"], override_num_blocks=3).take_all()]

    assert read(path) == read(Path(path)) == numbers.tolist()
    assert read([path, path]) == [*numbers, *numbers]
    some = [3, 90, 3, 7]
    assert read(rows[some]) == numbers[some].tolist()
    assert read(rows.where("number > 20")) == numbers[numbers > 20].tolist()
    assert read(leat.from_arrays(number=np.arange(5.0))) == [0, 1, 2, 3, 4]
    assert read(leat.from_arrays(number=np.arange(1e5))) == list(range(100000))  # lies in Ray's store
    beside = leat.ray.read(leat.zip(left=rows[:3], right=rows[3:6])).take_all()
    assert [len(row["right.text"]) for row in beside] == [3, 4, 5]
    packed = leat.pack_rows(rows, "tokens", 10)
    assert np.array_equal(
        np.stack([row["tokens"] for row in leat.ray.read(packed, ["tokens"]).take_all()]),
        np.stack([packed[i]["tokens"] for i in range(len(packed))]),
    )
    with pytest.raises(TypeError, match="takes a path, a list of paths or a data set, not int"):
        leat.ray.read(3)


def test_ids_and_derived_fields_come_by_their_names(rows: leat.Dataset) -> None:
    found = leat.ray.read(rows[10:20], ["id", "image.height"]).take_all()
    assert [row["id"] for row in found] == list(range(10, 20))
    assert [row["image.height"] for row in found] == [5 + i % 3 for i in range(10, 20)]
    with pytest.raises(KeyError, match='no field "nothing"'):
        leat.ray.read(rows, ["nothing"])
    with pytest.raises(TypeError, match="columns is a list of names"):
        leat.ray.read(rows, "text")


@pytest.mark.parametrize("parts", [1, 3, 16, 300])
def test_tasks_say_their_rows_and_bytes_before_they_read(rows: leat.Dataset, parts: int) -> None:
    source = LeatDatasource(rows, columns_of(rows, None))
    tasks = source.get_read_tasks(parts)
    assert min(parts, N) - len(tasks) in range(N // 4)  # rows differ, so that a part may have none left
    for task in tasks:
        blocks = list(task())
        assert sum(b.num_rows for b in blocks) == task.metadata.num_rows > 0
        exact = sum(BlockAccessor.for_block(b).size_bytes() for b in blocks)
        assert abs(exact - task.metadata.size_bytes) <= 1  # eight flags are a byte
    assert sum(t.metadata.num_rows for t in tasks) == N
    each = [t.metadata.size_bytes for t in tasks]
    assert parts > 16 or max(each) < 2.5 * sum(each) / len(each)


def test_only_what_is_wanted_is_read(rows: leat.Dataset, tmp_path: Path) -> None:
    path = tmp_path / "damaged.leat"
    whole = Path(rows.about["shards"][0]["path"]).read_bytes()
    path.write_bytes(whole)
    found = leat.ray.read(path, override_num_blocks=N)
    path.write_bytes(whole[: (at := whole.rindex(b"\x89PNG"))] + bytes(8) + whole[at + 8 :])  # the last photo
    assert found.count() == N
    assert [row["number"] for row in found.select_columns(["number"]).take_all()] == rows.column("number").tolist()
    assert len(found.limit(5).take_all()) == 5
    with pytest.raises(Exception, match="checksum|damaged"):
        found.take_all()
    source = LeatDatasource(rows, ["text", "number"])
    assert source.apply_projection({"number": "number"})._columns == ["number"]
    tasks = source.get_read_tasks(2, per_task_row_limit=3)
    assert [t.metadata.num_rows for t in tasks] == [sum(b.num_rows for b in t()) for t in tasks] == [3, 3]


def test_torch_batches_and_splits_have_each_row_once(rows: leat.Dataset) -> None:
    data = leat.ray.read(rows, ["number", "vector"], override_num_blocks=5)
    batches = list(data.iter_torch_batches(batch_size=16))
    assert sum(len(b["number"]) for b in batches) == N
    assert {float(x) for b in batches for x in b["number"]} == {i / 4 for i in range(N)}
    assert tuple(batches[0]["vector"].shape) == (16, 2, 2)
    with ThreadPoolExecutor(2) as pool:  # Ray waits until both are iterated
        found = list(pool.map(lambda part: [b["number"] for b in part.iter_batches()], data.streaming_split(2)))
    assert sorted(np.concatenate([x for part in found for x in part]).tolist()) == [i / 4 for i in range(N)]


def decoded(batch: dict[str, Any]) -> dict[str, Any]:
    chain = [leat.ops.Decode(), leat.ops.RandomResizedCrop(4)]
    return {**leat.apply({"image": chain}, {"image": batch["image"].tolist()}, batch["id"]), "id": batch["id"]}


def test_operators_of_leat_run_inside_map_batches(rows: leat.Dataset) -> None:
    data = leat.ray.read(rows, ["image", "id"], override_num_blocks=4).map_batches(decoded, batch_size=8)
    found = {row["id"]: row["image"] for row in data.take_all()}
    wanted = decoded({"image": np.array([rows[i]["image"] for i in range(N)], object), "id": np.arange(N)})
    assert found.keys() == set(range(N))
    assert all(np.array_equal(found[i], wanted["image"][i]) for i in range(N))


def train(config: dict[str, Any]) -> None:
    import torch.distributed
    from ray import train

    seen = [float(x) for b in train.get_dataset_shard("train").iter_torch_batches(batch_size=8) for x in b["number"]]
    everything: list[Any] = [None, None]
    torch.distributed.all_gather_object(everything, seen)
    if train.get_context().get_world_rank() == 0:
        Path(config["to"]).write_bytes(pickle.dumps(everything))


def test_workers_of_ray_train_share_the_rows(rows: leat.Dataset, tmp_path: Path) -> None:
    from ray.train import RunConfig, ScalingConfig
    from ray.train.torch import TorchTrainer

    TorchTrainer(
        train,
        train_loop_config={"to": str(tmp_path / "seen")},
        datasets={"train": leat.ray.read(rows, ["number"], override_num_blocks=6, num_cpus=0.25)},
        scaling_config=ScalingConfig(num_workers=2, resources_per_worker={"CPU": 0.5}),
        run_config=RunConfig(storage_path=str(tmp_path), name="run"),
    ).fit()
    first, second = pickle.loads((tmp_path / "seen").read_bytes())
    assert len(first) > 0 < len(second)
    assert sorted(first + second) == [i / 4 for i in range(N)]


# ---- writing ---------------------------------------------------------------------------------------------------------


def test_what_is_written_is_what_was_read(rows: leat.Dataset, tmp_path: Path) -> None:
    path = tmp_path / "a.leat"
    leat.ray.write(leat.ray.read(rows, override_num_blocks=3), path)
    found = leat.open(path)
    assert sorted(os.listdir(tmp_path)) == ["a.00000.leat", "a.00001.leat", "a.00002.leat", "a.leat"]
    wanted = {n: f for n, f in rows.schema.items() if n != "half"}
    assert {n: f for n, f in found.schema.items() if n != "half"} == wanted
    assert samples(found) == samples(rows)
    with pytest.raises(FileExistsError, match="a.leat exists"):
        leat.ray.write(leat.ray.read(rows), path)
    part = {"image": "image", "number": "float64"}
    leat.ray.write(leat.ray.read(rows, list(part), override_num_blocks=1), tmp_path / "b.leat")
    with leat.Writer(tmp_path / "c.leat", part) as w:
        for row in rows:
            w.write({name: row[name] for name in part})
    assert leat.open(tmp_path / "b.leat").fingerprint == leat.open(tmp_path / "c.leat").fingerprint


def cells(path: Path, dtype: str) -> leat.Dataset:
    rng = np.random.default_rng(3)
    with leat.Writer(path, {"X": leat.sparse(dtype, 30), "y": "int64"}) as w:
        for i in range(40):
            columns = np.flatnonzero(rng.random(30) < i / 39)
            w.add(X=(rng.integers(1, 200, len(columns)).astype(dtype), columns), y=i)
    return leat.open(path)


def dense(ds: leat.Dataset) -> Any:
    return np.concatenate([ds[i]["X"].to_dense() for i in range(len(ds))]).tolist()


def logarithms(batch: dict[str, Any]) -> dict[str, Any]:
    made = leat.apply({"X": [leat.ops.Log1p()]}, {"X": batch["X"]}, schema={"X": leat.sparse("int16", 30)})["X"]
    return {"X": [{"values": row.values, "columns": row.columns} for row in made], "y": batch["y"]}


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int16", "float16", "float32", "float64"])
def test_sparse_rows_are_structs_and_come_back(tmp_path: Path, dtype: str) -> None:
    ds = cells(tmp_path / "a.leat", dtype)
    source = LeatDatasource(ds, columns_of(ds, None))
    data = leat.ray.read(ds, override_num_blocks=3)
    first = data.take(40)[39]
    assert list(first) == ["X", "y"] and first["X"]["columns"] == ds[39]["X"].columns.tolist()
    assert first["X"]["values"] == ds[39]["X"].values.tolist()
    told = source.estimate_inmemory_data_size()
    assert told == sum(8 + 16 + len(ds[i]["X"].values) * (np.dtype(dtype).itemsize + 4) for i in range(40))
    leat.ray.write(data, tmp_path / "b.leat")
    assert leat.open(tmp_path / "b.leat").schema == ds.schema and dense(leat.open(tmp_path / "b.leat")) == dense(ds)
    if dtype == "float32":  # the file knows nothing of blocks
        leat.ray.write(leat.ray.read(ds, override_num_blocks=1), tmp_path / "c.leat")
        assert leat.open(tmp_path / "c.leat").fingerprint == ds.fingerprint
    kept = leat.ray.from_dataset(data)
    assert kept.schema["X"] == ds.schema["X"] and dense(kept) == dense(ds)
    for batch in leat.Loader(kept, 8, shuffle=True, framework="numpy"):
        assert batch["X"].to_dense().tolist() == [dense(ds)[i] for i in batch["y"]]


def test_sparse_rows_that_functions_made_are_written_as_they_are_said_to_be(tmp_path: Path) -> None:
    ds = cells(tmp_path / "a.leat", "int16")
    made = leat.ray.read(ds).map_batches(logarithms, batch_size=7)
    fields = {"X": leat.sparse("float32", 30), "y": None}
    leat.ray.write(made, tmp_path / "b.leat", fields)
    found = leat.open(tmp_path / "b.leat")
    assert found.schema["X"] == fields["X"] and np.allclose(dense(found), np.log1p(dense(ds)))
    assert dense(leat.ray.from_dataset(made, fields=fields)) == dense(found)


def changed(batch: dict[str, Any]) -> dict[str, Any]:
    return {
        "whole": np.stack([batch["number"]] * 3, 1).astype(np.float32),
        "varies": [np.full((int(x) % 3, 2), x) for x in batch["number"]],
        "name": [f"n{x}" for x in batch["number"]],
        "photo": batch["image"],
    }


def test_arrays_that_functions_made_are_written(rows: leat.Dataset, tmp_path: Path) -> None:
    data = leat.ray.read(rows, override_num_blocks=2).map_batches(changed, batch_size=10)
    leat.ray.write(data, tmp_path / "a.leat", fields={"whole": None, "varies": None, "name": None, "photo": "image"})
    found = leat.open(tmp_path / "a.leat")
    assert found.schema["photo"].kind == "image" and found.schema["whole"] == leat.field("float32", (3,))
    assert found.schema["varies"] == leat.field("float64", (None, 2))
    for i in range(N):
        assert found[i]["varies"].tolist() == [[i / 4, i / 4]] * (int(i / 4) % 3)
        assert (found[i]["whole"] == np.float32(i / 4)).all() and found[i]["name"] == f"n{i / 4}"


class Dying(writing.LeatDatasink):
    """Its first attempt ends with its process, once its shard is written."""

    marker = ""

    def write(self, blocks: Any, ctx: Any) -> Any:
        found = super().write(blocks, ctx)
        if not os.path.exists(self.marker):
            Path(self.marker).write_text("")
            os.kill(os.getpid(), signal.SIGKILL)
        return found


def test_a_write_task_that_is_tried_again_does_no_harm(
    rows: leat.Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class DyingOnce(Dying):
        marker = str(tmp_path / "died")

    monkeypatch.setattr(writing, "LeatDatasink", DyingOnce)
    leat.ray.write(leat.ray.read(rows, ["number"], override_num_blocks=2), tmp_path / "a.leat")
    assert sorted(os.listdir(tmp_path)) == ["a.00000.leat", "a.00001.leat", "a.leat", "died"]
    assert leat.open(tmp_path / "a.leat").column("number").tolist() == [i / 4 for i in range(N)]


def slowed(batch: dict[str, Any]) -> dict[str, Any]:
    time.sleep(0.4)
    return batch


def test_a_node_that_dies_while_it_writes_takes_no_row_with_it(
    rows: leat.Dataset, tmp_path: Path, cluster: Any
) -> None:
    """Shards that its tasks have written stay, and all others are written elsewhere."""
    data = leat.ray.read(rows, ["number", "text"], override_num_blocks=8).map_batches(slowed)
    with ThreadPoolExecutor(1) as other:
        write = other.submit(leat.ray.write, data, tmp_path / "a.leat")
        eventually(lambda: write.done() or any(tmp_path.glob("*.partial/*.leat")))
        assert not write.done()
        cluster.kill_node(cluster.nodes[0])
        write.result(PATIENCE)
    assert sorted(os.listdir(tmp_path)) == [*(f"a.{i:05d}.leat" for i in range(8)), "a.leat"]
    found = leat.open(tmp_path / "a.leat")
    assert found.column("number").tolist() == [i / 4 for i in range(N)]
    assert [row["text"] for row in found] == [row["text"] for row in rows]


def fails_late(batch: dict[str, Any]) -> dict[str, Any]:
    if batch["number"][-1] > 20:
        raise KeyError("this row")
    return batch


def test_a_write_that_fails_leaves_nothing(rows: leat.Dataset, tmp_path: Path) -> None:
    data = leat.ray.read(rows, ["number"], override_num_blocks=5)
    with pytest.raises(Exception, match="this row"):
        leat.ray.write(data.map_batches(fails_late, batch_size=10), tmp_path / "a.leat")
    with pytest.raises(ValueError, match="there are no rows to write"):
        leat.ray.write(data.filter(lambda row: row["number"] < 0), tmp_path / "a.leat")
    other = ray.data.from_items([{"other": 1}])
    with pytest.raises(ValueError, match="field"):
        leat.ray.write(data.union(other), tmp_path / "a.leat")
    with pytest.raises(OSError, match="cannot write into"):
        leat.ray.write(data, tmp_path / "nowhere" / "a.leat")
    (tmp_path / "a.00001.leat").write_text("somebody's")
    with pytest.raises(FileExistsError, match="a.00001.leat exists"):
        leat.ray.write(data, tmp_path / "a.leat")
    assert os.listdir(tmp_path) == ["a.00001.leat"]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 1 MiB."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(place)]
    if (tried := subprocess.run(mount, capture_output=True, check=False)).returncode:
        pytest.skip(f"no file system can be mounted here: {tried.stderr!r}")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def test_a_full_disk_and_one_that_cannot_be_written_are_named(small_disk: Path) -> None:
    large = ray.data.range_tensor(1000, shape=(500,), override_num_blocks=2)
    with pytest.raises(
        leat.FileError, match=r"make room on the disk, then start again: No space left on device \(.*disk/a.leat[^\n]*$"
    ) as caught:
        leat.ray.write(large, small_disk / "a.leat")
    assert os.listdir(small_disk) == [], caught.value
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    with pytest.raises(leat.FileError, match="cannot write into .*disk: Read-only file system"):
        leat.ray.write(large, small_disk / "a.leat")


# ---- materialised data sets ------------------------------------------------------------------------------------------


def test_a_loader_over_a_materialised_data_set_resumes_where_the_blocks_agree(rows: leat.Dataset) -> None:
    def loader(data: Any) -> leat.Loader:
        outputs = {"image": [leat.ops.Decode(), leat.ops.RandomResizedCrop(4)], "number": []}
        return leat.Loader(data, 8, True, seed=5, outputs=outputs, framework="numpy")

    data = leat.ray.read(rows, ["image", "number"], override_num_blocks=4)
    first = leat.ray.from_dataset(data)
    assert samples({n: row[n] for n in ("image", "number")} for row in first) == samples(
        {n: row[n] for n in ("image", "number")} for row in rows
    )
    assert first.schema["image"].kind == "image"
    with loader(first) as one, loader(leat.ray.from_dataset(data)) as other, loader(rows) as local:
        batches = list(one)
        assert all(np.array_equal(b["image"], w["image"]) for b, w in zip(batches, local, strict=True))
        iterator = iter(one)
        next(iterator)
        state = one.state_dict()
        other.load_state_dict(state)
        wanted, found = next(iterator), next(iter(other))
        assert found.ids.tolist() == wanted.ids.tolist()
        assert np.array_equal(found["image"], wanted["image"])
        with pytest.raises(leat.UnsupportedError, match="lies in the memory of this process"):
            one.plan_rows(0, 0)
    again = leat.ray.from_dataset(leat.ray.read(rows, ["image", "number"], override_num_blocks=5))
    assert again.fingerprint != first.fingerprint
    with loader(again) as third, pytest.raises(leat.StateError, match="fingerprint|data set"):
        third.load_state_dict(state)


def test_blocks_of_other_columns_or_without_rows_are_refused(rows: leat.Dataset) -> None:
    data = leat.ray.read(rows, ["number"], override_num_blocks=2)
    with pytest.raises(ValueError, match="there are no rows"):
        leat.ray.from_dataset(data.filter(lambda row: row["number"] < 0))
    assert len(leat.ray.from_dataset(data.filter(lambda row: row["number"] < 1))) == 4
    with pytest.raises(ValueError, match="block . has other columns"):
        leat.ray.from_dataset(data.union(ray.data.from_items([{"other": 1}])))
