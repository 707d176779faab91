"""Chains that are written again and again. Each returns a new list of operators, to be used as it is or changed.

>>> loader = leat.Loader(photos, batch_size=2, outputs={"image": leat.presets.imagenet_val(32), "label": []})
>>> next(iter(loader))["image"].shape
torch.Size([2, 3, 32, 32])
"""

from __future__ import annotations

from . import ops

IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
CIFAR10_MEAN, CIFAR10_STD = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)
CIFAR100_MEAN, CIFAR100_STD = (0.5071, 0.4865, 0.4409), (0.2673, 0.2564, 0.2762)


def imagenet_train(size: int = 224, dtype: str = "float32") -> list[ops.Operator]:
    """Photos to [N, 3, size, size]: random-resized crop, flip, normalise with ImageNet's mean and deviation.

    Source: the reference training of torchvision.
    """
    chain = [
        ops.Decode(),
        ops.RandomResizedCrop(size),
        ops.RandomHorizontalFlip(),
        ops.Normalize(IMAGENET_MEAN, IMAGENET_STD),
    ]
    return chain if dtype == "float32" else [*chain, ops.ToDtype(dtype)]


def imagenet_val(size: int = 224, resize: int | None = None, dtype: str = "float32") -> list[ops.Operator]:
    """Photos to [N, 3, size, size]: the shorter side to `resize` (size * 256 / 224), the middle, normalised."""
    chain = [
        ops.Decode(),
        ops.Resize(resize or round(size * 256 / 224)),
        ops.CenterCrop(size),
        ops.Normalize(IMAGENET_MEAN, IMAGENET_STD),
    ]
    return chain if dtype == "float32" else [*chain, ops.ToDtype(dtype)]


def _cifar(mean: tuple[float, ...], std: tuple[float, ...], train: bool, encoded: bool) -> list[ops.Operator]:
    chain: list[ops.Operator] = [ops.Decode()] if encoded else []
    if train:
        chain += [ops.RandomCrop(32, padding=4), ops.RandomHorizontalFlip()]
    return [*chain, ops.Normalize(mean, std)]


def cifar10_train(encoded: bool = False) -> list[ops.Operator]:
    """Images of 32 x 32 to [N, 3, 32, 32]: crop out of 4 pixels of padding, flip, normalise.

    For a field of uint8 with a layout; ``encoded=True`` for one of encoded images.
    """
    return _cifar(CIFAR10_MEAN, CIFAR10_STD, True, encoded)


def cifar10_val(encoded: bool = False) -> list[ops.Operator]:
    """Images of 32 x 32 to [N, 3, 32, 32], normalised."""
    return _cifar(CIFAR10_MEAN, CIFAR10_STD, False, encoded)


def cifar100_train(encoded: bool = False) -> list[ops.Operator]:
    """As :func:`cifar10_train`, with the mean and deviation of CIFAR-100."""
    return _cifar(CIFAR100_MEAN, CIFAR100_STD, True, encoded)


def cifar100_val(encoded: bool = False) -> list[ops.Operator]:
    """As :func:`cifar10_val`, with the mean and deviation of CIFAR-100."""
    return _cifar(CIFAR100_MEAN, CIFAR100_STD, False, encoded)
