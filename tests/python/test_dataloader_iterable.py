"""Iterable data sets: streams in one or several workers, their lengths, their ends."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import warnings
from collections.abc import Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch")
from dataloader_support import (  # noqa: E402
    HUNG_S,
    Count,
    Endless,
    FailingStream,
    OwnIterator,
    PerWorker,
    Stream,
    as_is,
    batches,
    error_of,
    rows,
)
from torch.utils.data import ChainDataset, IterableDataset, get_worker_info  # noqa: E402
from torch.utils.data.distributed import DistributedSampler  # noqa: E402

import leat  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create")


def alternating(sizes: list[int], size: int, drop_last: bool = False) -> list[list[int]]:
    """Each worker's batches in turn; a worker that has ended is passed over."""
    of_worker = []
    for w, n in enumerate(sizes):
        numbers = list(range(100 * w, 100 * w + n))
        cut = [numbers[k : k + size] for k in range(0, n, size)]
        of_worker.append([b for b in cut if len(b) == size or not drop_last])
    found = []
    while any(of_worker):
        found += [b.pop(0) for b in of_worker if b]
    return found


@pytest.mark.parametrize("num_workers", [0, 1])
@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("size", [1, 2, 7, 20, 30])
def test_a_stream_is_cut_into_batches(loader_class: Any, num_workers: int, size: int, drop_last: bool) -> None:
    found = batches(loader_class(Stream(20), size, num_workers=num_workers, drop_last=drop_last))
    assert found == alternating([20], size, drop_last)


@pytest.mark.parametrize("num_workers", [0, 1])
def test_without_batches_the_elements_come_unchanged(loader_class: Any, num_workers: int) -> None:
    loader = loader_class(Stream(20), batch_size=None, num_workers=num_workers)
    found = list(loader)
    assert found == list(range(20)) and all(type(i) is int for i in found) and len(loader) == 20


@pytest.mark.parametrize("prefetch_factor", [1, 2, 4])
@pytest.mark.parametrize("sizes", [[5, 5, 5], [0, 4, 20], [20, 4, 0], [0, 0, 0], [1, 30, 2]])
def test_workers_take_turns_batch_by_batch(loader_class: Any, sizes: list[int], prefetch_factor: int) -> None:
    loader = loader_class(PerWorker(sizes), 7, num_workers=3, prefetch_factor=prefetch_factor)
    assert batches(loader) == alternating(sizes, 7)


def test_workers_take_turns_element_by_element_without_batches(loader_class: Any) -> None:
    found = list(loader_class(PerWorker([0, 4, 20]), batch_size=None, num_workers=3))
    assert found == [b[0] for b in alternating([0, 4, 20], 1)] and all(type(i) is int for i in found)


def test_each_worker_drops_its_own_last_batch(loader_class: Any) -> None:
    assert batches(loader_class(PerWorker([0, 4, 20]), 7, num_workers=3, drop_last=True)) == alternating(
        [0, 4, 20], 7, True
    )


def test_a_stream_that_nobody_shards_comes_once_per_worker(loader_class: Any) -> None:
    assert sorted(rows(loader_class(Stream(6), 2, num_workers=2))) == sorted([*range(6), *range(6)])


@pytest.mark.parametrize("persistent", [False, True])
def test_each_epoch_begins_the_stream_anew(loader_class: Any, persistent: bool) -> None:
    loader = loader_class(PerWorker([4, 6]), 2, num_workers=2, persistent_workers=persistent)
    assert [batches(loader) for _ in range(3)] == [alternating([4, 6], 2)] * 3


@pytest.mark.parametrize("persistent", [False, True])
def test_an_epoch_of_a_stream_may_be_left_early(loader_class: Any, persistent: bool) -> None:
    loader = loader_class(PerWorker([40, 60]), 2, num_workers=2, persistent_workers=persistent)
    for taken in (1, 3):
        it = iter(loader)
        assert [next(it).tolist() for _ in range(taken)] == alternating([40, 60], 2)[:taken]
        del it
    assert batches(loader) == alternating([40, 60], 2)


