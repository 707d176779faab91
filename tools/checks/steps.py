"""The steps of the checks. Each is a function that counts what passed and what failed."""

from __future__ import annotations

import base64
import os
import re
import sys
import tempfile
import xml.etree.ElementTree as xml
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from .builds import SANITIZERS, build, c_tests
from .running import BIN, CORES, LOGS, ROOT, Count, Failed, here, run

PYTHON_TESTS = ROOT / "tests" / "python"
FUZZ_SECONDS = int(os.environ.get("LEAT_FUZZ_SECONDS", "10"))
EXPORTS = ["libleat.so", "python/_leat.abi3.so"]


class Options:
    """What the command line has said."""

    seed = 1  # of what is drawn: a shard's is of the commit
    c_tests: list[str] = []  # Meson's names; empty: all
    py_tests: list[str] = []  # files; empty: all


options = Options()
STEPS: dict[str, tuple[str, Callable[[], Count]]] = {}  # name: (title, function)


def step(name: str, title: str) -> Callable[[Callable[[], Count]], Callable[[], Count]]:
    def add(function: Callable[[], Count]) -> Callable[[], Count]:
        STEPS[name] = (title, function)
        return function

    return add


# --- what the gate runs -----------------------------------------------------------------------------------------------
@step("layers", "includes point down")
def layers() -> Count:
    run(sys.executable, "tools/check_layers.py")
    return Count(1)


@step("asan", "C tests and corpora, clang, address and undefined-behaviour sanitizers")
def asan() -> Count:
    """Each test once: the other instruction sets are another build's."""
    return c_tests(build("asan"), "--no-suite", "isa", *options.c_tests)


@step("package", "the release build, and leat into .venv")
def package() -> Count:
    return set_up("test")


def set_up(level: str) -> Count:
    run("sh", "tools/setup.sh", level, sys.executable, (BIN.parent / ".installed-torch").read_text())
    (ROOT / "build" / "setup-seconds").unlink()  # they are of this step, not of what was before the run
    return Count(1)


@step("exports", "exported names")
def exports() -> Count:
    for library in EXPORTS:
        run(sys.executable, "tools/check_exports.py", ROOT / "build" / "package" / library)
    return Count(len(EXPORTS))


@step("python", "Python tests")
def python() -> Count:
    return pytest("gate", *options.py_tests)


@step("lint", "formatting, lengths, ruff, mypy")
def lint() -> Count:
    c_files = run("git", "ls-files", "*.c", "*.h").split()
    run("clang-format", "--dry-run", "--Werror", *c_files)
    texts = "*meson.build", "*.map", "*.def", "*.sh", "*.md", "*.py", "*.pyi", "*.c", "*.h"
    wrong = list[str]()
    for name in run("git", "ls-files", *texts).split():
        lines = (ROOT / name).read_text().splitlines()
        if len(lines) > 1000 and name.endswith((".c", ".h", ".py")):
            wrong.append(f"{name} has more than 1000 lines")
        for number, line in enumerate(lines, 1):
            if len(line) > 120 and not (name.endswith(".md") and line.startswith("|")):  # a row of a table
                wrong.append(f"{name}:{number} has more than 120 columns")
    if wrong:
        raise Failed("\n".join(wrong))
    run("ruff", "check", ".")
    run("mypy", "--strict", "-p", "leat", "-m", "use", env={"MYPYPATH": "tests/typed"})
    return Count(4)


