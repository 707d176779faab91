"""`python WORDS` without its start: a child of a process that has imported torch and done nothing else.

Each process of tests has one such parent, which is started when it is first asked for something. It has imported no
leat and computed nothing, so that a child is to leat as a process that was just started: it opens its first loader,
and it ends as any process does, with its exit functions, its destructors and its exit code. It has the environment of
the call; only Python itself (PYTHONPATH) and what is imported already have read that of the parent.
"""

from __future__ import annotations

import atexit
import faulthandler
import gc
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
from functools import cache
from typing import Any

IMPORTED = ("numpy", "torch", "PIL.Image")
used: list[float] = []  #: CPU seconds of each child, which this process has not waited for itself


def python(
    *words: object, cwd: object = None, env: dict[str, str] | None = None, timeout: float = 570
) -> subprocess.CompletedProcess[str]:
    """What subprocess.run([sys.executable, *words], ...) gives; words are a script and its arguments, or -c and code.

    A child that is not through in time shows the stacks of its threads on stderr and ends with SIGABRT.
    """
    with (
        tempfile.NamedTemporaryFile("r", errors="replace") as out,
        tempfile.NamedTemporaryFile("r", errors="replace") as err,
    ):
        line = [str(word) for word in words]
        job = {
            "words": line,
            "cwd": os.path.abspath(str(cwd or ".")),
            "env": dict(os.environ if env is None else env),
            "files": [os.devnull, out.name, err.name],
            "timeout": timeout,
        }
        parent = _parent(os.getpid())
        assert parent.stdin and parent.stdout
        parent.stdin.write(json.dumps(job) + "\n")
        parent.stdin.flush()
        said = parent.stdout.readline()
        if not said:
            raise RuntimeError(f"the parent of forked processes ended with {parent.wait()}")
        code, cpu_s = said.split()
        used.append(float(cpu_s))
        return subprocess.CompletedProcess([sys.executable, *line], int(code), out.read(), err.read())


@cache
def _parent(_owner: int) -> subprocess.Popen[str]:
    """The parent that belongs to this process; a fork of this process gets its own."""
    passive = {"OMP_WAIT_POLICY": "PASSIVE"} | os.environ  # threads of torch that wait leave the cores to other tests
    started = subprocess.Popen(
        [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=passive
    )

    def end() -> None:
        if os.getpid() == _owner:
            started.kill()
            started.wait()

    atexit.register(end)
    return started


# ---- in the parent and in its children -------------------------------------------------------------------------------


def _serve() -> dict[str, Any]:
    """Forks a child for each line; returns in the child, with what it has to do."""
    for name in IMPORTED:
        __import__(name)
    requests, replies = os.fdopen(os.dup(0)), os.dup(1)
    with open(os.devnull, "r+") as nothing:
        os.dup2(nothing.fileno(), 0)
        os.dup2(nothing.fileno(), 1)
    if not os.fork():  # OpenBLAS ends its threads before a fork, until it computes again
        os._exit(0)
    os.wait()
    threads = os.listdir("/proc/self/task")
    assert len(threads) == 1, f"imports have started threads, which a fork would lose: {threads}"
    gc.freeze()  # a child does not look through all of torch for what it may destroy when it ends
    for line in requests:
        job = json.loads(line)
        pid = os.fork()
        if not pid:
            requests.close()
            os.close(replies)
            return job  # type: ignore[no-any-return]
        os.write(replies, b"%d %f\n" % _ended(pid, job["timeout"]))
    os._exit(0)


def _ended(pid: int, timeout: float) -> tuple[int, float]:
    """The exit code of a child, as subprocess has it, and the CPU seconds that it and its own have used."""
    handle = os.pidfd_open(pid)
    if not select.select([handle], [], [], timeout)[0]:
        os.kill(pid, signal.SIGABRT)
        if not select.select([handle], [], [], 60)[0]:
            os.kill(pid, signal.SIGKILL)
    os.close(handle)
    _, status, used = os.wait4(pid, 0)
    return os.waitstatus_to_exitcode(status), used.ru_utime + used.ru_stime


def _run(job: dict[str, Any]) -> None:
    """Runs the words of a job in this process as Python runs those of its command line."""
    import multiprocessing.process
    import types
    from importlib.machinery import SourceFileLoader

    import numpy as np

    for fd, name in enumerate(job["files"]):
        file = os.open(name, os.O_RDWR | os.O_APPEND)
        os.dup2(file, fd)
        os.close(file)
    os.chdir(job["cwd"])
    os.environ.clear()
    os.environ.update(job["env"])
    faulthandler.enable()
    np.random.seed()
    multiprocessing.process.ORIGINAL_DIR = job["cwd"]  # type: ignore[attr-defined]
    main, first, rest = types.ModuleType("__main__"), job["words"][0], job["words"][1:]
    vars(main)["__builtins__"] = __builtins__
    if first == "-c":
        sys.argv, sys.path[0] = ["-c", *rest[1:]], ""
        text, name = rest[0], "<string>"
    else:
        sys.argv, sys.path[0] = [first, *rest], os.path.dirname(os.path.realpath(first))
        main.__file__, main.__loader__ = os.path.join(job["cwd"], first), SourceFileLoader("__main__", first)
        name = main.__file__
        with open(first, "rb") as file_of_script:
            text = file_of_script.read()
    sys.orig_argv = [sys.executable, *job["words"]]
    sys.modules["__main__"] = main
    try:
        exec(compile(text, name, "exec", dont_inherit=True), vars(main))
        return
    except (SystemExit, KeyboardInterrupt):
        raise
    except BaseException as error:
        inside = error.__traceback__ and error.__traceback__.tb_next  # without this function
        sys.excepthook(type(error), error.with_traceback(inside), inside)
    sys.exit(1)


if __name__ == "__main__":
    try:
        _job = _serve()
    except KeyboardInterrupt:
        os._exit(0)
    _run(_job)
