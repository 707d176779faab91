"""Operators that move pixels: sizes, crops, mirrors, turns. Boxes, masks and keypoints follow them."""

from __future__ import annotations

from typing import Any

from .base import Operator, _chance, _fill, _integers, _interpolation, _numbers, _pair, _size, _square

__all__ = [
    "CenterCrop",
    "ElasticTransform",
    "Pad",
    "RandomAffine",
    "RandomCrop",
    "RandomHorizontalFlip",
    "RandomPerspective",
    "RandomResizedCrop",
    "RandomRotate90",
    "RandomRotation",
    "RandomVerticalFlip",
    "Resize",
]

_RESIZES = ("bilinear", "nearest", "nearest-exact", "bicubic", "lanczos", "hamming", "box")
_WARPS = ("nearest", "bilinear", "bicubic")


def _padding(padding: Any) -> tuple[int, ...]:
    sides = _integers("padding", padding)
    if len(sides) not in (1, 2, 4):
        raise ValueError(f"padding is one, two or four numbers, not {padding!r}")
    return sides


def _padding_mode(mode: Any) -> str:
    if mode not in ("constant", "edge", "reflect", "symmetric"):
        raise ValueError(f"padding_mode is 'constant', 'edge', 'reflect' or 'symmetric', not {mode!r}")
    return str(mode)


def _angles(what: str, degrees: Any, sizes: tuple[int, ...] = (1, 2)) -> tuple[float, ...]:
    """d: from -d to d; or (low, high), of one or two axes."""
    angles = _numbers(what, degrees)
    if len(angles) == 1 and angles[0] >= 0:
        angles = (-angles[0], angles[0])
    if len(angles) not in sizes or any(a > b for a, b in zip(angles[::2], angles[1::2], strict=False)):
        raise ValueError(f"{what} is a number from 0, or (low, high), not {degrees!r}")
    return angles


def _center(center: Any) -> tuple[float, ...] | None:
    middle = None if center is None else _numbers("center", center)
    if middle is not None and len(middle) != 2:
        raise ValueError(f"center is (x, y), not {center!r}")
    return middle


class Resize(Operator):
    """Resizes to (height, width), or to a shorter side of `size`, keeping the ratio of the sides.

    Args:
        size: one number for the shorter side, or (height, width); None: the longer side becomes `max_size`.
        interpolation: ``"bilinear"``, ``"nearest"``, ``"nearest-exact"``, ``"bicubic"``, ``"lanczos"``, ``"hamming"``,
            ``"box"``; torchvision's enum and Pillow's numbers are accepted too.
        max_size: with one number as `size`: the most that the longer side may be.
        antialias: for ``"bilinear"`` and ``"bicubic"``; without it only the 4 or 16 nearest pixels count.

    The result equals that of Pillow 11's ``Image.resize``, byte for byte: first across, then down, each rounded to 8
    bits. (Pillow 13 goes down first if that is less work.)

    >>> chain = [leat.ops.Decode(), leat.ops.Resize((32, 48))]
    >>> leat.Loader(photos, 2, outputs={"image": chain}).batch_at(0, 0)["image"].shape
    torch.Size([2, 3, 32, 48])
    """

    _moves = True

    def __init__(
        self,
        size: Any,
        interpolation: Any = "bilinear",
        max_size: int | None = None,
        antialias: bool | None = True,
        *,
        name: str | None = None,
    ) -> None:
        sides = None if size is None else _size(size)
        if sides is None and max_size is None:
            raise ValueError("size is None only where max_size is given")
        if max_size is not None and isinstance(sides, tuple):
            raise ValueError("max_size goes with one number as size")
        super().__init__(
            name,
            size=sides,
            interpolation=_interpolation(interpolation, *_RESIZES),
            max_size=max_size,
            antialias=antialias is None or bool(antialias),
        )


class CenterCrop(Operator):
    """Cuts (height, width), or a square, out of the middle. If the image is smaller, black is added around it.

    >>> chain = [leat.ops.Decode(), leat.ops.Resize(40), leat.ops.CenterCrop(32)]
    >>> leat.Loader(photos, 2, outputs={"image": chain}).batch_at(0, 0)["image"].shape
    torch.Size([2, 3, 32, 32])
    """

    _moves = True

    def __init__(self, size: Any, *, name: str | None = None) -> None:
        super().__init__(name, size=_square(size))


