"""Cells of 1,000 values in random order: leat on its own file, an .h5ad and SCDL, beside NumPy and h5py, in turns.

    python bench/cells.py [--cells 20000] [--rounds 5] [--threads 1] [--cold]

The cells are drawn here: columns that rise, of 24,000 genes, small counts as float32. `copy` gathers the rows of three
plain arrays and joins them in batches of 64: what any loader has to do. `h5py` reads the rows of a batch from the
.h5ad, sorted, as anndata's backed mode does. A figure is the median of the rounds, in cells a second; a ratio is the
median of those of the rounds. --cold: pages of the files are dropped before each epoch, which is then the first one of
a process that has the file open. `convert` writes the .h5ad as a file of leat, beside h5py inflating its chunks.
"""

from __future__ import annotations

import argparse
import os
import platform
import resource
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import leat

BATCH, VALUES, GENES = 64, 1000, 24_000


def drawn(cells: int) -> tuple[Any, Any, Any]:
    """Pointers, columns and values."""
    r = np.random.default_rng(0)
    step = GENES // VALUES
    columns = np.arange(VALUES, dtype=np.int32) * step + r.integers(0, step, (cells, VALUES), np.int32)
    values = r.geometric(0.4, cells * VALUES).astype(np.float32)
    return np.arange(cells + 1, dtype=np.int64) * VALUES, columns.reshape(-1), values


def write_h5ad(path: Path, pointers: Any, columns: Any, values: Any) -> None:
    import h5py

    with h5py.File(path, "w") as file:
        x = file.create_group("X")
        x.attrs.update(
            {"encoding-type": "csr_matrix", "encoding-version": "0.1.0", "shape": (len(pointers) - 1, GENES)}
        )
        for name, array in (("data", values), ("indices", columns), ("indptr", pointers)):
            x.create_dataset(name, data=array, chunks=(10_000,), compression="gzip")
        for name, n in (("obs", len(pointers) - 1), ("var", GENES)):
            frame = file.create_group(name)
            frame.attrs.update({"encoding-type": "dataframe", "encoding-version": "0.2.0", "_index": "_index"})
            frame.attrs.create("column-order", [], dtype=h5py.string_dtype(), shape=(0,))
            frame["_index"] = np.arange(n).astype(str).astype(h5py.string_dtype())


def drop(files: list[Path]) -> None:
    for path in (p for f in files for p in (f.rglob("*") if f.is_dir() else [f]) if p.is_file()):
        with open(path, "rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def loading(path: Path, threads: int, shuffle: Any) -> Callable[[], int]:
    loader = leat.Loader(leat.open(path, fields=["X"]) if path.suffix != ".leat" else leat.open(path), BATCH,
                         shuffle=shuffle, num_threads=threads, framework="numpy")  # fmt: skip
    return lambda: sum(batch.size for batch in loader)


def copying(pointers: Any, columns: Any, values: Any) -> Callable[[], int]:
    def epoch() -> int:
        order = np.random.permutation(len(pointers) - 1)
        for first in range(0, len(order), BATCH):
            rows = order[first : first + BATCH]
            np.concatenate([columns[pointers[i] : pointers[i + 1]] for i in rows])
            np.concatenate([values[pointers[i] : pointers[i + 1]] for i in rows])
        return len(order)

    return epoch


def by_h5py(path: Path, pointers: Any, batches: int = 10) -> Callable[[], int]:
    import h5py

    file = h5py.File(path, "r")

    def epoch() -> int:
        order = np.random.permutation(len(pointers) - 1)[: batches * BATCH]
        for first in range(0, len(order), BATCH):
            for i in np.sort(order[first : first + BATCH]):
                for name in ("data", "indices"):
                    file[f"X/{name}"][pointers[i] : pointers[i + 1]]
        return len(order)

    return epoch


def converted(path: Path, to: Path) -> tuple[float, float]:
    """Seconds to write it as a file of leat, and to inflate it by h5py."""
    import h5py

    ds = leat.open(path, fields=["X"])
    began = time.perf_counter()
    with leat.Writer(to, {"X": ds.schema["X"]}, overwrite=True) as writer:
        writer.write_dataset(ds)
    middle = time.perf_counter()
    with h5py.File(path, "r") as file:
        for name in ("data", "indices"):
            array = file[f"X/{name}"]
            for first in range(0, len(array), 1 << 20):
                array[first : first + (1 << 20)]
    return middle - began, time.perf_counter() - middle


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cells", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--cold", action="store_true")
    given = parser.parse_args()
    model = next(
        (
            line.split(":")[1].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("model name")
        ),
        "",
    )
    print(f"{model}, {platform.platform()}, NumPy {np.__version__}, {given.cells} cells of {VALUES} values")
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        arrays = drawn(given.cells)
        write_h5ad(work / "cells.h5ad", *arrays)
        with leat.Writer(work / "cells.leat", {"X": leat.sparse("float32", GENES)}) as writer:
            writer.write_dataset(leat.open(work / "cells.h5ad", fields=["X"]))
        leat.write_scdl(leat.open(work / "cells.leat"), work / "cells.scdl")
        ways = {
            "copy": copying(*arrays),
            "leat, its own file": loading(work / "cells.leat", given.threads, True),
            "leat, SCDL": loading(work / "cells.scdl", given.threads, True),
            "leat, h5ad, Blocks(16, window=4096)": loading(
                work / "cells.h5ad", given.threads, leat.Blocks(16, window=4096)
            ),
            "h5py, h5ad": by_h5py(work / "cells.h5ad", arrays[0]),
        }
        rates: dict[str, list[float]] = {name: [] for name in ways}
        for turn in range(given.rounds + 1):
            for name in list(ways)[turn % len(ways) :] + list(ways)[: turn % len(ways)]:
                if given.cold:
                    drop([work / "cells.h5ad", work / "cells.leat", work / "cells.scdl"])
                began = time.perf_counter()
                n = ways[name]()
                if turn:  # the first one warms up
                    rates[name].append(n / (time.perf_counter() - began))
        for name, found in rates.items():
            ratio = statistics.median(a / b for a, b in zip(found, rates["copy"], strict=True))
            print(f"{statistics.median(found):10,.0f} cells/s  {ratio:5.2f} of copy  {name}")
        ours, theirs = zip(
            *(converted(work / "cells.h5ad", work / "made.leat") for _ in range(given.rounds)), strict=True
        )
        print(f"convert: {statistics.median(b / a for a, b in zip(ours, theirs, strict=True)):.2f} of h5py's rate")
    print(f"at most {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB")


if __name__ == "__main__":
    main()