@pytest.mark.parametrize("num_workers", [0, 2])
def test_an_endless_stream_can_be_read_for_a_while(loader_class: Any, num_workers: int) -> None:
    it = iter(loader_class(Endless(), 3, num_workers=num_workers))
    found = [next(it).tolist() for _ in range(20)]
    assert found[-1] == ([27, 28, 29] if num_workers else [57, 58, 59])


def test_a_stream_that_is_its_own_iterator_is_used_up_here_but_not_in_workers(loader_class: Any) -> None:
    loader = loader_class(OwnIterator(4), 2)
    assert [batches(loader) for _ in range(2)] == [[[0, 1], [2, 3]], []]
    loader = loader_class(OwnIterator(4), 2, num_workers=1)
    assert [batches(loader) for _ in range(2)] == [[[0, 1], [2, 3]]] * 2


def test_streams_can_be_chained(loader_class: Any) -> None:
    expected = [*range(20), *range(15)]
    for num_workers in (0, 1):
        assert rows(loader_class(Stream(20) + Stream(15), 4, num_workers=num_workers)) == expected
        assert rows(loader_class(ChainDataset([Stream(20), Stream(15)]), num_workers=num_workers)) == expected
    with pytest.raises(AssertionError, match="ChainDataset only supports IterableDataset"):
        list(loader_class(ChainDataset([Stream(20), Count(3)])))


def test_a_chain_has_the_sum_of_the_lengths(loader_class: Any) -> None:
    assert len(loader_class(ChainDataset([Stream(20), Stream(15)]), 10)) == 4


def test_a_stream_sees_its_worker(loader_class: Any) -> None:
    class Ids(torch.utils.data.IterableDataset):
        def __iter__(self) -> Any:
            info = get_worker_info()
            assert info is not None and info.dataset is self
            yield from [(info.id, info.num_workers)] * 4

    assert list(loader_class(Ids(), 2, num_workers=2, collate_fn=as_is)) == [[(0, 2)] * 2, [(1, 2)] * 2] * 2


def test_a_collate_fn_gets_lists_of_a_stream(loader_class: Any) -> None:
    for num_workers in (0, 1):
        assert list(loader_class(Stream(5), 2, num_workers=num_workers, collate_fn=as_is)) == [[0, 1], [2, 3], [4]]


def warned(it: Any, workers: bool = True) -> bool:
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        next(it)
    texts = [str(w.message) for w in seen if "samples have been fetched" in str(w.message)]
    assert all(("For multiprocessing data-loading" in text) == workers for text in texts)
    return bool(texts)


def test_more_elements_than_the_length_that_was_asked_for_are_warned_of(loader_class: Any) -> None:
    loader = loader_class(Stream(5), num_workers=2)
    it = iter(loader)
    assert not any(warned(it) for _ in range(10))
    assert len(loader) == 5
    it = iter(loader)
    assert [warned(it) for _ in range(10)] == [False] * 5 + [True] * 5


def test_more_elements_than_the_length_are_warned_of_without_workers(loader_class: Any) -> None:
    class Long(Stream):
        def __len__(self) -> int:
            return 2

    loader = loader_class(Long(4))
    assert len(loader) == 2
    it = iter(loader)
    assert [warned(it, workers=False) for _ in range(4)] == [False] * 2 + [True] * 2


def test_a_stream_shorter_than_its_length_is_not_warned_of(loader_class: Any) -> None:
    class Short(Stream):
        def __len__(self) -> int:
            return 100

    loader = loader_class(Short(4))
    assert len(loader) == 100
    it = iter(loader)
    assert not any(warned(it) for _ in range(4)) and next(it, None) is None


