"""leat prompts: plans of JSONL, CSV and packs, results in their order, what a crash has left, and the tree of stats."""

from __future__ import annotations

import contextlib
import csv
import json
import os
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli_support import PYTHON, leat, leat_here
from drawn_support import examples
from hypothesis import given
from hypothesis import strategies as st

import leat as package
from leat.commands import prompts as commands
from leat.text.prompt_files import Records

HEADS = [f"You are helper {i}. " * 12 for i in range(4)]


def run(*arguments: object, code: int = 0) -> str:
    """The command, the part in Python in this process; returns what it says."""
    done = leat_here("prompts", *arguments, code=code)
    return done.stdout + done.stderr


@pytest.fixture
def batch(tmp_path: Path) -> Path:
    """A batch file as OpenAI's service takes it, its last line without an end."""
    draw = random.Random(1)
    lines = []
    for i in range(60):
        user = {"role": "user", "content": f"Question {draw.randint(0, 30)}?"}
        body = {"messages": [{"role": "system", "content": draw.choice(HEADS)}, user], "max_tokens": i}
        lines.append(json.dumps({"custom_id": f"r{i}", "url": "/v1/chat/completions", "body": body}))
    (tmp_path / "batch.jsonl").write_text("\n".join(lines))
    return tmp_path / "batch.jsonl"


def answers(plan: Path) -> list[dict[str, Any]]:
    """What an engine says to each line."""
    return [{"custom_id": r["custom_id"], "to": r["body"]["max_tokens"]} for r in map(json.loads, plan.open())]


def written(path: Path, records: list[Any]) -> Path:
    path.write_text("".join(json.dumps(r) + "\n" for r in records))
    return path


def test_a_plan_has_the_lines_as_they_are_and_results_come_back_by_id(batch: Path, tmp_path: Path) -> None:
    plan, out = tmp_path / "plan.jsonl", tmp_path / "out.jsonl"
    said = run(batch, "--out", plan)
    assert "60 prompts" in said
    assert "in 4 groups" in said
    lines = batch.read_text().split("\n")
    assert sorted(plan.read_text().splitlines()) == sorted(lines)
    heads = [json.loads(line)["body"]["messages"][0]["content"] for line in plan.open()]
    assert heads == sorted(heads)
    results = answers(plan)
    random.Random(2).shuffle(results)
    run(batch, written(tmp_path / "results.jsonl", results), "--restore", "--out", out)
    assert [json.loads(line)["to"] for line in out.open()] == list(range(60))


def test_numbers_of_texts_that_no_tokenizer_cut_are_bytes(tmp_path: Path) -> None:
    texts = written(tmp_path / "a.jsonl", [{"prompt": "the same " + x} for x in "abc"])
    tokens = written(tmp_path / "b.jsonl", [{"prompt": [7, 7, 8]}, {"prompt": [7, 7, 9]}])
    assert "3 prompts of 30 bytes in 1 group" in run(texts, "--out", tmp_path / "p.jsonl")
    said = run(texts, "--simulate", "lru=64,block=1")
    assert "64 tokens) saves of 30 bytes, each counted as a token" in said
    shown = leat_here("stats", texts, "--prompts", "auto").stdout
    assert "30 bytes, of which" in shown and "9 bytes, 3 prompts" in shown and "token" not in shown
    with package.Writer(tmp_path / "b.leat", {"tokens": package.field("uint16", (None,))}) as w:
        for record in map(json.loads, tokens.open()):
            w.add(tokens=record["prompt"])
    assert "2 prompts of 6 tokens" in run(tmp_path / "b.leat", "--out", tmp_path / "q.jsonl")
    assert (
        json.loads(leat_here("stats", tmp_path / "b.leat", "--prompts", "tokens", "--json").stdout)["unit"] == "tokens"
    )


