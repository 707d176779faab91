"""Data sets whose tokens were made by different tokenizers are joined by mistake only."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Literal

from .. import check
from ..errors import InvalidError

if TYPE_CHECKING:
    from .dataset import Dataset

Tokenizers = Literal["same", "any"]


def named(dataset: Dataset) -> list[dict[str, Any]]:
    """The tokenizers that a data set names for its tokens, each once: in its metadata, or in those of the data sets
    that it was made of.
    """
    text = dataset._handle.metadata()
    about = json.loads(text).get("tokenizer") if '"tokenizer"' in text else None
    if isinstance(about, dict) and isinstance(about.get("hash"), str):
        return [about]
    found: dict[str, dict[str, Any]] = {}
    for part in _parts(dataset):
        for about in named(part):
            found.setdefault(about["hash"], about)
    return list(found.values())


def _parts(dataset: Dataset) -> Iterable[Dataset]:
    kind, *rest = dataset._recipe
    if not isinstance(kind, str):
        return [kind]  # the base of a view, or the documents of packed rows
    if kind == "windows":
        return rest[:1]
    return rest[0] if kind == "concat" else rest[0].values() if kind == "zip" else ()


def compare(what: str, sources: Iterable[tuple[str, Dataset]], tokenizers: Tokenizers) -> None:
    """Refuses data sets that name different tokenizers. Those that name none may be anything."""
    if check.choice("tokenizers", tokenizers, {"same": 0, "any": 1}):
        return
    first: tuple[str, str, str] | None = None
    for name, dataset in sources:
        for about in named(dataset):
            if first is None:
                first = name, about["hash"], str(about.get("file"))
            elif about["hash"] != first[1]:
                raise InvalidError(
                    f"{what}: the tokens of {first[0]} were made by {first[2]} ({first[1]}), and those of {name} by "
                    f'{about.get("file")} ({about["hash"]}), so that one number means two things. tokenizers="any" '
                    "allows it"
                )
