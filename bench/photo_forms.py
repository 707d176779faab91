"""The plot of the forms of photos in docs/performance.md: bytes per photo across, photos per second of one core up.

    leat bench --photos FOLDER --max-side 256,512 --json > forms.json
    python bench/ffcv_modes.py FOLDER --json ffcv-modes.json             (FFCV's own modes, as further points; or none)
    python bench/photo_forms.py forms.json ffcv-modes.json --out docs/photo-forms.svg

Both measurements belong into one run on one machine, with nothing else on it. Prints the table of both, in Markdown. It
needs matplotlib.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("agg")
import matplotlib.pyplot as plt  # noqa: E402

# Colours that people who see few of them tell apart (Okabe and Ito's); FFCV's points are grey and hollow.
STYLES = {"original": ("o", "#0072b2"), "fast": ("s", "#d55e00"), "raw": ("D", "#009e73")}
FFCV_STYLES = {"as": "v", "jpg": "o", "raw": "D", "half": "^"}
RATES = [50e6, 200e6, 1e9, 4e9]  # bytes per second of storage for which a line is drawn


def text_of_bytes(value: float, _: Any = None) -> str:
    for unit, name in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if value >= unit:
            return f"{value / unit:g} {name}"
    return f"{value:g} B"


def points_of(ours: dict[str, Any], theirs: dict[str, Any] | None) -> list[dict[str, Any]]:
    """Every point that was measured: name, marker, colour, x, y, and the series that it is joined in."""
    points = []
    for form in ours["forms"]:
        if "photos_per_second" in form:
            marker, colour = STYLES[form["form"]]
            name = form["form"] + (f" {form['max_side']}" if form["max_side"] else "")
            points.append(
                {
                    "name": name,
                    "marker": marker,
                    "colour": colour,
                    "series": form["form"],
                    "ours": True,
                    "numbers": form,
                }
            )
    for form in theirs["forms"] if theirs else []:
        kind = form["mode"].split("-")[0]
        name = "FFCV " + form["mode"].replace("as-came", "JPEG as it came").replace("-", " ")
        points.append(
            {
                "name": name,
                "marker": FFCV_STYLES[kind],
                "colour": "#666666",
                "series": "FFCV " + kind,
                "ours": False,
                "numbers": form,
            }
        )
    for point in points:
        point["x"], point["y"] = point["numbers"]["bytes_per_photo"], point["numbers"]["photos_per_second"]
    return points


def place_labels(figure: Any, axes: Any, points: list[dict[str, Any]]) -> None:
    """Puts each name beside its point: at the first of some places where it hides neither a point nor another name."""
    renderer = figure.canvas.get_renderer()
    taken = []
    for point in points:
        x, y = axes.transData.transform((point["x"], point["y"]))
        taken.append(matplotlib.transforms.Bbox.from_extents(x - 5, y - 5, x + 5, y + 5))
    frame = axes.get_window_extent(renderer)
    places = [
        (sign * 8, dy, "left" if sign > 0 else "right") for dy in (0, 9, -9, 18, -18, 27, -27) for sign in (1, -1)
    ]
    for point in sorted(points, key=lambda p: (not p["ours"], p["y"])):
        for dx, dy, side in places:
            label = axes.annotate(
                point["name"],
                (point["x"], point["y"]),
                (dx, dy),
                textcoords="offset points",
                ha=side,
                va="center",
                fontsize=8.5,
                color="#222222" if point["ours"] else "#666666",
            )
            box = label.get_window_extent(renderer)
            inside = frame.x0 <= box.x0 and box.x1 <= frame.x1 and frame.y0 <= box.y0 and box.y1 <= frame.y1
            if inside and not any(box.overlaps(other) for other in taken):
                taken.append(box)
                break
            label.remove()


def draw(points: list[dict[str, Any]], title: str, out: Path) -> None:
    plt.rcParams.update({"svg.fonttype": "none", "font.family": "sans-serif", "font.size": 9, "svg.hashsalt": "leat"})
    figure, axes = plt.subplots(figsize=(8.4, 5.4), dpi=72, layout="constrained")
    least, most = min(p["x"] for p in points), max(p["x"] for p in points)
    low, high = min(p["y"] for p in points), max(p["y"] for p in points)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(least / 1.5, most * 1.8)
    axes.set_ylim(low / 1.5, high * 1.5)
    axes.xaxis.set_major_locator(matplotlib.ticker.LogLocator(subs=(1, 2, 5)))
    axes.xaxis.set_major_formatter(matplotlib.ticker.FuncFormatter(text_of_bytes))
    axes.yaxis.set_major_locator(matplotlib.ticker.LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter(matplotlib.ticker.FuncFormatter(lambda v, _: f"{v:,.0f}"))
    axes.minorticks_off()
    axes.grid(color="#e6e6e6", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.set(xlabel="bytes per photo at rest", ylabel="photos per second, one core")
    axes.set_title(title, loc="left", fontsize=10)
    for rate in RATES:  # photos per second that such storage brings
        (left, right), (bottom, top) = axes.get_xlim(), axes.get_ylim()
        axes.plot(
            (left, right),
            (rate / left, rate / right),
            color="#bbbbbb",
            linewidth=0.8,
            linestyle=(0, (5, 4)),
            scalex=False,
            scaley=False,
            zorder=1,
        )
        above = rate / left > top  # the line comes in through the upper edge, else through the left one
        x, y = (rate / top, top) if above else (left, rate / left)
        if x < right and y > bottom:
            axes.annotate(
                text_of_bytes(rate) + "/s",
                (x, y),
                (5, -3) if above else (5, 0),
                textcoords="offset points",
                ha="left",
                va="top" if above else "center",
                fontsize=7.5,
                color="#888888",
            )
    for series in {p["series"] for p in points}:
        line = sorted((p["x"], p["y"]) for p in points if p["series"] == series)
        axes.plot(
            *zip(*line),
            color=next(p["colour"] for p in points if p["series"] == series),
            linewidth=0.8,
            alpha=0.4,
            zorder=2,
        )
    for p in points:
        face = p["colour"] if p["ours"] else "white"
        axes.plot(
            p["x"],
            p["y"],
            p["marker"],
            color=p["colour"],
            markerfacecolor=face,
            markersize=7 if p["ours"] else 6,
            zorder=3,
        )
    figure.draw_without_rendering()
    place_labels(figure, axes, points)
    figure.savefig(out, metadata={"Date": None})


def main() -> None:
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("ours", type=Path, help="what leat bench --photos --json printed")
    a.add_argument("theirs", type=Path, nargs="?", help="what bench/ffcv_modes.py --json wrote")
    a.add_argument("--out", type=Path, default=Path("docs/photo-forms.svg"))
    o = a.parse_args()
    ours = json.loads(o.ours.read_text())
    theirs = json.loads(o.theirs.read_text()) if o.theirs else None
    points = points_of(ours, theirs)
    draw(
        points,
        f"{ours['samples']} photos of {ours['source_bytes_per_photo'] / 1e3:.0f} kB, random-resized crop 224, one "
        "core; dashed: the rate of the storage",
        o.out,
    )
    print(
        "| form | bytes per photo | x as came | photos/s | storage it reads, MB/s | packed/s "
        "|\n|---|---|---|---|---|---|"
    )
    for p in points:
        n = p["numbers"]
        print(
            f"| {p['name']} | {n['bytes_per_photo'] / 1e3:.1f} kB | {n['ratio']:.2f} | {p['y']:,.0f} | "
            f"{p['x'] * p['y'] / 1e6:,.0f} | "
            f"{n['packed_per_second']:,.0f} |"
        )


if __name__ == "__main__":
    main()