def test_a_mark_of_byte_order_before_the_first_record_is_none_of_it(tmp_path: Path) -> None:
    records = [{"custom_id": x, "prompt": f"prompt {x}"} for x in "cab"]
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps(r) + "\n" for r in records), encoding="utf-8-sig")
    run(path, "--out", tmp_path / "plan.jsonl")
    assert [json.loads(line)["custom_id"] for line in (tmp_path / "plan.jsonl").open()] == ["a", "b", "c"]
    (tmp_path / "results.jsonl").write_text(
        "".join(json.dumps({"custom_id": x}) + "\n" for x in "abc"), encoding="utf-8-sig"
    )
    run(path, tmp_path / "results.jsonl", "--restore", "--out", tmp_path / "out.jsonl")
    assert [json.loads(line)["custom_id"] for line in (tmp_path / "out.jsonl").open()] == ["c", "a", "b"]
    with pytest.raises(package.BrokenSampleError, match="line 1, byte 3: the line is no JSON"):
        (tmp_path / "b.jsonl").write_text("\ufeff{\n")
        Records(str(tmp_path / "b.jsonl")).record(0)


def test_groups_stand_by_what_they_decode(batch: Path, tmp_path: Path) -> None:
    plan = tmp_path / "plan.jsonl"
    run(batch, "--out", plan, "--decode", "body.max_tokens", "--quiet")
    sums: dict[str, list[float]] = {}
    for record in map(json.loads, plan.open()):
        messages = record["body"]["messages"]
        head = messages[0]["content"]
        found = sums.setdefault(head, [0.0, len(f"system\n{head}\nuser\nQuestion ")])
        found[0] += record["body"]["max_tokens"]
        found[1] += len(messages[1]["content"].removeprefix("Question ")) + 1
    rates = [decode / tokens for decode, tokens in sums.values()]
    assert rates == sorted(rates, reverse=True)


@pytest.mark.parametrize("number", ["Infinity", "-Infinity", "NaN", "2.5", "-1", "4294967296", "true", "null", '"x"'])
def test_a_number_of_tokens_that_is_none_is_named_by_line(tmp_path: Path, number: str) -> None:
    src = tmp_path / "src.jsonl"
    src.write_text('{"prompt": "a", "n": 3.0}\n{"prompt": "b", "n": "7"}\n{"prompt": "c", "n": ' + number + "}\n")
    said = run(src, "--out", tmp_path / "out.jsonl", "--decode", "n", code=1)
    assert "src.jsonl, line 3, byte 52: n is a whole number of tokens" in said


def test_after_a_crash_what_is_missing_is_written_and_all_come_back(batch: Path, tmp_path: Path) -> None:
    plan, rest, out = (tmp_path / f"{name}.jsonl" for name in ("plan", "rest", "out"))
    run(batch, "--out", plan, "--quiet")
    cut = "".join(json.dumps(a) + "\n" for a in answers(plan))[:777]  # in the middle of a line
    (tmp_path / "first.jsonl").write_text(cut)
    said = run(batch, tmp_path / "first.jsonl", "--restore", "--out", out, code=1)
    assert "batch.jsonl, line" in said
    assert "there is no result for this record" in said
    assert not out.exists()
    said = run(batch, tmp_path / "first.jsonl", "--resume", "--plan", plan, "--out", rest)
    assert "the last line of" in said
    done = cut.count("\n")
    assert rest.read_text() == "".join(plan.read_text().splitlines(True)[done:])
    written(tmp_path / "second.jsonl", answers(rest))
    run(batch, tmp_path / "first.jsonl", tmp_path / "second.jsonl", "--restore", "--out", out, "--quiet")
    assert [json.loads(line)["to"] for line in out.open()] == list(range(60))


def test_results_of_requests_that_failed_are_none(batch: Path, tmp_path: Path) -> None:
    plan, out, rest = tmp_path / "plan.jsonl", tmp_path / "out.jsonl", tmp_path / "rest.jsonl"
    run(batch, "--out", plan, "--quiet")
    good = {"status_code": 200, "body": {}}
    results = [{"custom_id": r["custom_id"], "response": good, "error": None} for r in answers(plan)]
    results[3] |= {"response": None, "error": {"message": "too long"}}
    results[8] |= {"response": {"status_code": 500, "body": {}}}
    failed = {results[3]["custom_id"], results[8]["custom_id"]}
    first = written(tmp_path / "first.jsonl", results)
    said = run(batch, first, "--resume", "--out", rest)
    assert "2 results say that their request failed" in said and "2 of 60 prompts" in said
    assert {json.loads(line)["custom_id"] for line in rest.open()} == failed
    assert "the first of 2" in run(batch, first, "--restore", "--out", out, code=1)
    again = [{"custom_id": one, "response": good, "error": None} for one in failed]
    run(batch, first, written(tmp_path / "again.jsonl", again), "--restore", "--out", out)
    found = [json.loads(line) for line in out.open()]
    assert [r["custom_id"] for r in found] == [f"r{i}" for i in range(60)]
    assert all(r["response"] == good for r in found)


