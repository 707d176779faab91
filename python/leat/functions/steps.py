"""The parts of an output's chain with functions: types of values, and the steps that make one of another."""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from .. import _leat
from ..data.ragged import Ragged
from ..data.schema import ARRAY, BINARY, KIND_NAMES, LAYOUT_NAMES, Field, to_raw
from ..ops import Operator
from ..program import Out, compiled_program
from . import keyed


class ResultError(TypeError):
    """The result of a function is not of the type that was declared, or that it had for the first sample."""


# ---- types -----------------------------------------------------------------------------------------------------------


def is_dense(t: Field) -> bool:
    """Whether rows of this type lie one after the other."""
    return t.kind == "array" and None not in t.shape


def stored_dtype(t: Field) -> np.dtype[Any]:
    """The dtype by which numpy holds its bytes: uint16 for bfloat16, which numpy lacks."""
    return np.dtype("uint16" if t.dtype == "bfloat16" else t.dtype)


def sides(t: Field) -> tuple[int, ...]:
    """The shape of a dense type."""
    return tuple(n for n in t.shape if n is not None)


def row_bytes(t: Field) -> int:
    """The bytes of a row of a dense type."""
    return int(np.prod(sides(t), dtype=np.int64)) * stored_dtype(t).itemsize


def words(t: Field) -> str:
    """A type in words."""
    if t.kind != "array":
        return t.kind
    return f"{t.dtype} of shape {t.shape}".replace("None", "any")


def described(chain: _leat.Chain) -> tuple[Field, tuple[int, ...] | None]:
    """The type of a chain's results, with None for the sides of images of open size; and the strides of a row, in
    elements, unless they are the usual ones.
    """
    kind, dtype, layout, shape, strides, open_, _ = chain.describe()
    sizes = tuple(None if n < 0 else n for n in shape) if kind == ARRAY else ()
    t = Field(KIND_NAMES[kind], dtype, sizes, LAYOUT_NAMES[layout])  # type: ignore[arg-type]
    if open_ or not is_dense(t):
        return t, None
    usual = np.empty(shape, np.uint8).strides if 0 not in shape else strides
    return t, None if tuple(usual) == tuple(strides) else strides


def is_open(t: Field) -> bool:
    """An image whose sides differ from sample to sample."""
    return t.layout is not None and None in t.shape


def height_and_width(shape: tuple[int | None, ...], layout: str | None) -> tuple[int | None, ...]:
    """Those of an image."""
    return shape[1:] if layout == "CHW" else shape[:2]


# ---- steps -----------------------------------------------------------------------------------------------------------


@dataclass
class NativeStep:
    """Operators of the library, for single values."""

    takes: Field
    gives: Field
    strides: tuple[int, ...] | None
    output: str
    operators: list[Operator]
    source: str  #: the field's name, for messages
    chain: Any = None
    moves: tuple[int, int] = (0, 0)  #: the place of its operators in the moves that targets draw

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "chain": None}

    @classmethod
    def make(cls, takes: Field, operators: list[Operator], output: str, source: str) -> NativeStep:
        step = cls(takes, takes, None, output, operators, source)
        step._compile()
        step.gives, step.strides = described(step.chain)
        step.moves = (0, step.chain.describe()[6])
        return step

    def _compile(self) -> None:
        text, functions = compiled_program({self.output: Out(self.source, self.operators)})
        found = json.loads(text)  # labels are another output, which has a step of its own
        own = found["outputs"][self.output]
        found |= {"operators": {key: found["operators"][key] for key in own["chain"]}, "outputs": {self.output: own}}
        program = json.dumps(found)
        self.chain = _leat.Chain(to_raw({self.source: replace(self.takes, role=None, pairs=())})[0], program, functions)

    @property
    def labels(self) -> list[str]:
        return [type(op).__name__ for op in self.operators]

    def apply(self, value: Any, key: int, sample: int, moves: bytes | None = None) -> Any:
        """The result for one value. `moves`: the draws of its row's targets; None: they are not known."""
        if self.chain is None:
            self._compile()
        data = value if isinstance(value, bytes) else np.ascontiguousarray(value).reshape(-1).view(np.uint8)
        size = height_and_width(value.shape, self.takes.layout) if is_open(self.takes) else (0, 0)
        drawn = None if moves is None else moves[slice(*self.moves)]
        made = np.asarray(self.chain.apply(data, key, sample, *size, drawn))
        return made if self.strides is None else _permuted(made, self.gives, self.strides)


