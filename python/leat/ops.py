"""Operators: what happens to a sample's value on its way into a batch.

An operator has the signature, the defaults and the distribution of the one of the same name in
``torchvision.transforms.v2``, and takes `name`. It is a description: it holds arguments, is compared by value and
computes nothing itself. A chain of operators is a list. If the same operator *object* is in two chains of a loader, it
draws once, and both get the same crop.
"""

from __future__ import annotations

import difflib
import json
import math
import operator
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from .data.schema import ENCODED, ROLES, Field, dtype_name, field
from .functions import native

Chain = Sequence["Operator"]


class Operator:
    """What all operators share: arguments as attributes, ``repr``, equality by value, and a JSON form."""

    _moves: ClassVar[bool] = False  #: whether it moves pixels, so that boxes and masks must move with them
    name: str | None
    __slots__ = ("_values", "name")

    def __init__(self, name: str | None, **values: Any) -> None:
        if name is not None and not (isinstance(name, str) and name):
            raise TypeError(f"name is a text or None, not {name!r}")
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "_values", values)

    def __setattr__(self, key: str, value: Any) -> None:
        raise AttributeError(f"operators are not changed: make another {type(self).__name__}")

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._values]

    def __getattr__(self, key: str) -> Any:
        if not key.startswith("_") and key in self._values:
            return self._values[key]
        raise AttributeError(f"{type(self).__name__} has no attribute {key!r}")

    def __repr__(self) -> str:
        shown = [f"{k}={v!r}" for k, v in self._values.items()] + ([f"name={self.name!r}"] if self.name else [])
        return f"{type(self).__name__}({', '.join(shown)})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Operator):
            return NotImplemented
        return type(self) is type(other) and self._values == other._values and self.name == other.name

    def __hash__(self) -> int:
        return hash((type(self).__name__, self.name, tuple(self._values.items())))

    def __reduce__(self) -> tuple[Any, ...]:
        size = self._values.get("size")
        return (from_json, (self.to_json() | ({"size": size} if isinstance(size, PerBatch) else {}),))

    def to_json(self) -> dict[str, Any]:
        """A dict of plain values: the type, the arguments and the name."""
        found = {k: _plain(v) for k, v in self._values.items() if v is not None or k == "size"}
        return {"type": type(self).__name__, **found} | ({"name": self.name} if self.name else {})


def _integers(what: str, values: Any) -> tuple[int, ...]:
    """One integer, or several."""
    try:
        return (operator.index(values),) if hasattr(values, "__index__") else tuple(operator.index(v) for v in values)
    except TypeError:
        raise TypeError(f"{what} is an integer or a list of them, not {values!r:.60}") from None


def _plain(value: Any) -> Any:
    return value.to_json() if isinstance(value, PerBatch) else list(value) if isinstance(value, tuple) else value


class PerBatch:
    """A size that is drawn from several for each global batch, and so is equal on all ranks.

    Args:
        sizes: each is what the operator takes as its size: a number of pixels, or (height, width).
        weights: how often each is drawn, relative to the others; None: all alike.
        name: of the draw; None: it follows from the operators that have the size.

    One object is drawn once for all operators that have it. Another object is another draw, even with the same sizes.
    The size of a batch follows from the seed, the epoch and the batch's first row, for any number of threads and ranks,
    and after a resume. :class:`Resize` takes a number as the shorter side: give it pairs if its result is the output.

    >>> size = leat.PerBatch([16, 24, 32])
    >>> chain = [leat.ops.Decode(), leat.ops.RandomResizedCrop(size)]
    >>> loader = leat.Loader(photos, 1, outputs={"image": chain}, seed=3)
    >>> [loader.batch_at(0, step)["image"].shape[2] for step in range(4)]
    [32, 32, 24, 16]
    """

    __slots__ = ("name", "sizes", "weights")
    sizes: tuple[int | tuple[int, int], ...]
    weights: tuple[float, ...] | None
    name: str | None

    def __init__(self, sizes: Any, weights: Any = None, *, name: str | None = None) -> None:
        if isinstance(sizes, (str, bytes)) or not hasattr(sizes, "__iter__") or not list(sizes):
            raise TypeError(f"PerBatch takes a list of sizes, not {sizes!r:.60}")
        if name is not None and not (isinstance(name, str) and name):
            raise TypeError(f"name is a text or None, not {name!r}")
        self.sizes = tuple(_one_size(s) for s in sizes)
        self.weights = None if weights is None else _numbers("weights", weights)
        self.name = name
        if len(self.sizes) > 256:
            raise ValueError(f"PerBatch takes at most 256 sizes, not {len(self.sizes)}")
        if self.weights is not None and (
            len(self.weights) != len(self.sizes) or min(self.weights) < 0 or not sum(self.weights) > 0
        ):
            raise ValueError(f"weights is a number from 0 for each size, one of them above 0, not {weights!r:.60}")

    def __repr__(self) -> str:
        given = [str(list(self.sizes))] + [f"{k}={getattr(self, k)!r}" for k in ("weights", "name") if getattr(self, k)]
        return f"PerBatch({', '.join(given)})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PerBatch):
            return NotImplemented
        return (self.sizes, self.weights, self.name) == (other.sizes, other.weights, other.name)

    def __hash__(self) -> int:
        return hash((self.sizes, self.weights, self.name))

    def to_json(self, number: int = 0) -> dict[str, Any]:
        """A dict of plain values. What has the same `number` in a program is one object."""
        found = {"per_batch": number, "sizes": [_plain(s) for s in self.sizes]}
        return found | {k: _plain(getattr(self, k)) for k in ("weights", "name") if getattr(self, k)}


