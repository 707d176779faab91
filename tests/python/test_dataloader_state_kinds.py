"""States of every kind of stream and sampler: of streams that are their own iterators, of samplers whose iterators hold
them; states that grow or are changed in place; states that are asked for and loaded at unusual times.
"""

from __future__ import annotations

import copy
import json
import multiprocessing
from collections.abc import Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch")
from dataloader_support import Count, PlainStream, StatefulIterator, StatefulStream, as_is, rows  # noqa: E402
from torch.utils.data import IterableDataset, Sampler, get_worker_info  # noqa: E402

import leat  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create")
FORK = multiprocessing.get_context("fork")
WAYS: dict[str, dict[str, Any]] = {
    "here": {},
    "2 workers": {"num_workers": 2},
    "2 persistent workers": {"num_workers": 2, "persistent_workers": True},
}


def took(loader: Any, n: int) -> tuple[list[Any], Any]:
    """The first n batches, and the iterator behind them."""
    it = iter(loader)
    return [next(it) for _ in range(n)], it


# --- streams that are their own iterators ----------------------------------------------------------------------------


class Walker(IterableDataset):
    """This worker's share of 24 numbers. It is its own iterator; `__iter__` goes back to the start of the share."""

    def __init__(self, draw: bool = False, calls: Any = None) -> None:
        self.draw, self.calls, self.at, self.end = draw, calls, 0, 0

    def __iter__(self) -> Walker:
        info = get_worker_info()
        w, n = (0, 1) if info is None else (info.id, info.num_workers)
        self.at, self.end = 24 // n * w, 24 // n * (w + 1)
        if self.calls is not None:
            with self.calls.get_lock():
                self.calls.value += 1
        return self

    def __next__(self) -> int:
        if self.at >= self.end:
            raise StopIteration
        self.at += 1
        return int(torch.randint(1 << 30, ())) if self.draw else self.at - 1

    def state_dict(self) -> dict[str, Any]:
        return {"place": {"at": self.at, "end": self.end}, **({"rng": torch.get_rng_state()} if self.draw else {})}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.at, self.end = state["place"]["at"], state["place"]["end"]
        if self.draw:
            torch.set_rng_state(state["rng"])


@pytest.mark.parametrize("cut", [0, 1, 5])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("size, draw", [(None, False), (3, False), (3, True)])
def test_a_stream_that_is_its_own_iterator_goes_on_and_is_iterated_once(
    stateful_class: Any, size: int | None, draw: bool, way: str, cut: int
) -> None:
    loader = stateful_class(Walker(draw), size, collate_fn=as_is, **WAYS[way])
    _, it = took(loader, cut)
    state = loader.state_dict()
    expected = list(it)
    calls = FORK.Value("i", 0)
    again = stateful_class(Walker(draw, calls), size, collate_fn=as_is, **WAYS[way])
    again.load_state_dict(copy.deepcopy(state))
    assert list(again) == expected and calls.value == max(1, WAYS[way].get("num_workers", 0))


@pytest.mark.parametrize("way", WAYS)
def test_after_the_end_a_stream_that_is_its_own_iterator_begins_anew(stateful_class: Any, way: str) -> None:
    loader = stateful_class(Walker(), 3, collate_fn=as_is, **WAYS[way])
    whole = list(loader)
    state = loader.state_dict()
    assert list(loader) == whole
    again = stateful_class(Walker(), 3, collate_fn=as_is, **WAYS[way])
    took(again, 2)
    again.load_state_dict(state)
    assert list(again) == whole and list(again) == whole


# --- what a state is made of -----------------------------------------------------------------------------------------


class Growing(IterableDataset):
    """Its state gets a key, a nested one and a tensor for each number, and loses one at every fourth."""

    def __init__(self) -> None:
        self.at, self.held = 0, {}

    def __iter__(self) -> Iterator[tuple[int, list[str]]]:
        while self.at < 20:
            if self.at % 4 == 3:
                del self.held[f"key {self.at - 1}"]
            self.held[f"key {self.at}"] = {"list": list(range(self.at)), "tensor": torch.tensor(self.at)}
            self.at += 1
            yield self.at - 1, list(self.held)
        self.at, self.held = 0, {}

    def state_dict(self) -> dict[str, Any]:
        return {"at": self.at, **self.held}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.at, self.held = state["at"], {k: v for k, v in state.items() if k != "at"}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("cut", [3, 6])
