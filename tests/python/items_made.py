"""Folders of items as their writers make them, byte by byte: shards of MDS, chunks of LitData."""

from __future__ import annotations

import ctypes
import ctypes.util
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


def stored_zstd(data: bytes, checksum: bool) -> bytes:
    """A frame of zstd whose blocks are the bytes as they are, so that any bit of them decodes."""
    blocks = [data[at : at + 65536] for at in range(0, len(data), 65536)] or [b""]
    frame = struct.pack("<IBI", 0xFD2FB528, 0xA4 if checksum else 0xA0, len(data))
    for k, block in enumerate(blocks):
        frame += (len(block) << 3 | (k == len(blocks) - 1)).to_bytes(3, "little") + block
    xxhash = ctypes.CDLL(ctypes.util.find_library("xxhash"))
    xxhash.XXH64.restype = ctypes.c_uint64
    check = xxhash.XXH64(data, ctypes.c_size_t(len(data)), ctypes.c_uint64(0)) & 0xFFFFFFFF
    return frame + (struct.pack("<I", check) if checksum else b"")


def spec(tree: Any) -> Any:
    """LitData's data_spec of a tree of dicts and lists."""
    if isinstance(tree, dict):
        return {
            "type": "builtins.dict",
            "context": json.dumps(list(tree)),
            "children_spec": [spec(t) for t in tree.values()],
        }
    if isinstance(tree, list):
        return {"type": "builtins.list", "context": "null", "children_spec": [spec(t) for t in tree]}
    return {"type": None, "context": None, "children_spec": []}


def batches(items: list[bytes], compress: Any, each: int) -> bytes:
    """Items in LitData's frames of `each` of them."""
    offsets = [0]
    for one in items:
        offsets.append(offsets[-1] + len(one))
    groups = [items[i : i + each] for i in range(0, len(items), each)]
    frames = [compress(b"".join(g)) for g in groups]
    head = b"LDFZ01\0\0" + struct.pack("<HHIII", 1, 0, len(items), each, len(groups))
    head += struct.pack(f"<{len(offsets)}I", *offsets)
    at = len(head) + 24 * len(groups)
    for k, (group, frame) in enumerate(zip(groups, frames, strict=True)):
        head += struct.pack("<IIQII", k * each, len(group), at, len(frame), sum(map(len, group)))
        at += len(frame)
    return head + b"".join(frames)


def write_litdata(
    folder: Path, tree: Any, formats: list[str], chunks: list[tuple[str, bytes, Any]], **more: Any
) -> Path:
    """`chunks`: filename, bytes, and what index.json says of it beside the name."""
    folder.mkdir(parents=True, exist_ok=True)
    config = {
        "chunk_bytes": None,
        "chunk_size": 9,
        "compression": None,
        "compression_level": None,
        "data_format": formats,
        "data_spec": json.dumps([1, spec(tree)]),
        "encryption": None,
        "ipc_compression": None,
        "item_loader": "PyTreeLoader",
        "types": None,
    }
    index: dict[str, Any] = {"chunks": [], "config": config | more}
    for name, data, says in chunks:
        (folder / name).write_bytes(data)
        index["chunks"].append({"chunk_bytes": len(data), "dim": None, "filename": name} | says)
    (folder / "index.json").write_text(json.dumps(index))
    return folder
