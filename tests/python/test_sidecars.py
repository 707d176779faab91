"""YOLO's text files and Pascal VOC's XML files beside a folder of photos: what is in them, and what is wrong."""

from __future__ import annotations

import os
import pickle
import pty
import re
import signal
import subprocess
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli_support import Started, command
from cli_support import leat as run
from PIL import Image

import leat
from leat import ops

DATA = Path(os.environ.get("LEAT_DATA", "/nonexistent"))


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    folder = tmp_path / "images"
    (folder / "sub").mkdir(parents=True)
    for name in ("a.png", "b.png", "sub/c.png"):
        Image.fromarray(np.zeros((30, 40, 3), np.uint8)).save(folder / name)
    return folder


def write(photos: Path, kind: str, **files: str) -> Path:
    folder = photos.parent / kind
    (folder / "sub").mkdir(parents=True, exist_ok=True)
    extension = ".txt" if kind == "labels" else ".xml"
    for name, text in files.items():
        (folder / (name.replace("__", "/") + extension)).write_text(text)
    return folder


def voc(*objects: tuple[str, Any, Any, Any, Any], size: tuple[int, int] = (40, 30)) -> str:
    inner = "".join(
        f"<object>\n<name> {name} </name><difficult>1</difficult><bndbox><ymin>{y0}</ymin><xmin>{x0}</xmin>"
        f"<xmax>{x1}</xmax><ymax>{y1}</ymax></bndbox><part><name>head</name><bndbox><xmin>99</xmin></bndbox></part>"
        "</object>"
        for name, x0, y0, x1, y1 in objects
    )
    return f"<annotation><size><width>{size[0]}</width><height>{size[1]}</height></size>{inner}</annotation>"


def opened(photos: Path, annotations: Path, **options: Any) -> leat.Dataset:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return leat.open(photos, annotations=annotations, **options)


def equal(a: Any, b: Any) -> bool:
    return bool(np.array_equal(a, b)) if isinstance(a, np.ndarray) else bool(a == b)


def packed(option: str, annotations: Path, photos: Path) -> leat.Dataset:
    made = photos.parent / "made.leat"
    run("pack", option, annotations, photos, made)
    return leat.open(made)


# ---- YOLO ----


def test_yolo_boxes_are_those_of_the_file(photos: Path) -> None:
    labels = write(photos, "labels", a="1 0.5 0.5 0.25 0.5\r\n\n0 0.95 0.5 0.2 0.1\n", sub__c="1 .5 .5 1 1")
    (labels / "classes.txt").write_text("cat\ndog\n")
    ds = opened(photos, labels)
    assert ds.classes == ["cat", "dog"] and ds.schema["boxes"] == leat.boxes("cxcywh", normalized=True)
    assert [s["label"].tolist() for s in ds] == [[1, 0], [], [1]]
    assert ds[0]["boxes"][0].tolist() == [0.5, 0.5, 0.25, 0.5]
    assert np.allclose(ds[0]["boxes"][1], [0.925, 0.5, 0.15, 0.1])  # cut off at the right edge
    again = packed("--yolo", labels, photos)
    assert again.fingerprint == ds.fingerprint and again.classes == ds.classes
    assert all(equal(again[i][k], v) for i in range(3) for k, v in ds[i].items())


def test_yolo_polygons_are_masks(photos: Path) -> None:
    labels = write(photos, "labels", a="0 0.25 0.2 0.75 0.2 0.75 0.8 0.25 0.8\n3 0.5 0.5 0.1 0.1\n")
    ds = opened(photos, labels)
    assert ds.classes == [] and ds.schema["masks"] == leat.masks()
    assert np.allclose(ds[0]["boxes"][0], [0.5, 0.5, 0.5, 0.6])
    want = np.zeros((2, 30, 40), np.uint8)
    want[0, 6:24, 10:30] = 1
    assert np.array_equal(leat.draw_masks(ds[0]["masks"], 30, 40), want)
    chain = [ops.Decode(), ops.Resize((60, 80))]
    batch = next(iter(leat.Loader(ds, 3, outputs={("image", "boxes", "masks"): chain}, framework="numpy")))
    assert np.array_equal(batch["masks"].unbind()[0], want.repeat(2, 1).repeat(2, 2))


