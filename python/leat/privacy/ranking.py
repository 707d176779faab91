"""The question which running sum is the largest: one that costs more than the sums, and is rationed."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

import numpy as np

from .. import check
from .budget import Budget, BudgetSpentError, positive, probability
from .counter import count_of, integers, same_options, secrets_of
from .noise import Source, Stream, behind, bernoulli_exp, new_secret, zcdp_of

GRID_BITS = 24


class RunningArgmax:
    """The largest of several running sums, as often as a ration allows.

    If one value may change each of many sums, the error of a private running argmax cannot be small at every step: over
    T values it is at least of the order T^(1/3) times that of a single answer (Jain, Raskhodnikova, Sivakumar,
    Smith: "The price of differential privacy under continual observation", arXiv 2112.00828), whereas a sum has log(T)
    factors alone. (If a value changes one sum only, such as a class, the largest of the sums of a :class:`TreeCounter`
    is as good at every step, and costs nothing more.) So `ask` answers at most `queries` times, and between two
    questions the last answer stays: `last`. Each answer is one of the exponential mechanism (McSherry, Talwar 2007)
    over the exact sums, drawn exactly.

    With ``delta=0`` each of k answers has epsilon / k. With ``delta`` above 0 they have more, about epsilon / sqrt(k),
    because the exponential mechanism with epsilon is epsilon^2 / 8 concentrated private (Cesar, Rogers: "Bounding,
    concentrating, and truncating", ALT 2021). Fewer questions let the last answer age, more questions make each less
    sure; the default of `queries` balances both, and the error is of the order T^(1/2) or, with delta, T^(1/3).

    Args:
        T: how many values may be added.
        epsilon, delta: the privacy of all answers together.
        classes: the number of sums.
        queries: the number of answers. None: as above.
        sensitivity: the largest absolute value that a value has for any class.
        budget: the source of epsilon and delta.
        source: for tests: a function that gives an integer from 0 to n - 1.

    >>> ranking = leat.privacy.RunningArgmax(T=1000, epsilon=1.0, classes=3, queries=2)
    >>> for _ in range(500):
    ...     ranking.add([0, 0, 1])
    >>> ranking.ask(), ranking.last, ranking.left
    (2, 2, 1)
    """

    def __init__(
        self,
        T: int,
        epsilon: float,
        classes: int,
        queries: int | None = None,
        sensitivity: float = 1.0,
        *,
        delta: float = 0.0,
        budget: Budget | None = None,
        source: Source | None = None,
    ) -> None:
        self.T, self.classes = check.integer("T", T, 1, 1 << 40), check.integer("classes", classes, 2, 1 << 31)
        self.epsilon, self.sensitivity = positive("epsilon", epsilon), positive("sensitivity", sensitivity)
        self.delta = probability("delta", delta)
        rho, doubt = zcdp_of(self.epsilon, self.delta) if delta else 0.0, 2 * math.log(self.classes)
        balanced = (self.T * math.sqrt(8 * rho) / doubt) ** (2 / 3) if delta else math.sqrt(self.T * epsilon / doubt)
        given = max(1, min(self.T, round(balanced))) if queries is None else queries
        self.queries = check.integer("queries", given, 1, 1 << 40)
        each = Fraction(math.sqrt(8 * rho / self.queries)) if delta else Fraction(self.epsilon) / self.queries
        self._rate = each / (2 << GRID_BITS)  # of a unit of the grid: one value moves no sum by more than 2^GRID_BITS
        self.left = self.queries  #: answers that may still be had
        self.last: int | None = None  #: the last answer
        self._asked = -1  # how many values there were then
        self._sums = [0] * self.classes
        self._secret, self._place, self._source = new_secret(), b"", source
        self._n = 0
        if budget is not None:
            budget.take(self.epsilon, self.delta)

    def add(self, value: Any) -> None:
        """Adds a value: a number for each class.

        Raises:
            ValueError: it has another shape, is not finite, or is larger than the sensitivity; nothing was added.
            leat.privacy.BudgetSpentError: T values were added already.
        """
        array = np.asarray(value.tolist() if hasattr(value, "tolist") else value, dtype=np.float64)
        if array.shape != (self.classes,):
            raise ValueError(f"a value has a number for each of {self.classes} classes, not the shape {array.shape}")
        if not np.isfinite(array).all():
            raise ValueError("a value is not finite")
        if float(np.abs(array).max()) > self.sensitivity * (1 + 1e-12):
            raise ValueError(f"a value is above the sensitivity, {self.sensitivity}: clip it")
        if self._n == self.T:
            raise BudgetSpentError(f"this ranking was made for T={self.T} values, which were all added")
        scaled = array / self.sensitivity + 0.0  # no -0.0
        units = np.clip(np.trunc(scaled * (1 << GRID_BITS)), -(1 << GRID_BITS), 1 << GRID_BITS).tolist()
        sums = [a + int(b) for a, b in zip(self._sums, units, strict=True)]
        self._sums, self._place, self._n = sums, behind(self._secret, self._place, scaled), self._n + 1

    def ask(self) -> int:
        """The class whose sum is the largest now, or is near it. If nothing was added since the last answer it is that
        one, and none is spent.

        Raises:
            leat.privacy.BudgetSpentError: all answers were given: `last` is the last one.
        """
        if self.last is not None and self._asked == self._n:
            return self.last
        if not self.left:
            raise BudgetSpentError(
                f"all {self.queries} answers were given: keep the last one, or make the ranking for more queries"
            )
        draw = self._source or Stream(self._secret, self._place + self.left.to_bytes(8, "little"))
        self.left -= 1
        largest = max(self._sums)
        while True:  # a class at random, until one is taken: with exp(-its lag)
            i = draw(self.classes)
            lack = (largest - self._sums[i]) * self._rate
            if bernoulli_exp(lack.numerator, lack.denominator, draw):
                self.last, self._asked = i, self._n
                return i

    def state_dict(self) -> dict[str, Any]:
        """Plain data with which another ranking goes on, and gives the same answers if the same values are added.

        It holds the sums, and the secret of the noise: keep it as secret as the data.
        """
        noise = {"secret": self._secret.hex(), "place": self._place.hex()}
        asked = {"left": self.left, "last": self.last, "asked": self._asked}
        return {**self._options(), "n": self._n, **asked, **noise, "sums": [list(self._sums)]}

    def _options(self) -> dict[str, Any]:
        names = ("T", "epsilon", "delta", "classes", "queries", "sensitivity")
        return {"ranking": 1, **{name: getattr(self, name) for name in names}}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes on from the position of a ranking of the same arguments.

        Raises:
            leat.StateError: it is no state of such a ranking; nothing has changed.
        """
        self.prepared(state)()

    def prepared(self, state: Mapping[str, Any]) -> Callable[[], None]:
        """Checks a state, and gives the call that goes on there."""
        same_options(state, self._options())
        n, left = count_of(state, "n", self.T), count_of(state, "left", self.queries)
        (sums,) = integers(state, "sums", 1, self.classes)
        secret, place = secrets_of(state)
        answered = state.get("last") is not None
        last = count_of(state, "last", self.classes - 1) if answered else None
        asked = count_of(state, "asked", n) if answered else -1

        def go_on() -> None:
            self._n, self.left, self._sums, self._secret, self._place = n, left, sums, secret, place
            self.last, self._asked = last, asked

        return go_on
