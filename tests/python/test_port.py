"""leat.Port and leat.attach: one loader for many processes, each of which gets what a loader of its own would give."""

from __future__ import annotations

import json
import os
import pickle
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from attached_support import opened, seen
from process_support import PATIENCE, Process

import leat

N = 203


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    target = tmp_path_factory.mktemp("port") / "numbers.leat"
    schema = {"x": leat.field("float32", (3,)), "y": leat.field("int64"), "t": leat.field("int32", (None,)), "s": "str"}
    with leat.Writer(target, schema) as writer:
        for i in range(N):
            writer.add(x=np.full(3, i, np.float32), y=i, t=np.full(i % 5, i, np.int32), s=f"number {i}")
    return str(target)


def reads(name: str, epochs: int, options: dict[str, Any], pipe: Any) -> None:
    """A reader in another process: what it gets in its first epochs."""
    with leat.attach(name, framework="numpy", **options) as loader:
        loader.set_epoch(0)
        pipe.send([[seen(batch) for batch in loader] for _ in range(epochs)])
    pipe.recv()


# ---- the same as a loader of its own ---------------------------------------------------------------------------------


def test_processes_get_the_batches_of_loaders_of_their_own(path: str, ports: Path) -> None:
    jobs: list[dict[str, Any]] = [
        {},
        {"batch_size": 64},
        {"batch_size": 7, "tail": "drop"},
        {"batch_size": 10, "rank": 1, "world_size": 3},
        {"batch_size": 10, "rank": 2, "world_size": 3, "tail": "uneven"},
    ]
    with opened(path) as loader, leat.Port(loader, "a"):
        running = [Process(reads, "a", 2, {"start": "beginning", "rank": 0, "world_size": 1, **job}) for job in jobs]
        for job, process in zip(jobs, running, strict=True):
            with opened(path, **job) as own:
                assert process.answer() == [[seen(b) for b in own] for _ in range(2)], job
            process.end()


@pytest.mark.parametrize(
    "options",
    [
        {"shuffle": leat.Blocks(10)},
        {"shuffle": False},
        {"shuffle": False, "sampler": leat.Weighted(np.arange(1, N + 1, dtype=np.float64), 150)},
        {"shuffle": False, "sampler": list(range(100, 0, -3))},
        {"outputs": {"y": leat.Out("y", [leat.ops.ToDtype("float32")]), "t": [leat.ops.PadTo(6)]}},
    ],
    ids=["blocks", "as stored", "weighted", "list", "program"],
)
def test_every_order_and_program_is_served(path: str, ports: Path, options: dict[str, Any]) -> None:
    with (
        opened(path, **options) as loader,
        leat.Port(loader, "a"),
        leat.attach("a", 11, start="beginning") as reader,
        opened(path, 11, **options) as own,
    ):
        for _ in range(2):
            assert [seen(b) for b in reader] == [seen(b) for b in own]


class Doubles:
    """A source in Python, whose reads need the GIL."""

    fields = {"x": leat.field("int64")}  # noqa: RUF012

    def __init__(self, fails: bool = False) -> None:
        self.fails = fails

    def __len__(self) -> int:
        return N

    def read(self, positions: Any) -> dict[str, Any]:
        if self.fails:
            raise RuntimeError("the disk is on fire")
        return {"x": np.asarray(positions) * 2}


def test_data_made_in_python_are_served_to_readers_of_the_same_process(ports: Path) -> None:
    loader = leat.Loader(leat.from_source(Doubles()), 16, framework="numpy", shuffle=True)
    with loader, leat.Port(loader, "a"), leat.attach("a", 7, start="beginning") as reader:
        assert sorted(int(x) for b in reader for x in b["x"]) == list(range(0, 2 * N, 2))
        assert reader.batch_at(0, 3)["x"].tolist() == (2 * reader.plan(0, 3)).tolist()


def test_an_error_of_the_data_is_raised_by_each_reader(ports: Path) -> None:
    loader = leat.Loader(leat.from_source(Doubles(fails=True)), 16, framework="numpy")
    with loader, leat.Port(loader, "a"), leat.attach("a", 7) as first, leat.attach("a") as second:
        for running in (iter(first), iter(second)):
            for _ in range(2):  # asked again, it is the same
                with pytest.raises(leat.BrokenSampleError, match="on fire"):
                    next(running)


