"""Runs of examples/anywhere.py, and the global batches that they have seen."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

SCRIPT = Path(__file__).resolve().parents[2] / "examples" / "anywhere.py"
RANKS = {"alone": 0, "ddp": 4, "deepspeed": 4, "accelerate": 2, "on_ray": 0}
EACH = 5  # steps of a run: an epoch has 7


def run(engine: str, steps: int, folder: Path) -> None:
    words = [str(SCRIPT), engine, f"--steps={steps}", f"--state={folder / 'state'}", f"--seen={folder / 'seen'}"]
    words.append(f"--data={folder.parent / 'data.leat'}")  # one for both: a state is of the file
    torchrun = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={RANKS[engine]}"]
    command = [sys.executable, *(torchrun if RANKS[engine] else []), *words]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, env=environment, text=True, **pipes) as process:
        try:
            said = process.communicate(timeout=300)
        except subprocess.TimeoutExpired:
            process.terminate()  # torchrun then ends its ranks, which would stay if it were killed
            said = process.communicate()
    assert process.returncode == 0, said[0][-4000:] + said[1][-8000:]


def global_batches(folder: Path) -> dict[tuple[int, int], list[Any]]:
    """Ids and hashes of the rows of each global batch, by epoch and step; peers of a pipeline say the same."""
    parts: dict[tuple[int, int], dict[int, Any]] = defaultdict(dict)
    for line in (folder / "seen").read_text().splitlines():
        epoch, step, ids, hashes, place = json.loads(line)
        part = [ids, hashes, place["engine"], place["world_size"]]
        assert parts[epoch, step].setdefault(place["rank"], part) == part
    for at, found in parts.items():
        assert sorted(found) == list(range(found[0][3])), at
    return {at: [sum((found[r][k] for r in sorted(found)), []) for k in (0, 1)] for at, found in parts.items()}


def assert_goes_on_elsewhere(engines: tuple[str, ...], folder: Path) -> None:
    """A run that is stopped under each engine and resumed under the next one sees what an undisturbed one sees."""
    whole, parts = folder / "whole", folder / "parts"
    for each in (whole, parts):
        each.mkdir()
    run("alone", EACH * len(engines), whole)
    for engine in engines:
        run(engine, EACH, parts)
    wanted = global_batches(whole)
    assert len(wanted) == EACH * len(engines)
    assert global_batches(parts) == wanted
