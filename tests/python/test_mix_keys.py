"""Sources of leat.Mix.by are named as there, wherever weights are given."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

import leat

N = 240


def data(n: int = N) -> leat.Dataset:
    rng = np.random.default_rng(0)
    text = [["en", "de", "fr"][k] for k in rng.integers(0, 3, n)]
    raw = leat.Ragged(np.frombuffer("".join(text).encode(), np.uint8), np.arange(n + 1) * 2)
    return leat.from_arrays(
        {"language": "str"}, language=raw, label=rng.integers(0, 4, n), good=rng.integers(0, 2, n).astype(bool)
    )


@pytest.mark.parametrize(
    ("column", "weights", "others"),
    [
        ("label", {0: 0.25, 1: 0.25, 2: 0.25, 3: 0.25}, {0: 0.1, 1: 0.2, 2: 0.3, 3: 0.4}),
        ("label", {(0, 1): 0.5, ...: 0.5}, {(1, 0): 0.25, ...: 0.75}),
        ("good", {True: 0.5, False: 0.5}, {False: 0.25, True: 0.75}),
        ("language", {"en": 0.5, ("de", "fr"): 0.5}, {("fr", "de"): 0.25, "en": 0.75}),
        (
            ("language", "label"),
            {"en": (0.5, {0: 0.5, ...: 0.5}), ...: 0.5},
            {"en": (0.25, {0: 0.75, ...: 0.25}), ...: 0.75},
        ),
    ],
)
def test_weights_take_the_keys_of_by(column: Any, weights: dict[Any, Any], others: dict[Any, Any]) -> None:
    ds = data()
    mix, want = (leat.Mix.by(ds, column, w) for w in (weights, others))
    want_weights = {
        name: want.weights.get(name, want.weights.get("+".join(name.split("+")[::-1]))) for name in mix.names
    }
    for one in (mix, pickle.loads(pickle.dumps(mix)), mix.map(lambda part: part), mix.with_weights(weights)):
        assert one.with_weights(others).weights == pytest.approx(want_weights)
        assert pickle.loads(pickle.dumps(one.with_weights(others))).with_weights(weights).weights == mix.weights
    loader = leat.Loader(mix, 8, framework="numpy")
    loader.set_mixture(others)
    assert loader.mixture.weights == pytest.approx(want_weights)
    scheduled = leat.Loader(leat.Schedule([(0, mix), (5, mix.with_weights(others))]), 8, framework="numpy")
    assert len(scheduled) > 0


def test_drawn_keys_are_those_of_by() -> None:
    """100 drawn divisions of labels, by value, by NumPy's integers and by name."""
    ds, rng = data(), np.random.default_rng(1)
    for _ in range(100):
        labels = rng.permutation(4).tolist()
        cut = int(rng.integers(1, 4))
        groups = [tuple(labels[:cut]), *((k,) for k in labels[cut:])]
        shares = rng.dirichlet(np.ones(len(groups)))
        keys = [g[0] if len(g) == 1 else g for g in groups]
        mix = leat.Mix.by(ds, "label", dict(zip(keys, shares, strict=True)), normalize=True)
        given: dict[Any, float] = {}
        for key, name in zip(keys, mix.names, strict=True):
            way = int(rng.integers(4))
            if way == 0:
                given[name] = float(rng.random())
            elif isinstance(key, tuple):
                given[tuple(np.int32(k) if way == 1 else k for k in rng.permutation(key))] = float(rng.random())
            else:
                given[np.int64(key) if way == 1 else key] = float(rng.random())
        assert list(mix.with_weights(given, normalize=True).weights.values()) == pytest.approx(
            np.array(list(given.values())) / sum(given.values())
        )


