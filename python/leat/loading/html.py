"""The faces of batches and loaders in a notebook."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ..data import html as drawing
from ..data.dataset import Dataset
from ..data.ragged import Ragged
from ..data.schema import Field
from ..data.sparse import Sparse
from ..ops.base import Operator
from ..ops.branches import Branch

if TYPE_CHECKING:
    from ..mixtures.mixing import Mix
    from ..mixtures.schedule import Schedule
    from ..program import Entry
    from .batch import Batch
    from .loader import Loader

ROWS, TOKENS = 4, 256  #: rows of packed documents that are shown, and the tokens of each


@dataclass
class Meaning:
    """The kinds of a loader's outputs: tensors do not say them."""

    names: Sequence[str] = ()  #: of classes
    fields: dict[str, Field] = field(default_factory=dict)  #: of outputs: the field, in its present format
    groups: dict[str, int] = field(default_factory=dict)  #: outputs that one chain moves have one number
    normalized: dict[str, tuple[Sequence[float], Sequence[float]]] = field(default_factory=dict)  #: mean, deviation


def meaning(schema: Mapping[str, Field], names: Sequence[str], program: Sequence[Entry] | None) -> Meaning:
    """`program`: the entries of a loader's outputs; None: each field as stored."""
    if program is None:
        return Meaning(names, dict(schema), dict.fromkeys(schema, 0))
    found = Meaning(names)
    for number, entry in enumerate(program):
        for output, source in zip(entry.names, entry.fields):
            if source not in schema:
                continue
            kind = schema[source]
            for op in entry.chain:
                if type(op).__name__ == "ConvertBoundingBoxFormat" and (kind.role or "").startswith("boxes"):
                    kind = replace(kind, role=f"boxes:{op._values['format']}")
                    if op._values["normalized"] is not None:
                        kind = replace(kind, normalized=op._values["normalized"])
                if type(op).__name__ == "Normalize":
                    found.normalized[output] = (_list(op._values["mean"]), _list(op._values["std"]))
            found.fields[output], found.groups[output] = kind, number
    return found


def _list(value: Any) -> Sequence[float]:
    return [value] if isinstance(value, (int, float)) else list(value)


def _array(value: Any) -> np.ndarray[Any, Any]:
    if hasattr(value, "detach"):
        value = value.detach().cpu()
        value = value.float() if str(value.dtype) == "torch.bfloat16" else value
        return np.asarray(value.numpy())
    return np.asarray(value)


def _row(value: Any, row: int) -> Any:
    if isinstance(value, Ragged):
        offsets = _array(value.offsets)
        return _array(value.values)[int(offsets[row]) : int(offsets[row + 1])]
    return _array(value[row]) if not isinstance(value[row], (str, bytes)) else value[row]


def _described(value: Any) -> tuple[str, str]:
    if isinstance(value, Sparse):
        return str(_array(value.values).dtype), f"sparse: {value.shape}, {len(_array(value.values))} values"
    if isinstance(value, Ragged):
        return str(_array(value.values).dtype), f"ragged: {len(value)} rows, {len(_array(value.values))} in all"
    if hasattr(value, "shape"):
        return str(value.dtype).removeprefix("torch."), str(tuple(value.shape))
    first: Any = value[0] if len(value) else None
    if hasattr(first, "shape"):
        return str(first.dtype).removeprefix("torch."), f"list of {len(value)}, the first {tuple(first.shape)}"
    return type(first).__name__ if len(value) else "", f"list of {len(value)}"


def _is_picture(name: str, value: Any, known: Meaning) -> bool:
    kind = known.fields.get(name)
    if (kind is not None and kind.role is not None) or not len(value) or isinstance(value, Sparse):
        return False
    if kind is not None and kind.kind == "image" and isinstance(value, Ragged):
        return True  # as stored
    shape: tuple[int, ...] = getattr(value[0], "shape", ()) if not isinstance(value, Ragged) else ()
    if len(shape) == 4:  # several images of one, as FiveCrop makes them
        return shape[0] <= 16 and drawing.looks_like_image(shape[1:])
    return len(shape) == 3 and drawing.looks_like_image(shape)


