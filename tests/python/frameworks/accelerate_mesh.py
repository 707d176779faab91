"""A rank of four with loaders that Accelerate prepares for meshes: accelerate_mesh.py KIND.

Accelerate's ParallelismConfig refuses a job of processors alone. The function with which `Accelerator.prepare` makes a
loader for the mesh of such a configuration takes any mesh.
"""

from __future__ import annotations

import itertools
import sys
from typing import Any

import torch
from accelerate import Accelerator
from accelerate.data_loader import prepare_data_loader
from frameworks_support import Numbers, engine_of, ids, leave, loader_class, tell
from torch.distributed.device_mesh import init_device_mesh

KIND, ROWS, SIZE, CUT = sys.argv[1], 64, 4, 2
MESHES = {
    "replicated and sharded": ((2, 2), ("dp_replicate", "dp_shard")),
    "sharded and tensor-parallel": ((2, 2), ("dp_shard", "tp")),
    "sharded and context-parallel": ((2, 2), ("dp_shard", "cp")),
    "tensor-parallel": ((4,), ("tp",)),
}
MODES: dict[str, dict[str, Any]] = {
    "sharded": {},
    "split": {"split_batches": True},
    "dispatched": {"dispatch_batches": True},
    "dispatched and split": {"dispatch_batches": True, "split_batches": True},
}


def prepared(mesh: Any, shuffle: dict[str, Any], mode: dict[str, Any]) -> Any:
    loader = loader_class(KIND)(Numbers(ROWS), SIZE, **shuffle)
    cpu = torch.device("cpu")
    return prepare_data_loader(
        loader, cpu, put_on_device=True, torch_device_mesh=mesh, use_stateful_dataloader=True, **mode
    )


def scene(*how: Any) -> dict[str, Any]:
    """Two epochs, the rest of the second one after a state, and the package that made the batches."""
    loader = prepared(*how)
    found = {"epochs": [[ids(batch) for batch in loader] for _ in range(2)], "engine": engine_of(loader)}
    loader = prepared(*how)
    for _ in loader:
        pass
    for _ in itertools.islice(loader, CUT):
        state = loader.state_dict()
    loader = prepared(*how)
    loader.load_state_dict(state)
    return {**found, "rest": [ids(batch) for batch in loader]}


Accelerator(cpu=True)
for mesh_name, (sizes, names) in MESHES.items():
    mesh = init_device_mesh("cpu", sizes, mesh_dim_names=names)
    for name, mode in MODES.items():
        tell(**{f"{mesh_name}, {name}": scene(mesh, {}, mode)})
        if KIND == "leat":
            tell(**{f"{mesh_name}, {name}, shuffled": scene(mesh, {"shuffle": True, "seed": 5}, mode)})
if KIND == "leat":
    alone = loader_class(KIND)(Numbers(ROWS), SIZE, shuffle=True, seed=5)
    tell(alone=[[i for batch in alone for i in ids(batch)] for _ in range(2)])
leave()
