"""Values of annotations that are there and are none of their kind: each is a fault that is counted and named, never
taken for one that is missing. And instances without a mask beside others that have one."""

from __future__ import annotations

import json
import math
import random
import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from coco_made import Json, annotation, four_photos, panoptic, small, write
from drawn_support import SEEDS

import leat

NAN, INF = float("nan"), float("inf")


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    return four_photos(tmp_path)


def opened(photos: Path, path: Path, **options: Any) -> tuple[leat.Dataset, list[str]]:
    """The data set, and what was said about it, line by line."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        ds = leat.open(photos, annotations=path, **options)
    said = [w for w in caught if not issubclass(w.category, ResourceWarning)]
    return ds, [line for w in said for line in str(w.message).split("\n")]


def one_of(photos: Path, **values: Any) -> Path:
    """A file with one instance more, which has these values."""
    coco = small()
    one = annotation(4, 7, [1, 2, 5, 5])
    coco["annotations"].append({k: v for k, v in {**one, **values}.items() if v is not ...})
    return write(photos, coco)


# Of each key what is none of its kind, and what is said of it.
NO_NUMBERS: list[Any] = ["33", "", None, True, [33], {"a": 33}]
WRONG: dict[str, list[tuple[Any, str]]] = {
    "area": [
        *((v, "has an area that is no number") for v in NO_NUMBERS),
        *((v, "has an area that is not finite") for v in (NAN, INF, -INF, 1e300)),
        *((v, "has an area below 0") for v in (-3.0, -1e-3)),
    ],
    "iscrowd": [(v, "has an iscrowd that is neither 0 nor 1") for v in ("1", "", None, [1], {}, 2, -1, 0.5, NAN, INF)],
    "segmentation": [
        *((v, "neither a list of polygons nor runs") for v in ("m", None, 5, True)),
        *((v, "a polygon with something else than numbers") for v in ([["1", 2, 3, 4, 5, 6]], [[1, 2, 3, 4, None, 6]])),
        *(
            ({"size": size, "counts": counts}, r"runs \(RLE\)")
            for size, counts in (("30", [0, 1200]), ([30, "40"], [0, 1200]), ([30, 40], 1200), ([30, 40], ["0", 1200]))
        ),
    ],
    "keypoints": [
        *((v, "has keypoints that are no list") for v in ("1", None, 5, {}, False)),
        *((v, "a keypoint with something else than numbers") for v in ([1, "2", 2], [[1, 2, 2]], [1, None, 2])),
        *((v, "a keypoint that is not finite") for v in ([1, NAN, 2], [1e300, 1, 2])),
    ],
}
GOOD: dict[str, list[Any]] = {
    "area": [0, 33, 12.5, 7e-3, ...],
    "iscrowd": [0, 1, 0.0, 1.0, True, False, ...],
    "segmentation": [[[1, 2, 6, 2, 6, 7]], {"size": [30, 40], "counts": [600, 10, 590]}, [], ...],
    "keypoints": [[1, 2, 2], [0, 0, 0], [], ...],
}
BOXES: list[tuple[Any, str]] = [
    (..., "has no bbox"),
    (None, "has a bbox that is null"),
    *((v, "has a bbox that is no list of four numbers") for v in ("1 2 5 5", 5, True, {"x": 1})),
    *((v, "a bbox with something else than numbers") for v in (["1", "2", "5", "5"], [1, 2, None, 5], [[1, 2, 5, 5]])),
    *((v, "a bbox of another number of values than four") for v in ([], [1, 2, 5], [1, 2, 5, 5, 1])),
]


@pytest.mark.parametrize("key", WRONG)
def test_a_value_of_another_type_is_named_marked_or_raised(photos: Path, key: str) -> None:
    for value, why in WRONG[key]:
        path = one_of(photos, **{key: value})
        ds, said = opened(photos, path)
        words = [line for line in said if "left out" in line]
        assert len(words) == 1 and re.search(rf"left out: 1 .*annotations\[3\] \(line 1, byte \d+\).*{why}", words[0])
        assert ds.about["skipped"] == 1 and len(ds[0]["boxes"]) == 2  # the instance stays
        with pytest.raises(leat.CorruptError, match=rf"annotations\[3\].*{why}"):
            leat.open(photos, annotations=path, on_bad="raise")
        marked, _ = opened(photos, path, on_bad="mark")
        loader = leat.Loader(
            marked, 3, outputs={"image": [leat.ops.Decode(), leat.ops.Resize((8, 8))]}, on_error="skip"
        )
        assert [list(b.ids) for b in loader] == [[1, 2]]


@pytest.mark.parametrize("said", [{}, {"width": 40}, {"height": 30}])
def test_runs_of_another_size_than_a_photo_whose_size_is_not_said_are_a_fault(photos: Path, said: Json) -> None:
    for height, width in ((30, 40), (40, 30), (1, 1)):
        path = one_of(photos, segmentation={"size": [height, width], "counts": [height * width]})
        coco = json.loads(path.read_text())
        coco["images"] = [{k: i[k] for k in ("id", "file_name")} | said for i in coco["images"]]
        if (height, width) == (30, 40):
            opened(photos, write(photos, coco), on_bad="raise")
            continue
        with pytest.raises(leat.CorruptError, match=rf"another size than its image: {width} x {height}, not 40 x 30"):
            leat.open(photos, annotations=write(photos, coco), on_bad="raise")


@pytest.mark.parametrize("bbox, why", BOXES)
def test_a_box_that_is_none_is_called_what_it_is(photos: Path, bbox: Any, why: str) -> None:
    path = one_of(photos, bbox=bbox)
    ds, said = opened(photos, path)
    (line,) = said
    assert re.search(rf"annotations\[3\] \(line 1, byte \d+\) .*{why} \(a\.png\)", line) and "nan" not in line
    assert ds.about["skipped"] == 1 and len(ds[0]["boxes"]) == 1 and ds.about["boxes"]["not_finite"] == 0
    with pytest.raises(leat.CorruptError, match=why) as raised:
        leat.open(photos, annotations=path, on_bad="raise")
    assert "nan" not in str(raised.value)


def test_values_that_are_good_in_any_way_they_are_written_say_nothing(photos: Path) -> None:
    for key, values in GOOD.items():
        for value in values:
            ds, said = opened(photos, one_of(photos, **{key: value}), on_bad="raise")
            assert [line for line in said if "have no mask" not in line] == []
            if key == "area":
                assert ds[0]["area"][1] == np.float32(25 if value is ... else value)
            if key == "iscrowd":
                assert ds[0]["iscrowd"].tolist() == [0, value not in (0, ...)]


@pytest.mark.parametrize("seed", SEEDS)
def test_drawn_values_are_those_of_the_file_or_are_counted(photos: Path, seed: int) -> None:
    """600 instances, whose values are each drawn among good and wrong ones."""
    random.seed(seed)
    coco = small()
    coco["categories"][0]["keypoints"] = coco["categories"][1]["keypoints"] = ["nose"]
    coco["annotations"] = []
    expected, counts, masks = [], dict.fromkeys([*WRONG, "bbox"], 0), 0
    for _ in range(600):
        drawn = {k: random.choice([*GOOD[k] * 3, *(v for v, _ in WRONG[k])]) for k in WRONG}
        box = random.choice([[1, 2, 5, 5]] * 40 + [v for v, _ in BOXES])
        one = {**annotation(4, 7, box), **drawn}
        coco["annotations"].append({k: v for k, v in one.items() if v is not ...})
        if box != [1, 2, 5, 5]:
            counts["bbox"] += 1
            continue
        wrong = {k for k in drawn if any(drawn[k] is v for v, _ in WRONG[k])}
        for key in wrong:
            counts[key] += 1
        area = 25 if "area" in wrong or drawn["area"] is ... else drawn["area"]
        crowd = 0 if "iscrowd" in wrong or drawn["iscrowd"] is ... else int(drawn["iscrowd"])
        points = [0, 0, 0] if "keypoints" in wrong or drawn["keypoints"] in ([], ...) else drawn["keypoints"]
        has_mask = "segmentation" not in wrong and drawn["segmentation"] not in ([], ...)
        masks += not has_mask and "segmentation" not in wrong
        expected.append((area, crowd, points, has_mask))
    ds, said = opened(photos, write(photos, coco))
    sample = ds[0]
    assert sample["area"].tolist() == [np.float32(e[0]) for e in expected]
    assert sample["iscrowd"].tolist() == [e[1] for e in expected]
    assert sample["keypoints"].tolist() == [[e[2]] for e in expected]
    drawn_masks = leat.draw_masks(sample["masks"], 30, 40).any((1, 2))
    assert drawn_masks.tolist() == [e[3] for e in expected]
    assert ds.about["skipped"] == sum(counts.values())
    for key, word in {"bbox": "a box", "segmentation": "masks", "area": "areas"}.items():
        assert any(f"left out: {counts[key]} " in line and f"{word} that cannot be" in line for line in said)
    assert any(f"left out: {counts['iscrowd']} values of iscrowd" in line for line in said)
    assert any(line.startswith(f"{masks} instances have no mask") for line in said)


ENTRIES: dict[Callable[[Json], Any], str] = {
    lambda c: c["categories"][0].update(keypoints="nose"): r"categories\[0\].*keypoints that are no list of names",
    lambda c: c["categories"][1].update(keypoints=None): r"categories\[1\].*keypoints that are no list of names",
    lambda c: c["categories"][1].update(keypoints=["a", 5]): r"categories\[1\].*a keypoint whose name is no text",
    lambda c: c["categories"].append({"id": 8, "name": 5}): r"categories\[2\].*has no name that is a text",
    lambda c: c["images"].append({"id": 5, "file_name": 5}): r"images\[3\].*has no file_name that is a text",
    lambda c: c["images"].append({"id": 5, "file_name": "a.png", "width": "40"}): r"images\[3\].*that is no number",
    lambda c: c["images"].append(
        {"id": 5, "file_name": "a.png", "width": INF, "height": INF}
    ): r"images\[3\].*no number",
    lambda c: c["images"].append({"id": 5, "file_name": "a.png", "width": 1e300}): r"images\[3\].*width 1e\+300",
    lambda c: c["images"].append({"id": 5, "file_name": "a.png", "height": 1 << 31}): r"images\[3\].*below 2\^31",
    lambda c: c["images"].append({"id": 5, "file_name": "a.png", "width": 40.5}): r"images\[3\].*width 40\.5 .*whole",
    lambda c: c["images"].append({"id": 5, "file_name": "a.png", "height": [3]}): r"images\[3\].*that is no number",
    lambda c: c["categories"].append({"id": 8, "name": " "}): r"categories\[2\].*has a name that is blank",
    lambda c: c["images"].append({"id": 5, "file_name": ""}): r"images\[3\].*has a file_name that is empty",
    **{
        lambda c, key=key, value=value: c[key].append(
            value
        ): rf"{key}\[\d\] \(line 1, byte \d+\) is {kind}, and no object"
        for key in ("images", "annotations", "categories")
        for value, kind in ((5, "a number"), (None, "null"), ("{", "a text"), ([{}], "a list"), (True, "true"))
    },
    lambda c: c["annotations"].append(
        {"segments_info": [5], "image_id": 9}
    ): r"a segment of annotations\[3\] .* is a number, and no object",
    lambda c: c["annotations"].append({"image_id": 9, "segments_info": {}}): r"annotations\[3\].*no list",
    lambda c: c["annotations"].append({"image_id": 9, "segments_info": None}): r"annotations\[3\].*no list",
    lambda c: c["annotations"].append({"image_id": True, "category_id": 7}): r"annotations\[3\].*no image_id that is",
    lambda c: c["annotations"].append({"image_id": 4, "category_id": [7]}): r"annotations\[3\].*no category_id that is",
}


@pytest.mark.parametrize("fault", ENTRIES, ids=range(len(ENTRIES)))
def test_values_of_entries_of_another_type_are_named(photos: Path, fault: Any) -> None:
    coco = small()
    fault(coco)
    path = write(photos, coco)
    ds, said = opened(photos, path)
    assert len(said) == 1 and re.search("left out: 1 .*" + ENTRIES[fault], said[0]) and ds.about["skipped"] == 1
    assert len(ds) == 3 and sum(len(s["boxes"]) for s in ds) == 3
    with pytest.raises(leat.CorruptError, match=ENTRIES[fault]):
        leat.open(photos, annotations=path, on_bad="raise")


@pytest.mark.parametrize(
    "entry",
    [
        {"image_id": 9},
        {"image_id": 9, "category_id": "7"},
        {"segments_info": {}, "image_id": 9},
        {"segments_info": [{"id": 1, "category_id": "7"}], "image_id": 9},
        {"segments_info": [None], "image_id": 9},
    ],
)
def test_the_image_of_an_annotation_that_is_left_out_is_marked(photos: Path, entry: Json) -> None:
    coco = small()
    coco["annotations"].insert(0, entry)
    ds, _ = opened(photos, write(photos, coco), on_bad="mark")
    loader = leat.Loader(ds, 3, outputs={"image": [leat.ops.Decode(), leat.ops.Resize((8, 8))]}, on_error="skip")
    assert [list(b.ids) for b in loader] == [[0, 2]]


@pytest.mark.parametrize("name", [5, None, ["deep/c.png"]])
def test_a_png_of_segments_whose_name_is_no_text_is_counted(photos: Path, name: Any) -> None:
    path = panoptic(photos, np.full((30, 40), 3), [3])
    coco = json.loads(path.read_text())
    coco["annotations"].append({**coco["annotations"][0], "file_name": name})
    ds, said = opened(photos, write(photos, coco))
    (line,) = said
    assert re.search(r"left out: 1 PNGs .* the file_name of annotations\[1\] .* is no text", line)
    assert leat.draw_masks(ds[1]["masks"], 30, 40).any((1, 2)).tolist() == [True, False]


# ---- Pascal VOC ----


def voc(photos: Path, *objects: Json) -> Path:
    folder = photos.parent / "Annotations"
    folder.mkdir(exist_ok=True)
    corners = {"xmin": 1, "ymin": 2, "xmax": 5, "ymax": 6}
    text = "<annotation><size><width>40</width><height>30</height></size>\n"
    for one in objects:
        sides = "".join(f"<{k}>{one.get(k, v)}</{k}>" for k, v in corners.items())
        flags = "".join(
            f"<{k}>{one[k]}</{k}>" for k in ("difficult", "truncated", "occluded") if one.get(k) is not None
        )
        text += (
            f"<object><name>dog</name><pose>{one.get('pose', 'Left')}</pose>{flags}<bndbox>{sides}</bndbox></object>\n"
        )
    (folder / "a.xml").write_text(text + "</annotation>")
    return folder


FLAGS: dict[Any, int] = {None: 0, 0: 0, 1: 1, "1.0": 1, " 1\n": 1, "true": 1, "True": 1, "FALSE": 0, "+1": 1}
NO_FLAGS = ["2", "-1", "", "yes", "Unspecified", "0.5", "1 0", "nan", "1,0", "é" * 40, "x" * 300]


@pytest.mark.parametrize("key", ["difficult", "truncated"])
def test_a_flag_of_voc_is_0_or_1_or_is_named(photos: Path, key: str) -> None:
    for value in NO_FLAGS:
        folder = voc(photos, {key: 1}, {key: value})
        ds, said = opened(photos, folder)
        (line,) = said
        assert re.search(rf"left out: 1 values of objects .*a\.xml line 3: of the object, {key} ", line)
        assert "é" not in value or "..." in line
        assert ds[0][key].tolist() == [1, 0] and ds.about["skipped"] == 1
        with pytest.raises(leat.CorruptError, match=rf"a\.xml line 3: of the object, {key}"):
            leat.open(photos, annotations=folder, on_bad="raise")


@pytest.mark.parametrize("seed", SEEDS)
def test_drawn_flags_of_voc_are_those_of_the_file_or_are_counted(photos: Path, seed: int) -> None:
    """500 objects."""
    random.seed(seed)
    keys = ("difficult", "truncated")
    objects = [
        {k: random.choice([*FLAGS, *NO_FLAGS[:8]]) for k in keys} | {"occluded": "?", "pose": 7} for _ in range(500)
    ]
    wrong = sum(o[k] not in FLAGS for o in objects for k in keys)
    ds, said = opened(photos, voc(photos, *objects))
    assert len(said) == 1 and f"left out: {wrong} values" in said[0] and ds.about["skipped"] == wrong
    for key in keys:
        assert ds[0][key].tolist() == [FLAGS.get(o[key], 0) for o in objects]


SIDES = {
    "2,5": 'xmax is "2,5"',
    "5px": 'xmax is "5px"',
    "": "xmax is empty",
    "x" * 300: "xmax has 256 bytes or more",
    "é" * 40: 'xmax is "' + "é" * 16 + '..."',
}


@pytest.mark.parametrize("text", SIDES)
def test_a_side_of_voc_that_is_no_number_is_quoted(photos: Path, text: str) -> None:
    folder = voc(photos, {}, {"xmax": text})
    with pytest.raises(leat.CorruptError) as raised:
        leat.open(photos, annotations=folder, on_bad="raise")
    assert f"a.xml line 3: the object has a box with something else than numbers: {SIDES[text]}" in str(raised.value)
    ds, said = opened(photos, folder)
    assert ds.about["skipped"] == 1 and ds.about["boxes"]["not_finite"] == 0 and len(ds[0]["boxes"]) == 1
    assert len(said) == 1 and "not finite" not in said[0]


def test_a_side_of_voc_that_stands_twice_is_none(photos: Path) -> None:
    folder = voc(photos, {})
    text = (folder / "a.xml").read_text()
    for twice in ("<xmin>3</xmin>", "<xmin>1</xmin>"):
        (folder / "a.xml").write_text(text.replace("<ymax>", f"{twice}<ymax>"))
        with pytest.raises(leat.CorruptError, match="xmin stands twice"):
            leat.open(photos, annotations=folder, on_bad="raise")


@pytest.mark.parametrize("side", ["width", "height"])
def test_the_other_side_of_one_that_voc_says_is_the_photos(photos: Path, side: str) -> None:
    folder = voc(photos, {"xmax": 100, "ymax": 100})
    whole, _ = opened(photos, folder)
    text = (folder / "a.xml").read_text()
    (folder / "a.xml").write_text(re.sub(f"<{side}>.*?</{side}>", "", text))
    one, said = opened(photos, folder)
    assert one[0]["boxes"].tolist() == whole[0]["boxes"].tolist() and "skipped" not in one.about
    assert not any("size" in line for line in said)


def test_a_list_beside_a_box_and_a_size_of_three_numbers_cost_no_other_object(photos: Path) -> None:
    for values in ({"segments_info": []}, {"segmentation": {"size": [30, 40, 1], "counts": [1200]}}):
        found, whole = (
            [len(ds[i]["boxes"]) for i in range(len(ds))]
            for ds, _ in (opened(photos, one_of(photos, **values)), opened(photos, one_of(photos)))
        )
        assert found == whole


def test_sides_of_voc_that_are_numbers_but_not_finite_are_called_so(photos: Path) -> None:
    for text in ("nan", "-Inf", "INFINITY", "1e999"):
        with pytest.raises(leat.CorruptError, match="has a box that is not finite"):
            leat.open(photos, annotations=voc(photos, {"xmax": text}), on_bad="raise")


def test_a_size_of_voc_that_is_no_number_is_named_with_its_line(photos: Path) -> None:
    folder = voc(photos, {})
    for old, new in (("<width>40", "\n<width>40,0"), ("<height>30", "<height>")):
        text = (folder / "a.xml").read_text().replace(old, new)
        (folder / "a.xml").write_text(text)
        with pytest.raises(leat.CorruptError, match=r"a\.xml line 2: it has a size with something else than numbers"):
            leat.open(photos, annotations=folder, on_bad="raise")


def test_a_size_of_voc_with_a_fraction_is_a_fault(photos: Path) -> None:
    folder = voc(photos, {})
    text = (folder / "a.xml").read_text()
    for size, good in (("40.0", True), ("40.9", False)):
        (folder / "a.xml").write_text(text.replace("<width>40", f"<width>{size}"))
        if good:
            leat.open(photos, annotations=folder, on_bad="raise")
            continue
        with pytest.raises(leat.CorruptError, match=r"a\.xml line 1: it has a size that cannot be: .* whole numbers"):
            leat.open(photos, annotations=folder, on_bad="raise")


# ---- masks that some have ----


def test_instances_without_a_mask_beside_others_are_counted(photos: Path) -> None:
    coco = small()
    assert opened(photos, write(photos, coco))[1] == []  # none has one
    for i, count in ((0, 2), (1, 1), (2, 0)):
        coco["annotations"][i]["segmentation"] = [[1, 2, 6, 2, 6, 7]]
        ds, said = opened(photos, write(photos, coco), on_bad="raise")
        assert sum(not m.any() for s in ds for m in leat.draw_masks(s["masks"], 30, 40)) == count == 2 - i
        if count:
            (line,) = said
            assert line.startswith(f"{count} instances have no mask, beside others that have one, and get an empty one")
            assert re.search(rf"annotations\[{i + 1}\] \(line 1, byte \d+\), of [ac].png", line)
    assert said == []
    coco["annotations"][0]["segmentation"] = "wrong"  # counted as a fault, and not again
    (line,) = opened(photos, write(photos, coco))[1]
    assert "masks that cannot be" in line


def test_segments_without_a_png_beside_others_are_counted(photos: Path) -> None:
    path = panoptic(photos, np.full((30, 40), 3), [3])
    coco = json.loads(path.read_text())
    coco["annotations"].append({k: v for k, v in coco["annotations"][0].items() if k != "file_name"})
    _, said = opened(photos, write(photos, coco), on_bad="raise")
    assert len(said) == 1 and said[0].startswith("1 instances have no mask")


def yolo(photos: Path, **files: str) -> Path:
    folder = photos.parent / "labels"
    folder.mkdir(exist_ok=True)
    (folder / "classes.txt").write_text("x\ny\n")
    for name, text in files.items():
        (folder / f"{name}.txt").write_text(text)
    return folder


BOX, POLYGON = "0 .5 .5 .2 .2\n", "1 .1 .1 .5 .1 .5 .5\n"


def test_boxes_beside_polygons_of_yolo_are_counted_with_their_lines(photos: Path) -> None:
    assert opened(photos, yolo(photos, a=BOX * 3))[1] == []
    assert opened(photos, yolo(photos, a=POLYGON * 3))[1] == []
    folder = yolo(photos, a=POLYGON + BOX + POLYGON + BOX, c=BOX * 3)
    ds, said = opened(photos, folder, on_bad="raise")
    (line,) = said
    assert line.startswith("5 instances have no mask, beside others that have one, and get an empty one: ")
    assert line.endswith(f"{folder}/a.txt line 2; {folder}/a.txt line 4; {folder}/c.txt line 1; ...")
    masks = [m.any() for s in ds for m in leat.draw_masks(s["masks"], 30, 40)]
    assert masks == [True, False, True, False, False, False, False]


@pytest.mark.parametrize("seed", SEEDS)
def test_the_number_of_instances_without_a_mask_is_that_of_empty_masks(photos: Path, seed: int) -> None:
    """40 files of YOLO and of COCO with up to 12 instances."""
    random.seed(seed)
    for _ in range(20):
        lines = [random.choice([BOX, POLYGON]) for _ in range(random.randrange(1, 13))]
        coco = small()
        for line in lines:
            more = {"segmentation": [[4, 3, 20, 3, 20, 15]]} if line == POLYGON else {}
            coco["annotations"].append(annotation(4, 7, [1, 2, 5, 5], **more))
        coco["annotations"] = coco["annotations"][3:]
        for path in (yolo(photos, a="".join(lines)), write(photos, coco)):
            ds, said = opened(photos, path, on_bad="raise")
            if "masks" not in ds.schema:
                assert said == [] and POLYGON not in lines
                continue
            empty = int(sum(not m.any() for m in leat.draw_masks(ds[0]["masks"], 30, 40)))
            assert empty == lines.count(BOX) and said == said[:1]
            assert (not empty and not said) or said[0].startswith(f"{empty} instances have no mask")


def test_nan_of_python_is_no_area_that_is_missing(photos: Path) -> None:
    """pandas writes NaN for what is missing."""
    ds, said = opened(photos, one_of(photos, area=math.nan))
    assert "has an area that is not finite" in said[0] and ds[0]["area"].tolist() == [12.5, 25]
