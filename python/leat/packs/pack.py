"""``leat.pack``: a Python data set becomes a file of leat.

    data set --workers: sample, its buffers--> batches, in order --> Writer --> PATH.partial --> PATH
                                               this process          its own threads

A sample is a pure function of its number: random numbers are seeded for each, so the file has the same bytes for any
number of workers and however often the run was interrupted. Samples that are left out are noted as those of
leat.tokenize are.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import random
import sys
import time
import traceback
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import Any, Literal

import numpy as np

from .. import check
from ..data.dataset import Dataset
from ..data.dataset import open as _open
from ..data.paths import absolute
from ..data.schema import Field, of_copy
from ..data.writer import Rows, Writer
from ..errors import BrokenSampleError, ChangedError, InvalidError
from ..text.notes import Notes
from ..text.progress import Line
from ..workers.cores import share
from ..workers.feed import Feed, Planned
from ..workers.loop import WHOLE, Job, reseed_row, seed_everything
from ..workers.pool import Pool, threads_wanted
from .kinds import Form, fields_of, is_pil, photo_bytes, plain

FIRST = 16  #: samples that say what fields are
OPTIONS = ("photos", "check", "lenient", "max_side", "quality", "num_threads")  #: of the Writer
_BATCH = 16  # samples that a worker makes at a time: their overhead is little beside that of the slowest samples
_FLIGHT_BYTES = 1 << 28  # of batches that are made ahead


@dataclass(frozen=True)
class Packed:
    """The result of :func:`leat.pack`.

    Attributes:
        path: of the file.
        samples: in it.
        skipped: samples that were left out.
        broken: photos that are marked as broken; PATH.bad.jsonl lists both.
        seconds: that this run took.
    """

    path: str
    samples: int
    skipped: int
    broken: int
    seconds: float

    def open(self) -> Dataset:
        """The file as a data set."""
        return _open(self.path)


@contextlib.contextmanager
def _kept_generators() -> Iterator[None]:
    """Restores the global generators."""
    torch = sys.modules.get("torch")
    states = random.getstate(), np.random.get_state(), torch and torch.get_rng_state()
    try:
        yield
    finally:
        random.setstate(states[0])
        np.random.set_state(states[1])
        if torch is not None:
            torch.set_rng_state(states[2])


@_kept_generators()
def pack(
    dataset: Any,
    path: str | os.PathLike[str],
    *,
    fields: Sequence[str] | Mapping[str, Any] | None = None,
    workers: int | Literal["auto"] = "auto",
    on_error: Literal["raise", "skip", "mark"] = "mark",
    classes: Sequence[str] | None = None,
    metadata: Mapping[str, Any] | None = None,
    shard_bytes: int | None = None,
    overwrite: bool = False,
    resume: bool = False,
    progress: bool = False,
    **options: Any,
) -> Packed:
    """Packs any Python data set into a file of leat, or shards with a manifest.

    Args:
        dataset: an object with ``__len__`` and ``__getitem__``, such as a data set of PyTorch, torchvision or
            ``datasets``, or a list; an iterable, whose samples this process makes; or a :class:`leat.Dataset`. A sample
            is a dict, a named tuple, a dataclass, a tuple or a single value. Its values are numbers, arrays, tensors,
            text, bytes, photos (bytes of a file, or objects of Pillow), and lists and dicts of these, which become
            arrays if they can, else JSON. A photo of Pillow is stored as the file that it was opened from, if it is a
            JPEG, PNG or WebP and has the pixels of that still; else as a PNG.
        path: the file to make.
        fields: the names of those to take, ``["image", "label"]``; of samples that are tuples, the names of their
            values in order. A dict says what they are, too, None as they are found: ``{"image": "image", "boxes":
            leat.boxes()}``. Without it they are as the first samples say (16, spread over the data set). The values of
            a tuple are called ``image`` and ``label`` if they are a photo and an integer, else ``item0``, ``item1``.
        workers: processes that make the samples; ``"auto"``: as many as there are cores; 0: this one. The file has the
            same bytes whatever their number: `random`, `numpy.random` and `torch` are seeded for each sample from its
            number.
        on_error: a broken photo is marked (``"mark"``), its sample is left out (``"skip"``), or it is an error
            (``"raise"``). A sample that raises is left out by ``"skip"``; else it is an error, as nothing can be kept.
        classes: names of the classes of the field ``label``; None: the attribute ``classes`` of the data set, if it is
            a list of texts.
        metadata, shard_bytes, overwrite: as of :class:`leat.Writer`; without `metadata` a leat.Dataset gives its own.
        resume: continue an interrupted run after its last complete sample; the file has the same bytes as without the
            interruption. An iterable is read from its beginning and its first samples are passed over. The data set has
            to be the same, as its class, length, and first and last sample say (of an iterable class and first sample;
            of a :class:`leat.Dataset` its fingerprint). A run that could be resumed is not overwritten, unless
            `overwrite` is set.
        progress: show a line with the rate and the time left on standard error.
        options: further ones of :class:`leat.Writer`: `photos`, `check`, `lenient`, `max_side`, `quality`,
            `num_threads`.

    Raises:
        TypeError, ValueError: a value is nothing that leat stores, or does not fit its field; the text has sample and
            field. Or, with `resume`, data set, fields or options are others (:class:`leat.ChangedError`).
        BrokenSampleError: a sample raises; the text has its number and the traceback.
        FileExistsError: `path` exists, or an unfinished run that could be resumed.

    >>> squares = [{"x": np.full(2, i, np.float32), "square": i * i} for i in range(10)]
    >>> made = leat.pack(squares, tmp / "squares.leat", workers=0)
    >>> made.samples, made.open()[3]
    (10, {'x': array([3., 3.], dtype=float32), 'square': 9})
    """
    begin = time.monotonic()
    check.choice("on_error", on_error, {"raise": 0, "skip": 1, "mark": 2})
    check.flags(overwrite=overwrite, resume=resume, progress=progress)
    if other := [name for name in options if name not in OPTIONS]:
        raise TypeError(f"pack has no option {other[0]!r}: it takes those of its own, and {', '.join(OPTIONS)}")
    if isinstance(dataset, Mapping):
        raise TypeError("a dict is no data set of samples: leat.from_arrays(**arrays) makes one of arrays")
    if isinstance(dataset, (str, bytes, os.PathLike)):
        raise TypeError(f"pack takes a data set, not its path: leat.pack(leat.open({os.fspath(dataset)!r:.60}), path)")
    target = absolute(path)
    given = {"metadata": metadata, "shard_bytes": shard_bytes, "overwrite": overwrite, "resume": resume, **options}
    given |= {"on_bad": on_error}
    if isinstance(dataset, Dataset):
        samples: _Samples = _Stored(dataset, fields)
        given["metadata"] = dataset.metadata if metadata is None else metadata
    else:
        samples = (_Listed if _is_listed(dataset) else _Streamed)(dataset, Form(fields))
    if classes is None and isinstance(found := getattr(dataset, "classes", None), (list, tuple)):
        classes = [c for c in found if isinstance(c, str)] if all(isinstance(c, str) for c in found) else None
    count = n_workers(workers) if samples.parallel else 0
    schema, identity = samples.look(count)
    if "label" in schema and classes:
        given["classes"] = list(classes)
    begun = {"data set": identity, "fields": {n: repr(f) for n, f in schema.items()}, "on_error": on_error}
    notes = Notes(target, begun, ".packing")
    notes.prepare(resume, True)  # the Writer refuses to begin anew where there are samples
    if resume and notes.published_with(samples.count):  # and ended before it had cleaned up
        notes.finish()
        return Packed(target, len(_open(target)), len(notes.skipped), 0, time.monotonic() - begin)
    try:
        opened = Writer(target, schema, source_id=json.dumps(begun), **given)
    except ChangedError as e:
        raise notes.fault or e from None  # the notes say it better
    with opened as writer:
        done = notes.start(len(writer))
        line = Line("packing", samples.count, done) if progress else None
        try:
            samples.write(writer, done, count, _Outcome(writer, notes, on_error == "skip", line))
        finally:
            notes.close()
            if line is not None:
                line.close()
    notes.finish(writer.broken)
    skipped = len(notes.skipped) + sum(left_out for _, left_out, _, _ in writer.broken)
    broken = sum(not left_out for _, left_out, _, _ in writer.broken)
    return Packed(target, len(_open(target)), skipped, broken, time.monotonic() - begin)


def n_workers(workers: Any) -> int:
    return max(1, int(share())) if workers == "auto" else check.integer("workers", workers, 0, 1024)


def _is_listed(dataset: Any) -> bool:
    """Whether samples are asked for by their numbers; a data set of PyTorch that is iterated over has no such ones."""
    streams = any(kind.__name__ == "IterableDataset" for kind in type(dataset).__mro__)
    if hasattr(dataset, "__getitem__") and hasattr(dataset, "__len__") and not streams:
        return True
    if not hasattr(dataset, "__iter__"):
        raise TypeError(
            f"pack takes a data set with __len__ and __getitem__, or an iterable, not {type(dataset).__name__}"
        )
    return False


@dataclass
class _Failed:
    """A sample that raised."""

    reason: str
    trace: str
    #: it is no fault of the sample: its value does not fit the fields
    unfit: bool = False


class _Outcome:
    """Where samples end: in the Writer, or among the notes."""

    def __init__(self, writer: Writer, notes: Notes, skip: bool, line: Line | None) -> None:
        self.writer, self._notes, self._skip, self._line = writer, notes, skip, line

    def take(self, number: int, made: Any) -> None:
        if isinstance(made, _Failed):
            if made.unfit:
                raise InvalidError(f"sample {number}: {made.reason}")
            if not self._skip:
                raise BrokenSampleError(f"sample {number} of the data set raised {made.reason}\n\n{made.trace}")
            self._notes.skip(number, len(self.writer), made.reason)
        else:
            try:
                self.writer.write_row(made)
            except (TypeError, ValueError) as e:
                raise type(e)(str(e) if str(e).startswith("sample ") else f"sample {number}: {e}") from None
        self.said()

    def said(self) -> None:
        if self._line is not None:
            left_out = len(self._notes.skipped)
            self._line.say(len(self.writer) + left_out, 0, 0, f"{left_out} left out" if left_out else "")


class _Samples(ABC):
    """A data set that is packed."""

    parallel = False
    count = 0  #: 0: not known

    @abstractmethod
    def fields(self) -> dict[str, Field]: ...

    @abstractmethod
    def identity(self) -> Any:
        """What tells the data set from another one, for a run that is resumed; after `fields`."""

    def look(self, workers: int) -> tuple[dict[str, Field], Any]:
        """The fields and the identity, whose samples are made where those of the file are."""
        return self.fields(), self.identity()

    @abstractmethod
    def write(self, writer: Writer, done: int, workers: int, outcome: _Outcome) -> None: ...


class _Stored(_Samples):
    """A data set of leat."""

    def __init__(self, dataset: Dataset, fields: Any) -> None:
        if isinstance(fields, Mapping):
            raise TypeError("fields of a leat.Dataset are those that it has: name the ones to take, fields=[...]")
        taken = list(of_copy(dataset.schema)) if fields is None else check.names("fields", fields)
        found = {name: dataset._find(name)[1] for name in taken}
        stay = of_copy(found) if not all(f.derived for f in found.values()) else ()
        self._schema = {n: f if n in stay else replace(f, derived=False) for n, f in found.items()}
        self._dataset = dataset
        self.count = len(dataset)

    def fields(self) -> dict[str, Field]:
        return self._schema

    def identity(self) -> Any:
        return self._dataset.fingerprint

    def write(self, writer: Writer, done: int, workers: int, outcome: _Outcome) -> None:
        writer.write_dataset(self._dataset, lambda _: outcome.said())


class _Listed(_Samples):
    """One whose samples are asked for by their numbers."""

    parallel = True
    _fields: dict[str, Field]

    def __init__(self, dataset: Any, form: Form) -> None:
        self._dataset, self._form, self.count = dataset, form, len(dataset)

    def identity(self) -> Any:
        made, ends = _Made(self._dataset, self._form, self._fields), []
        for i in sorted({0, self.count - 1} if self.count else ()):
            reseed_row(0, 0, i)
            ends.append(_hash(made[i]))
        return [_name(self._dataset), self.count, *ends]

    def look(self, workers: int) -> tuple[dict[str, Field], Any]:
        if not workers or not self.count:
            return super().look(workers)
        for _, (found,) in _by_workers(_Look(self), 0, 1, 1):
            if isinstance(found, Exception):
                raise found
            self._fields, identity = found
        return self._fields, identity

    def fields(self) -> dict[str, Field]:
        if self._form.said and None not in self._form.said.values():
            self._fields = {n: f for n, f in self._form.said.items() if f is not None}
            return self._fields
        if not self.count:
            raise InvalidError("the data set has no samples, so nothing says what its fields are: fields={...}")
        found: list[tuple[int, dict[str, Any]]] = []
        failure: tuple[int, Exception] | None = None
        for i in np.unique(np.linspace(0, self.count - 1, FIRST).astype(np.int64)).tolist():
            reseed_row(0, 0, i)
            try:
                sample = self._dataset[i]
            except Exception as e:
                failure = failure or (i, e)
            else:
                found.append((i, _values(self._form, i, sample)))
        if not found and failure is not None:
            raise _broken(*failure) from failure[1]
        self._fields = fields_of(self._form, found)
        return self._fields

    def write(self, writer: Writer, done: int, workers: int, outcome: _Outcome) -> None:
        made = _Made(self._dataset, self._form, self._fields)
        batches = _by_workers if workers else _here
        for first, values in batches(made, done, self.count, workers):
            for k, value in enumerate(values):
                outcome.take(first + k, value)


class _Look:
    """What the first samples say, or the error, found by a worker: a file that the data set opens when it is first read
    would have one position for all workers if this process had opened it before they are forked."""

    def __init__(self, samples: _Listed) -> None:
        self._samples = samples

    def __len__(self) -> int:
        return 1

    def __getitem__(self, i: int) -> Any:
        try:
            return self._samples.fields(), self._samples.identity()
        except (BrokenSampleError, InvalidError) as e:
            return type(e)(*e.args)
        except Exception as e:
            return BrokenSampleError(f"the first samples of the data set raised {_reason(e)}\n\n{_trace(e)}")


class _Made:
    """The samples of a data set as buffers, or as what went wrong. Travels to workers."""

    def __init__(self, dataset: Any, form: Form, fields: Mapping[str, Field]) -> None:
        self._dataset, self._form, self._fields = dataset, form, dict(fields)
        self._rows: Rows | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_rows": None}

    def __len__(self) -> int:
        return len(self._dataset)

    def __getitem__(self, i: int) -> Any:
        try:
            sample = self._dataset[i]
        except Exception as e:
            return _Failed(_reason(e), _trace(e))
        return self.row(sample)

    def row(self, sample: Any) -> Any:
        if self._rows is None:
            self._rows = Rows(self._fields)
        try:
            values = self._form.values(sample)
            values = {n: photo_bytes(v) if is_pil(v) else v for n, v in values.items()}
            values |= {n: plain(values[n]) for n, f in self._fields.items() if f.kind == "json" and n in values}
            return [bytes(b) if isinstance(b, memoryview) else b for b in self._rows.of(values)]
        except BrokenSampleError as e:
            return _Failed(str(e), _trace(e))
        except Exception as e:
            text = str(e.args[0]) if isinstance(e, KeyError) and e.args else str(e)
            return _Failed(f"{text} (fields={{...}} says what fields are)", "", True)


def _name(dataset: Any) -> str:
    return f"{type(dataset).__module__}.{type(dataset).__qualname__}"


def _hash(row: Any) -> str:
    """Of the values of a sample as they are stored; of all that are broken the same, as their errors may differ."""
    whole = hashlib.sha256()
    for part in [] if isinstance(row, _Failed) else row:
        data = part if isinstance(part, bytes) else np.asarray(part).tobytes()
        whole.update(len(data).to_bytes(8, "little") + data)
    return whole.hexdigest()[:16]


def _values(form: Form, number: int, sample: Any) -> dict[str, Any]:
    try:
        return form.values(sample)
    except (KeyError, ValueError) as e:
        raise InvalidError(f"sample {number}: {e.args[0]}") from None


def _reason(e: BaseException) -> str:
    return f"{type(e).__name__}: {e}"


def _broken(number: int, e: BaseException) -> BrokenSampleError:
    return BrokenSampleError(f"sample {number} of the data set raised {_reason(e)}\n\n{_trace(e)}")


def _trace(e: BaseException) -> str:
    """Its traceback, from the data set's own code on."""
    within = e.__traceback__.tb_next if e.__traceback__ is not None else None
    return "".join(traceback.format_exception(type(e), e, within or e.__traceback__)).rstrip()


