"""Runs every check of the project and ends with a verdict.

    python tools/check.py [--only STEP ...] [--ci]

The steps are below, in order. Each prints what it does; a failing one shows its output and the others still run. The
last line counts: `N passed, N failed`. Tests in C are counted one by one from their TAP output, tests in Python from
pytest's report; any other step counts as one.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as xml
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent
ENV = dict(os.environ, PATH=f"{BIN}{os.pathsep}{os.environ['PATH']}")
FUZZ_SECONDS = int(os.environ.get("LEAT_FUZZ_SECONDS", "5"))
# The short run begins alike each time, so that a change is not blamed for the luck of a draw; a long one draws anew.
SEED = [] if "LEAT_FUZZ_SECONDS" in os.environ else ["-seed=1"]


class Failed(Exception):
    """A step that could not be run to a count: its text is shown."""


class Count:
    def __init__(self, passed: int = 0, failed: int = 0, skipped: int = 0, text: str = "") -> None:
        self.passed, self.failed, self.skipped, self.text = passed, failed, skipped, text


def run(*command: object, check: bool = True, **environment: str) -> str:
    done = subprocess.run([str(c) for c in command], cwd=ROOT, env={**ENV, **environment}, text=True,
                          errors="replace", stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if check and done.returncode:
        shown = " ".join(map(str, command))
        raise Failed(f"$ {shown if len(shown) < 300 else shown[:300] + ' ...'}\n{done.stdout[-8000:]}\nexit code {done.returncode}")
    return done.stdout


def build(name: str, compiler: str, *options: str) -> Path:
    """Configures build/NAME once and builds it."""
    folder = ROOT / "build" / name
    if not (folder / "build.ninja").exists():
        run("meson", "setup", folder, *options, CC=compiler)
    run("ninja", "-C", folder)
    return folder


def c_tests(folder: Path, *options: str, **environment: str) -> Count:
    run("meson", "test", "-C", folder, "--num-processes", os.cpu_count() or 1, "--timeout-multiplier", 6, *options, check=False, **environment)
    count = Count()
    for line in (folder / "meson-logs" / "testlog.json").read_text().splitlines():
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
    return c_tests(build("asan", "clang", "-Db_sanitize=address,undefined", "-Db_lundef=false", "-Dlibrary=false"),
                   ASAN_OPTIONS="detect_leaks=1:allocator_may_return_null=1:abort_on_error=0",
                   UBSAN_OPTIONS="halt_on_error=1:print_stacktrace=1")


def step_tsan() -> Count:
    """All but the codecs, which know no threads and take long here."""
    return c_tests(build("tsan", "gcc", "-Db_sanitize=thread", "-Dlibrary=false"), "--no-suite", "jpeg", "--no-suite", "codec",
                   TSAN_OPTIONS="halt_on_error=1")


SEEDS_OF = {"fuzz_jpeg_huffman": "fuzz_decode_jpeg", "fuzz_jpeg_pixels": "fuzz_decode_jpeg"}  # targets that share a corpus


def step_fuzz() -> Count:
    folder = build("fuzz", "clang", "-Dfuzz=true", "-Dtests=false", "-Dlibrary=false", "-Db_sanitize=address,undefined", "-Db_lundef=false")
    count = Count()
    for target in sorted(p for p in (folder / "fuzz").iterdir() if p.name.startswith("fuzz_") and os.access(p, os.X_OK) and p.is_file()):
        seeds = ROOT / "fuzz" / "corpus" / SEEDS_OF.get(target.name, target.name)
        with tempfile.TemporaryDirectory() as work:
            try:
                run(target, f"-max_total_time={FUZZ_SECONDS}", *SEED, "-timeout=20", "-rss_limit_mb=2048", "-print_final_stats=1",
                    f"-artifact_prefix={folder}/", work, *([seeds] if seeds.is_dir() else []))
                count.passed += 1
            except Failed as e:
                count.failed += 1
                count.text += f"--- {target.name}\n{e}\n"
    if not count.passed + count.failed:
        raise Failed("no fuzz target was built")
    return count


def step_package() -> Count:
    """Installs this tree into .venv if it changed."""
    run("sh", "tools/setup.sh", "test", sys.executable, (BIN.parent / ".installed-torch").read_text())
    return Count(1)


def step_python() -> Count:
    step_package()
    report = ROOT / "build" / "pytest.xml"
    out = run(sys.executable, "-m", "pytest", "-q", "--tb=short", f"--junitxml={report}", check=False,
              LEAT_CLI=str(BIN / "leat"), LEAT_REQUIRE_TORCH="1")
    suite = xml.parse(report).getroot().find("testsuite")
    if suite is None or not int(suite.get("tests", 0)):
        raise Failed(out[-4000:])
    n = {k: int(suite.get(k, 0)) for k in ("tests", "failures", "errors", "skipped")}
    bad = n["failures"] + n["errors"]
    return Count(n["tests"] - bad - n["skipped"], bad, n["skipped"], out[-8000:] if bad else "")


def step_lint() -> Count:
    files = [f for f in run("git", "ls-files", "*.c", "*.h").split() if f]
    run("clang-format", "--dry-run", "--Werror", *files)
    long = [f for f in run("git", "ls-files", "*.c", "*.h", "*.py").split() if len((ROOT / f).read_text().splitlines()) > 1000]
    if long:
        raise Failed("files above 1000 lines: " + " ".join(long))
    run("ruff", "check", ".")
    run("mypy", "--strict", "-p", "leat")
    return Count(4)


def step_wheel() -> Count:
    run(sys.executable, "tools/build_wheel.py")
    return Count(1)


def step_demo() -> Count:
    run(sys.executable, "examples/demo.py", "--short")
    return Count(1)


STEPS = {"layers": step_layers, "lint": step_lint, "gcc": step_gcc, "exports": step_exports, "asan": step_asan, "tsan": step_tsan,
         "fuzz": step_fuzz, "python": step_python, "package": step_package, "wheel": step_wheel, "demo": step_demo}
TEST = ["layers", "gcc", "exports", "asan", "tsan", "fuzz", "python"]
TITLES = {"layers": "includes point down", "lint": "formatting, file lengths, ruff, mypy", "gcc": "C tests, gcc", "exports": "exported names",
          "asan": "C tests, clang, address and undefined-behaviour sanitizers", "tsan": "C tests, thread sanitizer",
          "fuzz": f"fuzz targets, {FUZZ_SECONDS} s each", "python": "Python tests", "package": "leat into .venv", "wheel": "wheel, in a fresh environment",
          "demo": "the demo, short"}


def main() -> int:
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("--only", nargs="+", choices=STEPS, metavar="STEP", help=" ".join(STEPS))
    a.add_argument("--ci", action="store_true", help="the tests and what else guards main: lint, wheel, demo")
    o = a.parse_args()
    total = Count()
    for name in o.only or (TEST + ["lint", "wheel", "demo"] if o.ci else TEST):
        print(f"{TITLES[name]:62} ", end="", flush=True)
        t = time.monotonic()
        try:
            c = STEPS[name]()
        except Failed as e:
            c = Count(0, 1, 0, str(e))
        print(f"{c.passed:5} passed {c.failed:3} failed {c.skipped:3} skipped {time.monotonic() - t:6.0f} s", flush=True)
        if c.text:
            print(c.text, flush=True)
        total.passed, total.failed, total.skipped = total.passed + c.passed, total.failed + c.failed, total.skipped + c.skipped
    print(f"{'everything passed' if not total.failed else 'something failed: see above'}"
          + (f"; {total.skipped} skipped (LEAT_DATA names the folder of real data)" if total.skipped else ""))
    print(f"{total.passed} passed, {total.failed} failed")
    return 1 if total.failed else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        print("\ninterrupted; what was built is kept")
        sys.exit(130)
