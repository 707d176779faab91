"""A rank of a training with DistributedDataParallel: ddp.py KIND WORKERS."""

from __future__ import annotations

import sys

import torch
import torch.distributed as dist
from frameworks_support import Dice, Line, Numbers, engine_of, ids, leave, loader_class, loss_of, tell
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DistributedSampler


def main(kind: str, workers: int) -> None:
    dist.init_process_group("gloo")
    data = Numbers(21)
    sampler = DistributedSampler(data, seed=5)
    loader = loader_class(kind)(
        data, batch_size=4, sampler=sampler, num_workers=workers, persistent_workers=workers > 0
    )
    model = DistributedDataParallel(Line())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    epochs = []
    for epoch in range(3):
        sampler.set_epoch(epoch)
        epochs.append([])
        for batch in loader:
            epochs[-1].append(ids(batch))
            optimizer.zero_grad()
            loss_of(model(batch["x"]), batch).backward()
            optimizer.step()
    weights = [float(w) for w in model.module.layer.weight.flatten()]
    if kind == "leat":
        drawn = loader_class(kind)(Dice(21), batch_size=4, sampler=sampler, num_workers=workers, seed=3, reseed=True)
        tell(drawn=[batch["x"].tolist() for batch in drawn])
    tell(epochs=epochs, weights=weights, length=len(loader), engine=engine_of(loader))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
    leave()
