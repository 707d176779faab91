"""A state of leat.Loader has its PyTorch Sampler: later epochs have the lists that they have in a run that goes on."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from process_support import run_ranks  # noqa: E402
from sampler_kinds import SAMPLERS, Made  # noqa: E402

import leat  # noqa: E402

SHORT, LONG = 100, 20_000  # a state has the positions of a short list, and the hash of a long one
BATCHES = 14  # of which an epoch has four


def opened(n: int, sampler: Any, log_dir: Path | None = None) -> leat.Loader:
    random.seed(1)
    np.random.seed(1)
    torch.manual_seed(1)
    data = leat.from_arrays(x=np.arange(n))
    return leat.Loader(data, n * 3 // 10, sampler=sampler, log_dir=log_dir, framework="numpy")


def read(loader: leat.Loader, n: int, states: list[str] | None = None) -> list[Any]:
    """The next batches; `states`: takes one before each. In between the training draws."""
    found: list[Any] = []
    while True:
        batches = iter(loader)
        while True:
            state = json.dumps(loader.state_dict())
            random.random(), np.random.rand(), torch.rand(1)
            if (batch := next(batches, None)) is None:
                break
            found.append((batch.epoch, batch.step, batch.ids.tolist()))
            if states is not None:
                states.append(state)
            if len(found) == n:
                return found


@pytest.mark.parametrize("where", ["short", "long", "long, in a folder"])
@pytest.mark.parametrize("kind", SAMPLERS)
def test_any_state_is_gone_on_from_in_a_new_loader_and_in_the_one_that_took_it(
    kind: str, where: str, tmp_path: Path
) -> None:
    n, folder = SHORT if where == "short" else LONG, tmp_path if "folder" in where else None
    taker, states = opened(n, SAMPLERS[kind](n), folder), list[str]()
    whole = read(taker, BATCHES, states)
    assert len({tuple(ids) for _, step, ids in whole if step == 0}) == 4  # lists that are new in each epoch
    for at in random.Random(kind).sample(range(BATCHES), BATCHES if n == SHORT else 5):
        for loader in (taker, opened(n, SAMPLERS[kind](n), folder)):
            loader.load_state_dict(json.loads(states[at]))
            found = read(loader, min(6, BATCHES - at))
            assert found == whole[at : at + 6], (at, loader is taker)


def test_a_state_from_before_the_first_epoch_is_its_beginning() -> None:
    taker = opened(SHORT, SAMPLERS["its own generator"](SHORT))
    state = taker.state_dict()
    whole = read(taker, 9)
    taker.load_state_dict(state)
    assert read(taker, 9) == whole


class Stubborn(Made):
    """One that refuses to go back to an epoch, and whose state is no JSON."""

    def __iter__(self) -> Iterator[int]:
        found = np.random.default_rng(self.epoch).permutation(self.n)
        self.epoch += 1
        return iter(found.tolist())

    def state_dict(self) -> dict[str, Any]:
        return {"epoch": torch.tensor(self.epoch)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        if int(state["epoch"]) == 2:
            raise OSError("no epoch 2 here")
        self.epoch = int(state["epoch"])


def batches_of(loader: leat.Loader, n: int) -> list[Any]:
    found: list[Any] = []
    while len(found) < n:
        found += [batch.ids.tolist() for batch in loader]
    return found[:n]


def test_an_error_of_the_sampler_leaves_the_loader_where_it_was() -> None:
    taker, loader, twin = (opened(SHORT, Stubborn(SHORT)) for _ in range(3))
    batches_of(taker, 8)
    refused = taker.state_dict()
    for subject in (loader, twin):
        next(iter(subject))
    with pytest.raises(OSError, match="no epoch 2 here"):
        loader.load_state_dict(refused)
    assert batches_of(loader, 12) == batches_of(twin, 12)
    batches_of(taker, 4)
    loader.load_state_dict(taker.state_dict())
    assert batches_of(loader, 8) == batches_of(taker, 8)


@pytest.mark.parametrize(
    "damaged",
    [5, [], {"now": 3}, {"now": {"sampler.generator": "no state"}}, {"attributes": {"sampler.epoch": "x"}},
     {"again": 4}, {"again": {"inner": []}}],
)  # fmt: skip
def test_a_damaged_part_is_a_state_error_that_changes_nothing(damaged: Any) -> None:
    loader, twin = (opened(SHORT, SAMPLERS["its own generator and an epoch"](SHORT)) for _ in range(2))
    for subject in (loader, twin):
        read(subject, 5)
    with pytest.raises(leat.StateError, match="the state is damaged"):
        loader.load_state_dict({**loader.state_dict(), "sampler": damaged})
    assert read(loader, 9) == read(twin, 9)


def test_a_state_without_its_part_leaves_the_sampler_as_it_is() -> None:
    taker, loader = (opened(SHORT, SAMPLERS["an epoch"](SHORT)) for _ in range(2))
    whole, states = read(taker, 8), list[str]()
    read(opened(SHORT, SAMPLERS["an epoch"](SHORT)), 8, states)
    state = json.loads(states[6])
    del state["sampler"]
    loader.load_state_dict(state)
    assert read(loader, 2) == whole[6:]
    assert loader._sampler.epoch == 0


class Skipping(Made):
    """One that is given the number of positions to pass over, which it has at the end of its list, too."""

    skip = given = 0

    def __iter__(self) -> Iterator[int]:
        self.given, self.skip = self.skip, 0
        for at in range(self.given, self.n):
            self.given += 1
            yield at

    def state_dict(self) -> dict[str, Any]:
        return {"given": self.given}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.skip = state["given"]


def test_no_epoch_is_lost_to_a_sampler_that_passes_over_what_it_has_given() -> None:
    taker, loader = (opened(SHORT, Skipping(SHORT)) for _ in range(2))
    read(taker, 6)
    loader.load_state_dict(taker.state_dict())
    assert [(epoch, len(ids)) for epoch, _, ids in read(loader, 6)] == [(1, 30), (1, 10), *[(2, 30)] * 3, (2, 10)]


def test_ranks_go_on_from_states_of_their_own() -> None:
    """Rank 0 reads the sampler for all of them."""
    told = run_ranks("sampler_ranks.py")
    for kind in SAMPLERS:
        assert all(rank[kind] == "" for rank in told), [rank[kind] for rank in told]