def _size(size: Any) -> Any:
    """A side, (height, width), or a size per batch."""
    if isinstance(size, Mapping) and "per_batch" in size:  # as to_json wrote it
        return PerBatch(size.get("sizes"), size.get("weights"), name=size.get("name"))
    return size if isinstance(size, PerBatch) else _one_size(size)


def _one_size(size: Any) -> int | tuple[int, int]:
    sides = _integers("size", size)
    if len(sides) not in (1, 2) or any(s < 1 for s in sides):
        raise ValueError(f"size is a number of pixels above 0, or (height, width), not {size!r}")
    return sides[0] if len(sides) == 1 else (sides[0], sides[1])


def _square(size: Any) -> Any:
    sides = _size(size)
    return (sides, sides) if isinstance(sides, int) else sides


def _interpolation(mode: Any) -> str:
    """A name, torchvision's InterpolationMode, or Pillow's number."""
    name = {0: "nearest", 2: "bilinear"}.get(mode, mode) if isinstance(mode, int) else getattr(mode, "value", mode)
    if name not in ("bilinear", "nearest", "nearest-exact"):
        raise ValueError(f"interpolation is 'bilinear', 'nearest' or 'nearest-exact', not {mode!r}")
    return str(name)


def _numbers(what: str, values: Any) -> tuple[float, ...]:
    """Numbers, of a list, an array or a tensor."""
    try:
        found = tuple(float(v) for v in (values if hasattr(values, "__len__") else [values]))
    except (TypeError, ValueError):
        raise TypeError(f"{what} is a list of numbers, not {values!r}") from None
    if not all(map(math.isfinite, found)):
        raise ValueError(f"{what} is a list of finite numbers, not {values!r:.60}")
    return found


def _pair(what: str, values: Any) -> tuple[float, float]:
    found = _numbers(what, values)
    if len(found) != 2 or found[0] > found[1]:
        raise ValueError(f"{what} is (low, high), not {values!r}")
    return found[0], found[1]


class Decode(Operator):
    """Decodes an encoded photo (JPEG, PNG or WebP) to pixels: uint8, HWC.

    Args:
        mode: ``"RGB"``, or ``"GRAY"`` for one channel.
        exif: turn the photo as its EXIF orientation says.
        dct_scaling: large JPEGs may be decoded at 1/2, 1/4 or 1/8, as long as the crop is not smaller then than what
            the next resize makes of it. That is faster, and gives other pixels than exact decoding.
        strict: False: JPEGs that libjpeg-turbo decodes with warnings (extraneous bytes, a premature end) are decoded in
            the same way, and counted by kind in ``loader.stats()["warnings"]``. A strict Decode finds them broken.

    Source: torchvision's ``decode_image``; libjpeg-turbo, libspng and libwebp decode.

    >>> chain = [leat.ops.Decode("GRAY"), leat.ops.CenterCrop(32)]
    >>> leat.Loader(photos, 2, outputs={"image": chain}).batch_at(0, 0)["image"].shape
    torch.Size([2, 1, 32, 32])
    """

    def __init__(
        self,
        mode: str = "RGB",
        *,
        exif: bool = False,
        dct_scaling: bool = False,
        strict: bool = True,
        name: str | None = None,
    ) -> None:
        if mode not in ("RGB", "GRAY"):
            raise ValueError(f"mode is 'RGB' or 'GRAY', not {mode!r}")
        super().__init__(name, mode=mode, exif=bool(exif), dct_scaling=bool(dct_scaling), strict=bool(strict))


