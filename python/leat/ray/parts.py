"""Rows that were made in the cluster: how they travel, and the batch that they are put together to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from .. import _leat
from ..data.schema import Field
from ..errors import BrokenSampleError
from ..loading.applying import OpenProgram
from ..loading.batch import Batch
from ..loading.cutting import Tail
from ..program import Out

Array = np.ndarray[Any, Any]
SMALL = ("ids", "domains", "row_keys", "valid")
Found = tuple[str, int, str, bool, bool]  #: name, kind, dtype, whether its rows vary in length, or are images that do


class Made(NamedTuple):
    """Rows of a batch as they travel: flat arrays, and what says how they lie.

    `outputs` has of each output what the engine says of it, its values, and the offsets of rows (None: they have one
    length), or ``(begin, shape, strides)`` of each image of open size, or the order of axes in which they lie.
    """

    outputs: list[tuple[Found, Array, Any]]
    ids: Array
    domains: Array
    row_keys: Array
    valid: Array
    errors: list[tuple[int, int, int, str]]  #: row among these, planned and delivered sample id (-1: none), reason
    planned: int  #: rows that were planned
    node: str  #: who made them
    sparse: dict[
        str, int
    ]  #: outputs of sparse rows, which have their columns beside them, and how many columns each has

    @property
    def nbytes(self) -> int:
        return sum(int(values.nbytes) for _, values, _ in self.outputs)


def made_of(batch: Batch, planned: int, node: str) -> Made:
    """The rows of a batch that the engine has made, over its memory."""
    core = batch._core
    assert core is not None
    outputs: list[tuple[Found, Array, Any]] = []
    for i, found in enumerate(core.outputs()):
        if found is None:
            continue
        values = np.asarray(core.memory(i))
        lie: Any = None
        if found[4]:
            lie = core.images(i)
        elif found[3]:
            lie = np.asarray(core.memory_offsets(i))
        elif not values.flags.c_contiguous:
            lie = tuple(sorted(range(values.ndim), key=lambda axis: -values.strides[axis]))
            values = values.transpose(lie)
        outputs.append((found, values, lie))
    ids, domains, keys, valid = (np.asarray(of()) for of in (core.ids, core.domains, core.row_keys, core.valid))
    return Made(outputs, ids, domains, keys, valid, core.errors(), planned, node, batch._form.sparse)


def owned(made: Made) -> Made:
    """The same in memory of its own."""
    outputs = [(f, v.copy(), lie.copy() if isinstance(lie, np.ndarray) else lie) for f, v, lie in made.outputs]
    return made._replace(outputs=outputs, **{name: getattr(made, name).copy() for name in SMALL})


def joined(parts: Sequence[Made]) -> Made:
    """Rows that follow each other, as one: each value is copied once."""
    full = [part for part in parts if len(part.ids)]
    errors, before = [], 0
    for part in parts:
        errors += [(before + row, planned, delivered, why) for row, planned, delivered, why in part.errors]
        before += part.planned
    outputs: list[tuple[Found, Array, Any]] = []
    for several in zip(*(part.outputs for part in full), strict=True):
        found = several[0][0]
        values = np.concatenate([v for _, v, _ in several])
        starts = np.cumsum([0, *(len(v) for _, v, _ in several)]).tolist()
        lie: Any = None
        if found[4]:
            lie = [(at + begin, *rest) for at, (_, _, rows) in zip(starts, several) for begin, *rest in rows]
        elif isinstance(several[0][2], tuple):
            lie = several[0][2]
        elif found[3]:
            lie = np.concatenate([several[0][2][:1], *(at + o[1:] for at, (_, _, o) in zip(starts, several))])
        outputs.append((found, values, lie))
    ids, domains, keys, valid = (np.concatenate([getattr(part, name) for part in parts]) for name in SMALL)
    return Made(outputs, ids, domains, keys, valid, errors, before, "", full[0].sparse if full else {})


def rows_between(made: Made, a: int, b: int) -> Made:
    """The planned rows from `a` up to `b`: views."""
    if (a, b) == (0, made.planned):
        return made
    gone = sorted(row for row, _, delivered, _ in made.errors if delivered < 0)
    first, end = (k - sum(row < k for row in gone) for k in (a, b))
    outputs = []
    for found, values, lie in made.outputs:
        cut: Any = lie
        if found[4]:
            ends = [begin for begin, *_ in lie] + [len(values)]
            cut = [(begin - ends[first], *rest) for begin, *rest in lie[first:end]]
            values = values[ends[first] : ends[end]]
        elif found[3]:
            cut = lie[first : end + 1] - lie[first]
            values = values[int(lie[first]) : int(lie[end])]
        elif lie is None or lie[0] == 0:
            values = values[first:end]
        outputs.append((found, values, cut))
    small = {name: getattr(made, name)[first:end] for name in SMALL}
    errors = [(row - a, planned, delivered, why) for row, planned, delivered, why in made.errors if a <= row < b]
    return made._replace(outputs=outputs, errors=errors, planned=b - a, **small)


class Assembled:
    """A batch that was put together here, in the role of one of the engine (``_leat.Batch``): memory and offsets of
    each output, ids and the like.
    """

    def __init__(self, rows: Made, place: tuple[int, int], late: _leat.Batch | None, of: Mapping[str, int]) -> None:
        """`late`: the outputs of tails, of which `of` has the numbers."""
        self._rows, self._place, self._late, self._of = rows, place, late, of

    def at(self, epoch: int, step: int) -> Assembled:
        """The same batch at another place."""
        return Assembled(self._rows, (epoch, step), self._late, self._of)

    @property
    def sparse(self) -> dict[str, int]:
        """The outputs of sparse rows, and how many columns each has."""
        return self._rows.sparse

    def outputs(self) -> list[Found | None]:
        late = () if self._late is None else self._late.outputs()
        return [late[self._of[f[0]]] if f[0] in self._of else f for f, _, _ in self._rows.outputs]

    def _where(self, i: int) -> tuple[_leat.Batch | None, int]:
        name = self._rows.outputs[i][0][0]
        return (self._late, self._of[name]) if name in self._of else (None, i)

    def memory(self, i: int) -> Any:
        late, k = self._where(i)
        return self._values(k) if late is None else late.memory(k)

    def _values(self, i: int) -> Array:
        _, values, lie = self._rows.outputs[i]
        return values.transpose(np.argsort(lie)) if isinstance(lie, tuple) else values

    def memory_offsets(self, i: int) -> Any:
        return self._rows.outputs[i][2]

    def dlpack(self, i: int) -> Any:
        late, k = self._where(i)
        if late is not None:
            return late.dlpack(k)
        import torch

        tensor = torch.from_numpy(self._values(i))
        bits = self._rows.outputs[i][0][2] == "bfloat16"
        return (tensor.view(torch.bfloat16) if bits else tensor).__dlpack__()

    def dlpack_offsets(self, i: int) -> Any:
        import torch

        return torch.from_numpy(self._rows.outputs[i][2]).__dlpack__()

    def images(self, i: int) -> Any:
        return self._rows.outputs[i][2]

    def text(self, i: int) -> list[str]:
        _, values, offsets = self._rows.outputs[i]
        data, ends = values.tobytes(), offsets.tolist()
        return [data[a:b].decode() for a, b in zip(ends, ends[1:])]

    def ids(self) -> Array:
        return self._rows.ids

    def domains(self) -> Array:
        return self._rows.domains

    def row_keys(self) -> Array:
        return self._rows.row_keys

    def valid(self) -> Array:
        return self._rows.valid

    def errors(self) -> list[tuple[int, int, int, str]]:
        return self._rows.errors

    def epoch(self) -> int:
        return self._place[0]

    def step(self) -> int:
        return self._place[1]

    def rows(self) -> int:
        return len(self._rows.ids)


def empty(made: Assembled) -> BrokenSampleError:
    """The error of a batch of which no row is left."""
    row, planned, _, reason = made.errors()[0]
    error = BrokenSampleError(
        f'epoch {made.epoch()}, step {made.step()}: no row of the batch is left, and on_error="skip" cannot leave out '
        f'a whole batch: open the loader with on_error="substitute" or another batch_size; the first error, of row '
        f"{row}: {reason}"
    )
    error.sample = planned
    return error


class Assembling:
    """Puts batches together: outputs without a tail are copied, the others go through their tails into memory of the
    engine.
    """

    MOST_OPEN = 8  #: programs of tails, by the shapes of what they take

    def __init__(self, tails: Sequence[Tail], num_threads: int | str) -> None:
        self._tails, self._threads = list(tails), num_threads
        self._taken = {name for tail in tails for name in tail.names}
        self._images = {tail.image for tail in tails}
        self._open: dict[Any, OpenProgram] = {}

    def batch(self, parts: Sequence[Made], epoch: int, step: int) -> Assembled:
        """The batch of these parts, which it keeps nothing of."""
        full = [part for part in parts if len(part.ids)]
        late: _leat.Batch | None = None
        of: dict[str, int] = {}
        if self._tails and full:
            late = self._run(full)
            of = {found[0]: i for i, found in enumerate(late.outputs()) if found is not None}
        rows = joined([_without(part, self._taken) for part in parts])
        return Assembled(rows, (epoch, step), late, of)

    def _run(self, parts: Sequence[Made]) -> _leat.Batch:
        fields: dict[str, Field] = {}
        columns: list[list[Any]] = []
        for i, (found, first, _) in enumerate(parts[0].outputs):
            name, _, dtype, *_ = found
            if name in self._taken:
                fields[name] = Field("array", dtype, first.shape[1:], "HWC" if name in self._images else None)
                columns.append([row for part in parts for row in part.outputs[i][1]])
        key = tuple(fields.items())
        program = self._open.pop(key, None)
        if program is None:
            outputs = {
                t.names if t.joint else t.names[0]: Out(t.names if t.joint else t.names[0], t.chain)
                for t in self._tails
            }
            program = OpenProgram(outputs, fields, columns, num_threads=self._threads)
        self._open[key] = program
        while len(self._open) > self.MOST_OPEN:
            self._open.pop(next(iter(self._open))).close()
        return program.core(columns, np.concatenate([part.row_keys for part in parts]).tobytes())

    def close(self) -> None:
        for program in self._open.values():
            program.close()
        self._open.clear()


def _without(part: Made, taken: set[str]) -> Made:
    """The part with what tails have taken named, but not copied once more."""
    outputs = [(f, v[:0] if f[0] in taken else v, lie) for f, v, lie in part.outputs]
    return part._replace(outputs=outputs)
