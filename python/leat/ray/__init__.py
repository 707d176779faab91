"""leat on a Ray cluster: batches of a loader that other machines make, and data sets of Ray Data.

Needs Ray: ``pip install 'leat[ray]'``. ``import leat`` alone never imports it.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .loader import Loader as Loader
    from .stages import Stage as Stage

#: the module of each name, which is imported when the name is used
_MODULES = {"Loader": "loader", "Stage": "stages"}
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
