"""The result of a mixture, from its plan: shares over the rows, passes of each source, and the rows at which a source
is exhausted.

Samples are not read. The library counts the rows of each source before any row of an epoch in the time of finding a
position, so a curve over 10^9 rows takes as long as one over 10^3. Only the tokens of rows that vary in length need
every row of the plan.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .. import _leat, check
from ..data.packing import PackedRows
from ..errors import RangeError
from ..saved import damage_is_said
from .logs import has_lists, run_of
from .mixing import Mix, planning, token_lengths
from .schedule import Schedule

Counts = np.ndarray[Any, np.dtype[np.int64]]
Shares = np.ndarray[Any, np.dtype[np.float64]]

POINTS = 400  #: of a curve at most
ROWS_OF_POINT = 200  #: at least, so that a point is no single row
VALUES = 4_000_000  #: points times sources at most
MOST_EPOCHS = 10_000
MOST_WALKED = 1 << 28  #: rows that are planned one by one for their tokens
MOST_SEARCHED = 1024  #: sources whose exhaustion is searched for
AT_ONCE = 1 << 20
BATCH = 256  #: rows that are planned together if no batch size is known
ALL = (1 << 64) - 1


@dataclass(frozen=True)
class Point:
    """A place in the stream."""

    epoch: int
    row: int  #: of the epoch
    stream: int  #: rows of all epochs before it
    step: int | None  #: batches of all epochs before it; None: there is no batch size


@dataclass(frozen=True)
class Source:
    """The rows that one source of a mixture gave."""

    name: str
    size: int  #: rows of one pass
    exhausted: str  #: the word of the mixture
    asked: float  #: the mean of the share that was asked for
    asked_first: float
    asked_last: float
    delivered: float  #: the share, in the unit of the mixture
    rows: int
    tokens: int | None
    passes: float  #: rows by `size`
    repeats: int  #: how often it began again
    through: Point | None  #: where it had given each sample once for the first time: the row behind the last of them


@dataclass(frozen=True)
class Shown:
    """The result of ``mix.show()``. It prints as a table; `save` draws it, and `as_dict` is plain data.

    `rows` and `tokens` are counts by source before each of `edges`; `asked` is the mean of the stated share between two
    of them.
    """

    title: str
    unit: str
    sources: list[Source]
    epochs: list[int]  #: rows of each epoch; for the last one those that are shown
    steps: int | None
    edges: Counts  #: rows of the stream
    step_edges: Shares | None  #: the same in steps
    rows: Counts  #: (edges, sources)
    tokens: Counts | None
    asked: Shares  #: (edges - 1, sources)
    changes: list[Point]  #: where a decision of a log or a point of a schedule changes shares
    notes: list[str] = field(default_factory=list)

    @property
    def delivered(self) -> Shares:
        """Shares between two edges, in the unit of the mixture: rows, or tokens."""
        return shares_of(np.diff(self.counted, axis=0))

    @property
    def counted(self) -> Counts:
        """Rows or tokens, as the mixture counts."""
        return self.tokens if self.unit == "tokens" and self.tokens is not None else self.rows

    @property
    def passes(self) -> Shares:
        """The number of passes of each source before each edge."""
        return self.rows / np.maximum([s.size for s in self.sources], 1)

    def as_dict(self) -> dict[str, Any]:
        """Plain data, as ``leat mix show --json`` prints them."""
        names = [s.name for s in self.sources]

        def columns(values: np.ndarray[Any, Any]) -> dict[str, list[Any]]:
            return {name: values[:, k].tolist() for k, name in enumerate(names)}

        return {
            "title": self.title,
            "unit": self.unit,
            "rows": int(self.edges[-1]),
            "steps": self.steps,
            "tokens": None if self.tokens is None else int(self.tokens[-1].sum()),
            "epochs": self.epochs,
            "sources": [{**vars(s), "through": s.through and vars(s.through)} for s in self.sources],
            "changes": [vars(at) for at in self.changes],
            "over": {
                "rows": self.edges.tolist(),
                "steps": None if self.step_edges is None else self.step_edges.tolist(),
                "asked": columns(self.asked),
                "delivered": columns(self.delivered),
                "passes": columns(self.passes),
            },
            "notes": self.notes,
        }

    def save(self, path: Any) -> None:
        """Draws shares and passes over the rows into a PNG (or PDF, or SVG, by the name). Needs matplotlib."""
        from .plotted import save

        save(self, path)

    def __str__(self) -> str:
        from .printed import text

        return text(self)

    def __repr__(self) -> str:
        return f"<leat.mixtures.Shown of {self.title}>"

    def _repr_html_(self) -> str:
        """Its display in a notebook: the table."""
        from .printed import html

        return html(self)


def shares_of(counts: Counts) -> Shares:
    """Each row by its sum; 0 if that is 0."""
    total = counts.sum(axis=1, keepdims=True)
    shares: Shares = np.divide(counts, total, out=np.zeros(counts.shape), where=total > 0)
    return shares


def _planned(
    mixture: Mix | Schedule, batch: int, log: Sequence[Mapping[str, Any]] | None, seed: int, order: Mapping[str, Any]
) -> _leat.Loader:
    """The plan of a run that has decided `log`; lists of rows are decided as epochs begin, and do not count here."""
    blocks = {name: order[name] for name in ("block_rows", "block_window") if name in order}
    core = planning(mixture, batch, order=check.ORDERS[order["order"]], seed=seed, tail=check.TAILS["uneven"], **blocks)
    if log and not has_lists(log):
        with damage_is_said():
            core.load_state(json.dumps({**json.loads(core.state()), "log": log}))
    return core


# ---- the plan --------------------------------------------------------------------------------------------------------


class _Plan:
    """The order of a mixture as a loader has it: counts of rows before a place in the stream of all epochs."""

    def __init__(
        self,
        mixture: Mix | Schedule,
        batch: int,
        log: Sequence[Mapping[str, Any]] | None,
        seed: int,
        order: Mapping[str, Any],
    ) -> None:
        self.mix = mixture.first if isinstance(mixture, Schedule) else mixture
        self.core = _planned(mixture, batch, log, seed, order)
        self.n = len(self.mix.names)
        self.starts = [0]  # of each epoch that is known, in rows of the stream, and of the next one
        self.before = [np.zeros(self.n, np.int64)]  # counts then

    def of_epoch(self, epoch: int, rows: int) -> Counts:
        counts = np.zeros(self.n, np.uint64)
        self.core.mix_counts(epoch, rows, counts)
        return counts.astype(np.int64)

    def add_epoch(self) -> int:
        """Finds one epoch more; returns its rows."""
        counts = self.of_epoch(len(self.starts) - 1, ALL)
        self.starts.append(self.starts[-1] + int(counts.sum()))
        self.before.append(self.before[-1] + counts)
        return self.starts[-1] - self.starts[-2]

    def place(self, stream: int) -> tuple[int, int]:
        """Epoch and row of a row of the stream."""
        epoch = int(np.searchsorted(self.starts, stream, "right")) - 1
        return epoch, stream - self.starts[epoch]

    def counts(self, stream: int) -> Counts:
        epoch, row = self.place(stream)
        return self.before[epoch] + (self.of_epoch(epoch, row) if row else 0)

    def through(self, k: int, size: int, low: int, high: int) -> int:
        """The first row of the stream before which source k has given `size` rows; that is in (low, high]."""
        while high - low > 1:
            middle = (low + high) // 2
            if self.counts(middle)[k] >= size:
                high = middle
            else:
                low = middle
        return high


class _Steps:
    """The starts of steps: batches have one size until a decision changes it."""

    def __init__(self, log: Sequence[Mapping[str, Any]], plan: _Plan) -> None:
        self.sizes = [(e["epoch"], e["row"], e["global_batch"]) for e in log if "global_batch" in e]
        self.starts = plan.starts
        self.first = [0]  # steps before each epoch
        self.catch_up()

    def catch_up(self) -> None:
        """Counts the epochs that the plan has found since."""
        for epoch in range(len(self.first) - 1, len(self.starts) - 1):
            rows = self.starts[epoch + 1] - self.starts[epoch]
            self.first.append(self.first[-1] + self._within(epoch, rows, True))

    def _within(self, epoch: int, row: int, up: bool) -> int:
        size, begin, step = 1, 0, 0
        for at_epoch, at_row, new in self.sizes:
            if (at_epoch, at_row) > (epoch, row):
                break
            if at_epoch == epoch:
                step, begin = step - (begin - at_row) // size, at_row
            size = new
        return step + (-((begin - row) // size) if up else (row - begin) // size)

    def at(self, epoch: int, row: int) -> int:
        """Steps before a row; one that begins before it and ends behind it does not count."""
        return self.first[epoch] + self._within(epoch, row, False)

    def rows(self, epoch: int, step: int) -> int:
        """The row at which a step of an epoch begins."""
        low, high = 0, self.starts[epoch + 1] - self.starts[epoch]
        while low < high:
            middle = (low + high) // 2
            if self._within(epoch, middle, False) < step:
                low = middle + 1
            else:
                high = middle
        return low


def _decisions(log: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return [e for e in log if e["kind"] == "decide" and "shares" in e]


def _asked(plan: _Plan, mixture: Mix | Schedule, batch: int, log: Sequence[Mapping[str, Any]], edges: Counts) -> Shares:
    """The mean of the stated share between edges."""
    end = int(edges[-1])
    weights = np.array(list(mixture.weights.values()))
    parts: list[tuple[int, float, Shares, Shares]] = [(0, 1, weights, weights)]  # from a row on, rows, from and to
    if isinstance(mixture, Schedule):
        unit = batch if mixture.counts == "steps" else 1
        found = [(at * unit, np.array(list(mix.weights.values()))) for at, mix in mixture.points]
        found.append((found[-1][0] + 1, found[-1][1]))
        linear = mixture.interpolate == "linear"
        parts = [(at, n - at, w, to if linear else w) for (at, w), (n, to) in zip(found, found[1:], strict=False)]
    for entry in _decisions(log):
        if entry["epoch"] >= len(plan.starts):
            continue
        at = plan.starts[entry["epoch"]] + entry["row"]
        decided = np.array(entry["shares"], np.float64)
        parts = [p for p in parts if p[0] < at]  # it ends a schedule, and an earlier one of its place
        parts.append((at, 1, decided / decided.sum(), decided / decided.sum()))
    total = np.zeros((len(edges) - 1, plan.n))
    for i, (begin, length, here, there) in enumerate(parts):
        stop = parts[i + 1][0] if i + 1 < len(parts) else max(end, begin + 1)
        first = max(int(np.searchsorted(edges, begin, "right")) - 1, 0)
        last = min(int(np.searchsorted(edges, stop, "left")), len(edges) - 1)
        if begin >= end or last <= first:
            continue
        low, high = np.maximum(edges[first:last], begin), np.minimum(edges[first + 1 : last + 1], stop)
        middle = ((low + high) / 2 - begin) / length
        total[first:last] += (high - low)[:, None] * (here + (there - here) * middle[:, None])
    return total / np.diff(edges)[:, None]


# ---- tokens ----------------------------------------------------------------------------------------------------------


def _lengths(mix: Mix, counted: Sequence[int]) -> list[int | Counts] | None:
    """The tokens of each source's rows: one number if they are alike. None: there is no field of tokens."""
    f = mix.schema.get(mix.tokens_field)
    if f is None or f.kind != "array" or len(f.shape) != 1:
        return None
    found: list[int | Counts] = []
    for k, ds in enumerate(mix.datasets):
        if isinstance(ds, PackedRows):
            found.append(ds.length)
        elif f.shape[0] is not None or not counted[k]:
            found.append(f.shape[0] or 0)
        else:
            lengths = token_lengths(ds, mix.tokens_field)
            found.append(int(lengths[0]) if (lengths == lengths[0]).all() else lengths)
    return found


