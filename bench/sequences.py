"""Rows of proteins and DNA: letters, crops, tokens and masks, against NumPy and torch in the same run.

    python bench/sequences.py [--data FOLDER] [--seconds 1] [--batch 16]

- Lookup: 1,024 residues to int64, as the loader's statistics say, against NumPy's take into a kept array.
- ReverseComplement: 8,192 bases, against NumPy's take of the reversed bases.
- ESM-2 rows: crop to 1,022, tokens with begin and end, masks, rows behind one another with their offsets; against what
  BioNeMo's recipe does in its collator: rows are padded to the longest, one uniform number a token of the padded batch
  masks, and what is no padding is picked. Its crops and tokens are NumPy's here, in the place of a tokenizer.
- ESM-2 packed: the same by leat.pack_rows(chain=), in one line with cu_seqlens, positions and ids of documents.

Sequences are those of FOLDER/proteins/*.fasta, or without --data as many of such lengths. Jobs are timed in turns, by
CPU time of one thread each, and the median of ratios of neighbours is printed, as the machine may be shared.
"""

from __future__ import annotations

import argparse
import os
import timeit
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from packing import ratio

import leat

LETTERS = "LAGVSERTIDPKQNFYMHWCXBUZO.-"
MASK = leat.ops.MaskTokens(32, 33, special_ids=(0, 1, 2, 3, 32))
TABLE = np.full(256, 3)
TABLE[np.frombuffer(LETTERS.encode(), np.uint8)] = np.arange(4, 31)


def proteins(folder: str | None) -> list[np.ndarray[Any, Any]]:
    found = []
    for path in sorted(Path(folder or "/nonexistent").glob("proteins/*.fasta")):
        found += [record["sequence"] for record in leat.open(path)]
    if not found:
        rng = np.random.default_rng(0)
        for n in np.clip(rng.lognormal(5.7, 0.7, 20000), 20, 30000).astype(int):
            found.append(np.frombuffer(LETTERS[:20].encode(), np.uint8)[rng.integers(0, 20, n)])
    return found


def data_set(rows: list[np.ndarray[Any, Any]]) -> leat.Dataset:
    return leat.from_arrays(sequence=leat.Ragged(np.concatenate(rows), np.cumsum([0, *map(len, rows)])))


def loader(rows: list[np.ndarray[Any, Any]], chain: list[Any], batch: int, shuffle: bool = True) -> leat.Loader:
    outputs: Any = {"sequence": chain}
    return leat.Loader(data_set(rows), batch, shuffle=shuffle, num_threads=1, framework="numpy", outputs=outputs)


def loaded(rows: list[np.ndarray[Any, Any]], batch: int) -> Callable[[], Iterable[int]]:
    made = loader(rows, [leat.ops.RandomSlice(1022), leat.ops.Lookup("esm2"), MASK], batch)
    return lambda: (len(b["sequence"]) for b in made)


def packed(rows: list[np.ndarray[Any, Any]], batch: int) -> Callable[[], Iterable[int]]:
    """The same by leat.pack_rows: as many tokens a batch as `batch` rows have."""
    chain = [leat.ops.RandomSlice(1022), leat.ops.Lookup("esm2"), MASK]
    lines = leat.pack_rows(data_set(rows), "sequence", how="ragged", fill=1, chain=chain)
    tokens = max(1024, int(batch * np.mean([min(len(row), 1022) + 2 for row in rows])))
    outputs: Any = {"sequence": []}
    made = leat.Loader(lines, batch_tokens=tokens, shuffle=True, num_threads=1, framework="numpy", outputs=outputs)
    return lambda: (len(b["cu_seqlens"]) - 1 for b in made)


