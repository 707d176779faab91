"""Data sets whose tokens were made by different tokenizers are joined by mistake only."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Literal

from .. import check
from ..errors import InvalidError

if TYPE_CHECKING:
    from .dataset import Dataset

Tokenizers = Literal["same", "any"]


def compare(what: str, named: Iterable[tuple[str, Dataset]], tokenizers: Tokenizers) -> None:
    """Refuses data sets that name different tokenizers in their metadata. Those that name none may be anything."""
    if check.choice("tokenizers", tokenizers, {"same": 0, "any": 1}):
        return
    first: tuple[str, str, str] | None = None
    seen: set[str] = set()  # views of one data set have its metadata
    for name, dataset in named:
        text = dataset._handle.metadata()
        if text in seen or '"tokenizer"' not in text:
            continue
        seen.add(text)
        about = json.loads(text).get("tokenizer")
        if not isinstance(about, dict) or not isinstance(about.get("hash"), str):
            continue
        if first is None:
            first = name, about["hash"], str(about.get("file"))
        elif about["hash"] != first[1]:
            raise InvalidError(
                f"{what}: the tokens of {first[0]} were made by {first[2]} ({first[1]}), and those of {name} by "
                f'{about.get("file")} ({about["hash"]}), so that one number means two things. tokenizers="any" allows '
                "it"
            )
