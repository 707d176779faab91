"""Chains from torchvision's transforms, which are recognised by class name and module: nothing is imported."""

from __future__ import annotations

import inspect
import json
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..data.schema import Field, to_raw
from .base import Operator
from .branches import Branch, RandomApply, visit
from .functions import Map
from .targets import ConvertBoundingBoxFormat
from .values import Normalize, ToDtype

__all__ = ["from_torchvision"]

# A chain begins with decoded pixels and ends in a tensor, whatever stands there.
_NOTHING = {"ToImage", "PILToTensor", "ToPureTensor", "ToPILImage", "Identity", "RGB"}
_TO_TENSOR = {"ToImage", "PILToTensor", "ToTensor", "MaybeToTensor", "ConvertPILImage"}
# Operators that give the same on floats, but for rounding, as on bytes: in others an argument counts in the numbers'
# range.
_SAME_ON_BYTES = {
    "RandomErasing": {"value": 0.0},
    "RandomSolarize": None,
    "GaussianNoise": {"clip": True},
    "Normalize": None,  # in branches: else nothing is moved past it
}
_SEVERAL = {"FiveCrop", "TenCrop"}
_CONTAINERS = {"Compose", "Sequential", "ModuleList"}
_RENAMED = {"RandomIoUCrop": {"sampler_options": "options"}}


def from_torchvision(compose: Any) -> list[Operator]:
    """The chain of torchvision's transforms, from a ``Compose`` of v2 or v1, an ``nn.Sequential``, a list, or one
    alone.

    Args:
        compose: the transforms. Its input is a decoded image, so a chain on photos begins with :class:`Decode`.

    Each transform becomes the operator of its name, with its arguments. ``ToImage``, ``PILToTensor``, ``ToPureTensor``
    and ``ToPILImage`` are left out, because a chain ends in a tensor; ``ToTensor`` and ``ConvertImageDtype`` become
    :class:`ToDtype`. This is moved behind operators that leat has for 8 bits alone, such as :class:`Resize`, and a
    warning says so: they round to 8 bits then. A ``Lambda``, or a transform that leat lacks, becomes a :class:`Map`,
    which runs in worker processes: a warning names it. It gets its usual input: a PIL image before ``ToTensor``,
    ``ToImage`` or ``PILToTensor``, else a tensor (C, H, W), behind ``FiveCrop`` and ``TenCrop`` a tuple (of PIL images,
    if they are of v1 and nothing makes tensors). It draws from torch's generator, seeded by the row. In the chain of a
    tuple it sees the image alone, and keeps its height and width.

    Raises:
        TypeError: an object is no transform, or a function is not for images; the error names its place.

    >>> class Flip:  # stands for torchvision.transforms.v2.RandomHorizontalFlip
    ...     p = 0.3
    >>> Flip.__name__, Flip.__module__ = "RandomHorizontalFlip", "torchvision.transforms.v2"
    >>> leat.ops.from_torchvision([Flip()])
    [RandomHorizontalFlip(p=0.3)]
    """
    listed = list(_flat(compose, ""))
    made: list[Operator] = []
    tensors = [i for i, (_, transform) in enumerate(listed) if _name(transform) in _TO_TENSOR]
    crops = [i for i, (_, t) in enumerate(listed) if _name(t) in _SEVERAL and ".v2" not in str(type(t).__module__)]
    floats, moved = False, []
    scaled: int | None = None  # the place in `made` of the change to floats of 0 to 1, if it could come later
    for i, (place, transform) in enumerate(listed):
        pillow = i < tensors[-1] if tensors else bool(crops) and crops[0] < i
        try:
            ops = _converted(transform)
            if type(transform).__name__ == "SanitizeBoundingBoxes" and callable(transform.labels_getter):
                warnings.warn(
                    f"{place}labels_getter is a function of a sample of torchvision's: here all fields of the tuple "
                    "that have one row per box go with the boxes, as labels_getter='default' says",
                    stacklevel=2,
                )
            moves = floats and _check_floats(ops, scaled is not None and all(map(_same_on_bytes, made[scaled:])))
        except _Unknown as e:
            _check_function(transform, place)
            warnings.warn(f"{place}{_name(transform)} becomes a leat.ops.Map, which runs in Python: {e}", stacklevel=2)
            ops, moves = [Map(_Call(transform, pillow))], False
        if moves and scaled is not None:
            moved.append(place + _name(transform))
            ops, floats = [*ops, made.pop(scaled)], False
        made += ops
        for at, op in enumerate(made[len(made) - len(ops) :], len(made) - len(ops)):
            if isinstance(op, ToDtype):
                scaled = (
                    at if op.dtype.startswith(("float", "bfloat")) and op.scale is not False and not floats else None
                )
                floats = op.dtype != "uint8"
            elif isinstance(op, (Map, Normalize)):
                scaled = None
    if moved:
        warnings.warn(
            f"{', '.join(moved)}: in leat they work on 8 bits, so ToDtype, which makes floats, is moved behind them, "
            "and pixels differ from torchvision's by rounding",
            stacklevel=2,
        )
    return made


