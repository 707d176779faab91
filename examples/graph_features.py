"""A network learns the classes of a graph's nodes from sampled neighbours, whose features are gathered in two ways.

    python examples/graph_features.py [GRAPH.npz ...] [--steps N]

GRAPH.npz has adj_indptr and adj_indices, attr_data, attr_indices, attr_indptr and attr_shape (sparse matrices by rows),
and labels, as the files of the GNN benchmark of Shchur et al. (Cora, Citeseer) do; one that is not there is named and
skipped. Without any, a random graph is made. Features stay in the host's memory. Plain torch collects the rows of a
batch there and copies them to the card, if there is one; leat lets the card read them, or gathers here. Both trainings
are the same, so their losses are: it prints them, and the time that features took. Exit code 1 if the losses differ.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import nn

import leat

BATCH, FIRST, SECOND, HIDDEN = 64, 10, 5, 64  # nodes; neighbours of each; neighbours of those
Graph = tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]  # features, labels, begins and neighbours


def random_graph(nodes: int = 20_000, width: int = 300, classes: int = 5) -> Graph:
    """Classes whose nodes have neighbours among themselves, and a faint trace of the class in their features."""
    made = torch.Generator().manual_seed(0)
    labels = torch.randint(classes, (nodes,), generator=made)
    features = torch.randn(nodes, width, generator=made) + 0.3 * torch.randn(classes, width, generator=made)[labels]
    order = labels.argsort(stable=True)
    begins = torch.cat([torch.zeros(1, dtype=torch.int64), torch.bincount(labels).cumsum(0)])
    picked = torch.rand(nodes, 12, generator=made) * torch.bincount(labels)[labels, None]
    return features, labels, torch.arange(0, 12 * nodes + 1, 12), order[begins[labels, None] + picked.long()].flatten()


def read_graph(path: Path) -> Graph:
    with np.load(path) as file:
        features = torch.zeros(*file["attr_shape"].tolist())
        rows = np.repeat(np.arange(len(features)), np.diff(file["attr_indptr"]))
        features[rows, file["attr_indices"].astype(np.int64)] = torch.from_numpy(file["attr_data"]).float()
        begins, neighbours = (torch.from_numpy(file[f"adj_{name}"]).long() for name in ("indptr", "indices"))
        return features, torch.from_numpy(file["labels"]).long(), begins, neighbours


def sampled(graph: Graph, nodes: torch.Tensor, count: int, drawn: torch.Generator) -> torch.Tensor:
    """So many neighbours of each node, some of them several times; of a node without any, itself."""
    begins, neighbours = graph[2:]
    degrees = (begins[nodes + 1] - begins[nodes]).unsqueeze(-1)
    picked = (torch.rand(*nodes.shape, count, generator=drawn) * degrees).long()
    picked = (begins[nodes].unsqueeze(-1) + picked).clamp(max=len(neighbours) - 1)
    return torch.where(degrees > 0, neighbours[picked], nodes.unsqueeze(-1))


class Sage(nn.Module):
    """Two layers, each of a node beside the mean of its neighbours (Hamilton et al., 2017)."""

    def __init__(self, width: int, classes: int) -> None:
        super().__init__()
        self.inner, self.outer = nn.Linear(2 * width, HIDDEN), nn.Linear(2 * HIDDEN, classes)

    def forward(self, own: torch.Tensor, near: torch.Tensor, far: torch.Tensor) -> torch.Tensor:
        nodes = self.inner(torch.cat([own, near.mean(1)], -1)).relu()
        around = self.inner(torch.cat([near, far.mean(2)], -1)).relu()
        return self.outer(torch.cat([nodes, around.mean(1)], -1))  # type: ignore[no-any-return]


def train(graph: Graph, gather: Callable[[torch.Tensor], torch.Tensor], steps: int, device: str) -> tuple[float, float]:
    """The last loss, and the seconds that features took."""
    torch.manual_seed(0)
    drawn, labels = torch.Generator().manual_seed(1), graph[1]
    model = Sage(graph[0].shape[1], int(labels.max()) + 1).to(device)
    optimizer = torch.optim.Adam(model.parameters(), 0.01)
    gathering_s = 0.0
    for _ in range(steps):
        own = torch.randint(len(labels), (BATCH,), generator=drawn)
        near = sampled(graph, own, FIRST, drawn)
        far = sampled(graph, near, SECOND, drawn)
        began = time.perf_counter()
        features = [gather(nodes) for nodes in (own, near, far)]
        if device == "cuda":
            torch.cuda.synchronize()
        gathering_s += time.perf_counter() - began
        loss = nn.functional.cross_entropy(model(*features), labels[own].to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.item(), gathering_s


def compare(graph: Graph, steps: int, device: str) -> bool:
    """Whether both ways train to the same loss."""
    x = graph[0]
    plain, plain_s = train(graph, lambda nodes: x[nodes].to(device), steps, device)

    features = leat.device.rows(x)
    ours, ours_s = train(graph, lambda nodes: features[nodes], steps, device)

    print(f"{len(x)} nodes, features of {x[0].nbytes} bytes, gathered by {features.device}")
    print(f"plain torch: loss {plain:.6f}, features {plain_s:.3f} s")
    print(f"leat:        loss {ours:.6f}, features {ours_s:.3f} s")
    return plain == ours


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("graphs", nargs="*", type=Path, metavar="GRAPH.npz")
    parser.add_argument("--steps", type=int, default=100)
    given = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    equal = True
    for path in given.graphs:
        print(path.name if path.exists() else f"{path.name} is skipped: there is no {path}")
        if path.exists():
            equal &= compare(read_graph(path), given.steps, device)
    if not given.graphs:
        equal = compare(random_graph(), given.steps, device)
    print("the results are equal" if equal else "the results differ")
    return 0 if equal else 1


if __name__ == "__main__":
    raise SystemExit(main())