def test_a_state_whose_keys_come_and_go_is_that_of_its_batch(stateful_class: Any, way: str, cut: int) -> None:
    loader = stateful_class(Growing(), None, collate_fn=as_is, **WAYS[way])
    _, it = took(loader, cut)
    state = loader.state_dict()
    expected = list(it)
    again = stateful_class(Growing(), None, collate_fn=as_is, **WAYS[way])
    again.load_state_dict(state)
    assert list(again) == expected


class InPlace(IterableDataset):
    """Gives out its own state, and goes on changing it."""

    def __init__(self) -> None:
        self.state: dict[str, Any] = {"at": 0, "flips": [0, 0, 0]}

    def __iter__(self) -> Iterator[int]:
        while self.state["at"] < 20:
            self.state["at"] += 1
            turn = self.state["at"] % 3
            self.state["flips"][turn] = 1 - self.state["flips"][turn]
            yield 2 * self.state["at"] + self.state["flips"][turn]
        self.state["at"] = 0

    def state_dict(self) -> dict[str, Any]:
        return self.state

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.state = state


@pytest.mark.parametrize("way", WAYS)
def test_a_state_that_the_stream_changes_in_place_stays_as_it_was_taken(way: str) -> None:
    loader = leat.DataLoader(InPlace(), None, **WAYS[way])
    _, it = took(loader, 5)
    state = loader.state_dict()
    kept = copy.deepcopy(state)
    expected = list(it)
    assert state == kept
    again = leat.DataLoader(InPlace(), None, **WAYS[way])
    again.load_state_dict(state)
    assert list(again) == expected and state == kept


# --- samplers whose iterators hold the state -------------------------------------------------------------------------


class OfIterators(Sampler):
    """0 to n - 1; the state is that of the iterator."""

    def __init__(self, n: int) -> None:
        self.n = n

    def __iter__(self) -> StatefulIterator:
        return StatefulIterator(range(self.n), draw=False)

    def __len__(self) -> int:
        return self.n


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("cut", [0, 1, 5])
def test_a_sampler_whose_iterators_have_states_goes_on(stateful_class: Any, way: str, cut: int) -> None:
    loader = stateful_class(Count(20), 3, sampler=OfIterators(20), **WAYS[way])
    rows(loader)
    _, it = took(loader, cut)
    state = json.loads(json.dumps(loader.state_dict()))
    again = stateful_class(Count(20), 3, sampler=OfIterators(20), **WAYS[way])
    again.load_state_dict(state)
    assert rows(again) == rows(it) == list(range(3 * cut, 20))


@pytest.mark.parametrize("way", WAYS)
def test_the_stateful_sampler_of_ranks_that_torchdata_has_goes_on(stateful_class: Any, way: str) -> None:
    sampler_of = pytest.importorskip("torchdata.stateful_dataloader.sampler").StatefulDistributedSampler

    def made() -> Any:
        data = Count(50)
        return stateful_class(
            data, 4, sampler=sampler_of(data, num_replicas=2, rank=1, shuffle=True, seed=3), **WAYS[way]
        )

    expected = rows(made())
    loader = made()
    found, it = took(loader, 3)
    state = loader.state_dict()
    again = made()
    again.load_state_dict(state)
    assert rows(found) + rows(again) == expected == rows(found) + rows(it)


