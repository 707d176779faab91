"""Feeds and the pools of workers that they share: fairness, bounds, and what is given back when loaders come and go."""

from __future__ import annotations

import gc
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from process_support import children

torch = pytest.importorskip("torch")
from torch.utils.data import default_collate, get_worker_info  # noqa: E402

import leat  # noqa: E402
from leat import _leat  # noqa: E402
from leat.workers.feed import Feed, Planned  # noqa: E402
from leat.workers.loop import ROWS, WHOLE, Job, Unit, Worker  # noqa: E402
from leat.workers.pool import Pool  # noqa: E402


class Rows:
    """n samples: their own numbers, `size` times; each takes `ms` to make."""

    def __init__(self, n: int, size: int = 1, ms: float = 0.0) -> None:
        self.n, self.size, self.ms = n, size, ms

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, i: int) -> Any:
        time.sleep(self.ms / 1000)
        return np.full(self.size, i)


class Gate:
    """Samples that are made once a file is there; the others at once. A file beside it says what is being made."""

    def __init__(self, path: Path, closed: set[int]) -> None:
        self.path, self.closed = path, closed

    def __len__(self) -> int:
        return 64

    def __getitem__(self, i: int) -> Any:
        if i in self.closed:
            self.path.with_suffix(f".{i}").touch()
            while not self.path.exists():
                time.sleep(0.002)
        return np.full(1000, i)


def plan_of(n: int, rows: int, kind: int = ROWS) -> Iterator[Planned]:
    for step, first in enumerate(range(0, n, rows)):
        yield Planned(np.arange(first, first + rows), rows, kind, 0, 0, step, first)


def feed_of(
    pool: Pool,
    dataset: Any,
    n: int,
    rows: int = 4,
    kind: int = ROWS,
    window: int = 20,
    window_bytes: int = 1 << 30,
    **options: Any,
) -> Feed:
    collate = default_collate
    made = Feed(
        pool,
        Job(dataset, collate),
        plan_of(n, rows, kind),
        window=window,
        window_bytes=window_bytes,
        collate=collate,
        direct=kind == ROWS,
        **options,
    )
    pool.start()
    return made


@pytest.fixture(name="pool_of")
def pool_of_fixture() -> Iterator[Any]:
    made: list[Pool] = []

    def pool_of(dataset: Any, n: int) -> Pool:
        made.append(Pool(dataset, n, n, "fork", None, 0, False))
        return made[-1]

    yield pool_of
    while made:
        made.pop().stop()


def until(condition: Any) -> None:
    """Waits for what must come; the test's time limit is the suite's."""
    while not condition():
        time.sleep(0.002)


def descriptors() -> int:
    gc.collect()
    return len(os.listdir("/proc/self/fd"))


@pytest.fixture(autouse=True)
def nothing_is_left(no_workers_of_before: None) -> Iterator[None]:
    """Whatever a test does, what it held in shared memory and its workers are gone after it."""
    used, before = _leat.share_used(), children()
    yield
    gc.collect()
    assert _leat.share_used() == used
    assert children() <= before


# ---- several consumers -----------------------------------------------------------------------------------------------


class Turns(Worker):
    """A worker whose units take as long as their board says; it ends after so many."""

    def __init__(self, boards: dict[str, Any], units: int) -> None:
        self.clients: Any = {name: SimpleNamespace(board=board) for name, board in boards.items()}
        self.pool: Any = SimpleNamespace(seen=lambda: 0)
        self.units, self.stopping, self.served = units, False, list[str]()

    def listen(self, block: bool = False) -> None:
        """Nobody says anything."""

    def say_left(self) -> None:
        """No board has ended."""

    def work(self, client: Any, unit: Any) -> None:
        self.served.append(client.board.name)
        client.board.time += client.board.cost
        self.stopping = len(self.served) == self.units


class Timed:
    """A board on which work always is, each unit of which counts for `cost`."""

    def __init__(self, name: str, cost: int) -> None:
        self.name, self.cost, self.time = name, cost, 0

    def served_ns(self) -> int:
        return self.time

    def take(self) -> tuple[Any, ...]:
        return (0,) * len(Unit._fields)


