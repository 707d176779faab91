"""Messages between a process and its workers: samples by layouts, and odd objects as bytes.

Arrays and tensors never go through a pipe: :func:`encode` puts their bytes into the batch's slot of shared memory or,
if they do not fit, into an anonymous file that goes with the message. The rest, a small skeleton, is pickled. Only this
process's own workers can write to the pipes that are unpickled.
"""

from __future__ import annotations

import io
import mmap
import os
import pickle
import struct
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import _leat

INT, FLOAT, BOOL, SCALAR, ARRAY, TENSOR, TEXT = range(7)
_CODES = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}  # numpy's kinds as DLPack's codes
_SMALL = 4096  # bytes up to which an array goes into the pickle
_ALIGN = 64
MAX_BUFFERS = 32
_PARTS = 256  # of a sample: of more, or of one that contains itself, there is no layout

Spec = tuple[Any, ...]


# ---- layouts ---------------------------------------------------------------------------------------------------------


def _torch_names() -> dict[Any, str]:
    """Types that both numpy and PyTorch have, as numpy names them."""
    torch = sys.modules["torch"]
    names = ["uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64", "float16", "float32", "float64"]
    return {getattr(torch, n): n for n in [*names, "complex64", "complex128", "bool"] if hasattr(torch, n)}


def _ints_of(dtype: Any) -> Any:
    """The integers of PyTorch's as which tensors of a type that numpy lacks travel; None: it has the type."""
    torch = sys.modules["torch"]
    return None if dtype in _torch_names() else getattr(torch, f"int{8 * dtype.itemsize}")


def array_of(tensor: Any) -> np.ndarray[Any, Any]:
    """The memory of a tensor as an array, of integers if NumPy lacks its type."""
    ints = _ints_of(tensor.dtype)
    found: np.ndarray[Any, Any] = (tensor if ints is None else tensor.view(ints)).numpy()
    return found


def _is_dense(tensor: Any) -> bool:
    """Whether a tensor is only its values: ordinary numbers in this process's memory."""
    torch = sys.modules["torch"]
    return bool(
        tensor.device.type == "cpu" and tensor.layout == torch.strided and not (tensor.is_nested or tensor.is_quantized)
    )


def _array_leaf(kind: int, array: np.ndarray[Any, Any], type_: Any) -> Spec:
    dtype = array.dtype
    return ("leaf", kind, _CODES[dtype.kind], dtype.itemsize * 8, array.data.format, tuple(array.shape), type_)


def _leaf(value: Any) -> Spec | None:
    kind = type(value)
    if kind is int:
        return ("leaf", INT, 0, 64, "l", (), int) if -(1 << 63) <= value < 1 << 63 else None
    if kind is float:
        return ("leaf", FLOAT, 2, 64, "d", (), float)
    if kind is bool:
        return ("leaf", BOOL, 6, 8, "?", (), bool)
    if kind in (str, bytes):
        return ("leaf", TEXT, 0, 8, "B", (), kind)
    torch = sys.modules["torch"]
    if kind is torch.Tensor:
        if not _is_dense(value) or value.requires_grad or value.is_conj() or value.is_neg() or value.dim() > 7:
            return None
        leaf = _array_leaf(TENSOR, array_of(value), (kind, value.dtype, _ints_of(value.dtype)))
        return (*leaf[:2], 4, *leaf[3:]) if value.dtype == torch.bfloat16 else leaf
    if kind is np.ndarray or isinstance(value, np.generic):
        array = np.asarray(value)
        good = kind is not np.uint64  # a number that torch.as_tensor refuses
        good = (
            good
            and array.dtype.kind in _CODES
            and array.dtype.isnative
            and array.ndim <= 7
            and array.dtype.name in _torch_names().values()
        )
        return _array_leaf(ARRAY if kind is np.ndarray else SCALAR, array, kind) if good else None
    return None


def describe(sample: Any) -> Spec | None:
    """The layout of samples that look like this one. None: only the collate function can make batches of them."""
    left = _PARTS

    def look(value: Any, depth: int) -> Spec | None:
        nonlocal left
        kind = type(value)
        left -= 1
        if left < 0 or depth > 12:
            return None
        if kind not in (tuple, list, dict):
            return _leaf(value)
        parts = []
        for part in value.values() if kind is dict else value:
            found = look(part, depth + 1)
            if found is None:
                return None
            parts.append(found)
        if not parts:
            return None
        return ("dict", list(value), parts) if kind is dict else (kind.__name__, parts)

    return look(sample, 0)


def leaves(spec: Spec) -> list[Spec]:
    """The leaves of a layout, in its order."""
    return [spec] if spec[0] == "leaf" else [leaf for part in spec[-1] for leaf in leaves(part)]


