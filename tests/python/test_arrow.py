"""leat.from_arrow and Parquet files: the same values as pyarrow gives."""

from __future__ import annotations

import os
import pickle
import warnings
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import leat

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")


def plain(value: Any) -> Any:
    return value.tolist() if isinstance(value, np.ndarray) else value


def rows(ds: leat.Dataset) -> list[dict[str, Any]]:
    return [{k: plain(v) for k, v in sample.items()} for sample in ds]


def table(n: int = 40) -> Any:
    return pa.table(
        {
            "number": pa.array(range(n), pa.int64()),
            "small": pa.array([i % 7 for i in range(n)], pa.uint8()),
            "real": pa.array([i / 3 for i in range(n)], pa.float32()),
            "flag": pa.array([i % 3 == 0 for i in range(n)]),
            "text": pa.array(["ä" * (i % 5) for i in range(n)]),
            "large": pa.array([f"row {i}" for i in range(n)], pa.large_string()),
            "raw": pa.array([bytes([i % 256]) * (i % 4) for i in range(n)], pa.binary()),
            "tokens": pa.array([list(range(i % 6)) for i in range(n)], pa.list_(pa.uint16())),
            "pair": pa.array([[i, -i] for i in range(n)], pa.list_(pa.int32(), 2)),
            "boxes": pa.array([[[1.0, 2.0, 3.0, i]] * (i % 3) for i in range(n)], pa.list_(pa.list_(pa.float32(), 4))),
            "words": pa.array([["to", "be"][: i % 3] for i in range(n)]),
            "domain": pa.array(["code", "books"][i % 2] for i in range(n)).dictionary_encode(),
            "meta": pa.array([{"year": i, "by": {"name": f"n{i}"}} for i in range(n)]),
            "day": pa.array(range(n), pa.date32()),
        }
    )


def expected(found: Any) -> list[dict[str, Any]]:
    out = []
    for row in found.to_pylist():
        meta = row.pop("meta")
        row["day"] = row["day"].toordinal() - 719163
        real = float(np.float32(row["real"]))
        out.append({**row, "real": real, "meta.year": meta["year"], "meta.by.name": meta["by"]["name"]})
    return out


def in_order(found: list[dict[str, Any]]) -> list[list[tuple[str, Any]]]:
    return [sorted(row.items()) for row in found]


@pytest.mark.parametrize("way", ["whole", "sliced", "batches", "reader"])
def test_a_table_has_the_values_of_pyarrow(way: str) -> None:
    whole = table()
    given = {
        "whole": whole,
        "sliced": whole.slice(3, 20),
        "batches": pa.concat_tables([whole.slice(5, 9), whole.slice(20, 1), whole.slice(0, 13)]),
        "reader": whole.to_reader(max_chunksize=7),
    }[way]
    want = whole if way == "reader" else given
    assert in_order(rows(leat.from_arrow(given))) == in_order(expected(want))


def test_types_become_fields() -> None:
    schema = leat.from_arrow(table()).schema
    names = ("number", "flag", "text", "raw", "tokens", "pair", "boxes", "words", "domain")
    assert [str(schema[n]) for n in names] == [
        "field('int64')", "field('bool')", "field('str')", "field('bytes')", "field('uint16', (None,))",
        "field('int32', (2,))", "field('float32', (None, 4))", "field('json')", "field('str')",
    ]  # fmt: skip
    assert "meta.year" in schema and "meta.by.name" in schema


def test_numbers_are_not_copied() -> None:
    array = np.arange(1000, dtype=np.int64)
    ds = leat.from_arrow(pa.table({"x": pa.Array.from_buffers(pa.int64(), 1000, [None, pa.py_buffer(array)])}))
    before = ds.column("x")[5]
    array[5] = 77
    assert before == 5 or ds.column("x")[5] == 77
    assert ds.column("x").__array_interface__["data"][0] == array.__array_interface__["data"][0]


