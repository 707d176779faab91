"""Arguments of the public functions: taken as users have them (numpy's integers too), refused with their name."""

from __future__ import annotations

import functools
import inspect
import operator
import sys
from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from numbers import Integral
from typing import Any, ParamSpec

import numpy as np

from . import _leat

P = ParamSpec("P")

# Numbers of the library's enumerations.
TAILS = {"pad": 0, "drop": 1, "uneven": 2}
ORDERS = {"sequential": 0, "shuffled": 1, "blocks": 2, "weighted": 3, "list": 4}
ON_ERROR = {"raise": 0, "skip": 1, "substitute": 2}

# Arguments of PyTorch's DataLoader that a Loader lacks by choice, with the substitute for each.
_INSTEAD = {
    "num_workers": "it works in native threads: num_threads bounds them, and 'auto' is the default",
    "collate_fn": "batches are made as tensors; leat.ops.MapBatch in outputs runs a function on whole batches",
    "pin_memory": "a batch has pin_memory() and to(device, non_blocking=True)",
    "pin_memory_device": "a batch has pin_memory() and to(device, non_blocking=True)",
    "prefetch_factor": "it works ahead as far as budget_bytes allows",
    "persistent_workers": "its threads stay from epoch to epoch",
    "batch_sampler": "give batch_size, and a sampler of single positions where shuffle will not do",
    "generator": "seed decides order and augmentations",
    "worker_init_fn": "its threads need none; leat.rng() gives functions in leat.ops.Map random numbers of their row",
    "multiprocessing_context": "its threads need none",
    "timeout": "its threads need none",
}
# The same for arguments of other loaders.
_OTHERS = {
    "order": "shuffle=True, False or leat.Blocks(rows) says it",
    "indices": "ds.select(positions) is a part of a data set, and sampler= an order",
    "weights": "sampler=leat.Weighted(weights, num_samples) draws by weights",
    "shuffle_seed": "seed decides order and augmentations",
    **dict.fromkeys(("pipelines", "transform", "transforms"), "outputs says which operators each field goes through"),
    **dict.fromkeys(
        ("distributed", "num_replicas", "num_shards", "shard_id"),
        "each rank takes its part by itself, or as rank= and world_size= say",
    ),
}


def integer(name: str, value: Any, low: int = 0, high: int = 1 << 63) -> int:
    """`value` as an int with ``low <= value < high``: no float, which would be cut, and no bool, which is a slip."""
    try:
        number = None if isinstance(value, bool) else operator.index(value)
    except TypeError:
        number = None
    if number is None:
        raise TypeError(f"{name} is an integer, not {value!r:.60}")
    if not low <= number < high:
        most = f"2**{high.bit_length() - 1}" if high & (high - 1) == 0 else high
        raise ValueError(f"{name} is {low} or above and below {most}, not {number}")
    return number


def flag(name: str, value: Any) -> bool:
    """`value` as a bool: True or False, numpy's and 0 and 1 too; no word, which would be True."""
    if isinstance(value, bool) or (hasattr(value, "__index__") and operator.index(value) in (0, 1)):
        return bool(value)
    if type(value).__name__ in ("bool_", "bool"):  # numpy's
        return bool(value)
    raise TypeError(f"{name} is True or False, not {value!r:.60}")


def flags(**values: Any) -> None:
    for name, value in values.items():
        flag(name, value)


def unmasked(name: str, value: Any) -> None:
    """Refuses an array with masked values, or a list with one in it: NumPy would give what happens to lie there."""
    if isinstance(value, (list, tuple)):
        for one in value:
            if isinstance(one, (np.ma.MaskedArray, list, tuple)):
                unmasked(name, one)
    if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
        raise ValueError(f"field {name!r}: some values are masked, which are none: filled() says what stands for them")


def seed(value: Any) -> int:
    """A seed: 64 bits."""
    return integer("seed", value, 0, 1 << 64)


