"""Values of fields as columns of Arrow, and back, without a loop over rows.

array without a shape     numbers                              str, json          large_string; JSON as its text
array of a fixed shape    Ray's tensors                        bytes, photos ...  large_binary; photos encoded
array of open length      large_list (of fixed_size_list)      sparse rows          struct of lists values, columns
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from ray.data.extensions import ArrowTensorArray, ArrowVariableShapedTensorType, get_arrow_extension_tensor_types

from .. import _leat
from ..data.schema import Field, held, sparse
from ..data.sparse import unpacked_rows
from ..errors import CorruptError, InvalidError

#: in the metadata of a column of Arrow: the kind of the field, if the type does not say it; of sparse rows with the
#: dtype of values and the number of columns
KIND = b"leat.kind"


def column_of(core: _leat.Batch, output: int, name: str, field: Field) -> tuple[Any, Any]:
    """An output of the engine as a column, over its memory, and the type of that column."""
    values = np.asarray(core.memory(output))
    if field.dtype == "bfloat16":  # as float32, which holds the same numbers: neither NumPy nor Arrow has it
        values = (values.view(np.uint16).astype(np.uint32) << 16).view(np.float32)
    if field.kind == "array" and None not in field.shape:
        array = ArrowTensorArray.from_numpy(values) if field.shape else pa.array(values)
        return array, pa.field(name, array.type)
    offsets = np.asarray(core.memory_offsets(output))
    if field.kind == "sparse":
        rows = unpacked_rows(values, offsets, held("uint8" if field.dtype == "bool" else field.dtype), 1)
        ends = pa.array(offsets)
        lists = [pa.LargeListArray.from_arrays(ends, pa.array(part)) for part in (rows.values, rows.columns)]
        array = pa.StructArray.from_arrays(lists, ["values", "columns"])
        return array, pa.field(name, array.type, metadata={KIND: f"sparse {field.dtype} {field.shape[0]}"})
    if field.kind == "array":
        array = pa.LargeListArray.from_arrays(pa.array(offsets), _nested(values, values.shape[1:]))
        return array, pa.field(name, array.type)
    kind = pa.large_string() if field.kind in ("str", "json") else pa.large_binary()
    array = pa.Array.from_buffers(kind, len(offsets) - 1, [None, pa.py_buffer(offsets), pa.py_buffer(values)])
    if field.kind == "str":
        try:
            array.validate(full=True)
        except pa.ArrowInvalid as e:
            raise CorruptError(f"a text of field {name!r} is no UTF-8: {e}") from e
    told = field.kind if field.kind not in ("str", "bytes") else None
    return array, pa.field(name, kind, metadata={KIND: told} if told else None)


def _nested(values: np.ndarray[Any, Any], shape: tuple[int, ...]) -> Any:
    """Elements of a fixed shape, over their memory."""
    array = pa.array(values.reshape(-1))
    for n in reversed(shape):
        array = pa.FixedSizeListArray.from_arrays(array, n)
    return array


def plain(table: Any) -> Any:
    """The table with lists in the place of Ray's tensors.

    Raises:
        leat.InvalidError: arrays of a column differ in more than their first dimension, or are no numbers.
    """
    for i, column in enumerate(table.schema):
        if isinstance(column.type, ArrowVariableShapedTensorType):
            array = pa.chunked_array([_plain_ragged(column.name, c) for c in table.column(i).chunks])
        elif isinstance(column.type, get_arrow_extension_tensor_types()):
            shape = tuple(column.type.shape)
            chunks = [_nested(np.ascontiguousarray(_array(c)), shape) for c in table.column(i).chunks]
            array = pa.chunked_array(chunks, None if chunks else _list_type(column.type.value_type, shape))
        elif isinstance(column.type, pa.BaseExtensionType):
            raise InvalidError(
                f"column {column.name!r} holds Python objects ({column.type}): give numbers, text, bytes or arrays"
            )
        else:
            continue
        table = table.set_column(i, pa.field(column.name, array.type, metadata=column.metadata), array)
    return table


def _array(tensors: Any) -> np.ndarray[Any, Any]:
    made: np.ndarray[Any, Any] = (
        tensors.to_numpy(zero_copy_only=False)
        if isinstance(tensors, ArrowTensorArray)
        else tensors.to_numpy_ndarray()  # Arrow's own type
    )
    return made


def _list_type(value: Any, shape: tuple[int, ...]) -> Any:
    for n in reversed(shape):
        value = pa.list_(value, n)
    return value


def _plain_ragged(name: str, tensors: Any) -> Any:
    rows = list(tensors.to_numpy(zero_copy_only=False))
    inner = {row.shape[1:] for row in rows}
    if len(inner) > 1 or any(row.ndim == 0 for row in rows):
        raise InvalidError(
            f"column {name!r} has arrays of shapes such as {rows[0].shape}, and others that differ in more than the "
            "first dimension: no field holds them; encode images, or make them of one size"
        )
    offsets = np.cumsum([0, *(len(row) for row in rows)], dtype=np.int64)
    values = np.concatenate(rows) if rows else np.empty(0, np.float64)
    return pa.LargeListArray.from_arrays(pa.array(offsets), _nested(np.ascontiguousarray(values), values.shape[1:]))


def fields_of(schema: Any, fields: Any) -> Any:
    """`fields` as :func:`leat.from_arrow` takes them, with the kinds that the columns were marked with."""
    marks = {c.name: _marked(c.metadata[KIND].decode()) for c in schema if c.metadata and KIND in c.metadata}
    if isinstance(fields, Mapping):
        return {name: marks.get(name) if kind is None else kind for name, kind in fields.items()}
    return {name: marks.get(name) for name in (schema.names if fields is None else fields)} if marks else fields


def _marked(mark: str) -> Any:
    kind, *about = mark.split()
    return sparse(about[0], int(about[1])) if kind == "sparse" else kind
