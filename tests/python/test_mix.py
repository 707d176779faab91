"""Mixtures as they are declared: weights, names, parts by value, and everything that is refused."""

from __future__ import annotations

import math
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import leat

LANGUAGES = ["en", "de", "fr"]
DOMAINS = ["code", "books"]


@pytest.fixture
def ds(tmp_path: Path) -> leat.Dataset:
    """60 documents: a language, a domain, a year and tokens."""
    fields = {"language": "str", "domain": "str", "year": "int32", "good": "bool", "score": "float32"}
    with leat.Writer(tmp_path / "d.leat", fields | {"tokens": leat.field("uint16", (None,))}) as w:
        for i in range(60):
            w.add(
                language=LANGUAGES[i % 3],
                domain=DOMAINS[i % 2],
                year=2000 + i % 5,
                good=i % 4 == 0,
                score=i / 7,
                tokens=np.arange(i % 11, dtype=np.uint16),
            )
    return leat.open(tmp_path / "d.leat")


def values(ds: leat.Dataset, name: str) -> set[Any]:
    return {sample[name] for sample in ds}


# ---- weights ---------------------------------------------------------------------------------------------------------


def test_a_mix_knows_names_weights_and_data_sets_in_the_order_given(ds: leat.Dataset) -> None:
    mix = leat.Mix({"b": (ds[:10], 0.25), "a": (ds[10:], 0.75)})
    assert mix.names == ["b", "a"]
    assert mix.weights == {"b": 0.25, "a": 0.75}
    assert [len(part) for part in mix.datasets] == [10, 50]


@pytest.mark.parametrize(
    ("weights", "text"),
    [
        ((0.5, 0.6), "sum to 1.1, not to 1"),
        ((-0.5, 1.5), "'a' is -0.5: weights are finite and not negative"),
        ((math.nan, 1), "'a' is nan"),
        ((math.inf, 1), "'a' is inf"),
        ((0, 0), "at least one is above 0"),
        ((1e308, 1e308), "'a'|sum to"),
    ],
)
def test_weights_that_are_no_shares_are_refused_with_their_name_or_sum(
    ds: leat.Dataset, weights: tuple[float, float], text: str
) -> None:
    with pytest.raises(ValueError, match=text):
        leat.Mix({"a": (ds, weights[0]), "b": (ds, weights[1])})


@pytest.mark.parametrize("weight", ["0.5", True, None, [1], 1 + 0j])
def test_a_weight_that_is_no_number_is_refused_with_its_name(ds: leat.Dataset, weight: Any) -> None:
    with pytest.raises(TypeError, match="the weight of 'a' is a number"):
        leat.Mix({"a": (ds, weight), "b": (ds, 0.5)})


def test_weights_may_miss_one_by_rounding(ds: leat.Dataset) -> None:
    assert sum(leat.Mix({str(i): (ds, 1 / 3) for i in range(3)}).weights.values()) == pytest.approx(1)


def test_normalize_divides_by_the_sum(ds: leat.Dataset) -> None:
    assert leat.Mix({"a": (ds, 3), "b": (ds, 1)}, normalize=True).weights == {"a": 0.75, "b": 0.25}


def test_a_mix_of_too_many_sources_is_refused_with_what_to_do(ds: leat.Dataset) -> None:
    most = leat.Mix({str(i): (ds[:2], 1 / 1024) for i in range(1024)}, epoch_rows=2048)
    with leat.Loader(most, batch_size=1024, framework="numpy") as loader:
        assert sorted(next(iter(loader)).domains) == list(range(1024))
    with pytest.raises(ValueError, match="at most 1,024 sources, not 1,025: join those with like shares"):
        leat.Mix({str(i): (ds[:2], 1 / 1025) for i in range(1025)})


def test_an_empty_source_is_refused_by_name_unless_its_weight_is_zero(ds: leat.Dataset) -> None:
    with pytest.raises(ValueError, match="source 'b' has a weight of 0.5 and no samples"):
        leat.Mix({"a": (ds, 0.5), "b": (ds[:0], 0.5)})
    assert leat.Mix({"a": (ds, 1), "b": (ds[:0], 0)}).weights["b"] == 0


