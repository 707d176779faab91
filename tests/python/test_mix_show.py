"""What mix.show() counts, compared with tests/python/mixture_oracle.py row by row; its tables and pictures."""

from __future__ import annotations

import json
import math
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from drawn_support import examples
from hypothesis import given
from mixture_oracle import Mixture, Source, asked, stream
from test_mixture_oracle import as_leat, expected, mixtures

import leat


def given_by(m: Mixture, epochs: list[list[tuple[int, int]]]) -> np.ndarray[Any, Any]:
    """Rows of each source before every row of the stream."""
    sources = np.array([k for rows in epochs for k, _ in rows])
    table = np.zeros((len(sources) + 1, len(m.sources)), np.int64)
    table[1:] = np.cumsum(sources[:, None] == np.arange(len(m.sources)), axis=0)
    return table


@examples(30)
@given(m=mixtures())
def test_the_counts_are_those_of_the_rows_of_the_page(m: Mixture) -> None:
    try:
        epochs = expected(m)
    except ValueError:  # an epoch without rows
        return
    if not epochs:
        return
    shown = as_leat(m).show(epochs=len(epochs), seed=m.seed, shuffle=m.shuffled)
    counts = given_by(m, epochs)
    assert shown.epochs == [len(rows) for rows in epochs]
    assert shown.rows.tolist() == counts[shown.edges].tolist()
    if m.in_tokens:
        assert shown.tokens is not None
        tokens = np.zeros_like(counts)
        for i, (k, position) in enumerate(row for rows in epochs for row in rows):
            tokens[i + 1, k] = m.sources[k].of(position)
        assert shown.tokens.tolist() == np.cumsum(tokens, axis=0)[shown.edges].tolist()
    for k, source in enumerate(shown.sources):
        through = np.flatnonzero(counts[:, k] >= m.sources[k].count)
        assert (source.through is None) == (not len(through))
        assert source.through is None or source.through.stream == through[0]
        assert source.passes == counts[-1, k] / m.sources[k].count


@examples(25)
@given(m=mixtures())
def test_the_shares_asked_for_are_those_of_the_schedule(m: Mixture) -> None:
    try:
        shown = as_leat(m).show(rows=250)
    except leat.RangeError:  # an epoch without rows
        return
    shares = np.array([asked(m, row) for row in range(250)]) / 2**32
    lengths = [b[0] - a[0] for a, b in pairwise(m.points)]
    parts = max([min(64, n) for n in lengths if m.linear], default=1)  # a line is followed in equal parts
    room = 0.0 if not m.linear else max(lengths, default=0) / parts / min(np.diff(shown.edges))
    for i, (a, b) in enumerate(pairwise(shown.edges.tolist())):
        assert np.abs(shown.asked[i] - shares[a:b].mean(axis=0)).max() < 1e-6 + room / 2


def test_a_decision_of_a_log_changes_what_is_asked_for_and_delivered() -> None:
    ds = leat.from_arrays(x=np.arange(1000))
    mix = leat.Mix({"a": (ds[:300], 0.3), "b": (ds[300:], 0.7)}, exhausted="repeat", epoch_rows=1000)
    loader = leat.Loader(mix, global_batch_size=10, shuffle=True)
    loader.set_mixture({"a": 0.9, "b": 0.1}, at=(0, 30))
    loader.set_mixture({"a": 0.5, "b": 0.5}, at=(1, 20))
    oracle = Mixture(
        [Source(300), Source(700)], [(0, [0.3, 0.7])], epoch_rows=1000,
        decisions=[(300, [0.9, 0.1]), (1200, [0.5, 0.5])],
    )  # fmt: skip
    rows = [k for (_, k, _), _ in zip(stream(oracle), range(2000), strict=False)]
    shown = mix.show(log=loader.log)
    assert shown.epochs == [1000, 1000] and shown.steps == 200
    assert shown.rows.tolist() == [[rows[:n].count(0), rows[:n].count(1)] for n in shown.edges]
    assert [(at.epoch, at.row, at.step) for at in shown.changes] == [(0, 300, 30), (1, 200, 120)]
    assert shown.asked[-1].tolist() == [0.5, 0.5] and round(shown.sources[0].asked, 6) == (0.09 + 0.81 + 0.4) / 2


def test_a_decision_within_a_line_leaves_the_line_before_it_and_takes_the_place_of_one_at_its_row() -> None:
    ds = leat.from_arrays(x=np.arange(1000))
    mix = leat.Mix({"a": (ds[:500], 0.0), "b": (ds[500:], 1.0)}, exhausted="repeat", epoch_rows=1000)
    line = leat.Schedule([(0, mix), (100, mix.with_weights({"a": 1.0}))], interpolate="linear")
    loader = leat.Loader(line, global_batch_size=10)
    loader.set_mixture({"a": 0.5, "b": 0.5}, at=(0, 20))
    loader.set_mixture({"a": 0.25, "b": 0.75}, at=(0, 20))  # the first 200 rows go from 0 to 0.2
    shown = line.show(batch_size=10, rows=400, log=loader.log)
    assert [round(share, 9) for share in (shown.sources[0].asked_last, shown.sources[0].asked)] == [0.25, 0.175]
    assert np.isfinite(shown.asked).all() and abs(shown.sources[0].delivered - 0.175) < 0.01


