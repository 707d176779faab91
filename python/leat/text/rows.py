"""Rows of tokens as a person reads them: documents in colours with their borders, tokens without a loss dimmed, padding
grey. For a terminal, and as HTML.
"""

from __future__ import annotations

import html
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Decode = Callable[[Sequence[int]], str]

# Backgrounds of documents one after the other: light ones for a page, and those of a terminal with 256 colours.
PAPER = ("#dbe9ff", "#ffe7cf", "#d9f2e0", "#f6dcef", "#fff3bf", "#d5f1f5")
TERMINAL = (24, 94, 22, 90, 58, 30)
MOST = 1 << 16  #: tokens of a row that are shown


@dataclass(frozen=True)
class Run:
    """Neighbouring tokens of one document, all with a loss or all without."""

    document: int  #: its sample id; -1: padding
    number: int  #: the number of the document in the row
    first: bool  #: whether the document begins here in the row
    learned: bool
    begin: int
    end: int


def runs(documents: np.ndarray[Any, Any], positions: Any, mask: Any) -> Iterator[Run]:
    """Divides a row. `positions` (or None) tells documents with one id apart: each begins at 0."""
    n = len(documents)
    if not n:
        return
    border = np.zeros(n, bool)
    border[0] = True
    border[1:] = documents[1:] != documents[:-1]
    if positions is not None:
        border[1:] |= (np.asarray(positions)[1:] == 0) & (documents[1:] >= 0)
    learned = np.ones(n, bool) if mask is None else np.asarray(mask).astype(bool)
    cut = border.copy()
    cut[1:] |= learned[1:] != learned[:-1]
    begins = np.flatnonzero(cut).tolist()
    numbers = np.cumsum(border & (documents >= 0)) - 1
    for begin, end in zip(begins, [*begins[1:], n], strict=True):
        yield Run(int(documents[begin]), int(numbers[begin]), bool(border[begin]), bool(learned[begin]), begin, end)


def visible(text: str) -> str:
    """A text that writes nothing but itself: line breaks are marks, other control characters escapes."""
    marks = {"\n": "\u21b5", "\t": "\u21e5", "\r": "\u240d"}
    return "".join(
        marks.get(c) or (c if c.isprintable() else c.encode("unicode_escape").decode()) for c in text
    )  # fmt: skip


def _text(tokens: np.ndarray[Any, Any], decode: Decode | None) -> str:
    ids = [int(t) for t in tokens]
    return visible(decode(ids)) if decode is not None else " ".join(map(str, ids)) + " "


def _cut(row: Mapping[str, Any], field: str) -> tuple[Any, Any, Any, Any, int]:
    tokens = np.asarray(row[field]).reshape(-1)
    n = len(tokens)

    def fitting(name: str) -> Any:
        values = row.get(name)
        values = None if values is None else np.asarray(values).reshape(-1)
        return None if values is None or len(values) != n else values[:MOST]

    documents = fitting("doc_ids")
    documents = np.zeros(min(n, MOST), np.int64) if documents is None else documents
    return tokens[:MOST], documents, fitting("positions"), fitting("loss_mask"), n


def caption(row: Mapping[str, Any], field: str) -> str:
    """The fill of a row."""
    _, documents, positions, mask, n = _cut(row, field)
    found = list(runs(documents, positions, None))
    padding = int((documents < 0).sum())
    parts = [f"{n:,} tokens"]
    if "doc_ids" in row:
        count = sum(run.document >= 0 for run in found)
        parts.append(f"{count:,} document{'' if count == 1 else 's'}")
    if padding:
        parts.append(f"{padding:,} of padding")
    if mask is not None and int((~mask.astype(bool)).sum()) > padding:
        parts.append(f"{int(mask.astype(bool).sum()):,} with a loss")
    return ", ".join(parts) + (f"; the first {MOST:,} are shown" if n > MOST else "")


def as_html(row: Mapping[str, Any], field: str = "tokens", decode: Decode | None = None) -> str:
    """A row as a paragraph of HTML."""
    tokens, documents, positions, mask, _ = _cut(row, field)
    parts = []
    for run in runs(documents, positions, mask):
        if run.document < 0:
            style, inside, about = (
                "color:#8e8e93;background:#ececf0",
                f"padding \u00d7 {run.end - run.begin}",
                "padding",
            )
        else:
            style = f"background:{PAPER[run.number % len(PAPER)]};color:#1c1c1e"
            inside = html.escape(_text(tokens[run.begin : run.end], decode))
            about = f"document {run.document}, tokens {run.begin} to {run.end - 1} of the row"
            if not run.learned:
                style, about = style + ";opacity:.45", about + ", without a loss"
        if run.first and run.begin:
            style += ";border-left:3px solid #26272b;padding-left:2px"
        parts.append(f'<span style="{style}" title="{html.escape(about)}">{inside}</span>')
    style = "font-family:monospace;line-height:1.5;white-space:pre-wrap;overflow-wrap:anywhere;margin:.2em 0 1em"
    return f'<div style="{style}">{"".join(parts)}</div>'


def as_ansi(row: Mapping[str, Any], field: str = "tokens", decode: Decode | None = None, colour: bool = True) -> str:
    """A row for a terminal. Without `colour` borders are bars, and tokens without a loss stand in braces."""
    tokens, documents, positions, mask, _ = _cut(row, field)
    parts = []
    for run in runs(documents, positions, mask):
        bar = "\u2502" if run.first and run.begin else ""
        if run.document < 0:
            inside = f"padding \u00d7 {run.end - run.begin}"
            parts.append(f"{bar}\x1b[90m{inside}\x1b[0m" if colour else f"{bar}[{inside}]")
            continue
        inside = _text(tokens[run.begin : run.end], decode)
        if not colour:
            parts.append(bar + (inside if run.learned else f"{{{inside}}}"))
            continue
        dim = "" if run.learned else "\x1b[2m"
        parts.append(f"{bar}\x1b[97;48;5;{TERMINAL[run.number % len(TERMINAL)]}m{dim}{inside}\x1b[0m")
    return "".join(parts)


def page(title: str, rows: Iterable[tuple[str, Mapping[str, Any]]], field: str, decode: Decode | None) -> str:
    """A page of rows, each with its name."""
    head = (
        '<!doctype html>\n<html><head><meta charset="utf-8">'
        f"<title>{html.escape(visible(title))}</title></head>\n"
        '<body style="font-family:sans-serif;margin:2em auto;max-width:72em;background:#fff;color:#26272b">\n'
    )
    legend = (
        '<p style="color:#777a80">Documents have colours, and bars between them. Pale tokens have no loss; '
        "padding is grey. \u21b5 is a line break of the text.</p>\n"
    )
    body = "".join(
        f"<div><b>{html.escape(name)}</b>: {html.escape(caption(row, field))}</div>\n{as_html(row, field, decode)}\n"
        for name, row in rows
    )
    return f"{head}<h2>{html.escape(visible(title))}</h2>\n{legend}{body}</body></html>\n"
