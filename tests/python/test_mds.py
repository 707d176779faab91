"""Shards of MosaicML Streaming in place: what they hold, beside values that its writer wrote; lying ones."""

from __future__ import annotations

import bz2
import contextlib
import copy
import functools
import gzip
import hashlib
import io
import json
import os
import shutil
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli_support import leat as shell
from items_made import headed, item, mds_shard, pil, stored_zstd, table, write_mds
from PIL import Image

import leat


@pytest.fixture(autouse=True)
def _quiet(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))


# ---- what shards hold ----------------------------------------------------------------------------


def one(folder: Path, encoding: str, bodies: list[bytes], size: int | None = None, **more: Any) -> Path:
    shard = mds_shard("shard.00000.mds", {"x": (encoding, size)}, [{"x": b} for b in bodies], **more)
    return write_mds(folder, [shard])


def test_scalars_and_arrays_are_of_their_types(tmp_path: Path) -> None:
    a = np.arange(24, dtype="<i2").reshape(2, 3, 4)
    for each in (1, 2, 4, 8):
        ds = leat.open(one(tmp_path / f"h{each}", "ndarray:int16", [headed(a, each=each), headed(a[:1])]))
        assert ds.schema["x"].shape == (None, 3, 4) and ds.schema["x"].dtype == "int16"
        assert np.array_equal(ds[0]["x"], a) and np.array_equal(ds[1]["x"], a[:1])
    ds = leat.open(one(tmp_path / "any", "ndarray", [headed(a, True), headed(a, True)]))
    assert ds.schema["x"].shape == (2, 3, 4) and np.array_equal(ds[1]["x"], a)
    ds = leat.open(one(tmp_path / "said", "ndarray:int16:4,6", [a.tobytes()], 48))
    assert np.array_equal(ds[0]["x"], a.reshape(4, 6))
    ds = leat.open(one(tmp_path / "int", "int", [struct.pack("<q", -5)], 8))
    assert ds.schema["x"].dtype == "int64" and ds[0]["x"] == -5
    ds = leat.open(one(tmp_path / "big", "str_int", [b"9" * 18, b"1" + b"0" * 19]))
    assert ds[0]["x"] == int("9" * 18)
    with pytest.raises(leat.Error, match="number in text"):
        ds[1]
    ds = leat.open(one(tmp_path / "float", "str_float", [b"-1e-3", b"nan", b"inf", b"-inf"]))
    assert str([float(s["x"]) for s in ds]) == "[-0.001, nan, inf, -inf]"


def test_an_array_of_another_shape_breaks_its_sample_only(tmp_path: Path) -> None:
    a = np.arange(6, dtype="<f4").reshape(2, 3)
    bodies = [headed(a, True), headed(a.T, True), headed(a.astype("i4"), True), headed(a, True)[:-1], headed(a, True)]
    ds = leat.open(one(tmp_path / "d", "ndarray", bodies))
    assert ds.schema["x"].shape == (2, 3)
    for i in range(5):
        if i in (0, 4):
            assert np.array_equal(ds[i]["x"], a)
        else:
            with pytest.raises(leat.Error, match="shard.00000.mds.*another type or shape"):
                ds[i]
    loader = leat.Loader(ds, 5, outputs={"x": []}, on_error="skip", framework="numpy", epochs=1)
    assert [i for b in loader for i in b.ids.tolist()] == [0, 4]


def test_photos_are_found_by_their_first_bytes_and_pixels_are_photos(tmp_path: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 255, (5, 4, 3), np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "PNG")
    assert leat.open(one(tmp_path / "a", "bytes", [buffer.getvalue()])).schema["x"].kind == "image"
    assert leat.open(one(tmp_path / "b", "bytes", [b"text", buffer.getvalue()])).schema["x"].kind == "bytes"
    ds = leat.open(
        one(tmp_path / "c", "pil", [pil(4, 5, b"RGB", pixels.tobytes()), pil(4, 15, b"L", pixels.tobytes())])
    )
    assert np.array_equal(np.asarray(Image.open(io.BytesIO(ds[0]["x"]))), pixels)
    assert np.array_equal(np.asarray(Image.open(io.BytesIO(ds[1]["x"]))), pixels.reshape(15, 4))
    batch = next(iter(leat.Loader(ds[:1], 1, outputs={"x": [leat.ops.Decode()]}, framework="numpy")))
    assert np.array_equal(np.asarray(batch["x"][0]).transpose(1, 2, 0), pixels)
    ds = leat.open(
        one(tmp_path / "d", "pil", [pil(4, 5, b"P", bytes(20)), pil(1 << 31, 1 << 31, b"L", b""), b"", b"a" * 12])
    )
    for i in range(4):
        with pytest.raises(leat.Error, match="mode" if i == 0 else "image of Pillow"):
            ds[i]


