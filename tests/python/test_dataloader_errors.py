"""Errors of data sets, samplers, collate functions and workers: their class, their text, what comes after them;
timeouts.
"""

from __future__ import annotations

import multiprocessing
import pickle
from typing import Any

import pytest

torch = pytest.importorskip("torch")
from dataloader_support import (  # noqa: E402
    HUNG_S,
    Count,
    Failing,
    Waits,
    error_of,
    failing_collate,
    failing_init,
    rows,
)

import leat  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create")
WORKERS = pytest.mark.parametrize("num_workers", [0, 2])


class OwnError(Exception):
    pass


ERRORS = {
    "ValueError": lambda i: ValueError(f"bad sample {i}"),
    "NotImplementedError": lambda i: NotImplementedError(f"bad sample {i}"),
    "IndexError": lambda i: IndexError(f"bad sample {i}"),
    "AssertionError": lambda i: AssertionError(f"bad sample {i}"),
    "ZeroDivisionError": lambda i: ZeroDivisionError(f"bad sample {i}"),
    "FileNotFoundError": lambda i: FileNotFoundError(f"bad sample {i}"),
    "own error": lambda i: OwnError(f"bad sample {i}"),
}


@WORKERS
@pytest.mark.parametrize("name", ERRORS)
def test_an_error_of_the_data_set_arrives_as_its_class_with_its_text(
    loader_class: Any, name: str, num_workers: int
) -> None:
    loader = loader_class(Failing(8, ERRORS[name], {5}), 2, num_workers=num_workers)
    text = error_of(type(ERRORS[name](0)), lambda: list(loader))
    assert "bad sample 5" in text


@pytest.mark.parametrize("name", ERRORS)
def test_an_error_in_a_worker_shows_the_worker_and_its_traceback(loader_class: Any, name: str) -> None:
    text = error_of(Exception, lambda: list(loader_class(Failing(8, ERRORS[name], {5}), 2, num_workers=1)))
    assert "DataLoader worker process 0" in text and "Traceback" in text
    assert "in __getitem__" in text and "raise self.error(i)" in text


def test_a_key_error_in_a_worker_is_readable(loader_class: Any) -> None:
    text = error_of(
        KeyError, lambda: list(loader_class(Failing(4, lambda i: KeyError("no such field")), num_workers=1))
    )
    assert "no such field" in text and text.count("\n") > 3 and "\\n" not in text


@WORKERS
def test_without_the_samples_of_bad_batches_an_epoch_is_whole(loader_class: Any, num_workers: int) -> None:
    it = iter(loader_class(Failing(10, ERRORS["ValueError"], {2, 3, 7}), 2, num_workers=num_workers))
    assert next(it).tolist() == [0, 1]
    assert "bad sample 2" in error_of(ValueError, lambda: next(it))
    assert next(it).tolist() == [4, 5]
    assert "bad sample 7" in error_of(ValueError, lambda: next(it))
    assert next(it).tolist() == [8, 9] and next(it, None) is None


@WORKERS
def test_each_failing_batch_raises_once(loader_class: Any, num_workers: int) -> None:
    it = iter(loader_class(Failing(41, ERRORS["NotImplementedError"]), 2, shuffle=True, num_workers=num_workers))
    assert all("bad sample" in error_of(NotImplementedError, lambda: next(it)) for _ in range(21))
    assert next(it, None) is None


@WORKERS
def test_the_next_epoch_begins_after_an_error(loader_class: Any, num_workers: int) -> None:
    loader = loader_class(Failing(8, ERRORS["ValueError"], {4}), 2, num_workers=num_workers)
    for _ in range(2):
        it = iter(loader)
        assert [next(it).tolist() for _ in range(2)] == [[0, 1], [2, 3]]
        assert "bad sample 4" in error_of(ValueError, lambda it=it: next(it))
    del it


def test_persistent_workers_go_on_after_an_error(loader_class: Any) -> None:
    loader = loader_class(Failing(8, ERRORS["ValueError"], {4}), 2, num_workers=2, persistent_workers=True)
    for _ in range(3):
        it = iter(loader)
        assert [next(it).tolist() for _ in range(2)] == [[0, 1], [2, 3]]
        assert "bad sample 4" in error_of(ValueError, lambda it=it: next(it))
        assert next(it).tolist() == [6, 7]


