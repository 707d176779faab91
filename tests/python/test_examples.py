"""The examples in Python run as they stand."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def test_the_quickstart_learns_fashion_mnist() -> None:
    pytest.importorskip("torch")
    folder = Path(os.environ.get("LEAT_DATA", "/nowhere")) / "fashion-mnist"
    if not folder.is_dir():
        pytest.skip("LEAT_DATA names no folder with fashion-mnist")
    done = subprocess.run(
        [sys.executable, EXAMPLES / "fashion_mnist.py", folder], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    last = done.stdout.splitlines()[-1]
    assert last.startswith("epoch 2: ")
    assert float(last.split()[2].rstrip("%")) > 70
