"""Data sets: samples at rest, by position."""

from __future__ import annotations

import builtins
import glob
import json
import math
import os
import re
import warnings
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from .. import _leat, check
from ..errors import ChangedError, FormatError, InvalidError, UnsupportedError
from . import schema as _schema
from . import sparse
from .paths import REMOTE, absolute, ends_so, expanded
from .positions import from_arrow
from .schema import Field
from .tokenizers import Tokenizers, compare

if TYPE_CHECKING:
    from .cells.opening import Cells
    from .events import TimeSplit
    from .temporal import EventIndex

# Attributes of other libraries' data sets, and what has their place.
_INSTEAD = {
    **dict.fromkeys(("fields", "features", "columns", "column_names"), "its fields are in .schema"),
    **dict.fromkeys(("num_rows", "num_samples"), "len(ds) is the number of its samples"),
    **dict.fromkeys(("labels", "targets"), 'ds.column("label") has those of all samples'),
    **dict.fromkeys(("take", "skip", "head", "limit"), "ds[:n] and ds[n:] are parts of it"),
    **dict.fromkeys(("train_test_split", "random_split"), "ds.split([0.9, 0.1], seed=0) gives the parts"),
    **dict.fromkeys(("with_format", "set_format"), "framework= of leat.Loader says the type of its batches"),
    **dict.fromkeys(("batch", "iter_batches"), "leat.Loader(ds, batch_size) gives batches"),
    "filter": 'ds.where("label = 3") selects samples, as does a mask, ds[mask]',
    "map": "operators, and functions as leat.ops.Map(function), stand in the outputs of leat.Loader",
    "shuffle": "leat.Loader(ds, batch_size, shuffle=True) has another order each epoch",
}
LABELS = {"auto": 0, "folders": 1, "none": 2}
RECHECK = {"first": 0, "always": 1, "never": 2}
DOCUMENTS = {"line": 0, "paragraph": 1, "file": 2}
ON_BAD = {"mark": 0, "skip": 1, "raise": 2}


