"""Masking, span corruption and fill in the middle: held against numpy with the same draws, and as distributions."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from drawn_support import examples
from hypothesis import given
from hypothesis import strategies as st
from test_order_reference import draw, mix
from test_order_reference import draw_below as below
from test_order_reference import draw_unit as unit
from test_pack_rows import write

import leat

#: hashes (XXH3) of the names that operators have here
INSTANCES = {"m": 0xF0904807418C57FC, "s": 0xD6B9D4D14FF6BE13, "f": 0x33C155909FF3BA9A}


def load(rows: np.ndarray[Any, Any], chain: list[Any], path: Path, size: int | None = None, **options: Any) -> Any:
    with leat.Writer(path, {"tokens": leat.field(str(rows.dtype), (rows.shape[1],))}, overwrite=True) as w:
        w.write_batch({"tokens": rows})
    loader = leat.Loader(
        leat.open(path), batch_size=size or len(rows), framework="numpy", outputs={"tokens": chain}, **options
    )
    return next(iter(loader))


def keys(batch: Any, op: str) -> list[int]:
    """The key of an operator in each row."""
    return [mix(int(np.uint64(k)), INSTANCES[op]) for k in batch.row_keys]


def draw32(key: int, i: int) -> int:
    """The i-th draw of 32 bits under a key."""
    x = (i * 0x9E3779B9 + key) % 2**32
    x = (x ^ x >> 16) * 0x21F0AAAD % 2**32
    x = (x ^ x >> 15 ^ key >> 32) * 0xD35A2D97 % 2**32
    return x ^ x >> 15


# ---- masking --------------------------------------------------------------------------------------------------------


def masked(tokens: list[int], key: int, mask: int, vocabulary: int, special: set[int], p: float,
           replace: tuple[float, float]) -> tuple[list[int], list[int]]:  # fmt: skip
    bounds = [min(int(x * 2.0**64), 2**64 - 1) for x in (p, p * replace[0], p * (replace[0] + replace[1]))]
    inputs, labels = [], []
    for i, token in enumerate(tokens):
        u = (draw32(key, i // 2) >> 16 * (i % 2) & 0xFFFF) << 48 | draw(mix(key, 2), i) >> 16
        u = 2**64 if token in special else u
        labels.append(token if u < bounds[0] else -100)
        random = below(mix(key, 1), i, vocabulary)
        inputs.append(mask if u < bounds[1] else random if u < bounds[2] else token)
    return inputs, labels


@examples(25)
@given(data=st.data())
def test_masks_are_those_of_plain_python_with_the_same_draws(tmp_path_factory: Any, data: Any) -> None:
    n, dtype = data.draw(st.integers(1, 700)), data.draw(st.sampled_from(["uint8", "uint16", "int32", "int64"]))
    p, first = data.draw(st.floats(0, 1)), data.draw(st.floats(0, 1))
    replace = (first, data.draw(st.floats(0, 1)) * (1 - first))
    rows = np.random.default_rng(n).integers(0, 100, (3, n)).astype(dtype)
    op = leat.ops.MaskTokens(103, 120, (0, 5, 7, 70000), p, replace, name="m")
    batch = load(rows, [op], tmp_path_factory.mktemp("m") / "t.leat", seed=data.draw(st.integers(0, 2**32)))
    assert list(batch) == ["tokens", "tokens.labels"]
    for i, key in enumerate(keys(batch, "m")):
        inputs, labels = masked(rows[i].tolist(), key, 103, 120, {0, 5, 7}, p, replace)
        assert batch["tokens"][i].tolist() == inputs
        assert batch["tokens.labels"][i].tolist() == labels


def test_tokens_of_documents_of_any_length_are_masked_as_in_rows(tmp_path: Path) -> None:
    documents = [np.arange(1, n, dtype=np.uint16) % 90 for n in (2, 1, 300, 700)]
    op = leat.ops.MaskTokens(103, 120, (0, 5), name="m")
    loader = leat.Loader(write(tmp_path / "d.leat", documents), 4, framework="numpy", outputs={"tokens": [op]})
    batch = loader.batch_at(0, 0)
    for row, labels, document, key in zip(
        batch["tokens"].unbind(), batch["tokens.labels"].unbind(), documents, keys(batch, "m"), strict=True
    ):
        expected = masked(document.tolist(), key, 103, 120, {0, 5}, 0.15, (0.8, 0.1))
        assert (row.tolist(), labels.tolist()) == expected


def test_all_bits_of_a_number_decide_where_the_upper_ones_are_those_of_a_bound(tmp_path: Path) -> None:
    n, bounds = 256, [58982.95, 29490.95, 47185.95]  # of 2^16: with these upper bits most numbers are below
    p, replace = bounds[0] / 2**16, (bounds[1] / bounds[0], (bounds[2] - bounds[1]) / bounds[0])
    rows = np.zeros((800, n), np.uint16)
    batch = load(rows, [leat.ops.MaskTokens(103, 50000, (), p, replace, name="m")], tmp_path / "t.leat", seed=1)
    uppers, seen = [int(bound) for bound in bounds], [0, 0, 0]
    for i, key in enumerate(keys(batch, "m")):
        draws = [draw32(key, k) for k in range(n // 2)]
        found = {u for d in draws for u in (d & 0xFFFF, d >> 16)} & set(uppers)
        if len(found) != 1:  # of such a row each bound is looked at alone
            continue
        seen[uppers.index(found.pop())] += 1
        inputs, labels = masked(rows[i].tolist(), key, 103, 50000, set(), p, replace)
        assert batch["tokens"][i].tolist() == inputs
        assert batch["tokens.labels"][i].tolist() == labels
    assert min(seen) > 0


def test_a_token_beyond_the_vocabulary_is_an_error_that_names_it_and_its_sample(tmp_path: Path) -> None:
    rows = np.full((3, 300), 7, np.uint16)
    rows[1, 270] = 120
    with pytest.raises(ValueError, match=r"token 120 at place 270 is none of a vocabulary of 120[\s\S]*sample 1"):
        load(rows, [leat.ops.MaskTokens(103, 120)], tmp_path / "t.leat")
    special = load(rows, [leat.ops.MaskTokens(103, 120, (120,))], tmp_path / "t.leat")
    assert special["tokens"][1, 270] == 120 and special["tokens.labels"][1, 270] == -100
    batch = load(rows, [leat.ops.MaskTokens(103, 120)], tmp_path / "t.leat", on_error="skip")
    assert batch.ids.tolist() == [0, 2]


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "int32", "int64"])
def test_both_outputs_of_one_call_are_those_of_calls_of_their_own(tmp_path: Path, dtype: str) -> None:
    rows = np.random.default_rng(3).integers(1, 100, (40, 333)).astype(dtype)
    for op in (leat.ops.MaskTokens(103, 120, (5,), name="m"), leat.ops.SpanCorruption(119, eos=1, name="s")):
        both = load(rows, [op], tmp_path / "t.leat")
        apart = load(rows, [op, leat.ops.ToDtype("int32")], tmp_path / "t.leat")  # another step follows: two chains
        for name in ("tokens", "tokens.labels"):
            assert (both[name] == apart[name]).all()


def z_of(found: float, n: int, p: float) -> float:
    """By how many standard deviations a count differs from what is expected."""
    return (found - n * p) / math.sqrt(n * p * (1 - p))


def shares(inputs: Any, labels: Any, tokens: Any, mask: int, vocabulary: int) -> dict[str, float]:
    """How far each share is from that of BERT, in standard deviations."""
    chosen = labels != -100
    n = int(chosen.sum())
    hidden, random = inputs[chosen] == mask, (inputs[chosen] != mask) & (inputs[chosen] != tokens[chosen])
    found = {"chosen": z_of(n, tokens.size, 0.15), "mask": z_of(hidden.sum(), n, 0.8 + 0.1 / vocabulary)}
    found["random"] = z_of(random.sum(), n, 0.1 * (1 - 2 / vocabulary))
    counts = np.bincount(inputs[chosen][random], minlength=vocabulary)[:vocabulary].astype(float)
    expected = random.sum() / (vocabulary - 2)
    counts = np.delete(counts, mask)
    found["uniform"] = (((counts - expected) ** 2 / expected).sum() - vocabulary) / math.sqrt(2 * vocabulary)
    pairs = chosen[:, 1:] & chosen[:, :-1]
    found["independent"] = z_of(pairs.sum(), pairs.size, 0.15**2)
    places = chosen.sum(0).astype(float)
    found["places"] = (((places - places.mean()) ** 2).sum() / (len(tokens) * 0.15 * 0.85) - len(places)) / math.sqrt(
        2 * len(places)
    )
    return found


def test_masking_is_distributed_as_in_bert_and_another_distribution_is_seen(tmp_path: Path) -> None:
    rows = np.random.default_rng(0).integers(0, 200, (2048, 512)).astype(np.uint16)
    batch = load(rows, [leat.ops.MaskTokens(199, 200)], tmp_path / "t.leat")
    assert all(abs(z) < 5 for z in shares(batch["tokens"], batch["tokens.labels"], rows, 199, 200).values())
    for wrong, what in (
        ({"p": 0.153}, "chosen"), ({"replace": (0.81, 0.1)}, "mask"), ({"replace": (0.8, 0.11)}, "random")
    ):  # fmt: skip
        other = load(rows, [leat.ops.MaskTokens(199, 200, **wrong)], tmp_path / "t.leat")
        found = shares(other["tokens"], other["tokens.labels"], rows, 199, 200)
        assert abs(found[what]) > 5, (wrong, found)


def test_labels_and_tokens_draw_the_same_and_each_epoch_draws_anew() -> None:
    rows = np.arange(1, 401, dtype=np.int64).reshape(4, 100)
    chain = [leat.ops.MaskTokens(500, 501, replace=(1, 0)), leat.ops.ToDtype("int32")]
    loader = leat.Loader(leat.from_arrays(tokens=rows), batch_size=4, framework="numpy", outputs={"tokens": chain})
    found = []
    for _ in range(2):
        (batch,) = loader
        hidden = batch["tokens"] == 500
        assert batch["tokens"].dtype == batch["tokens.labels"].dtype == np.int32
        assert (batch["tokens.labels"] == np.where(hidden, rows, -100)).all()
        assert (batch["tokens"] == np.where(hidden, 500, rows)).all() and 20 < hidden.sum() < 120
        found.append(hidden)
    assert (found[0] != found[1]).any()


# ---- span corruption ------------------------------------------------------------------------------------------------


def parts(key: int, m: int, k: int) -> list[int]:
    chosen: set[int] = set()
    for i, j in enumerate(range(m - k, m - 1)):
        at = draw32(key, i) * (j + 1) >> 32
        chosen.add(j if at in chosen else at)
    ends = [-1, *sorted(chosen), m - 1]
    return [b - a for a, b in zip(ends, ends[1:], strict=False)]


def half_up(x: float) -> int:
    return math.floor(x + 0.5)


def spans_of(n: int, density: float, mean: float) -> tuple[int, int]:
    noise = min(max(half_up(n * density), 1), n - 1)
    return noise, min(max(half_up(noise / mean), 1), n - noise)


def corrupted(tokens: list[int], key: int, sentinel: int, density: float, mean: float) -> tuple[list[int], list[int]]:
    n = len(tokens)
    if n < 2:
        return tokens, []
    noise, spans = spans_of(n, density, mean)
    inputs, labels, at = [], [], 0
    kept, hidden = parts(mix(key, 2), n - noise, spans), parts(mix(key, 1), noise, spans)
    for s, (a, b) in enumerate(zip(kept, hidden, strict=True)):
        inputs += [*tokens[at : at + a], sentinel - s]
        labels += [sentinel - s, *tokens[at + a : at + a + b]]
        at += a + b
    return inputs, labels


@examples(25)
@given(data=st.data())
def test_spans_are_those_of_plain_python_with_the_same_draws(tmp_path_factory: Any, data: Any) -> None:
    n = data.draw(st.integers(2, 700))
    density, mean = data.draw(st.floats(0.01, 0.99)), data.draw(st.floats(1, 20))
    eos = data.draw(st.sampled_from([None, 1]))
    rows = np.random.default_rng(n).integers(2, 250, (3, n)).astype(np.uint8)
    op = leat.ops.SpanCorruption(5000, density, mean, eos=eos, name="s")
    batch = load(rows, [op], tmp_path_factory.mktemp("s") / "t.leat", seed=data.draw(st.integers(0, 2**32)))
    end = [] if eos is None else [eos]
    for i, key in enumerate(keys(batch, "s")):
        inputs, labels = corrupted(rows[i].tolist(), key, 5000, density, mean)
        assert batch["tokens"][i].tolist() == inputs + end
        assert batch["tokens.labels"][i].tolist() == labels + end


def test_documents_of_any_length_are_corrupted_and_filled(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    documents = [rng.integers(2, 900, n).astype(np.uint16) for n in (0, 1, 2, 3, 40, 64, 65, 200)]
    ds = write(tmp_path / "d.leat", documents)
    op = leat.ops.SpanCorruption(999, eos=1, fill=0, length=64, name="s")
    batch = next(iter(leat.Loader(ds, batch_size=8, framework="numpy", outputs={"tokens": [op]})))
    for i, key in enumerate(keys(batch, "s")):
        inputs, labels = corrupted(documents[i][:64].tolist(), key, 999, 0.15, 3.0)
        for found, expected, fill in ((batch["tokens"][i], inputs, 0), (batch["tokens.labels"][i], labels, -100)):
            assert found.tolist() == [*expected, 1] + [fill] * (len(found) - len(expected) - 1)


def test_padding_at_the_end_of_a_row_is_no_part_of_spans(tmp_path: Path) -> None:
    rows = np.full((2, 60), 9, np.uint16)
    rows[:, 40:] = 0
    batch = load(rows, [leat.ops.SpanCorruption(99, fill=0, name="s")], tmp_path / "t.leat")
    for i, key in enumerate(keys(batch, "s")):
        inputs, labels = corrupted([9] * 40, key, 99, 0.15, 3.0)
        assert batch["tokens"][i].tolist()[: len(inputs) + 1] == [*inputs, 0]
        assert batch["tokens.labels"][i].tolist()[: len(labels) + 1] == [*labels, -100]


def compositions(found: list[tuple[int, ...]], m: int, k: int) -> float:
    """How far counts of divisions of m in k parts are from uniform, in standard deviations of chi-square."""
    every = math.comb(m - 1, k - 1)
    counts = np.array([found.count(c) for c in set(found)] + [0] * (every - len(set(found))))
    expected = len(found) / every
    return float((((counts - expected) ** 2 / expected).sum() - (every - 1)) / math.sqrt(2 * (every - 1)))


def test_divisions_are_uniform_and_one_that_is_not_is_seen(tmp_path: Path) -> None:
    rows = np.tile(np.arange(1, 21, dtype=np.uint16), (20000, 1))
    batch = load(rows, [leat.ops.SpanCorruption(999, 0.35, 2.33)], tmp_path / "t.leat")  # 7 of 20, in 3 spans
    found = []
    for labels in batch["tokens.labels"]:
        at = np.flatnonzero(labels > 900)
        found.append(tuple(np.diff([*at, len(labels)]) - 1))
    assert sum(found[0]) == 7 and len(found[0]) == 3
    assert abs(compositions(found, 7, 3)) < 5
    rng = np.random.default_rng(0)  # lengths by throwing tokens into spans, as is often done: not uniform
    thrown = [tuple(1 + np.bincount(rng.integers(0, 3, 4), minlength=3)) for _ in range(20000)]
    assert abs(compositions(thrown, 7, 3)) > 5


def test_the_lengths_of_t5_are_those_that_it_publishes(tmp_path: Path) -> None:
    rows = np.ones((1, 568), np.uint16)  # T5: 568 tokens become inputs of 512 and targets of 114 with their eos
    batch = load(rows, [leat.ops.SpanCorruption(32127, eos=1)], tmp_path / "t.leat")
    assert (batch["tokens"].shape[1], batch["tokens.labels"].shape[1]) == (512, 114)


# ---- fill in the middle ---------------------------------------------------------------------------------------------

PRE, MID, SUF, EOS = 1001, 1002, 1003, 0


def filled(row: list[int], key: int, rate: float, spm: float) -> list[int]:
    out, d, at = [], 0, 0
    while at < len(row):
        end = row.index(EOS, at) if EOS in row[at:] else len(row)
        t, k = row[at:end], mix(key, d)
        if len(t) >= 4 and unit(k, 0) < rate:
            t = t[:-3]
            a, b = sorted(below(k, i, len(t) + 1) for i in (2, 3))
            p, m, s = t[:a], t[a:b], t[b:]
            t = [PRE, SUF, *s, MID, *p, *m] if unit(k, 1) < spm else [PRE, *p, SUF, *s, MID, *m]
        out += t + row[end : end + 1]
        at, d = end + 1, d + 1
    return out


def test_middles_are_moved_as_in_plain_python_with_the_same_draws(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    rows = rng.integers(0, 12, (40, 90)).astype(np.uint16)
    rows[:5, 60:] = 7
    op = leat.ops.FillInTheMiddle(PRE, MID, SUF, rate=0.7, spm=0.4, eos=EOS, name="f")
    batch = load(rows, [op], tmp_path / "t.leat")
    for i, key in enumerate(keys(batch, "f")):
        assert batch["tokens"][i].tolist() == filled(rows[i].tolist(), key, 0.7, 0.4)
    assert ((batch["tokens"] == EOS) == (rows == EOS)).all()


def test_middles_of_documents_of_any_length_are_moved_in_them(tmp_path: Path) -> None:
    documents = [np.arange(1, n, dtype=np.uint16) for n in (1, 4, 40, 400)]
    op = leat.ops.FillInTheMiddle(PRE, MID, SUF, rate=0.7, spm=0.4, name="f")
    loader = leat.Loader(write(tmp_path / "d.leat", documents), 4, framework="numpy", outputs={"tokens": [op]})
    batch = loader.batch_at(0, 0)
    for row, document, key in zip(batch["tokens"].unbind(), documents, keys(batch, "f"), strict=True):
        assert row.tolist() == filled(document.tolist(), key, 0.7, 0.4)


def test_as_many_documents_are_changed_as_said_and_cuts_are_uniform(tmp_path: Path) -> None:
    rows = np.tile(np.arange(1, 16, dtype=np.uint16), (8000, 1))
    found = load(rows, [leat.ops.FillInTheMiddle(PRE, MID, SUF, rate=0.7, spm=0.4)], tmp_path / "t.leat")["tokens"]
    changed = found[(found == PRE).any(1)]
    assert abs(z_of(len(changed), 8000, 0.7)) < 5 < abs(z_of(len(changed), 8000, 0.74))
    second = changed[:, 1] == SUF
    # <PRE> <SUF> also begins a document of the first kind whose prefix is empty: 25 of the 169 pairs of cuts
    assert abs(z_of(second.sum(), len(changed), 0.4 + 0.6 * 25 / 169)) < 5
    first = changed[~second]
    prefix = np.argmax(first == SUF, 1) - 1  # the smaller of two cuts, given that it is above 0
    counts = np.bincount(prefix, minlength=13)[1:]
    expected = np.array([2 * (12 - a) + 1 for a in range(1, 13)]) / 144 * len(first)
    assert (((counts - expected) ** 2 / expected).sum() - 11) / math.sqrt(22) < 5
    uniform = np.full(12, len(first) / 12)
    assert (((counts - uniform) ** 2 / uniform).sum() - 11) / math.sqrt(22) > 5


# ---- errors ---------------------------------------------------------------------------------------------------------


def test_what_does_not_fit_is_refused(tmp_path: Path) -> None:
    rows = np.ones((2, 100), np.uint16)
    with pytest.raises(ValueError, match="mask_id is below vocab_size"):
        leat.ops.MaskTokens(10, 10)
    with pytest.raises(ValueError, match="replace is two shares"):
        leat.ops.MaskTokens(1, 10, replace=(0.9, 0.2))
    with pytest.raises(ValueError, match="needs up to 5 sentinels, and from sentinel_id down to 0 there are 4"):
        load(rows, [leat.ops.SpanCorruption(3)], tmp_path / "t.leat")
    with pytest.raises(ValueError, match="2 operators that make labels"):
        load(rows, [leat.ops.MaskTokens(1, 10), leat.ops.SpanCorruption(99)], tmp_path / "t.leat")
    ds = write(tmp_path / "d.leat", [np.ones(3, np.uint16)])
    with pytest.raises(TypeError, match="MaskTokens in output 'tokens' takes a list of integers"):
        leat.Loader(ds, batch_size=1, outputs={"tokens": [leat.ops.ToDtype("float32"), leat.ops.MaskTokens(1, 10)]})
    with pytest.raises(TypeError, match="where length="):
        leat.Loader(ds, batch_size=1, outputs={"tokens": [leat.ops.SpanCorruption(99)]})


def test_a_program_with_labels_is_the_same_from_its_text(tmp_path: Path) -> None:
    outputs = {"tokens": [leat.ops.MaskTokens(103, 120, (1,))]}
    text = leat.program_to_json(outputs)
    again = leat.program_from_json(text)
    assert list(again) == ["tokens", "tokens.labels"]
    ds = leat.from_arrays(tokens=np.arange(100, dtype=np.uint16).reshape(1, 100) % 120)
    batches = [next(iter(leat.Loader(ds, batch_size=1, framework="numpy", outputs=o))) for o in (outputs, again)]
    assert all((batches[0][k] == batches[1][k]).all() for k in ("tokens", "tokens.labels"))


def test_an_operator_in_two_chains_hides_the_same_tokens_in_both() -> None:
    ids = leat.from_arrays(tokens=np.random.default_rng(0).integers(0, 300, (20, 16)))
    mask = leat.ops.MaskTokens(5, 300, p=0.5)
    outputs = {"a": leat.Out("tokens", [mask]), "b": leat.Out("tokens", [mask, leat.ops.ToDtype("int32")])}
    outputs["c"] = leat.Out("tokens", [leat.ops.MaskTokens(5, 300, p=0.5)])
    read = leat.program_from_json(leat.program_to_json(outputs))
    for asked in (outputs, {name: out for name, out in read.items() if "labels" not in name}, read):
        batch = next(iter(leat.Loader(ids, 20, outputs=asked, framework="numpy")))
        for what in ("", ".labels"):
            assert (batch[f"a{what}"] == batch[f"b{what}"]).all()
            assert (batch[f"a{what}"] != batch[f"c{what}"]).any()


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64"])
@pytest.mark.parametrize("vocabulary", [100, 40_000, 70_000, 1 << 40])
@pytest.mark.parametrize("wrong", [-1, -100])
def test_a_negative_token_is_none_of_a_vocabulary(dtype: str, vocabulary: int, wrong: int) -> None:
    tokens = np.full((1, 300), 7, dtype)
    mask = leat.ops.MaskTokens(5, vocabulary)
    assert leat.apply({"tokens": [mask]}, {"tokens": tokens})["tokens"].shape == (1, 300)
    tokens[0, 299] = np.iinfo(dtype).min if wrong == -100 else wrong
    with pytest.raises(ValueError, match=f"token {tokens[0, 299]} at place 299 is none of a vocab.* {vocabulary}"):
        leat.apply({"tokens": [mask]}, {"tokens": tokens})


def plus_one(tokens: Any) -> Any:
    return tokens + 1


def test_tokens_that_a_function_makes_are_masked_with_their_labels() -> None:
    ids = leat.from_arrays(tokens=np.random.default_rng(0).integers(0, 300, (20, 16)))
    outputs = {"tokens": [leat.ops.Map(plus_one), leat.ops.MaskTokens(5, 400, p=0.5)], "raw": leat.Out("tokens", [])}
    batch = next(iter(leat.Loader(ids, 20, outputs=outputs, framework="numpy")))
    chosen = batch["tokens.labels"] != -100
    assert 100 < chosen.sum() < 220
    assert (batch["tokens.labels"] == batch["raw"] + 1)[chosen].all()
    assert (batch["tokens"] == batch["raw"] + 1)[~chosen].all() and (batch["tokens"] == 5)[chosen].sum() > 60
    outputs["tokens"] = [leat.ops.Map(plus_one), leat.ops.SpanCorruption(399, density=0.5)]
    batch = next(iter(leat.Loader(ids, 20, outputs=outputs, framework="numpy")))
    assert sorted(np.concatenate([batch["tokens"], batch["tokens.labels"]], axis=1)[0].tolist())[:16] == sorted(
        (batch["raw"][0] + 1).tolist()
    )


def test_what_would_spoil_labels_is_refused() -> None:
    mask, spans = leat.ops.MaskTokens(5, 300), leat.ops.SpanCorruption(299, fill=0)
    ids = leat.from_arrays(tokens=np.arange(64).reshape(4, 16))
    for op in (mask, spans):
        with pytest.raises(ValueError, match="whose labels have -100, which an unsigned type cannot hold"):
            leat.Loader(ids, 2, outputs={"tokens": [op, leat.ops.ToDtype("uint16")]})
        with pytest.raises(ValueError, match=r"follows .* and would be called for its labels, too: put it before"):
            leat.Loader(ids, 2, outputs={"tokens": [op, leat.ops.Map(plus_one)]})
    plain = {"tokens": [leat.ops.SpanCorruption(299), leat.ops.ToDtype("uint16")]}
    assert next(iter(leat.Loader(ids, 2, outputs=plain, framework="numpy")))["tokens.labels"].dtype == np.uint16


def test_tokens_that_a_function_makes_of_any_length_are_masked_and_padded() -> None:
    ids = leat.from_arrays(tokens=np.random.default_rng(0).integers(1, 300, (20, 16)))
    cut = leat.ops.Map(first_tokens, returns=leat.field("int64", (None,)))
    chain = [cut, leat.ops.MaskTokens(5, 300, p=1.0, replace=(0, 0)), leat.ops.PadTo(12, fill=7)]
    outputs = {"tokens": chain, "raw": leat.Out("tokens", [])}
    batch = next(iter(leat.Loader(ids, 20, outputs=outputs, framework="numpy")))
    for raw, tokens, labels in zip(batch["raw"], batch["tokens"], batch["tokens.labels"], strict=True):
        n = len(first_tokens(raw))
        assert tokens.tolist() == raw[:n].tolist() + [7] * (12 - n)
        assert labels.tolist() == raw[:n].tolist() + [-100] * (12 - n)


def first_tokens(tokens: Any) -> Any:
    return tokens[: tokens[0] % 9]


@pytest.mark.parametrize("how", ["cut", "best_fit", "ragged"])
@pytest.mark.parametrize("kind", [leat.ops.Map, leat.ops.MapBatch])
def test_functions_take_packed_rows(how: str, kind: Any) -> None:
    documents = leat.from_arrays(tokens=leat.Ragged(np.arange(15), np.array([0, 5, 8, 15])))
    rows = leat.pack_rows(documents, "tokens", 8, how=how)
    size = {"batch_tokens": 8} if how == "ragged" else {"batch_size": 1}
    outputs = {"tokens": [kind(plus_one)], "raw": leat.Out("tokens", [])}
    for data in (rows, leat.Mix({"a": (rows, 1.0)})) if how != "ragged" else (rows,):
        batches = list(leat.Loader(data, outputs=outputs, framework="numpy", **size))
        assert len(batches) == 2
        assert all((batch["tokens"] == batch["raw"] + 1).all() for batch in batches)
