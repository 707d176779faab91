"""Rows that a loader has planned (lineage.py), made by any process that reads the same files."""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

from ..errors import ChangedError, InvalidError, StateError, UnsupportedError
from ..feedback.lists import load_list
from ..mixtures.logs import lists_elsewhere
from ..program import program_from_json
from ..sampling.sampled import Elsewhere
from ..saved import damage_is_said, is_number
from .batch import Batch
from .lineage import COSTED, OPTIONS, PROMPTED, VERSION, Folder, value_of
from .loader import Loader
from .samplers import Blocks, Weighted

MOST_OPEN = 4  #: loaders that `make_rows` keeps for the next call
HELD = 1 << 40  #: bytes of batches: how many are kept is up to the caller


class _Made:
    """A loader that plans were of, with the decisions that it stands at."""

    def __init__(self) -> None:
        self.lock = threading.Lock()  # held while it makes rows: other decisions would change them
        self._loader: Loader | None = None
        self._decisions: Any = None

    def rows(self, planned: Mapping[str, Any], num_threads: int | Literal["auto"] = "auto") -> Batch:
        with self.lock:
            if self._loader is None:
                self._loader = _open(planned, num_threads)
            loader, decisions = self._loader, planned["decisions"]
            if self._decisions != decisions:
                self._decisions = None  # until they are taken over whole
                folder = Folder(planned["log_dir"])
                with damage_is_said():
                    state = json.loads(folder.take_text(decisions))
                _decide(loader, state, folder.path)
                self._decisions = decisions
            epoch, step, (first, n) = planned["epoch"], planned["step"], planned["rows"]
            core = loader._asked(loader._core.batch_at, lambda: epoch)(epoch, step, first, n)
            return loader._batch(core)

    def close(self) -> None:
        with self.lock:
            loader, self._loader, self._decisions = self._loader, None, None
        if loader is not None:
            loader.close()


class _Opened:
    """Loaders that the last plans were of. Threads make rows of different ones at the same time."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self._made: OrderedDict[str, _Made] = OrderedDict()

    def of(self, run: str) -> _Made:
        with self.lock:
            made = self._made.pop(run, None) or _Made()
            self._made[run] = made
            over = [self._made.popitem(last=False)[1] for _ in range(len(self._made) - MOST_OPEN)]
        for each in over:
            each.close()
        return made


_opened = _Opened()


def _forget() -> None:
    """In a forked child: loaders and locks, which other threads may hold, are the parent's."""
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
        IndexError: the batch has no such rows.
        leat.BrokenSampleError: a sample is broken, and the loader's `on_error` is "raise".
        leat.UnsupportedError: operators of the program see batches as a whole, and the plan is not of all rows; or rows
            of an output differ in shape, and `out` names it.
        leat.InvalidError: an array of `out` is not as above; none of them has changed.
        KeyError: `out` names what is no output.

    >>> loader = leat.Loader(leat.open(path), batch_size=32, shuffle=True, seed=1)
    >>> part = leat.make_rows(loader.plan_rows(0, 1, rows=(8, 16)))
    >>> part.ids.tolist() == loader.plan(0, 1)[8:16].tolist()
    True
    """
    if not isinstance(planned, Mapping) or planned.get("leat.rows") != VERSION:
        raise StateError("not a plan of rows: give what Loader.plan_rows() gave, made by this version of leat")
    batch = rows_of(planned)
    into = {name: _array(array, batch[name], name) for name, array in ({} if out is None else out).items()}
    for name, array in into.items():
        np.copyto(array, batch[name])
    return batch


def rows_of(planned: Mapping[str, Any], num_threads: int | Literal["auto"] = "auto") -> Batch:
    """The rows of a plan. `num_threads`: of the loader that makes them, where this process has to open it."""
    _check(planned)
    return _opened.of(planned["run"]).rows(planned, num_threads)


def _check(planned: Mapping[str, Any]) -> None:
    """Raises StateError for a plan whose parts are not what a plan has."""
    rows = planned.get("rows")
    sound = {
        "loader": _is_kept(planned.get("loader")),
        "run": isinstance(planned.get("run"), str),
        "log_dir": isinstance(planned.get("log_dir"), (str, type(None))),
        "decisions": _is_kept(planned.get("decisions")),
        "epoch": is_number(planned.get("epoch")),
        "step": is_number(planned.get("step")),
        "rows": isinstance(rows, (list, tuple)) and len(rows) == 2 and all(map(is_number, rows)),
    }
    for name, is_sound in sound.items():
        if not is_sound:
            raise StateError(f"the plan of rows is damaged: {name!r} cannot be {planned.get(name)!r:.60}")


def _is_kept(value: Any) -> bool:
    return isinstance(value, (str, Mapping))


def _array(given: Any, value: Any, name: str) -> np.ndarray[Any, Any]:
    """The caller's memory for an output."""
    if not isinstance(value, np.ndarray):
        raise UnsupportedError(f"out[{name!r}]: rows of this output differ in shape: it comes in memory of its own")
    if not isinstance(given, np.ndarray) and not hasattr(given, "__array__"):  # of a list NumPy would make a copy
        raise InvalidError(f"out[{name!r}] has to be an array, not {type(given).__name__}")
    array = np.asarray(given)
    if (array.shape, array.dtype) != (value.shape, value.dtype) or not (
        array.flags.writeable and array.flags.c_contiguous
    ):
        raise InvalidError(
            f"out[{name!r}] has to be a writable, C-contiguous array of {value.dtype} with shape {value.shape}, not of "
            f"{array.dtype} with shape {array.shape} and strides {array.strides}"
        )
    return array


