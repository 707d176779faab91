"""Files of cells as one data set: their fields, and their genes in common."""

from __future__ import annotations

import copy
import hashlib
import os
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from ...errors import Error, InvalidError, UnsupportedError
from .. import made
from ..dataset import Dataset, concat
from ..ragged import Ragged
from ..schema import Field, as_field, field, no_field
from . import kept, stored
from .anndata import Column, Part, Reader
from .remote import is_remote
from .stored import Array, Texts

Genes = Literal["outer", "inner"] | Sequence[str] | None
_LONGEST = 63  # bytes of a field's name
HDF5 = (".h5ad", ".h5", ".hdf5", ".he5")


def read_parts(
    path: str,
    format: str,  # noqa: A002
    chosen: Sequence[str] | None,
    options: dict[str, Any],
) -> list[Part]:
    """What a file has, of the fields that are chosen; one of SCDL may have several lists of genes."""

    def wanted(name: str) -> bool:
        return chosen is None or name in chosen

    if format == "scdl" and not is_remote(path):
        from .scdl import read

        return read(path, wanted)
    index_dir: str | None = options.get("index_dir")
    place = kept.place_of(path, "", index_dir)
    lasting = format in ("h5ad", "10x") and options.get("genome") is None and os.path.isfile(path)
    found = kept.load(place, path, format, chosen) if lasting else None
    if found is None:
        facts = stored.facts_of([path]) if lasting else None
        found = _read_part(path, format, wanted, options)
        worth = index_dir is not None or found.count >= kept.WORTH
        if facts is not None and worth and kept.can_be_kept(found):
            kept.save(place, found, format, facts, chosen)
    found.fields = {name: rows for name, rows in found.fields.items() if wanted(name)}
    found.columns = {
        name: c
        for name, c in found.columns.items()
        if name == "name" or wanted(name) or wanted(f"{name}.code") or wanted(f"{name}.valid")
    }
    return [found]


def _read_part(path: str, format: str, wanted: Callable[[str], bool], options: dict[str, Any]) -> Part:  # noqa: A002
    if is_remote(path) and (format in ("zarr", "scdl") or not path.endswith(HDF5)):
        raise UnsupportedError(f"{path}: of files of cells, those of HDF5 are read from other machines; copy it here")
    if format == "zarr":
        from .zarrs import open_group

        return open_group(path, wanted, options.get("index_dir"))
    if format == "10x" and os.path.isdir(path):
        from .tenx import read_folder

        return read_folder(path, wanted, options.get("genome"), options.get("index_dir"))
    from .hdf5 import File

    with File(path) as file:
        if format == "10x":
            from .tenx import read_h5

            return read_h5(file, wanted, options.get("genome"))
        if format == "hdf5":
            from .plain import read_arrays

            return read_arrays(path, file.root, file.describe, wanted)
        return Reader(path, file.root, file.describe, options.get("index_dir")).read(wanted)


def open_cells(
    paths: Sequence[str],
    format: str,  # noqa: A002
    fields: Sequence[str] | None,
    genes: Genes,
    gene_key: str | None,
    options: dict[str, Any],
) -> Dataset:
    """A data set of files of one format, one after the other."""
    if isinstance(genes, str) and genes not in ("outer", "inner"):
        raise ValueError(f"genes is 'outer', 'inner' or a list of names, not {genes!r}")
    chosen = None if fields is None else list(fields)
    parts = [part for path in paths for part in read_parts(path, format, chosen, options)]
    for part in parts:
        for name, layout in options.get("layouts", {}).items():
            if name in part.fields:
                part.fields[name] = replace(part.fields[name], layout=layout)
    joined = Joined(parts, genes, gene_key)
    lost = joined.lost(chosen)
    if lost is not None:
        path, name = lost
        try:
            there = Joined([p for p in read_parts(path, format, None, options)][:1], None, None).names(None)
        except Error as e:  # all of them cannot be read together
            raise InvalidError(f'{path} has no field "{name}", which fields names: {e}') from e
        raise no_field(path, name, there)
    names = joined.names(chosen)
    datasets = [joined.dataset(i, names) for i in range(len(parts))]
    whole = datasets[0] if len(datasets) == 1 else concat(datasets)
    recipe = ("cells", list(paths), format, chosen, genes if isinstance(genes, (str, type(None))) else list(genes))
    found = Dataset(whole._part(), (*recipe, gene_key, options))
    found._cells = Cells(joined)
    return found


