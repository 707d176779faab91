"""Graphs of events: with each event, what was known of its nodes before it."""

from __future__ import annotations

import os
from typing import Any, Literal

import numpy as np

from .. import _leat, check
from ..errors import InvalidError
from .dataset import Dataset, no_dataset

BEFORE = {"event": 0, "batch": 1}
HOW = {"random": 0, "historical": 1}
KEYS = {"row": 0, "id": 1}
MOST = 1 << 20


Recent = tuple[np.ndarray[Any, Any], np.ndarray[Any, Any], np.ndarray[Any, Any], np.ndarray[Any, Any]]


class EventIndex:
    """The index of a graph of events: ``graph.index`` of :func:`leat.temporal`. Any thread may use it.

    Attributes:
        events: how many events it has.
        nodes: how many numbers of nodes: the largest and 1, or how many distinct ones if they are few of many.
    """

    def __init__(self, graph: _leat.Dataset) -> None:
        self._graph = graph
        floats, self.events, self.nodes = _leat.temporal_look(graph)
        self._times = np.dtype(np.float64 if floats else np.int64)

    def recent(self, nodes: Any, times: Any, k: int) -> Recent:
        """The `k` most recent neighbours of each node, each strictly before the node's time, the newest first.

        Args:
            nodes: integers, of any shape. A node of which the graph knows nothing has no neighbours.
            times: of the same shape, or one for all nodes, in the type of the graph's times; int64 for a graph of
                float64 is converted.
            k: at most so many.

        Returns:
            ``nodes, times, events, count``: neighbours, the times of the events that joined them and their ids, of the
            shape of `nodes` and `k` behind it, filled up as the graph's fields are; and how many there are, int32.

        Raises:
            TypeError: nodes are no integers, or times are floats and the graph's are integers.
            ValueError: shapes differ.

        >>> ds = leat.from_arrays(src=np.array([0, 0, 1]), dst=np.array([1, 2, 2]), t=np.array([5, 6, 6]))
        >>> nodes, times, events, count = leat.temporal(ds).index.recent([2, 0], [7, 6], k=2)
        >>> nodes.tolist(), times.tolist(), count.tolist()
        ([[1, 0], [1, -1]], [[6, 6], [5, 0]], [2, 1])
        """
        k = check.integer("k", k, 0, MOST)
        whose, when = np.asarray(nodes), np.asarray(times)
        if whose.dtype.kind not in "iu" and whose.size:
            raise TypeError(f"nodes are integers, not {whose.dtype}")
        if when.dtype.kind not in "iuf" or (when.dtype.kind == "f" and self._times.kind == "i" and when.size):
            raise TypeError(f"times are {self._times} here, not {when.dtype}")
        if when.dtype.kind == "u" and when.size and int(when.max()) >= 1 << 63:
            raise ValueError(f"times are {self._times} here, and {int(when.max())} is beyond it")
        if when.shape not in ((), whose.shape):
            raise ValueError(
                f"a time for each node, or one for all: nodes have shape {whose.shape}, times {when.shape}"
            )
        when = np.ascontiguousarray(np.broadcast_to(when, whose.shape), self._times)
        whose = np.ascontiguousarray(whose, np.int64)
        shape = (*whose.shape, k)
        found: Recent = (
            np.empty(shape, np.int64),
            np.empty(shape, self._times),
            np.empty(shape, np.int64),
            np.empty(whose.shape, np.int32),
        )
        addresses = (a.ctypes.data for a in found)
        _leat.temporal_recent(self._graph, whose.size, k, whose.ctypes.data, when.ctypes.data, *addresses)
        return found


