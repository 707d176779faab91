"""`leat replay --log`: the rows of a run from its log, without the losses that led to its decisions."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from ..errors import StateError
from ..loading.loader import Loader
from ..loading.samplers import Blocks
from ..mixtures.logs import run_of, step_at
from ..mixtures.mixing import Mix
from ..mixtures.schedule import Schedule
from .spec import find


def main(options: Mapping[str, str]) -> int:
    """Prints a line a step, with a hash of its rows, and at the end one of all. `options`: as the command line has read
    them. Returns 1 if a line differs from the one in the file of `against`.
    """
    mixture = find(options["spec"]).mixture
    if not isinstance(mixture, (Mix, Schedule)):
        spec = options["spec"]
        raise TypeError(
            f"{spec}: a run is repeated over the leat.Mix or leat.Schedule that it was opened with: name it"
        )
    loader, log = opened(mixture, options)
    lines: Iterator[str] = iter(())
    if "against" in options:
        with open(options["against"], encoding="utf-8") as file:
            lines = iter(file.read().splitlines())
    steps = int(options["steps"]) if "steps" in options else None
    whole, n = hashlib.sha256(), 0
    for epoch, step, ids in planned(loader, log, steps):
        digest = hashlib.sha256(ids.tobytes()).hexdigest()[:16]
        whole.update(digest.encode())
        n += 1
        line = f"epoch {epoch} step {step}: {len(ids)} rows {digest}"
        if "against" in options and (other := next(lines, None)) != line:
            print(f"differs: {line}\n    here {options['against']} has: {other}")
            return 1
        if "quiet" not in options:
            print(line)
    print(f"{n} steps: {whole.hexdigest()[:32]}")
    return 0


def opened(mixture: Mix | Schedule, options: Mapping[str, str]) -> tuple[Loader, list[dict[str, Any]]]:
    """A loader of all rows of the run's global batches, and its log."""
    path = options["log"]
    log, said = run_of(path)
    for entry in log:
        if "world_size" in entry:
            entry["world_size"] = 1
    seed, order = said or (0, {"order": "shuffled"})
    shuffle: bool | Blocks = order["order"] == "shuffled"
    if order["order"] == "blocks":
        shuffle = Blocks(order["block_rows"], order.get("block_window") or None)
    if "seed" in options:
        seed = int(options["seed"])
    if "sequential" in options:
        shuffle = False
    batch = log[0].get("global_batch")
    if not isinstance(batch, int):
        raise StateError(f"{path}: the opening of the log has no global_batch")
    field = next((name for name, f in mixture.schema.items() if f.kind == "array"), next(iter(mixture.schema)))
    loader = Loader(
        mixture,
        global_batch_size=batch,
        shuffle=shuffle,
        outputs={field: []},
        seed=seed,
        rank=0,
        world_size=1,
        framework="numpy",
        log=log,
    )
    return loader, log


def planned(
    loader: Loader, log: list[dict[str, Any]], steps: int | None
) -> Iterator[tuple[int, int, np.ndarray[Any, np.dtype[np.int64]]]]:
    """Epoch, step and ids of `steps` steps. None: of all up to the first one under the last decision."""
    last = log[-1]["epoch"], step_at(log, log[-1])
    epoch = step = 0
    while steps is None or steps > 0:
        try:
            ids = loader.plan(epoch, step)
        except IndexError:
            if not step:
                return
            epoch, step = epoch + 1, 0
            continue
        yield epoch, step, ids
        if steps is not None:
            steps -= 1
        elif (epoch, step) >= last:
            return
        step += 1
