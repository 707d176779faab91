"""A rank of gloo that trains on its part of a loader which the ranks share."""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from frameworks_support import Line, leave, loss_of, tell
from torch.nn.parallel import DistributedDataParallel

import leat

N, BATCH = 210, 5


def made() -> leat.Dataset:
    x = torch.arange(N, dtype=torch.float32) / N
    return leat.from_arrays(x=torch.stack([x, torch.ones(N)], 1).numpy(), y=(2 * x[:, None] - 1).numpy())


def train(share: str | None) -> tuple[list[list[int]], list[float]]:
    model = DistributedDataParallel(Line())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    ids = []
    with leat.Loader(made(), BATCH, shuffle=True, seed=3, share=share) as loader:
        for _ in range(3):
            for batch in loader:
                ids.append(batch.ids.tolist())
                optimizer.zero_grad()
                loss_of(model(batch["x"]), batch).backward()
                optimizer.step()
        if share:
            tell(shared=loader.stats()["shared"])
    return ids, [float(w) for w in model.module.layer.weight.detach().flatten()]


def differs() -> str:
    try:
        leat.Loader(made(), BATCH, seed=torch.distributed.get_rank(), share="job")
    except leat.StateError as e:
        return str(e)
    return ""


if __name__ == "__main__":
    torch.distributed.init_process_group("gloo")
    tell(own=train(None), job=train("job"), error=differs())
    torch.distributed.barrier()
    tell(left=[p.name for p in Path(sys.argv[1]).iterdir()])
    leave()
