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


_OWN = (b"\x89LEAT\r\n\x1a", b'{"format": "leat-manifest"')


def ends_so(path: str, ends: tuple[str, ...]) -> bool:
    """Whether the name of a file ends so, in upper or lower case, and it is none of leat's own, which are told by their
    first bytes."""
    if not path.lower().rstrip("/").endswith(ends):
        return False
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return True
    try:
        return not os.read(fd, 32).startswith(_OWN)
    except OSError:  # a folder
        return True
    finally:
        os.close(fd)


def sorted_by_name(paths: list[str]) -> list[str]:
    """Bytewise, without what leat has put beside them."""
    return [os.fsdecode(p) for p in sorted(map(os.fsencode, paths)) if not _leat.path_is_ours(p)]


def absolute(path: str | os.PathLike[str]) -> str:
    path = os.fspath(path)
    return path if "://" in path and not os.path.exists(path) else os.path.abspath(path)
