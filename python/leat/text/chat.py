"""Chats to tokens: messages through the tokenizer's own template, and which tokens a model is to learn.

messages --template.py--> text, and the parts of it to be learned --tokenizer.py--> tokens, loss_mask
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date as Date  # noqa: N812
from typing import Any

import numpy as np

from .. import check
from ..errors import FormatError, InvalidError
from . import tokenizer as _tokenizer
from .skipped import plain
from .template import Spans, Template, TemplateError


class BadChat(InvalidError):
    """A chat that does not become tokens."""


@dataclass(frozen=True)
class Chat:
    """The way chats become tokens; made by :func:`leat.chat`."""

    template: str | os.PathLike[str] | None
    messages: str
    tools: str
    learn: tuple[str, ...]
    turns: str
    prompt: str | None
    date: Date | None
    variables: Mapping[str, Any] = field(default_factory=dict)

    def text(self, messages: Sequence[Any], tokenizer: Any = None, tools: Sequence[Any] | None = None) -> str:
        """The template's output for the messages.

        Raises:
            ValueError: the messages are none, or the template refuses them.
        """
        return self._of(tokenizer).text(messages, tools)

    def tokens(
        self, messages: Sequence[Any], tokenizer: Any, tools: Sequence[Any] | None = None
    ) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        """The tokens of a chat, of the tokenizer's type, and which of them are learned: bool, as many.

        Raises:
            ValueError: the messages are none, the template refuses them, or does not tell which part is whose.
        """
        text, spans = self._of(tokenizer).learned(messages, tools)
        return _tokenizer.kept(tokenizer).encode_learned([text], [spans])[0]

    def _of(self, tokenizer: Any) -> ChatTemplate:
        return ChatTemplate(self, tokenizer)


def chat(
    template: str | os.PathLike[str] | None = None,
    *,
    messages: str = "messages",
    tools: str = "tools",
    learn: Sequence[str] = ("assistant",),
    turns: str = "all",
    prompt: str | None = None,
    date: Date | None = None,
    variables: Mapping[str, Any] | None = None,
) -> Chat:
    """The way chats become tokens and loss masks: ``leat.tokenize(ds, path, tokenizer=..., chat=leat.chat())``.

    Messages are a list of objects with a ``role`` and the keys that the template needs: ``content``, ``tool_calls`` and
    so on. They go through a template as `transformers` applies it, with ``tools``, without a prompt for a further
    answer at the end. Jinja2 runs it in its sandbox.

    A token is learned if a character of it belongs to the template's text for a message of the roles `learn`. For the
    assistant this is the text after the prompt with which the template asks for an answer, with the token that ends it;
    for other roles it is all. If the template has ``{% generation %}``, and only the assistant is learned from, that
    says it, as in `transformers`.

    Args:
        template: the template itself; the path of one (``chat_template.jinja``), of a ``tokenizer_config.json`` or of a
            folder with one of them; None: the one that lies beside the tokenizer, or belongs to the one of
            `transformers`. If there are several templates, ``"tool_use"`` is taken for chats with tools, else
            ``"default"``.
        messages: the field with the messages, of kind ``"json"``, or ``"str"`` with JSON in it.
        tools: the field with the tools that the assistant may call, if the data set has it.
        learn: roles.
        turns: ``"all"``, or ``"last"``: only the last message of those roles.
        prompt: the text with which the template asks for an answer, if an answer in a chat that goes on begins
            otherwise (templates that add ``<think>``).
        date: of today, for templates that write it (``strftime_now``). None: they do without, or it is an error.
        variables: more values for the template, such as ``{"enable_thinking": False}``.

    Raises:
        ImportError: the package jinja2 is not installed.
        TypeError: a value of `variables` is none that JSON has.
        ValueError: `learn` is empty, or `turns` something else.

    >>> plain = "{% for m in messages %}<{{ m.role }}> {{ m.content }}\\n{% endfor %}"
    >>> asks = "{% if add_generation_prompt %}<assistant>{% endif %}"
    >>> talk = [{"role": "user", "content": "to be?"}, {"role": "assistant", "content": "or not"}]
    >>> leat.chat(plain + asks).text(talk)
    '<user> to be?\\n<assistant> or not\\n'
    >>> import tokenizers
    >>> words = {"<": 0, ">": 1, "user": 2, "assistant": 3, "to": 4, "be": 5, "?": 6, "or": 7, "not": 8}
    >>> simple = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="?"))
    >>> simple.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    >>> tokens, mask = leat.chat(plain + asks).tokens(talk, simple)
    >>> tokens.tolist(), mask.astype(int).tolist()
    ([0, 2, 1, 4, 5, 6, 0, 3, 1, 7, 8], [0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1])
    """
    check.choice("turns", turns, {"all": 0, "last": 1})
    roles = tuple(check.names("learn", learn))
    if not roles:
        raise ValueError("learn is empty: name the roles that are learned from")
    if template is not None and not isinstance(template, (str, os.PathLike)):
        raise TypeError(f"template is a template or a path, not {type(template).__name__}")
    if date is not None and not isinstance(date, Date):
        raise TypeError(f"date is a datetime.date, not {type(date).__name__}")
    try:
        json.dumps(dict(variables or {}), sort_keys=True)
    except (TypeError, ValueError) as e:
        raise TypeError(f"variables are values that JSON has, by which a run is known again: {e}") from None
    return Chat(template, messages, tools, roles, turns, prompt, date, dict(variables or {}))


@functools.lru_cache(16)
def _compiled(source: str, name: str, day: Date | None) -> Template:
    return Template(source, name, day)


class ChatTemplate:
    """The templates of a tokenizer, applied as a :class:`Chat` says."""

    def __init__(self, how: Chat, tokenizer: Any) -> None:
        self._how = how
        sources, self._given, self.file = _find(how.template, tokenizer)
        self._templates = {name: _compiled(text, self.file, how.date) for name, text in sources.items()}
        #: roles of the messages that were seen
        self.met: set[str] = set()
        known = {**self._given, **how.variables}
        if how.learn == ("assistant",) and (empty := [n for t in self._templates.values() for n in t.empty]):
            raise FormatError(
                f"{self.file}: {{% generation %}} in line {empty[0]} of the chat template stands around nothing, so "
                "that nothing would be learned there: put it around what the assistant says, or take it out"
            )
        for one in self._templates.values():
            missing = sorted(n for n in one.wanted if n in ("bos_token", "eos_token") and n not in known)
            if missing and not self._given:
                raise ValueError(
                    f"the chat template of {self.file} writes {missing[0]}, and there is no tokenizer_config.json that "
                    f"says what this is: variables={{{missing[0]!r}: ...}}"
                )
        self._given = known
        said = [sources, known, how.messages, how.tools, how.learn, how.turns, how.prompt, str(how.date)]
        self.hash = hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()[:32]

    @property
    def about(self) -> dict[str, Any]:
        """As it stands in the metadata of a pack."""
        return {"hash": self.hash, "file": plain(self.file), "learn": list(self._how.learn), "turns": self._how.turns}

    def _chosen(self, tools: Sequence[Any] | None) -> Template:
        if tools and "tool_use" in self._templates:
            return self._templates["tool_use"]
        return self._templates["default"]

    def text(self, messages: Sequence[Any], tools: Sequence[Any] | None) -> str:
        _checked(messages, tools)
        template, given = self._chosen(tools), {**self._given, "tools": tools or None}
        try:
            return template.text(messages, given)
        except TemplateError as e:
            last = template.last_begun(messages, given)
            raise BadChat(f"message {last}: {e}" if last is not None else str(e)) from None

    def learned(self, messages: Sequence[Any], tools: Sequence[Any] | None) -> tuple[str, Spans]:
        """The text of a chat, and which parts of it are learned, in order."""
        text = self.text(messages, tools)
        self.met.update(m["role"] for m in messages)
        one = _Rendering(self._chosen(tools), messages, {**self._given, "tools": tools or None}, text)
        numbers = [i for i, m in enumerate(messages) if m["role"] in self._how.learn]
        last = self._how.turns == "last"
        numbers = numbers[-1:] if last else numbers
        try:
            if one.template.marks and self._how.learn == ("assistant",):
                spans = one.template.generated(messages, one.given, text)
                if last:
                    spans = _within(spans, one.part(numbers[0])) if numbers else []
                return text, spans
            return text, one.learned(numbers, self._how.prompt)
        except TemplateError as e:
            raise BadChat(str(e)) from None


def _within(spans: Spans, part: tuple[int, int]) -> Spans:
    found = ((max(begin, part[0]), min(end, part[1])) for begin, end in spans)
    return [(begin, end) for begin, end in found if begin < end]


class _Rendering:
    """A chat, the text that a template made of it, and which part of the text each message is."""

    def __init__(self, template: Template, messages: Sequence[Any], given: Mapping[str, Any], text: str) -> None:
        self.template, self.messages, self.given, self._text = template, messages, given, text

    @functools.cached_property
    def _parts(self) -> dict[int, tuple[int, int]]:
        return self.template.of_messages(self.messages, self.given, self._text)

    def part(self, i: int) -> tuple[int, int]:
        """The template's text for a message."""
        return self._parts[i] if i in self._parts else self._by_prefix(i, False)

    def learned(self, numbers: Sequence[int], prompt: str | None) -> Spans:
        """The learned part of messages; `prompt`: the text with which the template asks for an answer, if given."""
        answers = [i for i in numbers if self.messages[i]["role"] == "assistant"]
        if answers and prompt is None:
            prompt = self._asked_with(answers)
        spans: Spans = []
        for i in numbers:
            if i not in answers:
                spans.append(self.part(i))
            elif prompt is not None:
                spans.append(self._behind(prompt, i))
            else:
                self._asked_at(i)
                spans.append(self._by_prefix(i, True))
        return spans

    def _behind(self, prompt: str, i: int) -> tuple[int, int]:
        begin, end = self.part(i)
        if not self._text.startswith(prompt, begin, end):
            raise BadChat(
                f"message {i}: the chat template asks for an answer with {prompt!r:.80}, and this one begins with "
                f"{self._text[begin : begin + len(prompt)]!r:.80}: prompt= says what is not learned"
            )
        return begin + len(prompt), end

    def _asked_with(self, answers: Sequence[int]) -> str | None:
        """The text with which the template asks for an answer; None: no beginning of this chat tells it.

        It is asked behind a message, since some templates have the prompt in their loop, and rather behind one of the
        user, since some ask behind no other.
        """
        roles = [m["role"] for m in self.messages]
        of_user = [i for i in range(1, len(roles)) if roles[i] == "assistant" and roles[i - 1] == "user"]
        first = [i for i in of_user if i in answers] or of_user or [i for i in answers if i]
        for i in [*first[:1], len(roles)]:
            try:
                plain, asking = self._asked_at(i)
            except (TemplateError, BadChat):
                continue
            if asking.startswith(plain):
                return asking[len(plain) :]
        return None

    def _asked_at(self, i: int) -> tuple[str, str]:
        """The text of the messages before `i`, without and with the prompt for an answer."""
        if i:
            plain = self.template.text(self.messages[:i], self.given)
            asking = self.template.text(self.messages[:i], self.given, True)
            if asking != plain or not self.template.asks or self.messages[i - 1]["role"] == "user":
                return plain, asking
        raise BadChat(
            f"message {i}: with what the chat template asks for an answer cannot be told from the messages before it: "
            "prompt= says it"
        )

    def _by_prefix(self, i: int, asked: bool) -> tuple[int, int]:
        """The part of a message, from the template's text for the messages before it, and for those with it; with
        `asked`, for those before it and the prompt."""
        try:
            before = self.template.text(self.messages[:i], self.given, asked)  # nothing at all may be refused
            whole = self.template.text(self.messages[: i + 1], self.given)
        except TemplateError as e:
            raise BadChat(f"message {i}: which part of the text it is cannot be told: {e}") from None
        untold = (
            f"message {i}: which part of the text it is cannot be told, since the chat template ({self.template.name})"
        )
        if not whole.startswith(before) or not self._text.startswith(whole):
            advice = (
                '. Put {% generation %} into the template, or learn from the last turn alone: turns="last"'
                if not self.template.marks
                else ""
            )
            raise BadChat(f"{untold} writes it in another way where messages follow{advice}")
        if len(before) == len(whole) and any(v for name, v in self.messages[i].items() if name != "role"):
            raise BadChat(f"{untold} leaves it out, or writes it among others")
        return len(before), len(whole)


