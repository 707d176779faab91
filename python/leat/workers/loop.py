"""The loop of a worker, which takes units from boards and computes their rows.

A worker serves every loader of its pool: for each it has a :class:`Job` (the data set, how samples become a batch) and
a board. It works on the board that has had the least time, earliest batch first. The library writes rows that fit the
layout to their place; others go back over the worker's own socket (``transport.py``).
"""

from __future__ import annotations

import contextlib
import copy
import errno
import io
import multiprocessing
import operator
import os
import pickle
import random
import signal
import socket
import struct
import sys
import threading
import time
import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from multiprocessing import reduction
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
import numpy.random  # now: a forked worker would load it each time

from .. import _leat
from ..data.sparse import Sparse, collated
from ..errors import BrokenSampleError, StateError
from .transport import encode, pack_error, put

if TYPE_CHECKING:
    from .feed import Planned

#: kinds of batches: the payload, and the unit
ROWS, WHOLE, ITER = 0, 1, 2
CALL = 3  #: of the engine's: workers/running.py

#: kinds of messages from a worker
SAMPLES, ODD, BATCH, ERROR, END, FAILED, LEFT = range(7)

#: substitutes that are tried for a broken sample, as a leat.Loader tries them
TRIES = len(_leat.substitutes(0, 1, 0))
REMOVED = -(1 << 63)  #: in the place of an index that the parent removed: plus the substitutes that are broken too

HEADER = struct.Struct("<QQIIQI")  # board, serial, unit, kind, bytes of the pickle, number of buffers
_NAP_MS = 1000


@dataclass
class Job:
    """The way the batches of one loader are made. Travels to workers by value."""

    dataset: Any
    collate: Callable[[Any], Any] | None = None  #: of whole batches
    iterable: bool = False
    batch_size: int | None = None  #: of an iterable data set
    auto_collation: bool = True
    drop_last: bool = False
    on_error: str = "raise"
    reseed: bool = False
    context: Callable[[int], Any] | None = None  #: called once in each worker with its number


@dataclass
class Start:
    """The arguments of a worker."""

    worker: int
    n_workers: int
    pool: int  #: offset
    sock: socket.socket
    memory: Any  #: DupFd of the shared memory, or None: inherited
    parent: int  #: pid; 0: a thread of it
    jobs: dict[int, Job]  #: by the offset of their board
    init: Callable[[int], Any] | None
    base_seed: int
    dataset: Any  #: for get_worker_info
    layouts: list[tuple[int, int, Any]] = field(default_factory=list)
    #: by board: (state, batches to pass over) of an iterable data set
    resume: dict[int, Any] = field(default_factory=dict)


class Unit(NamedTuple):
    """The unit of work from a board: rows [first, first + n) of a batch."""

    serial: int
    unit: int
    first: int
    n: int
    rows: int  #: of the batch
    layout: int
    kind: int
    payload: int  #: offset of `size` bytes
    size: int
    seed: int
    epoch: int
    first_row: int  #: of the batch in its epoch
    capacity: int  #: of buffers[0], where the unit is a batch
    buffers: tuple[int, ...]


#: of which rows are made: it knows their random keys
Rows: TypeAlias = "Unit | Planned"
#: of a sample that is broken: its row, the index that stands in or None, why
BrokenRow = tuple[int, Any, str]

_LEFT_OUT = object()
_TRIED = "its earlier tries ended workers or took too long"


class Broken(BrokenSampleError):
    """A row that the parent removed: its samples killed workers, or took too long."""


@dataclass
class _Client:
    board: _leat.Board
    job: Job
    layouts: dict[int, Any] = field(default_factory=dict)
    stream: Iterator[Any] | None = None
    ended: bool = False
    resume: Any = None
    region: Any = None  #: memory of the engine's, for phases of programs
    state: Any = None  #: of those, between units


def _is_removed(index: Any) -> bool:
    return type(index) is int and REMOVED <= index <= REMOVED + TRIES


def _position(index: Any, n: int) -> int:
    """The position of n that an index means; n: none that is known."""
    try:
        position = operator.index(index)
    except TypeError:
        return n
    position += n if position < 0 else 0
    return position if 0 <= position < n else n


def seed_everything(key: int) -> None:
    """Seeds random, numpy and torch (those that are imported) from one 64-bit number."""
    random.seed(key)
    np.random.seed([key & 0xFFFFFFFF, key >> 32, 1])  # the third word: else it would draw the same as random
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.default_generator.manual_seed(key & 0x7FFFFFFFFFFFFFFF)


