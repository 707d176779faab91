"""The budget that several mechanisms over the same data may spend together."""

from __future__ import annotations

import math

from ..errors import Error


class BudgetSpentError(Error, RuntimeError):
    """A mechanism asks for more privacy than is left, or for more answers than it was made for."""


def positive(name: str, value: float) -> float:
    value = float(value)
    if not (value > 0 and math.isfinite(value)):
        raise ValueError(f"{name} is above 0 and finite, not {value}")
    return value


def probability(name: str, value: float) -> float:
    value = float(value)
    if not 0 <= value < 1:
        raise ValueError(f"{name} is 0 or above and below 1, not {value}")
    return value


class Budget:
    """The spending of all mechanisms over one data set: by basic composition, epsilons and deltas add up.

    Each counter takes its whole (epsilon, delta) as it is made, because that is what it spends however often it is
    read.

    >>> budget = leat.privacy.Budget(epsilon=1.0)
    >>> counter = leat.privacy.TreeCounter(1000, epsilon=0.75, budget=budget)
    >>> budget.spent, budget.left
    ((0.75, 0.0), (0.25, 0.0))
    >>> leat.privacy.TreeCounter(1000, epsilon=0.5, budget=budget)
    Traceback (most recent call last):
    leat.privacy.budget.BudgetSpentError: epsilon 0.5 and delta 0.0 are asked for, of which 0.25 and 0.0 are left

    """

    def __init__(self, epsilon: float, delta: float = 0.0) -> None:
        self.epsilon, self.delta = positive("epsilon", epsilon), probability("delta", delta)
        self._spent = (0.0, 0.0)

    @property
    def spent(self) -> tuple[float, float]:
        """(epsilon, delta) so far."""
        return self._spent

    @property
    def left(self) -> tuple[float, float]:
        """(epsilon, delta) that may still be spent."""
        return self.epsilon - self._spent[0], self.delta - self._spent[1]

    def take(self, epsilon: float, delta: float = 0.0) -> None:
        """Spends so much.

        Raises: BudgetSpentError: less is left; nothing was spent.
        """
        epsilon, delta = positive("epsilon", epsilon), probability("delta", delta)
        more = (self._spent[0] + epsilon, self._spent[1] + delta)
        rounding = 1 + 1e-12
        if more[0] > self.epsilon * rounding or more[1] > self.delta * rounding:
            left = self.left
            raise BudgetSpentError(
                f"epsilon {epsilon} and delta {delta} are asked for, of which {left[0]} and {left[1]} are left"
            )
        self._spent = more
