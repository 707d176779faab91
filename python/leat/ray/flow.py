"""The flow of a loader's batches through a Ray cluster: what is asked for, what flies, what is ready, what was lost.

A batch is cut into partitions, runs of its rows. Each is a Ray task. The plan is the lineage: whatever a worker or a
node takes with it is asked for once more, by its position, and Ray's own retries are off.
"""

from __future__ import annotations

import contextlib
import copy
import json
import threading
import time
import warnings
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import ray
import ray.exceptions as gone

from .. import __version__
from ..errors import BrokenSampleError, Error, InvalidError
from .actors import Pool, connected
from .parts import Assembled, Assembling, Made, empty, owned, rows_between
from .policies import PART, Call, Make, Partition, Queue, State, admit, ahead, cut, grown, peak_bytes, queued, together
from .stages import Stage
from .tasks import Failed, Ran, make, make_sized

READY = 2  #: batches that are put together before they are asked for
TRIES = 3  #: workers that a partition may take with it; then its rows are made one by one, and the row is broken that
#: takes as many
LOOK_S = 0.05  #: how long a look at what flies waits
KNOWN = 4096  #: calls of stages whose hashes are kept, to compare
PATIENCE_S = 10.0  #: how long nothing may come before it is said what is waited for
TOLD_S = 0.5  #: seconds between what leat top and leat doctor see
SHOWN = 8  #: nodes, and stages, in it
MOST_TOLD = 2048  #: bytes of it: LEAT_MOST_TOLD

#: what a task ends in when its worker, its node or its result is gone, ...
_LOST = (
    gone.WorkerCrashedError,
    gone.OutOfMemoryError,
    gone.RayActorError,
    gone.ObjectLostError,
    gone.NodeDiedError,
    gone.RaySystemError,
    gone.LocalRayletDiedError,
    gone.TaskUnschedulableError,
)
#: ... which may be a row's fault
_BLAMED = (gone.WorkerCrashedError, gone.OutOfMemoryError, gone.RayActorError, gone.RaySystemError)


@dataclass(eq=False)
class Piece:
    """A run of rows of a planned batch: as the program makes them, or behind a stage."""

    level: int  #: 0: of the program; k: of the k-th stage
    step: int  #: of the planned batch
    first: int
    n: int
    inputs: list[tuple[Piece, int, int]] = field(default_factory=list)  #: and between which of their rows
    ref: Any = None  #: of the rows, from when they are asked for until nobody needs them
    flying: Any = None  #: what is waited for, which may have several pieces
    place: int = 0  #: among these
    actor: Any = None  #: that runs the stage
    done: bool = False
    made: Made | None = None  #: here
    lost: int = 0  #: workers that died while they made it
    bytes: int = 0  #: that fly, or lie in stores


class Run(NamedTuple):
    """Rows of a planned batch that has `of` rows."""

    step: int
    rows: tuple[range, ...]
    of: int


Key = tuple[Any, ...]  #: of a batch: its epoch, and what tells it from the others


@dataclass(eq=False)
class Wanted:
    """A batch that is on its way, with the place of its first row."""

    epoch: int
    step: int
    decisions: Any
    pieces: list[Piece]  #: each behind its inputs
    parts: list[tuple[Piece, int, int]]  #: the last ones, with the rows of them that are delivered
    error: Exception | None = None
    made: Assembled | None = None
    hashes: dict[tuple[int, int], str] = field(default_factory=dict)  #: of what stages returned, by level and row

    @property
    def whole(self) -> bool:
        return all(piece.made is not None for piece, _, _ in self.parts)


@dataclass(eq=False)
class Flight:
    """A task or a call on its way."""

    level: int
    pieces: list[tuple[Wanted, Piece]]  #: that are wanted still; all may be given up
    actor: Any = None  #: that runs the call
    bytes: int = 0  #: of those that were given up


@dataclass
class Counts:
    """What has happened since the loader was opened."""

    tasks: int = 0
    again: int = 0  #: pieces that were made again, because what had them was lost
    bytes: int = 0  #: that came
    peak_bytes: int = 0  #: of what flew or lay in stores, at most
    wait_s: float = 0.0  #: that readers waited for batches
    nodes: dict[str, int] = field(default_factory=dict)  #: rows by who made them