@pytest.mark.parametrize("text", ["names: [cat, 'big dog']\nnc: 2", "path: .\nnames:\n  0: cat\n  1: big dog\n"])
def test_yolo_names_come_from_yaml_above(photos: Path, text: str) -> None:
    labels = write(photos, "labels", a="1 0.5 0.5 0.25 0.5")
    (photos.parent / "data.yaml").write_text(text)
    assert opened(photos, labels).classes == ["cat", "big dog"]


def test_a_class_beyond_the_names_is_no_object(photos: Path) -> None:
    labels = write(photos, "labels", a="1 .5 .5 .25 .5\n", b="0 .5 .5 .25 .5\n2 .5 .5 .25 .5\n")
    (labels / "classes.txt").write_text("cat\ndog\n")
    assert [s["label"].tolist() for s in opened(photos, labels)] == [[1], [0], []]
    with pytest.raises(leat.CorruptError, match=r"b\.txt line 2 has a class that has no name"):
        leat.open(photos, annotations=labels, on_bad="raise")


STRANGERS = {
    "names:\n  0: cat\n  2: dog\n": "data.yaml has no names of classes",
    "names: {a: b}": "data.yaml has no names of classes",
    "a: {{ x }}: y": "",
    "services: [x]\nnames: [no, classes]": "",
}


@pytest.mark.parametrize("text", STRANGERS)
def test_yaml_above_that_describes_no_data_set_is_passed_over(photos: Path, text: str) -> None:
    labels = write(photos, "labels", a="7 0.5 0.5 0.25 0.5")
    (photos.parent / "data.yaml").write_text(text)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        ds = leat.open(photos, annotations=labels, on_bad="raise")
    assert ds.classes == [] and ds[0]["label"].tolist() == [7]
    assert [STRANGERS[text] in str(w.message) for w in caught] == ([True] if STRANGERS[text] else [])


def test_labels_of_poses_are_refused(photos: Path) -> None:
    labels = write(photos, "labels", a="0 .5 .5 .2 .2 .1 .1 .3 .3")
    (photos.parent / "data.yaml").write_text("names: [person]\nkpt_shape: [2, 2]\n")
    with pytest.raises(leat.UnsupportedError, match=r"data.yaml says kpt_shape"):
        opened(photos, labels)


def test_classes_that_are_given_are_those(photos: Path) -> None:
    labels = write(photos, "labels", a="1 0.5 0.5 0.25 0.5\n2 0.5 0.5 0.25 0.5")
    (labels / "classes.txt").write_text("cat\ndog\n")
    ds = opened(photos, labels, classes=["c", "a", "b"])
    assert ds.classes == ["c", "a", "b"] and ds[0]["label"].tolist() == [1, 2]
    assert pickle.loads(pickle.dumps(ds)).classes == ["c", "a", "b"]
    folder = write(photos, "Annotations", a=voc(("dog", 1, 2, 10, 20), ("cat", 1, 2, 10, 20)))
    ds = opened(photos, folder, classes=["zebra", "dog", "cat"])
    assert ds.classes == ["zebra", "dog", "cat"] and ds[0]["label"].tolist() == [1, 2]
    names = photos.parent / "names.txt"
    names.write_text("zebra\ndog\r\ncat")
    run("pack", "--voc", folder, "--classes", names, photos, photos.parent / "made.leat")
    assert leat.open(photos.parent / "made.leat").fingerprint == ds.fingerprint
    with pytest.warns(UserWarning, match=r"a.xml line 2: the object is of the class cat"):
        assert leat.open(photos, annotations=folder, classes=["dog"])[0]["label"].tolist() == [0]
    with pytest.raises(leat.CorruptError, match="class cat"):
        leat.open(photos, annotations=folder, classes=["dog"], on_bad="raise")
    for wrong, said in ((["b", "a", "a"], "a stands twice"), ([], "is empty"), (["a\0b"], "NUL")):
        with pytest.raises(ValueError, match=said):
            leat.open(photos, annotations=folder, classes=wrong)


