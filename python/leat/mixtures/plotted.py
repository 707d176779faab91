"""The picture of `leat mix show --out`: shares over the rows, and passes of each source. Drawn by matplotlib."""

from __future__ import annotations

import io
import os
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from ..files import whole
from .printed import by_share, fitted, head, printable

if TYPE_CHECKING:
    from .shown import Shown

CURVES = 14  #: sources with a curve of their own; the others are drawn as one
FORMS = ("png", "pdf", "svg")


def pyplot() -> Any:
    """The parts of matplotlib that are needed, without touching its state."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as e:
        raise ImportError(f"pictures of mixtures are drawn by matplotlib: pip install matplotlib ({e})") from None
    return Figure, FigureCanvasAgg


def check(path: Any) -> tuple[str, str]:
    """The name of a file and its form, if a picture can be made of it."""
    name = os.fspath(path)
    form = os.path.splitext(name)[1][1:].lower()
    if form not in FORMS:
        raise ValueError(f"{name}: a picture is a .png, .pdf or .svg")
    pyplot()
    return name, form


def save(shown: Shown, path: Any) -> None:
    """Draws into a file, which appears when it is complete."""
    name, form = check(path)
    figure, made = draw(shown), io.BytesIO()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph")  # a name in a script that the font lacks: boxes stand for it
        figure.savefig(made, format=form)
    with whole(name) as file:
        file.write(made.getbuffer())


def _curves(shown: Shown) -> list[tuple[str, np.ndarray[Any, Any], np.ndarray[Any, Any], np.ndarray[Any, Any] | None]]:
    """Name, share asked for, share delivered, passes."""
    picked = by_share(shown, CURVES)
    names = [fitted(printable(shown.sources[k].name), 30) for k in picked]
    found: list[Any] = [
        (name, shown.asked[:, k], shown.delivered[:, k], shown.passes[:, k])
        for name, k in zip(names, picked, strict=True)
    ]
    rest = [k for k in range(len(shown.sources)) if k not in set(picked)]
    if rest:
        name = f"{len(rest):,} others"
        found.append((name, shown.asked[:, rest].sum(axis=1), shown.delivered[:, rest].sum(axis=1), None))
    return found


def draw(shown: Shown) -> Any:
    """The figure."""
    Figure, Canvas = pyplot()  # noqa: N806
    figure = Figure(figsize=(9.6, 6.4), dpi=100, layout="constrained")
    Canvas(figure)
    shares, passes = figure.subplots(2, 1, sharex=True, height_ratios=(3, 2))
    places = shown.edges if shown.step_edges is None else shown.step_edges
    curves = _curves(shown)
    colours = [_colour(i) for i in range(len(curves))]
    handles = []
    for (_, asked, delivered, gone), colour in zip(curves, colours, strict=True):
        handles.append(shares.stairs(100 * delivered, places, color=colour, linewidth=1.6, baseline=None))
        shares.stairs(100 * asked, places, color=colour, linewidth=1.1, linestyle=(0, (4, 2)), baseline=None)
        if gone is not None:
            passes.plot(places, gone, color=colour, linewidth=1.6)
    _mark(shown, shares, passes, colours)
    what = "rows" if shown.unit == "samples" else shown.unit
    shares.set_ylabel(f"share of {what} (%)")
    shares.set_ylim(bottom=0)
    passes.set_ylabel("passes of each source")
    passes.set_ylim(bottom=0)
    passes.set_xlabel("rows" if shown.step_edges is None else "steps")
    passes.set_xlim(float(places[0]), float(places[-1]))
    for axes in (shares, passes):
        axes.grid(color="#e4e4e8", linewidth=0.8)
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    title = shares.set_title(head(shown), fontsize=10, loc="left")
    names = [name for name, *_ in curves]
    legend = figure.legend(handles, names, loc="outside right upper", fontsize=9, frameon=False,
                           title="delivered\n(dashed: asked for)", title_fontsize=9)  # fmt: skip
    for drawn in (title, *legend.get_texts()):
        drawn.set_parse_math(False)
    return figure


def _mark(shown: Shown, shares: Any, passes: Any, colours: list[str]) -> None:
    """The rows at which sources are through, shares change, and epochs begin."""
    for colour, k in zip(colours, by_share(shown, CURVES), strict=False):
        at = shown.sources[k].through
        if at is not None:
            x = at.stream if at.step is None else at.step
            passes.plot([x], [1], "o", color=colour, markersize=5)
    if len(shown.changes) <= 100:
        for at in shown.changes:
            shares.axvline(at.stream if at.step is None else at.step, color="#b4b4bc", linewidth=0.6, zorder=0.6)
    ends = np.cumsum(shown.epochs)[:-1]
    if len(ends) <= 50:
        for end in np.interp(ends, shown.edges, shown.edges if shown.step_edges is None else shown.step_edges):
            passes.axvline(end, color="#8e8e93", linewidth=0.8, linestyle=":")


def _colour(i: int) -> str:
    """For a curve: neighbours differ in lightness too. The first are Okabe and Ito's."""
    named = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#26272b", "#8b5a2b", "#7d8b00",
             "#af52de", "#d7003a", "#5ac8b0", "#777a80", "#1f3a93", "#9a9aa2")  # fmt: skip
    return named[i % len(named)]
