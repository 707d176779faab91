"""Progress of the examples: a bar on a terminal, a plain line every ten seconds in a log."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

from tqdm import tqdm


class Lines:
    """Makes lines of what tqdm draws over and over in one."""

    def write(self, text: str) -> None:
        if line := text.strip():
            print(line, file=sys.stderr)

    def flush(self) -> None:
        sys.stderr.flush()


def plain() -> dict[str, Any]:
    """What makes lines of a bar; the first one comes after ten seconds."""
    shape = "{desc}: {n_fmt} of {total_fmt}{unit} in {elapsed}, {rate_fmt}{postfix}"
    # miniters: tqdm's guess of how many steps ten seconds take would write lines late, and with the rate of before
    return {"file": Lines(), "mininterval": 10, "miniters": 1, "delay": 10, "bar_format": shape}


def progress(iterable: Iterable[Any] | None = None, **options: Any) -> Any:
    return tqdm(iterable, **options, **({} if sys.stderr.isatty() else plain()))
