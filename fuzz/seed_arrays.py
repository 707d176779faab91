"""Writes the seeds of the target of files of arrays: `python fuzz/seed_arrays.py fuzz/corpus`."""

from __future__ import annotations

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

folder = Path(sys.argv[1], "fuzz_arrays")
folder.mkdir(parents=True, exist_ok=True)
for name, data in SEEDS.items():
    (folder / name).write_bytes(data)