def generators() -> tuple[Any, Any, Any]:
    """The states of the global generators: of random, numpy and torch."""
    return random.getstate(), np.random.get_state(), sys.modules["torch"].get_rng_state()


def set_generators(states: tuple[Any, Any, Any]) -> None:
    """Sets the global generators to the result of `generators`."""
    random.setstate(states[0])
    np.random.set_state(states[1])
    sys.modules["torch"].set_rng_state(states[2])


@contextlib.contextmanager
def kept_generators() -> Iterator[None]:
    """Restores the global generators."""
    before = generators()
    try:
        yield
    finally:
        set_generators(before)


def reseed_row(seed: int, epoch: int, row: int) -> None:
    """Seeds the global generators for one row of the order."""
    seed_everything(_leat.row_key(seed, epoch, row))


class Worker:
    """One worker, in its own process or thread."""

    def __init__(self, start: Start) -> None:
        self.start = start
        self.thread = start.parent == 0
        self.pool = _leat.Pool.attach(start.pool, start.worker, self.thread)
        self.sock = start.sock
        self.clients: dict[int, _Client] = {}
        self.left: list[int] = []  # finished boards, which the parent waits for this worker to leave
        self.stopping = False
        self.index: Any = None  # of the sample at hand, for the text of an error
        for board, job in start.jobs.items():
            self.join(board, job, start.resume.get(board))
        for board, number, spec in start.layouts:
            self.clients[board].layouts[number] = _leat.Layout(spec)

    def join(self, board: int, job: Job, resume: Any) -> None:
        self.clients[board] = _Client(_leat.Board.attach(self.pool, board, self.thread), job, resume=resume)
        if job.context is not None:
            job.context(self.start.worker)

    # ---- messages of the parent ----------------------------------------------------------------------------------

    def listen(self, block: bool = False) -> None:
        """Carries out a message of the parent."""
        while not self.stopping:
            try:
                head = self.sock.recv(8, socket.MSG_PEEK | (0 if block else socket.MSG_DONTWAIT))
            except BlockingIOError:
                return
            except OSError:
                head = b""
            if not head:  # the parent let go
                self.stopping = True
                return
            (size,) = struct.unpack("<Q", receive(self.sock, 8))
            self.obey(*pickle.loads(receive(self.sock, size)))
            block = False

    def obey(self, what: str, *args: Any) -> None:
        if what == "stop":
            self.stopping = True
        elif what == "layout":
            board, number, spec = args
            if board in self.clients:
                self.clients[board].layouts[number] = _leat.Layout(spec)
        elif what == "job":
            board, data, resume = args
            self.join(board, loads_with(data, self.start.dataset), resume)
        elif what == "leave":
            self.clients.pop(args[0], None)
            self.left.append(args[0])
        elif what == "region":  # its descriptor follows
            from .running import Region

            _, fds, _, _ = socket.recv_fds(self.sock, 1, 1)
            board, size = args
            if board in self.clients:
                self.clients[board].region = Region(fds[0], size)
            os.close(fds[0])
        elif what == "rewind":  # a new epoch of an iterable data set
            client = self.clients[args[0]]
            client.stream, client.ended, client.resume = None, False, args[1]

    def say_left(self) -> None:
        """Tells the parent which boards this worker will not touch again. It never happens in the middle of a unit."""
        while self.left:
            self.send(_leat.Board.attach(self.pool, self.left.pop(), self.thread), None, LEFT, None)

    # ---- the loop ------------------------------------------------------------------------------------------------

    def run(self) -> None:
        heard = None
        while not self.stopping:
            seen = self.pool.seen()
            if seen != heard:
                self.listen()
                self.say_left()
                heard = seen
            for client in (
                sorted(self.clients.values(), key=lambda c: c.board.served_ns())
                if len(self.clients) > 1
                else self.clients.values()
            ):
                unit = client.board.take()
                if unit is not None:
                    self.work(client, Unit(*unit))
                    break
            else:
                if not self.stopping and self.pool.seen() == seen:
                    self.pool.sleep(seen, _NAP_MS)
                    if self.pool.seen() == seen:
                        heard = None  # a parent that left without a message

    def work(self, client: _Client, unit: Unit) -> None:
        board = client.board
        sent = True
        self.index = None
        _leat.set_current_row(unit.seed, unit.epoch, unit.first_row)
        room = board.view(unit.buffers[0], unit.capacity) if unit.capacity else None
        try:
            if unit.kind == CALL:
                from .running import run

                sent = run(self, client, unit)
            elif unit.kind == ITER:
                self.listen()  # a stream that starts again was announced before the batch
                self.send(board, unit, *self.next_batch(client, unit), room)
            elif unit.kind == WHOLE:
                indices = pickle.loads(board.view(unit.payload, unit.size))
                sent = self.put(board, unit, self.whole(client, unit, indices), room)
            elif not unit.layout:
                self.send(board, unit, SAMPLES, self.samples(client, unit))
            else:
                while unit.layout not in client.layouts:
                    self.listen(block=True)
                    if self.stopping:
                        return
                sent = self.rows(client, unit)
        except BaseException as e:
            if isinstance(e, SystemExit):
                raise
            self.send(board, unit, ERROR, (self.row(), pack_error(e, self.where(unit.kind == CALL))))
        finally:
            _leat.set_current_row()
            room = None
        board.finish(sent)

    def row(self) -> int:
        """The row of its batch that this worker computes."""
        return int(self.pool.worker(self.start.worker)[2])

    def where(self, calls: bool = False) -> str:
        kind = "leat" if calls else "DataLoader"
        at = "" if self.index is None else f", at index {self.index!r}"
        return f"in {kind} worker process {self.start.worker}{at}"

    def rows(self, client: _Client, unit: Unit) -> bool:
        """Writes rows straight to their places. Whether a message was sent."""
        board, job = client.board, client.job
        fill = client.layouts[unit.layout].fill
        before = reseed_row if job.reseed else None
        elsewhere: dict[int, list[Any]] = {}  # texts that are not in the slot
        odd: list[tuple[int, Any]] = []
        broken: list[BrokenRow] = []
        at, end = unit.first, unit.first + unit.n
        while at < end:
            try:
                at, sample = fill(board, job.dataset, at, end, before, elsewhere, job.on_error != "raise")
                if at == end:
                    break
                if sample is NotImplemented:
                    raise Broken(_TRIED)
            except Exception as e:
                at = max(at, self.row())  # of an exception the call has not said it
                index = int(np.frombuffer(board.view(unit.payload, unit.size), np.int64)[at])
                self.index = None if _is_removed(index) else index
                if job.on_error == "raise":
                    raise
                sample = self.stand_in(job, unit, at, index, e, broken)
            if sample is not _LEFT_OUT:
                odd.append((at, sample))
            at += 1
        if not (elsewhere or odd or broken):
            return False
        self.send(board, unit, ODD, (unit.first, end, odd, elsewhere, broken))
        return True

    def sample(self, job: Job, unit: Rows, row: int, index: Any) -> Any:
        if job.reseed:
            reseed_row(unit.seed, unit.epoch, unit.first_row + row)
        _leat.set_current_row(unit.seed, unit.epoch, unit.first_row + row)
        self.index = index
        if job.on_error != "raise" and _is_removed(index):
            self.index = None
            raise Broken(_TRIED)
        return job.dataset[index]

    def stand_in(self, job: Job, unit: Rows, row: int, index: Any, error: Exception, broken: list[BrokenRow]) -> Any:
        """The value in the place of a broken sample: another one, or _LEFT_OUT."""
        reason = str(error) if isinstance(error, Broken) else pack_error(error, self.where())[2]
        if job.on_error == "skip":
            broken.append((row, None, reason))
            return _LEFT_OUT
        key = _leat.row_key(unit.seed, unit.epoch, unit.first_row + row)
        tried, n = index - REMOVED if _is_removed(index) else 0, len(job.dataset)
        for other in _leat.substitutes(key, n, _position(index, n))[tried:]:
            try:
                found = self.sample(job, unit, row, other)
            except Exception as e:
                reason = pack_error(e, self.where())[2]
            else:
                broken.append((row, other, reason))
                return found
        raise error

    def made(
        self, client: _Client, unit: Rows, rows: Iterable[tuple[int, Any]]
    ) -> tuple[list[tuple[int, Any]], list[BrokenRow]]:
        """Samples of (row, index), and those that are broken."""
        found: list[tuple[int, Any]] = []
        broken: list[BrokenRow] = []
        for row, index in rows:
            if client.board is not None:  # of a worker, which reports its position there
                client.board.at_row(row)
            try:
                sample = self.sample(client.job, unit, row, index)
            except Exception as e:
                if client.job.on_error == "raise":
                    raise
                sample = self.stand_in(client.job, unit, row, index, e, broken)
            if sample is not _LEFT_OUT:
                found.append((row, sample))
        return found, broken

    def samples(self, client: _Client, unit: Unit) -> tuple[list[tuple[int, Any]], list[BrokenRow]]:
        """Rows whose layout is not known yet."""
        indices = np.frombuffer(client.board.view(unit.payload, unit.size), np.int64)
        rows = range(unit.first, unit.first + unit.n)
        return self.made(client, unit, ((row, int(indices[row])) for row in rows))

    def listed(self, client: _Client, unit: Rows, indices: list[Any]) -> list[Any]:
        """The samples of a batch; one that raises is an error."""
        job = client.job
        before = reseed_row if job.reseed else None
        try:
            return _leat.samples(client.board, job.dataset, indices, before, unit.seed, unit.epoch, unit.first_row)
        except BaseException:
            self.index = indices[self.row()]
            raise

    def whole(self, client: _Client, unit: Rows, indices: Any) -> tuple[Any, list[BrokenRow]]:
        """A collated batch."""
        job = client.job
        assert job.collate is not None
        if not job.auto_collation:
            return job.collate(self.sample(job, unit, 0, indices)), []
        if hasattr(job.dataset, "__getitems__") and job.dataset.__getitems__ and job.on_error == "raise":
            if job.reseed:
                reseed_row(unit.seed, unit.epoch, unit.first_row)
            return job.collate(job.dataset.__getitems__(indices)), []
        if job.on_error == "raise":
            return job.collate(self.listed(client, unit, list(indices))), []
        found, broken = self.made(client, unit, enumerate(indices))
        self.index = None
        if broken and not found:
            raise RuntimeError(f"no row of the batch is left; the first error: {broken[0][2]}")
        return job.collate([sample for _, sample in found]), broken

    # ---- iterable data sets --------------------------------------------------------------------------------------

    def next_batch(self, client: _Client, unit: Unit) -> tuple[int, Any]:
        if client.ended:
            return END, None
        try:
            if client.stream is None:
                key = (unit.seed, unit.epoch, unit.first_row)
                client.stream = stream(client.job, client.resume, *key, self.start.n_workers)
                client.resume = None
            return BATCH, (next(client.stream), [], stream_state(client.job, client.stream))
        except StopIteration:
            client.ended = True
            return END, end_state(client.job, client.stream)
        except BaseException:
            client.ended = client.stream is None  # it could not begin; otherwise it requests the next batch
            raise

    # ---- sending -------------------------------------------------------------------------------------------------

    def put(self, board: _leat.Board, unit: Unit, value: Any, room: memoryview | None) -> bool:
        """Puts a batch into its slot, or sends it if it does not fit. Whether a message was sent."""
        try:
            rest = put(value, room)
        except Exception as e:
            self.send(board, unit, ERROR, self.unsendable(e))
            return True
        if rest is not None:
            self.send_encoded(board, unit, BATCH, *rest)
        return rest is not None

    def unsendable(self, error: Exception) -> Any:
        """The error of a value that cannot be pickled."""
        found = TypeError(f"what the data set or collate_fn gave cannot be sent to the process that trains: {error}")
        found.__cause__ = error
        return self.row(), pack_error(found, self.where())

    def send(
        self, board: _leat.Board, unit: Unit | None, kind: int, value: Any, room: memoryview | None = None
    ) -> None:
        try:
            encoded = encode(value, room)
        except Exception as e:
            if kind == ERROR:
                raise
            kind, encoded = ERROR, encode(self.unsendable(e))
        self.send_encoded(board, unit, kind, *encoded)

    def send_encoded(
        self, board: _leat.Board, unit: Unit | None, kind: int, data: bytes, places: Any, fd: int | None
    ) -> None:
        serial, number = (unit.serial, unit.unit) if unit is not None else (0, 0)
        blob = pickle.dumps((data, places)) if places else data
        head = HEADER.pack(board.offset, serial, number, kind, len(blob), len(places) if places else 0)
        board.message()
        try:
            if fd is None:
                self.sock.sendall(b"\0" + head + blob if len(blob) < 65536 else b"\0" + head)
            else:
                socket.send_fds(self.sock, [b"\1"], [fd])
                self.sock.sendall(head)
        finally:
            if fd is not None:
                os.close(fd)
        if fd is not None or len(blob) >= 65536:
            self.sock.sendall(blob)


