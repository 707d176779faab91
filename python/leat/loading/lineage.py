"""Plans of rows: the plain values that they follow from. Any process that reads the same files makes the rows
(making.py)."""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import json
import os
import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from .. import check
from ..data import dataset as datasets
from ..data import prompts
from ..data.one_of import OneOf
from ..data.packing import PackedRows
from ..errors import ChangedError, InvalidError, MissingFileError, StateError, UnsupportedError
from ..files import whole
from ..mixtures import mixing
from ..mixtures.logs import step_of
from ..mixtures.mixing import Mix
from ..mixtures.schedule import Schedule
from ..program import Out, Outputs, has_functions, program_to_json
from .batch import Batch
from .mesh import Mesh
from .samplers import LIST, Blocks, Weighted, digest
from .states import Stateful

VERSION = 3
PLAN = 40 << 10  #: bytes of what all plans of a loader have in common; more lies in log_dir, under its hash
DECISIONS = 16 << 10  #: the same, of decisions
ARRAY = 24 << 10  #: the same, of one array or text within
#: arguments of a Loader that its batches follow from, and that stand in a plan as they are
OPTIONS = frozenset(
    {"batch_size", "global_batch_size", "batch_tokens", "buckets", "tokens_field"}
    | {"on_error", "seed", "tail", "rank", "world_size", "framework"}
)
COSTED = OPTIONS | {"batch_cost", "cost", "oversize"}  #: the same, with costs or lengths of samples
PROMPTED = OPTIONS | {"batch_kv", "oversize"}  #: the same, of prompts in groups


def _open_tables(kind: str, paths: list[str], fields: Any, fill: Any, folder: str) -> datasets.Dataset:
    """`folder`: the one that relative paths in the tables are of."""
    made = datasets.open(paths, format=kind, fields=fields, fill=fill)
    made._recipe[1]._columns.folder = folder
    return made


#: what data sets are made by, as their __reduce__ names it
_MAKERS: dict[str, Callable[..., Any]] = {
    "open": datasets._unpickle_open,
    "tables": _open_tables,
    "concat": datasets._unpickle_concat,
    "zip": partial(datasets._unpickle_made, "zip"),
    "windows": partial(datasets._unpickle_made, "windows"),
    "temporal": partial(datasets._unpickle_made, "temporal"),
    "view": datasets._unpickle_view,
    "mix": mixing._unpickle,
    "mix by": mixing._unpickle_by,
    "mix inferred": mixing._unpickle_inferred,
    "schedule": Schedule,
    "packed": PackedRows,
    "one_of": OneOf,
    "prompts": prompts._unpickle,
}
_NAMES = {make: name for name, make in _MAKERS.items()}


class Folder:
    """The files of values that are too large for a plan: ``rows-HASH.bin`` in a run's `log_dir`."""

    def __init__(self, path: str | None) -> None:
        self.path = path

    def keep(self, data: bytes, most: int = ARRAY) -> Any:
        """The entry of a plan for these bytes: themselves, as base64, or their hash."""
        return base64.b64encode(data).decode() if len(data) * 4 // 3 <= most else self._kept(data)

    def keep_text(self, text: str, most: int) -> Any:
        """The entry of a plan for a text: itself, or its hash."""
        data = text.encode()
        return text if len(json.dumps(text)) <= most else self._kept(data)

    def _kept(self, data: bytes) -> dict[str, str]:
        if self.path is None:
            raise InvalidError(
                f"a plan of rows is small, and names what is larger by its hash (here {len(data):,} bytes: a "
                "selection, weights, paths, or decisions): open the Loader with log_dir=, a folder that those who make "
                "the rows can read"
            )
        name = hashlib.sha256(data).hexdigest()
        path = os.path.join(self.path, f"rows-{name}.bin")
        if not os.path.exists(path):
            with whole(path, folder=True) as file:
                file.write(data)
        return {"kept": name}

    def take(self, kept: Any) -> bytes:
        """The bytes.

        Raises:
            MissingFileError: they are not there.
            StateError: they are damaged, or no hash names them.
        """
        return base64.b64decode(kept, validate=True) if isinstance(kept, str) else self._taken(kept)

    def take_text(self, kept: Any) -> str:
        """The text. Raises: as `take`."""
        return kept if isinstance(kept, str) else self._taken(kept).decode()

    def _taken(self, kept: Mapping[str, Any]) -> bytes:
        name = kept["kept"]
        if self.path is None or not isinstance(name, str) or not re.fullmatch("[0-9a-f]{64}", name):
            raise StateError(f"the plan of rows is damaged: {name!r:.80} is no hash of what lies in log_dir")
        path = os.path.join(self.path, f"rows-{name}.bin")
        if not os.path.exists(path):
            raise MissingFileError(
                f"{path} is missing: the plan of these rows names it, and log_dir has to be the run's"
            )
        with open(path, "rb") as file:
            data = file.read()
        if hashlib.sha256(data).hexdigest() != name:
            raise StateError(f"{path} is damaged: it has another hash than the one in its name")
        return data


