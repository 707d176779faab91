"""leat: samples at rest to batches, in a declared order, resumable at any batch.

>>> ds = leat.open(path)
>>> loader = leat.Loader(ds, batch_size=32, shuffle=True, seed=0)
>>> for batch in loader:
...     x, y = batch["x"], batch["label"]
"""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any

from . import _leat, errors
from . import importing as importing  # forks wait for it
from .errors import BrokenSampleError as BrokenSampleError
from .errors import BudgetError as BudgetError
from .errors import BusyError as BusyError
from .errors import CancelledError as CancelledError
from .errors import ChangedError as ChangedError
from .errors import ClosedError as ClosedError
from .errors import CorruptError as CorruptError
from .errors import Error as Error
from .errors import ExistsError as ExistsError
from .errors import FileError as FileError
from .errors import ForkedError as ForkedError
from .errors import FormatError as FormatError
from .errors import HeldError as HeldError
from .errors import InvalidError as InvalidError
from .errors import MissingFileError as MissingFileError
from .errors import MissingNameError as MissingNameError
from .errors import OutOfMemoryError as OutOfMemoryError
from .errors import ProgramError as ProgramError
from .errors import RangeError as RangeError
from .errors import StateError as StateError
from .errors import UnfinishedError as UnfinishedError
from .errors import UnsupportedError as UnsupportedError
from .errors import WaitTimeoutError as WaitTimeoutError

if TYPE_CHECKING:
    from . import device as device
    from . import ops as ops
    from . import ports as ports
    from . import presets as presets
    from . import privacy as privacy
    from .batch_size import BatchSize as BatchSize
    from .batch_size import NormTest as NormTest
    from .data.arrow import from_arrow as from_arrow
    from .data.cells.scdl_writer import write_scdl as write_scdl
    from .data.dataset import Dataset as Dataset
    from .data.dataset import concat as concat
    from .data.dataset import open as open  # noqa: A004
    from .data.join import join as join
    from .data.made import from_arrays as from_arrays
    from .data.made import from_source as from_source
    from .data.made import zip as zip  # noqa: A004
    from .data.masks import draw_masks as draw_masks
    from .data.masks import encode_masks as encode_masks
    from .data.one_of import one_of as one_of
    from .data.prompts import group_prompts as group_prompts
    from .data.ragged import Ragged as Ragged
    from .data.schema import Field as Field
    from .data.schema import boxes as boxes
    from .data.schema import field as field
    from .data.schema import keypoints as keypoints
    from .data.schema import mask as mask
    from .data.schema import masks as masks
    from .data.schema import sparse as sparse
    from .data.sparse import Sparse as Sparse
    from .data.temporal import temporal as temporal
    from .data.windows import windows as windows
    from .data.writer import Writer as Writer
    from .feedback.policies import Curriculum as Curriculum
    from .feedback.policies import LossWeighted as LossWeighted
    from .feedback.policies import TopBatches as TopBatches
    from .feedback.policies import TopFraction as TopFraction
    from .functions.keyed import rng as rng
    from .functions.native import get_include as get_include
    from .functions.packing import pack_rows as pack_rows
    from .functions.rows import RowGenerator as RowGenerator
    from .loading.applying import apply as apply
    from .loading.batch import Batch as Batch
    from .loading.batch import RowError as RowError
    from .loading.consumer import Consumer as Consumer
    from .loading.loader import Loader as Loader
    from .loading.making import make_rows as make_rows
    from .loading.samplers import Blocks as Blocks
    from .loading.samplers import Weighted as Weighted
    from .mixtures.ado import ADO as ADO
    from .mixtures.doremi import DoReMi as DoReMi
    from .mixtures.mixing import Mix as Mix
    from .mixtures.schedule import Schedule as Schedule
    from .ops import PerBatch as PerBatch
    from .packs.pack import Packed as Packed
    from .packs.pack import pack as pack
    from .ports.attached import Attached as Attached
    from .ports.attached import attach as attach
    from .ports.port import Port as Port
    from .program import Out as Out
    from .program import program_from_json as program_from_json
    from .program import program_to_json as program_to_json
    from .stores.store import Store as Store
    from .text.chat import Chat as Chat
    from .text.chat import chat as chat
    from .text.decode import decode as decode
    from .text.megatron import write_megatron as write_megatron
    from .text.tokenize import Tokenized as Tokenized
    from .text.tokenize import tokenize as tokenize
    from .torch.dataloader import DataLoader as DataLoader