def receive(sock: socket.socket, size: int) -> bytes:
    """Exactly so many bytes; EOFError if the other end is gone."""
    out = bytearray(size)
    view = memoryview(out)
    while view:
        n = sock.recv_into(view)
        if not n:
            raise EOFError
        view = view[n:]
    return bytes(out)


class Begins:
    """The way an iterable data set begins its epochs, as far as this process has seen it.

    Some begin each epoch at its start. Some keep a state that was loaded, as those of Hugging Face do until
    ``set_epoch``, and begin all later epochs there. A state of an epoch's end leads some to the next epoch, and some to
    an empty rest of that one.
    """

    def __init__(self) -> None:
        self.looked = False
        self.fresh: Any = None  # [the state before it was iterated over, or a state was loaded]
        self.before: Any = None  # [the state before this epoch]
        self.loaded: Any = None  # [the state that was loaded last]
        self.after: Any = None  # [the one after the first batch behind it]
        self.given: dict[str, tuple[Any, Any]] = {}  # attributes that loading it has changed: before, and since
        self.seen: dict[str, Any] = {}  # attributes before this epoch

    @staticmethod
    def of(dataset: Any) -> Begins:
        """That of a data set, which loaders share."""
        number = id(dataset)
        if number in _BEGINS and _BEGINS[number][0]() is dataset:
            return _BEGINS[number][1]
        found = Begins()
        with contextlib.suppress(TypeError):  # no entry for objects that take no reference
            _BEGINS[number] = weakref.ref(dataset, lambda _: _BEGINS.pop(number, None)), found
        return found

    def look(self, dataset: Any) -> None:
        """An epoch is about to begin."""
        if hasattr(dataset, "load_state_dict") and (not self.looked or self.loaded is not None):
            with contextlib.suppress(Exception):  # before it is iterated over, a data set may have none
                self.before = [copy.deepcopy(dataset.state_dict())]
                self.fresh = self.fresh if self.looked else self.before
            self.seen = attributes(dataset)
        self.looked = True

    def load(self, dataset: Any, state: Any, within: bool) -> None:
        """Loads a state into the data set; `within` an epoch: that of the state, if it says which."""
        self.loaded, self.after = [copy.deepcopy(state)], None
        self.before = self.before if within else self.loaded
        epoch = state.get("epoch") if isinstance(state, dict) else None
        other = type(epoch) is int and getattr(dataset, "epoch", epoch) != epoch
        if within and other and hasattr(dataset, "set_epoch"):
            dataset.set_epoch(epoch)  # in another one it would pass over the state
        before = attributes(dataset)
        dataset.load_state_dict(state)
        self.seen = attributes(dataset)
        for name, value in self.seen.items():
            was, given = self.given.get(name, (_ABSENT, _ABSENT))
            if before.get(name, _ABSENT) is not value:
                self.given[name] = (was if before.get(name) is given else before.get(name, _ABSENT)), value

    def went_on(self, dataset: Any) -> None:
        """The first batch behind the loaded state is made."""
        self.after = [copy.deepcopy(dataset.state_dict())]

    def place(self) -> set[tuple[str, ...]]:
        """The parts of a state that give the place in an epoch: those that the first batch has changed, and numbers,
        such as that of a shard, that are not as at the start."""
        fresh, loaded, after = map(values_in, (self.fresh, self.loaded, self.after))
        changed = {path for path in after if path not in loaded or not same(loaded[path], after[path])}
        changed |= {path for path, value in after.items() if type(value) is int and fresh.get(path, value) != value}
        return {path for path in changed if path[-1] != "epoch"}

    def kept(self, dataset: Any) -> bool:
        """Whether the first batch of a later epoch has led to the same place as the first one behind the loaded
        state."""
        if self.after is None:
            return False
        place, loaded, after, now = self.place(), *map(values_in, (self.loaded, self.after, [dataset.state_dict()]))
        fresh = values_in(self.fresh or [])
        if all(path in fresh and path in loaded and same(fresh[path], loaded[path]) for path in place):
            return False  # states say nothing of the place, or the one that was loaded was that of the start
        return all(path in now and same(now[path], after[path]) for path in place)

    def ungive(self, dataset: Any) -> bool:
        """Gives attributes the values of before this epoch, and those that have what loading a state gave them, except
        for the number of the epoch, the values of before that. False: there are none of these.
        """
        found = attributes(dataset)
        kept = {n: was for n, (was, given) in self.given.items() if found.get(n) is given and n.strip("_") != "epoch"}
        if kept:
            dataset.__dict__.update(self.seen | kept)
            for name in [name for name, was in kept.items() if was is _ABSENT]:
                del dataset.__dict__[name]
        return bool(kept)

    def forget(self) -> None:
        """No state is loaded any more."""
        self.loaded = self.after = None
        self.given = {}

    def take_back(self, dataset: Any) -> bool:
        """Makes the data set as it was before a state was loaded, except for the number of the epoch. False: that is
        not known.
        """
        if self.fresh is None:
            return False
        before = values_in(self.before)
        epochs = {path: value for path, value in before.items() if path[-1] == "epoch"}
        dataset.load_state_dict(replaced(self.fresh, epochs)[0])
        self.forget()
        return True


