"""One of four ranks (gloo), of which one falls silent: what the others log, and that all of them go on."""

from __future__ import annotations

import logging
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from frameworks_support import tell

import leat
from leat.loading import group

FOLDER = Path(sys.argv[2])
LIMIT_S = 100.0
group.EXIT_S = LIMIT_S  # the last words of a rank that ends are said, however busy the machine is
said: list[str] = []


class Kept(logging.Handler):
    """Keeps what is logged, and tells the other processes of it: the thread may log while the rank waits."""

    def emit(self, record: logging.LogRecord) -> None:
        said.append(record.getMessage())
        for rank in range(4):
            for how in ("no sign of life", "taken no batch", "ended", "opened no loader"):
                if said[-1].startswith(f"rank {rank} has ") and how in said[-1]:
                    (FOLDER / f"{how}.{os.environ['RANK']}").touch()


def heard(how: str, ranks: tuple[int, ...]) -> bool:
    return all((FOLDER / f"{how}.{rank}").exists() for rank in ranks)


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + LIMIT_S
    while not condition():
        assert time.monotonic() < end, said
        time.sleep(0.01)


def batches(loader: leat.Loader) -> Iterator[Any]:
    """The batches of epochs without end."""
    while True:
        yield from loader


def opened() -> leat.Loader:
    return leat.Loader(leat.from_arrays(x=np.arange(40_000)), 8, shuffle=True, seed=1, framework="numpy")


def leave_signs(more: int) -> None:
    """Returns when this process has left so many more signs of life."""
    mine = group.Group.joined()
    assert mine is not None
    for _ in range(more):
        last = mine._next_beat
        until(lambda: mine._next_beat != last)  # noqa: B023


def still(rank: int) -> None:
    """Rank 2 hangs outside of leat, and later its process is stopped in a training whose ranks go in step."""
    reading = batches(opened())
    for _ in range(150):
        next(reading)
    if rank == 2:
        until(lambda: heard("taken no batch", (0, 1, 3)))
    while rank != 2 and not heard("taken no batch", (rank,)):
        next(reading)
    dist.barrier()
    reading, steps = batches(opened()), 0
    for step in range(300):
        steps += next(reading).step == step
        if rank == 2 and step == 130:
            leave_signs(2)  # the first is then in the store: the others know where it is
            os.kill(os.getpid(), signal.SIGSTOP)  # the test lets it go on once the others have named it
        dist.all_reduce(torch.ones(1))
    tell(steps=steps)


def ends(rank: int) -> None:
    """Rank 3 opens no loader at first, and ends long before the others."""
    if rank == 3:
        until(lambda: heard("opened no loader", (0, 1, 2)))
    reading = batches(opened())
    for how in ("opened no loader", "ended") if rank != 3 else ():
        while not heard(how, (rank,)):
            next(reading)
    for _ in range(20):
        next(reading)


def store(rank: int) -> None:
    """Rank 0 has the store, and is killed."""
    reading = batches(opened())
    for _ in range(50):
        next(reading)
    dist.barrier()
    if rank == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    while not any("no longer compare" in text for text in said):
        next(reading)
    tell(steps=sum(1 for _ in zip(range(500), reading)))


def held(rank: int) -> None:
    """Rank 0 has the store, and is stopped until the others have read on without it."""
    reading = batches(opened())
    for _ in range(50):
        next(reading)
    dist.barrier()
    if rank == 0:
        os.kill(os.getpid(), signal.SIGSTOP)
    steps = 0
    while rank and not any("no longer compare" in text for text in said):
        next(reading)
    for _ in range(500 if rank else 0):
        steps += next(reading) is not None
    (FOLDER / f"read on.{rank}").touch()
    dist.barrier()
    tell(steps=steps)


def join(scenario: str) -> None:
    meet = dist.TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), is_master=False)
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    found = meet
    if scenario in ("store", "held") and rank == 0:
        found = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
        meet.set("port", str(found.port))
    elif scenario in ("store", "held"):
        found = dist.TCPStore("127.0.0.1", int(meet.get("port")), is_master=False)
    dist.init_process_group("gloo", store=found, rank=rank, world_size=world)


def main() -> None:
    logging.getLogger("leat").addHandler(Kept())
    join(sys.argv[1])
    {"still": still, "ends": ends, "store": store, "held": held}[sys.argv[1]](dist.get_rank())
    tell(said=said)


main()
