"""Rows of a fixed number of tokens, made of documents of any length."""

from __future__ import annotations

import hashlib
from functools import cached_property
from typing import Any

import numpy as np

from .. import _leat, check
from .dataset import Dataset, no_dataset
from .schema import Field, field

HOW = {"cut": 0, "best_fit": 1, "pad": 2, "ragged": 1}  # enum leat_pack_how
FITTED = ("best_fit", "ragged")
DERIVED = {"doc_ids": "int64", "positions": "int64", "loss_mask": "bool"}
INTEGERS = ("uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64")


class PackedRows(Dataset):
    """Rows of tokens that are cut from the documents of a data set; made by :func:`leat.pack_rows`.

    As a data set it has the rows of the documents in their order: ``rows[7]`` is the 8th. A Loader with
    ``shuffle=True`` permutes the documents of each epoch first and then the rows, so each epoch has as many rows, but
    different ones. Ids are numbers of rows. Take part of the documents, or join them with others, before packing.
    """

    def __init__(
        self,
        documents: Dataset,
        name: str,
        length: int,
        how: str,
        bos: int | None,
        eos: int | None,
        fill: int,
        seed: int,
        multiple: int = 1,
    ) -> None:
        super().__init__(documents._part(), (documents, name, length, how, bos, eos, fill, seed, multiple))
        self.documents, self.length, self.how, self.multiple = documents, length, how, multiple
        self._name, self._bos, self._eos, self._fill, self._seed = name, bos, eos, fill, seed
        tokens = documents.schema[name]
        self._fields = [
            (name, field(tokens.dtype, (length,))),
            *((n, field(dtype, (length,))) for n, dtype in DERIVED.items()),
        ]
        if how == "cut":
            self._count = -(-int(self._ends[-1]) // length) if len(self._ends) else 0
        else:
            self._count = int(self._chunks[-1]) + len(self._bins[0]) - 1

    @cached_property
    def _lengths(self) -> np.ndarray[Any, np.dtype[np.int64]]:
        """The number of tokens of each document, bos and eos included; a document without a token has none."""
        tokens = self.documents.schema[self._name]
        around = (self._bos is not None) + (self._eos is not None)
        if tokens.shape[0] is not None:
            return np.full(len(self.documents), tokens.shape[0] + around, np.int64)
        item = np.dtype(tokens.dtype).itemsize
        lengths = np.asarray(self._handle.column(self.documents._find(self._name)[0], False, True))
        tokens_of = lengths.astype(np.int64) // item
        return np.where(tokens_of > 0, tokens_of + around, 0)

    @cached_property
    def _rooms(self) -> np.ndarray[Any, np.dtype[np.int64]]:
        """The room of each document in rows, its padding included."""
        return -(-self._lengths // self.multiple) * self.multiple

    @cached_property
    def _ends(self) -> np.ndarray[Any, np.dtype[np.int64]]:
        """With "cut", the number of tokens up to the end of each document."""
        return np.cumsum(self._lengths)

    @cached_property
    def _chunks(self) -> np.ndarray[Any, np.dtype[np.int64]]:
        """Without "cut", how many rows the documents before each one have for themselves; at the end, all."""
        whole = self._rooms // self.length
        if self.how == "pad":
            whole += self._lengths % self.length > 0
        return np.concatenate([[0], np.cumsum(whole)])

    @cached_property
    def _bins(self) -> tuple[np.ndarray[Any, np.dtype[np.uint32]], np.ndarray[Any, np.dtype[np.uint32]]]:
        """The rows that documents share: where each begins in a list of documents, and that list."""
        if self.how == "pad":
            return np.zeros(1, np.uint32), np.empty(0, np.uint32)
        if len(self._rooms) and int(self._rooms.max()) >= 1 << 32:
            raise ValueError(
                f"document {int(self._rooms.argmax())} has {int(self._rooms.max())} elements: at most 2^32 - 1 "
                "can be packed; split it"
            )
        begin, documents = np.empty(len(self._lengths) + 2, np.uint32), np.empty(len(self._lengths), np.uint32)
        n = _leat.best_fit(self._rooms.astype(np.uint32), self.length, self._seed, begin, documents)
        return begin[: n + 1].copy(), documents[: int(begin[n])].copy()

    def __repr__(self) -> str:
        documents = len(self.documents)
        return f"<leat.PackedRows of {self._count} rows of {self.length} ({self._name}, of {documents} documents)>"

    @property
    def pack(self) -> tuple[str, int, int | None, int | None, int, int, int, int]:
        """Options of the engine: name, length, bos, eos, fill, how, seed, multiple."""
        return self._name, self.length, self._bos, self._eos, self._fill, HOW[self.how], self._seed, self.multiple

    def of_tokens(self, length: Any) -> PackedRows:
        """The same documents in rows of at most so many tokens."""
        name, _, bos, eos, fill, _, seed, multiple = self.pack
        if check.integer("batch_tokens", length, 1) < multiple:
            raise ValueError(f"documents padded to multiples of {multiple} tokens do not fill rows of {length}")
        return pack_rows(
            self.documents, name, length, self.how, bos=bos, eos=eos, fill=fill, seed=seed, multiple=multiple
        )

    @cached_property
    def fingerprint(self) -> str:
        """128 bits over the documents' fingerprint and how they are packed, in hex."""
        more = (self._seed,) if self.how in FITTED else ()
        more = (*more, self.multiple) if self.multiple > 1 else more
        return hashlib.blake2b(
            repr((self.documents.fingerprint, self.how, *self.pack[:5], *more)).encode(), digest_size=16
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

    def _mask(self, position: int) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """The loss mask that a document has itself: its bos counts for nothing, its eos is to be predicted."""
        mask = np.asarray(self.documents.stored(position, "loss_mask")) != 0
        return np.concatenate([[False] * (self._bos is not None), mask, [True] * (self._eos is not None)]).astype(bool)

    def _sample(self, position: int) -> dict[str, Any]:
        dtype = self._fields[0][1].dtype
        sample = {self._name: np.full(self.length, self._fill, dtype), "doc_ids": np.full(self.length, -1, np.int64),
                  "positions": np.zeros(self.length, np.int64), "loss_mask": np.zeros(self.length, bool)}  # fmt: skip
        filled, mask = 0, self.documents.schema.get("loss_mask")
        for i, begin, count in self._pieces(position):
            place = slice(filled, filled + count)
            sample[self._name][place] = self._document(i)[begin : begin + count]
            sample["doc_ids"][place] = np.frombuffer(self._handle.ids(i, 1), np.int64)[0]
            sample["positions"][place] = np.arange(count)
            sample["loss_mask"][place] = True if mask is None else self._mask(i)[begin : begin + count]
            filled += -(-count // self.multiple) * self.multiple
        return sample

    def _pieces(self, position: int) -> list[tuple[int, int, int]]:
        """The parts of a row: (document, first token, how many)."""
        length, lengths = self.length, self._lengths
        if self.how == "cut":
            at, end = position * length, (position + 1) * length
            pieces = []
            for i in range(int(np.searchsorted(self._ends, at, "right")), len(lengths)):
                begin = int(self._ends[i] - lengths[i])
                if begin >= end:
                    break
                first, last = max(begin, at), min(int(self._ends[i]), end)
                if last > first:
                    pieces.append((i, first - begin, last - first))
            return pieces
        if position < self._chunks[-1]:
            i = int(np.searchsorted(self._chunks, position, "right")) - 1
            begin = (position - int(self._chunks[i])) * length
            return [(i, begin, min(length, int(lengths[i]) - begin))]
        begins, documents = self._bins
        row = position - int(self._chunks[-1])
        cuts = [(int(i), int(self._rooms[i]) // length * length) for i in documents[begins[row] : begins[row + 1]]]
        return [(i, begin, int(lengths[i]) - begin) for i, begin in cuts]

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


def pack_of(dataset: Dataset) -> tuple[Any, ...] | None:
    """How the library packs the rows of a data set; None: they are its samples."""
    return dataset.pack if isinstance(dataset, PackedRows) else None


def pack_rows(
    ds: Dataset,
    field: str = "tokens",
    length: int = 2048,
    how: str = "cut",
    *,
    bos: int | None = None,
    eos: int | None = None,
    fill: int = 0,
    seed: int = 0,
    multiple: int = 1,
) -> PackedRows:
    """Rows of `length` tokens that are made of documents: nothing is copied or stored.

    Each document is a sample of `ds`. A row has the fields

    - `field`, shape ``(length,)``, of the dtype that is stored;
    - ``doc_ids``, int64: the sample id of the document that each token is of, -1 on padding;
    - ``positions``, int64: 0, 1, ... from each document's first token in the row on;
    - ``loss_mask``, bool: False on padding, and for tokens whose own ``loss_mask`` (bool or uint8, one for each) is 0.
      Then `bos` is False, and `eos` is True.

    Ways to make rows:

    - ``"cut"``: the documents of an epoch are joined in its order and cut every `length` tokens, as for pre-training
      ("concatenate and chunk"). The tokens after the last cut are a row that is padded with `fill`; a Loader with
      ``drop_last=True`` drops it. With ``shuffle=True`` a Loader permutes the documents of each epoch, and then the
      rows, so that each epoch has other rows.
    - ``"best_fit"``: no document is cut that fits into a row. They are packed best-fit decreasing (Ding et al., "Fewer
      Truncations Improve Language Modeling", ICML 2024), in never more rows than first-fit decreasing needs. Rows are
      the same in each epoch; ``shuffle=True`` permutes them. For documents of one length, `seed` decides which comes
      first, so that neighbours in `ds` come into different rows.
    - ``"pad"``: one document a row, then `fill`.
    - ``"ragged"``: for attention over sequences of varying length (THD). A Loader takes ``batch_tokens=N`` in the place
      of a batch size: a batch of a rank has documents of at most N tokens together, one behind the other, without
      padding, put together as by ``"best_fit"`` (docs/packing.md). As a data set it has the rows of ``"best_fit"``.

    But for ``"cut"``, a document longer than a row is cut into pieces of `length` and the rest: the pieces are rows,
    and the rest is treated as a document. Documents without a token are in no row.

    Args:
        ds: documents; `field` is of integers, with one dimension, which may vary (``leat.field("uint16", (None,))``).
        length: tokens of a row; at most 2^24 with ``"best_fit"``.
        bos, eos: a token that is put before or after each document; it counts as the document's.
        fill: the token on padding.
        multiple: with ``"best_fit"`` and ``"ragged"``, each document (or piece of one) is padded to a multiple of so
            many tokens, which count as the row's: as Transformer Engine wants for FP8, and context parallelism.
            ``batch["cu_seqlens_padded"]`` then has the starts of sequences.

    Raises:
        KeyError: `ds` has no such field.
        TypeError: it is no field of tokens.
        ValueError: `how` is not known, a token does not fit the dtype, or `length` is no multiple of `multiple` (of
            ``"ragged"`` rows it is rounded down to one).

    >>> import leat, numpy as np, tempfile, os
    >>> path = os.path.join(tempfile.mkdtemp(), "documents.leat")
    >>> with leat.Writer(path, {"tokens": leat.field("uint16", (None,))}) as w:
    ...     for n in (5, 2, 4, 3):
    ...         _ = w.add(tokens=np.full(n, n, np.uint16))
    >>> rows = leat.pack_rows(leat.open(path), length=7, how="best_fit")
    >>> [rows[i]["tokens"].tolist() for i in range(len(rows))]
    [[5, 5, 5, 5, 5, 2, 2], [4, 4, 4, 4, 3, 3, 3]]
    """
    if not isinstance(ds, Dataset) or isinstance(ds, PackedRows):
        raise no_dataset("pack_rows takes a data set of documents", ds)
    check.choice("how", how, HOW)
    tokens: Field = ds._find(field)[1]
    if tokens.kind != "array" or len(tokens.shape) != 1 or tokens.dtype not in INTEGERS:
        raise TypeError(f"field {field!r} is {tokens}, not a list of tokens, such as leat.field('uint16', (None,))")
    if field in DERIVED:
        raise ValueError(f"a field of tokens cannot be called {field!r}: that is the name of what packing adds")
    limits = np.iinfo(tokens.dtype)
    for name, token in (("bos", bos), ("eos", eos), ("fill", fill)):
        if token is not None:
            check.integer(name, token, int(limits.min), int(limits.max) + 1)
    length = check.integer("length", length, 1, (1 << 24) + 1 if how in FITTED else 1 << 31)
    multiple = check.integer("multiple", multiple, 1, 1 << 24)
    if multiple > 1:
        if how not in FITTED:
            raise ValueError(f"multiple goes with how='ragged' and 'best_fit', not with {how!r}, where rows end alike")
        if how == "ragged":  # batch_tokens says the length later
            length = max(length, multiple)
        elif length % multiple:
            raise ValueError(f"documents padded to multiples of {multiple} tokens do not fill rows of {length}")
        length -= length % multiple
    return PackedRows(ds, field, length, how, bos, eos, fill, check.seed(seed), multiple)
