"""Signals, fork, threads, exit, other processes: each in a process of its own where it has to be."""

from __future__ import annotations

import os
import pickle
import re
import signal
import subprocess
import sys
import textwrap
import threading
import time
import typing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli_support import Started
from process_support import PATIENCE, Process, eventually
from script_support import python

import leat

# What the children of the tests below begin with.
SETUP = """
import gc, os, pickle, signal, sys, threading, time, warnings
import leat
records, photos = sys.argv[1:3]
def open_loader(path=records, size=7, **options):
    return leat.Loader(leat.open(path), size, shuffle=True, **options)
"""


def run(records: Path, photos: Path, code: str, *, expect: int = 0, environment: dict[str, str] | None = None) -> str:
    done = subprocess.run(
        [sys.executable, "-X", "dev", "-W", "error", "-c", SETUP + textwrap.dedent(code), str(records), str(photos)],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300, check=False, env={**os.environ,
        **(environment or {})},
    )  # fmt: skip
    assert done.returncode == expect, f"exit code {done.returncode}\n{done.stdout}"
    return done.stdout


def test_importing_leat_imports_no_torch(records: Path, photos: Path) -> None:
    run(
        records,
        photos,
        "assert 'torch' not in sys.modules; next(iter(open_loader())); assert 'torch' not in sys.modules",
    )


def test_importing_leat_imports_no_numpy_and_every_name_of_it_is_there() -> None:
    code = "import sys, leat; assert 'numpy' not in sys.modules; [getattr(leat, name) for name in leat.__all__]"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


def test_names_and_submodules_may_be_used_first_by_several_threads_at_a_time() -> None:
    code = """if True:
        import importlib.abc, sys, threading, time
        class Slow(importlib.abc.MetaPathFinder):
            def find_spec(self, name, path, target=None):
                time.sleep(0.02 * name.startswith("leat."))
        sys.meta_path.insert(0, Slow())
        import leat
        names = ["attach", "ports.ls", "Port", "Loader", "mixtures.algorithm.Algorithm", "feedback.policies.Rows"]
        errors = []
        def use(name):
            try:
                value = leat
                for part in name.split("."):
                    value = getattr(value, part)
            except Exception as e:
                errors.append((name, e))
        threads = [threading.Thread(target=use, args=[name]) for name in names]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        assert not errors, errors
    """
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


def test_asking_for_torch_where_it_is_missing_says_what_to_do(records: Path, photos: Path) -> None:
    code = """
        sys.modules["torch"] = None  # importing it fails
        assert type(next(iter(open_loader()))["x"]).__name__ == "ndarray"
        try:
            open_loader(framework="torch")
        except ImportError as e:
            print(e)
    """
    assert "pip install torch" in run(records, photos, code)


def test_the_package_is_looked_at_whole_where_torch_is_missing(records: Path, photos: Path) -> None:
    code = """
        sys.modules["torch"] = None
        import inspect, pydoc
        names = dict(inspect.getmembers(leat))
        exec("from leat import *")
        pydoc.render_doc(leat)
        print("Loader" in names and "DataLoader" not in names)
        try:
            from leat import DataLoader
        except ImportError as e:
            print(e)
    """
    whole, said = run(records, photos, code).splitlines()
    assert (whole, said) == ("True", "leat.DataLoader needs PyTorch: pip install torch")


def test_the_types_of_arguments_are_known_at_run_time() -> None:
    for named in (leat.Loader.__init__, leat.Out.__init__, leat.apply, leat.attach, leat.program_to_json):
        assert typing.get_type_hints(named)


def test_the_names_that_tab_completion_shows_are_the_public_ones() -> None:
    assert [n for n in dir(leat) if not n.startswith("_")] == sorted(n for n in leat.__all__ if not n.startswith("_"))


def test_the_extension_exports_its_init_only() -> None:
    import leat._leat as module

    assert module.__file__ is not None and module.__file__.endswith(".abi3.so")
    names = subprocess.run(
        ["nm", "-D", "--defined-only", module.__file__], stdout=subprocess.PIPE, text=True, check=True
    ).stdout
    assert [line.split()[-1] for line in names.splitlines()] == ["PyInit__leat"]


