"""The reports of each sample: a table by position, one for each metric.

    loader.report(ids, loss=values)  ->  Table "loss":  value, count, epoch, step     16 bytes a sample
                                         by position in the loader's data set

The library fills it on a thread of its own (src/feedback/table.c); here it is seen as NumPy arrays.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import _leat, check
from ..data.dataset import Dataset
from ..errors import StateError

MARK = np.dtype([("value", "<f4"), ("count", "<u4"), ("epoch", "<u4"), ("step", "<u4")])
#: a report on its way between ranks
NOTED = np.dtype([("position", "<u8"), ("value", "<f4"), ("epoch", "<u4"), ("step", "<u4"), ("zero", "<u4")])

MOST_WAITING = 1 << 30  #: bytes of reports that wait for an exchange, in a state

Array = np.ndarray[Any, Any]


class Table:
    """The values of one metric, by position in the loader's data set.

    Attributes:
        name: of the metric.
        value: float32: the one reported last; 0 if there is none.
        count: uint32: how many reports replaced it, the first included; 0: none.
        epoch, step: uint32: of the batch that it is of.

    These arrays are the table itself and cannot be written to. ``table["margin"]`` is that of another metric.
    """

    def __init__(self, name: str, core: _leat.Table, other: Callable[[str], Table]) -> None:
        self.name = name
        self.core = core
        self._other = other
        self.marks: Array = np.frombuffer(memoryview(core), MARK)
        seen = self.marks.view()
        seen.flags.writeable = False
        self.value: Array = seen["value"]
        self.count: Array = seen["count"]
        self.epoch: Array = seen["epoch"]
        self.step: Array = seen["step"]

    def __len__(self) -> int:
        return len(self.marks)

    def __getitem__(self, metric: str) -> Table:
        return self._other(metric)

    @property
    def known(self) -> Array:
        """bool: of which samples something was reported."""
        found: Array = self.count > 0
        return found

    def age(self, epoch: int) -> Array:
        """int64: how many epochs ago, at the begin of `epoch`, the value was reported; -1: never."""
        return np.where(self.known, epoch - self.epoch.astype(np.int64), -1)

    def top(self, k: int, least: bool = False) -> Array:
        """The `k` positions with the greatest (or the least) values, rising: int64.

        Among equal values those at lower positions are taken. Samples without a value come first with the greatest, and
        last with the least.

        Raises:
            IndexError: there are fewer samples.
        """
        found = np.empty(check.integer("k", k), np.int64)
        _leat.select_extreme(self.marks, True, least, found)
        return found

    def draw(self, k: int, alpha: float, key: int) -> Array:
        """`k` positions, drawn with replacement in proportion to value^alpha: int64. Draw i is a function of `key` and
        i.

        Samples without a value are as likely as the one with the greatest.

        Raises:
            ValueError: a value is negative.
        """
        found = np.empty(check.integer("k", k), np.int64)
        _leat.select_weighted(self.marks, True, float(alpha), key, found)
        return found

    # ---- as bytes ----------------------------------------------------------------------------------------------------

    def packed(self) -> bytes:
        """All that is known, compressed: one bit a sample, and 16 bytes of each that has a value, column by column."""
        known = self.known
        marks = self.marks[known]
        columns = [np.ascontiguousarray(marks[name]).tobytes() for name in MARK.names or ()]
        return zlib.compress(b"".join([np.packbits(known).tobytes(), *columns]), 1)

    def begin(self, known: Array, marks: Array) -> None:
        """Begins with this, and forgets all else."""
        self.core.wait()
        self.marks[:] = np.zeros(1, MARK)
        self.marks[known] = marks


def unpacked(metric: str, n: int, data: bytes) -> tuple[Array, Array]:
    """The result of `Table.packed()` for a table of `n` samples: which of them are known, and their marks.

    Raises:
        StateError: it did not, or not of a table of as many samples.
    """
    bits = (n + 7) // 8
    raw = inflated(f"the table of {metric!r}", data, bits + n * MARK.itemsize)
    if len(raw) < bits:
        raise StateError(f"the table of {metric!r} in the state is not one of {n} samples")
    known = np.unpackbits(np.frombuffer(raw[:bits], np.uint8), count=n).astype(bool)
    marks = np.zeros(int(known.sum()), MARK)
    if len(raw) != bits + marks.nbytes:
        raise StateError(f"the table of {metric!r} in the state is not one of {n} samples")
    columns = np.frombuffer(raw[bits:], "<u4").reshape(4, len(marks))
    for name, column in zip(MARK.names or (), columns, strict=True):
        marks[name] = column.view(MARK[name])
    if not np.isfinite(marks["value"]).all() or not marks["count"].all():
        raise StateError(f"the table of {metric!r} in the state has values that nobody can report")
    return known, marks


def unpacked_reports(metric: str, n: int, data: bytes) -> Array:
    """Reports on a table of `n` samples that wait for an exchange, compressed.

    Raises:
        StateError: they are none.
    """
    raw = inflated(f"what was reported as {metric!r}", data, MOST_WAITING)
    if len(raw) % NOTED.itemsize:
        raise StateError(f"what was reported as {metric!r}, in the state, is damaged: it is cut")
    found: Array = np.frombuffer(raw, NOTED)
    if not np.isfinite(found["value"]).all() or (found["position"] >= n).any():
        raise StateError(f"what was reported as {metric!r}, in the state, has values that nobody can report")
    return found


def inflated(what: str, data: bytes, most: int) -> bytes:
    """Compressed bytes as they were, `most` of them.

    Raises:
        StateError: they are damaged, or more.
    """
    try:
        reader = zlib.decompressobj()
        raw = reader.decompress(data, most + 1)
    except zlib.error as e:
        raise StateError(f"{what} in the state is damaged: {e}") from None
    if not reader.eof or len(raw) > most:
        raise StateError(f"{what} in the state is damaged: it has more than {most:,} bytes, or is cut")
    return raw


def digest(data: bytes) -> str:
    """The name of a blob: 128 bits of SHA-256."""
    return hashlib.sha256(data).hexdigest()[:32]


def ids_of(dataset: Dataset) -> Array | None:
    """The ids of the samples, by position: int64. None: ids are positions.

    Raises:
        ValueError: a sample stands in the data set twice.
    """
    n, part = len(dataset), 1 << 20
    for first in range(0, n, part):
        ids = np.frombuffer(dataset._handle.ids(first, min(part, n - first)), np.int64)
        if (ids != np.arange(first, first + len(ids))).any():
            break
    else:
        return None
    found = np.ascontiguousarray(dataset.ids, np.int64)
    if len(np.unique(found)) != n:
        raise ValueError("feedback= needs a data set in which each sample stands once: this view has one of them twice")
    return found