def test_fields_choose_and_say_what_columns_are(tmp_path: Path) -> None:
    columns = {"a b": ("bytes", None), "n": ("int", 8), "v": ("ndarray:float32", None), "j": ("json", None)}
    v = np.arange(3, dtype="<f4")
    sample = {"a b": v.tobytes(), "n": bytes(8), "v": headed(v), "j": b"[1]"}
    folder = write_mds(tmp_path / "d", [mds_shard("s.mds", columns, [sample])])
    ds = leat.open(folder / "index.json", format="mds", fields=["v", "a_b"])
    assert list(ds.schema) == ["v", "a_b"] and ds[0]["a_b"] == v.tobytes()
    said = {"a_b": leat.field("float32", (3,)), "v": leat.field("float32", (None,)), "j": "str", "n": "bytes"}
    ds = leat.open(folder, fields=said)
    assert ds[0]["a_b"].tolist() == [0, 1, 2] and ds[0]["j"] == "[1]" and ds[0]["n"] == bytes(8)
    assert ds.schema["v"].shape == (None,)
    assert leat.open(folder, fields={"v": "bytes"})[0]["v"] == headed(v)
    with pytest.raises(ValueError, match='"v" is float64'):
        leat.open(folder, fields={"v": leat.field("float64", (3,))})
    with pytest.raises(ValueError, match="no column"):
        leat.open(folder, fields=["z"])


def test_pickles_and_unknown_encodings_are_refused_by_name(tmp_path: Path) -> None:
    for k, (encoding, words) in enumerate((("pkl", "pickles"), ("mine", "does not read"))):
        columns = {"odd": (encoding, None), "n": ("int", 8)}
        folder = write_mds(tmp_path / str(k), [mds_shard("s.mds", columns, [{"odd": b"cos\nsystem\n", "n": bytes(8)}])])
        with pytest.raises(leat.Error, match=rf'"odd".*{encoding}.*{words}|"odd".*{words}.*{encoding}') as caught:
            leat.open(folder)
        assert "fields=" in str(caught.value)
        assert leat.open(folder, fields=["n"])[0] == {"n": 0}
        assert leat.open(folder, fields={"odd": "bytes"})[0]["odd"] == b"cos\nsystem\n"


def test_an_index_without_shards_of_mds_says_so(tmp_path: Path) -> None:
    shard = {"columns": {"a": "int"}, "compression": None, "format": "json", "newline": "\n", "raw_data": {}}
    for name, shards, words in (("none", [], "names no shards"), ("json", [shard], 'another format than "mds"')):
        (tmp_path / name).mkdir()
        (tmp_path / name / "index.json").write_text(json.dumps({"shards": shards, "version": 2}))
        with pytest.raises(leat.Error, match=words):
            leat.open(tmp_path / name)
    (tmp_path / "json" / "index.json").write_text(" " * 8192)
    with pytest.raises(leat.Error, match="no format"):
        leat.open(tmp_path / "json" / "index.json")


# ---- compression and hashes ----------------------------------------------------------------------


def zipped(folder: Path, how: str, pack: Callable[[bytes], bytes], hashes: list[str]) -> Path:
    shards = [mds_shard(f"{k}.mds", {"x": ("str", None)}, [{"x": b"%d" % i} for i in range(k, 40)]) for k in range(3)]
    folder.mkdir()
    for data, info in shards:
        stored = pack(data)
        name = info["raw_data"]["basename"] + "." + how
        info |= {"compression": f"{how}:3", "zip_data": {"basename": name, "bytes": len(stored), "hashes": {}}}
        for h in hashes:
            info["raw_data"]["hashes"][h] = hashlib.new(h, data).hexdigest()
            info["zip_data"]["hashes"][h] = hashlib.new(h, stored).hexdigest()
        (folder / name).write_bytes(stored)
    (folder / "index.json").write_text(json.dumps({"shards": [info for _, info in shards], "version": 2}))
    return folder


