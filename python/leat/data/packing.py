"""Rows of a fixed number of tokens, made of documents of any length."""

from __future__ import annotations

import hashlib
import json
from functools import cached_property
from typing import Any

import numpy as np

from .. import _leat, check
from ..errors import InvalidError
from .dataset import Dataset, no_dataset
from .schema import Field, field, to_raw

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
        program: str | None = None,
    ) -> None:
        super().__init__(documents._part(), (documents, name, length, how, bos, eos, fill, seed, multiple, program))
        self.documents, self.length, self.how, self.multiple = documents, length, how, multiple
        self._name, self._bos, self._eos, self._fill, self._seed = name, bos, eos, fill, seed
        self._chain = None if program is None else Chained(documents.schema[name], name, program)
        dtypes = self._chain.dtypes if self._chain else {name: documents.schema[name].dtype}
        made = {name: dtypes[name], **DERIVED, **dtypes}
        self._fields = [(n, field(made[n], (length,))) for n in made if n != f"{name}.loss_mask"]
        if how == "cut":
            self._count = -(-int(self._ends[-1]) // length) if len(self._ends) else 0
        else:
            self._count = int(self._chunks[-1]) + len(self._bins[0]) - 1

    @cached_property
    def _lengths(self) -> np.ndarray[Any, np.dtype[np.int64]]:
        """The number of tokens of each document, bos and eos included; a document without a token has none."""
        tokens = self.documents.schema[self._name]
        around = (self._bos is not None) + (self._eos is not None)
        if tokens.shape[0] is not None and self._chain is None:
            return np.full(len(self.documents), tokens.shape[0] + around, np.int64)
        tokens_of = self.documents._lengths_of(self._name)
        if self._chain:
            return np.where(tokens_of > 0, self._chain.lengths(tokens_of), 0)
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
    def pack(self) -> tuple[str, int, int | None, int | None, int, int, int, int, str | None]:
        """Options of the engine: name, length, bos, eos, fill, how, seed, multiple, chain."""
        chain = self._chain.program if self._chain else None
        how = HOW[self.how]
        return self._name, self.length, self._bos, self._eos, self._fill, how, self._seed, self.multiple, chain

    @property
    def made_beside(self) -> list[str]:
        """Fields that a chain makes beside the tokens, and a batch has with these."""
        return [n for n, _ in self._fields if n == f"{self._name}.labels"]

    def of_tokens(self, length: Any) -> PackedRows:
        """The same documents in rows of at most so many tokens."""
        name, _, bos, eos, fill, _, seed, multiple, program = self.pack
        if check.integer("batch_tokens", length, 1) < multiple:
            raise ValueError(f"documents padded to multiples of {multiple} tokens do not fill rows of {length}")
        return packed(self.documents, name, length, self.how, bos, eos, fill, seed, multiple, program)

    @cached_property
    def fingerprint(self) -> str:
        """128 bits over the documents' fingerprint and how they are packed, in hex."""
        more = (self._seed,) if self.how in FITTED else ()
        more = (*more, self.multiple) if self.multiple > 1 else more
        more = (*more, self._chain.program) if self._chain else more
        return hashlib.blake2b(
            repr((self.documents.fingerprint, self.how, *self.pack[:5], *more)).encode(), digest_size=16
        ).hexdigest()

    @property
    def ids(self) -> np.ndarray[Any, np.dtype[np.int64]]:
        """Numbers of the rows."""
        return np.arange(self._count)

    def _document(self, position: int) -> dict[str, np.ndarray[Any, Any]]:
        """The tokens, and what a chain makes beside them."""
        tokens = np.asarray(self.documents.stored(position, self._name))
        if self._chain:
            key = _leat.row_key(_leat.row_key(self._seed, 1 << 62, 0), position, 0)
            return self._chain.apply(tokens, key, int(self.documents.ids[position]))
        before = [] if self._bos is None else [self._bos]
        after = [] if self._eos is None else [self._eos]
        return {self._name: np.concatenate([np.array(before, tokens.dtype), tokens, np.array(after, tokens.dtype)])}

    def _mask(self, position: int) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """The loss mask that a document has itself: its bos counts for nothing, its eos is to be predicted."""
        mask = np.asarray(self.documents.stored(position, "loss_mask")) != 0
        ends = (self._bos is not None, self._eos is not None)
        if len(mask) + sum(ends) != self._lengths[position]:
            tokens = self._lengths[position] - sum(ends)
            raise InvalidError(f"document {position} has {tokens} tokens and a loss_mask of {len(mask)}: one for each")
        return np.concatenate([[False] * ends[0], mask, [True] * ends[1]]).astype(bool)

    def _sample(self, position: int) -> dict[str, Any]:
        dtype = self._fields[0][1].dtype
        sample = {self._name: np.full(self.length, self._fill, dtype), "doc_ids": np.full(self.length, -1, np.int64),
                  "positions": np.zeros(self.length, np.int64), "loss_mask": np.zeros(self.length, bool),
                  **{name: np.full(self.length, -100, np.int64) for name in self.made_beside}}  # fmt: skip
        filled, mask = 0, self.documents.schema.get("loss_mask")
        for i, begin, count in self._pieces(position):
            place = slice(filled, filled + count)
            made = self._document(i)
            for name in (self._name, *self.made_beside):
                sample[name][place] = made[name][begin : begin + count]
            sample["doc_ids"][place] = np.frombuffer(self._handle.ids(i, 1), np.int64)[0]
            sample["positions"][place] = np.arange(count)
            if f"{self._name}.loss_mask" in made:
                sample["loss_mask"][place] = made[f"{self._name}.loss_mask"][begin : begin + count]
            else:
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


class Chained:
    """A chain of operators over whole documents, before these are packed."""

    def __init__(self, tokens: Field, name: str, program: str) -> None:
        self.program, self._name = program, name
        self._item = np.dtype(tokens.dtype).itemsize
        found = json.loads(self.program)
        seen: dict[str, int] = {}
        for key in found["outputs"][name]["chain"]:  # those beside the tokens draw as these do
            op = found["operators"][key]
            ordinal = seen[op["type"]] = seen.get(op["type"], -1) + 1
            op.setdefault("name", f"{name}/{op['type']}/{ordinal}")
        raw = to_raw({name: field(tokens.dtype, (None,))})[0]
        self._chains = {
            output: _leat.Chain(raw, json.dumps({**found, "outputs": {output: entry}}), [])
            for output, entry in found["outputs"].items()
        }
        self.dtypes = {output: chain.describe()[1] for output, chain in self._chains.items()}
        for output, dtype in self.dtypes.items():
            signed = INTEGERS[1::2]  # -100 is a label
            fits = {f"{name}.labels": signed, f"{name}.loss_mask": ("bool",)}.get(output, INTEGERS)
            if dtype not in fits:
                raise TypeError(f"the chain of packed rows makes tokens and labels, and {output!r} is {dtype}")
        for output, chain in self._chains.items():
            if chain.describe()[3] != (-1,):
                raise TypeError(
                    f"the chain of packed rows makes lists whose lengths follow from those of the documents, and "
                    f"{output!r} has shape {chain.describe()[3]}"
                )

    def lengths(self, lengths: np.ndarray[Any, np.dtype[np.int64]]) -> np.ndarray[Any, np.dtype[np.int64]]:
        """The number of tokens that documents of so many elements become."""
        sizes = (lengths * self._item).astype(np.uint64)
        self._chains[self._name].lengths(sizes)
        return sizes.astype(np.int64) // np.dtype(self.dtypes[self._name]).itemsize

    def apply(self, tokens: np.ndarray[Any, Any], key: int, sample: int) -> dict[str, np.ndarray[Any, Any]]:
        return {
            output: np.asarray(chain.apply(np.ascontiguousarray(tokens), key, sample))
            for output, chain in self._chains.items()
        }


def pack_of(dataset: Dataset) -> tuple[Any, ...] | None:
    """How the library packs the rows of a data set; None: they are its samples."""
    return dataset.pack if isinstance(dataset, PackedRows) else None


def packed(
    ds: Dataset,
    field: str,
    length: int,
    how: str,
    bos: int | None,
    eos: int | None,
    fill: int,
    seed: int,
    multiple: int,
    program: str | None,
) -> PackedRows:
    """:func:`leat.pack_rows`, with the program of its chain."""
    if not isinstance(ds, Dataset) or isinstance(ds, PackedRows):
        raise no_dataset("pack_rows takes a data set of documents", ds)
    check.choice("how", how, HOW)
    tokens: Field = ds._find(field)[1]
    if tokens.kind != "array" or len(tokens.shape) != 1 or tokens.dtype not in INTEGERS:
        raise TypeError(f"field {field!r} is {tokens}, not a list of tokens, such as leat.field('uint16', (None,))")
    if field in DERIVED:
        raise ValueError(f"a field of tokens cannot be called {field!r}: that is the name of what packing adds")
    limits = np.iinfo(tokens.dtype if program is None else Chained(tokens, field, program).dtypes[field])
    for name, token in (("bos", bos), ("eos", eos), ("fill", fill)):
        if token is not None or name == "fill":
            check.integer(name, token, int(limits.min), int(limits.max) + 1)
    if program is not None and (bos is not None or eos is not None):
        raise ValueError("bos and eos do not go with a chain: its operators put their own (leat.ops.Lookup)")
    if program is not None and "loss_mask" in ds.schema:
        raise ValueError("documents with a loss_mask of their own are packed as they are, without a chain")
    mask = ds.schema.get("loss_mask")
    if mask is not None and (mask.kind != "array" or len(mask.shape) != 1 or mask.dtype not in ("bool", "uint8")):
        raise TypeError(
            f"the documents' field 'loss_mask' is {mask}, no list of bool or uint8, one for each token: write it as "
            "one, or leave it out (leat.open(fields=))"
        )
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
    return PackedRows(ds, field, length, how, bos, eos, fill, check.seed(seed), multiple, program)
