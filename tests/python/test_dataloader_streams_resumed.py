"""Streams with states, resumed anywhere: in any epoch, before every worker has delivered, between two epochs.

Data sets do with a loaded state what their authors thought of: use it up, keep it, count epochs in it, draw from it. In
each case the resumed loader goes on as if it had never stopped, in this epoch and those after it.
"""

from __future__ import annotations

import dataclasses
import itertools
import os
import pickle
import random
import signal
from collections.abc import Callable, Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch")
from dataloader_support import StatefulStream, as_is  # noqa: E402
from torch.utils.data import IterableDataset, get_worker_info  # noqa: E402

import leat  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create")

N = 13
WAYS: dict[str, dict[str, Any]] = {
    "here": {},
    "2 workers": {"num_workers": 2},
    "2 workers that persist": {"num_workers": 2, "persistent_workers": True},
    "2 workers that are shared": {"num_workers": 2, "persistent_workers": "shared"},
    "as many workers as pay": {"num_workers": "auto"},
}


def share() -> list[int]:
    """The numbers of this worker."""
    info = get_worker_info()
    return list(range(N)) if info is None else list(range(info.id, N, info.num_workers))


class UsesUp(IterableDataset):
    """Its state is its place. An iterator after a loaded state begins there, the next one at the start."""

    def __init__(self) -> None:
        self.at, self.resumed = 0, False

    def __iter__(self) -> Iterator[Any]:
        own = share()
        if not self.resumed:
            self.at = 0
        self.resumed = False
        while self.at < len(own):
            self.at += 1
            yield own[self.at - 1]

    def state_dict(self) -> dict[str, Any]:
        return {"at": self.at}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.at, self.resumed = state["at"], True


class Keeps(IterableDataset):
    """All its iterators begin where the loaded state was."""

    def __init__(self) -> None:
        self.start = self.at = 0

    def __iter__(self) -> Iterator[Any]:
        own = share()
        self.at = self.start
        while self.at < len(own):
            self.at += 1
            yield own[self.at - 1]

    def state_dict(self) -> dict[str, Any]:
        return {"at": self.at}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.start = state["at"]


class KeepsAndCounts(Keeps):
    """So do they, and its state has the number of the epoch, which each end raises."""

    def __init__(self) -> None:
        super().__init__()
        self.epoch = 0

    def __iter__(self) -> Iterator[Any]:
        yield from ((self.epoch, n) for n in super().__iter__())
        self.epoch += 1

    def state_dict(self) -> dict[str, Any]:
        return {"at": self.at, "epoch": self.epoch}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        self.epoch = state["epoch"]


class KeepsUntilTold(Keeps):
    """So do they, in the epoch of the loaded state. Before it is iterated over it has no state."""

    def __init__(self) -> None:
        super().__init__()
        self.epoch, self.loaded, self.now = 0, None, None

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __iter__(self) -> Iterator[Any]:
        own = share()
        self.now = {"epoch": self.epoch, "at": 0}
        if self.loaded is not None and self.loaded["epoch"] == self.epoch:
            self.now["at"] = self.loaded["at"]
        while self.now["at"] < len(own):
            self.now["at"] += 1
            yield own[self.now["at"] - 1]

    def state_dict(self) -> dict[str, Any]:
        if self.now is None:
            raise RuntimeError("iterate first")
        return dict(self.now)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.loaded = dict(state)


