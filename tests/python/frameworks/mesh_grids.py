"""A rank under Megatron's parallel state or DeepSpeed's grid (gloo): the place found there, and their own."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import torch
from frameworks_support import leave, tell

import leat
from leat.loading.mesh import mesh_of

which = sys.argv[1]


def places(given: Any) -> dict[str, list[int]]:
    mesh = mesh_of(given)
    return {kind: list(getattr(mesh, kind)) for kind in ("dp", "tp", "pp", "cp")}


def tokens(given: Any, how: str) -> list[Any]:
    ds = leat.from_arrays(tokens=np.arange(32 * 8).reshape(32, 8))
    loader = leat.Loader(ds, global_batch_size=4, shuffle=True, seed=1, mesh=given, tp_read=how)
    return [[batch.ids.tolist(), batch["tokens"].tolist() if "tokens" in batch else []] for batch in loader]


def megatron() -> None:
    from megatron.core import parallel_state as state

    for sizes in ({"tensor": 2, "pipeline": 2, "context": 1}, {"tensor": 2, "pipeline": 1, "context": 2}):
        state.initialize_model_parallel(
            tensor_model_parallel_size=sizes["tensor"],
            pipeline_model_parallel_size=sizes["pipeline"],
            context_parallel_size=sizes["context"],
        )
        theirs = {
            "dp": [state.get_data_parallel_rank(), state.get_data_parallel_world_size()],
            "tp": [state.get_tensor_model_parallel_rank(), state.get_tensor_model_parallel_world_size()],
            "pp": [state.get_pipeline_model_parallel_rank(), state.get_pipeline_model_parallel_world_size()],
            "cp": [state.get_context_parallel_rank(), state.get_context_parallel_world_size()],
        }
        name = "-".join(map(str, sizes.values()))
        tell(**{name: [places(state), theirs, tokens(state, "each"), tokens(state, "first")]})
        state.destroy_model_parallel()


def deepspeed() -> None:
    import deepspeed_support
    from deepspeed.runtime.pipe.topology import PipelineParallelGrid, PipeModelDataParallelTopology

    deepspeed_support.begin()
    topology = PipeModelDataParallelTopology(num_pp=2, num_mp=2, num_dp=1)
    grid = PipelineParallelGrid(topology)
    theirs = {
        "dp": [grid.get_data_parallel_rank(), grid.get_data_parallel_world_size()],
        "tp": [grid.get_slice_parallel_rank(), grid.get_slice_parallel_world_size()],
        "pp": [grid.get_pipe_parallel_rank(), grid.get_pipe_parallel_world_size()],
        "cp": [0, 1],
    }
    tell(topology=[places(topology), theirs, tokens(topology, "each"), None])
    tell(grid=[places(grid), theirs, tokens(grid, "each"), tokens(grid, "first")])


torch.distributed.init_process_group("gloo")
{"megatron": megatron, "deepspeed": deepspeed}[which]()
leave()
