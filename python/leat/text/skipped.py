"""The records that were left out on the way to a pack, as its ``metadata["skipped"]`` says them:

{"records": 5, "on_open": 3, "tokenising": 2,
 "first": [{"file": "web.jsonl", "line": 7, "byte": 812, "reason": "..."}, {"record": 40, ...}]}
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any

FIRST = 10  #: records that are listed
PLACES = ("line", "byte", "row_group", "record_batch", "row")


def plain(text: str) -> str:
    """A text as metadata can have it: bytes of a name that are not UTF-8 are written out."""
    named = re.sub("[\udc80-\udcff]", lambda found: f"\\x{ord(found[0]) - 0xDC00:02x}", text)
    return named.encode(errors="backslashreplace").decode()


def is_foreign(found: Any) -> bool:
    """Whether `metadata["skipped"]` is not what leat writes there, and so not leat's to change."""
    if found is None:
        return False
    return not (
        isinstance(found, Mapping)
        and all(isinstance(found.get(name, 0), int) for name in ("records", "on_open", "tokenising"))
        and isinstance(found.get("first"), list)
        and all(isinstance(one, Mapping) for one in found["first"])
    )


def listed(about: Mapping[str, Any]) -> dict[str, Any]:
    """The records that opening a data set has left out, by its ``about``; empty if there were none."""
    count = int(about.get("skipped") or 0)
    if not count:
        return {}
    first = [{**one, "file": os.path.basename(one.get("file", ""))} for one in about.get("skipped_first", ())]
    return {"records": count, "on_open": count, "tokenising": 0, "first": first[:FIRST]}


def joined(before: Any, now: Mapping[str, Any]) -> dict[str, Any]:
    """Both together. `before`: the metadata of a file, not foreign; or None."""
    found: Mapping[str, Any] = before or {}
    counts = {name: found.get(name, 0) + now[name] for name in ("on_open", "tokenising")}
    return {"records": sum(counts.values()), **counts, "first": [*found.get("first", []), *now["first"]][:FIRST]}


def lines(first: list[Mapping[str, Any]], most: int = 3) -> list[str]:
    """The first records, for a person."""
    told = []
    for one in first[:most]:
        parts = [str(one["file"])] if one.get("file") else []
        parts += [f"{name.replace('_', ' ')} {one[name]}" for name in (*PLACES, "record") if name in one]
        told.append(f"{', '.join(parts)}: {one['reason']}")
    return told
