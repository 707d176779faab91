"""Reading a sampler: one batch of positions at a time, so that another process can read on from any of them.

A sampler is the user's own program. It may draw from any generator, when iteration begins, at the first batch or at
each; keep an epoch counter; hold other samplers; or offer ``state_dict``. A state holds these facts:

- of a sampler with ``state_dict`` (or of an iterator with one): its state after the last batch delivered;
- of any other: the generators and the attributes as they were when it began. It is read again from there, and a
  checksum of the batches tells whether it gave the same ones;
- in both cases, the generators that it drew from as they are now: it goes on drawing from these.
"""

from __future__ import annotations

import contextlib
import copy
import warnings
import weakref
import zlib
from collections import deque
from collections.abc import Callable, Iterator, Sized
from typing import Any

import numpy as np
import torch
from torch.utils.data import BatchSampler, RandomSampler
from torch.utils.data.distributed import DistributedSampler

from .. import ranks
from ..errors import StateError
from ..sampling.generators import GLOBAL, mark, set_state, state_of
from ..sampling.known import AT_ONCE, Known
from ..workers.feed import Planned
from ..workers.loop import ROWS, WHOLE

_NUMBERS = {int, np.int64, np.int32, np.int16, np.int8, np.uint8, np.uint16, np.uint32}
_PLAIN = {*_NUMBERS, float, str, bytes, bool, type(None)}
_OTHERS_AT_ONCE = {("leat.torch.order", "Shuffled"), ("accelerate.data_loader", "SeedableRandomSampler")}
_WATCHED, _SOMETIMES = 16, 16  # reads at which draws are looked for: the first ones, and every 16th


def innermost(source: Any) -> Any:
    """The sampler that decides, inside PyTorch's and Accelerate's batch samplers."""
    while type(source) is BatchSampler or type(source).__module__ == "accelerate.data_loader":
        inside = getattr(source, "batch_sampler", None) or getattr(source, "sampler", None)
        if inside is None:
            break
        source = inside
    return source


def draws_at_once(source: Any) -> bool:
    """Whether a sampler draws all it needs before its first batch, so that it may be read far ahead."""
    found: Any = innermost(source)
    if type(found) is RandomSampler:  # from a generator that it is given it draws at its end, too
        return found.generator is None
    return type(found) in AT_ONCE or (type(found).__module__, type(found).__name__) in _OTHERS_AT_ONCE


