"""States of a DataLoader, checked before any of it is used.

A state is written by the loader's iterator and may come back edited, cut, or from another loader. Loading one that does
not fit raises :class:`leat.StateError`; it never leads to an error or an empty epoch later.
"""

from __future__ import annotations

from collections.abc import Sized
from typing import Any

from torch.utils.data import BatchSampler, RandomSampler, SequentialSampler, SubsetRandomSampler
from torch.utils.data.distributed import DistributedSampler

from .. import check
from ..errors import StateError
from ..sampling.known import checked_sampler, tried
from ..saved import damaged
from .order import Shuffled

VERSION = 2
#: the contents of a state of mid-epoch
_MIDWAY = ("yielded", "of", "generator", "own", "base_seed", "sampler_seed")
_STREAMS = ("workers", "streams", "turn", "ended")
#: samplers whose lengths are exact in any epoch
_EXACT = (SequentialSampler, RandomSampler, SubsetRandomSampler, DistributedSampler, Shuffled)


def checked(loader: Any, state: Any) -> dict[str, Any]:
    """The state with plain numbers, if this loader can continue from it.

    Raises:
        StateError: it is no state, incomplete, of another kind of data set, order or number of workers, or names a
            position that does not exist.
    """
    if not isinstance(state, dict) or not isinstance(state.get("version"), int) or "epoch" not in state:
        raise StateError("not a state of a leat.DataLoader: load_state_dict takes what state_dict() gave")
    if state["version"] != VERSION:
        raise StateError(
            f"this state_dict() has form {state['version']!r:.60}: this version of leat reads form {VERSION}"
        )
    found = dict(state)
    number(found, "epoch", (1 << 63) - 1)
    number(found, "step")
    midway = found["step"] > 0 or any(name in found for name in ("yielded", "of", "beyond", "sampler_epoch", "drew"))
    streams = any(name in found for name in _STREAMS)
    if (midway or streams) and streams != loader._iterable:
        raise StateError("the state is of a loader of another kind of data set (map-style or iterable)")
    if midway:
        _whole(found, _MIDWAY)
        number(found, "yielded")
        _facts(found["of"], loader._facts())
    if streams:
        _whole(found, _STREAMS)
        _streams(found, loader)
    elif midway:
        _steps(found, loader)
    _seeds(found, loader, midway)
    _generators(found, loader, midway)
    _reading(found, loader, midway)
    return found


def number(found: dict[str, Any], name: str, high: int = 1 << 63, low: int = 0) -> int:
    """The number of that name, replaced by a plain int."""
    try:
        found[name] = check.integer(name, found[name], low, high)
    except KeyError:
        _whole(found, (name,))
    except (TypeError, ValueError) as e:
        raise StateError(f"the state is damaged: {e}") from None
    return int(found[name])


def _whole(found: dict[str, Any], names: tuple[str, ...]) -> None:
    if missing := [name for name in names if name not in found]:
        raise StateError(f"the state is not whole: it lacks {', '.join(map(repr, missing))}")


def _facts(saved: Any, mine: dict[str, Any]) -> None:
    if not isinstance(saved, dict):
        damaged("of", saved)
    _whole(saved, tuple(mine))
    differ = [name for name in mine if type(saved[name]) is not type(mine[name]) or saved[name] != mine[name]]
    if other := [f"{name}: {saved[name]!r:.60} there, {mine[name]!r} here" for name in differ]:
        raise StateError(
            f"the state counts batches of another order, and would lose or repeat samples here ({'; '.join(other)})"
        )


def _steps(found: dict[str, Any], loader: Any) -> None:
    """For a map-style data set: the first `step` batches of the epoch were delivered, and later ones in `beyond`."""
    beyond = found.get("beyond", [])
    if not isinstance(beyond, list | tuple):
        damaged("beyond", beyond)
    beyond = [number({"beyond": step}, "beyond") for step in beyond]
    if beyond:
        found["beyond"] = beyond
    ordered = sorted(set(beyond)) == beyond and (not beyond or beyond[0] > found["step"])
    if not ordered or found["yielded"] != found["step"] + len(beyond):
        damaged("yielded", found["yielded"])
    last = max(found["step"] - 1, *beyond, -1)
    steps = exact_length(loader)
    if steps is not None and last >= steps:
        raise StateError(f"the state has a batch {last} as delivered; an epoch has {steps} batches here")


def exact_length(loader: Any) -> int | None:
    """Batches of an epoch, if that is certain."""
    batches = loader.batch_sampler
    exact = (
        type(loader.sampler if batches is None else batches.sampler if type(batches) is BatchSampler else None)
        in _EXACT
    )
    return len(loader._index_sampler) if exact and isinstance(loader._index_sampler, Sized) else None


