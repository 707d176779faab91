"""The loss of one domain over its samples: smoothed as it grows, and fitted."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np

from .. import _leat
from ..errors import StateError
from .algorithm import counted

ALPHA_MAX, LOG_BETA_MAX, HUBER_DELTA = 0.8, 6.5, 1e-3  #: of the published fit
LEAST_POINTS = 8  #: of a curve that is fitted
FINE = 1 << 20  #: logarithms of losses are kept in such parts: a millionth of the loss, far below its noise

Floats = np.ndarray[Any, np.dtype[np.float64]]


class Curve:
    """Points (n, loss) of a domain, the loss as a whole number (`FINE`). Only the last window of the losses is kept as
    measured; those before it are smoothed for good, because no later loss changes them, and every `keep_every`-th
    stays.

        kept, smoothed           | window: as measured
        * . . . * . . . * . . . *|. . * . . . * . . . * . .
                                       ^ its middle is the next to be smoothed for good
    """

    def __init__(self, window: int, degree: int, keep_every: int, max_points: int) -> None:
        self.window, self.degree, self.keep_every, self.max_points = window, degree, keep_every, max_points
        self.count = 0  #: of all losses
        self.fits = 0
        self.recent: list[tuple[int, int]] = []
        self.kept: list[tuple[int, int]] = []

    def add(self, n: int, loss: float) -> None:
        self.recent.append((n, _whole(loss)))
        self.count += 1
        if len(self.recent) > self.window:
            del self.recent[0]
        half, first = self.window // 2, self.count - len(self.recent)
        if self.count == self.window:
            self._keep(self._smoothed(0, half + 1))
        elif self.count > self.window and (first + half) % self.keep_every == 0:
            self._keep(self._smoothed(half, half + 1))

    def _smoothed(self, begin: int, end: int) -> list[tuple[int, int]]:
        """The points of the window from `begin` to `end` that are kept."""
        first = self.count - len(self.recent)
        begin += -(first + begin) % self.keep_every
        if begin >= end:
            return []
        out = np.empty((end - begin - 1) // self.keep_every + 1)
        values = np.array([_loss(part) for _, part in self.recent])
        _leat.curve_smooth(values, self.window, self.degree, begin, self.keep_every, out)
        numbers = [n for n, _ in self.recent[begin : end : self.keep_every]]
        return [(n, _whole(max(float(loss), 1e-9))) for n, loss in zip(numbers, out)]

    def _keep(self, points: list[tuple[int, int]]) -> None:
        self.kept += points
        while len(self.kept) > self.max_points:
            self.kept = self.kept[::2]
            self.keep_every *= 2

    def points(self) -> tuple[Floats, Floats]:
        """All points: samples and smoothed losses."""
        begin = 0 if self.count < self.window else self.window // 2 + 1
        points = self.kept + self._smoothed(begin, len(self.recent))
        return np.array([n for n, _ in points], np.float64), np.array([_loss(part) for _, part in points])

    def fit(self, law: tuple[float, float, float] | None, floor: float) -> tuple[float, float, float] | None:
        """(alpha, ln beta, ln eps), from the fit before on; that one, if the points are too few."""
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
        """Goes on from a state.

        Raises: leat.StateError: it is no state; nothing has changed.
        """
        count, fits, keep_every = counted(state, "count"), counted(state, "fits"), counted(state, "keep_every", 1)
        try:
            recent, kept = _points(state["recent"]), _points(state["kept"])
        except (KeyError, TypeError, ValueError) as e:
            raise StateError(f"the state is damaged: {e!r:.120}") from None
        if not min(count, self.window) <= len(recent) <= count:
            raise StateError(f"the state is damaged: a loss curve of {count} losses has {len(recent)} of the last ones")
        self.count, self.fits, self.keep_every, self.recent, self.kept = count, fits, keep_every, recent, kept


def _whole(loss: float) -> int:
    return round(_leat.ln(loss) * FINE)


def _loss(part: int) -> float:
    return min(max(_leat.exp(part / FINE), 1e-9), 1e9)


def _text(points: list[tuple[int, int]]) -> str:
    """Differences of neighbours, as numbers of seven bits a byte whose lowest bit is the sign, in base64."""
    out = bytearray()
    last = (0, 0)
    for point in points:
        for value in (point[0] - last[0], point[1] - last[1]):
            rest = 2 * value if value >= 0 else -2 * value - 1
            while rest >= 128:
                out.append(rest & 127 | 128)
                rest >>= 7
            out.append(rest)
        last = point
    return base64.b64encode(out).decode()


def _points(text: str) -> list[tuple[int, int]]:
    values, rest, shift = [0, 0], 0, 0
    for byte in base64.b64decode(text, validate=True):
        rest |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            values.append(values[-2] + (rest // 2 if rest % 2 == 0 else -(rest + 1) // 2))
            rest, shift = 0, 0
        elif shift > 63:
            raise ValueError("a number of a loss curve in the state is too long")
    if shift or len(values) % 2:
        raise ValueError("a loss curve in the state is cut")
    points = list(zip(values[2::2], values[3::2], strict=True))
    if any(n < 1 or abs(part) > 64 * FINE for n, part in points):
        raise ValueError("a loss curve in the state has numbers that are no losses")
    return points
