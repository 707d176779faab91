"""Programs: the outputs of a loader, and the operators that make each; as text, and as the library takes them."""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .data.schema import ENCODED, Field
from .functions import native
from .ops import Chain, Map, Native, Operator, PerBatch, _size, from_json


@dataclass(frozen=True)
class Out:
    """An output that is not named like its field.

    Args:
        field: the field, or a tuple of fields; its entry in `outputs` then has a tuple of as many names.
        chain: the operators.
        geometry: deliver one more output, ``"<name>.geometry"`` (of a tuple: the name of its first output). It says
            which part of the decoded image a row shows, as float32 of shape (batch, 7): x and y of the upper left
            corner, width and height in pixels (beyond the image where it is padded); whether it was mirrored, 0 or 1;
            height and width of the decoded image.

    >>> outputs = {"label": [], "soft": leat.Out("label", [leat.ops.ToDtype("float32")])}
    >>> list(leat.Loader(photos, 2, outputs=outputs).batch_at(0, 0))
    ['label', 'soft']
    >>> crop = leat.Out("image", [leat.ops.Decode(), leat.ops.RandomResizedCrop(32)], geometry=True)
    >>> leat.Loader(photos, 2, outputs={"image": crop}).batch_at(0, 0)["image.geometry"].shape
    torch.Size([2, 7])
    """

    field: str | tuple[str, ...]
    chain: Chain | Operator = ()
    geometry: bool = False


Outputs = Mapping[str | tuple[str, ...], "Chain | Operator | Out"]


@dataclass(frozen=True)
class Entry:
    """One entry of a program: a chain over a field, or over a tuple of them."""

    names: tuple[str, ...]
    fields: tuple[str, ...]
    chain: list[Operator]
    geometry: bool
    joint: bool  #: it is over a tuple

    @property
    def outputs(self) -> tuple[str, ...]:
        return (*self.names, f"{self.names[0]}.geometry") if self.geometry else self.names


def entries(outputs: Outputs) -> list[Entry]:
    """The entries of a program, checked."""
    if not isinstance(outputs, Mapping) or not outputs:
        raise TypeError("outputs is a dict of name: chain, with at least one entry")
    found = []
    for key, value in outputs.items():
        field, chain, geometry = (
            (value.field, value.chain, value.geometry) if isinstance(value, Out) else (key, value, False)
        )
        names, fields = (key if isinstance(key, tuple) else (key,)), (field if isinstance(field, tuple) else (field,))
        if not names or not all(isinstance(n, str) for n in names):
            raise TypeError(f"the name of an output is a str, or a tuple of them for a tuple of fields, not {key!r}")
        if len(names) != len(fields) or isinstance(key, tuple) != isinstance(field, tuple):
            raise TypeError(
                f"output {key!r} is made of {field!r}: a tuple of fields gives one output each, so it has a tuple of "
                "as many names"
            )
        found.append(Entry(names, fields, _chain(str(key), chain), bool(geometry), isinstance(key, tuple)))
    every = [name for entry in found for name in entry.outputs]
    if len(set(every)) < len(every):
        raise ValueError(f"two outputs are named {next(name for name in every if every.count(name) > 1)!r}")
    return found


def _chain(output: str, chain: Any) -> list[Operator]:
    found = (
        [chain]
        if isinstance(chain, Operator)
        else list(chain)
        if isinstance(chain, Sequence) and not isinstance(chain, str)
        else None
    )
    if found is None or not all(isinstance(op, Operator) for op in found):
        wrong = chain if found is None else next(op for op in found if not isinstance(op, Operator))
        hint = (
            "" if not callable(wrong) else f": leat.ops.Map({getattr(wrong, '__name__', 'function')}) runs a function"
        )
        if isinstance(wrong, type) and issubclass(wrong, Operator):
            hint = f": write {wrong.__name__}(...)"
        raise TypeError(f"the chain of output {output!r} is a list of leat.ops operators; {wrong!r} is none{hint}")
    return found


