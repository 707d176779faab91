"""One field of many rows, by a loader of the library: its values in order, or the plan of the rows alone."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from .. import _leat
from .dataset import Dataset
from .packing import pack_of


def opened(field: str, **options: Any) -> _leat.Loader:
    """A loader of one process that delivers a field as stored. `options`: of ``_leat.Loader.open``."""
    program = {"operators": {}, "outputs": {field: {"field": field, "chain": []}}}
    return _leat.Loader.open(program=json.dumps(program), **options)


def batches(ds: Dataset, field: str, rows: int) -> Iterator[_leat.Batch]:
    """The values of a field in order of position, so many rows at a time."""
    if not len(ds):
        return
    core = opened(field, dataset=ds._handle, pack=pack_of(ds), batch_size=min(rows, len(ds)), epochs=1)
    try:
        number = core.start()
        while (batch := core.next(number)) is not None:
            yield batch
    finally:
        core.close()
