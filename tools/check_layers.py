"""Checks that includes point down the layers of docs/architecture.md, and prints each one that does not.

A file of src/X may include headers of its own folder and of the folders that BELOW lists for X; the faces (cli, python,
examples) only include/leat/leat.h and their own, and the Python extension those of OF_EXTENSION. Inside src/plan a
file includes only headers of files that stand at or above it in the list of src/plan/internal.h, so that calls go one
way there. A package of python/leat may import those of its own layer and below.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BELOW: dict[str, set[str]] = {"base": set(), "io": {"base"}, "kernels": {"base"}, "codec": {"base", "kernels"}}
BELOW["columns"] = {"base", "kernels", "io"}
BELOW["format"] = BELOW["codec"] | {"codec", "io"}
BELOW["store"] = BELOW["format"] | {"format"}
BELOW["plan"] = {"base"}
BELOW["data"] = BELOW["store"] | {"store", "plan"}
BELOW["fit"] = BELOW["feedback"] = {"base"}
BELOW["op"] = BELOW["codec"] | {"codec"}
BELOW["engine"] = BELOW["data"] | {"data", "op"}
BELOW["worker"] = BELOW["port"] = BELOW["device"] = BELOW["engine"] | {"engine"}
FACES = {"cli", "python", "examples"}
OF_EXTENSION = ("worker/worker.h", "engine/interrupt.h", "format/names.h", "io/paths.h")

PYTHON = [
    {"_leat", "check", "closing", "errors", "files", "importing", "lightning", "ranks", "saved", "skipping"},
    {"data", "text"},
    {"functions", "genes", "ops", "program", "presets"},
    {"workers"},
    {"device", "feedback", "mixtures", "packs", "privacy", "sampling", "sharing", "stores"},
    {"loading"},
    {"accelerate", "batch_size", "commands", "ports", "ray", "torch"},
]


def files(*patterns: str) -> list[str]:
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", *patterns]
    found = subprocess.run(command, cwd=ROOT, text=True, stdout=subprocess.PIPE, check=True).stdout.split()
    return [name for name in found if (ROOT / name).exists()]


def imported(path: Path) -> Iterator[tuple[int, str]]:
    """Line and name of each package or module of leat's top level that a file of python/leat imports, in functions,
    too."""
    inside = path.relative_to(ROOT / "python" / "leat").parts
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name.split(".")[1]) for alias in node.names if alias.name[:5] == "leat.")
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "leat" and not node.level:
            yield node.lineno, [*str(node.module).split("."), node.names[0].name][1]
        elif isinstance(node, ast.ImportFrom) and node.level:
            base = [*inside[: len(inside) - node.level], *(node.module.split(".") if node.module else [])]
            for name in base[:1] or [alias.name for alias in node.names]:
                yield node.lineno, name


def wrong_in_python() -> list[str]:
    layer = {name: i for i, names in enumerate(PYTHON) for name in names}
    wrong = []
    for name in files("python/leat/*.py"):
        package = Path(name).relative_to("python/leat").parts[0].removesuffix(".py")
        if package == "__init__":
            continue
        if package not in layer:
            wrong.append(f"{name}: PYTHON in tools/check_layers.py gives {package} no layer")
            continue
        for line, target in imported(ROOT / name):
            if target in layer and layer[target] > layer[package]:
                wrong.append(f"{name}:{line}: {package} may not import {target}")
    return wrong


def wrong_in_plan() -> list[str]:
    """A file of src/plan without a place in the list of its layer, and an include of a header that stands below it."""
    folder = ROOT / "src/plan"
    listed = re.findall(r"^ \*     (\w+)\.[ch] ", (folder / "internal.h").read_text(), re.MULTILINE)
    place = {name: i for i, name in enumerate(listed)}
    wrong = []
    for name in files("src/plan/*.c", "src/plan/*.h"):
        own = Path(name).stem
        if own not in place:
            wrong.append(f"{name}: src/plan/internal.h does not list it")
            continue
        for line, target in re.findall(r'^(#include "plan/(\w+)\.h")', (ROOT / name).read_text(), re.MULTILINE):
            if place.get(target, len(place)) > place[own]:
                wrong.append(f"{name}: {line}: {target} stands below {own} in src/plan/internal.h")
    return wrong


def main() -> int:
    wrong = wrong_in_python() + wrong_in_plan()
    for name in files("*.c", "*.h"):
        path = Path(name)
        layer = path.parts[1] if path.parts[0] == "src" else path.parts[0]
        for number, line in enumerate((ROOT / path).read_text().splitlines(), 1):
            match = re.match(r'\s*#\s*include\s+"([^"]+)"', line)
            if (
                not match
                or match[1].startswith("leat/")  # the public headers
                or "/" not in match[1]
                and (ROOT / path.parent / match[1]).exists()
            ):
                continue
            target = match[1].split("/")[0]
            if path.parts[0] == "src" and layer in BELOW and (target == layer or target in BELOW[layer]):
                continue
            if path.parts[0] == "python" and match[1] in OF_EXTENSION:
                continue
            if path.parts[0] in FACES and target not in BELOW or path.parts[0] not in FACES | {"src"}:
                continue
            wrong.append(f"{name}:{number}: {layer} may not include {match[1]}")
    print("\n".join(wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
