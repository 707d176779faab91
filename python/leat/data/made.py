"""Data sets that are not files: arrays in memory, and objects that compute their values."""

from __future__ import annotations

import builtins
import math
import threading
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from .. import _leat, check
from ..errors import ChangedError, Error
from . import schema as _schema
from .dataset import Dataset, no_dataset
from .ragged import Ragged
from .schema import Field
from .sparse import as_sparse, packed, packed_rows, row_of

_BROKEN, _CHANGED, _INVALID = -23, -11, -2  # of enum leat_status


def from_arrays(schema: Mapping[str, Field | str] | None = None, /, **arrays: Any) -> Dataset:
    """A data set of arrays in memory, one field per keyword, without a copy of them.

    Args:
        schema: for some or all names a :func:`leat.field`, or its dtype argument, that adds to the array's type: a
            `layout` makes its values images for operators. Its shape may be another one of as many elements; its dtype
            is the array's.
        arrays: NumPy arrays or PyTorch tensors on the CPU, all of one length; the first axis counts samples. An array
            whose samples do not each lie in one piece is copied once; so is a :class:`leat.Sparse`, or a sparse matrix
            of SciPy, which becomes a field of :func:`leat.sparse`. Or a :class:`leat.Ragged` of arrays, whose rows
            are the samples; with a `schema` of ``"str"``, ``"bytes"`` or ``"json"`` rows of uint8 are such values.

    The data set keeps the arrays alive. They must not change while it is used: they are read once here for the
    fingerprint, which is that of the same values packed. The data set pickles with its arrays, by value.

    Raises:
        ValueError: arrays of different lengths, without a first axis, or of a dtype that leat lacks; offsets that
            descend; text that is not UTF-8.

    >>> ds = leat.from_arrays(x=np.zeros((10, 3), "float32"), y=np.arange(10))
    >>> ds, ds[7]["y"]
    (<leat.Dataset of 10 samples (x: float32[3], y: int64)>, 7)
    """
    if not arrays:
        raise ValueError("from_arrays needs at least one array: leat.from_arrays(x=..., y=...)")
    return of_arrays(schema, arrays, None)


def of_arrays(
    schema: Mapping[str, Field | str] | None,
    arrays: Mapping[str, Any],
    version: str | None,
    classes: Sequence[str] = (),
) -> Dataset:
    """`version`: None, or a text that names the content, which is then not read for the fingerprint. `classes`: those
    of the field ``label``, which are no part of it."""
    wanted = {name: _schema.as_field(field) for name, field in (schema or {}).items()}
    for name in wanted:
        if name not in arrays:
            raise ValueError(f"the schema has a field {name!r}, but there is no array of that name")
    keep: list[Any] = []
    places: list[Any] = []
    fields: dict[str, Field] = {}
    count = -1
    for name, given in arrays.items():
        rows = as_sparse(name, given)
        if rows is not None:
            fields[name] = _schema.sparse(rows.values.dtype, rows.n)
            if wanted.get(name, fields[name]) != fields[name]:
                raise ValueError(f"{name!r} holds {fields[name]}, which cannot be a {wanted[name]}")
        if rows is not None or isinstance(given, Ragged):
            if rows is not None:
                given = rows
                values, offsets = packed_rows(rows)
            else:
                values, offsets, fields[name] = as_ragged(name, given, wanted.get(name))
            if count < 0:
                first, count = name, len(given)
            if len(given) != count:
                raise ValueError(f"all arrays need one length: {first!r} has {count} samples, {name!r} {len(given)}")
            keep += [values, offsets]
            at, begins = (a.__array_interface__["data"][0] for a in (values, offsets))
            places.append((at, 0, begins, offsets.itemsize))
            continue
        array, dtype = as_rows(name, given)
        if count < 0:
            first, count = name, len(array)
        if len(array) != count:
            raise ValueError(f"all arrays need one length: {first!r} has {count} samples, {name!r} has {len(array)}")
        fields[name] = field_of(name, array, dtype, wanted.get(name))
        keep.append(array)
        stride = array.strides[0] if len(array) > 1 else array[:1].nbytes
        places.append((array.__array_interface__["data"][0], stride, 0, 0))
    handle = _leat.arrays(_schema.to_raw(fields), count, places, version, keep, list(classes))
    return Dataset(handle, ("arrays", wanted, dict(arrays), version, list(classes)))