def test_ranks_are_taken_from_the_environment(path: str, ports: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with opened(path) as loader, leat.Port(loader, "a"):
        monkeypatch.setenv("RANK", "1")
        monkeypatch.setenv("WORLD_SIZE", "2")
        with leat.attach("a", 10, start="beginning") as reader, opened(path, 10, rank=1, world_size=2) as own:
            assert (reader.rank, reader.world_size) == (1, 2)
            assert [seen(b) for b in reader] == [seen(b) for b in own]


def test_the_form_of_batches_is_that_of_the_loader(path: str, ports: Path) -> None:
    torch = pytest.importorskip("torch")
    outputs: Any = {"y": [], "x": [leat.ops.ToDtype("float64")]}
    with opened(path, outputs=outputs, yields="tuple", framework="torch") as loader, leat.Port(loader, "a"):
        with leat.attach("a") as reader:
            for (y, x), (own_y, own_x) in zip(reader, loader, strict=True):
                assert torch.equal(y, own_y) and torch.equal(x, own_x) and x.dtype == torch.float64
        with leat.attach("a", yields="dict", framework="numpy") as reader:
            assert isinstance(next(iter(reader))["x"], np.ndarray)


# ---- coming late, and coming back ------------------------------------------------------------------------------------


def test_a_port_begins_where_its_loader_stands(path: str, ports: Path) -> None:
    with opened(path) as loader, opened(path) as own:
        read, rest = iter(loader), iter(own)
        for _ in range(2):
            assert seen(next(read)) == seen(next(rest))
        with leat.Port(loader, "a"), leat.attach("a") as reader:
            assert [seen(b) for b in reader] == [seen(b) for b in rest]


def test_a_state_goes_on_in_a_reader_of_another_size(path: str, ports: Path) -> None:
    with opened(path) as loader, leat.Port(loader, "a"):
        order = [i for b in loader for i in b.ids.tolist()]
        with leat.attach("a", 8, start="beginning") as reader:
            running = iter(reader)
            got = [i for _ in range(5) for i in next(running).ids.tolist()]
            state = json.loads(json.dumps(reader.state_dict()))
        with leat.attach("a", 20) as again:
            again.load_state_dict(state)
            assert again.state_dict()["at"]["epoch"] == 0
            assert got + [i for b in again for i in b.ids.tolist()] == order
            assert next(iter(again)).epoch == 1


@pytest.mark.parametrize("state", [{}, {"epoch": 0}, {"epoch": "x"}, [], {"x": object()}])
def test_what_is_no_state_is_refused(path: str, ports: Path, state: Any) -> None:
    with opened(path) as loader, leat.Port(loader, "a"), leat.attach("a") as reader:
        with pytest.raises((ValueError, TypeError)):
            reader.load_state_dict(state)
        assert next(iter(reader)).size == 16


def test_set_epoch_says_which_epoch_comes_next(path: str, ports: Path) -> None:
    with opened(path) as loader, leat.Port(loader, "a"), leat.attach("a", start="beginning") as reader:
        reader.set_epoch(3)
        loader.set_epoch(3)
        assert [seen(b) for b in reader] == [seen(b) for b in loader]
        assert reader.epoch == 4


def serves(path: str, seed: int, pipe: Any) -> None:
    with opened(path, seed=seed) as loader, leat.Port(loader, "a") as port:
        pipe.send("open")
        port.wait()


def server(path: str, seed: int = 5) -> Process:
    process = Process(serves, path, seed)
    process.answer()
    return process


def stop(process: Process) -> None:
    leat.ports.stop("a")
    process.process.join(PATIENCE)
    assert process.process.exitcode == 0


def test_a_reader_does_not_go_on_with_another_order(path: str, ports: Path) -> None:
    first = server(path)
    with leat.attach("a", framework="numpy", patience=PATIENCE) as reader:
        running = iter(reader)
        next(running)
        first.kill()
        second = server(path, seed=6)
        with pytest.raises(leat.ChangedError):
            while True:  # what the first one had lent already is given still
                for _ in running:
                    pass
                running = iter(reader)
        stop(second)


# ---- memory ----------------------------------------------------------------------------------------------------------


def test_arrays_are_read_only_unless_they_were_asked_for_to_write_to(path: str, ports: Path) -> None:
    with opened(path) as loader, leat.Port(loader, "a"), leat.attach("a") as reader:
        batch = next(iter(reader))
        assert not batch["x"].flags.writeable and not batch["t"].values.flags.writeable
        with pytest.raises(ValueError, match="read-only"):
            batch["x"][0] = 1
        batch.ids[0] = 1  # a copy of the batch's own


def test_what_one_writes_no_other_sees(path: str, ports: Path) -> None:
    with (
        opened(path) as loader,
        leat.Port(loader, "a"),
        leat.attach("a", writable=True, start="beginning") as writer,
        leat.attach("a", start="beginning") as other,
    ):
        mine, theirs, own = next(iter(writer)), next(iter(other)), next(iter(loader))
        mine["x"][:] = -1
        assert (mine["x"] == -1).all()
        assert np.array_equal(theirs["x"], own["x"])
        assert np.array_equal(other.batch_at(0, 0)["x"], own["x"])


# ---- ends ------------------------------------------------------------------------------------------------------------


def test_a_closed_port_is_gone_and_says_so_to_who_is_attached(path: str, ports: Path) -> None:
    with opened(path) as loader:
        port = leat.Port(loader, "a")
        reader = leat.attach("a", patience=0)
        running = iter(reader)
        next(running)
        assert [p["name"] for p in leat.ports.ls()] == ["a"]
        port.close()
        port.close()
        assert leat.ports.ls() == []
        with pytest.raises(leat.ClosedError):
            while True:  # what the port had lent already is given still
                for _ in running:
                    pass
                running = iter(reader)
        reader.close()
        with pytest.raises(leat.ClosedError):
            iter(reader)
        with pytest.raises(leat.ClosedError):
            port.stat()


def test_the_loader_may_be_closed_before_its_port(path: str, ports: Path) -> None:
    loader = opened(path)
    with leat.Port(loader, "a"):
        loader.close()
        with leat.attach("a") as reader:
            assert sum(b.size for b in reader) == N


def test_stop_ends_the_wait_of_a_port(path: str, ports: Path) -> None:
    with opened(path) as loader, leat.Port(loader, "a") as port:
        assert not port.wait(0)
        leat.ports.stop("a")
        assert port.wait(PATIENCE)


def test_a_process_that_ends_leaves_no_socket(path: str, ports: Path) -> None:
    code = "import sys, leat\nloader = leat.Loader(leat.open(sys.argv[1]), 16)\nport = leat.Port(loader, 'a')\n"
    subprocess.run([sys.executable, "-c", code, path], check=True, timeout=PATIENCE)
    assert list(ports.iterdir()) == []


def test_nothing_works_in_a_forked_child(path: str, ports: Path) -> None:
    with opened(path) as loader, leat.Port(loader, "a") as port, leat.attach("a") as reader:
        running = iter(reader)
        next(running)
        child = os.fork()
        if not child:
            failed = 0
            for call in (lambda: next(running), reader.state_dict, port.stat, lambda: port.wait(0)):
                try:
                    call()
                except leat.ForkedError:
                    failed += 1
            reader.close()
            port.close()
            os._exit(failed)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 4
        assert sum(b.size for b in running) > 0


def interrupted(begins: Callable[[], Any], pipe: Any) -> None:
    """Says whether SIGINT ended it, whatever it was at."""
    try:
        begins()
    except KeyboardInterrupt:
        pipe.send("interrupted")


def waits_for_a_port(pipe: Any) -> None:
    def begins() -> None:
        pipe.send("waits")
        leat.attach("none", patience=None)

    interrupted(begins, pipe)


def waits_for_batches(pipe: Any) -> None:
    def begins() -> None:
        loader = leat.attach("a", framework="numpy")
        pipe.send("reads")
        while True:
            for _ in loader:
                pass

    interrupted(begins, pipe)


def test_ctrl_c_ends_waiting_for_a_port(ports: Path) -> None:
    process = Process(waits_for_a_port)
    assert process.answer() == "waits"
    process.process.join(0.3)  # whether it waits by now or not, it ends
    process.signal(signal.SIGINT)
    assert process.answer() == "interrupted"
    process.process.join(PATIENCE)


def test_ctrl_c_ends_waiting_for_a_batch_of_a_port_that_is_stopped(path: str, ports: Path) -> None:
    process, reading = server(path), Process(waits_for_batches)
    assert reading.answer() == "reads"
    process.signal(signal.SIGSTOP)
    reading.process.join(0.3)  # whether it waits by now or not, it ends
    reading.signal(signal.SIGINT)
    assert reading.answer() == "interrupted"
    reading.process.join(PATIENCE)
    process.signal(signal.SIGCONT)
    stop(process)


def test_closing_ends_a_thread_that_waits_for_a_batch(path: str, ports: Path) -> None:
    process = server(path)
    reader = leat.attach("a", framework="numpy")
    ended: list[BaseException] = []

    def read() -> None:
        try:
            while True:
                for _ in reader:
                    pass
        except BaseException as e:
            ended.append(e)

    thread = threading.Thread(target=read)
    thread.start()
    process.signal(signal.SIGSTOP)
    thread.join(0.3)  # whether it waits by now or not, it ends
    closing = threading.Thread(target=reader.close)
    closing.start()
    thread.join(PATIENCE)
    process.signal(signal.SIGCONT)
    closing.join(PATIENCE)
    assert [type(e) for e in ended] == [leat.ClosedError] and not closing.is_alive()
    stop(process)


def test_who_attaches_waits_for_the_port(path: str, ports: Path) -> None:
    with opened(path) as loader:
        made: list[leat.Port] = []
        timer = threading.Timer(0.2, lambda: made.append(leat.Port(loader, "a")))
        timer.start()
        with leat.attach("a", patience=PATIENCE) as reader:
            assert next(iter(reader)).size == 16
        timer.join()
        made[0].close()


# ---- what is said ----------------------------------------------------------------------------------------------------


def test_stat_shows_each_consumer(path: str, ports: Path) -> None:
    with opened(path) as loader, leat.Port(loader, "a") as port:
        with leat.attach("a", 8, rank=1, world_size=2, label="probe", lag="wait") as reader:
            batch = next(iter(reader))
            for stat in (port.stat(), leat.ports.stat("a")):
                assert stat["name"] == "a" and stat["pid"] == os.getpid() and stat["uptime_s"] > 0
                (one,) = stat["consumers"]
                assert one["label"] == "probe" and one["pid"] == os.getpid() and one["batch_size"] == 8
                assert (one["rank"], one["world_size"], one["lag_policy"]) == (1, 2, "wait")
                assert one["batches"] == 1 and one["samples"] == 8 and one["held"] >= 1
                assert stat["loader"]["memory"]["region"] == "memfd"
            assert reader.stats()["batches"] == 1
            del batch
        assert "'a'" in repr(port) and "'a'" in repr(reader)


def test_pages_of_ports_name_every_key(path: str, ports: Path) -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "ports.md").read_text()
    with opened(path) as loader, leat.Port(loader, "a") as port, leat.attach("a") as reader:
        next(iter(reader))
        stat = port.stat()
        keys = {*stat, *stat["consumers"][0], *stat["lines"][0], *reader.stats(), *leat.ports.ls()[0]}
    assert {key for key in keys if f"`{key}`" not in page} == set()