LISTS = {
    "cat\ndog\n": None,
    "cat\r\ndog": None,
    "\ufeffcat\ndog\r\n\n \r\n": None,
    "cat\n\ndog\n": 1,
    "cat\n \t\r\ndog\n": 1,
    "\ufeff\ncat\ndog\n": 0,
}


@pytest.mark.parametrize("text", LISTS)
def test_a_blank_line_in_a_list_of_classes_shifts_no_numbers(photos: Path, text: str) -> None:
    labels, blank = write(photos, "labels", a="1 .5 .5 .25 .5"), LISTS[text]
    names, made = photos.parent / "names.txt", photos.parent / "made.leat"
    names.write_bytes(text.encode())
    lines = text.replace("\r", "").split("\n")
    if blank is None:
        assert leat.open(photos, annotations=labels, classes=lines).classes == ["cat", "dog"]
        run("pack", "--yolo", labels, "--classes", names, photos, made)
        assert leat.open(made).classes == ["cat", "dog"]
        names.rename(labels / "classes.txt")
        assert leat.open(photos, annotations=labels).classes == ["cat", "dog"]
        return
    with pytest.raises(ValueError, match=f"of the classes, number {blank} has no name, and others follow"):
        leat.open(photos, annotations=labels, classes=lines)
    said = run("pack", "--yolo", labels, "--classes", names, photos, made, code=2).stderr
    assert f"names.txt line {blank + 1} is blank" in said and not made.exists()
    names.rename(labels / "classes.txt")
    with pytest.raises(leat.CorruptError, match=f"classes.txt line {blank + 1} is blank"):
        leat.open(photos, annotations=labels)


@pytest.mark.parametrize("text", ["", "\n", "\ufeff", "\ufeff\n \n"])
def test_a_list_without_a_name_is_no_list_of_classes(photos: Path, text: str) -> None:
    labels, names = write(photos, "labels", a="1 .5 .5 .25 .5"), photos.parent / "names.txt"
    names.write_text(text)
    made = photos.parent / "made.leat"
    said = run("pack", "--yolo", labels, "--classes", names, photos, made, code=2).stderr
    assert "has no names of classes" in said
    with pytest.raises(ValueError, match="none has a name"):
        leat.open(photos, annotations=labels, classes=text.split("\n"))


@pytest.mark.parametrize("classes", ["dog", {"dog", "cat"}, {"cat": 1, "dog": 0}, {0: "cat"}, 7, [None], [True]])
def test_classes_that_have_no_order_are_refused(photos: Path, classes: Any) -> None:
    folder = write(photos, "Annotations", a=voc(("dog", 1, 2, 10, 20)))
    with pytest.raises(TypeError, match="classes is a list of names"):
        leat.open(photos, annotations=folder, classes=classes)
    with pytest.raises(TypeError, match="classes is a list of names"):
        leat.Writer(photos.parent / "made.leat", {"label": "int64"}, classes=classes)


def test_classes_may_be_any_array_of_names(photos: Path) -> None:
    folder = write(photos, "Annotations", a=voc(("dog", 1, 2, 10, 20)))
    for classes in (np.array(["cat", "dog"]), ("cat", "dog"), (c for c in ("cat", "dog"))):
        ds = leat.open(photos, annotations=folder, classes=classes)  # type: ignore[arg-type]
        assert ds.classes == ["cat", "dog"] and ds[0]["label"].tolist() == [1]


def test_options_without_annotations_or_against_them_are_errors(photos: Path) -> None:
    labels = write(photos, "labels", a="1 0.5 0.5 0.25 0.5")
    for options in ({"on_bad": "raise"}, {"classes": ["a"]}, {"annotations": labels, "labels": "folders"}):
        with pytest.raises(ValueError, match="leave"):
            leat.open(photos, **options)
    made = photos.parent / "made.leat"
    for line in (["--on-bad", "raise"], ["--classes", "x"], ["--yolo", labels, "--labels", "folders"]):
        assert "leat pack: --" in run("pack", *line, photos, made, code=2).stderr
    assert not made.exists()


