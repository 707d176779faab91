"""The part of a loader that decides sizes of batches and weights of sources, and has the log of all decisions."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .. import _leat, check
from ..data.dataset import Dataset
from ..saved import damage_is_said
from .decisions import Decisions
from .logs import log_of
from .schedule import Schedule
from .steering import Mixture

TEXTS = 16 << 20  #: characters of lists in `loader.log`


class Steering:
    """Decisions that hold from a step on."""

    dataset: Any
    world_size: int
    _check_rows: Callable[[int], None]
    _core: _leat.Loader
    _decisions: Decisions
    _global: int
    _log_dir: str | None
    _mixture: Mixture | None
    _order_of: int
    _texts: dict[str, str]  # lists by hash, as `log` shows them

    def _open_decisions(self, algorithm: Any, writes: bool, log: Any) -> None:
        """Opens the log, which this process `writes` to the folder of the run, and repeats `log`.

        Raises:
            ValueError: there is an algorithm and nothing that it could decide.
        """
        dataset, self._mixture = self.dataset, None
        if algorithm is not None and isinstance(dataset, Dataset):
            raise ValueError("mixture= decides the weights of a leat.Mix, and this loader reads a data set")
        if algorithm is not None and isinstance(dataset, Schedule):
            raise ValueError("a Schedule says its weights itself: give the leat.Mix that mixture= begins with")
        if isinstance(dataset, Dataset):
            self._decisions = Decisions(self._folded_log(), None, False)
        else:
            mix = dataset.first if isinstance(dataset, Schedule) else dataset
            self._mixture = Mixture(self._core, mix.weights, algorithm, self.world_size, self._log_dir, writes)
            self._mixture.keys = mix._keys
            self._decisions = self._mixture.decisions
        if log is not None:
            self._repeat(log)

    # ---- sizes -------------------------------------------------------------------------------------------------------

    @property
    def global_batch_size(self) -> int:
        """Rows per batch of all ranks together, as it was last decided."""
        size: int = next(e["global_batch"] for e in reversed(self._folded_log()) if "global_batch" in e)
        return size

    def set_batch_size(
        self,
        n: int | None = None,
        at: tuple[int, int] | None = None,
        *,
        batch_size: int | None = None,
        global_batch_size: int | None = None,
    ) -> None:
        """Decides the size of batches from here on, in later epochs too: rows per rank, or rows of all ranks together.

        The decision enters the log, and with it the state, so that a resumed run keeps it, as long as it opens with
        the same global batch size (``batch_size`` times the number of ranks); another one is a new decision.
        Prefetched batches are computed again.

        Args:
            n, batch_size: rows per batch and rank; `n` is the same without its name.
            global_batch_size: rows per batch of all ranks, in the place of `batch_size`.
            at: (epoch, step) of the first such batch. None: the first one not yet handed out. On several ranks every
                rank gives the same.

        Raises:
            ValueError: that batch was handed out; on several ranks `at` is missing; so many rows need more than
                `budget_bytes` (:class:`leat.BudgetError`); without `in_order`, within an epoch.
            TypeError: no size, or more than one.
            IndexError: the epoch has no such step.

        >>> loader = leat.Loader(leat.open(path), batch_size=32)
        >>> batches = iter(loader)
        >>> next(batches)["x"].shape[0]
        32
        >>> loader.set_batch_size(batch_size=8)
        >>> next(batches)["x"].shape[0]
        8
        """
        given = {"n": n, "batch_size": batch_size, "global_batch_size": global_batch_size}
        sizes = [(name, check.integer(name, value, 1)) for name, value in given.items() if value is not None]
        if len(sizes) != 1:
            raise TypeError("set_batch_size takes batch_size (rows per rank) or global_batch_size (rows of all ranks)")
        rows = sizes[0][1] * (1 if sizes[0][0] == "global_batch_size" else self.world_size)
        self._check_rows(-(-rows // self.world_size))
        self._core.set_global_batch_size(rows, *((-1, -1) if at is None else check.place(at)))
        self._global = rows
        self._decided()

    # ---- weights -----------------------------------------------------------------------------------------------------

    @property
    def mixture(self) -> Mixture:
        """The mixture as it stands: ``mixture.weights``, ``mixture.state()``, ``mixture.weights_at(epoch, step)``.

        Raises:
            ValueError: the loader reads a data set and no mixture.
        """
        if self._mixture is None:
            raise ValueError("this loader reads a data set, not a leat.Mix: it has no mixture")
        return self._mixture

    def set_mixture(self, weights: Mapping[Any, Any], at: tuple[int, int] | None = None) -> None:
        """Decides other weights of the mixture's domains from here on, in later epochs too.

        The decision enters the log, and with it the state, so that a resumed run keeps it. Prefetched batches are
        computed again.

        Args:
            weights: a number for each domain; they sum to 1. Domains of ``leat.Mix.by`` may be named as there: by
                value, and nested.
            at: (epoch, step) of the first batch under these weights. None: the first one not yet handed out. On several
                ranks every rank gives the same.

        Raises:
            ValueError: the weights do not sum to 1, or one is negative or not finite; a domain is missing or unknown;
                that batch was handed out; on several ranks `at` is missing.
            IndexError: the epoch has no such step.

        >>> ds = leat.open(path)
        >>> loader = leat.Loader(leat.Mix({"a": (ds, 0.5), "b": (ds, 0.5)}), batch_size=8)
        >>> loader.set_mixture({"a": 0.25, "b": 0.75})
        >>> next(iter(loader)).domains.tolist().count(1)
        6
        """
        place = None if at is None else check.place(at)
        if place is None and self.world_size > 1:
            raise ValueError(
                "on several ranks say from which (epoch, step) the weights hold, the same on each: the ranks may have "
                "been handed out different numbers of batches"
            )
        self.mixture.decide(weights, place, "set_mixture")
        self._decided()

    # ---- the log -----------------------------------------------------------------------------------------------------

    @property
    def log(self) -> list[dict[str, Any]]:
        """The decisions that the order follows from, each with the position from which it holds (docs/order.md).

        The first one is what the loader was opened with. In a long run with a Sampler, whose lists are large, the first
        decisions are folded into one; else they are all there as long as this process has made them, or was given them.
        """
        if self._order_of == check.ORDERS["list"]:
            return self._folded_log()
        return self._with_lists(self._decisions.entries())

    def _repeat(self, log: Sequence[Mapping[str, Any]] | str | os.PathLike[str]) -> None:
        """Takes over the decisions of another run's log, from its beginning."""
        entries = log_of(log)
        state = json.loads(self._core.state())
        state["log"] = entries
        with damage_is_said():
            self._core.load_state(json.dumps(state))
        self._decisions.repeat(self._folded_log())

    def _folded_log(self) -> list[dict[str, Any]]:
        """The library's."""
        log: list[dict[str, Any]] = json.loads(self._core.log(0))
        return log

    def _decided(self) -> dict[str, Any]:
        """Takes over the new entries of the library's log: the last ones."""
        new = self._decisions.take(self._core)
        self._note(new)
        return new[-1] if new else {}

    def _note(self, log: Sequence[Mapping[str, Any]]) -> None:
        for entry in log:
            told = entry.get("list")
            if told and "positions" in told:
                self._texts[told["hash"]] = told["positions"]
        while sum(map(len, self._texts.values())) > TEXTS:
            del self._texts[next(iter(self._texts))]

    def _with_lists(self, log: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """A log with the lists that are small enough to stand in it."""
        for entry in log:
            told = entry.get("list")
            if told and told["hash"] in self._texts:
                told["positions"] = self._texts[told["hash"]]
        return log
