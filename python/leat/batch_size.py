"""Controllers that decide the batch size of a loader while a model trains, from gradients of parts of its batches.

    batch.split(32) --> a gradient each --> observe, observe, ...    mean and spread of the gradient, over all ranks
                                            step(loader)             rule: a new size? loader.set_batch_size

The size is an entry of the loader's log like one that is set by hand, so a run repeats and resumes from its state, and
each epoch has each row once, whatever sizes are decided.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from . import check, ranks
from .errors import StateError
from .loading.loader import Loader


class Observed(NamedTuple):
    """The observations in the parts of a step, of all ranks together."""

    variance: float  #: of the gradient of one sample: the sum over coordinates, estimated without bias
    squared_norm: float  #: of the mean gradient
    rows: int  #: that the gradients are of
    parts: int  #: gradients that were observed
    batch_size: int  #: of all ranks, as it is now


class BatchSize:
    """Decides batch sizes by a rule.

    Args:
        rule: a function of :class:`Observed` that returns the wanted rows of all ranks together. It must return the
            same on each rank, as a function of its arguments does.
        max_batch_size, min_batch_size: bounds, of all ranks together.
        every: the rule is asked in each n-th step; ``due`` says whether in this one.

    >>> loader = leat.Loader(leat.open(path), batch_size=8)
    >>> control = leat.BatchSize(lambda seen: seen.batch_size * 2, max_batch_size=30)
    >>> for batch in loader:
    ...     for part in batch.split(4):
    ...         control.observe(part["x"].mean(0), part.size)  # in the place of a gradient
    ...     size = control.step(loader)
    >>> [entry["global_batch"] for entry in loader.log]
    [8, 16, 30]
    """

    def __init__(
        self, rule: Callable[[Observed], float], max_batch_size: int, *, min_batch_size: int = 1, every: int = 1
    ) -> None:
        if not callable(rule):
            raise TypeError(f"rule is a function of what was observed, not {rule!r:.60}")
        self.rule = rule
        self.min_batch_size = check.integer("min_batch_size", min_batch_size, 1)
        self.max_batch_size = check.integer("max_batch_size", max_batch_size, self.min_batch_size)
        self.every = check.integer("every", every, 1)
        self.steps = 0  #: that were taken
        self.seen: Observed | None = None  #: by the last step that the rule was asked in
        self._forget()

    def _forget(self) -> None:
        self._mean: Any = None
        self._rows, self._parts, self._spread = 0, 0, 0.0

    @property
    def due(self) -> bool:
        """Whether the rule is asked in this step. In others gradients need not be observed."""
        return (self.steps + 1) % self.every == 0

    def observe(self, gradient: Any, rows: int = 1) -> None:
        """Takes the mean gradient of `rows` samples: of a part of the batch, or of one sample. It keeps only a
        mean and a number.

        Args:
            gradient: a tensor or array, or several, one per parameter (None: it has no gradient).
            rows: samples that it is the mean of.

        Raises:
            ValueError: it has another size than those before, or is NaN or infinite.
        """
        if not self.due:
            return
        flat = _flat(gradient)
        rows = check.integer("rows", rows, 1)
        if self._mean is not None and flat.shape != self._mean.shape:
            raise ValueError(f"a gradient of {len(flat)} numbers, where those before had {len(self._mean)}")
        if not math.isfinite(_sum_of_squares(flat, flat)):
            raise ValueError("a gradient that is NaN or infinite says nothing about the batch size")
        self._rows += rows
        self._parts += 1
        if self._mean is None:
            self._mean = flat
            return
        off = flat - self._mean  # Welford's way, weighted
        self._mean = self._mean + off * (rows / self._rows)
        self._spread += rows * _sum_of_squares(off, flat - self._mean)

    def step(self, loader: Loader) -> int:
        """Ends a step: asks the rule, and sets the size from the first batch not yet handed out. If a single part was
        observed, as of the last rows of an epoch, the size stays.

        On several ranks each calls it in the same steps. They exchange their means, and decide the same. Sizes are then
        multiples of the number of ranks.

        Returns:
            rows of all ranks that the next batch has.

        Raises:
            ValueError: no gradient was observed; the result of the rule is no number; ``loader.set_batch_size`` refuses
                (:class:`leat.BudgetError`).
        """
        due, world = self.due, loader.world_size
        now = loader.global_batch_size
        try:
            seen = self._together(now, loader._distributed) if due else None
            if seen is not None:
                self.seen = seen
                size = self._bounded(self.rule(seen), world)
                if loader._distributed:
                    size = ranks.largest(size)
                if size != now:
                    now = size
                    loader.set_batch_size(global_batch_size=size, at=_next_step(loader) if world > 1 else None)
            self.steps += 1
        finally:
            self._forget()
        return now

    def _together(self, now: int, distributed: bool) -> Observed | None:
        """None: one part alone shows no spread."""
        rows, parts, spread, mean = self._rows, self._parts, self._spread, self._mean
        if distributed:
            rows, parts, spread, mean = ranks.pooled(rows, parts, spread, mean)
        if not parts:
            raise ValueError("no gradient was observed in this step: observe those of the parts, batch.split(n)")
        if parts < 2:
            return None
        return Observed(spread / (parts - 1), _sum_of_squares(mean, mean), rows, parts, now)

    def _bounded(self, wanted: float, world: int) -> int:
        if not isinstance(wanted, (int, float, np.number)) or math.isnan(wanted):
            raise ValueError(f"the rule gives rows of a batch, not {wanted!r:.60}")
        size = math.ceil(min(max(wanted, self.min_batch_size), self.max_batch_size))
        return max(min(-(-size // world), self.max_batch_size // world), 1) * world

    def state_dict(self) -> dict[str, Any]:
        """How many steps were taken; the size is in the state of the loader."""
        return {"steps": self.steps}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes on from a state.

        Raises:
            ValueError: it is none (:class:`leat.StateError`).
        """
        if not isinstance(state, Mapping) or type(state.get("steps")) is not int or state["steps"] < 0:
            raise StateError("not a state of a controller: give what its state_dict() gave")
        self.steps = state["steps"]
        self._forget()


