"""The documents' own loss masks go with their tokens, however rows are made of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from drawn_support import examples
from hypothesis import given
from hypothesis import strategies as st

import leat


def write(path: Path, documents: list[Any], masks: list[Any], dtype: str = "bool") -> leat.Dataset:
    fields = {"tokens": leat.field("uint16", (None,)), "loss_mask": leat.field(dtype, (None,))}
    with leat.Writer(path, fields, overwrite=True) as w:
        for tokens, mask in zip(documents, masks, strict=True):
            w.add(tokens=tokens, loss_mask=mask)
    return leat.open(path)


@examples(25)
@given(data=st.data())
def test_each_token_keeps_its_mask(tmp_path_factory: Any, data: Any) -> None:
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    lengths = rng.integers(0, 40, data.draw(st.integers(1, 40)))
    documents = [rng.integers(10, 60000, n).astype(np.uint16) for n in lengths]
    dtype = data.draw(st.sampled_from(["bool", "uint8"]))
    masks = [(rng.integers(0, 3, n)).astype(dtype) for n in lengths]
    ds = write(tmp_path_factory.mktemp("masks") / "d.leat", documents, masks, dtype)
    bos, eos = data.draw(st.sampled_from([None, 1])), data.draw(st.sampled_from([None, 2]))
    length, how = data.draw(st.integers(1, 50)), data.draw(st.sampled_from(["cut", "best_fit", "pad"]))
    rows = leat.pack_rows(ds, length=length, how=how, bos=bos, eos=eos)
    loader = leat.Loader(rows, 3, shuffle=data.draw(st.booleans()), framework="numpy", num_threads=1)
    found: dict[int, list[Any]] = {i: [] for i in range(len(documents))}
    for batch in loader:
        for row in np.flatnonzero(batch.valid):
            named = {n: np.asarray(batch[n])[row] for n in ("tokens", "doc_ids", "loss_mask")}
            assert not named["loss_mask"][named["doc_ids"] < 0].any()
            for i in set(named["doc_ids"].tolist()) - {-1}:
                at = named["doc_ids"] == i
                found[i] += zip(named["tokens"][at].tolist(), named["loss_mask"][at].tolist(), strict=True)
    for i, (tokens, mask) in enumerate(zip(documents, masks, strict=True)):
        expected = [] if bos is None else [(1, False)]
        expected += list(zip(tokens.tolist(), (mask != 0).tolist(), strict=True))
        expected += [] if eos is None else [(2, True)]
        assert sorted(found[i]) == (sorted(expected) if len(tokens) else [])
    plain = [r for b in leat.Loader(rows, 3, framework="numpy") for r in b["loss_mask"][b.valid].tolist()]
    assert plain == [rows[i]["loss_mask"].tolist() for i in range(len(rows))]


def test_the_mask_alone_may_be_asked_for(tmp_path: Path) -> None:
    ds = write(tmp_path / "d.leat", [np.arange(4, dtype=np.uint16)], [np.array([0, 1, 1, 0], bool)])
    loader = leat.Loader(leat.pack_rows(ds, length=6), 1, framework="numpy", outputs={"loss_mask": []})
    assert next(iter(loader))["loss_mask"].tolist() == [[False, True, True, False, False, False]]


def test_a_mixture_of_rows_has_the_masks_of_each_source(tmp_path: Path) -> None:
    sources = {}
    for k in range(3):
        documents = [np.full(5, 10 * k + 1, np.uint16)] * 9
        ds = write(tmp_path / f"{k}.leat", documents, [np.arange(5) % 3 == k] * 9)
        sources[str(k)] = (leat.pack_rows(ds, length=5, how="pad"), 1 / 3)
    mix = leat.Mix(sources, normalize=True)
    seen = set()
    for batch in leat.Loader(mix, 3, framework="numpy"):
        for tokens, mask in zip(batch["tokens"], batch["loss_mask"], strict=True):
            k = int(tokens[0]) // 10
            assert mask.tolist() == (np.arange(5) % 3 == k).tolist()
            seen.add(k)
    assert seen == {0, 1, 2}


def test_a_mask_of_another_length_or_type_is_refused(tmp_path: Path) -> None:
    documents = [np.zeros(3, np.uint16), np.zeros(4, np.uint16)]
    ds = write(tmp_path / "d.leat", documents, [np.ones(3, bool), np.ones(5, bool)])
    with pytest.raises(ValueError, match="document 1 has 4 tokens and a loss_mask of 5"):
        leat.Loader(leat.pack_rows(ds, length=4, eos=1), 1)
    with pytest.raises(ValueError, match="document 1 has 4 tokens and a loss_mask of 5"):
        list(leat.pack_rows(ds, length=4, eos=1))
    ds = write(tmp_path / "e.leat", documents, [np.ones(n, np.float32) for n in (3, 4)], "float32")
    with pytest.raises(TypeError, match=r"is field\('float32'.*, no list of bool or uint8.* leave it out"):
        leat.pack_rows(ds, length=4)
