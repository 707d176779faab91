"""Rows that a card gathers: where there is one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import leat

torch: Any = pytest.importorskip("torch")
pytestmark = pytest.mark.card


@pytest.mark.parametrize("dtype", ["uint8", "int16", "int64", "float16", "bfloat16", "float32", "float64", "bool"])
@pytest.mark.parametrize("width", [1, 3, 8, 33, 65, 250, 1024])
def test_rows_are_those_of_the_tensor(dtype: str, width: int) -> None:
    x = torch.randint(0, 2 if dtype == "bool" else 100, (500, width)).to(getattr(torch, dtype))
    ids = torch.randint(500, (700, 2))
    for wanted in {x.dtype, torch.float32, torch.float16, torch.bfloat16}:
        with leat.device.rows(x[3:], dtype=wanted) as rows:
            assert rows.in_place and rows.device == f"cuda:{torch.cuda.current_device()}"
            for given in (ids.clamp(max=496), ids.clamp(max=496).int().cuda()):
                found = rows[given]
                assert found.is_cuda and found.dtype == wanted
                assert torch.equal(found.cpu(), x[3:][given.long().cpu()].to(wanted))
            rows.synchronize()


@pytest.mark.parametrize("dtype", ["int64", "float16", "bfloat16", "float32", "float64"])
def test_bits_are_those_that_the_processor_makes(dtype: str) -> None:
    x = torch.randint(-(1 << 63), (1 << 63) - 1, (3000, 33)).view(getattr(torch, dtype))
    for wanted in ("float32", "float16", "bfloat16"):
        found = [
            leat.device.rows(x, dtype=wanted, device=device)[torch.arange(3000)].cpu().view(torch.uint8)
            for device in ("cuda", "cpu")
        ]
        assert torch.equal(*found)


def test_rows_are_gathered_on_the_current_stream() -> None:
    x = torch.randn(100_000, 100)
    rows, stream = leat.device.rows(x), torch.cuda.Stream()
    with torch.cuda.stream(stream):
        ids = torch.randint(len(x), (50_000,), device="cuda")
        found = rows[ids] * 2
    stream.synchronize()
    assert torch.equal(found.cpu(), x[ids.cpu()] * 2)


def test_an_id_on_the_card_that_is_no_row_is_named() -> None:
    rows = leat.device.rows(torch.ones(10, 4))
    found = rows[torch.tensor([3, 10, 4], device="cuda")]
    with pytest.raises(IndexError, match=r"id 10 \(number 1 of its call\)"):
        rows.synchronize()
    assert found.sum(1).tolist() == [4, 0, 4]
    rows[torch.tensor([0], device="cuda")]
    rows.synchronize()


def test_pinned_tensors_stay_pinned_and_files_are_copied_or_staged(tmp_path: Path) -> None:
    pinned = torch.randn(1000, 7).pin_memory()
    with leat.device.rows(pinned) as rows:
        assert rows.in_place
        assert torch.equal(rows[torch.arange(1000)].cpu(), pinned)
    assert pinned.is_pinned() and torch.equal(pinned.cuda().cpu(), pinned)
    np.save(tmp_path / "x.npy", pinned.numpy())
    with leat.device.rows(np.load(tmp_path / "x.npy", mmap_mode="r")) as rows:
        assert not rows.in_place
        assert torch.equal(rows[np.arange(1000)].cpu(), pinned)
    with leat.device.rows(np.load(tmp_path / "x.npy", mmap_mode="r"), budget_bytes=20_000) as rows:
        assert rows.staged
        for ids in (np.arange(1000), torch.arange(1000, device="cuda")):
            assert torch.equal(rows[ids].cpu(), pinned)
        with pytest.raises(IndexError, match="id 1000 "):
            rows[torch.tensor([1000], device="cuda")]
