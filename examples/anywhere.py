"""One training that runs in one process, on torchrun, under DeepSpeed's pipeline, under Accelerate and with its batches
made by a Ray cluster, and goes on from one as another of them: all see the same global batches.

    python anywhere.py alone                                      one process
    torchrun --nproc-per-node 4 anywhere.py ddp                   DistributedDataParallel
    torchrun --nproc-per-node 4 anywhere.py deepspeed             DeepSpeed: 2 stages on 2 data-parallel ranks
    torchrun --nproc-per-node 2 anywhere.py accelerate            Hugging Face Accelerate
    RAY_ADDRESS=HOST:PORT python anywhere.py on_ray               a Ray cluster, with a stage that embeds the rows

Each run takes --steps steps, from where the last one ended (--state FILE, which names no engine and no world size), and
appends to --seen the ids and the hashes of the rows of its part of each global batch. The data are written to --data at
first. All run on the CPU.
"""

from __future__ import annotations

import argparse
import gc
import hashlib
import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import nn

import leat

GLOBAL = 8  # rows of a global batch
DATA = Path("anywhere.leat")  # that --data names

Batches = Iterator[tuple[torch.Tensor, torch.Tensor]]


def write_data() -> None:
    """The first process writes the data, and the others wait for the file, which is there once it is whole."""
    x = np.random.default_rng(0).normal(size=(60, 4)).astype("float32")
    if not DATA.exists() and os.environ.get("RANK", "0") == "0":
        with leat.Writer(DATA, {"x": leat.field("float32", (4,)), "y": "float32"}) as writer:
            for i in range(len(x)):
                writer.add(x=x[i], y=np.float32(i / len(x)))
    while not DATA.exists():
        time.sleep(0.01)


def layers() -> list[nn.Module]:
    torch.manual_seed(1)
    return [nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1), nn.Flatten(0)]


def alone() -> tuple[leat.Loader, Callable[[Batches], float]]:
    loader = leat.Loader(leat.open(DATA), global_batch_size=GLOBAL, shuffle=True, seed=3, drop_last=True)
    model = nn.Sequential(*layers())
    return loader, stepper(model, torch.optim.SGD(model.parameters(), 0.1), lambda loss: loss.backward())


def ddp() -> tuple[leat.Loader, Callable[[Batches], float]]:
    dist.init_process_group("gloo")
    loader = leat.Loader(leat.open(DATA), global_batch_size=GLOBAL, shuffle=True, seed=3, drop_last=True)
    model = nn.parallel.DistributedDataParallel(nn.Sequential(*layers()))
    return loader, stepper(model, torch.optim.SGD(model.parameters(), 0.1), lambda loss: loss.backward())


def accelerate() -> tuple[leat.Loader, Callable[[Batches], float]]:
    from accelerate import Accelerator

    accelerator = Accelerator(cpu=True)
    loader = leat.Loader(leat.open(DATA), global_batch_size=GLOBAL, shuffle=True, seed=3, drop_last=True)
    model = nn.Sequential(*layers())
    model, optimizer = accelerator.prepare(model, torch.optim.SGD(model.parameters(), 0.1))
    return loader, stepper(model, optimizer, accelerator.backward)


class Embed:
    """A model on the rows of a batch, in an actor of its own, which may have a GPU."""

    def __init__(self) -> None:
        self.model = nn.Sequential(*layers()[:2])

    def __call__(self, rows: dict[str, Any]) -> dict[str, Any]:
        with torch.inference_mode():
            return {"embedding": self.model(torch.from_numpy(rows["x"])).numpy()}


def on_ray() -> tuple[leat.Loader, Callable[[Batches], float]]:
    import ray

    import leat.ray

    ray.init()
    stages = [leat.ray.Stage(Embed, batch_size=3)]
    loader = leat.ray.Loader(
        leat.open(DATA), global_batch_size=GLOBAL, shuffle=True, seed=3, drop_last=True, stages=stages
    )
    model = nn.Sequential(*layers())
    return loader, stepper(model, torch.optim.SGD(model.parameters(), 0.1), lambda loss: loss.backward())


def deepspeed() -> tuple[leat.Loader, Callable[[Batches], float]]:
    os.environ["DS_ACCELERATOR"] = "cpu"
    import deepspeed
    from deepspeed.ops import __compatible_ops__
    from deepspeed.pipe import PipelineModule
    from deepspeed.runtime.pipe.topology import PipeDataParallelTopology

    __compatible_ops__["deepspeed_shm_comm"] = False  # else it is compiled first
    deepspeed.init_distributed("gloo", verbose=False)
    topology = PipeDataParallelTopology(num_pp=2, num_dp=dist.get_world_size() // 2)
    loader = leat.Loader(leat.open(DATA), global_batch_size=GLOBAL, shuffle=True, seed=3, drop_last=True, mesh=topology)
    model = PipelineModule(layers(), topology=topology, loss_fn=nn.functional.mse_loss, partition_method="uniform")
    rows = GLOBAL // loader.world_size
    config = {"train_batch_size": GLOBAL, "train_micro_batch_size_per_gpu": rows, "steps_per_print": 1 << 30}
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    engine = deepspeed.initialize(model=model, optimizer=optimizer, config=config)[0]
    return loader, lambda batches: float(engine.train_batch(batches))


ENGINES = {"alone": alone, "ddp": ddp, "deepspeed": deepspeed, "accelerate": accelerate, "on_ray": on_ray}


def stepper(model: nn.Module, optimizer: Any, backward: Callable[[Any], None]) -> Callable[[Batches], float]:
    def step(batches: Batches) -> float:
        x, y = next(batches)
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        backward(loss)
        optimizer.step()
        return loss.item()

    return step


def batches_of(loader: leat.Loader, seen: list[Any]) -> Batches:
    """Pairs of tensors, epoch after epoch, noting what this rank is given."""
    while True:
        for batch in loader:
            rows = [x.numpy().tobytes() + y.numpy().tobytes() for x, y in zip(batch["x"], batch["y"], strict=True)]
            hashes = [hashlib.sha256(row).hexdigest()[:16] for row in rows]
            seen.append([batch.epoch, batch.step, batch.ids.tolist(), hashes])
            yield batch["x"], batch["y"]


def train(engine: str, steps: int, state: Path, seen_file: Path | None) -> None:
    loader, step = ENGINES[engine]()
    if state.exists():
        loader.load_state_dict(json.loads(state.read_text()))
    seen: list[Any] = []
    batches = batches_of(loader, seen)
    losses = [step(batches) for _ in range(steps)]
    print(f"{engine}, rank {loader.rank} of {loader.world_size}: loss {losses[0]:.4f} to {losses[-1]:.4f}")
    if seen_file:
        place = {"engine": engine, "rank": loader.rank, "world_size": loader.world_size}
        with seen_file.open("a") as out:
            out.write("".join(json.dumps([*each, place]) + "\n" for each in seen))
    if dist.is_initialized():
        dist.barrier()  # all have read the state of before
    if not dist.is_initialized() or dist.get_rank() == 0:
        state.write_text(json.dumps(loader.state_dict()))


def main() -> None:
    global DATA
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("engine", choices=ENGINES)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--state", type=Path, default=Path("anywhere.json"))
    parser.add_argument("--seen", type=Path)
    parser.add_argument("--data", type=Path, default=DATA)
    args = parser.parse_args()
    DATA = args.data.resolve()
    write_data()
    train(args.engine, args.steps, args.state, args.seen)
    gc.collect()  # what uses the process group goes before it
    if dist.is_initialized():
        dist.barrier()
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
