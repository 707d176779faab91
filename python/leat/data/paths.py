"""The paths that a pattern stands for: leat_paths_expand."""

from __future__ import annotations

import os
import re

from .. import _leat

REMOTE = re.compile("https?://", re.IGNORECASE)


def expanded(*paths: str | os.PathLike[str]) -> list[str]:
    """The files that paths and patterns stand for, of a manifest and its shards the manifest alone.

    Raises:
        ValueError: a range of numbers does not rise, or has more than a million.
        MissingFileError: no file fits a pattern with ``*``.
    """
    return _leat.paths([os.fsencode(path) for path in paths])


def sorted_by_name(paths: list[str]) -> list[str]:
    """Bytewise, without what leat has put beside them."""
    return [os.fsdecode(p) for p in sorted(map(os.fsencode, paths)) if not _leat.path_is_ours(p)]


def absolute(path: str | os.PathLike[str]) -> str:
    path = os.fspath(path)
    return path if "://" in path and not os.path.exists(path) else os.path.abspath(path)
