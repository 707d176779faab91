"""The order of mixtures, compared row by row with tests/python/mixture_oracle.py: random mixtures, words, schedules,
units, decisions, ranks and resumed positions.
"""

from __future__ import annotations

import math
from itertools import islice
from typing import Any

import numpy as np
import pytest
from drawn_support import examples
from hypothesis import given
from hypothesis import strategies as st
from mixture_oracle import Mixture, Source, stream

import leat

ROWS = 400  #: of a stream that are compared, with the epoch that they end in
WORDS: list[Any] = ["stop", "redistribute", "repeat", ("repeat", 1), ("repeat", 2)]


@st.composite
def mixtures(draw: Any) -> Mixture:
    k = draw(st.integers(1, 9))
    uniform = draw(st.booleans())
    words = [draw(st.sampled_from(WORDS))] * k if uniform else [draw(st.sampled_from(WORDS)) for _ in range(k)]
    in_tokens = draw(st.booleans())
    vary = draw(st.sampled_from([0, 0, 6, 3000]))
    sources = []
    for w in words:
        count = draw(st.integers(1, 25))
        tokens: int | list[int] = draw(st.integers(1, 9))
        if in_tokens and vary:
            tokens = draw(st.lists(st.integers(0, vary), min_size=count, max_size=count))
            tokens[draw(st.integers(0, count - 1))] = draw(st.integers(1, vary))
        sources.append(Source(count, *(w if isinstance(w, tuple) else (w, 0)), tokens))
    rows = [0, *sorted(draw(st.sets(st.integers(1, 200), max_size=3)))]
    low = draw(st.sampled_from([0.0, 0.01]))
    points = []
    for at in rows:
        weights = [draw(st.floats(low, 1)) if i else draw(st.floats(0.05, 1)) for i in range(k)]
        weights = [w if w > 1e-6 else 0.0 for w in weights]
        total = math.fsum(weights)
        points.append((at, [w / total for w in weights]))
    return Mixture(
        sources,
        points,
        linear=draw(st.booleans()),
        in_tokens=in_tokens,
        epoch_rows=draw(st.sampled_from([0, 0, 0, 17, 60])),
        seed=draw(st.integers(0, 2**32)),
        shuffled=draw(st.booleans()),
    )


def as_leat(m: Mixture) -> leat.Mix | leat.Schedule:
    datasets = []
    for s in m.sources:
        if m.in_tokens:
            rows = leat.field("uint8", (None,))
            ds: leat.Dataset = leat.from_source(Rows(s, rows))
        else:
            ds = leat.from_arrays(x=np.arange(s.count))
        datasets.append(ds)
    words: dict[str, Any] = {str(i): (s.word, s.limit) if s.limit else s.word for i, s in enumerate(m.sources)}
    first = leat.Mix(
        {str(i): (ds, w) for i, (ds, w) in enumerate(zip(datasets, m.points[0][1], strict=True))},
        "tokens" if m.in_tokens else "samples",
        words,
        m.epoch_rows or None,
    )
    if len(m.points) == 1:
        return first
    points = [(at, first.with_weights({str(i): w for i, w in enumerate(weights)})) for at, weights in m.points]
    return leat.Schedule(points, "linear" if m.linear else "step", counts="rows")


class Rows:
    """Rows of so many tokens, for leat.from_source."""

    def __init__(self, source: Source, rows: leat.Field) -> None:
        self.source, self.fields = source, {"tokens": rows}

    def __len__(self) -> int:
        return self.source.count

    def read(self, positions: Any) -> dict[str, Any]:
        return {"tokens": [np.zeros(self.source.of(i), np.uint8) for i in positions]}


def open_(m: Mixture, batch: int, **more: Any) -> leat.Loader:
    return leat.Loader(
        as_leat(m),
        global_batch_size=batch,
        shuffle=m.shuffled,
        seed=m.seed,
        framework="numpy",
        tail="uneven",
        **({"rank": 0, "world_size": 1} | more),
    )


def expected(m: Mixture) -> list[list[tuple[int, int]]]:
    """(source, position) of each row, epoch by epoch; an epoch that is not whole is left out."""
    epochs: list[list[tuple[int, int]]] = [[]]
    for total, (epoch, k, position) in enumerate(stream(m)):
        if epoch == len(epochs):
            if total >= ROWS or epoch == 5:
                break
            epochs.append([])
        epochs[epoch].append((k, position))
        if total > 20 * ROWS:  # one long epoch
            epochs.pop()
            break
    return epochs


def planned(loaders: list[leat.Loader], m: Mixture, epoch: int) -> list[tuple[int, int]]:
    """The same of the plan of all ranks."""
    begins = np.cumsum([0, *(s.count for s in m.sources)])
    rows = []
    for loader in loaders:
        loader.set_epoch(epoch)
    for step in range(max(map(len, loaders))):
        for loader in loaders:
            ids = loader.plan(epoch, step) if step < len(loader) else np.empty(0, np.int64)
            k = np.searchsorted(begins, ids, "right") - 1
            rows += [(int(s), int(i - begins[s])) for s, i in zip(k, ids, strict=True)]
    return rows


