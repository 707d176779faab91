"""Folders named one level too high or too low: the error names what was probably meant, and that opens."""

from __future__ import annotations

import json
import os
import re
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

import leat


@pytest.fixture
def coco(tmp_path: Path) -> Path:
    """coco/images/train2017, coco/images/val2017, coco/annotations, coco/labels, coco/masks"""
    root = tmp_path / "coco"
    (root / "annotations").mkdir(parents=True)
    for split in ("train2017", "val2017"):
        images = []
        for kind in ("images", "labels", "voc", "masks"):
            (root / kind / split).mkdir(parents=True)
        for i in range(3):
            name = f"{split}{i}"
            Image.new("RGB", (40, 30)).save(root / f"images/{split}/{name}.jpg")
            Image.new("L", (40, 30)).save(root / f"masks/{split}/{name}.png")
            (root / f"labels/{split}/{name}.txt").write_text("0 .5 .5 .1 .1")
            (root / f"voc/{split}/{name}.xml").write_text("<annotation></annotation>")
            images.append({"id": i, "file_name": f"{name}.jpg", "width": 40, "height": 30})
        (root / f"annotations/instances_{split}.json").write_text(json.dumps({"images": images, "categories": []}))
        (root / f"annotations/captions_{split}.json").write_text("{}")
    return root


INSTANCES = "annotations/instances_train2017.json"
# what is given, and what is meant
CASES: dict[str, tuple[str, dict[str, str], str]] = {
    "photos above": (".", {"annotations": INSTANCES}, "images/train2017"),
    "photos one above": ("images", {"annotations": INSTANCES}, "images/train2017"),
    "photos beside": ("images/val2017", {"annotations": INSTANCES}, "images/train2017"),
    "photos without a level": ("train2017", {"annotations": INSTANCES}, "images/train2017"),
    "no such json": ("images/train2017", {"annotations": "instances_train2017.json"}, INSTANCES),
    "a folder of json": ("images/train2017", {"annotations": "annotations"}, INSTANCES),
    "yolo photos above": (".", {"annotations": "labels/train2017"}, "images/train2017"),
    "yolo photos one above": ("images", {"annotations": "labels/train2017"}, "images/train2017"),
    "yolo labels above": ("images/train2017", {"annotations": "labels"}, "labels/train2017"),
    "yolo labels below": ("images", {"annotations": "labels/val2017"}, "images/val2017"),
    "voc above": ("images/train2017", {"annotations": "voc"}, "voc/train2017"),
    "masks above": ("images/train2017", {"masks": "masks"}, "masks/train2017"),
    "masks' photos above": ("images", {"masks": "masks/train2017"}, "images/train2017"),
    "a letter less": ("images/train2017", {"annotations": "annotations/instance_train2017.json"}, INSTANCES),
    "another year": ("images/train2018", {"annotations": INSTANCES}, "images/train2017"),
    "a folder misspelt": ("imgaes/train2017", {"annotations": INSTANCES}, "images/train2017"),
    "in other case": ("Images/train2017", {"annotations": INSTANCES}, "images/train2017"),
    "no such masks": ("images/train2017", {"masks": "train2017"}, "train2017"),
}


@pytest.mark.parametrize("case", CASES)
def test_what_was_probably_meant_is_named(coco: Path, case: str) -> None:
    given, options, meant = CASES[case]
    with pytest.raises((FileNotFoundError, leat.FormatError)) as raised:
        leat.open(coco / given, **{k: coco / v for k, v in options.items()})  # type: ignore[arg-type]
    said = re.search(r"did you mean (?:the (?:photos|annotations|masks) in )?(\S+)\?", str(raised.value))
    assert said and said[1].startswith(str(coco)) and said[1].endswith(meant), raised.value


def test_the_only_file_of_its_extension_is_named(coco: Path) -> None:
    only = coco / "alone/instances_train2017_present.json"
    only.parent.mkdir()
    shutil.copy(coco / INSTANCES, only)
    with pytest.raises(FileNotFoundError, match=rf"did you mean {re.escape(str(only))}\?"):
        leat.open(coco / "images/train2017", annotations=only.with_name("train.json"))
    shutil.copy(only, only.with_name("another.json"))
    with pytest.raises(FileNotFoundError) as raised:
        leat.open(coco / "images/train2017", annotations=only.with_name("train.json"))
    assert "did you mean" not in str(raised.value)


def test_names_with_another_extension_are_an_error_that_says_so(coco: Path) -> None:
    path = renamed(coco / INSTANCES, lambda name: name.replace(".jpg", ".png"))
    with pytest.raises(
        FileNotFoundError, match="is train20170.png, and there is train20170.jpg, with another extension"
    ):
        leat.open(coco / "images/train2017", annotations=path)


@pytest.mark.parametrize("form", ["{}_mask.png", "mask-{}.png"])
def test_masks_with_longer_names_than_their_photos_are_named(coco: Path, form: str) -> None:
    masks = coco / "masks/train2017"
    for mask in list(masks.iterdir()):
        mask.rename(masks / form.format(mask.stem))
    said = f"{form.format('train20170')} has a name that is longer than that of train20170.jpg; rename the masks"
    with pytest.raises(FileNotFoundError, match=said):
        leat.open(coco / "images/train2017", masks=masks)


