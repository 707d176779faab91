"""The data-parallel rank of this process, and the values that ranks exchange.

Ranks communicate only if ``torch.distributed`` is initialised and they were taken from it. Ranks exchange plain tensors
of integers: nothing is ever unpickled.
"""

from __future__ import annotations

import hashlib
import os
import sys
from typing import Any

import numpy as np

from . import check
from .errors import StateError


def distributed() -> Any:
    """torch.distributed if it is initialised, else None. Never imports torch."""
    torch = sys.modules.get("torch")
    dist = getattr(torch, "distributed", None)
    return dist if dist is not None and dist.is_available() and dist.is_initialized() else None


def _environment(name: str) -> int | None:
    text = os.environ.get(name)
    if not text:
        return None
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"the environment variable {name} is {text!r}: it should be a number") from None


def find(rank: int | None, world_size: int | None) -> tuple[int, int, bool]:
    """(rank, world size, whether they come from torch.distributed)."""
    if (rank is None) != (world_size is None):
        raise ValueError("rank and world_size go together: give both or neither")
    if rank is not None and world_size is not None:
        found = (check.integer("rank", rank), check.integer("world_size", world_size, 1), False)
    elif dist := distributed():
        found = (dist.get_rank(), dist.get_world_size(), True)
    else:
        number, count = _environment("RANK"), _environment("WORLD_SIZE") or 1
        if number is None and count > 1:  # every process would have the rows of rank 0
            raise ValueError(
                f"the environment variable WORLD_SIZE is {count}, and RANK is not set: set it, too, or say rank and "
                "world_size (0 and 1 of a process by itself)"
            )
        found = (number or 0, count, False)
    if not 0 <= found[0] < found[1] < 1 << 31:
        raise ValueError(f"rank {found[0]} of {found[1]}: ranks are numbered from 0 to world_size - 1")
    return found


def check_still(rank: int, world_size: int) -> None:
    """Checks a place that nobody stated against torch.distributed, which may have been initialised since.

    Raises:
        StateError: it says another one.
    """
    dist = distributed()
    if dist is not None and (dist.get_rank(), dist.get_world_size()) != (rank, world_size):
        raise StateError(
            f"this loader was opened as rank {rank} of {world_size}, and torch.distributed says rank {dist.get_rank()} "
            f"of {dist.get_world_size()}: open it once the process group is there (with Lightning in "
            "train_dataloader()), or say rank and world_size"
        )


def may_have_handed(place: tuple[int, int], handed: tuple[int, int] | None, epoch: int, world_size: int) -> bool:
    """Whether other ranks may have been handed out this step, (epoch, step), of an epoch before `epoch`, which begins
    next: the one behind the last of this rank, which had no rows in the last step of an uneven epoch.
    """
    behind = handed[1] + 1 if handed is not None and handed[0] == place[0] else 0
    return world_size > 1 and place[0] < epoch and place[1] == behind


def local(world_size: int) -> int:
    """Processes of this job on this host."""
    return max(1, min(_environment("LOCAL_WORLD_SIZE") or 1, world_size))


def on_this_host() -> range | None:
    """The ranks of this process's host, which follow one another under torchrun; None: the environment does not say."""
    rank, here, count = (_environment(name) for name in ("RANK", "LOCAL_RANK", "LOCAL_WORLD_SIZE"))
    if rank is None or here is None or count is None or not 0 <= here < count:
        return None
    return range(rank - here, rank - here + count)


def of_job() -> int | None:
    """Processes of this job on all hosts; None: the environment does not say."""
    return _environment("WORLD_SIZE")


def _device(dist: Any) -> str:
    """The device of tensors that the backend takes."""
    return "cuda" if "nccl" in str(dist.get_backend()) else "cpu"


