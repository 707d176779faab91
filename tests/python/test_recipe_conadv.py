"""recipes/conadv.py: adversarial copies of the next batch, one step stale, found again by sample id."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from recipes_support import recipe, table

import leat

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.shard("whole")


def test_training_on_stale_copies_withstands_more_than_plain_training(tmp_path: Path) -> None:
    recipe("conadv")  # skipped where a package is missing
    lines = table("conadv", tmp_path)  # on real digits where there are any
    rows = {line.split()[0]: [float(x) for x in line.split()[1:]] for line in lines[1:]}
    assert set(rows) == {"plain", "ConAdv", "sequential"}
    for how in ("ConAdv", "sequential"):
        assert rows[how][1] > rows["plain"][1] + 0.05


def weights(net: Any) -> dict[str, Any]:
    return {k: v.clone() for k, v in net.state_dict().items()}


def same(a: dict[str, Any], b: dict[str, Any]) -> bool:
    return all(torch.equal(a[k], b[k]) for k in a)


@pytest.mark.parametrize("how", ["ConAdv", "sequential"])
def test_copies_are_those_of_the_weights_one_step_ago_for_the_samples_of_the_batch(
    how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    conadv = recipe("conadv")
    monkeypatch.delenv("LEAT_DATA", raising=False)
    data = conadv.digits(100)
    begun, used = list[tuple[list[int], dict[str, Any]]](), list[tuple[list[int], int, dict[str, Any], Any]]()
    nets = list[Any]()

    class Watched(conadv.Copies):  # type: ignore[misc, name-defined]
        def begin(self, batch: Any, net: Any) -> None:
            nets.append(net)
            begun.append((batch.ids.tolist(), weights(net)))
            super().begin(batch, net)

        def of(self, batch: Any) -> Any:
            found = super().of(batch)
            used.append((batch.ids.tolist(), batch.step, weights(nets[-1]), found.clone()))
            return found

    monkeypatch.setattr(conadv, "Copies", Watched)
    torch.set_num_threads(1)
    with leat.Store(tmp_path / "copies", {"copy": leat.field("float32", (1, 28, 28))}) as store:
        conadv.train(how, data, 25, 2, store)
    assert [ids for ids, _ in begun] == [ids for ids, *_ in used]
    assert len(used) == 8
    for t, ((ids, made_by), (_, step, now, found)) in enumerate(zip(begun, used)):
        stale = how == "ConAdv" and step > 0
        assert same(made_by, used[t - 1][2] if stale else now)
        assert same(made_by, now) != stale
        net = copy.deepcopy(nets[0])
        net.load_state_dict(made_by)
        x = torch.tensor(np.stack([np.asarray(data[i]["image"]).reshape(1, 28, 28) for i in ids])).float() / 255
        y = torch.tensor([int(data[i]["label"]) for i in ids])
        expected = conadv.attack(net, x, y, 0)
        assert torch.allclose(found, expected, atol=1e-5)
        assert 0.05 < float((found - x).abs().max()) <= conadv.EPS + 1e-6


def test_rows_behind_the_border_leave_the_statistics_of_the_others_alone() -> None:
    conadv = recipe("conadv")
    torch.manual_seed(0)
    split = conadv.SplitNorm(4)
    plain = torch.nn.BatchNorm2d(4)
    x, adversarial = torch.randn(6, 4, 3, 3), 100 + torch.randn(3, 4, 3, 3)
    split.rows = 6
    out = split(torch.cat([x, adversarial])).detach()
    assert torch.equal(out[:6], plain(x))
    assert torch.equal(split.main.running_mean, plain.running_mean)
    assert float(split.other.running_mean.min()) > 5
    assert float(out[6:].mean().abs()) < 1e-4  # normalised by their own
