"""What leat keeps beside files of text, damaged anywhere: it is made again, and no sample is lost or another one."""

from __future__ import annotations

import gzip
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from test_text import as_jsonl, records, zstd

import leat

N = 60
FLIPS = 24


def rows() -> list[dict[str, object]]:
    return [{**r, "l": [i] * (i % 5), "m": {"x": i / 4, "w": "uvw"[i % 3]}} for i, r in enumerate(records(N, 30))]


KINDS: dict[str, tuple[str, Callable[[bytes], bytes], dict[str, Any]]] = {
    "jsonl": ("a.jsonl", lambda data: data, {}),
    "lines": ("a.txt", lambda data: data, {"format": "text"}),
    "paragraphs": ("a.txt", lambda data: data.replace(b"\n", b"\n\n"), {"format": "text", "documents": "paragraph"}),
    "gzip": ("a.jsonl.gz", gzip.compress, {}),
    "frames": ("a.jsonl.zst", lambda data: zstd(data[:3000]) + zstd(data[3000:]), {}),
    "lines in gzip": ("a.txt.gz", gzip.compress, {"format": "text"}),
}


def scan(path: Path, options: dict[str, Any]) -> list[str]:
    ds = leat.open(path, **options)
    return [repr(ds[i]) for i in range(len(ds))]


def flipped(path: Path, draw: random.Random, change: str) -> None:
    """Changes something in the file, and not its times."""
    raw, st = bytearray(path.read_bytes()), path.stat()
    at = draw.randrange(len(raw))
    if change == "bit":
        raw[at] ^= 1 << draw.randrange(8)
    elif change == "run":
        raw[at : at + 40] = bytes(len(raw[at : at + 40]))
    else:
        del raw[at:]
    path.write_bytes(raw)
    os.utime(path, ns=(st.st_atime_ns, st.st_mtime_ns))


@pytest.mark.parametrize("kept", ["beside", "index_dir"])
@pytest.mark.parametrize("kind", KINDS)
def test_an_index_that_is_damaged_anywhere_is_made_again_at_once(tmp_path: Path, kind: str, kept: str) -> None:
    name, pack, options = KINDS[kind]
    path, draw = tmp_path / name, random.Random(f"{kind} {kept}")
    path.write_bytes(pack(as_jsonl(rows())))
    options = options if kept == "beside" else {**options, "index_dir": tmp_path / "x"}
    good = scan(path, options)
    (index,) = (tmp_path if kept == "beside" else tmp_path / "x").glob("*.leat-index")
    for flip in range(FLIPS):
        flipped(index, draw, ("bit", "bit", "run", "cut")[flip % 4])
        assert scan(path, options) == good
        assert scan(path, options) == good


def long_frame(data: bytes) -> bytes:
    return zstd(data * (8 * 2**20 // len(data) + 1), 1)


@pytest.mark.parametrize("on_error", ["raise", "skip"])
@pytest.mark.parametrize("kind", ["gzip", "one long frame"])
def test_a_copy_that_is_damaged_anywhere_is_an_error_once_and_loses_nothing(
    tmp_path: Path, kind: str, on_error: Any
) -> None:
    data, draw = as_jsonl(rows()), random.Random(f"{kind} {on_error}")
    path = tmp_path / ("a.jsonl.gz" if kind == "gzip" else "a.jsonl.zst")
    path.write_bytes(gzip.compress(data) if kind == "gzip" else long_frame(data))

    def read() -> list[Any]:
        outputs: dict[str, list[Any]] = {"l": [], "n": []}
        loader = leat.Loader(leat.open(path), 10, True, seed=4, outputs=outputs, on_error=on_error, framework="numpy")
        batches = [batch for _, batch in zip(range(20), loader, strict=False)]
        return [(n, list_.tolist()) for b in batches for n, list_ in zip(b["n"].tolist(), b["l"].unbind(), strict=True)]

    good, found = read(), 0
    copy = path.with_name(path.name + ".leat-frames.zst")
    want = [(r["n"], r["l"]) for r in rows()]
    assert sorted(good) == want if kind == "gzip" else len(good) == 200 and all(one in want for one in good)
    for flip in range(FLIPS if kind == "gzip" else 4):
        flipped(copy, draw, ("bit", "bit", "run", "cut")[flip % 4])
        try:
            assert read() == good
        except leat.ChangedError as e:
            found += 1
            assert "open it again" in str(e) and path.name in str(e)
        assert read() == good
    assert found


def test_an_index_that_cannot_be_removed_is_named_and_what_to_do(tmp_path: Path) -> None:
    folder = tmp_path / "locked"
    folder.mkdir()
    path = folder / "a.jsonl.gz"
    path.write_bytes(gzip.compress(as_jsonl(rows())))
    good, copy = scan(path, {}), folder / (path.name + ".leat-frames.zst")
    st, raw = copy.stat(), copy.read_bytes()
    copy.write_bytes(raw[:100] + bytes(40) + raw[140:])
    os.utime(copy, ns=(st.st_atime_ns, st.st_mtime_ns))
    folder.chmod(0o555)
    try:
        for _ in range(2):
            with pytest.raises(leat.ChangedError, match=r"remove the index .*a.jsonl.gz.leat-index, .* index_dir"):
                scan(path, {})
        assert scan(path, {"index_dir": tmp_path / "x"}) == good
    finally:
        folder.chmod(0o755)
    with pytest.raises(leat.ChangedError, match="open it again"):
        scan(path, {})
    assert scan(path, {}) == good


def test_an_index_that_is_of_the_file_no_more_is_made_again(tmp_path: Path) -> None:
    """A file with the same size, time and pieces as before, which no look at it when it is opened can tell."""
    path, text = tmp_path / "a.jsonl", b"".join(b'{"l": [%d]}\n' % i for i in range(100_000, 160_000))
    path.write_bytes(text)
    st, at = path.stat(), 20_000
    assert leat.open(path)[at]["l"].tolist() == [120_000]
    path.write_bytes(text.replace(b"[120000]", b"[999999]"))
    os.utime(path, ns=(st.st_atime_ns, st.st_mtime_ns))
    ds = leat.open(path)
    with pytest.raises(leat.ChangedError, match="are not those of which the index was made: open it again"):
        ds[at]
    assert leat.open(path)[at]["l"].tolist() == [999_999]


def test_row_indexes_of_photos_that_are_damaged_anywhere_change_no_pixel(
    tmp_path: Path, jpeg: Callable[..., bytes]
) -> None:
    draw = random.Random(7)
    (tmp_path / "i").mkdir()
    for i in range(4):
        (tmp_path / "i" / f"{i}.jpg").write_bytes(jpeg(200, 300, seed=i, quality=80))
    Image.new("RGB", (9, 9)).save(tmp_path / "i/z.png")
    outputs = {"image": [leat.ops.Decode(), leat.ops.RandomResizedCrop(16)]}

    def read(recheck: Any) -> bytes:
        ds = leat.open(tmp_path / "i", index_dir=tmp_path / "x", recheck=recheck)
        loader = leat.Loader(ds, 2, shuffle=True, outputs=outputs, framework="numpy", seed=1)
        return b"".join(np.asarray(batch["image"]).tobytes() for batch in loader)

    good = read("always")
    (kept,) = (tmp_path / "x").iterdir()
    for flip in range(FLIPS):
        flipped(kept, draw, ("bit", "bit", "run", "cut")[flip % 4])
        assert read(("always", "first", "never")[flip % 3]) == good
