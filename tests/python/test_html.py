"""What data sets, batches and loaders show in a notebook."""

from __future__ import annotations

import base64
import io
import re
import xml.etree.ElementTree as ET
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from photo_support import png
from PIL import Image

import leat

HOSTILE = "<script>alert(1)</script>'\"><img src=x onerror=alert(2)>\u202e\x1b"


class Elements(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attributes)))


def harmless(text: str) -> str:
    """Checks that a face has only the tags and attributes that leat writes, and gives it back."""
    for tag, attributes in Elements(text).found:
        assert tag in {
            "div",
            "b",
            "br",
            "table",
            "thead",
            "tbody",
            "tr",
            "th",
            "td",
            "svg",
            "image",
            "rect",
            "text",
            "circle",
        }
        assert not [name for name in attributes if name.startswith("on") or name == "src"]
        assert tag != "image" or (attributes["href"] or "").startswith("data:image/png;base64,")
    assert "\u202e" not in text and "\x1b" not in text
    return text


def pictures(text: str) -> list[np.ndarray[Any, Any]]:
    return [
        np.asarray(Image.open(io.BytesIO(base64.b64decode(data))))
        for data in re.findall(r"data:image/png;base64,([^']*)", text)
    ]


def rectangles(text: str) -> list[tuple[float, ...]]:
    return [
        tuple(float(a[k] or 0) for k in ("x", "y", "width", "height")) for t, a in Elements(text).found if t == "rect"
    ]


@pytest.fixture
def boxed(tmp_path: Path) -> leat.Dataset:
    image = io.BytesIO()
    pixels = np.zeros((100, 200, 3), np.uint8)
    pixels[:, 100:] = (200, 100, 50)
    Image.fromarray(pixels).save(image, "PNG")
    fields = {"image": "image", "boxes": leat.boxes("xywh"), "label": leat.field("int64", (None,)), "note": "str"}
    with leat.Writer(tmp_path / "a.leat", fields, classes=[HOSTILE, "bee"]) as w:
        for _ in range(3):
            boxes = np.array([[20, 10, 40, 50], [100, 0, 100, 100]], np.float32)
            w.add(image=image.getvalue(), boxes=boxes, label=np.array([0, 1]), note=HOSTILE)
    return leat.open(tmp_path / "a.leat")


def test_a_data_set_shows_thumbnails_with_boxes_and_names(boxed: leat.Dataset) -> None:
    text = harmless(boxed._repr_html_())
    shown = pictures(text)
    assert len(shown) == 3 and all(p.shape == (50, 100, 3) for p in shown)
    assert (shown[0][:, :50] == 0).all() and (shown[0][:, 50:] == (200, 100, 50)).all()
    assert rectangles(text)[:2] == [(20, 10, 40, 50), (100, 0, 100, 100)]
    assert "bee" in text and "&lt;script&gt;" in text


def test_each_picture_is_well_formed(boxed: leat.Dataset) -> None:
    for svg in re.findall(r"<svg.*?</svg>", boxed._repr_html_()):
        ET.fromstring(svg)


@pytest.mark.parametrize("normalized", [None, False, True])
def test_a_batch_shows_what_the_operators_made(boxed: leat.Dataset, normalized: bool | None) -> None:
    ops = leat.ops
    chain = [ops.Decode(), ops.Resize((50, 100)), ops.RandomHorizontalFlip(1.0)]
    chain += [ops.ConvertBoundingBoxFormat("cxcywh", normalized=normalized)]
    chain += [ops.ToDtype("float32"), ops.Normalize([0.5, 0.4, 0.3], [0.2, 0.3, 0.4])]
    for framework in ("torch", "numpy"):
        if framework == "torch":
            pytest.importorskip("torch")
        outputs = {("image", "boxes", "label"): chain}
        loader = leat.Loader(boxed, 3, outputs=outputs, framework=framework)  # type: ignore[arg-type]
        text = harmless(next(iter(loader))._repr_html_())
        shown = pictures(text)
        assert len(shown) == 3
        assert (np.abs(shown[0][:, 52:].astype(int)) <= 1).all()
        assert (np.abs(shown[0][:, :48].astype(int) - (200, 100, 50)) <= 1).all()
        assert np.allclose(rectangles(text)[:2], [(70, 5, 20, 25), (0, 0, 50, 50)], atol=0.06)
        assert "float32" in text and "row 0" in text


