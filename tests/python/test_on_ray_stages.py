"""Stages of leat.ray.Loader: functions on rows, in actors of their own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli_support import command
from photo_support import png
from process_support import eventually
from scipy import sparse

import leat
import leat.ray

ops = leat.ops
Stage = leat.ray.Stage
MARK = Path(__file__).parent / ".." / ".." / "build" / "killed"  #: while it is there, functions end their workers
OUTPUTS = {"image": [ops.Decode(), ops.RandomResizedCrop(8), ops.ToDtype("float32")], "y": [], "tokens": []}


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> leat.Dataset:
    path, rng = tmp_path_factory.mktemp("stages") / "a.leat", np.random.default_rng(0)
    with leat.Writer(path, {"image": "image", "y": "int64", "tokens": leat.field("int32", (None,))}) as w:
        for i in range(50):
            image = rng.integers(0, 256, (12, 15, 3)).astype(np.uint8)
            w.add(image=png(image), y=i, tokens=np.arange(i % 5, dtype=np.int32))
    return leat.open(path)


def mean(rows: dict[str, Any]) -> dict[str, Any]:
    n = len(rows["ids"])
    lengths = np.diff(rows["tokens"].offsets)
    found = {"mean": rows["image"].mean((1, 2, 3)), "lengths": lengths, "of": np.full(n, n)}
    found["key"] = rows["row_keys"].copy()
    for name in ("image", "y", "ids", "row_keys"):  # its own to write to
        rows[name][:] = 0
    return found


class Embeds:
    """A class is made once in each actor."""

    def __init__(self) -> None:
        self.axes = (1, 2, 3)

    def __call__(self, rows: dict[str, Any]) -> dict[str, Any]:
        return {"image": rows["image"].max(self.axes)}


def loader(ds: Any, *stages: Stage, **options: Any) -> leat.ray.Loader:
    return leat.ray.Loader(
        ds,
        **{"batch_size": 16, "outputs": OUTPUTS, "shuffle": True, "seed": 1, "framework": "numpy", **options},
        stages=stages,
    )


def expected(ds: Any, n: int) -> list[dict[str, Any]]:
    """The stages on the batches of a loader on one host."""
    found, embeds = [], Embeds()
    for batch in leat.Loader(ds, 16, outputs=OUTPUTS, shuffle=True, seed=1, framework="numpy"):
        rows = {**batch, "ids": batch.ids, "row_keys": batch.row_keys}
        parts = [batch.ids[a : a + n] for a in range(0, batch.size, n)]
        of = np.concatenate([np.full(len(p), len(p)) for p in parts])
        given = {name: value.copy() if hasattr(value, "copy") else value for name, value in rows.items()}
        found.append({**rows, **mean(given), "of": of, **embeds(rows)})
    return found


def test_stages_see_rows_behind_the_program_in_calls_of_their_size(cluster: Any, photos: leat.Dataset) -> None:
    for framework in ("numpy", "torch"):
        with loader(
            photos, Stage(mean, batch_size=5), Stage(Embeds, batch_size=7, num_cpus=0), framework=framework, epochs=1
        ) as far:
            made, want = list(far), expected(photos, 5)
            assert len(made) == len(want) == 4
            for batch, values in zip(made, want):
                assert list(batch) == ["image", "y", "tokens", "mean", "lengths", "of", "key"]
                for name in batch:
                    value = batch[name].values if name == "tokens" else batch[name]
                    wanted = values[name].values if name == "tokens" else values[name]
                    np.testing.assert_array_equal(np.asarray(value), wanted, err_msg=name)
                np.testing.assert_array_equal(np.asarray(batch.ids), values["ids"])
            told = far.stats()["stages"]
            assert [(s["name"], s["rows"], s["nondeterministic"]) for s in told[:1]] == [("mean", 50, False)]
            assert told[1]["rows"] >= 50 and told[1]["seconds"] > 0 and told[1]["actors"] >= 1
            again = far.batch_at(0, 2)
            np.testing.assert_array_equal(np.asarray(again["image"]), np.asarray(made[2]["image"]))


def test_ranks_cut_the_calls_of_global_batches(cluster: Any, photos: leat.Dataset) -> None:
    whole = [b["of"] for b in loader(photos, Stage(mean, batch_size=5), drop_last=True)]
    for rank in range(2):
        with loader(
            photos,
            Stage(mean, batch_size=5),
            batch_size=None,
            global_batch_size=16,
            rank=rank,
            world_size=2,
            drop_last=True,
        ) as far:
            assert [b["of"].tolist() for b in far] == [b[8 * rank : 8 * rank + 8].tolist() for b in whole]
    with pytest.raises(leat.UnsupportedError, match="drop_last"):
        loader(photos, Stage(mean), rank=0, world_size=2)


def halves(rows: dict[str, Any]) -> dict[str, Any]:
    """Sparse rows in the place of sparse rows, others beside them, and dense ones."""
    x = rows["X"]
    x.values[:] = x.values / 2
    doubled = sparse.csr_matrix(np.asarray(x.to_dense()) * 4)
    return {"X": leat.Sparse(x.values, x.columns, x.offsets, x.n), "twice": doubled, "sum": x.to_dense().sum(1)}


def counts(rows: dict[str, Any]) -> dict[str, Any]:
    return {"twice": rows["twice"].lengths, "again": rows["X"]}


def odd_columns(rows: dict[str, Any]) -> dict[str, Any]:
    return {"X": leat.Sparse(np.ones(2), np.array([1, 0]), np.array([0, 2]), 5)}


def columns_twice(rows: dict[str, Any]) -> dict[str, Any]:
    return {"X": rows["X"], "X.columns": rows["y"]}


def test_stages_take_and_give_sparse_rows(cluster: Any, tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    matrix = sparse.csr_matrix((rng.integers(1, 9, (50, 20)) * (rng.random((50, 20)) < 0.3)).astype(np.float32))
    with leat.Writer(tmp_path / "a.leat", {"X": leat.sparse("float32", 20), "y": "int64"}) as w:
        for i in range(50):
            w.add(X=matrix[i], y=i)
    ds, dense = leat.open(tmp_path / "a.leat"), matrix.toarray()
    options = {"outputs": None}
    two = Stage(halves, batch_size=5, num_cpus=0), Stage(counts, batch_size=7, num_cpus=0)
    with loader(ds, *two, **options) as far:
        for batch in far:
            wanted = dense[batch.ids]
            assert sorted(batch) == ["X", "again", "sum", "twice", "y"]
            for name in ("X", "again"):
                assert isinstance(batch[name], leat.Sparse) and (batch[name].to_dense() == wanted / 2).all()
            assert (batch["sum"] == wanted.sum(1) / 2).all() and (batch["twice"] == (wanted > 0).sum(1)).all()
        assert (far.batch_at(0, 1)["X"].to_dense() == dense[far.batch_at(0, 1).ids] / 2).all()
    with loader(ds, Stage(halves), **options) as far:
        for batch in far:
            assert (batch["twice"].to_dense() == dense[batch.ids] * 2).all() and batch["twice"].n == 20
    for fn, wrong in (
        (odd_columns, "column 0 of row 0 stands behind 1"),
        (columns_twice, "X.columns': the columns of the sparse rows"),
    ):
        with loader(ds, Stage(fn), **options) as far, pytest.raises(leat.InvalidError, match=wrong):
            next(iter(far))


def kills_once(rows: dict[str, Any]) -> dict[str, Any]:
    mark = Path(os.environ["PYTHONPATH"], "..", "..", "build", "killed")
    if 7 in rows["ids"] and not mark.exists():
        mark.parent.mkdir(exist_ok=True)
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return {"twice": rows["y"] * 2}


def test_an_actor_that_dies_is_replaced_and_its_rows_made_again(cluster: Any, photos: leat.Dataset) -> None:
    mark = Path(__file__).parent / ".." / ".." / "build" / "killed"
    mark.unlink(missing_ok=True)
    with loader(photos, Stage(kills_once, batch_size=4)) as far:
        for batch in far:
            np.testing.assert_array_equal(batch["twice"], 2 * batch["y"])
        assert far.stats()["ray"]["again"] >= 1
    mark.unlink()


def test_a_node_that_dies_takes_no_row_with_it(cluster: Any, photos: leat.Dataset) -> None:
    with loader(photos, Stage(mean, batch_size=5, num_cpus=0)) as far:
        want = [b["mean"] for b in far]
        for batch in far:
            if batch.step == 0:
                cluster.kill_node(cluster.nodes[0])
                cluster.nodes.append(cluster.add_node())
            assert batch.size in (16, 2)
        far.set_epoch(0)
        np.testing.assert_array_equal(np.concatenate([b["mean"] for b in far]), np.concatenate(want))


def kills(rows: dict[str, Any]) -> dict[str, Any]:
    """Ends its worker by the signal of a machine without memory, at one row, as long as the mark is there."""
    if 6 in rows["ids"] and MARK.exists():
        os.kill(os.getpid(), signal.SIGKILL)
    return {"twice": rows["y"] * 2}


def test_rows_that_take_three_workers_of_a_stage_are_named_and_the_run_goes_on(
    cluster: Any, photos: leat.Dataset
) -> None:
    """Calls that wait behind them at the same actor take no blame."""
    MARK.parent.mkdir(exist_ok=True)
    MARK.touch()
    options: dict[str, Any] = {"batch_size": 4, "shuffle": False, "epochs": 1}
    with loader(photos[:12], Stage(kills, batch_size=2, num_cpus=0, actors=(1, 1)), **options) as far:
        batches = iter(far)
        assert next(batches)["twice"].tolist() == [0, 2, 4, 6]
        for _ in range(2):
            with pytest.raises(
                leat.BrokenSampleError,
                match=r"epoch 0, step 1: rows 2 to 3 of the batch took 3 Ray workers with them, in stage 'kills'",
            ):
                next(batches)
        state = far.state_dict()
        assert state["at"] == {"epoch": 0, "row": 4}
        MARK.unlink()
        assert [b["twice"].tolist() for b in batches] == [[8, 10, 12, 14], [16, 18, 20, 22]]
    with loader(photos[:12], Stage(doubled), **options) as far:
        far.load_state_dict(state)
        assert [b["twice"].tolist() for b in far] == [[8, 10, 12, 14], [16, 18, 20, 22]]


MEGA = [ops.Decode(), ops.Resize((500, 667)), ops.ToDtype("uint8")]  #: a row of 1 MB


def tenfold(rows: dict[str, Any]) -> dict[str, Any]:
    return {"image": np.repeat(rows["image"], 10, axis=1)}


def more_and_more(rows: dict[str, Any]) -> dict[str, Any]:
    """Of row i i / 4 megabytes."""
    lengths = rows["ids"] * (1 << 18)
    return {"image": leat.Ragged(np.zeros(lengths.sum(), np.uint8), np.concatenate([[0], np.cumsum(lengths)]))}


@pytest.mark.parametrize("fn", [tenfold, more_and_more])
def test_stages_whose_outputs_grow_keep_to_the_budget(cluster: Any, photos: leat.Dataset, fn: Any) -> None:
    budget, batch = 64 << 20, 2 * 11 * 1_000_500
    stage = Stage(fn, num_cpus=0)
    with loader(photos[:40], stage, batch_size=2, outputs={"image": MEGA}, budget_bytes=budget, shuffle=False) as far:
        for each in far:
            time.sleep(0.1)
            assert each.size == 2
        told = far.stats()["ray"]
    assert batch < told["peak_bytes"] <= budget + batch
    assert not list(Path(cluster.folder.name).glob("session_*/ray_spilled*/*"))


def noise(rows: dict[str, Any]) -> dict[str, Any]:
    return {"noise": np.frombuffer(os.urandom(8 * len(rows["ids"])), np.int64)}


def test_a_stage_that_is_not_deterministic_says_so_or_is_found_out(
    cluster: Any, photos: leat.Dataset, tmp_path: Path
) -> None:
    with loader(photos, Stage(noise)) as far:
        next(iter(far))
        with pytest.raises(leat.InvalidError, match=r"stage 'noise' gave other bytes .*epoch 0, step 0"):
            far.batch_at(0, 0)
    with pytest.raises(leat.InvalidError, match="needs log_dir"):
        loader(photos, Stage(noise, deterministic=False))
    with loader(photos, Stage(noise, deterministic=False), log_dir=tmp_path) as far:
        made = list(far)
        with pytest.raises(leat.UnsupportedError, match="'noise' is not deterministic.*same bytes"):
            far.batch_at(0, 0)
        assert far.stats()["stages"][0]["nondeterministic"]
    lines = [json.loads(line) for line in (tmp_path / "stages-0.jsonl").read_text().splitlines()]
    assert [(each["epoch"], each["step"]) for each in lines] == [(0, 0), (0, 1), (0, 2), (0, 3)]
    assert len({each["hashes"][0] for each in lines}) == 4 == len(made)


def raises(rows: dict[str, Any]) -> dict[str, Any]:
    raise ZeroDivisionError("no embedding")


def short(rows: dict[str, Any]) -> dict[str, Any]:
    return {"x": np.zeros(3)}


def text(rows: dict[str, Any]) -> dict[str, Any]:
    return {"x": ["a"] * len(rows["ids"])}


def nothing(rows: dict[str, Any]) -> Any:
    return None


def other(rows: dict[str, Any]) -> dict[str, Any]:
    return {"x": np.zeros((len(rows["ids"]), 1 + int(rows["ids"][0]) % 5))}


def unsorted(rows: dict[str, Any]) -> dict[str, Any]:
    n = len(rows["ids"])
    return {"x": leat.Ragged(np.zeros(n), np.arange(n, -1, -1))}


class Odd(Exception):
    def __init__(self, a: int, b: int) -> None:
        super().__init__(f"{a} and {b}")


def odd(rows: dict[str, Any]) -> dict[str, Any]:
    raise Odd(1, 2)


WRONG = {
    unsorted: (leat.InvalidError, "offsets that descend"),
    odd: (RuntimeError, "Odd: 1 and 2"),
    raises: (ZeroDivisionError, "no embedding"),
    short: (leat.InvalidError, r"output 'x' of the stage has 3 rows, and was given 16"),
    text: (leat.InvalidError, "an array of numbers is wanted"),
    nothing: (leat.InvalidError, "the stage returned NoneType"),
    other: (leat.InvalidError, r"stage 'other' returned .*'x', 'float64', \(\d,\)"),
}


@pytest.mark.parametrize("fn", WRONG, ids=lambda fn: fn.__name__)
def test_what_a_stage_does_wrong_is_said_with_its_place(cluster: Any, photos: leat.Dataset, fn: Any) -> None:
    kind, words = WRONG[fn]
    with loader(photos, Stage(fn)) as far, pytest.raises(kind, match=words) as e:
        list(far)
    said = str(e.value) + " ".join(getattr(e.value, "__notes__", []))
    assert "epoch 0, step " in said and "node " in said and fn.__name__ in said


def hangs(rows: dict[str, Any]) -> dict[str, Any]:
    signal.pause()
    return {}


def test_a_stage_that_hangs_is_named_and_ends_by_an_interrupt(
    cluster: Any, photos: leat.Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("leat.ray.flow.PATIENCE_S", 1.0)

    class Interrupted(Exception):
        pass

    def show(message: Any, *_: Any, **__: Any) -> None:
        if "stage 'hangs'" in str(message) and "has not started" not in str(message):
            raise Interrupted(str(message))

    with loader(photos, Stage(hangs)) as far:
        monkeypatch.setattr(warnings, "showwarning", show)
        with pytest.raises(Interrupted, match=r"epoch 0, step 0: waiting for stage 'hangs', rows 0 to 16, on .*node "):
            warnings.simplefilter("always")
            next(iter(far))
        assert far.state_dict()["at"] == {"epoch": 0, "row": 0}


def test_what_no_cluster_can_run_is_said_at_once(cluster: Any, photos: leat.Dataset) -> None:
    with pytest.raises(leat.InvalidError, match="actors of stages take 2 of them, and a task 1"):
        loader(photos, Stage(mean, actors=(2, 2)))
    for wrong in ({"batch_size": 0}, {"actors": (2, 1)}):
        with pytest.raises(ValueError, match="of a stage"):
            Stage(mean, **wrong)
    with pytest.raises(TypeError, match="function or a class"):
        Stage(3)  # type: ignore[arg-type]


def doubled(rows: dict[str, Any]) -> dict[str, Any]:
    return {"twice": rows["y"] * 2}


def test_decisions_change_what_a_stage_is_compared_with(cluster: Any, photos: leat.Dataset) -> None:
    with loader(photos, Stage(doubled, batch_size=4)) as far:
        batches = iter(far)
        first = next(batches)
        far.set_batch_size(9)
        rest = list(batches)
        np.testing.assert_array_equal(
            np.concatenate([b["twice"] for b in rest]), 2 * np.concatenate([b["y"] for b in rest])
        )
        assert first.size + sum(b.size for b in rest) == 50


def test_rows_that_are_left_out_are_in_no_call(cluster: Any, tmp_path: Path) -> None:
    with leat.Writer(tmp_path / "a.leat", {"image": "image", "y": "int64"}, check=False) as w:
        for i in range(12):
            data = png(np.full((20, 20, 3), i, np.uint8))
            w.add(image=data[:60] if i in (5, 6) else data, y=i)
    outputs = {"image": [ops.Decode(), ops.CenterCrop(8)], "y": []}
    options = {"outputs": outputs, "on_error": "skip", "shuffle": False, "batch_size": 12}
    with loader(leat.open(tmp_path / "a.leat"), Stage(doubled, batch_size=1), **options) as far:
        (batch,) = far
        assert batch["twice"].tolist() == [2 * i for i in range(12) if i not in (5, 6)]
        assert [(e.row, e.planned) for e in batch.errors] == [(5, 5), (6, 6)]


def sleeps(rows: dict[str, Any]) -> dict[str, Any]:
    time.sleep(0.05 * len(rows["ids"]))
    return {"slow": rows["y"]}


def test_a_stage_has_as_many_actors_as_its_calls_need(cluster: Any, photos: leat.Dataset) -> None:
    with loader(photos, Stage(sleeps, batch_size=4, actors=(1, 2), num_cpus=0), batch_size=8) as far:

        def actors() -> int:
            return int(far.stats()["stages"][0]["actors"])

        for _ in range(100):  # a reader that waits for its rows
            if actors() == 2 or not list(far):
                break
        assert actors() == 2
        eventually(lambda: actors() == 1)  # nobody reads


def test_doctor_names_the_stage_that_limits_a_run(cluster: Any, photos: leat.Dataset) -> None:
    done = threading.Event()

    def train(far: leat.ray.Loader) -> None:
        while not done.is_set():
            for _ in far:
                if done.is_set():
                    break

    stages = Stage(doubled, num_cpus=0), Stage(sleeps, batch_size=4, actors=(1, 1), num_cpus=0)
    with loader(photos, *stages) as far:
        thread = threading.Thread(target=train, args=(far,))
        thread.start()
        try:
            while far.stats()["stages"][1]["calls"] < 4:
                time.sleep(0.05)
            found = json.loads(doctor("--seconds", "3", "--json"))
            said = doctor("--seconds", "2")
        finally:
            done.set()
            thread.join()
    (mine,) = [one for one in found if one["stage"]]
    assert mine["limit"] == "stage sleeps" and mine["shares"]["stage sleeps"] > 0.5 and mine["looks"] >= 2
    assert mine["stage"]["name"] == "sleeps" and mine["stage"]["actors"] == 1
    assert mine["stage"]["seconds_per_row"] >= 0.05 and mine["stage"]["rows_per_second"] > 0 and mine["waits"] > 0.5
    assert "The stage sleeps is the limit in " in said and "actors=(1, N)" in said


def doctor(*options: str) -> str:
    words = [command(), "doctor", str(os.getpid()), *options]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout
