"""Policies: random lists of changes of color and geometry, for training classifiers.

They move pixels, and know nothing of boxes, masks and keypoints.
"""

from typing import Annotated, Any

from . import arguments as a
from .base import Operator

__all__ = ["AugMix", "AutoAugment", "RandAugment", "TrivialAugmentWide"]


Bins = Annotated[int, a.whole(2, 1 << 20)]
PolicyFill = Annotated[Any, a.maybe(a.numbers)]


class RandAugment(Operator, moves=True):
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

    num_ops: Annotated[int, a.whole(0, 64)] = 2
    magnitude: Annotated[int, a.whole(0, 1 << 20)] = 9
    num_magnitude_bins: Bins = 31
    interpolation: a.Warp = "nearest"
    fill: PolicyFill = None

    def _check(self) -> None:
        if self.magnitude >= self.num_magnitude_bins:
            raise ValueError(f"magnitude is below num_magnitude_bins, {self.num_magnitude_bins}, not {self.magnitude}")


class TrivialAugmentWide(Operator, moves=True):
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

    num_magnitude_bins: Bins = 31
    interpolation: a.Warp = "nearest"
    fill: PolicyFill = None


class AutoAugment(Operator, moves=True):
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

    policy: Annotated[Any, a.choice("imagenet", "cifar10", "svhn")] = "imagenet"
    interpolation: a.Warp = "nearest"
    fill: PolicyFill = None


class AugMix(Operator, moves=True):
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

    severity: Annotated[int, a.whole(1, 10)] = 3
    mixture_width: Annotated[int, a.whole(1, 64)] = 3
    chain_depth: Annotated[int, a.whole(-(1 << 31), 64)] = -1
    alpha: Annotated[float, a.number(1e-3, 1e6)] = 1.0
    all_ops: a.Flag = True
    interpolation: a.Warp = "bilinear"
    fill: PolicyFill = None
