"""What a machine may lack: functions of Python's `os`, calls of the system, locks and links of files, threads, time."""

from __future__ import annotations

import errno
import importlib.util
import os
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
from pathlib import Path

import numpy as np
import pytest
from refused_support import refused
from script_support import python

import leat

TORCH = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs PyTorch")
LACKING = """
import os
for name in ("pidfd_open", "memfd_create", "MFD_CLOEXEC"):  # as in a Python that was built with old headers
    if hasattr(os, name):
        delattr(os, name)
"""
WORKERS = """
import os, signal, sys, warnings
import numpy as np
import leat

class Data:
    def __len__(self):
        return 40
    def __getitem__(self, i):
        if i == 17 and not os.path.exists(sys.argv[1]):
            open(sys.argv[1], "w").close()
            os.kill(os.getpid(), signal.SIGKILL)
        return i

def lists(samples):
    return [np.full(50_000, i) for i in samples], "not a tensor"

def main():
    rows = leat.from_arrays(x=np.arange(100))
    mapped = leat.Loader(rows, 10, outputs={"x": [leat.ops.Map(lambda x: x + 1)]}, framework="numpy")
    assert np.concatenate([batch["x"] for batch in mapped]).tolist() == list(range(1, 101))
    loader = leat.DataLoader(Data(), 4, num_workers=2, collate_fn=lists, multiprocessing_context=sys.argv[2])
    found = [int(values[0]) for arrays, _ in loader for values in arrays]
    print(found == list(range(40)), len(loader.stats()["replaced"]))

if __name__ == "__main__":
    main()
"""


def run(tmp_path: Path, code: str, *words: object, env: dict[str, str] | None = None) -> tuple[str, str]:
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(code))
    done = python(script, *words, cwd=tmp_path, env={**os.environ, **(env or {})}, timeout=240)
    if done.returncode == 77:
        pytest.skip("calls cannot be refused here")
    assert not done.returncode, done.stdout + done.stderr
    return done.stdout, done.stderr


@TORCH
@pytest.mark.parametrize("method", ["fork", pytest.param("spawn", marks=pytest.mark.shard("torch")),
                                    pytest.param("forkserver", marks=pytest.mark.shard("torch"))])  # fmt: skip
@pytest.mark.parametrize("lacks", [LACKING, refused(errno.ENOSYS, "pidfd_open"), refused(errno.EPERM, "pidfd_open")],
                         ids=["python", "system", "container"])  # fmt: skip
def test_workers_run_and_are_replaced_where_there_are_no_pidfds(tmp_path: Path, lacks: str, method: str) -> None:
    assert run(tmp_path, lacks + WORKERS, tmp_path / "died", method)[0] == "True 1\n"


@pytest.mark.parametrize("error", [errno.ENOSYS, errno.ENOLCK])
def test_a_file_is_written_on_a_file_system_without_locks(tmp_path: Path, error: int) -> None:
    code = """
    import leat
    with leat.Writer("a.leat", {"x": "int64"}) as w:
        for i in range(10):
            w.add(x=i)
    print(leat.open("a.leat").column("x").tolist())
    try:
        leat.Port(leat.Loader(leat.open("a.leat"), 2), "p", folder="ports")
    except leat.FileError as e:
        print(e)
    """
    said, logged = run(tmp_path, refused(error, "flock") + textwrap.dedent(code), env={"LEAT_LOG": "warning"})
    values, port = said.splitlines()
    assert values == str(list(range(10))) and "a.leat.partial: the file system has no locks" in logged
    assert "cannot lock the port's name" in port and "another folder is named by folder=" in port


def test_a_store_is_made_and_copied_on_a_file_system_without_links(tmp_path: Path) -> None:
    code = """
    import numpy as np, leat
    with leat.Store("a.store", {"x": leat.field("float32", (2,))}, framework="numpy") as store:
        store[[3]] = np.ones((1, 2), np.float32)
    print(leat.Store("a.store", {"x": leat.field("float32", (2,))}, framework="numpy")[[3]].tolist())
    """
    assert run(tmp_path, refused(errno.EPERM, "link", "linkat") + textwrap.dedent(code))[0] == "[[1.0, 1.0]]\n"
    assert [path.name for path in tmp_path.iterdir() if "store" in path.name] == ["a.store"]


def test_where_no_thread_can_be_started_the_limit_is_named(tmp_path: Path) -> None:
    with leat.Writer(tmp_path / "a.leat", {"x": "int64"}) as w:
        w.add(x=1)
    code = """
    import numpy as np, leat
    class Source:
        fields = {"x": leat.field("int64")}
        def __len__(self):
            return 2
        def read(self, positions):
            return {"x": positions}
    def write():
        with leat.Writer("b.leat", {"x": "int64"}) as w:
            w.add(x=1)
    for call in (lambda: leat.from_source(Source())[0], write, lambda: next(iter(leat.Loader(leat.open("a.leat"), 1)))):
        try:
            call()
        except MemoryError as e:
            print(e)
    """
    said, _ = run(tmp_path, refused(errno.EAGAIN, "clone", "clone3") + textwrap.dedent(code))
    assert len(said.splitlines()) == 3 and all("ulimit -u" in line for line in said.splitlines()), said


def test_a_store_of_another_user_is_opened_to_read(tmp_path: Path) -> None:
    code = """
    import os, sys, leat
    os.chdir(sys.argv[1])
    if not os.geteuid():
        os.setgroups([])
        os.setgid(65534)
        os.setuid(65534)
    try:
        leat.Store("a.store")
    except leat.FileError as e:
        print(e)
    print(leat.Store("a.store", read_only=True, framework="numpy")[[1]].tolist())
    """
    with tempfile.TemporaryDirectory() as folder:  # others may not look into tmp_path
        path = Path(folder, "a.store")
        path.parent.chmod(0o755)
        with leat.Store(path, {"x": leat.field("int64")}, framework="numpy") as store:
            store[[1]] = np.ones(1, np.int64)
        path.chmod(0o444)
        error, values = run(tmp_path, code, folder)[0].splitlines()
    assert "a.store can only be read: open it with read_only: Permission denied" in error and values == "[1]"


STOPPED = {
    "source": """
import os, signal
import leat
class Source:
    fields = {"x": leat.field("int64")}
    def __len__(self):
        return 6
    def read(self, positions):
        if 3 in positions:
            os.kill(os.getpid(), signal.SIGSTOP)
        return {"x": positions}
loader = leat.Loader(leat.from_source(Source(), timeout_s=2), 3, epochs=1, framework="numpy")
print([batch["x"].tolist() for batch in loader])
""",
    "workers": """
import os, signal, time
import leat
class Data:
    def __len__(self):
        return 6
    def __getitem__(self, i):
        if i == 3:
            time.sleep(0.3)  # the parent waits by then
            os.kill(os.getppid(), signal.SIGSTOP)
            time.sleep(3.4)
        return i
loader = leat.DataLoader(Data(), 3, num_workers=1, timeout=3)
print([batch.tolist() for batch in loader])
""",
}


@pytest.mark.parametrize("of", ["source", pytest.param("workers", marks=TORCH)])
def test_time_in_which_the_process_stands_still_is_not_waited(of: str) -> None:
    child = subprocess.Popen([sys.executable, "-c", STOPPED[of]], stdout=subprocess.PIPE, text=True)
    os.waitpid(child.pid, os.WUNTRACED)  # until it stops itself
    time.sleep(3.3)
    os.kill(child.pid, signal.SIGCONT)
    assert child.communicate(timeout=120)[0] == "[[0, 1, 2], [3, 4, 5]]\n"
