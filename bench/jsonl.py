"""The rate of indexing JSONL: GB/s of a core, by CPU time of the process with all its threads.

    python bench/jsonl.py [FILE.jsonl] [--rounds 3]

Without a file one of 200,000 records is made: words of four scripts, an id, a URL, a language and a score each. The
file is in the page cache when it is measured; the index goes to a folder of its own each time.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
import time
from pathlib import Path

import leat

LETTERS = {
    "ru": "абвгдежзийклмнопрстуфхцчшщ",
    "zh": "的一是在不了有和人这中大为上个国我以要他",
    "en": "abcdefghijklmnopqrstuvwxyz",
    "ar": "ابتثجحخدذرزسشصضطظعغفقكلمن",
}


def made(path: Path, n: int = 200_000) -> Path:
    draw = random.Random(0)
    words = {k: ["".join(draw.choices(a, k=draw.randint(2, 9))) for _ in range(3000)] for k, a in LETTERS.items()}
    with path.open("w", encoding="utf-8") as f:
        for i in range(n):
            language = draw.choice(list(LETTERS))
            text = (" " if i % 5 else "\n").join(draw.choices(words[language], k=70))
            record = {"id": f"{language}-{i:012x}", "text": text, "language": language}
            record |= {"url": f"https://example.org/{i}", "score": round(draw.random(), 4)}
            f.write(json.dumps(record, ensure_ascii=False) + "\n")
    return path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", type=Path, nargs="?")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = options.file or made(Path(folder) / "records.jsonl")
        size = path.stat().st_size
        with path.open("rb") as f:
            while f.read(1 << 24):
                pass
        for k in range(options.rounds):
            wall, cpu = time.perf_counter(), time.process_time()
            count = len(leat.open(path, format="jsonl", index_dir=Path(folder) / str(k)))
            wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
            print(f"{count} records, {size / 1e6:.0f} MB: {size / cpu / 1e9:.2f} GB/s of a core ({wall:.2f} s)")


if __name__ == "__main__":
    main()
