"""What both DataLoaders take, refuse and show: arguments, attributes, length, warnings."""

from __future__ import annotations

import copy
import pickle
import warnings
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from dataloader_support import Count, Stream, as_opaque, as_text, batches, rows  # noqa: E402
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, SequentialSampler  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create")

SAMPLER = SequentialSampler(range(10))
BATCH_SAMPLER = BatchSampler(SAMPLER, 3, False)


@pytest.mark.parametrize(
    "arguments, text",
    [
        ({"num_workers": -1}, "num_workers option should be non-negative"),
        ({"timeout": -1}, "timeout option should be non-negative"),
        ({"batch_size": None, "drop_last": True}, "batch_size=None option disables auto-batching"),
        ({"batch_size": 0}, "batch_size should be a positive integer"),
        ({"batch_size": -3}, "batch_size should be a positive integer"),
        ({"batch_size": 2.5}, "batch_size should be a positive integer"),
        ({"batch_size": True}, "batch_size should be a positive integer"),
        ({"drop_last": 3}, "drop_last should be a boolean"),
        ({"multiprocessing_context": "fork"}, r"multi-process loading \(num_workers > 0\), but got"),
        ({"num_workers": 1, "multiprocessing_context": "thread of gold"}, "should specify a valid start method in"),
        ({"prefetch_factor": 2}, "prefetch_factor option could only be specified in multiprocessing"),
        ({"num_workers": 1, "prefetch_factor": -1}, "prefetch_factor option should be non-negative"),
        ({"persistent_workers": True}, "persistent_workers option needs num_workers > 0"),
        ({"sampler": SAMPLER, "shuffle": True}, "sampler option is mutually exclusive with shuffle"),
        (
            {"sampler": SAMPLER, "batch_sampler": BATCH_SAMPLER, "shuffle": True},
            "sampler option is mutually exclusive with shuffle",
        ),
        ({"sampler": SAMPLER, "shuffle": 3}, "sampler option is mutually exclusive with shuffle"),
        (
            {"sampler": SAMPLER, "batch_sampler": BATCH_SAMPLER, "shuffle": 3},
            "sampler option is mutually exclusive with shuffle",
        ),
        ({"batch_sampler": BATCH_SAMPLER, "batch_size": 11}, "batch_sampler option is mutually exclusive with"),
        ({"batch_sampler": BATCH_SAMPLER, "batch_size": None}, "batch_sampler option is mutually exclusive with"),
        ({"batch_sampler": BATCH_SAMPLER, "shuffle": True}, "batch_sampler option is mutually exclusive with"),
        ({"batch_sampler": BATCH_SAMPLER, "sampler": SAMPLER}, "batch_sampler option is mutually exclusive with"),
        ({"batch_sampler": BATCH_SAMPLER, "drop_last": True}, "batch_sampler option is mutually exclusive with"),
        ({"batch_sampler": BATCH_SAMPLER, "drop_last": 3}, "batch_sampler option is mutually exclusive with"),
    ],
)
def test_arguments_that_exclude_each_other_are_value_errors(
    loader_class: Any, arguments: dict[str, Any], text: str
) -> None:
    with pytest.raises(ValueError, match=text):
        loader_class(Count(10), **arguments)


@pytest.mark.parametrize(
    "arguments, text",
    [
        ({"shuffle": True}, "expected unspecified shuffle option, but got shuffle=True"),
        ({"shuffle": 3}, "expected unspecified shuffle option, but got shuffle=3"),
        ({"sampler": SAMPLER}, "expected unspecified sampler option"),
        ({"sampler": 3}, "expected unspecified sampler option, but got sampler=3"),
        ({"batch_sampler": BATCH_SAMPLER}, "expected unspecified batch_sampler option"),
        ({"batch_sampler": 3}, "expected unspecified batch_sampler option, but got batch_sampler=3"),
    ],
)
def test_an_iterable_data_set_takes_no_order(loader_class: Any, arguments: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=f"DataLoader with IterableDataset: {text}"):
        loader_class(Stream(20), **arguments)