def test_classes_are_keys_too(tmp_path: Any) -> None:
    with leat.Writer(tmp_path / "a.leat", {"label": leat.field("int64")}, classes=["cat", "dog"]) as writer:
        for i in range(10):
            writer.add(label=i % 2)
    mix = leat.Mix.by(leat.open(tmp_path / "a.leat"), "label", {0: 0.5, "dog": 0.5})
    assert mix.names == ["cat", "dog"]
    for keys in ({0: 0.25, 1: 0.75}, {"cat": 0.25, 1: 0.75}, {"cat": 0.25, "dog": 0.75}):
        assert mix.with_weights(keys).weights == {"cat": 0.25, "dog": 0.75}
    inferred = leat.Mix.inferred(leat.open(tmp_path / "a.leat"), "label")
    assert inferred.with_weights({0: 1}).weights == {"cat": 1.0, "dog": 0.0}


def test_sources_of_inferred_mixtures_have_values_too() -> None:
    mix = leat.Mix.inferred(data(), ("language", "good"))
    found = mix.with_weights({"en": (0.5, {True: 1.0}), "de/False": 0.5}).weights
    assert {n: w for n, w in found.items() if w} == {"en/True": 0.5, "de/False": 0.5}


def test_exhausted_takes_the_keys_of_by() -> None:
    mix = leat.Mix.by(data(), "label", {0: 0.5, ...: 0.5}, exhausted={0: "repeat", ...: "stop"})
    assert mix._exhausted == [("repeat", 0), ("stop", 0)]
    assert pickle.loads(pickle.dumps(mix))._exhausted == mix._exhausted
    inferred = leat.Mix.inferred(data(), "good", exhausted={True: "repeat"})
    assert inferred._exhausted == [("stop", 0), ("repeat", 0)]


def test_what_is_no_source_is_named() -> None:
    ds = data()
    mix = leat.Mix.by(ds, ("language", "label"), {"en": (0.5, {0: 0.5, ...: 0.5}), ("de", "fr"): 0.5})
    wrong: list[tuple[dict[Any, Any], type[Exception], str]] = [
        ({"it": 1}, ValueError, "there is no source 'it'"),
        ({0: 1}, ValueError, "there is no source 0"),
        ({True: 1}, ValueError, "there is no source True"),
        ({"de": 1}, ValueError, "there is no source 'de'"),
        ({("de", "fr", "en"): 1}, ValueError, "there is no source"),
        ({...: 1}, ValueError, "there is no source Ellipsis"),
        ({"en": 1}, ValueError, "'en' is divided further: give .weight, .*, or name its sources, such as 'en/0'"),
        ({"en": (0.5, {7: 1.0}), "de+fr": 0.5}, ValueError, "there is no source 'en/7'"),
        ({"en": (0.5, {0: 0.7}), "de+fr": 0.5}, ValueError, "en: the weights sum to 0.7, not to 1"),
        ({"en/0": 0.5, "en": (0.5, {0: 1.0})}, ValueError, "source 'en/0' has two weights"),
        ({("de", "fr"): 0.5, ("fr", "de"): 0.5}, ValueError, "has two weights"),
        ({"de+fr": (0.5, {0: 1.0})}, TypeError, "the weight of 'de.fr' is a number"),
        ({"en": (0.5, 3)}, TypeError, "the weight of 'en' is a number"),
        ({"en": (-1, {0: 1.0}), "de+fr": 2}, ValueError, "weights are finite and not negative"),
        ({3.5: 1}, ValueError, "there is no source 3.5"),
    ]
    for keys, kind, said in wrong:
        with pytest.raises(kind, match=said):
            mix.with_weights(keys)
        with pytest.raises(kind, match=said):
            leat.Loader(mix, 8).set_mixture(keys)
    with pytest.raises(ValueError, match="no weight is given for en/others"):
        leat.Loader(mix, 8).set_mixture({"en/0": 0.5, ("de", "fr"): 0.5})
    plain = leat.Mix({"0": (ds, 0.5), "1": (ds, 0.5)})
    with pytest.raises(ValueError, match="there is no source 0"):
        plain.with_weights({0: 1})
