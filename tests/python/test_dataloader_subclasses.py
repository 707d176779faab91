"""Loaders derived from PyTorch's, as libraries write them: they collate by a method of their own, run in a thread, keep
one iterator for ever, or end workers themselves.
"""

from __future__ import annotations

import copy
import dataclasses
import functools
import gc
import pickle
import queue
import sys
import threading
import weakref
from collections.abc import Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch")
from dataloader_support import HUNG_S, Count, batches, rows  # noqa: E402

import leat  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create")
WAYS: list[dict[str, Any]] = [{}, {"num_workers": 2}, {"num_workers": 2, "persistent_workers": True}]


@pytest.mark.parametrize("options", WAYS)
def test_a_loader_may_collate_and_prepare_workers_by_methods_of_its_own(
    loader_class: Any, options: dict[str, Any]
) -> None:
    """The data set is a range; the samples are the loader's, and so is what cannot be pickled."""

    class Gathering(loader_class):
        def __init__(self, samples: list[str], **more: Any) -> None:
            self.samples, self.lock, self.prepared = samples, threading.Lock(), False
            super().__init__(range(len(samples)), collate_fn=self.gather, worker_init_fn=self.prepare, **more)

        def prepare(self, worker: int) -> None:
            self.prepared = True

        def gather(self, indices: list[int]) -> tuple[list[str], bool]:
            with self.lock:
                return [self.samples[i] for i in indices], self.prepared

    loader = Gathering(["a", "b", "c"], batch_size=2, **options)
    for _ in range(2):
        assert list(loader) == [(["a", "b"], bool(options)), (["c"], bool(options))]
    assert not loader.prepared


@pytest.mark.parametrize("options", WAYS)
def test_a_loader_may_be_iterated_in_a_thread_beside_the_one_that_reads(
    loader_class: Any, options: dict[str, Any]
) -> None:
    class Ahead(loader_class):
        def __iter__(self) -> Iterator[Any]:
            made: queue.Queue[Any] = queue.Queue(2)

            def run() -> None:
                for batch in super(Ahead, self).__iter__():
                    made.put(batch)
                made.put(None)

            thread = threading.Thread(target=run)
            thread.start()
            yield from iter(made.get, None)
            thread.join()

    loader = Ahead(Count(9), 2, **options)
    assert [rows(loader) for _ in range(2)] == [list(range(9))] * 2


def test_a_loader_may_end_its_workers_when_it_goes(loader_class: Any) -> None:
    class Careful(loader_class):
        def __del__(self) -> None:
            if self._iterator is not None:
                self._iterator._shutdown_workers()

    loader = Careful(Count(9), 2, num_workers=1, persistent_workers=True)
    assert [rows(loader) for _ in range(2)] == [list(range(9))] * 2
    del loader
    gc.collect()


def test_a_loader_may_come_with_a_generator_and_a_seed_for_its_workers(loader_class: Any) -> None:
    class Seeded(loader_class):
        def __init__(self, dataset: Any, **more: Any) -> None:
            more.setdefault("generator", torch.Generator().manual_seed(3))
            super().__init__(dataset, worker_init_fn=functools.partial(_nothing, seed=5), **more)

    first, second = (Seeded(Count(20), batch_size=3, shuffle=True, num_workers=1) for _ in range(2))
    assert [rows(first), rows(first)] == [rows(second), rows(second)]


def _nothing(worker: int, seed: int) -> None:
    pass


def test_a_loader_can_be_made_again_from_its_attributes(loader_class: Any) -> None:
    loader = loader_class(Count(9), 2, shuffle=True, num_workers=1, multiprocessing_context="fork")
    names = [
        "dataset",
        "num_workers",
        "collate_fn",
        "pin_memory",
        "timeout",
        "worker_init_fn",
        "drop_last",
        "generator",
    ]
    names += ["multiprocessing_context", "prefetch_factor", "persistent_workers", "pin_memory_device", "in_order"]
    again = type(loader)(**{name: getattr(loader, name) for name in names}, sampler=[3, 1, 2], batch_size=2)
    assert batches(again) == [[3, 1], [2]]


class Repeating:
    """A batch sampler without end, which others put in the place of a loader's to keep one iterator for all epochs."""

    def __init__(self, inner: Any) -> None:
        self.sampler = inner

    def __iter__(self) -> Any:
        while True:
            yield from iter(self.sampler)


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("num_workers", [0, 2])
def test_a_loader_may_put_an_endless_batch_sampler_in_the_place_of_its_own(
    loader_class: Any, num_workers: int, shuffle: bool
) -> None:
    class Endless(loader_class):
        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **options)
            self._DataLoader__initialized = False
            self.batch_sampler = Repeating(self.batch_sampler)
            self._DataLoader__initialized = True
            self.iterator = super().__iter__()

        def __len__(self) -> int:
            return len(self.batch_sampler.sampler)

        def __iter__(self) -> Any:
            for _ in range(len(self)):
                yield next(self.iterator)

        def reset(self) -> None:
            self.iterator = self._get_iterator()

    loader = Endless(Count(7), 2, shuffle=shuffle, num_workers=num_workers)
    for _ in range(3):
        found = rows(loader)
        assert sorted(found) == list(range(7)) and (shuffle or found == list(range(7)))
    loader.reset()
    assert sorted(rows(loader)) == list(range(7))


