"""Worker processes: who they are, how they begin, what they see of the data set, how they are started."""

from __future__ import annotations

import dataclasses
import gc
import multiprocessing
import os
import random
import sys
import threading
import types
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from dataloader_support import (  # noqa: E402
    HUNG_S,
    Count,
    CountInit,
    From,
    Meeting,
    Mutable,
    Remembering,
    Waits,
    Workers,
    as_is,
    batches,
    mark_dataset,
    only_one_cpu,
    rows,
    seed_alike,
)
from torch.utils.data import get_worker_info  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create")
FORK = multiprocessing.get_context("fork")


def who(loader: Any) -> list[dict[str, int]]:
    return [one for batch in loader for one in batch]


# --- who they are ----------------------------------------------------------------------------------------------------


def test_worker_info_says_number_and_seed_in_workers_and_nothing_here(loader_class: Any) -> None:
    assert get_worker_info() is None
    found = who(loader_class(Workers(12, Meeting(FORK, 3)), num_workers=3, collate_fn=as_is))
    assert get_worker_info() is None
    assert [w["row"] for w in found] == list(range(12))
    assert {w["id"] for w in found} == {0, 1, 2} and all(w["num_workers"] == 3 for w in found)
    assert len({w["pid"] for w in found}) == 3 and os.getpid() not in {w["pid"] for w in found}
    assert all(w["seed"] == w["torch_seed"] for w in found)


def test_worker_seeds_are_consecutive(loader_class: Any) -> None:
    found = who(loader_class(Workers(12, Meeting(FORK, 3)), num_workers=3, collate_fn=as_is))
    seeds = {w["id"]: w["seed"] for w in found}
    assert seeds[1] == seeds[0] + 1 and seeds[2] == seeds[0] + 2


def test_worker_seeds_begin_at_what_the_generator_gives_next(loader_class: Any) -> None:
    expected = int(torch.empty((), dtype=torch.int64).random_(generator=torch.Generator().manual_seed(11)))
    generator = torch.Generator().manual_seed(11)
    found = who(loader_class(Workers(4), num_workers=1, collate_fn=as_is, generator=generator))
    assert {w["seed"] for w in found} == {expected}


def test_worker_seeds_differ_from_epoch_to_epoch(loader_class: Any) -> None:
    loader = loader_class(Workers(3), num_workers=1, collate_fn=as_is)
    assert len({w["seed"] for _ in range(3) for w in who(loader)}) == 3


def test_worker_info_cannot_be_changed(loader_class: Any) -> None:
    def make(i: int) -> str:
        info = get_worker_info()
        text = ""
        for name in ("id", "num_workers", "seed", "dataset"):
            assert f"{name}=" in repr(info)
        for name in ("id", "note"):
            try:
                setattr(info, name, 3)
            except (dataclasses.FrozenInstanceError, AttributeError, TypeError, RuntimeError):
                text += "refused "
        return text

    assert list(loader_class(From(2, make), num_workers=1)) == [["refused refused "]] * 2


def test_a_worker_computes_with_one_torch_thread(loader_class: Any) -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(4)
    try:
        assert {w["threads"] for w in who(loader_class(Workers(4), num_workers=1, collate_fn=as_is))} == {1}
        assert torch.get_num_threads() == 4
    finally:
        torch.set_num_threads(before)


def test_a_convolution_here_does_not_disturb_one_in_a_worker(loader_class: Any) -> None:
    def make(i: int) -> Any:
        return torch.nn.functional.conv1d(torch.ones(1, 1, 24000), torch.ones(1, 1, 2))

    make(0)
    (batch,) = loader_class(From(1, make), num_workers=1)
    assert batch.shape == (1, 1, 1, 23999)


def test_python_and_numpy_are_seeded_differently_in_each_worker(loader_class: Any) -> None:
    import random

    meeting = Meeting(FORK, 2)

    def make(i: int) -> Any:
        meeting.wait()
        info = get_worker_info()
        assert info is not None
        return info.id, random.random(), float(np.random.random()), float(torch.rand(()))

    found = [one for batch in loader_class(From(8, make), num_workers=2, collate_fn=as_is) for one in batch]
    for k in (1, 2, 3):
        assert len({one[k] for one in found}) == 8


# --- worker_init_fn --------------------------------------------------------------------------------------------------


def test_worker_init_fn_runs_after_seeding_and_before_the_first_sample(loader_class: Any) -> None:
    found = who(loader_class(Workers(6), 2, num_workers=2, worker_init_fn=seed_alike, collate_fn=as_is))
    assert {w["torch_seed"] for w in found} == {12345}


