"""Folders of Hugging Face: which of their files are a data set.

Those that `datasets` has saved (``save_to_disk``):

    FOLDER/state.json           the files of Arrow of one data set, in order
    FOLDER/dataset_dict.json    the names of splits: a folder of such a kind for each

Those that were downloaded from the Hub:

    FOLDER/README.md                              between lines of ---, `configs` with patterns of files for each split
    FOLDER/data/train-00000-of-00002.parquet      without `configs`, the names say the splits, here or in FOLDER
"""

from __future__ import annotations

import contextlib
import fnmatch
import glob
import json
import os
import re
from collections.abc import Iterator, Mapping
from typing import Any

from ..errors import CorruptError, InvalidError, MissingFileError, UnsupportedError
from .paths import sorted_by_name

_STATE, _SPLITS = "state.json", "dataset_dict.json"
_CARD, _CARD_BYTES, _MOST_PATTERNS = "README.md", 4 << 20, 100_000  # of a card, what is looked at
_PHOTOS = (  # src/codec/photo/formats.def
    ".jpg", ".jpeg", ".png", ".webp", ".gif", ".bmp", ".pbm", ".pgm", ".ppm", ".pnm", ".tif", ".tiff", ".avif", ".jxl",
    ".jp2", ".j2k", ".jpc",
)  # fmt: skip
_SHARD = re.compile(r"(?P<split>\w+(?:[.-]\w+)*?)-(?P<number>\d{5})-of-(?P<of>\d{5})(?:-[0-9a-f]{16})?\.parquet")


def is_saved(path: str) -> bool:
    if os.path.exists(os.path.join(path, _SPLITS)):
        return True
    try:
        return "_data_files" in _read(path, _STATE)
    except (MissingFileError, CorruptError):
        return False


def splits_of(path: str) -> list[str] | list[None]:
    """The splits of a folder of Hugging Face; None alone: it has none, or is something else."""
    if not os.path.isdir(path):
        return [None]
    if os.path.exists(os.path.join(path, _SPLITS)):
        return _saved_splits(path)
    if is_saved(path):
        return [None]
    card = card_of(path)
    return list(_by_card(path, card) or _by_name(path)) if is_of_hub(path, card) else [None]


def _saved_splits(path: str) -> list[str]:
    names = _read(path, _SPLITS).get("splits")
    if not isinstance(names, list) or not all(isinstance(n, str) and _is_name(n) for n in names):
        raise CorruptError(f"{os.path.join(path, _SPLITS)} has no list of splits")
    return names


def files_of(path: str, split: str | None) -> list[str]:
    """The files of Arrow of a saved data set, or of a split of one that has several."""
    if os.path.exists(os.path.join(path, _SPLITS)):
        names = _saved_splits(path)
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


def is_of_hub(path: str, card: list[dict[str, Any]]) -> bool:
    """Whether a folder was downloaded from the Hub with files in the place of a script. Photos, which have folders of
    their own, are opened as any others. `card`: of :func:`card_of`.
    """
    if not any(os.path.isfile(os.path.join(path, name)) for name in (_CARD, ".gitattributes")):
        return False
    return not _name_photos(path, card) if card else bool(_by_name(path))


def hub_files_of(path: str, split: str | None, card: list[dict[str, Any]]) -> list[str]:
    """The files of a split of such a folder, sorted by name."""
    patterns = _by_card(path, card)
    splits = patterns or _by_name(path)
    if not splits:
        raise MissingFileError(
            f"{path} has neither a README.md with configs nor files such as data/train-00000-of-00001.parquet, by "
            "which a folder of the Hub says its splits: name its files, as a pattern or a list"
        )
    if split is None and len(splits) > 1 or split is not None and split not in splits:
        said = "choose one" if split is None else f"there is no {split!r}"
        raise InvalidError(f"{path} has the splits {', '.join(map(repr, splits))}: {said} by split=")
    name = next(iter(splits)) if split is None else split
    files = sorted_by_name(_matching(path, name, patterns[name]) if patterns else splits[name])
    _check_whole(files, patterns.get(name, ["*"]))
    return files


def _check_whole(files: list[str], patterns: list[str]) -> None:
    """Names of shards say how many there are: one that was not downloaded, and that a pattern fits, would be rows that
    silently lack.
    """
    there: dict[tuple[str, str, str], tuple[set[int], str]] = {}
    for file in files:
        if s := _SHARD.fullmatch(os.path.basename(file)):
            there.setdefault((os.path.dirname(file), s["split"], s["of"]), (set(), file))[0].add(int(s["number"]))
    for (_, split, of), (numbers, file) in there.items():
        tail = os.path.basename(file)[len(split) + 6 :]
        for n in sorted(set(range(int(of))) - numbers):
            name = f"{split}-{n:05}{tail}"
            if any(fnmatch.fnmatchcase(name, os.path.basename(p)) for p in patterns):
                raise MissingFileError(
                    f"{file} is one of {int(of)} files, and number {n} ({split}-{n:05}-of-{of}) is not "
                    "there: download it, or open those that are there as a list"
                )


