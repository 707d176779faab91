"""What goes wrong: samples that fail, hang or kill; workers that die; parents that are interrupted, killed or simply
leave.

Each ends in the documented way, and nothing is left behind: no process, no name in /dev/shm, no descriptor. Scripts run
in processes of their own, each in a session of its own, to which all of its descendants belong.
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import functools
import gc
import multiprocessing
import multiprocessing.resource_tracker
import os
import random
import signal
import sys
import tempfile
import textwrap
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
from dataloader_support import (  # noqa: E402
    HUNG_S,
    Count,
    From,
    PerWorker,
    Stream,
    Waits,
    as_is,
    batches,
    error_of,
    rows,
)
from process_support import shared_memory  # noqa: E402
from script_support import python  # noqa: E402

import leat  # noqa: E402

pytestmark = [
    pytest.mark.filterwarnings("ignore:This DataLoader will create"),
    pytest.mark.filterwarnings("ignore:leat. worker"),
]
TORCH = pytest.mark.shard("torch")
FORK = multiprocessing.get_context("fork")

# What the scripts below begin with. `Loader` is the class under test; all that is printed goes to a file.
SETUP = f"""
import ctypes, faulthandler, gc, os, signal, sys, threading, time, warnings
ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG: ends with the test
os.setsid()
output = os.open(sys.argv[2], os.O_WRONLY | os.O_APPEND)
os.dup2(output, 1), os.dup2(output, 2), os.close(output)
print(os.getpid(), flush=True)
faulthandler.dump_traceback_later({0.8 * HUNG_S}, exit=True)
sys.path.insert(0, {str(Path(__file__).parent)!r})
import torch, leat, torch.utils.data
from dataloader_support import *
Loader = {{"torch": torch.utils.data.DataLoader, "leat": leat.DataLoader}}[sys.argv[1]]
warnings.simplefilter("ignore")
def say(*words): print(*words, flush=True)
def sleep_at(slow):
    def make(i):
        if i == slow:
            time.sleep(1000)
        return i
    return make