def pytest(shard: str, *arguments: object, python: object = sys.executable, **environment: str) -> Count:
    """On as many processes as there are cores: each takes from the longest queue when its own is empty."""
    report = LOGS / f"{here.name}.xml"
    out = ""
    try:
        run(
            *(python, "-m", "pytest", "-q", "--tb=short", "-n", min(CORES, 8), "--dist", "worksteal"),
            *(f"--shard={shard}", f"--junitxml={report}", *(arguments or [PYTHON_TESTS])),
            env={"LEAT_CLI": str(BIN / "leat"), "LEAT_REQUIRE_TORCH": "1", "PYTHONHASHSEED": "0", **environment},
        )
    except Failed as e:
        out = str(e)
    suite = xml.parse(report).getroot().find("testsuite") if report.exists() else None
    if suite is None or not int(suite.get("tests", 0)):
        raise Failed(out or "no test ran")
    n = {k: int(suite.get(k, 0)) for k in ("tests", "failures", "errors", "skipped")}
    bad = n["failures"] + n["errors"]
    return Count(n["tests"] - bad - n["skipped"], max(bad, int(out != "")), n["skipped"], out, cpu_of_tests(suite))


def cpu_of_tests(suite: xml.Element) -> dict[str, float]:
    """CPU seconds: of each file, and beside it of each test above a second."""
    found: dict[str, float] = {}
    for case in suite.iter("testcase"):
        file = case.get("classname", "").rpartition(".")[2] + ".py"
        used = [float(p.get("value", 0)) for p in case.iter("property") if p.get("name") == "cpu_s"]
        found[file] = found.get(file, 0.0) + sum(used)
        if sum(used) > 1:
            name = f"{file}::{case.get('name')}"
            found[name] = found.get(name, 0.0) + sum(used)
    return found


# --- deep shards ------------------------------------------------------------------------------------------------------
@step("tsan", "C tests with threads, thread sanitizer")
def tsan() -> Count:
    suites = ["engine", "port", "worker", "io", "store", "columns", "feedback", "threads"]
    chosen = [part for suite in suites for part in ("--suite", suite)]
    return c_tests(build("tsan"), "--no-suite", "isa", *chosen, *options.c_tests, limit_s=900)


@step("isa", "C tests, gcc, on every instruction set and in full")
def isa() -> Count:
    return c_tests(build("isa"), *options.c_tests, LEAT_TEST_FULL="1", limit_s=900)


@step("tidy", "clang-tidy")
def tidy() -> Count:
    """With the checks of .clang-tidy: of the library and the command what the build of the sanitizers compiles, of the
    extension what the release build does."""
    parts = [
        (folder, part[i::CORES])
        for folder, part in (
            (build("asan", "build.ninja"), compiled("asan", "src/*.c", "cli/*.c")),
            (build("package", "build.ninja"), compiled("package", "python/src/*.c")),
        )
        for i in range(CORES)
    ]
    log = here.name

    def look(part: tuple[Path, list[str]]) -> float:
        here.name, here.cpu_s = log, 0.0
        run("clang-tidy", "--quiet", "-p", part[0], *part[1])
        return here.cpu_s

    with ThreadPoolExecutor(CORES) as pool:
        here.cpu_s += sum(pool.map(look, parts))
    return Count(1)


def compiled(build_name: str, *patterns: str) -> list[str]:
    """The files of these patterns that the build compiles."""
    known = (ROOT / "build" / build_name / "compile_commands.json").read_text()
    return [s for s in run("git", "ls-files", *patterns).split() if f'/{s}"' in known]


# targets that share a corpus
SEEDS_OF = {"fuzz_jpeg_huffman": "fuzz_decode_jpeg", "fuzz_jpeg_pixels": "fuzz_decode_jpeg"}


@step("fuzz", f"fuzz targets, {FUZZ_SECONDS} s each")
def fuzz() -> Count:
    folder = build("fuzz")
    targets = sorted(p for p in (folder / "fuzz").glob("fuzz_*") if p.is_file() and os.access(p, os.X_OK))
    if not targets:
        raise Failed("no fuzz target was built")
    count = Count()
    with ThreadPoolExecutor(CORES) as pool:
        for found, cpu_s in pool.map(fuzz_one, targets):
            count.add(found)
            here.cpu_s += cpu_s
    return count


