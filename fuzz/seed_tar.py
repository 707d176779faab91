"""Writes the seeds of the targets of tars and arrays: `python fuzz/seed_tar.py fuzz/corpus`."""

from __future__ import annotations

import sys
import tarfile
import tempfile
from pathlib import Path

import numpy as np

import leat

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "python"))
from tar_made import header, member, npy, pax, tar  # noqa: E402

root = Path(sys.argv[1])


def write(target: str, name: str, data: bytes) -> None:
    (root / target).mkdir(parents=True, exist_ok=True)
    (root / target / name).write_bytes(data)


ARRAYS = {
    "f4": npy(np.arange(6, dtype="<f4").reshape(2, 3)),
    "big": npy(np.arange(3, dtype=">i2")),
    "fortran": npy(np.asfortranarray(np.arange(24, dtype="u1").reshape(2, 3, 4))),
    "scalar": npy(np.array(True)),
    "empty": npy(np.zeros((0, 4))),
    "objects": npy(np.array([None], dtype=object), allow_pickle=True),
    "records": npy(np.zeros(2, dtype=[("a", "f4"), ("b", "i8", (2,))])),
}
FILES = [("p/a.cls", b"1"), ("p/a.npy", ARRAYS["f4"]), ("p/b.cls", b"x"), ("p/b.json", b"{}"), ("__i__", b"i")]
LONG = [("d" * 200 + "/a.txt", b"1" * 600), ("\u00fc.txt", b"")]
TARS = {
    "ustar": tar(FILES),
    "pax": tar(FILES + LONG, tarfile.PAX_FORMAT, comment="c"),
    "gnu": tar(FILES + LONG, tarfile.GNU_FORMAT),
    "two": tar(FILES) + tar(FILES),
    "twice": member(b"a.txt", b"1") + member(b"a.TXT", b"2"),
    "pax_size": pax({"size": "3", "path": "x.y.z"}) + header(b"a.txt", b"00000000000\0") + b"abc" + bytes(509),
    "global": pax({"path": "x.txt"}, b"g") + member(b"a.txt", b"1"),
    "base256": header(b"a.txt", b"\x80" + bytes(10) + b"\1") + b"a" + bytes(511),
    "negative": header(b"a.txt", b"\xff" * 12),
    "sparse": pax({"GNU.sparse.major": "1"}) + member(b"a.txt", b"1"),
    "link": header(b"a.txt", b"00000001000\0", b"1") + member(b"b.txt", b"2"),
    "cut": tar(FILES)[:1100],
}
for name, data in ARRAYS.items():
    write("fuzz_npy", name, data)
for name, data in TARS.items():
    write("fuzz_tar", name, data.rstrip(b"\0") + bytes(-len(data.rstrip(b"\0")) % 512))
for name in ("ustar", "two"):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "a.tar")
        path.write_bytes(TARS[name])
        leat.open(path)
        write("fuzz_tar_index", name, Path(f"{path}.leat-index").read_bytes())
