"""What was left out of text: where it stands, how it is counted, and how it is shown."""

from __future__ import annotations

import json
import os
import pickle
import struct
from pathlib import Path
from typing import Any

import pytest
from cli_support import PYTHON
from cli_support import leat as command
from text_support import bpe_file, table_with_a_large_token, words_file

import leat

pytest.importorskip("tokenizers")


def broken_text(path: Path) -> leat.Dataset:
    """Two records, and between them a line that is none."""
    path.write_bytes(b'{"text": "to"}\n{"text": or}\n{"text": "be"}\n')
    with pytest.warns(UserWarning, match="line 2"):
        return leat.open(path, on_bad="skip")


def test_the_error_of_a_text_goes_between_processes(tmp_path: Path) -> None:
    with leat.Writer(tmp_path / "t.leat", {"text": "bytes"}) as w:
        w.add(text=b"\xff")
    with pytest.raises(leat.InvalidError, match="not UTF-8") as e:
        leat.tokenize(leat.open(tmp_path / "t.leat"), tmp_path / "o", tokenizer=bpe_file(tmp_path))
    again = pickle.loads(pickle.dumps(e.value))
    assert type(again) is type(e.value) and str(again) == str(e.value)
    assert again.__dict__ == e.value.__dict__ and again.what


def test_the_warning_of_opening_names_the_line_that_opens(tmp_path: Path) -> None:
    (tmp_path / "t.jsonl").write_bytes(b'{"text": "to"}\n{"text": or}\n')
    with pytest.warns(UserWarning, match="line 2") as told:
        leat.open(tmp_path / "t.jsonl", on_bad="skip")
    assert [one.filename for one in told] == [__file__]


def test_names_that_are_not_utf_8_are_written_out_in_the_metadata(tmp_path: Path) -> None:
    name = os.fsdecode(b"t\xff.jsonl")
    (tmp_path / name).write_bytes(b'{"tokens": [1]}\n{"tokens": [900]}\nnothing\n')
    with pytest.warns(UserWarning, match="line 3"):
        ds = leat.open(tmp_path / name, on_bad="skip")
    core = words_file(tmp_path, 512)
    made = leat.tokenize(ds, tmp_path / "o", tokenizer=core, tokens="tokens", on_bad="skip", fields=[])
    said = json.loads(command("info", tmp_path / "o", "--json").stdout)["metadata"]
    assert said == made.open().metadata
    assert [one["file"] for one in said["skipped"]["first"]] == ["t\\xff.jsonl"] * 2


@pytest.mark.parametrize("own", ["yes", {"first": [1, 2]}, {"records": "3", "first": []}])
def test_a_value_of_the_users_own_named_skipped_is_kept(tmp_path: Path, own: Any) -> None:
    ds, tokenizer = broken_text(tmp_path / "t.jsonl"), bpe_file(tmp_path)
    with pytest.warns(UserWarning, match="not counted in the metadata"):
        made = leat.tokenize(ds, tmp_path / "o", tokenizer=tokenizer, metadata={"skipped": own})
    assert made.open().metadata["skipped"] == own
    assert (made.skipped_on_open, [one["line"] for one in made.skipped_first]) == (1, [2])


def test_the_list_of_what_was_left_out_of_a_table_has_file_row_group_and_row(tmp_path: Path) -> None:
    ds = leat.open(table_with_a_large_token(tmp_path / "t.parquet"))
    core = words_file(tmp_path, 512)
    made = leat.tokenize(ds, tmp_path / "o", tokenizer=core, tokens="tokens", on_bad="skip")
    listed = json.loads((tmp_path / "o.bad.jsonl").read_text())
    assert [listed[name] for name in ("path", "row_group", "row")] == [str(tmp_path / "t.parquet"), 2, 5]
    first = made.skipped_first[0]
    assert [first[name] for name in ("file", "row_group", "row")] == ["t.parquet", 2, 5]
    assert first["reason"].startswith("token 0 is 999")


def test_names_of_files_do_not_control_the_terminal(tmp_path: Path) -> None:
    source = tmp_path / "t\x1b[31m\u202e.jsonl"
    source.write_bytes(b'{"text": "to"}\n{"text": or}\n')
    words = ("pack", source, tmp_path / "o", "--tokenizer", bpe_file(tmp_path), "--on-bad", "skip")
    done = command(*words, env=PYTHON)
    shown = done.stdout + done.stderr
    assert "line 2" in shown and r"t\x1b[31m\xe2\x80\xae.jsonl" in shown
    assert "\x1b[31m" not in shown and "\u202e" not in shown


