"""recipes/adadagrad.py: batches grow by the norm test, each epoch has each row once, and fewer updates do."""

from __future__ import annotations

from pathlib import Path

import pytest
from recipes_support import REAL, recipe, table

import leat

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.shard("whole")


def test_batches_grow_and_reach_the_accuracy_of_small_ones_with_fewer_updates(tmp_path: Path) -> None:
    recipe("adadagrad")  # skipped where a package is missing
    lines = table("adadagrad", tmp_path, REAL if (REAL / "mnist-idx").is_dir() else None)
    rows = {line[:20].strip(): line[20:].split() for line in lines[1:6]}
    small, grown = rows["AdaGrad, small"], rows["AdAdaGrad, eta 0.5"]
    assert all(row[-1] == "yes" for row in rows.values())  # each row once an epoch
    assert int(grown[6]) > 16 == int(grown[4]) == int(small[6])
    assert int(grown[2]) < int(small[2]) / 2
    assert int(grown[3]) < int(small[3])
    assert float(grown[0]) > float(rows["AdaGrad, large"][0])


def test_the_sizes_are_those_that_the_log_has_and_each_epoch_is_whole() -> None:
    module = recipe("adadagrad")
    data = module.drawn(300)
    run = module.train(data, data[:50], 16, 3, 0, leat.NormTest(0.5, 64, every=2))
    sizes = run["sizes"]
    assert max(sizes) > 16 and sum(sizes) == 900
    assert all(sorted(ids) == list(range(300)) for ids in run["ids"]) and run["ids"][0] != run["ids"][1]


def test_the_gradient_of_the_parts_is_that_of_the_batch() -> None:
    module = recipe("adadagrad")
    torch.manual_seed(0)
    net = module.network()
    batch = next(iter(leat.Loader(module.drawn(100), 30, outputs=module.OUTPUTS, framework="torch")))
    ((whole, rows),) = module.gradients(net, batch, 1)
    assert rows == 30
    parts = list(module.gradients(net, batch, 8))
    assert [n for _, n in parts] == [3] * 10
    for i, gradient in enumerate(whole):
        assert torch.allclose(sum(g[i] * n / 30 for g, n in parts), gradient, atol=1e-6)
