"""The order of a DataLoader's batches: leat's own, or that of a sampler, epoch after epoch.

If the order is PyTorch's, its seeds are drawn from the same generators in the same sequence as PyTorch draws them, so
that ``torch.manual_seed`` gives the same batches. The state holds the draws.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch.utils.data import RandomSampler, SequentialSampler

from .. import _leat
from ..sampling.generators import set_state, state_of
from ..sampling.known import Known
from ..workers.feed import Planned
from ..workers.loop import ITER, ROWS
from .reading import Reading

_SHUFFLED_AT_ONCE = 4096
_SHARE = 0x5348
_KNOWN = {SequentialSampler, RandomSampler}  # of which nothing is told of epochs, and no rank has a share


class Shuffled(RandomSampler):
    """leat's order of a seed as a sampler, for one epoch: the ``sampler`` of a loader with ``shuffle=True`` and a seed.

    Args:
        data_source: has a length.
        seed: of the order; ``set_epoch`` chooses its epoch.
    """

    def __init__(self, data_source: Any, seed: int) -> None:
        super().__init__(data_source)
        self.seed, self.epoch = seed, 0

    def set_epoch(self, epoch: int) -> None:
        """Sets the epoch that is read next."""
        self.epoch = epoch

    def __iter__(self) -> Iterator[int]:
        n = len(self)
        for first in range(0, n, _SHUFFLED_AT_ONCE):
            rows = min(_SHUFFLED_AT_ONCE, n - first)
            yield from np.asarray(
                _leat.order_shuffled(n, self.seed & 0xFFFFFFFFFFFFFFFF, self.epoch, first, rows)
            ).tolist()


class Order:
    """The batches of one epoch after another, for one iterator."""

    def __init__(self, loader: Any) -> None:
        self.loader = loader
        self.own = False  # leat's order: known when an epoch begins
        self.seed = loader.seed
        self.base_seed = 0
        self.sampler_seed: int | None = None
        self.saved_seed: int | None = None  # of a state
        self.drew = True  # the workers' seed, for this epoch
        self.reading: Reading | None = None  # of a sampler
        self.sampler_epoch: int | None = None  # the epoch of a sampler with set_epoch when it was read
        self.told_next: tuple[Any, int] | None = None  # a sampler that was told a later epoch than a state's, and that
        self.epoch = 0
        self.share = 0  # of an order that ranks have in common

    def begin(self, epoch: int, loaded: dict[str, Any] | None, first: bool, skip: Callable[[int], bool]) -> None:
        """Begins an epoch: PyTorch's draws are drawn, in its order, or come from a state.

        Args:
            loaded: the state, or None.
            first: of this iterator, for which the workers' seed is drawn.
            skip: tells of a step after the state's `step` whether it was delivered.
        """
        loader = self.loader
        self.epoch = epoch
        self.own = loader._own_order
        told = None
        if type(loader.sampler) in _KNOWN and loader._plain_batches:
            self.share = share_of([loader.dataset])
        else:
            told, self.share = told_of_epochs(loader), share_of([*samplers_of(loader), loader.dataset])
        loaded = {} if loaded is None else loaded
        if "own" in loaded and loader._unseeded:
            self.own = loaded["own"]  # saved with, or without, workers that persist
        midway, anew = "yielded" in loaded, "first" in loaded
        self.saved_seed = loaded.get("sampler_seed")
        self.told_next = None
        if midway and told is not None and loaded.get("sampler_epoch") is not None:
            if isinstance(now := getattr(told, "epoch", None), int) and now > loaded["sampler_epoch"]:
                self.told_next = told, now
            told.set_epoch(loaded["sampler_epoch"])  # some frameworks do that only after iter()
        self.drew = loaded.get("drew", True) if midway else first
        persists = loader.persistent_workers and loader.num_workers > 0
        # of an epoch; in workers that persist, the next one draws no seed
        at_end = bool(loaded) and not (midway or anew)
        self.reading = None
        if at_end and first and persists:
            self._draw_base_seed()
        if at_end or anew:
            self._set_generator(loaded)
        if not self.own and not loader._iterable:
            self.sampler_seed = None  # drawn when it is read
            self.reading = Reading(self, loaded["step"] if midway else 0, skip, loaded.get("reading"))
        if self.drew and not (at_end and persists):
            self._draw_base_seed()
        continues = at_end and persists and "reading" in loaded
        begins_twice = first and loader.num_workers > 0 and not continues
        if self.reading is not None and (self.reading.begins_twice if midway else begins_twice):
            self.reading.iterate()
        if self.own and self._seed_is_drawn:
            before = self.sampler_seed
            self.draw_sampler_seed()
            if self.seed is None and not first and before is not None and "sampler_seed" not in loaded:
                # the seed of all epochs; the draw keeps the global generator where PyTorch would have it
                self.sampler_seed = before
        self.base_seed = loaded.get("base_seed", self.base_seed)
        if self.reading is not None:
            epoch_told = getattr(told, "epoch", None)
            self.sampler_epoch = epoch_told if isinstance(epoch_told, int) else None
            self.reading.read_again()
        if midway:
            self._set_generator(loaded)

    def tell_next(self) -> None:
        """If the epoch of a state has nothing left, the sampler begins the one that it was told since."""
        if self.told_next is not None:
            sampler, epoch = self.told_next
            sampler.set_epoch(epoch)

    @property
    def _seed_is_drawn(self) -> bool:
        """Whether the order follows from a seed that PyTorch draws when the sampler is read."""
        if self.reading is not None and self.reading.seeded:
            return True
        return type(self.loader.sampler) is RandomSampler and self.loader.sampler.generator is None

    def _draw_base_seed(self) -> None:
        self.base_seed = int(torch.empty((), dtype=torch.int64).random_(generator=self.loader.generator).item())
        if self.reading is not None:
            self.reading.seed_was_drawn()

    def draw_sampler_seed(self) -> int:
        """Draws the seed of a RandomSampler as it would do itself; that of a state takes its place."""
        drawn = int(torch.empty((), dtype=torch.int64).random_().item())
        self.sampler_seed = drawn if self.saved_seed is None else self.saved_seed
        self.saved_seed = None
        return self.sampler_seed

    def _set_generator(self, loaded: dict[str, Any]) -> None:
        if self.loader.generator is not None and loaded.get("generator"):
            set_state(self.loader.generator, loaded["generator"])

    def state(self, step: int, over: bool) -> dict[str, Any]:
        """The values that determine the order after the first `step` batches of this epoch, or (`over`) that of the
        next."""
        found: dict[str, Any] = {}
        if not over or (self.own and self.loader._chained and self.seed is None):
            found = {"base_seed": self.base_seed, "sampler_seed": self.sampler_seed, "own": self.own}
        if self.loader.generator is not None or not over:
            found["generator"] = None if self.loader.generator is None else state_of(self.loader.generator)
        if self.reading is not None and (reading := self.reading.state(step, over)):
            found["reading"] = reading
        if over:
            return found
        if self.sampler_epoch is not None:
            found["sampler_epoch"] = self.sampler_epoch
        if not self.drew:
            found["drew"] = False
        if self.sampler_seed is None and self._seed_is_drawn:  # the value that would be drawn now, without drawing it
            ahead = torch.Generator()
            ahead.set_state(torch.get_rng_state())
            found["sampler_seed"] = int(torch.empty((), dtype=torch.int64).random_(generator=ahead).item())
        return found

    @property
    def key_seed(self) -> int:
        """The seed of the rows' random keys. Ranks that share an order by a sampler each count their own rows, so the
        number of the share is part of it: no two ranks draw the same augmentations.
        """
        seed = (self.seed if self.seed is not None else self.base_seed) & 0xFFFFFFFFFFFFFFFF
        return seed if not self.share else int(_leat.row_key(seed, _SHARE, self.share))

    def batches(self, skip: Callable[[int], bool], passed: int) -> Iterator[Planned]:
        """The batches of the epoch from step `passed` on, without those that skip(step) names."""
        return self._own(skip, passed) if self.reading is None else self.reading

    def chain(self, skip: Callable[[int], bool], passed: int) -> Iterator[Planned]:
        """The same, and the epochs after it, which need nothing that is known only when they begin."""
        later = Order(self.loader)
        later.__dict__.update(self.__dict__)
        yield from later.batches(skip, passed)
        while True:
            later.epoch += 1
            n = 0
            for planned in later.batches(lambda step: False, 0):
                n += 1
                yield planned
            if not n:
                return  # an empty data set

    def streams(
        self, turns: list[int], ended: set[int], loaded_ended: set[int], busy: Counter[int]
    ) -> Iterator[Planned]:
        """Batches of an iterable data set: the workers in turn, without those that have ended. Out of order, a worker
        with the fewest batches in flight is next, so that one that takes long does not get all of them.

        Args:
            turns: batches of each worker that were planned before.
            busy: batches of each worker in flight; changes as they are read and delivered.
        """
        workers, size = self.loader.num_workers, self.loader.batch_size or 1
        turns, n = list(turns), len(turns)
        while active := [w for w in range(n) if w not in ended and w not in loaded_ended]:
            worker = min(active, key=lambda w: (0 if self.loader.in_order else busy[w], turns[w], w))
            step = turns[worker] * n + worker
            turns[worker] += 1
            owner = worker if workers else -1
            yield Planned(None, 1, ITER, self.key_seed, self.epoch, step, step * size, owner=owner)

    def _own(self, skip: Callable[[int], bool], passed: int) -> Iterator[Planned]:
        loader = self.loader
        n, size, epoch = len(loader.dataset), loader.batch_size, self.epoch
        assert size is not None
        steps = n // size if loader.drop_last else -(-n // size)
        seed = self.seed if self.seed is not None else (self.sampler_seed or 0)
        for step in range(passed, steps):
            if skip(step):
                continue
            first, rows = step * size, min(size, n - step * size)
            if type(loader.sampler) is not SequentialSampler:
                indices: Any = np.asarray(_leat.order_shuffled(n, seed & 0xFFFFFFFFFFFFFFFF, epoch, first, rows))
            else:
                indices = np.arange(first, first + rows, dtype=np.int64)
            yield Planned(indices, rows, ROWS, self.key_seed, epoch, step, first)


def before_first(loader: Any) -> dict[str, Any]:
    """The values that determine the batches of a loader that nobody has iterated over, as far as they may change."""
    found: dict[str, Any] = {}
    if loader.generator is not None:
        found["generator"] = state_of(loader.generator)
    if loader._iterable:
        if not loader.num_workers and hasattr(loader.dataset, "state_dict"):
            with contextlib.suppress(Exception):  # it may have none before its first sample
                found["dataset"] = loader.dataset.state_dict()
    elif not loader._own_order and (known := Known(loader).between()):
        found["reading"] = known
    return found and found | {"first": True}


def samplers_of(loader: Any) -> Iterator[Any]:
    """The samplers of a loader, and those inside them."""
    inside = [loader.sampler, loader.batch_sampler]
    for each in inside:  # grows
        yield each
        if len(inside) < 16:
            inside += [
                found for name in ("sampler", "batch_sampler") if (found := getattr(each, name, None)) is not None
            ]


def told_of_epochs(loader: Any) -> Any:
    """The sampler with ``set_epoch``, such as DistributedSampler: the loader's own or one inside it, or None."""
    return next((each for each in samplers_of(loader) if hasattr(each, "set_epoch")), None)


def share_of(found: list[Any]) -> int:
    """The part of a common order that the samplers give, or the data set: ``rank`` of DistributedSampler,
    ``process_index`` of Accelerate.
    """
    for each in found:
        for name, of in (("rank", "num_replicas"), ("process_index", "num_processes")):
            if isinstance(getattr(each, of, None), int) and isinstance(share := getattr(each, name, None), int):
                return share
    return 0