def agree(facts: dict[str, str]) -> None:
    """Checks that all ranks have the same facts.

    Raises:
        StateError: they differ; the text says in which.
    """
    dist = distributed()
    if dist is None:
        return
    import torch

    mine = torch.tensor([short_hash(value) for value in facts.values()], dtype=torch.int64, device=_device(dist))
    every = [torch.empty_like(mine) for _ in range(dist.get_world_size())]
    dist.all_gather(every, mine)
    table = torch.stack(every).cpu()
    different = [name for i, name in enumerate(facts) if len(set(table[:, i].tolist())) > 1]
    if different:
        raise StateError(
            f"the ranks differ in {' and '.join(different)}: give every rank the same data set, the same arguments of "
            "the Loader and the same decisions"
        )


def leads() -> bool:
    """Whether this process is the first of all in torch.distributed."""
    dist = distributed()
    return dist is None or dist.get_rank() == 0


def broadcast(positions: np.ndarray[Any, np.dtype[np.int64]] | None) -> np.ndarray[Any, np.dtype[np.int64]]:
    """The positions of rank 0 on every rank. The other ranks give None; if rank 0 does, it has failed, and the others
    raise.
    """
    import torch

    dist = distributed()
    device = _device(dist)
    count = torch.tensor([-1 if positions is None else len(positions)], dtype=torch.int64, device=device)
    dist.broadcast(count, 0)
    if int(count) < 0:
        raise RuntimeError("the sampler failed on rank 0: see the error there")
    data = (
        torch.empty(int(count), dtype=torch.int64, device=device)
        if positions is None
        else torch.from_numpy(positions).to(device)
    )
    dist.broadcast(data, 0)
    return np.ascontiguousarray(data.cpu().numpy())


def gather(data: np.ndarray[Any, np.dtype[np.uint8]]) -> list[np.ndarray[Any, np.dtype[np.uint8]]]:
    """The bytes of every rank, by rank. Without torch.distributed: one's own."""
    dist = distributed()
    if dist is None:
        return [data]
    import torch

    device = _device(dist)
    size = torch.tensor([len(data)], dtype=torch.int64, device=device)
    sizes = [torch.empty_like(size) for _ in range(dist.get_world_size())]
    dist.all_gather(sizes, size)
    most = max(int(n) for n in sizes)
    mine = torch.zeros(most, dtype=torch.uint8, device="cpu")
    mine[: len(data)] = torch.from_numpy(data.copy())
    mine = mine.to(device)
    every = [torch.empty_like(mine) for _ in sizes]
    dist.all_gather(every, mine)
    return [part[: int(n)].cpu().numpy() for part, n in zip(every, sizes, strict=True)]


def largest(number: int) -> int:
    """The largest of the numbers of all ranks."""
    import torch

    dist = distributed()
    found = torch.tensor([number], dtype=torch.int64, device=_device(dist))
    dist.all_reduce(found, dist.ReduceOp.MAX)
    return int(found)


def pooled(rows: int, parts: int, spread: float, mean: Any) -> tuple[int, int, float, Any]:
    """The observations of every rank, as if one had made them: rows, parts, the weighted sum of squares around the
    mean, the mean.

    Raises:
        ValueError: on each rank alike, if one of them has observed nothing, or vectors of another length.
    """
    import torch

    dist = distributed()
    device = _device(dist)
    mine = torch.tensor([rows, parts, spread, 0 if mean is None else len(mean)], dtype=torch.float64, device=device)
    every = [torch.empty_like(mine) for _ in range(dist.get_world_size())]
    dist.all_gather(every, mine)
    table = torch.stack(every).cpu()
    if len(set(table[:, 3].tolist())) > 1 or not table[0, 3]:
        raise ValueError("each rank observes gradients of the same parameters in a step: some have observed none")
    local_mean = torch.as_tensor(mean, device=device)
    common = local_mean * rows
    dist.all_reduce(common)
    common /= float(table[:, 0].sum())
    between = (local_mean - common).double().square().sum()[None] * rows
    dist.all_reduce(between)
    total = table.sum(0).tolist()
    return int(total[0]), int(total[1]), total[2] + float(between), common


def short_hash(text: str) -> int:
    """63 bits of SHA-256."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little") >> 1
