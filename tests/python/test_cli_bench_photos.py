"""leat bench --photos, on small photos made here and on those of LEAT_DATA."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import re
import resource
import signal
import subprocess
import time
import xml.etree.ElementTree as xml
from pathlib import Path
from typing import Any

import pytest
from cli_support import Started, command, jpeg, leat, make_folder, png, real_data

FORMS = ["original", "fast", "raw"]
SHORT = ("--seconds", 0.01)  # each run goes over whole epochs, at least one


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_folder(tmp_path_factory.mktemp("forms") / "photos", {"ant": 12, "bee": 20}, (120, 90), jpeg)


def report(*arguments: object, temporary: Path) -> dict[str, Any]:
    """The JSON of a short run, whose temporary files go to `temporary` and must be gone."""
    done = leat("bench", "--photos", "--json", *SHORT, *arguments, env=dict(os.environ, TMPDIR=str(temporary)))
    assert list(temporary.iterdir()) == []
    return json.loads(done.stdout)  # type: ignore[no-any-return]


@pytest.fixture(scope="module")
def measured(photos: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Each form of photos as large as they are, and of at most 60 and 30 pixels; with the plot forms.svg."""
    plot = photos.parent / "forms.svg"
    return report(photos, "--max-side", "60,30", "--plot", plot, temporary=tmp_path_factory.mktemp("temporary"))


