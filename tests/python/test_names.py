"""Photos and what belongs to them meet by their names: one rule for labels, XML, masks, COCO and panoptic files."""

from __future__ import annotations

import json
import random
import unicodedata
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli_support import leat as run
from PIL import Image

import leat

VOC = (
    "<annotation><object><name>c</name><bndbox><xmin>1</xmin><ymin>1</ymin><xmax>9</xmax><ymax>9</ymax></bndbox>"
    "</object></annotation>"
)
KINDS = {"yolo": ".txt", "voc": ".xml", "masks": ".png"}


def spelled(*names: str) -> list[str]:
    """What a message has of names that differ only in their form: each in escapes."""
    return [name.encode("ascii", "backslashreplace").decode().replace("\\x", "\\u00") for name in names]


def photo(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (20, 10)).save(path, format="PNG")


def beside(path: Path, kind: str) -> None:
    """What a photo has beside it: one object, or a mask."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if kind == "masks":
        Image.fromarray(np.full((10, 20), 1, np.uint8)).save(path, format="PNG")
    else:
        path.write_text(VOC if kind == "voc" else "0 .5 .5 .2 .2\n")


def opened(root: Path, kind: str, on_bad: Any = "skip", photos: str = "i", other: str = "a") -> tuple[Any, list[str]]:
    """The data set, and what was said."""
    given: dict[str, Any] = {"masks" if kind == "masks" else "annotations": f"{root}/{other}"}
    if kind == "voc":
        given["classes"] = ["c"]
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        ds = leat.open(f"{root}/{photos}", on_bad=on_bad, **given)
    return ds, [str(w.message) for w in said if issubclass(w.category, UserWarning)]


def objects(ds: Any, kind: str) -> dict[str, int]:
    """Of each photo: how much it has."""
    return {s["name"]: 1 if kind == "masks" else len(s["label"]) for s in ds}


def cases(extension: str, draw: random.Random) -> str:
    return "".join(draw.choice((c.lower(), c.upper())) for c in extension)


# ---- the case of an extension ----


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(20))
def test_the_case_of_an_extension_does_not_count_and_that_of_a_name_does(tmp_path: Path, kind: str, seed: int) -> None:
    draw = random.Random(f"{kind} {seed}")
    want, twice, strangers = {}, [], []
    for i in range(draw.randrange(2, 9)):
        name = draw.choice(("", "sub/", "sub/x.y/") if i else ("",)) + draw.choice(("a", "B", "c.d", "E é")) + str(i)
        image = name + cases(draw.choice((".png", ".jpg", ".bmp")), draw)
        photo(tmp_path / "i" / image)
        if not i or draw.random() < 0.7:
            spellings = sorted({cases(KINDS[kind], draw) for _ in range(draw.choice((1, 1, 2)))})
            for one in spellings:
                beside(tmp_path / "a" / (name + one), kind)
            read = KINDS[kind] if KINDS[kind] in spellings else spellings[0]
            twice += [name + one for one in spellings if one != read]
            want[image] = 1
        elif kind != "masks":
            want[image] = 0
        if draw.random() < 0.2:
            strangers.append(name.swapcase() + "z" + cases(KINDS[kind], draw))
            (tmp_path / "i" / strangers[-1]).parent.mkdir(parents=True, exist_ok=True)  # its folder is one of photos
            beside(tmp_path / "a" / strangers[-1], kind)
    ds, said = opened(tmp_path, kind)
    assert objects(ds, kind) == want
    folders = {str(Path(name).parent).lower() for name in (kind != "masks") * [*want]} | {"."}
    known = [name for name in strangers if kind == "masks" or str(Path(name).parent).lower() in folders]
    missing = sum(1 for p in (tmp_path / "i").rglob("*") if p.is_file()) - len(want)
    assert ds.about.get("skipped", 0) == len(twice) + len(known) + missing
    for what, names in (("is not read", twice), ("has no photo", known)):
        (line,) = [s for s in said if what in s] or [""]
        assert sum(f"{name} {what}" in line for name in names) == min(len(names), line.count(what))
        assert bool(line) == bool(names)
    if twice or known or missing:
        with pytest.raises(leat.Error):
            opened(tmp_path, kind, on_bad="raise")


def test_packed_files_of_upper_case_annotations_are_those_in_place(tmp_path: Path) -> None:
    for name in ("a", "b"):
        photo(tmp_path / f"i/{name}.PNG")
        beside(tmp_path / f"a/{name}.TXT", "yolo")
    ds, said = opened(tmp_path, "yolo", on_bad="raise")
    run("pack", "--yolo", tmp_path / "a", "--on-bad", "raise", tmp_path / "i", tmp_path / "made.leat")
    assert not said and leat.open(tmp_path / "made.leat").fingerprint == ds.fingerprint
    with pytest.warns(UserWarning, match=r"annotations lie beside the photos.*i/labels"):
        (tmp_path / "images").mkdir()
        photo(tmp_path / "images/a.png")
        beside(tmp_path / "i/labels/x.txt", "yolo")
        photo(tmp_path / "i/images/x.png")
        (tmp_path / "i/labels/x.txt").rename(tmp_path / "i/labels/x.TXT")
        leat.open(tmp_path / "i/images")


@pytest.mark.parametrize("name", ["classes.TXT", "Classes.txt", "CLASSES.TXT", "Obj.Names"])
def test_lists_of_classes_are_found_in_any_case(tmp_path: Path, name: str) -> None:
    photo(tmp_path / "i/a.png")
    beside(tmp_path / "a/a.txt", "yolo")
    (tmp_path / "a" / name).write_text("cat\ndog\n")
    assert opened(tmp_path, "yolo")[0].classes == ["cat", "dog"]


def coco(root: Path, *names: str, **more: Any) -> Path:
    images = [{"id": i, "file_name": name} for i, name in enumerate(names)]
    text = {"images": images, "annotations": [], "categories": [{"id": 1, "name": "c"}], **more}
    (root / "a.json").write_text(json.dumps(text))
    return root / "a.json"


def test_the_case_of_an_extension_does_not_count_in_a_file_name_of_coco(tmp_path: Path) -> None:
    for name in ("a.jpg", "b.JPG", "c.png", "sub/d.Png"):
        photo(tmp_path / "i" / name)
    coco(tmp_path, "a.JPG", "b.jpg", "c.png", "sub/d.png")
    ds, said = opened(tmp_path, "coco", other="a.json", on_bad="raise")
    assert [s["name"] for s in ds] == ["a.jpg", "b.JPG", "c.png", "sub/d.Png"] and not said


def test_two_images_of_coco_do_not_get_one_photo_by_the_case_of_an_extension(tmp_path: Path) -> None:
    photo(tmp_path / "i/a.jpg")
    photo(tmp_path / "i/b.Jpg")
    coco(tmp_path, "a.JPG", "a.jpg", "b.JPG", "b.jpg")
    ds, said = opened(tmp_path, "coco", other="a.json")
    assert [(s["image_id"], s["name"]) for s in ds] == [(1, "a.jpg"), (2, "b.Jpg")]
    assert "a.jpg is, and is another image's" in said[0] and "b.Jpg is, and is another image's" in said[0]
    photo(tmp_path / "i/a.JPG")
    photo(tmp_path / "i/b.JPG")
    photo(tmp_path / "i/b.jpg")
    assert [s["name"] for s in opened(tmp_path, "coco", other="a.json", on_bad="raise")[0]] == [
        "a.JPG",
        "a.jpg",
        "b.JPG",
        "b.jpg",
    ]


@pytest.mark.parametrize("name", ["a.png", "a.PNG", "./a.png", "sub//b.png", "sub\\b.png"])
def test_the_png_of_a_panoptic_file_is_found_by_the_same_rule(tmp_path: Path, name: str) -> None:
    there = name.replace("\\", "/")
    stem = Path(there).stem
    photo(tmp_path / f"i/{stem}.jpg")
    for folder in ("P", "P/sub"):
        (tmp_path / folder).mkdir()
    pixels = np.zeros((10, 20, 3), np.uint8)
    pixels[2:5, 3:9, 0] = 7
    Image.fromarray(pixels).save(tmp_path / "P" / Path(there).with_suffix(".Png"), format="PNG")
    segments = [{"id": 7, "category_id": 1, "bbox": [3, 2, 6, 3], "area": 18, "iscrowd": 0}]
    made = coco(tmp_path, f"{stem}.jpg", annotations=[{"image_id": 0, "file_name": name, "segments_info": segments}])
    made.rename(tmp_path / "P.JSON")
    ds, said = opened(tmp_path, "coco", other="P.JSON", on_bad="raise")
    assert not said and leat.draw_masks(ds[0]["masks"], 10, 20).sum() == 18


# ---- forms of Unicode ----

#: characters that another form spells otherwise, each once: those that macOS writes otherwise, and some of Hangul
LETTERS = [
    chr(c)
    for c in range(0x80, 0x20000)
    if unicodedata.normalize("NFC", chr(c)) == chr(c) != unicodedata.normalize("NFD", chr(c))
    and not 0xAC00 <= c < 0xD7A4
] + [chr(c) for c in range(0xAC00, 0xD7A4, 97)]


def marked(ds: leat.Dataset) -> set[int]:
    outputs = {"image": [leat.ops.Decode(), leat.ops.Resize((2, 2))]}
    loader = leat.Loader(ds, len(ds), outputs=outputs, on_error="skip", framework="numpy")  # type: ignore[arg-type]
    return set(range(len(ds))) - {int(i) for batch in loader for i in batch.ids}


def words(n: int, draw: random.Random) -> Iterable[str]:
    """Texts of several such characters and marks on others, in the first form, each another one."""
    made: set[str] = set()
    while len(made) < n:
        text = "".join(
            draw.choice(LETTERS) if draw.random() < 0.5 else draw.choice("aegx") + draw.choice(["", "\u0323", "\u0302"])
            for _ in range(draw.randrange(1, 6))
        )
        text = unicodedata.normalize("NFC", text + draw.choice(["", "\u0302\u0323", "\u0323\u0307"]))
        if unicodedata.normalize("NFD", text) != text and len(text.encode()) < 60:
            made.add(text)
    return sorted(made)


@pytest.mark.parametrize("swapped", [False, True])
def test_every_character_in_another_form_is_said_to_be_the_same_and_no_other(tmp_path: Path, swapped: bool) -> None:
    names = [*LETTERS, *words(300, random.Random(5))]
    forms = ("NFD", "NFC") if swapped else ("NFC", "NFD")
    for i, text in enumerate(names):
        photo(tmp_path / "i" / f"{i:04}{unicodedata.normalize(forms[0], text)}.png")  # type: ignore[arg-type]
        stem = unicodedata.normalize(forms[1], text if i % 5 else text + "x")  # type: ignore[arg-type]
        beside(tmp_path / "a" / f"{i:04}{stem}.txt", "yolo")
    photo(tmp_path / "i" / "z.png")
    beside(tmp_path / "a" / "z.txt", "yolo")
    ds, _ = opened(tmp_path, "yolo", on_bad="mark")
    assert marked(ds) == {i for i in range(len(names)) if i % 5}
    assert len(ds) == len(names) + 1 and len(ds[len(names)]["label"]) == 1


@pytest.mark.parametrize("on_bad", ["skip", "mark", "raise"])
@pytest.mark.parametrize("kind", [*KINDS, "coco"])
def test_one_name_in_two_forms_is_said_in_escapes(tmp_path: Path, kind: str, on_bad: Any) -> None:
    for text in words(10, random.Random(f"{kind} {on_bad}")):
        root = tmp_path / str(len([*tmp_path.iterdir()]))
        forms = [unicodedata.normalize(form, f"sub/{text}") for form in ("NFC", "NFD")]
        photo(root / "i" / f"{forms[0]}.png")
        photo(root / "i" / "good.png")
        if kind == "coco":
            coco(root, f"{forms[1]}.png", "good.png")
        else:
            beside(root / "a" / f"{forms[1]}{KINDS[kind]}", kind)
            beside(root / "a" / f"good{KINDS[kind]}", kind)
        other = "a.json" if kind == "coco" else "a"
        want = spelled(*forms)
        if on_bad == "raise":
            with pytest.raises(FileNotFoundError) as e:
                opened(root, kind, on_bad, other=other)
            message = str(e.value)
        else:
            ds, said = opened(root, kind, on_bad, other=other)
            message = " ".join(said)
            assert on_bad != "mark" or len(marked(ds)) == 1
        assert all(f'"{name}' in message for name in want) and "two forms of Unicode" in message


@pytest.mark.parametrize("before", ["sub\\", ".\\sub\\", "C:\\sub\\", "/of/another/machine/"])
@pytest.mark.parametrize("others", [0, 2])
def test_a_name_of_another_machine_in_another_form_is_said_too(tmp_path: Path, before: str, others: int) -> None:
    folder = "sub/" if before in ("sub\\", ".\\sub\\") else ""
    names = ["caf\u00e9.png", *(f"{i}.png" for i in range(others))]
    for name in names:
        photo(tmp_path / "i" / folder / unicodedata.normalize("NFD", name))
    coco(tmp_path, *(before + name for name in names))
    with pytest.raises(FileNotFoundError, match="two forms of Unicode") as e:
        opened(tmp_path, "coco", "raise", other="a.json")
    assert "caf\\u00e9." in str(e.value) and "cafe\\u0301." in str(e.value)
    if others:
        ds, said = opened(tmp_path, "coco", other="a.json")
        assert len(ds) == others
        assert any("two forms of Unicode" in line for line in said)


@pytest.mark.parametrize("others", [[], ["\u00c9"], ["E\u0301", "x"]])
def test_classes_in_two_forms_are_said_whatever_others_there_are(tmp_path: Path, others: list[str]) -> None:
    photo(tmp_path / "i" / "a.png")
    beside(tmp_path / "a" / "a.txt", "yolo")
    with pytest.warns(UserWarning, match="two of the classes .* two forms of Unicode"):
        leat.open(f"{tmp_path}/i", annotations=f"{tmp_path}/a", classes=[*others, "\u00e9", "e\u0301"])


def test_a_photo_of_another_image_is_not_to_be_renamed(tmp_path: Path) -> None:
    photo(tmp_path / "i" / "caf\u00e9.png")
    coco(tmp_path, "caf\u00e9.png", "cafe\u0301.png", "CAF\u00c9.png")
    (line,) = opened(tmp_path, "coco", other="a.json")[1]
    assert "left out: 2 images" in line and "rename" not in line and line.count("the second goes with another") == 2


def test_a_mask_of_another_photo_is_not_to_be_renamed(tmp_path: Path) -> None:
    for name in ("caf\u00e9", "cafe\u0301"):
        photo(tmp_path / "i" / f"{name}.png")
    beside(tmp_path / "a/caf\u00e9.png", "masks")
    (line,) = opened(tmp_path, "masks")[1]
    assert "left out: 1 photos" in line and "rename" not in line and "and the second goes with another" in line


@pytest.mark.parametrize("kind", [*KINDS, "coco"])
def test_a_folder_in_another_form_is_said_too(tmp_path: Path, kind: str) -> None:
    forms = ["e\u0301t\u00e9/\u00e9/a", "\u00e9te\u0301/e\u0301/a"]
    photo(tmp_path / "i" / f"{forms[0]}.png")
    photo(tmp_path / "i" / "good.png")
    if kind == "coco":
        coco(tmp_path, f"{forms[1]}.png", "good.png")
    else:
        beside(tmp_path / "a" / f"{forms[1]}{KINDS[kind]}", kind)
        beside(tmp_path / "a" / f"good{KINDS[kind]}", kind)
    said = " ".join(opened(tmp_path, kind, other="a.json" if kind == "coco" else "a")[1])
    assert all(f'"{name}.' in said for name in spelled(*forms))


@pytest.mark.parametrize("kind", [*KINDS, "coco"])
def test_where_all_names_have_another_form_the_error_says_so(tmp_path: Path, kind: str) -> None:
    photo(tmp_path / "i" / "caf\u00e9.png")
    if kind == "coco":
        coco(tmp_path, "cafe\u0301.png")
    else:
        beside(tmp_path / "a" / f"cafe\u0301{KINDS[kind]}", kind)
    with pytest.raises(FileNotFoundError, match="two forms of Unicode") as e:
        opened(tmp_path, kind, other="a.json" if kind == "coco" else "a")
    assert '"caf\\u00e9.' in str(e.value) and '"cafe\\u0301.' in str(e.value)


@pytest.mark.parametrize("on_bad", ["skip", "mark", "raise"])
@pytest.mark.parametrize("kind", ["yolo", "voc"])
@pytest.mark.parametrize(
    "photo_s, file_s, why",
    [
        ("x\u00e9/a", "xe\u0301/a", "two forms of Unicode"),
        ("x/a", "X/a", "the case of letters"),
        ("x/y/a", "X/y/A", "the case of letters"),
        ("\u0434/a", "\u0414/a", "the case of letters"),
    ],
)
def test_files_in_a_folder_beside_that_of_the_photos_are_no_objects_with_a_word(
    tmp_path: Path, kind: str, on_bad: Any, photo_s: str, file_s: str, why: str
) -> None:
    photo(tmp_path / "i" / f"{photo_s}.png")
    beside(tmp_path / "a" / f"{file_s}{KINDS[kind]}", kind)
    for good in ("0", f"{Path(photo_s).parent}/b"):  # the folder of the photos is there, too
        photo(tmp_path / "i" / f"{good}.png")
        beside(tmp_path / "a" / f"{good}{KINDS[kind]}", kind)
    want = [f'"{one}.' for one in spelled(file_s, photo_s)]
    if on_bad == "raise":
        with pytest.raises(FileNotFoundError, match=why) as e:
            opened(tmp_path, kind, on_bad)
        assert all(one in str(e.value) for one in want)
        return
    ds, said = opened(tmp_path, kind, on_bad)
    assert len(said) == 1 and why in said[0] and all(one in said[0] for one in want) and "rename one of them" in said[0]
    assert ds.about["skipped"] == 1 and (on_bad != "mark" or marked(ds) == {1})


@pytest.mark.parametrize("kind", ["yolo", "voc"])
def test_photos_in_folders_that_differ_in_their_form_or_case_have_the_files_of_their_own(
    tmp_path: Path, kind: str
) -> None:
    for folder in (".", "x\u00e9", "xe\u0301", "y", "Y"):
        photo(tmp_path / "i" / folder / "a.png")
    for folder in (".", "x\u00e9", "y", "Y"):
        beside(tmp_path / "a" / folder / f"a{KINDS[kind]}", kind)
    ds, said = opened(tmp_path, kind, "raise")
    assert not said and objects(ds, kind) == {
        "Y/a.png": 1,
        "a.png": 1,
        "xe\u0301/a.png": 0,
        "x\u00e9/a.png": 1,
        "y/a.png": 1,
    }
    beside(tmp_path / "a" / f"A{KINDS[kind]}", kind)
    (line,) = opened(tmp_path, kind)[1]
    assert "rename" not in line and "and the second goes with another" in line


@pytest.mark.parametrize("kind", [*KINDS, "coco"])
def test_a_long_name_pushes_no_word_out_and_is_shown_where_it_differs(tmp_path: Path, kind: str) -> None:
    folder = "/".join(["f" * 200] * 6)
    for name in (f"{folder}/{'x' * 230}caf\u00e9", "good"):
        photo(tmp_path / "i" / f"{name}.png")
        if kind != "coco":
            beside(tmp_path / "a" / f"{unicodedata.normalize('NFD', name)}{KINDS[kind]}", kind)
    if kind == "coco":
        coco(tmp_path, f"{folder}/{'x' * 230}cafe\u0301.png", "good.png")
    said = " ".join(opened(tmp_path, kind, other="a.json" if kind == "coco" else "a")[1])
    assert "xxcaf\\u00e9." in said and "xxcafe\\u0301." in said and "two forms of Unicode" in said


# ---- slashes ----


def test_slashes_and_dots_in_names_and_paths_mean_nothing(tmp_path: Path) -> None:
    for name in ("a.png", "sub/b.png"):
        photo(tmp_path / "i" / name)
        for kind, extension in KINDS.items():
            beside((tmp_path / kind / name).with_suffix(extension), kind)
    for kind in KINDS:
        want, _ = opened(tmp_path, kind, other=kind)
        for photos, other in (("i/", f"{kind}//"), ("/i//", f".//{kind}/."), ("./i/.", f"/./{kind}")):
            ds, said = opened(tmp_path, kind, "raise", photos, other)
            assert ds.fingerprint == want.fingerprint and not said
    spellings = ("a.png", "./a.png", ".//a.png", "sub/b.png", "sub//b.png", "./sub/./b.png", "sub/.//b.png", ".\\a.png")
    for one in spellings[:-1]:
        coco(tmp_path, one)
        assert len(opened(tmp_path, "coco", "raise", other="a.json")[0]) == 1
    coco(tmp_path, "sub\\\\b.png", spellings[-1])
    assert len(opened(tmp_path, "coco", "raise", other="a.json")[0]) == 2


def test_a_folder_for_indexes_is_known_by_any_spelling_of_its_path(tmp_path: Path) -> None:
    photo(tmp_path / "i" / "c" / "a.png")
    for path in (f"{tmp_path}/i//x", f"{tmp_path}//i/x", f"{tmp_path}/./i/./x"):
        with pytest.raises(ValueError, match="lies in the folder of photos"):
            leat.open(tmp_path / "i", index_dir=path)
    for path in (tmp_path / "i", f"{tmp_path}//i/", f"{tmp_path}/i/."):
        ds = leat.open(path, index_dir=tmp_path / "x")
        for _ in leat.Loader(ds, 1, outputs={"image": [leat.ops.Decode()]}, framework="numpy"):
            pass
        del ds
    assert len(list((tmp_path / "x").iterdir())) == 1


# ---- names of classes ----

WHITE = [("", " "), ("", "\t"), (" ", ""), ("  ", " \t "), ("", "\n"), ("", "\r\n"), ("", "\f"), ("\v", "")]


@pytest.mark.parametrize("before, behind", WHITE)
def test_white_space_around_a_name_of_a_class_is_none_of_it(tmp_path: Path, before: str, behind: str) -> None:
    photo(tmp_path / "i" / "a.png")
    beside(tmp_path / "a/a.txt", "yolo")
    beside(tmp_path / "v/a.xml", "voc")
    beside(tmp_path / "m/a.png", "masks")
    padded = [f"{before}{name}{behind}" for name in ("a b", "c")]
    for given in ({"annotations": tmp_path / "a"}, {"annotations": tmp_path / "v"}, {"masks": tmp_path / "m"}):
        ds = leat.open(tmp_path / "i", classes=padded, on_bad="raise", **given)  # type: ignore[arg-type]
        assert ds.classes == ["a b", "c"]
        with pytest.raises(ValueError, match="a stands twice"):
            leat.open(tmp_path / "i", classes=["a", f"{before}a{behind}"], **given)  # type: ignore[arg-type]
    coco(tmp_path, "a.png", categories=[{"id": i, "name": name} for i, name in enumerate(padded)])
    assert opened(tmp_path, "coco", other="a.json")[0].classes == ["a b", "c"]
    text = "\n".join(one.strip("\r\n") for one in padded)
    (tmp_path / "names").write_text(text)
    run("pack", "--voc", tmp_path / "v", "--classes", tmp_path / "names", tmp_path / "i", tmp_path / "made.leat")
    assert leat.open(tmp_path / "made.leat").classes == ["a b", "c"]
    (tmp_path / "a/classes.txt").write_text(text)
    assert opened(tmp_path, "yolo")[0].classes == ["a b", "c"]
    (tmp_path / "a/classes.txt").unlink()
    (tmp_path / "a/x.yaml").write_text(json.dumps({"names": padded}))
    assert opened(tmp_path, "yolo")[0].classes == ["a b", "c"]


@pytest.mark.parametrize("kind", ["yolo", "voc", "masks", "coco"])
def test_two_classes_that_differ_in_their_form_alone_are_said_in_escapes(tmp_path: Path, kind: str) -> None:
    photo(tmp_path / "i" / "a.png")
    forms = ["caf\u00e9", "cafe\u0301"]
    classes = {} if kind in ("voc", "coco") else {"classes": forms}
    if kind == "coco":
        coco(tmp_path, "a.png", categories=[{"id": i, "name": name} for i, name in enumerate(forms)])
    else:
        beside(tmp_path / "a" / f"a{KINDS[kind]}", kind)
    if kind == "voc":
        one = VOC[VOC.index("<object>") : VOC.index("</annotation>")]
        both = "".join(one.replace(">c<", f">{name}<") for name in forms)
        (tmp_path / "a/a.xml").write_text(f"<annotation>{both}</annotation>")
    given = {"masks" if kind == "masks" else "annotations": tmp_path / ("a.json" if kind == "coco" else "a"), **classes}
    with pytest.warns(UserWarning, match="two forms of Unicode") as said:
        assert len(leat.open(tmp_path / "i", on_bad="raise", **given).classes) == 2  # type: ignore[arg-type]
    assert all(f'"{name}"' in str(said[0].message) for name in spelled(*forms))
    if kind == "voc":
        with pytest.raises(leat.CorruptError, match="two forms of Unicode") as e:
            leat.open(tmp_path / "i", on_bad="raise", annotations=tmp_path / "a", classes=forms[1:])
        assert all(f'"{name}"' in str(e.value) for name in spelled(*forms))
