"""Which samples stand in which batch: orders, samplers, batch samplers, no batches at all."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from dataloader_support import Bulk, Count, Counting, From, Keyed, Lists, Many, as_is, batches, rows  # noqa: E402
from torch.utils.data import (  # noqa: E402
    BatchSampler,
    DataLoader,
    RandomSampler,
    Sampler,
    SequentialSampler,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
)
from torch.utils.data.distributed import DistributedSampler  # noqa: E402

import leat  # noqa: E402

pytestmark = [
    pytest.mark.filterwarnings("ignore:This DataLoader will create"),
    pytest.mark.parametrize("num_workers", [0, 2]),
]


@pytest.fixture(scope="module")
def pictures() -> TensorDataset:
    generator = torch.Generator().manual_seed(7)
    return TensorDataset(torch.randn(50, 2, 3, 5, generator=generator), torch.randperm(50, generator=generator))


@pytest.mark.parametrize("size", [1, 2, 7, 50, 99])
def test_without_shuffle_batches_are_slices(
    loader_class: Any, pictures: TensorDataset, num_workers: int, size: int
) -> None:
    found = list(loader_class(pictures, size, num_workers=num_workers))
    assert len(found) == math.ceil(50 / size)
    for k, (x, y) in enumerate(found):
        torch.testing.assert_close(x, pictures.tensors[0][k * size : (k + 1) * size], rtol=0, atol=0)
        torch.testing.assert_close(y, pictures.tensors[1][k * size : (k + 1) * size], rtol=0, atol=0)


def test_without_batches_samples_come_one_by_one(loader_class: Any, pictures: TensorDataset, num_workers: int) -> None:
    found = list(loader_class(pictures, batch_size=None, num_workers=num_workers))
    assert len(found) == 50
    for i, (x, y) in enumerate(found):
        torch.testing.assert_close(x, pictures.tensors[0][i], rtol=0, atol=0)
        assert y.shape == () and y == pictures.tensors[1][i]


@pytest.mark.parametrize("size", [None, 1, 4, 7])
def test_a_shuffled_epoch_has_each_sample_once_with_its_label(
    loader_class: Any, pictures: TensorDataset, num_workers: int, size: int | None
) -> None:
    position = {label: i for i, label in enumerate(pictures.tensors[1].tolist())}
    seen = []
    for x, y in loader_class(pictures, size, shuffle=True, num_workers=num_workers):
        for one, label in zip(x[None] if size is None else x, y[None] if size is None else y):
            seen.append(position[int(label)])
            torch.testing.assert_close(one, pictures.tensors[0][seen[-1]], rtol=0, atol=0)
    assert sorted(seen) == list(range(50)) and seen != list(range(50))


def test_two_shuffled_epochs_differ(loader_class: Any, num_workers: int) -> None:
    loader = loader_class(Count(100), 10, shuffle=True, num_workers=num_workers)
    a, b = rows(loader), rows(loader)
    assert a != b and sorted(a) == sorted(b) == list(range(100))


def test_the_last_batch_is_dropped_if_asked(loader_class: Any, num_workers: int) -> None:
    assert batches(loader_class(Count(8), 3, drop_last=True, num_workers=num_workers)) == [[0, 1, 2], [3, 4, 5]]
    assert batches(loader_class(Count(2), 3, drop_last=True, num_workers=num_workers)) == []


def test_any_iterable_with_a_length_is_a_sampler(loader_class: Any, num_workers: int) -> None:
    loader = loader_class(Count(20), 2, sampler=range(2, 12), num_workers=num_workers)
    assert len(loader) == 5 and rows(loader) == list(range(2, 12))


def test_a_sampler_may_repeat_and_leave_out(loader_class: Any, num_workers: int) -> None:
    order = [3, 3, 0, 9, 3, 0]
    assert rows(loader_class(Count(10), 4, sampler=order, num_workers=num_workers)) == order


def test_a_sampler_may_be_without_length(loader_class: Any, num_workers: int) -> None:
    class Odd(Sampler):
        def __iter__(self) -> Iterator[int]:
            return iter(range(1, 10, 2))

    loader = loader_class(Count(10), 2, sampler=Odd(), num_workers=num_workers)
    assert batches(loader) == [[1, 3], [5, 7], [9]]
    with pytest.raises(TypeError):
        len(loader)


def test_a_sampler_is_read_anew_each_epoch(loader_class: Any, num_workers: int) -> None:
    class Alternating(Sampler):
        epoch = 0

        def __iter__(self) -> Iterator[int]:
            self.epoch += 1
            return iter([0, 1, 2] if self.epoch % 2 else [2, 1, 0])

        def __len__(self) -> int:
            return 3

    loader = loader_class(Count(3), 2, sampler=Alternating(), num_workers=num_workers)
    assert [rows(loader) for _ in range(3)] == [[0, 1, 2], [2, 1, 0], [0, 1, 2]]


def test_a_sampler_may_be_endless(loader_class: Any, num_workers: int) -> None:
    class Endless(Sampler):
        def __iter__(self) -> Iterator[int]:
            return itertools.cycle(range(5))

    it = iter(loader_class(Count(5), 2, sampler=Endless(), num_workers=num_workers))
    assert [next(it).tolist() for _ in range(6)] == [[0, 1], [2, 3], [4, 0], [1, 2], [3, 4], [0, 1]]


class Watched(Sampler):
    """100 positions, and how many were read in all epochs."""

    given = 0

    def __iter__(self) -> Iterator[int]:
        for i in range(100):
            self.given += 1
            yield i


def test_a_sampler_is_read_at_most_the_prefetched_batches_ahead(loader_class: Any, num_workers: int) -> None:
    sampler = Watched()
    options = {"prefetch_factor": 3} if num_workers else {}
    it = iter(loader_class(Count(100), 2, sampler=sampler, num_workers=num_workers, **options))
    for taken in range(1, 11):
        next(it)
        assert sampler.given <= 2 * (taken + 3 * num_workers)


@pytest.mark.parametrize("in_order", [True, False])
def test_a_sampler_is_read_where_the_library_reads_it(num_workers: int, in_order: bool) -> None:
    def readings(kind: Any) -> list[int]:
        sampler = Watched()
        options = {"num_workers": num_workers, "prefetch_factor": 3 if num_workers else None, "in_order": in_order}
        loader, found = kind(Count(100), 2, sampler=sampler, **options), []
        for _ in range(2):
            it = iter(loader)
            found.append(sampler.given)
            found += [sampler.given for _ in it]
        return found

    assert readings(leat.DataLoader) == readings(torch.utils.data.DataLoader)


def test_samples_are_made_at_most_the_prefetched_batches_ahead(loader_class: Any, num_workers: int) -> None:
    if not num_workers:
        return
    import multiprocessing

    counter = multiprocessing.get_context("fork").Value("i", 0)
    it = iter(loader_class(Counting(100, counter), 2, num_workers=num_workers, prefetch_factor=2))
    for taken in range(1, 11):
        next(it)
        assert counter.value <= 2 * (taken + 2 * num_workers)


def test_positions_may_be_tensors_of_one_element(loader_class: Any, num_workers: int) -> None:
    class AsTensors(Sampler):
        def __iter__(self) -> Iterator[Any]:
            return iter(torch.tensor([4, 2, 0]))

        def __len__(self) -> int:
            return 3

    data = From(5, _index_twice)
    assert rows(loader_class(data, 2, sampler=AsTensors(), num_workers=num_workers)) == [8, 4, 0]


def _index_twice(i: Any) -> int:
    assert isinstance(i, torch.Tensor)
    return 2 * int(i)


def test_a_sampler_may_give_words(loader_class: Any, num_workers: int) -> None:
    loader = loader_class(Keyed(), 2, sampler=["three", "one", "two"], num_workers=num_workers)
    assert batches(loader) == [[3, 1], [2]]


def test_a_sampler_may_give_tuples(loader_class: Any, num_workers: int) -> None:
    data = From(9, _sum_of)
    loader = loader_class(data, 2, sampler=[(0, 1), (2, 3), (4, 5)], num_workers=num_workers)
    assert batches(loader) == [[1, 5], [9]]


def _sum_of(pair: tuple[int, int]) -> int:
    return pair[0] + pair[1]


def test_negative_positions_reach_the_data_set_as_they_are(loader_class: Any, num_workers: int) -> None:
    assert rows(loader_class(Count(5), 2, sampler=[-1, -2], num_workers=num_workers)) == [-1, -2]


def test_the_random_sampler_gives_as_many_as_it_was_told(loader_class: Any, num_workers: int) -> None:
    for replacement in (False, True):
        sampler = RandomSampler(range(10), replacement=replacement, num_samples=15)
        loader = loader_class(Count(10), 4, sampler=sampler, num_workers=num_workers)
        found = rows(loader)
        assert len(loader) == 4 and len(found) == 15 and set(found) <= set(range(10))
    assert set(
        rows(loader_class(Count(10), 4, sampler=RandomSampler(range(10), num_samples=20), num_workers=num_workers))
    ) == set(range(10))


@pytest.mark.parametrize(
    "make",
    [
        lambda g: RandomSampler(range(10), num_samples=5, replacement=True, generator=g),
        lambda g: RandomSampler(range(10), generator=g),
        lambda g: WeightedRandomSampler([0.1, 0.9, 0.4, 0.7, 3.0, 0.6], 12, generator=g),
        lambda g: WeightedRandomSampler([0.1, 0.9, 0.4, 0.7, 3.0, 0.6], 5, False, generator=g),
        lambda g: SubsetRandomSampler([1, 3, 5, 7], generator=g),
    ],
    ids=["random with replacement", "random", "weighted with replacement", "weighted", "subset"],
)
def test_a_sampler_with_a_seed_says_the_order(loader_class: Any, num_workers: int, make: Any) -> None:
    expected = list(make(torch.Generator().manual_seed(42)))
    loader = loader_class(Count(10), 3, sampler=make(torch.Generator().manual_seed(42)), num_workers=num_workers)
    assert rows(loader) == expected


def test_ranks_of_a_distributed_sampler_share_an_epoch(loader_class: Any, num_workers: int) -> None:
    data, found = Count(10), []
    for rank in range(3):
        sampler = DistributedSampler(data, 3, rank, shuffle=True, seed=5)
        sampler.set_epoch(2)
        found.append(rows(loader_class(data, 2, sampler=sampler, num_workers=num_workers)))
    assert [len(f) for f in found] == [4, 4, 4] and set(sum(found, [])) == set(range(10))


def test_set_epoch_of_a_distributed_sampler_changes_the_order(loader_class: Any, num_workers: int) -> None:
    sampler = DistributedSampler(Count(50), 2, 0)
    loader = loader_class(Count(50), 5, sampler=sampler, num_workers=num_workers)
    first = rows(loader)
    assert rows(loader) == first
    sampler.set_epoch(1)
    assert rows(loader) != first


def test_full_batches_of_ranks_have_no_sample_twice(loader_class: Any, num_workers: int) -> None:
    data = torch.arange(9, dtype=torch.int32)
    seen = [
        i
        for rank in range(4)
        for i in rows(
            loader_class(data, 2, drop_last=True, sampler=DistributedSampler(data, 4, rank), num_workers=num_workers)
        )
    ]
    assert len(seen) == len(set(seen))


def test_a_batch_sampler_may_be_a_list_of_batches_of_any_size(loader_class: Any, num_workers: int) -> None:
    wanted = [(0, 1), (2, 3, 4), (5,), (7, 7, 9, 11)]
    loader = loader_class(Count(20), batch_sampler=wanted, num_workers=num_workers)
    assert len(loader) == 4 and batches(loader) == [list(b) for b in wanted]


def test_a_batch_sampler_of_the_library_is_taken(loader_class: Any, num_workers: int) -> None:
    loader = loader_class(
        Count(8), batch_sampler=BatchSampler(SequentialSampler(range(8)), 3, True), num_workers=num_workers
    )
    assert len(loader) == 2 and batches(loader) == [[0, 1, 2], [3, 4, 5]]


def test_a_batch_sampler_that_is_a_generator_serves_one_epoch(loader_class: Any, num_workers: int) -> None:
    loader = loader_class(Count(8), batch_sampler=([i, i + 1] for i in range(0, 8, 2)), num_workers=num_workers)
    assert batches(loader) == [[0, 1], [2, 3], [4, 5], [6, 7]]
    assert batches(loader) == []


def test_a_batch_sampler_may_give_tensors_and_arrays(loader_class: Any, num_workers: int) -> None:
    wanted = [torch.tensor([1, 2]), torch.tensor([3])]
    assert batches(loader_class(From(5, int), batch_sampler=wanted, num_workers=num_workers)) == [[1, 2], [3]]


def test_a_sampler_of_lists_without_batches_indexes_with_lists(loader_class: Any, num_workers: int) -> None:
    found = list(loader_class(Bulk(), batch_size=None, sampler=Lists(), num_workers=num_workers))
    assert len(found) == 9 and torch.cat(found).tolist() == list(range(35))


def test_getitems_gets_the_positions_of_a_batch(loader_class: Any, num_workers: int) -> None:
    assert batches(loader_class(Many(), 8, num_workers=num_workers)) == [
        [10 * i for i in range(k, min(k + 8, 20))] for k in (0, 8, 16)
    ]
    assert rows(loader_class(Many(), 3, sampler=[5, 1], num_workers=num_workers)) == [50, 10]


@pytest.mark.parametrize(
    "batch", [(1, 2), range(1, 3), torch.tensor([1, 2]), np.array([1, 2]), ("one", "two"), np.array([[1, 2], [3, 4]])]
)
def test_getitems_gets_the_batch_that_the_sampler_gives(loader_class: Any, num_workers: int, batch: Any) -> None:
    class Telling(Count):
        def __getitems__(self, indices: Any) -> list[tuple[str, str]]:
            return [(type(indices).__name__, repr(indices))]

    loader = loader_class(Telling(5), batch_sampler=[batch], num_workers=num_workers, collate_fn=as_is)
    assert list(loader) == [[(type(batch).__name__, repr(batch))]]


def test_an_array_that_a_sampler_fills_again_is_read_as_it_was(loader_class: Any, num_workers: int) -> None:
    class Filling(Sampler):
        def __iter__(self) -> Iterator[Any]:
            batch = np.zeros(2, np.int64)
            for i in range(5):
                batch[:] = 2 * i, 2 * i + 1
                yield batch

    class AsArray(Count):
        def __getitems__(self, indices: Any) -> list[int]:
            return (10 * indices).tolist()  # type: ignore[no-any-return]

    if loader_class is DataLoader and num_workers:
        pytest.skip("PyTorch pickles the array in another thread, while the sampler goes on")
    loader = loader_class(AsArray(10), batch_sampler=Filling(), num_workers=num_workers)
    assert rows(loader) == list(range(0, 100, 10))


def test_getitems_that_is_none_is_not_called(loader_class: Any, num_workers: int) -> None:
    class Without(Count):
        __getitems__ = None

    assert rows(loader_class(Without(5), 2, num_workers=num_workers)) == list(range(5))


def test_without_batches_getitems_is_not_called(loader_class: Any, num_workers: int) -> None:
    class Both(Count):
        def __getitems__(self, indices: list[int]) -> list[int]:
            raise AssertionError("called for one sample")

    assert list(loader_class(Both(3), batch_size=None, num_workers=num_workers)) == [0, 1, 2]


def test_getitems_may_give_another_number_of_samples(loader_class: Any, num_workers: int) -> None:
    class Fewer(Count):
        def __getitems__(self, indices: list[int]) -> list[int]:
            return [i for i in indices if i % 2]

    assert batches(loader_class(Fewer(8), 4, num_workers=num_workers)) == [[1, 3], [5, 7]]


def test_a_list_a_range_and_a_tensor_are_data_sets(loader_class: Any, num_workers: int) -> None:
    assert batches(loader_class([5, 6, 7], 2, num_workers=num_workers)) == [[5, 6], [7]]
    assert batches(loader_class(range(10, 13), 2, num_workers=num_workers)) == [[10, 11], [12]]
    assert batches(loader_class(torch.arange(3), 2, num_workers=num_workers)) == [[0, 1], [2]]


def test_kept_batches_stay_as_they_were(loader_class: Any, num_workers: int) -> None:
    data = From(60, _image)
    loader = loader_class(data, 4, num_workers=num_workers)
    kept = list(loader) + list(loader)
    del loader
    assert [int(b[k, 0, 0]) for b in kept for k in range(4)] == list(range(60)) * 2


def test_writing_into_a_batch_changes_no_other(loader_class: Any, num_workers: int) -> None:
    seen = []
    for batch in loader_class(From(40, _image), 4, num_workers=num_workers):
        seen.append(int(batch[0, 5, 5]))
        batch.fill_(-1)
    assert seen == list(range(0, 40, 4))


def _image(i: int) -> Any:
    return torch.full((32, 32), float(i))


def test_two_iterators_of_one_loader_run_side_by_side(loader_class: Any, num_workers: int) -> None:
    loader = loader_class(Count(6), 2, num_workers=num_workers)
    a, b = iter(loader), iter(loader)
    assert [next(x).tolist() for x in (a, b, a, a, b, b)] == [[0, 1], [0, 1], [2, 3], [4, 5], [2, 3], [4, 5]]
    assert next(a, None) is None and next(b, None) is None


def test_an_exhausted_iterator_stays_exhausted(loader_class: Any, num_workers: int) -> None:
    it = iter(loader_class(Count(4), 2, num_workers=num_workers))
    assert len(list(it)) == 2
    for _ in range(3):
        with pytest.raises(StopIteration):
            next(it)


def test_an_epoch_left_early_does_not_disturb_the_next(loader_class: Any, num_workers: int) -> None:
    loader = loader_class(Count(30), 2, num_workers=num_workers)
    for stop in (1, 3, 0):
        for k, batch in enumerate(loader):
            assert batch.tolist() == [2 * k, 2 * k + 1]
            if k == stop:
                break
    assert rows(loader) == list(range(30))


class Told(Sampler):  # type: ignore[type-arg]
    """An order for each epoch that it is told."""

    def __init__(self) -> None:
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __len__(self) -> int:
        return 6

    def __iter__(self) -> Any:
        return iter(torch.randperm(6, generator=torch.Generator().manual_seed(self.epoch)).tolist())


def test_a_sampler_that_is_told_its_epoch_after_a_state_was_loaded_gives_that_epoch(num_workers: int) -> None:
    epochs, told = [], Told()
    first = leat.DataLoader(range(6), 2, sampler=told, num_workers=num_workers)
    for epoch in range(3):
        told.set_epoch(epoch)
        epochs.append([batch.tolist() for batch in first])
        if epoch == 1:
            state = first.state_dict()
    for tell in (True, False):
        told = Told()
        again = leat.DataLoader(range(6), 2, sampler=told, num_workers=num_workers)
        again.load_state_dict(state)
        if tell:
            told.set_epoch(2)
        assert [batch.tolist() for batch in again] == epochs[2 if tell else 1]
