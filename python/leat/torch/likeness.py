"""The parts of PyTorch's iterators that other code reads, as far as leat's have the like. They have no queues and
fetchers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_ALWAYS: dict[str, Callable[[Any], Any]] = {
    "_auto_collation": lambda it: it.loader._auto_collation,
    "_base_seed": lambda it: it.order.base_seed,
    "_collate_fn": lambda it: it.loader.collate_fn,
    "_dataset": lambda it: it.loader.dataset,
    "_dataset_kind": lambda it: it.loader._dataset_kind,
    "_drop_last": lambda it: it.loader.drop_last,
    "_index_sampler": lambda it: it.loader._index_sampler,
    "_IterableDataset_len_called": lambda it: it.loader._IterableDataset_len_called,
    "_num_workers": lambda it: it.loader.num_workers,
    "_num_yielded": lambda it: it.position.yielded,
    "_persistent_workers": lambda it: bool(it.loader.persistent_workers),
    "_pin_memory": lambda it: it._device is not None,
    "_pin_memory_device": lambda it: it._device,
    "_timeout": lambda it: it.loader.timeout,
}
_WITH_WORKERS: dict[str, Callable[[Any], Any]] = {
    "_in_order": lambda it: it.loader.in_order,
    "_prefetch_factor": lambda it: it.loader.prefetch_factor,
    "_rcvd_idx": lambda it: it.position.yielded,  # batches of the epoch that were delivered
    "_send_idx": lambda it: it.position.yielded + sum(it.busy.values()) + bool(getattr(it.source, "ahead", None)),
    "_shutdown": lambda it: not it._end.alive,
    "_tasks_outstanding": lambda it: sum(it.busy.values()),
    "_worker_init_fn": lambda it: it.loader.worker_init_fn,
    "_workers": lambda it: it.pool.processes or it.ended_workers,
}


def attribute(iteration: Any, name: str) -> Any:
    """The value of PyTorch's private attribute of that name.

    Raises:
        AttributeError: leat's iterator has nothing like it; without workers, also for attributes of workers.
    """
    if name in _ALWAYS:
        return _ALWAYS[name](iteration)
    if name in _WITH_WORKERS and iteration.pool is not None:
        return _WITH_WORKERS[name](iteration)
    raise AttributeError(f"{type(iteration).__name__!r} object has no attribute {name!r}", name=name, obj=iteration)
