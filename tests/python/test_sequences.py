"""FASTA and FASTQ in place, against a parser of ten lines."""

from __future__ import annotations

import gzip
import itertools
import os
import pickle
import random
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sequences_made import END, bgzf, fai

import leat

Records = list[tuple[str, str, bytes]]


def parse(data: bytes) -> Records:
    """Name, description and residues of each record of FASTA."""
    records: Records = []
    for text in data.decode().splitlines():
        if text.startswith(">"):
            name, _, description = text[1:].rstrip().replace("\t", " ", 1).partition(" ")
            records.append((name, description.lstrip(), b""))
        elif text.split():
            name, description, residues = records[-1]
            records[-1] = name, description, residues + "".join(text.split()).encode()
    return records


def read(ds: leat.Dataset) -> Records:
    return [(x["name"], x["description"], x["sequence"].tobytes()) for x in ds]


def opened(folder: Path, data: bytes, suffix: str = ".fa", **options: Any) -> leat.Dataset:
    path = folder / f"a{suffix}"
    path.write_bytes(data)
    return leat.open(str(path), **options)


CASES = {
    "one": b">a b c\nACGT\n",
    "lines": b">a\nACGT\nACGT\nAC\n>b\nACGTA\nC\n",
    "no end": b">a\nACGT\nAC",
    "crlf": b">a b\r\nACGT\r\nACGT\r\nA\r\n>b\r\nA\r\n",
    "empty records": b">a\n>b\n\n>c\nAC\n\n\n>d",
    "empty names": b">\nAC\n> a\nC\n>\t b\n",
    "repeated names": b">a\nAC\n>a\nCC\n>a\nAC\n",
    "lower case": b">a\nacgtNNNNacgt\nnnAC\n",
    "blank lines": b"\n\n>a\nACGT\n\nACGT\n\n\nAC\n>b\n\nACGT\nA\n",
    "growing lines": b">a\n" + b"".join(b"A" * n + b"\n" for n in range(1, 50)) + b">b\nACGT\n",
    "a longer line": b">a\nACGT\nACGTACGT\nACGT\n",
    "a short line": b">a\nACGT\nAC\nACGT\n",
    "blanks": b">a\nACGT  \nAC GT\t\nA\n>b\n ACGT\nACGT\n",
    "mixed ends": b">a\nACGT\r\nACGT\nACGT\n>b x \r\nACGT\nACGT\r\nAC\n",
    "other signs": b">a\nAC-*.T\n>b|c;d=e \xc3\xa9\nMK[U]xX*\n",
    "a byte order mark": b"\xef\xbb\xbf>a\nACGT\n",
    "a mark within a description": b">a >b\nACGT\nAC\n",
}


@pytest.mark.parametrize("case", CASES)
def test_each_way_to_write_a_file_gives_its_records(tmp_path: Path, case: str) -> None:
    data = CASES[case]
    expected = parse(data.removeprefix(b"\xef\xbb\xbf"))
    found = [opened(tmp_path, data), opened(tmp_path, data, ".x", format="fasta")]
    found += [opened(tmp_path, gzip.compress(data), ".fa.gz"), opened(tmp_path, bgzf(data, 7)[0], ".fa.bgz")]
    found += [opened(tmp_path, bgzf(data, 2)[0], ".2.fa.bgz")]  # a mark lies in two of its blocks
    for ds in [*found, *(leat.open(str(tmp_path / f"a{s}")) for s in (".fa", ".fa.gz", ".fa.bgz"))]:
        assert read(ds) == expected
        assert ds.fingerprint == found[0].fingerprint
        assert ds.column("sequence.length").tolist() == [len(r) for *_, r in expected]
    assert list(found[0].schema) == ["name", "description", "sequence"]
    assert found[0].schema["sequence"] == leat.field("uint8", (None,))


def drawn(seed: int) -> tuple[bytes, list[bytes]]:
    """A file of records with any folding, and their residues."""
    r = random.Random(seed)
    data, residues = b"", []
    for k in range(r.randint(1, 12)):
        width, n = r.choice([1, 3, 60, 61, 1000]), r.choice([0, 1, 59, 60, 61, 3000, 20000])
        text = bytes(r.choices(b"ACGTNacgt*-", k=n))
        residues.append(text)
        end = r.choice([b"\n", b"\r\n"])
        data += b">r%d something\n" % k
        at = 0
        while at < n:
            step = width if r.random() < 0.999 else r.randint(1, 3 * width)
            data += text[at : at + step] + (end if r.random() < 0.998 else b" \n\n")
            at += step
    return data, residues


