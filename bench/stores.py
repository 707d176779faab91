"""Writes and gathers of rows by random ids: leat.Store beside memcpy, sqlite3 and LMDB used for the same.

    python bench/stores.py [--rows 50000] [--row-bytes 4096] [--batch 256] [--folder /dev/shm]

All is in the page cache. memcpy is NumPy's `table[ids] = batch` and `take`, of an array that was touched before. Each
figure is CPU time of one call, the median of rounds that take turns with those of the others, because a machine may be
shared; the ratio is the median of those of each round. What is read goes into the same memory each time. A store is
written to as its thread does it ("leat"), and by `store[ids] = batch`, of which only the caller's own time is counted.
Rows are written again where room has become free by a flush, as in each epoch of a training. Of sqlite3 and LMDB a
batch is a transaction, and nothing is synced.

LMDB is left out where its package (`pip install lmdb`) is missing.
"""

from __future__ import annotations

import argparse
import platform
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

import leat

try:
    import lmdb
except ImportError:
    lmdb = None


class Memcpy:
    """An array."""

    name = "memcpy"

    def __init__(self, folder: Path, rows: int, width: int) -> None:
        self.table = np.zeros((rows, width), np.uint8)
        self.table[:] = 1

    def write(self, ids: np.ndarray, batch: np.ndarray) -> None:
        self.table[ids] = batch

    def gather(self, ids: np.ndarray, out: np.ndarray) -> None:
        np.take(self.table, ids.view(np.int64), axis=0, out=out, mode="clip")

    def settle(self) -> None:
        pass


class Stored:
    """A store, written as its thread does it."""

    name = "leat"

    def __init__(self, folder: Path, rows: int, width: int) -> None:
        fields = {"row": leat.field("uint8", (width,))}
        self.store = leat.Store(folder / f"{self.name}.store", fields, framework="numpy")
        self.core = self.store._here().core

    def write(self, ids: np.ndarray, batch: np.ndarray) -> None:
        self.core.write(ids, None, [(batch, "uint8", None)])

    def gather(self, ids: np.ndarray, out: np.ndarray) -> None:
        self.core.gather(ids, None, [out], False, np.empty(len(ids), np.uint8))

    def settle(self) -> None:
        self.store.flush()


class Queued(Stored):
    """A store as a training sees it: the thread that trains copies, and another one writes."""

    name = "leat, the caller"

    def write(self, ids: np.ndarray, batch: np.ndarray) -> None:
        self.store[ids] = batch


class Sqlite:
    """A table with a primary key."""

    name = "sqlite3"

    def __init__(self, folder: Path, rows: int, width: int) -> None:
        self.db = sqlite3.connect(folder / "rows.sqlite", isolation_level=None)
        self.db.executescript(
            "PRAGMA journal_mode=WAL; PRAGMA synchronous=OFF; PRAGMA cache_size=-1000000;"
            "CREATE TABLE rows (id INTEGER PRIMARY KEY, row BLOB)"
        )

    def write(self, ids: np.ndarray, batch: np.ndarray) -> None:
        self.db.execute("BEGIN")
        self.db.executemany("REPLACE INTO rows VALUES (?, ?)", zip(ids.tolist(), batch, strict=True))
        self.db.execute("COMMIT")

    def gather(self, ids: np.ndarray, out: np.ndarray) -> None:
        for i, id in enumerate(ids.tolist()):
            found = self.db.execute("SELECT row FROM rows WHERE id = ?", (id,)).fetchone()
            out[i] = np.frombuffer(found[0], np.uint8)

    def settle(self) -> None:
        pass


class Lmdb:
    """A map from 8 bytes to rows."""

    name = "LMDB"

    def __init__(self, folder: Path, rows: int, width: int) -> None:
        size = 4 * rows * (width + 4096)
        self.env = lmdb.open(str(folder / "rows.lmdb"), map_size=size, sync=False, writemap=True, subdir=False)

    def write(self, ids: np.ndarray, batch: np.ndarray) -> None:
        with self.env.begin(write=True) as t:
            for id, row in zip(ids, batch, strict=True):
                t.put(id.tobytes(), row.tobytes())

    def gather(self, ids: np.ndarray, out: np.ndarray) -> None:
        with self.env.begin(buffers=True) as t:
            for i, id in enumerate(ids):
                out[i] = np.frombuffer(t.get(id.tobytes()), np.uint8)

    def settle(self) -> None:
        pass