def test_a_plan_is_named_as_what_it_is_and_ids_that_stand_twice_are_told_before(tmp_path: Path) -> None:
    table = tmp_path / "a.csv"
    table.write_text("custom_id,prompt\nr0,a\nr1,b\n")
    assert "CSV: name it so" in run(table, "--out", tmp_path / "plan.jsonl", code=2)
    lines = written(tmp_path / "a.jsonl", [{"custom_id": "r0", "prompt": "a"}, {"custom_id": "r0", "prompt": "b"}])
    assert "JSON lines: name it so" in run(lines, "--out", tmp_path / "plan.csv", code=2)
    assert "custom_id 'r0' stands in" in run(lines, "--out", tmp_path / "plan.jsonl", code=1)


def test_results_of_csv_that_a_crash_has_cut_are_left_out(tmp_path: Path) -> None:
    src, first, second = tmp_path / "src.jsonl", tmp_path / "first.csv", tmp_path / "second.csv"
    rest, out = tmp_path / "rest.jsonl", tmp_path / "out.csv"
    written(src, [{"custom_id": f"r{i}", "prompt": f"a{i}"} for i in range(4)])
    rows = ["custom_id,said\r\n", *(f'r{i},"say ""{i}""\nend"\r\n' for i in range(4))]
    whole = "".join(rows).encode()
    for length in range(0, len(whole), 7):
        first.write_bytes(whole[:length])
        ends = np.cumsum([len(row) for row in rows])
        done = max(int(np.searchsorted(ends, length, "right")) - 1, 0)
        begin = max((int(end) for end in ends if end <= length), default=0)
        said = run(src, first, "--resume", "--out", rest, "--overwrite", "--quiet")
        assert rest.read_text() == "".join(src.read_text().splitlines(True)[done:])
        assert (f"first.csv, from byte {begin} on, is cut off and left out" in said) == (begin < length)
        second.write_text("".join([rows[0], *rows[1 + done :]]), newline="")
        said = run(src, first, second, "--restore", "--out", out, "--overwrite", "--quiet")
        assert out.read_bytes() == whole


def test_results_of_different_forms_are_refused(tmp_path: Path) -> None:
    src, out = written(tmp_path / "src.jsonl", [{"custom_id": one} for one in "ab"]), tmp_path / "out"
    (tmp_path / "1.csv").write_text("custom_id,said\na,1\n")
    (tmp_path / "2.csv").write_text("said,custom_id\n2,b\n")
    written(tmp_path / "2.jsonl", [{"custom_id": "b"}])
    for second, said in [
        ("2.csv", "2.csv has the columns ['said', 'custom_id'], and"),
        ("2.jsonl", "1.csv is CSV, and"),
    ]:
        for name in ("--restore", "--resume"):
            found = run(src, tmp_path / "1.csv", tmp_path / second, name, "--out", out, code=2)
            assert said in found
            assert "1.csv" in found
            assert second in found
            assert not out.exists()


