"""Missing values of Parquet and Arrow: NULL to a query, filled on request, an error else."""

from __future__ import annotations

import pickle
import re
import sqlite3
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import leat

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

CLAUSES = [
    "n > 3", "n IS NULL", "n IS NOT NULL", "NOT n > 3", "n IN (1, 2, NULL)", "n + small > 4", "small = 1",
    "NOT small = 1", "small IS NULL OR n < 2", "flag", "NOT flag", "flag IS NULL", "t = 'b'", "t IS NULL",
    "NOT t = 'b'", "length(t) = 1", "t || 'x' = 'bx'", "coalesce(n, 7) = 7", "b IS NULL", "b = x'01'",
    "\"list.length\" = 2", "\"list.length\" IS NULL",
    "CASE WHEN small > 1 THEN n ELSE 5 END = 5", "ifnull(small, 9) + n > 8", "abs(n) = 2 AND t IS NOT NULL",
    "n = small", "x IS NULL", "x > 0.5", "id > 3 AND n IS NULL", "t LIKE 'a%' OR n IS NULL", "n BETWEEN 1 AND 4",
]  # fmt: skip


def drawn(rng: np.random.Generator, rows: int, missing: float) -> Any:
    def some(values: list[Any]) -> list[Any]:
        return [None if rng.random() < missing else v for v in values]

    return pa.table(
        {
            "n": pa.array(some(rng.integers(-5, 10, rows).tolist()), pa.int64()),
            "small": pa.array(some(rng.integers(0, 4, rows).tolist()), pa.uint8()),
            "flag": pa.array(some((rng.random(rows) < 0.5).tolist()), pa.bool_()),
            "x": pa.array(some(rng.random(rows).tolist()), pa.float64()),
            "t": pa.array(some([["a", "b", "ab", ""][k] for k in rng.integers(0, 4, rows)]), pa.string()),
            "b": pa.array(some([[b"", b"\x01", b"xy"][k] for k in rng.integers(0, 3, rows)]), pa.binary()),
            "list": pa.array(some([[1] * k for k in rng.integers(0, 4, rows).tolist()]), pa.list_(pa.int16())),
        }
    )


def found_by_sqlite(rows: list[dict[str, Any]], clause: str) -> list[int]:
    db = sqlite3.connect(":memory:")
    db.execute(
        'CREATE TABLE s(id INTEGER, n INTEGER, small INTEGER, flag INTEGER, x REAL, t TEXT, b BLOB, "list.length")'
    )
    for i, r in enumerate(rows):
        length = None if r["list"] is None else len(r["list"])
        db.execute(
            "INSERT INTO s VALUES(?,?,?,?,?,?,?,?)", (i, *(r[k] for k in ("n", "small", "flag", "x", "t", "b")), length)
        )
    return [i for (i,) in db.execute(f"SELECT id FROM s WHERE {clause} ORDER BY id")]


