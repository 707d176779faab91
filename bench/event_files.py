"""How fast files of events become arrays: leat, NumPy, pyarrow and pandas.

    python bench/event_files.py [EVENTS]

Writes lines "src dst time" (two million, if nothing else is given) and lines of JODIE with 16 features (a tenth as
many), and reads each file by each reader, in turn, five times: medians of CPU time, in lines a second. leat also hashes
each value for the fingerprint and writes what it keeps; "kept" is the next opening, which reads no text. pyarrow has
one thread.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pyarrow
from pyarrow import csv

import leat

RUNS = 5
HEADER = "user_id,item_id,timestamp,state_label,comma_separated_list_of_features\n"


def make(folder: Path, n: int) -> tuple[Path, Path]:
    draw = np.random.default_rng(0)
    plain, jodie = folder / "events.txt", folder / "jodie.csv"
    times = 1_082_040_961 + np.cumsum(draw.integers(0, 600, n))
    np.savetxt(plain, np.column_stack((draw.integers(0, 200_000, (n, 2)), times)), fmt="%d")
    few = n // 10
    rows = np.column_stack((draw.integers(0, 8000, (few, 2)), times[:few] - times[0], np.zeros(few)))
    numbers = np.column_stack((rows, draw.normal(size=(few, 16)).round(6)))
    with jodie.open("w") as out:
        out.write(HEADER)
        np.savetxt(out, numbers, fmt=["%d", "%d", "%.1f", "%d", *["%.8g"] * 16], delimiter=",")
    return plain, jodie


def forget(path: Path) -> None:
    Path(f"{path}.leat-index").unlink(missing_ok=True)


def arrow(path: Path, delimiter: str, skip: int) -> Any:
    how = csv.ReadOptions(use_threads=False, skip_rows=skip, autogenerate_column_names=True)
    return csv.read_csv(path, how, csv.ParseOptions(delimiter=delimiter))


def readers(path: Path, jodie: bool) -> dict[str, Callable[[], Any]]:
    delimiter, skip = (",", 1) if jodie else (" ", 0)
    name = "jodie" if jodie else "events"
    return {
        "leat": lambda: leat.open(path, format=name),
        "leat, kept": lambda: leat.open(path, format=name),
        "pyarrow": lambda: arrow(path, delimiter, skip),
        "pandas": lambda: pandas.read_csv(path, sep=delimiter, header=None, skiprows=skip),
        "numpy.loadtxt": lambda: np.loadtxt(
            path, np.float64 if jodie else np.int64, delimiter=delimiter, skiprows=skip
        ),
    }


def main() -> None:
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 2_000_000
    print(f"numpy {np.__version__}, pyarrow {pyarrow.__version__}, pandas {pandas.__version__}")
    with tempfile.TemporaryDirectory() as folder:
        for path, lines in zip(make(Path(folder), n), (n, n // 10), strict=True):
            found: dict[str, list[float]] = {}
            for _ in range(RUNS):
                forget(path)
                for name, read in readers(path, path.suffix == ".csv").items():
                    begin = time.process_time()
                    read()
                    found.setdefault(name, []).append(time.process_time() - begin)
            mine = statistics.median(found["leat"])
            for name, seconds in found.items():
                middle = statistics.median(seconds)
                ratio = f"{middle / mine:.2f} times leat's" if name not in ("leat", "leat, kept") else ""
                print(f"{path.name:12} {name:14} {lines / middle / 1e6:8.2f} M lines/s   {ratio}")


if __name__ == "__main__":
    main()
