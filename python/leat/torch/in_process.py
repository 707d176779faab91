"""Batches that the process itself makes: ``num_workers=0``."""

from __future__ import annotations

import contextlib
import copy
import math
import types
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch.utils.data._utils import collate as torch_collate

from .. import _leat
from ..data.sparse import Sparse, collated
from ..workers import loop, transport
from ..workers.feed import Delivered, Planned
from ..workers.loop import ITER, ROWS, Job

_OWN = {  # functions of PyTorch's default collation
    torch.Tensor: "collate_tensor_fn",
    np.ndarray: "collate_numpy_array_fn",
    (np.bool_, np.number, np.object_): "collate_numpy_scalar_fn",
    float: "collate_float_fn",
    int: "collate_int_fn",
    str: "collate_str_fn",
    bytes: "collate_str_fn",
}
_FUNCTION_MODES = getattr(torch._C, "_len_torch_function_stack", None)
_DISPATCH_MODES = getattr(torch._C, "_len_torch_dispatch_stack", None)
_USES, _STORAGE = getattr(torch._C, "_storage_Use_Count", None), getattr(torch._C, "_storage_address", None)
_KEPT_BYTES = 1 << 18  # of memory that is used again: of less, the system's own allocator keeps the pages
_KEPT = 3  # pieces for each tensor: the batch that is made, the one at hand, and one that was just let go
_RESTING_BYTES = 64 << 20  # that a loader keeps between two epochs
_LEARNED_FROM = 3  # the batch that the layout is learned from: shorter epochs do not pay for it
_DIFFERING = 2  # batches in a row with samples that differ: then samples are collated as they are


def _own(name: str) -> Any:
    """PyTorch's function of that name; None if another has been put in its place before leat was imported."""
    found = getattr(torch_collate, name, None)
    return found if isinstance(found, types.FunctionType) and found.__globals__ is vars(torch_collate) else None


_COLLATE, _PRISTINE = _own("default_collate"), {kind: _own(name) for kind, name in _OWN.items()}
_PRISTINE[Sparse] = collated
loop.collate_sparse_rows()


def is_default(collate: Any) -> bool:
    """Whether samples become a batch by PyTorch's own default collation, whose map nobody has changed."""
    return collate is not None and collate is _COLLATE and torch_collate.default_collate_fn_map == _PRISTINE


def collates_plainly(job: Job) -> bool:
    """Whether rows become a batch by PyTorch's own default collation, which leat may then do."""
    items = getattr(job.dataset, "__getitems__", None)
    return bool(
        is_default(job.collate) and job.auto_collation and not job.iterable and not items and job.on_error == "raise"
    )


def _modes() -> bool:
    """Whether something looks at PyTorch's functions, such as a default device: they are to be called then."""
    return _FUNCTION_MODES is None or _DISPATCH_MODES is None or bool(_FUNCTION_MODES() or _DISPATCH_MODES())


class Gathering:
    """Batches of the default collation: each sample goes to its row at once, while it is in the processor's cache, and
    its memory serves the next one. Tensors are new ones in ordinary memory, the same as PyTorch's.
    """

    def __init__(self) -> None:
        self.job: Any = None
        self.before: Any = None
        self.made = 0
        self.differing = 0
        self.spec: Any = None
        self.core: Any = None
        self.memory: list[_Memory] = []  # of each array

    @classmethod
    def of(cls, loader: Any, job: Job) -> Gathering:
        """One for an epoch of this loader; it knows the results of the epoch before."""
        found = loader.__dict__.pop("_gathering", None) or cls()
        found.job, found.before = job, loop.reseed_row if job.reseed else None
        return found

    def rest(self, loader: Any) -> None:
        """Ends an epoch: the next one of this loader goes on with the layout, and with memory that is not much."""
        if sum(memory.bytes for memory in self.memory) > _RESTING_BYTES:
            for memory in self.memory:
                memory.kept.clear()
        self.job = self.before = None
        loader.__dict__["_gathering"] = self  # not of its copies and pickles

    def batch(self, planned: Planned) -> Any:
        """The batch of these rows."""
        rows, indices = planned.rows, planned.indices
        keys = planned.seed, planned.epoch, planned.first_row
        collate: Any = self.job.collate
        if self.core is None or _modes() or not is_default(collate):
            samples = _leat.samples(None, self.job.dataset, indices.tolist(), self.before, *keys)
            self.made += 1
            if self.made == _LEARNED_FROM:
                self._learn(samples[0])
            return collate(samples)
        tensors = [memory.tensor(rows) for memory in self.memory]
        at, odd, found = self.core.gather(self.job.dataset, indices, self.before, *keys, tensors)
        if at == rows:
            self.differing = 0
            return found
        samples = [*self._gathered(at, tensors, found), odd]
        seed, epoch, first_row = keys
        samples += _leat.samples(
            None, self.job.dataset, indices[at + 1 :].tolist(), self.before, seed, epoch, first_row + at + 1
        )
        self.differing += 1
        if self.differing == _DIFFERING:
            self.core, self.memory = None, []
        return collate(samples)

    def _learn(self, sample: Any) -> None:
        self.spec = transport.describe(sample)
        if self.spec is not None and transport.buffers_of(self.spec) <= transport.MAX_BUFFERS:
            self.core = _leat.Layout(self.spec)
            self.memory = [_Memory(shape, dtype) for shape, dtype in transport.tensors_of(self.spec)]

    def _gathered(self, rows: int, tensors: list[Any], texts: list[Any]) -> list[Any]:
        """The samples that were gathered before one that differs."""
        arrays = [transport.array_of(tensor) for tensor in tensors]
        n = self.core.n_texts
        return [transport.rebuild(self.spec, arrays, row, texts[row * n : (row + 1) * n]) for row in range(rows)]