def test_worker_init_fn_reaches_the_workers_copy_of_the_data_set_only(loader_class: Any) -> None:
    data = Workers(6)
    found = who(loader_class(data, 2, num_workers=2, worker_init_fn=mark_dataset, collate_fn=as_is))
    assert {w["base"] for w in found} == {1000} and data.base == 0


def test_worker_init_fn_is_called_once_for_each_worker_and_epoch(loader_class: Any) -> None:
    calls = FORK.Array("i", 2)
    loader = loader_class(Workers(8, None), 2, num_workers=2, worker_init_fn=CountInit(calls), collate_fn=as_is)
    for epoch in (1, 2, 3):
        assert len(who(loader)) == 8
        assert list(calls) == [epoch, epoch]


def test_worker_init_fn_is_called_once_for_persistent_workers(loader_class: Any) -> None:
    calls = FORK.Array("i", 2)
    loader = loader_class(
        Workers(8, None), 2, num_workers=2, worker_init_fn=CountInit(calls), collate_fn=as_is, persistent_workers=True
    )
    for _ in range(3):
        assert len(who(loader)) == 8
        assert max(calls) == 1
    del loader
    gc.collect()  # ends the workers, so all have begun
    assert list(calls) == [1, 1]


def test_worker_init_fn_is_not_called_without_workers(loader_class: Any) -> None:
    called: list[int] = []
    assert rows(loader_class(Count(3), worker_init_fn=called.append)) == [0, 1, 2] and called == []


def test_worker_init_fn_may_bind_its_process_to_a_cpu(loader_class: Any) -> None:
    def make(i: int) -> list[int]:
        torch.randperm(1)
        return sorted(os.sched_getaffinity(0))

    mine = os.sched_getaffinity(0)
    found = list(loader_class(From(4, make), batch_size=None, num_workers=2, worker_init_fn=only_one_cpu))
    assert found == [[max(mine)]] * 4 and os.sched_getaffinity(0) == mine


# --- what workers see of the data set --------------------------------------------------------------------------------


def test_a_change_of_the_data_set_holds_from_the_next_epoch(loader_class: Any) -> None:
    data = Mutable(4)
    loader = loader_class(data, 2, num_workers=2)
    for base in (0, 10, 20):
        data.base = base
        assert rows(loader) == [base, base + 1, base + 2, base + 3]


def test_a_change_of_the_data_set_does_not_reach_persistent_workers(loader_class: Any) -> None:
    data = Mutable(4)
    loader = loader_class(data, 2, num_workers=2, persistent_workers=True)
    for base in (0, 10, 20):
        data.base = base
        assert rows(loader) == [0, 1, 2, 3]


_added = 0  # what `Deep` reads from its module


class Deep(Count):
    """What a sample is, is kept in many places."""

    def __init__(self) -> None:
        super().__init__(4)
        self.items, self.array, self.tensor = [0] * 4, np.zeros(4), torch.zeros(4)
        self.inner = types.SimpleNamespace(tables={"added": [0]}, transform=lambda x: x)

    def __getitem__(self, i: int) -> int:
        found = self.items[i] + self.array[i] + self.tensor[i].item() + self.inner.tables["added"][0] + _added
        return int(self.inner.transform(found))

    def add_to_module(self) -> None:
        global _added
        _added += 100


@pytest.mark.parametrize(
    "change",
    [
        lambda data: data.items.__setitem__(slice(None), [100] * 4),
        lambda data: data.array.__iadd__(100),
        lambda data: data.tensor.add_(100),
        lambda data: data.inner.tables["added"].__setitem__(0, 100),
        lambda data: data.inner.tables.update(added=[100]),
        lambda data: setattr(data.inner, "transform", lambda x: x + 100),
        lambda data: setattr(data, "items", [100] * 4),
        Deep.add_to_module,
    ],
    ids=["list", "array", "tensor", "nested list", "nested dict", "function", "attribute", "global"],
)
def test_the_persistent_workers_of_a_new_loader_have_the_data_set_as_it_is_now(
    loader_class: Any, monkeypatch: pytest.MonkeyPatch, change: Any
) -> None:
    monkeypatch.setattr(sys.modules[__name__], "_added", 0)
    data = Deep()
    first = loader_class(data, 2, num_workers=1, persistent_workers=True)
    assert rows(first) == [0] * 4
    change(data)
    assert rows(loader_class(data, 2, num_workers=1, persistent_workers=True)) == [100] * 4
    assert rows(first) == [0] * 4


