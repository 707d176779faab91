"""Adaptive data optimization: the weights of domains follow how fast their losses still fall."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal

from .. import _leat, check
from ..errors import StateError
from .algorithm import Weights, floats, normalized, total
from .curve import Curve

LEAST_LN = -30.0  #: of eps: as good as no floor


class ADO:
    """Adaptive data optimization (Jiang et al. 2024, "Adaptive data optimization: dynamic sample selection with scaling
    laws", arXiv 2410.11820), for ``leat.Loader(mix, mixture=leat.ADO(...))``.

    A power law L(n) = eps + beta n^-alpha is fitted to the loss of each domain over its samples n. The weights follow
    the speed at which it falls, alpha (L(n) - eps) / n, times the domain's opening weight mu, times a credit for how
    much of the domain was in the last batches::

        h    = gamma1 q + (1 - gamma1) h               q: the domain's share of this step
        rho  = mu h^s alpha (L(n) - eps) / n           then divided by its sum; at least delta; divided by its sum
        pi   = gamma2 rho + (1 - gamma2) mean          what is decided
        mean = rho / (t + 1) + (1 - 1 / (t + 1)) mean  of the steps before

    All of it is computed with the same bits on every machine, so that ranks which report the same decide the same.

    Args:
        refit_every: reports from one fit, and decision, to the next. Between them weights stay, so that the log stays
            short.
        skip: reports whose losses are not fitted, because learning begins otherwise; None: half of `refit_every`.
        credit: the meaning of q: ``"delivered"``: the share that the step had; ``"asked"``: the weight that held.
        eps_floor: the least eps, in the unit of the loss. The published fit has 1.65 nats (ln eps >= 0.5), which is
            above the loss of easy domains. None: any.
        gamma1, gamma2, s, delta: as above; the published numbers.
        samples: the unit of n: ``"own"`` samples of the domain, or ``"all"``, as the published code does.
        alpha_min: the least alpha that a speed is computed with (0.05 in the published code).
        smooth: window and degree of the filter of Savitzky and Golay that losses go through first.
        keep_every: every so manieth loss is fitted; None: every tenth, and more where refits follow each other sooner.
        max_points: of a curve. Beyond it every second point is left out, of later ones too. A state has them all, some
            3 kB a domain for 500.
        lead: a decision holds from so many steps after the one that was reported: more than a prefetcher has taken
            ahead of training.

    Raises:
        ValueError: an argument is out of range.

    >>> ado = leat.ADO(refit_every=200)
    >>> ado.start({"code": 0.5, "books": 0.5})
    >>> law = {"code": lambda n: 1 + 9 * n**-0.5, "books": lambda n: 2 + 1 * n**-0.5}
    >>> for step in range(400):
    ...     counts = {"code": 8, "books": 8}
    ...     losses = {name: f(8 * (step + 1)) for name, f in law.items()}
    ...     weights = ado.report(step, losses, counts, {"code": 0.5, "books": 0.5})
    >>> weights["code"] > 0.6
    True
    """

    def __init__(
        self,
        refit_every: int = 1000,
        *,
        skip: int | None = None,
        credit: Literal["delivered", "asked"] = "delivered",
        eps_floor: float | None = None,
        gamma1: float = 0.1,
        gamma2: float = 0.1,
        s: float = 0.5,
        delta: float = 0.01,
        samples: Literal["own", "all"] = "own",
        alpha_min: float = 0.0,
        smooth: tuple[int, int] = (101, 3),
        keep_every: int | None = None,
        max_points: int = 500,
        lead: int = 4,
    ) -> None:
        self.refit_every = check.integer("refit_every", refit_every, 1)
        self.skip = self.refit_every // 2 if skip is None else check.integer("skip", skip)
        self.delivered = not check.choice("credit", credit, {"delivered": 0, "asked": 1})
        self.own = not check.choice("samples", samples, {"own": 0, "all": 1})
        self.gamma1, self.gamma2 = between("gamma1", gamma1, 0, 1), between("gamma2", gamma2, 0, 1)
        self.s, self.delta = between("s", s, 0, 10), between("delta", delta, 0, 1)
        self.alpha_min = between("alpha_min", alpha_min, 0, 0.8)
        self.eps_floor = None if eps_floor is None else between("eps_floor", eps_floor, 1e-9, 1e9)
        window, degree = (check.integer("smooth", value) for value in smooth)
        if window % 2 == 0 or not degree < window <= 10001 or degree > 5:
            raise ValueError(f"smooth={smooth}: the window is odd, and the degree at most 5 and below it")
        self.smooth = (window, degree)
        often = max(1, min(10, self.refit_every // 20))
        self.keep_every = often if keep_every is None else check.integer("keep_every", keep_every, 1)
        self.max_points = check.integer("max_points", max_points, 16)
        self.lead = check.integer("lead", lead, 1)
        self.names: list[str] = []

    # ---- the interface of algorithms ---------------------------------------------------------------------------------

    def start(self, weights: Weights) -> None:
        if self.delta * len(weights) >= 1:
            raise ValueError(
                f"delta={self.delta:g} for each of {len(weights)} domains leaves nothing to decide: give less than "
                f"{1 / len(weights):g}"
            )
        self.names = list(weights)
        self.mu = list(weights.values())
        self.credit, self.mean, self.pi = list(self.mu), list(self.mu), list(self.mu)
        self.n = [0] * len(self.names)
        self.laws: list[tuple[float, float, float] | None] = [None] * len(self.names)
        self.curves = [Curve(*self.smooth, self.keep_every, self.max_points) for _ in self.names]

    def report(
        self, step: int, losses: Mapping[str, float], counts: Mapping[str, int], weights: Weights
    ) -> Weights | None:
        for name, loss in losses.items():
            if not 1e-9 <= loss <= 1e9:
                raise ValueError(
                    f"the loss of {name!r} is {loss:g}: a power law takes losses above 0, such as cross entropies"
                )
        rows = sum(counts.values())
        for k, name in enumerate(self.names):
            self.n[k] += counts.get(name, 0) if self.own else rows
            if name in losses and self.n[k] and step >= self.skip:
                self.curves[k].add(self.n[k], losses[name])
        if rows:
            for k, name in enumerate(self.names):
                q = counts.get(name, 0) / rows if self.delivered else weights[name]
                self.credit[k] = self.gamma1 * q + (1 - self.gamma1) * self.credit[k]
        refits = (step + 1) % self.refit_every == 0
        if refits:
            self.refit()
        if any(self.laws):
            rho, t = self.preference(), step + 1
            self.pi = normalized([self.gamma2 * r + (1 - self.gamma2) * m for r, m in zip(rho, self.mean)])
            self.mean = [r / (t + 1) + (1 - 1 / (t + 1)) * m for r, m in zip(rho, self.mean)]
            if refits:
                return dict(zip(self.names, self.pi))
        return None

    def state_dict(self) -> dict[str, Any]:
        return {
            "n": list(self.n),
            "credit": list(self.credit),
            "mean": list(self.mean),
            "pi": list(self.pi),
            "laws": [None if law is None else list(law) for law in self.laws],
            "curves": [curve.state_dict() for curve in self.curves],
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Goes on from a state of the same domains.

        Raises:
            leat.StateError: it is none; nothing has changed.
        """
        k = len(self.names)
        credit, mean, pi = (floats(state, name, k, 0) for name in ("credit", "mean", "pi"))
        n, laws, curves = (state.get(name, []) for name in ("n", "laws", "curves"))
        if not isinstance(n, list) or len(n) != k or not all(type(x) is int and 0 <= x < 1 << 63 for x in n):
            raise StateError(f"the state of ADO is damaged: 'n' is not a count for each of {k} domains, but {n!r:.60}")
        for name, found in (("laws", laws), ("curves", curves)):
            if not isinstance(found, list) or len(found) != k:
                raise StateError(f"the state of ADO is damaged: {name!r} is not one for each of {k} domains")
        taken = [None if law is None else _law({"law": law}) for law in laws]
        made = [Curve(*self.smooth, self.keep_every, self.max_points) for _ in self.names]
        for curve, saved in zip(made, curves):
            curve.load_state_dict(saved)
        self.n, self.credit, self.mean, self.pi, self.laws, self.curves = n, credit, mean, pi, taken, made

    # ---- the method --------------------------------------------------------------------------------------------------

    def refit(self) -> None:
        """Fits each domain's curve, from its last fit on. A domain with too few points keeps its fit."""
        floor = LEAST_LN if self.eps_floor is None else _leat.ln(self.eps_floor)
        self.laws = [curve.fit(law, floor) for curve, law in zip(self.curves, self.laws)]

    def slopes(self) -> list[float]:
        """The speed at which the loss of each domain falls, a sample; NaN while no law is fitted yet."""
        return [
            math.nan if law is None else max(law[0], self.alpha_min) * _leat.exp(law[1]) * _leat.power(n, -law[0]) / n
            for law, n in zip(self.laws, self.n)
        ]

    def preference(self) -> list[float]:
        """rho. A domain without a law has its opening weight, and so have all while no loss falls."""
        speed = [
            mu * _leat.power(h, self.s) * slope if law and mu else 0.0
            for mu, h, slope, law in zip(self.mu, self.credit, self.slopes(), self.laws)
        ]
        known = total(mu for mu, law in zip(self.mu, self.laws) if law)
        whole = total(speed)
        if not whole > 0:
            return list(self.mu)
        rho = [known * v / whole if law else mu for v, mu, law in zip(speed, self.mu, self.laws)]
        return normalized([max(r, self.delta) if mu else 0.0 for r, mu in zip(rho, self.mu)])

    def state(self) -> dict[str, Weights]:
        """By domain: alpha, beta and eps of the last fit, and the slopes at the domains' positions; NaN before a
        fit."""
        laws = [(math.nan, math.nan, math.nan) if law is None else law for law in self.laws]
        return {
            "alpha": dict(zip(self.names, (law[0] for law in laws))),
            "beta": dict(zip(self.names, (math.exp(law[1]) for law in laws))),
            "eps": dict(zip(self.names, (math.exp(law[2]) for law in laws))),
            "slopes": dict(zip(self.names, self.slopes())),
        }


def _law(state: Mapping[str, Any]) -> tuple[float, float, float]:
    alpha, beta, eps = floats(state, "law", 3)
    if not 0 <= alpha <= 10 or max(abs(beta), abs(eps)) > 700:
        raise StateError(f"the state of ADO is damaged: {state['law']!r:.60} is no power law")
    return alpha, beta, eps


def between(name: str, value: float, low: float, high: float) -> float:
    """A number of an argument.

    Raises:
        ValueError: it is not from `low` to `high`.
    """
    number = float(value)
    if not low <= number <= high:
        raise ValueError(f"{name} is a number from {low:g} to {high:g}, not {value!r:.60}")
    return number
