"""The tie between feedback and a loader: reports go into tables, and a policy's decisions into the loader's log.

    report ---> Table            each rank its own rows; where ranks exchange, they wait there
                  |
    iter() ---> exchange -> policy.decide(table, epoch) -> compare hashes -> decide_rows(epoch)
                                                                               log: hash of the list
                                                                               log_dir, or the state: the list

A decision holds from the start of an epoch, and nothing is planned beyond the epoch that is read, so no batch is read
that a decision leaves out.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import warnings
import zlib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .. import _leat, check, ranks
from ..errors import StateError
from ..saved import needed, pair, part
from .blobs import Blobs, Inside
from .policies import Own, Policy, Rows, Run, policy_of
from .reports import Place, Reports
from .table import NOTED, Array, Table, digest, ids_of, unpacked, unpacked_reports

if TYPE_CHECKING:
    from .deciding import Deciding

METRIC = "loss"  #: of the table that a policy is given; it may be empty
LARGE = 64 << 20  #: bytes of a table from which on it lies in a file, if the run has a folder


class Saved(NamedTuple):
    """The part of a state about reports, checked."""

    handed: Place | None
    tables: dict[str, tuple[Array, Array]]  #: which samples are known, and their marks
    pending: dict[str, Array]  #: reports that wait for an exchange
    made: dict[str, Table]  #: tables that there were not


class Feedback(Mapping[str, Table]):
    """The reports to a loader, and the policy that selects by them: ``loader.feedback``, a mapping from the names of
    the reported values to tables.
    """

    __eq__ = object.__eq__
    __hash__ = object.__hash__

    def __init__(self, loader: Deciding, policy: Any) -> None:
        self._loader = loader
        self.policy: Policy = policy_of(policy)
        self.name = type(policy).__name__ if not isinstance(self.policy, Own) else repr(self.policy)
        if callable(bind := getattr(policy, "bind", None)):
            bind(loader.dataset)
        if not len(loader.dataset):
            raise ValueError("feedback= selects samples, and the data set is empty")
        mesh = loader.mesh  # stages of a pipeline begin an epoch each in its turn, and some never do: none may wait
        self._exchanges = loader._distributed and (mesh is None or mesh.pp.size == 1)
        self._ids = ids_of(loader.dataset)
        self._folder = loader._log_dir
        self._blobs = Blobs(self._folder)
        self._tables: dict[str, Table] = {}
        self._nothing: Table | None = None  # shown before any report
        self._reports = Reports(self.table)
        self._handed: Place | None = None
        self._changes = 0
        self._packed: dict[str, tuple[int, bytes]] = {}  # of each table: as of which change, and what
        self._decided = -1  # the last epoch that has a list of its own, or was given back the order
        self._listed = False  # whether a list is in force
        self._warned: set[str] = set()

    # ---- tables ------------------------------------------------------------------------------------------------------

    def table(self, metric: str) -> Table:
        """The table of a metric, which is made if there is none yet."""
        found = self._tables.get(metric)
        if found is None:
            found = self._tables[metric] = self._made(metric)
        return found

    def _made(self, metric: str) -> Table:
        n = len(self._loader.dataset)
        folder = self._folder if n * 16 >= LARGE else None
        if folder is not None:
            os.makedirs(folder, exist_ok=True)
        return Table(metric, _leat.Table.open(n, self._ids, folder, self._exchanges), self._ready)

    def _ready(self, metric: str) -> Table:
        """The table of a metric, once all reports so far are entered. Before anything was reported, under any name, it
        is empty. If ranks exchange their reports, it has all that the ranks had reported when the epoch began.

        Raises:
            KeyError: something was reported, and nothing under this name.
        """
        if not isinstance(metric, str):
            raise TypeError(f"a table has the name that values were reported by, such as 'loss', not {metric!r:.60}")
        if self._tables and metric not in self._tables:
            raise KeyError(f"nothing was reported as {metric!r}: there is {', '.join(map(repr, sorted(self._tables)))}")
        return self._seen(metric)

    def _seen(self, metric: str) -> Table:
        """The same, empty if nothing was reported under this name."""
        found = self._tables.get(metric)
        if found is not None:
            found.core.wait()
            return found
        if self._nothing is None or self._nothing.name != metric:
            core = _leat.Table.open(len(self._loader.dataset), None, None, False)
            self._nothing = Table(metric, core, self._ready)
        return self._nothing

    def __getitem__(self, metric: str) -> Table:
        """The table of a metric, with all reports so far. Before anything was reported it is empty.

        Raises:
            KeyError: something was reported, and nothing under this name.
        """
        self._reports.flush(True)
        return self._ready(metric)

    def __iter__(self) -> Iterator[str]:
        self._reports.flush(True)
        return iter(sorted(self._tables))

    def __len__(self) -> int:
        return len(list(iter(self)))

    def __contains__(self, metric: object) -> bool:
        self._reports.flush(True)
        return metric in self._tables

    def __repr__(self) -> str:
        return f"<leat.Feedback of {self.policy!r}: {', '.join(sorted(self._tables)) or 'nothing was reported'}>"

    def handed(self, batch: _leat.Batch) -> None:
        self._handed = (batch.epoch(), batch.step())

    def report(self, ids: Any, values: Mapping[str, Any], at: Any) -> None:
        """Takes values over. See :meth:`leat.Loader.report`."""
        valid = None
        if hasattr(ids, "row_keys") and hasattr(ids, "ids"):  # a batch
            at = (ids.epoch, ids.step) if at is None else at
            valid, ids = ids.valid, ids.ids
            valid = None if bool(valid.all()) else np.asarray(valid.cpu() if hasattr(valid, "cpu") else valid)
        place = self._place(at)
        self._changes += 1
        try:
            self._reports.flush(False)
        finally:  # an error of an earlier report is raised, and this one is entered all the same
            self._reports.add(ids, values, valid, place)

    def _place(self, at: Any) -> Place:
        if at is None:
            return self._handed or (self._loader._core.epoch(), 0)
        if not (isinstance(at, (tuple, list)) and len(at) == 2):
            raise TypeError(f"at is (epoch, step), not {at!r:.60}")
        place = check.integer("epoch", at[0]), check.integer("step", at[1])
        beyond = self._handed is None or place > self._handed
        epoch, world_size = self._loader._core.epoch(), self._loader.world_size
        if beyond and not ranks.may_have_handed(place, self._handed, epoch, world_size):
            raise ValueError(f"report: step {place[1]} of epoch {place[0]} was not handed out yet")
        return place

    # ---- deciding ----------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Decides the rows of the epoch that begins. After an exception nothing has changed but the tables."""
        loader = self._loader
        epoch, within = loader._core.next_start()
        rows, failed = None, self._arrive()
        if within or epoch <= self._decided:
            if failed is not None:
                raise failed
            return
        try:
            rows = None if failed is not None else self._decision(epoch)
        except Exception as e:
            e.add_note(f"leat: {self.name} was deciding the rows of epoch {epoch}")
            failed = e
        if self._exchanges:
            told = {f"what {self.name} decided for epoch {epoch}": "none" if rows is None else _told(rows)}
            if failed is None:
                ranks.agree(told)
            else:
                with contextlib.suppress(StateError):
                    ranks.agree(told)
        if failed is not None:
            raise failed
        assert rows is not None
        if rows.positions is not None or self._listed:
            loader._decide_rows(rows, epoch, 0)
            self._decided, self._listed = epoch, rows.positions is not None

    def overruled(self) -> None:
        """Rows were decided by hand: they hold until the policy decides again."""
        self._listed = True

    def _decision(self, epoch: int) -> Rows:
        loader = self._loader
        opened = loader._decisions.opened["global_batch"]  # by the run, which may have been opened with another size
        run = Run(
            len(loader.dataset),
            loader._options["seed"],
            opened,
            loader._tail == "drop",
            loader._global != opened,
            loader._opened_rows,
        )
        rows = self.policy.decide(self._seen(METRIC), epoch, run)
        if not isinstance(rows, Rows):
            rows = Rows(None if rows is None else np.asarray(rows))
        if rows.positions is not None:
            if not len(rows.positions):
                raise ValueError(f"{self.name} has selected no sample for epoch {epoch}: an epoch has at least one row")
            positions = loader._positions(rows.positions, self.name)
            check_batches(loader, f"{self.name} has selected", len(positions), epoch)
            rows = rows._replace(positions=positions)
        return rows

    # ---- ranks -------------------------------------------------------------------------------------------------------

    def ended(self) -> None:
        """An epoch has ended on every rank."""
        if (failed := self._arrive()) is not None:
            raise failed

    def _arrive(self) -> Exception | None:
        """Enters all reports so far, of all ranks. An error of those that come from a GPU is returned: the other ranks
        wait for this one.
        """
        failed = None
        try:
            self._reports.flush(True)
        except Exception as e:
            failed = e
        self._exchange()
        return failed

    def _exchange(self) -> None:
        """Enters the reports of all ranks into the tables of each, in the order of steps."""
        if not self._exchanges:
            return
        mine = _encode({name: self._kept(table) for name, table in sorted(self._tables.items())})
        gathered = [_parse(data) for data in ranks.gather(mine)]
        for name in sorted({name for one in gathered for name in one}):
            reports = np.concatenate([one.pop(name) for one in gathered if name in one])
            reports = reports[np.argsort(_places(reports), kind="stable")]
            table = self.table(name)
            table.core.enter(reports)
            table.core.take(bytearray(0), True)
        self._changes += 1

    def _kept(self, table: Table) -> Array:
        found = np.zeros(table.core.kept(), NOTED)
        table.core.take(found.view(np.uint8), False)
        return found

    # ---- state -------------------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Its part of a loader's state, beside the library's."""
        self._reports.flush(True)
        inside = Inside()
        lost: list[int] = []
        tables: dict[str, str] = {}
        for name, table in sorted(self._tables.items()):
            table.core.wait()
            if self._packed.get(name, (-1, b""))[0] != self._changes:
                self._packed[name] = self._changes, table.packed()
            tables[name] = self._stored(self._packed[name][1], inside, lost)
        self._warn(lost, "what was reported", "begins with an empty table")
        lost = []
        pending: dict[str, str] = {}  # behind all tables, which are equal on all ranks, and so are those that fit
        for name, table in sorted(self._tables.items()) if self._exchanges else ():
            if len(kept := self._kept(table)):
                pending[name] = self._stored(zlib.compress(kept.tobytes(), 1), inside, lost)
        self._warn(lost, "what this rank has reported since ranks last exchanged", "goes on without it")
        return {
            "policy": self.name,
            "handed": None if self._handed is None else list(self._handed),
            "rank": [self._loader.rank, self._loader.world_size],
            "tables": tables,
            **({"pending": pending} if pending else {}),
            **({"data": inside.texts} if inside.texts else {}),
        }

    def _stored(self, data: bytes, inside: Inside, lost: list[int]) -> str:
        if not self._blobs.save(data) and not inside.put(data):
            lost.append(len(data))
        return digest(data)

    def _warn(self, lost: list[int], what: str, then: str) -> None:
        if lost and what not in self._warned:
            self._warned.add(what)
            warnings.warn(
                f"{what} ({sum(lost):,} bytes) is too large for a state, which has at most 1 MiB of it: "
                f"open the Loader with log_dir=, or a resumed run {then}",
                stacklevel=5,
            )

    def prepare(self, saved: Mapping[str, Any] | None) -> Saved:
        """The part of a state, read and checked, before anything changes.

        Raises:
            StateError: it is damaged, or was saved by another rank while reports waited to be exchanged.
        """
        policy = self.name if saved is None else needed(saved, "policy", str)
        if saved is not None and policy != self.name:
            warnings.warn(
                f"the state is of a loader with the policy {policy}: {self.name} decides from the next epoch on, and "
                "until then the rows are those that were decided",
                stacklevel=5,
            )
        if saved is None:
            warnings.warn(
                f"the state has no reports for {self.name}, which begins with what is reported from here on",
                stacklevel=5,
            )
            return Saved(None, {}, {}, {})
        n, beside = len(self._loader.dataset), part(saved, "data", dict, {})
        packed = self._found(needed(saved, "tables"), beside, "table of {!r}", "it begins empty")
        tables = {name: unpacked(name, n, data) for name, data in packed.items()}
        waiting = part(saved, "pending", dict, {})
        place = pair(saved, "rank")
        if waiting and (place != (self._loader.rank, self._loader.world_size) or not self._exchanges):
            raise StateError(
                f"the state was saved by rank {place[0]} of {place[1]} within an epoch, and has that rank's reports "
                "alone: each rank saves its own state, and loads it again"
            )
        packed = self._found(waiting, beside, "reports of {!r} that waited for an exchange", "it goes on without them")
        pending = {name: unpacked_reports(name, n, data) for name, data in packed.items()}
        handed = None if saved.get("handed", 0) is None else pair(saved, "handed")
        made = {name: self._made(name) for name in (*tables, *pending) if name not in self._tables}
        return Saved(handed, tables, pending, made)

    def _found(self, of: Mapping[str, Any], beside: Mapping[str, Any], what: str, then: str) -> dict[str, bytes]:
        """The blobs of a state by the metric's name, as far as they are at hand."""
        blobs = {name: self._blobs.find(digest, beside) for name, digest in of.items()}
        for name, data in blobs.items():
            if data is None:
                warnings.warn(
                    f"the state has only the hash of the {what.format(name)}: open the Loader with the log_dir of the "
                    f"run; {then}",
                    stacklevel=6,
                )
        return {name: data for name, data in blobs.items() if data is not None}

    def load(self, saved: Saved, log: list[dict[str, Any]]) -> None:
        """Goes on from a state that the library has loaded."""
        self._reports.clear()
        self._handed = saved.handed
        self._tables.update(saved.made)
        for name, table in self._tables.items():
            table.core.take(bytearray(0), True)
            none = np.zeros(len(table), bool)
            table.begin(*saved.tables.get(name, (none, table.marks[none])))
        for name, reports in saved.pending.items():
            ids = reports["position"].astype(np.int64)
            ids = ids if self._ids is None else self._ids[ids]
            for at in _by_step(reports):
                first = reports[at[0]]
                self._tables[name].core.report(
                    np.ascontiguousarray(ids[at]),
                    np.ascontiguousarray(reports["value"][at]),
                    int(first["epoch"]),
                    int(first["step"]),
                )
        decided = [entry for entry in log if "list" in entry]
        self._decided = max((entry["epoch"] for entry in decided), default=-1)
        self._listed = bool(decided) and (decided[-1]["list"] is not None or decided[-1]["row"] > 0)  # see overruled
        self._changes += 1


