"""Tars of samples in place: what they hold, beside Python's tarfile; lying ones."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import os
import pickle
import subprocess
import sys
import tarfile
import time
import warnings
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli_support import jpeg
from items_made import stored_zstd
from tar_made import END, Files, header, member, npy, pax, tar
from test_files_of_others import described

import leat

DATA = os.environ.get("LEAT_DATA")
PEERS = Path(DATA or "", "formats-peers")
FORMATS = {"ustar": tarfile.USTAR_FORMAT, "gnu": tarfile.GNU_FORMAT, "pax": tarfile.PAX_FORMAT}


@pytest.fixture(autouse=True)
def _quiet(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))


def write(path: Path, data: Files | bytes) -> Path:
    path.write_bytes(data if isinstance(data, bytes) else tar(data))
    return path


# ---- what tars hold ------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", FORMATS)
def test_a_tar_reads_as_tarfile_reads_it(kind: str, tmp_path: Path) -> None:
    long = "d" * 120 + "/" + "e" * 20 + "/k.txt" if kind == "ustar" else "d" * 300 + "/k.txt"
    files = [("__info__", b"x"), ("__a__/k.txt", b"y"), ("f.old/k0.txt", "ü".encode()), ("f.old/k0.CLS", b" 7\n")]
    files += [(long, b""), (long[:-3] + "cls", b"-3"), ("__b__.txt", b"z"), ("__b__.cls", b"+12")]
    ds = leat.open(write(tmp_path / "a.tar", tar(files, FORMATS[kind])))
    assert [ds[i] for i in range(3)] == [
        {"txt": "ü", "cls": 7, "name": "f.old/k0"},
        {"txt": "", "cls": -3, "name": long[:-4]},
        {"txt": "z", "cls": 12, "name": "__b__"},
    ]
    assert ds.schema["name"].derived and not ds.schema["cls"].derived


def test_a_tar_behind_another_is_read_too(tmp_path: Path) -> None:
    a, b = tar([("a.txt", b"1")]), tar([("a.txt", b"2"), ("b.txt", b"3")])
    ds = leat.open(write(tmp_path / "a.tar", a + b))
    assert [s["txt"] for s in ds] == ["1", "2", "3"]


def test_a_tar_that_is_cut_within_its_padding_is_an_error_and_one_without_an_end_is_noted(tmp_path: Path) -> None:
    """Writers fill up the last block, and tar and tarfile refuse one that is short; some leave out the end."""
    from cli_support import leat as shell

    data = tar([("a.txt", b"2"), ("b.txt", b"3" * 600), ("b.raw", bytes(512))])
    end = data.index(b"3" * 600) + 1024
    for cut in (end - 1, end - 400):
        for name, bytes_ in (("b.tar", data[:cut]), ("b.tar.gz", gzip.compress(data[:cut]))):
            with pytest.raises(
                leat.CorruptError, match=rf"{name} is a damaged tar: at byte {cut} it ends within the pad"
            ):
                leat.open(write(tmp_path / name, bytes_))
    endless = "without the zeros that mark the end"
    for n, noted in ((end, True), (end + 512, None), (end + 1024, True), (len(data), False)):
        path = write(tmp_path / f"{n}.tar", data[:n])
        packed = write(tmp_path / f"{n}.tar.gz", gzip.compress(data[:n]))
        if noted is None:  # a header whose file is not there
            with pytest.raises(leat.CorruptError, match="says 512 bytes"):
                leat.open(path)
            continue
        assert [s["txt"][:1] for s in leat.open(path)] == ["2", "3"]
        told = shell("info", path).stdout
        assert (f"note           1 tar {endless}" in told) == noted
        assert (json.loads(shell("info", packed, "--json").stdout).get("endless", 0) == 1) == noted
        assert (endless in shell("verify", packed).stdout) == noted == (endless in shell("verify", path, code=2).stdout)
        open_ = leat.open(path)
        about = open_.about
        write(path, data[:512])
        assert {**open_.about, "endless": 0} == {**about, "endless": 0}  # nobody has to read it for that


def test_compressed_tars_are_the_same_data_set(tmp_path: Path) -> None:
    zstandard = pytest.importorskip("zstandard")
    data = tar([(f"{i:03}.{e}", bytes([65 + i % 26]) * i * 37) for i in range(300) for e in ("txt", "bin")])
    plain = leat.open(write(tmp_path / "a.tar", data))
    packed = {".tar.gz": gzip.compress(data), ".tgz": gzip.compress(data),
              ".tar.zst": zstandard.ZstdCompressor().compress(data)}  # fmt: skip
    for end, bytes_of in packed.items():
        for _ in range(2):
            ds = leat.open(write(tmp_path / f"a{end}", bytes_of))
            assert ds.fingerprint == plain.fingerprint
            assert ds[299] == plain[299] and ds[0] == plain[0] and ds[123] == plain[123]


def test_shards_are_one_data_set_with_the_fields_of_any(tmp_path: Path) -> None:
    write(tmp_path / "s-0.tar", [("a.txt", b"1"), ("b.txt", b"2")])
    write(tmp_path / "s-1.tar", [("c.cls", b"3"), ("c.txt", b"4"), ("d.vec.npy", npy(np.arange(3.0)))])
    ds = leat.open(tmp_path / "s-{0..1}.tar")
    assert len(ds) == 4
    assert [s["txt"] for s in ds] == ["1", "2", "4", ""]
    assert ds.column("txt.valid").tolist() == [True, True, True, False]
    assert ds.column("cls").tolist() == [0, 0, 3, 0]
    assert np.isnan(ds[0]["vec.npy"]).all() and ds[3]["vec.npy"].tolist() == [0, 1, 2]
    assert leat.open([tmp_path / "s-0.tar", tmp_path / "s-1.tar"]).fingerprint == ds.fingerprint
    assert [s["name"] for s in ds.where('"cls.valid"')] == ["c"]


def test_arrays_come_in_the_order_of_c(tmp_path: Path) -> None:
    arrays = [np.arange(24, dtype=d).reshape(4, 3, 2) for d in ("<f4", ">i2", "<u8")]
    arrays.append(np.asfortranarray(arrays[0]))
    for k, array in enumerate(arrays):
        ds = leat.open(write(tmp_path / f"{k}.tar", [("a.npy", npy(array)), ("b.npy", npy(array[::2]))]))
        assert ds.schema["npy"].shape == (None, 3, 2)
        assert np.array_equal(ds[0]["npy"], array) and np.array_equal(ds[1]["npy"], array[::2])
        with leat.Writer(tmp_path / f"{k}.leat", {"npy": ds.schema["npy"]}) as writer:
            for sample in ds:
                writer.add(npy=sample["npy"])
        assert leat.open(tmp_path / f"{k}.leat").fingerprint == ds.fingerprint
    scalar = leat.open(write(tmp_path / "s.tar", [("a.npy", npy(np.float64(2.5)))]))
    assert scalar.schema["npy"].shape == () and scalar[0]["npy"] == 2.5


def test_fields_choose_and_say_what_files_are(tmp_path: Path) -> None:
    files = [("a.x", b"12"), ("a.raw", np.arange(3, dtype="f4").tobytes()), ("a.y", b"2.5"), ("a.pth", b"code")]
    path = write(tmp_path / "a.tar", files)
    ds = leat.open(path, fields=["y", "x"])
    assert ds[0] == {"y": b"2.5", "x": b"12", "name": "a"}
    said = {"x": "int16", "raw": leat.field("float32", (3,)), "y": "float64", "pth": "bytes"}
    ds = leat.open(path, fields=said)
    assert {n: described(f) for n, f in ds.schema.items()} == {
        "x": "int16", "raw": "float32 (3,)", "y": "float64", "pth": "bytes", "name": "str"
    }  # fmt: skip
    assert ds[0]["x"] == 12 and ds[0]["raw"].tolist() == [0, 1, 2] and ds[0]["y"] == 2.5 and ds[0]["pth"] == b"code"
    assert leat.open(path, fields={"x": leat.field("uint8", (None,))})[0]["x"].tolist() == [49, 50]
    assert pickle.loads(pickle.dumps(ds)).fingerprint == ds.fingerprint
    with pytest.raises(ValueError, match=r"ends in \.z"):
        leat.open(path, fields=["z"])
    with pytest.raises(ValueError, match="no field is"):
        leat.open(path, fields={"x": "imag"})


@pytest.mark.parametrize("end", ["pyd", "pkl", "pickle", "pth", "pt"])
def test_pickles_are_refused_by_name(end: str, tmp_path: Path) -> None:
    path = write(tmp_path / "a.tar", [("a.cls", b"1"), (f"a.model.{end}", b"cos\nsystem\n")])
    with pytest.raises(leat.Error, match=rf'"model\.{end}".*pickles.*\({end}\).*fields=') as caught:
        leat.open(path)
    assert "a.tar" in str(caught.value)
    assert leat.open(path, fields=["cls"])[0]["cls"] == 1
    assert leat.open(path, fields={f"model.{end}": "bytes"})[0][f"model.{end}"] == b"cos\nsystem\n"


def test_arrays_of_objects_are_refused(tmp_path: Path) -> None:
    odd = npy(np.array([{}], dtype=object), allow_pickle=True)
    nested = npy(np.zeros(2, dtype=[("a", "f4"), ("b", "O")]), allow_pickle=True)
    for k, data in enumerate((odd, nested)):
        path = write(tmp_path / f"{k}.tar", [("a.cls", b"1"), ("a.npy", npy(np.arange(3))), ("b.npy", data)])
        with pytest.raises(leat.Error, match='"npy".*pickles.*objects'):
            leat.open(path)
        assert leat.open(path, fields={"npy": "bytes"})[1]["npy"] == data


def test_a_value_of_another_kind_breaks_its_sample_only(tmp_path: Path) -> None:
    files = []
    for i in range(6):
        files += [(f"{i}.cls", b"x" if i == 1 else b"%d" % i), (f"{i}.txt", b"\xff" if i == 2 else b"t")]
        files += [(f"{i}.json", b"{" if i == 3 else b"{}")]
        files += [(f"{i}.npy", npy(np.zeros((2, 2) if i == 4 else 3, "f4" if i != 5 else "f8")))]
    ds = leat.open(write(tmp_path / "a.tar", files))
    bad = {1: "cls", 2: "txt", 3: "json", 4: "npy", 5: "npy"}
    assert ds[0]["cls"] == 0 and ds[0]["npy"].tolist() == [0, 0, 0]
    for i, name in bad.items():
        with pytest.raises(leat.Error, match=name) as caught:
            ds[i]
        assert "a.tar" in str(caught.value) and "byte" in str(caught.value)
    for name, at in (("cls", 1), ("npy", 4)):
        loader = leat.Loader(ds, 6, outputs={name: []}, on_error="skip", framework="numpy", epochs=1)
        ids = [int(i) for batch in loader for i in batch.ids]
        assert at not in ids and 0 in ids


def test_a_file_that_a_sample_lacks_is_said_to_be_absent(tmp_path: Path) -> None:
    """A file without bytes is another fault."""
    from cli_support import leat as shell

    files = [("0.jpg", jpeg(8, 8)), ("0.cls", b"0"), ("1.cls", b"1"), ("2.jpg", b""), ("2.cls", b"2")]
    ds = leat.open(write(tmp_path / "a.tar", files))
    decoded = {"jpg": [leat.ops.Decode()]}
    with pytest.raises(leat.BrokenSampleError) as e:
        next(iter(leat.Loader(ds[1:], 1, outputs=decoded, framework="numpy")))
    assert """1: there is no jpg here (jpg.valid is false): ds.where('"jpg.valid"') has those""" in str(e.value)
    assert "(sample 1, " in str(e.value) and "on_error=" in str(e.value) and e.value.field == "jpg"
    with pytest.raises(leat.BrokenSampleError, match=r"the photo is empty \(0 bytes\)"):
        next(iter(leat.Loader(ds[2:], 1, outputs=decoded, framework="numpy")))
    with leat.Writer(tmp_path / "a.leat", {"jpg": "image", "jpg.valid": "bool"}, check=False) as writer:
        writer.add(**{"jpg": jpeg(8, 8)[:99], "jpg.valid": False})  # a column of the user's own
    with pytest.raises(leat.BrokenSampleError, match="^(?!.*there is no jpg)"):
        next(iter(leat.Loader(leat.open(tmp_path / "a.leat"), 1, outputs=decoded, framework="numpy")))
    decoded["jpg"].append(leat.ops.CenterCrop(8))
    batch = next(iter(leat.Loader(ds, 3, outputs=decoded, framework="numpy", on_error="skip")))
    assert batch.ids.tolist() == [0]
    assert len(ds.where('"jpg.valid"')) == 2
    shell("pack", tmp_path / "a.tar", tmp_path / "b.leat")
    listed = [json.loads(line) for line in Path(f"{tmp_path}/b.leat.bad.jsonl").read_text().splitlines()]
    said = ["there is no jpg here (jpg.valid is false)", "the photo is empty (0 bytes): replace it, or leave it out"]
    assert [line["reason"] for line in listed] == said


def test_what_is_left_out_is_said(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tar", [("a/._x.jpg", b"1"), ("README", b"2"), ("k.txt", b"3")])
    with pytest.warns(UserWarning, match="1 file with a name that begins with a dot\n.*1 file without a dot"):
        assert len(leat.open(path)) == 1


def test_links_are_left_out_with_a_notice(tmp_path: Path) -> None:
    """GNU tar writes the second name of a file as a hard link, whose sample has no bytes of its own."""
    with tarfile.open(tmp_path / "a.tar", "w") as file:
        for name, kind in (("0.txt", tarfile.REGTYPE), ("1.txt", tarfile.LNKTYPE), ("2.txt", tarfile.SYMTYPE),
                           (".3.txt", tarfile.SYMTYPE), ("README", tarfile.LNKTYPE)):  # fmt: skip
            info = tarfile.TarInfo(name)
            info.type, info.linkname = kind, "0.txt"
            file.addfile(info)
    for _ in range(2):  # made, and kept
        with pytest.warns(UserWarning, match="left out: 2 links: pack the files again with tar --hard-dereference"):
            assert [s["name"] for s in leat.open(tmp_path / "a.tar")] == ["0"]


def test_compressed_files_that_leat_does_not_read_say_how_to_decompress_them(tmp_path: Path) -> None:
    data = tar([("a.txt", b"1")])
    for end, packed in (("bz2", bz2.compress(data)), ("xz", lzma.compress(data))):
        with pytest.raises(leat.FormatError, match=rf"compressed with {end[:2]}.*decompress it \({end[:2]}\w* -dk\)"):
            leat.open(write(tmp_path / f"a.tar.{end}", packed))


def test_samples_whose_files_do_not_follow_each_other_are_counted(tmp_path: Path) -> None:
    torn = [("0.txt", b"a"), ("1.txt", b"b"), ("2.txt", b"c"), ("0.cls", b"0"), ("1.cls", b"1"), ("2.txt", b"d")]
    path = write(tmp_path / "a.tar", torn)
    for _ in range(2):
        with pytest.warns(UserWarning, match="^2 samples have the name of one before, and files that it lacks.*--sort"):
            assert len(leat.open(path)) == 6
    whole = [("0.txt", b"a"), ("1.txt", b"b"), ("1.cls", b"1")]  # which lacks a file, and comes again with the same
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(leat.open(write(tmp_path / "b.tar", tar(whole) + tar(whole)))) == 4


def test_names_that_no_field_has_are_changed(tmp_path: Path) -> None:
    ds = leat.open(write(tmp_path / "a.tar", [("a.0.é.txt", b"1"), ("a.left image.txt", b"2")]))
    assert ds[0] == {"_0.__.txt": "1", "left_image.txt": "2", "name": "a"}


# ---- the index -----------------------------------------------------------------------------------


def test_files_whose_names_no_field_has_are_left_out_by_fields(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tar", [("a.txt", b"1"), ("a." + "x" * 70, b"2"), ("a.b c", b"3"), ("a.b+c", b"4")])
    with pytest.raises(leat.Error, match="longer than 63 bytes.*fields="):
        leat.open(path)
    assert leat.open(path, fields=["txt"])[0] == {"txt": "1", "name": "a"}
    with pytest.raises(leat.Error, match='two fields of .*a.tar have the name "b_c"'):
        leat.open(path, fields=["b_c"])


def test_a_changed_tar_is_indexed_anew(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tar", [("a.txt", b"1"), ("b.txt", b"2")])
    ds = leat.open(path)
    kept = Path(f"{path}.leat-index")
    first = kept.read_bytes()
    assert leat.open(path).fingerprint == ds.fingerprint and kept.read_bytes() == first
    write(path, [("a.txt", b"1"), ("c.txt", b"3333")])
    os.utime(path, ns=(0, time.time_ns() + 10**9))
    with pytest.raises(leat.Error, match="changed"):
        ds[1]
    assert [s["txt"] for s in leat.open(path)] == ["1", "3333"]
    assert kept.read_bytes() != first
    kept.write_bytes(first[:-9] + b"damaged!!")
    assert [s["txt"] for s in leat.open(path)] == ["1", "3333"]


def test_an_index_lies_where_it_is_asked_for(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tar", [("a.txt", b"1")])
    leat.open(path, index_dir=tmp_path / "kept")
    assert not Path(f"{path}.leat-index").exists()
    assert [p.name.split("-")[0] for p in (tmp_path / "kept").iterdir()] == ["a.tar"]


# ---- tars that lie -------------------------------------------------------------------------------

GOOD = member(b"a.txt", b"1")
LYING = {
    "a size beyond the file": GOOD + header(b"b.txt", b"77777777777\0"),
    "a size that is negative": GOOD + header(b"b.txt", b"\xff" * 12),
    "a size of 2^63": GOOD + header(b"b.txt", b"\x80\0\0\0\x80" + bytes(7)),
    "a size of 2^62 by pax": GOOD + pax({"size": str(1 << 62)}) + header(b"b.txt", b"00000000001\0"),
    "a negative size by pax": GOOD + pax({"size": "-1"}) + member(b"b.txt", b"2"),
    "a size of letters": GOOD + header(b"b.txt", b"0000000000x\0"),
    "a wrong checksum": GOOD + b"b" + member(b"b.txt", b"2")[1:].replace(b"ustar", b"ustaq"),
    "a file that is cut": (GOOD + member(b"b.txt", b"2" * 5000))[:-2000],
    "a header that is cut": GOOD + member(b"b.txt", b"2")[:300],
    "a field twice in a sample": GOOD + member(b"a.TXT", b"2"),
    "a record of pax that ends behind it": GOOD + pax(b"999 path=x.txt\n") + member(b"b.txt", b"2"),
    "a record of pax of length 0": GOOD + pax(b"0 path=x.txt\n") + member(b"b.txt", b"2"),
    "a name with a NUL": GOOD + pax({"path": "b\0c.txt"}) + member(b"b.txt", b"2"),
    "a name that is no UTF-8": GOOD + member(b"\xff\xfe.txt", b"2"),
    "a name of a megabyte": GOOD + pax({"path": "b" * 900_000 + ".txt"}) + member(b"b.txt", b"2"),
    "a text of 2 MiB": GOOD + pax({"path": "b" * (2 << 20)}) + member(b"b.txt", b"2"),
    "a sparse file": GOOD + member(b"b.txt", b"2", kind=b"S"),
    "a sparse file by pax": GOOD + pax({"GNU.sparse.major": "1", "GNU.sparse.minor": "0"}) + member(b"b.txt", b"2"),
    "a cut behind a text": (GOOD + pax({"path": "b.txt"})),
    "a cut behind a long name": (GOOD + member(b"long", b"b.txt\0", kind=b"L"))[:-500],
    "a text that is cut": GOOD + pax({"path": "b" * 5000})[:2000],
    "noise behind the end": GOOD + END + os.urandom(0) + b"noise" * 300,
    "too many endings": b"".join(member(b"a.e%d" % i, b"") for i in range(300)),
    "no sample": member(b"README", b"2"),
    "nothing": END,
}


@pytest.mark.parametrize("what", LYING)
def test_a_tar_that_lies_is_an_error_of_its_file(what: str, tmp_path: Path) -> None:
    path = write(tmp_path / "lies.tar", LYING[what] + (b"" if "cut" in what else END))
    for ending, data in (("", path.read_bytes()), (".gz", gzip.compress(path.read_bytes()))):
        with pytest.raises(leat.Error, match=r"lies\.tar") as caught:
            leat.open(write(Path(f"{path}{ending}"), data))
        if what not in ("no sample", "nothing"):
            assert "byte" in str(caught.value)


@pytest.mark.parametrize(
    ("what", "data"),
    [
        ("a path upwards", member(b"../../b.txt", b"2")),
        ("an absolute path", member(b"/etc/b.txt", b"2")),
        ("a link", header(b"b.txt", b"00000000400\0", kind=b"2") + header(b"l.txt", b"00000000400\0", kind=b"1")),
        ("a key that comes again", member(b"b.txt", b"2") + member(b"a.txt", b"3")),
        ("a device", header(b"b.txt", b"00000000000\0", kind=b"3")),
        ("a type that nobody knows", member(b"b.txt", b"2", kind=b"Q")),
        ("a signed checksum", b""),
        ("a global name", pax({"comment": "é"}, b"g")),
    ],
)
def test_an_odd_tar_is_read(what: str, data: bytes, tmp_path: Path) -> None:
    names = {"a path upwards": "../../b", "an absolute path": "/etc/b"}
    if what == "a signed checksum":
        block = bytearray(header("é".encode() + b".txt", b"00000000000\0"))
        block[148:156] = b" " * 8
        block[148:156] = b"%06o\0 " % sum(b - 256 if b > 127 else b for b in block)
        data = bytes(block)
    ds = leat.open(write(tmp_path / "odd.tar", GOOD + data + END))
    assert ds[0]["txt"] == "1"
    if what in names:
        assert ds[1]["name"] == names[what] and ds[1]["txt"] == "2"


def test_a_bomb_ends_in_bounded_memory(tmp_path: Path) -> None:
    bomb = gzip.compress(header(b"a.txt", b"\x80" + bytes(6) + (1 << 33).to_bytes(5, "big")) + bytes(1 << 20))
    with pytest.raises(leat.Error, match=r"a\.tar\.gz.*decompress it"):
        leat.open(write(tmp_path / "a.tar.gz", bomb))


def test_a_bomb_of_keys_ends_in_bounded_memory(tmp_path: Path) -> None:
    name = b"d" * 4000 + b".txt"
    one = header(b"long", b"%011o\0" % len(name), kind=b"L") + name + bytes(-len(name) % 512)
    one += header(b"x", b"00000000000\0") + bytes(512)
    packer = zlib.compressobj(1, wbits=31)
    bomb = b"".join(packer.compress(one * 1000) for _ in range(60)) + packer.flush()
    with pytest.raises(leat.Error, match=r"a\.tar\.gz has far more files by byte .*decompress it"):
        leat.open(write(tmp_path / "a.tar.gz", bomb))
    assert sorted(f.name for f in tmp_path.iterdir()) == ["a.tar.gz"]


def frames_of(data: bytes) -> bytes:
    """Frames of zstd of 1 KiB each, stored as they are, and without checksums."""
    parts = [data[k : k + 1024] for k in range(0, len(data), 1024)]
    head = b"\x28\xb5\x2f\xfd\xa0"
    return b"".join(head + len(p).to_bytes(4, "little") + (len(p) << 3 | 1).to_bytes(3, "little") + p for p in parts)


@pytest.mark.parametrize(("kind", "packed"), [("zst", frames_of), ("gz", gzip.compress)])
def test_an_array_of_a_compressed_tar_that_has_changed_is_an_error(kind: str, packed: Any, tmp_path: Path) -> None:
    path = write(tmp_path / f"a.tar.{kind}", packed(tar([(f"{i}.npy", npy(np.full(300, i))) for i in range(4)])))
    ds = leat.open(path)
    assert ds[1]["npy"][0] == 1
    path.write_bytes(packed(tar([(f"{i}.npy", npy(np.full(300, 7 + i))) for i in range(4)])))
    os.utime(path, ns=(1, 1))
    with pytest.raises(leat.Error, match="was changed after it was opened.*field .npy"):
        ds[2]


def test_a_file_too_long_for_its_field_is_not_read(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tar", header(b"a.x", b"%011o\0" % (3 << 30)))
    os.truncate(path, (3 << 30) + 512)
    for kind in ("float32", leat.field("int8", (64, 64))):
        ds = leat.open(path, fields={"x": kind})
        with pytest.raises(leat.Error, match=r"a\.tar is wrong: it has more bytes than a value of the field"):
            ds[0]


@pytest.mark.parametrize("shape", ["(0, 9223372036854775807, 9223372036854775807)", "(4611686018427387904, 4)"])
def test_an_array_of_a_shape_that_is_too_large_is_none(shape: str, tmp_path: Path) -> None:
    head = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}}}".encode()
    odd = b"\x93NUMPY\1\0" + len(head).to_bytes(2, "little") + head
    ds = leat.open(write(tmp_path / "a.tar", [("a.npy", npy(np.zeros(3))), ("b.npy", odd)]))
    assert ds.schema["npy"].shape == (3,)
    with pytest.raises(leat.Error, match=r"a\.tar is wrong: its shape is too large"):
        ds[1]


def test_many_compressed_tars_need_a_limit_that_is_said(tmp_path: Path) -> None:
    for i in range(60):
        (tmp_path / f"{i:02}.tar.gz").write_bytes(gzip.compress(GOOD))
    code = (
        "import leat, resource, sys; resource.setrlimit(resource.RLIMIT_NOFILE, (60, 60))\n"
        "try: leat.open(sys.argv[1])\nexcept leat.Error as e: print(e)"
    )
    pattern = str(tmp_path / "{00..59}.tar.gz")
    out = subprocess.run([sys.executable, "-c", code, pattern], capture_output=True, text=True, check=False)
    assert "keeps two open: raise the limit (ulimit -n)" in out.stdout, out.stderr


def test_a_tar_within_a_tar_is_bytes(tmp_path: Path) -> None:
    inner = tar([("a.txt", b"1")])
    ds = leat.open(write(tmp_path / "a.tar", [("k.tar", inner)]))
    assert ds[0]["tar"] == inner


@pytest.mark.parametrize("cut", [1, 100, 512, 513, 700, 1024, 1100])
def test_a_cut_tar_never_gives_other_values(cut: int, tmp_path: Path) -> None:
    data = tar([("a.txt", b"1" * 600), ("b.txt", b"2" * 600)])[: 2 * 512 + 1024 + 512]
    try:
        ds = leat.open(write(tmp_path / "a.tar", data[:-cut]))
        assert all(s["txt"] in ("1" * 600, "2" * 600) for s in ds)
    except leat.Error as e:
        assert "a.tar" in str(e)


def test_tars_stay_open_as_far_as_the_process_has_room(tmp_path: Path) -> None:
    tars = [write(tmp_path / f"{k:03}.tar", tar([("a.txt", b"%d" % k)])) for k in range(150)]
    code = """if True:
        import os, resource, sys
        resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100))
        import leat
        ds = leat.open(sys.argv[1:], fields={"txt": "str"})
        read = lambda n: os.path.exists(f"/proc/self/fd/{n}") and os.readlink(f"/proc/self/fd/{n}")
        opened = [f for f in map(read, os.listdir("/proc/self/fd")) if f and f.endswith(".tar")]
        assert len(opened) == 50, opened
        assert [s["txt"] for s in ds] == [str(k) for k in range(150)]
        del ds
        assert not [f for f in map(read, os.listdir("/proc/self/fd")) if f and f.endswith(".tar")]
        assert len(leat.open(sys.argv[1:3])) == 2"""
    subprocess.run([sys.executable, "-c", code, *map(str, tars)], check=True)


@pytest.mark.parametrize("kept", [True, False])
def test_a_tar_that_is_cut_or_changed_is_an_error(kept: bool, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    if not kept:
        request.getfixturevalue("no_file_stays_open")
    data = tar([(f"{k}.txt", b"t" * 5000) for k in range(20)])
    ds = leat.open(write(tmp_path / "a.tar", data), fields={"txt": "str"})
    assert ds[0]["txt"] == "t" * 5000
    for other in (data[: len(data) // 2], b"", data + b"x"):
        (tmp_path / "a.tar").write_bytes(other)
        with pytest.raises(leat.ChangedError, match=r"a\.tar was changed after it was opened"):
            ds[15]
    (tmp_path / "a.tar").unlink()
    with pytest.raises(leat.ChangedError, match=r"a\.tar was (changed|removed)"):
        ds[15]


def test_verify_decodes_compressed_tars(tmp_path: Path) -> None:
    data = tar([(f"{k}.txt", b"t" * 5000) for k in range(20)])
    packed = bytearray(gzip.compress(data))
    verify = [os.environ["LEAT_CLI"], "verify"]
    path = write(tmp_path / "a.tar.gz", bytes(packed))
    leat.open(path)
    done = subprocess.run([*verify, path], capture_output=True, text=True, check=False)
    assert done.returncode == 0 and ": whole; " in done.stdout, done
    when = path.stat().st_mtime_ns
    packed[-5] ^= 1  # the CRC-32
    path.write_bytes(packed)
    os.utime(path, ns=(when, when))
    done = subprocess.run([*verify, path], capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "a.tar.gz" in done.stdout, done
    done = subprocess.run([*verify, write(tmp_path / "b.tar", data)], capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "data of format 'tar' carry no checksums" in done.stderr, done
    pickled = write(tmp_path / "c.tar.gz", gzip.compress(tar([("a.pkl", b"x")])))
    assert ": whole; " in subprocess.run([*verify, pickled], capture_output=True, text=True, check=False).stdout


def test_verify_says_whether_frames_of_zstd_have_checksums(tmp_path: Path) -> None:
    data = tar([(f"{k}.bin", bytes(np.random.default_rng(k).integers(0, 256, 5000, "u1"))) for k in range(4)])
    half = len(data) // 2
    for name, sums, said in (
        ("none", (False, False), "every block decodes; there are no checksums to compare with"),
        ("some", (True, False), "every block decodes; some have no checksums to compare with"),
        ("all", (True, True), "whole"),
    ):
        frames = [stored_zstd(data[:half], sums[0]), stored_zstd(data[half:], sums[1])]
        path = write(tmp_path / f"{name}.tar.zst", b"".join(frames))
        done = subprocess.run([os.environ["LEAT_CLI"], "verify", path], capture_output=True, text=True, check=False)
        assert done.returncode == 0 and f": {said}; " in done.stdout, done
