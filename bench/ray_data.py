"""leat.ray.read against Ray Data's own readers, on a Ray cluster on this machine: rows per second, and the ratio.

    .venv-ray/bin/python bench/ray_data.py PHOTOS [--rounds 3] [--nodes 2]

Photos: encoded, from a folder of files by read_binary_files and from their pack by leat.ray.read. Columns: numbers and
arrays; tokens and texts: of varying length; from Parquet by read_parquet, and from leat's file. Rows go to Ray's
stores, or to this process; there also by leat.ray.Loader, shuffled. Rounds alternate; the figures are medians.
"""

from __future__ import annotations

import argparse
import logging
import os
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import ray
import ray.data

import leat
import leat.ray

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "python"))

from ray_cluster import Cluster  # noqa: E402

ROWS = 400_000
MANY = 700  #: batches of 1,024, of which a loader reads at most 64 ahead


def photos_of(folder: Path, to: Path) -> tuple[list[str], Path]:
    """The paths of photos, and their pack."""
    paths = sorted(str(p) for p in folder.rglob("*") if p.suffix.lower() in (".jpg", ".jpeg"))
    with leat.Writer(to / "photos.leat", {"image": "image", "label": "int64"}, check=False) as w:
        for i, path in enumerate(paths):
            w.add(image=Path(path).read_bytes(), label=i)
    return paths, to / "photos.leat"


def columns_of(to: Path) -> tuple[Path, Path]:
    """The same columns in Parquet and in a file of leat."""
    rng = np.random.default_rng(0)
    numbers = {"x": rng.random(ROWS), "y": rng.integers(0, 1000, ROWS), "z": rng.random(ROWS).astype(np.float32)}
    vector = rng.random((ROWS, 16)).astype(np.float32)
    listed = pa.FixedSizeListArray.from_arrays(pa.array(vector.reshape(-1)), 16)
    table = pa.table({**numbers, "vector": listed})
    pyarrow.parquet.write_table(table, to / "columns.parquet", row_group_size=1 << 16)
    schema = {name: str(values.dtype) for name, values in numbers.items()}
    with leat.Writer(to / "columns.leat", {**schema, "vector": leat.field("float32", (16,))}) as w:
        w.write_batch({**numbers, "vector": vector})
    return to / "columns.parquet", to / "columns.leat"


def texts_of(to: Path) -> tuple[Path, Path]:
    """Documents of tokens and text of varying length, in both forms."""
    rng = np.random.default_rng(1)
    lengths = rng.integers(10, 400, ROWS // 20)
    ends = np.concatenate([[0], np.cumsum(lengths)])
    tokens = rng.integers(0, 50000, ends[-1]).astype(np.int32)
    texts = ["w" * int(n) for n in lengths]
    table = pa.table(
        {"tokens": pa.ListArray.from_arrays(pa.array(ends.astype(np.int32)), pa.array(tokens)), "text": texts}
    )
    pyarrow.parquet.write_table(table, to / "texts.parquet", row_group_size=1 << 12)
    with leat.Writer(to / "texts.leat", {"tokens": leat.field("int32", (None,)), "text": "str"}) as w:
        w.write_batch({"tokens": [tokens[a:b] for a, b in zip(ends, ends[1:], strict=False)], "text": texts})
    return to / "texts.parquet", to / "texts.leat"


def executed(make: Callable[[], Any]) -> int:
    """Reads all blocks into Ray's stores; the number of rows."""
    return sum(bundle.num_rows() or 0 for bundle in make().iter_internal_ref_bundles())


def delivered(make: Callable[[], Any]) -> int:
    """Reads all rows into this process, in batches; their number."""
    return sum(len(next(iter(b.values()))) for b in make().iter_batches(batch_size=1024))


def epochs_of(loader: leat.Loader) -> int:
    """Epochs of a loader: shuffled, by memory of its own; the number of rows. So many that what it has read ahead does
    not count."""
    epochs = -(-MANY // len(loader))
    return sum(batch.size for _ in range(epochs) for batch in loader)


def timed(run: Callable[[Any], int], make: Any) -> float:
    begin = time.perf_counter()
    rows = run(make)
    return rows / (time.perf_counter() - begin)


def main() -> None:
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("photos", type=Path, help="a folder of JPEGs")
    a.add_argument("--rounds", type=int, default=3)
    a.add_argument("--nodes", type=int, default=2)
    o = a.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        paths, packed = photos_of(o.photos, Path(folder))
        parquet, columns = columns_of(Path(folder))
        texts_parquet, texts = texts_of(Path(folder))
        cluster = Cluster(nodes=o.nodes)
        try:
            ray.init(address=cluster.address, log_to_driver=False, logging_level=logging.ERROR)
            ray.data.DataContext.get_current().enable_progress_bars = False
            logging.getLogger("ray.data").setLevel(logging.ERROR)
            data, read = ray.data, leat.ray.read
            twice = leat.open([packed, packed])

            def binaries() -> Any:
                return data.read_binary_files(paths)

            def table(path: Path) -> Callable[[], Any]:
                return lambda: data.read_parquet(str(path))

            jobs = {
                "photos": (executed, binaries, lambda: read(packed, ["image"])),
                "photos, in 8 tasks each": (
                    executed,
                    lambda: data.read_binary_files(paths * 2, override_num_blocks=8),
                    lambda: read(twice, ["image"], override_num_blocks=8),
                ),
                "photos, to this process": (delivered, binaries, lambda: read(packed, ["image"])),
                "columns": (executed, table(parquet), lambda: read(columns)),
                "columns, to this process": (delivered, table(parquet), lambda: read(columns)),
                "one column of four": (
                    executed,
                    lambda: table(parquet)().select_columns(["x"]),
                    lambda: read(columns).select_columns(["x"]),
                ),
                "tokens and texts": (executed, table(texts_parquet), lambda: read(texts)),
                "the same, to this process": (delivered, table(texts_parquet), lambda: read(texts)),
            }
            print(
                f"ray {ray.__version__}, leat {leat.__version__}, {platform.machine()}, {os.cpu_count()} cores,",
                end=" ",
            )
            print(f"load {os.getloadavg()[0]:.1f}, {o.nodes} nodes of one CPU, {len(paths)} photos, {ROWS} rows")
            far = {
                "columns, by leat.ray.Loader": (table(parquet), columns),
                "tokens and texts, by it": (table(texts_parquet), texts),
            }
            print(f"{'rows per second':26} {'Ray Data':>12} {'leat.ray':>12} {'ratio':>7}")
            for name, (run, theirs, ours) in jobs.items():
                timed(run, theirs), timed(run, ours)  # workers have imported what they need
                found = [(timed(run, theirs), timed(run, ours)) for _ in range(o.rounds)]
                first, second = (statistics.median(column) for column in zip(*found, strict=True))
                print(f"{name:26} {first:12,.0f} {second:12,.0f} {second / first:7.2f}", flush=True)
            for name, (theirs, path) in far.items():
                with leat.ray.Loader(leat.open(path), 1024, shuffle=True, framework="numpy") as loader:
                    timed(delivered, theirs), epochs_of(loader)
                    found = [(timed(delivered, theirs), timed(epochs_of, loader)) for _ in range(o.rounds)]
                first, second = (statistics.median(column) for column in zip(*found, strict=True))
                print(f"{name:26} {first:12,.0f} {second:12,.0f} {second / first:7.2f}", flush=True)
        finally:
            ray.shutdown()
            cluster.close()


if __name__ == "__main__":
    main()
