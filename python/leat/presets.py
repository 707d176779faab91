"""Chains that are written again and again. Each returns a new list of operators, to be used as it is or changed.

>>> loader = leat.Loader(photos, batch_size=2, outputs={"image": leat.presets.imagenet_val(32), "label": []})
>>> next(iter(loader))["image"].shape
torch.Size([2, 3, 32, 32])
"""

from __future__ import annotations

from collections.abc import Sequence

from . import ops
from .program import Out

IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
CIFAR10_MEAN, CIFAR10_STD = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)
CIFAR100_MEAN, CIFAR100_STD = (0.5071, 0.4865, 0.4409), (0.2673, 0.2564, 0.2762)


def imagenet_train(
    size: int = 224,
    dtype: str = "float32",
    *,
    interpolation: str = "bilinear",
    auto_augment: str | None = None,
    random_erase: float = 0.0,
    magnitude: int = 9,
    severity: int = 3,
) -> list[ops.Operator]:
    """Photos to [N, 3, size, size]: random-resized crop, flip, a policy if wanted, normalised with ImageNet's mean and
    deviation, a rectangle erased if wanted.

    Args:
        size: height and width.
        dtype: of the result.
        interpolation: of the crop and the policy.
        auto_augment: ``"ra"`` (RandAugment), ``"ta_wide"`` (TrivialAugmentWide), ``"augmix"`` (AugMix), a policy of
            AutoAugment such as ``"imagenet"``, or None.
        random_erase: how often a rectangle is erased.
        magnitude: of RandAugment.
        severity: of AugMix.

    Source: the reference training of torchvision.

    >>> [type(op).__name__ for op in leat.presets.imagenet_train(176, auto_augment="ta_wide")][3:]
    ['TrivialAugmentWide', 'Normalize']
    """
    policies: dict[str | None, list[ops.Operator]] = {
        None: [],
        "ra": [ops.RandAugment(magnitude=magnitude, interpolation=interpolation)],
        "ta_wide": [ops.TrivialAugmentWide(interpolation=interpolation)],
        "augmix": [ops.AugMix(severity, interpolation=interpolation)],
    }
    chain = [
        ops.Decode(),
        ops.RandomResizedCrop(size, interpolation=interpolation),
        ops.RandomHorizontalFlip(),
        *(policies[auto_augment] if auto_augment in policies else [ops.AutoAugment(auto_augment, interpolation)]),
        ops.Normalize(IMAGENET_MEAN, IMAGENET_STD),
        *([ops.RandomErasing(random_erase)] if random_erase else []),
    ]
    return chain if dtype == "float32" else [*chain, ops.ToDtype(dtype)]


def imagenet_val(
    size: int = 224, resize: int | None = None, dtype: str = "float32", *, interpolation: str = "bilinear"
) -> list[ops.Operator]:
    """Photos to [N, 3, size, size]: the shorter side to `resize` (size * 256 / 224), the middle, normalised."""
    chain = [
        ops.Decode(),
        ops.Resize(resize or round(size * 256 / 224), interpolation),
        ops.CenterCrop(size),
        ops.Normalize(IMAGENET_MEAN, IMAGENET_STD),
    ]
    return chain if dtype == "float32" else [*chain, ops.ToDtype(dtype)]


def imagenet_eval(
    size: int = 224, resize: int = 256, dtype: str = "float32", *, interpolation: str = "bilinear"
) -> list[ops.Operator]:
    """As :func:`imagenet_val`, with the shorter side to 256 as torchvision evaluates."""
    return imagenet_val(size, resize, dtype, interpolation=interpolation)


