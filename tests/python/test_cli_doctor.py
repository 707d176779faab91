"""leat doctor: what it measures hangs together, and what it advises follows from that."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import pytest
from cli_support import jpeg, make_folder
from cli_support import leat as command

import leat

T = TypeVar("T")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_folder(tmp_path_factory.mktemp("doctor") / "photos", {"ant": 20, "bee": 20}, (320, 240), jpeg)


@pytest.fixture(scope="module")
def numbers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """40 samples that take no time."""
    path = tmp_path_factory.mktemp("doctor") / "numbers.leat"
    with leat.Writer(path, {"x": "int64"}) as w:
        w.write_batch({"x": list(range(40))})
    return path


def examined(path: Path, *options: object) -> dict[str, Any]:
    said = command("doctor", path, "--json", *options).stdout
    return json.loads(said)  # type: ignore[no-any-return]


def until(wanted: Callable[[T], bool], run: Callable[[], T]) -> T:
    """The result of the first run that found decoding to be the limit, as `wanted` sees it. Parts are measured by the
    clock: a pause of the machine that falls into another part of a short run makes that one look slow."""
    for _ in range(20):
        found = run()
        if wanted(found):
            break
    return found


def decoding(path: Path, *options: object) -> dict[str, Any]:
    """As examined(), of photos whose decoding takes most of the time."""
    return until(lambda found: found["shares"]["decoding"] > 0.5, lambda: examined(path, *options))


@pytest.fixture(scope="module")
def in_time(folder: Path) -> dict[str, Any]:
    """Of a training whose first steps leave the loader time for all batches that are measured."""
    return examined(folder, "--step-ms", 400, "--batch-size", 8, "--seconds", 0.05)


@pytest.fixture(scope="module")
def too_slow(folder: Path) -> dict[str, Any]:
    """Of a training that waits for each batch: their photos take ten thousand times as long as its steps."""
    return examined(folder, "--step-ms", 0.001, "--batch-size", 40, "--seconds", 0.2)


@pytest.fixture(scope="module")
def alone(folder: Path) -> dict[str, Any]:
    """Without a training, on fewer threads than there are cores, where there are several."""
    return examined(folder, "--num-threads", 1, "--batch-size", 8, "--seconds", 0.05)


def test_a_training_of_long_steps_is_its_own_limit(in_time: dict[str, Any]) -> None:
    found = in_time
    assert (found["bottleneck"], found["setting"], found["gain"], found["tried"]) == ("consumer", None, 1, [])
    assert found["needed_per_second"] == pytest.approx(20)
    assert "The training is the limit" in found["verdict"]


def test_the_last_batch_of_an_epoch_counts_with_the_samples_that_it_has(numbers: Path) -> None:
    for batch_size, rows_of_a_step in ((64, 40), (24, 20)):
        found = examined(numbers, "--step-ms", 20, "--seconds", 0.01, "--batch-size", batch_size)
        assert found["needed_per_second"] == pytest.approx(rows_of_a_step / 0.02)


def test_a_loader_that_is_too_slow_is_examined_and_settings_are_tried(too_slow: dict[str, Any]) -> None:
    found = too_slow
    assert found["bottleneck"] in ("decoding", "transforms", "reading")
    assert sum(found["shares"].values()) == pytest.approx(1)
    assert max(found["shares"], key=found["shares"].__getitem__) == found["bottleneck"]
    assert "Decode" in found["thread_seconds"] and "reading" in found["thread_seconds"]
    if found["shares"]["decoding"] > 0.2:
        assert {"dct_scaling", "photos"} <= {t["setting"] for t in found["tried"]}


@pytest.mark.parametrize("run", ["too_slow", "alone"])
def test_the_setting_that_was_fastest_when_it_was_tried_is_advised(run: str, request: pytest.FixtureRequest) -> None:
    found = request.getfixturevalue(run)
    tried = {t["setting"]: t["samples_per_second"] / t["samples_per_second_without"] for t in found["tried"]}
    assert all(ratio > 0 for ratio in tried.values())
    if found["setting"] is None:
        assert max(tried.values(), default=0) <= 1.06 and found["gain"] == 1
    else:
        assert found["gain"] == pytest.approx(tried[found["setting"]]) and found["gain"] > 1.05
        assert next(t["how"] for t in found["tried"] if t["setting"] == found["setting"]) in found["advice"]


def test_without_a_step_nothing_is_said_of_a_training(alone: dict[str, Any]) -> None:
    assert alone["needed_per_second"] is None and alone["step_ms"] is None and alone["bottleneck"] != "consumer"


def test_fewer_threads_than_cores_are_tried_with_all(alone: dict[str, Any]) -> None:
    tried = {t["setting"] for t in alone["tried"]}
    assert alone["threads"] == 1 and ("num_threads" in tried) == (len(os.sched_getaffinity(0)) > 1)


def test_the_sizes_of_what_is_read_are_those_of_the_files(folder: Path, in_time: dict[str, Any]) -> None:
    found = in_time
    sizes = sum(p.stat().st_size for p in folder.rglob("*.jpg"))
    assert found["bytes"] == sizes and 0 < found["bytes_read_per_sample"] <= sizes / 40 + 1
    assert found["cached"] is None or 0 <= found["cached"] <= 1


def test_fast_photos_with_targets_are_examined_and_no_other_form_is_tried(folder: Path, tmp_path: Path) -> None:
    command("pack", folder, tmp_path / "a.leat", "--photos", "fast", "--quiet")
    outputs = {"image": [leat.ops.Decode(), leat.ops.Resize((64, 64), "nearest")], "label": []}
    (tmp_path / "p.json").write_text(leat.program_to_json(outputs))
    words = ("--program", tmp_path / "p.json", "--batch-size", 8, "--seconds", 0.05)
    tried = {t["setting"] for t in decoding(tmp_path / "a.leat", *words)["tried"]}
    assert "dct_scaling" in tried and "photos" not in tried


def test_a_person_reads_sentences_with_settings_as_they_are_written_and_nothing_is_left_behind(tmp_path: Path) -> None:
    photos = make_folder(tmp_path / "large", {"ant": 4}, (2000, 1500), jpeg)
    (tmp_path / "temporary").mkdir()
    chain = [leat.ops.Decode(), leat.ops.Resize((200, 200), "nearest")]
    (tmp_path / "p.json").write_text(leat.program_to_json({"image": chain}))
    words = ("doctor", photos, "--seconds", 0.1, "--batch-size", 2, "--program", tmp_path / "p.json")
    environment = {**os.environ, "TMPDIR": str(tmp_path / "temporary")}
    text = until(lambda text: "Decoding is the limit: " in text, lambda: command(*words, env=environment).stdout)
    assert "samples/s with Decode(dct_scaling=True)\n" in text
    assert "samples/s with --photos fast\n" in text
    assert "Decoding is the limit: " in text and max(map(len, text.splitlines()[1:])) <= 120
    assert list((tmp_path / "temporary").iterdir()) == []


def test_the_pack_that_is_advised_keeps_what_options_say_of_the_data(tmp_path: Path) -> None:
    photos = make_folder(tmp_path / "it's", {"ant": 4}, (2000, 1500), jpeg)
    names = sorted(p for p in photos.rglob("*.jpg"))
    (tmp_path / "labels").mkdir()
    for name in names:
        (tmp_path / "labels" / f"{name.stem}.txt").write_text("0 0.5 0.5 0.1 0.1\n")
    (tmp_path / "names.txt").write_text("ant\n")
    flat = names[0].parent
    chain = [leat.ops.Decode(), leat.ops.Resize((200, 200), "nearest")]
    (tmp_path / "p.json").write_text(leat.program_to_json({"image": chain}))
    words = ("--seconds", 0.05, "--batch-size", 2, "--program", tmp_path / "p.json")
    more: tuple[object, ...] = ("--yolo", tmp_path / "labels", "--classes", tmp_path / "names.txt", "--on-bad", "skip")
    clause = '"label.length" > 0'
    tried = {t["setting"]: t["how"] for t in decoding(flat, *words, *more, "--where", clause)["tried"]}
    given = f"--yolo {tmp_path}/labels --classes {tmp_path}/names.txt --on-bad skip --where '{clause}'"
    assert tried["photos"] == f"leat pack SRC DST {given} --photos fast"
    tried = {t["setting"]: t["how"] for t in decoding(photos, *words, "--labels", "none")["tried"]}
    assert tried["photos"] == "leat pack SRC DST --labels none --photos fast"
    long = " OR ".join(["label = 0"] * 30)
    tried = {t["setting"]: t["how"] for t in decoding(photos, *words, "--where", long)["tried"]}
    assert tried["photos"] == "leat pack SRC DST --where CLAUSE --photos fast"


# ---- a process that runs ---------------------------------------------------------------------------------------------


def waits_long(x: Any) -> Any:
    time.sleep(0.02)
    return x


@contextlib.contextmanager
def training(path: Path, chain: list[Any], step_s: float) -> Iterator[list[int]]:
    """A loader of this process whose batches are taken by a thread; the sizes of those that it has had."""
    taken, done = list[int](), threading.Event()

    def train() -> None:
        with leat.Loader(leat.open(path), 10, outputs={"x": chain}) as loader:
            while not done.is_set():
                for batch in loader:
                    taken.append(batch.size)
                    if done.wait(step_s):
                        break

    thread = threading.Thread(target=train)
    thread.start()
    try:
        while len(taken) < 4:
            time.sleep(0.01)
        yield taken
    finally:
        done.set()
        thread.join()


def watched(*options: object) -> dict[str, Any]:
    """The loader of this process that was taken from."""
    found = json.loads(command("doctor", os.getpid(), "--json", *options).stdout)
    return max(found, key=lambda one: float(one["delivered_per_second"]))  # type: ignore[no-any-return]


def test_a_training_that_runs_and_is_slow_is_its_own_limit(numbers: Path) -> None:
    with training(numbers, [], 0.3):
        found = watched("--seconds", 2)
        with leat.Loader(leat.open(numbers), 10):  # that nobody asks for a batch
            said = command("doctor", os.getpid(), "--seconds", 1).stdout
    assert found["limit"] == "the reader" and found["shares"]["the reader"] > 0.5
    assert "The training is the limit in " in found["verdict"] and found["stage"] is None
    assert "The training is the limit in " in said and "Nothing in the loader makes it faster.\n" in said
    assert "epoch 0, step 0; 0.0 samples/s" not in said


def test_functions_of_a_training_that_runs_are_named(numbers: Path) -> None:
    with training(numbers, [leat.ops.Map(waits_long)], 0.0):
        found = watched("--seconds", 2)
    assert found["limit"] == "functions" and sum(found["shares"].values()) == pytest.approx(1)
    assert found["waits"] > 0.03 and found["looks"] >= 1 and "Functions in Python are the limit" in found["verdict"]


def test_rows_that_are_made_too_slowly_are_named(tmp_path: Path) -> None:
    photos = make_folder(tmp_path / "photos", {"ant": 40}, (1600, 1200), jpeg)
    command("pack", photos, tmp_path / "a.leat", "--quiet")
    with leat.Writer(tmp_path / "b.leat", {"x": "image"}) as w:
        for row in leat.open(tmp_path / "a.leat"):
            w.add(x=row["image"])
    with training(tmp_path / "b.leat", [leat.ops.Decode(), leat.ops.Resize((8, 8))], 0.0):
        found = watched("--seconds", 2)
    assert found["limit"] in ("making rows", "storage", "budget_bytes")  # a disk may be busy
    assert found["waits"] > 0.03


def test_a_process_is_watched_if_no_file_has_its_number(numbers: Path, tmp_path: Path) -> None:
    pid = str(os.getpid())
    assert "--step-ms is of a FILE" in command("doctor", pid, "--step-ms", 5, code=2).stderr
    (tmp_path / pid).write_bytes(numbers.read_bytes())
    done = command("doctor", pid, "--json", "--seconds", 0.05, cwd=tmp_path)
    assert json.loads(done.stdout)["path"] == pid
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        try:
            assert "has no loader" in command("doctor", other.pid, code=2).stderr
        finally:
            other.kill()


def test_a_full_disk_is_told_and_leaves_no_temporary_files(folder: Path, tmp_path: Path) -> None:
    limit = partial(resource.setrlimit, resource.RLIMIT_FSIZE, (8, 8))
    environment = dict(os.environ, TMPDIR=str(tmp_path))
    words = ("doctor", folder, "--seconds", 0.05)
    run = partial(command, *words, code=None, env=environment, preexec_fn=limit)
    done = until(lambda done: done.returncode != 0, run)  # the form of photos is tried where decoding is the limit
    assert done.returncode == 2
    assert "writing a temporary file failed: File too large: TMPDIR names another place" in done.stderr
    assert list(tmp_path.iterdir()) == []
