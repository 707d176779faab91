"""Documents that a chain makes as they are packed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import leat

L = leat.ops
MASK = L.MaskTokens(32, 33, special_ids=(0, 1, 2, 32))
CHAIN = [L.RandomSlice(30), L.Lookup("esm2"), MASK]
RESIDUES = np.frombuffer(b"LAGVSERTIDPKQNFYMHWC", np.uint8)


def proteins(seed: int = 0, n: int = 40) -> list[np.ndarray[Any, Any]]:
    r = np.random.default_rng(seed)
    return [r.choice(RESIDUES, int(k)) for k in r.integers(0, 60, n)]


def stored(tmp_path: Path, how: str, values: list[np.ndarray[Any, Any]]) -> leat.Dataset:
    if how == "fasta":
        path = tmp_path / "a.fa"
        path.write_bytes(b"".join(b">r%d\n%s\n" % (i, v.tobytes()) for i, v in enumerate(values)))
        return leat.open(str(path))
    if how == "leat":
        with leat.Writer(tmp_path / "a.leat", {"sequence": leat.field("uint8", (None,))}) as w:
            for v in values:
                w.add(sequence=v)
        return leat.open(str(tmp_path / "a.leat"))
    ends = np.cumsum([0] + [len(v) for v in values])
    ragged = leat.Ragged(np.concatenate(values), ends)
    if how == "arrays":
        return leat.from_arrays(sequence=ragged)

    class Computed:
        fields = {"sequence": leat.field("uint8", (None,))}

        def __len__(self) -> int:
            return len(values)

        def read(self, positions: Any) -> dict[str, Any]:
            return {"sequence": [values[i] for i in positions]}

    return leat.from_source(Computed())


def rows_of(loader: leat.Loader) -> list[dict[str, np.ndarray[Any, Any]]]:
    return [{k: b[k][i] for k in b} for b in loader for i in range(len(b.ids)) if b.valid[i]]


def assert_same(a: list[dict[str, Any]], b: list[dict[str, Any]]) -> None:
    assert len(a) == len(b)
    for x, y in zip(a, b, strict=True):
        assert x.keys() == y.keys()
        for k in x:
            np.testing.assert_array_equal(x[k], y[k])


@pytest.mark.parametrize("how", ["fasta", "leat", "arrays", "computed"])
@pytest.mark.parametrize("way", ["cut", "best_fit", "pad"])
def test_rows_are_those_of_whole_documents_by_the_chain(tmp_path: Path, how: str, way: str) -> None:
    ds = stored(tmp_path, how, proteins())
    rows = leat.pack_rows(ds, "sequence", 24, way, fill=1, chain=CHAIN, seed=3)
    loader = leat.Loader(rows, 3, framework="numpy", seed=3, num_threads=2)
    assert_same(rows_of(loader), [rows[i] for i in range(len(rows))])
    # each document by itself, with the key that docs/order.md gives it, and cut
    by_document: dict[int, list[np.ndarray[Any, Any]]] = {}
    for i in range(len(rows)):
        row = rows[i]
        for doc in np.unique(row["doc_ids"][row["doc_ids"] >= 0]):
            by_document.setdefault(int(doc), []).append(row["sequence"][row["doc_ids"] == doc])
    for doc, value in enumerate(proteins()):
        if not len(value):
            assert doc not in by_document
            continue
        key = leat._leat.row_key(leat._leat.row_key(3, 1 << 62, 0), doc, 0)
        made = leat.apply({"sequence": CHAIN}, {"sequence": [value]}, keys=np.array([key], np.uint64))
        assert sorted(np.concatenate(by_document[doc]).tolist()) == sorted(np.asarray(made["sequence"][0]).tolist())
        assert len(made["sequence"][0]) == min(len(value), 30) + 2


def test_draws_are_other_ones_in_each_epoch_and_the_same_for_any_threads_and_ranks(tmp_path: Path) -> None:
    ds = stored(tmp_path, "fasta", proteins(1, 200))
    lines = leat.pack_rows(ds, "sequence", how="ragged", fill=1, chain=CHAIN, multiple=8)
    options: dict[str, Any] = {"batch_tokens": 256, "shuffle": True, "seed": 5, "framework": "numpy"}

    def batches(loader: leat.Loader) -> list[dict[str, Any]]:
        return [{k: np.asarray(b[k]).copy() for k in b} for b in loader]

    first = leat.Loader(lines, num_threads=1, **options)
    expected, second = batches(first), batches(first)
    assert_same(batches(leat.Loader(lines, num_threads=2, **options)), expected)
    assert any(not np.array_equal(a["sequence"], b["sequence"]) for a, b in zip(expected, second, strict=True))
    ranks = [batches(leat.Loader(lines, rank=k, world_size=2, **options)) for k in range(2)]
    assert_same([b for pair in zip(*ranks, strict=True) for b in pair][: len(expected)], expected)
    loader = leat.Loader(lines, **options)
    steps = iter(loader)
    for _ in range(3):
        next(steps)
    other = leat.Loader(lines, **options)
    other.load_state_dict(loader.state_dict())
    assert_same(batches(other), expected[3:])


def test_a_batch_of_sequences(tmp_path: Path) -> None:
    ds = stored(tmp_path, "fasta", proteins(2, 100))
    lines = leat.pack_rows(ds, "sequence", how="ragged", fill=1, chain=CHAIN, multiple=4)
    loader = leat.Loader(lines, batch_tokens=128, framework="numpy", outputs={"sequence": []})
    lengths = {i: min(len(v), 30) + 2 for i, v in enumerate(proteins(2, 100)) if len(v)}
    seen = []
    for batch in loader:
        tokens, labels, ids = batch["sequence"][0], batch["sequence.labels"][0], batch["doc_ids"][0]
        starts = batch["cu_seqlens_padded"]
        for n, begin, end in zip(np.diff(batch["cu_seqlens"]), starts, starts[1:], strict=False):
            assert tokens[begin] == 0 and tokens[begin + n - 1] == 2
            assert (tokens[begin + n : end] == 1).all() and (labels[begin + n : end] == -100).all()
            assert len(set(ids[begin : begin + n])) == 1 and (ids[begin + n : end] == -1).all()
            assert lengths[int(ids[begin])] == n
            seen.append(int(ids[begin]))
    assert sorted(seen) == sorted(lengths)


def test_the_mask_of_what_is_no_base_is_that_of_the_row() -> None:
    values = [np.frombuffer(b, np.uint8) for b in (b"ACGTN", b"NNac", b"R-GT")]
    ds = leat.from_arrays(sequence=leat.Ragged(np.concatenate(values), np.array([0, 5, 9, 13])))
    rows = leat.pack_rows(ds, "sequence", 15, "best_fit", chain=[L.Lookup("nucleotide", loss_mask="ACGT")])
    batch = next(iter(leat.Loader(rows, 1, framework="numpy")))
    for i, value in enumerate(values):
        here = batch["doc_ids"][0] == i
        assert batch["loss_mask"][0][here].tolist() == [chr(c) in "ACGTacgt" for c in value]
        assert batch["sequence"][0][here].tolist() == value.tolist()
    assert not batch["loss_mask"][0][batch["doc_ids"][0] < 0].any()
    both = [L.Lookup("nucleotide", loss_mask="ACGT"), L.MaskTokens(7, 128)]
    rows = leat.pack_rows(ds, "sequence", 15, "best_fit", chain=both)
    batch = next(iter(leat.Loader(rows, 1, framework="numpy", outputs={"loss_mask": [], "sequence.labels": []})))
    assert sorted(batch.keys()) == ["loss_mask", "sequence.labels"] and batch["loss_mask"].sum() == 8


def test_tokens_go_through_a_chain_too(tmp_path: Path) -> None:
    r = np.random.default_rng(0)
    values = [r.integers(5, 99, n).astype(np.uint16) for n in (5, 9, 1, 30)]
    ds = leat.from_arrays(tokens=leat.Ragged(np.concatenate(values), np.cumsum([0, 5, 9, 1, 30])))
    rows = leat.pack_rows(ds, "tokens", 16, "best_fit", chain=[L.RandomSlice(8)])
    assert rows.schema["tokens"] == leat.field("uint16", (16,))
    assert sum((rows[i]["doc_ids"] >= 0).sum() for i in range(len(rows))) == 5 + 8 + 1 + 8


def test_a_residue_that_is_no_token_names_its_sample(tmp_path: Path) -> None:
    (tmp_path / "a.fa").write_bytes(b">a\nMKV\n>b\nMK1V\n")
    ds = leat.open(str(tmp_path / "a.fa"))
    rows = leat.pack_rows(ds, "sequence", 16, "best_fit", chain=[L.Lookup("esm2", unknown=None)])
    with pytest.raises(leat.BrokenSampleError) as e:
        list(leat.Loader(rows, 1, framework="numpy"))
    assert e.value.sample == 1


def test_what_a_chain_cannot_be(tmp_path: Path) -> None:
    ds = stored(tmp_path, "fasta", proteins())
    for chain, error, what in (
        ([L.PadTo(9)], TypeError, "lengths follow from those of the documents"),
        ([L.Decode()], TypeError, "Decode"),
        ([L.Lookup("esm2"), L.ToDtype("float32")], TypeError, "float32"),
        ([L.Lookup("esm2"), MASK, L.ToDtype("uint8")], ValueError, "uint8.*labels have -100"),
        ([L.Lookup("esm2"), L.Map(len)], (TypeError, ValueError), "Map"),
    ):
        with pytest.raises(error, match=what):
            leat.pack_rows(ds, "sequence", 16, chain=chain)
    with pytest.raises(ValueError, match="bos and eos do not go with a chain"):
        leat.pack_rows(ds, "sequence", 16, chain=CHAIN, bos=0)
    masked = leat.from_arrays(tokens=np.ones((3, 4), np.uint8), loss_mask=np.ones((3, 4), np.uint8))
    with pytest.raises(ValueError, match="loss_mask of their own"):
        leat.pack_rows(masked, "tokens", 16, chain=[L.RandomSlice(2)])


def test_fill_is_of_the_result(tmp_path: Path) -> None:
    ds = stored(tmp_path, "fasta", proteins())
    for chain, fill in ((CHAIN, -1), ([L.Lookup("esm2"), L.ToDtype("int16")], 300)):
        rows = leat.pack_rows(ds, "sequence", 40, "best_fit", fill=fill, chain=chain)
        loader = leat.Loader(rows, 3, framework="numpy")
        assert_same(rows_of(loader), [rows[i] for i in range(len(rows))])
        assert any((r["sequence"][r["doc_ids"] < 0] == fill).any() for r in rows_of(loader))
    with pytest.raises(ValueError, match="fill"):
        leat.pack_rows(ds, "sequence", 40, fill=40000, chain=[L.Lookup("esm2"), L.ToDtype("int16")])


def test_a_long_document_is_counted_in_the_budget(tmp_path: Path) -> None:
    ds = stored(tmp_path, "arrays", [np.full(1 << 20, 65, np.uint8), np.full(9, 65, np.uint8)])
    rows = leat.pack_rows(ds, "sequence", 512, "best_fit", chain=[L.Lookup("nucleotide"), L.MaskTokens(7, 128)])
    with pytest.raises(leat.BudgetError):
        leat.Loader(rows, 1, num_threads=1, budget_bytes=8 << 20)
    loader = leat.Loader(rows, 1, num_threads=1, budget_bytes=160 << 20, framework="numpy")
    assert next(iter(loader))["sequence"].shape == (1, 512)


def test_a_document_is_one_result_where_the_epoch_of_a_mixture_ends() -> None:
    values = [np.arange(5, 105, dtype=np.uint16) + 200 * k for k in range(12)]
    halves = [leat.from_arrays(tokens=leat.Ragged(np.concatenate(values[k::2]), np.arange(7) * 100)) for k in (0, 1)]
    packed = [leat.pack_rows(ds, "tokens", 32, "cut", chain=[L.RandomSlice(50)]) for ds in halves]
    mix = leat.Mix({"a": (packed[0], 0.5), "b": (packed[1], 0.5)}, exhausted="repeat", epoch_rows=6)
    loader = leat.Loader(mix, 1, framework="numpy", shuffle=False)
    batches = [batch for _ in range(3) for batch in loader if batch.domains[0] == 0]
    joined = np.concatenate([batch["tokens"][0] for batch in batches]).astype(int)
    assert len({batch.epoch for batch in batches}) == 3 and len(joined) >= 250
    for at in range(0, len(joined) - 50, 50):  # documents of 50 in rows of 32: each lies in two or three
        assert (np.diff(joined[at : at + 50]) == 1).all()


def test_a_mix_of_rows_with_one_chain(tmp_path: Path) -> None:
    a, b = (stored(tmp_path, "arrays", proteins(k, 30)) for k in (3, 4))
    packed = [leat.pack_rows(ds, "sequence", 40, "best_fit", fill=1, chain=CHAIN) for ds in (a, b)]
    loader = leat.Loader(leat.Mix({"a": (packed[0], 0.5), "b": (packed[1], 0.5)}), 4, framework="numpy")
    rows = rows_of(loader)
    assert sum((r["doc_ids"] >= 0).sum() for r in rows) > 0
    for r in rows:
        assert set(r["sequence"][r["doc_ids"] < 0].tolist()) <= {1}
    other = leat.pack_rows(b, "sequence", 40, "best_fit", fill=1, chain=[L.Lookup("esm2"), MASK])
    with pytest.raises(TypeError, match="different chains"):
        leat.Loader(leat.Mix({"a": (packed[0], 0.5), "b": (other, 0.5)}), 4)