def test_each_form_is_measured_on_all_photos(photos: Path, measured: dict[str, Any]) -> None:
    found = measured
    size = sum(p.stat().st_size for p in photos.rglob("*.jpg"))
    assert found["count"] == found["samples"] == 32
    assert found["source_bytes_per_photo"] == size / 32
    for form in found["forms"]:
        assert form["photos"] == 32 and form["photos_as_they_came"] == 0
        assert form["photos_per_second"] > 0 and form["packed_per_second"] > 0
        assert form["photos_per_second"] == sorted(form["runs"])[len(form["runs"]) // 2]
        assert form["storage_bytes_per_second"] == pytest.approx(form["photos_per_second"] * form["bytes_per_photo"])
        assert form["ratio"] == pytest.approx(form["bytes_per_photo"] / found["source_bytes_per_photo"])
    raw = found["forms"][2]
    assert raw["bytes_per_photo"] >= 120 * 90 * 3
    assert found["advice"][0].startswith("Photos in their own size: ")


def test_each_form_is_measured_with_each_largest_side(measured: dict[str, Any]) -> None:
    found = measured
    assert [(f["form"], f["max_side"]) for f in found["forms"]] == [
        (form, side) for side in (None, 60, 30) for form in FORMS
    ]
    raw = [f["bytes_per_photo"] for f in found["forms"] if f["form"] == "raw"]
    assert raw[0] > 120 * 90 * 3 and 60 * 45 * 3 < raw[1] < raw[0] and 30 * 22 * 3 < raw[2] < raw[1]
    assert len(found["advice"]) == 3 and "at most 30 pixels" in found["advice"][2]


def test_the_advice_goes_from_the_fewest_bytes_to_forms_that_are_faster_by_a_twentieth(
    measured: dict[str, Any],
) -> None:
    found = measured
    for side, said in zip((None, 60, 30), found["advice"], strict=True):
        forms = sorted((f for f in found["forms"] if f["max_side"] == side), key=lambda f: f["bytes_per_photo"])
        expected = [forms[0]]
        while faster := [f for f in forms if f["photos_per_second"] >= expected[-1]["photos_per_second"] * 1.05]:
            expected.append(faster[0])
        assert re.findall(r"\b(?:original|fast|raw)\b", said.partition(": ")[2]) == [f["form"] for f in expected]


def test_as_many_photos_are_packed_as_asked_for_spread_over_all(photos: Path, tmp_path: Path) -> None:
    found = report(photos, "--samples", 5, temporary=tmp_path)
    assert found["samples"] == 5 and found["count"] == 32
    sizes = [p.stat().st_size for p in sorted(photos.rglob("*.jpg"))]
    assert len(set(sizes)) > 16  # so that other photos would be noticed
    assert found["source_bytes_per_photo"] == sum(sizes[i] for i in (0, 6, 12, 19, 25)) / 5
    assert [f["photos"] for f in found["forms"]] == [5, 5, 5]


def test_a_file_gives_what_its_folder_gives(photos: Path, measured: dict[str, Any], tmp_path: Path) -> None:
    packed = photos.parent / "p.leat"
    leat("pack", photos, packed, "--quiet")
    found = report(packed, temporary=tmp_path)
    assert [f["form"] for f in found["forms"]] == FORMS and len(found["advice"]) == 1
    assert [f["bytes_per_photo"] for f in found["forms"]] == [f["bytes_per_photo"] for f in measured["forms"][:3]]


def test_a_form_that_no_photo_can_have_is_said_so(tmp_path: Path) -> None:
    folder, temporary = make_folder(tmp_path / "photos", {"a": 4}, make=png), tmp_path / "temporary"
    temporary.mkdir()
    original, fast, raw = report(folder, temporary=temporary)["forms"]
    assert "photos_per_second" in original and "photos_per_second" in raw
    assert "photos_per_second" not in fast and fast["missing"].startswith("no photo can have this form: ")
    table = leat("bench", "--photos", folder, *SHORT).stdout
    assert fast["missing"] in next(line for line in table.splitlines() if line.startswith("fast "))


def test_photos_that_cannot_have_a_form_are_counted(tmp_path: Path) -> None:
    folder, temporary = make_folder(tmp_path / "photos", {"a": 4}, make=png), tmp_path / "temporary"
    make_folder(folder, {"b": 5}, make=jpeg)
    temporary.mkdir()
    fast = report(folder, temporary=temporary)["forms"][1]
    assert (fast["photos"], fast["photos_as_they_came"]) == (9, 4)
    assert "fast, max side -: 4 of 9 photos cannot have this form" in leat("bench", "--photos", folder, *SHORT).stdout


def test_broken_photos_are_left_out(tmp_path: Path) -> None:
    folder, temporary = make_folder(tmp_path / "photos", {"a": 6}, make=jpeg), tmp_path / "temporary"
    temporary.mkdir()
    bad = folder / "a" / "0003.jpg"
    bad.write_bytes(bad.read_bytes()[:-30])
    whole = sum(p.stat().st_size for p in folder.rglob("*.jpg") if p != bad)
    for form in report(folder, temporary=temporary)["forms"]:
        assert form["photos"] == 5
        assert form["ratio"] == pytest.approx(form["bytes_per_photo"] * 5 / whole)
    assert "1 of 6 photos are broken and left out" in leat("bench", "--photos", folder, *SHORT).stdout


def test_photos_that_are_all_broken_are_a_fault(tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "photos", {"a": 3}, make=jpeg)
    for photo in folder.rglob("*.jpg"):
        photo.write_bytes(photo.read_bytes()[:60])
    assert "photos: all photos are broken: " in leat("bench", "--photos", folder, code=1).stderr


def test_photos_that_are_kept_as_pixels_are_refused(photos: Path, tmp_path: Path) -> None:
    leat("pack", photos, tmp_path / "raw.leat", "--photos", "raw", "--quiet")
    done = leat("bench", "--photos", tmp_path / "raw.leat", code=2)
    assert "raw.leat holds photos as pixels" in done.stderr and done.stdout == ""


def test_the_table_and_the_plot_name_each_form(photos: Path) -> None:
    out = leat("bench", "--photos", photos, *SHORT, "--max-side", 40).stdout
    table, plot = out.split("Photos: bytes at rest and training speed")
    assert [line.split()[:2] for line in table.splitlines() if line.startswith(tuple(FORMS))] == [
        [f, s] for s in ("-", "40") for f in FORMS
    ]
    assert "Photos of at most 40 pixels a side: " in table
    assert "photos per second, one core" in plot and "bytes per photo" in plot
    assert plot.count(" 40") >= 3 and "raw 40" in plot


def test_the_plot_is_svg(photos: Path, measured: dict[str, Any]) -> None:
    root = xml.parse(photos.parent / "forms.svg").getroot()
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    texts = {e.text for e in root.iter("{http://www.w3.org/2000/svg}text")}
    assert {
        "photos per second, one core",
        "bytes per photo (logarithmic)",
        "original",
        "fast",
        "raw",
        "raw 60",
    } <= texts


@pytest.mark.parametrize(("target", "why"), [("no/forms.svg", "No such file or directory"), (".", "Is a directory")])
def test_a_plot_that_cannot_be_written_ends_the_run_before_it_measures(
    photos: Path, tmp_path: Path, target: str, why: str
) -> None:
    done = leat("bench", "--photos", photos, *SHORT, "--samples", 2, "--plot", tmp_path / target, code=2)
    assert f"the plot could not be written there: {why}" in done.stderr and done.stdout == ""
    assert list(tmp_path.iterdir()) == []


def test_a_new_plot_takes_the_place_of_the_old_one_when_it_is_whole(photos: Path, tmp_path: Path) -> None:
    (tmp_path / "kept.svg").write_text("old")
    (tmp_path / "kept.svg").chmod(0o640)
    os.link(tmp_path / "kept.svg", tmp_path / "forms.svg")
    (tmp_path / "link.svg").symlink_to("forms.svg")
    leat("bench", "--photos", photos, *SHORT, "--samples", 2, "--plot", tmp_path / "link.svg")
    assert (tmp_path / "kept.svg").read_text() == "old"
    assert (tmp_path / "link.svg").is_symlink() and (tmp_path / "forms.svg").stat().st_mode & 0o777 == 0o640
    assert xml.parse(tmp_path / "forms.svg").getroot().tag.endswith("svg")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["forms.svg", "kept.svg", "link.svg"]


def test_a_plot_behind_a_link_to_nothing_is_made_where_the_link_leads(photos: Path, tmp_path: Path) -> None:
    (tmp_path / "link.svg").symlink_to("forms.svg")
    leat("bench", "--photos", photos, *SHORT, "--samples", 2, "--plot", tmp_path / "link.svg")
    assert (tmp_path / "link.svg").is_symlink()
    assert xml.parse(tmp_path / "forms.svg").getroot().tag.endswith("svg")


def test_a_plot_for_which_there_is_no_room_is_a_failure(photos: Path) -> None:
    done = leat("bench", "--photos", photos, *SHORT, "--samples", 2, "--plot", "/dev/full", code=2)
    assert "/dev/full: the plot could not be written: No space left on device" in done.stderr


def test_an_own_program_is_run(photos: Path, tmp_path: Path) -> None:
    (tmp_path / "program.json").write_text(
        json.dumps(
            {
                "operators": {"a": {"type": "Decode", "mode": "GRAY"}, "b": {"type": "Resize", "size": [16, 16]}},
                "outputs": {"x": {"field": "image", "chain": ["a", "b"]}},
            }
        )
    )
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    found = report(
        photos, "--program", tmp_path / "program.json", "--batch-size", 5, "--order", "sequential", temporary=temporary
    )
    assert found["program"].endswith("program.json") and found["batch_size"] == 5 and found["order"] == "sequential"
    assert all(f["photos_per_second"] > 0 for f in found["forms"])


def test_a_full_disk_is_told_with_a_way_out(photos: Path, tmp_path: Path) -> None:
    def little_room() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (8 << 10, 8 << 10))

    done = leat("bench", "--photos", photos, code=2, env=dict(os.environ, TMPDIR=str(tmp_path)), preexec_fn=little_room)
    assert "writing a temporary file failed" in done.stderr and "TMPDIR names another place" in done.stderr
    assert "resume" not in done.stderr and list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interruption_leaves_no_temporary_files(photos: Path, tmp_path: Path, number: int) -> None:
    line = [command(), "bench", "--photos", str(photos), "--seconds", "1000"]
    environment = dict(os.environ, TMPDIR=str(tmp_path))
    with Started(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment) as process:
        deadline = time.monotonic() + 120
        while not list(tmp_path.iterdir()):
            assert time.monotonic() < deadline and process.poll() is None
            time.sleep(0.001)
        process.send_signal(number)
        out, err = process.communicate(timeout=120)
    assert process.returncode == 130 and out == b"" and err.endswith(b"leat bench: interrupted.\n")
    assert list(tmp_path.iterdir()) == []