@WORKERS
def test_an_error_of_the_collate_fn_arrives(loader_class: Any, num_workers: int) -> None:
    loader = loader_class(Count(4), 2, num_workers=num_workers, collate_fn=failing_collate)
    text = error_of(LookupError, lambda: next(iter(loader)))
    assert "cannot collate this" in text


@WORKERS
def test_an_error_of_getitems_arrives(loader_class: Any, num_workers: int) -> None:
    class Many(Count):
        def __getitems__(self, indices: list[int]) -> list[int]:
            raise OwnError(f"cannot get {indices}")

    assert "cannot get [0, 1]" in error_of(OwnError, lambda: list(loader_class(Many(4), 2, num_workers=num_workers)))


@pytest.mark.parametrize("size", [1, None])
def test_an_error_of_worker_init_fn_arrives(loader_class: Any, size: int | None) -> None:
    loader = loader_class(Count(4), size, num_workers=2, worker_init_fn=failing_init)
    text = error_of(LookupError, lambda: list(loader))
    assert "worker 0 cannot begin" in text or "worker 1 cannot begin" in text


@WORKERS
def test_an_error_of_the_sampler_arrives_from_here(loader_class: Any, num_workers: int) -> None:
    class Bad(torch.utils.data.Sampler):
        def __iter__(self) -> Any:
            yield 0
            raise OwnError("the sampler broke")

        def __len__(self) -> int:
            return 4

    text = error_of(OwnError, lambda: list(loader_class(Count(4), 2, sampler=Bad(), num_workers=num_workers)))
    assert text == "the sampler broke"


@WORKERS
def test_a_position_outside_the_data_set_is_the_data_sets_error(loader_class: Any, num_workers: int) -> None:
    error_of(IndexError, lambda: list(loader_class([1, 2, 3], sampler=[0, 7], num_workers=num_workers)))


@WORKERS
def test_a_data_set_without_getitem_is_not_implemented(loader_class: Any, num_workers: int) -> None:
    class Empty(torch.utils.data.Dataset):
        def __len__(self) -> int:
            return 3

    error_of(NotImplementedError, lambda: list(loader_class(Empty(), num_workers=num_workers)))


@pytest.mark.parametrize("persistent", [False, True])
def test_a_batch_that_takes_longer_than_the_timeout_is_an_error(loader_class: Any, persistent: bool) -> None:
    event = multiprocessing.get_context("fork").Event()
    it = iter(loader_class(Waits(10, event, slow=0), 2, num_workers=1, timeout=1, persistent_workers=persistent))
    text = error_of(RuntimeError, lambda: next(it))
    assert "DataLoader timed out after 1 seconds" in text
    event.set()  # lets the worker of PyTorch's go


def test_batches_in_time_are_not_touched_by_a_timeout(loader_class: Any) -> None:
    assert rows(loader_class(Count(20), 3, num_workers=2, timeout=HUNG_S)) == list(range(20))


def test_a_timeout_without_workers_is_refused(loader_class: Any) -> None:
    error_of((AssertionError, ValueError), lambda: list(loader_class(Count(3), timeout=5)))


def test_an_error_in_the_training_loop_passes_through(loader_class: Any) -> None:
    def train() -> None:
        for batch in loader_class(Count(100), 2, num_workers=2):
            if batch.tolist() == [6, 7]:
                raise OwnError("of the loop")

    assert error_of(OwnError, train) == "of the loop"


@pytest.mark.parametrize("prefetch", [1, 2, 8])
def test_an_index_that_cannot_be_pickled_fails_its_batch_alone(prefetch: int) -> None:
    class Any_(Count):
        def __getitem__(self, i: Any) -> Any:
            return 1 if callable(i) else i

    order = [[i] if i not in (0, 7, 8) else [lambda: 1] for i in range(12)]
    iterator = iter(leat.DataLoader(Any_(12), batch_sampler=order, num_workers=2, prefetch_factor=prefetch))
    found: list[Any] = []
    for _ in range(12):
        try:
            found.append(next(iterator).tolist())
        except (AttributeError, pickle.PicklingError) as e:
            assert "lambda" in str(e)
            found.append("failed")
    assert found == ["failed" if i in (0, 7, 8) else [i] for i in range(12)]
    assert next(iterator, None) is None
