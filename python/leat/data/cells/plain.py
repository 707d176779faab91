"""Plain arrays of HDF5: those of one length, by their names, are the fields of a data set."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ...errors import CorruptError, InvalidError, UnsupportedError
from ..ragged import Ragged
from .anndata import Column, Part, texts
from .stored import Rows, Stored, Texts, field_name, native


def arrays_of(path: str, root: Any, wanted: Callable[[str], bool]) -> Iterator[tuple[str, Any]]:
    """Arrays of at least one dimension, of this group and those in it, by their names: those that are wanted. A group
    within itself, by a link, is passed over; of one in another file the name alone counts.

    Raises:
        UnsupportedError: such a one is wanted.
    """
    here = root.file.filename if hasattr(root, "file") else None
    nodes, n = list[tuple[str, Any, tuple[Any, ...]]]([("", root, ())]), 0
    most = root.id.get_filesize() // 16 if hasattr(root, "id") else None  # of HDF5, whose links multiply names
    while nodes:
        name, node, above = nodes.pop()
        if not hasattr(node, "keys"):
            if len(node.shape or ()) and wanted(as_field(name)):
                yield name, node
            continue
        if node in above:
            continue
        if here is not None and node.file.filename != here:
            if wanted(as_field(name)):
                raise UnsupportedError(
                    f"{path}, {name} lies in another file (external link), which leat does not follow; fields= leaves "
                    "it out"
                )
            continue
        keys = sorted(node.keys(), reverse=True)
        n += len(keys)
        if most is not None and n > most:
            raise CorruptError(f"{path} has more names of arrays and groups, by links, than its bytes should hold")
        for key in keys:
            child = f"{name}/{key}" if name else key
            try:
                nodes.append((child, node[key], (*above, node)))
            except KeyError as e:  # a link
                if wanted(as_field(child)):
                    raise CorruptError(
                        f"{path}, {child} is a link that leads nowhere: {e}; fields= leaves it out"
                    ) from e


def as_field(name: str) -> str:
    found = field_name(name.replace("/", "_"))
    return found if found[:1].isalpha() or found[:1] == "_" else f"_{found}"


def _item_of_lists(array: Any) -> Any:
    """The type of the numbers of an array of HDF5 whose entries are lists of any length; None: it is no such array."""
    kept: Any = (array.dtype.metadata or {}).get("vlen") if len(array.shape) == 1 else None
    return kept if isinstance(kept, np.dtype) and kept.kind in "biuf" else None


def _lists(values: Any, item: Any, what: str) -> Ragged:
    dtype = native(item, what)
    offsets = np.zeros(len(values) + 1, np.int64)
    np.cumsum([len(v) for v in values], out=offsets[1:])
    parts = [np.asarray(v, dtype) for v in values]
    return Ragged(np.concatenate(parts) if parts else np.empty(0, dtype), offsets)


def read_arrays(path: str, root: Any, describe: Callable[[Any], Stored], wanted: Callable[[str], bool]) -> Part:
    """Names have ``_`` in the place of ``/``. A part without fields: none of the arrays is wanted."""
    found: dict[str, Any] = {}
    for name, array in arrays_of(path, root, wanted):
        if as_field(name) in found:
            raise InvalidError(f"{path}: two arrays would become the field {as_field(name)!r}")
        found[as_field(name)] = array
    lengths = {name: int(array.shape[0]) for name, array in found.items()}
    if len(set(lengths.values())) > 1:
        told = ", ".join(f"{name} {n}" for name, n in list(lengths.items())[:8])
        raise InvalidError(f"{path}: arrays of several lengths ({told}): fields= names those that belong together")
    if not found and next(arrays_of(path, root, lambda _: True), None) is None:
        raise InvalidError(f"{path} has no arrays")
    part = Part(path, next(iter(lengths.values()), 0))
    for name, array in found.items():
        if (item := _item_of_lists(array)) is not None:
            part.columns[name] = Column(_lists(array[:], item, f"{path}, {name}"))
        elif array.dtype.kind in "OSUT":
            part.columns[name] = Column(Texts.of(texts(array[:], f"{path}, {name}")))
        elif array.dtype.names:
            raise UnsupportedError(f"{path}, {name} holds records ({array.dtype}): fields= leaves it out")
        else:
            part.fields[name] = Rows(describe(array))
    return part
