"""Writes the seeds of the targets of files of arrays: `python fuzz/seed_arrays.py fuzz/corpus`."""

from __future__ import annotations

import struct
import sys
import zipfile
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "python"))
from test_array_files import npy, npz, tensor, tensors  # noqa: E402

SMALL = np.arange(12, dtype="f4").reshape(3, 2, 2)
LABELS = np.arange(3)
TWO = {"x.npy": npy(SMALL), "y.npy": npy(LABELS)}
SEEDS = {
    "c.npy": npy(SMALL),
    "fortran.npy": npy(np.asfortranarray(SMALL)),
    "big.npy": npy(SMALL.astype(">f4")),
    "objects.npy": npy(np.array([None]), allow_pickle=True),
    "plain.npz": npz(TWO),
    "deflated.npz": npz(TWO, zipfile.ZIP_DEFLATED),
    "others.npz": npz(TWO | {"a.txt": b"a", "f/": b""}),
    "tensors": tensors({"x": tensor("F32", [3, 2, 2], 0, 48), "y": tensor("I64", [3], 48, 72)},
                       SMALL.tobytes() + LABELS.tobytes()),
    "half": tensors({"__metadata__": {"a": "b"}, "x": tensor("BF16", [3, 1], 0, 6)}, bytes(6)),
    "eight": tensors({"x": tensor("F8_E5M2", [3, 2], 0, 6)}, bytes(6)),
}  # fmt: skip

# how the right file is changed (fuzz_arrays_kept.c); a header of 376 bytes, the member at 384, its points at 448
CHANGES: dict[str, tuple[int, list[tuple[int, int]]]] = {
    "right": (0, []),
    "cut": (40_000, []),
    "fewer_members": (0, [(112 + 32 + 8, 1)]),
    "more_points": (0, [(112 + 64 + 8, 64)]),
    "points_of_member": (0, [(384 + 28, 3)]),
    "first": (0, [(384 + 32, 2)]),
    "window": (0, [(384 + 40, 1)]),
    "no_beginning": (0, [(448, 1), (448 + 8, 1)]),
    "place": (0, [(448 + 32, 1)]),
    "length": (0, [(448 + 40, 1), (448 + 41, 2)]),
    "hash": (0, [(448 + 48, 1)]),
    "crc": (0, [(448 + 56, 1), (448 + 32 + 56, 1)]),
    "bits": (0, [(448 + 60, 3), (448 + 61, 255)]),
    "bytes_of_window": (0, [(704 + 2 * 32768 - i, 255) for i in range(1, 100)]),
}
CHANGED = {
    name: struct.pack("<I", cut) + b"".join(struct.pack("<IB", at, by) for at, by in places)
    for name, (cut, places) in CHANGES.items()
}

for target, seeds in (("fuzz_arrays", SEEDS), ("fuzz_arrays_kept", CHANGED)):
    folder = Path(sys.argv[1], target)
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in seeds.items():
        (folder / name).write_bytes(data)
