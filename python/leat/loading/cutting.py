"""The cut of a program: what is made in one place, and what is left for another one, to which the rows travel.

What crosses a network, or the link to a card, should be small. A chain for photos usually ends in operators that make
four bytes of one and change nothing else (Normalize, ToDtype): behind the cut, they run where the batch arrives.
Between machines, operators on a whole batch (MixUp, CutMix) run there as well, so that its rows can be made in several
places.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from .. import ops
from ..data.schema import Field
from ..ops import Operator
from ..ops.base import named
from ..program import Entry, Out, Outputs, entries, has_functions, is_image

#: operators that may run behind a cut: cheap ones, whose results follow from a row's values and its key, ...
_LATE = (ops.Normalize, ops.ToDtype, ops.ToLayout, ops.RandomErasing)
#: ... those of them that look at no other number, nor draw any
_VALUES = (ops.Normalize, ops.ToDtype, ops.ToLayout)
#: ... and those that see a batch as a whole
_WHOLE = (ops.MixUp, ops.CutMix)
#: operators that leave the pixels of a tuple's image as they are
_TARGETS = (ops.PadTo, ops.SanitizeBoundingBoxes, ops.ClampBoundingBoxes, ops.ConvertBoundingBoxFormat)


class Tail(NamedTuple):
    """The end of a chain: it takes the outputs of the head that have its names."""

    names: tuple[str, ...]
    image: str | None  #: the one of them that is an image, whose rows travel as (height, width, channels)
    chain: list[Operator]
    joint: bool


class Cut(NamedTuple):
    """A program in two parts."""

    head: Outputs | None
    tails: list[Tail]


def cut(outputs: Outputs | None, schema: Mapping[str, Field], *, values_only: bool = False) -> Cut:
    """Cuts each chain where its rows have the fewest bytes, as far as what is behind may run late. Programs with
    functions of Python stay whole.

    Args:
        values_only: what is behind makes one number of one number, of images alone: a table for each channel says it.
    """
    if outputs is None or has_functions(outputs):
        return Cut(outputs, [])
    found = entries(outputs)
    late = [_late(entry, schema, values_only) for entry in found]
    renamed = _names(found, late)
    head: dict[str | tuple[str, ...], Any] = dict(outputs)
    tails: list[Tail] = []
    for entry, behind in zip(found, late, strict=True):
        key = entry.names if entry.joint else entry.names[0]
        chain = [renamed.get(id(op), op) for op in entry.chain]
        if behind:
            tails.append(_tail(entry, chain, behind, schema))
            layout = [ops.ToLayout("NHWC")] if _image_of(entry, schema) else []
            at = min(behind)  # behind it there are only operators on targets
            early = [*chain[:at], *layout, *(op for i, op in enumerate(chain[at:], at) if i not in behind)]
            head[key] = Out(entry.fields if entry.joint else entry.fields[0], early, entry.geometry, entry.stack)
        elif key in head and any(id(op) in renamed for op in entry.chain):
            value = head[key]
            out = value if isinstance(value, Out) else Out(key, value)
            head[key] = dataclasses.replace(out, chain=chain)
    return Cut(head, tails)


def _image_of(entry: Entry, schema: Mapping[str, Field]) -> str | None:
    """The output of an entry that is an image."""
    return next((n for n, f in zip(entry.names, entry.fields, strict=True) if is_image(schema.get(f))), None)


def _late(entry: Entry, schema: Mapping[str, Field], values_only: bool) -> frozenset[int]:
    """The operators of a chain that run behind the cut, by their places in it."""
    image, chain = _image_of(entry, schema), entry.chain
    able_there = _VALUES if values_only else (*_LATE, *_WHOLE)
    if entry.stack or (values_only and image is None) or any(field not in schema for field in entry.fields):
        return frozenset()  # images of open size are copied as they are
    able: list[int] = []
    for i in reversed(range(len(chain))):
        op, whole = chain[i], any(isinstance(chain[k], _WHOLE) for k in able)
        if isinstance(op, _TARGETS) and entry.joint and image is not None and not whole:
            continue
        if not isinstance(op, able_there) or "epochs" in op._values:
            break
        able.insert(0, i)
    first = next((n for n, i in enumerate(able) if isinstance(chain[i], _WHOLE)), len(able))
    if image is None:  # numbers: only what sees a batch is worth a second pass
        fits = all(schema[field].role is None and None not in schema[field].shape for field in entry.fields)
        return frozenset(able[first:] if fits else ())
    sizes = _sizes(chain, schema[entry.fields[entry.names.index(image)]])
    at = [sizes[i] for i in able] + [sizes[len(chain)]]
    best = min(range(first + 1), key=lambda n: (at[n], -n))
    return frozenset(able[best:])


def _sizes(chain: Sequence[Operator], image: Field) -> list[int]:
    """The bytes of a number of an image in front of each operator, and behind the last one."""
    dtype = image.dtype if image.kind == "array" else "uint8"
    found = []
    for op in chain:
        found.append(_itemsize(dtype))
        if isinstance(op, ops.ToDtype):
            dtype = op.dtype
        elif isinstance(op, (ops.Normalize, *_WHOLE)) and np.dtype(stored(dtype)).kind in "iu" and dtype != "bfloat16":
            dtype = "float32"
    return [*found, _itemsize(dtype)]


def stored(dtype: str) -> str:
    """The dtype by which NumPy holds it: it lacks bfloat16."""
    return "uint16" if dtype == "bfloat16" else dtype


def _itemsize(dtype: str) -> int:
    return np.dtype(stored(dtype)).itemsize


def _names(found: Sequence[Entry], late: Sequence[frozenset[int]]) -> dict[int, Operator]:
    """The operators behind cuts, under the names that the whole program gives them: from these they draw."""
    best: dict[int, tuple[str, int]] = {}
    behind: dict[int, Operator] = {}
    for entry, places in zip(found, late, strict=True):
        counts: dict[type, int] = {}
        for i, op in enumerate(entry.chain):
            place = (entry.names[0], counts.get(type(op), 0))
            if id(op) not in best or place[0].encode() < best[id(op)][0].encode():
                best[id(op)] = place
            counts[type(op)] = place[1] + 1
            if i in places:
                behind[id(op)] = op
    return {
        number: op if op.name else named(op, f"{best[number][0]}/{type(op).__name__}/{best[number][1]}")
        for number, op in behind.items()
    }


def _tail(entry: Entry, chain: list[Operator], places: frozenset[int], schema: Mapping[str, Field]) -> Tail:
    image = _image_of(entry, schema)
    late = [chain[i] for i in sorted(places)]
    layouts = [op for op in chain if isinstance(op, ops.ToLayout)]
    if layouts and not any(isinstance(op, ops.ToLayout) for op in late):
        late.append(layouts[-1])
    if entry.joint and image is not None and not any(isinstance(op, _WHOLE) for op in late):
        return Tail((image,), image, late, False)
    return Tail(entry.names, image, late, entry.joint)
