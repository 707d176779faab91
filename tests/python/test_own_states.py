"""A state that a run has given is taken by the run and by others like it, wherever it was taken."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import leat


def numbers(n: int = 60) -> leat.Dataset:
    return leat.from_arrays(x=np.arange(n), domain=np.arange(n) % 2)


def again(state: Any) -> Any:
    return json.loads(json.dumps(state))


@pytest.mark.parametrize("algorithm", [leat.ADO, lambda: leat.DoReMi(None, every=3)], ids=["ADO", "DoReMi"])
def test_a_mixture_that_went_back_to_an_epoch_takes_its_own_state(algorithm: Callable[[], Any]) -> None:
    mix = leat.Mix({"a": (numbers(), 0.5), "b": (numbers(), 0.5)}, exhausted="repeat")

    loader = leat.Loader(mix, 6, mixture=algorithm(), framework="numpy")
    for batch in loader:
        loader.report(batch, {"a": 1.0, "b": 2.0}, {"a": 3, "b": 3})
    for epoch, most in ((0, 100), (0, 2), (0, 1), (1, 3)):
        loader.set_epoch(epoch)
        loader.load_state_dict(again(loader.state_dict()))
        for _ in itertools.islice(loader, most):
            pass
        leat.Loader(mix, 6, mixture=algorithm(), framework="numpy").load_state_dict(again(loader.state_dict()))


@pytest.mark.parametrize("cut", range(0, 40, 3))
def test_a_run_by_a_log_with_all_rows_again_takes_states_of_both(tmp_path: Path, cut: int) -> None:
    def opened(log: Any = None) -> leat.Loader:
        return leat.Loader(numbers(), 6, shuffle=True, seed=3, framework="numpy", log=log, log_dir=tmp_path)

    first = opened()
    states: list[Any] = []
    for epoch in range(4):
        for batch in first:
            if (epoch, batch.step) in ((0, 2), (2, 1)):
                first.select(range(30), at=(epoch, batch.step + 1))
            if epoch == 1 and batch.step == 1:
                first.select(None, at=(epoch, 2))
            states.append(again(first.state_dict()))
    whole = opened(first.log)
    told = [batch.ids.tolist() for _ in range(4) for batch in whole]
    cut %= len(states) - 1
    for reader in (opened(first.log), first, whole):
        reader.load_state_dict(states[cut])
        assert next(iter(reader)).ids.tolist() == told[cut + 1]


@pytest.mark.parametrize("first, later", [(None, 3), (False, 1), (0, True), (2, 3)])
def test_attributes_of_a_sampler_may_be_none_or_false_at_first(first: Any, later: Any) -> None:
    torch = pytest.importorskip("torch")

    class Sampler(torch.utils.data.Sampler):  # type: ignore[name-defined,misc]
        def __init__(self) -> None:
            self.epoch = None if first is None else 0
            self.flag = first

        def set_epoch(self, epoch: int) -> None:
            self.epoch = epoch

        def __iter__(self) -> Iterator[int]:
            yield from range(12)

        def __len__(self) -> int:
            return 12

    loader = leat.DataLoader(list(range(12)), 2, sampler=Sampler())
    loader.sampler.epoch, loader.sampler.flag = 3, later
    it = iter(loader)
    next(it)
    other = leat.DataLoader(list(range(12)), 2, sampler=Sampler())
    other.load_state_dict(again(loader.state_dict()))
    assert [b.tolist() for b in other] == [b.tolist() for b in it]
