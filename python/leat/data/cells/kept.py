"""What one look at a file of cells has found, kept for the next opening: where its chunks lie, its cells, its genes.

    "leat-cells3" | length of JSON, 8 bytes | checksum, 32 bytes | JSON | arrays, each at a multiple of 64

The file tells the source by its size and its time. It lies beside the source, or in `index_dir`. Nobody needs it.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import secrets
from collections.abc import Sequence
from typing import Any

import numpy as np

from . import stored
from .anndata import Column, Part
from .stored import Array, Rows, Stored, Texts

_MAGIC = b"leat-cells3\0\0\0\0\0"
_HEAD = len(_MAGIC) + 8 + 32
#: cells from which on it is kept beside the file
WORTH = 10_000
_END = ".leat-index"


def place_of(path: str, name: str, index_dir: str | None) -> str:
    """Where something about a file is kept. `name`: what it is; "": its description."""
    end = f".{name.replace('/', '_')}.leat-rows" if name else _END
    if index_dir is None:
        return path.rstrip("/") + end
    whole = os.path.realpath(path)
    known = hashlib.blake2b(os.fsencode(whole), digest_size=8).hexdigest()
    return os.path.join(index_dir, f"{os.path.basename(whole)[:100]}-{known}{end}")


class _Arrays:
    """Arrays that a description refers to by their numbers."""

    def __init__(self) -> None:
        self.all: list[Array] = []

    def put(self, array: Any) -> int | None:
        if array is None:
            return None
        self.all.append(np.ascontiguousarray(array))
        return len(self.all) - 1

    def texts(self, texts: Any) -> list[int | None]:
        made = texts if isinstance(texts, Texts) else Texts.of(["" if t is None else t for t in texts])
        return [self.put(made.values), self.put(made.offsets)]


def _of_stored(s: Stored, arrays: _Arrays) -> dict[str, Any]:
    return {
        "name": s.name, "dtype": s.dtype.str, "shape": s.shape, "chunk": s.chunk, "chunks": arrays.put(s.chunks),
        "offset": s.offset, "filters": s.filters, "fill": s.fill.hex(), "own": len(s.files) == 1,
    }  # fmt: skip


def _of_column(c: Column, arrays: _Arrays) -> dict[str, Any]:
    values = arrays.texts(c.values) if isinstance(c.values, Texts) else arrays.put(c.values)
    categories = None if c.categories is None else arrays.texts(c.categories)
    return {"values": values, "codes": arrays.put(c.codes), "categories": categories, "valid": arrays.put(c.valid)}


def _of_var(var: dict[str, Array], arrays: _Arrays) -> dict[str, Any]:
    """Texts have a third array: which of them are there. Numbers with missing ones among them are left out."""
    found: dict[str, Any] = {}
    for name, values in var.items():
        if values.dtype.kind in "biuf":
            found[name] = arrays.put(values)
        elif all(t is None or isinstance(t, str) for t in values):
            found[name] = [*arrays.texts(values), arrays.put(np.array([t is not None for t in values], bool))]
    return found


def save(
    place: str,
    part: Part,
    format: str,  # noqa: A002
    facts: tuple[Array, Array],
    chosen: Sequence[str] | None,
) -> None:
    """Writes what is known of a file that is one file; a failure is a line in the log.

    Args:
        facts: its size and time before it was read: one that was changed since is not kept.
        chosen: the fields that were read; None: all.
    """
    arrays = _Arrays()
    sizes, times = stored.facts_of([part.path])
    if (sizes[0], times[0]) != (facts[0][0], facts[1][0]):
        return
    told = {
        "format": format,
        "chosen": None if chosen is None else sorted(chosen),
        "size": int(sizes[0]),
        "time": int(times[0]),
        "count": part.count,
        "fields": {
            n: {
                "values": _of_stored(r.values, arrays),
                "columns": None if r.columns is None else _of_stored(r.columns, arrays),
                "pointers": arrays.put(r.pointers), "n": r.n, "map": arrays.put(r.map), "n_made": r.n_made,
            }
            for n, r in part.fields.items()
        },
        "columns": {n: _of_column(c, arrays) for n, c in part.columns.items()},
        "genes": None if part.genes is None else arrays.texts(part.genes),
        "raw_genes": None if part.raw_genes is None else arrays.texts(part.raw_genes),
        "var": _of_var(part.var, arrays),
        "raw_var": _of_var(part.raw_var, arrays),
    }  # fmt: skip
    at, places = 0, []
    for array in arrays.all:
        places.append([array.dtype.str if array.dtype.names is None else "chunks", array.shape, at])
        at += -(-array.nbytes // 64) * 64
    text = json.dumps(told | {"arrays": places}).encode()
    text += b" " * (-(_HEAD + len(text)) % 64)
    body = b"".join(a.tobytes().ljust(-(-a.nbytes // 64) * 64, b"\0") for a in arrays.all)
    checksum = hashlib.blake2b(text + body, digest_size=32).digest()
    partial = f"{place}.{secrets.token_hex(4)}.partial"
    try:
        os.makedirs(os.path.dirname(place) or ".", exist_ok=True)
        with open(partial, "wb") as file:
            file.write(_MAGIC + len(text).to_bytes(8, "little") + checksum + text + body)
        os.replace(partial, place)
    except OSError as e:
        logging.getLogger("leat").warning("%s stays unwritten: %s; the next opening reads the file anew", place, e)


def load(
    place: str,
    path: str,
    format: str,  # noqa: A002
    chosen: Sequence[str] | None,
) -> Part | None:
    """What was kept of a file; None: there is none, or it is of another file, of other fields, or damaged."""
    try:
        with open(place, "rb") as file:
            head = file.read(_HEAD)
            n = int.from_bytes(head[16:24], "little")
            if head[:16] != _MAGIC or n > os.fstat(file.fileno()).st_size:
                return None
            rest = np.fromfile(file, np.uint8)  # not mapped: others may write to it
        if hashlib.blake2b(rest.data, digest_size=32).digest() != head[24:]:
            return None
        told = json.loads(rest[:n].tobytes())
        sizes, times = stored.facts_of([path])
        if (told["size"], told["time"], told["format"]) != (int(sizes[0]), int(times[0]), format):
            return None
        if told["chosen"] is not None and (chosen is None or not set(chosen) <= set(told["chosen"])):
            return None
        return _part(told, rest, n, path, sizes, times)
    except (OSError, ValueError, KeyError, IndexError, TypeError, AttributeError, OverflowError):
        return None


def _part(told: Any, rest: Array, n: int, path: str, sizes: Array, times: Array) -> Part:
    """Of a description whose checksum is right; what does not fit together is an error of some kind all the same."""

    def array(i: int | None) -> Any:
        if i is None:
            return None
        kind, shape, at = told["arrays"][i]
        dtype = stored.CHUNK if kind == "chunks" else np.dtype(kind)
        if at < 0 or min(shape, default=0) < 0 or dtype.hasobject:
            raise ValueError("no such array")
        size = int(np.prod(shape, dtype=object)) * dtype.itemsize
        return rest[n + at : n + at + size].view(dtype).reshape(shape)

    def texts(pair: Any) -> Texts:
        values, offsets = array(pair[0]), array(pair[1])
        if values.dtype != np.uint8 or offsets.dtype != np.int64 or len(offsets) < 1:
            raise ValueError("no texts")
        if offsets[0] != 0 or np.any(np.diff(offsets) < 0) or offsets[-1] > len(values):
            raise ValueError("no texts")
        return Texts(values, offsets)

    def names(pair: Any) -> Array | None:
        if pair is None:
            return None
        found = texts(pair).strings()
        if len(pair) > 2 and pair[2] is not None:
            found[~array(pair[2]).astype(bool)] = None
        return found

    def described(d: dict[str, Any]) -> Stored:
        filters = tuple((int(k), int(a)) for k, a in d["filters"])
        return Stored(
            d["name"],
            np.dtype(d["dtype"]),
            tuple(d["shape"]),
            (path,),
            tuple(d["chunk"]),
            array(d["chunks"]),
            d["offset"],
            filters,
            bytes.fromhex(d["fill"]),
            sizes,
            times,
        )

    def column(d: dict[str, Any]) -> Column:
        values = texts(d["values"]) if isinstance(d["values"], list) else array(d["values"])
        categories = None if d["categories"] is None else texts(d["categories"])
        return Column(values, array(d["codes"]), categories, array(d["valid"]))

    part = Part(path, told["count"])
    for name, d in told["fields"].items():
        columns = None if d["columns"] is None else described(d["columns"])
        rows = Rows(described(d["values"]), columns, array(d["pointers"]), d["n"], array(d["map"]), d["n_made"])
        part.fields[name] = rows
    part.columns = {name: column(d) for name, d in told["columns"].items()}
    part.genes, part.raw_genes = names(told["genes"]), names(told["raw_genes"])
    for to, key in ((part.var, "var"), (part.raw_var, "raw_var")):
        to |= {name: names(v) if isinstance(v, list) else array(v) for name, v in told[key].items()}
    return part


def can_be_kept(part: Part) -> bool:
    """Whether all that it has lies in the one file."""
    arrays = [a for r in part.fields.values() for a in (r.values, r.columns) if a is not None]
    return os.path.isfile(part.path) and all(a.files == (part.path,) for a in arrays)
