"""Batches of samples by their size, a length or a cost: the options of a Loader for them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .. import check
from ..data.dataset import Dataset
from ..data.one_of import OneOf
from ..data.packing import PackedRows
from ..data.prompts import Prompts
from ..data.schema import Field, missing_field
from .samplers import digest

Numbers = np.ndarray[Any, np.dtype[np.uint64]]

MOST = 1 << 48  #: of a cost, and of those of a batch


class Grouping(NamedTuple):
    """The engine's options, in its order."""

    field: str | None
    budget: int
    rows: int
    widths: Numbers
    costs: Numbers | None  #: batches are made by these, not by the lengths of the field
    alone: bool
    by_length: bool  #: costs are lengths
    firsts: Numbers | None = None  #: of samples that lie together and share something
    shared: Numbers | None = None  #: ... what that costs, once in a batch

    def facts(self) -> tuple[str, str]:
        """What ranks compare: its name, and the values."""
        costs = () if self.costs is None else (digest({"cost": self.costs}),)
        if self.by_length:
            return "batches by length", repr((*self[:3], self.widths.tolist(), *costs))
        if self.firsts is not None:
            # what is shared follows from the data set
            return "batches of prompts", repr((self.budget, self.rows, self.alone))
        return "batches by cost", repr((self.budget, self.rows, self.alone, *costs))


def grouping_of(
    dataset: Any,
    batch_size: Any,
    global_batch_size: Any,
    batch_tokens: Any,
    buckets: Any,
    tokens_field: str | None,
    batch_cost: Any,
    cost: Any,
    oversize: Any,
    batch_kv: Any,
) -> Grouping | None:
    """None: batches are not made by size."""
    alone = bool(check.choice("oversize", oversize, {"error": 0, "alone": 1}))
    if batch_kv is not None:
        others = {"batch_tokens": batch_tokens, "buckets": buckets, "tokens_field": tokens_field}
        others |= {"batch_cost": batch_cost, "cost": cost}
        return _of_prompts(dataset, batch_size, global_batch_size, batch_kv, alone, others)
    if batch_cost is None:
        if alone or (cost is not None and batch_tokens is None and buckets is None):
            raise ValueError("cost and oversize are about batch_cost=, the most that a batch may cost: give that, too")
        return _by_length(dataset, batch_size, global_batch_size, batch_tokens, buckets, tokens_field, cost)
    by_length = {"batch_tokens": batch_tokens, "buckets": buckets, "tokens_field": tokens_field}
    if wrong := [name for name, value in by_length.items() if value is not None]:
        raise ValueError(f"batch_cost makes batches by cost, and {wrong[0]} by length: give one of them")
    if cost is None:
        raise ValueError(
            "batch_cost is the most that a batch may cost: cost= says what a sample does, by the name of a column or "
            "one number for each"
        )
    _check_samples(dataset, "batch_cost goes with a data set", global_batch_size)
    budget = check.integer("batch_cost", batch_cost, 1, MOST + 1)
    rows = 0 if batch_size is None else check.integer("batch_size", batch_size, 1)
    return Grouping(None, budget, rows, np.empty(0, np.uint64), _costs_of(dataset, cost), alone, False)


def _of_prompts(
    dataset: Any, batch_size: Any, global_batch_size: Any, batch_kv: Any, alone: bool, others: dict[str, Any]
) -> Grouping:
    if wrong := [name for name, value in others.items() if value is not None]:
        raise ValueError(f"batch_kv makes batches by keys and values, and {wrong[0]} in another way: give one of them")
    if not isinstance(dataset, Prompts):
        raise TypeError(
            "batch_kv goes with what leat.group_prompts has made, and not with a view of it or another data set: "
            "select prompts first, and group those"
        )
    _check_samples(dataset, "batch_kv goes with a data set", global_batch_size)
    budget = check.integer("batch_kv", batch_kv, 1, MOST + 1)
    rows = 0 if batch_size is None else check.integer("batch_size", batch_size, 1)
    firsts, shared = (np.ascontiguousarray(dataset.groups[name], np.uint64) for name in ("first", "prefix"))
    costs, widths = dataset.own_tokens(), np.empty(0, np.uint64)
    return Grouping(None, budget, rows, widths, costs, alone, False, firsts, shared)