def test_a_folder_of_json_with_a_picture_beside_leads_to_the_json(coco: Path) -> None:
    Image.new("L", (40, 30)).save(coco / "annotations/preview.png")
    with pytest.raises(FileNotFoundError, match=rf"did you mean {re.escape(str(coco / INSTANCES))}\?"):
        leat.open(coco / "images/train2017", annotations=coco / "annotations")


def renamed(path: Path, name_of: Callable[[str], str]) -> Path:
    text: dict[str, Any] = json.loads(path.read_text())
    for image in text["images"]:
        image["file_name"] = name_of(image["file_name"])
    path.write_text(json.dumps(text))
    return path


def test_a_path_in_the_names_of_photos_leads_to_the_folder_above(coco: Path) -> None:
    path = renamed(coco / INSTANCES, lambda name: f"train2017/{name}")
    with pytest.raises(FileNotFoundError, match=rf"did you mean {re.escape(str(coco))}/images\?"):
        leat.open(coco / "images/val2017", annotations=path)
    assert len(leat.open(coco / "images", annotations=path, on_bad="raise")) == 3


@pytest.mark.parametrize("before", ["train2017/", "images\\train2017\\", "../../upload/1/", "/data/local-files/?d=a/"])
def test_names_of_photos_that_have_folders_of_another_machine_are_found_without_them(coco: Path, before: str) -> None:
    path = renamed(coco / INSTANCES, lambda name: before + name)
    with pytest.warns(UserWarning, match="photos are found by their names without folders: .* is not in"):
        ds = leat.open(coco / "images/train2017", annotations=path, on_bad="raise")
    assert [s["name"] for s in ds] == ["train20170.jpg", "train20171.jpg", "train20172.jpg"]
    (coco / "images/train2017/train20171.jpg").unlink()  # of which only some would be found
    with pytest.raises(FileNotFoundError, match="none of the 3 photos"):
        leat.open(coco / "images/train2017", annotations=path)


def test_names_of_photos_with_the_slashes_of_windows_are_found(coco: Path) -> None:
    path = renamed(coco / INSTANCES, lambda name: f"train2017\\{name}")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(leat.open(coco / "images", annotations=path)) == 3


@pytest.mark.parametrize(("number", "samples"), [(99, 4), (None, 3)])
def test_an_image_that_stands_twice_is_still_found_without_its_folder(
    coco: Path, number: int | None, samples: int
) -> None:
    path = renamed(coco / INSTANCES, lambda name: f"train2017/{name}")
    text = json.loads(path.read_text())
    text["images"].append({**text["images"][0], **({"id": number} if number else {})})
    path.write_text(json.dumps(text))
    with pytest.warns(UserWarning, match="photos are found by their names without folders"):
        assert len(leat.open(coco / "images/train2017", annotations=path)) == samples


def test_two_images_that_would_have_one_photo_are_not_found_without_folders(coco: Path) -> None:
    numbers = iter("abc")
    path = renamed(coco / INSTANCES, lambda name: f"{next(numbers)}/train20170.jpg")
    with pytest.raises(FileNotFoundError, match="none of the 3 photos"):
        leat.open(coco / "images/train2017", annotations=path)


def test_the_folder_of_photos_alone_says_what_reads_their_annotations(coco: Path) -> None:
    def said(folder: Path) -> Any:
        with pytest.warns(UserWarning) as caught:
            assert len(leat.open(folder)) > 0
        return re.search(r'leat.open\("(.*)", annotations="(.*)"\)', str(caught[0].message))

    found = said(coco / "images")
    assert found and (found[1], found[2]) == (f"{coco}/images/train2017", f"{coco}/labels/train2017")
    shutil.rmtree(coco / "labels")
    found = said(coco / "images/train2017")
    assert found and (found[1], found[2]) == (f"{coco}/images/train2017", str(coco / INSTANCES))
    shutil.copy(coco / INSTANCES, coco / "images/train2017/_annotations.coco.json")
    found = said(coco / "images/train2017")
    assert found and found[2] == f"{coco}/images/train2017/_annotations.coco.json"
    shutil.rmtree(coco / "annotations")
    for other in ("a caption of the photo 0 1 2", "7", "7 12.5\n"):
        for i in range(3):
            (coco / f"images/val2017/val2017{i}.txt").write_text(other)
        with pytest.warns(UserWarning) as caught:
            leat.open(coco / "images/val2017")
        assert "annotations" not in str(caught[0].message)


def test_a_pipe_beside_photos_is_not_waited_for(coco: Path) -> None:
    (coco / "labels/val2017/val20170.txt").unlink()
    for i in range(3):
        os.mkfifo(coco / f"images/val2017/val2017{i}.txt")
    shutil.rmtree(coco / "annotations")
    with pytest.warns(UserWarning, match="without the extension of a photo"):
        assert len(leat.open(coco / "images/val2017")) == 3


