"""`leat verify` of tables and files of cells: every value is read."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from typing import Any

from ..data.arrow import Chunks
from ..data.dataset import Dataset
from ..data.hugging_face import splits_of
from ..errors import ChangedError, CorruptError, Error, FormatError
from .copying import _size, opened
from .main import DONE, FAULTS, _tell


def main(options: Mapping[str, str]) -> int:
    from ..text.progress import duration, size

    src, begun, faults = options["src"], time.monotonic(), 0
    for place, what in _of_file(src):
        faults += 1
        _tell(f"{src}{place}: {_without(os.path.abspath(src), what)}" if place else what)
    if "quiet" not in options:
        seconds = max(time.monotonic() - begun, 1e-9)
        told = f"{faults:,} fault{'s' * (faults != 1)} found."
        if not faults:
            n = _size(src)
            told = f"every value was read; {size(n)} in {duration(seconds)} ({size(n / seconds)}/s)"
        _tell(f"{src}: {told}")
    return FAULTS if faults else DONE


def _without(path: str, text: str) -> str:
    """A text that begins with the path and a place in it, without the path, which the line has said."""
    return text[len(path) :].lstrip(",: ") if text.startswith(path) and text[len(path) :][:1] in ",: " else text


def _of_file(src: str) -> Iterator[tuple[str, str]]:
    """What is wrong with a file, and where: one that cannot be opened because of its bytes has a fault, too."""
    for split in splits_of(src):
        try:
            dataset = opened(src, {} if split is None else {"split": split})
        except (CorruptError, FormatError) as e:
            yield "", str(e)
            continue
        part = "" if split is None else f", split {split}"
        for first, last, what in _joined(_faults(dataset)):
            yield part + (f", sample {first}" if first == last else f", samples {first} to {last}"), what


def _joined(faults: Iterator[tuple[int, int, str]]) -> Iterator[tuple[int, int, str]]:
    """Neighbours that have the same cause, such as a chunk that is damaged, are one fault."""
    last: tuple[int, int, str] | None = None
    for fault in faults:
        if last is not None and fault[0] == last[1] + 1 and fault[2] == last[2]:
            last = last[0], fault[1], last[2]
            continue
        if last is not None:
            yield last
        last = fault
    if last is not None:
        yield last


def _faults(dataset: Dataset) -> Iterator[tuple[int, int, str]]:
    """What is wrong, with the first and the last of its samples. A value that is missing is no fault."""
    source: Any = dataset._recipe[1]
    if isinstance(source, Chunks):
        yield from source.faults()
        return
    for i in range(len(dataset)):
        try:
            dataset[i]
        except ChangedError:
            raise
        except Error as e:
            yield i, i, str(e).removesuffix(f" (sample {i})")