def buffers_of(spec: Spec) -> int:
    """The number of buffers of a batch: one for each array, and one for all texts."""
    kinds = [leaf[1] for leaf in leaves(spec)]
    return len(kinds) - max(0, kinds.count(TEXT) - 1)


def rebuild(spec: Spec, arrays: Sequence[np.ndarray[Any, Any]], row: int, texts: list[Any]) -> Any:
    """The sample that was written to `row` of a layout's buffers. `texts`: those of the row."""
    buffers, texts_left = iter(arrays), iter(texts)

    def one(part: Spec) -> Any:
        if part[0] == "dict":
            return {key: one(value) for key, value in zip(part[1], part[2])}
        if part[0] != "leaf":
            made = [one(value) for value in part[1]]
            return tuple(made) if part[0] == "tuple" else made
        kind, type_ = part[1], part[6]
        if kind == TEXT:
            return next(texts_left)
        cell = next(buffers)[row]
        if kind == TENSOR:
            torch = sys.modules["torch"]
            found = torch.from_numpy(np.array(cell))
            return found.view(type_[1]) if type_[2] is not None else found
        return np.array(cell) if kind == ARRAY else type_(cell)

    return one(spec)


def dtype_of(leaf: Spec) -> np.dtype[Any]:
    """The type as which a leaf's values lie in memory."""
    code, bits = leaf[2], leaf[3]
    return np.dtype("bool" if code == 6 else f"{'iuf?ic'[code]}{bits // 8}")


def arrays_of(spec: Spec, slots: Sequence[_leat.Slot], rows: int) -> list[np.ndarray[Any, Any]]:
    """The buffers of a batch as arrays of shape (rows, ...)."""
    found = []
    for leaf, slot in zip([leaf for leaf in leaves(spec) if leaf[1] != TEXT], slots):
        dtype, shape = dtype_of(leaf), (rows, *leaf[5])
        count = int(np.prod(shape))
        memory: Any = slot.memory(0, count * dtype.itemsize)
        found.append(np.frombuffer(memory, dtype, count).reshape(shape) if count else np.empty(shape, dtype))
    return found


def tensors_of(spec: Spec) -> list[tuple[tuple[int, ...], Any]]:
    """(shape of a row, dtype) of the tensors of a batch."""
    names = {name: dtype for dtype, name in _torch_names().items()}
    arrays = [leaf for leaf in leaves(spec) if leaf[1] != TEXT]
    return [(leaf[5], leaf[6][1] if leaf[1] == TENSOR else names[dtype_of(leaf).name]) for leaf in arrays]


# ---- odd objects -----------------------------------------------------------------------------------------------------


def _tensor(array: np.ndarray[Any, Any], dtype: Any, order: tuple[int, ...] | None, needs_gradients: bool) -> Any:
    """A tensor that was sent as an array, whose dimensions are in `order`. `dtype`: the dtype of its view, or None."""
    import torch

    tensor = torch.from_numpy(array)
    if dtype is not None:
        tensor = tensor.view(dtype)
    if order is not None:
        tensor = tensor.permute(tuple(np.argsort(order)))
    return tensor.requires_grad_() if needs_gradients else tensor


class _Pickler(pickle.Pickler):
    """Sends tensors as arrays, so that their bytes go out of band."""

    def reducer_override(self, value: Any) -> Any:
        torch = sys.modules.get("torch")
        if torch is None or type(value) is not torch.Tensor or not _is_dense(value):
            return NotImplemented
        if value.requires_grad and not value.is_leaf:
            return NotImplemented
        needs_gradients, value = value.requires_grad, value.detach()
        value = value.resolve_conj().resolve_neg()
        ints, dtype = _ints_of(value.dtype), None
        if ints is not None:
            value, dtype = value.view(ints), value.dtype
        order = None
        if not value.is_contiguous():  # channels_last, for one, is kept
            order = tuple(sorted(range(value.dim()), key=lambda d: -value.stride(d)))
            if value.permute(order).is_contiguous():
                value = value.permute(order)
            else:
                value, order = value.contiguous(), None
        return _tensor, (value.numpy(), dtype, order, needs_gradients)


_ROOM = struct.Struct("<QQQ")  # bytes of the skeleton, its place, whether places of buffers are with it


def put(value: Any, room: memoryview | None) -> tuple[bytes, list[tuple[int, int]], int | None] | None:
    """Puts a value into a slot, where :func:`fetch` finds it; None. A value that does not fit: as :func:`encode`."""
    data, places, fd = encode(value, room)
    if room is None or fd is not None:
        return data, places, fd
    at = places_end(places)
    blob = pickle.dumps((data, places)) if places else data
    if at + len(blob) > room.nbytes:
        return data, places, fd
    room[at : at + len(blob)] = blob
    _ROOM.pack_into(room, 0, len(blob), at, bool(places))
    return None


