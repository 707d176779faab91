"""DeepSpeed's engine of pipelines trains from leat, on real ranks over gloo: batches, evaluation, checkpoints."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from photo_support import save

import leat

pytest.importorskip("torch")

from frameworks_support import needs, run_ranks  # noqa: E402

needs("deepspeed", level="parallel")

N, TRAIN_BATCH, EPOCHS = 24, 8, 3
STEPS, CUT = 7, 4  # of the trainings that are saved
Told = list[dict[str, Any]]


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Photos of different sizes; those with label 1 are bright."""
    path = tmp_path_factory.mktemp("photos") / "photos.leat"
    rng = np.random.default_rng(0)
    with leat.Writer(path, {"image": "image", "label": "int64"}) as w:
        for i in range(N):
            pixels = rng.integers(0, 120, (12 + i, 40 - i, 3)) + 130 * (i % 2)
            w.add(image=save(pixels.astype(np.uint8), "JPEG"), label=i % 2)
    return path


@pytest.fixture(scope="module", params=[(2, 2), (4, 1)], ids=["2 stages x 2", "4 stages"])
def told(request: pytest.FixtureRequest, photos: Path) -> tuple[int, int, Told]:
    """Stages, data-parallel ranks, and what the ranks of such a training have told."""
    stages, data = request.param
    return stages, data, run_ranks("deepspeed_pipeline.py", stages, data, photos, world=4)


def ends(told: tuple[int, int, Told]) -> dict[tuple[int, int], dict[str, Any]]:
    """The ranks that read, by stage (0 or -1) and data-parallel rank."""
    last = told[0] - 1
    return {(-(r["stage"] == last), r["dp"]): r for r in told[2] if r["stage"] in (0, last)}


def rows_of_steps(ranks: list[dict[str, Any]]) -> list[list[int]]:
    """The ids of each step of a training, of all data-parallel ranks, sorted."""
    size = TRAIN_BATCH // len(ranks)
    of_rank = [[i for micro in r["ids"] for i in micro] for r in ranks]
    return [sorted(i for ids in of_rank for i in ids[at : at + size]) for at in range(0, len(of_rank[0]), size)]


def test_the_first_and_the_last_stage_see_the_same_micro_batches(told: tuple[int, int, Told]) -> None:
    found = ends(told)
    assert len(found) == 2 * told[1]
    for dp in range(told[1]):
        first, last = found[0, dp], found[-1, dp]
        for what in ("trained", "looked"):
            assert first[what] == last[what] and len(first[what]["hashes"]) > 2
        assert first["tuples"] == last["tuples"]
    assert len({str(r["trained"]["hashes"]) for r in found.values()}) == told[1]


def test_each_epoch_has_each_sample_once_in_an_order_of_its_own(told: tuple[int, int, Told]) -> None:
    firsts = [r["trained"] for (stage, _), r in ends(told).items() if stage == 0]
    orders = []
    for epoch in range(EPOCHS):
        orders.append([i for f in firsts for e, ids in zip(f["epochs"], f["ids"]) if e == epoch for i in ids])
        assert sorted(orders[-1]) == list(range(N))
    assert len({str(order) for order in orders}) == EPOCHS


def test_the_order_is_that_of_a_loader_without_deepspeed(told: tuple[int, int, Told], photos: Path) -> None:
    firsts = [r["trained"] for (stage, _), r in ends(told).items() if stage == 0]
    with leat.Loader(leat.open(photos), TRAIN_BATCH, True, seed=5, outputs={"label": []}, drop_last=True) as loader:
        expected = [sorted(batch.ids.tolist()) for _ in range(EPOCHS) for batch in loader]
    assert rows_of_steps(firsts) == expected


def test_stages_in_the_middle_read_nothing(told: tuple[int, int, Told]) -> None:
    stages, data, ranks = told
    of_a_rank = EPOCHS * N // data
    for rank in ranks:
        reads = rank["stage"] in (0, stages - 1)
        assert (rank["read"][0], bool(rank["trained"]["ids"])) == (of_a_rank * reads, reads)
        assert (rank["read"][1] > 0) == (rank["read_tuples"] > 0) == reads


