"""The ids of a mixture whose sources are views of one data set: those of that data set."""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli_support import leat as command

import leat

LANGUAGES, DOMAINS = ["en", "de", "fr"], ["code", "books"]
N = 120


def written(path: Path) -> Path:
    """`number` is each document's id; its tokens are all that number."""
    fields = {"number": "int64", "language": "str", "domain": "str", "tokens": leat.field("uint16", (None,))}
    with leat.Writer(path, fields) as w:
        for i in range(N):
            w.add(
                number=i,
                language=LANGUAGES[i % 3],
                domain=DOMAINS[i // 3 % 2],
                tokens=np.full(1 + i % 7, i, np.uint16),
            )
    return path


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("ids") / "d.leat")


@pytest.fixture
def ds(path: Path) -> leat.Dataset:
    return leat.open(path)


def opened(mix: Any, **more: Any) -> leat.Loader:
    options: dict[str, Any] = {
        "global_batch_size": 12,
        "rank": 0,
        "world_size": 1,
        "shuffle": True,
        "seed": 3,
        "framework": "numpy",
        "outputs": {"number": []},
        "tail": "uneven",
    }
    return leat.Loader(mix, **(options | more))


def check(loader: leat.Loader, batches: Iterable[leat.Batch] | None = None) -> int:
    """Every id says which sample it is, in the batch, in the plan and in the batch made again. Returns the rows."""
    rows = 0
    for batch in loader if batches is None else batches:
        assert batch.ids.tolist() == batch["number"].tolist()
        assert batch.ids.tolist() == loader.plan(batch.epoch, batch.step).tolist()
        assert batch.ids.tolist() == loader.batch_at(batch.epoch, batch.step).ids.tolist()
        rows += len(batch.ids)
    return rows


def parts(ds: leat.Dataset, **more: Any) -> leat.Mix:
    return leat.Mix.by(ds, "language", {"de": 0.5, "fr": 0.3, "en": 0.2}, exhausted="repeat", **more)


def mixes(ds: leat.Dataset) -> dict[str, Any]:
    view = ds[10:].where("domain = 'code'")
    nested = {"en": (0.5, {"books": 0.5, "code": 0.5}), "fr": 0.2, "de": (0.3, {"code": 1, ...: 0})}
    by = parts(ds)
    return {
        "by": by,
        "inferred": leat.Mix.inferred(ds, ("domain", "language"), exhausted="redistribute"),
        "nested": leat.Mix.by(ds, ("language", "domain"), nested, exhausted="redistribute"),
        "of a view of a view": leat.Mix.by(view, "language", {"en": 0.5, "fr": 0.5}, others="leave_out"),
        "other weights": by.with_weights({"fr": 0.9, "en": 0.1}),
        "schedule": leat.Schedule([(0, by), (4, by.with_weights({"fr": 1}))]),
        "all, the end first": leat.Mix({"end": (ds[100:], 0.5), "start": (ds[:100], 0.5)}, exhausted="repeat"),
        "scattered": leat.Mix({"a": (ds.select([7, 3, 90]), 0.5), "b": (ds[::-1][:50], 0.5)}, exhausted="repeat"),
        "overlapping": leat.Mix({"whole": (ds, 0.5), "again": (ds[:20], 0.5)}, exhausted="repeat"),
        "one source": leat.Mix({"only": (ds[30:60], 1)}),
    }


NAMES = [
    "by",
    "inferred",
    "nested",
    "of a view of a view",
    "other weights",
    "schedule",
    "all, the end first",
    "scattered",
    "overlapping",
    "one source",
]


@pytest.mark.parametrize("name", NAMES)
def test_an_id_is_that_of_the_data_set_that_was_divided(ds: leat.Dataset, name: str) -> None:
    with opened(mixes(ds)[name]) as loader:
        assert check(loader) >= 2
        check(loader)  # the second epoch


def test_ids_are_those_that_the_parts_themselves_have(ds: leat.Dataset) -> None:
    mix = parts(ds[5:])
    with opened(mix) as loader:
        for batch in loader:
            for i, k in zip(batch.ids.tolist(), batch.domains.tolist(), strict=True):
                assert i in mix.datasets[k].ids


def test_the_plan_names_source_and_position_of_each_row(ds: leat.Dataset) -> None:
    mix = parts(ds)
    with opened(mix) as loader:
        domains, positions = map(np.asarray, loader._core.plan_domains(0, 2))
        assert loader.batch_at(0, 2).domains.tolist() == domains.tolist()
        found = [int(mix.datasets[k].ids[p]) for k, p in zip(domains, positions, strict=True)]
        assert found == loader.plan(0, 2).tolist()


@pytest.mark.parametrize("world", [1, 2])
def test_ids_are_the_same_after_a_resume_on_any_ranks(ds: leat.Dataset, path: Path, world: int) -> None:
    with opened(parts(ds)) as whole:
        batches = iter(whole)
        check(whole, [next(batches) for _ in range(3)])
        state = json.loads(json.dumps(whole.state_dict()))
        rest = [batch.ids.tolist() for batch in batches]
    again = [opened(parts(leat.open(path)), rank=r, world_size=world) for r in range(world)]
    for loader in again:
        loader.load_state_dict(state)
    iterators = [iter(loader) for loader in again]
    for expected in rest:
        got = [b for it in iterators if (b := next(it, None)) is not None]
        for loader, batch in zip(again, got, strict=False):
            check(loader, [batch])
        assert [i for batch in got for i in batch.ids.tolist()] == expected


