"""Blocks of cells in the place of a full shuffle (scDataset, arXiv 2506.01883), from files sorted by cell type.

    python recipes/cells.py [--short] [--out DIR]

scDataset shuffles blocks of neighbours, then the cells of some of them at a time: `leat.Blocks(block, window)`. Printed
by order: the loss on held-out cells after training, mean and standard deviation over seeds, of a linear classifier of
types on 700 cells of 10x, and on an .h5ad drawn around them; of a net that guesses hidden genes of Geneformer's tokens,
its cells in the order of their first principal component. And thousands of cells a second of passes over the .h5ad, its
pages dropped from memory, and there; decoded it is larger than the cache (LEAT_CACHE_BYTES). Data: the folder LEAT_DATA
names, else cells are made. Needs matplotlib, SciPy, h5py and zarr.
"""

import argparse
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import torch
from matplotlib.figure import Figure
from scipy.sparse import csr_matrix
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

import leat

PARTS, RANKS, VOCABULARY, REAL = 2, 64, 25_426, Path(os.environ.get("LEAT_DATA", "/nowhere"), "single-cell")
BLOCKS = {f"Blocks{shape}": leat.Blocks(*shape) for shape in ((16, 1024), (64, 1024), (16, 256), (16, 64))}
ORDERS = {"full shuffle": True, **BLOCKS, "the file's": False}
LOGS, DENSE = [leat.ops.NormalizeTotal(), leat.ops.Log1p(), leat.ops.Densify()], [leat.ops.Densify()]
TYPE, HIDE = [leat.ops.ToDtype("int64")], [leat.ops.MaskTokens(1, VOCABULARY)]
Task = tuple[leat.Dataset, leat.Batch, dict[str, Any], Any, int, int]  # rows, test, outputs, net, batch, epochs


class Net(nn.ModuleList):
    def forward(self, batch: leat.Batch) -> tuple[Tensor, Tensor]:
        """Guesses and truths: types, or hidden genes, these by their ranks and the mean of the others."""
        if "type" in batch:
            return self[0](batch["x"]), batch["type"]
        tokens, hidden = batch["x"].to_padded(0)[:, :RANKS], batch["x.labels"].to_padded(-100)[:, :RANKS]
        cell, rank = (hidden != -100).nonzero(as_tuple=True)
        return self[1](self[0](tokens).mean(1)[cell] + self[0](VOCABULARY + rank)), hidden[cell, rank]


def write(path: Path, counts: Any, types: Any) -> leat.Dataset:
    """An .h5ad as anndata writes it with gzip."""
    matrix, frames = csr_matrix(counts, dtype=np.float32), {"encoding-type": "dataframe", "encoding-version": "0.2.0"}
    with h5py.File(path, "w") as file:
        for part in ("data", "indices", "indptr"):
            file.create_dataset(f"X/{part}", data=getattr(matrix, part), compression="gzip")
        file["X"].attrs.update({"encoding-type": "csr_matrix", "encoding-version": "0.1.0", "shape": matrix.shape})
        file["obs/type"] = types
        for frame, n, columns in (("obs", matrix.shape[0], ["type"]), ("var", matrix.shape[1], [])):
            file[f"{frame}/_index"] = [f"{frame} {i}" for i in range(n)]
            file[frame].attrs.update({**frames, "_index": "_index", "column-order": np.array(columns, "S")})
    return leat.open(path)


def whole(rows: leat.Dataset, outputs: dict[str, Any]) -> leat.Batch:
    return next(iter(leat.Loader(rows, len(rows), outputs=outputs)))