class _Memory:
    """Gives tensors of one kind. Large ones lie in the memory of batches that nothing refers to any more: pages that
    are new to a process cost more than the copies to them.
    """

    def __init__(self, shape: tuple[int, ...], dtype: Any) -> None:
        self.shape, self.dtype = shape, dtype
        # (tensor of ours over the memory, its storage, its address: another for memory that came to be shared)
        self.kept: list[tuple[Any, int, int]] = []

    @property
    def bytes(self) -> int:
        """That are kept."""
        return sum(int(ours.nbytes) for ours, _, _ in self.kept)

    def tensor(self, rows: int) -> Any:
        """A tensor of so many rows, whose values are of no meaning."""
        shape = (rows, *self.shape)
        size = math.prod(shape) * self.dtype.itemsize
        if size < _KEPT_BYTES or _USES is None or _STORAGE is None:
            return torch.empty(shape, dtype=self.dtype, device="cpu")
        for ours, storage, address in self.kept:
            if _USES(storage) == 1 and ours.shape == shape and ours.data_ptr() == address:
                return torch.empty(0, dtype=self.dtype, device="cpu").set_(ours)
        made = torch.empty(shape, dtype=self.dtype, device="cpu")
        self.kept = [*self.kept[1 - _KEPT :], (made.detach(), _STORAGE(made), made.data_ptr())]
        return made


def _row() -> tuple[int, ...]:
    """The row at hand, which may be another loader's whose data set iterates over this one, and its turn."""
    row = _leat.current_row()
    return () if row is None else (*row, _leat.current_turn())


class InProcess:
    """Batches made by the process itself: ``num_workers=0``. `left`: the epoch before was, within it."""

    def __init__(
        self,
        loader: Any,
        job: Job,
        plan: Iterator[Planned],
        resume: Any,
        ended: set[int],
        key: tuple[int, int, int],
        left: bool,
    ) -> None:
        self.job, self.plan = job, plan
        self.gathering = Gathering.of(loader, job) if collates_plainly(job) else None
        self.stats = {"batches": 0, "broken": 0}
        self.failed: Planned | None = None
        self.again: Planned | None = None  # a batch that was interrupted
        self.waiting = False  # nothing is in progress
        self.ended = ended
        self.end_states: dict[int, Any] = {}
        self.stream: Any = None
        self.begun: Any = None  # the state before the first batch
        if job.iterable:
            outer = _row()
            try:
                self.stream = loop.stream(job, None if resume is None else (resume[0], -resume[1]), *key, 1)
            finally:
                _leat.set_current_row(*outer)
            state = None
            if resume is None:
                with contextlib.suppress(Exception):  # it may have none before its first sample
                    state = loop.stream_state(job, self.stream)
            marks = {"begin": True, "left": True} if left and "dataset" in (state or {}) else {"begin": True}
            self.begun = None if state is None else copy.deepcopy(state | marks)

    def next(self, timeout_s: float | None = None) -> Delivered | None:
        """The next batch: its positions are read from the sampler now, and no later ones; None at the end."""
        self.waiting = False
        planned = self.again if self.again is not None else next(self.plan, None)
        self.again = None
        if planned is None:
            return None
        outer = _row()
        try:
            return self._make(planned)
        except StopIteration as e:
            if planned.kind != ITER:  # of the data set, or of the collate function: it ends no epoch
                self.failed = planned
                raise RuntimeError(f"batch {planned.step}: a sample or collate_fn raised StopIteration") from e
            self.ended.add(0)
            if (state := loop.end_state(self.job, self.stream)) is not None:
                self.end_states[0] = copy.deepcopy(state)
            return None
        except Exception:
            self.failed = planned
            raise
        except BaseException:  # Ctrl-C: the batch is made again
            if planned.kind != ITER:
                self.again, self.waiting = planned, True
            raise
        finally:
            _leat.set_current_row(*outer)

    def _make(self, planned: Planned) -> Delivered:
        self.stats["batches"] += 1
        if planned.kind == ITER:
            _leat.set_current_row(planned.seed, planned.epoch, planned.first_row)
            value = next(self.stream)
            # as a worker's, which goes on to change what it has sent
            return Delivered(planned, value, [], copy.deepcopy(loop.stream_state(self.job, self.stream)))
        if self.gathering is not None and planned.kind == ROWS and not self.job.reseed:
            return Delivered(planned, self.gathering.batch(planned), [])
        indices = planned.asked
        # the training draws from them too
        with loop.kept_generators() if self.job.reseed else contextlib.nullcontext():
            if self.gathering is not None and planned.kind == ROWS:
                return Delivered(planned, self.gathering.batch(planned), [])
            worker = _Local(self.job)
            value, broken = worker.whole(worker.client, planned, indices)
        self.stats["broken"] += len(broken)
        return Delivered(planned, value, [(row, indices[row], other, reason) for row, other, reason in broken])

    def rest(self, loader: Any) -> None:
        """The epoch is over: the loader's next one may use its memory."""
        if self.gathering is not None and loader is not None:
            self.gathering.rest(loader)
            self.gathering = None

    def close(self) -> None:
        """Does nothing: there is nothing to end."""


class _Local(loop.Worker):
    """Makes a batch as a worker does."""

    def __init__(self, job: Job) -> None:
        self.client: Any = loop._Client(None, job)  # type: ignore[arg-type]
        self.index = None

    def row(self) -> int:
        return 0

    def where(self, calls: bool = False) -> str:
        return "in the main process"
