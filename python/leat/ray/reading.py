"""Data sets as data sets of Ray Data."""

from __future__ import annotations

import functools
import json
import math
import os
import pickle
import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import ray
from ray.data.block import BlockMetadata
from ray.data.datasource import Datasource, ReadTask

from .. import _leat
from ..data.dataset import Dataset, no_dataset
from ..data.dataset import open as open_dataset
from ..data.one_of import OneOf
from ..data.packing import PackedRows, pack_of
from .blocks import column_of

BATCH = 1 << 16  #: rows that the engine plans at a time
LEAST = 1 << 20  #: bytes of a task, where there are fewer than TASKS for each CPU
TASKS = 4  #: for each CPU: a task costs Ray 30 ms of CPU, as much as reading 60 MB, and one too large keeps others idle
BLOCK = 64 << 20  #: bytes of a block, at most about: half of Ray's own limit, so that it cuts none
SMALL = 256 << 10  #: bytes of a pickled data set that goes with each task; a larger one lies in Ray's store, once
HELD = 1 << 40  #: bytes of blocks that are in use: how many is up to Ray
KEPT = 4  #: data sets that a worker process keeps open


def read(
    src: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | Dataset,
    columns: Sequence[str] | None = None,
    **options: Any,
) -> ray.data.Dataset:
    """The samples of a data set as a :class:`ray.data.Dataset`, read by Ray tasks.

    The number of rows is exact, and so are bytes where the data set has an index, as leat's own files have: both are
    known before anything is read. Only the columns that are wanted are read (also after ``select_columns``), and no
    more rows than a ``limit`` lets through.

    Args:
        src: a path or a list of them, as :func:`leat.open` takes it, or a data set, which may be a view. Nodes need the
            files under the same paths.
        columns: names of fields; ``None``: all but those that leat derives, such as ``image.width``. ``"id"`` is the
            sample id, if no field has that name.
        options: of :func:`ray.data.read_datasource`: ``override_num_blocks``, ``num_cpus``, ``concurrency`` ...

    Numbers are columns of numbers, arrays of a fixed shape Ray's tensors, arrays of open length lists, sparse rows
    structs of two lists, ``values`` and ``columns`` (those of bool as uint8). ``str`` and JSON are text, photos and
    ``bytes`` binary: photos stay encoded, and :func:`leat.apply` decodes them in ``map_batches``. bfloat16 becomes
    float32. Rows come in the order of the data set if Ray Data keeps the order of blocks
    (``DataContext.get_current().execution_options.preserve_order = True``).

    Raises:
        KeyError: there is no such field.
        TypeError: `src` is neither a path nor a data set, or `columns` no list of names.

    Photos that are marked as broken come as they are, and :func:`leat.apply` applies its ``on_error`` to them. Damaged
    files raise the errors of :class:`leat.Loader`, from the task that reads them.
    """
    if isinstance(src, (str, os.PathLike, list, tuple)):
        src = open_dataset(src)
    if isinstance(src, OneOf):
        raise TypeError("rows of leat.one_of are drawn by a loader (leat.ray.Loader): read its .samples")
    if not isinstance(src, Dataset):
        raise no_dataset("read takes a path, a list of paths or a data set", src)
    source = LeatDatasource(src, columns_of(src, columns))
    if not options.keys() & {"override_num_blocks", "parallelism"}:
        options["override_num_blocks"] = source.tasks()
    return ray.data.read_datasource(source, **options)


def columns_of(ds: Dataset, columns: Sequence[str] | None) -> list[str]:
    """The names that are meant."""
    if columns is None:
        return [name for name, field in ds.schema.items() if not field.derived]
    if isinstance(columns, str) or not isinstance(columns, Sequence):
        raise TypeError(f"columns is a list of names of fields, not {columns!r:.60}")
    for name in columns:
        if name != "id" or name in ds.schema:
            ds._find(name)
    return list(dict.fromkeys(columns))


