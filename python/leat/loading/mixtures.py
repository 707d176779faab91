"""Mixtures as the library takes them."""

from __future__ import annotations

from typing import Any

from .. import _leat
from ..data.dataset import Dataset
from ..data.mixing import EXHAUSTED, Mix
from ..data.packing import PackedRows
from ..data.schedule import Schedule
from ..mixtures.steering import Mixture

MOST_ROWS = 1 << 62  #: of a schedule


def _pack(dataset: Dataset) -> tuple[Any, ...] | None:
    return dataset.pack if isinstance(dataset, PackedRows) else None


def first_stored(dataset: Dataset | Mix | Schedule, name: str) -> tuple[Any, int]:
    """The stored value of a field in the first sample, and that sample's id."""
    if not len(dataset):
        raise ValueError(
            "the data set is empty: a function's result is known only where returns=leat.field(dtype, shape) "
            "declares it"
        )
    if not isinstance(dataset, Dataset):
        dataset = next(source for source in dataset.datasets if len(source))
    return dataset.stored(0, name), int(dataset.ids[0])


def source_options(dataset: Dataset | Mix | Schedule, global_batch: int) -> dict[str, Any]:
    """The data that a loader reads, among the options of ``_leat.Loader.open``. A schedule counts rows there."""
    if isinstance(dataset, Dataset):
        return {"dataset": dataset._handle, "pack": _pack(dataset)}
    mix = dataset.first if isinstance(dataset, Schedule) else dataset
    sources = [
        {
            "dataset": source._handle,
            "pack": _pack(source),
            "share": share,
            "exhausted": EXHAUSTED[word],
            "limit": limit,
        }
        for source, share, (word, limit) in zip(mix.datasets, mix.weights.values(), mix._exhausted, strict=True)
    ]
    schedule: list[list[Any]] = []
    if isinstance(dataset, Schedule):
        rows = global_batch if dataset.counts == "steps" else 1
        last = dataset.points[-1][0]
        if last * rows >= MOST_ROWS:
            raise ValueError(f"the last point of the schedule, {last}, is too far away: {last * rows:,} rows")
        schedule = [[at * rows, list(point.weights.values())] for at, point in dataset.points]
    return {
        "mix": {
            "sources": sources,
            "unit": mix.unit,
            "tokens_field": mix.tokens_field,
            "epoch_rows": mix.epoch_rows or 0,
            "schedule": schedule,
            "interpolate": dataset.interpolate if isinstance(dataset, Schedule) else "step",
        },
    }


def mixture_of(
    dataset: Dataset | Mix | Schedule, core: _leat.Loader, algorithm: Any, folder: str | None, writes: bool
) -> Mixture | None:
    """The part that steers the weights of a loader's mixture. `folder`: of the run; `writes`: whether this process
    writes there.

    Raises:
        ValueError: there is an algorithm and nothing that it could decide.
    """
    if isinstance(dataset, Dataset):
        if algorithm is not None:
            raise ValueError("mixture= decides the weights of a leat.Mix, and this loader reads a data set")
        return None
    if isinstance(dataset, Schedule) and algorithm is not None:
        raise ValueError("a Schedule says its weights itself: give the leat.Mix that mixture= begins with")
    mix = dataset.first if isinstance(dataset, Schedule) else dataset
    made = Mixture(core, mix.weights, algorithm, folder, writes)
    made.keys = mix._keys
    return made