@pytest.mark.parametrize("where", ["iterator", "batch", "generator", "module"])
def test_exit_with_a_live_loader_is_clean(records: Path, photos: Path, where: str) -> None:
    code = {
        "iterator": "it = iter(open_loader(photos, 1)); next(it)",
        "batch": "batch = next(iter(open_loader(photos, 1))); x = batch['image']",
        "generator": "def g():\n    yield from open_loader(photos, 1)\nx = g(); next(x)",
        "module": "sys.modules['keep'] = open_loader(photos, 1); it = iter(sys.modules['keep']); next(it)",
    }[where]
    assert run(records, photos, code) == ""


# Above 2 s: it imports torch under -X dev.
def test_exit_with_live_tensors_is_clean(records: Path, photos: Path) -> None:
    pytest.importorskip("torch")
    assert (
        run(
            records,
            photos,
            "import torch; kept = [b['x'] for b in open_loader(framework='torch')]; sys.modules['kept'] = kept[0]",
        )
        == ""
    )


def test_exit_from_a_thread_that_waits_is_clean(records: Path, photos: Path) -> None:
    code = """
    def eat():
        while True:
            for batch in open_loader(photos, 1):
                pass
    threading.Thread(target=eat, daemon=True).start()
    time.sleep(0.3)
    """
    assert run(records, photos, code) == ""


