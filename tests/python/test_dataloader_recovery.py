"""leat.DataLoader when something fails in its midst: samplers, results, workers, interrupts; and states of orders that
were drawn.
"""

import contextlib
import itertools
import os
import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from dataloader_support import LONG_S, Deadly, Hanging  # noqa: E402

import leat  # noqa: E402
from leat.torch import dataloader, iteration, pinning  # noqa: E402
from leat.workers.feed import Delivered, Feed, Planned  # noqa: E402


class Range:
    """Numbers, each its own index, and `offset`."""

    offset = 0

    def __init__(self, n: int) -> None:
        self.n = n

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, i: int) -> Any:
        return i + self.offset


def rows(batches: Any) -> list[list[int]]:
    return [batch.tolist() for batch in batches]


def whole(n: int, size: int) -> list[list[int]]:
    return [list(range(i, min(i + size, n))) for i in range(0, n, size)]


# ---- state of orders that were drawn
# ------------------------------------------------------------------------------------


class Drawn:
    """An order that is drawn from one of the global generators."""

    def __init__(self, which: str) -> None:
        self.which = which

    def __len__(self) -> int:
        return 40

    def __iter__(self) -> Iterator[int]:
        order = list(range(40))
        if self.which == "random":
            random.shuffle(order)
        elif self.which == "numpy":
            order = np.random.permutation(40).tolist()
        else:
            order = torch.randperm(40).tolist()
        return iter(order)


def _batches_of_torch() -> Any:
    return {"batch_sampler": torch.utils.data.BatchSampler(torch.utils.data.RandomSampler(range(40)), 4, False)}


ORDERS = {
    "batch sampler": _batches_of_torch,
    "weighted, beside a generator": lambda: {
        "sampler": torch.utils.data.WeightedRandomSampler([1.0] * 40, 40, replacement=False),
        "generator": torch.Generator(),
        "batch_size": 4,
    },
    "random": lambda: {"sampler": Drawn("random"), "batch_size": 4},
    "numpy": lambda: {"sampler": Drawn("numpy"), "batch_size": 4},
    "torch": lambda: {"sampler": Drawn("torch"), "batch_size": 4},
    "a generator of the sampler's": lambda: {
        "sampler": torch.utils.data.RandomSampler(range(40), generator=torch.Generator()),
        "batch_size": 4,
    },
}


@pytest.mark.parametrize("name", ORDERS)
@pytest.mark.parametrize("workers", [0, 2])
def test_a_state_goes_on_with_the_order_that_a_sampler_drew_in_the_second_epoch(name: str, workers: int) -> None:
    first = leat.DataLoader(Range(40), num_workers=workers, **ORDERS[name]())
    list(first)
    iterator = iter(first)
    before = rows(itertools.islice(iterator, 3))
    state = first.state_dict()
    rest = rows(iterator)
    expected = {"random": random.random(), "numpy": np.random.random()}
    random.seed(5)
    np.random.seed(5)
    torch.manual_seed(5)
    drawn = {"random": random.random(), "numpy": np.random.random()}
    random.seed(5)
    np.random.seed(5)
    torch.manual_seed(5)
    second = leat.DataLoader(Range(40), num_workers=workers, **ORDERS[name]())
    second.load_state_dict(state)
    resumed = iter(second)
    assert rows(resumed) == rest
    assert sorted(sum(before + rest, [])) == list(range(40))
    # The generator that the sampler draws from goes on as it did there; the program's others are undisturbed.
    expected = {kind: (expected if kind == name else drawn)[kind] for kind in drawn}
    assert expected == {"random": random.random(), "numpy": np.random.random()}


def test_states_of_a_sampler_are_kept_for_batches_in_flight_only() -> None:
    class Stateful(Drawn):
        def state_dict(self) -> dict[str, Any]:
            return {}

        def load_state_dict(self, state: dict[str, Any]) -> None:
            pass

    loader = leat.DataLoader(Range(40), 1, sampler=Stateful("torch"), num_workers=1, prefetch_factor=4)
    iterator = iter(loader)
    for _ in range(30):
        next(iterator)
    assert len(iterator.order.reading.after) <= 6


