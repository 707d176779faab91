"""Writing data sets."""

from __future__ import annotations

import json
import os
import struct
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Any, Literal

import numpy as np

from .. import _leat
from .. import check as _check
from . import schema as _schema
from . import sparse
from .dataset import ON_BAD, Dataset
from .masks import count_masks, encode_masks
from .paths import absolute
from .schema import Field

_INT_RANGES = {name: (int(np.iinfo(name).min), int(np.iinfo(name).max)) for name in _schema.DTYPES if "int" in name}

_TOGETHER = 4096  # samples of a data set that are written before Python hears of interruptions
_PHOTOS = {"original": 0, "fast": 1, "raw": 2}


class Writer:
    """Writes a file of samples (or shards with a manifest). A context manager: leaving it finishes the file.

    The file appears under `path` only when it is complete. An exception inside the ``with`` leaves no finished file;
    the samples written so far stay as ``path.partial`` for ``resume=True``.

    Args:
        path: the file to make.
        schema: name and type of each field: a dtype name or :func:`leat.field`. Fields of ``ds.schema`` that leat
            derives of photos, such as ``image.width``, are left out, as they are of samples: ``w.write(ds[i])``.
        check: scan every photo to its end and mark broken ones.
        photos: ``"original"``: the bytes of photos are stored unchanged (with `check`, JPEGs get an index of their
            rows, under 1% of their bytes). ``"fast"``: JPEGs are stored in a form that is decoded several times faster
            to the same pixels, and ``ds[i]`` gives the original bytes. ``"raw"``: photos are stored as pixels, and
            ``ds[i]`` gives a uint8 array of shape (height, width, 1 or 3). Decoding gives the same batches from all
            three, except that ``"raw"`` ignores ``dct_scaling=True``; the fingerprint and saved states are the same
            too. Photos that cannot have the form are stored unchanged: :attr:`as_came` says why. ``"fast"`` and
            ``"raw"`` find broken photos without `check` too.
        shard_bytes: start a new shard once a file has this many bytes; `path` is then a manifest.
        metadata: a dict, kept as JSON.
        num_threads: of the writer, or ``"auto"``.
        overwrite: replace an existing file when finished, of a manifest its shards, too.
        resume: continue an unfinished file after its complete samples: ``len(w)`` of them.
        classes: names of the classes of the field ``label``, by number.
        lenient: JPEGs that libjpeg-turbo decodes with warnings (extraneous bytes, a premature end) are not broken;
            :attr:`warned` counts them by kind, and ``Decode(strict=False)`` decodes them.
        on_bad: ``"mark"`` a broken photo (it keeps its id, and a loader's `on_error` applies), ``"skip"`` its sample,
            or ``"raise"``.
        max_side: photos whose longer side is above this are resized and stored as JPEG, with their ICC profiles.
        quality: of these, 1 to 100.
        source_id: a text that names where the samples come from, such as a fingerprint. With `resume`, another one than
            that of the unfinished file is an error (:class:`leat.ChangedError`). Without `resume` and `overwrite` an
            unfinished file that holds samples stays, which is an error, too.

    Raises:
        FileExistsError: `path` exists and `overwrite` is False.
        OSError: another process writes it (:class:`leat.BusyError`), or the system refuses.
        ValueError: the schema is not valid.

    >>> fields = {"image": "image", "label": "int64", "boxes": leat.field("float32", (None, 4))}
    >>> with leat.Writer(tmp / "a.leat", fields) as w:
    ...     w.add(image=jpeg, label=3, boxes=[[0, 0, 10, 10]])
    0
    >>> leat.open(tmp / "a.leat")[0]["boxes"]
    array([[ 0.,  0., 10., 10.]], dtype=float32)
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        schema: Mapping[str, Any],
        check: bool = True,
        photos: Literal["original", "fast", "raw"] = "original",
        shard_bytes: int | None = None,
        metadata: Mapping[str, Any] | None = None,
        num_threads: int | Literal["auto"] = "auto",
        overwrite: bool = False,
        resume: bool = False,
        *,
        classes: Sequence[str] | None = None,
        lenient: bool = False,
        on_bad: Literal["mark", "skip", "raise"] = "mark",
        max_side: int | None = None,
        quality: int = 90,
        source_id: str | None = None,
    ) -> None:
        if not isinstance(schema, Mapping):
            raise TypeError(f"schema is a dict of name: type, not {type(schema).__name__}")
        given = {str(name): _schema.as_field(f) for name, f in schema.items()}
        self._fields: dict[str, Field] = _schema.of_copy(given)
        self._derived = given.keys() - self._fields.keys()  # of photos, which a writer derives itself
        self._rows = Rows(self._fields)
        self._path = os.fspath(path)
        self._instances = _Instances(self._fields)
        self._closed = True
        #: broken photos, known once the file is closed: (id, whether it was left out, name, reason) of each
        self.broken: list[tuple[int, bool, str, str]] = []
        #: reasons why photos could not have the form asked for: how many for each, most frequent first; known once the
        #: file is closed
        self.as_came: dict[str, int] = {}
        #: with `lenient`: how many photos are decoded with each kind of warning; known once the file is closed
        self.warned: dict[str, int] = {}
        #: of each field of boxes beside an image, how many boxes are not as they should be: ``count`` (of all), ``cut``
        #: (reach out of their image), ``outside``, ``empty`` (or inverted), ``not_finite``, ``tiny`` (a side below a
        #: pixel); known once the file is closed, which warns if there are so many that the format is probably wrong
        self.boxes: dict[str, dict[str, int]] = {}
        self._handle = _leat.Writer.open(
            absolute(self._path),
            _schema.to_raw(self._fields, True),
            _check.flag("check", check),
            _check.flag("overwrite", overwrite),
            _check.flag("resume", resume),
            0 if shard_bytes is None else _check.integer("shard_bytes", shard_bytes, 1),
            _check.threads(num_threads),
            _metadata(metadata),
            [] if classes is None else _check.names("classes", classes),
            _check.choice("photos", photos, _PHOTOS),
            _check.flag("lenient", lenient),
            _check.choice("on_bad", on_bad, ON_BAD),
            0 if max_side is None else _check.integer("max_side", max_side, 1, 1 << 16),
            _quality(quality),
            source_id,
        )
        self._closed = False
        self._resumed = len(self)  # samples that are there from before, and of no data set that was written since
        #: the data set whose writing ended with an exception, its samples that are there, and whether it is converted
        self._cut: tuple[Dataset, int, bool] | None = None

    def __len__(self) -> int:
        """Samples so far; after ``resume=True``, the complete ones."""
        return self._handle.count()

    def __repr__(self) -> str:
        broken = f", {len(self.broken)} broken" if self.broken else ""
        return f"<leat.Writer of {self._path}, {'closed' if self._closed else f'{len(self)} samples'}{broken}>"

    @property
    def schema(self) -> dict[str, Field]:
        """Name and type of each field."""
        return dict(self._fields)

    def add(self, /, **values: Any) -> int:
        """Adds one sample, a value for each field by name, and returns its id.

        A scalar or array is an array of numpy or torch of the field's dtype and shape, or Python numbers, which are
        converted if they fit. Photos and bytes are any object with the buffer protocol. Masks of
        instances are a list as :func:`leat.encode_masks` takes it, or an array (n, height, width).

        Of a sample with one field of :func:`leat.boxes`, :func:`leat.masks` and lists that are called `label`,
        `labels`, `class_labels`, `cls`, `class_id`, `category_id` (or their plurals), `area`, `iscrowd`, `difficult` or
        `truncated` have one value per box. Other lists need not, but if nearly all samples have as many rows as boxes,
        closing warns of those that have not.

        Raises:
            TypeError, ValueError: a value does not fit its field, or has another number of rows than there are boxes;
                the text names it. The writer can be used further.
            OSError: the disk is full, or the like. The writer cannot be used further.
        """
        return self.write(values)

    def write(self, sample: Mapping[str, Any]) -> int:
        """Adds one sample given as a dict; see :meth:`add`."""
        return self.write_row(self._rows.of(self._stored(sample)))

    def _stored(self, values: Mapping[str, Any]) -> Mapping[str, Any]:
        return {n: v for n, v in values.items() if n not in self._derived} if self._derived else values

    def write_row(self, row: list[Any]) -> int:
        """Adds one sample given as the buffers of its fields, in their order (:class:`leat.data.writer.Rows`)."""
        if self._instances.boxes is not None:
            self._instances.check(row, len(self))
        return self._handle.add(row)

    def write_batch(self, columns: Mapping[str, Any]) -> None:
        """Adds many samples: for each field an array of shape ``(n, *shape)``, or a sequence of n values.

        >>> with leat.Writer(tmp / "b.leat", {"x": leat.field("float32", (2,)), "name": "str"}) as w:
        ...     w.write_batch({"x": np.zeros((3, 2), np.float32), "name": ["a", "b", "c"]})
        ...     len(w)
        3
        """
        columns = self._stored(columns)
        if columns.keys() != self._fields.keys():
            raise ValueError(_names(self._fields, columns))
        columns = {name: c.tocsr() if hasattr(c, "tocsr") else c for name, c in columns.items()}
        sizes = {name: c.shape[0] if hasattr(c, "tocsr") else len(c) for name, c in columns.items()}
        if len(set(sizes.values())) > 1:
            raise ValueError("columns differ in length: " + ", ".join(f"{name} has {n}" for name, n in sizes.items()))
        n = next(iter(sizes.values()), 0)
        if all(f.kind == "array" and None not in f.shape for f in self._fields.values()):
            arrays = [_array(name, _rows(f), columns[name], (n, *f.shape)) for name, f in self._fields.items()]
            self._handle.add_columns(arrays, n)
            return
        columns_of = [[encode(value) for value in columns[name]] for name, encode in self._rows.encode]
        rows = [list(row) for row in zip(*columns_of, strict=True)]
        if self._instances.boxes is not None:
            for i, row in enumerate(rows):
                self._instances.check(row, len(self) + i)
        for row in rows:
            self._handle.add(row)

    def write_dataset(
        self, ds: Dataset, progress: Callable[[int], None] | None = None, *, convert: bool = False
    ) -> None:
        """Adds all samples of a data set, in its order, without Python in between. A resumed run adds those that it
        lacks: the samples that are there are taken for those of the data sets that are written, in this order. After an
        exception, such as KeyboardInterrupt, the next call with the same data set goes on.

        Args:
            ds: has the fields that this file has, of the same types.
            progress: called now and then with the number of samples so far.
            convert: the file is a conversion of `ds`, with these samples and no others: it gets the fingerprint of
                `ds`, whatever that is made of, and states of runs over `ds` go on over the file. A conversion that is
                to be resumed is begun with a `source_id` that holds the fingerprint, such as ``ds.fingerprint``.

        Raises:
            ValueError: `ds` lacks a field; with `convert`, it is a view or has other fields or classes than the file,
                the file has got samples or a source before, leaves photos out or resizes them, or it resumes without
                such a `source_id`. Closing the file raises it if there are other samples than those of `ds`, and leaves
                no finished file.

        >>> with leat.Writer(tmp / "c.leat", {"x": leat.field("float32", (2,))}) as w:
        ...     w.write_dataset(leat.from_arrays(x=np.zeros((3, 2), np.float32)))
        ...     len(w)
        3
        """
        schema = ds.schema
        for name, field in self._fields.items():
            if name not in schema or replace(schema[name], derived=field.derived) != field:
                raise ValueError(f"the data set has no field {name!r} that is {field}")
        places = list(schema)
        fields = [places.index(name) for name in self._fields]
        cut = self._cut if self._cut is not None and self._cut[0] is ds else None
        if convert and not (cut and cut[2]):
            self._handle.set_source(ds._part())
        there = cut[1] if cut else min(self._resumed, len(ds))
        self._resumed -= 0 if cut else there
        first = len(self) - there
        try:
            while (done := len(self) - first) < len(ds):
                self._handle.add_samples(ds._part(), fields, done, min(_TOGETHER, len(ds) - done))
                if progress is not None:
                    progress(len(self))
        finally:
            done = len(self) - first
            self._cut = (ds, done, convert) if done < len(ds) else None

    def close(self, metadata: Mapping[str, Any] | None = None) -> None:
        """Finishes the file and makes it visible. Further calls do nothing.

        Args:
            metadata: in the place of those that the Writer was opened with, for facts known only now, such as counts of
                samples left out. A resumed run still opens with those of the first time.
        """
        self._close(metadata)

    def _close(self, metadata: Mapping[str, Any] | None = None) -> None:
        if self._closed:
            return
        text = _metadata(metadata)  # what is wrong with them leaves the writer as it is
        self._closed = True
        try:
            self._handle.finish(text)
            self.broken = self._handle.bad()
            self.as_came = self._handle.as_came()
            self.warned = self._handle.warned()
            found = self._handle.boxes(_schema.to_raw(self._fields))
        finally:
            self._handle.free(True)
        self.boxes = {name: counts for name, (counts, _) in found.items()}
        for name, (_, suspect) in found.items():
            if suspect:
                warnings.warn(f"{self._path}: field {name!r}: {suspect}", stacklevel=3)
        for text in self._instances.odd():
            warnings.warn(f"{self._path}: {text}", stacklevel=3)

    def abort(self) -> None:
        """Ends writing without a finished file; the samples written so far stay as ``path.partial`` for
        ``resume=True``."""
        self._closed = True
        self._handle.free(True)

    def __enter__(self) -> Writer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self._close()
        else:
            self.abort()

    def _left(self) -> None:
        if not getattr(self, "_closed", True) and warnings:  # while the interpreter ends it may be gone already
            warnings.warn(
                f"the Writer of {self._path} was never closed: there is no finished file",
                ResourceWarning,
                stacklevel=2,
                source=self,
            )

    __del__ = _leat.left()

    def __reduce__(self) -> tuple[Any, ...]:
        raise TypeError("a Writer cannot be pickled: write from one process, or one file per process")


class Rows:
    """Samples as the buffers of their fields, in the order of these."""

    def __init__(self, fields: Mapping[str, Field]) -> None:
        self._fields = fields
        self.encode: list[tuple[str, Callable[[Any], Any]]] = [(name, _encoder(name, f)) for name, f in fields.items()]

    def of(self, sample: Mapping[str, Any]) -> list[Any]:
        """The buffers of a sample; errors name the field."""
        try:
            row = [encode(sample[name]) for name, encode in self.encode]
        except KeyError:
            raise ValueError(_names(self._fields, sample)) from None
        if len(sample) != len(row):
            raise ValueError(_names(self._fields, sample))
        return row


class _Instances:
    """Fields with a value for each box of a sample, and whether they fit."""

    def __init__(self, fields: Mapping[str, Field]) -> None:
        self._names = list(fields)
        boxes = [i for i, f in enumerate(fields.values()) if (f.role or "").startswith("boxes")]
        #: index of the field of boxes; None: there is none, or there are several
        self.boxes = boxes[0] if len(boxes) == 1 else None
        self._masks = [i for i, f in enumerate(fields.values()) if f.role == "masks"]
        lists = [i for i, f in enumerate(fields.values()) if f.kind == "array" and f.shape[:1] == (None,)]
        self._lists = [i for i in lists if i != self.boxes and self._names[i] in _schema.OF_A_BOX]
        self._others = [i for i in lists if i != self.boxes and i not in self._lists]
        self._count = 0
        self._odd: dict[int, tuple[int, list[int]]] = {i: (0, []) for i in self._others}  # how many; the first

    def check(self, row: Sequence[Any], sample: int) -> None:
        assert self.boxes is not None
        n = len(row[self.boxes])
        for i in (*self._lists, *self._masks):
            found = len(row[i]) if i in self._lists else count_masks(row[i])
            if found is not None and found != n:
                other = "; a list about the whole image needs another name" if i in self._lists else ""
                raise ValueError(
                    f"sample {sample}: field {self._names[i]!r} has {found} rows and {self._names[self.boxes]!r} {n}: "
                    f"one per box is needed{other}"
                )
        self._count += 1
        for i in self._others:
            if len(row[i]) != n:
                odd, first = self._odd[i]
                self._odd[i] = odd + 1, [*first, sample][:3]

    def odd(self) -> list[str]:
        """Fields that have one row per box in nearly all samples."""
        return [
            f"field {self._names[i]!r} has one row per box in {self._count - odd} of {self._count} samples, and "
            f"another number in {odd}: sample {', '.join(map(str, first))}{', ...' * (odd > len(first))}"
            for i, (odd, first) in self._odd.items()
            if 0 < odd * 10 <= self._count
        ]


def _quality(value: int) -> int:
    if not 1 <= _check.integer("quality", value, 1) <= 100:
        raise ValueError(f"quality is 1 to 100, not {value}")
    return value


def _names(fields: Mapping[str, Field], given: Mapping[str, Any]) -> str:
    missing, unknown = [n for n in fields if n not in given], [n for n in given if n not in fields]
    parts = [f"no value for {', '.join(map(repr, missing))}"] * bool(missing) + [
        f"no field {', '.join(map(repr, unknown))}"
    ] * bool(unknown)
    return f"{'; '.join(parts)}: the fields are {', '.join(fields)}"


def _rows(field: Field) -> Field:
    return Field("array", field.dtype, (None, *field.shape))


def _is_listed(masks: Any) -> bool:
    """Whether a value is one mask per instance, in a list or an array (n, height, width), and not their bytes."""
    return isinstance(masks, (list, tuple)) or getattr(masks, "ndim", 0) == 3


def _encoder(name: str, field: Field) -> Callable[[Any], Any]:
    """The function that converts a value of this field to a buffer."""
    if field.role == "masks":
        return lambda value: encode_masks(value) if _is_listed(value) else _bytes(name, field, value)
    if field.kind == "sparse":
        return lambda value: sparse_row(name, field, value)
    if field.kind in _schema.BINARY:
        return lambda value: _bytes(name, field, value)
    if field.kind == "str":
        return lambda value: _text(name, value)
    if field.kind == "json":
        return lambda value: _json(name, value)
    if field.shape or field.dtype == "bfloat16":
        return lambda value: _array(name, field, value, field.shape)
    return _scalar_encoder(name, field)


def _scalar_encoder(name: str, field: Field) -> Callable[[Any], Any]:
    """A fast path for Python numbers that fit; all else goes the general way, which converts or explains."""
    dtype = np.dtype(field.dtype)
    pack = struct.Struct("=" + {"l": "q", "L": "Q"}.get(dtype.char, dtype.char)).pack  # 64 bits by either name
    taken: tuple[type, ...] = {"b": (bool,), "f": (float, int)}.get(dtype.kind, (int,))

    def encode(value: Any) -> Any:
        if type(value) in taken:
            try:
                return pack(value)
            except (struct.error, OverflowError):
                pass  # too large: explained below
        return _array(name, field, value, field.shape)

    return encode


def _bytes(name: str, field: Field, value: Any) -> Any:
    if isinstance(value, bytes):
        return value
    try:
        view = memoryview(value)
    except TypeError:
        raise TypeError(f"field {name!r} ({field.kind}) takes bytes, not {type(value).__name__}") from None
    if field.pixels and view.ndim == 3 and view.format == "B" and tuple(view.shape or ())[-1] in (1, 3):
        return _schema.pixels_packed(np.asarray(view))
    if field.kind == "image" and view.ndim > 1:
        advice = (
            'encode it as PNG, such as by PIL.Image.fromarray(mask).save(buffer, "PNG"); a field of a dtype would not '
            "move with the image"
            if field.role == "mask"
            else "encode it, or give it a dtype field"
        )
        raise TypeError(
            f"field {name!r} takes the bytes of an encoded photo (JPEG, PNG, ...), not pixels: this is an array of "
            f"shape {view.shape}; {advice}"
        )
    if not view.c_contiguous or view.itemsize != 1:
        raise TypeError(f"field {name!r} ({field.kind}) takes contiguous bytes: give bytes(value)")
    return view


def sparse_row(name: str, field: Field, value: Any) -> np.ndarray[Any, Any]:
    """One row as it is stored."""
    values, columns = sparse.row_of(name, value, field.shape[0] or 0)
    return sparse.packed(_array(name, field, values, (None,)), columns)


def sparse_rows(name: str, field: Field, given: Any) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Rows as they are stored, one behind the other, and their offsets. `given`: what :func:`as_sparse` of sparse.py
    takes, or a list of rows.

    Raises:
        TypeError: it is neither, or of another dtype.
        ValueError: the number of columns is another, or columns do not rise.
    """
    if isinstance(given, (list, tuple)):
        made = [sparse_row(name, field, row) for row in given]
        offsets = np.cumsum([0, *map(len, made)], dtype=np.int64)
        return np.concatenate([np.empty((0, _schema.step_of(field)), np.uint8), *made]), offsets
    rows = sparse.as_sparse(name, given)
    if rows is None:
        raise TypeError(
            f"field {name!r} has sparse rows: give a leat.Sparse, a matrix of SciPy, a CSR tensor or a list of rows, "
            f"not {type(given).__name__}"
        )
    if rows.n != field.shape[0]:
        raise ValueError(f"field {name!r} takes rows of {field.shape[0]} columns, not {rows!r}")
    rows.values = _array(name, field, rows.values, (None,))
    return sparse.packed_rows(rows)