class Dataset:
    """Samples with a schema, by position; made by :func:`leat.open` and by selecting from another one.

    ``ds[7]`` is a dict of the stored values of one sample: a scalar as a Python number, an array as a numpy array, text
    as str, JSON parsed, a photo as its encoded bytes. ``ds[10:20]``, ``ds[mask]`` and ``ds[positions]`` are views:
    data sets that share the files of this one, in O(intervals) of memory.

    Data sets are immutable; any thread may use one, they survive ``fork`` and pickle cheaply: path, options and
    selection; on unpickling the fingerprint is compared.

    >>> ds = leat.open(path)
    >>> len(ds), ds[-1]["label"], len(ds[::2])
    (100, 9, 50)
    """

    def __init__(self, handle: _leat.Dataset, recipe: tuple[Any, ...]) -> None:
        self._handle = handle
        self._recipe = recipe
        self._cells: Cells | None = None
        self._count = handle.count()
        self._fields: list[tuple[str, Field]] = [_schema.from_raw(raw) for raw in handle.fields()]

    def _part(self) -> _leat.Dataset:
        """The handle, for code that joins this data set with others."""
        return self._handle

    def __len__(self) -> int:
        return self._count

    def __repr__(self) -> str:
        fields = ", ".join(
            f"{name}: {f.kind if f.kind != 'array' else f.dtype}{list(f.shape) if f.shape else ''}"
            for name, f in self.schema.items()
            if not f.derived
        )
        return f"<leat.Dataset of {self._count} samples ({fields})>"

    def _repr_html_(self) -> str:
        """Its display in a notebook: fields, classes, and some samples, pictures with their boxes."""
        from . import html

        return html.dataset(self)

    @property
    def schema(self) -> dict[str, Field]:
        """Name and type (:class:`leat.Field`) of each field, those derived by leat last.

        >>> leat.open(path).schema["label"].dtype
        'int64'
        """
        return dict(self._fields)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            if name in _INSTEAD:
                raise AttributeError(f"a data set has no attribute {name!r}: {_INSTEAD[name]}")
            if name == "genes":
                raise AttributeError("this data set knows no names of genes")
            if name == "index":
                raise AttributeError("this data set is no graph of events")
            if name == "var":
                raise AttributeError("this data set is none of cells")
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)

    @cached_property
    def classes(self) -> list[str]:
        """Names of the classes of the field ``label``, by number; empty if there are none."""
        return self._handle.classes()

    def _known_cells(self) -> Cells | None:
        """What is known of its cells, if it is a data set of cells, or a view of one."""
        if self._cells is not None:
            return self._cells
        of = self._recipe[0]
        if isinstance(of, Dataset):
            return of._known_cells()
        if of == "concat":
            from .cells.opening import in_common

            return in_common([d._known_cells() for d in self._recipe[1]])
        if of == "zip":
            found = [d for d in self._recipe[1].values() if d._known_cells() is not None]
            return found[0]._known_cells() if len(found) == 1 else None
        return None

    def _genes_of(self, field: str) -> list[str] | None:
        """The names of the columns of a field."""
        cells = self._known_cells()
        if cells is None:
            genes = self.metadata.get("genes")
            return [str(g) for g in genes] if isinstance(genes, list) else None
        found = cells.raw_genes if field == "raw.X" else None if field.startswith("obsm.") else cells.genes
        return None if found is None else [str(g) for g in found]

    @property
    def genes(self) -> list[str]:
        """Of a data set of cells: the names of the genes, which are the columns of ``X``.

        Raises:
            AttributeError: it has no genes, or does not know their names.
        """
        genes = self._genes_of("X")
        if genes is not None:
            return genes
        raise AttributeError("this data set knows no names of genes", name="genes", obj=self)

    @property
    def index(self) -> EventIndex:
        """Of a graph of events (:func:`leat.temporal`) or a view of one: the index of all its events, which finds the
        neighbours of any node at any time (:meth:`leat.data.temporal.EventIndex.recent`).

        Raises:
            AttributeError: it is no such data set.
        """
        from .temporal import EventIndex

        try:
            return EventIndex(self._handle)
        except ValueError:
            raise AttributeError("this data set is no graph of events", name="index", obj=self) from None

    @property
    def __getitems__(self) -> Callable[[Any], Any]:
        """By which a DataLoader asks for a batch: only a graph whose values follow from batches has it, and refuses."""
        from .temporal import refuse_batch, takes_batches

        recipe = self._recipe
        while isinstance(recipe[0], Dataset):
            recipe = recipe[0]._recipe
        if recipe[0] == "temporal" and takes_batches(*recipe[2:]):
            return refuse_batch
        raise AttributeError("samples are asked for one by one", name="__getitems__", obj=self)

    @property
    def var(self) -> dict[str, np.ndarray[Any, Any]]:
        """Of a data set of cells: what is known about each gene of ``X``, by name of the column; None where a value is
        missing.

        Raises:
            AttributeError: it has no genes.
        """
        cells = self._known_cells()
        if cells is None:
            var = self.metadata.get("var")
            if not isinstance(var, dict):
                raise AttributeError("this data set is none of cells", name="var", obj=self)
            return {name: np.array(values, object if None in values else None) for name, values in var.items()}
        return dict(cells.var)

    @property
    def categories(self) -> dict[str, list[str]]:
        """Of a data set of cells: the labels that ``obs.NAME.code`` counts, by ``obs.NAME``; of others none."""
        cells = self._known_cells()
        if cells is None and isinstance(known := self.metadata.get("categories"), dict):
            return {str(name): list(labels) for name, labels in known.items()}
        return {} if cells is None else {name: list(labels) for name, labels in cells.categories.items()}

    @cached_property
    def metadata(self) -> dict[str, Any]:
        """The ``metadata`` that the Writer was given."""
        value: dict[str, Any] = json.loads(self._handle.metadata())
        return value

    @property
    def about(self) -> dict[str, Any]:
        """The files behind it: ``format``, ``bytes``, ``shards``, and what is known beside: ``format_version``,
        ``broken`` (samples marked as broken), ``skipped`` (entries of annotations that were left out), ``boxes`` (of
        annotations: how many there are and do not fit their image, docs/datasets.md), ``photos`` (how many in each
        form). For a view, those of the data set that was opened.

        >>> leat.open(path).about["format"]
        'leat'
        """
        value: dict[str, Any] = json.loads(self._handle.about())
        return value

    @property
    def fingerprint(self) -> str:
        """128 bits in hex over schema and contents (of a view: base and selection), equal for a folder and its pack,
        and for a data set and its conversion (`leat convert`)."""
        return self._handle.fingerprint().hex()

    @property
    def ids(self) -> np.ndarray[Any, np.dtype[np.int64]]:
        """Sample ids by position: int64, shape (len,). Views keep the ids of the data set that was opened."""
        return np.frombuffer(self._handle.ids(0, self._count), np.int64)

    def column(self, name: str, copy: bool = False) -> np.ndarray[Any, Any]:
        """All values of a field of fixed size: an array of shape ``(len, *shape)``; for texts, an array of str objects.

        If the values lie in one piece, the array is read-only and not a copy; otherwise they are gathered. Checksums
        are verified. With ``copy=True`` the array is a writable copy. bfloat16, which numpy lacks, becomes float32.

        ``"tokens.length"`` is the number of elements of arrays that vary in length, as in :meth:`where`, or of bytes of
        texts: int64, from what the file says of them, without reading any.

        Raises:
            KeyError: there is no such field.
            TypeError: the values vary in size (bytes, json, photos, a first dimension of None).

        >>> leat.open(path).column("label")[:3].tolist()
        [0, 1, 2]
        """
        if name.endswith(".length") and name not in self.schema:
            return self._lengths_of(name.removesuffix(".length"))
        index, field = self._find(name)
        if field.kind == "str":
            texts = np.empty(len(self), object)
            known: dict[bytes, str] = {}  # most are one of a few
            for i in range(len(self)):
                raw: Any = self._handle.read(i, index, True)
                texts[i] = known[raw] if raw in known else raw.decode()
                if len(known) < 1000:
                    known[raw] = texts[i]
            return texts
        if field.kind != "array" or (field.shape and field.shape[0] is None):
            raise TypeError(
                f"field {name!r} varies in size ({field}): it has no column; read single samples with ds[i][{name!r}]"
            )
        memory = self._handle.column(index, copy)
        if field.dtype == "bfloat16":
            return _widen(memory)
        array = np.asarray(memory)
        return array.copy() if copy else array

    def _lengths_of(self, name: str) -> np.ndarray[Any, np.dtype[np.int64]]:
        """The number of entries in the first dimension of each value of an array that varies in it; bytes of texts."""
        index, field = self._find(name)
        each = 1
        if field.kind == "array" and field.shape[:1] == (None,):
            item = 2 if field.dtype == "bfloat16" else np.dtype(field.dtype).itemsize
            each = item * math.prod(n or 0 for n in field.shape[1:])
        elif field.kind == "sparse":
            each = _schema.step_of(field)
        elif field.kind not in ("bytes", "str"):
            raise TypeError(f"field {name!r} is {field}, which does not vary in length")
        return np.floor_divide(self._handle.column(index, False, True), max(each, 1), dtype=np.int64, casting="unsafe")

    def _find(self, name: str) -> tuple[int, Field]:
        for i, (n, field) in enumerate(self._fields):
            if n == name:
                return i, field
        raise _schema.missing_field(self.where_it_is(), name, (n for n, _ in self._fields))

    def where_it_is(self) -> str:
        """The path of its first file, or what it is without one: for an error."""
        return (self._handle.place(0, 0)[0] if len(self) and self._fields else "") or "this data set"

    def stored(self, position: int, name: str) -> Any:
        """The value of one field as a loader delivers it: an array as stored (bfloat16 as uint16), else its bytes."""
        index, field = self._find(name)
        found = self._handle.read(position, index, field.kind != "array")
        if isinstance(found, bytes):
            return found
        array = np.asarray(found)
        if field.kind == "image":  # packed as pixels: docs/format.md
            return _schema.pixels_packed(array, found.orientation)
        return array

    def _sample(self, position: int) -> dict[str, Any]:
        read = self._handle.read
        sample: dict[str, Any] = {}
        for i, (name, field) in enumerate(self._fields):
            kind = field.kind
            if kind == "sparse":
                stored = np.asarray(read(position, i, False))
                sample[name] = sparse.unpacked(stored, _schema.held(field.dtype), field.shape[0] or 0)
                continue
            if kind != "array":
                raw: Any = read(position, i, True)
                if not isinstance(raw, bytes):
                    raw = np.array(raw)  # a photo that was packed as pixels
                sample[name] = raw if kind in _schema.BINARY else raw.decode() if kind == "str" else json.loads(raw)
                continue
            memory = read(position, i, False)
            array = _widen(memory) if field.dtype == "bfloat16" else np.array(memory)
            sample[name] = array if field.shape else array.item()
        return sample

    @overload
    def __getitem__(self, key: int | np.integer[Any]) -> dict[str, Any]: ...
    @overload
    def __getitem__(self, key: slice | Iterable[int]) -> Dataset: ...

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, slice):
            begin, end, step = key.indices(self._count)
            if step < 0:
                return self.select(np.arange(begin, end, step))
            recipe = (self, "slice", begin, max(begin, end), step)
            return Dataset(self._handle.slice(*recipe[2:]), recipe)
        if isinstance(key, bool) or (getattr(key, "ndim", None) == 0 and "bool" in str(key.dtype)):
            raise TypeError(
                "a Dataset is indexed by positions, or by a mask of one bool per sample: this is a single bool"
            )
        if hasattr(key, "__index__") and getattr(key, "ndim", 0) == 0:
            position = key.__index__()
            if not -self._count <= position < self._count:
                raise IndexError(f"position {position} is out of range: the data set has {self._count} samples")
            return self._sample(position % self._count)
        if isinstance(key, str):
            raise TypeError(f"a Dataset is indexed by position: for a column, ds.column({key!r})")
        return self.select(key)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return (self._sample(i) for i in range(self._count))

    def select(self, positions: Any) -> Dataset:
        """The samples at these positions, in this order. Positions may repeat; negative ones count from the end.

        A mask of one bool per sample selects those that are True. Positions and masks are lists, NumPy arrays or
        tensors, or results of DuckDB and other engines: anything with ``__arrow_c_array__`` or ``__arrow_c_stream__``,
        of one column. A NULL in a mask is False, as in WHERE.

        Raises:
            IndexError: a position is out of range, or a mask has another length.

        >>> leat.open(path).select([5, 3]).ids.tolist()
        [5, 3]
        """
        array = self._positions(positions).copy()  # whatever becomes of the caller's
        return Dataset(self._handle.select(array), (self, "select", array))

    def _positions(self, positions: Any) -> np.ndarray[Any, np.dtype[np.int64]]:
        """Positions or a mask as positions, none negative."""
        arrow = from_arrow(positions)
        array = np.asarray(positions) if arrow is None and hasattr(positions, "__len__") else arrow
        if array is not None and array.dtype == np.bool_:
            if array.shape != (self._count,):
                raise IndexError(f"the mask has shape {array.shape}: it must be ({self._count},), one bool per sample")
            array = np.flatnonzero(array)
        return positions_array(positions if array is None else array, self._count)

    def where(self, clause: str) -> Dataset:
        """The samples for which an SQL expression is true: the part behind WHERE, over the fields of a sample.

        Columns are the fields that are numbers, str, json (its null is NULL) or bytes, those that leat derives too
        (``"image.width"``); ``"tokens.length"``, the number of elements of arrays that vary in length; and ``id``. A
        name with a dot stands in double quotes, a text in single ones. The expression is evaluated as SQLite does, on
        all cores (docs/datasets.md); reading other tables, writing and loops are refused. A label is a number, also
        where it has a name in `classes`. The result is a view in the order of this data set, and combines with others
        by ``&``, ``|`` and ``-``.

        Raises:
            ValueError: there is no such column, or the clause is no SQL expression or is refused.

        >>> ds = leat.open(path)
        >>> len(ds.where("label IN (3, 5) AND id < 50")), len(ds.where("label = 3") | ds.where("label = 4"))
        (10, 20)
        """
        if not isinstance(clause, str):
            raise TypeError(f"the clause is text, what stands behind WHERE in SQL, not {type(clause).__name__}")
        if "\0" in clause:
            raise ValueError("the clause has a NUL character")
        found = Dataset(self._part().where(clause), (self, "where", clause))
        if not len(found) and (names := set(re.findall("'([^']*)'", clause)).intersection(self.classes)):
            numbers = ", ".join(f"{name!r} is {self.classes.index(name)}" for name in sorted(names))
            warnings.warn(f"where({clause!r}) selects nothing; labels are numbers: {numbers}", stacklevel=2)
        return found

    def _combine(self, other: Any, how: int) -> Any:
        if not isinstance(other, Dataset):
            return NotImplemented
        return Dataset(self._part().combine(other._part(), how), (self, "combine", other, how))

    def __and__(self, other: Dataset) -> Dataset:
        """The samples that are in both: two views of one data set, as sets, in the order of the ids."""
        view: Dataset = self._combine(other, 0)
        return view

    def __or__(self, other: Dataset) -> Dataset:
        """The samples that are in one of two views of a data set, or in both, in the order of the ids."""
        view: Dataset = self._combine(other, 1)
        return view

    def __sub__(self, other: Dataset) -> Dataset:
        """The samples that are in this view and not in the other one of the same data set, in the order of the ids."""
        view: Dataset = self._combine(other, 2)
        return view

    def split(self, fractions: Sequence[float], seed: int = 0) -> list[Dataset]:
        """Disjoint parts of about these fractions of the samples, drawn by a permutation keyed with `seed`.

        Each part is in ascending order of positions. The fractions sum to at most 1.

        >>> [len(part) for part in leat.open(path).split([0.9, 0.1], seed=0)]
        [90, 10]
        """
        weights = np.asarray(fractions, np.float64)
        if weights.ndim != 1 or not weights.size:
            raise ValueError("fractions is a list of numbers, one per part")
        seed = check.seed(seed)
        parts = self._handle.split(weights, seed)
        return [Dataset(part, (self, "split", weights.tolist(), seed, i)) for i, part in enumerate(parts)]

    def split_time(self, shares: Sequence[float], new_nodes: float = 0, seed: int = 0) -> TimeSplit:
        """Parts of events in order of time: a list of views, by the field ``t`` (int64 or float64), which rises.

        Args:
            shares: of each part, about its share of the events; they sum to at most 1. A part ends at the time of the
                event at position ``floor(q * (n - 1))`` of n, where q is the sum of its share and those before it, and
                has all events of that time: events of equal time are never in two parts. As in TGN (Rossi et al. 2020),
                whose borders are ``numpy.quantile(t, q)``, the first part is ``t <= border``.
            new_nodes: a share of all distinct nodes (fields ``src`` and ``dst``) that the first part does not have:
                so many are drawn, by a permutation keyed with `seed`, among the nodes that occur in later parts, and
                all of their events leave the first part, and only that one.

        The list has ``borders``, the latest time of each part; ``new_nodes``, those that were drawn; and ``unseen``, of
        each part but the first the view of its events that touch a node of which the first part has no event.

        Raises:
            KeyError: there is no ``t``, or no ``src`` and ``dst`` with `new_nodes`.
            TypeError: ``t`` is no int64 or float64: float32 makes unix times equal that lie a minute apart.
            ValueError: times fall, with the position; or the nodes after the first part are too few.

        >>> events = leat.from_arrays(src=np.arange(10) % 4, dst=np.arange(10) % 3 + 4, t=np.arange(10))
        >>> train, val, test = parts = events.split_time([0.7, 0.15, 0.15])
        >>> [len(part) for part in parts], parts.borders.tolist()
        ([7, 1, 2], [6, 7, 9])
        """
        from .events import split_time

        return split_time(self, shares, new_nodes, seed)

    def __reduce__(self) -> tuple[Any, ...]:
        if self._recipe[0] == "open":
            return (_unpickle_open, (*self._recipe[1:], self.fingerprint))
        if self._recipe[0] == "concat":
            return (_unpickle_concat, self._recipe[1:])
        if self._recipe[0] == "stored":
            raise TypeError("a field of a file of cells does not pickle by itself: pickle the data set of the file")
        if self._recipe[0] in ("arrays", "source", "zip", "windows", "temporal", "cells"):
            return (_unpickle_made, (*self._recipe, self.fingerprint))
        if self._recipe[1] == "select":
            return (_unpickle_view, (self._recipe[0], "packed", *_pack(self._recipe[2])))
        if self._recipe[1] == "where":
            return (_unpickle_view, (*self._recipe, self.fingerprint))
        return (_unpickle_view, self._recipe)


