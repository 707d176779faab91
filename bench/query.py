"""Queries over many records, against DuckDB on the same columns in memory.

    python bench/query.py [--rows 100000000] [--file PATH] [--times N] [--runs N]

Four properties: language and domain (text of few values), length (int64) and quality (float32). The data set is a
file of leat, written on the first run; with --times N, N such data sets joined. For each clause the positions of the
rows are asked for: of leat as a view, of DuckDB as an Arrow array of row numbers, by as many threads as there are
cores. The peers take turns, and the median of the runs counts, on the clock and of the time of all cores; leat's first
query, which reads the texts, stands by itself.
"""

from __future__ import annotations

import argparse
import math
import os
import statistics
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import leat

LANGUAGES = ["en", "de", "fr", "zh", "es", "ru", "ja", "pt"]
DOMAINS = ["web", "code", "books", "wiki", "law", "news", "forum", "papers"]
CLAUSES = [
    "language = 'en' AND domain IN ('code','books') AND length > 200",
    "length BETWEEN 100 AND 120",
    "quality > 0.5 OR length < 50",
    "language LIKE '%e%' AND NOT domain = 'web'",
    "quality IS NOT NULL AND (language, domain) = ('de', 'law')",
    "length % 7 = 3",
    "CASE WHEN language = 'en' THEN length > 500 WHEN domain LIKE 'c%' THEN quality > 0.9 ELSE length < 20 END",
    "CASE WHEN length < 100 THEN 'short' WHEN length < 500 THEN 'medium' ELSE domain END IN ('short', 'code')",
    "abs(quality - 0.5) < 0.1 AND coalesce(nullif(length, 300), 0) > 100",
    "length(language || domain) * 100 > length",
    "lower(substr(domain, 1, 1)) = 'c' OR language GLOB '[d-f]*'",
]
CHUNK = 1_000_000


def columns(begin: int, n: int) -> dict[str, Any]:
    rng = np.random.default_rng(begin)
    return {
        "language": rng.choice(8, n, p=[0.5, 0.1, 0.1, 0.1, 0.05, 0.05, 0.05, 0.05]).astype(np.uint8),
        "domain": rng.integers(0, 8, n, np.uint8),
        "length": rng.geometric(1 / 300, n).astype(np.int64),
        "quality": rng.random(n, np.float32),
    }


def write(path: Path, rows: int) -> None:
    schema = {"language": "str", "domain": "str", "length": "int64", "quality": "float32"}
    languages, domains = np.array(LANGUAGES, object), np.array(DOMAINS, object)
    with leat.Writer(path, schema) as w:
        for begin in range(0, rows, CHUNK):
            c = columns(begin, min(CHUNK, rows - begin))
            w.write_batch({**c, "language": languages[c["language"]].tolist(), "domain": domains[c["domain"]].tolist()})


def duckdb_table(rows: int, times: int, threads: int) -> Any:
    import duckdb
    import pyarrow as pa

    con = duckdb.connect()
    con.execute(f"SET threads = {threads}")
    kind = "ENUM ({})".format(", ".join(f"'{x}'" for x in LANGUAGES))
    con.execute(f"CREATE TYPE language AS {kind}")
    con.execute("CREATE TYPE domain AS ENUM ({})".format(", ".join(f"'{x}'" for x in DOMAINS)))
    con.execute("CREATE TABLE enums (language language, domain domain, length BIGINT, quality FLOAT)")
    for begin in range(0, rows, CHUNK):
        c = columns(begin, min(CHUNK, rows - begin))
        table = pa.table(
            {
                "language": pa.DictionaryArray.from_arrays(c["language"], LANGUAGES),
                "domain": pa.DictionaryArray.from_arrays(c["domain"], DOMAINS),
                "length": c["length"],
                "quality": c["quality"],
            }
        )
        con.register("part", table)
        con.execute("INSERT INTO enums SELECT * FROM part")
        con.unregister("part")
    con.execute("CREATE TABLE once AS SELECT * FROM enums")
    for _ in range(times - 1):
        con.execute("INSERT INTO enums SELECT * FROM once")
    return con


def timed(run: Callable[[], Any]) -> tuple[float, float, Any]:
    """Seconds on the clock, seconds of all cores, and what `run` gives."""
    begin, cpu = time.perf_counter(), time.process_time()
    result = run()
    return time.perf_counter() - begin, time.process_time() - cpu, result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000_000)
    parser.add_argument("--file", type=Path, default=Path("/tmp/leat-query.leat"))
    parser.add_argument("--times", type=int, default=1)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--no-peer", action="store_true", help="without DuckDB")
    args = parser.parse_args()
    if not args.file.exists():
        print(f"writing {args.file} ...", flush=True)
        write(args.file, args.rows)
    seconds, _, ds = timed(lambda: leat.concat([leat.open(args.file) for _ in range(args.times)]))
    threads = len(os.sched_getaffinity(0))
    print(f"leat {leat.__version__}, {threads} cores, {len(ds):,} records; opened in {seconds * 1000:.0f} ms")
    seconds, _, _ = timed(lambda: ds.where(CLAUSES[0]))
    print(f"first query, texts become codes: {seconds:.2f} s")
    con = None
    if not args.no_peer:
        import duckdb

        con = duckdb_table(len(ds) // args.times, args.times, threads)
        print(f"DuckDB {duckdb.__version__}, the same columns as a table in memory, text as ENUM")
    print(f"{'rows':>11} {'leat s':>8} {'CPU s':>7} {'DuckDB s':>9} {'CPU s':>7} {'CPU ratio':>9}  clause")
    for clause in CLAUSES:
        ours: list[tuple[float, float]] = []
        theirs: list[tuple[float, float]] = []
        query = f"SELECT rowid FROM enums WHERE {clause}"
        for _ in range(args.runs):
            wall, cpu, view = timed(partial(ds.where, clause))
            ours.append((wall, cpu))
            if con is None:
                continue
            wall, cpu, result = timed(partial(lambda text: con.sql(text).to_arrow_table(), query))
            theirs.append((wall, cpu))
            if result.num_rows != len(view):
                raise SystemExit(f"{clause}: leat has {len(view)} rows, DuckDB {result.num_rows}")
        (a, b), (c, d) = (
            [statistics.median(x) for x in zip(*t or [(math.nan, math.nan)], strict=True)] for t in (ours, theirs)
        )
        print(f"{len(view):11,} {a:8.2f} {b:7.2f} {c:9.2f} {d:7.2f} {d / b:9.2f}  {clause}", flush=True)


if __name__ == "__main__":
    main()
