"""Folders of 10x Genomics whose matrix is text: entries in any order and form, and what is damaged."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

import leat

HEAD = "%%MatrixMarket matrix coordinate integer general\n% by genes\n"


def write(folder: Path, matrix: str | bytes, ending: str = "") -> Path:
    folder.mkdir(exist_ok=True)
    raw = matrix.encode() if isinstance(matrix, str) else matrix
    (folder / f"matrix.mtx{ending}").write_bytes(raw)
    (folder / "barcodes.tsv").write_text("".join(f"c{i}\n" for i in range(4)))
    (folder / "genes.tsv").write_text("".join(f"E{i}\tg{i}\n" for i in range(3)))
    return folder


def dense(folder: Path) -> list[list[float]]:
    ds = leat.open(folder)
    return np.concatenate([ds[i]["X"].to_dense() for i in range(len(ds))]).tolist()


WANTED = [[5, 0, 7], [0, 0, 0], [0, 9, 0], [1, 2, 0]]
ENTRIES = ["3 1 7", "1 4 1", "2 3 9", "1 1 5", "2 4 2"]


@pytest.mark.parametrize("block", [1, 7, 1 << 20])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\n\n", " \t\n", "\n% note\n"])
def test_entries_stand_in_any_order_between_blanks_and_comments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: str, block: int
) -> None:
    from leat.data.cells import matrix_market

    monkeypatch.setattr(matrix_market, "BLOCK", max(block, 30))
    for last in ("", end):
        folder = write(tmp_path / f"m{len(last)}", HEAD + "3 4 5\n" + end.join(ENTRIES) + last)
        assert dense(folder) == WANTED
    packed = write(tmp_path / "gz", gzip.compress((HEAD + "3 4 5\n" + "\n".join(ENTRIES)).encode()), ".gz")
    assert dense(packed) == WANTED


def test_a_pattern_has_ones_and_real_values_are_float32(tmp_path: Path) -> None:
    pattern = HEAD.replace("integer", "pattern") + "3 4 2\n1 1\n3 4\n"
    assert dense(write(tmp_path / "p", pattern)) == [[1, 0, 0], [0, 0, 0], [0, 0, 0], [0, 0, 1]]
    real = write(tmp_path / "r", HEAD.replace("integer", "real") + "3 4 2\n1 1 -1.5\n3 4 1e400\n")
    assert leat.open(real).schema["X"].dtype == "float32" and dense(real)[0][0] == -1.5
    assert dense(real)[3][2] == float("inf")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "line 1: it does not begin with %%MatrixMarket"),
        (HEAD, "ends in line 3, before the line of its sizes"),
        (HEAD + "3 4\n", "line 3: b'3 4.*' is no line of sizes"),
        (HEAD + "3 4 -1\n", "is no line of sizes"),
        (HEAD + "3 5 1\n1 1 1\n", "is of 3 genes and 5 cells; beside it are 3 and 4"),
        (HEAD + "3 4 1\n4 1 1\n", 'line 4: "4 1 1" is no entry'),
        (HEAD + "3 4 2\n1 1 1\n1 0 1\n", 'line 5: "1 0 1" is no entry'),
        (HEAD + "3 4 1\n1 1\n", 'line 4: "1 1" is no entry'),
        (HEAD + "3 4 2\n1 1 1\n", "has 1 entries, and its line of sizes says 2: it was cut"),
        (HEAD + "3 4 1\n1 1 1\n2 2 2\n", "has more entries than the 1"),
        (HEAD + "3 4 1\n1 1 1.5\n", "says that its values are integers, and has 1.5"),
        (HEAD + "3 4 1\n1 1 4e9\n", "says that its values are integers, and has 4000000000.0"),
        (HEAD + "3 4 1\n" + "1" * 9_000_000, "line 4 has more than|is no entry"),
        (HEAD.replace("general", "symmetric") + "3 4 1\n", "leat reads general coordinates"),
    ],
)
def test_what_is_wrong_names_the_file_and_the_line(tmp_path: Path, text: str, says: str) -> None:
    folder = write(tmp_path / "m", text)
    with pytest.raises(leat.Error, match=says) as found:
        leat.open(folder)
    assert "matrix.mtx" in str(found.value)


def test_a_gzip_file_that_is_cut_or_changed_is_damaged(tmp_path: Path) -> None:
    lines = "".join(f"{i % 3 + 1} {i % 4 + 1} {i}\n" for i in range(12))
    raw = gzip.compress((HEAD + "3 4 12\n" + lines).encode(), mtime=0)
    for cut in range(0, len(raw), 9):
        with pytest.raises(leat.Error, match="matrix.mtx.gz"):
            leat.open(write(tmp_path / "m", raw[:cut], ".gz"))
    for at in range(len(raw)):
        changed = bytearray(raw)
        changed[at] ^= 0x10
        try:
            leat.open(write(tmp_path / "m", bytes(changed), ".gz"))
        except leat.Error as e:
            assert "matrix.mtx.gz" in str(e)


def test_names_are_utf8_and_blank_lines_at_their_end_are_none(tmp_path: Path) -> None:
    folder = write(tmp_path / "a", HEAD + "3 4 5\n" + "\n".join(ENTRIES))
    for end in ("", "\n", "\n\n", "\r\n\r\n"):
        (folder / "barcodes.tsv").write_bytes(b"c0\nc1\r\nc2\nc\xc3\xa9" + end.encode())
        assert [s["name"] for s in leat.open(folder)] == ["c0", "c1", "c2", "cé"] and dense(folder) == WANTED
    for packed in (False, True):
        raw = b"E0\tcaf\xe9\nE1\tg\nE2\tg\n"
        (folder / "genes.tsv").unlink(missing_ok=True)
        (folder / ("genes.tsv.gz" if packed else "genes.tsv")).write_bytes(gzip.compress(raw) if packed else raw)
        with pytest.raises(leat.CorruptError, match=r"genes.tsv(.gz)? is not UTF-8: it holds the byte 0xe9"):
            leat.open(folder)
