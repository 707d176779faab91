"""leat pack: what it stores, what it says, and what is left when it is stopped."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import pty
import resource
import select
import shutil
import signal
import subprocess
import time
import unicodedata
from pathlib import Path

import numpy as np
import pytest
from cli_support import Started, command, golden, jpeg, leat, leat_bytes, make_folder, png, stopped

import leat as package


def without_numbers_that_change(text: str) -> str:
    """Seconds and rates differ from run to run."""
    lines = []
    for line in text.splitlines():
        if " samples, " in line and " in " in line:
            line = line.split(", ")[0].split(": ", 1)[1]
        lines.append(line)
    return "\n".join(lines) + "\n"


def info(path: Path) -> dict:  # type: ignore[type-arg]
    return json.loads(leat("info", "--json", path).stdout)  # type: ignore[no-any-return]


def test_a_folder_with_classes_is_packed_and_counted(tmp_path: Path) -> None:
    make_folder(tmp_path / "photos", {"ant": 3, "bee": 4, "cat": 2})
    done = leat("pack", "photos", "photos.leat", cwd=tmp_path)
    golden("pack/classes.txt", without_numbers_that_change(done.stdout))
    about = info(tmp_path / "photos.leat")
    assert about["count"] == 9 and about["classes"] == ["ant", "bee", "cat"]
    labels = [leat("cat", tmp_path / "photos.leat", "--id", i, "--field", "label").stdout for i in range(9)]
    assert labels == ["0\n"] * 3 + ["1\n"] * 4 + ["2\n"] * 2
    assert not (tmp_path / "photos.leat.partial").exists() and not (tmp_path / "photos.leat.bad.jsonl").exists()


def test_labels_none_leaves_the_folders_out(tmp_path: Path) -> None:
    make_folder(tmp_path / "photos", {"a": 2, "b": 2})
    leat("pack", tmp_path / "photos", tmp_path / "p.leat", "--labels", "none")
    assert "label" not in [f["name"] for f in info(tmp_path / "p.leat")["fields"]]


def test_many_classes_are_cut_to_the_largest_and_smallest(tmp_path: Path) -> None:
    make_folder(tmp_path / "photos", {f"class{i:02d}": 1 + i % 4 for i in range(40)}, size=(4, 4))
    done = leat("pack", tmp_path / "photos", tmp_path / "p.leat")
    assert "... 30 more classes of 1 to 4 samples ..." in done.stdout
    assert len(done.stdout.splitlines()) == 13


def test_train_and_val_are_pointed_out(tmp_path: Path) -> None:
    make_folder(tmp_path / "photos" / "train", {"a": 2, "b": 2})
    make_folder(tmp_path / "photos" / "val", {"a": 1, "b": 1})
    done = leat("pack", tmp_path / "photos", tmp_path / "p.leat")
    assert "note: " in done.stderr and "train" in done.stderr and "val" in done.stderr


def test_quiet_prints_nothing(tmp_path: Path) -> None:
    make_folder(tmp_path / "photos", {"a": 2})
    done = leat("pack", tmp_path / "photos", tmp_path / "p.leat", "--quiet")
    assert done.stdout == "" and done.stderr == ""


def test_metadata_is_kept_and_wrong_metadata_is_an_error(tmp_path: Path) -> None:
    make_folder(tmp_path / "photos", {"a": 2})
    leat("pack", tmp_path / "photos", tmp_path / "p.leat", "--metadata", '{"licence": "CC0"}')
    assert info(tmp_path / "p.leat")["metadata"] == {"licence": "CC0"}
    leat("pack", tmp_path / "photos", tmp_path / "q.leat", "--metadata", "CC0", code=2)
    leat("pack", tmp_path / "photos", tmp_path / "l.leat", "--metadata", json.dumps({"a": "\u00e9" * 500}))
    line = next(x for x in leat("info", tmp_path / "l.leat").stdout.splitlines() if x.startswith("metadata"))
    assert len(line) < 160 and line.endswith("\u00e9 ... (--json has all of it)")
    assert info(tmp_path / "l.leat")["metadata"] == {"a": "\u00e9" * 500}
    assert not (tmp_path / "q.leat").exists()


def test_an_existing_target_is_kept_unless_overwrite_is_given(tmp_path: Path) -> None:
    make_folder(tmp_path / "photos", {"a": 2})
    leat("pack", tmp_path / "photos", tmp_path / "p.leat")
    before = (tmp_path / "p.leat").read_bytes()
    (tmp_path / "photos" / "a" / "9.png").write_bytes(png(8, 8, 99))
    done = leat("pack", tmp_path / "photos", tmp_path / "p.leat", code=2)
    assert "--overwrite" in done.stderr and (tmp_path / "p.leat").read_bytes() == before
    leat("pack", tmp_path / "photos", tmp_path / "p.leat", "--overwrite")
    assert info(tmp_path / "p.leat")["count"] == 3


def test_a_shard_does_not_take_the_place_of_the_set_that_it_is_of(tmp_path: Path) -> None:
    shards = ("--shard-bytes", 1)
    with package.Writer(tmp_path / "p.leat", {"x": package.field("uint8", (1 << 20,))}, shard_bytes=1) as writer:
        writer.write_batch({"x": np.zeros((40, 1 << 20), np.uint8)})
    before = {file.name: file.read_bytes() for file in tmp_path.glob("p.*")}
    assert len(before) > 2
    for name in ("convert", "pack"):
        for more in ((), shards):
            done = leat(name, "p.00000.leat", "./p.leat", *more, "--overwrite", cwd=tmp_path, code=2)
            assert "p.00000.leat is one of the shards that go when ./p.leat is replaced" in done.stderr
    assert {file.name: file.read_bytes() for file in tmp_path.glob("p.*")} == before
    os.symlink("p.leat", tmp_path / "link.leat")
    for dst in ("p.0.leat", "link.leat"):  # a file, and a link that becomes one
        leat("convert", tmp_path / "p.00000.leat", tmp_path / dst, "--overwrite")
    assert {file.name: file.read_bytes() for file in tmp_path.glob("p.*") if file.name != "p.0.leat"} == before
    (tmp_path / "p.leat").rename(tmp_path / "kept")
    done = leat("convert", "p.00000.leat", "p.leat", *shards, "--overwrite", cwd=tmp_path, code=2)
    assert "p.00000.leat is one of the shards" in done.stderr
    (tmp_path / "kept").rename(tmp_path / "p.leat")
    leat("convert", tmp_path / "p.leat", tmp_path / "p.leat", "--overwrite")
    assert info(tmp_path / "p.leat")["count"] == 40 and not (tmp_path / "p.00000.leat").exists()


def test_a_folder_as_target_is_refused_without_advice_that_would_not_help(tmp_path: Path) -> None:
    make_folder(tmp_path / "photos", {"a": 2})
    (tmp_path / "target").mkdir()
    for options in ((), ("--overwrite",)):
        done = leat("pack", tmp_path / "photos", tmp_path / "target", *options, code=2)
        assert "choose another name" in done.stderr and "--overwrite" not in done.stderr


def test_a_target_among_the_photos_is_warned_of(tmp_path: Path) -> None:
    make_folder(tmp_path / "photos", {"a": 2})
    (tmp_path / "photos2").mkdir()
    for target in ("photos/p.leat", "photos/a/p.leat", "photos2/../photos//q.leat"):
        done = leat("pack", "photos/", target, cwd=tmp_path)
        assert f"warning: {target} lies inside of photos/" in done.stderr and len(done.stderr.splitlines()) <= 2
        assert "inside" not in leat("pack", "photos", target, "--overwrite", "--quiet", cwd=tmp_path).stderr
    for target in ("photos2/p.leat", "q.leat", "./photos3.leat"):
        assert "warning" not in leat("pack", "photos", target, cwd=tmp_path).stderr
    assert "warning" not in leat("pack", "p.leat", "a/r.leat", cwd=tmp_path / "photos").stderr
    assert info(tmp_path / "photos")["count"] == 2


def test_a_file_of_leat_can_be_packed_again(tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "photos", {"a": 3, "b": 3})
    leat("pack", folder, tmp_path / "p.leat")
    leat("pack", tmp_path / "p.leat", tmp_path / "q.leat")
    one, two = info(tmp_path / "p.leat"), info(tmp_path / "q.leat")
    assert (
        one["fingerprint"] == two["fingerprint"] and one["fields"] == two["fields"] and one["classes"] == two["classes"]
    )
    assert (
        leat_bytes("cat", tmp_path / "q.leat", "--id", 5, "--field", "image")
        == (folder / "b" / "0002.png").read_bytes()
    )


def test_max_side_shrinks_large_photos_only(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image", reason="Pillow makes the JPEGs")
    folder = tmp_path / "photos" / "a"
    folder.mkdir(parents=True)
    (folder / "large.jpg").write_bytes(jpeg(400, 200, 1))
    (folder / "small.jpg").write_bytes(jpeg(90, 60, 2))
    leat("pack", tmp_path / "photos", tmp_path / "p.leat", "--max-side", 100)
    leat("cat", tmp_path / "p.leat", "--id", 0, "--field", "image", "--out", tmp_path / "0.jpg")
    assert image.open(tmp_path / "0.jpg").size == (100, 50)
    assert leat_bytes("cat", tmp_path / "p.leat", "--id", 1, "--field", "image") == (folder / "small.jpg").read_bytes()


# ---- bad photos ----------------------------------------------------------------------------------------------------


@pytest.fixture
def bad_folder(tmp_path: Path) -> Path:
    """Nine good PNGs and JPEG-less trouble: cut, empty, misnamed and text."""
    folder = make_folder(tmp_path / "photos", {"a": 4, "b": 5})
    (folder / "a" / "cut.png").write_bytes(png(60, 60, 1)[:5000])
    (folder / "b" / "empty.png").write_bytes(b"")
    (folder / "b" / "really_a_png.jpg").write_bytes(png(20, 20, 2))
    (folder / "b" / "text.jpg").write_text("this is not a photo")
    return folder


def bad_list(path: Path) -> list[dict]:  # type: ignore[type-arg]
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_bad_photos_are_marked_listed_and_keep_their_places(bad_folder: Path, tmp_path: Path) -> None:
    done = leat("pack", "photos", "p.leat", cwd=tmp_path)
    assert "3 broken: 3 marked, 0 left out. All of them: p.leat.bad.jsonl" in done.stdout
    bad = bad_list(tmp_path / "p.leat.bad.jsonl")
    assert [Path(b["path"]).name for b in bad] == ["cut.png", "empty.png", "text.jpg"]
    assert [b["index"] for b in bad] == [4, 10, 12] and not any(b["skipped"] for b in bad)
    assert all(b["reason"] for b in bad)
    about = info(tmp_path / "p.leat")
    assert about["count"] == 13 and about["broken"] == 3
    assert (
        leat_bytes("cat", tmp_path / "p.leat", "--id", 4, "--field", "image")
        == (bad_folder / "a" / "cut.png").read_bytes()
    )
    leat("verify", tmp_path / "p.leat")


def test_on_error_skip_leaves_bad_photos_out(bad_folder: Path, tmp_path: Path) -> None:
    done = leat("pack", "photos", "p.leat", "--on-error", "skip", cwd=tmp_path)
    assert "3 broken: 0 marked, 3 left out" in done.stdout
    assert all(b["skipped"] for b in bad_list(tmp_path / "p.leat.bad.jsonl"))
    assert info(tmp_path / "p.leat")["count"] == 10


def test_on_error_raise_stops_at_the_first_one_and_names_it(bad_folder: Path, tmp_path: Path) -> None:
    done = leat("pack", "photos", "p.leat", "--on-error", "raise", cwd=tmp_path, code=1)
    assert "cut.png" in done.stderr and "--on-error mark --resume" in done.stderr
    assert not (tmp_path / "p.leat").exists()


def test_what_raise_has_stopped_goes_on_with_mark(bad_folder: Path, tmp_path: Path) -> None:
    leat("pack", "photos", "p.leat", "--on-error", "raise", cwd=tmp_path, code=1)
    leat("pack", "photos", "p.leat", "--on-error", "mark", "--resume", cwd=tmp_path)
    leat("pack", "photos", "q.leat", cwd=tmp_path)
    assert (tmp_path / "p.leat").read_bytes() == (tmp_path / "q.leat").read_bytes()


def test_a_clean_pack_removes_the_list_of_an_earlier_one(bad_folder: Path, tmp_path: Path) -> None:
    leat("pack", "photos", "p.leat", cwd=tmp_path)
    for name in ("a/cut.png", "b/empty.png", "b/text.jpg"):
        (bad_folder / name).unlink()
    leat("pack", "photos", "p.leat", "--overwrite", cwd=tmp_path)
    assert not (tmp_path / "p.leat.bad.jsonl").exists()


def test_no_check_finds_only_what_the_headers_show(bad_folder: Path, tmp_path: Path) -> None:
    leat("pack", "photos", "p.leat", "--no-check", cwd=tmp_path)
    names = [Path(b["path"]).name for b in bad_list(tmp_path / "p.leat.bad.jsonl")]
    assert "cut.png" not in names and info(tmp_path / "p.leat")["count"] == 13


def test_a_name_that_would_steer_the_terminal_is_printed_harmless(tmp_path: Path) -> None:
    folder = tmp_path / "photos"
    folder.mkdir()
    (folder / "a\x1b[31m.png").write_bytes(b"no photo")
    (folder / "b.png").write_bytes(png(8, 8))
    done = leat("pack", "photos", "p.leat", cwd=tmp_path)
    assert "\x1b" not in done.stdout + done.stderr and "a\\x1b[31m.png" in done.stdout


# ---- stopped, resumed, refused ---------------------------------------------------------------------------------------


LARGE = 240  # photos of about 200 KB: a pack of them takes long enough to be stopped in the middle


@pytest.fixture(scope="module")
def large_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """About 48 MB of four different photos. It stays as it is."""
    folder = make_folder(tmp_path_factory.mktemp("large") / "large", {"a": 4}, size=(280, 240))
    originals = sorted((folder / "a").iterdir())
    for i in range(LARGE - 4):
        os.link(originals[i % 4], folder / "a" / f"copy{i:04d}.png")
    return folder


def pack_until_it_has_written(
    source: Path, target: Path, how: signal.Signals, least: int, options: tuple[str, ...] = ()
) -> subprocess.CompletedProcess[str]:
    return stopped([command(), "pack", source, target, "--num-threads", "1", *options], target, how, least)


def test_kill_in_the_middle_then_resume_gives_the_same_file(large_folder: Path, tmp_path: Path) -> None:
    done = pack_until_it_has_written(large_folder, tmp_path / "p.leat", signal.SIGKILL, 8 << 20)
    assert done.returncode == -signal.SIGKILL
    assert not (tmp_path / "p.leat").exists()
    leat("info", tmp_path / "p.leat", code=2)
    resumed = leat("pack", large_folder, tmp_path / "p.leat", "--resume")
    assert "are already in" in resumed.stderr and "resumed" in resumed.stdout
    leat("pack", large_folder, tmp_path / "q.leat")
    assert (tmp_path / "p.leat").read_bytes() == (tmp_path / "q.leat").read_bytes()
    assert not (tmp_path / "p.leat.partial").exists()


def test_ctrl_c_leaves_what_is_whole_and_says_how_to_go_on(large_folder: Path, tmp_path: Path) -> None:
    done = pack_until_it_has_written(large_folder, tmp_path / "p.leat", signal.SIGINT, 4 << 20)
    assert done.returncode == 130, done.stderr
    assert f"leat pack {large_folder} {tmp_path}/p.leat --num-threads 1 --resume" in done.stderr
    assert not (tmp_path / "p.leat").exists()
    leat("pack", large_folder, tmp_path / "p.leat", "--num-threads", 1, "--resume")
    leat("verify", tmp_path / "p.leat")


@pytest.mark.parametrize("options", [(), ("--shard-bytes", "4M")])
def test_what_an_interrupted_run_has_left_is_not_begun_anew_unless_asked_for(
    large_folder: Path, tmp_path: Path, options: tuple[str, ...]
) -> None:
    done = pack_until_it_has_written(large_folder, tmp_path / "p.leat", signal.SIGINT, 8 << 20, options)
    assert done.returncode == 130, done.stderr
    before = {path.name: path.read_bytes() for path in tmp_path.glob("p.*partial")}
    for other in ((), ("--photos", "fast"), ("--labels", "none")):  # what it was begun with does not matter
        refused = leat("pack", large_folder, tmp_path / "p.leat", *options, *other, code=2)
        assert len(refused.stderr.splitlines()) == 1
        assert "p.leat.partial: " in refused.stderr and "--resume continues, --overwrite starts again" in refused.stderr
    assert {path.name: path.read_bytes() for path in tmp_path.glob("p.*partial")} == before
    said = int(refused.stderr.split(".partial: ")[1].split(" sample")[0])
    shutil.copytree(tmp_path, tmp_path / "copy", ignore=shutil.ignore_patterns("copy"))
    resumed = leat("pack", large_folder, tmp_path / "copy" / "p.leat", *options, "--resume")
    assert 0 < said == int(resumed.stderr.split("leat pack: ")[1].split(f" of {LARGE}")[0])
    anew = leat("pack", large_folder, tmp_path / "p.leat", *options, "--overwrite")
    assert "resumed" not in anew.stdout
    leat("verify", tmp_path / "p.leat")
    assert not list(tmp_path.glob("p.*partial"))


@pytest.mark.parametrize("left", [0, 100, 5000])
def test_an_unfinished_file_that_holds_nothing_whole_is_begun_anew(
    large_folder: Path, tmp_path: Path, left: int
) -> None:
    done = pack_until_it_has_written(large_folder, tmp_path / "p.leat", signal.SIGKILL, 4 << 20)
    assert done.returncode == -signal.SIGKILL
    os.truncate(tmp_path / "p.leat.partial", left)
    leat("pack", large_folder, tmp_path / "p.leat", "--quiet")
    leat("verify", tmp_path / "p.leat")


def test_progress_on_a_terminal_is_one_line_that_is_cleared(large_folder: Path, tmp_path: Path) -> None:
    """The pack runs in pieces of some milliseconds, and is stopped between them until its drawing thread is due: so it
    draws however fast the machine is. It begins again if it was through before this process could stop it.
    """
    line = [command(), "pack", large_folder, tmp_path / "p.leat", "--num-threads", "1"]
    drawn = b""
    for _ in range(20):
        master, slave = pty.openpty()
        with Started(line, stdout=subprocess.PIPE, stderr=slave, preexec_fn=lambda: os.nice(5)) as process:
            os.close(slave)
            while process.poll() is None and not select.select([master], [], [], 0.002)[0]:
                process.send_signal(signal.SIGSTOP)
                time.sleep(0.3)
                process.send_signal(signal.SIGCONT)
            with contextlib.suppress(OSError):  # the terminal is gone when the command has ended
                while part := os.read(master, 4096):
                    drawn += part
            os.close(master)
            assert process.wait(300) == 0
        if drawn:
            break
        (tmp_path / "p.leat").unlink()
    text = drawn.decode()
    assert "samples" in text and "/s" in text and text.count("\n") == 0
    assert text.endswith("\r\x1b[K")


def test_a_full_disk_is_said_and_packing_can_go_on_afterwards(large_folder: Path, tmp_path: Path) -> None:
    def little_room() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (5 << 20, 5 << 20))

    options = ("--photos", "original", large_folder, tmp_path / "p.leat")
    done = leat("pack", *options, code=2, preexec_fn=little_room)
    assert f"To resume: leat pack {' '.join(map(str, options))} --resume\n" in done.stderr
    assert "p.leat" in done.stderr
    assert done.stderr.count(" byte ") == 1, done.stderr
    assert not (tmp_path / "p.leat").exists()
    leat("pack", large_folder, tmp_path / "p.leat", "--resume")
    leat("pack", large_folder, tmp_path / "q.leat")
    assert (tmp_path / "p.leat").read_bytes() == (tmp_path / "q.leat").read_bytes()


def heed_modes() -> None:
    """For root the modes of files count no more than for others: what it starts then may not pass over them."""
    if os.getuid() == 0:
        for capability in (1, 2):  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
            if ctypes.CDLL(None, use_errno=True).prctl(24, capability, 0, 0, 0):  # PR_CAPBSET_DROP
                raise OSError(ctypes.get_errno(), "prctl")


def test_a_photo_that_cannot_be_read_stops_and_packing_goes_on_when_it_can_be(tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "photos", {"a": 4, "b": 4})
    photo = folder / "b" / "0001.png"
    photo.chmod(0)
    done = leat("pack", folder, tmp_path / "p.leat", "--on-error", "skip", code=2, preexec_fn=heed_modes)
    assert "b/0001.png: sample 5, field image: cannot open the file: make it readable: Permission denied" in done.stderr
    assert "--resume" in done.stderr and "leave it out" not in done.stderr
    photo.chmod(0o644)
    leat("pack", folder, tmp_path / "p.leat", "--on-error", "skip", "--resume")
    assert info(tmp_path / "p.leat")["count"] == 8


# ---- the form of photos
# ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def mixed_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Five JPEGs, three PNGs and half a JPEG."""
    folder = make_folder(tmp_path_factory.mktemp("mixed") / "photos", {"": 5}, size=(320, 240), make=jpeg)
    make_folder(folder, {"": 3})
    (folder / "cut.jpg").write_bytes(jpeg(320, 240)[:3000])
    return folder