def check_batches(loader: Deciding, who: str, rows: int, epoch: int) -> None:
    """Refuses rows of which an epoch has no batch.

    Raises:
        ValueError: they are fewer than a global batch has, and such are left out.
    """
    if loader._tail == "drop" and rows < (size := loader.global_batch_size):
        raise ValueError(
            f"{who} {rows} rows for epoch {epoch}, and a global batch has {size}: without the last rows, which "
            "drop_last leaves out, the epoch has no batch"
        )


def _told(rows: Rows) -> str:
    if rows.positions is None:
        return "all"
    return f"{rows.selects} {hashlib.sha256(rows.positions.tobytes()).hexdigest()}"


def _places(reports: Array) -> Array:
    """The epoch and step of each report as one number."""
    found: Array = reports["epoch"].astype(np.uint64) << np.uint64(32) | reports["step"]
    return found


def _by_step(reports: Array) -> list[Array]:
    """The indices of the reports of each step, in the order of steps. There is at least one report."""
    places = _places(reports)
    order = np.argsort(places, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(places[order])) + 1)


def _encode(reports: Mapping[str, Array]) -> Array:
    head = json.dumps({name: len(part) for name, part in reports.items()}).encode()
    size = len(head).to_bytes(8, "little")
    return np.concatenate([np.frombuffer(size + head, np.uint8), *(part.view(np.uint8) for part in reports.values())])


def _parse(data: Array) -> dict[str, Array]:
    size = int.from_bytes(data[:8].tobytes(), "little")
    counts = json.loads(data[8 : 8 + size].tobytes())
    found, at = {}, 8 + size
    for name, n in counts.items():
        found[name] = data[at : at + n * NOTED.itemsize].view(NOTED)
        at += n * NOTED.itemsize
    return found
