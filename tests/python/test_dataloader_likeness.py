"""What others' code reads of PyTorch's iterators is there, and means the same."""

from __future__ import annotations

import os
import signal
from typing import Any

import pytest

torch = pytest.importorskip("torch")
from dataloader_support import HUNG_S, Count, Stream, batches  # noqa: E402

import leat  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create")
FROM_LOADER = (
    "_auto_collation", "_collate_fn", "_dataset", "_dataset_kind", "_drop_last", "_index_sampler",
    "_IterableDataset_len_called", "_num_workers", "_persistent_workers", "_pin_memory", "_pin_memory_device",
    "_timeout",
)  # fmt: skip
OF_WORKERS = ("_in_order", "_prefetch_factor", "_worker_init_fn", "_shutdown")


def progress(it: Any) -> list[int]:
    names = ["_num_yielded"] + ["_rcvd_idx", "_send_idx", "_tasks_outstanding"] * bool(it._num_workers)
    return [getattr(it, name) for name in names]


@pytest.mark.parametrize("num_workers", [0, 2])
def test_an_iterator_shows_what_its_loader_was_given(num_workers: int) -> None:
    options: dict[str, Any] = {"num_workers": num_workers, "drop_last": True, "batch_sampler": None}
    if num_workers:
        options |= {"timeout": 100, "prefetch_factor": 3, "persistent_workers": True, "worker_init_fn": as_nothing}
    for dataset in (Count(9), Stream(True)):
        ours, theirs = leat.DataLoader(dataset, 2, **options), torch.utils.data.DataLoader(dataset, 2, **options)
        a, b = iter(ours), iter(theirs)
        for name in FROM_LOADER + (OF_WORKERS if num_workers else ()):
            if name == "_index_sampler":
                assert getattr(a, name) is ours._index_sampler
            else:
                assert getattr(a, name) == getattr(b, name), name
        for name in () if num_workers else (*OF_WORKERS, "_workers", "_rcvd_idx"):
            assert not hasattr(a, name) and not hasattr(b, name)
        torch.manual_seed(3)
        seeds = []
        for kind in (leat.DataLoader, torch.utils.data.DataLoader):
            torch.manual_seed(3)
            seeds.append(iter(kind(dataset, 2, **options))._base_seed)
        assert seeds[0] == seeds[1]


def as_nothing(worker: int) -> None:
    """Prepares nothing."""


@pytest.mark.parametrize("num_workers", [0, 1, 2])
@pytest.mark.parametrize("persistent", [False, True])
def test_an_iterator_counts_batches_as_they_are_read_and_delivered(num_workers: int, persistent: bool) -> None:
    options: dict[str, Any] = {"num_workers": num_workers, "sampler": range(21)}
    if num_workers:
        options |= {"prefetch_factor": 3, "persistent_workers": persistent}
    found = []
    for kind in (leat.DataLoader, torch.utils.data.DataLoader):
        loader = kind(Count(21), 2, **options)
        for _ in range(2):
            it = iter(loader)
            counts = [progress(it)]
            for _ in it:
                counts.append(progress(it)[:3])  # PyTorch's workers may be done with more or fewer
            found.append((counts, it._num_yielded))
    assert found[:2] == found[2:]


def test_the_processes_of_workers_can_be_seen_until_and_after_their_end(loader_class: Any) -> None:
    loader = loader_class(Count(40), 2, num_workers=2, persistent_workers=True)
    next(iter(loader))
    workers = loader._iterator._workers
    pids = [worker.pid for worker in workers]
    assert len(set(pids)) == 2 and all(worker.is_alive() and worker.exitcode is None for worker in workers)
    assert len(batches(loader)) == 20 and [worker.pid for worker in loader._iterator._workers] == pids
    loader._iterator._shutdown_workers()
    assert loader._iterator._shutdown and [worker.pid for worker in loader._iterator._workers] == pids
    assert not any(worker.is_alive() for worker in workers)


def test_the_processes_of_an_epoch_have_ended_with_it(loader_class: Any) -> None:
    it = iter(loader_class(Count(40), 2, num_workers=2))
    workers = list(it._workers)
    assert len(list(it)) == 20 and it._shutdown
    assert [worker.pid for worker in it._workers] == [worker.pid for worker in workers]
    for worker in workers:
        worker.join(HUNG_S)
        assert worker.exitcode == 0


def test_a_process_that_was_replaced_is_not_among_the_workers() -> None:
    it: Any = iter(leat.DataLoader(Count(4000), 2, num_workers=2))
    next(it)
    before = [worker.pid for worker in it._workers]
    os.kill(before[0], signal.SIGKILL)
    while it.pool.pids[0] == before[0]:
        it.pool.look(10)
    assert [worker.pid for worker in it._workers] == it.pool.pids and it.pool.pids[1] == before[1]


@pytest.mark.parametrize("num_workers", [0, 2])
def test_what_is_not_there_is_an_attribute_error(num_workers: int) -> None:
    it: Any = iter(leat.DataLoader(Count(4), num_workers=num_workers))
    for name in ("_index_queues", "_dataset_fetcher", "_worker_result_queue", "_task_info", "nothing"):
        with pytest.raises(AttributeError, match=f"'Iteration' object has no attribute '{name}'"):
            getattr(it, name)