def test_the_memory_lives_as_long_as_the_data_set() -> None:
    import gc

    ds = leat.from_arrow(table(2000).select(["text", "number"]))
    gc.collect()
    filler = [np.random.default_rng(i).bytes(1 << 16) for i in range(50)]
    assert [ds[i]["number"] for i in range(0, 2000, 97)] == list(range(0, 2000, 97)) and len(filler) == 50


def test_the_chunks_of_a_table_change_nothing() -> None:
    names = ["number", "text", "tokens"]
    whole = table().select(names)
    parts = pa.concat_tables([whole.slice(0, 11), whole.slice(11)])
    assert leat.from_arrow(whole).fingerprint == leat.from_arrow(parts).fingerprint


def test_missing_values_need_a_fill_but_floats_and_json() -> None:
    given = pa.table({"x": [1, None, 3], "y": [1.5, None, 2.5], "z": [["a"], None, []], "t": ["a", None, "c"]})
    with pytest.raises(leat.InvalidError, match=r"column 'x' has 1 missing values, the first in row 1.*fill=\{'x'"):
        leat.from_arrow(given)
    ds = leat.from_arrow(given, fill={"x": -1, "t": "none"})
    assert ds.column("x").tolist() == [1, -1, 3] and np.isnan(ds.column("y")[1])
    assert [r["z"] for r in ds] == [["a"], None, []] and [r["t"] for r in ds] == ["a", "none", "c"]


def test_a_member_of_a_missing_struct_is_missing() -> None:
    given = pa.table({"m": pa.array([{"a": 1}, None, {"a": 3}])})
    with pytest.raises(leat.InvalidError, match="column 'm.a' has 1 missing"):
        leat.from_arrow(given)
    assert leat.from_arrow(given, fill={"m.a": 0}).column("m.a").tolist() == [1, 0, 3]


def test_fields_choose_columns_and_say_what_they_are() -> None:
    ds = leat.from_arrow(table(), fields={"raw": "image", "number": None})
    assert list(ds.schema) == ["raw", "number"] and ds.schema["raw"].kind == "image"
    with pytest.raises(leat.InvalidError, match='the table has no field "none", which fields names: it has '):
        leat.from_arrow(table(), fields=["none"])
    with pytest.raises(leat.InvalidError, match="column 'number' is .* cannot be"):
        leat.from_arrow(table(), fields={"number": "str"})


def test_any_column_can_be_taken_as_json() -> None:
    given = pa.table({"x": pa.array([[1, None], [2]], pa.list_(pa.int64()))})
    with pytest.raises(
        leat.InvalidError, match=r"row 0: column 'x' .* missing numbers in it: take it as JSON, fields=\{'x': 'json'\}"
    ):
        leat.from_arrow(given)
    assert rows(leat.from_arrow(given, fields={"x": "json"})) == [{"x": [1, None]}, {"x": [2]}]


def test_decimals_are_text_and_views_are_strings() -> None:
    given = pa.table(
        {
            "price": pa.array([Decimal("12.30"), Decimal("-0.05")], pa.decimal128(9, 2)),
            "view": pa.array(["short", "longer than twelve bytes"], pa.string_view()),
        }
    )
    assert rows(leat.from_arrow(given)) == [
        {"price": "12.30", "view": "short"},
        {"price": "-0.05", "view": "longer than twelve bytes"},
    ]


def test_views_of_several_buffers_are_strings() -> None:
    texts = [letter * 20_000 for letter in "abcd"]
    column = pa.array([*texts, "short"], pa.string_view())
    assert len(column.buffers()) > 3  # a validity, the views, and more than one of text
    assert [row["x"] for row in rows(leat.from_arrow(pa.table({"x": column})))] == [*texts, "short"]


def test_names_are_made_valid_and_stay_different() -> None:
    assert list(leat.from_arrow(pa.table({"a b/c": [1]})).schema) == ["a_b_c"]
    with pytest.raises(leat.InvalidError, match="two columns would become the field 'a_b'"):
        leat.from_arrow(pa.table({"a b": [1], "a/b": [2]}))


