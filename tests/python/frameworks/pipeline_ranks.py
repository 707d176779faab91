"""A stage of a pipeline (gloo): the last one loads only when the first has, and the middle one never does."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from frameworks_support import leave, tell
from torch.distributed.device_mesh import init_device_mesh

import leat

N = 24


def opened(mesh: Any, seed: int = 1, **options: Any) -> leat.Loader:
    return leat.Loader(leat.from_arrays(x=np.arange(N)), 8, shuffle=True, seed=seed, mesh=mesh, **options)


def trained(loader: leat.Loader, epochs: int, steps: int = N // 8) -> list[list[int]]:
    """The ids that this stage has seen, in the order of a pipeline's schedule."""
    rank, found = dist.get_rank(), list[list[int]]()
    there = torch.zeros(8, dtype=torch.int64)
    for _ in range(epochs):
        batches = None
        for _step in range(steps):
            if rank == 0:
                batches = iter(loader) if batches is None else batches
                there = next(batches).ids.to(torch.int64)
                dist.send(there, 1)
            elif rank == 1:
                dist.recv(there, 0)
                dist.send(there, 2)
            else:
                dist.recv(there, 1)
                batches = iter(loader) if batches is None else batches  # not before the first stage has a batch
                assert next(batches).ids.tolist() == there.tolist()
            found.append(there.tolist())
    return found


def error_of(loader: leat.Loader) -> str:
    """Of the epochs until there is one."""
    try:
        for _ in range(100000):
            for _batch in loader:
                pass
    except leat.StateError as e:
        return str(e)
    return ""


def selected(mesh: Any, agree: bool) -> leat.Loader:
    """A loader that selects by the losses of all rows, after an epoch behind which both stages that read report them:
    the same ones only if they `agree`.
    """
    loader, rank = opened(mesh, feedback=leat.TopFraction(1 / 3)), dist.get_rank()
    trained(loader, 1)
    if rank != 1:
        loader.report(np.arange(N), loss=np.arange(N) if agree or rank == 0 else -np.arange(N))
    return loader


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    mesh = init_device_mesh("cpu", (3,), mesh_dim_names=("pp",))
    found = {"ids": trained(opened(mesh), 2)}
    if rank == 0:  # one that takes no rank from the group is compared with none
        list(leat.Loader(leat.from_arrays(x=np.arange(5)), 5, rank=0, world_size=1))
    found["after"] = trained(opened(mesh), 1)
    tell(**found, error=error_of(opened(mesh, seed=rank)))
    loader = opened(mesh)
    state = loader.state_dict()
    loader.select(range(8 + rank), at=(0, 0))
    tell(apart=error_of(loader))
    dist.barrier()
    loader.load_state_dict(state)
    tell(together=[batch.ids.tolist() for batch in loader])
    loader = opened(mesh)
    if rank == 0:  # a look at the first batch, which is no epoch
        next(iter(loader))
        loader.set_epoch(0)
    tell(looked=[batch.ids.tolist() for batch in loader])
    dist.barrier()
    assert error_of(opened(mesh, seed=rank))  # behind which all is known that was found so far
    next(iter(loader))
    tell(selected=trained(selected(mesh, True), 1, 1))
    loader = selected(mesh, False)
    dist.barrier()
    tell(selected_apart=error_of(loader))
    store = dist.FileStore(sys.argv[1], 3)  # which outlives a group
    for seed in (1, 2):
        dist.barrier()
        dist.destroy_process_group()
        dist.init_process_group("gloo", store=dist.PrefixStore(str(seed), store), rank=rank, world_size=3)
        loader = opened(init_device_mesh("cpu", (3,), mesh_dim_names=("pp",)), seed)
        tell(**{f"again {seed}": trained(loader, 1)})
        del loader
    leave()


main()
