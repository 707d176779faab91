"""leat.tokenize against encode_batch of `tokenizers` on the same texts and cores: ratios of rates in one run.

    python bench/tokenising.py [--data FOLDER] [--bytes 32000000] [--vocabulary 16384] [--rounds 5] [--tokenizer FILE]

FOLDER (LEAT_DATA/text/mixture) has JSONL with the field text, of which a byte-level BPE is trained, unless --tokenizer
names one. leat reads the JSONL, tokenises, and writes a pack; `tokenizers` is given lists of texts that are in memory
already, of a MiB each, and its tokens are dropped. Both read the tokenizer first, so that no cache of words is warm. In
turns; the median of ratios of neighbours is printed, by the
wall clock and by CPU time of the process with all its threads, as the machine may be shared. encode_batch_fast, which
counts no offsets, is what leat calls; encode_batch is what most callers know.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import leat


def corpus(folder: Path, wanted: int) -> list[str]:
    """Texts of the JSONL files in `folder`, repeated until they have so many bytes."""
    found: list[str] = []
    for path in sorted(folder.glob("*.jsonl")):
        with path.open(encoding="utf-8") as f:
            found += [json.loads(line)["text"] for line in f]
    if not found:
        sys.exit(f"{folder} has no .jsonl")
    size = sum(len(t.encode()) for t in found)
    return found * max(1, round(wanted / size))


def trained(texts: list[str], vocabulary: int, path: Path) -> Path:
    import tokenizers

    core = tokenizers.Tokenizer(tokenizers.models.BPE())
    core.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = tokenizers.decoders.ByteLevel()
    alphabet = tokenizers.pre_tokenizers.ByteLevel.alphabet()
    core.train_from_iterator(
        texts,
        tokenizers.trainers.BpeTrainer(vocab_size=vocabulary, initial_alphabet=alphabet, show_progress=False),
    )
    core.save(str(path))
    return path


def batches(texts: list[str], size: int = 1 << 20) -> Iterator[list[str]]:
    batch, used = [], 0
    for text in texts:
        batch.append(text)
        used += len(text)
        if used >= size:
            yield batch
            batch, used = [], 0
    if batch:
        yield batch


def timed(job: Callable[[], Any]) -> tuple[float, float]:
    wall, cpu = time.perf_counter(), time.process_time()
    job()
    return time.perf_counter() - wall, time.process_time() - cpu


def main() -> None:
    import tokenizers

    data = os.environ.get("LEAT_DATA")
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path(data) / "text/mixture" if data else None)
    parser.add_argument("--bytes", type=int, default=32_000_000)
    parser.add_argument("--vocabulary", type=int, default=16384)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tokenizer", type=Path)
    options = parser.parse_args()
    if options.data is None:
        parser.error("--data names a folder with JSONL")
    texts = corpus(options.data, options.bytes)
    size = sum(len(t.encode()) for t in texts)
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "texts.jsonl"
        with source.open("w", encoding="utf-8") as f:
            for text in texts:
                f.write(json.dumps({"text": text}, ensure_ascii=False) + "\n")
        path = options.tokenizer or trained(texts[:20000], options.vocabulary, Path(folder) / "tokenizer.json")
        dataset = leat.open(source)
        pieces = list(batches(texts))

        def ours() -> None:
            leat.tokenize(dataset, Path(folder) / "made.leat", tokenizer=str(path), overwrite=True)

        def core() -> Any:
            made = tokenizers.Tokenizer.from_file(str(path))
            made.no_truncation()
            made.no_padding()
            return made

        def fast() -> None:
            encode = core().encode_batch_fast
            for piece in pieces:
                encode(piece, add_special_tokens=False)

        def theirs() -> None:
            encode = core().encode_batch
            for piece in pieces:
                encode(piece, add_special_tokens=False)

        print(f"{platform.processor() or platform.machine()}, {len(os.sched_getaffinity(0))} cores; leat", end=" ")
        print(f"{leat.__version__}, tokenizers {tokenizers.__version__}; {len(texts)} texts, {size / 1e6:.1f} MB")
        for job in (ours, fast, theirs):
            job()
        rounds = [(timed(ours), timed(fast), timed(theirs)) for _ in range(options.rounds)]
        for k, clock in enumerate(("wall", "CPU ")):
            rates = [size / 1e6 / statistics.median(r[j][k] for r in rounds) for j in range(3)]
            print(f"{clock}: leat {rates[0]:.2f} MB/s", end="")
            for j, name in ((1, "encode_batch_fast"), (2, "encode_batch")):
                found = sorted(r[j][k] / r[0][k] for r in rounds)
                print(
                    f"; {name} {rates[j]:.2f} MB/s, ratio {statistics.median(found):.2f} "
                    f"({found[0]:.2f} to {found[-1]:.2f})",
                    end="",
                )
            print()


if __name__ == "__main__":
    main()
