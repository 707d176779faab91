"""leat.ray.Loader: the batches and states of a leat.Loader, whatever dies."""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli_support import command
from photo_support import png
from process_support import Process, eventually, shared_memory

import leat
import leat.ray

ops = leat.ops
MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
PHOTOS = {"image": [ops.Decode(), ops.RandomResizedCrop(16), ops.Normalize(MEAN, STD)], "y": []}
N = 90


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> leat.Dataset:
    path, rng = tmp_path_factory.mktemp("on_ray") / "a.leat", np.random.default_rng(0)
    with leat.Writer(path, {"image": "image", "y": "int64", "tokens": leat.field("int32", (None,))}) as w:
        for i in range(N):
            image = rng.integers(0, 256, (24, 30, 3)).astype(np.uint8)
            w.add(image=png(image), y=i % 3, tokens=np.arange(i % 7, dtype=np.int32))
    return leat.open(path)


def told(batch: leat.Batch) -> tuple[Any, ...]:
    """All that a batch says, as plain values."""
    values = {}
    for name, value in batch.items():
        both = (value.values, value.offsets) if isinstance(value, leat.Ragged) else (value,)
        values[name] = [(v.dtype.str, v.shape, v.strides if v.size else (), v.tobytes()) for v in both]
    small = [getattr(batch, name).tolist() for name in ("ids", "row_keys", "valid", "domains")]
    return values, small, batch.errors, batch.epoch, batch.step


def both(ds: Any, *args: Any, **options: Any) -> tuple[leat.Loader, leat.Loader]:
    options = {"framework": "numpy", "seed": 3, **options}
    return leat.Loader(ds, *args, **options), leat.ray.Loader(ds, *args, **options)