def _listed(outputs: Outputs) -> tuple[dict[str, Operator], dict[str, dict[str, Any]]]:
    """The operators, each once under a key, and the outputs, which refer to these keys."""
    operators: dict[str, Operator] = {}
    known: dict[int, str] = {}
    found: dict[str, dict[str, Any]] = {}
    for entry in entries(outputs):
        keys = []
        for op in entry.chain:
            if id(op) not in known:
                known[id(op)] = f"op{len(known)}"
                operators[known[id(op)]] = op
            keys.append(known[id(op)])
        fields: dict[str, Any] = {"field": entry.fields[0]}
        if entry.joint:
            fields = {"fields": list(entry.fields), "outputs": list(entry.names)}
        found[entry.names[0]] = {**fields, "chain": keys} | ({"geometry": True} if entry.geometry else {})
    return operators, found


def _text(listed: dict[str, dict[str, Any]], operators: Mapping[str, Operator], found: Mapping[str, Any]) -> str:
    """A program as text. Sizes per batch are numbered, one number for each object."""
    numbers: dict[int, int] = {}
    for key, op in operators.items():
        size = per_batch(op)
        if size is not None:
            listed[key]["size"] = size.to_json(numbers.setdefault(id(size), len(numbers)))
    return json.dumps({"operators": listed, "outputs": found})


def per_batch(op: Operator) -> PerBatch | None:
    """The size of an operator, if it is drawn per batch."""
    size = op._values.get("size")
    return size if isinstance(size, PerBatch) else None


def has_functions(outputs: Outputs) -> bool:
    """Whether a program has functions in Python."""
    return any(isinstance(op, Map) for entry in entries(outputs) for op in entry.chain)


def described_program(outputs: Outputs) -> str:
    """A program as text for ranks to compare. Python functions appear by their name."""
    operators, found = _listed(outputs)
    listed: dict[str, Any] = {}
    for key, op in operators.items():
        if isinstance(op, Native):
            listed[key] = op._compiled(0, native.find(op.function, op.call))
        else:
            listed[key] = op.described() if isinstance(op, Map) else op.to_json()
    return _text(listed, operators, found)


def instance_names(outputs: Outputs) -> dict[int, str]:
    """The instance of each operator, by its id(): `name`, or else output, type, and ordinal of the type in that chain.
    For an operator in several chains these are of the alphabetically first output. A tuple counts by its first output.
    """
    best: dict[int, tuple[bytes, str]] = {}
    operators: dict[int, Operator] = {}
    for entry in entries(outputs):
        output = entry.names[0]
        seen: dict[type[Operator], int] = {}
        for op in entry.chain:
            ordinal = seen.get(type(op), 0)
            seen[type(op)] = ordinal + 1
            operators[id(op)] = op
            if id(op) not in best or output.encode() < best[id(op)][0]:
                best[id(op)] = (output.encode(), op.name or f"{output}/{type(op).__name__}/{ordinal}")
    named: dict[str, Operator] = {}
    for key, (_, name) in best.items():
        other, op = named.setdefault(name, operators[key]), operators[key]
        # two of one type share their draw; the library says so where they do not draw the same
        if other is not op and (type(other) is not type(op) or isinstance(op, Map) or not op.name):
            raise ValueError(f"two operators of the program are both named {name!r}; they would draw the same")
    return {key: name for key, (_, name) in best.items()}


def _ties(chain: list[Operator]) -> list[object]:
    """The operators of a chain that move pixels, in a form that is equal for chains that move them alike."""
    return [(type(op), op.name or id(op)) if "Random" in type(op).__name__ else op for op in chain if op._moves]


