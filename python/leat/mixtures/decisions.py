"""The whole log of a run. The library folds decisions that lie far behind, so that its state stays small; they are kept
here, and, if the loader has a folder for it, in a file.

    run          open  d1 d2 ... d940            | d941 ... d972 | d973
    library      open  folded (940 entries)      | d941 ... d972 | d973
    state        open  folded, hash of d1 ..d940 | d941 ... d972 | d973        and d1 ... d940 while they are few
    the file     open  d1 d2 ... d940              d941 ... d972   d973
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import zlib
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from .. import _leat
from ..errors import RangeError, StateError
from ..files import whole, writing
from ..saved import part
from .logs import Steps, is_entry, with_shares

Place = tuple[int, int]  #: epoch and step
Entry = dict[str, Any]  #: of the loader's log
FILE = "decisions.jsonl"  #: in the folder of a run
OLDER = 16384  #: bytes of folded entries that a state has
LONG = 512  #: characters of a line from which on it is kept compressed


class Lines:
    """Lines of text. Long ones, of the shares of many sources, take half of their length."""

    def __init__(self) -> None:
        self._kept: list[str | bytes] = []
        self._ends = [0]  # characters of the first lines

    def __len__(self) -> int:
        return len(self._kept)

    def add(self, line: str) -> None:
        self._kept.append(line if len(line) < LONG else zlib.compress(line.encode(), 1))
        self._ends.append(self._ends[-1] + len(line))

    def at(self, number: int) -> str:
        kept = self._kept[number]
        return kept if isinstance(kept, str) else zlib.decompress(kept).decode()

    def of(self, begin: int, end: int | None = None) -> Iterator[str]:
        """The lines from `begin` on."""
        return map(self.at, range(begin, len(self) if end is None else end))

    def size(self, count: int) -> int:
        """Characters of the first lines."""
        return self._ends[count]


class Decisions:
    """The log of a loader. `folder`: that of the file; `writes`: whether this process writes it. Only the hashes of the
    lists of a Sampler are kept.
    """

    def __init__(self, log: list[Entry], folder: str | None, writes: bool) -> None:
        self.path = None if folder is None else os.path.join(folder, FILE)
        self.writes = writes and folder is not None
        self.repeats = False  #: the log was given, and will be given again when a state is loaded
        self.begin(log, [])

    def begin(self, log: list[Entry], older: list[Entry], digest: str = "") -> None:
        """Begins with the present log of the library.

        Args:
            log: the library's.
            older: entries that it has folded. []: they are not known.
            digest: of these.
        """
        hidden = _hidden(log)
        self.opened = log[0]
        self.lost = hidden - len(older)  #: entries of which only the folded one is known: all that are folded, or none
        self.folded = log[1] if self.lost else None
        self._lines = Lines()  # of all entries after those
        self._steps = Steps()
        self._places: list[Place] = []
        self._numbers: list[int] = []  # of the lines that decided shares, by place
        self._base = self._sum = (self.lost, digest if self.lost else "")
        self._written = False
        self._steps.enter(self.opened)
        if self.folded is not None:
            self._steps.enter(self.folded)
        self._made = hashlib.sha256()  # of what all ranks know
        self._told: list[tuple[Place, str]] = []  # the places of these entries, and the hash up to each
        self._add(older)
        self._made = hashlib.sha256()
        self._told.clear()
        self._add(log[len(log) - _shown(log) :])

    # ---- queries -----------------------------------------------------------------------------------------------------

    def entries(self) -> list[Entry]:
        """All, the first one the opening of the loader. The second is folded if those before are not known."""
        more = [] if self.folded is None else [self.folded]
        return [self.opened, *more, *map(json.loads, self._lines.of(0))]

    @property
    def last(self) -> list[int] | None:
        """The shares that were decided last."""
        if self._numbers:
            return _shares(self._lines.at(self._numbers[-1]))
        return None if self.folded is None else self.folded.get("shares")

    @property
    def place(self) -> Place:
        """The start of the last decision."""
        if self._places:
            return self._places[-1]
        return (0, 0) if self.folded is None else (self.folded["epoch"], self.folded["steps"])

    def at(self, place: Place) -> list[int] | None:
        """The shares that were decided for a step. None: those that the loader was opened with.

        Raises:
            RangeError: what held there is folded.
        """
        i = bisect_right(self._places, place)
        if i:
            return _shares(self._lines.at(self._numbers[i - 1]))
        if self.folded is None:
            return None
        if place < (self.folded["epoch"], self.folded["steps"]):
            raise RangeError(
                f"step {place[1]} of epoch {place[0]} lies before decisions that were folded: what held there stands "
                "in the log of the run that made them"
            )
        return self.folded.get("shares")

    def take(self, core: _leat.Loader) -> list[Entry]:
        """Takes over the new entries of the library's log, and returns them."""
        new: list[Entry] = json.loads(core.log(1 + self.lost + len(self._lines)))
        if new:
            self._add(new)
            self._write(len(new))
        return new

    def _add(self, entries: list[Entry]) -> None:
        for entry in map(_without_positions, entries):
            step = self._steps.enter(entry)
            if entry["kind"] == "decide" and "shares" in entry:
                self._places.append((entry["epoch"], step))
                self._numbers.append(len(self._lines))
            self._lines.add(_text(entry))
            plain = {key: value for key, value in entry.items() if key != "facts"}
            if entry["kind"] != "resume" or len(plain) > 3:
                self._made.update(_text(plain).encode())
                self._told.append(((entry["epoch"], step), self._made.hexdigest()[:16]))

    def told(self, place: Place | None = None) -> str:
        """The number and a hash of the decisions since the loader was opened or a state loaded, as ranks compare them:
        those that hold at a step, whatever was decided beyond; None: all. Those of a pipeline's middle have another
        program, which decides nothing.
        """
        n = len(self._told) if place is None else bisect_right(self._told, place, key=lambda one: one[0])
        return f"{n} of hash {self._told[n - 1][1]}" if n else "none"

    # ---- in a state --------------------------------------------------------------------------------------------------

    def state(self, core: Mapping[str, Any]) -> dict[str, Any]:
        """The parts of a state beside the library's `core`."""
        hidden, shown, later = _hidden(core["log"]), _shown(core["log"]), core.get("later", 0)
        found: dict[str, Any] = {}
        if hidden:
            found["folded"] = self._digest(hidden)
            if not self.lost and self._lines.size(hidden) <= OLDER:
                found["older"] = [json.loads(line) for line in self._lines.of(0, hidden)]
        if later:
            lines = self._lines.of(hidden + shown - self.lost)
            found["later"] = _digest(lines, "") if self.repeats else [json.loads(line) for line in lines]
        return found

    def _digest(self, hidden: int) -> str:
        """A hash of the first entries. Mostly more and more are folded, so the last one is kept. A state that has room
        for entries again folds fewer than the one before it did.
        """
        count, digest = self._sum if hidden >= self._sum[0] else self._base
        self._sum = hidden, _digest(self._lines.of(count - self.lost, hidden - self.lost), digest)
        return self._sum[1]

    @staticmethod
    def check(saved: Mapping[str, Any], sources: int | None) -> None:
        """Checks all that a state has of decisions, so that `load` fails on nothing. `sources`: of the mixture.

        Raises:
            StateError: it is damaged.
        """
        part(saved, "folded", str)
        for entry in part(saved, "older", list, []):
            if not is_entry(entry, sources):
                raise StateError(f"the state is damaged: its decisions have {entry!r:.120}")
        if not isinstance(saved.get("later", []), (list, str)):
            raise StateError(f"the state is damaged: 'later' cannot be {saved['later']!r:.60}")

    def complete(self, core: dict[str, Any], saved: Mapping[str, Any]) -> None:
        """Gives a state of the library's back the decisions behind its position that it leaves out, if they are known,
        and to one of a repeated run those that it had not made yet.

        Raises:
            StateError: they are those of another log.
        """
        later = saved.get("later")
        if isinstance(later, str):
            n = core["later"]
            found = [entry for entry in self._whole() if entry["kind"] != "open"][-n:]
            if not self.repeats or _digest(map(_text, found), "") != later:
                raise StateError(
                    f"the state is of a run that repeats a log, of which {n} decisions are still to come: open the "
                    "loader with log=, the same one"
                )
            later = found
        if later:
            core["log"] = [*core["log"], *later]
            core.pop("later", None)
        if self.repeats and not self.lost:
            core["log"] = [*core["log"], *self._to_come(core["log"], (core["at"]["epoch"], core["at"]["row"]))]

    def _to_come(self, log: list[Entry], at: Place) -> list[Entry]:
        """The entries of the repeated log that a state at an epoch and row lacks, since its run made them later.

        Raises:
            StateError: it is of another run.
        """

        def decided(entries: list[Entry]) -> tuple[list[Entry], list[Entry]]:
            made = [entry for entry in with_shares(entries) if entry["kind"] == "decide"]
            behind = [(entry["epoch"], entry["row"]) >= at for entry in made].count(True)
            return made[: len(made) - behind], made[len(made) - behind :]

        own = self._whole()[1:]
        (made, ahead), (its, its_ahead) = decided(own), decided(log)
        known = made[max(len(made) - len(its), 0) :] if _hidden(log) else made  # a folded entry hides the first ones
        other = its != known if ahead else not _hidden(log) and its[: len(made)] != made
        if other or ahead[: len(its_ahead)] != its_ahead[: len(ahead)]:
            raise StateError("the state is of another run than the one whose log this loader repeats: leave log= out")
        numbers = [i for i, entry in enumerate(own) if entry["kind"] == "decide"]
        n = len(made) + len(its_ahead)
        rest = own[numbers[n - 1] + 1 if n else 0 :] if ahead[len(its_ahead) :] else []
        return [e for e in rest if (e["epoch"], e["row"]) >= at and (e["kind"] == "decide" or e not in log)]

    def repeat(self, log: list[Entry]) -> None:
        """Begins with the log of another run, which the library has taken over."""
        self.repeats = True
        self.begin(log, [])

    def load(self, log: list[Entry], saved: Mapping[str, Any]) -> None:
        """Begins with the library's log after a state was loaded."""
        hidden, digest = _hidden(log), saved.get("folded", "")
        for known in (saved.get("older", []), self._whole()[1:], read(self.path)[1:]):
            older = known[:hidden]
            whole = len(older) == hidden and all(map(is_entry, older))
            if whole and _digest(map(_text, older), "") == digest:
                break
        else:
            older = []
        self.begin(log, older, digest)

    def _whole(self) -> list[Entry]:
        return [self.opened] if self.lost else self.entries()

    # ---- the file ----------------------------------------------------------------------------------------------------

    def _write(self, new: int) -> None:
        """Appends the last `new` lines, or makes the file if nothing was written yet."""
        if not self.writes or self.path is None:
            return
        written, self._written = self._written, False  # behind a line that was cut, all are written
        with writing(self.path):
            if written:
                with open(self.path, "a", encoding="utf-8") as file:
                    file.write("".join(line + "\n" for line in self._lines.of(len(self._lines) - new)))
            else:
                self._write_all(self.path)
        self._written = True

    def _write_all(self, path: str) -> None:
        lines = [_text(entry) for entry in self.entries()]
        with whole(path, folder=True) as file:
            file.write("".join(line + "\n" for line in lines).encode())
            file.flush()
            if not _continues(read(path), lines):
                with contextlib.suppress(FileNotFoundError):
                    os.replace(path, path + ".old")  # of another run