@pytest.mark.parametrize("form", ["original", "fast"])
def test_cat_gives_back_every_file_as_it_came(mixed_folder: Path, tmp_path: Path, form: str) -> None:
    leat("pack", mixed_folder, tmp_path / "p.leat", "--photos", form)
    for i, path in enumerate(sorted(mixed_folder.iterdir())):
        assert leat_bytes("cat", tmp_path / "p.leat", "--id", i, "--field", "image") == path.read_bytes()
    leat("verify", tmp_path / "p.leat")


def test_photos_that_stay_as_they_came_are_counted_with_reasons(mixed_folder: Path, tmp_path: Path) -> None:
    done = leat("pack", mixed_folder, tmp_path / "p.leat", "--photos", "fast")
    assert "3 photos are stored unchanged, not in the fast form:\n             3  it is a PNG" in done.stdout
    photos = info(tmp_path / "p.leat")["photos"]
    assert {form: photos[form]["count"] for form in photos} == {"fast": 5, "original": 4}
    assert photos["fast"]["original_bytes"] == sum(p.stat().st_size for p in mixed_folder.glob("0*.jpg"))
    text = leat("info", tmp_path / "p.leat").stdout
    assert "photos         5 fast, " in text and "times the " in text.partition("5 fast, ")[2].splitlines()[0]
    assert "4 original, " in text and "times" not in text.partition("4 original, ")[2].splitlines()[0]
    assert "stored as" not in leat("pack", mixed_folder, tmp_path / "q.leat").stdout