class Resize(Operator):
    """Resizes to (height, width), or to a shorter side of `size`, keeping the ratio of the sides.

    Args:
        size: one number for the shorter side, or (height, width); None: the longer side becomes `max_size`.
        interpolation: ``"bilinear"``, ``"nearest"``, ``"nearest-exact"``; torchvision's enum is accepted too.
        max_size: with one number as `size`: the most that the longer side may be.
        antialias: of ``"bilinear"``; without it only the 4 nearest pixels count.

    Antialiased bilinear equals Pillow's ``Image.resize``: 8-bit fixed point.

    >>> chain = [leat.ops.Decode(), leat.ops.Resize((32, 48))]
    >>> leat.Loader(photos, 2, outputs={"image": chain}).batch_at(0, 0)["image"].shape
    torch.Size([2, 3, 32, 48])
    """

    _moves = True

    def __init__(
        self,
        size: Any,
        interpolation: Any = "bilinear",
        max_size: int | None = None,
        antialias: bool | None = True,
        *,
        name: str | None = None,
    ) -> None:
        sides = None if size is None else _size(size)
        if sides is None and max_size is None:
            raise ValueError("size is None only where max_size is given")
        if max_size is not None and isinstance(sides, tuple):
            raise ValueError("max_size goes with one number as size")
        super().__init__(
            name,
            size=sides,
            interpolation=_interpolation(interpolation),
            max_size=max_size,
            antialias=antialias is None or bool(antialias),
        )


class CenterCrop(Operator):
    """Cuts (height, width), or a square, out of the middle. Where the image is smaller, black is added around it.

    >>> chain = [leat.ops.Decode(), leat.ops.Resize(40), leat.ops.CenterCrop(32)]
    >>> leat.Loader(photos, 2, outputs={"image": chain}).batch_at(0, 0)["image"].shape
    torch.Size([2, 3, 32, 32])
    """

    _moves = True

    def __init__(self, size: Any, *, name: str | None = None) -> None:
        super().__init__(name, size=_square(size))


class RandomCrop(Operator):
    """Cuts (height, width), or a square, at a random place.

    Args:
        size: what is cut out.
        padding: added around first: one number, (left and right, top and bottom), or (left, top, right, bottom).
        pad_if_needed: pad an image that is too small.
        fill: value of padding, one number or one per channel.
        padding_mode: ``"constant"`` (`fill`), ``"edge"`` (the nearest pixel), ``"reflect"`` or ``"symmetric"``
            (mirrored, without or with the edge's pixel twice).

    >>> leat.ops.RandomCrop(32, padding=4)
    RandomCrop(size=(32, 32), padding=(4,), pad_if_needed=False, fill=(0.0,), padding_mode='constant')
    """

    _moves = True

    def __init__(
        self,
        size: Any,
        padding: Any = None,
        pad_if_needed: bool = False,
        fill: Any = 0,
        padding_mode: str = "constant",
        *,
        name: str | None = None,
    ) -> None:
        if padding_mode not in ("constant", "edge", "reflect", "symmetric"):
            raise ValueError(f"padding_mode is 'constant', 'edge', 'reflect' or 'symmetric', not {padding_mode!r}")
        if padding is not None:
            padding = _integers("padding", padding)
            if len(padding) not in (1, 2, 4) or min(padding) < 0:
                raise ValueError("padding is one, two or four numbers, none below 0")
        super().__init__(
            name,
            size=_square(size),
            padding=padding,
            pad_if_needed=bool(pad_if_needed),
            fill=_numbers("fill", fill),
            padding_mode=padding_mode,
        )


class RandomResizedCrop(Operator):
    """Cuts a part of random area and ratio of sides at a random place, and resizes it to `size`.

    Args:
        size: (height, width), or one number for a square.
        scale: lower and upper bound of the part's area, as a fraction of the image's.
        ratio: lower and upper bound of width / height, drawn log-uniformly.
        interpolation: as of :class:`Resize`.
        antialias: as of :class:`Resize`.

    Source: Szegedy et al., "Going deeper with convolutions", 2015. The result equals Pillow's
    ``crop(box).resize(size)``.

    >>> chain = [leat.ops.Decode(), leat.ops.RandomResizedCrop(32, scale=(0.3, 1))]
    >>> leat.Loader(photos, 2, outputs={"image": chain}, seed=1).batch_at(0, 0)["image"].shape
    torch.Size([2, 3, 32, 32])
    """

    _moves = True

    def __init__(
        self,
        size: Any,
        scale: Any = (0.08, 1.0),
        ratio: Any = (3.0 / 4.0, 4.0 / 3.0),
        interpolation: Any = "bilinear",
        antialias: bool | None = True,
        *,
        name: str | None = None,
    ) -> None:
        super().__init__(
            name,
            size=_square(size),
            scale=_pair("scale", scale),
            ratio=_pair("ratio", ratio),
            interpolation=_interpolation(interpolation),
            antialias=antialias is None or bool(antialias),
        )


