"""Running sums under differential privacy."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from .. import check
from ..errors import StateError
from .budget import Budget, BudgetSpentError, positive, probability
from .noise import Source, Stream, behind, discrete_gaussian, discrete_laplace, new_secret, zcdp_of

GRID_BITS = 24  #: a unit of the grid is so many halvings of the sensitivity
LARGEST = 1 << 1000  #: of a number of units: such are float64, too
MOST_KEPT = 1 << 30  #: numbers that a counter with delta keeps


class TreeCounter:
    """A running sum that may be published after every value: it hides whether any one value was there, or was 0.

    With ``delta=0`` it is the binary tree mechanism (Chan, Shi, Song: "Private and continual release of statistics",
    2011; Dwork, Naor, Pitassi, Rothblum 2010): values are the leaves of a binary tree, each node has Laplace noise, and
    a sum is made of at most log2(T) + 1 nodes. It is epsilon-private, its error is of the order log2(T)^1.5 / epsilon,
    and it keeps log2(T) + 1 nodes.

    With ``delta`` above 0 it is the factorisation mechanism with Gaussian noise (Fichtenberger, Henzinger, Upadhyay:
    "Constant matters: fine-grained error bound on differentially private continual observation", ICML 2023), whose
    error is of the order log(T) sqrt(log(1 / delta)) / epsilon, with the best constant that is known. It keeps all T
    values, and one `add` takes time in proportion to T (50 us at 100,000).

    Noise is cryptographic (BLAKE2b, with a secret of the system's generator), is drawn exactly, over the integers, and
    values are cut to a grid of 2^-24 of the sensitivity (`privacy/noise.py`). An epsilon and delta are spent as the
    counter is made; reading `value` as often as you like costs nothing more.

    Args:
        T: how many values may be added.
        epsilon, delta: the privacy of the whole sequence of sums.
        sensitivity: the largest absolute value of a value; for vectors the largest sum of absolute values (with
            ``delta`` the largest Euclidean norm).
        shape: of a value: ``()`` is a number, ``(10,)`` a vector, such as a count per class.
        budget: the source of the epsilon and delta.
        source: for tests: a function that gives an integer from 0 to n - 1.

    Raises:
        ValueError: an argument is out of range.
        leat.privacy.BudgetSpentError: the budget has not so much left.

    >>> counter = leat.privacy.TreeCounter(T=1000, epsilon=1.0)
    >>> for label in [1, 0, 1, 1]:
    ...     counter.add(label)
    >>> counter.spent, -500 < counter.value < 500
    ((1.0, 0.0), True)
    """

    def __init__(
        self,
        T: int,
        epsilon: float,
        delta: float = 0.0,
        sensitivity: float = 1.0,
        *,
        shape: int | Sequence[int] = (),
        budget: Budget | None = None,
        source: Source | None = None,
    ) -> None:
        self.T = check.integer("T", T, 1, 1 << 40)
        self.epsilon, self.delta = positive("epsilon", epsilon), probability("delta", delta)
        self.sensitivity = positive("sensitivity", sensitivity)
        sides = tuple(shape) if isinstance(shape, Sequence) else (shape,)
        self.shape = tuple(check.integer("shape", side, 1, 1 << 31) for side in sides)
        self._size = math.prod(self.shape)
        if delta and self.T * self._size > MOST_KEPT:
            raise ValueError(
                f"with delta a counter keeps all its values: T={self.T} of {self._size} numbers are above {MOST_KEPT}"
            )
        self._secret, self._place = new_secret(), b""
        self._keyed = source is None
        self._draw: Source = source or Stream(self._secret, self._place)
        self._mechanism: _Tree | _Factorised = _Factorised(self) if delta else _Tree(self)
        self.n = 0  #: values that were added
        if budget is not None:
            budget.take(self.epsilon, self.delta)

    def add(self, value: Any) -> None:
        """Adds the next value: a number, an array or a tensor of the counter's shape.

        Raises:
            ValueError: it has another shape, is not finite, or is larger than the sensitivity; nothing was added.
            leat.privacy.BudgetSpentError: T values were added already.
        """
        array = np.asarray(value.tolist() if hasattr(value, "tolist") else value, dtype=np.float64)
        if array.shape != self.shape:
            raise ValueError(f"a value of this counter has the shape {self.shape}, not {array.shape}")
        if not np.isfinite(array).all():
            raise ValueError("a value is not finite")
        norm = float(np.linalg.norm(array.reshape(-1), 2 if self.delta else 1))
        if norm > self.sensitivity * (1 + 1e-12):
            raise ValueError(
                f"a value of norm {norm} is above the sensitivity, {self.sensitivity}: clip it, or open the counter "
                "with a larger one"
            )
        if self.n == self.T:
            raise BudgetSpentError(f"this counter was made for T={self.T} values, which were all added")
        units = array.reshape(-1) / self.sensitivity + 0.0  # no -0.0
        place = behind(self._secret, self._place, units)
        if self._keyed:
            self._draw = Stream(self._secret, place)
        changed = self._mechanism.add(units, self.n)  # until here nothing has changed, should it be interrupted
        self._mechanism.now, self._place, self.n = changed, place, self.n + 1

    @property
    def value(self) -> Any:
        """The sum so far, with noise: a float, or float64 of the counter's shape. It changes only with `add`."""
        found = self._mechanism.value() * self.sensitivity
        return found.reshape(self.shape) if self.shape else float(found[0])

    @property
    def spent(self) -> tuple[float, float]:
        """(epsilon, delta) that this counter costs, whatever is added to it and however often it is read."""
        return self.epsilon, self.delta

    def deviation(self, n: int | None = None) -> float:
        """The standard deviation of the noise of `value` (of one coordinate) after n values; None: as it is now."""
        n = self.n if n is None else check.integer("n", n, 0, self.T + 1)
        return self._mechanism.deviation(n) * self.sensitivity

    def state_dict(self) -> dict[str, Any]:
        """Plain data with which another counter goes on, and gives the same sums, with the same noise if the same
        values are added.

        It holds the sums without noise, and the secret of the noise: keep it as secret as the data.
        """
        noise = {"secret": self._secret.hex(), "place": self._place.hex()}
        return {"counter": 1, **self._options(), "n": self.n, **noise, **self._mechanism.state(self.n)}

    def _options(self) -> dict[str, Any]:
        names = ("T", "epsilon", "delta", "sensitivity")
        return {**{name: getattr(self, name) for name in names}, "shape": list(self.shape)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes on from the position of a counter of the same arguments.

        Raises:
            leat.StateError: it is no state of such a counter; nothing has changed.
        """
        self.prepared(state)()

    def prepared(self, state: Mapping[str, Any]) -> Callable[[], None]:
        """Checks a state, and gives the call that goes on there."""
        same_options(state, {"counter": 1, **self._options()})
        n = count_of(state, "n", self.T)
        secret, place = secrets_of(state)
        now = self._mechanism.prepared(state, n)

        def go_on() -> None:
            self._mechanism.now, self._secret, self._place, self.n = now, secret, place, n

        return go_on


def same_options(state: Any, mine: Mapping[str, Any]) -> None:
    """Checks that a state is of something that was made with the same arguments."""
    for name, value in mine.items():
        theirs = state.get(name) if isinstance(state, Mapping) else None
        if theirs != value:
            raise StateError(f"the state is of a counter with {name} {theirs!r:.60}, and this one has {value!r:.60}")


def count_of(state: Mapping[str, Any], name: str, most: int) -> int:
    n = state.get(name)
    if type(n) is not int or not 0 <= n <= most:
        raise StateError(f"{name} of the state is {n!r:.60}, which is not from 0 to {most}")
    return n


def is_integer(x: Any) -> bool:
    return type(x) is int and abs(x) < LARGEST


def secrets_of(state: Mapping[str, Any]) -> tuple[bytes, bytes]:
    """The secret of the noise, and its position."""
    try:
        secret, place = (bytes.fromhex(state[name]) for name in ("secret", "place"))
    except (KeyError, TypeError, ValueError):
        secret = place = b"?"
    if len(secret) != 32 or len(place) not in (0, 32):
        raise StateError("the state has no secret of its noise: counting on with another one would spend epsilon again")
    return secret, place


def integers(state: Mapping[str, Any], name: str, rows: int, size: int) -> list[list[int]]:
    found = state.get(name)
    if (
        not isinstance(found, list)
        or len(found) != rows
        or not all(isinstance(r, list) and len(r) == size and all(is_integer(x) for x in r) for r in found)
    ):
        raise StateError(f"{name} of the state is not {rows} lists of {size} integers")
    return [list(row) for row in found]


class _Tree:
    """Nodes of the tree that the next sums need: at most one of each level.

    Level l of the n-th value is the sum of the last 2^l values, and is there if bit l of n is set.
    """

    def __init__(self, counter: TreeCounter) -> None:
        self._counter = counter
        self._levels = counter.T.bit_length()
        # Each value is in one node of each level at most, so noise of a node is of a scale of `levels` sensitivities.
        self._scale = self._levels * (1 << GRID_BITS) / Fraction(counter.epsilon)
        none = [[0] * counter._size for _ in range(self._levels)]
        self.now = none, none  # sums, and with their noise; replaced, never written to

    def add(self, value: np.ndarray[Any, Any], n: int) -> Any:
        """The state after the value behind n others."""
        sums, noisy = (list(rows) for rows in self.now)
        level = ((n + 1) & -(n + 1)).bit_length() - 1
        units = [int(x) for x in np.trunc(value * (1 << GRID_BITS))]  # towards 0: no norm grows
        for below in sums[:level]:
            units = [a + b for a, b in zip(units, below, strict=True)]
        for lower in range(level):
            sums[lower] = noisy[lower] = [0] * len(units)
        sums[level], noisy[level] = units, [x + self._noise(level) for x in units]
        return sums, noisy

    def _noise(self, level: int) -> int:
        return discrete_laplace(self._scale.numerator, self._scale.denominator, self._counter._draw)

    def value(self) -> np.ndarray[Any, Any]:
        return np.array([sum(node) / (1 << GRID_BITS) for node in zip(*self.now[1], strict=True)])

    def deviation(self, n: int) -> float:
        return math.sqrt(2 * n.bit_count()) * float(self._scale) / (1 << GRID_BITS)

    def state(self, n: int) -> dict[str, Any]:
        return {"sums": [list(r) for r in self.now[0]], "noisy": [list(r) for r in self.now[1]]}

    def prepared(self, state: Mapping[str, Any], n: int) -> Any:
        size = self._counter._size
        return integers(state, "sums", self._levels, size), integers(state, "noisy", self._levels, size)


class _Factorised:
    """Sums are A x with A = F F, lower triangular, F of the coefficients of (1 - z)^(-1/2) along its diagonals. F (F x
    + noise) is published, with F x in whole units of a grid.
    """

    def __init__(self, counter: TreeCounter) -> None:
        self._counter = counter
        k = np.arange(1, counter.T)
        self._f = np.cumprod(np.concatenate([[1.0], (2 * k - 1) / (2 * k)]))
        # The effect of one value: a column of F. Rounding to the grid changes each number by one unit at most, and so
        # does rounding in float64.
        norm = math.sqrt(float((self._f**2).sum())) * (1 << GRID_BITS) + 2 * math.sqrt(counter.T * counter._size)
        self._variance = math.ceil(norm**2 / (2 * zcdp_of(counter.epsilon, counter.delta)))
        # Values, these times F with noise, and the latter in units. The first n rows of each count.
        self.now: Any = np.zeros((counter.T, counter._size)), np.zeros((counter.T, counter._size)), []

    def add(self, value: np.ndarray[Any, Any], n: int) -> Any:
        """The state after the value behind n others."""
        values, noisy, kept = self.now
        values[n] = value
        exact = self._f[n::-1] @ values[: n + 1] * (1 << GRID_BITS)
        kept[n:] = [[round(x) + discrete_gaussian(self._variance, self._counter._draw) for x in exact.tolist()]]
        noisy[n] = np.array(kept[n], dtype=np.float64) / (1 << GRID_BITS)
        return self.now

    def value(self) -> np.ndarray[Any, Any]:
        n = self._counter.n
        return self._f[n - 1 :: -1] @ self.now[1][:n] if n else np.zeros(self._counter._size)

    def deviation(self, n: int) -> float:
        return math.sqrt(self._variance * float((self._f[:n] ** 2).sum())) / (1 << GRID_BITS)

    def state(self, n: int) -> dict[str, Any]:
        return {"values": self.now[0][:n].tolist(), "noisy": [list(r) for r in self.now[2][:n]]}

    def prepared(self, state: Mapping[str, Any], n: int) -> Any:
        size = self._counter._size
        kept = integers(state, "noisy", n, size)
        try:
            given = np.asarray(state.get("values"), dtype=np.float64).reshape(n, size)
        except (TypeError, ValueError):
            given = np.full((1, 1), np.nan)
        if not np.isfinite(given).all():
            raise StateError(f"values of the state are not {n} of shape {self._counter.shape}")
        values, noisy = np.zeros_like(self.now[0]), np.zeros_like(self.now[1])
        values[:n] = given
        noisy[:n] = np.array(kept, dtype=np.float64).reshape(n, size) / (1 << GRID_BITS)
        return values, noisy, kept
