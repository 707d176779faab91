"""Scheduling on clusters larger than any at hand, in virtual time: leat's policies and the streaming batch model's.

    python bench/cluster_sim.py [--nodes 1 10 100 1000 10000] [--plot FILE]

docs/ray-simulation.md says what is simulated, and what it shows.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from cluster_model import GB, MB, Job, Leat, Node, Op, RayData, Sim

from leat.ray.policies import cut

# The paper's memory limits: 160 videos of 5 frames, on 8 CPUs and 4 GPUs.
FRAME, LIMITS, OPTIMUM_S = 100 * MB, (6, 8, 10, 12, 16), 153  #: GB; all CPU work on 8 CPUs, and the last video's way
WRITE_S, RELAY_S = 0.08, 0.3  #: fitted: to write a frame; to read one and write one
MOST = ((8, 8), (8, 10), (8, 12), (8, 12))  #: CPUs and GB of store of the authors' runs, whose seconds are below
Make = Callable[[Sim], Any]
SWEEP: dict[str, tuple[Make, Sequence[tuple[int, float]], Sequence[int | None]]] = {  # None: out of memory
    "Ray Data": (RayData, ((6, 4), *MOST), (291, 199, 200, 200, 200)),
    "not adaptive": (partial(RayData, adaptive=False, fixed=4), ((4, 2.5), *MOST), (379, 219, 219, 219, 219)),
    "no repartition": (RayData, ((2, 2), (2, 2), (4, 2.5), (8, 4), (8, 12)), (None, None, 549, 348, 223)),
    "leat, three operators": (Leat, ((6, 4), *MOST), ()),
    "leat, one program": (Leat, ((6, 4), *MOST), ()),
}
ORDERED: dict[str, tuple[Make, str]] = {  # and what the consumer takes
    "Ray Data": (RayData, "any"),
    "Ray Data, in order": (RayData, "order"),
    "leat": (Leat, "order"),
    "leat, in_order=False": (Leat, "batches"),
}


def sweep(name: str) -> list[Sim]:
    apart = Op(1.0 + WRITE_S, FRAME), Op(0.5 + RELAY_S, FRAME)
    made = (Op(1.5 + RELAY_S, FRAME),) if name == "leat, one program" else apart
    job = Job((*made, Op(0.5, 0, gpu=True)), 160, 5, 1 if name == "no repartition" else 5)
    make, settings, _ = SWEEP[name]
    return [Sim(job, [Node(cpus, 4)], int(gb * GB), make).run() for cpus, gb in settings]


# The paper's loss of a node: 12 CPUs decode 26 videos a second, and 8 of them go for a quarter of an hour.
VIDEO_CPU_S, VIDEO_GPU_S = 12 / 26.0, 1 / 31.6
VIDEOS, FAIL_S, BACK_S, CHECKPOINT_S = 54_400, 900.0, 1800.0, 360.0


def failure(make: Make, takes: str, videos: int = VIDEOS, fail_s: float = FAIL_S, back_s: float = BACK_S) -> Sim:
    tasks = len(cut(0, 32, MB)) if make is Leat else 1  # of a batch
    rows = 32 // tasks
    ops = (Op(VIDEO_CPU_S, MB), Op(VIDEO_GPU_S, 0, gpu=True))
    job = Job(ops, videos // rows, rows, batch=tasks, takes=takes, jitter=0.1)
    sim = Sim(job, [Node(4, 1), Node(8)], 4 * GB, make)
    sim.at(fail_s, lambda: sim.fail(1, back_s - fail_s))
    return sim.run()


# Nodes of one CPU, each tenth at a quarter of the speed, one rank for three of them; the costs of photos were measured.
MAKE_S, TAKE_S = 0.925e-3, 0.275e-3  #: CPU of a photo: 0.65 ms to make, and 0.55 through the store, half on each side
PHOTO, STORE = 224 * 224 * 3, 1200 * MB  #: bytes; of a node, 30% of 4 GB as Ray takes it
ROWS, RANK_NODES, ROUNDS = 512, 3, 40  #: photos of a rank's step; nodes of a rank; as many photos that a node makes


def scale(nodes: int, make: Make, takes: str) -> Sim:
    tasks, ranks = len(cut(0, ROWS, PHOTO)) if make is Leat else 1, -(-nodes // RANK_NODES)
    rows = ROWS // tasks
    step_s = TAKE_S * rows * tasks
    job = Job((Op(MAKE_S, PHOTO),), ROUNDS * nodes * tasks, rows, 1, ranks * tasks, takes, step_s, jitter=0.05)
    sim = Sim(job, [Node(1, speed=0.25 if n % 10 == 9 else 1.0) for n in range(nodes)], nodes * STORE, make)
    sim.fail_at_random(6 * 3600.0, 120.0)
    return sim.run()


def rate(sim: Sim, begin: float, end: float) -> float:
    return sum(units for when, units in sim.delivered if begin < when <= end) * sim.job.rows / (end - begin)


def longest_gap(sim: Sim) -> float:
    times = [0.0] + [when for when, _ in sim.delivered]
    return max(b - a for a, b in zip(times, times[1:]))


def efficiency(sim: Sim) -> float:
    """The rate of the first nine tenths, of that at which all nodes make partitions or the consumer takes them."""
    makes = sum(node.speed for node in sim.nodes) / sim.job.task_s(0)
    end = sim.delivered[len(sim.delivered) * 9 // 10 - 1][0]  # in training the next epoch follows
    return rate(sim, 0, end) / sim.job.rows / min(makes, sim.job.batch / sim.job.step_s)


def table(title: str, head: Sequence[object], rows: Mapping[str, Sequence[str]]) -> None:
    print(f"\n{title}\n")
    for name, cells in {"": head, **rows}.items():
        print(f"{name:24}" + "".join(f"{cell!s:>21}" for cell in cells), flush=True)


def plot(path: str, swept: dict[str, list[Sim]], failed: dict[str, Sim], scaled: dict[str, list[Sim]]) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(13, 3.8), layout="constrained")
    left, middle, right = figure.subplots(1, 3)
    for name, runs in swept.items():
        (line,) = left.plot(LIMITS, [sim.now for sim in runs], "o-", label=name)
        told = [(limit, s) for limit, s in zip(LIMITS, SWEEP[name][2]) if s]
        left.plot([limit for limit, _ in told], [s for _, s in told], "x", color=line.get_color())
    left.axhline(OPTIMUM_S, color="grey", linestyle=":")
    left.set(title="Memory sweep (x: the paper's runs)", xlabel="GB", ylabel="seconds", ylim=(0, 700))
    for name, sim in failed.items():
        steps = range(0, int(sim.now), 30)
        middle.plot([t / 60 for t in steps], [rate(sim, t, t + 30) for t in steps], label=name)
    middle.set(title="A node with 8 of 12 CPUs fails", xlabel="minutes", ylabel="videos/s", xlim=(13, 33))
    for name, runs in scaled.items():
        right.plot([len(sim.nodes) for sim in runs], [efficiency(sim) for sim in runs], "o-", label=name)
    right.set(title="Share of the possible rate", xlabel="nodes", xscale="log", ylim=(0, 1.05))
    for axes in (left, middle, right):
        axes.legend(fontsize=7)
    figure.savefig(path, dpi=80)


def main() -> None:
    parser = argparse.ArgumentParser(description="Schedulers on simulated clusters.")
    parser.add_argument("--nodes", nargs="+", type=int, default=[1, 10, 100, 1000, 10000], help="of the last table")
    parser.add_argument("--plot", metavar="FILE", help="draw all there (needs matplotlib)")
    args = parser.parse_args()
    swept, rows = {name: sweep(name) for name in SWEEP}, {}
    for name, (_, _, told) in SWEEP.items():
        rows[name] = [f"{sim.now:.0f}" for sim in swept[name]]
        rows[name][: len(told)] = [f"{s} ({t})" if t else "(out of memory)" for s, t in zip(rows[name], told)]
    table(f"Seconds at a memory limit in GB (optimum {OPTIMUM_S}); in brackets the paper's", LIMITS, rows)

    failed, rows = {name: failure(*which) for name, which in ORDERED.items()}, {}
    for name, sim in failed.items():
        rates = [rate(sim, 300, FAIL_S), rate(sim, FAIL_S + 100, BACK_S), rate(sim, BACK_S + 100, BACK_S + 500)]
        rows[name] = [f"{each:.1f}" for each in [*rates, longest_gap(sim), sim.repeated, sim.now]]
    done = rates[0] * (FAIL_S - FAIL_S % CHECKPOINT_S)
    done += rates[1] * (BACK_S - FAIL_S - (BACK_S - FAIL_S) % CHECKPOINT_S)
    rows["from the last checkpoint"] = [""] * 5 + [f"{BACK_S + (VIDEOS - done) / rates[0]:.1f}"]
    head = ("before", "without", "after", "longest gap", "repeated", "end")
    table("A node with 8 of 12 CPUs fails after 15 minutes and is back after 30: videos/s, seconds", head, rows)

    scaled = {name: [scale(nodes, *which) for nodes in args.nodes] for name, which in ORDERED.items()}
    rows = {name: [f"{efficiency(sim):.2f}, {longest_gap(sim):.1f} s" for sim in sims] for name, sims in scaled.items()}
    table("By nodes: share of the possible rate, longest gap", args.nodes, rows)
    if args.plot:
        plot(args.plot, swept, failed, scaled)


if __name__ == "__main__":
    main()