# ---- what cannot be had
# -------------------------------------------------------------------------------------------------


class Stopping(Range):
    def __iter__(self) -> Iterator[int]:
        yield from range(10)
        raise KeyError("no further index")


@pytest.mark.parametrize("workers", [0, 2])
def test_what_a_sampler_raises_comes_after_all_that_it_said_before(workers: int) -> None:
    loader = leat.DataLoader(Range(40), 2, sampler=Stopping(40), num_workers=workers)
    iterator = iter(loader)
    assert rows(itertools.islice(iterator, 5)) == whole(10, 2)
    assert loader.state_dict()["epoch"] == 0
    with pytest.raises(KeyError, match="no further index"):
        next(iterator)


class Elsewhere:
    """Can be pickled, but, if it is number 5, not be made again in another process."""

    def __init__(self, i: int, pid: int) -> None:
        if i == 5 and os.getpid() != pid:
            raise ValueError("not in this process")
        self.i = i

    def __reduce__(self) -> Any:
        return Elsewhere, (self.i, os.getpid())


def test_a_result_that_cannot_be_made_again_is_the_error_of_its_batch() -> None:
    class Objects(Range):
        def __getitem__(self, i: int) -> Any:
            return Elsewhere(i, os.getpid())

    iterator = iter(leat.DataLoader(Objects(16), 4, num_workers=2, collate_fn=lambda samples: samples))
    made: list[Any] = []
    for _ in range(4):
        try:
            made.append([each.i for each in next(iterator)])
        except ValueError as e:
            made.append("not in this process" in str(e))
    assert made == [[0, 1, 2, 3], True, [8, 9, 10, 11], [12, 13, 14, 15]]
    assert next(iterator, None) is None


def test_a_batch_for_which_there_is_no_memory_is_an_error_and_not_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = iter([True])

    def cut(self: Feed, flight: Any) -> None:
        if next(calls, False):
            raise leat.HeldError("let go of batches")
        original(self, flight)

    original = Feed._cut
    monkeypatch.setattr(Feed, "_cut", cut)
    iterator = iter(leat.DataLoader(Range(16), 4, num_workers=1))
    with pytest.raises(leat.HeldError, match="let go of batches"):
        next(iterator)
    assert rows(iterator) == whole(16, 4)[1:]


def test_a_stream_that_failed_at_its_end_goes_on_with_the_next_epoch() -> None:
    class Failing(torch.utils.data.IterableDataset[int]):
        def __iter__(self) -> Iterator[int]:
            yield from range(3)
            raise ValueError("no sample 3")

    def read(iterator: Any) -> list[Any]:
        made: list[Any] = []
        for _ in range(8):
            try:
                made.append(next(iterator).tolist())
            except ValueError:
                made.append("error")
            except StopIteration:
                made.append("end")
                break
        return made

    loader = leat.DataLoader(Failing(), 1, num_workers=1)
    iterator = iter(loader)
    assert read(itertools.islice(iterator, 3)) == [[0], [1], [2], "end"]
    with pytest.raises(ValueError, match="no sample 3"):
        next(iterator)
    again = leat.DataLoader(Failing(), 1, num_workers=1)
    again.load_state_dict(loader.state_dict())
    assert next(iterator, "end") == "end"
    assert read(iter(again)) == read(iter(loader)) == [[0], [1], [2], "error", "end"]


# ---- workers
# ------------------------------------------------------------------------------------------------------------


def test_workers_that_are_killed_while_they_are_idle_are_replaced_each_time() -> None:
    loader = leat.DataLoader(Range(400), 4, num_workers=2, prefetch_factor=2)
    iterator = iter(loader)
    made = []
    for _ in range(4):
        made += rows(itertools.islice(iterator, 2))
        while not any(iterator.pool.core.worker(i)[1] == 0 for i in range(2)):
            time.sleep(0.01)
        time.sleep(0.05)
        for pid in loader.stats()["pids"]:
            with contextlib.suppress(ProcessLookupError):  # one killed before, whose place nobody has needed since
                os.kill(pid, signal.SIGKILL)
    made += rows(iterator)
    assert made == whole(400, 4)


