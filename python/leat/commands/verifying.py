"""`leat verify` of tables and files of cells: every value is read."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any

from ..data.arrow import Chunks
from ..data.dataset import Dataset
from ..errors import ChangedError, Error
from .copying import _size, opened
from .main import DONE, FAULTS, _tell


def main(options: Mapping[str, str]) -> int:
    from ..text.progress import duration, rate

    src, begun, faults = options["src"], time.monotonic(), 0
    for fault in _faults(opened(src, {})):
        faults += 1
        _tell(f"{src}, {fault}")
    if "quiet" not in options:
        seconds = max(time.monotonic() - begun, 1e-9)
        told = f"{faults:,} fault{'s' * (faults != 1)} found."
        if not faults:
            size = _size(src)
            told = f"every value was read; {rate(size)}B in {duration(seconds)} ({rate(size / seconds)}B/s)"
        _tell(f"{src}: {told}")
    return FAULTS if faults else DONE


def _faults(dataset: Dataset) -> Iterator[str]:
    """What is wrong, with its samples. A value that is missing is no fault."""
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
            yield f"sample {i}: {e}"