def _streams(found: dict[str, Any], loader: Any) -> None:
    """For an iterable data set: for each worker its last state, and the number of batches delivered since."""
    n = number(found, "workers", 1 << 31)
    if n != loader.num_workers and not (loader._adaptive and n):  # which takes as many
        raise StateError(f"the state of an iterable data set is one of {n} workers, not {loader.num_workers}")
    workers = max(1, n)
    if not isinstance(found["streams"], list | tuple) or not all(
        isinstance(s, list | tuple) and len(s) == 3 for s in found["streams"]
    ):
        damaged("streams", found["streams"])
    streams = [
        [number({"streams": worker}, "streams", workers), state, number({"streams": count}, "streams")]
        for worker, state, count in found["streams"]
    ]
    for _, state, _ in streams:
        if state is not None and not (
            isinstance(state, dict) and state.keys() <= {"dataset", "iterator", "kept", "over", "begin", "left"}
        ):
            damaged("streams", state)
    found["streams"], known, passed = streams, {each[0] for each in streams}, sum(each[2] for each in streams)
    if not isinstance(found["ended"], list | tuple):
        damaged("ended", found["ended"])
    found["ended"] = [number({"ended": worker}, "ended", workers) for worker in found["ended"]]
    if len(known) != len(found["streams"]) or len(set(found["ended"])) != len(found["ended"]):
        damaged("streams", found["streams"])
    # If the data set has no states, each batch that was delivered is counted with its worker.
    stateless = "yielded" in found and all(state is None for _, state, _ in streams)
    if passed > found["step"] or (stateless and passed != found["step"]):
        damaged("streams", found["streams"])
    if found["step"] != found.get("yielded", 0):
        damaged("step", found["step"])
    if not isinstance(found["turn"], list | tuple) or len(found["turn"]) != workers:  # one of each stream
        damaged("turn", found["turn"])
    found["turn"] = [number({"turn": turn}, "turn", found["step"] + workers + 2) for turn in found["turn"]]


def _seeds(found: dict[str, Any], loader: Any, midway: bool) -> None:
    if "base_seed" not in found:
        return
    _whole(found, ("base_seed", "sampler_seed", "own"))
    number(found, "base_seed")
    if not isinstance(found["own"], bool):
        damaged("own", found["own"])
    if found["sampler_seed"] is not None:
        number(found, "sampler_seed")
    elif midway and type(loader.sampler) is RandomSampler and loader.sampler.generator is None:
        damaged("sampler_seed", None)
    if midway and found.get("sampler_epoch") is not None:
        number(found, "sampler_epoch")


def _generators(found: dict[str, Any], loader: Any, midway: bool) -> None:
    if found.get("generator") is not None:
        tried("generator", found["generator"], loader.generator)
    elif midway and loader.generator is not None:
        damaged("generator", None)


def _reading(found: dict[str, Any], loader: Any, midway: bool) -> None:
    """The known facts of a sampler (`leat.torch.reading`)."""
    if "reading" not in found:
        if midway and not (loader._iterable or found["own"] or loader._own_order):
            _whole(found, ("reading",))
        return
    found["reading"] = reading = checked_sampler(found["reading"], loader)
    for name, draw in reading.get("draws", {}).items():
        if not isinstance(draw, dict) or not {"at", "state"} <= draw.keys():
            damaged(name, draw)
        reading["draws"] = {**reading["draws"], name: (draw := dict(draw))}
        number(draw, "at", low=-2)  # below 0 before the first read
        tried(name, draw["state"])
    if not midway:
        if "count" in reading:
            damaged("count", reading["count"])
        return
    _whole(reading, ("count",))
    last = max(found["step"] - 1, *found.get("beyond", ()), -1)
    if number(reading, "count") <= last:
        damaged("count", reading["count"])
    for name in ("at", "row", "crc", "begun"):
        if name in reading:
            number(reading, name)
    rank = reading.get("rank", [0, 1])
    if not (isinstance(rank, list | tuple) and len(rank) == 2 and all(isinstance(n, int) for n in rank)):
        damaged("rank", rank)
    if ("sampler" in reading or "iterator" in reading) and not found["step"] <= reading.get("at", -1) <= reading[
        "count"
    ]:
        damaged("at", reading.get("at"))
    if "pending" in reading:
        _pending(found, reading)


def _pending(found: dict[str, Any], reading: dict[str, Any]) -> None:
    """The batches that were read and are not delivered: [step, first row, positions]."""
    pending = reading["pending"]
    if not isinstance(pending, list | tuple) or not all(isinstance(p, list | tuple) and len(p) == 3 for p in pending):
        damaged("pending", pending)
    _whole(reading, ("rank",))
    reading["pending"] = pending = [
        [number({"pending": step}, "pending"), number({"pending": row}, "pending"), indices]
        for step, row, indices in pending
    ]
    steps = [step for step, _, _ in pending]
    expected = [s for s in range(found["step"], reading["count"]) if s not in found.get("beyond", ())]
    if steps != expected:
        damaged("pending", steps)
