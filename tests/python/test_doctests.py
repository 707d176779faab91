"""The examples of the docstrings run."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import leat

MODULES = sorted(m.name for m in pkgutil.walk_packages(leat.__path__, "leat.") if m.name != "leat._leat") + ["leat"]


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of_a_module_run(
    name: str, records: Path, photos: Path, tmp_path: Path, jpeg: Callable[..., bytes]
) -> None:
    pytest.importorskip("torch")
    given = {
        "leat": leat,
        "np": np,
        "path": records,
        "photos": leat.open(photos),
        "tmp": tmp_path,
        "jpeg": jpeg(20, 20),
    }
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as e:
        if e.name != "ray":  # which only one shard installs
            raise
        pytest.skip("ray is not installed")
    found = doctest.testmod(module, extraglobs=given, optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)
    assert found.failed == 0
