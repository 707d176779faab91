"""Values that were saved somewhere and come back: states, logs and plans of rows. Nothing in them is trusted."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping
from typing import Any, NoReturn

from .errors import Error, InvalidError, NoStateError, RangeError, StateError


def plain(state: Any) -> dict[str, Any]:
    """A state as values of JSON, in a dict of its own.

    Raises:
        NoStateError: it is no dict.
        StateError: it has something that is no JSON.
    """
    if not isinstance(state, Mapping):
        raise NoStateError(f"a state is the dict that state_dict() gave, not {type(state).__name__}")
    try:
        found: dict[str, Any] = json.loads(json.dumps(dict(state)))
    except (TypeError, ValueError, RecursionError) as e:
        raise StateError(f"the state is damaged: it has something that is no JSON ({e!s:.120})") from None
    return found


def counted(state: dict[str, Any]) -> dict[str, Any]:
    """A state that says how many values each part has: what writes it somewhere may lose entries of lists."""
    return {**state, "values": {name: _values(each) for name, each in state.items() if isinstance(each, (dict, list))}}


def check_whole(state: Mapping[Any, Any]) -> None:
    """Raises StateError if values are missing that :func:`counted` has counted in a part that is there."""
    for name, told in part(state, "values", default={}).items():
        if name in state and isinstance(told, int) and (found := _values(state[name])) < told:
            raise StateError(
                f"the state is not whole: {name!r} has {found} of {told} values. torch.distributed.checkpoint takes "
                "lists apart, and gives back those entries alone that the loader has that loads: save "
                "json.dumps(loader.state_dict()) there, as one text"
            )


def _values(of: Any) -> int:
    if isinstance(of, Mapping):
        of = of.values()
    elif not isinstance(of, (list, tuple)):
        return 1
    return sum(map(_values, of))


@contextlib.contextmanager
def damage_is_said(what: str = "the state") -> Iterator[None]:
    """Code that reads what nobody saved like this raises StateError, which says that `what` is damaged.

    An error of the library about a state names itself, and becomes NoStateError; all others of leat stay.
    """
    try:
        yield
    except (InvalidError, RangeError) as e:
        if isinstance(e, StateError) or what != "the state":
            raise
        raise NoStateError(str(e)) from None
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, SyntaxError, RecursionError) as e:
        if isinstance(e, Error):
            raise
        raise StateError(f"{what} is damaged: it cannot be read ({e!r:.120})") from e


def damaged(name: str, value: Any) -> NoReturn:
    """Raises the StateError of a part that no state has like this."""
    raise StateError(f"the state is damaged: {name!r} cannot be {value!r:.60}")


def part(state: Mapping[str, Any], name: str, kind: type[Any] = dict, default: Any = None) -> Any:
    """A part of a state: one of another type is no missing one.

    Raises:
        StateError: it has another type.
    """
    if name not in state:
        return default
    found = state[name]
    if not isinstance(found, kind) or (isinstance(found, bool) and kind is not bool):
        damaged(name, found)
    return found


def needed(state: Mapping[str, Any], name: str, kind: type[Any] = dict) -> Any:
    """The same, of a part that every such state has.

    Raises:
        StateError: it is missing, or has another type.
    """
    if name not in state:
        raise StateError(f"the state is damaged: it lacks {name!r}")
    return part(state, name, kind)


def pair(state: Mapping[str, Any], name: str) -> tuple[int, int]:
    """Two numbers from 0 on.

    Raises:
        StateError: they are something else.
    """
    found = needed(state, name, list)
    if len(found) != 2 or not all(is_number(each) for each in found):
        damaged(name, found)
    return found[0], found[1]


def is_number(value: Any, low: int = 0) -> bool:
    """Whether it is an integer from `low` on that the library can hold, and no bool."""
    return type(value) is int and low <= value < 1 << 63
