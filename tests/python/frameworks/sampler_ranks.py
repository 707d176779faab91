"""One of two ranks (gloo) of a loader with a Sampler, which rank 0 reads: goes on from states of its own."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from frameworks_support import tell
from sampler_kinds import SAMPLERS

import leat

BATCHES = 14  # of which an epoch has four


def opened(n: int, kind: str) -> leat.Loader:
    random.seed(1)
    np.random.seed(1)
    torch.manual_seed(1)
    data = leat.from_arrays(x=np.arange(n))
    return leat.Loader(data, global_batch_size=n * 3 // 10, sampler=SAMPLERS[kind](n), framework="numpy")


def read(loader: leat.Loader, n: int, states: list[Any] | None = None) -> list[Any]:
    found: list[Any] = []
    while len(found) < n:
        for batch in loader:
            found.append((batch.epoch, batch.step, batch.ids.tolist()))
            if states is not None:
                states.append(loader.state_dict())
            if len(found) == n:
                break
    return found


def check(kind: str) -> str:
    for n in (100, 20_000):
        taker, states = opened(n, kind), list[Any]()
        whole = read(taker, BATCHES, states)
        for at in (9, 2, 3, 6):
            for common in (False, True):  # or all have the state of rank 0
                given = [states[at]]
                if common:
                    dist.broadcast_object_list(given, 0)
                for loader in (taker, opened(n, kind)):
                    loader.load_state_dict(given[0])
                    if read(loader, 4) != whole[at + 1 : at + 5]:
                        return f"{kind}: {n} samples, from batch {at + 1}, {loader is taker}"
    return ""


def refused() -> str:
    """The part of rank 0 is damaged, which alone has one: the others do not wait for its list, and all go on."""
    taker, loader, twin = (opened(20_000, "its own generator") for _ in range(3))
    read(taker, 2)
    state = taker.state_dict()
    if dist.get_rank() == 0:
        state["sampler"] = {"now": 3}
    try:
        loader.load_state_dict(state)
    except (leat.StateError, RuntimeError) as e:
        return str(e) if read(loader, 9) == read(twin, 9) else "other batches"
    return "no error"


def main() -> None:
    dist.init_process_group("gloo")
    tell(refused=refused())
    for kind in SAMPLERS:
        tell(**{kind: check(kind)})
    dist.barrier()
    dist.destroy_process_group()


main()
