"""Loaders with in_order=False: rows in the order in which they are finished. What is slow is decided by the tests."""

from __future__ import annotations

import ctypes
import importlib.util
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_native import compile_library

import leat

#: what a state puts back of a Sampler that was read once, or nothing of one that was read five times
READS = 1 if importlib.util.find_spec("torch") else 5

SOURCE = """
#include <leat/leat.h>
#include <string.h>
#include <unistd.h>

int gate;

/* Every ninth sample takes twenty times as long. */
int sleepy(struct leat_native_call *call)
{
    memcpy(call->out, call->in, call->in_type->bytes);
    usleep(call->sample % 9 == 4 ? 4000 : 200);
    return 0;
}

/* The samples of the arguments wait until the gate is open, for some minutes at most. */
int gated(struct leat_native_call *call)
{
    volatile int *open = &gate;
    memcpy(call->out, call->in, call->in_type->bytes);
    usleep(500); /* so that a thread takes few rows at a time */
    for (uint32_t i = 0; i < call->n_numbers; i++)
        if (call->sample == (int64_t)call->numbers[i])
            for (int left = 200000; !*open && left; left--)
                usleep(1000);
    return 0;
}
"""


@pytest.fixture(scope="session")
def slow_library(folder: Path) -> str:
    source = folder / "slow.c"
    source.write_text(SOURCE)
    return compile_library(source, folder / "libslow.so")


@pytest.fixture
def sleepy(slow_library: str) -> Any:
    """Outputs of `records` whose rows take unequal times."""
    return {"x": [leat.ops.Native(f"{slow_library}:sleepy")], "label": []}


class Gate:
    """Outputs of `records` of which some samples wait until it is opened."""

    def __init__(self, library: str) -> None:
        self._library = ctypes.CDLL(library)
        self._of = library
        ctypes.c_int.in_dll(self._library, "gate").value = 0

    def outputs(self, *samples: int) -> Any:
        return {"x": [leat.ops.Native(f"{self._of}:gated", args=list(samples))], "label": []}

    def open(self) -> None:
        ctypes.c_int.in_dll(self._library, "gate").value = 1


@pytest.fixture
def gate(slow_library: str) -> Iterator[Gate]:
    made = Gate(slow_library)
    yield made
    made.open()


def loader(path: Path, batch_size: int | None = 7, *arguments: Any, **options: Any) -> leat.Loader:
    options.setdefault("framework", "numpy")
    options.setdefault("in_order", False)
    return leat.Loader(leat.open(path), batch_size, *arguments, **options)


def rows(batches: Any, *names: str) -> list[tuple[Any, ...]]:
    """Every row with its key, mark and values, in the order of keys."""
    found = []
    for b in batches:
        for i in range(b.size):
            values = tuple(
                v if isinstance(v, (str, dict, list)) else np.asarray(v).tobytes() for v in (b[n][i] for n in names)
            )
            found.append((int(b.row_keys[i]), int(b.ids[i]), bool(b.valid[i]), *values))
    return sorted(found)


# ---- rows ------------------------------------------------------------------------------------------------------------


@given(threads=st.integers(1, 4), size=st.integers(1, 9), seed=st.integers(0, 99))
def test_each_row_comes_once_with_the_bytes_that_it_has_in_order(
    photos: Path, threads: int, size: int, seed: int
) -> None:
    outputs = {
        "image": [leat.ops.Decode(), leat.ops.RandomResizedCrop(16), leat.ops.RandomHorizontalFlip()],
        "label": [],
    }
    options: dict[str, Any] = {"shuffle": True, "seed": seed, "outputs": outputs, "num_threads": threads}
    want = loader(photos, size, in_order=True, **options)
    got = loader(photos, size, **options)
    for _ in range(2):
        made = list(got)
        assert [b.size for b in made] == [len(want.plan(0, s)) for s in range(len(want))]
        assert [b.step for b in made] == list(range(len(want)))
        assert rows(made, "image", "label") == rows(want, "image", "label")


@given(threads=st.integers(1, 4), size=st.integers(1, 4))
def test_values_of_every_kind_stay_with_their_rows(mixed: Path, threads: int, size: int) -> None:
    names = ("number", "flag", "vector", "boxes", "raw", "text", "meta")
    outputs: dict[str, Any] = {n: [] for n in names}
    want = rows(loader(mixed, size, True, in_order=True, outputs=outputs), *names)
    assert rows(loader(mixed, size, True, num_threads=threads, outputs=outputs), *names) == want


