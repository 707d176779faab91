"""Runs the checks of the project and ends with a verdict.

    python tools/check.py [--only STEP ...] [--ci]

Without arguments these are the tests: C, Python, C under AddressSanitizer and UBSan, and each fuzz target for some
seconds. --ci adds ThreadSanitizer, the trainings of other frameworks, formatting and types, the wheel and the demo.

Steps run in lanes, side by side: one lane computes while the tests of the other one wait. A line says when a step
begins and ends; in between, where the steps under way stand. A step that fails shows its output and the others still
run. The last line counts: `N passed, N failed`. Tests in C are counted one by one from their TAP output, tests in
Python from pytest's report; any other step counts as one.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import xml.etree.ElementTree as xml
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent
ENV = dict(os.environ, PATH=f"{BIN}{os.pathsep}{os.environ['PATH']}")
CORES = len(os.sched_getaffinity(0))
FUZZ_SECONDS = int(os.environ.get("LEAT_FUZZ_SECONDS", "5"))
# The short run begins alike each time, so that a change is not blamed for the luck of a draw; a long one draws anew.
SEED = [] if "LEAT_FUZZ_SECONDS" in os.environ else ["-seed=1"]
LOGS = ROOT / "build" / "log"
LIMIT_S = 3600  # of one command: what is in it has limits of its own, far below
BEAT_S = 30  # how often the steps under way say where they stand
BEGAN = time.monotonic()


class Failed(Exception):
    """A step that could not be run to a count: its text is shown."""


class Count:
    def __init__(self, passed: int = 0, failed: int = 0, skipped: int = 0, text: str = "") -> None:
        self.passed, self.failed, self.skipped, self.text = passed, failed, skipped, text


here = threading.local()  # .name: the step that this thread runs, and the name of its log
running: set[subprocess.Popen[bytes]] = set()
stopped = threading.Event()


def run(*command: object, check: bool = True, **environment: str) -> str:
    """What the command printed, which stays in build/log too. A file is read, not a pipe, which would stay open for as
    long as anything runs that the command has left behind."""
    LOGS.mkdir(parents=True, exist_ok=True)
    with open(LOGS / f"{here.name}.log", "ab+") as log:
        begin = log.tell()
        if stopped.is_set():
            raise Failed("interrupted")
        done = subprocess.Popen([str(c) for c in command], cwd=ROOT, env={**ENV, **environment}, stdout=log, stderr=log)
        running.add(done)
        try:
            done.wait(LIMIT_S)
        except subprocess.TimeoutExpired:
            done.kill()
        running.discard(done)
        log.seek(begin)
        text = log.read().decode(errors="replace")
    if done.returncode is None or check and done.returncode:
        shown = " ".join(map(str, command))
        how = f"not over after {LIMIT_S} s" if done.returncode is None else f"exit code {done.returncode}"
        raise Failed(f"$ {shown if len(shown) < 300 else shown[:300] + ' ...'}\n{text[-16000:]}\n{how}")
    return text


def build(name: str, compiler: str, *options: str) -> Path:
    """Configures build/NAME once and builds it."""
    folder = ROOT / "build" / name
    if not (folder / "build.ninja").exists():
        run("meson", "setup", folder, *options, CC=f"ccache {compiler}" if shutil.which("ccache") else compiler)
    run("ninja", "-C", folder)
    return folder


def c_tests(folder: Path, *options: str, **environment: str) -> Count:
    report = folder / "meson-logs" / "testlog.json"
    report.unlink(missing_ok=True)
    run(
        "meson",
        "test",
        "-C",
        folder,
        "--no-rebuild",
        "--num-processes",
        CORES,
        "--timeout-multiplier",
        6,
        *options,
        check=False,
        **environment,
    )
    count = Count()
    for line in report.read_text().splitlines() if report.exists() else []:
        test = json.loads(line)
        out = test.get("stdout", "")
        good = len(re.findall(r"^ok (?!.*# SKIP)", out, re.M))
        skip = len(re.findall(r"^ok .*# SKIP", out, re.M))
        silent = len(re.findall(r"^# SKIP ", out, re.M))  # tests that returned at once: see test_data in tests/c/test.h
        good, skip = good - silent, skip + silent
        bad = len(re.findall(r"^not ok ", out, re.M))
        if not good + skip + bad:  # a test without TAP output
            good, skip, bad = (int(test["result"] == r) for r in ("OK", "SKIP", "FAIL"))
        if test["result"] not in ("OK", "SKIP", "EXPECTEDFAIL") and not bad:
            bad = 1  # crashed, timed out, or a sanitizer spoke at exit
        count.passed, count.failed, count.skipped = count.passed + good, count.failed + bad, count.skipped + skip
        if bad:
            count.text += f"--- {test['name']}: {test['result']}\n{out[-3000:]}\n{test.get('stderr', '')[-3000:]}\n"
    if not count.passed:
        raise Failed(f"no test ran in {folder}")
    return count


def step_layers() -> Count:
    run(sys.executable, "tools/check_layers.py")
    return Count(1)


def step_gcc() -> Count:
    return c_tests(build("gcc", "gcc"))


def step_exports() -> Count:
    run(sys.executable, "tools/check_exports.py", build("gcc", "gcc") / "libleat.so")
    return Count(1)


def step_asan() -> Count:
    return c_tests(
        build("asan", "clang", "-Db_sanitize=address,undefined", "-Db_lundef=false", "-Dlibrary=false"),
        ASAN_OPTIONS="detect_leaks=1:allocator_may_return_null=1:abort_on_error=0",
        UBSAN_OPTIONS="halt_on_error=1:print_stacktrace=1",
    )


def step_tsan() -> Count:
    """All but the codecs, and pixels on each instruction set: they know no threads and take long here."""
    return c_tests(
        build("tsan", "gcc", "-Db_sanitize=thread", "-Dlibrary=false"),
        "--no-suite",
        "jpeg",
        "--no-suite",
        "codec",
        "--no-suite",
        "pixels",
        TSAN_OPTIONS="halt_on_error=1",
    )


# targets that share a corpus
SEEDS_OF = {"fuzz_jpeg_huffman": "fuzz_decode_jpeg", "fuzz_jpeg_pixels": "fuzz_decode_jpeg"}


def fuzz(target: Path) -> Count:
    here.name = f"fuzz-{target.name}"
    seeds = ROOT / "fuzz" / "corpus" / SEEDS_OF.get(target.name, target.name)
    with tempfile.TemporaryDirectory() as work:
        try:
            run(
                target,
                f"-max_total_time={FUZZ_SECONDS}",
                *SEED,
                "-timeout=20",
                "-rss_limit_mb=2048",
                "-print_final_stats=1",
                f"-artifact_prefix={target.parent.parent}/",
                work,
                *([seeds] if seeds.is_dir() else []),
            )
            return Count(1)
        except Failed as e:
            return Count(0, 1, 0, f"--- {target.name}\n{e}\n")


def step_fuzz() -> Count:
    """A build of its own: with the fuzzer's instrumentation the tests in C would take twice as long."""
    folder = build(
        "fuzz",
        "clang",
        "-Dfuzz=true",
        "-Dtests=false",
        "-Dlibrary=false",
        "-Db_sanitize=address,undefined",
        "-Db_lundef=false",
    )
    targets = sorted(p for p in (folder / "fuzz").glob("fuzz_*") if p.is_file() and os.access(p, os.X_OK))
    if not targets:
        raise Failed("no fuzz target was built")
    with ThreadPoolExecutor(CORES) as pool:
        counts = list(pool.map(fuzz, targets))
    return Count(sum(c.passed for c in counts), sum(c.failed for c in counts), 0, "".join(c.text for c in counts))


