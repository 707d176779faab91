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


def test_a_long_list_is_read_again_without_the_folder_and_goes_on_from_there(tmp_path: Path) -> None:
    """And a loader that has gone on from the folder has no less in its states."""
    states, later = list[str](), list[str]()
    whole = read(opened(LONG, SAMPLERS["an epoch"](LONG), tmp_path), 12, states)
    loader = opened(LONG, SAMPLERS["an epoch"](LONG), tmp_path)
    loader.load_state_dict(json.loads(states[5]))
    read(loader, 2, later)
    for at, state in ((5, states[5]), (6, later[1])):
        loader = opened(LONG, SAMPLERS["an epoch"](LONG))
        loader.load_state_dict(json.loads(state))
        assert read(loader, 12 - at) == whole[at:]


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


def drawn_from() -> list[Any]:
    return [random.getstate(), str(np.random.get_state(legacy=False)), torch.get_rng_state().tolist()]


@pytest.mark.parametrize("change", ["other data", "no part", "a list that it does not give"])
@pytest.mark.parametrize("kind", ["the generators of all", "torch's, without a generator"])
def test_a_state_that_is_refused_leaves_the_generators_of_all_where_they_were(kind: str, change: str) -> None:
    samplers = {**SAMPLERS, "torch's, without a generator": lambda n: torch.utils.data.RandomSampler(range(n))}
    taker = opened(LONG, samplers[kind](LONG))
    read(taker, 6)
    state = taker.state_dict()
    if change == "other data":
        state["fingerprint"] = "0" * 32
    else:
        del state["sampler"]
    loader, twin = (opened(LONG, samplers[kind](LONG)) for _ in range(2))
    if change == "a list that it does not give":
        read(loader, 1), read(twin, 1)
    random.seed(2), np.random.seed(2), torch.manual_seed(2)
    before = drawn_from()
    with pytest.raises(leat.StateError):
        loader.load_state_dict(state)
    assert drawn_from() == before
    whole = batches_of(loader, 5)
    random.seed(2), np.random.seed(2), torch.manual_seed(2)
    assert batches_of(twin, 5) == whole


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


def test_a_value_does_not_take_the_place_of_a_method() -> None:
    loader, twin = (opened(SHORT, SAMPLERS["a state of its own"](SHORT)) for _ in range(2))
    for subject in (loader, twin):
        read(subject, 5)
    twin.load_state_dict(twin.state_dict())
    state = loader.state_dict()
    for method in ("state_dict", "load_state_dict"):
        state["sampler"].setdefault("attributes", {})[f"sampler.{method}"] = 3
    loader.load_state_dict(state)
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


def test_no_epoch_is_lost_to_it_by_a_state_that_is_refused() -> None:
    loader, twin = (opened(SHORT, Skipping(SHORT)) for _ in range(2))
    for subject in (loader, twin):
        read(subject, 4)
    with pytest.raises(leat.StateError, match="seed 5"):
        loader.load_state_dict({**loader.state_dict(), "seed": "5"})
    assert [len(list(loader)) for _ in range(3)] == [len(list(twin)) for _ in range(3)] == [4] * 3


class Numbered(Made):
    """Its class says where the count begins, and what it has given last is made when it is first read."""

    count = 0
    lengths = ()

    def __iter__(self) -> Iterator[int]:
        found = np.random.default_rng([self.count, *self.lengths, *getattr(self, "last", ())]).permutation(self.n)
        self.count, self.lengths, self.last = self.count + 1, (*self.lengths, self.n)[-2:], found[:3].tolist()
        return iter(found.tolist())


class Slots:
    """Its attributes are in slots; one is a number of NumPy's, and a list has some."""

    __slots__ = ("epoch", "last", "n")

    def __init__(self, n: int) -> None:
        self.n, self.epoch, self.last = n, np.int64(0), list[Any]()

    def __len__(self) -> int:
        return self.n

    def __iter__(self) -> Iterator[int]:
        assert isinstance(self.epoch, np.int64)
        found = np.random.default_rng([self.epoch, *self.last]).permutation(self.n)
        self.epoch, self.last = self.epoch + 1, list(found[:3])
        return iter(found.tolist())


@pytest.mark.parametrize("kind", [Numbered, Slots])
def test_a_state_has_attributes_wherever_a_sampler_keeps_them(kind: Any) -> None:
    taker, states = opened(SHORT, kind(SHORT)), list[str]()
    whole = read(taker, BATCHES, states)
    for at in range(BATCHES - 1, 0, -1):
        for loader in (taker, opened(SHORT, kind(SHORT))):
            loader.load_state_dict(json.loads(states[at]))
            assert read(loader, BATCHES - at) == whole[at:]


class Looking(Made):
    """Looks at the model and at its loader, and draws from what has no state."""

    def __init__(self, n: int) -> None:
        super().__init__(n)
        self.chance = random.SystemRandom()
        self.model = torch.nn.Linear(3, 3)
        self.optimizer = torch.optim.SGD(self.model.parameters(), 0.1)
        self.data = leat.from_arrays(y=np.arange(n))
        self.others = leat.DataLoader(range(n))
        self.loader: Any = None

    def __iter__(self) -> Iterator[int]:
        return iter(self.chance.sample(range(self.n), self.n))


def test_a_state_has_nothing_of_a_model_or_a_loader_that_a_sampler_holds() -> None:
    sampler = Looking(SHORT)
    sampler.loader = loader = opened(SHORT, sampler)
    batches_of(loader, 5)
    state = loader.state_dict()
    assert state["sampler"] == {}
    with torch.no_grad():
        sampler.model.weight.fill_(7.0)
    loader.load_state_dict(state)
    assert len(batches_of(loader, 4)) == 4 and bool((sampler.model.weight == 7.0).all())


class Stateless(Skipping):
    def state_dict(self) -> dict[str, Any]:
        raise OSError("no state here")


def test_a_sampler_without_the_state_that_it_promises_is_read_all_the_same() -> None:
    loader = opened(SHORT, Stateless(SHORT))
    assert [len(batch.ids) for batch in loader] == [30, 30, 30, 10]
    with pytest.raises(OSError, match="no state here"):
        loader.state_dict()
    taker = opened(SHORT, SAMPLERS["an epoch"](SHORT))
    next(iter(taker))
    loader.load_state_dict(taker.state_dict())
    assert [batch.step for batch in loader] == [1, 2, 3]


def test_ranks_go_on_from_states_of_their_own() -> None:
    """Rank 0 reads the sampler for all of them."""
    told = run_ranks("sampler_ranks.py")
    assert "'now' cannot be 3" in told[0]["refused"] and "see the error there" in told[1]["refused"]
    for kind in SAMPLERS:
        assert all(rank[kind] == "" for rank in told), [rank[kind] for rank in told]
