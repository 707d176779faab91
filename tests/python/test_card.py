"""Values that lie on a card in the other layers, where there is a card."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from feedback_support import N, loss_of, opened, write

import leat

torch: Any = pytest.importorskip("torch")
pytestmark = pytest.mark.card
CARD = "cuda"


def test_a_report_of_values_on_a_card_is_that_of_the_same_values_on_the_host(tmp_path: Path) -> None:
    path, found = write(tmp_path / "a.leat"), []
    for device in ("cpu", CARD):
        with opened(path, framework="torch", feedback=lambda t, e: None) as loader:
            for batch in loader:
                losses = torch.from_numpy(loss_of(batch.ids, 0)).to(device)
                loader.report(batch, loss=losses, twice=losses * 2)
            found.append([np.asarray(loader.feedback[name].value) for name in ("loss", "twice")])
    assert np.array_equal(found[0], found[1]) and len(found[0][0]) == N


def test_values_that_change_on_the_card_after_a_report_do_not_change_it(tmp_path: Path) -> None:
    with opened(write(tmp_path / "a.leat"), framework="torch", feedback=lambda t, e: None) as loader:
        values = torch.empty(8, device=CARD)
        for batch in loader:
            values.copy_(torch.arange(8.0), non_blocking=True)
            loader.report(batch, loss=values[: batch.size])
            values.fill_(-1)
        assert loader.feedback["loss"].value.min() == 0


def test_a_batch_on_a_card_is_reported_without_the_rows_that_only_pad_it(tmp_path: Path) -> None:
    loaders = [
        opened(write(tmp_path / f"{r}.leat"), 4, rank=r, world_size=2, framework="torch", feedback=lambda t, e: None)
        for r in range(2)
    ]
    for loader in loaders:
        with loader:
            for batch in loader:
                there = batch.to(CARD)
                assert there.ids.is_cuda and there.valid.is_cuda
                loader.report(there, loss=torch.where(there.valid, 1.0, torch.nan).bfloat16())
            counts = loader.feedback["loss"].count
            assert int(counts.sum()) == sum(counts > 0) > N // 3
    assert sum(int(loader.feedback["loss"].count.sum()) for loader in loaders) == N


def test_a_batch_on_a_card_shows_its_pictures() -> None:
    form = {"image": leat.field("uint8", (20, 30, 3), layout="HWC")}
    pictures = np.random.default_rng(0).integers(0, 256, (4, 20, 30, 3), np.uint8)
    with leat.Loader(leat.from_arrays(form, image=pictures), 4, framework="torch") as loader:
        (batch,) = loader
        there = batch.to(CARD)
        assert there["image"].is_cuda and "data:image" in there._repr_html_()
        assert there._repr_html_() == batch.to("cpu")._repr_html_()


@pytest.mark.parametrize("on_card", [False, True])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "int64"])
def test_a_store_takes_values_and_ids_from_a_card(dtype: str, on_card: bool, tmp_path: Path) -> None:
    values = torch.arange(30).reshape(10, 3).to(getattr(torch, dtype))
    ids = torch.arange(10, device=CARD) if on_card else np.arange(10)
    with leat.Store(tmp_path / "a.store", {"x": leat.field(dtype, (3,))}, framework="torch") as store:
        store[ids] = values.to(CARD)
        store.flush()
        found, present = store.gather(ids)
    assert present.all() and torch.equal(found, values)


def test_values_for_a_store_are_rounded_on_the_card_as_on_the_host(tmp_path: Path) -> None:
    values = torch.randn(200, 3, generator=torch.Generator().manual_seed(0)) * 100
    form = {name: leat.field(name, (3,)) for name in ("float16", "bfloat16", "int8")}
    with leat.Store(tmp_path / "a.store", form, framework="torch") as store:
        for first, device in ((0, "cpu"), (200, CARD)):
            store[np.arange(first, first + 200)] = dict.fromkeys(form, values.to(device))
        store.flush()
        found, _ = store.gather(np.arange(400))
    assert all(torch.equal(found[name][:200], found[name][200:]) for name in form)


def test_rows_draw_on_the_device_of_their_keys(tmp_path: Path) -> None:
    with opened(write(tmp_path / "a.leat"), framework="torch") as loader:
        for batch in loader:
            here, there = (leat.rng(b.row_keys) for b in (batch, batch.to(CARD)))
            chosen = there.permutation(49)
            assert chosen.is_cuda and torch.equal(chosen.cpu(), here.permutation(49))
            assert torch.equal(there.normal((3,)).cpu(), here.normal((3,)))


def test_the_spread_of_gradients_on_a_card_is_that_of_those_on_the_host(tmp_path: Path) -> None:
    path, found = write(tmp_path / "a.leat"), []
    for device in ("cpu", CARD):
        with opened(path, framework="torch") as loader:
            control = leat.NormTest(0.5, 64)
            for part in next(iter(loader)).to(device).split(2):
                control.observe([part["x"].mean(0) - 50, None, part["x"].bfloat16().mean()], part.size)
            control.step(loader)
            found.append(control.seen)
    assert found[1] == pytest.approx(found[0]) and found[0].variance > 0 and found[0].parts == 4


@pytest.fixture
def spawned() -> Iterator[None]:
    """CUDA does not work in a forked child of a process that uses it: workers start anew."""
    before = multiprocessing.get_start_method()
    multiprocessing.set_start_method("spawn", force=True)
    yield
    multiprocessing.set_start_method(before, force=True)


@pytest.mark.usefixtures("spawned")
def test_a_user_function_a_writer_and_a_policy_may_give_tensors_of_a_card(tmp_path: Path) -> None:
    path = tmp_path / "a.leat"
    with leat.Writer(path, {"x": leat.field("bfloat16", (3,)), "y": leat.field("float32", (3,))}) as writer:
        for i in range(6):
            y = torch.full((3,), float(i), device=CARD)
            writer.add(x=y.bfloat16(), y=y)
    outputs = {"x": [], "y": [leat.ops.Map(lambda y: y.to(CARD) * 2)]}
    chosen = torch.tensor([4, 2], device=CARD)
    with leat.Loader(
        leat.open(path), 6, framework="torch", outputs=outputs, num_threads=1, feedback=lambda t, e: chosen
    ) as loader:
        (batch,) = loader
        assert sorted(batch.ids.tolist()) == [2, 4] and torch.equal(batch["y"], batch["x"].float() * 2)


@pytest.mark.parametrize("default", [None, CARD])
def test_ranks_whose_backend_is_nccl_exchange_on_the_card(default: str | None, tmp_path: Path) -> None:
    from leat import ranks

    if not torch.distributed.is_nccl_available():
        pytest.skip("PyTorch has no NCCL")
    torch.set_default_device(default)
    torch.distributed.init_process_group("nccl", init_method=f"file://{tmp_path}/meet", rank=0, world_size=1)
    try:
        ranks.agree({"seed": "1"})
        assert ranks.largest(7) == 7
        assert ranks.broadcast(np.arange(5)).tolist() == list(range(5))
        assert [part.tolist() for part in ranks.gather(np.arange(3, dtype=np.uint8))] == [[0, 1, 2]]
        assert ranks.pooled(4, 2, 1.5, torch.ones(3, device=CARD))[:3] == (4, 2, 1.5)
    finally:
        torch.distributed.destroy_process_group()
        torch.set_default_device(None)


def test_a_card_that_is_the_default_device_changes_nothing(tmp_path: Path) -> None:
    torch.set_default_device(CARD)
    try:
        with (
            opened(write(tmp_path / "a.leat"), framework="torch", feedback=lambda t, e: None) as loader,
            leat.Store(tmp_path / "a.store", {"x": leat.field("float32", (3,))}, framework="torch") as store,
        ):
            for batch in loader:
                loader.report(batch, loss=batch["x"].to(CARD)[:, 0])
                store[batch.ids] = batch["x"].to(CARD)
            store.flush()
            assert loader.feedback["loss"].value.tolist() == store[np.arange(N)][:, 0].tolist() == list(range(N))
    finally:
        torch.set_default_device(None)


def test_energy_is_the_cards_or_the_reason_is_told(tmp_path: Path) -> None:
    with opened(write(tmp_path / "a.leat")) as loader:
        sum(batch.size for batch in loader)
        energy = loader.stats()["energy"]
    assert "nvml" in energy["source"] or "nvml" in energy["reason"]
