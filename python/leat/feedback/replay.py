"""The decisions of another run, made again: each as its epoch begins, from the log and the lists beside it."""

from __future__ import annotations

import base64
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import StateError
from ..loading import states
from ..loading.samplers import load_list
from .policies import Rows
from .table import Array

if TYPE_CHECKING:
    from .deciding import Deciding


def has_lists(log: Sequence[Mapping[str, Any]]) -> bool:
    return any("list" in entry for entry in log)


class Replay:
    """Repeats a log in which epochs have lists of positions."""

    def __init__(self, log: Sequence[Mapping[str, Any]], folder: str | None) -> None:
        self._folder = folder
        self._done = -1  # the last epoch whose decisions were made
        self._epochs: dict[int, list[tuple[int, Mapping[str, Any]]]] = {}
        steps = states.Steps()
        for entry in log:
            step = steps.enter(entry)
            if entry["kind"] != "open":
                self._epochs.setdefault(entry["epoch"], []).append((step, entry))

    def loaded(self, log: Sequence[Mapping[str, Any]]) -> None:
        """A state was loaded, whose log has the decisions of the epochs before it, and of its own."""
        self._done = max((entry["epoch"] for entry in log if entry["kind"] != "open"), default=-1)

    def begin(self, loader: Deciding, epoch: int) -> None:
        """Makes the decisions of an epoch, and of those before it that were left out."""
        for number in sorted(n for n in self._epochs if self._done < n <= epoch):
            for step, entry in self._epochs[number]:
                self._repeat(loader, step, entry)
            self._done = number

    def _repeat(self, loader: Deciding, step: int, entry: Mapping[str, Any]) -> None:
        epoch = entry["epoch"]
        if "list" in entry:
            told = entry["list"]
            loader._decide_rows(
                Rows(None) if told is None else Rows(self._positions(told, epoch), bool(told.get("selects"))), epoch
            )
        if rows := entry.get("global_batch"):
            if rows % loader.world_size:
                raise StateError(
                    f"the log has batches of {rows} rows, which {loader.world_size} ranks cannot share equally"
                )
            loader._core.set_batch_size(rows // loader.world_size, epoch, step)
            loader._global = rows
            loader._decided()

    def _positions(self, told: Mapping[str, Any], epoch: int) -> Array:
        if "positions" in told:
            return positions_of(told["positions"])
        found = None if self._folder is None else load_list(self._folder, str(told["hash"]))
        if found is None:
            raise StateError(
                f"the log has only the hash of the {told['n']} rows of epoch {epoch} ({told['hash']}): open the loader "
                f"with the log_dir of that run, which has them in positions-{told['hash']}.npy"
            )
        return found


def positions_of(text: str) -> Array:
    """Positions as a state has them (docs/order.md): differences, zigzag, base-128 varints, base64.

    Raises:
        StateError: it is not that.
    """
    try:
        data = np.frombuffer(base64.b64decode(text, validate=True), np.uint8)
    except (ValueError, TypeError):
        raise StateError("a list of positions in the log is not base64") from None
    if len(data) == 0:
        return np.empty(0, np.int64)
    last = data < 128
    ends = np.flatnonzero(last)
    begins = np.concatenate([[0], ends[:-1] + 1]) if len(ends) else ends
    if not last[-1] or int((ends - begins).max()) > 8:
        raise StateError("a list of positions in the log is damaged")
    shifts = 7 * (np.arange(len(data)) - np.repeat(begins, ends - begins + 1)).astype(np.uint64)
    z = np.add.reduceat((data & 127).astype(np.uint64) << shifts, begins)
    steps = (z >> np.uint64(1)).astype(np.int64) ^ -(z & np.uint64(1)).astype(np.int64)
    found: Array = np.cumsum(steps)
    return found


def folder_of(log: Any, given: str | None) -> str | None:
    """Where the lists of a log lie: in the loader's own folder, or beside the file that the log is."""
    if given is None and isinstance(log, (str, os.PathLike)):
        return os.path.dirname(os.fspath(log)) or "."
    return given