def as_ragged(name: str, given: Ragged, wanted: Field | None) -> tuple[Any, Any, Field]:
    """Dense values and offsets that the library takes, and their field."""
    values, dtype = as_rows(name, given.values)
    offsets = given.offsets.numpy() if hasattr(given.offsets, "detach") else np.asarray(given.offsets)
    if offsets.dtype not in (np.int32, np.int64):
        offsets = offsets.astype(np.int64)
    values, offsets = np.ascontiguousarray(values), np.ascontiguousarray(offsets)
    if len(offsets) and int(offsets[-1]) > len(values):
        raise ValueError(f"{name!r} has offsets up to {int(offsets[-1])}, and {len(values)} values")
    found = _schema.field(dtype, (None, *values.shape[1:]))
    if wanted is None or wanted == found:
        return values, offsets, found
    if wanted.kind == "array":
        if wanted.dtype != dtype or wanted.shape != found.shape:
            raise ValueError(f"{name!r} holds {found}, which cannot be a {wanted}")
    elif values.dtype != np.uint8 or values.ndim != 1:
        raise ValueError(f"{name!r} holds {found}: values of kind {wanted.kind!r} are rows of uint8")
    return values, offsets, wanted


_OTHERS = (
    "rows of different lengths are a leat.Ragged; leat.from_arrow(pyarrow.table(...)) takes them as lists, and texts"
)


def as_rows(name: str, given: Any) -> tuple[np.ndarray[Any, Any], str]:
    """An array with dense rows, without a copy if possible, and the name of its dtype."""
    dtype = None
    if hasattr(given, "detach") and hasattr(given, "device"):
        if given.device.type != "cpu":
            raise ValueError(f"{name!r} is a tensor on {given.device}: from_arrays takes tensors on the CPU")
        given = given.detach()
        if given.is_nested:
            raise ValueError(f"{name!r} is a nested tensor: leat.Ragged(x.values(), x.offsets()) has its rows")
        if str(given.layout) != "torch.strided":
            raise ValueError(f"{name!r} is no dense tensor: {_OTHERS}, and a leat.Sparse sparse ones")
        if str(given.dtype) == "torch.bfloat16":
            dtype = "bfloat16"
        given = _of_tensor(given)
    check.unmasked(name, given)
    try:
        array = np.asarray(given)
    except (TypeError, ValueError) as e:  # rows of different lengths
        raise ValueError(f"{name!r} is no array: {e}; {_OTHERS}") from None
    if array.ndim == 0:
        raise ValueError(f"{name!r} is a single value: the first axis of an array counts samples")
    try:
        dtype = dtype or _schema.dtype_name(array.dtype)
    except ValueError as e:
        raise ValueError(f"{name!r}: {e}{f'; {_OTHERS}' if array.dtype.kind in 'OSU' else ''}") from None
    if not array.dtype.isnative or (len(array) and not array[0].flags.c_contiguous):
        array = np.ascontiguousarray(array, array.dtype.newbyteorder("="))
    return array, dtype


def _of_tensor(tensor: Any) -> np.ndarray[Any, Any]:
    """A tensor on the CPU as an array over its memory; bfloat16 as its bits."""
    import torch

    array: np.ndarray[Any, Any] = (tensor.view(torch.int16) if tensor.dtype == torch.bfloat16 else tensor).numpy()
    return array


