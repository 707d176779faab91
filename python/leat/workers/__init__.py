"""Worker processes: the pool, the loop inside a worker, messages, batches in flight, the number of workers."""

from __future__ import annotations

from typing import Any
from weakref import WeakSet

from .. import _leat

feeds: WeakSet[Any] = WeakSet()  #: that are open


def give_back() -> bool:
    """Gives up batches that workers have made ahead, if they hold more memory than is left to this process: a loader
    needs it. They are made again. Whether there were any.
    """
    while True:
        try:
            found = list(feeds)
            break
        except RuntimeError:  # a feed was opened or closed meanwhile, in another thread or by the garbage collector
            continue
    return _leat.memory_left() < _leat.share_used() and any([feed.give_back() for feed in found])