@pytest.mark.parametrize("seed", range(12))
def test_a_missing_value_is_null_to_a_query(tmp_path: Path, seed: int) -> None:
    """12 tables by 31 clauses, on files, views of them, data sets joined and side by side."""
    rng = np.random.default_rng(seed)
    rows, missing = int(rng.integers(1, 600)), float(rng.choice([0, 0.05, 0.5, 1]))
    table = drawn(rng, rows, missing)
    path = tmp_path / "t.parquet"
    pq.write_table(table, path, row_group_size=int(rng.integers(1, 100)))
    want = table.to_pylist()
    ds = leat.open(path)
    if seed % 4 == 1:
        other = drawn(rng, 50, 0)
        pq.write_table(other, tmp_path / "u.parquet")
        ds, want = leat.concat(ds, leat.open(tmp_path / "u.parquet")), want + other.to_pylist()
    elif seed % 4 == 2:
        with pa.ipc.new_file(tmp_path / "t.arrow", table.schema) as writer:
            writer.write_table(table, max_chunksize=40)
        ds = leat.open(tmp_path / "t.arrow")
    elif seed % 4 == 3:
        names = ["n", "small", "flag", "x"]
        ds = leat.zip(a=leat.open(path, fields=names), b=leat.open(path, fields=["t", "b", "list"]))
    for clause in CLAUSES:
        ours = clause
        if seed % 4 == 3:
            ours = re.sub(r"(?<![\w'])(n|small|flag|x)(?![\w'])", r'"a.\1"', clause)
            ours = re.sub(r"(?<![\w'.])(t|b)(?![\w'])", r'"b.\1"', ours).replace('"list.length"', '"b.list.length"')
        there = found_by_sqlite(want, clause)
        assert ds.where(ours).ids.tolist() == there, (clause, ours)
        half = ds[: len(ds) // 2]
        assert half.where(ours).ids.tolist() == [i for i in there if i < len(ds) // 2], clause


def test_null_changes_neither_values_nor_errors(tmp_path: Path) -> None:
    pq.write_table(pa.table({"year": [2001, None, 2003], "t": ["a", "b", None]}), tmp_path / "a.parquet")
    ds = leat.open(tmp_path / "a.parquet")
    view = ds.where("year IS NOT NULL AND t IS NOT NULL")
    assert [s["year"] for s in view] == [2001] and list(ds.schema) == ["year", "t"]
    assert pickle.loads(pickle.dumps(view)).ids.tolist() == [0]
    with pytest.raises(leat.BrokenSampleError, match="column 'year' has no value.*fill="):
        ds[1]
    with pytest.raises(leat.BrokenSampleError):
        ds.column("year")
    with pytest.raises(leat.InvalidError, match='there is no column "yearr": did you mean year'):
        ds.where("yearr > 1")
    with pytest.raises(leat.InvalidError, match="there are year, t, id "):
        ds.where("somewhat > 1")


def test_a_member_of_a_missing_struct_is_null_to_a_query(tmp_path: Path) -> None:
    pq.write_table(pa.table({"m": pa.array([{"a": 1}, None, {"a": None}, {"a": 4}])}), tmp_path / "a.parquet")
    ds = leat.open(tmp_path / "a.parquet")
    assert ds.where('"m.a" IS NULL').ids.tolist() == [1, 2] and ds.where('"m.a" < 9').ids.tolist() == [0, 3]


def test_a_data_set_of_pyarrow_has_nulls_too(tmp_path: Path) -> None:
    import pyarrow.dataset

    pq.write_table(pa.table({"n": [1, None, 3]}), tmp_path / "a.parquet")
    ds = leat.from_arrow(pyarrow.dataset.dataset(tmp_path / "a.parquet"))
    assert ds.where("n > 0").ids.tolist() == [0, 2] and ds.where("n IS NULL").ids.tolist() == [1]


def test_another_error_of_a_source_stays_one_to_a_query(tmp_path: Path) -> None:
    pq.write_table(pa.table({"n": [1, None, 3]}), tmp_path / "a.parquet")
    ds = leat.open(tmp_path / "a.parquet")
    pq.write_table(pa.table({"n": [1]}), tmp_path / "a.parquet")
    with pytest.raises(leat.ChangedError, match="was changed after it was opened"):
        ds.where("n > 0")

    class Nothing:
        fields = {"n": leat.field("int64")}

        def __len__(self) -> int:
            return 3

        def read(self, positions: Any) -> Any:
            return {"n": [None] * len(positions)}

    with pytest.raises(leat.Error, match="an array of object"):
        leat.from_source(Nothing()).where("n > 0")


# ---- fill ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["parquet", "arrow", "list", "pattern", "dict"])
def test_open_fills_missing_values(tmp_path: Path, form: str) -> None:
    table = pa.table(
        {"year": [2001, None, 2003], "t": ["a", None, "c"], "list": [[1], None, []], "j": [["a"], None, ["b"]]}
    )
    fill = {"year": -1, "t": "none", "list": [7, 8], "j": {"a": 1}}
    path = tmp_path / "p-0.parquet"
    pq.write_table(table, path)
    if form == "arrow":
        path = tmp_path / "t.arrow"
        with pa.ipc.new_file(path, table.schema) as writer:
            writer.write_table(table)
    src: Any = {"list": [path], "pattern": str(path).replace("-0", "-{0..0}"), "dict": {"a": path}}.get(form, path)
    ds = leat.open(src, fill=fill)
    name = "a." if form == "dict" else ""
    found = {k: v.tolist() if isinstance(v, np.ndarray) else v for k, v in ds[1].items()}
    assert found == {f"{name}year": -1, f"{name}t": "none", f"{name}list": [7, 8], f"{name}j": {"a": 1}}
    assert ds.where(f'"{name}year" = -1').ids.tolist() == [1] and len(ds.where(f'"{name}year" IS NULL')) == 0
    assert ds[0][f"{name}year"] == 2001 and pickle.loads(pickle.dumps(ds))[1][f"{name}year"] == -1


def test_other_fills_are_other_data(tmp_path: Path) -> None:
    pq.write_table(pa.table({"n": [1, None]}), tmp_path / "a.parquet")
    prints = {leat.open(tmp_path / "a.parquet", fill=fill).fingerprint for fill in (None, {"n": 0}, {"n": 1})}
    assert len(prints) == 3
    assert leat.open(tmp_path / "a.parquet", fill={}).fingerprint == leat.open(tmp_path / "a.parquet").fingerprint


def test_what_a_column_cannot_hold_fills_none(tmp_path: Path) -> None:
    """22 values that do not fit, 12 that do."""
    table = pa.table(
        {
            "n": pa.array([1, None], pa.int8()),
            "u": pa.array([1, None], pa.uint16()),
            "flag": pa.array([True, None]),
            "x": pa.array([1.0, None], pa.float32()),
            "t": pa.array(["a", None]),
            "b": pa.array([b"a", None]),
            "list": pa.array([[1], None], pa.list_(pa.int16())),
            "pair": pa.array([[1, 2], None], pa.list_(pa.int16(), 2)),
        }
    )
    pq.write_table(table, tmp_path / "a.parquet")
    wrong: list[tuple[str, Any]] = [
        ("n", 300), ("n", 1.5), ("n", "a"), ("n", None), ("n", [1, 2]), ("n", float("nan")), ("n", {}), ("u", -1),
        ("u", 1 << 40), ("flag", 2), ("flag", "yes"), ("x", "a"), ("x", None), ("t", 1), ("t", None), ("t", ["a"]),
        ("b", "a"), ("b", 1), ("list", [1.5]), ("list", 3), ("list", [1 << 20]), ("pair", [1, 2, 3]),
    ]  # fmt: skip
    for name, value in wrong:
        for way in (lambda f: leat.open(tmp_path / "a.parquet", fill=f), lambda f: leat.from_arrow(table, fill=f)):
            with pytest.raises(leat.InvalidError, match=rf"fill=\{{'{name}': .* is no value of '{name}'"):
                way({name: value})
    right: list[tuple[str, Any, Any]] = [
        ("n", -128, -128), ("n", True, 1), ("n", 2.0, 2), ("u", 65535, 65535), ("flag", False, False),
        ("flag", 1, True), ("x", 3, 3.0), ("t", "b", "b"), ("b", b"", b""), ("list", [], []),
        ("list", [3, 4], [3, 4]), ("pair", [5, 6], [5, 6]),
    ]  # fmt: skip
    for name, value, want in right:
        ds = leat.open(tmp_path / "a.parquet", fields=[name], fill={name: value})
        found = ds[1][name]
        assert (found.tolist() if isinstance(found, np.ndarray) else found) == want, name


def test_a_fill_is_a_value_in_full_or_refused(tmp_path: Path) -> None:
    """Not infinite where it was finite, and text that UTF-8 and JSON can say."""
    table = pa.table(
        {
            "half": pa.array([1, None], pa.float16()),
            "x": pa.array([1, None], pa.float32()),
            "t": ["a", None],
            "j": [[["a"]], None],
        }
    )
    pq.write_table(table.select(["x", "t", "j"]), tmp_path / "a.parquet")
    more = [("half", 70000.0), ("half", 1 << 20), ("x", 1e39), ("x", -(10**40)), ("x", [1.0]), ("t", "\ud800"),
            ("t", b"\xff"), ("t", np.frombuffer(b"ab", np.uint8)), ("j", {1, 2}), ("j", float("nan")),
            ("j", {"a": "\ud800"}), ("j", b"a"), ("j", object())]  # fmt: skip
    for name, value in more:
        with pytest.raises(leat.InvalidError, match=rf"fill=\{{'{name}': .* is no value of '{name}'"):
            leat.from_arrow(table, fields=[name], fill={name: value})
        if name != "half":
            with pytest.raises(leat.InvalidError, match=rf"fill=\{{'{name}': .* is no value of '{name}'"):
                leat.open(tmp_path / "a.parquet", fill={name: value})
    given = [{"a": (1, None)}]
    right = [("half", 65504.0, 65504.0), ("x", float("-inf"), float("-inf")), ("x", 3e38, np.float32(3e38)),
             ("t", "\u00e9".encode(), "\u00e9"), ("j", given, [{"a": [1, None]}]), ("j", None, None)]  # fmt: skip
    for name, value, want in right:
        ds = leat.from_arrow(table, fields=[name], fill={name: value})
        assert ds[1][name] == want, name


def test_text_that_is_json_may_be_missing(tmp_path: Path) -> None:
    """It is null then, or what fills it."""
    pq.write_table(pa.table({"t": ['{"a": 1}', None]}), tmp_path / "a.parquet")
    for fill, want in (({}, None), ({"t": [3]}, [3])):
        for ds in (
            leat.open(tmp_path / "a.parquet", fields={"t": "json"}, fill=fill),
            leat.from_arrow(pq.read_table(tmp_path / "a.parquet"), fields={"t": "json"}, fill=fill),
        ):
            assert [s["t"] for s in ds] == [{"a": 1}, want]


def test_fill_of_what_has_no_columns_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"n": 1}\n{"n": null}\n')
    with pytest.raises(ValueError, match="fill is for columns of Parquet and Arrow"):
        leat.open(tmp_path / "a.jsonl", fill={"n": 1})
    pq.write_table(pa.table({"n": [1, None]}), tmp_path / "a.parquet")
    with pytest.raises(KeyError, match="there is no column 'm': there are n"):
        leat.open(tmp_path / "a.parquet", fill={"m": 1})
    with pytest.raises(TypeError, match="fill is a dict"):
        leat.open(tmp_path / "a.parquet", fill=3)  # type: ignore[arg-type]


# ---- values that are not whole ---------------------------------------------------------------------------------------


def written(path: Path, table: Any) -> list[Path]:
    """The table as Parquet and as Arrow, in row groups of four."""
    pq.write_table(table, path / "t.parquet", row_group_size=4)
    with pa.ipc.new_file(path / "t.arrow", table.schema) as writer:
        writer.write_table(table, max_chunksize=4)
    return [path / "t.parquet", path / "t.arrow"]


def test_a_list_without_some_of_its_numbers_breaks_its_sample_alone(tmp_path: Path) -> None:
    lists = [[1, 2], [3, None], None, [], [5], [None], [6, 7], [8]]
    pairs = [[1, 2], [3, None], None, [4, 4], [5, 5], [None, 6], [6, 7], [8, 8]]
    table = pa.table(
        {
            "list": pa.array(lists, pa.list_(pa.int32())),
            "pair": pa.array(pairs, pa.list_(pa.int16(), 2)),
            "pairs": pa.array([None if v is None else [v] for v in pairs], pa.list_(pa.list_(pa.int8(), 2))),
        }
    )
    for path in written(tmp_path, table):
        for name, want in (("list", lists), ("pair", pairs), ("pairs", table["pairs"].to_pylist())):
            ds = leat.open(path, fields=[name])
            for i in (0, 4, 6, 7):
                assert ds[i][name].tolist() == want[i], (path, name, i)
            for i in (1, 5):
                with pytest.raises(leat.BrokenSampleError, match=rf"row {i % 4}: column '{name}' has a list with miss"):
                    ds[i]
            with pytest.raises(leat.BrokenSampleError, match=rf"row 2: column '{name}' has no value"):
                ds[2]
            batches = list(leat.Loader(ds, 8, on_error="skip", framework="numpy"))
            there = [i for i, v in enumerate(table[name].to_pylist()) if v is not None and "None" not in str(v)]
            assert [i for b in batches for i in b.ids.tolist()] == there
            filled = leat.open(path, fields=[name], fill={name: want[0]})
            assert filled[2][name].tolist() == want[0]
            with pytest.raises(leat.BrokenSampleError, match="a list with missing numbers"):
                filled[1]
    with pytest.raises(leat.InvalidError, match="row 5: column 'list' has a list with missing numbers in it"):
        leat.from_arrow(pa.concat_tables([table.slice(3, 2), table.slice(3, 2), table.slice(4, 3)]), fields=["list"])


def test_a_number_that_a_list_of_floats_lacks_is_nan(tmp_path: Path) -> None:
    lists = [[1.0, None], [None], [], [2.0, 3.0], None]
    pairs = [[[1.0, 2.0], None], [[None, 3.0]], [], [[4.0, 5.0]], []]
    table = pa.table(
        {
            "list": pa.array(lists, pa.large_list(pa.float32())),
            "pairs": pa.array(pairs, pa.list_(pa.list_(pa.float64(), 2))),
        }
    )
    want = [[[1, 2], [np.nan, np.nan]], [[np.nan, 3]], np.empty((0, 2)), [[4, 5]]]
    opened = [leat.open(path) for path in written(tmp_path, table)]
    for ds in [*opened, leat.from_arrow(table.slice(0, 4)), leat.from_arrow(table.slice(1, 3))]:
        first = len(table) - len(ds) - (len(ds) < 5)
        for i in range(first, 4):
            sample = ds[i - first]
            assert np.array_equal(sample["list"], np.array(lists[i], np.float32), equal_nan=True)
            assert np.array_equal(sample["pairs"], np.array(want[i]), equal_nan=True)


def test_text_that_is_not_utf_8_breaks_its_sample_alone(tmp_path: Path) -> None:
    texts = [b"a", b"x\xff", "é".encode(), b"\xc3", b"\xa9", b"b", None, b"c"]
    table = pa.table({"t": pa.array(texts, pa.binary()).cast(pa.binary()).view(pa.string()), "n": list(range(8))})
    for path in written(tmp_path, table):
        ds = leat.open(path)
        assert [ds[i]["t"] for i in (0, 2, 5, 7)] == ["a", "é", "b", "c"]
        with pytest.raises(leat.BrokenSampleError, match=r"t\..* 0, row 1: column 't' has a text that is not UTF-8"):
            ds[1]
        batches = list(leat.Loader(ds, 4, on_error="skip", framework="numpy"))
        assert [t for b in batches for t in b["t"]] == ["a", "é", "b", "c"]
        assert [row["n"] for row in leat.open(path, fields=["n"])] == list(range(8))
