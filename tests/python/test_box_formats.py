"""Boxes that have another format than is said of them, and fields that do not go together: counted, named, refused."""

from __future__ import annotations

import io
import json
import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli_support import leat as run
from cli_support import real_data
from PIL import Image

import leat
from leat import ops

SIZES = [(640, 426), (500, 375), (480, 640), (375, 500)]
F = np.float32


def photo(width: int, height: int, orientation: int | None = None) -> bytes:
    out, exif = io.BytesIO(), Image.Exif()
    if orientation:
        exif[0x0112] = orientation
    Image.new("RGB", (width, height)).save(out, "JPEG", exif=exif)
    return out.getvalue()


def boxes_in(width: int, height: int, n: int = 10) -> Any:
    """xyxy, all over the image, as float64."""
    rng = np.random.default_rng(width)
    corner = rng.random((n, 2)) * 0.8 * (width, height)
    return np.concatenate([corner, corner + (0.1 + 0.1 * rng.random((n, 2))) * (width, height)], 1)


def of_xyxy(form: str, boxes: Any) -> Any:
    a, b = boxes[:, :2], boxes[:, 2:]
    return np.concatenate({"xyxy": (a, b), "xywh": (a, b - a), "cxcywh": ((a + b) / 2, b - a)}[form], 1)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "images").mkdir()
    for i, size in enumerate(SIZES):
        (tmp_path / f"images/{i}.jpg").write_bytes(photo(*size))
    return tmp_path


def coco(folder: Path, change: Callable[[Any, int, int], Any]) -> Path:
    images = [{"id": i, "file_name": f"{i}.jpg", "width": w, "height": h} for i, (w, h) in enumerate(SIZES)]
    annotations = [
        {"image_id": i, "category_id": 1, "bbox": box.tolist()}
        for i, size in enumerate(SIZES)
        for box in change(boxes_in(*size), *size)
    ]
    path = folder / "boxes.json"
    path.write_text(
        json.dumps({"images": images, "annotations": annotations, "categories": [{"id": 1, "name": "a"}]}, indent=0)
    )
    return path


def warned(open_it: Callable[[], leat.Dataset]) -> tuple[dict[str, int], list[str]]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        ds = open_it()
    return ds.about["boxes"], [line for w in caught for line in str(w.message).split("\n") if " boxes " in line]


def normal(form: str) -> Callable[[Any, int, int], Any]:
    return lambda boxes, w, h: of_xyxy(form, boxes) / (w, h, w, h)


WRONG: dict[str, tuple[Callable[[Any, int, int], Any], str]] = {
    "xyxy": (lambda boxes, w, h: boxes, "do not fit their image .*: are they xyxy\\?"),
    "cxcywh": (lambda boxes, w, h: of_xyxy("cxcywh", boxes), "do not fit their image .*: are they cxcywh\\?"),
    "turned": (
        lambda boxes, w, h: of_xyxy("xywh", boxes[:, [1, 0, 3, 2]]),
        "do not fit their image .*: are the image's width and height exchanged\\?",
    ),
    "normalized xywh": (normal("xywh"), "40 of 40 boxes lie in a single pixel: are they xywh in units of"),
    "normalized cxcywh": (normal("cxcywh"), "40 of 40 boxes lie in a single pixel: are they cxcywh in units of"),
    "far outside": (lambda boxes, w, h: boxes * [3, 3, 1, 1], "do not fit their image"),
}


@pytest.mark.parametrize("kind", WRONG)
def test_coco_boxes_of_another_format_are_counted_and_the_format_is_named(folder: Path, kind: str) -> None:
    change, said = WRONG[kind]
    path = coco(folder, change)
    found, lines = warned(lambda: leat.open(folder / "images", annotations=path))
    assert found["count"] == 40 and len(lines) >= 1
    assert any(re.search(said, line) for line in lines), lines
    if kind == "xyxy":
        at = re.search(r"annotations\[(\d+)\] \(line (\d+), byte \d+\) has the bbox \[", lines[-1])
        assert at and "[" not in path.read_text().split("\n")[int(at[2]) - 1] and lines[-1].startswith(str(path))
        wrong = [
            (w, h, box)
            for w, h in SIZES
            for box in boxes_in(w, h)
            if box[0] + box[2] > w + 1 or box[1] + box[3] > h + 1
        ]
        assert found["cut"] == len(wrong) and found["outside"] == found["empty"] == 0


