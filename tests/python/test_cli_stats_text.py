"""leat stats --text: texts and tokens counted here by other means."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli_support import leat as command
from cli_support import real_data

import leat

DOMAINS = ("code", "books", "web", "böse\x1b[31m")


def texts() -> list[str]:
    rng = np.random.default_rng(3)
    words = ["water", "中文", "é", "mill\n", "\x1b[31m", "𝄞", "wheel"]
    made = [" ".join(rng.choice(words, n)) for n in rng.integers(0, 30, 300)]
    return [*made, *made[:40], *made[:15], "", ""]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("text") / "t.leat"
    fields = {"text": "str", "tokens": leat.field("uint16", (None,)), "domain": "str", "year": "int64", "score": "json"}
    with leat.Writer(path, fields) as w:
        for i, text in enumerate(texts()):
            tokens = np.arange(len(text), dtype=np.uint16) * 7
            w.add(text=text, tokens=tokens, domain=DOMAINS[i % 7 % 4], year=2000 + i % 3, score="{}")
    return path


def found(path: Path, *options: object) -> dict[str, Any]:
    stats = json.loads(command("stats", path, "--json", *options).stdout)
    return {one["field"]: one for one in stats["texts"]}


def test_texts_are_counted_in_bytes_and_characters(made: Path) -> None:
    text, all_texts = found(made, "--text")["text"], texts()
    assert text["documents"] == len(all_texts) and text["empty"] == all_texts.count("") and text["broken"] == 0
    assert text["total"] == sum(len(t.encode()) for t in all_texts)
    assert text["characters_total"] == sum(map(len, all_texts)) and text["not_utf8"] == 0
    lengths = sorted(map(len, all_texts))
    q = text["characters"]
    assert (q["least"], q["median"], q["most"]) == (lengths[0], lengths[round((len(lengths) - 1) / 2)], lengths[-1])
    assert sum(q["bins"]) == len(all_texts)


def test_duplicates_are_those_of_equal_texts(made: Path) -> None:
    text, all_texts = found(made, "--text")["text"], texts()
    counts = Counter(all_texts)
    assert text["distinct"] == len(counts) and text["duplicates"] == len(all_texts) - len(counts)
    assert [one["count"] for one in text["repeated"]] == [n for _, n in counts.most_common(10)]
    for one in text["repeated"]:
        assert {all_texts[i] for i in one["samples"]} == {all_texts[one["samples"][0]]}
        assert one["samples"][0] == all_texts.index(all_texts[one["samples"][0]])


def test_tokens_are_counted_and_the_largest_is_named(made: Path) -> None:
    tokens, lengths = found(made, "--text")["tokens"], [len(t) for t in texts()]
    assert tokens["unit"] == "tokens" and tokens["total"] == sum(lengths)
    assert tokens["largest_token"] == 7 * (max(lengths) - 1)
    assert tokens["distinct"] == len(set(lengths)) and tokens["lengths"]["most"] == max(lengths)


@pytest.mark.parametrize("by", ["domain", "year"])
def test_sums_are_divided_by_a_property(made: Path, by: str) -> None:
    all_texts = texts()
    values = [DOMAINS[i % 7 % 4] if by == "domain" else str(2000 + i % 3) for i in range(len(all_texts))]
    for name, size in (("text", lambda t: len(t.encode())), ("tokens", len)):
        groups = {one["value"]: one for one in found(made, "--by", by)[name]["by"]}
        expected = {v: [t for t, w in zip(all_texts, values, strict=True) if w == v] for v in set(values)}
        assert set(groups) == {v.replace("\x1b", "\\x1b") for v in expected}
        for value, those in expected.items():
            group = groups[value.replace("\x1b", "\\x1b")]
            assert (group["documents"], group["total"]) == (len(those), sum(map(size, those)))  # type: ignore[operator]


def test_the_property_itself_is_no_text_of_its_own(made: Path) -> None:
    assert set(found(made, "--by", "domain")) == {"text", "tokens"}
    assert set(found(made, "--text")) == {"text", "tokens", "domain"}


def test_the_table_writes_nothing_to_the_terminal_that_controls_it(made: Path) -> None:
    out = command("stats", made, "--by", "domain").stdout
    assert "\x1b" not in out and "böse\\x1b[31m" in out
    assert "357 documents" in out and "distinct" in out
    assert "code (102)" in command("stats", made, "--text").stdout
    assert "domain         4 values: " in command("stats", made, "--text").stdout


def test_a_field_that_is_not_there_or_divides_nothing_is_refused(made: Path) -> None:
    assert (
        'has no field "domian": did you mean "domain"? It has '
        in command("stats", made, "--by", "domian", code=2).stderr
    )
    assert "texts or single numbers" in command("stats", made, "--by", "tokens", code=2).stderr


def test_broken_records_and_broken_text_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_bytes(b'{"text": "one"}\n{"text": "one"}\n{"text": \n{"text": "\xff"}\n')
    done = command("stats", path, "--text", code=None)
    assert done.returncode in (1, 2) and "t.jsonl" in done.stderr  # opening says which record


def test_an_empty_data_set_has_no_documents(tmp_path: Path) -> None:
    with leat.Writer(tmp_path / "e.leat", {"text": "str"}):
        pass
    text = found(tmp_path / "e.leat", "--text")["text"]
    assert text["documents"] == text["duplicates"] == 0 and text["characters"] is None
    assert "0 documents" in command("stats", tmp_path / "e.leat", "--text").stdout


def test_a_long_record_is_counted(tmp_path: Path) -> None:
    with leat.Writer(tmp_path / "l.leat", {"text": "str"}) as w:
        for _ in range(2):
            w.add(text="é" * 10_000_000)
    text = found(tmp_path / "l.leat", "--text")["text"]
    assert text["characters_total"] == 20_000_000 and text["duplicates"] == 1
    assert len(text["repeated"][0]["begins"]) < 400


def test_more_values_than_there_is_room_for_are_summed(tmp_path: Path) -> None:
    with leat.Writer(tmp_path / "m.leat", {"text": "str", "key": "int64"}) as w:
        for i in range(5000):
            w.add(text="x", key=i)
    by = found(tmp_path / "m.leat", "--by", "key")["text"]["by"]
    assert len(by) == 4097 and by[-1]["value"] is None and sum(one["documents"] for one in by) == 5000


def test_charts_have_the_characters(made: Path, tmp_path: Path) -> None:
    command("stats", made, "--text", "--plot", tmp_path / "p.png")
    assert (tmp_path / "p.png").stat().st_size > 1000


def test_domains_of_real_records_sum_up(tmp_path: Path) -> None:
    import shutil

    source = real_data("text/mixture") / "mix-00000-of-00004.jsonl"
    path = Path(shutil.copy(source, tmp_path / "m.jsonl"))
    records = [json.loads(line) for line in path.read_text().splitlines()]
    text = found(path, "--by", "meta.domain")["text"]
    assert text["characters_total"] == sum(len(r["text"]) for r in records)
    assert {g["value"]: g["documents"] for g in text["by"]} == Counter(r["meta"]["domain"] for r in records)


def test_the_one_field_of_documents_is_read_without_being_asked_for(made: Path, tmp_path: Path) -> None:
    stats = json.loads(command("stats", made, "--json").stdout)
    assert stats["chosen"] == "tokens" and [one["field"] for one in stats["texts"]] == ["tokens"]
    assert "texts" not in json.loads(command("stats", made, "--json", "--no-text").stdout)
    assert "chosen" not in json.loads(command("stats", made, "--json", "--text").stdout)
    (tmp_path / "a.jsonl").write_text("".join(json.dumps({"text": t, "lang": "en"}) + "\n" for t in texts()))
    out = command("stats", tmp_path / "a.jsonl").stdout
    assert "of text, the field of documents" in out and "duplicates" in out


def test_of_several_texts_none_is_chosen(tmp_path: Path) -> None:
    with leat.Writer(tmp_path / "a.leat", {"question": "str", "answer": "str"}) as w:
        w.add(question="a", answer="b")
    assert "texts" not in json.loads(command("stats", tmp_path / "a.leat", "--json").stdout)