@pytest.mark.parametrize("seed", range(8))
def test_drawn_files_in_pieces_and_whole(tmp_path: Path, seed: int) -> None:
    data, residues = drawn(seed)
    ds = opened(tmp_path, data)
    assert [x["sequence"].tobytes() for x in ds] == residues
    loader = leat.Loader(ds, batch_size=3, shuffle=True, framework="numpy", outputs={"sequence": []}, num_threads=2)
    seen = {int(i): row.tobytes() for b in loader for i, row in zip(b.ids, b["sequence"], strict=True)}
    assert seen == dict(enumerate(residues))


FASTQ = b"@a b\nACGT\n+\n!~@+\n\n@b\nACG\nT\n+b\n@@@\n@\n@c\n\n+\n\n@d\r\nAC\r\n+d\r\n!!\r\n"


def test_fastq_of_one_and_of_several_lines(tmp_path: Path) -> None:
    expected = [("a", b"ACGT", b"!~@+"), ("b", b"ACGT", b"@@@@"), ("c", b"", b""), ("d", b"AC", b"!!")]
    found = [opened(tmp_path, FASTQ, ".fq"), opened(tmp_path, bgzf(FASTQ, 9)[0], ".fq.gz")]
    for ds in found:
        assert [(x["name"], x["sequence"].tobytes(), x["quality"].tobytes()) for x in ds] == expected
        assert ds.fingerprint == found[0].fingerprint
    assert found[0].schema["quality"] == leat.field("uint8", (None,))


# The faults of Biopython's error_*.fastq, by its names there, and more; with the line that is told, and what.
BROKEN = {
    "diff_ids": (b"@a\nAC\n+b\n!!\n", 3, "another name"),
    "diff_description": (b"@a b\nAC\n+a c\n!!\n", 3, "another name"),
    "double_qual": (b"@a\nAC\n+\n!!\n!!\n", 5, "does not begin with @"),
    "double_seq": (b"@a\nAC\nAC\n+\n!!\n", 5, "4 residues and 2 qualities"),
    "long_qual": (b"@a\nAC\n+\n!!!\n", 4, "2 residues and at least 3 qualities"),
    "no_qual": (b"@a\nAC\n+\n", 3, "2 residues and 0 qualities"),
    "qual_del": (b"@a\nAC\n+\n!\x7f\n", 4, "0x7f"),
    "qual_escape": (b"@a\nAC\n+\n!\x1b\n", 4, "0x1b"),
    "qual_null": (b"@a\nAC\n+\n!\0\n", 4, "0x00"),
    "qual_space": (b"@a\nACG\n+\n! !\n", 4, "0x20"),
    "qual_tab": (b"@a\nACG\n+\n!\t!\n", 4, "0x09"),
    "qual_unit_sep": (b"@a\nAC\n+\n!\x1f\n", 4, "0x1f"),
    "qual_vtab": (b"@a\nACG\n+\n!\v!\n", 4, "0x0b"),
    "short_qual": (b"@a\nAC\n+\n!\n@b\nAC\n+\n!!\n", 5, "2 residues and at least 3 qualities"),
    "spaces": (b"@a\nA C\n+\n!!!\n", 2, "0x20"),
    "tabs": (b"@a\nA\tC\n+\n!!!\n", 2, "0x09"),
    "trunc_at_plus": (b"@a\nAC\n+", 3, "2 residues and 0 qualities"),
    "trunc_at_qual": (b"@a\nAC\n+\n\n", 4, "2 residues and 0 qualities"),
    "trunc_at_seq": (b"@a\n", 1, "ends in the middle"),
    "trunc_in_plus": (b"@abc\nAC\n+a", 3, "another name"),
    "trunc_in_qual": (b"@a\nAC\n+\n!", 4, "2 residues and 1 qualities"),
    "trunc_in_seq": (b"@a\nA", 2, "ends in the middle"),
    "trunc_in_title": (b"@a", 1, "ends in the middle"),
    "no plus": (b"@a\nAC\n@b\nAC\n+\n!!\n", 3, "no line with +"),
    "FASTA": (b">a\nAC\n", 1, "does not begin with @"),
}


