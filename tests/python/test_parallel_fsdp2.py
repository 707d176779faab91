"""FSDP2 (fully_shard) over gloo trains from leat.Loader(mesh=...), and goes on in mid-epoch on another mesh."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import leat

torch = pytest.importorskip("torch")

from process_support import FORKED, PRELOADED, run_ranks  # noqa: E402

pytestmark = pytest.mark.shard("parallel")
FORKED.set_forkserver_preload([*PRELOADED, "torch._dynamo", "torch.distributed.fsdp", "torch.distributed.checkpoint"])

ROWS, SIZE, EPOCHS = 100, 14, 3
MESHES = [(1, 1), (2, 1), (3, 1), (4, 2)]  #: ranks, and replicas of the sharded model
STOP = 11  #: the checkpoint is saved after this step of all, in the second epoch
Ranks = list[dict[str, Any]]


@pytest.fixture(scope="module")
def train(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Ranks]:
    """train(world, replicas): a training on that mesh; with `after`, one that goes on where it was stopped there."""
    folder: Path = tmp_path_factory.mktemp("fsdp2")

    @cache
    def run(world: int, replicas: int, after: tuple[int, int] | None = None, stop: bool = False) -> Ranks:
        saved = folder / (f"{world}-{replicas}" if stop else "-".join(map(str, after or ["none"])))
        if after is not None:
            run(*after, stop=True)
        return run_ranks("fsdp2.py", saved, replicas, *([STOP] if stop else []), world=world)

    return run


def together(ranks: Ranks) -> list[list[Any]]:
    """Epoch, step and ids of the global batches: what the ranks had, by their place in the mesh."""
    assert [(rank["rank"], rank["of"]) for rank in ranks] == [(r, len(ranks)) for r in range(len(ranks))]
    return [
        [*parts[0][:2], sum((ids for *_, ids in parts), [])]
        for parts in zip(*(rank["batches"] for rank in ranks), strict=True)
    ]


@pytest.mark.parametrize("mesh", MESHES)
def test_the_ranks_of_a_mesh_share_each_global_batch_and_each_row_comes_once(
    train: Callable[..., Ranks], mesh: tuple[int, int]
) -> None:
    batches = together(train(*mesh))
    assert batches == together(train(1, 1))
    for epoch in range(EPOCHS):
        assert sorted(i for at, _, ids in batches if at == epoch for i in ids) == list(range(ROWS))


@pytest.mark.parametrize("mesh", MESHES[1:])
def test_a_sharded_model_learns_what_one_process_does(train: Callable[..., Ranks], mesh: tuple[int, int]) -> None:
    ranks, alone = train(*mesh), train(1, 1)[0]
    assert alone["losses"][-1] < alone["losses"][0] / 2
    for rank in ranks:
        torch.testing.assert_close(rank["losses"], alone["losses"], rtol=0, atol=1e-4)
        torch.testing.assert_close(rank["weights"], alone["weights"], rtol=0, atol=1e-3)


@pytest.mark.parametrize("mesh", MESHES)
@pytest.mark.parametrize("before", [(2, 1), (4, 2)])
def test_a_checkpoint_in_mid_epoch_goes_on_on_another_mesh(
    train: Callable[..., Ranks], before: tuple[int, int], mesh: tuple[int, int]
) -> None:
    whole = together(train(1, 1))
    ranks = train(*mesh, after=before)
    assert together(train(*before, stop=True)) == whole[: STOP + 1]
    assert together(ranks) == whole[STOP + 1 :]
    torch.testing.assert_close(ranks[0]["losses"], train(1, 1)[0]["losses"][STOP + 1 :], rtol=0, atol=1e-4)


@pytest.mark.filterwarnings("ignore:torch.distributed is")
def test_the_text_of_a_state_comes_back_from_a_distributed_checkpoint_with_every_decision(tmp_path: Path) -> None:
    """A loader that is saved itself comes back without them, as its lists are taken apart: that is an error."""
    import torch.distributed.checkpoint as dcp

    def opened() -> leat.Loader:
        return leat.Loader(leat.from_arrays(x=np.arange(ROWS)), SIZE, shuffle=True, seed=1)

    loader = opened()
    batches = iter(loader)
    next(batches)
    plain = list(loader.plan(0, 1))
    dcp.save({"loader": loader}, checkpoint_id=tmp_path / "plain")
    loader.set_batch_size(SIZE // 2)
    next(batches)
    dcp.save({"loader": json.dumps(loader.state_dict())}, checkpoint_id=tmp_path / "saved")
    dcp.save({"loader": loader}, checkpoint_id=tmp_path / "apart")
    found, other = {"loader": ""}, opened()
    with pytest.raises(leat.StateError, match="takes lists apart.* json.dumps"):
        dcp.load({"loader": other}, checkpoint_id=tmp_path / "apart")
    assert other.epoch == 0 and len(next(iter(other)).ids) == SIZE
    dcp.load({"loader": other}, checkpoint_id=tmp_path / "plain")
    assert next(iter(other)).ids.tolist() == plain
    dcp.load(found, checkpoint_id=tmp_path / "saved")
    other.load_state_dict(json.loads(found["loader"]))
    assert [b.ids.tolist() for b in other] == [b.ids.tolist() for b in batches]
