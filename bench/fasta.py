"""Reading FASTA: its index, windows of a genome, whole proteins, against NumPy, pysam and noodles in the same run.

    python bench/fasta.py [--data FOLDER] [--seconds 1] [--batch 32] [--folder FOLDER]

- index: opening a file without an index, against `pysam.faidx`; by time, on one core.
- windows: 8,192 bases of a genome of 64 million in lines of 50, shuffled. NumPy gathers the same out of memory.
- proteins: whole ones, shuffled.

Files are made of FOLDER/dna/ce.fa and FOLDER/proteins/*.fasta, or without --data drawn, in --folder (default: a
temporary one). Peers that are not installed (`pip install pysam bionemo-noodles`) are named and left out. Jobs are
timed in turns, by CPU time of one thread each, and the median of ratios of neighbours is printed, as the machine may be
shared.
"""

from __future__ import annotations

import argparse
import importlib
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
from packing import ratio
from sequences import proteins

import leat

WINDOW, GENOME = 8192, 64_000_000


def write(path: Path, records: list[np.ndarray[Any, Any]], width: int) -> list[str]:
    """Writes records in lines of this width; returns their names."""
    names = [f"r{i}" for i in range(len(records))]
    with open(path, "wb") as f:
        for name, residues in zip(names, records, strict=True):
            f.write(f">{name}\n".encode())
            text = residues.tobytes()
            f.writelines(text[i : i + width] + b"\n" for i in range(0, len(text), width))
    return names


def genome(folder: str | None) -> list[np.ndarray[Any, Any]]:
    path = Path(folder or "/nonexistent") / "dna" / "ce.fa"
    if path.exists():
        contigs = [record["sequence"] for record in leat.open(path)]
    else:
        rng = np.random.default_rng(0)
        contigs = [np.frombuffer(b"ACGT", np.uint8)[rng.integers(0, 4, 150_000)] for _ in range(7)]
    return contigs * (GENOME // sum(map(len, contigs)) + 1)


def peer(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        print(f"{name} is not installed")
        return None


def fetched(path: Path, plan: list[tuple[str, int, int]], batch: int, name: str) -> Callable[[], Iterable[int]]:
    """The ranges of a plan, in a new order each time, by pysam or noodles."""
    if name == "pysam":
        found = importlib.import_module(name).FastaFile(str(path))
        get = found.fetch
    else:
        records = importlib.import_module(name).NvFaidx(str(path))

        def get(record: str, begin: int, end: int) -> str:
            return records[record][begin:end]

    def epoch() -> Iterable[int]:
        order = np.random.permutation(len(plan))
        for a in range(0, len(plan), batch):
            yield len([np.frombuffer(get(*plan[i]).encode(), np.uint8).copy() for i in order[a : a + batch]])

    return epoch


def gathered(flat: np.ndarray[Any, Any], places: np.ndarray[Any, Any], batch: int) -> Callable[[], Iterable[int]]:
    """The same out of an array in memory."""

    def epoch() -> Iterable[int]:
        order = np.random.permutation(len(places))
        for a in range(0, len(places), batch):
            np.concatenate([flat[begin:end] for begin, end in places[order[a : a + batch]]])
            yield len(order[a : a + batch])

    return epoch


def loaded(ds: leat.Dataset, batch: int) -> Callable[[], Iterable[int]]:
    loader = leat.Loader(ds, batch, shuffle=True, num_threads=1, framework="numpy", outputs={"sequence": []})
    return lambda: (len(b.ids) for b in loader)


def compare(name: str, mine: Callable[[], Iterable[int]], theirs: Callable[[], Iterable[int]], seconds: float) -> None:
    print(f"{name:28} {ratio(mine, theirs, seconds)}", flush=True)


def index(path: Path, pysam: Any) -> None:
    """Both read the whole file; in turns, on one core."""
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cores)})
    pairs = []
    for _ in range(5):
        times = []
        for make, kept in ((lambda: leat.open(path), ".leat-index"), (lambda: pysam.faidx(str(path)), ".fai")):
            for end in (".leat-index", ".fai"):
                Path(f"{path}{end}").unlink(missing_ok=True)
            begun = time.perf_counter()
            make()
            times.append(time.perf_counter() - begun)
            assert Path(f"{path}{kept}").exists()
        pairs.append((times[1] / times[0], path.stat().st_size / times[0] / 1e6))
    os.sched_setaffinity(0, cores)
    found = sorted(p[0] for p in pairs)
    rate = statistics.median(p[1] for p in pairs)
    print(f"{'index / pysam.faidx':28} {found[2]:5.2f}  ({found[0]:.2f} to {found[-1]:.2f}; {rate:,.0f} MB/s)")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", help="a folder with dna/ce.fa and proteins/*.fasta")
    parser.add_argument("--seconds", type=float, default=1)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--folder", help="for the files that are made")
    args = parser.parse_args()
    folder = Path(args.folder or tempfile.mkdtemp())
    with open("/proc/cpuinfo") as f:
        model = next((line.split(":")[1].strip() for line in f if line.startswith("model name")), "unknown processor")
    print(f"{model}, {os.cpu_count()} cores\nleat {leat.__version__}, numpy {np.__version__}")
    pysam, noodles = peer("pysam"), peer("bionemo.noodles.nvfaidx")
    for job, records, width in (("windows", genome(args.data), 50), ("proteins", proteins(args.data), 60)):
        path = folder / f"{job}.fa"
        names = write(path, records, width)
        if pysam and job == "windows":
            index(path, pysam)
        ds = leat.open(path)
        ends = np.cumsum([0, *map(len, records)])
        if job == "windows":
            ds = leat.windows(ds, "sequence", WINDOW, WINDOW, tail="drop")
            plan = [(i, b, b + WINDOW) for i, r in enumerate(records) for b in range(0, len(r) - WINDOW + 1, WINDOW)]
        else:
            plan = [(i, 0, len(r)) for i, r in enumerate(records)]
        places = np.array([(ends[i] + b, ends[i] + e) for i, b, e in plan])
        mine = loaded(ds, args.batch)
        compare(f"{job} / NumPy", mine, gathered(np.concatenate(records), places, args.batch), args.seconds)
        named = [(names[i], b, e) for i, b, e in plan]
        if pysam:
            pysam.faidx(str(path))
            compare(f"{job} / pysam", mine, fetched(path, named, args.batch, "pysam"), args.seconds)
        if noodles:
            compare(f"{job} / noodles", mine, fetched(path, named, args.batch, "bionemo.noodles.nvfaidx"), args.seconds)


if __name__ == "__main__":
    main()
