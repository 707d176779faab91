"""The data sets of torch.utils.data behind a DataLoader: views, joins, splits, columns."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")
from dataloader_support import Count, Many, Mutable, Stream, assert_same, batches, error_of, rows  # noqa: E402
from torch.utils.data import ConcatDataset, StackDataset, Subset, TensorDataset, random_split  # noqa: E402

pytestmark = [
    pytest.mark.filterwarnings("ignore:This DataLoader will create"),
    pytest.mark.parametrize("num_workers", [0, 2]),
]


def test_a_subset_gives_its_samples_in_its_order(loader_class: Any, num_workers: int) -> None:
    assert batches(loader_class(Subset(Count(20), [7, 3, 11]), 2, num_workers=num_workers)) == [[7, 3], [11]]


def test_a_subset_of_a_subset_gives_the_samples_of_the_first(loader_class: Any, num_workers: int) -> None:
    nested = Subset(Subset(Count(20), range(10, 20)), [9, 0])
    assert rows(loader_class(nested, num_workers=num_workers)) == [19, 10]


def test_a_subset_asks_getitems_of_its_data_set(loader_class: Any, num_workers: int) -> None:
    assert rows(loader_class(Subset(Many(), [4, 2]), 2, num_workers=num_workers)) == [40, 20]


def test_parts_of_a_random_split_share_the_data_set(loader_class: Any, num_workers: int) -> None:
    for sizes in ([3, 7], [0.25, 0.75]):
        parts = random_split(Count(10), sizes, generator=torch.Generator().manual_seed(1))
        found = [rows(loader_class(p, 2, num_workers=num_workers)) for p in parts]
        assert found == [list(p.indices) for p in parts] and sorted(sum(found, [])) == list(range(10))


def test_positions_of_a_random_split_are_integers(loader_class: Any, num_workers: int) -> None:
    class Strict(Count):
        def __getitem__(self, i: int) -> int:
            assert type(i) is int
            return i

    (part,) = random_split(Strict(5), [1.0])
    assert sorted(rows(loader_class(part, num_workers=num_workers))) == list(range(5))


def test_positions_of_default_orders_are_integers(loader_class: Any, num_workers: int) -> None:
    class Strict(Count):
        def __getitem__(self, i: int) -> int:
            assert type(i) is int
            return i

    for shuffle in (False, True):
        assert sorted(rows(loader_class(Strict(9), 2, shuffle=shuffle, num_workers=num_workers))) == list(range(9))


def test_joined_data_sets_follow_each_other(loader_class: Any, num_workers: int) -> None:
    moved = Mutable(4)
    moved.base = 100
    for joined in (ConcatDataset([Count(3), [], moved]), Count(3) + moved):
        assert batches(loader_class(joined, 2, num_workers=num_workers)) == [[0, 1], [2, 100], [101, 102], [103]]


def test_joining_streams_is_refused(loader_class: Any, num_workers: int) -> None:
    with pytest.raises(AssertionError, match="does not support IterableDataset"):
        loader_class(ConcatDataset([Count(3), Stream(3)]), num_workers=num_workers)


def test_columns_of_tensors_give_lists_of_tensors(loader_class: Any, num_workers: int) -> None:
    a, b, c = torch.arange(5), torch.arange(10.0).reshape(5, 2), torch.ones(5, 1, 2, dtype=torch.uint8)
    found = list(loader_class(TensorDataset(a, b, c), 2, num_workers=num_workers))
    assert_same(found, [[a[k : k + 2], b[k : k + 2], c[k : k + 2]] for k in (0, 2, 4)])


def test_stacked_data_sets_give_tuples_or_dicts(loader_class: Any, num_workers: int) -> None:
    a, b = TensorDataset(torch.arange(4.0)), [10, 20, 30, 40]
    found = list(loader_class(StackDataset(a, b), 2, num_workers=num_workers))
    assert_same(found[1], [[torch.tensor([2.0, 3.0])], torch.tensor([30, 40])])
    found = list(loader_class(StackDataset(x=a, y=b), 2, num_workers=num_workers))
    assert_same(found[0], {"x": [torch.tensor([0.0, 1.0])], "y": torch.tensor([10, 20])})


def test_stacked_data_sets_use_getitems(loader_class: Any, num_workers: int) -> None:
    found = list(loader_class(StackDataset(Many(), list(range(20))), 2, sampler=[3, 1], num_workers=num_workers))
    assert_same(found, [[torch.tensor([30, 10]), torch.tensor([3, 1])]])


def test_too_few_samples_of_getitems_are_an_error(loader_class: Any, num_workers: int) -> None:
    class Fewer(Count):
        def __getitems__(self, indices: list[int]) -> list[int]:
            return indices[:-1]

    loader = loader_class(StackDataset(Fewer(4), [1, 2, 3, 4]), 2, num_workers=num_workers)
    assert "Nested dataset's output size mismatch. Expected 2, got 1" in error_of(ValueError, lambda: list(loader))


def test_a_data_set_of_leat_is_a_data_set(loader_class: Any, num_workers: int, records: Any) -> None:
    import leat

    found = list(loader_class(leat.open(records), 40, num_workers=num_workers))
    assert [b["label"].tolist() for b in found] == [[i % 10 for i in range(k, min(k + 40, 100))] for k in (0, 40, 80)]
    assert found[2]["x"].tolist() == [[float(i)] * 3 for i in range(80, 100)]