def _label(batch: Batch, known: Meaning, group: int | None, listed: bool) -> str | None:
    """The output with classes: for the boxes of a group, or for a row."""
    for name in batch:
        value = batch[name]
        fits = isinstance(value, Ragged) if listed else getattr(value, "ndim", 0) == 1
        named = any(word in name for word in ("label", "class", "category"))
        if fits and named and (not listed or known.groups.get(name) == group):
            return name
    return None


def _without_padding(
    batch: Batch, known: Meaning, group: int | None, row: int, shape: Sequence[int]
) -> tuple[int, int]:
    """Height and width of an image, which may lie in the corner of a larger one: boxes are shares of them."""
    for output, number in known.groups.items():
        if number == group and f"{output}.mask" in batch:
            padding = _array(batch[f"{output}.mask"])
            if padding.ndim == 3 and padding.shape[1:] == tuple(shape):
                return int((~padding[row, :, 0]).sum()), int((~padding[row, 0]).sum())
    return shape[0], shape[1]


def _picture(batch: Batch, known: Meaning, name: str, row: int, caption: str) -> str:
    normalized = known.normalized.get(name)
    try:
        value = _row(batch[name], row)
        if isinstance(batch[name], Ragged):
            pixels = drawing.decoded(value.tobytes())
        elif value.ndim == 4:
            return drawing.picture(
                drawing.Targets(np.concatenate([drawing.pixels_of(v, normalized) for v in value], 1)), caption
            )
        else:
            pixels = drawing.pixels_of(value, normalized)
    except Exception as e:
        return drawing.missing(caption, e)
    classes: Any = ()
    group = known.groups.get(name)
    height, width = _without_padding(batch, known, group, row, pixels.shape[:2])
    seen = drawing.Targets(pixels[:height, :width])
    for output, kind in known.fields.items():
        if output not in batch or known.groups[output] != group or kind.role is None:
            continue
        try:
            target = _row(batch[output], row)
            stored = kind.role in ("mask", "masks") and isinstance(batch[output], Ragged) and target.ndim == 1
            if kind.role in ("mask", "masks") and not stored:
                target = target[..., :height, :width]
            seen.add(kind, target.tobytes() if stored else target)
        except Exception as e:
            caption += f"<br>{drawing.text(output, 40)}: {drawing.text(e)}"
    if seen.boxes is not None:
        labels = _label(batch, known, group, True)
        found = _row(batch[labels], row) if labels else ()
        classes = found if len(found) == len(seen.boxes) else ()
    return drawing.picture(seen, caption, classes, known.names)


def batch(b: Batch, known: Meaning) -> str:
    title = f"epoch {b.epoch}, step {b.step}: {b.size} rows" if b._core is not None else "a copy"
    parts = [f"<div><b>leat.Batch</b>, {title}</div>"]
    parts.append(drawing.table(("output", "dtype", "shape"), ((name, *_described(b[name])) for name in b)))
    pictures = [name for name in b if _is_picture(name, b[name], known)]
    rows = len(b[pictures[0]]) if pictures else 0
    single = _label(b, known, None, False)
    for row in range(min(rows, drawing.PICTURES)):
        caption = f"row {row}" + (f", #{int(b.ids[row])}" if b._core is not None else "")
        if single is not None and np.issubdtype(_array(b[single]).dtype, np.integer):
            number = int(b[single][row])
            caption += " " + drawing.text(known.names[number] if 0 <= number < len(known.names) else number, 40)
        parts += [_picture(b, known, name, row, f"{caption}<br>{drawing.text(name, 40)}") for name in pictures]
    parts += _token_rows(b)
    return "<div>" + "".join(parts) + "</div>"


