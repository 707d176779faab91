"""Operators that change pixels in place: colors, blur."""

from dataclasses import InitVar
from typing import Annotated, Any

from . import arguments as a
from .base import Operator

__all__ = [
    "JPEG",
    "ColorJitter",
    "GaussianBlur",
    "GaussianNoise",
    "Grayscale",
    "RandomAdjustSharpness",
    "RandomAutocontrast",
    "RandomChannelPermutation",
    "RandomEqualize",
    "RandomErasing",
    "RandomGrayscale",
    "RandomInvert",
    "RandomPhotometricDistort",
    "RandomPosterize",
    "RandomSolarize",
]


def _jitter(what: str, value: Any) -> tuple[float, float] | None:
    """The range of a factor: around 1, or 0 for the hue, as far as a number says; or (low, high)."""
    if value is None:
        return None
    center = 0.0 if what == "hue" else 1.0
    found = a.numbers(what, value)
    if len(found) == 1 and found[0] >= 0:
        found = (center - found[0] if center == 0 else max(0.0, center - found[0]), center + found[0])
    least, most = (-0.5, 0.5) if center == 0 else (0.0, 1e6)
    if len(found) != 2 or not least <= found[0] <= found[1] <= most:
        raise ValueError(
            f"{what} is a number from 0{' to 0.5' * (center == 0)}, or (low, high) within [{least:g}, {most:g}], not "
            f"{value!r}"
        )
    return None if found == (center, center) else (found[0], found[1])


def _kernel(what: str, value: Any) -> tuple[int, int]:
    sides: tuple[int, int] = a.square(what, a.integers(what, value))
    if any(s % 2 == 0 or s > 2047 for s in sides):
        raise ValueError(f"{what} is an odd number of pixels of 1 to 2047, or (width, height), not {value!r}")
    return sides


def _width(what: str, value: Any) -> tuple[float, float]:
    found = a.numbers(what, value)
    return a.within(above=0)(what, found * 2 if len(found) == 1 else found)


def _erased(what: str, value: Any) -> Any:
    if isinstance(value, str) and value != "random":
        raise ValueError(f"{what} is a number, one per channel, or 'random', not {value!r}")
    return value if isinstance(value, str) else a.numbers(what, value)


def _quality(what: str, value: Any) -> tuple[int, ...]:
    found = a.integers(what, value)
    found = found * 2 if len(found) == 1 else found
    if len(found) != 2 or not 1 <= found[0] <= found[1] <= 100:
        raise ValueError(f"{what} is a whole number of 1 to 100, or (low, high) of these, not {value!r}")
    return found


Factors = Annotated[Any, a.within(0, 1e6)]


class ColorJitter(Operator):
    """Changes brightness, contrast, saturation and hue by random factors, in random order.

    Args:
        brightness: x: the factor is uniform in [max(0, 1 - x), 1 + x]; (low, high): in that range. None: not changed.
        contrast: the same.
        saturation: the same.
        hue: h, of 0 to 0.5: the hue is turned by a part of the circle that is uniform in [-h, h]; (low, high): in that
            range.

    Takes uint8 images of 3 channels, or of 1, which saturation and hue do not change. The pixels equal those of
    Pillow's ``ImageEnhance`` and of a hue that is turned in its mode ``"HSV"``.

    >>> leat.ops.ColorJitter(0.4, hue=(-0.1, 0.2))
    ColorJitter(brightness=(0.6, 1.4), contrast=None, saturation=None, hue=(-0.1, 0.2))
    """

    brightness: Annotated[Any, _jitter] = None
    contrast: Annotated[Any, _jitter] = None
    saturation: Annotated[Any, _jitter] = None
    hue: Annotated[Any, _jitter] = None


class GaussianBlur(Operator):
    """Blurs by a Gaussian of a random width, the same for both directions.

    Args:
        kernel_size: odd numbers of pixels: one, or (width, height).
        sigma: of the Gaussian, in pixels: uniform in (low, high), or one number.

    Takes uint8 images. Beyond its edges an image is mirrored, without repeating the pixel at the edge. The pixels are
    within 1 of those of torchvision, which computes in float.

    >>> leat.ops.GaussianBlur(5)
    GaussianBlur(kernel_size=(5, 5), sigma=(0.1, 2.0))
    """

    kernel_size: Annotated[Any, _kernel]
    sigma: Annotated[Any, _width] = (0.1, 2.0)


class Grayscale(Operator):
    """Makes an image of grey values.

    Args:
        num_output_channels: 1, or 3 that are equal.

    Takes uint8 images of 3 channels, or of 1. The grey values are those of Pillow's mode ``"L"``.

    >>> chain = [leat.ops.Decode(), leat.ops.CenterCrop(32), leat.ops.Grayscale()]
    >>> leat.Loader(photos, 2, outputs={"image": chain}).batch_at(0, 0)["image"].shape
    torch.Size([2, 1, 32, 32])
    """

    num_output_channels: Annotated[int, a.choice(1, 3)] = 1


class RandomGrayscale(Operator):
    """Makes all channels the grey value of the pixel, with probability `p`. An image keeps its number of channels.

    >>> leat.ops.RandomGrayscale(0.2)
    RandomGrayscale(p=0.2)
    """

    p: a.Chance = 0.1


class RandomInvert(Operator):
    """Makes each value v of a uint8 image 255 - v, with probability `p`.

    >>> leat.ops.RandomInvert()
    RandomInvert(p=0.5)
    """

    p: a.Chance = 0.5


