"""A fork waits until no other thread imports a module of this package.

Modules are imported when a name of them is first used, from whichever thread. A child that was forked meanwhile finds
the module half made, and its lock taken by a thread that there is no more: its own first use would never return.
"""

from __future__ import annotations

import concurrent.futures.thread  # noqa: F401  # takes a lock before a fork, as logging does, and lets go of it behind
import importlib
import logging  # noqa: F401  # it: neither may be imported while a fork waits
import os
import threading
import time
from typing import Any

PATIENCE_S = 10.0  #: with an import, which may itself wait for this thread

#: of what is being imported; an interpreter that has no such table is not waited for
_locks: dict[str, Any] = getattr(getattr(importlib, "_bootstrap", None), "_module_locks", {})


def _is_imported_elsewhere() -> bool:
    """Whether another thread has the lock of a module of this package."""
    locks = [reference() for name, reference in list(_locks.items()) if name.partition(".")[0] == __package__]
    return any(getattr(lock, "owner", None) not in (None, threading.get_ident()) for lock in locks)


def _wait() -> None:
    end = time.monotonic() + PATIENCE_S
    while _is_imported_elsewhere() and time.monotonic() < end:
        time.sleep(0.001)


os.register_at_fork(before=_wait)
