"""Batches of sequences that lie one behind the other (THD), as attention over variable lengths takes them."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ..data.packing import PackedRows

if TYPE_CHECKING:
    from ..program import Outputs

NEEDED = ("positions", "doc_ids")  #: of which the borders of sequences follow, ...
MADE = ("cu_seqlens", "cu_seqlens_padded", "max_seqlen")  #: ... as these


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
        return dataset, batch_size
    if batch_size is not None or global_batch_size is not None:
        raise ValueError("batch_tokens stands in the place of batch_size: give one of them")
    return dataset.of_tokens(batch_tokens), 1


def outputs_of(outputs: Outputs | None, dataset: PackedRows) -> Outputs | None:
    """The outputs, with those that hold the starts of sequences."""
    if outputs is None:
        return None
    for name in MADE:
        if name in outputs:
            raise ValueError(f"an output cannot be called {name!r}: that is the name of what says where sequences are")
    for name in NEEDED:
        if name in outputs and outputs[name] not in ([], ()):
            raise ValueError(f"output {name!r} says where sequences begin, and is taken as it is: give it the chain []")
    return {**outputs, **{name: [] for name in NEEDED}}


def makers_of(
    makers: dict[str, Callable[[Any], Any]], length: int, multiple: int, small: Callable[[Any], Any]
) -> dict[str, Callable[[Any], Any]]:
    """The form of outputs without the padding behind the last sequence, and the outputs that hold the starts of
    sequences."""

    def row(name: str, core: Any) -> np.ndarray[Any, np.dtype[np.int64]]:
        value = np.asarray(makers[name](core))
        if len(value) > 1:
            raise ValueError("a batch of sequences has one row: batch_tokens= says how many tokens that has")
        return value.reshape(-1)

    def full(core: Any) -> int:
        """Where the padding behind the last sequence begins, if there is no other."""
        ids = row("doc_ids", core).data  # whose items come sooner than those of an array
        return bisect_left(range(len(ids)), True, key=lambda i: ids[i] < 0)

    def found(core: Any) -> tuple[np.ndarray[Any, np.dtype[np.int32]], np.ndarray[Any, np.dtype[np.int32]]]:
        """The number of tokens of each sequence, and its start; at the end, the end of its padding."""
        positions = row("positions", core)
        if multiple == 1:
            end = full(core)
            begins = np.append(np.flatnonzero(positions[:end] == 0), end).astype(np.int32)
            return np.diff(begins), begins
        there = row("doc_ids", core) >= 0
        starts = np.flatnonzero((positions == 0) & there)
        counts = np.add.reduceat(there, starts, dtype=np.int32) if len(starts) else np.empty(0, np.int32)
        end = starts[-1] + -(-int(counts[-1]) // multiple) * multiple if len(starts) else 0
        return counts, np.append(starts, end).astype(np.int32)

    def unpadded(core: Any) -> np.ndarray[Any, np.dtype[np.int32]]:
        counts, begins = found(core)
        return begins if multiple == 1 else np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)

    def cut(make: Callable[[Any], Any], core: Any) -> Any:
        value = make(core)
        if getattr(value, "ndim", 0) < 2 or value.shape[1] != length:
            return value
        return value[:, : full(core) if multiple == 1 else int(found(core)[1][-1])]

    return {
        **{name: partial(cut, make) for name, make in makers.items()},
        "cu_seqlens": lambda core: small(unpadded(core)),
        **({"cu_seqlens_padded": lambda core: small(found(core)[1])} if multiple > 1 else {}),
        "max_seqlen": lambda core: int(np.diff(found(core)[1]).max(initial=0)),
    }