def test_a_photo_of_pixels_is_given_as_a_picture_file(mixed_folder: Path, tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image", reason="Pillow reads the photos")
    folder = shutil.copytree(mixed_folder, tmp_path / "photos")
    image.open(folder / "0000.jpg").convert("L").save(folder / "gray.jpg")
    leat("pack", folder, tmp_path / "p.leat", "--photos", "raw")
    for i, path in enumerate(sorted(folder.iterdir())):
        given = tmp_path / f"{i}.ppm"
        leat("cat", tmp_path / "p.leat", "--id", i, "--field", "image", "--out", given)
        if path.name == "cut.jpg":
            assert given.read_bytes() == path.read_bytes()
            continue
        want, got = image.open(path), image.open(given)
        assert (got.format, got.mode, got.size) == ("PPM", "L" if path.stem == "gray" else "RGB", want.size)
        assert got.tobytes() == want.tobytes()
        assert leat_bytes("cat", tmp_path / "p.leat", "--id", i, "--field", "image", "--raw") == want.tobytes()


def test_pixels_are_not_packed_again_but_the_fast_form_is(mixed_folder: Path, tmp_path: Path) -> None:
    leat("pack", mixed_folder, tmp_path / "raw.leat", "--photos", "raw")
    assert " raw (pixels), " in leat("info", tmp_path / "raw.leat").stdout
    done = leat("pack", tmp_path / "raw.leat", tmp_path / "again.leat", code=2)
    assert "pixels" in done.stderr and not (tmp_path / "again.leat.partial").exists()
    assert "name the folder or file with those" in done.stderr and "leat cat gives each photo as a PPM" in done.stderr
    leat("pack", mixed_folder, tmp_path / "original.leat")
    leat("pack", tmp_path / "original.leat", tmp_path / "fast.leat", "--photos", "fast")
    leat("pack", tmp_path / "fast.leat", tmp_path / "back.leat")
    assert [info(tmp_path / f"{name}.leat")["fingerprint"] for name in ("fast", "back")] == [
        info(mixed_folder)["fingerprint"]
    ] * 2
    for i, path in enumerate(sorted(mixed_folder.iterdir())):
        assert leat_bytes("cat", tmp_path / "back.leat", "--id", i, "--field", "image") == path.read_bytes()


def test_a_form_that_there_is_not_is_refused(mixed_folder: Path, tmp_path: Path) -> None:
    done = leat("pack", mixed_folder, tmp_path / "p.leat", "--photos", "quick", code=2)
    assert "original, fast or raw" in done.stderr


def test_shards_open_as_one(large_folder: Path, tmp_path: Path) -> None:
    """A shard ends with a group of samples, so it takes tens of MB to have several."""
    leat("pack", large_folder, tmp_path / "p.leat", "--shard-bytes", "16M")
    about = info(tmp_path / "p.leat")
    assert about["count"] == LARGE and len(about["shards"]) > 1
    assert sum(s["count"] for s in about["shards"]) == LARGE
    assert about["fingerprint"] == info(large_folder)["fingerprint"]
    assert (
        leat_bytes("cat", tmp_path / "p.leat", "--id", LARGE - 1, "--field", "image")
        == max(large_folder.rglob("*.png")).read_bytes()
    )
    leat("verify", tmp_path / "p.leat")
    shown = leat("info", tmp_path / "p.leat").stdout
    assert f"shards         {len(about['shards'])}" in shown


def test_a_target_in_a_folder_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    make_folder(tmp_path / "photos", {"a": 1})
    assert "nowhere" in leat("pack", tmp_path / "photos", tmp_path / "nowhere" / "p.leat", code=2).stderr


def test_an_empty_folder_is_an_error_or_an_empty_file_but_never_silent(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    done = leat("pack", tmp_path / "photos", tmp_path / "p.leat", code=None)
    assert done.returncode == 2 and "photos" in done.stderr


def test_columns_stay_aligned_in_any_script(tmp_path: Path) -> None:
    """Wide characters take two columns of a terminal, combining ones none."""
    names = ["dog", "漢字", "e\u0301te\u0301", "Füchse", "кот"]
    done = leat("pack", make_folder(tmp_path / "photos", dict.fromkeys(names, 1)), tmp_path / "a.leat")
    lines = {name: line for name in names for line in done.stdout.splitlines() if line.startswith(f"  {name} ")}
    taken = {
        name: sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) == "W" else 1 for c in line)
        for name, line in lines.items()
    }
    assert len(taken) == 5 and len(set(taken.values())) == 1


