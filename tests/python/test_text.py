"""Plain text, compressed JSONL and the data sets of Megatron."""

from __future__ import annotations

import ctypes
import ctypes.util
import gzip
import json
import os
import struct
from pathlib import Path

import numpy as np
import pytest

import leat

DATA = os.environ.get("LEAT_DATA")
real = pytest.mark.skipif(not DATA, reason="LEAT_DATA names no folder")


LEVEL, CHECKSUM = 100, 201  # ZSTD_c_compressionLevel, ZSTD_c_checksumFlag


def zstd(data: bytes, level: int = 3, checksum: bool = False) -> bytes:
    """One frame of zstd, by the library that leat uses."""
    lib = ctypes.CDLL(ctypes.util.find_library("zstd") or "libzstd.so.1")
    lib.ZSTD_createCCtx.restype = ctypes.c_void_p
    lib.ZSTD_compressBound.restype = lib.ZSTD_compress2.restype = lib.ZSTD_CCtx_setParameter.restype = ctypes.c_size_t
    lib.ZSTD_compressBound.argtypes = [ctypes.c_size_t]
    lib.ZSTD_freeCCtx.argtypes = [ctypes.c_void_p]
    lib.ZSTD_CCtx_setParameter.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_int]
    lib.ZSTD_compress2.argtypes = [
        *(ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t),
        *(ctypes.c_char_p, ctypes.c_size_t),
    ]
    room = ctypes.create_string_buffer(lib.ZSTD_compressBound(len(data)))
    z = lib.ZSTD_createCCtx()
    lib.ZSTD_CCtx_setParameter(z, LEVEL, level)
    lib.ZSTD_CCtx_setParameter(z, CHECKSUM, checksum)
    size = lib.ZSTD_compress2(z, room, len(room), data, len(data))
    lib.ZSTD_freeCCtx(z)
    return room.raw[:size]


def records(n: int, size: int = 50) -> list[dict[str, object]]:
    rng = np.random.default_rng(5)
    return [{"n": i, "d": "abc"[i % 3], "t": rng.bytes(size).hex()} for i in range(n)]


def as_jsonl(rows: list[dict[str, object]]) -> bytes:
    return b"".join(json.dumps(r).encode() + b"\n" for r in rows)


def check(path: Path, rows: list[dict[str, object]], **options: object) -> leat.Dataset:
    ds = leat.open(str(path), **options)  # type: ignore[arg-type]
    assert len(ds) == len(rows)
    for i in np.random.default_rng(1).permutation(len(rows))[:300].tolist():
        assert ds[i] == rows[i]
    assert ds.column("n").tolist() == list(range(len(rows)))
    return ds


def test_a_zst_of_many_frames_is_read_in_place(tmp_path: Path) -> None:
    rows = records(300, 4000)  # too long for the index: they are read from the frames
    data = as_jsonl(rows)
    path = tmp_path / "a.jsonl.zst"
    path.write_bytes(b"".join(zstd(data[i : i + 40_000]) for i in range(0, len(data), 40_000)))
    first = check(path, rows)
    assert check(path, rows).fingerprint == first.fingerprint
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.jsonl.zst", "a.jsonl.zst.leat-index"]
    plain = tmp_path / "a.jsonl"
    plain.write_bytes(data)
    assert leat.open(str(plain)).fingerprint == first.fingerprint


def test_frames_with_checksums_as_the_zstd_command_writes_them_are_read(tmp_path: Path) -> None:
    rows = records(60, 4000)
    path = tmp_path / "a.jsonl.zst"
    frames = [zstd(as_jsonl(part), checksum=True) for part in (rows[:30], rows[30:])]
    assert all(frame[4] & 4 for frame in frames)
    path.write_bytes(b"".join(frames))
    check(path, rows)