def tasks(folder: Path, n: int, epochs: int) -> dict[str, Task]:
    """Each tenth cell is held out; rows are whole batches, so that one rank and two make the same steps."""
    draw, x, y = np.random.default_rng(0), "X", "obs.type"
    if REAL.is_dir():
        few, x, y = leat.open(REAL / "10x_pbmc68k_reduced.zarr.zip"), "layers.counts", "obs.bulk_labels.code"
    else:
        types = draw.integers(10, size=700)
        few = write(folder / "few.h5ad", draw.poisson(draw.gamma(8, 0.1, (10, 500))[types]), types)
    types, counts = few.column(y), whole(few, {x: DENSE})[x].numpy()
    order = types.argsort(kind="stable")
    train, test = np.delete(order, np.s_[::10]), order[::10]
    means = np.stack([counts[train][types[train] == t].mean(0) for t in range(10)])
    picked = train[np.sort(draw.integers(len(train), size=n))]
    many = write(folder / "many.h5ad", draw.poisson(0.7 * counts[picked] + 0.3 * means[types[picked]]), types[picked])
    given, drawn = ({"x": leat.Out(a, LOGS), "type": leat.Out(b, TYPE)} for a, b in ((x, y), ("X", "obs.type")))
    made, held_out, net = {}, whole(few.select(test), given), lambda: Net([nn.Linear(counts.shape[1], 10)])
    made["10x"] = few.select(train[: len(train) // 32 * 32]), held_out, given, net, 32, epochs
    made["h5ad"] = many[: n // 64 * 64], held_out, drawn, net, 64, 1
    if REAL.is_dir():
        ds, given = leat.open(REAL / "genecorpus_500_samples.parquet"), {"x": leat.Out("input_ids", HIDE)}
        ids = whole(ds, {"input_ids": []})["input_ids"]
        genes = csr_matrix((np.ones(len(ids.values)), ids.values, ids.offsets))
        alike = (genes @ genes.T).toarray()
        order = np.linalg.eigh(alike - alike.mean(0) - alike.mean(1)[:, None] + alike.mean())[1][:, -1].argsort()
        rows, test = ds.select(np.delete(order, np.s_[::10])[:448]), whole(ds.select(order[::10]), given)
        gene, head = (nn.Embedding, VOCABULARY + RANKS, 32), (nn.Linear, 32, VOCABULARY)
        made["tokens"] = rows, test, given, lambda: Net(kind(*size) for kind, *size in (gene, head)), 16, epochs // 2
    return made


def steps(task: Task, order: Any, seed: int, state: Any = None, **ranks: Any) -> Iterator[tuple[list[leat.Batch], Any]]:
    """The batches of a rank in each step, PARTS of all ranks, and the state after it, from which any ranks go on."""
    rows, _, outputs, _, batch, epochs = task
    with leat.Loader(rows, batch // PARTS, outputs=outputs, shuffle=order, seed=seed, **ranks) as loader:
        loader.load_state_dict(state or loader.state_dict())
        while loader.epoch < epochs:
            for parts in zip(*[iter(loader)] * (PARTS // ranks.get("world_size", 1)), strict=True):
                yield list(parts), loader.state_dict()


def loss(task: Task, order: Any, seed: int) -> float:
    torch.manual_seed(seed)
    net = task[3]()
    optimizer = torch.optim.Adam(net.parameters(), 3e-3)
    for parts, _ in steps(task, order, seed):
        optimizer.zero_grad()
        torch.stack([cross_entropy(*net(part)) for part in parts]).mean().backward()
        optimizer.step()
    return float(cross_entropy(*torch.no_grad()(net)(task[1])))


def speed(path: Path, order: Any, cold: bool) -> float:
    with path.open("rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        file.read(0 if cold else -1)
    with leat.Loader(leat.open(path, fields=["X"]), 64, shuffle=order, outputs={"X": DENSE}) as loader:
        begun = time.perf_counter()
        return sum(batch.size for batch in loader) / (time.perf_counter() - begun) / 1000  # thousands a second


def main() -> None:
    arguments = argparse.ArgumentParser(description="Trains on cells in blocks, shuffled and as in a file.")
    arguments.add_argument("--short", action="store_true", help="some seconds: fewer cells, epochs and seeds")
    arguments.add_argument("--out", type=Path, default=Path("recipes-out"), help="a folder for the plot")
    given = arguments.parse_args()
    torch.set_num_threads(1)
    n, epochs, seeds, cache = (2_000, 2, 1, 1 << 19) if given.short else (20_000, 5, 5, 4 << 20)
    os.environ.setdefault("LEAT_CACHE_BYTES", str(cache))
    given.out.mkdir(parents=True, exist_ok=True)
    axis, made = Figure(layout="constrained").subplots(), tasks(given.out, n, epochs)
    many = given.out / "many.h5ad"
    print(f"{'order':17}", *(f"{name:>15}" for name in made), f"{'cold':>6} {'warm':>6}")
    turns = [[[speed(many, order, cold) for cold in (True, False)] for order in ORDERS.values()] for _ in range(seeds)]
    for (label, order), rates in zip(ORDERS.items(), np.max(turns, 0), strict=True):
        losses = np.array([[loss(task, order, seed) for seed in range(seeds)] for task in made.values()])
        print(f"{label:17}", *(f"{a.mean():7.3f} +- {a.std():.3f}" for a in losses), *(f"{a:6.1f}" for a in rates))
        axis.plot(rates[0], losses[1].mean(), "o", label=label)
    axis.set(xscale="log", yscale="log", xlabel="thousands of cells a second, cold", ylabel="loss on held-out cells")
    axis.legend()
    axis.figure.savefig(given.out / "cells.png", dpi=100)


if __name__ == "__main__":
    main()