class RandomCrop(Operator):
    """Cuts (height, width), or a square, at a random place.

    Args:
        size: of the part that is cut out.
        padding: added around first: one number, (left and right, top and bottom), or (left, top, right, bottom).
        pad_if_needed: pad an image that is too small.
        fill: value of padding: a number; one per channel, and 0 in masks; or ``{"image": (9, 8, 7), "mask": 255}``.
        padding_mode: ``"constant"`` (`fill`), ``"edge"`` (the nearest pixel), ``"reflect"`` or ``"symmetric"``
            (mirrored, without or with the edge's pixel twice).

    >>> leat.ops.RandomCrop(32, padding=4)
    RandomCrop(size=(32, 32), padding=(4,), pad_if_needed=False, fill=(0.0,), padding_mode='constant')
    """

    _moves = True

    def __init__(
        self,
        size: Any,
        padding: Any = None,
        pad_if_needed: bool = False,
        fill: Any = 0,
        padding_mode: str = "constant",
        *,
        name: str | None = None,
    ) -> None:
        sides = None if padding is None else _padding(padding)
        if sides is not None and min(sides) < 0:
            raise ValueError(f"padding is one, two or four numbers, none below 0, not {padding!r}")
        super().__init__(
            name,
            size=_square(size),
            padding=sides,
            pad_if_needed=bool(pad_if_needed),
            fill=_fill(fill),
            padding_mode=_padding_mode(padding_mode),
        )


class RandomResizedCrop(Operator):
    """Cuts a part of random area and ratio of sides at a random place, and resizes it to `size`.

    Args:
        size: (height, width), or one number for a square.
        scale: lower and upper bound of the part's area, as a fraction of the image's.
        ratio: lower and upper bound of width / height, drawn log-uniformly.
        interpolation: as of :class:`Resize`.
        antialias: as of :class:`Resize`.

    Source: Szegedy et al., "Going deeper with convolutions", 2015. The result equals Pillow 11's
    ``crop(box).resize(size)``, as that of :class:`Resize`.

    >>> chain = [leat.ops.Decode(), leat.ops.RandomResizedCrop(32, scale=(0.3, 1))]
    >>> leat.Loader(photos, 2, outputs={"image": chain}, seed=1).batch_at(0, 0)["image"].shape
    torch.Size([2, 3, 32, 32])
    """

    _moves = True

    def __init__(
        self,
        size: Any,
        scale: Any = (0.08, 1.0),
        ratio: Any = (3.0 / 4.0, 4.0 / 3.0),
        interpolation: Any = "bilinear",
        antialias: bool | None = True,
        *,
        name: str | None = None,
    ) -> None:
        super().__init__(
            name,
            size=_square(size),
            scale=_pair("scale", scale),
            ratio=_pair("ratio", ratio),
            interpolation=_interpolation(interpolation, *_RESIZES),
            antialias=antialias is None or bool(antialias),
        )


class RandomHorizontalFlip(Operator):
    """Mirrors left and right with probability `p`.

    >>> leat.ops.RandomHorizontalFlip()
    RandomHorizontalFlip(p=0.5)
    """

    _moves = True

    def __init__(self, p: float = 0.5, *, name: str | None = None) -> None:
        super().__init__(name, p=_chance(p))


class RandomVerticalFlip(Operator):
    """Turns an image upside down, as a mirror below it does, with probability `p`.

    >>> leat.ops.RandomVerticalFlip(0.2)
    RandomVerticalFlip(p=0.2)
    """

    _moves = True

    def __init__(self, p: float = 0.5, *, name: str | None = None) -> None:
        super().__init__(name, p=_chance(p))


class RandomRotate90(Operator):
    """Turns counter-clockwise by none, one, two or three quarter turns, all alike, with probability `p`.

    Images are of any dtype, which stays. No pixel is changed, and boxes, masks and keypoints turn with the image. The
    result of an image that is no square is of open size, so a resize or a crop has to follow. As in Albumentations.

    Args:
        p: its probability; one in four of the rows that it turns is left as it is, by a turn of none.

    Raises:
        TypeError, ValueError: `p` is no probability.

    >>> chain = [leat.ops.Decode(), leat.ops.Resize((32, 32)), leat.ops.RandomRotate90()]
    >>> leat.Loader(photos, 2, outputs={"image": chain}).batch_at(0, 0)["image"].shape
    torch.Size([2, 3, 32, 32])
    """

    _moves = True

    def __init__(self, p: float = 1.0, *, name: str | None = None) -> None:
        super().__init__(name, p=_chance(p))


