"""Writes files for Megatron: tokens in PREFIX.bin, and the places of documents in PREFIX.idx."""

from __future__ import annotations

import contextlib
import os
import struct
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from .. import check
from ..data.column import batches
from ..files import writing

if TYPE_CHECKING:
    from ..data.dataset import Dataset

_CODES = {"uint8": 1, "int8": 2, "int16": 3, "int32": 4, "int64": 5, "float64": 6, "float32": 7, "uint16": 8}
# Types that the format has not, and the signed one of the same size.
_SIGNED = {"uint32": "int32", "uint64": "int64"}
_DOCUMENTS = 1024


def write_megatron(
    dataset: Dataset, prefix: str | os.PathLike[str], field: str = "tokens", *, overwrite: bool = False
) -> None:
    """Writes a field of tokens as Megatron's indexed data set: ``PREFIX.bin`` and ``PREFIX.idx``.

    Each sample becomes a document of one sequence. Both files are written beside their places and renamed at the end,
    the index last. ``leat.open(PREFIX + ".idx")`` reads the same documents. Types of tokens are those of the
    format: uint8, uint16 and the signed integers; uint32 and uint64 are written as int32 and int64, if all tokens fit.

    Args:
        dataset: of any format.
        prefix: the path of both files, without their endings.
        field: a field of shape ``(None,)``.
        overwrite: whether existing files are replaced.

    Raises:
        KeyError: there is no such field.
        TypeError: the field is no ragged array of one dimension.
        ValueError: a token does not fit, or a document has 2**31 tokens or more.
        FileExistsError: one of the files is there, and `overwrite` is False.

    >>> docs = leat.from_arrays(tokens=np.arange(6, dtype="uint16").reshape(2, 3))
    >>> leat.write_megatron(docs, tmp / "corpus")
    >>> leat.open(tmp / "corpus.idx")[1]["tokens"].tolist()
    [3, 4, 5]
    """
    check.flag("overwrite", overwrite)
    dataset._find(field)
    kind = dataset.schema[field]
    if kind.kind != "array" or len(kind.shape) != 1:
        raise TypeError(f"field {field!r} is {kind}: tokens are an array of one dimension")
    dtype = _SIGNED.get(kind.dtype, kind.dtype)
    if dtype not in _CODES:
        raise TypeError(f"field {field!r} is {kind}: Megatron has no type for it")
    places = [Path(f"{os.fspath(prefix)}{end}") for end in (".bin", ".idx")]
    for place in places:
        if place.exists() and not overwrite:
            raise FileExistsError(f"{place} exists: write_megatron(overwrite=True) replaces it")
    partial = [place.with_name(f"{place.name}.{os.getpid()}.partial") for place in places]
    lengths = np.zeros(len(dataset), np.int32)
    limit = int(np.iinfo(dtype).max) if kind.dtype in _SIGNED else None
    at = 0
    try:
        with writing(places[0]), open(partial[0], "wb") as out:
            for batch in batches(dataset, field, _DOCUMENTS):
                values = np.asarray(batch.memory(0))
                if kind.shape[0] is None:
                    counts = np.diff(np.asarray(batch.memory_offsets(0)))
                else:
                    counts, values = np.full(len(values), kind.shape[0]), values.reshape(-1)
                if counts.size and int(counts.max()) > 2**31 - 1:
                    raise ValueError(f"sample {at + int(counts.argmax())} has 2**31 tokens or more")
                if limit is not None and values.size and int(values.max()) > limit:
                    where = int(np.searchsorted(np.cumsum(counts), int(values.argmax()), "right"))
                    raise ValueError(
                        f"sample {at + where} has the token {int(values.max())}, which {dtype}, the largest type that "
                        "Megatron has for it, cannot hold"
                    )
                out.write(np.ascontiguousarray(values, dtype).tobytes())
                lengths[at : at + len(counts)] = counts
                at += len(counts)
        starts = np.zeros(len(lengths), "<i8")
        np.cumsum(lengths[:-1].astype(np.int64) * np.dtype(dtype).itemsize, out=starts[1:])
        with writing(places[1]), open(partial[1], "wb") as out:
            out.write(b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, _CODES[dtype], len(lengths), len(lengths) + 1))
            for column in (lengths.astype("<i4"), starts, np.arange(len(lengths) + 1, dtype="<i8")):
                out.write(column.tobytes())
        for source, place in zip(partial, places, strict=True):
            os.replace(source, place)
    finally:
        for path in partial:
            with contextlib.suppress(FileNotFoundError):
                path.unlink()
