"""Matrix Market files of genes by cells, by cells: read once, in bounded memory, and kept beside the file."""

from __future__ import annotations

import gzip
import hashlib
import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from ... import _leat
from ...errors import CorruptError, FormatError, UnsupportedError
from . import stored
from .stored import Rows
from .transposed import Slab, Source, sorted_rows

BLOCK = 8 << 20  # bytes of text that are read at a time
_LINE = 1 << 16  # bytes that no line of the head has
_DAMAGE = (EOFError, OSError, zlib.error)


def _head(path: str, file: Any) -> tuple[int, int, int, bool, bool, int]:
    """Genes, cells, entries, whether they have no values, whether values are integers, and lines so far."""
    first = file.readline(_LINE).decode(errors="replace").split()
    if len(first) < 5 or first[0] != "%%MatrixMarket":
        raise FormatError(f"{path}, line 1: it does not begin with %%MatrixMarket")
    kind = [word.lower() for word in first[1:5]]
    if kind[:2] != ["matrix", "coordinate"] or kind[2] not in ("real", "integer", "pattern") or kind[3] != "general":
        raise UnsupportedError(f"{path} is a {' '.join(kind)} of Matrix Market; leat reads general coordinates")
    lines = 1
    while True:
        line = file.readline(_LINE)
        lines += 1
        if not line:
            raise CorruptError(f"{path} ends in line {lines}, before the line of its sizes")
        if not line.startswith(b"%") and line.strip():
            break
    try:
        genes, cells, entries = (int(word) for word in line.split())
        if min(genes, cells, entries) < 0:
            raise ValueError
    except ValueError:
        raise CorruptError(f"{path}, line {lines}: {line[:60]!r} is no line of sizes") from None
    return genes, cells, entries, kind[2] == "pattern", kind[2] == "integer", lines


def by_cells(path: str, cells: int, genes: int, index_dir: str | None) -> Rows:
    """Rows of cells; counts are int32, other values float32."""

    def opened() -> Any:
        return gzip.open(path, "rb") if path.endswith(".gz") else open(path, "rb")

    try:
        with opened() as file:
            n_genes, n_cells, entries, pattern, integers, lines = _head(path, file)
    except FileNotFoundError:
        raise
    except _DAMAGE as e:
        raise CorruptError(f"{path} is damaged: {e}") from e
    if (n_genes, n_cells) != (genes, cells):
        raise CorruptError(f"{path} is of {n_genes} genes and {n_cells} cells; beside it are {genes} and {cells}")
    dtype = np.dtype(np.int32 if integers or pattern else np.float32)

    def slabs() -> Iterator[Slab]:
        with opened() as file:
            try:
                _head(path, file)
                yield from _entries(path, file, n_genes, n_cells, entries, pattern, lines, dtype)
            except _DAMAGE as e:
                raise CorruptError(f"{path} is damaged: {e}") from e

    sizes, times = stored.facts_of([path])
    with open(path, "rb") as file:  # as it is stored: the beginning and the end tell most changes
        known = hashlib.blake2b(file.read(1 << 16), digest_size=32)
        file.seek(max(int(sizes[0]) - (1 << 16), 0))
        known.update(file.read(1 << 16))
    known.update(sizes.tobytes() + times.tobytes())
    return sorted_rows(Source(path, "X", known.digest(), entries, n_cells, n_genes, dtype), slabs, index_dir)


def _entries(
    path: str, file: Any, genes: int, cells: int, entries: int, pattern: bool, lines: int, dtype: np.dtype[Any]
) -> Iterator[Slab]:
    rest, done, line = b"", 0, lines + 1
    while True:
        block = file.read(BLOCK)
        text = rest + block
        cut = text.rfind(b"\n") + 1 if block else len(text)
        text, rest = text[:cut], text[cut:]
        if len(rest) > BLOCK:
            raise CorruptError(f"{path}, line {line + text.count(10)} has more than {BLOCK} bytes: it is no entry")
        most = text.count(b"\n") + 1
        of_gene, of_cell = np.empty(most, np.int32), np.empty(most, np.int32)
        values = np.empty(most, np.float64)
        n, line = _leat.matrix_entries(path, text, line, genes, cells, pattern, of_gene, of_cell, values)
        done += n
        if done > entries:
            raise CorruptError(f"{path} has more entries than the {entries} of its line of sizes, by line {line}")
        found = values[:n]
        if dtype.kind == "i" and not ((np.abs(found) < 2**31) & (found == np.rint(found))).all():
            wrong = found[~((np.abs(found) < 2**31) & (found == np.rint(found)))][0]
            raise CorruptError(f"{path} says that its values are integers, and has {wrong} by line {line}")
        if n:
            with np.errstate(over="ignore"):  # infinite in float32
                yield of_cell[:n], of_gene[:n], found.astype(dtype)
        if not block:
            break
    if done != entries:
        raise CorruptError(f"{path} has {done} entries, and its line of sizes says {entries}: it was cut")
