"""Operators of detectors' recipes, for the chains of tuples with boxes: moves by the boxes, and around them."""

from typing import Annotated, Any

from . import arguments as a
from .base import Operator

__all__ = [
    "Letterbox",
    "RandomIoUCrop",
    "RandomResize",
    "RandomShortestSize",
    "RandomSizeCrop",
    "RandomZoomOut",
    "ScaleJitter",
]


def _overlaps(what: str, value: Any) -> tuple[float, ...]:
    return a.numbers(what, (0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 1.0) if value is None else value)


def _two_sides(what: str, value: Any) -> tuple[int, ...]:
    sides = a.integers(what, value)
    if len(sides) != 2 or min(sides) < 1:
        raise ValueError(f"{what} is two sides above 0, not {value!r}")
    return sides


def _sides(what: str, value: Any) -> tuple[int, ...]:
    sides = a.integers(what, value)
    if not sides or min(sides) < 1 or len(sides) > 256:
        raise ValueError(f"{what} is a side above 0, or a list of at most 256 of them, not {value!r}")
    return sides


class RandomZoomOut(Operator, moves=True):
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

    fill: a.Fill = 0
    side_range: Annotated[Any, a.within(1)] = (1.0, 4.0)
    p: a.Chance = 0.5


class RandomIoUCrop(Operator, moves=True):
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

    min_scale: Annotated[float, a.number(0, 1)] = 0.3
    max_scale: Annotated[float, a.number(0, 1)] = 1.0
    min_aspect_ratio: Annotated[float, a.number(above=0)] = 0.5
    max_aspect_ratio: Annotated[float, a.number()] = 2.0
    sampler_options: Annotated[Any, _overlaps] = None
    trials: Annotated[int, a.whole()] = 40

    def _check(self) -> None:
        a.pair("(min_scale, max_scale)", (self.min_scale, self.max_scale))
        a.pair("(min_aspect_ratio, max_aspect_ratio)", (self.min_aspect_ratio, self.max_aspect_ratio))


class ScaleJitter(Operator, moves=True):
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

    target_size: Annotated[Any, _two_sides]
    scale_range: Annotated[Any, a.within(above=0)] = (0.1, 2.0)
    interpolation: a.Resampling = "bilinear"
    antialias: a.Antialias = True


class RandomShortestSize(Operator, moves=True):
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

    min_size: Annotated[Any, _sides]
    max_size: Annotated[int | None, a.maybe(a.whole())] = None
    interpolation: a.Resampling = "bilinear"
    antialias: a.Antialias = True


class RandomResize(Operator, moves=True):
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

    min_size: a.Side
    max_size: a.Side
    interpolation: a.Resampling = "bilinear"
    antialias: a.Antialias = True

    def _check(self) -> None:
        if self.min_size >= self.max_size:
            raise ValueError(f"max_size is above min_size, {self.min_size}, not {self.max_size}")


class Letterbox(Operator, moves=True):
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

    size: a.Square
    fill: a.GrayFill = 114
    scale_up: a.Flag = True
    center: a.Flag = True
    interpolation: a.Resampling = "bilinear"
    antialias: a.Antialias = True


class RandomSizeCrop(Operator, moves=True):
    """Cuts out a box of random sides at a random place, as DETR's training does.

    Args:
        min_size: the least width and height; an image that is smaller is taken whole there.
        max_size: the most.

    The result is of open size. Source: Carion et al., "End-to-End Object Detection with Transformers", ECCV 2020.

    >>> leat.ops.RandomSizeCrop(384, 600)
    RandomSizeCrop(min_size=384, max_size=600)
    """

    min_size: a.Side
    max_size: a.Side

    def _check(self) -> None:
        if self.min_size > self.max_size:
            raise ValueError(f"max_size is no less than min_size, {self.min_size}, not {self.max_size}")