def _text(name: str, value: Any) -> bytes:
    if not isinstance(value, str):
        raise TypeError(f"field {name!r} takes str, not {type(value).__name__}")
    try:
        return value.encode()
    except UnicodeEncodeError as e:
        raise ValueError(f"field {name!r}: the text cannot be written as UTF-8: {_check.half_pair(e)}") from None


def _json(name: str, value: Any) -> bytes:
    try:
        return _dumped(f"field {name!r}", value, ensure_ascii=False).encode()
    except UnicodeEncodeError as e:
        raise ValueError(f"field {name!r}: the JSON cannot be written as UTF-8: {_check.half_pair(e)}") from None


def _dumped(what: str, value: Any, **options: Any) -> str:
    try:
        return json.dumps(value, allow_nan=False, **options)
    except RecursionError:
        raise ValueError(f"{what} takes what json.dumps takes: this is nested too deeply") from None
    except (TypeError, ValueError) as e:
        kind = TypeError if isinstance(e, TypeError) else ValueError
        raise kind(f"{what} takes what json.dumps takes: {e}") from None


def _metadata(given: Mapping[str, Any] | None) -> str | None:
    if given is not None and not isinstance(given, Mapping):
        raise TypeError(f"metadata is a dict, not {type(given).__name__}")
    return None if given is None else _dumped("metadata", dict(given))


