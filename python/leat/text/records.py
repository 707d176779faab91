"""Records as tokenising reads them: a text, or a chat that a template makes a text of, and the fields that are kept."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from ..data.arrow import Chunks
from ..data.dataset import Dataset
from ..data.made import Failed
from ..data.made import Reader as Converter
from ..data.schema import Field
from ..errors import Error, InvalidError
from .chat import BadChat, Chat, ChatTemplate
from .tokenizer import Spans, Tokenizer

BLOCK = 256  #: records of a table that are read together


class Place(NamedTuple):
    """The place of a record."""

    words: str  #: for a message
    about: dict[str, Any]  #: "path", of lines "line" and "byte", of tables "row_group" (or "record_batch") and "row"


class Reader:
    """Values of a data set as buffers, in the order of its records.

    A block of records of a table (Parquet, Arrow), a view or a joined data set is read in one call: reading them one by
    one costs more than tokenising them. Other data sets are read one by one, as is a block with a record that cannot be
    read.
    """

    def __init__(self, dataset: Dataset, wanted: set[int]) -> None:
        """`wanted`: the numbers of the fields that will be read."""
        self._handle, self._one = dataset._handle, dataset._handle.read
        self._count, self._wanted = len(dataset), sorted(wanted)
        tables = _tables(dataset)
        self._tables = [Converter(source, dataset.schema) for source in tables or ()]
        self._chunks = tables or []
        self._firsts = np.cumsum([0, *map(len, self._chunks)])[:-1]  # ids of the first records of tables
        self._first = -BLOCK
        self._block: dict[int, Any] = {}

    def __call__(self, i: int, index: int, as_bytes: bool) -> Any:
        if self._tables and not self._first <= i < self._first + BLOCK:
            self._first = i
            try:
                self._block = self._read(i, min(BLOCK, self._count - i))
            except Failed:
                self._block = {}
        values = self._block.get(index)
        if values is None:
            return self._one(i, index, as_bytes)
        at = i - self._first
        return values[at] if isinstance(values, list) else values[at, ...]

    def _ids(self, first: int, n: int) -> tuple[Any, Any]:
        """The number of their table for records, and their places in it."""
        ids = np.frombuffer(self._handle.ids(first, n), np.int64)
        of = np.searchsorted(self._firsts, ids, "right") - 1
        return of, ids - self._firsts[of]

    def _read(self, first: int, n: int) -> dict[int, Any]:
        of, rows = self._ids(first, n)
        numbers = np.unique(of).tolist()
        if len(numbers) == 1:
            found = self._tables[numbers[0]](self._wanted, np.ascontiguousarray(rows).tobytes())
            return dict(zip(self._wanted, found, strict=True))
        block: dict[int, Any] = {index: [None] * n for index in self._wanted}
        for number in numbers:
            at = np.flatnonzero(of == number)
            found = self._tables[number](self._wanted, rows[at].tobytes())
            for index, values in zip(self._wanted, found, strict=True):
                for k, j in enumerate(at.tolist()):
                    block[index][j] = values[k] if isinstance(values, list) else values[k, ...]
        return block

    def place(self, i: int, index: int) -> Place:
        """The place of record `i`, its field `index`: the file and the line, as far as there are some."""
        plain = f"record {i}"
        if self._tables:
            of, rows = self._ids(i, 1)
            chunk, row = self._chunks[int(of[0])].place(int(rows[0]))
            part, number = chunk.part.rsplit(" ", 1)
            about = {"path": chunk.path, part.replace(" ", "_"): int(number), "row": row}
            return Place(f"{chunk.where}, row {row} ({plain})", about)
        try:
            path, _, line, byte = self._handle.place(i, index)
        except (OSError, Error):  # the file changed: the error of the record is still to be reported
            return Place(plain, {})
        if not line:
            return Place(plain, {"path": path} if path else {})
        return Place(f"{path}, line {line}, byte {byte} ({plain})", {"path": path, "line": line, "byte": byte})


def _tables(dataset: Dataset) -> list[Chunks] | None:
    """The tables whose records have the ids of a data set, one behind the other; None: not all are tables."""
    if type(dataset) is not Dataset:  # rows that are packed of several records
        return None
    kind = dataset._recipe[0]
    if isinstance(kind, Dataset):  # a view of it
        return _tables(kind)
    if kind == "concat":
        joined = dataset._recipe[1]
        parts = joined[0] if len(joined) == 1 and not isinstance(joined[0], Dataset) else joined
        found = [_tables(part) for part in parts]
        return None if any(part is None for part in found) else [one for part in found for one in part or ()]
    source = dataset._recipe[1]
    return [source] if kind == "source" and isinstance(source, Chunks) else None


class BadText(InvalidError):
    """A record whose text cannot be tokenised: its place, its error, and the place for a list."""

    what: str
    place: Place

    @classmethod
    def at(cls, place: Place, what: str) -> BadText:
        error = cls(f"{place.words}{what}")
        error.what, error.place = what.lstrip(":, "), place
        return error


def reason_of(e: Exception, place: Place) -> str:
    """The error of a record, without the place."""
    if isinstance(e, BadText):
        return e.what
    path, text = place.about.get("path", ""), str(e).removeprefix(f"{place.words}: ")
    return text.replace(path, os.path.basename(path)) if path else text


class Records:
    """The fields of a data set that are read, as the Writer takes them."""

    masks: tuple[str, ...] = ()
    about: Mapping[str, Any] = MappingProxyType({})

    def __init__(self, dataset: Dataset, text: str, tokens: str, kept: Sequence[str] | None) -> None:
        self.text = text
        self._text_index, found = dataset._find(text)
        if found.kind not in ("str", "bytes"):
            raise TypeError(f"field {text!r} is no text but {found}: name one of kind 'str' with text=")
        self._keep(dataset, tokens, kept, {text})

    def _keep(self, dataset: Dataset, tokens: str, kept: Sequence[str] | None, used: AbstractSet[str]) -> None:
        self.dataset = dataset
        all_others = [n for n, f in dataset.schema.items() if not f.derived and n not in used]
        self.kept = all_others if kept is None else list(kept)
        for name in (tokens, *self.masks):
            if name in self.kept:
                raise ValueError(
                    f"the data set has a field {name!r} already: name that of the tokens otherwise (field=), or keep "
                    "other fields (fields=)"
                )
        self.properties: dict[str, Field] = {}
        self._indices: list[tuple[int, bool]] = []
        for name in self.kept:
            index, one = dataset._find(name)
            self.properties[name] = one
            self._indices.append((index, one.kind != "array"))
        self._reader = Reader(dataset, {i for i, _ in self._indices} | {dataset._find(n)[0] for n in used})

    def __len__(self) -> int:
        return len(self.dataset)

    def read(self, i: int) -> tuple[Any, Spans, int, list[Any]]:
        """The text of a record, its learned parts, its bytes, and the values of the other fields as buffers."""
        raw = self._reader(i, self._text_index, True)
        values = [self._reader(i, index, as_bytes) for index, as_bytes in self._indices]
        try:
            return bytes(raw).decode(), (), len(raw), values
        except UnicodeDecodeError as e:
            place = self.place(i)
            raise BadText.at(place, f", field {self.text!r}, byte {e.start}: the text is not UTF-8") from None

    def place(self, i: int) -> Place:
        """The place of a record."""
        return self._reader.place(i, self._text_index)

    def encode(self, core: Tokenizer, texts: Sequence[Any], spans: Sequence[Spans]) -> list[tuple[Any, ...]]:
        """The values of each text for the writer: its tokens."""
        return [(ids,) for ids in core.encode(texts)]


class Chats(Records):
    """Records that are chats."""

    masks = ("loss_mask",)

    def __init__(self, dataset: Dataset, chat: Chat, tokenizer: Any, tokens: str, kept: Sequence[str] | None) -> None:
        self.text = chat.messages
        self._template = ChatTemplate(chat, tokenizer)
        self.about = {"chat": self._template.about}
        self._text_index = self._json(dataset, chat.messages)
        has_tools = chat.tools in dataset.schema
        self._tools_index = self._json(dataset, chat.tools) if has_tools else None
        self._tools = chat.tools
        self._keep(dataset, tokens, kept, {chat.messages} | ({chat.tools} if has_tools else set()))

    def warning(self, tokens: int, learned: int | None, whole: bool) -> str:
        """The oddities of a pack of so many tokens; `whole`: all its documents were made by this run."""
        learn = self._template.about["learn"]
        never = [role for role in learn if role not in self._template.met] if whole else []
        if tokens and not learned:
            return f"no token is learned: no message has one of the roles {', '.join(learn)}"
        if tokens and never:
            return f"no message has the role {', '.join(map(repr, never))}, of those that are to be learned from"
        return ""

    def _json(self, dataset: Dataset, name: str) -> int:
        index, found = dataset._find(name)
        if found.kind not in ("json", "str"):
            raise TypeError(f"field {name!r} is no JSON but {found}: leat.chat(messages=, tools=) name the fields")
        return index

    def read(self, i: int) -> tuple[Any, Spans, int, list[Any]]:
        messages = self._parsed(i, self._text_index, self.text)
        tools = None if self._tools_index is None else self._parsed(i, self._tools_index, self._tools)
        try:
            text, spans = self._template.learned(messages, tools)
            size = len(text.encode())
        except BadChat as e:
            raise BadText.at(self.place(i), f", field {self.text!r}: {e}") from None
        except UnicodeEncodeError:
            raise BadText.at(self.place(i), f", field {self.text!r}: a text has half of a surrogate pair") from None
        return text, spans, size, [self._reader(i, index, as_bytes) for index, as_bytes in self._indices]

    def _parsed(self, i: int, index: int, name: str) -> Any:
        raw = self._reader(i, index, True)
        if not raw and name == self._tools:
            return None
        try:
            return json.loads(raw)
        except (ValueError, RecursionError) as e:
            raise BadText.at(self.place(i), f", field {name!r} is no JSON: {e}") from None

    def encode(self, core: Tokenizer, texts: Sequence[Any], spans: Sequence[Spans]) -> list[tuple[Any, ...]]:
        return list(core.encode_learned(texts, spans))


class Ready(Records):
    """Records that are tokens already, as those of Megatron's files are."""

    def __init__(self, dataset: Dataset, name: str, tokens: str, kept: Sequence[str] | None) -> None:
        self.text = name
        self._text_index, found = dataset._find(name)
        if found.kind != "array" or len(found.shape) != 1 or "int" not in found.dtype:
            raise TypeError(f"field {name!r} has no tokens: it is {found}")
        self._keep(dataset, tokens, kept, {name})

    def read(self, i: int) -> tuple[Any, Spans, int, list[Any]]:
        ids = np.asarray(self._reader(i, self._text_index, False))
        return ids, (), ids.nbytes, [self._reader(i, index, as_bytes) for index, as_bytes in self._indices]

    def encode(self, core: Tokenizer, texts: Sequence[Any], spans: Sequence[Spans]) -> list[tuple[Any, ...]]:
        return [(ids,) for ids in texts]