HASHES = ["sha1", "md5", "sha256", "blake2b", "sha3_224"]


def test_compressed_shards_are_the_same_data_set(tmp_path: Path) -> None:
    shards = [mds_shard(f"{k}.mds", {"x": ("str", None)}, [{"x": b"%d" % i} for i in range(k, 40)]) for k in range(3)]
    plain = leat.open(write_mds(tmp_path / "plain", shards))
    for how, stored in (("gz", gzip.compress), ("bz2", bz2.compress)):
        folder = zipped(tmp_path / how, how, stored, HASHES)
        ds = leat.open(folder)
        assert ds.fingerprint == plain.fingerprint
        assert [s["x"] for s in ds] == [s["x"] for s in plain]
        for k in range(3):  # Streaming leaves the decoded shard beside
            data = (tmp_path / "plain" / f"{k}.mds").read_bytes()
            (folder / f"{k}.mds").write_bytes(data)
        assert leat.open(folder).fingerprint == plain.fingerprint
        shutil.rmtree(folder)


@pytest.mark.parametrize("name", HASHES)
def test_a_wrong_hash_is_an_error_on_the_first_reading(name: str, tmp_path: Path) -> None:
    folder = zipped(tmp_path / "z", "gz", gzip.compress, [name])
    index = json.loads((folder / "index.json").read_text())
    for part in ("raw_data", "zip_data"):
        other = copy.deepcopy(index)
        text = other["shards"][1][part]["hashes"][name]
        other["shards"][1][part]["hashes"][name] = text[:-1] + ("0" if text[-1] != "0" else "1")
        (folder / "index.json").write_text(json.dumps(other))
        with pytest.raises(
            leat.Error, match=rf"1\.mds\.gz: {name} of its {'decoded ' if part == 'raw_data' else ''}bytes"
        ):
            leat.open(folder)
    (folder / "index.json").write_text(json.dumps(index).replace(f'"{name}"', '"crc_7"'))
    with pytest.raises(leat.Error, match=r'index\.json has a hash of .*0\.mds\.gz that cannot be compared: .* "crc_7"'):
        leat.open(folder)


def test_all_hashes_of_python_are_known(tmp_path: Path) -> None:
    names = sorted(n for n in hashlib.algorithms_available if not n.startswith("shake"))  # whose lengths vary
    assert len(leat.open(zipped(tmp_path / "z", "gz", gzip.compress, names))) == 40 + 39 + 38


# ---- the index -----------------------------------------------------------------------------------


def test_the_index_is_kept_and_made_anew_when_a_shard_changes(tmp_path: Path) -> None:
    folder = one(tmp_path / "d", "str", [b"a", b"b"])
    ds = leat.open(folder)
    kept = folder / "index.json.leat-index"
    first = kept.read_bytes()
    assert leat.open(folder).fingerprint == ds.fingerprint and kept.read_bytes() == first
    assert leat.open(folder, fields={"x": "bytes"}).fingerprint != ds.fingerprint
    shard = folder / "shard.00000.mds"
    shard.write_bytes(shard.read_bytes()[:-1] + b"c")
    os.utime(shard, ns=(0, time.time_ns() + 10**9))
    with pytest.raises(leat.Error, match="changed"):
        ds[1]
    assert leat.open(folder)[1]["x"] == "c"
    kept.write_bytes(first[:-9] + b"damaged!!")
    assert leat.open(folder)[1]["x"] == "c"
    leat.open(folder, index_dir=tmp_path / "kept")
    assert [p.name.split("-")[0] for p in (tmp_path / "kept").iterdir()] == ["index.json"]


@pytest.mark.parametrize("encoding", ["str_int", "pil", "str"])
def test_a_shard_that_is_written_over_is_an_error(encoding: str, tmp_path: Path) -> None:
    bodies = [b"12", b"34"] if encoding != "pil" else [pil(1, 2, b"L", b"ab")] * 2
    folder = one(tmp_path / "mds", encoding, bodies)
    ds = leat.open(folder)
    ds[0]
    shard = next(folder.glob("*.mds"))
    shard.write_bytes(shard.read_bytes()[:-1] + b"5")
    os.utime(shard, (1, 1))
    for loader in (None, leat.Loader(ds, batch_size=1, epochs=1, on_error="skip", framework="numpy")):
        with pytest.raises(leat.ChangedError, match="was changed after it was opened"):
            ds[1] if loader is None else list(loader)


