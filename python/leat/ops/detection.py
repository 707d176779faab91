"""Operators of detectors' recipes, for the chains of tuples with boxes: moves by the boxes, and around them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .base import Operator, _chance, _fill, _integers, _interpolation, _numbers, _pair, _square
from .geometry import _RESIZES

__all__ = [
    "Letterbox",
    "RandomIoUCrop",
    "RandomResize",
    "RandomShortestSize",
    "RandomSizeCrop",
    "RandomZoomOut",
    "ScaleJitter",
]


class RandomZoomOut(Operator):
    """Puts the image at a random place of a larger canvas, with probability `p`.

    Args:
        fill: of the rest of the canvas: a number, one per channel, or a dict of these by kind, ``{"image": ...,
            "mask": ...}``.
        side_range: (low, high) of the canvas's sides, as multiples of the image's.
        p: how often.

    A resize behind it makes only the pixels that are needed: no canvas is filled. Source: Liu et al., "SSD: Single Shot
    MultiBox Detector", ECCV 2016.

    >>> leat.ops.RandomZoomOut(fill=(124, 116, 104))
    RandomZoomOut(fill=(124.0, 116.0, 104.0), side_range=(1.0, 4.0), p=0.5)
    """

    _moves = True

    def __init__(self, fill: Any = 0, side_range: Any = (1.0, 4.0), p: float = 0.5, *, name: str | None = None) -> None:
        sides = _pair("side_range", side_range)
        if sides[0] < 1:
            raise ValueError(f"side_range is (low, high) with low from 1, not {side_range!r}")
        super().__init__(name, fill=_fill(fill), side_range=sides, p=_chance(p))


class RandomIoUCrop(Operator):
    """Crops so that the middle of at least one box stays, and the crop overlaps such a box by a drawn share.

    Args:
        min_scale: of the crop's sides, as shares of the image's.
        max_scale: of the crop's sides.
        min_aspect_ratio: of width / height of the crop.
        max_aspect_ratio: of width / height of the crop.
        sampler_options: the least overlap (intersection over union) is one of these; 1 or more leaves the image whole.
            None: 0, 0.1, 0.3, 0.5, 0.7, 0.9 and 1.
        trials: crops that are tried before another overlap is drawn.

    Boxes whose middle is left behind become empty, (0, 0, 0, 0): :class:`SanitizeBoundingBoxes` behind it leaves them
    out. It takes the chain of a tuple with boxes. Source: Liu et al., "SSD: Single Shot MultiBox Detector", ECCV 2016.

    >>> leat.ops.RandomIoUCrop(trials=20).sampler_options
    (0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 1.0)
    """

    _moves = True

    def __init__(
        self,
        min_scale: float = 0.3,
        max_scale: float = 1.0,
        min_aspect_ratio: float = 0.5,
        max_aspect_ratio: float = 2.0,
        sampler_options: Any = None,
        trials: int = 40,
        *,
        name: str | None = None,
    ) -> None:
        options = (0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 1.0) if sampler_options is None else sampler_options
        scales = _pair("min_scale, max_scale", (min_scale, max_scale))
        ratios = _pair("min_aspect_ratio, max_aspect_ratio", (min_aspect_ratio, max_aspect_ratio))
        if not 0 <= scales[0] <= scales[1] <= 1:
            raise ValueError(f"min_scale and max_scale are from 0 to 1, not {scales}")
        if ratios[0] <= 0:
            raise ValueError(f"min_aspect_ratio is above 0, not {min_aspect_ratio}")
        (tries,) = _integers("trials", trials)
        super().__init__(
            name,
            min_scale=scales[0],
            max_scale=scales[1],
            min_aspect_ratio=ratios[0],
            max_aspect_ratio=ratios[1],
            sampler_options=_numbers("sampler_options", options),
            trials=tries,
        )


class ScaleJitter(Operator):
    """Resizes to a random multiple of the size that fits into a target, keeping the ratio of the sides.

    Args:
        target_size: two sides; as in torchvision, the height is fitted into the second one and the width into the
            first.
        scale_range: (low, high) of the multiple.
        interpolation: as of :class:`Resize`.
        antialias: as of :class:`Resize`.

    The result is of open size: a crop of a fixed size has to follow, or ``leat.Out(..., stack="list")``. Source: Ghiasi
    et al., "Simple Copy-Paste is a Strong Data Augmentation Method for Instance Segmentation", CVPR 2021.

    >>> leat.ops.ScaleJitter((1024, 1024)).scale_range
    (0.1, 2.0)
    """

    _moves = True

    def __init__(
        self,
        target_size: Any,
        scale_range: Any = (0.1, 2.0),
        interpolation: Any = "bilinear",
        antialias: bool | None = True,
        *,
        name: str | None = None,
    ) -> None:
        target = _integers("target_size", target_size)
        if len(target) != 2 or min(target) < 1:
            raise ValueError(f"target_size is two sides above 0, not {target_size!r}")
        scales = _pair("scale_range", scale_range)
        if scales[0] <= 0:
            raise ValueError(f"scale_range is (low, high) with low above 0, not {scale_range!r}")
        super().__init__(
            name,
            target_size=target,
            scale_range=scales,
            interpolation=_interpolation(interpolation, *_RESIZES),
            antialias=antialias is None or bool(antialias),
        )


class RandomShortestSize(Operator):
    """Resizes so that the shorter side becomes one of some sizes, or less if the longer one would exceed a bound.

    Args:
        min_size: a size, or a list of them, each drawn as often.
        max_size: the most that the longer side may be.
        interpolation: as of :class:`Resize`.
        antialias: as of :class:`Resize`.

    The result is of open size: a crop of a fixed size has to follow, or ``leat.Out(..., stack="list")``.

    >>> leat.ops.RandomShortestSize([480, 512, 544], max_size=1333).min_size
    (480, 512, 544)
    """

    _moves = True

    def __init__(
        self,
        min_size: Any,
        max_size: int | None = None,
        interpolation: Any = "bilinear",
        antialias: bool | None = True,
        *,
        name: str | None = None,
    ) -> None:
        sizes = _integers("min_size", min_size)
        if not sizes or min(sizes) < 1 or len(sizes) > 256:
            raise ValueError(f"min_size is a side above 0, or a list of at most 256 of them, not {min_size!r}")
        super().__init__(
            name,
            min_size=sizes,
            max_size=None if max_size is None else _integers("max_size", max_size)[0],
            interpolation=_interpolation(interpolation, *_RESIZES),
            antialias=antialias is None or bool(antialias),
        )


class RandomResize(Operator):
    """Resizes so that the shorter side becomes a random size of ``range(min_size, max_size)``.

    Args:
        min_size: the least.
        max_size: one above the most.
        interpolation: as of :class:`Resize`.
        antialias: as of :class:`Resize`.

    The result is of open size: a crop of a fixed size has to follow, or ``leat.Out(..., stack="list")``.

    >>> chain = [leat.ops.Decode(), leat.ops.RandomResize(40, 60), leat.ops.RandomCrop(32)]
    >>> leat.Loader(photos, 2, outputs={"image": chain}).batch_at(0, 0)["image"].shape
    torch.Size([2, 3, 32, 32])
    """

    _moves = True

    def __init__(
        self,
        min_size: int,
        max_size: int,
        interpolation: Any = "bilinear",
        antialias: bool | None = True,
        *,
        name: str | None = None,
    ) -> None:
        (low,), (high,) = _integers("min_size", min_size), _integers("max_size", max_size)
        if not 0 < low < high:
            raise ValueError(f"max_size is above min_size, and that above 0; not {max_size} and {min_size}")
        super().__init__(
            name,
            min_size=low,
            max_size=high,
            interpolation=_interpolation(interpolation, *_RESIZES),
            antialias=antialias is None or bool(antialias),
        )


class Letterbox(Operator):
    """Resizes so that the image fits into `size`, keeping the ratio of its sides, and fills the rest.

    Args:
        size: (height, width), or one number for a square.
        fill: a number, one per channel, or a dict of these by kind, ``{"image": 114, "mask": 255}``. Masks are filled
            with 0, and images with 114, unless the dict has a number for them.
        scale_up: whether images smaller than `size` are enlarged.
        center: whether the image stands in the middle; else in the upper left corner.
        interpolation: as of :class:`Resize`.
        antialias: as of :class:`Resize`.

    The sides are rounded as in the YOLO family, where this is usual.

    >>> chain = [leat.ops.Decode(), leat.ops.Letterbox((32, 64))]
    >>> leat.Loader(photos, 2, outputs={"image": chain}).batch_at(0, 0)["image"].shape
    torch.Size([2, 3, 32, 64])
    """

    _moves = True

    def __init__(
        self,
        size: Any,
        fill: Any = 114,
        scale_up: bool = True,
        center: bool = True,
        interpolation: Any = "bilinear",
        antialias: bool | None = True,
        *,
        name: str | None = None,
    ) -> None:
        super().__init__(
            name,
            size=_square(size),
            fill=_fill(fill if isinstance(fill, Mapping) else {"image": fill}, 114),
            scale_up=bool(scale_up),
            center=bool(center),
            interpolation=_interpolation(interpolation, *_RESIZES),
            antialias=antialias is None or bool(antialias),
        )


class RandomSizeCrop(Operator):
    """Cuts out a box of random sides at a random place, as DETR's training does.

    Args:
        min_size: the least width and height; an image that is smaller is taken whole there.
        max_size: the most.

    The result is of open size. Source: Carion et al., "End-to-End Object Detection with Transformers", ECCV 2020.

    >>> leat.ops.RandomSizeCrop(384, 600)
    RandomSizeCrop(min_size=384, max_size=600)
    """

    _moves = True

    def __init__(self, min_size: int, max_size: int, *, name: str | None = None) -> None:
        (low,), (high,) = _integers("min_size", min_size), _integers("max_size", max_size)
        if not 0 < low <= high:
            raise ValueError(f"max_size is no less than min_size, and that above 0; not {max_size} and {min_size}")
        super().__init__(name, min_size=low, max_size=high)
