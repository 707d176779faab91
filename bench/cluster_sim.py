"""Scheduling on clusters larger than any at hand, in virtual time: leat's admission and the streaming batch model's.

    python bench/cluster_sim.py [--only sweep failure scale] [--nodes 1 10 100 1000 10000] [--plot FILE]

bench/cluster_model.py says what is simulated, bench/cluster_schedulers.py by which code; docs/ray-simulation.md has the
tables and what they mean. The streaming batch model is Ray Data's (arXiv 2501.12407). Three experiments:

- `sweep`: the paper's figure of memory limits. 160 videos of 5 frames of 100 MB; a source task takes 5 s a video, a CPU
  operator and a GPU operator 0.5 s a frame each; 8 CPUs, 4 GPUs. CPUs and stores at each limit are those of the runs
  that its authors published (`SETTINGS`). What it costs to write a frame in each CPU operator is fitted to the two
  figures without adaptive scheduling; the rest follows. Workers' own memory, which ended two runs, is not simulated.
- `failure`: the paper's failure of a node: 4 CPUs with the GPU and 8 more, which go after 15 minutes and come back
  after 30; and the same where a failed job starts again from its last checkpoint, which are 6 minutes apart.
- `scale`: one-CPU nodes, each tenth at a quarter of the speed, which fail at random and are back after two minutes; one
  rank for three nodes, all ranks in step. The costs of a photo were measured.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

from cluster_model import GB, MB, Job, Node, Op, Policy, Sim
from cluster_schedulers import Leat, RayData

FRAME = 100 * MB
WRITE_S, RELAY_S = 0.08, 0.3  #: fitted: of a frame by the source; by the operator that reads one and writes one
LIMITS = (6, 8, 10, 12, 16)  #: GB of memory
PAPER = {  # seconds at these limits, as its authors published them; None: out of memory
    "Ray Data": (291, 199, 200, 200, 200),
    "not adaptive": (379, 219, 219, 219, 219),
    "no repartition": (None, None, 549, 348, 223),
}
SETTINGS = {  # CPUs and GB of store of those runs; leat's are Ray Data's
    "Ray Data": ((6, 4), (8, 8), (8, 10), (8, 12), (8, 12)),
    "not adaptive": ((4, 2.5), (8, 8), (8, 10), (8, 12), (8, 12)),
    "no repartition": ((2, 2), (2, 2), (4, 2.5), (8, 4), (8, 12)),
}
OPTIMUM_S = 153  #: all CPU work on 8 CPUs, and the last video's way
SWEEP: dict[str, Callable[[], Policy]] = {
    "Ray Data": RayData,
    "not adaptive": lambda: RayData(adaptive=False, fixed=4),
    "no repartition": RayData,
    "leat, three operators": Leat,
    "leat, one program": Leat,
}


def videos(name: str) -> Job:
    infer, split = Op("infer", 0.5, 0, gpu=True), 1 if name == "no repartition" else 5
    if name == "leat, one program":
        return Job((Op("program", 1.5, FRAME, RELAY_S), infer), 160, 5, split)
    return Job((Op("decode", 1.0, FRAME, WRITE_S), Op("transform", 0.5, FRAME, RELAY_S), infer), 160, 5, split)


def sweep(name: str) -> list[Sim]:
    settings = SETTINGS.get(name, SETTINGS["Ray Data"])
    return [Sim(videos(name), [Node(cpus, 4)], int(gb * GB), SWEEP[name]()).run() for cpus, gb in settings]


def print_sweep() -> dict[str, list[Sim]]:
    print(f"Seconds at a memory limit (optimum {OPTIMUM_S}); in brackets the paper's\n")
    print(f"{'GB':24}" + "".join(f"{limit:>13}" for limit in LIMITS))
    runs = {name: sweep(name) for name in SWEEP}
    for name, row in runs.items():
        paper = PAPER.get(name, (0,) * len(LIMITS))
        cells = [
            f"{'' if told is None else format(run.now, '.0f')} {'(' + str(told or 'OOM') + ')' if told != 0 else ''}"
            for run, told in zip(row, paper)
        ]
        print(f"{name:24}" + "".join(f"{cell:>13}" for cell in cells))
    return runs


VIDEO_CPU_S = 12 / 26.0  #: so that 12 CPUs give the 26 videos/s of the paper's run
VIDEO_GPU_S = 1 / 31.6  #: its GPU alone
VIDEOS, FAIL_S, BACK_S, CHECKPOINT_S = 54_400, 900.0, 1800.0, 360.0
ORDERED: dict[str, Callable[[], Policy]] = {
    "Ray Data": RayData,
    "Ray Data, order kept": lambda: RayData(in_order=True),
    "leat, made once": lambda: Leat(twice=False),
    "leat": Leat,
}


def failure(policy: Policy, what: str, videos: int = VIDEOS, fail_s: float = FAIL_S, back_s: float = BACK_S) -> Sim:
    """`what`: "none", "worker" (one process is killed) or "node"."""
    rows = 32 if isinstance(policy, RayData) else 4  # leat's: those of a batch of 32 over 12 CPUs, in a power of two
    ops = (Op("decode", VIDEO_CPU_S, MB), Op("classify", VIDEO_GPU_S, 0, gpu=True))
    job = Job(ops, videos // rows, rows, batch=32 // rows, jitter=0.1)
    sim = Sim(job, [Node(4, 1), Node(8)], 4 * GB, policy)
    if what == "node":
        sim.at(fail_s, lambda: sim.fail(1, back_s - fail_s))
    elif what == "worker":
        sim.at(fail_s, lambda: sim.lose(next(s for s, task in sim.running.items() if task.node == 1)))
    return sim.run()


def rate(sim: Sim, begin: float, end: float) -> float:
    return sum(units for when, units in sim.delivered if begin < when <= end) * sim.job.rows / (end - begin)


def longest_gap(sim: Sim) -> float:
    times = [0.0] + [when for when, _ in sim.delivered]
    return max(b - a for a, b in zip(times, times[1:]))


def print_failure() -> dict[str, Sim]:
    print("\nA node with 8 of 12 CPUs fails after 15 minutes and is back after 30: videos/s, seconds\n")
    print(f"{'':24}{'before':>9}{'without':>9}{'after':>9}{'longest gap':>13}{'repeated':>10}{'end':>8}{'unhurt':>8}")
    runs = {name: failure(make(), "node") for name, make in ORDERED.items()}
    for name, sim in runs.items():
        rates = [rate(sim, 300, FAIL_S), rate(sim, FAIL_S + 100, BACK_S), rate(sim, BACK_S + 100, BACK_S + 500)]
        unhurt = failure(ORDERED[name](), "none").now
        print(
            f"{name:24}" + "".join(f"{r:>9.1f}" for r in rates)
            + f"{longest_gap(sim):>13.1f}{sim.repeated:>10}{sim.now:>8.0f}{unhurt:>8.0f}"
        )  # fmt: skip
    whole, part = rates[0], rates[1]
    done = whole * (FAIL_S - FAIL_S % CHECKPOINT_S)
    done += part * (BACK_S - FAIL_S - (BACK_S - FAIL_S) % CHECKPOINT_S)
    print(f"{'from the last checkpoint':24}{'':50}{BACK_S + (VIDEOS - done) / whole:>8.0f}")
    print("One worker killed: " + ", ".join(f"{n} {failure(m(), 'worker').now:.0f} s" for n, m in ORDERED.items()))
    return runs


MAKE_S, TAKE_S = 0.925e-3, 0.275e-3  #: CPU of a photo: 0.65 ms to make, and 0.55 through the store, half on each side
MTBF_S, DOWN_S = 6 * 3600.0, 120.0
PHOTO, STORE = 224 * 224 * 3, 1200 * MB  #: bytes; of a node, 30% of 4 GB as Ray takes it
ROWS, RANK_NODES, ROUNDS = 512, 3, 40  #: photos of a partition; nodes of a rank; partitions that a node makes


def scale(nodes: int, policy: Policy, mtbf_s: float = MTBF_S, seed: int = 0) -> Sim:
    job = Job(
        (Op("photos", MAKE_S, PHOTO),),
        ROUNDS * nodes,
        ROWS,
        batch=-(-nodes // RANK_NODES),
        step_s=TAKE_S * ROWS,
        jitter=0.05,
    )
    cluster = [Node(1, speed=0.25 if n % 10 == 9 else 1.0) for n in range(nodes)]
    sim = Sim(job, cluster, nodes * STORE, policy, seed)
    if mtbf_s:
        sim.fail_at_random(mtbf_s, DOWN_S)
    return sim.run()


def efficiency(sim: Sim) -> float:
    """The rate of the first nine tenths, of that at which all nodes make partitions or the consumer takes them."""
    makes = sum(node.speed for node in sim.nodes) / sim.job.task_s(0)
    end = sim.delivered[len(sim.delivered) * 9 // 10 - 1][0]  # in training the next epoch follows
    return rate(sim, 0, end) / sim.job.rows / min(makes, sim.job.batch / sim.job.step_s)


def print_scale(counts: list[int]) -> dict[str, list[Sim]]:
    print(
        "\nOne-CPU nodes, every tenth at a quarter of the speed; each fails every six hours.\n"
        "Share of the possible rate, longest gap between batches, tasks made again; seconds to simulate\n"
    )
    print(f"{'nodes':24}" + "".join(f"{n:>22}" for n in counts))
    runs = dict[str, list[Sim]]()
    for name, make in ORDERED.items():
        cells = []
        for nodes in counts:
            begun = time.perf_counter()
            sim = scale(nodes, make())
            runs.setdefault(name, []).append(sim)
            cells.append(
                f"{efficiency(sim):.3f} {longest_gap(sim):5.1f} s {sim.repeated:4} ({time.perf_counter() - begun:.1f})"
            )
        print(f"{name:24}" + "".join(f"{cell:>22}" for cell in cells), flush=True)
    return runs


def plot(path: str, swept: dict[str, list[Sim]], failed: dict[str, Sim], scaled: dict[str, list[Sim]]) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(13, 3.8), layout="constrained")
    for number, (name, runs) in enumerate(swept.items()):
        told = [(limit, s) for limit, s in zip(LIMITS, PAPER.get(name, ())) if s]
        shown = [(limit, r.now) for limit, r in zip(LIMITS, runs) if name not in PAPER or limit in dict(told)]
        left.plot(*zip(*shown), "o-", color=f"C{number}", label=name)
        if told:
            left.plot(*zip(*told), "x", color=f"C{number}")
    left.axhline(OPTIMUM_S, color="grey", linestyle=":")
    left.set(title="Memory sweep (x: the paper's runs)", xlabel="GB", ylabel="seconds", ylim=(0, None))
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
    parser.add_argument(
        "--only", nargs="+", choices=("sweep", "failure", "scale"), default=("sweep", "failure", "scale")
    )
    parser.add_argument("--nodes", nargs="+", type=int, default=(1, 10, 100, 1000, 10000), help="of `scale`")
    parser.add_argument("--plot", metavar="FILE", help="draw all three there (needs matplotlib)")
    args = parser.parse_args()
    only = ("sweep", "failure", "scale") if args.plot else args.only
    swept = print_sweep() if "sweep" in only else {}
    failed = print_failure() if "failure" in only else {}
    scaled = print_scale(args.nodes) if "scale" in only else {}
    if args.plot:
        plot(args.plot, swept, failed, scaled)


if __name__ == "__main__":
    main()
