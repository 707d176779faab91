"""leat doctor: what it measures hangs together, and what it advises follows from that."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from cli_support import jpeg, make_folder
from cli_support import leat as command

import leat


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_folder(tmp_path_factory.mktemp("doctor") / "photos", {"ant": 20, "bee": 20}, (320, 240), jpeg)


def examined(path: Path, *options: object) -> dict[str, Any]:
    said = command("doctor", path, "--json", "--seconds", 0.3, "--batch-size", 8, *options).stdout
    return json.loads(said)  # type: ignore[no-any-return]


def test_a_training_of_long_steps_is_its_own_limit(folder: Path) -> None:
    found = examined(folder, "--step-ms", 400)
    assert (found["bottleneck"], found["setting"], found["gain"], found["tried"]) == ("consumer", None, 1, [])
    assert found["needed_per_second"] == pytest.approx(20)
    assert "The training is the limit" in found["verdict"]


def test_the_last_batch_of_an_epoch_counts_with_the_samples_that_it_has(folder: Path) -> None:
    assert examined(folder, "--step-ms", 400, "--batch-size", 64)["needed_per_second"] == pytest.approx(40 / 0.4)
    assert examined(folder, "--step-ms", 400, "--batch-size", 24)["needed_per_second"] == pytest.approx(20 / 0.4)


def test_a_loader_that_is_too_slow_is_examined_and_settings_are_tried(folder: Path) -> None:
    found = examined(folder, "--step-ms", 0.001)
    assert found["bottleneck"] in ("decoding", "transforms", "reading")
    assert sum(found["shares"].values()) == pytest.approx(1)
    largest = max(found["shares"], key=found["shares"].__getitem__)
    assert largest == found["bottleneck"]
    assert "Decode" in found["thread_seconds"] and "reading" in found["thread_seconds"]
    tried = {t["setting"]: t["samples_per_second"] / t["samples_per_second_without"] for t in found["tried"]}
    if found["setting"] is None:
        assert max(tried.values(), default=0) <= 1.06 and found["gain"] == 1
    else:
        assert found["gain"] == pytest.approx(tried[found["setting"]]) and found["gain"] > 1.05
        assert next(t["how"] for t in found["tried"] if t["setting"] == found["setting"]) in found["advice"]


def test_without_a_step_nothing_is_said_of_a_training(folder: Path) -> None:
    found = examined(folder)
    assert found["needed_per_second"] is None and found["step_ms"] is None and found["bottleneck"] != "consumer"


def test_fewer_threads_than_cores_are_tried_with_all(folder: Path) -> None:
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("one core")
    found = examined(folder, "--num-threads", 1)
    assert found["threads"] == 1 and "num_threads" in {t["setting"] for t in found["tried"]}


def test_the_sizes_of_what_is_read_are_those_of_the_files(folder: Path) -> None:
    found = examined(folder, "--step-ms", 400)
    sizes = sum(p.stat().st_size for p in folder.rglob("*.jpg"))
    assert found["bytes"] == sizes and 0 < found["bytes_read_per_sample"] <= sizes / 40 + 1
    assert found["cached"] is None or 0 <= found["cached"] <= 1


def test_fast_photos_with_targets_are_examined_and_no_other_form_is_tried(folder: Path, tmp_path: Path) -> None:
    command("pack", folder, tmp_path / "a.leat", "--photos", "fast", "--quiet")
    outputs = {"image": [leat.ops.Decode(), leat.ops.Resize((64, 64))], "label": []}
    (tmp_path / "p.json").write_text(leat.program_to_json(outputs))
    found = examined(tmp_path / "a.leat", "--program", tmp_path / "p.json")
    assert "photos" not in {t["setting"] for t in found["tried"]}


def test_nothing_is_left_behind(folder: Path, tmp_path: Path) -> None:
    done = command("doctor", folder, "--seconds", 0.2, "--batch-size", 8, env={**os.environ, "TMPDIR": str(tmp_path)})
    assert list(tmp_path.iterdir()) == [] and "limit" in done.stdout


def test_a_person_reads_sentences(folder: Path) -> None:
    text = command("doctor", folder, "--seconds", 0.3, "--batch-size", 8, "--step-ms", 400).stdout
    assert "The training is the limit" in text and max(map(len, text.splitlines()[1:])) <= 120


def test_what_was_tried_is_named_as_it_is_written(tmp_path: Path) -> None:
    photos = make_folder(tmp_path / "large", {"ant": 4}, (2000, 1500), jpeg)  # decoding takes longer than a slow read
    chain = [leat.ops.Decode(), leat.ops.Resize((200, 200), "nearest")]
    (tmp_path / "p.json").write_text(leat.program_to_json({"image": chain}))
    text = command("doctor", photos, "--seconds", 0.3, "--batch-size", 2, "--program", tmp_path / "p.json").stdout
    assert "samples/s with Decode(dct_scaling=True)\n" in text
    assert "samples/s with --photos fast\n" in text
