"""A line of progress on standard error: redrawn on a terminal, elsewhere a new one every ten seconds."""

from __future__ import annotations

import os
import sys
import threading
import time
from typing import IO


def rate(amount: float) -> str:
    """Three digits: 1.23M.

    >>> rate(1234567), rate(12), rate(999.7)
    ('1.23M', '12', '1k')
    """
    for unit in ("", "k", "M", "G", "T"):
        if amount < 999.5 or unit == "T":
            break
        amount /= 1000
    digits = 0 if unit == "" or amount >= 99.95 else 1 if amount >= 9.995 else 2
    return f"{amount:.{digits}f}".rstrip("0").rstrip(".") + unit if digits else f"{amount:.0f}{unit}"


def duration(seconds: float) -> str:
    """A time left.

    >>> duration(42), duration(150), duration(9000)
    ('42 s', '2:30 min', '2:30 h')
    """
    whole = int(seconds + 0.5)
    if whole < 100:
        return f"{whole} s"
    if whole < 6000:
        return f"{whole // 60}:{whole % 60:02} min"
    return f"{whole // 3600}:{whole // 60 % 60:02} h"


class Line:
    """Draws the last text of :meth:`say`, in a thread of its own, so that the work waits for no terminal. `total`: 0 if
    it is not known."""

    def __init__(self, verb: str, total: int, first: int, out: IO[str] | None = None) -> None:
        self._verb, self._total, self._first = verb, total, first
        self._out = out or sys.stderr
        self._begin = time.monotonic()
        self._done, self._tokens, self._bytes, self._note = first, 0, 0, ""
        self._terminal = self._out.isatty()
        self._drawn = False
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="leat-progress", daemon=True)
        self._thread.start()

    def say(self, done: int, tokens: int, text_bytes: int, note: str = "") -> None:
        self._done, self._tokens, self._bytes, self._note = done, tokens, text_bytes, note

    def text(self) -> str:
        seconds = max(time.monotonic() - self._begin, 1e-9)
        new = self._done - self._first
        parts = [
            f"{self._verb} {100 * self._done // self._total:3}%" if self._total else self._verb,
            f"{rate(self._done)} of {rate(self._total)} records" if self._total else f"{rate(self._done)} records",
        ]
        if self._tokens or self._bytes:
            parts += [f"{rate(self._tokens / seconds)} tokens/s", f"{rate(self._bytes / seconds)}B/s"]
        else:
            parts.append(f"{rate(new / seconds)}/s")
        if new and self._done < self._total:
            parts.append(f"{duration((self._total - self._done) * seconds / new)} left")
        return "  ".join(parts + [self._note] * bool(self._note))

    def _run(self) -> None:
        wait = 0.3 if self._terminal else 10.0
        while not self._stop.wait(wait):
            wait = 0.25 if self._terminal else 10.0
            self._draw()

    def _draw(self) -> None:
        try:
            if self._terminal:
                columns = os.get_terminal_size(self._out.fileno()).columns or 80
                self._out.write(f"\r{self.text()[: columns - 1]}\033[K")
            else:
                self._out.write(self.text() + "\n")
            self._out.flush()
            self._drawn = True
        except (OSError, ValueError):  # a terminal that is gone does not end the work
            self._stop.set()

    def close(self) -> None:
        self._stop.set()
        self._thread.join()
        if self._drawn and self._terminal:
            try:
                self._out.write("\r\033[K")
                self._out.flush()
            except (OSError, ValueError):
                pass
