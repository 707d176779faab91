"""One field of many rows, by a loader of the library: its values in order, or the plan of the rows alone."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np

from .. import _leat
from .dataset import Dataset
from .packing import pack_of
from .sparse import Sparse

READ = 1 << 16  #: texts read at a time


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


def sparse_batches(ds: Dataset, field: str, rows: int) -> Iterator[Sparse]:
    """Sparse rows in order of position, so many at a time; they are valid until the next ones are asked for."""
    if not len(ds):
        return
    parts = {"values": {"type": "SparsePart", "which": "values"}, "columns": {"type": "SparsePart", "which": "columns"}}
    outputs = {part: {"field": field, "chain": [part]} for part in parts}
    program = json.dumps({"operators": parts, "outputs": outputs})
    core = _leat.Loader.open(
        program=program, dataset=ds._handle, pack=pack_of(ds), batch_size=min(rows, len(ds)), epochs=1
    )
    n = ds.schema[field].shape[0] or 0
    try:
        number = core.start()
        while (batch := core.next(number)) is not None:
            values, columns = np.asarray(batch.memory(0)), np.asarray(batch.memory(1))
            yield Sparse(values, columns, np.asarray(batch.memory_offsets(0)), n)
    finally:
        core.close()


def texts(ds: Dataset, name: str) -> tuple[list[str], np.ndarray[Any, np.dtype[np.int64]]]:
    """The different texts of a field, sorted, and the number of each sample's among them."""
    seen: dict[str, int] = {}
    codes = np.empty(len(ds), np.int64)
    at = 0
    for batch in batches(ds, name, READ):
        found = batch.text(0)
        codes[at : at + len(found)] = [seen.setdefault(text, len(seen)) for text in found]
        at += len(found)
    order = sorted(seen)
    rank = np.empty(len(seen), np.int64)
    rank[[seen[text] for text in order]] = np.arange(len(order))
    return order, rank[codes] if len(ds) else codes