def test_a_target_that_is_no_file_is_not_told_of_overwriting(tmp_path: Path) -> None:
    for words in ([], ["--overwrite"]):
        said = leat("pack", make_folder(tmp_path / "photos", {"ant": 1}), "/dev/null", *words, code=2).stderr
        assert "/dev/null: the target is no regular file: choose another name" in said and "--overwrite" not in said


def test_a_file_that_leat_has_not_written_is_not_replaced(tmp_path: Path) -> None:
    """`leat pack *.jsonl --overwrite` without a target would replace the last of them by a pack of the others."""
    for i in range(3):
        (tmp_path / f"{i}.jsonl").write_text(f'{{"a": {i}}}\n')
    os.symlink("2.jsonl", tmp_path / "link")
    for words in (["0.jsonl", "1.jsonl", "2.jsonl"], ["[01].jsonl", "2.jsonl"], ["0.jsonl", "link"]):
        said = leat("pack", *words, "--overwrite", cwd=tmp_path, code=2).stderr
        assert f"{words[-1]} is a file that leat has not written, and --overwrite leaves such files" in said
    assert (tmp_path / "2.jsonl").read_text() == '{"a": 2}\n'
    (tmp_path / "empty").touch()
    (tmp_path / "damaged.leat").write_bytes(b"damaged")
    leat("pack", "0.jsonl", "own", "--shard-bytes", "1", cwd=tmp_path)
    for name in ("empty", "damaged.leat", "own", "own", "0.jsonl"):
        leat("pack", "0.jsonl", name, "--overwrite", cwd=tmp_path)
        leat("verify", name, cwd=tmp_path)
