"""Stages: functions of the user's on rows that the program has made, in Ray actors of their own."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import check
from ..data.ragged import Ragged
from ..data.schema import ARRAY, dtype_name
from ..data.sparse import as_sparse
from ..errors import InvalidError
from ..loading.batch import Form
from .parts import Assembled, Found, Made, joined, rows_between
from .tasks import Failed, Ran, host, portable

TAKEN = ("ids", "row_keys")  #: names that a stage gets beside the outputs


@dataclass(frozen=True)
class Stage:
    """A function on rows of batches, run by Ray actors behind the program: an embedding by a model, a filter's score.

    Args:
        fn: a function of ``{output: array}``, or a class that is made once in each actor and called like one. It gets
            NumPy arrays that are its own to write to (:class:`leat.Ragged`, :class:`leat.Sparse` and lists, where a
            loader gives these), with ``ids`` and ``row_keys``, and returns a dict of arrays of as many rows, whose
            names are new outputs, or take the place of those there were.
        num_gpus, num_cpus: of each actor.
        batch_size: a call has the rows ``[k * batch_size, (k + 1) * batch_size)`` of one global batch, the last one
            fewer. ``None``: a whole global batch.
        actors: ``(min, max)`` of them; ``None``: 1, and as many as fit.
        deterministic: the same rows give the same bytes, on any node. It is believed, and an error where bytes are seen
            to differ. ``False``: each batch is of one execution, and its hash is recorded in `log_dir` as it is handed
            out.
    """

    fn: Callable[..., Mapping[str, Any]]
    num_gpus: float = 0
    num_cpus: float = 1
    batch_size: int | None = None
    actors: tuple[int, int] | None = None
    deterministic: bool = True

    def __post_init__(self) -> None:
        if not callable(self.fn):
            raise TypeError(f"fn of a stage is a function or a class, not {self.fn!r:.60}")
        if self.batch_size is not None and self.batch_size < 1:
            raise ValueError(f"batch_size of a stage is at least 1, not {self.batch_size}")
        if self.actors is not None and not 1 <= self.actors[0] <= self.actors[1]:
            raise ValueError(f"actors of a stage are (min, max) with 1 <= min <= max, not {self.actors}")

        check.flag("deterministic", self.deterministic)

    @property
    def name(self) -> str:
        return str(getattr(self.fn, "__name__", type(self.fn).__name__))


class Runner:
    """The actor of a stage."""

    def __init__(self, fn: Any, name: str) -> None:
        self._fn, self._name = fn, name
        self._made: Any = None

    def where(self) -> str:
        """This machine."""
        return host()

    def call(self, cuts: Sequence[tuple[int, int]], *inputs: Any) -> tuple[Any, Any]:
        """The rows of `inputs` between `cuts` of each, through the function: :class:`Ran` and :class:`Made`, or
        :class:`Failed` twice."""
        node = host()
        try:
            if failed := [i for i in inputs if isinstance(i, Failed)]:
                return failed[0], None
            if self._made is None:
                self._made = self._fn() if isinstance(self._fn, type) else self._fn
            parts = [rows_between(made, a, b) for made, (a, b) in zip(inputs, cuts)]
            rows, own = joined(parts), joined(parts)  # the stage may write to its own
            if not len(rows.ids):  # all were left out
                return Ran(0, 0, node, 0.0, "", ()), rows._replace(node=node)
            began = time.perf_counter()
            found = self._made(arguments(own))
            seconds = time.perf_counter() - began
            made, types, digest = self._taken(rows, found, node)
            return Ran(made.nbytes, len(made.ids), node, seconds, digest, types), made
        except Exception as e:  # noqa: BLE001 whatever it is, it belongs to whoever reads that batch
            return Failed(portable(e), f"{node}, in stage {self._name!r}"), None

    def _taken(self, rows: Made, found: Any, node: str) -> tuple[Made, tuple[Any, ...], str]:
        if not isinstance(found, Mapping):
            raise InvalidError(f"the stage returned {type(found).__name__}: a dict of {len(rows.ids)} rows is wanted")
        outputs = {f[0]: (f, values, lie) for f, values, lie in rows.outputs}
        types, digest, sparse = [], hashlib.blake2b(digest_size=8), dict(rows.sparse)
        for name, value in found.items():
            if name in TAKEN:
                continue
            if sparse.pop(name, None) is not None:  # another value takes its place
                del outputs[f"{name}.columns"]
            made, columns = outputs_of(name, value, len(rows.ids))
            if columns and f"{name}.columns" in outputs:
                raise InvalidError(_TWICE.format(name))
            for output in made:
                outputs[output[0][0]] = output
                digest.update(output[0][0].encode() + output[1].tobytes())
                if output[2] is not None:
                    digest.update(output[2].tobytes())
                types.append((output[0][0], output[0][2], output[1].shape[1:]))
            if columns:
                sparse[name] = columns
                types.append((name, "sparse", (columns,)))
        if taken := [name for name in sparse if f"{name}.columns" in found]:
            raise InvalidError(_TWICE.format(taken[0]))
        whole = rows._replace(outputs=list(outputs.values()), node=node, sparse=sparse)
        return whole, tuple(types), digest.hexdigest()


def arguments(rows: Made) -> dict[str, Any]:
    """What a stage gets."""
    form, batch = Form("numpy"), Assembled(rows, (0, 0), None, {})
    form.sparse = rows.sparse
    taken: Any = batch
    form.learn(taken)
    return {**dict(form.batch(taken)), "ids": rows.ids, "row_keys": rows.row_keys}


Output = tuple[Found, np.ndarray[Any, Any], Any]
_TWICE = "an output cannot be called '{0}.columns': the columns of the sparse rows of '{0}' are"


def outputs_of(name: str, value: Any, n: int) -> tuple[list[Output], int]:
    """The outputs that a stage's value is, and the number of columns of sparse rows, which are two outputs: values and
    columns, with the same offsets.

    Raises:
        InvalidError: it is no array, or has another number of rows.
    """
    try:
        rows = as_sparse(name, value)
    except (TypeError, ValueError) as e:
        raise InvalidError(f"output of the stage: {e}") from e
    if rows is None:
        return [output_of(name, value, n)], 0
    parts = {name: rows.values, f"{name}.columns": rows.columns}
    return [output_of(part, Ragged(values, rows.offsets), n) for part, values in parts.items()], rows.n


def output_of(name: str, value: Any, n: int) -> Output:
    """An output that a stage returned.

    Raises:
        InvalidError: it is no array, or has another number of rows.
    """
    if not isinstance(name, str):
        raise InvalidError(f"the names of a stage's outputs are texts, not {name!r:.60}")
    if isinstance(value, Ragged):
        values, offsets = np.ascontiguousarray(value.values), np.ascontiguousarray(value.offsets, np.int64)
        if len(offsets) != n + 1:
            raise InvalidError(f"output {name!r} of the stage has {len(offsets) - 1} rows, and was given {n}")
        if (np.diff(offsets) < 0).any() or offsets[0] < 0 or offsets[-1] > len(values):
            raise InvalidError(f"output {name!r} of the stage has offsets that descend, or lie outside its values")
        values, offsets = values[offsets[0] : offsets[-1]], offsets - offsets[0]
        return (name, ARRAY, dtype_name(values.dtype), True, False), values, offsets
    array = np.ascontiguousarray(value.detach().cpu() if hasattr(value, "detach") else value)
    if array.dtype.kind not in "biufc":
        raise InvalidError(f"output {name!r} of the stage is {type(value).__name__}: an array of numbers is wanted")
    if not array.ndim or len(array) != n:
        rows = len(array) if array.ndim else "no"
        raise InvalidError(f"output {name!r} of the stage has {rows} rows, and was given {n}")
    return (name, ARRAY, dtype_name(array.dtype), False, False), array, None