@pytest.mark.parametrize("num_workers", [0, 2])
def test_an_error_in_iter_of_a_stream_arrives(loader_class: Any, num_workers: int) -> None:
    assert "no stream here" in error_of(OSError, lambda: list(loader_class(FailingStream(-1), num_workers=num_workers)))


@pytest.mark.parametrize("num_workers", [0, 1])
def test_an_error_in_a_stream_comes_after_the_batches_before_it(loader_class: Any, num_workers: int) -> None:
    it = iter(loader_class(FailingStream(5), 2, num_workers=num_workers))
    assert [next(it).tolist() for _ in range(2)] == [[0, 1], [2, 3]]
    assert "the stream broke" in error_of(ValueError, lambda: next(it))


class Recovering:
    """An iterator that raises once and goes on."""

    def __init__(self) -> None:
        self.at = 0

    def __iter__(self) -> Recovering:
        return self

    def __next__(self) -> int:
        self.at += 1
        if self.at == 4:
            raise ValueError("number 4 is missing")
        if self.at > 7:
            raise StopIteration
        return self.at


def _without_five(batch: list[int]) -> list[int]:
    if 5 in batch:
        raise ValueError("number 5 is in the way")
    return batch


@pytest.mark.parametrize("persistent", [None, False, True])
@pytest.mark.parametrize("what", ["iterator", "collate_fn"])
def test_a_stream_goes_on_after_an_error_if_it_can(loader_class: Any, what: str, persistent: bool | None) -> None:
    class Numbers(torch.utils.data.IterableDataset):
        def __iter__(self) -> Any:
            return Recovering() if what == "iterator" else iter(range(1, 8))

    workers = {} if persistent is None else {"num_workers": 1, "persistent_workers": persistent}
    loader = loader_class(Numbers(), 2, collate_fn=as_is if what == "iterator" else _without_five, **workers)
    for _ in range(2):
        it = iter(loader)
        if what == "iterator":
            assert next(it) == [1, 2] and "number 4" in error_of(ValueError, lambda it=it: next(it))
            assert list(it) == [[5, 6], [7]]
        else:
            assert [next(it), next(it)] == [[1, 2], [3, 4]]
            assert "number 5" in error_of(ValueError, lambda it=it: next(it)) and list(it) == [[7]]


def test_out_of_order_streams_are_delivered_in_full(loader_class: Any) -> None:
    found = batches(loader_class(PerWorker([0, 4, 20]), 7, num_workers=3, in_order=False))
    assert sorted(found) == sorted(alternating([0, 4, 20], 7))
    of_last = [b for b in found if b[0] >= 200]
    assert of_last == sorted(of_last)


# --- out of order ----------------------------------------------------------------------------------------------------


class Uneven(IterableDataset):
    """Worker w gives 1000 w + 0, 1, ... and draws under the batches' keys. With an event, worker `slow` waits for it
    before its fifth sample, and nothing is drawn. With `stateful` it continues from a state.
    """

    def __init__(self, n: int, event: Any = None, slow: int = 0, stateful: bool = False) -> None:
        self.n, self.event, self.slow, self.at = n, event, slow, 0
        if stateful:
            self.state_dict = lambda: {"at": self.at}
            self.load_state_dict = lambda state: setattr(self, "at", state["at"])

    def __iter__(self) -> Iterator[tuple[int, float]]:
        info = get_worker_info()
        worker = 0 if info is None else info.id
        for i in range(self.at, self.n):
            if worker == self.slow and i == 4 and self.event is not None:
                assert self.event.wait(HUNG_S), "waited for nothing"
            self.at = i + 1
            yield 1000 * worker + i, leat.rng().random() if self.event is None else 0.0
        self.at = 0


