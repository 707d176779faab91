"""The examples of the docstrings run."""

from __future__ import annotations

import doctest
import importlib
import inspect
import pkgutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import leat

MODULES = sorted(m.name for m in pkgutil.walk_packages(leat.__path__, "leat.") if m.name != "leat._leat") + ["leat"]


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of_a_module_run(name: str, records: Path, photos: Path, tmp_path: Path, jpeg: Callable[..., bytes]) -> None:
    pytest.importorskip("torch")
    given = {"leat": leat, "np": np, "path": records, "photos": leat.open(photos), "tmp": tmp_path, "jpeg": jpeg(20, 20)}
    found = doctest.testmod(importlib.import_module(name), extraglobs=given, optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)
    assert found.failed == 0


@pytest.mark.parametrize("page", ["loader.md"])
def test_the_examples_of_a_page_run(page: str, records: Path, photos: Path, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    docs = Path(__file__).resolve().parents[2] / "docs"
    given = {"leat": leat, "np": np, "path": records, "photos": leat.open(photos), "tmp": tmp_path}
    found = doctest.testfile(str(docs / page), module_relative=False, globs=given, optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)
    assert found.attempted and not found.failed


def test_the_page_of_the_loader_names_every_argument() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "loader.md").read_text()
    arguments = set(inspect.signature(leat.Loader.__init__).parameters) - {"self", "args", "kwargs"}
    assert len(arguments) > 15 and {name for name in arguments if f"`{name}`" not in page} == set()
