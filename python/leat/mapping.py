"""Programs with Python functions: how chains are cut at :class:`leat.ops.Map` and :class:`leat.ops.MapBatch`, and what a worker does.

    chain       Decode, RandomResizedCrop | Map(f), Normalize | MapBatch(g), ToDtype
                prefix: the engine's        phase 0: rows       phase 1: the batch, phase 2: rows

The engine computes the operators before the first function as it computes every output, on its threads. What follows is cut into
phases: even ones go row by row, odd ones take the batch as a whole; native operators in them are applied to single values by
the library, in the worker (``_leat.Chain``). A prefix that ends in images of open size, which do not stack into a batch, is left to the worker
too: the engine then delivers the stored bytes.

Types are known when the loader opens: a function's result is what `returns` says, or what came of the first sample.
"""

from __future__ import annotations

import inspect
import json
import pickle
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from . import _leat, keyed, transport
from .errors import BrokenSampleError
from .ops import Decode, Map, MapBatch, Operator, Out, Outputs, ToLayout, compiled_program, instance_names, named
from .ragged import Ragged
from .schema import ARRAY, KINDS, LAYOUT_NAMES, LAYOUTS, Field

#: kind of a worker's message: what came of a unit
RESULTS = 16

#: of a row that the parent took out, in the flags before the payload
GONE = 1
ENDED = "a function ended 3 workers that computed it: it crashed, or took more memory than there is"


class ResultError(TypeError):
    """A function gave something else than was declared, or came of the first sample."""


# ---- types -----------------------------------------------------------------------------------------------------------


def is_ragged(t: Field) -> bool:
    """An array whose first dimension varies."""
    return t.kind == "array" and bool(t.shape) and t.shape[0] is None


def is_dense(t: Field) -> bool:
    """Whether rows of this type lie one after the other in a slot."""
    return t.kind == "array" and not is_ragged(t)


def stored_dtype(t: Field) -> np.dtype[Any]:
    """As numpy holds its bytes: bfloat16, which it lacks, as uint16."""
    return np.dtype("uint16" if t.dtype == "bfloat16" else t.dtype)


def sides(t: Field) -> tuple[int, ...]:
    """The shape of a dense type."""
    return tuple(n for n in t.shape if n is not None)


def row_bytes(t: Field) -> int:
    """Of a row of a dense type."""
    return int(np.prod(sides(t), dtype=np.int64)) * stored_dtype(t).itemsize


def words(t: Field) -> str:
    """A type in words."""
    if t.kind != "array":
        return t.kind
    return f"{t.dtype} of shape {t.shape}".replace("None", "any")


def raw(t: Field, name: str) -> tuple[str, int, str, int, int, tuple[int, ...]]:
    """As ``_leat.Chain`` takes it."""
    return name, KINDS.get(t.kind, ARRAY), t.dtype, LAYOUTS[t.layout], 0, tuple(-1 if n is None else n for n in t.shape)


def described(chain: _leat.Chain) -> tuple[Field, tuple[int, ...] | None]:
    """The type of what a chain gives; the strides of a row, in elements, where they are not the usual ones. Open images have None for sides."""
    kind, dtype, layout, shape, strides, open_ = chain.describe()
    names = {number: name for name, number in KINDS.items()}
    t = Field(names.get(kind, "array"), dtype, tuple(None if n < 0 else n for n in shape) if kind == ARRAY else (), LAYOUT_NAMES[layout])  # type: ignore[arg-type]
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

    def call(self, value: Any, key: int) -> Any:
        mixed = keyed.mix(key, self.instance)
        keyed.set_key(mixed)
        try:
            if self.passes == "position":
                return self.function(value, keyed.rng())
            return self.function(value, rng=keyed.rng()) if self.passes else self.function(value)
        finally:
            keyed.set_key(None)

    def row(self, value: Any, key: int) -> Any:
        """The result for one value, as it lies in memory."""
        return self.checked(self.call(to_user(value, self.takes, self.framework), key))

    def rows(self, values: Any, key: int) -> Any:
        """That of a batch: an array of shape (rows, ...), or a list."""
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
                f"{self.label} of output {self.output!r} returned {len(made)} rows of {n}: as many as it was given are wanted"
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
            f"{self.label} of output {self.output!r} returned {came}, where {words(wanted)} {first}: have it return that for every sample, or "
            "declare another type with returns=leat.field(dtype, shape), whose first dimension may be None"
        )


Step = NativeStep | CallStep


