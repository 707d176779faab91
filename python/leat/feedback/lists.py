"""Lists of positions that were decided: as files of a run's folder, and in the texts of logs and states."""

from __future__ import annotations

import base64
import os
import re
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .. import _leat
from ..errors import StateError
from ..files import whole
from .table import Array


def _list_path(folder: str, name: str) -> str:
    return os.path.join(folder, f"positions-{name}.npy")


def save_list(folder: str, name: str, positions: np.ndarray[Any, Any]) -> None:
    """Saves a list of positions under its hash. The file appears whole or not at all."""
    path = _list_path(folder, name)
    if os.path.exists(path):
        return
    array = np.ascontiguousarray(positions)
    with whole(path, folder=True) as file:  # np.save would write by itself, and its error has no cause
        np.lib.format.write_array_header_1_0(file, np.lib.format.header_data_from_array_1_0(array))
        file.write(array.data)


def load_list(folder: str, name: str) -> np.ndarray[Any, Any] | None:
    """A list that was saved, or None. Nothing is unpickled.

    Raises: StateError: the file does not match this hash.
    """
    path = _list_path(folder, name)
    if not re.fullmatch("[0-9a-f]{16}", name) or not os.path.exists(path):
        return None
    try:
        found: np.ndarray[Any, Any] = np.load(path, allow_pickle=False)
        whole = found.dtype == np.int64 and found.ndim == 1 and _leat.positions_hash(found) == name
    except OSError:
        raise
    except Exception as e:  # a file that was cut or changed makes NumPy raise almost anything
        raise StateError(f"{path} is damaged: {e!s:.120}") from None
    if not whole:
        raise StateError(f"{path} is damaged: its positions have another hash than the one in its name")
    return found


def positions_of(text: str) -> Array:
    """Positions as a state has them (docs/order.md): differences, zigzag, base-128 varints, base64.

    Raises:
        StateError: it is not that.
    """
    try:
        data = np.frombuffer(base64.b64decode(text, validate=True), np.uint8)
    except (ValueError, TypeError):
        raise StateError("a list of positions in the log is not base64") from None
    if len(data) == 0:
        return np.empty(0, np.int64)
    last = data < 128
    ends = np.flatnonzero(last)
    begins = np.concatenate([[0], ends[:-1] + 1]) if len(ends) else ends
    if not last[-1] or int((ends - begins).max()) > 8:
        raise StateError("a list of positions in the log is damaged")
    shifts = 7 * (np.arange(len(data)) - np.repeat(begins, ends - begins + 1)).astype(np.uint64)
    z = np.add.reduceat((data & 127).astype(np.uint64) << shifts, begins)
    steps = (z >> np.uint64(1)).astype(np.int64) ^ -(z & np.uint64(1)).astype(np.int64)
    found: Array = np.cumsum(steps)
    return found


def shown(log: Sequence[Mapping[str, Any]]) -> dict[str, Array]:
    """The lists that stand in a log, by their hash."""
    lists = (entry["list"] for entry in log if entry.get("list"))
    return {told["hash"]: positions_of(told["positions"]) for told in lists if "positions" in told}


def unpacked(text: str, name: str) -> Array:
    """A list that stands compressed in a state."""
    try:
        found: Array = np.frombuffer(zlib.decompress(base64.b64decode(text, validate=True)), np.int64)
    except (zlib.error, ValueError) as e:
        raise StateError(f"a list of positions in the state is damaged: {e}") from None
    if _leat.positions_hash(found) != name:
        raise StateError(f"a list of positions in the state is damaged: its hash is not {name:.16}")
    return found