def test_a_mix_that_was_pickled_and_a_file_opened_again_keep_the_ids(ds: leat.Dataset, path: Path) -> None:
    mix = parts(ds)
    twice = leat.Mix({"a": (leat.open(path)[:50], 0.5), "b": (leat.open(path)[50:], 0.5)})
    assert leat.open(path).ids[50] == 50
    with opened(pickle.loads(pickle.dumps(mix))) as copy, opened(mix) as loader:
        assert copy.plan(0, 1).tolist() == loader.plan(0, 1).tolist()
        copy.load_state_dict(loader.state_dict())
    for made in (mix.with_weights({"en": 1}), twice, pickle.loads(pickle.dumps(twice))):
        with opened(pickle.loads(pickle.dumps(made))) as loader:
            assert check(loader)


def test_different_data_sets_have_the_ids_of_their_concatenation(ds: leat.Dataset, tmp_path: Path) -> None:
    other = leat.open(written(tmp_path / "other.leat"))
    extra = leat.from_arrays(number=np.arange(20))
    mixed = leat.Mix({"a": (leat.from_arrays(number=np.arange(50)), 0.5), "b": (extra, 0.5)}, exhausted="repeat")
    with opened(mixed) as loader:
        for batch in loader:
            assert batch.ids.tolist() == (batch["number"] + 50 * batch.domains).tolist()
    apart = leat.Mix({"a": (ds[10:], 0.5), "b": (other[:60], 0.5)}, exhausted="repeat")
    joined = leat.concat(ds[10:], other[:60])
    with opened(apart) as loader:
        assert all(np.isin(batch.ids, joined.ids).all() and batch.ids.max() >= N for batch in loader)


def test_documents_of_packed_rows_have_the_ids_of_the_data_set(ds: leat.Dataset) -> None:
    mix = parts(ds[6:]).map(lambda part: leat.pack_rows(part, "tokens", length=16, fill=65535))
    outputs: Any = {"tokens": [], "doc_ids": []}
    rows: dict[int, int] = {}
    with opened(mix, outputs=outputs) as loader:
        for batch in loader:
            tokens = np.where(batch["tokens"] == 65535, -1, batch["tokens"].astype(np.int64))
            assert (tokens == batch["doc_ids"]).all()
            rows |= dict(zip(batch.ids.tolist(), batch.domains.tolist(), strict=True))
            assert loader.plan(batch.epoch, batch.step).tolist() == batch.ids.tolist()
    begins = np.cumsum([0, *(len(part) for part in mix.datasets)])  # rows are numbered source by source
    assert all(begins[k] <= i < begins[k + 1] for i, k in rows.items())


def refuse(number: Any) -> Any:
    if number % 40 == 7:
        raise ValueError(f"no {number}")
    return number


def test_what_is_said_of_broken_samples_names_them_by_these_ids(ds: leat.Dataset, tmp_path: Path) -> None:
    outputs: Any = {"number": [leat.ops.Map(refuse, returns=leat.field("int64"))]}
    report = tmp_path / "errors.jsonl"
    broken = {7, 47, 87}
    said = set()
    with opened(parts(ds), outputs=outputs, on_error="skip", error_report=report) as loader:
        for batch in loader:
            planned = loader.plan(batch.epoch, batch.step).tolist()
            assert batch.ids.tolist() == batch["number"].tolist() == [i for i in planned if i not in broken]
            said |= {error.planned for error in batch.errors}
    assert said == broken
    assert {json.loads(line)["planned"] for line in report.read_text().splitlines()} == broken
    with opened(parts(ds), outputs=outputs) as loader, pytest.raises(ValueError) as raised:
        list(loader)
    assert any(f"for sample {i}," in str(raised.value) and f"no {i}" in str(raised.value) for i in broken)
    with opened(parts(ds), outputs=outputs, on_error="substitute") as loader:
        for batch in loader:
            assert batch.ids.tolist() == batch["number"].tolist()
            assert all(error.delivered in batch.ids for error in batch.errors)


def test_replay_hashes_these_ids(ds: leat.Dataset, path: Path, tmp_path: Path) -> None:
    (tmp_path / "run.py").write_text(
        f"import leat\nds = leat.open({str(path)!r})\n"
        'mix = leat.Mix.by(ds, "language", {"de": 0.5, "fr": 0.3, "en": 0.2}, exhausted="repeat")\n'
    )
    with opened(parts(ds)) as loader:
        next(iter(loader))
        (tmp_path / "state.json").write_text(json.dumps(loader.state_dict()))
        lines = [
            f"epoch 0 step {step}: 12 rows {hashlib.sha256(loader.plan(0, step).tobytes()).hexdigest()[:16]}"
            for step in range(3)
        ]
    env = {**os.environ, "LEAT_PYTHON": sys.executable}
    told = command("replay", "--log", tmp_path / "state.json", "--steps", 3, f"{tmp_path / 'run.py'}:mix", env=env)
    assert told.stdout.splitlines()[:3] == lines