class Pad(Operator):
    """Adds pixels on each side; if the number is below 0, cuts them off.

    Args:
        padding: one number, (left and right, top and bottom), or (left, top, right, bottom).
        fill: value of padding: a number; one per channel, and 0 in masks; or ``{"image": (9, 8, 7), "mask": 255}``.
        padding_mode: ``"constant"`` (`fill`), ``"edge"`` (the nearest pixel), ``"reflect"`` or ``"symmetric"``
            (mirrored, without or with the edge's pixel twice), as often as needed.

    >>> chain = [leat.ops.Decode(), leat.ops.Resize((30, 40)), leat.ops.Pad((1, 2))]
    >>> leat.Loader(photos, 2, outputs={"image": chain}).batch_at(0, 0)["image"].shape
    torch.Size([2, 3, 34, 42])
    """

    _moves = True

    def __init__(self, padding: Any, fill: Any = 0, padding_mode: str = "constant", *, name: str | None = None) -> None:
        super().__init__(name, padding=_padding(padding), fill=_fill(fill), padding_mode=_padding_mode(padding_mode))


class RandomRotation(Operator):
    """Turns counter-clockwise by a random angle.

    Args:
        degrees: d: the angle is uniform in [-d, d]; (low, high): in that range.
        interpolation: ``"nearest"``, ``"bilinear"`` or ``"bicubic"``; torchvision's enum is accepted too.
        expand: the result is as large as the turned image. Its size is open, so a resize or a crop has to follow.
        center: the point (x, y) that stays in place; None: the middle.
        fill: value of pixels from outside the image, as of :class:`Pad`.

    Takes uint8 images. The pixels are those of Pillow's ``Image.rotate``, within 1 if bilinear. In the chain of a tuple
    boxes, masks and keypoints turn with the image.

    >>> chain = [leat.ops.Decode(), leat.ops.RandomRotation(30, "bilinear", expand=True), leat.ops.CenterCrop(32)]
    >>> leat.Loader(photos, 2, outputs={"image": chain}).batch_at(0, 0)["image"].shape
    torch.Size([2, 3, 32, 32])
    """

    _moves = True

    def __init__(
        self,
        degrees: Any,
        interpolation: Any = "nearest",
        expand: bool = False,
        center: Any = None,
        fill: Any = 0,
        *,
        name: str | None = None,
    ) -> None:
        super().__init__(
            name,
            degrees=_angles("degrees", degrees, (2,)),
            interpolation=_interpolation(interpolation, *_WARPS),
            expand=bool(expand),
            center=_center(center),
            fill=_fill(fill),
        )


class RandomAffine(Operator):
    """Turns, moves, scales and shears about a point that stays in place.

    Args:
        degrees: d: the angle is uniform in [-d, d], clockwise; (low, high): in that range.
        translate: (a, b): moved right by up to a times the width and down by up to b times the height, either way.
        scale: (low, high) of the factor; None: 1.
        shear: d, or (low, high), of the x axis in degrees; or (low, high, low, high) of both; None: no shear.
        interpolation: ``"nearest"``, ``"bilinear"`` or ``"bicubic"``; torchvision's enum is accepted too.
        fill: value of pixels from outside the image, as of :class:`Pad`.
        center: the point (x, y) that stays in place; None: the middle.

    The pixels are those of Pillow's ``Image.transform``.

    >>> chain = [leat.ops.Decode(), leat.ops.Resize((32, 32)), leat.ops.RandomAffine(10, (0.1, 0.1), (0.8, 1.2))]
    >>> leat.Loader(photos, 2, outputs={"image": chain}).batch_at(0, 0)["image"].shape
    torch.Size([2, 3, 32, 32])
    """

    _moves = True

    def __init__(
        self,
        degrees: Any,
        translate: Any = None,
        scale: Any = None,
        shear: Any = None,
        interpolation: Any = "nearest",
        fill: Any = 0,
        center: Any = None,
        *,
        name: str | None = None,
    ) -> None:
        shift = None if translate is None else _numbers("translate", translate)
        if shift is not None and (len(shift) != 2 or min(shift) < 0 or max(shift) > 1):
            raise ValueError(f"translate is two numbers from 0 to 1, parts of width and height, not {translate!r}")
        factors = None if scale is None else _pair("scale", scale)
        if factors is not None and factors[0] <= 0:
            raise ValueError(f"scale is (low, high), above 0, not {scale!r}")
        super().__init__(
            name,
            degrees=_angles("degrees", degrees, (2,)),
            translate=shift,
            scale=factors,
            shear=None if shear is None else _angles("shear", shear, (2, 4)),
            interpolation=_interpolation(interpolation, *_WARPS),
            fill=_fill(fill),
            center=_center(center),
        )


