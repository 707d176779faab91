"""JSONL beside Python's json module: values, types, broken records, indexes."""

from __future__ import annotations

import json
import os
import pickle
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import leat

DATA = os.environ.get("LEAT_DATA")
real = pytest.mark.skipif(not DATA, reason="LEAT_DATA names no folder")


def write(path: Path, *lines: str | bytes, end: bytes = b"\n") -> str:
    path.write_bytes(b"".join((x.encode() if isinstance(x, str) else x) + end for x in lines))
    return str(path)


def flat(record: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    out = {}
    for key, value in record.items():
        if isinstance(value, dict) and value:
            out.update(flat(value, f"{prefix}{key}."))
        else:
            out[prefix + key] = value
    return out


def same(got: Any, want: Any) -> bool:
    if isinstance(got, np.ndarray):
        return got.tolist() == list(want)
    return got == want or (got != got and want != want)


@real
def test_a_mixture_reads_as_json_reads_it(tmp_path: Path) -> None:
    files = sorted(Path(DATA or "", "text/mixture").glob("*.jsonl"))
    ds = leat.open([str(f) for f in files], index_dir=tmp_path)
    want = [flat(json.loads(line)) for f in files for line in f.read_text("utf-8").splitlines()]
    assert len(ds) == len(want)
    assert list(ds.schema) == list(want[0])
    for i, record in enumerate(want):
        assert ds[i] == record
    pattern = str(files[0]).replace("00000", "{00000..00003}", 1)
    again = leat.open(pattern, index_dir=tmp_path)
    assert again.fingerprint == ds.fingerprint
    assert pickle.loads(pickle.dumps(again)).fingerprint == ds.fingerprint


@real
def test_prompts_read_as_json_reads_them(tmp_path: Path) -> None:
    files = sorted(Path(DATA or "", "prompts").rglob("*.jsonl"))
    assert files
    for f in files:
        ds = leat.open(str(f), index_dir=tmp_path)
        want = [flat(json.loads(x)) for x in f.read_text("utf-8").split("\n") if x.strip()]
        assert len(ds) == len(want)
        assert all(same(ds[i][k], v) for i, w in enumerate(want) for k, v in w.items())


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
@pytest.mark.parametrize("last", [True, False])
@pytest.mark.parametrize("bom", [b"", b"\xef\xbb\xbf"])
def test_ends_of_lines_bom_and_empty_lines_are_no_records(tmp_path: Path, end: bytes, last: bool, bom: bytes) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(bom + end + b'{"a": 1}' + end + b"  " + end + b'\t{"a": 2} ' + end + b'{"a":3}' + end * last)
    ds = leat.open(str(path))
    assert ds.column("a").tolist() == [1, 2, 3]


def test_strings_are_decoded_as_json_decodes_them(tmp_path: Path) -> None:
    texts = ["", "plain", 'q"\\/\b\f\n\r\t', "\x00nul", "é漢😀"]
    texts += ["x" * 1000 + "\n" * 7, "\u2028 \ufeff", "a" * 15 + '"']
    rows = [json.dumps({"t": t}) for t in texts] + [json.dumps({"t": t}, ensure_ascii=False) for t in texts]
    rows.append('{"t": "\\u00e9\\ud83d\\ude00\\/"}')
    ds = leat.open(write(tmp_path / "a.jsonl", *rows))
    assert [ds[i]["t"] for i in range(len(ds))] == [json.loads(r)["t"] for r in rows]


def test_numbers_are_int64_uint64_or_float64(tmp_path: Path) -> None:
    rows = [
        {"i": -(2**63), "u": 2**64 - 1, "f": 1, "x": 0.1},
        {"i": 2**63 - 1, "u": 0, "f": 2.5, "x": -1e308},
        {"i": 0, "u": 2**63, "f": -3, "x": float("nan")},
    ]
    ds = leat.open(write(tmp_path / "a.jsonl", *map(json.dumps, rows)))
    for name, dtype in (("i", "int64"), ("u", "uint64"), ("f", "float64"), ("x", "float64")):
        column = ds.column(name)
        assert column.dtype == dtype
        assert all(same(a, r[name]) for a, r in zip(column.tolist(), rows, strict=True))


def test_missing_and_null_values_are_told_by_valid(tmp_path: Path) -> None:
    rows = [
        {"a": 1, "s": "x", "f": 0.5, "l": [1]},
        {"s": None},
        {"a": None, "f": 2.0, "l": [], "b": True},
        {"b": False},
    ]
    ds = leat.open(write(tmp_path / "a.jsonl", *map(json.dumps, rows)))
    assert ds.column("a").tolist() == [1, 0, 0, 0]
    assert ds.column("a.valid").tolist() == [True, False, False, False]
    assert ds.column("b").tolist() == [False, False, True, False]
    assert ds.column("b.valid").tolist() == [False, False, True, True]
    assert [ds[i]["s"] for i in range(4)] == ["x", "", "", ""]
    assert [ds[i]["s.valid"] for i in range(4)] == [True, False, False, False]
    assert np.isnan(ds.column("f")).tolist() == [False, True, False, True]
    assert [ds[i]["l"].tolist() for i in range(4)] == [[1], [], [], []]
    assert [ds[i]["l.valid"] for i in range(4)] == [True, False, True, False]


def test_lists_of_one_type_are_ragged_and_others_json(tmp_path: Path) -> None:
    rows = [
        {"i": [1, -2], "f": [1, 2.5], "b": [True, False], "s": ["a"], "m": [[1], [2, 3]], "e": [], "o": [{"k": [1]}]},
        {"i": [], "f": [], "b": [], "s": [], "m": [], "e": [], "o": [None, {"k": {}}]},
    ]
    ds = leat.open(write(tmp_path / "a.jsonl", *map(json.dumps, rows)))
    kinds = {n: (f.kind, f.dtype) if f.kind == "array" else (f.kind, None) for n, f in ds.schema.items()}
    assert kinds == {
        "i": ("array", "int64"),
        "f": ("array", "float64"),
        "b": ("array", "bool"),
        "s": ("json", None),
        "m": ("json", None),
        "e": ("json", None),
        "o": ("json", None),
    }
    for i, row in enumerate(rows):
        for name, value in row.items():
            assert same(ds[i][name], value), name


def test_a_property_of_two_types_is_an_error_that_names_both_lines(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", '{"a": 1, "b": {"c": 1}}', '{"a": 2}', '{"a": "x", "b": 7}')
    with pytest.raises(ValueError, match=r'"a" has two types: it is an integer in line 1 of .* a string in line 3 of'):
        leat.open(path)
    with pytest.raises(ValueError, match=r'"b" has two types'):
        leat.open(path, fields=["b"])
    ds = leat.open(path, fields={"b": "json", "a": "json"})
    assert [ds[i] for i in range(3)] == [{"b": {"c": 1}, "a": 1}, {"b": None, "a": 2}, {"b": 7, "a": "x"}]
    assert list(leat.open(path, fields=["b.c"]).schema) == ["b.c", "b.c.valid"]


def test_fields_are_chosen_by_name_and_by_the_name_of_their_object(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", '{"x": 1, "m": {"a": 1, "b": {"c": "t"}}, "y": 2}')
    assert list(leat.open(path, fields=["y", "m"]).schema) == ["y", "m.a", "m.b.c"]
    assert leat.open(path, fields={"m": "json"})[0] == {"m": {"a": 1, "b": {"c": "t"}}}
    with pytest.raises(ValueError, match=r'no record .* has the property "z"'):
        leat.open(path, fields=["z"])


BAD = [
    (b"[1]", 0, "is an object"),
    (b'{"a": 1', 7, "ends in the middle"),
    (b'{"a": 1} x', 9, "behind its end"),
    (b'{"a" 1}', 5, "colon"),
    (b'{"a": 1 "b": 2}', 8, "comma"),
    (b'{"a": tru}', 6, "word"),
    (b'{"a": 01}', 6, "number"),
    (b'{"a": 18446744073709551616}', 6, "64 bits"),
    (b'{"a": -9223372036854775809}', 6, "64 bits"),
    (b'{"a": 1e999}', 6, "64 bits"),
    (b'{"a": "\x01"}', 7, "control"),
    (b'{"a": "\\x"}', 7, "escape"),
    (b'{"a": "\\ud800"}', 7, "surrogate"),
    (b'{"a": "\xff"}', 7, "UTF-8"),
    (b'{"a": 1, "a": 2}', 9, "twice"),
    (b'{"a": ' + b"[" * 100 + b"]" * 100 + b"}", 6 + 63, "deep"),
    (b'{"a": [[NaN]]}', 8, "NaN"),
]


@pytest.mark.parametrize(("line", "at", "what"), BAD, ids=[w for _, _, w in BAD])
def test_a_broken_record_is_an_error_with_its_line_and_byte_or_is_skipped_or_marked(
    tmp_path: Path, line: bytes, at: int, what: str
) -> None:
    path = write(tmp_path / "a.jsonl", '{"a": 0, "t": "x"}', "", line, '{"a": 3, "t": "y"}')
    begin = len('{"a": 0, "t": "x"}\n\n')
    with pytest.raises(leat.CorruptError, match=rf"line 3, byte {begin + at}: .*{re.escape(what)}"):
        leat.open(path)
    with pytest.warns(UserWarning, match="1 of 3 records .* left out: line 3"):
        ds = leat.open(path, on_bad="skip")
    assert ds.column("a").tolist() == [0, 3]
    assert [ds[i]["t"] for i in range(2)] == ["x", "y"]
    assert ds.about["skipped"] == 1
    with pytest.warns(UserWarning, match="marked"):
        ds = leat.open(path, on_bad="mark")
    assert len(ds) == 3
    assert ds.about["broken"] == 1
    assert ds[2] == {"a": 3, "t": "y"}
    with pytest.raises(leat.BrokenSampleError, match="line 3"):
        ds[1]


def test_a_loader_skips_marked_records(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", '{"t": "a"}', "{", '{"t": "c"}')
    with pytest.warns(UserWarning, match="marked"):
        ds = leat.open(path, on_bad="mark")
    with leat.Loader(ds, batch_size=3, on_error="skip", framework="numpy") as loader:
        assert [list(b["t"]) for b in loader] == [["a", "c"]]


def test_a_loader_delivers_texts_numbers_and_lists(tmp_path: Path) -> None:
    path = write(
        tmp_path / "a.jsonl", *(json.dumps({"t": f"text {i}", "n": i, "l": list(range(i))}) for i in range(50))
    )
    seen = {}
    with leat.Loader(leat.open(path), batch_size=7, shuffle=True, seed=3, framework="numpy") as loader:
        for batch in loader:
            for row, n in enumerate(batch["n"].tolist()):
                seen[n] = (batch["t"][row], batch["l"][row].tolist())
    assert seen == {i: (f"text {i}", list(range(i))) for i in range(50)}


def test_the_index_is_kept_beside_the_file_and_used_again(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", *(json.dumps({"n": i, "d": "ab"[i % 2]}) for i in range(100)))
    first = leat.open(path)
    index = tmp_path / "a.jsonl.leat-index"
    stamp = index.stat().st_mtime_ns
    again = leat.open(path)
    assert index.stat().st_mtime_ns == stamp
    assert again.fingerprint == first.fingerprint
    assert [again[i] for i in range(100)] == [first[i] for i in range(100)]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.jsonl", "a.jsonl.leat-index"]


def test_an_index_dir_keeps_the_index_and_the_folder_stays_clean(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    path = write(tmp_path / "data" / "a.jsonl", '{"a": 1}')
    leat.open(path, index_dir=tmp_path / "index")
    assert [p.name for p in (tmp_path / "data").iterdir()] == ["a.jsonl"]
    assert [p.suffix for p in (tmp_path / "index").iterdir()] == [".leat-index"]


def test_a_stale_index_is_made_again(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", '{"a": 1}', '{"a": 2}')
    leat.open(path)
    before = os.stat(path)
    write(tmp_path / "a.jsonl", '{"a": 3}', '{"a": 4}')
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns + 1))
    assert leat.open(path).column("a").tolist() == [3, 4]


@pytest.mark.parametrize("step", [1, 7])
def test_a_damaged_index_is_made_again(tmp_path: Path, step: int) -> None:
    path = write(tmp_path / "a.jsonl", *(json.dumps({"a": i, "w": f"w{i % 3}", "m": {"x": i / 2}}) for i in range(9)))
    want = [leat.open(path)[i] for i in range(9)]
    index = tmp_path / "a.jsonl.leat-index"
    good = index.read_bytes()
    for at in range(step - 1, len(good), 29 * step):
        index.write_bytes(good[:at] + bytes([good[at] ^ 0x41]) + good[at + 1 :])
        ds = leat.open(path)
        assert [ds[i] for i in range(9)] == want
        index.write_bytes(good[:at])
        assert leat.open(path).column("a").tolist() == list(range(9))


def test_a_record_that_changes_under_an_open_data_set_is_an_error(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", '{"t": "one"}', '{"t": "two"}')
    ds = leat.open(path, fields={"t": "json"})
    with open(path, "r+b") as f:
        f.seek(8)
        f.write(b"ONE")
    with pytest.raises(leat.ChangedError, match="a.jsonl"):
        ds[0]


def test_shards_have_the_fields_of_all_of_them(tmp_path: Path) -> None:
    write(tmp_path / "s-00.jsonl", '{"a": 1, "t": "x"}')
    write(tmp_path / "s-01.jsonl", '{"a": 2.5, "u": true}')
    write(tmp_path / "s-02.jsonl", "")
    ds = leat.open(str(tmp_path / "s-{00..02}.jsonl"))
    assert ds.column("a").tolist() == [1.0, 2.5]
    assert ds.column("u").tolist() == [False, True]
    assert ds.column("t.valid").tolist() == [True, False]
    assert [ds[i]["t"] for i in range(2)] == ["x", ""]


def test_names_that_are_none_are_made_valid(tmp_path: Path) -> None:
    ds = leat.open(write(tmp_path / "a.jsonl", '{"a b": 1, "0x": 2, "ü": 3}'))
    assert list(ds.schema) == ["a_b", "_0x", "__"]
    with pytest.raises(ValueError, match='have the name "a_b"'):
        leat.open(write(tmp_path / "b.jsonl", '{"a b": 1, "a_b": 2}'))


def test_an_object_with_many_keys_is_json(tmp_path: Path) -> None:
    row = {"m": {f"k{i}": i for i in range(300)}, "n": 1}
    ds = leat.open(write(tmp_path / "a.jsonl", json.dumps(row), json.dumps({"m": {"z": 1}, "n": 2})))
    assert list(ds.schema) == ["m", "n"]
    assert ds[0] == row
    assert ds[1]["m"] == {"z": 1}


def test_an_object_read_as_json_has_properties_below_it_too(tmp_path: Path) -> None:
    rows = [
        {"m": {"a": i, "s": f"t{i}" * 100, "b": {"c": [i]}}, "z": i, "k": {"x": "y" * i, "e": {}}} for i in range(5)
    ]
    path = write(tmp_path / "a.jsonl", *(json.dumps(r) for r in rows), '{"z": 9, "m": null}', '{"z": 10}')
    ds = leat.open(path, fields={"m": "json", "m.s": None, "m.b": "json", "m.b.c": None, "z": None, "m.a": None})
    for i, row in enumerate(rows):
        m = row["m"]
        assert isinstance(m, dict)
        got = ds[i]
        assert (got["m"], got["m.s"], got["m.b"], got["m.a"], got["z"]) == (m, m["s"], m["b"], i, i)
        assert got["m.b.c"].tolist() == [i]
    assert [ds[i]["m"] for i in (5, 6)] == [None, None]
    assert ds[5]["m.s"] == "" and len(ds[6]["m.b.c"]) == 0


@pytest.mark.parametrize("first", [True, False])
def test_a_property_whose_records_are_not_all_known_is_an_error(tmp_path: Path, first: bool) -> None:
    """One chunk of the file passes m.zz over, of which others know."""
    many = json.dumps({"m": {**{f"k{i}": i for i in range(300)}, "zz": 7}, "n": 1})
    few = [json.dumps({"m": {"zz": 8}, "n": 2, "t": "x" * 1000})] * 5000
    path = write(tmp_path / "a.jsonl", *([many, *few] if first else [*few, *[many] * 1000]))
    what = "more keys than become properties" if first else "more than 256 keys"
    for _ in range(2):  # made, and by the index that is kept
        with pytest.raises(ValueError, match=rf'"m.zz" .*{what}'):
            leat.open(path, fields=["m.zz"], index_dir=tmp_path / "i")
    ds = leat.open(path, fields={"m": None, "n": None}, index_dir=tmp_path / "i")
    assert ds[0 if first else 5999]["m"]["zz"] == 7 and ds[5]["m"] == {"zz": 8}


def test_more_properties_than_there_is_room_for_are_kept_as_json(tmp_path: Path) -> None:
    rows = [{"n": 1, **{f"o{i}": {f"k{j}": j for j in range(200)} for i in range(30)}}, {"n": 2, "o29": {"k5": 3}}]
    path = write(tmp_path / "a.jsonl", *(json.dumps(r) for r in rows))
    for _ in range(2):  # made, and read again
        ds = leat.open(path)
        assert ds[0]["n"] == 1 and ds[1]["n"] == 2
        assert ds[0]["o0.k7"] == 7
        assert ds[0]["o29"] == rows[0]["o29"] and ds[1]["o29"] == {"k5": 3}


def test_too_many_keys_of_a_record_are_an_error(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", json.dumps({f"k{i}": i for i in range(300)}))
    for _ in range(2):
        with pytest.raises(ValueError, match="more than 256 keys"):
            leat.open(path)
    assert leat.open(path, fields=["k3"])[0] == {"k3": 3}
    with pytest.raises(ValueError, match=r'"k299" .* more keys than become properties'):
        leat.open(path, fields=["k299"])


NAN = ["NaN", "-Infinity", "[1.5, NaN]"]


@pytest.mark.parametrize("value", NAN)
def test_nan_in_an_object_that_is_read_as_json_breaks_its_record(tmp_path: Path, value: str) -> None:
    line = '{"t": "b", "m": {"a": 1, "x": ' + value + "}}"
    path = write(
        tmp_path / "a.jsonl", '{"t": "a", "m": {"a": 0}}', "", line, "{", '{"t": "c", "m": {"a": 2, "x": null}}'
    )
    at = len('{"t": "a", "m": {"a": 0}}\n\n') + line.index(value) + (6 if value[0] == "[" else 0)
    with pytest.warns(UserWarning, match="1 of 4 records"):
        good = leat.open(path, on_bad="skip")  # as a number it is one
    assert len(good) == 3 and "m.x" in good.schema
    alone = write(tmp_path / "c.jsonl", '{"t": "a", "m": {"a": 0}}', "", line)
    with pytest.raises(leat.CorruptError, match=rf"line 3, byte {at}: NaN or Infinity"):
        leat.open(alone, fields={"t": None, "m": "json"})
    with pytest.warns(UserWarning, match="2 of 4 records .* line 3, byte"):
        ds = leat.open(path, fields={"t": None, "m": "json"}, on_bad="skip")
    assert [ds[i] for i in range(2)] == [{"t": "a", "m": {"a": 0}}, {"t": "c", "m": {"a": 2, "x": None}}]
    assert ds.about["skipped"] == 2
    with pytest.warns(UserWarning, match="marked"):
        ds = leat.open(path, fields={"t": None, "m": "json", "m.a": None}, on_bad="mark")
    assert ds[0]["m.a"] == 0 and ds[3]["m.a"] == 2
    with pytest.raises(leat.BrokenSampleError, match="line 3"):
        ds[1]
    same_records = write(tmp_path / "b.jsonl", '{"t": "a", "m": {"a": 0}}', '{"t": "c", "m": {"a": 2, "x": null}}')
    with pytest.warns(UserWarning):
        ds = leat.open(path, fields={"t": None, "m": "json"}, on_bad="skip")
    assert ds.fingerprint == leat.open(same_records, fields={"t": None, "m": "json"}).fingerprint


def test_nan_beside_what_is_wanted_is_passed_over(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", '{"m": {"x": NaN, "y": [NaN]}, "t": "a"}')
    assert leat.open(path, fields=["t"])[0] == {"t": "a"}


@pytest.mark.parametrize("value", ["[1, NaN, true]", "[NaN, false]", '[NaN, "a"]', "[true, -Infinity]"])
def test_nan_in_a_list_of_several_types_breaks_its_record(tmp_path: Path, value: str) -> None:
    line = '{"n": 2, "l": ' + value + "}"
    path = write(tmp_path / "a.jsonl", '{"n": 1, "l": [1, "x"]}', line)
    at = len('{"n": 1, "l": [1, "x"]}\n') + line.index("-Inf" if "Inf" in value else "NaN")
    with pytest.raises(leat.CorruptError, match=rf"line 2, byte {at}: NaN"):
        leat.open(path)
    with pytest.warns(UserWarning, match="1 of 2 records"):
        assert leat.open(path, on_bad="skip").column("n").tolist() == [1]


def test_nan_in_a_list_of_numbers_breaks_its_record_where_others_make_it_json(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", '{"n": 1, "l": [1, "x"]}', '{"n": 2, "l": [NaN]}', '{"n": 3, "l": [2.5]}')
    with pytest.raises(leat.CorruptError, match="line 2, byte 39: NaN"):
        leat.open(path)
    with pytest.warns(UserWarning, match="1 of 3 records"):
        ds = leat.open(path, on_bad="skip")
    assert [ds[i]["l"] for i in range(2)] == [[1, "x"], [2.5]]


# ---- integers of lists -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("split", [False, True])
def test_integers_of_lists_are_what_integers_are(tmp_path: Path, split: bool) -> None:
    """150 drawn sets of records: the type, or the error, of lists is that of the same integers alone."""
    rng = np.random.default_rng(4)
    kinds = {"low": [-1, -(2**63), -7], "mid": [0, 5, 2**63 - 1], "high": [2**63, 2**64 - 1], "real": [1.5, -2.0]}
    for k in range(150):
        chosen = [name for name in kinds if rng.random() < 0.5] or ["mid"]
        numbers = [kinds[name][int(rng.integers(len(kinds[name])))] for name in chosen for _ in range(2)]
        numbers = [numbers[i] for i in rng.permutation(len(numbers))]
        cuts = np.sort(rng.integers(0, len(numbers) + 1, 2))
        lists = [x for x in ([numbers[: cuts[0]], numbers[cuts[0] : cuts[1]], numbers[cuts[1] :]]) if x] or [numbers]
        alone = [[write(tmp_path / f"alone-{k}.jsonl", *(json.dumps({"x": x}) for x in numbers))]]
        lines = [json.dumps({"x": x}) for x in lists]
        together = [write(tmp_path / f"list-{k}.jsonl", *lines)]
        if split and len(lines) > 1:
            together = [write(tmp_path / f"list-{k}-{i}.jsonl", line) for i, line in enumerate(lines)]
        if {"low", "high"} <= set(chosen) and not all(any(type(v) is float for v in x) for x in lists):
            with pytest.raises(leat.InvalidError, match="two types"):
                leat.open(alone[0])
        for _ in range(2):  # the second time by the index
            if any(n < 0 and type(n) is int for n in numbers) and any(n >= 2**63 for n in numbers):
                with pytest.raises(
                    leat.InvalidError, match="lists with integers below 0 and with integers beyond int64"
                ):
                    leat.open(together)
                kept = leat.open(together, fields={"x": "json"})
                assert [v for s in kept for v in s["x"]] == numbers
                continue
            if "real" in chosen and any(int(float(n)) != n for n in numbers if type(n) is int):
                for paths, said in ((alone[0], "float64"), (together, leat.field("float64", (None,)))):
                    with pytest.raises(leat.InvalidError, match="integers that float64 does not hold.* fields={"):
                        leat.open(paths)
                    rounded = [np.atleast_1d(s["x"]).tolist() for s in leat.open(paths, fields={"x": said})]
                    assert [v for x in rounded for v in x] == [float(v) for v in numbers]
                continue
            found = leat.open(together)
            assert found.schema["x"].dtype == leat.open(alone[0]).schema["x"].dtype, (numbers, lists)
            got = [v for s in found for v in s["x"].tolist()]
            assert got == ([float(v) for v in numbers] if "real" in chosen else numbers), lists


def test_an_index_of_the_version_before_is_made_again(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", '{"x": [-1]}', '{"x": [2]}')
    leat.open(path)
    index = Path(path + ".leat-index")
    raw = bytearray(index.read_bytes())
    assert raw[8] == 4
    raw[8] = 3
    index.write_bytes(raw)
    assert [s["x"].tolist() for s in leat.open(path)] == [[-1], [2]] and index.read_bytes()[8] == 4


def test_integers_that_float64_does_not_hold_are_not_rounded_beside_floats(tmp_path: Path) -> None:
    """They are in one record or several, in one file or two; others that are as large are floats."""
    for n in (2**53 + 1, -(2**53) - 1, 2**63 - 1, 2**64 - 1):
        a, b = (
            write(tmp_path / "a.jsonl", json.dumps({"m": {"id": n}})),
            write(tmp_path / "b.jsonl", '{"m": {"id": 0.5}}'),
        )
        for src in (
            [a, b],
            [b, a],
            write(tmp_path / "c.jsonl", Path(b).read_text().strip(), Path(a).read_text().strip()),
        ):
            with pytest.raises(leat.InvalidError, match=r'"m.id" has integers .* line \d of .*\{"m.id": "float64"\}'):
                leat.open(src)
            assert {s["m.id"] for s in leat.open(src, fields={"m.id": "json"})} == {n, 0.5}
            assert {s["m.id"] for s in leat.open(src, fields={"m.id": "float64"})} == {float(n), 0.5}
        assert leat.open(a)[0]["m.id"] == n
        assert leat.open(a, fields={"m.id": "float64"})[0]["m.id"] == float(n)
    words = write(tmp_path / "w.jsonl", '{"x": "1", "y": true, "z": [1, 2], "e": []}', '{"y": false, "z": []}')
    for name in ("x", "y"):
        with pytest.raises(leat.InvalidError, match='takes the kind "json", or float64 of numbers, not float64'):
            leat.open(words, fields={name: "float64"})
    floats = leat.field("float64", (None,))
    found = leat.open(words, fields={"z": floats, "y": None})
    assert found.schema["z"].dtype == "float64" and [s["z"].tolist() for s in found] == [[1.0, 2.0], []]
    assert found[0]["z"].dtype == np.float64
    assert [s["e"].tolist() for s in leat.open(words, fields={"e": floats})] == [[], []]
    with pytest.raises(leat.InvalidError, match="not float64"):
        leat.open(words, fields={"z": "float64"})
    path = write(tmp_path / "d.jsonl", '{"x": 9007199254740992}', '{"x": -9223372036854775808}', '{"x": 1e3}')
    assert [s["x"] for s in leat.open(path)] == [2.0**53, -(2.0**63), 1000.0]
