"""Programs with Python functions: how chains are cut at :class:`leat.ops.Map` and :class:`leat.ops.MapBatch`.

    chain       Decode, RandomResizedCrop | Map(f), Normalize | MapBatch(g), ToDtype
                prefix: the engine's        phase 0: rows       phase 1: the batch, phase 2: rows

The engine computes the operators before the first function on its threads, as it computes every output. The rest is
cut into phases: even ones go row by row, odd ones take the batch as a whole. In the worker, the library applies native
operators of the phases to single values (``_leat.Chain``). Images of open size do not stack into a batch. A prefix that
ends in them is computed by the worker too, and the engine delivers the stored bytes.

All types are known when the loader opens: `returns` declares the type of a function's result, or the function is called
on the first sample.
"""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from .. import _leat
from ..data.schema import ARRAY, BINARY, KIND_NAMES, KINDS, LAYOUT_NAMES, LAYOUTS, Field
from ..loading.ragged import Ragged
from ..ops import Decode, Map, MapBatch, Operator, ToLayout, named
from ..program import Out, Outputs, compiled_program, entries, instance_names
from . import keyed


class ResultError(TypeError):
    """The result of a function is not of the type that was declared, or that it had for the first sample."""


# ---- types -----------------------------------------------------------------------------------------------------------


def is_ragged(t: Field) -> bool:
    """An array whose first dimension varies."""
    return t.kind == "array" and bool(t.shape) and t.shape[0] is None


def is_dense(t: Field) -> bool:
    """Whether rows of this type lie one after the other."""
    return t.kind == "array" and not is_ragged(t)


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


def raw(t: Field, name: str) -> tuple[str, int, str, int, int, tuple[int, ...]]:
    """A type as ``_leat.Chain`` takes it."""
    return name, KINDS.get(t.kind, ARRAY), t.dtype, LAYOUTS[t.layout], 0, tuple(-1 if n is None else n for n in t.shape)


def described(chain: _leat.Chain) -> tuple[Field, tuple[int, ...] | None]:
    """The type of a chain's results, where images of open size have None for sides; and the strides of a row, in
    elements, unless they are the usual ones.
    """
    kind, dtype, layout, shape, strides, open_ = chain.describe()
    sizes = tuple(None if n < 0 else n for n in shape) if kind == ARRAY else ()
    t = Field(KIND_NAMES[kind], dtype, sizes, LAYOUT_NAMES[layout])  # type: ignore[arg-type]
    if open_ or not is_dense(t):
        return t, None
    usual = np.empty(shape, np.uint8).strides if 0 not in shape else strides
    return t, None if tuple(usual) == tuple(strides) else strides


