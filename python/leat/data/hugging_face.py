"""Folders that `datasets` of Hugging Face has saved (``save_to_disk``): which of their files are a data set.

    FOLDER/state.json           the files of Arrow of one data set, in order
    FOLDER/dataset_dict.json    the names of splits: a folder of such a kind for each
"""

from __future__ import annotations

import json
import os
from typing import Any

from ..errors import CorruptError, InvalidError, MissingFileError, UnsupportedError

_STATE, _SPLITS = "state.json", "dataset_dict.json"


def is_saved(path: str) -> bool:
    if os.path.exists(os.path.join(path, _SPLITS)):
        return True
    try:
        return "_data_files" in _read(path, _STATE)
    except (MissingFileError, CorruptError):
        return False


def files_of(path: str, split: str | None) -> list[str]:
    """The files of Arrow of a saved data set, or of a split of one that has several."""
    if os.path.exists(os.path.join(path, _SPLITS)):
        names = _read(path, _SPLITS).get("splits")
        if not isinstance(names, list) or not all(isinstance(n, str) and _is_name(n) for n in names):
            raise CorruptError(f"{os.path.join(path, _SPLITS)} has no list of splits")
        if split not in names:
            said = "choose one" if split is None else f"there is no {split!r}"
            raise InvalidError(f"{path} has the splits {', '.join(map(repr, names))}: {said} by split=")
        path = os.path.join(path, str(split))
    elif split is not None:
        raise InvalidError(f"{path} is a data set without splits: leave out split={split!r}")
    state = _read(path, _STATE)
    found = state.get("_data_files")
    if not isinstance(found, list) or not found:
        raise CorruptError(f"{os.path.join(path, _STATE)} names no files of Arrow")
    if state.get("_indices_files") or state.get("_indices_data_files"):
        raise UnsupportedError(
            f"{path} was saved with a selection by indices, as old versions of datasets did: load it and save it again"
        )
    files = []
    for one in found:
        name = one.get("filename") if isinstance(one, dict) else None
        if not isinstance(name, str) or not _is_name(name):
            raise CorruptError(f"{os.path.join(path, _STATE)} names the file {name!r:.80}, which is not in its folder")
        files.append(os.path.join(path, name))
    return files


def _is_name(name: str) -> bool:
    """Whether it is a name in its folder, and no path out of it."""
    return name not in ("", ".", "..") and "\0" not in name and os.path.basename(name) == name


def _read(folder: str, name: str) -> dict[str, Any]:
    path = os.path.join(folder, name)
    try:
        with open(path, encoding="utf-8") as file:
            found = json.load(file)
    except OSError as e:
        raise MissingFileError(f"{path} cannot be read: {e}") from e
    except (ValueError, RecursionError) as e:
        raise CorruptError(f"{path} is no JSON: {e}") from e
    if not isinstance(found, dict):
        raise CorruptError(f"{path} is no object of JSON")
    return found
