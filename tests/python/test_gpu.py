"""tools/gpu.sh, in short form, and what it makes of parts that go wrong."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import gpu  # noqa: E402  of tools/

RATES = {"on the card": 90_000, "by one core": 4000}
PARTS = ["tests", "rows", "steps", "jobs", "features", "photos", "e2gc", "adadagrad", "g2sd", "conadv"]


def part(code: str, limit_s: float = 60) -> gpu.Part:
    return gpu.Part("rows", "rows", [sys.executable, "-c", code], limit_s)


def test_tests_that_wait_for_a_card_have_the_marker() -> None:
    for path in gpu.TESTS.glob("test_*.py"):
        assert "skipif(not torch.cuda" not in path.read_text() or path.name == Path(__file__).name, path


def test_a_part_that_fails_or_hangs_has_told_what_it_had(tmp_path: Path) -> None:
    told = "import sys, time; print('{\"bytes\": 64}', flush=True);"
    failed = gpu.run_part(part(told + "sys.exit('why')"), tmp_path, 60)
    assert failed["status"] == "failed" and failed["reason"] == "exit code 1: why"
    late = gpu.run_part(part(told + "time.sleep(600)", 8), tmp_path, 60)
    assert late["status"] == "out of time" and late["records"] == failed["records"] == [{"bytes": 64}]


def test_tests_that_are_ended_have_told_which_passed() -> None:
    ended = "tests/test_card.py::test_a[cpu] PASSED [ 1%]\ntests/test_card.py::test_b FAILED [ 2%]\ntests/test_"
    assert gpu.test_counts(ended) == [{"passed": 1, "failed": 1}]
    assert gpu.test_counts(f"{ended}\n== 3 passed, 1 skipped in 2.00s ==") == [{"passed": 3, "skipped": 1}]
    assert gpu.test_counts("") == gpu.test_counts("no tests") == []


def test_a_part_for_which_no_time_is_left_is_named(tmp_path: Path) -> None:
    results = {p.name: gpu.run_part(p, tmp_path, 1) for p in gpu.parts(card=True)}
    assert list(results) == PARTS
    assert gpu.verdict(results, card=True) == (1, "verdict: " + ", ".join(f"{name} left out" for name in PARTS))
    assert not list(tmp_path.iterdir())


def test_the_limits_of_all_parts_are_within_the_eight_minutes() -> None:
    assert sum(p.limit_s for p in gpu.parts(card=True)) <= 480
    for name, (seconds, limit_s) in gpu.RECIPES.items():
        assert seconds < limit_s, name


def test_ways_that_are_absent_or_fail_are_named_beside_those_that_are_measured() -> None:
    measured = {"photos_per_s": 5000.0, "idle": 0.25, "link_gb_s": 30.0, "of_link": 0.6}
    assert [gpu.lines_of("steps", r)[0] for r in (
        {"plain_copy_gb_s": 50.0, "batch": 256},
        {"way": "torch"} | measured,
        {"way": "DALI", "absent": "No module named 'nvidia'"},
        {"way": "nvJPEG", "failed": "RuntimeError: why"},
        {"way": "leat, decoded on the card", "decoded": 8192} | measured,
        {"way": "decoded by one core, alone", "photos_per_s": 6000.0, "idle": None, "link_gb_s": 0.0, "of_link": 0.0},
        {"way": "one port", "jobs": 4, "photos_per_s": 20.0, "cpu_ms": 1.5},
        {"way": "one port, on the card", "jobs": 4, "photos_per_s": 20.0, "cpu_ms": 1.5, "link_bytes": 37600.0}
        | {"of_one": {"bytes": 1.0, "time": 1.5}},
    )] == [
        "a plain copy of a pinned batch of 256: 50.00 GB/s",
        "torch: 5,000 photos/s, the card idles 25%, 30.00 GB/s over the link, 60% of a plain copy's",
        "DALI: absent, No module named 'nvidia'",
        "nvJPEG: FAILED, RuntimeError: why",
        "leat, decoded on the card: 5,000 photos/s, the card idles 25%, 30.00 GB/s over the link, "
        "60% of a plain copy's, the card decoded 8,192",
        "decoded by one core, alone: 6,000 photos/s",
        "one port, 4 trainings: 20 photos/s, 1.50 ms of CPU each",
        "one port, on the card, 4 trainings: 20 photos/s, 1.50 ms of CPU each, 37.6 kB over the link each, "
        "1.00x the bytes and 1.50x the time of one training",
    ]  # fmt: skip


def test_the_line_of_a_recipe_has_all_that_it_told() -> None:
    told = {"energy of": "a", "to": "b", "ratio": [0.94, 0.95, 0.961], "unit": "J (nvml)", "used": {"a": 1.25, "b": 3}}
    assert gpu.lines_of("e2gc", told) == [
        "energy of a, to b, ratio 0.94 to 0.95 to 0.961, unit J (nvml), used a: 1.25; b: 3"
    ]


def test_a_line_that_no_part_prints_is_in_the_table_as_it_is() -> None:
    results: dict[str, gpu.Record] = {name: {"status": "passed", "seconds": 1.0, "records": []} for name in PARTS}
    results["rows"]["records"] = [{"link_gb_s": 55.0}, {"warning": "of a library"}]
    machine = dict.fromkeys(("leat", "card", "torch", "cuda", "numpy", "python", "cpu", "cores", "kernel"), "x")
    lines = gpu.table(machine | {"memory_mib": 1, "driver": "1", "peers": {"DALI": False}}, results, card=True)
    at = lines.index("rows by random ids: passed, 1.0 s")
    assert lines[at + 1 : at + 3] == [
        "    a copy of pinned memory: 55.00 GB/s",
        '    {"warning": "of a library"}',
    ]


def test_a_skipped_test_and_a_missed_aim_are_said_where_a_card_is() -> None:
    rows = {"bytes": 1024, "leat_over": {"pinned copy": [2, 2.25, 3]}}
    rows["gb_s"] = {"leat": 45.0, "pinned copy": 20.0, "leat, ids there": 50.0}
    steps = [{"way": f"decoded {by}, alone", "photos_per_s": n} for by, n in RATES.items()]
    steps += [{"way": f"leat, {way} JPEGs", "photos_per_s": n} for way, n in (("coded", 9000.0), ("pixels of", 6000.0))]
    waits = [{"way": "leat, on the card", "idle": 0.004}, {"way": "torch", "idle": 0.5}]
    waits.append({"way": "pixels, alone", "idle": None, "of_link": 0.9})
    found = {
        "tests": [{"passed": 9}],
        "rows": [{"link_gb_s": 55.0}, rows],
        "features": [{"plain torch": 2, "leat": 1}],
        "steps": [*steps, {"way": "DALI", "absent": "no"}, *waits],
        "jobs": [{"way": "one port", "jobs": 4, "of_one": {"bytes": 1.02, "time": 1.5}}],
    }
    results = {name: {"status": "passed", "records": records} for name, records in found.items()}
    assert gpu.aims(results) == [
        ("rows of 1024 B: 2.25x the copy, at least 1.5x", True),
        ("rows of 1024 B: 82% of the link, at least 90%", False),
        ("rows of 1024 B, ids there: 91% of the link, at least 90%", True),
        ("features of neighbours: 50% less time, at least 40%", True),
        ("decoding on the card: 90,000 photos/s, at least 100,000", False),
        ("decoding on the card: 22.5x one core, at least 20x", True),
        ("JPEGs as they came, coded: 1.50x the photos/s of pixels, at least 1x", True),
        ("leat, on the card: the card idles 0.4%, under 1%", True),
        ("pixels: 90% of a plain copy's rate, at least 95%", False),
        ("4 trainings of one port: 1.50x the time of one, at most 1.05x", False),
        ("4 trainings of one port: 1.02x the bytes of one over the link, at most 1.1x", True),
    ]
    assert gpu.verdict(results, card=True) == (0, "verdict: all ran and passed; 7 of 11 aims are reached")
    results["tests"]["records"] = [{"passed": 9, "skipped": 1}]
    assert gpu.verdict(results, card=True) == (1, "verdict: 1 tests skipped")


def test_wheels_of_other_sources_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / gpu.MADE_OF).write_text("another tree")
    assert gpu.run(tmp_path / "out", card=True, budget_s=60, wheels=tmp_path) == 2
    assert "are of other sources than these" in capsys.readouterr().out


@pytest.mark.shard("whole")  # it imports torch four times
def test_without_a_card_it_says_so_or_rehearses_in_short_form(tmp_path: Path) -> None:
    def run(*words: str) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "PYTHON": sys.executable, "CUDA_VISIBLE_DEVICES": ""}
        command = ["sh", ROOT / "tools/gpu.sh", tmp_path / "out", "--wheels", "none", *words]
        return subprocess.run(
            command, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=500
        )

    refused = run()
    assert refused.returncode == 2 and "PyTorch sees no card here" in refused.stdout
    done = run("--without-card")
    assert done.returncode == 0, done.stdout
    told = json.loads((tmp_path / "out" / "gpu.json").read_text())
    assert {name: r["status"] for name, r in told["parts"].items()} == dict.fromkeys(PARTS, "passed")
    assert set(told["parts"]["tests"]["records"][0]) == {"passed", "skipped"}
    assert len(told["parts"]["rows"]["records"]) == 7 and told["machine"]["card"] is None
    for name, ways in (("steps", ("leat", "torch", "leat.DataLoader")), ("jobs", ("a loader each", "one port"))):
        found = {r["way"]: r.get("photos_per_s", 0) for r in told["parts"][name]["records"]}
        assert all(found[way] > 0 for way in ways), found
    energy = told["parts"]["e2gc"]["records"]
    assert [r["pair"] for r in energy if "pair" in r] == [0, 1, 2] and len(energy[-1]["ratio"]) == 3
    assert [len(told["parts"][name]["records"]) for name in ("adadagrad", "g2sd", "conadv")] == [5, 6, 3]
    text = (tmp_path / "out" / "gpu.txt").read_text()
    assert text in done.stdout and "no figure here is one of a card" in text and "NVML" in text