def test_boxes_that_fit_or_reach_out_by_a_pixel_of_rounding_are_not_wrong(folder: Path) -> None:
    def rounded(boxes: Any, w: int, h: int) -> Any:
        boxes = np.concatenate([boxes, [[-1, -1, w + 1, h + 1]] * 3])
        return of_xyxy("xywh", boxes)

    path = coco(folder, rounded)
    found, lines = warned(lambda: leat.open(folder / "images", annotations=path))
    assert found == {"count": 52, "cut": 0, "outside": 0, "empty": 0, "not_finite": 0} and not lines


def test_a_few_boxes_that_reach_out_are_counted_without_a_warning(folder: Path) -> None:
    def some(boxes: Any, w: int, h: int) -> Any:
        boxes = of_xyxy("xywh", boxes)
        boxes[0, 2:] = w, h
        return boxes

    path = coco(folder, some)
    found, lines = warned(lambda: leat.open(folder / "images", annotations=path))
    assert found["cut"] == 4 and not lines
    done = run("pack", "--coco", path, folder / "images", folder / "out.leat")
    assert "40 boxes: 4 reach out of their image, and are cut off or left out" in done.stdout
    shown = run("stats", "--coco", path, folder / "images").stdout
    assert "annotations    4 reach out of their image, and are cut off" in shown and "note" not in shown
    path = coco(folder, lambda boxes, w, h: boxes)
    assert "are they xyxy?" in run("stats", "--coco", path, folder / "images").stdout
    stats = json.loads(run("stats", "--coco", path, folder / "images", "--json").stdout)
    assert stats["annotations"]["cut"] > 10 and "are they xyxy?" in stats["notice"]


def test_yolo_with_pixels_or_corners_is_named(folder: Path) -> None:
    for name, said in (("cxcywh", "are they cxcywh in pixels?"), ("xyxy", "are they xyxy in pixels?")):
        labels = folder / name
        labels.mkdir()
        for i, (w, h) in enumerate(SIZES):
            rows = of_xyxy(name, boxes_in(w, h))
            (labels / f"{i}.txt").write_text("".join(f"0 {a:.2f} {b:.2f} {c:.2f} {d:.2f}\n" for a, b, c, d in rows))
        with pytest.raises(leat.CorruptError, match=f"each of the 40 is wrong.*{re.escape(said)}.* 0 to 1"):
            leat.open(folder / "images", annotations=labels)
    labels = folder / "corners"
    labels.mkdir()
    for i, (w, h) in enumerate(SIZES):
        rows = boxes_in(w, h) / (w, h, w, h)
        (labels / f"{i}.txt").write_text("".join(f"0 {a:.6f} {b:.6f} {c:.6f} {d:.6f}\n" for a, b, c, d in rows))
    found, lines = warned(lambda: leat.open(folder / "images", annotations=labels))
    assert "are they xyxy? The first: " in lines[-1] and "corners/0.txt line " in lines[-1] and found["cut"] >= 10


def test_voc_with_shares_of_the_image_is_named(folder: Path) -> None:
    (folder / "Annotations").mkdir()
    for i, (w, h) in enumerate(SIZES):
        objects = "".join(
            f"<object><name>a</name><bndbox><xmin>{a}</xmin><ymin>{b}</ymin><xmax>{c}</xmax><ymax>{d}</ymax></bndbox>"
            "</object>"
            for a, b, c, d in boxes_in(w, h) / (w, h, w, h)
        )
        size = f"<size><width>{w}</width><height>{h}</height></size>"
        (folder / f"Annotations/{i}.xml").write_text(f"<annotation>{size}{objects}</annotation>")
    _, lines = warned(lambda: leat.open(folder / "images", annotations=folder / "Annotations"))
    assert "40 of 40 boxes lie in a single pixel: are they xyxy in units of the image's width" in lines[-1]