@pytest.mark.parametrize("dataset", [Deadly, Hanging])
def test_skip_leaves_out_what_ends_or_holds_workers_with_a_collate_function_of_the_users(dataset: Any) -> None:
    loader = leat.DataLoader(
        dataset(12), 4, num_workers=2, on_error="skip", sample_timeout_s=LONG_S, collate_fn=torch.tensor
    )
    assert rows(loader) == [[0, 1, 2, 3], [4, 6, 7], [8, 9, 10, 11]]


def test_samples_that_stand_in_and_end_workers_too_are_given_up_in_the_end() -> None:
    class Mine(Range):
        def __getitem__(self, i: int) -> int:
            os.kill(os.getpid(), signal.SIGKILL)
            return i

    with pytest.raises(leat.BrokenSampleError, match="ended workers"):
        list(leat.DataLoader(Mine(3), 1, sampler=[0], num_workers=1, on_error="substitute"))


def test_return_ids_leaves_out_what_was_skipped_whatever_the_index() -> None:
    class Named(Range):
        def __getitem__(self, name: str) -> int:  # type: ignore[override]
            if name == "k5":
                raise ValueError(name)
            return int(name[1:])

    loader = leat.DataLoader(
        Named(8), 4, sampler=[f"k{i}" for i in range(8)], num_workers=2, on_error="skip", return_ids=True
    )
    assert [ids for _, ids in loader] == [["k0", "k1", "k2", "k3"], ["k4", "k6", "k7"]]


def test_a_large_job_reaches_a_worker_that_waits_to_be_heard() -> None:
    dataset, large = Range(400), os.urandom(8 << 20)
    loud = leat.DataLoader(
        dataset,
        4,
        num_workers=1,
        persistent_workers="shared",
        collate_fn=lambda _: [os.urandom(3000) for _ in range(300)],
    )
    iterator = iter(loud)
    next(iterator)
    core = iterator.pool.core
    while core.worker(0)[1] == 0:  # until it fills the way to us
        time.sleep(0.01)
    time.sleep(0.2)
    other = leat.DataLoader(
        dataset, 4, num_workers=1, persistent_workers="shared", collate_fn=lambda samples: [len(large), *samples]
    )
    assert next(iter(other)) == [8 << 20, 0, 1, 2, 3]
    assert len(list(iterator)) == 99


def test_a_time_limit_is_refused_where_workers_are_threads_that_nobody_can_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(iteration, "threads_wanted", lambda context: True)
    with pytest.raises(ValueError, match="sample_timeout_s needs processes"):
        iter(leat.DataLoader(Range(8), num_workers=2, sample_timeout_s=1.0))


def test_streams_keep_their_workers_where_the_number_adapts(monkeypatch: pytest.MonkeyPatch) -> None:
    class Streams(torch.utils.data.IterableDataset[int]):
        def __iter__(self) -> Iterator[int]:
            info = torch.utils.data.get_worker_info()
            return iter(range(info.id, 30, info.num_workers))

    monkeypatch.setattr(dataloader, "first_workers", lambda: 3)
    iterator = iter(leat.DataLoader(Streams(), 2, num_workers="auto"))
    assert iterator.adapting is None
    assert sorted(sum(rows(iterator), [])) == list(range(30))


def test_a_sample_that_hundreds_of_batches_overtake_holds_up_none_of_them_for_good() -> None:
    class Late(Range):
        def __getitem__(self, i: int) -> int:
            time.sleep(1.0 if i == 0 else 0.0005)
            return i

    loader = leat.DataLoader(Late(1000), 1, num_workers=2, in_order=False, prefetch_factor=4)
    assert sorted(sum(rows(loader), [])) == list(range(1000))


# ---- the end, and interrupts
# --------------------------------------------------------------------------------------------