@pytest.mark.parametrize("num_workers", [2, 3])
def test_out_of_order_a_worker_that_hangs_does_not_stop_the_others(loader_class: Any, num_workers: int) -> None:
    event = multiprocessing.get_context("fork").Event()
    data = Uneven(160, event)
    it = iter(loader_class(data, 2, num_workers=num_workers, in_order=False, timeout=HUNG_S))
    seen = [int(x) for _ in range(2 + 80 * (num_workers - 1)) for x in next(it)[0]]
    assert sorted(seen) == list(range(4)) + [1000 * w + i for w in range(1, num_workers) for i in range(160)]
    event.set()
    assert sorted([int(x) for batch in it for x in batch[0]]) == list(range(4, 160))


@pytest.mark.parametrize("stateful", [False, True])
@pytest.mark.parametrize("in_order", [False, True])
@pytest.mark.parametrize("num_workers", [0, 2])
def test_out_of_order_streams_resume_with_what_was_not_delivered(
    num_workers: int, stateful: bool, in_order: bool
) -> None:
    def loader(in_order: bool = False) -> Any:
        data = Uneven(60 if num_workers else 120, stateful=stateful)
        return leat.DataLoader(data, 2, num_workers=num_workers, in_order=in_order, seed=6)

    def batches_of(it: Any) -> list[tuple[list[int], list[float]]]:
        return [(x.tolist(), draws.tolist()) for x, draws in it]

    whole = batches_of(loader())
    assert sorted(whole) == sorted(batches_of(loader(True))) and len(whole) == 60
    for n in (1, 31, 59):
        first = loader()
        it = iter(first)
        found = [next(it) for _ in range(n)]
        state = json.loads(json.dumps(first.state_dict()))
        for _ in range(2):  # the second time from a state of what was resumed
            other = loader(in_order)
            other.load_state_dict(state)
            rest = iter(other)
            if len(found) < 60:
                found.append(next(rest))
            state = json.loads(json.dumps(other.state_dict()))
        last = loader()
        last.load_state_dict(state)
        assert sorted(batches_of(found) + (batches_of(last) if len(found) < 60 else [])) == sorted(whole)


@pytest.mark.parametrize("stateful", [False, True])
def test_a_stream_draws_the_same_after_the_death_of_its_worker(stateful: bool) -> None:
    def loader() -> Any:
        return leat.DataLoader(Uneven(40, stateful=stateful), 2, num_workers=2, seed=6)

    whole = [batch[1].tolist() for batch in loader()]
    broken = loader()
    found = []
    for i, batch in enumerate(broken):
        found.append(batch[1].tolist())
        if i in (3, 17):
            os.kill(broken.stats()["pids"][0], signal.SIGKILL)
    assert found == whole and broken.stats()["replaced"]


def test_out_of_order_the_turns_in_a_state_are_checked() -> None:
    loader = leat.DataLoader(Uneven(40), 2, num_workers=2, in_order=False)
    it = iter(loader)
    next(it), next(it)
    state = loader.state_dict()
    for turn in ([], [1], [1, 1, 1], [-1, 1], [1, 10**6], [1, "1"], "1", None, [[1], 1]):
        with pytest.raises(leat.StateError):
            loader.load_state_dict({**state, "turn": turn})


# --- data pipes ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("num_workers, persistent", [(0, False), (2, False), (2, True)])
def test_the_shuffle_of_a_data_pipe_follows_the_global_seed(
    loader_class: Any, num_workers: int, persistent: bool
) -> None:
    from torch.utils.data.datapipes.iter import IterableWrapper

    pipe = IterableWrapper(range(40)).shuffle(buffer_size=20).sharding_filter()
    loader = loader_class(pipe, batch_size=None, shuffle=True, num_workers=num_workers, persistent_workers=persistent)
    found = []
    for seed in (123, 123, 321):
        torch.manual_seed(seed)
        found.append(list(loader))
    assert found[0] == found[1] != found[2] and all(sorted(f) == list(range(40)) for f in found)


