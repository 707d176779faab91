"""recipes/cells.py: cells in blocks, shuffled and as they lie in a file, and a run that goes on on other ranks."""

from __future__ import annotations

import json
from itertools import islice
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from recipes_support import REAL, recipe, table

torch = pytest.importorskip("torch")
pytest.importorskip("h5py")
pytestmark = pytest.mark.shard("whole")
LABELS = ("full shuffle", "Blocks(16, 1024)", "Blocks(64, 1024)", "Blocks(16, 256)", "Blocks(16, 64)", "the file's")


@pytest.fixture
def cells(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The recipe where there is no real data."""
    monkeypatch.delenv("LEAT_DATA", raising=False)
    return recipe("cells")


@pytest.fixture
def task(cells: ModuleType, tmp_path: Path) -> Any:
    """Two epochs of 320 cells of an .h5ad, five steps each."""
    return (*cells.tasks(tmp_path, 320, 1)["h5ad"][:-1], 2)


def update(net: Any, optimizer: Any, parts: list[Any]) -> None:
    optimizer.zero_grad()
    sum(torch.nn.functional.cross_entropy(*net(part)) for part in parts).backward()
    optimizer.step()


def fresh(task: Any) -> tuple[Any, Any]:
    torch.manual_seed(0)
    net = task[3]()
    return net, torch.optim.Adam(net.parameters(), 3e-3)


def test_the_file_that_is_made_lies_in_the_order_of_types_and_is_read_as_anndata_reads_it(
    cells: ModuleType, tmp_path: Path
) -> None:
    import numpy as np

    counts = np.random.default_rng(0).poisson(0.4, (60, 30))
    ds = cells.write(tmp_path / "a.h5ad", counts, np.arange(60) // 6)
    assert (cells.whole(ds, {"X": cells.DENSE})["X"].numpy() == counts).all()
    made = cells.tasks(tmp_path, 500, 1)["h5ad"]
    types = cells.leat.open(tmp_path / "many.h5ad").column("obs.type")
    assert (np.diff(types) >= 0).all() and len(np.unique(types)) == 10 and len(made[0]) == 448


@pytest.mark.parametrize("order", LABELS)
@pytest.mark.parametrize("cut", [1, 3, 5, 8])
def test_a_run_that_is_cut_in_mid_epoch_has_the_same_weights_on_two_ranks(
    cells: ModuleType, task: Any, order: str, cut: int
) -> None:
    shuffle = cells.ORDERS[order]
    net, optimizer = fresh(task)
    whole = list(cells.steps(task, shuffle, 3))
    assert len(whole) == 10
    for parts, _ in whole:
        update(net, optimizer, parts)
    other, second = fresh(task)
    for parts, _ in whole[:cut]:
        update(other, second, parts)
    state = json.loads(json.dumps(whole[cut - 1][1]))
    ranks = [cells.steps(task, shuffle, 3, state, rank=rank, world_size=2) for rank in (0, 1)]
    for (a, _), (b, _) in zip(*ranks, strict=True):
        update(other, second, a + b)
    assert all(torch.equal(p, q) for p, q in zip(net.parameters(), other.parameters(), strict=True))


def test_a_run_on_two_ranks_leaves_a_state_that_one_rank_goes_on_from(cells: ModuleType, task: Any) -> None:
    shuffle = cells.ORDERS["Blocks(16, 64)"]
    whole = [[part.ids.tolist() for part in parts] for parts, _ in cells.steps(task, shuffle, 0)]
    *_, (_, state) = islice(cells.steps(task, shuffle, 0, rank=1, world_size=2), 3)
    assert [[part.ids.tolist() for part in parts] for parts, _ in cells.steps(task, shuffle, 0, state)] == whole[3:]


@pytest.mark.parametrize("real", [True, False])
def test_the_order_of_the_file_hurts_and_the_widest_window_of_blocks_does_not(real: bool, tmp_path: Path) -> None:
    recipe("cells")  # skipped where a package is missing
    if real and not (REAL / "single-cell").is_dir():
        pytest.skip("LEAT_DATA names no folder with single-cell")
    if real:
        pytest.importorskip("zarr")
        pytest.importorskip("pyarrow")
    lines = table("cells", tmp_path, REAL if real else None)
    assert tuple(line[:17].strip() for line in lines[1:]) == LABELS
    losses = {line[:17].strip(): [float(part.split()[-1]) for part in line.split(" +-")[:-1]] for line in lines[1:]}
    assert len(losses["the file's"]) == (3 if real else 2)
    for full, blocks, file in list(zip(losses[LABELS[0]], losses[LABELS[1]], losses[LABELS[-1]]))[:2]:
        assert blocks < full + 0.25 and file > full + 0.2