def test_an_empty_table_is_an_empty_data_set() -> None:
    ds = leat.from_arrow(table().slice(0, 0).select(["number", "text", "tokens"]))
    assert len(ds) == 0 and list(ds.schema) == ["number", "text", "tokens"]


def test_a_loader_reads_ragged_fields_of_a_table() -> None:
    ds = leat.from_arrow(table().select(["tokens", "text", "number"]))
    batch = next(iter(leat.Loader(ds, 40, framework="numpy")))
    assert [t.tolist() for t in batch["tokens"]] == [list(range(i % 6)) for i in range(40)]
    assert batch["text"] == ["ä" * (i % 5) for i in range(40)]


def test_rows_are_packed_of_the_tokens_of_a_table() -> None:
    ds = leat.from_arrow(table().select(["tokens"]))
    packed = leat.pack_rows(ds, length=16, eos=99)
    flat = np.concatenate([[*range(i % 6), 99] for i in range(40) if i % 6])  # an empty one has no piece
    assert packed[1]["tokens"].tolist() == flat[16:32].tolist()


def test_a_table_pickles_by_value() -> None:
    ds = leat.from_arrow(table())
    assert rows(pickle.loads(pickle.dumps(ds))) == rows(ds)


def test_a_data_set_of_hugging_face_keeps_its_selection() -> None:
    datasets = pytest.importorskip("datasets")
    theirs = datasets.Dataset.from_dict({"text": ["a", "b", "c"], "ids": [[1], [2, 3], []]})
    assert rows(leat.from_arrow(theirs)) == theirs.to_list()
    chosen = theirs.select([2, 0])
    assert rows(leat.from_arrow(chosen)) == chosen.to_list()


def test_what_is_no_table_is_named() -> None:
    with pytest.raises(TypeError, match="from_arrow takes an object with __arrow_c_stream__, and dict has none"):
        leat.from_arrow({"a": [1]})


def test_arrays_of_open_length_are_ragged() -> None:
    ragged = leat.Ragged(np.arange(5, dtype=np.uint16), np.array([0, 2, 2, 5]))
    text = leat.Ragged(np.frombuffer(b"tobe", np.uint8), np.array([0, 2, 2, 4], np.int32))
    ds = leat.from_arrays({"t": leat.field("str")}, x=ragged, t=text)
    assert rows(ds) == [{"x": [0, 1], "t": "to"}, {"x": [], "t": ""}, {"x": [2, 3, 4], "t": "be"}]
    with pytest.raises(leat.InvalidError, match="field 'x': the offsets of value 1 are 2 and 1: they may not descend"):
        leat.from_arrays(x=leat.Ragged(np.arange(5), np.array([0, 2, 1])))
    with pytest.raises(leat.InvalidError, match="field 't', sample 0, byte 1: this is no UTF-8 text"):
        leat.from_arrays({"t": leat.field("str")}, t=leat.Ragged(np.frombuffer(b"a\xff", np.uint8), np.array([0, 2])))


# ---- Parquet ---------------------------------------------------------------------------------------------------------


def test_a_parquet_file_has_the_values_of_pyarrow(tmp_path: Path) -> None:
    pq.write_table(table(), tmp_path / "a.parquet", row_group_size=7)
    ds = leat.open(tmp_path / "a.parquet")
    assert in_order(rows(ds)) == in_order(expected(table()))
    assert in_order(rows(ds[::-3])) == in_order(expected(table())[::-3])


def test_lists_and_patterns_of_files_are_one_data_set(tmp_path: Path) -> None:
    for i in range(3):
        pq.write_table(table().slice(i * 13, 13), tmp_path / f"p-{i + 9:02}.parquet", row_group_size=5)
    want = in_order(expected(table().slice(0, 39)))
    assert in_order(rows(leat.open(tmp_path / "p-{09..11}.parquet"))) == want
    assert in_order(rows(leat.open([tmp_path / f"p-{i}.parquet" for i in ("09", "10", "11")]))) == want


