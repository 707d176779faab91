"""Batches of samples of about one length: the options of a Loader for them."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import check
from ..data.dataset import Dataset
from ..data.one_of import OneOf
from ..data.packing import PackedRows


def buckets_of(
    dataset: Any,
    batch_tokens: Any,
    buckets: Any,
    tokens_field: str | None,
    batch_size: Any,
    global_batch_size: Any,
) -> tuple[str, int, int, np.ndarray[Any, np.dtype[np.uint64]]] | None:
    """The engine's options: field, tokens, rows, widths. None: batches are not made by length."""
    if isinstance(dataset, PackedRows) and dataset.how == "ragged":
        if buckets is not None:
            raise ValueError("buckets does not go with rows that were packed with how='ragged', which have no padding")
        return None
    if batch_tokens is None and buckets is None:
        if tokens_field is not None:
            raise ValueError("tokens_field says whose lengths count for batch_tokens= and buckets=: give one of these")
        return None
    if isinstance(dataset, OneOf):
        raise TypeError(
            "batch_tokens and buckets need the lengths of rows before these are drawn, and a row of leat.one_of has "
            "that of its member: give batch_size"
        )
    if not isinstance(dataset, Dataset) or isinstance(dataset, PackedRows):
        what = "a Mix" if not isinstance(dataset, Dataset) else f"rows of one length ({dataset!r})"
        raise TypeError(
            "batch_tokens and buckets go with a data set that has a field of varying length, or batch_tokens with "
            f"leat.pack_rows(ds, how='ragged'), not with {what}"
        )
    if global_batch_size is not None:
        raise ValueError("batch_tokens and buckets are about batches of a rank: give batch_size, not global_batch_size")
    tokens = 0 if batch_tokens is None else check.integer("batch_tokens", batch_tokens, 1, 1 << 48)
    rows = 0 if batch_size is None else check.integer("batch_size", batch_size, 1)
    if not tokens and not rows:
        raise ValueError("buckets says which samples come together, and not how many: give batch_tokens or batch_size")
    widths = [] if buckets is None else [check.integer("a bucket's width", width, 1, 1 << 48) for width in buckets]
    if widths != sorted(set(widths)) or (buckets is not None and not widths):
        raise ValueError(f"buckets is a list of lengths that rise, such as [128, 256, 512], not {buckets!r:.80}")
    return _field_of(dataset, tokens_field), tokens, rows, np.array(widths, np.uint64)


def _field_of(dataset: Dataset, name: str | None) -> str:
    varying = [
        key
        for key, field in dataset.schema.items()
        if field.kind in ("bytes", "str") or (field.kind == "array" and field.shape and field.shape[0] is None)
    ]
    if name is not None:
        if name not in dataset.schema:
            raise KeyError(f"there is no field {name!r} whose lengths could count")
        if name not in varying:
            raise TypeError(f"field {name!r} is {dataset.schema[name]}, which does not vary in length")
        return name
    if "tokens" in varying:
        return "tokens"
    arrays = [key for key in varying if dataset.schema[key].kind == "array"]
    if len(arrays) != 1:
        raise ValueError(
            f"tokens_field= says whose lengths count: one of {', '.join(varying) or 'none: no field varies in length'}"
        )
    return arrays[0]
