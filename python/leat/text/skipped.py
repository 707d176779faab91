"""What was left out on the way to a pack, as its ``metadata["skipped"]`` says it:

{"records": 5, "on_open": 3, "tokenising": 2,
 "first": [{"file": "web.jsonl", "line": 7, "byte": 812, "reason": "..."}, {"record": 40, ...}]}
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

FIRST = 10  #: records that are listed


def listed(about: Mapping[str, Any]) -> dict[str, Any]:
    """What opening a data set has left out, by its ``about``; empty if it was nothing."""
    count = int(about.get("skipped") or 0)
    if not count:
        return {}
    first = [{**one, "file": os.path.basename(one["file"])} for one in about.get("skipped_first", ())]
    return {"records": count, "on_open": count, "tokenising": 0, "first": first[:FIRST]}


def joined(before: Any, now: Mapping[str, Any]) -> dict[str, Any]:
    """Both together. `before` may be anything that stands in the metadata of a file."""
    known = isinstance(before, Mapping) and isinstance(before.get("first"), list)
    found: dict[str, Any] = dict(before) if known else {}
    counts = {}
    for name in ("on_open", "tokenising"):
        had = found.get(name, 0)
        counts[name] = (had if isinstance(had, int) else 0) + int(now[name])
    return {"records": sum(counts.values()), **counts, "first": [*found.get("first", []), *now["first"]][:FIRST]}


def lines(first: list[Mapping[str, Any]], most: int = 3) -> list[str]:
    """The first records, for a person."""
    told = []
    for one in first[:most]:
        parts = [str(one[name]) if name == "file" else f"{name} {one[name]}" for name in _NAMES if name in one]
        told.append(f"{', '.join(parts)}: {one['reason']}")
    return told


_NAMES = ("file", "line", "byte", "row", "record")