def is_open(t: Field) -> bool:
    """An image whose sides differ from sample to sample."""
    return t.layout is not None and None in t.shape


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

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "chain": None}

    @classmethod
    def make(cls, takes: Field, operators: list[Operator], output: str, source: str) -> NativeStep:
        step = cls(takes, takes, None, output, operators, source)
        step._compile()
        step.gives, step.strides = described(step.chain)
        return step

    def _compile(self) -> None:
        program, functions = compiled_program({self.output: Out(self.source, self.operators)})
        self.chain = _leat.Chain(raw(self.takes, self.source), program, functions)

    def apply(self, value: Any, key: int, sample: int) -> Any:
        if self.chain is None:
            self._compile()
        data = value if isinstance(value, bytes) else np.ascontiguousarray(value).reshape(-1).view(np.uint8)
        made = np.asarray(self.chain.apply(data, key, sample))
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
    passes: str = ""  #: how the generator is given: "", "position" or "keyword"
    strides: ClassVar[None] = None

    def __post_init__(self) -> None:
        self.settle(self.gives)

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

    def checked(self, made: Any) -> Any:
        return self._fitting(as_stored(made, self.gives), self.gives)

    def _fitting(self, made: Any, wanted: Field) -> Any:
        found = type_of(made, wanted)
        if found is not None and fits(found, wanted):
            return made
        came = words(found) if found is not None else f"a {type(made).__name__}"
        first = "is declared by returns=" if self.declared else "came of the first sample"
        raise ResultError(
            f"{self.label} of output {self.output!r} returned {came}, where {words(wanted)} {first}: have it "
            "return that for every sample, or declare another type with returns=leat.field(dtype, shape), whose first "
            "dimension may be None"
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
    return made if isinstance(made, (str, bytes, dict)) or made is None else np.asarray(made)


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
    """Whether a value of that type can stand where this one is wanted."""
    if found.kind != wanted.kind:
        return False
    if wanted.kind != "array":
        return True
    same = len(found.shape) == len(wanted.shape) and all(w is None or f == w for f, w in zip(found.shape, wanted.shape))
    return found.dtype == wanted.dtype and same


def load_torch() -> Any:
    import torch

    return torch


def _passes(function: Any) -> str:
    """How a function takes the random generator: "", "position" or "keyword"."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return ""
    if any(p.name == "rng" and p.kind is p.KEYWORD_ONLY for p in parameters):
        return "keyword"
    places = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return "position" if len(places) > 1 and (places[1].name == "rng" or places[1].default is places[1].empty) else ""


# ---- a program -------------------------------------------------------------------------------------------------------


@dataclass
class Mapped:
    """An output with functions."""

    name: str
    source: str  #: the output of the engine that it is made of
    takes: Field  #: type of that
    strides: tuple[int, ...] | None
    phases: list[list[Step]]
    gives: Field
    input: int = -1  #: number of the engine's output that it is made of
    results: list[int] = field(default_factory=list)  #: and of those that its phases make

    def after(self, phase: int) -> tuple[Field, tuple[int, ...] | None]:
        """The type of values after this phase, and their strides."""
        last = next((steps[-1] for steps in reversed(self.phases[: phase + 1]) if steps), self)
        return (self.takes if last is self else last.gives), last.strides


@dataclass
class Program:
    """The outputs with functions of a loader, for its workers. Travels by value."""

    outputs: list[Mapped]
    framework: str
    on_error: str


class Compiler:
    """Cuts the outputs of a loader, and finds their types.

    Args:
        first: gives the stored value of a field in the first sample, and that sample's id; called only where a type is
            not declared.
        key: of the row whose result is taken then.
    """

    def __init__(
        self,
        outputs: Outputs,
        fields: Mapping[str, Field],
        framework: str,
        first: Callable[[str], tuple[Any, int]],
        key: int,
    ) -> None:
        self.fields, self.framework, self.first, self.key = fields, framework, first, key
        self.names = instance_names(outputs)
        self.clones: dict[int, Operator] = {}
        self.core: dict[str | tuple[str, ...], Out] = {}  #: outputs of the engine
        self.prefixes: dict[tuple[Any, ...], str] = {}
        self.mapped: list[Mapped] = []
        try:
            self._compile(outputs)
        finally:
            keyed.set_key(None)  # functions were called here

    def _compile(self, outputs: Outputs) -> None:
        for entry in entries(outputs):
            operators = [self._named(op) for op in entry.chain]
            function = next((op for op in operators if isinstance(op, Map)), None)
            if function is None:
                key, source = (entry.names, entry.fields) if entry.joint else (entry.names[0], entry.fields[0])
                self.core[key] = Out(source, operators, entry.geometry)
            elif entry.joint or entry.geometry:
                raise TypeError(
                    f"{function.label} is in the chain of {entry.names!r}: functions in Python take "
                    "one field, and give no geometry; give the field a chain of its own"
                )
            else:
                self.mapped.append(self._cut(entry.names[0], entry.fields[0], operators))

    def program(self, on_error: str) -> Program:
        """The program for workers."""
        return Program(self.mapped, self.framework, on_error)

    @property
    def whole(self) -> bool:
        """Whether a function takes batches as a whole."""
        return any(len(o.phases) > 1 for o in self.mapped)

    def compiled(self, outputs: Outputs) -> tuple[str, list[tuple[int, bool, object]]]:
        """The program as the library takes it, with calls for the functions. Notes for each output which of the
        engine's outputs it is made of.
        """
        text, functions = compiled_program(self.core)
        program = json.loads(text)
        core, found = program["outputs"], {}
        mapped = {o.name: o for o in self.mapped}
        numbers: dict[str, int] = {}  # of the outputs that functions take
        n = 0
        for entry in entries(outputs):
            name = entry.names[0]
            if name not in mapped:
                found[name] = core[name]
                n += len(entry.outputs)
                continue
            o = mapped[name]
            if o.source == name:
                numbers[name] = n
                n += 1
            o.input = numbers[o.source]
            phases = [k for k, steps in enumerate(o.phases) if steps]
            o.results = [-1] * len(o.phases)
            for k in phases:
                o.results[k], n = n, n + 1
            found[name] = {**core.get(name, {"input": o.source}), "calls": [_call(o, k) for k in phases]}
        return json.dumps({**program, "outputs": found}), functions

    def _named(self, op: Operator) -> Operator:
        if id(op) not in self.clones:
            self.clones[id(op)] = named(op, self.names[id(op)])
        return self.clones[id(op)]

    def _cut(self, output: str, source: str, chain: list[Operator]) -> Mapped:
        if source not in self.fields:
            raise KeyError(
                f"output {output!r} is made of field {source!r}, which the data set does not have: it has "
                f"{', '.join(self.fields)}"
            )
        n = next(i for i, op in enumerate(chain) if isinstance(op, Map))
        prefix, rest = chain[:n], chain[n:]
        stored = self.fields[source]
        takes, strides, begin = stored, None, []
        if prefix:
            step = self._native(stored, prefix, output, source, "Decode", chain)
            takes, strides = step.gives, step.strides
            begin = [step]
        opened = is_open(takes)
        core = [] if opened or not prefix else begin[0].operators
        made = Mapped(
            output,
            self._prefix(output, source, core),
            stored if opened else takes,
            None if opened else strides,
            [[]],
            takes,
        )
        if opened:
            made.phases[0].append(begin[0])
        value = None
        asked = False

        def sample() -> Any:
            nonlocal value, asked
            if not asked:
                stored_value, number = self.first(source)
                value = begin[0].apply(stored_value, self.key, number) if begin else stored_value
                asked = True
            return value

        try:
            self._steps(made, takes, rest, chain, source, sample, 1 if opened else 0)
        except Exception as e:
            if asked:  # it may be that only this sample is broken
                e.add_note(
                    f"leat: while the loader was opened, to find what the functions of output {output!r} return for "
                    "its first sample; where Map(..., returns=leat.field(dtype, shape)) says it, no sample is needed"
                )
            raise
        return made

    def _prefix(self, output: str, source: str, operators: list[Operator]) -> str:
        """The engine's output that these operators make; outputs that begin alike share one."""
        key = (
            source,
            *[id(op) for op in operators if not isinstance(op, ToLayout)],
            *[repr(op) for op in operators if isinstance(op, ToLayout)],
        )
        if key not in self.prefixes:
            self.prefixes[key] = output
            self.core[output] = Out(source, operators)
        return self.prefixes[key]

    def _native(
        self,
        takes: Field,
        operators: list[Operator],
        output: str,
        source: str,
        inner: str,
        chain: list[Operator],
        last: bool = False,
    ) -> NativeStep:
        """Native operators between functions. Images stay HWC, except at the end of the chain."""
        step = NativeStep.make(takes, operators, output, source)
        image = step.gives.layout is not None and not any(isinstance(op, ToLayout) for op in operators)
        rows = any(isinstance(op, Decode) for op in operators) or takes.layout == "HWC"
        if image and rows and (not last or any(isinstance(op, ToLayout) for op in chain)):
            step = NativeStep.make(takes, [*operators, ToLayout("NHWC")], output, source)
        return step

    def _steps(
        self,
        made: Mapped,
        t: Field,
        rest: list[Operator],
        chain: list[Operator],
        source: str,
        sample: Callable[[], Any],
        begun: int,
    ) -> None:
        """Makes the phases from the first function on. `sample` gives the first sample's value before that function,
        to which the `begun` steps that are there already were applied.
        """
        results: list[Any] = []  # the value after the last step, once a type had to be found

        def value() -> Any:
            if not results:
                results.append(sample())
                for step in [step for steps in made.phases for step in steps][begun:]:
                    results[0] = _run_one(step, results[0], self.key)
            return results[0]

        i = 0
        while i < len(rest):
            op = rest[i]
            step: Step
            if isinstance(op, Map):
                step = self._call(op, made.name, t, value)
                i += 1
                batch = isinstance(op, MapBatch)
            else:
                end = next((k for k in range(i, len(rest)) if isinstance(rest[k], Map)), len(rest))
                step = self._native(t, rest[i:end], made.name, source, "", chain, last=end == len(rest))
                i = end
                batch = False
            self._append(made, step, batch)
            if results:
                results[0] = _run_one(step, results[0], self.key)
            t = step.gives
        if isinstance(rest[-1], Map) and t.layout == "HWC" and not any(isinstance(op, ToLayout) for op in chain):
            step = NativeStep.make(t, [ToLayout("NCHW")], made.name, source)
            self._append(made, step, False)
            t = step.gives
        if is_open(t):
            raise TypeError(f"output {made.name!r} ends in images of open size, which do not stack into a batch")
        made.gives = t

    def _append(self, made: Mapped, step: Step, batch: bool) -> None:
        if len(made.phases) % 2 == batch:  # phases in turn take rows and batches
            made.phases.append([])
        made.phases[-1].append(step)

    def _call(self, op: Map, output: str, t: Field, value: Callable[[], Any]) -> CallStep:
        if t.dtype == "bfloat16" and t.kind == "array" and self.framework != "torch":
            raise TypeError(
                f"{op.label} of output {output!r} gets bfloat16, which numpy lacks: put ToDtype('float32') before it"
            )
        batch = isinstance(op, MapBatch)
        assert op.name is not None
        step = CallStep(
            op.function,
            batch,
            t,
            t,
            op.returns is not None,
            op.label,
            output,
            keyed.instance(op.name),
            self.framework,
            _passes(op.function),
        )
        if op.returns is not None:
            step.settle(op.returns)
            return step
        found = self._found(step, value())
        if found.kind == "array" and t.layout is not None and len(found.shape) == 3 and len(t.shape) == 3:
            axis = 2 if t.layout == "HWC" else 0
            if found.shape[axis] == t.shape[axis]:
                found = Field("array", found.dtype, found.shape, t.layout)
        step.settle(found)
        return step

    def _found(self, step: CallStep, value: Any) -> Field:
        """The type of a function's result for the first sample."""
        given = to_user(value, step.takes, self.framework)
        if step.batch:
            given = (
                given[None] if is_dense(step.takes) and step.takes.shape else _one(given, step.takes, self.framework)
            )
        made = step.call(given, self.key)
        if step.batch:
            if isinstance(made, (Ragged, list, tuple)):
                rows = list(made.unbind() if isinstance(made, Ragged) else made)
                found = type_of(as_stored(rows[0], None)) if len(rows) == 1 else None
                if found is not None and found.kind == "array" and found.shape:
                    found = Field("array", found.dtype, (None, *found.shape[1:]))
            else:
                found = type_of(as_stored(made, None))
                found = (
                    Field("array", found.dtype, found.shape[1:])
                    if found is not None and found.shape and found.shape[0] == 1
                    else None
                )
        else:
            found = type_of(as_stored(made, None))
        if found is None:
            what = "1 row was wanted" if step.batch else "an array, a tensor, a number, str or bytes is wanted"
            raise ResultError(
                f"{step.label} of output {step.output!r} returned {_shown(made)} for the first sample: {what}; or "
                "say what it returns with returns=leat.field(dtype, shape), or 'json'"
            )
        return found


def _call(o: Mapped, phase: int) -> dict[str, Any]:
    """The result of a phase, as the library takes it."""
    t, strides = o.after(phase)
    spec = {
        "segment": phase + 1,
        "kind": KINDS.get(t.kind, ARRAY),
        "dtype": t.dtype,
        "shape": t.shape if t.kind == "array" else (None,),
    }
    return spec if strides is None else {**spec, "strides": strides}


def _one(given: Any, t: Field, framework: str) -> Any:
    if is_dense(t):  # a number
        return np.asarray(given)[None] if framework != "torch" else given[None]
    return [given]


def _shown(made: Any) -> str:
    shape = getattr(made, "shape", None)
    return f"a {type(made).__name__}" + (f" of shape {tuple(shape)}" if shape is not None else "")


def _run_one(step: Step, value: Any, key: int) -> Any:
    """Applies a step to one value, to find its type."""
    if isinstance(step, NativeStep):
        return step.apply(value, key, -1)
    if not step.batch:
        return step.row(value, key)
    made = step.rows(np.asarray(value)[None] if is_dense(step.takes) else [value], key)
    return made[0]
