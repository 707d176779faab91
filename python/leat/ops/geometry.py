"""Operators that move pixels: sizes, crops, mirrors, turns. Boxes, masks and keypoints follow them."""

from collections.abc import Callable
from typing import Annotated, Any

from . import arguments as a
from .base import Operator

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


def _padding(what: str, padding: Any) -> tuple[int, ...]:
    sides = a.integers(what, padding)
    if len(sides) not in (1, 2, 4):
        raise ValueError(f"{what} is one, two or four numbers, not {padding!r}")
    return sides


def _angles(*sizes: int) -> Callable[[str, Any], tuple[float, ...]]:
    """d: from -d to d; or (low, high), of one or two axes."""

    def angles(what: str, degrees: Any) -> tuple[float, ...]:
        found = a.numbers(what, degrees)
        if len(found) == 1 and found[0] >= 0:
            found = (-found[0], found[0])
        if len(found) not in sizes or any(a > b for a, b in zip(found[::2], found[1::2], strict=False)):
            raise ValueError(f"{what} is a number from 0, or (low, high), not {degrees!r}")
        return found

    return angles


def _point(what: str, center: Any) -> tuple[float, ...]:
    middle = a.numbers(what, center)
    if len(middle) != 2:
        raise ValueError(f"{what} is (x, y), not {center!r}")
    return middle


def _shift(what: str, value: Any) -> tuple[float, ...]:
    shift = a.numbers(what, value)
    if len(shift) != 2 or min(shift) < 0 or max(shift) > 1:
        raise ValueError(f"{what} is two numbers from 0 to 1, parts of width and height, not {value!r}")
    return shift


def _by_axis(what: str, value: Any) -> tuple[float, ...]:
    found = a.numbers(what, value)
    if len(found) not in (1, 2):
        raise ValueError(f"{what} is a number, or one for x and one for y, not {value!r}")
    return found


PaddingMode = Annotated[str, a.choice("constant", "edge", "reflect", "symmetric")]
Center = Annotated[Any, a.maybe(_point)]


class Resize(Operator, moves=True):
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

    size: Annotated[Any, a.maybe(a.size)]
    interpolation: a.Resampling = "bilinear"
    max_size: Annotated[int | None, a.maybe(a.whole())] = None
    antialias: a.Antialias = True

    def _check(self) -> None:
        if self.size is None and self.max_size is None:
            raise ValueError("size is None only where max_size is given")
        if self.max_size is not None and isinstance(self.size, tuple):
            raise ValueError("max_size goes with one number as size")


class CenterCrop(Operator, moves=True):
    """Cuts (height, width), or a square, out of the middle. If the image is smaller, black is added around it.

    >>> chain = [leat.ops.Decode(), leat.ops.Resize(40), leat.ops.CenterCrop(32)]
    >>> leat.Loader(photos, 2, outputs={"image": chain}).batch_at(0, 0)["image"].shape
    torch.Size([2, 3, 32, 32])
    """

    size: a.Square


class RandomCrop(Operator, moves=True):
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

    size: a.Square
    padding: Annotated[Any, a.maybe(_padding)] = None
    pad_if_needed: a.Flag = False
    fill: a.Fill = 0
    padding_mode: PaddingMode = "constant"

    def _check(self) -> None:
        if self.padding is not None and min(self.padding) < 0:
            raise ValueError(f"padding is one, two or four numbers, none below 0, not {self.padding!r}")


class RandomResizedCrop(Operator, moves=True):
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

    size: a.Square
    scale: Annotated[Any, a.pair] = (0.08, 1.0)
    ratio: Annotated[Any, a.pair] = (3.0 / 4.0, 4.0 / 3.0)
    interpolation: a.Resampling = "bilinear"
    antialias: a.Antialias = True


class RandomHorizontalFlip(Operator, moves=True):
    """Mirrors left and right with probability `p`.

    >>> leat.ops.RandomHorizontalFlip()
    RandomHorizontalFlip(p=0.5)
    """

    p: a.Chance = 0.5


class RandomVerticalFlip(Operator, moves=True):
    """Turns an image upside down, as a mirror below it does, with probability `p`.

    >>> leat.ops.RandomVerticalFlip(0.2)
    RandomVerticalFlip(p=0.2)
    """

    p: a.Chance = 0.5


class RandomRotate90(Operator, moves=True):
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

    p: a.Chance = 1.0


class Pad(Operator, moves=True):
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

    padding: Annotated[Any, _padding]
    fill: a.Fill = 0
    padding_mode: PaddingMode = "constant"


class RandomRotation(Operator, moves=True):
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

    degrees: Annotated[Any, _angles(2)]
    interpolation: a.Warp = "nearest"
    expand: a.Flag = False
    center: Center = None
    fill: a.Fill = 0


class RandomAffine(Operator, moves=True):
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

    degrees: Annotated[Any, _angles(2)]
    translate: Annotated[Any, a.maybe(_shift)] = None
    scale: Annotated[Any, a.maybe(a.within(above=0))] = None
    shear: Annotated[Any, a.maybe(_angles(2, 4))] = None
    interpolation: a.Warp = "nearest"
    fill: a.Fill = 0
    center: Center = None


class RandomPerspective(Operator, moves=True):
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

    distortion_scale: Annotated[float, a.number(0, 1)] = 0.5
    p: a.Chance = 0.5
    interpolation: a.Warp = "bilinear"
    fill: a.Fill = 0


class ElasticTransform(Operator, moves=True):
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

    alpha: Annotated[Any, _by_axis] = 50.0
    sigma: Annotated[Any, _by_axis] = 5.0
    interpolation: Annotated[Any, a.interpolation("nearest", "bilinear")] = "bilinear"
    fill: a.Fill = 0

    def _check(self) -> None:
        if min(self.sigma) < 0 or min(self.sigma) == 0 != max(self.sigma):
            raise ValueError(f"sigma is above 0 for x and for y, or 0, not {self.sigma!r}")
