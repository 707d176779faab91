"""The builds of the checks: how each folder of build/ is configured, and with which environment its programs run."""

from __future__ import annotations

import json
import re
import shutil
import time
from pathlib import Path

from .running import CORES, ROOT, Count, Failed, Seconds, here, run

# -O1 and line tables: quick to compile and to run, and a report still names file and line
SANITIZED = ["-Dlibrary=false", "-Db_lundef=false", "-Dbuildtype=custom", "-Doptimization=1", "-Ddebug=false"]
SANITIZED += ["-Dc_args=-gline-tables-only", "-Db_sanitize=address,undefined"]
OPTIONS = {
    "asan": SANITIZED,
    "tsan": ["-Dlibrary=false", "-Dbuildtype=debugoptimized", "-Db_sanitize=thread"],
    # optimised, compilers see more of what deserves a warning
    "isa": ["-Dbuildtype=debugoptimized"],
    # with the fuzzer's instrumentation the tests in C would take twice as long
    "fuzz": [*SANITIZED, "-Dfuzz=true", "-Dtests=false"],
    # as pip configures it, by pyproject.toml: what becomes the wheel, .venv and the demo
    "package": ["-Dbuildtype=release", "-Dpython=true", "-Dtests=false", "-Dwerror_flags=false"],
}
COMPILER = {"asan": "clang", "fuzz": "clang", "package": "cc"}
SANITIZERS = {
    "ASAN_OPTIONS": "detect_leaks=1:allocator_may_return_null=1:abort_on_error=0",
    "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1",
    "TSAN_OPTIONS": "halt_on_error=1",
}


def compiler(name: str) -> str:
    """For the variable CC. Meson adds ccache by itself only where none is named."""
    chosen = COMPILER.get(name, "gcc")
    return f"ccache {chosen}" if shutil.which("ccache") else chosen


def build(name: str, *targets: str) -> Path:
    """Configures build/NAME, anew where its options have changed, and builds it."""
    began, cpu_s = time.monotonic(), here.cpu_s
    folder = ROOT / "build" / name
    stamp, options = folder / "options", " ".join([compiler(name), *OPTIONS[name]])
    if not (folder / "build.ninja").exists() or not stamp.exists() or stamp.read_text() != options:
        shutil.rmtree(folder, ignore_errors=True)
        run("meson", "setup", folder, *OPTIONS[name], env={"CC": compiler(name)})
        stamp.write_text(options)
    run("ninja", "-C", folder, *targets)
    before = here.built or Seconds()
    here.built = Seconds(before.wall + time.monotonic() - began, before.cpu + here.cpu_s - cpu_s)
    return folder


def c_tests(folder: Path, *options: str, limit_s: int = 300, **environment: str) -> Count:
    """The tests in C of a build, each counted from its TAP output. Time limits are against hangs: see limit.py."""
    report = folder / "meson-logs" / "testlog-python.json"  # Meson names it after the wrapper
    report.unlink(missing_ok=True)
    wrapper = f"python {ROOT / 'tools' / 'checks' / 'limit.py'}"
    out = run(
        *("meson", "test", "-C", folder, "--no-rebuild", "--num-processes", CORES),
        *("--timeout-multiplier", 0, "--wrapper", wrapper, *options),
        check=False,
        env={**SANITIZERS, "LEAT_LIMIT_S": str(limit_s), **environment},
    )
    count = Count()
    for line in report.read_text().splitlines() if report.exists() else []:
        count.add(counted(json.loads(line), folder.name))
    if not count.passed or not re.search(r"^Ok: +\d+", out, re.M):
        raise Failed(f"the tests in {folder} did not run to their end\n{out[-8000:]}")
    return count


def counted(test: dict[str, object], build_name: str) -> Count:
    """What Meson's report says of one test program."""
    out, result, name = str(test.get("stdout", "")), test["result"], str(test["name"]).rpartition(":")[2]
    good = len(re.findall(r"^ok (?!.*# SKIP)", out, re.M))
    skip = len(re.findall(r"^ok .*# SKIP", out, re.M))
    silent = len(re.findall(r"^# SKIP ", out, re.M))  # tests that returned at once: see test_data in tests/c/test.h
    good, skip = good - silent, skip + silent
    bad = len(re.findall(r"^not ok ", out, re.M))
    if not good + skip + bad:  # a test without TAP output
        good, skip, bad = (int(result == r) for r in ("OK", "SKIP", "FAIL"))
    if result not in ("OK", "SKIP", "EXPECTEDFAIL") and not bad:
        bad = 1  # crashed, timed out, or a sanitizer spoke at exit
    text = f"--- {name}: {result}\n{out[-3000:]}\n{str(test.get('stderr', ''))[-6000:]}\n" if bad else ""
    cpu = re.findall(r"^# cpu ([\d.]+)$", out, re.M)
    return Count(good, bad, skip, text, {f"{build_name} {name}": float(cpu[-1])} if cpu else {})
