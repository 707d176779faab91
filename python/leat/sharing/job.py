"""One loader for the ranks of a job on one host: ``leat.Loader(..., share="job")``.

The first process of the host opens a port, which is named after the job and the loader, and all of them attach to it,
itself too. Each keeps a core of its own, which makes nothing as long as the port is there: it plans, it has the log and
the form of states, and it makes the batches that the port cannot. At any time one of the two has the position:

    reader of the port   from the beginning on
    own core             when the port has ended before this rank has; in an epoch whose sizes were decided elsewhere;
                         where operators mix the rows of a batch, and each rank has other rows
"""

from __future__ import annotations

import atexit
import collections
import contextlib
import hashlib
import json
import os
import re
import time
from collections.abc import Mapping
from typing import Any, NamedTuple, NoReturn

from .. import _leat, check, ranks
from ..errors import ClosedError, StateError, UnsupportedError, WaitTimeoutError
from ..program import per_batch
from . import known
from .served import Served, Shared, refuse

PATIENCE_S = 120.0  #: for the first process of the host to open the port
LOOK_S = 0.02  #: between two looks for it
PREFIX = "job-"  #: of the names of such ports
#: The values that tell a job, and a host in it, from others; ranks of a host have them in common.
JOB = ("TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT", "MASTER_ADDR", "MASTER_PORT")

_opened: collections.Counter[str] = collections.Counter()  #: loaders of this process, by name


def job_core(loader: Shared) -> Any:
    """The source of a loader with ``share="job"``: its own core, if there is nothing to share.

    Raises:
        UnsupportedError: a loader that processes cannot share; the text says why.
        WaitTimeoutError: the first process of the host has not opened this loader.
    """
    here = _host(loader)
    port: Served | None = None
    name, problem = "", None
    if here is not None:
        try:
            check_shared(loader)
            name = _name(loader, here)
            if int(os.environ["RANK"]) == here.ranks.start:
                port = _opened_port(loader, name, here.part)
        except Exception as e:  # the other ranks wait for this process to agree: they get the message first
            problem = e
    try:
        if loader._distributed:
            try:
                ranks.agree({**loader._common(), "the loader of share='job'": repr(problem)})
            except StateError:
                if problem is None:
                    raise
        if problem is not None:
            raise problem
        if here is None or loader._form.hidden:
            return loader._core
        rows = loader._global // loader.world_size
        return JobCore(loader._core, port, _attach(loader, name, rows), loader._global)
    except BaseException:
        if port is not None:
            port.close()
        raise


class Host(NamedTuple):
    """The facts that the processes of a host know of it."""

    ranks: range
    part: tuple[int, int]  #: of each global batch, which its port makes: (0, 2) is the first half


