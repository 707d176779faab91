"""Writes the seeds of the targets of files of text: `python fuzz/seed_text.py fuzz/corpus`."""

from __future__ import annotations

import gzip
import struct
import sys
import tempfile
from pathlib import Path

import leat

root = Path(sys.argv[1])
FILES = {
    "plain": b'{"a": 1, "t": "x\\u00e9\\n", "m": {"k": [1, 2.5], "b": true}}\r\n\n{"a": null, "t": "y"}\n',
    "types": b'{"a": 18446744073709551615, "f": NaN, "l": [], "o": {}, "n": [[1], {"k": -0.5e3}]}\n'
    b'{"a": 7, "l": [true]}',
    "broken": b'{"a": 1}\n{"a": "\xff"}\n{"a" 1}\n[1]\n{"a": 1, "a": 2}\n{"a": 99999999999999999999}\n{"a": 2}\n',
    "mixed": b'{"a": 1}\n{"a": "x"}\n{"a": {"b": 1}}\n',
}


def write(target: str, name: str, data: bytes) -> None:
    (root / target).mkdir(parents=True, exist_ok=True)
    (root / target / name).write_bytes(data)


with tempfile.TemporaryDirectory() as folder:
    for name, data in FILES.items():
        write("fuzz_jsonl", name, data)
        write("fuzz_jsonl", f"{name}.gz", gzip.compress(data, mtime=0))
        path = Path(folder, f"{name}.jsonl")
        path.write_bytes(data)
        leat.open(path, on_bad="skip", fields={"a": "json"})
        write("fuzz_text_index", name, Path(f"{path}.leat-index").read_bytes())
for code, lengths in ((8, (3, 2)), (4, (1, 0, 2)), (1, ())):
    size = {8: 2, 4: 4, 1: 1}[code]
    starts = [size * sum(lengths[:i]) for i in range(len(lengths))]
    n = len(lengths)
    head = b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, code, n, n + 1)
    write("fuzz_megatron", str(code), head + struct.pack(f"<{n}i{n}q{n + 1}q", *lengths, *starts, *range(n + 1)))