# ---- what is refused -------------------------------------------------------------------------------------------------


def refused(path: str, **options: Any) -> str:
    with opened(path, **options) as loader, pytest.raises(leat.UnsupportedError) as caught:
        leat.Port(loader, "a")
    return str(caught.value)


def test_loaders_that_cannot_be_shared_are_refused_with_the_reason(path: str, ports: Path) -> None:
    assert "functions in Python" in refused(path, outputs={"x": [leat.ops.Map(np.copy)]})
    assert "in_order" in refused(path, in_order=False)
    mix = leat.Mix({"a": (leat.open(path), 0.5), "b": (leat.open(path), 0.5)})
    steered = leat.Loader(mix, 8, mixture=leat.DoReMi({"a": 1.0, "b": 1.0}), framework="numpy")
    with steered, pytest.raises(leat.UnsupportedError, match="steered"):
        leat.Port(steered, "a")
    with opened(path) as loader:
        loader.set_batch_size(4)
        with pytest.raises(leat.UnsupportedError, match="decisions"):
            leat.Port(loader, "a")


@pytest.mark.parametrize("name", ["", ".a", "a/b", "a b", "x" * 65, "ä", "a\0b"])
def test_a_name_that_is_none_is_refused(path: str, ports: Path, name: str) -> None:
    with opened(path) as loader, pytest.raises(ValueError, match="name"):
        leat.Port(loader, name)
    with pytest.raises(ValueError, match="name"):
        leat.attach(name, patience=0)


