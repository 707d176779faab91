"""Files that the Python package reads, such as of cells, as a file of leat: the commands pack and stats."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..data.dataset import Dataset
from ..data.schema import of_copy
from ..data.writer import Writer


def copied(src: str | list[str], path: str) -> None:
    """Writes all samples, with the genes of all files, and how many of these the files share."""
    import leat

    ds = leat.open(src, genes="outer")
    cells = ds._known_cells()
    told: dict[str, Any] = {}
    if cells is not None and cells.genes is not None:
        genes = ds.genes
        told = {"files": cells.files, "genes": len(genes), "in_all": cells.in_all, "first": genes[:5]}
    written(ds, path, False, {"cells": told} if told else None, check=False)


def written(
    ds: Dataset,
    path: str,
    progress: bool,
    metadata: Mapping[str, Any] | None = None,
    *,
    convert: bool = False,
    **options: Any,
) -> int:
    """Writes all samples, and what is known of genes and categories among the metadata. Returns how many photos are
    broken.

    Args:
        progress: draw a line on standard error.
        convert: as of :meth:`Writer.write_dataset`.
        options: of the Writer.
    """
    from ..text.notes import bad_lines, list_bad
    from ..text.progress import Line
    from .main import no_more_interrupts

    told = dict(metadata or {})
    cells = ds._known_cells()
    if cells is not None and cells.genes is not None:
        told["genes"] = ds.genes
        told["var"] = {name: values.tolist() for name, values in ds.var.items()}
    if ds.categories:
        told["categories"] = ds.categories
    with Writer(path, of_copy(ds.schema), metadata=told or None, classes=ds.classes or None, **options) as writer:
        line = Line("packing", len(ds), len(writer)) if progress else None
        try:
            writer.write_dataset(ds, None if line is None else lambda done: line.say(done, 0, 0), convert=convert)
        finally:
            if line is not None:
                line.close()
        no_more_interrupts()
        writer.close()
    list_bad(path, bad_lines(writer.broken))
    return len(writer.broken)