class LeatDatasource(Datasource):  # type: ignore[misc]
    """What Ray Data reads: some columns of a data set."""

    def __init__(self, dataset: Dataset, columns: Sequence[str]) -> None:
        super().__init__()
        self._dataset = dataset
        self._projection_map: dict[str, str] | None = {name: name for name in columns}
        self._sizes: dict[tuple[str, ...], Sizes] = {}  # of columns that were asked for, here and in what is made of it

    def get_name(self) -> str:
        """The name of its tasks."""
        return "Leat"

    def supports_projection_pushdown(self) -> bool:
        """Yes: a column that nobody wants is not read."""
        return True

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_sizes": {}}

    @property
    def _columns(self) -> list[str]:
        return list(self._projection_map or {})

    def sizes(self) -> Sizes:
        """Those of the columns that are wanted."""
        key = tuple(self._columns)
        if key not in self._sizes:
            self._sizes[key] = Sizes(self._dataset, key)
        return self._sizes[key]

    def tasks(self) -> int | None:
        """How many read tasks cost least; None: Ray is to say it."""
        sizes = self.sizes()
        if not sizes.known or not sizes.count:
            return None
        total = sizes.of(0, sizes.count)
        cpus = ray.cluster_resources().get("CPU", 1) if ray.is_initialized() else os.cpu_count() or 1
        return max(-(-total // BLOCK), min(int(TASKS * cpus), total // LEAST), 1)

    def estimate_inmemory_data_size(self) -> int | None:
        """Bytes of all blocks, if an index says it."""
        sizes = self.sizes()
        return sizes.of(0, sizes.count) if sizes.known else None

    def get_read_tasks(
        self, parallelism: int, per_task_row_limit: int | None = None, data_context: Any = None
    ) -> list[ReadTask]:
        """Tasks of about as many bytes each."""
        columns, sizes = self._columns, self.sizes()
        pickled: Any = pickle.dumps(self._dataset)
        if len(pickled) > SMALL:
            pickled = ray.put(pickled)
        tasks = []
        for begin, end in sizes.parts(parallelism):
            end = end if per_task_row_limit is None else min(end, begin + per_task_row_limit)
            rows = max(1, (end - begin) * BLOCK // max(sizes.of(begin, end), 1)) if sizes.known else BATCH
            about = BlockMetadata(
                num_rows=end - begin,
                size_bytes=sizes.of(begin, end) if sizes.known else None,
                exec_stats=None,
                input_files=None,
            )
            function = functools.partial(_blocks, pickled, columns, begin, end, rows)
            functools.update_wrapper(function, _blocks)  # Ray names the function in its warnings
            tasks.append(ReadTask(function, about, per_task_row_limit=per_task_row_limit))
        return tasks or [
            ReadTask(functools.partial(_blocks, pickled, columns, 0, 0, 1), BlockMetadata(0, 0, None, None))
        ]


class Sizes:
    """The bytes of rows in blocks, without a value being read."""

    def __init__(self, ds: Dataset, columns: Sequence[str]) -> None:
        self.count = len(ds)
        self.known = isinstance(ds, PackedRows) or has_index(ds)
        self._bits = 0  # of a row, for what all rows have alike
        self._ends: np.ndarray[Any, np.dtype[np.int64]] | None = None  # bits of what varies, up to the end of each row
        for name in columns if self.known else ():
            if name == "id" and name not in ds.schema:
                self._bits += 64
                continue
            index, field = ds._find(name)
            item = 4 if field.dtype == "bfloat16" else np.dtype(field.dtype).itemsize  # it comes as float32
            each = 1 if field.kind == "array" and field.dtype == "bool" else 8 * item
            if field.kind == "array" and None not in field.shape:
                self._bits += each * math.prod(n or 1 for n in field.shape) + 64 * bool(field.shape)
                continue
            if field.kind == "sparse":
                self._bits += 64  # of columns; lengths are of bytes
                item, each = 1, 8
            self._bits += 64  # its offset
            stored = 2 if field.dtype == "bfloat16" else item
            ends = np.cumsum(np.asarray(ds._handle.column(index, False, True)).astype(np.int64)) // stored * each
            self._ends = ends if self._ends is None else self._ends + ends

    def of(self, begin: int, end: int) -> int:
        """The bytes of rows [begin, end)."""
        bits = (end - begin) * self._bits
        if self._ends is not None and begin < end:
            bits += int(self._ends[end - 1]) - (int(self._ends[begin - 1]) if begin else 0)
        return -(-bits // 8)

    def parts(self, n: int) -> list[tuple[int, int]]:
        """At most `n` runs of rows, of about as many bytes each; none is empty."""
        ends = np.arange(1, self.count + 1, dtype=np.float64) * max(self._bits, 1)
        ends = ends if self._ends is None else ends + self._ends
        wanted = np.arange(1, n + 1) * (ends[-1] / n) if self.count else []
        cuts = [0, *(np.searchsorted(ends, wanted) + 1).clip(max=self.count).tolist()] if self.count else [0]
        return [(a, b) for a, b in zip(cuts, cuts[1:], strict=False) if a < b]


def has_index(ds: Dataset) -> bool:
    """Whether lengths stand in an index; else they are known once values are read."""
    kind = ds._recipe[0]
    if isinstance(kind, Dataset):  # a view
        return has_index(kind)
    parts = ds._recipe[1] if kind in ("concat", "zip") else ds._recipe[1:2] if kind == "windows" else ()
    return kind != "source" and all(map(has_index, parts.values() if isinstance(parts, dict) else parts))


class _Open:
    """A data set and a loader of some of its columns, in a worker process. Threads take turns."""

    def __init__(self, pickled: bytes, columns: tuple[str, ...]) -> None:
        self._lock = threading.Lock()
        self._dataset: Dataset = pickle.loads(pickled)
        self._columns = columns
        self._ids = "id" in columns and "id" not in self._dataset.schema
        fields = [name for name in columns if name != "id" or not self._ids]
        self.batch = min(max(len(self._dataset), 1), BATCH)
        chains = {name: {"field": name, "chain": []} for name in fields}
        self._core = _leat.Loader.open(
            program=json.dumps({"operators": {}, "outputs": chains}),
            dataset=self._dataset._handle,
            pack=pack_of(self._dataset),
            batch_size=self.batch,
            num_threads=1,
            max_held_bytes=HELD,
        )

    def table(self, begin: int, end: int) -> Any:
        """Rows [begin, end), all of one batch of the engine."""
        with self._lock:
            core = self._core.batch_at(0, begin // self.batch, begin % self.batch, end - begin)
        outputs = {found[0]: i for i, found in enumerate(core.outputs()) if found is not None}
        made = []
        for name in self._columns:
            if name in outputs:
                made.append(column_of(core, outputs[name], name, self._dataset._find(name)[1]))
            else:
                made.append((pa.array(np.asarray(core.ids())), pa.field(name, pa.int64())))
        return pa.table([array for array, _ in made], pa.schema([field for _, field in made]))


_kept: OrderedDict[tuple[Any, ...], _Open] = OrderedDict()
_lock = threading.Lock()


def _opened(pickled: Any, columns: Sequence[str]) -> _Open:
    """The data set of these bytes, or of those that a reference to Ray's store names, which are not kept."""
    key = (pickled if isinstance(pickled, bytes) else pickled.hex(), *columns)
    with _lock:
        if key not in _kept:
            _kept[key] = _Open(pickled if isinstance(pickled, bytes) else ray.get(pickled), tuple(columns))
        _kept.move_to_end(key)
        while len(_kept) > KEPT:
            _kept.popitem(last=False)
        return _kept[key]


def _blocks(pickled: Any, columns: Sequence[str], begin: int, end: int, rows: int) -> Iterator[Any]:
    """The work of a read task: rows [begin, end) in blocks of at most so many rows."""
    opened = _opened(pickled, columns)
    while begin < end:
        to = min(end, begin + rows, begin - begin % opened.batch + opened.batch)
        yield opened.table(begin, to)
        begin = to