def test_a_port_that_is_not_there_is_named(ports: Path) -> None:
    for call in (lambda: leat.attach("nobody", patience=0), lambda: leat.ports.stat("nobody")):
        with pytest.raises((FileNotFoundError, KeyError), match="nobody"):
            call()
    assert leat.ports.ls() == [] and leat.ports.ls(ports / "missing") == []


@pytest.mark.parametrize(
    "wrong",
    [
        {"batch_size": 0},
        {"batch_size": 1.5},
        {"rank": 1},
        {"rank": 2, "world_size": 2},
        {"lag": "never"},
        {"start": "end"},
        {"tail": "cut"},
        {"framework": "jax"},
        {"yields": "list"},
        {"patience": -1},
        {"patience": "long"},
        {"writable": "yes"},
        {"label": 3},
    ],
)
def test_wrong_arguments_are_refused(path: str, ports: Path, wrong: dict[str, Any]) -> None:
    with opened(path) as loader, leat.Port(loader, "a"), pytest.raises((ValueError, TypeError)):
        leat.attach("a", **wrong)


def test_neither_a_port_nor_a_reader_is_pickled(path: str, ports: Path) -> None:
    with opened(path) as loader, leat.Port(loader, "a") as port, leat.attach("a") as reader:
        for one in (port, reader):
            with pytest.raises(TypeError, match="attach"):
                pickle.dumps(one)
