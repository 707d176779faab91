"""Folders of items as their writers make them, byte by byte: shards of MDS, chunks of LitData."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

DTYPES = {"uint8": 8, "int8": 9, "uint16": 16, "int16": 17, "float16": 18, "uint32": 32, "int32": 33, "float32": 34}


def table(items: list[bytes], between: bytes = b"") -> bytes:
    """u32 N, u32 offset[N + 1], what stands between, items."""
    at = 4 + 4 * (len(items) + 1) + len(between)
    offsets = [at]
    for item in items:
        offsets.append(offsets[-1] + len(item))
    return struct.pack(f"<{len(items) + 2}I", len(items), *offsets) + between + b"".join(items)


def item(bodies: list[bytes], fixed: list[bool]) -> bytes:
    """u32 size of each body that is not fixed, then the bodies."""
    return b"".join(struct.pack("<I", len(b)) for b, f in zip(bodies, fixed, strict=True) if not f) + b"".join(bodies)


def headed(array: Any, code: bool = False, each: int = 1) -> bytes:
    """An array with the header of MDS: its dtype if `code`, and its shape in numbers of `each` bytes."""
    start = bytes([DTYPES[str(array.dtype)]]) if code else b""
    start += bytes([array.ndim << 2 | {1: 0, 2: 1, 4: 2, 8: 3}[each]])
    return start + b"".join(d.to_bytes(each, "little") for d in array.shape) + bytes(array.tobytes())


def pil(width: int, height: int, mode: bytes, pixels: bytes) -> bytes:
    return struct.pack("<3I", width, height, len(mode)) + mode + pixels


def mds_shard(
    name: str, columns: dict[str, tuple[str, int | None]], samples: list[dict[str, bytes]], **more: Any
) -> tuple[bytes, dict[str, Any]]:
    """A shard, and what index.json says of it. `columns`: encoding, and size if that is fixed."""
    names = sorted(columns)
    fixed = [columns[n][1] is not None for n in names]
    info = {
        "column_encodings": [columns[n][0] for n in names],
        "column_names": names,
        "column_sizes": [columns[n][1] for n in names],
        "compression": None,
        "format": "mds",
        "hashes": [],
        "size_limit": 1 << 26,
        "version": 2,
    }
    data = table([item([s[n] for n in names], fixed) for s in samples], json.dumps(info, sort_keys=True).encode())
    info |= {"samples": len(samples), "raw_data": {"basename": name, "bytes": len(data), "hashes": {}}}
    return data, info | {"zip_data": None} | more


def write_mds(folder: Path, shards: list[tuple[bytes, dict[str, Any]]]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for data, info in shards:
        (folder / info["raw_data"]["basename"]).write_bytes(data)
    index = {"shards": [info for _, info in shards], "version": 2}
    (folder / "index.json").write_text(json.dumps(index, sort_keys=True))
    return folder