@pytest.mark.parametrize("stack", ["list", "pad"])
@pytest.mark.parametrize("normalized", [False, True])
def test_images_of_open_size_are_shown_without_padding(
    tmp_path: Path, jpeg: Callable[..., bytes], stack: Any, normalized: bool
) -> None:
    ops, names = leat.ops, ("image", "boxes", "mask")
    fields = {"image": "image", "boxes": leat.boxes(), "mask": leat.mask()}
    sizes = [(100, 40), (50, 80)]
    with leat.Writer(tmp_path / "a.leat", fields) as w:
        for width, height in sizes:
            ids = io.BytesIO()
            Image.new("L", (width, height), 1).save(ids, "PNG")
            w.add(image=jpeg(width, height), boxes=[[10, 20, 30, 40]], mask=ids.getvalue())
    chain = [ops.Decode(), ops.ConvertBoundingBoxFormat("cxcywh", normalized=normalized)]
    loader = leat.Loader(leat.open(tmp_path / "a.leat"), 2, outputs={names: leat.Out(names, chain, stack=stack)})
    text = harmless(loader.batch_at(0, 0)._repr_html_())
    assert [p.shape[1::-1] for p in pictures(text)] == sizes
    assert np.allclose(rectangles(text), [(10, 20, 20, 20)] * 2, atol=0.06)
    tinted = pictures(text)[0].reshape(-1, 3).mean(0)
    assert tinted[0] > tinted[1] + 30  # the mask is drawn
    assert ("list of 2, the first (3, 40, 100)" in text) == (stack == "list")


def test_a_batch_as_stored_shows_its_photos(boxed: leat.Dataset) -> None:
    text = harmless(next(iter(leat.Loader(boxed, 2)))._repr_html_())
    assert len(pictures(text)) == 2 and rectangles(text)[0] == (20, 10, 40, 50)


@pytest.fixture
def targets(tmp_path: Path) -> leat.Dataset:
    """A gray image of 100 x 120 with two instances, one on top of the other, a mask of classes, and one point."""

    below, above, ids = np.zeros((3, 100, 120), np.uint8)
    below[10:60, 10:60] = 1
    above[40:50, 40:110] = 1
    ids[80:, :] = 3
    boxes = np.array([[10, 10, 60, 60], [40, 40, 110, 50]], np.float32)
    fields = {"image": "image", "boxes": leat.boxes(), "masks": leat.masks(), "label": leat.field("int64", (None,))}
    with leat.Writer(tmp_path / "t.leat", {**fields, "mask": leat.mask(), "points": leat.keypoints(2)}) as w:
        w.add(
            image=png(np.full((100, 120, 3), 100, np.uint8)),
            boxes=boxes,
            masks=[below, above],
            label=[7, 7],
            mask=png(ids),
            points=np.array([[[20, 30, 2], [50, 50, 0]]], np.float32),
        )
    return leat.open(tmp_path / "t.leat")


@pytest.mark.parametrize("way", ["stored", "batch as stored", "mirrored"])
def test_masks_and_keypoints_are_drawn(targets: leat.Dataset, way: str) -> None:
    names = ("image", "boxes", "masks", "label", "mask", "points")
    chain = [leat.ops.Decode(), leat.ops.RandomHorizontalFlip(1.0), leat.ops.Resize((100, 120))]
    outputs = {names: chain} if way == "mirrored" else None
    face = targets if way == "stored" else next(iter(leat.Loader(targets, 1, outputs=outputs, framework="numpy")))
    text = harmless(face._repr_html_())
    (shown,) = pictures(text)
    shown = shown[:, ::-1] if way == "mirrored" else shown
    shades = [np.array(c) * 0.45 + 55 for c in ((255, 59, 48), (30, 144, 255), (52, 199, 89))]
    for (y, x), shade in (((20, 20), shades[0]), ((45, 55), shades[1]), ((45, 100), shades[1]), ((90, 60), shades[2])):
        assert np.abs(shown[y, x] - shade).max() <= 1, (y, x)
    assert (shown[70, 70] == 100).all()
    circles = [a for t, a in Elements(text).found if t == "circle"]
    assert [(a["cx"], a["cy"]) for a in circles] == [("99.0" if way == "mirrored" else "20.0", "30.0")]
    assert text.count("stroke='#ff3b30'") == text.count("stroke='#1e90ff'") == 1  # frames as their masks