def _tokens(plan: _Plan, lengths: list[int | Counts], edges: Counts, rows: Counts) -> Counts | None:
    """Tokens by source before each edge; None if that takes too long."""
    if all(isinstance(n, int) for n in lengths):
        return rows * np.array(lengths, np.int64)
    end = int(edges[-1])
    if end > MOST_WALKED:
        return None
    sizes = [len(n) if isinstance(n, np.ndarray) else 1 for n in lengths]
    of_row = np.concatenate([np.atleast_1d(n) for n in lengths])  # of each row, or one for all rows of a source
    begins = np.cumsum([0, *sizes[:-1]])
    alike = np.array([not isinstance(n, np.ndarray) for n in lengths])
    cells = np.zeros((len(edges) - 1) * plan.n)
    done = epoch = step = 0
    while done < end:
        taken: list[tuple[Counts, Counts]] = []
        n = 0
        while n < AT_ONCE and done + n < end:
            try:
                domains, positions = map(np.asarray, plan.core.plan_domains(epoch, step))
            except RangeError:
                epoch, step = epoch + 1, 0
                continue
            taken.append((domains, positions))
            n, step = n + len(domains), step + 1
        source, position = (np.concatenate(part)[: end - done] for part in zip(*taken, strict=True))
        tokens = of_row[begins[source] + np.where(alike[source], 0, position)]
        part = np.searchsorted(edges, np.arange(done, done + len(source)), "right") - 1
        first = int(part[0])
        sums = np.bincount((part - first) * plan.n + source, weights=tokens)
        cells[first * plan.n : first * plan.n + len(sums)] += sums
        done += len(source)
    table = cells.astype(np.int64).reshape(-1, plan.n)
    return np.concatenate([np.zeros((1, plan.n), np.int64), np.cumsum(table, axis=0)])