# ---- values as plain ones --------------------------------------------------------------------------------------------


def _plain(value: Any, folder: Folder) -> Any:
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, bytes):
        return {"bytes": folder.keep(value)}
    if isinstance(value, np.ndarray):
        return {"array": [value.dtype.str, list(value.shape), folder.keep(np.ascontiguousarray(value).tobytes())]}
    if isinstance(value, list):
        return [_plain(v, folder) for v in value]
    if isinstance(value, tuple):
        return {"tuple": [_plain(v, folder) for v in value]}
    if isinstance(value, Mapping):
        return {"dict": [[_plain(k, folder), _plain(v, folder)] for k, v in value.items()]}
    if value is ...:
        return {"others": True}
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    return _plain_dataset(value, folder)


def _plain_dataset(value: Any, folder: Folder) -> Any:
    make, args = value.__reduce__()[:2] if isinstance(value, (datasets.Dataset, Mix, Schedule)) else (None, ())
    if make is datasets._unpickle_made and hasattr(args[1], "opened"):
        make, args = _open_tables, args[1].opened
    name = _NAMES.get(make) if make is not datasets._unpickle_made else args[0] if args[0] in _MAKERS else None
    if name is None:
        raise UnsupportedError(
            f"a plan of rows names its data by files, and {value!r:.80} lies in the memory of this process: write it "
            "first (leat.Writer, leat pack), then open the file"
        )
    if make is mixing._unpickle:
        args = args[:-1]  # how sources may be called besides: nobody asks there
    elif make is datasets._unpickle_made:
        args = args[1:]
    return {"made": name, "of": [_plain(a, folder) for a in args]}


def value_of(plain: Any, folder: Folder) -> Any:
    if isinstance(plain, list):
        return [value_of(v, folder) for v in plain]
    if not isinstance(plain, dict):
        return plain
    if "made" in plain:
        return _MAKERS[plain["made"]](*(value_of(v, folder) for v in plain["of"]))
    if "bytes" in plain:
        return folder.take(plain["bytes"])
    if "array" in plain:
        dtype, shape, kept = plain["array"]
        return np.frombuffer(folder.take(kept), dtype).reshape(shape)
    if "tuple" in plain:
        return tuple(value_of(v, folder) for v in plain["tuple"])
    if "dict" in plain:
        return {value_of(k, folder): value_of(v, folder) for k, v in plain["dict"]}
    if "others" in plain:
        return ...
    raise KeyError(*plain)


# ---- planning --------------------------------------------------------------------------------------------------------


def _copy(entry: Any) -> Any:
    if isinstance(entry, Out):
        return dataclasses.replace(entry, chain=_copy(entry.chain))
    return list(entry) if isinstance(entry, list) else entry