def test_marks_of_byte_order_are_no_text(photos: Path) -> None:
    labels = write(photos, "labels", a="\ufeff1 0.5 0.5 0.25 0.5")
    (labels / "classes.txt").write_text("\ufeffcat\ndog\n")
    ds = leat.open(photos, annotations=labels, on_bad="raise")
    assert ds.classes == ["cat", "dog"] and ds[0]["label"].tolist() == [1]


def test_a_file_that_cannot_be_opened_is_an_error_and_not_no_objects(photos: Path) -> None:
    labels = write(photos, "labels", b="1 0.5 0.5 0.25 0.5")
    (labels / "a.txt").symlink_to("a.txt")
    with pytest.raises(OSError, match="a.txt"):
        opened(photos, labels)
    (labels / "a.txt").unlink()
    (labels / "classes.txt").write_text("x" * (1 << 20) + "x")
    with pytest.raises(leat.CorruptError, match="classes.txt has more than 1 MiB"):
        opened(photos, labels)


def test_a_list_of_classes_above_that_cannot_be_read_is_passed_over(photos: Path) -> None:
    labels = write(photos, "labels", a="1 .5 .5 .25 .5")
    (photos.parent / "classes.txt").mkdir()
    with pytest.warns(UserWarning, match="classes.txt cannot be read, and is passed over"):
        assert leat.open(photos, annotations=labels)[0]["label"].tolist() == [1]
    (labels / "classes.txt").mkdir()
    with pytest.raises(OSError, match="classes.txt"):
        opened(photos, labels)


def test_labels_below_links_are_recognised(photos: Path, tmp_path: Path) -> None:
    labels = write(photos, "labels", sub__c="1 .5 .5 1 1")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/empty").mkdir()
    (tmp_path / "elsewhere/sub").symlink_to(labels / "sub")
    assert opened(photos, tmp_path / "elsewhere")[2]["label"].tolist() == [1]


def test_lists_beside_the_files_of_labels_are_none(photos: Path) -> None:
    labels = write(photos, "labels", a="1 .5 .5 1 1", train="./images/a.png", README="# read me")
    assert leat.open(photos, annotations=labels, on_bad="raise")[0]["label"].tolist() == [1]


@pytest.mark.parametrize("text", ["1 .5 .5 1 1", "", "\ufeff1 .5 .5 1 1"])
def test_labels_beside_pictures_are_recognised(photos: Path, text: str) -> None:
    labels = write(photos, "labels", a=text, README="# read me", NOTES="Labels of 2026")
    (labels / "plot.png").write_bytes((photos / "a.png").read_bytes())
    (labels / "export.xml").write_text("<project/>")
    assert opened(photos, labels)[0]["label"].tolist() == ([1] if text else [])


def test_a_pipe_among_labels_is_not_waited_for(photos: Path) -> None:
    labels = write(photos, "labels", a="1 .5 .5 1 1")
    os.mkfifo(labels / "0.txt")
    assert leat.open(photos, annotations=labels, on_bad="mark")[0]["label"].tolist() == [1]


LINES = {
    "x 1 2 3 4": "something else than numbers",
    "-1 .5 .5 .1 .1": "no number of a class",
    "1.5 .5 .5 .1 .1": "no number of a class",
    "7 .5 .5 .1 .1": "class that has no name",
    "1 .5 .5 .1": "neither a class and a box",
    "1 .5 .5 .1 .1 .9": "neither a class and a box",
    "1 20 30 10 10": "not in units of its image",
    "1 .5 .5 0 .1": "has no area",
    "1 .5 .5 -.005 .1": "is inverted",
}


