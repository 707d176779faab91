"""Builds the documentation site into build/site: `make docs` installs what it needs, and runs it.

    docs/*.md                  the guides, as they are
    operators in pictures      each operator of leat.ops, applied by itself to a photo made here (or --photo FILE)
    reference                  from docstrings, from include/leat/leat.h, and from the command's own tables

Manual pages and completion for shells are written beside it, into build/man and build/completion. A warning of the
builder, such as a broken link, is an error. Nothing is downloaded.
"""

from __future__ import annotations

import argparse
import inspect
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import leat
from leat.data.html import decoded, pixels_of, png

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build"
SOURCE, SITE = BUILD / "site-source", BUILD / "site"

GUIDES = {
    "Beginning": ["quickstart", "faq"],
    "Data": ["datasets", "text", "photos", "targets", "operators"],
    "Training": [
        "loader",
        "mixtures",
        "feedback",
        "dataloader",
        "ports",
        "stores",
        "device",
        "privacy",
        "frameworks",
        "ray",
        "ray-simulation",
        "recipes",
        "order",
    ],
    "Beside": ["cli", "performance", "c-api", "format", "architecture", "dependencies", "stability"],
}

# ---- operators in pictures -------------------------------------------------------------------------------------------

#: what an argument is where an operator needs one, by its name
ARGUMENTS: dict[str, Any] = {
    "size": (110, 190),
    "padding": 30,
    "degrees": 30,
    "kernel_size": 21,
    "bits": 2,
    "threshold": 128,
    "sharpness_factor": 6.0,
    "min_size": 140,
    "max_size": 300,
    "target_size": (220, 300),
}
#: and where the defaults do nothing that is seen
EXAMPLES: dict[str, dict[str, Any]] = {
    "ColorJitter": {"brightness": 0.5, "contrast": 0.5, "saturation": 0.5, "hue": 0.2},
    "GaussianBlur": {"kernel_size": 31, "sigma": (1.0, 6.0)},
    "RandomAffine": {"degrees": 25, "translate": (0.1, 0.1), "scale": (0.7, 1.2), "shear": 10},
    "RandomShortestSize": {"min_size": [120, 160, 200]},
    "JPEG": {"quality": (3, 15)},
    "ElasticTransform": {"alpha": 150.0},
    "GaussianNoise": {"sigma": 0.2},
    "Mosaic": {"size": 240},
    "MixUp": {"num_classes": 4},
    "CutMix": {"num_classes": 4},
}
#: modules whose operators change no pixels that one would see
UNSEEN = ("functions", "photo", "sequences", "targets", "tokens", "values")
OF_SEVERAL = ("CopyPaste", "DetectionMixUp", "Mosaic")  #: what they make has parts of other samples of the epoch
BOX = np.array([[0.17, 0.24, 0.62, 0.84]], np.float32)  #: of width and height
ANGLES = np.linspace(0, 2 * np.pi, 40, endpoint=False)[:, None]
OUTLINE = (BOX[:, :2] + BOX[:, 2:]) / 2 + (BOX[:, 2:] - BOX[:, :2]) / 2 * np.hstack([np.cos(ANGLES), np.sin(ANGLES)])


def photos(given: Path | None) -> list[bytes]:
    """Encoded photos: the one that was given, and three that are made."""
    sys.path.insert(0, str(ROOT / "examples"))
    import make_photos

    made = []
    for name, index in (("checks", 1), ("rings", 5), ("waves", 7)):
        image = np.asarray(make_photos.picture(name, index).convert("RGB"))
        k = max(image.shape[:2]) // 250 or 1
        pale = image[::k, ::k] * 0.72 + 36  # so that operators have something to stretch
        made.append(png(np.ascontiguousarray(pale.astype(np.uint8))))
    return ([given.read_bytes()] if given else []) + made


def example(cls: type[leat.ops.Operator]) -> tuple[leat.ops.Operator, str]:
    """An operator with arguments that show what it does, and how it is written."""
    values = dict(EXAMPLES.get(cls.__name__, {}))
    for name, parameter in inspect.signature(cls).parameters.items():
        if name in values or name == "name":
            continue
        if name == "p" and parameter.default is not inspect.Parameter.empty and isinstance(parameter.default, float):
            values[name] = 1.0
        elif parameter.default is inspect.Parameter.empty:
            values[name] = (
                [leat.ops.RandomInvert(1.0), leat.ops.RandomRotation(30)] if name == "transforms" else (ARGUMENTS[name])
            )
    shown = ", ".join(f"{k}={v!r}" for k, v in values.items())
    return cls(**values), f"{cls.__name__}({shown})"