def _here(made: _Made, begin: int, end: int, workers: int) -> Iterator[tuple[int, list[Any]]]:
    """Samples that this process makes."""
    for i in range(begin, end):
        reseed_row(0, 0, i)
        yield i, [made[i]]


def _by_workers(made: _Made | _Look, begin: int, end: int, workers: int) -> Iterator[tuple[int, list[Any]]]:
    """Samples that workers make, in order."""
    plan = (
        Planned(list(range(i, min(i + _BATCH, end))), min(_BATCH, end - i), WHOLE, 0, 0, i // _BATCH, i)
        for i in range(begin, end, _BATCH)
    )
    count = min(workers, max(1, -(-(end - begin) // _BATCH)))
    pool = Pool(made, count, count, None, None, 0, threads_wanted(None))
    pool.hold()
    feed = None
    try:
        job = Job(made, collate=_as_they_are, reseed=True)
        feed = Feed(
            pool, job, plan, window=2 * count + 1, window_bytes=_FLIGHT_BYTES, collate=_as_they_are, direct=False
        )
        with pool.lock:
            feed.publish()
            pool.start()
        while (batch := feed.next()) is not None:
            yield batch.planned.first_row, batch.value
    finally:
        if feed is not None:
            feed.close()
        pool.let_go()


def _as_they_are(samples: list[Any]) -> list[Any]:
    return samples


class _Streamed(_Samples):
    """An iterable."""

    def __init__(self, dataset: Any, form: Form) -> None:
        self._form = form
        with contextlib.suppress(TypeError, NotImplementedError):
            self.count = len(dataset)
        self._name = _name(dataset)
        seed_everything(0)
        self._samples: Iterator[Any] = iter(dataset)

    def identity(self) -> Any:
        try:
            first = list(islice(self._samples, 1))
        except Exception as e:
            raise _broken(0, e) from e
        self._samples = chain(first, self._samples)
        return [self._name, *(_hash(_Made(None, self._form, self._fields).row(one)) for one in first)]

    def fields(self) -> dict[str, Field]:
        said = self._form.said
        if said and None not in said.values():
            self._fields = {n: f for n, f in said.items() if f is not None}
            return self._fields
        first = list(islice(self._samples, FIRST))
        self._samples = chain(first, self._samples)
        if not first:
            raise InvalidError("the data set has no samples, so nothing says what its fields are: fields={...}")
        self._fields = fields_of(self._form, [(i, _values(self._form, i, s)) for i, s in enumerate(first)])
        return self._fields

    def write(self, writer: Writer, done: int, workers: int, outcome: _Outcome) -> None:
        made = _Made(None, self._form, self._fields)
        number = -1
        while True:
            try:
                sample = next(self._samples)
            except StopIteration:
                break
            except Exception as e:  # an iterator that has raised is over
                raise _broken(number + 1, e) from e
            number += 1
            if number >= done:
                outcome.take(number, made.row(sample))
        if number + 1 < done:
            raise InvalidError(f"the data set has {number + 1} samples, and {done} of it were packed before")