def _view(
    size: int,
    jitter: tuple[float, float, float, float],
    blur: float,
    scale: tuple[float, float],
    solarize: float = 0.0,
    *,
    interpolation: str = "bilinear",
    normalize: bool = True,
) -> list[ops.Operator]:
    """One view of a photo, for learning without labels: crop, flip, colors, gray, blur, solarized."""
    taps = max(3, size // 10 + 1 - size // 10 % 2)  # a tenth of the side, odd
    return [
        ops.Decode(),
        ops.RandomResizedCrop(size, scale, interpolation=interpolation),
        ops.RandomHorizontalFlip(),
        ops.RandomApply([ops.ColorJitter(*jitter)], 0.8),
        ops.RandomGrayscale(0.2),
        ops.RandomApply([ops.GaussianBlur(taps, (0.1, 2.0))], blur),
        *([ops.RandomSolarize(128, solarize)] if solarize else []),
        ops.Normalize(IMAGENET_MEAN, IMAGENET_STD) if normalize else ops.ToDtype("float32"),
    ]


def simclr(field: str = "image", size: int = 224, strength: float = 1.0) -> dict[str, Out]:
    """Two views of each photo, [N, 3, size, size] in 0 to 1, as the outputs ``view1`` and ``view2``.

    Args:
        field: of the photos.
        size: height and width.
        strength: of the change of colors: 1 for ImageNet, 0.5 for CIFAR-10.

    Source: Chen et al., "A Simple Framework for Contrastive Learning of Visual Representations", 2020, appendix A.

    >>> batch = leat.Loader(photos, 2, outputs=leat.presets.simclr(size=32)).batch_at(0, 0)
    >>> {name: tuple(views.shape) for name, views in batch.items()}
    {'view1': (2, 3, 32, 32), 'view2': (2, 3, 32, 32)}
    """
    jitter = (0.8 * strength, 0.8 * strength, 0.8 * strength, 0.2 * strength)
    return {f"view{i}": Out(field, _view(size, jitter, 0.5, (0.08, 1.0), normalize=False)) for i in (1, 2)}


_SOFT = (0.4, 0.4, 0.2, 0.1)


def byol(field: str = "image", size: int = 224, *, interpolation: str = "bicubic") -> dict[str, Out]:
    """Two views of each photo that differ in blur and solarization, normalised, as the outputs ``view1`` and ``view2``.

    Args:
        field: of the photos.
        size: height and width.
        interpolation: of the crops.

    Source: Grill et al., "Bootstrap Your Own Latent", 2020, appendix B.
    """
    return {
        "view1": Out(field, _view(size, _SOFT, 1.0, (0.08, 1.0), interpolation=interpolation)),
        "view2": Out(field, _view(size, _SOFT, 0.1, (0.08, 1.0), 0.2, interpolation=interpolation)),
    }


def dino(
    field: str = "image", size: int = 224, local_size: int = 96, n_local: int = 8, *, interpolation: str = "bicubic"
) -> dict[str, Out]:
    """Two large views of each photo, ``view1`` and ``view2``, and small ones of small parts, ``local1`` and so on.

    Args:
        field: of the photos.
        size: height and width of the large views.
        local_size: height and width of the small ones.
        n_local: how many of these.
        interpolation: of the crops.

    Source: Caron et al., "Emerging Properties in Self-Supervised Vision Transformers", 2021, with its official code.
    """
    views = {f"view{i}": (size, blur, (0.4, 1.0), solarize) for i, blur, solarize in ((1, 1.0, 0.0), (2, 0.1, 0.2))}
    views |= {f"local{i}": (local_size, 0.5, (0.05, 0.4), 0.0) for i in range(1, n_local + 1)}
    return {
        name: Out(field, _view(side, _SOFT, blur, scale, solarize, interpolation=interpolation))
        for name, (side, blur, scale, solarize) in views.items()
    }


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


def dfine_sizes(size: int = 640, repeat: int = 3) -> list[int]:
    """The sizes that D-FINE's training draws one of for each step: from 3/4 to 5/4 of `size` in steps of 32, `size`
    itself `repeat` times.

    >>> leat.presets.dfine_sizes(640, 2)
    [480, 512, 544, 576, 608, 640, 640, 672, 704, 736, 768, 800]
    """
    low, high = int(size * 0.75 / 32) * 32, int(size * 1.25 / 32) * 32
    return [*range(low, size, 32), *[size] * repeat, *range(high - (size - low) // 32 * 32 + 32, high + 32, 32)]


def dfine_train(
    size: int = 640, sizes: Sequence[int] | None = None, stop_epoch: int | None = None
) -> list[ops.Operator]:
    """D-FINE's training, for a tuple of an image, boxes and labels: [N, 3, size, size] of 0 to 1, and boxes as centre
    and size, in shares of the image.

    Args:
        size: of the images, squares.
        sizes: one of these is drawn for each step, equal on all ranks, in the place of `size`:
            :func:`dfine_sizes` gives the published ones. They need ``in_order=True``.
        stop_epoch: from this epoch on there are no photometric distortion, zoom-out and IoU crop, and every step has
            `size`. The program says so, whose hash ranks compare and the log keeps.

    An image is resized once, from the decoded photo to the size of its step. Source: Peng et al., "D-FINE: Redefine
    Regression Task of DETRs as Fine-grained Distribution Refinement", 2024, and its configuration.

    >>> chain = leat.presets.dfine_train(64, sizes=leat.presets.dfine_sizes(64), stop_epoch=72)
    >>> [type(op).__name__ for op in chain][1:4]
    ['RandomPhotometricDistort', 'RandomZoomOut', 'RandomApply']
    """

    def early(op: ops.Operator) -> ops.Operator:
        return op if stop_epoch is None else op.epochs(stop=stop_epoch)

    resizes: list[ops.Operator] = [ops.Resize((size, size))]
    if sizes is not None:
        resizes = [early(ops.Resize(ops.PerBatch([(s, s) for s in (*sizes, size)], [*[1.0] * len(sizes), 0.0])))]
        if stop_epoch is not None:
            resizes.append(ops.Resize((size, size)).epochs(stop_epoch))
    return [
        ops.Decode(),
        early(ops.RandomPhotometricDistort(p=0.5)),
        early(ops.RandomZoomOut(fill=0)),
        early(ops.RandomApply([ops.RandomIoUCrop()], p=0.8)),
        ops.SanitizeBoundingBoxes(min_size=1),
        ops.RandomHorizontalFlip(),
        *resizes,
        ops.SanitizeBoundingBoxes(min_size=1),
        ops.ToDtype("float32"),
        ops.ConvertBoundingBoxFormat("cxcywh", normalized=True),
    ]


def detection_train(
    policy: str = "hflip", *, mean: tuple[float, float, float] = (123.0, 117.0, 104.0), hflip_prob: float = 0.5
) -> list[ops.Operator]:
    """The reference training of torchvision's detectors, for a tuple of an image, boxes and labels: images of 0 to 1,
    boxes as corners in pixels.

    Args:
        policy: ``"hflip"`` (Faster R-CNN, RetinaNet), ``"lsj"`` (large scale jitter to 1024 x 1024), ``"multiscale"``
            (shorter side of 480 to 800), ``"ssd"`` or ``"ssdlite"``.
        mean: the fill of padding, 0 to 255.
        hflip_prob: how often an image is mirrored.

    All but ``"lsj"`` are of open size: ``{names: leat.Out(names, chain, stack="list")}``, with `names` ``("image",
    "boxes", "label")``, delivers them as these detectors take them. With ``"lsj"`` an image that is smaller than the
    crop is padded on both sides; there it stands in the upper left corner.

    >>> [type(op).__name__ for op in leat.presets.detection_train("ssdlite")][1:4]
    ['RandomIoUCrop', 'RandomHorizontalFlip', 'ToDtype']
    """
    flip = ops.RandomHorizontalFlip(hflip_prob)
    policies: dict[str, list[ops.Operator]] = {
        "hflip": [flip],
        "lsj": [
            ops.ScaleJitter((1024, 1024)),
            ops.RandomCrop((1024, 1024), pad_if_needed=True, fill=mean),
            flip,
        ],
        "multiscale": [ops.RandomShortestSize(range(480, 801, 32), max_size=1333), flip],
        "ssd": [ops.RandomPhotometricDistort(), ops.RandomZoomOut(fill=mean), ops.RandomIoUCrop(), flip],
        "ssdlite": [ops.RandomIoUCrop(), flip],
    }
    if policy not in policies:
        raise ValueError(f"policy is one of {', '.join(map(repr, policies))}, not {policy!r}")
    end = [ops.ToDtype("float32"), ops.ConvertBoundingBoxFormat("xyxy"), ops.SanitizeBoundingBoxes()]
    return [ops.Decode(), *policies[policy], *end]


def detr_train() -> list[ops.Operator]:
    """DETR's training, for a tuple of an image, boxes and labels: normalised images of open size, boxes as centre and
    size in shares of the image.

    The shorter side becomes one of 480 to 800, the longer one at most 1333; half of the images are cropped before, at a
    shorter side of 400, 500 or 600. ``{names: leat.Out(names, chain, stack="pad")}``, with `names` ``("image", "boxes",
    "label")``, delivers them as DETR takes them. Source: Carion et al., "End-to-End Object Detection with
    Transformers", ECCV 2020, and its code.

    >>> [type(op).__name__ for op in leat.presets.detr_train()][1:4]
    ['RandomHorizontalFlip', 'RandomChoice', 'SanitizeBoundingBoxes']
    """

    def resize() -> ops.Operator:
        return ops.RandomShortestSize(range(480, 801, 32), max_size=1333)

    cropped = [ops.RandomShortestSize([400, 500, 600]), ops.RandomSizeCrop(384, 600), resize()]
    return [
        ops.Decode(),
        ops.RandomHorizontalFlip(),
        ops.RandomChoice([[resize()], cropped]),
        ops.SanitizeBoundingBoxes(),
        ops.Normalize(IMAGENET_MEAN, IMAGENET_STD),
        ops.ConvertBoundingBoxFormat("cxcywh", normalized=True),
    ]


def yolo_train(size: int = 640, stop_epoch: int | None = None) -> list[ops.Operator]:
    """A training as the YOLO family has it, for a tuple of an image, boxes and labels: mosaic, a random affine map,
    colors, flip; [N, 3, size, size] of 0 to 1, boxes as centre and size in shares of the image.

    Args:
        size: of the images, squares.
        stop_epoch: from this epoch on rows have their own image alone, without mosaic.

    Colors are those of :class:`leat.ops.ColorJitter` with the bounds that are usual there, not gains in HSV. Source:
    Bochkovskiy et al., "YOLOv4: Optimal Speed and Accuracy of Object Detection", 2020, and the trainings since.

    >>> [type(op).__name__ for op in leat.presets.yolo_train(64)][1:4]
    ['Mosaic', 'RandomAffine', 'CenterCrop']
    """
    mosaic = ops.Mosaic(size)
    return [
        ops.Decode(),
        mosaic if stop_epoch is None else mosaic.epochs(stop=stop_epoch),
        ops.RandomAffine(0, translate=(0.05, 0.05), scale=(0.5, 1.5), interpolation="bilinear", fill=114),
        ops.CenterCrop(size),
        ops.SanitizeBoundingBoxes(min_size=2),
        ops.ColorJitter(brightness=0.4, saturation=0.7, hue=0.015),
        ops.RandomHorizontalFlip(),
        ops.ToDtype("float32"),
        ops.ConvertBoundingBoxFormat("cxcywh", normalized=True),
    ]
