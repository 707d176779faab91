"""The loss of one domain over its samples: smoothed as it grows, and fitted."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np

from .. import _leat

ALPHA_MAX, LOG_BETA_MAX, HUBER_DELTA = 0.8, 6.5, 1e-3  #: of the published fit
LEAST_POINTS = 8  #: of a curve that is fitted

Floats = np.ndarray[Any, np.dtype[np.float64]]


class Curve:
    """Points (n, loss) of a domain. Of the losses only the last window is kept as measured; those before it are
    smoothed for good, because no later loss changes them, and every `keep_every`-th stays.

        kept, smoothed           | window: as measured
        * . . . * . . . * . . . *|. . * . . . * . . . * . .
                                       ^ its middle is the next to be smoothed for good
    """

    def __init__(self, window: int, degree: int, keep_every: int, max_points: int) -> None:
        self.window, self.degree, self.keep_every, self.max_points = window, degree, keep_every, max_points
        self.count = 0  #: of all losses
        self.fits = 0
        self.recent: list[tuple[int, float]] = []
        self.kept: list[tuple[int, float]] = []

    def add(self, n: int, loss: float) -> None:
        self.recent.append((n, loss))
        self.count += 1
        if len(self.recent) > self.window:
            del self.recent[0]
        half, first = self.window // 2, self.count - len(self.recent)
        if self.count == self.window:
            self._keep(self._smoothed(0, half + 1))
        elif self.count > self.window and (first + half) % self.keep_every == 0:
            self._keep(self._smoothed(half, half + 1))

    def _smoothed(self, begin: int, end: int) -> list[tuple[int, float]]:
        """The points of the window from `begin` to `end` that are kept."""
        first = self.count - len(self.recent)
        begin += -(first + begin) % self.keep_every
        if begin >= end:
            return []
        out = np.empty((end - begin - 1) // self.keep_every + 1)
        values = np.array([loss for _, loss in self.recent])
        _leat.curve_smooth(values, self.window, self.degree, begin, self.keep_every, out)
        numbers = [n for n, _ in self.recent[begin : end : self.keep_every]]
        return [(n, max(float(loss), 1e-9)) for n, loss in zip(numbers, out)]

    def _keep(self, points: list[tuple[int, float]]) -> None:
        self.kept += points
        while len(self.kept) > self.max_points:
            self.kept = self.kept[::2]
            self.keep_every *= 2

    def points(self) -> tuple[Floats, Floats]:
        """All points: samples and smoothed losses."""
        begin = 0 if self.count < self.window else self.window // 2 + 1
        points = self.kept + self._smoothed(begin, len(self.recent))
        return np.array([n for n, _ in points], np.float64), np.array([loss for _, loss in points])

    def fit(self, law: tuple[float, float, float] | None, floor: float) -> tuple[float, float, float] | None:
        """(alpha, ln beta, ln eps), from the fit before on; that, where the points are too few."""
        n, loss = self.points()
        if len(n) < LEAST_POINTS or n[0] == n[-1]:
            return law
        self.fits += 1
        again = self.fits & (self.fits - 1) == 0  # fits 1, 2, 4, 8, ... look for other minima, at some more cost
        return _leat.power_law_fit(n, loss, (HUBER_DELTA, ALPHA_MAX, LOG_BETA_MAX, floor), None if again else law)[:3]

    def state_dict(self) -> dict[str, Any]:
        return {
            "count": self.count,
            "fits": self.fits,
            "keep_every": self.keep_every,
            "recent": _text(self.recent),
            "kept": _text(self.kept),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.count, self.fits, self.keep_every = int(state["count"]), int(state["fits"]), int(state["keep_every"])
        self.recent, self.kept = _points(state["recent"]), _points(state["kept"])


def _text(points: list[tuple[int, float]]) -> str:
    """Little-endian float64, in base64: as many bits as there are, and short."""
    return base64.b64encode(np.array(points, "<f8").tobytes()).decode()


def _points(text: str) -> list[tuple[int, float]]:
    table = np.frombuffer(base64.b64decode(text, validate=True), "<f8").reshape(-1, 2)
    if not np.isfinite(table).all():
        raise ValueError("a loss curve in the state has numbers that are not finite")
    return [(int(n), float(loss)) for n, loss in table.tolist()]
