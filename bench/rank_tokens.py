"""Cells as ranked tokens: leat.ops.RankTokens and SelectGenes against NumPy in the same run.

    python bench/rank_tokens.py [--genes 24000] [--cells 512] [--rounds 5]

- RankTokens: cells of 1,000 and of 2,000 values to at most 2,048 tokens with begin and end, as the loader's statistics
  say, of one thread; against what Geneformer's tokenizer does with the same values and columns of one cell: divided by
  their sum, times 10,000, by the medians of their genes, and sorted by argsort, which is unstable; tokens of a table.
  "stable" is argsort(kind="stable"), which settles equal ones, as leat does.
- SelectGenes: 2,000 of the genes, in another order, of the same cells; against SciPy's matrix[:, columns] of all cells
  at once.

Counts are whole numbers whose logarithm is normal, half of them 1, so that many are equal; floats do not repeat.
Medians differ by gene. Jobs are timed in turns, and the median of ratios is printed, with the least and the largest.
"""

from __future__ import annotations

import argparse
import os
import timeit
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse

import leat

MOST, BOS, EOS = 2048, 2, 3


def cells(rng: np.random.Generator, n: int, genes: int, values: int, whole: bool) -> Any:
    """Rows of so many values, in columns that are drawn."""
    columns = np.concatenate([np.sort(rng.choice(genes, values, replace=False)) for _ in range(n)]).astype(np.int32)
    drawn = np.exp(rng.normal(0, 1.2, n * values))
    counts = np.floor(drawn) + 1 if whole else drawn
    return sparse.csr_matrix((counts.astype(np.float32), columns, np.arange(0, n * values + 1, values)), (n, genes))


def nanoseconds(matrix: Any, op: leat.ops.Operator) -> Callable[[], float]:
    """Of an operator and cell, by the loader's statistics: those of the quickest of some epochs."""
    outputs: Any = {"X": [op]}
    made = leat.Loader(leat.from_arrays(X=matrix), 64, num_threads=1, framework="numpy", outputs=outputs)
    seen = [0.0, 0]

    def measure() -> float:
        found = []
        while len(found) < 8:
            for _batch in made:
                pass
            steps = [s for s in made.stats()["operators"] if s["step"] == type(op).__name__]
            now = [sum(s["s"] for s in steps), sum(s["rows"] for s in steps)]
            if now[1] > seen[1]:  # they are made ahead
                found.append(1e9 * (now[0] - seen[0]) / (now[1] - seen[1]))
            seen[:] = now
        return float(min(found))

    return measure


def geneformer(matrix: Any, medians: Any, tokens: Any, kind: Any) -> Callable[[], float]:
    """The same of a cell with NumPy, the next one at each call."""
    rows = [(matrix[i].data, matrix[i].indices) for i in range(matrix.shape[0])]
    at = [0]

    def one() -> Any:
        at[0] = (at[0] + 1) % len(rows)
        values, columns = rows[at[0]]
        norm = values / values.sum() * 1e4 / medians[columns]
        order = np.argsort(-norm, kind=kind)[: MOST - 2]
        made = np.empty(len(order) + 2, np.int64)
        made[0], made[-1] = BOS, EOS
        made[1:-1] = tokens[columns[order]]
        return made

    return lambda: 1e9 * min(timeit.repeat(one, number=400, repeat=3)) / 400


def scipy(matrix: Any, columns: Any) -> Callable[[], float]:
    """The time of a cell, when columns of all are picked."""
    return lambda: 1e9 * min(timeit.repeat(lambda: matrix[:, columns], number=1, repeat=5)) / matrix.shape[0]


def beside(name: str, ours: Callable[[], float], theirs: Callable[[], float], rounds: int) -> None:
    pairs = []
    for _ in range(rounds):
        other, own = theirs(), ours()
        pairs.append((other / own, own, other))
    pairs.sort()
    median, own, other = pairs[len(pairs) // 2]
    spread = f"{pairs[0][0]:.2f} to {pairs[-1][0]:.2f}"
    print(f"{name:52} {median:6.2f}  ({spread}; {own:,.0f} and {other:,.0f} ns a cell)")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--genes", type=int, default=24000)
    parser.add_argument("--cells", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    with open("/proc/cpuinfo") as f:
        model = next((line.split(":")[1].strip() for line in f if line.startswith("model name")), "unknown processor")
    print(f"{model}, {os.cpu_count()} cores")
    print(f"leat {leat.__version__}, numpy {np.__version__}")
    rng = np.random.default_rng(0)
    medians = np.exp(rng.normal(0.5, 0.6, args.genes))
    tokens = rng.permutation(args.genes) + 4
    some = rng.choice(args.genes, 2000, replace=False)
    rank = leat.ops.RankTokens(tokens, medians, MOST, bos=BOS, eos=EOS)
    for values in (1000, 2000):
        for whole in (True, False):
            matrix = cells(rng, args.cells, args.genes, values, whole)
            ours, what = nanoseconds(matrix, rank), f"{values:,} {'counts' if whole else 'floats'}"
            for kind in (None, "stable"):
                theirs = geneformer(matrix, medians, tokens, kind)
                beside(f"RankTokens, {what} / NumPy, {kind or 'unstable'}", ours, theirs, args.rounds)
            if whole:
                ours = nanoseconds(matrix, leat.ops.SelectGenes(some))
                picked = scipy(matrix, some)
                beside(f"SelectGenes, {what} / SciPy", ours, picked, args.rounds)


if __name__ == "__main__":
    main()
