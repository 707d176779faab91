"""Goodness of fit: whether what an operator draws follows a distribution, and whether the check would see another one.

`drawn` gives what a chain makes of one image under many keys. `assert_shares` compares outcomes that can be counted by
the chi-square test, `assert_follows` numbers by that of Kolmogorov and Smirnov, both at a level of one in a thousand.
Keys follow from fixed seeds, so a test passes always or never. Each takes what is wrong, and fails if it does not see
that it is.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any

import numpy as np

import leat

LEVEL = 3.09  # of the normal distribution: exceeded once in a thousand


def drawn(chain: list[Any], image: Any, n: int = 4000, seed: int = 0) -> Any:
    """What a chain makes of an image (HWC) as n samples of a data set, each under a key of its own: (n, H, W, C)."""
    rows = np.broadcast_to(image, (n, *image.shape))
    dataset = leat.from_arrays({"x": leat.field(str(image.dtype), image.shape, layout="HWC")}, x=rows)
    outputs = {"x": [*chain, leat.ops.ToLayout("NHWC")]}
    with leat.Loader(dataset, n, outputs=outputs, framework="numpy", seed=seed) as loader:
        return loader.batch_at(0, 0)["x"]


def shares_fit(outcomes: Iterable[Hashable], shares: Mapping[Any, float]) -> bool:
    """Chi-square: outcomes occur as often as their shares say, which add up to 1; others than these do not."""
    counts, total = Counter(outcomes), math.fsum(shares.values())
    n = counts.total()
    assert abs(total - 1) < 1e-9, total
    assert min(shares.values()) * n >= 5, "too few draws for the test"
    if set(counts) - set(shares):
        return False
    distance = sum((counts[k] - n * share) ** 2 / (n * share) for k, share in shares.items())
    free = len(shares) - 1
    bound = free * (1 - 2 / (9 * free) + LEVEL * math.sqrt(2 / (9 * free))) ** 3 if free else 0
    return distance <= bound


def assert_shares(outcomes: Iterable[Hashable], shares: Mapping[Any, float], *wrong: Mapping[Any, float]) -> None:
    """Outcomes follow `shares`, and as many that follow any of `wrong` would be seen not to."""
    outcomes = list(outcomes)
    assert shares_fit(outcomes, shares), Counter(outcomes).most_common(10)
    rng = np.random.default_rng(1)
    for other in wrong:
        keys = list(other)
        made = rng.choice(len(keys), len(outcomes), p=[other[k] for k in keys])
        assert not shares_fit((keys[i] for i in made), shares), other


def follows(values: Any, cdf: Callable[[Any], Any]) -> bool:
    """Kolmogorov and Smirnov: values follow the continuous distribution function `cdf`."""
    values = np.sort(np.asarray(values, float).ravel())
    n, at = len(values), np.asarray(cdf(values), float)
    distance = max((np.arange(1, n + 1) / n - at).max(), (at - np.arange(n) / n).max())
    return bool(distance * math.sqrt(n) < 1.95)


def assert_follows(values: Any, cdf: Callable[[Any], Any], *wrong: Any) -> None:
    """Values follow `cdf`, and none of the arrays `wrong` does."""
    assert follows(values, cdf)
    for other in wrong:
        assert not follows(other, cdf)


def uniform(low: float, high: float) -> Callable[[Any], Any]:
    return lambda x: np.clip((np.asarray(x) - low) / (high - low), 0, 1)


def normal(mean: float = 0.0, sigma: float = 1.0) -> Callable[[Any], Any]:
    return lambda x: np.asarray([0.5 * math.erfc((mean - v) / (sigma * math.sqrt(2))) for v in np.asarray(x).ravel()])
