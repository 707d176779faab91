"""tools/check.py and tools/mutate.py: what they choose, count and compare."""

from __future__ import annotations

import hashlib
import importlib
import json
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import pytest
from process_support import eventually, is_there

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import mutations  # noqa: E402  of tools/
from checks import builds, running, shards, since, steps, times  # noqa: E402

FAULTS = [
    fault
    for module in pkgutil.iter_modules(mutations.__path__)
    for fault in importlib.import_module(f"mutations.{module.name}").MUTATIONS
]


@pytest.fixture(autouse=True)
def logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Logs of commands stay apart from those of a run that these tests are part of."""
    for module in (running, times):
        monkeypatch.setattr(module, "LOGS", tmp_path / "log")
    running.here.name = "test"


def test_each_fault_still_fits_the_code_and_names_a_test_that_exists() -> None:
    assert len(FAULTS) >= 80
    assert len({fault.name for fault in FAULTS}) == len(FAULTS)
    for fault in FAULTS:
        text = (ROOT / fault.file).read_text()
        assert text.count(fault.old) == 1, f"{fault.name}: {fault.file}"
        assert fault.tier == "gate" or fault.tier in shards.SHARDS
        for test in fault.tests:
            kind, _, name = test.partition(":")
            path, _, function = name.partition("::")
            if kind == "py":
                assert f"def {function.partition('[')[0]}" in (ROOT / "tests" / "python" / path).read_text(), test
            else:
                assert kind in ("c", "property"), test


def test_every_step_is_in_a_tier() -> None:
    used = {name for lane in shards.GATE for name in lane}
    used |= {name for shard in shards.SHARDS.values() for lane in shard.lanes for name in lane}
    assert used == set(steps.STEPS)


def test_every_file_of_the_code_belongs_to_a_shard_and_every_shard_has_its_turn() -> None:
    for name in ("src/engine/job.c", "include/leat/leat.h", "cli/main.c", "python/leat/torch/order.py", "fuzz/main.c"):
        assert any(re.search(shard.paths, name) for shard in shards.SHARDS.values()), name
    commits = [hashlib.sha1(bytes([n])).hexdigest() for n in range(100)]
    assert {shards.of_commit(commit) for commit in commits} == set(shards.SHARDS)


def test_a_shard_that_passed_is_run_again_where_a_file_of_its_paths_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shards, "ROOT", tmp_path)
    monkeypatch.setattr(shards, "STATE", tmp_path / "passed.json")
    monkeypatch.setattr(shards, "run", lambda *_: "src/a.c\ndocs/a.md\n")
    for name in ("src", "docs"):
        (tmp_path / name).mkdir()
    (tmp_path / "src/a.c").write_text("1")
    (tmp_path / "docs/a.md").write_text("1")
    assert not shards.passed("tsan", "^src/")
    before = shards.fingerprint("^src/")
    shards.keep_passed("tsan", "^src/", "of files that have changed since")
    assert not shards.passed("tsan", "^src/")
    shards.keep_passed("tsan", "^src/", before)
    (tmp_path / "docs/a.md").write_text("2")
    assert shards.passed("tsan", "^src/") and not shards.passed("isa", "^src/")
    (tmp_path / "src/a.c").write_text("2")
    assert not shards.passed("tsan", "^src/")


@pytest.mark.parametrize(
    ("report", "counts"),
    [
        ({"result": "OK", "stdout": "ok 1 - a\nok 2 - b\n# SKIP b: no data\nok 3 # SKIP\n# cpu 1.5\n"}, (1, 0, 2)),
        ({"result": "FAIL", "stdout": "1..2\nok 1 - a\nnot ok 2 - b\n"}, (1, 1, 0)),
        ({"result": "ERROR", "stdout": "1..2\nok 1 - a\nok 2 - b\n", "stderr": "LeakSanitizer"}, (2, 1, 0)),
        ({"result": "FAIL", "stdout": "1..2\nok 1 - a\n", "stderr": "not over after 300 s"}, (1, 1, 0)),
        ({"result": "OK", "stdout": "no TAP\n"}, (1, 0, 0)),
    ],
)
def test_tests_in_c_are_counted_from_their_tap_output(report: dict[str, str], counts: tuple[int, int, int]) -> None:
    count = builds.counted({"name": "suite - leat:base/x", **report}, "asan")
    assert (count.passed, count.failed, count.skipped) == counts
    assert bool(count.text) == bool(counts[1])
    assert count.tests == ({"asan base/x": 1.5} if "cpu" in report["stdout"] else {})


def test_a_test_that_hangs_is_ended_with_the_stacks_of_its_processes() -> None:
    command = [sys.executable, ROOT / "tools/checks/limit.py", "sh", "-c", "sleep 900 & sleep 900; true"]
    done = subprocess.run(
        command, env={**running.ENV, "LEAT_LIMIT_S": "3"}, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 124
    assert "not over after 3 s" in done.stderr and done.stderr.count("--- process") == 3
    assert re.search(r"^# cpu [\d.]+$", done.stdout, re.M)


def test_what_a_test_leaves_behind_ends_with_it(tmp_path: Path) -> None:
    left = f"import os, time; open('{tmp_path / 'pid'}', 'w').write(str(os.getpid())); time.sleep(900)"
    shell = f'{sys.executable} -c "{left}" & while [ ! -s {tmp_path / "pid"} ]; do sleep 0.05; done; exit 3'
    done = subprocess.run([sys.executable, ROOT / "tools/checks/limit.py", "sh", "-c", shell], timeout=300)
    assert done.returncode == 3
    eventually(lambda: not is_there(int((tmp_path / "pid").read_text())))  # killed, it ends when it gets a core


def test_a_changed_header_touches_the_tests_that_include_it_by_other_headers() -> None:
    graph = {"tests/c/a.c": {"src/b.h"}, "src/b.h": {"src/c.h"}, "src/c.h": set(), "tests/c/d.c": {"src/e.h"}}
    assert since.reach(graph, {"src/c.h"}) == {"src/c.h", "src/b.h", "tests/c/a.c"}


def test_includes_are_found_from_the_folder_of_the_file_and_from_the_roots() -> None:
    files = ["src/plan/log.c", "src/plan/log.h", "src/base/alloc.h", "src/base/error.h"]
    assert {"src/plan/log.h", "src/base/alloc.h"} <= since.includes(files)["src/plan/log.c"]


def test_every_folder_of_the_code_touches_tests_in_python() -> None:
    folders = [p for p in [*(ROOT / "src").iterdir(), *(ROOT / "python" / "leat").iterdir()] if p.is_dir()]
    for folder in folders:
        if folder.name != "__pycache__":
            name = f"{folder.relative_to(ROOT)}/x.c"
            assert str(Path(name).parent) in since.PYTHON, name
    for patterns in since.PYTHON.values():
        for pattern in patterns.split():
            assert list((ROOT / "tests" / "python").glob(f"test_{pattern}.py")), pattern


def test_what_has_grown_is_said_in_units_of_the_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(times, "STORED", tmp_path / "times.json")
    first = times.Times(2.0)
    first.steps["asan"] = running.Seconds(9.0, 40.0)
    first.tests = {"test_a.py": 10.0, "test_b.py": 0.5}
    first.store()
    assert json.loads((tmp_path / "times.json").read_text()) == {"step asan": 20.0, "test_a.py": 5.0}
    slower = times.Times(4.0)  # a machine of half the speed
    slower.steps["asan"] = running.Seconds(20.0, 84.0)
    slower.tests = {"test_a.py": 30.0, "test_c.py": 40.0}
    assert [line.split()[-1] for line in slower.grown()] == ["test_c.py", "test_a.py"]
    slower.keep()
    assert json.loads((tmp_path / "log" / "times.json").read_text())["unit_s"] == 4.0