class RandomHorizontalFlip(Operator):
    """Mirrors left and right with probability `p`.

    >>> leat.ops.RandomHorizontalFlip()
    RandomHorizontalFlip(p=0.5)
    """

    _moves = True

    def __init__(self, p: float = 0.5, *, name: str | None = None) -> None:
        (chance,) = _numbers("p", [p])
        if not 0 <= chance <= 1:
            raise ValueError(f"p is a probability, from 0 to 1, not {p}")
        super().__init__(name, p=chance)


def _jitter(what: str, value: Any, center: float = 1.0) -> tuple[float, float] | None:
    """The range of a factor: around `center`, as far as a number says; or (low, high)."""
    if value is None:
        return None
    found = _numbers(what, value)
    if len(found) == 1 and found[0] >= 0:
        found = (center - found[0] if center == 0 else max(0.0, center - found[0]), center + found[0])
    least, most = (-0.5, 0.5) if center == 0 else (0.0, 1e6)
    if len(found) != 2 or not least <= found[0] <= found[1] <= most:
        raise ValueError(
            f"{what} is a number from 0{' to 0.5' * (center == 0)}, or (low, high) within [{least:g}, {most:g}], not "
            f"{value!r}"
        )
    return None if found == (center, center) else (found[0], found[1])


class ColorJitter(Operator):
    """Changes brightness, contrast, saturation and hue by random factors, in random order.

    Args:
        brightness: x: the factor is uniform in [max(0, 1 - x), 1 + x]; (low, high): in that range. None: not changed.
        contrast: the same.
        saturation: the same.
        hue: h, of 0 to 0.5: the hue is turned by a part of the circle that is uniform in [-h, h]; (low, high): in that
            range.

    Takes uint8 images of 3 channels, or of 1, of which saturation and hue change nothing. The pixels equal those of
    Pillow's ``ImageEnhance`` and of a hue that is turned in its mode ``"HSV"``.

    >>> leat.ops.ColorJitter(0.4, hue=(-0.1, 0.2))
    ColorJitter(brightness=(0.6, 1.4), contrast=None, saturation=None, hue=(-0.1, 0.2))
    """

    def __init__(
        self,
        brightness: Any = None,
        contrast: Any = None,
        saturation: Any = None,
        hue: Any = None,
        *,
        name: str | None = None,
    ) -> None:
        super().__init__(
            name,
            brightness=_jitter("brightness", brightness),
            contrast=_jitter("contrast", contrast),
            saturation=_jitter("saturation", saturation),
            hue=_jitter("hue", hue, 0.0),
        )


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

    def __init__(self, kernel_size: Any, sigma: Any = (0.1, 2.0), *, name: str | None = None) -> None:
        sides = _square(_integers("kernel_size", kernel_size))
        if any(s % 2 == 0 or s > 2047 for s in sides):
            raise ValueError(
                f"kernel_size is an odd number of pixels of 1 to 2047, or (width, height), not {kernel_size!r}"
            )
        found = _numbers("sigma", sigma)
        found = _pair("sigma", found * 2 if len(found) == 1 else found)
        if found[0] <= 0:
            raise ValueError(f"sigma is above 0, not {sigma!r}")
        super().__init__(name, kernel_size=sides, sigma=found)


