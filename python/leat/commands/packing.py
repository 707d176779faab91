"""The parts of `leat pack` and `leat convert` in Python: files that only the package reads, and Python data sets."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from ..data.dataset import Dataset
from ..data.dataset import open as _open
from ..data.schema import field
from ..packs.pack import pack
from .cells import written
from .main import DONE, interrupted, json_option, several
from .spec import named

#: options as those of the Writer, and how they are read
WRITING: dict[str, tuple[str, Callable[[str], Any]]] = {
    "overwrite": ("overwrite", bool),
    "resume": ("resume", bool),
    "shard_bytes": ("shard_bytes", int),
    "num_threads": ("num_threads", int),
    "no_check": ("check", lambda _: False),
    "lenient": ("lenient", bool),
    "photos": ("photos", str),
    "max_side": ("max_side", int),
    "quality": ("quality", int),
}


def read_here(src: Any, dst: str, metadata: dict[str, Any] | None, options: Mapping[str, str], converting: bool) -> int:
    """Files that only the package reads."""
    _refuse(options, f"such files as {src}", "where", "on_error", "src", "fill", "split")
    dataset = _open(src, fields=fields_of(options), fill=fills_of(options), split=options.get("split"))
    if "where" in options:
        dataset = dataset.where(options["where"])
    more = {**_writing(options), "on_bad": options.get("on_error", "mark"), "source_id": dataset.fingerprint}
    try:
        whole = converting and "where" not in options  # as cli/pack.c
        broken = written(dataset, dst, "quiet" not in options, metadata, convert=whole, **more)
    except KeyboardInterrupt:
        return interrupted(options)
    if "quiet" not in options:
        made = _open(dst)
        print(f"{dst}: {len(made):,} samples")
        if broken:
            told = "left out" if more["on_bad"] == "skip" else "marked"
            print(f"{broken:,} broken photos: {told}. All of them: {dst}.bad.jsonl")
        if converting:
            name = src if isinstance(src, str) else " ".join(src)
            _compare(made, dataset, f"{name} with these fields" if "field" in options else name)
    return DONE


def _compare(made: Dataset, dataset: Dataset, src: str) -> None:
    """As cli/pack.c."""
    if made.fingerprint == dataset.fingerprint:
        print(f"  fingerprint {made.fingerprint}, that of {src}: states of runs over it fit")
    else:
        print(f"  fingerprint {made.fingerprint}; {src} has {dataset.fingerprint}: states of runs over it do not fit")


def packed(options: Mapping[str, str]) -> int:
    """A Python data set."""
    _refuse(options, "Python data sets", "dataset", "workers", "on_error")
    spec, dst = options["dataset"], options["dst"]
    workers: Any = options.get("workers", "auto")
    on_error: Any = options.get("on_error", "mark")
    try:
        made = pack(
            named(spec),
            dst,
            fields=fields_of(options),
            workers=workers if workers == "auto" else int(workers),
            on_error=on_error,
            metadata=json_option(options, "metadata", '{"licence": "CC0"}'),
            progress="quiet" not in options,
            **_writing(options),
        )
    except KeyboardInterrupt:
        return interrupted(options)
    if "quiet" not in options:
        left_out = f", {made.skipped:,} left out" if made.skipped else ""
        print(f"{dst}: {made.samples:,} samples{left_out}" + (f", {made.broken:,} broken" if made.broken else ""))
        if made.skipped or made.broken:
            print(f"All of them: {dst}.bad.jsonl")
    return DONE


#: options that say how files of other formats are opened
_OPENING = ("labels", "coco", "yolo", "voc", "masks", "classes", "events", "sort", "features", "block", "on_bad")


def refuse_opening(options: Mapping[str, str], src: Any) -> None:
    for name in filter(options.__contains__, _OPENING):
        raise ValueError(f"--{name.replace('_', '-')} is not about such files as {src}")


def _refuse(options: Mapping[str, str], what: str, *more: str) -> None:
    taken = {"metadata", "quiet", "field", "dst", *WRITING, *more}
    if other := sorted(o for o in options if o.partition(" ")[0] not in taken):
        raise ValueError(f"--{other[0].replace('_', '-')} is not about {what}")


def _writing(options: Mapping[str, str]) -> dict[str, Any]:
    """The options of the Writer."""
    return {name: read(options[o]) for o, (name, read) in WRITING.items() if o in options}


def fields_of(options: Mapping[str, str]) -> Any:
    """--field NAME or NAME=KIND, as `fields` of leat.open: cli/fields.c."""
    given = several(options, "field")
    fields: dict[str, Any] = {}
    for name, equals, kind in (one.partition("=") for one in given):
        if not name or (equals and not kind):
            raise ValueError(
                "--field takes a name, or a name and what it is, such as photo=image, x=float64, vec=float32:3 or "
                f"boxes=float32:*,4, not {name + equals!r}"
            )
        if name in fields:
            raise ValueError(f"--field names {name!r} twice")
        dtype, _, dims = kind.partition(":")
        try:
            shape = [None if n == "*" else int(n) for n in dims.split(",")] if dims else []
            fields[name] = field(dtype, shape) if kind else None
        except ValueError as e:
            raise ValueError(f"--field {name}={kind}: {e}") from None
    return fields if any(fields.values()) else list(fields) or None


def fills_of(options: Mapping[str, str]) -> dict[str, Any] | None:
    """--fill NAME=VALUE, as `fill` of leat.open: VALUE as JSON if it is, else a text."""
    fill: dict[str, Any] = {}
    for name, equals, value in (one.partition("=") for one in several(options, "fill")):
        if not equals or not name:
            raise ValueError(f"--fill takes a name and a value, such as year=-1, not {name + equals + value!r}")
        try:
            fill[name] = json.loads(value)
        except ValueError:
            fill[name] = value
    return fill or None