def test_several_images_of_a_row_stand_side_by_side(boxed: leat.Dataset) -> None:
    outputs = {"image": [leat.ops.Decode(), leat.ops.FiveCrop((40, 30))]}
    text = harmless(next(iter(leat.Loader(boxed, 3, outputs=outputs)))._repr_html_())
    assert [p.shape for p in pictures(text)] == [(40, 150, 3)] * 3


def test_a_copy_of_a_batch_has_a_face(boxed: leat.Dataset) -> None:
    outputs = {"image": [leat.ops.Decode(), leat.ops.Resize((50, 100))]}
    assert len(pictures(harmless(next(iter(leat.Loader(boxed, 2, outputs=outputs))).clone()._repr_html_()))) == 2


def test_a_loader_shows_where_it_is_and_its_operators(boxed: leat.Dataset) -> None:
    turned = leat.ops.RandomApply([leat.ops.RandomRotation(9)], p=0.2)
    chain = [leat.ops.Decode(), leat.ops.Resize((50, 100)), turned, leat.ops.RandomVerticalFlip().epochs(stop=3)]
    loader = leat.Loader(boxed, 2, outputs={"image": chain})
    next(iter(loader))
    text = harmless(loader._repr_html_())
    shown = [  # arguments that are their defaults are left out
        "Decode()",
        "Resize(size=(50, 100))",
        "RandomApply(transforms=[RandomRotation(degrees=(-9.0, 9.0))], p=0.2)",
        "RandomVerticalFlip(epochs=(0, 3))",
    ]
    assert " \u2192 ".join(shown) in text
    assert "1 batch, 2 samples" in text and "epoch 0, step 1" in text


def test_names_that_would_hide_others_are_left_out_and_all_frames_drawn(
    tmp_path: Path, jpeg: Callable[..., bytes]
) -> None:
    fields = {"image": "image", "boxes": leat.boxes(), "label": leat.field("int64", (None,))}
    boxes = [[10, 10, 60, 60], [12, 11, 50, 50], [10, 100, 60, 160], [180, 20, 200, 60]]
    with leat.Writer(tmp_path / "a.leat", fields, classes=["ant", "a long name"]) as w:
        w.add(image=jpeg(200, 200), boxes=boxes, label=[0, 1, 0, 1])
    text = harmless(leat.open(tmp_path / "a.leat")._repr_html_())
    assert len(rectangles(text)) == 4
    names = re.findall(r"<text x='([\d.]+)'[^>]*>([^<]*)</text>", text)
    assert [name for _, name in names] == ["ant", "ant", "a long name"]
    assert float(names[2][0]) < 150  # it begins further left, where it fits


def test_a_broken_photo_shows_why(tmp_path: Path, jpeg: Callable[..., bytes]) -> None:
    with leat.Writer(tmp_path / "a.leat", {"image": "image"}) as w:
        w.add(image=jpeg(32, 32)[:100])
        w.add(image=jpeg(32, 32))
    text = harmless(leat.open(tmp_path / "a.leat")._repr_html_())
    assert len(pictures(text)) == 1 and "JPEG" in text


def test_data_without_pictures_are_a_table(tmp_path: Path) -> None:
    with leat.Writer(tmp_path / "a.leat", {"x": leat.field("float32", (30,)), "text": "str"}) as w:
        w.add(x=np.zeros(30, np.float32), text=HOSTILE)
    text = harmless(leat.open(tmp_path / "a.leat")._repr_html_())
    assert "float32 (30,)" in text and "&lt;script&gt;" in text


def test_an_empty_data_set_has_a_face(tmp_path: Path) -> None:
    with leat.Writer(tmp_path / "a.leat", {"image": "image"}):
        pass
    assert "0 samples" in leat.open(tmp_path / "a.leat")._repr_html_()


def test_masks_that_would_fill_the_memory_are_not_drawn(tmp_path: Path) -> None:
    with leat.Writer(tmp_path / "t.leat", {"image": "image", "masks": leat.masks()}) as w:
        out = io.BytesIO()
        Image.fromarray(np.full((400, 500, 3), 100, np.uint8)).save(out, "PNG")
        w.add(image=out.getvalue(), masks=[[[0, 0, 5, 0, 5, 5]]] * 1500)
    ds = leat.open(tmp_path / "t.leat")
    for face in (ds, next(iter(leat.Loader(ds, 1, framework="numpy")))):
        text = harmless(face._repr_html_())
        (shown,) = pictures(text)
        assert (shown == 100).all()
        assert "1500 masks of 500 x 400 pixels are too many to draw" in text