class RandomRotation(Operator):
    """Turns counter-clockwise by a random angle.

    Args:
        degrees: d: the angle is uniform in [-d, d]; (low, high): in that range.
        interpolation: ``"nearest"`` or ``"bilinear"``; torchvision's enum is accepted too.
        expand: the result is as large as the turned image. Its size is open, so a resize or a crop has to follow.
        center: the point (x, y) that stays in place; None: the middle.
        fill: value of pixels from outside the image, one number or one per channel.

    Takes uint8 images. The pixels are those of Pillow's ``Image.rotate``, within 1 if bilinear. In the chain of a tuple
    boxes, masks and keypoints turn with the image.

    >>> chain = [leat.ops.Decode(), leat.ops.RandomRotation(30, "bilinear", expand=True), leat.ops.CenterCrop(32)]
    >>> leat.Loader(photos, 2, outputs={"image": chain}).batch_at(0, 0)["image"].shape
    torch.Size([2, 3, 32, 32])
    """

    _moves = True

    def __init__(
        self,
        degrees: Any,
        interpolation: Any = "nearest",
        expand: bool = False,
        center: Any = None,
        fill: Any = 0,
        *,
        name: str | None = None,
    ) -> None:
        angles = _numbers("degrees", degrees)
        if len(angles) == 1 and angles[0] < 0:
            raise ValueError(f"degrees is a number from 0, or (low, high), not {degrees!r}")
        mode = _interpolation(interpolation)
        middle = None if center is None else _numbers("center", center)
        if middle is not None and len(middle) != 2:
            raise ValueError(f"center is (x, y), not {center!r}")
        super().__init__(
            name,
            degrees=_pair("degrees", (-angles[0], angles[0]) if len(angles) == 1 else angles),
            interpolation="nearest" if mode == "nearest-exact" else mode,
            expand=bool(expand),
            center=middle,
            fill=_numbers("fill", fill),
        )


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


class Native(Operator):
    """A compiled function of yours, on the library's own threads, without the interpreter.

    Args:
        function: ``"path/to/lib.so:symbol"``, a C function of the form ``leat_native_fn`` in the header ``leat/leat.h``
            (in :func:`leat.get_include`); a ``numba.cfunc``; a ctypes function; or an address.
        args: for the C function: a number or a list of numbers, a text, or any other value that JSON can hold.
        returns: the type of the result, ``leat.field(dtype, shape)``, with ``layout="HWC"`` if it is an image. None:
            that of the input.
        call: ``"structure"`` or ``"flat"``: how the function is called, where it does not say so itself. A function of
            a library is called with the structure, an address always needs it, and one of numba or ctypes says it by
            its arguments.

    The flat form, for numba, is ``int32(in, out, int64 n_in, int64 n_out, uint64 key)``: pointers to the elements of
    the input and of the result, how many these are, and the row's random key. If it returns anything but 0, the sample
    is broken. The input is a value of fixed shape, an image of fixed size (as HWC), or, where `returns` is given, any
    stored value. ``docs/operators.md`` says the rest, and the rules for both forms.

    A program with a function of a library can be saved. Reading it back loads nothing without ``allow_native=True``.

    Raises:
        TypeError: not a compiled function, or its arguments are none of the two forms.
        ValueError: the text is not ``"lib.so:symbol"``, or `args` has no JSON form.

    >>> leat.ops.Native("./libimage.so:blur", args=[1.5], returns=leat.field("float32", (8, 8, 3), layout="HWC"))
    Native(function='./libimage.so:blur', args=[1.5], returns=field('float32', (8, 8, 3), layout='HWC'), call=None)
    """

    def __init__(
        self, function: Any, args: Any = None, returns: Any = None, *, call: str | None = None, name: str | None = None
    ) -> None:
        if call is not None and call not in native.FORMS:
            raise ValueError(f"call is 'structure', 'flat' or None, not {call!r}")
        if isinstance(function, str):
            native.split(function)
        elif native.find(function, call).flat and args is not None:
            raise ValueError("args goes with a C function that takes the structure; the flat form has no place for it")
        if call == "flat" and args is not None:
            raise ValueError("args goes with call='structure'; the flat form has no place for it")
        args = args.tolist() if hasattr(args, "tolist") else args
        try:
            args = json.loads(json.dumps(args, allow_nan=False))
        except TypeError as e:
            raise TypeError(f"args is what JSON can hold, and {e}") from None
        if isinstance(returns, Mapping):  # as to_json wrote it
            returns = field(returns["dtype"], tuple(returns.get("shape", ())), layout=returns.get("layout"))
        if returns is not None and not (
            isinstance(returns, Field) and returns.kind == "array" and None not in returns.shape
        ):
            raise TypeError(f"returns is leat.field(dtype, shape) of fixed shape, or None, not {returns!r:.80}")
        super().__init__(name, function=function, args=args, returns=returns, call=call)

    def __hash__(self) -> int:
        return hash((self.function, json.dumps(self.args), self.returns, self.call, self.name))

    def to_json(self) -> dict[str, Any]:
        """As of every operator.

        Raises:
            ValueError: the function is not of a library: it has no name that another process could find it by.
        """
        if not isinstance(self.function, str):
            raise ValueError(
                f"{self!r} has no JSON form and cannot be pickled: only a function named 'lib.so:symbol' is found "
                "again in another process"
            )
        kept = {
            "function": self.function,
            "args": self.args,
            "returns": self._returns(),
            "call": self.call,
            "name": self.name,
        }
        return {"type": "Native"} | {k: v for k, v in kept.items() if v is not None}

    def _returns(self) -> dict[str, Any] | None:
        f = self.returns
        return (
            None
            if f is None
            else {"dtype": f.dtype, "shape": list(f.shape)} | ({"layout": f.layout} if f.layout else {})
        )

    def _compiled(self, index: int, found: native.Function) -> dict[str, Any]:
        """As the library takes it: with the index of the function in its table."""
        args = self.args
        numbers = [args] if isinstance(args, (int, float)) and not isinstance(args, bool) else args
        plain = isinstance(numbers, list) and all(
            isinstance(v, (int, float)) and not isinstance(v, bool) for v in numbers
        )
        text = (
            ""
            if args is None
            else args
            if isinstance(args, str)
            else json.dumps(args, ensure_ascii=False, separators=(",", ":"))
        )
        kept = {"source": found.source, "text": text, "numbers": numbers if plain else None, "returns": self._returns()}
        kept |= {"takes": found.takes, "gives": found.gives, "name": self.name}
        return {"type": "Native", "function": index} | {k: v for k, v in kept.items() if v is not None}


