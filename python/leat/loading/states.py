"""What a loader's state says: which batch it points at, and which lists of positions it lacks."""

from __future__ import annotations

from collections.abc import Mapping
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
