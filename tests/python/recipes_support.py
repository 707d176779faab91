"""The recipes, as modules and as commands, on real data and without any."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path
from types import ModuleType

import pytest
from script_support import python

RECIPES = Path(__file__).resolve().parents[2] / "recipes"
REAL = Path(os.environ.get("LEAT_DATA", "/nowhere"))


def recipe(name: str) -> ModuleType:
    """The functions of a recipe, without running it. They compute on one core: other tests run on the others."""
    for package in ("scipy", "matplotlib"):
        pytest.importorskip(package)
    pytest.importorskip("torch").set_num_threads(1)
    spec = importlib.util.spec_from_file_location(f"recipe_{name}", RECIPES / f"{name}.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where dataclasses and pickle look for it
    spec.loader.exec_module(module)
    return module


def table(name: str, out: Path, data: Path | None = REAL) -> list[str]:
    """What `python recipes/NAME.py --short` prints, by lines; `data=None`: where there is no real data."""
    environment = {k: v for k, v in os.environ.items() if k != "LEAT_DATA"}
    if data is not None and data.is_dir():
        environment["LEAT_DATA"] = str(data)
    done = python(RECIPES / f"{name}.py", "--short", "--out", out, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (out / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    return done.stdout.splitlines()