def _checked(messages: Any, tools: Any) -> None:
    if not isinstance(messages, list):
        raise BadChat(f"a list of messages is wanted, not {_kind(messages)}")
    if not messages:
        raise BadChat("there is no message")
    for i, one in enumerate(messages):
        if not isinstance(one, dict):
            raise BadChat(f"message {i} is {_kind(one)}, not an object with a role")
        if not isinstance(one.get("role"), str):
            raise BadChat(f"message {i} has no role that is a text: it has {', '.join(one) or 'nothing'}")
    if tools is not None and not isinstance(tools, list):
        raise BadChat(f"tools are a list, not {_kind(tools)}")


def _kind(value: Any) -> str:
    names = {dict: "an object", list: "a list", str: "a text", bool: "a boolean", type(None): "null"}
    return names.get(type(value), "a number")


def _find(template: Any, tokenizer: Any) -> tuple[dict[str, str], dict[str, Any], str]:
    """Templates by their names, their variables beside messages, and the file that they are of."""
    beside = _special_tokens(tokenizer)
    if isinstance(template, str) and ("{%" in template or "{{" in template):
        return {"default": template}, beside, "template"
    if template is not None:
        found, special, file = _of_path(os.fspath(template))
        return found, special or beside, file
    own = getattr(tokenizer, "chat_template", None)
    if own:
        found = dict(own) if isinstance(own, Mapping) else {"default": own}
        return _with_default(found, "the tokenizer"), beside, "the tokenizer"
    if not isinstance(tokenizer, (str, os.PathLike)):
        raise ValueError("the tokenizer has no chat template: leat.chat(template) names one")
    path = os.path.dirname(os.path.abspath(_tokenizer.find_file(os.fspath(tokenizer))))
    return _of_path(path)