# Pipes run in PyTorch's own iterators: how those spawn workers is theirs.
@pytest.mark.parametrize("method", ["fork", pytest.param("spawn", marks=pytest.mark.shard("torch"))])
def test_a_data_pipe_of_functions_runs_in_workers(loader_class: Any, method: str) -> None:
    from torch.utils.data.datapipes.iter import IterableWrapper

    pipe = IterableWrapper([[1, 2, 3, 4], [1, 2, 3, 4, 5, 6]]).map(_plus_one).filter(_has_four)
    loader = loader_class(
        pipe, batch_size=2, shuffle=True, num_workers=2, collate_fn=as_is, multiprocessing_context=method
    )
    assert list(loader) == [[[2, 3, 4, 5]]] * 2  # nobody has sharded it


@pytest.mark.filterwarnings("ignore:Local function is not supported by pickle")
def test_a_data_pipe_of_lambdas_runs_in_forked_workers(loader_class: Any) -> None:
    from torch.utils.data.datapipes.iter import IterableWrapper

    pipe = IterableWrapper(range(9)).filter(lambda i: i % 2 == 0)
    assert rows(loader_class(pipe, 2, num_workers=1, multiprocessing_context="fork")) == [0, 2, 4, 6, 8]


@pytest.mark.parametrize("options", [{}, {"num_workers": 2}, {"num_workers": 2, "persistent_workers": True}])
@pytest.mark.parametrize("kind", ["iter", "map"])
def test_each_epoch_of_a_data_pipe_is_whole(loader_class: Any, kind: str, options: dict[str, Any]) -> None:
    loader = loader_class(_pipe(kind), 2, **options)
    for _ in range(3):
        assert sorted(rows(loader)) == list(range(8))
    next(iter(loader))  # and leaves it
    assert sorted(rows(loader)) == list(range(8))


@pytest.mark.parametrize("num_workers", [0, 1])
@pytest.mark.parametrize("kind", ["iter", "map"])
def test_the_state_of_a_data_pipe_is_an_epochs_start_and_says_so(kind: str, num_workers: int) -> None:
    loader = leat.DataLoader(_pipe(kind), 2, num_workers=num_workers)
    it = iter(loader)
    next(it)
    with pytest.warns(UserWarning, match="have no state"):
        state = loader.state_dict()
    other = leat.DataLoader(_pipe(kind), 2, num_workers=num_workers)
    other.load_state_dict(state)
    assert rows(other) == rows(other) == list(range(8))
    whole = leat.DataLoader(Stream(True) if kind == "iter" else Count(8), 2, num_workers=num_workers)
    next(iter(whole))
    with pytest.raises(leat.StateError, match="data pipes run in PyTorch's own iterators"):
        other.load_state_dict({**whole.state_dict(), "of": other._facts()})


def test_set_epoch_reaches_the_sampler_of_a_data_pipe() -> None:
    sampler = DistributedSampler(range(8), 2, 0, seed=3)  # type: ignore[arg-type]
    loader = leat.DataLoader(_pipe("map"), 2, sampler=sampler)
    loader.set_epoch(5)
    assert sampler.epoch == 5 and rows(loader) == list(sampler)


def test_what_data_pipes_cannot_have_is_refused() -> None:
    for name, value in {"seed": 0, "reseed": True, "return_ids": True, "sample_timeout_s": 1.0}.items():
        with pytest.raises(ValueError, match=f"data pipes run in PyTorch's own iterators, which have no {name}"):
            leat.DataLoader(_pipe("map"), num_workers=1, **{name: value})


def _pipe(kind: str) -> Any:
    from torch.utils.data.datapipes.iter import IterableWrapper
    from torch.utils.data.datapipes.map import SequenceWrapper

    return IterableWrapper(range(8)).sharding_filter() if kind == "iter" else SequenceWrapper(range(8))


def _plus_one(row: list[int]) -> list[int]:
    return [i + 1 for i in row]


def _has_four(row: list[int]) -> bool:
    return len(row) == 4
