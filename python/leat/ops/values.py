"""Types, ranges and layouts of numbers."""

from dataclasses import InitVar
from typing import Annotated, Any

from .. import check
from ..data.schema import dtype_name
from . import arguments as a
from .base import Operator

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

    mean: Annotated[Any, a.numbers]
    std: Annotated[Any, a.numbers]
    inplace: InitVar[bool] = False

    def _check(self) -> None:
        if len(self.mean) != len(self.std):
            raise ValueError(f"mean has {len(self.mean)} numbers and std {len(self.std)}: one per channel in both")
        if any(not s > 0 for s in self.std):
            raise ValueError(f"std is above 0, not {self.std}")


class ToDtype(Operator):
    """Converts to `dtype`.

    Args:
        dtype: ``"uint8"``, ``"float16"``, ``"bfloat16"``, ``"float32"``, ``"int64"`` ..., also as numpy or torch dtype.
        scale: True maps an integer's 0..max to 0..1 and back; False converts numbers as they are; None means True for
            decoded images and fields with a layout that become floats, else False.

    >>> leat.Loader(photos, 2, outputs={"label": [leat.ops.ToDtype("float32")]}).batch_at(0, 0)["label"]
    tensor([0., 1.])
    """

    dtype: Annotated[Any, lambda _, dtype: dtype_name(dtype)]
    scale: Annotated[bool | None, a.maybe(check.flag)] = None


class ToLayout(Operator):
    """Sets how the batch lies in memory: ``"NCHW"`` (the default of images), ``"NHWC"``, or ``"channels_last"`` (shape
    NCHW, strides of NHWC).

    >>> chain = [leat.ops.Decode(), leat.ops.CenterCrop(32), leat.ops.ToLayout("NHWC")]
    >>> leat.Loader(photos, 2, outputs={"image": chain}).batch_at(0, 0)["image"].shape
    torch.Size([2, 32, 32, 3])
    """

    layout: Annotated[str, a.choice("NCHW", "NHWC", "channels_last")]
