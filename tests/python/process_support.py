"""Functions and scripts of tests in processes of their own.

These are forked from one that has imported what most of them need and has opened and computed nothing: to leat, each is
like a process that was just started, and it costs no imports. It sees the environment of who starts it.
"""

from __future__ import annotations

import contextlib
import faulthandler
import multiprocessing
import os
import re
import runpy
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

PATIENCE = 120.0  #: seconds, for what comes at once on a machine that has time
HERE = Path(__file__).resolve().parent
FORKED = multiprocessing.get_context("forkserver")
PRELOADED = ["numpy", "torch", "leat", "pytest"]
FORKED.set_forkserver_preload(PRELOADED)


def _begin(environment: dict[str, str], target: Any, *args: Any) -> None:
    os.environ.clear()
    os.environ.update(environment)
    faulthandler.enable()
    target(*args)


class Process:
    """A function of a module with a pipe, which is its last argument."""

    def __init__(self, target: Any, *args: Any, env: dict[str, str] | None = None) -> None:
        self.pipe, other = FORKED.Pipe()
        environment = dict(os.environ if env is None else env)
        self.process = FORKED.Process(target=_begin, args=(environment, target, *args, other), daemon=True)
        self.process.start()
        other.close()

    def answer(self) -> Any:
        if not self.pipe.poll(PATIENCE):
            raise TimeoutError("the process does not answer")
        got = self.pipe.recv()
        if isinstance(got, Exception):
            raise got
        return got

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.process.pid or 0, signal.SIGKILL)
        eventually(lambda: self.process.exitcode is not None)  # join would wait for what it has forked, too

    def signal(self, number: int) -> None:
        os.kill(self.process.pid or 0, number)

    def end(self) -> None:
        if self.process.is_alive():
            self.pipe.send(None)
        self.process.join(PATIENCE)
        assert not self.process.is_alive()

    def code(self) -> int | None:
        """How it has ended, once it has; below 0: by that signal."""
        self.process.join(PATIENCE)
        return self.process.exitcode


def eventually(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def is_there(pid: int) -> bool:
    """Whether a process runs. One that has ended may stay in /proc as a zombie, if nobody waits for it."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def children() -> set[int]:
    """The processes that this one has started and not waited for."""
    found = set[int]()
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(OSError):  # a thread that ends meanwhile
            found.update(map(int, (task / "children").read_text().split()))
    return found


def shared_memory() -> set[str]:
    """The names in /dev/shm, without those of processes that run beside the test: PyTorch's in one that still runs, and
    those of fuzz targets.
    """

    def is_of_another(name: str) -> bool:
        made = re.match(r"torch_(\d+)_", name)
        return name.startswith("leat-fuzz-") or made is not None and Path(f"/proc/{made[1]}").exists()

    return {name for name in os.listdir("/dev/shm") if not is_of_another(name)}


def _script(path: str, words: list[str], output: str, pipe: Any) -> None:
    file = os.open(output, os.O_WRONLY | os.O_APPEND)
    for fd in (1, 2):
        os.dup2(file, fd)
    sys.argv = [path, *words]
    sys.path.insert(0, str(HERE))
    runpy.run_path(path, run_name="__main__")


def run_ranks(
    script: str,
    *words: object,
    world: int = 2,
    codes: dict[int, int] | None = None,
    beside: Callable[[list[Process]], None] | None = None,
    store: Any = None,
    **env: str,
) -> list[dict[str, Any]]:
    """What frameworks_support.run_ranks gives, of ranks that are forked.

    Args:
        codes: how ranks end that do not end well.
        beside: runs here, while they do.
        store: in which they meet. None: a new one.
        env: more of their environment.
    """
    import torch
    from frameworks_support import environment, results

    if store is None:
        store = torch.distributed.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    common = environment(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(store.port), WORLD_SIZE=str(world),
                         LOCAL_WORLD_SIZE=str(world), TORCHELASTIC_USE_AGENT_STORE="True", GROUP_RANK="0",
                         TORCHELASTIC_RESTART_COUNT="0", TORCHELASTIC_MAX_RESTARTS="0",
                         TORCHELASTIC_RUN_ID="test", **env)  # fmt: skip
    expected = [(codes or {}).get(rank, 0) for rank in range(world)]
    with tempfile.TemporaryDirectory() as folder:
        outputs = [Path(folder) / str(rank) for rank in range(world)]
        processes = []
        for rank, output in enumerate(outputs):
            output.touch()
            mine = {**common, "RANK": str(rank), "LOCAL_RANK": str(rank)}
            processes.append(forked(script, words, output, mine))
        try:
            if beside is not None:
                beside(processes)
            eventually(lambda: _have_ended([p.process.exitcode for p in processes], expected))
        finally:
            ended = [p.process.exitcode for p in processes]
            for p in processes:
                if p.process.exitcode is None:
                    with contextlib.suppress(ProcessLookupError):
                        p.signal(signal.SIGABRT)  # one that hangs says where
                        p.signal(signal.SIGCONT)  # one that is stopped, too; else this process would never end
                    p.process.join(PATIENCE)
            said = [output.read_text(errors="replace") for output in outputs]
            assert ended == expected, f"the ranks ended with {ended}\n" + "\n---\n".join(t[-8000:] for t in said)
    return [{k: v for one in results(text) for k, v in one.items()} for text in said]


def _have_ended(codes: list[int | None], expected: list[int]) -> bool:
    """All of them, or one otherwise than it should."""
    return None not in codes or any(code not in (None, due) for code, due in zip(codes, expected, strict=True))


def forked(script: str, words: Sequence[Any], output: Path, env: dict[str, str]) -> Process:
    """tests/python/frameworks/SCRIPT in a forked process that prints into a file."""
    path = str(HERE / "frameworks" / script)
    return Process(_script, path, [str(word) for word in words], str(output), env=env)
