"""leat.tokenize: text becomes packs of tokens."""

from __future__ import annotations

import gzip
import json
import os
import re
import signal
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli_support import leat as shell
from process_support import Process, eventually
from text_support import (
    bpe_file,
    bpe_text,
    pack_text,
    ranks_file,
    real_texts,
    table_with_a_large_token,
    texts,
    words_file,
)

import leat
from leat.text import records
from leat.text import tokenize as inside

tokenizers = pytest.importorskip("tokenizers")


def broken(n: int, bad: set[int]) -> leat.Dataset:
    class Records:
        fields = {"text": "str", "number": "int64"}
        version = "1"

        def __len__(self) -> int:
            return n

        def read(self, positions: np.ndarray) -> dict[str, object]:
            if len(bad & set(positions.tolist())):
                raise ValueError("this record cannot be read")
            return {"text": [f"to be {i}" for i in positions.tolist()], "number": positions}

    return leat.from_source(Records())


def heavy(folder: Path, n: int, bad: set[int]) -> leat.Dataset:
    """Records of half a MiB, of which 16 or so are a group of a pack, that is whole when the next one begins."""
    with leat.Writer(folder / "t.leat", {"text": "bytes", "number": "int64", "rest": "bytes"}) as w:
        for i, text in enumerate(texts(n)):
            w.add(text=b"\xff" if i in bad else text.encode(), number=i, rest=bytes(1 << 19))
    return leat.open(folder / "t.leat")


def test_tokens_are_those_of_the_library(tmp_path: Path) -> None:
    path = bpe_file(tmp_path)
    found = texts(100) + real_texts(150)
    made = leat.tokenize(pack_text(tmp_path / "t.leat", found), tmp_path / "o.leat", tokenizer=path)
    want = [e.ids for e in tokenizers.Tokenizer.from_file(str(path)).encode_batch(found, add_special_tokens=False)]
    assert [r["tokens"].tolist() for r in made.open()] == want
    assert (made.documents, made.tokens) == (len(found), sum(map(len, want)))


def test_properties_become_columns(tmp_path: Path) -> None:
    ds = pack_text(tmp_path / "t.leat", texts(20), name=[f"n{i}" for i in range(20)])
    made = leat.tokenize(ds, tmp_path / "o.leat", tokenizer=bpe_file(tmp_path)).open()
    assert list(made.schema) == ["tokens", "number", "name"]
    assert made.column("number").tolist() == list(range(20)) and made[7]["name"] == "n7"
    one = leat.tokenize(ds, tmp_path / "p.leat", tokenizer=bpe_file(tmp_path), fields=["name", "text"]).open()
    assert list(one.schema) == ["tokens", "name", "text"] and one[7]["text"] == ds[7]["text"]


@pytest.mark.parametrize("size, dtype", [(65536, "uint16"), (65537, "uint32")])
def test_ids_are_uint16_where_the_vocabulary_fits(tmp_path: Path, size: int, dtype: str) -> None:
    ds = pack_text(tmp_path / "t.leat", [f"w1 w{size - 1}"])
    made = leat.tokenize(ds, tmp_path / "o.leat", tokenizer=words_file(tmp_path, size)).open()
    assert made.schema["tokens"].dtype == dtype and made[0]["tokens"].tolist() == [1, size - 1]


def test_an_empty_text_is_a_document_without_tokens(tmp_path: Path) -> None:
    made = leat.tokenize(pack_text(tmp_path / "t.leat", ["", "be"]), tmp_path / "o", tokenizer=bpe_file(tmp_path))
    assert made.empty == 1 and made.documents == 2 and made.open()[0]["tokens"].shape == (0,)


def test_the_metadata_name_the_tokenizer(tmp_path: Path) -> None:
    ds = pack_text(tmp_path / "t.leat", ["be"])
    about = leat.tokenize(ds, tmp_path / "o", tokenizer=bpe_file(tmp_path)).open().metadata["tokenizer"]
    assert about.keys() == {"hash", "file", "vocab_size", "kind"}
    assert (about["file"], about["kind"]) == ("tokenizer.json", "huggingface")
    assert about["vocab_size"] == tokenizers.Tokenizer.from_str(bpe_text()).get_vocab_size()


