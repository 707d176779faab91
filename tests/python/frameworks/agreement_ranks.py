"""One of four ranks (gloo), of which one differs from the others: what each is told, and what comes after it."""

from __future__ import annotations

import itertools
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch.distributed as dist
from frameworks_support import tell

import leat

ROWS = 40_000  # 1250 steps of 4 ranks
LIMIT_S = 60.0


def rows(first: int = 0) -> leat.Dataset:
    return leat.from_arrays(x=np.arange(first, first + ROWS))


def opened(dataset: leat.Dataset | None = None, **more: Any) -> leat.Loader:
    given = {"shuffle": True, "seed": 4, "framework": "numpy", **more}
    return leat.Loader(rows() if dataset is None else dataset, 8, **given)


def read(loader: Any, do: Callable[[Any], None] = lambda batch: None) -> dict[str, Any]:
    """Reads epochs until this rank is told that ranks differ: the text, and the last good batch."""
    end, last, state = time.monotonic() + LIMIT_S, [-1, -1], {}
    try:
        while time.monotonic() < end:
            for batch in loader:
                last, state = [batch.epoch, batch.step], loader.state_dict()
                do(batch)
    except leat.StateError as e:
        return {"text": str(e), "last": last, "state": loader.state_dict() == state}
    return {"text": "", "last": last}


def seed(rank: int) -> dict[str, Any]:
    return read(opened(seed=5 if rank == 2 else 4))


def decision(rank: int) -> dict[str, Any]:
    loader = opened()

    def decide(batch: Any) -> None:
        if rank == 2 and (batch.epoch, batch.step) == (0, 149):
            loader.set_batch_size(4, at=(0, 160))

    return read(loader, decide)


def agreed(rank: int, batches: Iterator[Any]) -> int:
    """Takes one more batch, once all that was found so far is known here: behind it comes what differs on purpose, of
    another loader.
    """
    dist.barrier()
    assert read(opened(seed=5 if rank == 2 else 4))["text"]
    return int(next(batches).step)


def beyond(rank: int) -> dict[str, Any]:
    """Ranks that decide the same, some long before the step at which it holds and some just before it, agree."""
    loader = opened()
    batches = iter(loader)
    for batch in itertools.islice(batches, 350):
        if batch.step == 100 + 60 * rank:
            loader.set_batch_size(4, at=(0, 290))
    return {"rows": loader.global_batch_size, "step": agreed(rank, batches)}


def late(rank: int) -> dict[str, Any]:
    """One rank opens a loader some steps before the others do, as a thread may that does not iterate."""
    batches = iter(opened())
    for batch in itertools.islice(batches, 350):
        if batch.step == (90 if rank == 1 else 110):
            more = opened(rows(7))
    found = agreed(rank, batches)
    del more
    return {"step": found}


def file(rank: int) -> dict[str, Any]:
    name = f"{'b' if rank == 3 else 'a'}.leat"
    return read(opened(leat.open(Path(sys.argv[1]) / name)))


def log(rank: int) -> dict[str, Any]:
    """A run that is resumed, on one rank by the log of another run."""
    with opened() as before:
        before.set_batch_size(4 if rank == 1 else 6, at=(0, 0))
        decided = before.log
    return read(opened(log=decided))


def state(rank: int) -> dict[str, Any]:
    """A run that is resumed, on one rank from an older state."""
    loader = opened()
    for batch in loader:
        if batch.step == (20 if rank == 1 else 40):
            break
    again = opened()
    again.load_state_dict(loader.state_dict())
    return read(again)


def version(rank: int) -> dict[str, Any]:
    if rank == 3:
        own, leat._leat.version = leat._leat.version, lambda: "9.9.9"
    try:
        return read(opened(seed=5 if rank == 3 else 4))
    finally:
        if rank == 3:
            leat._leat.version = own


def some(rank: int) -> dict[str, Any]:
    """A loader that only one rank opens."""
    training = opened()
    more = opened(rows(7)) if rank == 1 else None
    found = read(training)
    del more
    return found


def order(rank: int) -> dict[str, Any]:
    """Two loaders that one rank opens in another order."""
    data = {"training": rows(), "validation": rows(9)[:100]}
    names = ["validation", "training"] if rank == 3 else ["training", "validation"]
    loaders = {name: opened(data[name]) for name in names}
    return read(loaders["training"])


def ports(rank: int) -> dict[str, Any]:
    """Readers of one port, of which one asks for other random draws."""
    port = None
    if rank == 0:
        port = leat.Port(leat.Loader(rows(), 32, rank=0, world_size=1), "agreement", folder=sys.argv[1])
    dist.barrier()
    with leat.attach("agreement", 8, key=7 if rank == 2 else 0, folder=sys.argv[1]) as reader:
        found = read(reader)
        dist.barrier()
    if port is not None:
        port.close()
    return found


def mended(rank: int) -> dict[str, Any]:
    """The run goes on where it was, once all ranks have one seed again: in another group, as of another job."""
    loader = opened(seed=5 if rank == 2 else 4)
    found = read(loader)
    states: list[Any] = [loader.state_dict()]
    dist.broadcast_object_list(states, 0)  # rank 0 had the right seed
    join("the mended job")
    again = opened()
    again.load_state_dict(states[0])
    first, count = states[0]["at"], 0
    for batch in itertools.islice(itertools.chain(again, again), 250):  # past two comparisons
        place = divmod(first["epoch"] * len(again) + first["row"] // 32 + count, len(again))
        assert (batch.epoch, batch.step) == place
        assert batch.ids.tolist() == again.plan(*place).tolist()
        count += 1
    return {"text": found["text"], "last": found["last"], "from": first, "count": count}


def forked(rank: int) -> dict[str, Any]:
    """A child of a rank has no thread and says nothing to the others."""
    loader = opened()
    next(iter(loader))
    child = os.fork()
    if not child:
        mine = opened(seed=99)
        good = sum(1 for _ in zip(mine, range(250))) == 250 and not threads()
        os._exit(0 if good else 1)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return {"code": code, "steps": sum(1 for _ in zip(loader, range(250)))}


def ended(rank: int) -> dict[str, Any]:
    """The thread ends with the last loader, and another one begins with the next."""
    eventually(lambda: not threads())  # of the group before
    loader = opened()
    next(iter(loader))
    found = [threads()]
    loader.close()
    eventually(lambda: not threads())
    loader = opened()
    next(iter(loader))
    found.append(threads())
    del loader
    eventually(lambda: not threads())
    loader = opened()
    next(iter(loader))
    dist.barrier()
    dist.destroy_process_group()
    eventually(lambda: not threads())
    return {"threads": [*found, sum(1 for _ in zip(loader, range(250)))]}


def threads() -> int:
    return sum(thread.name == "leat ranks" for thread in threading.enumerate())


def eventually(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + LIMIT_S
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def join(name: str) -> None:
    """Another process group, in which nothing is known of the one before."""
    if dist.is_initialized():
        dist.barrier()
        dist.destroy_process_group()
    store = dist.TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), is_master=False)
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    dist.init_process_group("gloo", store=dist.PrefixStore(name, store), rank=rank, world_size=world)


def main() -> None:
    every = (seed, decision, beyond, late, file, log, state, version, some, order, ports, mended, forked, ended)
    for scenario in every:
        join(scenario.__name__)
        tell(**{scenario.__name__: scenario(dist.get_rank())})
    join("the end")
    dist.barrier()
    dist.destroy_process_group()


main()
