"""What the tests of the frameworks share: a data set, the loaders to compare, and ranks that are processes.

Imported by the tests and by the scripts in tests/python/frameworks, which run as ranks.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib.util
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset

import leat

HERE = Path(__file__).resolve().parent
SCRIPTS = HERE / "frameworks"
RESULT = "RESULT "

if "LEAT_TEST_RANK" in os.environ:  # this is a rank: it ends with the process that has started it, however that ends
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


class Numbers(Dataset[dict[str, torch.Tensor]]):
    """n samples: `x` is [i / n, 1], `y` is [2 i / n - 1], `id` is i."""

    def __init__(self, n: int) -> None:
        self.n = n

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, i: int) -> dict[str, torch.Tensor]:
        return {"x": torch.tensor([i / self.n, 1.0]), "y": torch.tensor([2 * i / self.n - 1]), "id": torch.tensor(i)}


class Dice(Numbers):
    """Numbers with a random `x`, from the generators that `reseed` seeds for each sample."""

    def __getitem__(self, i: int) -> dict[str, torch.Tensor]:
        return {**super().__getitem__(i), "x": torch.rand(2)}


class Stream(IterableDataset[dict[str, torch.Tensor]]):
    """The same samples as a stream, which workers share: worker w of W gives w, w + W, ..."""

    def __init__(self, n: int) -> None:
        self.n = n

    def __iter__(self) -> Iterator[dict[str, torch.Tensor]]:
        info = torch.utils.data.get_worker_info()
        numbers = Numbers(self.n)
        for i in range(info.id if info else 0, self.n, info.num_workers if info else 1):
            yield numbers[i]


class Line(torch.nn.Module):
    """y = a x + b, from the same start each time."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(2, 1, bias=False)
        torch.nn.init.zeros_(self.layer.weight)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x)  # type: ignore[no-any-return]


def loss_of(output: torch.Tensor, batch: dict[str, torch.Tensor]) -> torch.Tensor:
    return torch.nn.functional.mse_loss(output, batch["y"])


def needs(*packages: str, level: str = "shards") -> None:
    """Skips a module of tests where these are not installed; fails where they have to be (tools/check.py). `level`: the
    one of tools/setup.sh that installs them.
    """
    required = os.environ.get("LEAT_REQUIRE_TORCH" if level == "shards" else f"LEAT_REQUIRE_{level.upper()}")
    for name in packages:
        if importlib.util.find_spec(name) is None:
            if required:
                raise ModuleNotFoundError(f"no module named {name}: tools/setup.sh {level} installs it")
            pytest.skip(f"{name} is not installed", allow_module_level=True)


def loader_class(kind: str) -> type[DataLoader[Any]]:
    """The class of this name: torch's own, torchdata's that has state, leat's."""
    if kind == "torch":
        return DataLoader
    if kind == "torchdata":
        from torchdata.stateful_dataloader import StatefulDataLoader

        return StatefulDataLoader  # type: ignore[no-any-return]
    found: type[DataLoader[Any]] = leat.DataLoader
    return found


def available(kind: str) -> bool:
    return kind != "leat" or hasattr(leat, "DataLoader")


def engine_of(loader: Any) -> str:
    """The package whose iterator makes the batches of a loader, whatever a framework has put around it."""
    inner = getattr(loader, "base_dataloader", loader)
    name = type(inner).__module__.partition(".")[0]
    if name == "leat":  # the class could be there and torch's iterator do the work
        name = type(inner.__iter__()).__module__.partition(".")[0]
    return name


def ids(batch: Any) -> list[int]:
    return [int(i) for i in batch["id"]]


def tell(**values: Any) -> None:
    """A rank's result: a line that the test finds among what frameworks print.

    Ranks that a framework starts share one output: the line goes there in a single write, begun by a line's end, so
    that neither what another rank prints at the same time nor a line that one has begun can run into it.
    """
    sys.stdout.flush()
    os.write(sys.stdout.fileno(), f"\n{RESULT}{json.dumps(values)}\n".encode())


