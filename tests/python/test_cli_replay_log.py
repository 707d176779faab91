"""leat replay --log: the rows of a run from its log."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest
from cli_support import PYTHON, leat, leat_here

import leat as package

SCRIPT = """
import leat, numpy as np
ds = leat.from_arrays(x=np.arange(1000))
mix = leat.Mix({"a": (ds[:250], 0.5), "b": (ds[250:], 0.5)}, exhausted="repeat")
number = 3
"""


@pytest.fixture
def run(tmp_path: Path) -> package.Loader:
    (tmp_path / "train.py").write_text(SCRIPT)
    ds = package.from_arrays(x=np.arange(1000))
    mix = package.Mix({"a": (ds[:250], 0.5), "b": (ds[250:], 0.5)}, exhausted="repeat")
    loader = package.Loader(mix, global_batch_size=10, shuffle=True, seed=7, framework="numpy", log_dir=tmp_path)
    loader.set_mixture({"a": 0.1, "b": 0.9}, at=(0, 20))
    loader.set_mixture({"a": 0.3, "b": 0.7}, at=(1, 5))
    (tmp_path / "log.json").write_text(json.dumps(loader.log))
    (tmp_path / "state.json").write_text(json.dumps(loader.state_dict()))
    return loader


@pytest.mark.parametrize("log", ["state.json", "log.json", "decisions.jsonl"])
def test_a_run_is_repeated_from_its_log(run: package.Loader, tmp_path: Path, log: str) -> None:
    seed = () if log == "state.json" else ("--seed", "7")
    words = ("replay", "--log", tmp_path / log, f"{tmp_path}/train.py:mix", *seed)
    done = leat(*words, env=PYTHON) if log == "log.json" else leat_here(*words)
    lines = done.stdout.splitlines()
    for epoch, step in ((0, 0), (0, 19), (0, 20), (1, 0), (1, 5)):
        digest = hashlib.sha256(run.plan(epoch, step).tobytes()).hexdigest()[:16]
        assert f"epoch {epoch} step {step}: 10 rows {digest}" in lines
    assert lines[-2].startswith("epoch 1 step 5: ") and lines[-1].startswith(f"{len(lines) - 1} steps: ")


def test_a_step_that_differs_is_named(run: package.Loader, tmp_path: Path) -> None:
    words = ("replay", "--log", tmp_path / "log.json", f"{tmp_path}/train.py:mix", "--steps", "30")
    (tmp_path / "steps.txt").write_text(leat_here(*words, "--seed", "7").stdout)
    again = leat_here(*words, "--seed", "7", "--against", tmp_path / "steps.txt", "--quiet")
    assert again.stdout.startswith("30 steps: ") and again.stdout.count("\n") == 1
    other = leat_here(*words, "--seed", "8", "--against", tmp_path / "steps.txt", code=1)
    assert other.stdout.startswith("differs: epoch 0 step 0: ")


def test_what_is_no_mixture_or_no_log_is_an_error(run: package.Loader, tmp_path: Path) -> None:
    spec = f"{tmp_path}/train.py"
    (tmp_path / "none.json").write_text('{"a": 3}')
    assert "number" in leat_here("replay", "--log", tmp_path / "log.json", f"{spec}:number", code=2).stderr
    assert "none.json" in leat_here("replay", "--log", tmp_path / "none.json", f"{spec}:mix", code=2).stderr
    assert "SPEC is missing" in leat("replay", "--log", "log.json", code=2).stderr


def test_help_of_a_log_says_what_it_takes() -> None:
    assert "--against FILE" in leat("replay", "--log", "--help").stdout