def test_a_source_without_tokens_is_refused_where_tokens_count(ds: leat.Dataset) -> None:
    with pytest.raises(ValueError, match="source 'b' has a weight of 0.5 and no tokens: all its 2 samples are empty"):
        leat.Mix({"a": (ds, 0.5), "b": (ds.select([0, 11]), 0.5)}, unit="tokens")


def test_the_field_of_tokens_must_be_there_and_a_list(ds: leat.Dataset) -> None:
    with pytest.raises(ValueError, match="'ids', and the sources have no such field: they have language, domain"):
        leat.Mix({"a": (ds, 1)}, unit="tokens", tokens_field="ids")
    with pytest.raises(ValueError, match=r"tokens_field='year', which is field\('int32'\)"):
        leat.Mix({"a": (ds, 1)}, unit="tokens", tokens_field="year")


def test_sources_have_the_same_fields(ds: leat.Dataset) -> None:
    other = leat.from_arrays(year=np.arange(3))
    with pytest.raises(ValueError, match="'a' has 'language' .* 'b' does not"):
        leat.Mix({"a": (ds, 0.5), "b": (other, 0.5)})
    with pytest.raises(ValueError, match="'year' is int64 in 'b' and int32 in 'a'|'year' is .* in 'b' and"):
        leat.Mix({"b": (other, 0.5), "a": (leat.from_arrays(year=np.arange(3, dtype=np.int32)), 0.5)})
    with pytest.raises(ValueError, match="'a' has 'language', 'b' does not"):
        leat.Mix({"b": (leat.from_arrays(year=np.arange(3, dtype=np.int32)), 0.5), "a": (ds, 0.5)})


