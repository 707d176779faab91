"""Chunks of LitData in place: their four layouts, trees of values and tokens; lying ones."""

from __future__ import annotations

import contextlib
import functools
import itertools
import json
import os
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli_support import leat as shell
from items_made import batches, item, pil, stored_zstd, table, write_litdata

import leat


@pytest.fixture(autouse=True)
def _quiet(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))


def sized(*bodies: bytes) -> bytes:
    return item(list(bodies), [False] * len(bodies))


def numpy_leaf(array: Any, index: int) -> bytes:
    return struct.pack(f"<{2 + array.ndim}I", index, array.ndim, *array.shape) + bytes(array.tobytes())


def tensor_leaf(array: Any, index: int) -> bytes:
    return struct.pack(f">{2 + array.ndim}I", index, array.ndim, *array.shape) + bytes(array.tobytes())


def plain(folder: Path, tree: Any, formats: list[str], items: list[bytes], **more: Any) -> Path:
    return write_litdata(folder, tree, formats, [("chunk-0-0.bin", table(items), {"chunk_size": len(items)})], **more)


def compress() -> Callable[[bytes], bytes]:
    codec = pytest.importorskip("pyarrow").Codec("zstd")
    return lambda data: codec.compress(data, asbytes=True)


def test_leaves_are_fields_named_by_their_keys(tmp_path: Path) -> None:
    a = np.arange(6, dtype="<f4").reshape(2, 3)
    tree = {"n": 0, "deep": {"x": 0, "list": [0, {"flag": 0}]}, "a": 0, "t": 0, "bare": 0, "p": 0}
    formats = ["int", "float", "str", "bool", "numpy", "tensor", "no_header_numpy:5", "pil"]
    bodies = (
        struct.pack("<q", -3), struct.pack("<d", 0.5), b"text", b"\1", numpy_leaf(a, 9),
        tensor_leaf(a.astype("i8"), 17),
        np.arange(4, dtype="<u2").tobytes(), pil(1, 2, b"L", b"ab"),
    )  # fmt: skip
    ds = leat.open(plain(tmp_path / "d", tree, formats, [sized(*bodies)] * 3))
    assert list(ds.schema) == ["n", "deep.x", "deep.list.0", "deep.list.1.flag", "a", "t", "bare", "p"]
    sample = ds[2]
    assert sample["n"] == -3 and sample["deep.x"] == 0.5 and sample["deep.list.0"] == "text"
    assert sample["deep.list.1.flag"] is np.True_ or sample["deep.list.1.flag"]
    assert np.array_equal(sample["a"], a) and sample["t"].dtype == np.int64 and np.array_equal(sample["t"], a)
    assert sample["bare"].tolist() == [0, 1, 2, 3] and ds.schema["bare"].shape == (4,)
    assert sample["p"] == b"P5\n1 2\n255\nab"
    bare = leat.open(plain(tmp_path / "e", 0, ["int"], [sized(bytes(8))]))
    assert bare[0] == {"data": 0}
    listed = leat.open(plain(tmp_path / "f", [0, 0], ["int", "str"], [sized(bytes(8), b"x")]))
    assert listed[0] == {"_0": 0, "_1": "x"}
    files = leat.open(plain(tmp_path / "g", [0] * 3, ["image:jpg", "image:png", "text"], [sized(b"j", b"p", b"t")]))
    assert files[0] == {"_0": b"j", "_1": b"p", "_2": "t"} and files.schema["_1"] == leat.field("image")