def timed(call: Callable[[], object]) -> float:
    """CPU time of this thread: all of it is here, but of a store's own thread."""
    begin = time.thread_time()
    call()
    return time.thread_time() - begin


def main() -> None:
    parser = argparse.ArgumentParser(description="stores beside memcpy, sqlite3 and LMDB")
    parser.add_argument("--rows", type=int, default=50_000)
    parser.add_argument("--row-bytes", type=int, default=4096)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--folder", default=None, help="where files lie; None: the temporary folder")
    args = parser.parse_args()
    rng = np.random.default_rng(0)
    out = np.zeros((args.batch, args.row_bytes), np.uint8)
    kinds = [Memcpy, Stored, Queued, Sqlite, *([Lmdb] if lmdb else [])]
    if not lmdb:
        print("LMDB: not installed, left out")
    with tempfile.TemporaryDirectory(dir=args.folder) as folder:
        peers = [kind(Path(folder), args.rows, args.row_bytes) for kind in kinds]
        first: dict[str, list[float]] = {p.name: [] for p in peers}
        write: dict[str, list[float]] = {p.name: [] for p in peers}
        gather: dict[str, list[float]] = {p.name: [] for p in peers}
        for begin in range(0, args.rows, args.batch):
            ids = np.arange(begin, min(begin + args.batch, args.rows)).astype(np.uint64)
            batch = rng.integers(0, 256, (len(ids), args.row_bytes), np.uint8)
            for p in peers:
                first[p.name].append(timed(partial(p.write, ids, batch)))
        for p in peers:
            p.settle()
        for _ in range(2):  # every row again: from then on places are used that were used before
            for begin in range(0, args.rows, args.batch):
                ids = np.arange(begin, min(begin + args.batch, args.rows)).astype(np.uint64)
                batch = rng.integers(0, 256, (len(ids), args.row_bytes), np.uint8)
                for p in peers:
                    p.write(ids, batch)
            for p in peers:
                p.settle()
        for _ in range(args.rounds):
            ids = rng.choice(args.rows, args.batch, replace=False).astype(np.uint64)
            batch = rng.integers(0, 256, (args.batch, args.row_bytes), np.uint8)
            for p in peers:
                write[p.name].append(timed(partial(p.write, ids, batch)))
                if isinstance(p, Queued):
                    p.store._here().wait()
        for p in peers:
            p.settle()
        for _ in range(args.rounds):
            ids = rng.choice(args.rows, args.batch, replace=False).astype(np.uint64)
            for p in peers:
                out[:] = 0
                gather[p.name].append(timed(partial(p.gather, ids, out)))
                assert (out == peers[0].table[ids]).all()
    print(f"{platform.machine()}, Python {platform.python_version()}, NumPy {np.__version__}, SQLite "
          f"{sqlite3.sqlite_version}{', LMDB ' + '.'.join(map(str, lmdb.version())) if lmdb else ''}")  # fmt: skip
    print(f"{args.rows} rows of {args.row_bytes} bytes, batches of {args.batch}; us of CPU a row (of memcpy)\n")
    print(f"{'':20}{'first write':>20}{'write again':>20}{'gather':>20}")
    for p in peers:
        cells = []
        for times in (first, write, gather):
            us = statistics.median(times[p.name]) / args.batch * 1e6
            ratio = statistics.median(a / b for a, b in zip(times["memcpy"], times[p.name], strict=True))
            cells.append(f"{us:8.2f} ({ratio:6.1%})")
        print(f"{p.name:20}" + "".join(f"{c:>20}" for c in cells))


if __name__ == "__main__":
    main()