class _Unknown(Exception):
    """Why a transform is none of leat's operators."""


def _theirs(value: Any) -> bool:
    return str(type(value).__module__).startswith(("torchvision.", "torch.nn."))


def _bases(value: Any) -> list[type]:
    """The classes of torchvision's that an object is of."""
    kinds = [kind for kind in type(value).__mro__ if kind.__module__.startswith("torchvision.")]
    return [kind for kind in kinds if kind.__name__ != "Transform"]


def _name(value: Any) -> str:
    return getattr(value, "__name__", None) or type(value).__name__


def _flat(value: Any, place: str) -> Any:
    """The transforms in containers, each with its place."""
    inner: Any = None
    containers = {kind.__name__ for kind in _bases(value)} | ({type(value).__name__} if _theirs(value) else set())
    if containers & _CONTAINERS:
        policy = getattr(value, "policy", None)
        if isinstance(policy, dict) and policy.get("name", "default") != "default":
            warnings.warn(
                f"{place}{_name(value)} has the policy {policy!r:.200}, which is left out: give the operators that it "
                "names to .epochs(stop=...)",
                stacklevel=2,
            )
        inner = getattr(value, "transforms", None) or list(value)
    elif isinstance(value, Sequence) and not isinstance(value, str):
        inner = value
    if inner is None:
        if not (callable(value) or _theirs(value) or isinstance(value, Operator)):
            raise TypeError(f"{place}{value!r:.60} is none of torchvision's transforms, and no function")
        yield place, value
        return
    for i, one in enumerate(inner):
        yield from _flat(one, f"{place.removesuffix(': ')}[{i}]: ")


def _converted(transform: Any) -> list[Operator]:
    from . import _TYPES

    name = type(transform).__name__
    if isinstance(transform, Operator):
        return [transform]
    if name in ("ToTensor", "MaybeToTensor"):  # the latter of timm and DINOv2
        return [ToDtype("float32")]
    if name == "ConvertPILImage":  # this and the next two are of RT-DETR and D-FINE
        return _to_dtype(transform)
    if name == "ConvertBoxes" and hasattr(transform, "fmt"):
        return [ConvertBoundingBoxFormat(transform.fmt, normalized=bool(transform.normalize) or None)]
    if name == "RandomIoUCrop" and hasattr(transform, "p") and _bases(transform):
        return [RandomApply([_made(name, transform)], transform.p)]
    if not _theirs(transform):
        raise _Unknown("it is not one of torchvision's")
    if name in _NOTHING:
        return []
    if name == "Lambda":
        raise _Unknown("it is a function")
    if name in ("ToDtype", "ConvertImageDtype"):
        return _to_dtype(transform)
    if name not in _TYPES:
        raise _Unknown("leat has no such operator")
    return [_made(name, transform)]


def _made(name: str, transform: Any) -> Operator:
    """The operator of a transform's name, with its arguments."""
    from . import _TYPES

    kind, values = _TYPES[name], {}
    for argument in inspect.signature(kind).parameters:
        attribute = _RENAMED.get(name, {}).get(argument, argument)
        if argument != "name" and hasattr(transform, attribute):
            values[argument] = _value(name, argument, getattr(transform, attribute), transform)
    try:
        return kind(**values)
    except (TypeError, ValueError) as e:
        raise _Unknown(str(e)) from None