@pytest.mark.parametrize("line", LINES)
def test_a_line_of_yolo_that_is_wrong_is_counted_and_named(photos: Path, line: str) -> None:
    labels = write(photos, "labels", a=f"1 .5 .5 .1 .1\n{line}\n")
    (labels / "classes.txt").write_text("cat\ndog\n")
    with pytest.warns(UserWarning, match=rf"left out: 1 lines.*labels/a.txt line 2 .*{LINES[line]}"):
        ds = leat.open(photos, annotations=labels)
    assert ds.about["skipped"] == 1 and ds[0]["label"].tolist() == [1]
    with pytest.raises(leat.CorruptError, match=rf"a.txt line 2 .*{LINES[line]}"):
        leat.open(photos, annotations=labels, on_bad="raise")


# ---- Pascal VOC ----


def test_voc_boxes_and_names(photos: Path) -> None:
    folder = write(photos, "Annotations", a=voc(("dog", 1, 2, 10, 20), ("cat", 3.5, 4, 50, 29)), sub__c=voc())
    ds = opened(photos, folder)
    assert ds.classes == ["cat", "dog"] and ds.schema["boxes"] == leat.boxes("xyxy")
    assert ds[0]["boxes"].tolist() == [[1, 2, 10, 20], [3.5, 4, 40, 29]]
    assert ds[0]["label"].tolist() == [1, 0] and ds[0]["difficult"].tolist() == [1, 1]
    assert ds[0]["truncated"].tolist() == [0, 0] and len(ds[1]["boxes"]) == len(ds[2]["boxes"]) == 0
    again = packed("--voc", folder, photos)
    assert again.fingerprint == ds.fingerprint and again.classes == ds.classes


BOMB = (
    '<?xml version="1.0"?>\n<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa">\n<!ENTITY b "&a;&a;&a;&a;">]>'
    "<annotation>&b;</annotation>"
)
DOCUMENTS = {
    BOMB: "it declares entities",
    "<annotation><object></annotation>": "it is no XML",
    "": "it is no XML",
    voc(size=(0, 30)): "size that cannot be",
    voc(size=(65536, 32768)): "size that cannot be",
    voc(("dog", 1, 2, 1, 20)): "has no area",
    voc(("dog", 9, 2, 1, 20)): "is inverted",
    voc(("dog", "nan", 2, 1, 20)): "is not finite",
    voc(("dog", 41, 2, 50, 20)): "outside of its image",
    voc(("", 1, 2, 5, 20)): "has no name",
    voc(("dog", 1, 2, 5, 20)).replace("xmax", "xmox"): "no box of four numbers",
    voc(("d" * 256, 1, 2, 5, 20)): "has a name of 256 bytes or more",
    "<html><body/></html>": "another root than <annotation>",
    '<!DOCTYPE annotation SYSTEM "x.dtd">' + voc(("d&foo;g", 1, 2, 5, 20)): "has an entity that it does not declare",
    voc(("dog", 1, 2, 5, 20)).replace("<object>", "<objects><object>").replace("</object>", "</object></objects>"): (
        "no <object> directly in <annotation>"
    ),
    voc(("dog", 1, 2, 5, 20)).replace("object>", "Object>"): "no <object> directly in <annotation>",
    "<annotation>" + "<object/>" * 65537 + "</annotation>": "has more than 65536 objects",
}


@pytest.mark.parametrize("text", DOCUMENTS, ids=range(len(DOCUMENTS)))
def test_a_document_of_voc_that_is_wrong_is_counted_and_named(photos: Path, text: str) -> None:
    folder = write(photos, "Annotations", a=text, b=voc(("dog", 1, 2, 10, 20)))
    with pytest.warns(UserWarning, match=rf"left out: 1 .*Annotations/a.xml line \d.*{DOCUMENTS[text]}"):
        ds = leat.open(photos, annotations=folder)
    assert ds.about["skipped"] == 1 and ds[1]["label"].tolist() == [0] and not len(ds[0]["boxes"])
    with pytest.raises(leat.CorruptError, match=DOCUMENTS[text]):
        leat.open(photos, annotations=folder, on_bad="raise")


# ---- both ----


def test_a_file_without_a_photo_is_counted_and_named(photos: Path) -> None:
    labels = write(photos, "labels", a="1 .5 .5 .1 .1", gone="1 .5 .5 .1 .1")
    with pytest.warns(UserWarning, match=r"left out: 1 files.*gone.txt has no photo"):
        leat.open(photos, annotations=labels)
    with pytest.raises(FileNotFoundError, match=r"gone.txt has no photo"):
        leat.open(photos, annotations=labels, on_bad="raise")


