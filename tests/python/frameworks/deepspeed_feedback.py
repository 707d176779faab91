"""A stage of a pipeline whose epochs are selected by a curriculum: deepspeed_feedback.py."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from deepspeed.pipe import PipelineModule
from deepspeed.utils import RepeatingLoader
from deepspeed_support import MICRO, TRAIN_BATCH, begin, engine_of
from frameworks_support import leave, tell
from torch import nn

import leat

N = 32


class Losses:
    """The loss function of the last stage, which keeps the loss of each row."""

    def __init__(self) -> None:
        self.rows: list[torch.Tensor] = []

    def __call__(self, output: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
        found = (output[:, 0] - label) ** 2
        self.rows.append(found.detach())
        return found.mean()


def reported(engine: Any, ids: list[torch.Tensor], losses: Losses) -> tuple[torch.Tensor, torch.Tensor]:
    """The ids of the step and their losses, which the last stage sends to the first."""
    rows = torch.cat(losses.rows) if engine.is_last_stage() else torch.empty(TRAIN_BATCH)
    torch.distributed.broadcast(rows, engine.grid.stage_to_global(engine.num_stages - 1))
    found = torch.cat(ids)
    ids.clear()
    losses.rows.clear()
    return found, rows


def train(metric: str, epochs: int) -> dict[str, Any]:
    """The easiest quarter, half, and then all samples: by a field, or by what they were reported to cost."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(N, 6)).astype(np.float32)
    ds = leat.from_arrays(x=x, y=x[:, 0] * np.linspace(0, 3, N, dtype=np.float32), hard=np.arange(N)[::-1].copy())
    losses, ids = Losses(), list[torch.Tensor]()
    torch.manual_seed(2)
    model = PipelineModule([nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 1)], num_stages=2, loss_fn=losses)
    pacing = [0.25, 0.5, 1.0] if metric == "hard" else [1.0, 0.25, 0.5]
    feedback = leat.Curriculum(metric, pacing.__getitem__)
    loader = leat.Loader(ds, MICRO, True, seed=4, drop_last=True, mesh=model.topology(), feedback=feedback)
    engine = engine_of(model, 1)

    def pair(batch: leat.Batch) -> tuple[torch.Tensor, torch.Tensor]:
        ids.append(batch.ids)
        return batch["x"], batch["y"]

    engine.set_batch_fn(pair)
    batches = RepeatingLoader(loader)
    found: list[list[int]] = []
    tables = []
    for epoch in range(epochs):
        found.append([])
        for _ in range(int(N * pacing[epoch]) // TRAIN_BATCH):
            engine.train_batch(batches)
            of, rows = reported(engine, ids, losses)
            loader.report(of, loss=rows)
            found[-1] += of.tolist()
        tables.append(loader.feedback["loss"].value.tolist())
    return {"ids": found, "tables": tables, "read": loader.stats()["samples"]}


begin()
tell(field=train("hard", 3), loss=train("loss", 3))
leave()
