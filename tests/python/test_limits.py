"""Limits of the system on a process: its address space (ulimit -v, as clusters set it) and the size of files (ulimit
-f).

Each in a process of its own, whose limit is set before leat is imported.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from script_support import python

GIB = 1 << 30
SETUP = """
import resource, sys
resource.setrlimit(getattr(resource, sys.argv[1]), (int(sys.argv[2]),) * 2)
path = sys.argv[3]
import numpy as np
import leat
"""
TORCH = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs PyTorch")


def run(tmp_path: Path, limit: str, size: int, code: str, *more: str) -> str:
    script = tmp_path / "script.py"  # a file, so that workers that are not forked can import it
    script.write_text(SETUP + textwrap.dedent(code))
    words = [str(script), limit, str(size), str(tmp_path / "rows.leat"), *more]
    done = python(*words) if more else subprocess.run([sys.executable, "-X", "faulthandler", *words],
                                                      capture_output=True, text=True, timeout=240)  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


WRITE = """
def write():
    schema = {"x": leat.field("float32", (3, 64, 64)), "n": leat.field("int32", (None,)), "label": "int64"}
    with leat.Writer(path, schema) as w:
        for i in range(200):
            w.add(x=np.full((3, 64, 64), i, np.float32), n=np.full(i % 5, i, np.int32), label=i)
"""
LOADERS = (
    WRITE
    + """
write()
native = leat.Loader(leat.open(path), 32, shuffle=True, seed=1, framework="numpy", outputs={"x": [], "label": []})
add = leat.ops.Map(lambda x: x + 1)
more = leat.ops.Map(lambda n: n + 1, returns=leat.field("int32", (None,)))
outputs = {"x": [add], "n": [more], "label": []}
mapped = leat.Loader(leat.open(path), 32, shuffle=True, seed=1, framework="numpy", outputs=outputs)
rows = 0
for one, two in zip(native, mapped, strict=True):
    rows += len(one["label"])
    assert (one["label"] == two["label"]).all() and (one["x"] + 1 == two["x"]).all()
    for i, values in zip(two["label"], two["n"]):
        assert values.tolist() == [i + 1] * (i % 5)
print(rows)
"""
)
TORCHS = """
import torch.utils.data

class Data(torch.utils.data.Dataset):
    def __len__(self):
        return 100
    def __getitem__(self, i):
        return torch.full((3, 224, 224), float(i)), i

def main():
    found = []
    for x, y in leat.DataLoader(Data(), 16, num_workers=2, multiprocessing_context=sys.argv[4]):
        assert (x[:, 0, 0, 0] == y).all() and (x[:, 2, 223, 223] == y).all()
        found += y.tolist()
    print(found == list(range(100)))

if __name__ == "__main__":
    main()
"""


@pytest.mark.parametrize("gib", [2, 8])
def test_loaders_with_and_without_functions_run_in_little_address_space(tmp_path: Path, gib: int) -> None:
    assert run(tmp_path, "RLIMIT_AS", gib * GIB, LOADERS) == "200\n"


@TORCH
@pytest.mark.parametrize(
    ("gib", "context"),
    [
        (8, "fork"),
        (24, "fork"),
        pytest.param(8, "spawn", marks=pytest.mark.shard("torch")),  # whose workers import torch
        pytest.param(24, "spawn", marks=pytest.mark.shard("torch")),
    ],
)
def test_workers_run_in_little_address_space_forked_or_not(tmp_path: Path, gib: int, context: str) -> None:
    assert run(tmp_path, "RLIMIT_AS", gib * GIB, TORCHS, context) == "True\n"


def test_workers_run_where_files_may_not_be_large(tmp_path: Path) -> None:
    assert run(tmp_path, "RLIMIT_FSIZE", GIB // 4, LOADERS) == "200\n"


def test_what_does_not_fit_says_which_limit_of_the_system_helps(tmp_path: Path) -> None:
    code = """
    from leat import _leat
    held = []
    try:
        while len(held) < 10000:
            held.append(_leat.Slot(8 << 20))
    except leat.Error as e:
        print(e)
    """
    assert "ulimit -f" in run(tmp_path, "RLIMIT_FSIZE", 64 << 20, code)
    assert "ulimit -f" in run(tmp_path, "RLIMIT_FSIZE", 0, code)
    assert "ulimit -v" in run(tmp_path, "RLIMIT_AS", 2 * GIB, code)


LITTLE = """
import hashlib, faulthandler
from leat import _leat
faulthandler.dump_traceback_later(100, exit=True)
field = leat.field("float32", (1 << 18,) if kind == "fixed" else (None,))
with leat.Writer(path, {"x": field}) as w:
    for i in range(80):
        w.add(x=np.full(1 << 18, i, np.float32))
data = leat.open(path)
held = []
for step in (64 << 20, 8 << 20):  # others have all memory but for one or two batches of each loader
    while _leat.memory_left() > (100 << 20) + step:
        held.append(_leat.Slot(step))
loaders = [leat.Loader(data, 8, shuffle=True, seed=s, framework="numpy") for s in range(10)]
its, seen = [iter(loader) for loader in loaders], [[] for _ in loaders]
for _ in range(10):
    for ids, batches in zip(seen, its):
        batch = next(batches)
        values = getattr(batch["x"], "values", batch["x"])
        ids += batch.ids.tolist()
        hashlib.sha1(values.tobytes())  # the loaders prefetch meanwhile
        del batch, values
print(all(sorted(ids) == list(range(80)) for ids in seen))
"""


@pytest.mark.parametrize("kind", ["fixed", "ragged"])
def test_loaders_that_leave_each_other_little_memory_go_on(tmp_path: Path, kind: str) -> None:
    """Each evicts what others have prefetched, and does not wait for memory that nobody gives back."""
    done = python(
        "-c",
        "import sys\nimport numpy as np\nimport leat\npath, kind = sys.argv[1:]\n" + LITTLE,
        tmp_path / "a.leat",
        kind,
    )
    assert (done.returncode, done.stdout) == (0, "True\n"), done.stderr