def test_steps_follow_batch_sizes_that_a_log_decides() -> None:
    ds = leat.from_arrays(x=np.arange(100))
    mix = leat.Mix({"a": (ds[:50], 0.5), "b": (ds[50:], 0.5)}, exhausted="repeat")
    loader = leat.Loader(mix, global_batch_size=10)
    loader.set_batch_size(5, at=(0, 4))
    shown = mix.show(log=loader.log, epochs=2)
    assert shown.steps == 4 + 12 + 20
    assert mix.show(log=loader.log, steps=6).epochs == [50]
    assert mix.show(log=loader.log, steps=18).epochs == [100, 10]


def test_tokens_are_counted_of_rows_that_differ_in_length(tmp_path: Path) -> None:
    path, rng = tmp_path / "t.leat", np.random.default_rng(0)
    with leat.Writer(path, {"tokens": leat.field("uint16", (None,))}) as w:
        for n in rng.integers(0, 40, 900):
            w.add(tokens=np.zeros(n, np.uint16))
    ds = leat.open(path)
    mix = leat.Mix({"a": (ds[200:250], 0.4), "b": (ds[:900:3], 0.6)}, exhausted="repeat")
    shown = mix.show(rows=700, seed=5)
    loader = leat.Loader(mix, global_batch_size=7, shuffle=True, seed=5)
    sums = np.zeros((701, 2), np.int64)
    for i in range(100):
        batch = loader.batch_at(*divmod(i, len(loader)))
        lengths = np.diff(np.asarray(batch["tokens"].offsets))
        for j, (k, n) in enumerate(zip(np.asarray(batch.domains), lengths, strict=True)):
            sums[7 * i + j + 1] = sums[7 * i + j]
            sums[7 * i + j + 1, k] += n
        if (i + 1) % len(loader) == 0:
            break
    known = shown.edges <= len(loader) * 7
    assert known.sum() > 3 and shown.tokens is not None
    assert shown.tokens[known].tolist() == sums[shown.edges[known]].tolist()


@pytest.mark.parametrize("order", [True, False, leat.Blocks(8), leat.Blocks(80), leat.Blocks(80, 160)], ids=repr)
def test_tokens_are_those_of_the_order_that_a_state_says(order: Any, tmp_path: Path) -> None:
    lengths = np.random.default_rng(1).integers(0, 40, 400)
    ds = leat.from_arrays(tokens=leat.Ragged(np.zeros(lengths.sum(), np.uint16), np.append(0, lengths.cumsum())))
    mix = leat.Mix({"a": (ds[:50], 0.4), "b": (ds[50:], 0.6)}, exhausted="repeat")  # one is shorter than a block
    run = leat.Loader(mix, global_batch_size=7, shuffle=order, seed=5)
    (tmp_path / "state.json").write_text(json.dumps(run.state_dict()))
    shown = mix.show(rows=len(run) * 7, log=tmp_path / "state.json")
    sums = [0]
    for batch in run:
        sums.extend(sums[-1] + np.cumsum(np.diff(np.asarray(batch["tokens"].offsets))))
    assert shown.tokens is not None and len(shown.edges) > 3
    known = shown.edges[shown.edges < len(sums)]
    assert shown.tokens[: len(known)].sum(axis=1).tolist() == [sums[row] for row in known]
    other = mix.show(rows=len(run) * 7, log=tmp_path / "state.json", seed=6, shuffle=True).tokens
    assert other is not None and other.tolist() != shown.tokens.tolist()


@pytest.mark.parametrize(
    "change", [{"seed": -5}, {"seed": "x"}, {"order": []}, {"order": {"sources": [{"order": "x"}]}}]
)
def test_a_state_of_no_order_says_none(change: Any, tmp_path: Path) -> None:
    ds = leat.from_arrays(x=np.arange(40))
    mix = leat.Mix({"a": (ds[:10], 0.4), "b": (ds[10:], 0.6)}, exhausted="repeat")
    state = leat.Loader(mix, global_batch_size=7, shuffle=True, seed=5).state_dict()
    (tmp_path / "state.json").write_text(json.dumps({**state, **change}))
    assert mix.show(rows=30, log=tmp_path / "state.json").edges.tolist() == mix.show(rows=30).edges.tolist()


def test_packed_rows_count_as_many_tokens_as_they_are_long() -> None:
    ds = leat.from_arrays(tokens=np.zeros((64, 8), np.uint16), label=np.arange(64) % 2)
    mix = leat.Mix.by(ds, "label", {0: 0.25, 1: 0.75}, exhausted="repeat")
    shown = mix.map(lambda part: leat.pack_rows(part, length=16)).show()
    assert [s.size for s in shown.sources] == [16, 16]
    assert shown.tokens is not None and shown.tokens[-1].tolist() == (16 * shown.rows[-1]).tolist()


