"""Writes what python/src/loader_options.def says of arguments: the signature and the docstring of leat.Loader, and the
table of docs/loader.md.

    python tools/loader_options.py

tests/python/test_docs.py fails where one of them is not as it would be written.
"""

from __future__ import annotations

import ast
import re
import textwrap
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
TABLE = ROOT / "python" / "src" / "loader_options.def"
LOADER, PAGE = ROOT / "python" / "leat" / "loading" / "loader.py", ROOT / "docs" / "loader.md"
BY_POSITION = 3  #: so many arguments may be given without their names


class Argument(NamedTuple):
    name: str
    type: str
    default: str  #: "...": there is none
    text: str
    told: bool  #: to the library, under the same name


def arguments() -> list[Argument]:
    """The arguments of leat.Loader."""
    text = re.sub(r"/\*.*?\*/", "", TABLE.read_text(), flags=re.S)
    calls = [line.value for line in ast.parse(text).body if isinstance(line, ast.Expr)]
    found = []
    for call in calls:
        assert isinstance(call, ast.Call) and isinstance(call.func, ast.Name)
        if call.func.id != "LEAT_MADE":
            name, *_, type_, default, says = call.args
            parts = [ast.get_source_segment(text, part) or "" for part in (name, type_, default)]
            found.append(Argument(*parts, ast.literal_eval(says), call.func.id == "LEAT_OPTION"))
    return found


def signature(given: list[Argument]) -> str:
    lines = [f"{a.name}: {a.type}" + ("" if a.default == "..." else f" = {a.default}") for a in given]
    return "\n".join(f"        {line}," for line in [*lines[:BY_POSITION], "*", *lines[BY_POSITION:]])


def docstring(given: list[Argument]) -> str:
    names = "|".join(a.name for a in given)
    lines = list[str]()
    for a in given:
        text = re.sub(r"\[[^]]*\]\(([\w.]*)[^)]*\)", lambda link: f"docs/{link[1] or PAGE.name}", a.text)
        text = re.sub(r"`([^`]*)`", r"``\1``", text)
        text = re.sub(rf"``({names})``", r"`\1`", text)
        text = re.sub(r"``(leat\.[A-Z]\w*)``", r":class:`\1`", text)
        lines += textwrap.wrap(
            f"{a.name}: {text}.", 120, initial_indent=" " * 8, subsequent_indent=" " * 12, break_on_hyphens=False
        )
    return "\n".join(lines)


def table(given: list[Argument]) -> str:
    return "\n".join(f"| `{a.name}` | {'' if a.default == '...' else f'`{a.default}`'} | {a.text} |" for a in given)


def filled(text: str, before: str, made: str, after: str) -> str:
    """A text with this in the place of what stands between two others."""
    head, found, rest = text.partition(before)
    _, end, tail = rest.partition(after)
    assert found and end, f"there is no {before!r}, or no {after!r} behind it"
    return head + found + made + end + tail


def written() -> dict[Path, str]:
    """The files, as they have to be."""
    given = arguments()
    page = filled(PAGE.read_text(), "| argument | default | says |\n|---|---|---|\n", table(given), "\n\n")
    loader = filled(LOADER.read_text(), "    Args:\n", docstring(given), "\n\n    Raises:")
    loader = filled(loader, "    def __init__(\n        self,\n", signature(given), "\n    ) -> None:\n")
    return {PAGE: page, LOADER: loader}


if __name__ == "__main__":
    for path, made in written().items():
        path.write_text(made)
