"""Checks that a shared library exports nothing without the prefix leat_ (of an extension module: nothing but
PyInit__leat), and all that the public headers declare.

    python tools/check_exports.py LIBRARY
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

DECLARED = re.compile(r"^LEAT_API\b[^;{]*?\b(leat_\w+)\(", re.MULTILINE)


def declared() -> set[str]:
    headers = (Path(__file__).parent.parent / "include" / "leat").glob("*.h")
    return {name for header in headers for name in DECLARED.findall(header.read_text())}


def main(path: str) -> int:
    out = subprocess.run(
        ["nm", "--dynamic", "--defined-only", path], text=True, stdout=subprocess.PIPE, check=True
    ).stdout
    names = [line.split()[-1].split("@")[0] for line in out.splitlines() if line.strip()]
    module = "_leat." in path
    wrong = [n for n in names if (n != "PyInit__leat" if module else not n.startswith(("leat_", "LEAT_")))]
    if not names or wrong:
        print(f"{path} exports {wrong or 'nothing'}")
        return 1
    if not module and (lacking := sorted(declared() - set(names))):
        print(f"{path} does not export {', '.join(lacking)}: see src/leat.map")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
