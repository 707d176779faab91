"""Batches on a card: what travels there, and what becomes other values there."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from .. import _leat
from ..data.schema import Field
from ..device.card import Card, nvrtc_path
from ..errors import UnsupportedError
from ..program import Out, Outputs, compiled_program
from .cutting import Tail, cut

VALUES = ("float32", "float16", "bfloat16")  #: that a table can give


class Table(NamedTuple):
    """What a card makes of the bytes of an image: ``values`` has 256 of each channel, of `dtype`; in `planes`, or
    channels `last` in a tensor of that shape, or as they come."""

    output: str
    dtype: str
    channels: int
    planes: bool
    last: bool
    values: bytes

    def told(self) -> list[Any]:
        return [*self[:5], b64encode(self.values).decode()]


def table_told(told: Sequence[Any]) -> Table:
    return Table(*told[:5], b64decode(told[5]))


def opened(
    options: Mapping[str, Any], outputs: Outputs | None, schema: Mapping[str, Field], card: Card
) -> tuple[_leat.Loader, list[Table]]:
    """The library's loader for a card: its memory pinned, and its chains up to where rows have the fewest bytes, with
    tables for the rest; or whole, where that is not made of bytes.
    """
    options = {**options, "pinning": card.number}
    head, tails = cut(outputs, schema, values_only=True)
    if head is not None and tails:
        program, functions = compiled_program(head)
        core = _leat.Loader.open(**{**options, "program": program, "functions": functions})
        try:
            tables = [table_of(tail, _leat.device_channels(core, tail.names[0])) for tail in tails]
        except BaseException:
            core.close()
            raise
        if None not in tables:
            return core, [table for table in tables if table is not None]
        core.close()
    return _leat.Loader.open(**options), []


def table_of(tail: Tail, channels: int) -> Table | None:
    """What the end of a chain makes of each byte of each channel, by the chain itself: the values there are those that
    the processor gives. None: it is not made of bytes, or makes none of :data:`VALUES`.
    """
    from .applying import OpenProgram  # here: it opens a loader

    if not channels:
        return None
    (name,) = tail.names
    ramp = np.repeat(np.arange(256, dtype=np.uint8), channels).reshape(256, 1, channels)
    fields = {name: Field("array", "uint8", ramp.shape, "HWC")}
    program = OpenProgram({name: Out(name, tail.chain)}, fields, [[ramp]], num_threads=1)
    try:
        core = program.core([[ramp]], bytes(8))
        found = core.outputs()[0]
        assert found is not None
        made = np.asarray(core.memory(0))[0]  # of bfloat16 its bits
        first = made.shape[0] == channels and made.shape[1] == 256
        planes = first and made.flags.c_contiguous
        values = made[:, :, 0] if first else made[:, 0].T
        dtype = found[2]
        return Table(name, dtype, channels, planes, first and not planes, values.tobytes()) if dtype in VALUES else None
    finally:
        program.close()


class OnCard:
    """The card of a reader: it takes its batches there."""

    def __init__(self, card: Card, ahead: int = 0, budget: int = 0) -> None:
        self.card, self.ahead, self.budget = card, ahead, budget
        self._batches: _leat.DeviceBatches | None = None

    def open(self, reader: _leat.Loader | _leat.Attached, tables: list[Table]) -> None:
        """Begins to copy the batches of a reader, with these tables."""
        nvrtc = nvrtc_path() if tables else None
        given = [tuple(table) for table in tables]
        self._batches = _leat.DeviceBatches.open(
            reader, self.card.number, self.ahead, self.budget, given, nvrtc, self.card.place
        )

    def take(self, core: _leat.Batch) -> _leat.DeviceBatch:
        """A batch of the engine there, as the card's current stream sees it."""
        assert self._batches is not None
        return self._batches.take(core, self.card.stream())

    def stats(self) -> dict[str, Any]:
        assert self._batches is not None
        found: dict[str, Any] = json.loads(self._batches.stats())
        return found

    def close(self) -> None:
        if self._batches is not None:
            self._batches.close()


def check_together(device: Any, share: Any, tp_read: Any, framework: str) -> None:
    """Refuses what does not go with a card."""
    if share is not None or tp_read == "first":
        raise UnsupportedError(
            "device= does not go with share= and tp_read='first', by which a process reads for others"
        )
    if framework != "torch":
        raise UnsupportedError(f"device={str(device)!r} gives tensors: import torch, or say framework='torch'")