def test_a_worker_serves_the_loader_that_has_had_the_least_time() -> None:
    worker = Turns({name: Timed(name, cost) for name, cost in {"a": 1000, "b": 3000, "c": 1500}.items()}, 60)
    worker.run()
    assert worker.served == [*"abcaca" * 10]


def test_the_time_of_a_loader_counts_by_its_weight(pool_of: Any) -> None:
    data = Rows(40, 1, 4)
    pool = pool_of(data, 1)
    feeds = [feed_of(pool, data, 40, weight=weight) for weight in (1000.0, 1.0)]  # a pause of the worker counts, too
    for _ in range(10):
        assert all(one.next() is not None for one in feeds)
    heavy, light = (one.board.served_ns() for one in feeds)
    assert 0 < 2 * heavy < light
    for one in feeds:
        one.close()


def test_a_loader_that_asked_for_nothing_has_no_claim_on_the_time_of_those_that_did(pool_of: Any) -> None:
    data = Rows(4000, 1, 0.5)
    pool = pool_of(data, 1)
    training, evaluation = feed_of(pool, data, 4000), feed_of(pool, data, 4000)
    for _ in range(40):
        training.next()
    served = training.board.served_ns()
    assert evaluation.board.served_ns() < served
    evaluation.head()  # publishes
    assert evaluation.board.served_ns() >= served
    for one in (training, evaluation):
        one.close()


def test_each_loader_of_a_pool_gets_its_own_rows_in_its_own_order(pool_of: Any) -> None:
    data = Rows(400)
    pool = pool_of(data, 2)
    feeds = [feed_of(pool, data, 400, rows) for rows in (4, 8, 40)]
    found: list[list[int]] = [[], [], []]
    open_ = set(range(3))
    while open_:
        for i in sorted(open_):
            made = feeds[i].next()
            if made is None:
                open_.discard(i)
            else:
                found[i] += made.value[:, 0].tolist()
    assert found == [list(range(400))] * 3
    for one in feeds:
        one.close()


# ---- bounds
# --------------------------------------------------------------------------------------------------------------


def test_the_window_is_bounded_in_bytes(pool_of: Any) -> None:
    data = Rows(60, 1 << 17)  # 1 MiB
    pool = pool_of(data, 2)
    before = _leat.share_used()
    one = feed_of(pool, data, 60, 1, window=40, window_bytes=8 << 20)
    used = []
    while (made := one.next()) is not None:
        del made
        assert len(one.order) <= 8
        used.append(_leat.share_used() - before)
    one.close()
    assert len(used) == 60 and max(used[10:]) < (8 + 3) << 20


def test_a_window_of_few_bytes_still_has_three_batches(pool_of: Any) -> None:
    data = Rows(30, 1 << 17)
    pool = pool_of(data, 2)
    one = feed_of(pool, data, 30, 1, window=20, window_bytes=1)
    for _ in range(10):
        one.next()
    assert len(one.order) == 3
    one.close()


