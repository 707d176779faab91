"""leat.Loader whose rows are made by a Ray cluster."""

from __future__ import annotations

import hashlib
import json
import os
import warnings
import weakref
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import ray

from .. import _leat, check
from ..closing import finalize
from ..errors import BrokenSampleError, BudgetError, InvalidError, UnsupportedError
from ..loading.batch import Batch
from ..loading.cutting import Cut, cut
from ..loading.lineage import Lineage
from ..loading.loader import Loader as Local
from ..loading.making import rows_of
from ..loading.programs import Program
from ..ops import MapBatch
from ..program import NO_OUTPUTS, entries, has_functions
from .flow import Flow, Job, Key, Run
from .parts import Assembling, made_of
from .stages import Stage
from .unordered import REACH, Unit, Window

FIT = 24  #: batches that budget_bytes is by default, if a quarter of the cluster's stores holds them, ...
LITTLE = 32 << 20  #: ... and bytes that it is at least

UNKNOWN = 64 << 10  #: bytes of a row, where the first one cannot tell


class Loader(Local):
    """A :class:`leat.Loader` whose rows are made by the workers of a Ray cluster: the same arguments, batches (byte for
    byte) and states, which go from one to the other.

    Rows of a batch are made by Ray tasks, on any node that has the files under the same paths. Each worker opens data
    set and program once. The program is cut where its rows are smallest: bytes of photos travel, and become floats
    here, in memory of this loader. Whatever a worker or a node takes with it is made again, by its position.

    Args:
        dataset, batch_size, and all others: as of :class:`leat.Loader`. ``num_threads`` is of this process.
            ``budget_bytes`` bounds what flies and what lies in Ray's stores for this loader; one batch more is let
            through if it needs that. ``None``: 24 batches or 32 MiB, at most a quarter of the stores.
        stages: functions of yours on the rows that the program has made, each in actors of its own
            (:class:`leat.ray.Stage`), one behind the other. With them, rows travel as the program makes them. On
            several ranks the tail is ``"drop"``.
        num_cpus: of each Ray task.

    Under Ray Train rank and world size are the worker's.

    Raises:
        leat.UnsupportedError: the data lie in the memory of this process, where no worker reads them.
        leat.BudgetError: a store of Ray is too small for a batch.
    """

    _elsewhere = True

    def __init__(
        self,
        dataset: Any,
        batch_size: int | None = None,
        *args: Any,
        stages: Sequence[Stage] = (),
        num_cpus: float = 1,
        **options: Any,
    ) -> None:
        if not ray.is_initialized():
            raise InvalidError("Ray is not connected: call ray.init(address=...) first")
        if options.get("device") is not None:
            raise UnsupportedError("leat.ray.Loader does not go with device=: batch.to(device) moves each batch")
        if options.get("share"):
            raise UnsupportedError("leat.ray.Loader does not go with share=: each process asks the cluster itself")
        self._report, options["error_report"] = options.get("error_report"), None
        if not all(isinstance(stage, Stage) for stage in stages):
            raise TypeError("stages is a list of leat.ray.Stage(fn)")
        if not num_cpus > 0:
            raise ValueError(f"num_cpus of a task is above 0, not {num_cpus!r}")
        budget = options.pop("budget_bytes", None)
        self._budget = None if budget is None else check.integer("budget_bytes", budget, 1)
        self._flow: Flow | None = None
        self._stages, self._num_cpus = tuple(stages), num_cpus
        self._seen_ahead: tuple[_leat.Batch | None, Batch | None] = (None, None)
        self._window: deque[tuple[int, int]] = deque()
        self._asked_by: Any = None
        self._ended = False
        self._recorded: Batch | None = None  # that is written down, and not handed out yet
        self._unordered: Window | None = None
        if not options.keys() & {"rank", "world_size", "mesh"}:
            options |= place_in_ray_train()
        super().__init__(dataset, batch_size, *args, **options)

    # ---- opening -----------------------------------------------------------------------------------------------------

    def _open(self, program: Program, on_error: str, mixture: Any, log: Any) -> None:
        """Opens the position, which reads nothing: the program runs elsewhere."""
        if self._form.hidden:  # this process needs no outputs
            return super()._open(program, on_error, mixture, log)
        whole, self._options = self._options, {k: v for k, v in self._options.items() if k not in program.options}
        self._options |= {"program": NO_OUTPUTS, "num_threads": 1, "budget_bytes": 0}
        if not self._options["in_order"]:
            self._options["log_dir"] = None  # the engine's record is of rows that it chose
        _leat.Loader.open(**{**whole, "log_dir": None}).close()  # errors of the program are raised here
        super()._open(Program({}), on_error, mixture, log)
        given = dict(self._lineage._given)
        found = cut(given["outputs"], self.dataset.schema) if not self._stages else Cut(given["outputs"], [])
        if self._stages and self.world_size > 1:  # calls have rows of global batches
            if self._tail != "drop":
                raise UnsupportedError(
                    "stages on several ranks need drop_last=True: padded rows are in no global batch"
                )
            given |= {"rank": 0, "world_size": 1, "batch_size": None, "global_batch_size": self._global}
        given["outputs"] = found.head
        self._head = Lineage(given, self._lineage._arrays, self._lineage._hash, self._log_dir)
        if self._loose and self._log_dir is None:
            raise InvalidError("a stage with deterministic=False needs log_dir=, where each batch's hash is recorded")
        if self._loose and not self._options["in_order"]:
            raise UnsupportedError("a stage with deterministic=False needs in_order: its batches are of one execution")
        try:
            self._connect(found, whole["num_threads"])
        except BaseException:
            self._finalizer()
            raise

    def _connect(self, found: Cut, num_threads: int) -> None:
        common, rows = self._head.common(), max(1, self._global // self.world_size)
        row_bytes, together = self._row_bytes(common, found.head)
        budget = _budget(self._budget, rows * row_bytes)
        assembling = Assembling(found.tails, num_threads or "auto")
        ordered = self._options["in_order"]
        if not ordered and rows > REACH:
            raise UnsupportedError(f"in_order=False goes with at most {REACH:,} rows in a rank's batch, not {rows:,}")
        job = Job(common, row_bytes, budget, self._num_cpus, together, self._stages, ordered)
        self._flow = Flow(job, assembling, self._core.tell)
        self._closer = finalize(self, self._flow.close)
        if not ordered:
            me, epochs = weakref.proxy(self), self._options["epochs"]
            last = 0 if self._steered else epochs - 1 if epochs > 0 else None
            self._unordered = Window(self._core, lambda *at: me._planned(*at), lambda *unit: me._ask_unit(*unit), last)

    def _row_bytes(self, common: Mapping[str, Any], head: Any) -> tuple[int, bool]:
        """The bytes of a row as it travels, by the first one; and whether rows can only be made together."""
        if head is not None and has_functions(
            head
        ):  # they would run in a fork of this process, which Ray does not bear
            return UNKNOWN, any(isinstance(op, MapBatch) for entry in entries(head) for op in entry.chain)
        try:
            place = {"epoch": 0, "step": 0, "rows": [0, 1], "decisions": self._now()}
            return made_of(rows_of({**common, **place}), 1, "").nbytes, False
        except UnsupportedError:
            return UNKNOWN, True
        except (BrokenSampleError, IndexError, InvalidError):
            return UNKNOWN, False

    def _now(self) -> Any:
        """The decisions that orders follow from, as plans have them."""
        return self._head.decisions(self.state_dict())

    # ---- batches -----------------------------------------------------------------------------------------------------

    def _taken(self, number: int) -> tuple[_leat.Batch | None, Batch | None]:
        if self._flow is None:
            return super()._taken(number)
        if self._unordered is not None:
            return self._first_there(self._flow, self._unordered, number)
        ahead = self._look()  # the batch is whole before the position moves
        if self._loose and ahead is not None and self._recorded is not ahead:
            self._record((ahead.epoch, ahead.step), ahead)
            self._recorded = ahead
        core = self._got(self._next, number)
        (there, batch), self._seen_ahead = self._seen_ahead, (None, None)
        if core is None:
            return None, None
        if there is None or not core.same(there):  # a decision came in between
            batch = self._batch(core, follow=True)
        self._recorded = None
        self._handed_out(self._flow, (core.epoch(), core.step()), batch)
        return core, batch

    def _handed_out(self, flow: Flow, key: Key, batch: Batch | None) -> None:
        if self._report is not None and batch is not None and batch.errors:
            self._write_report(self._report, batch)
        flow.drop(key)

    def _taken_once(self, number: int) -> tuple[_leat.Batch | None, Batch | None]:
        return super()._taken_once(number) if self._flow is None else self._taken(number)

    def _first_there(self, flow: Flow, window: Window, number: int) -> tuple[_leat.Batch | None, Batch | None]:
        """The batch that is there first, whole before the position moves."""
        found = window.next(flow, number, self._now())
        if found is None:
            return self._got(self._next, number), None
        unit, made = found
        batch = self._batch_of(made.at(unit.epoch, self._core.choose(unit.runs)))
        core = self._got(self._next, number)
        window.given(unit)
        self._handed_out(flow, unit.key, batch)
        return core, batch

    def _look(self) -> Batch | None:
        if self._flow is None:
            return super()._look()
        core = self._got(self._peek)
        if core is None:
            return None
        there, batch = self._seen_ahead
        if there is None or not core.same(there):
            batch = self._batch(core, follow=True)
            self._seen_ahead = (core, batch)
        return batch

    def _batch(self, core: _leat.Batch, follow: bool = False) -> Batch:
        """The batch at the place of one that has no outputs. `follow`: those behind it are asked for, too."""
        flow = self._flow
        if flow is None:
            return super()._batch(core)
        key = core.epoch(), core.step()
        decisions = self._now()
        if follow:
            self._ask_ahead(flow, key, core.rows(), decisions)
        elif self._loose:
            raise UnsupportedError(
                f"stage {self._loose[0].name!r} is not deterministic: the batch of epoch {key[0]}, step {key[1]} "
                "cannot be made again with the same bytes"
            )
        if not flow.knows(key, decisions):
            flow.ask(key, [self._run(key[1], core.rows())], decisions, urgent=True)
        made: Any = flow.take(key)
        if not follow:  # its memory is the caller's, so that next() has to have its own
            flow.drop(key)
        return self._batch_of(made)

    def _batch_of(self, made: Any) -> Batch:
        if not self._form.makers:
            if self._stages:
                self._form.sparse = made.sparse
            self._form.learn(made)
        return self._form.batch(made)

    @property
    def _loose(self) -> list[Stage]:
        """The stages that are not deterministic."""
        return [stage for stage in self._stages if not stage.deterministic]

    def _run(self, step: int, mine: int, first: int = 0, n: int | None = None) -> Run:
        """Rows of this rank's `mine` in a planned batch, as the cluster plans it: with stages, as a whole."""
        before, of = 0, mine
        if self._stages and self.world_size > 1:
            of = self._global
            before, end = (r * of // self.world_size for r in (self.rank, self.rank + 1))
            if end - before != mine:
                raise UnsupportedError(
                    "a global batch that a decision has cut short does not go with stages on several ranks"
                )
        begin = before + first
        return Run(step, (range(begin, begin + (mine - first if n is None else n)),), of)

    def _planned(self, epoch: int, step: int) -> int:
        """The rows of this rank in a planned batch; 0: there is none."""
        try:
            return len(self.plan(epoch, step))
        except IndexError:
            return 0

    def _ask_unit(self, unit: Unit, decisions: Any) -> None:
        assert self._flow is not None
        runs = list[Run]()
        for step, first, n in unit.runs:
            run = self._run(step, self._planned(unit.epoch, step), first, n)
            if runs and runs[-1].step == step:
                run = run._replace(rows=(*runs.pop().rows, *run.rows))
            runs.append(run)
        self._flow.ask(unit.key, runs, decisions)

    def _write_report(self, path: Any, batch: Batch) -> None:
        """Appends the broken samples of a batch that was handed out, as the engine does (without its code)."""
        try:
            with open(path, "a") as file:
                for error in batch.errors:
                    file.write(json.dumps({"epoch": batch.epoch, "step": batch.step, **error._asdict()}) + "\n")
        except OSError as e:  # a by-product: batch.errors says the same
            warnings.warn(f"the error report was not written: {e}", stacklevel=6)

    def batch_at(self, epoch: int | Mapping[str, Any], step: int | None = None) -> Batch:
        if self._unordered is not None:
            raise UnsupportedError(
                "with in_order=False leat.ray.Loader keeps no record of which rows came together, so batch_at has none"
            )
        return super().batch_at(epoch, step)

    def consumer(self, *args: Any, **options: Any) -> Any:
        """Raises :class:`leat.UnsupportedError`: rows that a cluster makes are not kept for other readers."""
        raise UnsupportedError("leat.ray.Loader has no further consumers: open another one, which makes its own rows")

    def _record(self, key: tuple[int, int], batch: Batch | None) -> None:
        """Writes down which execution of a batch was handed out."""
        assert self._flow is not None and batch is not None and self._log_dir is not None
        ids = hashlib.blake2b(np.asarray(batch.ids).tobytes(), digest_size=8).hexdigest()
        line = {"epoch": key[0], "step": key[1], "rank": self.rank, "ids": ids, "hashes": self._flow.hashes(key)}
        os.makedirs(self._log_dir, exist_ok=True)
        with open(os.path.join(self._log_dir, f"stages-{self.rank}.jsonl"), "a") as file:
            file.write(json.dumps(line) + "\n")

    def _ask_ahead(self, flow: Flow, key: tuple[int, int], rows: int, decisions: Any) -> None:
        window = self._window
        while window and window[0] != key:
            window.popleft()
        if decisions != self._asked_by or not window:
            window.clear()
            self._asked_by = decisions
        flow.keep([*window, key], decisions)
        if not flow.knows(key, decisions):  # the first one, or one that has failed
            flow.ask(key, [self._run(key[1], rows)], decisions, urgent=True)
        if not window:
            window.append(key)
            self._ended = False
        while len(window) < flow.ahead(rows) and not self._ended:
            behind = self._behind(window[-1])
            if behind is None:
                self._ended = True  # until the window begins anew
                return
            place, n = behind
            flow.ask(place, [self._run(place[1], n)], decisions)
            window.append(place)

    def _behind(self, key: tuple[int, int]) -> tuple[tuple[int, int], int] | None:
        """The place behind one, and its rows; None where it is not known."""
        epoch, step = key
        epochs = self._options["epochs"]
        for place in ((epoch, step + 1), (epoch + 1, 0)):
            if place[0] != epoch and (self._steered or 0 < epochs <= place[0]):
                return None
            try:
                return place, len(self.plan(*place))
            except IndexError:
                continue
        return None

    @property
    def _steered(self) -> bool:
        """Whether the order of the next epoch is known only as it begins."""
        return self._sampler is not None or self._feedback is not None or self._mixture is not None

    # ---- about it ----------------------------------------------------------------------------------------------------

    def stats(self) -> dict[str, Any]:
        """As of :class:`leat.Loader`, and ``stats()["ray"]``: tasks, partitions that were made again because a worker
        or node was lost, bytes that came, that fly and lie in stores now, and at most, the budget, rows by node, and
        what batches wait for (``limit``). ``stats()["stages"]`` has of each stage its name, rows, seconds, actors, and
        whether it is nondeterministic.
        """
        found = super().stats()
        if self._flow is not None:
            found["ray"] = self._flow.told()
            found["stages"] = self._flow.told_of_stages()
            found["consumer_wait_s"] = found["ray"]["wait_s"]
        return found

    def close(self) -> None:
        super().close()
        if self._flow is not None:
            self._closer()


def place_in_ray_train() -> dict[str, int]:
    """Rank and world size of a worker of Ray Train, if this process is one."""
    from ray import train  # here: it imports much, and Ray may be installed without it

    try:
        context = train.get_context()
        rank, world_size = context.get_world_rank(), context.get_world_size()
    except Exception:  # noqa: BLE001 outside of a worker versions raise different errors, or give None
        return {}
    return {} if world_size is None or rank is None else {"rank": rank, "world_size": world_size}


def _budget(given: int | None, batch_bytes: int) -> int:
    """The bytes that may fly and lie in stores."""
    stores = [int(n["Resources"].get("object_store_memory", 0)) for n in ray.nodes() if n["Alive"]]
    if batch_bytes > min(stores, default=0) // 2:
        raise BudgetError(
            f"a batch of {batch_bytes:,} bytes does not fit into half of the smallest store of this Ray cluster, "
            f"{min(stores, default=0):,} bytes: start its nodes with a larger object_store_memory, or make batches "
            "smaller"
        )
    return given or max(3 * batch_bytes, min(max(FIT * batch_bytes, LITTLE), sum(stores) // 4))
