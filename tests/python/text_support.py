"""What tests of tokenising share: small tokenizers, trained on the spot, and records with text."""

from __future__ import annotations

import base64
import functools
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import leat

WORDS = "to be or not that is the question whether it nobler in mind suffer slings and arrows of outrageous fortune"


def texts(n: int, seed: int = 0) -> list[str]:
    """Records of 0 to some hundred words; the text of the first one is empty."""
    import random

    draw, words = random.Random(seed), WORDS.split()
    return [" ".join(draw.choices(words, k=i % 97)) for i in range(n)]


def real_texts(limit: int = 200) -> list[str]:
    """Documents of LEAT_DATA/text/mixture."""
    folder = os.environ.get("LEAT_DATA")
    if not folder:
        pytest.skip("LEAT_DATA names no folder with real data")
    path = sorted(Path(folder).glob("text/mixture/*.jsonl"))[0]
    with path.open(encoding="utf-8") as f:
        return [json.loads(line)["text"] for line, _ in zip(f, range(limit), strict=False)]


@functools.cache
def bpe_text(vocab_size: int = 600, seed: int = 0) -> str:
    """The content of a tokenizer.json: byte-level BPE, with a special token."""
    tokenizers = pytest.importorskip("tokenizers")
    core = tokenizers.Tokenizer(tokenizers.models.BPE())
    core.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = tokenizers.decoders.ByteLevel()
    alphabet = tokenizers.pre_tokenizers.ByteLevel.alphabet()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=vocab_size, special_tokens=["<|end|>"], initial_alphabet=alphabet, show_progress=False
    )
    core.train_from_iterator(texts(200, seed), trainer)
    text: str = core.to_str()
    return text


def bpe_file(folder: Path, name: str = "tokenizer.json", **options: int) -> Path:
    path = folder / name
    path.write_text(bpe_text(**options))
    return path


def words_file(folder: Path, size: int, name: str = "words.json") -> Path:
    """A WordLevel tokenizer of `size` words, w0, w1 ..."""
    tokenizers = pytest.importorskip("tokenizers")
    core = tokenizers.Tokenizer(tokenizers.models.WordLevel({f"w{i}": i for i in range(size)}, unk_token="w0"))
    core.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    path = folder / name
    core.save(str(path))
    return path


def ranks_file(folder: Path, name: str = "small.tiktoken") -> Path:
    """A tiktoken file: all bytes, and some longer tokens that merges reach."""
    tokens = [bytes([i]) for i in range(256)] + [b"th", b" th", b"the", b" the", b"qu", b"ue"]
    path = folder / name
    path.write_bytes(b"".join(base64.b64encode(t) + b" %d\n" % i for i, t in enumerate(tokens)))
    return path


def pack_text(path: Path, found: Sequence[str], **columns: Sequence[Any]) -> Any:
    """A pack with the fields text, number, and what is given as lists of str."""
    with leat.Writer(path, {"text": "str", "number": "int64", **dict.fromkeys(columns, "str")}) as w:
        for i, text in enumerate(found):
            w.write({"text": text, "number": i, **{name: values[i] for name, values in columns.items()}})
    return leat.open(path)


def table_with_a_large_token(path: Path) -> Path:
    """Tokens of 30 records in three row groups; the one of record 25 is 999."""
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    tokens = [[1]] * 30
    tokens[25] = [999]
    parquet.write_table(pa.table({"tokens": tokens}), path, row_group_size=10)
    return path