_ABSENT = object()


def attributes(of: Any) -> dict[str, Any]:
    """The values of an object by name."""
    return dict(getattr(of, "__dict__", {}))


#: by the number of a data set, which may be equal to another, or have no hash
_BEGINS: dict[int, tuple[Any, Begins]] = {}


def values_in(state: Any, path: tuple[str, ...] = ()) -> dict[tuple[str, ...], Any]:
    """The values of a state by their paths: all that are no dict."""
    if path == ():
        return values_in(state[0], ("",)) if state else {}
    if not isinstance(state, dict):
        return {path: state}
    return {k: v for name, value in state.items() for k, v in values_in(value, (*path, str(name))).items()}


def replaced(state: Any, values: dict[tuple[str, ...], Any], path: tuple[str, ...] = ()) -> Any:
    """The state, which stands in a list, with other values at these paths."""
    if path == ():
        return [replaced(state[0], values, ("",))]
    if not isinstance(state, dict):
        return copy.deepcopy(values.get(path, state))
    return {name: replaced(value, values, (*path, str(name))) for name, value in state.items()}


def same(a: Any, b: Any) -> bool:
    """Whether two values of states are equal; arrays and tensors may be in them."""
    if type(a) is not type(b):
        return False
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    try:
        equal = a == b
        return bool(equal.all()) if hasattr(equal, "all") else bool(equal)
    except Exception:
        return False