def field_of(name: str, array: np.ndarray[Any, Any], dtype: str, wanted: Field | None) -> Field:
    found = _schema.field(dtype, array.shape[1:])
    if wanted is None:
        return found
    if wanted.kind != "array" or wanted.dtype != dtype or None in wanted.shape:
        raise ValueError(f"{name!r} holds {found}, which cannot be a {wanted}")
    if math.prod(n or 0 for n in wanted.shape) != math.prod(n or 0 for n in found.shape):
        raise ValueError(f"{name!r} has values of shape {found.shape}, which cannot be seen as {wanted.shape}")
    return wanted


class Source(Protocol):
    """The argument of :func:`from_source`."""

    @property
    def fields(self) -> Mapping[str, Any]: ...
    def __len__(self) -> int: ...
    def read(self, positions: np.ndarray[Any, np.dtype[np.int64]], /) -> Mapping[str, Any]: ...


def from_source(source: Source, *, timeout_s: float | None = None) -> Dataset:
    """A data set whose values an object computes: a reader of another library, a generator, a remote store.

    Args:
        source: has ``len(source)``; ``source.fields``, a dict of names to :func:`leat.field` or its dtype argument; and
            ``source.read(positions)``, which is given an int64 array of up to 512 positions. It returns a dict
            with the values of each name in that order: an array of shape ``(len(positions), *shape)``, or a list of one
            value per position (arrays, numbers; bytes, str, JSON values for those kinds). It must give the same values
            each time. ``source.version``, a text, is optional and names the content: the fingerprint covers it, the
            schema and the length.
        timeout_s: a `read` that takes longer is an error, for all that wait behind it too. None: the loader waits for
            it, with a warning after 30 s.

    `read` is called in a thread of its own, in one call at a time, while batches are made ahead. A loader asks for the
    samples of several batches in one call, of up to 512 positions: as many as a sixteenth of its budget holds, if all
    are as large as the largest so far, and as a call takes a tenth of a second for. A batch then waits for the other
    samples of its call. With a `timeout_s` below 1 a call is for samples of one batch. Nothing is pickled. A data set
    of a source pickles as the source does.

    Errors: an exception of `read` breaks only the sample that raises it by itself (:class:`leat.BrokenSampleError`,
    with the exception as cause), and the loader's ``on_error`` applies. It does not apply to values that do not fit
    `fields` (:class:`leat.InvalidError`), nor to a `read` that takes longer than `timeout_s`
    (:class:`leat.FileError`): leat cannot tell which of its samples is to blame, and later calls would wait for it. Nor
    does it apply to a :class:`leat.ChangedError` that `read` raises.

    >>> class Squares:
    ...     fields = {"x": leat.field("int64")}
    ...     def __len__(self): return 1000
    ...     def read(self, positions): return {"x": positions**2}
    >>> leat.from_source(Squares())[7]
    {'x': 49}
    """
    for attribute in ("__len__", "fields", "read"):
        if not hasattr(source, attribute):
            raise TypeError(
                f"from_source takes an object with __len__, fields and read(positions): {type(source).__name__} has "
                f"no {attribute}"
            )
    if not isinstance(source.fields, Mapping) or not source.fields:
        raise TypeError(
            f"fields of {type(source).__name__} is a dict of names to leat.field, not {source.fields!r:.60}"
        )
    if not callable(source.read):
        raise TypeError(f"read of {type(source).__name__} is not callable")
    fields = {str(name): _schema.as_field(f) for name, f in source.fields.items()}
    limit = 0.0 if timeout_s is None else float(timeout_s)
    if timeout_s is not None and not 0 < limit < 1e9:
        raise ValueError(f"timeout_s is a number of seconds above 0, not {timeout_s!r}")
    version = str(getattr(source, "version", "") or "")
    reader = Reader(source, fields)
    lacking = np.array([i for i, name in enumerate(fields) if name in reader.lacking], np.uintp).tobytes()
    classes = list(getattr(source, "classes_of_label", ()))
    rows = getattr(source, "chunk_rows", None)  # of a source that reads chunks
    chunks = None if rows is None else np.array(rows, np.uint64).tobytes()
    handle = _leat.source(_schema.to_raw(fields), len(source), version, reader, limit, 30.0, classes, lacking, chunks)
    return Dataset(handle, ("source", source, timeout_s))


