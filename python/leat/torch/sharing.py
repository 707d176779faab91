"""Workers that loaders of one data set have in common: ``persistent_workers="shared"``.

leat cannot find out whether workers hold the present data set: pickles show neither the globals that its code reads nor
what extension objects keep, and workers' copies change as they are used. So only workers that were declared to be
shared are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..workers.pool import Pool, shared


def pool_for(loader: Any, make: Callable[[], Pool], n: int, context: Any) -> Pool:
    """Workers, with a reference: the loader's own, or those of loaders of its data set object that need the same."""
    if loader.persistent_workers != "shared" or loader._adaptive or loader._iterable:
        made = make()
        made.hold()
        return made
    name = context if context is None or isinstance(context, str) else context.get_start_method()
    return shared((id(loader.dataset), id(loader.worker_init_fn), n, name), make)  # which the pool keeps
