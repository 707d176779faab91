"""`leat mix show`. Called by leat.commands.main, which cli/python.c starts."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from typing import Any


def main(options: Mapping[str, str]) -> int:
    """Shows a mixture. `options`: as the command line has read them."""
    from ..mixtures.printed import text
    from ..mixtures.shown import show
    from .spec import find

    if "out" in options:
        from ..mixtures.plotted import check

        check(options["out"])
    found = find(options["spec"])
    numbers: dict[str, Any] = {
        name: int(options[name]) for name in ("batch_size", "epochs", "steps", "rows", "seed") if name in options
    }
    shown = show(
        found.mixture, **{"log": options.get("log", found.log), "until": found.end, **found.options, **numbers}
    )
    if "json" in options:
        json.dump(shown.as_dict(), sys.stdout, indent=1)
        print()
    else:
        print(text(shown, blocks="utf" in (sys.stdout.encoding or "").lower()))
    if "out" in options:
        shown.save(options["out"])
        if "json" not in options:
            print(f"\nDrawn into {os.fspath(options['out'])}")
    return 0
