"""Writes the seeds of the target of folders of items: `python fuzz/seed_items.py fuzz/corpus`."""

from __future__ import annotations

import gzip
import json
import struct
import sys
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "python"))
from items_made import batches, headed, item, mds_shard, pil, spec, table  # noqa: E402

root = Path(sys.argv[1]) / "fuzz_items"


def write(name: str, which: str, index: Any, data: bytes) -> None:
    root.mkdir(parents=True, exist_ok=True)
    text = json.dumps(index).encode()
    (root / name).write_bytes(which.encode() + struct.pack("<H", len(text)) + text + data)


V = np.arange(3, dtype="<f4")
MDS: dict[str, tuple[dict[str, tuple[str, int | None]], dict[str, bytes]]] = {
    "scalars": ({"a": ("int", 8), "b": ("float16", 2), "c": ("str_int", None)}, {"a": bytes(8), "b": b"ab", "c": b"7"}),
    "arrays": (
        {"a": ("ndarray", None), "b": ("ndarray:float32", None), "c": ("ndarray:float32:3", 12)},
        {"a": headed(V, True), "b": headed(V, each=4), "c": V.tobytes()},
    ),
    "texts": ({"j": ("json", None), "s": ("str", None), "x": ("bytes", None)}, {"j": b"{}", "s": b"", "x": b"GIF89a"}),
    "pixels": ({"p": ("pil", None), "q": ("pil", None)}, {"p": pil(1, 2, b"L", b"ab"), "q": pil(1, 1, b"RGB", b"abc")}),
    "pickled": ({"p": ("pkl", None)}, {"p": b"cos\n"}),
}
for name, (columns, sample) in MDS.items():
    data, info = mds_shard("a.mds", columns, [sample, sample])
    write(name, "m", {"shards": [info], "version": 2}, data)
    if name == "texts":
        stored = gzip.compress(data, mtime=0)
        info |= {"compression": "gz", "zip_data": {"basename": "a.gz", "bytes": len(stored), "hashes": {}}}
        write("zipped", "m", {"shards": [info], "version": 2}, stored)
        info["raw_data"]["hashes"] = {"xxh64": "0" * 16}
        write("hashed", "m", {"shards": [info], "version": 2}, stored)


def litdata(name: str, tree: Any, formats: list[str], data: bytes, n: int, dim: int | None = None, **more: Any) -> None:
    chunk = {"chunk_bytes": len(data), "chunk_size": n, "dim": dim, "filename": "a.bin"}
    config = {"compression": None, "data_format": formats, "data_spec": json.dumps([1, spec(tree)])}
    write(name, "t" if dim else "l", {"chunks": [chunk], "config": config | more}, data)


LEAVES = [
    struct.pack("<q", 1),
    b"text",
    struct.pack("<3I", 9, 1, 3) + V.tobytes(),
    struct.pack(">3I", 0, 1, 3) + V.tobytes(),
]
ONE = item([*LEAVES, V.tobytes()], [False] * 5)
TREE = {"a": 0, "b": {"c": 0, "d": [0, 0]}, "e": 0}
FORMATS = ["int", "str", "numpy", "tensor", "no_header_tensor:0"]
litdata("tree", TREE, FORMATS, table([ONE, ONE]), 2)
litdata(
    "framed", TREE, FORMATS, batches([ONE, ONE, ONE], lambda b: b, 2), 3, compression="zstd", compression_level="batch"
)
litdata("single", TREE, FORMATS, table([ONE, ONE]), 2, compression="zstd", compression_level="sample")
litdata("tokens", 0, ["no_header_tensor:16"], table([bytes(40)]), 1, 10, item_loader="TokensLoader")
