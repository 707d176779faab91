"""Values on their way from the model to tables: tensors of any device, without waiting for the device.

Values of a GPU are copied to pinned memory on the stream that computes them; an event behind says when they are there.
They are handed to the table by the first report, or decision, that finds the event done.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np

from .table import Array, Table

Place = tuple[int, int]  #: epoch and step


class Reports:
    """Reports to the tables that `table_of` gives by name."""

    def __init__(self, table_of: Callable[[str], Table]) -> None:
        self._table_of = table_of
        self._coming: deque[tuple[Any, str, Any, Any, Any, Place]] = deque()

    def add(self, name: str, ids: Any, values: Any, valid: Any, place: Place) -> None:
        """Takes one metric of a step over. `valid`: which rows count; None: all.

        Raises:
            TypeError: ids are no integers, or values no numbers.
            ValueError: there is not one value for each id, or one is NaN or infinite.
            IndexError: there is no such id.
        """
        _check(name, ids, values)
        event = _recorded(ids, values)
        if event is None:
            self._enter(name, _array(ids, np.int64), _array(values, np.float32), valid, place)
            return
        ids = _pinned(ids, np.int64)
        values = _pinned(values, np.float32)
        event.record()
        self._coming.append((event, name, ids, values, valid, place))

    def flush(self, wait: bool) -> None:
        """Hands over what has arrived; with `wait` all, waiting for the device."""
        while self._coming and (wait or self._coming[0][0].query()):
            event, name, ids, values, valid, place = self._coming.popleft()
            event.synchronize()
            self._enter(name, _array(ids, np.int64), _array(values, np.float32), valid, place)

    def clear(self) -> None:
        self._coming.clear()

    def _enter(self, name: str, ids: Array, values: Array, valid: Any, place: Place) -> None:
        if valid is not None:
            keep = np.asarray(valid, bool)
            ids, values = np.ascontiguousarray(ids[keep]), np.ascontiguousarray(values[keep])
        self._table_of(name).core.report(ids, values, *place)


def _is_tensor(value: Any) -> bool:
    return hasattr(value, "detach") and hasattr(value, "is_floating_point")


def _check(name: str, ids: Any, values: Any) -> None:
    shapes = []
    for what, given, kinds in (("ids", ids, "iu"), (f"{name}=", values, "fiu")):
        if _is_tensor(given):
            shapes.append(tuple(given.shape))
            right = "f" in kinds or not (given.is_floating_point() or given.is_complex())
        else:
            array = np.asarray(given)
            shapes.append(array.shape)
            right = array.dtype.kind in kinds or array.size == 0
        if not right:
            raise TypeError(f"report: {what} are {'integers' if kinds == 'iu' else 'numbers'}, one a row")
    if shapes[0] != shapes[1] or len(shapes[0]) != 1:
        raise ValueError(
            f"report: {name}= has shape {shapes[1]} and the ids {shapes[0]}: one value for each id is needed; a loss "
            "with reduction='none', averaged over all but the first dimension, is that"
        )


def _array(value: Any, dtype: Any) -> Array:
    if _is_tensor(value):
        tensor = value.detach()
        if tensor.device.type != "cpu":
            tensor = tensor.cpu()
        if dtype is np.float32 and str(tensor.dtype) != "torch.float32":
            tensor = tensor.float()
        value = tensor.numpy()
    return np.ascontiguousarray(value, dtype)


def _recorded(*given: Any) -> Any:
    """An event of the GPU that one of these lies on, or None."""
    for value in given:
        if _is_tensor(value) and value.device.type == "cuda":
            import torch

            return _Event(torch, value.device)
    return None


class _Event:
    def __init__(self, torch: Any, device: Any) -> None:
        self._stream = torch.cuda.current_stream(device)
        with torch.cuda.device(device):
            self._event = torch.cuda.Event()
        self.query = self._event.query
        self.synchronize = self._event.synchronize

    def record(self) -> None:
        self._event.record(self._stream)


def _pinned(value: Any, dtype: Any) -> Any:
    """A copy of one's own, which may still be on its way."""
    if not _is_tensor(value):
        return np.array(value, dtype)
    import torch

    kind = torch.int64 if dtype is np.int64 else torch.float32
    if value.device.type != "cuda":
        return value.detach().to(kind, copy=True)
    found = torch.empty(value.shape, dtype=kind, pin_memory=True)
    found.copy_(value.detach(), non_blocking=True)
    return found