def leave() -> None:
    """Ends a rank: what used the process group goes first, then the group, once all ranks are here. Else gloo may wait
    for ever.
    """
    gc.collect()
    if torch.distributed.is_initialized():
        torch.distributed.barrier()
        torch.distributed.destroy_process_group()


def results(output: str) -> list[dict[str, Any]]:
    return [json.loads(line[len(RESULT) :]) for line in output.splitlines() if line.startswith(RESULT)]


def environment(**more: str) -> dict[str, str]:
    found = {
        k: v
        for k, v in os.environ.items()
        if not k.startswith(("RANK", "WORLD_SIZE", "LOCAL_", "MASTER_", "TORCHELASTIC", "ACCELERATE"))
    }
    path = os.pathsep.join([str(HERE), str(Path(leat.__file__).parent.parent)])
    return {
        **found,
        "PYTHONPATH": path,
        "CUDA_VISIBLE_DEVICES": "",
        "OMP_NUM_THREADS": "1",
        "HF_HUB_OFFLINE": "1",
        "LEAT_TEST_RANK": "1",
        **more,
    }


class Process:
    """A script under way, in a process group of its own; what it prints goes to a file, so that it never waits for a
    reader.
    """

    def __init__(self, script: str, *arguments: object, **env: str) -> None:
        self.output = tempfile.TemporaryFile("w+", errors="replace")  # noqa: SIM115  closed in finish
        command = [sys.executable, "-X", "faulthandler", str(SCRIPTS / script), *map(str, arguments)]
        self.process = subprocess.Popen(
            command, stdout=self.output, stderr=subprocess.STDOUT, start_new_session=True, env=environment(**env)
        )

    def text(self) -> str:
        self.output.seek(0)
        return self.output.read()

    def end(self, signal: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal)


def finish(processes: list[Process], seconds: float) -> list[str]:
    """What each has printed, once all have ended well; their groups are ended, whatever happens."""
    deadline = time.monotonic() + seconds
    try:
        while (
            None in (codes := [p.process.poll() for p in processes]) and not any(codes) and time.monotonic() < deadline
        ):
            time.sleep(0.05)
        if any(codes) or None in codes:
            for p in processes:  # those that hang say where
                p.end(signal.SIGABRT)
                p.process.wait()
            said = "\n".join(f"--- rank {rank}\n{p.text()[-8000:]}" for rank, p in enumerate(processes))
            raise AssertionError(f"the ranks ended with {codes} (None: not within {seconds:.0f} s)\n{said}")
        return [p.text() for p in processes]
    finally:
        for p in processes:
            p.end(signal.SIGKILL)
            p.process.wait()
            p.output.close()


def module_of(script: str) -> Any:
    """A script of ranks as a module: its model and trainers serve tests of one process, too."""
    path = SCRIPTS / script
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run_script(script: str, *arguments: object, seconds: float = 240) -> list[dict[str, Any]]:
    """Runs tests/python/frameworks/SCRIPT, which may start ranks of its own; what they told."""
    return results(finish([Process(script, *arguments)], seconds)[0])


def run_ranks(script: str, *arguments: object, world: int = 2, seconds: float = 240) -> list[dict[str, Any]]:
    """Runs tests/python/frameworks/SCRIPT as ranks that find each other as under torchrun; the result of each, in
    order.

    The store where they meet is this process's: its port is taken before they start, so that no other can take it.
    """
    store = torch.distributed.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    common = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(store.port), "WORLD_SIZE": str(world),
    "LOCAL_WORLD_SIZE": str(world),
              "TORCHELASTIC_USE_AGENT_STORE": "True", "TORCHELASTIC_RESTART_COUNT": "0",
              "TORCHELASTIC_MAX_RESTARTS": "0",
              "TORCHELASTIC_RUN_ID": "test", "GROUP_RANK": "0"}  # fmt: skip
    ranks = [Process(script, *arguments, **common, RANK=str(r), LOCAL_RANK=str(r)) for r in range(world)]
    told = [results(output) for output in finish(ranks, seconds)]
    return [{k: v for one in rank for k, v in one.items()} for rank in told]