PROGRAMS: dict[str, Any] = {
    "photos": {"outputs": PHOTOS, "shuffle": True},
    "as stored": {},
    "uneven": {"outputs": PHOTOS, "tail": "uneven", "shuffle": leat.Blocks(16)},
    "mixed": {"outputs": {("image", "y"): [*PHOTOS["image"], ops.MixUp(num_classes=3)]}, "drop_last": True},
    "weighted": {"outputs": PHOTOS, "sampler": leat.Weighted(np.arange(1, N + 1), 40)},
    "by length": {"outputs": {"tokens": []}, "batch_size": None, "batch_tokens": 20, "shuffle": True},
    "by cost": {"outputs": {"tokens": []}, "batch_size": None, "batch_cost": 20, "cost": "tokens.length"},
    "rank": {"outputs": PHOTOS, "rank": 1, "world_size": 3, "shuffle": True},
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_batches_are_those_of_a_loader_on_one_host(cluster: Any, photos: leat.Dataset, name: str) -> None:
    options = {"batch_size": 16, **PROGRAMS[name]}
    local, far = both(photos, **options)
    with local, far:
        for _ in range(2):
            made = list(far)
            assert len(made) == len(far) == len(local)
            for batch, want in zip(made, local, strict=True):
                assert told(batch) == told(want)
        assert far.state_dict()["at"] == local.state_dict()["at"]
        assert told(far.batch_at(0, 1)) == told(local.batch_at(0, 1))
        batches = iter(far)
        assert far.peek() is next(batches)


def test_a_batch_is_the_readers_own(cluster: Any, photos: leat.Dataset) -> None:
    _, far = both(photos, 16, outputs={**PHOTOS, "tokens": []})
    with far:
        kept = list(far)
    for batch in kept:
        batch["image"][:] = 0
        batch["y"][:] = 0
        batch["tokens"].values[:] = 0


def test_states_go_from_one_to_the_other_in_mid_epoch(cluster: Any, photos: leat.Dataset) -> None:
    want = [told(b) for b in leat.Loader(photos, 16, outputs=PHOTOS, shuffle=True, seed=3, framework="numpy")]
    state = None
    made = []
    for k in range(len(want)):
        kind = leat.ray.Loader if k % 2 else leat.Loader
        with kind(photos, 16, outputs=PHOTOS, shuffle=True, seed=3, framework="numpy") as loader:
            if state is not None:
                loader.load_state_dict(json.loads(state))
            made.append(told(next(iter(loader))))
            state = json.dumps(loader.state_dict())
    assert made == want


def test_a_batch_size_that_changes_holds_for_both(cluster: Any, photos: leat.Dataset) -> None:
    local, far = both(photos, 16, outputs=PHOTOS, shuffle=True)
    with local, far:
        taken: list[list[Any]] = [[], []]
        for loader, into in zip((local, far), taken):
            for batch in loader:
                into.append(told(batch))
                if batch.step == 1:
                    loader.set_batch_size(10)
        assert taken[0] == taken[1] and [len(t[1][0]) for t in taken[1]] == [16, 16, 10, 10, 10, 10, 10, 8]
        again = leat.Loader(photos, 16, outputs=PHOTOS, shuffle=True, seed=3, framework="numpy")
        again.load_state_dict(far.state_dict())
        assert told(next(iter(again))) == told(next(iter(far)))


# ---- what dies -------------------------------------------------------------------------------------------------------


def slowly(x: Any) -> Any:
    time.sleep(0.04)
    return x


def slow(ds: leat.Dataset, **options: Any) -> tuple[leat.Loader, leat.Loader]:
    """A loader here, and one whose cluster takes a while for the same rows: functions run there alone, because workers
    for them would be forks of this process, in which Ray has threads."""
    options |= {"framework": "numpy", "seed": 3}
    far = leat.ray.Loader(ds, 16, outputs={"image": [*PHOTOS["image"], ops.Map(slowly)], "y": []}, **options)
    return leat.Loader(ds, 16, outputs=PHOTOS, **options), far


def test_promise_2_a_node_that_dies_takes_no_row_with_it(cluster: Any, photos: leat.Dataset) -> None:
    """Twice: killed at a random batch, and another one added."""
    local, far = slow(photos, shuffle=True)
    rnd = random.Random(0)
    with local, far:
        for _ in range(2):
            step = rnd.randrange(4)
            for batch, want in zip(far, local, strict=True):
                assert told(batch) == told(want)
                if batch.step == step:
                    cluster.kill_node(rnd.choice(cluster.nodes))
                    cluster.nodes.append(cluster.add_node())
        stats = far.stats()["ray"]
        assert stats["in_use_bytes"] <= stats["peak_bytes"] <= stats["budget_bytes"] + 16 * stats["row_bytes"]


def workers() -> list[int]:
    """Ray workers that make rows."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if b"ray::leat" in (process / "cmdline").read_bytes():
                found.append(int(process.name))
        except OSError:
            continue
    return found


def test_a_worker_that_dies_is_replaced(cluster: Any, photos: leat.Dataset) -> None:
    local, far = slow(photos)
    with local, far:
        for _ in range(50):  # until a kill finds a worker at work
            for batch, want in zip(far, local, strict=True):
                assert told(batch) == told(want)
                for pid in () if far.stats()["ray"]["again"] else workers():
                    with contextlib.suppress(ProcessLookupError):  # it has ended since it was listed
                        os.kill(pid, signal.SIGKILL)
            if far.stats()["ray"]["again"]:
                break
        else:
            pytest.fail("no worker died at work")


def drives(ds: leat.Dataset, address: str, pipe: Any) -> None:
    """A training in a process of its own, a batch for each word."""
    import ray

    ray.init(address=address, log_to_driver=False, logging_level="error")
    far = steered(ds)
    for batch in far:
        pipe.send((told(batch), far.state_dict()))
        pipe.recv()


def steered(ds: leat.Dataset) -> leat.ray.Loader:
    stage = leat.ray.Stage(adds, batch_size=8, num_cpus=0.5)
    options: dict[str, Any] = {"shuffle": True, "seed": 3, "framework": "numpy"}
    return leat.ray.Loader(ds, 16, outputs=PHOTOS, stages=[stage], **options)


def test_a_driver_that_is_killed_leaves_nothing_and_another_one_goes_on(cluster: Any, photos: leat.Dataset) -> None:
    import ray

    with steered(photos) as far:
        want = [told(batch) for batch in far]
    eventually(lambda: ray.available_resources().get("CPU") == 2)
    before = shared_memory()
    driver = Process(drives, photos, cluster.address)
    made = []
    for step in range(3):
        batch, state = driver.answer()
        made.append(batch)
        if step < 2:
            driver.pipe.send(None)
    driver.kill()
    eventually(lambda: ray.available_resources().get("CPU") == 2 and shared_memory() <= before)
    with steered(photos) as far:
        far.load_state_dict(state)
        assert made + [told(batch) for batch in far] == want


def leaves(ds: leat.Dataset, address: str, pipe: Any) -> None:
    """A driver that shuts Ray down while its loader reads ahead."""
    import ray

    ray.init(address=address, log_to_driver=False, logging_level="error")
    far = steered(ds)
    batches = iter(far)
    next(batches)
    ray.shutdown()
    found = []
    with pytest.raises(leat.InvalidError) as error:
        while True:
            found.append(next(batches).step)
    assert found == list(range(1, 1 + len(found)))
    pipe.send((str(error.value), ray.is_initialized()))
    far.close()


def test_a_loader_whose_cluster_is_gone_says_so_and_starts_no_other(cluster: Any, photos: leat.Dataset) -> None:
    driver = Process(leaves, photos, cluster.address)
    said, connected = driver.answer()
    assert "Ray was shut down before the loader was closed" in said and not connected
    driver.end()


def ends_its_ray_worker(x: Any) -> Any:
    """On one sample, the Ray worker that the function's own process is of."""
    if x == KILLS:
        pid, found = os.getpid(), 0
        while pid > 1:
            if b"ray::" in Path(f"/proc/{pid}/cmdline").read_bytes():
                found = pid  # the outermost: this process may be a fork of it
            pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        os.kill(found, signal.SIGKILL)
        time.sleep(60)
    return x


KILLS = 37


def test_a_row_that_takes_three_workers_is_a_broken_sample(cluster: Any, tmp_path: Path) -> None:
    with leat.Writer(tmp_path / "a.leat", {"y": "int64"}) as w:
        for i in range(48):
            w.add(y=i)
    ds, outputs = leat.open(tmp_path / "a.leat"), {"y": [ops.Map(ends_its_ray_worker)]}
    with leat.ray.Loader(ds, 4, outputs=outputs, framework="numpy") as far:
        batches = iter(far)
        assert [next(batches).step for _ in range(9)] == list(range(9))
        with pytest.raises(leat.BrokenSampleError, match="epoch 0, step 9: row 1 of the batch took 3 Ray workers"):
            next(batches)
        state = far.state_dict()
    with leat.ray.Loader(ds, 4, outputs={"y": []}, framework="numpy") as far:
        far.load_state_dict(state)
        assert next(iter(far))["y"].tolist() == [36, 37, 38, 39]


def test_a_task_makes_several_batches_where_they_are_small(cluster: Any, photos: leat.Dataset) -> None:
    local, far = both(photos, 1, outputs={"tokens": [], "y": []}, shuffle=True, epochs=3)
    with local, far:
        for _ in range(3):
            assert [told(b) for b in far] == [told(b) for b in local]
        assert far.stats()["ray"]["tasks"] < 3 * N / 4


def test_a_slow_reader_holds_no_more_than_the_budget(cluster: Any, photos: leat.Dataset) -> None:
    outputs = {"image": [ops.Decode(), ops.Resize((600, 600)), ops.Normalize(MEAN, STD)]}
    row = 600 * 600 * 3
    with leat.ray.Loader(photos, 16, outputs=outputs, framework="numpy", budget_bytes=40 * row, num_cpus=0.5) as far:
        for batch in far:
            time.sleep(0.2)
            assert batch["image"].shape[1:] == (3, 600, 600)
        told = far.stats()["ray"]
    assert told["row_bytes"] == row and 16 * row < told["peak_bytes"] <= (40 + 16) * row
    assert not list(Path(cluster.folder.name).glob("session_*/ray_spilled*/*"))


# ---- bad input -------------------------------------------------------------------------------------------------------


def test_a_broken_sample_is_an_error_with_its_place_and_the_run_goes_on(cluster: Any, tmp_path: Path) -> None:
    with leat.Writer(tmp_path / "a.leat", {"image": "image", "y": "int64"}, check=False) as w:
        for i in range(40):
            data = png(np.full((20, 20, 3), i, np.uint8))
            w.add(image=data[:60] if i == 21 else data, y=i % 3)
    ds = leat.open(tmp_path / "a.leat")
    local, far = both(ds, 8, outputs=PHOTOS)
    with far:
        batches = iter(far)
        assert [next(batches).step, next(batches).step] == [0, 1]
        for _ in range(2):
            with pytest.raises(leat.BrokenSampleError, match=r"sample 21.*node .*epoch 0, step 2") as e:
                next(batches)
            assert e.value.sample == 21 and far.state_dict()["at"] == {"epoch": 0, "row": 16}
    for policy in ("skip", "substitute"):
        local, far = both(ds, 8, outputs=PHOTOS, on_error=policy)
        far.close()
        with leat.ray.Loader(
            ds, 8, outputs=PHOTOS, on_error=policy, framework="numpy", seed=3, error_report=tmp_path / policy
        ) as far:
            assert [told(b) for b in far] == [told(b) for b in local]
        (line,) = (json.loads(line) for line in (tmp_path / policy).read_text().splitlines())
        assert (line["epoch"], line["step"], line["row"], line["planned"]) == (0, 2, 5, 21) and "PNG" in line["reason"]
    local, far = both(ds.select([21, 1, 2]), 1, outputs=PHOTOS, on_error="skip")
    with far, pytest.raises(leat.BrokenSampleError, match="no row of the batch is left"):
        next(iter(far))


def test_a_file_that_workers_lack_is_named(cluster: Any, photos: leat.Dataset, tmp_path: Path) -> None:
    path = tmp_path / "b.leat"
    with leat.Writer(path, {"y": "int64"}) as w:
        for i in range(9):
            w.add(y=i)
    ds = leat.open(path)
    far = leat.ray.Loader(ds, 4, framework="numpy")
    path.rename(tmp_path / "c.leat")
    with far, pytest.raises(FileNotFoundError, match=r"b\.leat.*node .*, epoch 0, step 0"):
        next(iter(far))
    with leat.Writer(path, {"y": "int64"}) as w:
        w.add(y=1)
    far = leat.ray.Loader(ds, 4, framework="numpy")
    with far, pytest.raises(leat.ChangedError, match="has changed since.*node .*, epoch 0, step 0"):
        next(iter(far))


def test_what_the_cluster_cannot_do_is_said_at_once(cluster: Any, photos: leat.Dataset) -> None:
    with pytest.raises(leat.UnsupportedError, match="lies in the memory of this process"):
        leat.ray.Loader(leat.from_arrays(x=np.arange(9)), 4)
    with pytest.raises(leat.ProgramError, match="Normalize"):
        leat.ray.Loader(photos, 4, outputs={"y": [ops.Normalize(MEAN, STD)]})
    for wrong in ({"num_cpus": 0}, {"budget_bytes": 0}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            leat.ray.Loader(photos, 4, **wrong)
    with leat.ray.Loader(photos, 4) as far:
        with pytest.raises(leat.UnsupportedError, match="further consumers"):
            far.consumer(2)
        with pytest.raises(leat.UnsupportedError, match="made by a cluster"):
            leat.Port(far, "on-ray")
    big = {"image": [ops.Decode(), ops.Resize((2000, 2000))]}
    with pytest.raises(leat.BudgetError, match=r"does not fit into half of the smallest store .*bytes"):
        leat.ray.Loader(photos, 64, outputs=big)


def test_leat_top_shows_the_cluster(cluster: Any, photos: leat.Dataset) -> None:
    with leat.ray.Loader(photos, 16, outputs=PHOTOS, stages=[leat.ray.Stage(adds, batch_size=8)]) as far:
        list(far)
        mine = {"stages": [{"rows": 0}]}
        while mine["stages"][0]["rows"] < N:  # it is told twice a second
            page = json.loads(top("--json"))
            (mine,) = [each["elsewhere"] for each in page if "elsewhere" in each] or [mine]
        assert mine["ray"]["tasks"] >= 6 and sum(mine["ray"]["nodes"].values()) >= N
        assert mine["stages"][0]["name"] == "adds" and mine["stages"][0]["rows"] >= N
        shown = top("--once", "--seconds", "0.3")
        assert re.search(r"cluster +\d+ flying, \d+ can run; .* of .* in stores", shown)
        assert "stage      adds: " in shown and re.search(r"node +.* rows", shown) and "limit  " in shown


def adds(rows: dict[str, Any]) -> dict[str, Any]:
    return {"z": rows["y"] + 1}


def top(*options: str) -> str:
    return subprocess.run(
        [command(), "top", str(os.getpid()), *options], capture_output=True, text=True, check=True
    ).stdout
