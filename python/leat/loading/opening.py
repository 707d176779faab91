"""A rank that fails to open tells the others, which would wait for it where the ranks compare what they have opened.

That is told through the store of torch.distributed, which needs no other rank to take part:

    leat/ready/7   how many ranks have begun to iterate their 7th loader
    leat/go/7      set by the last of them: now they compare
    leat/failed    ranks whose last opening failed, and have opened nothing since
    leat/error     of one of these
"""

from __future__ import annotations

import contextlib
import functools
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any, ParamSpec, TypeVar

from ..errors import StateError
from . import ranks

P = ParamSpec("P")
R = TypeVar("R")
GRACE = 5.0  #: seconds in which a rank that failed may open something else
LONGEST_SLEEP = 0.25  #: seconds between two looks into the store

_told: Any = None  # the store that has the failure of this process
_met = 0  # loaders that all ranks have begun to iterate


def _store() -> Any:
    """The store of the default group, or None."""
    dist = ranks.distributed()
    if dist is None:
        return None
    with contextlib.suppress(Exception):  # it is no public part of PyTorch, and a backend may have none
        return dist.PrefixStore("leat", dist.distributed_c10d._get_default_store())
    return None


def tells(function: Callable[P, R]) -> Callable[P, R]:
    """`function`, which opens something: where it fails the other ranks are told. Not of a loader whose rank does not
    come from torch.distributed.
    """

    @functools.wraps(function)
    def told(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            result = function(*args, **kwargs)
        except BaseException as e:
            if kwargs.get("rank") is None and getattr(args[0] if args else None, "_distributed", True):
                _fail(e)
            raise
        _withdraw()
        return result

    return told


def _fail(error: BaseException) -> None:
    global _told
    store = _store() if _told is None else None
    if store is None:
        return
    with contextlib.suppress(Exception):  # the error itself is raised
        rank = ranks.distributed().get_rank()
        store.set("error", f"rank {rank} failed to open: {type(error).__name__}: {error!s:.2000}")
        store.add("failed", 1)
        _told = store


def _withdraw() -> None:
    global _told
    if _told is None:
        return
    store, _told = _told, None
    with contextlib.suppress(Exception):  # of a group that has ended
        store.add("failed", -1)


def meet() -> None:
    """Waits until all ranks have come here with their next loader.

    Raises:
        StateError: one of them failed to open.
    """
    global _met
    store = _store()
    if store is not None:
        _meet(store, ranks.distributed().get_world_size(), _met)
        _met += 1


def _meet(store: Any, world: int, number: int) -> None:
    ready, go = f"ready/{number}", f"go/{number}"
    if store.add(ready, 1) == world:
        store.set(go, "")
        return
    longest: timedelta = getattr(store, "timeout", timedelta(minutes=30))
    began, failed, sleep = time.monotonic(), None, 0.001
    while not store.check([go]):
        now, why = time.monotonic(), ""
        if store.add("failed", 0) <= 0:
            failed = None
        elif failed is None:
            failed = now
        elif now - failed >= GRACE:
            why = store.get("error").decode(errors="replace")
        if now - began > longest.total_seconds():
            why = f"not all {world} ranks began to iterate their loaders within {longest}"
        if why:
            if store.add(ready, -1) < world - 1:
                raise StateError(why)
            store.add(ready, 1)  # the last one came just now
            return
        time.sleep(sleep)
        sleep = min(1.5 * sleep, LONGEST_SLEEP)
