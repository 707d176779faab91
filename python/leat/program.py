"""Programs: the outputs of a loader, and the operators that make each; as text, and as the library takes them."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

from . import check, ops
from .data.schema import ENCODED, OF_A_BOX, Field
from .functions import native
from .ops.arguments import size as one_or_drawn
from .ops.base import named
from .ops.branches import Branch, visit
from .ops.tokens import has_labels, part_of


@dataclass(frozen=True)
class Out:
    """An output that is not named like its field.

    Args:
        field: the field, or a tuple of fields; its entry in `outputs` then has a tuple of as many names.
        chain: the operators.
        geometry: deliver one more output, ``"<name>.geometry"`` (of a tuple: the name of its first output). It gives
            the part of the decoded image that a row shows, as float32 of shape (batch, 7): x and y of the upper left
            corner, width and height in pixels (beyond the image if it is padded); 0, or 1 if mirrored, 2 if upside
            down, 3 if both; height and width of the decoded image.
        stack: the form of images that differ in size. ``"list"``: a list of a tensor per row, without a copy.
            ``"pad"``: one tensor of the height and width of the batch's largest, with 0 beside and below each image,
            and one more output, ``"<name>.mask"`` (of a tuple: the name of its first output): bool (batch, height,
            width), True on padding. It holds for all images and masks of a tuple. None: images must have one size,
            unless batches have one row.

    >>> outputs = {"label": [], "soft": leat.Out("label", [leat.ops.ToDtype("float32")])}
    >>> list(leat.Loader(photos, 2, outputs=outputs).batch_at(0, 0))
    ['label', 'soft']
    >>> crop = leat.Out("image", [leat.ops.Decode(), leat.ops.RandomResizedCrop(32)], geometry=True)
    >>> leat.Loader(photos, 2, outputs={"image": crop}).batch_at(0, 0)["image.geometry"].shape
    torch.Size([2, 7])
    >>> whole = leat.Out("image", [leat.ops.Decode()], stack="pad")
    >>> batch = leat.Loader(photos, 2, outputs={"image": whole}).batch_at(0, 0)
    >>> batch["image"].shape[0], batch["image.mask"].shape[1:] == batch["image"].shape[2:]
    (2, True)
    """

    field: str | tuple[str, ...]
    chain: ops.Chain | ops.Operator = ()
    geometry: bool = False
    stack: Literal["list", "pad"] | None = None

    def __post_init__(self) -> None:
        names = self.field if isinstance(self.field, tuple) else (self.field,)
        if not names or not all(isinstance(name, str) for name in names):
            raise TypeError(f"the field of an output is a name, or a tuple of names, not {self.field!r:.60}")
        check.flag("geometry", self.geometry)


class Stack(NamedTuple):
    """The form of images of open size."""

    how: str  #: "list", "pad", or "row" (masks of instances in a list of one tensor per row)
    mask: str  #: the output that marks padding
    channels: int | None  #: their axis in an image
    instances: int | None = None  #: masks of instances: 0 as many as a row has, or as PadTo says


# Keys are names of fields, or tuples of them: a type checker takes no dict of either for a Mapping of both.
Outputs = Mapping[Any, ops.Chain | ops.Operator | Out]


@dataclass(frozen=True)
class Entry:
    """One entry of a program: a chain over a field, or over a tuple of them."""

    names: tuple[str, ...]
    fields: tuple[str, ...]
    chain: list[ops.Operator]
    geometry: bool
    joint: bool  #: it is over a tuple
    stack: Literal["list", "pad"] | None

    @property
    def outputs(self) -> tuple[str, ...]:
        """Those of the library; that of sizes is not delivered."""
        more = [what for what, wanted in (("geometry", self.geometry), ("size", self.stack)) if wanted]
        return (*self.names, *(f"{self.names[0]}.{what}" for what in more))


#: by the id of an operator that makes labels: those that make the tokens and the labels
Parts = dict[int, tuple[ops.Operator, ops.Operator]]


def entries(outputs: Outputs) -> list[Entry]:
    """The entries of a program, checked."""
    if not isinstance(outputs, Mapping) or not outputs:
        raise TypeError("outputs is a dict of name: chain, with at least one entry")
    found: list[Entry] = []
    parts: Parts = {}
    for key, value in outputs.items():
        out = value if isinstance(value, Out) else Out(key, value)
        field, chain = out.field, out.chain
        names, fields = (key if isinstance(key, tuple) else (key,)), (field if isinstance(field, tuple) else (field,))
        if not names or not all(isinstance(n, str) for n in names):
            raise TypeError(f"the name of an output is a str, or a tuple of them for a tuple of fields, not {key!r}")
        if len(names) != len(fields) or isinstance(key, tuple) != isinstance(field, tuple):
            raise TypeError(
                f"output {key!r} is made of {field!r}: a tuple of fields gives one output each, so it has a tuple of "
                f"as many names; write leat.Out({key!r}, chain) if they are named like their fields"
            )
        if out.stack not in (None, "list", "pad"):
            raise ValueError(f"stack of output {key!r} is 'list' or 'pad', not {out.stack!r}")
        joint = isinstance(key, tuple)
        operators = _chain(str(key), chain)
        for op in operators:
            fill = op._values.get("fill")
            if isinstance(op, ops.PadTo) and isinstance(fill, Mapping) and not set(fill) <= set(fields):
                stranger = next(name for name in fill if name not in fields)
                raise ValueError(f"{op!r} fills {stranger!r}, and the fields of its chain are {', '.join(fields)}")
        found += _with_others(Entry(names, fields, operators, bool(out.geometry), joint, out.stack), outputs, parts)
    every = [name for entry in found for name in entry.outputs]
    every += [f"{entry.names[0]}.mask" for entry in found if entry.stack == "pad"]
    if len(set(every)) < len(every):
        raise ValueError(f"two outputs are named {next(name for name in every if every.count(name) > 1)!r}")
    return found


def sparse_parts(outputs: Outputs | None, schema: Mapping[str, Field]) -> Outputs | None:
    """The outputs, with sparse rows as two of them: values, and under ``"<name>.columns"`` their columns."""
    sparse = {name for name, field in schema.items() if field.kind == "sparse"}
    if not sparse:
        return outputs
    given = {name: [] for name, field in schema.items() if not field.derived} if outputs is None else outputs
    found: dict[str | tuple[str, ...], Any] = {}
    for name, chain in given.items():
        out = chain if isinstance(chain, Out) else Out(name, chain)
        if isinstance(out.field, tuple):
            if taken := [field for field in out.field if field in sparse]:
                raise TypeError(f"output {name!r}: field {taken[0]!r} is sparse: give it a chain of its own")
            found[name] = chain
            continue
        if out.field not in sparse:
            found[name] = chain
            continue
        if out.geometry or out.stack is not None:
            raise TypeError(f"output {name!r}: sparse rows have neither geometry nor stack")
        found |= _sparse_outputs(str(name), out, f"{name}.columns" in given)
    return found


def _sparse_outputs(name: str, out: Out, taken: bool) -> dict[str | tuple[str, ...], Any]:
    listed = _chain(name, out.chain)
    ends = (ops.Densify, ops.RankTokens, ops.SparsePart, ops.Map)
    last = next((op for op in listed if isinstance(op, ends)), None)
    if isinstance(last, ops.Map):
        raise TypeError(f"output {name!r}: {last!r:.60} takes no sparse rows: put leat.ops.Densify() before it")
    if last is not None:
        return {name: out}
    if taken:
        raise ValueError(f"an output cannot be called '{name}.columns': it has the columns of sparse rows")
    columns = [op for op in listed if not isinstance(op, (ops.NormalizeTotal, ops.Log1p))]  # which keep them
    return {
        name: replace(out, chain=[*listed, ops.SparsePart("values")]),
        f"{name}.columns": replace(out, chain=[*columns, ops.SparsePart("columns")]),
    }


def sparse_outputs(entries: Iterable[Entry] | None, schema: Mapping[str, Field]) -> dict[str, int]:
    """The outputs of sparse rows, which have their columns beside them, and how many columns each has."""
    parts = {
        entry.names[0]: (entry.chain[-1]._values["which"], entry.fields[0], _selected(entry.chain))
        for entry in entries or ()
        if entry.chain and isinstance(entry.chain[-1], ops.SparsePart)
    }
    return {
        name: selected or schema[field].shape[0] or 0
        for name, (which, field, selected) in parts.items()
        if which == "values" and parts.get(f"{name}.columns") == ("columns", field, selected)
    }


def _selected(chain: list[ops.Operator]) -> int | None:
    """How many columns operators have left of all."""
    return next((len(op._values["names"]) for op in reversed(chain) if isinstance(op, ops.SelectGenes)), None)


def _with_others(entry: Entry, outputs: Outputs, parts: Parts) -> list[Entry]:
    """An entry, and those of the labels of its tokens and of the mask of their loss."""
    return [*_with_labels(entry, outputs, parts), *_loss_masks(entry, outputs)]


def _padded_with(fill: float, chain: list[ops.Operator]) -> list[ops.Operator]:
    """A chain whose PadTo fills in another value."""
    return [
        ops.PadTo(op._values["n"], fill, cut=op._values["cut"], name=op.name) if isinstance(op, ops.PadTo) else op
        for op in chain
    ]


def _with_labels(entry: Entry, outputs: Outputs, parts: Parts) -> list[Entry]:
    """An entry, and that of the labels of its tokens. Both operators have one name, so that they draw the same, and an
    operator in several entries has the same two in each."""
    chain, name = entry.chain, f"{entry.names[0]}.labels"
    makers = [i for i, op in enumerate(chain) if has_labels(op)]
    if len(makers) > 1:
        raise ValueError(f"output {entry.names[0]!r} has {len(makers)} operators that make labels: one is possible")
    if not makers or name in outputs:
        return [entry]
    i, op = makers[0], chain[makers[0]]
    lacks = isinstance(op, ops.MaskTokens) or op._values.get("fill") is not None  # labels have -100 somewhere
    for other in chain[i + 1 :]:
        if isinstance(other, ops.Map):
            raise ValueError(
                f"{other!r:.60} follows {type(op).__name__} in output {entry.names[0]!r}, and would be called for its "
                "labels, too: put it before"
            )
        if lacks and isinstance(other, ops.ToDtype) and str(other._values["dtype"]).startswith("u"):
            raise ValueError(
                f"{other!r:.60} follows {type(op).__name__} in output {entry.names[0]!r}, whose labels have -100, "
                "which an unsigned type cannot hold: choose a signed one"
            )
    if id(op) not in parts:
        drawn = op.name or f"{entry.names[0]}/{type(op).__name__}/0"
        parts[id(op)] = named(op, drawn), part_of(op, "labels", drawn)
    labels = [*chain[:i], parts[id(op)][1], *_padded_with(-100, chain[i + 1 :])]
    tokens = [*chain[:i], parts[id(op)][0], *chain[i + 1 :]]
    return [replace(entry, chain=tokens), replace(entry, names=(name,), chain=labels)]


def _loss_masks(entry: Entry, outputs: Outputs) -> list[Entry]:
    """The entry of the mask of the loss, if a Lookup gives one."""
    chain, name = entry.chain, f"{entry.names[0]}.loss_mask"
    for i, op in enumerate(chain):
        if not (isinstance(op, ops.Lookup) and op._values["loss_mask"]) or "part" in op._values or name in outputs:
            continue
        behind = [op for op in chain[i + 1 :] if not isinstance(op, (ops.MaskTokens, ops.ToDtype))]
        for other in behind:
            if not isinstance(other, (ops.PadTo, ops.RandomSlice)):
                raise ValueError(f"the loss_mask of output {entry.names[0]!r} cannot follow {other!r:.60}")
        mask = [*chain[:i], part_of(op, "loss_mask", None), *_padded_with(0, behind)]
        return [replace(entry, names=(name,), chain=mask)]
    return []


def _chain(output: str, chain: Any) -> list[ops.Operator]:
    found = (
        [chain]
        if isinstance(chain, ops.Operator)
        else list(chain)
        if isinstance(chain, Sequence) and not isinstance(chain, str)
        else None
    )
    if found is None or not all(isinstance(op, ops.Operator) for op in found):
        wrong = chain if found is None else next(op for op in found if not isinstance(op, ops.Operator))
        hint = (
            "" if not callable(wrong) else f": leat.ops.Map({getattr(wrong, '__name__', 'function')}) runs a function"
        )
        if isinstance(wrong, type) and issubclass(wrong, ops.Operator):
            hint = f": write {wrong.__name__}(...)"
        raise TypeError(f"the chain of output {output!r} is a list of leat.ops operators; {wrong!r} is none{hint}")
    return found


def _listed(outputs: Outputs) -> tuple[dict[str, ops.Operator], dict[str, dict[str, Any]]]:
    """The operators, each once under a key, and the outputs, which refer to these keys."""
    operators: dict[str, ops.Operator] = {}
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
        stack = {"stack": entry.stack} if entry.stack else {}
        found[entry.names[0]] = {**fields, "chain": keys, **({"geometry": True} if entry.geometry else {}), **stack}
    return operators, found


def _text(listed: dict[str, dict[str, Any]], operators: Mapping[str, ops.Operator], found: Mapping[str, Any]) -> str:
    """A program as text. Sizes per batch are numbered, one number for each object."""
    numbers: dict[int, int] = {}

    def number(op: ops.Operator, form: dict[str, Any]) -> None:
        size = op._values.get("size")
        if isinstance(size, ops.PerBatch):
            form["size"] = size.to_json(numbers.setdefault(id(size), len(numbers)))

    for key, op in operators.items():
        visit(op, listed[key], number)
    return json.dumps({"operators": listed, "outputs": found})


#: The program of a process that needs the ids of batches, and no data.
NO_OUTPUTS = json.dumps({"operators": {}, "outputs": {}})


def per_batch(op: ops.Operator) -> bool:
    """Whether the size of an operator, or of one in its branches, is drawn per batch."""
    return isinstance(op._values.get("size"), ops.PerBatch) or (
        isinstance(op, Branch) and any(per_batch(child) for child in op.operators())
    )


def has_functions(outputs: Outputs) -> bool:
    """Whether a program has functions in Python."""
    return any(isinstance(op, ops.Map) for entry in entries(outputs) for op in entry.chain)


def described_program(outputs: Outputs) -> str:
    """A program as text for ranks to compare. Python functions appear by their name."""
    operators, found = _listed(outputs)
    listed: dict[str, Any] = {}
    for key, op in operators.items():
        if isinstance(op, ops.Native):
            listed[key] = op._compiled(0, native.find(op.function, op.call))
        else:
            listed[key] = op.described() if isinstance(op, ops.Map) else op.to_json()
    return _text(listed, operators, found)


def instance_names(found: Iterable[Entry]) -> dict[int, str]:
    """The instance of each operator, by its id(): `name`, or else output, type, and ordinal of the type in that chain.
    For an operator in several chains these are from the alphabetically first output. A tuple counts by its first
    output.
    """
    best: dict[int, tuple[bytes, str]] = {}
    operators: dict[int, ops.Operator] = {}
    for entry in found:
        output = entry.names[0]
        seen: dict[type[ops.Operator], int] = {}
        for op in entry.chain:
            ordinal = seen.get(type(op), 0)
            seen[type(op)] = ordinal + 1
            operators[id(op)] = op
            if id(op) not in best or output.encode() < best[id(op)][0]:
                best[id(op)] = (output.encode(), op.name or f"{output}/{type(op).__name__}/{ordinal}")
    named: dict[str, ops.Operator] = {}
    for key, (_, name) in best.items():
        other, op = named.setdefault(name, operators[key]), operators[key]
        # two of one type share their draw; the library says so if they do not draw the same
        if other is not op and (type(other) is not type(op) or isinstance(op, ops.Map) or not op.name):
            raise ValueError(f"two operators of the program are both named {name!r}; they would draw the same")
    return {key: name for key, (_, name) in best.items()}


def _ties(chain: list[ops.Operator]) -> list[object]:
    """The operators of a chain that move pixels, in a form that is equal for chains that move them alike."""
    return [(type(op), op.name or id(op)) if "Random" in type(op).__name__ else op for op in chain if op._moves]


#: fields that hold one value per box, beside those named after classes
_OF_BOXES = OF_A_BOX | {"areas", "score", "scores"}
_CHANGE_BOXES = (ops.SanitizeBoundingBoxes, ops.RandomIoUCrop, ops.Mosaic, ops.CopyPaste, ops.DetectionMixUp)
#: operators that a geometry cannot express, and that no field of a sample can follow
_TURN = (ops.RandomRotation, ops.RandomAffine, ops.RandomPerspective, ops.ElasticTransform, ops.RandomRotate90)
_BEYOND_GEOMETRY = (*_TURN, ops.Mosaic, ops.CopyPaste, ops.DetectionMixUp)
_IMAGES_ALONE = (ops.AugMix, ops.AutoAugment, ops.FiveCrop, ops.RandAugment, ops.TenCrop, ops.TrivialAugmentWide)


def _first(chain: Iterable[ops.Operator], classes: tuple[type[ops.Operator], ...]) -> ops.Operator | None:
    """The first operator of these classes, in branches too."""
    for op in chain:
        found = op if isinstance(op, classes) else _first(op.operators(), classes) if isinstance(op, Branch) else None
        if found:
            return found
    return None


def _is_of_boxes(name: str, field: Field) -> bool:
    """Whether a field is one value per box by its name: for classes as `leat stats` finds them, or by other readers."""
    named = name in _OF_BOXES or any(word in name for word in ("label", "class", "category"))
    return named and field.shape[:1] == (None,)


def _warn_of_rows_apart(found: list[Entry], schema: Mapping[str, Field], stacklevel: int) -> None:
    """Warns of labels that stay as they are while boxes of their sample are taken out or added."""
    for entry in found:
        boxes = next(
            (f for f in entry.fields if (getattr(schema.get(f), "role", None) or "").startswith("boxes")), None
        )
        op = _first(entry.chain, _CHANGE_BOXES)
        if boxes is None or op is None or not entry.joint:
            continue
        for other in found:
            for name in () if other is entry else other.fields:
                if name not in entry.fields and name in schema and _is_of_boxes(name, schema[name]):
                    warnings.warn(
                        f"{type(op).__name__} takes boxes out of {boxes!r} or adds some, while {name!r} stays as "
                        f"stored: name it in the tuple of {boxes!r}, so that each box keeps its own",
                        stacklevel=stacklevel,
                    )
                    return


def _spoils_ids(op: ops.Operator) -> bool:
    """Whether an operator on images makes others of class ids: colors, or numbers between them."""
    if isinstance(op, Branch):
        return any(map(_spoils_ids, op.operators()))
    colors = isinstance(op, ops.Decode) and op._values["mode"] != "GRAY"
    return colors or not str(op._values.get("interpolation", "nearest")).startswith("nearest")


def _warn_of_masks_as_photos(found: list[Entry], schema: Mapping[str, Field], stacklevel: int) -> None:
    """Warns of masks whose class ids are decoded, or resized, as the colors of a photo."""
    for entry in found:
        name = entry.fields[0]
        if not entry.joint and getattr(schema.get(name), "role", None) == "mask" and any(map(_spoils_ids, entry.chain)):
            warnings.warn(
                f"mask {name!r} goes through a chain for photos, which makes colors of its class ids, or blends them: "
                f"give it the chain of a tuple, {{({name!r},): [...]}}, or that of its image",
                stacklevel=stacklevel,
            )
            return


def warn_of_loose_targets(outputs: Outputs, schema: Mapping[str, Field], stacklevel: int) -> None:
    """Warns of boxes, masks and keypoints that stay in place while the image of their sample is moved."""
    found = entries(outputs)
    _warn_of_rows_apart(found, schema, stacklevel + 1)
    _warn_of_masks_as_photos(found, schema, stacklevel + 1)
    moved = [
        e
        for e in found
        if any(op._moves for op in e.chain) and not e.geometry and any(is_image(schema.get(f)) for f in e.fields)
    ]
    for entry in found:
        for name in () if entry.joint else entry.fields:
            role = schema[name].role if name in schema else None
            if role is None:
                continue
            for other in moved:
                if role == "mask" and _ties(entry.chain) == _ties(other.chain):
                    continue
                image = next(f for f in other.fields if is_image(schema.get(f)))
                blind = _first(other.chain, _IMAGES_ALONE)
                op = blind or next(op for op in other.chain if op._moves)
                remedy = f"give both one chain, {{({image!r}, {name!r}): [...]}}"
                if blind:
                    remedy = f"nothing of the sample can follow it, so leave it out of the chain, or {name!r} unread"
                elif not _first(other.chain, _BEYOND_GEOMETRY):
                    remedy += f", or ask for the geometry of each row with leat.Out({image!r}, [...], geometry=True)"
                warnings.warn(
                    f"{role.partition(':')[0]} {name!r} {'stays' if role == 'mask' else 'stay'} as stored, while "
                    f"{type(op).__name__} moves {image!r} of the same sample: {remedy}",
                    stacklevel=stacklevel,
                )
                return


def stacked(outputs: Outputs, schema: Mapping[str, Field]) -> dict[str, Stack]:
    """The outputs of images and masks that say how they are stacked, and of masks of instances all."""
    found = {}
    for entry in entries(outputs):
        last = any(isinstance(op, ops.ToLayout) and op._values["layout"] == "NHWC" for op in entry.chain)
        padded = next((int(op._values["n"]) for op in entry.chain if isinstance(op, ops.PadTo)), 0)
        for name, field in zip(entry.names, entry.fields, strict=True):
            role = getattr(schema.get(field), "role", None)
            mark = f"{entry.names[0]}.mask"
            if role == "masks":
                found[name] = Stack(entry.stack or "row", mark, None, padded)
            elif entry.stack and (role == "mask" or is_image(schema.get(field))):
                found[name] = Stack(entry.stack, mark, None if role == "mask" else 2 if last else 0)
    return found


def is_image(field: Field | None) -> bool:
    return field is not None and field.role is None and (field.kind in ENCODED or field.layout is not None)


def compiled_program(outputs: Outputs) -> tuple[str, list[tuple[int, bool, object]]]:
    """A program as the library takes it, and its table of functions: address, whether it is of the flat form, owner."""
    operators, found = _listed(outputs)
    functions: list[tuple[int, bool, object]] = []
    listed: dict[str, dict[str, Any]] = {}
    for key, op in operators.items():
        if isinstance(op, ops.Native):
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


def _with_sizes(value: Any, shared: dict[str, Any]) -> Any:
    """The JSON form of an operator, with one object for sizes per batch of one number."""
    if isinstance(value, list):
        return [_with_sizes(v, shared) for v in value]
    found = dict(value)
    if isinstance(found.get("size"), dict):
        size = found["size"]
        found["size"] = shared.setdefault(json.dumps(size.get("per_batch")), one_or_drawn("size", size))
    if "transforms" in found:
        found["transforms"] = _with_sizes(found["transforms"], shared)
    return found


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
            operators[key] = ops.from_json(_with_sizes(value, sizes))
        for op in operators.values():
            if isinstance(op, ops.Native) and not allow_native:
                raise ValueError(
                    f"the program runs code of a library, {op.function!r}: if you trust it as you would code, say "
                    "allow_native=True"
                )
        found: dict[str | tuple[str, ...], Out] = {}
        for name, o in program["outputs"].items():
            chain, geometry = [operators[key] for key in o["chain"]], bool(o.get("geometry", False))
            stack = o.get("stack")
            if "fields" in o:
                fields = tuple(str(f) for f in o["fields"])
                found[tuple(str(n) for n in o.get("outputs", fields))] = Out(fields, chain, geometry, stack)
            else:
                found[name] = Out(str(o["field"]), chain, geometry, stack)
        return found
    except (KeyError, TypeError, AttributeError) as e:
        raise ValueError(f"not a program of leat: {type(e).__name__}: {e}") from None