"""


class Child:
    """A process that runs a script, with everything that it starts."""

    def __init__(self, code: str, kind: str = "leat") -> None:
        self.names = shared_memory()
        self.printed = tempfile.NamedTemporaryFile("r")  # noqa: SIM115
        words = ["-c", SETUP + textwrap.dedent(code), kind, self.printed.name]
        self.returncode: int | None = None

        def wait() -> None:
            self.returncode = python(*words, timeout=HUNG_S).returncode

        self.thread = threading.Thread(target=wait)
        self.thread.start()
        self.pid = int(self.line())  # the session, too

    def line(self) -> str:
        """The next line that it prints."""
        text = ""
        while not text.endswith("\n"):
            over = not self.thread.is_alive()
            text += self.printed.readline()
            assert text.endswith("\n") or not over, f"it ended with {self.returncode}; the last it said is {text!r}"
            time.sleep(0.01)
        return text.rstrip("\n")

    def end(self) -> str:
        """The rest of its output, once it has ended and with it everything that it started."""
        self.thread.join()
        deadline = time.monotonic() + HUNG_S
        while self.processes() and time.monotonic() < deadline:
            time.sleep(0.05)
        left = self.processes()
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        out = self.printed.read()
        self.printed.close()
        assert not left, f"processes are left: {left}\n{out}"
        names = shared_memory() - self.names
        while names and time.monotonic() < deadline:  # what tests beside this one make there goes with their processes
            time.sleep(0.05)
            names &= shared_memory()
        assert not names, f"left in /dev/shm: {names}"
        return out

    def processes(self) -> list[int]:
        """Those of its session that run."""
        found = []
        for entry in os.listdir("/proc"):
            if entry.isdigit():
                with contextlib.suppress(OSError):
                    state, _, _, session = Path(f"/proc/{entry}/stat").read_text().rpartition(")")[2].split()[:4]
                    if int(session) == self.pid and state not in "ZX":
                        found.append(int(entry))
        return found


def run(code: str, kind: str = "leat", expect: int = 0) -> str:
    child = Child(code, kind)
    out = child.end()
    assert child.returncode == expect, f"exit code {child.returncode}\n{out}"
    return out


KIND = pytest.mark.parametrize("kind", [pytest.param("torch", marks=TORCH), "leat"])


@pytest.fixture(scope="module", autouse=True)
def opened_once() -> None:
    """What the process opens once, with its first workers, and keeps."""
    multiprocessing.resource_tracker.ensure_running()
    assert rows(leat.DataLoader(Count(4), num_workers=1)) == list(range(4))


@contextlib.contextmanager
def nothing_left() -> Iterator[None]:
    """No descriptor, process or thread is left of what happens within."""

    def count() -> tuple[int, int, int]:
        gc.collect()
        children = len(multiprocessing.active_children())
        return len(os.listdir("/proc/self/fd")), children, threading.active_count()

    before = count()
    yield
    deadline = time.monotonic() + HUNG_S
    while (after := count()) > before and time.monotonic() < deadline:
        time.sleep(0.05)
    assert after <= before, f"descriptors, processes, threads: {before}, then {after}"


# --- the parent ends -------------------------------------------------------------------------------------------------


LIVE = {
    "iterator": "it = iter(Loader(Count(1000), 2, num_workers=2)); next(it)",
    "persistent": "loader = Loader(Count(9), 2, num_workers=2, persistent_workers=True); it = iter(loader); next(it)",
    "batches": "kept = [b for b, _ in zip(Loader(Count(99), 2, num_workers=2), range(5))]; sys.modules['kept'] = kept",
    "generator": "def g():\n    yield from Loader(Count(1000), 2, num_workers=2)\nx = g(); next(x)",
    "module": "sys.modules['it'] = iter(Loader(Count(1000), 2, num_workers=2)); next(sys.modules['it'])",
    "stream": "it = iter(Loader(Endless(), 2, num_workers=2)); next(it)",
    "function as exit handler": (
        "import atexit; it = iter(Loader(Count(1000), num_workers=2)); next(it); atexit.register(lambda: next(it))"
    ),
}


@pytest.mark.parametrize(
    "kind, where", [pytest.param("torch", "iterator", marks=TORCH), *(("leat", where) for where in LIVE)]
)
def test_an_interpreter_exits_with_a_live_loader(kind: str, where: str) -> None:
    assert run(LIVE[where], kind) == ""


@KIND
def test_an_error_in_the_loop_ends_the_process_with_its_traceback(kind: str) -> None:
    out = run(
        "for batch in Loader(Count(100000), 4096, num_workers=1):\n    raise RuntimeError('my error')", kind, expect=1
    )
    assert out.rstrip().endswith("RuntimeError: my error") and out.count("Traceback") == 1


@pytest.mark.parametrize(
    "kind, stream, held",
    [
        pytest.param("torch", False, True, marks=TORCH),
        ("leat", False, True),
        ("leat", True, True),
        ("leat", True, False),
    ],
)
def test_an_error_of_a_worker_ends_the_process_whoever_holds_the_iterator(kind: str, stream: bool, held: bool) -> None:
    data = "FailingStream(3)" if stream else "Failing(99, lambda i: ValueError('no sample'), {3})"
    loop = (
        "it = iter(Loader({}, num_workers=2))\nfor _ in it: pass"
        if held
        else "for _ in Loader({}, num_workers=2): pass"
    )
    out = run(loop.format(data), kind, expect=1)
    assert "ValueError" in out and ("the stream broke" if stream else "no sample") in out


@pytest.mark.parametrize("options", ["", ", persistent_workers=True"])
def test_an_interpreter_exits_while_a_sample_hangs(options: str) -> None:
    code = f"""
    it = iter(Loader(From(100, sleep_at(5)), num_workers=2, prefetch_factor=8{options}))
    say(int(next(it)))
    """
    assert run(code) == "0\n"


def test_os_exit_leaves_nothing() -> None:
    run("it = iter(Loader(Count(1000), num_workers=2)); next(it); os._exit(3)", expect=3)


def test_an_interpreter_exits_while_another_thread_waits() -> None:
    code = f"""
    waits = threading.Event()
    def eat():
        for batch in Loader(From(100, sleep_at(5)), num_workers=2):
            if int(batch) == 4:
                waits.set()
    threading.Thread(target=eat, daemon=True).start()
    say(waits.wait({HUNG_S}))
    time.sleep(0.1)
    """
    assert run(code) == "True\n"


# Above 2 s where workers are not forked: each imports torch.
@pytest.mark.parametrize(
    "number, context, busy",
    [
        (signal.SIGKILL, "fork", False),
        (signal.SIGKILL, "fork", True),
        (signal.SIGKILL, "forkserver", True),
        (signal.SIGKILL, "spawn", True),
        (signal.SIGTERM, "fork", True),
        (signal.SIGTERM, "forkserver", False),
    ],
)
def test_a_killed_parent_leaves_nothing(number: int, context: str, busy: bool) -> None:
    workers = 2 if context == "fork" else 1  # each of the others imports all of it anew
    data = f"From(10**6, sleep_at({3 if busy else -1}))"
    child = Child(f"""
    it = iter(Loader({data}, num_workers={workers}, multiprocessing_context="{context}"))
    next(it), next(it)
    say("runs")
    while True:
        next(it)
    """)
    assert child.line() == "runs"
    os.kill(child.pid, number)
    child.end()
    assert child.returncode == -number


@pytest.mark.parametrize("options", ["", ", persistent_workers=True", ", in_order=False"])
def test_ctrl_c_in_the_middle_of_a_batch_is_a_keyboard_interrupt_here_alone(options: str) -> None:
    child = Child(f"""
    def make(i):
        time.sleep(0.001)
        return i
    loader = Loader(From(10**6, make), 4, num_workers=2{options})
    try:
        for i, batch in enumerate(loader):
            if i == 5:
                say("runs")
    except KeyboardInterrupt:
        say("interrupted")
    del loader
    gc.collect()
    """)
    assert child.line() == "runs"
    os.killpg(child.pid, signal.SIGINT)  # as a terminal does: to the workers too
    assert child.end() == "interrupted\n" and child.returncode == 0


def test_ctrl_c_while_a_sample_hangs_ends_the_wait_and_a_new_epoch_is_possible() -> None:
    child = Child("""
    loader = Loader(From(20, sleep_at(5)), num_workers=1)
    try:
        for batch in loader:
            if int(batch) == 4:
                say("waits")
    except KeyboardInterrupt:
        say("interrupted")
    del batch
    say([int(b) for b, _ in zip(loader, range(3))])
    """)
    assert child.line() == "waits"
    os.killpg(child.pid, signal.SIGINT)
    assert child.end() == "interrupted\n[0, 1, 2]\n"


@KIND
def test_what_was_printed_before_workers_were_forked_is_printed_once(kind: str) -> None:
    code = """
    sys.stdout.write("once ")
    import atexit
    atexit.register(lambda: sys.stdout.write("at exit "))
    assert len(list(Loader(Count(8), 2, num_workers=2))) == 4
    """
    assert run(code, kind) == "once at exit "


# --- workers die -----------------------------------------------------------------------------------------------------


DEATHS = {
    "kill -9": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "segmentation fault": lambda: ctypes.string_at(0),
    "abort": os.abort,
    "os._exit": lambda: os._exit(3),
    "sys.exit": lambda: sys.exit(3),
    "SIGTERM": lambda: os.kill(os.getpid(), signal.SIGTERM),
}


def once(marks: Path, how: str, bad: set[int]) -> Any:
    """Samples of which the bad ones end their process the first time that they are made."""

    def make(i: int) -> int:
        mark = marks / str(i)
        if i in bad and not mark.exists():
            mark.touch()
            faulthandler.disable()
            DEATHS[how]()
        return i

    return make


@pytest.mark.parametrize("how", DEATHS)
def test_a_worker_that_dies_is_replaced_and_every_row_comes_once_in_order(tmp_path: Path, how: str) -> None:
    with nothing_left():
        loader = leat.DataLoader(From(60, once(tmp_path, how, {0, 7, 33, 34, 59})), 4, num_workers=2)
        assert rows(loader) == list(range(60))
        assert len(loader.stats()["replaced"]) == 5
        del loader


@pytest.mark.parametrize(
    "options", [{"collate_fn": as_is}, {"persistent_workers": True}, {"in_order": False}, {"batch_size": None}]
)
def test_a_worker_that_dies_is_replaced_whatever_the_loader_does(tmp_path: Path, options: dict[str, Any]) -> None:
    loader = leat.DataLoader(
        From(40, once(tmp_path, "kill -9", {3, 20, 39})), **{"batch_size": 4, "num_workers": 2, **options}
    )
    found = [i for batch in loader for i in ([batch] if options.get("batch_size", 0) is None else map(int, batch))]
    assert (sorted(found) if "in_order" in options else found) == list(range(40))


# Above 2 s: two workers are spawned, and each imports torch.
def test_spawned_workers_that_die_are_replaced(tmp_path: Path) -> None:
    loader = leat.DataLoader(
        From(12, once(tmp_path, "kill -9", {5})), 2, num_workers=1, multiprocessing_context="spawn"
    )
    assert rows(loader) == list(range(12))


def test_workers_killed_from_outside_at_any_time_lose_no_row() -> None:
    dice = random.Random(5)

    def make(i: int) -> tuple[int, int]:
        time.sleep(0.002)
        return i, os.getpid()

    loader = leat.DataLoader(From(300, make), 4, num_workers=3, persistent_workers=True)
    for _ in range(2):
        found = []
        for k, (numbers, pids) in enumerate(loader):
            found += numbers.tolist()
            running = sorted(set(pids.tolist()) & set(loader.stats()["pids"]))
            if k % 5 == 2 and running:
                with contextlib.suppress(ProcessLookupError):  # one killed before, whose place nobody has needed since
                    os.kill(dice.choice(running), dice.choice([signal.SIGKILL, signal.SIGTERM]))
        assert found == list(range(300))
    assert loader.stats()["replaced"]


def test_all_workers_killed_at_once_are_replaced() -> None:
    loader = leat.DataLoader(From(100, lambda i: time.sleep(0.002) or i), 4, num_workers=3)
    found = []
    for k, batch in enumerate(loader):
        found += batch.tolist()
        if k == 3:
            for pid in loader.stats()["pids"]:
                os.kill(pid, signal.SIGKILL)
    assert found == list(range(100))


def test_a_stream_of_a_worker_that_died_goes_on_after_its_last_batch(tmp_path: Path) -> None:
    class Dying(PerWorker):
        def __iter__(self) -> Iterator[int]:
            for i in super().__iter__():
                mark = tmp_path / str(i)
                if i in (5, 106) and not mark.exists():
                    mark.touch()
                    os.kill(os.getpid(), signal.SIGKILL)
                yield i

    found = batches(leat.DataLoader(Dying([10, 10]), 2, num_workers=2))
    assert found == [[w + i, w + i + 1] for i in range(0, 10, 2) for w in (0, 100)]


@pytest.mark.parametrize("collate", [None, as_is])
def test_a_sample_that_ended_three_workers_is_broken_and_named(collate: Any) -> None:
    def make(i: int) -> int:
        if i == 9:
            os.kill(os.getpid(), signal.SIGKILL)
        return i

    it = iter(leat.DataLoader(From(16, make), 4, num_workers=2, collate_fn=collate))
    assert [int(i) for i in next(it)] == [0, 1, 2, 3] and [int(i) for i in next(it)] == [4, 5, 6, 7]
    text = error_of(leat.BrokenSampleError, lambda: next(it))
    assert "index 9" in text and "SIGKILL" in text
    assert [int(i) for i in next(it)] == [12, 13, 14, 15]


def test_workers_that_cannot_begin_are_an_error_not_a_loop() -> None:
    with nothing_left():
        loader = leat.DataLoader(Count(8), 2, num_workers=2, worker_init_fn=lambda w: os._exit(7))
        assert "exited unexpectedly" in error_of(RuntimeError, functools.partial(list, loader))
        del loader


# --- samples and batches that cannot be -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "make", [lambda i: (j for j in range(3)), lambda i: threading.Lock(), lambda i: sys._getframe()]
)
def test_what_cannot_be_sent_is_an_error_that_says_so(make: Any) -> None:
    with nothing_left():
        it = iter(leat.DataLoader(From(3, make), batch_size=None, num_workers=1))
        text = error_of(TypeError, it.__next__)
        assert "cannot be sent" in text and "worker process 0" in text
        assert "cannot be sent" in error_of(TypeError, it.__next__)
        del it


def test_a_batch_that_cannot_be_sent_is_an_error_that_says_so() -> None:
    it = iter(leat.DataLoader(Count(6), 2, num_workers=1, collate_fn=lambda b: threading.Lock() if 2 in b else b))
    assert next(it) == [0, 1]
    assert "cannot be sent" in error_of(TypeError, lambda: next(it))
    assert next(it) == [4, 5]


class TwoArguments(Exception):
    def __init__(self, a: int, b: int) -> None:
        super().__init__(f"{a} and {b}")


def test_an_error_whose_class_wants_more_than_a_text_arrives_with_its_text() -> None:
    def make(i: int) -> int:
        raise TwoArguments(3, 4)

    text = error_of((TwoArguments, RuntimeError), lambda: list(leat.DataLoader(From(2, make), num_workers=1)))
    assert "3 and 4" in text and "TwoArguments" in text


def test_an_error_names_worker_index_and_line() -> None:
    def make(i: int) -> int:
        return 1 // (i - 5)

    it = iter(leat.DataLoader(From(8, make), 4, sampler=[0, 1, 2, 3, 7, 5, 6], num_workers=1))
    next(it)
    text = error_of(ZeroDivisionError, lambda: next(it))
    assert "worker process 0" in text and "index 5" in text and "return 1 // (i - 5)" in text


def test_memory_errors_and_interrupts_in_a_worker_are_errors_here() -> None:
    def make(i: int) -> int:
        raise [MemoryError, KeyboardInterrupt, StopIteration][i]("in a worker")

    it = iter(leat.DataLoader(From(3, make), num_workers=1))
    assert "in a worker" in error_of(MemoryError, lambda: next(it))
    for _ in range(2):
        assert "in a worker" in error_of(RuntimeError, lambda: next(it))


@pytest.mark.parametrize("num_workers", [0, 1])
@pytest.mark.parametrize("data", [range(6), Stream(6)], ids=["positions", "stream"])
def test_a_stop_iteration_of_a_collate_function_ends_no_epoch(data: Any, num_workers: int) -> None:
    def collate(batch: list[int]) -> list[int]:
        if 2 in batch:
            raise StopIteration
        return batch

    it = iter(leat.DataLoader(data, 2, collate_fn=collate, num_workers=num_workers))
    assert next(it) == [0, 1]
    assert "StopIteration" in error_of(RuntimeError, lambda: next(it))
    assert next(it) == [4, 5]


def test_a_stop_iteration_of_a_sample_ends_no_epoch() -> None:
    def make(i: int) -> int:
        return next(iter([i] if i else []))

    it = iter(leat.DataLoader(From(3, make)))
    assert "StopIteration" in error_of(RuntimeError, lambda: next(it))
    assert [batch.tolist() for batch in it] == [[1], [2]]


def test_a_timeout_leaves_a_loader_that_goes_on() -> None:
    event = FORK.Event()
    with nothing_left():
        it = iter(leat.DataLoader(Waits(6, event, slow=2), 2, num_workers=1, timeout=0.5))

        def in_the_end(it: Any) -> list[int]:
            """What comes, whatever the time that a busy machine takes for it."""
            deadline = time.monotonic() + HUNG_S
            while time.monotonic() < deadline:
                with contextlib.suppress(RuntimeError):
                    found: list[int] = next(it).tolist()
                    return found
            raise AssertionError("nothing comes")

        assert in_the_end(it) == [0, 1]
        assert "timed out after 0.5 seconds" in error_of(RuntimeError, it.__next__)
        event.set()
        assert [in_the_end(it), in_the_end(it)] == [[2, 3], [4, 5]]
        del it


def test_what_spawned_workers_cannot_be_given_is_an_error_and_nothing_is_left() -> None:
    with nothing_left():
        text = error_of(
            TypeError, lambda: iter(leat.DataLoader([threading.Lock()], num_workers=1, multiprocessing_context="spawn"))
        )
        assert "pickle" in text


# Above 2 s: a spawned worker imports torch.
def test_functions_of_main_and_lambdas_travel_to_spawned_workers() -> None:
    code = """
    class Own(torch.utils.data.Dataset):
        def __len__(self): return 4
        def __getitem__(self, i): return factor * i
    factor = 3
    def double(batch): return [2 * i for i in batch]
    functions = {"collate_fn": lambda b: double(b), "worker_init_fn": lambda w: None}
    say(list(Loader(Own(), 2, num_workers=1, multiprocessing_context="spawn", **functions)))
    """
    assert run(code) == "[[0, 6], [12, 18]]\n"


# --- many, nested, forked
# ----------------------------------------------------------------------------------------------


def test_a_loader_inside_a_worker_runs_without_workers(loader_class: Any) -> None:
    def make(i: int) -> int:
        return sum(rows(loader_class(Count(10 * i), 3)))

    assert rows(loader_class(From(4, make), 2, num_workers=2)) == [sum(range(10 * i)) for i in range(4)]


def test_workers_of_a_worker_are_refused(loader_class: Any) -> None:
    def make(i: int) -> int:
        return sum(rows(loader_class(Count(10), 3, num_workers=1)))

    assert "daemonic processes are not allowed to have children" in error_of(
        AssertionError, lambda: list(loader_class(From(2, make), num_workers=1))
    )


def test_loops_over_loaders_may_be_nested(loader_class: Any) -> None:
    inner = loader_class(Count(4), 2, num_workers=1)
    assert [(int(a), b.tolist()) for a in loader_class(Count(3), num_workers=1) for b in inner] == [
        (i, b) for i in range(3) for b in ([0, 1], [2, 3])
    ]


def test_a_data_set_may_hold_a_loader() -> None:
    inner = leat.DataLoader(Count(6), 2)
    it = iter(inner)
    next(it)

    class Holds(Count):
        loader = inner

        def __getitem__(self, i: int) -> int:
            return int(len(self.loader)) + i

    assert rows(leat.DataLoader(Holds(4), 2, num_workers=1)) == [3, 4, 5, 6]
    assert next(it).tolist() == [2, 3]


def test_hundreds_of_open_loaders_all_go_on_and_take_no_descriptors() -> None:
    code = """
    data = Count(100)
    its = [iter(Loader(data, 2, num_workers=2, persistent_workers="shared")) for _ in range(2)]
    before = len(os.listdir("/proc/self/fd"))
    its += [iter(Loader(data, 2, num_workers=2, persistent_workers="shared")) for _ in range(254)]
    for step in range(3):
        assert all(next(it).tolist() == [2 * step, 2 * step + 1] for it in its)
    plain = [iter(Loader(data, 2)) for _ in range(1024)]
    assert all(next(it).tolist() == [0, 1] for it in plain)
    say(len(os.listdir("/proc/self/fd")) - before)
    """
    assert run(code) == "0\n"


def test_opening_and_leaving_loaders_leaves_nothing() -> None:
    loader = leat.DataLoader(Count(20), 2, num_workers=1)  # what is opened once for the process
    rows(loader)
    del loader
    names = shared_memory()
    with nothing_left():
        for k in range(20):
            loader = leat.DataLoader(Count(200), 2, num_workers=2, persistent_workers=k % 2 == 0)
            it = iter(loader)
            for _ in range(k % 4):
                next(it)
            del loader, it
    assert not [name for name in shared_memory() - names if name.startswith("leat")]


def test_the_memory_of_loaders_that_are_over_is_free_again() -> None:
    def used() -> int:
        gc.collect()
        return leat._leat.share_used()

    before = used()
    for options in ({}, {"persistent_workers": True}, {"collate_fn": as_is}):
        loader = leat.DataLoader(From(100, lambda i: torch.full((100, 1000), float(i))), 4, num_workers=2, **options)
        it = iter(loader)
        kept = [next(it), next(it)]
        assert used() > before
        del loader, it, kept
    assert used() <= before


def test_batches_take_no_descriptors() -> None:
    code = """
    import resource
    resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100))
    class Random(torch.utils.data.IterableDataset):
        def __iter__(self): return (torch.full((50, 50), float(i)) for i in range(200))
    mapped = From(200, lambda i: torch.full((50, 50), float(i)))
    kept = list(Loader(Random(), num_workers=1)) + list(Loader(mapped, num_workers=1))
    say(len(kept), all(float(b[0, 7, 7]) == i % 200 for i, b in enumerate(kept)))
    """
    assert run(code) == "400 True\n"


def test_a_forked_child_cannot_use_the_loader_and_does_not_harm_it() -> None:
    it = iter(leat.DataLoader(Count(40), 2, num_workers=2))
    assert next(it).tolist() == [0, 1]
    pid = os.fork()
    if pid == 0:
        try:
            next(it)
        except leat.ForkedError:
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitpid(pid, 0)[1] == 0
    assert [int(i) for b in it for i in b] == list(range(2, 40))


def test_a_child_process_may_open_loaders_of_its_own() -> None:
    it = iter(leat.DataLoader(Count(40), 2, num_workers=1))
    next(it)
    queue = FORK.SimpleQueue()
    process = FORK.Process(target=lambda: queue.put(rows(leat.DataLoader(Count(9), 2, num_workers=2))))
    process.start()
    assert queue.get() == list(range(9))
    process.join(HUNG_S)
    assert process.exitcode == 0 and next(it).tolist() == [2, 3]