def _host(loader: Shared) -> Host | None:
    """This host, if its ranks have something to share: rows that are the same for some of them, or one part of each
    global batch.

    The numbers of the other processes of the host give their data-parallel ranks: peers follow one another, and stages
    of a pipeline come one behind the other. A rank that this is not true of gets its batches still, from its own core.
    """
    here, n = ranks.on_this_host(), loader.world_size
    if here is None or len(here) < 2 or (n == 1 and loader.mesh is None):
        return None
    processes = max(ranks.of_job() or n, len(here))
    peers = processes // n if loader.mesh is None else loader.mesh.tp.size * loader.mesh.cp.size
    found = sorted({rank // max(peers, 1) % n for rank in here})
    if len(here) == processes or len(found) == n:
        return Host(here, (0, 1))
    first, count = found[0], len(found)
    if found != list(range(first, first + count)) or n % count or first % count:
        return None
    return Host(here, (first // count, n // count))


def check_shared(loader: Shared) -> None:
    """Raises if the ranks of a host cannot share this loader."""
    refuse(loader)
    if any(per_batch(op) for entry in loader._entries or () for op in entry.chain):
        raise UnsupportedError("share='job': sizes that are drawn for each batch (leat.PerBatch) are not shared")
    if loader._global % loader.world_size:
        raise UnsupportedError(
            f"share='job': a global batch of {loader._global} rows is not the same for all of {loader.world_size} "
            "ranks: give batch_size"
        )


def _opened_port(loader: Shared, name: str, part: tuple[int, int]) -> Served:
    if loader._form.hidden:
        raise UnsupportedError(
            "share='job': the first process of a host opens the loader for all, and this one reads nothing: it is "
            "between the first and the last stage of a pipeline"
        )
    sweep()
    return Served(loader, name, part=part)


def _name(loader: Shared, here: Host) -> str:
    """For the port: the same in all processes of the host that open this loader, and no other."""
    facts = [os.environ.get(key, "") for key in JOB]
    said = hashlib.sha256(repr((facts, here.ranks.start, here.part, loader._common())).encode()).hexdigest()[:12]
    run = re.sub(r"[^A-Za-z0-9_.-]", "-", facts[0])[:16]
    _opened[said] += 1
    return f"{PREFIX}{run}-{said}-{_opened[said]}"


def _attach(loader: Shared, name: str, rows: int) -> _leat.Attached:
    options: dict[str, Any] = {
        "name": name,
        "folder": None,
        "batch_size": rows,
        "rank": loader.rank,
        "world_size": loader.world_size,
        "tail": check.choice("tail", loader._tail, check.TAILS),
        "lag": known.LAGS["recompute"],
        "beginning": True,
        "writable": True,
        "label": f"rank {os.environ['RANK']}",
        "patience_ms": 0,  # of a port that has ended: this process goes on by itself
    }
    end = time.monotonic() + PATIENCE_S
    while True:
        try:
            return _leat.Attached.open(**options)
        except FileNotFoundError:
            if time.monotonic() >= end:
                raise WaitTimeoutError(
                    "share='job': the first process of this host (LOCAL_RANK 0) has not opened this loader within "
                    f"{PATIENCE_S:.0f} s: every rank opens it, with the same data set and arguments (port {name})"
                ) from None
        time.sleep(LOOK_S)


def sweep() -> None:
    """Removes the sockets of processes that were killed: as a job begins, and as any of its ranks ends."""
    with contextlib.suppress(OSError):  # the process that opens a port there gets the reason
        known.ls()


class JobCore:
    """The core of a loader that ranks share, with the functions of ``_leat.Loader``."""

    def __init__(self, own: _leat.Loader, port: Served | None, attached: _leat.Attached, global_batch: int) -> None:
        self._own = own
        self._port = port  # of the first process of the host
        self._attached: _leat.Attached | None = attached
        self._about: dict[str, Any] = json.loads(attached.about())
        self._global = global_batch
        self._shares = True  # whether the reader of the port has the position
        self._run, self._inner = 0, 0  # the iteration, as it is known outside, and as it is read
        self._tries = True
        self._since = time.monotonic()
        attached.set_epoch(own.epoch())
        atexit.unregister(sweep)
        atexit.register(sweep)  # once

    def __getattr__(self, name: str) -> Any:
        return getattr(self._own, name)

    @property
    def _holder(self) -> _leat.Reader:
        return self._attached if self._shares and self._attached is not None else self._own

    # ---- iterating ---------------------------------------------------------------------------------------------------

    def start(self) -> int:
        if not self._shares:
            self._give_position()
        self._inner = self._holder.start()
        self._run += 1
        return self._run

    def next(self, number: int) -> _leat.Batch | None:
        if number != self._run:
            raise ClosedError("a newer iteration of this loader has begun")
        try:
            batch = self._holder.next(self._inner)
        except ClosedError:
            if not self._shares:
                raise
        else:
            if self._tries and batch is not None:
                self._try()
            return batch
        self._take_position()
        self._inner = self._own.start()
        return self._own.next(self._inner)

    def _try(self) -> None:
        """Once, behind the first batch within an epoch. A port makes the batches of operators that mix rows, such as
        MixUp, for each data-parallel rank apart, when it asks for one: its own core makes them ahead.
        """
        if self._attached is None or not json.loads(self.state())["at"]["row"]:
            return
        self._tries = False
        if json.loads(self._attached.stats())["made"]:
            self._take_position()
            self._inner = self._own.start()

    def epoch(self) -> int:
        return self._holder.epoch()

    def set_epoch(self, epoch: int) -> bool:
        return self._holder.set_epoch(epoch)

    def steps(self) -> int:
        try:
            return self._holder.steps()
        except ClosedError:
            if not self._shares:
                raise
        self._take_position()
        return self._own.steps()

    # ---- the position ------------------------------------------------------------------------------------------------

    def state(self) -> str:
        if not self._shares or self._attached is None:
            return self._own.state()
        return json.dumps({**json.loads(self._own.state()), "at": json.loads(self._attached.state())["at"]})

    def load_state(self, text: str) -> None:
        self._own.load_state(text)
        self._run += 1  # ends one that runs
        self._shares = False
        self._give_position()

    def _give_position(self) -> None:
        """From the own core to the reader of the port, if that can go on there: its batches are of the size that it was
        opened with, and begin at a multiple of it.
        """
        state = json.loads(self._own.state())
        if self._attached is None or not _is_plain(state["log"], state["at"], self._global):
            return
        try:
            position = {"at": state["at"], "step": state["at"]["row"] // self._global}
            self._attached.load_state(json.dumps({**json.loads(self._attached.state()), **position}))
        except ClosedError:
            self._drop()
        else:
            self._shares = True

    def _take_position(self) -> None:
        """From the reader of a port that has ended, to the own core."""
        state = self.state()
        self._drop()
        self._own.load_state(state)

    def _drop(self) -> None:
        self._shares = False
        if self._attached is not None:
            self._attached.close()
        self._attached = None

    # ---- looking -----------------------------------------------------------------------------------------------------

    def stats(self) -> str:
        found: dict[str, Any] = json.loads(self._own.stats())
        if self._attached is None:
            return json.dumps({**found, "shared": {**self._told(), "attached": False}})
        mine, position = json.loads(self._attached.stats()), json.loads(self.state())["at"]
        with contextlib.suppress(Exception):  # it may end at any time
            found = {**(self._port.stat() if self._port else known.stat(self._about["name"]))["loader"]}
        seconds = max(time.monotonic() - self._since, 1e-9)
        for name in ("samples", "bytes"):
            found[f"{name}_per_s"] = found[f"recent_{name}_per_s"] = mine[name] / seconds
        found.update({name: mine[name] for name in ("samples", "batches", "bytes")})
        found.update(
            consumer_wait_s=mine["wait_s"],
            consumer_waits=mine["waits"],
            **position,
            step=position["row"] // self._global,
            shared={**self._told(), **mine},
        )
        return json.dumps(found)

    def _told(self) -> dict[str, Any]:
        return {"port": self._about["name"], "pid": self._about["pid"], "leads": self._port is not None}

    # ---- limits of one of several ------------------------------------------------------------------------------------

    def set_global_batch_size(self, rows: int, epoch: int, step: int) -> NoReturn:
        _refuse("set_batch_size")

    def peek(self) -> NoReturn:
        _refuse("peek")

    def set_shares(self, epoch: int, step: int, shares: list[float]) -> NoReturn:
        _refuse("set_mixture")

    def consumer(self, batch_size: int, beginning: bool) -> NoReturn:
        _refuse("consumer")

    def trace(self, max_events: int) -> NoReturn:
        _refuse("trace")

    # ---- end ---------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Batches that are held stay valid. The other ranks go on by themselves, if this is the first."""
        if self._attached is not None:
            self._attached.close()
        if self._port is not None:
            self._port.close()
        self._own.close()
        sweep()


def _refuse(what: str) -> NoReturn:
    raise UnsupportedError(f"{what} is of one rank: a loader that ranks share (share='job') does not have it")


def _is_plain(log: list[Mapping[str, Any]], at: Mapping[str, Any], global_batch: int) -> bool:
    """Whether the batches from a position on are those of a loader without decisions."""
    size = log[0]["global_batch"]
    for entry in log[1:]:
        if entry["kind"] == "folded" or "shares" in entry or (entry["row"] and entry["epoch"] >= at["epoch"]):
            return False
        size = entry.get("global_batch", size)
    return bool(size == global_batch and log[0]["kind"] == "open")