class Map(Operator):
    """A Python function of one value, in a worker process.

    Args:
        function: ``fn(x)``, or ``fn(x, rng)`` with the row's ``numpy.random.Generator``. `x` is the value as it stands
            in the chain, and is the function's own to write into: a tensor, or an array with ``framework="numpy"`` (a
            decoded photo as HWC, a stored array as it is stored); ``bytes`` of an encoded photo; ``str``; what JSON
            text says. It returns a tensor, an array, a number, ``str`` or ``bytes``.
        returns: the type of the result, ``leat.field(dtype, shape)``, with ``layout="HWC"`` if it is an image; its
            first dimension may be None: results differ in length, and the batch has a :class:`leat.Ragged`. None: the
            function is called once, on the first sample, when the loader opens, and the type of that result is taken.

    Functions and lambdas of ``__main__`` travel to the workers by value. If the function raises, the sample is broken.
    ``docs/operators.md`` says the rest.

    >>> def invert(x):
    ...     return 255 - x
    >>> chain = [leat.ops.Decode(), leat.ops.CenterCrop(32), leat.ops.Map(invert), leat.ops.ToDtype("float32")]
    >>> leat.Loader(photos, 2, outputs={"image": chain}).batch_at(0, 0)["image"].shape
    torch.Size([2, 3, 32, 32])
    """

    def __init__(self, function: Any, returns: Any = None, *, name: str | None = None) -> None:
        if not callable(function):
            raise TypeError(f"{type(self).__name__} takes a function, not {function!r:.60}")
        if isinstance(returns, str):
            returns = field(returns)
        if returns is not None and not (isinstance(returns, Field) and returns.kind not in ENCODED):
            raise TypeError(f"returns is leat.field(dtype, shape) or None, not {returns!r:.80}")
        super().__init__(name, function=function, returns=returns)

    @property
    def label(self) -> str:
        """Its name in messages and statistics: ``Map(augment)``."""
        return f"{type(self).__name__}({qualified_name(self.function, False)})"

    def __hash__(self) -> int:
        return hash((type(self).__name__, id(self.function), self.returns, self.name))

    def __reduce__(self) -> tuple[Any, ...]:
        return (_rebuild_map, (type(self), self.function, self.returns, self.name))

    def to_json(self) -> dict[str, Any]:
        """A Python function has no JSON form.

        Raises:
            ValueError: always.
        """
        raise ValueError(f"{self.label} has no JSON form: a program with Python functions is code, and is kept as such")

    def described(self) -> dict[str, Any]:
        """As ranks compare it: by the function's name."""
        return {
            "type": type(self).__name__,
            "function": qualified_name(self.function, True),
            "returns": repr(self.returns),
            "name": self.name,
        }


