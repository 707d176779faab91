"""Commands on several files, and on patterns of their names."""

from __future__ import annotations

import json
import resource
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli_support import PYTHON, leat, leat_here, png

import leat as package


def shards(folder: Path, n: int, width: int = 1) -> list[Path]:
    paths = [folder / f"x-{i:0{width}d}.jsonl" for i in range(n)]
    for i, path in enumerate(paths):
        path.write_text("".join(f'{{"text": "hello {i} {k}", "n": {10 * i + k}}}\n' for k in range(i + 1)))
    return paths


def pattern(folder: Path, numbers: str) -> str:
    return str(folder / f"x-{{{numbers}}}.jsonl")


@pytest.mark.parametrize("way", ["pattern", "files", "mixed", "zeros", "star", "star and range"])
def test_several_files_are_one_data_set(tmp_path: Path, way: str) -> None:
    paths = shards(tmp_path, 3, 2 if way == "zeros" else 1)
    given: list[Any] = {
        "pattern": [pattern(tmp_path, "0..2")],
        "zeros": [pattern(tmp_path, "00..02")],
        "files": paths,
        "star": [tmp_path / "x-*"],  # beside the indexes of the files
        "star and range": [pattern(tmp_path, "0..1"), tmp_path / "[x]-2*.jsonl"],
        "mixed": [pattern(tmp_path, "0..1"), paths[2]],
    }[way]
    want = package.open(paths)
    info = json.loads(leat("info", *given, "--json").stdout)
    assert info["count"] == 6 and info["fingerprint"] == want.fingerprint
    assert info["path"] == (str(given[0]) if len(given) == 1 else f"{given[0]} and {len(given) - 1} more")
    assert json.loads(leat("stats", *given, "--json").stdout)["count"] == 6
    assert leat("cat", *given, "--id", "4", "--field", "text").stdout == "hello 2 1"
    assert leat("cat", *given, "--where", "n >= 20", "--field", "n").stdout == "20\n21\n22\n"
    assert leat("info", *given, "--where", "n < 20").stdout.count("samples        3") == 1
    leat("pack", *given, tmp_path / "all.leat", "--quiet")
    assert [s["n"] for s in package.open(tmp_path / "all.leat")] == [0, 10, 11, 20, 21, 22]


def test_patterns_are_those_of_leat_open(tmp_path: Path) -> None:
    """40 drawn patterns, by both."""
    from leat.data.paths import expanded

    rng = np.random.default_rng(0)
    for _ in range(40):
        first, last = sorted(rng.integers(0, 12, 2).tolist())
        a = f"{first:0{int(rng.integers(1, 4))}d}"
        b = f"{last:0{int(rng.integers(1, 4))}d}"
        more = ["", "{0..1}", "{x}", "{1..", "{a..b}", "{}", "]", "!"][int(rng.integers(8))]
        text = str(tmp_path / f"p{{{a}..{b}}}{more}.jsonl")
        said = leat("info", text, code=2).stderr
        assert said == f"leat info: cannot open {expanded(text)[0]}: No such file or directory\n", text


def test_a_pattern_that_fits_tables_and_others_is_one_data_set(tmp_path: Path) -> None:
    pq = pytest.importorskip("pyarrow.parquet")
    import pyarrow as pa

    with package.Writer(tmp_path / "a.leat", {"n": "int64"}) as w:
        w.write_batch({"n": np.arange(3)})
    pq.write_table(pa.table({"n": [3, 4]}), tmp_path / "b.parquet")
    (tmp_path / "c.jsonl").write_text('{"n": 5}\n')
    want = package.open(str(tmp_path / "*"))
    info = json.loads(leat("info", tmp_path / "*", "--json").stdout)
    assert (info["format"], info["count"], info["fingerprint"]) == ("mixed", 6, want.fingerprint)
    assert leat("cat", tmp_path / "*", "--where", "n > 1", "--field", "n").stdout == "2\n3\n4\n5\n"
    leat("convert", tmp_path / "*", tmp_path / "all.leat", "--quiet")
    assert package.open(tmp_path / "all.leat").fingerprint == want.fingerprint


