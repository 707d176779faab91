"""Data sets of Ray Data as data sets of leat.

path.RUN.partial/TASK-ATTEMPT.leat     a shard of each attempt of a task, under a name of its own
path.stem.00000.leat ...               the shards of the tasks that succeeded, in the order of the tasks
path                                   the manifest: the data set is there with it, or not at all
"""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import uuid
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import ray
from ray.data.block import BlockAccessor
from ray.data.datasource import Datasink, WriteResult

from .. import _leat
from ..data import arrow_c
from ..data.arrow import Columns
from ..data.dataset import open as open_dataset
from ..data.ragged import Ragged
from ..data.schema import Field
from ..data.sparse import Sparse
from ..data.writer import Writer
from ..errors import Error, ExistsError, FileError, InvalidError
from .blocks import fields_of, plain

RAY_SAYS = "\nFailed to apply UDF"  #: the beginning of the lines that Ray Data adds to the text of an error
TRIES = 100  #: to remove a folder into which an attempt that is being killed still writes


def write(
    dataset: ray.data.Dataset,
    path: str | os.PathLike[str],
    fields: Sequence[str] | Mapping[str, Any] | None = None,
    *,
    fill: Mapping[str, Any] | None = None,
) -> None:
    """Writes a :class:`ray.data.Dataset` as shards with a manifest, which :func:`leat.open` opens as one data set.

    Each task of Ray Data writes a shard. A task that is tried again, because its worker or node has died, writes
    another file, and only files of attempts that succeeded become part of the data set. They get their names, and after
    them the manifest, once all are on the disk; until then, and after any failure, there is nothing under `path`.

    Args:
        dataset: what is written; its blocks become shards in the order in which Ray Data hands them to tasks.
        path: the manifest, in a folder that all nodes and this process share.
        fields: as of :func:`leat.from_arrow`: the columns to write, or a dict of names to what they are, such as
            ``{"image": "image", "label": None}``. ``None``: all, as found; columns that :func:`leat.ray.read` has read
            are the kinds that they were.
        fill: for a column with missing values the substitute for them, as of :func:`leat.from_arrow`.

    Raises:
        leat.ExistsError: `path` exists, or a shard of its name.
        OSError: the disk is full, the folder is missing, cannot be written, or is not shared by all nodes.
        ValueError: there are no rows, blocks of other columns than the others', or values that no field holds.
    """
    sink = LeatDatasink(path, fields, fill)
    sink.begin()
    try:
        dataset.write_datasink(sink)
    except ray.exceptions.RayTaskError as e:
        error = e.cause
        if not isinstance(error, Error):
            raise
        text = str(error).partition(RAY_SAYS)[0]
        error.args = (re.sub(" with resume( to continue)?", "", text),)  # the advice of a Writer, which is not for here
        raise error from e
    finally:
        sink.end()


class Shard(NamedTuple):
    """What an attempt of a task has written."""

    task: int
    file: str  #: its name in the folder of the run


