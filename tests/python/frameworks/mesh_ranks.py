"""A rank of a mesh of data- and tensor-parallel processes (gloo): what it is given, and what it reports."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import torch
from frameworks_support import leave, tell
from torch.distributed.device_mesh import init_device_mesh

import leat

N, L = 48, 16


def rows() -> leat.Dataset:
    x = np.arange(N * L).reshape(N, L)
    return leat.from_arrays(tokens=x, doc=np.arange(N))


def decided_by_one(mix: leat.Mix, mesh: Any) -> str:
    """What is said where one rank decides and the others do not."""
    rank = torch.distributed.get_rank()

    def first(step: int, losses: Any, counts: Any, weights: Any) -> Any:
        return {"a": 0.25, "b": 0.75} if rank == 0 and step == 1 else None

    loader = leat.Loader(mix, global_batch_size=8, mesh=mesh, mixture=first)
    try:
        for batch in loader:
            loader.report(batch, {}, {})
    except leat.StateError as e:
        return str(e)
    return ""


def after_an_error(mesh: Any) -> list[Any]:
    """What is said where the one that reads cannot send a batch, and the step that comes next."""
    ds = leat.from_arrays(tokens=np.arange(N * L).reshape(N, L), more=np.zeros((N, 2), np.float32))
    loader = leat.Loader(ds, global_batch_size=8, mesh=mesh, tp_read="first")
    batches, error = iter(loader), ""
    next(batches)
    loader._form.makers["more"] = lambda core: {1, 2}  # neither a tensor nor JSON
    try:
        next(batches)
    except (leat.Error, TypeError) as e:
        error = str(e)
    loader._form.makers["more"] = lambda core: "sent"
    return [error, next(batches).step, loader.state_dict()["at"]]


def main() -> None:
    torch.distributed.init_process_group("gloo")
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    found = {}
    for how in ("each", "first"):
        stores: Any = {"x": (leat.device.rows(np.arange(N) * (100 + torch.distributed.get_rank())), "doc")}
        loader = leat.Loader(rows(), global_batch_size=8, shuffle=True, seed=1, mesh=mesh, tp_read=how, stores=stores)
        batches = [batch for _ in range(2) for batch in loader]
        found[how] = [batch["tokens"].tolist() for batch in batches]
        found[how + " rows"] = [[*batch["doc"].tolist(), *batch["x"].tolist()] for batch in batches]
        found[f"{how} ids"] = [(batch.ids.tolist(), batch.domains.tolist()) for batch in loader]
    rank = torch.distributed.get_rank()
    found["hosts"] = []
    four = init_device_mesh("cpu", (1, 4), mesh_dim_names=("dp", "tp"))
    whole = [batch["tokens"].tolist() for batch in leat.Loader(rows(), 8, shuffle=True, seed=1, mesh=four)]
    for size in (4, 2, 1):  # hosts of so many ranks
        os.environ["LOCAL_WORLD_SIZE"], os.environ["LOCAL_RANK"] = str(size), str(rank % size)
        loader = leat.Loader(rows(), 8, shuffle=True, seed=1, mesh=four, tp_read="first")
        same = [batch["tokens"].tolist() for batch in loader] == whole
        found["hosts"].append([same, loader.stats()["bytes"] > 0])
    found["after an error"] = after_an_error(mesh)
    mix = leat.Mix({"a": (rows(), 0.5), "b": (rows(), 0.5)}, exhausted="repeat")
    loader = leat.Loader(mix, global_batch_size=8, mesh=mesh, mixture=leat.DoReMi(None, every=3))
    decided = []
    for batch in loader:
        loader.report(batch, {"a": 0.5 + batch.step, "b": 0.1}, {"a": 4, "b": 4})
        decided.append(loader.mixture.weights["a"])
    error = ""
    other = leat.Loader(mix, global_batch_size=8, mesh=mesh, mixture=leat.DoReMi(None, every=3))
    try:
        for batch in other:
            other.report(batch, {"a": 1.0 + torch.distributed.get_rank(), "b": 0.1}, {"a": 4, "b": 4})
    except leat.StateError as e:
        error = str(e)
    tell(**found, decided=decided, error=error, alone=decided_by_one(mix, mesh))
    del loader, other
    leave()


main()
