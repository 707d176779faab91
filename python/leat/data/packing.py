"""Rows of a fixed number of tokens, cut from documents of any length."""

from __future__ import annotations

import hashlib
from functools import cached_property
from typing import Any

import numpy as np

from .. import _leat, check
from .dataset import Dataset, no_dataset
from .schema import Field, field

HOW = ("cut",)
DERIVED = {"doc_ids": "int64", "positions": "int64", "loss_mask": "bool"}
INTEGERS = ("uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64")


class PackedRows(Dataset):
    """Rows of tokens that are cut from the documents of a data set; made by :func:`leat.pack_rows`.

    As a data set it has the rows of the documents in their order: ``rows[7]`` is the 8th. A Loader with
    ``shuffle=True`` permutes the documents of each epoch first and then the rows, so each epoch has as many rows, but
    different ones. Ids are numbers of rows. To take part of the documents, or to join them with others, do so before
    packing.
    """

    def __init__(self, documents: Dataset, name: str, length: int, bos: int | None, eos: int | None, fill: int) -> None:
        super().__init__(documents._handle, (documents, name, length, bos, eos, fill))
        self.documents, self.length = documents, length
        self._name, self._bos, self._eos, self._fill = name, bos, eos, fill
        tokens = documents.schema[name]
        self._fields = [
            (name, field(tokens.dtype, (length,))),
            *((n, field(dtype, (length,))) for n, dtype in DERIVED.items()),
        ]
        self._count = -(-int(self._ends[-1]) // length) if len(self._ends) else 0

    @cached_property
    def _ends(self) -> np.ndarray[Any, np.dtype[np.int64]]:
        """The number of tokens up to the end of each document, bos and eos included."""
        tokens = self.documents.schema[self._name]
        around = (self._bos is not None) + (self._eos is not None)
        if tokens.shape[0] is not None:
            return np.arange(1, len(self.documents) + 1, dtype=np.int64) * (tokens.shape[0] + around)
        item = np.dtype(tokens.dtype).itemsize
        lengths = np.asarray(self._handle.column(self.documents._find(self._name)[0], False, True))
        return np.cumsum(lengths.astype(np.int64) // item + around)

    def __repr__(self) -> str:
        documents = len(self.documents)
        return f"<leat.PackedRows of {self._count} rows of {self.length} ({self._name}, of {documents} documents)>"

    @property
    def pack(self) -> tuple[str, int, int | None, int | None, int]:
        """Options of the engine: name, length, bos, eos, fill."""
        return self._name, self.length, self._bos, self._eos, self._fill

    @cached_property
    def fingerprint(self) -> str:
        """128 bits over the documents' fingerprint and how they are packed, in hex."""
        return hashlib.blake2b(
            repr((self.documents.fingerprint, "cut", *self.pack)).encode(), digest_size=16
        ).hexdigest()

    @property
    def ids(self) -> np.ndarray[Any, np.dtype[np.int64]]:
        """Numbers of the rows."""
        return np.arange(self._count)

    def _document(self, position: int) -> np.ndarray[Any, Any]:
        tokens = np.asarray(self.documents.stored(position, self._name))
        before = [] if self._bos is None else [self._bos]
        after = [] if self._eos is None else [self._eos]
        return np.concatenate([np.array(before, tokens.dtype), tokens, np.array(after, tokens.dtype)])

    def _sample(self, position: int) -> dict[str, Any]:
        dtype = self._fields[0][1].dtype
        sample = {self._name: np.full(self.length, self._fill, dtype), "doc_ids": np.full(self.length, -1, np.int64),
                  "positions": np.zeros(self.length, np.int64), "loss_mask": np.zeros(self.length, bool)}  # fmt: skip
        at = position * self.length
        i, filled, ends = int(np.searchsorted(self._ends, at, "right")), 0, self._ends
        while filled < self.length and i < len(ends):
            begin = int(ends[i - 1]) if i else 0
            part = (
                self._document(i)[at + filled - begin :][: self.length - filled]
                if ends[i] > begin
                else np.empty(0, dtype)
            )
            place = slice(filled, filled + len(part))
            sample[self._name][place] = part
            sample["doc_ids"][place] = np.frombuffer(self._handle.ids(i, 1), np.int64)[0] if len(part) else -1
            sample["positions"][place] = np.arange(len(part))
            sample["loss_mask"][place] = True
            filled += len(part)
            i += 1
        return sample

    def stored(self, position: int, name: str) -> Any:
        self._find(name)
        return self._sample(position)[name]

    def column(self, name: str, copy: bool = False) -> np.ndarray[Any, Any]:
        """All rows of a field: shape ``(len, length)``, computed at each call."""
        _, f = self._find(name)
        rows = [self._sample(i)[name] for i in range(self._count)]
        return np.stack(rows) if rows else np.empty((0, self.length), f.dtype)

    def __getitem__(self, key: Any) -> Any:
        if hasattr(key, "__index__") and getattr(key, "ndim", 0) == 0 and not isinstance(key, (bool, np.bool_)):
            return super().__getitem__(key)
        raise self._refused()

    def select(self, positions: Any) -> Dataset:
        raise self._refused()

    def split(self, fractions: Any, seed: int = 0) -> list[Dataset]:
        raise self._refused()

    def _part(self) -> _leat.Dataset:
        raise self._refused()

    @staticmethod
    def _refused() -> TypeError:
        return TypeError(
            "packed rows have no views and join no others: select or split the documents, or join them with "
            "leat.concat or leat.zip, then pack these"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return (PackedRows, self._recipe)


def pack_rows(
    ds: Dataset,
    field: str = "tokens",
    length: int = 2048,
    how: str = "cut",
    *,
    bos: int | None = None,
    eos: int | None = None,
    fill: int = 0,
) -> PackedRows:
    """Rows of `length` tokens that are cut from documents joined one after the other: nothing is copied or stored.

    Each document is a sample of `ds`; the documents of an epoch are joined in its order and cut every `length` tokens.
    A row has the fields

    - `field`, shape ``(length,)``, of the dtype that is stored;
    - ``doc_ids``, int64: the sample id of the document that each token is of, -1 on padding;
    - ``positions``, int64: 0, 1, ... from each document's first token in the row on;
    - ``loss_mask``, bool: False on padding.

    The tokens after the last cut are a row that is padded with `fill`; a Loader with ``drop_last=True`` drops it.
    With ``shuffle=True`` a Loader permutes the documents of each epoch, and then the rows.

    Args:
        ds: documents; `field` is of integers, with one dimension, which may vary (``leat.field("uint16", (None,))``).
        how: ``"cut"``: joined and cut, as for pre-training ("concatenate and chunk").
        bos, eos: a token that is put before or after each document; it counts as the document's.
        fill: the token on padding.

    Raises:
        KeyError: `ds` has no such field.
        TypeError: it is no field of tokens.
        ValueError: `how` is not known, or a token does not fit the dtype.
    """
    if not isinstance(ds, Dataset) or isinstance(ds, PackedRows):
        raise no_dataset("pack_rows takes a data set of documents", ds)
    if how not in HOW:
        raise ValueError(f"how is {' or '.join(map(repr, HOW))}, not {how!r}")
    tokens: Field = ds._find(field)[1]
    if tokens.kind != "array" or len(tokens.shape) != 1 or tokens.dtype not in INTEGERS:
        raise TypeError(f"field {field!r} is {tokens}, not a list of tokens, such as leat.field('uint16', (None,))")
    if field in DERIVED:
        raise ValueError(f"a field of tokens cannot be called {field!r}: that is the name of what packing adds")
    limits = np.iinfo(tokens.dtype)
    for name, token in (("bos", bos), ("eos", eos), ("fill", fill)):
        if token is not None:
            check.integer(name, token, int(limits.min), int(limits.max) + 1)
    return PackedRows(ds, field, check.integer("length", length, 1), bos, eos, fill)