def test_patterns_with_a_star_are_those_of_leat_open(tmp_path: Path) -> None:
    names = ["a.jsonl", "b.jsonl", "B.jsonl", "a-1.jsonl", "a-10.jsonl", "a-2.jsonl", "\u00e9.jsonl", ".hidden.jsonl"]
    for name in names:
        (tmp_path / name).write_text(f'{{"name": "{name}"}}\n')
    for left in ("c.jsonl.leat-index", "d.jsonl.partial", "e.jsonl.leat-frames.zst"):
        (tmp_path / left).write_text("no data")
    for star in ("*", "a-?.jsonl", "[ab]*.jsonl", "[!a]*", "[^a]*", "?.jsonl", "*/../a-*"):
        (tmp_path / "below").mkdir(exist_ok=True)
        path = str(tmp_path / star)
        if star in ("*", "[!a]*", "[^a]*"):
            (tmp_path / "below").rmdir()
        told = leat("cat", path, "--where", "id >= 0", "--field", "name").stdout.split()
        assert told == [s["name"] for s in package.open(path)] and told, star
        assert star != "[^a]*" or "a.jsonl" not in told
        assert star != "?.jsonl" or "\u00e9.jsonl" in told, "a letter is one whatever the language"
    said = leat("info", tmp_path / "q*", code=2).stderr
    assert said == f"leat info: no file fits the pattern {tmp_path}/q*\n"
    with pytest.raises(package.MissingFileError, match=r"no file fits the pattern .*/q\*"):
        package.open(tmp_path / "q*")


def test_a_manifest_stands_for_its_shards(tmp_path: Path) -> None:
    for name in "ab":
        with package.Writer(tmp_path / f"{name}.leat", {"x": package.field("uint8", (1 << 20,))}, shard_bytes=1) as w:
            w.write_batch({"x": np.zeros((20, 1 << 20), np.uint8)})
    whole = package.concat(package.open(tmp_path / "a.leat"), package.open(tmp_path / "b.leat")).fingerprint
    files = sorted(map(str, tmp_path.iterdir()))
    assert len(files) > 4
    assert package.open(tmp_path / "*.leat").fingerprint == whole == package.open(files).fingerprint
    assert json.loads(leat("info", tmp_path / "*.leat", "--json").stdout)["fingerprint"] == whole
    assert json.loads(leat("info", *files, "--json").stdout)["fingerprint"] == whole
    shards = package.open(tmp_path / "a.0*.leat")
    assert (len(shards), shards.fingerprint) == (20, package.open(tmp_path / "a.leat").fingerprint)
    assert len(package.open([tmp_path / "a.leat", tmp_path / "a.0*.leat"])) == 20


def test_a_file_whose_name_looks_like_a_pattern_is_itself(tmp_path: Path) -> None:
    path = tmp_path / "x-{0..1}.jsonl"
    path.write_text('{"n": 1}\n')
    shards(tmp_path, 2)
    assert json.loads(leat("info", path, "--json").stdout)["count"] == 1


@pytest.mark.parametrize("numbers", ["3..1", "0..1000000"])
def test_a_range_that_does_not_rise_is_a_wrong_line(tmp_path: Path, numbers: str) -> None:
    for command in (["info"], ["stats"], ["cat", "--id", "0"], ["view", "--out", "a.png"], ["bench"], ["doctor"]):
        done = leat(command[0], pattern(tmp_path, numbers), *command[1:], code=2)
        assert f"{{{numbers}}} in " in done.stderr and "is no range of numbers that rise" in done.stderr


def test_a_missing_one_of_several_is_named(tmp_path: Path) -> None:
    shards(tmp_path, 2)
    for command in (["info"], ["stats"], ["cat", "--id", "0"]):
        done = leat(command[0], pattern(tmp_path, "0..2"), *command[1:], code=2)
        assert "x-2.jsonl" in done.stderr
    assert "x-2.jsonl" in leat("pack", pattern(tmp_path, "0..2"), tmp_path / "o.leat", code=2).stderr


