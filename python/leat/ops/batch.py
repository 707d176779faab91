"""Operators that make rows of several samples or images: mixed with others, or cut out of one."""

from dataclasses import KW_ONLY
from typing import Annotated, Any

from .. import check
from . import arguments as a
from .base import Operator

__all__ = ["CopyPaste", "CutMix", "DetectionMixUp", "FiveCrop", "MixUp", "Mosaic", "TenCrop"]


def _field_name(what: str, value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{what} is 'default' or the name of a field, not {value!r:.60}")
    return value


def _canvas_side(what: str, value: Any) -> int:
    return check.integer(f"{what}, the longer side of each image,", value, 1, 16384)


Beta = Annotated[float, a.number(1e-3, 1e6)]


class MixUp(Operator):
    """Mixes each image of a batch with the one before it, and their labels. One share per batch is drawn from
    Beta(alpha, alpha).

    It stands last in the chain of a tuple with an image of floats and a label:
    ``{("image", "label"): [..., leat.ops.MixUp(num_classes=10)]}``. Labels arrive as float32 of shape
    ``(batch, num_classes)``.

    Args:
        alpha: of the Beta distribution; 1: all shares are equally likely.
        num_classes: one more than the largest label; None if labels are stored as float32 vectors.
        labels_getter: the field of the label, if several could be it.

    The share comes from the random key of the batch's first row, so it depends on the batch size and the number of
    ranks.

    Source: Zhang et al., "mixup: Beyond empirical risk minimization", 2018.

    >>> mixing = [leat.ops.ToDtype("float32"), leat.ops.MixUp(num_classes=4)]
    >>> chain = [leat.ops.Decode(), leat.ops.Resize((32, 32)), *mixing]
    >>> leat.Loader(photos, 2, outputs={("image", "label"): chain}).batch_at(0, 0)["label"].shape
    torch.Size([2, 4])
    """

    _: KW_ONLY
    alpha: Beta = 1.0
    num_classes: Annotated[int | None, a.maybe(a.whole(1))] = None
    labels_getter: Annotated[str, _field_name] = "default"


class CutMix(MixUp):
    """Replaces a box of each image of a batch by that of the image before it, and mixes their labels by the area.

    There is one box per batch. Arguments are those of :class:`MixUp`. Images may be integers.

    Source: Yun et al., "CutMix: Regularization strategy to train strong classifiers with localizable features", 2019.

    >>> chain = [leat.ops.Decode(), leat.ops.Resize((32, 32)), leat.ops.CutMix(num_classes=4)]
    >>> leat.Loader(photos, 2, outputs={("image", "label"): chain}).batch_at(0, 0)["image"].dtype
    torch.uint8
    """


class Mosaic(Operator, moves=True):
    """Four samples in one image: the row's own and three others of the data set, on a canvas of twice `size`.

    Each image is brought to `size` on its longer side. The four meet in a point that is drawn in the middle half of the
    canvas, the row's own above on the left. Parts beyond the canvas are cut off, and `fill` shows where there is no
    image. Boxes, masks and keypoints follow, and every array of the tuple whose first dimension varies has the rows of
    all four; other fields are those of the row's own sample. A row without a mosaic has its own image in the middle of
    the canvas. So a crop of `size` in the middle of the canvas, behind a random affine map, is what YOLO trains on:

        [Decode(), Mosaic(640), RandomAffine(0, (0.1, 0.1), (0.5, 1.5)), CenterCrop(640), SanitizeBoundingBoxes()]

    The other samples follow from the seed, the epoch and the row, so they are the same for any number of threads and
    ranks, and after a resume. ``batch.ids`` names the row's own. Operators before it draw for each sample apart. With a
    data set of one sample it is four times its own.

    In epochs that do not have it (:meth:`epochs`) a row goes on with its own photo as it was: put a crop of the middle
    for the same epochs behind, and then :class:`Letterbox` or :class:`Resize` for all.

    Args:
        size: the longer side of each image; the canvas is (2 * size, 2 * size).
        p: how likely it is; the other rows have one sample.
        fill: of the canvas: a number, one per channel, or a dict of these by kind, ``{"image": 114, "mask": 255}``.
            Masks are filled with 0, and images with 114, unless the dict says otherwise.

    Source: Bochkovskiy et al., "YOLOv4: Optimal Speed and Accuracy of Object Detection", 2020.

    >>> chain = [leat.ops.Decode(), leat.ops.Mosaic(32), leat.ops.CenterCrop(32)]
    >>> leat.Loader(photos, 2, outputs={"image": chain}).batch_at(0, 0)["image"].shape
    torch.Size([2, 3, 32, 32])
    """

    size: Annotated[int, _canvas_side]
    p: a.Chance = 1.0
    fill: a.GrayFill = 114


class CopyPaste(Operator, moves=True):
    """Pastes objects of another sample onto the row's own image, by their masks.

    Its tuple has boxes and :func:`leat.masks`: ``{("image", "boxes", "masks", "label"): [...]}``. Among the n objects
    of the other sample as many are chosen as differ among n draws, about two thirds of them. The image, and a
    :func:`leat.mask`, are those of the other sample where one lies. Covered pixels leave the masks of the row's own
    objects; their boxes shrink to the rest, and an object with less than `min_area` left is left out. Those that are
    pasted come behind them, in all arrays of the tuple whose first dimension varies, which have a row per box.

    Images are uint8 photos of channels, height and width, which stay. Both have one size there, and operators
    before it draw for each apart. The published recipe jitters the scale of both:

        [Decode(), RandomHorizontalFlip(), ScaleJitter((1024, 1024)), RandomCrop(1024, pad_if_needed=True), CopyPaste()]

    The other sample follows from the seed, the epoch and the row, as those of :class:`Mosaic` do.

    Args:
        p: how likely it is; the other rows stay as they are.
        min_area: pixels of a mask that have to be seen, of the row's own objects that are covered in part and of those
            that are pasted.
        blending: edges of the pasted objects are blurred into the image (Gaussian of five pixels, sigma 2), masks are
            not.

    Source: Ghiasi et al., "Simple Copy-Paste is a Strong Data Augmentation Method for Instance Segmentation", CVPR
    2021, in which blending made no difference.

    Raises:
        TypeError, ValueError: `min_area` is no integer of 1 to 2^31 - 1, `blending` neither True nor False, or `p` no
            probability.

    >>> fields = {"image": "image", "boxes": leat.boxes("xyxy"), "masks": leat.masks()}
    >>> with leat.Writer(tmp / "objects.leat", fields) as w:
    ...     for i in range(2):
    ...         w.add(image=photos[i]["image"], boxes=np.float32([[2, 2, 9, 9]]), masks=[[[2, 2, 9, 2, 9, 9, 2, 9]]])
    0
    1
    >>> names = ("image", "boxes", "masks")
    >>> chain = [leat.ops.Decode(), leat.ops.Resize((32, 32)), leat.ops.CopyPaste()]
    >>> batch = leat.Loader(leat.open(tmp / "objects.leat"), 2, outputs={names: chain}).batch_at(0, 0)
    >>> batch["image"].shape, [len(boxes) == len(masks) for boxes, masks in zip(batch["boxes"], batch["masks"])]
    (torch.Size([2, 3, 32, 32]), [True, True])
    """

    p: a.Chance = 1.0
    min_area: Annotated[int, a.whole(1, (1 << 31) - 1)] = 1
    blending: Annotated[bool, check.flag] = False


class DetectionMixUp(Operator, moves=True):
    """Two samples in one image, the row's own and another one blended, with the boxes of both.

    Each pixel is `share` of the row's own image and the rest of the other one, and the share of a row is drawn from
    Beta(alpha, alpha). A row has the values of both in each array of the tuple whose first dimension varies, as behind
    a :class:`Mosaic`; other fields are those of the row's own sample. Both images have one size there, and operators
    before it draw for each apart. A :func:`leat.mask` cannot be blended. :class:`MixUp` mixes images and labels of
    classification.

    Args:
        alpha: of the Beta distribution; the larger, the nearer to one half. 1.5 as published; the YOLO family has 32.
        p: how likely it is; the other rows stay as they are.

    Source: Zhang et al., "Bag of Freebies for Training Object Detection Neural Networks", 2019.

    >>> chain = [leat.ops.Decode(), leat.ops.Letterbox((32, 32)), leat.ops.DetectionMixUp()]
    >>> leat.Loader(photos, 2, outputs={"image": chain}).batch_at(0, 0)["image"].shape
    torch.Size([2, 3, 32, 32])
    """

    alpha: Beta = 1.5
    p: a.Chance = 1.0


class FiveCrop(Operator, moves=True):
    """The four corners and the middle of an image, (height, width) or a square each. Operators behind it work on each,
    and the output has shape ``(batch, 5, channels, height, width)``.

    The order is upper left, upper right, lower left, lower right, middle. A photo that is smaller is a broken sample.
    Boxes and masks cannot follow.

    >>> chain = [leat.ops.Decode(), leat.ops.Resize((40, 40)), leat.ops.FiveCrop(32)]
    >>> leat.Loader(photos, 2, outputs={"image": chain}).batch_at(0, 0)["image"].shape
    torch.Size([2, 5, 3, 32, 32])
    """

    size: a.Square


class TenCrop(Operator, moves=True):
    """The five crops of :class:`FiveCrop`, and those of the image's mirror image: ``(batch, 10, ...)``.

    Args:
        size: of each.
        vertical_flip: mirrored top to bottom, not left to right.

    >>> chain = [leat.ops.Decode(), leat.ops.Resize((40, 40)), leat.ops.TenCrop(32), leat.ops.ToDtype("float32")]
    >>> leat.Loader(photos, 2, outputs={"image": chain}).batch_at(0, 0)["image"].shape
    torch.Size([2, 10, 3, 32, 32])
    """

    size: a.Square
    vertical_flip: a.Flag = False