def stream(job: Job, resume: Any, seed: int, epoch: int, first_row: int, workers: int) -> Iterator[Any]:
    """Batches of an iterable data set in this worker. Skipped samples draw under their own keys, as they did before.

    Args:
        resume: None, or (state or None, batches to skip).
        seed, epoch, first_row: of the keys of the batch that comes next; `workers`: as many streams take turns.
    """
    state, passed = resume if resume is not None else (None, 0)
    state = state or {}
    dataset = job.dataset
    begins = Begins.of(dataset)
    begins.look(dataset)
    at_start = not state or "begin" in state
    if "dataset" in state and hasattr(dataset, "load_state_dict"):
        begins.load(dataset, state["dataset"], not at_start)
    if "left" in state:  # in the middle of the epoch before: it is begun, and begun again
        next(iter(dataset), None)
    source = iter(dataset)
    if "kept" in state:
        source.load_state_dict(state["kept"])  # it is at the end of an epoch: the next one begins
        source = iter(dataset)
    made = _Stream(job, source, begins, epoch, at_start)
    if "iterator" in state and "left" not in state and hasattr(made.source, "load_state_dict"):
        if made.source is dataset:
            begins.load(dataset, state["iterator"], not at_start)
        else:
            made.source.load_state_dict(state["iterator"])
    made.over = "over" in state and not at_start
    for left in range(passed, 0, -1):
        _leat.set_current_row(seed, epoch, max(0, first_row - left * workers * (job.batch_size or 1)))
        made.skip()
    _leat.set_current_row(seed, epoch, first_row)
    return made


