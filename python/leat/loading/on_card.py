"""Batches on a card: what travels there, and what becomes other values there."""

from __future__ import annotations

import dataclasses
import json
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from .. import _leat, ops
from ..data.schema import Field
from ..device.card import Card, nvrtc_path
from ..errors import ProgramError, UnsupportedError
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
    output, dtype, channels, planes, last, values = told
    return Table(str(output), str(dtype), int(channels), bool(planes), bool(last), b64decode(values))


def opened(
    options: Mapping[str, Any], outputs: Outputs | None, schema: Mapping[str, Field], card: Card, decodes: bool
) -> tuple[_leat.Loader, list[Table]]:
    """The library's loader for a card: its memory pinned, and its chains up to where rows have the fewest bytes, with
    tables for the rest; or whole, where that is not made of bytes. `decodes`: the card makes the pixels of photos that
    it can decode, if it can do what the chain does with them.
    """
    options = {**options, "pinning": card.number}
    head, tails = cut(outputs, schema, values_only=True)
    if head is None or not tails:
        return _leat.Loader.open(**options), []
    mix = options.get("mix")
    datasets = [options["dataset"]] if mix is None else [source["dataset"] for source in mix["sources"]]
    left = [tail.names[0] for tail in tails if decodes and _is_left(head.get(tail.names[0]), datasets)]
    core = _up_to_the_cut(options, head, left)
    try:
        tables = [table_of(tail, _leat.device_channels(core, tail.names[0])) for tail in tails]
    except BaseException:
        core.close()
        raise
    if None not in tables:
        return core, [table for table in tables if table is not None]
    core.close()
    return _leat.Loader.open(**options), []


def _up_to_the_cut(options: Mapping[str, Any], head: Outputs, left: list[str]) -> _leat.Loader:
    """The loader of the program's head, which leaves the photos of some outputs to the card: those of which it can do
    all that stands between."""
    while True:
        program, functions = _program(head, left)
        try:
            return _leat.Loader.open(**{**options, "program": program, "functions": functions})
        except ProgramError as e:
            if not left:
                raise
            left = [name for name in left if name != e.field] if e.field in left else []


def _is_left(out: Any, datasets: Sequence[_leat.Dataset]) -> bool:
    """Whether a card may decode the photos of an output: the chain in front of the cut, and their form, are right."""
    if not isinstance(out, Out) or not isinstance(out.field, str):
        return False
    chain: Any = out.chain  # the head's: a list
    return (
        isinstance(chain[0], ops.Decode)
        and chain[0].mode == "RGB"
        and all(_leat.device_decodes(dataset, out.field) for dataset in datasets)
    )


def _program(head: Outputs, left: Sequence[str]) -> tuple[str, list[Any]]:
    """The program of the loader, which leaves photos of some outputs to a card."""
    changed = dict(head)
    for name in left:
        out: Any = head[name]
        changed[name] = dataclasses.replace(out, chain=[*out.chain][:-1])  # a card has its own layout
    program, functions = compiled_program(changed)
    if left:
        parsed = json.loads(program)
        for name in left:
            parsed["outputs"][name]["decode"] = "card"
        program = json.dumps(parsed)
    return program, functions


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
        self._batches = _leat.DeviceBatches.open(
            reader, self.card.number, self.ahead, self.budget, [*tables], nvrtc, self.card.place
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


def check_together(
    card: Card, share: Any, tp_read: Any, framework: str, gathered: Mapping[str, tuple[Any, str]]
) -> None:
    """Refuses what does not go with a card."""
    for name, (rows, _) in gathered.items():
        if rows.device != card.name:
            raise UnsupportedError(
                f"store {name!r}: its rows are gathered by {rows.device}, and the batch is on {card.name}: give "
                f"leat.device.rows(..., device={card.name!r})"
            )
    if share is not None or tp_read == "first":
        raise UnsupportedError(
            "device= does not go with share= and tp_read='first', by which a process reads for others"
        )
    if framework != "torch":
        raise UnsupportedError(f"device={card.name!r} gives tensors: import torch, or say framework='torch'")
