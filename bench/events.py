"""Graphs of events: neighbours of batches and making the index, leat.temporal against NumPy in the same run.

    python bench/events.py [--events 600000] [--nodes 2000] [--neighbors 10] [--batch 200] [--rounds 5]

- batches: of each event the most recent neighbours of source, destination and one negative, strictly before it. NumPy
  finds them by one bisection over events sorted by (node, time), and gathers nodes, times and events, of a batch at a
  time; leat is a Loader of one thread over the graph, with pending counts as well.
- index: leat.temporal from arrays; in NumPy the sort that its bisection needs.
- lookups: the same neighbours for any nodes and times, by `index.recent`, without a loader.

Nodes are drawn so that few have most of the events, as in graphs of messages; a tenth of the events have the time of
the one before. Jobs are timed in turns, and the median of ratios is printed, with the least and the largest.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import leat


def made(rng: np.random.Generator, events: int, nodes: int) -> tuple[Any, Any, Any]:
    """Sources, destinations and times of events."""
    order = rng.permutation(nodes)
    src, dst = (order[np.minimum(rng.pareto(1.2, events) * nodes / 50, nodes - 1).astype(np.int64)] for _ in range(2))
    return src, dst, np.cumsum(rng.random(events) < 0.9)


def sorted_sides(src: Any, dst: Any, t: Any) -> tuple[Any, ...]:
    """Both sides of each event by (node, time): keys for bisection, and what is found."""
    node, other = np.concatenate([src, dst]), np.concatenate([dst, src])
    when, event = np.concatenate([t, t]), np.tile(np.arange(len(src)), 2)
    o = np.lexsort((event, when, node))
    begin = np.searchsorted(node[o], np.arange(node.max() + 2))
    return node[o] * (t.max() + 2) + when[o], begin, other[o], when[o], event[o], t.max() + 2


def recent(sides: tuple[Any, ...], nodes: Any, times: Any, k: int) -> tuple[Any, ...]:
    keys, begin, other, when, event, span = sides
    at = np.searchsorted(keys, nodes * span + times)[:, None] - 1 - np.arange(k)
    there = at >= begin[nodes][:, None]
    at = np.where(there, at, 0)
    return np.where(there, other[at], -1), np.where(there, when[at], 0), np.where(there, event[at], -1)


def seconds(job: Callable[[], Any]) -> float:
    begin = time.perf_counter()
    job()
    return time.perf_counter() - begin


def compare(what: str, n: int, unit: str, ours: Callable[[], Any], theirs: Callable[[], Any], rounds: int) -> None:
    pairs = [(seconds(ours), seconds(theirs)) for _ in range(rounds)]
    ratios = sorted(b / a for a, b in pairs)
    best = [n / min(times) for times in zip(*pairs, strict=True)]
    print(
        f"{what:9} leat {best[0]:12,.0f} {unit}/s   NumPy {best[1]:12,.0f}   "
        f"{statistics.median(ratios):5.1f}x ({ratios[0]:.1f} to {ratios[-1]:.1f})"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, value in {"events": 600_000, "nodes": 2_000, "neighbors": 10, "batch": 200, "rounds": 5}.items():
        parser.add_argument(f"--{name}", type=int, default=value)
    o = parser.parse_args()
    rng = np.random.default_rng(0)
    src, dst, t = made(rng, o.events, o.nodes)
    sides = sorted_sides(src, dst, t)
    events = leat.from_arrays(src=src, dst=dst, t=t)
    graph = leat.temporal(events, o.neighbors)
    loader = leat.Loader(graph, o.batch, framework="numpy", num_threads=1, tail="uneven")

    def ours() -> None:
        for _batch in loader:
            pass

    def theirs() -> None:
        negatives = np.random.default_rng(0)
        for at in range(0, o.events, o.batch):
            s, d, w = (a[at : at + o.batch] for a in (src, dst, t))
            recent(sides, np.concatenate([s, d, negatives.choice(dst, len(s))]), np.tile(w, 3), o.neighbors)

    nodes, times = rng.integers(0, o.nodes, 200_000), rng.integers(0, t[-1], 200_000)
    index = graph.index
    for side, (found, _, ids, _) in {"src": index.recent(src, t, o.neighbors)}.items():
        plain = recent(sides, src, t, o.neighbors)
        loops = (found != plain[0]).any(1) & ~np.isin(src, src[src == dst])  # NumPy's has a self-loop twice
        if loops.any() or (ids[:, 0] > np.arange(o.events)).any():
            raise SystemExit(f"{side}: leat and NumPy found other neighbours")
    compare("batches", o.events, "events", ours, theirs, o.rounds)
    compare(
        "index", o.events, "events", lambda: leat.temporal(events), lambda: sorted_sides(src, dst, t), min(o.rounds, 3)
    )
    compare(
        "lookups",
        len(nodes),
        "nodes",
        lambda: index.recent(nodes, times, o.neighbors),
        lambda: recent(sides, nodes, times, o.neighbors),
        o.rounds,
    )


if __name__ == "__main__":
    main()
