"""What a folder of photos remembers from process to process, in ``index_dir``."""

from __future__ import annotations

import hashlib
import os
import pickle
import subprocess
import sys
import tempfile
import textwrap
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from process_support import Process

import leat

PHOTOS = 6


@pytest.fixture
def photos(tmp_path: Path, jpeg: Callable[..., bytes]) -> Path:
    folder = tmp_path / "photos"
    folder.mkdir()
    for i in range(PHOTOS):
        (folder / f"{i}.jpg").write_bytes(jpeg(400, 300, seed=i, quality=90))
    return folder


def crops(ds: leat.Dataset) -> str:
    """A hash of two epochs of crops: the first scans each photo, the second has what that left."""
    loader = leat.Loader(
        ds, batch_size=2, shuffle=True, seed=3, outputs={"image": [leat.ops.Decode(), leat.ops.RandomResizedCrop(32)]}
    )
    found = hashlib.sha256()
    for _ in range(2):
        for batch in loader:
            found.update(np.asarray(batch["image"]).tobytes())
    return found.hexdigest()


def crops_elsewhere(photos: str, indexes: str, pipe: Any) -> None:
    pipe.send([crops(leat.open(photos, index_dir=indexes, recheck=how)) for how in ("first", "always", "never")])
    pipe.recv()


def test_an_index_is_kept_and_found_by_other_processes(photos: Path, tmp_path: Path) -> None:
    expected = crops(leat.open(photos))
    indexes = tmp_path / "made" / "when needed"
    ds = leat.open(photos, index_dir=indexes)
    assert not indexes.exists()
    assert crops(ds) == expected
    del ds
    (kept,) = indexes.iterdir()
    size = kept.stat().st_size
    photo_bytes = sum(p.stat().st_size for p in photos.iterdir())
    assert PHOTOS * 100 < size < photo_bytes * 0.01 + 500
    other = Process(crops_elsewhere, str(photos), str(indexes))
    assert other.answer() == [expected] * 3
    other.end()
    assert kept.stat().st_size == size  # all was known


def replace(path: Path, content: bytes) -> None:
    """Other bytes of which neither size nor time tells."""
    st = path.stat()
    assert len(content) == st.st_size
    path.write_bytes(content)
    os.utime(path, ns=(st.st_atime_ns, st.st_mtime_ns))


def broken(photos: Path, indexes: Path, recheck: str) -> list[str]:
    """Which photos an epoch of crops of their middle leaves out, of a data set that is opened for it."""
    ds = leat.open(photos, index_dir=indexes, recheck=recheck)
    loader = leat.Loader(
        ds, batch_size=2, on_error="skip", outputs={"image": [leat.ops.Decode(), leat.ops.CenterCrop(32)]}
    )
    return sorted(ds[int(e.planned)]["name"] for batch in loader for e in batch.errors)


@pytest.mark.parametrize("recheck", ["first", "always"])
def test_a_photo_that_broke_behind_the_crop_without_other_size_or_time_is_found_broken(
    photos: Path, tmp_path: Path, recheck: str
) -> None:
    indexes = tmp_path / "indexes"
    whole = (photos / "2.jpg").read_bytes()
    assert broken(photos, indexes, recheck) == []
    replace(photos / "2.jpg", whole[:-200] + bytes(200))
    assert broken(photos, indexes, "never") == []  # the crop does not come near it
    for _ in range(2):
        assert broken(photos, indexes, recheck) == ["2.jpg"]
    replace(photos / "2.jpg", whole)
    for _ in range(2):
        assert broken(photos, indexes, recheck) == []


def test_a_dataset_with_indexes_is_pickled_as_it_was_opened(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ds = leat.open("photos", index_dir="indexes")
    state = pickle.dumps(ds[1:])
    expected = crops(ds)
    del ds
    monkeypatch.chdir("/")
    there = pickle.loads(state)
    assert len(there) == PHOTOS - 1 and there[0]["name"] == "1.jpg"
    assert crops(leat.open(photos, index_dir=tmp_path / "indexes", recheck="never")) == expected
    assert [p.name for p in tmp_path.iterdir() if p.is_dir() and p.name != "photos"] == ["indexes"]


def test_a_place_that_cannot_be_written_is_no_error(photos: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ds = leat.open(photos, index_dir=tmp_path / "file" / "indexes")
    assert crops(ds) == crops(leat.open(photos))


def test_the_log_says_why_the_folder_could_not_be_made(photos: Path) -> None:
    script = """
        import os, sys, leat
        ds = leat.open(sys.argv[1], index_dir=sys.argv[2])
        for _ in leat.Loader(ds, batch_size=2, outputs={"image": [leat.ops.Decode(), leat.ops.Resize((8, 8))]}):
            pass
        if os.geteuid() == 0:  # who may do anything becomes somebody who may not
            os.seteuid(65534)
        del ds
    """
    with tempfile.TemporaryDirectory() as parent:  # that everybody may enter
        os.chmod(parent, 0o555)
        done = subprocess.run([sys.executable, "-c", textwrap.dedent(script), photos, f"{parent}/indexes"],
        text=True, stderr=subprocess.PIPE,
                              env=dict(os.environ, LEAT_LOG="warning"), check=True)  # fmt: skip
    assert "cannot be opened for writing (Permission denied)" in done.stderr


def test_a_file_in_the_place_of_the_folder_for_indexes_is_an_error(photos: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(ValueError, match="file is a file: name a folder"):
        leat.open(photos, index_dir=tmp_path / "file")


def test_indexes_are_not_put_where_they_would_be_a_class(photos: Path, tmp_path: Path) -> None:
    classes = tmp_path / "classes"
    for name in ("cat", "dog"):
        (classes / name).mkdir(parents=True)
        (classes / name / "1.jpg").write_bytes((photos / "1.jpg").read_bytes())
    for inside in (classes / "ant", classes / "cat" / "indexes"):
        with pytest.raises(ValueError, match="would be taken for a class"):
            leat.open(classes, index_dir=inside)
    for _ in range(2):
        for allowed in (classes / ".indexes", tmp_path / "classes-indexes"):
            ds = leat.open(classes, index_dir=allowed)
            assert ds.classes == ["cat", "dog"]
            crops(ds)
            del ds
            assert allowed.exists()