def test_a_folder_with_no_photo_s_file_is_an_error(photos: Path) -> None:
    labels = write(photos, "labels", z="1 .5 .5 .1 .1")
    with pytest.raises(FileNotFoundError, match="no photo of .* has a file of its name"):
        opened(photos, labels)


def test_real_labels_are_read_as_python_reads_them() -> None:
    photos, labels = DATA / "coco128/images/train2017", DATA / "coco128/object_detection/labels/train2017"
    if not labels.exists():
        pytest.skip("needs coco128 in LEAT_DATA")
    ds = opened(photos, labels)
    assert ds.classes[:3] == ["person", "bicycle", "car"] and len(ds.classes) == 80
    for sample in ds:
        file = labels / Path(sample["name"]).with_suffix(".txt")
        rows = np.array([line.split() for line in file.read_text().splitlines()], np.float64).reshape(-1, 5)
        assert sample["label"].tolist() == rows[:, 0].tolist()
        assert np.allclose(sample["boxes"], rows[:, 1:], atol=1e-5)


def test_real_polygons_are_masks_in_their_boxes() -> None:
    photos, labels = DATA / "coco128/images/train2017", DATA / "coco128/instance_segmentation/labels/train2017"
    if not labels.exists():
        pytest.skip("needs coco128 in LEAT_DATA")
    ds = opened(photos, labels)
    chain = [ops.Decode(), ops.Resize((320, 320)), ops.ConvertBoundingBoxFormat("xyxy")]
    batch = next(iter(leat.Loader(ds, 8, outputs={("image", "boxes", "masks"): chain}, framework="numpy")))
    for boxes, masks in zip(batch["boxes"].unbind(), batch["masks"].unbind(), strict=True):
        for box, mask in zip(boxes * 320, masks, strict=True):
            ys, xs = np.nonzero(mask)
            if len(xs):
                assert xs.min() >= box[0] - 2 and xs.max() <= box[2] + 2
                assert ys.min() >= box[1] - 2 and ys.max() <= box[3] + 2


# ---- opening that takes long ----


def many(photos: Path, kind: str) -> list[str | Path]:
    """Annotations that take some seconds to read: files are links to one; the option and what it names."""
    n, name = {"yolo": (3000, "a.txt"), "voc": (3000, "a.xml"), "masks": (8000, "a.png")}[kind]
    folder = photos.parent / kind
    folder.mkdir()
    if kind == "masks":
        Image.fromarray(np.zeros((30, 40), np.uint8)).save(folder / name)
    elif kind == "yolo":
        (folder / name).write_text("0 .5 .5 .1 .1\n" * 20_000)
    else:
        (folder / name).write_text(voc(*[("dog", 1, 2, 10, 20)] * 5000))
    for i in range(n):
        os.link(photos / "a.png", photos / f"{i}.png")
        os.link(folder / name, folder / f"{i}{Path(name).suffix}")
    return [f"--{kind}", folder]


@pytest.mark.parametrize("kind", ["yolo", "voc", "masks"])
def test_ctrl_c_ends_the_reading_of_files(photos: Path, kind: str) -> None:
    _, folder = many(photos, kind)
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            signal.setitimer(signal.ITIMER_REAL, 0.02)
            leat.open(photos, **{"masks" if kind == "masks" else "annotations": folder})  # type: ignore[arg-type]
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("kind", ["yolo", "voc"])
def test_the_reading_of_files_shows_progress_on_a_terminal(photos: Path, kind: str) -> None:
    options = many(photos, kind)
    terminal, other = pty.openpty()
    with Started([command(), "info", *options, photos], stderr=other, stdout=subprocess.DEVNULL):
        os.close(other)
        said = rb"\rreading annotations +\d+%  [\d,]+ of 3,00\d samples  [\d,]+/s"
        assert re.match(said, os.read(terminal, 4096))
    os.close(terminal)