def read(path: str | None) -> list[Entry]:
    """The entries of a file, up to the first line that is none: a run that was killed may have cut the last one. []:
    there is no file.
    """
    found: list[Entry] = []
    if path is not None:
        with contextlib.suppress(OSError, ValueError), open(path, encoding="utf-8") as file:
            for line in file:
                found.append(json.loads(line))
    return found if all(isinstance(entry, dict) for entry in found) else []


def _continues(found: list[Entry], lines: list[str]) -> bool:
    """Whether one log is the beginning of the other."""
    return all(_text(entry) == line for entry, line in zip(found, lines, strict=False))


def _hidden(log: list[Entry]) -> int:
    """The number of folded entries."""
    return log[1]["entries"] if len(log) > 1 and log[1]["kind"] == "folded" else 0


def _shown(log: list[Entry]) -> int:
    """The number behind the opening and the folded entry."""
    return len(log) - (2 if _hidden(log) else 1)


def _without_positions(entry: Entry) -> Entry:
    given = entry.get("list")
    return {**entry, "list": {key: given[key] for key in given if key != "positions"}} if given else entry


def _text(entry: Entry) -> str:
    return json.dumps(entry, sort_keys=True, separators=(",", ":"))


def _digest(lines: Iterable[str], before: str) -> str:
    for line in lines:
        before = hashlib.sha256((before + line).encode()).hexdigest()[:32]
    return before


def _shares(line: str) -> list[int]:
    found: list[int] = json.loads(line)["shares"]
    return found
