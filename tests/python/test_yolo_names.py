"""The .yaml of YOLO's data sets: which one counts, and the names of classes in every way to write them."""

from __future__ import annotations

import itertools
import random
import warnings
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

import leat

WORDS = ["cat", "big dog", "0", "yes", "r\u00e9al", "a:b", "x # y", "~", "null", "1.0", "ox"]


def quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def flow(names: list[str], draw: random.Random) -> str:
    return "[" + ", ".join(map(quoted, names)) + "]"


def block(names: list[str], draw: random.Random) -> str:
    return "\n" + "\n".join(f"  - {quoted(name)}" for name in names)


def numbered(names: list[str], draw: random.Random) -> str:
    items = [f"  {i}: {quoted(name)}" for i, name in enumerate(names)]
    draw.shuffle(items)
    return "\n" + "\n".join(items)


def braces(names: list[str], draw: random.Random) -> str:
    return "{" + ", ".join(f"{i}: {quoted(name)}" for i, name in enumerate(names)) + "}"


VALUES = (flow, block, numbered, braces)


def plain(names: list[str], draw: random.Random) -> str:
    return f"names: {draw.choice(VALUES)(names, draw)}\npath: .\n"


def alias(names: list[str], draw: random.Random) -> str:
    value = draw.choice(VALUES)(names, draw)
    return f"base: &n {value}\nnames: *n\n" + draw.choice(("", "path: .\n"))


def aliased_items(names: list[str], draw: random.Random) -> str:
    anchors = "\n".join(f"k{i}: &a{i} {quoted(name)}" for i, name in enumerate(names))
    return f"{anchors}\nnames: [{', '.join(f'*a{i}' for i in range(len(names)))}]\n"


def merged(names: list[str], draw: random.Random) -> str:
    value = draw.choice((flow, braces))(names, draw)
    return f"base: &b {{nc: {len(names)}, names: {value}}}\n" + draw.choice(("<<: *b\n", "<<: [*b, *b]\npath: .\n"))


def merged_twice(names: list[str], draw: random.Random) -> str:
    return f"one: &a {{names: {flow(names, draw)}}}\ntwo: &b {{<<: *a, path: x}}\n<<: *b\n"


def literal(names: list[str], draw: random.Random) -> str:
    lines = "\n".join(f"  {name}" for name in names)
    return f"names: |{draw.choice(('', '-', '+'))}\n{lines}\n" + draw.choice(("", "\n\n")) + "train: i\n"


def second_document(names: list[str], draw: random.Random) -> str:
    first = draw.choice(("path: .\n", "# nothing\n", "a: [names]\n"))
    return f"{first}---\n{plain(names, draw)}" + draw.choice(("", "...\n---\nnc: " + str(len(names)) + "\n"))


FORMS = (plain, alias, aliased_items, merged, merged_twice, literal, second_document)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """i/a.png with an object of class 0 in t/a.txt."""
    (tmp_path / "i").mkdir()
    (tmp_path / "t").mkdir()
    Image.new("RGB", (20, 10)).save(tmp_path / "i/a.png")
    (tmp_path / "t/a.txt").write_text("0 .5 .5 .2 .2\n")
    return tmp_path


