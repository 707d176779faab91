"""What mixtures promise of the stream of rows, checked on the plan: shares at every prefix, whole passes, what ends an
epoch, ranks and resumed positions. tests/python/test_mixture_oracle.py has the exact order.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from drawn_support import examples
from hypothesis import given
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


@examples(25)
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


@examples(25)
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


@examples(25)
@given(drawn=counts_and_weights, epochs=st.integers(1, 3))
def test_with_redistribute_each_epoch_has_every_sample_once(drawn: Any, epochs: int) -> None:
    counts, weights = drawn
    with open_(mix_of(counts, weights, exhausted="redistribute")) as loader:
        rows = stream(loader, counts, epochs)
    for epoch in range(epochs):
        seen = sorted((k, position) for e, k, position in rows if e == epoch)
        assert seen == [(k, i) for k, n in enumerate(counts) for i in range(n)]


@examples(25)
@given(drawn=counts_and_weights, epochs=st.integers(1, 3))
def test_with_stop_an_epoch_ends_when_a_source_has_nothing_left_and_repeats_nothing(drawn: Any, epochs: int) -> None:
    counts, weights = drawn
    mix = mix_of(counts, weights, exhausted="stop")
    with open_(mix) as loader:
        rows = stream(loader, counts, epochs)
    for epoch in range(epochs):
        seen = [(k, position) for e, k, position in rows if e == epoch]
        assert len(seen) == len(set(seen))
        given = np.bincount([k for k, _ in seen], minlength=len(counts))
        assert (given == counts).any() or len(counts) == 1


@examples(25)
@given(drawn=counts_and_weights, limit=st.integers(1, 3))
def test_a_source_with_a_limit_of_passes_comes_so_often_and_no_more(drawn: Any, limit: int) -> None:
    counts, weights = drawn
    words: dict[str, Any] = {f"s{k}": "redistribute" for k in range(len(counts))}
    words["s0"] = ("repeat", limit)
    with open_(mix_of(counts, weights, exhausted=words)) as loader:
        rows = stream(loader, counts, 2)
    for epoch in range(2):
        given = np.bincount([k for e, k, _ in rows if e == epoch], minlength=len(counts))
        assert given[1:].tolist() == counts[1:] if len(counts) > 1 else given[0] == counts[0]  # if all repeat: once
        assert given[0] <= counts[0] * limit


def test_len_is_the_number_of_rows_of_the_first_epoch() -> None:
    assert len(mix_of([10, 30], [0.5, 0.5])) in (20, 21)
    assert len(mix_of([10, 30], [0.5, 0.5], exhausted="redistribute")) == 40
    assert len(mix_of([10, 30], [0.5, 0.5], epoch_rows=17, exhausted="repeat")) == 17


@examples(25)
@given(
    drawn=counts_and_weights,
    word=st.sampled_from(["stop", "redistribute", "repeat"]),
    batch=st.integers(4, 9),
    world=st.sampled_from([2, 3, 4]),
)
def test_ranks_share_the_rows_of_one_stream(drawn: Any, word: Any, batch: int, world: int) -> None:
    counts, weights = drawn
    mix = mix_of(counts, weights, exhausted=word)
    with open_(mix, batch) as whole:
        expected = [whole.plan(0, step).tolist() for step in range(len(whole))]
    ranks = [open_(mix, batch, rank=r, world_size=world) for r in range(world)]
    for step, ids in enumerate(expected):
        parts = [rank.plan(0, step).tolist() for rank in ranks if step < len(rank)]
        assert [i for part in parts for i in part] == ids


@examples(25)
@given(
    drawn=counts_and_weights,
    word=st.sampled_from(["stop", "redistribute", "repeat"]),
    cut=st.integers(0, 12),
    batch=st.integers(1, 9),
)
def test_a_resumed_loader_of_another_batch_size_goes_on_with_the_next_row(
    drawn: Any, word: Any, cut: int, batch: int
) -> None:
    counts, weights = drawn
    mix = mix_of(counts, weights, exhausted=word)
    with open_(mix, 5) as first, open_(mix, batch) as second:
        ids: list[int] = []
        rows = [i for step in range(len(first)) for i in first.plan(0, step).tolist()]
        for n, b in enumerate(first):
            if n == cut:
                break
            ids += b.ids.tolist()
        if len(ids) == len(rows):
            return
        position = open_(mix, 5)
        batches = iter(position)
        for _ in range(cut):
            next(batches)
        second.load_state_dict(position.state_dict())
        for b in second:
            ids += b.ids.tolist()
        assert ids == rows


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


def test_documents_of_any_length_are_mixed_by_their_tokens(tmp_path: Path) -> None:
    with leat.Writer(tmp_path / "d.leat", {"tokens": leat.field("uint16", (None,))}) as w:
        for n in (3, 3, 5):
            w.add(tokens=np.zeros(n, np.uint16))
    ds = leat.open(tmp_path / "d.leat")
    assert len(leat.Mix({"code": (ds, 1)}, unit="tokens")) == 3
    mix = leat.Mix(
        {"short": (ds[:2], 0.375), "long": (ds[2:], 0.625)}, unit="tokens", epoch_rows=40, exhausted="repeat"
    )
    with leat.Loader(mix, batch_size=2, framework="numpy") as loader:
        assert all(sorted(batch.domains) == [0, 1] for batch in loader)


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
