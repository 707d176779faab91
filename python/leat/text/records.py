"""Records as tokenising reads them: a text, or a chat that a template makes a text of, and the fields that are kept."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from types import MappingProxyType
from typing import Any

import numpy as np

from ..data.arrow import Chunks
from ..data.dataset import Dataset
from ..data.made import Failed
from ..data.made import Reader as Converter
from ..data.schema import Field
from ..errors import InvalidError
from .chat import BadChat, Chat, ChatTemplate
from .tokenizer import Spans, Tokenizer

BLOCK = 256  #: records of a table that are read together


class Reader:
    """Values of a data set as buffers, in the order of its records.

    Of a table (Parquet, Arrow) a block of records is read in one call: asking for them one by one costs more than
    tokenising them. Other data sets are asked one by one, as is a block with a record that cannot be read.
    """

    def __init__(self, dataset: Dataset, wanted: set[int]) -> None:
        """`wanted`: the numbers of the fields that will be read."""
        self._one, self._count, self._wanted = dataset._handle.read, len(dataset), sorted(wanted)
        kind, source = dataset._recipe[:2]
        self._table = Converter(source, dataset.schema) if kind == "source" and isinstance(source, Chunks) else None
        self._first = -BLOCK
        self._block: dict[int, Any] = {}

    def __call__(self, i: int, index: int, as_bytes: bool) -> Any:
        if self._table is not None and not self._first <= i < self._first + BLOCK:
            self._first = i
            positions = np.arange(i, min(i + BLOCK, self._count), dtype=np.int64)
            try:
                read = self._table(self._wanted, positions.tobytes())
                self._block = dict(zip(self._wanted, read, strict=True))
            except Failed:
                self._block = {}
        values = self._block.get(index)
        if values is None:
            return self._one(i, index, as_bytes)
        at = i - self._first
        return values[at] if isinstance(values, list) else values[at, ...]


class BadText(InvalidError):
    """A record whose text cannot be tokenised."""


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
            raise BadText(f"record {i}, field {self.text!r}, byte {e.start}: the text is not UTF-8") from None

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
        """What is odd about a pack of so many tokens; `whole`: all its documents were made by this run."""
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
            raise BadText(f"record {i}, field {self.text!r}: {e}") from None
        except UnicodeEncodeError:
            raise BadText(f"record {i}, field {self.text!r}: a text has half of a surrogate pair") from None
        return text, spans, size, [self._reader(i, index, as_bytes) for index, as_bytes in self._indices]

    def _parsed(self, i: int, index: int, name: str) -> Any:
        raw = self._reader(i, index, True)
        if not raw and name == self._tools:
            return None
        try:
            return json.loads(raw)
        except (ValueError, RecursionError) as e:
            raise BadText(f"record {i}, field {name!r} is no JSON: {e}") from None

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
