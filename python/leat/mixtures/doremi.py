"""DoReMi: domains gain weight by how far their losses are above those of a reference model."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal

from .. import _leat, check
from ..errors import StateError
from .ado import between
from .algorithm import Weights, counted, floats, normalized, total


class DoReMi:
    """Domain reweighting with minimax optimization (Xie et al. 2023, "DoReMi: optimizing data mixtures speeds up
    language model pretraining", arXiv 2305.10429), for ``leat.Loader(mix, mixture=leat.DoReMi(...))``.

    Each report, with the excess loss x = max(loss - reference, 0) of each domain::

        w = w exp(step_size x), divided by its sum
        w = (1 - smoothing) w + smoothing / domains of a weight above 0

    In the paper a proxy model trains on uniform batches, its loss is weighted with w, and the *mean* of w over the run
    is the mixture that a larger model then trains on. ``decide="nothing"`` is that run: `leat.Mix` gives the batches,
    ``loader.mixture.weights`` multiplies the losses, and ``loader.mixture.state()["average"]`` is the result.

    Args:
        reference: losses of the reference model, by domain. They are those of the same data as far as possible. A dict,
            or None: the reports are excess losses already, such as those that are cut at 0 token by token, as in the
            paper.
        step_size: of the exponentiated gradient.
        smoothing: the share of the uniform mixture. A domain that the mixture opens with at weight 0 stays at 0.
        decide: the loader's mixture after every `every` reports: the ``"current"`` weights, their ``"average"`` since
            the beginning, or ``"nothing"``: it stays as it is.
        every: reports from one decision to the next.
        lead: a decision holds from so many steps after the one that was reported.

    Raises:
        ValueError: an argument is out of range.

    >>> doremi = leat.DoReMi({"code": 1.0, "books": 2.0}, every=1)
    >>> doremi.start({"code": 0.5, "books": 0.5})
    >>> weights = doremi.report(0, {"code": 1.7, "books": 2.0}, {}, {})
    >>> round(weights["code"], 3)  # 1 / (1 + exp(-0.7)), and a thousandth of the uniform mixture
    0.668
    """

    def __init__(
        self,
        reference: Mapping[str, float] | None,
        *,
        step_size: float = 1.0,
        smoothing: float = 1e-3,
        decide: Literal["current", "average", "nothing"] = "current",
        every: int = 1000,
        lead: int = 4,
    ) -> None:
        self.reference = None if reference is None else {name: float(loss) for name, loss in reference.items()}
        for name, loss in (self.reference or {}).items():
            if not math.isfinite(loss):
                raise ValueError(f"the reference loss of {name!r} is {loss}")
        self.step_size = between("step_size", step_size, 0, 1e3)
        self.smoothing = between("smoothing", smoothing, 0, 1)
        check.choice("decide", decide, {"current": 0, "average": 1, "nothing": 2})
        self.decide = decide
        self.every = check.integer("every", every, 1)
        self.lead = check.integer("lead", lead, 1)
        self.names: list[str] = []

    def start(self, weights: Weights) -> None:
        self.names = list(weights)
        if self.reference is not None:
            missing = [name for name in self.names if name not in self.reference]
            unknown = [name for name in self.reference if name not in weights]
            if missing or unknown:
                what = f"lack {', '.join(missing)}" if missing else f"name {', '.join(unknown)}, which is no domain"
                raise ValueError(f"the reference losses {what}")
        self.w = list(weights.values())
        self.sums = [0.0] * len(self.w)
        self.updates = 0
        self.excess = [0.0] * len(self.w)

    def report(
        self, step: int, losses: Mapping[str, float], counts: Mapping[str, int], weights: Weights
    ) -> Weights | None:
        if not losses:
            return None
        for k, name in enumerate(self.names):  # a domain that was not measured keeps its last excess, as in the paper
            if name in losses:
                self.excess[k] = max(losses[name] - (self.reference[name] if self.reference else 0.0), 0.0)
        most = max(
            x for w, x in zip(self.w, self.excess) if w > 0
        )  # dividing by its power changes nothing, and nothing overflows
        grown = normalized([w * _leat.exp(self.step_size * (x - most)) for w, x in zip(self.w, self.excess)])
        share = self.smoothing / sum(w > 0 for w in self.w)
        self.w = normalized([(1 - self.smoothing) * new + share * (w > 0) for w, new in zip(self.w, grown)])
        self.sums = [total + w for total, w in zip(self.sums, self.w)]
        self.updates += 1
        if self.decide == "nothing" or (step + 1) % self.every:
            return None
        return dict(zip(self.names, self.w if self.decide == "current" else normalized(self.sums)))

    @property
    def weights(self) -> Weights:
        """The current weights."""
        return dict(zip(self.names, self.w))

    @property
    def average(self) -> Weights:
        """The mean of the weights over all reports: the result of the paper's proxy run."""
        return dict(zip(self.names, normalized(self.sums) if self.updates else self.w))

    def state(self) -> dict[str, Weights]:
        """By domain: the last excess loss, the current weights of the method, and their average."""
        return {
            "excess": dict(zip(self.names, self.excess)),
            "current": self.weights,
            "average": self.average,
        }

    def state_dict(self) -> dict[str, Any]:
        return {"w": list(self.w), "sums": list(self.sums), "updates": self.updates, "excess": list(self.excess)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Goes on from a state of the same domains.

        Raises:
            leat.StateError: it is none; nothing has changed.
        """
        n, updates = len(self.names), counted(state, "updates")
        w, sums, excess = (floats(state, name, n, 0) for name in ("w", "sums", "excess"))
        if not 0 < total(w) < math.inf or (updates and not 0 < total(sums) < math.inf):
            raise StateError(f"the state of DoReMi is damaged: its weights are {w!r:.60}")
        self.w, self.sums, self.excess, self.updates = w, sums, excess, updates