def test_truncation_and_padding_of_the_file_are_not_applied(tmp_path: Path) -> None:
    core = tokenizers.Tokenizer.from_str(bpe_text())
    core.enable_truncation(3)
    core.enable_padding(length=8)
    core.save(str(tmp_path / "cut.json"))
    ds = pack_text(tmp_path / "t.leat", ["to be or not to be", "be"])
    cut = leat.tokenize(ds, tmp_path / "a", tokenizer=tmp_path / "cut.json").open()
    whole = leat.tokenize(ds, tmp_path / "b", tokenizer=bpe_file(tmp_path)).open()
    assert [r["tokens"].tolist() for r in cut] == [r["tokens"].tolist() for r in whole]
    assert cut.metadata["tokenizer"]["hash"] == whole.metadata["tokenizer"]["hash"]


def test_special_tokens_in_a_text_are_parsed_unless_told_otherwise(tmp_path: Path) -> None:
    ds = pack_text(tmp_path / "t.leat", ["to<|end|>be"])
    path = bpe_file(tmp_path)
    end = tokenizers.Tokenizer.from_file(str(path)).token_to_id("<|end|>")
    assert end in leat.tokenize(ds, tmp_path / "a", tokenizer=path).open()[0]["tokens"]
    assert end not in leat.tokenize(ds, tmp_path / "b", tokenizer=path, parse_special=False).open()[0]["tokens"]


def test_a_broken_record_is_raised_or_left_out_and_listed(tmp_path: Path) -> None:
    path = bpe_file(tmp_path)
    with pytest.raises(leat.BrokenSampleError, match="cannot be read"):
        leat.tokenize(broken(50, {7, 30}), tmp_path / "o", tokenizer=path)
    made = leat.tokenize(broken(50, {7, 30}), tmp_path / "o", tokenizer=path, on_bad="skip", overwrite=True)
    assert (made.documents, made.skipped) == (48, 2)
    assert [n for n in range(50) if n not in made.open().column("number")] == [7, 30]
    listed = [json.loads(line) for line in (tmp_path / "o.bad.jsonl").read_text().splitlines()]
    assert [one["index"] for one in listed] == [7, 30] and "cannot be read" in listed[0]["reason"]


def test_text_that_is_not_utf_8_is_named_by_record_and_byte(tmp_path: Path) -> None:
    with leat.Writer(tmp_path / "t.leat", {"text": "bytes"}) as w:
        w.add(text=b"to be")
        w.add(text=b"to \xff be")
    with pytest.raises(leat.InvalidError, match="record 1, field 'text', byte 3: the text is not UTF-8"):
        leat.tokenize(leat.open(tmp_path / "t.leat"), tmp_path / "o", tokenizer=bpe_file(tmp_path))


def test_a_token_beyond_the_vocabulary_is_an_error_with_its_record(tmp_path: Path) -> None:
    from leat.text import tokenizer as inside

    core = inside.load(bpe_file(tmp_path))
    core.vocab_size = 200
    with pytest.raises(leat.InvalidError, match=r"record 1: token \d+ is \d+, beyond the vocabulary of tokenizer.json"):
        leat.tokenize(pack_text(tmp_path / "t.leat", ["", "to be"]), tmp_path / "o", tokenizer=core)


def test_nothing_that_could_be_resumed_is_overwritten(tmp_path: Path) -> None:
    path = bpe_file(tmp_path)
    with pytest.raises(leat.BrokenSampleError):
        leat.tokenize(broken(50, {40}), tmp_path / "o", tokenizer=path)
    with pytest.raises(leat.ExistsError, match="resume=True"):
        leat.tokenize(broken(50, set()), tmp_path / "o", tokenizer=path)
    assert leat.tokenize(broken(50, set()), tmp_path / "o", tokenizer=path, resume=True).documents == 50


def test_a_tokenizer_that_changed_does_not_continue_a_pack(tmp_path: Path) -> None:
    with pytest.raises(leat.BrokenSampleError):
        leat.tokenize(broken(50, {40}), tmp_path / "o", tokenizer=bpe_file(tmp_path))
    other = bpe_file(tmp_path, "other.json", vocab_size=300)
    with pytest.raises(leat.ChangedError, match="the tokenizer changed since this was begun: it was tokenizer.json"):
        leat.tokenize(broken(50, set()), tmp_path / "o", tokenizer=other, resume=True)