def threads(value: Any) -> int:
    """num_threads as the library takes it: 0 is automatic."""
    if isinstance(value, str) and value == "auto":
        return 0
    if isinstance(value, (str, type(None))):
        raise TypeError(f"num_threads is 'auto' or an integer, not {value!r}")
    return integer("num_threads", value, 1, 1 << 31)


def choice(name: str, value: Any, choices: dict[str, int]) -> int:
    """The number of one of the words."""
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f"{name} is one of {', '.join(map(repr, choices))}, not {value!r}")
    return choices[value]


def step(epoch: Any, number: Any) -> tuple[int, int]:
    """The number of an epoch and of a step in it.

    Raises:
        IndexError: one is negative.
    """
    try:
        return integer("epoch", epoch), integer("step", number)
    except ValueError as e:
        raise IndexError(str(e)) from None


def place(at: Any) -> tuple[int, int]:
    """The argument ``at=(epoch, step)``. Raises: as `step`."""
    if not isinstance(at, (tuple, list)) or len(at) != 2:
        raise TypeError(f"at is (epoch, step), not {at!r:.60}")
    return step(*at)


def framework(name: Any) -> str:
    """``"torch"`` or ``"numpy"``; ``"auto"`` is torch if it is imported."""
    if name not in ("auto", "torch", "numpy"):
        raise ValueError(f"framework is 'torch', 'numpy' or 'auto', not {name!r}")
    return ("torch" if sys.modules.get("torch") else "numpy") if name == "auto" else str(name)


def half_pair(e: UnicodeEncodeError) -> str:
    """The error for a text that UTF-8 cannot encode, with the remedy."""
    near = e.object[max(e.start - 20, 0) : e.start + 20]
    return (
        f"{near!a} has half of a surrogate pair at character {e.start}: leave it out, or replace it by "
        'text.encode("utf-8", "replace").decode()'
    )


def text(name: str, value: str) -> str:
    """A name for the library.

    Raises:
        ValueError: UTF-8 cannot say it, or it has a NUL.
    """
    try:
        value.encode()
    except UnicodeEncodeError as e:
        raise ValueError(f"{name}: {half_pair(e)}") from None
    if "\0" in value:
        raise ValueError(f"{name} has a NUL in it: {value!a:.60}")
    return value


def names(name: str, value: Iterable[Any]) -> list[str]:
    """Names by their numbers: a list, or what has an order as one; no set or dict, whose order says nothing of them."""
    if isinstance(value, (str, bytes, Mapping, AbstractSet)) or not isinstance(value, Iterable):
        raise TypeError(f"{name} is a list of names in the order of their numbers, not {value!r:.60}")
    listed: list[Any] = [str(n) if isinstance(n, Integral) and not isinstance(n, bool) else n for n in value]
    for one in listed:
        if not isinstance(one, str):
            raise TypeError(f"{name} is a list of names, and {one!r:.60} is none")
        if "\0" in one:
            raise ValueError(f"{name} has a name with a NUL in it: {one!r:.60}")
        text(f"a name of {name}", one)
    return listed


def explained(init: Callable[P, None]) -> Callable[P, None]:
    """`init`, which refuses unknown arguments as Python does, and names the substitute."""
    known = list(inspect.signature(init).parameters)

    @functools.wraps(init)
    def checked(*args: P.args, **kwargs: P.kwargs) -> None:
        for name in kwargs:
            if name in _OTHERS:
                raise TypeError(f"leat.Loader has no {name}: {_OTHERS[name]}")
            if name not in known and name not in _INSTEAD and (near := _leat.nearest(name, known)):
                raise TypeError(f"leat.Loader has no {name}: did you mean {near}?")
            if name in _INSTEAD:
                raise TypeError(
                    f"leat.Loader has no {name}: {_INSTEAD[name]}. Arguments as PyTorch's DataLoader has them are "
                    "those of leat.DataLoader"
                )
        init(*args, **kwargs)

    return checked