def left_out(*records: tuple[str, int], **more: Any) -> dict[str, Any]:
    first = [{"file": name, "line": line, "byte": 9, "reason": "a reason"} for name, line in records]
    return {"skipped": {"records": len(first), "on_open": len(first), "tokenising": 0, "first": first}, **more}


def with_metadata(path: Path, metadata: dict[str, Any]) -> leat.Dataset:
    with leat.Writer(path, {"text": "str"}, metadata=metadata) as w:
        w.add(text="to be")
    return leat.open(path)


def test_joined_packs_keep_the_metadata_that_they_share_and_add_up_what_was_left_out(tmp_path: Path) -> None:
    core = {"tokenizer": {"hash": "0" * 32, "n": 0.1}}
    given = [core, left_out(("a", 1), ("a", 2), **core), left_out(("b", 1), **core)]
    parts = [with_metadata(tmp_path / f"{i}.leat", one) for i, one in enumerate(given)]
    want = left_out(("a", 1), ("a", 2), ("b", 1), **core)
    assert leat.concat(parts).metadata == leat.open([tmp_path / f"{i}.leat" for i in range(3)]).metadata == want
    assert leat.concat(parts[1], leat.concat(parts[0], parts[2])).metadata == want
    assert leat.concat(parts[0], parts[0]).metadata == core


def test_of_joined_packs_that_differ_only_what_was_left_out_stays(tmp_path: Path) -> None:
    a = with_metadata(tmp_path / "a", left_out(("a", 1), by="one"))
    b = with_metadata(tmp_path / "b", left_out(("b", 1), by="another"))
    assert leat.concat(a, b).metadata == left_out(("a", 1), ("b", 1))
    own = [with_metadata(tmp_path / f"o{i}", {"skipped": one, "by": 1}) for i, one in enumerate(["yes", "no"])]
    assert leat.concat(own).metadata == {} and leat.concat(own[0], own[0]).metadata == {"skipped": "yes", "by": 1}
    big = with_metadata(tmp_path / "c", {"number": 1 << 70})
    assert leat.concat(big, a).metadata == left_out(("a", 1)) and leat.concat(big, big).metadata == {"number": 1 << 70}


def test_shards_of_one_run_count_what_it_left_out_once(tmp_path: Path) -> None:
    first = with_metadata(tmp_path / "a", left_out(("a", 1)))
    last = with_metadata(tmp_path / "b", left_out(("a", 1), ("a", 7)))
    assert leat.concat(first, last).metadata == leat.concat(last, first, last).metadata == last.metadata


def test_a_text_that_is_joined_to_itself_counts_what_was_left_out_of_it_once(tmp_path: Path) -> None:
    ds = broken_text(tmp_path / "t.jsonl")
    (tmp_path / "u").mkdir()
    other = broken_text(tmp_path / "u" / "t.jsonl")
    for joined, n in ((leat.concat(ds, ds[1:]), 1), (leat.concat(ds, other, leat.concat(ds, other)), 2)):
        assert joined.about["skipped"] == len(joined.about["skipped_first"]) == n


def test_pack_says_what_the_metadata_cannot_have(tmp_path: Path) -> None:
    broken_text(tmp_path / "t.jsonl")
    words = ("pack", tmp_path / "t.jsonl", tmp_path / "o", "--on-bad", "skip", "--overwrite", "--metadata")
    for given, why in (('{"n": 18446744073709551617}', "too big"), ('{"skipped": {"first": [1]}}', "something else")):
        told = command(*words, given).stderr
        assert "warning: what was left out of the source is not counted in the metadata" in told and why in told
        assert leat.open(tmp_path / "o").metadata == json.loads(given)


def test_stats_reads_no_gigabytes_that_nobody_asked_for(tmp_path: Path) -> None:
    tokens = (1 << 29) + 1  # of two bytes each
    index = b"MMIDIDX\0\0" + struct.pack("<QBQQiqqq", 1, 8, 1, 2, tokens, 0, 0, 1)
    (tmp_path / "t.idx").write_bytes(index)
    (tmp_path / "t.bin").touch()
    os.truncate(tmp_path / "t.bin", 2 * tokens)  # of holes
    stats = json.loads(command("stats", tmp_path / "t.idx", "--json").stdout)
    assert stats["lengths"][0]["total"] == tokens and not stats.get("texts")
