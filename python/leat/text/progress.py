"""A line of progress on standard error: redrawn on a terminal, elsewhere a new one every ten seconds. In words, order
and units as cli/progress.c draws it.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from typing import IO


def count(n: float) -> str:
    """As cli_count (cli/print.c).

    >>> count(1234567)
    '1,234,567'
    """
    return f"{int(n):,}"


def size(n: float) -> str:
    """Bytes, as cli_bytes (cli/print.c).

    >>> size(999), size(1234567)
    ('999 bytes', '1.2 MB')
    """
    if n < 1000:
        return f"{int(n)} bytes"
    number = int(n) / 1000
    for unit in ("kB", "MB", "GB", "TB", "PB"):
        if number < 999.95:
            return f"{number:.1f} {unit}"
        number /= 1000
    return f"{number:.1f} EB"


def duration(seconds: float) -> str:
    """As cli_duration (cli/print.c).

    >>> duration(0.25), duration(42), duration(150), duration(9000)
    ('250 ms', '42 s', '2 min 30 s', '2 h 30 min')
    """
    if seconds < 0.9995:
        return f"{seconds * 1e3:.0f} ms"
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    if seconds < 90:
        return f"{seconds:.0f} s"
    whole = int(seconds)
    if seconds < 3600:
        return f"{whole // 60} min {whole % 60:02} s"
    return f"{whole // 3600} h {whole // 60 % 60:02} min"


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
        parts = [self._verb, f"{count(self._done)} samples"]
        if self._total:
            parts[0] += f" {min(100 * self._done // self._total, 100):3}%"
            parts[1] = f"{count(self._done)} of {count(self._total)} samples"
        parts.append(f"{count(new / seconds)}/s")
        if self._tokens:
            parts.append(f"{count(self._tokens / seconds)} tokens/s")
        if self._bytes:
            parts.append(f"{size(self._bytes / seconds)}/s")
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
