"""Arguments of the public functions: taken as users have them (numpy's integers too), refused with their name."""

from __future__ import annotations

import operator
from typing import Any


def integer(name: str, value: Any, low: int = 0, high: int = 1 << 63) -> int:
    """`value` as an int with ``low <= value < high``: no float, which would be cut, and no bool, which is a slip."""
    try:
        number = None if isinstance(value, bool) else operator.index(value)
    except TypeError:
        number = None
    if number is None:
        raise TypeError(f"{name} is an integer, not {value!r:.60}")
    if not low <= number < high:
        raise ValueError(f"{name} is {low} or above and below 2**{high.bit_length() - 1}, not {number}")
    return number


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