def test_ctrl_c_stops_a_loop_over_a_loader(records: Path, photos: Path) -> None:
    code = """
    loader = open_loader(photos, 1, outputs={"image": [leat.ops.Decode(), leat.ops.Resize((3000, 3000))]})
    try:
        print("ready", flush=True)
        while True:
            for batch in loader:
                pass
    except KeyboardInterrupt:
        print("interrupted", flush=True)
    print(loader.state_dict()["at"]["epoch"] >= 0)
    """
    with Started(
        [sys.executable, "-c", SETUP + textwrap.dedent(code), str(records), str(photos)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        time.sleep(0.3)
        child.send_signal(signal.SIGINT)
        out, _ = child.communicate(timeout=300)
    assert out == "interrupted\nTrue\n" and child.returncode == 0


def test_a_signal_handler_runs_while_next_waits(records: Path, photos: Path) -> None:
    code = """
    class Stop(Exception): pass
    def stop(*_): raise Stop
    signal.signal(signal.SIGALRM, stop)
    chain = [leat.ops.Decode(), leat.ops.Resize((6000, 6000))]
    loader = open_loader(photos, 24, outputs={"image": chain}, num_threads=1)
    it = iter(loader)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        next(it)
    except Stop:
        print("stopped")
    """
    assert run(records, photos, code) == "stopped\n"


@pytest.mark.parametrize(
    ("in_order", "reader"),
    [
        pytest.param(True, "loader", id="in-order"),
        pytest.param(False, "loader", id="out-of-order"),
        pytest.param(True, "loader.consumer(4, start='beginning')", id="consumer"),
        pytest.param(True, "leat.attach(port.name, 4, start='beginning', framework='numpy')", id="attached"),
    ],
)
def test_no_batch_is_lost_if_a_signal_handler_raises_as_it_comes(
    in_order: bool, reader: str, records: Path, photos: Path
) -> None:
    """The source sends the signal before the rows that ``next`` waits for, and these come before the handler runs."""
    code = f"""
    class Stop(Exception): pass
    class Source:
        fields = {{"y": leat.field("int64")}}
        sent = False
        def __len__(self): return 64
        def read(self, positions):
            if not self.sent:
                self.sent = True
                asked.wait()
                time.sleep(0.25)
                os.kill(os.getpid(), signal.SIGALRM)
            return {{"y": positions}}
    def stop(*_): raise Stop
    signal.signal(signal.SIGALRM, stop)
    asked = threading.Event()
    loader = leat.Loader(leat.from_source(Source()), 4, shuffle=True, framework="numpy", in_order={in_order})
    if {reader!r}.startswith("leat.attach"):
        port = leat.Port(loader, f"signals-{{os.getpid()}}")
    it = iter({reader})
    try:
        asked.set()
        next(it)
    except Stop:
        print("stopped")
    print(sorted(p for batch in it for p in batch["y"].tolist()) == list(range(64)))
    """
    assert run(records, photos, code) == "stopped\nTrue\n"


def test_batches_that_are_ready_are_got_once_wherever_ctrl_c_comes(records: Path, photos: Path) -> None:
    """Python runs a handler between any two lines: those of leat, behind the batch was taken, too."""
    code = """
    import random
    class Stop(KeyboardInterrupt): pass
    def stop(*_):
        global armed
        if armed:
            armed = False
            raise Stop
    def shoot(main):
        while not ended:
            time.sleep(random.random() * 0.0005)
            signal.pthread_kill(main, signal.SIGUSR1)
    signal.signal(signal.SIGUSR1, stop)
    armed = ended = False
    thread = threading.Thread(target=shoot, args=(threading.get_ident(),))
    loader = leat.Loader(leat.from_arrays(x=list(range(24000))), 8, shuffle=True, framework="numpy", epochs=1)
    batches, got = iter(loader), []
    thread.start()
    while not ended:
        batch = None
        try:
            armed = True
            for batch in batches:
                got.append(batch)
                batch = None
            ended = True
        except Stop:
            if batch is not None and (not got or got[-1] is not batch):
                got.append(batch)
    armed = False
    thread.join()
    print(sorted(row for b in got for row in b["x"].tolist()) == list(range(24000)))
    """
    assert run(records, photos, code) == "True\n"


def test_a_batch_that_a_signal_handler_interrupts_is_made_anew(records: Path, photos: Path) -> None:
    """The only thread hangs in another loader's source, so that ``next`` itself makes the batch as the signal comes."""
    code = """
    class Stop(Exception): pass
    class Source:
        fields = {"y": leat.field("int64")}
        def __init__(self): self.reads, self.go = threading.Event(), threading.Event()
        def __len__(self): return 64
        def read(self, positions):
            self.reads.set()
            self.go.wait()
            return {"y": positions}
    def stop(*_): raise Stop
    signal.signal(signal.SIGALRM, stop)
    other, source = Source(), Source()
    busy = leat.Loader(leat.from_source(other), 4, num_threads=1, framework="numpy")
    iter(busy)
    other.reads.wait()
    loader = leat.Loader(leat.from_source(source), 4, shuffle=True, num_threads=1, framework="numpy")
    it = iter(loader)
    threading.Thread(target=lambda: source.reads.wait() and signal.setitimer(signal.ITIMER_REAL, 0.2)).start()
    try:
        next(it)
    except Stop:
        print("stopped")
    source.go.set()
    print(sorted(p for batch in it for p in batch["y"].tolist()) == list(range(64)), loader.stats()["broken"]["raised"])
    print(loader.stats()["consumer_help_s"] > 0)
    other.go.set()
    """
    assert run(records, photos, code) == "stopped\nTrue 0\nTrue\n"


def test_threads_that_ask_for_statistics_leave_a_next_that_waits_its_turn() -> None:
    class Slow:
        fields = {"y": leat.field("int64")}  # noqa: RUF012

        def __len__(self) -> int:
            return 800

        def read(self, positions: Any) -> dict[str, Any]:
            time.sleep(0.005)
            return {"y": positions}

    def ask() -> None:
        while not ended.is_set():
            loader.stats()
            loader.state_dict()

    ended, rows = threading.Event(), 0
    with leat.Loader(leat.from_source(Slow()), 4, framework="numpy", epochs=1) as loader:
        threads = [threading.Thread(target=ask) for _ in range(3)]
        begun = time.monotonic()
        for thread in threads:
            thread.start()
        try:
            for batch in loader:
                rows += len(batch["y"])
                assert time.monotonic() < begun + PATIENCE  # once for ever: a batch took seconds
        finally:
            ended.set()
            for thread in threads:
                thread.join()
    assert rows == 800


def test_a_broken_row_of_a_batch_that_was_waited_for_is_reported(tmp_path: Path) -> None:
    class Slow:
        fields = {"y": leat.field("int64")}  # noqa: RUF012

        def __len__(self) -> int:
            return 16

        def read(self, positions: Any) -> dict[str, Any]:
            time.sleep(0.03)
            if 5 in positions:
                raise ValueError("five is broken")
            return {"y": positions}

    for in_order in (True, False):
        report = tmp_path / f"{in_order}.jsonl"
        with leat.Loader(leat.from_source(Slow()), 4, framework="numpy", on_error="skip", error_report=report, epochs=1,
                         in_order=in_order) as loader:  # fmt: skip
            assert sum(len(batch["y"]) for batch in loader) == 15
        assert len(report.read_text().splitlines()) == 1


def test_closing_from_another_thread_ends_a_next_that_waits(photos: Path) -> None:
    loader = leat.Loader(
        leat.open(photos), 24, outputs={"image": [leat.ops.Decode(), leat.ops.Resize((4000, 4000))]}, framework="numpy"
    )
    it = iter(loader)
    timer = threading.Timer(0.05, loader.close)
    timer.start()
    with pytest.raises(leat.ClosedError):
        while True:
            next(it, None)
            it = iter(loader)
    timer.join()


def test_a_state_can_be_taken_while_another_thread_iterates(photos: Path) -> None:
    loader = leat.Loader(
        leat.open(photos), 2, framework="numpy", outputs={"image": [leat.ops.Decode(), leat.ops.Resize((500, 500))]}
    )
    stop = threading.Event()

    def eat() -> None:
        while not stop.is_set():
            for _ in loader:
                pass

    thread = threading.Thread(target=eat)
    thread.start()
    states = [loader.state_dict()["at"] for _ in range(50)]
    assert loader.stats()["batches"] >= 0
    stop.set()
    thread.join()
    rows = [(s["epoch"], s["row"]) for s in states]
    assert rows == sorted(rows)


def in_child(work: Any) -> str:
    """What `work` returns in a forked child."""
    r, w = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            text = repr(work())
        except BaseException as e:
            text = f"{type(e).__name__}: {e}"
        os.write(w, text.encode())
        os._exit(0)
    os.close(w)
    with os.fdopen(r) as f:
        found = f.read()
    os.waitpid(pid, 0)
    return found


def fork_within_an_import(pipe: Any) -> None:
    from importlib.machinery import PathFinder

    begun, forks = threading.Event(), threading.Event()

    class Slow:
        def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
            if name == "leat.text.chat":
                begun.set()
                forks.wait()
            return PathFinder.find_spec(name, path, target)

    assert "leat.text.chat" not in sys.modules
    sys.meta_path.insert(0, Slow())  # type: ignore[arg-type]
    thread = threading.Thread(target=lambda: leat.Chat)
    thread.start()
    begun.wait()
    os.register_at_fork(before=forks.set)  # is called before those that were registered earlier
    pipe.send(in_child(lambda: signal.alarm(int(PATIENCE // 2)) or leat.Chat.__name__))
    thread.join()
    pipe.recv()


def test_a_fork_waits_for_a_module_that_another_thread_imports() -> None:
    process = Process(fork_within_an_import)
    assert process.answer() == "'Chat'"  # of the child; one that hangs ends by its alarm, and says nothing
    process.end()


def test_a_loader_used_after_fork_is_a_clear_error(records: Path) -> None:
    loader = leat.Loader(leat.open(records), 7, framework="numpy")
    it = iter(loader)
    next(it)
    for work in (lambda: next(it), lambda: iter(loader), loader.state_dict, loader.stats):
        assert in_child(work).startswith("ForkedError: ")
    assert next(it).step == 1


def test_a_child_of_a_process_with_a_loader_can_open_its_own(records: Path) -> None:
    ds = leat.open(records)
    loader = leat.Loader(ds, 7, framework="numpy")
    it = iter(loader)
    next(it)
    assert in_child(lambda: [b.ids.tolist()[0] for b in leat.Loader(ds, 50, framework="numpy")]) == "[0, 50]"
    assert next(it).step == 1


def test_batches_of_the_parent_can_be_read_and_given_up_in_a_child(records: Path) -> None:
    held = [next(iter(leat.Loader(leat.open(records), 7, framework="numpy")))]

    def work() -> Any:
        found = held[0]["label"].tolist()
        held.clear()
        return found

    assert in_child(work) == str(list(range(7)))


def test_a_writer_left_in_a_child_does_no_harm(tmp_path: Path) -> None:
    with leat.Writer(tmp_path / "a.leat", {"n": "int64"}) as w:
        w.add(n=1)
        assert in_child(lambda: w.add(n=2)).startswith("ForkedError: ")
        assert in_child(w.abort) == "None"
        w.add(n=3)
    assert [s["n"] for s in leat.open(tmp_path / "a.leat")] == [1, 3]


def test_a_writer_dropped_in_a_child_waits_for_no_thread_of_its_parent(tmp_path: Path) -> None:
    writers, n = [leat.Writer(tmp_path / "a.leat", {"n": "int64"}, num_threads=1)], 70_000

    def work() -> None:
        signal.alarm(int(PATIENCE // 2))
        writers.clear()

    writers[0].write_batch({"n": np.arange(n)})  # more than a group has, so that a thread writes one
    eventually(lambda: (tmp_path / "a.leat.partial").stat().st_size > n)
    assert in_child(work) == "None"
    writers[0].add(n=n)
    writers[0].close()
    assert leat.open(tmp_path / "a.leat").column("n").tolist() == list(range(n + 1))


def test_pickling_a_loader_is_a_type_error_that_says_what_to_do(records: Path) -> None:
    with pytest.raises(TypeError, match="state_dict"):
        pickle.dumps(leat.Loader(leat.open(records), 7))


def test_errors_can_be_pickled(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as caught:
        leat.open(tmp_path / "no.leat")
    again = pickle.loads(pickle.dumps(caught.value))
    assert type(again) is type(caught.value) and str(again) == str(caught.value)
    assert (again.code, again.file, again.errno) == (caught.value.code, caught.value.file, caught.value.errno)


def test_a_loader_that_is_dropped_gives_its_memory_back_at_once(records: Path) -> None:
    import weakref

    loader = leat.Loader(leat.open(records), 7, framework="numpy")
    gone = weakref.ref(loader)
    next(iter(loader))
    del loader
    assert gone() is None


EARLY = """
import sys, leat, torch.distributed as dist
data = leat.open(sys.argv[1])
early, placed = leat.Loader(data, 10), leat.Loader(data, 10, rank=1, world_size=2)
dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
assert len(list(early)) == 10 and len(list(placed)) == 5  # the same rank, and one that was stated
dist.destroy_process_group()
import os
os.environ |= {"RANK": "1", "WORLD_SIZE": "2"}
early = leat.Loader(data, 10)
dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
try:
    iter(early)
except leat.StateError as e:
    print(e)
"""


def test_a_loader_that_was_opened_as_another_rank_than_the_process_group_says_is_told_so(records: Path) -> None:
    pytest.importorskip("torch")
    done = subprocess.run([sys.executable, "-c", EARLY, records], capture_output=True, text=True, timeout=300)
    assert "opened as rank 1 of 2, and torch.distributed says rank 0 of 1" in done.stdout, done.stderr


# Two ranks of torch.distributed, rank 1 a child of rank 0; each prints a line per scenario, to a file of its own.
RANKS = """
import ctypes, os, sys, leat, torch, torch.distributed as dist
path, *outputs = sys.argv[1:]
told, tells = os.pipe()
child = os.fork()
rank = int(not child)
if rank:
    ctypes.CDLL(None).prctl(1, 9)  # PR_SET_PDEATHSIG: ends with rank 0
    store = dist.TCPStore("127.0.0.1", int(os.read(told, 9)), is_master=False)
else:
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    os.write(tells, str(store.port).encode())
sys.stdout = open(outputs[rank], "w")
dist.init_process_group("gloo", store=store, rank=rank, world_size=2)
ds = leat.open(path)
RandomSampler = torch.utils.data.RandomSampler

class Broken:
    def __len__(self): return 100
    def __iter__(self): raise OSError("no list")

def ids(loader):
    return [i for b in loader for i in b.ids.tolist()]

def differing(loader):  # a rank is told at a batch, once the other one has found the difference
    for _ in range(100000):
        ids(loader)

def decided_alone(epoch):
    loader = leat.Loader(ds, 5)
    for _ in range(epoch):
        ids(loader)
    if rank == 0:
        loader.set_batch_size(4, at=(epoch, 3))
    return differing(loader)

for scenario in (
    lambda: ids(leat.Loader(ds, 5, shuffle=True, seed=1)),
    lambda: differing(leat.Loader(ds, 5, shuffle=True, seed=rank)),
    lambda: ids(leat.Loader(ds, 5, sampler=RandomSampler(ds, generator=torch.Generator().manual_seed(rank)))),
    lambda: ids(leat.Loader(ds, 5, sampler=Broken())),
    lambda: ids(leat.Loader(ds, 5, rank=0, world_size=1)),
    lambda: decided_alone(0),
    lambda: decided_alone(1),
):
    try:
        print(scenario())
    except Exception as e:
        print(type(e).__name__, e)
dist.destroy_process_group()
sys.stdout.close()
if rank:
    os._exit(0)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
SHARED, DIFFERENT_SEEDS, SAMPLER, BROKEN_SAMPLER, GIVEN, DECIDED, DECIDED_LATER = range(7)


@pytest.fixture(scope="module")
def two_ranks(tmp_path_factory: pytest.TempPathFactory, records: Path) -> list[tuple[str, str]]:
    """For each scenario what rank 0 and rank 1 printed."""
    pytest.importorskip("torch")
    place = tmp_path_factory.mktemp("ranks")
    outputs = [place / "0", place / "1"]
    done = python("-c", RANKS, records, *outputs)
    assert done.returncode == 0, done.stderr
    return list(zip(*(out.read_text().splitlines() for out in outputs), strict=True))


def test_ranks_of_torch_distributed_share_each_epoch(two_ranks: list[tuple[str, str]]) -> None:
    a, b = map(eval, two_ranks[SHARED])
    assert len(a) == len(b) == 50 and sorted(a + b) == list(range(100))


def test_ranks_that_differ_are_an_error_on_all_of_them(two_ranks: list[tuple[str, str]]) -> None:
    for out in two_ranks[DIFFERENT_SEEDS]:
        assert out.startswith("StateError ") and "seed" in out and "outputs" not in out


@pytest.mark.parametrize("scenario", [DECIDED, DECIDED_LATER])
def test_what_one_rank_alone_decides_is_an_error_on_all_as_the_next_epoch_begins(
    two_ranks: list[tuple[str, str]], scenario: int
) -> None:
    for out in two_ranks[scenario]:
        assert re.match(r"StateError the ranks differ: rank 1 differs from rank 0 in decisions: none is not 1 of", out)


def test_a_sampler_is_read_on_rank_0_for_all(two_ranks: list[tuple[str, str]]) -> None:
    a, b = map(eval, two_ranks[SAMPLER])
    assert sorted(a + b) == list(range(100))


def test_a_sampler_that_fails_is_an_error_on_all_ranks(two_ranks: list[tuple[str, str]]) -> None:
    a, b = two_ranks[BROKEN_SAMPLER]
    assert a == "OSError no list" and b.startswith("RuntimeError ")


def test_ranks_that_are_given_communicate_nothing(two_ranks: list[tuple[str, str]]) -> None:
    a, b = map(eval, two_ranks[GIVEN])
    assert a == b == list(range(100))


@pytest.mark.parametrize("times", [1, 2])
def test_ctrl_c_while_a_loader_is_collected_reaches_the_main_thread(records: Path, photos: Path, times: int) -> None:
    """And the loader is closed to its end; an error of a finalizer's own is told as ever."""
    out = run(
        records,
        photos,
        f"""
        from leat.closing import finalize
        from leat.loading import loader as module
        closed, original = [], module._close
        def interrupted(core, *more):
            closed.append(core)
            if len(closed) <= {times}:
                signal.raise_signal(signal.SIGINT)
            original(core, *more)
        module._close = interrupted
        signal.signal(signal.SIGINT, signal.default_int_handler)
        sys.unraisablehook = lambda told: print("told", told.exc_value)
        loader = open_loader()
        iterator = iter(loader)
        next(iterator)
        try:
            del loader, iterator
            gc.collect()
            for _ in range(1000):  # where the exception comes
                pass
        except KeyboardInterrupt:
            print("interrupted", len(closed))
        try:
            closed[0].next(0)
        except leat.ClosedError:
            print("closed")
        class Thing:
            pass
        def fails():
            raise ValueError("of the finalizer")
        thing = Thing()
        end = finalize(thing, fails)
        del thing
        gc.collect()
        print(end.alive)
        def exits():
            raise SystemExit("of its own")
        try:
            finalize(thing := Thing(), exits)()
        except SystemExit as error:
            print("raised", error)
        """,
    )
    assert out == f"interrupted {times + 1}\nclosed\ntold of the finalizer\nFalse\nraised of its own\n"


def test_ctrl_c_while_a_writer_or_workers_are_collected_reaches_the_main_thread(records: Path, photos: Path) -> None:
    out = run(
        records,
        photos,
        """
        import os, tempfile, warnings
        from leat.data.writer import Writer
        from leat.workers.pool import Pool
        signal.signal(signal.SIGINT, signal.default_int_handler)
        sys.unraisablehook = lambda told: print("told", told.exc_value)
        warnings.simplefilter("ignore")
        def once(function):
            calls = []
            def interrupted(self):
                calls.append(1)
                if len(calls) == 1:
                    signal.raise_signal(signal.SIGINT)
                return function(self)
            return interrupted, calls
        Writer._left, warned = once(Writer._left)
        Pool.stop, stopped = once(Pool.stop)
        def writer():
            return leat.Writer(os.path.join(tempfile.mkdtemp(), "w.leat"), {"x": "int64"})
        for make in (writer, lambda: Pool(None, 1, 1, None, None, 0, False)):
            thing = make()
            try:
                del thing
                gc.collect()
                for _ in range(1000):
                    pass
            except KeyboardInterrupt:
                print("interrupted")
        print(len(warned), len(stopped))
        """,
    )
    assert out == "interrupted\ninterrupted\n2 2\n"
