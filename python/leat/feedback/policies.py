"""Policies: the rows that a loader reads in an epoch, decided as the epoch begins, from earlier reports."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

from .. import _leat
from ..data.dataset import positions_array
from .table import Array, Table

DRAWS = (1 << 64) - 1  #: takes the place of a row in the key of an epoch's draws
NEARLY = 1e-9  #: a share of a number of batches may be rounded below the whole number that it is meant to be


class Rows(NamedTuple):
    """The rows of an epoch."""

    positions: Array | None  #: int64; None: those that the loader was opened with
    selects: bool = False  #: these samples in the loader's own order, and not these rows in this order


ALL = Rows(None)


@dataclass(frozen=True)
class Run:
    """A policy's knowledge of the loader."""

    samples: int
    seed: int
    global_batch: int  #: rows of all ranks, as the run was opened
    drops: bool  #: the last rows of an epoch are left out
    resized: bool  #: the batch size has been changed, by `set_batch_size` or as the run was resumed
    opened: Callable[[], Array]  #: positions of the rows of epoch 0, as the loader was opened


class Policy(Protocol):
    """The decider of the rows of epochs. `decide` is called as each epoch begins, and must give the same on each
    rank."""

    def decide(self, table: Table, epoch: int, run: Run) -> Rows: ...


def _share(name: str, value: float) -> float:
    value = float(value)
    if not 0 < value <= 1:
        raise ValueError(f"{name} is a share above 0 and up to 1, not {value}")
    return value


def part_of(share: float, n: int) -> int:
    """floor(share * n), at least 1."""
    return max(1, min(n, math.floor(share * n + NEARLY)))


def _reported(policy: Policy, table: Table, epoch: int) -> bool:
    """Whether anything was, which is said where it is not after an epoch."""
    if table.count.any():
        return True
    if epoch > 0:
        warnings.warn(
            f"{policy!r} has no {table.name} to select by: epochs have all samples until loader.report(batch, "
            f"{table.name}=values) is called",
            stacklevel=7,  # of who asked for the epoch
        )
    return False


