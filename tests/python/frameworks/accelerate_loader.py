"""A rank with a leat.Loader under Accelerate: accelerate_loader.py FOLDER [STOP].

Goes on where the folder's checkpoint was saved, if there is one. With STOP, saves one after so many steps and ends.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import torch
from accelerate import Accelerator
from frameworks_support import Line, leave, tell

import leat

ROWS, SIZE, EPOCHS = 50, 9, 2


def main(folder: Path, stop: int) -> None:
    accelerator = Accelerator(cpu=True)
    x = np.random.default_rng(0).standard_normal((ROWS, 2), np.float32)
    loader = leat.Loader(leat.from_arrays(x=x, y=x[:, :1]), global_batch_size=SIZE, shuffle=True, seed=1)
    model = Line()
    model, optimizer, given = accelerator.prepare(model, torch.optim.SGD(model.parameters(), 0.5), loader)
    assert given is loader
    accelerator.register_for_checkpointing(loader)
    if folder.exists():
        accelerator.load_state(str(folder))
    batches, steps = list[list[int]](), 0
    for _ in range(loader.epoch, EPOCHS):
        for batch in loader:
            error = ((model(batch["x"]) - batch["y"]).square().flatten() * batch.valid).sum()
            accelerator.backward(error * loader.world_size / min(SIZE, ROWS - batch.step * SIZE))
            optimizer.step()
            optimizer.zero_grad()
            batches.append(batch.ids[batch.valid].tolist())
            steps += 1
            if steps == stop:
                break
        if steps == stop:
            accelerator.save_state(str(folder))
            break
    weights = accelerator.unwrap_model(model).layer.weight.flatten().tolist()
    tell(batches=batches, weights=weights)
    del loader, given, model
    leave()


main(Path(sys.argv[1]), int(sys.argv[2]) if sys.argv[2:] else -1)
