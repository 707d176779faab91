"""The page that says whose behaviour is tested where (README.md here) names tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

HERE = Path(__file__).resolve().parent
PAGE = (HERE / "README.md").read_text()


def file_of(prefix: str) -> Path:
    of_the_loader = HERE / f"test_dataloader_{prefix}.py"
    return of_the_loader if of_the_loader.exists() else HERE / f"test_{prefix}.py"


def test_every_test_that_the_page_names_exists() -> None:
    named = re.findall(r"`(\w+)::(\w+)`", PAGE)
    assert len(named) > 150
    defined = {
        prefix: set(re.findall(r"^def test_(\w+)\(", file_of(prefix).read_text(), re.M))
        for prefix in {p for p, _ in named}
    }
    assert [f"{prefix}::{name}" for prefix, name in named if name not in defined[prefix]] == []


def test_no_test_of_theirs_is_without_an_answer() -> None:
    rows = re.findall(r"^\| (.+?) \| (.*?) ?\|$", PAGE, re.M)
    assert len(rows) > 100
    assert [theirs for theirs, ours in rows if not theirs.startswith("**") and not ours.strip()] == []