def _by_name(path: str) -> dict[str, list[str]]:
    """The files of each split, as their names say."""
    for folder in (os.path.join(path, "data"), path):
        splits: dict[str, list[str]] = {}
        with os.scandir(folder) if os.path.isdir(folder) else contextlib.nullcontext(()) as entries:
            for entry in entries:
                if found := _SHARD.fullmatch(entry.name):
                    splits.setdefault(found["split"], []).append(entry.path)
        if splits:
            return {name: splits[name] for name in sorted(splits)}
    return {}


def card_of(path: str) -> list[dict[str, Any]]:
    """The `configs` of a folder's card that name files; none: it has no card, or one that names none."""
    try:
        with open(os.path.join(path, _CARD), encoding="utf-8-sig", errors="replace") as file:
            text = file.read(_CARD_BYTES)
    except OSError:
        return []
    head = re.match(r"---[ \t]*\r?\n(.*?)^---[ \t]*\r?$", text, re.DOTALL | re.MULTILINE)
    said = head and re.search(r"^configs:.*?(?=^[^\s#-]|\Z)", head[1], re.DOTALL | re.MULTILINE)
    if not said:
        return []
    from .arrow import needed

    yaml = needed("yaml", f"reading the splits in {os.path.join(path, _CARD)}", "pyyaml")
    try:
        found = yaml.safe_load(said[0])
    except (yaml.YAMLError, ValueError, RecursionError) as e:
        raise CorruptError(f"{os.path.join(path, _CARD)} has configs that are no YAML: {e}") from e
    configs = found.get("configs") if isinstance(found, Mapping) else None
    return [c for c in configs if isinstance(c, dict) and c.get("data_files")] if isinstance(configs, list) else []


def _by_card(path: str, configs: list[dict[str, Any]]) -> dict[str, list[str]]:
    """The patterns of each split of the card's one configuration, or of its default one."""
    chosen = [c for c in configs if c.get("default") is True] or [
        c for c in configs if len(configs) == 1 or c.get("config_name") == "default"
    ]
    if configs and not chosen:
        names = "; ".join(", ".join(_patterns(path, c, 3)) for c in configs[:8])
        raise InvalidError(
            f"{path} has {len(configs)} configurations, and none is the default: name the files of one, as a pattern "
            f"({names}{'; ...' if len(configs) > 8 else ''})"
        )
    return _splits(path, chosen[0]) if chosen else {}


def _patterns(path: str, config: Mapping[str, Any], most: int) -> list[str]:
    return [os.path.join(glob.escape(path), p) for found in _splits(path, config).values() for p in found][:most]


def _splits(path: str, config: Mapping[str, Any]) -> dict[str, list[str]]:
    """The patterns of each split: `data_files` is a pattern, a list of them, or a list of splits with theirs."""
    given, base = config["data_files"], config.get("data_dir") or ""
    listed = given if isinstance(given, list) else [given]
    if isinstance(given, dict):
        listed = [{"split": name, "path": patterns} for name, patterns in given.items()]
    splits: dict[str, list[str]] = {}
    n = 0
    for one in listed:
        name, found = (one.get("split"), one.get("path")) if isinstance(one, dict) else ("train", one)
        for pattern in found if isinstance(found, list) else [found]:
            if not isinstance(name, str) or not isinstance(pattern, str) or not isinstance(base, str):
                raise CorruptError(f"{os.path.join(path, _CARD)} has configs whose data_files are not names of files")
            full = os.path.normpath(os.path.join(base, pattern))
            if os.path.isabs(full) or full.split("/")[0] == ".." or "\0" in full or "://" in pattern:
                raise CorruptError(
                    f"{os.path.join(path, _CARD)} names the files {pattern!r:.80}, which are not in its folder"
                )
            splits.setdefault(name, []).append(full)
            n += 1
            if n > _MOST_PATTERNS:  # aliases of YAML make much of little
                raise CorruptError(f"{os.path.join(path, _CARD)} names more than {_MOST_PATTERNS:,} files in configs")
    return splits


def _fitting(path: str, pattern: str) -> Iterator[str]:
    found = glob.iglob(os.path.join(glob.escape(path), pattern), recursive=True)
    return (f for f in found if os.path.isfile(f))


def _matching(path: str, split: str, patterns: list[str]) -> list[str]:
    files: set[str] = set()
    for pattern in patterns:
        found = sorted_by_name(list(_fitting(path, pattern)))
        if not found:
            raise MissingFileError(
                f"{path} has no file {pattern} of the split {split!r}, which {_CARD} names: download it again"
            )
        files.update(found)
    return list(files)


def _name_photos(path: str, configs: list[dict[str, Any]]) -> bool:
    patterns = (p for c in configs for found in _splits(path, c).values() for p in found)
    return any(f.lower().endswith(_PHOTOS) for p in patterns for f in _fitting(path, p))


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