def _permuted(made: np.ndarray[Any, Any], t: Field, strides: tuple[int, ...]) -> np.ndarray[Any, Any]:
    size = made.dtype.itemsize
    return np.lib.stride_tricks.as_strided(made, sides(t), [n * size for n in strides])


@dataclass
class CallStep:
    """A Python function."""

    function: Callable[..., Any]
    batch: bool
    takes: Field
    gives: Field
    declared: bool  #: by `returns`, not by the first sample
    label: str
    output: str
    instance: int
    framework: str
    passes: str = ""  #: the way the generator is given: "", "position" or "keyword"
    keeps: bool = False  #: targets of the same row go by the height and width of its image, which have to stay
    strides: ClassVar[None] = None

    def __post_init__(self) -> None:
        self.settle(self.gives)

    @property
    def labels(self) -> list[str]:
        return [self.label]

    def settle(self, gives: Field) -> None:
        """Sets the type of results."""
        self.gives = gives
        self.shape = sides(gives) if is_dense(gives) else None
        self.dtype = np.dtype(gives.dtype) if self.shape is not None and gives.dtype != "bfloat16" else None
        self.name = f"torch.{gives.dtype}"

    def call(self, value: Any, key: int) -> Any:
        keyed.set_key(key, self.instance)
        if self.passes == "position":
            return self.function(value, keyed.rng())
        return self.function(value, rng=keyed.rng()) if self.passes else self.function(value)

    def row(self, value: Any, key: int) -> Any:
        """The result for one value, in the form in which it is stored."""
        made = self.call(to_user(value, self.takes, self.framework), key)
        if self.keeps and None in self.takes.shape:
            made = as_stored(made, self.gives)
            found = type_of(made, self.gives)
            self.check_sides(
                self.takes if found is None else Field(found.kind, found.dtype, found.shape, self.takes.layout), value
            )
        if self.dtype is not None:
            array = made
            if (
                type(made).__name__ == "Tensor"
                and made.device.type == "cpu"
                and not made.requires_grad
                and str(made.dtype) == self.name
            ):
                array = made.numpy()
            if type(array) is np.ndarray and array.dtype == self.dtype and array.shape == self.shape:
                return array
        return self.checked(made)

    def rows(self, values: Any, key: int) -> Any:
        """The results for a batch: an array of shape (rows, ...), or a list."""
        n = len(values)
        if is_dense(self.takes):
            given: Any = to_user(values, Field("array", self.takes.dtype, (n, *self.takes.shape)), self.framework)
        else:
            given = [to_user(value, self.takes, self.framework) for value in values]
        made = self.call(given, key)
        if is_dense(self.gives):
            wanted = Field("array", self.gives.dtype, (n, *self.gives.shape))
            return self._fitting(as_stored(made, wanted), wanted)
        made = list(made.unbind() if isinstance(made, Ragged) else made)
        if len(made) != n:
            raise ResultError(
                f"{self.label} of output {self.output!r} returned {len(made)} rows of {n}: as many as it "
                "was given are wanted"
            )
        return [self.checked(row) for row in made]

    def check_sides(self, found: Field, given: Any = None) -> None:
        """Whether a result is an image as large as the one of its row: declared, or `given`."""
        if not self.keeps:
            return
        layout = self.takes.layout
        wanted = height_and_width(self.takes.shape if given is None else np.shape(given), layout)
        if len(found.shape) == 3 and height_and_width(found.shape, layout) == wanted:
            return
        axes = "(height, width, channels)" if layout == "HWC" else "(channels, height, width)"
        came = "declares" if given is None else "returned"
        size = "open size" if None in wanted else f"{wanted[0]} x {wanted[1]} pixels"
        raise ResultError(
            f"{self.label} of output {self.output!r} {came} {words(found)} for an image of {size}: in a chain with a "
            f"tuple, a stack or a geometry a function keeps height and width, and gives {axes}; what moves pixels is "
            "for operators, which move the targets too"
        )

    def checked(self, made: Any) -> Any:
        return self._fitting(as_stored(made, self.gives), self.gives)

    def _fitting(self, made: Any, wanted: Field) -> Any:
        found = type_of(made, wanted)
        if found is not None and fits(found, wanted):
            return made
        came = words(found) if found is not None else f"a {type(made).__name__}"
        first = "is declared by returns=" if self.declared else "came of the first sample"
        more = (
            "; images that stay as large as they came need Resize([height, width]) or a crop behind, or a stack"
            if is_open(self.takes)
            else ""
        )
        raise ResultError(
            f"{self.label} of output {self.output!r} returned {came}, where {words(wanted)} {first}: have it "
            "return that for every sample, or declare another type with returns=leat.field(dtype, shape), whose first "
            f"dimension may be None{more}"
        )