_leat.set_error_factory(errors.from_status)
__version__: str = _leat.version()

#: The names of each module, which is imported when one of them is used: `import leat` loads no NumPy.
_NAMES = {
    "batch_size": "BatchSize NormTest",
    "data.arrow": "from_arrow",
    "data.cells.scdl_writer": "write_scdl",
    "data.dataset": "Dataset concat open",
    "data.join": "join",
    "data.made": "from_arrays from_source zip",
    "data.masks": "draw_masks encode_masks",
    "data.one_of": "one_of",
    "data.prompts": "group_prompts",
    "data.ragged": "Ragged",
    "data.sparse": "Sparse",
    "data.schema": "Field boxes field keypoints mask masks sparse",
    "data.temporal": "temporal",
    "data.windows": "windows",
    "data.writer": "Writer",
    "feedback.policies": "Curriculum LossWeighted TopBatches TopFraction",
    "functions.keyed": "rng",
    "functions.native": "get_include",
    "functions.packing": "pack_rows",
    "functions.rows": "RowGenerator",
    "loading.applying": "apply",
    "loading.batch": "Batch RowError",
    "loading.consumer": "Consumer",
    "loading.loader": "Loader",
    "loading.making": "make_rows",
    "loading.samplers": "Blocks Weighted",
    "mixtures.ado": "ADO",
    "mixtures.doremi": "DoReMi",
    "mixtures.mixing": "Mix",
    "mixtures.schedule": "Schedule",
    "ops": "PerBatch",
    "packs.pack": "Packed pack",
    "ports.attached": "Attached attach",
    "ports.port": "Port",
    "program": "Out program_from_json program_to_json",
    "stores.store": "Store",
    "text.chat": "Chat chat",
    "text.decode": "decode",
    "text.megatron": "write_megatron",
    "text.tokenize": "Tokenized tokenize",
    "torch.dataloader": "DataLoader",
}
_MODULES = {name: module for module, names in _NAMES.items() for name in names.split()}
_PACKAGES = ("device", "errors", "ops", "ports", "presets", "privacy")
_PUBLIC = sorted(
    [*_MODULES, *_PACKAGES, *(name for name in dir(errors) if name in globals() and name.endswith("Error"))]
)


def _has_torch() -> bool:
    if "torch" in sys.modules:
        return sys.modules["torch"] is not None
    from importlib.util import find_spec

    return find_spec("torch") is not None


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        module = _MODULES[name]
        try:
            # the package first, as who imports it has it
            importlib.import_module("." + module.partition(".")[0], __name__)
            found = globals()[name] = getattr(importlib.import_module(f".{module}", __name__), name)
        except ModuleNotFoundError as e:
            if str(e.name).partition(".")[0] != "torch" or _has_torch():
                raise
            raise ModuleNotFoundError(f"leat.{name} needs PyTorch: pip install torch", name="torch") from e
        return found
    if name == "__all__":  # where PyTorch is not installed, without the class that is one of its own
        return [public for public in _PUBLIC if public != "DataLoader" or _has_torch()]
    if not name.startswith("_"):
        try:
            return importlib.import_module(f".{name}", __name__)
        except ModuleNotFoundError as e:
            if e.name != f"{__name__}.{name}":
                raise
    near = None if name.startswith("_") else _leat.nearest(name, _PUBLIC)
    hint = f": did you mean leat.{near}?" if near else ""
    raise AttributeError(f"module 'leat' has no attribute {name!r}{hint}")


def __dir__() -> list[str]:
    return [*__getattr__("__all__"), "__doc__", "__version__"]
