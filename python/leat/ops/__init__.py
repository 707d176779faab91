"""Operators: the steps of a sample's value on its way into a batch.

An operator has the signature, the defaults and the distribution of the one of the same name in
``torchvision.transforms.v2``, and takes `name`. It is a description: it holds arguments, is compared by value and
computes nothing itself. A chain of operators is a list. If the same operator *object* is in two chains of a loader, it
draws once, and both get the same crop.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .arguments import *
from .base import *
from .base import Operator
from .batch import *
from .branches import *
from .cells import *
from .color import *
from .convert import *
from .detection import *
from .foreign import hint as _hint
from .functions import *
from .functions import Map
from .geometry import *
from .photo import *
from .policies import *
from .sequences import *
from .targets import *
from .tokens import *
from .values import *

_TYPES: dict[str, type[Operator]] = {
    name: c
    for name, c in list(globals().items())
    if isinstance(c, type) and issubclass(c, Operator) and c is not Operator and not issubclass(c, Map)
}


def from_json(value: Mapping[str, Any]) -> Operator:
    """The operator of a dict that :meth:`Operator.to_json` made."""
    if not isinstance(value, Mapping) or not isinstance(value.get("type"), str):
        raise ValueError(f"an operator is an object with a type, not {value!r}")
    arguments = {str(k): v for k, v in value.items() if k not in ("type", "epochs")}
    if value["type"] not in _TYPES:
        raise ValueError(f"no operator {value['type']!r}: there are {', '.join(_TYPES)}")
    try:
        op = _TYPES[value["type"]](**arguments)
        return op.epochs(*value["epochs"]) if value.get("epochs") else op
    except TypeError as e:
        raise ValueError(f"{value['type']}: {e}") from None


def __getattr__(name: str) -> Any:
    if name.startswith("_"):
        raise AttributeError(name)
    known = [*_TYPES, "Map", "MapBatch"]
    raise AttributeError(f"leat.ops has no {name!r}: {_hint(name, known)}", name=name, obj=None)
