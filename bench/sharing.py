"""One loader for several processes of a host: what sharing gives, and what it costs.

    python bench/sharing.py PHOTOS [--jobs four cpu ...] [--rounds 5] [--seconds 4]

PHOTOS is what leat.open takes and has an image field, such as a pack; run it once per form of the photos. Contenders of
a job take turns in one run, in processes that stay, so that a drift of the machine hits both; shown are medians, and
the ratio of each pair of neighbouring rounds. On a machine with one core only, readers share the server's.

    four     4 readers that do nothing, the server on one core, against one loader on that core
    cpu      CPU seconds of the server for a photo, with 8 readers against 1
    ready    from a batch of 64 photos that is ready to the tensor of a reader that trains meanwhile; a loader of its
             own beside it, and what making any tensor takes then
    small    batches of 256 integers: through a port against a loader of its own
    train    2 trainings of a small network on 2 cores: one loader shared against two; with one batch size, with two,
             and with two of which the port's is a multiple
    attach   from leat.attach to the first batch, while the server runs and with starting it
    storage  bytes read from storage in an epoch, of those that the files have: 4 readers of one port against 4 loaders,
             while the files are taken out of the page cache all the time, as those are that do not fit into it
    many     the rate of one reader among 63 that are attached and read nothing, against alone; batches of 8 photos
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

import leat

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
BATCH = 64
INTS = 1 << 22
SLEEP_S = 0.4  #: in which a batch is surely ready
SOME = 20  #: batches of which the time until they are there is taken
ROW_BYTES = 3 * 224 * 224 * 4
AHEAD = 4  #: batches that loaders beside a port read ahead, so that none begins a round with seconds of work done
WARM_S = 0.8  #: in which that is used up


def outputs() -> dict[str, Any]:
    ops = leat.ops
    photo = [ops.Decode(), ops.RandomResizedCrop(224), ops.RandomHorizontalFlip(), ops.Normalize(MEAN, STD)]
    return {"image": photo}


def loader(
    data: str, batch: int = BATCH, threads: int | str = "auto", framework: str = "numpy", budget: int | None = None
) -> leat.Loader:
    if data == "ints":
        integers = leat.from_arrays(x=np.arange(INTS))
        return leat.Loader(integers, 256, shuffle=True, num_threads=threads, framework=framework)
    given = {"outputs": outputs(), "num_threads": threads, "framework": framework, "budget_bytes": budget}
    return leat.Loader(leat.open(data), batch, shuffle=True, **given)


# ---- processes -------------------------------------------------------------------------------------------------------


class Process:
    """One that does what it is told, a line at a time."""

    def __init__(self, stack: ExitStack, role: str, cores: list[int], **given: Any) -> None:
        command = [sys.executable, __file__, "--role", json.dumps({"role": role, "cores": cores, **given})]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        stack.callback(self.end)
        self.hear()

    def tell(self, *words: Any) -> None:
        assert self.process.stdin
        self.process.stdin.write(json.dumps(words) + "\n")
        self.process.stdin.flush()

    def hear(self) -> Any:
        assert self.process.stdout
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit("a process has failed: see above")
        return json.loads(line)

    def ask(self, *words: Any) -> Any:
        self.tell(*words)
        return self.hear()

    def end(self) -> None:
        assert self.process.stdin
        self.process.stdin.close()  # it ends with its input
        self.process.wait()


def ask_all(processes: list[Process], *words: Any) -> list[Any]:
    for process in processes:
        process.tell(*words)
    return [process.hear() for process in processes]


class Worker:
    """In a process: a loader of its own, a port, or a reader of one, and what is asked of them."""

    def __init__(self, given: dict[str, Any]) -> None:
        os.sched_setaffinity(0, given["cores"])
        self.given = given
        self.many: list[Any] = []
        self.batches: Iterator[Any] | None = None
        self.source: Any = None
        self.step: Callable[[Any], None] | None = None
        self.step_s = 0.0  #: CPU time in it
        self.port: leat.Port | None = None
        if given.get("framework") == "torch":
            import torch

            torch.set_num_threads(1)
            if given.get("trains"):
                self.step = network()
        if given["role"] != "read":
            names = ("batch", "threads", "framework", "budget")
            self.source = loader(given["data"], **{name: given[name] for name in names if name in given})
        if given["role"] == "serve":
            self.port = leat.Port(self.source, given["name"])

    def attach(self) -> float:
        """Milliseconds until its first batch is there."""
        self.leave()
        begun = time.perf_counter()
        names = ("framework", "lag")
        options = {"framework": "numpy", **{name: self.given[name] for name in names if name in self.given}}
        self.source = leat.attach(self.given["name"], self.given.get("batch"), patience=60, **options)
        self.batches = iter(self.source)
        first = next(self.batches)
        spent = 1000 * (time.perf_counter() - begun)
        del first
        return spent

    def leave(self) -> int:
        """Lets go of what it is attached to; how many rows of that were copied."""
        self.batches = None
        copied = 0
        if self.given["role"] == "read" and self.source is not None:
            copied = self.source.stats()["copied"]
            self.source.close()
            self.source = None
        for reader in self.many:
            reader.close()
        self.many = []
        return copied

    def attach_many(self, n: int) -> int:
        self.leave()
        for _ in range(n):
            reader = leat.attach(self.given["name"], framework="numpy")
            next(iter(reader))
            self.many.append(reader)
        return len(self.many)

    def _next(self) -> Any:
        while True:
            self.batches = self.batches or iter(self.source)
            batch = next(self.batches, None)
            if batch is not None:
                return batch
            self.batches = None

    def run(self, seconds: float) -> tuple[float, float]:
        """Batches and rows a second."""
        n = rows = 0
        begun = time.perf_counter()
        while (spent := time.perf_counter() - begun) < seconds:
            for _ in range(64 if self.given.get("data") == "ints" else 1):
                batch = self._next()
                n, rows = n + 1, rows + batch.size
                if self.step is not None:
                    spent = time.thread_time()
                    self.step(batch["image"])
                    self.step_s += time.thread_time() - spent
        return n / spent, rows / spent

    def ready(self) -> tuple[float, float]:
        """Microseconds from asking for a batch that is ready to its tensor, and of making one of two numbers: medians.

        In between it trains, as readers do: what a process has not used for half a second is in no cache.
        """
        import torch

        assert self.step
        times, others = [], []
        image, numbers = self._next()["image"].clone(), [1.0, 2.0]
        for _ in range(SOME):
            end = time.perf_counter() + SLEEP_S
            while (begun := time.perf_counter()) < end:
                self.step(image)
            torch.tensor(numbers)
            between = time.perf_counter()
            tensor = self._next()["image"]
            others.append(1e6 * (between - begun))
            times.append(1e6 * (time.perf_counter() - between))
            del tensor
        return statistics.median(times), statistics.median(others)

    def train(self, seconds: float) -> tuple[float, float, float]:
        """Rows a second, none of them made ahead; CPU seconds of this process, and of its steps."""
        self.run(WARM_S)
        self.step_s, spent = 0.0, time.process_time()
        rows = self.run(seconds)[1]
        return rows, time.process_time() - spent, self.step_s

    def serve(self, seconds: float) -> float:
        """CPU seconds of this process, as of one that trains meanwhile."""
        time.sleep(WARM_S)
        spent = time.process_time()
        time.sleep(seconds)
        return time.process_time() - spent

    def read(self, rows: int) -> None:
        """Reads so many rows."""
        while rows > 0:
            rows -= self._next().size

    def io(self) -> int:
        """Bytes that this process has read from storage."""
        with open("/proc/self/io") as f:
            return int(dict(line.split(": ") for line in f)["read_bytes"])

    def cpu(self) -> tuple[float, int]:
        """CPU seconds of this process, and rows that its port has made."""
        assert self.port
        return time.process_time(), self.port.stat()["samples"]


def network() -> Callable[[Any], None]:
    """A step of a small network, which takes a quarter of the time for the photos of a batch, or less."""
    import torch

    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.AvgPool2d(8), torch.nn.Flatten(), torch.nn.Linear(3 * 28 * 28, 64), torch.nn.ReLU()
    )
    optimizer = torch.optim.SGD(model.parameters(), 1e-3)

    def step(images: Any) -> None:
        optimizer.zero_grad()
        model(images).square().mean().backward()
        optimizer.step()

    return step


def work(given: dict[str, Any]) -> None:
    worker = Worker(given)
    print("0", flush=True)
    for line in sys.stdin:
        name, *words = json.loads(line)
        print(json.dumps(getattr(worker, name)(*words)), flush=True)
    worker.leave()
    if worker.port is not None:
        worker.port.close()


# ---- jobs ------------------------------------------------------------------------------------------------------------


class Bench:
    def __init__(self, photos: str, rounds: int, seconds: float) -> None:
        self.photos, self.rounds, self.seconds = photos, rounds, seconds
        every = sorted(os.sched_getaffinity(0))
        self.cores = every[:2]
        self.server, self.others = every[:1], every[1:2] or every[:1]

    def show(self, what: str, pairs: list[tuple[float, float]], unit: str, against: str, digits: int = 0) -> None:
        """Of each pair the second is the measure."""
        one, other = (statistics.median(values) for values in zip(*pairs))
        ratios = sorted(a / b for a, b in pairs)
        spread = f"{ratios[0]:.3f} to {ratios[-1]:.3f}"
        print(f"{what:34} {one:11,.{digits}f} {unit}   {against} {other:11,.{digits}f}   "
              f"ratio {statistics.median(ratios):.3f} ({spread})", flush=True)  # fmt: skip

    def four(self) -> None:
        with ExitStack() as stack:
            given = {"data": self.photos, "threads": 1, "budget": AHEAD * BATCH * ROW_BYTES}
            own = Process(stack, "own", self.server, **given)
            Process(stack, "serve", self.server, name="four", **given)
            readers = [Process(stack, "read", self.others, name="four", batch=BATCH) for _ in range(4)]
            pairs = []
            for _ in range(self.rounds):
                alone = own.ask("train", self.seconds)[0]
                ask_all(readers, "attach")
                total = sum(rows for rows, *_ in ask_all(readers, "train", self.seconds))
                ask_all(readers, "leave")
                pairs.append((total, alone))
        self.show("4 readers, one core", pairs, "photos/s", "one loader")

    def cpu(self) -> None:
        with ExitStack() as stack:
            server = Process(stack, "serve", self.server, name="cpu", data=self.photos, threads=1)
            readers = [Process(stack, "read", self.others, name="cpu", batch=BATCH) for _ in range(8)]

            def cost(n: int) -> float:
                """Milliseconds of CPU for a photo that was made."""
                ask_all(readers[:n], "attach")
                cpu, rows = server.ask("cpu")
                ask_all(readers[:n], "run", self.seconds)
                later, more = server.ask("cpu")
                ask_all(readers[:n], "leave")
                return 1000 * (later - cpu) / max(1, more - rows)

            pairs = [(cost(8), cost(1)) for _ in range(self.rounds)]
        self.show("server's CPU for a photo, 8 readers", pairs, "ms", "1 reader", 4)

    def ready(self) -> None:
        with ExitStack() as stack:
            given = {"framework": "torch", "batch": BATCH, "trains": True}
            own = Process(stack, "own", self.cores, data=self.photos, **given)
            Process(stack, "serve", self.cores, name="ready", data=self.photos)
            reader = Process(stack, "read", self.cores, name="ready", **given)
            reader.ask("attach")
            found = [(*reader.ask("ready"), own.ask("ready")[0]) for _ in range(max(1, self.rounds // 2))]
            copied = reader.ask("leave")
        pairs = [(through, own) for through, _, own in found]
        self.show("a ready batch of 64 to its tensor", pairs, "us", "a loader of its own", 1)
        any_tensor = statistics.median(other for _, other, _ in found)
        print(f"{'':34} {copied} rows copied; torch.tensor of two numbers {any_tensor:.1f} us")

    def small(self) -> None:
        with ExitStack() as stack:
            own = Process(stack, "own", self.cores, data="ints")
            Process(stack, "serve", self.cores, name="small", data="ints")
            reader = Process(stack, "read", self.cores, name="small", data="ints")
            pairs = []
            for _ in range(self.rounds):
                reader.ask("attach")
                pairs.append((reader.ask("run", self.seconds)[0], own.ask("run", self.seconds)[0]))
                reader.ask("leave")
        self.show("batches of 256 integers", pairs, "batches/s", "a loader of its own")

    def train(self) -> None:
        two = BATCH * 3 // 4
        for port, sizes in ((BATCH, (BATCH, BATCH)), (BATCH, (BATCH, two)), (3 * BATCH, (BATCH, two))):
            with ExitStack() as stack:
                given = {"framework": "torch", "trains": True, "lag": "wait"}
                ahead = {"data": self.photos, "budget": AHEAD * BATCH * ROW_BYTES}
                owners = [Process(stack, "own", self.cores, batch=n, **ahead, **given) for n in sizes]
                ahead["budget"] = AHEAD * port * ROW_BYTES
                server = Process(stack, "serve", self.cores, name="train", batch=port, **ahead)
                readers = [Process(stack, "read", self.cores, name="train", batch=n, **given) for n in sizes]
                pairs, costs, steps = [], [], []
                for _ in range(self.rounds):
                    alone = ask_all(owners, "train", self.seconds)
                    ask_all(readers, "attach")
                    server.tell("serve", self.seconds)
                    together = ask_all(readers, "train", self.seconds)
                    served = server.hear()
                    ask_all(readers, "leave")
                    # Steps as the rows make them: the last batch of an epoch is a short one.
                    pairs.append([sum(f[0] / n for f, n in zip(each, sizes)) for each in (together, alone)])
                    batches = [self.seconds * sum(f[0] for f in each) / BATCH for each in (together, alone)]
                    cpu = [sum(f[1] for f in together) + served, sum(f[1] for f in alone)]
                    costs.append([1000 * c / n for c, n in zip(cpu, batches)])
                    steps.append(1000 * sum(f[2] for f in alone) / batches[1])
            self.show(f"2 trainings, {sizes[0]} and {sizes[1]} of {port}", pairs, "steps/s", "each its own", 1)
            step = statistics.median(steps)
            load = statistics.median(alone for _, alone in costs) - step
            ratios = sorted(alone / together for together, alone in costs)
            print(f"{'':34} CPU time of 64 rows: the step {step:.1f} ms, loading {load:.1f} ms, "
                  f"ratio by arithmetic {(step + load) / (step + load / 2):.2f}, "
                  f"found {statistics.median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})")  # fmt: skip

    def storage(self) -> None:
        photos = Path(self.photos)
        files = [photos] if photos.is_file() else [p for p in photos.rglob("*") if p.is_file()]
        size, rows = sum(p.stat().st_size for p in files), len(leat.open(self.photos))
        ended = threading.Event()

        def evict() -> None:
            open_files = [os.open(p, os.O_RDONLY) for p in files]
            while not ended.wait(0.02):
                for fd in open_files:
                    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
            for fd in open_files:
                os.close(fd)

        def read(readers: list[Process], server: list[Process]) -> float:
            """In an epoch; as much is read ahead before as afterwards."""
            found = []
            for epochs in (1, self.rounds):
                ask_all(readers, "read", rows * epochs)
                time.sleep(2)
                found.append(sum(ask_all(readers + server, "io")))
            return (found[1] - found[0]) / self.rounds / size

        evictor = threading.Thread(target=evict)
        evictor.start()
        try:
            with ExitStack() as stack:
                given = {"data": self.photos, "budget": AHEAD * BATCH * ROW_BYTES}
                owners = [Process(stack, "own", self.cores, **given) for _ in range(4)]
                alone = read(owners, [])
            with ExitStack() as stack:
                server = Process(stack, "serve", self.cores, name="storage", **given)
                readers = [Process(stack, "read", self.cores, name="storage", lag="wait") for _ in range(4)]
                ask_all(readers, "attach")
                together = read(readers, [server])
                ask_all(readers, "leave")
        finally:
            ended.set()
            evictor.join()
        print(f"read from storage in an epoch, of {size / 1e6:,.1f} MB: 4 readers {together:.2f} times, "
              f"4 loaders {alone:.2f} times", flush=True)  # fmt: skip

    def attach(self) -> None:
        program = Path(os.environ["LEAT_RUNTIME_DIR"]).parent / "program.json"
        program.write_text(leat.program_to_json(outputs()))
        cli = os.environ.get("LEAT_CLI") or str(Path(sys.executable).parent / "leat")
        command = [cli, "serve", self.photos, "--program", str(program), "--batch-size", str(BATCH), "--shuffle"]
        warm, cold = [], []
        with ExitStack() as stack:
            for _ in range(self.rounds):
                begun = time.perf_counter()
                server = subprocess.Popen([*command, "--name", "attach"], stdout=subprocess.DEVNULL)
                stack.callback(server.kill)
                first, later = (Worker({"role": "read", "cores": self.cores, "name": "attach"}) for _ in range(2))
                first.attach()
                cold.append(1000 * (time.perf_counter() - begun))
                time.sleep(SLEEP_S)  # what the first one gets next is ready, and the later one joins it there
                warm += [later.attach() for _ in range(5)]
                later.leave()
                first.leave()
                leat.ports.stop("attach")
                server.wait()
        for what, times in (("the server runs", warm), ("with starting it", cold)):
            print(f"attach to the first batch, {what:17} {statistics.median(times):9.2f} ms "
                  f"({min(times):.2f} to {max(times):.2f})", flush=True)  # fmt: skip

    def many(self) -> None:
        for data, rate in (("ints", 0), (self.photos, 1)):
            with ExitStack() as stack:
                Process(stack, "serve", self.cores, name="many", data=data, batch=BATCH // 8)
                fast = Process(stack, "read", self.cores, name="many", data=data)
                idle = Process(stack, "read", self.cores, name="many")
                pairs = []
                for _ in range(self.rounds):
                    found = []
                    for n in (63, 0):
                        fast.ask("attach")
                        idle.ask("attach_many", n)
                        found.append(fast.ask("run", self.seconds)[rate])
                        idle.ask("leave")
                        fast.ask("leave")
                    pairs.append((found[0], found[1]))
            what, unit = ("integers", "batches/s") if data == "ints" else ("photos", "photos/s")
            self.show(f"one among 63 that are idle, {what}", pairs, unit, "alone")


JOBS = ("four", "cpu", "ready", "small", "train", "attach", "storage", "many")


def main() -> None:
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("photos", nargs="?")
    a.add_argument("--jobs", nargs="+", choices=JOBS, default=list(JOBS))
    a.add_argument("--rounds", type=int, default=5)
    a.add_argument("--seconds", type=float, default=4.0)
    a.add_argument("--role", type=json.loads, help=argparse.SUPPRESS)
    o = a.parse_args()
    if o.role:
        work(o.role)
        return
    if o.photos is None:
        a.error("PHOTOS is missing")
    with open("/proc/cpuinfo") as f:
        model = next((line.split(":")[1].strip() for line in f if line.startswith("model name")), "unknown processor")
    print(f"leat {leat.__version__}, Python {platform.python_version()}, {model}, {o.photos}")
    with tempfile.TemporaryDirectory() as folder:
        os.environ["LEAT_RUNTIME_DIR"] = str(Path(folder) / "p")
        bench = Bench(o.photos, o.rounds, o.seconds)
        for job in o.jobs:
            getattr(bench, job)()


if __name__ == "__main__":
    main()
