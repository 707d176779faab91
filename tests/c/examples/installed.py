"""Installs the library of a build folder, compiles the example of docs/c-api.md against it as its page says, and runs
it.

    python installed.py BUILD_FOLDER PAGE
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

SKIPPED = 77


def main(build: str, page: str) -> int:
    tools = {name: shutil.which(name) for name in ("meson", "pkg-config", "cc")}
    if None in tools.values():
        print("skipped: no", *(name for name, found in tools.items() if not found))
        return SKIPPED
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "root"
        subprocess.run(["meson", "install", "-C", build, "--no-rebuild", "--quiet", "--destdir", root], check=True)
        (found,) = root.rglob("leat.pc")
        prefix = re.search(r"^prefix=(.*)$", found.read_text(), re.M)
        assert prefix
        real = Path(folder) / "prefix"
        shutil.move(str(root) + prefix[1], real)
        (found,) = real.rglob("leat.pc")
        env = {**os.environ, "PKG_CONFIG_PATH": str(found.parent), "LD_LIBRARY_PATH": str(found.parent.parent)}
        asked = ["pkg-config", f"--define-variable=prefix={real}", "--cflags", "--libs", "leat"]
        flags = subprocess.run(asked, env=env, check=True, capture_output=True, text=True).stdout.split()
        source = Path(folder) / "iterate.c"
        examples = re.findall(r"^```c\n(.*?)^```$", Path(page).read_text(), re.M | re.S)
        source.write_text(examples[0])
        program = Path(folder) / "iterate"
        subprocess.run(["cc", "-Wall", "-Wextra", "-Werror", source, *flags, "-o", program], check=True)
        said = subprocess.run(
            [program, Path(folder) / "samples.leat"], env=env, check=True, capture_output=True, text=True
        ).stdout
        assert said == "1000 samples, labels sum to 499500\n", said
        headers = sorted(p.name for p in (real / "include").rglob("*.h"))
        public = sorted(p.name for p in (Path(page).parents[1] / "include").rglob("*.h"))
        assert headers == public, headers
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
