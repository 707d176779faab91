"""Shows that the tests find faults: puts one at a time into a copy of the tree and runs the tests that should see it.

    .venv/bin/python tools/mutate.py [--only WORD ...] [--sample N --seed S] [--list]

The copy lies in build/mutate. A fault in C is one object and one link there, and only the tests that it names run, with
the options of the gate. A fault in the Python package is put into a copy of the package beside the tests. Each named
test has to pass without any fault first. A fault that nothing finds, or whose text no longer stands in the code, is a
failure of this tool. What was tried stays in build/mutate/found.json, so that an interrupted run goes on with --resume.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import pkgutil
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cached_property
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import mutations
from checks.builds import OPTIONS, SANITIZERS, compiler
from mutations import Mutation

ROOT = Path(__file__).resolve().parent.parent
HANG_S = 240  # a fault may be one that never ends
# of the property test in an area, at least: what its tests look at (tests/python/test_dataloader_property.py)
EXAMPLES = {"gate": 25, "torch": 200, "draws": 2000}
CHILD = """
import sys
from property_cases import draw
from property_play import fault
area, first, end = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
for number in range(first, end):
    why = fault(draw(number, area))
    if why is not None:
        print(f"example {number}: {why}")
        sys.exit(1)
"""


def everything() -> list[Mutation]:
    found = list[Mutation]()
    for module in sorted(m.name for m in pkgutil.iter_modules(mutations.__path__)):
        found += importlib.import_module(f"mutations.{module}").MUTATIONS
    return found


class Broken(Exception):
    """This tool, or a list of faults, is wrong: the text says how."""


class Copy:
    """A copy of the tree, its builds, and a package that Python tests import."""

    def __init__(self, place: Path, ref: str | None) -> None:
        self.root = place / "tree"
        self.package = place / "package"
        self.env = {
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "CCACHE_NOHASHDIR": "1",
        }
        self.root.mkdir(parents=True, exist_ok=True)
        self._fill(ref)

    def _fill(self, ref: str | None) -> None:
        """The files of the working tree, or of a commit. What is as it was keeps its time, so that nothing is compiled
        again for it."""
        with tempfile.TemporaryDirectory() as unpacked:
            source = ROOT
            if ref:
                source = Path(unpacked)
                subprocess.run(["tar", "-x", "-C", unpacked], input=self._git("archive", ref), check=True)
                names = {str(p.relative_to(source)) for p in source.rglob("*") if p.is_file()}
            else:
                listed = self._git("ls-files", "-coz", "--exclude-standard").decode().split("\0")
                names = {name for name in listed if name and (ROOT / name).is_file()}
            for name in names:
                copy_if_new(source / name, self.root / name)
        for path in list(self.root.rglob("*")):
            inside = path.relative_to(self.root)
            if path.is_file() and inside.parts[0] != "build" and str(inside) not in names and path.suffix != ".pyc":
                path.unlink()

    @staticmethod
    def _git(*arguments: str) -> bytes:
        return subprocess.run(["git", *arguments], cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout

    def run(self, *command: object, limit_s: float = 1800, at: str = ".", **environment: str) -> tuple[int, str]:
        """The exit code and what was printed. What the command has started ends with it, or at the limit."""
        with (
            tempfile.TemporaryFile() as out,  # not a pipe, which would stay open for as long as what it has left behind
            subprocess.Popen(
                [str(c) for c in command],
                cwd=self.root / at,
                env={**self.env, **environment},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
            ) as process,
        ):
            late = ""
            try:
                process.wait(limit_s)
            except subprocess.TimeoutExpired:
                late = f"\nnot over after {limit_s:.0f} s"
            finally:  # also where this process is interrupted
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            out.seek(0)
            text = out.read().decode(errors="replace") + late
        return process.returncode, text

    def build(self, folder: str, *targets: str) -> None:
        """Configures build/FOLDER as tools/check.py does, and builds the targets."""
        if not (self.root / "build" / folder / "build.ninja").exists():
            code, text = self.run("meson", "setup", f"build/{folder}", *OPTIONS[folder], CC=compiler(folder))
            if code:
                raise Broken(text[-3000:])
        code, text = self.run("ninja", "-C", f"build/{folder}", *targets)
        if code:
            raise Broken(text[-3000:])

    @cached_property
    def c_tests(self) -> dict[str, dict[str, object]]:
        self.build("asan", "build.ninja")
        told = self.run("meson", "introspect", "--tests", "build/asan")[1]
        return {test["name"]: test for test in json.loads(told)}

    def install(self) -> None:
        """The package for Python tests: its .py files, and the extension and the command of this copy."""
        self.build("package", "all")
        shutil.copytree(
            self.root / "python" / "leat", self.package / "leat", dirs_exist_ok=True, copy_function=copy_if_new
        )
        built = self.root / "build" / "package"
        for extension in (built / "python").glob("_leat*.so"):
            copy_if_new(extension, self.package / "leat" / extension.name)
        headers = self.package / "leat" / "include" / "leat"
        headers.mkdir(parents=True, exist_ok=True)
        for header in (self.root / "include" / "leat").glob("*.h"):
            copy_if_new(header, headers / header.name)

    @contextmanager
    def fault(self, mutation: Mutation) -> Iterator[None]:
        path = self.root / mutation.file
        text = path.read_text()
        if (times := text.count(mutation.old)) != 1:
            raise Broken(f"{mutation.file} has the text not once, but {times} times:\n{mutation.old}")
        try:
            path.write_text(text.replace(mutation.old, mutation.new))
            yield
        finally:
            path.write_text(text)

    def finds(self, test: str, tier: str) -> str | None:
        """What the test says against the tree as it is now; None: it passes."""
        kind, _, name = test.partition(":")
        if kind == "c":
            if name not in self.c_tests:
                raise Broken(f"there is no test {name} in C")
            return self._c_test(self.c_tests[name], tier)
        if kind == "property":
            area, _, number = name.partition("#")  # that example alone, or the first ones
            first, n = (int(number), 1) if number else (0, EXAMPLES[tier])
            return self._python("-c", CHILD, area, first, first + n)
        path, _, function = name.partition("::")
        where = f"{self.root / 'tests' / 'python' / path}{'::' if function else ''}{function}"
        options = ["-q", "-x", "-n", "0", "--tb=line", "-p", "no:cacheprovider", f"--shard={tier}"]
        return self._python("-m", "pytest", *options, where)

    def _c_test(self, test: dict[str, object], tier: str) -> str | None:
        command = test["cmd"]
        assert isinstance(command, list)
        built = self.root / "build" / "asan"  # the test, and the programs that it starts
        self.build("asan", *(str((built / c).relative_to(built)) for c in command if built in (built / c).parents))
        own = test["env"]
        assert isinstance(own, dict)
        code, text = self.run(*command, limit_s=HANG_S, at="build/asan", **SANITIZERS, **own)  # as Meson does
        bad = [line for line in text.splitlines() if line.startswith("not ok") or "ERROR: " in line]
        return None if code == 0 and not bad else (bad + text.splitlines()[-1:] + ["it failed"])[0]

    def _python(self, *command: object) -> str | None:
        path = os.pathsep.join([str(self.package), str(self.root / "tests" / "python")])
        command_line = str(self.root / "build" / "package" / "cli" / "leat")
        code, text = self.run(
            sys.executable, *command, limit_s=HANG_S, PYTHONPATH=path, LEAT_CLI=command_line, LEAT_REQUIRE_TORCH="1"
        )
        if code == 5 or "no tests ran" in text:
            raise Broken(f"no test ran: {command[-1]}")
        lines = [line for line in text.splitlines() if line.strip()]
        shown = [line for line in lines if line.startswith(("FAILED", "ERROR", "example", "E  "))]
        return None if code == 0 else (shown + lines[-1:] + ["it failed"])[0]


def copy_if_new(source: str | Path, target: str | Path) -> None:
    """A copy, where the target is not the same already."""
    if not Path(target).is_file() or Path(target).read_bytes() != Path(source).read_bytes():
        Path(target).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, target)


def find(copy: Copy, mutation: Mutation, sound: dict[tuple[str, str], str | None]) -> str | None:
    """The test that finds the fault, and what it says; None: none does. `sound`: what tests say without any fault."""
    python = any(not test.startswith("c:") for test in mutation.tests)
    found = None
    for test in mutation.tests:
        if test.startswith("property:"):
            continue  # of many examples, the one that finds it has to pass without it: see below
        if (test, mutation.tier) not in sound:
            if not test.startswith("c:"):
                copy.install()
            sound[test, mutation.tier] = copy.finds(test, mutation.tier)
        if sound[test, mutation.tier] is not None:
            raise Broken(f"{test} fails without the fault: {sound[test, mutation.tier]}")
    try:
        with copy.fault(mutation):
            if python:
                copy.install()
            for test in mutation.tests:
                if (why := copy.finds(test, mutation.tier)) is not None:
                    found = test, why
                    break
    finally:
        if python and mutation.file.endswith(".py"):
            copy.install()
    if found and found[0].startswith("property:"):
        number = re.match(r"example (\d+):", found[1])
        if number is None:
            raise Broken(f"{found[0]} came to no verdict: {found[1]}")
        without = copy.finds(f"{found[0]}#{number[1]}", mutation.tier)
        if without is not None:
            raise Broken(f"{found[0]} fails without the fault, too: {without}")
    return f"{found[0]}: {found[1]}" if found else None


def sample(faults: list[Mutation], n: int, seed: str) -> list[Mutation]:
    """n of them, from as many layers as possible."""
    drawn = random.Random(seed).sample(faults, len(faults))
    times = Counter[str]()
    turns = []
    for mutation in drawn:
        turns.append(times[mutation.layer])
        times[mutation.layer] += 1
    return [m for _, m in sorted(zip(turns, drawn), key=lambda pair: pair[0])][:n]


def main() -> int:
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("--list", action="store_true", help="a line for each fault: layer, file, finding test, tier")
    a.add_argument("--only", nargs="+", metavar="WORD", help="faults whose names, files or layers contain one of these")
    a.add_argument("--tier", help="only faults that this tier finds")
    a.add_argument("--sample", type=int, metavar="N", help="only N of them, drawn by --seed, of many layers")
    a.add_argument("--seed", default="0", help="which ones --sample draws")
    a.add_argument("--at", metavar="REF", help="the tests and the code of that commit, not of the working tree")
    a.add_argument("--folder", type=Path, default=ROOT / "build" / "mutate", help="where the copy lies")
    a.add_argument("--resume", action="store_true", help="leaves out what build/mutate/found.json has as found")
    o = a.parse_args()
    chosen = [
        m for m in everything() if not o.only or any(w in text for w in o.only for text in (m.name, m.file, m.layer))
    ]
    chosen = [m for m in chosen if o.tier in (None, m.tier)]
    if o.sample:
        chosen = sample(chosen, o.sample, o.seed)
    if o.list:
        for m in sorted(chosen, key=lambda m: (m.layer, m.file)):
            print(f"{m.layer:16} {m.file:40} {' '.join(m.tests):60} {m.tier:6} {m.name}")
        return 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # the fault is taken back, and what runs is ended
    o.folder.mkdir(parents=True, exist_ok=True)
    record = o.folder / "found.json"
    found: dict[str, str] = json.loads(record.read_text()) if o.resume and record.exists() else {}
    copy = Copy(o.folder.resolve(), o.at)
    sound: dict[tuple[str, str], str | None] = {}
    missed, began = 0, time.monotonic()
    left = [m for m in chosen if m.name not in found]
    for number, mutation in enumerate(left, 1):
        try:
            why = find(copy, mutation, sound)
        except Broken as e:
            why, said = None, str(e)
        else:
            said = why or "no test that it names fails"
        missed += why is None
        if why is not None:
            found[mutation.name] = why
            record.write_text(json.dumps(found, indent=1))
        took = time.monotonic() - began
        ahead = took / number * (len(left) - number)
        print(
            f"{'found ' if why else 'MISSED'} {number}/{len(left)}, {ahead:.0f} s left | {mutation.layer} | "
            f"{mutation.name} | {said[: 200 if why else 3000]}",
            flush=True,
        )
    print(f"{len(chosen) - missed} of {len(chosen)} faults are found")
    return missed != 0


if __name__ == "__main__":
    sys.exit(main())