# ---- all of it -------------------------------------------------------------------------------------------------------


def show(
    mixture: Mix | Schedule,
    *,
    batch_size: int | None = None,
    epochs: int | None = None,
    steps: int | None = None,
    rows: int | None = None,
    log: Any = None,
    seed: int | None = None,
    shuffle: bool | None = None,
    points: int = POINTS,
    until: tuple[int, int] | None = None,
    order: tuple[int, Mapping[str, Any]] | None = None,
) -> Shown:
    """Documented in :meth:`leat.Mix.show`. `until`: the end of a run so far. `order`: seed and order of a Loader."""
    entries, said = (None, None) if log is None else run_of(log)
    if batch_size is not None:
        batch_size = check.integer("batch_size", batch_size, 1)
    elif entries:
        batch_size = check.integer("global_batch", entries[0].get("global_batch"), 1)
    elif isinstance(mixture, Schedule) and mixture.counts == "steps" and len(mixture.points) > 1:
        raise ValueError("the points of this schedule count steps: give the batch_size of all ranks together")
    given = {"epochs": epochs, "steps": steps, "rows": rows}
    wanted = tuple(None if n is None else check.integer(name, n, 1) for name, n in given.items())
    if sum(n is not None for n in wanted) > 1:
        raise ValueError("epochs, steps and rows each say how much is shown: give one of them")
    if steps is not None and batch_size is None:
        raise ValueError("steps are counted in batches: give batch_size")
    points = check.integer("points", points, 1)
    until = None if any(wanted) or until == (0, 0) else until
    told, place = said or order or (0, {"order": "shuffled"})
    seed = told if seed is None else check.seed(seed)
    if shuffle is not None:
        place = {"order": "shuffled" if check.flag("shuffle", shuffle) else "sequential"}
    plan = _Plan(mixture, batch_size or BATCH, entries, seed, place)
    try:
        return _show(plan, mixture, batch_size, entries or [], wanted, points, until)
    finally:
        plan.core.close()