def collate(rows: list[np.ndarray[Any, Any]]) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Tokens, labels and offsets of a batch, as BioNeMo comes to them."""
    lengths = torch.tensor([len(row) for row in rows])
    tokens = torch.full((len(rows), int(lengths.max())), 1)
    for i, row in enumerate(rows):
        tokens[i, : len(row)] = torch.from_numpy(row)
    special = (tokens < 4) | (tokens == 32)
    u = torch.rand(tokens.shape).masked_fill(special, 1.0)
    labels = torch.where(u < 0.15, tokens, -100)
    masked = torch.where(u < 0.12, 32, tokens)
    masked = torch.where((u >= 0.12) & (u < 0.135), torch.randint(33, tokens.shape), masked)
    there = torch.arange(tokens.shape[1]) < lengths[:, None]
    return masked[there], labels[there], torch.cat([torch.zeros(1, dtype=torch.int64), lengths.cumsum(0)]).int()


def collated(rows: list[np.ndarray[Any, Any]], batch: int) -> Callable[[], Iterable[int]]:
    rng = np.random.default_rng(0)

    def epoch() -> Iterable[int]:
        order = rng.permutation(len(rows))
        for i in range(0, len(order), batch):
            tokens = []
            for k in order[i : i + batch]:
                row = rows[k]
                begin = rng.integers(0, len(row) - 1022 + 1) if len(row) > 1022 else 0
                cut = row[begin : begin + 1022]
                made = np.empty(len(cut) + 2, np.int64)
                made[0], made[-1] = 0, 2
                TABLE.take(cut, out=made[1:-1], mode="clip")
                tokens.append(made)
            collate(tokens)
            yield len(tokens)

    return epoch


def nanoseconds(rows: list[np.ndarray[Any, Any]], op: leat.ops.Operator) -> float:
    """Of an operator and row, by the loader's statistics: those of the quickest epoch, in memory that was in use."""
    made, seen, found = loader(rows, [op], 64, shuffle=False), (0.0, 0), []
    for _ in range(40):
        for _batch in made:
            pass
        step = next(s for s in made.stats()["operators"] if s["step"] == type(op).__name__)
        if step["rows"] > seen[1]:  # they are made ahead
            found.append(1e9 * (step["s"] - seen[0]) / (step["rows"] - seen[1]))
        seen = step["s"], step["rows"]
    return float(min(found))


def beside(name: str, rows: list[np.ndarray[Any, Any]], op: leat.ops.Operator, numpy: Callable[[], Any]) -> None:
    pairs = []
    for _ in range(5):
        theirs = 1e6 * min(timeit.repeat(numpy, number=1000, repeat=3))
        pairs.append((theirs / nanoseconds(rows, op), theirs))
    pairs.sort()
    median, theirs = pairs[2]
    spread = f"{pairs[0][0]:.2f} to {pairs[-1][0]:.2f}"
    print(f"{name + ' / NumPy':28} {median:5.2f}  ({spread}; {theirs / median:,.0f} and {theirs:,.0f} ns)")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", help="a folder with proteins/*.fasta")
    parser.add_argument("--seconds", type=float, default=1)
    parser.add_argument("--batch", type=int, default=16)
    args = parser.parse_args()
    with open("/proc/cpuinfo") as f:
        model = next((line.split(":")[1].strip() for line in f if line.startswith("model name")), "unknown processor")
    print(f"{model}, {os.cpu_count()} cores")
    print(f"leat {leat.__version__}, numpy {np.__version__}, torch {torch.__version__}")
    torch.set_num_threads(1)
    rng = np.random.default_rng(0)
    residues = [np.frombuffer(LETTERS.encode(), np.uint8)[rng.integers(0, 20, 1024)] for _ in range(512)]
    bases = [np.frombuffer(b"ACGT", np.uint8)[rng.integers(0, 4, 8192)] for _ in range(512)]
    room, turned, complement = np.empty(1024, np.int64), np.empty(8192, np.uint8), np.arange(256, dtype=np.uint8)
    complement[np.frombuffer(b"ACGT", np.uint8)] = np.frombuffer(b"TGCA", np.uint8)
    lookup, strand = leat.ops.Lookup("esm2", bos=None, eos=None), leat.ops.ReverseComplement(1.0)
    beside("Lookup", residues, lookup, lambda: TABLE.take(residues[0], out=room, mode="clip"))
    beside("ReverseComplement", bases, strand, lambda: complement.take(bases[0][::-1], out=turned, mode="clip"))
    rows = proteins(args.data)
    print(f"{len(rows):,} proteins, {sum(map(len, rows)) / len(rows):.0f} residues each")
    print(f"{'ESM-2 rows / collator':28} {ratio(loaded(rows, args.batch), collated(rows, args.batch), args.seconds)}")
    print(f"{'ESM-2 packed / collator':28} {ratio(packed(rows, args.batch), collated(rows, args.batch), args.seconds)}")


if __name__ == "__main__":
    main()
