"""recipes/esm2.py: the same crops with padding, by length and packed, and a run that goes on on other ranks."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from recipes_support import REAL, recipe, table

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.shard("whole")
WAYS = ("padded", "by length", "packed")


@pytest.fixture
def esm2(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The recipe where there is no real data."""
    monkeypatch.delenv("LEAT_DATA", raising=False)
    return recipe("esm2")


@pytest.fixture
def rows(esm2: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """60 clusters, some of proteins that are cropped."""
    monkeypatch.setattr(esm2, "CROP", 300)
    return esm2.split(esm2.proteins(tmp_path))[0][:60]


def pairs(batch: Any) -> list[tuple[bytes, bytes]]:
    """Tokens and labels of each sequence of a batch."""
    each = [batch["sequence"], batch["sequence.labels"]]
    if "cu_seqlens" in batch:
        return list(
            zip(*([t.numpy().tobytes() for t in a[0].split(batch["cu_seqlens"].diff().tolist())] for a in each))
        )
    return list(zip(*([t.numpy().tobytes() for t in a.unbind()] for a in each)))


def residues(esm2: ModuleType, way: str, rows: Any, monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """The sequences of the first steps of epoch 1, without masks, in the order of their bytes."""
    monkeypatch.setattr(esm2, "CHAIN", [esm2.CHAIN[0], esm2.leat.ops.MaskTokens(32, 33, p=0.0)])
    steps = esm2.steps(way, rows, (1, 0, None))
    found = list[bytes]()
    for batches, (epoch, *_) in steps:
        if epoch > 1:
            return sorted(found)
        found += [tokens for batch in batches for tokens, _ in pairs(batch)]
    raise AssertionError


def test_the_three_ways_have_the_same_crops_in_an_epoch(
    esm2: ModuleType, rows: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(esm2, "PARTS", 1)
    padded, length, packed = (residues(esm2, way, rows, monkeypatch) for way in WAYS)
    assert length == packed and len(packed) == len(rows)
    assert len(padded) > len(rows) / 2 and set(padded) <= set(packed)  # the last batch, which is not full, is left out
    assert max(map(len, packed)) == 8 * (esm2.CROP + 2)


@pytest.mark.parametrize("way", WAYS)
def test_a_run_that_is_cut_anywhere_goes_on_with_the_same_batches_on_one_rank_or_two(
    esm2: ModuleType, rows: Any, way: str
) -> None:
    whole = list(islice(esm2.steps(way, rows), 9))
    assert whole[-1][1][0] > 0  # in a later epoch
    expected = [[pairs(batch) for batch in batches] for batches, _ in whole]
    for cut in range(1, 9):
        state = whole[cut - 1][1]
        one = islice(esm2.steps(way, rows, state), 9 - cut)
        assert [[pairs(batch) for batch in batches] for batches, _ in one] == expected[cut:]
        two = zip(*(esm2.steps(way, rows, state, rank=r, world_size=2) for r in (0, 1)))
        found = [[pairs(batch) for batches, _ in ranks for batch in batches] for ranks in islice(two, 9 - cut)]
        assert found == expected[cut:]


def test_a_run_on_two_ranks_leaves_a_state_that_one_rank_goes_on_from(esm2: ModuleType, rows: Any) -> None:
    whole = [[pairs(batch) for batch in batches] for batches, _ in islice(esm2.steps("packed", rows), 6)]
    *_, (_, state) = islice(esm2.steps("packed", rows, rank=1, world_size=2), 4)
    assert [[pairs(b) for b in batches] for batches, _ in islice(esm2.steps("packed", rows, state), 2)] == whole[4:]


def test_a_net_that_goes_on_on_two_ranks_has_the_same_weights_bit_by_bit(esm2: ModuleType, rows: Any) -> None:
    def train(net: Any, optimizer: Any, batches: list[Any]) -> None:
        optimizer.zero_grad()
        net(batches)[0].backward()
        optimizer.step()

    def fresh() -> tuple[Any, Any]:
        net = esm2.ESM2(1)
        return net, torch.optim.AdamW(net.parameters(), 3e-3)

    net, optimizer = fresh()
    for batches, _ in islice(esm2.steps("packed", rows), 4):
        train(net, optimizer, batches)
    other, second = fresh()
    batches, state = next(esm2.steps("packed", rows))
    train(other, second, batches)
    for (a, _), (b, _) in islice(zip(*(esm2.steps("packed", rows, state, rank=r, world_size=2) for r in (0, 1))), 3):
        train(other, second, a + b)
    assert all(torch.equal(p, q) for p, q in zip(net.parameters(), other.parameters(), strict=True))


def test_the_net_gives_a_protein_the_same_loss_packed_and_padded(esm2: ModuleType, rows: Any) -> None:
    net = esm2.ESM2(2).eval()
    (batch, *_), _ = next(esm2.steps("packed", rows))
    lengths = batch["cu_seqlens"]
    padded = {name: esm2.leat.Ragged(batch[name][0], lengths.long()) for name in ("sequence", "sequence.labels")}
    with torch.no_grad():
        (a, counts), (b, others) = net.sums(batch), net.sums(padded)
    assert torch.isclose(a, b, rtol=1e-5) and counts[:2].tolist() == others[:2].tolist()
    assert counts[1] == counts[2] < others[2]


@pytest.mark.parametrize("real", [True, False])
def test_packed_batches_have_no_padding_and_those_by_length_little(real: bool, tmp_path: Path) -> None:
    recipe("esm2")  # skipped where a package is missing
    if real and not (REAL / "proteins").is_dir():
        pytest.skip("LEAT_DATA names no folder with proteins")
    lines = table("esm2", tmp_path, REAL if real else None)
    padding = {line[:10].strip(): float(line[10:].split()[1].rstrip("%")) for line in lines[1:]}
    losses = [float(line.split()[-1]) for line in lines[1:]]
    assert list(padding) == list(WAYS)
    assert padding["packed"] == 0 < padding["by length"] < 12.5 < padding["padded"]
    assert max(losses) < np.log(33)