def opened(tree: Path, photos: str = "i", labels: str = "t") -> tuple[list[str], list[str]]:
    """The classes, and what was said."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        ds = leat.open(tree / photos, annotations=tree / labels)
    return ds.classes, [str(w.message) for w in said if issubclass(w.category, UserWarning)]


@pytest.mark.parametrize("form", FORMS)
def test_names_are_those_of_every_way_to_write_them(tree: Path, form: Any) -> None:
    for seed in range(12):
        draw = random.Random(f"{form.__name__} {seed}")
        names = draw.sample([w for w in WORDS if form is not literal or w not in ("a:b",)], draw.randrange(1, 7))
        where = tree / draw.choice(("", "t")) / draw.choice(("data.yaml", "X.YML"))
        text = form(names, draw)
        above = where.parent == tree and not any(f"{k}:" in text for k in ("path", "nc", "train"))
        where.write_text(text, encoding=draw.choice(("utf-8", "utf-8-sig", "utf-16")))
        assert opened(tree) == ([] if above else names, []), text
        where.unlink()


UNREADABLE = {
    "numbers with a hole": "names: {0: a, 2: b}\n",
    "a number twice": "names: {0: a, 0: b}\n",
    "texts as numbers": "names: {cat: 0, dog: 1}\n",
    "a path": "names: coco.names\n",
    "a folded block": "names: >\n  a\n  b\n",
    "a list in a block": "names: |\n  - a\n  - b\n",
    "a flow list in a block": "names: |\n  [a, b]\n",
    "a map in a block": "names: |\n  0: a\n  1: b\n",
    "a hole in a block": "names: |\n  a\n\n  b\n",
    "names of names": "names: [[a], [b]]\n",
    "an unknown alias": "names: *n\n",
    "documents that differ": "names: [a, b]\n---\nnames: [b, a]\n",
    "a key twice": "names: [a]\nnames: [b]\n",
    "names below another key": "data: {names: [a, b]}\n",
    "an empty list": "names: []\n",
    "nothing": "names:\n",
    "no YAML behind them": "names: [a, b]\nx: {{ y }}: z\n",
    "a circle": "a: &a {<<: *a}\n<<: *a\nb: {names: [c]}\n",
    "lists of circles": "a: &a {<<: [*a, *a, *a, *a]}\n<<: [*a, *a, *a]\nb: {names: [c]}\n",
    "a NUL": 'names: ["a\\0b"]\n',
    "nothing among names": "names: [cat, ~]\n",
    "nothing among numbers": "names: {0: cat, 1: null}\n",
    "an empty name": 'names: ["", dog]\n',
    "an item without a name": "names:\n- cat\n-\n",
}


@pytest.mark.parametrize("where", ["data.yaml", "t/data.yaml"])
@pytest.mark.parametrize("why", UNREADABLE)
def test_names_that_cannot_be_read_are_said_to_be_passed_over(tree: Path, why: str, where: str) -> None:
    (tree / where).write_text("train: i\n" + UNREADABLE[why])
    classes, said = opened(tree)
    assert classes == [] and len(said) == 1 and "data.yaml has no names of classes that can be read" in said[0]


@pytest.mark.parametrize("text", [b"cat\0x\ndog\n", b"cat\rdog\r", "cat\ndog\n".encode("utf-16"), b"\xfe\xff\0c\0a\n"])
def test_a_list_of_classes_that_is_no_text_of_lines_is_an_error(tree: Path, text: bytes) -> None:
    (tree / "t" / "classes.txt").write_bytes(text)
    with pytest.raises(leat.CorruptError, match=r"classes\.txt"):
        opened(tree)
    (tree / "t" / "classes.txt").write_bytes(b"\xef\xbb\xbfcat\r\ndog\r\n\r\n")
    assert opened(tree) == (["cat", "dog"], [])


COUNTS = {
    ("2", "[a, b]"): "",
    ("3", "[a, b]"): "nc: 3, and names 2",
    ("1", "[a, b]"): "nc: 1, and names 2",
    ("x", "[a]"): "nc: x",
    ("2x", "[a, b]"): "nc: 2x",
    ("''", "[a]"): "nc: ,",
    ("-1", "[a]"): "nc: -1",
    ("[2]", "[a, b]"): "",
}


@pytest.mark.parametrize("nc, names", COUNTS)
def test_a_number_of_classes_that_is_not_that_of_the_names_is_said(tree: Path, nc: str, names: str) -> None:
    said = COUNTS[nc, names]
    (tree / "data.yaml").write_text(f"nc: {nc}\nnames: {names}\n")
    classes, found = opened(tree)
    assert len(classes) == names.count(",") + 1
    assert [said in one for one in found] == ([True] if said else [])


@pytest.mark.parametrize("text", ["nc: 2\nnc: 3\nnames: [a, b]\n", "nc: 2\nnames: [a, b]\n---\nnc: 3\n"])
def test_numbers_of_classes_that_differ_are_said(tree: Path, text: str) -> None:
    (tree / "data.yaml").write_text(text)
    classes, (said,) = opened(tree)
    assert classes == ["a", "b"] and "says nc: 2, then 3, and names 2 classes" in said
    (tree / "data.yaml").write_text(text.replace("3", "2"))
    assert opened(tree) == (["a", "b"], [])


# ---- several of them ----


def data_set(root: Path, name: str, split: str) -> None:
    for kind in ("images", "labels"):
        (root / name / kind / split).mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (20, 10)).save(root / name / "images" / split / "a.png")
    (root / name / "labels" / split / "a.txt").write_text("0 .5 .5 .2 .2\n")


def places(name: str, other: str, root: Path) -> list[str]:
    """What a .yaml in the folder of the data set `name` has, if it speaks of the data set `other`."""
    up = "" if name == other else f"../{other}/"
    lines = [
        f"train: {up}images/train\nval: {up}images/val\n",
        f"path: {up or '.'}\ntrain: images/train\nval: [images/val, images/more]\n",
        f"path: {root / other}\ntrain: ./images//train/\n",
        f"path: /elsewhere/{other}\ntrain: images/train\nval: images/val\n",
        f"train: /elsewhere/{other}/images/train\nval: /elsewhere/{other}/images/val\n",
        f"path: {other}\nval: images\n",
        f"train: {root / other}/images/train\n",
        f"path: {up or '.'}\ntrain: train.txt\n",
        f"path: D:\\data\\{other}\ntrain: images\\train\nval: images\\val\n",
    ]
    if name == other:
        lines.append("train: ../images/train\nval: ../images/val\n")  # as Roboflow writes it
    return lines


PAIRS = [*itertools.product(range(10), range(9))]


@pytest.mark.parametrize("first", [False, True])
def test_the_yaml_that_names_the_photos_gives_the_classes(tmp_path: Path, first: bool) -> None:
    for name in ("mine", "other"):
        data_set(tmp_path, name, "train")
        (tmp_path / name / "train.txt").write_text("./images/train/a.png\n")
    folder = tmp_path / "mine"
    for ours, theirs in PAIRS:
        right, wrong = ("a.yaml", "z.yaml") if first else ("z.yaml", "a.yaml")
        (folder / right).write_text(places("mine", "mine", tmp_path)[ours] + "names: [right]\n")
        (folder / wrong).write_text(places("mine", "other", tmp_path)[theirs] + "names: [wrong]\n")
        assert opened(folder, "images/train", "labels/train") == (["right"], []), (ours, theirs)


@pytest.mark.parametrize("line", ["images\\val\\a.png\r\n", "./images/val/a.png\n", ".\\images\\val\\a.png"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_a_list_that_another_system_wrote_names_its_photos(tmp_path: Path, line: str, mark: str) -> None:
    data_set(tmp_path, "mine", "train")
    data_set(tmp_path, "mine", "val")
    folder = tmp_path / "mine"
    (folder / "val.txt").write_bytes((mark + line).encode())
    (folder / "train.txt").write_bytes((mark + line.replace("val", "train")).encode())
    (folder / "a.yaml").write_text("train: val.txt\nnames: [wrong]\n")
    (folder / "b.yaml").write_text("train: train.txt\nnames: [right]\n")
    assert opened(folder, "images/train", "labels/train") == (["right"], [])


def test_a_list_names_the_photos_of_each_of_its_folders(tmp_path: Path) -> None:
    data_set(tmp_path, "mine", "train")
    folder = tmp_path / "mine"
    (folder / "all.txt").write_text("images/val/a.png\n" * 5000 + "images/train/a.png\n")
    (folder / "a.yaml").write_text("train: images/val\nnames: [wrong]\n")
    (folder / "b.yaml").write_text("train: all.txt\nnames: [right]\n")
    assert opened(folder, "images/train", "labels/train") == (["right"], [])


def test_a_yaml_further_above_that_names_the_photos_counts_more_than_one_that_does_not(tmp_path: Path) -> None:
    data_set(tmp_path, "mine", "train")
    folder = tmp_path / "mine"
    (folder / "labels/a.yaml").write_text("path: ../other\ntrain: images/train\nnames: [wrong]\n")
    assert opened(folder, "images/train", "labels/train") == (["wrong"], [])
    (folder / "z.yaml").write_text("train: images/train\nnames: [right]\n")
    assert opened(folder, "images/train", "labels/train") == (["right"], [])
    (folder / "z.yaml").write_text("train: images/train\nnames: [person]\nkpt_shape: [2, 2]\n")
    with pytest.raises(leat.UnsupportedError, match=r"z.yaml says kpt_shape"):
        opened(folder, "images/train", "labels/train")


@pytest.mark.parametrize("text, who", [("train: images/train", "names these"), ("train: x", "neither of them names")])
def test_two_yamls_that_count_as_much_and_differ_are_said(tmp_path: Path, text: str, who: str) -> None:
    data_set(tmp_path, "mine", "train")
    for name in ("b", "a"):
        (tmp_path / "mine" / f"{name}.yaml").write_text(f"{text}\nnames: [{name}]\n")
    classes, said = opened(tmp_path / "mine", "images/train", "labels/train")
    assert classes == ["a"] and len(said) == 1 and "a.yaml, but" in said[0] and "b.yaml has others" in said[0]
    assert who in said[0]
    (tmp_path / "mine/b.yaml").write_text(f"{text}\nnames: {{0: a}}\n")
    assert opened(tmp_path / "mine", "images/train", "labels/train") == (["a"], [])


def test_a_list_of_classes_nearer_than_a_yaml_counts(tmp_path: Path) -> None:
    data_set(tmp_path, "mine", "train")
    (tmp_path / "mine/labels/classes.txt").write_text("near")
    (tmp_path / "mine/data.yaml").write_text("train: images/train\nnames: [far]\n")
    assert opened(tmp_path / "mine", "images/train", "labels/train") == (["near"], [])
