"""The layout of anndata, in HDF5 and Zarr: a matrix of cells and genes, and tables about both.

Sources: the specification of anndata's format, and what its versions 0.6 to 0.12 write.
"""

from __future__ import annotations

import contextlib
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from ...errors import CorruptError, Error, FormatError, UnsupportedError
from ..ragged import Ragged
from . import stored
from .stored import Array, Rows, Stored, Texts


@dataclass
class Column:
    """A column of a table: numbers, or texts, or texts by their numbers (`codes`, int32, -1: missing).

    Attributes:
        valid: bool, which values are there; None: all.
    """

    values: Array | Texts | Ragged | None = None
    codes: Array | None = None
    categories: Texts | None = None
    valid: Array | None = None

    @property
    def length(self) -> int:
        return self.values.count if isinstance(self.values, Texts) else 0 if self.values is None else len(self.values)


@dataclass
class Part:
    """What a file has.

    Attributes:
        fields: matrices by name.
        columns: of obs, by ``obs.NAME``, and ``name``.
        genes: of `X`; `raw_genes`: of ``raw.X``.
        var: columns about the genes of `X`, by name.
    """

    path: str
    count: int = 0
    fields: dict[str, Rows] = field(default_factory=dict)
    columns: dict[str, Column] = field(default_factory=dict)
    genes: Array | None = None
    raw_genes: Array | None = None
    var: dict[str, Array] = field(default_factory=dict)
    raw_var: dict[str, Array] = field(default_factory=dict)


def _apart(columns: dict[str, Column]) -> None:
    """Columns whose names are those of what leat adds to another one, get another name."""
    for name in list(columns):
        base, _, last = name.rpartition(".")
        other = columns.get(base)
        added = {"code": other.codes, "valid": other.valid} if other is not None else {}
        if added.get(last) is not None:
            columns[f"{name}_"] = columns.pop(name)


def named(names: Any) -> dict[str, str]:
    """Names of fields for names of columns; of two that would be one the second gets ``_2``."""
    found: dict[str, str] = {}
    for name in names:
        wanted = base = stored.field_name(name)
        number = 1
        while wanted in found:
            number += 1
            wanted = f"{base}_{number}"
        found[wanted] = name
    return found


Describe = Callable[[Any], Stored]


def text(value: Any) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


def _text_of(value: Any, what: str) -> str:
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError as e:
            raise CorruptError(f"{what} has the text {value!r:.200}, which is not UTF-8") from e
    if not isinstance(value, (str, int, float, np.number, np.bool_)):
        kind = f"arrays of shape {value.shape}" if isinstance(value, np.ndarray) else type(value).__name__
        raise UnsupportedError(f"{what} holds {kind} where texts should be: fields= leaves it out")
    return str(value)


def texts(values: Any, what: str) -> Array:
    """Strings, as bytes or not, or numbers, as an array of str objects."""
    made = np.empty(len(values), object)
    made[:] = [_text_of(v, what) for v in values]
    return made


def encoding(node: Any) -> str:
    return text(node.attrs.get("encoding-type", ""))


def is_array(node: Any) -> bool:
    return hasattr(node, "dtype")


FAULTS = (KeyError, IndexError, ValueError, TypeError, AttributeError, RuntimeError, OSError, EOFError, zlib.error)


@contextlib.contextmanager
def readable(path: str) -> Iterator[None]:
    """What is not as the layout has it is an error that names the file."""
    try:
        yield
    except Error:
        raise
    except FAULTS as e:
        raise CorruptError(f"{path} is not as its format has it: {type(e).__name__}: {e}") from e