def test_a_missing_value_of_a_parquet_file_breaks_its_sample_only(tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": [1, None, 3]}), tmp_path / "a.parquet")
    ds = leat.open(tmp_path / "a.parquet")
    assert ds[0]["x"] == 1 and ds[2]["x"] == 3
    with pytest.raises(leat.BrokenSampleError, match=r"a.parquet row group 0, row 1: column 'x' has no value"):
        ds[1]


def test_a_parquet_file_pickles_by_its_path(tmp_path: Path) -> None:
    pq.write_table(table(4000).select(["number"]), tmp_path / "a.parquet")
    ds = leat.open(tmp_path / "a.parquet")
    assert len(pickle.dumps(ds)) < 4000 and pickle.loads(pickle.dumps(ds)).column("number").tolist() == list(
        range(4000)
    )


def test_a_file_that_is_no_parquet_or_was_cut_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_bytes(b"no parquet at all")
    with pytest.raises(leat.FormatError, match="a.parquet is no Parquet file that can be read"):
        leat.open(tmp_path / "a.parquet")
    with pytest.raises(FileNotFoundError):
        leat.open(tmp_path / "none.parquet")


def test_files_of_other_columns_are_not_joined(tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": [1]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"y": [1]}), tmp_path / "b.parquet")
    with pytest.raises(leat.FormatError, match="b.parquet has other columns than"):
        leat.open([tmp_path / "a.parquet", tmp_path / "b.parquet"])


def test_columns_that_fields_takes_are_compared_alone_and_in_any_order(tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": [1], "m": [{"a": 1}], "s": ["a"]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"s": ["b"], "x": [2], "m": [{"a": "b"}], "y": [1]}), tmp_path / "b.parquet")
    pq.write_table(pa.table({"s": pa.array(["c"]).dictionary_encode(), "x": [3]}), tmp_path / "c.parquet")
    paths = [tmp_path / f"{name}.parquet" for name in "abc"]
    for fields in (["x", "s"], ["s", "x"], {"x": None, "s": None}):
        assert rows(leat.open(paths, fields=fields)) == [{"x": i + 1, "s": "abc"[i]} for i in range(3)]
    for fields, said in ((["x", "y"], "'y' is int64, not absent"), (None, "'m' is struct<a: string>, not struct<a:")):
        with pytest.raises(leat.FormatError, match=f"b.parquet has other columns than .*a.parquet: {said}.*fields="):
            leat.open(paths[:2], fields=fields)
    with pytest.raises(leat.FormatError, match="'m' is absent, not struct"):
        leat.open([paths[0], paths[2]], fields=["m.a"])


def test_a_folder_that_says_a_column_is_warned_of(tmp_path: Path) -> None:
    pq.write_to_dataset(pa.table({"year": [2020, 2021], "x": [1, 2]}), tmp_path / "t", partition_cols=["year"])
    pattern = str(tmp_path / "t" / "*" / "*.parquet")
    with pytest.warns(
        UserWarning, match=r"year=2020 is a folder, and no column.*dataset\('.*/t/', partitioning='hive'"
    ):
        assert rows(leat.open(pattern)) == [{"x": 1}, {"x": 2}]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(leat.open(pattern, fields=["x"])) == 2


@pytest.mark.parametrize("form", ["list view", "run-end encoded", "an interval", "a union"])
def test_a_column_of_a_type_that_is_not_read_is_refused_as_it_is_opened(tmp_path: Path, form: str) -> None:
    odd = {
        "list view": lambda: pa.array([[1], [2]], pa.list_view(pa.int32())),
        "run-end encoded": lambda: pa.RunEndEncodedArray.from_arrays(pa.array([1, 2], pa.int32()), pa.array([5, 6])),
        "an interval": lambda: pa.array([(1, 2, 3)] * 2, pa.month_day_nano_interval()),
        "a union": lambda: pa.UnionArray.from_sparse(pa.array([0, 0], pa.int8()), [pa.array([1, 2])]),
    }[form]()
    table = pa.table({"x": [1, 2], "odd": odd, "list": pa.array([[{"a": 1}], []])})
    with pytest.raises(leat.UnsupportedError, match=f"column 'odd' is .*{form}"):
        leat.from_arrow(table)
    assert leat.from_arrow(table, fields=["x"])[1] == {"x": 2}
    if form == "a union":  # pyarrow writes no such file
        return
    with pa.ipc.new_file(tmp_path / "t.arrow", table.schema) as writer:
        writer.write_table(table)
    with pytest.raises(leat.UnsupportedError, match=f"column 'odd' is .*{form}"):
        leat.open(tmp_path / "t.arrow")
    assert leat.open(tmp_path / "t.arrow", fields=["x", "list"])[0] == {"x": 1, "list": [{"a": 1}]}


def test_what_says_nothing_of_tables_is_refused(tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": [1]}), tmp_path / "a.parquet")
    given: dict[str, Any] = {"on_bad": "skip", "annotations": "a.json", "masks": "m", "classes": ["a"], "block": 3}
    for name, value in (given | {"documents": "file", "sort": True, "features": "f.npy"}).items():
        with pytest.raises(ValueError, match=f"a.parquet is of parquet, and {name} "):
            leat.open(str(tmp_path / "a.parquet"), **{name: value})


def test_tensors_of_one_shape_keep_it(tmp_path: Path) -> None:
    numbers = np.arange(24, dtype=np.float32).reshape(4, 2, 3)
    table = pa.table({"t": pa.FixedShapeTensorArray.from_numpy_ndarray(numbers)})
    pq.write_table(table, tmp_path / "a.parquet")
    assert leat.from_arrow(pa.table({"t": pa.array([[1], [2]], pa.list_(pa.int8(), 1))}))[1]["t"].tolist() == [2]
    for ds in (leat.from_arrow(table), leat.open(tmp_path / "a.parquet")):
        assert ds.schema["t"].shape == (2, 3)
        assert np.array_equal(np.stack([sample["t"] for sample in ds]), numbers)


def test_more_columns_and_longer_names_than_a_data_set_has_are_chosen_from(tmp_path: Path) -> None:
    pq.write_table(pa.table({f"c{i}": [i] for i in range(1025)}), tmp_path / "a.parquet")
    with pytest.raises(leat.InvalidError, match=r"a.parquet has 1025 columns.* not 'c1024': fields=\[\.\.\.\] takes"):
        leat.open(tmp_path / "a.parquet")
    assert leat.open(tmp_path / "a.parquet", fields=["c1024"])[0] == {"c1024": 1024}
    with pytest.raises(leat.InvalidError, match=f"the table has 2 columns.* not '{'k' * 64}': fields="):
        leat.from_arrow(pa.table({"k" * 64: [1], "x": [1]}))
    assert leat.from_arrow(pa.table({"k" * 64: [1], "x": [1]}), fields=["x"])[0] == {"x": 1}
    assert len(leat.from_arrow(pa.table({"k" * 63: [1]}))) == 1


def test_a_data_set_of_pyarrow_in_memory_is_read() -> None:
    import pyarrow.dataset

    assert rows(leat.from_arrow(pyarrow.dataset.dataset(pa.table({"x": [1, 2]})))) == [{"x": 1}, {"x": 2}]


def test_a_file_that_changed_after_it_was_opened_is_an_error(tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": [1]}), tmp_path / "a.parquet")
    ds = leat.open(tmp_path / "a.parquet")
    pq.write_table(pa.table({"x": [1, 2]}), tmp_path / "a.parquet")
    with pytest.raises(leat.ChangedError, match="a.parquet was changed after it was opened"):
        ds[0]


def test_a_data_set_of_pyarrow_is_read_by_row_groups(tmp_path: Path) -> None:
    import pyarrow.dataset

    for part in ("a", "b"):
        (tmp_path / f"kind={part}").mkdir()
        pq.write_table(table(20).select(["number", "text"]), tmp_path / f"kind={part}" / "x.parquet", row_group_size=6)
    theirs = pyarrow.dataset.dataset(tmp_path, partitioning="hive")
    assert rows(leat.from_arrow(theirs)) == theirs.to_table().to_pylist()


def test_real_parquet_files_have_the_values_of_pyarrow_or_a_clear_error() -> None:
    folder = os.environ.get("LEAT_DATA")
    if not folder:
        pytest.skip("LEAT_DATA names no folder with real data")
    opened = 0
    for path in sorted(Path(folder).glob("formats/parquet/data/*.parquet")):
        try:
            ds = leat.open(path)
            want = pq.ParquetFile(path)
            about = want.metadata
            if sum(about.row_group(g).total_byte_size for g in range(about.num_row_groups)) > 1 << 22:
                continue  # one unpacks to two gigabytes
            want = want.read().slice(0, 3).to_pylist()
        except (leat.Error, pa.ArrowException, ValueError, OSError, OverflowError):
            continue
        for i in range(min(len(ds), 3)):
            try:
                sample = ds[i]
            except leat.BrokenSampleError as e:
                assert ".parquet row group" in str(e), (path, e)
                continue
            for name, found in sample.items():
                there = want[i].get(name)
                if isinstance(found, (int, str, bytes)) and type(there) is type(found):
                    assert found == there, (path, name, i)
        opened += 1
    assert opened > 20


@pytest.mark.parametrize("way", ["file", "stream", "feather", "compressed"])
def test_files_of_arrow_are_read_by_record_batch(tmp_path: Path, way: str) -> None:
    import pyarrow.feather

    table = pa.table(
        {"text": [f"text {i}" for i in range(50)], "n": list(range(50)), "list": [[i] * 3 for i in range(50)]}
    )
    path = tmp_path / ("t.feather" if way == "feather" else "t.arrow")
    if way == "feather":
        pyarrow.feather.write_feather(table, path, chunksize=7)
    else:
        options = pa.ipc.IpcWriteOptions(compression="zstd" if way == "compressed" else None)
        new = pa.ipc.new_stream if way == "stream" else pa.ipc.new_file
        with new(path, table.schema, options=options) as writer:
            writer.write_table(table, max_chunksize=7)
    ds = leat.open(path)
    assert [one["text"] for one in ds] == table["text"].to_pylist()
    assert ds[13]["list"].tolist() == [13, 13, 13] and ds.column("n").tolist() == list(range(50))
    assert pickle.loads(pickle.dumps(ds))[49]["n"] == 49
    assert list(leat.open(path, fields=["n"]).schema) == ["n"]
    assert len(leat.open([path, path])) == 100


def test_a_file_that_is_no_arrow_is_named(tmp_path: Path) -> None:
    (tmp_path / "t.arrow").write_bytes(b"ARROW1\0\0nonsense" * 4)
    with pytest.raises(leat.FormatError, match="t.arrow is no file of Arrow that can be read"):
        leat.open(tmp_path / "t.arrow")
    (tmp_path / "u.arrow").write_bytes(b"")
    with pytest.raises(leat.FormatError, match="u.arrow is no file of Arrow"):
        leat.open(tmp_path / "u.arrow")


def test_a_file_of_arrow_that_changed_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "t.arrow"
    for rows in (5, 6):
        with pa.ipc.new_file(path, pa.schema({"n": pa.int64()})) as writer:
            writer.write_table(pa.table({"n": list(range(rows))}))
        if rows == 5:
            ds = leat.open(path)
    with pytest.raises(leat.ChangedError, match=r"t\.arrow was changed after it was opened"):
        ds[0]


@pytest.mark.parametrize("name", ["t.parquet", "t.arrow"])
@pytest.mark.parametrize("on_error", ["raise", "skip", "substitute"])
def test_a_file_that_is_gone_is_an_error_that_no_loader_passes_over(name: str, on_error: str, tmp_path: Path) -> None:
    table = pa.table({"n": list(range(10))})
    paths = [tmp_path / f"{k}{name}" for k in range(2)]
    for path in paths:
        if name.endswith("parquet"):
            pq.write_table(table, path)
        else:
            with pa.ipc.new_file(path, table.schema) as writer:
                writer.write_table(table)
    ds = leat.open([str(p) for p in paths], fields=["n"])
    loader = leat.Loader(ds, batch_size=5, epochs=1, on_error=on_error, framework="numpy")
    paths[1].unlink()
    with pytest.raises(leat.ChangedError, match=rf"1{name} was removed after it was opened"):
        ds[15]
    with pytest.raises(leat.ChangedError, match=rf"1{name} was removed after it was opened"):
        list(loader)


def test_handing_out_values_of_parquet_makes_no_words_for_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What errors say of a place is made when there is one; numbers are taken together."""
    from leat.data.arrow import Chunk

    rng = np.random.default_rng(0)
    table = pa.table(
        {
            "n": rng.integers(0, 99, 600),
            "t": [f"\u00e9{i}" for i in range(600)],
            "b": [bytes([i % 256]) * (i % 5) for i in range(600)],
            "list": [list(range(i % 4)) for i in range(600)],
            "pair": pa.array([[i, i + 1] for i in range(600)], pa.list_(pa.int32(), 2)),
            "some": pa.array([None if i % 7 == 3 else i for i in range(600)], pa.int16()),
        }
    )
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=100)
    source, said = leat.open(tmp_path / "a.parquet")._recipe[1], []
    where = Chunk.where.fget  # type: ignore[attr-defined]
    monkeypatch.setattr(Chunk, "where", property(lambda self: said.append(self) or where(self)))
    for at in (np.arange(40, 60), rng.permutation(600), rng.integers(0, 600, 50), np.array([599])):
        found = source.read_fields(at, table.column_names, True)
        want = table.take(at).to_pydict()
        assert isinstance(found["n"], np.ndarray) and isinstance(found["pair"], np.ndarray)
        for name, values in want.items():
            got = [v.tolist() if hasattr(v, "tolist") and not isinstance(v, memoryview) else v for v in found[name]]
            assert [bytes(v) if name == "b" else v for v in got] == values, name
    assert not said
    with pytest.raises(leat.InvalidError, match="row group 1, row 1: column 'some' has no value"):
        source.read_fields(np.array([5, 101, 9]), ["some"])
    assert said


def test_values_of_several_batches_are_those_of_one() -> None:
    from leat.data.arrow import _join
    from leat.data.arrow_values import Each

    class Doubled(Each):
        def __init__(self, n: int) -> None:
            self.n = n

        def __len__(self) -> int:
            return self.n

        def __getitem__(self, i: int) -> int:
            return 2 * i

    text = leat.Ragged(np.frombuffer(b"xabcd", np.uint8), np.array([1, 3, 3, 5]))
    values, nulls = _join([(text, None), (text[:0], None), (text, np.array([True, False, False]))])
    assert [bytes(v) for v in values] == [b"ab", b"", b"cd"] * 2 and nulls.tolist() == [False] * 3 + [True] + [
        False
    ] * 2
    values, nulls = _join([(np.arange(3), None), (np.arange(2), None)])
    assert values.tolist() == [0, 1, 2, 0, 1] and nulls is None
    values, _ = _join([(Doubled(2), None), (np.arange(0), None), (Doubled(3), None)])
    assert [values[i] for i in range(len(values))] == [0, 2, 0, 2, 4]


def test_options_for_other_files_may_stand_beside_a_table(tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": [1, 2]}), tmp_path / "a.parquet")
    (tmp_path / "a.jsonl").write_text('{"x": 3}\n{"x"\n')
    both = {name: str(tmp_path / f"a.{name}") for name in ("parquet", "jsonl")}
    with pytest.warns(UserWarning, match="left out"):
        assert leat.open(list(both.values()), on_bad="skip")[2]["x"] == 3
    with pytest.raises(ValueError, match="on_bad does nothing there"):
        leat.open({"a": both["parquet"], "b": both["parquet"]}, on_bad="skip")
    with pytest.raises(ValueError, match="labels does nothing there"):
        leat.open(both["parquet"], labels="folders")
