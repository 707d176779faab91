"""A data-parallel rank of DeepSpeed, with batches of leat.Loader and with leat's data set as `training_data`."""

from __future__ import annotations

import math
from typing import Any

import deepspeed
import numpy as np
import torch
from deepspeed.pipe import PipelineModule
from deepspeed.utils import RepeatingLoader
from deepspeed_support import MICRO, begin, engine_of
from frameworks_support import leave, tell
from torch import nn
from torch.utils.data import default_collate

import leat

N, EPOCHS = 24, 8


def data() -> leat.Dataset:
    x = np.random.default_rng(0).normal(size=(N, 4)).astype(np.float32)
    return leat.from_arrays(x=x, y=x @ np.array([1, -2, 0.5, 3], np.float32))


def line() -> nn.Module:
    torch.manual_seed(1)
    return nn.Linear(4, 1)


def zero(stage: int) -> dict[str, Any]:
    """Trains with the optimizer's state, and for 2 its gradients too, shared among the ranks."""
    options = {"zero_optimization": {"stage": stage}, "zero_allow_untested_optimizer": True}
    engine = engine_of(line(), 2, lr=0.003, **options)
    loader = leat.Loader(data(), MICRO, shuffle=True, seed=7, drop_last=True)
    ids: list[list[int]] = []
    losses: list[float] = []
    for _ in range(EPOCHS):
        ids.append([])
        for batch in loader:
            loss = nn.functional.mse_loss(engine(batch["x"])[:, 0], batch["y"])
            engine.backward(loss)
            engine.step()
            ids[-1] += batch.ids.tolist()
            losses.append(loss.item())
    assert all(map(math.isfinite, losses))
    steps = len(losses) // EPOCHS
    return {"ids": ids, "first": sum(losses[:steps]), "last": sum(losses[-steps:]), "steps": engine.global_steps}


def pairs(samples: list[dict[str, Any]]) -> tuple[torch.Tensor, torch.Tensor]:
    return default_collate([s["x"] for s in samples]), default_collate([s["y"] for s in samples])


def given(model: nn.Module, what: Any, collate: Any = None) -> Any:
    config = {"train_batch_size": 4, "train_micro_batch_size_per_gpu": MICRO, "steps_per_print": 1 << 30}
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    return deepspeed.initialize(model=model, config=config, optimizer=optimizer, training_data=what, collate_fn=collate)


def training_data() -> dict[str, Any]:
    """The data set as DeepSpeed reads it: by its own loader and sampler, the same order in each epoch."""
    ds = data()
    place = {float(y): i for i, y in enumerate(ds.column("y"))}
    loader = given(line(), ds, pairs)[2]
    found = {"as pairs": [[place[float(y)] for _, label in loader for y in label] for _ in range(2)]}
    loader = given(line(), ds)[2]
    found["as dicts"] = [[place[float(y)] for batch in loader for y in batch["y"]] for _ in range(2)]
    return found


def module() -> PipelineModule:
    return PipelineModule([nn.Linear(4, 1)], num_stages=1, loss_fn=lambda x, y: nn.functional.mse_loss(x[:, 0], y))


def refused(what: Any, batches: Any = None) -> str:
    """What the engine of a pipeline says of data that are no pairs."""
    try:
        given(module(), what)[0].train_batch(batches)
    except Exception as e:
        return f"{type(e).__name__}: {e}"
    return ""


def for_good() -> list[list[int]]:
    """The ids of two epochs of an engine that was given a loader once."""
    engine = given(module(), None)[0]
    seen: list[list[int]] = []

    def pair(batch: leat.Batch) -> tuple[torch.Tensor, torch.Tensor]:
        seen.append(batch.ids.tolist())
        return batch["x"], batch["y"]

    engine.set_batch_fn(pair)
    engine.set_dataloader(RepeatingLoader(leat.Loader(data(), MICRO, shuffle=True, seed=7, drop_last=True)))
    for _ in range(2 * N // 4):
        engine.train_batch()
    return seen


begin()
tell(zero={stage: zero(stage) for stage in (1, 2)})
tell(training_data=training_data(), for_good=for_good())
tell(loader=refused(leat.Loader(data(), MICRO)), dicts=refused(data()))
tell(batches=refused(None, iter(leat.Loader(data(), MICRO))))
leave()
