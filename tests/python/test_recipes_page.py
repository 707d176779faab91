"""docs/recipes.md and the files of recipes/ belong together."""

from __future__ import annotations

import ast
import os
import re

import pytest
from recipes_support import RECIPES
from script_support import python

PAGE = (RECIPES.parent / "docs" / "recipes.md").read_text()
LONGER = {"pres.py": 215}  # a model with a memory, and one method twice: as it was published, and as its code has it
FILES = sorted(path.name for path in RECIPES.glob("*.py"))


@pytest.mark.parametrize("name", FILES)
def test_a_recipe_is_short_and_its_row_cites_the_paper_that_it_cites(name: str) -> None:
    text = (RECIPES / name).read_text()
    assert len(text.splitlines()) <= LONGER.get(name, 180 if "--device" in text else 150)
    said = ast.get_docstring(ast.parse(text)) or ""
    papers = re.findall(r"\b\d{4}\.\d{5}\b", said)
    assert papers
    assert f"python recipes/{name}" in said
    (row,) = (line for line in PAGE.splitlines() if line.startswith(f"| [`{name}`]"))
    assert papers[0] in row
    assert row.count(" | ") == 4  # recipe, needs, paper, measured, holds


def test_each_row_of_the_page_is_of_a_recipe_that_exists() -> None:
    assert sorted(re.findall(r"^\| \[`(\w+\.py)`\]", PAGE, re.M)) == FILES


def test_what_each_recipe_imports_and_defines_is_there() -> None:
    """The trainings themselves run in the shard `whole`."""
    for package in ("torch", "scipy", "matplotlib", "h5py"):
        pytest.importorskip(package)
    each = "import runpy, sys\nfor path in sys.argv[1:]:\n    runpy.run_path(path, run_name='recipe')"
    done = python("-c", each, *(RECIPES / name for name in FILES))
    assert done.returncode == 0, done.stderr


@pytest.mark.shard("whole")
@pytest.mark.parametrize("name", ["adadagrad", "conadv", "e2gc", "g2sd"])
def test_a_card_that_is_not_there_is_an_error_in_one_line(name: str) -> None:
    pytest.importorskip("torch")
    done = python(RECIPES / f"{name}.py", "--device", "cuda", env={**os.environ, "CUDA_VISIBLE_DEVICES": ""})
    assert done.returncode == 2 and "--device cuda: PyTorch sees no card here" in done.stderr
    assert "Traceback" not in done.stderr
