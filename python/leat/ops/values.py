"""Types, ranges and layouts of numbers."""

from __future__ import annotations

from typing import Any

from ..data.schema import dtype_name
from .base import Operator, _numbers

__all__ = ["Normalize", "ToDtype", "ToLayout"]


class Normalize(Operator):
    """Computes ``(x - mean) / std`` per channel, as float32. Integers of decoded images and of fields with a layout are
    first scaled to 0..1.

    Args:
        mean: one number per channel (or one for all), in units of 0 to 1 for images.
        std: the same, above 0.
        inplace: accepted as in torchvision; it makes no difference.

    >>> normalize = leat.ops.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
    >>> chain = [leat.ops.Decode(), leat.ops.CenterCrop(32), normalize]
    >>> leat.Loader(photos, 2, outputs={"image": chain}).batch_at(0, 0)["image"].dtype
    torch.float32
    """

    def __init__(self, mean: Any, std: Any, inplace: bool = False, *, name: str | None = None) -> None:
        means, stds = _numbers("mean", mean), _numbers("std", std)
        if len(means) != len(stds):
            raise ValueError(f"mean has {len(means)} numbers and std {len(stds)}: one per channel in both")
        if any(not s > 0 for s in stds):
            raise ValueError(f"std is above 0, not {stds}")
        super().__init__(name, mean=means, std=stds)


class ToDtype(Operator):
    """Converts to `dtype`.

    Args:
        dtype: ``"uint8"``, ``"float16"``, ``"bfloat16"``, ``"float32"``, ``"int64"`` ..., also as numpy or torch dtype.
        scale: True maps an integer's 0..max to 0..1 and back; False converts numbers as they are; None means True for
            decoded images and fields with a layout that become floats, else False.

    >>> leat.Loader(photos, 2, outputs={"label": [leat.ops.ToDtype("float32")]}).batch_at(0, 0)["label"]
    tensor([0., 1.])
    """

    def __init__(self, dtype: Any, scale: bool | None = None, *, name: str | None = None) -> None:
        super().__init__(name, dtype=dtype_name(dtype), scale=None if scale is None else bool(scale))


class ToLayout(Operator):
    """Sets how the batch lies in memory: ``"NCHW"`` (the default of images), ``"NHWC"``, or ``"channels_last"`` (shape
    NCHW, strides of NHWC).

    >>> chain = [leat.ops.Decode(), leat.ops.CenterCrop(32), leat.ops.ToLayout("NHWC")]
    >>> leat.Loader(photos, 2, outputs={"image": chain}).batch_at(0, 0)["image"].shape
    torch.Size([2, 32, 32, 3])
    """

    def __init__(self, layout: str, *, name: str | None = None) -> None:
        if layout not in ("NCHW", "NHWC", "channels_last"):
            raise ValueError(f"layout is 'NCHW', 'NHWC' or 'channels_last', not {layout!r}")
        super().__init__(name, layout=layout)
