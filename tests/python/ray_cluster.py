"""One Ray cluster on this machine, held by a process of its own, which ends it when its standard input closes: however
the tests end, nothing of it is left.

As a script: takes lines ("add CPUS", "kill NODE", "end"), and answers each but the last with one.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from process_support import children

STORE = 256 << 20  #: bytes of each store
#: a node that was killed is found after a second; too short for machines that are not the tests' own
HEALTH = {
    "health_check_initial_delay_ms": 500,
    "health_check_period_ms": 300,
    "health_check_failure_threshold": 5,
    "health_check_timeout_ms": 1500,
}


class Cluster:
    """The cluster, as a test sees it: a head without CPUs, and nodes of one CPU each."""

    def __init__(self, nodes: int) -> None:
        for left in (2, 1, 0):  # on a busy machine a start may pass the limits above
            self.folder = tempfile.TemporaryDirectory(prefix="ray-")  # short: Ray puts sockets there
            self._child = self._begin(Path(self.folder.name))
            try:
                self.address = str(self._answer())
                break
            except RuntimeError:
                self._child.wait(60)
                if not left:
                    raise
        self.nodes = [self.add_node() for _ in range(nodes)]

    def _begin(self, folder: Path) -> subprocess.Popen[str]:
        (folder / "ray").mkdir()
        environment = {**os.environ, "RAY_USAGE_STATS_ENABLED": "0", "OMP_NUM_THREADS": "1", "TMPDIR": str(folder)}
        environment["PYTHONPATH"] = str(Path(__file__).parent)  # functions of tests go by their names
        return subprocess.Popen(
            [sys.executable, __file__, str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=(folder / "hold.err").open("w"),
            text=True,
            env=environment,
        )

    def _answer(self) -> Any:
        assert self._child.stdout is not None
        for line in self._child.stdout:
            if line.startswith("ANSWER "):
                return json.loads(line.removeprefix("ANSWER "))
        raise RuntimeError((Path(self.folder.name) / "hold.err").read_text()[-3000:])

    def _ask(self, *words: object) -> Any:
        assert self._child.stdin is not None
        print(*words, file=self._child.stdin, flush=True)
        return self._answer()

    def add_node(self, cpus: int = 1) -> str:
        """Adds a node; its id."""
        return str(self._ask("add", cpus))

    def kill_node(self, node: str) -> None:
        """SIGKILL to the raylet of a node, whose workers end with it."""
        self._ask("kill", node)
        if node in self.nodes:
            self.nodes.remove(node)

    def close(self) -> list[str]:
        """Ends it; the processes that are left of it."""
        assert self._child.stdin is not None
        print("end end", file=self._child.stdin, flush=True)  # a process that was forked may hold the pipe
        self._child.wait(60)
        for _ in range(200):  # a worker that was just starting sees a little later that its node is gone
            if not self._left():
                break
            time.sleep(0.1)
        left = self._left()
        with contextlib.suppress(OSError):
            self.folder.cleanup()
        return left

    def _left(self) -> list[str]:
        found = []
        for process in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                words = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                if self.folder.name in words:
                    found.append(f"{process.name}: {words:.200}")
        return found


def hold(folder: str) -> None:
    import ray.cluster_utils

    cluster = ray.cluster_utils.Cluster(
        initialize_head=True,
        head_node_args={
            "num_cpus": 0,
            "object_store_memory": STORE,
            "include_dashboard": False,
            "temp_dir": folder,
            "_system_config": HEALTH,
        },
    )
    say = threading.Lock()

    def answer(value: Any) -> None:
        with say:
            print("ANSWER", json.dumps(value), flush=True)

    def add(cpus: int) -> Any:
        """A node. Ray gives one 30 seconds to start, and leaves what it has begun: on a busy machine it tries again."""
        for left in (3, 2, 1, 0):
            before = children()
            try:
                return cluster.add_node(num_cpus=cpus, object_store_memory=STORE)
            except Exception:
                if not left:
                    raise
            for pid in children() - before:
                os.kill(pid, signal.SIGKILL)
        return None

    answer(cluster.address)
    nodes = {}
    for line in sys.stdin:
        what, which = line.split()
        if what == "end":
            break
        if what == "add":
            node = add(int(which))
            nodes[node.node_id] = node
            answer(node.node_id)
        else:
            raylet = nodes.pop(which).all_processes["raylet"][0].process
            os.kill(raylet.pid, signal.SIGKILL)
            answer(raylet.wait())
    late = threading.Timer(20, os._exit, (1,))
    late.daemon = True
    late.start()
    cluster.shutdown()


if __name__ == "__main__":
    hold(sys.argv[1])
