"""Programs with Python functions: how chains are cut at :class:`leat.ops.Map` and :class:`leat.ops.MapBatch`.

    chain       Decode, RandomResizedCrop | Map(f), Normalize | MapBatch(g), ToDtype
                prefix: the engine's        phase 0: rows       phase 1: the batch, phase 2: rows

The engine computes the operators before the first function on its threads, as it computes every output. The rest is
cut into phases: even ones go row by row, odd ones take the batch as a whole. In the worker, the library applies native
operators of the phases to single values (``_leat.Chain``). Images of open size do not stack into a batch. A prefix that
ends in them is computed by the worker too, and the engine delivers the stored bytes.

Functions take the image of a tuple of fields (tuples.py). There images of open size come from the engine.

All types are known when the loader opens: `returns` declares the type of a function's result, or the function is called
on the first sample.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..data.ragged import Ragged
from ..data.schema import ARRAY, KINDS, Field, missing_field
from ..ops import CopyPaste, Decode, DetectionMixUp, Map, MapBatch, Operator, ToLayout, named
from ..ops.convert import _Call
from ..program import Out, Outputs, compiled_program, entries, instance_names
from . import keyed, tuples
from .steps import (
    CallStep,
    NativeStep,
    ResultError,
    Step,
    as_stored,
    height_and_width,
    is_dense,
    is_open,
    passes,
    stored_dtype,
    to_user,
    type_of,
)


class _OpenEnd(TypeError):
    """Images of open size stand where they cannot."""


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
    sizes: int = -1  #: of a tuple: that of the sizes of what it takes, where these are open
    told: int = -1  #: and that of the moves that targets have drawn
    told_bytes: int = 0  #: of a row
    cut: tuples.Cut | None = None
    axes: int = -1  #: if images are delivered as of open size: their layout, as the library counts it
    turned: bool = False  #: ... and they are CHW before, whatever their strides, and HWC then

    def after(self, phase: int) -> tuple[Field, tuple[int, ...] | None]:
        """The type of values after this phase, and their strides."""
        last = next((steps[-1] for steps in reversed(self.phases[: phase + 1]) if steps), self)
        if self.axes >= 0 and last is self.phases[-1][-1]:
            return self.gives, None
        return (self.takes if last is self else last.gives), last.strides


@dataclass
class Program:
    """The outputs with functions of a loader, for its workers. Travels by value."""

    outputs: list[Mapped]
    framework: str
    on_error: str

    def names(self) -> Iterator[tuple[int, int, str]]:
        """The work of workers, for traces: the segment, its output, and its functions; a segment that goes row by row
        has one name for all outputs.
        """
        for phase in range(max((len(o.phases) for o in self.outputs), default=0)):
            parts = [
                f"{o.name}: {'+'.join(label for step in o.phases[phase] for label in step.labels)}"
                for o in self.outputs
                if phase < len(o.phases) and o.phases[phase]
            ]
            for i, text in enumerate(parts if phase % 2 else [", ".join(parts)]):
                yield phase + 1, i, text


class Compiler:
    """Cuts the outputs of a loader, and finds their types.

    Args:
        first: gives the stored value of a field in the first sample, and that sample's id; called only if a type is not
            declared.
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
        self._entries = entries(outputs)  # which have operators of their own
        self.names = instance_names(self._entries)
        self.clones: dict[int, Operator] = {}
        self.core: dict[str | tuple[str, ...], Out] = {}  #: outputs of the engine
        self.prefixes: dict[tuple[Any, ...], str] = {}
        self.mapped: list[Mapped] = []
        self.order = [name for entry in self._entries for name in entry.outputs]
        try:
            self._compile()
        finally:
            keyed.set_key(None)  # functions were called here

    def _compile(self) -> None:
        for entry in self._entries:
            operators = [self._named(op) for op in entry.chain]
            function = next((op for op in operators if isinstance(op, Map)), None)
            if function is None:
                key, source = (entry.names, entry.fields) if entry.joint else (entry.names[0], entry.fields[0])
                self.core[key] = Out(source, operators, entry.geometry, entry.stack)
            elif entry.joint or entry.geometry or entry.stack:
                self.mapped.append(self._cut_tuple(tuples.make(entry, operators, self.fields), operators))
            else:
                self.mapped.append(self._cut(entry.names[0], entry.fields[0], operators))

    def program(self, on_error: str) -> Program:
        """The program for workers."""
        return Program(self.mapped, self.framework, on_error)

    @property
    def whole(self) -> bool:
        """Whether a function takes batches as a whole."""
        return any(len(o.phases) > 1 for o in self.mapped)

    def compiled(self) -> tuple[str, list[tuple[int, bool, object]]]:
        """The program as the library takes it, with calls for the functions. Notes for each output which of the
        engine's outputs it is made of.
        """
        text, functions = compiled_program(self.core)
        program = json.loads(text)
        core, found = program["outputs"], {}
        mapped = {o.cut.entry.names[0] if o.cut else o.name: o for o in self.mapped}
        numbers: dict[str, int] = {}  # of the outputs that functions take
        n = 0
        for entry in self._entries:
            name = entry.names[0]
            if name not in mapped:
                found[name] = core[name]
                n += len(entry.outputs)
                continue
            o = mapped[name]
            cut: dict[str, Any] = {}
            if o.cut is not None:
                o.input, n = n + o.cut.image, n + len(entry.names) + entry.geometry
                o.sizes, n = (n, n + 1) if o.cut.open else (-1, n)
                o.told, n = (n, n + 1) if o.cut.draws else (-1, n)
                n += entry.stack is not None
                cut = {"image": o.cut.image, "after": o.cut.after, "open": o.cut.open, "draws": o.cut.draws}
            else:
                if o.source == name:
                    numbers[name] = n
                    n += 1
                o.input = numbers[o.source]
            phases = [k for k, steps in enumerate(o.phases) if steps]
            o.results = [-1] * len(o.phases)
            for k in phases:
                o.results[k], n = n, n + 1
            calls = [_call(o, k) for k in phases]
            found[name] = {**core.get(name, {"input": o.source}), "calls": calls} | ({"cut": cut} if cut else {})
        return json.dumps({**program, "outputs": found}), functions

    def _named(self, op: Operator) -> Operator:
        if id(op) not in self.clones:
            self.clones[id(op)] = named(op, self.names[id(op)])
        return self.clones[id(op)]

    def _cut(self, output: str, source: str, chain: list[Operator]) -> Mapped:
        if source not in self.fields:
            raise missing_field("the data set", source, self.fields, f", of which output {output!r} is made")
        n = next(i for i, op in enumerate(chain) if isinstance(op, Map))
        boxed = tuples.by_boxes(chain)
        if boxed is not None:
            raise TypeError(
                f"{type(boxed).__name__} in output {output!r} goes by boxes: give its chain to a tuple of fields, such "
                'as {("image", "boxes", "label"): [...]}'
            )
        prefix, rest = chain[:n], chain[n:]
        stored = self.fields[source]
        takes, strides, begin = stored, None, []
        if prefix:
            step = self._native(stored, prefix, output, source, chain)
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

        several = next((type(op).__name__ for op in prefix if isinstance(op, tuples.OF_SAMPLES)), None)
        if opened and several:
            raise TypeError(
                f"{chain[n].label} of output {output!r} takes images of open size behind a {several}: put "
                "Resize([height, width]) or a crop before it"
            )

        def sample() -> Any:
            return self._first(begin[0] if begin else None, source)

        self._typed(made, takes, rest, chain, source, sample, 1 if opened else 0)
        return made

    def _first(self, begin: NativeStep | None, source: str) -> Any:
        """The first function's input for the first sample; zeroes, if that is made of several."""
        if begin is not None and any(isinstance(op, tuples.OF_SAMPLES) for op in begin.operators):
            return np.zeros([64 if n is None else n for n in begin.gives.shape], stored_dtype(begin.gives))
        value, number = self.first(source)
        return begin.apply(value, self.key, number) if begin else value

    def _cut_tuple(self, cut: tuples.Cut, operators: list[Operator]) -> Mapped:
        """Functions in the chain of a tuple, which take its image."""
        entry = cut.entry
        output, source = entry.names[cut.image], entry.fields[cut.image]
        stored = takes = self.fields[source]
        chain = tuples.of_image(operators)
        n = next(i for i, op in enumerate(chain) if isinstance(op, Map))
        begin = None
        if n:
            keep_types = (CopyPaste, DetectionMixUp)
            phases = tuples.by_epoch([op for op in chain[:n] if not isinstance(op, keep_types)])
            before = [self._native(stored, ops, output, source, chain) for ops in phases]
            if any((step.gives, step.strides) != (before[0].gives, before[0].strides) for step in before):
                raise TypeError(
                    f"{chain[n].label} of output {output!r} takes images of one type in all epochs: put what changes "
                    "their size behind it, or one Resize before it"
                )
            begin, takes = before[0], before[0].gives
            cut.open = is_open(takes)
            more = begin.operators[len(phases[0]) :]  # the layout in which it is taken
            cut.chain[cut.after : cut.after] = more
            cut.after += len(more)
        if takes.layout is None:
            raise TypeError(
                f"{chain[n].label} of output {output!r} takes the pixels of {source!r}, which are encoded: put "
                "Decode() before it"
            )
        key = entry.names if entry.joint else (output,)
        self.core[key] = Out(entry.fields, cut.chain, entry.geometry, entry.stack)
        made = Mapped(output, output, takes, None if begin is None else begin.strides, [[]], takes, cut=cut)

        def sample() -> Any:
            return self._first(begin, source)

        self._typed(made, takes, chain[n:], chain, source, sample, 0)
        if entry.stack:
            of = made.gives
            made.axes = 0 if of.layout == "CHW" else 1
            if [op._values["layout"] for op in chain if isinstance(op, ToLayout)][-1:] == ["channels_last"]:
                made.axes, made.turned = 2, of.layout == "CHW"
            channels = of.shape[0 if of.layout == "CHW" else 2]
            made.gives = Field("array", of.dtype, (None, None, channels), "HWC")
            if not made.axes:
                made.gives = Field("array", of.dtype, (channels, None, None), "CHW")
        return made

    def _typed(
        self,
        made: Mapped,
        takes: Field,
        rest: list[Operator],
        chain: list[Operator],
        source: str,
        first: Callable[[], Any],
        begun: int,
    ) -> None:
        """The steps of an output, whose types may have to be found with the first sample."""
        value: list[Any] = []
        asked = False

        def sample() -> Any:
            nonlocal asked
            if not asked:
                asked = True
                value.append(first())
            return value[0]

        try:
            try:
                self._steps(made, takes, rest, chain, source, sample, begun)
            except _OpenEnd:  # unless all samples have the size of the first, the others are broken
                if made.cut is not None or not asked:
                    raise
                made.phases = [made.phases[0][:begun]]
                self._steps(made, takes, rest, chain, source, sample, begun, True)
        except _OpenEnd as e:
            raise TypeError(*e.args) from None
        except Exception as e:
            if asked:  # it may be that only this sample is broken
                e.add_note(
                    f"leat: while the loader was opened, to find what the functions of output {made.name!r} return for "
                    "its first sample; where Map(..., returns=leat.field(dtype, shape)) says it, no sample is needed"
                )
            raise

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
        one_size: bool = False,
    ) -> None:
        """Makes the phases from the first function on. `sample` gives the first sample's value before that function,
        to which the `begun` steps that are there already were applied. `one_size`: functions give no images of open
        size.
        """
        results: list[Any] = []  # the value after the last step, once a type had to be found

        def value() -> Any:
            if not results:
                results.append(sample())
                for step in [step for steps in made.phases for step in steps][begun:]:
                    results[0] = _run_one(step, results[0], self.key)
            return results[0]

        i = told = 0
        while i < len(rest):
            op = rest[i]
            step: Step
            if isinstance(op, Map):
                step = self._call(op, made.name, t, value, made.cut is not None, one_size)
                i += 1
                batch = isinstance(op, MapBatch)
            else:
                end = next((k for k in range(i, len(rest)) if isinstance(rest[k], Map)), len(rest))
                step = self._native(t, rest[i:end], made.name, source, chain, last=end == len(rest))
                step.moves = (told, told + step.moves[1])
                told = step.moves[1]
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
        if is_open(t) and not (made.cut and made.cut.entry.stack):
            raise _OpenEnd(
                f"output {made.name!r} ends in images of open size, which do not stack into a batch: put "
                "Resize([height, width]) or a crop at the end of its chain, or ask for stack='list' or 'pad' in "
                "leat.Out; a function may also return one size for all samples"
            )
        made.gives, made.told_bytes = t, told

    def _append(self, made: Mapped, step: Step, batch: bool) -> None:
        if len(made.phases) % 2 == batch:  # phases in turn take rows and batches
            made.phases.append([])
        made.phases[-1].append(step)

    def _call(self, op: Map, output: str, t: Field, value: Callable[[], Any], keeps: bool, one_size: bool) -> CallStep:
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
            passes(op.function),
            keeps,
        )
        if batch and is_open(t):
            raise _OpenEnd(
                f"{op.label} of output {output!r} takes batches of images of one size: put Resize([height, width]) or "
                "a crop before it"
            )
        if keeps and op.returns is not None and op.returns.kind == "array" and not op.returns.shape:
            step.settle(Field("array", op.returns.dtype, t.shape, t.layout))  # of images the dtype says enough
            return step
        if op.returns is not None:
            step.check_sides(op.returns)
            step.settle(Field(op.returns.kind, op.returns.dtype, op.returns.shape, t.layout) if keeps else op.returns)
            return step
        found = self._found(step, value())
        if not one_size and self._is_open(step, found, value):
            channels = found.shape[2 if t.layout == "HWC" else 0]
            step.settle(Field("array", found.dtype, tuple(n and channels for n in t.shape), t.layout))
            return step
        if keeps:
            step.check_sides(Field(found.kind, found.dtype, found.shape, t.layout), value())
            sides = (*t.shape[:2], *found.shape[2:]) if t.layout == "HWC" else (*found.shape[:1], *t.shape[1:])
            step.settle(Field("array", found.dtype, sides, t.layout))
            return step
        if found.kind == "array" and t.layout is not None and len(found.shape) == 3 and len(t.shape) == 3:
            axis = 2 if t.layout == "HWC" else 0
            if found.shape[axis] == t.shape[axis] or isinstance(op.function, _Call):
                found = Field("array", found.dtype, found.shape, t.layout)
        step.settle(found)
        return step

    def _is_open(self, step: CallStep, found: Field, value: Callable[[], Any]) -> bool:
        """Whether a function of images of open size returns such images. If its result is as large as the first sample,
        it is asked again with a row and a column less.
        """
        t = step.takes
        if step.keeps or not is_open(t) or found.kind != "array" or len(found.shape) != 3:
            return False
        sides = height_and_width(value().shape, t.layout)
        if height_and_width(found.shape, t.layout) != sides:
            return False
        less = value()[:-1, :-1] if t.layout == "HWC" else value()[:, :-1, :-1]
        if 0 in less.shape:
            return True
        again = self._found(step, less)
        return height_and_width(again.shape, t.layout) == height_and_width(less.shape, t.layout)

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
        "shape": (t.shape if not is_open(t) else (None,)) if t.kind == "array" else (None,),
    }
    if o.axes >= 0 and phase == len(o.phases) - 1:
        return {**spec, "channels": t.shape[0 if o.axes == 0 else 2], "axes": o.axes}
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
