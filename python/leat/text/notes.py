"""What a run that writes a file notes beside it, so that an interrupted one can go on: ``PATH.tokens`` of
leat.tokenize, ``PATH.packing`` of leat.pack."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from ..data.dataset import open as _open
from ..errors import ChangedError, ExistsError
from ..files import whole, writing
from .skipped import FIRST, PLACES, is_foreign, joined, plain


class Notes:
    """PATH.tokens, or with another ending: the inputs of a run, and the records that it left out."""

    def __init__(self, target: str, begun: Mapping[str, Any], ending: str = ".tokens") -> None:
        self._target, self._begun = target, dict(begun)
        self._path = target + ending
        self.skipped: list[dict[str, Any]] = []  # "index": of the record; "before": documents written before it
        #: why the files there are not of this run, which matters if they have documents
        self.fault: ChangedError | None = None
        self._file: Any = None

    def prepare(self, resume: bool, overwrite: bool) -> None:
        there = os.path.exists(self._path)
        if there and not resume and not overwrite and os.path.exists(self._target + ".partial"):
            raise ExistsError(
                f"{self._target}.partial: an unfinished run is here: resume=True continues it, overwrite=True starts "
                "again"
            )
        if resume and there:
            self._load()
        elif resume and os.path.exists(self._target + ".partial"):
            self.fault = ChangedError(
                f"{self._target}.partial was begun by something else, or {self._path} is lost: start again with "
                "overwrite=True"
            )

    def _load(self) -> None:
        with open(self._path, encoding="utf-8", errors="replace") as f:
            lines = f.read().split("\n")[:-1]  # behind the last line end: a line that was cut
        try:
            before, *skipped = (json.loads(line) for line in lines)
            known = isinstance(before, dict) and all({"index", "before", "reason"} <= one.keys() for one in skipped)
        except (ValueError, AttributeError):  # no line at all is one, too
            known = False
        if not known:
            self.fault = ChangedError(f"{self._path} is damaged: start again with overwrite=True")
            return
        for name, value in self._begun.items():
            if before.get(name) != value:
                self.fault = ChangedError(f"{self._target}: {_difference(name, before.get(name), value)}")
                return
        self.skipped = skipped

    def _is_published(self) -> bool:
        unfinished = os.path.exists(self._target + ".partial")
        return not (unfinished or self.fault) and os.path.exists(self._path) and os.path.exists(self._target)

    def published_with(self, records: int) -> bool:
        """Whether the run that is resumed has given the file its name, which has all of so many records but those that
        are noted."""
        return self._is_published() and len(_open(self._target)) + len(self.skipped) == records

    def published(self, about: Mapping[str, Any]) -> bool:
        """Whether the run that is resumed got as far as giving the pack its name, and no further."""
        if not self._is_published():
            return False
        made = _open(self._target)
        there, wanted = made.metadata, json.loads(json.dumps(about))
        skipped = about.get("skipped")
        if self.skipped and not is_foreign(skipped):
            skipped = self.summary(skipped)
        same = there.pop("skipped", None) == skipped
        wanted.pop("skipped", None)
        return same and there == wanted and len(made) + len(self.skipped) == int(self._begun["records"])

    def start(self, written: int) -> int:
        """Begins the file for a run that goes on behind `written` documents; returns the next record."""
        if self.fault is not None and written:
            raise self.fault
        self.skipped = [s for s in self.skipped if s["before"] <= written]
        with whole(self._path) as f:
            for line in (self._begun, *self.skipped):
                f.write(f"{json.dumps(line)}\n".encode())
        _sync_folder(self._path)
        self._file = open(self._path, "a", encoding="utf-8")  # noqa: SIM115
        return written + len(self.skipped)

    def summary(self, before: Any = None) -> dict[str, Any]:
        """The contents of ``metadata["skipped"]``, for this run and those that it went on from; `before`: said
        already."""
        first = [
            {"record": s["index"], **({"file": plain(os.path.basename(s["path"]))} if s.get("path") else {})}
            | {name: s[name] for name in PLACES if name in s}
            | {"reason": plain(s.get("what", s["reason"]))}
            for s in self.skipped[:FIRST]
        ]
        return joined(before, {"on_open": 0, "tokenising": len(self.skipped), "first": first})

    def skip(
        self, index: int, before: int, reason: str, about: Mapping[str, Any] = MappingProxyType({}), what: str = ""
    ) -> None:
        """Notes a record; `about`: its place; `what`: the reason without the place."""
        line = {"index": index, "skipped": True, "path": "", **about, "reason": reason, "before": before}
        line["what"] = what or reason
        self.skipped.append(line)
        with writing(self._path, ", then go on with resume=True"):
            self._file.write(json.dumps(line) + "\n")
            self._file.flush()
            os.fsync(self._file.fileno())

    def close(self) -> None:
        if self._file is not None:
            self._file.close()

    def finish(self, broken: Sequence[tuple[int, bool, str, str]] = ()) -> None:
        """The pack is finished: leaves the list of records left out, and removes that of an earlier pack. `broken`:
        photos, as of a Writer."""
        lines = [{k: v for k, v in s.items() if k not in ("before", "what")} for s in self.skipped]
        for line in bad_lines(broken):
            before = sum(s["before"] <= line["index"] for s in self.skipped)  # the Writer does not know of these
            lines.append({**line, "index": line["index"] + before})
        list_bad(self._target, sorted(lines, key=lambda line: int(line["index"])))
        with contextlib.suppress(FileNotFoundError):
            os.remove(self._path)


def bad_lines(broken: Sequence[tuple[int, bool, str, str]]) -> list[dict[str, Any]]:
    """What PATH.bad.jsonl says of the broken photos of a Writer, as cli/pack_report.c."""
    return [{"index": i, "skipped": left_out, "path": name, "reason": why} for i, left_out, name, why in broken]


def list_bad(target: str, lines: Sequence[Mapping[str, Any]]) -> None:
    """Writes PATH.bad.jsonl, or removes that of an earlier pack."""
    path = target + ".bad.jsonl"
    if lines:
        with whole(path, ", then go on with resume=True") as f:
            for line in lines:
                f.write(f"{json.dumps(line)}\n".encode())
    else:
        with contextlib.suppress(FileNotFoundError):
            os.remove(path)


def _sync_folder(path: str) -> None:
    """A name that was given stays, whatever happens."""
    folder = os.open(os.path.dirname(path), os.O_RDONLY)
    try:
        os.fsync(folder)
    except OSError:  # some file systems have no such thing
        pass
    finally:
        os.close(folder)


def _difference(name: str, before: Any, now: Any) -> str:
    if name == "tokenizer" and before and before.get("hash") != now["hash"]:
        return (
            f"the tokenizer changed since this was begun: it was {before.get('file')} ({before.get('hash')}), and is "
            f"{now['file']} ({now['hash']}). Give that one, or start again with overwrite=True"
        )
    return (
        f"the {name} changed since this was begun: {before}, now {now}. Give what it was begun with, or start again "
        "with overwrite=True"
    )
