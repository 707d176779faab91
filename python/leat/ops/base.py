"""The base of operators: arguments as attributes."""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, InitVar
from typing import Any, ClassVar, Self, TypeVar, dataclass_transform

from ..data.schema import Field
from .arguments import PerBatch

__all__ = ["Chain", "Operator", "named", "qualified_name"]

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
    _declared: ClassVar[inspect.Signature] = inspect.Signature([_NAME])
    _: KW_ONLY
    name: str | None = None

    def __init_subclass__(cls, moves: bool | None = None) -> None:
        if moves is not None:
            cls._moves = moves
        if cls.__init__ is not Operator.__init__:
            if "__init__" in vars(cls):
                own = inspect.signature(cls.__init__)
                cls.__signature__ = own.replace(parameters=[*own.parameters.values()][1:])  # type: ignore[attr-defined]
            return
        cls._parameters, cls._checks, by_name = dict(cls._parameters), dict(cls._checks), False
        for key, hint in inspect.get_annotations(cls).items():
            if hint is KW_ONLY:
                by_name = True
                continue
            kept = hasattr(hint, "__metadata__")
            if not kept and not isinstance(hint, InitVar):
                continue  # an attribute of the class
            kind = inspect.Parameter.KEYWORD_ONLY if by_name else inspect.Parameter.POSITIONAL_OR_KEYWORD
            default = vars(cls).get(key, inspect.Parameter.empty)
            if key in vars(cls):
                delattr(cls, key)  # it would hide the value
            cls._parameters[key] = inspect.Parameter(
                key, kind, default=default, annotation=hint.__origin__ if kept else hint.type
            )
            if kept:
                cls._checks[key] = hint.__metadata__[0]
        cls._declared = inspect.Signature([*cls._parameters.values(), _NAME])
        cls.__signature__ = cls._declared  # type: ignore[attr-defined]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        try:
            given = self._declared.bind(*args, **kwargs)
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


Chain = Sequence[Operator]


def named(op: _Op, name: str) -> _Op:
    """The operator under another name."""
    made = object.__new__(type(op))
    object.__setattr__(made, "name", name)
    object.__setattr__(made, "_values", op._values)
    return made


def _plain(value: Any) -> Any:
    if isinstance(value, (PerBatch, Operator)):
        return value.to_json()
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items()}
    if isinstance(value, Field):
        return {"dtype": value.dtype, "shape": list(value.shape)} | ({"layout": value.layout} if value.layout else {})
    return [_plain(v) for v in value] if isinstance(value, tuple) else value


def qualified_name(function: Any, module: bool) -> str:
    """The name of a function, of a partial one's function, or of an object's class."""
    while hasattr(function, "func") and hasattr(function, "args"):  # functools.partial
        function = function.func
    named = function if hasattr(function, "__qualname__") else type(function)
    text = str(named.__qualname__).replace("<locals>.", "")
    return f"{getattr(named, '__module__', None) or 'builtins'}.{text}" if module else text.rpartition(".")[2]