class _Stream(Iterator[Any]):
    """PyTorch's fetcher of an iterable data set, batch by batch.

    Args:
        at_start: it begins an epoch, which is not empty because a state was loaded.
    """

    def __init__(self, job: Job, source: Iterator[Any], begins: Begins, epoch: int, at_start: bool) -> None:
        self.job, self.source, self.over = job, source, False
        self.begins, self.epoch, self.at_start, self.first = begins, epoch, at_start, True
        self.read = False  # something of the source

    def _read(self) -> Any:
        """The samples of the next batch."""
        self.read = self.read or not self.over
        if not self.job.auto_collation:
            return next(self.source)
        assert self.job.batch_size is not None
        found = []
        if not self.over:
            for _ in range(self.job.batch_size):
                try:
                    found.append(next(self.source))
                except StopIteration:
                    self.over = True
                    break
        if not found or (self.job.drop_last and len(found) < self.job.batch_size):
            raise StopIteration
        return found

    def _again(self) -> Any:
        self.source, self.over = iter(self.job.dataset), False
        return self._read()

    def _samples(self) -> Any:
        if not self.first or self.begins.loaded is None or not hasattr(self.job.dataset, "load_state_dict"):
            return self._read()
        found = self._first_at_start() if self.at_start else self._first_within()
        self.first = False
        return found

    def _first_within(self) -> Any:
        found = self._read()
        self.begins.went_on(self.job.dataset)
        return found

    def _first_at_start(self) -> Any:
        """The first batch of a whole epoch, whatever a state that was loaded before has led to."""
        dataset, begins = self.job.dataset, self.begins
        for read in (self._read, self._again):  # a state of the end may be that of an epoch without further samples
            with contextlib.suppress(StopIteration):
                found = read()
                if not begins.kept(dataset):
                    return found
                break
        if begins.ungive(dataset):
            with contextlib.suppress(StopIteration):
                found = self._again()
                if not begins.kept(dataset):
                    begins.forget()
                    return found
        if begins.take_back(dataset):
            return self._again()
        if not hasattr(dataset, "set_epoch"):
            warnings.warn(
                f"epoch {self.epoch} of {type(dataset).__name__} begins where a state was that was loaded: it has no "
                "state before it is iterated over, with which leat could take that back, and no set_epoch",
                stacklevel=2,
            )
        else:
            dataset.set_epoch(self.epoch)
        return self._again()

    def __next__(self) -> Any:
        assert self.job.collate is not None
        found = self._samples()
        try:
            return self.job.collate(found)
        except StopIteration as e:  # which is no end of the stream
            raise RuntimeError("the collate function raised StopIteration") from e

    def skip(self) -> None:
        """Skips a batch that was delivered before."""
        try:
            self._samples()
        except StopIteration:
            raise StateError("the state counts more batches than the iterable data set gives now") from None
        except Exception:
            return  # it was raised when it was its turn, and counted


