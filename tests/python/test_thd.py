"""Batches of sequences one behind the other: each document once, borders as they lie, at most so many tokens."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from drawn_support import examples
from hypothesis import given
from hypothesis import strategies as st
from test_pack_rows import make, write

import leat


def sequences(batch: Any) -> list[tuple[int, list[int]]]:
    """(document, tokens) of each, by cu_seqlens."""
    cu, tokens = np.asarray(batch["cu_seqlens"]), np.asarray(batch["tokens"])
    assert cu.dtype == np.int32 and cu[0] == 0 and tokens.shape == (1, cu[-1])
    assert batch["max_seqlen"] == max(np.diff(cu), default=0)
    found = []
    for a, b in zip(cu[:-1], cu[1:], strict=True):
        (document,) = set(np.asarray(batch["doc_ids"])[0, a:b].tolist())
        assert np.asarray(batch["positions"])[0, a:b].tolist() == list(range(b - a))
        found.append((document, tokens[0, a:b].tolist()))
    return found


@examples(25)
@given(data=st.data())
def test_each_epoch_has_each_document_once_in_batches_within_the_budget_on_any_ranks(
    tmp_path_factory: Any, data: Any
) -> None:
    documents = make(np.random.default_rng(data.draw(st.integers(0, 2**32))), data.draw(st.integers(1, 60)), 30)
    budget, world = data.draw(st.integers(30, 90)), data.draw(st.integers(1, 3))
    rows = leat.pack_rows(write(tmp_path_factory.mktemp("thd") / "d.leat", documents), how="ragged")
    options: dict[str, Any] = dict(shuffle=data.draw(st.booleans()), seed=3, framework="numpy", num_threads=1)
    loaders = [leat.Loader(rows, batch_tokens=budget, rank=r, world_size=world, **options) for r in range(world)]
    assert len({len(loader) for loader in loaders}) == 1
    found = []
    for step in zip(*loaders, strict=True):
        for batch in step:
            each = sequences(batch)
            assert sum(len(t) for _, t in each) <= budget
            found += each if batch.valid[0] else []
    assert sorted(found) == [(i, d.tolist()) for i, d in enumerate(documents) if len(d)]


def test_a_multiple_above_the_default_length_waits_for_batch_tokens(tmp_path: Path) -> None:
    rows = leat.pack_rows(write(tmp_path / "d.leat", [np.arange(5, dtype=np.uint16)]), how="ragged", multiple=4096)
    batch = leat.Loader(rows, batch_tokens=4096, framework="numpy").batch_at(0, 0)
    assert batch["cu_seqlens"].tolist() == [0, 5] and batch["cu_seqlens_padded"].tolist() == [0, 4096]
    with pytest.raises(ValueError, match="multiples of 4096 tokens do not fill rows of 4095"):
        leat.Loader(rows, batch_tokens=4095)


@pytest.mark.parametrize("multiples", [(8, 1), (1, 8), (4, 16)])
def test_sources_of_a_mixture_are_padded_each_by_its_own_multiple(tmp_path: Path, multiples: tuple[int, int]) -> None:
    sources, k = {}, 1
    for name, multiple in zip("ab", multiples, strict=True):
        documents = []
        for n in (7, 1, 1, 1, 1, 1, 1, 5, 3):
            documents.append(np.full(n, k, np.uint16))
            k += 1
        ds = write(tmp_path / f"{name}.leat", documents)
        sources[name] = (leat.pack_rows(ds, length=32, how="best_fit", multiple=multiple, fill=0), 0.5)
    for batch in leat.Loader(leat.Mix(sources), 2, framework="numpy"):
        assert (batch["doc_ids"] == batch["tokens"].astype(int) - 1).all()
        assert (batch["loss_mask"] == (batch["tokens"] > 0)).all()


@pytest.mark.parametrize("how, parts", [("zigzag", 4), ("contiguous", 2)])
def test_ranks_of_context_parallelism_share_each_padded_sequence(tmp_path: Path, how: str, parts: int) -> None:
    documents = [np.arange(100 * i, 100 * i + n, dtype=np.uint16) for i, n in enumerate((4, 8, 5, 13, 1), 1)]
    rows = leat.pack_rows(write(tmp_path / "d.leat", documents), how="ragged", multiple=8, fill=0)
    whole = leat.Loader(rows, batch_tokens=64, framework="numpy").batch_at(0, 0)
    line, borders = whole["tokens"][0].tolist(), whole["cu_seqlens_padded"].tolist()
    for rank in range(2):
        loader = leat.Loader(rows, batch_tokens=64, framework="numpy", mesh={"cp": (rank, 2)}, cp=how)
        expected = []
        for a, b in zip(borders[:-1], borders[1:], strict=True):
            n = (b - a) // parts
            for part in (rank, parts - 1 - rank) if how == "zigzag" else (rank,):
                expected += line[a + part * n : a + (part + 1) * n]
        assert loader.batch_at(0, 0)["tokens"].tolist() == [expected]


@examples(25)
@given(data=st.data())
def test_sequences_are_padded_to_a_multiple_and_both_borders_are_given(tmp_path_factory: Any, data: Any) -> None:
    documents = make(np.random.default_rng(data.draw(st.integers(0, 2**32))), data.draw(st.integers(1, 60)), 60)
    multiple, world = data.draw(st.integers(1, 16)), data.draw(st.integers(1, 3))
    budget = data.draw(st.integers(multiple, 90))
    ds = write(tmp_path_factory.mktemp("thd") / "d.leat", documents)
    rows = leat.pack_rows(ds, how="ragged", eos=60001, fill=60002, multiple=multiple)
    options: dict[str, Any] = dict(shuffle=data.draw(st.booleans()), seed=3, framework="numpy", num_threads=1)
    loaders = [leat.Loader(rows, batch_tokens=budget, rank=r, world_size=world, **options) for r in range(world)]
    found: dict[int, list[list[int]]] = {}
    for step in zip(*loaders, strict=True):
        for batch in step:
            cu, tokens = np.asarray(batch["cu_seqlens"]), np.asarray(batch["tokens"])[0]
            padded = np.asarray(batch["cu_seqlens_padded"]) if multiple > 1 else cu
            counts, rooms = np.diff(cu), np.diff(padded)
            assert padded.dtype == np.int32 and padded[-1] == len(tokens) <= budget
            assert (rooms == -(-counts // multiple) * multiple).all() and batch["max_seqlen"] == rooms.max(initial=0)
            beside = [np.asarray(batch[name])[0] for name in ("doc_ids", "positions", "loss_mask")]
            for begin, end, count in zip(padded, padded[1:], counts, strict=False):
                ids, positions, mask = (each[begin:end] for each in beside)
                assert len(set(ids[:count].tolist())) == 1 and (positions[:count] == np.arange(count)).all()
                assert mask[:count].all() and not mask[count:].any() and (ids[count:] == -1).all()
                assert (tokens[begin + count : end] == 60002).all()
                if batch.valid[0]:
                    found.setdefault(int(ids[0]), []).append(tokens[begin : begin + count].tolist())
    most = budget // multiple * multiple
    for i, document in enumerate(documents):
        whole = [*document.tolist(), 60001] if len(document) else []
        assert sorted(found.get(i, [])) == sorted(whole[k : k + most] for k in range(0, len(whole), most))


def test_rows_of_best_fit_pad_their_documents_as_the_data_set_shows_them(tmp_path: Path) -> None:
    ds = write(tmp_path / "d.leat", make(np.random.default_rng(5), 40, 50))
    rows = leat.pack_rows(ds, length=32, how="best_fit", eos=60000, multiple=8)
    batch = next(iter(leat.Loader(rows, len(rows), framework="numpy")))
    for i, id in enumerate(batch.ids):
        for name, value in rows[int(id)].items():
            assert np.array_equal(np.asarray(batch[name])[i], value), name
    assert rows.fingerprint != leat.pack_rows(ds, length=32, how="best_fit", eos=60000).fingerprint


def test_a_run_goes_on_where_it_was_and_operators_see_whole_rows(tmp_path: Path) -> None:
    ds = write(tmp_path / "d.leat", make(np.random.default_rng(1), 90, 20))

    def open_loader() -> leat.Loader:
        outputs = {"tokens": [leat.ops.MaskTokens(60001, 60002)]}
        rows = leat.pack_rows(ds, how="ragged", eos=60000)
        return leat.Loader(rows, batch_tokens=64, shuffle=True, seed=3, framework="numpy", outputs=outputs)

    def told(batch: Any) -> list[list[Any]]:
        return [np.asarray(batch[n]).tolist() for n in ("tokens", "tokens.labels", "cu_seqlens")]

    whole = [told(b) for b in open_loader()]
    assert all(len(t[0]) == len(labels[0]) == cu[-1] for t, labels, cu in whole)
    first = open_loader()
    stream = iter(first)
    found = [told(next(stream)) for _ in range(4)]
    second = open_loader()
    second.load_state_dict(first.state_dict())
    assert found + [told(b) for b in second] == whole


def test_tensors_are_those_that_attention_takes(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    ds = write(tmp_path / "d.leat", [np.full(n, n, np.uint16) for n in (5, 2, 4, 3)])
    wide = {"tokens": [leat.ops.ToDtype("int64")]}
    loader = leat.Loader(leat.pack_rows(ds, how="ragged"), batch_tokens=8, framework="torch", outputs=wide)
    batch = next(iter(loader))
    assert list(batch) == ["tokens", "positions", "doc_ids", "cu_seqlens", "max_seqlen"]
    assert batch["tokens"].tolist() == [[5] * 5 + [3] * 3] and batch["tokens"].dtype == torch.int64
    assert batch["cu_seqlens"].tolist() == [0, 5, 8] and batch["cu_seqlens"].dtype == torch.int32
    assert batch["max_seqlen"] == batch.clone()["max_seqlen"] == 5
    assert batch.to("cpu")["cu_seqlens"].tolist() == [0, 5, 8]


def test_what_does_not_go_together_is_refused(tmp_path: Path) -> None:
    ds = write(tmp_path / "d.leat", [np.ones(3, np.uint16)])
    rows = leat.pack_rows(ds, how="ragged")
    with pytest.raises(ValueError, match="come by batch_tokens="):
        leat.Loader(rows, batch_size=2)
    with pytest.raises(TypeError, match="batch_tokens with leat.pack_rows"):
        leat.Loader(leat.pack_rows(ds, length=4), batch_tokens=8)
    with pytest.raises(ValueError, match="buckets does not go with rows"):
        leat.Loader(rows, batch_tokens=8, buckets=[8])
    with pytest.raises(ValueError, match="stands in the place of batch_size"):
        leat.Loader(rows, batch_tokens=8, batch_size=1)
    with pytest.raises(ValueError, match="cannot be called 'cu_seqlens'"):
        leat.Loader(rows, batch_tokens=8, outputs={"cu_seqlens": leat.Out("tokens")})
    with pytest.raises(ValueError, match="multiple goes with how='ragged' and 'best_fit', not with 'cut'"):
        leat.pack_rows(ds, multiple=8)
    with pytest.raises(ValueError, match="multiples of 24 tokens do not fill rows of 64"):
        leat.pack_rows(ds, length=64, how="best_fit", multiple=24)
    with pytest.raises(ValueError, match="multiples of 24 tokens do not fill rows of 8"):
        leat.Loader(leat.pack_rows(ds, how="ragged", multiple=24), batch_tokens=8)
    with pytest.raises(ValueError, match="batch_tokens is 1 or above"):
        leat.Loader(rows, batch_tokens=0)


def test_a_batch_stays_one_row_of_each_rank(tmp_path: Path) -> None:
    rows = leat.pack_rows(write(tmp_path / "d.leat", [np.arange(5, dtype=np.uint16)] * 9), how="ragged")
    refused = pytest.raises(ValueError, match="one row of each rank, of at most 10 tokens, not 3 rows")
    with leat.Loader(rows, batch_tokens=10, framework="numpy", rank=0, world_size=1) as loader:
        state = loader.state_dict()
        with refused:
            loader.set_batch_size(3)
        with refused:
            loader.set_batch_size(global_batch_size=3)
        with refused:
            loader.consumer(3)
        assert loader.state_dict() == state
        assert next(iter(loader.consumer(1)))["cu_seqlens"].tolist() == [0, 5, 10]
        folder = tmp_path / "ports"
        with leat.Port(loader, "p", folder=folder), leat.attach("p", 1, framework="numpy", folder=folder) as reader:
            assert next(iter(reader))["cu_seqlens"].tolist() == [0, 5, 10]
            with refused:
                leat.attach("p", 3, framework="numpy", folder=folder)
    with leat.Loader(rows, batch_tokens=10, framework="numpy", rank=1, world_size=3) as loader:
        loader.set_batch_size(global_batch_size=3, at=(0, 1))
        with refused:
            loader.set_batch_size(global_batch_size=9, at=(0, 1))
