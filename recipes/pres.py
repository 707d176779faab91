"""Larger batches of events by predicted memories (PRES, arXiv 2402.04284), for a graph network with memory (TGN).

    python recipes/pres.py [--short] [--out DIR] [--seeds 0 1 2]

A batch updates each node's memory once: its later events do not see the pending ones before them. Printed by training
batch: average precision on later events, always in batches of 200, mean and standard error over seeds; the share of
pending events; CPU seconds of an epoch. Plain, with PRES as in the paper (predictions clamped to what states can be),
and as its public code does. Neighbours, negatives and pending counts come from `leat.temporal`, on messages of students
(`temporal-graph` in LEAT_DATA) and on drawn conversations, which large batches hide. Memories lie in a `leat.Store`;
`store.copy` keeps them as of the ends of training and validation, from which a run that is started again goes on.
"""

import argparse
import json
import os
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, cosine_similarity, embedding

import leat

DIM, HEADS, NEIGHBORS, WAVES = 32, 2, 10, 10 ** -torch.linspace(0, 7, 16)
REAL = Path(os.environ.get("LEAT_DATA", "/nowhere"), "temporal-graph", "CollegeMsg.txt")
RUNS = [(b, "plain") for b in (200, 800, 3200)] + [(b, "paper") for b in (800, 3200)] + [(3200, "code")]
SHAPES: dict[str, tuple[int, ...]] = {"state": (DIM,), "message": (2 * DIM,), "n": (2,), "rates": (2, DIM)}
SHAPES |= {"sums": (DIM,), "updated": (), "due": ()}  # the last two are times: of an update, of a message that waits
FIELDS = {name: leat.field("float32" if shape else "int64", shape) for name, shape in SHAPES.items()}
Rows = dict[str, Tensor]  # what is known of each node; the last row stays zero: that of neighbours that are not there


def fresh(nodes: int) -> Rows:
    return {name: torch.zeros(nodes + 1, *s) if s else torch.full((nodes + 1,), -1) for name, s in SHAPES.items()}


def waves(seconds: Tensor) -> Tensor:
    return (seconds.clamp(min=0).float()[..., None] * WAVES).cos()


def spread(x: Tensor) -> Tensor:
    return (x - x.min()) / (x - x.min()).max() if x.max() else x


