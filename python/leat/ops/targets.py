"""Operators on boxes, and on values of varying length."""

import json
from collections.abc import Mapping
from dataclasses import KW_ONLY
from typing import Annotated, Any

from .. import check
from ..data.schema import box_format
from . import arguments as a
from .base import Operator

__all__ = ["ClampBoundingBoxes", "ConvertBoundingBoxFormat", "PadTo", "SanitizeBoundingBoxes"]


def _labels(what: str, labels: Any) -> Any:
    if labels == "default":
        return labels
    names = () if labels is None else (labels,) if isinstance(labels, str) else labels
    if not isinstance(names, (list, tuple)) or not all(isinstance(n, str) for n in names):
        raise TypeError(f"{what} is 'default', a name of a field, a list of names or None, not {labels!r:.60}")
    return tuple(names)


def _padding(what: str, fill: Any) -> Any:
    if isinstance(fill, Mapping):
        return {str(k): a.numbers(what, [v])[0] for k, v in fill.items()}
    return a.numbers(what, [fill])[0]


_clamping = a.choice("auto", "soft", "hard", "none")


class SanitizeBoundingBoxes(Operator):
    """Leaves out boxes that are too small or reach outside the image, with the rows of other fields that go with them.

    Args:
        min_size: pixels of a box's shorter side at least.
        min_area: square pixels of a box at least.
        labels_getter: the fields of the tuple that go with the boxes: ``"default"``, every array whose first dimension
            varies, which then has one row per box; a name or a list of names; None for none. Keypoints always do.
        min_visibility: the share of a box's area that has to be left of it by all that has cut it off before: crops,
            turns, a mosaic's canvas, :class:`ClampBoundingBoxes`. As in Albumentations.

    Put it last, after the operators that move the image: boxes outside a crop are empty then. As in torchvision, a box
    that reaches beyond the image is left out too, unless it is by a rounding (2^-20 of the side).
    :class:`ClampBoundingBoxes` before it cuts such a box off instead.

    >>> leat.ops.SanitizeBoundingBoxes(min_size=2)
    SanitizeBoundingBoxes(min_size=2.0, min_area=1.0, labels_getter='default', min_visibility=0.0)
    """

    min_size: Annotated[float, a.number(1)] = 1.0
    min_area: Annotated[float, a.number(1)] = 1.0
    labels_getter: Annotated[Any, _labels] = "default"
    _: KW_ONLY
    min_visibility: Annotated[float, a.number(0, 1)] = 0.0


class ClampBoundingBoxes(Operator):
    """Cuts boxes off at the edges of the image as it is at this point of the chain.

    Args:
        clamping_mode: ``"auto"``, ``"soft"`` or ``"hard"``, which are the same for boxes that are not rotated, as all
            are here; ``"none"`` or None: boxes stay as they are.

    >>> leat.ops.ClampBoundingBoxes()
    ClampBoundingBoxes(clamping_mode='auto')
    """

    clamping_mode: Annotated[str | None, lambda what, mode: _clamping(what, "none" if mode is None else mode)] = "auto"


class ConvertBoundingBoxFormat(Operator):
    """Brings boxes to another format: ``"xyxy"``, ``"xywh"`` or ``"cxcywh"``; torchvision's enum is taken too.

    Args:
        format: the format.
        normalized: True: boxes are delivered as shares of the width and height that the image has at the end of the
            chain, False: in pixels; None: in the units in which they are stored.

    >>> leat.ops.ConvertBoundingBoxFormat("CXCYWH", normalized=True)
    ConvertBoundingBoxFormat(format='cxcywh', normalized=True)
    """

    format: Annotated[Any, lambda _, format: box_format(format)]
    _: KW_ONLY
    normalized: Annotated[bool | None, a.maybe(check.flag)] = None


class PadTo(Operator):
    """Fills values of varying length up to `n` rows, so that the output is a tensor, not a :class:`leat.Ragged`. It has
    to be the last of its chain.

    Args:
        n: rows of the result.
        fill: the value of added rows: a number, or in the chain of a tuple a dict of numbers by field (0 for fields
            that it does not name). In a label 0 is a class: ``{"label": -1}`` tells added rows from it.
        cut: longer values are cut to `n` rows; else they are broken samples.

    >>> leat.ops.PadTo(100, fill={"label": -1})
    PadTo(n=100, fill={'label': -1.0}, cut=False)
    """

    n: Annotated[int, a.whole(1)]
    fill: Annotated[Any, _padding] = 0
    _: KW_ONLY
    cut: a.Flag = False

    def __hash__(self) -> int:
        return hash((self.n, json.dumps(self.fill), self.cut, self.name))