def _end(
    plan: _Plan,
    steps: _Steps | None,
    last: int,
    wanted: tuple[int | None, ...],
    notes: list[str],
) -> int:
    """The row of the stream up to which is shown; all epochs up to there are then known to the plan. `last` is a row
    that is shown too, if no length is given."""
    epochs, n_steps, rows = wanted
    while True:
        found = len(plan.starts) - 1
        if rows is not None and plan.starts[-1] >= rows:
            return rows
        if n_steps is not None and steps is not None and steps.first[-1] >= n_steps:
            epoch = int(np.searchsorted(steps.first, n_steps, "left")) - 1
            return plan.starts[epoch] + steps.rows(epoch, n_steps - steps.first[epoch])
        if rows is None and n_steps is None and found and found >= (epochs or 0) and (epochs or plan.starts[-1] > last):
            return plan.starts[-1]
        if found == MOST_EPOCHS:
            notes.append(f"shown are the first {MOST_EPOCHS:,} epochs")
            return plan.starts[-1]
        plan.add_epoch()
        if steps is not None:
            steps.catch_up()


def _changes(plan: _Plan, mixture: Mix | Schedule, batch: int, log: Sequence[Mapping[str, Any]]) -> list[int]:
    """Rows of the stream at which the stated shares change. A decision ends a schedule."""
    decided = [plan.starts[e["epoch"]] + e["row"] for e in _decisions(log) if e["epoch"] < len(plan.starts)]
    points: list[int] = []
    if isinstance(mixture, Schedule):
        unit = batch if mixture.counts == "steps" else 1
        points = [at * unit for at, _ in mixture.points[1:] if not decided or at * unit < decided[0]]
    return sorted({*decided, *points})


def _last_change(mixture: Mix | Schedule, batch: int, log: Sequence[Mapping[str, Any]], plan: _Plan) -> int:
    while len(plan.starts) <= min(max((e["epoch"] + 1 for e in _decisions(log)), default=0), MOST_EPOCHS):
        plan.add_epoch()
    return max(_changes(plan, mixture, batch, log), default=0)


