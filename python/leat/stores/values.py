"""The input of a store, as arrays that it keeps until they are written; and its output."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from .. import check
from ..data.ragged import Ragged
from ..data.schema import Field, dtype_name, held, step_of
from ..data.writer import sparse_rows

ROUNDED = ("float16", "bfloat16", "int8")  #: fields that take float32, and round it
FLOATS = ("float16", "bfloat16", "float32", "float64")
Array = np.ndarray[Any, np.dtype[Any]]


class Column(NamedTuple):
    """Values of one field on their way to a file."""

    values: Array  #: contiguous; bfloat16 as uint16
    dtype: str  #: what they are
    offsets: Array | None

    @property
    def nbytes(self) -> int:
        return self.values.nbytes + (0 if self.offsets is None else self.offsets.nbytes)


def is_tensor(value: Any) -> bool:
    """Whether it is one of PyTorch's, which is not imported for this."""
    return hasattr(value, "data_ptr") and hasattr(value, "is_cuda")


def whole_numbers(what: str, given: Any) -> Array:
    """Ids or keys as 64-bit integers, of shape (n,) or ()."""
    if is_tensor(given):
        given = given.detach().cpu().numpy()
    made = np.asarray(given)
    if made.size == 0 and made.dtype == np.float64:  # an empty list
        made = made.astype(np.int64)
    if made.dtype == np.float64 and not isinstance(given, np.ndarray) and _are_whole(given):
        made = np.array(given, np.uint64)  # of such numbers, some above 2^63, NumPy makes float64
    if made.dtype.kind not in "iu":
        raise TypeError(f"{what} are whole numbers, not {made.dtype}")
    if made.ndim > 1:
        raise ValueError(f"{what} are a list of numbers, not of shape {made.shape}")
    return made


def _are_whole(given: Any) -> bool:
    return all(isinstance(number, (int, np.integer)) for number in np.array(given, object).flat)


def checked_ids(given: Any) -> Array:
    """As uint64.

    Raises:
        IndexError: one is negative.
    """
    made = whole_numbers("ids", given)
    if made.dtype.kind == "i" and made.size and made.min() < 0:
        raise IndexError(f"id {made.min()} is negative: ids are those of batch.ids, from 0")
    return np.array(made, np.uint64, order="C")


def checked_keys(given: Any) -> Array:
    """As uint64: the bits of negative ones."""
    made = whole_numbers("keys", given)
    return np.array(made.astype(np.int64, copy=False).view(np.uint64) if made.dtype.kind == "i" else made, np.uint64)


def column_of(name: str, field: Field, value: Any, n: int, waits: list[Callable[[], None]]) -> Column:
    """A copy of n values of a field. `waits` gets the functions to call before it is used: copies from a GPU.

    Raises:
        TypeError: the dtype is another.
        ValueError: the shape is another.
    """
    if field.kind == "sparse":
        packed, offsets = sparse_rows(name, field, value)
        if len(offsets) != n + 1:
            raise ValueError(f"field {name!r} has {len(offsets) - 1} rows for {n} ids")
        return Column(packed, "uint8", offsets)
    if field.shape and field.shape[0] is None:
        return _ragged(name, field, value, n, waits)
    array, dtype = _array(name, field, value, waits)
    wanted = (n, *field.shape)
    if tuple(array.shape) != wanted:
        raise ValueError(f"field {name!r} takes values of shape {wanted}, not {tuple(array.shape)}")
    return Column(array, dtype, None)


def _ragged(name: str, field: Field, value: Any, n: int, waits: list[Callable[[], None]]) -> Column:
    if isinstance(value, Ragged):
        offsets = whole_numbers("offsets", value.offsets)
        rows, first = value.values, int(offsets[0]) if len(offsets) else 0
        offsets = offsets.astype(np.int64) - first
        array, dtype = _array(name, field, rows[first : first + int(offsets[-1])] if len(offsets) else rows, waits)
    elif isinstance(value, Sequence):
        parts = [_array(name, field, row, waits, f" of row {i}") for i, row in enumerate(value)]
        for wait in waits:
            wait()
        waits.clear()
        parts = [(p.reshape(0, *_tail(field)) if p.shape == (0,) else p, dtype) for p, dtype in parts]
        kinds = {dtype for _, dtype in parts}
        if len(kinds) > 1:
            raise TypeError(f"the rows of field {name!r} have several dtypes: {', '.join(sorted(kinds))}")
        for i, (part, _) in enumerate(parts):
            if part.ndim != len(field.shape):
                raise ValueError(f"row {i} of field {name!r} has the shape {part.shape}, not {field.shape}")
        offsets = np.cumsum([0, *(len(part) for part, _ in parts)], dtype=np.int64)
        dtype = kinds.pop() if kinds else field.dtype
        array = np.concatenate([part for part, _ in parts]) if parts else np.empty((0, *_tail(field)), held(dtype))
    else:
        raise TypeError(f"field {name!r} varies in length: give a leat.Ragged or a list of arrays")
    if len(offsets) != n + 1:
        raise ValueError(f"field {name!r} has {len(offsets) - 1} rows for {n} ids")
    if tuple(array.shape[1:]) != _tail(field):
        raise ValueError(f"field {name!r} takes rows of shape {_tail(field)}, not {tuple(array.shape[1:])}")
    return Column(array, dtype, np.ascontiguousarray(offsets))


def _tail(field: Field) -> tuple[int, ...]:
    return tuple(int(n) for n in field.shape[1:] if n is not None)