class Failed(Exception):
    """For the extension module: (code, index of the sample or -1, text, the exception of the source)."""

    def __init__(self, code: int, index: int, text: str, cause: BaseException | None = None) -> None:
        super().__init__(text)
        self.parts = (code, index, text.encode("utf-8", "replace").decode()[:900], cause)


class Reader:
    """Calls a source, and checks its values. Called by the extension module, in the source's thread."""

    def __init__(self, source: Source, fields: Mapping[str, Field]) -> None:
        self.source = source
        self.name = type(source).__name__
        self.fields = list(fields.items())
        #: fields of which samples may have no value: `read_fields(positions, names, True)` gives None there
        self.lacking = frozenset(getattr(source, "lacking_fields", ()))

    def start(self, capsule: Any) -> None:
        threading.Thread(
            target=_leat.source_serve, args=(capsule,), name=f"leat-source-{self.name}", daemon=True
        ).start()

    def slow(self, seconds: float) -> None:
        warnings.warn(
            f"{self.name}.read has not returned for {seconds:.0f} s; it is waited for (leat.from_source(..., "
            "timeout_s=...) ends that)",
            stacklevel=2,
        )

    def __call__(
        self, numbers: list[int], raw: bytes, may_lack: bool = False, begun: list[bytes | None] | None = None
    ) -> list[Any]:
        """`may_lack`: a value that is missing is None, and no error. `begun`: what `read_chunk` gave of values that it
        has marked as begun, which `finish(name, position, begun)` makes; None of one that is missing."""
        positions = np.frombuffer(raw, np.int64)
        if begun is not None:
            return [self._finished(number, positions.tolist(), begun) for number in numbers]
        may_lack = may_lack and bool(self.lacking)
        try:
            found = self._read(positions, numbers, may_lack)
        except BaseException as e:
            self._blame(positions, e)
            found = self._one_by_one(numbers, positions, may_lack)
        return [self._convert(*self.fields[i], found, len(positions), may_lack) for i in numbers]

    def _read(self, positions: np.ndarray[Any, Any], numbers: list[int], may_lack: bool) -> Any:
        """`read_fields(positions, names)`, of a source that has it, reads only the fields that are wanted."""
        if (some := getattr(self.source, "read_fields", None)) is not None:
            names = [self.fields[i][0] for i in numbers]
            return some(positions, names, True) if may_lack else some(positions, names)
        return self.source.read(positions)

    def _finished(self, number: int, positions: list[int], begun: list[bytes | None]) -> list[Any]:
        name, field = self.fields[number]
        made = []
        for at, (position, given) in enumerate(builtins.zip(positions, begun, strict=True)):
            try:
                value = self.source.finish(name, position, given)  # type: ignore[attr-defined]
            except BaseException as e:
                raise self._failed(at, e) from e
            made.append(self._varying(name, field, value, at))
        return made

    def chunk(self, numbers: list[int], chunk: int) -> list[Any]:
        """Whole columns of a chunk: (values, offsets or None, bytes of an offset, marks or None), or None for one whose
        values are read one by one. Marks: 0 a value, 1 none, 2 what `finish` makes the value of."""
        names = [self.fields[i][0] for i in numbers]
        try:
            found = self.source.read_chunk(chunk, names)  # type: ignore[attr-defined]
        except BaseException as e:
            raise self._failed(-1, e) from e
        rows = int(self.source.chunk_rows[chunk])  # type: ignore[attr-defined]
        return [self._column(rows, *self.fields[i], *found[self.fields[i][0]]) for i in numbers]

    def _column(self, rows: int, name: str, field: Field, values: Any, marks: Any) -> Any:
        marks = None if marks is None else np.ascontiguousarray(marks, np.uint8)
        if len(values) != rows or (marks is not None and marks.shape != (rows,)):
            raise self._wrong(name, f"{len(values)} values for a chunk of {rows} rows")
        if isinstance(values, np.ndarray):
            return self._array(name, field, values, (len(values), *field.shape)), None, 0, marks
        if not isinstance(values, Ragged):
            return None
        raw = values.values
        if field.kind == "array":
            raw = self._array(name, field, raw, field.shape)
        offsets = np.ascontiguousarray(values.offsets)
        if offsets.dtype not in (np.int32, np.int64):
            offsets = offsets.astype(np.int64)
        return np.ascontiguousarray(raw), offsets, offsets.itemsize, marks

    def _blame(self, positions: np.ndarray[Any, Any], e: BaseException) -> None:
        """Raises, unless samples can be read one by one."""
        if len(positions) == 1 or not isinstance(e, Exception) or isinstance(e, ChangedError):
            raise self._failed(0, e) from e

    def _failed(self, at: int, e: BaseException) -> Failed:
        """A file that was changed or removed is no fault of the sample that noticed it."""
        if isinstance(e, ChangedError):
            return Failed(_CHANGED, -1, str(e), e)
        return Failed(_BROKEN, at, self._told(e), e)

    def _told(self, e: BaseException) -> str:
        own = type(self.source).__module__.partition(".")[0] == "leat"  # which nobody knows by its class
        if own and isinstance(e, Error):
            return str(e)
        return f"{type(e).__name__}: {e}" if own else f"{self.name}.read raised {type(e).__name__}: {e}"

    def _one_by_one(self, numbers: list[int], positions: np.ndarray[Any, Any], may_lack: bool) -> dict[str, Any]:
        """After a call that failed: reads one by one to find the sample that fails by itself."""
        rows: dict[str, list[Any]] = {self.fields[i][0]: [] for i in numbers}
        for k in range(len(positions)):
            try:
                one = self._read(positions[k : k + 1].copy(), numbers, may_lack)
            except BaseException as e:
                raise self._failed(k, e) from e
            for i in numbers:
                name, field = self.fields[i]
                rows[name].append(one[name][0] if isinstance(one, Mapping) and name in one else None)
                if rows[name][-1] is None:
                    self._convert(name, field, one, 1, may_lack)
        return rows

    def _wrong(self, name: str, text: str, at: int = -1, cause: BaseException | None = None) -> Failed:
        return Failed(_INVALID, at, f"{self.name}.read gave for field {name!r} {text}", cause)

    def _convert(self, name: str, field: Field, found: Any, n: int, may_lack: bool) -> Any:
        """The values of a field as one buffer, or as a list of one per sample, None for those that are missing."""
        if not isinstance(found, Mapping):
            raise Failed(_INVALID, -1, f"{self.name}.read gave {type(found).__name__}, not a dict of fields")
        if name not in found:
            raise Failed(
                _INVALID,
                -1,
                f"{self.name}.read gave no field {name!r}: it gave {', '.join(map(repr, found)) or 'none'}",
            )
        values = found[name]
        if field.kind == "sparse" and hasattr(values, "tocsr"):
            values = list(values.tocsr())
        if not hasattr(values, "__len__") or len(values) != n:
            given = len(values) if hasattr(values, "__len__") else type(values).__name__
            raise self._wrong(name, f"{given} values for {n} positions")
        if may_lack and name in self.lacking and any(v is None for v in values):
            there = [at for at, v in enumerate(values) if v is not None]
            rows: list[Any] = [None] * n
            inner = self._convert(name, field, {name: [values[at] for at in there]}, len(there), False) if there else ()
            for k, at in enumerate(there):
                rows[at] = inner[k : k + 1] if isinstance(inner, np.ndarray) else inner[k]
            return rows
        if field.kind == "array" and not (field.shape and field.shape[0] is None):
            return self._array(name, field, values, (n, *field.shape))
        return [self._varying(name, field, v, at) for at, v in enumerate(values)]

    def _array(self, name: str, field: Field, value: Any, shape: tuple[Any, ...]) -> np.ndarray[Any, Any]:
        check.unmasked(name, value)
        numbers = not hasattr(value, "dtype")  # of Python: they become what the field is
        if hasattr(value, "detach"):
            value = _of_tensor(value.detach().cpu())
        elif numbers and len(value) and hasattr(value[0], "detach"):
            value = [v.detach().cpu().numpy() for v in value]
        dtype = _schema.held(field.dtype)
        try:
            array = np.asarray(value)
            kinds = {"b": "biuf", "i": "iuf", "u": "iuf", "f": "f"}
            if (
                numbers
                and not (len(value) and hasattr(value[0], "dtype"))
                and dtype.kind in kinds.get(array.dtype.kind, "")
            ):
                array = np.asarray(value, dtype)
        except (ValueError, TypeError, OverflowError) as e:
            raise self._wrong(name, f"values that are no array of {field}: {e}") from None
        if field.dtype == "bfloat16" and array.dtype == np.int16:
            array = array.view(np.uint16)
        if array.shape == (0,) and shape[:1] == (None,):  # such as boxes of a photo without any
            array = np.empty((0, *(d or 0 for d in shape[1:])), dtype)
        want = tuple(array.shape[i] if d is None and i < array.ndim else d for i, d in enumerate(shape))
        if array.shape != want or array.dtype.newbyteorder("=") != dtype:
            raise self._wrong(
                name, f"an array of {array.dtype} with shape {array.shape}: it needs {field.dtype} with {shape}"
            )
        return np.ascontiguousarray(array, dtype)

    def _varying(self, name: str, field: Field, value: Any, at: int) -> Any:
        import json

        if field.kind == "array":
            return self._array(name, field, value, field.shape)
        if field.kind == "sparse":
            try:
                values, columns = row_of(name, value, field.shape[0] or 0)
            except (TypeError, ValueError) as e:
                raise self._wrong(name, f"no sparse row: {e}", at, e) from e
            return packed(self._array(name, field, values, (None,)), columns)
        try:
            if field.kind == "str" and isinstance(value, str):
                return value.encode()
            if field.kind == "json":
                return json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
        except (TypeError, ValueError, RecursionError) as e:
            raise self._wrong(name, f"a value that cannot be written as {field.kind}: {e}", at, e) from e
        if field.kind in _schema.BINARY and isinstance(value, (bytes, bytearray, memoryview)):
            return value
        if (
            field.kind in _schema.BINARY
            and isinstance(value, np.ndarray)
            and value.dtype == np.uint8
            and value.ndim == 1
        ):
            return np.ascontiguousarray(value)
        raise self._wrong(name, f"a value of {type(value).__name__}, which is no {field.kind}", at)


def zip(**datasets: Dataset) -> Dataset:  # noqa: A001
    """Data sets of equal length side by side: sample i has the fields of each sample i, as ``left.image``.

    Views (``select``, ``split``, slices) of the whole keep samples together; a part may be a view itself.

    Raises:
        ValueError: the lengths differ.

    >>> leat.zip(left=leat.open(path), right=leat.open(path)[::-1])[0]["right.label"]
    9
    """
    return zipped(datasets, False)


def zipped(datasets: Mapping[str, Dataset], bare: bool | None, fields: Sequence[str] = ()) -> Dataset:
    """With `bare`, the field of a data set that has only one takes the data set's name, without a dot; None: all fields
    keep their names. `fields`: the names of those to take; none: all."""
    for name, d in datasets.items():
        if not isinstance(d, Dataset):
            raise no_dataset(f"zip takes data sets, leat.zip(left=a, right=b), as {name!r} too", d)
    if not datasets:
        raise ValueError("zip needs at least one data set: leat.zip(left=a, right=b)")
    names = [""] * len(datasets) if bare is None else list(datasets)
    handle = _leat.zip([d._part() for d in datasets.values()], names, bool(bare), list(fields))
    return Dataset(handle, ("zip", dict(datasets), bare, tuple(fields)))
