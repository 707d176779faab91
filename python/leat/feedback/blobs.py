"""Data too large for a state: tables and lists, in the folder of a run by their hash; without a folder in the state
itself, as long as they are small.
"""

from __future__ import annotations

import base64
import contextlib
import os
import re
from collections.abc import Mapping
from typing import Any

from ..errors import StateError
from ..files import whole
from .table import digest

MOST = 1 << 20  #: bytes, compressed, that a state has of all tables and lists


class Blobs:
    """Blobs by their hash. `folder`: of the run, or None."""

    def __init__(self, folder: str | None) -> None:
        self.folder = folder

    def _path(self, name: str) -> str | None:
        return None if self.folder is None else os.path.join(self.folder, f"feedback-{name}.bin")

    def save(self, data: bytes) -> bool:
        """Writes a blob into the folder, where it appears whole or not at all. False: there is none."""
        path = self._path(digest(data))
        if path is None or self.folder is None:
            return False
        if os.path.exists(path):
            return True
        with whole(path, folder=True) as file:
            file.write(data)
        return True

    def find(self, name: Any, beside: Mapping[str, Any]) -> bytes | None:
        """A blob of a state that has `beside` as text, or one of the folder. None: neither has it.

        Raises: StateError: it does not match its hash.
        """
        if not isinstance(name, str) or not re.fullmatch("[0-9a-f]{32}", name):
            raise StateError(f"the state is damaged: {name!r:.60} is no hash of what was reported")
        text, path = beside.get(name), self._path(name)
        data = None
        if isinstance(text, str):
            try:
                data = base64.b64decode(text, validate=True)
            except ValueError:
                data = b""
        elif path is not None:
            with contextlib.suppress(FileNotFoundError), open(path, "rb") as file:
                data = file.read()
        if data is not None and digest(data) != name:
            raise StateError(f"what was reported, in {'the state' if isinstance(text, str) else path}, is damaged")
        return data


class Inside:
    """The blobs that a state has itself."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}
        self._left = MOST

    def put(self, data: bytes) -> bool:
        """Takes a blob. False: it is too large."""
        if len(data) > self._left:
            return False
        self._left -= len(data)
        self.texts[digest(data)] = base64.b64encode(data).decode()
        return True