def test_results_without_ids_are_known_by_the_line_of_the_plan(tmp_path: Path) -> None:
    src, plan, out, rest = (tmp_path / f"{name}.jsonl" for name in ("src", "plan", "out", "rest"))
    texts = [HEADS[i % 3] + str(i // 6) for i in range(30)]  # equal ones among them
    src.write_text("".join(json.dumps({"prompt": t}) + "\n" + "\n" * (i % 5 == 0) for i, t in enumerate(texts)))
    run(src, "--out", plan, "--quiet")
    results = written(tmp_path / "r.jsonl", [{"echo": json.loads(line)["prompt"]} for line in plan.open()])
    said = run(src, results, "--restore", "--out", out, code=2)
    assert "--plan names the file" in said
    run(src, results, "--restore", "--plan", plan, "--out", out, "--quiet")
    assert [json.loads(line)["echo"] for line in out.open()] == texts
    results.write_text("".join(results.read_text().splitlines(True)[:11]))
    run(src, results, "--resume", "--plan", plan, "--out", rest, "--quiet")
    assert rest.read_text() == "".join(plan.read_text().splitlines(True)[11:])


def test_one_record_or_result_without_an_id_is_an_error_not_a_matter_of_lines(tmp_path: Path) -> None:
    src, plan, results, out = (tmp_path / f"{name}.jsonl" for name in ("src", "plan", "results", "out"))
    records: list[dict[str, Any]] = [{"custom_id": f"r{i}", "prompt": "ab"[i % 2] * 9 + str(i)} for i in range(6)]
    del records[3]["custom_id"]
    written(src, records)
    run(src, "--out", plan, "--quiet")
    written(results, [{"custom_id": f"r{i}"} for i in range(6)])
    for given_plan in ((), ("--plan", plan)):
        for name in ("--restore", "--resume"):
            said = run(src, results, name, *given_plan, "--out", out, code=1)
            assert "src.jsonl, line 4, byte" in said
            assert "the record has no custom_id, and the result in" in said
            assert "results.jsonl, line 1, byte 0 has 'r0'" in said
    written(results, [{"n": i} for i in range(6)])
    said = run(src, results, "--restore", "--out", out, code=2)
    assert "src.jsonl, line 4, byte" in said
    assert "--plan names the file" in said
    run(src, results, "--restore", "--plan", plan, "--out", out, "--quiet")
    order = [records.index(json.loads(line)) for line in plan.open()]
    assert [json.loads(line)["n"] for line in out.open()] == [order.index(i) for i in range(6)]


def test_results_known_by_line_are_read_too(tmp_path: Path) -> None:
    src, plan, results, out = (tmp_path / f"{name}.jsonl" for name in ("src", "plan", "results", "out"))
    written(src, [{"prompt": "a"}, {"prompt": "b"}])
    run(src, "--out", plan, "--quiet")
    results.write_text('{"to": 1}\nno JSON\n')
    said = run(src, results, "--restore", "--plan", plan, "--out", out, code=1)
    assert "results.jsonl, line 2, byte 10: the line is no JSON" in said


def test_records_of_csv_may_have_lines_and_quotes(tmp_path: Path) -> None:
    src, plan, out = tmp_path / "src.csv", tmp_path / "plan.csv", tmp_path / "out.csv"
    rows = [[str(i), HEADS[i % 3] + f'\nsay "{i % 7}", please'] for i in range(25)]
    with src.open("w", newline="") as file:
        csv.writer(file).writerows([["custom_id", "prompt"], *rows])
    run(src, "--out", plan, "--quiet")
    with plan.open(newline="") as file:
        header, *found = csv.reader(file)
    assert header == ["custom_id", "prompt"]
    assert sorted(found) == sorted(rows)
    assert [r[1][:16] for r in found] == sorted(r[1][:16] for r in rows)
    run(src, plan, "--restore", "--out", out, "--quiet")
    assert out.read_bytes() == src.read_bytes()


def test_values_of_csv_may_be_long(tmp_path: Path) -> None:
    src, plan = tmp_path / "src.csv", tmp_path / "plan.csv"
    most = csv.field_size_limit()
    src.write_text(f'custom_id,prompt\nb,"{"b" * 200_000}"\na,{"a" * 131_073}\n')
    run(src, "--out", plan, "--quiet")
    assert [len(line) for line in plan.open()] == [17, 131_076, 200_005]
    assert csv.field_size_limit() == most


def test_a_pack_becomes_lines_or_a_pack(tmp_path: Path) -> None:
    with package.Writer(tmp_path / "p.leat", {"tokens": package.field("uint16", (None,)), "n": "int64"}) as writer:
        for i in range(20):
            writer.add(tokens=np.array([i % 2] * 9 + [i], np.uint16), n=i)
    plan, out = tmp_path / "plan.jsonl", tmp_path / "out.jsonl"
    run(tmp_path / "p.leat", "--out", plan, "--quiet")
    records = [json.loads(line) for line in plan.open()]
    assert [r["n"] for r in records] == [*range(0, 20, 2), *range(1, 20, 2)]
    assert records[3] == {"custom_id": "6", "n": 6, "tokens": [0] * 9 + [6]}
    results = written(tmp_path / "r.jsonl", [{"custom_id": r["custom_id"], "n": r["n"]} for r in records])
    run(tmp_path / "p.leat", results, "--restore", "--plan", plan, "--out", out, "--quiet")
    assert [json.loads(line)["n"] for line in out.open()] == list(range(20))
    run(tmp_path / "p.leat", "--out", tmp_path / "q.leat", "--quiet")
    packed = package.open(tmp_path / "q.leat")
    assert packed.column("n").tolist() == [r["n"] for r in records]
    assert packed.column("prefix_length").tolist() == [9] * 20


def test_texts_are_not_made_of_packs_and_their_field_is_found(tmp_path: Path) -> None:
    with package.Writer(tmp_path / "p.leat", {"tokens": package.field("uint16", (None,))}) as writer:
        for i in range(20):
            writer.add(tokens=np.array([i % 2] * 9 + [i], np.uint16))
    for name in ("--tokenizer", "--template"):
        said = run(tmp_path / "p.leat", name, tmp_path, "--out", tmp_path / "plan.jsonl", code=2)
        assert f"{name}: " in said
        assert "p.leat has tokens already" in said
    shown = leat_here("stats", tmp_path / "p.leat", "--prompts", "auto").stdout
    assert shown.splitlines()[0].startswith("20 prompts")


def test_prompts_of_bytes_are_texts_of_the_plan_and_json_has_no_nan(tmp_path: Path) -> None:
    pack, plan = tmp_path / "p.leat", tmp_path / "plan.jsonl"
    fields = {"tokens": package.field("bytes"), "x": package.field("float32"), "v": package.field("float64", (None,))}
    prompts = ["größe".encode(), b"", b"abc", b"a\xff"]
    for n in (3, 4):
        with package.Writer(pack, fields, overwrite=True) as writer:
            for i, prompt in enumerate(prompts[:n]):
                writer.add(tokens=prompt, x=[0.5, np.nan, np.inf][i % 3], v=np.array([-np.inf, 2.0][i % 2 :]))
        if n == 3:
            run(pack, "--out", plan, "--quiet")
    assert sorted(map(json.loads, plan.open()), key=lambda record: record["custom_id"]) == [
        {"custom_id": "0", "tokens": "größe", "x": 0.5, "v": [None, 2.0]},
        {"custom_id": "1", "tokens": "", "x": None, "v": [2.0]},
        {"custom_id": "2", "tokens": "abc", "x": None, "v": [None, 2.0]},
    ]
    assert "NaN" not in plan.read_text()
    said = run(pack, "--out", plan, "--overwrite", code=2)
    assert "p.leat, sample 3: field 'tokens': its byte 1 is no UTF-8" in said


def test_results_of_a_pack_with_ids_of_its_own_come_back_in_its_order(tmp_path: Path) -> None:
    pack, plan, out = tmp_path / "p.leat", tmp_path / "plan.jsonl", tmp_path / "out.jsonl"
    with package.Writer(pack, {"tokens": package.field("uint16", (None,)), "custom_id": "str"}) as writer:
        for i in range(20):
            writer.add(tokens=np.array([i % 2] * 9 + [i], np.uint16), custom_id=f"id {i}")
    run(pack, "--out", plan, "--quiet")
    run(pack, plan, "--restore", "--plan", plan, "--out", out, "--quiet")
    assert [json.loads(line)["custom_id"] for line in out.open()] == [f"id {i}" for i in range(20)]
    lines = plan.read_text().splitlines(True)
    plan.write_text("".join(lines[1:]))
    said = run(pack, plan, "--restore", "--plan", plan, "--out", out, "--overwrite", code=1)
    assert "has no record with the custom_id 'id 0', of its sample 0" in said
    plan.write_text("".join(lines) + json.dumps({"custom_id": "x"}) + "\n")
    said = run(pack, plan, "--restore", "--plan", plan, "--out", out, "--overwrite", code=1)
    assert "has 21 records, and" in said


def test_tokens_are_those_of_a_tokenizer_and_messages_those_of_a_template(batch: Path, tmp_path: Path) -> None:
    tokenizers = pytest.importorskip("tokenizers")
    pytest.importorskip("jinja2")
    words = {w: i for i, w in enumerate(["[UNK]", "You", "are", "helper", "Question", "<s>"])}
    core = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="[UNK]"))
    core.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    core.save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "chat.jinja").write_text("{% for m in messages %}<s> {{ m.content }} {% endfor %}")
    plan = tmp_path / "plan.jsonl"
    given = ("--tokenizer", tmp_path / "tokenizer.json", "--template", tmp_path / "chat.jinja")
    run(batch, *given, "--out", plan, "--quiet")
    assert sorted(plan.read_text().splitlines()) == sorted(batch.read_text().split("\n"))


