"""Commands that look at data take a folder of photos with its annotations, as leat pack does."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from cli_support import leat as command
from cli_support import png
from PIL import Image

import leat


@pytest.fixture(scope="module")
def coco(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """photos/, a.json beside it, and the same packed: a.leat."""
    root = tmp_path_factory.mktemp("opening")
    (root / "photos").mkdir()
    for i in range(6):
        (root / "photos" / f"{i}.png").write_bytes(png(40, 30, i))
    images = [{"id": i, "file_name": f"{i}.png", "width": 40, "height": 30} for i in range(6)]
    boxes = [
        {"id": i, "image_id": i % 6, "category_id": 3 + i % 2, "bbox": [i, 2, 9, 8], "area": 72, "iscrowd": 0}
        for i in range(9)
    ]
    categories = [{"id": 3, "name": "ant"}, {"id": 4, "name": "bee"}]
    (root / "a.json").write_text(json.dumps({"images": images, "annotations": boxes, "categories": categories}))
    command("pack", "--coco", root / "a.json", root / "photos", root / "a.leat", "--quiet")
    return root


def test_statistics_of_annotations_in_place_are_those_of_the_pack(coco: Path) -> None:
    found = [
        json.loads(command("stats", *where, "--json").stdout)
        for where in ((coco / "a.leat",), (coco / "photos", "--coco", coco / "a.json"))
    ]
    assert found[0]["boxes"][0]["count"] == 9
    for key in ("count", "boxes", "classes", "numbers"):
        assert found[0][key] == found[1][key]


def test_boxes_are_seen_before_anything_is_packed(coco: Path, tmp_path: Path) -> None:
    command("view", coco / "a.leat", "--out", tmp_path / "a.png", "--size", 64)
    command("view", "--coco", coco / "a.json", coco / "photos", "--out", tmp_path / "b.png", "--size", 64)
    one, two = (np.asarray(Image.open(tmp_path / name))[66:] for name in ("a.png", "b.png"))  # below the heading
    assert (one == two).all()


def test_other_commands_open_annotations_too(coco: Path, tmp_path: Path) -> None:
    where = (coco / "photos", "--coco", coco / "a.json")
    assert "boxes, xyxy" in command("info", *where).stdout
    assert json.loads(command("bench", *where, "--seconds", 0.05, "--json").stdout)["count"] == 6
    assert json.loads(command("doctor", *where, "--seconds", 0.1, "--batch-size", 4, "--json").stdout)["bottleneck"]
    command("trace", *where, "--batch-size", 4, "--out", tmp_path / "t.json")


@pytest.mark.parametrize(
    ("name", "text", "said", "option"),
    [
        ("a.txt", "# from to when\n1 2 3\n2 3 4.5\n", 'lines of numbers .* format="events"', "--events takes"),
        ("b.csv", "name,year\na,2001\n", r"pyarrow\.csv\.read_csv", "--events takes"),
        ("c.json", '[{"a": 1},\n {"a": 2}]', r"one line each, as jq -c", "--coco FILE"),
        (
            "d.json",
            '\ufeff\n{"images": [], "annotations": []}',
            r"leat\.open\(photos, annotations=path\)",
            "--coco FILE",
        ),
        ("h", "PAR1\0\0\0", r'FILE\.parquet, or in Python by format="parquet"', ""),
        ("i.x", "ARROW1\0\0", r'FILE\.arrow, or in Python by format="arrow"', ""),
        ("e.log", "a text\nof two lines\n", 'format="text"', ""),
        ("f.bin", "\0\1", 'reads \\("leat", ', ""),
        ("g.bin", "\udcff" * 8, 'reads \\("leat", ', ""),
    ],
)
def test_a_file_that_shows_no_format_says_how_it_opens(
    tmp_path: Path, name: str, text: str, said: str, option: str
) -> None:
    path = tmp_path / name
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(leat.FormatError, match=f"{name} is no format that .*{said}"):
        leat.open(path)
    done = command("stats", path, code=2)
    assert option in done.stderr and ("\n--" in done.stderr) == bool(option)
    if name == "a.txt":
        assert len(leat.open(path, format="events")) == 2 and "events" in command("stats", path, "--events").stdout


@pytest.mark.parametrize("name", ["info", "stats", "view", "bench", "doctor", "trace", "pack"])
def test_options_of_annotations_without_any_are_refused(name: str, coco: Path, tmp_path: Path) -> None:
    needed = {"view": ["--out", "a.png"], "trace": ["--out", "a.json"], "pack": ["b.leat"]}
    done = command(name, coco / "photos", *needed.get(name, []), "--on-bad", "raise", code=2, cwd=tmp_path)
    assert "--on-bad is for annotations" in done.stderr


def test_pack_says_how_many_boxes_it_stored(coco: Path, tmp_path: Path) -> None:
    found = json.loads((coco / "a.json").read_text())
    found["annotations"][0]["category_id"] = 77
    (tmp_path / "b.json").write_text(json.dumps(found))
    done = command("pack", "--coco", tmp_path / "b.json", coco / "photos", tmp_path / "b.leat")
    assert "\n8 boxes, of 9 in the annotations\n" in done.stdout
    whole = command("pack", "--coco", coco / "a.json", coco / "photos", tmp_path / "c.leat")
    assert "\n9 boxes\n" in whole.stdout
    del found["categories"]
    (tmp_path / "b.json").write_text(json.dumps(found))
    done = command("pack", "--coco", tmp_path / "b.json", coco / "photos", tmp_path / "d.leat", code=1)
    assert "9 annotations and no category" in done.stderr and not (tmp_path / "d.leat").exists()


def test_the_comparison_of_forms_takes_no_annotations(coco: Path) -> None:
    done = command("bench", "--photos", coco / "photos", "--coco", coco / "a.json", code=2)
    assert "leave annotations" in done.stderr


def test_the_boxes_of_polygons_are_counted(tmp_path: Path) -> None:
    (tmp_path / "images").mkdir()
    (tmp_path / "labels").mkdir()
    for i in range(3):
        Image.new("RGB", (64, 48)).save(tmp_path / "images" / f"{i}.jpg")
        (tmp_path / "labels" / f"{i}.txt").write_text("0 0.1 0.1 0.5 0.1 0.5 0.5\n0 0.2 0.2 0.6 0.2 0.6 0.6\n")
    done = command("pack", "--yolo", tmp_path / "labels", tmp_path / "images", tmp_path / "a.leat")
    assert "\n6 boxes\n" in done.stdout, done.stdout
    wrong = command("pack", "--annotations", tmp_path / "labels", tmp_path / "images", "b.leat", code=2)
    assert "there is no option --annotations; did you mean --coco, --yolo or --voc?" in wrong.stderr


# ---- --where ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """a.jsonl of ten records: lang en or fr, n 0 to 9, text, and "meta.two"."""
    path = tmp_path_factory.mktemp("where") / "a.jsonl"
    path.write_text(
        "".join(
            json.dumps({"text": f"text {i}", "lang": ("en", "fr")[i % 2], "n": i, "meta": {"two": i * i}}) + "\n"
            for i in range(10)
        )
    )
    return path


def test_cat_gives_the_values_of_all_samples_that_a_clause_asks_for(records: Path) -> None:
    assert command("cat", records, "--where", "lang = 'fr' AND n > 4", "--field", "text").stdout == (
        "text 5\ntext 7\ntext 9\n"
    )
    assert command("cat", records, "--where", '"meta.two" IN (4, 9)', "--field", "n").stdout == "2\n3\n"
    assert command("cat", records, "--where", "n > 100", "--field", "n").stdout == ""


def test_info_and_stats_tell_of_the_part(records: Path) -> None:
    info = json.loads(command("info", records, "--where", "n < 3", "--json").stdout)
    assert (info["count"], info["of"], info["where"]) == (3, 10, "n < 3")
    assert "samples        3 of 10, where n < 3" in command("info", records, "--where", "n < 3").stdout
    stats = json.loads(command("stats", records, "--where", "n < 3", "--json").stdout)
    assert stats["count"] == 3 and stats["where"] == "n < 3" and stats["broken"] is None
    assert next(q for q in stats["numbers"] if q["field"] == "n")["most"] == 2


def test_a_part_is_packed(records: Path, tmp_path: Path) -> None:
    command("pack", records, tmp_path / "b.leat", "--where", "lang = 'en'", "--quiet")
    assert command("cat", tmp_path / "b.leat", "--where", "1", "--field", "n").stdout == "0\n2\n4\n6\n8\n"


def test_a_part_of_a_folder_of_photos_is_packed(coco: Path, tmp_path: Path) -> None:
    command("pack", coco / "photos", tmp_path / "b.leat", "--where", "name IN ('1.png', '4.png')", "--quiet")
    assert command("cat", tmp_path / "b.leat", "--where", "id = 1", "--field", "name").stdout == "4.png\n"
    assert json.loads(command("info", tmp_path / "b.leat", "--json").stdout)["count"] == 2


def test_other_commands_take_a_part(coco: Path, tmp_path: Path) -> None:
    part = (coco / "a.leat", "--where", "id < 4")
    assert json.loads(command("bench", *part, "--seconds", 0.05, "--json").stdout)["count"] == 4
    assert json.loads(command("doctor", *part, "--seconds", 0.1, "--batch-size", 2, "--json").stdout)["bottleneck"]
    command("trace", *part, "--batch-size", 2, "--out", tmp_path / "t.json")
    command("view", *part, "--out", tmp_path / "a.png", "--size", 64)


def test_a_part_without_samples_is_said(records: Path) -> None:
    done = command("bench", records, "--where", "n > 100", code=2)
    assert "of 10 samples none fits the clause of --where" in done.stderr


def test_arrays_of_any_length_are_not_run_together_as_bytes(tmp_path: Path) -> None:
    with leat.Writer(tmp_path / "a.leat", {"t": leat.field("uint16", (None,)), "p": leat.field("uint16", (2,))}) as w:
        for n in (1, 2):
            w.write({"t": np.arange(n, dtype=np.uint16), "p": np.arange(2, dtype=np.uint16)})
    wish = ("cat", tmp_path / "a.leat", "--where", "id < 2", "--raw", "--field")
    assert "without borders" in command(*wish, "t", code=2).stderr
    command(*wish, "p", "--out", tmp_path / "p.bin")
    assert (tmp_path / "p.bin").read_bytes() == bytes([0, 0, 1, 0]) * 2


@pytest.mark.parametrize("clause", ["nn > 3", "n >", "n IN (SELECT 1)", "random() > 0"])
def test_a_clause_that_is_refused_ends_a_command(clause: str, records: Path) -> None:
    done = command("info", records, "--where", clause, code=2)
    assert "That is the clause of --where." in done.stderr


def test_binary_values_of_several_samples_are_not_run_together(coco: Path) -> None:
    assert "without borders" in command("cat", coco / "a.leat", "--where", "id < 2", "--field", "image", code=2).stderr


def test_cat_takes_either_an_id_or_a_clause(records: Path) -> None:
    assert "exclude each other" in command("cat", records, "--where", "n = 1", "--id", 2, code=2).stderr


def test_a_batch_of_a_state_takes_no_clause(coco: Path, tmp_path: Path) -> None:
    wish = ("--where", "id = 1", "--batch", coco / "a.json", "--out", tmp_path / "a.png")
    assert "leave --where out" in command("view", coco / "a.leat", *wish, code=2).stderr


@pytest.mark.parametrize(
    "where", ["a.parquet", "a.lance/data.bin", "a.array_record", "a/state.json", "b/dataset_dict.json"]
)
def test_what_python_reads_is_an_error_that_says_so(where: str, tmp_path: Path) -> None:
    path = tmp_path / where
    path.parent.mkdir(exist_ok=True)
    path.write_text('{"_data_files": []}')
    top = tmp_path / where.partition("/")[0]
    for given in (top, f"{top}/") if top.is_dir() else (top,):
        assert "leat convert makes a file of leat of it for this command" in command("bench", given, code=2).stderr


def test_a_folder_of_photos_may_have_a_state_of_another_kind(tmp_path: Path) -> None:
    (tmp_path / "state.json").write_text('{"epoch": 3}')
    (tmp_path / "0.png").write_bytes(png(4, 3, 0))
    assert "image" in command("info", tmp_path).stdout
