"""The tree of what prompts share, for people: `leat stats --prompts`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..data.prompts import Prompts
from . import progress

MOST = 20  #: branches of a node that are shown; the rest are one line
WORDS = 48  #: characters of a prefix


def tree(found: Prompts, show: Callable[[Any], str] | None = None) -> dict[str, Any]:
    """What is shared, as plain values: the groups, each within the one whose prefix its own goes on from.

    Args:
        show: makes a text of tokens; None: of bytes themselves, of others numbers.
    """
    every, grouped, least = found.tokens
    root: dict[str, Any] = {"prompts": len(found), "tokens": every, "unit": unit_of(found), "groups": len(found.groups)}
    root |= {"saving": found.saving, "optimum": found.optimum, "branches": []}
    above: list[tuple[np.ndarray[Any, Any], dict[str, Any]]] = [(np.empty(0), root)]
    for first, count, prefix in found.groups.tolist():
        if not prefix:
            root["apart"] = count
            continue
        tokens = np.asarray(_tokens(found, first))[:prefix]
        while len(above) > 1 and not _begins(tokens, above[-1][0]):
            above.pop()
        before = len(above[-1][0])
        node = {
            "prefix": prefix,
            "prompts": count,
            "saved": (count - 1) * prefix,
            "text": _text(tokens[before:], show),
            "branches": [],
        }
        above[-1][1]["branches"].append(node)
        above.append((tokens, node))
    return root


def unit_of(found: Prompts) -> str:
    """The unit of the numbers: bytes are the tokens of texts that no tokenizer has cut."""
    field = found.schema[found.field]
    return "bytes" if field.kind == "bytes" or field.dtype == "uint8" else "tokens"


def _tokens(found: Prompts, i: int) -> Any:
    value = found.stored(i, found.field)
    return np.frombuffer(value, np.uint8) if isinstance(value, bytes) else value


def _begins(tokens: np.ndarray[Any, Any], prefix: np.ndarray[Any, Any]) -> bool:
    return len(prefix) <= len(tokens) and bool((tokens[: len(prefix)] == prefix).all())


def _text(tokens: np.ndarray[Any, Any], show: Callable[[Any], str] | None) -> str:
    """The begin and the end of it: prefixes that begin alike often differ at their end."""
    if len(tokens) > 4 * WORDS:
        begin, end = _text(tokens[: 2 * WORDS], show), _text(tokens[-2 * WORDS :], show)
        return f"{begin[: WORDS // 2 - 2].rstrip()} ... {end[2 - WORDS // 2 :].lstrip()}"
    if show is not None:
        text = show(tokens)
    elif tokens.dtype.itemsize == 1:
        text = tokens.tobytes().decode("utf-8", "replace")
    else:
        text = " ".join(map(str, tokens.tolist()))
    words = " ".join(text.split())
    return (
        words if len(words) <= WORDS else f"{words[: WORDS // 2 - 2].rstrip()} ... {words[2 - WORDS // 2 :].lstrip()}"
    )


def told(made: dict[str, Any], blocks: bool = True) -> str:
    """As a text of lines. `blocks`: with the characters of trees."""
    lines = [
        f"{made['prompts']:,} prompts, {progress.count(made['tokens'])} {made['unit']}, of which "
        f"{100 * made['optimum']:.1f}% are shared with another prompt before, and {100 * made['saving']:.1f}% in "
        f"{groups_told(made['groups'])}",
    ]
    if made.get("apart"):
        lines.append(f"{made['apart']:,} prompts share nothing worth a prefix")
    _branches(made["branches"], "", max(made["tokens"], 1), made["unit"], blocks, lines)
    return "\n".join(lines)


def groups_told(n: int) -> str:
    return "1 group" if n == 1 else f"{n:,} groups"


def _branches(nodes: list[dict[str, Any]], indent: str, every: int, unit: str, blocks: bool, lines: list[str]) -> None:
    from .. import _leat

    most = sorted(nodes, key=lambda node: -_saved(node))[:MOST]
    for k, node in enumerate(most):
        last = k == len(most) - 1 and len(nodes) <= MOST
        edge, below = ("└─ ", "   ") if last else ("├─ ", "│  ")
        edge, below = (edge, below) if blocks else ("`- ", "   ") if last else ("|- ", "|  ")
        text = _leat.escape(node["text"])
        lines.append(
            f"{indent}{edge}{node['prefix']:,} {unit}, {node['prompts']:,} prompts, {100 * node['saved'] / every:.1f}%"
            f"  {text}"
        )
        _branches(node["branches"], indent + below, every, unit, blocks, lines)
    if len(nodes) > MOST:
        rest = nodes_behind(nodes)
        edge = "└─ " if blocks else "`- "
        lines.append(f"{indent}{edge}{len(rest):,} others, {sum(n['prompts'] for n in rest):,} prompts")


def nodes_behind(nodes: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Those that are not shown."""
    return sorted(nodes, key=lambda node: -_saved(node))[MOST:]


def _saved(node: dict[str, Any]) -> int:
    return int(node["saved"]) + sum(_saved(one) for one in node["branches"])
