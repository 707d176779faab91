"""Commands of the checks: run with a limit, logged, and counted in CPU seconds."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent
LOGS = ROOT / "build" / "log"
CORES = len(os.sched_getaffinity(0))
# Objects are the same wherever the clone lies, so that ccache gives those of another one.
ENV = {**os.environ, "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}", "CCACHE_NOHASHDIR": "1"}
LIMIT_S = 3600  # of one command, against hangs: what is in it has limits of its own, far below
BEGAN = time.monotonic()


class Failed(Exception):
    """A step that could not be run to a count: its text is shown."""


@dataclass
class Count:
    """What a step has counted, and what it shows of its failures."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0
    text: str = ""
    tests: dict[str, float] = field(default_factory=dict)  # CPU seconds of each test, or of each file of small ones

    def add(self, other: Count) -> None:
        self.passed += other.passed
        self.failed += other.failed
        self.skipped += other.skipped
        self.text += other.text
        self.tests |= other.tests


@dataclass
class Seconds:
    wall: float = 0.0
    cpu: float = 0.0


class Step(threading.local):
    """What this thread runs."""

    name = ""  # the name of its log
    cpu_s = 0.0  # of the commands that have ended
    built: Seconds | None = None  # what builds took of that


here = Step()
running: set[subprocess.Popen[bytes]] = set()
stopped = threading.Event()


def say(text: str) -> None:
    print(f"{time.monotonic() - BEGAN:6.0f} s  {text}", flush=True)


def run(*command: object, check: bool = True, env: Mapping[str, str] | None = None) -> str:
    """What the command printed, which stays in build/log too. A file is read, not a pipe, which would stay open for as
    long as anything runs that the command has left behind."""
    LOGS.mkdir(parents=True, exist_ok=True)
    with open(LOGS / f"{here.name}.log", "ab+") as log:
        begin = log.tell()
        if stopped.is_set():
            raise Failed("interrupted")
        process = subprocess.Popen(
            [str(c) for c in command],
            cwd=ROOT,
            env={**ENV, **(env or {})},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        running.add(process)
        code = _wait(process)
        running.discard(process)
        log.seek(begin)
        text = log.read().decode(errors="replace")
    if code is None or check and code:
        shown = " ".join(map(str, command))
        how = f"not over after {LIMIT_S} s" if code is None else f"exit code {code}"
        raise Failed(f"$ {shown if len(shown) < 300 else shown[:300] + ' ...'}\n{text[-16000:]}\n{how}")
    return text


def end(process: subprocess.Popen[bytes], number: int = signal.SIGTERM) -> None:
    """Ends the process, and those that it has started in its session."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, number)


def _wait(process: subprocess.Popen[bytes]) -> int | None:
    """The exit code; None: it was killed at the limit. Its CPU time, with what it has waited for, is the step's."""
    end = time.monotonic() + LIMIT_S
    killed = False
    while True:
        pid, status, used = os.wait4(process.pid, os.WNOHANG)
        if pid:
            break
        if time.monotonic() > end and not killed:
            killed = True
            end(process, signal.SIGKILL)
        time.sleep(0.02)
    here.cpu_s += used.ru_utime + used.ru_stime
    process.returncode = os.waitstatus_to_exitcode(status)
    return None if killed else process.returncode
