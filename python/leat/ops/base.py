"""The base of operators: arguments as attributes, sizes per batch, and checks that several share."""

from __future__ import annotations

import inspect
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY
from typing import Annotated, Any, ClassVar, Self, TypeVar, dataclass_transform

from .. import check

__all__ = ["Chain", "Operator", "PerBatch", "named", "qualified_name"]

Chain = Sequence["Operator"]
_Op = TypeVar("_Op", bound="Operator")
_NAME = inspect.Parameter("name", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=str | None)


@dataclass_transform(eq_default=False)
class _Declared:
    """Tells type checkers that the annotations of an operator's class are the arguments of its ``__init__``."""


class Operator(_Declared):
    """The common part of all operators: arguments as attributes, ``repr``, equality by value, and a JSON form.

    A class declares its arguments as a dataclass does, each with its check: ``p: Annotated[float, check] = 0.5``.
    ``check(name, value)`` gives the value that is kept, or raises an error that names the argument. A value without a
    check (``InitVar``) is accepted and not kept.
    """

    _moves: ClassVar[bool] = False  #: whether it moves pixels, so that boxes and masks must move with them
    _checks: ClassVar[dict[str, Callable[[str, Any], Any]]] = {}
    _parameters: ClassVar[dict[str, inspect.Parameter]] = {}
    _: KW_ONLY
    name: str | None = None

    def __init_subclass__(cls, moves: bool | None = None) -> None:
        if moves is not None:
            cls._moves = moves
        if cls.__init__ is not Operator.__init__:
            return
        cls._parameters, cls._checks, by_name = dict(cls._parameters), dict(cls._checks), False
        for key, hint in inspect.get_annotations(cls).items():
            if hint is KW_ONLY:
                by_name = True
                continue
            kind = inspect.Parameter.KEYWORD_ONLY if by_name else inspect.Parameter.POSITIONAL_OR_KEYWORD
            default, kept = vars(cls).get(key, inspect.Parameter.empty), hasattr(hint, "__metadata__")
            if key in vars(cls):
                delattr(cls, key)  # it would hide the value
            cls._parameters[key] = inspect.Parameter(
                key, kind, default=default, annotation=hint.__origin__ if kept else hint.type
            )
            if kept:
                cls._checks[key] = hint.__metadata__[0]
        signature = inspect.Signature([*cls._parameters.values(), _NAME])
        cls.__signature__ = signature  # type: ignore[attr-defined]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        try:
            given = inspect.signature(type(self)).bind(*args, **kwargs)
        except TypeError as e:
            raise TypeError(f"{type(self).__name__}() {e}") from None
        given.apply_defaults()
        values = given.arguments
        self._set(values["name"], **{key: checked(key, values[key]) for key, checked in self._checks.items()})
        self._check()

    def _set(self, name: str | None, **values: Any) -> None:
        if name is not None and not (isinstance(name, str) and name):
            raise TypeError(f"name is a text or None, not {name!r}")
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "_values", values)

    def _check(self) -> None:
        """Raises an error if arguments do not go together."""

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
        self.sizes = tuple(_one_size("size", s) for s in sizes)
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


def _fill(what: str, fill: Any, image: float = 0) -> Any:
    """A number or one per channel; or by kind: {"image": ..., "mask": a number, "others": ...}. Classes of torchvision
    (tv_tensors.Image) are taken in the place of the words; `image` is that of images if none is given, or None."""
    if not isinstance(fill, Mapping):
        return _numbers(what, image if fill is None else fill)
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


def _gray_fill(what: str, fill: Any) -> Any:
    """The fill of canvases: 114 in images and 0 in masks, unless it says otherwise."""
    return _fill(what, fill if isinstance(fill, Mapping) else {"image": fill}, 114)


def _size(what: str, size: Any) -> Any:
    """A side, (height, width), or a size per batch."""
    if isinstance(size, Mapping) and "per_batch" in size:  # as to_json wrote it
        return PerBatch(size.get("sizes"), size.get("weights"), name=size.get("name"))
    return size if isinstance(size, PerBatch) else _one_size(what, size)