def killed_run(source: str, target: str, tokenizer: str, after: int, there: int, on_bad: Any, pipe: Any) -> None:
    """A run that goes on with earlier ones, and is killed after so many batches, when so many MiB are on the disk."""
    inside.BATCH_RECORDS = 4
    put, start, puts = inside._Run._put, inside.Notes.start, 0

    def counted(self: Any, *rest: Any) -> None:
        nonlocal puts
        put(self, *rest)
        puts += 1
        if puts == after:
            eventually(lambda: os.path.getsize(target + ".partial") >= there << 20)  # the writer's threads write
            os.kill(os.getpid(), signal.SIGKILL)

    def noted(self: Any, written: int) -> Any:
        with open(os.path.dirname(target) + "/said", "a") as f:
            f.write(f"{written}\n")
        return start(self, written)

    inside._Run._put, inside.Notes.start = counted, noted  # type: ignore[method-assign]
    leat.tokenize(leat.open(source), target, tokenizer=tokenizer, on_bad=on_bad, resume=True)


@pytest.mark.parametrize("on_bad", ["raise", "skip"])
def test_a_run_that_is_killed_again_and_again_gives_the_same_bytes(tmp_path: Path, on_bad: str) -> None:
    path = bpe_file(tmp_path)
    ds = heavy(tmp_path, 90, set(range(0, 90, 7)) if on_bad == "skip" else set())
    leat.tokenize(ds, tmp_path / "whole", tokenizer=path, on_bad=on_bad)
    target = tmp_path / "killed"

    def killed_after(batches: int, there: int = 0) -> list[int]:
        """With how many records each run so far has begun. It is killed when so many MiB are on the disk."""
        names = [str(p) for p in (tmp_path / "t.leat", target, path)]
        assert Process(killed_run, *names, batches, there, on_bad).code() == (0 if batches == 1000 else -9)
        return [int(line) for line in (tmp_path / "said").read_text().split()]

    said = killed_after(6, 7)
    while not said[-1] and len(said) < 10:  # it may be killed within its first group, of which nothing is kept
        said = killed_after(6, 7)
    killed_after(7, 14)
    killed_after(2)
    said = killed_after(1000)
    assert said[0] == 0 < said[-1] and said == sorted(said)
    assert target.read_bytes() == (tmp_path / "whole").read_bytes()
    if on_bad == "skip":
        assert (tmp_path / "killed.bad.jsonl").read_bytes() == (tmp_path / "whole.bad.jsonl").read_bytes()
    assert not list(tmp_path.glob("killed.*tokens*")) and not list(tmp_path.glob("*.partial"))


def run_killed_at(where: str, source: str, target: str, tokenizer: str, overwrite: bool, pipe: Any) -> None:
    setattr(inside.Notes, where, lambda *rest: os.kill(os.getpid(), signal.SIGKILL))
    leat.tokenize(leat.open(source), target, tokenizer=tokenizer, on_bad="skip", overwrite=overwrite)


def killed_at(where: str, tmp_path: Path, overwrite: bool = False) -> leat.Dataset:
    """A data set with a broken record, and a run that was killed at the beginning of a function of its notes."""
    with leat.Writer(tmp_path / "t.leat", {"text": "bytes", "number": "int64"}, overwrite=True) as w:
        for i, text in enumerate(texts(60)):
            w.add(text=b"\xff" if i == 7 else text.encode(), number=i)
    names = [str(p) for p in (tmp_path / "t.leat", tmp_path / "o", bpe_file(tmp_path))]
    assert Process(run_killed_at, where, *names, overwrite).code() == -9
    return leat.open(tmp_path / "t.leat")


def whole_and_alone(tmp_path: Path, ds: leat.Dataset) -> bool:
    """Whether the pack has the bytes of a run that was not interrupted, and nothing lies beside it but the list."""
    leat.tokenize(ds, tmp_path / "whole", tokenizer=tmp_path / "tokenizer.json", on_bad="skip")
    same = all((tmp_path / f"o{e}").read_bytes() == (tmp_path / f"whole{e}").read_bytes() for e in ("", ".bad.jsonl"))
    return same and [p.name for p in tmp_path.glob("o.*")] == ["o.bad.jsonl"]


def test_a_run_killed_before_its_notes_begin_is_resumed(tmp_path: Path) -> None:
    ds = killed_at("start", tmp_path)
    assert (tmp_path / "o.partial").exists() and not (tmp_path / "o.tokens").exists()
    leat.tokenize(ds, tmp_path / "o", tokenizer=tmp_path / "tokenizer.json", on_bad="skip", resume=True)
    assert whole_and_alone(tmp_path, ds)


