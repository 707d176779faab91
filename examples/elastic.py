"""Trains under elastic torchrun: machines leave and join, and each row of an epoch is trained on exactly once.

    export TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1
    torchrun --nnodes 1:3 --max-restarts 100 --rdzv-id job --rdzv-backend c10d --rdzv-endpoint HOST:29400 \\
        --rdzv-conf last_call_timeout=8,keep_alive_interval=1,keep_alive_max_attempt=3 examples/elastic.py FOLDER

The same on each machine; FOLDER is one that all of them see, HOST the machine that starts first. When a machine leaves
or joins, torchrun starts all ranks again. They load the newest checkpoint and go on with the next global batch, each
with its share of it. If HOST itself is lost, start the job again, on any number of machines.
"""

import argparse
import json
import os
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import leat


def made(n: int) -> leat.Dataset:
    """Rows of 8 numbers, and the one number that a model is to find in them."""
    x = torch.randn((n, 8), generator=torch.Generator().manual_seed(0))
    return leat.from_arrays(x=x.numpy(), y=x[:, :1].sin().numpy())


def save(folder: Path, step: int, **state: object) -> None:
    """Writes a checkpoint, which is there as a whole or not at all, and drops all but the last two."""
    torch.save(state, folder / "unfinished")
    os.replace(folder / "unfinished", folder / f"{step:08d}.pt")
    for old in sorted(folder.glob("*.pt"))[:-2]:
        old.unlink(missing_ok=True)


def newest(folder: Path) -> int:
    """The step of the newest checkpoint; 0: there is none. The first rank looks, so that all load the same."""
    step = torch.tensor(max((int(path.stem) for path in folder.glob("*.pt")), default=0))
    dist.broadcast(step, 0)
    return int(step)


def main() -> None:
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("folder", type=Path, help="of the checkpoints")
    a.add_argument("--epochs", type=int, default=3)
    a.add_argument("--rows", type=int, default=10_000)
    a.add_argument("--global-batch-size", type=int, default=64, help="rows of all ranks together, in each step")
    a.add_argument("--every", type=int, default=1, help="steps between two checkpoints")
    a.add_argument("--ids", type=Path, help="a folder that gets the ids of each step: a file of each process")
    o = a.parse_args()
    dist.init_process_group("gloo")
    rank, world, size = dist.get_rank(), dist.get_world_size(), o.global_batch_size
    torch.manual_seed(0)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 1)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    loader = leat.Loader(made(o.rows), global_batch_size=size, shuffle=True, seed=1)
    o.folder.mkdir(parents=True, exist_ok=True)
    begin = done = newest(o.folder)
    if begin:
        saved = torch.load(o.folder / f"{begin:08d}.pt", weights_only=True)
        model.module.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        loader.load_state_dict(saved["loader"])
    for _epoch in range(loader.epoch, o.epochs):
        for batch in loader:
            if o.ids is not None:  # before the step: of one that a checkpoint counts, no rank's line is missing
                where = {"epoch": batch.epoch, "step": batch.step, "rank": rank, "world": world, "begin": begin}
                with open(o.ids / f"{os.getpid()}.jsonl", "a") as file:
                    file.write(json.dumps({**where, "ids": batch.ids[batch.valid].tolist()}) + "\n")
            # Shares may differ by a row, and rows may be padding: the sum over all ranks is divided by the rows of all.
            # DistributedDataParallel divides by the number of ranks.
            errors = (model(batch["x"]) - batch["y"]).square().flatten()
            loss = (errors * batch.valid).sum() * world / min(size, o.rows - batch.step * size)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            done += 1
            if rank == 0 and (done % o.every == 0 or done == o.epochs * len(loader)):
                state = {"model": model.module.state_dict(), "optimizer": optimizer.state_dict()}
                save(o.folder, done, **state, loader=loader.state_dict())
    dist.barrier()
    if rank == 0:
        print(f"{done} steps, on {world} rank(s) in the end")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