def _one_size(what: str, size: Any) -> int | tuple[int, int]:
    sides = _integers(what, size)
    if len(sides) not in (1, 2) or any(s < 1 for s in sides):
        raise ValueError(f"{what} is a number of pixels above 0, or (height, width), not {size!r}")
    return sides[0] if len(sides) == 1 else (sides[0], sides[1])


def _square(what: str, size: Any) -> Any:
    sides = _size(what, size)
    return (sides, sides) if isinstance(sides, int) else sides


_PILLOW_MODES = {0: "nearest", 1: "lanczos", 2: "bilinear", 3: "bicubic", 4: "box", 5: "hamming"}


def _choice(*known: Any) -> Callable[[str, Any], Any]:
    """The check for one of these values; a member of an enum stands for its value."""

    def chosen(what: str, value: Any) -> Any:
        plain = getattr(value, "value", value)
        if plain not in known:
            words = ", ".join(map(repr, known[:-1])) + " or " * (len(known) > 1) + repr(known[-1])
            raise ValueError(f"{what} is {words}, not {value!r:.60}")
        return known[known.index(plain)]

    return chosen


def _interpolation(*names: str) -> Callable[[str, Any], Any]:
    """The check for one of these names; torchvision's InterpolationMode and Pillow's number are taken too."""
    chosen = _choice(*names)
    return lambda what, mode: chosen(what, _PILLOW_MODES.get(mode, mode) if isinstance(mode, int) else mode)


def _numbers(what: str, values: Any) -> tuple[float, ...]:
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


def _number(
    least: float = -math.inf, most: float = math.inf, *, above: float = -math.inf
) -> Callable[[str, Any], float]:
    """The check for a number within bounds."""

    def number(what: str, value: Any) -> float:
        found = _numbers(what, [value])
        _in_bounds(what, "a number", value, found, least, most, above)
        return found[0]

    return number


def _pair(what: str, values: Any) -> tuple[float, float]:
    found = _numbers(what, values)
    if len(found) != 2 or found[0] > found[1]:
        raise ValueError(f"{what} is (low, high), not {values!r}")
    return found[0], found[1]


def _range(
    least: float = -math.inf, most: float = math.inf, *, above: float = -math.inf
) -> Callable[[str, Any], tuple[float, float]]:
    """The check for (low, high) within bounds."""

    def pair(what: str, values: Any) -> tuple[float, float]:
        found = _pair(what, values)
        _in_bounds(what, "(low, high)", values, found, least, most, above)
        return found

    return pair


def _whole(least: int = 0, most: int = (1 << 63) - 1) -> Callable[[str, Any], int]:
    """The check for an integer, both bounds included."""
    return lambda what, value: check.integer(what, value, least, most + 1)


def _maybe(checked: Callable[[str, Any], Any]) -> Callable[[str, Any], Any]:
    """The check for a value that may be None."""
    return lambda what, value: None if value is None else checked(what, value)


def _chance(what: str, value: Any) -> float:
    (chance,) = _numbers(what, [value])
    if not 0 <= chance <= 1:
        raise ValueError(f"{what} is a probability, from 0 to 1, not {value!r}")
    return chance


def _flag(what: str, value: Any) -> bool:
    return bool(value)


Chance = Annotated[float, _chance]
Flag = Annotated[bool, _flag]
Antialias = Annotated[bool | None, lambda what, value: value is None or bool(value)]
Fill = Annotated[Any, _fill]
GrayFill = Annotated[Any, _gray_fill]
Square = Annotated[Any, _square]
Side = Annotated[int, _whole(1)]
Resampling = Annotated[
    Any, _interpolation("bilinear", "nearest", "nearest-exact", "bicubic", "lanczos", "hamming", "box")
]
Warp = Annotated[Any, _interpolation("nearest", "bilinear", "bicubic")]


def qualified_name(function: Any, module: bool) -> str:
    """The name of a function, of a partial one's function, or of an object's class."""
    while hasattr(function, "func") and hasattr(function, "args"):  # functools.partial
        function = function.func
    named = function if hasattr(function, "__qualname__") else type(function)
    text = str(named.__qualname__).replace("<locals>.", "")
    return f"{getattr(named, '__module__', None) or 'builtins'}.{text}" if module else text.rpartition(".")[2]