# --- when a state is asked for, and when it is loaded ----------------------------------------------------------------


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("stream", [False, True])
def test_asking_for_a_state_before_loading_one_changes_nothing(stateful_class: Any, way: str, stream: bool) -> None:
    def made() -> Any:
        return stateful_class(StatefulStream([10, 10]) if stream else Count(20), 3, collate_fn=as_is, **WAYS[way])

    loader = made()
    _, it = took(loader, 3)
    state = loader.state_dict()
    expected = list(it)
    again = made()
    again.state_dict()
    again.load_state_dict(state)
    assert list(again) == expected


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("stream", [False, True])
def test_a_state_loaded_while_an_iterator_runs_is_the_state_from_then_on(
    stateful_class: Any, way: str, stream: bool
) -> None:
    loader = stateful_class(StatefulStream([10, 10]) if stream else Count(20), 3, collate_fn=as_is, **WAYS[way])
    first, it = took(loader, 1)
    state = loader.state_dict()
    rest = list(it)
    _, it = took(loader, 3)
    loader.load_state_dict(state)
    if stateful_class is leat.DataLoader:  # torchdata's still answers for the iterator
        assert loader.state_dict() == state
    assert list(loader) == rest and len(first + rest) == len(list(loader))


@pytest.mark.parametrize("num_workers", [0, 2])
@pytest.mark.parametrize("shuffle", [False, True])
def test_epochs_after_a_state_between_them_are_those_of_one_run(
    stateful_class: Any, num_workers: int, shuffle: bool
) -> None:
    def run(change: bool) -> list[list[int]]:
        torch.manual_seed(0)
        loader = stateful_class(Count(30), 4, shuffle=shuffle, num_workers=num_workers)
        found = [rows(loader) for _ in range(2)]
        if change:
            state = loader.state_dict()
            loader = stateful_class(Count(30), 4, shuffle=shuffle, num_workers=num_workers)
            loader.load_state_dict(state)
        return found + [rows(loader) for _ in range(2)]

    found = run(change=True)
    assert found == run(change=False) and all(sorted(epoch) == list(range(30)) for epoch in found)


@pytest.mark.parametrize("way", WAYS)
def test_after_the_end_a_given_generator_goes_on_where_it_was(way: str) -> None:
    def made() -> Any:
        return leat.DataLoader(
            Count(30), 4, shuffle=True, generator=torch.Generator().manual_seed(4), collate_fn=as_is, **WAYS[way]
        )

    loader = made()
    list(loader)
    state = loader.state_dict()
    expected = list(loader)
    again = made()
    again.load_state_dict(state)
    assert list(again) == expected


@pytest.mark.parametrize("way", ["here", "2 persistent workers"])
def test_epochs_that_a_stream_counts_go_on_from_the_end_of_one(stateful_class: Any, way: str) -> None:
    loader = stateful_class(StatefulStream([12, 7]), 3, collate_fn=as_is, **WAYS[way])
    list(loader)
    state = loader.state_dict()
    second, third = list(loader), list(loader)
    assert [{epoch for batch in found for _, epoch in batch} for found in (second, third)] == [{1}, {2}]
    again = stateful_class(StatefulStream([12, 7]), 3, collate_fn=as_is, **WAYS[way])
    took(again, 2)
    again.load_state_dict(state)
    assert [list(again), list(again)] == [second, third]


# --- out of order ----------------------------------------------------------------------------------------------------


class HeldUp(PlainStream):
    """Worker 1 waits for the event before its first number."""

    def __init__(self, event: Any) -> None:
        super().__init__([5, 5])
        self.event = event

    def __iter__(self) -> Iterator[int]:
        info = get_worker_info()
        if info is not None and info.id == 1:
            self.event.wait()
        yield from super().__iter__()


@pytest.mark.parametrize("cut", [2, 4])
def test_out_of_order_a_state_of_streams_leaves_out_what_was_delivered(cut: int) -> None:
    event = FORK.Event()
    loader = leat.DataLoader(HeldUp(event), None, num_workers=2, in_order=False)
    found, it = took(loader, cut)
    state = loader.state_dict()
    event.set()
    assert found == list(range(cut)) and sorted(found + list(it)) == list(range(10))
    again = leat.DataLoader(HeldUp(event), None, num_workers=2, in_order=False)
    again.load_state_dict(state)
    assert sorted(found + list(again)) == list(range(10))
