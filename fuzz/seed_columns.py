"""Writes the corpus of fuzz_columns: python fuzz/seed_columns.py fuzz/corpus/fuzz_columns"""

from __future__ import annotations

import struct
import sys
from pathlib import Path

MIB = 1 << 20
# In the small files of the target: words that change, the table, a directory, a chunk of the index, records.
PLACES = {
    "segments": [(16384, 0), (16384, 3), (16384, 1 << 40), (16408, 1)],
    "levels": [(16392, 0), (16392, 99), (16392, 2)],
    "roots": [(20480, 0), (20480, 1), (20480, 4), (20488, 2)],
    "table": [(MIB + 16, 0), (MIB + 24, 4), (MIB + 32, 3), (MIB + 40, 1 << 5 | 4)],
    "directory": [(2 * MIB, 0), (2 * MIB, 4), (2 * MIB + 8, 3)],
    "index": [(3 * MIB, 0), (3 * MIB + 8, 0), (3 * MIB + 16, 1), (3 * MIB + 32, 2**64 - 1), (3 * MIB + 64, 1 << 37)],
    "records": [(4 * MIB, 1), (4 * MIB + 32, 2**63), (4 * MIB + 48, 7), (4 * MIB + 72, 2**62)],
}


def main() -> None:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name, patches in PLACES.items():
        for keyed in range(2):
            data = bytes([keyed]) + b"".join(struct.pack("<IQ", *patch) for patch in patches)
            (folder / f"{name}-{'keyed' if keyed else 'ids'}").write_bytes(data)
    field = struct.pack("<64sII8q8x", b"x", 11, 2, -1, 2, 0, 0, 0, 0, 0, 0)
    header = bytes(24) + struct.pack("<II128s", 1, 1, b"abc") + field
    (folder / "header").write_bytes(b"\x06" + header)
    (folder / "header-broken").write_bytes(b"\x02" + header)
    sparse = struct.pack("<64sII8qII", b"x", 1, 2, -1, 8, 0, 0, 0, 0, 0, 0, 11, 30)
    (folder / "header-sparse").write_bytes(b"\x06" + header[: -len(field)] + sparse)


if __name__ == "__main__":
    main()
