"""Batches that come on a card, where there is one: the same bits as without it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from card_support import CHAINS, check_read, run_reader, same, write_all_kinds

import leat

torch: Any = pytest.importorskip("torch")
pytestmark = pytest.mark.card
MIB = 1 << 20


@pytest.fixture(scope="module", params=["original", "fast"])
def photos(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    return write_all_kinds(tmp_path_factory.mktemp("photos") / "photos.leat", request.param)


def check(found: Any, wanted: Any) -> None:
    """A batch on the card is that one of the host, bit for bit."""
    tensors = [found.ids, found.valid, *(value for value in found.values() if isinstance(value, torch.Tensor))]
    assert {str(tensor.device) for tensor in tensors} == {f"cuda:{torch.cuda.current_device()}"}
    same(found.to("cpu", non_blocking=False), wanted)


@pytest.mark.parametrize(("prefetch", "side"), [(0, True), (2, False), (2, True)])
@pytest.mark.parametrize("chain", CHAINS)
def test_batches_are_those_of_the_host_bit_for_bit(photos: Any, chain: str, prefetch: int, side: bool) -> None:
    outputs = {"image": CHAINS[chain], "label": [], "tokens": [], "text": []}
    options: dict[str, Any] = {"batch_size": 8, "shuffle": True, "seed": 3, "outputs": outputs, "framework": "torch"}
    stream = torch.cuda.Stream() if side else torch.cuda.current_stream()
    here = leat.Loader(photos, **options)
    with leat.Loader(photos, **options, device="cuda", prefetch=prefetch) as there, torch.cuda.stream(stream):
        for _ in range(2):
            for found, wanted in zip(there, here, strict=True):
                check(found, wanted)
        told = there.stats()["device"]
    assert told["batches"] >= 6 and (told["ahead"] > 0) == (prefetch > 0)
    assert 0 <= told["photos"] <= 135


def test_batches_that_are_held_keep_their_values_while_others_come(photos: Any) -> None:
    options: dict[str, Any] = {"batch_size": 4, "outputs": {"image": CHAINS["float32"], "label": []}}
    wanted = list(leat.Loader(photos, **options, framework="torch"))
    with leat.Loader(photos, **options, framework="torch", device="cuda") as there:
        held = list(there)
        images = [batch["image"] for batch in there]  # of the next epoch; their batches are gone
        for found, here in zip(held, wanted, strict=True):
            check(found, here)
    held.clear()
    with leat.Loader(photos, **options, framework="torch", epochs=2) as here:
        list(here)
        for image, batch in zip(images, here, strict=True):
            assert torch.equal(image.cpu(), batch["image"])


def test_batches_that_are_given_up_on_their_way_disturb_nothing(photos: Any) -> None:
    options: dict[str, Any] = {"shuffle": True, "outputs": {"image": CHAINS["float32"]}, "framework": "torch"}
    with leat.Loader(photos, 8, **options, device="cuda", prefetch=4) as there:
        for turn in range(60):
            next(iter(there))
            there.set_batch_size(5 + turn % 4)
    with leat.Loader(photos, 8, **options, device="cuda", prefetch=4) as there:
        for found, wanted in zip(there, leat.Loader(photos, 8, **options), strict=True):
            check(found, wanted)


def test_a_card_without_memory_has_fewer_batches_ahead_and_then_says_how_much_is_free() -> None:
    rows = np.arange(48 * MIB, dtype=np.float32).reshape(48, MIB)  # batches of 16 MiB
    data = leat.from_arrays(x=rows)
    with leat.Loader(data, 4, framework="torch", device="cuda", device_budget_bytes=1 << 40, prefetch=3) as there:
        held, batches = list[Any](), iter(there)
        next(batches)  # all that a card needs beside batches is there
        torch.cuda.empty_cache()
        full, room = list[Any](), 40 * MIB
        while (free := torch.cuda.mem_get_info()[0]) > room + 4 * MIB:
            full.append(torch.empty(free - room, dtype=torch.uint8, device="cuda"))
        with pytest.raises(leat.OutOfMemoryError, match=r"for a batch \(\d+ are in use for batches\).* bytes are free"):
            while True:
                held.append(next(batches))
        n, told = len(held), there.stats()["device"]
        assert told["prefetch"] < 3
        full.clear()
        torch.cuda.empty_cache()
        held += batches  # the one that found no room is the next
        assert [batch.size for batch in held] == [4] * 11 and n < 11
        for k, batch in enumerate(held, 1):
            assert torch.equal(batch["x"].cpu(), torch.from_numpy(rows[4 * k : 4 * k + 4]))


def test_a_step_that_was_captured_as_a_graph_learns_what_it_learns_without_one(photos: Any) -> None:
    outputs = {"image": CHAINS["float32"], "label": []}
    options: dict[str, Any] = {"batch_size": 9, "shuffle": True, "seed": 1, "outputs": outputs, "framework": "torch"}

    def made() -> tuple[Any, Any]:
        torch.manual_seed(0)
        return torch.nn.Linear(3 * 24 * 24, 45).cuda(), torch.zeros((), device="cuda")

    def step(net: Any, loss: Any, image: Any, label: Any) -> None:
        net.zero_grad(set_to_none=False)
        found = torch.nn.functional.cross_entropy(net(image.flatten(1)), label)
        found.backward()
        loss.copy_(found.detach())
        with torch.no_grad():
            for p in net.parameters():
                p -= 0.01 * p.grad

    losses: dict[str, list[float]] = {"eager": [], "graph": []}
    net, loss = made()
    for batch in leat.Loader(photos, **options, device="cuda"):
        step(net, loss, batch["image"], batch["label"])
        losses["eager"].append(loss.item())

    net, loss = made()
    image, label = torch.zeros(9, 3, 24, 24, device="cuda"), torch.zeros(9, dtype=torch.int64, device="cuda")
    before = [p.detach().clone() for p in net.parameters()]
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step(net, loss, image, label)
    torch.cuda.current_stream().wait_stream(side)
    with leat.Loader(photos, **options, device="cuda", prefetch=2) as loader:
        batches, graph = iter(loader), torch.cuda.CUDAGraph()
        first = next(batches)  # others are copied while the step is captured
        with torch.cuda.graph(graph):
            step(net, loss, image, label)
        with torch.no_grad():
            for p, start in zip(net.parameters(), before, strict=True):
                p.copy_(start)
        for batch in [first, *batches]:
            batch.to("cuda", out={"image": image, "label": label})
            graph.replay()
            losses["graph"].append(loss.item())
    assert len(losses["graph"]) == 5
    assert losses["graph"] == pytest.approx(losses["eager"], rel=1e-4)


def test_batches_come_on_the_card_that_is_current_as_the_loader_opens(photos: Any) -> None:
    options: dict[str, Any] = {"batch_size": 9, "outputs": {"image": CHAINS["float32"]}, "framework": "torch"}
    number, wanted = torch.cuda.current_device(), list(leat.Loader(photos, **options))
    try:
        for other in range(torch.cuda.device_count()):
            torch.cuda.set_device(other)
            with leat.Loader(photos, **options, device="cuda") as there:
                for found, here in zip(there, wanted, strict=True):
                    check(found, here)
    finally:
        torch.cuda.set_device(number)


def test_two_processes_get_their_batches_from_one_copy_on_the_card(photos: Any, tmp_path: Path) -> None:
    outputs = {"image": CHAINS["float32"], "label": [], "tokens": [], "text": []}
    options: dict[str, Any] = {"batch_size": 9, "shuffle": True, "seed": 2, "outputs": outputs, "framework": "torch"}
    wanted = {int(i): batch for batch in leat.Loader(photos, **options) for i in batch.ids}
    with leat.Port(leat.Loader(photos, **options), "shared", device="cuda:0", folder=tmp_path / "ports") as served:
        sizes = (9, 3)
        running = [run_reader(tmp_path / "ports", tmp_path / f"{k}.pt", size) for k, size in enumerate(sizes)]
        assert [reader.wait(120) for reader in running] == [0, 0]
        assert served.stat()["device"]["failed"] == 0
    for k, size in enumerate(sizes):
        stats, pixels = check_read(tmp_path / f"{k}.pt", size, wanted), 45 * 24 * 24 * 3
        assert stats["shared_bytes"] >= pixels and stats["bytes"] < pixels / 4
