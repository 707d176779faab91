"""Batches of a loader on a card: what travels, and what becomes other values there."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from .. import _leat
from ..data.schema import Field
from ..device.card import Card, nvrtc_path
from ..errors import UnsupportedError
from ..program import Out, Outputs
from .cutting import Tail, cut

VALUES = ("float32", "float16", "bfloat16")  #: that a table can give


class OnCard:
    """The card's part of a loader: it opens the loader's program up to where its rows are smallest, and takes batches
    to the card.
    """

    def __init__(
        self, card: Card, outputs: Outputs | None, schema: Mapping[str, Field], ahead: int, budget: int
    ) -> None:
        self.card, self.ahead, self.budget = card, ahead, budget
        self.head, self.tails = cut(outputs, schema, values_only=True)
        self._batches: _leat.DeviceBatches | None = None

    def open(self, core: _leat.Loader) -> bool:
        """Begins to copy the loader's batches. False: the ends of its chains do not run there, and the loader is to be
        opened with the whole program.
        """
        tables = [table_of(tail, _leat.device_channels(core, tail.names[0])) for tail in self.tails]
        if None in tables:
            self.tails = []
            return False
        there = [table for table in tables if table is not None]
        nvrtc = nvrtc_path() if there else None
        place = self.card.place
        self._batches = _leat.DeviceBatches.open(core, self.card.number, self.ahead, self.budget, there, nvrtc, place)
        return True

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


def table_of(tail: Tail, channels: int) -> tuple[str, str, int, bool, bool, bytes] | None:
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
        return (name, dtype, channels, planes, first and not planes, values.tobytes()) if dtype in VALUES else None
    finally:
        program.close()


def check_together(device: Any, share: Any, tp_read: Any, framework: str) -> None:
    """Refuses what does not go with a card."""
    if share is not None or tp_read == "first":
        raise UnsupportedError(
            "device= does not go with share= and tp_read='first', by which a process reads for others"
        )
    if framework != "torch":
        raise UnsupportedError(f"device={str(device)!r} gives tensors: import torch, or say framework='torch'")
