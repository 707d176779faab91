"""What mixtures promise of the stream of rows, checked on the plan: shares at every prefix, whole passes, what ends an
epoch, ranks and resumed positions. tests/python/test_mixture_oracle.py has the exact order.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_order_reference import pass_key, permute

import leat

SEED = 11
SLACK = 1e-3  # of shares that are rounded to 2^-32, over the rows looked at here


def sources(counts: Sequence[int]) -> list[leat.Dataset]:
    return [leat.from_arrays(x=np.arange(n)) for n in counts]


def mix_of(counts: Sequence[int], weights: Sequence[float], **options: Any) -> leat.Mix:
    total = math.fsum(weights)
    pairs = zip(sources(counts), weights, strict=True)
    return leat.Mix({f"s{k}": (ds, w / total) for k, (ds, w) in enumerate(pairs)}, **options)


def open_(mix: Any, batch: int = 7, **options: Any) -> leat.Loader:
    given = {"global_batch_size": batch, "shuffle": True, "seed": SEED, "framework": "numpy", "tail": "uneven"}
    return leat.Loader(mix, **(given | options))


def stream(loader: leat.Loader, counts: Sequence[int], epochs: int, most: int = 1 << 60) -> list[tuple[int, int, int]]:
    """(epoch, source, position in it) of each row: a mixture numbers samples source by source."""
    begins = np.cumsum([0, *counts])
    rows: list[tuple[int, int, int]] = []
    for epoch in range(epochs):
        loader.set_epoch(epoch)
        for step in range(len(loader)):
            ids = loader.plan(epoch, step)
            k = np.searchsorted(begins, ids, "right") - 1
            rows += [(epoch, int(s), int(i - begins[s])) for s, i in zip(k, ids, strict=True)]
            if len(rows) > most:
                return rows
    return rows


def bound(k: int) -> float:
    """docs/mixtures.md: a half per level of the tree of sources."""
    return math.ceil(math.log2(k)) / 2 if k > 1 else 0.0


counts_and_weights = st.integers(1, 12).flatmap(
    lambda k: st.tuples(
        st.lists(st.integers(1, 30), min_size=k, max_size=k),
        st.lists(st.floats(0.01, 1), min_size=k, max_size=k),
    )
)


@settings(max_examples=40, deadline=None)
@given(drawn=counts_and_weights, epochs=st.integers(1, 3))
def test_every_prefix_has_the_shares_to_within_the_bound(drawn: Any, epochs: int) -> None:
    counts, weights = drawn
    mix = mix_of(counts, weights, exhausted="repeat", epoch_rows=150)
    with open_(mix) as loader:
        rows = stream(loader, counts, epochs)
    given = np.zeros(len(counts))
    shares = np.array(list(mix.weights.values()))
    for i, (_, k, _) in enumerate(rows, 1):
        given[k] += 1
        assert np.abs(given - shares * i).max() <= bound(len(counts)) + SLACK


@settings(max_examples=40, deadline=None)
@given(drawn=counts_and_weights, epochs=st.integers(1, 3))
def test_each_pass_of_a_source_that_repeats_is_its_own_permutation(drawn: Any, epochs: int) -> None:
    counts, weights = drawn
    with open_(mix_of(counts, weights, exhausted="repeat", epoch_rows=97)) as loader:
        rows = stream(loader, counts, epochs)
    for k, n in enumerate(counts):
        found = [position for _, source, position in rows if source == k]
        for number in range(-(-len(found) // n)):
            image = permute(n, pass_key(SEED, k, number))
            part = found[number * n : (number + 1) * n]
            assert part == [image(i) for i in range(len(part))]


def test_where_all_repeat_an_epoch_reads_the_relatively_largest_source_once() -> None:
    counts, weights = [90, 810], [0.5, 0.5]
    with open_(mix_of(counts, weights, exhausted="repeat")) as loader:
        rows = stream(loader, counts, 2)
    for epoch in range(2):
        given = np.bincount([k for e, k, _ in rows if e == epoch], minlength=2)
        assert abs(given[1] - 810) <= 1 and abs(given[0] - 810) <= 1


def test_batches_say_of_which_source_each_row_is() -> None:
    counts = [20, 30, 50]
    with open_(mix_of(counts, [0.2, 0.3, 0.5], exhausted="repeat"), 10) as loader:
        for batch in loader:
            begins = np.array([0, 20, 50])
            assert batch.domains.dtype == np.int32
            assert (batch.ids - begins[batch.domains] == batch["x"]).all()
            if batch.size == 10:
                assert np.bincount(batch.domains, minlength=3).tolist() == [2, 3, 5]


def test_domains_stay_with_a_batch_that_is_copied() -> None:
    with open_(mix_of([20, 30], [0.4, 0.6], exhausted="repeat"), 10) as loader:
        batch = next(iter(loader))
        assert batch.clone().domains.tolist() == batch.domains.tolist()


def test_a_loader_of_one_data_set_says_that_all_rows_are_of_source_zero() -> None:
    assert next(iter(leat.Loader(sources([9])[0], 4, framework="numpy"))).domains.tolist() == [0] * 4


# ---- tokens ----------------------------------------------------------------------------------------------------------


def documents(rng: np.random.Generator, n: int, longest: int) -> leat.Dataset:
    lengths = rng.integers(1, longest + 1, n)
    return leat.from_source(Documents(lengths))


class Documents:
    """Documents of these lengths, for leat.from_source."""

    def __init__(self, lengths: np.ndarray[Any, Any]) -> None:
        self.lengths = lengths
        self.fields = {"tokens": leat.field("uint16", (None,))}

    def __len__(self) -> int:
        return len(self.lengths)

    def read(self, positions: np.ndarray[Any, Any]) -> dict[str, Any]:
        return {"tokens": [np.zeros(self.lengths[i], np.uint16) for i in positions]}


@pytest.mark.parametrize("shares", [(0.3, 0.7), (0.05, 0.15, 0.8)])
def test_rows_of_one_length_have_the_shares_of_tokens_at_every_prefix(shares: tuple[float, ...]) -> None:
    lengths = [8, 3, 5][: len(shares)]
    parts = [leat.from_arrays(tokens=np.zeros((50, n), np.uint16)) for n in lengths[:1]] * len(shares)
    mix = leat.Mix({str(k): (ds, w) for k, (ds, w) in enumerate(zip(parts, shares, strict=True))}, "tokens", "repeat",
                   epoch_rows=400)  # fmt: skip
    with open_(mix, 20) as loader:
        domains = [int(k) for batch in loader for k in batch.domains]
    for i in range(len(domains)):
        found = np.bincount(domains[:i], minlength=len(shares)) if i else np.zeros(len(shares))
        assert np.abs(found - np.array(shares) * i).max() <= bound(len(shares)) + SLACK


# ---- packed ----------------------------------------------------------------------------------------------------------


def test_packed_sources_are_mixed_by_rows_and_keep_their_own_documents(tmp_path: Path) -> None:
    parts = {}
    for k in range(3):
        with leat.Writer(tmp_path / f"{k}.leat", {"tokens": leat.field("uint16", (None,))}) as w:
            for i in range(40):
                w.add(tokens=np.full(1 + i % 9, 100 * k + i, np.uint16))
        parts[f"s{k}"] = (leat.pack_rows(leat.open(tmp_path / f"{k}.leat"), length=16, eos=k), [0.25, 0.25, 0.5][k])
    with open_(leat.Mix(parts, exhausted="repeat"), 8) as loader:
        for batch in loader:
            tokens = batch["tokens"] // 100
            for row, k in zip(tokens, batch.domains, strict=True):
                assert {int(t) for t in row} <= {0, int(k)}
            if batch.size == 8:
                assert np.bincount(batch.domains, minlength=3).tolist() == [2, 2, 4]


def test_the_face_of_a_loader_shows_the_shares() -> None:
    mix = mix_of([20, 30], [0.4, 0.6], exhausted="repeat")
    schedule = leat.Schedule([(0, mix), (3, mix.with_weights({"s0": 0.9, "s1": 0.1}))])
    for mixture in (mix, schedule):
        with open_(mixture) as loader:
            assert "s0 0.4, s1 0.6" in loader._repr_html_()