def test_blocks_of_zstd_that_repeat_one_byte_are_read(tmp_path: Path) -> None:
    rows: list[dict[str, object]] = [{"n": i, "t": "abc"[i] * 400_000} for i in range(3)]
    path = tmp_path / "a.jsonl.zst"
    path.write_bytes(b"".join(zstd(as_jsonl([row])) for row in rows))
    assert path.stat().st_size < 1000
    check(path, rows)


def test_a_frame_that_ends_where_a_buffer_of_zstd_does_is_whole(tmp_path: Path) -> None:
    line = b'{"a": 1, "text": "' + b"x" * 45 + b'"}\n'
    for size in (128 << 10, 256 << 10, 9 << 20):  # 128 KiB is what the library gives out at once
        data = line * (size // len(line))
        data = data[: -len(line)] + line[:-1] + b" " * (size - len(data)) + b"\n"
        assert len(data) == size
        path = tmp_path / f"{size}.jsonl.zst"
        path.write_bytes(zstd(data))
        assert len(leat.open(path)) == size // len(line)
        path.with_name(f"twice-{size}.jsonl.zst").write_bytes(zstd(data) * 2)
        assert len(leat.open(path.with_name(f"twice-{size}.jsonl.zst"))) == 2 * (size // len(line))


def test_a_zst_of_one_long_frame_gets_a_copy_in_short_ones(tmp_path: Path) -> None:
    rows = records(9000, 500)
    path = tmp_path / "a.jsonl.zst"
    path.write_bytes(zstd(as_jsonl(rows), 1))
    check(path, rows)
    copy = tmp_path / "a.jsonl.zst.leat-frames.zst"
    assert copy.exists()
    check(path, rows)
    copy.unlink()
    check(path, rows)
    assert copy.exists()


def test_a_gz_is_read_from_anywhere(tmp_path: Path) -> None:
    rows = records(5000)
    data = as_jsonl(rows)
    path = tmp_path / "a.jsonl.gz"
    path.write_bytes(gzip.compress(data[:100_000]) + gzip.compress(data[100_000:]))
    check(path, rows, index_dir=tmp_path / "index")
    check(path, rows, index_dir=tmp_path / "index")
    assert [p.name for p in tmp_path.iterdir() if p.is_file()] == ["a.jsonl.gz"]


def test_a_compressed_file_without_a_place_for_its_index_is_read_all_the_same(tmp_path: Path) -> None:
    rows = records(2000)
    path = tmp_path / "locked" / "a.jsonl.gz"
    path.parent.mkdir()
    path.write_bytes(gzip.compress(as_jsonl(rows)))
    path.parent.chmod(0o555)
    try:
        check(path, rows)
        assert [p.name for p in path.parent.iterdir()] == ["a.jsonl.gz"]
    finally:
        path.parent.chmod(0o755)


@pytest.mark.parametrize("cut", [5, 1000, -3])
def test_a_compressed_file_that_is_cut_is_an_error(tmp_path: Path, cut: int) -> None:
    for name, data in (
        ("a.jsonl.zst", zstd(as_jsonl(records(500)))),
        ("a.jsonl.gz", gzip.compress(b'{"a":1}\n' * 999)),
    ):
        path = tmp_path / name
        path.write_bytes(data[: cut if cut < len(data) else -5])
        with pytest.raises(leat.CorruptError, match=name):
            leat.open(str(path))


def test_an_empty_file_has_no_records(tmp_path: Path) -> None:
    for name, data in (("a.jsonl", b""), ("b.jsonl.gz", gzip.compress(b"")), ("c.jsonl.zst", zstd(b""))):
        (tmp_path / name).write_bytes(data)
        assert len(leat.open(str(tmp_path / name))) == 0
        assert len(leat.open(str(tmp_path / name))) == 0


TEXT = "first line\n\n  second  \r\nthird\n \t\n\n\nlast é\n"


@pytest.mark.parametrize(
    ("documents", "want"),
    [
        ("line", ["first line", "  second  ", "third", "last é"]),
        ("paragraph", ["first line", "  second  \r\nthird", "last é"]),
        ("file", [TEXT]),
    ],
)
@pytest.mark.parametrize("packed", [False, True])
def test_documents_of_plain_text(tmp_path: Path, documents: str, want: list[str], packed: bool) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(zstd(TEXT.encode()) if packed else TEXT.encode())
    for _ in range(2):
        ds = leat.open(str(path), format="text", documents=documents)
        assert [ds[i]["text"] for i in range(len(ds))] == want
    two = leat.open([str(path), str(path)], format="text", documents=documents)
    assert [two[i]["text"] for i in range(len(two))] == want + want


@real
def test_wikitext_reads_as_python_reads_it(tmp_path: Path) -> None:
    path = Path(DATA or "", "text/wikitext-2/valid.txt")
    want = [x for x in path.read_text("utf-8").split("\n") if x.strip()]
    ds = leat.open(str(path), format="text", index_dir=tmp_path)
    assert [ds[i]["text"] for i in range(len(ds))] == want


def test_text_that_is_not_utf8_names_line_and_byte(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"good\n\xff\nalso\n")
    with pytest.raises(leat.CorruptError, match="line 2, byte 5: .*UTF-8"):
        leat.open(str(path), format="text")
    with pytest.warns(UserWarning, match="left out"):
        ds = leat.open(str(path), format="text", on_bad="skip")
    assert [ds[i]["text"] for i in range(len(ds))] == ["good", "also"]


GOLDEN = bytes.fromhex(
    "4d4d4944494458000001000000000000000802000000000000000300000000000000"
    "0300000002000000" + "00000000000000000600000000000000" + "000000000000000001000000000000000200000000000000"
)


def megatron(tmp_path: Path, index: bytes = GOLDEN, tokens: bytes = struct.pack("<5H", 1, 2, 3, 4, 5)) -> Path:
    (tmp_path / "a.bin").write_bytes(tokens)
    (tmp_path / "a.idx").write_bytes(index)
    return tmp_path / "a.idx"


@pytest.mark.parametrize("end", ["idx", "bin", ""])
def test_the_golden_index_of_megatron(tmp_path: Path, end: str) -> None:
    path = megatron(tmp_path)
    ds = leat.open(str(path.with_suffix(f".{end}" if end else "")), format="megatron")
    assert ds.schema["tokens"].dtype == "uint16"
    assert [ds[i]["tokens"].tolist() for i in range(len(ds))] == [[1, 2, 3], [4, 5]]


@real
@pytest.mark.parametrize("name", ["ag_news_prompt_inputs_document", "meg-gpt2-openwebtext_text_document"])
def test_megatron_reads_as_numpy_maps_it(name: str) -> None:
    prefix = Path(DATA or "", "formats/megatron", name)
    head = prefix.with_suffix(".idx").read_bytes()
    dtype = {1: "u1", 2: "i1", 3: "<i2", 4: "<i4", 5: "<i8", 6: "<f8", 7: "<f4", 8: "<u2"}[head[17]]
    n, d = struct.unpack("<QQ", head[18:34])
    lengths = np.frombuffer(head, "<i4", n, 34)
    offsets = np.frombuffer(head, "<i8", n, 34 + 4 * n)
    documents = np.frombuffer(head, "<i8", d, 34 + 12 * n)
    tokens = np.memmap(prefix.with_suffix(".bin"), dtype, "r")
    ds = leat.open(str(prefix) + ".idx")
    assert len(ds) == d - 1
    size = np.dtype(dtype).itemsize
    for i in range(len(ds)):
        parts = [
            tokens[offsets[k] // size : offsets[k] // size + lengths[k]] for k in range(documents[i], documents[i + 1])
        ]
        assert np.array_equal(ds[i]["tokens"], np.concatenate(parts))


@pytest.mark.parametrize("at", [*range(0, 82, 3), 17, 18, 26, 34, 42, 58])
def test_a_damaged_index_of_megatron_is_an_error_or_reads_within_its_file(tmp_path: Path, at: int) -> None:
    path = megatron(tmp_path, GOLDEN[:at] + bytes([GOLDEN[at] ^ 0x83]) + GOLDEN[at + 1 :])
    try:
        ds = leat.open(str(path), format="megatron")
    except ValueError as error:
        assert "a.idx" in str(error)
        return
    assert all(ds[i]["tokens"].nbytes <= 10 for i in range(len(ds)))


def test_a_cut_or_missing_bin_of_megatron_is_an_error(tmp_path: Path) -> None:
    path = megatron(tmp_path, tokens=b"\1\0\2\0\3\0\4\0")
    with pytest.raises(leat.CorruptError, match=r"sequence 1 has 2 tokens at byte 6 .*a\.bin"):
        leat.open(str(path))
    (tmp_path / "a.bin").unlink()
    with pytest.raises(FileNotFoundError, match=r"a\.bin is missing"):
        leat.open(str(path))


@pytest.mark.parametrize("dtype", ["uint8", "int16", "int32", "int64", "uint16", "float32"])
def test_write_megatron_writes_what_is_read_again(tmp_path: Path, dtype: str) -> None:
    rows = [np.arange(n, dtype=dtype) for n in (3, 0, 5, 1)]
    source = tmp_path / "a.leat"
    with leat.Writer(source, {"tokens": leat.field(dtype, (None,)), "n": "int64"}) as w:
        for i, row in enumerate(rows):
            w.add(tokens=row, n=i)
    leat.write_megatron(leat.open(source), tmp_path / "out")
    ds = leat.open(tmp_path / "out.idx")
    assert ds.schema["tokens"].dtype == dtype
    assert [ds[i]["tokens"].tolist() for i in range(4)] == [r.tolist() for r in rows]
    with pytest.raises(FileExistsError):
        leat.write_megatron(leat.open(source), tmp_path / "out")


def test_write_megatron_writes_the_golden_index(tmp_path: Path) -> None:
    ds = leat.open(str(megatron(tmp_path)))
    leat.write_megatron(ds, tmp_path / "b")
    assert (tmp_path / "b.idx").read_bytes() == GOLDEN
    assert (tmp_path / "b.bin").read_bytes() == (tmp_path / "a.bin").read_bytes()


def test_write_megatron_refuses_types_that_it_cannot_say(tmp_path: Path) -> None:
    source = tmp_path / "a.leat"
    with leat.Writer(source, {"tokens": leat.field("uint32", (None,))}) as w:
        w.add(tokens=np.array([1, 2**31], "uint32"))
    with pytest.raises(ValueError, match=r"sample 0 .*2147483648"):
        leat.write_megatron(leat.open(source), tmp_path / "out")
    assert not list(tmp_path.glob("out*"))


@pytest.mark.parametrize("documents", ["line", "paragraph", "file"])
@pytest.mark.parametrize("packed", [False, True])
def test_the_line_of_a_byte_that_is_not_utf8_is_its_own(tmp_path: Path, documents: str, packed: bool) -> None:
    """60 drawn texts with one bad byte each, of which Python says the line."""
    rnd = np.random.default_rng(5)
    for number in range(60):
        parts = rnd.choice([b"\n", b"\n", b"\r\n", b"ab", "é".encode(), b" ", b"x\n\n"], rnd.integers(1, 200)).tolist()
        at = int(rnd.integers(len(parts) + 1))
        text, head = b"".join([*parts[:at], b"\xff", *parts[at:]]), b"".join(parts[:at])
        path = tmp_path / f"{number}.txt"
        path.write_bytes(zstd(text) if packed else text)
        where = f"line {head.count(10) + 1}, byte {len(head)}: "
        with pytest.raises(leat.CorruptError, match=where):
            leat.open(str(path), format="text", documents=documents)
        with pytest.warns(UserWarning, match=where):
            leat.open(str(path), format="text", documents=documents, on_bad="skip")
