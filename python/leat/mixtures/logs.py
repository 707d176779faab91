"""The log of a run in a state or a file: what was decided, from which position on, and the orders of the sources."""

from __future__ import annotations

import base64
import contextlib
import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

from .. import check
from ..errors import StateError
from ..saved import is_number

#: the meanings of numbers of sources, if a state has them in columns
NAMES = {
    "order": ("sequential", "shuffled", "blocks", "weighted", "list"),
    "exhausted": ("stop", "redistribute", "repeat"),
}
MOST = 1024  #: sources of a mixture


class Steps:
    """Counts the steps of epochs through a log, whose entries are entered in their order: a batch never spans one."""

    def __init__(self) -> None:
        self.epoch, self.row, self.step, self.size = 0, 0, 0, 1

    def enter(self, entry: Mapping[str, Any]) -> int:
        """The step from which an entry holds."""
        self.step = entry["steps"] if entry["kind"] == "folded" else self.at(entry["epoch"], entry["row"])
        self.epoch, self.row = entry["epoch"], entry["row"]
        self.size = entry.get("global_batch", self.size)
        return self.step

    def at(self, epoch: int, row: int) -> int:
        """The step of a row behind the last entry."""
        if epoch != self.epoch:
            return -(-row // self.size)
        return self.step - (self.row - row) // self.size


def step_at(log: Sequence[Mapping[str, Any]], at: Mapping[str, Any]) -> int:
    """The step of a position, at which a batch begins. Entries behind it do not matter."""
    steps = Steps()
    for entry in log:
        if (entry["epoch"], entry["row"]) > (at["epoch"], at["row"]):
            break
        steps.enter(entry)
    return steps.at(at["epoch"], at["row"])


def place_of(state: Mapping[str, Any]) -> tuple[int, int] | None:
    """The epoch and step of a state's position. None: it is no state, which the library says."""
    with contextlib.suppress(KeyError, TypeError, AttributeError, ArithmeticError):
        return state["at"]["epoch"], step_at(state["log"], state["at"])
    return None


def step_of(
    mine: Mapping[str, Any], state: Mapping[str, Any], log: Sequence[Mapping[str, Any]] | None = None
) -> tuple[int, int]:
    """The batch that a state points at, of a loader whose own state is `mine`, and whose log is `log` if that state
    leaves entries out. Positions are counted in rows, and decisions may have changed the size of batches.
    """
    try:
        log = mine["log"] if log is None else log
        other = [name for name in ("fingerprint", "seed", "order") if state[name] != mine[name]]
        if other or not state["log"] or not _same_log(with_shares(log), with_shares(state["log"])):
            raise StateError(
                f"the state is of another run than this loader's ({', '.join(other or ['log'])} differ): load it "
                "instead"
            )
        if "received" in state:
            raise StateError(
                "the state was taken within an epoch without in_order, where a position is no batch: give epoch "
                "and step"
            )
        epoch, step = state["at"]["epoch"], step_at(state["log"], state["at"])
        if not (is_number(epoch) and is_number(state["at"]["row"]) and is_number(step)):
            raise ValueError("no position")
        return epoch, step
    except (KeyError, TypeError, AttributeError, ValueError, IndexError, ArithmeticError) as e:
        if isinstance(e, StateError):
            raise
        raise StateError(f"not a state of a leat.Loader: batch_at takes what state_dict() gave ({e!r})") from None


def _same_log(mine: Sequence[Mapping[str, Any]], other: Sequence[Mapping[str, Any]]) -> bool:
    """Whether a log begins like another, as far as neither has folded its entries."""

    def shown(log: Sequence[Mapping[str, Any]]) -> tuple[int, Sequence[Mapping[str, Any]]]:
        folded = len(log) > 1 and log[1]["kind"] == "folded"
        return (log[1]["entries"], log[2:]) if folded else (0, log[1:])

    (a, left), (b, right) = shown(mine), shown(other)
    both = max(a, b)
    left, right = left[both - a :], right[both - b :]
    return mine[0] == other[0] and left[: len(right)] == right


def is_entry(entry: Any, sources: int | None = None) -> bool:
    """Whether something is an entry of a log as `Loader.log` has them. `sources`: of the mixture, if that is known."""
    if not isinstance(entry, dict) or entry.get("kind") not in ("open", "resume", "decide", "folded"):
        return False
    least = {"global_batch": 1, "world_size": 1, "entries": 1, "steps": 0}
    needed = ("epoch", "row", *(("entries", "steps", "global_batch") if entry["kind"] == "folded" else ()))
    told, shares = entry.get("list"), entry.get("shares")
    return (
        all(is_number(entry.get(name)) for name in needed)
        and all(is_number(entry[name], low) for name, low in least.items() if name in entry)
        and ("shares" not in entry or _are_shares(shares, sources))
        and (told is None or _is_list(told))
    )


def _are_shares(shares: Any, sources: int | None) -> bool:
    try:
        found = numbers(shares, sources) if isinstance(shares, (list, str)) else []
    except ValueError:
        return False
    return all(is_number(share) for share in found) and sum(found) > 0


def _is_list(told: Any) -> bool:
    """Whether an entry tells of a list of positions."""
    return (
        isinstance(told, dict)
        and isinstance(told.get("hash"), str)
        and is_number(told.get("n"))
        and isinstance(told.get("positions", ""), str)
    )


def is_within(state: Mapping[str, Any]) -> bool:
    """Whether a state was taken within an epoch. Out of order its position may still be the start of the epoch."""
    at = state.get("at")
    return "received" in state or (isinstance(at, dict) and is_number(at.get("row"), 1))


def lists_elsewhere(state: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The lists of positions of which a state has only the hash."""
    log = state.get("log")
    told = [entry.get("list") for entry in log if isinstance(entry, dict)] if isinstance(log, list) else []
    return [each for each in told if each and _is_list(each) and "positions" not in each]  # of others the library tells


def has_lists(log: Sequence[Mapping[str, Any]]) -> bool:
    """Whether lists of positions were decided."""
    return any("list" in entry for entry in log)


def log_of(given: Sequence[Mapping[str, Any]] | str | os.PathLike[str]) -> list[dict[str, Any]]:
    """The entries of a log, from a loader or from a file.

    Raises:
        StateError: it is no log, or lacks the beginning of its run.
    """
    return run_of(given)[0]


def run_of(
    given: Sequence[Mapping[str, Any]] | str | os.PathLike[str],
) -> tuple[list[dict[str, Any]], tuple[int, dict[str, Any]] | None]:
    """As `log_of`, and what `order_in` says of a file that has a state."""
    name, found, order = "log", given, None
    if isinstance(given, (str, os.PathLike)):
        name = os.fspath(given)
        with open(given, encoding="utf-8") as file:
            text = file.read()
        try:
            found = json.loads(text) if text[:1] == "[" else _of_lines(text)
        except (ValueError, RecursionError) as e:
            raise StateError(f"{name}: not a log of decisions: {e}") from None
        if isinstance(found, Mapping):
            found, order = _of_state(found), order_in(found)
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
    if wrong := [entry for entry in entries if not is_entry(entry)]:
        raise StateError(f"{name}: not a log of decisions: it has {wrong[0]!r:.120}: give what loader.log gave")
    return entries, order


def numbers(value: Any, n: int | None = None) -> list[int]:
    """Numbers of the sources of a mixture as a state has them: a list; for many sources one text (docs/order.md), or
    one number for all `n`.

    Raises:
        ValueError: they are none of these, of another number of sources, or of more than there can be.
    """
    if isinstance(value, int) and n is not None:
        found = [value] * n
    elif isinstance(value, list):
        found = value
    elif isinstance(value, str):
        found = _varints(value)
    else:
        raise ValueError(f"not numbers of sources: {value!r:.60}")
    if len(found) > MOST or (n is not None and len(found) != n):
        raise ValueError(f"{len(found)} numbers of sources, and there are {f'at most {MOST}' if n is None else n}")
    if wrong := [x for x in found if not isinstance(x, int) or not -(1 << 63) <= x < 1 << 63]:
        raise ValueError(f"not a number of a source: {wrong[0]!r:.60}")
    return found


def _varints(text: str) -> list[int]:
    if len(text) > 16 * MOST:  # ten bytes are the most that one takes
        raise ValueError(f"a text of {len(text)} characters is of more than {MOST} sources")
    found, shift, number = [], 0, 0
    for byte in base64.b64decode(text, validate=True):
        if shift > 63:
            raise ValueError("a number of a source has more than ten bytes")
        number |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            found.append((number >> 1) ^ -(number & 1))
            shift = number = 0
    if shift:
        raise ValueError("the last number of a source is cut")
    return found


def with_shares(log: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """A log of a state whose shares are lists, however many sources there are.

    Raises:
        ValueError: they are no shares.
    """
    return [{**e, "shares": numbers(e["shares"])} if "shares" in e else dict(e) for e in log]


def orders_of(state: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The order of each source in a state.

    Raises:
        ValueError: it is no state.
    """
    try:
        sources = state["order"]["sources"]
        return sources if isinstance(sources, list) else _rows_of(sources)
    except (KeyError, TypeError, IndexError, AttributeError) as e:
        raise ValueError(f"not a state: it does not say its order ({e!r:.120})") from None


def order_in(state: Any) -> tuple[int, dict[str, Any]] | None:
    """The seed of a run and the order of its sources, as a loader is opened with it: ``order``, and of blocks
    ``block_rows`` and ``block_window``, which are cut to the rows of each source. None: it is no state of these.
    """
    try:
        seed, sources = check.seed(int(str(state["seed"]))), orders_of(state)  # a text, as it has 64 bits
        words = {source["order"] for source in sources}
        found: dict[str, Any] = {"order": words.pop()}
        for name in ("block_rows", "block_window") if found["order"] == "blocks" else ():
            if sizes := [source[name] for source in sources if name in source]:
                found[name] = max(sizes)
        fit = is_number(found.get("block_rows", 1), 1) and is_number(found.get("block_window", 0))
        known = found["order"] in ("sequential", "shuffled") or "block_rows" in found
        return (seed, found) if fit and known and not words else None
    except (ValueError, TypeError, KeyError, IndexError, AttributeError):
        return None


def _rows_of(sources: Mapping[str, Any]) -> list[dict[str, Any]]:
    n = sources["n"]
    if not isinstance(n, int) or not 0 < n <= MOST:
        raise ValueError(f"not a state: {n!r:.60} sources, where 1 to {MOST} can be")
    columns: dict[str, list[Any]] = {}
    for name, value in sources.items():
        if value in NAMES.get(name, ()):
            columns[name] = [value] * n
        elif name in NAMES:
            columns[name] = [_named(name, i) for i in numbers(value, n)]
        elif name not in ("n", "hash"):
            columns[name] = numbers(value, n)
    return [{name: column[k] for name, column in columns.items()} for k in range(n)]


def _named(name: str, number: int) -> str:
    if not 0 <= number < len(NAMES[name]):
        raise ValueError(f"not a state: {number} is no {name} of a source")
    return NAMES[name][number]


def _of_state(state: Mapping[str, Any]) -> Any:
    """The log of a state, with the decisions that are folded or left out in it, if it has them beside."""
    log, beside = state.get("log", []), state.get("mixture", state.get("decisions", {}))
    with contextlib.suppress(KeyError, TypeError, AttributeError, ValueError):
        log = with_shares(log)
    with contextlib.suppress(KeyError, TypeError, AttributeError, IndexError):
        older, later = beside.get("older", []), beside.get("later", [])
        if isinstance(later, list):
            log = [*log, *later]
        if log[1]["kind"] == "folded" and log[1]["entries"] == len(older):
            log = [log[0], *older, *log[2:]]
    return log


def _of_lines(text: str) -> Any:
    """A log with an entry a line, as `log_dir` has it, or one object. A last line that was cut is left out."""
    lines = text.split("\n")
    with contextlib.suppress(ValueError):
        if "kind" in json.loads(lines[0]):
            return [json.loads(line) for line in lines[:-1]]
    return json.loads(text)