def to_user(value: Any, t: Field, framework: str) -> Any:
    """A stored value as a function gets it: its own."""
    if t.kind in ("bytes", "image"):
        return bytes(value)
    if t.kind == "str":
        return value if isinstance(value, str) else bytes(value).decode()
    if t.kind == "json":
        return value if not isinstance(value, (bytes, memoryview, np.ndarray)) else json.loads(bytes(value))
    array = np.array(value)
    if framework != "torch":
        return array[()] if array.ndim == 0 else array
    torch = _torch()
    tensor = torch.from_numpy(array)
    return tensor.view(torch.bfloat16) if t.dtype == "bfloat16" else tensor


def as_stored(made: Any, wanted: Field | None) -> Any:
    """A result as it lies in memory: arrays for tensors, images and numbers (of the dtype that is wanted); others as they are."""
    if wanted is not None and wanted.kind != "array":
        return made
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(made, torch.Tensor):
        plain = made.detach().cpu()
        return plain.contiguous().view(torch.int16).numpy().view(BFLOAT16) if plain.dtype == torch.bfloat16 else plain.numpy()
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
    from .schema import DTYPES

    return Field("array", made.dtype.name, made.shape) if made.dtype.name in DTYPES and made.dtype.isnative else None


def fits(found: Field, wanted: Field) -> bool:
    """Whether a value of that type can stand where this one is wanted."""
    if found.kind != wanted.kind:
        return False
    if wanted.kind != "array":
        return True
    same = len(found.shape) == len(wanted.shape) and all(w is None or f == w for f, w in zip(found.shape, wanted.shape))
    return found.dtype == wanted.dtype and same


def _torch() -> Any:
    import torch

    return torch


def _passes(function: Any) -> str:
    """How a function takes the generator."""
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
    final_strides: tuple[int, ...] | None = None

    def type_after(self, phase: int) -> Field:
        """The type once this phase is done."""
        t = self.takes
        for steps in self.phases[: phase + 1]:
            t = steps[-1].gives if steps else t
        return t

    def strides_after(self, phase: int) -> tuple[int, ...] | None:
        strides = self.strides
        for steps in self.phases[: phase + 1]:
            if steps:
                strides = steps[-1].strides if isinstance(steps[-1], NativeStep) else None
        return strides


@dataclass
class Program:
    """What workers have of a loader: outputs with functions. Travels by value."""

    outputs: list[Mapped]
    framework: str
    on_error: str
    sources: dict[str, int] = field(default_factory=dict)  #: the engine's outputs, by name
    load: bool = False  #: import torch in workers

    @property
    def n_phases(self) -> int:
        return max(len(o.phases) for o in self.outputs)

    def at(self, phase: int) -> list[int]:
        """The outputs that have something to do in a phase."""
        return [i for i, o in enumerate(self.outputs) if phase < len(o.phases) and o.phases[phase]]


