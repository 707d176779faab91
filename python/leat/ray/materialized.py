"""Materialised data sets of Ray Data as data sets of leat: blocks in Ray's stores, by position."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import ray

from ..data.arrow import Chunk, of_chunks
from ..data.dataset import Dataset
from ..errors import InvalidError
from .blocks import fields_of, plain


def from_dataset(
    ds: ray.data.Dataset,
    *,
    fields: Sequence[str] | Mapping[str, Any] | None = None,
    fill: Mapping[str, Any] | None = None,
) -> Dataset:
    """A data set of the rows of a :class:`ray.data.Dataset`: it is materialised, and stays in Ray's stores.

    Any row can be read at any time, so a loader shuffles all rows, resumes anywhere and computes batches again. Ids are
    positions: they follow the blocks. The fingerprint is a hash over the hashes of the blocks, so a saved state goes on
    only where materialising has given the same blocks in the same order: with deterministic functions and
    ``DataContext.get_current().execution_options.preserve_order = True``. Otherwise write the rows once
    (:func:`leat.ray.write`).

    Args:
        ds: the data set. It is executed, unless it is materialised already.
        fields, fill: as of :func:`leat.from_arrow`: ``fields={"image": "image", "label": None}`` takes bytes as photos.

    The data set lives as long as the process that made it: nobody else makes its rows by a plan (`plan_rows`,
    :class:`leat.ray.Loader`). What Ray has lost with a node, it computes again, if it can.

    Raises:
        ValueError: there are no rows; blocks have different columns; missing values, or types that leat lacks.

    >>> data = leat.ray.from_dataset(ray.data.range(1000))  # doctest: +SKIP
    >>> loader = leat.Loader(data, batch_size=32, shuffle=True)  # doctest: +SKIP
    """
    done = ds.materialize()
    refs = done.to_arrow_refs()
    look = ray.remote(_look)
    seen = [one for one in zip(refs, ray.get([look.remote(ref) for ref in refs]), strict=True) if one[1][1]]
    if not seen:
        raise InvalidError("there are no rows in this data set of Ray")
    schema = seen[0][1][2]
    chunks = []
    for i, (ref, (digest, rows, own)) in enumerate(seen):
        if not own.equals(schema):
            raise InvalidError(f"block {i} has other columns than the first one: {own} and {schema}")
        chunks.append(Chunk(rows, "Ray Data", f"block {i}", _Read(ref), digest))
    return of_chunks(chunks, schema, fields_of(schema, fields), fill, None)


class _Read:
    """Reads a block, where it lies in a store."""

    def __init__(self, ref: Any) -> None:
        self.ref = ref

    def __call__(self, columns: list[str]) -> Any:
        return plain(ray.get(self.ref).select(columns))


class _Hash:
    """A file that is hashed."""

    closed = False

    def __init__(self) -> None:
        self.found = hashlib.sha256()

    def write(self, data: Any) -> int:
        self.found.update(data)
        return len(data)

    def flush(self) -> None:
        pass

    def close(self) -> None:
        self.closed = True

    def readable(self) -> bool:
        return False

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return False


def _look(block: Any) -> tuple[str, int, Any]:
    """The hash, the number of rows and the columns of a block. The hash is of values and types, not of how they lie in
    memory."""
    table = plain(block).combine_chunks()
    sink = _Hash()
    with pa.PythonFile(sink, "w") as file, pa.ipc.new_stream(file, table.schema) as stream:
        stream.write_table(table)
    return sink.found.hexdigest(), table.num_rows, table.schema
