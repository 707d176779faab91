"""A rank of a pipeline that DeepSpeed trains from leat: deepspeed_pipeline.py STAGES DATA PHOTOS."""

from __future__ import annotations

import sys
from typing import Any

from deepspeed.utils import RepeatingLoader
from deepspeed_support import Seen, begin, engine_of, hash_of, photos, pipeline
from frameworks_support import leave, tell

EPOCHS = 3
PER_EPOCH = 3  # 24 photos, 8 in a step


def train(path: str, stages: int, data: int) -> Any:
    """Batches are dicts, of which `set_batch_fn` makes what DeepSpeed takes; evaluates after each epoch."""
    model = pipeline(stages, data)
    loader = photos(path, mesh=model.topology())
    probe = photos(path, mesh=model.topology(), shuffle=False)
    engine = engine_of(model, data)
    seen = Seen()
    engine.set_batch_fn(seen)
    batches, probes = RepeatingLoader(loader), RepeatingLoader(probe)
    losses, evaluated, looked = [], [], Seen()
    for step in range(EPOCHS * PER_EPOCH):
        losses.append(float(engine.train_batch(batches)))
        if step % PER_EPOCH == 2:
            engine.set_batch_fn(looked)
            evaluated.append(float(engine.eval_batch(probes)))
            engine.set_batch_fn(seen)
    read = [one.stats()["samples"] for one in (loader, probe)]
    tell(losses=losses, evaluated=evaluated, read=read, stage=engine.stage_id, dp=engine.grid.get_data_parallel_rank())
    tell(trained=seen.told(), looked=looked.told())
    return engine


def train_tuples(path: str, data: int, engine: Any) -> None:
    """The same engine goes on with tuples, found by its grid, without any function between."""
    loader = photos(path, mesh=engine.grid, yields="tuple")
    batches = RepeatingLoader(loader)
    found: list[str] = []

    def noted() -> Any:
        for x, y in batches:
            found.append(hash_of(x, y))
            yield x, y

    engine.set_batch_fn(None)
    engine.train_batch(noted())
    tell(tuples=found, read_tuples=loader.stats()["samples"])


def main() -> None:
    stages, data, path = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    begin()
    engine = train(path, stages, data)
    train_tuples(path, data, engine)
    del engine
    leave()


main()
