"""`leat view --tokens` and `--length`: rows of tokens in a terminal or as a page. Called by leat.commands.main."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..errors import InvalidError
from ..files import writing
from .decode import Decoder, _field
from .rows import Decode, as_ansi, caption, page

ROWS = 8  #: that are shown if nobody says how many


def main(options: Mapping[str, str]) -> int:
    """Shows rows. `options`: as the command line has read them."""
    import leat

    path, out = options["path"], options.get("out")
    if out is not None and os.path.splitext(out)[1].lower() not in (".html", ".htm"):
        raise ValueError(f"--out {out}: rows of tokens are a page, such as rows.html; without --out they are printed")
    dataset: leat.Dataset = leat.open(path)
    if "where" in options:
        dataset = dataset.where(options["where"])
    if "length" in options:
        how: Any = options.get("how", "cut")
        dataset = leat.pack_rows(dataset, options.get("field", "tokens"), int(options["length"]), how)
    try:
        field = _field(dataset, options.get("field"))
    except InvalidError as e:
        raise ValueError(str(e).replace("(field=)", "with --field")) from None
    decode = _decode(dataset, options, field, path)
    rows = [(f"row {i:,}", dataset[i]) for i in _numbers(options, len(dataset), path)]
    if out is not None:
        text = page(path, rows, field, decode)
        with writing(out), open(out, "w", encoding="utf-8") as file:
            file.write(text)
        print(f"{len(rows)} rows in {out}")
        return 0
    colour = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    for name, row in rows:
        print(f"{name}: {caption(row, field)}\n{as_ansi(row, field, decode, colour)}\n")
    return 0


def _decode(dataset: Any, options: Mapping[str, str], field: str, path: str) -> Decode | None:
    """None: the tokenizer is not there, and ids are shown."""
    named = options.get("tokenizer")
    try:
        core = Decoder(dataset, named, field, path, pattern=options.get("pattern")).core
    except (InvalidError, FileNotFoundError, ImportError) as e:
        if named is not None:
            raise
        said = f"ids are shown in the place of text: {e}".replace("(tokenizer=)", "with --tokenizer")
        warnings.warn(said)  # noqa: B028
        return None

    def decode(ids: Any) -> str:
        return str(core.decode(core.checked(np.asarray(ids), path, every=True)))

    return decode


def _numbers(options: Mapping[str, str], count: int, path: str) -> list[int]:
    if "ids" in options:
        try:
            found = [int(i) for i in options["ids"].split(",")]
        except ValueError:
            raise ValueError(f"--ids takes numbers with commas between them, not {options['ids']!r}") from None
        for i in found:
            if not 0 <= i < count:
                raise ValueError(f"{path} has no row {i}; it has {count}, numbered from 0.")
        return found
    first, wanted = int(options.get("from", 0)), int(options.get("samples", ROWS))
    if first and first >= count:
        raise ValueError(f"{path} has no row {first}; it has {count}, numbered from 0.")
    return list(range(first, min(first + wanted, count)))
