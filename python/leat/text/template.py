"""A chat template: messages to text, and which part of the text each message is.

Templates are Jinja2, as tokenizers of Hugging Face have them, and run in Jinja2's sandbox. A text that a template wrote
does not say by itself which message wrote which part. Three ways tell it, each of which is checked against the text:

1. ``{% generation %}`` ... ``{% endgeneration %}`` in the template stands around the assistant's text. Both are written
   as marks into a second rendering, and must leave the text of the first one when they are taken out.
2. Loops over messages: the template is compiled a second time with a mark at the beginning of each turn of a loop and
   one behind the loop. Marks, and the text without them, as above.
3. Prefixes: the text of the first i messages is the beginning of that of i + 1, and this of the whole.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime
from typing import Any

from ..errors import FormatError
from .tokenizer import needed

Spans = list[tuple[int, int]]
# Marks: {% generation %} begins and ends; a turn of a loop begins; a loop is through.
_BEGIN, _END, _TURN, _THROUGH = range(4)
_NOBODY = -1  # a turn that is not of a message


class TemplateError(ValueError):
    """A template refuses messages, or cannot be divided."""


class Template:
    """A chat template, compiled."""

    def __init__(self, source: str, name: str, day: date | None = None) -> None:
        """`name`: of the file, for errors. `day`: the argument of ``strftime_now``; without it a template finds none,
        so that its text does not depend on the day on which it is made."""
        self.source, self.name, self._day = source, name, day
        self._environment = _environment()
        jinja2 = needed("jinja2", "chat templates")
        try:
            tree = self._environment.parse(source)
            #: whether it says itself what the assistant generates
            marks = [block for block in tree.find_all(jinja2.nodes.CallBlock) if _is_generation(block)]
            self.marks = bool(marks)
            #: lines of marks around nothing
            self.empty = [block.lineno for block in marks if all(map(_writes_nothing, block.body))]
            #: names that are given, and not set by the template
            self.wanted = frozenset(needed("jinja2.meta", "chat templates").find_undeclared_variables(tree))
            #: whether it may ask for an answer at the end
            self.asks = "add_generation_prompt" in source
            self._plain = self._compiled(tree)
        except jinja2.TemplateSyntaxError as e:
            raise FormatError(f"{name}: the chat template is no Jinja2, line {e.lineno}: {e.message}") from None
        except SyntaxError as e:  # in the Python that it becomes: {% break %} without a loop
            line = _line_of_python(self._environment.compile(tree, raw=True), e.lineno or 0)
            raise FormatError(f"{name}: the chat template is no Jinja2, line {line}: {e.msg}") from None
        except RecursionError:
            raise FormatError(f"{name}: the chat template is no Jinja2: it is nested too deep") from None

    @functools.cached_property
    def _traced(self) -> Any:
        return self._compiled(_traced(self._environment.parse(self.source)))

    def _compiled(self, tree: Any) -> Any:
        code = self._environment.compile(tree, None, self._file)
        return self._environment.template_class.from_code(self._environment, code, self._environment.globals)

    @property
    def _file(self) -> str:
        return f"<{self.name}>"

    def text(self, messages: Sequence[Any], given: Mapping[str, Any], generation_prompt: bool = False) -> str:
        """The template's text for messages.

        Raises:
            TemplateError: it refuses them; the text says in which line of the template.
        """
        return self._render(self._plain, messages, given, generation_prompt)

    def generated(self, messages: Sequence[Any], given: Mapping[str, Any], text: str) -> Spans:
        """The text within ``{% generation %}`` of `text`, made of the same messages."""
        marks = _Marks(text, messages)
        found = marks.taken_out(self._render(self._plain, messages, given, False, marks), text)
        if found is None:
            raise TemplateError(
                "{% generation %} stands where the template changes what was written: within a filter, or a text that "
                "is cut"
            )
        return [(begin, end) for kind, _, begin, end in found if kind == _END]

    def of_messages(self, messages: Sequence[Any], given: Mapping[str, Any], text: str) -> dict[int, tuple[int, int]]:
        """The part of `text` of each message, by its number; messages whose part is unclear are left out."""
        marks = _Marks(text, messages)
        found = marks.taken_out(self._render(self._traced, messages, given, False, marks), text)
        parts: dict[int, tuple[int, int]] = {}
        several: set[int] = set()
        for kind, number, begin, end in found or ():
            if kind == _TURN and begin < end:
                if number in parts:
                    several.add(number)
                parts[number] = (begin, end)
        return {number: part for number, part in parts.items() if number not in several}

    def last_begun(self, messages: Sequence[Any], given: Mapping[str, Any]) -> int | None:
        """The message that the template refuses, or None."""
        marks = _Marks("", messages)
        try:
            self._render(self._traced, messages, given, False, marks)
        except TemplateError:
            return marks.last
        return None

    def _render(
        self,
        template: Any,
        messages: Sequence[Any],
        given: Mapping[str, Any],
        generation_prompt: bool,
        marks: _Marks | None = None,
    ) -> str:
        values = {"tools": None, "documents": None, **given}
        values.update(messages=messages, add_generation_prompt=generation_prompt, raise_exception=_raise)
        values.update(_leat_generation=_same if marks is None else marks.generation)
        if marks is not None:
            values.update(_leat_turn=marks.turn, _leat_through=marks.through)
        if self._day is not None:
            values["strftime_now"] = datetime(self._day.year, self._day.month, self._day.day).strftime
        try:
            text: str = template.render(values)
            return text
        except Exception as e:
            raise TemplateError(self._said(e)) from None

    def _said(self, error: Exception) -> str:
        line, trace = None, error.__traceback__
        while trace is not None:
            if trace.tb_frame.f_code.co_filename == self._file:
                line = trace.tb_lineno
            trace = trace.tb_next
        where = f", line {line}" if line is not None else ""
        if isinstance(error, _Refused):
            return f"the chat template ({self.name}{where}) refuses it: {error}"
        said = str(error) or type(error).__name__
        hint = ""
        if "'strftime_now' is undefined" in said:
            hint = ". It asks for the day: give date="
        return f"the chat template ({self.name}{where}) fails: {said}{hint}"


def _line_of_python(code: str, number: int) -> int:
    """The line of a template, by that of the Python that Jinja2 made of it; this ends with a list of both."""
    found = re.search(r"^debug_info = '([0-9=&]+)'$", code, re.MULTILINE)
    pairs = [pair.split("=") for pair in found[1].split("&")] if found else []
    return max((int(line) for line, of_python in pairs if int(of_python) <= number), default=1)


class _Refused(Exception):
    """``raise_exception`` of a template."""


def _raise(message: Any = "") -> None:
    raise _Refused(str(message))


def _same(caller: Callable[[], str]) -> str:
    return caller()


class _Marks:
    """Writes marks into a rendering, and finds them there.

    A mark is text that occurs nowhere else: an edge, its numbers, and the edge again, all in characters of Unicode's
    private use, which no filter changes into others (``upper`` changes letters).
    """

    def __init__(self, text: str, messages: Sequence[Any]) -> None:
        self._edge = "\ue000"
        while self._edge in text:
            self._edge += "\ue001"
        self._edge += "\ue002"
        self._numbers = {id(m): i for i, m in enumerate(messages)}
        self.last: int | None = None

    def _mark(self, *numbers: int) -> str:
        return self._edge + "".join(map(_hidden, numbers)) + self._edge

    def generation(self, caller: Callable[[], str]) -> str:
        return self._mark(_BEGIN, 0, 0) + caller() + self._mark(_END, 0, 0)

    def turn(self, loop: int, *targets: Any) -> str:
        """A turn of a loop begins, with `targets`: one of them may be a message. If none is, the turn still ends the
        part of the message before it: templates loop over messages of their own, too."""
        number = next((self._numbers[id(one)] for one in targets if id(one) in self._numbers), _NOBODY)
        if number != _NOBODY:
            self.last = number
        return self._mark(_TURN, loop, number)

    def through(self, loop: int) -> str:
        return self._mark(_THROUGH, loop, 0)

    def taken_out(self, marked: str, text: str) -> list[tuple[int, int, int, int]] | None:
        """(kind, number, begin, end) of each part of `text`: _END for {% generation %}, _TURN for the message of this
        number. None: without the marks `marked` is another text, or they were changed or cut."""
        pieces = marked.split(self._edge)
        if len(pieces) % 2 == 0 or "".join(pieces[::2]) != text:
            return None
        found: list[tuple[int, int, int, int]] = []
        stack: list[int] = []  # where {% generation %} began
        loops: dict[int, tuple[int, int]] = {}  # of loops within a message: its number, and where it began
        at = 0
        for i, piece in enumerate(pieces):
            if i % 2 == 0:
                at += len(piece)
                continue
            numbers = _shown(piece)
            if len(numbers) != 3:
                return None
            kind, loop, number = numbers
            if kind == _BEGIN:
                stack.append(at)
            elif kind == _END:
                if not stack:
                    return None
                found.append((_END, 0, stack.pop(), at))
            elif kind in (_TURN, _THROUGH):
                if loop in loops:
                    found.append((_TURN, *loops.pop(loop), at))
                if kind == _TURN and number != _NOBODY:
                    loops[loop] = (number, at)
            else:
                return None
        return None if stack else found


# A number in characters of private use: its digits, and an end.
_FIRST, _DIGITS = 0xE010, "-0123456789,"


def _hidden(number: int) -> str:
    return "".join(chr(_FIRST + _DIGITS.index(c)) for c in f"{number},")


def _shown(hidden: str) -> list[int]:
    """The numbers of a mark; none: it is not as it was written."""
    at = [ord(c) - _FIRST for c in hidden]
    if not all(0 <= i < len(_DIGITS) for i in at):
        return []
    try:
        return [int(n) for n in "".join(_DIGITS[i] for i in at).removesuffix(",").split(",")]
    except ValueError:
        return []


@functools.cache
def _environment() -> Any:
    """As templates of Hugging Face expect it, except for the parts that would make their text depend on the day."""
    sandbox = needed("jinja2.sandbox", "chat templates")
    found = sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols", _generation_extension()]
    )
    found.filters["tojson"] = _tojson
    return found


def _tojson(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """JSON as it is, while Jinja2's own filter escapes the characters of HTML."""
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def _is_generation(block: Any) -> bool:
    return getattr(block.call.node, "name", None) == "_leat_generation"


