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


def main() -> None:
    torch.distributed.init_process_group("gloo")
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    found = {}
    for how in ("each", "first"):
        loader = leat.Loader(rows(), global_batch_size=8, shuffle=True, seed=1, mesh=mesh, tp_read=how)
        found[how] = [batch["tokens"].tolist() for _ in range(2) for batch in loader]
        found[f"{how} ids"] = [(batch.ids.tolist(), batch.domains.tolist()) for batch in loader]
    rank = torch.distributed.get_rank()
    found["hosts"] = []
    for host in ("0", str(rank // 2), str(rank)):  # all on one host; each group on one; each process on one of its own
        os.environ["GROUP_RANK"] = host
        loader = leat.Loader(rows(), global_batch_size=8, shuffle=True, seed=1, mesh=mesh, tp_read="first")
        same = [batch["tokens"].tolist() for _ in range(2) for batch in loader] == found["each"]
        found["hosts"].append([same, loader.stats()["bytes"] > 0])
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