def _token_rows(b: Batch) -> list[str]:
    """The first rows of packed documents, if the batch says which document each token is of."""
    from ..text import rows

    if "doc_ids" not in b or len(getattr(b["doc_ids"], "shape", ())) != 2:
        return []
    shape = tuple(b["doc_ids"].shape)
    extra = [name for name in ("doc_ids", "positions", "loss_mask") if name in b and _shape(b[name]) == shape]
    tokens = [name for name in b if name not in extra and _shape(b[name]) == shape and "int" in _described(b[name])[0]]
    if not tokens:
        return []
    name = "tokens" if "tokens" in tokens else tokens[0]
    found = []
    for row in range(min(shape[0], ROWS)):
        values = {part: _array(b[part][row])[:TOKENS] for part in (name, *extra)}
        found.append(f"<div>row {row}, {drawing.text(name, 40)}</div>{rows.as_html(values, name)}")
    return found


def _shape(value: Any) -> tuple[int, ...]:
    return tuple(getattr(value, "shape", ())) if not isinstance(value, Ragged) else ()


def _brief(value: Any) -> str:
    """An operator with the arguments that are not their defaults."""
    if isinstance(value, (list, tuple)) and any(isinstance(v, (Operator, list, tuple)) for v in value):
        return f"[{', '.join(map(_brief, value))}]"
    if not isinstance(value, Operator) or not isinstance(value, Branch) and type(value).__repr__ != Operator.__repr__:
        return repr(value)
    needed = {name for name, p in inspect.signature(type(value)).parameters.items() if p.default is p.empty}
    try:
        usual = type(value)(**{name: value._values[name] for name in needed})._values
    except Exception:  # its arguments have other names inside
        usual = {}
    given = [
        f"{name}={_brief(v)}"
        for name, v in value._values.items()
        if name in needed or name not in usual or v != usual[name]
    ]
    return f"{type(value).__name__}({', '.join(given)})"


def _data(dataset: Dataset | Mix | Schedule) -> tuple[str, object]:
    if isinstance(dataset, Dataset):
        return "data set", drawing.counted(len(dataset), "sample")
    shares = [f"{name} {weight:.3g}" for name, weight in dataset.weights.items()]
    return "mixture", ", ".join(shares[:12]) + (f", ... ({len(shares)} sources)" if len(shares) > 12 else "")


def loader(of: Loader, program: Sequence[Entry] | None) -> str:
    stats = of.stats()
    rows: list[tuple[str, object]] = [
        _data(of.dataset),
        ("batches", f"{len(of):,} an epoch, {of._global} rows each, rank {of.rank} of {of.world_size}"),
        ("position", f"epoch {stats['epoch']}, step {stats['step']}"),
        ("handed out", ", ".join(drawing.counted(stats[f"{w}{e}"], w) for w, e in (("batch", "es"), ("sample", "s")))),
        ("speed", f"{stats['recent_samples_per_s']:,.0f} samples/s of late"),
        ("waited", f"{stats['consumer_wait_s']:.2f} s of {stats['open_s']:.2f} s"),
        ("window", f"{stats['window']['ready']} batches ready, {stats['window']['depth']} in flight"),
        ("threads", stats["threads"]),
        ("memory", f"{stats['memory']['in_use_bytes'] / 1e6:.1f} of {stats['memory']['budget_bytes'] / 1e6:.1f} MB"),
    ]
    broken = stats["broken"]
    if any(broken.values()):
        rows.append(("broken", ", ".join(f"{n} {word}" for word, n in broken.items())))
    parts = ["<div><b>leat.Loader</b></div>", drawing.table(("", ""), rows)]
    if program is not None:
        chains = ((", ".join(e.names), ", ".join(e.fields), " \u2192 ".join(map(_brief, e.chain))) for e in program)
        parts.append(drawing.table(("output", "of", "operators"), chains, 2000))
    return "<div>" + "".join(parts) + "</div>"
