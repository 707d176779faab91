"""Where the time of a run goes: a table, the slowest tests, and what has grown since the table that is stored.

Times are CPU seconds, which a busy machine changes less than wall time. They are compared in units of a calibration
loop, which the same run has timed on every core at once: so that a table of one machine means something on another.
"""

from __future__ import annotations

import json
import multiprocessing
import time
import zlib
from dataclasses import asdict
from pathlib import Path

from .running import CORES, LOGS, Seconds

STORED = Path(__file__).with_name("times.json")  # units, of steps and of tests
GREW = 1.10  # what is said to have grown
LEAST_UNITS = 1.0  # of what is compared: below, the noise is larger
SLOWEST = 20


def _loop(_: int) -> float:
    begin = time.process_time()
    data = bytes(range(256)) * 4096
    for i in range(40):
        data = zlib.compress(data[i:] + bytes(1 << 20), 6)[:1000] * 1024
        sum(n * n for n in range(200_000))
    return time.process_time() - begin


def calibrate() -> float:
    """CPU seconds of the calibration loop on this machine, with all cores busy: the median of three."""
    with multiprocessing.get_context("spawn").Pool(CORES) as pool:
        each = sorted(sum(pool.map(_loop, range(CORES), chunksize=1)) / CORES for _ in range(3))
    return each[1]


class Times:
    """The times of one run."""

    def __init__(self, unit_s: float) -> None:
        self.unit_s = unit_s
        self.steps: dict[str, Seconds] = {}
        self.tests: dict[str, float] = {}  # CPU seconds

    def table(self, titles: dict[str, str]) -> str:
        lines = [f"where the time went (1 unit = {self.unit_s:.2f} CPU s here){'':17} wall s   CPU s   units"]
        for name, t in self.steps.items():
            lines.append(f"  {titles.get(name, name):62} {t.wall:6.0f} {t.cpu:7.0f} {t.cpu / self.unit_s:7.0f}")
        slowest = sorted(self.tests.items(), key=lambda pair: -pair[1])[:SLOWEST]
        if slowest:
            lines += ["the slowest tests, in CPU s", *(f"  {cpu:6.1f}  {name}" for name, cpu in slowest)]
        if grown := self.grown():
            lines += [f"grown by more than {100 * (GREW - 1):.0f}% over {STORED.name}, in units", *grown]
        return "\n".join(lines)

    def _units(self) -> dict[str, float]:
        both = {f"step {name}": t.cpu for name, t in self.steps.items()} | self.tests
        return {name: round(cpu / self.unit_s, 2) for name, cpu in both.items() if cpu / self.unit_s >= LEAST_UNITS}

    def grown(self) -> list[str]:
        stored = json.loads(STORED.read_text()) if STORED.exists() else {}
        lines = []
        for name, units in sorted(self._units().items(), key=lambda pair: -pair[1]):
            before = stored.get(name)
            if before is not None and units > GREW * before:
                lines.append(f"  {before:7.1f} -> {units:7.1f}  {name}")
            elif before is None and stored and units > 2 * LEAST_UNITS:
                lines.append(f"      new    {units:7.1f}  {name}")
        return lines[: 2 * SLOWEST]

    def keep(self) -> None:
        """In build/log/times.json."""
        LOGS.mkdir(parents=True, exist_ok=True)
        steps = {name: asdict(t) for name, t in self.steps.items()}
        text = json.dumps({"unit_s": self.unit_s, "steps": steps, "tests": self.tests}, indent=1, sort_keys=True)
        (LOGS / "times.json").write_text(text + "\n")

    def store(self) -> None:
        """Makes these the times with which later runs are compared. What this run has not run stays as it was."""
        stored = json.loads(STORED.read_text()) if STORED.exists() else {}
        STORED.write_text(json.dumps(stored | self._units(), indent=1, sort_keys=True) + "\n")