def test_workers_ask_for_memory_where_loaders_do(pool_of: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    data = Rows(30, 1 << 17)  # 1 MiB
    left = _leat.memory_left()
    one = feed_of(pool_of(data, 2), data, 30, 1, window=20)
    kept = [one.next() for _ in range(4)]
    assert left - _leat.memory_left() >= 4 << 20
    monkeypatch.setattr(_leat, "memory_left", lambda: 0)  # as if loaders had taken the rest
    kept += [one.next() for _ in range(20)]
    assert len(one.order) == 3
    one.close()


def test_workers_give_back_what_they_made_ahead_before_a_loader_is_refused(
    pool_of: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = Rows(30, 1 << 17)
    one = feed_of(pool_of(data, 2), data, 30, 1, window=12)
    assert one.next().value[0, 0] == 0
    until(lambda: one.board.complete(one.order[-1].serial))
    with leat.Writer(tmp_path / "a.leat", {"x": "int64"}) as w:
        w.write_batch({"x": np.arange(8)})
    loader = leat.Loader(leat.open(tmp_path / "a.leat"), 4, framework="numpy")
    batches, next_, asked = iter(loader), loader._next, []

    def refused(number: int) -> Any:
        asked.append(_leat.share_used())
        if len(asked) == 1:
            raise leat.HeldError("loaders and workers of this process use all")
        return next_(number)

    loader._next = refused  # type: ignore[method-assign]
    with monkeypatch.context() as m:
        m.setattr(_leat, "memory_left", lambda: 1000)
        assert next(batches).ids.tolist() == [0, 1, 2, 3]
        assert asked[1] < asked[0] - (8 << 20)
        asked.clear()
    with pytest.raises(leat.HeldError):  # memory is left: the loader's own limit is in the way
        next(batches)
    assert [made.value[0, 0] for made in iter(one.next, None)] == list(range(1, 30))
    one.close()
    loader.close()


# ---- reading the plan
# -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("distance", [None, 1, 3, 50])
def test_a_plan_is_read_at_a_fixed_distance_however_fast_the_rows_are(pool_of: Any, distance: int | None) -> None:
    dataset, read = Rows(40), []

    def plan() -> Iterator[Planned]:
        for planned in plan_of(40, 1):
            read.append(planned.step)
            yield planned

    feed = feed_of(pool_of(dataset, 2), dataset, 0, window=6, distance=distance)
    ahead = 6 if distance is None else distance
    for _ in range(2):
        read.clear()
        feed.begun = True
        feed.restart(plan())
        for step in range(40):
            assert len(read) == min(40, ahead + step)
            head = feed.head()
            assert head is not None and head.step == step and len(read) == min(40, ahead + step)
            made = feed.next()
            assert made is not None and made.planned.step == step
        assert feed.exhausted and feed.head() is None and feed.next() is None
    feed.close()


def test_an_error_of_the_plan_comes_after_the_batches_that_were_read_before(pool_of: Any) -> None:
    dataset = Rows(40)

    def plan() -> Iterator[Planned]:
        yield from plan_of(4, 1)
        raise LookupError("no more")

    feed = feed_of(pool_of(dataset, 2), dataset, 0, window=2, distance=6)
    feed.plan = plan()
    feed.publish()
    assert feed.exhausted and feed.plan_error is not None and len(feed.order) + len(feed.read) == 4
    for step in range(4):
        made = feed.next()
        assert made is not None and made.planned.step == step
    with pytest.raises(LookupError, match="no more"):
        feed.next()
    assert feed.next() is None
    feed.close()


# ---- what is given back
# ----------------------------------------------------------------------------------------------------


def whole(samples: Any) -> Any:
    return default_collate(samples)


@pytest.mark.parametrize(
    "how", ["to its end", "left in the middle", "ended by an error", "batches held", "collated by a function"]
)
def test_the_memory_of_a_loader_comes_back(how: str) -> None:
    before = _leat.share_used()
    loader = leat.DataLoader(
        Rows(64, 5000), 4, num_workers=2, collate_fn=whole if how == "collated by a function" else None
    )
    iterator = iter(loader)
    held = [next(iterator) for _ in range(3)]
    if how == "ended by an error":
        os.kill(iterator.pool.pids[0], signal.SIGKILL)  # type: ignore[attr-defined]
    if how != "left in the middle":
        held += list(iterator)
    if how != "batches held":
        held.clear()
    del iterator, loader
    gc.collect()
    if held:
        assert _leat.share_used() > before
        assert [int(b[0, 0]) for b in held] == list(range(0, 64, 4))
        held.clear()
        gc.collect()
    assert _leat.share_used() == before


def test_many_iterators_leave_no_descriptor_and_no_process_behind() -> None:
    data = Rows(16)
    list(leat.DataLoader(data, 4, num_workers=2))  # what is opened once
    before, running = descriptors(), children()
    loader = leat.DataLoader(data, 4, num_workers=2)
    for i in range(15):
        iterator = iter(loader)
        for _ in range(i % 5):
            next(iterator, None)
        del iterator
    assert descriptors() <= before
    assert children() <= running


def test_a_pool_does_not_grow_with_the_loaders_that_came_and_went() -> None:
    data = Rows(400, 1000)
    training = iter(leat.DataLoader(data, 4, num_workers=2, persistent_workers="shared"))
    next(training)
    pool: Pool = training.pool  # type: ignore[attr-defined]
    used = []
    for i in range(40):
        evaluation = iter(leat.DataLoader(data, 8, num_workers=2, persistent_workers="shared"))
        assert evaluation.pool is pool  # type: ignore[attr-defined]
        for _ in range(1 + i % 3):
            next(evaluation)
        del evaluation
        next(training)
        assert len(pool.clients) == len(pool.jobs) == 1
        if i % 10 == 9:
            while pool.leaving:
                pool.look(10)
            used.append(_leat.share_used())
    assert max(used) <= 1.5 * used[0]


@pytest.mark.parametrize("end", ["finishes", "is killed"])
def test_what_a_worker_may_still_write_to_is_kept_until_it_finishes_or_is_dead(
    tmp_path: Path, pool_of: Any, end: str
) -> None:
    data = Gate(tmp_path / "open", {9})
    pool = pool_of(data, 2)
    one = feed_of(pool, data, 64)
    one.next()
    until((tmp_path / "open.9").exists)
    board, last = one.board, one.order[-1].serial
    until(lambda: board.complete(last))
    used, batch = _leat.share_used(), one.order[0].slots[0].bytes
    assert len(one.order) > 2
    one.close()
    assert used - _leat.share_used() >= 2 * batch  # at once, but the one that is worked on
    del one
    used = _leat.share_used()
    other = feed_of(pool, Rows(64), 32)  # the other worker goes on
    assert [m.value[0, 0] for m in iter(other.next, None)] == list(range(0, 32, 4))
    until(lambda: pool.look() or len([*pool.leaving.values()][0][0]) == 1)
    ((busy,),) = [waited_for for waited_for, *_ in pool.leaving.values()]
    assert _leat.share_used() >= used
    if end == "finishes":
        (tmp_path / "open").touch()
    else:
        os.kill(pool.handles[busy].process.pid, signal.SIGKILL)
    until(lambda: pool.look() or not pool.leaving)
    other.close()


class Texts:
    """Long texts: a batch of them is more than a socket holds."""

    def __len__(self) -> int:
        return 2000

    def __getitem__(self, i: int) -> str:
        return f"{i} " + "x" * 20000


def test_a_loader_joins_workers_that_are_sending_however_much_it_has_to_tell_them() -> None:
    data, ballast = Texts(), bytes(8 << 20)
    first = iter(leat.DataLoader(data, 200, num_workers=2, persistent_workers="shared", collate_fn=lambda batch: batch))
    found = [next(first)]
    pool: Pool = first.pool  # type: ignore[attr-defined]
    until(pool.expects)
    second = leat.DataLoader(
        data, 4, num_workers=2, persistent_workers="shared", collate_fn=lambda batch: (batch, len(ballast))
    )
    joined = iter(second)
    assert joined.pool is pool  # type: ignore[attr-defined]
    assert next(joined)[1] == 8 << 20
    found += list(first)
    assert [text.split()[0] for batch in found for text in batch] == [str(i) for i in range(2000)]
    del first, joined, pool


# ---- messages and deaths
# ---------------------------------------------------------------------------------------------------


def test_after_workers_were_killed_every_message_is_accounted_for(pool_of: Any) -> None:
    data = Rows(1200, 200)
    pool = pool_of(data, 3)
    one = feed_of(pool, data, 1200, kind=WHOLE)
    units = [0, 0, 0]
    for step in range(300):
        made = one.next()
        assert made is not None and made.value[:, 0].tolist() == list(range(4 * step, 4 * step + 4))
        if step % 30 == 7:
            i = next(i for i in range(3) if pool.core.worker(i)[3] > units[i])  # it has worked
            units[i] = pool.core.worker(i)[3]
            os.kill(pool.handles[i].process.pid, signal.SIGKILL)
    assert one.next() is None
    until(lambda: pool.look() or len(pool.events) >= 10)
    assert not pool.expects()
    one.close()


def test_a_message_that_a_worker_announced_and_could_not_send_is_not_waited_for(pool_of: Any) -> None:
    data = Texts()
    pool = pool_of(data, 1)
    one = feed_of(pool, data, 800, 400, kind=WHOLE)
    one.publish()
    until(pool.expects)  # and it is not through before this process reads
    os.kill(pool.handles[0].process.pid, signal.SIGKILL)
    until(lambda: pool.look() or pool.events)
    made = [one.next(), one.next(), one.next()]
    assert [len(batch.value) for batch in made[:2]] == [400, 400] and made[2] is None
    assert not pool.expects()
    one.close()


def test_a_row_is_not_blamed_for_a_worker_that_died_between_units(pool_of: Any) -> None:
    data = Rows(4000, 1, 0.2)
    pool = pool_of(data, 2)
    one = feed_of(pool, data, 1 << 40)  # without end: the other worker may make any number before a new one begins
    for step in range(24):
        i = step % 2
        units = pool.core.worker(i)[3]
        while pool.core.worker(i)[3] == units:  # it has work, somewhere in which it dies
            assert one.next() is not None
        os.kill(pool.handles[i].process.pid, signal.SIGKILL)
        while len(pool.events) == step:
            pool.look(10)
    assert not one.stats["broken"]
    one.close()


def test_only_time_in_which_this_process_looks_makes_a_sample_late(
    pool_of: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that was stopped, or had no time, comes to samples whose workers stood still with it."""
    data = Gate(tmp_path / "open", {5})
    pool = pool_of(data, 1)
    one = feed_of(pool, data, 64, sample_timeout_s=1.0)
    assert one.next() is not None
    until((tmp_path / "open.5").exists)
    clock = [1000.0]
    monkeypatch.setattr(leat.workers.feed, "now", lambda: clock[0])
    for later in (0.0, 100.0, 0.4):
        clock[0] += later
        one._look_for_hangs()
        assert not one.hung
    clock[0] += 0.4
    one._look_for_hangs()
    assert one.hung == {0}
    one.close()


def test_workers_that_are_killed_while_they_have_nothing_to_do_are_replaced_if_they_had_worked(pool_of: Any) -> None:
    data = Rows(4000)
    pool = pool_of(data, 1)
    one = feed_of(pool, data, 4000, window=4)
    for deaths in range(1, 6):
        for _ in range(6):
            assert one.next() is not None
        until(lambda: pool.core.worker(0)[1] == 0 and all(one.board.complete(flight.serial) for flight in one.order))
        os.kill(pool.handles[0].process.pid, signal.SIGKILL)
        while len(pool.events) < deaths:
            pool.look(10)
    one.close()


def test_a_worker_that_dies_three_times_before_it_has_any_work_is_an_error(pool_of: Any) -> None:
    data = Rows(40)
    pool = pool_of(data, 1)
    one = feed_of(pool, data, 0)
    with pytest.raises(RuntimeError, match="ended three times before it had any work"):
        for deaths in range(1, 4):
            os.kill(pool.handles[0].process.pid, signal.SIGKILL)
            while len(pool.events) < deaths:
                pool.look(10)
    one.close()


# ---- workers that are threads
# ------------------------------------------------------------------------------------------------


class Info:
    """Samples that say which worker made them."""

    def __len__(self) -> int:
        return 64

    def __getitem__(self, i: int) -> int:
        info = get_worker_info()
        assert info is not None and info.num_workers == 2 and info.dataset is self
        return int(info.id)


def test_threads_that_are_no_workers_have_no_worker_info() -> None:
    data = Info()
    pool = Pool(data, 2, 2, None, None, 0, True)
    one = feed_of(pool, data, 64)
    found = set()
    while (made := one.next()) is not None:
        assert get_worker_info() is None
        found |= set(made.value.tolist())
    assert found <= {0, 1}
    one.close()
    pool.stop()
    assert get_worker_info() is None