@dataclass(frozen=True)
class Job:
    """What a flow makes.

    `common`: the part that all plans of rows have in common; `row_bytes`: of a row as it travels, by the first one;
    `together`: rows of a batch can only be made together.
    """

    common: Mapping[str, Any]
    row_bytes: int
    budget_bytes: int
    num_cpus: float
    together: bool
    stages: tuple[Stage, ...] = ()
    in_order: bool = True


class Flow:
    """Batches of one loader. A thread of its own receives and puts together; any thread may ask."""

    def __init__(self, job: Job, assembling: Assembling, tell: Callable[[str], None]) -> None:
        """`tell`: takes what leat top and leat doctor say besides, as JSON."""
        self._job, self._assembling, self._tell = job, assembling, tell
        self._said = 0.0  # when `tell` was called
        self._asked: float | None = None  # since when the reader waits
        self._common = ray.put(dict(job.common))
        self._decisions: tuple[Any, Any] = (None, None)
        options = {"num_cpus": job.num_cpus, "max_retries": 0, "scheduling_strategy": "SPREAD", "name": "leat"}
        self._task = ray.remote(make).options(**options)
        self._sized = ray.remote(make_sized).options(num_returns=2, **options)
        self._pools = [Pool(stage) for stage in job.stages]
        self.row_bytes = job.row_bytes  #: at most, as seen
        self.counts = Counts()
        self._hashes: OrderedDict[tuple[str, int, int, int, int], str] = OrderedDict()  # of what stages returned
        self._wanted: OrderedDict[Key, Wanted] = OrderedDict()
        self._front: Sequence[Key] = ()  # without order: what the reader would take
        self._flying: dict[Any, Flight] = {}  # by what is waited for
        self._changed = threading.Condition()
        self._assembly = threading.Lock()  # taken before `_changed`
        self._closed = False
        self._cpus = (0.0, 0.0)  # of the cluster, and when it was asked
        self._failed: BaseException | None = None
        if not self.slots():
            raise InvalidError(
                f"the Ray cluster has {ray.cluster_resources().get('CPU', 0):g} CPUs: actors of stages take "
                f"{sum(pool.cpus for pool in self._pools):g} of them, and a task {job.num_cpus:g}"
            )
        self._thread = threading.Thread(target=self._receive, name="leat ray", daemon=True)
        self._thread.start()

    # ---- asking ------------------------------------------------------------------------------------------------------

    def ahead(self, rows: int) -> int:
        """How many batches of so many rows are worth asking for."""
        return ahead(self._job.budget_bytes, rows * self.row_bytes)

    def keep(self, keys: Sequence[Key], decisions: Any) -> None:
        """Gives up what is on its way, except for these batches as planned by these decisions."""
        with self._changed:
            kept = set(keys)
            for key in [k for k, w in self._wanted.items() if k not in kept or w.decisions != decisions]:
                self._drop(key)

    def arrange(self, keys: Sequence[Key]) -> None:
        """The order in which batches are wanted: of all."""
        with self._changed:
            self._wanted = OrderedDict((key, self._wanted[key]) for key in keys)
            self._launch()

    def knows(self, key: Key, decisions: Any) -> bool:
        """Whether a batch is on its way, as planned by these decisions."""
        wanted = self._wanted.get(key)
        return wanted is not None and wanted.decisions == decisions

    def ask(self, key: Key, runs: Sequence[Run], decisions: Any, urgent: bool = False) -> None:
        """Asks for a batch of these rows of epoch `key[0]`, behind what was asked for before; or, if it is urgent,
        before that."""
        pieces, parts = list[Piece](), list[tuple[Piece, int, int]]()
        for step, rows, of in runs:
            for some in [rows] if self._pools else [(each,) for each in rows]:  # a call may have rows of several
                more, last = self._cut(step, some, of)
                pieces += more
                parts += last
        with self._changed:
            if self._closed:
                raise InvalidError("the loader is closed")
            self._drop(key)
            self._wanted[key] = Wanted(key[0], runs[0].step, decisions, pieces, parts)
            if urgent:
                self._wanted.move_to_end(key, last=False)
            self._launch()

    def _cut(self, step: int, rows: Sequence[range], of: int) -> tuple[list[Piece], list[tuple[Piece, int, int]]]:
        """The pieces of rows of a planned batch, and those that are delivered. Calls of a stage begin at multiples of
        its batch_size."""
        wanted, levels = (rows[0].start, rows[-1].stop), []
        for k in range(len(self._job.stages), 0, -1):
            n = self._job.stages[k - 1].batch_size or of
            first = wanted[0] // n * n
            calls = [Piece(k, step, a, min(n, of - a)) for a in range(first, wanted[1], n)]
            levels.append(calls)
            wanted = (first, calls[-1].first + calls[-1].n)
        runs = [wanted] if self._job.together else cut(*wanted, self.row_bytes)
        levels.append([Piece(0, step, a, b - a) for a, b in runs])
        levels.reverse()
        for before, level in zip(levels, levels[1:]):
            for piece in level:
                piece.inputs = _overlaps(before, piece.first, piece.first + piece.n)
        parts = [part for each in rows for part in _overlaps(levels[-1], each.start, each.stop)]
        return [piece for level in levels for piece in level], parts

    def take(self, key: Key) -> Assembled:
        """Waits for a batch that was asked for. It stays until it is dropped.

        Raises:
            the error of one of its rows: then it has to be asked for again.
        """
        return self.first_of([key])[1]

    def first_of(self, keys: Sequence[Key]) -> tuple[Key, Assembled]:
        """Waits until one of these batches is there; the first of them. An error is raised if it is that of the first
        one, or all have one."""
        said = time.monotonic()
        with self._changed:
            if self._closed:
                raise InvalidError("the loader is closed")
            wanted = {key: self._wanted[key] for key in keys}
            self._front, self._asked = keys, said
        try:
            with self._changed:
                self._launch()
            while True:
                with self._changed:
                    if (found := self._first(wanted)) is not None:
                        return found
                    whole = next((each for each in wanted.values() if each.whole and each.error is None), None)
                    if whole is None:
                        self._changed.wait(0.2)
                if whole is not None:  # the thread may wait for others to arrive
                    self._put_together([whole])
                elif time.monotonic() - said > PATIENCE_S:
                    said = time.monotonic()
                    warnings.warn(self._missing(wanted[keys[0]]), stacklevel=9)
        finally:
            self.counts.wait_s, self._asked = self._waited(), None

    def _first(self, wanted: Mapping[Key, Wanted]) -> tuple[Key, Assembled] | None:
        """The first of these that is there, or the error that stands in its place."""
        for key, each in wanted.items():
            if each.made is not None:
                return key, each.made
        broken = [(key, each.error) for key, each in wanted.items() if each.error is not None]
        if broken and (broken[0][0] == next(iter(wanted)) or len(broken) == len(wanted)):
            self._drop(broken[0][0])
            raise broken[0][1]
        if isinstance(self._failed, InvalidError):
            raise self._failed
        if self._failed is not None:
            raise RuntimeError(f"the thread of the Ray loader has failed: {self._failed!r}") from self._failed
        return None

    def hashes(self, key: Key) -> list[str]:
        """Those of what stages returned for a batch, by stage and row."""
        return [digest for _, digest in sorted(self._wanted[key].hashes.items())]

    def drop(self, key: Key) -> None:
        """Ends a batch that was handed out."""
        with self._changed:
            self._drop(key)
            with contextlib.suppress(InvalidError):  # Ray is gone, which the next batch is told
                self._launch()

    def _drop(self, key: Key) -> None:
        wanted = self._wanted.pop(key, None)
        if wanted is not None and wanted.made is None and wanted.error is None:
            wanted.error = InvalidError("the batch was given up: the loader was closed, or asked for other ones")
            self._changed.notify_all()
        for piece in () if wanted is None else wanted.pieces:
            # Nothing is cancelled: ray.cancel() of a task that is just failing ends the whole process (Ray 2.60, a
            # check in task_manager.cc). What flies runs to its end for nobody.
            self._land(piece)
            piece.ref = piece.made = None
            piece.bytes = 0

    # ---- launching ---------------------------------------------------------------------------------------------------

    def bytes(self) -> int:
        """Bytes that fly, or lie in stores for this loader."""
        wanted = sum(piece.bytes for wanted in self._wanted.values() for piece in wanted.pieces)
        return wanted + self._given_up()

    def _given_up(self) -> int:
        """Bytes that fly for nobody."""
        return sum(flight.bytes for flight in self._flying.values())

    def _free_cpus(self) -> float:
        """The CPUs of the cluster, beside those of actors."""
        at, cpus = self._cpus
        if time.monotonic() - at > 1:
            cpus = connected().cluster_resources().get("CPU", 0.0)
            self._cpus = (time.monotonic(), cpus)
        return float(cpus - sum(pool.cpus for pool in self._pools))

    def slots(self) -> int:
        """How many tasks the cluster runs at a time, beside the actors of stages."""
        return max(0, int(self._free_cpus() / self._job.num_cpus))

    def _launch(self) -> None:
        """Starts what there is room for (policies.py)."""
        order = [w for w in self._wanted.values() if w.made is None and w.error is None]
        queues = [self._queue(k, pool, order) for k, pool in enumerate(self._pools, 1)]
        if not order:
            return
        flying, n = sum(flight.level == 0 for flight in self._flying.values()), max(1, self.slots())
        each = order[0].pieces[0].n * self.row_bytes
        many = 1 if self._pools else together(each, len(order), n)
        slots = (queued(many * each) * n - flying) * many
        state = State(
            self._job.budget_bytes,
            self._held(order),
            0,
            self._partitions(order),
            slots,
            queues,
        )
        makes = deque[tuple[Wanted, Piece]]()
        for launch in admit(state):
            if isinstance(launch, Make):
                wanted = order[launch.partition.batch]
                makes.append((wanted, wanted.pieces[launch.partition.part]))
            else:
                wanted = order[launch.call.batch]
                self._call(wanted, wanted.pieces[launch.call.call])
        near = order[:many]
        while makes:
            some = [makes.popleft()]
            wanted, piece = some[0]
            while makes and len(some) < many and not piece.lost and _alike(some[0], makes[0]):
                some.append(makes.popleft())
            idle = self._asked is not None and flying < n
            if makes or len(some) == many or idle or any(wanted is w for w in near):  # else they wait to be more
                self._start(some)
                flying += 1
        self.counts.peak_bytes = max(self.counts.peak_bytes, self.bytes())

    def _held(self, order: list[Wanted]) -> int:
        """The bytes that what was launched takes, or may come to take on its way through stages."""
        growths = [pool.growth for pool in self._pools]
        launched = [p for w in order for p in w.pieces if not p.level and (p.done or p.flying is not None)]
        return self._given_up() + sum(max(p.bytes, peak_bytes(p.n * self.row_bytes, growths)) for p in launched)

    def _partitions(self, order: list[Wanted]) -> Iterator[Partition]:
        """Those that are to be made, in order."""
        for batch, wanted in enumerate(order):
            for part, piece in enumerate(wanted.pieces):
                if not (piece.level or piece.done or piece.flying):
                    yield Partition(batch, part, piece.n * self.row_bytes)

    def _queue(self, level: int, pool: Pool, order: list[Wanted]) -> Queue:
        """The calls of a stage whose rows are all there."""
        calls = [
            Call(batch, part)
            for batch, wanted in enumerate(order)
            for part, piece in enumerate(wanted.pieces)
            if piece.level == level and not (piece.done or piece.flying) and all(i.done for i, _, _ in piece.inputs)
        ]
        pool.resize(len(calls), self._free_cpus() - self._job.num_cpus)
        return Queue(pool.room(), calls, pool.growth)

    def _start(self, some: list[tuple[Wanted, Piece]]) -> None:
        """Starts the task that makes these."""
        decisions = some[0][0].decisions
        if self._decisions[0] != decisions or self._decisions[1] is None:
            self._decisions = (decisions, connected().put(decisions))
        places = [{"epoch": w.epoch, "step": p.step, "rows": [p.first, p.n]} for w, p in some]
        args = (self._common, self._decisions[1], places, max(1, int(self._job.num_cpus)), __version__)
        connected()
        refs = self._sized.remote(*args) if self._pools else [self._task.remote(*args)]
        self._fly(Flight(0, some), refs)
        for _, piece in some:
            piece.bytes = piece.n * self.row_bytes
        self.counts.tasks += 1

    def _call(self, wanted: Wanted, piece: Piece) -> None:
        flight = Flight(piece.level, [(wanted, piece)])
        piece.actor = flight.actor = self._pools[piece.level - 1].take(flight)
        call = flight.actor.handle.call.options(num_returns=2)
        connected()
        self._fly(flight, call.remote([(a, b) for _, a, b in piece.inputs], *(i.ref for i, _, _ in piece.inputs)))

    def _fly(self, flight: Flight, refs: list[Any]) -> None:
        """`refs`: of what is waited for, and of the rows: one, or two."""
        for place, (_, piece) in enumerate(flight.pieces):
            piece.flying, piece.ref, piece.place = refs[0], refs[-1], place
        self._flying[refs[0]] = flight

    def _land(self, piece: Piece) -> None:
        """The piece is given up. What makes it goes on, and counts until it has ended."""
        flight = self._flying.get(piece.flying) if piece.flying is not None else None
        if flight is not None:
            flight.pieces = [(w, p) for w, p in flight.pieces if p is not piece]
            flight.bytes += piece.bytes
        piece.flying = piece.actor = None

    def _missing(self, wanted: Wanted) -> str:
        """What a batch waits for."""
        where = f"epoch {wanted.epoch}, step {wanted.step}: waiting for"
        for piece in wanted.pieces:
            if piece.level and piece.flying is not None:
                stage = self._job.stages[piece.level - 1].name
                return f"{where} stage {stage!r}, rows {piece.first} to {piece.first + piece.n}, {piece.actor.node()}"
        alive, cpus = sum(n["Alive"] for n in connected().nodes()), connected().available_resources().get("CPU", 0)
        return (
            f"{where} {sum(not p.done for p in wanted.pieces)} of {len(wanted.pieces)} partitions; the cluster has "
            f"{alive} nodes, room for {self.slots()} tasks of {self._job.num_cpus:g} CPU, and {cpus:g} CPU free"
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
                done = connected().wait(refs, num_returns=len(refs), timeout=0)[0] if refs else []
                if refs and not done:
                    done = connected().wait(refs, num_returns=1, timeout=LOOK_S)[0]
                for ref in done:
                    self._arrived(ref)
                self._assemble()
                self._say()
        except BaseException as e:  # noqa: BLE001 the reader is told
            if not self._closed:
                self._failed = e

    def _arrived(self, ref: Any) -> None:
        found, told = _got(ref), None
        if isinstance(found, list):  # of several, each is given up when its own batch is put together
            found = [owned(made) if isinstance(made, Made) and len(found) > 1 else made for made in found]
        with self._changed:
            flight = self._flying.get(ref)
            if flight is None:
                return
            rows = [p.ref for w, p in flight.pieces if any(p is last for last, _, _ in w.parts)]
        if isinstance(found, Ran):
            told = found
            if rows and rows[0] is not None:  # the rows themselves are wanted here
                found = _got(rows[0])
        with self._changed:
            del self._flying[ref]
            blamed = isinstance(found, _BLAMED) and (flight.actor is None or flight.actor.ran(flight))
            if flight.actor is not None:
                flight.actor.calls.remove(flight)
                if isinstance(found, gone.RayActorError):
                    self._pools[flight.level - 1].lost(flight.actor)
            for wanted, piece in flight.pieces:  # those that were not given up meanwhile
                piece.flying = None
                piece.lost += blamed
                self._settle(wanted, piece, found[piece.place] if isinstance(found, list) else found, told)
                piece.actor = None
            self._launch()
            self._changed.notify_all()

    def _settle(self, wanted: Wanted, piece: Piece, found: Any, told: Ran | None) -> None:
        """Takes in the outcome for a piece."""
        if isinstance(found, (Made, Ran)):
            self._take_in(wanted, piece, found, told)
        elif isinstance(found, Failed):
            wanted.error = _told(found.error, wanted, found.node)
        elif isinstance(found, _LOST):
            self._again(wanted, piece, found)
        else:
            wanted.error = _told(copy.copy(found), wanted, "Ray")  # each batch has its own

    def _take_in(self, wanted: Wanted, piece: Piece, found: Made | Ran, told: Ran | None) -> None:
        rows = found.rows if isinstance(found, Ran) else len(found.ids)
        piece.done, piece.bytes = True, found.nbytes
        if rows and not piece.level:
            self.row_bytes = max(self.row_bytes, -(-found.nbytes // rows))
        if isinstance(found, Made):
            piece.made, piece.ref = found, None
            self.counts.bytes += found.nbytes
        if not piece.level:
            self.counts.nodes[found.node] = self.counts.nodes.get(found.node, 0) + rows
        elif told is not None:
            self._check(wanted, piece, told)
        for before, _, _ in piece.inputs:  # whose every reader is done lies in the store for nobody
            if all(p.done for p in wanted.pieces if any(i is before for i, _, _ in p.inputs)):
                before.ref, before.bytes = None, 0

    def _check(self, wanted: Wanted, piece: Piece, told: Ran) -> None:
        """Compares what a stage returned with the last time, and with its other calls."""
        pool = self._pools[piece.level - 1]
        stage, where = pool.stage, f"rows {piece.first} to {piece.first + piece.n}"
        pool.rows, pool.calls, pool.seconds = pool.rows + told.rows, pool.calls + 1, pool.seconds + told.seconds
        if told.rows:
            taken = sum(i.bytes * (b - a) // max(1, i.n) for i, a, b in piece.inputs)
            pool.growth = grown(pool.growth, taken, told.nbytes)
            pool.types = pool.types or told.types
        wanted.hashes[piece.level, piece.first] = told.hash
        if told.rows and told.types != pool.types:
            types = InvalidError(f"stage {stage.name!r} returned {told.types} for {where}, and {pool.types} before")
            wanted.error = _told(types, wanted, told.node)
        if not stage.deterministic:
            return
        place = (json.dumps(wanted.decisions), wanted.epoch, piece.step, piece.level, piece.first)
        if self._hashes.setdefault(place, told.hash) != told.hash:
            other = InvalidError(
                f"stage {stage.name!r} gave other bytes for {where} than the first time: it is not deterministic; say "
                "so with Stage(deterministic=False)"
            )
            wanted.error = _told(other, wanted, told.node)
        while len(self._hashes) > KNOWN:
            self._hashes.popitem(last=False)

    def _again(self, wanted: Wanted, piece: Piece, error: BaseException) -> None:
        """What was lost is asked for once more; if workers die of it, row by row."""
        self.counts.again += 1
        piece.bytes, piece.ref = 0, None
        loose = next((k for k, s in enumerate(self._job.stages, 1) if not s.deterministic), None)
        if loose is not None and piece.level >= loose:
            self._redo([p for p in wanted.pieces if p.level >= loose])  # a batch is of one execution
        self._redo([i for i, _, _ in piece.inputs if isinstance(error, gone.ObjectLostError) or i.ref is None])
        if piece.lost < TRIES:
            return
        if piece.n > 1 and not self._job.together and not self._pools:
            at, place = wanted.pieces.index(piece), [p for p, _, _ in wanted.parts].index(piece)
            _, a, b = wanted.parts[place]
            single = [Piece(0, piece.step, piece.first + i, 1) for i in range(piece.n)]
            wanted.pieces[at : at + 1] = single
            wanted.parts[place : place + 1] = [(p, 0, 1) for p in single[a:b]]
            return
        rows = f"row {piece.first}" if piece.n == 1 else f"rows {piece.first} to {piece.first + piece.n - 1}"
        by = f", in stage {self._job.stages[piece.level - 1].name!r}" if piece.level else ""
        wanted.error = BrokenSampleError(
            f"epoch {wanted.epoch}, step {piece.step}: {rows} of the batch took {TRIES} Ray workers with them{by}, "
            f"the last by: {error}"
        )

    def _redo(self, pieces: list[Piece]) -> None:
        """Forgets these, with what they were made of, if that is gone."""
        for piece in pieces:
            self._land(piece)
            if piece.done:
                self.counts.again += 1
            piece.ref = piece.made = None
            piece.done, piece.bytes = False, 0
            self._redo([i for i, _, _ in piece.inputs if i.ref is None and i.flying is None])

    def _near(self) -> list[Wanted]:
        """The next batches of the reader; without order, of those that are there."""
        if self._job.in_order:
            return list(self._wanted.values())[:READY]
        front = [self._wanted[key] for key in self._front if key in self._wanted]
        return [wanted for wanted in front if wanted.made is not None or wanted.whole][:READY]

    def _assemble(self) -> None:
        with self._changed:
            near = self._near()
        self._put_together(near)

    def _put_together(self, some: list[Wanted]) -> None:
        """Makes batches of those whose rows are there."""
        for wanted in some:
            with self._assembly:
                if wanted.made is not None or wanted.error is not None or not wanted.whole:
                    continue
                try:
                    parts = [rows_between(p.made, a, b) for p, a, b in wanted.parts if p.made is not None]
                    made = self._assembling.batch(parts, wanted.epoch, wanted.step)
                    if not made.rows():
                        raise empty(made)
                except Exception as e:  # noqa: BLE001 the reader of that batch is told
                    wanted.error = e
                else:
                    wanted.made = made
            with self._changed:
                for piece in wanted.pieces:  # the store is free of them
                    piece.made = piece.ref = None
                    piece.bytes = 0
                self._launch()
                self._changed.notify_all()

    # ---- about it ----------------------------------------------------------------------------------------------------

    def told(self) -> dict[str, Any]:
        """For statistics."""
        with self._changed:
            now, flying = self.bytes(), len(self._flying)
        about: dict[str, Any] = {
            "tasks": self.counts.tasks,
            "flying": flying,
            "again": self.counts.again,
            "bytes": self.counts.bytes,
        }
        about |= {"in_use_bytes": now, "peak_bytes": self.counts.peak_bytes, "budget_bytes": self._job.budget_bytes}
        about |= {"slots": self.slots(), "row_bytes": self.row_bytes, "limit": self._limit()}
        about["wait_s"] = round(self._waited(), 3)
        most = sorted(self.counts.nodes.items(), key=lambda node: -node[1])
        return {**about, "nodes": dict(most)}

    def _waited(self) -> float:
        """Seconds that readers have waited, with the present wait."""
        asked = self._asked
        return self.counts.wait_s + (0.0 if asked is None else time.monotonic() - asked)

    def _say(self) -> None:
        """Says what the cluster does to those who look, so that they see it also while the reader does other things."""
        if time.monotonic() - self._said < TOLD_S:
            return
        self._said = time.monotonic()
        with contextlib.suppress(Exception):  # a help for people
            told = self.told()
            told["nodes"] = dict(list(told["nodes"].items())[:SHOWN])
            text = json.dumps({"ray": told, "stages": self.told_of_stages()[:SHOWN], "told_s": self._said})
            if len(text.encode()) < MOST_TOLD:
                self._tell(text)

    def _limit(self) -> str:
        """What batches wait for, in a word or two."""
        with self._changed:
            order, near = list(self._wanted.values()), self._near()
            if self._asked is None and near and all(wanted.made is not None for wanted in near):
                return "the reader"
            waiting = [0] * len(self._pools)
            for wanted in order:
                for piece in wanted.pieces:
                    if piece.level and not piece.done and all(i.done for i, _, _ in piece.inputs):
                        waiting[piece.level - 1] += 1
            tasks = sum(flight.level == 0 for flight in self._flying.values())
            room = self._job.budget_bytes - self.bytes()
        longest = max(waiting, default=0)
        if longest:
            return f"stage {self._pools[waiting.index(longest)].stage.name}"
        if tasks < self.slots() and room < PART:
            return "budget_bytes"
        return "making rows"

    def told_of_stages(self) -> list[dict[str, Any]]:
        """The same, of each stage."""
        return [pool.told() for pool in self._pools]

    def close(self) -> None:
        """Gives up all that is on its way, and ends the thread."""
        self._closed = True
        with self._changed:
            for key in list(self._wanted):
                self._drop(key)
            self._flying.clear()
            self._changed.notify_all()
        if threading.current_thread() is not self._thread:
            self._thread.join(10)
        for pool in self._pools:
            pool.close()
        self._assembling.close()


def _alike(one: tuple[Wanted, Piece], other: tuple[Wanted, Piece]) -> bool:
    """Whether one task may make both: of one plan, and none that a worker has died of."""
    return one[0].decisions == other[0].decisions and not other[1].lost


def _overlaps(pieces: list[Piece], first: int, end: int) -> list[tuple[Piece, int, int]]:
    """The pieces that have rows from `first` up to `end`, and which of their own rows these are."""
    found = [(p, max(first - p.first, 0), min(end - p.first, p.n)) for p in pieces]
    return [(p, a, b) for p, a, b in found if a < b]


def _got(ref: Any) -> Any:
    """The value, or what it was lost by."""
    try:
        return connected().get(ref)
    except gone.RayError as e:
        return e


def _told(error: Exception, wanted: Wanted, node: str) -> Exception:
    """The error with where and when it was."""
    where = f"on {node}, epoch {wanted.epoch}, step {wanted.step}"
    if isinstance(error, Error) and error.args:
        error.args = (f"{error.args[0]} ({where})", *error.args[1:])
    else:
        error.add_note(where)
    return error
