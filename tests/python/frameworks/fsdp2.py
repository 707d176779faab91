"""A rank of a training with FSDP2 (fully_shard) on a DeviceMesh: fsdp2.py FOLDER REPLICAS [STOP].

Goes on where the checkpoint in the folder was saved, if there is one. With STOP, saves one after that step of all and
ends.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from frameworks_support import leave, tell
from torch import nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

import leat

ROWS, SIZE, EPOCHS = 100, 14, 3


def rows() -> leat.Dataset:
    x = np.random.default_rng(0).standard_normal((ROWS, 4), np.float32)
    return leat.from_arrays(x=x, y=np.sin(x[:, :1]))


def sharded(mesh: Any) -> nn.Sequential:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 1))
    for part in (*model, model):
        fully_shard(part, mesh=mesh)
    return model


class App:
    """What a checkpoint holds, as torch.distributed.checkpoint asks for it. The loader's state is one text: lists would
    be taken apart, and come back with no more entries than they have in a loader that was just opened.
    """

    def __init__(self, model: nn.Module, optimizer: torch.optim.Optimizer, loader: leat.Loader) -> None:
        self.model, self.optimizer, self.loader = model, optimizer, loader

    def state_dict(self) -> dict[str, Any]:
        model, optimizer = get_state_dict(self.model, self.optimizer)
        return {"model": model, "optimizer": optimizer, "loader": json.dumps(self.loader.state_dict())}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        set_state_dict(self.model, self.optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"])
        self.loader.load_state_dict(json.loads(state["loader"]))


def main(folder: Path, replicas: int, stop: int) -> None:
    dist.init_process_group("gloo")
    world = dist.get_world_size()
    mesh = init_device_mesh("cpu", (replicas, world // replicas), mesh_dim_names=("dp_replicate", "dp_shard"))
    model = sharded(mesh)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-2)
    loader = leat.Loader(rows(), global_batch_size=SIZE, shuffle=True, seed=1, mesh=mesh)
    app = {"app": App(model, optimizer, loader)}
    if folder.exists():
        dcp.load(app, checkpoint_id=folder)
    batches, losses = [], []
    for _ in range(loader.epoch, EPOCHS):
        for batch in loader:
            error = (model(batch["x"]) - batch["y"]).square().flatten()
            loss = (error * batch.valid).sum() * world / min(SIZE, ROWS - batch.step * SIZE)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            batches.append([batch.epoch, batch.step, batch.ids[batch.valid].tolist()])
            dist.all_reduce(shared := loss.detach())
            losses.append(float(shared) / world)
            if batch.epoch * len(loader) + batch.step == stop:
                dcp.save(app, checkpoint_id=folder)
                break
        else:
            continue
        break
    whole = [p.full_tensor().flatten().tolist() for p in model.parameters()]  # type: ignore[attr-defined]
    tell(batches=batches, losses=losses, weights=whole, rank=loader.rank, of=loader.world_size)
    del loader, app
    leave()


main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]) if sys.argv[3:] else -1)