def test_shuffle_false_is_allowed_for_an_iterable_data_set(loader_class: Any) -> None:
    assert rows(loader_class(Stream(3), shuffle=False)) == [0, 1, 2]


def test_a_context_that_is_none_is_a_type_error(loader_class: Any) -> None:
    with pytest.raises(TypeError, match="multiprocessing_context option should be a valid context object"):
        loader_class(Count(10), num_workers=1, multiprocessing_context=object())


def test_an_empty_data_set_gives_no_batch_and_cannot_be_shuffled(loader_class: Any) -> None:
    assert list(loader_class([])) == [] and len(loader_class([], 3)) == 0
    with pytest.raises(ValueError, match="num_samples should be a positive integer"):
        loader_class([], shuffle=True)


@pytest.mark.parametrize("name", ["prefetch_factor", "persistent_workers", "pin_memory_device", "in_order"])
def test_late_arguments_are_keyword_only(loader_class: Any, name: str) -> None:
    with pytest.raises(TypeError):
        loader_class(Count(10), 1, None, None, None, 0, None, False, False, 0, None, None, None, None)


def test_arguments_can_be_given_by_position(loader_class: Any) -> None:
    loader = loader_class(Count(10), 3, False, None, None, 0, as_opaque, False, True, 0, None, None, None)
    assert (loader.batch_size, loader.collate_fn, loader.drop_last, len(loader)) == (3, as_opaque, True, 3)


def test_it_is_a_dataloader(loader_class: Any) -> None:
    assert issubclass(loader_class, DataLoader)
    assert isinstance(loader_class(Count(3)), DataLoader)


def test_it_can_be_subscripted_in_annotations(loader_class: Any) -> None:
    def train(loader: loader_class[list[torch.Tensor]]) -> None: ...

    assert loader_class[int] is not None and train is not None


def test_attributes_show_what_was_given(loader_class: Any) -> None:
    data, generator = Count(10), torch.Generator()
    loader = loader_class(
        data, batch_size=4, shuffle=True, num_workers=2, collate_fn=as_text, drop_last=True, timeout=7,
        worker_init_fn=print,
        multiprocessing_context="fork", generator=generator, prefetch_factor=3, persistent_workers=True,
        pin_memory_device="", in_order=False,
    )  # fmt: skip
    assert loader.dataset is data and loader.generator is generator
    assert (loader.batch_size, loader.num_workers, loader.drop_last, loader.timeout) == (4, 2, True, 7)
    assert (loader.collate_fn, loader.worker_init_fn) == (as_text, print)
    assert (loader.prefetch_factor, loader.persistent_workers, loader.pin_memory, loader.in_order) == (
        3,
        True,
        False,
        False,
    )
    assert loader.multiprocessing_context.get_start_method() == "fork"
    assert type(loader.sampler) is RandomSampler and loader.sampler.generator is generator
    assert type(loader.batch_sampler) is BatchSampler and loader.batch_sampler.sampler is loader.sampler


def test_attributes_of_defaults(loader_class: Any) -> None:
    data = Count(10)
    loader = loader_class(data)
    assert (loader.batch_size, loader.num_workers, loader.drop_last, loader.timeout, loader.pin_memory) == (
        1,
        0,
        False,
        0,
        False,
    )
    assert (loader.prefetch_factor, loader.persistent_workers, loader.in_order, loader.pin_memory_device) == (
        None,
        False,
        True,
        "",
    )
    assert (loader.generator, loader.worker_init_fn, loader.multiprocessing_context) == (None, None, None)
    assert type(loader.sampler) is SequentialSampler and loader.sampler.data_source is data
    assert loader.batch_sampler.batch_size == 1 and loader.batch_sampler.drop_last is False
    assert loader.collate_fn is torch.utils.data.default_collate