@examples(30)
@given(m=mixtures(), batch=st.integers(4, 11), world=st.sampled_from([1, 1, 2, 4]))
def test_the_plan_of_all_ranks_is_the_order_of_the_page(m: Mixture, batch: int, world: int) -> None:
    try:
        epochs = expected(m)
    except ValueError:  # an epoch without rows
        return
    loaders = [open_(m, batch, rank=r, world_size=world) for r in range(world)]
    for epoch, rows in enumerate(epochs):
        assert planned(loaders, m, epoch) == rows
    for loader in loaders:
        loader.close()


@examples(25)
@given(m=mixtures(), batch=st.integers(4, 11), world=st.sampled_from([1, 2, 4]), steps=st.integers(1, 30))
def test_runs_that_resume_go_on_with_the_order_of_the_page(m: Mixture, batch: int, world: int, steps: int) -> None:
    try:
        epochs = expected(m)
    except ValueError:
        return
    left = steps
    with open_(m, batch) as first:
        for _ in (batch for _ in epochs for batch in first):
            left -= 1
            if not left:
                break
        state = first.state_dict()
    if left:
        return
    at, row = state["at"]["epoch"], state["at"]["row"]
    if at >= len(epochs):
        return
    loaders = [open_(m, batch, rank=r, world_size=world) for r in range(world)]
    for loader in loaders:
        loader.load_state_dict(state)
    parts = [[(b.step, b.domains.tolist(), b.ids.tolist()) for b in loader] for loader in loaders]
    begins = np.cumsum([0, *(s.count for s in m.sources)])
    found = [
        (k, i - int(begins[k]))
        for _, domains, ids in sorted((b for part in parts for b in part), key=lambda b: b[0])
        for k, i in zip(domains, ids, strict=True)
    ]
    assert found == epochs[at][row:]
    for loader in loaders:
        loader.close()


@pytest.mark.parametrize("in_tokens", [False, True])
@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize("change", [84, 85, 86])
def test_an_epoch_whose_last_row_is_where_shares_change_ends_by_the_new_ones(
    word: Any, change: int, in_tokens: bool
) -> None:
    name, limit = word if isinstance(word, tuple) else (word, 0)
    sources = [Source(17, name, limit, [1, *[0] * 16] if in_tokens else 1), Source(3, name, limit)]
    m = Mixture(sources, [(0, [1.0, 0.0]), (change, [0.5, 0.5])], in_tokens=in_tokens, shuffled=False)
    with open_(m, 4) as loader:
        for epoch, rows in enumerate(expected(m)):
            assert planned([loader], m, epoch) == rows


def test_shares_decided_at_a_step_hold_as_the_page_says() -> None:
    m = Mixture([Source(40), Source(25), Source(60)], [(0, [0.2, 0.3, 0.5])], epoch_rows=70, seed=4)
    m.decisions = [(24, [0.7, 0.3, 0.0]), (96, [0.1, 0.1, 0.8])]
    with open_(m, 8) as loader:
        loader._core.set_shares(0, 3, [0.7, 0.3, 0.0])
        loader._core.set_shares(1, 4, [0.1, 0.1, 0.8])  # 9 batches an epoch: row 70 + 32 = 102
        m.decisions[1] = (102, m.decisions[1][1])
        for epoch, rows in enumerate(expected(m)):
            assert planned([loader], m, epoch) == rows


@pytest.mark.parametrize("k", [1, 2, 5, 40])
@pytest.mark.parametrize("longest", [7, 100_000])
def test_shares_of_tokens_of_any_rows_hold_at_every_prefix(k: int, longest: int) -> None:
    rng = np.random.default_rng(k)
    weights = rng.dirichlet(np.ones(k)) + 1e-4
    weights /= weights.sum()
    lengths = [rng.integers(0, longest, 50).tolist() + [longest] for _ in range(k)]
    sources = [Source(51, "repeat", 0, tokens) for tokens in lengths]
    m = Mixture(sources, [(0, weights.tolist())], in_tokens=True, epoch_rows=450)
    given = np.zeros(k)
    with open_(m, 9) as loader:
        rows = list(islice(stream(m), 900))
        for _, source, position in rows:
            given[source] += lengths[source][position]
            off = np.abs(given - weights * given.sum())
            assert (off <= longest / 2 + weights * longest * k / 2 + 1 + given.sum() * 2**-32).all()
        assert planned([loader], m, 1) == [(s, p) for epoch, s, p in rows if epoch == 1]


@pytest.mark.parametrize("k", [2, 5, 16, 100])
def test_the_oracle_itself_keeps_every_count_within_the_bound_of_the_page(k: int) -> None:
    rng = np.random.default_rng(k)
    levels = math.ceil(math.log2(k))
    weights = [rng.dirichlet(np.ones(k)) + 1e-4 for _ in range(12)]
    points = [(at * 40, (w / w.sum()).tolist()) for at, w in enumerate(weights)]
    m = Mixture([Source(10**9)] * k, points, shuffled=False)
    given, due, kept = np.zeros(k), np.zeros(k), 0.0
    for row, (_, source, _) in enumerate(stream(m)):
        if row == 480:
            break
        given[source] += 1
        due += points[row // 40][1]
        kept = max(kept, float(np.abs(given - due).max()))
    assert kept <= levels * (levels + 1) / 4 + 1e-3