def _array(name: str, field: Field, value: Any, shape: tuple[int | None, ...]) -> np.ndarray[Any, Any]:
    """The value as a contiguous array of the field's dtype and of `shape`, whose first dimension may be None."""
    array = _convert(name, field, value)
    if array.shape == (0,) and len(shape) > 1 and not shape[0]:  # such as boxes of a photo without any
        array = array.reshape(0, *(n or 0 for n in shape[1:]))
    if array.ndim != len(shape) or any(
        want is not None and got != want for got, want in zip(array.shape, shape, strict=True)
    ):
        wanted = str(tuple(shape)).replace("None", "any") if shape else "() (a scalar)"
        raise ValueError(f"field {name!r} has shape {wanted}, the value has {array.shape}")
    return np.ascontiguousarray(array) if array.ndim else array


def _convert(name: str, field: Field, value: Any) -> np.ndarray[Any, Any]:
    _check.unmasked(name, value)
    if isinstance(value, np.ndarray) and value.ndim:
        return _cast(name, field, value)
    if type(value).__module__.partition(".")[0] == "torch":
        value = value.detach()
        if str(value.dtype) == "torch.bfloat16":
            import torch

            if field.dtype == "bfloat16":
                bits: np.ndarray[Any, Any] = value.cpu().contiguous().view(torch.int16).numpy()
                return bits
            value = value.float()
        try:
            value = value.numpy(force=True)
        except (RuntimeError, TypeError) as e:  # such as one of sparse layout
            raise TypeError(f"field {name!r} takes {field.dtype}: {e}") from None
    if isinstance(value, np.ndarray) and value.ndim:
        return _cast(name, field, value)
    if isinstance(value, np.generic) or (isinstance(value, np.ndarray) and not value.ndim):
        value = value.item()
    return _from_python(name, field, value)


