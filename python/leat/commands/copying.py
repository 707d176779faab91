"""The part in Python of the commands that look at tables and files of cells: a file of leat of what they want."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from ..data.arrow import Chunks
from ..data.dataset import Dataset, _cells, _files, _of_hugging_face, _of_libraries, _tables
from ..data.dataset import open as _open
from ..data.schema import of_copy
from ..data.writer import Writer
from ..errors import FileError
from .cells import copied
from .main import DONE, _say, command, paths_of, several
from .packing import fields_of, fills_of, refuse_opening


def main(options: Mapping[str, str]) -> int:
    src = paths_of(options, "src")
    make, made = next((f, options[w]) for w, f in (("copy", _all), ("part", _part), ("about", _about)) if w in options)
    try:
        make(src, options)
    except FileError as e:
        if e.errno and str(e.filename).startswith(made):  # as cli_temporary_failed
            e.args = (f"writing a temporary file failed: {os.strerror(e.errno)}: TMPDIR names another place",)
        raise
    return DONE


def opened(src: Any, options: Mapping[str, str]) -> Dataset:
    refuse_opening(options, src)
    fill = fills_of(options)
    more: dict[str, Any] = {"genes": "outer"} if _cells(_files(src), "auto")[1] else {}
    return _open(src, fields=fields_of(options), fill=fill, split=options.get("split"), **more)


def _all(src: Any, options: Mapping[str, str]) -> None:
    """All samples, but those with missing values."""
    if _cells(_files(src), "auto")[1]:
        copied(src, options["copy"])
        return
    dataset = opened(src, options)
    parts = [part._recipe[1] for part in dataset._recipe[1]] if dataset._recipe[0] == "concat" else [dataset._recipe[1]]
    if not all(isinstance(part, Chunks) for part in parts):
        with Writer(options["copy"], of_copy(dataset.schema), classes=dataset.classes or None, check=False) as writer:
            writer.write_dataset(dataset)
        return
    fields, lacking, left_out = parts[0].fields, "", 0
    with Writer(options["copy"], fields, classes=dataset.classes or None, check=False) as writer:
        for found in (found for source in parts for found in source.slices(list(fields), 4096)):
            for values in zip(*(found[name] for name in fields), strict=True):
                none = [n for n, v in zip(fields, values, strict=True) if v is None and fields[n].kind != "json"]
                if none:
                    left_out, lacking = left_out + 1, lacking or none[0]
                else:
                    writer.add(**dict(zip(fields, values, strict=True)))
    if left_out:
        told = f"{left_out:,} of {len(dataset):,} samples are left out: they lack values, such as of {lacking!r}"
        _say(command(), told)


def _part(src: Any, options: Mapping[str, str]) -> None:
    """The samples that --id or --where asks for."""
    where, named = options.get("where"), several(options, "field")
    dataset = opened(src, options if where is None else {k: v for k, v in options.items() if k != "field"})
    if where is not None:  # it may be about other fields than those that are wanted
        part = dataset.where(where)
    else:
        at = int(options["id"])
        if at >= len(dataset):
            raise ValueError(f"{src} has no sample {at}; it has {len(dataset)}, numbered from 0.")
        part = dataset[at : at + 1]
    schema = of_copy({name: dataset._find(name)[1] for name in named} if named else dataset.schema)
    with Writer(options["part"], schema, classes=dataset.classes or None, check=False) as writer:
        writer.write_dataset(part)


def _about(src: Any, options: Mapping[str, str]) -> None:
    """No samples: the fields, and what is known of the files among the metadata."""
    dataset = opened(src, options)
    known, format = _of_hugging_face(src, "auto", options.get("split"))  # noqa: A001
    files = _files(known)
    kind = next((k for k, paths in (f(files, format) for f in (_cells, _tables, _of_libraries)) if paths), "")
    part = dataset.where(options["where"]) if "where" in options else dataset
    told = {
        "format": kind or dataset.about["format"],
        "count": len(part),
        "of": len(dataset),
        "bytes": sum(map(_size, files)),
        "fingerprint": part.fingerprint,
        "metadata": dataset.metadata,
        "shards": [],
        "derived": [name for name, field in dataset.schema.items() if field.derived],
    }
    if part is dataset:
        del told["of"]
    schema, classes = of_copy(dataset.schema), dataset.classes or None
    Writer(options["about"], schema, classes=classes, metadata={"about": told}, check=False).close()


def _size(path: str) -> int:
    if not os.path.isdir(path):
        return os.path.getsize(path)
    return sum(os.path.getsize(os.path.join(at, name)) for at, _, names in os.walk(path) for name in names)