def test_notes_of_an_earlier_run_do_not_hold_for_one_killed_before_its_own(tmp_path: Path) -> None:
    with pytest.raises(leat.BrokenSampleError):
        leat.tokenize(broken(50, {40}), tmp_path / "o", tokenizer=bpe_file(tmp_path, "other.json", vocab_size=300))
    ds = killed_at("start", tmp_path, overwrite=True)
    leat.tokenize(ds, tmp_path / "o", tokenizer=tmp_path / "tokenizer.json", on_bad="skip", resume=True)
    assert whole_and_alone(tmp_path, ds)


def test_a_run_killed_after_the_pack_has_its_name_is_finished(tmp_path: Path) -> None:
    ds = killed_at("finish", tmp_path)
    assert (tmp_path / "o").exists() and (tmp_path / "o.tokens").exists() and not (tmp_path / "o.partial").exists()
    made = leat.tokenize(ds, tmp_path / "o", tokenizer=tmp_path / "tokenizer.json", on_bad="skip", resume=True)
    assert (made.documents, made.skipped, made.text_bytes) == (59, 1, 0)
    assert whole_and_alone(tmp_path, ds)


def test_a_pack_of_another_tokenizer_is_not_taken_for_a_finished_run(tmp_path: Path) -> None:
    ds = killed_at("finish", tmp_path)
    other = bpe_file(tmp_path, "other.json", vocab_size=300)
    with pytest.raises(leat.ExistsError):
        leat.tokenize(ds, tmp_path / "o", tokenizer=other, on_bad="skip", resume=True)
    assert (tmp_path / "o.tokens").exists()


@pytest.mark.parametrize("content", [b"", b"{", b"[]\n", b"{}\n3\n", b"\xff\n"])
def test_notes_that_are_damaged_do_not_continue_a_pack(tmp_path: Path, content: bytes) -> None:
    path = bpe_file(tmp_path)
    ds = heavy(tmp_path, 24, {23})
    with pytest.raises(leat.InvalidError):
        leat.tokenize(ds, tmp_path / "o", tokenizer=path)
    (tmp_path / "o.tokens").write_bytes(content)
    with pytest.raises(leat.ChangedError, match="o.tokens is damaged: start again with overwrite=True"):
        leat.tokenize(ds, tmp_path / "o", tokenizer=path, resume=True)


def test_a_tiktoken_file_gives_the_tokens_of_tiktoken(tmp_path: Path) -> None:
    tiktoken = pytest.importorskip("tiktoken")
    path, pattern = ranks_file(tmp_path), r"\s*\w+|\s*[^\w\s]+|\s+"
    found = texts(50) + real_texts(50)
    made = leat.tokenize(
        pack_text(tmp_path / "t.leat", found),
        tmp_path / "o",
        tokenizer=path,
        pattern=pattern,
        special_tokens={"E": 262},
    )
    from leat.text import tokenizer as inside

    core = tiktoken.Encoding(
        "small", pat_str=pattern, mergeable_ranks=inside._ranks("", path.read_bytes()), special_tokens={"E": 262}
    )
    assert [r["tokens"].tolist() for r in made.open()] == [core.encode(t, allowed_special="all") for t in found]
    assert made.open().metadata["tokenizer"]["vocab_size"] == 263
    with pytest.raises(ValueError, match="holds ranks, and not how text is cut into words before: give pattern"):
        leat.tokenize(leat.open(tmp_path / "t.leat"), tmp_path / "p", tokenizer=path)


@pytest.mark.parametrize(
    "content, message",
    [
        (b'{"model": 3}', "is no tokenizer.json that tokenizers"),
        (b"AA== 0\nnot base64!\n", "line 2: neither a tokenizer.json nor a tiktoken file"),
        (b"AA== 0\nAA== 1\n", "line 2: this token stood here before"),
        (b"AA== 0\nAQ== 0\n", "line 2: this rank stood here before"),
        (b"", "is empty"),
        (b'{"a\xff', "byte 3: a tokenizer.json is UTF-8"),
    ],
)
def test_a_file_that_is_no_tokenizer_is_named_with_its_line(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "t").write_bytes(content)
    with pytest.raises(leat.FormatError, match=message):
        leat.tokenize(pack_text(tmp_path / "t.leat", ["be"]), tmp_path / "o", tokenizer=tmp_path / "t")


