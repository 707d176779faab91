"""The flow of a loader's batches through a Ray cluster: what is asked for, what flies, what is ready, what was lost.

A batch is cut into partitions, runs of its rows. Each is a Ray task. The plan is the lineage: whatever a worker or a
node takes with it is asked for once more, by its position, and Ray's own retries are off.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import ray
import ray.exceptions as gone

from .. import __version__
from ..errors import BrokenSampleError, Error
from .parts import Assembled, Assembling, Made
from .tasks import Failed, make

READY = 2  #: batches that are put together before they are asked for
TRIES = 3  #: workers that a partition may take with it; then its rows are made one by one, and the row is broken that
#: takes as many
PART = 16 << 20  #: bytes of a partition, about
LOOK_S = 0.05  #: how long a look at what flies waits
PATIENCE_S = 10.0  #: how long nothing may come before it is said what is waited for

#: what a task ends in when its worker, its node or its result is gone, ...
_LOST = (
    gone.WorkerCrashedError,
    gone.OutOfMemoryError,
    gone.ObjectLostError,
    gone.NodeDiedError,
    gone.RaySystemError,
    gone.LocalRayletDiedError,
    gone.TaskUnschedulableError,
)
#: ... which may be a row's fault
_BLAMED = (gone.WorkerCrashedError, gone.OutOfMemoryError)


@dataclass
class Partition:
    """A run of rows of a batch."""

    first: int
    n: int
    ref: Any = None
    made: Made | None = None
    lost: int = 0  #: workers that died while they made it
    bytes: int = 0  #: that it is expected to have, while it flies


@dataclass
class Wanted:
    """A batch that is on its way."""

    epoch: int
    step: int
    plan: Mapping[str, Any]  #: `decisions`, and the ids that are planned
    parts: list[Partition]
    error: Exception | None = None
    made: Assembled | None = None
    tries: int = 0

    @property
    def whole(self) -> bool:
        return all(part.made is not None for part in self.parts)


@dataclass
class Counts:
    """What has happened since the loader was opened."""

    tasks: int = 0
    again: int = 0  #: partitions that were made again, because what had them was lost
    bytes: int = 0  #: that came
    peak_bytes: int = 0  #: of what flew or lay in stores, at most
    nodes: dict[str, int] = field(default_factory=dict)  #: rows by who made them


class Flow:
    """Batches of one loader. A thread of its own receives and puts together; any thread may ask."""

    def __init__(
        self,
        common: Mapping[str, Any],
        assembling: Assembling,
        row_bytes: int,
        budget_bytes: int,
        num_cpus: float,
        whole: bool,
    ) -> None:
        """`row_bytes`: of a row as it travels, as the program says; `whole`: rows of a batch are made together."""
        self._common, self._assembling = ray.put(dict(common)), assembling
        self._decisions: tuple[Any, Any] = (None, None)
        self._task = ray.remote(make).options(
            num_cpus=num_cpus, max_retries=0, scheduling_strategy="SPREAD", name="leat"
        )
        self._threads = max(1, int(num_cpus))
        self._num_cpus, self._budget, self._whole = num_cpus, budget_bytes, whole
        self.row_bytes = row_bytes
        self.counts = Counts()
        self._wanted: OrderedDict[tuple[int, int], Wanted] = OrderedDict()
        self._flying: dict[Any, tuple[Wanted, Partition]] = {}
        self._changed = threading.Condition()
        self._closed = False
        self._slots = (0.0, 0)
        self._failed: BaseException | None = None
        self._thread = threading.Thread(target=self._receive, name="leat ray", daemon=True)
        self._thread.start()

    # ---- asking ------------------------------------------------------------------------------------------------------

    def ahead(self, rows: int) -> int:
        """How many batches of so many rows are worth asking for."""
        return max(2, min(64, self._budget // max(1, rows * self.row_bytes)))

    def keep(self, keys: list[tuple[int, int]], decisions: Any) -> None:
        """Gives up what is on its way, except for these batches as planned by these decisions."""
        with self._changed:
            for key in [k for k, w in self._wanted.items() if k not in keys or w.plan["decisions"] != decisions]:
                self._drop(key)

    def knows(self, key: tuple[int, int]) -> bool:
        return key in self._wanted

    def ask(self, epoch: int, step: int, rows: int, decisions: Any, urgent: bool = False) -> None:
        """Asks for a batch, behind those that were asked for before; or, if it is urgent, before them."""
        size = rows if self._whole else max(1, min(rows, PART // max(1, self.row_bytes)))
        n = -(-rows // size)
        borders = [i * rows // n for i in range(n + 1)]
        parts = [Partition(a, b - a) for a, b in zip(borders, borders[1:])]
        with self._changed:
            self._wanted[epoch, step] = Wanted(epoch, step, {"decisions": decisions}, parts)
            if urgent:
                self._wanted.move_to_end((epoch, step), last=False)
            self._launch()

    def take(self, epoch: int, step: int) -> Assembled:
        """Waits for a batch that was asked for. It stays until it is dropped.

        Raises:
            the error of one of its rows: asking again tries again.
        """
        said = time.monotonic()
        with self._changed:
            wanted = self._wanted[epoch, step]
            while wanted.made is None and wanted.error is None:
                if self._failed is not None:
                    raise RuntimeError(f"the thread of the Ray loader has failed: {self._failed!r}") from self._failed
                self._changed.wait(0.2)
                if time.monotonic() - said > PATIENCE_S:
                    said = time.monotonic()
                    self._say_what_is_missing(wanted)
            if wanted.error is not None:
                self._drop((epoch, step))
                raise wanted.error
            assert wanted.made is not None
            return wanted.made

    def drop(self, epoch: int, step: int) -> None:
        """Ends a batch that was handed out."""
        with self._changed:
            self._drop((epoch, step))
            self._launch()

    def _drop(self, key: tuple[int, int]) -> None:
        wanted = self._wanted.pop(key, None)
        for part in () if wanted is None else wanted.parts:
            # Nothing is cancelled: ray.cancel() of a task that is just failing ends the whole process (Ray 2.60, a check
            # in task_manager.cc). At most two tasks per CPU run to their end for nobody.
            self._flying.pop(part.ref, None)
            part.ref = part.made = None

    # ---- launching ---------------------------------------------------------------------------------------------------

    def bytes(self) -> int:
        """Bytes that fly, or lie in stores for this loader."""
        return sum(p.bytes for w in self._wanted.values() for p in w.parts if p.ref is not None or p.made is not None)

    def slots(self) -> int:
        """How many tasks the cluster runs at a time."""
        at, n = self._slots
        if time.monotonic() - at > 1:
            n = int(ray.cluster_resources().get("CPU", 0) / self._num_cpus)
            self._slots = (time.monotonic(), n)
        return n

    def _launch(self) -> None:
        most, held = 2 * max(1, self.slots()), self.bytes()
        first = next((w for w in self._wanted.values() if w.made is None), None)
        for wanted in self._wanted.values():
            for part in wanted.parts:
                if part.ref is not None or part.made is not None or wanted.made is not None or wanted.error is not None:
                    continue
                size = part.n * self.row_bytes
                if len(self._flying) >= most or (held + size > self._budget and wanted is not first):
                    return
                self._start(wanted, part, size)
                held += size
                self.counts.peak_bytes = max(self.counts.peak_bytes, held)

    def _start(self, wanted: Wanted, part: Partition, size: int) -> None:
        decisions = wanted.plan["decisions"]
        if self._decisions[0] != decisions:
            self._decisions = (decisions, ray.put(decisions))
        place = {"epoch": wanted.epoch, "step": wanted.step, "rows": [part.first, part.n]}
        part.ref = self._task.remote(self._common, self._decisions[1], place, self._threads, __version__)
        part.bytes = size
        self._flying[part.ref] = (wanted, part)
        self.counts.tasks += 1

    def _say_what_is_missing(self, wanted: Wanted) -> None:
        import warnings

        flying = sum(part.made is None for part in wanted.parts)
        cpus = ray.available_resources().get("CPU", 0)
        warnings.warn(
            f"epoch {wanted.epoch}, step {wanted.step}: waiting for {flying} of {len(wanted.parts)} partitions; the "
            f"cluster has {len([n for n in ray.nodes() if n['Alive']])} nodes, room for {self.slots()} tasks of "
            f"{self._num_cpus:g} CPU, and {cpus:g} CPU free",
            stacklevel=4,
        )

    # ---- receiving ---------------------------------------------------------------------------------------------------

    def _receive(self) -> None:
        try:
            while not self._closed:
                with self._changed:
                    refs = list(self._flying)
                    if not refs:
                        self._launch()
                        self._changed.wait(LOOK_S)
                        refs = list(self._flying)
                done = ray.wait(refs, num_returns=len(refs), timeout=0)[0] if refs else []
                if refs and not done:
                    done = ray.wait(refs, num_returns=1, timeout=LOOK_S)[0]
                for ref in done:
                    self._arrived(ref)
                self._assemble()
        except BaseException as e:  # noqa: BLE001 the reader is told
            if not self._closed:
                self._failed = e

    def _arrived(self, ref: Any) -> None:
        found: Any = None
        try:
            found = ray.get(ref)
        except (*_LOST, gone.RayTaskError, gone.TaskCancelledError) as e:
            found = e
        with self._changed:
            where = self._flying.pop(ref, None)
            if where is None:
                return  # given up
            wanted, part = where
            part.ref = None
            if isinstance(found, Made):
                part.made = found
                part.bytes = found.nbytes
                if len(found.ids):
                    self.row_bytes = max(self.row_bytes, -(-found.nbytes // len(found.ids)))
                self.counts.bytes += found.nbytes
                self.counts.nodes[found.node] = self.counts.nodes.get(found.node, 0) + len(found.ids)
            elif isinstance(found, Failed):
                wanted.error = _told(found.error, wanted, found.node)
            elif isinstance(found, _LOST):
                self._again(wanted, part, found)
            else:
                wanted.error = _told(found, wanted, "Ray")
            self._launch()
            self._changed.notify_all()

    def _again(self, wanted: Wanted, part: Partition, error: BaseException) -> None:
        """What was lost is asked for once more; if workers die of it, row by row."""
        self.counts.again += 1
        part.bytes = 0
        part.lost += isinstance(error, _BLAMED)
        if part.lost < TRIES:
            return
        if part.n > 1 and not self._whole:
            at = wanted.parts.index(part)
            wanted.parts[at : at + 1] = [Partition(part.first + i, 1) for i in range(part.n)]
            return
        rows = f"row {part.first}" if part.n == 1 else f"rows {part.first} to {part.first + part.n - 1}"
        wanted.error = BrokenSampleError(
            f"epoch {wanted.epoch}, step {wanted.step}: {rows} of the batch took {TRIES} Ray workers with them, the "
            f"last by: {error}"
        )

    def _assemble(self) -> None:
        with self._changed:
            ready = [w for w in list(self._wanted.values())[:READY] if w.made is None and w.error is None and w.whole]
        for wanted in ready:
            try:
                made = self._assembling.batch([p.made for p in wanted.parts if p.made], wanted.epoch, wanted.step)
            except Exception as e:  # noqa: BLE001 the reader of that batch is told
                wanted.error = e
            else:
                wanted.made = made
            with self._changed:
                for part in wanted.parts:  # the store is free of them
                    part.made = None
                    part.bytes = 0
                self._launch()
                self._changed.notify_all()

    def told(self) -> dict[str, Any]:
        """For statistics."""
        with self._changed:
            now, flying = self.bytes(), len(self._flying)
        about = {"tasks": self.counts.tasks, "flying": flying, "again": self.counts.again, "bytes": self.counts.bytes}
        about |= {"in_use_bytes": now, "peak_bytes": self.counts.peak_bytes, "budget_bytes": self._budget}
        return {**about, "slots": self.slots(), "row_bytes": self.row_bytes, "nodes": dict(self.counts.nodes)}

    def close(self) -> None:
        """Gives up all that is on its way, and ends the thread."""
        self._closed = True
        with self._changed:
            for key in list(self._wanted):
                self._drop(key)
            self._changed.notify_all()
        if threading.current_thread() is not self._thread:
            self._thread.join(10)
        self._assembling.close()


def _told(error: Exception, wanted: Wanted, node: str) -> Exception:
    """The error with where and when it was."""
    where = f"on {node}, epoch {wanted.epoch}, step {wanted.step}"
    if isinstance(error, Error) and error.args:
        error.args = (f"{error.args[0]} ({where})", *error.args[1:])
    else:
        error.add_note(where)
    return error
