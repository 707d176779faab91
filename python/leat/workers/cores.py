"""Cores: the share of this process, the part for workers, and the CPU time used, for `adapt.py`.

Cores are counted by affinity and cgroup limits and divided among the ranks on this host.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from .. import _leat, ranks

_TICK = 1 / os.sysconf("SC_CLK_TCK")


def share(world_size: int = 1) -> float:
    """Cores of this rank: those that the process may use, divided by the ranks on this host; less than 1 if ranks share
    one.

    Example:
        >>> import leat.workers.cores
        >>> leat.workers.cores.share() >= 1
        True
    """
    return _leat.cpu_count() / ranks.local(world_size)


def budget(world_size: int = 1) -> float:
    """Cores that the workers of this rank may use: its share, less one for the training if it is more than two.

    On one or two cores none is reserved, because a good part of the machine would idle while the training waits; the
    system's scheduler gives the training what it needs.

    Example:
        >>> import leat.workers.cores
        >>> 0 < leat.workers.cores.budget() <= leat.workers.cores.share()
        True
    """
    cores = share(world_size)
    return max(2.0, cores - 1) if cores > 2 else cores


def _used_by(pid: int) -> float | None:
    """CPU seconds of a process, all its threads, without its children; None if it is gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as f:
            fields = f.read().rpartition(b")")[2].split()  # the name, in brackets, may hold anything
    except OSError:
        return None
    return (int(fields[11]) + int(fields[12])) * _TICK


def _idle_since_boot(cpus: Iterable[int]) -> float:
    """Idle seconds of these CPUs, summed; infinite if the system does not say."""
    names = {b"cpu%d" % cpu for cpu in cpus}
    try:
        with open("/proc/stat", "rb") as f:
            lines = [line.split() for line in f if line.startswith(b"cpu")]
    except OSError:
        return float("inf")
    return sum((int(line[4]) + int(line[5])) * _TICK for line in lines if line[0] in names)


class Meter:
    """CPU time between calls of `read`, in seconds.

    Args:
        world_size: ranks of the job; cores are shared with those on this host.

    Example:
        >>> import time, leat.workers.cores
        >>> meter = leat.workers.cores.Meter()
        >>> start = time.perf_counter()
        >>> workers, process, idle = meter.read([], 0.0)
        >>> total = sum(i * i for i in range(300_000))
        >>> workers, process, idle = meter.read([], time.perf_counter() - start)
        >>> workers == 0 and process > 0 and idle >= 0
        True
    """

    def __init__(self, world_size: int = 1) -> None:
        self._cores = share(world_size)
        self._ranks = ranks.local(world_size)
        self._process = 0.0
        self._idle = 0.0
        self._workers: dict[int, float] = {}
        self.read((), 0.0)

    def read(self, workers: Iterable[int], elapsed_s: float) -> tuple[float, float, float]:
        """CPU time since the last call: of the worker processes with these ids, of this process, and left over on this
        rank's cores.

        Workers that ended or started meanwhile are not counted. The time left over is this rank's part of the system's
        idle time, but no more than this rank's processes left of its cores (a quota leaves CPUs idle that may not be
        used).
        """
        now = {pid: used for pid in workers if (used := _used_by(pid)) is not None}
        by_workers = sum(max(0.0, used - self._workers[pid]) for pid, used in now.items() if pid in self._workers)
        process, idle = sum(os.times()[:2]), _idle_since_boot(os.sched_getaffinity(0))
        by_process, left = (
            process - self._process,
            max(0.0, self._cores * elapsed_s - by_workers - (process - self._process)),
        )
        if idle != float("inf"):
            left = min(left, max(0.0, (idle - self._idle) / self._ranks))
        self._workers, self._process, self._idle = now, process, idle
        return by_workers, by_process, left