def stream_state(job: Job, made: Any) -> dict[str, Any] | None:
    """The state that the data set or its iterator offers."""
    found: dict[str, Any] = {}
    if hasattr(made.source, "state_dict"):
        found["iterator"] = made.source.state_dict()
    if hasattr(job.dataset, "state_dict") and made.source is not job.dataset:
        found["dataset"] = job.dataset.state_dict()
    if found and made.over:
        found["over"] = True  # the last batch met the end: there is nothing left
    return found or None


def end_state(job: Job, made: Any) -> dict[str, Any] | None:
    """The state of a data set whose stream has ended: the start of its next one. That of its iterator counts if the
    data set keeps the iterator, and so will give the same one again.
    """
    found: dict[str, Any] = {}
    if hasattr(job.dataset, "state_dict"):
        # one that was at its end from the beginning may have no state yet
        with contextlib.suppress(*([] if made.read else [Exception])):
            found["dataset"] = job.dataset.state_dict()
    kept = any(value is made.source for value in getattr(job.dataset, "__dict__", {}).values())
    if kept and hasattr(made.source, "state_dict"):
        found["kept"] = made.source.state_dict()
    return found | {"begin": True} if found else None


# ---- starting --------------------------------------------------------------------------------------------------------


def dumps_with(value: Any, dataset: Any, starting: bool = False) -> bytes:
    """Pickles by value what pickle knows by name only: lambdas, functions of ``__main__``, local classes.

    Args:
        dataset: the other side has it: it is pickled by reference.
        starting: the other side is a process that is being started. Only then can locks, queues, connections and
            shared tensors be sent.
    """
    import cloudpickle  # here: a worker that starts does not need it

    class Pickler(cloudpickle.Pickler):  # type: ignore[misc]
        if starting:
            reducers = reduction.ForkingPickler._extra_reducers  # type: ignore[attr-defined]
            dispatch_table = {**cloudpickle.Pickler.dispatch_table, **reducers}

        def persistent_id(self, found: Any) -> Any:
            return "dataset" if found is dataset and not starting else None

    out = io.BytesIO()
    Pickler(out, protocol=5).dump(value)
    return out.getvalue()


def loads_with(data: bytes, dataset: Any) -> Any:
    """Reads the output of :func:`dumps_with`."""

    class Unpickler(pickle.Unpickler):
        def persistent_load(self, name: Any) -> Any:
            return dataset

    return Unpickler(io.BytesIO(data)).load()


def watched(pid: int, process: Any) -> int:
    """A descriptor that is readable once a process has ended: a pidfd. Where the system refuses these (gVisor, some
    containers), it is the pipe that multiprocessing has for that.
    """
    try:
        return _leat.process_descriptor(pid)
    except OSError as e:
        if e.errno not in (errno.ENOSYS, errno.EPERM):
            raise
        return os.dup(process.sentinel)


