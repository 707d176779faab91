"""Readers that ask for what cannot be had, and processes without descriptors or memory: each gets an error that says
why, and readers beside them do not notice.
"""

from __future__ import annotations

import contextlib
import os
import resource
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from port_support import Server, expected, numbers, open_files, seen, undisturbed
from process_support import Process, eventually

import leat

ROWS, BATCH = 1000, 32
NO_FILES = r"no further connection: its process may open no more files \(ulimit -n\)"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "ports"


@pytest.fixture
def server(folder: Path) -> Iterator[Server]:
    server = Server(folder, numbers, ROWS, BATCH)
    yield server
    server.end()
    assert list(folder.iterdir()) == []


@pytest.fixture
def good(server: Server, folder: Path) -> Iterator[None]:
    with undisturbed(server, folder, ROWS, BATCH):
        yield


def attach(folder: Path, **options: Any) -> leat.Attached:
    return leat.attach("p", folder=folder, framework="numpy", patience=0, **options)


@contextlib.contextmanager
def limited(server: Server, what: int, most: int) -> Iterator[None]:
    """The port's process may have so much meanwhile."""
    pid = server.process.pid or 0
    before = resource.prlimit(pid, what)
    resource.prlimit(pid, what, (most, before[1]))
    yield
    resource.prlimit(pid, what, before)


# ---- wishes ----------------------------------------------------------------------------------------------------------


def test_states_of_other_data_and_orders_are_refused(good: None, folder: Path, tmp_path: Path) -> None:
    x = np.arange(ROWS)
    others = {
        "data set": leat.Loader(leat.from_arrays(x=x), BATCH, shuffle=True, seed=7),
        "order or seed": leat.Loader(numbers(ROWS, BATCH).dataset, BATCH, shuffle=True, seed=8),
    }
    with attach(folder, start="beginning") as reader:
        for what, loader in others.items():
            with leat.Port(loader, "other", folder=tmp_path), leat.attach("other", folder=tmp_path) as other:
                next(iter(other))
                with pytest.raises(leat.StateError, match=f"another {what}"):
                    reader.load_state_dict(other.state_dict())
            with pytest.raises(leat.InvalidError, match="not of a reader of a port"):
                reader.load_state_dict(loader.state_dict())
            loader.close()
        reader.set_epoch(0)
        assert seen(next(iter(reader))) == expected(numbers(ROWS, BATCH))[0]


def test_the_name_of_a_port_that_is_open_is_refused_to_another_one(good: None, server: Server, folder: Path) -> None:
    for _ in range(3):
        with numbers(64, 8) as loader, pytest.raises(leat.ExistsError, match='"p" is open already: close it.*stop p'):
            leat.Port(loader, "p", folder=folder)
    assert [(p["pid"], p["alive"]) for p in leat.ports.ls(folder)] == [(server.process.pid, True)]


# ---- descriptors -----------------------------------------------------------------------------------------------------


def test_readers_leave_some_descriptors_to_the_process_of_the_port(good: None, server: Server, folder: Path) -> None:
    most = open_files(server.process.pid or 0) + 80
    with limited(server, resource.RLIMIT_NOFILE, most), contextlib.ExitStack() as readers:
        with pytest.raises(leat.HeldError, match=NO_FILES):
            for _ in range(100):
                readers.enter_context(attach(folder))
        eventually(lambda: open_files(server.process.pid or 0) <= most - most // 4)


def test_a_port_without_any_descriptor_left_says_so(good: None, server: Server, folder: Path) -> None:
    eventually(lambda: len(leat.ports.stat("p", folder=folder)["consumers"]) == 2)
    with attach(folder) as reader:
        files = sorted(int(fd) for fd in os.listdir(f"/proc/{server.process.pid}/fd"))
        free = next(n for n in range(len(files) + 1) if n == len(files) or files[n] != n)
        with limited(server, resource.RLIMIT_NOFILE, free):
            for _ in range(3):
                with pytest.raises(leat.HeldError, match=NO_FILES):
                    attach(folder)
        assert next(iter(reader)).size in (BATCH, ROWS % BATCH)  # where the others stand, maybe at an epoch's end
    with attach(folder, start="beginning") as reader:
        assert next(iter(reader)).size == BATCH


def _attaches_with_few(folder: str, options: dict[str, Any], pipe: Any) -> None:
    """With no descriptor left, with one, and so on until it can: what it is told each time."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (200, 200))
    assert leat.attach  # its module is loaded while there are descriptors
    told: list[tuple[str, str]] = []
    for free in range(20):
        files = []
        with contextlib.suppress(OSError):
            while True:
                files.append(os.open("/dev/null", os.O_RDONLY))
        for _ in range(free):
            os.close(files.pop())
        try:
            reader = attach(Path(folder), **options)
            reader.close()
            told.append(("attached", ""))
        except Exception as error:
            told.append((type(error).__name__, str(error)))
        for fd in files:
            os.close(fd)
        if told[-1][0] == "attached":
            break
    pipe.send((told, sorted(os.listdir("/proc/self/fd"))))
    pipe.recv()


@pytest.mark.parametrize("options", [{}, {"samples": list(range(50))}, {"outputs": {"y": []}}], ids=str)
def test_a_reader_without_descriptors_is_told_so_and_leaves_none_open(
    options: dict[str, Any], good: None, folder: Path
) -> None:
    reader = Process(_attaches_with_few, str(folder), options)
    told, files = reader.answer()
    assert told[-1][0] == "attached" and len(told) >= 4
    for kind, why in told[:-1]:
        assert kind == "FileError" and ("ulimit -n" in why or "Too many open files" in why), told
    assert len(files) < 20
    reader.end()


# ---- memory ----------------------------------------------------------------------------------------------------------


def mapped(pid: int) -> int:
    with open(f"/proc/{pid}/statm") as file:
        return int(file.read().split()[0]) * resource.getpagesize()


def test_a_port_that_gets_no_more_memory_says_so_to_who_wants_more(good: None, server: Server, folder: Path) -> None:
    asks: list[Callable[[], Any]] = [
        lambda: attach(folder, outputs={"y": [leat.ops.ToDtype("float64")]}),
        lambda: attach(folder, key=5),
        lambda: attach(folder, samples=range(100)),
    ]
    with limited(server, resource.RLIMIT_AS, mapped(server.process.pid or 0) + (2 << 20)):
        for ask in asks:
            with pytest.raises((leat.Error, MemoryError), match="memory|address space|threads"):
                ask()
    for ask in asks:
        with ask() as reader:
            assert next(iter(reader)).size == BATCH


def _attaches_in_little(folder: str, pipe: Any) -> None:
    before = resource.getrlimit(resource.RLIMIT_AS)
    with attach(Path(folder)) as reader:  # Python itself then has what it needs
        next(iter(reader))
    del reader
    resource.setrlimit(resource.RLIMIT_AS, (mapped(os.getpid()) + (4 << 20), before[1]))
    try:
        attach(Path(folder))
        pipe.send("attached")
    except (leat.Error, MemoryError) as error:
        resource.setrlimit(resource.RLIMIT_AS, before)
        pipe.send((type(error).__name__, str(error), len(os.listdir("/proc/self/fd"))))
    pipe.recv()


def test_a_reader_whose_addresses_are_limited_is_told_so(good: None, folder: Path) -> None:
    reader = Process(_attaches_in_little, str(folder))
    kind, why, files = reader.answer()
    assert "address space of this process may be limited (ulimit -v)" in why, kind
    assert files < 20
    reader.end()
