"""leat top: another process sees what the loaders of this one are doing."""

from __future__ import annotations

import fcntl
import gc
import json
import multiprocessing
import os
import re
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli_support import Started
from cli_support import command as executable
from cli_support import leat as command

import leat


@pytest.fixture
def numbers(tmp_path: Path) -> leat.Dataset:
    with leat.Writer(tmp_path / "a.leat", {"x": leat.field("float32", (16,))}) as w:
        for i in range(500):
            w.add(x=np.full(16, i, np.float32))
    return leat.open(tmp_path / "a.leat")


def seen(pid: int) -> list[dict[str, Any]]:
    return json.loads(command("top", pid, "--json").stdout)  # type: ignore[no-any-return]


def test_a_loader_is_seen_while_it_is_open(numbers: leat.Dataset) -> None:
    gc.collect()  # loaders that earlier tests have left
    before = len(seen_or_none())
    with leat.Loader(numbers, 10, num_threads=2) as loader:
        running = iter(loader)
        next(running)
        found = seen(os.getpid())
        assert len(found) == before + 1
        budget = loader.stats()["memory"]["budget_bytes"]
        mine = [one for one in found if one["memory"]["budget_bytes"] == budget and one["tasks"]["threads"] == 2]
        assert any(one["samples"] <= 10 and one["epoch"] == 0 for one in mine)
    assert len(seen(os.getpid())) == before


def seen_or_none() -> list[dict[str, Any]]:
    done = command("top", os.getpid(), "--json", code=None)
    return json.loads(done.stdout) if done.returncode == 0 else []


def test_figures_follow_what_is_handed_out(numbers: leat.Dataset) -> None:
    with leat.Loader(numbers, 10) as loader:
        for step, _ in enumerate(loader):
            time.sleep(0.12 if step >= 48 else 0)  # longer than from one writing to the next
        assert 500 in [one["samples"] for one in seen(os.getpid())]  # others may be open, too


def test_a_person_reads_the_rate_and_the_window(numbers: leat.Dataset) -> None:
    with leat.Loader(numbers, 10) as loader:
        next(iter(loader))
        text = command("top", os.getpid(), "--once", "--seconds", 0.1).stdout
    assert f"process {os.getpid()}: " in text and "batches ready of" in text
    assert "samples/s" in text or "nothing was handed out meanwhile" in text  # as the machine is fast


def test_a_loader_that_stands_still_has_no_rate(numbers: leat.Dataset) -> None:
    with leat.Loader(numbers, 10) as loader:
        next(iter(loader))
        end = time.monotonic() + 120
        while (now := loader.stats())["window"]["ready"] < now["window"]["depth"] or now["tasks"]["running"]:
            assert time.monotonic() < end
            time.sleep(0.01)
        text = command("top", os.getpid(), "--once", "--seconds", 0.01).stdout
    assert re.search(r"rate +(nothing was handed out meanwhile|0 samples/s, 0 bytes/s); ", text), text


def test_the_rate_of_a_running_loader_is_seen_however_short_the_time(numbers: leat.Dataset) -> None:
    """A loader writes its figures with a batch, at most ten times a second; between two readings it has written some,
    if batches were handed out all the time. On a busy machine that may take a few attempts."""
    done, handed_out = threading.Event(), list[float]()

    def train() -> None:
        with leat.Loader(numbers, 10) as loader:
            while not done.is_set():
                for _ in loader:
                    handed_out.append(time.monotonic())
                    time.sleep(0.005)

    training = threading.Thread(target=train)
    training.start()
    try:
        gap, end = 1.0, time.monotonic() + 300
        while gap > 0.1:
            assert time.monotonic() < end
            begin = time.monotonic()
            text = command("top", os.getpid(), "--once", "--seconds", 0.01).stdout
            times = [begin, *(t for t in handed_out if t > begin), time.monotonic()]
            gap = max(later - earlier for earlier, later in zip(times, times[1:]))
    finally:
        done.set()
        training.join()
    assert re.search(r"rate +[1-9][\d,]* samples/s", text), text


#: Holds the page in sys.argv[1], sealed as sys.argv[2] says.
HOLDS = """
import fcntl, os, sys
fd = os.memfd_create("leat-loaders", os.MFD_ALLOW_SEALING)
os.write(fd, open(sys.argv[1], "rb").read())
fcntl.fcntl(fd, fcntl.F_ADD_SEALS, int(sys.argv[2]))
print(flush=True)
input()
"""


def own_page() -> bytes:
    for link in Path("/proc/self/fd").iterdir():
        if link.is_symlink() and os.readlink(link).startswith("/memfd:leat-loaders"):
            return link.read_bytes()
    raise AssertionError("this process has no page")


@pytest.mark.parametrize("sealed", [True, False])
def test_a_page_is_read_unless_it_can_become_shorter(numbers: leat.Dataset, tmp_path: Path, sealed: bool) -> None:
    """Mapped and cut, it would end the reader with SIGBUS."""
    executable()
    with leat.Loader(numbers, 10) as loader:
        next(iter(loader))
        (tmp_path / "page").write_bytes(own_page())
    arguments = [sys.executable, "-c", HOLDS, str(tmp_path / "page"), str(fcntl.F_SEAL_SHRINK if sealed else 0)]
    with Started(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout.readline()
        if sealed:
            seen(other.pid)
        else:
            assert "another version of leat" in command("top", other.pid, code=2).stderr


def test_a_process_without_a_loader_and_none_at_all_are_told_apart() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        try:
            assert "has no loader" in command("top", other.pid, code=2).stderr
        finally:
            other.kill()
    assert "there is no process" in command("top", other.pid, code=2).stderr


def _in_child(path: str, say: Any) -> None:
    with leat.Loader(leat.open(path), 10) as loader:
        next(iter(loader))
        say.put([one["samples"] for one in seen(os.getpid())])


def test_a_forked_child_has_a_page_of_its_own(numbers: leat.Dataset, tmp_path: Path) -> None:
    executable()  # a skip in the child would leave this one waiting
    with leat.Loader(numbers, 50) as loader:
        next(iter(loader))
        context = multiprocessing.get_context("fork")
        say = context.Queue()
        child = context.Process(target=_in_child, args=(str(tmp_path / "a.leat"), say))
        child.start()
        assert len(say.get(timeout=120)) == 1
        child.join(120)
        assert len(seen(os.getpid())) >= 1


def test_the_processes_of_a_launcher_are_named(numbers: leat.Dataset, tmp_path: Path) -> None:
    rank = (
        "import leat, sys\n"
        f"with leat.Loader(leat.open({str(tmp_path / 'a.leat')!r}), 10) as loader:\n"
        "    next(iter(loader))\n"
        "    print('open', flush=True)\n"
        "    sys.stdin.read()\n"
    )
    launcher = f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {rank!r}])"
    with subprocess.Popen(
        [sys.executable, "-c", launcher], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout and process.stdout.readline() == "open\n"
        done = command("top", process.pid, "--json", code=2)
        named = re.search(r"started have loaders: (\d+)$", done.stderr, re.MULTILINE)
        assert "has no loader of leat" in done.stderr and named, done.stderr
        assert seen(int(named[1]))[0]["epoch"] == 0
        process.communicate()