def main(start: Start) -> None:
    """The body of a worker."""
    if start.parent:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        pidfd = watched(start.parent, multiprocessing.parent_process())
        if os.getppid() != start.parent and start.memory is None:
            os._exit(1)
        _leat.worker_watch(pidfd)
    if start.memory is not None:
        fd = start.memory.detach()
        _leat.share_attach(fd)
        os.close(fd)
    worker = Worker(start)
    try:
        prepare(start)
    except BaseException as e:
        where = f"in DataLoader worker process {start.worker}"
        for client in worker.clients.values():
            worker.send(client.board, None, FAILED, (None, pack_error(e, where)))
        if not isinstance(e, Exception):
            raise
        while not worker.stopping:
            worker.listen(block=True)
            worker.say_left()
        return
    with contextlib.suppress(EOFError, BrokenPipeError, ConnectionResetError):
        worker.run()
    if start.parent:
        with contextlib.suppress(Exception):
            start.sock.close()


def prepare(start: Start) -> None:
    """Seeds and threads as PyTorch's workers have them, get_worker_info(), and the user's own preparation."""
    seed = start.base_seed + start.worker
    torch = sys.modules.get("torch")
    if torch is not None:
        import torch.utils.data  # noqa: F811
        from torch.utils.data._utils import worker as torch_worker

        if start.parent:
            torch.set_num_threads(1)
            torch.default_generator.manual_seed(seed & 0xFFFFFFFFFFFFFFFF)
            random.seed(seed)
            np.random.seed(torch_worker._generate_state(start.base_seed, start.worker))  # type: ignore[no-untyped-call]
            _stack_plainly()
            collate_sparse_rows()
        info = torch_worker.WorkerInfo(id=start.worker, num_workers=start.n_workers, seed=seed, dataset=start.dataset)
        if start.parent:
            torch_worker._worker_info = info
        else:
            ThreadInfo.install(info)
    if start.parent:
        _limit_malloc()
    if start.init is not None:
        start.init(start.worker)


def _stack_plainly() -> None:
    """Makes the default collation stack tensors in ordinary memory. In workers PyTorch's makes a file in /dev/shm for
    each, for its own transport, and gets conjugated and negated tensors wrong.
    """
    import torch
    from torch.utils.data._utils import collate

    theirs = collate.collate_tensor_fn
    if collate.default_collate_fn_map.get(torch.Tensor) is not theirs:
        return  # the user's own

    def stack(batch: Any, *, collate_fn_map: Any = None) -> Any:
        if batch[0].is_nested or batch[0].layout != torch.strided:
            return theirs(batch, collate_fn_map=collate_fn_map)
        return torch.stack(batch, 0)

    collate.default_collate_fn_map[torch.Tensor] = stack


def collate_sparse_rows() -> None:
    """Makes the default collation of this process join sparse rows, unless the user's does something else with them."""
    from torch.utils.data._utils import collate

    collate.default_collate_fn_map.setdefault(Sparse, collated)


def _limit_malloc() -> None:
    """Keeps freed arrays for the next sample, rather than returning them to the system page by page."""
    import ctypes

    with contextlib.suppress(OSError, AttributeError):
        libc = ctypes.CDLL(None)
        libc.mallopt(-3, 1 << 30)  # M_MMAP_THRESHOLD
        libc.mallopt(-1, 1 << 28)  # M_TRIM_THRESHOLD


def _worker_info_here() -> Any:
    """get_worker_info() if workers are threads. Runs with the names of PyTorch's module."""
    return _worker_info or None  # type: ignore[name-defined]  # noqa: F821


class ThreadInfo:
    """Makes get_worker_info() differ from thread to thread, if workers are threads."""

    _local = threading.local()

    @classmethod
    def install(cls, info: Any) -> None:
        from torch.utils.data._utils import worker as torch_worker

        cls._local.info = info
        if not isinstance(torch_worker._worker_info, cls):
            torch_worker._worker_info = cls()  # type: ignore[assignment]
            # Modules that imported the function have the object itself. So its code is changed; threads that are no
            # workers.
            torch_worker.get_worker_info.__code__ = _worker_info_here.__code__

    def __getattr__(self, name: str) -> Any:
        return getattr(getattr(self._local, "info", None), name)

    def __bool__(self) -> bool:
        return getattr(self._local, "info", None) is not None


def now() -> float:
    """Seconds, monotonic."""
    return time.monotonic()
