"""Writes the seeds of the targets of stored arrays and of Matrix Market: `python fuzz/seed_stored.py fuzz/corpus`."""

from __future__ import annotations

import struct
import sys
import zlib
from pathlib import Path

root = Path(sys.argv[1])
ZLIB, SHUFFLE, FLETCHER32, SWAP = 1, 6, 7, 9
U8, U16, I32, F32 = 1, 3, 6, 11  # of enum leat_dtype


def write(target: str, name: str, data: bytes) -> None:
    (root / target).mkdir(parents=True, exist_ok=True)
    (root / target / name).write_bytes(data)


def number(n: int) -> bytes:
    return bytes([n]) if n < 254 else b"\xff" + struct.pack("<Q", n)


def array(
    item: int,
    dims: list[tuple[int, int]],
    filters: list[tuple[int, int]],
    chunks: list[tuple[int, int, int]] | None,
    offset: int = 0,
) -> bytes:
    made = bytes([item, len(dims), len(filters), 2 | (chunks is not None)])
    made += b"".join(number(a) + number(b) for a, b in dims) + b"".join(bytes(f) for f in filters)
    if chunks is None:
        return made + number(offset)
    places = (b"\xfe\xfe\0" if c[1] < 0 else number(c[0]) + number(c[1]) + bytes([c[2]]) for c in chunks)
    return made + b"".join(places)


def shuffled(data: bytes, item: int) -> bytes:
    return b"".join(data[k::item] for k in range(item))


columns = struct.pack("<10i", 0, 3, 7, 1, 2, 15, 4, 9, 8, 5)
values = struct.pack("<10f", *range(1, 11))
pointers = bytes([0, 3, 3, 6, 8, 10, 10, 10, 10])
gene_map = bytes(128 + m for m in (3, 2, 1, 0, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14))
some = bytes([127] * 8) + gene_map[8:]

flat = array(4, [(10, 10)], [], None, 0), array(4, [(10, 10)], [], None, 40)
for name, how in (("plain", b""), ("mapped", gene_map), ("selected", some)):
    write(
        "fuzz_stored",
        f"flat_{name}",
        flat[0] + bytes([3 if how else 1, F32, I32]) + flat[1] + pointers + how + values + columns,
    )
packed = [zlib.compress(shuffled(x, 4)) for x in (values[:16], values[16:32], values[32:] + bytes(8))]
packed += [zlib.compress(shuffled(columns[:24], 4)), zlib.compress(shuffled(columns[24:] + bytes(8), 4))]
at = [sum(map(len, packed[:i])) for i in range(5)]
pipeline = [(SHUFFLE, 4), (ZLIB, 0)]
of_values = array(4, [(10, 4)], pipeline, [(at[i], len(packed[i]), 0) for i in range(3)])
of_columns = array(4, [(10, 6)], pipeline, [(at[i], len(packed[i]), 0) for i in (3, 4)])
write("fuzz_stored", "chunks", of_values + bytes([1, F32, I32]) + of_columns + pointers + b"".join(packed))
lost = array(4, [(10, 4)], pipeline, [(at[0], len(packed[0]), 0), (0, -1, 0), (at[2], len(packed[2]), 0)])
write("fuzz_stored", "missing", lost + bytes([1, F32, I32]) + of_columns + pointers + b"".join(packed))
grid = array(2, [(5, 2), (3, 2), (2, 2)], [(SWAP, 2)], [(16 * i, 16, 0) for i in range(6)])
write("fuzz_stored", "dense", grid + bytes([0, U16, 0]) + bytes(range(96)))
matrix = array(1, [(4, 3), (16, 9)], [], [(27 * i, 27, 0) for i in range(4)])
write("fuzz_stored", "dense_mapped", matrix + bytes([2, U8, 0]) + gene_map + bytes(range(108)))
raw = {
    "zstd": (3, b"\x28\xb5\x2f\xfd\x20\x28" + struct.pack("<I", 40 << 3 | 1)[:3] + values),
    "lzf": (4, b"\x1f" + values[:32] + b"\x07" + values[32:]),
    "blosc": (5, bytes([2, 1, 2, 4]) + struct.pack("<3I", 40, 40, 56) + values),
    "gzip": (2, zlib.compress(values, wbits=31)),
    "deflate": (10, zlib.compress(values, wbits=-15)),
}
for name, (kind, data) in raw.items():
    one = array(4, [(10, 10)], [(kind, 0)], [(0, len(data), 0)])
    write("fuzz_stored", name, one + bytes([0, F32, 0]) + data)
sums = {"crc32c": (8, 0xE3069283), "fletcher32": (FLETCHER32, 0x09DF09D5)}
for name, (kind, total) in sums.items():
    one = array(1, [(9, 9)], [(kind, 0)], [(0, 13, 0)])
    write("fuzz_stored", name, one + bytes([0, U8, 0]) + b"123456789" + struct.pack("<I", total))
large = array(4, [(1 << 40, 1 << 39), (1 << 20, 1)], [(FLETCHER32, 0)], None)
write("fuzz_stored", "large", large + bytes([0, F32, 0]) + bytes(50))
wide = array(4, [(8, 1 << 20), (8, 1 << 13)], [], [(0, 100, 0)])
write("fuzz_stored", "wide", wide + bytes([0, F32, 0]) + bytes(50))

for name, text in {
    "counts": b"\0% by genes\n1 1 5\n3 2 1\r\n\n70000 300 12\n4 4 4",
    "numbers": b"\x001 1 -1.5e3\n2 2 +.5\n3 3 1e400\n 4\t4  0 \n",
    "pattern": b"\x011 1\n2 2 \r\n3 3",
    "zero": b"\x000 1 5\n",
    "beyond": b"\x001 1 1\n1 301 5\n",
    "long": b"\x00" + b"".join(b"%d %d %d\n" % (i % 70000 + 1, i % 300 + 1, i) for i in range(300)),
}.items():
    write("fuzz_matrix_market", name, text)
