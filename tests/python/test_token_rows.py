"""Rows of tokens in a terminal, as a page and in a notebook: borders, colours, what has no loss, padding."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli_support import leat_here as command

import leat
from leat.text.rows import as_ansi, as_html, caption, page, runs, visible

ROW: dict[str, Any] = {
    "tokens": np.array([5, 6, 7, 8, 9, 1, 2, 0, 0]),
    "doc_ids": np.array([4, 4, 4, 9, 9, 9, 9, -1, -1]),
    "positions": np.array([3, 4, 5, 0, 1, 0, 1, 0, 0]),
    "loss_mask": np.array([1, 1, 0, 1, 1, 1, 1, 0, 0], bool),
}


@pytest.fixture
def documents(tmp_path: Path) -> Path:
    path = tmp_path / "d.leat"
    with leat.Writer(path, {"tokens": leat.field("uint16", (None,)), "domain": "str"}) as w:
        for i in range(20):
            w.add(tokens=np.full(i % 7, 100 + i, np.uint16), domain="ab"[i % 2])
    return path


def test_a_row_is_divided_at_documents_and_where_the_loss_changes() -> None:
    columns: list[Any] = [ROW[name] for name in list(ROW)[1:]]
    found = [(r.document, r.number, r.first, r.learned, r.begin, r.end) for r in runs(*columns)]
    assert found == [
        (4, 0, True, True, 0, 2),
        (4, 0, False, False, 2, 3),
        (9, 1, True, True, 3, 5),
        (9, 2, True, True, 5, 7),  # the same id begins again
        (-1, 2, True, False, 7, 9),
    ]


def test_the_caption_counts_documents_padding_and_losses() -> None:
    assert caption(ROW, "tokens") == "9 tokens, 3 documents, 2 of padding, 6 with a loss"
    assert caption({"tokens": np.arange(3)}, "tokens") == "3 tokens"


def test_a_page_has_borders_pale_tokens_and_grey_padding() -> None:
    text = as_html(ROW)
    spans = re.findall(r'<span style="([^"]*)" title="([^"]*)">([^<]*)</span>', text)
    assert [inside.strip() for _, _, inside in spans] == ["5 6", "7", "8 9", "1 2", "padding \u00d7 2"]
    assert ["border-left" in style for style, _, _ in spans] == [False, False, True, True, True]
    assert ["opacity" in style for style, _, _ in spans] == [False, True, False, False, False]
    assert spans[1][1] == "document 4, tokens 2 to 2 of the row, without a loss"
    assert len({re.search("background:([^;]*)", s)[1] for s, _, _ in spans}) == 4  # type: ignore[index]


def test_a_terminal_gets_colours_or_bars_and_braces() -> None:
    assert as_ansi(ROW, colour=False) == "5 6 {7 }\u25028 9 \u25021 2 \u2502[padding \u00d7 2]"
    text = as_ansi(ROW)
    assert text.count("\x1b[2m") == 1 and "\x1b[90mpadding" in text and text.endswith("\x1b[0m")


def test_decoded_text_cannot_write_to_a_terminal_or_a_page() -> None:
    said = "<b>&\x1b[31m\n\t\u202e\u4e2d"
    assert visible(said) == "<b>&\\x1b[31m\u21b5\u21e5\\u202e\u4e2d"
    text = as_html(ROW, decode=lambda ids: said)
    assert "<b>" not in text and "\x1b" not in text and "\u4e2d" in text
    assert "\x1b[31m" not in as_ansi(ROW, decode=lambda ids: said)
    assert "<script>" not in page("<script>", [("row <0>", ROW)], "tokens", None)


def test_rows_without_documents_and_empty_ones_are_shown() -> None:
    assert as_ansi({"tokens": np.array([1, 2])}, colour=False) == "1 2 "
    assert as_ansi({"tokens": np.empty(0, np.uint16)}) == ""
    assert "0 tokens" in page("x", [("row 0", {"tokens": np.empty(0, np.uint16)})], "tokens", None)


def test_a_very_long_row_is_cut() -> None:
    row = {"tokens": np.zeros(10**6, np.uint16)}
    assert "the first 65,536 are shown" in caption(row, "tokens") and len(as_html(row)) < 200_000


def test_view_prints_packed_rows_as_ids_where_no_tokenizer_is_known(documents: Path) -> None:
    done = command("view", documents, "--length", 8, "--samples", 2)
    assert "ids are shown" in done.stderr and "\x1b" not in done.stdout
    rows = leat.pack_rows(leat.open(documents), length=8)
    assert done.stdout.splitlines()[0] == f"row 0: {caption(rows[0], 'tokens')}"
    assert done.stdout.splitlines()[1] == as_ansi(rows[0], colour=False)
    assert "row 1:" in done.stdout and "row 2:" not in done.stdout


def test_view_writes_a_page(documents: Path, tmp_path: Path) -> None:
    out = tmp_path / "rows.html"
    words = ("view", documents, "--length", 8, "--how", "best_fit", "--ids", "1,0", "--out", out)
    assert "2 rows in" in command(*words).stdout
    text = out.read_text()
    assert text.index("row 1") < text.index("row 0") and "border-left" in text
    assert "rows.html" in command("view", documents, "--tokens", "--out", tmp_path / "a.png", code=2).stderr
    assert "no row 99" in command("view", documents, "--tokens", "--ids", 99, code=2).stderr


def test_view_takes_a_part_and_documents_as_they_are(documents: Path) -> None:
    out = command("view", documents, "--tokens", "--where", "domain = 'b'", "--from", 1, "--samples", 1)
    assert out.stdout.startswith("row 1: 3 tokens\n103 103 103")


def test_view_decodes_by_the_tokenizer_that_made_the_tokens(tmp_path: Path) -> None:
    pytest.importorskip("tokenizers")
    from text_support import bpe_file, pack_text

    pack_text(tmp_path / "t.leat", ["to be", "or not\nto be"])
    leat.tokenize(leat.open(tmp_path / "t.leat"), tmp_path / "o.leat", tokenizer=bpe_file(tmp_path))
    out = command("view", tmp_path / "o.leat", "--tokens").stdout
    assert "to be" in out and "or not\u21b5to be" in out


def test_a_batch_of_packed_rows_shows_them_in_a_notebook(documents: Path) -> None:
    rows = leat.pack_rows(leat.open(documents), length=8)
    batch = next(iter(leat.Loader(rows, batch_size=2, shuffle=True, framework="numpy")))
    shown = batch._repr_html_()
    assert as_html({name: np.asarray(batch[name][0]) for name in batch}) in shown
    assert "border-left" in shown