def _target(name: str, field: Field, given: str, where: str) -> str:
    """The dtype that values come to the library in."""
    if given == field.dtype:
        return given
    if field.dtype in ROUNDED and given in FLOATS:
        return "float32"
    if field.dtype in ("float32", "float64") and given in FLOATS:
        return field.dtype
    raise TypeError(f"field {name!r} is {field.dtype} and takes no {given}{where}: convert it first")


def _check_numbers(name: str, made: Array, target: str, where: str) -> None:
    """Refuses numbers of Python's that a dtype has not."""
    kind = np.dtype(target).kind
    if kind not in "iub" or not made.size:
        return
    if made.dtype.kind == "f":
        raise TypeError(f"field {name!r} is {target} and takes whole numbers{where}: convert them first")
    least, most = (0, 1) if kind == "b" else (np.iinfo(target).min, np.iinfo(target).max)
    for number in (int(made.min()), int(made.max())):
        if not least <= number <= most:
            raise ValueError(f"field {name!r} is {target}, and {number}{where} is none: {least} to {most}")


def _of_numbers(value: Any, target: str) -> Array:
    """Python's numbers as an array. NumPy makes float64 of whole numbers above and below 2^63."""
    made = np.asarray(value)
    return (
        np.array(value, object)
        if made.dtype.kind == "f" and np.dtype(target).kind in "iu" and _are_whole(value)
        else made
    )


def _to_odd(made: Array) -> Array:
    """float64 as float32, in which the last bit is set if it is not exact: so a later rounding to fewer bits is the
    only one. (Boldo, Melquiond: "When double rounding is odd", 2005.)
    """
    with np.errstate(over="ignore"):
        near = made.astype(np.float32)
    bits = near.view(np.uint32)
    inexact = (near != made) & ~np.isnan(made)
    bits -= inexact & (np.abs(near) > np.abs(made))
    bits |= inexact
    return near


def _converted(name: str, made: Array, field: Field, target: str, where: str) -> Array:
    """A copy of an array in another dtype.

    Raises:
        ValueError: a finite number is infinite there.
    """
    if made.dtype == np.float64 and target == "float32":
        if field.dtype in ("float16", "bfloat16"):
            return _to_odd(np.array(made, order="C"))
        try:
            with np.errstate(over="raise"):
                return np.array(made, target, order="C")
        except FloatingPointError:
            most = made[np.isfinite(made)]
            worst = most[np.abs(most).argmax()]
            raise ValueError(f"field {name!r} is {field.dtype}, and {worst:g}{where} is beyond what that has") from None
    return np.array(made, target, order="C")


def _array(name: str, field: Field, value: Any, waits: list[Callable[[], None]], where: str = "") -> tuple[Array, str]:
    """A copy as an array, and the type of its numbers."""
    check.unmasked(name, value)
    if not is_tensor(value):
        target = field.dtype if field.dtype not in ROUNDED else "float32"
        made = _of_numbers(value, target)
        if not isinstance(value, (np.ndarray, np.generic)) and made.dtype.kind in "iufO":  # a list of Python's numbers
            _check_numbers(name, made, target, where)
        else:
            target = _target(name, field, made.dtype.name, where)
        return _converted(name, made, field, target, where), target
    import torch

    tensor = value.detach()
    target = _target(name, field, dtype_name(tensor.dtype), where)
    if tensor.is_cuda and field.dtype in ("float16", "bfloat16"):
        target = field.dtype  # rounded there: half as many bytes to move
    wanted = getattr(torch, target)
    if tensor.dtype == torch.float64 and target == "float32" and not tensor.is_cuda:
        return _converted(name, tensor.numpy(), field, target, where), target
    if tensor.is_cuda:
        room = torch.empty(tensor.shape, dtype=wanted, device="cpu", pin_memory=True)
        room.copy_(tensor.to(wanted), non_blocking=True)
        event = torch.cuda.Event()  # type: ignore[no-untyped-call]
        event.record(torch.cuda.current_stream(tensor.device))
        waits.append(event.synchronize)
        tensor = room
    else:
        tensor = torch.empty(tensor.shape, dtype=wanted, device="cpu").copy_(tensor)
    return (tensor.view(torch.int16).numpy().view(np.uint16) if target == "bfloat16" else tensor.numpy()), target


class Given(NamedTuple):
    """The form in which a field comes out of a store."""

    dtype: str  #: of the numbers
    stored: Any  #: numpy's word for them
    shape: tuple[int, ...]  #: of a value, or of one of its rows
    ragged: bool


def given_of(field: Field) -> Given:
    """int8 comes as float32: it is multiplied by its scale. Sparse rows come as they are stored."""
    if field.kind == "sparse":
        return Given("uint8", held("uint8"), (step_of(field),), True)
    dtype = "float32" if field.dtype == "int8" else field.dtype
    ragged = bool(field.shape) and field.shape[0] is None
    return Given(dtype, held(dtype), _tail(field) if ragged else tuple(n or 0 for n in field.shape), ragged)


def finished(array: Array, form: Given, framework: str) -> Any:
    """An array as the user's tensor. NumPy has no bfloat16: there it is float32."""
    if framework == "torch":
        import torch

        if form.dtype == "bfloat16":
            return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
        return torch.from_numpy(array)
    if form.dtype == "bfloat16":
        return (array.astype(np.uint32) << 16).view(np.float32)
    return array
