"""recipes/ghost_batch_norm.py: part of what large batches cost is won back."""

from __future__ import annotations

from pathlib import Path

import pytest
from recipes_support import REAL, recipe, table

import leat

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.shard("whole")


def test_part_of_the_gap_between_large_and_small_batches_is_closed(tmp_path: Path) -> None:
    recipe("ghost_batch_norm")  # skipped where a package is missing
    lines = table("ghost_batch_norm", tmp_path, REAL if (REAL / "mnist-idx").is_dir() else None)
    rows = {line[:24].strip(): line[24:].split() for line in lines[1:6]}
    found = {name: float(row[2]) for name, row in rows.items()}
    assert rows["small"][1] == rows["large + LR + GBN + RA"][1] != rows["large"][1]  # updates
    assert found["large"] < found["small"]
    assert found["large"] < found["large + LR + GBN"] <= found["large + LR + GBN + RA"] + 0.02
    closed = float(rows["large + LR + GBN"][-1].rstrip("%"))
    assert closed == pytest.approx(
        100 * (found["large + LR + GBN"] - found["large"]) / (found["small"] - found["large"]), abs=2
    )


def test_each_ghost_batch_is_normalised_by_its_own_rows_and_moves_the_running_means() -> None:
    module = recipe("ghost_batch_norm")
    torch.manual_seed(0)
    net, reference = module.network(), module.network()
    reference.load_state_dict(net.state_dict())
    batch = next(iter(leat.Loader(module.drawn(200), 80, outputs=module.OUTPUTS, framework="torch")))
    ghost, whole = module.logits(net, batch, 32), module.logits(reference, batch, None)
    assert ghost.shape == whole.shape == (80, 10) and not torch.allclose(ghost, whole)
    apart = torch.cat([reference(batch["image"][i : i + 32]) for i in (0, 32, 64)])
    assert torch.equal(ghost, apart)
    assert int(net[2].num_batches_tracked) == 3