class RandomPosterize(Operator):
    """Keeps the highest bits of each value of a uint8 image, with probability `p`.

    Args:
        bits: how many are kept, 0 to 8.
        p: how often.

    >>> leat.ops.RandomPosterize(2)
    RandomPosterize(bits=2, p=0.5)
    """

    bits: Annotated[int, a.whole(0, 8)]
    p: a.Chance = 0.5


class RandomSolarize(Operator):
    """Inverts the values of a uint8 image that are not below a threshold, with probability `p`.

    Args:
        threshold: of values of 0 to 255.
        p: how often.

    >>> leat.ops.RandomSolarize(128)
    RandomSolarize(threshold=128.0, p=0.5)
    """

    threshold: Annotated[float, a.number()]
    p: a.Chance = 0.5


class RandomAutocontrast(Operator):
    """Stretches each channel so that its smallest value becomes 0 and its largest 255, with probability `p`.

    Takes uint8 images. The pixels are those of Pillow's ``ImageOps.autocontrast``.

    >>> leat.ops.RandomAutocontrast()
    RandomAutocontrast(p=0.5)
    """

    p: a.Chance = 0.5


class RandomEqualize(Operator):
    """Evens out the histogram of each channel, with probability `p`.

    Takes uint8 images. The pixels are those of Pillow's ``ImageOps.equalize``.

    >>> leat.ops.RandomEqualize()
    RandomEqualize(p=0.5)
    """

    p: a.Chance = 0.5


class RandomAdjustSharpness(Operator):
    """Sharpens or softens, with probability `p`.

    Args:
        sharpness_factor: 0 gives the image smoothed by a kernel of 3 x 3, 1 the image as it is, 2 as much beyond it.
        p: how often.

    Takes uint8 images. The pixels are those of Pillow's ``ImageEnhance.Sharpness``; those at the edges stay.

    >>> leat.ops.RandomAdjustSharpness(2)
    RandomAdjustSharpness(sharpness_factor=2.0, p=0.5)
    """

    sharpness_factor: Annotated[float, a.number(0, 1e6)]
    p: a.Chance = 0.5


class RandomPhotometricDistort(Operator):
    """Changes brightness, contrast, saturation and hue and exchanges channels, each with probability `p`.

    Args:
        brightness: (low, high) of a uniform factor.
        contrast: the same. It is changed before saturation and hue, or behind them, as often.
        saturation: the same.
        hue: (low, high), within [-0.5, 0.5], of the part of the circle by which the hue is turned.
        p: of each of the five.

    Takes uint8 images of 3 channels, or of 1, which saturation, hue and channels do not change. Source: Liu et al.,
    "SSD: Single shot multibox detector", 2016.

    >>> distort = leat.ops.RandomPhotometricDistort(p=0.3)
    >>> distort.brightness, distort.contrast, distort.saturation, distort.hue
    ((0.875, 1.125), (0.5, 1.5), (0.5, 1.5), (-0.05, 0.05))
    """

    brightness: Factors = (0.875, 1.125)
    contrast: Factors = (0.5, 1.5)
    saturation: Factors = (0.5, 1.5)
    hue: Annotated[Any, a.within(-0.5, 0.5)] = (-0.05, 0.05)
    p: a.Chance = 0.5


class RandomChannelPermutation(Operator):
    """Puts the channels of a uint8 image in random order.

    >>> leat.ops.RandomChannelPermutation()
    RandomChannelPermutation()
    """


class GaussianNoise(Operator):
    """Adds normal noise to every value.

    Args:
        mean: of the noise, in units of 0 to 1 for uint8 images, too.
        sigma: its standard deviation.
        clip: cut the sum to 0..1, or to 0..255; else bytes keep its low bits.

    Takes images of uint8 or floats. On bytes the noise is cut to whole numbers first, towards 0, as torchvision does.

    >>> leat.ops.GaussianNoise(sigma=0.05)
    GaussianNoise(mean=0.0, sigma=0.05, clip=True)
    """

    mean: Annotated[float, a.number(-1e6, 1e6)] = 0.0
    sigma: Annotated[float, a.number(0, 1e6)] = 0.1
    clip: a.Flag = True


class RandomErasing(Operator):
    """Erases a box of random area, ratio of sides and place, with probability `p`.

    Args:
        p: how often.
        scale: (low, high) of the box's area, as a part of the image's, uniform.
        ratio: (low, high) of its height by its width, drawn by their logarithm.
        value: its new value: a number, one per channel, or ``"random"``: each value normal, of mean 0 and variance 1.
        inplace: accepted as in torchvision; it makes no difference.

    Takes images of any dtype; mostly it stands behind :class:`Normalize`. If ten boxes in turn do not fit, nothing is
    erased. Boxes and masks stay as they are. Source: Zhong et al., "Random erasing data augmentation", 2017.

    >>> leat.ops.RandomErasing(0.25, value="random")
    RandomErasing(p=0.25, scale=(0.02, 0.33), ratio=(0.3, 3.3), value='random')
    """

    p: a.Chance = 0.5
    scale: Annotated[Any, a.within(0, 1)] = (0.02, 0.33)
    ratio: Annotated[Any, a.within(above=0, most=1e6)] = (0.3, 3.3)
    value: Annotated[Any, _erased] = 0.0
    inplace: InitVar[bool] = False


class JPEG(Operator):
    """Makes of an image its form after it was written as a JPEG.

    Args:
        quality: 1 to 100; (low, high): any of these, both included.

    Takes uint8 images of 3 channels, or of 1. The pixels are those of Pillow's ``save(quality=...)`` and of decoding
    that; chroma has half the size both ways.

    >>> leat.ops.JPEG((30, 90))
    JPEG(quality=(30, 90))
    """

    quality: Annotated[Any, _quality]
