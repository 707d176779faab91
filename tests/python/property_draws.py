"""Which examples a property test looks at: the first ones, or others that are drawn from LEAT_SEED on.

The first ones are the same in each run. LEAT_SEED=N is the number of the first of the others, LEAT_EXAMPLES says how
many of these each test looks at. A failure ends with the line that runs its example alone.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import TypeAlias

import pytest

_SEED, _COUNT = os.environ.get("LEAT_SEED"), os.environ.get("LEAT_EXAMPLES")
_TIMES = 5  # as many examples are drawn

Numbers: TypeAlias = Callable[[int], range]  #: the examples of a test that looks at so many first ones


def first(n: int) -> range:
    return range(n)


def drawn(n: int) -> range:
    begin = int(_SEED or 0)
    return range(begin, begin + int(_COUNT or _TIMES * n))


#: of the argument `numbers`
EXAMPLES = pytest.mark.parametrize(
    "numbers",
    [
        pytest.param(first, id="first"),
        pytest.param(
            drawn,
            id="drawn",
            marks=[pytest.mark.shard("draws"), pytest.mark.skipif(not _SEED, reason="LEAT_SEED is not set")],
        ),
    ],
)


def again(number: int) -> str:
    """What runs that example alone, of the test that runs now."""
    test = re.sub(r"\bfirst\b(?=[^[]*]$)", "drawn", os.environ["PYTEST_CURRENT_TEST"].rpartition(" ")[0])
    return f"To run it again: LEAT_SEED={number} LEAT_EXAMPLES=1 .venv/bin/python -m pytest '{test}'"


def each(numbers: range, check: Callable[[int], None]) -> None:
    """Checks the examples of these numbers."""
    for number in numbers:
        try:
            check(number)
        except BaseException as e:
            e.add_note(again(number))
            raise