def _writes_nothing(node: Any) -> bool:
    """Whether a statement of a template writes no more than white space, whatever the messages are."""
    nodes = needed("jinja2", "chat templates").nodes
    if isinstance(node, nodes.Output):
        return all(isinstance(one, nodes.TemplateData) and not one.data.strip() for one in node.nodes)
    if isinstance(node, (nodes.If, nodes.For)):
        parts = [*node.body, *node.else_, *(node.elif_ if isinstance(node, nodes.If) else [])]
        return all(map(_writes_nothing, parts))
    return isinstance(node, (nodes.Assign, nodes.AssignBlock, nodes.ExprStmt, nodes.Macro))


@functools.cache
def _generation_extension() -> Any:
    """The tag ``generation``: its contents are handed to the variable ``_leat_generation`` of the rendering."""
    jinja2 = needed("jinja2", "chat templates")
    extension: Any = needed("jinja2.ext", "chat templates").Extension
    nodes = jinja2.nodes

    def parse(self: Any, parser: Any) -> Any:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        call = nodes.Call(nodes.Name("_leat_generation", "load"), [], [], None, None)
        return nodes.CallBlock(call, [], [], body, lineno=line)

    return type("_Generation", (extension,), {"tags": {"generation"}, "parse": parse})


def _traced(tree: Any) -> Any:
    """The tree of a template with marks for each loop."""
    jinja2 = needed("jinja2", "chat templates")
    nodes, loops = jinja2.nodes, 0

    def mark(name: str, loop: int, targets: Sequence[str], line: int) -> Any:
        arguments = [nodes.Const(loop), *(nodes.Name(t, "load") for t in targets)]
        return nodes.Output([nodes.Call(nodes.Name(name, "load"), arguments, [], None, None)], lineno=line)

    class Marker(needed("jinja2.visitor", "chat templates").NodeTransformer):  # type: ignore[misc]
        def visit_For(self, node: Any) -> Any:  # noqa: N802
            nonlocal loops
            loop, loops = loops, loops + 1
            names = [node.target] if isinstance(node.target, nodes.Name) else node.target.find_all(nodes.Name)
            targets = [one.name for one in names]
            self.generic_visit(node)
            node.body.insert(0, mark("_leat_turn", loop, targets, node.lineno))
            return [node, mark("_leat_through", loop, (), node.lineno)]

    return Marker().visit(tree).set_environment(tree.environment)
