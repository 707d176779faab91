"""The paths that a pattern stands for: the same as the commands take (cli/paths.c).

    part-{000..009}.jsonl    each number, with the zeros in front that the first one has
    part-*.jsonl             the files that are there, sorted by name; ? and [...] as in a shell, too

A path that exists is itself, whatever characters it has.
"""

from __future__ import annotations

import glob
import os
import re

from ..errors import MissingFileError

_RANGE = re.compile(r"\{(\d+)\.\.(\d+)\}")
REMOTE = re.compile("https?://", re.IGNORECASE)


def expanded(path: str) -> list[str]:
    """The paths that a path or a pattern stands for.

    Raises:
        ValueError: a range of numbers does not rise, or has more than a million.
        MissingFileError: no file fits a pattern with ``*``.
    """
    if os.path.exists(path):
        return [path]
    found = _RANGE.search(path)
    if not found:
        return [path] if REMOTE.match(path) or not glob.has_magic(path) else _matching(path)
    first, last = found.groups()
    if int(last) < int(first) or int(last) - int(first) >= 1_000_000:
        raise ValueError(f"{found.group()} in {path} is no range of numbers that rise")
    width = len(first) if len(first) == len(last) or first.startswith("0") else 0
    texts = (f"{path[: found.start()]}{n:0{width}d}{path[found.end() :]}" for n in range(int(first), int(last) + 1))
    return [one for text in texts for one in expanded(text)]


def _matching(pattern: str) -> list[str]:
    paths = sorted_by_name(glob.glob(pattern))
    if not paths:
        error = MissingFileError(f"no file fits the pattern {pattern}")
        error.code, error.file = "LEAT_E_NOT_FOUND", pattern
        raise error
    return paths


def sorted_by_name(paths: list[str]) -> list[str]:
    """Bytewise, without what leat has put beside them."""
    return sorted((p for p in paths if not _is_ours(p)), key=os.fsencode)


def _is_ours(path: str) -> bool:
    """Whether it is an index that leat keeps beside a file, the copy of a compressed one, or not finished."""
    name = os.path.basename(path)
    return ".leat-" in name or name.endswith(".partial")


def absolute(path: str | os.PathLike[str]) -> str:
    path = os.fspath(path)
    return path if REMOTE.match(path) else os.path.abspath(path)