def test_the_persistent_workers_of_a_new_loader_begin_with_the_generators_that_the_data_set_has(
    loader_class: Any,
) -> None:
    rng = random.Random(1)
    data = From(8, lambda i: rng.randrange(1000))  # draws in the worker only
    first, second = (loader_class(data, 2, num_workers=1, persistent_workers=True) for _ in range(2))
    assert rows(first) == rows(second) != rows(first)


def test_the_persistent_workers_of_a_new_loader_are_seeded_anew(loader_class: Any) -> None:
    data = From(8, lambda i: torch.randint(1000, ()).item())
    loaders = []
    for _ in range(2):
        torch.manual_seed(4)
        loaders.append(loader_class(data, 2, num_workers=1, persistent_workers=True))
        loaders.append(rows(loaders[-1]))
    assert loaders[1] == loaders[3]


def test_what_a_worker_does_to_the_data_set_is_forgotten_after_the_epoch(loader_class: Any) -> None:
    data = Remembering(5)
    loader = loader_class(data, num_workers=1)
    assert [rows(loader) for _ in range(2)] == [list(range(5))] * 2 and data.made == 0


def test_persistent_workers_remember_what_they_did_to_the_data_set(loader_class: Any) -> None:
    data = Remembering(5)
    loader = loader_class(data, num_workers=1, persistent_workers=True)
    assert [rows(loader) for _ in range(2)] == [list(range(5)), list(range(5, 10))] and data.made == 0


def test_without_workers_the_data_set_itself_is_used(loader_class: Any) -> None:
    data = Remembering(5)
    loader = loader_class(data)
    assert [rows(loader) for _ in range(2)] == [list(range(5)), list(range(5, 10))] and data.made == 10


def test_a_forked_worker_has_the_data_set_without_pickling_it(loader_class: Any) -> None:
    lock, generator = threading.Lock(), (i for i in range(3))

    def make(i: int) -> int:
        with lock:
            return 2 * i + len(str(generator)) * 0

    assert rows(loader_class(From(4, make), 2, num_workers=2, multiprocessing_context="fork")) == [0, 2, 4, 6]


def test_a_forked_worker_sees_open_files(loader_class: Any, tmp_path: Any) -> None:
    (tmp_path / "a").write_bytes(bytes(range(100)))
    with open(tmp_path / "a", "rb") as f:
        data = From(20, lambda i: os.pread(f.fileno(), 1, 5 * i)[0])
        assert rows(loader_class(data, 3, num_workers=2)) == list(range(0, 100, 5))


# --- persistent workers ----------------------------------------------------------------------------------------------


def test_persistent_workers_are_the_same_processes_in_each_epoch(loader_class: Any) -> None:
    loader = loader_class(Workers(8), num_workers=2, collate_fn=as_is, persistent_workers=True)
    pids = {w["pid"] for _ in range(4) for w in who(loader)}
    assert 1 <= len(pids) <= 2


def test_persistent_workers_give_each_epoch_in_full(loader_class: Any) -> None:
    loader = loader_class(Count(7), 2, shuffle=True, num_workers=2, persistent_workers=True)
    epochs = [rows(loader) for _ in range(4)]
    assert all(sorted(e) == list(range(7)) for e in epochs) and len({tuple(e) for e in epochs}) > 1


def test_a_new_iterator_over_persistent_workers_begins_anew(loader_class: Any) -> None:
    loader = loader_class(Count(20), 2, num_workers=2, persistent_workers=True)
    for taken in (3, 1, 0, 5):
        it = iter(loader)
        assert [next(it).tolist() for _ in range(taken)] == [[2 * k, 2 * k + 1] for k in range(taken)]
    assert rows(loader) == list(range(20))


# --- start methods ---------------------------------------------------------------------------------------------------


# Above 2 s where workers are not forked: each imports torch.
@pytest.mark.parametrize(
    "method, as_object",
    [
        ("fork", False),
        ("fork", True),
        ("forkserver", False),
        pytest.param("spawn", True, marks=pytest.mark.shard("torch")),  # the next test spawns, too
    ],
)
def test_every_start_method_gives_the_same_batches(loader_class: Any, method: str, as_object: bool) -> None:
    context = multiprocessing.get_context(method) if as_object else method
    loader = loader_class(Count(11), 3, num_workers=1 + (method == "fork"), multiprocessing_context=context)
    assert batches(loader) == [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9, 10]]


