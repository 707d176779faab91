"""The base of operators: arguments as attributes, sizes per batch, and checks that several share."""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self, TypeVar

__all__ = ["Chain", "Operator", "PerBatch", "named", "qualified_name"]

Chain = Sequence["Operator"]
_Op = TypeVar("_Op", bound="Operator")


class Operator:
    """The common part of all operators: arguments as attributes, ``repr``, equality by value, and a JSON form."""

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
        from . import from_json

        return (from_json, (self.to_json() | ({"size": size} if isinstance(size, PerBatch) else {}),))

    def epochs(self, start: int = 0, stop: int | None = None) -> Self:
        """This operator, for the epochs from `start` up to `stop`: in others a chain that has it goes on without it.

        Args:
            start: the first epoch with it.
            stop: the first epoch behind that without it; None: there is none.

        Its epochs are a part of the program, and so of the hash that ranks compare and a state's log keeps: a batch is
        the same after a resume, by ``batch_at`` and on every rank. Leaving it out must not change the type of the
        output, and changes no other operator's draws. A branch such as :class:`RandomApply` has epochs as a whole, and
        :class:`Map` has none.

        >>> leat.ops.RandomHorizontalFlip().epochs(stop=10)
        RandomHorizontalFlip(p=0.5, epochs=(0, 10))
        """
        if hasattr(self, "function"):
            raise TypeError(f"{type(self).__name__} runs a function of yours, which has leat.rng() and no epochs here")
        first, end = operator.index(start), None if stop is None else operator.index(stop)
        if first < 0 or (end is not None and end <= first):
            raise ValueError(f"epochs are from `start`, at least 0, up to a later `stop`; not {start} to {stop}")
        made = named(self, "")
        object.__setattr__(made, "name", self.name)
        object.__setattr__(made, "_values", {**self._values, "epochs": (first, end)})
        return made

    def to_json(self) -> dict[str, Any]:
        """A dict of plain values: the type, the arguments and the name."""
        found = {k: _plain(v) for k, v in self._values.items() if v is not None or k == "size"}
        return {"type": type(self).__name__, **found} | ({"name": self.name} if self.name else {})


def named(op: _Op, name: str) -> _Op:
    """The operator under another name."""
    made = object.__new__(type(op))
    object.__setattr__(made, "name", name)
    object.__setattr__(made, "_values", op._values)
    return made


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
        """A dict of plain values. Objects with the same `number` in a program are one object."""
        found = {"per_batch": number, "sizes": [_plain(s) for s in self.sizes]}
        return found | {k: _plain(getattr(self, k)) for k in ("weights", "name") if getattr(self, k)}


def _integers(what: str, values: Any) -> tuple[int, ...]:
    """One integer, or several."""
    try:
        return (operator.index(values),) if hasattr(values, "__index__") else tuple(operator.index(v) for v in values)
    except TypeError:
        raise TypeError(f"{what} is an integer or a list of them, not {values!r:.60}") from None


class _Fill(dict[str, Any]):
    """The values of pixels from outside, by kind of field."""

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(tuple(self.items()))


def _fill(fill: Any, image: float = 0) -> Any:
    """A number or one per channel; or by kind: {"image": ..., "mask": a number, "others": ...}. Classes of torchvision
    (tv_tensors.Image) are taken in the place of the words; `image` is that of images if none is given, or None."""
    if not isinstance(fill, Mapping):
        return _numbers("fill", image if fill is None else fill)
    kinds = {str(getattr(k, "__name__", k)).lower().replace("tensor", "image"): v for k, v in fill.items()}
    if not kinds or not set(kinds) <= {"image", "mask", "others"}:
        raise ValueError(f"fill is a number, one per channel, or a dict of 'image', 'mask' and 'others', not {fill!r}")
    kinds, defaults = {**dict.fromkeys(("image", "mask"), kinds.get("others")), **kinds}, {"image": image, "mask": 0}
    colour, mask = (_numbers("fill", none if kinds[k] is None else kinds[k]) for k, none in defaults.items())
    if len(mask) != 1 or not 0 <= mask[0] <= 255 or mask[0] % 1:
        raise ValueError(f"fill of a mask is a class id, one whole number from 0 to 255, not {fill!r}")
    return _Fill(image=colour, mask=mask[0])


def _plain(value: Any) -> Any:
    if isinstance(value, (PerBatch, Operator)):
        return value.to_json()
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items()}
    return [_plain(v) for v in value] if isinstance(value, tuple) else value


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


_PILLOW_MODES = {0: "nearest", 1: "lanczos", 2: "bilinear", 3: "bicubic", 4: "box", 5: "hamming"}


def _interpolation(mode: Any, *names: str) -> str:
    """One of these names; torchvision's InterpolationMode and Pillow's number are taken too."""
    name = _PILLOW_MODES.get(mode, mode) if isinstance(mode, int) else getattr(mode, "value", mode)
    if name not in names:
        *others, last = map(repr, names)
        raise ValueError(f"interpolation is {', '.join(others)} or {last}, not {mode!r}")
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


def _chance(p: Any) -> float:
    (chance,) = _numbers("p", [p])
    if not 0 <= chance <= 1:
        raise ValueError(f"p is a probability, from 0 to 1, not {p!r}")
    return chance


def _pair(what: str, values: Any) -> tuple[float, float]:
    found = _numbers(what, values)
    if len(found) != 2 or found[0] > found[1]:
        raise ValueError(f"{what} is (low, high), not {values!r}")
    return found[0], found[1]


def qualified_name(function: Any, module: bool) -> str:
    """The name of a function, of a partial one's function, or of an object's class."""
    while hasattr(function, "func") and hasattr(function, "args"):  # functools.partial
        function = function.func
    named = function if hasattr(function, "__qualname__") else type(function)
    text = str(named.__qualname__).replace("<locals>.", "")
    return f"{getattr(named, '__module__', None) or 'builtins'}.{text}" if module else text.rpartition(".")[2]