def framed(pixels: np.ndarray[Any, Any], boxes: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    image = np.array(pixels)
    height, width = image.shape[:2]
    for x0, y0, x1, y1 in np.asarray(boxes, float).reshape(-1, 4).round().astype(int):
        for inset, ink in ((0, (0, 0, 0)), (1, (255, 59, 48)), (2, (255, 59, 48))):
            left, right = np.clip([x0 + inset, x1 - 1 - inset], 0, width - 1)
            top, bottom = np.clip([y0 + inset, y1 - 1 - inset], 0, height - 1)
            image[top : bottom + 1, [left, right]] = ink
            image[[top, bottom], left : right + 1] = ink
    return image


def results(ds: leat.Dataset, op: leat.ops.Operator, way: str) -> list[np.ndarray[Any, Any]]:
    """Three pictures that it makes, in one of four ways: with the boxes of a photo, with masks, too, of the photo
    alone, of a batch.
    """
    ops = leat.ops
    if way == "batch":
        chain = [ops.Decode(), ops.Resize((190, 250)), ops.ToDtype("float32"), op]
        batch = next(iter(leat.Loader(ds, 3, outputs={("image", "label"): chain}, framework="numpy")))
        return [pixels_of(image) for image in batch["image"]]
    tuples = {"boxes": ("image", "boxes"), "masks": ("image", "boxes", "masks")}
    names: Any = tuples.get(way, "image")
    # Alone, operators may ask for images of one size.
    sides = decoded(ds[0]["image"]).shape[:2]
    outputs = {names: [ops.Decode(), op] if way == "boxes" else [ops.Decode(), ops.Resize(sides), op]}
    rows = [0, 1, 2] if type(op).__name__ in OF_SEVERAL else [0, 0, 0]
    found = []
    for batch in leat.Loader(ds, 1, sampler=rows, outputs=outputs, framework="numpy", seed=3):
        if batch["image"].ndim == 5:  # several images of one, FiveCrop's and TenCrop's
            return [pixels_of(image) for image in batch["image"][0]]
        image = pixels_of(batch["image"][0])
        found.append(framed(image, batch["boxes"].values) if way in tuples else image)
    return found


def side_by_side(pictures: list[np.ndarray[Any, Any]]) -> bytes:
    """On white, centred; the first is the original."""
    gap, height = 8, max(p.shape[0] for p in pictures)
    width = sum(p.shape[1] for p in pictures) + gap * (len(pictures) + 1)
    sheet = np.full((height, width, 3), 255, np.uint8)
    x = 0
    for i, p in enumerate(pictures):
        y = (height - p.shape[0]) // 2
        sheet[y : y + p.shape[0], x : x + p.shape[1]] = p
        x += p.shape[1] + (2 * gap if i == 0 else gap)
    return png(np.ascontiguousarray(sheet[:, : x - gap]))


def summary(of: Any) -> str:
    text = inspect.getdoc(of) or ""
    text = text.split("\n\n")[0].replace("\n", " ")
    return re.sub(r":\w+:`~?([^`]*)`", r"`\1`", text).replace("``", "`")


def gallery(given: Path | None) -> tuple[str, dict[str, str]]:
    """The page, and the operators without a picture with the reason."""
    missing: dict[str, str] = {}
    page = ["# Operators in pictures", "", "Left the photo, then what the operator makes of it under three keys. Boxes"]
    page += [
        "of the tuple that it works on are drawn. Each picture was made by the operator itself, when this page was."
    ]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "photos.leat"
        fields = {"image": "image", "boxes": leat.boxes("xyxy"), "masks": leat.masks(), "label": "int64"}
        with leat.Writer(path, fields, classes=["a", "b", "c", "d"]) as w:
            for i, photo in enumerate(photos(given)):
                height, width = decoded(photo).shape[:2]
                sides = np.float32([width, height, width, height])
                masks = [[[float(v) for v in np.ravel(OUTLINE * sides[:2])]]]
                w.add(image=photo, boxes=BOX * sides, masks=masks, label=i)
        ds = leat.open(path)
        original = decoded(ds[0]["image"])
        boxed = framed(original, ds[0]["boxes"])
        classes = [
            c
            for _, c in sorted(inspect.getmembers(leat.ops, inspect.isclass), key=lambda m: m[0].lower())
            if issubclass(c, leat.ops.Operator) and c is not leat.ops.Operator
        ]
        for module in sorted({c.__module__ for c in classes}):
            page += ["", f"## {module.rpartition('.')[2].capitalize()}"]
            for cls in (c for c in classes if c.__module__ == module):
                page += ["", f"### {cls.__name__}", "", summary(cls), ""]
                why = ""
                for way in () if module.rpartition(".")[2] in UNSEEN else ("boxes", "masks", "image", "batch"):
                    try:
                        op, call = example(cls)
                        made = results(ds, op, way)
                    except Exception as e:
                        why = why or f"{type(e).__name__}: {e}".split("\n")[0][:200]
                        continue
                    before = boxed if way in ("boxes", "masks") else original
                    same = all(p.shape == before.shape and np.abs(p.astype(int) - before).max() <= 1 for p in made)
                    if same:
                        why = "it changes no picture"
                        break
                    (SOURCE / "pictures").mkdir(exist_ok=True)
                    (SOURCE / "pictures" / f"{cls.__name__}.png").write_bytes(side_by_side([before, *made]))
                    page += [
                        "```python",
                        f"leat.ops.{call}",
                        "```",
                        "",
                        f"![{cls.__name__}](pictures/{cls.__name__}.png)",
                    ]
                    why = ""
                    break
                if why:
                    missing[cls.__name__] = why
                page += ["", f"Reference: {{py:class}}`leat.ops.{cls.__name__}`"]
    return "\n".join(page) + "\n", missing


# ---- reference -------------------------------------------------------------------------------------------------------


def python_reference() -> dict[str, str]:
    pages = {}
    names = [n for n in leat.__all__ if n not in ("ops", "ports", "presets")]
    body = ["# leat", "", "```{eval-rst}", ".. currentmodule:: leat"]
    for name in names:
        value = getattr(leat, name)
        kind = (
            "autoexception"
            if inspect.isclass(value) and issubclass(value, Exception)
            else ("autoclass" if inspect.isclass(value) else "autofunction" if callable(value) else "")
        )
        if kind:
            body += ["", f".. {kind}:: leat.{name}"]
            body += (
                ["   :members:", "   :inherited-members: Mapping"]
                if kind == "autoclass" and name != "DataLoader"
                else []
            )
    for name in leat.ports.__all__:
        body += ["", f".. autofunction:: leat.ports.{name}"]
    pages["reference-leat"] = "\n".join([*body, "```", ""])
    body = ["# leat.ops", "", "```{eval-rst}", ".. currentmodule:: leat.ops"]
    for name, value in inspect.getmembers(leat.ops):
        ours = getattr(value, "__module__", "").startswith("leat.ops") and not name.startswith("_")
        if ours and inspect.isclass(value) and issubclass(value, leat.ops.Operator):
            body += ["", f".. autoclass:: leat.ops.{name}"]
        elif ours and inspect.isfunction(value):
            body += ["", f".. autofunction:: leat.ops.{name}"]
    pages["reference-ops"] = "\n".join([*body, "```", ""])
    pages["reference-presets"] = "# leat.presets\n\n```{eval-rst}\n.. automodule:: leat.presets\n   :members:\n```\n"
    return pages


def header_reference() -> str:
    """Sections, comments and declarations of the header, in its order."""
    lines = [
        line for name in ("leat", "mixtures") for line in (ROOT / f"include/leat/{name}.h").read_text().splitlines()
    ]
    page, code, i = ["# leat.h", ""], [], 0

    def flush() -> None:
        text = "\n".join(code).strip()
        if text:
            page.extend(["```c", text, "```", ""])
        code.clear()

    while i < len(lines):
        section = re.match(r"/\* ---- (.+?) -+ \*/", lines[i])
        if section:
            flush()
            page.extend([f"## {section[1][:1].upper()}{section[1][1:]}", ""])
        elif lines[i].startswith("/*"):
            flush()
            comment = []
            while True:
                comment.append(re.sub(r"^ ?\*/?|^/\*|\*/$", "", lines[i]).rstrip())
                if lines[i].endswith("*/"):
                    break
                i += 1
            page.extend(["```text", *inspect.cleandoc("\n".join(comment)).split("\n"), "```", ""])
        elif not lines[i].startswith("#"):
            code.append(lines[i])
        i += 1
    flush()
    return "\n".join(page)


def command_reference(program: str) -> str:
    """What the command says of itself; its manual pages and completion beside that."""

    def said(*arguments: str) -> str:
        return subprocess.run([program, *arguments], check=True, capture_output=True, text=True).stdout

    overview = said("--help")
    commands = re.findall(r"^  (\w+)  +\S", overview.partition("Commands:")[2].partition("Options:")[0], re.M)
    for folder in ("man", "completion"):
        shutil.rmtree(BUILD / folder, ignore_errors=True)
        (BUILD / folder).mkdir(parents=True)
    (BUILD / "man" / "leat.1").write_text(said("--man"))
    page = ["# Options of the command", "", "```text", overview.rstrip(), "```"]
    for command in commands:
        (BUILD / "man" / f"leat-{command}.1").write_text(said("--man", command))
        page += ["", f"## leat {command}", "", "```text", said("help", command).rstrip(), "```"]
    for shell, name in (("bash", "leat"), ("zsh", "_leat"), ("fish", "leat.fish")):
        (BUILD / "completion" / name).write_text(said("completion", shell))
    return "\n".join(page) + "\n"


# ---- the site --------------------------------------------------------------------------------------------------------

CONFIG = """
project, author, version = "leat", "the authors of leat", {version!r}
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
html_theme, html_title, html_show_copyright, html_copy_source = "furo", "leat " + version, False, False
myst_heading_anchors = 4
autodoc_typehints, autodoc_member_order = "none", "bysource"
python_maximum_signature_line_length = 100
"""


def copied(text: str) -> str:
    """A guide as a page of the site: links that leave docs/ name the file instead."""
    return re.sub(
        r"\[([^\]]*)\]\((?:\.\./)+([^)#]*)[^)]*\)", lambda m: f"`{m[2]}`" if "`" in m[1] else f"{m[1]} (`{m[2]}`)", text
    )


def index() -> str:
    readme = (ROOT / "README.md").read_text()
    first = re.search(r"^# .*?(?=^## |\Z)", readme, re.M | re.S)
    assert first
    text = re.sub(r"\]\(docs/([^)]*)\)", r"](\1)", first[0])
    text = re.sub(r"\[([^\]]*)\]\((?!https?:|[\w-]+\.md)([^)]*)\)", r"`\2`", text)
    parts = [text]
    listed = {name for pages in GUIDES.values() for name in pages}
    more = sorted({p.stem for p in (ROOT / "docs").glob("*.md")} - listed)
    for title, pages in ({**GUIDES, "More": more} if more else GUIDES).items():
        parts += ["", "```{toctree}", f":caption: {title}", ":hidden:", "", *pages, "```"]
    names = [
        "pictures",
        "reference-leat",
        "reference-ops",
        "reference-presets",
        "reference-command",
        "reference-header",
    ]
    parts += ["", "```{toctree}", ":caption: Reference", ":hidden:", "", *names, "```"]
    return "\n".join(parts) + "\n"


def main() -> int:
    options = argparse.ArgumentParser(description="Builds the documentation site.")
    options.add_argument("--photo", type=Path, help="the photo that operators are shown with")
    options.add_argument("--command", default=shutil.which("leat", path=str(Path(sys.executable).parent)) or "leat")
    given = options.parse_args()
    shutil.rmtree(SOURCE, ignore_errors=True)
    SOURCE.mkdir(parents=True)
    for path in (ROOT / "docs").iterdir():
        if path.suffix == ".md":
            (SOURCE / path.name).write_text(copied(path.read_text()))
        elif path.is_file():
            shutil.copy(path, SOURCE / path.name)
    page, missing = gallery(given.photo)
    pages = {"pictures": page, "index": index(), "reference-header": header_reference(), **python_reference()}
    pages["reference-command"] = command_reference(given.command)
    for name, text in pages.items():
        (SOURCE / f"{name}.md").write_text(text)
    (SOURCE / "conf.py").write_text(CONFIG.format(version=leat.__version__))
    shutil.rmtree(SITE, ignore_errors=True)
    built = subprocess.run(
        [
            sys.executable,
            "-m",
            "sphinx",
            "-q",
            "-W",
            "--keep-going",
            "-b",
            "html",
            "-d",
            BUILD / "site-trees",
            SOURCE,
            SITE,
        ]
    )
    pictures = len(list((SOURCE / "pictures").glob("*.png")))
    for name, why in missing.items():
        print(f"leat docs: no picture of {name}: {why}")
    if built.returncode:
        print("leat docs: FAILED: the builder's warnings above are errors")
        return 1
    print(
        f"leat docs: done: {SITE / 'index.html'}; {pictures} operators have a picture; manual pages in {BUILD / 'man'},"
    )
    print(f"completion in {BUILD / 'completion'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
