"""Files of prompts and of results, record by record, with the bytes of each as they are: JSONL, such as batch files of
OpenAI's form, and CSV."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from .. import _leat
from ..errors import BrokenSampleError

PART = 1 << 20  #: bytes that are searched for line ends at a time
AHEAD = 1 << 22  #: bytes that are read at a time in the order of the file

Numbers = np.ndarray[Any, np.dtype[np.int64]]


class Records:
    """The records of a file: lines of JSON that are not blank, or records of CSV behind a header.

    Args:
        path: its name ends with ``.csv`` if it is that.
        cut: a record at the end that is no whole one is left out (:attr:`was_cut` is its byte), as of an engine that
            was stopped while it wrote. One of CSV is whole with its line end only: a value may end anywhere.
    """

    def __init__(self, path: str, cut: bool = False) -> None:
        self.path, self.csv = path, path.lower().endswith(".csv")
        if path.lower().endswith((".gz", ".zst")):
            raise ValueError(f"{path} is compressed: unpack it first, so that its lines can be written as they are")
        self._file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self.header, self.columns = b"", list[str]()
        self.was_cut: int | None = None
        self._lines: Numbers | None = None
        self._begins, self._ends = self._found(cut and self.csv)
        if cut and not self.csv:
            self._leave_out_cut()

    def close(self) -> None:
        os.close(self._file)

    def __len__(self) -> int:
        return len(self._begins)

    def _found(self, whole: bool) -> tuple[Numbers, Numbers]:
        """Where records begin and end. `whole`: one without its line end is left out."""
        ends: list[Numbers] = []
        room, at, quoted = np.empty(PART, np.uint64), 0, False
        while part := os.pread(self._file, PART, at):
            n, quoted = _leat.prompts_records(part, self.csv, quoted, room)
            ends.append(room[:n].astype(np.int64) + at)
            at += len(part)
        found = np.concatenate(ends) if ends else np.empty(0, np.int64)
        last = int(found[-1]) if len(found) else 0
        if last < at and whole:
            self.was_cut = last
        elif quoted:
            raise BrokenSampleError(
                f"{self.path}, byte {last}: a quote of this record is not closed before the file ends"
            )
        elif last < at:
            found = np.append(found, at)
        begins = np.concatenate([np.zeros(1, np.int64), found[:-1]]) if len(found) else found
        if self.csv and not (whole and not len(found)):
            begins, found = self._behind_header(begins, found)
        elif len(begins) and os.pread(self._file, 3, 0) == b"\xef\xbb\xbf":
            begins[0] = 3  # behind a mark of byte order, which belongs to the file
        short = np.flatnonzero(found - begins <= 8)
        blank = [int(i) for i in short if not os.pread(self._file, 8, int(begins[i]))[: found[i] - begins[i]].strip()]
        return np.delete(begins, blank), np.delete(found, blank)

    def _behind_header(self, begins: Numbers, ends: Numbers) -> tuple[Numbers, Numbers]:
        if not len(begins):
            raise BrokenSampleError(f"{self.path}: a file of CSV begins with the names of its columns")
        self.header = os.pread(self._file, int(ends[0]), 0)
        self.columns = self._values(self.header.removeprefix(b"\xef\xbb\xbf"), f"{self.path}, line 1, byte 0")
        if len(set(self.columns)) < len(self.columns):
            raise BrokenSampleError(f"{self.path}, line 1, byte 0: two columns have one name: {self.columns!r:.200}")
        return begins[1:], ends[1:]

    def _leave_out_cut(self) -> None:
        """A last record without a line end is whole only if it reads as one."""
        if not len(self) or self.raw(len(self) - 1, as_it_is=True).endswith(b"\n"):
            return
        try:
            self.record(len(self) - 1)
        except BrokenSampleError:
            self.was_cut = int(self._begins[-1])
            self._begins, self._ends = self._begins[:-1], self._ends[:-1]

    def raw(self, i: int, as_it_is: bool = False) -> bytes:
        """The bytes of a record, with the line end that the last one may lack."""
        found = self._part(int(self._begins[i]), int(self._ends[i]))
        return found if as_it_is or found.endswith(b"\n") else found + b"\n"

    def _part(self, begin: int, end: int) -> bytes:
        found = os.pread(self._file, end - begin, begin)
        if len(found) != end - begin:
            raise BrokenSampleError(f"{self.path} has become shorter while it was read")
        return found

    def raws(self) -> Iterator[bytes]:
        """All of them, in the order of the file."""
        i = 0
        while i < len(self):
            begin = int(self._begins[i])
            n = max(int(np.searchsorted(self._ends, begin + AHEAD, "right")), i + 1)
            part = self._part(begin, int(self._ends[n - 1]))
            for k in range(i, n):
                one = part[int(self._begins[k]) - begin : int(self._ends[k]) - begin]
                yield one if one.endswith(b"\n") else one + b"\n"
            i = n

    def place(self, i: int) -> str:
        """The place of a record, for errors."""
        if self._lines is None:
            self._lines = np.zeros(len(self), np.int64)
            line, at = 1, 0
            for k, begin in enumerate(self._begins):
                while at < begin:
                    part = os.pread(self._file, min(PART, int(begin) - at), at)
                    line, at = line + part.count(b"\n"), at + len(part)
                    if not part:
                        break
                self._lines[k] = line
        return f"{self.path}, line {self._lines[i]}, byte {self._begins[i]}"

    def record(self, i: int, raw: bytes | None = None) -> dict[str, Any]:
        """A record as an object."""
        raw = self.raw(i, True) if raw is None else raw
        if self.csv:
            values = self._values(raw, lambda: self.place(i))
            if len(values) != len(self.columns):
                raise BrokenSampleError(
                    f"{self.place(i)}: the record has {len(values)} values, and the header {len(self.columns)} columns"
                )
            return dict(zip(self.columns, values, strict=True))
        try:
            found = json.loads(raw.decode())
        except UnicodeDecodeError as e:
            raise BrokenSampleError(f"{self.place(i)}: byte {e.start} of the line is no UTF-8") from None
        except json.JSONDecodeError as e:
            raise BrokenSampleError(f"{self.place(i)}: the line is no JSON: {e.msg} at its character {e.pos}") from None
        except (ValueError, RecursionError) as e:  # digits without end, or nested too deep
            raise BrokenSampleError(f"{self.place(i)}: the line is no JSON that can be read: {e}") from None
        if not isinstance(found, dict):
            raise BrokenSampleError(f"{self.place(i)}: the line is JSON, but no object")
        return found

    def _values(self, raw: bytes, place: Any) -> list[str]:
        where = place if isinstance(place, str) else None
        most = csv.field_size_limit()  # of the whole process
        try:
            csv.field_size_limit(max(most, len(raw)))
            return next(csv.reader([raw.decode().rstrip("\r\n")], strict=True), [])
        except UnicodeDecodeError as e:
            raise BrokenSampleError(f"{where or place()}: byte {e.start} of the record is no UTF-8") from None
        except csv.Error as e:
            raise BrokenSampleError(f"{where or place()}: the record is no CSV: {e}") from None
        finally:
            csv.field_size_limit(most)

    def id_of(self, i: int, raw: bytes | None = None) -> str | None:
        """Its ``custom_id``, if it has one."""
        found = self.record(i, raw).get("custom_id")
        if found is None or isinstance(found, str):
            return found
        raise BrokenSampleError(f"{self.place(i)}: custom_id is a text, not {found!r:.80}")

    def ids(self) -> list[str | None]:
        """Those of all records; None: the record has none.

        Raises:
            BrokenSampleError: two records have the same.
        """
        ids: list[str | None] = []
        found: dict[str, int] = {}
        for i, raw in enumerate(self.raws()):
            one = self.id_of(i, raw)
            ids.append(one)
            if one is None:
                continue
            if one in found:
                raise BrokenSampleError(f"{self.place(i)}: custom_id {one!r} stands in {self.place(found[one])}, too")
            found[one] = i
        return ids


def placed(plan: Records, src: Records) -> Numbers:
    """The record of `src` that each record of `plan` is, by its bytes; equal ones in order.

    Raises:
        BrokenSampleError: they have other records.
    """
    where: dict[bytes, list[int]] = {}
    for i, raw in enumerate(src.raws()):
        where.setdefault(raw, []).append(i)
    for numbers in where.values():
        numbers.reverse()
    out = np.empty(len(plan), np.int64)
    for i, raw in enumerate(plan.raws()):
        numbers = where.get(raw, [])
        if not numbers:
            raise BrokenSampleError(f"{plan.place(i)}: this record is none of {src.path}, or stands here more often")
        out[i] = numbers.pop()
    if len(plan) != len(src):
        missing = min(numbers[-1] for numbers in where.values() if numbers)
        raise BrokenSampleError(f"{src.place(missing)}: this record is not in {plan.path}")
    return out


def _has_failed(result: Mapping[str, Any]) -> bool:
    """Whether a line of OpenAI's batch output is about a request that failed."""
    if "response" not in result or "error" not in result:
        return False
    response = result["response"]
    status = response.get("status_code", 200) if isinstance(response, dict) else 0
    return result["error"] is not None or not isinstance(status, int) or not 200 <= status < 300


