"""States that no `state_dict()` gave: each value of a state, one after another, as each other type, and left out."""

from __future__ import annotations

import copy
import itertools
import math
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

import leat

Path = tuple[Any, ...]
State = dict[str, Any]

#: one or two of each type
TYPES: list[Any] = [None, True, 7, 0.5, "x", [], [1], {}, {"x": 1}]
#: what has the type of much that states have, and is none of it; each path gets some of these
ODD: list[Any] = [
    False, 0, -1, 1 << 40, 1 << 63, 1 << 70, -math.inf, math.nan, "", "\ud800", "a" * 32, ["x", {}], [[], []], [0, 1],
    {"epoch": 0, "row": 0},
]  # fmt: skip


def paths(value: Any, above: Path = ()) -> Iterator[Path]:
    """To all that is in a state; of long lists to the first two and the last."""
    items: list[tuple[Any, Any]] = []
    if isinstance(value, dict):
        items = list(value.items())
    elif isinstance(value, (list, tuple)):
        items = [(i, value[i]) for i in sorted({0, 1, len(value) - 1} & set(range(len(value))))]
    for key, found in items:
        yield (*above, key)
        yield from paths(found, (*above, key))


def at(state: Any, path: Path) -> Any:
    for key in path:
        state = state[key]
    return state


def with_value(state: Any, path: Path, value: Any) -> Any:
    found = copy.deepcopy(state)
    at(found, path[:-1])[path[-1]] = copy.deepcopy(value)
    return found


def without(state: Any, path: Path) -> Any:
    found = copy.deepcopy(state)
    del at(found, path[:-1])[path[-1]]
    return found


def hostile(state: Any) -> Iterator[tuple[str, Any]]:
    """Every path without its value, with one of each other type, and with some odd ones."""
    for number, path in enumerate(paths(state)):
        there = at(state, path)
        if isinstance(at(state, path[:-1]), tuple):
            continue
        yield f"{path} left out", without(state, path)
        for value in TYPES + [ODD[(4 * number + k) % len(ODD)] for k in range(4)]:
            if type(value) is not type(there) or value != there:
                yield f"{path} = {value!r:.40}", with_value(state, path, value)


class Walked(NamedTuple):
    refused: list[tuple[str, Any]]  #: states
    taken: int


def walk(
    fresh: Callable[[], Any],
    state: State,
    look: Callable[[Any], Any],
    use: Callable[[Any], Any],
    stride: int = 1,
) -> Walked:
    """Loads every hostile state of one (every `stride`-th) into what `fresh` gives. It is refused by StateError, and
    all that `look` sees is as it was; or it is taken, and `use` works.
    """
    refused: list[tuple[str, Any]] = []
    subject, before, taken = None, None, 0
    for what, one in itertools.islice(hostile(state), 0, None, stride):
        if subject is None:
            subject = fresh()
            before = look(subject)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                subject.load_state_dict(one)
        except leat.StateError:
            assert same(look(subject), before), what
            refused.append((what, one))
            continue
        except BaseException as e:
            raise AssertionError(f"{what} is refused by {e!r:.200}") from e
        taken += 1
        try:
            use(subject)
        except Exception as e:
            raise AssertionError(f"{what} is taken, and then: {e!r:.300}") from e
        subject = None
    return Walked(refused, taken)


def same(a: Any, b: Any) -> bool:
    """Whether values of Python and NumPy are equal; NaN is itself."""
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    if hasattr(a, "shape") or hasattr(b, "shape"):
        return bool(np.array_equal(np.asarray(a), np.asarray(b)))
    return bool(a == b) or (a != a and b != b)