def test_real_boxes_fit_and_as_xyxy_do_not(tmp_path: Path) -> None:
    root = real_data("coco128")
    path = root / "instances_train2017_present.json"
    found, lines = warned(lambda: leat.open(root / "images/train2017", annotations=path))
    assert found["count"] == 155 and sum(found.values()) == 155 and not lines
    text = json.loads(path.read_text())
    for one in text["annotations"]:
        x, y, w, h = one["bbox"]
        one["bbox"] = [x, y, x + w, y + h]
    (tmp_path / "xyxy.json").write_text(json.dumps(text))
    found, lines = warned(lambda: leat.open(root / "images/train2017", annotations=tmp_path / "xyxy.json"))
    assert found["cut"] == 113 and "113 of 155 boxes" in lines[-1] and "are they xyxy?" in lines[-1]


# ---- packed ----


def written(
    path: Path, field: leat.Field, boxes_of: Callable[[Any, int, int], Any]
) -> tuple[dict[str, int], list[str]]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with leat.Writer(path, {"image": "image", "boxes": field}, overwrite=True) as w:
            for size in SIZES:
                w.add(image=photo(*size), boxes=boxes_of(boxes_in(*size), *size).astype(F))
    return w.boxes["boxes"], [str(w.message) for w in caught]


def test_a_writer_and_stats_count_boxes_that_do_not_fit_and_name_the_format(tmp_path: Path) -> None:
    path = tmp_path / "a.leat"
    fields = {"xywh": leat.boxes("xywh"), "normalized": leat.boxes("xyxy", normalized=True)}
    for name, said in (("xywh", "are they xyxy?"), ("normalized", "are they xyxy in pixels?")):
        counts, texts = written(path, fields[name], lambda boxes, w, h: boxes)
        assert len(texts) == 1 and f"{path}: field 'boxes': " in texts[0] and texts[0].endswith(said)
        stats = json.loads(run("stats", path, "--json").stdout)["boxes"][0]
        assert counts == {k: stats[k] for k in counts} and stats["suspect"].endswith(said)
        assert said in run("stats", path).stdout
    counts, texts = written(path, leat.boxes("xyxy"), lambda boxes, w, h: boxes / (w, h, w, h))
    assert counts["tiny"] == 40 and "40 of 40 boxes lie in a single pixel: are they xyxy in units of" in texts[0]
    counts, texts = written(path, leat.boxes("xyxy"), lambda boxes, w, h: boxes)
    assert counts == {"count": 40, "cut": 0, "outside": 0, "empty": 0, "not_finite": 0, "tiny": 0} and not texts
    stats = json.loads(run("stats", path, "--json").stdout)["boxes"][0]
    assert "suspect" not in stats and "faults" not in run("stats", path).stdout


def test_boxes_of_photos_that_exif_turns_fit_as_it_turns_them(tmp_path: Path) -> None:
    path = tmp_path / "a.leat"
    for photos in ("original", "fast"):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with leat.Writer(path, {"image": "image", "boxes": leat.boxes()}, True, photos, overwrite=True) as w:
                for width, height in SIZES:
                    w.add(image=photo(height, width, 6), boxes=boxes_in(width, height).astype(F))
        assert w.boxes["boxes"]["cut"] == w.boxes["boxes"]["outside"] == 0
        stats = json.loads(run("stats", path, "--json").stdout)["boxes"][0]
        assert stats["cut"] == stats["outside"] == 0
    said = pytest.warns(UserWarning, match="are the image's width and height exchanged")
    with said, leat.Writer(path, {"image": "image", "boxes": leat.boxes()}, overwrite=True) as w:
        for width, height in SIZES:
            w.add(image=photo(height, width), boxes=boxes_in(width, height).astype(F))


