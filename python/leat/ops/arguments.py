"""Arguments of operators: sizes per batch, and checks.

A check is called with the argument's name and its value, gives what is kept, and raises an error that has the name.
Those that are made for a case, such as `choice`, are calls.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Any

from .. import check

__all__ = ["PerBatch"]


@dataclass(frozen=True, repr=False)
class PerBatch:
    """A size that is drawn from several for each global batch, and so is equal on all ranks.

    Args:
        sizes: each is a size as the operator takes it: a number of pixels, or (height, width).
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

    sizes: Any
    weights: Any = None
    _: KW_ONLY
    name: str | None = None

    def __post_init__(self) -> None:
        if isinstance(self.sizes, (str, bytes)) or not hasattr(self.sizes, "__iter__") or not list(self.sizes):
            raise TypeError(f"PerBatch takes a list of sizes, not {self.sizes!r:.60}")
        if self.name is not None and not (isinstance(self.name, str) and self.name):
            raise TypeError(f"name is a text or None, not {self.name!r}")
        sizes = tuple(_one_size("size", s) for s in self.sizes)
        weights = None if self.weights is None else numbers("weights", self.weights)
        if len(sizes) > 256:
            raise ValueError(f"PerBatch takes at most 256 sizes, not {len(sizes)}")
        if weights is not None and (len(weights) != len(sizes) or min(weights) < 0 or not sum(weights) > 0):
            raise ValueError(f"weights is a number from 0 for each size, one of them above 0, not {weights!r:.60}")
        object.__setattr__(self, "sizes", sizes)
        object.__setattr__(self, "weights", weights)

    def __repr__(self) -> str:
        given = [str(list(self.sizes))] + [f"{k}={getattr(self, k)!r}" for k in ("weights", "name") if getattr(self, k)]
        return f"PerBatch({', '.join(given)})"

    def to_json(self, number: int = 0) -> dict[str, Any]:
        """A dict of plain values. Objects with the same `number` in a program are one object."""
        found = {"per_batch": number, "sizes": [list(s) if isinstance(s, tuple) else s for s in self.sizes]}
        return (
            found
            | ({"weights": list(self.weights)} if self.weights else {})
            | ({"name": self.name} if self.name else {})
        )


def integers(what: str, values: Any) -> tuple[int, ...]:
    """One integer, or several."""
    try:
        return (operator.index(values),) if hasattr(values, "__index__") else tuple(operator.index(v) for v in values)
    except TypeError:
        raise TypeError(f"{what} is an integer or a list of them, not {values!r:.60}") from None


class _Fill(dict[str, Any]):
    """The values of pixels from outside, by kind of field."""

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(tuple(self.items()))


def fill(what: str, given: Any, image: float = 0) -> Any:
    """A number or one per channel; or by kind: {"image": ..., "mask": a number, "others": ...}. Classes of torchvision
    (tv_tensors.Image) are taken in the place of the words; `image` is that of images if none is given, or None."""
    if not isinstance(given, Mapping):
        return numbers(what, image if given is None else given)
    kinds = {str(getattr(k, "__name__", k)).lower().replace("tensor", "image"): v for k, v in given.items()}
    if not kinds or not set(kinds) <= {"image", "mask", "others"}:
        raise ValueError(f"fill is a number, one per channel, or a dict of 'image', 'mask' and 'others', not {given!r}")
    kinds, defaults = {**dict.fromkeys(("image", "mask"), kinds.get("others")), **kinds}, {"image": image, "mask": 0}
    colour, mask = (numbers("fill", none if kinds[k] is None else kinds[k]) for k, none in defaults.items())
    if len(mask) != 1 or not 0 <= mask[0] <= 255 or mask[0] % 1:
        raise ValueError(f"fill of a mask is a class id, one whole number from 0 to 255, not {given!r}")
    return _Fill(image=colour, mask=mask[0])


def gray_fill(what: str, given: Any) -> Any:
    """The fill of canvases: 114 in images and 0 in masks, unless it says otherwise."""
    return fill(what, given if isinstance(given, Mapping) else {"image": given}, 114)


def size(what: str, given: Any) -> Any:
    """A side, (height, width), or a size per batch."""
    if isinstance(given, Mapping) and "per_batch" in given:  # as to_json wrote it
        return PerBatch(given.get("sizes"), given.get("weights"), name=given.get("name"))
    return given if isinstance(given, PerBatch) else _one_size(what, given)


