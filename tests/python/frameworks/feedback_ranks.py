"""A rank whose loader selects by losses that all ranks report: feedback_ranks.py DATA FOLDER."""

from __future__ import annotations

import json
import sys
import warnings
from typing import Any

import torch.distributed as dist
from feedback_support import loss_of, opened, train
from frameworks_support import leave, tell
from torch.distributed.device_mesh import init_device_mesh

import leat
from leat.feedback import blobs


def error_of(loader: leat.Loader) -> str:
    """Of the epochs until there is one: a rank is told at a batch, once another one has found the difference."""
    try:
        for _ in range(100000):
            list(loader)
    except Exception as e:
        return f"{type(e).__name__}: {e}"
    return ""


def main(path: str, folder: str) -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    options: dict[str, Any] = {"feedback": leat.TopBatches(0.3), "tail": "uneven"}
    with opened(path, 4, **options) as loader:
        tell(epochs=train(loader, 4), hash=loader.stats()["plan_hash"], table=loader.feedback["loss"].value.tolist())

    mesh = init_device_mesh("cpu", (2,), mesh_dim_names=("dp",))
    with opened(path, 4, **options, mesh=mesh) as loader:
        tell(of_mesh=train(loader, 4))
    mesh = init_device_mesh("cpu", (2,), mesh_dim_names=("tp",))
    with opened(path, 8, **options, mesh=mesh) as loader:  # each reports all rows, which counts once
        tell(of_peers=train(loader, 4), counts=loader.feedback["loss"].count.tolist())

    states = []
    with opened(path, 4, **options, log_dir=folder) as loader:  # saved within an epoch, while reports wait
        train(loader, 1)
        for batch in loader:
            loader.report(batch, loss=loss_of(batch.ids, batch.epoch))
            states.append(json.dumps(loader.state_dict()))
            if batch.step == 1:
                break
    with opened(path, 4, **options, log_dir=folder) as loader:
        loader.load_state_dict(json.loads(states[-1]))
        tell(resumed=train(loader, 4))
    with opened(path, 4, **options, log_dir=folder) as loader:
        theirs = json.loads(states[-1])
        theirs["feedback"]["rank"] = [1 - rank, 2]
        try:
            loader.load_state_dict(theirs)
        except leat.StateError as e:
            tell(of_another=str(e))

    with opened(path, 4, **options) as loader:  # a state fits all ranks once the loop over the epoch has ended
        for batch in loader:
            loader.report(batch, loss=loss_of(batch.ids, batch.epoch))
            within = loader.state_dict()
        ended = loader.state_dict()
        ended["feedback"]["rank"] = [1 - rank, 2]
    with opened(path, 4, **options) as loader:
        loader.load_state_dict(ended)
        tell(waits=["pending" in state["feedback"] for state in (within, ended)], after=train(loader, 2)[0])

    most, blobs.MOST = blobs.MOST, 64  # reports that wait do not fit into a state
    with warnings.catch_warnings(record=True) as said, opened(path, 4, **options) as loader:
        warnings.simplefilter("always")
        for batch in loader:
            loader.report(batch, loss=loss_of(batch.ids, batch.epoch))
            if batch.step == 4:
                break
        state = loader.state_dict()
        with opened(path, 4, **options) as again:
            again.load_state_dict(state)
            train(again, 1)
            tell(lost=[str(one.message) for one in said], known=int(again.feedback["loss"].known.sum()))
    blobs.MOST = most

    with opened(path, 4, feedback=lambda table, epoch: [rank, 5, 6]) as loader:
        tell(differs=error_of(loader))

    def fails(table: Any, epoch: int) -> Any:
        if rank == 1:
            raise KeyError("only here")
        return [1, 2, 3]

    with opened(path, 4, feedback=fails) as loader:
        tell(fails=error_of(loader))
    with opened(path, 4, feedback=leat.TopFraction(0.1)) as loader:  # ranks report each other's rows, and twice
        for _ in loader:
            loader.report([1, 2, 3, 40 + rank], loss=[1.0 + rank, 9.0, 8.0, 7.0 + rank])
        tell(others=sorted(int(i) for b in loader for i in b.ids), count=loader.feedback["loss"].count[:4].tolist())

    with opened(path, 4) as loader:  # the rest of an epoch, decided by hand on each rank
        for batch in loader:
            if batch.step == 3:
                loader.select(range(40), at=(0, 6))
        within = json.loads(json.dumps(loader.state_dict()))
        hash_of_both = loader.stats()["plan_hash"]
        tell(rest=[int(i) for b in loader for i in b.ids[b.valid]], same=hash_of_both)
    with opened(path, 4) as loader:
        loader.load_state_dict(within)
        tell(rest_resumed=[int(i) for b in loader for i in b.ids[b.valid]])
    with opened(path, 4) as loader:
        for batch in loader:
            if batch.step == 3:
                loader.select(range(40 + rank), at=(0, 6))
        tell(rest_differs=error_of(loader))
    leave()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