def step_package() -> Count:
    """Installs this tree into .venv if it changed."""
    run("sh", "tools/setup.sh", "test", sys.executable, (BIN.parent / ".installed-torch").read_text())
    return Count(1)


def pytest(*arguments: str) -> Count:
    """On as many processes as there are cores: each takes from the longest queue when its own is empty."""
    step_package()
    report = LOGS / f"{here.name}.xml"
    out = ""
    try:
        run(
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "--tb=short",
            "-n",
            min(CORES, 8),
            "--dist",
            "worksteal",
            f"--junitxml={report}",
            *arguments,
            LEAT_CLI=str(BIN / "leat"),
            LEAT_REQUIRE_TORCH="1",
        )
    except Failed as e:
        out = str(e)
    suite = xml.parse(report).getroot().find("testsuite") if report.exists() else None
    if suite is None or not int(suite.get("tests", 0)):
        raise Failed(out)
    n = {k: int(suite.get(k, 0)) for k in ("tests", "failures", "errors", "skipped")}
    bad = n["failures"] + n["errors"]
    return Count(n["tests"] - bad - n["skipped"], max(bad, int(out != "")), n["skipped"], out)


def step_python() -> Count:
    return pytest("--ignore-glob=*/test_frameworks_*.py")


def step_frameworks() -> Count:
    return pytest(*map(str, sorted((ROOT / "tests" / "python").glob("test_frameworks_*.py"))))