def _one_size(what: str, size: Any) -> int | tuple[int, int]:
    sides = integers(what, size)
    if len(sides) not in (1, 2) or any(s < 1 for s in sides):
        raise ValueError(f"{what} is a number of pixels above 0, or (height, width), not {size!r}")
    return sides[0] if len(sides) == 1 else (sides[0], sides[1])


def square(what: str, given: Any) -> Any:
    sides = size(what, given)
    return (sides, sides) if isinstance(sides, int) else sides


_PILLOW_MODES = {0: "nearest", 1: "lanczos", 2: "bilinear", 3: "bicubic", 4: "box", 5: "hamming"}


def choice(*known: Any) -> Callable[[str, Any], Any]:
    """The check for one of these values; a member of an enum stands for its value."""

    def chosen(what: str, value: Any) -> Any:
        plain = getattr(value, "value", value)
        if plain not in known:
            words = ", ".join(map(repr, known[:-1])) + " or " * (len(known) > 1) + repr(known[-1])
            raise ValueError(f"{what} is {words}, not {value!r:.60}")
        return known[known.index(plain)]

    return chosen


def interpolation(*names: str) -> Callable[[str, Any], Any]:
    """The check for one of these names; torchvision's InterpolationMode and Pillow's number are taken too."""
    chosen = choice(*names)
    return lambda what, mode: chosen(what, _PILLOW_MODES.get(mode, mode) if isinstance(mode, int) else mode)


def numbers(what: str, values: Any) -> tuple[float, ...]:
    """Numbers, of a list, an array or a tensor."""
    try:
        found = tuple(float(v) for v in (values if hasattr(values, "__len__") else [values]))
    except (TypeError, ValueError):
        raise TypeError(f"{what} is a list of numbers, not {values!r}") from None
    if not all(map(math.isfinite, found)):
        raise ValueError(f"{what} is a list of finite numbers, not {values!r:.60}")
    return found


def _in_bounds(
    what: str, form: str, given: Any, found: tuple[float, ...], least: float, most: float, above: float
) -> None:
    if not all(least <= v <= most and v > above for v in found):
        low = f" above {above:g}" if above > -math.inf else f" from {least:g}" if least > -math.inf else ""
        raise ValueError(f"{what} is {form}{low}{f' to {most:g}' if most < math.inf else ''}, not {given!r:.60}")


def number(
    least: float = -math.inf, most: float = math.inf, *, above: float = -math.inf
) -> Callable[[str, Any], float]:
    """The check for a number within bounds."""

    def number(what: str, value: Any) -> float:
        found = numbers(what, [value])
        _in_bounds(what, "a number", value, found, least, most, above)
        return found[0]

    return number


def pair(what: str, values: Any) -> tuple[float, float]:
    found = numbers(what, values)
    if len(found) != 2 or found[0] > found[1]:
        raise ValueError(f"{what} is (low, high), not {values!r}")
    return found[0], found[1]


def within(
    least: float = -math.inf, most: float = math.inf, *, above: float = -math.inf
) -> Callable[[str, Any], tuple[float, float]]:
    """The check for (low, high) within bounds."""

    def inside(what: str, values: Any) -> tuple[float, float]:
        found = pair(what, values)
        _in_bounds(what, "(low, high)", values, found, least, most, above)
        return found

    return inside


def whole(least: int = 0, most: int = (1 << 63) - 1) -> Callable[[str, Any], int]:
    """The check for an integer, both bounds included."""
    return lambda what, value: check.integer(what, value, least, most + 1)


def maybe(checked: Callable[[str, Any], Any]) -> Callable[[str, Any], Any]:
    """The check for a value that may be None."""
    return lambda what, value: None if value is None else checked(what, value)


def chance(what: str, value: Any) -> float:
    (chance,) = numbers(what, [value])
    if not 0 <= chance <= 1:
        raise ValueError(f"{what} is a probability, from 0 to 1, not {value!r}")
    return chance


Chance = Annotated[float, chance]
Flag = Annotated[bool, check.flag]
Antialias = Annotated[bool | None, lambda what, value: value is None or check.flag(what, value)]
Fill = Annotated[Any, fill]
GrayFill = Annotated[Any, gray_fill]
Square = Annotated[Any, square]
Side = Annotated[int, whole(1)]
Resampling = Annotated[
    Any, interpolation("bilinear", "nearest", "nearest-exact", "bicubic", "lanczos", "hamming", "box")
]
Warp = Annotated[Any, interpolation("nearest", "bilinear", "bicubic")]
