"""From encoded photos to pixels."""

from collections.abc import Sequence
from dataclasses import KW_ONLY
from typing import Annotated

from .. import check
from . import arguments as a
from .base import Operator

__all__ = ["Decode"]


def _colour(what: str, given: Sequence[int]) -> tuple[int, ...]:
    if isinstance(given, (str, bytes)) or len(given) != 3:
        raise ValueError(f"{what} is red, green and blue, each of 0 to 255, not {given!r}")
    return tuple(check.integer(what, v, 0, 256) for v in given)


class Decode(Operator):
    """Decodes an encoded photo to pixels: uint8 or uint16, HWC. docs/photos.md lists the formats.

    Args:
        mode: ``"RGB"``, ``"GRAY"`` for one channel, or ``"RGBA"``: four channels, the last one the opacity (255 in
            photos without transparency). Colours are not multiplied by it.
        exif: turn the photo as its EXIF orientation says.
        dct_scaling: large JPEGs may be decoded at 1/2, 1/4 or 1/8, as long as the crop is then not smaller than the
            result of the next resize. That is faster, and gives other pixels than exact decoding.
        strict: False: JPEGs that libjpeg-turbo decodes with warnings (extraneous bytes, a premature end) are decoded in
            the same way, and counted by kind in ``loader.stats()["warnings"]``; PNGs with wrong checksums, too. A
            strict Decode finds them broken.
        dtype: ``"uint8"``, or ``"uint16"``: samples of 0 to 65535, those of 16 bits as they are stored, those of 8 bits
            times 257. Operators behind it do not resample: crops, flips, ToDtype, Normalize.
        alpha: ``"drop"``: colours as they are stored, however transparent. ``"blend"``: over `background`.
        background: red, green and blue, 0 to 255.
        icc: ``"srgb"``: for photos with an ICC profile, the colours of sRGB, with Little CMS as Pillow's
            ``ImageCms.profileToProfile`` has them; photos without one stay as they are. It is an error when the loader
            opens if the machine has no Little CMS. ``"ignore"``: the stored numbers, as torchvision and OpenCV give
            them.
        frame: of an animation, or the page of a file of several, from 0. A photo that has fewer is broken.

    Source: torchvision's ``decode_image``; libjpeg-turbo, libspng and libwebp decode.

    >>> chain = [leat.ops.Decode("GRAY"), leat.ops.CenterCrop(32)]
    >>> leat.Loader(photos, 2, outputs={"image": chain}).batch_at(0, 0)["image"].shape
    torch.Size([2, 1, 32, 32])
    """

    mode: Annotated[str, a.choice("RGB", "GRAY", "RGBA")] = "RGB"
    _: KW_ONLY
    exif: a.Flag = False
    dct_scaling: a.Flag = False
    strict: a.Flag = True
    dtype: Annotated[str, a.choice("uint8", "uint16")] = "uint8"
    alpha: Annotated[str, a.choice("drop", "blend")] = "drop"
    background: Annotated[Sequence[int] | None, a.maybe(_colour)] = None
    frame: Annotated[int, a.whole(0, (1 << 31) - 1)] = 0
    icc: Annotated[str, a.choice("ignore", "srgb")] = "ignore"

    def _check(self) -> None:
        if self.alpha == "blend" and self.mode == "RGBA":
            raise ValueError("mode 'RGBA' keeps transparency: alpha='blend' is for 'RGB' and 'GRAY'")
        if self.background is not None and self.alpha != "blend":
            raise ValueError("background is what alpha='blend' blends with: give both")
