"""Checks that includes point down the layers of docs/architecture.md, and prints each one that does not.

A file of src/X may include headers of its own folder and of the folders that BELOW lists for X; the faces (cli, python,
examples) only include/leat/leat.h and their own, and the Python extension worker/worker.h, engine/interrupt.h
and format/names.h.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BELOW: dict[str, set[str]] = {"base": set(), "io": {"base"}, "kernels": {"base"}, "codec": {"base", "kernels"}}
BELOW["columns"] = {"base", "kernels", "io"}
BELOW["format"] = BELOW["codec"] | {"codec", "io"}
BELOW["store"] = BELOW["format"] | {"format"}
BELOW["data"] = BELOW["store"] | {"store"}
BELOW["plan"] = {"base"}
BELOW["fit"] = BELOW["feedback"] = {"base"}
BELOW["op"] = BELOW["codec"] | {"codec"}
BELOW["engine"] = BELOW["data"] | {"data", "plan", "op"}
BELOW["worker"] = BELOW["port"] = BELOW["engine"] | {"engine"}
FACES = {"cli", "python", "examples"}


def main() -> int:
    wrong = []
    for name in subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.c", "*.h"],
        cwd=ROOT,
        text=True,
        stdout=subprocess.PIPE,
        check=True,
    ).stdout.split():
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
            if path.parts[0] == "python" and match[1] in ("worker/worker.h", "engine/interrupt.h", "format/names.h"):
                continue
            if path.parts[0] in FACES and target not in BELOW or path.parts[0] not in FACES | {"src"}:
                continue
            wrong.append(f"{name}:{number}: {layer} may not include {match[1]}")
    print("\n".join(wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