class LeatDatasink(Datasink[Shard | None]):  # type: ignore[misc]
    """What Ray Data writes to: a folder beside the data set, and at the end the data set."""

    def __init__(self, path: str | os.PathLike[str], fields: Any, fill: Any) -> None:
        self._path = Path(os.path.abspath(os.fspath(path)))
        self._folder = self._path.with_name(f"{self._path.name}.{uuid.uuid4().hex[:12]}.partial")
        self._fields, self._fill = fields, fill

    def get_name(self) -> str:
        """The name of its tasks."""
        return "Leat"

    def begin(self) -> None:
        """Makes the folder, on the driver."""
        if self._path.exists():
            raise ExistsError(f"{self._path} exists: remove it, or write to another path")
        try:
            self._folder.mkdir()
        except OSError as e:
            raise FileError(f"cannot write into {self._path.parent}: {e.strerror}") from e

    def write(self, blocks: Iterable[Any], ctx: Any) -> Shard | None:
        """Writes the blocks of a task to a file of this attempt; None: they have no rows."""
        name = f"{ctx.task_idx:06d}-{uuid.uuid4().hex[:12]}.leat"
        shard = _Shard(self._folder / name, self._fields, self._fill)
        try:
            for block in blocks:
                shard.add(BlockAccessor.for_block(block).to_arrow())
            return Shard(ctx.task_idx, name) if shard.close() else None
        except BaseException:
            shard.drop()
            raise

    def on_write_complete(self, write_result: WriteResult[Shard | None]) -> None:
        """The data set appears."""
        shards = sorted(s for s in write_result.write_returns if s is not None)
        if not shards:
            raise InvalidError(f"there are no rows to write to {self._path}")
        files = [self._folder / s.file for s in shards]
        for file in files:
            if not file.exists():
                raise FileError(f"{file}, which a task has written, is not there: path is in a folder that nodes share")
        open_dataset(list(map(str, files)))  # an error, if their fields differ
        stem = self._path.name.removesuffix(self._path.suffix)
        names = [f"{stem}.{i:05d}.leat" for i in range(len(files))]
        placed: list[Path] = []
        try:
            for file, name in zip(files, names, strict=True):
                target = self._path.with_name(name)
                if target.exists():
                    raise ExistsError(f"a shard of the name {target} exists: remove it, or write to another path")
                file.rename(target)
                placed.append(target)
            _leat.writer_join(str(self._path), names)
        except BaseException:
            if not self._path.exists():
                for target in placed:
                    target.unlink(missing_ok=True)
            raise

    def end(self) -> None:
        """Removes what is left: files of attempts that failed. An attempt that still runs finds no folder."""
        for _ in range(TRIES):
            shutil.rmtree(self._folder, ignore_errors=True)
            if not self._folder.exists():
                return


class _Shard:
    """A file of one attempt."""

    def __init__(self, path: Path, fields: Any, fill: Any) -> None:
        self._path, self._given, self._fill = path, fields, fill
        self._writer: Writer | None = None
        self._columns: Columns | None = None
        self._schema: Any = None

    def add(self, table: Any) -> None:
        if not table.num_rows:
            return
        table = plain(table)
        kind, batches = arrow_c.read(table)
        if self._writer is None or self._columns is None or not table.schema.equals(self._schema):
            self._columns = Columns(kind, fields_of(table.schema, self._given), self._fill)
            self._schema = table.schema
        if self._writer is None:
            if not self._path.parent.is_dir():
                raise FileError(
                    f"{self._path.parent} is not there on {socket.gethostname()}: path is in a folder that nodes share"
                )
            self._writer = Writer(self._path, self._columns.fields, num_threads=1)
        if self._writer.schema != self._columns.fields:
            raise InvalidError(
                f"a block has other columns than those before: {self._columns.fields}, not {self._writer.schema}"
            )
        first = len(self._writer)
        for batch in batches:
            found = {n: _values(f, self._columns.of(batch, n, first)) for n, f in self._columns.fields.items()}
            self._writer.write_batch(found)
            first += batch.length

    def close(self) -> bool:
        """Whether there is a file."""
        if self._writer is None:
            return False
        self._writer.close()
        return True

    def drop(self) -> None:
        if self._writer is not None:
            self._writer.abort()
        for left in (self._path, self._path.with_name(self._path.name + ".partial")):
            left.unlink(missing_ok=True)


def _values(field: Field, values: Any) -> Any:
    """The values of a column as a Writer takes them."""
    if isinstance(values, np.ndarray):
        return values
    if isinstance(values, Sparse):
        return values.unbind()
    if not isinstance(values, Ragged):
        return [values[i] for i in range(len(values))]
    if field.kind not in ("str", "json"):
        return values.unbind()
    texts = [bytes(row).decode() for row in values.unbind()]
    return texts if field.kind == "str" else [json.loads(text) for text in texts]