def test_folders_and_packs_are_joined(tmp_path: Path) -> None:
    for part in ("a", "b"):
        for label in ("cat", "dog"):
            (tmp_path / part / label).mkdir(parents=True)
            (tmp_path / part / label / "1.png").write_bytes(png(8, 8, len(part + label)))
        leat("pack", tmp_path / part, tmp_path / f"{part}.leat", "--quiet")
    whole = [tmp_path / "a.leat", tmp_path / "b.leat"]
    leat("pack", *whole, tmp_path / "packs.leat", "--quiet")
    leat("pack", tmp_path / "a", tmp_path / "b", tmp_path / "folders.leat", "--quiet")
    want = package.concat(*(package.open(p) for p in whole))
    for name in ("packs.leat", "folders.leat"):
        found = package.open(tmp_path / name)
        assert found.classes == ["cat", "dog"] and [dict(s) for s in found] == [dict(s) for s in want], name
    done = leat("info", tmp_path / "a", tmp_path / "b", "--coco", "x.json", code=2)
    assert "are about one folder of photos, and 2 are given" in done.stderr


def test_several_files_are_verified_one_after_another(tmp_path: Path) -> None:
    for i in range(3):
        with package.Writer(tmp_path / f"x-{i}.leat", {"t": "str"}) as writer:
            writer.add(t=f"text {i}")
    given = str(tmp_path / "x-{0..2}.leat")
    lines = leat("verify", given).stdout.splitlines()
    assert [line.partition(": whole")[0] for line in lines] == [str(tmp_path / f"x-{i}.leat") for i in range(3)]
    bad = bytearray((tmp_path / "x-1.leat").read_bytes())
    bad[bad.index(b"text 1")] ^= 1
    (tmp_path / "x-1.leat").write_bytes(bad)
    done = leat("verify", given, code=1)
    assert "x-1.leat: sample 0, field t" in done.stdout and "x-1.leat: 1 fault found." in done.stdout
    assert "x-2.leat: whole" in done.stdout and "x-0.leat: whole" in done.stdout
    assert leat("verify", tmp_path / "x-0.leat", tmp_path / "x-2.leat", "--quiet").stdout == ""
    done = leat("verify", tmp_path / "none.leat", tmp_path / "x-1.leat", tmp_path / "x-2.leat", code=2)
    assert "none.leat" in done.stderr and "1 fault found" in done.stdout and "x-2.leat: whole" in done.stdout
    assert "is no range" in leat("verify", str(tmp_path / "x-{3..1}.leat"), code=2).stderr


def test_tokens_of_different_tokenizers_are_not_joined(tmp_path: Path) -> None:
    for name, by in (("a", "1"), ("b", "2"), ("c", "1")):
        about = {"tokenizer": {"hash": by, "file": "t.json", "vocab_size": 9}}
        fields = {"tokens": package.field("uint16", (None,))}
        with package.Writer(tmp_path / f"{name}.leat", fields, metadata=about) as writer:
            writer.add(tokens=np.arange(3, dtype=np.uint16))
    assert leat("info", tmp_path / "a.leat", tmp_path / "c.leat").returncode == 0
    for command in (["info"], ["stats"], ["cat", "--id", "0"]):
        done = leat(command[0], tmp_path / "a.leat", tmp_path / "b.leat", *command[1:], code=2)
        assert "a.leat and " in done.stderr and "have tokens of different tokenizers" in done.stderr


def test_several_files_become_tokens_and_text_again(tmp_path: Path) -> None:
    tokenizers = pytest.importorskip("tokenizers")
    made = tokenizers.Tokenizer(tokenizers.models.WordLevel({"hello": 0, **{str(i): i + 1 for i in range(9)}}, "hello"))
    made.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    made.save(str(tmp_path / "t.json"))
    paths = shards(tmp_path, 2)
    for given in ([pattern(tmp_path, "0..1")], paths):
        leat_here("pack", *given, tmp_path / "o.leat", "--tokenizer", tmp_path / "t.json", "--quiet", "--overwrite")
        found = package.open(tmp_path / "o.leat")
        assert [s["tokens"].tolist() for s in found] == [[0, 1, 1], [0, 2, 1], [0, 2, 2]]
    both = [tmp_path / "o.leat", tmp_path / "o.leat"]
    done = leat_here("cat", *both, "--id", "4", "--decode", "--tokenizer", tmp_path / "t.json")
    assert done.stdout.split() == ["hello", "1", "0"]