class Lineage:
    """The common part of all plans of rows of a loader: its data, its program, and its options.

    Args:
        given: arguments of the Loader that its batches follow from.
        arrays, hashed: those of them that are arrays, by name, as the loader has read them, and their hash.
        log_dir: for what is too large for a plan.
    """

    def __init__(self, given: dict[str, Any], arrays: Mapping[str, Any], hashed: str, log_dir: str | None) -> None:
        outputs = given["outputs"]
        if outputs is not None:  # as they are now, whatever becomes of the caller's lists
            outputs = {name: _copy(chain) for name, chain in outputs.items()}
        self._given, self._arrays, self._hash = {**given, "outputs": outputs}, arrays, hashed
        self._folder = Folder(None if log_dir is None else os.path.abspath(log_dir))
        self._common: dict[str, Any] | None = None

    def common(self) -> dict[str, Any]:
        if self._common is None:
            if digest(self._arrays) != self._hash:
                raise ChangedError("the weights or positions of the sampler were changed after its loader was opened")
            folder, given = self._folder, dict(self._given)
            dataset, outputs = given.pop("dataset"), given.pop("outputs")
            order = _plain_order(given.pop("shuffle"), given.pop("sampler"), folder)
            loader = {
                "data": _plain(dataset, folder),
                "fingerprint": dataset.fingerprint,
                "outputs": _plain_outputs(outputs, folder),
                "order": order,
                "options": {name: _plain(value, folder) for name, value in given.items()},
            }
            text = json.dumps(loader)
            self._common = {
                "leat.rows": VERSION,
                "loader": folder.keep_text(text, PLAN),
                "run": hashlib.sha256(text.encode()).hexdigest(),
                "log_dir": folder.path,
            }
        return self._common

    def decisions(self, state: Mapping[str, Any]) -> Any:
        """The decisions that the order follows from: a state without its position, reports and counters, so that it is
        the same one for all steps between two decisions."""
        left = {
            n: v for n, v in state.items() if n not in ("feedback", "counters", "counters_of", "sampler", "received")
        }
        if "received" in state:
            left["state"] = 1  # as in order, where no rows were received beyond the position
        folded = [entry for entry in state["log"][1:2] if entry["kind"] == "folded"]
        left["at"] = {"epoch": folded[0]["epoch"], "row": folded[0]["row"]} if folded else {"epoch": 0, "row": 0}
        return self._folder.keep_text(json.dumps(left), DECISIONS)


def _plain_outputs(outputs: Outputs | None, folder: Folder) -> Any:
    if outputs is None:
        return None
    if not has_functions(outputs):
        text = program_to_json(outputs)
        if relative := re.search(r'"function": ?"([^/"][^"]*/[^"]*)"', text):
            raise UnsupportedError(
                f"the path {relative[1]!r} is another one in another folder: name the library by its whole path"
            )
        return {"program": folder.keep_text(text, ARRAY)}
    import cloudpickle  # here: only programs with functions in Python need it

    return {"pickled": folder.keep(cloudpickle.dumps(dict(outputs)))}


def _plain_order(shuffle: Any, sampler: Any, folder: Folder) -> Any:
    if isinstance(shuffle, Blocks):
        return {"blocks": shuffle.rows} | ({} if shuffle.window is None else {"window": shuffle.window})
    if isinstance(sampler, Weighted):
        return {"weights": _plain(sampler.weights, folder), "n": sampler.num_samples, "again": sampler.replacement}
    if isinstance(sampler, np.ndarray):
        return {"positions": _plain(sampler, folder)}
    return {"sampler": True} if sampler is not None else {"shuffle": bool(shuffle)}


