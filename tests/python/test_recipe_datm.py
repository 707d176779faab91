"""recipes/datm.py: a store of trajectories by (expert, epoch), a growing range, and images that are learned from it."""

from __future__ import annotations

from pathlib import Path

import pytest
from recipes_support import recipe, table

import leat

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.shard("whole")


def test_distilled_images_teach_more_than_as_many_random_ones_for_each_seed(tmp_path: Path) -> None:
    recipe("datm")  # skipped where a package is missing
    lines = table("datm", tmp_path)  # on real digits where there are any
    rows = [[float(x) for x in line.split()] for line in lines[1:-1]]
    assert [row[0] for row in rows] == [0, 1]
    for _, random, distilled, experts in rows:
        assert distilled > random + 0.05
        assert experts > random
    assert "GB/s written" in lines[-1]


def test_a_trajectory_is_stored_whole_and_each_row_follows_from_the_one_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    datm = recipe("datm")
    monkeypatch.delenv("LEAT_DATA", raising=False)
    data = datm.digits(200)
    form = {"weights": leat.field("float32", (sum(datm.SIZES),))}
    with leat.Store(tmp_path / "s", form, key=("id", "key")) as store:
        datm.experts(data, 3, 2, store, seed=1)
    store = leat.Store(tmp_path / "s", read_only=True)
    ids, keys = store.ids
    assert sorted(zip(ids.tolist(), keys.tolist())) == [(e, t) for e in range(3) for t in range(3)]
    stream = datm.loader(data, 64, True)
    weights = datm.beginning(1001)
    for epoch in range(3):
        found, present = store.gather(([1], [epoch]))
        assert present.all()
        assert torch.allclose(found[0], weights, atol=1e-5)
        for x, y in stream:
            weights = weights.detach().requires_grad_()
            torch.nn.functional.cross_entropy(datm.answers(weights, x), y).backward()
            weights = weights.detach() - 0.05 * weights.grad


def test_the_range_of_first_epochs_grows_to_the_last_ones_that_have_a_later_one_to_reach() -> None:
    datm = recipe("datm")
    for epochs in (8, 20, 100):
        tops = [datm.highest(turn, 400, epochs) for turn in range(400)]
        assert tops[0] == epochs // 4 > datm.LOW
        assert tops == sorted(tops)
        assert tops[200] == tops[-1] == epochs - datm.M + 1  # not itself in the range


def test_a_students_way_is_differentiated_as_finite_differences_say() -> None:
    datm = recipe("datm")
    torch.manual_seed(0)
    x, soft = torch.randn(4, 1, 14, 14).double(), torch.randn(4, 10).double()
    begin, end = datm.beginning(1).double(), datm.beginning(2).double()

    def loss(rate: torch.Tensor, pixel: torch.Tensor) -> torch.Tensor:
        image = x.clone()
        image[0, 0, 7, 7] = pixel
        return (datm.student(begin.clone(), image, soft, rate, 5, True) - end).square().sum()

    rate, pixel = (torch.tensor(v, dtype=torch.float64, requires_grad=True) for v in (0.1, 0.5))
    slopes = torch.autograd.grad(loss(rate, pixel), (rate, pixel))
    for i, slope in enumerate(slopes):
        step = [1e-5 * (i == j) for j in range(2)]
        up, down = (loss(rate + s * step[0], pixel + s * step[1]) for s in (1, -1))
        assert slope.item() == pytest.approx((up - down).item() / 2e-5, rel=1e-3, abs=1e-6)


def test_a_student_that_follows_no_gradient_stays() -> None:
    datm = recipe("datm")
    begin = datm.beginning(3)
    x, soft = torch.randn(4, 1, 14, 14), torch.randn(4, 10)
    assert torch.equal(datm.student(begin, x, soft, torch.tensor(0.0), 3), begin)
    assert not torch.allclose(datm.student(begin, x, soft, torch.tensor(0.1), 3), begin)
