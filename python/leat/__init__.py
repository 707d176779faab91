"""leat: samples at rest to batches, in a declared order, resumable at any batch.

>>> ds = leat.open(path)
>>> loader = leat.Loader(ds, batch_size=32, shuffle=True, seed=0)
>>> for batch in loader:
...     x, y = batch["x"], batch["label"]
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import _leat, errors

_leat.set_error_factory(errors.from_status)

from . import ops, ports, presets, privacy  # noqa: E402
from .batch_size import BatchSize, NormTest  # noqa: E402
from .data.arrow import from_arrow  # noqa: E402
from .data.dataset import Dataset, concat, open  # noqa: A004, E402
from .data.made import from_arrays, from_source, zip  # noqa: A004, E402
from .data.masks import draw_masks, encode_masks  # noqa: E402
from .data.packing import pack_rows  # noqa: E402
from .data.ragged import Ragged  # noqa: E402
from .data.schema import Field, boxes, field, keypoints, mask, masks  # noqa: E402
from .data.writer import Writer  # noqa: E402
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
from .feedback.policies import Curriculum, LossWeighted, TopBatches, TopFraction  # noqa: E402
from .functions.keyed import rng  # noqa: E402
from .functions.native import get_include  # noqa: E402
from .functions.rows import RowGenerator  # noqa: E402
from .loading.batch import Batch, RowError  # noqa: E402
from .loading.consumer import Consumer  # noqa: E402
from .loading.lineage import make_rows  # noqa: E402
from .loading.loader import Loader  # noqa: E402
from .loading.samplers import Blocks, Weighted  # noqa: E402
from .mixtures.ado import ADO  # noqa: E402
from .mixtures.doremi import DoReMi  # noqa: E402
from .mixtures.mixing import Mix  # noqa: E402
from .mixtures.schedule import Schedule  # noqa: E402
from .ops import PerBatch  # noqa: E402
from .ports.attached import Attached, attach  # noqa: E402
from .ports.port import Port  # noqa: E402
from .program import Out, program_from_json, program_to_json  # noqa: E402
from .stores.store import Store  # noqa: E402
from .text.chat import Chat, chat  # noqa: E402
from .text.decode import decode  # noqa: E402
from .text.megatron import write_megatron  # noqa: E402
from .text.tokenize import Tokenized, tokenize  # noqa: E402

if TYPE_CHECKING:
    from .torch.dataloader import DataLoader

__version__: str = _leat.version()


def __getattr__(name: str) -> Any:
    if name == "DataLoader":  # it is a class of PyTorch's, which is imported only when it is used
        from .torch.dataloader import DataLoader

        return DataLoader
    import difflib

    near = difflib.get_close_matches(name, __all__, 1)
    hint = f": did you mean leat.{near[0]}?" if near and not name.startswith("_") else ""
    raise AttributeError(f"module 'leat' has no attribute {name!r}{hint}")


def __dir__() -> list[str]:
    return [*__all__, "__doc__", "__version__"]


__all__ = [
    "ADO",
    "Attached",
    "Batch",
    "BatchSize",
    "Blocks",
    "BrokenSampleError",
    "BudgetError",
    "BusyError",
    "CancelledError",
    "Chat",
    "ChangedError",
    "ClosedError",
    "Consumer",
    "CorruptError",
    "Curriculum",
    "DataLoader",
    "Dataset",
    "DoReMi",
    "Error",
    "ExistsError",
    "Field",
    "FileError",
    "ForkedError",
    "FormatError",
    "HeldError",
    "InvalidError",
    "Loader",
    "LossWeighted",
    "Mix",
    "MissingFileError",
    "MissingNameError",
    "NormTest",
    "Out",
    "OutOfMemoryError",
    "PerBatch",
    "Port",
    "ProgramError",
    "Ragged",
    "RangeError",
    "RowError",
    "RowGenerator",
    "Schedule",
    "StateError",
    "Store",
    "Tokenized",
    "TopBatches",
    "TopFraction",
    "UnfinishedError",
    "UnsupportedError",
    "WaitTimeoutError",
    "Weighted",
    "Writer",
    "attach",
    "chat",
    "concat",
    "decode",
    "errors",
    "boxes",
    "field",
    "from_arrays",
    "from_arrow",
    "from_source",
    "keypoints",
    "mask",
    "masks",
    "draw_masks",
    "encode_masks",
    "get_include",
    "make_rows",
    "open",
    "ops",
    "pack_rows",
    "ports",
    "presets",
    "privacy",
    "program_from_json",
    "program_to_json",
    "rng",
    "tokenize",
    "write_megatron",
    "zip",
]