class Compiler:
    """Cuts the outputs of a loader, and finds their types.

    Args:
        first: gives the stored value of a field in the first sample, and that sample's id; called only where a type is not declared.
        key: of the row whose result is taken then.
    """

    def __init__(
        self, outputs: Outputs, fields: Mapping[str, Field], framework: str, first: Callable[[str], tuple[Any, int]], key: int
    ) -> None:
        self.fields, self.framework, self.first, self.key = fields, framework, first, key
        self.names = instance_names(outputs)
        self.clones: dict[int, Operator] = {}
        self.core: dict[str, Out] = {}  #: outputs of the engine
        self.prefixes: dict[tuple[Any, ...], str] = {}
        self.native: dict[str, str] = {}  #: outputs without functions: their name there
        self.mapped: list[Mapped] = []
        for name, value in outputs.items():
            source, chain = (value.field, value.chain) if isinstance(value, Out) else (name, value)
            operators = [chain] if isinstance(chain, Operator) else list(chain)
            if any(isinstance(op, Map) for op in operators):
                self.mapped.append(self._cut(name, source, [self._named(op) for op in operators]))
            else:
                self.native[name] = name
                self.core[name] = Out(source, [self._named(op) for op in operators])

    def program(self, on_error: str) -> Program:
        """What workers get."""
        return Program(self.mapped, self.framework, on_error)

    def _named(self, op: Operator) -> Operator:
        if id(op) not in self.clones:
            self.clones[id(op)] = named(op, self.names[id(op)])
        return self.clones[id(op)]

    def _cut(self, output: str, source: str, chain: list[Operator]) -> Mapped:
        if source not in self.fields:
            raise KeyError(
                f"output {output!r} is made of field {source!r}, which the data set does not have: it has {', '.join(self.fields)}"
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
        made = Mapped(output, self._prefix(output, source, core), stored if opened else takes, None if opened else strides, [[]], takes)
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

        self._steps(made, takes, rest, chain, source, sample, 1 if opened else 0)
        return made

    def _prefix(self, output: str, source: str, operators: list[Operator]) -> str:
        """The engine's output for these operators; outputs that begin alike share one."""
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
        self, takes: Field, operators: list[Operator], output: str, source: str, inner: str, chain: list[Operator], last: bool = False
    ) -> NativeStep:
        """Native operators between functions: an image stays as it stands in the chain, until the end."""
        step = NativeStep.make(takes, operators, output, source)
        image = step.gives.layout is not None and not any(isinstance(op, ToLayout) for op in operators)
        rows = any(isinstance(op, Decode) for op in operators) or takes.layout == "HWC"
        if image and rows and (not last or any(isinstance(op, ToLayout) for op in chain)):
            step = NativeStep.make(takes, [*operators, ToLayout("NHWC")], output, source)
        return step

    def _steps(
        self, made: Mapped, t: Field, rest: list[Operator], chain: list[Operator], source: str, sample: Callable[[], Any], begun: int
    ) -> None:
        """The phases from the first function on; `sample` gives the value that stands before it, behind the `begun` steps that are there."""
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
        made.final_strides = made.strides_after(len(made.phases))

    def _append(self, made: Mapped, step: Step, batch: bool) -> None:
        if batch:
            if len(made.phases) % 2:
                made.phases.append([])
            made.phases[-1].append(step)
        else:
            if not len(made.phases) % 2:
                made.phases.append([])
            made.phases[-1].append(step)

    def _call(self, op: Map, output: str, t: Field, value: Callable[[], Any]) -> CallStep:
        if t.dtype == "bfloat16" and t.kind == "array" and self.framework != "torch":
            raise TypeError(f"{op.label} of output {output!r} gets bfloat16, which numpy lacks: put ToDtype('float32') before it")
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
            step.gives = op.returns
            return step
        found = self._found(step, value())
        if found.kind == "array" and t.layout is not None and len(found.shape) == 3 and len(t.shape) == 3:
            axis = 2 if t.layout == "HWC" else 0
            if found.shape[axis] == t.shape[axis]:
                found = Field("array", found.dtype, found.shape, t.layout)
        step.gives = found
        return step

    def _found(self, step: CallStep, value: Any) -> Field:
        """The type of what a function makes of the first sample."""
        given = to_user(value, step.takes, self.framework)
        if step.batch:
            given = given[None] if is_dense(step.takes) and step.takes.shape else _one(given, step.takes, self.framework)
        made = step.call(given, self.key)
        if step.batch:
            if isinstance(made, (Ragged, list, tuple)):
                rows = list(made.unbind() if isinstance(made, Ragged) else made)
                found = type_of(as_stored(rows[0], None)) if len(rows) == 1 else None
                if found is not None and found.kind == "array" and found.shape:
                    found = Field("array", found.dtype, (None, *found.shape[1:]))
            else:
                found = type_of(as_stored(made, None))
                found = Field("array", found.dtype, found.shape[1:]) if found is not None and found.shape and found.shape[0] == 1 else None
        else:
            found = type_of(as_stored(made, None))
        if found is None:
            what = "1 row was wanted" if step.batch else "an array, a tensor, a number, str or bytes is wanted"
            raise ResultError(
                f"{step.label} of output {step.output!r} returned {_shown(made)} for the first sample: {what}; or say what it returns with "
                "returns=leat.field(dtype, shape), or 'json'"
            )
        return found


def _one(given: Any, t: Field, framework: str) -> Any:
    if is_dense(t):  # a number
        return np.asarray(given)[None] if framework != "torch" else given[None]
    return [given]


def _shown(made: Any) -> str:
    shape = getattr(made, "shape", None)
    return f"a {type(made).__name__}" + (f" of shape {tuple(shape)}" if shape is not None else "")


def _run_one(step: Step, value: Any, key: int) -> Any:
    """One value through a step, where a type is to be found."""
    if isinstance(step, NativeStep):
        return step.apply(value, key, -1)
    if not step.batch:
        return step.row(value, key)
    made = step.rows(np.asarray(value)[None] if is_dense(step.takes) else [value], key)
    return made[0]