@pytest.mark.parametrize("policy", ["skip", "substitute"])
def test_broken_samples_are_left_out_or_replaced_as_in_order(broken: Path, policy: Any) -> None:
    outputs = {"image": [leat.ops.Decode(), leat.ops.Resize((8, 8))], "label": []}
    for threads in (1, 3):
        want = list(loader(broken, 4, True, in_order=True, outputs=outputs, on_error=policy))
        got = list(loader(broken, 4, True, outputs=outputs, on_error=policy, num_threads=threads))
        assert rows(got, "image", "label") == rows(want, "image", "label")
        assert [b.size + sum(e.delivered is None for e in b.errors) for b in got] == [4] * 5
        assert sorted(e.planned for b in got for e in b.errors) == [3, 11]
        for b in got:
            for e in b.errors:
                assert e.delivered is None or b.ids[e.row] == e.delivered


# ---- slow rows -------------------------------------------------------------------------------------------------------


def test_an_epoch_can_be_left_and_begun_again(records: Path, sleepy: Any) -> None:
    with loader(records, 8, True, outputs=sleepy, num_threads=3) as slow:
        for _ in range(3):
            iterator = iter(slow)
            for _ in range(5):
                next(iterator)
            slow.set_epoch(0)
        assert Counter(i for b in slow for i in b.ids.tolist()) == Counter(range(100))


# ---- state -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "order", [False, True, leat.Blocks(4), leat.Weighted(np.arange(100.0), 90), list(range(0, 100, 2)) * 2]
)
def test_exact_resume_at_every_cut(records: Path, order: Any, sleepy: Any) -> None:
    options: dict[str, Any] = {"sampler": order} if isinstance(order, (list, leat.Weighted)) else {"shuffle": order}
    options |= {"seed": 3, "outputs": sleepy, "num_threads": 3}
    want = rows(loader(records, 9, in_order=True, **options), "x", "label")
    for cut in range(0, 10, 3):
        with loader(records, 9, **options) as first:
            iterator = iter(first)
            found = [next(iterator) for _ in range(cut)]
            state = json.loads(json.dumps(first.state_dict()))
        with loader(records, 9, **options) as second:
            second.load_state_dict(state)
            assert second.state_dict() == state
            found += list(second)
        assert rows(found, "x", "label") == want
        assert [b.step for b in found] == list(range(len(found)))


def test_a_sampler_is_not_read_again_within_its_epoch(records: Path, gate: Gate) -> None:
    class Sampler:
        reads = 0

        def __iter__(self) -> Any:
            self.reads += 1
            return iter(np.random.default_rng(self.reads).permutation(100).tolist())

        def __len__(self) -> int:
            return 100

    slow = int(np.random.default_rng(1).permutation(100)[2])
    options: dict[str, Any] = {"outputs": gate.outputs(slow), "num_threads": 3}
    with loader(records, 5, sampler=Sampler(), **options) as first:
        iterator = iter(first)
        found = [next(iterator) for _ in range(6)]
        state = first.state_dict()
        gate.open()
    assert state["at"]["row"] == 0
    sampler = Sampler()
    sampler.reads = 5
    with loader(records, 5, sampler=sampler, **options) as second:
        second.load_state_dict(state)
        found += list(second)
        assert Counter(i for b in found for i in b.ids.tolist()) == Counter(range(100))
        assert sampler.reads == READS  # as it was behind the list
        list(second)
        assert sampler.reads == READS + 1


def test_a_state_at_an_epochs_end_fits_all_ranks_and_sizes(records: Path) -> None:
    with loader(records, 5, rank=0, world_size=2) as first:
        list(first)
        state = first.state_dict()
    with loader(records, 9, rank=2, world_size=3, in_order=True) as second:
        second.load_state_dict(state)
        assert second.epoch == 1


# ---- the record ------------------------------------------------------------------------------------------------------


def test_the_record_gives_each_batch_again(records: Path, tmp_path: Path, sleepy: Any) -> None:
    options: dict[str, Any] = {"outputs": sleepy, "num_threads": 3, "log_dir": tmp_path / "run"}
    with loader(records, 6, True, **options) as first:
        made = [b.ids.tolist() for b in first] + [b.ids.tolist() for b in first]
        assert [first.batch_at(e, s).ids.tolist() for e in (0, 1) for s in range(17)] == made
        assert first.plan(0, 0).tolist() != made[0] or first.stats()["unordered"]["gathered_batches"] >= 0
        with pytest.raises(IndexError, match="record"):
            first.batch_at(2, 0)
    with loader(records, 6, True, **options) as again:
        assert [b.ids.tolist() for b in again] + [b.ids.tolist() for b in again] == made
        assert again.stats()["unordered"]["copied_rows"] == 0
    lines = [json.loads(line) for line in (tmp_path / "run" / "unordered-000001-0-of-1.jsonl").read_text().splitlines()]
    assert lines[0]["record"] == 1 and [line["step"] for line in lines[1:]] == list(range(17))
    assert sorted(r + k for line in lines[1:] for r, n in line["rows"] for k in range(n)) == list(range(100))