class Cells:
    """What is known of the cells of a data set beside its fields.

    Attributes:
        genes: of `X`; `raw_genes`: of ``raw.X``: the names of its columns.
        var: columns about these genes, by name, of the first file that has them.
        files: how many were joined; `in_all`: how many genes of `X` all of them have.
        categories: of fields of texts by numbers, by their name: what ``NAME.code`` counts.
    """

    def __init__(self, joined: Joined) -> None:
        self.genes, self.raw_genes, self.var = joined.genes, joined.raw_genes, joined.var
        self.categories = joined.categories
        self.files, self.in_all = len(joined.parts), joined.in_all()


def in_common(all_cells: Sequence[Cells | None]) -> Cells | None:
    """What holds for all data sets that are joined by :func:`leat.concat`: the rest is not known."""
    known = [c for c in all_cells if c is not None]
    if not known or len(known) < len(all_cells):
        return None

    def same(arrays: list[Array | None]) -> bool:
        first = arrays[0]
        return all(first is not None and a is not None and np.array_equal(a, first) for a in arrays)

    found = copy.copy(known[0])
    if not same([c.genes for c in known]):
        found.genes, found.var, found.in_all = None, {}, 0
    if not same([c.raw_genes for c in known]):
        found.raw_genes = None
    found.files = sum(c.files for c in known)
    first = known[0].categories
    found.categories = {n: labels for n, labels in first.items() if all(c.categories.get(n) == labels for c in known)}
    return found


