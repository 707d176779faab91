"""The decisions of another run, made again: each as its epoch begins, from the log and the lists beside it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .. import _leat
from ..errors import StateError
from ..mixtures.logs import Steps
from .lists import load_list, positions_of
from .policies import Rows
from .table import Array

if TYPE_CHECKING:
    from .deciding import Deciding

Place = tuple[int, int]  #: epoch and row


class Replay:
    """Repeats a log in which epochs have lists of positions."""

    def __init__(self, log: Sequence[Mapping[str, Any]], folder: str | None) -> None:
        self._folder = folder
        self._done = 0  # how many decisions were made
        self._decisions: list[tuple[int, Mapping[str, Any]]] = []  # in the order of their places, with their steps
        steps = Steps()
        for entry in log:
            step = steps.enter(entry)
            if entry["kind"] != "open" and ("list" in entry or "global_batch" in entry):
                self._decisions.append((step, entry))

    def loaded(self, log: Sequence[Mapping[str, Any]]) -> None:
        """A state was loaded, whose log has some of the decisions: for the repeated run those that were made when it
        was saved, and for a loader that repeats it those of all epochs that had begun.
        """
        self._done = self._made(log)

    def check(self, state: Mapping[str, Any]) -> None:
        """Whether the run of a state has made the decisions before its position.

        Raises:
            StateError: it repeats another log.
        """
        left = self._decisions[self._made(state["log"]) :]
        if left and _place(left[0][1]) < _place(state["at"]):
            epoch, row = _place(left[0][1])
            raise StateError(
                f"the state is of a run that repeats another log: it has not decided what this one has for epoch "
                f"{epoch}, row {row}, which lies before its position"
            )

    def _made(self, log: Sequence[Mapping[str, Any]]) -> int:
        """The number of decisions in a log."""
        made: dict[Place, list[Mapping[str, Any]]] = {}
        for entry in log[1:]:
            made.setdefault(_place(entry), []).append(entry)
        folded = _place(log[1]) if len(log) > 1 and log[1]["kind"] == "folded" else (0, 0)
        done = 0
        for number, (_, entry) in enumerate(self._decisions, 1):
            place = _place(entry)
            if place < folded or any(_is_made(entry, other) for other in made.get(place, ())):
                done = number  # and those before it
        return done

    def begin(self, loader: Deciding, epoch: int) -> None:
        """Makes the decisions up to an epoch that were not made yet."""
        while self._done < len(self._decisions) and self._decisions[self._done][1]["epoch"] <= epoch:
            self._repeat(loader, *self._decisions[self._done])
            self._done += 1

    def _repeat(self, loader: Deciding, step: int, entry: Mapping[str, Any]) -> None:
        epoch = entry["epoch"]
        if "list" in entry:
            told = entry["list"]
            loader._decide_rows(
                Rows(None) if told is None else Rows(self._positions(told, epoch), bool(told.get("selects"))),
                epoch,
                step if entry["row"] else 0,
            )
        if rows := entry.get("global_batch"):
            loader._core.set_global_batch_size(rows, epoch, step)
            loader._global = rows
            loader._decided()

    def _positions(self, told: Mapping[str, Any], epoch: int) -> Array:
        if "positions" in told:
            shown = positions_of(told["positions"])
            if _leat.positions_hash(shown) != told.get("hash"):
                raise StateError(f"the list of epoch {epoch} in the log is damaged: it has another hash")
            return shown
        found = None if self._folder is None else load_list(self._folder, str(told["hash"]))
        if found is None:
            raise StateError(
                f"the log has only the hash of the {told['n']} rows of epoch {epoch} ({told['hash']}): open the loader "
                f"with the log_dir of that run, which has them in positions-{told['hash']}.npy"
            )
        return found


def _place(entry: Mapping[str, Any]) -> Place:
    return entry["epoch"], entry["row"]


def _is_made(entry: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether an entry of the same place decides the same as this one. A folded one gives the state there."""
    if "list" in entry and "list" not in other:
        if entry["list"] is not None or other.get("kind") != "folded":
            return False
    elif "list" in entry and _hash(entry) != _hash(other):
        return False
    return entry.get("global_batch") in (None, other.get("global_batch"))


def _hash(entry: Mapping[str, Any]) -> Any:
    return None if entry["list"] is None else entry["list"]["hash"]


def folder_of(log: Any, given: str | None) -> str | None:
    """The folder of the lists of a log: the loader's own, or that of the log's file."""
    if given is None and isinstance(log, (str, os.PathLike)):
        return os.path.dirname(os.fspath(log)) or "."
    return given