def _special_tokens(tokenizer: Any) -> dict[str, Any]:
    """bos_token and so on, of a tokenizer of transformers or of the file beside it."""
    own = getattr(tokenizer, "special_tokens_map", None)
    if isinstance(own, Mapping):
        return {str(k): list(map(str, v)) if isinstance(v, (list, tuple)) else str(v) for k, v in own.items()}
    if isinstance(tokenizer, (str, os.PathLike)):
        path = os.fspath(tokenizer)
        folder = path if os.path.isdir(path) else os.path.dirname(os.path.abspath(path))
        return _special(folder)
    return {}


def _special(folder: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in ("special_tokens_map.json", "tokenizer_config.json"):
        path = os.path.join(folder, name)
        if not os.path.exists(path):
            continue
        for key, value in _json(path).items():
            text = value.get("content") if isinstance(value, dict) else value
            if key.endswith("_token") and isinstance(text, str):
                found[key] = text
    return found


def _json(path: str) -> dict[str, Any]:
    with open(path, "rb") as f:
        raw = f.read()
    try:
        found = json.loads(raw)
    except ValueError as e:
        raise FormatError(f"{path} is no JSON: {e}") from None
    if not isinstance(found, dict):
        raise FormatError(f"{path} is no object")
    return found


def _of_path(path: str) -> tuple[dict[str, str], dict[str, Any], str]:
    if os.path.isdir(path):
        return _of_folder(path)
    if not os.path.exists(path):
        raise FileNotFoundError(f"{path}: there is no such chat template, and it is none itself: {{% and {{{{ lack")
    folder = os.path.dirname(os.path.abspath(path))
    if path.endswith(".json"):
        return _of_config(path), _special(folder), os.path.basename(path)
    return {"default": _read(path)}, _special(folder), os.path.basename(path)


def _of_folder(folder: str) -> tuple[dict[str, str], dict[str, Any], str]:
    path = os.path.join(folder, "chat_template.jinja")
    special = _special(folder)
    if os.path.exists(path):
        found = {"default": _read(path)}
        more = os.path.join(folder, "additional_chat_templates")
        for name in sorted(os.listdir(more)) if os.path.isdir(more) else ():
            if name.endswith(".jinja"):
                found[name.removesuffix(".jinja")] = _read(os.path.join(more, name))
        return found, special, "chat_template.jinja"
    path = os.path.join(folder, "tokenizer_config.json")
    if not os.path.exists(path):
        raise FileNotFoundError(
            f"{folder} has no chat template, neither chat_template.jinja nor tokenizer_config.json: leat.chat(template)"
        )
    return _of_config(path), special, "tokenizer_config.json"


def _of_config(path: str) -> dict[str, str]:
    found = _json(path).get("chat_template")
    if isinstance(found, str):
        return {"default": found}
    if isinstance(found, list) and all(isinstance(one, dict) and {"name", "template"} <= one.keys() for one in found):
        return _with_default({str(one["name"]): str(one["template"]) for one in found}, path)
    raise FormatError(f"{path} has no chat_template")


def _with_default(found: dict[str, str], file: str) -> dict[str, str]:
    if "default" not in found:
        raise FormatError(f"the chat templates of {file} are {', '.join(found)}, and none is default: name one by path")
    return found


def _read(path: str) -> str:
    with open(path, "rb") as f:
        raw = f.read()
    try:
        return raw.decode()
    except UnicodeDecodeError as e:
        raise FormatError(f"{path}: byte {e.start}: a chat template is UTF-8") from None
