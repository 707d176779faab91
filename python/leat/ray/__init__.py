"""leat on a Ray cluster: batches of a loader that other machines make, and data sets of Ray Data.

Needs Ray: ``pip install 'leat[ray]'``. ``import leat`` alone never imports it.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .loader import Loader as Loader
    from .materialized import from_dataset as from_dataset
    from .reading import read as read
    from .stages import Stage as Stage
    from .writing import write as write

#: the module of each name, which is imported when the name is used
_MODULES = {
    "Loader": "loader",
    "Stage": "stages",
    "from_dataset": "materialized",
    "read": "reading",
    "write": "writing",
}
__all__ = sorted(_MODULES)


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'leat.ray' has no attribute {name!r}")
    try:
        importlib.import_module("ray")
    except ImportError as e:
        raise ImportError(f"leat.ray.{name} needs Ray: pip install 'leat[ray]'") from e
    found = globals()[name] = getattr(importlib.import_module(f".{_MODULES[name]}", __name__), name)
    return found


def __dir__() -> list[str]:
    return __all__