def fuzz_one(target: Path) -> tuple[Count, float]:
    """What it finds comes as text too, so that it outlives the machine."""
    here.name, here.cpu_s = f"fuzz-{target.name}", 0.0
    seeds = ROOT / "fuzz" / "corpus" / SEEDS_OF.get(target.name, target.name)
    with tempfile.TemporaryDirectory() as work:
        try:
            run(
                *(target, f"-max_total_time={FUZZ_SECONDS}", f"-seed={options.seed}", "-timeout=60"),
                *("-rss_limit_mb=2048", "-print_final_stats=1", f"-artifact_prefix={target.parent.parent}/"),
                *(work, *([seeds] if seeds.is_dir() else [])),
                env=SANITIZERS,
            )
        except Failed as e:
            found = re.search(r"^Test unit written to (\S+)", str(e), re.M)
            input64 = base64.b64encode(Path(found[1]).read_bytes()).decode() if found else ""
            again = f"echo {input64} | base64 -d >found; {target.relative_to(ROOT)} found" if found else "see above"
            return Count(0, 1, 0, f"--- {target.name}\n{e}\nto repeat it: {again}\n"), here.cpu_s
    return Count(1), here.cpu_s


@step("drawn", "drawn tests, with new seeds")
def drawn() -> Count:
    """Hypothesis' tests again, and the property tests' later examples."""
    files = [f for f in sorted(PYTHON_TESTS.glob("test_*.py")) if "from hypothesis" in f.read_text()]
    seed = str(options.seed)
    count = pytest("draws", PYTHON_TESTS, LEAT_SEED=seed)
    count.add(pytest("gate", f"--hypothesis-seed={seed}", "-m", "hypothesis", *files, LEAT_SEED=seed))
    if count.failed:
        for test in sorted(set(re.findall(r"^FAILED (\S+)", count.text, re.M))):
            again = f"LEAT_SEED={seed} .venv/bin/python -m pytest --hypothesis-seed={seed} '{test}'"
            count.text += f"to repeat it: {again}\n"
    return count


@step("extras", "what only deep shards need: other frameworks, clang-tidy")
def extras() -> Count:
    return set_up("shards")


@step("torch", "PyTorch's side of comparisons, and trainings of other frameworks")
def torch() -> Count:
    return pytest("torch")


@step("deepspeed", "DeepSpeed and Megatron, in an environment over .venv")
def deepspeed() -> Count:
    return set_up("parallel")


@step("parallel", "trainings of DeepSpeed over gloo")
def parallel() -> Count:
    """One test after the other: each has up to four ranks."""
    python = ROOT / ".venv-parallel" / "bin" / "python"
    return pytest("parallel", "-n", 1, PYTHON_TESTS, python=python, LEAT_REQUIRE_PARALLEL="1")


@step("cluster", "Ray, in an environment over .venv")
def cluster() -> Count:
    return set_up("ray")


@step("ray", "loaders and data sets on a Ray cluster")
def ray() -> Count:
    """One process: all tests share one cluster."""
    return pytest("ray", "-n", 0, PYTHON_TESTS, python=ROOT / ".venv-ray" / "bin" / "python", LEAT_REQUIRE_RAY="1")


@step("whole", "recipes and examples")
def whole() -> Count:
    return pytest("whole")


@step("mutations", "a dozen faults that the tests have to find")
def mutations() -> Count:
    n = 12
    out = run(sys.executable, "tools/mutate.py", "--tier", "gate", "--sample", n, "--seed", options.seed, check=False)
    found, missed = len(re.findall(r"^found ", out, re.M)), len(re.findall(r"^MISSED ", out, re.M))
    if found + missed != n:
        raise Failed(out[-3000:])
    return Count(found, missed, 0, out if missed else "")


@step("wheel", "wheel, in a fresh environment")
def wheel() -> Count:
    run(sys.executable, "tools/build_wheel.py")
    return Count(1)


@step("demo", "the demo, short")
def demo() -> Count:
    run(sys.executable, "examples/demo.py", "--short")
    return Count(1)