def test_an_iterator_that_was_closed_says_so() -> None:
    iterator = iter(leat.DataLoader(Range(100), 4, num_workers=1))
    next(iterator)
    iterator._shutdown_workers()
    with pytest.raises(RuntimeError, match="closed: iterate over the loader anew"):
        next(iterator)


class Interrupt(BaseException):
    """As KeyboardInterrupt, at an instruction that the test chooses."""


@pytest.mark.parametrize("place", ["_retire", "_publish", "_rows", "_take"])
@pytest.mark.parametrize("persistent", [False, True])
def test_an_iterator_that_was_interrupted_in_its_midst_says_so_and_the_next_one_is_whole(
    place: str, persistent: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    loader = leat.DataLoader(Range(100), 4, num_workers=2, persistent_workers=persistent, prefetch_factor=4)
    iterator = iter(loader)
    made = []
    if place != "_take":
        made.append(next(iterator).tolist())

    def interrupted(*_: Any) -> None:
        raise Interrupt

    with monkeypatch.context() as patch:
        patch.setattr(Feed, place, interrupted)
        with pytest.raises(Interrupt):
            while True:  # cheap batches are published several at a time
                made.append(next(iterator).tolist())
    with pytest.raises(RuntimeError, match="interrupted"):
        next(iterator)
    assert made == whole(100, 4)[: len(made)]
    assert loader.state_dict()["step"] == len(made)
    assert rows(loader) == whole(100, 4)


def test_a_wait_that_was_interrupted_goes_on(tmp_path: Path) -> None:
    class Slow(Range):
        def __getitem__(self, i: int) -> int:
            while not (tmp_path / "interrupted").exists():
                time.sleep(0.01)
            return i

    def ring(*_: Any) -> None:
        if iterator.source.waiting:  # type: ignore[attr-defined]
            signal.setitimer(signal.ITIMER_REAL, 0)
            (tmp_path / "interrupted").touch()
            raise Interrupt

    before = signal.signal(signal.SIGALRM, ring)
    try:
        iterator = iter(leat.DataLoader(Slow(4), 2, num_workers=1))
        with pytest.raises(Interrupt):
            signal.setitimer(signal.ITIMER_REAL, 0.05, 0.05)
            next(iterator)
        assert rows(iterator) == [[0, 1], [2, 3]]
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("iterable", [False, True])
def test_an_interrupted_sample_of_this_process_is_made_again_or_the_iterator_says_why_not(iterable: bool) -> None:
    interrupts = iter([Interrupt()])

    def value(i: int) -> int:
        if i == 5:
            for error in interrupts:
                raise error
        return i

    class Mapped(Range):
        def __getitem__(self, i: int) -> int:
            return value(i)

    class Streamed(torch.utils.data.IterableDataset[int]):
        def __iter__(self) -> Iterator[int]:
            return (value(i) for i in range(8))

    iterator = iter(leat.DataLoader(Streamed() if iterable else Mapped(8), 4))
    assert next(iterator).tolist() == [0, 1, 2, 3]
    with pytest.raises(Interrupt):
        next(iterator)
    if iterable:
        with pytest.raises(RuntimeError, match="interrupted"):
            next(iterator)
    else:
        assert rows(iterator) == [[4, 5, 6, 7]]


# ---- pinning
# ------------------------------------------------------------------------------------------------------------


def test_an_error_ahead_that_belongs_to_no_batch_is_not_taken_for_the_end() -> None:
    class Source:
        failed = None

        def __init__(self) -> None:
            self.calls = 0

        def next(self, timeout_s: float | None = None, advance: bool = True) -> Any:
            self.calls += 1
            if self.calls == 1:
                return Delivered(Planned([0], 1, 0, 0, 0, 0, 0), 0, [])
            raise RuntimeError("no workers")

    source = pinning.Pinning(Source(), lambda value: value)
    assert source.next().value == 0
    with pytest.raises(RuntimeError, match="no workers"):
        source.head()
    with pytest.raises(RuntimeError, match="no workers"):
        source.next()
    source.thread.shutdown()
