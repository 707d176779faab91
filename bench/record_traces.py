"""Records what `num_workers="auto"` would observe: the traces of tests/python/traces.

    python bench/record_traces.py FOLDER

Each trace is a training in the simulator (bench/simulate.py, the rule of leat), run once with each number of workers
and cut into intervals of a second. Played back, the controller's answer picks the run whose next interval it sees. What
the simulator leaves out is modelled here: sample times vary by 20% around those of the workload, workers and training
slow each other down where together they want more than the cores, a storage may serve only so many at a time, and the
consumer pauses now and then (a checkpoint).

A file is text: lines `# key: value`, then one line per interval and number of workers:
interval, workers, waited ms, rows, workers' CPU ms, process's CPU ms, idle CPU ms.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from simulate import InOrder, Job, simulate
from workloads import WORKLOADS


@dataclass(frozen=True)
class Phase:
    """So many seconds of a training, or of an evaluation."""

    seconds: int
    workload: str
    step: float
    batch: int | None = None
    storage: float = 1e9
    """Workers that the storage serves at full speed."""


@dataclass(frozen=True)
class Trace:
    name: str
    note: str
    cores: int
    budget: int
    max_workers: int
    right: tuple[int, int]
    """The numbers of workers that are right at the end."""
    phases: tuple[Phase, ...]
    cpu: float = 1.0
    """CPU seconds of a worker per second of a sample."""
    training: float = 1.0
    """Cores that a step uses."""


def spread(spans: list[tuple[float, float]], seconds: int) -> NDArray[np.float64]:
    """How much of each second the spans cover."""
    out = np.zeros(seconds + 1)
    for begin, end in spans:
        for second in range(min(int(begin), seconds), min(int(end), seconds) + 1):
            out[second] += max(0.0, min(end, second + 1) - max(begin, second))
    return out[:seconds]


def record(trace: Trace, phase: Phase, workers: int, rng: np.random.Generator) -> NDArray[np.float64]:
    workload = WORKLOADS[phase.workload]
    batch = phase.batch or workload.batch
    wanted = workers * trace.cpu + trace.training
    slower = max(1.0, wanted / trace.cores, workers / phase.storage)
    count = batch * (int(phase.seconds / phase.step) + 60)  # more than the consumer can take
    times = workload.times(count, int(rng.integers(1 << 30))) * rng.lognormal(0, 0.2, count) * slower
    run = simulate(
        InOrder(Job(times.tolist(), batch, count, phase.step * max(1.0, min(slower, wanted / trace.cores))), workers)
    )
    if run.seconds < phase.seconds:
        raise RuntimeError(f"{trace.name}: the run is too short")
    waited = spread(run.waits, phase.seconds)
    busy = spread(run.tasks, phase.seconds)
    rows = np.bincount(np.minimum([int(end) for _, end in run.tasks], phase.seconds), minlength=phase.seconds + 1)[
        : phase.seconds
    ]
    worker_cpu = busy * trace.cpu / max(1.0, wanted / trace.cores, workers / phase.storage)
    process_cpu = (1 - waited) * trace.training / max(1.0, wanted / trace.cores)
    idle = np.maximum(0, trace.cores - worker_cpu - process_cpu) * rng.uniform(0.95, 1, phase.seconds)
    if phase.seconds > 60:  # a checkpoint: nobody waits, the window fills
        at = int(rng.integers(phase.seconds // 4, phase.seconds // 2))
        waited[at], rows[at] = 0, 0
    return np.stack([waited * 1000, rows, worker_cpu * 1000, process_cpu * 1000, idle * 1000], 1)


TRACES = (
    Trace("consumer_bound", "one worker suffices", 8, 7, 8, (1, 1), (Phase(120, "detection", 0.25, batch=4),)),
    Trace("loader_bound", "six workers suffice", 16, 15, 10, (6, 7), (Phase(120, "segmentation", 0.25),)),
    Trace(
        "cpu_starved",
        "fifteen would be needed, and five cores are to spare",
        6,
        5,
        10,
        (4, 5),
        (Phase(120, "segmentation", 0.1),),
    ),
    Trace(
        "storage_bound",
        "a storage that serves four at a time",
        16,
        15,
        10,
        (4, 5),
        (Phase(120, "segmentation", 0.1, storage=4),),
        cpu=0.3,
    ),
    Trace(
        "phase_change",
        "from fast samples to slow ones",
        16,
        15,
        10,
        (7, 10),
        (Phase(60, "detection", 0.1, batch=6), Phase(180, "speech-10s", 1.2, batch=4)),
    ),
    Trace(
        "bursts",
        "training, with an evaluation now and then that takes all it gets",
        16,
        10,
        10,
        (6, 10),
        (Phase(30, "segmentation", 0.25), Phase(10, "segmentation", 0.02)) * 3,
    ),
)


def main(folder: str) -> None:
    for trace in TRACES:
        rng = np.random.default_rng(len(trace.name))
        runs = [
            np.concatenate([record(trace, p, n, rng) for p in trace.phases]) for n in range(1, trace.max_workers + 1)
        ]
        head = {
            "note": trace.note,
            "cores": trace.cores,
            "budget": trace.budget,
            "max_workers": trace.max_workers,
            "right": f"{trace.right[0]} {trace.right[1]}",
        }
        lines = [f"# {key}: {value}" for key, value in head.items()]
        for second in range(len(runs[0])):
            lines += [
                " ".join(map(str, (second, n + 1, *run[second].round().astype(int)))) for n, run in enumerate(runs)
            ]
        Path(folder, f"{trace.name}.txt").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
