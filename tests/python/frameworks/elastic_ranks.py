"""examples/elastic.py as a rank that is killed, or held, in the middle of its training; steps are counted from 0, over
all epochs.

    elastic_ranks.py RANK STEP PLACE WORDS...     that rank is killed in that step, and the others are not told:
                                                  with its "batch" in hand, after the "update" of the model, in the
                                                  next "save"
    elastic_ranks.py gates FOLDER STEPS WORDS...  every rank that comes to one of these steps leaves a file there, and
                                                  waits for the file of the gate
"""

from __future__ import annotations

import os
import runpy
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn

from frameworks_support import HERE
from torch.optim.optimizer import register_optimizer_step_post_hook

import leat

EXAMPLE = HERE.parents[1] / "examples" / "elastic.py"
now = -1  # the step of the batch that was handed out last


def die(*_: Any) -> NoReturn:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError


class Watched(leat.Loader):
    """The loader, which calls `reached` as it hands out a batch."""

    reached: Callable[[int], None]

    def __iter__(self) -> Iterator[Any]:
        for batch in super().__iter__():
            global now
            now = batch.epoch * len(self) + batch.step
            Watched.reached(now)
            yield batch


def killed(rank: int, step: int, place: str) -> None:
    mine = rank == int(os.environ["RANK"])
    replace = os.replace

    def at(here: str) -> bool:
        return mine and (now == step or (now > step and here == "save")) and here == place

    Watched.reached = lambda _: die() if at("batch") else None
    register_optimizer_step_post_hook(lambda *_: die() if at("update") else None)
    os.replace = lambda *names: die() if at("save") else replace(*names)  # type: ignore[assignment]


def held(folder: Path, steps: list[int]) -> None:
    def reached(step: int) -> None:
        if step in steps:
            (folder / f"{step}-{os.environ['WORLD_SIZE']}-{os.environ['RANK']}-{os.getpid()}").touch()
            while not (folder / str(step)).exists():
                time.sleep(0.02)

    Watched.reached = reached


def main() -> None:
    how, *first, words = sys.argv[1], *sys.argv[2:4], sys.argv[4:]
    if how == "gates":
        held(Path(first[0]), [int(step) for step in first[1].split(",")])
    else:
        killed(int(how), int(first[0]), first[1])
    leat.Loader = Watched  # type: ignore[misc]
    sys.argv = [str(EXAMPLE), *words]
    runpy.run_path(str(EXAMPLE), run_name="__main__")


main()
