"""What a loader's state says: which batch it points at, and which lists of positions it lacks."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

from ..errors import StateError


def step_of(mine: Mapping[str, Any], state: Mapping[str, Any]) -> tuple[int, int]:
    """The batch that a state points at, of a loader whose own state is `mine`. Positions are counted in rows, and
    decisions may have changed the size of batches.
    """
    try:
        other = [name for name in ("fingerprint", "seed", "order") if state[name] != mine[name]]
        if other or not state["log"] or state["log"] != mine["log"][: len(state["log"])]:
            raise StateError(
                f"the state is of another run than this loader's ({', '.join(other or ['log'])} differ): load it "
                "instead"
            )
        if "received" in state:
            raise StateError(
                "the state was taken within an epoch without in_order, where a position is no batch: give epoch "
                "and step"
            )
        at, size, begin, step = state["at"], 1, 0, 0
        for decision in state["log"]:
            if "global_batch" in decision:
                if decision["epoch"] == at["epoch"]:
                    step, begin = step - (begin - decision["row"]) // size, decision["row"]
                size = decision["global_batch"]
        return at["epoch"], step - (begin - at["row"]) // size
    except (KeyError, TypeError, AttributeError) as e:
        raise StateError(f"not a state of a leat.Loader: batch_at takes what state_dict() gave ({e!r})") from None


def is_within(state: Mapping[str, Any]) -> bool:
    """Whether a state was taken within an epoch. Out of order its position may still be the start of the epoch."""
    return state["at"]["row"] > 0 or "received" in state


def lists_elsewhere(state: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The lists of positions of which a state has only the hash."""
    try:
        return [e["list"] for e in state["log"] if e.get("list") and "positions" not in e["list"] and e["list"]["hash"]]
    except (KeyError, TypeError, AttributeError):
        return []  # not a state: the library says why


def log_of(given: Sequence[Mapping[str, Any]] | str | os.PathLike[str]) -> list[dict[str, Any]]:
    """The entries of a log, from a loader or from a file.

    Raises:
        StateError: it is no log, or lacks the beginning of its run.
    """
    name, found = "log", given
    if isinstance(given, (str, os.PathLike)):
        name = os.fspath(given)
        with open(given, encoding="utf-8") as file:
            try:
                found = json.load(file)
            except (ValueError, RecursionError) as e:
                raise StateError(f"{name}: not a log of decisions: {e}") from None
        if isinstance(found, Mapping):  # a state
            found = found.get("log", [])
    try:
        assert not isinstance(found, (str, os.PathLike))
        entries: list[dict[str, Any]] = json.loads(json.dumps(list(found)))
        kinds = [entry["kind"] for entry in entries]
    except (AssertionError, TypeError, ValueError, KeyError, RecursionError) as e:
        raise StateError(f"{name}: not a log of decisions ({e!r:.120}): give what loader.log gave") from None
    if not kinds or kinds[0] != "open":
        raise StateError(f"{name}: a log begins with what the loader was opened with")
    if "folded" in kinds:
        raise StateError(f"{name}: the log of a long run, whose first decisions are folded: it cannot be repeated")
    return entries


def decisions_text(log: Sequence[Mapping[str, Any]]) -> str:
    """A log as ranks compare it. Those of a pipeline's middle have another program, which decides nothing."""
    plain = [{key: value for key, value in entry.items() if key != "facts"} for entry in log]
    return json.dumps([entry for entry in plain if entry["kind"] != "resume" or len(entry) > 3])