class NormTest(BatchSize):
    """The norm test of AdAdaGrad (arXiv 2402.11215), after Byrd, Chin, Nocedal and Wu (2012): the batch grows if the
    gradient is noisier than eta times its length.

        b+ = ceil(|Var(gradient of a sample)|_1 / (eta^2 |mean gradient|^2)),    b = max(b, b+)

    Args:
        eta: the relative noise that is allowed, above 0; a smaller one makes batches grow earlier.
        max_batch_size, min_batch_size, every: as for :class:`leat.BatchSize`.

    >>> loader = leat.Loader(leat.open(path), batch_size=8)
    >>> control = leat.NormTest(eta=0.5, max_batch_size=64)
    >>> batch = next(iter(loader))
    >>> for gradient in ([1.0, 2.0], [3.0, 2.0]):  # of 4 samples each: variance 8, squared norm 8
    ...     control.observe(np.array(gradient), 4)
    >>> control.step(loader), control.seen.variance, control.seen.squared_norm
    (8, 8.0, 8.0)
    """

    def __init__(self, eta: float, max_batch_size: int, *, min_batch_size: int = 1, every: int = 1) -> None:
        if isinstance(eta, bool) or not isinstance(eta, (int, float)) or not 0 < eta < math.inf:
            raise ValueError(f"eta is a number above 0, not {eta!r:.60}")
        self.eta = float(eta)
        super().__init__(self._test, max_batch_size, min_batch_size=min_batch_size, every=every)

    def _test(self, seen: Observed) -> float:
        allowed = self.eta**2 * seen.squared_norm
        needed = math.inf if seen.variance > 0 else 0.0
        return max(seen.batch_size, seen.variance / allowed if allowed > 0 else needed)


def _next_step(loader: Loader) -> tuple[int, int]:
    """The first batch that is not handed out: it is the same on ranks that have taken equally many."""
    stats = loader.stats()
    return stats["epoch"], stats["step"]


def _flat(gradient: Any) -> Any:
    """A gradient as one vector of its own."""
    if isinstance(gradient, np.ndarray):
        return gradient.reshape(-1).astype(np.float64)
    if hasattr(gradient, "detach"):
        return _wide(gradient.detach().flatten())
    if not isinstance(gradient, Iterable):
        raise TypeError(f"a gradient is a tensor, or several, not {gradient!r:.60}")
    parts = [_flat(g) for g in gradient if g is not None]
    if not parts:
        raise ValueError("a gradient without any tensor: has backward() run?")
    if isinstance(parts[0], np.ndarray):
        return np.concatenate(parts)
    import torch

    return torch.cat(parts)


def _wide(tensor: Any) -> Any:
    """A copy in at least float32."""
    import torch

    return tensor.to(torch.promote_types(tensor.dtype, torch.float32), copy=True)


def _sum_of_squares(a: Any, b: Any) -> float:
    if isinstance(a, np.ndarray):
        return float(np.vdot(a, b))
    import torch

    return float(torch.dot(a.double(), b.double()))