class TopBatches:
    """``feedback=leat.TopBatches(delta)``: trains on the mini-batches that had the highest loss.

    Epoch 0 has all B mini-batches, and their losses are reported. Each later epoch has the floor(`delta` B) of them, at
    least 1, whose last mean loss is the highest, in the order of epoch 0. Mini-batches keep the rows that they had in
    epoch 0, so the batch size stays, in a resumed run too: another one is a ValueError as the next epoch begins. Only
    those that were trained get new losses. (Sahayam, Zakkam and Umarani, "Can we learn better with hard samples?",
    arXiv 2304.03486.)

    The rows of the others are neither read nor decoded. An epoch has fewer steps; the paper trains until there were as
    many steps as B times its number of epochs.

    Args:
        delta: the share of the mini-batches that is trained.
        metric: the name under which losses are reported.

    >>> loader = leat.Loader(leat.open(path), 10, feedback=leat.TopBatches(0.3))
    >>> for batch in loader:
    ...     loader.report(batch, loss=batch["label"].float())
    >>> [batch.ids[0].item() for batch in loader]
    [0, 10, 20]
    """

    def __init__(self, delta: float, *, metric: str = "loss") -> None:
        self.delta = _share("delta", delta)
        self.metric = metric

    def __repr__(self) -> str:
        return f"TopBatches({self.delta}, metric={self.metric!r})"

    def losses(self, table: Table, run: Run) -> Array:
        """The mean of the last values of each mini-batch of epoch 0: float64. Infinite: it was not trained yet."""
        order = run.opened()
        if run.drops:
            order = order[: len(order) // run.global_batch * run.global_batch]
        begins = np.arange(0, len(order), run.global_batch)
        known = np.add.reduceat(table.known[order].astype(np.int64), begins) if len(order) else np.empty(0, np.int64)
        sums = np.add.reduceat(table.value[order].astype(np.float64), begins) if len(order) else np.empty(0)
        return np.where(known > 0, sums / np.maximum(known, 1), np.inf)

    def decide(self, table: Table, epoch: int, run: Run) -> Rows:
        if epoch == 0:
            return ALL
        table = table[self.metric]
        if not table.count.any():
            raise ValueError(
                f"no {self.metric} was reported before epoch {epoch}: call loader.report(batch, {self.metric}=losses) "
                "for each batch"
            )
        if run.resized:
            raise ValueError(
                f"TopBatches keeps the mini-batches of epoch 0, of {run.global_batch} rows: their size cannot be "
                "changed, by a resumed run either"
            )
        losses = self.losses(table, run)
        chosen = np.sort(np.argsort(-losses, kind="stable")[: part_of(self.delta, len(losses))])
        order, size = run.opened(), run.global_batch
        return Rows(np.concatenate([order[size * b : size * (b + 1)] for b in chosen]))


class TopFraction:
    """``feedback=leat.TopFraction(fraction)``: each epoch has the samples whose last loss is the highest.

    The epochs before anything was reported have all samples. Samples of which nothing was reported come first. They
    are in the loader's own order: with ``shuffle=True`` shuffled, each epoch anew.

    Args:
        fraction: the share of the samples; floor(fraction N), at least 1.
        metric: the name under which losses are reported.
    """

    def __init__(self, fraction: float, *, metric: str = "loss") -> None:
        self.fraction = _share("fraction", fraction)
        self.metric = metric

    def __repr__(self) -> str:
        return f"TopFraction({self.fraction}, metric={self.metric!r})"

    def decide(self, table: Table, epoch: int, run: Run) -> Rows:
        table = table[self.metric]
        if not _reported(self, table, epoch):
            return ALL
        return Rows(table.top(part_of(self.fraction, run.samples)), selects=True)


class LossWeighted:
    """``feedback=leat.LossWeighted(alpha)``: draws samples with replacement in proportion to loss^alpha.

    The epochs before anything was reported have all samples. A sample of which nothing was reported is as likely as the
    one with the highest loss. The draws are a function of the seed, the epoch and the losses.

    Args:
        alpha: 0: all are as likely; 1: in proportion to the loss.
        num_samples: rows of an epoch, of all ranks together. None: as many as there are samples.
        metric: the name under which losses are reported; they are not negative.
    """

    def __init__(self, alpha: float = 1.0, *, num_samples: int | None = None, metric: str = "loss") -> None:
        self.alpha = float(alpha)
        if not 0 <= self.alpha < math.inf:
            raise ValueError(f"alpha is a finite number from 0 on, not {alpha}")
        if num_samples is not None and num_samples < 1:
            raise ValueError(f"num_samples is at least 1, not {num_samples}")
        self.num_samples = num_samples
        self.metric = metric

    def __repr__(self) -> str:
        return f"LossWeighted({self.alpha}, num_samples={self.num_samples}, metric={self.metric!r})"

    def decide(self, table: Table, epoch: int, run: Run) -> Rows:
        table = table[self.metric]
        if not _reported(self, table, epoch):
            return ALL
        key = _leat.row_key(run.seed, epoch, DRAWS)
        return Rows(table.draw(self.num_samples or run.samples, self.alpha, key))


class Curriculum:
    """``feedback=leat.Curriculum(metric, pacing)``: each epoch has the easiest samples, more of them as training goes
    on.

    Args:
        metric: how difficult each sample is: an array with a number for each sample of the loader's data set, by
            position; the name of a field of one number; or the name of a reported metric, in which samples without a
            value count as the most difficult. The epochs before anything was reported have all samples.
        pacing: ``pacing(epoch)`` is the share of samples that the epoch has; floor(share N), at least 1.

    >>> loader = leat.Loader(leat.open(path), 10, feedback=leat.Curriculum("label", lambda epoch: 0.2 + 0.4 * epoch))
    >>> [sum(len(batch.ids) for batch in loader) for _ in range(3)]
    [20, 60, 100]
    """

    def __init__(self, metric: Any, pacing: Callable[[int], float]) -> None:
        if not callable(pacing):
            raise TypeError(f"pacing is a function of the epoch that gives a share, not {pacing!r:.60}")
        self.metric = metric
        self.pacing = pacing
        self._easier: Array | None = None  # of each sample, how many come before it

    def __repr__(self) -> str:
        return f"Curriculum({self.metric if isinstance(self.metric, str) else 'an array'})"

    def bind(self, dataset: Any) -> None:
        """Reads how difficult samples are."""
        if isinstance(self.metric, str) and self.metric not in dataset.schema:
            return
        values = np.asarray(dataset.column(self.metric) if isinstance(self.metric, str) else self.metric)
        if values.shape != (len(dataset),) or values.dtype.kind not in "biuf":
            raise ValueError(
                f"Curriculum: the metric is {values.dtype} of shape {values.shape}, and there are {len(dataset)} "
                "samples: one number for each is needed"
            )
        if np.isnan(values).any():
            raise ValueError(f"Curriculum: the metric of sample {int(np.isnan(values).argmax())} is NaN")
        n = len(values)
        self._easier = np.empty(n, np.uint32 if n < 1 << 32 else np.int64)
        self._easier[np.argsort(values, kind="stable")] = np.arange(n, dtype=self._easier.dtype)

    def decide(self, table: Table, epoch: int, run: Run) -> Rows:
        share = _share(f"pacing({epoch})", self.pacing(epoch))
        if share == 1:
            return ALL
        k = part_of(share, run.samples)
        if self._easier is None:
            table = table[self.metric]
            if not _reported(self, table, epoch):
                return ALL
            return Rows(table.top(k, least=True), selects=True)
        return Rows(np.flatnonzero(self._easier < k).astype(np.int64, copy=False), selects=True)


class Own:
    """A function ``fn(table, epoch)`` of the user's as a policy."""

    def __init__(self, function: Callable[[Table, int], Any]) -> None:
        self.function = function

    def __repr__(self) -> str:
        return getattr(self.function, "__name__", type(self.function).__name__)

    def decide(self, table: Table, epoch: int, run: Run) -> Rows:
        given = self.function(table, epoch)
        if given is None:
            return ALL
        array = np.asarray(given.detach().cpu() if hasattr(given, "detach") else given)
        if array.dtype.kind == "b" and array.shape == (run.samples,):
            return Rows(np.flatnonzero(array).astype(np.int64), selects=True)
        if array.dtype.kind != "f" or not array.size:
            return Rows(positions_array(array, run.samples))
        if array.shape != (run.samples,):
            raise ValueError(f"weights are one for each of {run.samples} samples, not of shape {array.shape}")
        if not array.any():
            raise ValueError("weights are 0 for every sample: at least one is above 0")
        found = np.empty(run.samples, np.int64)
        array = array.astype(np.float64)
        # of the greatest: float32 has a narrower range, and draws stay the same; what is refused keeps its value
        exponent = np.frexp(array.max())[1] if array.min() >= 0 else 0
        weights = np.ldexp(array, -exponent).astype(np.float32)
        _leat.select_weighted(weights, False, 1.0, _leat.row_key(run.seed, epoch, DRAWS), found)
        return Rows(found)


def policy_of(given: Any) -> Policy:
    """The policy that the argument ``feedback=`` is.

    Raises:
        TypeError: it is none.
    """
    if callable(getattr(given, "decide", None)) and not isinstance(given, type):
        policy: Policy = given
        return policy
    if callable(given) and not isinstance(given, type):
        return Own(given)
    raise TypeError(
        f"feedback is a policy such as leat.TopBatches(0.3), or a function of (table, epoch), not {given!r:.60}"
    )
