"""Training under DistributedDataParallel (gloo, two processes) gets from leat.DataLoader what it gets from torch's."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from frameworks_support import Line, Numbers, available, loss_of, run_ranks  # noqa: E402
from torch.utils.data import DistributedSampler  # noqa: E402


@pytest.fixture(scope="module", params=["torch-0", "leat-0", "torch-2", "leat-2"])
def ranks(request: pytest.FixtureRequest) -> list[dict[str, Any]]:
    kind, workers = request.param.split("-")
    if not available(kind):
        pytest.skip("leat has no DataLoader yet")
    found = run_ranks("ddp.py", kind, workers)
    for rank in found:
        rank["kind"] = kind
    return found


def expected(rank: int, epoch: int) -> list[list[int]]:
    sampler = DistributedSampler(Numbers(21), num_replicas=2, rank=rank, seed=5)
    sampler.set_epoch(epoch)
    order = list(sampler)
    return [order[i : i + 4] for i in range(0, len(order), 4)]


def test_each_rank_gets_the_batches_of_its_distributed_sampler_in_each_epoch(ranks: list[dict[str, Any]]) -> None:
    for number, rank in enumerate(ranks):
        assert rank["epochs"] == [expected(number, epoch) for epoch in range(3)]
        assert rank["length"] == 3


def test_the_ranks_together_see_every_sample_in_each_epoch(ranks: list[dict[str, Any]]) -> None:
    for epoch in range(3):
        assert {i for rank in ranks for batch in rank["epochs"][epoch] for i in batch} == set(range(21))


def test_the_ranks_end_with_the_weights_of_one_process_that_sees_both_halves_of_each_batch(
    ranks: list[dict[str, Any]],
) -> None:
    model, data = Line(), Numbers(21)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(3):
        for halves in zip(expected(0, epoch), expected(1, epoch)):
            rows = [data[i] for half in halves for i in half]
            batch = {k: torch.stack([row[k] for row in rows]) for k in rows[0]}
            optimizer.zero_grad()
            loss_of(model(batch["x"]), batch).backward()
            optimizer.step()
    weights = [float(w) for w in model.layer.weight.detach().flatten()]
    assert ranks[0]["weights"] == ranks[1]["weights"]
    assert ranks[0]["weights"] == pytest.approx(weights, abs=1e-6)


def test_the_batches_are_made_by_the_loader_that_was_asked_for(ranks: list[dict[str, Any]]) -> None:
    assert [rank["engine"] for rank in ranks] == [ranks[0]["kind"]] * 2


@pytest.mark.parametrize("ranks", ["leat-0", "leat-2"], indirect=True)
def test_ranks_with_one_seed_draw_random_numbers_of_their_own(ranks: list[dict[str, Any]]) -> None:
    first, second = [[tuple(x) for batch in rank["drawn"] for x in batch] for rank in ranks]
    assert len({*first, *second}) == len(first) + len(second) == 22
