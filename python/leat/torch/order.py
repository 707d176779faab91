"""The order of a DataLoader's batches: leat's own, or that of a sampler, epoch after epoch.

If the order is PyTorch's, its seeds are drawn from the same generators in the same sequence as PyTorch draws them, so
that ``torch.manual_seed`` gives the same batches. The state holds what was drawn.
"""

from __future__ import annotations

import base64
import contextlib
import copy
import itertools
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch.utils.data import RandomSampler, SequentialSampler

from .. import _leat
from ..errors import StateError
from ..workers.feed import Planned
from ..workers.loop import ITER, ROWS, WHOLE, generators, set_generators

_SHUFFLED_AT_ONCE = 4096
_NUMBERS = {int, np.int64, np.int32, np.int16, np.int8, np.uint8, np.uint16, np.uint32}
_SHARE = 0x5348


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
        self.own = loader._own_order
        self.seed = loader.seed
        self.base_seed = 0
        self.sampler_seed: int | None = None
        self.generator_state: Any = None
        self.rng_state: Any = None  # of the global generators
        self.sampler_generators: list[Any] = []  # states of those that samplers have
        self.sampler_state: Any = None
        self.sampler_states: dict[int, Any] = {}  # after the batch of that step
        self.sampler_epoch: int | None = None  # the epoch of a sampler with set_epoch when it was read
        self.epoch = 0
        self.share = 0  # of an order that ranks have in common

    def begin(self, epoch: int, loaded: dict[str, Any] | None, first: bool) -> None:
        """Draws what PyTorch would draw when an epoch begins, in its order, or takes it from a state."""
        loader = self.loader
        self.epoch = epoch
        self.own, self.share = loader._own_order, share_of(loader)
        if loaded is not None and "own" in loaded and loader._unseeded:
            self.own = loaded["own"]  # saved with, or without, workers that persist
        midway = loaded is not None and "yielded" in loaded
        generator = loader.generator
        saved = (
            tensor_of(loaded["generator"])
            if generator is not None and loaded is not None and loaded.get("generator")
            else None
        )
        if saved is not None and not (midway or loader._chained):
            generator.set_state(saved)
        if first or not loader._chained:
            self.base_seed = int(torch.empty((), dtype=torch.int64).random_(generator=generator).item())
        if saved is not None and (midway or loader._chained):
            generator.set_state(saved)  # as it was after the workers' seed, which is drawn at times only, was drawn
        if generator is not None:
            self.generator_state = generator.get_state()
        drawn = None
        if type(loader.sampler) is RandomSampler and loader.sampler.generator is None:
            drawn = int(torch.empty((), dtype=torch.int64).random_().item())
        elif not self.own and not loader._iterable:
            self.rng_state = generators()  # samplers may draw from them
        inside, states = generators_in(loader), (loaded or {}).get("sampler_generators", ())
        if len(states) == len(inside):
            for generator, state in zip(inside, states):
                generator.set_state(tensor_of(state))
        self.sampler_generators = [generator.get_state() for generator in inside]
        if self.own and self.seed is None and not first and self.sampler_seed is not None:
            # the seed of all epochs; the draw keeps the global generator where PyTorch would have it
            drawn = self.sampler_seed
        self.sampler_seed = drawn
        if loaded is not None and "base_seed" in loaded:
            self.base_seed = loaded["base_seed"]
            self.sampler_seed = loaded.get("sampler_seed")
            if midway and loaded.get("rng"):
                self.rng_state = generators_of(loaded["rng"])
            told = told_of_epochs(loader)
            if midway and told is not None and loaded.get("sampler_epoch") is not None:
                told.set_epoch(loaded["sampler_epoch"])  # some frameworks do that only after iter()

    @property
    def key_seed(self) -> int:
        """The seed of the rows' random keys. Ranks that share an order by a sampler each count their own rows, so the
        number of the share is part of it: no two ranks draw the same augmentations.
        """
        seed = (self.seed if self.seed is not None else self.base_seed) & 0xFFFFFFFFFFFFFFFF
        return seed if not self.share else int(_leat.row_key(seed, _SHARE, self.share))

    def batches(self, skip: Callable[[int], bool], passed: int, resumed: bool) -> Iterator[Planned]:
        """The batches of the epoch from step `passed` on, without those that skip(step) names."""
        if self.own:
            yield from self._own(skip, passed)
        else:
            yield from self._sampled(skip, passed, resumed)

    def chain(self, skip: Callable[[int], bool], passed: int) -> Iterator[Planned]:
        """The same, and the epochs after it, which need nothing that is known only when they begin."""
        later = Order(self.loader)
        later.__dict__.update(self.__dict__)
        yield from later.batches(skip, passed, passed > 0)
        while True:
            later.epoch += 1
            n = 0
            for planned in later.batches(lambda step: False, 0, False):
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

    def _sampled(self, skip: Callable[[int], bool], passed: int, resumed: bool) -> Iterator[Planned]:
        """The positions of the user's sampler, or of PyTorch's, read as they are needed."""
        loader, epoch = self.loader, self.epoch
        source = loader._index_sampler
        stateful = loader.batch_sampler if hasattr(loader.batch_sampler, "state_dict") else loader.sampler
        if resumed and self.sampler_state is not None and hasattr(stateful, "load_state_dict"):
            stateful.load_state_dict(self.sampler_state)
            start = passed
        else:
            start = 0
        epoch_told = getattr(told_of_epochs(loader), "epoch", None)
        self.sampler_epoch = epoch_told if isinstance(epoch_told, int) else None
        iterator = iter(source)
        seed = self.sampler_seed if type(loader.sampler) is RandomSampler and loader.sampler.generator is None else None
        saved = None
        if seed is not None:
            loader.sampler.generator = torch.Generator().manual_seed(seed)
        elif resumed and self.rng_state is not None and start == 0:
            saved = generators()
            set_generators(self.rng_state)
        row = 0
        try:
            for step in itertools.count(start):
                try:
                    indices = next(iterator)
                except StopIteration:
                    if step < passed:
                        raise StateError(
                            f"the state counts more batches than the sampler gives now: {passed}, not {step}"
                        ) from None
                    return
                finally:
                    if seed is not None:
                        loader.sampler.generator = None
                        seed = None
                    if saved is not None and step >= passed:
                        set_generators(saved)
                        saved = None
                planned = self._planned(indices, epoch, step, row)
                row += planned.rows
                if hasattr(stateful, "state_dict"):
                    self.sampler_states[step] = stateful.state_dict()
                if step < passed or skip(step):
                    continue
                yield planned
        finally:
            if saved is not None:
                set_generators(saved)

    def _planned(self, indices: Any, epoch: int, step: int, row: int) -> Planned:
        loader = self.loader
        if not loader._auto_collation:
            return Planned(indices, 1, WHOLE, self.key_seed, epoch, step, row)
        asked = loader.on_error == "raise" and getattr(loader.dataset, "__getitems__", None)
        given = None
        if asked and type(indices) is not list and hasattr(indices, "__len__"):
            given = copy.deepcopy(indices)  # the sampler may fill the same array again
        indices = list(indices)
        rows = len(indices)
        found = np.empty(0)
        if set(map(type, indices)) <= _NUMBERS:
            with contextlib.suppress(ValueError, TypeError, OverflowError):  # beyond 64 bits
                found = np.array(indices, np.int64)
        if rows and found.dtype == np.int64 and found.shape == (rows,):
            return Planned(found, rows, ROWS, self.key_seed, epoch, step, row, given=given)
        return Planned(indices, rows, WHOLE, self.key_seed, epoch, step, row, given=given)


