"""Operators on boxes, and on values of varying length."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ..data.schema import box_format
from .base import Operator, _integers, _numbers

__all__ = ["ClampBoundingBoxes", "ConvertBoundingBoxFormat", "PadTo", "SanitizeBoundingBoxes"]


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

    def __init__(
        self,
        min_size: float = 1.0,
        min_area: float = 1.0,
        labels_getter: Any = "default",
        *,
        min_visibility: float = 0.0,
        name: str | None = None,
    ) -> None:
        (size,), (area,) = _numbers("min_size", [min_size]), _numbers("min_area", [min_area])
        if size < 1 or area < 1:
            raise ValueError(f"min_size and min_area are 1 or more, not {min_size} and {min_area}")
        (share,) = _numbers("min_visibility", [min_visibility])
        if not 0 <= share <= 1:
            raise ValueError(f"min_visibility is a share, from 0 to 1, not {min_visibility}")
        labels = labels_getter
        if labels != "default":
            labels = () if labels is None else (labels,) if isinstance(labels, str) else labels
            if not isinstance(labels, (list, tuple)) or not all(isinstance(n, str) for n in labels):
                raise TypeError(
                    f"labels_getter is 'default', a name of a field, a list of names or None, not {labels_getter!r:.60}"
                )
            labels = tuple(labels)
        super().__init__(name, min_size=size, min_area=area, labels_getter=labels, min_visibility=share)


class ClampBoundingBoxes(Operator):
    """Cuts boxes off at the edges of the image as it is at this point of the chain.

    Args:
        clamping_mode: ``"auto"``, ``"soft"`` or ``"hard"``, which are the same for boxes that are not rotated, as all
            are here; ``"none"`` or None: boxes stay as they are.

    >>> leat.ops.ClampBoundingBoxes()
    ClampBoundingBoxes(clamping_mode='auto')
    """

    def __init__(self, clamping_mode: str | None = "auto", *, name: str | None = None) -> None:
        mode = "none" if clamping_mode is None else clamping_mode
        if mode not in ("auto", "soft", "hard", "none"):
            raise ValueError(f"clamping_mode is 'auto', 'soft', 'hard' or None, not {clamping_mode!r:.60}")
        super().__init__(name, clamping_mode=mode)


class ConvertBoundingBoxFormat(Operator):
    """Brings boxes to another format: ``"xyxy"``, ``"xywh"`` or ``"cxcywh"``; torchvision's enum is taken too.

    Args:
        format: the format.
        normalized: True: boxes are delivered as shares of the width and height that the image has at the end of the
            chain, False: in pixels; None: in the units in which they are stored.

    >>> leat.ops.ConvertBoundingBoxFormat("CXCYWH", normalized=True)
    ConvertBoundingBoxFormat(format='cxcywh', normalized=True)
    """

    def __init__(self, format: Any, *, normalized: bool | None = None, name: str | None = None) -> None:
        shares = None if normalized is None else bool(normalized)
        super().__init__(name, format=box_format(format), normalized=shares)


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

    def __init__(self, n: int, fill: Any = 0, *, cut: bool = False, name: str | None = None) -> None:
        (rows,) = _integers("n", n)
        if rows < 1:
            raise ValueError(f"n is a number of rows above 0, not {n}")
        if isinstance(fill, Mapping):
            value: Any = {str(k): _numbers("fill", [v])[0] for k, v in fill.items()}
        else:
            (value,) = _numbers("fill", [fill])
        super().__init__(name, n=rows, fill=value, cut=bool(cut))

    def __hash__(self) -> int:
        return hash((self.n, json.dumps(self.fill), self.cut, self.name))