def test_the_losses_are_common_finite_and_go_down(told: tuple[int, int, Told]) -> None:
    for rank in told[2]:
        assert (rank["losses"], rank["evaluated"]) == (told[2][0]["losses"], told[2][0]["evaluated"])
        assert all(map(math.isfinite, rank["losses"]))
        assert rank["evaluated"][-1] < rank["evaluated"][0] and sum(rank["losses"][-3:]) < sum(rank["losses"][:3])


def test_evaluation_has_its_own_position_and_order(told: tuple[int, int, Told]) -> None:
    firsts = [r["looked"]["ids"] for (stage, _), r in ends(told).items() if stage == 0]
    assert sorted(i for f in firsts for ids in f for i in ids) == list(range(N))
    assert firsts[0][0] == [0, 1]


def test_tuples_need_no_function_between(told: tuple[int, int, Told]) -> None:
    """The same loader by the engine's grid and with tuples gives the bytes of the one by the topology."""
    for rank in ends(told).values():
        assert rank["tuples"] == rank["trained"]["hashes"][: len(rank["tuples"])]


# ---- checkpoints -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("checkpoints")


@pytest.fixture(scope="module")
def whole(photos: Path, folder: Path) -> Told:
    """A training of 2 x 2 that was saved within its second epoch, and went on."""
    return run_ranks("deepspeed_checkpoint.py", "save", 2, 2, 2, photos, folder, world=4)


@pytest.fixture(scope="module")
def deep(photos: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Told]:
    """One of four stages, of which two read nothing, and its folder."""
    folder = tmp_path_factory.mktemp("deep")
    return folder, run_ranks("deepspeed_checkpoint.py", "save", 4, 1, 4, photos, folder, world=4)


def same_rows(before: Told, *given: Any) -> None:
    """A run that goes on from a checkpoint elsewhere has in each step the rows of the one that was not cut."""
    stages, data = given[0], given[1]
    resumed = run_ranks("deepspeed_checkpoint.py", "data", *given, world=stages * data)
    expected = rows_of_steps([r for r in before if r["stage"] == 0])
    readers = [r for r in resumed if r["stage"] == 0]
    assert rows_of_steps(readers) == expected[CUT:] and len(expected) == STEPS
    assert [r["hashes"] for r in resumed if r["stage"] == stages - 1] == [r["hashes"] for r in readers]
    assert readers[0]["losses"][0] == pytest.approx(before[0]["losses"][CUT], rel=1e-5)


def test_a_run_resumed_on_the_same_grid_has_the_same_losses_bit_for_bit(
    photos: Path, folder: Path, whole: Told
) -> None:
    resumed = run_ranks("deepspeed_checkpoint.py", "load", 2, 2, 2, photos, folder, world=4)
    for before, after in zip(whole, resumed):
        assert before["at_cut"] == {"epoch": 1, "row": TRAIN_BATCH}
        assert after["losses"] == before["losses"][CUT:] and len(after["losses"]) == STEPS - CUT
        for name in ("ids", "hashes"):
            assert after[name] == before[name][2 * CUT :]


@pytest.mark.parametrize(("stages", "data", "micro"), [(4, 1, 4), (1, 2, 2), (1, 1, 8)])
def test_a_run_resumed_on_another_grid_has_the_same_rows_in_each_step(
    stages: int, data: int, micro: int, photos: Path, folder: Path, whole: Told
) -> None:
    """DeepSpeed loads the weights there, and not the optimizer's state, so that losses are the same for a step only."""
    same_rows(whole, stages, data, micro, photos, folder)


def test_a_run_of_deep_stages_goes_on_with_fewer(photos: Path, deep: tuple[Path, Told]) -> None:
    same_rows(deep[1], 2, 2, 2, photos, deep[0])
