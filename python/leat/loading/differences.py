"""Differences between ranks: how the facts of two are compared, and how an error says what was found."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from .. import _leat
from ..ranks import short_hash

VERSION = "the version of leat"
LOADERS = "the number of loaders opened so far"
PLAIN = 120  #: characters of a value that ranks compare, and show, as it is; a longer one goes by its hash
HASH = "sha256:"


class Difference(NamedTuple):
    """Two ranks that differ, as one of them has found and told all others."""

    loader: int  #: its number
    round: int  #: of the loader, see Agreement
    rank: int  #: the one that has found it
    other: int  #: the one whose values were there first
    place: list[int] | None  #: epoch and step; None: the loaders are different ones, as they were opened
    what: dict[str, list[str | None]]  #: the values of both


def sent(facts: Mapping[str, str]) -> dict[str, str]:
    """Facts as they go into the store."""
    return {
        name: value if len(value) <= PLAIN else f"{HASH}{short_hash(value):016x}"
        for name, value in {VERSION: _leat.version(), **facts}.items()
    }


def differing(mine: Mapping[str, str], there: Mapping[str, str]) -> dict[str, list[str | None]]:
    """The facts in which two ranks differ. Another version of leat may tell others, so that difference is the only one
    then."""
    names = [VERSION] if mine.get(VERSION) != there.get(VERSION) else dict.fromkeys([*mine, *there])
    return {name: [mine.get(name), there.get(name)] for name in names if mine.get(name) != there.get(name)}


def said(found: Iterable[Difference]) -> str:
    """The text of an error, about the first place of those found. Loaders that are not the same ones explain all other
    differences.
    """
    every = sorted(found, key=lambda one: (one.place or [], one.loader))
    first, opened = every[0], every[0].place is None
    groups: dict[str, list[Difference]] = {}
    for one in every:
        if one.place == first.place:
            groups.setdefault(json.dumps([one.loader, one.other, one.what]), []).append(one)
    clauses = "; ".join((_reads if opened else _differs)(same) for same in groups.values())
    place = "" if first.place is None else f"loader {first.loader} at epoch {first.place[0]}, step {first.place[1]}; "
    return f"the ranks differ: {clauses} ({place}leat {_leat.version()}): {_advice(opened, first.what)}"


def _advice(opened: bool, what: Mapping[str, Any]) -> str:
    if VERSION in what:
        return "install the same version of leat for every rank"
    order = "all ranks open their loaders in the same order (those that take their ranks from torch.distributed)"
    if opened:
        return f"{order}, and each of them over the same data set"
    return f"give every rank the same data set, the same arguments of the Loader and the same decisions; {order}"


def _sides(same: list[Difference]) -> tuple[list[int], int, bool]:
    """The ranks that are alike, the one that they differ from, and whether that is the one that has found it. The lower
    one of two ranks is the measure.
    """
    ranks, other = sorted({one.rank for one in same}), same[0].other
    turned = len(ranks) == 1 and ranks[0] < other
    return ([other], ranks[0], True) if turned else (ranks, other, False)


def _differs(same: list[Difference]) -> str:
    ranks, other, turned = _sides(same)
    facts = []
    for name, values in same[0].what.items():
        a, b = values[::-1] if turned else values
        hidden = str(a).startswith(HASH) or str(b).startswith(HASH)
        facts.append(name if hidden else f"{name}: {_shown(a)} is not {_shown(b)}")
    return f"{_named(ranks)} {'differs' if len(ranks) == 1 else 'differ'} from rank {other} in {' and '.join(facts)}"


def _reads(same: list[Difference]) -> str:
    ranks, other, turned = _sides(same)
    ((theirs, others),) = same[0].what.values()
    sides = [(ranks, others if turned else theirs), ([other], theirs if turned else others)]
    (a, x), (b, y) = sorted(sides, key=lambda side: side[0])
    return f"loader {same[0].loader} of {_named(a)} reads {x}, of {_named(b)} reads {y}"


def _shown(value: str | None) -> str:
    return "none" if value is None else value


def _named(ranks: list[int]) -> str:
    """Ranks in a sentence."""
    *most, last = map(str, ranks)
    return f"ranks {', '.join(most)} and {last}" if most else f"rank {last}"