def _cast(name: str, field: Field, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    if field.dtype == "bfloat16":
        if array.dtype.name == "bfloat16":
            return array.view(np.int16)
        if array.dtype == np.float32 and not ((bits := array.view(np.uint32)) & 0xFFFF).any():  # as ds[i] gives them
            return (bits >> 16).astype(np.uint16).view(np.int16)
        if not array.size:
            return np.empty(array.shape, np.int16)
        raise TypeError(
            f"field {name!r} takes bfloat16, which numpy lacks: give a torch tensor, not an array of {array.dtype}"
        )
    dtype = np.dtype(field.dtype)
    if array.dtype == dtype:
        return array
    if not array.size:  # np.array([]) is float64
        return np.empty(array.shape, dtype)
    if not np.can_cast(array.dtype, dtype, "safe"):
        raise TypeError(
            f"field {name!r} takes {field.dtype}, not {array.dtype}: convert it with .astype({field.dtype!r}) if "
            "nothing is lost"
        )
    return array.astype(dtype)


def _from_python(name: str, field: Field, value: Any) -> np.ndarray[Any, Any]:
    """Python numbers and nested lists of them (arrays may be among them): converted if every number fits."""
    try:
        array = np.asarray(value)
    except ValueError as e:
        raise ValueError(f"field {name!r}: {e}") from None
    kind, target = array.dtype.kind, "f" if field.dtype == "bfloat16" else np.dtype(field.dtype).kind
    if not array.size:
        return array.astype(np.int16 if field.dtype == "bfloat16" else field.dtype).reshape(
            (0, *(n or 0 for n in field.shape[1:])) if field.shape and array.ndim == 1 else array.shape
        )
    if kind not in "biuf" or (target == "b") != (kind == "b") or (kind == "f" and target in "iu"):
        raise TypeError(f"field {name!r} takes {field.dtype}, not {value!r:.60}")
    if target in "iu":
        low, high = _INT_RANGES[field.dtype]
        if int(array.min()) < low or int(array.max()) > high:
            raise ValueError(f"field {name!r} takes {field.dtype}, from {low} to {high}: {value!r:.60} does not fit")
    with np.errstate(over="ignore"):
        made = array.astype(np.float32 if field.dtype == "bfloat16" else field.dtype)
    infinite = np.isinf(made)
    if field.dtype == "bfloat16":
        made = _round_to_bfloat16(made)
        infinite = made & 0x7FFF == 0x7F80
    if target == "f" and (infinite & np.isfinite(array)).any():
        raise ValueError(f"field {name!r} takes {field.dtype}: {value!r:.60} is beyond its largest number")
    return made


def _round_to_bfloat16(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """float32 to the bits of bfloat16, to nearest even; NaN stays NaN."""
    bits = array.view(np.uint32)
    rounded = (bits + (0x7FFF + ((bits >> 16) & 1))) >> 16
    return np.where(np.isnan(array), (bits >> 16) | 0x40, rounded).astype(np.uint16).view(np.int16)