def _inside(transform: Any) -> list[Operator]:
    """In a branch, which holds no functions in Python."""
    try:
        return _converted(transform)
    except _Unknown as e:
        raise _Unknown(f"of {_name(transform)} in it, {e}") from None


def _to_dtype(transform: Any) -> list[Operator]:
    dtype, scale = transform.dtype, getattr(transform, "scale", True)
    if isinstance(dtype, dict):  # by kinds of tensors; values that are no image stay as they are
        images = [d for kind, d in dtype.items() if getattr(kind, "__name__", kind) in ("Image", "Tensor")]
        dtype = images[0] if images else dtype.get("others")
    if dtype is None:
        return []
    try:
        return [ToDtype(str(dtype).removeprefix("torch."), scale=bool(scale))]
    except (TypeError, ValueError) as e:
        raise _Unknown(str(e)) from None


def _value(name: str, argument: str, value: Any, transform: Any) -> Any:
    """An attribute of a transform as the argument of its operator."""
    if argument == "labels_getter" and callable(value):
        return "default"
    if argument == "transforms":
        inner = [[op for _, one in _flat(entry, "") for op in _inside(one)] for entry in value]
        return [ops[0] if len(ops) == 1 else ops for ops in inner]
    if argument == "fill":
        return _fill_of(value, name.endswith(("Augment", "AugmentWide", "Mix")))
    if argument == "padding" and name == "RandomCrop" and ".v2" in type(transform).__module__ and value is not None:
        left, right, top, bottom = value  # as v2 keeps it
        sides = [left, top] if (left, top) == (right, bottom) else [left, top, right, bottom]
        return left if sides == [left, left] else sides
    if argument == "value":  # of RandomErasing
        return "random" if value is None else value[0] if isinstance(value, list) and len(value) == 1 else value
    if argument in ("size", "min_size") and isinstance(value, (list, tuple)) and len(value) == 1:
        return value[0]
    if argument == "antialias" and value == "warn":
        return None
    return value


def _fill_of(value: Any, policy: bool) -> Any:
    """A fill that may be a dict by class: for images alone in policies, else for masks, too."""
    if not isinstance(value, dict):
        return 0 if value is None and not policy else value
    kinds = {getattr(kind, "__name__", kind): v for kind, v in value.items()}
    image, mask = kinds.get("Image", kinds.get("Tensor", kinds.get("others"))), kinds.get("Mask", kinds.get("others"))
    if policy:
        return image
    if isinstance(mask, (list, tuple)):  # a class id is one number
        mask = mask[0] if len(mask) == 1 else 0
    return {"image": image or 0, "mask": mask or 0}


def _check_floats(ops: list[Operator], movable: bool) -> bool:
    """Whether operators that stand behind ToTensor do not take floats, and so are to stand before it. `movable`: that
    does not change their results.
    """
    for op in ops:
        why = None if isinstance(op, Map) or _misfit(op, "uint8") else _misfit(op, "float32")
        if why and not (movable and all(map(_same_on_bytes, ops))):
            raise _Unknown(f"{why} In leat it stands before ToTensor and ToDtype")
        if why:
            return True
    return False


def _same_on_bytes(op: Operator) -> bool:
    """Whether an operator gives on floats of 0 to 1, but for rounding, the same as on bytes."""
    needs: dict[str, Any] | None = _SAME_ON_BYTES.get(type(op).__name__, {})
    if isinstance(op, Branch):
        return all(map(_same_on_bytes, op.operators()))
    fill = op._values.get("fill") or 0
    fills = list(fill.values()) if isinstance(fill, dict) else fill if isinstance(fill, (list, tuple)) else [fill]
    black = not np.any([np.any(f) for f in fills]) or isinstance(fill, dict) and not np.any(fill.get("image", 1))
    return black and needs is not None and all(getattr(op, k) == v for k, v in needs.items())


