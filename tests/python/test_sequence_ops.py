"""Operators on residues: held against plain Python with the same draws, in chains, after a resume, by more threads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_order_reference import draw_below, draw_unit, mix
from test_token_ops import INSTANCES, masked

import leat

#: hashes (XXH3) of the names that operators have here
INSTANCES = {**INSTANCES, "slice": 0x5AE4F1F59204E52F, "strand": 0x4757E02ECA226CB5}
ESM2 = "LAGVSERTIDPKQNFYMHWCXBUZO.-"
IDS = {letter: 4 + i for i, letter in enumerate(ESM2)}
CODES = dict(zip("ACGTURYSWKMBDHVNacguryswkmbdhvnt", "TGCAAYRSWMKVHDBNtgcayrswmkvhdbna", strict=True))
MASKS = leat.ops.MaskTokens(32, 33, special_ids=(0, 1, 2, 3, 32), name="m")


def sequences(lengths: list[int], letters: str, seed: int = 0) -> leat.Ragged:
    rng = np.random.default_rng(seed)
    values = np.frombuffer(letters.encode(), np.uint8)[rng.integers(0, len(letters), sum(lengths))]
    return leat.Ragged(values, np.cumsum([0, *lengths]))


def load(ds: leat.Dataset, chain: Any, size: int, **options: Any) -> leat.Loader:
    return leat.Loader(ds, size, framework="numpy", outputs={"sequence": chain}, **options)


def rows(batch: Any, name: str = "sequence") -> list[list[int]]:
    return [row.tolist() for row in batch[name].unbind()]


def text(residues: Any) -> str:
    return bytes(residues).decode()


def complement(sequence: str) -> str:
    return "".join(CODES.get(c, c) for c in reversed(sequence))


def keys(batch: Any, op: str) -> list[int]:
    return [mix(int(np.uint64(k)), INSTANCES[op]) for k in batch.row_keys]


LENGTHS = [0, 1, 30, 31, 200, 1022, 1023, 3000]


def test_the_chain_of_proteins_is_that_of_plain_python_with_the_same_draws() -> None:
    ds = leat.from_arrays(sequence=sequences(LENGTHS, ESM2 + "J*k"))
    chain = [leat.ops.RandomSlice(1022, name="slice"), leat.ops.Lookup("esm2"), MASKS]
    batch = load(ds, chain, len(LENGTHS), seed=3).batch_at(0, 0)
    assert list(batch) == ["sequence", "sequence.labels"] and batch["sequence"].values.dtype == np.int64
    found = zip(rows(batch), rows(batch, "sequence.labels"), keys(batch, "slice"), keys(batch, "m"), strict=True)
    for i, (tokens, labels, of_slice, of_mask) in enumerate(found):
        letters = text(ds[i]["sequence"])
        n = min(1022, len(letters))
        at = draw_below(of_slice, 0, len(letters) - n + 1)
        ids = [0, *(IDS.get(c, 3) for c in letters[at : at + n]), 2]
        assert (tokens, labels) == masked(ids, of_mask, 32, 33, {0, 1, 2, 3, 32}, 0.15, (0.8, 0.1))


def test_the_chain_of_dna_is_that_of_plain_python_with_the_same_draws() -> None:
    ds = leat.from_arrays(sequence=sequences(LENGTHS, "ACGTNacgtnRYSWKMBDHVU-"))
    chain = [leat.ops.ReverseComplement(0.5, name="strand"), leat.ops.Lookup("nucleotide", eos=0, loss_mask="ACGT")]
    batch = load(ds, chain, len(LENGTHS)).batch_at(0, 0)
    assert list(batch) == ["sequence", "sequence.loss_mask"] and batch["sequence.loss_mask"].values.dtype == bool
    turned = 0
    for i, (tokens, mask, key) in enumerate(
        zip(rows(batch), rows(batch, "sequence.loss_mask"), keys(batch, "strand"), strict=True)
    ):
        letters = text(ds[i]["sequence"])
        turns = draw_unit(key, 0) < 0.5
        turned += turns
        letters = complement(letters) if turns else letters
        assert tokens == [*letters.encode(), 0]
        assert mask == [c in "ACGTacgt" for c in letters] + [False]
    assert 0 < turned < len(LENGTHS)


def test_every_offset_comes_equally_often_the_last_one_too() -> None:
    ds = leat.from_arrays(x=leat.Ragged(np.tile(np.arange(7, dtype=np.uint16), 7000), np.arange(7001) * 7))
    loader = leat.Loader(ds, 7000, framework="numpy", outputs={"x": [leat.ops.RandomSlice(3)]})
    pieces = loader.batch_at(0, 0)["x"].values.reshape(-1, 3)
    assert (pieces == pieces[:, :1] + np.arange(3)).all()
    counts = np.bincount(pieces[:, 0], minlength=5)
    assert len(counts) == 5 and abs(counts - 1400).max() < 5 * np.sqrt(7000 * 0.2 * 0.8)


def test_two_chains_with_one_slice_take_the_same_piece() -> None:
    quality = leat.Ragged(np.arange(500, dtype=np.float32), np.array([0, 100, 500]))
    letters = leat.Ragged((np.arange(500) % 251).astype(np.uint8), quality.offsets)
    ds = leat.from_arrays(sequence=letters, quality=quality)
    piece = leat.ops.RandomSlice(40)
    batch = leat.Loader(ds, 2, framework="numpy", outputs={"sequence": piece, "quality": piece}).batch_at(0, 0)
    assert (batch["quality"].values % 251 == batch["sequence"].values).all()


@pytest.mark.parametrize("stored", ["memory", "file"])
def test_rows_are_the_same_on_any_number_of_threads_and_after_a_resume(tmp_path: Path, stored: str) -> None:
    values = sequences(list(range(0, 600, 7)), "ACGTN")
    ds = leat.from_arrays(sequence=values)
    if stored == "file":
        with leat.Writer(tmp_path / "s.leat", {"sequence": leat.field("uint8", (None,))}) as w:
            for row in values.unbind():
                w.add(sequence=row)
        ds = leat.open(tmp_path / "s.leat")
    chain = [
        leat.ops.RandomSlice(300),
        leat.ops.ReverseComplement(),
        leat.ops.Lookup("nucleotide", bos=2, loss_mask="ACGT"),
        leat.ops.MaskTokens(127, 128, (2,)),
        leat.ops.ToDtype("int32"),
    ]
    names = ["sequence", "sequence.labels", "sequence.loss_mask"]

    def told(batches: Any) -> list[list[Any]]:
        return [[rows(batch, name) for name in names] for batch in batches]

    whole = told(load(ds, chain, 9, shuffle=True, num_threads=1))
    assert told(load(ds, chain, 9, shuffle=True, num_threads=2)) == whole
    first = load(ds, chain, 9, shuffle=True)
    stream = iter(first)
    begun = [next(stream) for _ in range(4)]
    second = load(ds, chain, 9, shuffle=True)
    second.load_state_dict(first.state_dict())
    assert told(begun) + told(second) == whole
    assert all(len(t) == len(labels) == len(mask) for batch in whole for t, labels, mask in zip(*batch, strict=True))


def test_padded_rows_are_the_ragged_ones_filled_up() -> None:
    ds = leat.from_arrays(sequence=sequences([3, 0, 40, 62], ESM2))
    slow = [leat.ops.RandomSlice(30, name="s"), leat.ops.Lookup("esm2", loss_mask="LAGV"), MASKS]
    ragged = load(ds, slow, 4).batch_at(0, 0)
    padded = load(ds, [*slow, leat.ops.PadTo(32, fill=1)], 4).batch_at(0, 0)
    for name, fill in (("sequence", 1), ("sequence.labels", -100), ("sequence.loss_mask", False)):
        assert padded[name].shape == (4, 32) and padded[name].dtype == ragged[name].values.dtype
        assert (padded[name] == np.asarray(ragged[name].to_padded(fill, length=32))).all(), name


def test_rows_of_one_length_are_dense() -> None:
    stored = sequences([50] * 6, "ACGT").values.reshape(6, 50)
    ds = leat.from_arrays(sequence=np.ascontiguousarray(stored))
    chain = [leat.ops.RandomSlice(48), leat.ops.Lookup("nucleotide", bos=2, loss_mask="A"), leat.ops.MaskTokens(1, 128)]
    batch = load(ds, chain, 6).batch_at(0, 0)
    assert batch["sequence"].shape == batch["sequence.labels"].shape == batch["sequence.loss_mask"].shape == (6, 49)
    assert (batch["sequence.loss_mask"].sum(1) > 0).all() and not batch["sequence.loss_mask"][:, 0].any()


def test_a_byte_without_a_token_names_itself_its_place_and_its_sample() -> None:
    ds = leat.from_arrays(sequence=leat.Ragged(np.frombuffer(b"ACGTAC*TT", np.uint8), np.array([0, 4, 9])))
    with pytest.raises(leat.BrokenSampleError, match=r"byte 42 \('\*'\) at place 2 has no entry[\s\S]*sample 1"):
        load(ds, leat.ops.Lookup("nucleotide"), 2).batch_at(0, 0)
    assert load(ds, leat.ops.Lookup("nucleotide"), 2, on_error="skip").batch_at(0, 0).ids.tolist() == [0]
    batch = load(ds, leat.ops.Lookup("nucleotide", unknown=78), 2).batch_at(0, 0)
    assert rows(batch)[1] == [65, 67, 78, 84, 84]


@pytest.mark.parametrize("form", ["dict", "array", "tuple"])
def test_tables_of_ones_own_and_upper_case(form: str) -> None:
    table: Any = {"A": 5, "C": 300}
    if form != "dict":
        table = np.full(256, -1)
        table[[65, 67]] = 5, 300
        table = table if form == "array" else tuple(table.tolist())
    ds = leat.from_arrays(sequence=leat.Ragged(np.frombuffer(b"AcaC", np.uint8), np.array([0, 4])))
    made = load(ds, leat.ops.Lookup(table, upper=True, eos=9), 1).batch_at(0, 0)
    assert rows(made) == [[5, 300, 5, 300, 9]]
    with pytest.raises(leat.BrokenSampleError, match=r"byte 99 \('c'\) at place 1"):
        load(ds, leat.ops.Lookup(table), 1).batch_at(0, 0)


def test_a_program_as_text_keeps_what_a_lookup_lacks() -> None:
    ds = leat.from_arrays(sequence=sequences([9, 4], ESM2))
    bare, masked = leat.ops.Lookup("esm2", bos=None, eos=None), leat.ops.Lookup("nucleotide", unknown=1, loss_mask="AC")
    for op in (bare, masked, leat.ops.Lookup("esm2"), leat.ops.Lookup({"L": 1}, unknown=0)):
        outputs: Any = {"sequence": [leat.ops.RandomSlice(5), op]}
        again = leat.program_from_json(leat.program_to_json(outputs))
        assert again["sequence"].chain[-1] == op
        made, other = (leat.Loader(ds, 2, framework="numpy", outputs=o).batch_at(0, 0) for o in (outputs, again))
        assert list(made) == list(other) and all(rows(made, name) == rows(other, name) for name in made)


def test_apply_and_rows_made_elsewhere_are_those_of_a_loader() -> None:
    values = sequences(LENGTHS, ESM2)
    ds = leat.from_arrays(sequence=values)
    chain = [leat.ops.RandomSlice(100), leat.ops.Lookup("esm2", loss_mask="LAG"), MASKS]
    batch = load(ds, chain, len(LENGTHS)).batch_at(0, 0)
    made = leat.apply({"sequence": chain}, {"sequence": list(values.unbind())}, batch.row_keys)
    assert list(made) == list(batch) and all(rows(made, name) == rows(batch, name) for name in batch)


def test_a_slice_for_some_epochs_leaves_whole_rows_in_the_others() -> None:
    ds = leat.from_arrays(sequence=sequences([40, 30], ESM2))
    loader = load(ds, [leat.ops.RandomSlice(10).epochs(stop=1), leat.ops.Lookup("esm2")], 2)
    assert [len(r) for r in rows(loader.batch_at(0, 0))] == [12, 12]
    assert [len(r) for r in rows(loader.batch_at(1, 0))] == [42, 32]


def test_what_does_not_go_together_is_refused() -> None:
    ds = leat.from_arrays(sequence=sequences([40, 30], ESM2))
    for wrong in ({"AB": 1}, {"é": 1}, {}, [1, 2], [-2] * 256):
        with pytest.raises(ValueError, match="table has a token for each"):
            leat.ops.Lookup(wrong)
    with pytest.raises(ValueError, match="table is 'esm2' or 'nucleotide', not 'esm3'"):
        leat.ops.Lookup("esm3")
    with pytest.raises(ValueError, match="loss_mask is ASCII letters"):
        leat.ops.Lookup("esm2", loss_mask="")
    with pytest.raises(ValueError, match="the loss_mask of output 'sequence' cannot follow SpanCorruption"):
        load(ds, [leat.ops.Lookup("esm2", loss_mask="L"), leat.ops.SpanCorruption(40, fill=1, length=9)], 2)
    letters = leat.from_arrays({"sequence": "bytes"}, sequence=leat.Ragged(np.frombuffer(b"MKV", np.uint8), [0, 3]))
    with pytest.raises(TypeError, match=r"takes a list of residues.*, but gets bytes\.$"):
        load(letters, [leat.ops.Lookup("esm2")], 1)
    with pytest.raises(TypeError, match="Lookup in output 'sequence' takes a list of residues"):
        load(ds, [leat.ops.Lookup("esm2"), leat.ops.Lookup("esm2")], 2)