def test_the_progress_says_the_time_that_is_left_and_an_interrupted_training_leaves_no_files(
    photos: Path, tmp_path: Path
) -> None:
    master, slave = pty.openpty()
    line = [command(), "bench", "--photos", str(photos), "--seconds", "1000"]
    environment = dict(os.environ, TMPDIR=str(tmp_path))
    with Started(line, stdout=subprocess.PIPE, stderr=slave, env=environment) as process:
        os.close(slave)
        shown = b""
        while b" left  training" not in shown:
            shown += os.read(master, 4096)  # it ends with an error if the process does
        process.send_signal(signal.SIGTERM)
        with contextlib.suppress(OSError):  # the other end is closed
            while piece := os.read(master, 4096):
                shown += piece
        assert process.wait(120) == 130 and process.stdout.read() == b""
    os.close(master)
    assert b"measuring" in shown and b"samples" not in shown and b"leat bench: interrupted." in shown
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--max-side", "256"], "needs --photos."),
        (["--samples", "3"], "needs --photos."),
        (["--plot", "x.svg"], "needs --photos."),
        (["--photos", "--max-side", "256,0"], "--max-side takes a whole number from 1 to 65535"),
        (["--photos", "--max-side", "256,,512"], "--max-side takes a whole number"),
        (["--photos", "--max-side", "256,256"], "--max-side names 256 twice"),
        (["--photos", "--max-side", "1,2,3,4,5,6,7,8,9"], "at most 8 numbers"),
        (["--photos", "--num-threads", "2"], "--photos measures one thread"),
    ],
)
def test_options_that_do_not_fit_are_answered(photos: Path, arguments: list[str], said: str) -> None:
    done = leat("bench", photos, *arguments, code=2)
    assert said in done.stderr and done.stdout == ""


def test_a_source_without_photos_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    done = leat("bench", "--photos", tmp_path / "empty", code=2)
    assert "empty" in done.stderr and done.stdout == ""


def test_a_folder_for_temporary_files_that_is_not_there_is_named(photos: Path, tmp_path: Path) -> None:
    done = leat("bench", "--photos", photos, code=2, env=dict(os.environ, TMPDIR=str(tmp_path / "gone")))
    assert "gone: no folder for temporary files" in done.stderr


def test_the_photos_of_imagenet_have_each_form(tmp_path: Path) -> None:
    found = report(real_data("imagenet"), "--samples", 12, "--max-side", 256, temporary=tmp_path)
    bytes_of = {(f["form"], f["max_side"]): f["bytes_per_photo"] for f in found["forms"]}
    assert all(f["photos"] == 12 and f["photos_as_they_came"] == 0 for f in found["forms"])
    assert bytes_of["original", None] < bytes_of["fast", None] < bytes_of["raw", None]
    assert all(bytes_of[form, 256] < bytes_of[form, None] for form in FORMS)
