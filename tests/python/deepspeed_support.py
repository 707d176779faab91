"""What the ranks of the tests of DeepSpeed share: gloo without a compiler, photos, a small pipeline, its engine.

Imported by the scripts deepspeed_*.py in tests/python/frameworks.
"""

from __future__ import annotations

import hashlib
import os
from typing import Any

os.environ["DS_ACCELERATOR"] = "cpu"  # read as deepspeed is imported

import deepspeed
import torch
from deepspeed.ops import __compatible_ops__
from deepspeed.pipe import PipelineModule
from deepspeed.runtime.pipe.topology import PipeDataParallelTopology
from torch import nn

import leat

TRAIN_BATCH = 8  #: samples of a step, of all ranks together
MICRO = 2  #: samples of a micro-batch, of one rank
PIXELS = 6


def begin() -> None:
    """Joins the ranks over gloo."""
    __compatible_ops__["deepspeed_shm_comm"] = False  # else it is compiled here, for minutes
    deepspeed.init_distributed("gloo", verbose=False)
    torch.set_num_threads(1)


def photos(path: str, batch_size: int = MICRO, **options: Any) -> leat.Loader:
    """A loader of augmented photos: what the first stage gets and the last one does not have to be the same bytes."""
    chain = [leat.ops.Decode(), leat.ops.RandomResizedCrop(PIXELS), leat.ops.RandomHorizontalFlip()]
    chain += [leat.ops.ToDtype("float32", scale=True)]
    given = {"batch_size": batch_size, "shuffle": True, "seed": 5, "drop_last": True, **options}
    return leat.Loader(leat.open(path), outputs={"image": chain, "label": [leat.ops.ToDtype("float32")]}, **given)


def loss_of(output: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
    return nn.functional.mse_loss(output[:, 0], label)


def pipeline(stages: int, data: int, seed: int = 3) -> PipelineModule:
    """Four pairs of layers on a grid of so many stages and data-parallel ranks."""
    torch.manual_seed(seed)
    layers: list[Any] = [nn.Flatten()]
    for wide, narrow in ((3 * PIXELS**2, 16), (16, 16), (16, 8), (8, 1)):
        layers += [nn.Linear(wide, narrow), nn.Tanh()]
    topology = PipeDataParallelTopology(num_pp=stages, num_dp=data)
    return PipelineModule(layers, loss_fn=loss_of, topology=topology, partition_method="parameters", base_seed=seed)


def engine_of(model: nn.Module, data: int, micro: int = MICRO, lr: float = 0.02, **config: Any) -> Any:
    """The engine that `deepspeed.initialize` makes, with as many micro-batches as make up TRAIN_BATCH."""
    config = {
        "train_batch_size": TRAIN_BATCH,
        "train_micro_batch_size_per_gpu": micro,
        "gradient_accumulation_steps": TRAIN_BATCH // (micro * data),
        "steps_per_print": 1 << 30,
        **config,
    }
    parameters = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.SGD(parameters, lr=lr, momentum=0.9)
    return deepspeed.initialize(model=model, config=config, optimizer=optimizer, model_parameters=parameters)[0]


def hash_of(*tensors: torch.Tensor) -> str:
    return hashlib.sha256(b"".join(t.contiguous().numpy().tobytes() for t in tensors)).hexdigest()[:16]


class Seen:
    """A function for `engine.set_batch_fn`: makes pairs of batches, and notes ids and bytes of each micro-batch."""

    def __init__(self) -> None:
        self.epochs: list[int] = []
        self.ids: list[list[int]] = []
        self.hashes: list[str] = []

    def __call__(self, batch: leat.Batch) -> tuple[torch.Tensor, torch.Tensor]:
        self.epochs.append(batch.epoch)
        self.ids.append(batch.ids.tolist())
        self.hashes.append(hash_of(batch["image"], batch["label"]))
        return batch["image"], batch["label"]

    def told(self) -> dict[str, Any]:
        return {"epochs": self.epochs, "ids": self.ids, "hashes": self.hashes}
