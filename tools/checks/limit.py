"""Runs a test in C: `python tools/checks/limit.py COMMAND...`, as Meson's --wrapper.

A test that does not end in LEAT_LIMIT_S seconds (300) is ended, with the stacks of all its threads and of the processes
that it has started (by eu-stack, of elfutils). The last line that it prints is a comment of TAP: `# cpu SECONDS`.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import shutil
import signal
import subprocess
import sys
from pathlib import Path

LIMIT_S = float(os.environ.get("LEAT_LIMIT_S", "300"))
PR_SET_PTRACER, PR_SET_PTRACER_ANY = 0x59616D61, ctypes.c_ulong(-1)


def may_be_traced() -> None:
    """In the child: where Yama guards ptrace, a sibling may look at this process all the same."""
    ctypes.CDLL(None).prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0)


def family(pid: int) -> list[int]:
    """The process and all that come from it."""
    children = list[int]()
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):  # it has ended
            children += map(int, task.read_text().split())
    return [pid, *(found for child in children for found in family(child))]


def main() -> int:
    process = subprocess.Popen(sys.argv[1:], preexec_fn=may_be_traced, start_new_session=True)
    signal.signal(signal.SIGTERM, lambda *_: os.killpg(process.pid, signal.SIGKILL))
    try:
        code = process.wait(LIMIT_S)
    except subprocess.TimeoutExpired:
        print(f"\nnot over after {LIMIT_S:.0f} s", file=sys.stderr, flush=True)
        for pid in family(process.pid):
            print(f"--- process {pid}", file=sys.stderr, flush=True)
            if shutil.which("eu-stack"):
                with contextlib.suppress(subprocess.TimeoutExpired):
                    subprocess.run(["eu-stack", "-p", str(pid)], stdout=sys.stderr, stderr=sys.stderr, timeout=60)
        code = 124
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # and what it has left behind
        process.wait()
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"# cpu {used.ru_utime + used.ru_stime:.3f}", flush=True)
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main())
