"""leat pack --tokenizer: the command hands over to Python."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from cli_support import PYTHON, command, leat, leat_here
from text_support import bpe_file, pack_text, texts

pytest.importorskip("tokenizers")


@pytest.fixture
def records(tmp_path: Path) -> Path:
    pack_text(tmp_path / "t.leat", texts(300))
    return tmp_path / "t.leat"


def test_pack_makes_tokens_and_says_how_many(records: Path, tmp_path: Path) -> None:
    import leat as package

    done = leat("pack", records, tmp_path / "o.leat", "--tokenizer", bpe_file(tmp_path), env=PYTHON)
    made = package.open(tmp_path / "o.leat")
    tokens = sum(len(r["tokens"]) for r in made)
    assert f"300 documents, {tokens:,} tokens" in done.stdout
    assert list(made.schema) == ["tokens", "number"]


def test_pack_says_which_field_there_is(records: Path, tmp_path: Path) -> None:
    words = ("pack", records, tmp_path / "o.leat", "--tokenizer", bpe_file(tmp_path), "--text", "body")
    assert 'has no field "body": it has text, number' in leat_here(*words, code=2).stderr


def test_pack_makes_tokens_of_chats(tmp_path: Path) -> None:
    import leat as package

    pytest.importorskip("jinja2")
    talk = [{"role": "user", "content": "to be?"}, {"role": "tool", "content": "or"}, {"role": "user", "content": "x"}]
    with package.Writer(tmp_path / "c.leat", {"talk": "json", "number": "int64"}) as w:
        w.add(talk=talk, number=7)
    (tmp_path / "t.jinja").write_text("{% for m in messages %}{{ m.content + '\n' }}{% endfor %}")
    words = ["pack", tmp_path / "c.leat", tmp_path / "o.leat", "--tokenizer", bpe_file(tmp_path), "--chat", "talk"]
    words += ["--template", tmp_path / "t.jinja", "--learn", "user,tool", "--turns", "last"]
    assert "2 of them learned" in leat_here(*words).stdout
    one = package.open(tmp_path / "o.leat")[0]
    assert one["number"] == 7 and one["loss_mask"].sum() == 2 and one["loss_mask"][-2:].all()


TALK = [{"role": "assistant", "content": "to be"}]


def chats(folder: Path, template: str, *, name: str = "c.leat") -> list[object]:
    """The words of a command that packs a chat which begins with an answer."""
    import leat as package

    pytest.importorskip("jinja2")
    with package.Writer(folder / name, {"messages": "json", "called": "json"}) as w:
        w.add(messages=TALK, called=[{"name": "or"}])
    (folder / "t.jinja").write_text(template)
    words: list[object] = ["pack", folder / name, folder / "o.leat", "--tokenizer", bpe_file(folder), "--overwrite"]
    return [*words, "--chat", "messages", "--template", folder / "t.jinja"]


def test_pack_gives_a_template_what_its_errors_ask_for(tmp_path: Path) -> None:
    import leat as package

    asks = "{% if messages[-1].role == 'user' and add_generation_prompt %}{{ '<a>\n' }}{% endif %}"
    words = chats(tmp_path, "{% for m in messages %}{{ '<a>\n' + m.content }}{% endfor %}" + asks)
    assert "message 0: with what the chat template asks for" in (said := leat_here(*words, code=2).stderr)
    assert "--prompt says it" in said
    leat_here(*words, "--prompt", "<a>\n")
    one = package.open(tmp_path / "o.leat")[0]
    assert leat_here("cat", tmp_path / "o.leat", "--id", 0, "--decode").stdout == "<a>\nto be"
    assert 0 < one["loss_mask"].sum() < len(one["tokens"])
    words = chats(tmp_path, "{{ strftime_now('%Y-%m-%d') }} {{ x }} {{ tools[0].name }}", name="d.leat")
    assert "asks for the day: give --date" in leat_here(*words, "--prompt", "", code=2).stderr
    more = ["--date", "2026-01-31", "--variables", '{"x": "or"}', "--tools", "called", "--learn", "user"]
    leat_here(*words, *more)
    assert leat_here("cat", tmp_path / "o.leat", "--id", 0, "--decode").stdout == "2026-01-31 or or"
    words = chats(tmp_path, "{{ bos_token }}", name="e.leat")
    assert """--variables '{"bos_token": ...}'""" in leat_here(*words, code=2).stderr


@pytest.mark.parametrize(
    "option, value, message",
    [
        ("--date", "31.1.2026", "--date is a day such as 2026-01-31, not '31.1.2026'"),
        ("--variables", "{x}", "--variables is no JSON: "),
        ("--variables", "[3]", "--variables is a JSON object, such as "),
        ("--learn", " , ", "--learn names no role"),
    ],
)
def test_pack_names_an_option_of_chats_that_is_wrong(tmp_path: Path, option: str, value: str, message: str) -> None:
    words = chats(tmp_path, "{% for m in messages %}{{ m.content }}{% endfor %}")
    assert message in leat_here(*words, option, value, code=2).stderr


def test_roles_may_stand_behind_blanks_and_one_that_is_never_met_is_named(tmp_path: Path) -> None:
    words = chats(tmp_path, "{% for m in messages %}{{ m.content }}{% endfor %}")
    assert "warning" not in leat_here(*words, "--learn", " assistant ").stderr
    said = leat_here(*words, "--learn", "assistant, tol").stderr
    assert "warning: " in said and "no message has the role 'tol', of those that are to be learned from" in said


@pytest.fixture
def packed(records: Path, tmp_path: Path) -> Path:
    import leat as package

    package.tokenize(package.open(records), tmp_path / "o.leat", tokenizer=bpe_file(tmp_path), progress=False)
    return tmp_path / "o.leat"


def test_cat_decodes_by_the_tokenizer_beside_the_pack(packed: Path, records: Path) -> None:
    import leat as package

    text = package.open(records)[96]["text"]
    assert leat("cat", packed, "--id", 96, "--decode", env=PYTHON).stdout == text
    found = leat_here("cat", packed, "--where", "id IN (1, 96)", "--decode").stdout
    assert found == package.open(records)[1]["text"] + "\n" + text + "\n"


def test_cat_decodes_rows_and_files_of_megatron(packed: Path, records: Path, tmp_path: Path) -> None:
    import leat as package

    whole = "".join(one["text"] for one in package.open(records))
    row = leat_here("cat", packed, "--id", 1, "--decode", "--length", 50).stdout
    assert len(row) > 50 and row in whole
    package.write_megatron(package.open(packed), tmp_path / "m")
    words = ("cat", tmp_path / "m.idx", "--id", 96, "--decode")
    assert "does not say which tokenizer its tokens are of: name it with --tok" in leat_here(*words, code=2).stderr
    words = (*words, "--tokenizer", tmp_path, "--out", tmp_path / "text")
    assert leat_here(*words).stdout == "" and (tmp_path / "text").read_text() == package.open(records)[96]["text"]


def test_cat_refuses_a_tokenizer_that_is_lost_or_another_one(packed: Path, tmp_path: Path) -> None:
    bpe_file(tmp_path, vocab_size=300)
    words = ("cat", packed, "--id", 1, "--decode")
    assert "o.leat: its tokens were made by tokenizer.json (" in leat_here(*words, code=2).stderr
    (tmp_path / "tokenizer.json").unlink()
    assert "lies neither beside it nor in the present folder" in leat_here(*words, code=2).stderr


def test_cat_leaves_a_file_alone_where_there_is_nothing_to_write(packed: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.write_text("there")
    leat_here("cat", packed, "--where", "id < 0", "--decode", "--out", out)
    bpe_file(tmp_path, vocab_size=300)
    leat_here("cat", packed, "--id", 1, "--decode", "--out", out, code=2)
    assert out.read_text() == "there"


def test_verify_finds_tokens_beyond_the_vocabulary(packed: Path, tmp_path: Path) -> None:
    import leat as package

    assert "whole" in leat("verify", packed).stdout
    about = {**package.open(packed).metadata["tokenizer"], "vocab_size": 9}
    schema = {"tokens": package.field("uint16", (None,))}
    with package.Writer(tmp_path / "bad.leat", schema, metadata={"tokenizer": about}) as w:
        w.write_batch({"tokens": [[1, 8], [], [3, 9, 70]]})
    said = leat("verify", tmp_path / "bad.leat", code=1).stdout
    assert (
        "bad.leat, sample 2, field tokens: token 1 is 9, beyond the vocabulary of its tokenizer, which ends at 8"
        in said
    )


def test_options_of_decoding_need_decode() -> None:
    assert "--length needs --decode." in leat("cat", "a", "--id", 1, "--length", 5, code=2).stderr
    assert "--how needs --length." in leat("cat", "a", "--id", 1, "--decode", "--how", "pad", code=2).stderr


def test_broken_records_of_jsonl_are_an_error_or_left_out_and_counted(tmp_path: Path) -> None:
    import leat as package

    (tmp_path / "t.jsonl").write_bytes(b'{"text": "to be"}\n{"text": 3\n{"text": "or not"}\n')
    words = ("pack", tmp_path / "t.jsonl", tmp_path / "o.leat", "--tokenizer", bpe_file(tmp_path))
    assert "t.jsonl, line 2, byte " in leat_here(*words, code=1).stderr
    done = leat_here(*words, "--on-bad", "skip")
    assert f"1 broken records of {tmp_path}/t.jsonl were left out when it was opened" in done.stdout
    assert len(package.open(tmp_path / "o.leat")) == 2
    plain = ("pack", tmp_path / "t.jsonl", tmp_path / "p.leat")
    assert "t.jsonl, line 2, byte " in leat(*plain, code=1).stderr
    assert "line 2" in leat(*plain, "--on-bad", "skip").stderr
    assert len(package.open(tmp_path / "p.leat")) == 2


def test_tokens_of_megatron_are_compared_with_the_vocabulary(packed: Path, tmp_path: Path) -> None:
    import leat as package

    package.write_megatron(package.open(packed), tmp_path / "m")
    words = ("pack", tmp_path / "m.idx", tmp_path / "q.leat", "--tokens", "tokens", "--tokenizer")
    leat_here(*words, bpe_file(tmp_path))
    assert package.open(tmp_path / "q.leat").metadata["tokenizer"] == package.open(packed).metadata["tokenizer"]
    assert package.open(tmp_path / "q.leat")[5]["tokens"].tolist() == package.open(packed)[5]["tokens"].tolist()
    said = leat_here(*words, bpe_file(tmp_path, "small.json", vocab_size=260), "--overwrite", code=2).stderr
    assert "record 1: token 0 is " in said and ", beyond the vocabulary of small.json, which ends at" in said


def test_options_of_chats_need_chat(tmp_path: Path) -> None:
    words = ("pack", "a", "b", "--tokenizer", "t.json")
    assert "--learn needs --chat." in leat(*words, "--learn", "user", code=2).stderr
    for option in ("--prompt", "--date", "--variables", "--tools"):
        assert f"{option} needs --chat." in leat(*words, option, "x", code=2).stderr
    assert (
        "--text, --chat and --tokens exclude each other." in leat(*words, "--chat", "m", "--text", "t", code=2).stderr
    )


def test_options_of_text_need_a_tokenizer(records: Path, tmp_path: Path) -> None:
    assert "--text needs --tokenizer." in leat("pack", records, "o", "--text", "t", code=2).stderr
    words = ("pack", records, tmp_path / "o", "--tokenizer", "t.json", "--max-side", 8)
    assert "--max-side is about photos" in leat(*words, code=2).stderr


def test_without_python_the_error_says_what_is_missing(records: Path, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    shutil.copy(Path(command()).resolve(), tmp_path / "bin" / "leat")
    words = [tmp_path / "bin" / "leat", "pack", records, tmp_path / "o", "--tokenizer", "t.json"]
    bare = {k: v for k, v in os.environ.items() if k != "LEAT_PYTHON"} | {"PATH": str(tmp_path / "bin")}
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, env=bare)
    assert done.returncode == 2 and "there is no python3 beside leat or in PATH. LEAT_PYTHON=PATH" in done.stderr
    named = subprocess.run(words, capture_output=True, text=True, timeout=120, env=bare | {"LEAT_PYTHON": "/none"})
    assert named.returncode == 2 and "/none could not be started" in named.stderr


def test_a_python_without_the_package_is_named(records: Path, tmp_path: Path) -> None:
    script = tmp_path / "python3"
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -I -S "$@"\n')
    script.chmod(0o755)
    words = ("pack", records, tmp_path / "o", "--tokenizer", "t.json")
    done = leat(*words, code=2, env={**os.environ, "LEAT_PYTHON": str(script)})
    assert "lacks the package leat" in done.stderr and "LEAT_PYTHON=PATH" in done.stderr


#: Runs the code that the command hands to Python, and sends a signal while it tokenises.
INTERRUPTED = """
import os, signal, sys
import leat.text.tokenize as module
module.BATCH_RECORDS = 50
put, batches = module._Run._put, []
def interrupted(*arguments):
    put(*arguments)
    batches.append(1)
    if len(batches) == 2:
        os.kill(os.getpid(), signal.SIGINT)
