"""Workers that loaders of one data set have in common."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch.utils.data

from ..workers.pool import Pool, shared


def pool_for(loader: Any, make: Callable[[], Pool], n: int, context: Any) -> Pool:
    """Workers, with a reference. Loaders of one data set object that need the same ones share persistent workers."""
    if not loader.persistent_workers or loader._adaptive or loader._iterable:
        made = make()
        made.hold()
        return made
    name = context if context is None or isinstance(context, str) else context.get_start_method()
    attributes = _attributes(loader.dataset)

    def fits(pool: Pool) -> bool:
        return not pool.broken and pool.dataset is loader.dataset and _same(pool.attributes, attributes)

    found = shared((id(loader.dataset), id(loader.worker_init_fn), n, name), make, fits)
    found.attributes = attributes
    return found


def _attributes(dataset: Any) -> list[tuple[Any, dict[str, Any]]]:
    """The attributes of a data set and of those inside it. Workers have a copy, which does not follow changes."""
    inside = [dataset]
    for each in inside:  # grows
        for value in getattr(each, "__dict__", {}).values():
            if isinstance(value, torch.utils.data.Dataset) and len(inside) < 16:
                inside.append(value)
    return [(each, dict(getattr(each, "__dict__", {}))) for each in inside]


def _same(before: list[tuple[Any, dict[str, Any]]], now: list[tuple[Any, dict[str, Any]]]) -> bool:
    def equal(a: Any, b: Any) -> bool:
        return a is b or (type(a) is type(b) and isinstance(a, int | float | str) and a == b)

    return len(before) == len(now) and all(
        a is b and x.keys() == y.keys() and all(equal(x[name], y[name]) for name in x)
        for (a, x), (b, y) in zip(before, now)
    )
