"""Files of other systems that a test made, beside their packs."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import numpy as np

import leat


def described(field: Any) -> str:
    return field.kind if field.kind != "array" else field.dtype + (f" {field.shape}" if field.shape else "")


def check_pack(ds: leat.Dataset, source: str, folder: Path, *more: str) -> None:
    """Its pack has the same values and the same fingerprint, and both give the same batches: by any threads, by ranks
    together, and from where another run was cut."""
    command = [os.environ["LEAT_CLI"], "pack", source, str(folder / "packed.leat"), *more]
    env = {**os.environ, "HOME": str(folder)}
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder, env=env)
    assert done.returncode == 0, done.stderr
    packed = leat.open(folder / "packed.leat")
    assert packed.fingerprint == ds.fingerprint
    fields = [f for f in ds.schema if not ds.schema[f].derived]
    for i in range(len(ds)):
        a, b = ds[i], packed[i]
        for f in fields:
            assert np.array_equal(a[f], b[f]) if isinstance(a[f], np.ndarray) else a[f] == b[f], (i, f)
    outputs: dict[str, Any] = {f: [] for f in fields if ds.schema[f].kind == "array"}
    outputs |= {f: [leat.ops.Decode(), leat.ops.RandomResizedCrop(16)] for f in fields if ds.schema[f].kind == "image"}
    common: dict[str, Any] = {"shuffle": True, "seed": 3, "outputs": outputs, "framework": "numpy", "epochs": 1}

    def batch_of(batch: Any) -> Any:
        return batch.ids.tolist(), {f: [np.asarray(row).tobytes() for row in batch[f]] for f in outputs}

    rows = [
        [batch_of(b) for b in leat.Loader(one, 4, num_threads=threads, **common)]
        for one, threads in ((ds, 1), (ds, 3), (packed, 2))
    ]
    assert rows[0] == rows[1] == rows[2]
    cut = leat.Loader(ds, 4, **common)
    first = iter(cut)
    begun = [batch_of(next(first)) for _ in range(2)]
    further = leat.Loader(packed, 4, **common)
    further.load_state_dict(cut.state_dict())
    assert begun + [batch_of(b) for b in further] == rows[0]
    ranks = [
        [i for b in leat.Loader(ds, 2, rank=r, world_size=2, tail="uneven", **common) for i in b.ids.tolist()]
        for r in range(2)
    ]
    assert sorted(ranks[0] + ranks[1]) == sorted(i for ids, _ in rows[0] for i in ids)
