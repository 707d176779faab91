"""What the tests of ports share, and the processes that they start: nothing here imports pytest."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

import leat


def opened(path: str, batch_size: int = 16, **options: Any) -> leat.Loader:
    options = {"shuffle": True, "seed": 5, "framework": "numpy", "rank": 0, "world_size": 1, **options}
    return leat.Loader(leat.open(path), batch_size=batch_size, **options)


def seen(batch: leat.Batch) -> tuple[Any, ...]:
    """All that a batch says."""
    digest = hashlib.sha256()
    for name in batch:
        value = batch[name]
        parts = [value.values, value.offsets] if isinstance(value, leat.Ragged) else [value]
        for part in parts:
            array = isinstance(part, np.ndarray)
            digest.update(repr((name, (part.dtype, part.shape) if array else part)).encode())
            digest.update(np.ascontiguousarray(part).tobytes() if array else b"")
    rows = [batch.ids, batch.row_keys, batch.valid, batch.domains]
    return (batch.epoch, batch.step, batch.size, digest.hexdigest(), *(r.tolist() for r in rows))