class TGN(nn.Module):
    def __init__(self, pres: str) -> None:
        super().__init__()
        self.pres, seen = pres, DIM + len(WAVES)
        self.gru, self.query = nn.GRUCell(2 * DIM + len(WAVES), DIM), nn.Linear(DIM, HEADS * seen)  # times the keys'
        self.merge = nn.Sequential(nn.Linear(HEADS * seen + DIM, DIM), nn.ReLU(), nn.Linear(DIM, DIM))
        self.score = nn.Sequential(nn.Linear(2 * DIM, DIM), nn.ReLU(), nn.Linear(DIM, 1))
        self.gain, self.mix = nn.Parameter(torch.zeros(())), nn.Parameter(torch.zeros(2))  # of the paper

    def received(self, rows: Rows, nodes: Tensor, messages: Tensor, at: Tensor) -> Tensor:
        since = waves(at - rows["updated"][nodes].clamp(min=0))
        return self.gru(torch.cat([messages, since], 1), rows["state"][nodes])

    def forward(self, rows: Rows, batch: leat.Batch) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Logits of events and negatives (2, B), 1 - coherence, nodes whose messages came, and their new states."""
        nodes, term, old = (rows["due"] >= 0).nonzero()[:, 0], torch.zeros(()), rows["state"]
        new, at = self.received(rows, nodes, rows["message"][nodes], rows["due"][nodes]), rows["due"][nodes]
        if self.pres == "paper" and len(nodes):
            rates = rows["rates"][nodes] / rows["n"][nodes].clamp(min=1)[..., None]
            moved = (at - rows["updated"][nodes])[:, None] * (self.mix.softmax(0)[:, None] * rates).sum(1)
            g, predicted = self.gain.sigmoid(), (old[nodes] + moved).clamp(-1, 1)
            new = (1 - g) * predicted + g * new
            term = 1 - cosine_similarity(old[nodes].flatten(), new.flatten(), 0)
        states = old.index_copy(0, nodes, new)
        if self.pres == "code":  # for this batch alone, of all nodes, by sums of changes that nothing divides
            moved = old + (2 * spread(rows["sums"]) - 1 if rows["sums"].max() else 0)
            states = 0.9 * moved + 0.1 * states
            rows["sums"] += 2 * spread((states - old).detach())  # its range begins at -1, to which 1 is added
            rows["sums"][-1], states = 0, torch.cat([states[:-1], old[-1:]])
        src, dst, neg = self.embed(states, batch)
        return self.score(torch.stack([torch.cat([src, x], 1) for x in (dst, neg)]))[..., 0], term, nodes, new

    def embed(self, states: Tensor, batch: leat.Batch) -> Tensor:
        """Attention of sources, destinations and negatives over their neighbours: (3, B, DIM)."""
        whose, others, when, count = (
            torch.stack([batch[side + what].view(batch.size, *shape) for side in ("src", "dst", "neg")])
            for what, shape in (("", ()), (".nodes", (NEIGHBORS,)), (".times", (NEIGHBORS,)), (".count", (1,)))
        )
        mine, missing = states[whose], (torch.arange(NEIGHBORS) >= count)[..., None]
        seen = torch.cat([embedding(others, states), waves(batch["t"][:, None] - when)], 3)
        weight = seen @ self.query(mine).unflatten(2, (-1, HEADS)) / DIM**0.5
        weight = weight.masked_fill(missing, -1e9).softmax(2) * ~missing
        return self.merge(torch.cat([(weight.mT @ seen).flatten(2), mine], 2))

    @torch.no_grad()
    def commit(self, rows: Rows, batch: leat.Batch, nodes: Tensor, new: Tensor) -> None:
        """New states are those of the memory; the last event of each node is its next message."""
        self.observe(rows, 0, nodes, new, rows["due"][nodes])
        rows["state"][nodes], rows["updated"][nodes], rows["due"][nodes] = new, rows["due"][nodes], -1
        for one, other in (("src", "dst"), ("dst", "src")):
            mine, theirs = (batch[side][batch[f"{one}.last"]] for side in (one, other))
            rows["message"][mine] = torch.cat([rows["state"][mine], rows["state"][theirs]], 1)
            rows["due"][mine] = batch["t"][batch[f"{one}.last"]]
        if self.pres == "paper":  # the second rate: what states of negatives would have become
            neg, messages = batch["neg"][:, 0], rows["state"][torch.stack([batch["neg"][:, 0], batch["src"]], 1)]
            self.observe(rows, 1, neg, self.received(rows, neg, messages.flatten(1), batch["t"]), batch["t"])

    def observe(self, rows: Rows, which: int, nodes: Tensor, new: Tensor, at: Tensor) -> None:
        known = rows["updated"][nodes] >= 0
        nodes, elapsed = nodes[known], (at - rows["updated"][nodes])[known, None].clamp(min=1)
        rows["n"][:, which].index_add_(0, nodes, torch.ones(len(nodes)))
        rows["rates"][:, which].index_add_(0, nodes, (new[known] - rows["state"][nodes]) / elapsed)


def go(model: TGN, rows: Rows, batches: Iterable[leat.Batch], optimizer: Any = None) -> float:
    """One pass, with the mean average precision of its batches; it trains if there is an optimizer."""
    found = []
    for batch in batches:
        with torch.set_grad_enabled(optimizer is not None):
            logits, term, nodes, new = model(rows, batch)
        if optimizer:
            optimizer.zero_grad()
            truth = torch.tensor([[1.0], [0.0]]).expand_as(logits)
            (binary_cross_entropy_with_logits(logits, truth) + 0.1 * term).backward()
            optimizer.step()
        model.commit(rows, batch, nodes, new.detach())
        if optimizer and model.pres == "code":  # its coherence has no gradient, and leaves the memory like this
            rows["state"][:-1] = spread(rows["state"][:-1])
        hits = (logits.flatten().argsort(descending=True) < batch.size).double()
        found.append(float((hits.cumsum(0) / torch.arange(1, len(hits) + 1))[hits > 0].mean()))
    return float(np.mean(found))


def drawn(n: int) -> leat.Dataset:
    """Ten conversations of some 40 events at a time, each between two of 300 nodes."""
    draw = np.random.default_rng(0)
    pairs, made = draw.integers(300, size=(10, 2)), np.empty((n, 3), np.int64)
    for i in range(n):
        k = draw.integers(10)
        made[i] = *pairs[k][:: draw.choice((-1, 1))], 60 * i
        if draw.random() < 1 / 40:
            pairs[k] = draw.integers(300, size=2)
    return leat.from_arrays(**dict(zip(("src", "dst", "t"), made.T, strict=True)))


def run(ds: leat.Dataset, before: Any, size: int, pres: str, seed: int, epochs: int, at: Path) -> dict[str, float]:
    """`at`: the files of the run, but for their suffix. What of them is there is not computed again."""
    if (done := at.with_suffix(".json")).exists():
        return dict(json.loads(done.read_text()))
    parts, nodes = ds.split_time([0.7, 0.15, 0.15]), int(max(ds.column("src").max(), ds.column("dst").max())) + 1
    graph, whole = (leat.temporal(x, NEIGHBORS, before, key=k, fill=nodes) for x, k in ((parts[0], "row"), (ds, "id")))
    pending = [b[f"{side}.pending"] > 0 for b in leat.Loader(graph, size, epochs=1) for side in ("src", "dst")]
    torch.manual_seed(seed)
    model, ids, borders = TGN(pres), torch.arange(nodes + 1), [at.with_suffix(s) for s in (".train", ".val", ".test")]
    with leat.Store(at.with_suffix(".store"), FIELDS, framework="torch") as store:
        if not borders[0].exists():
            optimizer, begun = torch.optim.Adam(model.parameters(), 1e-3), time.process_time()
            loader = leat.Loader(graph, size, seed=seed, epochs=epochs, num_threads=1, framework="torch")
            for _ in range(epochs):
                go(model, rows := fresh(nodes), loader, optimizer)
            torch.save((model.state_dict(), (time.process_time() - begun) / epochs), at.with_suffix(".pt"))
            store[ids] = rows
            store.copy(borders[0])
        state, seconds = torch.load(at.with_suffix(".pt"))
        model.load_state_dict(state)
        first, ap = len(parts[0]), []
        for part, begin, end in zip(parts[1:], borders, borders[1:]):
            with leat.Store(begin, read_only=True, framework="torch") as memory:
                rows = memory[ids]
            ap.append(go(model, rows, leat.Loader(whole[first : first + len(part)], 200, epochs=1, num_threads=1)))
            first += len(part)
            store[ids] = rows
            store.copy(end, overwrite=True)
    share, g = torch.cat(pending).double().mean().item(), model.gain.sigmoid().item()
    made = {"ap": ap[1], "validation": ap[0], "pending": share, "seconds": seconds, "g": g}
    done.write_text(json.dumps(made))
    return made


def main() -> None:
    arguments = argparse.ArgumentParser(description="Trains on events in larger batches, with predicted memories.")
    arguments.add_argument("--short", action="store_true", help="some seconds: fewer events, epochs and seeds")
    arguments.add_argument("--out", type=Path, default=Path("recipes-out"), help="a folder for results and the plot")
    arguments.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    given = arguments.parse_args()
    torch.set_num_threads(1)
    given.out.mkdir(parents=True, exist_ok=True)
    n, epochs, seeds = (2_000, 2, [0]) if given.short else (40_000, 12, given.seeds)
    graphs: dict[tuple[str, Any], leat.Dataset] = {("drawn", "batch"): drawn(n)}
    if REAL.is_file():
        real = leat.open(REAL, format="events")
        graphs = {("CollegeMsg", b): real[:n] if given.short else real for b in ("event", "batch")} | graphs
    axes = Figure(layout="constrained", figsize=(4 * len(graphs), 4)).subplots(1, len(graphs), squeeze=False)[0]
    print(f"{'graph, neighbours before the':29} {'batch':>5} PRES  {'AP':>16} pending  g    s/epoch")
    for axis, ((name, before), ds) in zip(axes, graphs.items(), strict=True):
        lines: dict[str, list[tuple[int, float, float]]] = {}
        for size, pres in RUNS:
            at = given.out / f"{name}-{before}-{size}-{pres}"
            made = [run(ds, before, size, pres, seed, epochs, at.with_name(f"{at.name}-{seed}")) for seed in seeds]
            ap = np.array([m["ap"] for m in made])
            error = ap.std(ddof=1) / len(ap) ** 0.5 if len(ap) > 1 else 0.0
            pending, g, seconds = (np.mean([m[what] for m in made]) for what in ("pending", "g", "seconds"))
            what = f"{name + ', ' + before:29} {size:5} {pres:5}"
            print(f"{what} {ap.mean():.4f} +- {error:.4f} {pending:7.1%} {g:.2f} {seconds:7.2f}", flush=True)
            lines.setdefault(pres, []).append((size, ap.mean(), error))
        for pres, found in lines.items():
            axis.errorbar(*zip(*found, strict=True), marker="o", label=pres)
        axis.set(title=f"{name}, neighbours before the {before}", xscale="log", xlabel="training batch", ylabel="AP")
        axis.legend()
    axes[0].figure.savefig(given.out / "pres.png", dpi=100)


if __name__ == "__main__":
    main()
