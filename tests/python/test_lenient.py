"""JPEGs that can be decoded with warnings: broken by default, decoded with ``strict=False``, counted by kind; and one
reason for one broken photo, wherever it is found.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli_support import leat as command

import leat

STRICT, LENIENT = leat.ops.Decode(), leat.ops.Decode(strict=False)
Photos = dict[str, bytes]


def with_junk(data: bytes) -> bytes:
    """Bytes between two segments, which Pillow and browsers pass over."""
    at = data.index(b"\xff\xdb")
    return data[:at] + b"junk" + data[at:]


@pytest.fixture(name="photos")
def photos_fixture(jpeg: Callable[..., bytes]) -> Photos:
    cut = jpeg(64, 48, 2)
    return {
        "0": jpeg(64, 48, 0),
        "1": with_junk(jpeg(64, 48, 1)),
        "2": cut[: len(cut) * 2 // 3],
        "3": b"\xff\xd8\xff no photo",
    }


@pytest.fixture(name="folder")
def folder_fixture(tmp_path: Path, photos: Photos) -> Path:
    path = tmp_path / "photos"
    path.mkdir()
    for name, data in photos.items():
        (path / f"{name}.jpg").write_bytes(data)
    return path


def pack(path: Path, data: Photos, **options: Any) -> leat.Writer:
    with leat.Writer(path, {"image": "image", "name": "str"}, **options) as w:
        for name, value in data.items():
            w.add(image=value, name=name)
    return w


def open_loader(path: Path, decode: leat.ops.Decode, **options: Any) -> Any:
    chain = [decode, leat.ops.CenterCrop((40, 40)), leat.ops.ToLayout("NHWC")]
    return leat.Loader(leat.open(path), 1, outputs={"image": chain}, framework="numpy", **options)


def decoded(path: Path, decode: leat.ops.Decode) -> tuple[dict[int, Any], dict[str, int]]:
    loader = open_loader(path, decode, epochs=1)
    return {int(b.ids[0]): b["image"][0] for b in loader}, loader.stats()["warnings"]


@pytest.fixture(name="good")
def good_fixture(photos: Photos) -> Photos:
    return {name: data for name, data in photos.items() if name != "3"}


@pytest.mark.parametrize("on", ["folder", "packed"])
def test_a_lenient_decode_takes_what_a_strict_one_finds_broken(tmp_path: Path, good: Photos, on: str) -> None:
    path = tmp_path / "photos"
    if on == "folder":
        path.mkdir()
        for name, data in good.items():
            (path / f"{name}.jpg").write_bytes(data)
    else:
        pack(path, good)  # marks them
    for name in ("1", "2"):
        with pytest.raises(leat.BrokenSampleError, match="JPEG"):
            open_loader(path, STRICT).batch_at(0, int(name))
    rows, counts = decoded(path, LENIENT)
    assert sorted(rows) == [0, 1, 2]
    assert counts["extraneous bytes"] == 1 and counts["premature end of file"] == 1
    assert decoded(path, LENIENT)[1] == counts  # also when it is known what they are
    with pytest.raises(leat.BrokenSampleError):
        open_loader(path, STRICT).batch_at(0, 1)


@pytest.mark.parametrize("on", ["folder", "index_dir", "packed"])
def test_what_a_lenient_decode_takes_is_broken_for_a_strict_one_as_before(
    tmp_path: Path, jpeg: Callable[..., bytes], on: str
) -> None:
    whole, path = jpeg(64, 48, 0), tmp_path / "photos"
    data = {"0": whole, "1": whole[:-2] + bytes(range(1, 60)) + whole[-2:]}  # what libjpeg only sees as it finishes
    more: dict[str, Any] = {"index_dir": tmp_path / "indexes"} if on == "index_dir" else {}
    if on == "packed":
        pack(path, data, lenient=True)
    else:
        path.mkdir()
        for name, photo in data.items():
            (path / f"{name}.jpg").write_bytes(photo)
    ds = leat.open(path, **more)
    for decode, found in ((LENIENT, [0, 1]), (STRICT, [0]), (LENIENT, [0, 1])):
        for kept in (ds, leat.open(path, **more)):
            chains = {"image": [decode, leat.ops.CenterCrop(40)]}
            for batch in leat.Loader(kept, 2, outputs=chains, on_error="skip", framework="numpy", epochs=1):
                assert batch.ids.tolist() == found
    twice = {name: leat.Out("image", [d, leat.ops.CenterCrop(8)]) for name, d in (("a", LENIENT), ("b", STRICT))}
    (batch,) = leat.Loader(leat.open(path), 2, outputs=twice, on_error="skip", framework="numpy")
    assert batch.ids.tolist() == [0]


@pytest.mark.parametrize("form", ["original", "fast", "raw"])
def test_a_lenient_writer_calls_nothing_broken_that_can_be_decoded(tmp_path: Path, photos: Photos, form: str) -> None:
    w = pack(tmp_path / "a.leat", photos, lenient=True, photos=form)
    assert [b[0] for b in w.broken] == [3] and "1 broken" in repr(w)
    assert w.warned["extraneous bytes"] == 1 and w.warned["premature end of file"] == 1
    assert (form == "fast") == any("damaged" in reason for reason in w.as_came)
    health = leat.open(tmp_path / "a.leat").column("image.health").tolist()
    assert health == ([1, 1, 1, 2] if form == "raw" else [1, 0, 0, 2])  # nobody may trust them who is strict
    lenient = open_loader(tmp_path / "a.leat", LENIENT)
    rows = [lenient.batch_at(0, i)["image"][0] for i in range(3)]
    pack(tmp_path / "b.leat", photos)
    strict = open_loader(tmp_path / "b.leat", LENIENT)
    assert all(np.array_equal(row, strict.batch_at(0, i)["image"][0]) for i, row in enumerate(rows))
    if form == "raw":
        assert np.array_equal(open_loader(tmp_path / "a.leat", STRICT).batch_at(0, 2)["image"][0], rows[2])
    else:
        with pytest.raises(leat.BrokenSampleError):
            open_loader(tmp_path / "a.leat", STRICT).batch_at(0, 2)
    command("verify", tmp_path / "a.leat")


def test_large_photos_with_warnings_are_made_smaller(tmp_path: Path, good: Photos) -> None:
    w = pack(tmp_path / "a.leat", good, lenient=True, max_side=48)
    assert not w.broken and set(w.warned) >= {"extraneous bytes", "premature end of file"}
    assert leat.open(tmp_path / "a.leat").column("image.width").tolist() == [48] * 3
    assert leat.open(tmp_path / "a.leat").column("image.health").tolist() == [1] * 3  # they are new photos


def test_on_bad_of_the_writer(tmp_path: Path, photos: Photos) -> None:
    assert [b[1] for b in pack(tmp_path / "a.leat", photos, on_bad="skip").broken] == [True] * 3
    assert len(leat.open(tmp_path / "a.leat")) == 1
    with pytest.raises(leat.BrokenSampleError):
        pack(tmp_path / "b.leat", photos, on_bad="raise")
    with pytest.raises(ValueError, match="on_bad"):
        pack(tmp_path / "c.leat", photos, on_bad="ignore")
    with pytest.raises(ValueError, match="quality"):
        pack(tmp_path / "c.leat", photos, quality=101)


def test_a_resume_with_another_leniency_is_refused(tmp_path: Path, photos: Photos) -> None:
    w = leat.Writer(tmp_path / "a.leat", {"image": "image", "name": "str"}, lenient=True)
    w.add(image=photos["1"], name="1")
    w.abort()
    with pytest.raises(leat.ChangedError, match="lenient: on then, off now"):
        leat.Writer(tmp_path / "a.leat", {"image": "image", "name": "str"}, resume=True)


@pytest.mark.parametrize("lenient", [False, True])
@pytest.mark.parametrize("form", ["original", "fast", "raw"])
def test_a_broken_photo_has_one_reason_wherever_it_is_found(
    tmp_path: Path, folder: Path, photos: Photos, form: str, lenient: bool
) -> None:
    w = pack(tmp_path / "a.leat", photos, photos=form, lenient=lenient)
    reasons = {index: reason for index, _, _, reason in w.broken}
    assert sorted(reasons) == ([3] if lenient else [1, 2, 3])
    said = command("pack", folder, tmp_path / "b.leat", "--photos", form, *["--lenient"] * lenient).stdout
    for index, reason in reasons.items():
        assert reason in said
        for path in (tmp_path / "a.leat", folder):
            for _ in range(2):  # when it is found, and when it is known
                with pytest.raises(leat.BrokenSampleError) as e:
                    open_loader(path, LENIENT if lenient else STRICT).batch_at(0, index)
                assert reason in str(e.value)


def test_leat_pack_counts_what_it_passes(tmp_path: Path, folder: Path) -> None:
    said = command("pack", folder, tmp_path / "a.leat", "--lenient").stdout
    assert "photos that are decoded with warnings, by Decode(strict=False):\n" in said
    assert "1  extraneous bytes\n" in said and "1 broken: 1 marked" in said


def test_errors_show_hostile_names_of_files_escaped(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "evil\x1b[31m.jpg").write_bytes(b"\xff\xd8\xff no photo")
    data = leat.open(tmp_path)
    for policy in ("raise", "skip"):
        with pytest.raises(leat.BrokenSampleError) as e:
            list(leat.Loader(data, 1, outputs={"image": leat.presets.imagenet_val(8)}, on_error=policy))
        assert "evil\\x1b[31m.jpg" in str(e.value) and "\x1b" not in str(e.value)
