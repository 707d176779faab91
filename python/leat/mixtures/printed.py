"""The output of `leat mix show`: a table of the sources, and shares over the rows."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from .shown import Shown, Source

SOURCES = 40  #: lines of the table
COLUMNS = 5  #: sources beside each other in the table over the rows
STRETCHES = 8
BLOCKS = "▁▂▃▄▅▆▇█"
WIDEST_NAME = 28
THEN = {"stop": "ends the epoch at", "redistribute": "rests from", "repeat": "again from"}


def printable(name: str) -> str:
    """A name in a form for a terminal: control characters are written as escapes."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in name)


def columns(text: str) -> int:
    """Columns that a text takes in a terminal."""
    wide = sum(unicodedata.east_asian_width(c) in "WF" for c in text)
    return len(text) + wide - sum(unicodedata.combining(c) > 0 for c in text)


def fitted(text: str, most: int) -> str:
    if columns(text) <= most:
        return text
    while columns(text) > most - 3:
        text = text[:-1]
    return text + "..."


def aligned(rows: Sequence[Sequence[str]], left: int = 1) -> list[str]:
    """Lines of a table whose first `left` columns begin at the left."""
    widths = [max(columns(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [
            cell + " " * (width - columns(cell)) if i < left else " " * (width - columns(cell)) + cell
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    return lines


def percent(share: float, digits: int = 2) -> str:
    return f"{100 * share:.{digits}f}%"


def _asked(source: Source) -> str:
    first, last = percent(source.asked_first), percent(source.asked_last)
    return first if first == last else f"{first} > {last}"


def _moves(shown: Shown) -> bool:
    """Whether stated shares change."""
    return bool(np.ptp(shown.asked, axis=0).max() > 1e-9)


def head(shown: Shown) -> str:
    """One line: the length shown."""
    rows = int(shown.edges[-1])
    parts = [f"{rows:,} rows"]
    if shown.steps is not None:
        parts.append(f"{shown.steps:,} steps")
    if shown.tokens is not None:
        parts.append(f"{int(shown.tokens[-1].sum()):,} tokens")
    n = len(shown.epochs)
    parts.append(f"{n:,} epoch{'s' if n > 1 else ''}")
    return f"{shown.title}, shares of {'rows' if shown.unit == 'samples' else shown.unit}: {', '.join(parts)}"


def by_share(shown: Shown, most: int) -> list[int]:
    """Numbers of the sources in their order; if there are too many, those that gave most."""
    if len(shown.sources) <= most:
        return list(range(len(shown.sources)))
    delivered = np.array([s.delivered for s in shown.sources])
    return sorted(np.argsort(-delivered, kind="stable")[:most].tolist())


def source_table(shown: Shown, most: int = SOURCES) -> tuple[list[str], list[list[str]]]:
    """Head and lines, of the sources that gave most."""
    moves, tokens = _moves(shown), shown.tokens is not None
    titles = ["source", "asked", *(["mean"] if moves else []), "delivered", "rows", "of", "passes", "exhausted"]
    if tokens:
        titles.insert(titles.index("of"), "tokens")
    lines = []
    for k in by_share(shown, most):
        s = shown.sources[k]
        lines.append(
            [
                fitted(printable(s.name), WIDEST_NAME),
                _asked(s),
                *([percent(s.asked)] if moves else []),
                percent(s.delivered, 3),
                f"{s.rows:,}",
                *([f"{s.tokens:,}"] if tokens else []),
                f"{s.size:,}",
                f"{s.passes:.2f}",
                "-" if s.through is None else f"{THEN[s.exhausted.split(',')[0]]} {_place(shown, s)}",
            ]
        )
    return titles, lines


def _place(shown: Shown, source: Source) -> str:
    at = source.through
    assert at is not None
    if at.step is not None:
        return f"step {at.step:,}"
    return f"row {at.row:,}" + (f" of epoch {at.epoch}" if len(shown.epochs) > 1 else "")


def over(shown: Shown, stretches: int = STRETCHES, most: int = COLUMNS) -> tuple[list[str], list[list[str]]]:
    """Shares asked for and delivered in some stretches of equal length."""
    edges = shown.edges
    cuts = np.unique(np.searchsorted(edges, np.linspace(0, int(edges[-1]), stretches + 1)))
    picked = by_share(shown, most)
    unit = "row" if shown.step_edges is None else "step"
    titles = [f"from {unit}"] + [fitted(printable(shown.sources[k].name), 16) for k in picked for _ in (0, 1)]
    lines = [["", *("asked" if i % 2 == 0 else "got" for i in range(2 * len(picked)))]]
    places = edges if shown.step_edges is None else shown.step_edges
    widths = np.diff(edges)
    for a, b in zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True):
        given = shown.counted[b] - shown.counted[a]
        got = given / max(int(given.sum()), 1)
        asked = (shown.asked[a:b] * widths[a:b, None]).sum(axis=0) / widths[a:b].sum()
        line = [f"{int(places[a]):,}"]
        for k in picked:
            line += [percent(float(asked[k])), percent(float(got[k]))]
        lines.append(line)
    for i in range(2, len(titles), 2):
        titles[i] = ""
    return titles, lines


def text(shown: Shown, blocks: bool = True) -> str:
    """Everything as lines for a terminal. `blocks`: with small curves, which are not ASCII."""
    titles, lines = source_table(shown)
    if blocks:
        titles.append("over the rows")
        for k, line in zip(by_share(shown, SOURCES), lines, strict=True):
            line.append(spark(shown.delivered[:, k], np.diff(shown.edges)))
    left_out = len(shown.sources) - len(lines)
    parts = [head(shown), "", *aligned([titles, *lines])]
    if left_out:
        parts.append(f"... and {left_out:,} sources that gave less")
    titles, lines = over(shown)
    parts += ["", *aligned([titles, *lines])]
    if len(shown.sources) > COLUMNS:
        parts.append(f"(the {COLUMNS} sources that gave most; --json and --out have all)")
    return "\n".join([*parts, *(["", *map(printable, shown.notes)] if shown.notes else [])])


def spark(values: Iterable[Any], widths: Iterable[Any], cells: int = 16) -> str:
    """A curve from 0 up in a line of blocks."""
    all_values, all_widths = np.array(values, float), np.array(widths, float)
    ends = np.cumsum(all_widths)
    sums = np.concatenate([[0], np.cumsum(all_values * all_widths)])
    at = np.interp(np.linspace(0, ends[-1], min(cells, len(ends)) + 1), np.concatenate([[0], ends]), sums)
    means = np.diff(at)
    high = means.max()
    return "".join(BLOCKS[int(v / high * (len(BLOCKS) - 1) + 0.5)] if high > 0 else BLOCKS[0] for v in means)


def html(shown: Shown) -> str:
    """The tables for a notebook."""
    from ..data.html import table
    from ..data.html import text as escaped

    titles, lines = source_table(shown, 200)
    notes = "".join(f"<div>{escaped(note)}</div>" for note in shown.notes)
    return f"<div><div><b>{escaped(head(shown))}</b></div>{table(titles, lines)}{table(*over(shown))}{notes}</div>"
