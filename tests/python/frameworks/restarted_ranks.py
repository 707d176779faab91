"""A rank that is started again and again, on one store: restarted_ranks.py SEED.

The process group connects to nobody: ranks meet in the store alone, which is all that leat needs of it here.
"""

from __future__ import annotations

import os
import sys
import time
from typing import Any

import numpy as np
import torch.distributed as dist
import torch.testing._internal.distributed.fake_pg  # noqa: F401  registers "fake"
from frameworks_support import tell

import leat

LIMIT_S = 60.0


def told(loader: Any) -> str:
    """The text of the error, if ranks differ."""
    end = time.monotonic() + LIMIT_S
    try:
        while time.monotonic() < end:
            for _ in loader:
                pass
    except leat.StateError as e:
        return str(e)
    return ""


def opened(seed: int) -> leat.Loader:
    return leat.Loader(leat.from_arrays(x=np.arange(40_000)), 8, shuffle=True, seed=seed, framework="numpy")


def main() -> None:
    seed = int(sys.argv[1])
    store = dist.TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), is_master=False)
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    dist.init_process_group("fake", store=store, rank=rank, world_size=world)
    same = opened(seed)
    batches = iter(same)
    steps = sum(1 for _ in zip(range(250), batches))
    differs = told(opened(seed + (rank == 1)))  # found behind all that the ranks have compared of the other loader
    steps += sum(1 for _ in zip(range(250), batches))
    tell(steps=steps, differs=differs)
    store.add(f"ended {seed}", 1)
    while store.add(f"ended {seed}", 0) < world:
        time.sleep(0.01)


main()
