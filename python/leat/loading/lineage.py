"""Rows as what they follow from: a loader plans them, and anybody who reads the same files makes them."""

from __future__ import annotations

import hashlib
import json
import os
import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import check
from ..data import dataset as datasets
from ..data import mixing
from ..data.mixing import Mix
from ..data.packing import PackedRows
from ..data.schedule import Schedule
from ..errors import ChangedError, InvalidError, MissingFileError, StateError, UnsupportedError
from ..files import whole
from ..program import Outputs, has_functions, program_from_json, program_to_json
from . import states
from .batch import Batch
from .delivery import checked_step
from .samplers import Blocks, Weighted, load_list

if TYPE_CHECKING:
    from .loader import Loader

VERSION = 1
LARGEST = 32 << 10  #: bytes of a value within a plan; a larger one lies in log_dir, under its hash
MOST_OPEN = 4  #: loaders that `make_rows` keeps for the next call
HELD = 1 << 40  #: bytes of batches: how many are kept is up to who asks for them


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
    "zip": datasets._unpickle_made,
    "view": datasets._unpickle_view,
    "mix": mixing._unpickle,
    "mix by": mixing._unpickle_by,
    "mix inferred": mixing._unpickle_inferred,
    "schedule": Schedule,
    "packed": PackedRows,
}
_NAMES = {make: name for name, make in _MAKERS.items()}


