"""Accelerate with meshes of several dimensions, and with a leat.Loader: the global batches are those of one process."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from frameworks_support import needs  # noqa: E402
from process_support import FORKED, PRELOADED, run_ranks  # noqa: E402

needs("accelerate", "torchdata")
FORKED.set_forkserver_preload([*PRELOADED, "torch._dynamo"])  # which every optimizer imports: seconds for each rank

MODES = ["sharded", "split", "dispatched", "dispatched and split"]
MESHES = {  # the ranks of each data-parallel place
    "replicated and sharded": [[0], [1], [2], [3]],
    "sharded and tensor-parallel": [[0, 1], [2, 3]],
    "sharded and context-parallel": [[0, 1], [2, 3]],
    "tensor-parallel": [[0, 1, 2, 3]],
}
# Accelerate dispatches to all ranks as if they were data-parallel, or to all the same rows.
WHOLE = [(mesh, mode) for mesh in MESHES for mode in MODES[:2]] + [
    ("replicated and sharded", "dispatched"),
    ("replicated and sharded", "dispatched and split"),
    ("tensor-parallel", "dispatched"),
]
CUT = 2


@cache
def ranks(kind: str) -> list[dict[str, Any]]:
    return run_ranks("accelerate_mesh.py", kind, world=4)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("mesh", MESHES)
def test_each_rank_of_a_mesh_gets_what_it_gets_with_pytorchs_loader(mesh: str, mode: str) -> None:
    for mine, theirs in zip(ranks("leat"), ranks("torchdata"), strict=True):
        found, expected = mine[f"{mesh}, {mode}"], theirs[f"{mesh}, {mode}"]
        assert found["epochs"] == expected["epochs"]
        assert found["engine"] == "leat" != expected["engine"]


@pytest.mark.parametrize("mesh, mode", WHOLE)
def test_the_data_parallel_places_share_the_order_of_one_process_and_peers_see_the_same(mesh: str, mode: str) -> None:
    told = ranks("leat")
    for epoch in range(2):
        parts = [told[place[0]][f"{mesh}, {mode}, shuffled"]["epochs"][epoch] for place in MESHES[mesh]]
        rows = [i for batches in zip(*parts, strict=True) for batch in batches for i in batch]
        assert rows == told[0]["alone"][epoch]
        for place, part in zip(MESHES[mesh], parts, strict=True):
            assert all(told[rank][f"{mesh}, {mode}, shuffled"]["epochs"][epoch] == part for rank in place)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("mesh", MESHES)
def test_a_state_in_mid_epoch_goes_on_with_the_very_next_batch_of_the_mesh(mesh: str, mode: str) -> None:
    for rank in ranks("leat"):
        found = rank[f"{mesh}, {mode}, shuffled"]
        assert found["rest"] == found["epochs"][1][CUT:] != []


def together(told: list[dict[str, Any]]) -> list[list[int]]:
    return [sum(parts, []) for parts in zip(*(rank["batches"] for rank in told), strict=True)]


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[list[int]], dict[str, Any]]:
    """A checkpoint of two ranks, the global batches up to it, and the undisturbed training of one process."""
    folder: Path = tmp_path_factory.mktemp("accelerate")
    first = run_ranks("accelerate_loader.py", folder / "saved", 3, world=2)
    return folder / "saved", together(first), run_ranks("accelerate_loader.py", folder / "none", world=1)[0]


@pytest.mark.parametrize("world", [1, 2, 3])
def test_a_loader_of_leat_that_accelerate_saves_goes_on_in_mid_epoch_on_any_number_of_ranks(
    world: int, saved: tuple[Path, list[list[int]], dict[str, Any]]
) -> None:
    folder, first, alone = saved
    told = run_ranks("accelerate_loader.py", folder, world=world)
    assert first + together(told) == alone["batches"]
    for epoch in (alone["batches"][:6], alone["batches"][6:]):
        assert sorted(sum(epoch, [])) == list(range(50))
    for rank in told:
        torch.testing.assert_close(rank["weights"], alone["weights"], rtol=0, atol=1e-5)