def turns_of(turn: int | list[int], n: int) -> list[int]:
    """How many batches of each of `n` streams came before. Older states have one number, over all of them in turn."""
    return [-((w - turn) // n) for w in range(n)] if isinstance(turn, int) else list(turn)


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


def share_of(loader: Any) -> int:
    """Which part of a common order a sampler gives: ``rank`` of DistributedSampler, ``process_index`` of Accelerate."""
    for each in (*samplers_of(loader), loader.dataset):
        for name, of in (("rank", "num_replicas"), ("process_index", "num_processes")):
            if isinstance(getattr(each, of, None), int) and isinstance(found := getattr(each, name, None), int):
                return found
    return 0


def generators_in(loader: Any) -> list[torch.Generator]:
    """The generators of samplers, without the loader's own."""
    found = {
        id(g): g for each in samplers_of(loader) if isinstance(g := getattr(each, "generator", None), torch.Generator)
    }
    return [g for g in found.values() if g is not loader.generator]


def plain(states: tuple[Any, Any, Any] | None) -> dict[str, Any] | None:
    """States of the global generators as plain values."""
    if states is None:
        return None
    (version, words, gauss), (kind, key, *rest) = states[0], states[1]
    found = {"random": [version, text_of(torch.tensor(words)), gauss], "torch": text_of(states[2])}
    if kind == "MT19937":
        found["numpy"] = [text_of(torch.from_numpy(key.astype(np.int64))), *rest]
    return found


def generators_of(found: dict[str, Any]) -> tuple[Any, Any, Any]:
    """The inverse of `plain`; if numpy's generator was of another kind, the present one."""

    def words(text: str) -> list[int]:
        return [int(word) for word in np.frombuffer(base64.b64decode(text), np.int64)]

    version, text, gauss = found["random"]
    key, *rest = found.get("numpy", (None,))
    numpy = np.random.get_state() if key is None else ("MT19937", np.array(words(key), np.uint32), *rest)
    return (version, tuple(words(text)), gauss), numpy, tensor_of(found["torch"])


def text_of(tensor: Any) -> str | None:
    return None if tensor is None else base64.b64encode(tensor.numpy().tobytes()).decode()


def tensor_of(text: str) -> Any:
    return torch.from_numpy(np.frombuffer(base64.b64decode(text), np.uint8).copy())
