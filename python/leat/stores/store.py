"""A store: rows that change, by sample id, beside a data set."""

from __future__ import annotations

import collections
import logging
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal

import numpy as np

from .. import _leat, check
from ..closing import Closing, finalize
from ..data.dataset import Dataset
from ..data.ragged import Ragged
from ..data.schema import Field, as_field, held, missing_field, to_raw
from ..data.sparse import unpacked_rows
from ..errors import ClosedError
from .values import Array, Column, checked_ids, checked_keys, column_of, finished, given_of

BROKEN = 2  #: of a row whose bytes differ from those written, as the library says whether rows are there
Key = Literal["id"] | tuple[Literal["id"], Literal["key"]]


class Store(Closing):
    """A file of rows that change, each found by a sample id, or by an id and a key.

    ``store[ids] = tensor`` returns as soon as the values are copied: a thread writes them. :meth:`flush` is the
    barrier. Any number of processes may have the file open, to read and to write. A reader sees each row as it was
    written by one call, never parts of two. If two writers write one row, one wins (docs/stores.md).

    Args:
        path: the file. It is created if there is none.
        fields: ``{name: leat.field(dtype, shape)}``; the first dimension may be None: it varies from row to row. Fields
            of float16, bfloat16 and int8 take float32, too, and round it; int8 with a scale for each row. Or
            :func:`leat.sparse`. None: as the file has them.
        key: ``"id"``, or ``("id", "key")``: rows are found by a sample id (below 2^43), or by any pair of 64-bit
            numbers, such as id and ``batch.row_keys``.
        dataset: the data set that the ids are of (or its fingerprint). A store of another one is refused, and so is
            writing ids that it has not.
        read_only: it is only read from, and must be there.
        queue_bytes: bound of the rows copied and not yet written: past it, writing waits.
        framework: of the values read: ``"torch"``, ``"numpy"``, or ``"auto"``: torch if it is imported.

    Raises:
        TypeError: the file has other fields or another key (:class:`leat.ProgramError`).
        ValueError: it is of another data set (:class:`leat.StateError`), or no store (:class:`leat.FormatError`).
        FileNotFoundError: there is none, and `fields` is None.

    >>> store = leat.Store(tmp / "teacher.store", {"logits": leat.field("float16", (3,))})
    >>> store[[4, 7]] = np.array([[1, 2, 3], [4, 5, 6]], np.float32)
    >>> store.flush()
    >>> values, present = store.gather([7, 5])
    >>> values.tolist(), present.tolist()
    ([[4.0, 5.0, 6.0], [0.0, 0.0, 0.0]], [True, False])
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        fields: Mapping[str, Field | str] | None = None,
        *,
        key: Key | Sequence[str] | None = None,
        dataset: Dataset | str | None = None,
        read_only: bool = False,
        queue_bytes: int = 256 << 20,
        framework: Literal["torch", "numpy", "auto"] = "auto",
    ) -> None:
        self.path = os.path.abspath(os.fspath(path))
        self.read_only = check.flag("read_only", read_only)
        self.queue_bytes = check.integer("queue_bytes", queue_bytes, 1)
        self._framework = check.framework(framework)
        keyed = _keyed(key)
        raw = None
        if fields is not None:
            if not isinstance(fields, Mapping) or not fields:
                raise TypeError(f"fields is {{name: leat.field(...)}}, not {fields!r:.60}")
            raw = to_raw({name: as_field(f) for name, f in fields.items()})
        self._ids_below = ids_below(dataset) if isinstance(dataset, Dataset) else None
        self._fingerprint = identity(dataset) if isinstance(dataset, Dataset) else dataset
        if self._fingerprint is not None and not isinstance(self._fingerprint, str):
            raise TypeError(f"dataset is a leat.Dataset or its fingerprint, not {type(dataset).__name__}")
        self._open(raw, bool(keyed))
        if keyed is not None and keyed != self.keyed:
            self.close()
            raise ValueError(f"{self.path} is a store with key={self.key!r}")

    def _open(self, raw: Any, keyed: bool) -> None:
        core = _leat.Columns.open(self.path, raw, keyed, self._fingerprint, self.read_only)
        self.keyed, self.fingerprint, found = core.about()
        self.fields = {
            name: Field("sparse", item, (columns,))
            if columns
            else Field("array", dtype, tuple(None if n < 0 else n for n in shape))
            for name, dtype, shape, item, columns in found
        }
        self._forms = {name: given_of(f) for name, f in self.fields.items()}
        self._queue = Queue(core, self.queue_bytes, self.path)
        self._pid = os.getpid()
        self._closed = False
        self._finalizer = finalize(self, self._queue.end, self._pid)

    @property
    def key(self) -> Key:
        """``"id"``, or ``("id", "key")``."""
        return ("id", "key") if self.keyed else "id"

    def _here(self) -> Queue:
        """The queue of this process: a forked child opens the file for itself."""
        if self._closed:
            raise ClosedError(f"the store {self.path} is closed")
        if self._pid != os.getpid():
            self._finalizer.detach()
            self._open(None, False)
        return self._queue

    def _core(self) -> _leat.Columns:
        """The file. A call that has it keeps it open, whoever closes the store meanwhile."""
        core = self._here().core
        if core is None:
            raise ClosedError(f"the store {self.path} is closed")
        return core

    def _rows(self, where: Any, keys: Any = None) -> tuple[Array, Array | None]:
        if self.keyed and keys is None:
            if not isinstance(where, tuple) or len(where) != 2:
                raise TypeError("rows of this store are found by id and key: store[ids, keys]")
            where, keys = where
        elif not self.keyed and (keys is not None or isinstance(where, tuple)):
            raise TypeError("rows of this store are found by id alone: store[ids]")
        ids = checked_ids(where)
        if keys is None:
            return ids, None
        ids, made = np.broadcast_arrays(ids, checked_keys(keys))
        return ids.copy(), made.copy()

    # ---- writing -----------------------------------------------------------------------------------------------------

    def __setitem__(self, where: Any, values: Any) -> None:
        """Writes rows: ``store[ids] = values``, or ``store[ids, keys] = values``.

        The values are copied, and written by a thread, in the order of calls; :meth:`flush` waits for it. Tensors of a
        GPU are copied while it goes on. `values`: an array or tensor of shape (n, ...), a :class:`leat.Ragged` or a
        list of arrays for a field that varies, a :class:`leat.Sparse`, a matrix of SciPy or a list of rows for a sparse
        one; with several fields a dict of all of them. A row is written whole.

        Raises:
            IndexError: an id is negative, or none of the data set that the store was opened with.
            ValueError, TypeError: shape or dtype are others, or a number is beyond the field's range.
            OSError: an earlier write failed (:class:`leat.FileError`: the disk is full).
        """
        queue = self._here()
        if self.read_only:
            raise ClosedError(f"the store {self.path} is opened for reading")
        ids, keys = self._rows(where)
        if self._ids_below is not None and ids.size and (largest := int(ids.max())) >= self._ids_below:
            raise IndexError(f"id {largest} is none of this store's data set, whose ids are below {self._ids_below}")
        if not isinstance(values, Mapping):
            if len(self.fields) > 1:
                raise TypeError(f"rows of this store have the fields {', '.join(self.fields)}: give a dict of all")
            values = {next(iter(self.fields)): values}
        if set(values) != set(self.fields):
            raise ValueError(f"a row has the fields {', '.join(self.fields)}, not {', '.join(map(str, values))}")
        single = ids.ndim == 0
        waits: list[Callable[[], None]] = []
        columns = []
        for name, field in self.fields.items():
            value = values[name]
            if single:
                varies = field.kind == "sparse" or field.shape[:1] == (None,)
                listed = varies or not hasattr(value, "ndim")
                value = [value] if listed else value[None]
            columns.append(column_of(name, field, value, ids.size, waits))
        queue.put(Task(ids.reshape(-1), None if keys is None else keys.reshape(-1), columns, waits))

    def flush(self) -> None:
        """Waits until everything that was written before is visible to every process, and survives a loss of power.

        Raises:
            OSError: a write failed since the last call (:class:`leat.FileError`).
        """
        queue = self._here()
        queue.wait()
        self._core().flush()

    def copy(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Keeps the store as it is now in another file, whole and on disk: a snapshot to go on from.

        The system copies or shares the bytes, so it is cheap. Everything that this process wrote before is in it,
        flushed or not; of rows that others write meanwhile the old version or the new one. Writes and flushes that
        need room or the disk wait for it. ``leat.Store(path)`` opens it; where it fails, or is killed, there is none.

        Args:
            path: the file of the copy.
            overwrite: replaces what is there, at once and whole. Processes that have the old file open keep it.

        Raises:
            FileExistsError: `path` exists, and `overwrite` is not set (:class:`leat.FileError`).
            ValueError: `path` is the store itself.
            ClosedError: the store is opened with `read_only`: a copy holds the locks of those who write.
            OSError: an earlier write failed, or there is no room for the copy (:class:`leat.FileError`).

        >>> store = leat.Store(tmp / "memory.store", {"m": leat.field("float32", (2,))})
        >>> store[[3]] = np.ones((1, 2), np.float32)
        >>> store.copy(tmp / "train-end.store")
        >>> store[[3]] = np.zeros((1, 2), np.float32)
        >>> leat.Store(tmp / "train-end.store")[[3]].tolist()
        [[1.0, 1.0]]
        """
        self._here().wait()
        self._core().copy(os.path.abspath(os.fspath(path)), check.flag("overwrite", overwrite))

    # ---- reading -----------------------------------------------------------------------------------------------------

    def gather(
        self, ids: Any, field: str | None = None, *, keys: Any = None, broken: Literal["raise", "missing"] = "raise"
    ) -> tuple[Any, Any]:
        """Reads rows: ``(values, present)``.

        Rows are as they are in the file at that moment: those still in this process's queue are not among them.

        Args:
            ids: of the rows, in any order, also several times; ``(ids, keys)`` for a store with two keys.
            field: the one to read. None: all; the values of several fields are a dict.
            keys: as the second of such a pair.
            broken: the treatment of rows whose bytes differ from those written: an error, or missing rows.

        Returns:
            values of shape (n, ...), a :class:`leat.Ragged` for a field that varies, a :class:`leat.Sparse` for a
            sparse one, zero (or empty) for a missing row; and whether there is such a row: bool, shape (n,).

        Raises:
            ValueError: a row is broken (:class:`leat.CorruptError`); the error says which, and where.
            IndexError: an id is negative. KeyError: there is no such field.
        """
        if field is not None and field not in self.fields:
            raise missing_field("this store", field, self.fields)
        mark = bool(check.choice("broken", broken, {"raise": 0, "missing": 1}))
        found, of = self._rows(ids, keys)
        values, present = self.read(
            found.reshape(-1), None if of is None else of.reshape(-1), field, mark, self._framework
        )
        return (next(iter(values.values())) if len(values) == 1 else values), present

    def read(
        self,
        ids: Array,
        keys: Array | None,
        field: str | None,
        mark: bool,
        framework: str,
        present: Array | None = None,
    ) -> tuple[dict[str, Any], Any]:
        """:meth:`gather` of uint64 arrays, as a dict. `present`: uint8, is filled with whether there are such rows: 0,
        1 or BROKEN.
        """
        n = len(ids)
        buffers: list[Any] = []
        for name, form in self._forms.items():
            if field is not None and name != field:
                buffers.append(None)
            elif form.ragged:
                buffers.append(np.empty(n + 1, np.int64))
            else:
                buffers.append(np.empty((n, *form.shape), form.stored))
        present = np.empty(n, np.uint8) if present is None else present
        ragged = self._core().gather(ids, keys, buffers, mark, present)
        values = {
            name: self._finished(name, buffer, memory, framework)
            for name, buffer, memory in zip(self._forms, buffers, ragged, strict=True)
            if buffer is not None
        }
        marks = (present == 1).view(np.bool_)
        return values, _tensor(marks) if framework == "torch" else marks

    def _finished(self, name: str, buffer: Array, memory: Any, framework: str) -> Any:
        form = self._forms[name]
        if not form.ragged:
            return finished(buffer, form, framework)
        values = np.asarray(memory).view(form.stored).reshape(-1, *form.shape)
        field = self.fields[name]
        if field.kind == "sparse":
            rows = unpacked_rows(values, buffer, held(field.dtype), field.shape[0] or 0)
            return rows if framework == "numpy" else rows._map(_tensor)
        made = finished(values, form, framework)
        return Ragged(made, buffer if framework == "numpy" else _tensor(buffer))

    def __getitem__(self, where: Any) -> Any:
        """The values of rows that are all there: ``store[ids]``, ``store[ids, keys]``.

        Raises:
            KeyError: one is missing.
        """
        values, present = self.gather(where)
        if not bool(present.all()):
            ids = self._rows(where)[0].reshape(-1)
            missing = ids[~np.asarray(present)]
            raise KeyError(f"the store has no row of id {missing[0]} ({len(missing)} of {len(ids)} are missing)")
        return values

    def expect(self, ids: Any, *, keys: Any = None) -> None:
        """Says which rows will be read soon: the system reads them from disk in the background. Never fails."""
        self.ask(*self._rows(ids, keys))

    def ask(self, ids: Array, keys: Array | None) -> None:
        """:meth:`expect` of uint64 arrays."""
        self._core().expect(ids, keys)

    @property
    def ids(self) -> Any:
        """Ids of the rows that there are: int64 (rising), or of a store with two keys (ids, keys) as uint64."""
        ids, keys = self._core().rows()
        if self.keyed:
            return np.asarray(ids), np.asarray(keys)
        return np.asarray(ids).view(np.int64)

    def __iter__(self) -> Iterator[Any]:
        """The ids of rows, or pairs of id and key, as they are at this moment."""
        found = self.ids
        return zip(*(part.tolist() for part in found), strict=True) if self.keyed else iter(found.tolist())

    def __contains__(self, where: Any) -> bool:
        """Whether there is a row of an id (``id in store``), or of a pair (``(id, key) in store``)."""
        ids, keys = self._rows(where)
        if ids.ndim:
            raise TypeError("`in` is about one row: gather says of many whether they are there")
        present = np.empty(1, np.uint8)
        self.read(ids.reshape(-1), None if keys is None else keys.reshape(-1), None, True, "numpy", present)
        return bool(present[0] == 1)

    def __len__(self) -> int:
        """The number of rows, by a look through the whole index."""
        return len(np.asarray(self._core().rows()[0]))

    # ---- end ---------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Flushes, and closes the file, even if the flush fails.

        Raises:
            OSError: a write failed since the last flush (:class:`leat.FileError`); the store is closed then, too.
        """
        if self._closed:
            return
        try:
            if self._pid != os.getpid():
                self._finalizer.detach()
            elif not self.read_only:
                self.flush()
        finally:
            self._closed = True
            self._finalizer()
            self._queue.core = None

    def __reduce__(self) -> tuple[Any, ...]:
        options = (self.path, self._fingerprint, self.read_only, self.queue_bytes, self._framework)
        return _reopened, (*options, self._ids_below)

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}: {f!r}" for name, f in self.fields.items())
        return f"<leat.Store {self.path!r} by {' and '.join(self.key) if self.keyed else 'id'} ({fields})>"


def _reopened(
    path: str, fingerprint: str | None, read_only: bool, queue_bytes: int, framework: Any, ids_below: int | None
) -> Store:
    made = Store(path, dataset=fingerprint, read_only=read_only, queue_bytes=queue_bytes, framework=framework)
    made._ids_below = ids_below
    return made


def _keyed(key: Any) -> bool | None:
    if key is None:
        return None
    if key == "id":
        return False
    if not isinstance(key, str) and isinstance(key, Sequence) and list(key) == ["id", "key"]:
        return True
    raise ValueError(f"key is 'id' or ('id', 'key'), not {key!r:.60}")


def _opened(dataset: Dataset) -> Dataset:
    """The data set that ids are of: views have those of their base."""
    while dataset._recipe is not None and isinstance(dataset._recipe[0], Dataset):
        dataset = dataset._recipe[0]
    return dataset


def identity(dataset: Dataset) -> str:
    """The fingerprint of the data set that ids are of."""
    return _opened(dataset).fingerprint


def ids_below(dataset: Dataset) -> int:
    """The number above all ids of the data set that ids are of."""
    opened = _opened(dataset)
    if opened._recipe is None:
        return len(opened)
    return int(opened.ids.max(initial=-1)) + 1  # several that were joined: their ids need not follow each other


def _tensor(array: Array) -> Any:
    import torch

    return torch.from_numpy(array)


class Task:
    """Rows on their way to the file."""

    __slots__ = ("columns", "ids", "keys", "nbytes", "waits")

    def __init__(self, ids: Array, keys: Array | None, columns: list[Column], waits: list[Callable[[], None]]) -> None:
        self.ids, self.keys, self.columns, self.waits = ids, keys, columns, waits
        self.nbytes = ids.nbytes + sum(c.nbytes for c in columns)

    def write(self, core: _leat.Columns) -> None:
        for wait in self.waits:
            wait()
        core.write(self.ids, self.keys, [(c.values, c.dtype, c.offsets) for c in self.columns])


class Queue:
    """Rows that were given and are not in the file yet, bounded in bytes, and the thread that writes them.

    It knows nothing of the Store, so that one that nobody refers to ends.
    """

    def __init__(self, core: _leat.Columns, bound: int, path: str) -> None:
        self.core: _leat.Columns | None = core  # None: it is closed, all is written, and the thread has ended
        self._bound = bound
        self._path = path
        self._changed = threading.Condition()
        self._tasks: collections.deque[Task] = collections.deque()
        self._bytes = 0  # of tasks, and of the one that is written
        self._put = self._written = 0  # tasks so far
        self._ending = False
        self._error: BaseException | None = None
        self._thread: threading.Thread | None = None

    def _open_core(self) -> _leat.Columns:
        if self.core is None:
            raise ClosedError(f"the store {self._path} is closed")
        return self.core

    def put(self, task: Task) -> None:
        """Waits while the bound is reached."""
        with self._changed:
            while self._bytes and self._bytes + task.nbytes > self._bound and self._error is None:
                self._changed.wait()
            self._raise()
            if self._ending:  # the interpreter ends: there is no thread any more
                task.write(self._open_core())
                return
            if self._thread is None:
                thread = threading.Thread(target=self._work, name="leat store", daemon=True)
                thread.start()
                self._thread = thread
            self._tasks.append(task)
            self._put += 1
            self._bytes += task.nbytes
            self._changed.notify_all()

    def wait(self) -> None:
        """Until all that was put before is written."""
        with self._changed:
            last = self._put  # others go on
            while self._written < last:
                self._changed.wait()
            self._raise()

    def _raise(self) -> None:
        error, self._error = self._error, None
        if error is not None:
            raise error

    def _work(self) -> None:
        while True:
            with self._changed:
                while not self._tasks:
                    if self._ending:
                        return
                    self._changed.wait()
                task = self._tasks.popleft()
            error: BaseException | None = None
            try:
                task.write(self._open_core())
            except BaseException as e:  # raised by the next call of the user's
                error = e.with_traceback(None)  # whose frames would keep the file open as long as the error
            with self._changed:
                self._written += 1
                self._bytes -= task.nbytes
                self._error = self._error or error
                self._changed.notify_all()

    def end(self, pid: int) -> None:
        """Writes the rest and ends the thread, also as the interpreter ends. An error that nobody was told of is logged
        then (``leat``)."""
        if pid != os.getpid():
            return
        with self._changed:
            self._ending = True
            self._changed.notify_all()
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join()
        error, self._error = self._error, None
        if error is not None:
            logging.getLogger("leat").error("the store %s has lost rows that were written to it: %s", self._path, error)
