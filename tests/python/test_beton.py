"""Files of FFCV in place: made byte by byte, and lying ones. What its writer wrote: test_files_of_others.py."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import time
from pathlib import Path
from typing import Any

import numpy as np
import pack_support
import pytest
from beton_made import BYTES, FLOAT, INT, JSON, NDARRAY, RGB, TENSOR, Made, array_arguments
from http_support import Server
from PIL import Image

import leat


def write(path: Path, data: bytes | bytearray) -> Path:
    path.write_bytes(data)
    return path


def jpeg(size: tuple[int, int], color: tuple[int, int, int], folder: Path) -> bytes:
    Image.new("RGB", size, color).save(folder / "x.jpg")
    return (folder / "x.jpg").read_bytes()


PIXELS = np.arange(5 * 4 * 3, dtype=np.uint8).reshape(5, 4, 3)
ROW = np.arange(6, dtype="<f4").reshape(2, 3)


def everything(folder: Path) -> Made:
    row, t = array_arguments("<f4", (2, 3)), array_arguments("<i2", (2,))
    fields = [("photo", RGB, b""), ("label", INT, b""), ("raw", BYTES, b""), ("row", NDARRAY, row),
              ("meta", JSON, b""), ("x", FLOAT, b""), ("t", TENSOR, t)]  # fmt: skip
    rows = []
    for i in range(6):
        photo = jpeg((8 + i, 6), (i * 40, 0, 0), folder)
        rows.append([(0, 8 + i, 6, photo) if i % 2 else (1, 4, 5, (PIXELS + i).tobytes()), -i, b"%d" % i * (i % 3),
                     (ROW + i).tobytes(), json.dumps({"i": i}).encode() + b"\0", i / 2,
                     np.array([i, -i], "<i2").tobytes()])  # fmt: skip
    return Made(fields, rows)


def test_every_kind_of_field_is_read(tmp_path: Path) -> None:
    made = everything(tmp_path)
    for name in ("a.beton", "no.suffix"):
        ds = leat.open(write(tmp_path / name, made.bytes))
        assert list(ds.schema) == ["photo", "label", "raw", "row", "meta", "x", "t"]
        assert ds.column("label").tolist() == [0, -1, -2, -3, -4, -5] and ds.column("x").tolist()[3] == 1.5
        for i, sample in enumerate(ds):
            assert sample["raw"] == b"%d" % i * (i % 3) and sample["meta"] == {"i": i}
            assert np.array_equal(sample["row"], ROW + i) and sample["t"].tolist() == [i, -i]
            if i % 2:
                assert sample["photo"] == jpeg((8 + i, 6), (i * 40, 0, 0), tmp_path)
            else:
                assert np.array_equal(sample["photo"], PIXELS + i)
    loader = leat.Loader(ds, 3, outputs={"photo": [leat.ops.Decode(), leat.ops.Resize((4, 4))], "row": []},
                         framework="numpy", epochs=1)  # fmt: skip
    assert np.concatenate([np.asarray(b["row"]) for b in loader])[5].tolist() == (ROW + 5).tolist()
    exact = leat.Loader(ds.select([0, 2, 4]), 3, outputs={"photo": [leat.ops.Decode(), leat.ops.CenterCrop((5, 4))]},
                        framework="numpy", epochs=1)  # fmt: skip
    assert np.array_equal(np.asarray(next(iter(exact))["photo"])[1].transpose(1, 2, 0), PIXELS + 2)


def test_fields_choose_and_say_what_bytes_are(tmp_path: Path) -> None:
    fields = [("a", BYTES, b""), ("b", BYTES, b""), ("c", INT, b""), ("d", NDARRAY, array_arguments("<f8", (1,)))]
    rows = [[np.arange(i + 1, dtype="<i4").tobytes(), "ü".encode(), i, struct.pack("<d", i)] for i in range(9)]
    path = write(tmp_path / "a.beton", Made(fields, rows).bytes)
    assert leat.open(path, fields=["c", "a"])[2] == {"c": 2, "a": np.arange(3, dtype="<i4").tobytes()}
    ds = leat.open(path, fields={"a": leat.field("int32", (None,)), "b": "str", "c": "int64", "d": "bytes"})
    assert [s["a"].tolist() for s in ds] == [list(range(i + 1)) for i in range(9)]
    assert ds[1]["b"] == "ü" and ds[1]["c"] == 1 and ds[1]["d"] == struct.pack("<d", 1)
    pack_support.check_pack(leat.open(path, fields={"a": leat.field("int32", (None,)), "c": None}), str(path), tmp_path,
                         "--field", "a=int32:*", "--field", "c")  # fmt: skip
    other: Any = {"d": leat.field("float64", (2,))}
    for said, why in (({"c": "float32"}, "int64"), (other, r"float64 \(1,\)"), (["e"], '"e"')):
        with pytest.raises(ValueError, match=why):
            leat.open(path, fields=said)
    with pytest.raises(leat.Error, match=r"a\.beton.*neither") as caught:
        leat.open(path, fields={"b": leat.field("int32", (None,))})[0]
    assert "byte" in str(caught.value)


def test_a_class_of_the_users_own_is_read_as_what_fields_says(tmp_path: Path) -> None:
    photo = (1, 1, 1, b"abc")
    kinds: dict[str, tuple[int, Any, Any]] = {
        "image": (RGB, photo, None), "int64": (INT, 7, 7), "float64": (FLOAT, 2.5, 2.5), "bytes": (BYTES, b"xy", b"xy"),
        "json": (JSON, b"[]\0", []),
    }  # fmt: skip
    for said, (kind, value, want) in kinds.items():
        made = Made([("own", kind, b""), ("label", INT, b"")], [[value, i] for i in range(3)])
        path = write(tmp_path / f"{said}.beton", made.put(24, "B", 255))
        with pytest.raises(leat.FormatError, match=r'"own" is of a class of its own.*RGBImageField'):
            leat.open(path, fields=["label"])
        sample = leat.open(path, fields={"own": said, "label": None})[2]
        assert sample["label"] == 2
        if want is None:
            assert sample["own"].tobytes() == b"abc"
        else:
            assert sample["own"] == want
        with pytest.raises(leat.FormatError, match="class of its own"):
            leat.open(path, fields={"own": leat.field("float32", (3,)), "label": None})
        if said == "image":
            with pytest.raises(leat.CorruptError, match="byte"):  # whatever index is kept
                leat.open(path, fields={"own": "json", "label": None})


def test_columns_are_found_as_numpy_aligns_them(tmp_path: Path) -> None:
    photo = (1, 1, 1, b"abc")
    values: dict[int, Any] = {RGB: photo, INT: 7, BYTES: b"xy", FLOAT: 2.5, JSON: b"[]\0"}
    kinds = ([RGB, INT], 24), ([RGB], 13), ([RGB, BYTES], 29), ([BYTES, FLOAT], 24), ([INT, RGB, JSON], 40)
    for fields, row in kinds:
        made = Made([(f"f{k}", kind, b"") for k, kind in enumerate(fields)], [[values[k] for k in fields]] * 3)
        assert made.row == row
        sample = leat.open(write(tmp_path / f"{row}-{len(fields)}.beton", made.bytes))[2]
        want = {INT: 7, BYTES: b"xy", FLOAT: 2.5, JSON: []}
        for k, kind in enumerate(fields):
            if kind != RGB:
                assert sample[f"f{k}"] == want[kind]
            else:
                assert sample[f"f{k}"].tobytes() == b"abc"


def test_opening_over_http_asks_for_many_values_at_a_time(tmp_path: Path) -> None:
    made = Made([("raw", BYTES, b"")], [[b"%d" % i * 9] for i in range(200)])
    with Server({"a.beton": bytes(made.bytes)}) as server:
        ds = leat.open(server.url("a.beton"))
        assert server.requests < 30
        assert ds.fingerprint == leat.open(write(tmp_path / "a.beton", made.bytes)).fingerprint
        assert ds[99]["raw"] == b"99" * 9


def test_a_file_without_samples_or_values_is_one(tmp_path: Path) -> None:
    assert len(leat.open(write(tmp_path / "a.beton", Made([("a", INT, b"")], []).bytes))) == 0
    path = write(tmp_path / "b.beton", Made([("a", INT, b"")], [[3], [4]]).bytes)
    assert leat.open(path).column("a").tolist() == [3, 4] and not Path(f"{path}.leat-index").exists()


def test_arrays_that_leat_does_not_read_are_left_out_by_name(tmp_path: Path) -> None:
    records = '[["a", "<f4"], ["b", "<i8"]]', "fields of its own"
    big, complex_ = ('[["", ">f4"]]', "big-endian"), ('[["", "<c8"]]', "none of leat's")
    for descr, why in (('[["", "|O"]]', "pickles"), records, big, complex_, ("{}", "no list")):
        made = Made([("a", INT, b""), ("v", NDARRAY, array_arguments(descr, (1,)))], [[5, b"12345678"]])
        path = write(tmp_path / "a.beton", made.bytes)
        with pytest.raises(leat.Error, match=f'"v".*{why}.*fields='):
            leat.open(path)
        assert leat.open(path, fields=["a"])[0] == {"a": 5}


def test_names_that_are_equal_are_an_error(tmp_path: Path) -> None:
    path = write(tmp_path / "a.beton", Made([("x" * 16, INT, b"")] * 2 + [("y z", INT, b"")], [[1, 2, 3]]).bytes)
    with pytest.raises(ValueError, match="cuts names to 16 bytes"):
        leat.open(path)
    assert leat.open(path, fields=["y_z"])[0] == {"y_z": 3}


# ---- the index -----------------------------------------------------------------------------------


def test_bytes_that_change_are_noticed_when_they_are_read(tmp_path: Path) -> None:
    made = everything(tmp_path)
    path = write(tmp_path / "a.beton", made.bytes)
    ds = leat.open(path)
    kept = Path(f"{path}.leat-index")
    first, when = kept.read_bytes(), path.stat().st_mtime_ns
    with path.open("r+b") as file:  # in place, and the time as it was
        for sample in (2, 4):
            file.seek(struct.unpack_from("<Q", made.bytes, made.at(sample, 3))[0])
            file.write(b"x")
    os.utime(path, ns=(when, when))
    assert kept.read_bytes() == first
    assert leat.open(path).fingerprint == ds.fingerprint  # of the index
    with pytest.raises(leat.Error, match="checksum"):
        leat.open(path)[4]
    done = subprocess.run([os.environ["LEAT_CLI"], "verify", path], capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "index was made" in done.stdout
    (tmp_path / "other.beton").write_bytes(path.read_bytes())
    for said in ("every file was read; there are no checksums", "whole"):  # without an index, and with one
        verify = [os.environ["LEAT_CLI"], "verify", tmp_path / "other.beton"]
        assert f": {said}" in subprocess.run(verify, capture_output=True, text=True, check=True).stdout
    assert "sample 2" in done.stdout and "sample 4" in done.stdout and "2 faults found" in done.stdout
    os.utime(path, ns=(0, time.time_ns() + 10**9))
    with pytest.raises(leat.Error, match="changed"):
        ds[1]
    again = leat.open(path)
    assert again.fingerprint != ds.fingerprint and again[4]["row"].tobytes()[:1] == b"x"
    kept.write_bytes(first[:-9] + b"damaged!!")
    assert leat.open(path).fingerprint == again.fingerprint
    leat.open(path, index_dir=tmp_path / "kept")
    assert [p.name.split("-")[0] for p in (tmp_path / "kept").iterdir() if "leat-index" in p.name] == ["a.beton"]


# ---- files that lie ------------------------------------------------------------------------------


def good() -> Made:
    fields = [("p", RGB, b""), ("b", BYTES, b""), ("j", JSON, b""), ("v", NDARRAY, array_arguments("<f4", (4,)))]
    return Made(fields, [[(1, 2, 2, b"a" * 12), b"bytes", b"{}\0", bytes(16)] for _ in range(3)])


MADE = good()
BIG = (1 << 62) + 5
LYING = {
    "another version": (MADE.put(0, "H", 3), "version 2"),
    "a file that is not finished": (MADE.put(16, "Q", 0), "not finished"),
    "no fields": (MADE.put(2, "H", 0), "byte 2"),
    "too many fields": (MADE.put(2, "H", 60000), "byte 2"),
    "a page that is no power of two": (MADE.put(4, "I", 3 << 20), "byte 4"),
    "a page of 0": (MADE.put(4, "I", 0), "byte 4"),
    "more samples than rows": (MADE.put(8, "Q", 1 << 40), "byte 8"),
    "samples that overflow": (MADE.put(8, "Q", (1 << 64) - 1), "byte 8"),
    "a table beyond the file": (MADE.put(16, "Q", BIG), "byte 16"),
    "a table that is cut": (bytes(MADE.bytes[:-7]), "byte 16"),
    "a table before the rows": (MADE.put(16, "Q", len(MADE.bytes) % 24 + 24), "byte 8"),
    "a type that nobody knows": (MADE.put(24, "B", 9), "byte 24"),
    "a class of its own": (MADE.put(24, "B", 255), "class of its own"),
    "pixels beyond the file": (MADE.put(MADE.at(1, 0) + 5, "Q", BIG), "byte"),
    "pixels among the rows": (MADE.put(MADE.at(1, 0) + 5, "Q", 24), "byte"),
    "pixels of 12 GB": (MADE.put(MADE.at(1, 0) + 1, "HH", 65535, 65535), "byte"),
    "a photo without pixels": (MADE.put(MADE.at(1, 0) + 1, "HH", 0, 5), "without bytes"),
    "a mode that nobody knows": (MADE.put(MADE.at(1, 0), "B", 2), "mode"),
    "a JPEG that the table lacks": (MADE.put(MADE.at(1, 0), "BHHQ", 0, 2, 2, MADE.values + 1), "without bytes"),
    "bytes beyond the file": (MADE.put(MADE.at(1, 1) + 8, "Q", BIG), "byte"),
    "bytes that end beyond 2^64": (MADE.put(MADE.at(1, 1), "QQ", (1 << 64) - 3, 9), "byte"),
    "a JSON without an end": (MADE.put(MADE.at(1, 2) + 8, "Q", 2), "zero byte"),
    "a JSON of no bytes": (MADE.put(MADE.at(1, 2) + 8, "Q", 0), "without an end"),
    "an array beyond the file": (MADE.put(MADE.at(1, 3), "Q", MADE.table - 3), "byte"),
    "an array larger than a page": (MADE.put(24 + 3 * 1041 + 17, "QQ", 1 << 40, 1 << 40), "shape"),
    "a dtype longer than its place": (MADE.put(24 + 3 * 1041 + 17 + 256, "Q", 5000), "dtype"),
    "more values in the table than samples": (bytes(MADE.bytes) + bytes(MADE.bytes[-24:]), "table"),
    "a table beyond the values": (MADE.put(MADE.table + 8, "Q", BIG), "table"),
    "a table of sizes that lie": (MADE.put(MADE.table + 16, "Q", BIG), "table"),
    "a table that overlaps behind an empty value": (
        MADE.put(MADE.table + 16, "QQQQ", 18, 0, MADE.values + 12, 0), "overlap"
    ),
    "a table that overlaps": (MADE.put(MADE.table + 16, "Q", 4096), "overlap"),
}  # fmt: skip


@pytest.mark.parametrize("what", LYING)
def test_a_file_that_lies_is_an_error_of_it(what: str, tmp_path: Path) -> None:
    data, why = LYING[what]
    with pytest.raises(leat.Error, match=r"lies\.beton") as caught:
        leat.open(write(tmp_path / "lies.beton", data))
    assert why in str(caught.value)


def test_values_that_overlap_end_before_they_are_read(tmp_path: Path) -> None:
    made = Made([("b", BYTES, b"")], [[b"x" * 1000]] * 3000)
    data = bytearray(made.bytes)
    for i in range(3000):  # of each the same 2 MB: 6 GB to read
        struct.pack_into("<QQ", data, made.at(i, 0), made.values, made.table - made.values - 1)
    with pytest.raises(leat.Error, match=r"a\.beton.*overlap"):
        leat.open(write(tmp_path / "a.beton", data))


@pytest.mark.parametrize("keep", [0, 1, 23, 24, 500, 24 + 1041 * 4, MADE.rows + 50, 1 << 21, (1 << 21) + 40, -25, -1])
def test_a_cut_file_is_an_error(keep: int, tmp_path: Path) -> None:
    with pytest.raises(leat.Error, match=r"a\.beton"):
        leat.open(write(tmp_path / "a.beton", MADE.bytes[:keep]))


def test_noise_is_refused_or_read(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    spots = [*range(24), *range(24, 24 + 40), *range(MADE.rows, MADE.rows + 3 * MADE.row),
             *range(MADE.table, len(MADE.bytes))]  # fmt: skip
    for _ in range(150):
        data = bytearray(MADE.bytes)
        for at in rng.choice(spots, 2):
            data[at] = int(rng.integers(256))
        path = write(tmp_path / "a.beton", data)
        try:
            for sample in leat.open(path, format="beton"):
                assert sample
        except (leat.Error, ValueError) as e:
            assert "beton" in str(e) or "sample" in str(e)


# ---- packs of pixels -----------------------------------------------------------------------------


def pack(*words: Any) -> subprocess.CompletedProcess[str]:
    command = [os.environ["LEAT_CLI"], "pack", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_a_pack_of_pixels_is_packed_again_in_any_form(tmp_path: Path) -> None:
    path = write(tmp_path / "a.beton", everything(tmp_path).bytes)
    ds = leat.open(path)
    assert pack(path, tmp_path / "own.leat").returncode == 0
    for n, words in enumerate((["--photos", "fast"], [], ["--photos", "raw"], ["--no-check"])):
        done = pack(tmp_path / "own.leat", tmp_path / f"{n}.leat", *words)
        assert done.returncode == 0, done.stderr
        again = leat.open(tmp_path / f"{n}.leat")
        assert again.fingerprint == ds.fingerprint
        assert np.array_equal(again[2]["photo"], PIXELS + 2)
        if "raw" not in words:
            assert again[3]["photo"] == ds[3]["photo"]
    done = pack(tmp_path / "2.leat", tmp_path / "no.leat")  # it has no JPEGs any more
    assert done.returncode
    assert "--photos raw" in done.stderr
    done = pack(path, tmp_path / "small.leat", "--max-side", 3)
    assert done.returncode == 0, done.stderr
    assert np.array_equal(leat.open(tmp_path / "small.leat")[2]["photo"], PIXELS + 2)


def test_a_writer_takes_pixels_where_the_schema_says_that_they_are_some(tmp_path: Path) -> None:
    ds = leat.open(write(tmp_path / "a.beton", everything(tmp_path).bytes))
    assert ds.schema["photo"].pixels
    assert ds.schema["photo"] == leat.Field("image", "uint8")
    with leat.Writer(tmp_path / "a.leat", ds.schema) as writer:
        for sample in ds:
            writer.add(**sample)
    with leat.Writer(tmp_path / "b.leat", ds.schema) as writer:
        writer.write_dataset(ds)
    for name in ("a.leat", "b.leat"):
        own = leat.open(tmp_path / name)
        assert own.fingerprint == ds.fingerprint
        assert np.array_equal(own[4]["photo"], PIXELS + 4)
    assert own.stored(4, "photo") == ds.stored(4, "photo")
    with (
        leat.Writer(tmp_path / "c.leat", {"photo": "image"}) as writer,
        pytest.raises(TypeError, match="not pixels"),
    ):
        writer.add(photo=PIXELS)
