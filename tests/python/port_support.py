"""Consumers of a port in processes of their own, which do what they are told."""

from __future__ import annotations

import contextlib
import hashlib
import os
import signal
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from process_support import Process, eventually, shared_memory

import leat


def digest(batch: Any) -> str:
    """A hash over all that a batch has."""
    h = hashlib.sha256()
    for array in (batch.ids, batch.row_keys, batch.valid):
        h.update(np.ascontiguousarray(array).tobytes())
    for name in batch:
        value = batch[name]
        if isinstance(value, list | int):  # texts, or the longest sequence
            h.update(repr((name, value)).encode())
            continue
        for array in (value.values, value.offsets) if isinstance(value, leat.Ragged) else (value,):
            h.update(f"{name} {array.dtype} {array.shape}".encode())
            h.update(np.ascontiguousarray(array).tobytes())
    h.update(repr(batch.errors).encode())
    return h.hexdigest()


def seen(batch: Any) -> tuple[int, int, str]:
    return batch.epoch, batch.step, digest(batch)


def _serve(folder: str, make: Callable[..., leat.Loader], args: Any, forks: bool, pipe: Any) -> None:
    with leat.Port(make(*args), "p", folder=folder) as port:
        child = os.fork() if forks else -1
        if not child:
            signal.pause()
        pipe.send(child if forks else "open")
        while not pipe.poll(0.05):
            port.wait(0)


def _consume(folder: str, options: dict[str, Any], pipe: Any) -> None:
    try:
        reader = leat.attach("p", folder=folder, framework="numpy", **options)
    except Exception as error:
        pipe.send(error)
        return
    pipe.send("open")
    batches: Any = None
    held: list[Any] = []
    while True:
        try:
            order = pipe.recv()
        except EOFError:  # the test is over
            order = None
        if order is None:
            break
        what, *args = order
        try:
            if what == "read":  # so many batches, over the ends of epochs; None: to the end of this one
                got: list[Any] = []
                while args[0] is None or len(got) < args[0]:
                    batches = iter(reader) if batches is None else batches
                    batch = next(batches, None)
                    if batch is not None:
                        got.append(seen(batch))
                        held.append(batch)
                        del batch
                        if not args[1]:
                            held.clear()
                        continue
                    batches = None
                    if args[0] is None:
                        break
                pipe.send(got)
            elif what == "call":
                pipe.send(args[0](reader, *args[1:]))
            elif what == "check":  # what is held is as it was
                pipe.send([digest(b) for b in held])
            elif what == "drop":
                held.clear()
                pipe.send("dropped")
            elif what == "load":
                reader.load_state_dict(args[0])
                batches = None
                pipe.send("loaded")
        except Exception as error:
            pipe.send(error)
    held.clear()
    reader.close()


class Consumer(Process):
    def __init__(self, folder: Path, **options: Any) -> None:
        super().__init__(_consume, str(folder), options)
        self.answer()

    def ask(self, *order: Any) -> Any:
        self.pipe.send(order)
        return self.answer()

    def read(self, n: int | None = None, hold: bool = False) -> list[tuple[int, int, str]]:
        got: list[tuple[int, int, str]] = self.ask("read", n, hold)
        return got

    def call(self, function: Any, *args: Any) -> Any:
        return self.ask("call", function, *args)


class Server(Process):
    def __init__(self, folder: Path, make: Callable[..., leat.Loader], *args: Any, forks: bool = False) -> None:
        super().__init__(_serve, str(folder), make, args, forks)
        self.child = self.answer()  #: forked while the port is open


def numbers(rows: int, batch_size: int, **options: Any) -> leat.Loader:
    """A loader of rows of eight numbers and a list of some."""
    x = np.arange(rows * 8, dtype=np.int64).reshape(rows, 8)
    ds = leat.from_arrays(x=x, y=x[:, 0].astype(np.float32))
    return leat.Loader(ds, batch_size, shuffle=True, seed=7, framework="numpy", **options)


@cache
def wanted(rows: int, batch_size: int, epochs: int) -> list[tuple[int, int, str]]:
    return expected(numbers(rows, batch_size), epochs)


def expected(loader: leat.Loader, epochs: int = 1) -> list[tuple[int, int, str]]:
    with loader:
        return [seen(batch) for _ in range(epochs) for batch in loader]


def open_files(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


@contextlib.contextmanager
def undisturbed(server: Server, folder: Path, rows: int, batch_size: int, epochs: int = 12) -> Iterator[None]:
    """Two readers read while something else happens, and after it: they have the batches of loaders of their own, and
    the port has nothing left of whoever came.
    """
    pid = server.process.pid or 0
    with leat.attach("p", folder=folder, framework="numpy") as first:  # what it opens once is open
        next(iter(first))
    files, shared = open_files(pid), shared_memory()
    want = [wanted(rows, size, epochs) for size in (batch_size, 20)]
    readers = [Consumer(folder, batch_size=size, start="beginning") for size in (batch_size, 20)]
    for reader, batches in zip(readers, want, strict=True):
        reader.pipe.send(("read", len(batches) - 100, False))
    yield
    for reader, batches in zip(readers, want, strict=True):
        assert reader.answer() + reader.read(100) == batches
        reader.end()

    def is_empty() -> bool:
        stat = leat.ports.stat("p", folder=folder)
        return not stat["consumers"] and not stat["published"]

    eventually(is_empty)
    eventually(lambda: open_files(pid) <= files)
    assert {path.name for path in folder.iterdir()} == {"p.port", "p.lock"}
    assert not {name for name in shared_memory() - shared if "leat" in name}