class Joined:
    """Files whose fields and genes are brought together."""

    def __init__(self, parts: list[Part], genes: Genes, gene_key: str | None) -> None:
        self.parts, self.categories = parts, dict[str, list[str]]()
        paths = [p.path for p in parts]
        self.genes: Array | None = None
        self.raw_genes: Array | None = None
        self.maps: list[Array | None] = [None] * len(parts)
        self.raw_maps: list[Array | None] = [None] * len(parts)
        one = len(parts) == 1 and genes is None
        if one or any(n == "X" or n.startswith("layers.") for p in parts for n in p.fields):
            keys = [_keys(p.path, "X", p.genes, p.var, gene_key) for p in parts]
            self.genes, self.maps = _unified(paths, keys, genes, "X")
        if any("raw.X" in p.fields for p in parts):
            keys = [_keys(p.path, "raw.X", p.raw_genes, p.raw_var, gene_key) for p in parts]
            self.raw_genes, self.raw_maps = _unified(paths, keys, genes, "raw.X")
        self.var = self._var()
        self.named = {"X": _hash_of(self.genes), "raw.X": _hash_of(self.raw_genes)}
        self._unify_types()
        self.codes: list[dict[str, Array]] = [{} for _ in parts]
        self._unify_categories()
        for part, own, raw_map in zip(parts, self.maps, self.raw_maps, strict=True):
            for name, rows in part.fields.items():
                columns, made_of = (raw_map, self.raw_genes) if name == "raw.X" else (own, self.genes)
                if (
                    columns is not None
                    and made_of is not None
                    and (name in ("X", "raw.X") or name.startswith("layers."))
                ):
                    part.fields[name] = rows.mapped(columns, len(made_of))

    def in_all(self) -> int:
        """Of the genes that result, those that all files have."""
        if self.genes is None:
            return 0
        found = np.ones(len(self.genes), bool)
        for own in self.maps:
            if own is not None:
                there = np.zeros(len(self.genes), bool)
                there[own[own >= 0]] = True
                found &= there
        return int(found.sum())

    def _var(self) -> dict[str, Array]:
        """Columns about the genes that result, of the first file that has each gene."""
        if self.genes is None:
            return {}
        if self.maps[0] is None:
            return self.parts[0].var
        found: dict[str, Array] = {}
        for part, at in zip(self.parts, self.maps, strict=True):
            if at is None:
                continue
            for name, values in part.var.items():
                to = found.setdefault(name, np.full(len(self.genes), None, object))
                fresh = (at >= 0) & (to[np.maximum(at, 0)] == None)  # noqa: E711  (elementwise)
                to[at[fresh]] = values[fresh]
        return found

    def _unify_types(self) -> None:
        """Values of one type: counts that one file has as integers and another as floats become floats."""
        for name in {n for p in self.parts for n in p.fields}:
            rows = [p.fields[name] for p in self.parts if name in p.fields]
            types = {r.values.dtype for r in rows}
            if len(types) < 2 or len({r.sparse for r in rows}) > 1:
                continue
            floats = [t for t in types if t.kind == "f"]
            integers = np.result_type(*(t for t in types if t.kind != "f")) if len(floats) < len(types) else None
            # integers beside floats become floats, as PyTorch has it; NumPy would go to float64
            common = np.result_type(*floats) if floats else integers
            for part in self.parts:
                if name in part.fields and part.fields[name].values.dtype != common:
                    part.fields[name] = replace(part.fields[name], made=np.dtype(common))

    def _unify_categories(self) -> None:
        """Numbers of categories that mean the same in all files."""
        for name in dict.fromkeys(n for p in self.parts for n in p.columns):
            columns = [p.columns.get(name) for p in self.parts]
            if not all(c is not None and c.codes is not None for c in columns):
                continue
            known: dict[str, int] = {}
            for i, column in enumerate(columns):
                if column is None or column.codes is None or column.categories is None:
                    continue
                labels = column.categories.strings().tolist()
                numbers = np.array([known.setdefault(t, len(known)) for t in labels] + [-1], np.int32)
                self.codes[i][name] = numbers[column.codes]
            self.categories[name] = list(known)

    def lost(self, chosen: list[str] | None) -> tuple[str, str] | None:
        """A file, and a chosen field that it lacks."""
        for i, part in enumerate(self.parts):
            kinds = self._kinds(i)
            for name in chosen or ():
                if name not in kinds:
                    return part.path, name
        return None

    def names(self, chosen: list[str] | None) -> list[str]:
        """The fields of all files, in the order of `chosen` or of the first file."""
        each = [self._kinds(i) for i in range(len(self.parts))]
        if chosen is not None:
            names = chosen
        else:
            long = [n for n in each[0] if len(n.encode()) > _LONGEST]
            if long:
                warnings.warn(
                    f"fields with names of more than {_LONGEST} bytes are left out: {', '.join(long)}", stacklevel=4
                )
                each = [{n: k for n, k in kinds.items() if n not in long} for kinds in each]
            names = [n for n in each[0] if all(n in kinds for kinds in each)]
            lost = sorted({n for kinds in each for n in kinds} - set(names))
            if lost:
                warnings.warn(f"fields that not all files have are left out: {', '.join(lost)}", stacklevel=4)
        for name in names:
            kinds = {str(k[name]): part.path for k, part in zip(each, self.parts, strict=True)}
            if len(kinds) > 1:
                told = "; ".join(f"{kind} in {path}" for kind, path in kinds.items())
                raise InvalidError(f"field {name!r} differs among the files: {told}. fields= leaves it out")
        return names

    def _kinds(self, i: int) -> dict[str, Field | str]:
        part = self.parts[i]
        found: dict[str, Field | str] = {}
        for name, rows in part.fields.items():
            try:
                found[name] = rows.kind
            except ValueError as e:  # a dimension is 0
                raise InvalidError(f"{part.path}, {name}: {e}; fields= leaves it out") from e
        for name, column in part.columns.items():
            found[name] = (
                _of_lists(column.values)
                if isinstance(column.values, Ragged)
                else "str"
                if column.codes is not None or isinstance(column.values, Texts)
                else str(np.asarray(column.values).dtype)
            )
            if column.codes is not None:
                found[f"{name}.code"] = "int32"
            if column.valid is not None:
                found[f"{name}.valid"] = "bool"
        return found

    def dataset(self, i: int, names: list[str]) -> Dataset:
        """The data set of one file."""
        part = self.parts[i]
        found = {name: self._field(part, i, name) for name in names}
        if not found:
            raise InvalidError(f"{part.path} has none of the fields that are wanted")
        return made.zipped(found, True) if len(found) > 1 else next(iter(found.values()))

    def _field(self, part: Part, i: int, name: str) -> Dataset:
        if name in part.fields:
            genes = b"" if name.startswith("obsm.") else self.named["raw.X" if name == "raw.X" else "X"]
            return stored.dataset_of(name, part.fields[name], genes)
        base, _, last = name.rpartition(".")
        if name not in part.columns:
            column = part.columns[base]
            return _column(name, Column(self.codes[i].get(base, column.codes) if last == "code" else column.valid))
        return _column(name, part.columns[name])