def _given(negatives: Any, events: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    array = np.asarray(negatives)
    if array.dtype.kind not in "iu" or array.ndim != 2 or len(array) != events or not array.shape[1]:
        raise ValueError(
            f"negatives of shape {array.shape}, {array.dtype}: a number, or integers of shape ({events}, m), which "
            "name the m negatives of each event"
        )
    if array.size and not 0 <= int(array.min()) <= int(array.max()) < 1 << 31:
        raise ValueError(f"negatives from {array.min()} to {array.max()}: nodes are numbers from 0 to 2^31 - 1")
    return np.array(array, np.int64, order="C")  # a copy: the fingerprint is of these


def takes_batches(
    neighbors: int, before: str, negatives: Any, how: str, key: str, pending: bool, *others: object
) -> bool:
    """Whether values of a graph that was made so follow from the batch, or the epoch, that an event is read in."""
    drawn = isinstance(negatives, (int, np.integer)) and int(negatives) > 0
    return pending or before == "batch" or (key == "row" and drawn)


def refuse_batch(positions: object) -> Any:
    raise InvalidError(
        "leat.Loader reads a graph of events: which events of a node are pending, and the negatives of an epoch, "
        "follow from its batches, of which a DataLoader says nothing to its data set; a graph with pending=False, "
        "before='event' and key='id' has neither"
    )


def temporal(
    ds: Dataset,
    neighbors: int = 10,
    before: Literal["event", "batch"] = "event",
    negatives: Any = 1,
    how: Literal["random", "historical"] = "random",
    key: Literal["row", "id"] = "row",
    pending: bool = True,
    *,
    fill: int | tuple[int, int] = -1,
    index_dir: str | os.PathLike[str] | None = None,
) -> Dataset:
    """A graph of events, each with what was known strictly before it: neighbours, negatives, and what its batch hides.

    Each event of `ds` joins two nodes, `src` and `dst`, at a time `t`, and may have other fields. In a batch, beside
    these (k is `neighbors`, m the number of negatives; docs/events.md):

    - of each side S (``src``, ``dst``, ``neg``): ``S.nodes``, ``S.times``, ``S.events`` (B, k), of ``neg`` (B, m, k):
      the k most recent neighbours of the node, the newest first, the times of the events that joined them, and the ids
      of these; ``S.count`` (B,), of ``neg`` (B, m): how many there are. A self-loop is one event of its node.
    - ``neg`` (B, m): nodes that the event does not lead to.
    - of ``src`` and ``dst``: ``S.pending`` (B,): how many events of the node come earlier in the *global* batch, which
      a model that updates its memory once per batch has not seen; ``S.last`` (B,), bool: the node has no later event in
      it.

    A loader reads the graph in its order, without shuffling: what comes with an event follows from those before it. On
    several ranks each reads its part of one global batch, and a resumed run gets the same neighbours, negatives and
    pending counts. ``set_batch_size`` works within an epoch.

    Args:
        ds: events in the order of their times: fields ``src``, ``dst`` (integers from 0 to 2^31 - 1) and ``t`` (an
            integer, or float64). A view has its own graph: neighbours come from its events only. Ids are those of
            `ds`, if they ascend; else they number its positions.
        neighbors: of each node; 0: none of these fields.
        before: ``"event"``: neighbours are strictly before the event. ``"batch"``: strictly before the first event of
            the global batch, as models that know the past up to the last batch have it.
        negatives: of each event; 0: none. Or an integer array of shape (events, m), such as published ones of a
            benchmark.
        how: ``"random"``: uniformly from the distinct destinations of `ds`. ``"historical"``: from the distinct
            destinations that its source had strictly before the event, whatever `before` says, without the present one;
            random if there is none.
        key: ``"row"``: negatives are drawn by the row's random key: other ones each epoch. ``"id"``: by the event's id:
            always the same, for evaluation.
        pending: whether there are ``S.pending`` and ``S.last``.
        fill: what stands in ``S.nodes`` and ``S.events`` where there is no neighbour, or a number for each of the two;
            the numbers of rows of zeros, if features are gathered by them (``stores={"src.x": (rows, "src.nodes"),
            "src.f": (of_events, "src.events")}``).
        index_dir: a folder that keeps the index, for the next opening of the same events.

    Returns:
        A data set, whose ``index`` (:class:`EventIndex`; that of its views, too) finds neighbours of any node at any
        time.

    Raises:
        KeyError: `ds` has no such field.
        TypeError: a field is of another type; a time is float32, in which moments merge.
        ValueError: a time falls or is no number, or a node is out of range (:class:`leat.CorruptError`, with the
            event); an argument is not valid.

    >>> ds = leat.from_arrays(src=np.array([0, 0, 1]), dst=np.array([1, 2, 2]), t=np.array([5, 6, 6]))
    >>> batch = next(iter(leat.Loader(leat.temporal(ds, neighbors=2), 3, framework="numpy")))
    >>> batch["src.nodes"].tolist(), batch["src.pending"].tolist(), batch["src.last"].tolist()
    ([[-1, -1], [1, -1], [0, -1]], [0, 1, 1], [False, True, True])
    """
    if not isinstance(ds, Dataset):
        raise no_dataset("temporal takes a data set of events", ds)
    for name in ("src", "dst", "t"):
        ds._find(name)
    if hasattr(ds, "index"):
        raise ValueError("this is a graph of events already: leat.temporal takes the events that it was made of")
    taken = [
        name for name in ds.schema if name == "neg" or name.partition(".")[0] in ("src", "dst", "neg") and "." in name
    ]
    if taken:
        raise ValueError(f"events have a field {taken[0]!r}, as the graph would: give it another name")
    given = None if isinstance(negatives, (int, np.integer)) else _given(negatives, len(ds))
    each = check.integer("negatives", negatives, 0, MOST) if given is None else given.shape[1]
    both = fill if isinstance(fill, tuple) and len(fill) == 2 else (fill, fill)
    folder = None if index_dir is None else os.fspath(index_dir)
    if folder is not None:
        os.makedirs(folder, exist_ok=True)
    handle = _leat.temporal(
        ds._part(),
        check.integer("neighbors", neighbors, 0, MOST),
        each,
        check.choice("before", before, BEFORE),
        check.choice("how", how, HOW),
        check.choice("key", key, KEYS),
        check.flag("pending", pending),
        check.integer("fill", both[0], -(1 << 63), (1 << 63) - 1),
        check.integer("fill", both[1], -(1 << 63), (1 << 63) - 1),
        0 if given is None else given.ctypes.data,
        given,
        folder,
    )
    asked = (neighbors, before, negatives if given is None else given, how, key, pending, fill, folder)
    return Dataset(handle, ("temporal", ds, *asked))
