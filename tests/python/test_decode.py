"""leat.decode, and what becomes of packs by different tokenizers."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from process_support import PATIENCE
from text_support import bpe_file, pack_text, ranks_file, real_texts, texts, words_file

import leat

tokenizers = pytest.importorskip("tokenizers")


def tokens_of(folder: Path, name: str, tokenizer: Any, **options: Any) -> leat.Dataset:
    ds = pack_text(folder / f"{name}.text", texts(30))
    return leat.tokenize(ds, folder / name, tokenizer=tokenizer, **options).open()


def test_text_comes_back(tmp_path: Path) -> None:
    found = texts(50) + real_texts(20) + ["", "ä𝄞\x00 <|end|>"]
    path = bpe_file(tmp_path)
    made = leat.tokenize(pack_text(tmp_path / "t", found), tmp_path / "o", tokenizer=path).open()
    assert [leat.decode(made, i, path) for i in range(len(made))] == found
    assert leat.decode(made, -1, tokenizers.Tokenizer.from_file(str(path))) == found[-1]


def test_of_a_tiktoken_file_the_pack_knows_the_rest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("tiktoken")
    options: dict[str, Any] = {"pattern": r"\w+|\W+", "special_tokens": {"E": 262}}
    made = tokens_of(tmp_path, "o", ranks_file(tmp_path), **options)
    monkeypatch.chdir(tmp_path)
    assert leat.decode(made, 29) == texts(30)[29]


def test_of_rows_padding_is_left_out(tmp_path: Path) -> None:
    path = bpe_file(tmp_path)
    rows = leat.pack_rows(tokens_of(tmp_path, "o", path), length=4096, how="pad", fill=7)
    assert leat.decode(rows, 0, path) == texts(30)[1]  # documents without a token are in no row


def test_a_number_that_is_no_token_is_named(tmp_path: Path) -> None:
    path = words_file(tmp_path, 10)
    ds = leat.from_arrays(tokens=np.array([[1, 2, 3], [4, 10, 70]], np.int32), label=np.arange(2))
    assert leat.decode(ds, 0, path) == "w1 w2 w3"
    with pytest.raises(
        leat.InvalidError, match="sample 1, field 'tokens': token 1 is 10, beyond the vocabulary of wor"
    ):
        leat.decode(ds[1:], 0, path)
    with pytest.raises(leat.InvalidError, match="sample 0, field 'tokens': token 0 is -1, beyond"):
        leat.decode(leat.from_arrays(tokens=np.array([[-1, 2]])), 0, path)
    with pytest.raises(leat.InvalidError, match="row 0, field 'tokens': token 4 is 10"):
        leat.decode(leat.pack_rows(ds, length=6), 0, path)
    gaps = tokenizers.Tokenizer(tokenizers.models.WordLevel({"a": 0, "b": 5}, unk_token="a"))
    with pytest.raises(leat.InvalidError, match="token 1 is 3, which tokenizer.json does not have"):
        leat.decode(leat.from_arrays(tokens=np.array([[5, 3]])), 0, gaps)


def test_another_tokenizer_does_not_decode_a_pack(tmp_path: Path) -> None:
    made = tokens_of(tmp_path, "o", bpe_file(tmp_path))
    with pytest.raises(leat.ChangedError, match=r"were made by tokenizer.json \(.*and this tokenizer is words.json \("):
        leat.decode(made, 1, words_file(tmp_path, 10))


def test_a_tokenizer_is_read_once_as_long_as_its_file_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from leat.text import tokenizer as inside

    path = bpe_file(tmp_path)
    made = tokens_of(tmp_path, "o", path)
    monkeypatch.chdir(tmp_path)
    reads, read = [], inside._of_path
    monkeypatch.setattr(inside, "_of_path", lambda *words: reads.append(words[0]) or read(*words))
    assert [leat.decode(made, i) for i in range(4)] == texts(30)[:4] and len(reads) == 1
    bpe_file(tmp_path, vocab_size=300)
    with pytest.raises(leat.ChangedError, match="and this tokenizer is tokenizer.json"):
        leat.decode(made, 1)


def test_a_template_is_compiled_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from leat.text import chat as inside

    pytest.importorskip("jinja2")
    made: list[str] = []
    whole = inside.Template
    monkeypatch.setattr(inside, "Template", lambda source, *more: made.append(source) or whole(source, *more))
    how = leat.chat("{% for m in messages %}{{ m.content }}{% endfor %}{# once #}")
    assert [how.text([{"role": "user", "content": word}]) for word in "abc"] == ["a", "b", "c"]
    assert len(made) == 1


def test_a_forked_process_encodes_by_a_tokenizer_that_has_worked_before(tmp_path: Path) -> None:
    import multiprocessing

    pytest.importorskip("tiktoken")
    from leat.text import tokenizer as inside

    core = inside.load(ranks_file(tmp_path), pattern=r"\w+|\W+")
    want = core.encode(["to be"])[0].tolist()
    ours, theirs = multiprocessing.Pipe()
    child = multiprocessing.get_context("fork").Process(
        target=lambda: theirs.send(core.encode(["to be"])[0].tolist()), daemon=True
    )
    child.start()
    assert ours.poll(PATIENCE) and ours.recv() == want
    child.join(PATIENCE)


def test_a_data_set_without_tokens_is_refused() -> None:
    ds = leat.from_arrays(a=np.zeros((2, 3), np.int64), b=np.zeros((2, 3), np.int32), c=np.zeros(2))
    with pytest.raises(leat.InvalidError, match="which field has the tokens"):
        leat.decode(ds, 0, "t.json")
    with pytest.raises(TypeError, match="field 'c' has no tokens"):
        leat.decode(ds, 0, "t.json", field="c")
    with pytest.raises(leat.InvalidError, match="does not say which tokenizer"):
        leat.decode(ds, 0, field="b")


def test_packs_of_different_tokenizers_are_not_joined_by_mistake(tmp_path: Path) -> None:
    a = tokens_of(tmp_path, "a", bpe_file(tmp_path))
    b = tokens_of(tmp_path, "b", bpe_file(tmp_path, "other.json", vocab_size=300))
    assert len(leat.concat(a, tokens_of(tmp_path, "c", bpe_file(tmp_path, "same.json")))) == 60
    says = r"the tokens of data set 0 were made by tokenizer.json \(.*, and those of data set 1 by other.json \("
    with pytest.raises(leat.InvalidError, match=says):
        leat.concat(a, b)
    with pytest.raises(leat.InvalidError, match=says):
        leat.open([tmp_path / "a", tmp_path / "b"])
    assert len(pickle.loads(pickle.dumps(leat.concat(a, b, tokenizers="any")))) == 60


def test_what_was_joined_before_keeps_its_tokenizer(tmp_path: Path) -> None:
    path, other = bpe_file(tmp_path), bpe_file(tmp_path, "other.json", vocab_size=300)
    joined = leat.concat(tokens_of(tmp_path, "a1", path, metadata={"source": "x"}), tokens_of(tmp_path, "a2", path))
    b = tokens_of(tmp_path, "b", other)
    zipped = leat.zip(text=joined, more=leat.from_arrays(n=np.arange(60)))
    for made in (joined, joined[5:], leat.concat(joined, joined), leat.pack_rows(joined, length=16)):
        with pytest.raises(leat.InvalidError, match="of source 'x' were made by tokenizer.json"):
            leat.Mix({"x": (made, 0.5), "y": (b if made.schema == b.schema else leat.pack_rows(b, length=16), 0.5)})
    with pytest.raises(leat.ChangedError, match="this tokenizer is other.json"):
        leat.decode(joined, 0, other)
    with pytest.raises(leat.ChangedError, match="this tokenizer is other.json"):
        leat.decode(zipped, 0, other, field="text.tokens")
    both = leat.concat(joined, b, tokenizers="any")
    with pytest.raises(leat.InvalidError, match="so no tokenizer fits all"):
        leat.decode(both, 0, path)


def test_a_mixture_of_different_tokenizers_is_refused(tmp_path: Path) -> None:
    a = leat.pack_rows(tokens_of(tmp_path, "a", bpe_file(tmp_path)), length=16)
    b = leat.pack_rows(tokens_of(tmp_path, "b", bpe_file(tmp_path, "other.json", vocab_size=300)), length=16)
    sources = {"x": (a, 0.5), "y": (b, 0.5)}
    with pytest.raises(
        leat.InvalidError, match=r"of source 'x' were made by tokenizer.json.*of source 'y' by other.json"
    ):
        leat.Mix(sources)
    mix = leat.Mix(sources, tokenizers="any")
    for other in (pickle.loads(pickle.dumps(mix)), mix.with_weights({"x": 1}), mix.map(lambda rows: rows)):
        assert other.tokenizers == "any"