class Planning(Stateful):
    """The part of a loader that plans batches, and makes those of any step again."""

    mesh: Mesh | None
    _lineage: Lineage

    def plan(self, epoch: int, step: int) -> np.ndarray[Any, np.dtype[np.int64]]:
        """The sample ids planned for this rank's batch `step` of `epoch`, without reading anything: int64.

        >>> leat.Loader(leat.open(path), batch_size=4).plan(0, 2).tolist()
        [8, 9, 10, 11]
        """
        return np.asarray(self._core.plan(*check.step(epoch, step)))

    def batch_at(self, epoch: int | Mapping[str, Any], step: int | None = None) -> Batch:
        """Computes a batch again: that of an epoch and step, or the one that a state points at. The loader's position
        does not move.

        Raises:
            IndexError: the epoch has no such step.
            ValueError: the state is of another run (:class:`leat.StateError`).

        >>> loader = leat.Loader(leat.open(path), batch_size=32)
        >>> batches = iter(loader)
        >>> next(batches).step, loader.batch_at(loader.state_dict()).step, next(batches).step
        (0, 1, 1)

        Without `in_order` which rows it had stands only in the record in `log_dir`: ValueError without that, IndexError
        for a batch that was not handed out.
        """
        if isinstance(epoch, Mapping):
            if step is not None:
                raise TypeError("batch_at takes a state, or epoch and step")
            mine = self.state_dict()
            whole = "later" in mine and self._order_of != LIST
            epoch, step = step_of(mine, epoch, self._decisions.entries() if whole else None)
        elif step is None:
            raise TypeError("batch_at takes epoch and step, or a state")
        return self._batch(self._asked(self._core.batch_at, lambda: int(epoch))(*check.step(epoch, step)))

    def plan_rows(self, epoch: int, step: int, rows: Any = None) -> dict[str, Any]:
        """A plan of the rows of this rank's batch `step` of `epoch`: plain values (paths and fingerprint of the data
        set, program, order, decisions, position) that can be pickled or written as JSON and are at most 64 KiB. Any
        process that reads the same files makes the rows with :func:`leat.make_rows`, with the same bytes.

        Args:
            rows: a range of rows within the batch: a range, a slice, or ``(first, end)``. None: all.

        Raises:
            IndexError: the epoch has no such step, or the batch no such rows.
            leat.UnsupportedError: the data lie in memory (`from_arrays`, `from_source`), where nobody else reads them;
                with ``in_order=False``, and with slices for context-parallel ranks.
            leat.InvalidError: without `log_dir`, a selection, paths or decisions are too long to stand in the plan.
            leat.ChangedError: weights or positions of the sampler were changed after the loader was opened.

        >>> loader = leat.Loader(leat.open(path), batch_size=32, shuffle=True)
        >>> leat.make_rows(loader.plan_rows(0, 2)).ids.tolist() == loader.plan(0, 2).tolist()
        True
        """
        if not self._options["in_order"]:
            raise UnsupportedError(
                "without in_order which rows are together follows from when they were ready, not a plan"
            )
        if self.mesh is not None and self.mesh.cp.size > 1:
            raise UnsupportedError(
                "rows of context-parallel ranks are slices, which the loader cuts: plan them without cp"
            )
        if self.mesh is not None and not self.mesh.reads:
            raise UnsupportedError("this pipeline stage reads nothing: plan the rows where they are read")
        there = len(self.plan(epoch, step))
        first, end = _range(rows, there)
        return {
            **self._lineage.common(),
            "decisions": self._lineage.decisions(self.state_dict()),
            "epoch": int(epoch),
            "step": int(step),
            "rows": [first, end - first],
        }


def _range(rows: Any, n: int) -> tuple[int, int]:
    """The first row of a range within a batch of n, and the one behind its last."""
    if rows is None:
        return 0, n
    if isinstance(rows, slice):
        rows = range(n)[rows]
    if isinstance(rows, range):
        if rows.step != 1:
            raise ValueError(f"rows is a range without gaps, not {rows!r}")
        rows = rows.start, rows.stop
    if not isinstance(rows, (tuple, list)) or len(rows) != 2:
        raise TypeError(f"rows is a range, a slice, or (first, end) of rows within the batch, not {rows!r:.60}")
    first, end = check.integer("rows", rows[0]), check.integer("rows", rows[1])
    if not first < end <= n:
        raise IndexError(f"the batch has {n} rows for this rank, and no rows {first} to {end}")
    return first, end
