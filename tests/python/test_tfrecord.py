"""TFRecord files in place: made byte by byte, and lying ones. What a writer wrote: test_files_of_others.py."""

from __future__ import annotations

import gzip
import os
import struct
import subprocess
import time
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pack_support
import pytest
from http_support import Server
from PIL import Image
from tfrecord_made import entry, example, feature, field, masked, record, records, varint

import leat


def write(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def photo(folder: Path, color: int) -> bytes:
    Image.new("RGB", (9, 7), (color, 0, 0)).save(folder / "x.png")
    return (folder / "x.png").read_bytes()


def rows(folder: Path, n: int = 9) -> list[dict[str, Any]]:
    return [
        {
            "image": photo(folder, i), "label": i - 3, "weight": i / 2, "ids": list(range(i)), "vec": [1.5, float(i)],
            "text": "ü".encode() * i, "raw": bytes([255, i]),
        }
        for i in range(n)
    ]  # fmt: skip


def test_every_kind_of_feature_is_found(tmp_path: Path) -> None:
    made = rows(tmp_path)
    for packed in (True, False):
        ds = leat.open(write(tmp_path / f"{packed}.tfrecord", records(made, packed)))
        assert {n: pack_support.described(f) for n, f in ds.schema.items()} == {
            "image": "image", "label": "int64", "weight": "float32", "ids": "int64 (None,)", "vec": "float32 (2,)",
            "text": "str", "raw": "bytes",
        }  # fmt: skip
        for i, (got, want) in enumerate(zip(ds, made, strict=True)):
            assert got["image"] == want["image"] and got["label"] == i - 3 and got["weight"] == i / 2, i
            assert got["ids"].tolist() == want["ids"] and got["vec"].tolist() == want["vec"]
            assert got["text"] == "ü" * i and got["raw"] == want["raw"]
    pack_support.check_pack(ds, str(tmp_path / "False.tfrecord"), tmp_path)
    bare = leat.open(write(tmp_path / "bare", records(made)))  # by its bytes
    assert bare.fingerprint == ds.fingerprint
    assert leat.open(write(tmp_path / "bare.gz", gzip.compress(records(made)))).fingerprint == ds.fingerprint


def test_numbers_have_all_their_bits(tmp_path: Path) -> None:
    ints = [-1, -(1 << 63), (1 << 63) - 1, 0, 127, 128, 1 << 35]
    floats = [0.0, -0.0, 1e-45, float("inf"), -1.5]
    made = [{"i": i, "is": [i, *ints], "f": floats[k % 5], "fs": floats} for k, i in enumerate(ints)]
    for packed in (True, False):
        ds = leat.open(write(tmp_path / f"{packed}.tfrecord", records(made, packed)))
        assert ds.column("i").tolist() == ints
        assert all(s["is"].tolist() == [i, *ints] for s, i in zip(ds, ints, strict=True))
        assert ds[0]["fs"].tobytes() == np.array(floats, "f4").tobytes() == ds.column("f")[:5].tobytes()


def test_what_a_record_lacks_is_not_valid(tmp_path: Path) -> None:
    made: list[dict[str, Any]] = [
        {"a": 1, "f": 0.5, "t": b"x", "v": [1, 2, 3]}, {"t": b"y"}, {"v": [4, 5, 6], "a": 2, "f": None, "t": b""},
        {"new": 7, "t": b"z"},
    ]  # fmt: skip
    write(tmp_path / "more.tfrecord", records(made * 3))
    ds = leat.open(write(tmp_path / "a.tfrecord", records(made)))
    assert list(ds.schema) == ["a", "f", "t", "v", "new", "a.valid", "f.valid", "v.valid", "new.valid"]
    assert ds.column("a").tolist() == [1, 0, 2, 0] and ds.column("a.valid").tolist() == [True, False, True, False]
    assert np.isnan(ds.column("f")[1:]).all() and [s["t"] for s in ds] == ["x", "y", "", "z"]
    assert [s["v"].tolist() for s in ds] == [[1, 2, 3], [0, 0, 0], [4, 5, 6], [0, 0, 0]]
    assert ds[3]["new"] == 7 and [s["t"] for s in ds.where('"new.valid"')] == ["z"]
    more, names = tmp_path / "more.tfrecord", ["a", "t", "v"]
    words = [w for n in names for w in ("--field", n)]
    pack_support.check_pack(leat.open(more, fields=names), str(more), tmp_path, *words)


def test_an_empty_list_of_bytes_is_no_value(tmp_path: Path) -> None:
    none = entry("t", field(1, b"")) + entry("n", field(3, b"\x08\x05")) + entry("never", b"")
    path = write(tmp_path / "a.tfrecord", record(field(1, none)) + records([{"t": b"x", "n": 6, "gone": None}]))
    ds = leat.open(path)
    assert ds.schema["t"].kind == "str" and list(ds.schema) == ["t", "n", "t.valid"]
    assert [s["t"] for s in ds] == ["", "x"] and ds.column("t.valid").tolist() == [False, True]
    with pytest.raises(ValueError, match='"never" of .* is empty in each record'):
        leat.open(path, fields=["never"])


def test_shards_are_one_data_set_with_the_features_of_any(tmp_path: Path) -> None:
    write(tmp_path / "s-0.tfrecord", records([{"a": 1}, {"a": 2}]))
    write(tmp_path / "s-1.tfrecord", records([{"b": b"x", "a": 3}]))
    ds = leat.open([tmp_path / "s-0.tfrecord", tmp_path / "s-1.tfrecord"])
    assert ds.column("a").tolist() == [1, 2, 3] and [s["b"] for s in ds] == ["", "", "x"]
    assert leat.open(tmp_path / "s-{0..1}.tfrecord").fingerprint == ds.fingerprint


def test_fields_choose_and_say_what_bytes_are(tmp_path: Path) -> None:
    made = [{"a/b": b"%d" % i, "v": struct.pack("<3f", i, 1, 2), "j": b'{"i": 1}', "n": [i, 5]} for i in range(5)]
    path = write(tmp_path / "a.tfrecord", records(made))
    said = {"a_b": "int32", "v": leat.field("float32", (3,)), "j": "json", "n": leat.field("int64", (None,))}
    ds = leat.open(path, fields=said)
    assert (
        ds[2]["a_b"] == 2
        and ds[2]["v"].tolist() == [2, 1, 2]
        and ds[2]["j"] == {"i": 1}
        and ds[2]["n"].tolist() == [2, 5]
    )
    assert leat.open(path, fields=["n"])[3]["n"].tolist() == [3, 5]
    with pytest.raises(ValueError, match=r'"n" that it is str.*int64 \(2,\)'):
        leat.open(path, fields={"n": "str"})
    with pytest.raises(ValueError, match='"z"'):
        leat.open(path, fields=["z"])
    ds = leat.open(path, fields={"n": "int64"})
    with pytest.raises(leat.Error, match=r"another number of values") as caught:
        ds[1]
    assert "a.tfrecord" in str(caught.value) and "byte" in str(caught.value)


def test_features_whose_names_no_field_has_are_left_out_by_fields(tmp_path: Path) -> None:
    path = tmp_path / "a.tfrecord"
    path.write_bytes(records([{"a": 1, "x" * 70: 2, "b c": 3, "b/c": 4}]))
    with pytest.raises(leat.Error, match="longer than 63 bytes.*fields="):
        leat.open(path)
    assert leat.open(path, fields=["a"])[0] == {"a": 1}
    with pytest.raises(leat.Error, match='two fields of .*a.tfrecord have the name "b_c"'):
        leat.open(path, fields=["b_c"])


def test_opening_reads_no_list_that_its_pass_has_seen(tmp_path: Path) -> None:
    data = records([{"v": [i / 2] * 3, "n": [i], "r": [*range(i % 3)]} for i in range(200)])
    fields = {"v": None, "n": leat.field("int64", (1,)), "r": None}
    with Server({"a.tfrecord": data}) as server:
        ds = leat.open(server.url("a.tfrecord"), fields=fields)
        assert server.requests < 20
        with leat.Writer(tmp_path / "a.leat", dict(ds.schema)) as writer:
            for sample in ds:
                writer.add(**sample)
    assert leat.open(tmp_path / "a.leat").fingerprint == ds.fingerprint


def test_lists_of_texts_are_left_out_by_name(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tfrecord", records([{"a": 1, "tags": [b"x", b"y"]}]))
    with pytest.raises(leat.Error, match='"tags".*lists.*fields='):
        leat.open(path)
    assert leat.open(path, fields=["a"])[0] == {"a": 1}


def test_a_value_of_another_kind_breaks_its_sample_only(tmp_path: Path) -> None:
    made: list[dict[str, Any]] = [{"x": i, "t": b"t"} for i in range(6)]
    made[2]["x"], made[4]["x"] = 1.5, [1, 2]
    ds = leat.open(write(tmp_path / "a.tfrecord", records(made)), fields={"x": "int64"})
    loader = leat.Loader(ds, 6, outputs={"x": []}, on_error="skip", framework="numpy", epochs=1)
    assert [int(i) for batch in loader for i in batch.ids] == [0, 1, 3, 5]
    for i in (2, 4):
        with pytest.raises(leat.Error, match='"x"'):
            ds[i]


def test_odd_messages_are_read_as_protobuf_says(tmp_path: Path) -> None:
    twice = field(1, entry("a", feature(1)) + entry("b", feature(b"x")) + entry("a", feature(2)))
    parts = field(1, entry("a", feature(3))) + field(1, entry("b", feature(b"y")))
    unknown = varint(9 << 3) + varint(5) + varint(10 << 3 | 1) + bytes(8) + varint(11 << 3 | 5) + bytes(4)
    odd = unknown + field(1, unknown + entry("b", feature(b"z") + unknown) + entry("a", feature(4)) + entry("e", b""))
    mixed = field(1, entry("b", feature(b"w")) + entry("a", field(3, field(1, varint(5)) + field(1, b""))))
    ds = leat.open(write(tmp_path / "a.tfrecord", b"".join(map(record, (twice, parts, odd, mixed)))), fields=["a", "b"])
    assert [(s["a"], s["b"]) for s in ds] == [(2, "x"), (3, "y"), (4, "z"), (5, "w")]


# ---- the index -----------------------------------------------------------------------------------


@pytest.mark.usefixtures("no_file_stays_open")
def test_bytes_that_change_are_noticed_when_they_are_read(tmp_path: Path) -> None:
    made = rows(tmp_path)
    path = write(tmp_path / "a.tfrecord", records(made))
    ds = leat.open(path)
    data, when = path.read_bytes(), path.stat().st_mtime_ns
    for name, sign in (("raw", bytes([255, 5])), ("vec", struct.pack("<2f", 1.5, 5))):
        at = data.index(sign)
        write(path, data[: at + 1] + b"\x01" + data[at + 2 :])  # and the time as it was
        os.utime(path, ns=(when, when))
        one = ds.select([5])
        with pytest.raises(leat.Error, match=r"checksum|not those"):
            one.stored(0, name)
        assert ds[4][name] is not None
    verify = [os.environ["LEAT_CLI"], "verify", path]
    done = subprocess.run(verify, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done
    assert "checksum of its data" in done.stdout and "1 fault found" in done.stdout
    os.utime(path, ns=(0, time.time_ns() + 10**9))
    with pytest.raises(leat.Error, match="changed"):
        ds[1]
    with pytest.raises(leat.Error, match="checksum of its data is wrong"):
        leat.open(path)
    leat.open(write(path, data), index_dir=tmp_path / "kept")
    assert subprocess.run(verify, capture_output=True, check=False).returncode == 0
    assert [p.name.split("-")[0] for p in (tmp_path / "kept").iterdir() if "leat-index" in p.name] == ["a.tfrecord"]


def test_a_file_that_stays_open_is_looked_at_before_it_is_read(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tfrecord", records([{"x": b"one"}, {"x": b"two"}]))
    ds = leat.open(path, fields={"x": "str"})
    assert ds[0]["x"] == "one"
    data, when = path.read_bytes(), path.stat().st_mtime_ns
    write(path, data[:-1] + bytes([data[-1] ^ 1]))
    os.utime(path, ns=(when + 1, when + 1))
    with pytest.raises(leat.Error, match=r"a\.tfrecord was changed after it was opened"):
        ds.select([1]).stored(0, "x")


# ---- files that lie ------------------------------------------------------------------------------

GOOD = records([{"a": 1, "t": b"text"}])
LONG = struct.pack("<Q", 1 << 62)
LYING = {
    "a length of 2^62": (GOOD + LONG + masked(LONG), "beyond|longer"),
    "a length beyond the file": (GOOD + record(b"x" * 100)[:50], "beyond"),
    "a wrong checksum of a length": (GOOD + struct.pack("<QI", 5, 5) + bytes(9), "checksum of its length"),
    "a wrong checksum of data": (GOOD + GOOD[:-1] + bytes([GOOD[-1] ^ 1]), "checksum of its data"),
    "a header that is cut": (GOOD + GOOD[:7], "ends within"),
    "a footer that is cut": (GOOD + GOOD[:-2], "ends within|beyond"),
    "noise": (b"noise" * 9, "as records of TFRecord have"),
    "no record": (gzip.compress(b""), "no record"),
    "no features": (record(b"") * 3, "no features"),
    "no Example": (record(b"just some bytes"), "no tf.train.Example"),
    "a message beyond its parent": (record(b"\x0a\x7f" + bytes(5)), "no tf.train.Example"),
    "an entry beyond its parent": (record(field(1, b"\x0a\x7f" + bytes(5))), "features are damaged"),
    "a feature beyond its parent": (record(field(1, field(1, field(1, b"a") + b"\x12\x70"))), "no name"),
    "a list beyond its parent": (record(field(1, entry("a", b"\x1a\x70"))), "feature is damaged"),
    "packed numbers beyond their list": (record(field(1, entry("a", field(3, b"\x0a\x70\x01")))), "list is damaged"),
    "a number that does not end": (record(field(1, entry("a", field(3, field(1, b"\xff" * 4))))), "list is damaged"),
    "a number of eleven bytes": (record(field(1, entry("a", field(3, field(1, b"\xff" * 11))))), "list is damaged"),
    "floats of five bytes": (record(field(1, entry("a", field(2, field(1, bytes(5)))))), "list is damaged"),
    "floats among integers": (record(field(1, entry("a", field(3, b"\x0d" + bytes(4))))), "list is damaged"),
    "two lists in a feature": (record(field(1, entry("a", feature(1) + feature(b"x")))), "two lists"),
    "a feature without a name": (record(field(1, field(1, field(2, feature(1))))), "no name"),
    "an empty name": (record(field(1, entry("", feature(1)))), "name"),
    "a name with a NUL": (record(field(1, entry("a\0b", feature(1)))), "name"),
    "a name that is no UTF-8": (record(field(1, field(1, field(1, b"\xff") + field(2, feature(1))))), "name"),
    "a group": (record(field(1, entry("a", b"\x0b\x0c"))), "feature is damaged"),
    "too many features": (records([{f"f{i}": 1 for i in range(300)}]), "256"),
    "a SequenceExample": (record(example({"a": 1}) + field(2, b"")), "SequenceExample"),
    "ZLIB": (zlib.compress(GOOD), "ZLIB"),
}  # fmt: skip


@pytest.mark.parametrize("what", LYING)
def test_a_file_that_lies_is_an_error_of_it(what: str, tmp_path: Path) -> None:
    data, why = LYING[what]
    for end, made in ((".tfrecord", data), (".tfrecord.gz", gzip.compress(data))):
        if what in ("no record", "ZLIB", "a length beyond the file") and end == ".tfrecord.gz":
            continue
        with pytest.raises(leat.Error, match=rf"lies{end}.*({why})"):
            leat.open(write(tmp_path / f"lies{end}", made))


def test_a_long_record_ends_before_it_is_read(tmp_path: Path) -> None:
    length = struct.pack("<Q", (1 << 29) + 1)
    (tmp_path / "a.tfrecord").write_bytes(length + masked(length))
    os.truncate(tmp_path / "a.tfrecord", 1 << 30)
    with pytest.raises(leat.Error, match=r"a\.tfrecord, record 0 at byte 0: it is longer than the 512 MiB"):
        leat.open(tmp_path / "a.tfrecord")


def test_a_bomb_ends_in_bounded_memory(tmp_path: Path) -> None:
    length = struct.pack("<Q", 1 << 40)
    with pytest.raises(leat.Error, match=r"a\.tfrecord\.gz.*longer than the 512 MiB"):
        leat.open(write(tmp_path / "a.tfrecord.gz", gzip.compress(length + masked(length) + bytes(1 << 20))))


@pytest.mark.parametrize("cut", [1, 3, 4, 5, 20, 60])
def test_a_cut_file_is_an_error(cut: int, tmp_path: Path) -> None:
    data = records([{"a": i, "t": b"t" * 50} for i in range(3)])
    for end, made in ((".tfrecord", data[:-cut]), (".tfrecord.gz", gzip.compress(data)[:-cut])):
        with pytest.raises(leat.Error, match=f"a{end}"):
            leat.open(write(tmp_path / f"a{end}", made))


def test_noise_in_a_record_is_refused_or_read(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    data = example({"a": [1, 2], "t": b"text", "f": 1.5})
    for _ in range(300):
        noisy = bytearray(data)
        for at in rng.integers(len(data), size=2):
            noisy[at] = int(rng.integers(256))
        path = write(tmp_path / "a.tfrecord", record(data) + record(bytes(noisy)))
        try:
            for sample in leat.open(path):
                assert sample
        except (leat.Error, ValueError) as e:
            assert "a.tfrecord" in str(e) or "sample" in str(e)