# Above 2 s: the worker imports torch.
def test_spawned_workers_have_seeds_and_numbers_too(loader_class: Any) -> None:
    generator = torch.Generator().manual_seed(3)
    expected = int(torch.empty((), dtype=torch.int64).random_(generator=torch.Generator().manual_seed(3)))
    loader = loader_class(
        Workers(3),
        num_workers=1,
        multiprocessing_context="spawn",
        collate_fn=as_is,
        generator=generator,
        worker_init_fn=mark_dataset,
    )
    found = who(loader)
    assert [w["row"] for w in found] == [0, 1, 2] and {w["base"] for w in found} == {1000}
    assert {(w["id"], w["seed"], w["threads"]) for w in found} == {(0, expected, 1)}


def test_the_default_start_method_of_multiprocessing_is_used(loader_class: Any) -> None:
    loader = loader_class(Workers(2), num_workers=1, collate_fn=as_is)
    assert loader.multiprocessing_context is None
    assert len(who(loader)) == 2


def test_loaders_with_different_start_methods_run_side_by_side(loader_class: Any) -> None:
    a = iter(loader_class(Count(6), num_workers=1))
    b = iter(loader_class(Count(6), num_workers=2, multiprocessing_context="forkserver"))
    assert [int(next(x)) for x in (a, a, b, b, a, b)] == [0, 1, 0, 1, 2, 2]


def test_two_loaders_of_different_data_sets_run_side_by_side(loader_class: Any) -> None:
    a, b = loader_class(Count(30), 3, num_workers=2), loader_class(From(30, _thousand), 3, num_workers=1)
    for k, (x, y) in enumerate(zip(a, b)):
        assert x.tolist() == [3 * k, 3 * k + 1, 3 * k + 2] and y.tolist() == [1000 + i for i in x.tolist()]


def _thousand(i: int) -> int:
    return 1000 + i


def test_loaders_run_in_several_threads(loader_class: Any) -> None:
    found: dict[int, list[int]] = {}

    def work(k: int) -> None:
        found[k] = rows(loader_class(From(20, lambda i: 100 * k + i), 3, num_workers=1))

    threads = [threading.Thread(target=work, args=(k,)) for k in range(3)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(HUNG_S)
    assert found == {k: [100 * k + i for i in range(20)] for k in range(3)}


# --- prefetching and order of completion -----------------------------------------------------------------------------


@pytest.mark.parametrize("prefetch_factor", [1, 2, 7])
def test_any_prefetch_factor_gives_the_same_batches(loader_class: Any, prefetch_factor: int) -> None:
    loader = loader_class(Count(23), 2, num_workers=2, prefetch_factor=prefetch_factor)
    assert loader.prefetch_factor == prefetch_factor and rows(loader) == list(range(23))


def test_in_order_a_slow_sample_holds_back_later_ones(loader_class: Any) -> None:
    event = FORK.Event()
    assert rows(loader_class(Waits(8, event, slow=0, sets=1), num_workers=2)) == list(range(8))


def test_out_of_order_a_slow_sample_is_overtaken_and_comes_once(loader_class: Any) -> None:
    event = FORK.Event()
    seen = []
    for batch in loader_class(Waits(8, event, slow=0), num_workers=2, in_order=False):
        seen.append(int(batch))
        event.set()  # so the first batch cannot be the slow one
    assert seen[0] != 0 and sorted(seen) == list(range(8))


def test_out_of_order_a_slow_sample_is_overtaken_by_any_number(loader_class: Any) -> None:
    event = FORK.Event()
    it = iter(loader_class(Waits(300, event, slow=1), num_workers=2, in_order=False, timeout=HUNG_S))
    seen = [int(next(it)) for _ in range(200)]
    assert 1 not in seen
    event.set()
    assert sorted(seen + [int(batch) for batch in it]) == list(range(300))


def test_out_of_order_all_workers_but_one_may_hang(loader_class: Any) -> None:
    event = FORK.Event()

    def make(i: int) -> int:
        assert i not in (40, 41) or event.wait(HUNG_S)
        return i

    options = {"num_workers": 3, "prefetch_factor": 1, "in_order": False, "timeout": HUNG_S}
    it = iter(loader_class(From(200, make), 1, **options))
    seen = [int(next(it)) for _ in range(150)]
    assert not {40, 41} & set(seen)
    event.set()
    assert sorted(seen + [int(batch) for batch in it]) == list(range(200))


def test_out_of_order_without_workers_is_in_order(loader_class: Any) -> None:
    assert rows(loader_class(Count(8), 3, in_order=False)) == list(range(8))


def test_out_of_order_batches_keep_their_rows_together(loader_class: Any) -> None:
    found = batches(loader_class(Count(40), 4, num_workers=2, in_order=False))
    assert sorted(found) == [list(range(k, k + 4)) for k in range(0, 40, 4)]