def _unpickle_concat(datasets: Sequence[Dataset], tokenizers: Tokenizers) -> Dataset:
    return concat(*datasets, tokenizers=tokenizers)


def _pack(positions: np.ndarray[Any, np.dtype[np.int64]]) -> tuple[bytes, str, int]:
    """Positions in few bytes: their differences, in the smallest type that holds them, compressed."""
    steps = np.diff(positions, prepend=0)
    dtype = np.result_type(np.min_scalar_type(steps.min()), np.min_scalar_type(steps.max())) if len(steps) else "u1"
    return zlib.compress(steps.astype(dtype).tobytes(), 1), np.dtype(dtype).str, len(positions)


def _unpack(packed: bytes, dtype: str, count: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    steps = np.frombuffer(zlib.decompress(packed), dtype)
    if len(steps) != count:
        raise ValueError(f"the pickled view has {len(steps)} positions, not {count}")
    return np.cumsum(steps, dtype=np.int64)


def _widen(memory: _leat.Memory) -> np.ndarray[Any, Any]:
    """bfloat16 as float32, which holds the same numbers."""
    bits = np.asarray(memory).astype(np.uint32) << 16
    return bits.view(np.float32)


def positions_array(positions: Any, count: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Positions in a data set of `count` samples as a contiguous array of int64, counted from the start."""
    array = np.asarray(
        positions if hasattr(positions, "__len__") or not hasattr(positions, "__iter__") else list(positions)
    )
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise TypeError(f"positions are a list of integers, not an array of {array.dtype} with shape {array.shape}")
    if array.size and (array.min() < -count or array.max() >= count):
        raise IndexError(
            f"position {array[(array < -count) | (array >= count)][0]} is out of range: the data set has {count} "
            "samples"
        )
    array = np.ascontiguousarray(array, np.int64)
    return np.where(array < 0, array + count, array) if array.size and array.min() < 0 else array


def _open_one(
    path: str | list[str],
    format: str,
    labels: str,
    index_dir: str | None,
    recheck: str,
    annotations: str | None,
    on_bad: str | None,
    classes: list[str] | None,
    fields: dict[str, Field | None] | None = None,
    documents: str = "line",
    sort: bool = False,
    features: str | None = None,
    block: int = 0,
) -> Dataset:
    handle = _leat.Dataset.open(
        [os.fsencode(p) for p in ([path] if isinstance(path, str) else path)],
        format,
        check.choice("labels", labels, LABELS),
        check.choice("recheck", recheck, RECHECK),
        index_dir,
        annotations,
        3 if on_bad is None else check.choice("on_bad", on_bad, ON_BAD),
        classes or [],
        _schema.wanted_raw(fields),
        check.choice("documents", documents, DOCUMENTS),
        sort,
        features,
        block,
    )
    options = (format, labels, index_dir, recheck, annotations, on_bad, classes, fields, documents, sort, features)
    return Dataset(handle, ("open", path, *options, block))


def _unpickle_open(path: str | list[str], *args: Any) -> Dataset:
    *options, fingerprint = args
    dataset = _open_one(path, *options)
    if dataset.fingerprint != fingerprint:
        raise ChangedError(
            f"{path} has changed since this data set was pickled or planned: open it again with leat.open"
        )
    return dataset


def _unpickle_made(kind: str, *args: Any) -> Dataset:
    from . import made, temporal, windows
    from .cells import opening

    *given, fingerprint = args
    dataset = (
        made.of_arrays(*given)
        if kind == "arrays"
        else made.from_source(given[0], timeout_s=given[1])
        if kind == "source"
        else windows.windows(*given)
        if kind == "windows"
        else temporal.temporal(*given[:7], fill=given[7], index_dir=given[8])
        if kind == "temporal"
        else opening.open_cells(*given)
        if kind == "cells"
        else made.zipped(*given)
    )
    if dataset.fingerprint != fingerprint:
        raise ChangedError(
            "this is not the data set that was pickled: the length, the fields or the version of its source changed"
        )
    return dataset


def _unpickle_view(base: Dataset, kind: str, *args: Any) -> Dataset:
    if kind == "slice":
        return Dataset(base._handle.slice(*args), (base, kind, *args))
    if kind == "packed":
        return base.select(_unpack(*args))
    if kind == "select":
        return Dataset(base._handle.select(args[0]), (base, kind, *args))
    if kind == "where":
        clause, fingerprint = args
        view = base.where(clause)
        if view.fingerprint != fingerprint:
            raise ChangedError(
                f"where({clause!r}) selects other samples than in the data set that was pickled: its values changed"
            )
        return view
    if kind == "combine":
        combined: Dataset = base._combine(*args)
        return combined
    fractions, seed, part = args
    return base.split(fractions, seed)[int(part)]


_TOGETHER = {
    name: re.compile(rf"\.({ends})$", re.IGNORECASE)
    for name, ends in (
        ("jsonl", r"(jsonl|ndjson)(\.gz|\.zst)?"),
        ("tar", r"tar(\.gz|\.bgz|\.zst)?|tgz|tzst"),
        ("tfrecord", r"(tfrecords?|tfrec)(\.gz)?"),
    )
}


def _are_one(paths: Sequence[Any], format: str) -> bool:  # noqa: A002
    """Whether files are of one of the formats whose files are opened together."""
    if format != "auto":
        return format in ("text", *_TOGETHER) and len(paths) > 0
    return bool(paths) and any(
        all(isinstance(p, (str, os.PathLike)) and ends.search(os.fspath(p)) for p in paths)
        for ends in _TOGETHER.values()
    )


def _parts(given: Sequence[Any], options: dict[str, Any], fill: Any) -> list[Dataset]:
    """Each by itself. Beside others, a table does without the options that are for them."""
    format = options["format"]  # noqa: A001
    tables = [_is_of_tables(_files(one), format) for one in given]
    less = {n: v for n, v in options.items() if n in ("format", "index_dir", "recheck", "fields")}
    return [
        open(one, **(less if table and not all(tables) else options), fill=fill)
        for one, table in zip(given, tables, strict=True)
    ]


def _is_of_tables(paths: list[str], format: str) -> bool:  # noqa: A002
    return bool(_cells(paths, format)[1] or _tables(paths, format)[1] or _of_libraries(paths, format)[1])


_TABLES = {"parquet": (".parquet", ".pq"), "arrow": (".arrow", ".feather", ".ipc")}


def _files(src: Any) -> list[str]:
    """The files that a path, a pattern or a list of them stands for; none: it is something else."""
    if isinstance(src, (str, os.PathLike)):
        return expanded(src)
    return expanded(*src) if isinstance(src, Sequence) and not isinstance(src, bytes) else []


def _tables(paths: list[str], format: str) -> tuple[str, list[str]]:  # noqa: A002
    """The format of tables and the paths of their files; no paths: it is something else."""
    for name, ends in _TABLES.items():
        fits = format == "auto" and all(ends_so(p, ends) and not os.path.isdir(p) for p in paths)
        if paths and (format == name or fits):
            return name, [absolute(p) for p in paths]
    return "", []


def _of_hugging_face(src: Any, format: str, split: str | None) -> tuple[Any, str]:  # noqa: A002
    """Of a folder that `datasets` has saved, or that comes from the Hub, its files; others are as they were given."""
    from .hugging_face import card_of, files_of, hub_files_of, is_of_hub, is_saved

    path = os.fspath(src) if isinstance(src, (str, os.PathLike)) else ""
    if format in ("auto", "hf") and path and os.path.isdir(path):
        if is_saved(path):
            return files_of(path, split), "arrow"
        card = card_of(path)
        if format == "hf" or is_of_hub(path, card):
            return hub_files_of(path, split, card), "auto"
    if split is not None:
        raise ValueError(
            f"split is for a folder that datasets has saved or that comes from the Hub, and {src!r:.60} is none"
        )
    return src, "auto" if format == "hf" else format


def _of_libraries(paths: list[str], format: str) -> tuple[str, list[str]]:  # noqa: A002
    """The format that its own library reads, and the paths; no paths: it is something else."""
    from .libraries import FORMATS, format_of

    if not paths or format not in ("auto", *FORMATS):
        return "", []
    paths = [absolute(p) for p in paths]
    kinds = {format} if format != "auto" else {format_of(p) for p in paths}
    return ("", []) if len(kinds) != 1 or kinds == {""} else (kinds.pop(), paths)


_CELLS = ("h5ad", "zarr", "10x", "scdl", "hdf5")


def _cells(paths: list[str], format: str) -> tuple[str, list[str]]:  # noqa: A002
    """The format of files of cells, or of arrays, and their paths; no paths: it is something else."""
    if not paths or format not in ("auto", *_CELLS):
        return "", []
    kind = format
    if format == "auto":
        from .cells.recognise import kind_of

        kinds = {kind_of(p) for p in paths}
        if len(kinds) != 1 or (kind := kinds.pop()) == "":
            return "", []
    return kind, [absolute(p) for p in paths]


def _refuse_folders(format: str, paths: list[str]) -> None:  # noqa: A002
    for folder in filter(os.path.isdir, paths):
        ends = sorted({os.path.splitext(n)[1] for n in os.listdir(folder) if not n.startswith(".")} - {""})
        pattern = os.path.join(glob.escape(folder), f"*{ends[0]}" if len(ends) == 1 else "*")
        told = f'name its files, as a pattern such as "{pattern}" or as a list'
        raise FormatError(f"{folder} is a folder, not a file of {format}: {told}")


def _look_at(format: str, paths: list[str]) -> None:  # noqa: A002
    """Files that another library reads are found by their names: these are of none, or not there."""
    for path in paths:
        if os.path.isabs(path):
            _leat.look(os.fsencode(path))
        elif format not in _CELLS or not REMOTE.match(path):
            raise UnsupportedError(f"{path}: files of {format} are read from paths alone: copy it here")


def _names(classes: Sequence[str] | None) -> list[str] | None:
    names = None if classes is None else check.names("classes", classes)
    if names is not None and not names:
        raise ValueError("classes is empty: name the classes, or leave it out")
    return names


def open(  # noqa: A001
    src: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | Mapping[str, str | os.PathLike[str]],
    *,
    format: str = "auto",  # noqa: A002
    labels: str | None = "auto",
    index_dir: str | os.PathLike[str] | None = None,
    recheck: str = "always",
    annotations: str | os.PathLike[str] | None = None,
    on_bad: str | None = None,
    classes: Sequence[str] | None = None,
    masks: str | os.PathLike[str] | None = None,
    fields: _schema.Wanted | None = None,
    documents: str = "line",
    sort: bool = False,
    features: str | os.PathLike[str] | None = None,
    block: int | None = None,
    fill: Mapping[str, Any] | None = None,
    genes: Sequence[str] | str | None = None,
    gene_key: str | None = None,
    genome: str | None = None,
    split: str | None = None,
) -> Dataset:
    """Opens a data set in place. Only headers and directories are read (of an IDX file and of annotations, all).

    Args:
        src: a file of leat, a manifest of its shards, a folder of photos (a sub-folder per class, or flat), an IDX
            file, plain or compressed with gzip (field ``data``), a JSONL file, the ``.idx`` of a data set of Megatron;
            a list of these, which are joined as by :func:`leat.concat`, or a pattern such as
            ``part-{000..009}.jsonl`` or ``part-*.jsonl``, which stands for a list; a tar as WebDataset writes it, or
            several; or a dict of them, which are put side by side:
            ``{"image": "train-images-idx3-ubyte.gz", "label": "train-labels-idx1-ubyte.gz"}`` gives the fields
            ``image`` and ``label``, and ``name.field`` for entries with several fields, as :func:`leat.zip` does.
        format: ``"auto"``, ``"leat"``, ``"folder"``, ``"idx"``, ``"coco"``, ``"yolo"``, ``"voc"``, ``"masks"``,
            ``"jsonl"``, ``"megatron"``, ``"fasta"``, ``"fastq"``, ``"tar"``, ``"mds"``, ``"litdata"``, ``"beton"``,
            ``"tfrecord"``, ``"npy"``, ``"npz"``, ``"safetensors"``, ``"parquet"``, ``"arrow"``, ``"text"`` (plain
            text, field ``text``), ``"events"``, ``"jodie"``, ``"tgn"`` (``docs/events.md``),
            ``"h5ad"``, ``"zarr"``, ``"10x"``, ``"scdl"``, ``"hdf5"`` (``docs/cells.md``),
            ``"hf"``, ``"lance"`` or ``"array_record"`` (``docs/formats.md``).
        labels: of a folder, ``"auto"`` (by sub-folder if there is one), ``"folders"``, or ``"none"``.
        index_dir: a folder, made when needed, where a folder of photos keeps the row indexes of its JPEGs and checksums
            of its good photos, so that other processes and later runs need not decode each photo to its end again.
            Without one they are kept in memory, for this process. Any number of folders, ranks and runs may share it.
            If it cannot be written, nothing is kept. It lies outside the folder of photos, where it would count as a
            class, or its name begins with a dot. The index of a file of text is kept there, too; without it, beside the
            file, as ``FILE.leat-index`` (``docs/text.md``).
        recheck: when the checksum of a value that is read from a file is compared: ``"always"``, on the ``"first"``
            read in a process, or ``"never"``. A photo of a folder that has no checksum yet is decoded to its end
            instead, which gives it one. Columns of fixed size are mapped: their pages are verified on first touch, and
            again if the file's size or times have changed at the start of an epoch.
        annotations: of the photos in the folder `src`: a file of COCO annotations, ``leat.open("train2017/",
            annotations="instances_train2017.json")``, or a folder with a text file of YOLO or an XML file of Pascal VOC
            per photo. Fields and order are in ``docs/datasets.md``. Warns if so many boxes do not fit their image that
            they probably have another format, and if photos have another size than the annotations say.
        on_bad: the treatment of faults in the annotations, or of a missing photo: ``"skip"`` leaves the entry out,
            counts it in ``ds.about["skipped"]`` and warns; ``"mark"`` keeps the sample, too, as a broken one, for which
            the loader's `on_error` applies; ``"raise"``. Likewise a broken record of text. If not given, ``"skip"`` for
            annotations, ``"raise"`` for records.
        classes: the names of the classes by their numbers, for annotations of YOLO, which have only the numbers, and of
            Pascal VOC, in which an object of another name is wrong, and `on_bad` applies; and for `masks`. COCO's file
            has the names itself, and refuses others. Blank names at the end are left out, as is a mark of byte order
            before the first one.
        masks: in the place of `annotations`, a folder of PNGs of class ids, gray or with a palette, one per photo, of
            its name: ``leat.open("images/", masks="labels/")`` has the fields ``image`` and ``mask``
            (:func:`leat.mask`). A photo without a mask, or with one of another size, is wrong, and `on_bad` applies.
            Or a panoptic file of COCO: ``mask`` is made of its segments, beside the fields that it has as
            `annotations`; 255 is no class.
        fields: those to take, in this order: ``["jpg", "cls"]``. A dict says what they are, too, None as they are
            found: ``{"x": "image", "vec": leat.field("float32", (3,)), "y": None}`` (``docs/formats.md``). Where the
            format fixes what its fields are (folders, annotations, IDX, leat's own files), another kind is an error. Of
            records of text these are properties: ``["text", "meta.domain"]``, or
            ``["meta"]`` for everything below it; ``{"id": "json"}`` takes the value of ``id`` as it stands in the
            file, whatever it is. Columns of Parquet and Arrow are named in the same way, with the kinds that
            :func:`leat.from_arrow` takes.
        documents: for plain text, the unit of a sample: a ``"line"`` that is not empty, a ``"paragraph"`` (lines up to
            one that is empty), or a ``"file"``.
        sort: of files of events, sort those that are out of order by time, which are an error else. Events of equal
            time stay in the order of the file.
        features: of files of events, the path of an array of ``numpy.save``, which becomes the field ``feat``: a row
            for each event in the order of the file; of ``"tgn"`` by ``idx``.
        block: of LitData's chunks of tokens, how many are a sample: ``block=2048``. Its files do not say it.
        fill: for Parquet and Arrow, the substitute for the missing values of columns: ``{"year": -1, "title": ""}``. A
            sample with a missing value is an error else, but for NaN among floats and null in JSON; to ``where`` it is
            NULL.
        genes: of files of cells whose genes differ: ``"outer"``, those of any; ``"inner"``, those of all; or a list of
            names (``docs/cells.md``).
        gene_key: the column about genes by which those of several files are matched, such as ``"feature_id"``; None:
            their names.
        genome: of files of 10x Genomics with several, the one to read.
        split: of a folder with several splits that ``save_to_disk`` of `datasets` has written, or that was downloaded
            from the Hub of Hugging Face, the one to open.

    Raises:
        FileNotFoundError: there is no such file or folder.
        ValueError: not a format that leat reads (:class:`leat.FormatError`), never finished
            (:class:`leat.UnfinishedError`) or damaged (:class:`leat.CorruptError`); or `index_dir` lies among the
            photos or is a file.

    >>> leat.open(path)
    <leat.Dataset of 100 samples (x: float32[3], label: int64)>
    """
    if fill is not None and not isinstance(fill, Mapping):
        raise TypeError(f"fill is a dict of names of columns to values, not {fill!r:.60}")
    src, format = _of_hugging_face(src, format, split)  # noqa: A001
    named = _files(src)
    cells, files = _cells(named, format)
    kind, tables = ("", []) if files else _tables(named, format)
    library, records = ("", []) if files or tables else _of_libraries(named, format)
    if features is not None and not isinstance(features, (str, os.PathLike)):
        raise TypeError(
            f"features is the path of a file of numpy.save, not {builtins.type(features).__name__}: numpy.save(path, "
            "array) writes it"
        )
    if paths := files or tables or records:
        others: dict[str, Any] = {"annotations": annotations, "masks": masks, "on_bad": on_bad, "classes": classes}
        others |= {"labels": None if labels in ("auto", "none") else labels}
        others |= {"block": block, "features": features, "sort": sort or None}
        others |= {"documents": None if documents == "line" else documents}
        for name in (name for name, value in others.items() if value is not None):
            told = "is for files of events" if name in ("sort", "features") else "does nothing there: leave it out"
            raise ValueError(f"{paths[0]} is of {cells or kind or library}, and {name} {told}")
    for format_, paths in ((cells, files), (kind, tables), (library, records)):
        _look_at(format_, paths)
        if format_ in ("h5ad", "hdf5", "parquet", "arrow", "array_record"):
            _refuse_folders(format_, paths)
    if files:
        from .cells.opening import open_cells

        said = _schema.wanted(fields)
        given = None if said is None else list(said)
        more: dict[str, Any] = {
            "genome": genome,
            "index_dir": None if index_dir is None else os.path.abspath(os.fspath(index_dir)),
            "layouts": {name: field.layout for name, field in (said or {}).items() if field and field.layout},
        }
        opened = open_cells(files, cells, given, genes, gene_key, more)
        _schema.compare_said(opened.schema, said)
        return opened
    for name, value in (("genes", genes), ("gene_key", gene_key), ("genome", genome)):
        if value is not None:
            raise ValueError(f"{name} is for files of cells, all of one format, and {src!r:.60} is none, or of several")
    if records:
        from .libraries import open_libraries

        return open_libraries(records, library, fields, fill)
    if tables:
        from .arrow import open_parquet
        from .arrow_ipc import open_ipc

        made = (open_parquet if kind == "parquet" else open_ipc)(tables, fields, fill)
        made._recipe[1].opened = (
            kind,
            tables,
            fields,
            fill,
            made._recipe[1]._columns.folder,
        )  # which says less than the source, and enough
        return made
    if masks is not None:
        if not isinstance(masks, (str, os.PathLike)):
            raise TypeError(f"masks is a folder of PNGs or a panoptic file, by its path, not {masks!r:.60}")
        if annotations is not None or format not in ("auto", "masks"):
            raise ValueError('masks stand in the place of annotations, and have the format "masks": give one of them')
        annotations, format = masks, "masks"  # noqa: A001
    options: dict[str, Any] = {
        "format": format,
        "labels": "none" if labels is None else labels,
        "index_dir": None if index_dir is None else os.path.abspath(os.fspath(index_dir)),
        "recheck": recheck,
        "annotations": None if annotations is None else os.path.abspath(os.fspath(annotations)),
        "on_bad": on_bad,
        "classes": _names(classes),
        "fields": fields,
        "documents": documents,
        "sort": check.flag("sort", sort),
        "features": None if features is None else absolute(features),
        "block": None if block is None else check.integer("block", block, 1),
    }
    if isinstance(src, Mapping):
        from .made import zipped

        return zipped(dict(zip(map(str, src), _parts(list(src.values()), options, fill), strict=True)), True)
    if not isinstance(src, (str, os.PathLike)):
        if isinstance(src, bytes) or not isinstance(src, Sequence):
            raise TypeError(f"src is a path or a list of paths, not {builtins.type(src).__name__}")
        if not src:
            raise InvalidError("src is an empty list: leat.open takes a path, or a list with one or more")
        if not _are_one(src, format):
            there = set(named)  # of a manifest and its shards the manifest alone
            src = [one for one in src if not there.isdisjoint(expanded(one))]
            return concat(*_parts(src, options, fill))
    elif len(named) > 1 and not _are_one(named, format):
        return concat(*_parts(named, options, fill))
    if fill is not None:
        raise ValueError(
            f"fill is for columns of Parquet and Arrow with missing values, and {named[0]} is of neither format"
        )
    options["fields"] = _schema.wanted(fields)
    options["block"] = options["block"] or 0
    paths = [absolute(p) for p in named]
    dataset = _open_one(paths[0] if len(paths) == 1 else paths, **options)
    if notice := dataset._handle.notice():
        warnings.warn(notice, stacklevel=2)
    return dataset


def no_dataset(what: str, given: object) -> TypeError:
    """The error of a function that takes data sets. Mixtures say what to do instead."""
    instead = getattr(given, "_instead", None)
    return TypeError(f"{what}, not {builtins.type(given).__name__}" + (f": {instead}" if instead else ""))


def concat(*datasets: Dataset | Sequence[Dataset], tokenizers: Tokenizers = "same") -> Dataset:
    """Data sets of the same schema, one after the other, given as arguments or as a list.

    Ids of each are offset by the counts of those before it. Tokens must have been made by the same tokenizer, as far as
    the data sets say by which (``ds.metadata["tokenizer"]``), unless ``tokenizers="any"``.

    >>> len(leat.concat(leat.open(path), leat.open(path)))
    200
    """
    if len(datasets) == 1 and isinstance(datasets[0], Sequence):
        datasets = tuple(datasets[0])
    for d in datasets:
        if not isinstance(d, Dataset):
            raise no_dataset("concat takes data sets, leat.concat(a, b)", d)
    if not datasets:
        raise ValueError("concat needs at least one data set")
    found = [d for d in datasets if isinstance(d, Dataset)]
    compare("leat.concat", ((f"data set {i}", d) for i, d in enumerate(found)), tokenizers)
    return Dataset(_leat.concat([d._part() for d in found]), ("concat", datasets, tokenizers))