def test_boxes_beside_arrays_of_pixels_are_counted(tmp_path: Path) -> None:
    fields = {"image": leat.field("uint8", (20, 40, 3), layout="HWC"), "boxes": leat.boxes("xyxy")}
    said = pytest.warns(UserWarning, match="6 of 7 boxes do not fit their image")
    with said, leat.Writer(tmp_path / "a.leat", fields) as w:
        boxes = [[0, 0, 40, 20], [0, 0, 20, 40], [50, 0, 60, 9], [3, 3, 3, 9], [9, 3, 4, 9], [np.nan, 0, 1, 1]]
        w.add(image=np.zeros((20, 40, 3), np.uint8), boxes=np.array([*boxes, [0, 0, 42, 9]], F))
    assert w.boxes["boxes"] == {"count": 7, "cut": 2, "outside": 1, "empty": 2, "not_finite": 1, "tiny": 0}
    with leat.Writer(tmp_path / "b.leat", {"boxes": leat.boxes("xyxy")}) as w:
        w.add(boxes=np.zeros((9, 4), F))
    assert w.boxes == {}


# ---- fields that go together ----

LISTS = {"label": leat.field("int64", (None,)), "masks": leat.masks(), "tags": leat.field("int64", (None,))}
SQUARE = [[1.0, 1, 9, 1, 9, 9]]


def test_a_sample_with_another_number_of_labels_or_masks_than_boxes_is_refused(tmp_path: Path) -> None:
    fields = {"image": "image", "boxes": leat.boxes(), **LISTS, "points": leat.keypoints(1)}
    good: dict[str, Any] = {"image": photo(40, 30), "boxes": [[0, 0, 9, 9]], "label": [3], "masks": [SQUARE]}
    good |= {"tags": [1, 2, 3], "points": np.zeros((2, 1, 3), F)}
    with leat.Writer(tmp_path / "a.leat", fields) as w:
        w.add(**good)
        with pytest.raises(ValueError, match="sample 1: field 'label' has 3 rows and 'boxes' 1: one per box"):
            w.add(**good | {"label": [1, 2, 3]})
        for masks in ([SQUARE, None], leat.encode_masks([SQUARE, None])):
            with pytest.raises(ValueError, match="sample 1: field 'masks' has 2 rows and 'boxes' 1: one per box"):
                w.add(**good | {"masks": masks})
        with pytest.raises(ValueError, match="sample 2: field 'label' has 0 rows"):
            w.write_batch({k: [v, [] if k == "label" else v] for k, v in good.items()})
        assert len(w) == 1
        assert w.add(**good) == 1


def test_lists_that_need_not_go_with_boxes_are_taken(tmp_path: Path) -> None:
    boxes = {"boxes": leat.boxes(), "proposals": leat.boxes()}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with leat.Writer(tmp_path / "a.leat", {**boxes, "label": leat.field("int64", (None,))}) as w:
            w.add(boxes=np.zeros((2, 4), F), proposals=np.zeros((5, 4), F), label=[1, 2])
        with leat.Writer(tmp_path / "b.leat", {"boxes": leat.boxes(), "tags": LISTS["tags"], "label": "int64"}) as w:
            for i in range(40):
                w.add(boxes=np.zeros((2, 4), F), tags=range(i % 5), label=7)


def test_a_list_that_goes_with_boxes_but_in_few_samples_is_named(tmp_path: Path) -> None:
    fields = {"boxes": leat.boxes(), "depth": leat.field("float32", (None,)), "points": leat.keypoints(2)}
    with pytest.warns(UserWarning) as caught, leat.Writer(tmp_path / "a.leat", fields) as w:
        for i in range(40):
            odd = i in (7, 9)
            w.add(boxes=np.zeros((i % 4, 4), F), depth=np.zeros(i % 4 + odd, F), points=np.zeros((i % 4, 2, 3), F))
    texts = [str(w.message) for w in caught]
    assert (
        len(texts) == 1 and "field 'depth' has one row per box in 38 of 40 samples, and another number in 2" in texts[0]
    )
    assert "sample 7, 9" in texts[0]


# ---- messages that name the remedy ----


