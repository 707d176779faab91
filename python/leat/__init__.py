"""leat: samples at rest to batches, in a declared order, resumable at any batch.

>>> ds = leat.open(path)
>>> loader = leat.Loader(ds, batch_size=32, shuffle=True, seed=0)
>>> for batch in loader:
...     x, y = batch["x"], batch["label"]
"""

from __future__ import annotations

from . import _leat, errors

_leat.set_error_factory(errors.from_status)

from . import ops, presets  # noqa: E402
from .batch import Batch, RowError  # noqa: E402
from .dataset import Dataset, concat, open  # noqa: A004, E402
from .errors import (  # noqa: E402
    BrokenSampleError,
    BudgetError,
    BusyError,
    CancelledError,
    ChangedError,
    ClosedError,
    CorruptError,
    Error,
    ExistsError,
    FileError,
    ForkedError,
    FormatError,
    HeldError,
    InvalidError,
    MissingFileError,
    MissingNameError,
    OutOfMemoryError,
    ProgramError,
    RangeError,
    StateError,
    UnfinishedError,
    UnsupportedError,
    WaitTimeoutError,
)
from .loader import Loader  # noqa: E402
from .ops import Out, program_from_json, program_to_json  # noqa: E402
from .ragged import Ragged  # noqa: E402
from .samplers import Blocks, Weighted  # noqa: E402
from .schema import Field, field  # noqa: E402
from .writer import Writer  # noqa: E402

__version__: str = _leat.version()


def __dir__() -> list[str]:
    return [*__all__, "__doc__", "__version__"]


__all__ = [
    "Batch",
    "Blocks",
    "BrokenSampleError",
    "BudgetError",
    "BusyError",
    "CancelledError",
    "ChangedError",
    "ClosedError",
    "CorruptError",
    "Dataset",
    "Error",
    "ExistsError",
    "Field",
    "FileError",
    "ForkedError",
    "FormatError",
    "HeldError",
    "InvalidError",
    "Loader",
    "MissingFileError",
    "MissingNameError",
    "Out",
    "OutOfMemoryError",
    "ProgramError",
    "Ragged",
    "RangeError",
    "RowError",
    "StateError",
    "UnfinishedError",
    "UnsupportedError",
    "WaitTimeoutError",
    "Weighted",
    "Writer",
    "concat",
    "errors",
    "field",
    "open",
    "ops",
    "presets",
    "program_from_json",
    "program_to_json",
]