module._Run._put = interrupted
code = sys.argv.pop(1)
exec(code)
"""


def test_ctrl_c_leaves_a_run_that_resumes_to_the_same_bytes(tmp_path: Path) -> None:
    """The process interrupts itself, where two batches of documents are written and more are being made."""
    pack_text(tmp_path / "t.leat", texts(300))
    script = tmp_path / "python"
    script.write_text(f"#!/bin/sh\nshift\nexec '{sys.executable}' '{tmp_path}/start.py' \"$@\"\n")
    script.chmod(0o755)
    (tmp_path / "start.py").write_text(INTERRUPTED)
    words = ["pack", tmp_path / "t.leat", tmp_path / "o.leat", "--tokenizer", bpe_file(tmp_path), "--quiet"]
    said = leat(*words, env={**os.environ, "LEAT_PYTHON": str(script)}, code=130).stderr
    assert "Traceback" not in said and "To resume: leat pack " in said and "--resume" in said
    assert (tmp_path / "o.leat.tokens").exists() and not (tmp_path / "o.leat").exists()
    leat_here(*words, "--resume")
    leat_here("pack", tmp_path / "t.leat", tmp_path / "p.leat", *words[3:])
    assert (tmp_path / "o.leat").read_bytes() == (tmp_path / "p.leat").read_bytes()


def test_what_was_left_out_is_said_by_pack_info_and_stats(tmp_path: Path) -> None:
    source = tmp_path / "t.jsonl"
    source.write_bytes(b'{"text": "to"}\n{"text": or}\n\n{"text": "be"}\n')
    tokens = tmp_path / "o.leat"
    done = leat_here("pack", source, tokens, "--tokenizer", bpe_file(tmp_path), "--on-bad", "skip")
    assert "1 broken records of" in done.stdout and "t.jsonl, line 2, byte 24: a character" in done.stdout
    leat("pack", source, tmp_path / "p.leat", "--on-bad", "skip")
    leat("pack", tmp_path / "p.leat", tmp_path / "q.leat")
    for path in (tokens, tmp_path / "p.leat", tmp_path / "q.leat"):
        for name in ("info", "stats"):
            told = leat(name, path).stdout
            assert "left out       1 records when this was made" in told
            assert "t.jsonl, line 2, byte 24: a character where a value should begin" in told
        assert json.loads(leat("stats", path, "--json").stdout)["left_out"]["on_open"] == 1