class MapBatch(Map):
    """A Python function of all rows of a batch, in a worker process. It is called when the rows are made, before the
    batch is delivered.

    Args:
        function: ``fn(x)``, or ``fn(x, rng)`` with the generator of the batch's first row. `x` is a tensor or array of
            shape ``(rows, ...)``; a list where values differ in length. It returns as many rows.
        returns: the type of a row of the result, as of :class:`leat.ops.Map`.

    It sees the rows of this rank's batch, so its result depends on the batch size and the number of ranks. If it
    raises, the batch fails, whatever ``on_error`` says.

    >>> chain = [leat.ops.ToDtype("float32"), leat.ops.MapBatch(lambda x: x - x.mean())]
    >>> leat.Loader(photos, 2, outputs={"label": chain}).batch_at(0, 0)["label"]
    tensor([-0.5000,  0.5000])
    """


def _rebuild_map(kind: type[Map], function: Any, returns: Field | None, name: str | None) -> Map:
    return kind(function, returns, name=name)


def qualified_name(function: Any, module: bool) -> str:
    """The name of a function, of a partial one's function, or of an object's class."""
    while hasattr(function, "func") and hasattr(function, "args"):  # functools.partial
        function = function.func
    named = function if hasattr(function, "__qualname__") else type(function)
    text = str(named.__qualname__).replace("<locals>.", "")
    return f"{getattr(named, '__module__', None) or 'builtins'}.{text}" if module else text.rpartition(".")[2]


class SanitizeBoundingBoxes(Operator):
    """Leaves out boxes that are too small or reach outside the image, with the rows of other fields that go with them.

    Args:
        min_size: pixels of a box's shorter side at least.
        min_area: square pixels of a box at least.
        labels_getter: which fields of the tuple go with the boxes: ``"default"``, every array whose first dimension
            varies, which then has one row per box; a name or a list of names; None for none. Keypoints always do.

    Put it last, after the operators that move the image: boxes outside a crop are empty then. As in torchvision, a box
    that reaches beyond the image is left out too. :class:`ClampBoundingBoxes` before it cuts such a box off instead.

    >>> leat.ops.SanitizeBoundingBoxes(min_size=2)
    SanitizeBoundingBoxes(min_size=2.0, min_area=1.0, labels_getter='default')
    """

    def __init__(
        self, min_size: float = 1.0, min_area: float = 1.0, labels_getter: Any = "default", *, name: str | None = None
    ) -> None:
        (size,), (area,) = _numbers("min_size", [min_size]), _numbers("min_area", [min_area])
        if size < 1 or area < 1:
            raise ValueError(f"min_size and min_area are 1 or more, not {min_size} and {min_area}")
        labels = labels_getter
        if labels != "default":
            labels = () if labels is None else (labels,) if isinstance(labels, str) else labels
            if not isinstance(labels, (list, tuple)) or not all(isinstance(n, str) for n in labels):
                raise TypeError(
                    f"labels_getter is 'default', a name of a field, a list of names or None, not {labels_getter!r:.60}"
                )
            labels = tuple(labels)
        super().__init__(name, min_size=size, min_area=area, labels_getter=labels)


class ClampBoundingBoxes(Operator):
    """Cuts boxes off at the edges of the image as it is at this point of the chain.

    >>> leat.ops.ClampBoundingBoxes()
    ClampBoundingBoxes()
    """

    def __init__(self, *, name: str | None = None) -> None:
        super().__init__(name)


class ConvertBoundingBoxFormat(Operator):
    """Brings boxes to another format: ``"xyxy"``, ``"xywh"`` or ``"cxcywh"``; torchvision's enum is taken too.

    >>> leat.ops.ConvertBoundingBoxFormat("CXCYWH")
    ConvertBoundingBoxFormat(format='cxcywh')
    """

    def __init__(self, format: Any, *, name: str | None = None) -> None:
        word = str(getattr(format, "value", format)).lower()
        if f"boxes:{word}" not in ROLES:
            raise ValueError(f"format is 'xyxy', 'xywh' or 'cxcywh', not {format!r}")
        super().__init__(name, format=word)


class PadTo(Operator):
    """Fills values of varying length up to `n` rows, so that the output is a tensor, not a :class:`leat.Ragged`. It has
    to be the last of its chain.

    Args:
        n: rows of the result.
        fill: the value of added rows: a number, or in the chain of a tuple a dict of numbers by field (0 for fields
            that it does not name).
        cut: longer values are cut to `n` rows; else they are broken samples.

    >>> leat.ops.PadTo(100, fill={"label": -1})
    PadTo(n=100, fill={'label': -1.0}, cut=False)
    """

    def __init__(self, n: int, fill: Any = 0, *, cut: bool = False, name: str | None = None) -> None:
        (rows,) = _integers("n", n)
        if rows < 1:
            raise ValueError(f"n is a number of rows above 0, not {n}")
        if isinstance(fill, Mapping):
            value: Any = {str(k): _numbers("fill", [v])[0] for k, v in fill.items()}
        else:
            (value,) = _numbers("fill", [fill])
        super().__init__(name, n=rows, fill=value, cut=bool(cut))

    def __hash__(self) -> int:
        return hash((self.n, json.dumps(self.fill), self.cut, self.name))


