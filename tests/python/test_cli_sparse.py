"""leat stats and leat view of sparse rows: numbers as NumPy has them, and strips pixel by pixel."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli_support import leat as command
from PIL import Image

import leat
from leat.data import sparse

N, COLUMNS = 41, 2000
DARK, LIGHT = (24, 26, 31), (255, 246, 214)  # shade of cli/view/strip.c
LEFT, TOP, HIGH, NEXT = 20, 66, 24, 24 + 42 + 16  # MARGIN, HEADING, CLI_STRIP, and CLI_CAPTION + GUTTER of the sheet


def cells(path: Path, dtype: str = "float32", **more: Any) -> np.ndarray[Any, Any]:
    """A matrix with a row of no value, and columns that nobody has."""
    rng = np.random.default_rng(0)
    dense = (rng.integers(1, 100, (N, COLUMNS)) * (rng.random((N, COLUMNS)) < rng.random((N, 1)) / 20)).astype(dtype)
    dense[3], dense[:, 100:600] = 0, 0
    with leat.Writer(path, {"X": leat.sparse(dtype, COLUMNS), "label": "int64"}, classes=["B", "T"]) as w:
        for i, row in enumerate(dense):
            columns = np.flatnonzero(row)
            w.add(X=(row[columns], columns), label=i % 2)
    return dense


@pytest.mark.parametrize("dtype", ["float32", "uint16", "float16", "float64"])
def test_values_columns_and_sums_are_counted(tmp_path: Path, dtype: str) -> None:
    dense = cells(tmp_path / "a.leat", dtype).astype(np.float64)
    stats = json.loads(command("stats", tmp_path / "a.leat", "--json", "--plot", tmp_path / "a.png").stdout)
    (one,) = stats["sparse"]
    used = int((dense != 0).any(0).sum())
    assert (one["field"], one["dtype"], one["rows"], one["columns"]) == ("X", dtype, N, COLUMNS)
    assert (one["total"], one["read"], one["used"], one["wrong"]) == ((dense != 0).sum(), N, used, 0)
    assert one["share"] == pytest.approx(used / COLUMNS)
    for name, of in (("values", (dense != 0).sum(1)), ("sums", dense.sum(1))):
        q = one[name]
        ranked = np.sort(of)
        assert (q["least"], q["most"]) == (ranked[0], ranked[-1]) and q["mean"] == pytest.approx(of.mean())
        assert [q["p25"], q["median"], q["p75"]] == [ranked[10], ranked[20], ranked[30]]
    assert not stats["lengths"]
    table = command("stats", tmp_path / "a.leat").stdout
    assert f"{one['total']:,.0f} values in {N} rows of 2,000 columns" in table and f"{used:,} occur" in table
    with Image.open(tmp_path / "a.png") as picture:
        assert picture.height == 76 + 2 * (340 + 24)  # classes, values and sums


def test_rows_whose_columns_do_not_rise_are_counted_and_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sparse, "row_of", lambda name, value, n: value)  # as if another program had written them
    with leat.Writer(tmp_path / "a.leat", {"X": leat.sparse("uint8", 5)}) as w:
        for columns in ([0, 1], [1, 1], [0, 5], [-1, 2], [3, 4]):
            w.add(X=([1, 2], np.array(columns, np.int32)))
    (one,) = json.loads(command("stats", tmp_path / "a.leat", "--json").stdout)["sparse"]
    assert (one["wrong"], one["used"], one["total"]) == (3, 4, 10)
    assert "of 3 rows columns do not rise" in command("stats", tmp_path / "a.leat").stdout
    command("view", tmp_path / "a.leat", "--out", tmp_path / "a.png")
    with Image.open(tmp_path / "a.png") as picture:
        pixels = np.asarray(picture.convert("RGB")).astype(int)
    dark = [(pixels[TOP + i * NEXT, LEFT + 500] == DARK).all() for i in range(5)]
    assert dark == [True, False, False, False, True]  # their errors stand there


def strips(path: Path) -> np.ndarray[Any, Any]:
    """The strips of a sheet, one pixel high."""
    with Image.open(path) as picture:
        pixels = np.asarray(picture.convert("RGB")).astype(int)
    rows = [pixels[y : y + HIGH, LEFT : LEFT + 1024] for y in range(TOP, len(pixels) - HIGH - 42, NEXT)]
    assert all((row == row[:1]).all() for row in rows)
    return np.array([row[0] for row in rows])


def brightest(dense: np.ndarray[Any, Any], width: int) -> list[int]:
    """The pixels of the largest value of each row."""
    return [int(np.argmax(row)) * width // dense.shape[1] for row in dense]


def test_each_row_is_a_strip_in_which_larger_values_are_brighter(tmp_path: Path) -> None:
    dense = cells(tmp_path / "a.leat")
    said = command("view", tmp_path / "a.leat", "--ids", "0,3,8,40", "--out", tmp_path / "a.png").stdout
    assert "4 of 41 samples" in said
    found = strips(tmp_path / "a.png")
    chosen = dense[[0, 3, 8, 40]]
    assert (found[1] == DARK).all()
    for row, strip, at in zip(chosen, found, brightest(chosen, 1024), strict=True):
        bins = np.zeros(1024)
        np.maximum.at(bins, np.arange(COLUMNS) * 1024 // COLUMNS, np.log1p(row))
        assert ((strip == DARK).all(1) == (bins == 0)).all()
        if row.any():
            assert tuple(strip[at]) == LIGHT
            order = np.argsort(bins, kind="stable")
            assert (np.diff(strip[order].sum(1)) >= 0).all()


def test_few_columns_are_several_pixels_wide(tmp_path: Path) -> None:
    with leat.Writer(tmp_path / "a.leat", {"X": leat.sparse("int8", 4)}) as w:
        w.add(X=([-7, 3], [1, 3]))
    command("view", tmp_path / "a.leat", "--out", tmp_path / "a.png")
    (strip,) = strips(tmp_path / "a.png")
    lit = (strip != DARK).any(1)
    assert lit.tolist() == [False] * 256 + [True] * 256 + [False] * 256 + [True] * 256
    assert tuple(strip[300]) == LIGHT != tuple(strip[900])


NORMALIZED = [leat.ops.NormalizeTotal(), leat.ops.Log1p()]
PARTS: dict[str, Any] = {
    "X": [*NORMALIZED, leat.ops.SparsePart("values")],
    "X.columns": leat.Out("X", [leat.ops.SparsePart("columns")]),
    "label": [],
}


@pytest.mark.parametrize("program", [None, {"X": NORMALIZED}, PARTS], ids=["stored", "packed", "parts"])
@pytest.mark.parametrize("dtype", ["uint16", "int32"])
def test_the_sparse_rows_of_a_batch_are_shown(tmp_path: Path, dtype: str, program: Any) -> None:
    dense = cells(tmp_path / "a.leat", dtype)
    loader = leat.Loader(leat.open(tmp_path / "a.leat"), 6, shuffle=True, framework="numpy")
    batches = iter(loader)
    next(batches)
    (tmp_path / "state.json").write_text(json.dumps(loader.state_dict()))
    ids = next(batches).ids
    options: list[object] = ["--batch", tmp_path / "state.json", "--out", tmp_path / "a.png"]
    if program is not None:
        (tmp_path / "program.json").write_text(leat.program_to_json(program))
        options += ["--program", tmp_path / "program.json"]
    command("view", tmp_path / "a.leat", *options)
    found = strips(tmp_path / "a.png")
    assert len(found) == 6
    for row, strip, at in zip(dense[ids], found, brightest(dense[ids], 1024), strict=True):
        assert tuple(strip[at]) == (LIGHT if row.any() else DARK)
        lit = np.zeros(1024, bool)
        lit[np.flatnonzero(row) * 1024 // COLUMNS] = True
        assert ((strip != DARK).any(1) == lit).all()


@pytest.mark.parametrize("dtype", ["float32", "uint16", "float64"])
def test_a_row_is_written_as_its_columns_and_values(tmp_path: Path, dtype: str) -> None:
    dense = cells(tmp_path / "a.leat", dtype)
    for i in (0, 3, N - 1):
        row = json.loads(command("cat", tmp_path / "a.leat", "--id", i, "--field", "X").stdout)
        assert row["columns"] == np.flatnonzero(dense[i]).tolist()
        assert row["values"] == dense[i][row["columns"]].tolist()