def test_a_cache_is_simulated_without_a_plan(batch: Path) -> None:
    said = run(batch, "--simulate", "lru=64KB,block=16,kv=64", "--quiet")
    assert said.splitlines()[0].startswith("a cache of 64KB (lru, blocks of 16, 1,000 tokens)")
    parts = [float(line.split()[-1].rstrip("%")) for line in said.splitlines()[1:]]
    assert parts[0] < parts[1] == parts[2] == parts[3]
    for wrong in ("4GB", "lru=4XB", "lru=1MB,block=0", "lru=1MB,what=2"):
        assert "--simulate" in run(batch, "--simulate", wrong, code=2)


@pytest.mark.parametrize("block", [1, 3, 16, 64])
def test_no_cache_saves_more_than_one_of_its_blocks_can(batch: Path, block: int) -> None:
    said = [run(batch, "--simulate", f"lru=100000,block={block}", *more) for more in ((), ("--block", 16))]
    assert said[0].splitlines()[1].split()[-1] == said[0].splitlines()[-1].split()[-1]
    assert said[0].splitlines()[-1] == said[1].splitlines()[-1]


BROKEN = [
    ('{"prompt": "a"}\n{"prompt": \n', "line 2, byte 16: the line is no JSON"),
    ('{"prompt": "a"}\n\n[1]\n', "line 3, byte 17: the line is JSON, but no object"),
    ('{"prompt": "a"}\n{"text": 3}\n', "line 2, byte 16: a prompt is a text, a list of tokens"),
    ('{"question": "a"}\n', "line 1, byte 0: the record has none of body.messages"),
    ('{"prompt": [1, 256]}\n', "line 1, byte 0: token 256 of the prompt is not 0 to 255"),
    ('{"prompt": "\xff"}\n', "line 1, byte 0: byte 12 of the line is no UTF-8"),
    ("[" * 9000, "line 1, byte 0: the line is no JSON"),
]


