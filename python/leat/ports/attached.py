"""A reader attached to a port: a loader like any other, whose batches another process makes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Literal

import numpy as np

from .. import _leat, check, ranks, skipping
from ..closing import finalize
from ..data.schema import Field, sparse
from ..device.card import card_of
from ..errors import StateError, UnsupportedError
from ..genes import by_columns, no_genes
from ..loading import on_card
from ..loading.agreement import Agreement
from ..loading.batch import Batch
from ..loading.reader import Pass, Reader
from ..program import Outputs, compiled_program, entries, has_functions, sparse_outputs, sparse_parts
from ..sharing.known import LAGS, Folder, path_of, text_of
from .form import form_of
from .order import ids_of
from .port import milliseconds

STARTS = {"here": 0, "beginning": 1}


def attach(
    name: str,
    batch_size: int | None = None,
    *,
    outputs: Outputs | None = None,
    key: int = 0,
    samples: Any = None,
    seed: int = 0,
    rank: int | None = None,
    world_size: int | None = None,
    lag: Literal["recompute", "wait"] = "recompute",
    writable: bool = False,
    start: Literal["here", "beginning"] = "here",
    tail: Literal["pad", "drop", "uneven"] = "pad",
    framework: Literal["torch", "numpy", "auto"] | None = None,
    yields: Literal["dict", "tuple"] | None = None,
    device: Any = None,
    device_budget_bytes: int | None = None,
    folder: Folder = None,
    label: str | None = None,
    patience: float | None = 10.0,
) -> Attached:
    """Attaches to a port of this host (:class:`leat.Port`, ``leat serve``): a loader whose batches are made there.

    It gets the same rows in the same order, with the same bytes, as a loader of its own with this batch size, rank and
    world size would give it.

    Args:
        name: of the port.
        batch_size: rows per batch and rank. None: as the port's loader.
        outputs: other outputs than those of the port, as for a :class:`leat.Loader`, without functions. The port makes
            them beside its own, and for all readers that want the same ones; a photo is decoded once for all.
        key: a whole number below 2**63 that the keys of rows are mixed with: the same rows with other random draws
            (crops, flips, noise), the same for all of the same key. 0: those of the port.
        samples: ids of samples of the port's data set, each once, or a view of it (its ``ids``): an epoch reads these
            alone, in a random order of its own that gives, at each sample, as likely as can be the one that another
            reader reads at the same time (:func:`leat.ports.dependent_order`; docs/ports.md). For one rank; epochs
            count from 0.
        seed: of the order of `samples`.
        rank, world_size: of data-parallel training; None: from ``torch.distributed``, else RANK and WORLD_SIZE, else 0
            of 1, as for a :class:`leat.Loader`.
        lag: the treatment of this reader if it is slower than others by more than the port's memory holds:
            ``"recompute"``: batches that were given up are made again for it; ``"wait"``: the others wait for it.
        writable: True: batches may be written to, and pages are copied when they are. False: arrays are read-only;
            PyTorch has no such tensors, and **writing to one ends the process** with a bus error or segmentation fault.
        start: ``"here"``: at the reader that is farthest ahead; ``"beginning"``: at the beginning of the epoch that it
            is in.
        tail: the treatment of the last rows of an epoch: ``"pad"``, ``"drop"``, ``"uneven"``.
        framework: ``"torch"``, ``"numpy"``, or ``"auto"``: torch if it is imported. None: as in the port's loader.
        yields: ``"dict"`` or ``"tuple"``. None: as in the port's loader.
        device: ``"cuda"``: batches come on that card, as of a :class:`leat.Loader`: from the port's memory there if it
            has ``device=`` of the same card, so that they cross the link once for all readers, else from the host.
        device_budget_bytes: bound of the card's memory for batches of this reader. None: half of what is free.
        folder: that of the port's socket. None: as for :class:`leat.Port`.
        label: shown by ``leat port stat``. None: the name of this process.
        patience: the seconds to wait for a port that is not there: when attaching and, once the port has ended, for
            another one of its name over the same data, from which the reader then goes on. None: without end.

    Raises:
        leat.MissingNameError, FileNotFoundError: there is no such port.
        ValueError: an argument is not valid.
        OSError: it may not be attached to.
        leat.UnsupportedError: the port is of another version of leat; `outputs` has functions in Python.
        leat.ProgramError, leat.MissingNameError: `outputs` do not fit the fields of the data set.
        leat.HeldError: the port has no memory for one more.
    """
    name, numbers = text_of(name), {"rank": rank, "world_size": world_size}
    size = 0 if batch_size is None else check.integer("batch_size", batch_size, 1)
    if yields not in (None, "dict", "tuple"):
        raise ValueError(f"yields is 'dict' or 'tuple', not {yields!r}")
    if framework not in (None, "auto", "torch", "numpy"):
        raise ValueError(f"framework is 'torch', 'numpy' or 'auto', not {framework!r}")
    if label is not None and (not isinstance(label, str) or "\0" in label):
        raise TypeError(f"label is a str, not {label!r:.60}")
    found, count, distributed = ranks.find(**numbers)
    ids = None if samples is None else ids_of("samples", samples)
    if ids is not None and count != 1:
        raise ValueError(
            f"samples of one's own have an order of their own on each of {count} ranks: give each rank samples of its "
            "own, with rank=0 and world_size=1, or let all of them read the port's order"
        )
    if ids is not None and not ids.size:
        raise ValueError("samples has no sample")
    if ids is None and check.seed(seed):
        raise ValueError("seed is of the order of samples=: without them a reader has the port's order")
    options: dict[str, Any] = {
        "name": name,
        "folder": path_of(folder),
        "batch_size": size,
        "rank": found,
        "world_size": count,
        "tail": check.choice("tail", tail, check.TAILS),
        "lag": check.choice("lag", lag, LAGS),
        "beginning": bool(check.choice("start", start, STARTS)),
        "writable": check.flag("writable", writable),
        "label": label,
        "patience_ms": -1 if patience is None else milliseconds("patience", patience),
        "outputs": None if outputs is None else program_of(outputs),
        "key": check.integer("key", key),
        "samples": ids,
        "seed": check.seed(seed),
    }
    card = None if device is None else card_of(device)
    budget = 0 if device_budget_bytes is None else check.integer("device_budget_bytes", device_budget_bytes, 1)
    there = None if card is None else on_card.OnCard(card, 0, budget)
    core = _leat.Attached.open(**options)
    try:
        if outputs is not None and (fields := _sparse_fields(core)):  # which the port knows
            outputs = sparse_parts(outputs, fields)
            core.close()
            core = _leat.Attached.open(**options | {"outputs": program_of(outputs or {})})
        made = Attached(core, name, size, (found, count, distributed), tail, framework, yields, options, there)
        if outputs is not None:
            made._form.sparse = sparse_outputs(entries(outputs), _sparse_fields(core))
        return made
    except BaseException:
        core.close()
        raise


def _sparse_fields(core: _leat.Attached) -> dict[str, Field]:
    """The fields of sparse rows, as far as their outputs need it: the number of columns."""
    told = json.loads(core.about()).get("about", {}).get("sparse_fields", {})
    return {str(name): sparse("uint8", n) for name, n in told.items()}


def program_of(outputs: Outputs) -> str:
    if has_functions(outputs):
        raise UnsupportedError(
            "functions in Python (leat.ops.Map, MapBatch) do not run in a port: run them on what leat.attach gives"
        )
    text, functions = compiled_program(by_columns(outputs, no_genes) or {})
    if functions:
        raise UnsupportedError("a port does not take functions of others (leat.ops.Native): serve a loader that has it")
    return text


class Attached(Reader):
    """A loader whose batches a port makes, given by :func:`leat.attach`. Iterating once is one epoch, iterating again
    the next one, as with a :class:`leat.Loader`.

    If the port ends and another one of its name comes in its place, over the same data, in the same order, this one
    goes on there at its position.
    """

    def __init__(
        self,
        core: _leat.Attached,
        name: str,
        batch_size: int,
        place: tuple[int, int, bool],
        tail: str,
        framework: str | None,
        yields: str | None,
        options: dict[str, Any],
        there: on_card.OnCard | None,
    ) -> None:
        skipping.install_if_here()
        self._key = options["key"]
        self.name = name  #: of the port
        self.about: dict[str, Any] = json.loads(core.about())  #: the port's description of itself
        told = self.about.get("about", {})
        self.batch_size: int = batch_size or self.about["batch_size"]
        self.rank, self.world_size, distributed = place
        self._tail = tail
        self._form = form_of(self.about, framework)
        self._form.check_rows(self.batch_size)
        self._yields = yields or told.get("yields", "dict")
        self._core = core
        self._next, self._peek = core.next, core.peek
        self._open_there(there, told.get("tables", []) if options["outputs"] is None else [])
        self._finalizer = finalize(self, _close, core, there)
        self._finalizer.atexit = False
        fingerprint = str(self.about["fingerprint"])
        reads = f"port {name!r} over data of fingerprint {fingerprint[:8]}"
        self._agreement = Agreement(distributed, self._finalizer, reads, fingerprint)

    def _open_there(self, there: on_card.OnCard | None, tables: list[Any]) -> None:
        """Takes batches to a card; `tables`: of what the port's own outputs become there."""
        if there is None and tables:
            names = ", ".join(repr(table[0]) for table in tables)
            raise UnsupportedError(
                f"port {self.name!r} serves a card, which makes values of the bytes of {names}: attach with "
                "device='cuda', or with outputs= of your own"
            )
        if there is None:
            return
        on_card.check_together(there.card, None, None, self._form.framework, {})
        self._form.card = there
        if not self._form.by_host:
            try:
                told = [on_card.table_told(table) for table in tables]
            except (TypeError, ValueError) as e:
                raise StateError(f"the port says of its tables what this version does not understand ({e})") from None
            there.open(self._core, told)

    def __iter__(self) -> Iterator[Any]:
        self._go_back()
        self._agreement.begin(self._core.epoch())
        self._loaded = False
        return Pass(self, self._core.start())

    def _is_within(self) -> bool:
        return self._loaded and bool(self.state_dict()["at"]["row"])

    def _begin_at(self, step: int) -> None:
        """As of a loader: the next iteration begins with that batch of its epoch, unless a position within it was
        loaded.
        """
        if not step or self._is_within():
            return
        iter(self)  # which says the epoch
        state = self.state_dict()
        row = step * self.batch_size * self.world_size
        self.load_state_dict({**state, "at": {**state["at"], "row": row}, "step": step})

    def _take(self, number: int) -> Any:
        self._agreement.check()
        core, batch = self._taken(number)
        if core is None:
            self._agreement.check()
            return None
        self._agreement.left -= 1
        if not self._agreement.left:
            self._agreement.compare(core.epoch(), core.step(), self._common)
        return self._given(self._batch(core) if batch is None else batch)

    def _common(self, place: tuple[int, int]) -> dict[str, str]:
        """The values that all ranks must have in common, at any epoch and step."""
        return {
            "the data set": str(self.about["fingerprint"]),
            "order or seed": str(self.about["order"]),
            "outputs and key": repr((self.about["program"], self._key)),
            "batch_size": str(self.batch_size),
            "world_size": str(self.world_size),
            "tail": self._tail,
        }

    def plan(self, epoch: int, step: int) -> np.ndarray[Any, np.dtype[np.int64]]:
        """The sample ids planned for this rank's batch `step` of `epoch`: int64."""
        return np.asarray(self._core.plan(*check.step(epoch, step)))

    def batch_at(self, epoch: int, step: int) -> Batch:
        """That batch, made again. The position does not move.

        Raises:
            IndexError: the epoch has no such step.
        """
        return self._batch(self._core.batch_at(*check.step(epoch, step)))

    def stats(self) -> dict[str, Any]:
        """Statistics since it was attached; docs/ports.md names the keys."""
        found: dict[str, Any] = json.loads(self._core.stats())
        if self._form.card is not None and not self._form.by_host:
            found["device"] = self._form.card.stats()
        return found

    def __reduce__(self) -> tuple[Any, ...]:
        raise TypeError(
            "what is attached to a port cannot be pickled: pickle its state_dict(), and call leat.attach in the other "
            "process"
        )

    def __repr__(self) -> str:
        return (
            f"<leat.attach({self.name!r}), batches of {self.batch_size}, rank {self.rank} of {self.world_size}"
            f"{'' if self._finalizer.alive else ', closed'}>"
        )


def _close(core: _leat.Attached, there: on_card.OnCard | None) -> None:
    if there is not None:
        there.close()
    core.close()
