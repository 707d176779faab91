"""Elastic training, by examples/elastic.py over gloo: ranks die, others go on or come, and each row is trained once."""

from __future__ import annotations

import hashlib
import json
import os
import signal
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from frameworks_support import SCRIPTS, Process, environment  # noqa: E402
from process_support import FORKED, PRELOADED, eventually, forked, is_there  # noqa: E402

pytestmark = pytest.mark.shard("parallel")
FORKED.set_forkserver_preload([*PRELOADED, "torch._dynamo"])  # which every optimizer imports: seconds for each rank

ROWS, SIZE, EPOCHS = 500, 24, 3
STEPS = EPOCHS * -(-ROWS // SIZE)
Table = dict[tuple[int, int], list[int]]  #: the ids of each (epoch, step), of all ranks together

# world size, and the rank that dies in a step: with its batch in hand, after the update, in the middle of a save
LIVES = [
    (1, 0, 4, "save"),
    (3, 2, 9, "update"),
    (2, 1, 14, "batch"),
    (4, 0, 20, "update"),  # the last step of an epoch
    (4, 3, 21, "batch"),  # the first of the next one
    (2, 0, 28, "save"),
    (1, 0, 33, "batch"),
    (3, 0, 41, "save"),  # the last step of an epoch
    (4, 1, 47, "update"),
    (2, 1, 55, "batch"),
]


def words(folder: Path, every: int = 1) -> list[str]:
    """The arguments of a training with its checkpoints and its ids in this folder."""
    ids = folder / "ids"
    ids.mkdir(exist_ok=True, parents=True)
    sizes = {"rows": ROWS, "global-batch-size": SIZE, "epochs": EPOCHS, "every": every}
    return [str(folder / "checkpoints"), "--ids", str(ids), *(f"--{name}={n}" for name, n in sizes.items())]


def life(world: int, die: list[Any], arguments: list[str], output: Path, **env: str) -> list[int | None]:
    """Runs ranks until one has died, or all have ended; ends the others. The exit codes."""
    store = torch.distributed.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    common = environment(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(store.port), WORLD_SIZE=str(world),
                         LOCAL_WORLD_SIZE=str(world), TORCHELASTIC_USE_AGENT_STORE="True", GROUP_RANK="0",
                         TORCHELASTIC_RESTART_COUNT="0", TORCHELASTIC_RUN_ID="test", **env)  # fmt: skip
    output.touch()
    ranks = [
        forked("elastic_ranks.py", [*die, *arguments], output, {**common, "RANK": str(r), "LOCAL_RANK": str(r)})
        for r in range(world)
    ]
    try:
        eventually(lambda: any(codes := [p.process.exitcode for p in ranks]) or None not in codes)
        return [p.process.exitcode for p in ranks]
    finally:
        for p in ranks:
            p.kill()


def slice_of(ids: list[int], rank: int, world: int) -> list[int]:
    """The share of a rank in the ids of a global batch."""
    return ids[rank * len(ids) // world : (rank + 1) * len(ids) // world]


def lines(folder: Path) -> Iterator[dict[str, Any]]:
    for file in (folder / "ids").iterdir():
        yield from map(json.loads, file.read_text().splitlines())


def committed(folder: Path, planned: Table | None = None) -> Table:
    """The ids of each step as the training has them that has gone on: of ranks that began with the newest checkpoint
    before it. If the table of an undisturbed run is given, every line of every rank has its share of that.
    """
    runs: dict[tuple[int, int], dict[tuple[int, int], dict[int, list[int]]]] = defaultdict(lambda: defaultdict(dict))
    for line in lines(folder):
        at, rank, world = (line["epoch"], line["step"]), line["rank"], line["world"]
        runs[at][line["begin"], world][rank] = line["ids"]
        if planned is not None and len(planned[at]) == SIZE:
            assert line["ids"] == slice_of(planned[at], rank, world), line
    table = {}
    for at in sorted(runs):
        begin = max(begin for begin, _ in runs[at])
        whole = [
            sum((ranks[r] for r in range(world)), [])
            for (began, world), ranks in runs[at].items()
            if began == begin and len(ranks) == world
        ]
        assert whole and all(ids == whole[0] for ids in whole), (at, runs[at])
        table[at] = whole[0]
    return table


def hashed(table: Table) -> str:
    return hashlib.sha256(json.dumps(sorted(table.items())).encode()).hexdigest()


def weights(folder: Path) -> dict[str, Any]:
    """Of the last checkpoint, which is that of the last step."""
    found: dict[str, Any] = torch.load(folder / "checkpoints" / f"{STEPS:08d}.pt", weights_only=True)
    return {**found["model"], **{f"momentum {k}": v["momentum_buffer"] for k, v in found["optimizer"]["state"].items()}}


def check(folder: Path, undisturbed: Path) -> None:
    """Each row once an epoch, in the global batches of the undisturbed run, and the same model comes out."""
    planned = committed(undisturbed)
    table = committed(folder, planned)
    for epoch in range(EPOCHS):
        assert sorted(i for at, ids in table.items() if at[0] == epoch for i in ids) == list(range(ROWS))
    assert hashed(table) == hashed(planned)
    mine, theirs = weights(folder), weights(undisturbed)
    assert mine.keys() == theirs.keys()
    for name in theirs:
        torch.testing.assert_close(mine[name], theirs[name], rtol=0, atol=1e-4)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("undisturbed")
    assert life(1, [0, -1, "never"], words(folder), folder / "output") == [0], (folder / "output").read_text()
    return folder


def test_ten_deaths_on_changing_world_sizes_leave_the_batches_and_the_model_as_they_would_have_been(
    undisturbed: Path, tmp_path: Path
) -> None:
    output = tmp_path / "output"
    for number, (world, *die) in enumerate(LIVES):
        codes = life(world, die, words(tmp_path, every=1 + number % 3), output)
        assert codes[die[0]] == -signal.SIGKILL, output.read_text()
    assert life(3, [0, -1, "never"], words(tmp_path), output) == [0, 0, 0], output.read_text()
    assert len({line["begin"] for line in lines(tmp_path)}) > 5
    check(tmp_path, undisturbed)
    with pytest.raises(AssertionError):  # the check itself: a step that is trained twice is seen
        twice = tmp_path / "ids" / "twice.jsonl"
        twice.write_text(json.dumps({"epoch": 2, "step": 20, "rank": 0, "world": 1, "begin": 62, "ids": [0]}) + "\n")
        check(tmp_path, undisturbed)


class Job:
    """Agents of torchrun that meet in a store of the test, so that each of them may go."""

    def __init__(self, folder: Path, gates: list[int], **env: str) -> None:
        self.folder = folder
        self.gates = folder / "gates"
        self.gates.mkdir()
        self.store = torch.distributed.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
        self.env = env
        rank = [str(SCRIPTS / "elastic_ranks.py"), "gates", str(self.gates), ",".join(map(str, gates)), *words(folder)]
        meeting = "is_host=false,last_call_timeout=2,keep_alive_interval=1,keep_alive_max_attempt=5"
        self.command = ["--nnodes=1:3", "--max-restarts=100", "--rdzv-id=job", "--rdzv-backend=c10d",
                        f"--rdzv-endpoint=127.0.0.1:{self.store.port}", f"--rdzv-conf={meeting}", *rank]  # fmt: skip
        self.agents: list[Process] = []

    def add(self, agents: int) -> None:
        self.agents += [Process("elastic_agent.py", *self.command, **self.env) for _ in range(agents)]

    def at(self, step: int, world: int) -> list[int]:
        """The processes of the ranks, once so many of them wait at the gate of this step."""
        found: list[int] = []

        def all_there() -> bool:
            ended = [p for p in self.agents if p.process.poll() is not None]
            assert not ended, ended[0].text()[-8000:]
            names = [p.name.split("-") for p in self.gates.glob(f"{step}-{world}-*")]
            alive = {int(rank): int(pid) for _, _, rank, pid in names if is_there(int(pid))}
            found[:] = [alive[rank] for rank in sorted(alive)]
            return len(found) == world

        eventually(all_there)
        return found

    def open(self, step: int) -> None:
        (self.gates / str(step)).touch()

    def lose(self, rank: int) -> None:
        """Kills the agent of the rank with this process, and with it the rank."""
        agent = int(Path(f"/proc/{rank}/stat").read_text().rpartition(")")[2].split()[1])
        lost = next(p for p in self.agents if p.process.pid == agent)
        self.agents.remove(lost)
        self._end(lost)
        eventually(lambda: not is_there(rank))

    def end(self) -> None:
        for agent in self.agents:
            self._end(agent)

    @staticmethod
    def _end(agent: Process) -> None:
        agent.end(signal.SIGKILL)
        agent.process.wait()
        agent.output.close()


def test_agents_of_torchrun_leave_and_join_and_the_training_goes_on_with_the_next_batch(
    undisturbed: Path, tmp_path: Path
) -> None:
    job = Job(tmp_path, [10, 20, 30], TORCH_DISABLE_SHARE_RDZV_TCP_STORE="1")
    try:
        job.add(2)
        job.lose(job.at(10, world=2)[0])
        job.open(10)
        job.at(20, world=1)
        job.add(2)
        ranks = job.at(20, world=3)
        job.open(20)
        ranks = job.at(30, world=3)
        os.kill(ranks[1], signal.SIGKILL)  # whose agent starts another one
        eventually(lambda: not is_there(ranks[1]))
        again = job.at(30, world=3)
        assert not set(again) & set(ranks)
        job.open(30)
        eventually(lambda: None not in [p.process.poll() for p in job.agents])
        assert [p.process.returncode for p in job.agents] == [0, 0, 0], [p.text()[-4000:] for p in job.agents]
    finally:
        job.end()
    assert {line["world"] for line in lines(tmp_path)} == {1, 2, 3}
    check(tmp_path, undisturbed)
