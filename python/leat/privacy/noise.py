"""Noise of exact distributions over the integers.

Continuous noise in floating point gives away the value that it hides: the possible results depend on the value beneath
it (Mironov, "On significance of the least significant bits for differential privacy", CCS 2012). So sums are kept in
whole units of a small grid, and noise is drawn over the integers, exactly, by comparing uniform integers (Canonne,
Kamath, Steinke: "The discrete Gaussian for differential privacy", NeurIPS 2020, algorithms 1 to 3).
"""

from __future__ import annotations

import hashlib
import math
import secrets
from collections.abc import Callable
from typing import Any

import numpy as np

Source = Callable[[int], int]  #: an integer from 0 to n - 1, uniformly


class Stream:
    """A source: keyed BLAKE2b in counter mode, of a secret of 32 bytes and of the noise's purpose.

    A repetition with the same secret gets the same noise, and so publishes the same; anything else gets noise that is
    independent, as far as anybody without the secret can tell.
    """

    def __init__(self, secret: bytes, place: bytes) -> None:
        self._secret, self._place = secret, place
        self._blocks = 0
        self._bits = self._n_bits = 0  # drawn and not used

    def __call__(self, n: int) -> int:
        size = (n - 1).bit_length()
        while True:
            while self._n_bits < size:
                counter = self._blocks.to_bytes(8, "little")
                block = hashlib.blake2b(counter + self._place, key=self._secret).digest()
                self._blocks += 1
                self._bits |= int.from_bytes(block, "little") << self._n_bits
                self._n_bits += 8 * len(block)
            found = self._bits & ((1 << size) - 1)
            self._bits >>= size
            self._n_bits -= size
            if found < n:
                return found


def new_secret() -> bytes:
    return secrets.token_bytes(32)


def behind(secret: bytes, place: bytes, values: np.ndarray[Any, Any]) -> bytes:
    """The place that follows one: it depends on all values so far."""
    return hashlib.blake2b(place + values.tobytes(), key=secret, digest_size=32).digest()


def _bernoulli_exp_below_1(above: int, below: int, draw: Source) -> bool:
    """True with probability exp(-above / below), where that quotient is from 0 to 1."""
    k = 1
    while draw(below * k) < above:
        k += 1
    return k % 2 == 1


def bernoulli_exp(above: int, below: int, draw: Source) -> bool:
    """True with probability exp(-above / below)."""
    while above > below:
        if not _bernoulli_exp_below_1(1, 1, draw):
            return False
        above -= below
    return _bernoulli_exp_below_1(above, below, draw)


def discrete_laplace(above: int, below: int, draw: Source) -> int:
    """An integer x with a probability that is proportional to exp(-|x| below / above): scale above / below."""
    while True:
        u = draw(above)
        if not bernoulli_exp(u, above, draw):
            continue
        v = 0
        while bernoulli_exp(1, 1, draw):
            v += 1
        x, negative = (u + above * v) // below, draw(2) == 1
        if not (negative and x == 0):
            return -x if negative else x


def discrete_gaussian(variance: int, draw: Source) -> int:
    """An integer x with a probability that is proportional to exp(-x^2 / (2 variance))."""
    t = math.isqrt(variance) + 1
    while True:
        x = discrete_laplace(t, 1, draw)
        if bernoulli_exp((abs(x) * t - variance) ** 2, 2 * variance * t * t, draw):
            return x


def zcdp_of(epsilon: float, delta: float) -> float:
    """The largest rho, nearly, such that rho-concentrated privacy is (epsilon, delta)-privacy: by proposition 12 of
    Canonne, Kamath and Steinke, in which each alpha gives a bound that holds.
    """
    most = 7 + max(0.0, math.log10(-math.log(delta) / epsilon))
    alpha = 1 + np.logspace(-4, most, round(4000 * (most + 4) / 11))

    def log_delta(rho: float) -> float:
        bound = (alpha - 1) * (alpha * rho - epsilon) - np.log(alpha - 1) + alpha * np.log1p(-1 / alpha)
        return float(bound.min())

    low, high = 0.0, 1.0
    while log_delta(high) < math.log(delta):
        high *= 2
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if log_delta(middle) <= math.log(delta) else (low, middle)
    return low
