"""A rank whose training by DeepSpeed is saved in the middle of an epoch, or goes on from there.

deepspeed_checkpoint.py save|load|data STAGES DATA MICRO PHOTOS FOLDER. `data`: only leat's state goes over.
"""

from __future__ import annotations

import sys
from typing import Any

import torch
from deepspeed.utils import RepeatingLoader
from deepspeed_support import Seen, begin, engine_of, hash_of, photos, pipeline
from frameworks_support import leave, tell

STEPS, CUT = 7, 4  # three to an epoch


def main(how: str, stages: int, data: int, micro: int, path: str, folder: str) -> None:
    begin()
    model = pipeline(stages, data, seed=3 if how == "save" else 4)  # a run that goes on has nothing by its seed
    loader = photos(path, micro, mesh=model.topology())
    engine = engine_of(model, data, micro)
    done = 0
    if how != "save":
        client: Any = engine.load_checkpoint(folder, **({"load_module_only": True} if how == "data" else {}))[1]
        loader.load_state_dict(client["leat"])
        done = CUT
    tell(weights=hash_of(*(p.detach() for p in model.parameters())))
    seen = Seen()
    engine.set_batch_fn(seen)
    batches = RepeatingLoader(loader)
    losses = []
    for step in range(done, STEPS):
        losses.append(float(engine.train_batch(batches)))
        if how == "save" and step + 1 == CUT:
            state = [loader.state_dict()]
            torch.distributed.broadcast_object_list(state)  # from rank 0: stages in the middle know no position
            engine.save_checkpoint(folder, client_state={"leat": state[0]})
            tell(at_cut=state[0]["at"])
    tell(losses=losses, stage=engine.stage_id, **seen.told())
    del engine
    leave()


main(sys.argv[1], *map(int, sys.argv[2:5]), *sys.argv[5:])
