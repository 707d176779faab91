"""Batches of sequences that lie one behind the other (THD), as attention over variable lengths takes them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ..data.dataset import Dataset
from ..data.packing import PackedRows

if TYPE_CHECKING:
    from ..program import Outputs

NEEDED = ("positions", "doc_ids")  #: of which the borders of sequences follow


def rows_of(dataset: Any, batch_tokens: Any, batch_size: Any, global_batch_size: Any) -> tuple[Any, Any]:
    """The data set and the batch size that stand for `batch_tokens`."""
    ragged = isinstance(dataset, PackedRows) and dataset.how == "ragged"
    if batch_tokens is None:
        if ragged:
            raise ValueError(
                "rows that were packed with how='ragged' come by batch_tokens=, in the place of batch_size"
            )
        return dataset, batch_size
    if not ragged:
        what = "a Mix" if not isinstance(dataset, Dataset) else f"a {type(dataset).__name__}"
        raise TypeError(f"batch_tokens goes with leat.pack_rows(ds, how='ragged'), not with {what}")
    if batch_size is not None or global_batch_size is not None:
        raise ValueError("batch_tokens stands in the place of batch_size: give one of them")
    return dataset.of_length(batch_tokens), 1


def outputs_of(outputs: Outputs | None, dataset: PackedRows) -> Outputs | None:
    """The outputs, with those that say where sequences begin."""
    if outputs is None:
        return None
    for name in ("cu_seqlens", "max_seqlen"):
        if name in outputs:
            raise ValueError(f"an output cannot be called {name!r}: that is the name of what says where sequences are")
    for name in NEEDED:
        if name in outputs and outputs[name] not in ([], ()):
            raise ValueError(f"output {name!r} says where sequences begin, and is taken as it is: give it the chain []")
    return {**outputs, **{name: [] for name in NEEDED}}


def makers_of(
    makers: dict[str, Callable[[Any], Any]], length: int, small: Callable[[Any], Any]
) -> dict[str, Callable[[Any], Any]]:
    """How outputs are made without the padding behind the last sequence, and what says where sequences are."""

    def borders(core: Any) -> np.ndarray[Any, np.dtype[np.int32]]:
        positions, ids = (np.asarray(makers[name](core)) for name in NEEDED)
        if len(positions) > 1:
            raise ValueError("a batch of sequences has one row: batch_tokens= says how many tokens that has")
        positions, ids = positions.reshape(-1), ids.reshape(-1)
        full = int((ids >= 0).sum())  # all padding is at the end
        return np.append(np.flatnonzero(positions[:full] == 0), full).astype(np.int32)

    def cut(make: Callable[[Any], Any], core: Any) -> Any:
        value = make(core)
        if getattr(value, "ndim", 0) < 2 or value.shape[1] != length:
            return value
        return value[:, : int(borders(core)[-1])]

    return {
        **{name: partial(cut, make) for name, make in makers.items()},
        "cu_seqlens": lambda core: small(borders(core)),
        "max_seqlen": lambda core: int(np.diff(borders(core)).max(initial=0)),
    }
