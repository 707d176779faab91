"""The four workloads of MinatoLoader (arXiv 2509.10712), made from their printed statistics.

Of each the paper prints the mean and some quantiles of a sample's preprocessing time. Here a quantile function runs
through the printed points, straight between them, and curved by one exponent in the lowest and the highest stretch,
where most of the freedom is; the exponent is solved for, so that the mean is the printed one exactly. Times of a run
are that function at evenly spaced levels, in a random order: every run has the printed statistics, not only on average.

The speech ones have two kinds of samples: every fifth is heavy (3008 or 10008 ms), the others take up to the printed
median, and their lowest stretch is curved so that the mean is right. Of speech-10s no median is printed; that of
speech-3s is taken.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Workload:
    """Times in milliseconds; `points` are (level, time) from level 0 to 1; a `heavy` stretch is level."""

    name: str
    mean: float
    points: tuple[tuple[float, float], ...]
    batch: int
    epoch: int
    """Samples of an epoch."""
    stages: int | None = 5
    """Transforms in sequence, of equal length (the paper does not print their shares); None: those of the speech
    workloads.
    """

    def _low(self) -> tuple[float, float, float]:
        (_, least), (level, first) = self.points[:2]
        return level, least, first

    def _exponent(self) -> float:
        """g, such that u**(1/g) in the lowest stretch and u**g in the highest give the mean; with a share x = 1/(1+g),
        it is linear in x.
        """
        level, least, first = self._low()
        (begin, last), (_, most) = self.points[-2:]
        middle = sum((b - a) * (v + w) / 2 for (a, v), (b, w) in zip(self.points[1:-2], self.points[2:-1]))
        fixed = level * first + middle + (1 - begin) * last
        x = (self.mean - fixed) / ((1 - begin) * (most - last) - level * (first - least))
        if not 0 < x < 1:
            raise ValueError(f"{self.name}: no curve through these points has the mean {self.mean}")
        return 1 / x - 1

    def quantile(self, u: NDArray[np.float64]) -> NDArray[np.float64]:
        """The time at these levels (0 to 1), milliseconds."""
        g = self._exponent()
        levels, times = (np.array(v) for v in zip(*self.points))
        out = np.interp(u, levels, times)
        level, least, first = self._low()
        low = u < level
        out[low] = least + (first - least) * (u[low] / level) ** (1 / g)
        (begin, last), (_, most) = self.points[-2:]
        high = u > begin
        out[high] = last + (most - last) * ((u[high] - begin) / (1 - begin)) ** g
        return np.asarray(out)

    def times(self, samples: int, seed: int = 0) -> NDArray[np.float64]:
        """Seconds that each of so many samples takes, in plan order."""
        u = (np.arange(samples) + 0.5) / samples
        return np.random.default_rng(seed).permutation(self.quantile(u)) / 1000

    def parts(self, seconds: float) -> list[float]:
        """What its transforms take of a sample's time; of speech the light step, the heavy one and 8 ms of features."""
        if self.stages:
            return [seconds / self.stages] * self.stages
        light = min(seconds, 0.508) - 0.008
        return [light, seconds - light - 0.008, 0.008]


WORKLOADS = {
    w.name: w
    for w in (
        Workload("detection", 31, ((0, 11), (0.5, 28), (0.75, 30), (0.9, 35), (1, 176)), 48, 48 * 250),
        Workload("segmentation", 500, ((0, 10), (0.5, 470), (0.75, 630), (0.9, 750), (1, 2230)), 3, 42),
        Workload("speech-3s", 998, ((0, 8), (0.5, 508), (0.8, 508), (0.8, 3008), (1, 3008)), 24, 24 * 250, None),
        Workload("speech-10s", 2351, ((0, 8), (0.5, 508), (0.8, 508), (0.8, 10008), (1, 10008)), 24, 24 * 250, None),
    )
}