class MixUp(Operator):
    """Mixes each image of a batch with the one before it, and their labels. One share per batch is drawn from
    Beta(alpha, alpha).

    It stands last in the chain of a tuple with an image of floats and a label:
    ``{("image", "label"): [..., leat.ops.MixUp(num_classes=10)]}``. Labels arrive as float32 of shape
    ``(batch, num_classes)``.

    Args:
        alpha: of the Beta distribution; 1: all shares are equally likely.
        num_classes: one more than the largest label; None where labels are stored as float32 vectors.
        labels_getter: the field of the label, where several could be it.

    The share comes from the random key of the batch's first row, so it depends on the batch size and the number of
    ranks.

    Source: Zhang et al., "mixup: Beyond empirical risk minimization", 2018.

    >>> mixing = [leat.ops.ToDtype("float32"), leat.ops.MixUp(num_classes=4)]
    >>> chain = [leat.ops.Decode(), leat.ops.Resize((32, 32)), *mixing]
    >>> leat.Loader(photos, 2, outputs={("image", "label"): chain}).batch_at(0, 0)["label"].shape
    torch.Size([2, 4])
    """

    def __init__(
        self,
        *,
        alpha: float = 1.0,
        num_classes: int | None = None,
        labels_getter: str = "default",
        name: str | None = None,
    ) -> None:
        (shape,) = _numbers("alpha", [alpha])
        if not 1e-3 <= shape <= 1e6:
            raise ValueError(f"alpha is from 0.001 to 1000000, not {alpha}")
        if num_classes is not None and (classes := _integers("num_classes", num_classes)[0]) < 1:
            raise ValueError(f"num_classes is above 0, not {classes}")
        if not isinstance(labels_getter, str):
            raise TypeError(f"labels_getter is 'default' or the name of a field, not {labels_getter!r:.60}")
        super().__init__(
            name,
            alpha=shape,
            num_classes=None if num_classes is None else operator.index(num_classes),
            labels_getter=labels_getter,
        )


class CutMix(MixUp):
    """Replaces a box of each image of a batch by that of the image before it, and mixes their labels by the area.

    There is one box per batch. Arguments are those of :class:`MixUp`. Images may be integers.

    Source: Yun et al., "CutMix: Regularization strategy to train strong classifiers with localizable features", 2019.

    >>> chain = [leat.ops.Decode(), leat.ops.Resize((32, 32)), leat.ops.CutMix(num_classes=4)]
    >>> leat.Loader(photos, 2, outputs={("image", "label"): chain}).batch_at(0, 0)["image"].dtype
    torch.uint8
    """


_TYPES: dict[str, type[Operator]] = {
    name: c
    for name, c in list(globals().items())
    if isinstance(c, type) and issubclass(c, Operator) and c is not Operator and not issubclass(c, Map)
}


def from_json(value: Mapping[str, Any]) -> Operator:
    """The operator of a dict that :meth:`Operator.to_json` made."""
    if not isinstance(value, Mapping) or not isinstance(value.get("type"), str):
        raise ValueError(f"an operator is an object with a type, not {value!r}")
    arguments = {str(k): v for k, v in value.items() if k != "type"}
    if value["type"] not in _TYPES:
        raise ValueError(f"no operator {value['type']!r}: there are {', '.join(_TYPES)}")
    try:
        return _TYPES[value["type"]](**arguments)
    except TypeError as e:
        raise ValueError(f"{value['type']}: {e}") from None


def named(op: Operator, name: str) -> Operator:
    """The operator under another name."""
    made = object.__new__(type(op))
    object.__setattr__(made, "name", name)
    object.__setattr__(made, "_values", op._values)
    return made


def __getattr__(name: str) -> Any:
    if name.startswith("_"):
        raise AttributeError(name)
    known = [*_TYPES, "Map", "MapBatch"]
    close = difflib.get_close_matches(name, known, 1, 0.6)
    hint = f"did you mean leat.ops.{close[0]}?" if close else f"there are {', '.join(known)}."
    raise AttributeError(
        f"leat.ops has no {name!r}: {hint} leat.ops.Map(function) runs a Python function.", name=name, obj=None
    )
