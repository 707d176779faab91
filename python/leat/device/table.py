"""Rows by their numbers: gathered by a card from the host's memory, or here."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import _leat, check
from ..closing import Closing
from ..data.schema import dtype_name, held
from ..errors import ClosedError
from ..stores.values import Array, is_tensor
from .card import Card, card_of, nvrtc_path
from .sources import in_memory, table_of


def rows(
    source: Any,
    field: str | None = None,
    *,
    dtype: Any = None,
    device: Any = None,
    budget_bytes: int | None = None,
    num_threads: int | str = "auto",
) -> Rows:
    """A table in the host's memory whose rows are gathered by their numbers: ``rows[ids]``.

    On a card, the card itself reads the rows over the bus, into a CUDA tensor on the current stream: no processor
    collects them first, and nothing waits. Elsewhere threads gather them into an array or tensor. The values are the
    same.

    A card reads ordinary memory in place: it is pinned once, as the table is opened, which takes as long as a copy. A
    mapped file cannot be pinned, nor can memory that the driver refuses: these are copied into pinned memory, as a
    whole; or, if they are larger than `budget_bytes`, staged: threads collect the rows of each call in pinned memory. A
    store is copied on every machine: its rows lie apart in the file, and change; the table has those of the moment at
    which it was opened.

    Args:
        source: a NumPy array (a memory map, too) or tensor of the host of shape ``(n, ...)``, whose rows lie one behind
            the other; a :class:`leat.Store` with a row for each id from 0 on; a :class:`leat.Dataset`. It may be
            written to meanwhile; rows gathered then are those of before or after.
        field: of the data set; of a store that has several.
        dtype: that of the rows gathered: the source's; ``float32``, which other numbers become exactly or rounded to
            the nearest, even; ``float16`` or ``bfloat16``, which those float32 become by being rounded so, as by
            ``tensor.to``. None: the source's.
        device: ``"cuda"``, ``"cuda:1"``, ``"cpu"``. None: PyTorch's current card if it is imported and sees one, else
            the processor.
        budget_bytes: bound of a copy, or of the memory by which rows are staged. None: half of the memory that this
            process may use, less what loaders have.
        num_threads: of the processor, or ``"auto"``.

    Raises:
        TypeError: such a source or field has no rows of one size.
        ValueError: its rows do not lie one behind the other; a store lacks one; a store is larger than `budget_bytes`,
            or 32 rows of another source are (:class:`leat.BudgetError`).
        NotImplementedError: no driver, card or compiler for kernels, or too old (:class:`leat.UnsupportedError`).
        MemoryError: pinned memory was refused. OSError: the card is another process's, or lost; the file was cut.

    >>> features = leat.device.rows(np.arange(12, dtype=np.float16).reshape(4, 3), dtype="float32", device="cpu")
    >>> features[np.array([3, 0])].tolist()
    [[9.0, 10.0, 11.0], [0.0, 1.0, 2.0]]
    """
    card = card_of(device)
    budget = 0 if budget_bytes is None else check.integer("budget_bytes", budget_bytes, 1)
    table = table_of(source, field, budget)
    as_ = table.dtype if dtype is None else dtype_name(dtype)
    if as_ not in (table.dtype, "float32", "float16", "bfloat16"):
        raise TypeError(f"rows of {table.dtype} come as they are or as float32, float16 or bfloat16, not as {as_}")
    shape = table.array.shape
    core = _leat.DeviceRows.open(
        table.array,
        table.dtype,
        shape[0],
        int(np.prod(shape[1:])),
        table.path,
        in_memory(table.path),
        -1 if card is None else card.number,
        budget,
        check.threads(num_threads),
        None if card is None else nvrtc_path(),
    )
    return Rows(core, shape, as_, card)


FIRST_PART = 1 << 13  # ids, a multiple of 16; each part is twice the last: the card has work while one is prepared


class Rows(Closing):
    """Rows of a table, by their numbers. Made by :func:`leat.device.rows`; may be used from any thread.

    Attributes:
        shape: of the table: ``(n, ...)``.
        dtype: of the rows that are gathered, such as ``"float32"``.
        device: ``"cpu"``, or the card that gathers: ``"cuda:0"``.
        in_place: whether they are read where the source has them; else through a copy, or staged.
        staged: whether each call first collects its rows in pinned memory, for the card; ids are needed here then.
    """

    def __init__(self, core: _leat.DeviceRows, shape: tuple[int, ...], dtype: str, card: Card | None) -> None:
        self._core: _leat.DeviceRows | None = core
        self._card = card
        self.shape, self.dtype = shape, dtype
        self.device = "cpu" if card is None else card.name
        self.in_place, self.staged = core.in_place(), core.staged()
        if card is not None:
            core.gather_there(0, True, 0, dtype, 0, card.stream())  # its kernel is made now, not in a step

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        return f"<leat.device.Rows of shape {self.shape}, {self.dtype}, gathered by {self.device}>"

    def close(self) -> None:
        """Ends it, once calls of other threads and the card's work are done; tensors that it made stay valid."""
        self._core = None

    def _open(self) -> _leat.DeviceRows:
        core = self._core
        if core is None:
            raise ClosedError("the rows are closed")
        return core

    def __getitem__(self, ids: Any) -> Any:
        """The rows of these numbers, in their order: shape ``ids.shape + shape[1:]``.

        Args:
            ids: int64 or int32, each from 0 to ``len(rows) - 1``; of any shape, a tensor or array. On a card: there or
                here.

        Returns:
            On a card a CUDA tensor, made on the current stream. Elsewhere a tensor if `ids` is one, else an array
            (bfloat16, which NumPy lacks, as uint16: its bits).

        Raises:
            IndexError: an id is below 0 or not below ``len(rows)``; the text names it. For ids that are on the card,
                the next call or :meth:`synchronize` raises it, and the row is zero.
            TypeError: ids are of another dtype, or on another device.
        """
        core = self._open()
        if self._card is not None:
            return self._gathered_there(core, self._card, ids)
        tensor = is_tensor(ids)
        if tensor and not ids.is_cpu:
            raise TypeError(f"ids are on {ids.device}, and these rows are gathered by the processor: give ids.cpu()")
        wanted = _checked(ids)
        # NumPy asks the system for huge pages, which halves the time of large calls; PyTorch does not
        out = np.empty(wanted.shape + self.shape[1:], held(self.dtype))
        core.gather(wanted, wanted.itemsize == 8, self.dtype, out)
        return _tensor(out, self.dtype) if tensor else out

    def _gathered_there(self, core: _leat.DeviceRows, card: Card, ids: Any) -> Any:
        stream = card.stream()
        core.check(stream, False)
        if self.staged:
            wanted = _checked(ids.cpu() if is_tensor(ids) else ids)
            out = card.empty(wanted.shape + self.shape[1:], self.dtype)
            place = wanted.ctypes.data
            core.gather_there(place, wanted.itemsize == 8, wanted.size, self.dtype, out.data_ptr(), stream)
            return out
        if not is_tensor(ids) or not card.has(ids):
            if is_tensor(ids) and ids.device.type != "cpu":
                raise TypeError(f"ids are on {ids.device}, and these rows are gathered by {card.name}")
            return self._gathered_in_parts(core, card, _checked(ids), stream)
        _check_kind(ids)
        ids = ids.contiguous()
        out = card.empty(tuple(ids.shape) + self.shape[1:], self.dtype)
        if out.numel():
            core.gather_there(ids.data_ptr(), ids.itemsize == 8, ids.numel(), self.dtype, out.data_ptr(), stream)
        return out

    def _gathered_in_parts(self, core: _leat.DeviceRows, card: Card, wanted: Array, stream: int) -> Any:
        """Of ids that are here: the card gathers those of a part while the next ones are looked at and sent."""
        out = card.empty(wanted.shape + self.shape[1:], self.dtype)
        ids, wide, n = wanted.reshape(-1), wanted.itemsize == 8, wanted.size
        row_bytes = out.nbytes // n if n else 0
        begin, part = 0, FIRST_PART
        while begin < n:
            end = min(begin + part, n)
            core.look(ids, wide, begin, end)
            if row_bytes:
                there = card.ids(ids[begin:end])
                place = out.data_ptr() + begin * row_bytes
                core.gather_there(there.data_ptr(), wide, end - begin, self.dtype, place, stream)
            begin, part = end, 2 * part
        return out

    def synchronize(self) -> None:
        """Waits until the card has gathered what the current stream has asked for; returns at once elsewhere.

        Raises:
            IndexError: an id named no row; the text has the first that the card met.
        """
        core = self._open()
        if self._card is not None:
            core.check(self._card.stream(), True)


def _check_kind(ids: Any) -> None:
    if str(ids.dtype) not in ("torch.int64", "torch.int32"):
        raise TypeError(f"ids are int64 or int32, not {ids.dtype}")


def _checked(ids: Any) -> Array:
    """Ids that are here, as a contiguous array of int64 or int32."""
    if is_tensor(ids):
        _check_kind(ids)  # of some PyTorch makes no array
    made = ids.detach().numpy() if is_tensor(ids) else np.asarray(ids)
    if made.size == 0 and made.dtype == np.float64 and not isinstance(ids, np.ndarray):  # an empty list
        made = made.astype(np.int64)
    if made.dtype not in (np.int64, np.int32):
        raise TypeError(f"ids are int64 or int32, not {made.dtype}")
    good = made.flags.c_contiguous and made.flags.aligned
    return made if good else np.require(made, requirements=("C", "A"))


def _tensor(array: Array, dtype: str) -> Any:
    import torch

    return (
        torch.from_numpy(array.view(np.int16)).view(torch.bfloat16) if dtype == "bfloat16" else torch.from_numpy(array)
    )