def _open(planned: Mapping[str, Any], num_threads: int | Literal["auto"]) -> Loader:
    folder = Folder(planned["log_dir"])
    with damage_is_said("the plan of rows"):
        text = folder.take_text(planned["loader"])
        if hashlib.sha256(text.encode()).hexdigest() != planned["run"]:
            raise StateError("the plan of rows is damaged: 'loader' has another hash than 'run' says")
        told = json.loads(text)
        options = {name: value_of(value, folder) for name, value in told["options"].items()}
        if options.keys() not in (OPTIONS, COSTED, PROMPTED):
            raise StateError(f"the plan of rows is damaged: a loader has other options than {sorted(options)!r:.200}")
        dataset = value_of(told["data"], folder)
        outputs, pickled = _outputs(told["outputs"], folder)
        order = _order(told["order"], folder)
        changed = dataset.fingerprint != told["fingerprint"]
    if changed:
        raise ChangedError("the files of this plan of rows have other contents than where it was made")
    if pickled is not None:
        import cloudpickle  # errors of what it loads are the functions' own

        outputs = cloudpickle.loads(pickled)
    loader = Loader(dataset, outputs=outputs, **options, **order, num_threads=num_threads, max_held_bytes=HELD)
    loader._form.become_numpy()  # functions get what they got in the run
    loader._log_dir = folder.path  # only to read in: nothing is decided here
    return loader


def _outputs(plain: Any, folder: Folder) -> tuple[Any, bytes | None]:
    """The program, or the bytes of a pickled one."""
    if plain is None:
        return None, None
    if "program" in plain:
        return program_from_json(folder.take_text(plain["program"]), allow_native=True), None
    return None, folder.take(plain["pickled"])


def _order(plain: dict[str, Any], folder: Folder) -> dict[str, Any]:
    if "blocks" in plain:
        return {"shuffle": Blocks(plain["blocks"], plain.get("window"))}
    if "weights" in plain:
        return {"sampler": Weighted(value_of(plain["weights"], folder), plain["n"], plain["again"])}
    if "positions" in plain:
        return {"sampler": value_of(plain["positions"], folder)}
    return {"sampler": Elsewhere()} if "sampler" in plain else {"shuffle": plain["shuffle"]}


def _decide(loader: Loader, state: dict[str, Any], log_dir: str | None) -> None:
    """Takes over the decisions of a run, with the lists of positions that they name."""
    with damage_is_said():
        lists = loader._prepare(state).lists
        if loader._sampler is not None:
            found = [load_list(str(log_dir), each["hash"]) for each in lists_elsewhere(state)]
            lists = [each for each in found if each is not None]
        loader._load(state, lists)