# ---- in a worker -----------------------------------------------------------------------------------------------------


@dataclass
class Task:
    """What the payload of a phase says."""

    phase: int
    keys: list[int]  #: per row of the task
    ids: list[int]
    outputs: list[int]  #: which have something to do
    inputs: dict[int, Any]  #: per output: see `_reader`
    targets: dict[int, int]  #: per dense output: the offset of its slot
    rows: int  #: of the batch in the slots
    places: list[int] | None = None  #: the row of the batch that each row of the task is; None: the same
    where: str = ""
    arena: int = 0
    unit_room: int = 0


class Runner:
    """A program in a worker: readers and targets of the task at hand."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.serial = 0
        self.task: Task
        self.readers: dict[int, Callable[[int], Any]] = {}
        self.targets: dict[int, np.ndarray[Any, Any]] = {}
        self.region: Any = None
        if program.framework == "torch":
            _torch()

    def begin(self, board: _leat.Board, serial: int, payload: memoryview) -> None:
        """Takes over a task's payload: flags per row, then the pickle."""
        if serial == self.serial:
            return
        n = int.from_bytes(payload[:8], "little")
        self.flags = payload[8 : 8 + n]
        task = self.task = pickle.loads(payload[8 + n :])
        outputs = self.program.outputs
        self.readers = {o: self._reader(board, outputs[o], task, task.inputs[o]) for o in task.outputs}
        self.targets = {}
        for o, offset in task.targets.items():
            t = outputs[o].type_after(task.phase)
            self.targets[o] = _dense(board, offset, t, task.rows, outputs[o].strides_after(task.phase))
        self.serial = serial

    def _reader(self, board: _leat.Board, output: Mapped, task: Task, where: Any) -> Callable[[int], Any]:
        """A function from the row of a task to its value. Inputs are ("core", [(offset, bytes to the values, rows)], [(which, row)] or None),
        ("slot", offset) or ("values", list)."""
        if where[0] == "values":
            return lambda row: where[1][row]
        t = output.takes if where[0] == "core" else output.type_after(task.phase - 1)
        if where[0] == "slot":
            array = _dense(board, where[1], t, task.rows, output.strides_after(task.phase - 1))
            return lambda row: array[row]
        sources = [self._source(t, output.strides, *place) for place in where[1]]
        if where[2] is None:
            return sources[0]
        return lambda row: sources[where[2][row][0]](where[2][row][1])

    def _source(self, t: Field, strides: tuple[int, ...] | None, offset: int, values: int, rows: int) -> Callable[[int], Any]:
        """Rows of a buffer of the engine's."""
        dtype = stored_dtype(t)
        if is_dense(t):
            each = row_bytes(t)
            shape = sides(t)
            if strides is not None:
                size = dtype.itemsize
                return lambda row: np.lib.stride_tricks.as_strided(
                    np.frombuffer(self.region, dtype, each // size, offset + row * each),
                    shape,
                    [n * size for n in strides],
                )
            count = rows * each // dtype.itemsize
            if not count:
                return lambda row: np.empty(shape, dtype)
            array = np.frombuffer(self.region, dtype, count, offset).reshape((rows, *shape))
            return lambda row: array[row]
        offsets = np.frombuffer(self.region, np.int64, rows + 1, offset)
        if t.kind != "array":
            return lambda row: bytes(self.region[offset + values + int(offsets[row]) : offset + values + int(offsets[row + 1])])
        inner = sides(t)
        step = int(np.prod(inner, dtype=np.int64))

        def ragged(row: int) -> Any:
            first, n = int(offsets[row]), int(offsets[row + 1] - offsets[row])
            if not n * step:
                return np.empty((n, *inner), dtype)
            return np.frombuffer(self.region, dtype, n * step, offset + values + first * step * dtype.itemsize).reshape((n, *inner))

        return ragged

    # ---- rows ----------------------------------------------------------------------------------------------------------

    def rows(self, board: _leat.Board, first: int, end: int, worker: int) -> tuple[list[tuple[int, str, Any]], dict[int, dict[int, Any]]]:
        """Rows [first, end) of a task: (broken, results that lie in no slot)."""
        task, program = self.task, self.program
        broken: list[tuple[int, str, Any]] = []
        kept: dict[int, dict[int, Any]] = {}
        for row in range(first, end):
            board.at_row(row)
            place = row if task.places is None else task.places[row]
            at = -1
            try:
                if self.flags[row] == GONE:
                    raise BrokenSampleError(ENDED)
                for at in task.outputs:
                    value = self.readers[at](row)
                    for step in program.outputs[at].phases[task.phase]:
                        value = (
                            step.apply(value, task.keys[row], task.ids[row])
                            if isinstance(step, NativeStep)
                            else step.row(value, task.keys[row])
                        )
                    if at in self.targets:
                        self.targets[at][place] = _plain(value)
                    else:
                        kept.setdefault(at, {})[place] = value
            except Exception as e:
                broken.append((row, f"{type(e).__name__}: {e}", transport.pack_error(e, self.where(at, row, worker))))
                for values in kept.values():
                    values.pop(place, None)
                if program.on_error == "raise":
                    break
        return broken, kept

    def whole(self, board: _leat.Board, unit: int, worker: int) -> tuple[list[tuple[int, str, Any]], dict[int, dict[int, Any]]]:
        """The batch of one output."""
        task = self.task
        at = task.outputs[unit]
        board.at_row(unit)
        try:
            if self.flags[unit] == GONE:
                raise BrokenSampleError(ENDED)
            values: Any = [self.readers[at](row) for row in range(task.rows)]
            output = self.program.outputs[at]
            if is_dense(output.type_after(task.phase - 1)):
                values = np.stack(values)
            for step in output.phases[task.phase]:
                assert isinstance(step, CallStep)
                values = step.rows(values, task.keys[0])
        except Exception as e:
            return [(unit, f"{type(e).__name__}: {e}", transport.pack_error(e, self.where(at, None, worker)))], {}
        if at in self.targets:
            self.targets[at][:] = _plain(values)
            return [], {}
        return [], {at: dict(enumerate(values))}

    def where(self, at: int, row: int | None, worker: int) -> str:
        """Where an error came up."""
        what = f" in output {self.program.outputs[at].name!r}" if at >= 0 else ""
        sample = (
            f" for sample {self.task.ids[row]}, row {row if self.task.places is None else self.task.places[row]} of"
            if row is not None
            else " for"
        )
        return f"in leat worker process {worker}{what}{sample} {self.task.where}"


def _plain(value: Any) -> Any:
    return value.view("u2") if isinstance(value, np.ndarray) and value.dtype == BFLOAT16 else value


def _dense(board: _leat.Board, offset: int, t: Field, rows: int, strides: Sequence[int] | None) -> np.ndarray[Any, Any]:
    """A slot as an array of shape (rows, ...)."""
    return dense(board.view(offset, max(1, rows * row_bytes(t))), t, rows, strides)


def dense(memory: Any, t: Field, rows: int, strides: Sequence[int] | None) -> np.ndarray[Any, Any]:
    """Rows of a dense type that lie one after the other, as an array of shape (rows, ...)."""
    dtype = stored_dtype(t)
    count = rows * row_bytes(t) // dtype.itemsize
    shape = (rows, *sides(t))
    if not count:
        return np.empty(shape, dtype)
    flat = np.frombuffer(memory, dtype, count)
    if strides is None:
        return flat.reshape(shape)
    size = dtype.itemsize
    return np.lib.stride_tricks.as_strided(flat, shape, [row_bytes(t), *[n * size for n in strides]])


def attach(descriptor: int, size: int) -> memoryview:
    """Maps the engine's memory, to be read."""
    import mmap

    return memoryview(mmap.mmap(descriptor, size, flags=mmap.MAP_SHARED, prot=mmap.PROT_READ))


def run(worker: Any, client: Any, serial: int, unit: int, first: int, n: int, payload: int, size: int) -> bool:
    """A unit, in a worker. Whether a message was sent."""
    runner: Runner | None = client.state
    if runner is None:
        runner = client.state = Runner(client.job.dataset)
    while client.region is None:
        worker.listen(block=True)
        if worker.stopping:
            return True
    runner.region = client.region
    board = client.board
    runner.begin(board, serial, board.view(payload, size))
    if runner.task.phase % 2:
        broken, kept = runner.whole(board, unit, worker.start.worker)
    else:
        broken, kept = runner.rows(board, first, first + n, worker.start.worker)
    if not broken and not kept:
        return False
    task = runner.task
    room = board.view(task.arena + unit * task.unit_room, task.unit_room) if task.unit_room else None
    worker.send(board, serial, unit, RESULTS, (broken, kept), room)
    return True