def test_more_shards_than_stay_open_are_read(tmp_path: Path) -> None:
    shards = [mds_shard(f"{k:05}.mds", {"x": ("str", None)}, [{"x": b"%d" % k}]) for k in range(300)]
    folder = write_mds(tmp_path / "d", shards)
    code = """if True:
        import resource, sys
        resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100))
        import leat
        assert [s["x"] for s in leat.open(sys.argv[1])] == [str(k) for k in range(300)]"""
    subprocess.run([sys.executable, "-c", code, str(folder)], check=True)
    (folder / "00007.mds").write_bytes(shards[7][0] + b"x")
    with pytest.raises(leat.Error, match="00007.mds has"):
        leat.open(folder)


def test_verify_compares_the_hashes_of_all_shards(tmp_path: Path) -> None:
    folder = zipped(tmp_path / "z", "gz", gzip.compress, ["sha1"])
    verify = [os.environ["LEAT_CLI"], "verify", folder, "--quiet"]
    assert subprocess.run(verify, capture_output=True, check=False).returncode == 0
    whole = subprocess.run(verify[:-1], capture_output=True, text=True, check=True).stdout
    assert ": whole; " in whole, whole
    for k in (0, 2):
        shard = folder / f"{k}.mds.gz"
        data, when = bytearray(shard.read_bytes()), shard.stat().st_mtime_ns
        data[4] ^= 1  # the time in the header of gzip, which changes no decoded byte
        shard.write_bytes(data)
        os.utime(shard, ns=(when, when))  # so that the index is taken
    done = subprocess.run(verify, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and done.stdout.count("sha1 of its bytes is not the one") == 2, done
    bare = write_mds(tmp_path / "bare", [mds_shard("0.mds", {"x": ("str", None)}, [{"x": b"a"}])])
    done = subprocess.run([*verify[:2], bare], capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "data of format 'mds' carry no checksums" in done.stderr, done


@pytest.mark.parametrize("kept", [True, False])
def test_verify_names_every_damaged_shard(kept: bool, tmp_path: Path) -> None:
    columns: dict[str, tuple[str, int | None]] = {"x": ("str", None), "p": ("pkl", None)}
    shards = [mds_shard(f"{k}.mds", columns, [{"x": b"a", "p": b"b"}] * 9) for k in range(4)]
    for data, info in shards:
        info["raw_data"]["hashes"]["sha1"] = hashlib.sha1(data).hexdigest()
    folder = write_mds(tmp_path / "d", shards)
    if kept:
        leat.open(folder, fields=["x"])
    assert kept == (folder / "index.json.leat-index").exists()
    assert ": whole; " in shell("verify", folder).stdout  # pickles are in no field
    for k in (0, 2):
        when = (folder / f"{k}.mds").stat().st_mtime_ns
        (folder / f"{k}.mds").write_bytes(shards[k][0][:-1] + b"c")
        os.utime(folder / f"{k}.mds", ns=(when, when))
    (folder / "3.mds").write_bytes(shards[3][0][:-1])
    (folder / "1.mds").unlink()
    said = shell("verify", folder, code=1).stdout
    assert said.count("sha1 of its bytes is not the one") == 2 and "4 faults found" in said
    assert "3.mds has" in said and "1.mds, which is missing" in said


@pytest.mark.parametrize("how, said", [("zstd", None), ("gz", "whole"), ("snappy", None), ("br", None)])
def test_verify_says_if_compressed_shards_have_no_checksums(how: str, said: str | None, tmp_path: Path) -> None:
    packed: Callable[[bytes], bytes] = functools.partial(stored_zstd, checksum=False)
    if how == "gz":
        packed = gzip.compress
    elif how != "zstd":
        codec = {"br": "brotli"}.get(how, how)
        packed = functools.partial(pytest.importorskip("pyarrow").compress, codec=codec, asbytes=True)
    folder = zipped(tmp_path / "z", how, packed, [])
    told = shell("verify", folder).stdout
    assert f": {said or 'every block decodes; there are no checksums to compare with'}; " in told
    assert ": whole; " in shell("verify", zipped(tmp_path / "h", how, packed, ["sha1"])).stdout


def test_a_compressed_shard_that_does_not_stay_open_and_changes_is_noticed(tmp_path: Path) -> None:
    folder = zipped(tmp_path / "z", "gz", gzip.compress, [])
    code = """if True:
        import os, resource, sys
        import leat
        resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40))  # half of which may stay open
        shard = os.path.join(sys.argv[1], "1.mds.gz")
        *others, ds = [leat.open(sys.argv[1]) for _ in range(9)]
        assert ds[45]["x"] == "6"  # its blocks are in the cache now
        os.utime(shard, (1, 1))
        for verb in ("changed", "removed"):
            try:
                ds[45]
            except leat.ChangedError as e:
                assert f"1.mds.gz was {verb} after it was opened" in str(e), e
            else:
                raise AssertionError(verb)
            if verb == "changed":
                os.unlink(shard)"""
    subprocess.run([sys.executable, "-c", code, str(folder)], check=True)


def test_a_name_too_long_for_a_field_is_refused_unless_it_is_left_out(tmp_path: Path) -> None:
    long = "n" * 64
    columns: dict[str, tuple[str, int | None]] = {"x": ("str", None), long: ("int", 8), long + "2": ("str", None)}
    sample = {"x": b"text", long: bytes(8), long + "2": b"more"}
    folder = write_mds(tmp_path / "d", [mds_shard("0.mds", columns, [sample])])
    with pytest.raises(leat.Error, match=r'column "n{63}\.\.\." is longer than 63 bytes: name the fields'):
        leat.open(folder)
    with pytest.raises(leat.Error, match="has no column"):
        leat.open(folder, fields=["n" * 63])
    assert leat.open(folder, fields=["x"])[0] == {"x": "text"}


# ---- folders that lie ----------------------------------------------------------------------------


def lying_index(change: Callable[[dict[str, Any]], None]) -> Callable[[Path], None]:
    def lie(folder: Path) -> None:
        index = json.loads((folder / "index.json").read_text())
        change(index["shards"][0])
        (folder / "index.json").write_text(json.dumps(index))

    return lie


def lying_shard(at: int, value: int) -> Callable[[Path], None]:
    def lie(folder: Path) -> None:
        data = bytearray((folder / "shard.00000.mds").read_bytes())
        at_ = at if at >= 0 else len(data) + at
        data[at_ : at_ + 4] = struct.pack("<I", value)
        (folder / "shard.00000.mds").write_bytes(data)

    return lie


def bomb(folder: Path) -> None:
    """100 KB of gzip that decode to 100 MB, where index.json says 200 bytes, or 2 TB."""
    index = json.loads((folder / "index.json").read_text())
    stored = gzip.compress(bytes(100 << 20))
    (folder / "bomb.gz").write_bytes(stored)
    (folder / "shard.00000.mds").unlink()
    index["shards"][0] |= {"compression": "gz", "zip_data": {"basename": "bomb.gz", "bytes": len(stored), "hashes": {}}}
    (folder / "index.json").write_text(json.dumps(index))


def large_bomb(folder: Path) -> None:
    bomb(folder)
    lying_index(lambda s: s["raw_data"].update(bytes=1 << 41))(folder)


def outside(name: str) -> Callable[[Path], None]:
    return lying_index(lambda s: s["raw_data"].update(basename=name))


LYING: dict[str, Callable[[Path], None]] = {
    "more samples than the shard": lying_index(lambda s: s.update(samples=4)),
    "2^62 samples": lying_index(lambda s: s.update(samples=1 << 62)),
    "fewer than no samples": lying_index(lambda s: s.update(samples=-1)),
    "other bytes": lying_index(lambda s: s["raw_data"].update(bytes=1 << 40)),
    "no bytes": lying_index(lambda s: s["raw_data"].update(bytes=0)),
    "a column size that is another": lying_index(lambda s: s.update(column_sizes=[None, 4])),
    "a column size of 0": lying_index(lambda s: s.update(column_sizes=[None, 0])),
    "fewer names than sizes": lying_index(lambda s: s.update(column_names=["a"])),
    "a column twice": lying_index(lambda s: s.update(column_names=["n", "n"])),
    "an array of no dimension": lying_index(lambda s: s.update(column_encodings=["ndarray:int8:0", "int"])),
    "an array of 2^64 bytes": lying_index(
        lambda s: s.update(column_encodings=["ndarray:int8:4294967296,4294967296", "int"])
    ),
    "an array of no type": lying_index(lambda s: s.update(column_encodings=["ndarray:int", "int"])),
    "no columns": lying_index(lambda s: s.update(column_names=[], column_encodings=[], column_sizes=[])),
    "300 columns": lying_index(lambda s: s.update(column_names=[str(i) for i in range(300)])),
    "a name of 5000 bytes": lying_index(lambda s: s.update(column_names=["n" * 5000, "x"])),
    "another format": lying_index(lambda s: s.update(format="json")),
    "another version": lying_index(lambda s: s.update(version=3)),
    "a path above": outside("../other/shard.00000.mds"),
    "a path above in the middle": outside("a/../../x"),
    "an absolute path": outside("/etc/passwd"),
    "an address": outside("http://localhost/x"),
    "the folder itself": outside("."),
    "no name": outside(""),
    "a shard that is missing": outside("other.mds"),
    "another count in the shard": lying_shard(0, 2),
    "a huge count in the shard": lying_shard(0, 0xFFFFFFFF),
    "an offset beyond the file": lying_shard(8, 0xFFFFFFF0),
    "an offset in the table": lying_shard(4, 8),
    "offsets that overlap": lying_shard(12, 100),
    "an end before the file's": lying_shard(16, 300),
    "a size beyond the sample": lying_shard(-14, 1000),
    "a size of 2^32 - 1": lying_shard(-14, 0xFFFFFFFF),
    "nesting without end": lambda f: (f / "index.json").write_text('{"shards": ' + "[" * 100000) and None,
    "index.json that is cut": lambda f: (f / "index.json").write_text((f / "index.json").read_text()[:-40]) and None,
    "index.json that is a list": lambda f: (f / "index.json").write_text("[]") and None,
    "no shards": lambda f: (
        (f / "index.json").write_text('{"shards": [], "version": 2, "column_encodings": 0}') and None
    ),
    "a shard that is cut": lambda f: os.truncate(f / "shard.00000.mds", 500),
    "a shard that is empty": lambda f: os.truncate(f / "shard.00000.mds", 0),
    "a bomb": bomb,
    "a bomb of 2 TB": large_bomb,
}


@pytest.mark.parametrize("lie", LYING)
def test_a_folder_that_lies_is_an_error(lie: str, tmp_path: Path) -> None:
    shard = mds_shard("shard.00000.mds", {"n": ("int", 8), "x": ("str", None)}, [{"n": bytes(8), "x": b"ab"}] * 3)
    folder = write_mds(tmp_path / "d", [(shard[0], shard[1])])
    assert leat.open(folder)[2]["x"] == "ab"
    (folder / "index.json.leat-index").unlink()
    LYING[lie](folder)
    with pytest.raises((leat.Error, ValueError, FileNotFoundError)) as caught:
        ds = leat.open(folder, format="mds")
        for i in range(len(ds)):
            ds[i]
    assert str(folder) in str(caught.value)


def test_shards_of_other_columns_are_an_error(tmp_path: Path) -> None:
    shards = [
        mds_shard("0.mds", {"x": ("str", None)}, [{"x": b"a"}]),
        mds_shard("1.mds", {"y": ("str", None)}, [{"y": b"a"}]),
    ]
    with pytest.raises(leat.Error, match="other columns"):
        leat.open(write_mds(tmp_path / "d", shards))


def test_damage_of_one_byte_is_read_or_refused(tmp_path: Path) -> None:
    columns = {"n": ("int", 8), "v": ("ndarray", None), "x": ("str", None), "p": ("pil", None)}
    v = headed(np.arange(3, dtype="<f4"), True)
    samples = [{"n": bytes(8), "v": v, "x": b"abc", "p": pil(1, 2, b"L", b"ab")}] * 2
    data, info = mds_shard("s.mds", columns, samples)
    assert table([item([b"a"], [False])])[:4] == b"\1\0\0\0"
    for at in range(0, len(data), 3):
        bad = bytearray(data)
        bad[at] ^= 1 + at % 255
        folder = write_mds(tmp_path / "d", [(bytes(bad), info)])
        try:
            ds = leat.open(folder, index_dir=tmp_path / str(at))
        except leat.Error:
            continue
        for i in range(2):
            with contextlib.suppress(leat.Error, UnicodeDecodeError):
                ds[i]