def _show(
    plan: _Plan,
    mixture: Mix | Schedule,
    batch: int | None,
    log: Sequence[Mapping[str, Any]],
    wanted: tuple[int | None, ...],
    points: int,
    until: tuple[int, int] | None,
) -> Shown:
    mix, notes = plan.mix, [f"{n:,} samples of {name!r} are left out" for name, n in plan.mix.left_out.items()]
    if until is not None:
        while len(plan.starts) <= min(until[0], MOST_EPOCHS) + 1:
            plan.add_epoch()
        wanted = (None, None, plan.starts[min(until[0], MOST_EPOCHS)] + until[1])
    last = _last_change(mixture, batch or 1, log, plan) if not any(wanted) else 0
    steps = None if batch is None else _Steps(log or [{"epoch": 0, "row": 0, "global_batch": batch}], plan)
    end = _end(plan, steps, last, wanted, notes)
    n = max(min(points, end // ROWS_OF_POINT, VALUES // plan.n), min(points, 8, end))
    edges = np.unique(np.linspace(0, end, n + 1).round().astype(np.int64))
    rows = np.stack([plan.counts(int(at)) for at in edges])
    lengths = _lengths(mix, rows[-1].tolist())
    tokens = None if lengths is None else _tokens(plan, lengths, edges, rows)
    if lengths is not None and tokens is None:
        notes.append("tokens are not counted: rows differ in length, and there are too many of them")
    asked = _asked(plan, mixture, batch or 1, log, edges)

    def point(stream: int) -> Point:
        epoch, row = plan.place(stream)
        if epoch and (not row or epoch == len(plan.starts) - 1):  # the end of an epoch, not the next one's start
            epoch, row = epoch - 1, stream - plan.starts[epoch - 1]
        return Point(epoch, row, stream, None if steps is None else steps.at(epoch, row))

    sizes = [len(ds) for ds in mix.datasets]
    through: list[Point | None] = [None] * plan.n
    for k in np.flatnonzero((rows[-1] >= sizes) & (np.array(sizes) > 0))[:MOST_SEARCHED].tolist():
        i = int(np.searchsorted(rows[:, k], sizes[k], "left"))
        through[k] = point(plan.through(k, sizes[k], int(edges[max(i - 1, 0)]), int(edges[i])))
    return Shown(
        _title(mixture, log),
        mix.unit,
        _sources(mix, sizes, edges, rows, tokens, asked, through),
        np.diff([s for s in plan.starts if s < end] + [end]).tolist(),
        None if steps is None else _step_of(steps, plan, end),
        edges,
        None if steps is None else np.array([_step_of(steps, plan, int(at)) for at in edges], np.float64),
        rows,
        tokens,
        asked,
        [point(at) for at in _changes(plan, mixture, batch or 1, log) if 0 < at < end],
        notes,
    )


def _sources(
    mix: Mix,
    sizes: list[int],
    edges: Counts,
    rows: Counts,
    tokens: Counts | None,
    asked: Shares,
    through: list[Point | None],
) -> list[Source]:
    counted = tokens[-1] if mix.unit == "tokens" and tokens is not None else rows[-1]
    delivered = counted / max(int(counted.sum()), 1)
    mean = (asked * np.diff(edges)[:, None]).sum(axis=0) / int(edges[-1])
    found = []
    for k, (name, (word, limit)) in enumerate(zip(mix.names, mix._exhausted, strict=True)):
        given = int(rows[-1, k])
        found.append(
            Source(
                name,
                sizes[k],
                f"{word}, at most {limit:,} passes" if limit else word,
                float(mean[k]),
                float(asked[0, k]),
                float(asked[-1, k]),
                float(delivered[k]),
                given,
                None if tokens is None else int(tokens[-1, k]),
                given / sizes[k] if sizes[k] else 0.0,
                max(-(-given // sizes[k]) - 1, 0) if sizes[k] else 0,
                through[k],
            )
        )
    return found


def _step_of(steps: _Steps, plan: _Plan, stream: int) -> int:
    epoch, row = plan.place(stream)
    return steps.first[epoch] if epoch == len(plan.starts) - 1 else steps.at(epoch, row)


def _title(mixture: Mix | Schedule, log: Sequence[Mapping[str, Any]]) -> str:
    decided = len(_decisions(log))
    what = f"{len(mixture.names):,} source{'s' if len(mixture.names) > 1 else ''}"
    if isinstance(mixture, Schedule):
        what += f", a schedule of {len(mixture.points):,} points ({mixture.interpolate})"
    if decided:
        what += f", {decided:,} decision{'s' if decided > 1 else ''} of a log"
    return what