class Reader:
    """Reads a group that anndata wrote. `describe`: where an array lies."""

    def __init__(self, path: str, root: Any, describe: Describe, index_dir: str | None = None) -> None:
        self.path, self.root, self.describe, self.index_dir = path, root, describe, index_dir

    def read(self, wanted: Callable[[str], bool]) -> Part:
        """`wanted`: whether a field is to be read, by its name."""
        with readable(self.path):
            return self._read(wanted)

    def _read(self, wanted: Callable[[str], bool]) -> Part:
        part = Part(self.path)
        if "X" not in self.root and "obs" not in self.root:
            raise FormatError(f"{self.path} has neither X nor obs: it is no file of anndata")
        names, columns = self.table("obs")
        part.count = len(names)
        for name, matrix in self.matrices():
            if wanted(name):
                part.fields[name] = self.rows(name, matrix, part.count)
        for name, column in columns.items():
            if wanted(f"obs.{name}") or wanted(f"obs.{name}.code") or wanted(f"obs.{name}.valid"):
                part.columns[f"obs.{name}"] = column()
        _apart(part.columns)
        for name, one in part.columns.items():
            n = len(one.codes) if one.codes is not None else one.length
            if n != part.count:
                raise CorruptError(f"{self.path}, {name} has {n} values, and there are {part.count} cells")
        part.columns["name"] = Column(Texts.of(names))
        part.genes, var = self.table("var")
        part.var = {name: self.plain(column()) for name, column in var.items()}
        if "var" in self.group("raw"):
            part.raw_genes, var = self.table("raw/var")
            part.raw_var = {name: self.plain(column()) for name, column in var.items()}
        elif "raw.var" in self.root:  # of anndata 0.6
            part.raw_genes, var = self.table("raw.var")
            part.raw_var = {name: self.plain(column()) for name, column in var.items()}
        for name, rows in part.fields.items():
            genes = part.raw_genes if name == "raw.X" else part.genes
            if not name.startswith("obsm.") and genes is not None and rows.n != len(genes):
                raise CorruptError(f"{self.path}, {name} has {rows.n} columns, and there are {len(genes)} genes")
        return part

    def group(self, name: str) -> Any:
        """A group; what is none, or is not there, is an empty one."""
        node = self.root.get(name, {})
        return {} if is_array(node) else node

    def values(self, node: Any) -> Any:
        """All of an array. leat decodes numbers that h5py's library has no filter for."""
        try:
            return node[:]
        except OSError as e:
            if node.dtype.kind in "biuf":
                return self.describe(node).read()
            what = f"{self.path}, {str(node.name).strip('/')}"
            try:
                import hdf5plugin  # type: ignore[import-not-found]  # noqa: F401  (gives filters to h5py's library)
            except ImportError:
                raise UnsupportedError(
                    f"{what} holds text that h5py cannot decode ({e}): pip install hdf5plugin, whose filters it uses"
                ) from e
            return node[:]

    # --- matrices -----------------------------------------------------------------------------------------------------
    def matrices(self) -> Iterator[tuple[str, Any]]:
        if "X" in self.root:
            yield "X", self.root["X"]
        if "X" in self.group("raw"):
            yield "raw.X", self.root["raw"]["X"]
        elif "raw.X" in self.root:
            yield "raw.X", self.root["raw.X"]
        for group in ("layers", "obsm"):
            node = self.group(group)
            for as_field, key in named(sorted(node.keys())).items():
                child = node[key]
                if is_array(child) or encoding(child) in ("csr_matrix", "csc_matrix"):
                    yield f"{group}.{as_field}", child

    def rows(self, name: str, node: Any, count: int) -> Rows:
        kind = encoding(node) or text(node.attrs.get("h5sparse_format", ""))
        if is_array(node) and kind not in ("csr", "csc"):
            if len(node.shape) == 1:
                node_shape: tuple[int, ...] = (int(node.shape[0]), 1)
            else:
                node_shape = tuple(map(int, node.shape))
            if node_shape[0] != count:
                raise CorruptError(f"{self.path}, {name} has {node_shape[0]} rows, and obs has {count}")
            return Rows(self.describe(node), n=int(np.prod(node_shape[1:], dtype=np.int64)))
        if kind not in ("csr_matrix", "csc_matrix", "csr", "csc"):
            raise UnsupportedError(f"{self.path}, {name} is stored as {kind or 'a group'!r}, which leat does not read")
        shape = node.attrs.get("shape", node.attrs.get("h5sparse_shape"))
        if shape is None:
            raise CorruptError(f"{self.path}, {name} is a sparse matrix without a shape")
        n_rows, n_columns = map(int, shape)
        if n_rows != count:
            raise CorruptError(f"{self.path}, {name} has {n_rows} rows, and obs has {count}")
        pointers = np.asarray(self.values(node["indptr"])).astype(np.int64)
        across = kind.startswith("csc")
        if len(pointers) != (n_columns if across else n_rows) + 1:
            raise CorruptError(f"{self.path}, {name}/indptr has {len(pointers)} pointers for {n_rows} rows")
        found = Rows(self.describe(node["data"]), self.describe(node["indices"]), pointers, n_columns)
        if across:
            from .transposed import by_rows

            return by_rows(self.path, name, found, n_rows, self.index_dir)
        return found

    # --- tables -------------------------------------------------------------------------------------------------------
    def table(self, name: str) -> tuple[Array, dict[str, Callable[[], Column]]]:
        """The index of a table, and its columns, which are read when they are called."""
        if name not in self.root:
            raise FormatError(f"{self.path} has no {name}: it is no file of anndata")
        node = self.root[name]
        if is_array(node):
            return self.old_table(name, node)
        index = text(node.attrs.get("_index", "_index"))
        order = [text(c) for c in node.attrs.get("column-order", ())]
        if index not in node:
            raise CorruptError(f"{self.path}, {name} has no index column {index!r}")
        found = self.column(node, index)
        names = found.values if isinstance(found.values, Texts) else None
        listed = texts(self.plain(found), f"{self.path}, {name}/{index}") if names is None else self.plain(found)
        columns: dict[str, Callable[[], Column]] = {
            as_field: partial(self.column, node, c) for as_field, c in named(c for c in order if c in node).items()
        }
        return listed, columns

    def old_table(self, name: str, node: Any) -> tuple[Array, dict[str, Callable[[], Column]]]:
        """Of anndata before 0.7: an array of records; categories of a column lie in ``uns``."""
        records = node[:]
        names = [n for n in records.dtype.names or () if n not in ("index", "_index")]
        index = records["index" if "index" in records.dtype.names else "_index"]

        def column(c: str) -> Column:
            values = records[c]
            key = f"{c}_categories"
            if key in self.group("uns") and values.dtype.kind in "iu":
                labels = texts(self.root["uns"][key][:], f"{self.path}, uns/{key}")
                return Column(None, values.astype(np.int32), Texts.of(labels))
            return self.numbers_or_texts(values, f"{self.path}, {name}/{c}")

        columns: dict[str, Callable[[], Column]] = {f: partial(column, c) for f, c in named(names).items()}
        return texts(index, f"{self.path}, {name}"), columns

    def column(self, table: Any, name: str) -> Column:
        node = table[name]
        what = f"{self.path}, {table.name.strip('/')}/{name}"
        kind = encoding(node)
        if not is_array(node):
            if kind == "categorical":
                categories = self.labels(node["categories"], what)
                return Column(None, self.codes(self.values(node["codes"]), len(categories), what), Texts.of(categories))
            if kind in ("nullable-integer", "nullable-boolean", "nullable-string-array") or "mask" in node:
                missing = np.asarray(self.values(node["mask"])).astype(bool)
                values = np.array(self.values(node["values"]))
                values[missing] = "" if values.dtype.kind in "OSUT" else 0
                found = self.numbers_or_texts(values, what)
                found.valid = ~missing
                return found
            raise UnsupportedError(f"{what} is stored as {kind or 'a group'!r}, which leat does not read")
        values = self.values(node)
        reference = node.attrs.get("categories")
        if reference is not None:  # of anndata 0.7: a reference of HDF5, or a name
            try:
                labels = table["__categories"][name] if isinstance(reference, (str, bytes)) else node.file[reference]
            except (KeyError, ValueError, RuntimeError) as e:
                raise CorruptError(f"{what}: the reference to its categories leads nowhere: {e}") from e
            categories = self.labels(labels, what)
            return Column(None, self.codes(values, len(categories), what), Texts.of(categories))
        return self.numbers_or_texts(values, what)

    def labels(self, node: Any, what: str) -> Array:
        if not is_array(node):
            return self.plain(self.numbers_or_texts(node["values"][:], what))
        found = self.values(node)
        return texts(found.tolist() if node.dtype.kind in "biuf" else found, what)

    def codes(self, values: Any, n: int, what: str) -> Array:
        found = np.asarray(values)
        if found.dtype.kind not in "iu" or (len(found) and (found.min() < -1 or found.max() >= n)):
            raise CorruptError(f"{what} has numbers of categories that are not among its {n}")
        return found.astype(np.int32)

    def numbers_or_texts(self, values: Any, what: str) -> Column:
        found = np.asarray(values)
        if found.dtype.kind in "biuf":
            return Column(np.ascontiguousarray(found, found.dtype.newbyteorder("=")))
        if found.dtype.kind in "OSUT":
            return Column(Texts.of(texts(found, what)))
        raise UnsupportedError(f"{what} holds {found.dtype}, which is neither numbers nor text")

    def plain(self, column: Column) -> Array:
        """As an array: numbers, or str objects, None where there is no value."""
        if column.codes is not None and column.categories is not None:
            labels = np.empty(column.categories.count + 1, object)  # the last one is None
            labels[:-1] = column.categories.strings()
            found: Array = labels[column.codes]
            return found
        found = column.values.strings() if isinstance(column.values, Texts) else np.asarray(column.values)
        if column.valid is not None and not column.valid.all():
            found = found.astype(object)
            found[~column.valid] = None
        return found