def test_what_is_wrong_is_found_wherever_pieces_end(tmp_path: Path) -> None:
    """Bytes come in pieces of blocks: white space within a line is an error at each border."""
    data = b"@a\nACGT ACGT\n+\n!!!!!!!!\n"
    for block in range(1, len(data) + 1):
        with pytest.raises(leat.CorruptError, match="among its residues"):
            opened(tmp_path, bgzf(data, block)[0], f".{block}.fq.gz")


@pytest.mark.parametrize("case", BROKEN)
def test_broken_fastq_is_refused_with_file_line_and_byte(tmp_path: Path, case: str) -> None:
    data, line, what = BROKEN[case]
    good = b"@good\nACGT\n+\n!!!!\n"
    with pytest.raises(leat.CorruptError, match=what) as e:
        opened(tmp_path, good + data, ".fq")
    assert str(tmp_path / "a.fq") in str(e.value) and f"line {line + 4}, byte " in str(e.value)
    assert e.value.file == str(tmp_path / "a.fq") and len(good) <= e.value.offset <= len(good + data)
    if case not in ("FASTA", "double_qual"):
        assert "record 1 (" in str(e.value)


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"ACGT\n>a\nACGT\n", "line 1, byte 0: there are residues before a first line with a name"),
        (b"\n  \nx>a\nACGT\n", "line 3, byte 4"),
        (b">a\nACGT\n>b\nAC\0T\n", r"line 4, byte 13, record 1 \(b\): the byte 0x00 stands among its residues"),
        (b">a\nAC\xc3\xa9\n", r"line 2, byte 5, record 0 \(a\): the byte 0xc3"),
        (b">a\xff\nAC\n", r"line 1, byte 2, record 0 \(\): its first line is no text: it holds the byte 0xff"),
        (b">a\nAC\n  >b\nGT\n", r"line 3, byte 8, record 0 \(a\): white space stands before the > of this line"),
        (b">a\rACGT\r", "line 1, byte 2.*0x0d.*old Macs"),
        (b">a\nACGT>b d\nGT\n", r"line 2, byte 7, record 0 \(a\): a > stands among its residues"),  # of cat a.fa b.fa
        (b">a\nACGT\r>b\rGT", r"line 2, byte 8, record 0 \(a\): a > stands among its residues"),
        (b"", "is empty"),
        (b"\n\n", "is empty: there is no record"),
    ],
)
def test_broken_fasta_is_refused_with_file_line_and_byte(tmp_path: Path, data: bytes, what: str) -> None:
    for options in ({"format": "fasta"}, {}):
        with pytest.raises((leat.CorruptError, leat.FormatError), match=what) as e:
            opened(tmp_path, data, **options)
        assert str(tmp_path / "a.fa") in str(e.value)


def test_the_other_format_is_named(tmp_path: Path) -> None:
    with pytest.raises(leat.CorruptError, match=r'line 1, byte 0: it begins with @, as files of FASTQ do: .*"fastq"'):
        opened(tmp_path, b"@a\nAC\n+\nII\n", format="fasta")
    with pytest.raises(leat.CorruptError, match=r'line 2, byte 1: it begins with >, as files of FASTA do: .*"fasta"'):
        opened(tmp_path, b"\n>a\nAC\n", ".fq", format="fastq")


def test_an_empty_compressed_file(tmp_path: Path) -> None:
    for data in (gzip.compress(b""), END):
        with pytest.raises(leat.FormatError, match="is empty"):
            opened(tmp_path, data, ".fa.gz")


def test_long_names_and_long_lines(tmp_path: Path) -> None:
    name, line = b"n" * 1_000_000, os.urandom(1 << 20).hex().encode() * 32
    ds = opened(tmp_path, b">" + name + b" d\n" + line + b"\n>b\nAC\n")
    assert ds[0]["name"] == name.decode() and ds[0]["sequence"].tobytes() == line
    assert read(ds)[1] == ("b", "", b"AC")