def test_a_loader_with_a_batch_sampler_has_no_batch_size(loader_class: Any) -> None:
    loader = loader_class(Count(10), batch_sampler=BATCH_SAMPLER)
    assert (loader.batch_size, loader.drop_last, loader.batch_sampler) == (None, False, BATCH_SAMPLER)


def test_a_loader_without_batches_has_no_batch_sampler_and_converts(loader_class: Any) -> None:
    loader = loader_class(Count(10), batch_size=None)
    assert (loader.batch_size, loader.batch_sampler, loader._auto_collation) == (None, None, False)
    assert loader.collate_fn is torch.utils.data.default_convert


@pytest.mark.parametrize(
    "name", ["batch_size", "batch_sampler", "sampler", "drop_last", "dataset", "persistent_workers"]
)
def test_what_the_order_rests_on_cannot_be_set_later(loader_class: Any, name: str) -> None:
    loader = loader_class(Count(10))
    with pytest.raises(
        ValueError, match=f"{name} attribute should not be set after {loader_class.__name__} is initialized"
    ):
        setattr(loader, name, {})


@pytest.mark.parametrize("num_workers", [0, 1])
def test_a_new_collate_fn_holds_from_the_next_epoch(loader_class: Any, num_workers: int) -> None:
    loader = loader_class(Count(4), 2, num_workers=num_workers)
    assert batches(loader) == [[0, 1], [2, 3]]
    loader.collate_fn = as_text
    assert list(loader) == ["[0, 1]", "[2, 3]"]


def test_the_number_of_workers_can_be_set_between_epochs(loader_class: Any) -> None:
    loader = loader_class(Count(4), 2)
    assert batches(loader) == [[0, 1], [2, 3]]
    loader.num_workers, loader.prefetch_factor = 1, 2
    assert batches(loader) == [[0, 1], [2, 3]]


def test_a_context_set_later_follows_the_same_rules(loader_class: Any) -> None:
    loader = loader_class(Count(4), 2)
    with pytest.raises(ValueError, match=r"multi-process loading \(num_workers > 0\), but got"):
        loader.multiprocessing_context = "fork"
    loader.num_workers, loader.prefetch_factor = 1, 2
    with pytest.raises(ValueError, match="should specify a valid start method in"):
        loader.multiprocessing_context = "thread of gold"
    with pytest.raises(TypeError, match="multiprocessing_context option should be a valid context object"):
        loader.multiprocessing_context = object()
    loader.multiprocessing_context = "fork"
    assert loader.multiprocessing_context.get_start_method() == "fork" and batches(loader) == [[0, 1], [2, 3]]


def test_the_number_of_workers_may_be_one_of_numpy(loader_class: Any) -> None:
    assert batches(loader_class(Count(4), 2, num_workers=np.int64(1))) == [[0, 1], [2, 3]]


def test_own_attributes_can_be_set(loader_class: Any) -> None:
    loader = loader_class(Count(4))
    loader.name_of_mine = "train"
    assert loader.name_of_mine == "train"


@pytest.mark.parametrize(
    "size, drop_last, expected",
    [(1, False, 10), (2, False, 5), (3, False, 4), (3, True, 3), (10, True, 1), (11, True, 0)],
)
def test_length_is_the_number_of_batches(loader_class: Any, size: int, drop_last: bool, expected: int) -> None:
    loader = loader_class(Count(10), size, drop_last=drop_last)
    assert len(loader) == len(list(loader)) == expected


@pytest.mark.parametrize("size, drop_last, expected", [(None, False, 10), (1, True, 10), (3, False, 4), (3, True, 3)])
def test_length_over_an_iterable_data_set_follows_its_length(
    loader_class: Any, size: int, drop_last: bool, expected: int
) -> None:
    assert len(loader_class(Stream(10), size, drop_last=drop_last)) == expected


