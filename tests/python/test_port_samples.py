"""Readers of a port with samples of their own."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from process_support import PATIENCE, eventually

import leat

N = 600
OWN = np.arange(0, N, 3)


def numbers(n: int = N, **options: Any) -> leat.Loader:
    x = np.arange(N)
    options = {"shuffle": True, "seed": 1, **options}
    return leat.Loader(leat.from_arrays(x=x, y=x * x)[:n], batch_size=16, framework="numpy", **options)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "ports"


@pytest.fixture
def port(folder: Path) -> Iterator[leat.Port]:
    with leat.Port(numbers(), "p", folder=folder) as port:
        yield port


def attach(folder: Path, samples: Any = OWN, batch_size: int = 10, **options: Any) -> leat.Attached:
    return leat.attach("p", batch_size, samples=samples, folder=folder, **options)


def ids(batches: Any) -> list[int]:
    """Ids of batches, whose values are those of these samples."""
    found: list[int] = []
    for batch in batches:
        assert batch["x"][batch.valid].tolist() == batch.ids[batch.valid].tolist()
        assert np.array_equal(batch["y"], batch["x"] * batch["x"])
        found += batch.ids[batch.valid].tolist()
    return found


def take(iteration: Iterator[Any], n: int) -> list[int]:
    return ids(next(iteration) for _ in range(n))


def shared(a: list[int], b: list[int]) -> int:
    return sum(x == y for x, y in zip(a, b, strict=False))


def test_an_epoch_has_each_of_its_samples_once_in_an_order_of_its_own(port: leat.Port, folder: Path) -> None:
    with attach(folder) as reader:
        assert len(reader) == 20
        epochs = [ids(reader) for _ in range(5)]
        assert reader.epoch == 5
    assert all(sorted(epoch) == OWN.tolist() for epoch in epochs)
    assert len({tuple(epoch) for epoch in epochs}) == 5
    assert all(shared(a, b) < 20 for a, b in zip(epochs, epochs[1:], strict=False))


@pytest.mark.parametrize("size", [1, 7, 10, 16, 64, 200, 300])
def test_batches_may_have_any_size(port: leat.Port, folder: Path, size: int) -> None:
    with attach(folder, batch_size=size) as reader:
        assert all(sorted(ids(reader)) == OWN.tolist() for _ in range(3))


def test_few_samples_make_many_epochs(port: leat.Port, folder: Path) -> None:
    with attach(folder, [5, 599, 0], batch_size=2) as reader:
        assert all(sorted(ids(reader)) == [0, 5, 599] for _ in range(40))


def test_alone_a_seed_gives_the_same_orders_again(port: leat.Port, folder: Path) -> None:
    found = []
    for seed in (7, 7, 8):
        with attach(folder, seed=seed) as reader:
            found.append(ids(reader))
        eventually(lambda: not leat.ports.stat("p", folder)["consumers"])
    assert found[0] == found[1] != found[2]


def test_readers_of_the_same_samples_that_begin_together_read_the_same(port: leat.Port, folder: Path) -> None:
    with attach(folder, seed=1) as first, attach(folder, seed=2, batch_size=20) as second:
        assert ids(first) == ids(second)


def test_a_part_shares_more_than_chance_with_a_larger_one_and_with_the_port(port: leat.Port, folder: Path) -> None:
    half = OWN[::2]
    with attach(folder) as large, attach(folder, half) as small:
        a, b = ids(large), ids(small)
        assert sorted(b) == half.tolist()
        assert shared(a, b) > 20  # 100 of 200: a half at first, and 0.5 of 200 by chance
        stat = {c["own_samples"]: c["shared"] for c in leat.ports.stat("p", folder)["consumers"]}
        assert set(stat) == {100, 200}
    with leat.attach("p", 16, folder=folder, start="beginning") as whole:
        begun = iter(whole)
        first = take(begun, 1)
        every = np.arange(N)
        with attach(folder, every, batch_size=16) as reader:
            assert shared(take(iter(reader), 30), take(begun, 30)) > 300
        assert len(first) == 16


def test_a_state_goes_on_with_the_rest_of_its_epoch(port: leat.Port, folder: Path) -> None:
    with attach(folder) as reader:
        ids(reader)
        iteration = iter(reader)
        head = take(iteration, 7)
        state = json.loads(json.dumps(reader.state_dict()))
        tail = ids(iteration)
    assert sorted(head + tail) == OWN.tolist()
    for size in (10, 7):
        with attach(folder, np.random.default_rng(size).permutation(OWN), size, seed=99) as other:
            other.load_state_dict(state)
            assert other.epoch == 1
            assert ids(other) == tail
            assert sorted(ids(other)) == OWN.tolist()


def test_a_state_goes_on_in_a_reader_that_has_read_on(port: leat.Port, folder: Path) -> None:
    with attach(folder) as reader:
        iteration = iter(reader)
        take(iteration, 3)
        state = reader.state_dict()
        tail = ids(iteration)
        for _ in range(4):
            ids(reader)
        reader.load_state_dict(state)
        assert ids(reader) == tail


def test_an_order_holds_where_another_port_comes_in_the_place_of_the_first(folder: Path) -> None:
    first = leat.Port(numbers(), "p", folder=folder)
    with attach(folder, patience=PATIENCE) as reader:
        iteration = iter(reader)
        head = take(iteration, 7)
        first.close()
        with leat.Port(numbers(), "p", folder=folder), attach(folder, seed=3) as other:
            take(iter(other), 4)
            assert sorted(head + ids(iteration)) == OWN.tolist()
            assert sorted(ids(reader)) == OWN.tolist()
            assert reader.stats()["reconnects"] >= 1


def test_epochs_may_be_left_repeated_and_chosen(port: leat.Port, folder: Path) -> None:
    with attach(folder) as reader:
        for _ in range(5):
            assert len(take(iter(reader), 2)) == 20
        assert reader.epoch == 4
        reader.set_epoch(4)
        again = ids(reader)
        reader.set_epoch(4)
        assert ids(reader) == again
        for epoch in (9, 2):
            reader.set_epoch(epoch)
            batches = list(reader)
            assert {batch.epoch for batch in batches} == {epoch}
            assert sorted(ids(batches)) == OWN.tolist()


def test_the_plan_is_that_of_the_epoch_that_is_read(port: leat.Port, folder: Path) -> None:
    with attach(folder) as reader:
        plan = [reader.plan(0, step).tolist() for step in range(20)]
        iteration = iter(reader)
        assert take(iteration, 3) == sum(plan[:3], [])
        assert reader.plan(0, 15).tolist() == plan[15]
        assert ids([reader.batch_at(0, 5)]) == plan[5]
        assert ids(iteration) == sum(plan[3:], [])
        assert reader.plan(1, 0).size == 10
        for epoch in (0, 2):
            with pytest.raises(IndexError, match=f"epoch {epoch} is not at hand"):
                reader.plan(epoch, 0)


def test_samples_may_be_a_view_and_the_port_may_serve_one(folder: Path) -> None:
    whole = leat.from_arrays(x=np.arange(N), y=np.arange(N) ** 2)
    with leat.Port(leat.Loader(whole[100:400], 16, shuffle=True, framework="numpy"), "p", folder=folder):
        with attach(folder, whole[150:180]) as reader:
            assert sorted(ids(reader)) == list(range(150, 180))
        with pytest.raises(ValueError, match="sample 99 is not in the data set of this port"):
            attach(folder, [100, 99])


def test_outputs_and_keys_of_its_own_go_with_samples_of_its_own(port: leat.Port, folder: Path) -> None:
    with attach(folder, outputs={"y": []}, key=3) as reader:
        batches = list(reader)
        assert list(batches[0]) == ["y"]
        assert all(np.array_equal(batch["y"], batch.ids**2) for batch in batches)


def test_others_do_not_notice(port: leat.Port, folder: Path) -> None:
    want = [(batch.ids.tolist(), batch["x"].tolist()) for batch in numbers()]
    with attach(folder) as own, leat.attach("p", 16, folder=folder) as reader:
        ids(own), ids(own)
        iteration = iter(own)
        take(iteration, 3)
        with leat.attach("p", 16, folder=folder) as late:
            assert late.epoch == 0  # epochs of samples of one's own are not those of the port
        got = []
        for batch in reader:
            got.append((batch.ids.tolist(), batch["x"].tolist()))
            next(iteration, None)
    assert got == want


@pytest.mark.parametrize(
    ("samples", "options", "error", "text"),
    [
        ([], {}, ValueError, "samples has no sample"),
        ([0, N], {}, ValueError, f"sample {N} is not in the data set"),
        ([3, -1], {}, ValueError, "sample -1 is not in the data set"),
        ([3, 4, 3], {}, ValueError, "position 3 is there twice"),
        ([*range(N), 0], {}, ValueError, f"{N + 1} samples of one's own of a data set of {N}"),
        ([1.5], {}, TypeError, "samples are sample ids"),
        ([1], {"rank": 0, "world_size": 2}, ValueError, "each of 2 ranks"),
        ([1], {"seed": -1}, ValueError, "seed"),
    ],
)
def test_what_cannot_be_is_refused(
    port: leat.Port, folder: Path, samples: Any, options: dict[str, Any], error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        attach(folder, samples, **options)
    with attach(folder) as reader:
        assert sorted(ids(reader)) == OWN.tolist()


def test_states_of_others_are_refused(port: leat.Port, folder: Path) -> None:
    with attach(folder) as reader, attach(folder, OWN[1:]) as other, leat.attach("p", 10, folder=folder) as plain:
        for one in (reader, other, plain):
            next(iter(one))
        state = reader.state_dict()
        with pytest.raises(leat.StateError, match="with other samples"):
            other.load_state_dict(state)
        with pytest.raises(leat.StateError, match="with samples of its own"):
            plain.load_state_dict(state)
        with pytest.raises(leat.StateError, match="of a reader with the port's order"):
            reader.load_state_dict(plain.state_dict())
        with pytest.raises(leat.StateError, match="lacks the order"):
            reader.load_state_dict({k: v for k, v in state.items() if k != "positions"})
        with pytest.raises(leat.StateError, match="other samples: it was changed"):
            reader.load_state_dict({**state, "positions": base64.b64encode(bytes([2] * 200)).decode()})
        for text in ("?", base64.b64encode(bytes([1] * 200)).decode(), base64.b64encode(bytes([2] * 199)).decode()):
            with pytest.raises(ValueError, match="it was changed|was cut or changed"):
                reader.load_state_dict({**state, "positions": text})
        reader.load_state_dict(state)
        assert len(ids(reader)) == 190


def test_a_mixture_has_no_samples_of_ones_own(folder: Path) -> None:
    mix = leat.Mix({"a": (leat.from_arrays(x=np.arange(50)), 0.5), "b": (leat.from_arrays(x=np.arange(50)), 0.5)})
    with (
        leat.Port(leat.Loader(mix, 10, framework="numpy"), "p", folder=folder),
        pytest.raises(ValueError, match="not of a mixture"),
    ):
        attach(folder, [1])