def test_a_target_that_exists_names_the_argument_that_replaces_it(tmp_path: Path) -> None:
    for _ in range(2):
        with leat.Writer(tmp_path / "a.leat", {"n": "int64"}, overwrite=True) as w:
            w.add(n=1)
    with pytest.raises(FileExistsError, match="choose another name, or give overwrite=True"):
        leat.Writer(tmp_path / "a.leat", {"n": "int64"})
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos/a.jpg").write_bytes(photo(8, 8))
    said = run("pack", tmp_path / "photos", tmp_path / "a.leat", code=2).stderr
    assert "--overwrite" in said and "overwrite=True" not in said


def test_an_array_without_a_layout_beside_boxes_is_told_how_to_be_an_image(tmp_path: Path) -> None:
    fields = {"image": leat.field("uint8", (8, 8, 3)), "boxes": leat.boxes()}
    with leat.Writer(tmp_path / "a.leat", fields) as w:
        w.add(image=np.zeros((8, 8, 3), np.uint8), boxes=[[0, 0, 4, 4]])
    chain = [ops.SanitizeBoundingBoxes()]
    with pytest.raises(leat.ProgramError, match=r'has a layout: leat.field\("uint8", \(32, 32, 3\), layout="HWC"\)'):
        leat.Loader(leat.open(tmp_path / "a.leat"), 1, outputs={("image", "boxes"): chain})


def test_what_is_said_of_wrong_boxes_ends_in_whole_sentences(tmp_path: Path) -> None:
    """However long the names of the photos are."""
    name = "n" * 90
    images = [{"id": i, "file_name": f"{name}{i}.jpg", "width": 64, "height": 48} for i in range(8)]
    annotations = [{"id": i, "image_id": i, "category_id": 1, "bbox": [80, 60, 5, 5]} for i in range(7)]
    annotations.append({"id": 7, "image_id": 7, "category_id": 1, "bbox": [8, 6, 5, 5]})
    for image in images:
        (tmp_path / image["file_name"]).write_bytes(photo(64, 48))
    path = tmp_path / "a.json"
    path.write_text(json.dumps({"images": images, "annotations": annotations, "categories": [{"id": 1, "name": "a"}]}))
    with pytest.warns(UserWarning, match="7 annotations with a box that cannot be") as caught:
        leat.open(tmp_path, annotations=path)
    line = next(part for w in caught for part in str(w.message).split("\n") if part.startswith("left out"))
    shown = line.split(": ", 2)[2].split("; ")
    assert shown[-1] == "..." and len(shown) >= 3, line
    assert all(one.endswith(f"which lies outside of its image ({name}{i}.jpg)") for i, one in enumerate(shown[:-1]))


def test_the_first_wrong_boxes_are_a_sentence_of_their_own_where_no_format_is_named(tmp_path: Path) -> None:
    Image.new("RGB", (40, 30)).save(tmp_path / "a.jpg")
    lines = "<object><name>a</name><bndbox>{}</bndbox></object>".format
    ends = "<xmin>-9</xmin><ymin>-9</ymin><xmax>90</xmax><ymax>90</ymax>"
    size = "<size><width>40</width><height>30</height></size>"
    (tmp_path / "voc").mkdir()
    (tmp_path / "voc/a.xml").write_text(f"<annotation>{size}{lines(ends) * 6}</annotation>")
    with pytest.warns(UserWarning, match=r"\(6 reach out of it\)\. The first: "):
        leat.open(tmp_path, annotations=tmp_path / "voc")


def test_one_wrong_annotation_beside_photos_without_any_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "yolo").mkdir()
    for i in range(4):
        Image.new("RGB", (40, 30)).save(tmp_path / f"{i}.jpg")
        (tmp_path / f"yolo/{i}.txt").write_text("" if i else "0 .5 .5 .1\n")
    with pytest.warns(UserWarning, match="left out: 1 lines that are no object"):
        ds = leat.open(tmp_path, annotations=tmp_path / "yolo")
    assert [len(ds[i]["boxes"]) for i in range(4)] == [0] * 4