class Shuffles(UsesUp):
    """Its state has a generator, which draws an order at each start."""

    def __init__(self) -> None:
        super().__init__()
        self.rng, self.order = random.Random(5), []

    def __iter__(self) -> Iterator[Any]:
        if not self.resumed:
            self.at, self.order = 0, self.rng.sample(share(), len(share()))
        self.resumed = False
        while self.at < len(self.order):
            self.at += 1
            yield self.order[self.at - 1]

    def state_dict(self) -> dict[str, Any]:
        return {"at": self.at, "order": self.order, "rng": self.rng.getstate()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        self.order = state["order"]
        self.rng.setstate(state["rng"])


class CountsAtTheStart(UsesUp):
    """Its state has the number of the epoch, which each start raises."""

    def __init__(self) -> None:
        super().__init__()
        self.epoch = -1

    def __iter__(self) -> Iterator[Any]:
        self.epoch += not self.resumed
        yield from ((self.epoch, n) for n in super().__iter__())

    def state_dict(self) -> dict[str, Any]:
        return {"at": self.at, "epoch": self.epoch}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        self.epoch = state["epoch"]


class CountsAtTheEnd(CountsAtTheStart):
    """Its state has the number of the epoch, and is at the start of the next one when one has ended."""

    def __init__(self) -> None:
        super().__init__()
        self.epoch = 0

    def __iter__(self) -> Iterator[Any]:
        yield from ((self.epoch, n) for n in UsesUp.__iter__(self))
        self.epoch, self.at = self.epoch + 1, 0


def hugging_face() -> Any:
    datasets = pytest.importorskip("datasets")
    return datasets.Dataset.from_dict({"n": list(range(N))}).to_iterable_dataset(num_shards=4)


def hugging_face_generated() -> Any:
    """A shard has more than one batch, so that the first one behind a state changes the place in it alone."""
    datasets = pytest.importorskip("datasets")
    return datasets.IterableDataset.from_generator(_shards, gen_kwargs={"shards": list(range(2))})


def _shards(shards: list[int]) -> Iterator[Any]:
    for shard in shards:
        yield from ({"n": 100 * shard + i} for i in range(9))


def hugging_face_interleaved() -> Any:
    """Its state says that it has ended, too."""
    datasets = pytest.importorskip("datasets")
    parts = [hugging_face_generated(), hugging_face_generated()]
    return datasets.interleave_datasets(parts, probabilities=[0.3, 0.7], seed=1, stopping_strategy="all_exhausted")


def hugging_face_joined() -> Any:
    """Workers' states have another form than that of the whole."""
    datasets = pytest.importorskip("datasets")
    return datasets.concatenate_datasets([hugging_face_generated(), hugging_face()])


def hugging_face_shuffled() -> Any:
    return hugging_face().shuffle(seed=3, buffer_size=1)


KINDS: dict[str, Callable[[], Any]] = {
    **{
        kind.__name__: kind
        for kind in (UsesUp, Keeps, KeepsAndCounts, KeepsUntilTold, Shuffles, CountsAtTheStart, CountsAtTheEnd)
    },
    "StatefulStream": lambda: StatefulStream([5, 0, 6]),
    "Hugging Face": hugging_face,
    "Hugging Face, generated": hugging_face_generated,
    "Hugging Face, interleaved": hugging_face_interleaved,
    "Hugging Face, joined": hugging_face_joined,
    "Hugging Face, shuffled": hugging_face_shuffled,
}


def resumed(make: Callable[[], Any], state: bytes, epochs: int) -> list[list[Any]]:
    loader = make()
    loader.load_state_dict(pickle.loads(state))
    return [list(loader) for _ in range(epochs)]


@pytest.mark.parametrize(
    "kind, way",
    [
        *itertools.product(KINDS, ["here"]),
        # in workers, a shuffled one of Hugging Face takes no state of its own: it has fewer shards there
        *itertools.product([kind for kind in KINDS if "shuffled" not in kind], ["2 workers that persist"]),
        *itertools.product(["UsesUp", "CountsAtTheStart"], [way for way in WAYS if way[-4:] not in ("here", "sist")]),
    ],
)
@pytest.mark.filterwarnings("error:epoch .* has no batch")
def test_a_stream_that_is_cut_anywhere_goes_on_as_if_it_had_not_been(kind: str, way: str) -> None:
    def make() -> Any:
        return leat.DataLoader(KINDS[kind](), 2, collate_fn=as_is, **WAYS[way])

    loader = make()
    whole = [list(loader) for _ in range(3)]
    steps = len(whole[0])
    for epoch, cuts in ((0, (1, steps - 1, None)), (1, (0, 1, 2, steps, None))):
        loader = make()
        for _ in range(epoch):
            list(loader)
        it, given = iter(loader), 0
        for cut in cuts:
            given += len(list(itertools.islice(it, None if cut is None else cut - given)))
            state = pickle.dumps(loader.state_dict())
            rest = whole[epoch][given:] if given < steps else None
            expected = [rest] * (rest is not None) + whole[epoch + 1 :]
            assert resumed(make, state, len(expected)) == expected, (epoch, cut)


@pytest.mark.parametrize("way", ["here", "2 workers that persist"])
def test_a_resumed_run_can_be_cut_and_resumed_again(way: str) -> None:
    def make() -> Any:
        return leat.DataLoader(Shuffles(), 2, collate_fn=as_is, **WAYS[way])

    loader = make()
    whole = [list(loader) for _ in range(3)]
    found: list[list[Any]] = [[], [], []]
    state = pickle.dumps(make().state_dict())
    for n in (1, 2, 4, 1, 3, 5, 2):  # batches until the next cut
        loader = make()
        loader.load_state_dict(pickle.loads(state))
        it = iter(loader)
        for _ in range(n):
            epoch = next(e for e in range(3) if len(found[e]) < len(whole[e]))
            batch = next(it, None)
            if batch is None:
                it = iter(loader)
                batch = next(it)
            found[epoch].append(batch)
        state = pickle.dumps(loader.state_dict())
    flat = list(itertools.chain(*found))
    assert flat == list(itertools.chain(*whole))[: len(flat)] and len(flat) == 18


class Over(IterableDataset):
    """Nothing brings it back from its end."""

    def __init__(self) -> None:
        self.at = [0]

    def __iter__(self) -> Iterator[Any]:
        own = share()
        while self.at[0] < len(own):
            self.at[0] += 1
            yield own[self.at[0] - 1]

    def state_dict(self) -> dict[str, Any]:
        return {"at": self.at[0]}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.at[0] = max(self.at[0], state["at"])


@pytest.mark.parametrize("way", ["here", "2 workers that persist"])
def test_an_epoch_that_stays_empty_after_a_state_is_warned_of(way: str) -> None:
    loader = leat.DataLoader(Over(), 2, **WAYS[way])
    list(loader)
    again = leat.DataLoader(Over(), 2, **WAYS[way])
    again.load_state_dict(loader.state_dict())
    with pytest.warns(
        UserWarning, match="epoch 1 has no batch: a state was loaded, and Over gives no samples after it"
    ):
        assert list(again) == []


def test_a_loader_that_chooses_its_workers_takes_as_many_as_a_state_has() -> None:
    loader = leat.DataLoader(UsesUp(), 2, collate_fn=as_is, num_workers=3)
    it = iter(loader)
    next(it), next(it)
    state = loader.state_dict()
    again = leat.DataLoader(UsesUp(), 2, collate_fn=as_is, num_workers="auto")
    again.load_state_dict(state)
    assert list(again) == list(it) and again.num_workers == 3


def test_a_state_of_old_that_has_no_mark_is_of_an_epochs_end() -> None:
    loader = leat.DataLoader(UsesUp(), 2, collate_fn=as_is)
    whole = list(loader)
    state = loader.state_dict()
    for _, of_worker, _ in state["streams"]:
        del of_worker["begin"]
    again = leat.DataLoader(UsesUp(), 2, collate_fn=as_is)
    again.load_state_dict(state)
    assert [list(again), list(again)] == [whole, whole]


def test_a_worker_that_takes_anothers_place_begins_where_that_one_did() -> None:
    loader = leat.DataLoader(CountsAtTheEnd(), 2, collate_fn=as_is, num_workers=2, persistent_workers=True)
    whole = [list(loader) for _ in range(2)]
    again = leat.DataLoader(CountsAtTheEnd(), 2, collate_fn=as_is, num_workers=2, persistent_workers=True)
    list(again)
    it = iter(again)
    for pid in again.stats()["pids"]:
        os.kill(pid, signal.SIGKILL)
    assert list(it) == whole[1]


@pytest.mark.parametrize("kind", ["UsesUp", "Keeps", "KeepsAndCounts", "Hugging Face"])
def test_a_state_loaded_into_a_loader_that_has_run_shortens_no_later_epoch(kind: str) -> None:
    dataset = KINDS[kind]()
    loader = leat.DataLoader(dataset, 2, collate_fn=as_is)
    it = iter(loader)
    next(it), next(it)
    state = loader.state_dict()
    rest = list(it)
    next(iter(loader))
    loader.load_state_dict(state)
    assert list(loader) == rest
    other = leat.DataLoader(dataset, 2, collate_fn=as_is)  # of the same data set
    assert [len(list(loader)), len(list(other)), len(list(loader))] == [7, 7, 7]


@dataclasses.dataclass
class Equal(Keeps):
    """Equal to others, and without a hash."""

    n: int = N

    def __post_init__(self) -> None:
        super().__init__()


@pytest.mark.parametrize("way", ["here", "2 workers that persist"])
def test_a_data_set_that_is_equal_to_another_or_has_no_hash_keeps_no_state(way: str) -> None:
    def make() -> Any:
        return leat.DataLoader(Equal(), 2, collate_fn=as_is, **WAYS[way])

    loader = make()
    whole = list(loader)
    next(it := iter(loader))
    state = loader.state_dict()
    del it
    again, other = make(), make()
    again.load_state_dict(state)
    assert [list(again), list(again), list(other), list(again)] == [whole[1:], whole, whole, whole]


@pytest.mark.parametrize("way", ["here", "2 workers that persist"])
@pytest.mark.parametrize("kind", ["UsesUp", "Shuffles", "CountsAtTheStart"])
def test_an_epoch_that_follows_on_one_that_was_left_goes_on_from_any_cut(kind: str, way: str) -> None:
    def begun() -> Any:
        loader = leat.DataLoader(KINDS[kind](), 2, collate_fn=as_is, **WAYS[way])
        it = iter(loader)
        next(it), next(it), next(it)
        return loader

    loader = begun()
    whole = [list(loader) for _ in range(2)]
    for cut in (0, 1, 2):
        loader = begun()
        list(itertools.islice(it := iter(loader), cut))
        again = leat.DataLoader(KINDS[kind](), 2, collate_fn=as_is, **WAYS[way])
        again.load_state_dict(pickle.loads(pickle.dumps(loader.state_dict())))
        assert [list(again), list(again)] == [whole[0][cut:], whole[1]], cut
        del it


def test_the_epoch_of_a_state_is_told_to_a_data_set_that_passes_over_states_of_others() -> None:
    dataset = hugging_face_shuffled()
    dataset.set_epoch(3)
    loader = leat.DataLoader(dataset, 2, collate_fn=as_is)
    it = iter(loader)
    next(it), next(it)
    state = loader.state_dict()
    again = leat.DataLoader(hugging_face_shuffled(), 2, collate_fn=as_is)
    again.load_state_dict(state)
    assert list(again) == list(it)


def test_a_worker_without_rows_of_its_own_changes_nothing_for_the_others() -> None:
    def make() -> Any:
        return hugging_face(), dict(collate_fn=as_is, num_workers=5, persistent_workers=True)

    def run(loader: Any, dataset: Any, epochs: range) -> list[list[Any]]:
        found = []
        for epoch in epochs:
            dataset.set_epoch(epoch)
            found.append(list(loader))
        return found

    dataset, options = make()
    loader = leat.DataLoader(dataset, 2, **options)
    whole = run(loader, dataset, range(6, 9))
    dataset, options = make()
    loader = leat.DataLoader(dataset, 2, **options)
    run(loader, dataset, range(6, 7))
    again_of, options = make()
    again = leat.DataLoader(again_of, 2, **options)
    again.load_state_dict(loader.state_dict())
    assert run(again, again_of, range(7, 9)) == whole[1:] and again_of.epoch == 8