def _of_lists(values: Ragged) -> Field:
    return field(values.values.dtype, (None,))


def _column(name: str, column: Column) -> Dataset:
    values: Any = column.values
    if column.codes is not None and column.categories is not None:
        values = column.categories.take(column.codes)
    known = hashlib.blake2b(digest_size=16)
    if isinstance(values, Texts):
        known.update(values.offsets.tobytes() + values.values.tobytes())
        rows: Any = Ragged(values.values, values.offsets)
        return made.of_arrays({name: as_field("str")}, {name: rows}, known.hexdigest())
    if isinstance(values, Ragged):
        known.update(np.asarray(values.offsets).tobytes() + values.values.tobytes())
        return made.of_arrays({name: _of_lists(values)}, {name: values}, known.hexdigest())
    known.update(np.ascontiguousarray(values).tobytes())
    return made.of_arrays(None, {name: np.ascontiguousarray(values)}, known.hexdigest())


def _hash_of(genes: Array | None) -> bytes:
    return b"" if genes is None else hashlib.blake2b("\0".join(map(str, genes)).encode(), digest_size=16).digest()


def _keys(path: str, what: str, genes: Array | None, var: dict[str, Array], key: str | None) -> Array | None:
    """What tells the genes of a file apart."""
    if genes is None or key is None:
        return genes
    if key not in var:
        raise InvalidError(
            f"{path} has no column {key!r} about its genes of {what}: it has {', '.join(var) or 'none'}; fields= "
            f"leaves {what} out"
        )
    return var[key]


def _unified(
    paths: list[str], keys: list[Array | None], genes: Genes, what: str
) -> tuple[Array | None, list[Array | None]]:
    """The genes that result, and for each file where its columns go; None: they stay."""
    if any(k is None for k in keys):
        return None, [None] * len(keys)
    lists: list[list[str]] = [k.tolist() for k in keys if k is not None]
    same = all(k == lists[0] for k in lists[1:])
    if genes is None or (isinstance(genes, str) and same):
        if not same:
            raise InvalidError(_difference(paths, lists, what))
        return keys[0], [None] * len(keys)
    for path, names in zip(paths, lists, strict=True):
        if len(set(names)) != len(names):
            twice = next(name for name, n in Counter(names).items() if n > 1)
            raise InvalidError(
                f"{path}: gene {twice!r} stands twice among the genes of {what}, so that genes cannot be matched: "
                "name a column that tells them apart by gene_key="
            )
    if isinstance(genes, str):
        union = dict.fromkeys(g for names in lists for g in names)
        others = [set(k) for k in lists[1:]]
        wanted = list(union) if genes == "outer" else [g for g in lists[0] if all(g in k for k in others)]
    else:
        wanted = [str(g) for g in genes]
        known = {g for names in lists for g in names}
        if lost := [g for g in wanted if g not in known]:
            raise InvalidError(f"no file has the genes {', '.join(map(repr, lost[:5]))}{' ...' * (len(lost) > 5)}")
    place = {g: i for i, g in enumerate(wanted)}
    if len(place) != len(wanted) or not wanted:
        raise InvalidError("genes has a name twice" if wanted else "no gene is in all files")
    made_of = np.empty(len(wanted), object)
    made_of[:] = wanted
    return made_of, [np.array([place.get(g, -1) for g in names], np.int32) for names in lists]


def _difference(paths: list[str], lists: list[list[str]], what: str) -> str:
    other = next(i for i, names in enumerate(lists) if names != lists[0])
    first, second = set(lists[0]), set(lists[other])
    if first == second:
        how = "the same genes in another order"
    else:
        only = [
            f"{len(a - b)} only in {p} ({', '.join(sorted(a - b)[:3])} ...)"
            for a, b, p in ((first, second, paths[0]), (second, first, paths[other]))
            if a - b
        ]
        how = f"{len(first & second)} genes in common, " + ", ".join(only)
    return (
        f"the files have different genes of {what}: {paths[0]} has {len(lists[0])}, {paths[other]} has "
        f"{len(lists[other])}: {how}. genes='outer', 'inner' or a list of names says which; gene_key= names a column "
        "to match them by"
    )
