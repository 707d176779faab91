"""Functions in the chain of a tuple of fields: the part of it that makes the image that they see.

    chain       Decode, RandomIoUCrop, Sanitize | Map(f), RandomHorizontalFlip, Resize, ConvertBoundingBoxFormat
    the engine  the image up to the function; boxes, labels and masks through the whole chain
    workers     the function on the image, which keeps its height and width, and what stands behind it

Operators draw by their names, so the image behind the function is moved as its targets are. The engine tells the
workers the draws of targets behind a function (RandomIoUCrop).
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from .. import ops
from ..data.schema import Field, missing_field
from ..ops.branches import Branch
from ..ops.convert import _Call
from ..program import Entry, is_image

_OF_TARGETS = (ops.ClampBoundingBoxes, ops.ConvertBoundingBoxFormat, ops.PadTo, ops.SanitizeBoundingBoxes)
OF_SAMPLES = (ops.CopyPaste, ops.DetectionMixUp, ops.Mosaic)  #: a row of theirs is made of several
#: names of an image's targets in functions written for other libraries
_TARGETS = frozenset({"target", "targets", "boxes", "bboxes", "labels", "mask", "masks", "keypoints"})
_OF_SEVERAL = (*OF_SAMPLES, ops.CutMix, ops.MixUp)


@dataclass
class Cut:
    """The place at which functions take the image of a tuple."""

    entry: Entry
    image: int  #: its number among the fields
    after: int  #: the number of operators that make the input of the first function
    draws: int  #: operators behind it that are drawn by targets
    chain: list[ops.Operator]  #: of the engine: without functions
    open: bool = False


def make(entry: Entry, operators: list[ops.Operator], fields: Mapping[str, Field]) -> Cut:
    """Finds the places at which functions take the image, and checks that they can.

    Raises:
        TypeError, KeyError: they cannot.
    """
    function = next(op for op in operators if isinstance(op, ops.Map))
    where = f"{function.label} is in the chain of {', '.join(entry.names)}"
    for name in entry.fields:
        if name not in fields:
            raise missing_field(f"{where}, and the data set", name, fields)
    images = [i for i, name in enumerate(entry.fields) if is_image(fields[name])]
    if len(images) != 1:
        raise TypeError(
            f"{where}, which has {len(images)} images: a function in the chain of a tuple takes the one image of it, "
            "and its targets go past"
        )
    follows = entry.geometry or any(fields[name].role is not None for name in entry.fields)
    for op in operators:
        if follows and isinstance(op, ops.Map) and isinstance(op.function, _Call) and op.function.moves:
            raise TypeError(
                f"{op.label} is in the chain of {', '.join(entry.names)} and moves pixels, which boxes, masks, "
                "keypoints or a geometry would not follow: leat.ops.from_torchvision says by a warning why it is no "
                "operator of leat's"
            )
    for op in operators:
        second = _second_argument(op.function) if isinstance(op, ops.Map) else None
        if second in _TARGETS or second in entry.names or second in entry.fields:
            raise TypeError(
                f"{op.label} is in the chain of {', '.join(entry.names)}, and its function takes {second!r} as its "
                "second argument, which is a numpy.random.Generator: a function gets the image alone there, and "
                "boxes, masks and labels go past it"
            )
    n = operators.index(function)
    for k, op in enumerate(operators):
        name = type(op).__name__
        if isinstance(op, (ops.FiveCrop, ops.TenCrop)):
            raise TypeError(f"{where}, in which {name} makes several images of one: a function there takes one image")
        if isinstance(op, _OF_SEVERAL) and k > n:
            raise TypeError(
                f"{where} before {name}, which takes other samples as they are stored: put it behind {name}"
                if isinstance(op, OF_SAMPLES)
                else f"{where} before {name}, which mixes batches before functions run: mix in the training loop"
            )
    behind = [op for op in operators[n:] if not isinstance(op, (ops.Map, ops.ToLayout))]
    chain = [*operators[:n], *behind]
    return Cut(entry, images[0], n, n_draws(operators[n:]), chain)


def _second_argument(function: Any) -> str | None:
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return None
    places = [
        p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) and p.default is p.empty
    ]
    return places[1] if len(places) > 1 else None


def of_image(operators: Iterable[ops.Operator]) -> list[ops.Operator]:
    """Those that concern the image."""
    return [op for op in operators if not isinstance(op, _OF_TARGETS)]


def n_draws(operators: Iterable[ops.Operator]) -> int:
    """The number of them that are drawn by targets, those in branches among them."""
    return sum(
        n_draws(op.operators()) if isinstance(op, Branch) else isinstance(op, ops.RandomIoUCrop) for op in operators
    )


def by_boxes(operators: Iterable[ops.Operator], inside: bool = False) -> ops.Operator | None:
    """One that is drawn by boxes, or of a branch one that changes them: the library finds others."""
    for op in operators:
        if isinstance(op, ops.RandomIoUCrop) or (inside and isinstance(op, _OF_TARGETS)):
            return op
        found = by_boxes(op.operators(), True) if isinstance(op, Branch) else None
        if found is not None:
            return found
    return None


def by_epoch(operators: list[ops.Operator]) -> list[list[ops.Operator]]:
    """The operators as they stand in the phases of the epochs (``op.epochs``)."""
    spans = [op._values.get("epochs") for op in operators]
    begins = sorted({0, *(e for span in spans if span for e in span if e is not None)})
    return [
        [
            _always(op)
            for op, span in zip(operators, spans, strict=True)
            if span is None or span[0] <= begin and (span[1] is None or begin < span[1])
        ]
        for begin in begins
    ]


def _always(op: ops.Operator) -> ops.Operator:
    if "epochs" not in op._values:
        return op
    made = ops.named(op, op.name or "")
    object.__setattr__(made, "_values", {k: v for k, v in op._values.items() if k != "epochs"})
    object.__setattr__(made, "name", op.name)
    return made
