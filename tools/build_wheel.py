"""Builds dist/leat-*.whl, has auditwheel put the libraries it needs inside, and tries it in a fresh virtual
environment.

The trial packs a folder, iterates over it, and runs the command `leat`, with nothing but the wheel and numpy installed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent
TRIAL = """
import leat, os, subprocess, sys
path = os.path.join(sys.argv[1], "t.leat")
with leat.Writer(path, {"x": leat.field("float32", (3,)), "label": "int64"}) as w:
    for i in range(100):
        w.add(x=[i, i, i], label=i)
seen = sorted(int(i) for batch in leat.Loader(leat.open(path), batch_size=7, shuffle=True) for i in batch["label"])
assert seen == list(range(100)), seen
assert os.path.exists(os.path.join(leat.get_include(), "leat", "leat.h")), leat.get_include()
command = os.path.join(os.path.dirname(sys.executable), "leat")
assert "100" in subprocess.run([command, "info", path], check=True, text=True, stdout=subprocess.PIPE).stdout
"""


def run(*command: object, **environment: str) -> None:
    done = subprocess.run(
        [str(c) for c in command],
        cwd=ROOT,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**os.environ, "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}", "CCACHE_NOHASHDIR": "1", **environment},
    )
    if done.returncode:
        print(done.stdout[-6000:])
        sys.exit(f"failed: {' '.join(map(str, command))}")


def main() -> None:
    dist = ROOT / "dist"
    shutil.rmtree(dist, ignore_errors=True)
    with tempfile.TemporaryDirectory() as work:
        build = "-Cbuild-dir=build/package"  # the one that becomes .venv: nothing is compiled twice
        run(sys.executable, "-m", "build", "--wheel", "--no-isolation", build, "--outdir", work, ".")
        (raw,) = Path(work).glob("*.whl")
        run(sys.executable, "-m", "auditwheel", "repair", "--wheel-dir", dist, raw)
        (wheel,) = dist.glob("*.whl")
        trial = Path(work) / "trial"
        run(sys.executable, "-m", "venv", trial)
        run(trial / "bin" / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", wheel)
        modules = [p for p in (trial / "lib").rglob("_leat*.so")]
        for module in modules:
            run(sys.executable, ROOT / "tools" / "check_exports.py", module)
        run(trial / "bin" / "python", "-I", "-c", TRIAL, work)
    print(f"{wheel.relative_to(ROOT)}  {wheel.stat().st_size / 1e6:.1f} MB, works in a fresh environment")


if __name__ == "__main__":
    main()