def _check_samples(dataset: Any, goes: str, global_batch_size: Any) -> None:
    if isinstance(dataset, OneOf):
        raise TypeError(
            "batches by size need the lengths or costs of rows before these are drawn, and a row of leat.one_of has "
            "those of its member: give batch_size"
        )
    if not isinstance(dataset, Dataset) or isinstance(dataset, PackedRows):
        what = "a Mix" if not isinstance(dataset, Dataset) else f"packed rows ({dataset!r})"
        raise TypeError(f"{goes}, not with {what}")
    if global_batch_size is not None:
        raise ValueError(
            "batch_tokens, buckets, batch_cost and batch_kv are about batches of a rank: give batch_size, not "
            "global_batch_size"
        )


def _by_length(
    dataset: Any,
    batch_size: Any,
    global_batch_size: Any,
    batch_tokens: Any,
    buckets: Any,
    tokens_field: str | None,
    cost: Any,
) -> Grouping | None:
    if isinstance(dataset, PackedRows) and dataset.how == "ragged":
        if cost is not None:
            raise ValueError("cost does not go with packed rows, whose lengths are those of their documents")
        if buckets is not None:
            raise ValueError("buckets does not go with rows that were packed with how='ragged', which have no padding")
        return None
    if batch_tokens is None and buckets is None:
        if tokens_field is not None:
            raise ValueError("tokens_field says whose lengths count for batch_tokens= and buckets=: give one of these")
        return None
    goes = (
        "batch_tokens and buckets go with a data set that has a field of varying length, or batch_tokens with "
        "leat.pack_rows(ds, how='ragged')"
    )
    _check_samples(dataset, goes, global_batch_size)
    tokens = 0 if batch_tokens is None else check.integer("batch_tokens", batch_tokens, 1, 1 << 48)
    rows = 0 if batch_size is None else check.integer("batch_size", batch_size, 1)
    if not tokens and not rows:
        raise ValueError("buckets says which samples come together, and not how many: give batch_tokens or batch_size")
    widths = [] if buckets is None else [check.integer("a bucket's width", width, 1, 1 << 48) for width in buckets]
    if widths != sorted(set(widths)) or (buckets is not None and not widths):
        raise ValueError(f"buckets is a list of lengths that rise, such as [128, 256, 512], not {buckets!r:.80}")
    if cost is not None and tokens_field is not None:
        raise ValueError("cost gives the length of each sample, and tokens_field the field that has it: give one")
    lengths = None if cost is None else _costs_of(dataset, cost)
    field = _field_of(dataset, tokens_field) if lengths is None else None
    return Grouping(field, tokens, rows, np.array(widths, np.uint64), lengths, False, True)


def _costs_of(dataset: Dataset, cost: Any) -> Numbers:
    """A number for each sample, in memory that is nobody else's."""
    if isinstance(cost, str):
        of, array = f"column {cost!r}", _column(dataset, cost)
    else:
        of, array = "cost", np.asarray(cost.detach().cpu() if type(cost).__name__ == "Tensor" else cost)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iuf"):
        raise TypeError(f"{of}: costs are one number for each sample, not {array.dtype} of shape {array.shape}")
    if len(array) != len(dataset):
        raise ValueError(f"{of} has {len(array)} numbers, the data set {len(dataset)} samples: one for each is needed")
    if array.dtype.kind == "f":
        array = array.astype(np.float64)
    good = (array >= 0) & (array <= MOST) & (array == np.floor(array))
    if not good.all():
        at = int(np.flatnonzero(~good)[0])
        raise ValueError(
            f"{of}: the sample at position {at} costs {array[at]}, and costs are whole numbers from 0 to 2^48: scale "
            "what is finer (np.ceil(1000 * seconds), and batch_cost likewise)"
        )
    return array.astype(np.uint64)


def _column(dataset: Dataset, name: str) -> np.ndarray[Any, Any]:
    if name in dataset.schema:
        return dataset.column(name)
    base = name.removesuffix(".length")
    if base == name or base not in dataset.schema:
        raise missing_field(dataset.where_it_is(), base, dataset.schema, " whose numbers could be costs")
    return dataset._lengths_of(base)


def _varies(field: Field) -> bool:
    return field.kind in ("bytes", "str", "sparse") or (field.kind == "array" and field.shape[:1] == (None,))


def _field_of(dataset: Dataset, name: str | None) -> str:
    varying = [key for key, field in dataset.schema.items() if _varies(field)]
    if name is not None:
        if name not in dataset.schema:
            raise missing_field(dataset.where_it_is(), name, dataset.schema, " whose lengths could count")
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
