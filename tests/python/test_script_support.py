"""script_support: a child ends, is seen and is told what it is as a process that was just started."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from script_support import python

pytest.importorskip("torch")

SCRIPTS = {
    "what it sees": """
import os, resource, sys
main = sys.modules["__main__"]
print(__name__, sys.argv, sys.path[0], sys.orig_argv[1:], os.getcwd(), os.environ["MARK"], sys.stdin.read() == "")
print(main.__spec__, globals() is vars(main), sys.stdout.isatty(), len(os.listdir("/proc/self/task")))
print(resource.getrlimit(resource.RLIMIT_AS), "leat" in sys.modules, os.getenv("HOME"), sys.gettrace())
""",
    "its end": """
import atexit, os, threading, weakref
class Ends:
    def __del__(self): os.write(1, b"destructor\\n")
kept = Ends()
atexit.register(print, "exit function")
def late():
    main.join()
    print("thread after the end")
main = threading.current_thread()
threading.Thread(target=late).start()
print("end of the script")
""",
    "an exit code": "import sys\nif __name__ == '__main__':\n    sys.exit(7)\n",
    "words at the exit": "raise SystemExit('what went wrong')\n",
    "an error": "def f():\n    return 1 / 0\n\nf()\n",
    "an error in writing": "def f(:\n",
    "a signal": "import os, signal\nprint('before', flush=True)\nos.kill(os.getpid(), signal.SIGKILL)\n",
    "an interrupt": "import os, signal\nsignal.signal(2, signal.default_int_handler)\nos.kill(os.getpid(), 2)\n",
    "a child that is spawned": """
import multiprocessing, sys
def f(x):
    return x + 1, __name__, sys.argv
if __name__ == "__main__":
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        print(pool.map(f, [3]))
""",
}


@pytest.mark.parametrize(
    ("what", "way"), [*((what, "a file") for what in SCRIPTS), ("what it sees", "-c"), ("an error", "-c")]
)
def test_a_forked_child_is_as_a_process_of_its_own(what: str, way: str, tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPTS[what])
    words = [*(["script.py"] if way == "a file" else ["-c", SCRIPTS[what]]), "--a", "b"]
    env = {**os.environ, "MARK": "ä"}
    forked = python(*words, cwd=tmp_path, env=env)
    started = subprocess.run(
        [sys.executable, *words],
        cwd=tmp_path,
        env=env,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=120,
    )
    assert (forked.returncode, forked.stdout) == (started.returncode, started.stdout)
    if what != "an interrupt":  # its traceback begins in what runs the script
        assert forked.stderr == started.stderr


def test_what_one_child_does_is_unknown_to_the_next() -> None:
    change = (
        "import os, resource, sys, torch\nprint(torch.get_num_threads())\ntorch.set_num_threads(1)\n"
        "sys.path.append('x')\nos.environ['MARK'] = '1'\nresource.setrlimit(resource.RLIMIT_AS, (1 << 36, 1 << 36))\n"
        "torch.rand(1000, 1000) @ torch.rand(1000, 1000)\nimport numpy as np\nnp.ones((500, 500)) @ np.ones((500, 500))"
    )
    look = (
        "import os, resource, sys, torch\nprint(torch.get_num_threads(), os.environ.get('MARK'), 'x' in sys.path, "
        "resource.getrlimit(resource.RLIMIT_AS)[0], len(os.listdir('/proc/self/task')))"
    )
    before, changed, after = python("-c", look), python("-c", change), python("-c", look)
    assert changed.returncode == 0, changed.stderr
    assert before.stdout == after.stdout
    assert before.stdout.split()[1:] == ["None", "False", "-1", "1"]
    assert before.stdout.split()[0] == changed.stdout.strip()


def test_a_child_that_hangs_ends_with_the_stacks_of_its_threads() -> None:
    done = python("-c", "import time\ndef hangs():\n    time.sleep(3600)\nhangs()", timeout=5)
    assert done.returncode == -6 and "in hangs" in done.stderr
