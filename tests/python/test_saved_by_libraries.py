"""Folders of `save_to_disk`, Lance and ArrayRecord, and what fields= says of arrays of HDF5 and Zarr."""

from __future__ import annotations

import json
import pickle
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import leat

pa = pytest.importorskip("pyarrow")

FEATURES = {"label": {"names": ["cat", "dog"], "_type": "ClassLabel"}, "text": {"dtype": "string", "_type": "Value"}}


def save(folder: Path, texts: list[str], state: dict[str, Any] | None = None) -> Path:
    """As `save_to_disk` writes it: two streams of Arrow and their state."""
    folder.mkdir(parents=True)
    schema = pa.schema([("label", pa.int64()), ("text", pa.string())])
    schema = schema.with_metadata({"huggingface": json.dumps({"info": {"features": FEATURES}})})
    files = []
    for i in range(2):
        part = texts[i * len(texts) // 2 : (i + 1) * len(texts) // 2]
        table = pa.table({"label": pa.array([len(t) % 2 for t in part], pa.int64()), "text": part}, schema=schema)
        files.append(f"data-0000{i}-of-00002.arrow")
        with pa.ipc.new_stream(folder / files[-1], schema) as out:
            out.write_table(table)
    found = {"_data_files": [{"filename": f} for f in files], "_split": None} | (state or {})
    (folder / "state.json").write_text(json.dumps(found))
    return folder


def test_a_saved_folder_has_its_files_in_order_and_its_classes(tmp_path: Path) -> None:
    texts = [f"{i}" * (i + 1) for i in range(9)]
    ds = leat.open(save(tmp_path / "a", texts))
    assert [s["text"] for s in ds] == texts and ds.classes == ["cat", "dog"]
    assert leat.open(tmp_path / "a", format="hf").fingerprint == ds.fingerprint
    assert pickle.loads(pickle.dumps(ds))[8]["text"] == texts[8]
    assert list(leat.open(tmp_path / "a", fields=["text"]).schema) == ["text"]
    assert leat.open(tmp_path / "a", fields={"text": "bytes"})[1]["text"] == b"11"
    with pytest.raises(ValueError, match="without splits"):
        leat.open(tmp_path / "a", split="train")


def test_a_split_is_chosen_by_its_name(tmp_path: Path) -> None:
    for name in ("train", "test"):
        save(tmp_path / "d" / name, [name] * 4)
    (tmp_path / "d" / "dataset_dict.json").write_text(json.dumps({"splits": ["train", "test"]}))
    assert leat.open(tmp_path / "d", split="test")[3]["text"] == "test"
    with pytest.raises(ValueError, match="'train', 'test'.*choose one"):
        leat.open(tmp_path / "d")
    with pytest.raises(ValueError, match="no 'valid'"):
        leat.open(tmp_path / "d", split="valid")
    with pytest.raises(ValueError, match="split is for"):
        leat.open(tmp_path / "d" / "train" / "data-00000-of-00002.arrow", split="train")


LIES: dict[str, dict[str, Any]] = {
    "a path upwards": {"_data_files": [{"filename": "../a.arrow"}]},
    "an absolute path": {"_data_files": [{"filename": "/etc/passwd"}]},
    "no file": {"_data_files": []},
    "no name": {"_data_files": [3]},
    "a file that is not there": {"_data_files": [{"filename": "b.arrow"}]},
    "a selection": {"_indices_files": [{"filename": "i.arrow"}]},
}


@pytest.mark.parametrize("what", LIES)
def test_a_folder_that_lies_is_an_error_of_its_file(what: str, tmp_path: Path) -> None:
    save(tmp_path / "lies", ["a", "b"], LIES[what])
    with pytest.raises((leat.Error, OSError), match="lies"):
        leat.open(tmp_path / "lies")


def test_splits_and_states_that_are_no_json_are_errors(tmp_path: Path) -> None:
    save(tmp_path / "lies", ["a", "b"])
    (tmp_path / "lies" / "data-00001-of-00002.arrow").write_bytes(b"\xff" * 300)
    with pytest.raises(leat.Error, match="data-00001"):
        leat.open(tmp_path / "lies")
    for text in ("{", "[" * 100_000, "3", '{"splits": "train"}', '{"splits": ["../lies"]}'):
        (tmp_path / "lies" / "dataset_dict.json").write_text(text)
        with pytest.raises(leat.Error, match="dataset_dict"):
            leat.open(tmp_path / "lies", split="../lies")
    with pytest.raises(leat.Error, match="state"):
        leat.open(tmp_path, format="hf")


def test_lance_is_read_from_anywhere(tmp_path: Path) -> None:
    lance = pytest.importorskip("lance")
    table = pa.table({"x": np.arange(10_000), "t": [f"t{i}" for i in range(10_000)]})
    lance.write_dataset(table, tmp_path / "a.lance", max_rows_per_file=3000)
    ds = leat.open(tmp_path / "a.lance")
    assert len(ds) == 10_000 and ds[9_999] == {"x": 9_999, "t": "t9999"} and ds[0]["x"] == 0
    again = pickle.loads(pickle.dumps(ds))
    assert again.fingerprint == ds.fingerprint and again[4_100]["t"] == "t4100"
    assert list(leat.open(tmp_path / "a.lance", fields=["t"]).schema) == ["t"]
    lance.write_dataset(table.slice(0, 5), tmp_path / "a.lance", mode="append")
    assert ds[9_999]["x"] == 9_999 and len(leat.open(tmp_path / "a.lance")) == 10_005
    (tmp_path / "no.lance").mkdir()
    with pytest.raises(leat.Error, match=r"no\.lance"):
        leat.open(tmp_path / "no.lance")


def test_records_of_array_record_are_bytes_or_what_is_said(tmp_path: Path) -> None:
    module = pytest.importorskip("array_record.python.array_record_module")
    path = tmp_path / "a.array_record"
    writer = module.ArrayRecordWriter(str(path), "group_size:4")
    for i in range(50):
        writer.write(json.dumps({"i": i}).encode())
    writer.close()
    ds = leat.open(path)
    assert len(ds) == 50 and ds[49]["record"] == b'{"i": 49}'
    assert leat.open(path, fields={"record": "json"})[7]["record"] == {"i": 7}
    assert leat.open(path, fields={"record": "str"})[7]["record"] == '{"i": 7}'
    assert pickle.loads(pickle.dumps(ds)).fingerprint == ds.fingerprint
    assert len(leat.open([path, path])) == 100
    for fields in (["x"], {"record": "int64"}):
        with pytest.raises((KeyError, ValueError), match="record"):
            leat.open(path, fields=fields)
    bad = tmp_path / "bad.array_record"
    bad.write_bytes(path.read_bytes()[:100])
    with pytest.raises((leat.Error, OSError), match="bad"):
        leat.open(bad)


@pytest.mark.parametrize(("end", "package"), [("lance", "lance"), ("array_record", "array_record")])
def test_a_library_that_is_not_there_is_named(
    end: str, package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / f"a.{end}"
    if end == "lance":
        path.mkdir()
    else:
        path.write_bytes(b"x")
    for name in [n for n in sys.modules if n.partition(".")[0] == package]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ImportError, match=f"pip install {'pylance' if end == 'lance' else package}"):
        leat.open(path)


def test_fields_say_what_arrays_of_hdf5_are(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["x"] = np.arange(12, dtype="f4").reshape(4, 3)
        file["g/y"] = np.arange(4)
        file["few"] = np.arange(2)
        lists = file.create_dataset("r", (4,), h5py.vlen_dtype(np.int16))
        for i in range(4):
            lists[i] = np.arange(i)
    with pytest.raises(leat.Error, match="several lengths.*fields="):
        leat.open(tmp_path / "a.h5")
    said = {"g_y": None, "r": leat.field("int16", (None,)), "x": leat.field("float32", (3,))}
    ds = leat.open(tmp_path / "a.h5", fields=said)
    assert list(ds.schema) == ["g_y", "r", "x"] and ds[3]["r"].tolist() == [0, 1, 2] and ds[0]["r"].tolist() == []
    assert pickle.loads(pickle.dumps(ds)).fingerprint == ds.fingerprint
    with pytest.raises(leat.InvalidError, match=r"'x' that it is field\('float32', \(4,\)\), and it is"):
        leat.open(tmp_path / "a.h5", fields={"x": leat.field("float32", (4,))})
