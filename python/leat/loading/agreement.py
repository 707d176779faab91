"""Whether the ranks of ``torch.distributed`` agree. None of them waits for another.

As it begins an epoch, each rank puts the values that all must have in common into the key-value store of the process
group, or finds there what another one has put, and compares. A stage of a pipeline that waits for the one before it, or
never reads, holds up nobody. A difference is an error at the next batch: for the rank that has found it, and within a
second for the others.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import time
import weakref
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from ..errors import StateError
from ..ranks import distributed, short_hash

log = logging.getLogger("leat")

_LOOK_S = 0.5  # between two looks for findings of others
_PATIENCE = timedelta(seconds=5)  # with the store itself


class _Group:
    """The process group that is initialised now: its store, and the loaders that take their ranks from it."""

    of: Any = None  # a weak reference to the group
    store: Any = None
    groups = 0  # that there have been: a store may outlive its group
    loaders = 0

    @classmethod
    def join(cls) -> tuple[Any, int, int]:
        """The store, or None; the number of this group; and that of the loader in it."""
        dist = distributed()
        group = None if dist is None else dist.group.WORLD
        if cls.of is None or cls.of() is not group:
            cls.of = None if group is None else weakref.ref(group)
            cls.store, cls.loaders = cls._store(dist, group), 0
            cls.groups += 1
        cls.loaders += 1
        return cls.store, cls.groups, cls.loaders

    @staticmethod
    def _store(dist: Any, group: Any) -> Any:
        if group is None:
            return None
        try:
            store = dist.distributed_c10d._get_default_store()
            if hasattr(store, "clone"):  # a connection of our own: on the group's, a call waits behind another
                store = store.clone()
                store.set_timeout(_PATIENCE)
            return dist.PrefixStore("leat", store)
        except Exception as e:  # a backend without one (MPI), or a kind that has no such calls
            log.info("the process group has no store in which ranks could compare what they load: %s", e)
            return None


class Agreement:
    """The values that the ranks of one loader have in common. Each rank makes the same loaders in the same order.

    Args:
        distributed: the loader takes its rank from ``torch.distributed``; without, nothing is compared.
    """

    def __init__(self, distributed: bool) -> None:
        self._store: Any = None
        self._group = self._number = 0
        if distributed:
            self._store, self._group, self._number = _Group.join()
        self._process = os.getpid()
        self._round = 0  # which a difference ends
        self._begun: Counter[int] = Counter()  # times that each epoch has begun in it
        self._looked = 0.0
        self._problem: str | None = None

    def begin(self, facts: Callable[[], dict[str, str]], epoch: int) -> None:
        """An epoch begins, with these facts. A difference is kept for :meth:`check`."""
        if self._store is None or self._process != os.getpid():  # in a forked child the connection is the parent's
            return
        if self._problem is not None:
            self._problem, self._round = None, self._round + 1
            self._begun.clear()
        self._begun[epoch] += 1
        mine = {name: f"{short_hash(value):016x}" for name, value in facts().items()}
        with self._asked() as store:
            there = json.loads(store.compare_set(self._key(f"{epoch}/{self._begun[epoch]}"), "", json.dumps(mine)))
            differ = sorted({name for name in mine.keys() | there.keys() if mine.get(name) != there.get(name)})
            if differ:
                self._problem = " and ".join(differ)
                store.set(self._key("differ"), self._problem)

    def check(self, at_once: bool = False, raises: bool = True) -> None:
        """Looks now and then whether another rank has found a difference; `at_once`: in any case.

        Args:
            raises: this rank says so; else one that reads for it does.

        Raises:
            StateError: the ranks differ; the text says in what. It is raised until the next :meth:`begin`.
        """
        now = time.monotonic()
        due = self._store is not None and self._problem is None and (at_once or now - self._looked > _LOOK_S)
        if due and self._process == os.getpid():
            self._looked = now
            with self._asked() as store:
                if store.check([self._key("differ")]):
                    self._problem = store.get(self._key("differ")).decode()
        if self._problem is not None and raises:
            raise StateError(
                f"the ranks differ in {self._problem}: give every rank the same data set, the same arguments of the "
                f"Loader and the same decisions (of the loaders that take their ranks from torch.distributed this is "
                f"number {self._number}: all ranks open them in the same order)"
            )

    def _key(self, what: object) -> str:
        return f"{self._group}/{self._number}/{self._round}/{what}"

    @contextlib.contextmanager
    def _asked(self) -> Any:
        """The store. From then on there is none if it does not answer."""
        try:
            yield self._store
        except Exception as e:
            log.info("ranks no longer compare what they load: the store of the process group does not answer: %s", e)
            self._store = None