@pytest.mark.parametrize(("text", "said"), BROKEN, ids=range(len(BROKEN)))
def test_a_broken_record_is_named_by_file_line_and_byte(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "src.jsonl").write_bytes(text.encode("latin-1"))
    found = run(tmp_path / "src.jsonl", "--out", tmp_path / "out.jsonl", "--quiet", code=1)
    assert f"src.jsonl, {said}" in found
    assert not (tmp_path / "out.jsonl").exists()


def test_a_file_that_becomes_shorter_is_an_error(tmp_path: Path) -> None:
    path = written(tmp_path / "src.jsonl", [{"prompt": i} for i in range(9)])
    with contextlib.closing(Records(str(path))) as records:
        assert b"".join(records.raws()) == path.read_bytes()
        os.truncate(path, 50)
        with pytest.raises(package.BrokenSampleError, match="has become shorter while it was read"):
            list(records.raws())


def test_results_that_are_unknown_or_there_twice_are_named(batch: Path, tmp_path: Path) -> None:
    every = [{"custom_id": f"r{i}"} for i in range(60)]
    for results, said in [
        ([*every, {"custom_id": "r7"}], "line 61, byte 1250: custom_id 'r7' has a result already, in"),
        ([*every, {"custom_id": "x"}], "line 61, byte 1250: no record of"),
        ([{"id": 1}], "line 1, byte 0: the result has no custom_id"),
        ([{"custom_id": 5}], "line 1, byte 0: custom_id is a text, not 5"),
        (every[:-2], "batch.jsonl, line 59, byte"),
    ]:
        path = written(tmp_path / "r.jsonl", results)
        assert said in run(batch, path, "--restore", "--out", tmp_path / "o.jsonl", code=1)
    batch.write_text('{"custom_id": "a"}\n{"custom_id": "a"}\n')
    said = run(batch, path, "--restore", "--out", tmp_path / "o.jsonl", code=1)
    assert "line 2, byte 19: custom_id 'a' stands in" in said


