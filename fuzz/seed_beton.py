"""Writes the seeds of the targets of FFCV's files and of kept places: `python fuzz/seed_beton.py fuzz/corpus`."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import leat

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "python"))
from beton_made import BYTES, FLOAT, INT, JSON, NDARRAY, PAGE, RGB, TENSOR, Made, array_arguments  # noqa: E402

root = Path(sys.argv[1])


def write(target: str, name: str, data: bytes) -> None:
    (root / target).mkdir(parents=True, exist_ok=True)
    (root / target / name).write_bytes(data)


JPEG = b"\xff\xd8 no more of it \xff\xd9"
MADE = {
    "numbers": Made([("i", INT, b""), ("f", FLOAT, b"")], [[1, 0.5], [-2, 2.5]]),
    "photos": Made([("p", RGB, b""), ("i", INT, b"")], [[(1, 1, 2, b"pixels"), 3], [(0, 1, 2, JPEG), 4]], tight=True),
    "texts": Made([("b", BYTES, b""), ("j", JSON, b"")], [[b"", b"{}\0"], [b"bytes", b"[1]\0"]], tight=True),
    "arrays": Made([("a", NDARRAY, array_arguments("<f4", (2, 1))), ("t", TENSOR, array_arguments("|u1", (3,)))],
                   [[b"12345678", b"abc"]], tight=True),
    "records": Made([("a", NDARRAY, array_arguments('[["a", "<f4"], ["b", "|O"]]', (1,)))], [[b"1"]], tight=True),
}  # fmt: skip
for name, made in MADE.items():
    head, rest = made.rows + made.row * 2, bytes(made.bytes[PAGE:])
    write("fuzz_beton", name, head.to_bytes(2, "little") + bytes(made.bytes[:head]) + rest)
for name in ("photos", "texts"):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "a.beton")
        path.write_bytes(MADE[name].bytes)
        leat.open(path)
        write("fuzz_places", name, Path(f"{path}.leat-index").read_bytes())