@pytest.mark.parametrize(
    ("sources", "error", "text"),
    [
        ([], TypeError, "a dict of sources"),
        ({}, ValueError, "at least one source"),
        ({"a": 1}, TypeError, r"source 'a' is \(data set, weight\)"),
        ({"a": (1, 1)}, TypeError, "source 'a' has no leat.Dataset but int"),
        ({1: (1, 1)}, TypeError, "the name of a source is a text"),
        ({"a\0": (1, 1)}, TypeError, "the name of a source is a text"),
    ],
)
def test_sources_that_are_none_are_refused(sources: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        leat.Mix(sources)


def test_mixtures_do_not_nest_and_say_what_does(ds: leat.Dataset) -> None:
    mix = leat.Mix({"a": (ds, 1)})
    with pytest.raises(TypeError, match="mixtures do not nest; leat.Mix.by takes nested weights"):
        leat.Mix({"b": (mix, 1)})


@pytest.mark.parametrize(
    "use",
    [
        lambda mix, ds: leat.zip(left=mix, right=ds),
        lambda mix, ds: leat.concat(ds, mix),
        lambda mix, ds: leat.pack_rows(mix),
        lambda mix, ds: leat.Mix.by(mix, "year", {2000: 1}),
        lambda mix, ds: leat.Mix.inferred(leat.Schedule([(0, mix)]), "year"),
    ],
)
def test_what_takes_data_sets_refuses_a_mixture_and_says_what_to_do(ds: leat.Dataset, use: Any) -> None:
    with pytest.raises(TypeError, match=r"goes to a Loader only: join, zip, select or pack .* mix.map\(function\)"):
        use(leat.Mix({"a": (ds, 1)}), ds)


def test_a_mix_has_no_samples_by_position(ds: leat.Dataset) -> None:
    mix = leat.Mix({"a": (ds, 1)})
    with pytest.raises(TypeError, match="no samples by position"):
        mix[0]
    with pytest.raises(TypeError, match="iterated by a Loader"):
        iter(mix)
    with pytest.raises(TypeError, match="a Schedule has no samples by position"):
        leat.Schedule([(0, mix)])[0]
    with pytest.raises(ValueError, match="set_mixture: the weights sum to 2, not to 1$"):
        leat.Loader(mix, 4).set_mixture({"a": 2})


# ---- exhaustion ------------------------------------------------------------------------------------------------------


def test_what_ends_an_epoch_is_said_for_all_or_by_source_or_branch(ds: leat.Dataset) -> None:
    parts: dict[str, Any] = {"en/code": (ds, 0.5), "en/books": (ds, 0.25), "de": (ds, 0.25)}
    assert set(leat.Mix(parts, exhausted="repeat").exhausted.values()) == {"repeat"}
    mixed = leat.Mix(parts, exhausted={"en": "repeat", "en/books": ("repeat", 3)})
    assert mixed.exhausted == {"en/code": "repeat", "en/books": ("repeat", 3), "de": "stop"}
    sources: dict[str, Any] = {"web": (ds, 0.5), "web/news": (ds, 0.5)}  # a source is no branch
    assert leat.Mix(sources, exhausted={"web": "repeat"}).exhausted == {"web": "repeat", "web/news": "stop"}


@pytest.mark.parametrize(
    ("exhausted", "error", "text"),
    [
        ("loop", ValueError, "'stop', 'redistribute', 'repeat', not 'loop'"),
        ({"b": "stop"}, ValueError, "there is no source 'b': the sources are code; did you mean|no source 'b'"),
        ({"cod": "stop"}, ValueError, "did you mean 'code'"),
        ({"code": ("repeat", 0)}, ValueError, "the limit in exhausted of 'code'"),
        ({"code": ("repeat", 1.5)}, TypeError, "is an integer"),
        ({"code": ("stop", 2)}, ValueError, "only 'repeat' has a limit"),
        ({"code": ("repeat",)}, ValueError, r"\('repeat', passes\)"),
        (None, ValueError, "'redistribute', 'repeat', not None"),
    ],
)
def test_words_that_are_none_are_refused(ds: leat.Dataset, exhausted: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        leat.Mix({"code": (ds, 1)}, exhausted=exhausted)


@pytest.mark.parametrize("options", [{"unit": "bytes"}, {"epoch_rows": 0}, {"epoch_rows": 1.5}, {"normalize": "yes"}])
def test_options_that_are_none_are_refused_with_their_name(ds: leat.Dataset, options: dict[str, Any]) -> None:
    with pytest.raises((ValueError, TypeError), match=next(iter(options))):
        leat.Mix({"a": (ds, 1)}, **options)


# ---- by value --------------------------------------------------------------------------------------------------------


def test_parts_hold_the_samples_with_their_value_and_keep_their_ids(ds: leat.Dataset) -> None:
    mix = leat.Mix.by(ds, "language", {"de": 0.2, "en": 0.5, "fr": 0.3})
    assert mix.weights == {"de": 0.2, "en": 0.5, "fr": 0.3}
    for name, part in zip(mix.names, mix.datasets, strict=True):
        assert values(part, "language") == {name} and len(part) == 20
    assert sorted(i for part in mix.datasets for i in part.ids.tolist()) == list(range(60))


@pytest.mark.parametrize(("column", "weights"), [("year", {2000: 0.5, 2001: 0.5}), ("good", {True: 0.5, False: 0.5})])
def test_integers_and_truth_values_divide_too(ds: leat.Dataset, column: str, weights: dict[Any, float]) -> None:
    mix = leat.Mix.by(ds, column, weights, others="leave_out")
    for key, part in zip(weights, mix.datasets, strict=True):
        assert values(part, column) == {key}
    assert mix.names == [str(key) for key in weights]


def test_nested_weights_are_shares_of_shares(ds: leat.Dataset) -> None:
    weights = {"en": (0.6, {"code": 0.3, "books": 0.7}), "de": 0.4}
    mix = leat.Mix.by(ds, ("language", "domain"), weights, others="leave_out")
    assert mix.names == ["en/code", "en/books", "de"]
    assert list(mix.weights.values()) == pytest.approx([0.18, 0.42, 0.4])
    code, _, de = mix.datasets
    assert values(code, "language") == {"en"} and values(code, "domain") == {"code"}
    assert values(de, "domain") == {"code", "books"}
    assert mix.left_out == {"fr": 20}


def test_a_branch_may_have_a_column_of_its_own(ds: leat.Dataset) -> None:
    weights = {"en": (0.5, "domain", {"code": 0.5, "books": 0.5}), "de": (0.5, "year", {2000: 1})}
    mix = leat.Mix.by(ds, "language", weights, others="leave_out")
    assert mix.names == ["en/code", "en/books", "de/2000"]
    assert mix.left_out["fr"] == 20 and sum(mix.left_out.values()) == 60 - sum(map(len, mix.datasets))
    assert all(name.startswith("de/") for name in mix.left_out if name != "fr")


def test_several_values_and_all_others_are_a_source_each(ds: leat.Dataset) -> None:
    mix = leat.Mix.by(ds, "year", {(2000, 2001): 0.5, 2003: 0.1, ...: 0.4})
    assert mix.names == ["2000+2001", "2003", "others"]
    assert [values(part, "year") for part in mix.datasets] == [{2000, 2001}, {2003}, {2002, 2004}]


def test_values_that_no_weight_names_are_an_error_that_counts_them(ds: leat.Dataset) -> None:
    with pytest.raises(ValueError, match=r"no source for 40 of 60 samples: \w+ \(20\), \w+ \(20\)"):
        leat.Mix.by(ds, "language", {"en": 1})
    with pytest.raises(ValueError, match=r"no source for 10 of 60 samples: en/books \(10\)"):
        leat.Mix.by(ds, ("language", "domain"), {"en": (0.5, {"code": 1}), "de": 0.25, "fr": 0.25})


@pytest.mark.parametrize(
    ("column", "weights", "error", "text"),
    [
        ("langage", {"en": 1}, KeyError, 'no field "langage"'),
        ("score", {1.0: 1}, TypeError, r"column 'score' is field\('float32'\).* ranges of numbers"),
        ("tokens", {1: 1}, TypeError, "column 'tokens' is"),
        ("language", {"en": 0.5, "it": 0.5}, ValueError, "no sample has language = 'it': it has de, en, fr"),
        ("language", {"En": 1}, ValueError, "did you mean 'en'"),
        ("year", {"2000": 1}, ValueError, "no sample has year = '2000': .* did you mean 2000"),
        ("language", {"en": 0.5, ...: 0.6}, ValueError, "sum to 1.1"),
        ("language", {"en": 0.5, ("en", "de"): 0.5}, ValueError, "'en' of 'language' has two weights"),
        ("language", {"en": (1, {"code": 1})}, ValueError, "'en' is divided further, and there is no column left"),
        ("language", {"en": {"code": 1}}, TypeError, r"'en' has no weight of its own: write 'en': \(weight"),
        ("language", {"en": (1,)}, TypeError, r"'en' is a weight, \(weight, {...}\)"),
        ("language", {"en": (1, "domain", 3)}, TypeError, "en: weights are a dict"),
        ("language", {"en": (1, "domain", {"code": 0.5, "books": 0.6})}, ValueError, "en: the weights sum to 1.1"),
        ("language", {}, TypeError, "weights are a dict"),
        ((), {"en": 1}, TypeError, "column is the name of a field"),
    ],
)
def test_weights_by_value_that_do_not_fit_the_column_are_refused(
    ds: leat.Dataset, column: Any, weights: Any, error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        leat.Mix.by(ds, column, weights)


def test_packed_rows_are_divided_before_they_are_packed(ds: leat.Dataset) -> None:
    with pytest.raises(TypeError, match="divide the documents, and pack each part"):
        leat.Mix.by(leat.pack_rows(ds, length=8), "language", {"en": 1})
    mix = leat.Mix.by(ds, "language", {"en": 0.5, "de": 0.25, "fr": 0.25}).map(lambda d: leat.pack_rows(d, length=8))
    assert [type(part).__name__ for part in mix.datasets] == ["PackedRows"] * 3
    assert mix.weights == {"en": 0.5, "de": 0.25, "fr": 0.25}


def test_names_of_classes_stand_for_their_numbers(photos: Path) -> None:
    folder = leat.open(photos)
    name = folder.classes[0]
    mix = leat.Mix.by(folder, "label", {name: 0.5, ...: 0.5})
    assert mix.names == [name, "others"]
    assert set(mix.datasets[0].column("label").tolist()) == {0}


# ---- inferred --------------------------------------------------------------------------------------------------------


def test_inferred_shares_are_those_of_the_samples(ds: leat.Dataset) -> None:
    mix = leat.Mix.inferred(ds, ("domain", "year"))
    assert mix.names[:2] == ["books/2000", "books/2001"] and len(mix.names) == 10
    assert mix.weights == {name: len(part) / 60 for name, part in zip(mix.names, mix.datasets, strict=True)}


def test_inferred_shares_of_tokens_are_those_of_the_tokens(ds: leat.Dataset) -> None:
    mix = leat.Mix.inferred(ds, "language", unit="tokens")
    tokens = {name: sum(len(s["tokens"]) for s in part) for name, part in zip(mix.names, mix.datasets, strict=True)}
    assert mix.weights == pytest.approx({name: n / sum(tokens.values()) for name, n in tokens.items()})


def test_nothing_can_be_inferred_of_nothing(ds: leat.Dataset) -> None:
    with pytest.raises(ValueError, match="there are no samples to infer shares from"):
        leat.Mix.inferred(ds[:0], "language")


# ---- schedules -------------------------------------------------------------------------------------------------------


def test_a_schedule_says_what_is_asked_for_at_each_step(ds: leat.Dataset) -> None:
    a = leat.Mix({"x": (ds[:30], 0.75), "y": (ds[30:], 0.25)})
    b = a.with_weights({"y": 1})
    step = leat.Schedule([(0, a), (10, b)])
    assert [step.weights_at(i)["y"] for i in (0, 9, 10, 99)] == [0.25, 0.25, 1, 1]
    line = leat.Schedule([(0, a), (10, b)], interpolate="linear")
    assert [line.weights_at(i)["y"] for i in (0, 4, 10, 99)] == pytest.approx([0.25, 0.55, 1, 1])


def test_a_schedule_that_is_none_is_refused(ds: leat.Dataset) -> None:
    a = leat.Mix({"x": (ds[:30], 0.75), "y": (ds[30:], 0.25)})
    for points, error, text in [
        ([], ValueError, "at least one point"),
        ([(1, a)], ValueError, "the first point of a schedule is 0, not 1"),
        ([(0, a), (5, a), (5, a)], ValueError, "rise: 5 comes after 5"),
        ([(0, a), (-1, a)], ValueError, "the step of point 1"),
        ([(0, a), (1.5, a)], TypeError, "the step of point 1 is an integer"),
        ([(0, ds)], TypeError, "point 0 of the schedule has no leat.Mix but Dataset"),
        ([a], TypeError, r"point 0 of the schedule is \(step, mix\)"),
        ({0: a}, TypeError, "a list of points"),
        ([(0, a), (9, leat.Mix({"x": (ds, 1)}))], ValueError, "'y' is only in one of them"),
        ([(0, a), (9, leat.Mix({"x": (ds, 1), "y": (ds, 0)}))], ValueError, "other data as source 'x'"),
        (
            [(0, a), (9, leat.Mix({"x": (ds[:30], 0.75), "y": (ds[30:], 0.25)}, exhausted="repeat"))],
            ValueError,
            "only weights change",
        ),
    ]:
        with pytest.raises(error, match=text):
            leat.Schedule(points)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="interpolate is one of 'step', 'linear'"):
        leat.Schedule([(0, a)], interpolate="cubic")  # type: ignore[arg-type]


def test_other_weights_name_sources_that_are_there(ds: leat.Dataset) -> None:
    a = leat.Mix({"code": (ds[:30], 0.75), "books": (ds[30:], 0.25)})
    with pytest.raises(ValueError, match="there is no source 'book': .* did you mean 'books'"):
        a.with_weights({"book": 1})


# ---- as an object ----------------------------------------------------------------------------------------------------


def test_a_pickled_mix_and_schedule_are_the_same(ds: leat.Dataset) -> None:
    mix = leat.Mix.by(ds, ("language", "domain"), {"en": (1, {"code": 0.25, "books": 0.75})}, others="leave_out",
                      unit="tokens", exhausted={"en/code": ("repeat", 2)}, epoch_rows=9)  # fmt: skip
    again = pickle.loads(pickle.dumps(mix))
    assert (again.fingerprint, again.names, again.left_out) == (mix.fingerprint, mix.names, mix.left_out)
    assert again.exhausted == {"en/code": ("repeat", 2), "en/books": "stop"}
    schedule = leat.Schedule([(0, mix), (5, mix.with_weights({"en/code": 1}))], "linear", "rows")
    assert pickle.loads(pickle.dumps(schedule)).fingerprint == schedule.fingerprint


def test_a_mix_by_value_pickles_as_the_call_that_made_it(tmp_path: Path) -> None:
    with leat.Writer(tmp_path / "many.leat", {"kind": "int32"}) as w:
        w.write_batch({"kind": np.arange(50_000, dtype=np.int32) % 7})
    many = leat.open(tmp_path / "many.leat")
    for mix in (leat.Mix.by(many, "kind", {0: 0.5, ...: 0.5}), leat.Mix.inferred(many, "kind")):
        pickled = pickle.dumps(mix)
        assert len(pickled) < 2000
        assert pickle.loads(pickled).fingerprint == mix.fingerprint


def test_a_mix_keeps_nothing_that_its_caller_changes_later(ds: leat.Dataset) -> None:
    columns: Any = ["language", "domain"]
    weights: dict[str, Any] = {"en": (0.5, {"code": 0.5, "books": 0.5}), "de": np.array(0.25), "fr": 0.25}
    ends: dict[str, Any] = {"de": "repeat"}
    mixes = [leat.Mix.by(ds, columns, weights, exhausted=ends), leat.Mix.inferred(ds, columns, exhausted={**ends})]
    told = [(mix.fingerprint, mix.exhausted) for mix in mixes]
    columns.append("year")
    weights["en"][1].update(code=0.25, books=0.75)
    weights["de"][...] = 0.5
    weights["fr"] = 0.0
    ends["fr"] = "repeat"
    again = [pickle.loads(pickle.dumps(mix)) for mix in mixes]
    assert [(mix.fingerprint, mix.exhausted) for mix in again] == told


def test_an_empty_text_is_a_value_like_others(tmp_path: Path) -> None:
    (tmp_path / "d.jsonl").write_text('{"x": 1, "domain": "code"}\n{"x": 2, "domain": null}\n{"x": 3}\n')
    records = leat.open(tmp_path / "d.jsonl")
    for mix in (leat.Mix.inferred(records, "domain"), leat.Mix.by(records, "domain", {"": 2 / 3, "code": 1 / 3})):
        assert {name: len(part) for name, part in zip(mix.names, mix.datasets)} == {"": 2, "code": 1}
        assert mix.with_weights({"": 1}).weights == {"": 1, "code": 0}
        assert [source.rows for source in mix.show(rows=3).sources if source.name == ""] == [2]
        assert str(mix.show())


def test_the_fingerprint_follows_from_everything_that_says_the_order(ds: leat.Dataset) -> None:
    a, b = ds[:30], ds[30:]
    mixes = [
        leat.Mix({"a": (a, 0.5), "b": (b, 0.5)}),
        leat.Mix({"b": (b, 0.5), "a": (a, 0.5)}),
        leat.Mix({"a": (a, 0.4), "b": (b, 0.6)}),
        leat.Mix({"a": (a[1:], 0.5), "b": (b, 0.5)}),
        leat.Mix({"a": (a, 0.5), "b": (b, 0.5)}, unit="tokens"),
        leat.Mix({"a": (a, 0.5), "b": (b, 0.5)}, exhausted="repeat"),
        leat.Mix({"a": (a, 0.5), "b": (b, 0.5)}, exhausted={"a": ("repeat", 2)}),
        leat.Mix({"a": (a, 0.5), "b": (b, 0.5)}, epoch_rows=7),
    ]
    assert len({mix.fingerprint for mix in mixes}) == len(mixes)
    assert leat.Mix({"a": (ds[:30], 0.5), "b": (ds[30:], 0.5)}).fingerprint == mixes[0].fingerprint


def test_faces_name_the_sources_and_escape_them(ds: leat.Dataset) -> None:
    mix = leat.Mix({"<b>": (ds[:30], 0.5), "y": (ds[30:], 0.5)})
    assert repr(mix) == "<leat.Mix of samples (<b>: 0.5, y: 0.5)>"
    assert "&lt;b&gt;" in mix._repr_html_() and "<td style='text-align:left'><b>" not in mix._repr_html_()
    schedule = leat.Schedule([(0, mix), (5, mix)])
    assert "leat.Schedule, step, by steps" in repr(schedule) and "&lt;b&gt;" in schedule._repr_html_()


def test_shares_of_tokens_hold_where_rows_are_packed_from_fewer_documents_than_rows() -> None:
    def documents(first: int) -> leat.Dataset:
        tokens = [np.arange(300, dtype=np.uint16) + first for _ in range(4)]
        return leat.from_arrays(tokens=leat.Ragged(np.concatenate(tokens), np.arange(5) * 300))

    mix = leat.Mix(
        {name: (leat.pack_rows(documents(first), length=16), 0.5) for name, first in (("a", 0), ("b", 1000))},
        unit="tokens",
        exhausted="repeat",
    )
    loader = leat.Loader(mix, batch_size=8, shuffle=True, framework="numpy")
    for batch in loader:
        assert np.bincount(batch.domains, minlength=2).tolist() == [len(batch.domains) // 2] * 2


def test_an_epoch_too_far_ahead_to_be_known_has_no_length() -> None:
    ds = leat.from_arrays(x=np.arange(5))
    mix = leat.Mix({"a": (ds[:2], 0.5), "b": (ds[2:], 0.5)}, exhausted="redistribute")
    with leat.Loader(mix, batch_size=2, framework="numpy") as loader:
        assert len(loader) == 3
        loader.set_epoch(1 << 50)
        with pytest.raises(leat.RangeError):
            len(loader)


@pytest.mark.parametrize("word", ["stop", "redistribute", "repeat"])
def test_a_rank_without_rows_has_the_length_0(word: Any) -> None:
    mix = leat.Mix({"a": (leat.from_arrays(x=np.arange(1)), 1.0)}, exhausted=word)
    for rank, rows in enumerate([0, 1]):
        with leat.Loader(mix, batch_size=4, rank=rank, world_size=2, tail="uneven", framework="numpy") as loader:
            assert len(loader) == rows == len(list(loader))
    with leat.Loader(mix, batch_size=4, tail="drop", framework="numpy") as loader:
        assert len(loader) == 0 == len(list(loader))


SCHEMA = {"label": "int64", "tokens": leat.field("int32", (None,)), "loss_mask": leat.field("bool", (None,))}


def test_documents_of_packed_sources_may_differ_in_what_their_rows_do_not_have(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    texts = [rng.integers(1, 500, n).astype(np.int32) for n in rng.integers(0, 9, 40)]
    ragged = leat.Ragged(np.concatenate(texts), np.cumsum([0, *map(len, texts)]))
    masks = leat.Ragged(ragged.values % 2 == 0, ragged.offsets)
    fields = {"tokens": ragged, "loss_mask": masks}
    with leat.Writer(tmp_path / "labelled.leat", SCHEMA, classes=["even", "odd"]) as w:
        for i, text in enumerate(texts):
            w.add(label=i % 2, tokens=text, loss_mask=text % 2 == 0)
    labelled = leat.open(tmp_path / "labelled.leat").select(np.arange(40)[::-1][:30])
    others = leat.from_arrays(loss_mask=masks, url=np.arange(40.0), tokens=ragged)
    plain = leat.from_arrays(**fields)
    parts = {"labelled": labelled, "others": others, "plain": plain, "more": others[5:20]}
    names = list(parts)
    for how in ("cut", "best_fit"):
        rows = {name: leat.pack_rows(part, "tokens", 8, how=how, eos=501) for name, part in parts.items()}
        mix = leat.Mix({name: (one, 0.25) for name, one in rows.items()}, unit="tokens", exhausted="redistribute")
        begins = dict(zip(names, np.cumsum([0, *map(len, rows.values())]), strict=False))
        offsets = dict(zip(names, (0, 40, 80, 120), strict=True))  # ids are those of leat.concat
        seen = 0
        for batch in leat.Loader(mix, 7, framework="numpy"):
            for i, domain in zip(batch.ids[batch.valid], batch.domains, strict=False):
                name, at = names[domain], batch.ids.tolist().index(i)
                row = rows[name][int(i - begins[name])]
                assert (batch["tokens"][at] == row["tokens"]).all()
                assert (batch["loss_mask"][at] == row["loss_mask"]).all()
                made = np.where(row["doc_ids"] < 0, -1, row["doc_ids"] + offsets[name])
                assert (batch["doc_ids"][at] == made).all()
                seen += 1
        assert seen == len(mix) == sum(map(len, rows.values()))
        assert [source.rows for source in mix.show().sources] == [len(one) for one in rows.values()]


def test_packed_sources_have_documents_with_the_same_tokens_and_loss_masks() -> None:
    plain = leat.from_arrays(tokens=np.arange(12).reshape(4, 3))
    masked = leat.from_arrays(tokens=np.arange(12).reshape(4, 3), loss_mask=np.ones((4, 3), bool))
    ragged = leat.from_arrays(tokens=leat.Ragged(np.arange(12), np.array([0, 5, 12])))
    for other, said in ((masked, "'b' has 'loss_mask', 'a' does not"), (ragged, r"'tokens' is .*\(3,\).* in 'a' and")):
        rows = {"a": (leat.pack_rows(plain, "tokens", 4), 0.5), "b": (leat.pack_rows(other, "tokens", 4), 0.5)}
        with pytest.raises(ValueError, match=f"documents of the sources of a Mix have the same fields: {said}"):
            leat.Mix(rows)


def test_sources_with_fields_in_another_order_are_refused_with_what_to_do() -> None:
    a, b = leat.from_arrays(x=np.arange(4), y=np.arange(4)), leat.from_arrays(y=np.arange(4), x=np.arange(4))
    with pytest.raises(ValueError, match=r"in the same order, and that of 'a' and 'b' differs: leat\.open\(path, fiel"):
        leat.Mix({"a": (a, 0.5), "b": (b, 0.5)})


def test_a_schedule_of_steps_says_which_size_its_run_was_opened_with() -> None:
    ds = leat.from_arrays(x=np.arange(300))
    mix = leat.Mix({"a": (ds[:100], 0.9), "b": (ds[100:], 0.1)}, exhausted="repeat")
    schedule = leat.Schedule([(0, mix), (10, mix.with_weights({"a": 0.1, "b": 0.9}))])
    state = leat.Loader(schedule, 10).state_dict()
    with pytest.raises(leat.StateError, match=r"opened with 10 rows .* this loader with 20: open it with global"):
        leat.Loader(schedule, 20).load_state_dict(state)
    leat.Loader(schedule, 5, rank=0, world_size=2).load_state_dict(state)
    leat.Loader(leat.Schedule([(0, mix)]), 20).load_state_dict(leat.Loader(leat.Schedule([(0, mix)]), 10).state_dict())