class Results:
    """Results of prompts, in one or several files, each of a record of `src`.

    Args:
        plan: the file that the engine was given, for results without a ``custom_id``.

    Raises:
        BrokenSampleError: a result is unknown, or a record has two; some have a ``custom_id`` and others none.
        ValueError: nothing says of which record a result is, or files are of different forms.
    """

    def __init__(self, src: Records, plan: Records | None, files: Sequence[Records]) -> None:
        self.src, self.files = src, files
        self._have_one_form()
        self.of = np.full((len(src), 2), -1, np.int64)  #: the file and the record of each one's result
        self.failed = 0  #: results that say that their request failed: they are none
        ids = src.ids()
        if None not in ids:
            self._by_id({one: i for i, one in enumerate(ids)})
            return
        without = ids.index(None)
        self._have_no_ids(without)
        if plan is None:
            raise ValueError(
                f"{src.place(without)}: the record has no custom_id, so that results are known by their lines: --plan "
                "names the file that leat prompts has written for the engine"
            )
        self._by_line(placed(plan, src), plan)

    def _have_one_form(self) -> None:
        """Files of other columns, or JSON lines and CSV, make no one file."""
        known = [file for file in self.files if file.columns or not file.csv]  # others were cut in their header
        for file in known[1:]:
            if file.csv != known[0].csv:
                forms = ["CSV" if one.csv else "JSON lines" for one in (known[0], file)]
                raise ValueError(f"{known[0].path} is {forms[0]}, and {file.path} {forms[1]}: results are of one form")
            if file.columns != known[0].columns:
                raise ValueError(
                    f"{file.path} has the columns {file.columns!r:.200}, and {known[0].path} "
                    f"{known[0].columns!r:.200}: results have one header"
                )

    def _have_no_ids(self, without: int) -> None:
        """Lines would mix up results that have ids, which come in any order."""
        for file in self.files:
            for k, raw in enumerate(file.raws()):
                one = file.id_of(k, raw)
                if one is not None:
                    raise BrokenSampleError(
                        f"{self.src.place(without)}: the record has no custom_id, and the result in {file.place(k)} "
                        f"has {one!r}: either all records have one, or no result"
                    )

    def _by_id(self, known: Mapping[str | None, int]) -> None:
        for f, file in enumerate(self.files):
            for k, raw in enumerate(file.raws()):
                one = file.id_of(k, raw)
                if one is None:
                    raise BrokenSampleError(f"{file.place(k)}: the result has no custom_id, as the prompts have")
                if not file.csv and _has_failed(file.record(k, raw)):
                    self.failed += one in known
                    continue
                at = known.get(one)
                if at is None:
                    raise BrokenSampleError(f"{file.place(k)}: no record of {self.src.path} has the custom_id {one!r}")
                if self.of[at, 0] >= 0:
                    before = self.files[self.of[at, 0]].place(int(self.of[at, 1]))
                    raise BrokenSampleError(f"{file.place(k)}: custom_id {one!r} has a result already, in {before}")
                self.of[at] = f, k

    def _by_line(self, order: Numbers, plan: Records) -> None:
        done = 0
        for f, file in enumerate(self.files):
            for k in range(len(file)):
                if done == len(order):
                    raise BrokenSampleError(
                        f"{file.place(k)}: there are more results than the {done} prompts of {plan.path}"
                    )
                self.of[order[done]] = f, k
                done += 1

    @property
    def missing(self) -> Numbers:
        """Records of `src` without a result."""
        return np.flatnonzero(self.of[:, 0] < 0)

    def in_order(self, order: Sequence[int] | None = None) -> Iterator[bytes]:
        """The results in the order of `src`, or of numbers of its records.

        Raises:
            BrokenSampleError: some are missing.
        """
        missing = self.missing
        if len(missing):
            raise BrokenSampleError(
                f"{self.src.place(int(missing[0]))}: there is no result for this record, the first of "
                f"{len(missing):,}: leat prompts --resume writes what is missing"
            )
        of = self.of if order is None else self.of[np.asarray(order, np.int64)]
        return (self.files[f].raw(int(k)) for f, k in of)