def test_plans_that_do_not_fit_and_files_that_are_there_are_refused(batch: Path, tmp_path: Path) -> None:
    plan, out = tmp_path / "plan.jsonl", tmp_path / "o.jsonl"
    run(batch, "--out", plan, "--quiet")
    assert "exists: --overwrite" in run(batch, "--out", plan, code=2)
    assert f"would replace {batch}, which is read" in run(batch, "--out", batch, "--overwrite", code=2)
    run(batch, "--out", plan, "--overwrite", "--quiet")
    plan.write_text(plan.read_text().replace("Question", "question", 1))
    results = written(tmp_path / "r.jsonl", [])
    said = run(batch, results, "--resume", "--plan", plan, "--out", out, code=1)
    assert "plan.jsonl, line 1, byte 0: this record is none of" in said
    plan.write_text("")
    said = run(batch, results, "--resume", "--plan", plan, "--out", out, code=1)
    assert "batch.jsonl, line 1, byte 0: this record is not in" in said
    assert "results go with" in run(batch, results, "--out", out, code=2)
    assert "--restore takes results" in run(batch, "--restore", "--out", out, code=2)
    assert "give one of them" in run(batch, code=2)
    (tmp_path / "x.csv").write_text('a,b\n1,"2\n')
    assert "byte 4: a quote of this record is not closed" in run(
        tmp_path / "x.csv", "--out", tmp_path / "o.csv", code=1
    )
    (tmp_path / "x.csv").write_text("prompt,b\n1,2,3\n")
    assert "line 2, byte 9: the record has 3 values" in run(tmp_path / "x.csv", "--out", tmp_path / "o.csv", code=1)


@examples(40)
@given(data=st.data())
def test_no_bytes_of_files_do_more_than_an_error(tmp_path_factory: Any, data: Any) -> None:
    folder = tmp_path_factory.mktemp("any")
    parts = st.sampled_from(
        [b'{"custom_id": "a", "prompt": "x"}\n', b'{"prompt": [1]}\n', b'"', b"\n", b",", b"\xff", b"a"]
    )
    names = [folder / f"{n}{data.draw(st.sampled_from(['.jsonl', '.csv']))}" for n in ("src", "results", "plan")]
    for name in names:
        name.write_bytes(b"".join(data.draw(st.lists(parts | st.binary(max_size=4), max_size=8))))
    src, results, plan = map(str, names)
    out = str(folder / "out.jsonl")
    for options in (
        {"src": src, "out": out},
        {"src": src, "src 1": results, "restore": "yes", "out": out, "plan": plan},
        {"src": src, "src 1": results, "resume": "yes", "out": out},
    ):
        with contextlib.suppress(ValueError, OSError):  # which the command says, and ends
            commands.main({**options, "overwrite": "yes", "quiet": "yes"})


def test_the_command_groups_restores_and_shows_a_tree(batch: Path, tmp_path: Path) -> None:
    plan, out = tmp_path / "plan.jsonl", tmp_path / "out.jsonl"
    leat("prompts", batch, "--out", plan, env=PYTHON)
    leat("prompts", batch, plan, "--restore", "--out", out, env=PYTHON)
    assert out.read_text() == batch.read_text() + "\n"
    shown = leat("stats", batch, "--prompts", "auto", env={**PYTHON, "PYTHONIOENCODING": "utf-8"}).stdout.splitlines()
    assert shown[0].startswith("60 prompts")
    assert len(shown) == 5
    assert shown[1].startswith("├─ ")
    assert "You are helper" in shown[1]
    found = json.loads(leat("stats", batch, "--prompts", "auto", "--json", env=PYTHON).stdout)
    assert sum(branch["prompts"] for branch in found["branches"]) == found["prompts"] == 60