def test_length_over_an_iterable_data_set_without_length_is_a_type_error(loader_class: Any) -> None:
    class NoLength(torch.utils.data.IterableDataset):
        def __iter__(self) -> Any:
            return iter(())

    with pytest.raises(TypeError, match="len"):
        len(loader_class(NoLength()))


@pytest.mark.parametrize("num_workers", [0, 1])
def test_an_iterator_has_a_length_and_is_its_own_iterator(loader_class: Any, num_workers: int) -> None:
    it = iter(loader_class(Count(10), 3, num_workers=num_workers))
    assert len(it) == 4 and iter(it) is it
    next(it)
    assert len(it) == 4
    with pytest.raises(TypeError, match="has no len"):
        len(iter(loader_class(Stream(10), 3, num_workers=num_workers)))


def test_a_data_set_may_grow_before_it_is_read(loader_class: Any) -> None:
    data = [torch.ones(4) for _ in range(4)]
    in_order, shuffled = loader_class(data), loader_class(data, shuffle=True)
    data.append(torch.ones(4))
    assert len(in_order) == len(shuffled) == len(list(in_order)) == len(list(shuffled)) == 5


def test_a_thousand_workers_are_warned_of(loader_class: Any) -> None:
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        loader_class(Count(10), num_workers=1000)
    assert any("excessive worker creation" in str(w.message) for w in seen)


def test_a_loader_can_be_copied_and_pickled_before_it_is_used(loader_class: Any) -> None:
    loader = loader_class(Count(6), 2, drop_last=True, num_workers=1, collate_fn=as_text)
    for again in (copy.copy(loader), copy.deepcopy(loader), pickle.loads(pickle.dumps(loader))):
        assert type(again) is loader_class
        assert list(again) == ["[0, 1]", "[2, 3]", "[4, 5]"]


@pytest.mark.parametrize("num_workers", [0, 1])
def test_a_running_iterator_cannot_be_pickled(loader_class: Any, num_workers: int) -> None:
    it = iter(loader_class(Count(6), num_workers=num_workers))
    next(it)
    with pytest.raises((NotImplementedError, TypeError)):
        pickle.dumps(it)


@pytest.mark.parametrize("shuffle", [False, True])
def test_what_is_changed_in_the_batch_sampler_holds(loader_class: Any, shuffle: bool) -> None:
    loader = loader_class(Count(7), 2, shuffle=shuffle)
    loader.batch_sampler.drop_last = True
    assert [len(batch) for batch in loader] == [2, 2, 2] and len(loader) == 3
    loader.batch_sampler.batch_size = 3
    assert [len(batch) for batch in loader] == [3, 3] and len(loader) == 2


def test_a_failing_constructor_leaves_nothing_that_complains_later(
    loader_class: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    import gc

    for bad in ({"num_workers": -1}, {"batch_size": 0}, {"no_such_option": 1}):
        with pytest.raises((ValueError, TypeError)):
            loader_class(Count(3), **bad)
    gc.collect()
    assert "Exception ignored" not in capfd.readouterr().err


@pytest.mark.parametrize("num_workers", [0, 1])
@pytest.mark.parametrize("data", [Count(6), Stream(6)])
def test_a_loader_may_be_made_list_tuple_or_zipped(loader_class: Any, data: Any, num_workers: int) -> None:
    loader = loader_class(data, 2, num_workers=num_workers)
    assert [b.tolist() for b in tuple(loader)] == [b.tolist() for b in list(loader)] == [[0, 1], [2, 3], [4, 5]]
    one_by_one = loader_class(data, None, num_workers=num_workers)
    assert tuple(one_by_one) == tuple(range(6)) and list(one_by_one) == list(range(6))
    assert [(a.tolist(), b.tolist()) for a, b in zip(loader, loader)] == [([i, i + 1], [i, i + 1]) for i in (0, 2, 4)]