@pytest.mark.parametrize("num_workers", [0, 1])
def test_a_loader_that_keeps_its_iterator_lets_go_of_the_one_before(loader_class: Any, num_workers: int) -> None:
    ended: list[str] = []

    class Keeping(loader_class):
        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **options)
            self.iterator = super().__iter__()

        def __iter__(self) -> Any:
            return self.iterator

        def __getstate__(self) -> Any:
            raise TypeError("not for copies")

        def __del__(self) -> None:
            ended.append("once")

    loader = Keeping(Count(9), 2, num_workers=num_workers)
    first = weakref.ref(loader.iterator)
    assert next(iter(loader)).tolist() == [0, 1]
    loader.iterator = loader._get_iterator()
    assert first() is None and rows(loader) == list(range(9)) and ended == []
    del loader
    assert ended == ["once"]


def test_a_loader_may_end_the_processes_of_its_iterator(loader_class: Any) -> None:
    class Ending(loader_class):
        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **options)
            self.iterator = super().__iter__()

        def __del__(self) -> None:
            for worker in self.iterator._workers:
                if worker.is_alive():
                    worker.terminate()
            self.iterator._shutdown_workers()

    loader = Ending(Count(40), 2, num_workers=2)
    assert next(loader.iterator).tolist() == [0, 1]
    workers = list(loader.iterator._workers)
    del loader
    for worker in workers:
        worker.join(HUNG_S)
        assert not worker.is_alive()


@pytest.mark.parametrize("num_workers", [0, 1])
def test_a_loader_may_say_which_batches_there_are(loader_class: Any, num_workers: int) -> None:
    class Other(loader_class):
        @property
        def _index_sampler(self) -> Any:
            return [[0, 1], [1, 2]]

    loader = Other(Count(7), num_workers=num_workers)
    assert batches(loader) == [[0, 1], [1, 2]] and len(loader) == 2


def test_a_loader_may_change_iteration_and_length(loader_class: Any) -> None:
    class Twice(loader_class):
        def __iter__(self) -> Any:
            for _ in range(2):
                yield from super().__iter__()

        def __len__(self) -> int:
            return 2 * super().__len__()

    loader = Twice(Count(4), 2, num_workers=1)
    assert batches(loader) == [[0, 1], [2, 3]] * 2 and len(loader) == 4
    assert len(loader._get_iterator()) == 2  # what it gives by itself


def test_a_loader_may_have_another_constructor(loader_class: Any) -> None:
    class Mine(loader_class):
        def __init__(self, n: int, **options: Any) -> None:
            super().__init__(dataset=Count(n), **options)

    assert batches(Mine(3, batch_size=2)) == [[0, 1], [2]]


def test_a_loader_may_be_compared_by_value_and_have_no_hash(loader_class: Any) -> None:
    @dataclasses.dataclass(eq=True)
    class Named(loader_class):
        name: str

        def __init__(self, name: str, n: int) -> None:
            self.name = name
            super().__init__(Count(n), 2)

    loaders = [Named("same", 8), Named("same", 12)]
    assert loaders[0] == loaders[1]
    for _ in range(2):
        assert [len(batches(loader)) for loader in loaders] == [4, 6]


def test_a_loader_that_was_iterated_over_is_copied_and_pickled_as_before(loader_class: Any) -> None:
    loader = loader_class(Count(20), 2)
    before = len(pickle.dumps(loader))
    expected = batches(loader)
    assert batches(loader) == expected and len(pickle.dumps(loader)) < before + 200
    for other in (copy.copy(loader), copy.deepcopy(loader), pickle.loads(pickle.dumps(loader))):
        assert batches(other) == batches(loader) == expected


def test_threads_that_share_an_iterator_each_get_batches_of_their_own() -> None:
    """Large ones, whose memory serves again when nothing refers to it."""
    n, size = 400, 1 << 16
    samples = [torch.full((size,), float(i)) for i in range(n)]
    iterator = iter(leat.DataLoader(samples, batch_sampler=Lots([[i] for i in range(n)])))
    seen: list[int] = []
    wrong: list[Any] = []

    def consume() -> None:
        try:
            while (batch := next(iterator, None)) is not None:
                value = batch[0, 0].item()
                if not bool((batch == value).all()) or not bool((batch == value).all()):
                    wrong.append(value)
                seen.append(int(value))
                del batch
        except Exception as e:
            wrong.append(e)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-4)
    try:
        threads = [threading.Thread(target=consume) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(HUNG_S)
    finally:
        sys.setswitchinterval(interval)
    assert not wrong and sorted(seen) == list(range(n))


def test_a_data_set_may_ask_the_iterator_for_the_next_batch(loader_class: Any) -> None:
    class Greedy(Count):
        def __getitem__(self, i: int) -> int:
            if i == 2:
                taken.extend(next(iterator).tolist())
            return i

    taken: list[int] = []
    iterator = iter(loader_class(Greedy(8), 2))
    assert [batch.tolist() for batch in iterator] == [[0, 1], [2, 3], [6, 7]] and taken == [4, 5]


class Lots:
    """Batches one at a time, from an iterator that threads may share."""

    def __init__(self, batches: list[list[int]]) -> None:
        self.batches = batches

    def __iter__(self) -> Any:
        return iter(self.batches)

    def __len__(self) -> int:
        return len(self.batches)
