"""Policies: random lists of changes of color and geometry, for training classifiers."""

from __future__ import annotations

import operator
from typing import Any

from .base import Operator, _interpolation, _numbers

__all__ = ["AugMix", "AutoAugment", "RandAugment", "TrivialAugmentWide"]


def _whole(what: str, value: Any, least: int, most: int) -> int:
    try:
        found = operator.index(value)
    except TypeError:
        raise TypeError(f"{what} is an integer, not {value!r:.60}") from None
    if not least <= found <= most:
        raise ValueError(f"{what} is an integer of {least} to {most}, not {value!r}")
    return found


class _Policy(Operator):
    """The common part of all of them. They move pixels, and know nothing of boxes, masks and keypoints."""

    __slots__ = ()
    _moves = True

    def __init__(self, name: str | None, interpolation: Any, fill: Any, **values: Any) -> None:
        super().__init__(
            name,
            **values,
            interpolation=_interpolation(interpolation, "nearest", "bilinear", "bicubic"),
            fill=None if fill is None else _numbers("fill", fill),
        )


class RandAugment(_Policy):
    """Applies `num_ops` changes, drawn of 14, all of one strength.

    Args:
        num_ops: their number.
        magnitude: their strength, from 0 (nothing) to ``num_magnitude_bins - 1``.
        num_magnitude_bins: the number of steps of the scale of strengths.
        interpolation: of rotations and shears: ``"nearest"``, ``"bilinear"`` or ``"bicubic"``.
        fill: value of pixels from outside the image: one number, or one per channel; None: 0.

    Takes uint8 images of 1 or 3 channels. The pixels of each change are those of Pillow. It cannot stand in the chain
    of a tuple with boxes, masks or keypoints, as in torchvision.

    Source: Cubuk et al., "RandAugment: Practical automated data augmentation with a reduced search space", 2019.

    >>> chain = [leat.ops.Decode(), leat.ops.RandomResizedCrop(32), leat.ops.RandAugment()]
    >>> leat.Loader(photos, 2, outputs={"image": chain}).batch_at(0, 0)["image"].shape
    torch.Size([2, 3, 32, 32])
    """

    def __init__(
        self,
        num_ops: int = 2,
        magnitude: int = 9,
        num_magnitude_bins: int = 31,
        interpolation: Any = "nearest",
        fill: Any = None,
        *,
        name: str | None = None,
    ) -> None:
        bins = _whole("num_magnitude_bins", num_magnitude_bins, 2, 1 << 20)
        super().__init__(
            name,
            interpolation,
            fill,
            num_ops=_whole("num_ops", num_ops, 0, 64),
            magnitude=_whole("magnitude", magnitude, 0, bins - 1),
            num_magnitude_bins=bins,
        )


class TrivialAugmentWide(_Policy):
    """Applies one change of 14, of a strength that is drawn from a wide scale.

    Args:
        num_magnitude_bins: the number of steps of the scale of strengths.
        interpolation: of rotations and shears: ``"nearest"``, ``"bilinear"`` or ``"bicubic"``.
        fill: value of pixels from outside the image: one number, or one per channel; None: 0.

    Takes the same inputs as :class:`RandAugment`.

    Source: Mueller and Hutter, "TrivialAugment: Tuning-free Yet State-of-the-Art Data Augmentation", 2021.

    >>> leat.ops.TrivialAugmentWide()
    TrivialAugmentWide(num_magnitude_bins=31, interpolation='nearest', fill=None)
    """

    def __init__(
        self, num_magnitude_bins: int = 31, interpolation: Any = "nearest", fill: Any = None, *, name: str | None = None
    ) -> None:
        bins = _whole("num_magnitude_bins", num_magnitude_bins, 2, 1 << 20)
        super().__init__(name, interpolation, fill, num_magnitude_bins=bins)


class AutoAugment(_Policy):
    """Applies a pair of changes, drawn of the 25 that were found for a data set.

    Args:
        policy: ``"imagenet"``, ``"cifar10"`` or ``"svhn"``; torchvision's ``AutoAugmentPolicy`` is accepted too.
        interpolation: of rotations and shears: ``"nearest"``, ``"bilinear"`` or ``"bicubic"``.
        fill: value of pixels from outside the image: one number, or one per channel; None: 0.

    Takes the same inputs as :class:`RandAugment`.

    Source: Cubuk et al., "AutoAugment: Learning Augmentation Policies from Data", 2018.

    >>> leat.ops.AutoAugment("cifar10").policy
    'cifar10'
    """

    def __init__(
        self, policy: Any = "imagenet", interpolation: Any = "nearest", fill: Any = None, *, name: str | None = None
    ) -> None:
        word = getattr(policy, "value", policy)
        if word not in ("imagenet", "cifar10", "svhn"):
            raise ValueError(f"policy is 'imagenet', 'cifar10' or 'svhn', not {policy!r}")
        super().__init__(name, interpolation, fill, policy=str(word))


class AugMix(_Policy):
    """Mixes the image with the results of several random chains of changes.

    Args:
        severity: the strongest strength that is drawn, of 1 to 10.
        mixture_width: how many chains.
        chain_depth: changes of a chain; below 1: 1 to 3, drawn.
        alpha: of the distributions of the shares: Beta for the image, Dirichlet for the chains.
        all_ops: also brightness, contrast, color and sharpness.
        interpolation: of rotations and shears: ``"nearest"``, ``"bilinear"`` or ``"bicubic"``.
        fill: value of pixels from outside the image: one number, or one per channel; None: 0.

    Takes the same inputs as :class:`RandAugment`.

    Source: Hendrycks et al., "AugMix: A Simple Data Processing Method to Improve Robustness and Uncertainty", 2019.

    >>> leat.ops.AugMix(severity=1).interpolation
    'bilinear'
    """

    def __init__(
        self,
        severity: int = 3,
        mixture_width: int = 3,
        chain_depth: int = -1,
        alpha: float = 1.0,
        all_ops: bool = True,
        interpolation: Any = "bilinear",
        fill: Any = None,
        *,
        name: str | None = None,
    ) -> None:
        if not 1e-3 <= alpha <= 1e6:
            raise ValueError(f"alpha is a number of 0.001 to 1000000, not {alpha!r}")
        super().__init__(
            name,
            interpolation,
            fill,
            severity=_whole("severity", severity, 1, 10),
            mixture_width=_whole("mixture_width", mixture_width, 1, 64),
            chain_depth=_whole("chain_depth", chain_depth, -(1 << 31), 64),
            alpha=float(alpha),
            all_ops=bool(all_ops),
        )