def test_the_four_layouts_are_the_same_data_set(tmp_path: Path) -> None:
    zstd = compress()
    items = [sized(b"%d" % i * i, struct.pack("<q", i)) for i in range(7)]
    tree, formats = {"x": 0, "n": 0}, ["bytes", "int"]
    says = {"chunk_size": 7}
    data = table(items)
    ds = leat.open(write_litdata(tmp_path / "plain", tree, formats, [("a.bin", data, says)]))
    at = 4 + 4 * 8
    frames = [zstd(one) for one in items]
    single = table(frames)
    assert single[at:] == b"".join(frames)
    others = {
        "chunk": ("a.zstd.bin", zstd(data), says | {"chunk_bytes": len(data)}, {}),
        "sample": ("a.bin", single, says, {"compression_level": "sample"}),
        "batch": ("a.bin", batches(items, zstd, 3), says, {"compression_level": "batch"}),
    }
    for name, (file, stored, said, more) in others.items():
        folder = write_litdata(tmp_path / name, tree, formats, [(file, stored, said)], compression="zstd", **more)
        for _ in range(2):
            other = leat.open(folder)
            assert other.fingerprint == ds.fingerprint
            assert [s["x"] for s in other] == [s["x"] for s in ds] and other[3] == ds[3]
        (folder / "index.json.leat-index").unlink()
        for cut in (len(stored) - 1, len(stored) // 2, 30, 3, 0):
            (folder / file).write_bytes(stored[:cut])
            with pytest.raises(leat.Error, match=r"a\.(zstd\.)?bin"):
                leat.open(folder)
        for change in range(0, len(stored), 7):
            bad = bytearray(stored)
            bad[change] ^= 0x55
            (folder / file).write_bytes(bad)
            with contextlib.suppress(leat.Error, UnicodeDecodeError):
                for sample in leat.open(folder, index_dir=tmp_path / f"i{change}"):
                    assert len(sample["x"]) < 1000
    (tmp_path / "chunk" / "a.bin").write_bytes(data)  # as LitData's reader leaves it
    (tmp_path / "chunk" / "a.zstd.bin").unlink()
    assert leat.open(tmp_path / "chunk").fingerprint == ds.fingerprint


def tokens(folder: Path, documents: list[list[int]], **says: Any) -> Path:
    values = np.concatenate([np.array(d, "<i4") for d in documents])
    data = table([np.array(d, "<i4").tobytes() for d in documents])
    chunk = ("chunk-0-0.bin", data, {"chunk_size": len(documents), "dim": len(values)} | says)
    return write_litdata(folder, 0, ["no_header_tensor:16"], [chunk], item_loader="TokensLoader")


def test_tokens_are_rows_of_a_block(tmp_path: Path) -> None:
    folder = tokens(tmp_path / "d", [list(range(10)), list(range(10, 23))])
    ds = leat.open(folder, block=5)
    assert ds.schema["tokens"].shape == (5,) and ds.schema["tokens"].dtype == "int32"
    assert np.concatenate([s["tokens"] for s in ds]).tolist() == list(range(20))
    assert len(leat.open(folder, block=23)) == 1 and len(leat.open(folder, block=24)) == 0
    assert leat.open(folder, block=4).fingerprint != leat.open(folder, block=5).fingerprint
    with pytest.raises(ValueError, match="block"):
        leat.open(folder)
    with pytest.raises(ValueError, match="block"):
        leat.open(folder, block=0)
    with pytest.raises(ValueError, match="borders of their own"):
        leat.open(plain(tmp_path / "p", 0, ["int"], [sized(bytes(8))]), block=2)
    with pytest.raises(ValueError, match="block is about"):
        leat.open(__file__, format="text", block=2)
    for says in ({"dim": 1 << 40}, {"dim": None}, {"chunk_size": 3}, {"chunk_bytes": 10}, {"dim": 24}):
        with pytest.raises(leat.Error):
            leat.open(tokens(tmp_path / "lie", [list(range(10)), list(range(10, 23))], **says), block=1)


def test_tables_that_older_writers_do_not_count_may_be_left_out(tmp_path: Path) -> None:
    zstd = compress()
    items = [sized(b"%d" % i * i, struct.pack("<q", i)) for i in range(7)]
    data, tree, formats = table(items), {"x": 0, "n": 0}, ["bytes", "int"]
    says = {"chunk_size": 7, "chunk_bytes": len(data) - 4 * 9}
    plain = leat.open(write_litdata(tmp_path / "plain", tree, formats, [("a.bin", data, says)]))
    packed = write_litdata(
        tmp_path / "chunk", tree, formats, [("a.zstd.bin", zstd(data), says)], compression="zstd"
    )  # fmt: skip
    assert [s["n"] for s in plain] == list(range(7)) and leat.open(packed).fingerprint == plain.fingerprint
    rows = tokens(tmp_path / "t", [list(range(10))], chunk_bytes=40)
    assert leat.open(rows, block=5)[1]["tokens"].tolist() == list(range(5, 10))
    for wrong in (len(data) - 4 * 8, len(data) - 4 * 10):
        says["chunk_bytes"] = wrong
        with pytest.raises(leat.Error, match=r"a\.bin has"):
            leat.open(write_litdata(tmp_path / str(wrong), tree, formats, [("a.bin", data, says)]))


def test_verify_needs_no_block_and_says_whether_frames_have_checksums(tmp_path: Path) -> None:
    refused = shell("verify", tokens(tmp_path / "t", [list(range(10))]), code=2).stderr
    assert "data of format 'litdata' carry no checksums" in refused
    items = [sized(b"%d" % i * 50) for i in range(7)]
    for level, checksum in itertools.product(("chunk", "sample", "batch"), (False, True)):
        pack = functools.partial(stored_zstd, checksum=checksum)
        data = table(items)
        packed = {"chunk": pack(data), "sample": table([pack(i) for i in items]), "batch": batches(items, pack, 3)}
        stored = packed[level]
        name = "a.zstd.bin" if level == "chunk" else "a.bin"
        chunk = (name, stored, {"chunk_size": 7} | ({"chunk_bytes": len(data)} if level == "chunk" else {}))
        folder = write_litdata(
            tmp_path / f"{level}{checksum}", {"x": 0}, ["bytes"], [chunk], compression="zstd", compression_level=level
        )
        assert len(leat.open(folder)) == 7
        said = shell("verify", folder).stdout
        assert (": whole; " if checksum else "every block decodes; there are no checksums to compare with") in said
        when, at = (folder / name).stat().st_mtime_ns, stored.rindex(b"6" * 50)
        (folder / name).write_bytes(stored[:at] + b"7" + stored[at + 1 :])
        os.utime(folder / name, ns=(when, when))
        done = shell("verify", folder, code=int(checksum))
        assert (name if checksum else "every block decodes") in done.stdout and "whole" not in done.stdout
        if checksum:  # the file and the byte are said once
            line = done.stdout.splitlines()[0]
            assert line.count(name) == 1 and line.count("byte ") == 1, line


def test_advice_about_the_block_of_tokens_is_an_option_in_the_shell(tmp_path: Path) -> None:
    folder = tokens(tmp_path / "t", [list(range(10))])
    assert "--block N says how many tokens are a sample" in shell("info", folder, code=2).stderr
    assert "--block" in shell("verify", folder, "--block", 5, code=2).stderr  # which is not an option of it


def test_a_row_of_tokens_is_given_by_the_shell(tmp_path: Path) -> None:
    folder = tokens(tmp_path / "d", [list(range(10)), list(range(10, 23))])
    assert shell("cat", folder, "--block", 5, "--id", 1).stdout.split() == ["[5,", "6,", "7,", "8,", "9]"]


def test_what_leat_does_not_read_is_refused_by_name(tmp_path: Path) -> None:
    one = [sized(b"cos\nsystem\n.", bytes(8))]
    folder = plain(tmp_path / "p", {"odd": 0, "n": 0}, ["pickle", "int"], one)
    with pytest.raises(leat.Error, match=r'"odd".*pickles \(pickle\).*fields='):
        leat.open(folder)
    assert leat.open(folder, fields=["n"])[0] == {"n": 0}
    for leaf in ("video", "audio", "nifti", "mesh", "pdf", "graph", "no_header_numpy:99", "no_header_tensor:x", "tiff"):
        folder = plain(tmp_path / leaf.replace(":", "-"), {"odd": 0, "n": 0}, [leaf, "int"], one)
        with pytest.raises((leat.Error, ValueError), match=f'"odd".*"{leaf}".*does not read'):
            leat.open(folder)
        assert leat.open(folder, fields=["n"])[0] == {"n": 0}
    for k, (more, words) in enumerate((
        ({"encryption": {"level": "chunk"}}, "encrypted"),
        ({"ipc_compression": "zstd"}, "Arrow footer"),
        ({"temporal_schema": {}}, "temporal"),
        ({"item_loader": "ParquetLoader"}, "item_loader"),
        ({"compression": "lz4"}, "compression"),
        ({"compression": "zstd", "compression_level": "page"}, "compression_level"),
        ({"data_spec": None}, "data_spec"),
    )):  # fmt: skip
        with pytest.raises(leat.Error, match=words):
            leat.open(plain(tmp_path / f"o{k}", {"odd": 0, "n": 0}, ["str", "int"], one, **more))
    footer = table([b"", b""]) + b"arrow" + b"LDARW01\0"
    with pytest.raises(leat.Error, match="Arrow footer"):
        leat.open(write_litdata(tmp_path / "a", {"x": 0}, ["str"], [("c.bin", footer, {"chunk_size": 2})]))


GOOD = [sized(b"ab", bytes(8))] * 3


def changed(change: Callable[[dict[str, Any]], None]) -> Callable[[Path], None]:
    def lie(folder: Path) -> None:
        index = json.loads((folder / "index.json").read_text())
        change(index)
        (folder / "index.json").write_text(json.dumps(index))

    return lie


def put(at: int, value: int) -> Callable[[Path], None]:
    def lie(folder: Path) -> None:
        data = bytearray((folder / "chunk-0-0.bin").read_bytes())
        data[at : at + 4] = struct.pack("<I", value)
        (folder / "chunk-0-0.bin").write_bytes(data)

    return lie


LYING: dict[str, Callable[[Path], None]] = {
    "a path above": changed(lambda i: i["chunks"][0].update(filename="../x/chunk-0-0.bin")),
    "an absolute path": changed(lambda i: i["chunks"][0].update(filename="/etc/passwd")),
    "more samples": changed(lambda i: i["chunks"][0].update(chunk_size=4)),
    "2^60 samples": changed(lambda i: i["chunks"][0].update(chunk_size=1 << 60)),
    "other bytes": changed(lambda i: i["chunks"][0].update(chunk_bytes=5)),
    "no chunk_size": changed(lambda i: i["chunks"][0].pop("chunk_size") and None),
    "no chunks": changed(lambda i: i.update(chunks=[])),
    "fewer formats than leaves": changed(lambda i: i["config"].update(data_format=["str"])),
    "more formats than leaves": changed(lambda i: i["config"].update(data_format=["str", "int", "int"])),
    "a spec that is none": changed(lambda i: i["config"].update(data_spec="[1, 2]")),
    "a spec that is cut": changed(lambda i: i["config"].update(data_spec=i["config"]["data_spec"][:-9])),
    "a spec that is nested": changed(
        lambda i: i["config"].update(
            data_spec='[1, {"type": "l", "children_spec": [' + '{"type": "l", "children_spec": [' * 99
        )
    ),
    "keys that are no texts": changed(
        lambda i: i["config"].update(data_spec=i["config"]["data_spec"].replace('\\"n\\"', "7"))
    ),
    "a huge count": put(0, 0xFFFFFFFF),
    "an offset beyond": put(8, 0xFFFFFF00),
    "an offset in the table": put(4, 4),
    "a size of an int": put(4 + 16 + 4, 4),
    "a size beyond": put(4 + 16, 0xFFFFFFFF),
    "a chunk that is cut": lambda f: os.truncate(f / "chunk-0-0.bin", 30),
    "a chunk that is missing": lambda f: (f / "chunk-0-0.bin").unlink(),
}


@pytest.mark.parametrize("lie", LYING)
def test_a_folder_that_lies_is_an_error(lie: str, tmp_path: Path) -> None:
    folder = plain(tmp_path / "d", {"x": 0, "n": 0}, ["str", "int"], GOOD)
    assert leat.open(folder)[2] == {"x": "ab", "n": 0}
    (folder / "index.json.leat-index").unlink()
    LYING[lie](folder)
    with pytest.raises((leat.Error, ValueError, FileNotFoundError)) as caught:
        leat.open(folder, format="litdata")
    assert str(folder) in str(caught.value)


def test_frames_that_claim_too_much_are_refused(tmp_path: Path) -> None:
    zstd = compress()
    bomb = zstd(bytes(600 << 20))  # 600 MiB in some KB
    folder = write_litdata(
        tmp_path / "s", {"x": 0}, ["bytes"], [("a.bin", table([bomb]), {"chunk_size": 1})],
        compression="zstd", compression_level="sample",
    )  # fmt: skip
    with pytest.raises(leat.Error, match="384 MiB"):
        leat.open(folder)
    small = zstd(bytes(100 << 20))
    folder = write_litdata(
        tmp_path / "c",
        {"x": 0},
        ["bytes"],
        [("a.bin", small, {"chunk_size": 1, "chunk_bytes": 64})],
        compression="zstd",
    )
    with pytest.raises(leat.Error, match=r"a\.bin"):
        leat.open(folder)