class _Folder:
    """Where values lie that are too large for a plan: ``rows-HASH.bin`` in a run's `log_dir`."""

    def __init__(self, path: str | None) -> None:
        self.path = path

    def keep(self, data: bytes) -> Any:
        """What stands in the plan for these bytes: themselves, or their hash."""
        if len(data) <= LARGEST:
            return data
        if self.path is None:
            raise InvalidError(
                f"a plan of rows names what is larger than {LARGEST >> 10} KiB (here {len(data):,} bytes: a selection, "
                "weights, or decisions) by its hash: open the Loader with log_dir=, a folder that those who make the "
                "rows can read"
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
            StateError: they are damaged.
        """
        if isinstance(kept, bytes):
            return kept
        path = os.path.join(str(self.path), f"rows-{kept['kept']}.bin")
        if not os.path.exists(path):
            raise MissingFileError(
                f"{path} is missing: the plan of these rows names it, and log_dir has to be the run's"
            )
        with open(path, "rb") as file:
            data = file.read()
        if hashlib.sha256(data).hexdigest() != kept["kept"]:
            raise StateError(f"{path} is damaged: it has another hash than the one in its name")
        return data


# ---- values as plain ones --------------------------------------------------------------------------------------------


def _plain(value: Any, folder: _Folder) -> Any:
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


def _plain_dataset(value: Any, folder: _Folder) -> Any:
    make, args = value.__reduce__()[:2] if isinstance(value, (datasets.Dataset, Mix, Schedule)) else (None, ())
    if make is datasets._unpickle_made and hasattr(args[1], "opened"):
        make, args = _open_tables, args[1].opened
    if make not in _NAMES or (make is datasets._unpickle_made and args[0] != "zip"):
        raise UnsupportedError(
            f"a plan of rows names its data by files, and {value!r:.80} lies in the memory of this process: write it "
            "first (leat.Writer, leat pack), then open the file"
        )
    if make is mixing._unpickle:
        args = args[:-1]  # how sources may be called besides: nobody asks there
    return {"made": _NAMES[make], "of": [_plain(a, folder) for a in args]}


def _value(plain: Any, folder: _Folder) -> Any:
    if isinstance(plain, list):
        return [_value(v, folder) for v in plain]
    if not isinstance(plain, dict):
        return plain
    if "made" in plain:
        return _MAKERS[plain["made"]](*(_value(v, folder) for v in plain["of"]))
    if "bytes" in plain:
        return folder.take(plain["bytes"])
    if "array" in plain:
        dtype, shape, kept = plain["array"]
        return np.frombuffer(folder.take(kept), dtype).reshape(shape)
    if "tuple" in plain:
        return tuple(_value(v, folder) for v in plain["tuple"])
    if "dict" in plain:
        return {_value(k, folder): _value(v, folder) for k, v in plain["dict"]}
    return ...


# ---- planning --------------------------------------------------------------------------------------------------------


class _Elsewhere:
    """In the place of a Sampler, whose lists come with the decisions."""

    def __iter__(self) -> Any:
        raise InvalidError("the list of this epoch is not known where its rows are made")


class Lineage:
    """What all plans of rows of a loader have in common: its data, its program, and its options.

    Args:
        given: arguments of the Loader that its batches follow from.
        log_dir: for what is too large for a plan.
    """

    def __init__(self, given: dict[str, Any], log_dir: str | None) -> None:
        self._given, self._log_dir = given, log_dir
        self._common: dict[str, Any] | None = None

    def common(self) -> dict[str, Any]:
        if self._common is None:
            folder = _Folder(self._log_dir)
            given = {**self._given, "outputs": _plain_outputs(self._given["outputs"], folder)}
            shuffle, sampler = given.pop("shuffle"), given.pop("sampler")
            given["order"] = _plain_order(shuffle, sampler, folder)
            dataset = given.pop("dataset")
            common = {
                "leat.rows": VERSION,
                "data": _plain(dataset, folder),
                "fingerprint": dataset.fingerprint,
                "options": given,
                "log_dir": None if self._log_dir is None else os.path.abspath(self._log_dir),
            }
            common["run"] = hashlib.sha256(repr(common).encode()).hexdigest()
            self._common = common
        return self._common

    def decisions(self, state: Mapping[str, Any]) -> bytes | dict[str, str]:
        """What the order follows from besides: a state, without what was reported and counted."""
        left = {name: v for name, v in state.items() if name not in ("feedback", "counters", "counters_of")}
        kept: bytes | dict[str, str] = _Folder(self._log_dir).keep(json.dumps(left).encode())
        return kept


def _plain_outputs(outputs: Outputs | None, folder: _Folder) -> Any:
    if outputs is None:
        return None
    if not has_functions(outputs):
        text = program_to_json(outputs)
        if relative := re.search(r'"function": ?"([^/"][^"]*/[^"]*)"', text):
            raise UnsupportedError(
                f"the path {relative[1]!r} is another one in another folder: name the library by its whole path"
            )
        return {"program": folder.keep(text.encode())}
    import cloudpickle  # here: only programs with functions in Python need it

    return {"pickled": folder.keep(cloudpickle.dumps(dict(outputs)))}


def _plain_order(shuffle: Any, sampler: Any, folder: _Folder) -> Any:
    if isinstance(shuffle, Blocks):
        return {"blocks": shuffle.rows}
    if isinstance(sampler, Weighted):
        return {"weights": _plain(sampler.weights, folder), "n": sampler.num_samples, "again": sampler.replacement}
    if isinstance(sampler, np.ndarray):
        return {"positions": _plain(sampler, folder)}
    return {"sampler": True} if sampler is not None else {"shuffle": bool(shuffle)}


def planned_rows(loader: Loader, epoch: int, step: int, rows: Any) -> dict[str, Any]:
    """See :meth:`leat.Loader.plan_rows`."""
    if not loader._options["in_order"]:
        raise UnsupportedError("without in_order which rows are together follows from when they were ready, not a plan")
    if loader.mesh is not None and loader.mesh.cp.size > 1:
        raise UnsupportedError("rows of context-parallel ranks are slices, which the loader cuts: plan them without cp")
    epoch, step = checked_step(epoch, step)
    there = len(loader.plan(epoch, step))
    first, end = _range(rows, there)
    return {
        **loader._lineage.common(),
        "decisions": loader._lineage.decisions(loader.state_dict()),
        "epoch": epoch,
        "step": step,
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


# ---- making ----------------------------------------------------------------------------------------------------------


class _Opened:
    """Loaders that the last plans were of, each with the decisions that it stands at."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self._loaders: OrderedDict[str, tuple[Loader, Any]] = OrderedDict()

    def find(self, planned: Mapping[str, Any]) -> Loader:
        run, decisions = planned["run"], planned["decisions"]
        loader, stands_at = self._loaders.pop(run, (None, None))
        if loader is None:
            loader = _open(planned)
        if stands_at != decisions:
            _decide(loader, json.loads(_Folder(planned["log_dir"]).take(decisions)), planned["log_dir"])
        self._loaders[run] = loader, decisions
        while len(self._loaders) > MOST_OPEN:
            self._loaders.popitem(last=False)[1][0].close()
        return loader


_opened = _Opened()


def _forget() -> None:
    """In a forked child: loaders and the lock, which another thread may hold, are the parent's."""
    global _opened
    _opened = _Opened()


os.register_at_fork(after_in_child=_forget)


def make_rows(planned: Mapping[str, Any], out: Mapping[str, Any] | None = None) -> Batch:
    """Makes the rows of a plan that :meth:`leat.Loader.plan_rows` gave: in any process, on any machine that has the
    same files under the same paths, with the same bytes. Batches stay valid as long as they are referred to, however
    many they are.

    No epoch begins and nothing is read ahead. The data set and the program are opened once in a process, and serve the
    next plans of the same loader. A plan whose program has functions, in Python (pickled) or of a library, runs them:
    make only rows of plans that are trusted as code is.

    Args:
        planned: the plan.
        out: ``{output: array}``: arrays of the output's shape and dtype, C-contiguous and writable, which get the
            values. Outputs that are not named come in memory of their own.

    Returns:
        a :class:`leat.Batch` of NumPy arrays, one contiguous buffer for each output, with the ids, row keys, `valid`
        and errors of these rows, by the loader's `on_error`. It has no outputs of ``stores=``.

    Raises:
        leat.StateError: it is no plan, or is damaged.
        leat.ChangedError: the data set under these paths is another one.
        FileNotFoundError: a file is missing.

    >>> loader = leat.Loader(leat.open(path), batch_size=32, shuffle=True, seed=1)
    >>> part = leat.make_rows(loader.plan_rows(0, 1, rows=(8, 16)))
    >>> part.ids.tolist() == loader.plan(0, 1)[8:16].tolist()
    True
    """
    if not isinstance(planned, Mapping) or planned.get("leat.rows") != VERSION:
        raise StateError("not a plan of rows: give what Loader.plan_rows() gave, made by this version of leat")
    with _opened.lock:
        try:
            epoch, step, (first, n) = planned["epoch"], planned["step"], planned["rows"]
            loader = _opened.find(planned)
        except (KeyError, TypeError, IndexError, AttributeError) as e:
            raise StateError(f"the plan of rows is damaged: it cannot be read ({e!r:.120})") from None
        core = loader._asked(loader._core.batch_at, lambda: epoch)(epoch, step, first, n)
        batch = loader._batch(core)
    for name, array in ({} if out is None else out).items():
        _fill(array, batch[name], name)
    return batch


def _fill(array: Any, value: Any, name: str) -> None:
    if not isinstance(value, np.ndarray):
        raise UnsupportedError(f"out[{name!r}]: rows of this output differ in shape: it comes in memory of its own")
    given = np.asarray(array)
    if given.shape != value.shape or given.dtype != value.dtype or not given.flags.writeable:
        raise InvalidError(
            f"out[{name!r}] has to be a writable array of {value.dtype} with shape {value.shape}, not of {given.dtype} "
            f"with shape {given.shape}"
        )
    np.copyto(given, value)


def _open(planned: Mapping[str, Any]) -> Loader:
    from .loader import Loader

    folder, given = _Folder(planned["log_dir"]), dict(planned["options"])
    dataset = _value(planned["data"], folder)
    if dataset.fingerprint != planned["fingerprint"]:
        raise ChangedError("the files of this plan of rows have other contents than where it was made")
    given["outputs"] = _outputs(given["outputs"], folder)
    order = _order(given.pop("order"), folder)
    loader = Loader(dataset, **given, **order, max_held_bytes=HELD)
    loader._form.become_numpy()  # functions get what they got in the run
    loader._log_dir = planned["log_dir"]  # only to read in: nothing is decided here
    return loader


def _outputs(plain: Any, folder: _Folder) -> Any:
    if plain is None:
        return None
    if "program" in plain:
        return program_from_json(folder.take(plain["program"]).decode(), allow_native=True)
    import cloudpickle

    return cloudpickle.loads(folder.take(plain["pickled"]))


def _order(plain: dict[str, Any], folder: _Folder) -> dict[str, Any]:
    if "blocks" in plain:
        return {"shuffle": Blocks(plain["blocks"])}
    if "weights" in plain:
        return {"sampler": Weighted(_value(plain["weights"], folder), plain["n"], plain["again"])}
    if "positions" in plain:
        return {"sampler": _value(plain["positions"], folder)}
    return {"sampler": _Elsewhere()} if "sampler" in plain else {"shuffle": plain["shuffle"]}


def _decide(loader: Loader, state: dict[str, Any], log_dir: str | None) -> None:
    """Takes over the decisions of a run, with the lists of positions that they name."""
    with states.damage_is_said():
        lists = loader._prepare(state).lists
        if loader._sampler is not None:
            found = [load_list(str(log_dir), each["hash"]) for each in states.lists_elsewhere(state)]
            lists = [each for each in found if each is not None]
        for positions in lists:
            loader._core.know_list(positions)
        loader._core.load_state(json.dumps(state))