Step = NativeStep | CallStep


def to_user(value: Any, t: Field, framework: str) -> Any:
    """A stored value in the form that functions take, as a copy that they may write to."""
    if t.kind in BINARY:
        return bytes(value)
    if t.kind == "str":
        return value if isinstance(value, str) else bytes(value).decode()
    if t.kind == "json":
        return value if not isinstance(value, (bytes, memoryview, np.ndarray)) else json.loads(bytes(value))
    array = np.array(value)
    if framework != "torch":
        return array[()] if array.ndim == 0 else array
    torch = load_torch()
    tensor = torch.from_numpy(array)
    return tensor.view(torch.bfloat16) if t.dtype == "bfloat16" else tensor


def as_stored(made: Any, wanted: Field | None) -> Any:
    """A result in the form in which it is stored. Tensors, images and numbers become arrays, numbers of the dtype that
    is wanted; others stay as they are.
    """
    if wanted is not None and wanted.kind != "array":
        return made
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(made, torch.Tensor):
        plain = made.detach().cpu()
        return (
            plain.contiguous().view(torch.int16).numpy().view(BFLOAT16)
            if plain.dtype == torch.bfloat16
            else plain.numpy()
        )
    if isinstance(made, (np.ndarray, np.generic)):
        return np.asarray(made)
    if isinstance(made, (bool, int, float)):
        kinds = {bool: "b", int: "iuf", float: "f"}[type(made)] if type(made) in (bool, int, float) else ""
        dtype = None if wanted is None or wanted.dtype == "bfloat16" else np.dtype(wanted.dtype)
        return np.asarray(made, dtype if dtype is not None and dtype.kind in kinds else None)
    if isinstance(made, (str, bytes, dict)) or made is None:
        return made
    try:
        return np.asarray(made)
    except ValueError:  # several values of different shapes: no type of leat's, which the caller says
        return made


#: stands for bfloat16 among numpy's types
BFLOAT16 = np.dtype([("bfloat16", "u2")])


def type_of(made: Any, wanted: Field | None = None) -> Field | None:
    """The type of a result that :func:`as_stored` gave; None: no type of leat's."""
    if wanted is not None and wanted.kind == "json":
        return wanted
    if isinstance(made, str):
        return Field("str", "uint8")
    if isinstance(made, bytes):
        return Field("bytes", "uint8")
    if not isinstance(made, np.ndarray):
        return None
    if made.dtype == BFLOAT16:
        return Field("array", "bfloat16", made.shape)
    from ..data.schema import DTYPES

    return Field("array", made.dtype.name, made.shape) if made.dtype.name in DTYPES and made.dtype.isnative else None


def fits(found: Field, wanted: Field) -> bool:
    """Whether a value of that type can take the place of this one."""
    if found.kind != wanted.kind:
        return False
    if wanted.kind != "array":
        return True
    same = len(found.shape) == len(wanted.shape) and all(w is None or f == w for f, w in zip(found.shape, wanted.shape))
    return found.dtype == wanted.dtype and same


def load_torch() -> Any:
    import torch

    return torch


def passes(function: Any) -> str:
    """The way a function takes the random generator: "", "position" or "keyword"."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return ""
    if any(p.name == "rng" and p.kind is p.KEYWORD_ONLY for p in parameters):
        return "keyword"
    places = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return "position" if len(places) > 1 and (places[1].name == "rng" or places[1].default is places[1].empty) else ""