def step_lint() -> Count:
    files = [f for f in run("git", "ls-files", "*.c", "*.h").split() if f]
    run("clang-format", "--dry-run", "--Werror", *files)
    long = [
        f
        for f in run("git", "ls-files", "*.c", "*.h", "*.py").split()
        if len((ROOT / f).read_text().splitlines()) > 1000
    ]
    if long:
        raise Failed("files above 1000 lines: " + " ".join(long))
    wide = [
        f"{f}:{n}"
        for f in run(
            "git", "ls-files", "*meson.build", "*.map", "*.def", "*.sh", "*.md", "*.py", "*.pyi", "*.c", "*.h"
        ).split()
        for n, line in enumerate((ROOT / f).read_text().splitlines(), 1)
        if len(line) > 120 and not (f.endswith(".md") and line.startswith("|"))  # a row of a table
    ]
    if wide:
        raise Failed("lines of more than 120 columns: " + " ".join(wide))
    run("ruff", "check", ".")
    run("mypy", "--strict", "-p", "leat")
    return Count(4)


def step_wheel() -> Count:
    run(sys.executable, "tools/build_wheel.py")
    return Count(1)


def step_demo() -> Count:
    run(sys.executable, "examples/demo.py", "--short")
    return Count(1)


TITLES = {
    "layers": "includes point down", "gcc": "C tests, gcc", "exports": "exported names",
    "asan": "C tests, clang, address and undefined-behaviour sanitizers", "tsan": "C tests, thread sanitizer",
    "fuzz": f"fuzz targets, {FUZZ_SECONDS} s each", "package": "leat into .venv", "python": "Python tests",
    "frameworks": "trainings of other frameworks", "lint": "formatting, file lengths, ruff, mypy",
    "wheel": "wheel, in a fresh environment", "demo": "the demo, short",
}  # fmt: skip
STEPS = {name: globals()[f"step_{name}"] for name in TITLES}
# What is built in one folder, or installed into .venv, is of one lane.
LANES = [
    ["layers", "gcc", "exports", "package", "python", "frameworks", "lint", "demo"],
    ["asan", "fuzz", "tsan", "wheel"],
]
TEST = {"layers", "gcc", "exports", "python", "asan", "fuzz"}


def say(text: str) -> None:
    print(f"{time.monotonic() - BEGAN:6.0f} s  {text}", flush=True)


def run_step(name: str, total: Count) -> None:
    here.name = name
    begin = time.monotonic()
    say(f"{TITLES[name]} ...")
    under_way.add(name)
    try:
        c = STEPS[name]()
    except Failed as e:
        c = Count(0, 1, 0, str(e))
    except Exception as e:  # a mistake of this file, or of what it reads: it stops no other step
        c = Count(0, 1, 0, repr(e))
    under_way.discard(name)
    total.passed += c.passed
    total.failed += c.failed
    total.skipped += c.skipped
    took = time.monotonic() - begin
    said = f"{TITLES[name]:62} {c.passed:5} passed {c.failed:3} failed {c.skipped:3} skipped {took:6.0f} s"
    say(said + (f"\n{c.text}" if c.text else ""))


def run_lane(lane: list[str], total: Count) -> None:
    for name in lane:
        run_step(name, total)


under_way: set[str] = set()


def where(name: str) -> str:
    """The last line that the step has printed."""
    logs = sorted(LOGS.glob(f"{name}*.log"), key=lambda log: log.stat().st_mtime)
    lines = [line for line in logs[-1].read_text(errors="replace")[-2000:].splitlines() if line.strip()] if logs else []
    return f"{name}: {lines[-1].strip()[-80:] if lines else ''}"


def main() -> int:
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("--only", nargs="+", choices=STEPS, metavar="STEP", help=" ".join(STEPS))
    a.add_argument("--ci", action="store_true", help="the tests and what else guards main")
    o = a.parse_args()
    chosen = set(o.only or (STEPS.keys() - {"package"} if o.ci else TEST))
    shutil.rmtree(LOGS, ignore_errors=True)
    total = Count()
    lanes = [[name for name in lane if name in chosen] for lane in LANES]
    threads = [threading.Thread(target=run_lane, args=(lane, total), daemon=True) for lane in lanes]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        for _ in range(BEAT_S * 10):
            time.sleep(0.1)
            if not any(thread.is_alive() for thread in threads):
                break
        else:
            for name in sorted(under_way):
                say(f"  {where(name)}")
    print(
        f"{'everything passed' if not total.failed else 'something failed: see above'}"
        + (f"; {total.skipped} skipped (LEAT_DATA names the folder of real data)" if total.skipped else "")
    )
    print(f"{total.passed} passed, {total.failed} failed")
    return 1 if total.failed else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        stopped.set()
        for process in list(running):
            process.terminate()
        print("\ninterrupted; what was built is kept")
        sys.exit(130)