def test_the_command_that_resumes_names_all_files() -> None:
    from leat.commands.main import _words

    words = _words("pack", {"src": "a", "src 1": "b c", "dst": "o", "tokenizer": "t"})
    assert words == "pack a 'b c' o --tokenizer t --resume"


# ---- tables ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["parquet", "arrow", "several", "of both forms"])
def test_stats_of_tables_are_those_of_their_samples(tmp_path: Path, form: str) -> None:
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    (tmp_path / "temporary").mkdir()
    env = {**PYTHON, "TMPDIR": str(tmp_path / "temporary")}
    lists = [[1] * (i % 5) for i in range(40)]
    table = pa.table({"text": [f"text {i}" for i in range(40)], "n": list(range(40)), "list": lists})
    with package.Writer(tmp_path / "o.leat", package.from_arrow(table).schema) as writer:
        for row in table.to_pylist():
            writer.add(**row)
    given: list[Any] = [tmp_path / "t.parquet"]
    pq.write_table(table, given[0], row_group_size=7)
    if form == "arrow":
        given = [tmp_path / "t.arrow"]
        with pa.ipc.new_file(given[0], table.schema) as out:
            out.write_table(table)
    elif form == "several":
        for i in range(2):
            pq.write_table(table.slice(20 * i, 20), tmp_path / f"p-{i}.parquet")
        given = [tmp_path / "p-{0..1}.parquet"]
    elif form == "of both forms":
        pq.write_table(table.slice(0, 20), given[0])
        given.insert(0, tmp_path / "t.arrow")
        with pa.ipc.new_file(given[0], table.schema) as out:
            out.write_table(table.slice(20))
    found = json.loads(leat("stats", *given, "--json", "--where", "n >= 0", env=env).stdout)
    want = json.loads(leat("stats", tmp_path / "o.leat", "--json", "--where", "n >= 0").stdout)
    assert found.pop("path").startswith(str(given[0])) and want.pop("path")
    assert found == want and list((tmp_path / "temporary").iterdir()) == []


def test_a_table_that_finds_no_room_for_its_copy_is_told_another_place(tmp_path: Path) -> None:
    def little_room() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (8 << 10, 8 << 10))

    pa = pytest.importorskip("pyarrow")
    (tmp_path / "temporary").mkdir()
    pytest.importorskip("pyarrow.parquet").write_table(pa.table({"n": range(9000)}), tmp_path / "t.parquet")
    env = {**PYTHON, "TMPDIR": str(tmp_path / "temporary")}
    said = leat("stats", tmp_path / "t.parquet", code=2, env=env, preexec_fn=little_room).stderr
    assert said == "leat stats: writing a temporary file failed: File too large: TMPDIR names another place\n"
    assert list((tmp_path / "temporary").iterdir()) == []


def test_samples_of_tables_that_lack_values_are_left_out_and_counted(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    pq.write_table(pa.table({"n": [1, None, 3], "t": ["a", "b", None]}), tmp_path / "t.parquet")
    done = leat("stats", tmp_path / "t.parquet", "--json", env=PYTHON)
    assert json.loads(done.stdout)["count"] == 1
    assert "leat stats: 2 of 3 samples are left out: they lack values, such as of 'n'" in done.stderr
    (tmp_path / "u.parquet").write_bytes(b"no table")
    done = leat("stats", tmp_path / "u.parquet", code=2, env=PYTHON)
    assert "u.parquet is no Parquet file that can be read" in done.stderr and done.stdout == ""
    assert "none.parquet: No such file" in leat("stats", tmp_path / "none.parquet", code=2, env=PYTHON).stderr


def test_the_table_among_the_files_of_a_pattern_is_named_by_commands_that_take_none(tmp_path: Path) -> None:
    (tmp_path / "a-0.jsonl").write_text('{"n": 1}\n')
    (tmp_path / "a-1.parquet").write_bytes(b"PAR1")
    assert "a-1.parquet is read by pack, " in leat("bench", tmp_path / "a-*", code=2).stderr
