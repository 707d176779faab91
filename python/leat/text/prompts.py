"""Prompts of a file as tokens: of JSONL, such as batch files of OpenAI's form, of CSV, or of a data set."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from ..data.dataset import Dataset
from ..data.made import from_arrays
from ..data.prompts import MOST_DECODE
from ..data.ragged import Ragged
from ..data.schema import field
from ..errors import BrokenSampleError
from . import tokenizer as tokenizers
from .chat import BadChat, ChatTemplate, chat
from .prompt_files import Records

TOGETHER = 1024  #: texts that are tokenised in one call
#: where a prompt stands, if nobody says it: the first of these that a record has
FIELDS = ("body.messages", "body.prompt", "body.input", "messages", "prompt", "text")


def _member(record: Mapping[str, Any], name: str) -> Any:
    """The value of a member, or of one within others: ``body.prompt``."""
    if name in record:
        return record[name]
    head, dot, rest = name.partition(".")
    inner = record.get(head)
    return _member(inner, rest) if dot and isinstance(inner, Mapping) else None


class Asking:
    """How records become tokens.

    Args:
        named: the path of a tokenizer; None: the bytes of texts are the tokens.
        template: the path of a chat template; None: messages are joined with their roles.
        name: the member that is the prompt, such as ``body.prompt``; None: the first of `FIELDS` that is there.
    """

    def __init__(
        self, named: str | None, template: str | None, name: str | None = None, pattern: str | None = None
    ) -> None:
        self.tokenizer = None if named is None else tokenizers.load(named, pattern=pattern)
        self._chat = None if template is None else ChatTemplate(chat(template), named)
        self._name = name
        self.dtype = "uint8" if self.tokenizer is None else "uint32"

    def of(self, record: Mapping[str, Any], place: Callable[[], str]) -> str | np.ndarray[Any, Any]:
        """A prompt as a text, or as the tokens that it is already."""
        names = FIELDS if self._name is None else (self._name,)
        found = next((v for v in (_member(record, name) for name in names) if v is not None), None)
        if found is None:
            said = f"no {self._name}" if self._name else f"none of {', '.join(FIELDS)}"
            raise BrokenSampleError(f"{place()}: the record has {said}: --field names the member that is the prompt")
        if isinstance(found, list) and len(found) == 1 and isinstance(found[0], str):
            found = found[0]
        if isinstance(found, str):
            return found
        if isinstance(found, list) and all(isinstance(v, int) and not isinstance(v, bool) for v in found):
            return self._numbers(found, place)
        if isinstance(found, list) and all(isinstance(v, Mapping) and "role" in v for v in found):
            return self._of_messages(found, record, place)
        raise BrokenSampleError(
            f"{place()}: a prompt is a text, a list of tokens or a list of messages with roles, not {found!r:.80}"
        )

    def _numbers(self, found: list[int], place: Callable[[], str]) -> np.ndarray[Any, Any]:
        most = np.iinfo(self.dtype).max
        wrong = next((v for v in found if not 0 <= v <= most), None)
        if wrong is not None:
            advice = ", or name the --tokenizer that they are of" if self.tokenizer is None else ""
            raise BrokenSampleError(f"{place()}: token {wrong} of the prompt is not 0 to {most}{advice}")
        return np.array(found, self.dtype)

    def _of_messages(self, messages: list[Any], record: Mapping[str, Any], place: Callable[[], str]) -> str:
        tools = _member(record, "body.tools") or record.get("tools")
        if self._chat is None:
            parts = [f"{m['role']}\n{_said(m.get('content'))}\n" for m in messages]
            return "".join([json.dumps(tools)] * bool(tools) + parts)
        try:
            return self._chat.text(messages, tools)
        except (BadChat, ValueError) as e:
            raise BrokenSampleError(f"{place()}: {e}") from None

    def encode(self, prompts: list[str | np.ndarray[Any, Any]]) -> list[np.ndarray[Any, Any]]:
        texts = [one for one in prompts if isinstance(one, str)]
        if self.tokenizer is None:
            made = iter([np.frombuffer(one.encode("utf-8", "surrogatepass"), np.uint8) for one in texts])
        else:
            made = iter(self.tokenizer.encode(texts))
        return [next(made).astype(self.dtype) if isinstance(one, str) else one for one in prompts]


def _said(content: Any) -> str:
    return content if isinstance(content, str) else json.dumps(content)


def _decode_of(record: Mapping[str, Any], name: str, place: Callable[[], str]) -> int:
    found: Any = _member(record, name)
    try:
        number = int(found)
    except (TypeError, ValueError, OverflowError):
        number = -1
    part = isinstance(found, float) and number != found
    if part or isinstance(found, bool) or not 0 <= number <= MOST_DECODE:
        raise BrokenSampleError(f"{place()}: {name} is a whole number of tokens from 0 to 2^32 - 1, not {found!r:.80}")
    return number


def _asked(
    records: Records, asking: Asking, decode: str | None, progress: Callable[[int], object] | None
) -> Iterator[tuple[list[np.ndarray[Any, Any]], list[int]]]:
    prompts: list[str | np.ndarray[Any, Any]] = []
    numbers: list[int] = []
    for i, raw in enumerate(records.raws()):
        record = records.record(i, raw)
        prompts.append(asking.of(record, lambda i=i: records.place(i)))  # type: ignore[misc]
        if decode is not None:
            numbers.append(_decode_of(record, decode, lambda i=i: records.place(i)))  # type: ignore[misc]
        if len(prompts) == TOGETHER:
            yield asking.encode(prompts), numbers
            prompts, numbers = [], []
            if progress is not None:
                progress(i + 1)
    yield asking.encode(prompts), numbers


def of_records(
    records: Records,
    asking: Asking,
    decode: str | None = None,
    progress: Callable[[int], object] | None = None,
) -> Dataset:
    """A data set with the field ``tokens``, and ``decode``, if the member of that name says about how many tokens each
    will be answered by.

    Raises:
        BrokenSampleError: a record has no prompt, with its file, line and byte.
    """
    values: list[np.ndarray[Any, Any]] = [np.empty(0, asking.dtype)]
    lengths: list[np.ndarray[Any, Any]] = [np.zeros(1, np.int64)]
    decodes: list[int] = []
    for made, numbers in _asked(records, asking, decode, progress):
        values.append(np.concatenate([np.empty(0, asking.dtype), *made]))
        lengths.append(np.array([len(one) for one in made], np.int64))
        decodes += numbers
    tokens = Ragged(np.concatenate(values), np.cumsum(np.concatenate(lengths)))
    schema = {"tokens": field(asking.dtype, (None,))}
    if decode is None:
        return from_arrays(schema, tokens=tokens)
    return from_arrays({**schema, "decode": field("int64")}, tokens=tokens, decode=np.array(decodes, np.int64))