def fetch(slot: _leat.Slot) -> tuple[Any, int]:
    """The value that :func:`put` put into a slot, and how much of it that takes."""
    head: Any = slot.memory(0, _ROOM.size)
    size, at, has_places = _ROOM.unpack(head)
    blob: Any = slot.memory(at, size)
    data, places = pickle.loads(blob) if has_places else (blob, [])
    return decode(data, places, None, slot), at + size


def places_end(places: list[tuple[int, int]]) -> int:
    """The ends of the buffers at these places."""
    return max((-(-(offset + size) // _ALIGN) * _ALIGN for offset, size in places), default=_ALIGN)


def _dumps(value: Any, keep: Callable[[pickle.PickleBuffer], bool]) -> bytes:
    out = io.BytesIO()
    _Pickler(out, protocol=5, buffer_callback=keep).dump(value)
    return out.getvalue()


def encode(value: Any, room: memoryview | None = None) -> tuple[bytes, list[tuple[int, int]], int | None]:
    """A value as (skeleton, [(offset, bytes) of its buffers], descriptor of the file that holds them, or None: `room`
    does).

    The caller closes the descriptor.
    """
    buffers: list[memoryview] = []

    def keep(buffer: pickle.PickleBuffer) -> bool:
        raw = buffer.raw()
        if raw.nbytes < _SMALL:
            return True
        buffers.append(raw)
        return False

    try:
        data = _dumps(value, keep)
    except (pickle.PicklingError, AttributeError, TypeError):
        import cloudpickle

        buffers.clear()
        data = bytes(cloudpickle.dumps(value, protocol=5, buffer_callback=keep))
    places, end = [], _ALIGN  # the part before is the caller's
    for raw in buffers:
        places.append((end, raw.nbytes))
        end += (raw.nbytes + _ALIGN - 1) // _ALIGN * _ALIGN
    if not buffers:
        return data, [], None
    if room is not None and end <= room.nbytes:
        for raw, (offset, size) in zip(buffers, places):
            room[offset : offset + size] = raw
        return data, places, None
    fd = _leat.memory_file(end)
    try:
        with mmap.mmap(fd, end) as file, memoryview(file) as view:
            for raw, (offset, size) in zip(buffers, places):
                view[offset : offset + size] = raw
    except BaseException:
        os.close(fd)
        raise
    return data, places, fd


def decode(data: bytes, places: list[tuple[int, int]], fd: int | None, slot: _leat.Slot | None) -> Any:
    """The value that :func:`encode` was given, with arrays over the slot or the file. Owns the descriptor."""
    buffers: list[Any] = []
    if fd is not None:
        try:
            file = mmap.mmap(fd, 0)
        finally:
            os.close(fd)
        buffers = [memoryview(file)[offset : offset + size] for offset, size in places]
    elif places:
        assert slot is not None
        buffers = [slot.memory(offset, size) for offset, size in places]
    return pickle.loads(data, buffers=buffers)


# ---- exceptions ------------------------------------------------------------------------------------------------------


class _Text(str):
    """A message whose repr is itself: KeyError shows the repr of its argument."""

    def __repr__(self) -> str:
        return str(self)


def pack_error(error: BaseException, where: str) -> tuple[bytes | None, str, str]:
    """Any exception, KeyboardInterrupt too, as (its class, pickled; its name; its text with the traceback)."""
    import traceback

    text = f"Caught {type(error).__name__} {where}.\nOriginal {''.join(traceback.format_exception(error))}"
    try:
        data: bytes | None = encode(type(error))[0]
    except Exception:
        data = None
    return data, type(error).__name__, text


def _same_class(kind: Any) -> Any:
    """This process's class of which `kind` is a copy, if it was sent by value because a function made it."""
    if getattr(sys.modules.get(kind.__module__), kind.__name__, None) is kind:
        return kind
    found = [
        c for base in kind.__bases__ for c in base.__subclasses__() if c is not kind and c.__name__ == kind.__name__
    ]
    return next((c for c in reversed(found) if c.__module__ == kind.__module__), kind)


def unpack_error(packed: tuple[bytes | None, str, str]) -> BaseException:
    """An exception of the original's class with that text; a RuntimeError if the class cannot be found or made."""
    data, _, text = packed
    kind: Any = RuntimeError
    try:
        kind = _same_class(pickle.loads(data)) if data is not None else RuntimeError
        if issubclass(kind, (StopIteration, SystemExit, KeyboardInterrupt, GeneratorExit)):
            kind = RuntimeError  # these mean something else here than there
        made: BaseException = kind(_Text(text) if kind is KeyError else text)
    except Exception:
        made = RuntimeError(text)
    return made
