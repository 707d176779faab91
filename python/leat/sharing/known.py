"""Ports that are open on this host, as ``leat port`` shows them."""

from __future__ import annotations

import json
import os
from typing import Any

from .. import _leat

Folder = str | os.PathLike[str] | None
LAGS = {"recompute": 0, "wait": 1}


def ls(folder: Folder = None) -> list[dict[str, Any]]:
    """The ports of a folder: their `name`, `pid`, `path`, and whether they are `alive`.

    Args:
        folder: that of their sockets. None: as for :class:`leat.Port`.
    """
    found: list[dict[str, Any]] = json.loads(_leat.ports(path_of(folder)))
    return found


def stat(name: str, folder: Folder = None) -> dict[str, Any]:
    """The state of a port and each of its consumers; docs/ports.md names the keys.

    Raises:
        leat.MissingNameError, FileNotFoundError: there is no such port, or its process is dead.
        leat.UnsupportedError: it is of another version of leat.
    """
    found: dict[str, Any] = json.loads(_leat.port_ask_stat(path_of(folder), text_of(name)))
    return found


def stop(name: str, folder: Folder = None) -> None:
    """Asks a port to end, which its process then does within a moment.

    Raises:
        leat.MissingNameError, FileNotFoundError: there is no such port, or its process is dead.
    """
    _leat.port_stop(path_of(folder), text_of(name))


def path_of(folder: Folder) -> str | None:
    """A folder as the library takes it."""
    return None if folder is None else os.fspath(folder)


def text_of(name: Any) -> str:
    """The name of a port; the library decides which ones are possible."""
    if not isinstance(name, str):
        raise TypeError(f"the name of a port is a str, not {name!r:.60}")
    if "\0" in name:
        raise ValueError(f"the name of a port has letters, digits, '-', '_' and '.', not {name!r:.60}")
    return name
