"""Rows that cut no document (best_fit, pad): held against packing in plain Python."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from drawn_support import examples
from hypothesis import given
from hypothesis import strategies as st
from test_order_reference import mix, permute
from test_pack_rows import SEED, as_rows, make, write

import leat

P_ORDER, P_BINS = 2**63 + 1, 2**63 + 4


def falling(lengths: list[int], length: int, seed: int) -> list[int]:
    """Documents with something left when pieces of `length` are cut off, as they are packed."""
    order = list(map(permute(len(lengths), mix(seed, P_BINS)), range(len(lengths)))) if lengths else []
    return sorted((i for i in order if lengths[i] % length), key=lambda i: -(lengths[i] % length))


def best_fit(items: list[int], sizes: list[int], length: int) -> list[list[int]]:
    rows: list[list[int]] = []
    room: list[int] = []
    came: list[int] = []  # when a row came to the room it has
    for time, i in enumerate(items):
        fits = [k for k in range(len(rows)) if room[k] >= sizes[i]]
        if not fits:
            rows, room, came, fits = [*rows, []], [*room, length], [*came, 0], [len(rows)]
        k = min(fits, key=lambda k: (room[k], -came[k]))
        rows[k].append(i)
        room[k] -= sizes[i]
        came[k] = time + 1
    return rows


def first_fit(items: list[int], sizes: list[int], length: int) -> list[list[int]]:
    rows: list[list[int]] = []
    room: list[int] = []
    for i in items:
        k = next((k for k in range(len(rows)) if room[k] >= sizes[i]), len(rows))
        if k == len(rows):
            rows.append([])
            room.append(length)
        rows[k].append(i)
        room[k] -= sizes[i]
    return rows


def packed(lengths: list[int], length: int, how: str, seed: int) -> list[list[tuple[int, int, int]]]:
    """(document, first token, how many) of each row, in the order of the data set."""
    rows = [
        [(i, at, min(length, n - at))]
        for i, n in enumerate(lengths)
        for at in range(0, n, length)
        if how == "pad" or n - at >= length
    ]
    if how == "pad":
        return rows
    items, sizes = falling(lengths, length, seed), [n % length for n in lengths]
    best, first = best_fit(items, sizes, length), first_fit(items, sizes, length)
    return rows + [[(i, lengths[i] - sizes[i], sizes[i]) for i in row] for row in min(best, first, key=len)]


def tokens(
    rows: list[list[tuple[int, int, int]]], documents: list[Any], length: int, fill: int
) -> list[dict[str, Any]]:
    made = []
    for row in rows:
        t = [int(x) for i, at, n in row for x in documents[i][at : at + n]]
        pad = length - len(t)
        made.append({"tokens": t + [fill] * pad, "doc_ids": [i for i, _, n in row for _ in range(n)] + [-1] * pad,
                     "positions": [p for _, _, n in row for p in range(n)] + [0] * pad,
                     "loss_mask": [True] * len(t) + [False] * pad})  # fmt: skip
    return made


@examples(30)
@given(data=st.data())
def test_rows_are_those_of_packing_in_plain_python(tmp_path_factory: Any, data: Any) -> None:
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    documents = make(rng, data.draw(st.integers(0, 60)), data.draw(st.sampled_from([1, 5, 12, 40])))
    length, seed = data.draw(st.integers(1, 30)), data.draw(st.integers(0, 2**64 - 1))
    how = data.draw(st.sampled_from(["best_fit", "pad"]))
    bos, eos = data.draw(st.sampled_from([None, 1])), data.draw(st.sampled_from([None, 2]))
    ds = write(tmp_path_factory.mktemp("pack") / "d.leat", documents)
    rows = leat.pack_rows(ds, length=length, how=how, bos=bos, eos=eos, fill=7, seed=seed)
    whole = [([] if bos is None else [bos]) + d.tolist() + ([] if eos is None else [eos]) for d in documents]
    whole = [w if len(d) else [] for w, d in zip(whole, documents, strict=True)]
    expected = tokens(packed([len(d) for d in whole], length, how, seed), whole, length, 7)
    assert [{k: np.asarray(v).tolist() for k, v in rows[i].items()} for i in range(len(rows))] == expected
    if not expected:
        return
    shuffle, size, world = data.draw(st.booleans()), data.draw(st.integers(1, 5)), data.draw(st.integers(1, 3))
    options = dict(batch_size=size, shuffle=shuffle, seed=SEED, framework="numpy", world_size=world)
    streams = [iter(leat.Loader(rows, rank=r, num_threads=1, **options)) for r in range(world)]
    found = [row for step in zip(*streams, strict=True) for batch in step for row in as_rows(batch)]
    key = mix(mix(mix(SEED, P_ORDER), 0), 0)
    order = map(permute(len(expected), key), range(len(expected))) if shuffle else range(len(expected))
    assert found == [expected[i] for i in order]


@examples(100)
@given(st.lists(st.integers(0, 100), min_size=1, max_size=80), st.integers(10, 100), st.integers(0, 2**64 - 1))
def test_best_fit_cuts_no_document_that_fits_and_needs_no_more_rows_than_first_fit(
    lengths: list[int], length: int, seed: int
) -> None:
    begin, documents = np.empty(len(lengths) + 2, np.uint32), np.empty(len(lengths), np.uint32)
    n = leat._leat.best_fit(np.array(lengths, np.uint32), length, seed, begin, documents)
    rows = [documents[begin[k] : begin[k + 1]].tolist() for k in range(n)]
    sizes = [x % length for x in lengths]
    assert sorted(i for row in rows for i in row) == [i for i, size in enumerate(sizes) if size]
    assert all(sum(sizes[i] for i in row) <= length for row in rows)
    items = falling(lengths, length, seed)
    assert n <= len(first_fit(items, sizes, length))
    assert n <= len(best_fit(items, sizes, length))


def test_where_first_fit_needs_fewer_rows_it_is_taken() -> None:
    lengths, length = [16, 15, 14, 14, 13, 10, 9, 8, 8, 3, 2, 2, 2], 29
    items = falling(lengths, length, 0)
    first = first_fit(items, lengths, length)
    assert len(first) == 4 < len(best_fit(items, lengths, length))
    begin, documents = np.empty(len(lengths) + 2, np.uint32), np.empty(len(lengths), np.uint32)
    n = leat._leat.best_fit(np.array(lengths, np.uint32), length, 0, begin, documents)
    assert [documents[begin[k] : begin[k + 1]].tolist() for k in range(n)] == first


def test_another_seed_puts_other_documents_together(tmp_path: Path) -> None:
    ds = write(tmp_path / "d.leat", [np.full(3, i, np.uint16) for i in range(60)])
    rows = [leat.pack_rows(ds, length=9, how="best_fit", seed=seed) for seed in (0, 0, 1)]
    ids = [[set(r[i]["doc_ids"].tolist()) for i in range(len(r))] for r in rows]
    assert ids[0] == ids[1] != ids[2]
    assert rows[0].fingerprint == rows[1].fingerprint != rows[2].fingerprint


def test_a_state_is_refused_where_documents_are_packed_otherwise(tmp_path: Path) -> None:
    ds = write(tmp_path / "d.leat", make(np.random.default_rng(1), 40, 9))
    loader = leat.Loader(leat.pack_rows(ds, length=16, how="best_fit"), batch_size=2, framework="numpy")
    state = loader.state_dict()
    for other in ({"how": "pad"}, {"how": "cut"}, {"how": "best_fit", "seed": 1}):
        with pytest.raises(leat.StateError):
            leat.Loader(leat.pack_rows(ds, length=16, **other), batch_size=2, framework="numpy").load_state_dict(state)


def test_a_run_goes_on_where_it_was(tmp_path: Path) -> None:
    ds = write(tmp_path / "d.leat", make(np.random.default_rng(1), 90, 20))

    def open_loader() -> leat.Loader:
        rows = leat.pack_rows(ds, length=32, how="best_fit")
        return leat.Loader(rows, batch_size=3, shuffle=True, seed=3, framework="numpy")

    first = open_loader()
    whole = [as_rows(b) for _ in range(2) for b in first]
    second, found = open_loader(), []
    for k, batch in enumerate(second):
        found.append(as_rows(batch))
        if k == 2:
            break
    third = open_loader()
    third.load_state_dict(second.state_dict())
    found += [as_rows(b) for _ in range(2) for b in third]
    assert found == whole


def test_weights_are_one_per_row(tmp_path: Path) -> None:
    rows = leat.pack_rows(write(tmp_path / "d.leat", make(np.random.default_rng(1), 40, 9)), length=16, how="best_fit")
    sampler = leat.Weighted(np.arange(1, len(rows) + 1), 10)
    assert sum(b.size for b in leat.Loader(rows, batch_size=5, sampler=sampler, framework="numpy")) == 10


def test_rows_too_long_for_best_fit_are_refused(tmp_path: Path) -> None:
    ds = write(tmp_path / "d.leat", [np.zeros(3, np.uint16)])
    with pytest.raises(ValueError, match="length is 1 or above"):
        leat.pack_rows(ds, length=(1 << 24) + 1, how="best_fit")
    assert leat.pack_rows(ds, length=1 << 24, how="best_fit")[0]["loss_mask"].sum() == 3