def test_bgzf_with_and_without_its_table(tmp_path: Path) -> None:
    data, residues = drawn(3)
    packed, gzi = bgzf(data, 1000)
    for table in (None, gzi, gzi[:-16], gzi[:8] + bytes(len(gzi) - 8), bgzf(data, 999)[1], b"", os.urandom(64)):
        for made in tmp_path.glob("a.*"):
            made.unlink()
        if table is not None:
            (tmp_path / "a.fa.gz.gzi").write_bytes(table)
        assert [x["sequence"].tobytes() for x in opened(tmp_path, packed, ".fa.gz")] == residues
        assert not list(tmp_path.glob("*.zst")), "a file of blocks needs no copy"


def test_a_table_of_blocks_that_lies_is_told(tmp_path: Path) -> None:
    packed, gzi = bgzf(LONG, 1000)
    shifted = bytearray(gzi)
    shifted[32:40] = (1999).to_bytes(8, "little")  # the third block, among the decoded bytes
    (tmp_path / "a.fa.gz.gzi").write_bytes(shifted)
    with pytest.raises(leat.CorruptError, match=r"\.gzi says"):
        opened(tmp_path, packed, ".fa.gz")
    places = np.frombuffer(gzi, "<u8")[1:].reshape(-1, 2).copy()
    places[2:, 1] -= 1000  # as if there were no third block
    places = np.delete(places, 2, 0)
    (tmp_path / "a.fa.gz.gzi").write_bytes(len(places).to_bytes(8, "little") + places.tobytes())
    with pytest.raises(leat.CorruptError, match=r"\.gzi says"):
        opened(tmp_path, packed, ".fa.gz")


