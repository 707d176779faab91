"""One of two ranks (gloo) that fails to open, where the other begins to iterate."""

from __future__ import annotations

import numpy as np
import torch
from frameworks_support import leave, tell

import leat
from leat.loading import opening


def main() -> None:
    torch.distributed.init_process_group("gloo")
    opening.GRACE = 0.2
    rank = torch.distributed.get_rank()
    ds = leat.from_arrays(x=np.arange(16))
    found = {}
    for name, fail in {
        "file": lambda: leat.open("/no/such/file.leat"),
        "option": lambda: leat.Loader(ds, 2, tail="none"),  # type: ignore[arg-type]
        "state": lambda: leat.Loader(ds, 2).load_state_dict({}),
    }.items():
        loader = None
        try:
            if rank == 1:
                fail()
            loader = leat.Loader(ds, 2)
            found[name] = str(len(list(loader)))
        except (leat.Error, ValueError) as e:
            found[name] = str(e)
        torch.distributed.barrier()
        again = leat.Loader(ds, 2) if loader is None else loader
        torch.distributed.barrier()
        found[name + " again"] = str(len(list(again)))
    with_rank = leat.Loader(ds, 2, rank=0, world_size=1)
    try:
        leat.Loader(ds, 0, rank=0, world_size=1)
    except ValueError:
        found["alone"] = str(len(list(with_rank)) + len(list(leat.Loader(ds, 2))))
    tell(**found)
    leave()


main()
