"""An algorithm that decides the weights of a mixture while the model trains."""

from __future__ import annotations

import math
import numbers
from collections.abc import Iterable, Mapping
from typing import Any, Protocol, runtime_checkable

from ..errors import StateError

Weights = dict[str, float]


@runtime_checkable
class Algorithm(Protocol):
    """The argument of ``Loader(mix, mixture=...)``: an object with these methods. No class has to be inherited.

    Only the arguments of `report` may enter its answer: no clock, no random numbers without a seed, no state outside of
    `state_dict`. Every rank has an algorithm of its own, and all have to answer the same.

    An attribute `lead`, if there is one, says how many steps after the reported one a decision holds: 4 otherwise.

    A function ``f(step, losses, counts, weights) -> weights or None`` without a state is an algorithm, too.

    >>> class Worst:
    ...     "Every 100 steps half of the rows come from the domain whose loss is highest."
    ...     def start(self, weights):
    ...         self.opened = weights
    ...     def report(self, step, losses, counts, weights):
    ...         if (step + 1) % 100 or not losses:
    ...             return None
    ...         worst = max(losses, key=losses.get)
    ...         return {name: w / 2 + 0.5 * (name == worst) for name, w in self.opened.items()}
    ...     def state_dict(self):
    ...         return {}
    ...     def load_state_dict(self, state):
    ...         pass
    >>> isinstance(Worst(), leat.mixtures.algorithm.Algorithm)
    True
    """

    def start(self, weights: Weights) -> None:
        """The domains, in the order of the mixture, with the weights that it opens with; they sum to 1. Called once,
        before anything else.
        """

    def report(
        self, step: int, losses: Mapping[str, float], counts: Mapping[str, int], weights: Weights
    ) -> Weights | None:
        """Takes the measurements of a step, and may decide.

        Args:
            step: the number of reports before this one, in the whole run.
            losses: of domains; finite. Those that were not measured are absent.
            counts: rows (or tokens) that the step had of each domain.
            weights: those that held in that step.

        Returns:
            New weights, one for each domain, which sum to 1; or None: they stay.
        """

    def state_dict(self) -> dict[str, Any]:
        """The data that `load_state_dict` needs to go on from here with the same decisions: plain values that JSON can
        hold."""

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Called after `start`."""


class Function:
    """An algorithm of a function without a state."""

    def __init__(self, function: Any) -> None:
        self.function = function

    def start(self, weights: Weights) -> None:
        pass

    def report(
        self, step: int, losses: Mapping[str, float], counts: Mapping[str, int], weights: Weights
    ) -> Weights | None:
        found: Weights | None = self.function(step, losses, counts, weights)
        return found

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        pass


def algorithm_of(given: Any) -> Algorithm:
    """Raises:
    TypeError: it is none; the text names the missing part.
    """
    methods = ("start", "report", "state_dict", "load_state_dict")
    missing = [name for name in methods if not callable(getattr(given, name, None))]
    if not missing and not isinstance(given, type):
        found: Algorithm = given
        return found
    if callable(given) and not isinstance(given, type):
        return Function(given)
    raise TypeError(
        f"mixture is leat.ADO(...), leat.DoReMi(...), a function, or an object with {', '.join(methods)}; "
        + (
            f"{given.__name__} is a class: give an object of it"
            if isinstance(given, type)
            else f"{type(given).__name__} lacks {', '.join(missing)}"
        )
    )


def _is_number(x: Any) -> bool:
    return isinstance(x, numbers.Real) and not isinstance(x, bool)


def floats(state: Any, name: str, n: int, low: float = -math.inf) -> list[float]:
    """A finite number for each of `n` domains, of an algorithm's state.

    Raises:
        StateError: they are none.
    """
    found = state.get(name) if isinstance(state, Mapping) else None
    if (
        not isinstance(found, list)
        or len(found) != n
        or not all(_is_number(x) and low <= x and math.isfinite(x) for x in found)
    ):
        raise StateError(f"the state is damaged: {name!r} is not a number for each of {n} domains, but {found!r:.60}")
    return [float(x) for x in found]


def counted(state: Any, name: str, low: int = 0) -> int:
    """A whole number of an algorithm's state.

    Raises:
        StateError: it is none.
    """
    found = state.get(name) if isinstance(state, Mapping) else None
    if type(found) is not int or not low <= found < 1 << 63:
        raise StateError(f"the state is damaged: {name!r} cannot be {found!r:.60}")
    return found


def total(values: Iterable[float]) -> float:
    """The sum from the left. Python's `sum` rounds otherwise from version to version."""
    found = 0.0
    for value in values:
        found += value
    return found


def normalized(values: list[float]) -> list[float]:
    whole = total(values)
    return [value / whole for value in values]
