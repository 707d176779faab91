"""Stores as fields of a loader: their values for the rows of a batch come with it.

The values are read as the batch is handed out, from the page cache, at the speed of memory: they are as new as they can
be, and rows flushed before are there. A thread asks meanwhile for the rows of the next batches, which the plan gives,
so that they are in the page cache by then.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np

from .. import _leat
from ..data.dataset import Dataset
from ..errors import StateError
from .store import BROKEN, Store, identity

AHEAD = 8  #: batches whose rows are asked for: a few reads from a disk (0.1 to 10 ms) within a few steps


class Beside:
    """The stores of one loader, by name.

    Args:
        stores: as the user gave them.
        taken: names of outputs.
        seed: of the loader.
        framework: ``"torch"`` or ``"numpy"``: of its batches.
    """

    def __init__(self, stores: Mapping[str, Store], taken: Iterable[str], seed: int, framework: str) -> None:
        if not isinstance(stores, Mapping):
            raise TypeError(f"stores is {{name: leat.Store(...)}}, not {stores!r:.60}")
        for name, store in stores.items():
            if not isinstance(store, Store):
                raise TypeError(f"store {name!r} is a leat.Store, not {type(store).__name__}")
        self.stores = dict(stores)
        self._seed, self._framework = seed, framework
        self.names = [name for store in self.stores for name in (*self._values(store), f"{store}.present")]
        both = sorted(set(self.names) & set(taken))
        if both:
            raise ValueError(f"{', '.join(both)}: an output and a value of a store have the same name")
        self.marks = False  # a broken row is one that is missing; else it is an error
        self._reading: Future[None] | None = None

    def _values(self, name: str) -> dict[str, str]:
        """The names of values in a batch, and of which field each is."""
        fields = self.stores[name].fields
        return {(name if len(fields) == 1 else f"{name}.{field}"): field for field in fields}

    def check(self, dataset: Any) -> None:
        """Refuses stores of another data set. The ids of a mixture may be of several: nothing is compared then.

        Raises:
            ValueError: one is.
        """
        for name, store in self.stores.items():
            if store.fingerprint and isinstance(dataset, Dataset) and store.fingerprint != identity(dataset):
                raise StateError(f"store {name!r} ({store.path}) is of another data set: its ids mean other samples")

    def read(self, core: _leat.Batch) -> tuple[dict[str, Any], list[tuple[int, int, str]]]:
        """The values for the rows of a batch, by name; and the rows whose bytes are broken, each with its sample id and
        the reason."""
        ids = np.asarray(core.ids()).astype(np.uint64)
        made: dict[str, Any] = {}
        broken: list[tuple[int, int, str]] = []
        for name, store in self.stores.items():
            keys = np.asarray(core.row_keys()) if store.keyed else None
            found = np.empty(len(ids), np.uint8)
            values, made[f"{name}.present"] = store.read(ids, keys, None, self.marks, self._framework, found)
            made |= {value: values[field] for value, field in self._values(name).items()}
            why = f"store {name!r} ({store.path}): the row's bytes are not what was written: it comes as missing"
            broken += [(row, int(ids[row]), why) for row in np.flatnonzero(found == BROKEN).tolist()]
        return made, broken

    def expect(self, core: _leat.Loader, epoch: int, step: int, first: int, rows: int) -> None:
        """Asks for the rows of batches behind `step`. `first`: of a global batch of `rows` rows, this rank's."""
        if self._reading is not None and not self._reading.done():
            return
        steps = range(step + 1, step + 1 + AHEAD) if self._reading is None or step < 0 else [step + AHEAD]
        self._reading = pool().submit(self._ask, core, epoch, steps, first, rows)

    def _ask(self, core: _leat.Loader, epoch: int, steps: Iterable[int], first: int, rows: int) -> None:
        for step in steps:
            try:
                ids = np.asarray(core.plan(epoch, step)).astype(np.uint64)
            except Exception:  # noqa: BLE001 the epoch ends, or the loader does: the reader of that batch is told
                return
            for store in self.stores.values():
                keys = None
                if store.keyed:
                    begin = step * rows + first
                    made = [_leat.row_key(self._seed, epoch, begin + i) for i in range(len(ids))]
                    keys = np.array(made, np.uint64)
                store.ask(ids, keys)


_pools: dict[int, ThreadPoolExecutor] = {}


def pool() -> ThreadPoolExecutor:
    """One thread of this process, for all loaders."""
    pid = os.getpid()
    if pid not in _pools:
        _pools.clear()
        _pools[pid] = ThreadPoolExecutor(1, "leat stores")
    return _pools[pid]