@pytest.mark.parametrize("fault", ["end", "block", "crc", "behind"])
def test_damaged_bgzf(tmp_path: Path, fault: str) -> None:
    data = drawn(4)[0]
    packed = bytearray(bgzf(data, 5000)[0])
    if fault == "end":
        del packed[-len(END) :]
    elif fault == "block":
        del packed[len(packed) // 2 : len(packed) // 2 + 10]
    elif fault == "crc":
        packed[-len(END) - 7] ^= 1
    else:
        packed += b"x"
    with pytest.raises(leat.CorruptError, match=r"at byte \d+ of the compressed file") as e:
        opened(tmp_path, bytes(packed), ".fa.gz")
    assert e.value.file == str(tmp_path / "a.fa.gz")


@pytest.mark.parametrize("where", ["first", "middle", "last"])
def test_a_block_that_says_it_is_empty_and_is_not(tmp_path: Path, where: str) -> None:
    packed = bytearray(bgzf(LONG, 5000)[0])
    starts = [0]
    while starts[-1] < len(packed) - len(END):
        starts.append(starts[-1] + int.from_bytes(packed[starts[-1] + 16 : starts[-1] + 18], "little") + 1)
    end = starts[{"first": 1, "middle": len(starts) // 2, "last": len(starts) - 1}[where]]
    packed[end - 4 : end] = bytes(4)
    for table in (None, bgzf(LONG, 5000)[1]):
        if table is not None:
            (tmp_path / "a.fa.gz.gzi").write_bytes(table)
        with pytest.raises(leat.CorruptError, match="compressed file"):
            read(opened(tmp_path, bytes(packed), ".fa.gz"))


# ---- .fai ------------------------------------------------------------------------------------------

LONG = b"".join(b">c%d x\n" % k + (b"ACGTACGTAC" * 6 + b"\n") * 2000 + b"ACG\n" for k in range(3))


def test_a_fai_that_fits_is_used_and_gives_the_same(tmp_path: Path) -> None:
    own = opened(tmp_path, LONG)
    expected, fingerprint = read(own), own.fingerprint
    for suffix, data in ((".2.fa", LONG), (".fa.gz", bgzf(LONG)[0])):
        (tmp_path / f"a{suffix}.fai").write_bytes(fai(LONG))
        ds = opened(tmp_path, data, suffix)
        assert read(ds) == expected and ds.fingerprint == fingerprint
    # a line that ends elsewhere, where nobody looked: reading it says so, and says that it is the .fai
    at = LONG.index(b"\n", 60_000)
    damaged = LONG[:at] + b"A\n" + LONG[at + 1 : at + 60] + LONG[at + 61 :]
    (tmp_path / "a.3.fa.fai").write_bytes(fai(LONG))
    ds = opened(tmp_path, damaged, ".3.fa")
    with pytest.raises(leat.ChangedError, match=r"record 0, byte \d+: its lines do not end where .*\.fai says"):
        ds[0]
    (tmp_path / "a.3.fa.fai").unlink()
    assert read(leat.open(str(tmp_path / "a.3.fa"))) == parse(damaged)


@pytest.mark.parametrize("kept", ["fai", "index"])
def test_a_header_is_never_residues(tmp_path: Path, kept: str) -> None:
    """A line that became a first line, of the same width, behind the .fai or the index."""
    records = b">c0\n" + (b"ACGTACGTAC" * 6 + b"\n") * 40_000
    at = 4 + 61 * 20_001
    changed = records[:at] + b">c1" + records[at + 3 :]
    path = tmp_path / "a.fa"
    path.write_bytes(records)
    if kept == "fai":
        (tmp_path / "a.fa.fai").write_bytes(fai(records))
    leat.open(str(path))
    times = path.stat()
    path.write_bytes(changed)
    if kept == "index":
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    ds = leat.open(str(path))
    windows = leat.windows(ds, "sequence", 600, 600, tail="cover")
    assert windows[0]["sequence"].tobytes() == b"ACGTACGTAC" * 60
    with pytest.raises(leat.ChangedError, match=f"record 0, byte {at}: its lines do not end"):
        windows[2000]
    (tmp_path / "a.fa.fai").unlink(missing_ok=True)
    assert [len(r[2]) for r in read(leat.open(str(path)))] == [60 * 20_001, 60 * 19_998]


def test_a_fai_that_does_not_fit_is_not_used(tmp_path: Path) -> None:
    lists = {
        "of another file": fai(LONG.replace(b"ACG\n>", b"ACGA\n>")),
        "other names": fai(LONG).replace(b"c1", b"c7"),
        "without a record": b"".join(fai(LONG).splitlines(keepends=True)[1:]),
        "without the last": b"".join(fai(LONG).splitlines(keepends=True)[:-1]),
        "other lengths": fai(LONG).replace(b"120003", b"120002"),
        "other lines": fai(LONG).replace(b"\t60\t61", b"\t59\t60"),
        "cut": fai(LONG)[:-3],
        "no list": b"name\n\0\n",
        "numbers": fai(LONG).replace(b"120003", b"99999999999999999999999"),
        "empty": b"",
    }
    for k, (case, text) in enumerate(lists.items()):
        (tmp_path / f"a.{k}.fa.fai").write_bytes(text)
        assert read(opened(tmp_path, LONG, f".{k}.fa")) == parse(LONG), case


# ---- as any data set -------------------------------------------------------------------------------


def test_lists_and_patterns_and_queries(tmp_path: Path) -> None:
    parts = [drawn(k)[0] for k in range(3)]
    (tmp_path / "0.fa").write_bytes(parts[0])
    (tmp_path / "1.fa").write_bytes(parts[1])
    (tmp_path / "2.fa").write_bytes(gzip.compress(parts[2]))
    expected = [r for p in parts for r in parse(p)]
    paths = [str(tmp_path / f"{k}.fa") for k in range(3)]
    for ds in (leat.open(paths), leat.open(str(tmp_path / "{0..2}.fa"))):
        assert read(ds) == expected
        short = ds.where('"sequence.length" < 1000')
        assert read(short) == [r for r in expected if len(r[2]) < 1000]
        assert read(ds.where("name = 'r1'")) == [r for r in expected if r[0] == "r1"]
        assert read(pickle.loads(pickle.dumps(short))) == read(short)
    whole = opened(tmp_path, b"".join(parts))
    assert whole.fingerprint == leat.open(paths).fingerprint


def test_a_changed_file(tmp_path: Path) -> None:
    data, _ = drawn(5)
    ds = opened(tmp_path, data)
    path = tmp_path / "a.fa"
    loader = leat.Loader(ds, batch_size=1, framework="numpy", outputs={"sequence": []})
    path.write_bytes(data[: len(data) // 2])
    with pytest.raises((leat.CorruptError, leat.ChangedError), match=r"a\.fa"):
        list(loader)
    assert read(leat.open(str(path))) == parse(data[: len(data) // 2])


def test_a_file_that_changes_within_an_epoch(tmp_path: Path) -> None:
    data = b"".join(b">r%d\nACGT\n" % i for i in range(5000))
    ds = opened(tmp_path, data)
    loader = leat.Loader(ds, batch_size=8, framework="numpy", outputs={"sequence": []}, budget_bytes=4 << 20)
    batches = iter(loader)
    next(batches)
    (tmp_path / "a.fa").write_bytes(data.replace(b"ACGT", b"TTTT"))
    with pytest.raises(leat.ChangedError, match=r"a\.fa was changed after it was opened"):
        for batch in batches:
            assert len(batch["sequence"])
    with pytest.raises(leat.ChangedError, match=r"a\.fa"):
        ds[7]


def test_a_damaged_copy_of_a_compressed_file_is_made_anew(tmp_path: Path) -> None:
    data = b"".join(drawn(k)[0] for k in range(3))
    ds = opened(tmp_path, gzip.compress(data), ".fa.gz")
    expected = parse(data)
    assert read(ds) == expected
    copy = tmp_path / "a.fa.gz.leat-frames.zst"
    damaged = bytearray(copy.read_bytes())
    damaged[len(damaged) // 2] ^= 0x55
    copy.write_bytes(damaged)
    again = leat.open(str(tmp_path / "a.fa.gz"))
    with pytest.raises(leat.ChangedError, match="the copy in short frames that was made of it is damaged"):
        for i in range(len(again)):
            again.stored(i, "sequence")
    assert read(leat.open(str(tmp_path / "a.fa.gz"))) == expected
    copy.write_bytes(damaged)
    with pytest.raises(leat.CorruptError, match="leat-frames.zst: .*: remove it, and it is made anew"):
        for i in range(len(again)):
            leat.open(str(tmp_path / "a.fa.gz")).stored(i, "name")
    copy.unlink()
    assert read(leat.open(str(tmp_path / "a.fa.gz"))) == expected


def test_a_large_index_that_is_damaged_is_made_anew(tmp_path: Path) -> None:
    n = 1_300_000
    path = tmp_path / "a.fa"
    path.write_bytes(b">\nACGTACGT\n" * n)
    leat.open(str(path))
    index = tmp_path / "a.fa.leat-index"
    assert index.stat().st_size > 64 << 20
    with open(index, "r+b") as f:
        f.seek(384 + 56 * 700_000 + 8)  # residues before a record
        found = int.from_bytes(f.read(8), "little")
        assert found == 8 * 700_000
        f.seek(-8, 1)
        f.write((found - 4).to_bytes(8, "little"))
    ds = leat.open(str(path))
    assert ds[699_999]["sequence"].tobytes() == ds[700_000]["sequence"].tobytes() == b"ACGTACGT"


def test_bytes_that_changed_behind_the_time_of_the_file(tmp_path: Path) -> None:
    data = b">a\n" + (b"ACGT" * 15 + b"\n") * 100_000
    opened(tmp_path, data)
    path = tmp_path / "a.fa"
    times = path.stat()
    at = data.index(b"\n", 3_000_000)
    changed = data[:at] + b"A\n" + data[at + 2 :]
    path.write_bytes(changed)
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    ds = leat.open(str(path))  # the index is believed as far as it was looked at
    with pytest.raises(leat.ChangedError, match=r"record 0, byte \d+: its lines do not end where its index says"):
        ds[0]
    assert leat.open(str(path))[0]["sequence"].tobytes() == changed[3:].replace(b"\n", b"")


def test_an_index_that_is_damaged_is_made_anew(tmp_path: Path) -> None:
    data, _ = drawn(6)
    opened(tmp_path, data)
    index = tmp_path / "a.fa.leat-index"
    kept = index.read_bytes()
    for at in (*range(0, len(kept), 97), len(kept) - 1):
        index.write_bytes(kept[:at] + bytes([kept[at] ^ 1]) + kept[at + 1 :])
        assert read(leat.open(str(tmp_path / "a.fa"))) == parse(data)
    index.write_bytes(kept[:-5])
    assert read(leat.open(str(tmp_path / "a.fa"))) == parse(data)
    elsewhere = tmp_path / "indexes"
    assert read(leat.open(str(tmp_path / "a.fa"), index_dir=str(elsewhere))) == parse(data)
    assert len(list(elsewhere.iterdir())) == 1


@pytest.mark.parametrize("name", ["a.fa", "a.jsonl", "a.fa.gz", "a.jsonl.gz"])
def test_an_index_that_cannot_be_written_is_a_warning_in_the_log(tmp_path: Path, name: str) -> None:
    content = b">a\nACGT\n" if "fa" in name else b'{"a": 1}\n'
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith("gz") else content)
    (tmp_path / "fixed").mkdir(0o555)
    script = "import leat, sys; leat.open(sys.argv[1], index_dir=sys.argv[2])"
    for folder, why in (("fixed", "Permission denied"), ("no/such", "No such file or directory")):
        command = [sys.executable, "-c", script, str(tmp_path / name), str(tmp_path / folder)]
        done = subprocess.run(command, text=True, stderr=subprocess.PIPE, env={**os.environ, "LEAT_LOG": "warning"})
        assert not done.returncode and f"cannot be written ({why}): it is made again" in done.stderr
    with pytest.raises(ValueError, match="a.* is a file: name a folder"):
        leat.open(str(tmp_path / name), index_dir=str(tmp_path / name))


def test_resumed_in_mid_epoch_on_other_ranks(tmp_path: Path) -> None:
    ds = leat.concat([opened(tmp_path, drawn(k)[0], f".{k}.fa") for k in range(8)])
    options: dict[str, Any] = {"shuffle": True, "seed": 3, "framework": "numpy", "outputs": {"sequence": []}}

    def rows(batches: Iterable[leat.Batch]) -> list[list[tuple[int, bytes]]]:
        return [
            [(int(i), r.tobytes()) for i, r, v in zip(b.ids, b["sequence"], b.valid, strict=True) if v] for b in batches
        ]

    expected = rows(leat.Loader(ds, global_batch_size=4, **options))
    first = leat.Loader(ds, global_batch_size=4, **options)
    taken = rows(itertools.islice(first, 2))
    ranks = [leat.Loader(ds, global_batch_size=4, rank=k, world_size=2, **options) for k in range(2)]
    for loader in ranks:
        loader.load_state_dict(first.state_dict())
    taken += [a + b for a, b in zip(*(rows(loader) for loader in ranks), strict=True)]
    assert taken == expected


# ---- real files ------------------------------------------------------------------------------------


def test_real_files(data_dir: Path, tmp_path: Path) -> None:
    paths = [*(data_dir / "proteins").glob("*.fasta"), *(data_dir / "dna").glob("*.fa*"),
             *(data_dir / "dna" / "htslib-faidx").glob("*.fa")]  # fmt: skip
    paths = [p for p in paths if p.suffix != ".fai"]
    assert len(paths) > 8
    for path in paths:
        ds = leat.open(str(path), index_dir=str(tmp_path))
        expected = parse(path.read_bytes())
        assert read(ds) == expected, path
        packed = opened(tmp_path, bgzf(path.read_bytes())[0], f".{path.name}.gz")
        assert packed.fingerprint == ds.fingerprint


def test_real_reads(data_dir: Path, tmp_path: Path) -> None:
    path = data_dir / "dna" / "htslib-faidx" / "fastqs.fq"
    ds = leat.open(str(path), index_dir=str(tmp_path))
    listed = [x.split("\t") for x in Path(f"{path}.expected.fai").read_text().splitlines()]
    assert [x[0] for x in listed] == [x["name"] for x in ds]
    data = path.read_bytes()
    for x, (_, n, at, line, width, quality) in zip(ds, listed, strict=True):
        for name, begin in (("sequence", int(at)), ("quality", int(quality))):
            k = np.arange(int(n))
            places = begin + k // max(int(line), 1) * int(width) + k % max(int(line), 1)
            assert x[name].tobytes() == bytes(data[i] for i in places)
