"""A loader that goes back to its earlier states, again and again: each time its batches are those that came at first.

A training does so when it reloads a checkpoint after its loss has exploded: in the process, with the loader that has
gone on. In between the loader is read further, left within an epoch, peeked at, told another epoch or given another
state, and it may be iterated over for nothing behind the state.
"""

from __future__ import annotations

import json
import random
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import feedback_support
import numpy as np
import pytest
from property_draws import EXAMPLES, Numbers, each

import leat
from leat import ops

_MOST = 30  # batches that are read, and states that are taken before each


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("going-back")
    feedback_support.write(found / "a.leat")
    rng = np.random.default_rng(1)
    with leat.Writer(found / "tokens.leat", {"tokens": leat.field("int32", (None,))}) as w:
        for _ in range(150):
            w.add(tokens=rng.integers(1, 99, int(rng.integers(1, 30))).astype(np.int32))
    return found


def _doubled(x: Any) -> Any:
    return x * 2


def _mix(folder: Path) -> leat.Mix:
    whole = leat.open(folder / "a.leat")
    return leat.Mix({"a": (whole, 0.6), "b": (whole.select(range(11)), 0.4)})


def _samples(folder: Path, **options: Any) -> leat.Loader:
    return feedback_support.opened(str(folder / "a.leat"), **options)


def _packed(folder: Path) -> leat.Loader:
    rows = leat.pack_rows(leat.open(folder / "tokens.leat"), "tokens", 64)
    return leat.Loader(rows, 3, shuffle=True, seed=4, framework="numpy")


def _tokens(folder: Path) -> leat.Loader:
    options: dict[str, Any] = {"batch_tokens": 128, "buckets": [8, 16, 32], "tokens_field": "tokens"}
    return leat.Loader(leat.open(folder / "tokens.leat"), shuffle=True, framework="numpy", **options)


def _sampled(folder: Path) -> leat.Loader:
    pytest.importorskip("torch")  # which a state of a sampler needs
    from sampler_kinds import SAMPLERS

    return _samples(folder, shuffle=False, sampler=SAMPLERS["its own generator"](103))


LOADERS: dict[str, Callable[[Path], Any]] = {
    "shuffled": _samples,
    "a rank of three": lambda folder: _samples(folder, rank=1, world_size=3),
    "blocks": lambda folder: _samples(folder, shuffle=leat.Blocks(5)),
    "weighted": lambda folder: _samples(folder, shuffle=False, sampler=leat.Weighted(np.arange(103) + 1.0, 50)),
    "a sampler": _sampled,
    "a function": lambda folder: _samples(folder, outputs={"x": [ops.Map(_doubled)]}),
    "feedback": lambda folder: _samples(folder, batch_size=20, feedback=leat.TopFraction(0.5)),
    "a mixture": lambda folder: leat.Loader(_mix(folder), 8, shuffle=True, seed=3, framework="numpy"),
    "a mixture that is steered": lambda folder: leat.Loader(
        _mix(folder), 8, shuffle=True, framework="numpy", mixture=leat.DoReMi({"a": 1.0, "b": 1.0}, every=2)
    ),
    "packed rows": _packed,
    "sizes by tokens": _tokens,
    "a consumer": lambda folder: _samples(folder, batch_size=12).consumer(8),
}
#: decisions of theirs in between are sizes; epochs that they are told may be earlier ones
SIZED = ("shuffled", "a function", "a mixture", "packed rows")
#: what is decided as epochs begin, or by reports, holds from there on: they are told no earlier epoch
STEERED = ("feedback", "a mixture that is steered")


class Play:
    """One loader, read batch by batch across its epochs."""

    def __init__(self, name: str, loader: Any, rng: random.Random) -> None:
        self.name, self.loader, self.rng = name, loader, rng
        self.batches: Any = None
        self.sizes = {rng.randrange(1, _MOST): rng.choice((4, 6, 9)) for _ in range(2)} if name in SIZED else {}
        self.states: dict[int, str] = {}

    def go_on(self, n: int, at: int | None = None) -> list[Any]:
        """The next `n` batches; `at`: the number of the first one in the run that is repeated."""
        found = []
        for i in range(n):
            if at is not None:
                self.states.setdefault(at + i, json.dumps(self.loader.state_dict()))
                if at + i in self.sizes:
                    self.loader.set_batch_size(self.sizes[at + i])
            found.append(self._shown(self._next()))
        return found

    def _next(self) -> Any:
        for _ in range(3):
            if self.batches is None:
                self.batches = iter(self.loader)
            if (batch := next(self.batches, None)) is not None:
                return batch
            self.batches = None
        raise AssertionError("epochs without batches")

    def _shown(self, batch: Any) -> Any:
        if self.name == "feedback":
            self.loader.report(batch.ids, loss=feedback_support.loss_of(batch.ids, batch.epoch))
        elif self.name in STEERED and batch.step % 3 == 1:
            self.loader.report(batch, {"a": 1.0 + batch.step, "b": 2.0}, {"a": 4, "b": 4})
        values = [batch[name] for name in batch]
        values = [value.values if isinstance(value, leat.Ragged) else value for value in values]
        texts = [np.asarray(value).tobytes() for value in values if not isinstance(value, list)]
        return batch.epoch, batch.step, batch.ids.tolist(), texts

    def stray(self) -> None:
        """Anything that a training may do before it goes back."""
        match self.rng.randrange(6 if self.name in STEERED else 8):
            case 0:
                self.go_on(self.rng.randint(1, 9))
            case 1:
                self.batches = None
            case 2:
                self.batches = iter(self.loader)
            case 3 | 4:
                self.back_to(self.rng.choice(sorted(self.states)))
            case 5:
                self.batches = self.batches or iter(self.loader)
                self.loader.peek()
            case 6:
                with warnings.catch_warnings(action="ignore"):
                    self.loader.set_epoch(self.rng.randrange(9))
                self.batches = None
            case 7 if self.name in SIZED and self.batches is not None:
                self.loader.set_batch_size(7)

    def back_to(self, at: int) -> None:
        self.loader.load_state_dict(json.loads(self.states[at]))
        for _ in range(self.rng.choice((0, 0, 1, 2))):  # of which nothing is read: they use up no state
            iter(self.loader)
        self.batches = None


@EXAMPLES
@pytest.mark.parametrize("name", LOADERS)
def test_a_loader_that_goes_back_gives_what_it_gave(name: str, folder: Path, numbers: Numbers) -> None:
    def check(number: int) -> None:
        rng = random.Random(f"{name} {number}")
        play = Play(name, LOADERS[name](folder), rng)
        whole = play.go_on(_MOST, 0)
        for _ in range(4):
            for _ in range(rng.randint(0, 3)):
                play.stray()
            at, n = rng.randrange(_MOST - 6), rng.randint(1, 6)
            play.back_to(at)
            assert play.go_on(n, at) == whole[at : at + n], at
        play.loader.close()

    each(numbers(3), check)
