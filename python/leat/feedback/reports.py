"""Values on their way from the model to tables: tensors of any device, without waiting for the device.

Values of a GPU are copied to pinned memory on the stream that computes them; an event behind says when they are there.
They are handed to the table by the first report, or decision, that finds the event done. All metrics of a report are
entered together, or none of them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from .table import Array, Table

Place = tuple[int, int]  #: epoch and step


class Reports:
    """Reports to the tables that `table_of` gives by name."""

    def __init__(self, table_of: Callable[[str], Table]) -> None:
        self._table_of = table_of
        self._coming: deque[tuple[Any, Any, dict[str, Any], Any, Place]] = deque()

    def add(self, ids: Any, values: Mapping[str, Any], valid: Any, place: Place) -> None:
        """Takes the metrics of a step over: all, or after an exception none. `valid`: the rows that count; None: all.

        Raises:
            TypeError: ids are no integers, or values no numbers.
            ValueError: there is not one value for each id, or one is NaN or infinite.
            IndexError: there is no such id.
        """
        for name, given in values.items():
            _check(name, ids, given)
        event = _recorded(ids, *values.values())
        if event is None:
            self._enter(ids, values, valid, place)
            return
        ids = _pinned(ids, np.int64)
        copies = {name: _pinned(given, np.float32) for name, given in values.items()}
        event.record()
        self._coming.append((event, ids, copies, valid, place))

    def flush(self, wait: bool) -> None:
        """Hands over the values that have arrived; with `wait` all, waiting for the device."""
        while self._coming and (wait or self._coming[0][0].query()):
            event, ids, values, valid, place = self._coming.popleft()
            event.synchronize()
            try:
                self._enter(ids, values, valid, place)
            except Exception as e:
                e.add_note(f"leat: this is about the report of step {place[1]} of epoch {place[0]}")
                raise

    def clear(self) -> None:
        self._coming.clear()

    def _enter(self, ids: Any, values: Mapping[str, Any], valid: Any, place: Place) -> None:
        of = _array(ids, np.int64)
        arrays = {name: _array(given, np.float32) for name, given in values.items()}
        if valid is not None:
            keep = np.asarray(valid, bool)
            of = np.ascontiguousarray(of[keep])
            arrays = {name: np.ascontiguousarray(array[keep]) for name, array in arrays.items()}
        tables = [(self._table_of(name).core, array) for name, array in arrays.items()]
        if len(tables) > 1:  # one that is refused comes first: then no other is entered. The ids are those of all
            tables.sort(key=lambda pair: bool(np.isfinite(pair[1]).all()))
        for core, array in tables:
            core.report(of, array, *place)


def _is_tensor(value: Any) -> bool:
    return hasattr(value, "detach") and hasattr(value, "is_floating_point")


def _check(name: str, ids: Any, values: Any) -> None:
    shapes = []
    for what, given, kinds in (("ids", ids, "iu"), (f"{name}=", values, "bfiu")):
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
    """Events of all GPUs that these lie on, as one, or None."""
    devices = {value.device for value in given if _is_tensor(value) and value.device.type == "cuda"}
    if not devices:
        return None
    import torch

    return _Events(torch, devices)


class _Events:
    def __init__(self, torch: Any, devices: set[Any]) -> None:
        self._events: list[tuple[Any, Any]] = []
        for device in devices:
            with torch.cuda.device(device):
                self._events.append((torch.cuda.Event(), torch.cuda.current_stream(device)))

    def record(self) -> None:
        for event, stream in self._events:
            event.record(stream)

    def query(self) -> bool:
        return all(event.query() for event, _ in self._events)

    def synchronize(self) -> None:
        for event, _ in self._events:
            event.synchronize()


def _pinned(value: Any, dtype: Any) -> Any:
    """A copy of one's own, which may still be on its way."""
    if not _is_tensor(value):
        return np.array(value, dtype)
    import torch

    kind = torch.int64 if dtype is np.int64 else torch.float32
    if value.device.type != "cuda":
        return value.detach().to(kind, copy=True)
    found = torch.empty(value.shape, dtype=kind, device="cpu", pin_memory=True)
    found.copy_(value.detach(), non_blocking=True)
    return found