def test_the_folder_of_photos_and_labels_in_the_place_of_both_says_which(tmp_path: Path) -> None:
    for kind in ("images", "labels"):
        (tmp_path / "train" / kind).mkdir(parents=True)
    Image.new("RGB", (40, 30)).save(tmp_path / "train/images/a.jpg")
    (tmp_path / "train/labels/a.txt").write_text("0 .5 .5 .1 .1")
    train = tmp_path / "train"
    said = f'did you mean leat.open("{train}/images", annotations="{train}/labels")?'
    with pytest.raises(FileNotFoundError, match=re.escape(said)):
        leat.open(train, annotations=train)


def test_a_yaml_of_yolo_says_what_to_open(coco: Path) -> None:
    (coco / "data.yaml").write_text("train: images/train2017\nnames: [a]\n")
    for options in ({}, {"annotations": coco / "data.yaml"}):
        with pytest.raises(leat.FormatError, match="such as images/train and labels/train; the names of classes"):
            leat.open(coco / ("images/train2017" if options else "data.yaml"), **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["labels/train2017/_darknet.labels", "obj.names", "labels/classes.txt"])
def test_lists_of_classes_of_other_tools_are_read(coco: Path, name: str) -> None:
    (coco / name).write_text("cat\ndog\n")
    assert leat.open(coco / "images/train2017", annotations=coco / "labels/train2017").classes == ["cat", "dog"]


def test_nothing_is_suggested_where_nothing_is_like_it(tmp_path: Path, coco: Path) -> None:
    (tmp_path / "empty").mkdir()
    for path, options in (("nothing.leat", {}), ("empty", {"annotations": tmp_path / "nothing.json"})):
        with pytest.raises(FileNotFoundError) as raised:
            leat.open(tmp_path / path, **options)  # type: ignore[arg-type]
        assert "did you mean" not in str(raised.value)


def images_named(folder: Path, *names: str) -> Path:
    images = [{"id": i, "file_name": name, "width": 40, "height": 30} for i, name in enumerate(names)]
    (folder / "named.json").write_text(json.dumps({"images": images, "annotations": [], "categories": []}))
    return folder / "named.json"


UNLISTED = {
    ".a.png": "leat passes over names that begin with a dot: rename it",
    ".hidden/a.png": "leat passes over names that begin with a dot: rename it",
    "a/.b/c.png": "leat passes over names that begin with a dot: rename it",
    "a.heic": r"leat takes only names with \.jpg.*: convert it",
    "a/linked/c.png": "leat lists it under another name, or passes over a link in its path",
}


@pytest.mark.parametrize("name", UNLISTED)
@pytest.mark.parametrize("given", ["images", "./images/", "link"])
def test_a_photo_that_is_there_and_not_listed_leads_to_no_folder_but_says_why(
    tmp_path: Path, name: str, given: str
) -> None:
    images = tmp_path / "images"
    (images / "real").mkdir(parents=True)
    (images / "a").mkdir()
    (images / "a/linked").symlink_to(images / "real")
    (tmp_path / "link").symlink_to(images)
    (images / name).parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (40, 30)).save(images / name, "PNG")
    with pytest.raises(FileNotFoundError, match=f"is there, but {UNLISTED[name]}") as raised:
        leat.open(tmp_path / given, annotations=images_named(tmp_path, name))
    assert "did you mean" not in str(raised.value)
    Image.new("RGB", (40, 30)).save(images / "listed.png")
    with pytest.warns(UserWarning, match=rf"{re.escape(name)} of images\[0\] .* is in .*, but {UNLISTED[name]}"):
        assert len(leat.open(tmp_path / given, annotations=images_named(tmp_path, name, "listed.png"))) == 1


def test_the_folder_that_is_given_is_never_what_was_meant(tmp_path: Path) -> None:
    (tmp_path / "images").mkdir()
    Image.new("RGB", (40, 30)).save(tmp_path / "images/a.png")
    (tmp_path / "masks").mkdir()
    Image.new("L", (40, 30)).save(tmp_path / "masks/a.jpg")
    said = "a.jpg has the name of a.png, but masks of class ids are PNGs: convert them"
    with pytest.raises(FileNotFoundError, match=said) as raised:
        leat.open(tmp_path / "images", masks=tmp_path / "masks")
    assert "did you mean" not in str(raised.value)


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("~/x.leat", "~ is a home directory in the shell alone"),
        ("~nobody/x.leat", "~ is a home directory in the shell alone"),
        ("s3://bucket/x.leat", "cannot open s3://bucket/x.leat: No such file or directory: paths, and addresses"),
        ("file:///tmp/x.leat", "cannot open file:///tmp/x.leat: No such file or directory: paths, and addresses"),
    ],
)
def test_what_is_no_path_is_said(path: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for given in (path, [path, path]):
        with pytest.raises(leat.MissingFileError, match=re.escape(said)):
            leat.open(given)


def test_a_folder_may_have_a_name_like_a_scheme(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a:").mkdir()
    with leat.Writer("a:/x.leat", {"n": "int64"}) as w:
        w.add(n=1)
    ds = leat.open("a://x.leat")
    monkeypatch.chdir("/")
    assert ds[0]["n"] == 1 and len(leat.Loader(ds, 1)) == 1