def test_a_mixture_of_a_billion_rows_is_counted_without_its_rows() -> None:
    ds = leat.from_arrays(x=np.zeros(1000, np.uint8))
    mix = leat.Mix({str(i): (ds, 0.01) for i in range(100)}, exhausted="repeat", epoch_rows=10**9)
    shown = mix.show()
    assert int(shown.rows[-1].sum()) == 10**9
    assert max(abs(s.rows - 10**7) for s in shown.sources) < 30  # a share is a whole number of 2^-32


def test_an_endless_schedule_is_cut_and_says_so() -> None:
    ds = leat.from_arrays(x=np.zeros(2, np.uint8))
    mix = leat.Mix({"a": (ds, 1.0)})
    shown = leat.Schedule([(0, mix), (10**9, mix)]).show(batch_size=1)
    assert len(shown.epochs) == 10_000 and "first 10,000 epochs" in str(shown)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"steps": 3}, "give batch_size"),
        ({"steps": 3, "rows": 3, "batch_size": 1}, "one of them"),
        ({"rows": 0}, "rows is 1 or above"),
        ({"batch_size": 0}, "batch_size is 1 or above"),
    ],
)
def test_arguments_that_do_not_go_are_refused(given: dict[str, Any], says: str) -> None:
    mix = leat.Mix({"a": (leat.from_arrays(x=np.arange(4)), 1.0)})
    with pytest.raises(ValueError, match=says):
        mix.show(**given)


def test_a_log_of_another_mixture_is_refused() -> None:
    ds = leat.from_arrays(x=np.arange(40))
    two = leat.Mix({"a": (ds, 0.5), "b": (ds, 0.5)})
    three = leat.Mix({"a": (ds, 0.5), "b": (ds, 0.25), "c": (ds, 0.25)})
    log = leat.Loader(three, batch_size=4).log
    with pytest.raises(leat.Error, match="shares"):
        two.show(log=log)


def test_the_table_has_shares_passes_and_where_sources_are_through() -> None:
    ds = leat.from_arrays(x=np.arange(1000))
    mix = leat.Mix({"small": (ds[:100], 0.5), "large": (ds[100:], 0.5)}, exhausted="repeat")
    text = str(mix.show(batch_size=10))
    assert "2 sources, shares of rows: 1,800 rows, 180 steps, 1 epoch" in text
    small = next(line for line in text.splitlines() if line.startswith("small"))
    assert small.split()[1:6] == ["50.00%", "50.000%", "900", "100", "9.00"] and "again from step 19" in small
    assert "900" in mix.show()._repr_html_()


def test_names_cannot_write_to_the_terminal_and_wide_ones_keep_the_columns() -> None:
    ds = leat.from_arrays(x=np.arange(10))
    names = ["\x1b[31mred", "中文" * 30, "<b>$x$</b>"]
    mix = leat.Mix({name: (ds, 1.0) for name in names}, normalize=True)
    text, page = str(mix.show()), mix.show()._repr_html_()
    assert "\x1b" not in text and "\\x1b[31mred" in text and "<b>$" not in page
    from leat.mixtures.printed import columns

    lines = text.splitlines()[2:6]
    assert len({columns(line.split("33.3")[0]) for line in lines[1:]}) == 1


def test_everything_is_plain_data() -> None:
    ds = leat.from_arrays(x=np.arange(100))
    mix = leat.Mix({"a": (ds[:30], 0.5), "b": (ds[30:], 0.5)}, exhausted={"a": ("repeat", 2), "b": "redistribute"})
    found = json.loads(json.dumps(mix.show(batch_size=5).as_dict()))
    assert [s["name"] for s in found["sources"]] == ["a", "b"] and found["rows"] == 130
    assert found["sources"][0]["exhausted"] == "repeat, at most 2 passes" and found["sources"][0]["repeats"] == 1
    assert math.isclose(sum(s["delivered"] for s in found["sources"]), 1)
    assert len(found["over"]["rows"]) == len(found["over"]["delivered"]["a"]) + 1


def test_a_picture_shows_each_source(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    ds = leat.from_arrays(x=np.arange(400))
    names = ["_hidden", "$a", "中文"]
    mix = leat.Mix({name: (ds, w) for name, w in zip(names, (0.5, 0.2, 0.3), strict=True)}, exhausted="repeat")
    schedule = leat.Schedule([(0, mix), (20, mix.with_weights({"$a": 1}))], "linear")
    shown = schedule.show(batch_size=10)
    from leat.mixtures.plotted import draw

    figure = draw(shown)
    assert [t.get_text() for t in figure.legends[0].get_texts()] == names
    shown.save(tmp_path / "m.png")
    assert (tmp_path / "m.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    assert [p.name for p in tmp_path.iterdir()] == ["m.png"]
    many = leat.Mix({str(i): (ds, 1.0) for i in range(40)}, normalize=True)
    assert draw(many.show()).legends[0].get_texts()[-1].get_text() == "26 others"


def test_a_picture_has_a_form_that_is_known(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    shown = leat.Mix({"a": (leat.from_arrays(x=np.arange(4)), 1.0)}).show()
    with pytest.raises(ValueError, match=r"\.png, \.pdf or \.svg"):
        shown.save(tmp_path / "m.gif")
