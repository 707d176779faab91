"""Tables: the memory in which the rows of arrays, tensors, columns and stores lie."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from .. import _leat
from ..data.dataset import Dataset
from ..data.schema import DTYPES, Field, dtype_name, held, missing_field
from ..errors import BudgetError
from ..stores.store import Store
from ..stores.values import Array, given_of, is_tensor

ROWS_OF_A_STORE = 1 << 16  #: that are copied at a time


class Table(NamedTuple):
    """Rows one behind the other."""

    array: Array  #: of shape (rows, ...); bfloat16 as uint16
    dtype: str
    path: str | None  #: the file that it is a mapping of


def table_of(source: Any, field: str | None, budget_bytes: int) -> Table:
    if isinstance(source, Store):
        return _of_store(source, field, budget_bytes)
    if isinstance(source, Dataset):
        if field is None:
            raise TypeError(f"which field of the data set? It has {', '.join(source.schema)}")
        index, found = source._find(field)
        _check_fixed(field, found)
        array, dtype = np.asarray(source._handle.column(index, False)), found.dtype
    elif field is not None:
        raise TypeError(f"an array has no field {field!r}")
    elif is_tensor(source):
        array, dtype = _of_tensor(source)
    elif isinstance(source, np.ndarray):
        array, dtype = source, source.dtype.name
        if dtype not in DTYPES or not array.dtype.isnative:
            raise TypeError(f"rows of dtype {array.dtype} are none of leat's: {', '.join(DTYPES)}")
    else:
        kinds = "a NumPy array, a tensor, a leat.Store, or a leat.Dataset and a field"
        raise TypeError(f"rows are those of {kinds}, not of {type(source).__name__}")
    if array.ndim == 0:
        raise ValueError("a table has rows: its first dimension")
    if not array.flags.c_contiguous:
        raise ValueError("rows lie one behind the other in memory: give np.ascontiguousarray(x), or x.contiguous()")
    return Table(array, dtype, mapped_file(array))


def _check_fixed(name: str, field: Field) -> None:
    if field.kind != "array" or (field.shape and field.shape[0] is None):
        raise TypeError(f"field {name!r} varies in size ({field}): it has no rows of one size")


def _of_tensor(tensor: Any) -> tuple[Array, str]:
    if tensor.device.type != "cpu":
        raise TypeError(f"rows are gathered from the host's memory, and this tensor is on {tensor.device}")
    name, tensor = dtype_name(tensor.dtype), tensor.detach()
    if name != "bfloat16":
        return tensor.numpy(), name
    import torch

    return tensor.view(torch.int16).numpy().view(np.uint16), name


def _of_store(store: Store, name: str | None, budget_bytes: int) -> Table:
    """A copy of its rows as they are now: in the file they lie apart, and change."""
    if store.keyed:
        raise TypeError("rows of this store are found by id and key: it is no table")
    if name is None and len(store.fields) > 1:
        raise TypeError(f"which field of the store? It has {', '.join(store.fields)}")
    name = next(iter(store.fields)) if name is None else name
    if name not in store.fields:
        raise missing_field("this store", name, store.fields)
    _check_fixed(name, store.fields[name])
    ids, form = store.ids, given_of(store.fields[name])
    if len(ids) and ids[-1] != len(ids) - 1:
        lacking = int(np.flatnonzero(ids != np.arange(len(ids)))[0])
        raise ValueError(f"the store {store.path} has no row of id {lacking}: a table has all from 0 on")
    shape = (len(ids), *form.shape)
    nbytes = int(np.prod(shape)) * held(form.dtype).itemsize
    most = budget_bytes or _leat.memory_left()
    if nbytes > most:
        raise BudgetError(f"a copy of the store {store.path} takes {nbytes} bytes, of which budget_bytes allows {most}")
    made = np.empty(shape, held(form.dtype))
    core = store._core()
    for begin in range(0, len(ids), ROWS_OF_A_STORE):
        part = made[begin : begin + ROWS_OF_A_STORE]
        which = np.arange(begin, begin + len(part), dtype=np.uint64)
        buffers = [part if field == name else None for field in store.fields]
        core.gather(which, None, buffers, False, np.empty(len(part), np.uint8))
    return Table(made, form.dtype, None)


def mapped_file(array: Array) -> str | None:
    """The file that an array lies in, if its memory is a mapping of one; memory of the system has names, too."""
    address = array.__array_interface__["data"][0]
    for begin, end, name in _mappings():
        if begin <= address < end:
            of_the_system = ("/dev/zero", "/SYSV", "/anon_hugepage")
            return name if array.nbytes and name.startswith("/") and not name.startswith(of_the_system) else None
    return None


def in_memory(path: str | None) -> bool:
    """Whether a file is one of memory, which can be cut all the same."""
    return path is not None and path.startswith(("/dev/shm/", "/memfd:"))


def _mappings() -> Iterator[tuple[int, int, str]]:
    with open("/proc/self/maps", errors="surrogateescape") as lines:
        for line in lines:
            place, _, _, _, _, *name = line.rstrip("\n").split(None, 5)
            begin, end = place.split("-")
            yield int(begin, 16), int(end, 16), name[0] if name else ""
