"""Writes the seeds of the target of TFRecord files: `python fuzz/seed_tfrecord.py fuzz/corpus`."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "python"))
from tfrecord_made import entry, example, feature, field, records  # noqa: E402

root = Path(sys.argv[1]) / "fuzz_tfrecord"
root.mkdir(parents=True, exist_ok=True)
VALUES = {"i": [1, -1, 300], "f": [0.5, 2.0], "b": b"bytes", "n": None, "one": 7, "many": [b"x", b"y"]}
SEEDS = {
    "file": records([VALUES, {"i": 2}]),
    "packed": example(VALUES),
    "apart": example(VALUES, packed=False),
    "twice": field(1, entry("a", feature(1)) + entry("a", feature(b"x"))) + field(1, entry("b", feature(1.5))),
    "sequence": example({"a": 1}) + field(2, b""),
    "unknown": field(1, entry("a", feature(1) + b"\x48\x05") + b"\x51" + bytes(8)) + b"\x5d" + bytes(4),
    "long": field(1, entry("a", field(3, field(1, b"\xff" * 9 + b"\x01" + b"\x80" * 12)))),
}
for name, data in SEEDS.items():
    (root / name).write_bytes(data)