class RandomPerspective(Operator):
    """Shows the image as seen from the side, with probability `p`: each corner is moved inwards by a random part.

    Args:
        distortion_scale: 0 to 1; the corners move by up to this part of half the sides.
        p: of a row, to be changed at all.
        interpolation: ``"nearest"``, ``"bilinear"`` or ``"bicubic"``; torchvision's enum is accepted too.
        fill: value of pixels from outside the image, as of :class:`Pad`.

    The pixels are those of Pillow's ``Image.transform``. Boxes become the smallest ones around their moved corners.

    >>> leat.ops.RandomPerspective(0.3)
    RandomPerspective(distortion_scale=0.3, p=0.5, interpolation='bilinear', fill=(0.0,))
    """

    _moves = True

    def __init__(
        self,
        distortion_scale: float = 0.5,
        p: float = 0.5,
        interpolation: Any = "bilinear",
        fill: Any = 0,
        *,
        name: str | None = None,
    ) -> None:
        (part,) = _numbers("distortion_scale", [distortion_scale])
        if not 0 <= part <= 1:
            raise ValueError(f"distortion_scale lies between 0 and 1, not {distortion_scale}")
        super().__init__(
            name,
            distortion_scale=part,
            p=_chance(p),
            interpolation=_interpolation(interpolation, *_WARPS),
            fill=_fill(fill),
        )


class ElasticTransform(Operator):
    """Bends the image as if it were seen through water: each pixel comes from a place beside, by smooth noise.

    Args:
        alpha: strength: the noise, of -1 to 1 before it is blurred, is multiplied by half of this, in pixels; one
            number, or one for x and one for y.
        sigma: of the blur, in pixels, likewise; 0: none.
        interpolation: ``"bilinear"`` or ``"nearest"``; torchvision's enum is accepted too.
        fill: value of pixels from outside the image, as of :class:`Pad`.

    Corners of boxes move as the pixel there, the other way, as torchvision approximates it; keypoints go to the pixel
    that comes from theirs. Source: Simard, Steinkraus, Platt, "Best Practices for Convolutional Neural Networks",
    ICDAR 2003.

    >>> chain = [leat.ops.Decode(), leat.ops.Resize((32, 32)), leat.ops.ElasticTransform(30.0, 4.0)]
    >>> leat.Loader(photos, 2, outputs={"image": chain}).batch_at(0, 0)["image"].shape
    torch.Size([2, 3, 32, 32])
    """

    _moves = True

    def __init__(
        self,
        alpha: Any = 50.0,
        sigma: Any = 5.0,
        interpolation: Any = "bilinear",
        fill: Any = 0,
        *,
        name: str | None = None,
    ) -> None:
        strength, width = (_numbers(what, v) for what, v in (("alpha", alpha), ("sigma", sigma)))
        for what, found in (("alpha", strength), ("sigma", width)):
            if len(found) not in (1, 2) or (what == "sigma" and min(found) < 0):
                raise ValueError(f"{what} is a number, or one for x and one for y, not {found!r}")
        if min(width) == 0 != max(width):
            raise ValueError(f"sigma is above 0 for x and for y, or 0, not {sigma!r}")
        super().__init__(
            name,
            alpha=strength,
            sigma=width,
            interpolation=_interpolation(interpolation, "nearest", "bilinear"),
            fill=_fill(fill),
        )
