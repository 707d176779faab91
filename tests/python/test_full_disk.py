"""A full disk: every error names the file that could not be written and says what to do, and nothing of it stays open.

All writers run in one process, which has a small file system of its own: `full_disk_support.py`. The C tests make each
write fail; here it is the system that refuses, wherever that happens. It takes some seconds: some 85 runs, of which 18
are processes.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import resource
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import full_disk_support as full
import pytest
from cli_support import command

import leat

MOUNT = 'mount -t tmpfs -o size=6m tmpfs "$1" && exec "$2" "$3" "$1" "$4" "$5"'
NAMES = [*full.CASES, "pack", "view", "trace_command", "cat", "stats", "replay"]


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[dict[str, Any]]]:
    folder, beside = tmp_path_factory.mktemp("disk"), tmp_path_factory.mktemp("beside")
    apart = ["unshare", "-m" if os.geteuid() == 0 else "-rm"]
    tried = subprocess.run(
        [*apart, "mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)], capture_output=True, check=False
    )
    if tried.returncode:
        pytest.skip(f"no file system can be mounted here: {tried.stderr!r}")
    words = [folder, sys.executable, full.__file__, beside / "a.jsonl.gz", command()]
    done = subprocess.run(
        [*apart, "sh", "-c", MOUNT, "sh", *map(str, words)], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, list[dict[str, Any]]] = {}
    for line in done.stdout.splitlines():
        if line.startswith("{"):
            told = json.loads(line)
            found.setdefault(told["name"], []).append(told)
    return found


@pytest.mark.parametrize("name", NAMES)
def test_the_error_names_the_file_and_says_to_make_room(ended: dict[str, list[dict[str, Any]]], name: str) -> None:
    none, enough, *others = ended[name]
    assert none["said"] and not enough["said"], (none, enough)
    for told in (none, *others):
        if told["said"]:
            assert re.match(r"FileError: |leat \w+: ", told["said"]), told
            assert "No space left on device" in told["said"] and "make room" in told["said"], told
            assert re.search(r"/disk\d*/[\w./-]+|copy of \S+gz in \S*/disk", told["said"]), told
        assert not told["kept"], told


@pytest.mark.parametrize("flushed", [False, True])
def test_a_limit_of_the_size_of_files_is_no_full_disk(tmp_path: Path, flushed: bool) -> None:
    store = leat.Store(tmp_path / "a.store", {"x": leat.field("float32", (500,))}, key="id")
    usual, handler = resource.getrlimit(resource.RLIMIT_FSIZE), signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (3 << 20, usual[1]))
    try:
        large = r"a\.store cannot grow by 1 MiB.*File too large.*ulimit -f"
        with pytest.raises(leat.FileError, match=large) as failed, contextlib.closing(store):
            for begin in range(0, 1800, 600):  # whoever comes after the one that does not fit is told
                store[list(range(begin, begin + 600))] = full.NOISE
                if flushed:
                    store.flush()
        writer = leat.Writer(tmp_path / "a.leat", {"x": leat.field("float32", (500,))})
        with pytest.raises(leat.FileError, match=r"writing failed at.*File too large.*ulimit -f") as other, writer:
            for row in [*full.NOISE] * 4:
                writer.add(x=row)
        assert "make room" not in f"{failed.value} {other.value}"
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, usual)
        signal.signal(signal.SIGXFSZ, handler)
    assert not full.kept(tmp_path), failed
    store.close()
    with pytest.raises(leat.ClosedError):
        store[[1]] = full.NOISE[:1]
