"""Files whose links, mode or name change while they are open are read on; files whose bytes change are not."""

import gzip
import io
import os
import struct
import tarfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import leat


def tar(path: Path) -> None:
    with tarfile.open(path, "w") as out:
        for i in range(4):
            member = tarfile.TarInfo(f"{i}.txt")
            member.size = 3
            out.addfile(member, io.BytesIO(f"s-{i}".encode()))


def tokens(path: Path) -> None:
    path.with_suffix(".bin").write_bytes(np.arange(8, dtype="<u2").tobytes())
    path.write_bytes(
        b"MMIDIDX\0\0"
        + struct.pack("<QBQQ", 1, 8, 4, 5)
        + np.full(4, 2, "<i4").tobytes()
        + (4 * np.arange(4, dtype="<i8")).tobytes()
        + np.arange(5, dtype="<i8").tobytes()
    )


FILES: dict[str, Callable[[Path], object]] = {
    "a.txt": lambda path: path.write_text("a\nb\nc\nd\n"),
    "a.txt.gz": lambda path: path.write_bytes(gzip.compress(b"a\nb\nc\nd\n")),
    "a.jsonl": lambda path: path.write_text("".join(f'{{"x": {i}}}\n' for i in range(4))),
    "a.fa": lambda path: path.write_text("".join(f">s{i}\nACGT\n" for i in range(4))),
    "a.npy": lambda path: np.save(path, np.arange(4)),
    "a.npz": lambda path: np.savez(path, x=np.arange(4), y=np.ones((4, 2))),
    "a.tar": tar,
    "a.idx": tokens,
}


@pytest.mark.parametrize("name", FILES)
def test_what_is_not_of_the_bytes_is_read_on(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    FILES[name](path)
    data = path.with_suffix(".bin") if name == "a.idx" else path
    ds = leat.open(path, format="text") if name.startswith("a.txt") else leat.open(path)
    first = [repr(ds[i]) for i in range(4)]
    loader = leat.Loader(ds, batch_size=2)
    assert sum(1 for _ in loader) == 2
    data.chmod(0o400)
    os.link(data, tmp_path / "link")
    data.rename(tmp_path / "elsewhere")
    assert [repr(ds[i]) for i in range(4)] == first
    assert sum(1 for _ in loader) == 2
    os.utime(tmp_path / "elsewhere", ns=(1, 1))
    with pytest.raises(leat.ChangedError, match="changed after it was opened"):
        next(iter(loader))