def warn_of_loose_targets(outputs: Outputs, schema: Mapping[str, Field], stacklevel: int) -> None:
    """Warns of boxes, masks and keypoints that stay in place while the image of their sample is moved."""
    found = entries(outputs)
    moved = [
        e
        for e in found
        if any(op._moves for op in e.chain) and not e.geometry and any(_is_image(schema.get(f)) for f in e.fields)
    ]
    for entry in found:
        for name in () if entry.joint else entry.fields:
            role = schema[name].role if name in schema else None
            if role is None:
                continue
            for other in moved:
                if role == "mask" and _ties(entry.chain) == _ties(other.chain):
                    continue
                image = next(f for f in other.fields if _is_image(schema.get(f)))
                op = next(type(op).__name__ for op in other.chain if op._moves)
                warnings.warn(
                    f"{role.partition(':')[0]} {name!r} stay as stored, while {op} moves {image!r} of the same "
                    "sample: give both one chain, "
                    f"{{({image!r}, {name!r}): [...]}}, or ask for the geometry of each row with leat.Out({image!r}, "
                    "[...], geometry=True)",
                    stacklevel=stacklevel,
                )
                return


def _is_image(field: Field | None) -> bool:
    return field is not None and field.role is None and (field.kind in ENCODED or field.layout is not None)


def compiled_program(outputs: Outputs) -> tuple[str, list[tuple[int, bool, object]]]:
    """A program as the library takes it, and its table of functions: address, whether it is of the flat form, owner."""
    operators, found = _listed(outputs)
    functions: list[tuple[int, bool, object]] = []
    listed: dict[str, dict[str, Any]] = {}
    for key, op in operators.items():
        if isinstance(op, Native):
            function = native.find(op.function, op.call)
            listed[key] = op._compiled(len(functions), function)
            functions.append((function.address, function.flat, function.owner))
        else:
            listed[key] = op.to_json()
    return _text(listed, operators, found), functions


def program_to_json(outputs: Outputs) -> str:
    """A program as JSON text: operators listed once, chains referring to them.

    Raises:
        ValueError: it has a :class:`leat.ops.Native` whose function is not of a library.

    >>> crop = leat.ops.RandomCrop(24)
    >>> text = leat.program_to_json({"a": leat.Out("image", [crop]), "b": leat.Out("image", [crop])})
    >>> again = leat.program_from_json(text)
    >>> again["a"].chain[0] is again["b"].chain[0]
    True
    """
    operators, found = _listed(outputs)
    return _text({key: op.to_json() for key, op in operators.items()}, operators, found)


def program_from_json(text: str, *, allow_native: bool = False) -> dict[str | tuple[str, ...], Out]:
    """The outputs of a program that :func:`leat.program_to_json` wrote, for ``Loader(outputs=...)``.

    Args:
        text: the program.
        allow_native: whether it may name functions of libraries, which opening a Loader then loads and runs. Only for
            texts that are trusted as code is.

    Raises:
        ValueError: the text is not a program; it says why.

    >>> text = leat.program_to_json({"label": [leat.ops.ToDtype("float32")]})
    >>> leat.Loader(photos, 2, outputs=leat.program_from_json(text)).batch_at(0, 0)["label"]
    tensor([0., 1.])
    """
    try:
        program = json.loads(text)
    except ValueError as e:
        raise ValueError(f"not a program of leat: {e}") from None
    try:
        sizes: dict[str, Any] = {}
        operators = {}
        for key, value in program["operators"].items():
            size = value.get("size")
            if isinstance(size, dict):
                shared = sizes.setdefault(json.dumps(size.get("per_batch")), _size(size))
                value = {**value, "size": shared}
            operators[key] = from_json(value)
        for op in operators.values():
            if isinstance(op, Native) and not allow_native:
                raise ValueError(
                    f"the program runs code of a library, {op.function!r}: if you trust it as you would code, say "
                    "allow_native=True"
                )
        found: dict[str | tuple[str, ...], Out] = {}
        for name, o in program["outputs"].items():
            chain, geometry = [operators[key] for key in o["chain"]], bool(o.get("geometry", False))
            if "fields" in o:
                fields = tuple(str(f) for f in o["fields"])
                found[tuple(str(n) for n in o.get("outputs", fields))] = Out(fields, chain, geometry)
            else:
                found[name] = Out(str(o["field"]), chain, geometry)
        return found
    except (KeyError, TypeError, AttributeError) as e:
        raise ValueError(f"not a program of leat: {type(e).__name__}: {e}") from None