def test_a_folder_stands_for_the_tokenizer_in_it(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    bpe_file(tmp_path / "model")
    ds = pack_text(tmp_path / "t.leat", ["be"])
    assert leat.tokenize(ds, tmp_path / "o", tokenizer=tmp_path / "model").tokens > 0
    (tmp_path / "none").mkdir()
    with pytest.raises(FileNotFoundError, match="has no tokenizer.json"):
        leat.tokenize(ds, tmp_path / "p", tokenizer=tmp_path / "none")


@pytest.mark.shard("torch")  # which has transformers
def test_a_fast_tokenizer_of_transformers_is_taken_as_it_is(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    theirs = transformers.PreTrainedTokenizerFast(tokenizer_file=str(bpe_file(tmp_path)))
    ds = pack_text(tmp_path / "t.leat", texts(20))
    made = leat.tokenize(ds, tmp_path / "o", tokenizer=theirs).open()
    assert made[19]["tokens"].tolist() == theirs(ds[19]["text"], add_special_tokens=False)["input_ids"]


def test_the_time_left_is_shown_beside_the_rate() -> None:
    import io

    from leat.text.progress import Line

    line = Line("tokenising", 1000, 200, io.StringIO())
    line.say(600, 12345, 1 << 20)
    time.sleep(0.01)
    text = line.text()
    line.close()
    assert re.fullmatch(
        r"tokenising  60%  600 of 1,000 samples  [\d,]+/s  [\d,]+ tokens/s  [\d.]+ \w+/s  .+ left", text
    ), text


def test_progress_is_told_in_the_words_and_units_of_the_command(tmp_path: Path) -> None:
    """A line that the command draws, and amounts that it prints, as leat.text.progress writes them."""
    import io

    from leat.text import progress

    amounts = {0: "0 bytes", 999: "999 bytes", 1000: "1.0 kB", 999_949: "999.9 kB", 999_951: "1.0 MB"}
    for n, told in amounts.items():
        assert progress.size(n) == told
        path = tmp_path / f"{n}.jsonl"
        if n:
            path.write_text('{"a": 1}\n' + " " * (n - 10) + "\n")
            assert f"size           {told}\n" in shell("info", path).stdout
    times = {
        0.0004: "0 ms",
        0.25: "250 ms",
        1: "1.0 s",
        9.96: "10 s",
        89: "89 s",
        90: "1 min 30 s",
        3599: "59 min 59 s",
    }
    assert {t: progress.duration(t) for t in times} == times and progress.duration(9000) == "2 h 30 min"
    line = progress.Line("packing", 2000, 0, io.StringIO())
    line.say(1000, 0, 0, "2 skipped")
    time.sleep(0.01)
    text = line.text()
    line.close()
    source = (Path(__file__).parents[2] / "cli" / "progress.c").read_text()
    for words in ("%s of %s samples  %s/s", "  %s left", "  %s/s", " %3.0f%%"):
        assert words in source
    assert re.fullmatch(r"packing  50%  1,000 of 2,000 samples  [\d,]+/s  .+ left  2 skipped", text), text


def test_tables_are_tokenised_by_blocks_to_the_same_bytes(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet

    path, found = bpe_file(tmp_path), texts(700)
    rows = {
        "text": found,
        "n": list(range(700)),
        "x": [[0.5] * (i % 3) for i in range(700)],
        "j": [[{"a": i}] for i in range(700)],
    }
    pyarrow.parquet.write_table(pa.table(rows), tmp_path / "t.parquet", row_group_size=90)
    ds = leat.open(tmp_path / "t.parquet")
    leat.tokenize(ds, tmp_path / "blocks", tokenizer=path)
    leat.tokenize(ds[:], tmp_path / "single", tokenizer=path)  # a view is read record by record
    assert (tmp_path / "blocks").read_bytes() == (tmp_path / "single").read_bytes()
    made = leat.open(tmp_path / "blocks")
    assert made[650]["n"] == 650 and made[650]["j"] == [{"a": 650}] and made[650]["x"].tolist() == [0.5, 0.5]


def test_a_record_of_a_table_without_text_is_left_out_alone(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet

    table = pa.table({"text": [None if i == 300 else f"to be {i}" for i in range(600)], "n": list(range(600))})
    pyarrow.parquet.write_table(table, tmp_path / "t.parquet", row_group_size=90)
    made = leat.tokenize(leat.open(tmp_path / "t.parquet"), tmp_path / "o", tokenizer=bpe_file(tmp_path), on_bad="skip")
    assert (made.documents, made.skipped) == (599, 1)
    assert [n for n in range(600) if n not in set(made.open().column("n").tolist())] == [300]


LINES = b"""{"text": "to be"}

{"text": "or"}
{"text": broken}

{"text": "not", "n": [1, 2]}
{"text": "that"}
"""


def _stored(path: Path, raw: bytes, how: str) -> Path:
    from test_text import zstd

    found = path.with_name(path.name + how)
    found.write_bytes(gzip.compress(raw) if how == ".gz" else zstd(raw) if how == ".zst" else raw)
    return found


@pytest.mark.parametrize("how", ["", ".gz", ".zst"])
def test_an_error_while_tokenising_names_file_line_and_byte(tmp_path: Path, how: str) -> None:
    raw = b'{"tokens": [1, 2]}\n\n \n{"tokens": [3]}\n{"tokens": [1, 700]}\n'
    path = _stored(tmp_path / "t.jsonl", raw, how)
    with pytest.raises(leat.InvalidError) as e:
        leat.tokenize(leat.open(path), tmp_path / "o", tokenizer=words_file(tmp_path, 512), tokens="tokens", fields=[])
    at = raw.index(b'{"tokens": [1, 7')
    assert f"{path}, line 5, byte {at} (record 2): token 1 is 700" in str(e.value)


@pytest.mark.parametrize("how", ["", ".gz", ".zst"])
def test_a_bad_chat_is_named_by_file_and_line_also_in_a_view(tmp_path: Path, how: str) -> None:
    pytest.importorskip("jinja2")
    (tmp_path / "t.jinja").write_text("{% for m in messages %}{{ m['content'] }}{% endfor %}")
    good = b'{"messages": [{"role": "user", "content": "to"}]}\n'
    raw = b"\n" + 3 * good + b"\r\n" + b'{"messages": [1]}\n' + good
    path = _stored(tmp_path / "c.jsonl", raw, how)
    with pytest.raises(leat.InvalidError, match="field 'messages'") as e:
        leat.tokenize(
            leat.open(path)[2:],
            tmp_path / "o",
            tokenizer=bpe_file(tmp_path),
            chat=leat.chat(tmp_path / "t.jinja", learn=["user"]),
        )
    assert f"{path}, line 6, byte {raw.index(b'[1]') - 13} (record 1), field" in str(e.value)


def test_lines_are_counted_for_each_of_several_files(tmp_path: Path) -> None:
    good = b'{"tokens": [1]}\n'
    paths = [_stored(tmp_path / f"{i}.jsonl", b"\n" * i + i * good + b'{"tokens": [900]}\n', "") for i in range(3)]
    made = leat.tokenize(
        leat.open(paths), tmp_path / "o", tokenizer=words_file(tmp_path, 512), tokens="tokens", fields=[], on_bad="skip"
    )
    listed = [json.loads(line) for line in (tmp_path / "o.bad.jsonl").read_text().splitlines()]
    assert [(one["path"], one["line"]) for one in listed] == [(str(p), 2 * i + 1) for i, p in enumerate(paths)]
    assert [one["file"] for one in made.skipped_first] == ["0.jsonl", "1.jsonl", "2.jsonl"]


def test_what_was_left_out_is_counted_in_the_pack_and_in_the_result(tmp_path: Path) -> None:
    path = _stored(tmp_path / "t.jsonl", LINES, "")
    with pytest.warns(UserWarning, match="line 4"):
        ds = leat.open(path, on_bad="skip", fields=["text"])
    made = leat.tokenize(ds, tmp_path / "o", tokenizer=bpe_file(tmp_path))
    said = made.open().metadata["skipped"]
    assert (said["records"], said["on_open"], said["tokenising"]) == (1, 1, 0)
    at = LINES.index(b"broken")
    assert said["first"] == [
        {"file": "t.jsonl", "line": 4, "byte": at, "reason": "a character where a value should begin"}
    ]
    assert (made.documents, made.skipped, made.skipped_on_open, list(made.skipped_first)) == (4, 0, 1, said["first"])


def test_counts_of_what_was_left_out_add_up_over_two_packs(tmp_path: Path) -> None:
    tokens = words_file(tmp_path, 512)
    raw = b'{"tokens": [1]}\n{"tokens": [900]}\nnothing\n{"tokens": [2]}\n'
    with pytest.warns(UserWarning, match="line 3"):
        ds = leat.open(_stored(tmp_path / "t.jsonl", raw, ""), on_bad="skip")
    first = leat.tokenize(ds, tmp_path / "a", tokenizer=tokens, tokens="tokens", on_bad="skip", fields=[])
    again = leat.tokenize(first.open(), tmp_path / "b", tokenizer=tokens, tokens="tokens", fields=[]).open()
    said = again.metadata["skipped"]
    assert (said["on_open"], said["tokenising"], [one["line"] for one in said["first"]]) == (1, 1, [3, 2])
    assert said == first.open().metadata["skipped"] and "token 0 is 900" in said["first"][1]["reason"]
    assert (first.skipped, first.skipped_on_open) == (1, 1)


def run_killed_after_two_batches(source: str, target: str, tokenizer: str, shard_bytes: Any, pipe: Any) -> None:
    inside.BATCH_RECORDS = 16
    put, puts = inside._Run._put, 0

    def stop(self: Any, *rest: Any) -> None:
        nonlocal puts
        put(self, *rest)
        puts += 1
        if puts == 2:
            os.kill(os.getpid(), signal.SIGKILL)

    inside._Run._put = stop  # type: ignore[method-assign]
    leat.tokenize(leat.open(source), target, tokenizer=tokenizer, on_bad="skip", shard_bytes=shard_bytes)


@pytest.mark.parametrize("shard_bytes", [None, 1 << 22])
def test_a_resumed_run_counts_what_earlier_runs_left_out(tmp_path: Path, shard_bytes: int | None) -> None:
    tokenizer = bpe_file(tmp_path)
    ds = heavy(tmp_path, 60, {3, 40, 55})
    whole = leat.tokenize(ds, tmp_path / "w", tokenizer=tokenizer, on_bad="skip", shard_bytes=shard_bytes)
    names = [str(tmp_path / "t.leat"), str(tmp_path / "r"), str(tokenizer)]
    assert Process(run_killed_after_two_batches, *names, shard_bytes).code() == -9
    made = leat.tokenize(ds, tmp_path / "r", tokenizer=tokenizer, on_bad="skip", shard_bytes=shard_bytes, resume=True)
    assert made.skipped == 3 and made.open().metadata == whole.open().metadata
    assert made.open().metadata["skipped"]["tokenising"] == 3
    assert [one["record"] for one in made.skipped_first] == [3, 40, 55]
    if shard_bytes is None:
        assert (tmp_path / "r").read_bytes() == (tmp_path / "w").read_bytes()


def test_views_of_tables_are_read_in_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    n = 2000
    found = texts(n)
    for k in range(2):
        some = pa.table({"text": found[k::2], "number": list(range(k, n, 2))})
        parquet.write_table(some, tmp_path / f"{k}.parquet", row_group_size=300)
    a, b = (leat.open(tmp_path / f"{k}.parquet") for k in range(2))
    shuffled = np.random.default_rng(0).permutation(1400)
    views = leat.concat(a[100:900], b.where("number % 3 = 0"), a[::3]).select(shuffled)
    blocks, read = [], records.Reader._read

    def counted(reader: records.Reader, first: int, n: int) -> dict[int, object]:
        block = read(reader, first, n)
        blocks.append((first, n))
        return block

    monkeypatch.setattr(records.Reader, "_read", counted)
    made = leat.tokenize(views, tmp_path / "o", tokenizer=bpe_file(tmp_path), fields=["number", "text"]).open()
    assert [r["text"] for r in made] == [found[n] for n in made.column("number")]
    assert made.column("number").tolist() == [views[i]["number"] for i in range(len(views))]
    assert blocks == [(i, min(256, 1400 - i)) for i in range(0, 1400, 256)]  # and none failed


def test_a_record_of_a_table_is_named_by_its_row(tmp_path: Path) -> None:
    ds = leat.open(table_with_a_large_token(tmp_path / "t.parquet"))[5:]
    with pytest.raises(leat.InvalidError, match=r"t.parquet row group 2, row 5 \(record 20\): token 0 is 999"):
        leat.tokenize(ds, tmp_path / "o", tokenizer=words_file(tmp_path, 512), tokens="tokens")