class Reading(Known, Iterator[Planned]):
    """The batches that the sampler of a loader names in one epoch, read on demand.

    Args:
        order: has the loader, the epoch and the seed of its rows.
        passed: batches that were delivered before; the first to be given comes after them.
        skip: tells of a step beyond these whether it was delivered, too.
        saved: the result of `state`, or None: a sampler that begins, or (`passed` > 0) is read from where it is.
    """

    def __init__(self, order: Any, passed: int, skip: Callable[[int], bool], saved: dict[str, Any] | None) -> None:
        super().__init__(order.loader)
        self._order = weakref.ref(order)  # which has this: no cycle is left to the garbage collector after each epoch
        self.passed, self.skip, self.saved = passed, skip, saved
        self.count = self.row = 0  # batches, and their rows, read so far
        self.crc: int | None = 0 if self.stateful is None else None
        self.over = False
        self.cut = False  # batches are cut from an array
        self.pending: deque[Planned] = deque()  # read again, to be given first
        self.unread: dict[int, Any] = {}  # positions of batches that were read, and are not delivered
        self.after: dict[int, tuple[Any, Any, int]] = {}  # such a step -> states of sampler and iterator, and the row
        self.draws: dict[str, dict[str, Any]] = {}  # generator -> where it was first drawn from, and its state before
        self.last: dict[str, Any] = {}  # marks after a draw
        self.again: set[str] = set()  # generators that were drawn from more than once
        self.disturbed = False  # others drew from one of these in between
        self._begin(saved if saved is not None else {})

    @property
    def order(self) -> Any:
        """The holder of this reading: it lives as long as somebody reads."""
        return self._order()

    # ---- reading -------------------------------------------------------------------------------------------------

    def __next__(self) -> Planned:
        while True:
            planned = self.pending.popleft() if self.pending else self._read()
            if planned.step >= self.passed and not self.skip(planned.step):
                return planned

    def _read(self) -> Planned:
        step = self.count
        usual = self.theirs or (not self.again and step >= _WATCHED and step % _SOMETIMES)
        try:
            if step and usual:
                indices = next(self.iterator)
            elif self.seeded:
                indices = self._first()
            else:
                with self._drawing(step):
                    indices = next(self.iterator)
        except StopIteration:
            self.over = True
            raise
        planned = self._planned(indices, step, self.row)
        self.count += 1
        self.row += planned.rows
        self.crc = _checksum(planned.indices, self.crc)
        if not self.theirs:
            self.unread[step] = planned
            if self.stateful is not None or hasattr(self.iterator, "state_dict"):
                self.after[step] = self._states()
        return planned

    def _planned(self, indices: Any, step: int, row: int) -> Planned:
        order, loader, kind = self.order, self.loader, WHOLE
        if self.cut:
            return Planned(indices, len(indices), ROWS, order.key_seed, order.epoch, step, row)
        if not loader._auto_collation:
            return Planned(indices, 1, WHOLE, order.key_seed, order.epoch, step, row)
        given = None
        if type(indices) is not list:
            asked = loader.on_error == "raise" and getattr(loader.dataset, "__getitems__", None)
            if asked and isinstance(indices, Sized):
                given = copy.deepcopy(indices)  # the sampler may fill the same array again
            indices = list(indices)
        rows = len(indices)
        types = set(map(type, indices))
        if types and types <= _NUMBERS:
            try:
                found = np.array(indices, np.int64)
            except (ValueError, TypeError, OverflowError):  # beyond 64 bits
                pass
            else:
                if found.shape == (rows,):
                    indices, kind = found, ROWS
        return Planned(indices, rows, kind, order.key_seed, order.epoch, step, row, given=given)

    def _first(self) -> Any:
        """The first batch of a sampler of PyTorch's that draws its seed now."""
        sampler, generator = self.sampler, torch.Generator().manual_seed(self.order.draw_sampler_seed())
        n = sampler.num_samples
        if type(self.source) is BatchSampler and not sampler.replacement and n == len(sampler.data_source):
            # the results of both, without a Python number for each row of the epoch
            self.cut, size = True, self.source.batch_size
            positions = torch.randperm(n, generator=generator).numpy()
            end = n - n % size if self.source.drop_last else n
            self.iterator = (positions[first : first + size] for first in range(0, end, size))
            return next(self.iterator)
        sampler.generator = generator
        try:
            return next(self.iterator)
        finally:
            sampler.generator = None

    @contextlib.contextmanager
    def _drawing(self, at: int) -> Iterator[None]:
        """Notes which generators are drawn from at a read, or (`at` below 0) when iteration begins."""
        everything = at < _WATCHED or at % _SOMETIMES == 0
        watched = self.generators if everything else {name: self.generators[name] for name in self.again}
        before = {name: mark(generator) for name, generator in watched.items()}
        try:
            yield
        finally:
            for name, generator in watched.items():
                after = mark(generator)
                if after == before[name]:
                    continue
                if name in self.draws:
                    self.again.add(name)
                    self.disturbed |= self.last[name] != before[name]
                else:
                    self.draws[name] = {"at": at, "state": before[name]}
                self.last[name] = after
                if name in GLOBAL:
                    self.watch.drawn.add(name)

    def _states(self) -> tuple[Any, Any, int]:
        """For the sampler and its iterator, which may go on to change their results."""
        return (
            None if self.stateful is None else copy.deepcopy(self.stateful.state_dict()),
            copy.deepcopy(self.iterator.state_dict()) if hasattr(self.iterator, "state_dict") else None,
            self.row,
        )

    def delivered(self, steps: int) -> None:
        """The first so many batches of the epoch are delivered."""
        if not (self.unread or self.after):
            return
        for step in [step for step in self.unread if step < steps]:
            del self.unread[step]
        for step in [step for step in self.after if step < steps - 1]:  # the state takes that of the last one
            del self.after[step]

    # ---- beginning, and reading again ----------------------------------------------------------------------------

    def _begin(self, saved: dict[str, Any]) -> None:
        """Begins to iterate over the sampler, with everything as it was when the saved epoch began."""
        draws = saved.get("draws", {})
        known = "count" in saved
        # between epochs, a sampler that is told its epoch may have been told it since the state was loaded
        self.put_back(saved, known and not self.theirs, None if known else False, draws if known else ())
        self.attributes = {} if self.theirs else self.watch.now(self.loader)
        self.inside = {path: copy.deepcopy(each.state_dict()) for path, each in self.inner.items()}
        # of the sampler as it was before the first read
        began = saved.get("sampler")
        began = copy.deepcopy(self.stateful.state_dict()) if began is None and self.stateful is not None else began
        self.began = (began, None, saved.get("row", 0))
        self.begun = 0
        self.iterate(-2)

    def iterate(self, at: int = -1) -> None:
        """Calls the sampler's ``__iter__``; again after the workers' seed, if there are workers, as PyTorch does."""
        saved = self.saved or {}
        self._set_before(at)
        if self.seeded:
            self.iterator = iter(self.source)
        else:
            with self._drawing(at):
                self.iterator = iter(self.source)
        self.begun += 1
        if saved.get("iterator") is not None and hasattr(self.iterator, "load_state_dict"):
            self.iterator.load_state_dict(saved["iterator"])
        if hasattr(self.iterator, "state_dict"):
            self.began = (self.began[0], copy.deepcopy(self.iterator.state_dict()), self.began[2])

    @property
    def draws_at_end(self) -> bool:
        """Whether later draws depend on the sampler being read to its end: RandomSampler draws there."""
        return type(self.sampler) is RandomSampler and not self.seeded

    @property
    def begins_twice(self) -> bool:
        """Whether the sampler's ``__iter__`` was called twice when the state was taken."""
        return (self.saved or {}).get("begun") == 2

    def seed_was_drawn(self) -> None:
        """The workers' seed was drawn after the iteration had begun: a draw that is repeated when it is read again."""
        self.last |= {name: mark(self.generators[name]) for name in self.last}

    def read_again(self) -> None:
        """Reads the rows again that were read before the state was taken, and keeps those that were not delivered."""
        saved = self.saved
        if saved is None or "count" not in saved:
            return
        n, here = saved.get("rank", self._place())[1], self._place()[1]
        if type(self.sampler) is DistributedSampler and n != here:
            raise StateError(
                f"the state is of a DistributedSampler of {n} ranks, and this one is of {here}: their shares of an "
                "epoch differ, and samples would be lost or repeated"
            )
        draws = dict(saved.get("draws", {}))
        if self.theirs and "torch" in draws:  # this process's generator goes on as if the sampler had begun here
            next(iter(self.source), None)
            own = mark(self.generators["torch"])
        goes_on = self.stateful is not None or saved.get("iterator") is not None
        if goes_on:
            # it goes on from its state: only the draws before its first batch are drawn again
            self.count, self.row, self.crc = saved["at"], saved["row"], None
            if draws and self.count:
                self._set_before(0)
                with contextlib.suppress(StopIteration):
                    self.pending.append(self._read())
        else:
            while self.count < (saved["count"] or (self.theirs and "torch" in draws)):
                self._set_before(self.count)
                try:
                    self.pending.append(self._read())
                except StopIteration:
                    if not saved["count"]:
                        break
                    raise StateError(
                        f"the state counts more batches than the sampler gives now: {saved['count']}, not {self.count}"
                    ) from None
            self._compare(saved)
        if saved.get("over") and not self.over:
            with contextlib.suppress(StopIteration):
                self.pending.append(self._read())  # runs the end of a sampler
        if "pending" in saved:
            if saved["rank"] != self._place():
                raise StateError(
                    f"the state holds batches that the sampler named on rank {saved['rank'][0]} of {saved['rank'][1]}"
                )
            named = [self._planned(indices, step, row) for step, row, indices in saved["pending"]]
            self.pending = deque([*named, *(planned for planned in self.pending if planned.step >= saved["count"])])
            self.unread |= {planned.step: planned for planned in named}
        self.delivered(self.passed)
        for name, state in saved.get("now", {}).items():
            self._set(name, state)
        if self.theirs and "torch" in draws:
            set_state(self.generators["torch"], state_of(self.generators["torch"], own))
        if goes_on and not self.count:  # it reads nothing again: it is about to draw what it drew then
            for name in [name for name, draw in draws.items() if draw["at"] >= 0]:
                self._set(name, draws.pop(name)["state"])
        self.draws |= {name: dict(draw, saved=True) for name, draw in draws.items() if name in self.generators}
        self.again |= set(saved.get("again", ())) & self.generators.keys()
        self.last = {name: mark(self.generators[name]) for name in self.draws}
        self.disturbed = bool(saved.get("disturbed"))

    def _compare(self, saved: dict[str, Any]) -> None:
        if saved.get("disturbed") or saved.get("crc") is None or saved.get("rank") != self._place():
            return
        if self.count == saved["count"] and self.crc != saved["crc"]:
            raise StateError(
                f"the sampler ({type(innermost(self.source)).__name__}) gives other batches than those that were read "
                "when the state was taken: it was made with other arguments, or depends on something that the state "
                "does not hold. Give it state_dict() and load_state_dict(), or a generator as one of its attributes"
            )

    def _set_before(self, at: int) -> None:
        for name, draw in (self.saved or {}).get("draws", {}).items():
            if draw["at"] == at:
                self._set(name, draw["state"])

    # ---- the state -----------------------------------------------------------------------------------------------

    def state(self, step: int, over: bool) -> dict[str, Any]:
        """The data that another process needs to read on after the first `step` batches; `over`: with the next
        epoch."""
        if over:
            return self.between()
        held = self.generators.keys() - {*GLOBAL, "generator"}
        if not self.theirs:  # as long as nobody knows the generators that it will draw from, all of them
            held |= self.watch.drawn if self.count or self.watch.drawn else set(GLOBAL)
        found: dict[str, Any] = {"now": {name: state_of(self.generators[name]) for name in sorted(held)}}
        found |= {
            "count": self.count,
            "over": self.over or None,
            "begun": self.begun,
            "attributes": self.attributes,
            "inner": self.inside,
        }
        found["draws"] = {
            name: {"at": d["at"], "state": d["state"] if "saved" in d else state_of(self.generators[name], d["state"])}
            for name, d in self.draws.items()
        }
        if self.theirs and not (self.count or self.seeded) and getattr(self.sampler, "generator", self) is None:
            found["draws"]["torch"] = {"at": 0, "state": state_of(self.generators["torch"])}  # it will draw from this
        found |= {"crc": self.crc, "rank": self._place()}
        if self.again:
            found |= {"again": sorted(self.again), "disturbed": self.disturbed}
            if self.disturbed or self.after:
                found["pending"] = [
                    [s, p.first_row, _plain(p.indices)] for s, p in sorted(self.unread.items()) if s >= step
                ]
            if self.disturbed and not self.after:
                self._say()
        if self.stateful is not None or self.began[1] is not None:
            at = self.count if self.again else step
            states = self.after.get(at - 1, self.began) if at else self.began
            found |= {"sampler": states[0], "iterator": states[1], "row": states[2], "at": at}
        return {name: value for name, value in found.items() if value not in ({}, None)}

    def _place(self) -> list[int]:
        """The rank whose batches these are, and how many there are."""
        if type(self.sampler) is DistributedSampler:
            return [self.sampler.rank, self.sampler.num_replicas]
        return list(ranks.find(None, None)[:2])

    def _say(self) -> None:
        if self.watch.warned:
            return
        self.watch.warned = True
        warnings.warn(
            f"the sampler ({type(innermost(self.source)).__name__}) draws for each batch from a generator that others "
            f"draw from, too ({', '.join(sorted(self.again))}): a state holds how many batches it has given, what it "
            "named ahead and the generator, but nothing that it keeps from earlier draws. Give it a generator of its "
            "own, or state_dict() and load_state_dict()",
            stacklevel=5,
        )


def _plain(indices: Any) -> Any:
    return indices.tolist() if isinstance(indices, np.ndarray) else indices


def _checksum(indices: Any, crc: int | None) -> int | None:
    """The checksum of all positions read so far; None once some were no plain values."""
    if crc is None:
        return None
    if isinstance(indices, np.ndarray):
        return zlib.crc32(indices.tobytes(), crc)
    if isinstance(indices, torch.Tensor):
        indices = indices.tolist()
    items = indices if isinstance(indices, list | tuple) else [indices]
    simple = _PLAIN.issuperset(map(type, items)) or all(
        type(i) in _PLAIN or (type(i) is tuple and _PLAIN.issuperset(map(type, i))) for i in items
    )
    return zlib.crc32(repr(indices).encode(), crc) if simple else None