def _check_function(transform: Any, place: str) -> None:
    """A Lambda of v2, and other transforms of v2, say of which types they are."""
    inner = getattr(transform, "types" if type(transform).__name__ == "Lambda" else "_transformed_types", None)
    types = {getattr(kind, "__name__", "") for kind in inner or (object,)}
    if not types & {"object", "Image", "Tensor", "TVTensor", "is_pure_tensor"}:
        raise TypeError(
            f"{place}{_name(transform)} is a function of {', '.join(sorted(types))}: functions in the chain of a tuple "
            "take the image alone; give the field a chain of its own with leat.ops.Map, or change it in the batch"
        )
    if type(transform).__module__.startswith("albumentations."):
        raise TypeError(
            f"{place}{_name(transform)} is of Albumentations, which takes an image by name: give "
            "leat.ops.Map(lambda image: transform(image=image)['image']) for what moves no targets, with "
            "framework='numpy'; for the others leat.ops.<its name> says what to write"
        )
    try:
        inspect.signature(getattr(transform, "forward", transform)).bind(object())
    except TypeError as e:
        raise TypeError(
            f"{place}{_name(transform)} cannot be called with an image alone ({e}): functions in the chain of a tuple "
            "do not get its targets; operators of leat.ops move these with the image"
        ) from None
    except ValueError:  # compiled: its input is unknown
        pass


def _unfill(_: Operator, form: dict[str, Any]) -> None:
    for argument in ("fill", "value"):
        form.pop(argument, None)


def _misfit(op: Operator, dtype: str) -> str | None:
    """Why an operator does not take an image of this dtype."""
    from .. import _leat

    form = op.to_json()
    if dtype == "uint8":  # whether it takes bytes, whatever it fills them with
        visit(op, form, _unfill)
    program = {"operators": {"a": form}, "outputs": {"x": {"field": "x", "chain": ["a"]}}}
    try:
        _leat.Chain(to_raw({"x": Field("array", dtype, (64, 64, 3), "HWC")})[0], json.dumps(program), [])
    except (TypeError, ValueError) as e:
        return str(e)
    return None


def _moves(transform: Any) -> bool:
    """Whether a transform of torchvision's moves pixels, as far as leat knows it."""
    from . import _TYPES

    inner = getattr(transform, "transforms", None)
    if inner is not None and _bases(transform):
        return any(map(_moves, inner))
    kinds = [_TYPES.get(kind.__name__) for kind in _bases(transform) if not kind.__name__.startswith(("Lambda", "_"))]
    return any(kind is None or kind._moves or kind.__module__.endswith(".policies") for kind in kinds)


class _Call:
    """A transform as a function for Map: on an image HWC, as leat has it, or on several. A result with three axes is an
    image, whatever its channels.
    """

    def __init__(self, transform: Callable[[Any], Any], pillow: bool) -> None:
        # a Lambda of v2 passes over plain tensors if it is for images
        self.transform = getattr(transform, "lambd", transform) if type(transform).__name__ == "Lambda" else transform
        self.pillow = pillow
        self.moves = _moves(transform)  #: targets of a tuple would not follow
        self.__qualname__ = self.__name__ = _name(transform)

    def _given(self, x: Any) -> Any:
        if x.ndim == 4:
            return tuple(self._given(image) for image in x)
        image = x.permute(2, 0, 1).contiguous()
        return _to_pillow(image) if self.pillow else image

    def __call__(self, x: Any, rng: Any) -> Any:
        import torch

        given = self._given(torch.as_tensor(x))
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(int(rng.integers(1 << 62)))
            made = self.transform(given)
        if isinstance(made, torch.Tensor):
            return made.permute(1, 2, 0).contiguous() if made.ndim == 3 else made
        return np.atleast_3d(np.array(made)) if _is_pillow(made) else made


def _is_pillow(value: Any) -> bool:
    return any(kind.__module__ == "PIL.Image" for kind in type(value).__mro__)


def _to_pillow(image: Any) -> Any:
    from PIL import Image

    pixels = image.permute(1, 2, 0).numpy()
    return Image.fromarray(pixels[:, :, 0] if pixels.shape[2] == 1 else pixels)
